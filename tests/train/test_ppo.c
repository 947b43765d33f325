/* train/ppo: the loss by hand and its gradient against differences. */
#include "train/ppo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { K = 5, M = 7, MAX_DIMS = 4, OUT = M * MAX_DIMS };

/* K samples of M decisions, each sample with outputs of its own or all with the first's. */
typedef struct example {
    bool categorical, shared;
    int32_t dims;
    double out[K][OUT], action[K * OUT], logp_old[K * M], advantage[K], gradient[K][OUT];
    stw_ppo ppo;
    stw_ppo_result result;
} example;

static void normalise(double *row, int32_t dims) {
    double sum = 0.0;
    for (int32_t k = 0; k < dims; k++) sum += exp(row[k]);
    for (int32_t k = 0; k < dims; k++) row[k] -= log(sum);
}

static void run(example *e) {
    stw_distribution d[K];
    double *d_out[K];
    stw_arena arena;
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    memset(e->gradient, 0, sizeof e->gradient);
    for (int32_t k = 0; k < K; k++) {
        const int32_t from = e->shared ? 0 : k;
        d[k] = (stw_distribution){.categorical = e->categorical, .rows = M, .dims = e->dims, .out = e->out[from], .sigma = 0.6};
        d_out[k] = e->gradient[from];
    }
    e->ppo.K = e->ppo.all = K;
    e->ppo.M = M;
    e->ppo.advantage = e->advantage;
    CHECK_EQ_INT(stw_ppo_loss(&e->ppo, d, e->action, e->logp_old, d_out, &e->result, arena, &error), STW_OK);
    stw_arena_destroy(&arena);
}

/* Samples of the policy that is, with old densities that are off by about `spread`. */
static example *make(bool categorical, bool shared, double spread, uint64_t seed) {
    example *e = calloc(1, sizeof *e);
    stw_rng rng = stw_rng_create(seed);
    double noise[OUT];
    e->categorical = categorical;
    e->shared = shared;
    e->dims = categorical ? 4 : 3;
    e->ppo = (stw_ppo){.clip = 0.2};
    for (int32_t k = 0; k < K; k++) {
        const int32_t from = shared ? 0 : k;
        for (int32_t i = 0; i < M * e->dims && (k == 0 || !shared); i++) e->out[k][i] = stw_rng_normal(&rng);
        for (int32_t r = 0; r < M && categorical && (k == 0 || !shared); r++) normalise(&e->out[k][r * e->dims], e->dims);
        const stw_distribution d = {.categorical = categorical, .rows = M, .dims = e->dims, .out = e->out[from], .sigma = 0.6};
        double *action = &e->action[k * M * stw_distribution_action_width(&d)];
        for (int32_t i = 0; i < M * e->dims; i++) noise[i] = stw_rng_normal(&rng);
        stw_distribution_sample(&d, noise, action);
        stw_distribution_log_density(&d, action, &e->logp_old[k * M]);
        for (int32_t r = 0; r < M; r++) e->logp_old[k * M + r] += spread * stw_rng_normal(&rng);
        e->advantage[k] = stw_rng_normal(&rng);
    }
    return e;
}

/* ---- gradient ---- */

static void check_gradient(example *e) {
    static const double STEP = 1e-6;
    double gradient[K][OUT], largest = 0.0;
    run(e);
    memcpy(gradient, e->gradient, sizeof gradient);
    for (int32_t k = 0; k < (e->shared ? 1 : K); k++) {
        for (int32_t i = 0; i < M * e->dims; i++) {
            const double middle = e->out[k][i];
            e->out[k][i] = middle + STEP;
            run(e);
            const double above = e->result.loss;
            e->out[k][i] = middle - STEP;
            run(e);
            e->out[k][i] = middle;
            CHECK_NEAR(gradient[k][i], (above - e->result.loss) / (2.0 * STEP), 1e-8);
            largest = fmax(largest, fabs(gradient[k][i]));
        }
    }
    CHECK(largest > 1e-3);
}

TEST(ppo, gradient_agrees_with_differences) {
    for (int32_t number = 0; number < 8; number++) {
        example *e = make(number & 1, number & 2, 0.3, 100 + (uint64_t)number);
        if (number & 4) e->ppo.pull = 0.05;
        test_context("example %d", number);
        check_gradient(e);
        CHECK(e->result.clipped > 0.0 && e->result.clipped < 1.0); /* both sides of the clip are in it */
        free(e);
    }
    test_context("%s", "");
}

TEST(ppo, gradient_is_added) {
    example *e = make(false, true, 0.3, 7);
    stw_distribution d[K];
    double *d_out[K], sum[OUT];
    stw_arena arena;
    stw_error error = {0};
    run(e);
    for (int32_t i = 0; i < OUT; i++) sum[i] = 1.0;
    for (int32_t k = 0; k < K; k++) {
        d[k] = (stw_distribution){.rows = M, .dims = e->dims, .out = e->out[0], .sigma = 0.6};
        d_out[k] = sum;
    }
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    CHECK_EQ_INT(stw_ppo_loss(&e->ppo, d, e->action, e->logp_old, d_out, &e->result, arena, &error), STW_OK);
    for (int32_t i = 0; i < M * e->dims; i++) CHECK_NEAR(sum[i] - 1.0, e->gradient[0][i], 1e-12);
    stw_arena_destroy(&arena);
    free(e);
}

/* ---- loss ---- */

TEST(ppo, first_epoch_is_minus_the_mean_advantage) {
    for (int32_t number = 0; number < 4; number++) {
        example *e = make(number & 1, number & 2, 0.0, 200 + (uint64_t)number);
        double mean = 0.0;
        for (int32_t k = 0; k < K; k++) mean += e->advantage[k] / K;
        run(e);
        CHECK_NEAR(e->result.loss, -mean, 1e-12);
        CHECK_NEAR(e->result.clipped, 0.0, 0.0);
        free(e);
    }
}

/* What keeps the means in place: a weight on their squares. Classes are not pulled. */
TEST(ppo, pull_by_hand) {
    for (int32_t number = 0; number < 2; number++) {
        example *e = make(number == 1, true, 0.0, 300);
        double plain, square = 0.0;
        run(e);
        plain = e->result.loss;
        for (int32_t i = 0; i < M * e->dims; i++) square += e->out[0][i] * e->out[0][i] / M;
        e->ppo.pull = 0.3;
        run(e);
        CHECK_NEAR(e->result.loss - plain, number == 0 ? 0.3 * square : 0.0, 1e-12);
        free(e);
    }
}

/* One decision, whose density now is `ratio` times what it was. */
static example *make_one(double ratio, double advantage) {
    example *e = make(false, true, 0.0, 9);
    for (int32_t k = 0; k < K; k++) e->advantage[k] = advantage;
    for (int32_t i = 0; i < K * M; i++) e->logp_old[i] -= log(ratio);
    run(e);
    return e;
}

TEST(ppo, clip_takes_the_gradient_where_the_ratio_has_gone_far_enough) {
    static const struct {
        double ratio, advantage, loss;
        bool cut;
    } cases[] = {
        {1.5, 1.0, -1.2, true},                          /* more probable and good: enough */
        {1.5, -1.0, 1.5, false},                         /* more probable and bad: back */
        {0.5, 1.0, -0.5, false},                         /* less probable and good: back */
        {0.5, -1.0, 0.8, true},                          /* less probable and bad: enough */
        {1.1, 1.0, -1.1, false},                         /* within */
        {0.9, -1.0, 0.9, false}, {1.5, 0.0, 0.0, false}, /* no better and no worse: nothing to cut */
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        example *e = make_one(cases[c].ratio, cases[c].advantage);
        double largest = 0.0;
        for (int32_t i = 0; i < M * e->dims; i++) largest = fmax(largest, fabs(e->gradient[0][i]));
        test_context("ratio %g, advantage %g", cases[c].ratio, cases[c].advantage);
        CHECK_NEAR(e->result.loss, cases[c].loss, 1e-9);
        CHECK_NEAR(e->result.clipped, cases[c].cut ? 1.0 : 0.0, 1e-9);
        if (cases[c].cut || cases[c].advantage == 0.0) {
            CHECK_NEAR(largest, 0.0, 0.0);
        } else {
            CHECK(largest > 1e-3);
        }
        free(e);
    }
    test_context("%s", "");
}

/* A step against the gradient makes good samples more probable and bad ones less. */
TEST(ppo, gradient_points_the_right_way) {
    for (int32_t number = 0; number < 2; number++) {
        example *e = make(number == 1, true, 0.0, 400);
        double before[K * M], after[K * M], change[2] = {0.0, 0.0};
        for (int32_t k = 0; k < K; k++) e->advantage[k] = k % 2 == 0 ? 1.0 : -1.0;
        run(e);
        for (int32_t pass = 0; pass < 2; pass++) {
            for (int32_t k = 0; k < K; k++) {
                const stw_distribution d = {
                    .categorical = e->categorical, .rows = M, .dims = e->dims, .out = e->out[0], .sigma = 0.6};
                stw_distribution_log_density(&d, &e->action[k * M * stw_distribution_action_width(&d)],
                                             pass == 0 ? &before[k * M] : &after[k * M]);
            }
            for (int32_t i = 0; i < M * e->dims; i++) e->out[0][i] -= 0.01 * e->gradient[0][i];
        }
        for (int32_t i = 0; i < K * M; i++) change[i / M % 2] += after[i] - before[i];
        CHECK(change[0] > 0.0 && change[1] < 0.0);
        free(e);
    }
}

TEST(ppo, extreme_ratios_stay_finite) {
    static const double far[] = {50.0, 800.0, 1e6, 1e300};
    for (int32_t number = 0; number < 16; number++) {
        const double by = (number & 1 ? 1.0 : -1.0) * far[number / 4];
        example *e = make(number & 2, true, 0.0, 500);
        for (int32_t i = 0; i < K * M; i++) e->logp_old[i] += by;
        e->ppo.pull = 0.1;
        run(e);
        test_context("example %d", number);
        CHECK(isfinite(e->result.loss) && e->result.clipped >= 0.0 && e->result.clipped <= 1.0 + 1e-9);
        for (int32_t i = 0; i < M * e->dims; i++) CHECK(isfinite(e->gradient[0][i]));
        free(e);
    }
    test_context("%s", "");
}
