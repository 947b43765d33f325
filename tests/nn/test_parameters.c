/* nn/parameters and the tape. */
#include "nn/parameters.h"

#include <math.h>
#include <string.h>

#include "nn/layers.h"
#include "support/reference_backend.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_backend *b;
    stw_parameters *p;
} setting;

static bool open_setting(setting *s) {
    stw_error error = {0};
    *s = (setting){0};
    return CHECK_EQ_INT(stw_arena_create(&s->arena, &error), STW_OK) &&
           CHECK_EQ_INT(stw_backend_reference(8, &s->b, &error), STW_OK) &&
           CHECK((s->p = STW_NEW(&s->arena, stw_parameters, 1)) != NULL) && (s->p->backend = s->b) != NULL;
}

static void close_setting(setting *s) {
    stw_parameters_release(s->p);
    stw_backend_destroy(s->b);
    stw_arena_destroy(&s->arena);
}

TEST(parameters, start_as_declared) {
    setting s;
    stw_error error = {0};
    if (!open_setting(&s)) return;
    const int32_t zero = stw_parameters_declare(s.p, 1, 3, STW_START_ZERO, 0.0, "zero");
    const int32_t one = stw_parameters_declare(s.p, 2, 9, STW_START_ONE, 0.0, "one.%d", 7);
    const int32_t uniform = stw_parameters_declare(s.p, 100, 25, STW_START_UNIFORM, 2.0, "uniform");
    const int32_t normal = stw_parameters_declare(s.p, 100, 100, STW_START_NORMAL, 0.5, "normal");
    const stw_rng rng = stw_rng_create(1);
    if (!CHECK_EQ_INT(stw_parameters_allocate(s.p, &rng, &error), STW_OK)) return;
    CHECK_EQ_INT(s.p->entry[one].offset, 16);
    CHECK_EQ_INT(s.p->entry[uniform].offset, 48);
    CHECK_EQ_INT(stw_parameters_find(s.p, "one.7"), one);
    CHECK_EQ_INT(stw_parameters_find(s.p, "one"), -1);
    CHECK_NEAR(((double *)stw_parameter_value(s.p, zero))[2], 0.0, 0.0);
    CHECK_NEAR(((double *)stw_parameter_value(s.p, one))[17], 1.0, 0.0);
    const double *u = stw_parameter_value(s.p, uniform), *n = stw_parameter_value(s.p, normal);
    double low = 0.0, high = 0.0, squares = 0.0;
    for (int k = 0; k < 2500; k++) {
        low = fmin(low, u[k]);
        high = fmax(high, u[k]);
    }
    CHECK_NEAR(low, -0.4, 0.01); /* 2 / sqrt(25) */
    CHECK_NEAR(high, 0.4, 0.01);
    CHECK(low >= -0.4 && high <= 0.4);
    for (int k = 0; k < 10000; k++) squares += n[k] * n[k] / 10000;
    CHECK_NEAR(sqrt(squares), 0.5, 0.02);
    close_setting(&s);
}

TEST(parameters, start_by_name_alone) {
    double first = 0.0;
    for (int others = 0; others < 2; others++) {
        setting s;
        stw_error error = {0};
        if (!open_setting(&s)) return;
        if (others > 0) stw_parameters_declare(s.p, 3, 3, STW_START_NORMAL, 1.0, "another");
        const int32_t index = stw_parameters_declare(s.p, 3, 3, STW_START_NORMAL, 1.0, "weight");
        const stw_rng rng = stw_rng_create(1);
        if (!CHECK_EQ_INT(stw_parameters_allocate(s.p, &rng, &error), STW_OK)) return;
        const double value = ((double *)stw_parameter_value(s.p, index))[0];
        if (others == 0) first = value;
        CHECK(value != 0.0 && value == first);
        if (others > 0) CHECK(((double *)stw_parameter_value(s.p, 0))[0] != first);
        close_setting(&s);
    }
}

TEST(parameters, refuse_two_of_a_name_and_too_many) {
    setting s;
    stw_error error = {0};
    const stw_rng rng = stw_rng_create(1);
    if (!open_setting(&s)) return;
    for (int i = 0; i < 2; i++) stw_parameters_declare(s.p, 1, 1, STW_START_ZERO, 0.0, "twin");
    CHECK_EQ_INT(stw_parameters_allocate(s.p, &rng, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "twin");
    close_setting(&s);
    if (!open_setting(&s)) return;
    for (int i = 0; i <= STW_MAX_PARAMETERS; i++) stw_parameters_declare(s.p, 1, 1, STW_START_ZERO, 0.0, "p%d", i);
    CHECK_EQ_INT(stw_parameters_allocate(s.p, &rng, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "256");
    close_setting(&s);
}

/* Gradient (3, 4): norm 5. */
static stw_parameters *two_numbers(setting *s) {
    stw_error error = {0};
    const stw_rng rng = stw_rng_create(1);
    stw_parameters_declare(s->p, 1, 2, STW_START_ONE, 0.0, "x");
    CHECK_EQ_INT(stw_parameters_allocate(s->p, &rng, &error), STW_OK);
    ((double *)s->p->gradient)[0] = 3.0;
    ((double *)s->p->gradient)[1] = 4.0;
    return s->p;
}

TEST(parameters, update_clips_and_steps) {
    setting s;
    if (!open_setting(&s)) return;
    stw_parameters *p = two_numbers(&s);
    const double *value = p->value, *first = p->first, *second = p->second;
    CHECK_NEAR(stw_parameters_update(p, 0.0, 1.0), 5.0, 1e-15);
    CHECK_EQ_INT(p->step, 0);
    CHECK_NEAR(value[0], 1.0, 0.0);
    CHECK_NEAR(stw_parameters_update(p, 0.1, 1.0), 5.0, 1e-15); /* cut to (0.6, 0.8) */
    CHECK_EQ_INT(p->step, 1);
    CHECK_NEAR(first[0], 0.1 * 0.6, 1e-15);
    CHECK_NEAR(second[1], 0.001 * 0.64, 1e-15);
    CHECK_NEAR(value[0], 0.9, 1e-8); /* the first step is the rate, whatever the gradient */
    CHECK_NEAR(value[1], 0.9, 1e-8);
    CHECK_NEAR(stw_parameters_update(p, 0.1, 0.0), 5.0, 1e-15); /* not cut */
    CHECK_NEAR(first[1], 0.9 * 0.08 + 0.1 * 4.0, 1e-15);
    CHECK_NEAR(stw_parameters_update(p, 0.1, 7.0), 5.0, 1e-15); /* nothing to cut */
    CHECK_NEAR(first[1], 0.9 * (0.9 * 0.08 + 0.1 * 4.0) + 0.1 * 4.0, 1e-15);
    stw_parameters_zero_gradient(p);
    CHECK_NEAR(stw_parameters_update(p, 0.0, 0.0), 0.0, 0.0);
    close_setting(&s);
}

TEST(parameters, update_refuses_what_is_no_number) {
    setting s;
    if (!open_setting(&s)) return;
    stw_parameters *p = two_numbers(&s);
    ((double *)p->gradient)[1] = (double)NAN;
    CHECK(isnan(stw_parameters_update(p, 0.1, 1.0)));
    CHECK_EQ_INT(p->step, 0);
    CHECK_NEAR(((double *)p->value)[0], 1.0, 0.0);
    close_setting(&s);
}

TEST(reals, go_in_and_come_out) {
    enum { COUNT = 10001 };
    for (size_t bytes = 4; bytes <= 8; bytes += 4) {
        stw_error error = {0};
        stw_arena arena = {0};
        stw_backend *b = NULL;
        void *reals = NULL;
        if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
        if (!CHECK_EQ_INT(stw_backend_reference(bytes, &b, &error), STW_OK)) return;
        if (!CHECK_EQ_INT(b->allocate(b, COUNT * (int64_t)bytes, &reals, &error), STW_OK)) return;
        double *from = STW_NEW(&arena, double, COUNT), *to = STW_NEW(&arena, double, COUNT);
        for (int k = 0; k < COUNT; k++) from[k] = k * 0.25;
        stw_reals_in(b, reals, from, COUNT, arena);
        stw_reals_out(b, to, reals, COUNT, arena);
        CHECK(memcmp(from, to, sizeof(double) * COUNT) == 0);
        b->release(b, reals);
        stw_backend_destroy(b);
        stw_arena_destroy(&arena);
    }
}

TEST(tape, keeps_what_it_took) {
    stw_error error = {0};
    stw_backend *b = NULL;
    stw_tape *tape = NULL;
    if (!CHECK_EQ_INT(stw_backend_reference(4, &b, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_tape_create(b, &tape, &error), STW_OK)) return;
    void *block[3] = {0}, *again = NULL;
    int32_t *index = NULL;
    for (int round = 0; round < 3; round++) {
        const int64_t before = stw_tape_bytes(tape);
        stw_tape_reset(tape);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ_INT(stw_tape_reals(tape, (i + 1) * 1000003, &block[i], &error), STW_OK);
            memset(block[i], i, (size_t)(i + 1) * 4 * 1000003);
        }
        CHECK_EQ_INT(((char *)block[0])[4 * 1000003 - 1], 0);
        CHECK_EQ_INT(((char *)block[1])[0], 1);
        const stw_tape_mark mark = stw_tape_here(tape);
        CHECK_EQ_INT(stw_tape_indices(tape, 5, &index, &error), STW_OK);
        CHECK((uintptr_t)index % 64 == 0);
        stw_tape_back(tape, mark);
        CHECK_EQ_INT(stw_tape_reals(tape, 5, &again, &error), STW_OK);
        CHECK(again == (void *)index);
        if (round > 0) CHECK_EQ_INT(stw_tape_bytes(tape), before);
    }
    CHECK_EQ_INT(stw_tape_reals(tape, INT64_MAX / 2, &again, &error), STW_ERROR_MEMORY);
    stw_tape_destroy(tape);
    stw_backend_destroy(b);
}
