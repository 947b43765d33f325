/* REINFORCE for Placeto: its rules one by one, that it learns, on one graph and on several, and that threads change nothing. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "baseline/placeto/trainer.h"
#include "train/bench.h"

/* ---- rules ---- */

static stw_placeto_settings preset(const char *name) {
    stw_placeto_settings s;
    CHECK(stw_placeto_preset(name, &s));
    return s;
}

TEST(placeto_rules, presets) {
    stw_placeto_settings s;
    CHECK(!stw_placeto_preset("papers", &s));
    s = preset("paper");
    CHECK(s.start == STW_PLACETO_DRAWN && !s.mean && s.width == 0 && s.rounds == 8);
    s = preset("default");
    CHECK(s.start == STW_PLACETO_BEST && s.mean);
}

TEST(placeto_rules, time_is_penalised_where_memory_lacks) {
    const stw_placeto_settings s = {.memory_penalty = 16.0, .most = 10.0};
    stw_score score = {.reason = STW_VALID, .value = 3.0, .lacks = 5.0};
    CHECK_NEAR(stw_placeto_time(&s, &score, 2.0, 100.0), 1.5, 1e-12);
    score.reason = STW_INVALID_MEMORY;
    CHECK_NEAR(stw_placeto_time(&s, &score, 2.0, 100.0), 1.5 + 16.0 * 0.05, 1e-12);
    score.lacks = 500.0;
    CHECK_NEAR(stw_placeto_time(&s, &score, 2.0, 100.0), 10.0, 0.0); /* none counts as longer */
    score = (stw_score){.reason = STW_VALID, .value = 1e9};
    CHECK_NEAR(stw_placeto_time(&s, &score, 2.0, 100.0), 10.0, 0.0);
    score.reason = STW_INVALID_OVERFLOW;
    CHECK_NEAR(stw_placeto_time(&s, &score, 2.0, 100.0), 10.0, 0.0);
}

TEST(placeto_rules, rates_fall_in_equal_steps) {
    CHECK_NEAR(stw_placeto_between(1e-3, 1e-4, 1000, 0), 1e-3, 1e-15);
    CHECK_NEAR(stw_placeto_between(1e-3, 1e-4, 1000, 500), 5.5e-4, 1e-15);
    CHECK_NEAR(stw_placeto_between(1e-3, 1e-4, 1000, 1000), 1e-4, 0.0);
    CHECK_NEAR(stw_placeto_between(1e-3, 1e-4, 1000, 5000), 1e-4, 0.0);
    CHECK_NEAR(stw_placeto_between(1e-3, 1e-4, 0, 0), 1e-4, 0.0);
}

TEST(placeto_rules, returns_are_what_the_time_falls_by) {
    stw_placeto_settings s = {.discount = 1.0};
    const double time[4] = {5.0, 3.0, 4.0, 1.0};
    double worth[3];
    stw_placeto_returns(&s, 3, time, worth);
    CHECK(worth[0] == 4.0 && worth[1] == 2.0 && worth[2] == 3.0); /* from each visit to the end */
    s.discount = 0.5;
    stw_placeto_returns(&s, 3, time, worth); /* rewards 2, -1, 3 */
    CHECK(worth[2] == 3.0 && worth[1] == 0.5 && worth[0] == 2.25);
}

/* ---- learning ---- */

enum { CHAIN = 10, EVALUATIONS = 4000 };

/* One chain of ops of 10 us, or two that have nothing to do with each other: another of ops of 5 us, op by op in turn. On two
 * devices; what one op hands to the next takes as long to send as the op. Best: a chain on each device, length * 10 us. */
static small *open_chains(int32_t chains, int32_t length) {
    sketch *k = sketch_begin();
    int32_t last[2] = {-1, -1};
    for (int32_t i = 0; i < chains * length; i++) {
        int32_t *end = &last[i % chains];
        const double us = i % chains == 0 ? 10.0 : 5.0;
        *end = *end < 0 ? sketch_op(k, (int32_t)us, us, "%s", "") : sketch_op(k, (int32_t)us, us, "%d", *end);
    }
    return sketch_end(k, 2, NULL);
}

typedef struct school { /* a graph with all that a trainer needs */
    bench *b;
    stw_placeto_problem problem;
    stw_placeto_task task;
} school;

static void school_open(school *s, int32_t chains, int32_t length, int64_t evaluations, int32_t threads) {
    stw_error error = {0};
    s->b = bench_open(open_chains(chains, length), 0, threads);
    s->b->search.budget.evaluations = evaluations;
    need(stw_placeto_problem_build(s->b->s->simulator, 0, 0, &s->b->arena, &s->problem, &error), &error);
    s->b->search.arena = s->b->arena;
    s->task = (stw_placeto_task){&s->problem, &s->b->search, 20e-6 * length};
}

static stw_placeto_trainer *trainer_on(const stw_placeto_task *task, int32_t count, const stw_placeto_settings *settings) {
    stw_placeto_trainer *t = NULL;
    stw_error error = {0};
    need(stw_placeto_trainer_create(task, count, settings, &t, &error), &error);
    return t;
}

static stw_placeto_end run_to_end(stw_placeto_trainer *t) {
    stw_placeto_end end = STW_PLACETO_GOES_ON;
    stw_error error = {0};
    while (end == STW_PLACETO_GOES_ON && CHECK_EQ_INT(stw_placeto_trainer_step(t, &end, &error), STW_OK)) continue;
    return end;
}

static stw_placeto_settings small_settings(uint64_t seed) {
    stw_placeto_settings s = preset("default");
    s.seed = seed;
    s.patience = 300;
    s.rounds = 4;
    s.rate = s.last_rate = 0.01;
    s.entropy = 0.01;
    s.discount = 0.5;
    s.start = STW_PLACETO_DRAWN; /* what comes after is the policy's, not the start's */
    return s;
}

/* The best step of a run over that of two devices, and where episodes ended at last. */
static double best_of(const stw_placeto_settings *settings, double *last) {
    school s;
    stw_score score = {0};
    school_open(&s, 2, CHAIN, EVALUATIONS, BENCH_THREADS);
    stw_placeto_trainer *t = trainer_on(&s.task, 1, settings);
    run_to_end(t);
    CHECK(stw_placeto_trainer_best(t, 0, &score) != NULL && score.reason == STW_VALID);
    CHECK(atomic_load(&s.b->search.evaluations) <= EVALUATIONS);
    *last = stw_placeto_trainer_last_row(t)->mean / (10e-6 * CHAIN);
    stw_placeto_trainer_destroy(t);
    bench_close(s.b);
    return score.value / (10e-6 * CHAIN);
}

/* The best of as many placements drawn at random. */
static double best_of_random(uint64_t seed) {
    school s;
    stw_error error = {0};
    double best = INFINITY;
    stw_rng rng = stw_rng_create(seed);
    school_open(&s, 2, CHAIN, 0, 1);
    for (int32_t k = 0; k < EVALUATIONS; k++) {
        int32_t device[2 * CHAIN];
        for (int32_t u = 0; u < 2 * CHAIN; u++) device[u] = (int32_t)stw_rng_below(&rng, 2);
        CHECK_EQ_INT(stw_placeto_decode(&s.problem, device, s.b->s->plan, s.b->arena, &error), STW_OK);
        best = fmin(best, score_of(s.b, s.b->s->plan).value);
    }
    bench_close(s.b);
    return best / (10e-6 * CHAIN);
}

TEST(placeto_learning, beats_chance_and_itself_without_learning) {
    int32_t reached[3] = {0};
    double ends[2] = {0.0};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        stw_placeto_settings s = small_settings(seed);
        double last = 0.0;
        reached[0] += best_of(&s, &last) < 1.001;
        ends[0] += last / 5;
        s.rate = s.last_rate = 0.0;
        reached[1] += best_of(&s, &last) < 1.001;
        ends[1] += last / 5;
        reached[2] += best_of_random(seed) < 1.001;
    }
    CHECK(reached[0] >= 2);
    CHECK_EQ_INT(reached[1], 0);
    CHECK_EQ_INT(reached[2], 0);
    CHECK(ends[0] < 0.9 * ends[1]);
}

/* One network learns on chains of two lengths, by turns, and is better than a new one on a longer that it has not seen. */
static double episodes_on(int32_t length, stw_placeto_net *from, uint64_t seed) {
    school s;
    double mean = 0.0;
    stw_error error = {0};
    stw_placeto_end end;
    stw_placeto_settings settings = small_settings(seed);
    settings.rate = settings.last_rate = 0.0;
    settings.samples = 16;
    school_open(&s, 1, length, 0, BENCH_THREADS);
    stw_placeto_trainer *t = trainer_on(&s.task, 1, &settings);
    if (from != NULL) {
        const stw_parameters *p = stw_placeto_net_parameters(from), *q = stw_placeto_net_parameters(stw_placeto_trainer_net(t));
        CHECK_EQ_INT(p->total, q->total);
        memcpy(q->value, p->value, (size_t)p->total * sizeof(float)); /* both on the cpu */
        stw_placeto_net_fetch(stw_placeto_trainer_net(t));
    }
    CHECK_EQ_INT(stw_placeto_trainer_step(t, &end, &error), STW_OK);
    mean = stw_placeto_trainer_last_row(t)->mean / (10e-6 * length);
    stw_placeto_trainer_destroy(t);
    bench_close(s.b);
    return mean;
}

TEST(placeto_learning, one_network_for_several_graphs) {
    school s[2];
    stw_placeto_settings settings = small_settings(3);
    school_open(&s[0], 1, 6, 0, BENCH_THREADS);
    school_open(&s[1], 1, 8, 0, BENCH_THREADS);
    settings.updates = 200;
    settings.patience = 0;
    stw_placeto_trainer *t = trainer_on((stw_placeto_task[]){s[0].task, s[1].task}, 2, &settings);
    CHECK_EQ_INT(run_to_end(t), STW_PLACETO_SPENT);
    CHECK_EQ_INT(stw_placeto_trainer_updates(t), 200);
    for (int32_t i = 0; i < 2; i++) {
        stw_score score = {0};
        CHECK(stw_placeto_trainer_best(t, i, &score) != NULL);
        CHECK_NEAR(score.value, 10e-6 * (i == 0 ? 6 : 8), 1e-9);
    }
    const double learnt = episodes_on(12, stw_placeto_trainer_net(t), 4), fresh = episodes_on(12, NULL, 4);
    CHECK(learnt < 0.8 * fresh);
    stw_placeto_trainer_destroy(t);
    bench_close(s[0].b);
    bench_close(s[1].b);
}

TEST(placeto_learning, graphs_on_other_numbers_of_devices_are_refused) {
    school s[2];
    stw_error error = {0};
    stw_placeto_trainer *t = NULL;
    const stw_placeto_settings settings = small_settings(1);
    school_open(&s[0], 2, 3, 0, 1);
    school_open(&s[1], 2, 3, 0, 1);
    stw_placeto_problem one;
    need(stw_placeto_problem_build(s[1].b->s->simulator, 1, 0, &s[1].b->arena, &one, &error), &error);
    s[1].task.problem = &one;
    CHECK_EQ_INT(stw_placeto_trainer_create((stw_placeto_task[]){s[0].task, s[1].task}, 2, &settings, &t, &error),
                 STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "2 and 1 devices");
    CHECK(t == NULL);
    bench_close(s[0].b);
    bench_close(s[1].b);
}

TEST(placeto_learning, ends_when_nothing_better_comes) {
    school s;
    stw_placeto_settings settings = small_settings(1);
    school_open(&s, 2, CHAIN, 0, BENCH_THREADS);
    settings.patience = 20;
    settings.rate = settings.last_rate = 0.0;
    settings.start = STW_PLACETO_BEST;
    stw_placeto_trainer *t = trainer_on(&s.task, 1, &settings);
    CHECK_EQ_INT(run_to_end(t), STW_PLACETO_STALE);
    CHECK(stw_placeto_trainer_updates(t) > 20);
    stw_placeto_trainer_destroy(t);
    bench_close(s.b);
}

/* Row by row the same from one thread and from two, and where the evaluations end within an update. */
TEST(placeto_learning, threads_change_nothing) {
    stw_curve_row row[2][6];
    int64_t made[2];
    stw_score score[2];
    for (int32_t threads = 1; threads <= 2; threads++) {
        school s;
        stw_placeto_end end = STW_PLACETO_GOES_ON;
        stw_error error = {0};
        stw_placeto_settings settings = small_settings(7);
        int32_t rows = 0;
        settings.samples = 3;
        school_open(&s, 2, CHAIN, 250, threads);
        stw_placeto_trainer *t = trainer_on(&s.task, 1, &settings);
        while (end == STW_PLACETO_GOES_ON) {
            const int64_t before = stw_placeto_trainer_updates(t);
            CHECK_EQ_INT(stw_placeto_trainer_step(t, &end, &error), STW_OK);
            if (stw_placeto_trainer_updates(t) > before && rows < 6) row[threads - 1][rows++] = *stw_placeto_trainer_last_row(t);
        }
        CHECK(rows >= 4);
        while (rows < 6) row[threads - 1][rows++] = (stw_curve_row){0};
        made[threads - 1] = (int64_t)atomic_load(&s.b->search.evaluations);
        stw_placeto_trainer_best(t, 0, &score[threads - 1]);
        stw_placeto_trainer_destroy(t);
        bench_close(s.b);
    }
    CHECK(made[0] == made[1] && made[0] > 200 && made[0] <= 250);
    CHECK_EQ_INT(memcmp(&score[0], &score[1], sizeof score[0]), 0);
    for (int32_t u = 0; u < 6; u++) {
        CHECK_EQ_INT(row[0][u].evaluations, row[1][u].evaluations);
        CHECK_NEAR(row[0][u].mean, row[1][u].mean, 0.0);
        CHECK_NEAR(row[0][u].gradient_norm, row[1][u].gradient_norm, 0.0);
        CHECK_NEAR(row[0][u].loss, row[1][u].loss, 0.0);
    }
    CHECK(row[0][3].loss != row[0][0].loss && row[0][0].gradient_norm > 0.0);
}
