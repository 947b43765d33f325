/* optimize: the whole search. Never worse than the default, ends when it should, says what lacks; and what the options mean. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, mkstemp */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plan/fuse.h"
#include "plan/plan.h"
#include "runner.h"
#include "support/random.h"
#include "test.h"

/* ---- helpers ---- */

#define ALL_TASKS "tasks", "placement,schedule,fusion"

/* Names and values in turn, up to NULL. What is counted or worked out by hand here is for ops: unless the tasks are given, fusion
 * is not among them. */
static stw_options *options_of(const char *name, ...) {
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
static stw_result *optimize(const stw_simulator *simulator, stw_options *options, const stw_watch *watch) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(simulator, options, watch, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

static stw_result *compare(const stw_simulator *simulator, const char *methods, stw_options *options) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(simulator, methods, options, NULL, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

static int32_t count_candidates(const stw_result *result) {
    stw_candidate candidate;
    int32_t count = 0;
    while (stw_result_candidate(result, count, &candidate)) count++;
    return count;
}

static int64_t count_evaluations(const stw_result *result) {
    stw_candidate candidate;
    int64_t sum = 0;
    for (int32_t k = 0; stw_result_candidate(result, k, &candidate); k++) sum += candidate.evaluations;
    return sum;
}

/* The plan is valid, its candidate says so, the bounds hold, and no valid candidate is better. */
static void check_result(const stw_simulator *simulator, const stw_result *result) {
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
static stw_score score_of_single(const stw_simulator *simulator, stw_objective objective, const char *rule) {
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
static void check_never_worse(const stw_simulator *simulator, const stw_result *result) {
    for (int k = 0; k < 2; k++) { /* none, default: these are tried whatever the budget */
        const stw_score single = score_of_single(simulator, result->settings.objective, stw_fusion_name[k]);
        test_context("against one device with fusion %s", stw_fusion_name[k]);
        if (CHECK(result->best >= 0)) CHECK(!stw_score_is_better(&single, &result->entry[result->best]->score));
    }
    test_context("%s", "");
}

static small *open_problem(stw_rng *rng, int number) {
    return random_open(rng, (random_shape){.nodes = 4 + (int32_t)stw_rng_below(rng, 50),
                                           .device_count = 1 + number % 4,
                                           .plain = number % 7 == 0,
                                           .unlike = number % 2 == 1,
                                           .buses = number % 3 == 0,
                                           .model = number % 4 == 0,
                                           .contention = number % 6 == 5 ? "none" : "queue"});
}

/* Eight ops in two chains that exchange something: no bound is met at once. */
#define CHAINS                \
    OP(0, "a", "[]", 1, 3)    \
    OP(1, "b", "[]", 1, 4)    \
    OP(2, "c", "[0,1]", 2, 5) \
    OP(3, "d", "[1]", 2, 2) OP(4, "e", "[2]", 1, 4) OP(5, "f", "[3]", 1, 6) OP(6, "g", "[4,5]", 1, 1) OP(7, "h", "[5]", 1, 2)

/* ---- options ---- */

static stw_status read_setting(const char *name, const char *value, stw_settings *out, stw_error *error) {
    stw_options *options = options_of(name, value, NULL);
    const stw_status status = stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, out, error);
    stw_options_destroy(options);
    return status;
}

TEST(settings, defaults) {
    stw_options *options;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    for (int k = 0; k < 2; k++) {
        stw_settings settings;
        CHECK_EQ_INT(stw_settings_read(k == 0 ? NULL : options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.objective, STW_OBJECTIVE_TIME);
        CHECK_EQ_INT(settings.tasks, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE);
        CHECK_EQ_INT(settings.rule, -1);
        CHECK_EQ_INT(settings.fusion, -1);
        CHECK(settings.from == NULL);
        CHECK_EQ_INT(settings.seed, 1);
        CHECK_EQ_INT(settings.threads, 0);
        CHECK_EQ_INT(settings.unit_count, 512);
        CHECK_NEAR(settings.budget_s, 10.0, 0.0);
        CHECK_EQ_INT(settings.evaluations, 0);
        CHECK_EQ_INT(stw_settings_read(k == 0 ? NULL : options, STW_TASK_ALL, &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.tasks, STW_TASK_ALL); /* what holds where the options are silent is up to the caller */
    }
    stw_options_destroy(options);
}

TEST(settings, tasks) {
    static const struct {
        const char *text;
        unsigned tasks; /* 0: refused */
    } cases[] = {{"placement", STW_TASK_PLACEMENT},
                 {"schedule", STW_TASK_SCHEDULE},
                 {"placement,schedule", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
                 {"schedule,placement", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
                 {"placement,placement", 0},
                 {"placement,", 0},
                 {",schedule", 0},
                 {",", 0},
                 {"placement schedule", 0},
                 {"fusion", STW_TASK_FUSION},
                 {"fusion,schedule", STW_TASK_FUSION | STW_TASK_SCHEDULE},
                 {"fusion,placement,schedule", STW_TASK_ALL},
                 {"placement,schedule,fusion", STW_TASK_ALL},
                 {"fusion,placement,fusion", 0},
                 {"fusions", 0},
                 {"place", 0},
                 {"placements", 0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stw_settings settings;
        stw_error error = {0};
        test_context("'%s'", cases[k].text);
        const stw_status status = read_setting("tasks", cases[k].text, &settings, &error);
        CHECK_EQ_INT(status, cases[k].tasks == 0 ? STW_ERROR_INPUT : STW_OK);
        if (status == STW_OK) CHECK_EQ_INT(settings.tasks, cases[k].tasks);
        if (status != STW_OK) CHECK_CONTAINS(error.message, "--tasks: '");
        if (status != STW_OK) CHECK_CONTAINS(error.message, cases[k].text);
    }
    test_context("%s", "");
}

TEST(settings, units) {
    static const struct {
        const char *text;
        int32_t count; /* -1: refused */
    } cases[] = {{"off", 0},  {"1", 1},    {"512", 512}, {"2147483647", INT32_MAX},   {"2147483648", -1}, {"0", -1}, {"-3", -1},
                 {"1.5", -1}, {"Off", -1}, {"12x", -1},  {"99999999999999999999", -1}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stw_settings settings;
        stw_error error = {0};
        test_context("'%s'", cases[k].text);
        const stw_status status = read_setting("units", cases[k].text, &settings, &error);
        CHECK_EQ_INT(status, cases[k].count < 0 ? STW_ERROR_INPUT : STW_OK);
        if (status == STW_OK) CHECK_EQ_INT(settings.unit_count, cases[k].count);
        if (status != STW_OK) CHECK_CONTAINS(error.message, "--units: '");
    }
    test_context("%s", "");
}

TEST(settings, budgets) {
    static const struct {
        const char *text;
        double seconds; /* 0: refused */
    } cases[] = {{"10s", 10.0},    {"500ms", 0.5}, {"2min", 120.0}, {"2m", 120.0}, {"1h", 3600.0}, {"1.5s", 1.5}, {"3", 3.0},
                 {"2 min", 120.0}, {"1e9", 1e9},   {"1e9h", 0.0},   {"0", 0.0},    {"0s", 0.0},    {"-1s", 0.0},  {"s", 0.0},
                 {"ten", 0.0},     {"10 d", 0.0},  {"1s2", 0.0},    {"1sms", 0.0}, {"nan", 0.0},   {"inf", 0.0},  {" ", 0.0}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double seconds = -7.0;
        stw_error error = {0};
        stw_options *options = options_of(NULL);
        test_context("'%s'", cases[k].text);
        const bool good = cases[k].seconds > 0.0;
        CHECK_EQ_INT(stw_str_to_seconds(stw_str_of(cases[k].text), &seconds), good);
        CHECK_NEAR(seconds, good ? cases[k].seconds : -7.0, 1e-9);
        CHECK_EQ_INT(stw_options_set(options, "budget", cases[k].text, &error), good ? STW_OK : STW_ERROR_INPUT);
        if (!good) CHECK_CONTAINS(error.message, "--budget");
        stw_settings settings;
        CHECK_EQ_INT(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
        CHECK_NEAR(settings.budget_s, good ? cases[k].seconds : 10.0, 1e-9);
        stw_options_destroy(options);
    }
    test_context("%s", "");
}

TEST(settings, evaluations_take_the_place_of_time) {
    stw_settings settings;
    CHECK_EQ_INT(read_setting("evaluations", "100", &settings, NULL), STW_OK);
    CHECK_EQ_INT(settings.evaluations, 100);
    CHECK_NEAR(settings.budget_s, 0.0, 0.0);
    stw_options *options = options_of("evaluations", "100", "budget", "2s", NULL);
    CHECK_EQ_INT(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
    CHECK_EQ_INT(settings.evaluations, 100);
    CHECK_NEAR(settings.budget_s, 2.0, 0.0); /* whichever ends first */
    stw_options_destroy(options);
}

TEST(settings, choices) {
    stw_settings settings;
    for (int k = 0; k < 3; k++) {
        CHECK_EQ_INT(read_setting("objective", stw_objective_name[k], &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.objective, k);
    }
    for (int k = 0; k < STW_RULE_COUNT; k++) {
        CHECK_EQ_INT(read_setting("rule", stw_rule_name[k], &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.rule, k);
    }
    for (int k = 0; k < STW_FUSION_COUNT; k++) {
        stw_options *fused = options_of("tasks", "all", "fusion", stw_fusion_name[k], NULL);
        CHECK_EQ_INT(stw_settings_read(fused, STW_TASK_PLACEMENT, &settings, NULL), STW_OK);
        CHECK_EQ_INT(settings.tasks, STW_TASK_ALL);
        CHECK_EQ_INT(settings.fusion, k);
        stw_options_destroy(fused);
    }
    CHECK_EQ_INT(read_setting("fusion", "default", &settings, NULL), STW_ERROR_INPUT); /* no task */
    CHECK_EQ_INT(read_setting("seed", "9223372036854775807", &settings, NULL), STW_OK);
    CHECK(settings.seed == (uint64_t)INT64_MAX);
    stw_options *options = options_of(NULL);
    CHECK_EQ_INT(stw_options_set(options, "objective", "speed", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "rule", "lifo", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "fusion", "greedy", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "0", NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_options_set(options, "threads", "1025", NULL), STW_ERROR_INPUT);
    stw_options_destroy(options);
}

TEST(settings, bad_ones_end_a_search_before_it_begins) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_options *options = options_of("tasks", "cooking", NULL);
    stw_result *result = (stw_result *)1;
    stw_plan *plan = (stw_plan *)1;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_CONTAINS(error.message, "cooking");
    result = (stw_result *)1;
    CHECK_EQ_INT(stw_compare(s->simulator, "single", options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_EQ_INT(stw_method_run("single", s->simulator, options, &plan, &error), STW_ERROR_INPUT);
    CHECK(plan == NULL);
    stw_options_destroy(options);
    small_close(s);
}

/* ---- never worse ---- */

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
            CHECK_STR(first.method, "single");  /* the default, */
            CHECK_STR(second.method, "single"); /* and nothing fused */
            CHECK(!stw_result_is_interrupted(result));
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
} problem;

static problem open_graph(const char *name, const char *machine) {
    problem p = {0};
    char path[500];
    stw_error error = {0};
    snprintf(path, sizeof path, "%s/data/graphs/%s.json.gz", STW_SOURCE_DIR, name);
    const bool ok = stw_graph_open(path, &p.graph, &error) == STW_OK && stw_machine_open(machine, &p.machine, &error) == STW_OK &&
                    stw_costs_create(p.graph, p.machine, NULL, &p.costs, &error) == STW_OK &&
                    stw_simulator_create(p.costs, &p.simulator, &error) == STW_OK;
    CHECK_STR(error.message, "");
    CHECK(ok);
    return p;
}

static void close_graph(problem p) {
    stw_simulator_destroy(p.simulator);
    stw_costs_destroy(p.costs);
    stw_machine_destroy(p.machine);
    stw_graph_destroy(p.graph);
}

TEST(optimize, is_never_worse_on_real_graphs) {
    static const char *const names[] = {"resnet50", "inception-v3-b32"};
    for (int k = 0; k < 2; k++) {
        problem p = open_graph(names[k], "h200x2");
        test_context("%s", names[k]);
        stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "evaluations", "150", "threads", "2", NULL), NULL);
        if (result != NULL) {
            int32_t draws;
            check_result(p.simulator, result);
            check_never_worse(p.simulator, result);
            CHECK(count_candidates(result) > 3);
            CHECK(count_evaluations(result) <= 150 + 8 + 6 * 14); /* each method may look at three groupings more */
            CHECK(stw_result_ahead(result, &draws) > 16);         /* it is far ahead, or the same */
            CHECK_EQ_INT(draws, 32);
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
        CHECK_STR(result[0]->entry[result[0]->best]->method, "anneal"); /* the search had its turn */
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
        test_context("candidate %d, %s", k, result->entry[k]->method);
        for (int32_t i = 0; plan != NULL && i < N; i++) CHECK_EQ_INT(plan->device[i], device);
    }
    test_context("%s", "");
}

/* The priority of node i is i * each, in candidates `from` to before `to`. */
static void check_orders(const stw_result *result, int32_t from, int32_t to, int32_t N, double each) {
    for (int32_t k = from; k < to && k < result->count; k++) {
        const stw_plan *plan = result->entry[k]->plan;
        test_context("candidate %d, %s", k, result->entry[k]->method);
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
        static const char *const methods[] = {"single", "single", "go-one", "anneal"};
        check_result(s->simulator, result);
        CHECK_EQ_INT(result->count, 4);
        for (int32_t k = 0; k < result->count && k < 4; k++) CHECK_STR(result->entry[k]->method, methods[k]);
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
    /* With a rule, it is the best placement under that rule: nothing is proved. */
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
    const double began_s = stw_now_s();
    stw_result *result = optimize(s->simulator, options_of("budget", "60s", NULL), NULL);
    if (result != NULL) {
        int32_t draws;
        check_result(s->simulator, result);
        CHECK_NEAR(stw_result_bounds(result).plan_s, 9e-6, 1e-15);
        CHECK_EQ_INT(count_candidates(result), 1);
        CHECK(stw_result_is_optimal(result)); /* no plan beats the bound */
        CHECK_EQ_INT(stw_result_ahead(result, &draws), 32);
        CHECK_EQ_INT(draws, 32);
    }
    CHECK(stw_now_s() - began_s < 10.0);
    stw_result_destroy(result);
    small_close(s);
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
            CHECK(result->entry[c]->evaluations <= atoi(budgets[k % 3]) + 40);
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(optimize, ends_in_time) {
    problem p = open_graph("inception-v3-b32", "h200x2");
    const double began_s = stw_now_s();
    stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "budget", "600ms", "threads", "2", NULL), NULL);
    CHECK(stw_now_s() - began_s < 3.0);
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

/* ---- cancelling ---- */

TEST(cancel, before_the_start) {
    stw_rng rng = stw_rng_create(564);
    small *s = open_problem(&rng, 2);
    stw_cancel *cancel;
    CHECK_EQ_INT(stw_cancel_create(&cancel, NULL), STW_OK);
    stw_cancel_request(cancel);
    const stw_watch watch = {.cancel = cancel};
    const double began_s = stw_now_s();
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "budget", "60s", NULL), &watch);
    CHECK(stw_now_s() - began_s < 5.0);
    if (result != NULL) {
        int32_t draws = -1;
        check_result(s->simulator, result);
        CHECK(stw_result_is_interrupted(result));
        CHECK_EQ_INT(count_candidates(result), 2); /* the default, and nothing fused */
        CHECK_EQ_INT(stw_result_ahead(result, &draws), 0);
        CHECK_EQ_INT(draws, 0);
    }
    stw_result_destroy(result);
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(s->simulator, "heft,optimize,single", NULL, &watch, &result, &error), STW_OK);
    if (CHECK(result != NULL)) {
        CHECK(stw_result_is_interrupted(result));
        CHECK_EQ_INT(count_candidates(result), 1); /* the first builds its one plan */
    }
    stw_result_destroy(result);
    stw_cancel_destroy(cancel);
    small_close(s);
}

static void *cancel_soon(void *context) {
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    stw_cancel_request(context);
    return NULL;
}

TEST(cancel, from_another_thread) {
    problem p = open_graph("resnet50", "h200x2");
    stw_cancel *cancel;
    pthread_t thread;
    CHECK_EQ_INT(stw_cancel_create(&cancel, NULL), STW_OK);
    const stw_watch watch = {.cancel = cancel};
    const double began_s = stw_now_s();
    CHECK_EQ_INT(pthread_create(&thread, NULL, cancel_soon, cancel), 0);
    stw_result *result = optimize(p.simulator, options_of(ALL_TASKS, "budget", "60s", "threads", "2", NULL), &watch);
    CHECK(stw_now_s() - began_s < 4.0);
    pthread_join(thread, NULL);
    if (result != NULL) {
        check_result(p.simulator, result);
        CHECK(stw_result_is_interrupted(result));
    }
    stw_result_destroy(result);
    stw_cancel_destroy(cancel);
    close_graph(p);
}

/* ---- progress ---- */

typedef struct {
    int calls, in_anneal;
    double best_value, elapsed_s;
    int64_t evaluations;
    stw_cancel *cancel; /* requested in the call after so many */
    int most_calls;
} observer;

static void observe(void *context, const stw_progress *progress) {
    observer *o = context;
    if (o->calls > 0) CHECK(progress->elapsed_s >= o->elapsed_s && progress->evaluations >= o->evaluations);
    if (o->best_value > 0.0) CHECK(progress->has_plan && progress->best_value <= o->best_value);
    if (progress->has_plan) CHECK(progress->best_step_s >= progress->lower_bound_s * (1.0 - 1e-12));
    CHECK(progress->method != NULL && progress->evaluation_budget == 2000 && progress->budget_s == 0.0);
    o->in_anneal += progress->method != NULL && strcmp(progress->method, "anneal") == 0;
    o->elapsed_s = progress->elapsed_s;
    o->evaluations = progress->evaluations;
    o->best_value = progress->has_plan ? progress->best_value : 0.0;
    if (++o->calls == o->most_calls) stw_cancel_request(o->cancel);
}

TEST(progress, tells_how_far_it_is) {
    stw_rng rng = stw_rng_create(565);
    small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 4, .plain = true});
    observer o = {0};
    const stw_watch watch = {.progress = observe, .context = &o};
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "2000", "threads", "2", NULL), &watch);
    CHECK(o.calls > 10);
    CHECK(o.in_anneal > 0);
    if (result != NULL) {
        stw_candidate best;
        check_result(s->simulator, result);
        CHECK(stw_result_candidate(result, stw_result_best(result), &best));
        CHECK_NEAR(best.value, o.best_value, 0.0);
        CHECK_EQ_INT(o.evaluations, count_evaluations(result));
    }
    stw_result_destroy(result);
    small_close(s);
}

TEST(cancel, while_progress_is_told) {
    stw_rng rng = stw_rng_create(565);
    small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 4, .plain = true});
    observer o = {.most_calls = 6};
    CHECK_EQ_INT(stw_cancel_create(&o.cancel, NULL), STW_OK);
    const stw_watch watch = {.progress = observe, .context = &o, .cancel = o.cancel};
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "2000", "threads", "2", NULL), &watch);
    if (result != NULL) {
        check_result(s->simulator, result);
        CHECK(stw_result_is_interrupted(result));
        CHECK(count_evaluations(result) < 1000);
    }
    stw_result_destroy(result);
    stw_cancel_destroy(o.cancel);
    small_close(s);
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
        int32_t draws = -1;
        CHECK(stw_result_plan(result) == NULL);
        CHECK_EQ_INT(stw_result_best(result), -1);
        CHECK_CONTAINS(stw_result_lacking(result), part);
        CHECK_CONTAINS(stw_result_lacking(result), other_part);
        CHECK(isnan(stw_result_measured_share(result)));
        CHECK_EQ_INT(stw_result_ahead(result, &draws), 0);
        CHECK_EQ_INT(draws, 0);
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

/* The default does not fit, but another plan does. */
TEST(lacking, nothing_if_any_plan_fits) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6)
                                           OP(2, "a", "[0]", 1, 1) OP(3, "b", "[1]", 1, 1) OP(4, "c", "[2,3]", 1, 1),
                                       .devices = DEVICE("d0", "h200", 10) DEVICE("d1", "h200", 10),
                                       .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "100", NULL), NULL);
    if (result != NULL) {
        int32_t draws;
        check_result(s->simulator, result);
        CHECK_EQ_INT(stw_result_ahead(result, &draws), 32); /* the default never fits */
    }
    stw_result_destroy(result);
    small_close(s);
}

/* ---- noise ---- */

static int32_t ahead(const small *s, const stw_plan *best, const stw_plan *standard) {
    stw_settings settings;
    stw_runner *runner;
    stw_result *result = calloc(1, sizeof *result);
    CHECK_EQ_INT(stw_settings_read(NULL, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
    settings.threads = 2;
    CHECK_EQ_INT(stw_runner_create(s->simulator, &settings, NULL, &runner, NULL), STW_OK);
    CHECK_EQ_INT(stw_runner_try_noise(runner, best, standard, result, NULL), STW_OK);
    CHECK_EQ_INT(result->draws, 32);
    const int32_t count = result->ahead;
    stw_runner_destroy(runner);
    free(result);
    return count;
}

static stw_plan *plan_of(const small *s, const char *method) {
    stw_options *options = options_of("evaluations", "100", NULL);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_method_run(method, s->simulator, options, &plan, NULL), STW_OK);
    stw_options_destroy(options);
    return plan;
}

/* Four ops without edges: 20 us on one device, 10 on two. A step of 20.1 us is behind now and then. */
TEST(noise, far_better_plans_stay_ahead) {
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 9, 5) OP(1, "b", "[]", 9, 5) OP(2, "c", "[]", 9, 5) OP(3, "d", "[]", 9, 5), .device_count = 2});
    stw_plan *one = plan_of(s, "single"), *two = plan_of(s, "heft");
    CHECK_EQ_INT(ahead(s, one, one), 32);
    CHECK_EQ_INT(ahead(s, two, two), 32);
    CHECK_EQ_INT(ahead(s, two, one), 32);
    CHECK_EQ_INT(ahead(s, one, two), 0);
    stw_plan_destroy(one);
    stw_plan_destroy(two);
    small_close(s);
}

/* a and b take 5 us each and c 5.2: which two of them share a device matters less than the noise. */
TEST(noise, a_lead_within_the_noise_is_lost_now_and_then) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 9, 5) OP(1, "b", "[]", 9, 5) OP(2, "c", "[]", 9, 5.2), .device_count = 2});
    stw_plan *better = plan_of(s, "single"), *worse = plan_of(s, "single");
    memcpy(better->device, (const int32_t[]){0, 0, 1}, 3 * sizeof(int32_t)); /* 10 */
    memcpy(worse->device, (const int32_t[]){0, 1, 1}, 3 * sizeof(int32_t));  /* 10.2 */
    const int32_t count = ahead(s, better, worse);
    CHECK(count > 8 && count < 32);
    CHECK_EQ_INT(ahead(s, better, worse), count); /* the same draws every time */
    stw_plan_destroy(better);
    stw_plan_destroy(worse);
    small_close(s);
}

/* ---- compare and stw_method_run ---- */

TEST(compare, methods_by_themselves) {
    stw_rng rng = stw_rng_create(566);
    small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 3});
    stw_result *result =
        compare(s->simulator, "single,optimize,heft,single", options_of(ALL_TASKS, "evaluations", "300", "threads", "2", NULL));
    static const char *const names[] = {"single", "optimize", "heft", "single"};
    stw_candidate candidate[4];
    if (result != NULL) {
        check_result(s->simulator, result);
        if (CHECK_EQ_INT(count_candidates(result), 4)) {
            for (int32_t k = 0; k < 4; k++) {
                CHECK(stw_result_candidate(result, k, &candidate[k]));
                CHECK_STR(candidate[k].method, names[k]);
                CHECK(candidate[k].valid && candidate[k].seed == 1 && candidate[k].peak_bytes != NULL);
            }
            CHECK(candidate[1].value <= candidate[0].value);
            CHECK(strlen(candidate[1].note) > 3);
            CHECK(candidate[1].evaluations > candidate[0].evaluations);
            CHECK_NEAR(candidate[0].value, candidate[3].value, 0.0); /* each has the whole budget and knows of no other */
            CHECK_EQ_INT(candidate[0].evaluations, candidate[3].evaluations);
        }
        CHECK(!stw_result_candidate(result, 4, &candidate[0]));
        CHECK(!stw_result_candidate(result, -1, &candidate[0]));
        CHECK(stw_result_bounds(result).plan_s > 0.0);
    }
    stw_result_destroy(result);
    small_close(s);
}

TEST(compare, unknown_names) {
    static const char *const lists[] = {"singel",   "",
                                        "single,",  "single,,heft",
                                        ",single",  "single, heft",
                                        "Optimize", "a-name-that-is-longer-than-any-method-could-ever-be-and-then-some",
                                        "optimizer"};
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        stw_options *options = options_of("evaluations", "10", NULL);
        stw_result *result = (stw_result *)1;
        stw_error error = {0};
        test_context("'%s'", lists[k]);
        CHECK_EQ_INT(stw_compare(s->simulator, lists[k], options, NULL, &result, &error), STW_ERROR_INPUT);
        CHECK(result == NULL);
        CHECK_CONTAINS(error.message, "unknown method '");
        CHECK_CONTAINS(error.message, "heft");
        stw_options_destroy(options);
    }
    test_context("%s", "");
    small_close(s);
}

TEST(compare, more_methods_than_there_is_room_for) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    char list[1000] = "single";
    for (int k = 0; k < STW_MAX_ENTRIES; k++) strcat(list, ",single");
    stw_result *result = (stw_result *)1;
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(s->simulator, list, NULL, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_CONTAINS(error.message, "64");
    small_close(s);
}

TEST(method_run, leaves_a_plan_that_says_who_made_it) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_options *options = options_of("evaluations", "100", "seed", "5", "rule", "fifo", NULL);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_method_run("heft", s->simulator, options, &plan, NULL), STW_OK);
    if (CHECK(plan != NULL)) {
        CHECK_STR(plan->method.p, "heft");
        CHECK_EQ_INT(plan->seed, 5);
        for (int32_t i = 0; i < s->graph->N; i++) CHECK_NEAR(plan->priority[i], 0.0, 0.0);
    }
    stw_plan_destroy(plan);
    stw_options_destroy(options);
    small_close(s);
}

/* ---- results ---- */

TEST(result, is_written_and_read_again) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "2000", NULL), NULL);
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0) || result == NULL) return;
    close(file);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_result_write(result, path, false, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_open(path, s->graph, s->machine, &plan, NULL, NULL), STW_OK);
    if (plan != NULL) {
        const size_t N = (size_t)s->graph->N;
        CHECK(memcmp(plan->device, stw_result_plan(result)->device, N * sizeof *plan->device) == 0);
        CHECK(memcmp(plan->priority, stw_result_plan(result)->priority, N * sizeof *plan->priority) == 0);
        int fused = 0;
        for (size_t i = 0; i < N; i++) fused += plan->group[i] != (int32_t)i;
        CHECK(fused > 0); /* there is something to get wrong */
        CHECK_EQ_INT(stw_plan_canonical_groups(result->entry[result->best]->plan, NULL), STW_OK); /* as the file has them */
        CHECK(memcmp(plan->group, stw_result_plan(result)->group, N * sizeof *plan->group) == 0);
    }
    unlink(path);
    stw_plan_destroy(plan);
    stw_result_destroy(result);
    small_close(s);
}
