/* Small inputs for networks, and what tests do with them. Everything comes from one seed. */
#ifndef STW_TESTS_POLICY_EXAMPLE_H
#define STW_TESTS_POLICY_EXAMPLE_H

#include <stdlib.h>

#include "policy/policy.h"
#include "test.h"

static inline double *example_normal(stw_rng *rng, int64_t count) {
    double *out = malloc((size_t)(count > 0 ? count : 1) * sizeof *out);
    for (int64_t i = 0; i < count; i++) out[i] = stw_rng_normal(rng);
    return out;
}

/* Both heads of each task: `device` with `class` where set, else `steer` with `nudge`. */
static inline stw_policy_config example_config(bool device, int32_t segment) {
    stw_policy_config c = {.feature_version = 1,
                           .unit_columns = 4,
                           .feedback_columns = device ? 0 : 2,
                           .device_columns = 3,
                           .pair_columns = device ? 0 : 3,
                           .operators = 5,
                           .operator_width = 3,
                           .width = 8,
                           .pair_width = device ? 0 : 4,
                           .sage_layers = 2,
                           .attention_layers = 2,
                           .heads = 2,
                           .inner = 6,
                           .segment = segment,
                           .modulation = 1,
                           .placement = device ? STW_PLACEMENT_DEVICE : STW_PLACEMENT_STEER,
                           .schedule = device ? STW_SCHEDULE_CLASS : STW_SCHEDULE_NUDGE,
                           .classes = device ? 3 : 0,
                           .score_width = device ? 8 : 0};
    return c;
}

typedef struct example {
    stw_net_input input;
    int32_t K;
    double *action; /* (K, M, 4) or (K, M) */
    double *fusion; /* (K, M) decisions of a network with fusion */
    double *unit, *feedback, *pair, *proposal, *device;
    int32_t *operator_, *start[2], *item[2];
} example;

static inline example example_make(const stw_policy_config *c, int32_t M, int32_t D, int32_t K, uint64_t seed) {
    stw_rng rng = stw_rng_create(seed);
    example e = {.K = K};
    e.unit = example_normal(&rng, (int64_t)M * c->unit_columns);
    e.feedback = example_normal(&rng, (int64_t)M * c->feedback_columns);
    e.pair = example_normal(&rng, (int64_t)M * D * c->pair_columns);
    e.device = example_normal(&rng, (int64_t)D * c->device_columns);
    e.operator_ = malloc((size_t)M * sizeof *e.operator_);
    for (int32_t r = 0; r < M; r++) e.operator_[r] = (int32_t)stw_rng_below(&rng, c->operators);
    bool *edge = calloc((size_t)M * (size_t)M, sizeof *edge); /* (reader, producer) */
    for (int32_t r = 1; r < M; r++) {
        for (int64_t n = stw_rng_below(&rng, 4); n > 0; n--) edge[(int64_t)r * M + stw_rng_below(&rng, r)] = true;
    }
    for (int32_t way = 0; way < 2; way++) {
        e.start[way] = calloc((size_t)M + 1, sizeof *e.start[way]);
        e.item[way] = calloc((size_t)M * 3 + 1, sizeof *e.item[way]);
        for (int32_t a = 0, n = 0; a < M; a++) {
            for (int32_t b = 0; b < M; b++) {
                if (way == 0 ? edge[(int64_t)a * M + b] : edge[(int64_t)b * M + a]) e.item[way][n++] = b;
            }
            e.start[way][a + 1] = n;
        }
    }
    free(edge);
    const bool choose = c->placement == STW_PLACEMENT_DEVICE;
    e.action = example_normal(&rng, (int64_t)K * M * STW_STEER_KNOBS);
    for (int32_t r = 0; choose && r < K * M; r++) e.action[r] = (double)stw_rng_below(&rng, D);
    stw_rng own = stw_rng_split(&rng, 1); /* so that networks without fusion get what they always got */
    e.fusion = example_normal(&own, (int64_t)K * M);
    for (int32_t r = 0; c->fusion_classes > 0 && r < K * M; r++) e.fusion[r] = (double)stw_rng_below(&own, c->fusion_classes);
    stw_rng proposed = stw_rng_split(&rng, 2);
    e.proposal = example_normal(&proposed, (int64_t)M * c->proposal_columns);
    e.input = (stw_net_input){.M = M,
                              .D = D,
                              .unit = e.unit,
                              .feedback = e.feedback,
                              .pair = e.pair,
                              .proposal = e.proposal,
                              .device = e.device,
                              .operator_ = e.operator_,
                              .producer_start = e.start[0],
                              .producer = e.item[0],
                              .reader_start = e.start[1],
                              .reader = e.item[1]};
    return e;
}

static inline void example_free(example *e) {
    void *all[] = {e->action, e->fusion,    e->unit,     e->feedback, e->pair,    e->proposal,
                   e->device, e->operator_, e->start[0], e->start[1], e->item[0], e->item[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Of a network of one draft. */
static inline stw_status back_through(stw_pass *pass, const double *d_fusion, const double *d_placement, const double *d_schedule,
                                      stw_error *error) {
    return stw_pass_backward(pass, &(stw_net_gradient){d_fusion, d_placement, d_schedule}, error);
}

/* No parameter stays at a start that hides what it does. */
static inline void example_shake(stw_net *net, uint64_t seed, stw_arena scratch) {
    stw_parameters *p = stw_net_parameters(net);
    stw_rng rng = stw_rng_create(seed);
    for (int32_t i = 0; i < p->count; i++) {
        const int64_t count = (int64_t)p->entry[i].rows * p->entry[i].cols;
        double *value = example_normal(&rng, count);
        for (int64_t k = 0; k < count; k++) value[k] = 0.4 * value[k] + (p->entry[i].start == STW_START_ONE ? 1.0 : 0.0);
        stw_reals_in(p->backend, stw_parameter_value(p, i), value, count, scratch);
        free(value);
    }
}

#endif
