/* optimize: the whole search. Never worse than the default, keeps to its tasks, ends when it should, says what lacks. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "whole_search.h"

/* ---- never worse ---- */

/* Programs tell rows by their name. */
static void check_names_differ(const stw_result *result) {
    for (int32_t k = 0; k < result->count; k++) {
        for (int32_t other = 0; other < k; other++)
            CHECK(strcmp(result->entry[k]->candidate.method, result->entry[other]->candidate.method) != 0);
    }
}

TEST(optimize, is_never_worse_than_any_candidate) {
    const stw_rng seeds = stw_rng_create(561);
    for (int number = 0; number < 36; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        stw_result *result = optimize(
            s->simulator,
            options_of(ALL_TASKS, "evaluations", "200", "threads", "2", "objective", stw_objective_name[number % 3], NULL), NULL);
        if (result != NULL) {
            stw_candidate first, second;
            check_result(s->simulator, result);
            check_never_worse(s->simulator, result);
            CHECK(stw_result_candidate(result, 0, &first) && stw_result_candidate(result, 1, &second));
            CHECK_STR(first.method, "single"); /* the default */
            CHECK_STR(second.method, "single-unfused");
            check_names_differ(result);
            CHECK(!stw_result_is_interrupted(result));
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(optimize, is_never_worse_on_real_graphs) {
    static const char *const names[] = {"resnet50", "inception-v3-b32"};
    for (int k = 0; k < 2; k++) {
        problem p = open_graph(names[k], "h200x2");
        test_context("%s", names[k]);
        stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "evaluations", "150", "threads", "2", NULL), NULL);
        if (result != NULL) {
            check_result(p.simulator, result);
            check_never_worse(p.simulator, result);
            CHECK(count_candidates(result) > 3);
            CHECK(count_evaluations(result) <= 150 + 8 + 6 * 14); /* each method may look at three groupings more */
            CHECK(stw_result_noise(result).ahead > 16);           /* it is far ahead, or the same */
            CHECK_EQ_INT(stw_result_noise(result).draws, 32);
        }
        stw_result_destroy(result);
        close_graph(p);
    }
    test_context("%s", "");
}

TEST(optimize, same_plan_of_a_real_graph_from_any_number_of_threads) {
    static const char *const threads[] = {"1", "2", "8"};
    problem p = open_graph("inception-v3-b32", "h200x2");
    stw_result *result[3];
    for (int k = 0; k < 3; k++)
        result[k] = optimize(p.simulator, options_of(ALL_TASKS, "evaluations", "700", "threads", threads[k], NULL), NULL);
    for (int k = 1; k < 3 && result[0] != NULL && result[k] != NULL; k++) {
        const stw_plan *a = stw_result_plan(result[0]), *b = stw_result_plan(result[k]);
        const size_t N = (size_t)p.graph->N;
        test_context("%s threads", threads[k]);
        CHECK_STR(result[0]->entry[result[0]->best]->candidate.method, "anneal"); /* the search had its turn */
        CHECK(memcmp(a->device, b->device, N * sizeof *a->device) == 0);
        CHECK(memcmp(a->priority, b->priority, N * sizeof *a->priority) == 0);
        CHECK(memcmp(a->group, b->group, N * sizeof *a->group) == 0);
        CHECK_EQ_INT(count_evaluations(result[0]), count_evaluations(result[k]));
    }
    for (int k = 0; k < 3; k++) stw_result_destroy(result[k]);
    test_context("%s", "");
    close_graph(p);
}

TEST(optimize, memory_is_never_worse_than_the_default) {
    const stw_rng seeds = stw_rng_create(562);
    int better = 0;
    for (int number = 0; number < 24; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        stw_result *result = optimize(
            s->simulator, options_of(ALL_TASKS, "evaluations", "200", "threads", "1", "objective", "memory", NULL), NULL);
        stw_plan *standard = NULL;
        CHECK_EQ_INT(stw_method_run("single", s->simulator, NULL, &standard, NULL), STW_OK);
        if (result != NULL && standard != NULL && CHECK(stw_result_plan(result) != NULL)) {
            stw_evaluation before, after;
            CHECK_EQ_INT(stw_simulate(s->simulator, standard, s->workspace, &before, NULL), STW_OK);
            const int64_t peak = before.worst_peak_bytes;
            CHECK_EQ_INT(stw_simulate(s->simulator, stw_result_plan(result), s->workspace, &after, NULL), STW_OK);
            CHECK(after.worst_peak_bytes <= peak);
            better += after.worst_peak_bytes < peak;
        }
        stw_plan_destroy(standard);
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(better > 10);
}

/* Of every candidate that has a plan, not of the best alone. */
static void check_places(const stw_result *result, int32_t N, int32_t device) {
    for (int32_t k = 0; k < result->count; k++) {
        const stw_plan *plan = result->entry[k]->plan;
        test_context("candidate %d, %s", k, result->entry[k]->candidate.method);
        for (int32_t i = 0; plan != NULL && i < N; i++) CHECK_EQ_INT(plan->device[i], device);
    }
    test_context("%s", "");
}

/* The priority of node i is i * each, in candidates `from` to before `to`. */
static void check_orders(const stw_result *result, int32_t from, int32_t to, int32_t N, double each) {
    for (int32_t k = from; k < to && k < result->count; k++) {
        const stw_plan *plan = result->entry[k]->plan;
        test_context("candidate %d, %s", k, result->entry[k]->candidate.method);
        for (int32_t i = 0; plan != NULL && i < N; i++) CHECK_NEAR(plan->priority[i], i * each, 0.0);
    }
    test_context("%s", "");
}

TEST(optimize, keeps_to_the_tasks) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    const int32_t N = s->graph->N;
    stw_result *result = optimize(s->simulator, options_of("evaluations", "300", "tasks", "schedule", NULL), NULL);
    if (result != NULL && CHECK(stw_result_plan(result) != NULL)) check_places(result, N, 0); /* the default's */
    stw_result_destroy(result);
    result = optimize(s->simulator, options_of("evaluations", "300", "tasks", "placement", NULL), NULL);
    if (result != NULL && CHECK(stw_result_plan(result) != NULL))
        check_orders(result, 0, result->count, N, -1.0); /* the default's */
    stw_result_destroy(result);
    result = optimize(s->simulator, options_of("evaluations", "300", "tasks", "schedule", "rule", "fifo", NULL), NULL);
    if (result != NULL) { /* nothing is left to decide, but the rule is tried */
        static const char *const methods[] = {"single", "single-by-rule", "go-one", "anneal"};
        check_result(s->simulator, result);
        CHECK_EQ_INT(result->count, 4);
        for (int32_t k = 0; k < result->count && k < 4; k++) CHECK_STR(result->entry[k]->candidate.method, methods[k]);
        check_places(result, N, 0);
        check_orders(result, 1, 3, N, 0.0); /* anneal gives the best of them as it is */
    }
    stw_result_destroy(result);
    small_close(s);
}

/* Two branches with a large tensor each (tests/plan/test_rules.c): the order alone halves the peak. */
TEST(optimize, the_order_alone_saves_memory) {
    small *s = small_open((small_text){.nodes = OP(0, "x", "[]", 1, 1) OP(1, "big1", "[0]", 100, 1) OP(2, "big2", "[0]", 100, 1)
                                           OP(3, "small1", "[1]", 1, 1) OP(4, "small2", "[2]", 1, 1) OP(5, "end", "[3,4]", 1, 1),
                                       .device_count = 2});
    stw_result *result =
        optimize(s->simulator, options_of("evaluations", "50", "tasks", "schedule", "objective", "memory", NULL), NULL);
    stw_candidate first, best;
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK(stw_result_candidate(result, 0, &first) && stw_result_candidate(result, stw_result_best(result), &best));
        CHECK_NEAR(first.value, 201.0, 0.0);
        CHECK_NEAR(best.value, 102.0, 0.0);
    }
    stw_result_destroy(result);
    small_close(s);
}

/* ---- ends ---- */

TEST(optimize, small_graphs_are_solved_and_that_is_all) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of("evaluations", "100000", NULL), NULL);
    stw_candidate candidate;
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK(stw_result_is_optimal(result));
        CHECK_EQ_INT(count_candidates(result), 2);
        CHECK(stw_result_candidate(result, 1, &candidate));
        CHECK_STR(candidate.method, "exact");
        CHECK(count_evaluations(result) < 100000);
    }
    stw_result_destroy(result);
    small_close(s);
    /* With a rule, it is the best placement under that rule: nothing is proved, unless the bound is met (three on two are 6, the
     * bound is 4.5). */
    s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 3) OP(1, "b", "[]", 1, 3) OP(2, "c", "[]", 1, 3), .device_count = 2});
    result = optimize(s->simulator, options_of("evaluations", "200", "rule", "fifo", NULL), NULL);
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK(!stw_result_is_optimal(result));
        CHECK(count_candidates(result) > 2);
    }
    stw_result_destroy(result);
    small_close(s);
}

TEST(optimize, ends_when_the_bound_is_met) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 3) OP(1, "b", "[0]", 1, 4) OP(2, "c", "[1]", 1, 2), .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of("budget", "100h", NULL), NULL);
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK_NEAR(stw_result_bounds(result).plan_s, 9e-6, 1e-15);
        CHECK_EQ_INT(count_candidates(result), 1);
        CHECK(stw_result_is_optimal(result)); /* no plan beats the bound */
        CHECK_EQ_INT(stw_result_noise(result).ahead, 32);
        CHECK_EQ_INT(stw_result_noise(result).draws, 32);
    }
    stw_result_destroy(result);
    small_close(s);
}

/* Nothing can be fused with it, nothing runs beside it: whatever the objective, the first plan is the best. */
TEST(optimize, one_op_is_optimal_at_once) {
    for (int k = 0; k < 12; k++) {
        const bool plain = k % 2 == 0; /* of a class that fuses, if there were anything to fuse it with */
        small *s = small_open((small_text){.nodes = plain ? SOURCE(0, "x", "input", 8) OP(1, "a", "[0]", 8, 3)
                                                          : SOURCE(0, "x", "input", 8) NODE(1, "a", "mm", "[0]", 8, ""),
                                           .outputs = "[1]",
                                           .device_count = 1 + k / 2 % 2});
        test_context("run %d", k);
        stw_result *result = optimize(
            s->simulator, options_of(ALL_TASKS, "evaluations", "100000", "objective", stw_objective_name[k / 4], NULL), NULL);
        if (result != NULL) {
            check_result(s->simulator, result);
            CHECK(stw_result_is_optimal(result));
            CHECK(count_evaluations(result) <= 4);
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

/* Two ops that are the same work on two devices: the bound of the load is met by a plan that is not the default. */
TEST(optimize, throughput_ends_when_its_bound_is_met) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 4) OP(1, "b", "[]", 1, 4), .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of("evaluations", "100000", "objective", "throughput", NULL), NULL);
    if (result != NULL && CHECK(result->best >= 0)) {
        check_result(s->simulator, result);
        CHECK(stw_result_is_optimal(result));
        CHECK_NEAR(result->entry[result->best]->score.value, 4e-6, 1e-15);
        CHECK_NEAR(stw_result_bounds(result).load_s, 4e-6, 1e-15);
        CHECK(count_evaluations(result) < 1000);
    }
    stw_result_destroy(result);
    small_close(s);
}

/* Within methods too, with a budget that would last for long. */
TEST(optimize, methods_end_where_the_bound_is_met) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 3) OP(1, "b", "[0]", 1, 4) OP(2, "c", "[1]", 1, 2), .device_count = 2});
    stw_result *result = compare(s->simulator, "anneal,steer,go-zero,go-tune,go-one,hdp,placeto,exact,random",
                                 options_of("evaluations", "1000000", "threads", "2", NULL));
    for (int32_t k = 0; result != NULL && k < result->count; k++) {
        const stw_entry *entry = result->entry[k];
        test_context("%s", entry->candidate.method);
        CHECK_NEAR(entry->score.value, 9e-6, 1e-15);
        CHECK(entry->candidate.evaluations < 500);
        if (strcmp(entry->candidate.method, "exact") == 0) CHECK(entry->outcome.proved);
    }
    test_context("%s", "");
    stw_result_destroy(result);
    small_close(s);
}

/* After the default comes the cheapest good plan, even if the budget was gone before. */
TEST(optimize, a_good_plan_comes_first) {
    static const char *const budget[][2] = {{"evaluations", "1"}, {"budget", "0.001ms"}, {"evaluations", "40"}};
    problem p = open_graph("gnmt-2", "h200x4");
    for (int k = 0; k < 3; k++) {
        test_context("%s %s", budget[k][0], budget[k][1]);
        stw_result *result = optimize(p.simulator, options_of(budget[k][0], budget[k][1], "threads", "2", NULL), NULL);
        if (result != NULL && CHECK(result->count >= 2)) {
            check_result(p.simulator, result);
            CHECK_STR(result->entry[1]->candidate.method, k == 1 ? "etf" : "shortlist"); /* where plans are counted */
            CHECK(result->entry[result->best]->score.value < 0.6 * result->entry[0]->score.value);
            if (k < 2) CHECK_EQ_INT(result->count, 2);
            CHECK_EQ_INT(stw_result_noise(result).draws, k == 1 ? 0 : 32); /* the time is up: neither that nor bounds */
            CHECK((stw_result_bounds(result).plan_s > 0.0) == (k != 1));
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

/* By objective: stages for throughput, an order for memory. */
TEST(optimize, what_comes_first_suits_the_objective) {
    static const char *const method[] = {"shortlist", "lean", "expert"};
    problem p = open_graph("inception-v3-b32", "h200x4");
    for (int k = 0; k < 3; k++) {
        test_context("%s", stw_objective_name[k]);
        stw_result *result =
            optimize(p.simulator, options_of("evaluations", "1", "objective", stw_objective_name[k], NULL), NULL);
        if (result != NULL && CHECK_EQ_INT(result->count, 2)) {
            check_result(p.simulator, result);
            CHECK_STR(result->entry[1]->candidate.method, method[k]);
            CHECK_EQ_INT(result->best, 1);
            CHECK(result->entry[1]->score.value < result->entry[0]->score.value);
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

TEST(optimize, small_budgets) {
    static const char *const budgets[] = {"1", "2", "10"};
    const stw_rng seeds = stw_rng_create(563);
    for (int k = 0; k < 9; k++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)k);
        small *s = open_problem(&rng, k + 1);
        test_context("problem %d, %s evaluations", k, budgets[k % 3]);
        stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", budgets[k % 3], NULL), NULL);
        if (result != NULL) {
            check_result(s->simulator, result);
            check_never_worse(s->simulator, result);
            /* The default may try some devices, twice; the search evaluates its starts, and what runs last is not cut short. */
            CHECK(count_evaluations(result) <= atoi(budgets[k % 3]) + 2 * 8 + 8);
        }
        stw_result_destroy(result);
        result = compare(s->simulator, "optimize,anneal,steer", options_of(ALL_TASKS, "evaluations", budgets[k % 3], NULL));
        if (result != NULL) check_result(s->simulator, result);
        for (int32_t c = 0; result != NULL && c < result->count; c++)
            CHECK(result->entry[c]->candidate.evaluations <= atoi(budgets[k % 3]) + 40);
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(optimize, ends_in_time) {
    problem p = open_graph("inception-v3-b32", "h200x2");
    const clock_t busy = clock(); /* of the processor: what others do on the machine does not count */
    stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "budget", "600ms", "threads", "2", NULL), NULL);
    CHECK(clock() - busy < 5 * CLOCKS_PER_SEC); /* two threads */
    if (result != NULL) check_result(p.simulator, result);
    stw_result_destroy(result);
    close_graph(p);
}

TEST(optimize, no_ops) {
    for (int k = 0; k < 2; k++) {
        small *s = small_open((small_text){.nodes = k == 0 ? NULL : SOURCE(0, "p", "parameter", 3), .device_count = 2});
        stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "20", NULL), NULL);
        if (result != NULL) check_result(s->simulator, result);
        stw_result_destroy(result);
        small_close(s);
    }
}

/* ---- no valid plan ---- */

static void check_no_plan(small_text text, const char *part, const char *other_part) {
    small *s = small_open(text);
    for (int k = 0; k < 4; k++) {
        const bool fuses = k >= 2;
        stw_options *options =
            options_of("evaluations", "60", "tasks", fuses ? "placement,schedule,fusion" : "placement,schedule", NULL);
        stw_result *result =
            k % 2 == 0 ? optimize(s->simulator, options, NULL) : compare(s->simulator, "single,optimize,heft", options);
        if (result == NULL) continue;
        stw_candidate candidate;
        CHECK(stw_result_plan(result) == NULL);
        CHECK_EQ_INT(stw_result_best(result), -1);
        CHECK_CONTAINS(stw_result_lacking(result), part);
        CHECK_CONTAINS(stw_result_lacking(result), other_part);
        CHECK(isnan(stw_result_measured_share(result)));
        CHECK_EQ_INT(stw_result_noise(result).ahead, 0);
        CHECK_EQ_INT(stw_result_noise(result).draws, 0);
        for (int32_t c = 0; stw_result_candidate(result, c, &candidate); c++) {
            CHECK(!candidate.valid && candidate.reason != NULL && strlen(candidate.reason) > 5);
        }
        stw_result_destroy(result);
    }
    small_close(s);
}

TEST(lacking, parameters_alone_are_too_large) {
    check_no_plan((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6) OP(2, "a", "[0,1]", 1, 1),
                               .devices = DEVICE("d0", "h200", 5) DEVICE("d1", "h200", 5),
                               .device_count = 2},
                  "12 bytes", "2 bytes are missing");
}

TEST(lacking, names_a_device_and_bytes) {
    /* a's output has 20 bytes, b's 3; both devices hold 15: wherever a is, 5 bytes are missing. */
    check_no_plan((small_text){.nodes = OP(0, "a", "[]", 20, 1) OP(1, "b", "[]", 3, 1),
                               .devices = DEVICE("one", "h200", 15) DEVICE("two", "h200", 15),
                               .device_count = 2,
                               .links = LINK("one", "two") LINK("two", "one")},
                  " lacks 5 bytes", "it holds 20");
}

static void check_words(small_text text, const char *words, const char *more, int32_t most_candidates) {
    small *s = small_open(text);
    stw_result *result = optimize(s->simulator, options_of("evaluations", "60", NULL), NULL);
    if (result != NULL) {
        CHECK_EQ_INT(result->best, -1);
        CHECK_CONTAINS(stw_result_lacking(result), words);
        CHECK_CONTAINS(stw_result_lacking(result), more);
        CHECK_CONTAINS(stw_result_lacking(result), "; the nearest plan (");
        CHECK(result->count <= most_candidates);
    }
    stw_result_destroy(result);
    small_close(s);
}

/* "There is none" takes a proof; and with one, nobody searches on. */
TEST(lacking, says_what_is_known) {
    check_words((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6) OP(2, "a", "[0,1]", 1, 1),
                             .devices = DEVICE("d0", "h200", 5) DEVICE("d1", "h200", 5),
                             .device_count = 2},
                "there is no valid plan: parameters and buffers take 12 bytes", "2 bytes are missing", 2);
    check_words((small_text){.nodes = OP(0, "a", "[]", 20, 1) OP(1, "b", "[]", 3, 1),
                             .devices = DEVICE("d0", "h200", 15) DEVICE("d1", "h200", 15),
                             .device_count = 2},
                "there is no valid plan: whatever the plan, some device holds 20 bytes", "the largest has 15", 2);
    /* Two values of 10 must meet on one device of 25, or on two whose memory p and q fill: exact tries it all. */
    check_words((small_text){.nodes = SOURCE(0, "p", "parameter", 9) SOURCE(1, "q", "parameter", 9) OP(2, "a", "[0]", 6, 1)
                                 OP(3, "b", "[1]", 6, 1) OP(4, "c", "[2,3]", 1, 1),
                             .devices = DEVICE("d0", "h200", 18) DEVICE("d1", "h200", 18),
                             .device_count = 2},
                "there is no valid plan: exact: no plan is valid: all placements and orders were tried", "memory", 2);
}

/* One device does not hold the graph, and the budget is gone before anything was tried: a plan is made that fits all the same. */
TEST(lacking, a_plan_that_fits_is_made_whatever_the_budget) {
    static const char *const budget[][2] = {{"evaluations", "1"}, {"budget", "0.001ms"}};
    problem p = open_graph("gnmt-2", "h200x4");
    CHECK_EQ_INT(stw_machine_set_memory(p.machine, 1500000000, NULL), STW_OK);
    for (int k = 0; k < 4; k++) {
        test_context("%s %s, run %d", budget[k % 2][0], budget[k % 2][1], k);
        stw_result *result = optimize(p.simulator,
                                      options_of(budget[k % 2][0], budget[k % 2][1], "threads", "2", "tasks",
                                                 k < 2 ? "placement,schedule" : "placement,schedule,fusion", NULL),
                                      NULL);
        if (result != NULL && CHECK(result->best > 0)) {
            check_result(p.simulator, result);
            CHECK_EQ_INT(result->entry[0]->score.reason, STW_INVALID_MEMORY);
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    close_graph(p);
}

/* The default does not fit, but another plan does. */
TEST(lacking, nothing_if_any_plan_fits) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6)
                                           OP(2, "a", "[0]", 1, 1) OP(3, "b", "[1]", 1, 1) OP(4, "c", "[2,3]", 1, 1),
                                       .devices = DEVICE("d0", "h200", 10) DEVICE("d1", "h200", 10),
                                       .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "100", NULL), NULL);
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK_EQ_INT(stw_result_noise(result).ahead, 32); /* the default never fits */
    }
    stw_result_destroy(result);
    small_close(s);
}
