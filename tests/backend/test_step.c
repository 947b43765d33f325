/* backend: sums and the step of training, on every backend. */
#include "support/reference_backend.h"
#include "trials.h"

enum { COUNT = 40000 };

static void check_sums(stw_backend *b, stw_arena arena, double tolerance) {
    stw_rng rng = stw_rng_create(3);
    const double *from = random_numbers(&arena, &rng, COUNT, 0.0), *to = random_numbers(&arena, &rng, COUNT, 0.0);
    void *x = reals_of(b, from, COUNT, &arena), *y = reals_of(b, to, COUNT, &arena);
    double squares = 0.0, worst = 0.0;
    for (int k = 0; k < COUNT; k++) squares += from[k] * from[k];
    CHECK_NEAR(b->square_sum(b, COUNT, x) / squares, 1.0, 1e-12);
    CHECK_NEAR(b->square_sum(b, 0, x), 0.0, 0.0);
    b->add_scaled(b, COUNT, 0.75, x, y);
    const double *sum = doubles_of(b, y, COUNT, &arena);
    for (int k = 0; k < COUNT; k++) worst = fmax(worst, fabs(sum[k] - (to[k] + 0.75 * from[k])));
    CHECK_NEAR(worst, 0.0, tolerance);
}

/* Three steps by the formula of Kingma and Ba. */
static void check_adam(stw_backend *b, stw_arena arena, double tolerance) {
    stw_rng rng = stw_rng_create(4);
    double *value = random_numbers(&arena, &rng, COUNT, 0.0);
    double *m = STW_NEW(&arena, double, COUNT), *v = STW_NEW(&arena, double, COUNT);
    void *x = reals_of(b, value, COUNT, &arena), *first = reals_of(b, m, COUNT, &arena), *second = reals_of(b, v, COUNT, &arena);
    for (int step = 1; step <= 3; step++) {
        const double *gradient = random_numbers(&arena, &rng, COUNT, 0.0);
        const stw_adam adam = {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .step = step};
        b->adam(b, COUNT, &adam, 0.5, reals_of(b, gradient, COUNT, &arena), first, second, x);
        for (int k = 0; k < COUNT; k++) {
            const double g = 0.5 * gradient[k];
            m[k] = 0.9 * m[k] + 0.1 * g;
            v[k] = 0.99 * v[k] + 0.01 * g * g;
            value[k] -= 0.01 * (m[k] / (1.0 - pow(0.9, step))) / (sqrt(v[k] / (1.0 - pow(0.99, step))) + 1e-6);
        }
    }
    double worst = 0.0;
    const double *found = doubles_of(b, x, COUNT, &arena);
    for (int k = 0; k < COUNT; k++) worst = fmax(worst, fabs(found[k] - value[k]));
    CHECK_NEAR(worst, 0.0, tolerance);
}

static void check_memory(stw_backend *b) {
    stw_error error = {0};
    void *one = NULL, *two = NULL;
    const int32_t numbers[4] = {1, 2, 3, 4};
    int32_t back[4] = {9, 9, 9, 9};
    if (!CHECK_EQ_INT(b->allocate(b, sizeof numbers, &one, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(b->allocate(b, sizeof numbers, &two, &error), STW_OK)) return;
    b->copy_out(b, back, one, sizeof back);
    for (int i = 0; i < 4; i++) CHECK_EQ_INT(back[i], 0);
    b->copy_in(b, one, numbers, sizeof numbers);
    b->copy(b, two, one, sizeof numbers);
    b->zero(b, one, 8);
    b->copy_out(b, back, two, sizeof back);
    CHECK_EQ_INT(back[3], 4);
    b->copy_out(b, back, one, sizeof back);
    CHECK_EQ_INT(back[0], 0);
    CHECK_EQ_INT(back[3], 4);
    b->release(b, one);
    b->release(b, two);
    b->release(b, NULL);
    CHECK_EQ_INT(b->allocate(b, INT64_MAX - 8, &one, &error), STW_ERROR_MEMORY);
    CHECK(one == NULL);
}

static void check_backend(stw_backend *b, double tolerance) {
    stw_error error = {0};
    stw_arena arena = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
    test_context("%s, %d bytes", b->name, (int)b->real_bytes);
    check_sums(b, arena, tolerance);
    check_adam(b, arena, tolerance);
    check_memory(b);
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

TEST(step, reference) {
    stw_error error = {0};
    for (size_t bytes = 4; bytes <= 8; bytes += 4) {
        stw_backend *b = NULL;
        if (!CHECK_EQ_INT(stw_backend_reference(bytes, &b, &error), STW_OK)) return;
        check_backend(b, bytes == 8 ? 1e-13 : 1e-6);
        stw_backend_destroy(b);
    }
}

TEST(step, cpu) {
    stw_error error = {0};
    stw_pool *pool = NULL;
    stw_backend *b = NULL;
    if (!CHECK_EQ_INT(stw_pool_create(2, &pool, &error), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_backend_cpu(pool, &b, &error), STW_OK)) return;
    CHECK_STR(b->name, "cpu");
    CHECK_EQ_INT(b->real_bytes, 4);
    check_backend(b, 1e-6);
    stw_backend_destroy(b);
    stw_pool_destroy(pool);
}
