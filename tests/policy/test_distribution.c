/* policy/distribution: moments, densities against differences, and the copula. */
#include "policy/distribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { DRAWS = 200000 };

TEST(distribution, gaussian_moments) {
    const double mean[] = {1.0, -2.0};
    const stw_distribution d = {.rows = 1, .dims = 2, .out = mean, .sigma = 0.7};
    stw_rng rng = stw_rng_create(1);
    double sum[2] = {0.0}, squares[2] = {0.0};
    for (int32_t i = 0; i < DRAWS; i++) {
        const double noise[] = {stw_rng_normal(&rng), stw_rng_normal(&rng)};
        double action[2];
        stw_distribution_sample(&d, noise, action);
        for (int j = 0; j < 2; j++) {
            sum[j] += action[j] / DRAWS;
            squares[j] += action[j] * action[j] / DRAWS;
        }
    }
    for (int j = 0; j < 2; j++) {
        CHECK_NEAR(sum[j], mean[j], 5.0 * 0.7 / sqrt(DRAWS));
        CHECK_NEAR(sqrt(squares[j] - sum[j] * sum[j]), 0.7, 0.01);
    }
    CHECK_EQ_INT(stw_distribution_action_width(&d), 2);
}

TEST(distribution, categorical_frequencies) {
    const double p[] = {0.5, 0.3, 0.15, 0.05};
    double logp[4];
    for (int j = 0; j < 4; j++) logp[j] = log(p[j]);
    const stw_distribution d = {.categorical = true, .rows = 1, .dims = 4, .out = logp};
    stw_rng rng = stw_rng_create(2);
    double share[4] = {0.0};
    for (int32_t i = 0; i < DRAWS; i++) {
        double noise[4], action = -1.0;
        for (int j = 0; j < 4; j++) noise[j] = stw_rng_normal(&rng);
        stw_distribution_sample(&d, noise, &action);
        share[(int)action] += 1.0 / DRAWS;
    }
    for (int j = 0; j < 4; j++) CHECK_NEAR(share[j], p[j], 5.0 * sqrt(p[j] * (1.0 - p[j]) / DRAWS));
    CHECK_EQ_INT(stw_distribution_action_width(&d), 1);
}

/* Rows with the same noise and the same odds choose alike; with extreme noise, too, and always something. */
TEST(distribution, copula) {
    double out[40][3], noise[40][3], action[40];
    stw_rng rng = stw_rng_create(3);
    const double each[] = {log(0.2), log(0.3), log(0.5)};
    for (int pair = 0; pair < 20; pair++) {
        for (int j = 0; j < 3; j++) {
            noise[pair][j] = noise[20 + pair][j] = (pair < 3 ? 20.0 : 1.0) * stw_rng_normal(&rng);
            out[pair][j] = out[20 + pair][j] = each[j];
        }
    }
    const stw_distribution d = {.categorical = true, .rows = 40, .dims = 3, .out = out[0]};
    stw_distribution_sample(&d, noise[0], action);
    double seen[3] = {0.0};
    for (int pair = 0; pair < 20; pair++) {
        CHECK(action[pair] == action[20 + pair]);
        if (CHECK(action[pair] >= 0.0 && action[pair] < 3.0)) seen[(int)action[pair]] += 1.0;
    }
    CHECK(seen[0] < 20.0 && seen[1] < 20.0 && seen[2] < 20.0);
    /* More noise on a choice speaks for it. */
    const double high[] = {6.0, 0.0, 0.0};
    const stw_distribution one = {.categorical = true, .rows = 1, .dims = 3, .out = each};
    stw_distribution_sample(&one, high, action);
    CHECK(action[0] == 0.0);
}

TEST(distribution, greedy) {
    const double out[] = {-2.0, -0.5, -0.5, -1.0, -1.0, -3.0};
    double action[6] = {0.0};
    const stw_distribution choice = {.categorical = true, .rows = 2, .dims = 3, .out = out};
    stw_distribution_greedy(&choice, action);
    CHECK(action[0] == 1.0 && action[1] == 0.0);
    const stw_distribution means = {.rows = 2, .dims = 3, .out = out, .sigma = 1.0};
    stw_distribution_greedy(&means, action);
    CHECK(memcmp(action, out, sizeof out) == 0);
}

/* The density of a Gaussian integrates to 1 and its logarithm is what the book says. */
TEST(distribution, gaussian_density) {
    const double mean[] = {0.3};
    const stw_distribution d = {.rows = 1, .dims = 1, .out = mean, .sigma = 0.4};
    double sum = 0.0, entropy = 0.0, logp = 0.0;
    for (int32_t i = -4000; i < 4000; i++) {
        const double x = 0.3 + (i + 0.5) * 1e-3;
        stw_distribution_log_density(&d, &x, &logp);
        sum += exp(logp) * 1e-3;
        entropy -= exp(logp) * logp * 1e-3;
    }
    CHECK_NEAR(sum, 1.0, 1e-9);
    CHECK_NEAR(stw_distribution_entropy(&d), entropy, 1e-9);
    const double means[] = {0.0, 0.0, 0.0}, at[] = {1.0, 2.0, 0.0};
    const stw_distribution three = {.rows = 1, .dims = 3, .out = means, .sigma = 1.0};
    stw_distribution_log_density(&three, at, &logp);
    CHECK_NEAR(logp, -2.5 - 1.5 * log(2.0 * 3.14159265358979323846), 1e-12);
    CHECK_NEAR(stw_distribution_entropy(&three), 1.5 * (1.0 + log(2.0 * 3.14159265358979323846)), 1e-12);
}

static double weighted(const stw_distribution *d, const double *action, const double *weight) {
    double logp[8], sum = 0.0;
    stw_distribution_log_density(d, action, logp);
    for (int32_t r = 0; r < d->rows; r++) sum += weight[r] * logp[r];
    return sum;
}

static void check_back(bool categorical, const double *action) {
    double out[12], weight[4], d_out[12] = {0.0};
    stw_rng rng = stw_rng_create(4);
    for (int i = 0; i < 12; i++) out[i] = stw_rng_normal(&rng);
    for (int i = 0; i < 4; i++) weight[i] = stw_rng_normal(&rng);
    d_out[5] = 10.0; /* it is added to */
    const stw_distribution d = {categorical, 4, 3, out, 0.6};
    stw_distribution_log_density_back(&d, action, weight, d_out);
    d_out[5] -= 10.0;
    for (int i = 0; i < 12; i++) {
        const double here = out[i];
        out[i] = here + 1e-5;
        const double above = weighted(&d, action, weight);
        out[i] = here - 1e-5;
        const double below = weighted(&d, action, weight);
        out[i] = here;
        CHECK_NEAR(d_out[i], (above - below) / 2e-5, 1e-8);
    }
}

TEST(distribution, gradients) {
    const double numbers[] = {0.1, 1.0, -1.0, 0.5, 0.2, 2.0, -0.3, 0.0, 0.7, 1.5, -2.0, 0.4}, choices[] = {2.0, 0.0, 1.0, 1.0};
    check_back(false, numbers);
    check_back(true, choices);
}

TEST(distribution, categorical_entropy) {
    const double even[] = {log(0.25), log(0.25), log(0.25), log(0.25), 0.0, -INFINITY, -INFINITY, -INFINITY};
    const stw_distribution d = {.categorical = true, .rows = 2, .dims = 4, .out = even};
    CHECK_NEAR(stw_distribution_entropy(&d), 0.5 * log(4.0), 1e-12); /* the second row is certain */
}
