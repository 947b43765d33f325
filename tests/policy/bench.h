/* A small network with an input, and a loss to differentiate: the sum of all outputs, each times a weight. */
#ifndef STW_TESTS_POLICY_BENCH_H
#define STW_TESTS_POLICY_BENCH_H

#include <math.h>
#include <string.h>

#include "policy/example.h"
#include "support/reference_backend.h"

typedef struct bench {
    stw_arena arena;
    stw_backend *backend;
    stw_net *net;
    stw_pass *pass;
    example e;
    double *out[3], *weight[3]; /* of placement, schedule and fusion: the loss is their product */
    int64_t size[3];
    bool fuses;
} bench;

static inline void open_bench(bench *b, const stw_policy_config *c, stw_backend *backend, int32_t M, int32_t K) {
    stw_error error = {0};
    *b = (bench){.backend = backend, .e = example_make(c, M, 3, K, 7)};
    CHECK(stw_arena_create(&b->arena, &error) == STW_OK);
    CHECK(stw_net_create(c, backend, 3, &b->net, &error) == STW_OK);
    example_shake(b->net, 11, b->arena);
    CHECK(stw_pass_create(b->net, &b->pass, &error) == STW_OK);
    CHECK(stw_pass_set_input(b->pass, &b->e.input, &error) == STW_OK);
    CHECK_STR(error.message, "");
    b->fuses = c->fusion != STW_FUSION_HEAD_NONE;
    b->size[0] = (int64_t)(b->fuses ? K : 1) * M * stw_pass_placement_width(b->pass);
    b->size[1] = (int64_t)K * M * stw_pass_schedule_width(b->pass);
    b->size[2] = (int64_t)M * stw_pass_fusion_width(b->pass);
    stw_rng rng = stw_rng_create(5);
    for (int t = 0; t < 3; t++) {
        b->out[t] = STW_NEW(&b->arena, double, b->size[t]);
        b->weight[t] = example_normal(&rng, b->size[t]);
    }
}

/* As a new network would be. */
static inline void forget_bench(bench *b) {
    stw_net *fresh = NULL;
    CHECK(stw_net_create(stw_net_config(b->net), b->backend, 3, &fresh, NULL) == STW_OK);
    const stw_parameters *from = stw_net_parameters(fresh);
    memcpy(stw_net_parameters(b->net)->value, from->value, (size_t)from->total * b->backend->real_bytes);
    stw_net_destroy(fresh);
}

static inline void close_bench(bench *b) {
    for (int t = 0; t < 3; t++) free(b->weight[t]);
    example_free(&b->e);
    stw_pass_destroy(b->pass);
    stw_net_destroy(b->net);
    stw_backend_destroy(b->backend);
    stw_arena_destroy(&b->arena);
    test_context("%s", "");
}

static inline double loss_of(bench *b) {
    stw_error error = {0};
    if (b->fuses) {
        CHECK(stw_pass_fusion(b->pass, b->out[2], &error) == STW_OK);
        CHECK(stw_pass_place(b->pass, b->e.K, b->e.fusion, b->out[0], &error) == STW_OK);
    } else {
        CHECK(stw_pass_placement(b->pass, b->out[0], &error) == STW_OK);
    }
    CHECK(stw_pass_schedule(b->pass, b->e.K, b->e.action, b->out[1], &error) == STW_OK);
    double loss = 0.0;
    for (int t = 0; t < 3; t++) {
        for (int64_t i = 0; i < b->size[t]; i++) loss += b->weight[t][i] * b->out[t][i];
    }
    return loss;
}

static inline stw_backend *oracle(void) {
    stw_backend *backend = NULL;
    CHECK(stw_backend_reference(sizeof(double), &backend, NULL) == STW_OK);
    return backend;
}

static inline stw_backend *cpu(stw_pool *pool) {
    stw_backend *backend = NULL;
    CHECK(stw_backend_cpu(pool, &backend, NULL) == STW_OK);
    return backend;
}

/* Moves one number of a parameter by `by`. */
static inline double nudged_loss(bench *b, double *value, double by) {
    const double before = *value;
    *value = before + by;
    const double loss = loss_of(b);
    *value = before;
    return loss;
}

static inline void back_of(bench *b) {
    stw_parameters_zero_gradient(stw_net_parameters(b->net));
    CHECK(back_through(b->pass, b->fuses ? b->weight[2] : NULL, b->weight[0], b->weight[1], NULL) == STW_OK);
}

/* Of the loss by one number of a parameter. */
static inline double slope_of(bench *b, double *value, double by) {
    return (nudged_loss(b, value, by) - nudged_loss(b, value, -by)) / (2.0 * by);
}

/* Some entries of every parameter. M fits one segment, because gradients end at the memory of the segment before and
 * differences do not. */
static inline void check_gradients(stw_policy_config c) {
    bench b;
    open_bench(&b, &c, oracle(), 9, 2);
    const stw_parameters *p = stw_net_parameters(b.net);
    loss_of(&b);
    back_of(&b);
    const double by = 1e-6;
    for (int32_t i = 0; i < p->count; i++) {
        double *value = stw_parameter_value(p, i);
        const double *gradient = stw_parameter_gradient(p, i);
        const int32_t count = p->entry[i].rows * p->entry[i].cols;
        double worst = 0.0, size = 0.0;
        for (int32_t k = 0; k < count; k += 1 + count / 16) {
            const double slope = slope_of(&b, &value[k], by);
            worst = fmax(worst, fabs(slope - gradient[k]));
            size = fmax(size, fabs(slope));
        }
        test_context("%s", p->entry[i].name);
        CHECK_NEAR(worst, 0.0, 2e-7 * (1.0 + size));
        if (strcmp(p->entry[i].name, "operator.table") != 0) CHECK(size > 1e-4); /* it counts; some operators do not occur */
    }
    close_bench(&b);
}

#endif
