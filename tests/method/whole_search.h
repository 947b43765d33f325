/* What the tests of the whole search share: options in a line, a run of it, problems, and what holds for every result. */
#ifndef STW_TEST_METHOD_WHOLE_SEARCH_H
#define STW_TEST_METHOD_WHOLE_SEARCH_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/runner.h"
#include "plan/fuse.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

#define ALL_TASKS "tasks", "placement,schedule,fusion"

/* Names and values in turn, up to NULL. What is counted or worked out by hand here is for ops: unless the tasks are given, fusion
 * is not among them. */
static inline stw_options *options_of(const char *name, ...) {
    stw_options *options;
    stw_error error = {0};
    va_list list;
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "placement,schedule", &error), STW_OK);
    va_start(list, name);
    for (; name != NULL; name = va_arg(list, const char *)) {
        CHECK_EQ_INT(stw_options_set(options, name, va_arg(list, const char *), &error), STW_OK);
        CHECK_STR(error.message, "");
    }
    va_end(list);
    return options;
}

/* Takes the options over. NULL after a failure, which is reported. */
static inline stw_result *optimize(const stw_simulator *simulator, stw_options *options, const stw_watch *watch) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(simulator, options, watch, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

static inline stw_result *compare(const stw_simulator *simulator, const char *methods, stw_options *options) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(simulator, methods, options, NULL, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

static inline int32_t count_candidates(const stw_result *result) {
    stw_candidate candidate;
    int32_t count = 0;
    while (stw_result_candidate(result, count, &candidate)) count++;
    return count;
}

static inline int64_t count_evaluations(const stw_result *result) {
    stw_candidate candidate;
    int64_t sum = 0;
    for (int32_t k = 0; stw_result_candidate(result, k, &candidate); k++) sum += candidate.evaluations;
    return sum;
}

/* The plan is valid, its candidate says so, the bounds hold, and no valid candidate is better. */
static inline void check_result(const stw_simulator *simulator, const stw_result *result) {
    stw_candidate best, other;
    stw_workspace *workspace;
    stw_evaluation evaluation;
    const stw_plan *plan = stw_result_plan(result);
    if (!CHECK(plan != NULL) || !CHECK(stw_result_candidate(result, stw_result_best(result), &best))) return;
    CHECK(best.valid && best.reason == NULL);
    CHECK_STR(stw_result_lacking(result), "");
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &evaluation, NULL), STW_OK);
    CHECK_EQ_INT(evaluation.reason, STW_VALID);
    CHECK_NEAR(evaluation.step_s, best.step_s, 0.0);
    CHECK(best.step_s >= stw_result_bounds(result).plan_s * (1.0 - 1e-12));
    stw_workspace_destroy(workspace);
    for (int32_t k = 0; stw_result_candidate(result, k, &other); k++) {
        CHECK(other.method != NULL && other.note != NULL && other.evaluations >= 0);
        if (other.valid) CHECK(best.value <= other.value);
        if (!other.valid) CHECK(other.reason != NULL && strlen(other.reason) > 5);
    }
    const double share = stw_result_measured_share(result);
    CHECK(share >= 0.0 && share <= 1.0);
}

/* Everything on one device in topological order, its groups by this rule. */
static inline stw_score score_of_single(const stw_simulator *simulator, stw_objective objective, const char *rule) {
    stw_options *options = options_of(ALL_TASKS, "fusion", rule, "rule", "topological", NULL);
    stw_plan *plan = NULL;
    stw_workspace *workspace;
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_method_run("single", simulator, options, &plan, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &evaluation, NULL), STW_OK);
    const stw_score score = stw_score_of(objective, workspace, &evaluation);
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    stw_options_destroy(options);
    return score;
}

/* Whatever the rule for what is fused, one device is not better. */
static inline void check_never_worse(const stw_simulator *simulator, const stw_result *result) {
    for (int k = 0; k < 2; k++) { /* none, default: these are tried whatever the budget */
        const stw_score single = score_of_single(simulator, result->settings.objective, stw_fusion_name[k]);
        test_context("against one device with fusion %s", stw_fusion_name[k]);
        if (CHECK(result->best >= 0)) CHECK(!stw_score_is_better(&single, &result->entry[result->best]->score));
    }
    test_context("%s", "");
}

static inline small *open_problem(stw_rng *rng, int number) {
    return random_open(rng, (random_shape){.nodes = 4 + (int32_t)stw_rng_below(rng, 50),
                                           .device_count = 1 + number % 4,
                                           .plain = number % 7 == 0,
                                           .unlike = number % 2 == 1,
                                           .buses = number % 3 == 0,
                                           .model = number % 4 == 0,
                                           .contention = number % 6 == 5 ? "none" : "queue"});
}

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
} problem;

static inline problem open_graph(const char *name, const char *machine) {
    problem p = {0};
    char path[500];
    stw_error error = {0};
    snprintf(path, sizeof path, "%s/data/graphs/%s.json.gz", STW_SOURCE_DIR, name);
    const bool ok = stw_graph_open(path, NULL, &p.graph, &error) == STW_OK &&
                    stw_machine_open(machine, &p.machine, &error) == STW_OK &&
                    stw_costs_create(p.graph, p.machine, NULL, &p.costs, &error) == STW_OK &&
                    stw_simulator_create(p.costs, &p.simulator, &error) == STW_OK;
    CHECK_STR(error.message, "");
    CHECK(ok);
    return p;
}

static inline void close_graph(problem p) {
    stw_simulator_destroy(p.simulator);
    stw_costs_destroy(p.costs);
    stw_machine_destroy(p.machine);
    stw_graph_destroy(p.graph);
}

/* Eight ops in two chains that exchange something: no bound is met at once. */
#define CHAINS                \
    OP(0, "a", "[]", 1, 3)    \
    OP(1, "b", "[]", 1, 4)    \
    OP(2, "c", "[0,1]", 2, 5) \
    OP(3, "d", "[1]", 2, 2) OP(4, "e", "[2]", 1, 4) OP(5, "f", "[3]", 1, 6) OP(6, "g", "[4,5]", 1, 1) OP(7, "h", "[5]", 1, 2)

#endif
