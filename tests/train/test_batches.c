/* train/: an update whose samples do not go through the network together is the same update, but for the order of sums. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "train/bench.h"

enum { SEEDS = 3 };

static const struct {
    const char *name, *preset;
    bool schedules, fuses;
} ways[] = {{"placement", "paper", false, false},
            {"placement and schedule", "paper", true, false},
            {"all tasks", "paper", true, true},
            {"gdp", "gdp", false, false}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bench *open_way(uint64_t seed, size_t way, int32_t threads) {
    stw_rng rng = stw_rng_create(seed);
    bench *b = bench_open(random_open(&rng, (random_shape){.nodes = 60, .device_count = 3}), 0, threads);
    b->problem.schedules = ways[way].schedules;
    b->problem.fuses = ways[way].fuses;
    return b;
}

static stw_trainer *trainer_in_batches(bench *b, size_t way, uint64_t seed, int64_t rows) {
    stw_policy_config config = config_of(ways[way].preset);
    stw_train_settings settings = settings_of(ways[way].preset, seed, 4);
    if (ways[way].fuses) config = with_fusion(b, config);
    settings.rows = rows;
    return trainer_of(b, &config, &settings, NULL);
}

/* One update without its steps: the gradients of its first epoch and of another one. */
static void sample_and_go_back(stw_trainer *t, double *gradient[2]) {
    stw_error error = {0};
    bool over = true;
    const stw_parameters *p = stw_net_parameters(stw_trainer_net(t));
    CHECK_EQ_INT(stw_trainer_sample(t, &over, &error), STW_OK);
    CHECK(!over);
    for (int32_t epoch = 0; epoch < 2; epoch++) {
        stw_parameters_zero_gradient(stw_net_parameters(stw_trainer_net(t)));
        CHECK_EQ_INT(stw_trainer_add_gradient(t, epoch, &error), STW_OK);
        for (int64_t k = 0; k < p->total; k++) gradient[epoch][k] = ((const float *)p->gradient)[k];
    }
    CHECK_STR(error.message, "");
}

static void check_gradients(bench *b, size_t way, uint64_t seed, int64_t rows) {
    stw_trainer *whole = trainer_in_batches(b, way, seed, 0), *parted = trainer_in_batches(b, way, seed, rows);
    const int64_t total = stw_net_parameters(stw_trainer_net(whole))->total;
    double *expected[2], *found[2];
    for (int32_t epoch = 0; epoch < 2; epoch++) {
        expected[epoch] = STW_NEW(&b->arena, double, total);
        found[epoch] = STW_NEW(&b->arena, double, total);
    }
    sample_and_go_back(whole, expected);
    sample_and_go_back(parted, found);
    for (int32_t k = 0; k <= whole->settings.samples; k++) CHECK(whole->score[k].value == parted->score[k].value);
    CHECK_NEAR(parted->row.loss, whole->row.loss, 1e-6 * (1.0 + fabs(whole->row.loss)));
    for (int32_t epoch = 0; epoch < 2; epoch++) {
        double worst = 0.0, size = 0.0;
        for (int64_t k = 0; k < total; k++) {
            worst = fmax(worst, fabs(found[epoch][k] - expected[epoch][k]));
            size = fmax(size, fabs(expected[epoch][k]));
        }
        CHECK(size > 0.0);
        CHECK_NEAR(worst, 0.0, 1e-4 * size);
    }
    stw_trainer_destroy(whole);
    stw_trainer_destroy(parted);
}

TEST(batches, gradients_are_those_of_all_samples_together) {
    for (size_t way = 0; way < WAYS; way++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            bench *b = open_way(seed, way, 1);
            const int64_t M = b->problem.M, rows[] = {1, 3 * M, 16 * M, 17 * M};
            for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
                test_context("%s, seed %d, %d rows of %d", ways[way].name, (int)seed, (int)rows[k], (int)M);
                check_gradients(b, way, seed, rows[k]);
            }
            bench_close(b);
        }
    }
    test_context("%s", "");
}

TEST(batches, threads_change_no_bit) {
    for (size_t way = 0; way < WAYS; way++) {
        double *gradient[BENCH_THREADS][2] = {{NULL}};
        bench *b[BENCH_THREADS];
        int64_t total = 0;
        test_context("%s", ways[way].name);
        for (int32_t k = 0; k < BENCH_THREADS; k++) {
            b[k] = open_way(1, way, k + 1);
            stw_trainer *trainer = trainer_in_batches(b[k], way, 1, 3 * (int64_t)b[k]->problem.M);
            total = stw_net_parameters(stw_trainer_net(trainer))->total;
            for (int32_t epoch = 0; epoch < 2; epoch++) gradient[k][epoch] = STW_NEW(&b[k]->arena, double, total);
            sample_and_go_back(trainer, gradient[k]);
            stw_trainer_destroy(trainer);
        }
        for (int32_t epoch = 0; epoch < 2; epoch++)
            CHECK(memcmp(gradient[0][epoch], gradient[1][epoch], (size_t)total * sizeof(double)) == 0);
        for (int32_t k = 0; k < BENCH_THREADS; k++) bench_close(b[k]);
    }
    test_context("%s", "");
}

/* What learns from more than its samples does so all at once. */
TEST(batches, are_refused_with_moves_or_an_elite) {
    bench *b = open_way(1, 0, 1);
    const stw_policy_config config = config_of("default");
    stw_train_settings settings = settings_of("default", 1, 1);
    stw_trainer *trainer = NULL;
    stw_error error = {0};
    settings.rows = 100;
    CHECK(settings.elite);
    CHECK_EQ_INT(stw_trainer_create(&b->problem, &b->search, NULL, &config, &settings, NULL, NULL, &trainer, &error),
                 STW_ERROR_INPUT);
    CHECK(strstr(error.message, "batches") != NULL && trainer == NULL);
    bench_close(b);
}
