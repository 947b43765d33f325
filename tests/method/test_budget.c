/* What a search does with its time, by a clock that goes on by a fixed step whenever somebody looks at it: nothing here depends
 * on how long anything takes on this computer. */
#include <stdlib.h>

#include "base/cancel.h"
#include "whole_search.h"

typedef struct {
    atomic_llong looks;
    double step_s;
    stw_clock clock;
} stepping;

static double step(void *context) {
    stepping *s = context;
    return (double)(atomic_fetch_add(&s->looks, 1) + 1) * s->step_s;
}

static void start_clock(stepping *s, double step_s) {
    *s = (stepping){.step_s = step_s};
    atomic_init(&s->looks, 0);
    s->clock = (stw_clock){step, s};
}

/* Takes the options over. */
static stw_result *optimize_by(const stw_simulator *simulator, stw_options *options, stepping *s) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize_by(simulator, options, NULL, &s->clock, NULL, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

/* Looks at the clock that a budget lasts for. */
enum { LOOKS = 300 };

static const struct {
    const char *tasks, *objective, *budget;
    double budget_s;
} cases[] = {{"placement,schedule,fusion", "time", "30s", 30.0},
             {"placement,schedule,fusion", "time", "200ms", 0.2},
             {"placement", "time", "200ms", 0.2},
             {"schedule", "time", "200ms", 0.2},
             {"placement,schedule,fusion", "memory", "200ms", 0.2},
             {"placement,schedule,fusion", "throughput", "200ms", 0.2},
             {"placement,schedule,fusion", "throughput", "30s", 30.0},
             {"fusion", "time", "200ms", 0.2}};
enum { CASES = sizeof cases / sizeof cases[0] };

TEST(budget, ends_within_a_fifth_of_it) {
    problem p = open_graph("gnmt-2", "h200x4");
    for (int k = 0; k < 2 * CASES; k++) {
        stepping s;
        const double budget_s = cases[k / 2].budget_s;
        test_context("%s, %s, %s, %d threads", cases[k / 2].tasks, cases[k / 2].objective, cases[k / 2].budget, 1 + k % 2);
        start_clock(&s, budget_s / LOOKS);
        stw_result *result = optimize_by(p.simulator,
                                         options_of("tasks", cases[k / 2].tasks, "objective", cases[k / 2].objective, "budget",
                                                    cases[k / 2].budget, "threads", k % 2 == 0 ? "1" : "2", NULL),
                                         &s);
        CHECK((double)atomic_load(&s.looks) <= 1.2 * LOOKS);
        if (result != NULL) {
            check_result(p.simulator, result);
            CHECK(count_evaluations(result) <= 4 * LOOKS); /* somebody looks every few plans, or more would be tried unseen */
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

/* The budget is over with the first look: the default and one pass of the cheapest good method, and no more. */
TEST(budget, the_cheapest_good_method_runs_first) {
    static const char *const objective[] = {"time", "throughput", "memory"}, *const method[] = {"etf", "expert", "lean"};
    static const char *const tasks[] = {"placement,schedule", "placement,schedule,fusion"};
    problem p = open_graph("gnmt-2", "h200x4");
    for (int k = 0; k < 6; k++) {
        stepping s;
        test_context("%s, %s", objective[k / 2], tasks[k % 2]);
        start_clock(&s, 5.0);
        stw_result *result = optimize_by(
            p.simulator,
            options_of("tasks", tasks[k % 2], "objective", objective[k / 2], "budget", "200ms", "threads", "2", NULL), &s);
        if (result != NULL && CHECK_EQ_INT(result->count, 2)) {
            check_result(p.simulator, result);
            CHECK_STR(result->entry[0]->candidate.method, "single");
            CHECK_STR(result->entry[0]->outcome.note,
                      k % 2 == 0 ? "" : "nothing fused: the budget is too short for it; give it more");
            CHECK_STR(result->entry[1]->candidate.method, method[k / 2]);
            CHECK(!stw_result_is_optimal(result));
            CHECK(result->bounds.plan_s == 0.0 && result->noise.draws == 0);
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

static const stw_entry *find_entry(const stw_result *result, const char *method) {
    for (int32_t k = 0; k < result->count; k++) {
        if (strcmp(result->entry[k]->candidate.method, method) == 0) return result->entry[k];
    }
    return NULL;
}

/* There is time for some groups, or for all: they come after a plan of ops, and the default is as it should be. */
TEST(budget, groups_come_after_a_plan) {
    problem p = open_graph("gnmt-2", "h200x4");
    for (int k = 0; k < 2; k++) {
        stepping s;
        test_context("%s", k == 0 ? "some groups" : "all groups");
        start_clock(&s, k == 0 ? 0.02 / 80 : 0.02 / 100000);
        stw_options *options = options_of(ALL_TASKS, "budget", "20ms", "threads", "1", "policy", "none", NULL);
        if (k == 1) CHECK_EQ_INT(stw_options_set(options, "evaluations", "60", NULL), STW_OK);
        stw_result *result = optimize_by(p.simulator, options, &s);
        if (result != NULL && CHECK(result->count >= 4)) {
            check_result(p.simulator, result);
            CHECK_STR(result->entry[0]->candidate.method, "single");
            CHECK_STR(result->entry[1]->candidate.method, "single-unfused");
            CHECK_STR(result->entry[2]->candidate.method, "etf-unfused");
            CHECK(find_entry(result, "etf-fused") != NULL);
            CHECK(result->entry[0]->score.value < result->entry[1]->score.value);
            CHECK_STR(result->entry[0]->outcome.note,
                      k == 0 ? "fused by the rule one-pass as far as the time went" : "fused by the rule one-pass");
            if (k == 1) check_never_worse(p.simulator, result);
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

/* The rule of the default takes a quarter of this budget: one that takes a fifth of its time makes the groups, before all plans.
 * What was spent before the search counts: of the longer budget as little is left. */
TEST(budget, groups_by_a_quicker_rule) {
    static const struct {
        const char *budget, *note;
        double spent_s;
    } with[] = {{"250ms", "fused by the rule one-pass", 0.0},
                {"20s", "fused by the rule one-pass", 19.75},
                {"20s", "fused by the rule default", 0.0},
                {"20s", "nothing fused: the budget is too short for it; give it more", 20.0}};
    problem p = open_graph("gnmt-2", "h200x4");
    for (int k = 0; k < 4; k++) {
        stepping s;
        stw_result *result = NULL;
        stw_error error = {0};
        const stw_watch watch = {.spent_s = with[k].spent_s};
        test_context("%s, %g s of it spent", with[k].budget, with[k].spent_s);
        start_clock(&s, 0.25 / 100000);
        stw_options *options =
            options_of(ALL_TASKS, "budget", with[k].budget, "evaluations", "20", "threads", "1", "policy", "none", NULL);
        CHECK_EQ_INT(stw_optimize_by(p.simulator, options, &watch, &s.clock, NULL, &result, &error), STW_OK);
        stw_options_destroy(options);
        if (result != NULL && CHECK(result->count >= 2)) {
            check_result(p.simulator, result);
            CHECK_STR(result->entry[0]->candidate.method, "single");
            CHECK_STR(result->entry[0]->outcome.note, with[k].note);
            CHECK(find_entry(result, "etf") != NULL && find_entry(result, "etf-unfused") == NULL);
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

/* Searches end so early that bounds and writing fit into the budget behind them. By hand, of 100 s of which 5 were for reading:
 * 0.4 of them for writing, and half of what the first bounds took for those of the best plan; no more than a fifth of the 95 s.
 */
TEST(budget, time_is_kept_for_the_end) {
    static const struct { double bounds_s, expected_s; } row[] = {{4.0, 4.0}, {1.0, 2.5}, {0.0, 2.0}, {1000.0, 19.0}};
    problem p = open_graph("rnnlm-2", "h200x2");
    stepping s;
    start_clock(&s, 1e-9);
    stw_options *options = options_of(ALL_TASKS, "budget", "100s", "threads", "1", NULL);
    stw_watch watch = {.spent_s = 5.0};
    stw_runner *runner = NULL;
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_runner_open(p.simulator, options, STW_TASK_ALL, &watch, &s.clock, &runner, &result, NULL), STW_OK);
    for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
        test_context("bounds took %g s", row[k].bounds_s);
        stw_runner_keep_for_end(runner, row[k].bounds_s);
        CHECK_NEAR(runner->end_s, row[k].expected_s, 1e-9);
        CHECK_NEAR(stw_runner_budget(runner).until_s, runner->began_s + 100.0 - row[k].expected_s, 1e-9);
    }
    test_context("%s", "");
    CHECK(!stw_runner_is_late(runner, 99.0) && stw_runner_is_late(runner, 101.0)); /* of the whole budget, and not of more */
    watch.spent_s = 1.0;
    stw_runner_keep_for_end(runner, 0.1); /* half a second is not worth a word */
    CHECK(runner->end_s == 0.0 && !stw_runner_is_late(runner, 109.0) && stw_runner_is_late(runner, 111.0));
    CHECK_EQ_INT(stw_runner_close(runner, STW_ERROR_CANCELLED, result, &result), STW_ERROR_CANCELLED);
    stw_options_destroy(options);
    close_graph(p);
}

/* Whoever has read for 300 of 1000 s writes for 120 s: these are left when everything else is done. */
TEST(budget, what_follows_ends_within_it) {
    problem p = open_graph("gnmt-2", "h200x4");
    for (int k = 0; k < 2; k++) {
        stepping s;
        stw_result *result = NULL;
        stw_error error = {0};
        const stw_watch watch = {.spent_s = 300.0};
        test_context("%d threads", 1 + k);
        start_clock(&s, 1.0);
        stw_options *options = options_of(ALL_TASKS, "budget", "1000s", "threads", k == 0 ? "1" : "2", "policy", "none", NULL);
        CHECK_EQ_INT(stw_optimize_by(p.simulator, options, &watch, &s.clock, NULL, &result, &error), STW_OK);
        stw_options_destroy(options);
        CHECK(atomic_load(&s.looks) <= 700 - 120 + 10); /* in seconds, and the looks that tell so */
        if (result != NULL) CHECK(result->bounds.plan_s > 0.0);
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

/* Once there is a plan, a method that does not come to one in time is given up; else its first plan is built all the same. */
TEST(budget, passes_are_given_up) {
    static const char *const names[] = {"etf", "heft", "steer"};
    problem p = open_graph("gnmt-2", "h200x4");
    stepping s;
    start_clock(&s, 1.0);
    stw_settings settings;
    stw_runner *runner = NULL;
    CHECK_EQ_INT(stw_settings_read(NULL, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
    settings.clock = &s.clock;
    settings.threads = 1; /* else others look at the clock meanwhile */
    CHECK_EQ_INT(stw_runner_create(p.simulator, &settings, NULL, &runner, NULL), STW_OK);
    for (int k = 0; k < 6; k++) {
        stw_result *result = calloc(1, sizeof *result);
        *result = (stw_result){.simulator = p.simulator, .best = -1};
        test_context("%s, %s", names[k / 2], k % 2 == 0 ? "given up" : "built");
        const double now_s = stw_runner_now_s(runner);
        const stw_budget budget = {.until_s = now_s + 3.0, .last_s = now_s + 5.0, .gives_up = k % 2 == 0};
        const stw_method *method = stw_method_find(names[k / 2]);
        CHECK_EQ_INT(stw_runner_run(runner, method, STW_RULE_UPWARD_RANK, budget, true, result, NULL), STW_OK);
        CHECK_EQ_INT(result->best, k % 2 == 0 ? -1 : 0);
        if (k % 2 == 0) CHECK_CONTAINS(result->entry[0]->reason, "given up: the time was over before a plan was built");
        stw_result_destroy(result);
    }
    test_context("%s", "");
    stw_runner_destroy(runner);
    close_graph(p);
}

/* ---- shares ---- */

/* Of 10 evaluations, 3 are made. Each rounding as it is named, and a share is on the same count as the whole. */
TEST(budget, shares_of_evaluations_by_hand) {
    static const struct {
        double share;
        stw_share_rounding rounding;
        int64_t expected;
    } row[] = {{0.5, STW_SHARE_DOWN, 3},       {0.5, STW_SHARE_UP, 4},         {0.5, STW_SHARE_ONE_MORE, 4},
               {0.5, STW_SHARE_BESIDE_ONE, 4}, {0.1, STW_SHARE_DOWN, 0},       {0.1, STW_SHARE_UP, 1},
               {0.1, STW_SHARE_ONE_MORE, 1},   {0.1, STW_SHARE_BESIDE_ONE, 1}, {0.9, STW_SHARE_ONE_MORE, 7},
               {0.9, STW_SHARE_BESIDE_ONE, 6}, {1.0, STW_SHARE_DOWN, 7},       {1.0, STW_SHARE_UP, 7},
               {1.0, STW_SHARE_ONE_MORE, 7},   {1.0, STW_SHARE_BESIDE_ONE, 7}, {1.5, STW_SHARE_UP, 7}};
    const stw_budget whole = {.evaluations = 10};
    const stw_moment now = {5.0, 3};
    for (size_t k = 0; k < sizeof row / sizeof row[0]; k++) {
        const stw_budget share = stw_budget_share(&whole, now, row[k].share, row[k].rounding);
        test_context("row %zu", k);
        CHECK_EQ_INT(share.evaluations - now.evaluations, row[k].expected);
        CHECK(share.until_s == 0.0 && share.began.s == now.s && share.began.evaluations == now.evaluations);
    }
    test_context("%s", "");
    const stw_budget two = {.evaluations = 2};
    CHECK_EQ_INT(stw_budget_share(&two, (stw_moment){0}, 0.4, STW_SHARE_DOWN).evaluations, 1);         /* 0 would be no limit */
    for (stw_share_rounding rounding = STW_SHARE_DOWN; rounding <= STW_SHARE_BESIDE_ONE; rounding++) { /* of none there is none */
        CHECK_EQ_INT(stw_budget_share(&whole, (stw_moment){.evaluations = 10}, 0.5, rounding).evaluations, 10);
        const stw_budget all = stw_budget_share(&(stw_budget){.evaluations = INT64_MAX}, (stw_moment){0}, 1.0, rounding);
        CHECK(all.evaluations == INT64_MAX);
    }
    const stw_budget endless = {0}, most = {.evaluations = INT64_MAX};
    CHECK_EQ_INT(stw_budget_share(&endless, now, 0.5, STW_SHARE_UP).evaluations, 0);
    CHECK_EQ_INT(stw_budget_evaluations_left(&endless, 7), INT64_MAX);
    CHECK(stw_budget_share(&most, (stw_moment){0}, 1.0, STW_SHARE_DOWN).evaluations == INT64_MAX); /* no double holds it */
}

/* From 10 s to 30 s, at 14 s. */
TEST(budget, shares_of_time_by_hand) {
    const stw_budget whole = {.until_s = 30.0, .last_s = 40.0, .gives_up = true, .began = {.s = 10.0}};
    const stw_moment now = {14.0, 100};
    const stw_budget half = stw_budget_share(&whole, now, 0.5, STW_SHARE_DOWN), quarter = stw_budget_part(&whole, now, 4);
    CHECK(half.until_s == 22.0 && half.last_s == 40.0 && half.gives_up && half.evaluations == 0);
    CHECK(quarter.until_s == 18.0);
    CHECK(stw_budget_share(&whole, now, 1.0, STW_SHARE_DOWN).until_s == 30.0);
    CHECK(stw_budget_seconds_left(&whole, 14.0) == 16.0);
    CHECK(stw_budget_seconds_left(&whole, 31.0) == 0.0);
    CHECK(stw_budget_seconds_left(&(stw_budget){.evaluations = 3}, 31.0) > 1e300);
    CHECK(stw_budget_progress(&whole, now) == 0.2);
    CHECK(stw_budget_progress(&half, (stw_moment){18.0, 100}) == 0.5);
    CHECK(stw_budget_is_spent(&whole, (stw_moment){20.0, 0}, 0.5) && !stw_budget_is_spent(&whole, (stw_moment){19.9, 0}, 0.5));
}

/* Equal parts for methods one after the other: each a part of what those before it have left, together no more than all. */
TEST(budget, parts_use_up_what_is_left) {
    for (int64_t all = 1; all < 40; all++) {
        const stw_budget whole = {.evaluations = all};
        int64_t made = 0;
        test_context("%d evaluations", (int)all);
        for (int32_t parts = 4; parts > 0; parts--) {
            const stw_budget part = stw_budget_part(&whole, (stw_moment){0.0, made}, parts), rest = stw_budget_rest(&part, made);
            const int64_t left = stw_budget_evaluations_left(&whole, made);
            CHECK_EQ_INT(part.evaluations, made + left / parts > 0 ? made + left / parts : 1); /* 0 would be no limit */
            CHECK_EQ_INT(rest.evaluations, left / parts > 1 ? left / parts : 1);
            made += rest.evaluations;
        }
        CHECK(all < 4 || made == all);
        CHECK_EQ_INT(stw_budget_evaluations_left(&whole, made), 0);
        CHECK(stw_budget_is_spent(&whole, (stw_moment){0.0, made}, 1.0));
    }
    test_context("%s", "");
}

/* The larger of the two counts. A share that is rounded down is gone before the fraction is. */
TEST(budget, progress_by_hand) {
    const stw_budget budget = {.evaluations = 30, .until_s = 20.0, .began = {10.0, 10}};
    CHECK(stw_budget_progress(&budget, (stw_moment){11.0, 15}) == 0.25);
    CHECK(stw_budget_progress(&budget, (stw_moment){15.0, 15}) == 0.5);
    CHECK(stw_budget_progress(&budget, (stw_moment){25.0, 15}) == 1.5);
    CHECK(stw_budget_progress(&(stw_budget){0}, (stw_moment){25.0, 15}) == 0.0);
    const stw_budget whole = {.evaluations = 9};
    CHECK_EQ_INT(stw_budget_share(&whole, (stw_moment){0}, 0.5, STW_SHARE_DOWN).evaluations, 4);
    CHECK(!stw_budget_is_spent(&whole, (stw_moment){0.0, 4}, 0.5) && stw_budget_is_spent(&whole, (stw_moment){0.0, 5}, 0.5));
}
