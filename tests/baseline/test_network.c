/* The hierarchical planner's network: its probabilities, its gradient against differences, the groups' embedding by hand. */
#include "baseline/hdp/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baseline/hdp/grouping_problem.h"
#include "support/reference_backend.h"
#include "test.h"

enum { N = 150, F = 4, G = 5, D = 3, E = 7, K = 3 }; /* N: more rows than a worker has before it */

static const stw_hdp_config small_config = {
    .columns = F, .hidden = 3, .groups = G, .devices = D, .embedding = E, .width = 8, .bound = 0.0, .sharpness = 1.0};

typedef struct bench {
    stw_backend *backend;
    stw_pool *pool;
    stw_hdp *hdp;
    int32_t group[K * N], device[K * G];
    double embedding[G * K * E], group_logp[K], device_logp[K];
} bench;

static void need(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    CHECK_STR(error->message, "");
    abort();
}

static bench *bench_open(const stw_hdp_config *config, bool fast, int32_t threads) {
    static double feature[N * F];
    stw_error error = {0};
    bench *b = calloc(1, sizeof *b);
    stw_rng rng = stw_rng_create(9);
    for (int32_t i = 0; i < N * F; i++) feature[i] = stw_rng_normal(&rng);
    for (int32_t i = 0; i < G * K * E; i++) b->embedding[i] = stw_rng_normal(&rng);
    need(stw_pool_create(threads, &b->pool, &error), &error);
    need(fast ? stw_backend_cpu(b->pool, &b->backend, &error) : stw_backend_reference(8, &b->backend, &error), &error);
    need(stw_hdp_create(config, b->backend, b->pool, 4, &b->hdp, &error), &error);
    need(stw_hdp_set_input(b->hdp, N, feature, &error), &error);
    return b;
}

static void bench_close(bench *b) {
    stw_hdp_destroy(b->hdp);
    stw_backend_destroy(b->backend);
    stw_pool_destroy(b->pool);
    free(b);
}

static void draw(bench *b, stw_hdp_choice choice, double noise, uint64_t seed) {
    stw_error error = {0};
    const stw_hdp_draw d = {.choice = choice, .K = K, .noise = noise, .rng = stw_rng_create(seed)};
    CHECK_EQ_INT(stw_hdp_group(b->hdp, &d, b->group, b->group_logp, &error), STW_OK);
    CHECK_EQ_INT(stw_hdp_place(b->hdp, &d, b->embedding, b->device, b->device_logp, &error), STW_OK);
    CHECK_STR(error.message, "");
}

/* ---- probabilities ---- */

TEST(hdp, log_probabilities_of_all_choices_sum_to_one) {
    const stw_hdp_config config = {
        .columns = F, .hidden = 3, .groups = 2, .devices = D, .embedding = E, .width = 8, .bound = 2.0, .sharpness = 1.0};
    bench *b = bench_open(&config, false, 1);
    double devices = 0.0;
    draw(b, STW_HDP_SAMPLE, 0.0, 1);
    const double before = b->group_logp[0];
    for (int32_t choice = 0; choice < D * D; choice++) {
        b->device[0] = choice / D;
        b->device[1] = choice % D;
        draw(b, STW_HDP_GIVEN, 0.0, 1);
        devices += exp(b->device_logp[0]);
    }
    CHECK_NEAR(devices, 1.0, 1e-12);
    CHECK_NEAR(b->group_logp[0], before, 1e-12); /* nothing else has changed */
    b->group[5] = 1 - b->group[5];
    draw(b, STW_HDP_GIVEN, 0.0, 1);
    const double other = b->group_logp[0];
    draw(b, STW_HDP_LIKELY, 0.0, 1);
    CHECK(b->group_logp[0] >= fmax(before, other) && b->group_logp[0] < 0.0);
    bench_close(b);
}

/* Over many draws the first op's groups come as often as one op's change of log p says. */
TEST(hdp, draws_come_as_often_as_their_probability) {
    bench *b = bench_open(&small_config, false, 1);
    enum { DRAWS = 2000 };
    int32_t count[G] = {0}, first[D] = {0};
    double chance[G], sum = 0.0, device_chance[D];
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        draw(b, STW_HDP_SAMPLE, 0.0, seed);
        for (int32_t k = 0; k < K; k++) count[b->group[k * N + 7]]++;
        for (int32_t k = 0; k < K; k++) first[b->device[k * G]] += k == 0;
    }
    for (int32_t g = 0; g < G; g++) {
        b->group[7] = g;
        draw(b, STW_HDP_GIVEN, 0.0, 1);
        chance[g] = b->group_logp[0];
    }
    for (int32_t g = 0; g < G; g++) sum += exp(chance[g] - chance[0]);
    for (int32_t g = 0; g < G; g++) CHECK_NEAR(count[g] / (double)(DRAWS * K), exp(chance[g] - chance[0]) / sum, 0.025);
    for (int32_t d = 0; d < D; d++) { /* all that may follow the first device, added up: 3^4 continuations */
        device_chance[d] = 0.0;
        b->device[0] = d;
        for (int32_t rest = 0; rest < 81; rest++) {
            for (int32_t g = 1, r = rest; g < G; g++, r /= D) b->device[g] = r % D;
            draw(b, STW_HDP_GIVEN, 0.0, 1);
            device_chance[d] += exp(b->device_logp[0]);
        }
        CHECK_NEAR(first[d] / (double)DRAWS, device_chance[d], 0.04);
    }
    CHECK_NEAR(device_chance[0] + device_chance[1] + device_chance[2], 1.0, 1e-9);
    bench_close(b);
}

TEST(hdp, bound_holds_the_placer_back) {
    stw_hdp_config config = small_config;
    config.bound = 1e-3;
    bench *b = bench_open(&config, false, 1);
    draw(b, STW_HDP_LIKELY, 0.0, 1);
    CHECK_NEAR(b->device_logp[0], G * log(1.0 / D), G * 2e-3);
    CHECK_NEAR(stw_hdp_device_entropy(b->hdp), log(D), 1e-3);
    bench_close(b);
}

/* ---- the gradient ---- */

static const double weight[K] = {0.7, -1.1, 0.4};

static double objective(bench *b, double noise) {
    double sum = 0.0;
    draw(b, STW_HDP_GIVEN, noise, 3);
    for (int32_t k = 0; k < K; k++) sum += weight[k] * (b->group_logp[k] + b->device_logp[k]);
    return sum;
}

static double slope_by_difference(bench *b, double *value) {
    const double h = 1e-5, at = *value;
    *value = at + h;
    const double above = objective(b, 0.0);
    *value = at - h;
    const double below = objective(b, 0.0);
    *value = at;
    return (above - below) / (2.0 * h);
}

static void check_gradient(const stw_hdp_config *config) {
    bench *b = bench_open(config, false, 2);
    stw_parameters *p = stw_hdp_parameters(b->hdp);
    stw_error error = {0};
    draw(b, STW_HDP_SAMPLE, 0.0, 3);
    stw_parameters_zero_gradient(p);
    CHECK_EQ_INT(stw_hdp_backward(b->hdp, weight, b->group, b->device, &error), STW_OK);
    for (int32_t i = 0; i < p->count; i++) {
        const stw_parameter *entry = &p->entry[i];
        const int64_t size = (int64_t)entry->rows * entry->cols, step = size > 40 ? size / 20 : 1;
        double *value = stw_parameter_value(p, i), *gradient = stw_parameter_gradient(p, i), most = 0.0;
        test_context("%s", entry->name);
        for (int64_t k = 0; k < size; k += step) {
            CHECK_NEAR(gradient[k], slope_by_difference(b, &value[k]), 1e-6 * (1.0 + fabs(gradient[k])));
            most = fmax(most, fabs(gradient[k]));
        }
        CHECK(most > 1e-6);
    }
    test_context("%s", "");
    bench_close(b);
}

TEST(hdp, gradient_of_both_parts_is_that_of_differences) {
    stw_hdp_config config = small_config;
    check_gradient(&config);
    config.bound = 1.5;
    check_gradient(&config);
}

TEST(hdp, going_back_needs_a_draw) {
    bench *b = bench_open(&small_config, false, 1);
    stw_error error = {0};
    CHECK_EQ_INT(stw_hdp_backward(b->hdp, weight, b->group, b->device, &error), STW_ERROR_INPUT);
    draw(b, STW_HDP_SAMPLE, 0.0, 3);
    CHECK_EQ_INT(stw_hdp_backward(b->hdp, weight, b->group, b->device, &error), STW_OK);
    CHECK_EQ_INT(stw_hdp_backward(b->hdp, weight, b->group, b->device, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "no draw");
    bench_close(b);
}

TEST(hdp, sizes_that_make_no_network_are_refused) {
    bench *b = bench_open(&small_config, false, 1);
    stw_hdp *other = NULL;
    stw_error error = {0};
    stw_hdp_config config = small_config;
    config.width = 7;
    CHECK_EQ_INT(stw_hdp_create(&config, b->backend, NULL, 1, &other, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "even");
    config = small_config;
    config.groups = 0;
    CHECK_EQ_INT(stw_hdp_create(&config, b->backend, NULL, 1, &other, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "0 groups");
    CHECK(other == NULL);
    bench_close(b);
}

/* ---- the fast backend, threads, noise ---- */

static void gradient_of(bench *b, double noise, double *out) {
    stw_parameters *p = stw_hdp_parameters(b->hdp);
    stw_error error = {0};
    stw_arena arena = {0};
    need(stw_arena_create(&arena, &error), &error);
    objective(b, noise);
    stw_parameters_zero_gradient(p);
    CHECK_EQ_INT(stw_hdp_backward(b->hdp, weight, b->group, b->device, &error), STW_OK);
    stw_reals_out(b->backend, out, p->gradient, p->total, arena);
    stw_arena_destroy(&arena);
}

TEST(hdp, fast_backend_agrees_and_threads_change_nothing) {
    bench *slow = bench_open(&small_config, false, 1),
          *fast[2] = {bench_open(&small_config, true, 1), bench_open(&small_config, true, 2)};
    const int64_t total = stw_hdp_parameters(slow->hdp)->total;
    double *gradient[3];
    for (int32_t i = 0; i < 3; i++) gradient[i] = calloc((size_t)total, sizeof(double));
    draw(slow, STW_HDP_SAMPLE, 0.5, 3);
    gradient_of(slow, 0.5, gradient[0]);
    for (int32_t i = 0; i < 2; i++) {
        draw(fast[i], STW_HDP_SAMPLE, 0.5, 3);
        CHECK_EQ_INT(memcmp(fast[i]->group, fast[0]->group, sizeof fast[0]->group), 0);
        CHECK_EQ_INT(memcmp(fast[i]->device, fast[0]->device, sizeof fast[0]->device), 0);
        memcpy(fast[i]->group, slow->group, sizeof slow->group);
        memcpy(fast[i]->device, slow->device, sizeof slow->device);
        gradient_of(fast[i], 0.5, gradient[i + 1]);
        for (int32_t k = 0; k < K; k++) CHECK_NEAR(fast[i]->group_logp[k], slow->group_logp[k], 1e-3);
        for (int32_t k = 0; k < K; k++) CHECK_NEAR(fast[i]->device_logp[k], slow->device_logp[k], 1e-4);
    }
    for (int64_t i = 0; i < total; i++) CHECK_NEAR(gradient[1][i], gradient[0][i], 1e-3 * (1.0 + fabs(gradient[0][i])));
    CHECK_EQ_INT(memcmp(gradient[1], gradient[2], (size_t)total * sizeof(double)), 0);
    for (int32_t i = 0; i < 3; i++) free(gradient[i]);
    bench_close(slow);
    bench_close(fast[0]);
    bench_close(fast[1]);
}

TEST(hdp, noise_moves_the_draws_and_not_the_network) {
    bench *b = bench_open(&small_config, false, 1);
    draw(b, STW_HDP_LIKELY, 0.0, 3);
    int32_t group[N];
    memcpy(group, b->group, sizeof group);
    const double plain = b->group_logp[0];
    draw(b, STW_HDP_LIKELY, 0.5, 3);
    CHECK(memcmp(group, b->group, sizeof group) != 0);
    draw(b, STW_HDP_LIKELY, 0.0, 4);
    CHECK_EQ_INT(memcmp(group, b->group, sizeof group), 0);
    CHECK_NEAR(b->group_logp[0], plain, 0.0);
    bench_close(b);
}

/* ---- the embedding ---- */

/* Ops 0 and 1 in group 0, op 2 in group 2; group 1 is empty. */
TEST(hdp, embedding_of_three_ops_by_hand) {
    const int32_t from[] = {0, 0, 1}, to[] = {1, 2, 2}, group[] = {0, 0, 2};
    const double content[] = {1, 8, 1, 4, 1, 2}; /* ops of a class, and a dimension of the output */
    const stw_hdp_ops ops = {.N = 3, .edge_count = 3, .from = from, .to = to, .contents = 2, .content = content};
    const double expected[3][8] = {{1 / 13.0, 0, 2 / 13.0, 1 / 13.0, 0, 0, 2 / 13.0, 12 / 13.0},
                                   {0, 0, 0, 0, 0, 0, 0, 0},
                                   {0, 0, 0, 2 / 3.0, 0, 0, 1 / 3.0, 2 / 3.0}};
    double out[3 * 10];
    for (int32_t i = 0; i < 30; i++) out[i] = -1.0;
    CHECK_EQ_INT(stw_hdp_embedding_columns(&ops, 3), 8);
    stw_hdp_embed(&ops, 3, group, out, 10);
    for (int32_t g = 0; g < 3; g++) {
        for (int32_t i = 0; i < 8; i++) CHECK_NEAR(out[g * 10 + i], expected[g][i], 1e-15);
        CHECK_NEAR(out[g * 10 + 8], -1.0, 0.0); /* what lies between rows is left alone */
    }
}
