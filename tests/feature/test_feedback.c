/* feature/feedback: what a simulated plan says of units and devices. By hand, under renaming, and on the graphs that ship. */
#include <math.h>
#include <time.h>

#include "plan/plan.h"
#include "problem.h"

static double compressed(double x) { return log1p(1000.0 * x) / 7.0; }

#define FORK_JOIN OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 1, 1) OP(3, "d", "[1,2]", 1, 1)

TEST(feedback, by_hand) {
    /*  d0: a[0,2) b[2,5)      a is on d1 at 3, b at 6; step 7, and c could end at 6 instead of 4.
     *  d1:        c[3,4) d[6,7) */
    small *s = small_open((small_text){.nodes = FORK_JOIN, .device_count = 2, .device = "[0,0,1,1]", .priority = "[4,2,2,1]"});
    problem p = problem_of(s, 0);
    const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    static const struct {
        const char *column;
        double value[4]; /* a, b, c, d */
    } expected[] = {
        {"start", {0.0, 2.0 / 7, 3.0 / 7, 6.0 / 7}},
        {"wait", {0.0, 0.0, 1.0 / 7, 1.0 / 7}},
        {"transfer_wait", {0.0, 0.0, 1.0 / 7, 1.0 / 7}},
        {"critical", {1.0, 1.0, 0.0, 1.0}},
        {"slack_mean", {0.0, 0.0, 2.0 / 7, 0.0}},
        {"slack_least", {0.0, 0.0, 2.0 / 7, 0.0}},
        {"slack_of_readers", {0.0, 0.0, 2.0 / 7, 0.0}},
        {"comm_in", {0.0, 0.0, 1.0 / 7, 1.0 / 7}},
        {"comm_out", {1.0 / 7, 1.0 / 7, 0.0, 0.0}},
        {"time", {2.0 / 7, 3.0 / 7, 1.0 / 7, 1.0 / 7}},
        {"priority", {1.0, 0.5, 0.5, 0.0}},
    };
    CHECK_EQ_INT(sizeof expected / sizeof expected[0], stw_feature_count(STW_FEATURES_FEEDBACK));
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++) {
        const char *column = expected[k].column;
        const bool plain = strcmp(column, "start") == 0 || strcmp(column, "critical") == 0 || strcmp(column, "priority") == 0;
        for (int32_t u = 0; u < 4; u++) {
            test_context("%s of op %d", column, u);
            const double x = expected[k].value[u];
            CHECK_NEAR(feedback_value(&seen, u, column), plain ? x : compressed(x), 1e-9);
        }
    }
    test_context("%s", "");
    stw_arena_destroy(&p.arena);
    small_close(s);
}

TEST(feedback, pairs_by_hand) {
    small *s = small_open((small_text){.nodes = FORK_JOIN, .device_count = 2, .device = "[0,0,1,1]"});
    problem p = problem_of(s, 0);
    const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    static const struct {
        const char *column;
        int32_t op, device;
        double value; /* times of the step */
        bool plain;
    } expected[] = {
        {"share", 2, 0, 0.0, true},        {"share", 2, 1, 1.0, true},           {"in_from", 2, 0, 1.0 / 7, false},
        {"in_from", 2, 1, 0.0, false},     {"in_not_from", 2, 0, 0.0, false},    {"in_not_from", 2, 1, 1.0 / 7, false},
        {"in_from", 3, 0, 1.0 / 7, false}, {"in_from", 3, 1, 1.0 / 7, false},    {"out_to", 0, 0, 1.0 / 7, false},
        {"out_to", 0, 1, 1.0 / 7, false},  {"out_not_to", 1, 0, 1.0 / 7, false}, {"out_not_to", 1, 1, 0.0, false},
        {"late", 2, 0, -1.0 / 7, false},                                   /* a is on d0 at 2, and c begins at 3 */
        {"late", 2, 1, 0.0, false},        {"late", 1, 1, 1.0 / 7, false}, /* b begins at 2; on d1 it would have a at 3 */
        {"late", 3, 0, -1.0 / 7, false},                                   /* b is there at 5, c at 5; d begins at 6 */
        {"load", 0, 0, 5.0 / 7, true},     {"load", 3, 1, 2.0 / 7, true},        {"busy_then", 1, 0, 1.0, true},
        {"busy_then", 1, 1, 0.0, true},    {"speed", 1, 0, 1.0, true},           {"parameters", 1, 0, 0.0, true},
    };
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++) {
        test_context("%s of op %d and device %d", expected[k].column, expected[k].op, expected[k].device);
        const double x = expected[k].value;
        CHECK_NEAR(pair_value(&p, &seen, expected[k].op, expected[k].device, expected[k].column),
                   expected[k].plain ? x : copysign(compressed(fabs(x)), x), 1e-9);
    }
    test_context("%s", "");
    stw_arena_destroy(&p.arena);
    small_close(s);
}

/* A value goes to each device once, however many read it there; a unit reads it once, through views at most the whole. */
TEST(feedback, a_value_is_sent_once) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 10, 1) VIEW(1, "v", 0, 6) VIEW(2, "w", 0, 7)
                                           OP(3, "b", "[1]", 1, 1) OP(4, "c", "[2]", 1, 1) OP(5, "d", "[1]", 1, 1),
                                       .device_count = 3,
                                       .device = "[0,0,0,1,1,2]"});
    problem p = problem_of(s, 0);
    const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    const double step = s->result.step_s * 1e6;
    const int32_t *of = p.features.units->of;
    CHECK_NEAR(feedback_value(&seen, of[0], "comm_out"), compressed((10 + 6) / step), 1e-9);
    CHECK_NEAR(feedback_value(&seen, of[3], "comm_in"), compressed(10 / step), 1e-9);
    CHECK_NEAR(feedback_value(&seen, of[5], "comm_in"), compressed(6 / step), 1e-9);
    CHECK_NEAR(pair_value(&p, &seen, of[0], 1, "out_to"), compressed(10 / step), 1e-9);
    CHECK_NEAR(pair_value(&p, &seen, of[3], 0, "in_from"), compressed(6 / step), 1e-9);
    stw_arena_destroy(&p.arena);
    small_close(s);
}

/* ---- renaming ---- */

static void shuffle(stw_rng *rng, int32_t *list, int32_t count) {
    for (int32_t k = 0; k < count; k++) list[k] = k;
    for (int32_t k = count - 1; k > 0; k--) {
        const int32_t other = (int32_t)stw_rng_below(rng, k + 1), kept = list[k];
        list[k] = list[other];
        list[other] = kept;
    }
}

static double largest_difference(const double *a, const double *b, int64_t count) {
    double most = 0.0;
    for (int64_t k = 0; k < count; k++) most = fmax(most, fabs(a[k] - b[k]));
    return most;
}

/* On a machine whose devices and links are alike, names must not matter. */
TEST(feedback, renaming_devices) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        test_context("seed %d", (int)seed);
        stw_rng rng = stw_rng_create(seed);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 4});
        problem p = problem_of(s, seed % 2 == 0 ? 12 : 0);
        const int32_t M = p.features.M, D = p.features.D, F = stw_feature_count(STW_FEATURES_FEEDBACK);
        const int32_t P = stw_feature_count(STW_FEATURES_PAIR), N = s->graph->N;
        int32_t name[4], device[512];
        int64_t busy[4];
        if (!CHECK(N <= 512)) return;
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        const sight before = look_at_run(&p, s->plan, s->workspace, &s->result);
        shuffle(&rng, name, D);
        for (int32_t i = 0; i < N; i++) device[i] = name[s->plan->device[i]];
        for (int32_t d = 0; d < D; d++) busy[name[d]] = s->result.busy_ps[d];
        stw_feedback_input renamed = before.input;
        renamed.device = device;
        renamed.busy_ps = busy;
        const sight after = look(&p, &renamed);
        CHECK_NEAR(largest_difference(before.feedback, after.feedback, (int64_t)M * F), 0.0, 1e-12);
        double most = 0.0;
        for (int32_t u = 0; u < M; u++) {
            for (int32_t d = 0; d < D; d++)
                most = fmax(most, largest_difference(before.pair + ((int64_t)u * D + d) * P,
                                                     after.pair + ((int64_t)u * D + name[d]) * P, P));
        }
        CHECK_NEAR(most, 0.0, 1e-12);
        stw_arena_destroy(&p.arena);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- shares ---- */

TEST(feedback, shares_and_places) {
    stw_rng rng = stw_rng_create(5);
    small *s = random_open(&rng, (random_shape){.nodes = 80, .device_count = 3, .unlike = true});
    problem p = problem_of(s, 10);
    random_placement(&rng, s->simulator, s->plan);
    random_priorities(&rng, s->plan);
    small_run(s);
    const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    double places = 0.0;
    for (int32_t u = 0; u < p.features.M; u++) {
        double share = 0.0, fastest = 0.0;
        for (int32_t d = 0; d < 3; d++) {
            share += pair_value(&p, &seen, u, d, "share");
            fastest = fmax(fastest, pair_value(&p, &seen, u, d, "speed"));
        }
        CHECK_NEAR(share, 1.0, 1e-12);
        CHECK(fastest <= 1.0 + 1e-12);
        CHECK(feedback_value(&seen, u, "transfer_wait") <= feedback_value(&seen, u, "wait") + 1e-12);
        CHECK(feedback_value(&seen, u, "slack_least") <= feedback_value(&seen, u, "slack_mean") + 1e-12);
        places += feedback_value(&seen, u, "priority");
    }
    CHECK_NEAR(places, 0.5 * p.features.M, 1e-9);
    stw_arena_destroy(&p.arena);
    small_close(s);
}

/* ---- whatever the problem ---- */

static void check_bounded(small *s, stw_rng *rng, int32_t wanted) {
    problem p = problem_of(s, wanted);
    random_placement(rng, s->simulator, s->plan);
    small_run(s);
    if (s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY) {
        const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
        CHECK_EQ_INT(count_bad_seen(&p.features, &seen), 0);
    }
    CHECK_EQ_INT(count_bad_static(&p.features), 0);
    stw_arena_destroy(&p.arena);
    small_close(s);
}

TEST(feedback, bounded_on_random_problems) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        test_context("seed %d", (int)seed);
        stw_rng rng = stw_rng_create(seed);
        const random_shape shape = {.nodes = 1 + (int32_t)(seed % 50),
                                    .device_count = 1 + (int32_t)(seed % 5),
                                    .plain = seed % 7 == 0,
                                    .unlike = seed % 2 == 0,
                                    .buses = seed % 3 == 0,
                                    .free_links = seed % 5 == 0,
                                    .model = seed % 4 == 1,
                                    .far = seed % 4 == 2};
        check_bounded(random_open(&rng, shape), &rng, seed % 3 == 0 ? 0 : 8);
    }
    test_context("%s", "");
}

TEST(feedback, bounded_at_the_edges) {
    stw_rng rng = stw_rng_create(1);
    check_bounded(small_open((small_text){.nodes = OP(0, "a", "[]", 1, 0)}), &rng, 0);         /* one op, no time */
    check_bounded(small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 5)}), &rng, 0); /* no op at all */
    check_bounded(small_open((small_text){.nodes = OP(0, "a", "[]", 0, 0) OP(1, "b", "[0]", 0, 0), .device_count = 2}), &rng, 0);
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 9, 1) OP(1, "b", "[0]", 9, 1) SOURCE(2, "w", "parameter", 5),
                                       .devices = DEVICE("d0", "h200", 100) DEVICE("d1", "h200", 100),
                                       .links = ""}); /* no links */
    problem p = problem_of(s, 0);
    const sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    CHECK_EQ_INT(count_bad_seen(&p.features, &seen), 0);
    CHECK_EQ_INT(count_bad_static(&p.features), 0);
    CHECK_NEAR(pair_value(&p, &seen, p.features.units->of[1], 1, "late"), 2.0, 0.0); /* never */
    stw_arena_destroy(&p.arena);
    small_close(s);
}

TEST(feedback, refuses_devices_that_are_not_there) {
    small *s = small_open((small_text){.nodes = FORK_JOIN, .device_count = 2, .device = "[0,0,1,1]"});
    problem p = problem_of(s, 0);
    sight seen = look_at_run(&p, s->plan, s->workspace, &s->result);
    const int32_t device[] = {0, 0, 2, 1};
    stw_error error = {0};
    seen.input.device = device;
    CHECK_EQ_INT(stw_features_feedback(&p.features, &seen.input, seen.feedback, seen.pair, p.arena, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "node 2 is on device 2");
    stw_arena_destroy(&p.arena);
    small_close(s);
}

/* ---- the graphs that ship ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOW = 20 }; /* times as slow as it should be */
#else
enum { SLOW = 1 };
#endif

TEST(feedback, gnmt_8_takes_milliseconds) {
    problem p = problem_open("gnmt-8", "h200x4", 512);
    stw_plan *plan;
    stw_workspace *workspace;
    stw_evaluation result;
    stw_error error = {0};
    stw_rng rng = stw_rng_create(3);
    need(stw_plan_create(p.graph, p.machine, &plan, &error), &error);
    need(stw_workspace_create(p.simulator, &workspace, &error), &error);
    random_placement(&rng, p.simulator, plan);
    need(stw_simulate(p.simulator, plan, workspace, &result, &error), &error);
    double build = INFINITY, feedback = INFINITY;
    sight seen = look_at_run(&p, plan, workspace, &result);
    for (int k = 0; k < 5; k++) {
        stw_features again;
        stw_arena scratch = p.arena;
        clock_t from = clock(); /* of the processor: what others do on the machine does not count */
        need(stw_features_build(p.costs, &p.simulator->unfused, p.features.units, &scratch, &again, &error), &error);
        build = fmin(build, (double)(clock() - from) / CLOCKS_PER_SEC);
        from = clock();
        need(stw_features_feedback(&p.features, &seen.input, seen.feedback, seen.pair, scratch, &error), &error);
        feedback = fmin(feedback, (double)(clock() - from) / CLOCKS_PER_SEC);
    }
    printf("gnmt-8, h200x4, %d units: build %.2f ms, feedback %.2f ms\n", p.features.M, 1e3 * build, 1e3 * feedback);
    CHECK(build < 0.1 * SLOW);
    CHECK(feedback < 0.05 * SLOW);
    CHECK_EQ_INT(count_bad_seen(&p.features, &seen), 0);
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    problem_close(&p);
}
