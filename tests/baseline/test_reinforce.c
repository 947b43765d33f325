/* REINFORCE for the hierarchical planner: its rules one by one, what it sees of a graph, and that it learns. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "baseline/hdp/reinforce.h"
#include "train/bench.h"

/* ---- rules ---- */

static stw_reinforce_settings preset(const char *name) {
    stw_reinforce_settings s;
    CHECK(stw_reinforce_preset(name, 2, &s));
    return s;
}

TEST(hdp_rules, presets) {
    stw_reinforce_settings s;
    CHECK(!stw_reinforce_preset("papers", 2, &s));
    s = preset("paper");
    CHECK_EQ_INT(stw_reinforce_groups(&s, 2, 1000), 40);
    CHECK_EQ_INT(stw_reinforce_groups(&s, 64, 1000), 256);
    CHECK_EQ_INT(stw_reinforce_groups(&s, 2, 7), 7);
    s.groups = 300;
    CHECK_EQ_INT(stw_reinforce_groups(&s, 2, 1000), 300);
    CHECK_EQ_INT(s.samples, 1);
    const double usual = preset("default").rate; /* with many devices the same steps would lead astray */
    CHECK(stw_reinforce_preset("default", 4, &s) && s.rate == usual);
    CHECK(stw_reinforce_preset("default", 8, &s) && s.rate < 0.2 * usual);
    CHECK(stw_reinforce_preset("paper", 8, &s) && s.rate == 0.1);
}

TEST(hdp_rules, cost_is_the_root_of_the_time_and_failing_costs_ten) {
    const stw_reinforce_settings s = preset("paper");
    CHECK_NEAR(stw_reinforce_cost(&s, &(stw_score){.reason = STW_VALID, .value = 8.0}, 2.0), 2.0, 1e-12);
    CHECK_NEAR(stw_reinforce_cost(&s, &(stw_score){.reason = STW_INVALID_MEMORY, .value = 8.0}, 2.0), 10.0, 1e-12);
    CHECK_NEAR(stw_reinforce_cost(&s, &(stw_score){.reason = STW_VALID, .value = 1e9}, 2.0), 10.0, 1e-12); /* none costs more */
}

TEST(hdp_rules, rate_falls_in_steps) {
    const stw_reinforce_settings s = preset("paper");
    CHECK_NEAR(stw_reinforce_rate(&s, 0), 0.1, 1e-15);
    CHECK_NEAR(stw_reinforce_rate(&s, 449), 0.1, 1e-15);
    CHECK_NEAR(stw_reinforce_rate(&s, 450), 0.095, 1e-15);
    CHECK_NEAR(stw_reinforce_rate(&s, 500), 0.09025, 1e-15);
}

TEST(hdp_rules, baseline_begins_at_failing_and_follows) {
    stw_reinforce_settings s = preset("paper");
    stw_baseline baseline = {0};
    double weight[2];
    s.samples = 2;
    stw_reinforce_weights(&s, 0, (double[]){2.0, 4.0}, (bool[]){true, true}, &baseline, weight);
    CHECK_NEAR(weight[0], (2.0 - 10.0) / 2, 1e-12); /* by the baseline as it was before */
    CHECK_NEAR(weight[1], (4.0 - 10.0) / 2, 1e-12);
    CHECK_NEAR(baseline.value, 0.9 * 10.0 + 0.1 * 3.0, 1e-12);
    stw_reinforce_weights(&s, 1, (double[]){2.0, 10.0}, (bool[]){true, false}, &baseline, weight);
    CHECK_NEAR(weight[1], (10.0 - 9.3) / 2, 1e-12);
    CHECK_NEAR(baseline.value, 0.9 * 9.3 + 0.1 * 6.0, 1e-12);
}

TEST(hdp_rules, baseline_may_be_the_mean_of_the_update) {
    stw_reinforce_settings s = preset("paper");
    stw_baseline baseline = {0};
    double weight[2];
    s.samples = 2;
    s.own_baseline = true;
    stw_reinforce_weights(&s, 0, (double[]){2.0, 4.0}, (bool[]){true, true}, &baseline, weight);
    CHECK_NEAR(weight[0], -0.5, 1e-12);
    CHECK_NEAR(weight[1], 0.5, 1e-12);
    CHECK_NEAR(baseline.value, 3.0, 1e-12);
}

TEST(hdp_rules, failures_teach_nothing_after_a_while) {
    stw_reinforce_settings s = preset("paper");
    stw_baseline baseline = {.value = 3.0, .begun = true};
    double weight[2];
    s.samples = 2;
    stw_reinforce_weights(&s, 1000, (double[]){2.0, 10.0}, (bool[]){true, false}, &baseline, weight);
    CHECK_NEAR(weight[0], -1.0, 1e-12); /* a mean over what counts */
    CHECK_NEAR(weight[1], 0.0, 0.0);
    CHECK_NEAR(baseline.value, 0.9 * 3.0 + 0.1 * 2.0, 1e-12);
    const double before = baseline.value;
    stw_reinforce_weights(&s, 1001, (double[]){10.0, 10.0}, (bool[]){false, false}, &baseline, weight);
    CHECK(weight[0] == 0.0 && weight[1] == 0.0);
    CHECK_NEAR(baseline.value, before, 0.0);
}

/* ---- what it sees ---- */

/* p -> a -> view of a -> b, a -> c; p is a parameter that b reads too. */
TEST(hdp_problem, rows_are_ops_and_parameters_go_with_their_first_reader) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 4) OP(1, "a", "[0]", 6, 1) VIEW(2, "v", 1, 6)
                                           OP(3, "b", "[2,0]", 8, 1) OP(4, "c", "[1]", 2, 1),
                                       .device_count = 3});
    stw_error error = {0};
    stw_arena arena = {0};
    stw_grouping_problem p;
    need(stw_arena_create(&arena, &error), &error);
    CHECK_EQ_INT(stw_grouping_problem_build(s->simulator, 5, 0, &arena, &p, &error), STW_OK); /* devices 0 and 2 */
    CHECK_EQ_INT(p.N, 3);
    CHECK_EQ_INT(p.D, 2);
    CHECK_EQ_INT(p.ops.edge_count, 2);
    CHECK(p.row[0] < 0 && p.row[1] == 0 && p.row[2] == 0 && p.row[3] == 1 && p.row[4] == 2);
    double *own = (double *)&p.ops.content[(int64_t)p.row[3] * p.ops.contents];
    CHECK_NEAR(own[STW_CLASS_ELEMENTWISE], 1.0, 0.0);
    CHECK_NEAR(own[STW_CLASS_COUNT], 8.0, 0.0); /* the first dimension of its output */
    CHECK_NEAR(own[STW_CLASS_COUNT + 1], 0.0, 0.0);
    const int32_t group[3] = {1, 0, 1}, device[2] = {0, 1};
    CHECK_EQ_INT(stw_grouping_decode(&p, group, device, s->plan, arena, &error), STW_OK);
    CHECK(s->plan->device[1] == 2 && s->plan->device[2] == 2 && s->plan->device[3] == 0 && s->plan->device[4] == 2);
    CHECK_EQ_INT(s->plan->device[0], 2); /* with `a` */
    CHECK(s->plan->priority[1] > s->plan->priority[3]);
    stw_arena_destroy(&arena);
    small_close(s);
}

/* ---- learning ---- */

enum { CHAIN = 10, UPDATES = 200 };

/* Two chains that have nothing to do with each other, on two devices; what one op hands to the next takes as long to send as an
 * op. Best: a chain on each, CHAIN * 10 us. */
static small *open_chains(void) {
    sketch *k = sketch_begin();
    for (int32_t chain = 0; chain < 2; chain++) {
        int32_t last = sketch_op(k, 10, 10.0, "%s", "");
        for (int32_t i = 1; i < CHAIN; i++) last = sketch_op(k, 10, 10.0, "%d", last);
    }
    return sketch_end(k, 2, NULL);
}

static stw_reinforce *planner_of(bench *b, const stw_grouping_problem *p, const stw_reinforce_settings *s) {
    stw_reinforce *r = NULL;
    stw_error error = {0};
    need(stw_reinforce_create(p, &b->search, s, 20e-6 * CHAIN, &r, &error), &error);
    return r;
}

static double best_after(bench *b, const stw_grouping_problem *p, const stw_reinforce_settings *s, stw_reinforce_end *end) {
    stw_reinforce *r = planner_of(b, p, s);
    stw_error error = {0};
    stw_score score = {0};
    *end = STW_REINFORCE_GOES_ON;
    while (*end == STW_REINFORCE_GOES_ON && CHECK_EQ_INT(stw_reinforce_step(r, end, &error), STW_OK)) continue;
    CHECK(stw_reinforce_best(r, &score) != NULL && score.reason == STW_VALID);
    stw_reinforce_destroy(r);
    return score.value;
}

TEST(hdp_learning, two_chains_come_to_two_devices_and_not_without_learning) {
    bench *b = bench_open(open_chains(), 0, BENCH_THREADS);
    stw_grouping_problem p;
    stw_error error = {0};
    stw_reinforce_end end = STW_REINFORCE_GOES_ON;
    int32_t reached = 0, chance = 0;
    need(stw_grouping_problem_build(b->s->simulator, 0, 0, &b->arena, &p, &error), &error);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        stw_reinforce_settings s = preset("default");
        s.seed = seed;
        s.updates = UPDATES;
        s.patience = 0;
        s.samples = 16;
        s.groups = 4;
        s.width = 16;
        s.sharpness = 5.0;
        s.bound = 0.0;
        s.noise = 0.0;
        s.rate = 0.01;
        reached += best_after(b, &p, &s, &end) < 10.01e-6 * CHAIN;
        CHECK_EQ_INT(end, STW_REINFORCE_SPENT);
        s.rate = 0.0;
        chance += best_after(b, &p, &s, &end) < 10.01e-6 * CHAIN;
    }
    CHECK(reached >= 4);
    CHECK_EQ_INT(chance, 0);
    bench_close(b);
}

TEST(hdp_learning, ends_when_nothing_better_comes) {
    bench *b = bench_open(open_chains(), 0, BENCH_THREADS);
    stw_grouping_problem p;
    stw_error error = {0};
    stw_reinforce_end end = STW_REINFORCE_GOES_ON;
    need(stw_grouping_problem_build(b->s->simulator, 0, 0, &b->arena, &p, &error), &error);
    stw_reinforce_settings s = preset("default");
    s.width = 16;
    s.patience = 20;
    s.seed = 1;
    s.rate = 0.05; /* soon all on one device */
    best_after(b, &p, &s, &end);
    CHECK_EQ_INT(end, STW_REINFORCE_STALE);
    bench_close(b);
}

/* Row by row the same from one thread and from two. */
TEST(hdp_learning, threads_change_nothing) {
    stw_curve_row row[2][6];
    for (int32_t threads = 1; threads <= 2; threads++) {
        bench *b = bench_open(open_chains(), 0, threads);
        stw_grouping_problem p;
        stw_error error = {0};
        stw_reinforce_end end = STW_REINFORCE_GOES_ON;
        stw_reinforce_settings s = preset("paper");
        need(stw_grouping_problem_build(b->s->simulator, 0, 0, &b->arena, &p, &error), &error);
        s.width = 64;
        s.samples = 3;
        s.seed = 7;
        s.updates = 6;
        stw_reinforce *r = planner_of(b, &p, &s);
        for (int32_t u = 0; u < 6; u++) {
            CHECK_EQ_INT(stw_reinforce_step(r, &end, &error), STW_OK);
            row[threads - 1][u] = *stw_reinforce_last_row(r);
        }
        CHECK_EQ_INT(stw_reinforce_updates(r), 6);
        stw_reinforce_destroy(r);
        bench_close(b);
    }
    for (int32_t u = 0; u < 6; u++) {
        CHECK_NEAR(row[0][u].mean, row[1][u].mean, 0.0);
        CHECK_NEAR(row[0][u].gradient_norm, row[1][u].gradient_norm, 0.0);
        CHECK_NEAR(row[0][u].loss, row[1][u].loss, 0.0);
    }
    CHECK(row[0][5].loss != row[0][0].loss && row[0][0].gradient_norm > 0.0);
}
