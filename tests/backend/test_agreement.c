/* backend: float and cpu against the reference in double, and the cpu's bits on 1, 2 and 3 threads. */
#include "support/reference_backend.h"
#include "trials.h"

static double worst_of(const double *found, const double *expected, int64_t count) {
    double worst = 0.0, largest = 0.1; /* gradients that cancel to 0 keep the rounding of their terms */
    for (int64_t k = 0; k < count; k++) {
        worst = fmax(worst, isnan(found[k]) ? INFINITY : fabs(found[k] - expected[k]));
        largest = fmax(largest, fabs(expected[k]));
    }
    return worst / largest;
}

static void check_near(const trial *t, const char *who, const results *found, const results *expected) {
    for (int i = 0; i < t->outputs; i++) {
        test_context("%s: %s, output %d", who, t->name, i);
        CHECK_NEAR(worst_of(found->out[i], expected->out[i], t->out_size[i]), 0.0, 1e-5);
    }
    for (int i = 0; i < t->gradients; i++) {
        test_context("%s: %s, gradient %d", who, t->name, i);
        CHECK_NEAR(worst_of(found->gradient[i], expected->gradient[i], t->gradient_size[i]), 0.0, 1e-5);
    }
    if (t->forward != forward_gather) return;
    test_context("%s: %s", who, t->name);
    CHECK(memcmp(found->chosen, expected->chosen, sizeof(int32_t) * (size_t)(t->rows * t->width)) == 0);
}

static void check_same_bits(const trial *t, int threads, const results *found, const results *expected) {
    for (int i = 0; i < t->outputs; i++) {
        test_context("%d threads: %s, output %d", threads, t->name, i);
        CHECK(memcmp(found->out[i], expected->out[i], sizeof(double) * (size_t)t->out_size[i]) == 0);
    }
    for (int i = 0; i < t->gradients; i++) {
        test_context("%d threads: %s, gradient %d", threads, t->name, i);
        CHECK(memcmp(found->gradient[i], expected->gradient[i], sizeof(double) * (size_t)t->gradient_size[i]) == 0);
    }
}

typedef struct {
    stw_arena arena;
    stw_pool *pool[4];
    stw_backend *exact, *plain, *cpu[4]; /* cpu[n]: of n threads, 0 without a pool */
} backends;

static bool open_all(backends *b) {
    stw_error error = {0};
    bool fine = CHECK_EQ_INT(stw_arena_create(&b->arena, &error), STW_OK);
    fine &= CHECK_EQ_INT(stw_backend_reference(8, &b->exact, &error), STW_OK);
    fine &= CHECK_EQ_INT(stw_backend_reference(4, &b->plain, &error), STW_OK);
    for (int n = 0; n < 4; n++) {
        if (n > 0) fine &= CHECK_EQ_INT(stw_pool_create(n, &b->pool[n], &error), STW_OK);
        fine &= CHECK_EQ_INT(stw_backend_cpu(b->pool[n], &b->cpu[n], &error), STW_OK);
    }
    return fine;
}

static void close_all(backends *b) {
    test_context("%s", "");
    for (int n = 0; n < 4; n++) {
        stw_backend_destroy(b->cpu[n]);
        stw_pool_destroy(b->pool[n]);
    }
    stw_backend_destroy(b->exact);
    stw_backend_destroy(b->plain);
    stw_arena_destroy(&b->arena);
}

static void check_trial(backends *b, const trial *t, stw_arena scratch) {
    const results expected = trial_run(t, b->exact, &scratch), plain = trial_run(t, b->plain, &scratch);
    check_near(t, "float", &plain, &expected);
    const results alone = trial_run(t, b->cpu[0], &scratch);
    check_near(t, "cpu", &alone, &expected);
    for (int n = 1; n < 4; n++) {
        const results shared = trial_run(t, b->cpu[n], &scratch);
        check_same_bits(t, n, &shared, &alone);
    }
}

TEST(agreement, of_all_kernels) {
    backends b = {0};
    if (!open_all(&b)) return;
    static const int32_t sizes[] = {1, 2, 17, 64, 333};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        trial t;
        for (int index = 0;; index++) {
            stw_arena scratch = b.arena;
            if (!trial_at(index, sizes[s], &scratch, &t)) break;
            check_trial(&b, &t, scratch);
        }
    }
    close_all(&b);
}

/* Many blocks, and sizes like the network's. */
TEST(agreement, of_large_trials) {
    backends b = {0};
    if (!open_all(&b)) return;
    stw_rng rng = stw_rng_create(5);
    for (int i = 0; i < 15; i++) {
        stw_arena scratch = b.arena;
        trial t = {0};
        if (i == 0) t = linear_trial(&scratch, &rng, 2711, 32, 48, 14);
        if (i == 1) t = norm_trial(&scratch, &rng, 3001, 64, true);
        if (i == 2) t = gather_trial(&scratch, &rng, 3001, 2999, 64, true, true);
        if (i == 3) t = attend_trial(&scratch, &rng, 700, 350, 100, 2, 32);
        if (i == 4) t = rows_trial(&scratch, &rng, 0, 3001, 64, true);
        if (i == 5) t = rows_trial(&scratch, &rng, 1, 3001, 64, true);
        if (i == 6) t = linear_trial(&scratch, &rng, 611, 160, 96, 15); /* too large for narrow.c */
        if (i == 7) t = linear_trial(&scratch, &rng, 611, 64, 64, 3);
        if (i == 8) t = attend_trial(&scratch, &rng, 3 * 150, 150, 64, 4, 64);
        if (i == 9) t = linear_trial(&scratch, &rng, 19, 520, 517, 15); /* by wide.c, few rows */
        if (i == 10) t = linear_trial(&scratch, &rng, 3, 520, 517, 4);
        if (i == 11) t = linear_trial(&scratch, &rng, 70, 520, 517, 6);
        if (i == 12) t = lstm_trial(&scratch, &rng, 70, 501, true);
        if (i == 13) t = point_trial(&scratch, &rng, 5, 90, 333, 256);
        if (i == 14) t = point_trial(&scratch, &rng, 1, 160, 256, 300);
        check_trial(&b, &t, scratch);
    }
    close_all(&b);
}

/* Large scores: what is far below the largest counts as nothing, and nothing overflows. */
TEST(agreement, of_extreme_scores) {
    backends b = {0};
    if (!open_all(&b)) return;
    stw_rng rng = stw_rng_create(6);
    for (int32_t width = 8; width <= 32; width += 24) { /* heads of 4, and of a whole vector */
        trial t = attend_trial(&b.arena, &rng, 30, 30, 10, 2, width);
        for (int64_t k = 0; k < t.in_size[0]; k++) t.in_value[0][k] *= width == 8 ? 64.0 : 32.0; /* scores of the same size */
        check_trial(&b, &t, b.arena);
    }
    trial u = rows_trial(&b.arena, &rng, 3, 30, 8, false);
    for (int64_t k = 0; k < u.in_size[0]; k++) u.in_value[0][k] *= 1024.0;
    check_trial(&b, &u, b.arena);
    close_all(&b);
}

/* The last digits, which the trials' tolerance does not see: gates in [-80, 80], some of them tiny. */
TEST(agreement, of_squashing) {
    backends b = {0};
    if (!open_all(&b)) return;
    enum { HALF = 8000, COUNT = 2 * HALF + 1, GATES = 4 * COUNT };
    double *sums = STW_NEW(&b.arena, double, GATES), worst = 0.0;
    for (int k = 0; k < GATES; k++) {
        const double x = (double)(k % COUNT - HALF) * 0.01;
        sums[k] = exact(k % 7 == 0 ? x * x * x * 1e-9 : x);
    }
    double *gates[2] = {0};
    for (int i = 0; i < 2; i++) {
        stw_backend *backend = i == 0 ? b.exact : b.cpu[0];
        void *c = reals_of(backend, NULL, COUNT, &b.arena), *h = reals_of(backend, NULL, COUNT, &b.arena);
        void *squashed = reals_of(backend, sums, GATES, &b.arena);
        backend->lstm(backend, 1, COUNT, squashed, NULL, c, h);
        gates[i] = doubles_of(backend, squashed, GATES, &b.arena);
    }
    for (int k = 0; k < GATES; k++) {
        if (gates[0][k] != 0.0) worst = fmax(worst, fabs(gates[1][k] / gates[0][k] - 1.0));
    }
    CHECK_NEAR(worst, 0.0, 5e-7);
    close_all(&b);
}

/* What overflows elsewhere ends at 0 or 1 here. */
TEST(agreement, of_squashing_without_end) {
    backends b = {0};
    if (!open_all(&b)) return;
    const double sums[8] = {-INFINITY, INFINITY, -1e30, 1e30, -INFINITY, INFINITY, -1e30, 1e30}; /* two of each gate */
    void *c = reals_of(b.cpu[0], NULL, 2, &b.arena), *h = reals_of(b.cpu[0], NULL, 2, &b.arena);
    void *gates = reals_of(b.cpu[0], sums, 8, &b.arena);
    b.cpu[0]->lstm(b.cpu[0], 1, 2, gates, NULL, c, h);
    const double *found = doubles_of(b.cpu[0], gates, 8, &b.arena), expected[8] = {0, 1, 0, 1, -1, 1, 0, 1};
    for (int k = 0; k < 8; k++) CHECK_NEAR(found[k], expected[k], 2e-7);
    close_all(&b);
}
