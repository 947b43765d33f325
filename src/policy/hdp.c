#include "policy/hdp.h"

#include <math.h>
#include <stdlib.h>

#include "policy/hdp_state.h"

static const double START = 1.0; /* scale of the weights: uniform in +-1 / sqrt(inputs) */

static stw_status check(const stw_hdp_config *c, stw_error *error) {
    static const int32_t MOST = 1 << 16;
    const int32_t size[] = {c->columns, c->hidden, c->groups, c->devices, c->embedding, c->width};
    for (int32_t i = 0; i < 6; i++) {
        if (size[i] < 1 || size[i] > MOST)
            return stw_fail(error, STW_ERROR_INPUT,
                            "a planner of %d columns, %d hidden, %d groups, %d devices, %d columns per group "
                            "and width %d; each must be from 1 to %d",
                            size[0], size[1], size[2], size[3], size[4], size[5], MOST);
    }
    if (c->width % 2 != 0) return stw_fail(error, STW_ERROR_INPUT, "a planner of width %d; it must be even", c->width);
    return STW_OK;
}

static void declare(stw_hdp *hdp) {
    const stw_hdp_config *c = &hdp->config;
    stw_parameters *p = &hdp->p;
    const int32_t half = c->width / 2;
    hdp->hide = stw_linear_declare(p, "grouper.hide", c->columns, c->hidden, false, false, START);
    hdp->group = stw_linear_declare(p, "grouper.group", c->hidden, c->groups, false, false, START * c->sharpness);
    hdp->forwards = stw_lstm_declare(p, "encoder.forwards", c->embedding, half);
    hdp->backwards = stw_lstm_declare(p, "encoder.backwards", c->embedding, half);
    hdp->from_first = stw_linear_declare(p, "memory.forwards", half, c->width, false, false, START);
    hdp->from_last = stw_linear_declare(p, "memory.backwards", half, c->width, false, false, START);
    hdp->decoder = stw_lstm_declare(p, "decoder", c->width, c->width);
    hdp->query = stw_linear_declare(p, "query", c->width, c->width, false, false, START);
    hdp->head_state = stw_linear_declare(p, "head.state", c->width, c->devices, false, false, START);
    hdp->head_value = stw_linear_declare(p, "head.value", c->width, c->devices, false, false, START);
    hdp->devices = stw_parameters_declare(p, c->devices + 1, c->width, STW_START_UNIFORM, START, "devices");
    hdp->score = stw_parameters_declare(p, 1, c->width, STW_START_UNIFORM, START, "score");
}

static stw_status make(stw_hdp *hdp, uint64_t seed, stw_error *error) {
    declare(hdp);
    const stw_rng rng = stw_rng_create(seed);
    TRY(stw_parameters_allocate(&hdp->p, &rng, error));
    TRY(stw_arena_create(&hdp->arena, error));
    TRY(stw_arena_create(&hdp->host, error));
    hdp->host_begin = hdp->host;
    TRY(stw_tape_create(hdp->backend, &hdp->input_tape, error));
    TRY(stw_tape_create(hdp->backend, &hdp->place_tape, error));
    return stw_tape_create(hdp->backend, &hdp->back_tape, error);
}

stw_status stw_hdp_create(const stw_hdp_config *config, stw_backend *backend, stw_pool *pool, uint64_t seed, stw_hdp **out,
                          stw_error *error) {
    *out = NULL;
    TRY(check(config, error));
    stw_hdp *hdp = calloc(1, sizeof *hdp);
    if (hdp == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (the planner's network)");
    hdp->config = *config;
    hdp->backend = hdp->p.backend = backend;
    hdp->pool = pool;
    const stw_status status = make(hdp, seed, error);
    if (status != STW_OK) {
        stw_hdp_destroy(hdp);
        return status;
    }
    *out = hdp;
    return STW_OK;
}

void stw_hdp_destroy(stw_hdp *hdp) {
    if (hdp == NULL) return;
    stw_tape_destroy(hdp->input_tape);
    stw_tape_destroy(hdp->place_tape);
    stw_tape_destroy(hdp->back_tape);
    stw_arena_destroy(&hdp->arena);
    stw_arena_destroy(&hdp->host_begin);
    stw_parameters_release(&hdp->p);
    free(hdp);
}

stw_parameters *stw_hdp_parameters(stw_hdp *hdp) { return &hdp->p; }

void stw_hdp_log_softmax(int32_t count, double *logits) {
    double most = logits[0], sum = 0.0;
    for (int32_t i = 1; i < count; i++) most = fmax(most, logits[i]);
    for (int32_t i = 0; i < count; i++) sum += exp(logits[i] - most);
    const double shift = most + log(sum);
    for (int32_t i = 0; i < count; i++) logits[i] -= shift;
}

stw_status stw_hdp_backward(stw_hdp *hdp, const double *weight, const int32_t *group, const int32_t *device, stw_error *error) {
    if (!hdp->grouped || !hdp->placed)
        return stw_fail(error, STW_ERROR_INPUT, "no draw to go back through; call stw_hdp_group and stw_hdp_place first");
    hdp->grouped = hdp->placed = false;
    stw_hdp_grouper_backward(hdp, weight, group);
    return stw_hdp_placer_backward(hdp, weight, device, error);
}
