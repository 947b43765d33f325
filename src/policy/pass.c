/* One run of the network: what callers see of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/net.h"

stw_status stw_tape_zeros(stw_backend *b, stw_tape *tape, int64_t count, void **out, stw_error *error) {
    TRY(stw_tape_reals(tape, count, out, error));
    b->zero(b, *out, count * (int64_t)b->real_bytes);
    return STW_OK;
}

static stw_status make_memory(stw_pass *pass, stw_error *error) {
    stw_backend *b = pass->net->backend;
    TRY(stw_arena_create(&pass->scratch, error));
    TRY(stw_tape_create(b, &pass->input_tape, error));
    TRY(stw_tape_create(b, &pass->placement_tape, error));
    TRY(stw_tape_create(b, &pass->schedule_tape, error));
    TRY(stw_tape_create(b, &pass->back_tape, error));
    return stw_tape_create(b, &pass->layer_tape, error);
}

stw_status stw_pass_create(stw_net *net, stw_pass **out, stw_error *error) {
    *out = NULL;
    stw_pass *pass = calloc(1, sizeof *pass);
    if (pass == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (a pass of the network)");
    pass->net = net;
    const stw_status status = make_memory(pass, error);
    if (status != STW_OK) {
        stw_pass_destroy(pass);
        return status;
    }
    *out = pass;
    return STW_OK;
}

void stw_pass_destroy(stw_pass *pass) {
    if (pass == NULL) return;
    stw_tape_destroy(pass->input_tape);
    stw_tape_destroy(pass->placement_tape);
    stw_tape_destroy(pass->schedule_tape);
    stw_tape_destroy(pass->back_tape);
    stw_tape_destroy(pass->layer_tape);
    stw_arena_destroy(&pass->scratch);
    free(pass);
}

int32_t stw_pass_placement_width(const stw_pass *pass) {
    return pass->net->config.placement == STW_PLACEMENT_STEER ? STW_STEER_KNOBS : pass->input.D;
}

int32_t stw_pass_schedule_width(const stw_pass *pass) {
    return pass->net->config.schedule == STW_SCHEDULE_NUDGE ? 1 : pass->net->config.classes;
}

static stw_status placement_on_host(stw_pass *pass, double *out, stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t width = stw_pass_placement_width(pass);
    if (net->config.placement == STW_PLACEMENT_STEER)
        return stw_spread_forward(pass, &net->steer_common, pass->placement_out, 1, width, out, error);
    stw_reals_out(net->backend, out, pass->placement_out, (int64_t)pass->input.M * width, pass->scratch);
    return STW_OK;
}

static stw_status schedule_on_host(stw_pass *pass, double *out, stw_error *error) {
    const stw_net *net = pass->net;
    const int32_t width = stw_pass_schedule_width(pass);
    if (net->config.schedule == STW_SCHEDULE_NUDGE)
        return stw_spread_forward(pass, &net->nudge_common, pass->schedule_out, pass->K, width, out, error);
    stw_reals_out(net->backend, out, pass->schedule_out, (int64_t)pass->K * pass->input.M * width, pass->scratch);
    return STW_OK;
}

stw_status stw_pass_placement(stw_pass *pass, double *out, stw_error *error) {
    if (!pass->has_input) return stw_fail(error, STW_ERROR_INPUT, "the network has no input; call stw_pass_set_input first");
    pass->placed = false;
    pass->K = 0;
    stw_tape_reset(pass->placement_tape);
    TRY(stw_trunk_forward(pass, error));
    TRY(stw_placement_forward(pass, error));
    TRY(stw_placement_head_forward(pass, error));
    pass->placed = true;
    return placement_on_host(pass, out, error);
}

static stw_status schedule(stw_pass *pass, const double *action, stw_error *error) {
    stw_tape_reset(pass->schedule_tape);
    TRY(stw_schedule_forward(pass, action, error));
    return stw_schedule_head_forward(pass, error);
}

stw_status stw_pass_schedule(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error) {
    if (!pass->placed) return stw_fail(error, STW_ERROR_INPUT, "no placement to schedule; call stw_pass_placement first");
    if (K < 1 || (int64_t)K * pass->input.M > INT32_MAX)
        return stw_fail(error, STW_ERROR_INPUT, "%d samples of %d rows; 1 or more samples, and at most 2^31 rows in all", K,
                        pass->input.M);
    pass->K = K;
    const stw_status status = schedule(pass, action, error);
    if (status != STW_OK) {
        pass->K = 0;
        return status;
    }
    return schedule_on_host(pass, out, error);
}

/* A gradient from the host. */
static stw_status bring(stw_pass *pass, const double *from, int64_t count, void **out, stw_error *error) {
    TRY(stw_tape_reals(pass->back_tape, count, out, error));
    stw_reals_in(pass->net->backend, *out, from, count, pass->scratch);
    return STW_OK;
}

/* Samples up to the last with a gradient; those after it, as the greedy one, need no way back. */
static int32_t samples_that_count(const stw_pass *pass, const double *d_schedule) {
    const int64_t each = (int64_t)pass->input.M * stw_pass_schedule_width(pass);
    int64_t count = pass->K * each;
    while (count > 0 && d_schedule[count - 1] == 0.0) count--;
    return (int32_t)((count + each - 1) / each);
}

static stw_status samples_back(stw_pass *pass, const double *d_schedule, void *d_h1, void *d_device, stw_error *error) {
    const int64_t rows = (int64_t)pass->K * pass->input.M;
    void *d_out = NULL, *d_h = NULL;
    if (pass->net->config.schedule == STW_SCHEDULE_NUDGE) {
        TRY(stw_spread_backward(pass, &pass->net->nudge_common, pass->schedule_out, pass->K, 1, d_schedule, pass->d_graph, &d_out,
                                error));
    } else {
        TRY(bring(pass, d_schedule, rows * stw_pass_schedule_width(pass), &d_out, error));
    }
    TRY(stw_tape_reals(pass->back_tape, rows * pass->net->config.width, &d_h, error));
    TRY(stw_schedule_head_backward(pass, d_out, d_h, error));
    return stw_schedule_backward(pass, d_h, d_h1, d_device, error);
}

static stw_status schedule_back(stw_pass *pass, const double *d_schedule, void *d_h1, void *d_device, stw_error *error) {
    const int32_t K = pass->K;
    int32_t *rows = &pass->schedule.block.shape.rows;
    pass->K = samples_that_count(pass, d_schedule);
    *rows = pass->K * pass->input.M;
    const stw_status status = pass->K > 0 ? samples_back(pass, d_schedule, d_h1, d_device, error) : STW_OK;
    pass->K = K;
    *rows = K * pass->input.M;
    return status;
}

stw_status stw_pass_backward(stw_pass *pass, const double *d_placement, const double *d_schedule, stw_error *error) {
    if (!pass->placed || (d_schedule != NULL && pass->K == 0))
        return stw_fail(error, STW_ERROR_INPUT,
                        "no forward pass to go back through; call stw_pass_placement and _schedule first");
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int64_t M = pass->input.M, D = pass->input.D, size = M * net->config.width;
    const bool device = net->config.placement == STW_PLACEMENT_DEVICE;
    void *d_out = NULL, *d_h1 = NULL, *d_device = NULL, *d_x = NULL;
    stw_tape_reset(pass->back_tape);
    TRY(stw_tape_zeros(b, pass->back_tape, size, &d_h1, error));
    TRY(stw_tape_reals(pass->back_tape, size, &d_x, error));
    TRY(stw_tape_zeros(b, pass->back_tape, net->config.width, &pass->d_graph, error));
    TRY(stw_tape_zeros(b, pass->back_tape, size, &pass->d_x0, error));
    if (device) TRY(stw_tape_zeros(b, pass->back_tape, D * net->config.score_width, &d_device, error));
    if (d_schedule != NULL) TRY(schedule_back(pass, d_schedule, d_h1, d_device, error));
    if (d_placement != NULL) {
        if (device) {
            TRY(bring(pass, d_placement, M * D, &d_out, error));
        } else {
            TRY(stw_spread_backward(pass, &net->steer_common, pass->placement_out, 1, STW_STEER_KNOBS, d_placement, pass->d_graph,
                                    &d_out, error));
        }
        TRY(stw_placement_head_backward(pass, d_out, d_h1, d_device, error));
    }
    if (device) TRY(stw_device_backward(pass, d_device, error));
    TRY(stw_placement_backward(pass, d_h1, d_x, error));
    return stw_trunk_backward(pass, d_x, error);
}

typedef struct {
    const void *at;
    int32_t rows, cols;
} view;

/* The layer that `name` = "<kind>.<number>" means, or -1. */
static int32_t layer_of(const char *name, const char *kind, int32_t layers) {
    char expected[32];
    for (int32_t l = 0; l < layers; l++) {
        snprintf(expected, sizeof expected, "%s.%d", kind, l);
        if (strcmp(name, expected) == 0) return l;
    }
    return -1;
}

static bool find(const stw_pass *pass, const char *name, view *out) {
    const stw_policy_config *c = &pass->net->config;
    const int32_t M = pass->input.M, sage = layer_of(name, "sage", c->sage_layers);
    const int32_t attention = layer_of(name, "attention", c->attention_layers);
    *out = (view){NULL, M, c->width};
    if (strcmp(name, "input") == 0) out->at = pass->x0;
    if (sage >= 0) out->at = pass->sage[sage].y;
    if (attention >= 0) out->at = pass->attention[attention].y;
    if (strcmp(name, "graph") == 0) *out = (view){pass->graph, 1, c->width};
    if (strcmp(name, "placement.hidden") == 0) out->at = pass->placement.block.y;
    if (strcmp(name, "placement.out") == 0 || (strcmp(name, "placement.raw") == 0 && c->placement == STW_PLACEMENT_STEER))
        *out = (view){pass->placement_out, M, stw_pass_placement_width(pass)};
    if (pass->K == 0) return out->at != NULL;
    if (strcmp(name, "schedule.hidden") == 0) *out = (view){pass->schedule.block.y, pass->K * M, c->width};
    if (strcmp(name, "schedule.out") == 0 || (strcmp(name, "schedule.raw") == 0 && c->schedule == STW_SCHEDULE_NUDGE))
        *out = (view){pass->schedule_out, pass->K * M, stw_pass_schedule_width(pass)};
    return out->at != NULL;
}

bool stw_pass_look(const stw_pass *pass, const char *name, int32_t *rows, int32_t *cols, double *out, stw_arena scratch) {
    view v = {0};
    if (!pass->placed || !find(pass, name, &v)) return false;
    *rows = v.rows;
    *cols = v.cols;
    if (out == NULL) return true;
    stw_pass copy = *pass; /* because the heads' last step uses the tape of a layer */
    copy.scratch = scratch;
    if (strcmp(name, "placement.out") == 0) return placement_on_host(&copy, out, NULL) == STW_OK;
    if (strcmp(name, "schedule.out") == 0) return schedule_on_host(&copy, out, NULL) == STW_OK;
    stw_reals_out(pass->net->backend, out, v.at, (int64_t)v.rows * v.cols, scratch);
    return true;
}
