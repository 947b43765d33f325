/* `hdp` as a method: it runs only where it is named, repeats, honours its options, and does better than chance. */
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

static stw_options *options_of(const char *evaluations, const char *threads, const char *groups) {
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", evaluations, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", threads, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "placement,schedule", NULL), STW_OK); /* units are of ops, not of groups */
    if (groups != NULL) CHECK_EQ_INT(stw_options_set(options, "groups", groups, NULL), STW_OK);
    return options;
}

static stw_plan *run(const stw_simulator *simulator, const char *method, stw_options *options) {
    stw_plan *plan = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_method_run(method, simulator, options, &plan, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return plan;
}

/* ---- a graph of the data ---- */

typedef struct data {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
} data;

static bool open_data(data *d) {
    stw_error error = {0};
    return CHECK_EQ_INT(stw_graph_open(STW_SOURCE_DIR "/data/graphs/rnnlm-2.json.gz", NULL, &d->graph, &error), STW_OK) &&
           CHECK_EQ_INT(stw_machine_open("h200x2", &d->machine, &error), STW_OK) &&
           CHECK_EQ_INT(stw_costs_create(d->graph, d->machine, NULL, &d->costs, &error), STW_OK) &&
           CHECK_EQ_INT(stw_simulator_create(d->costs, &d->simulator, &error), STW_OK) &&
           CHECK_EQ_INT(stw_workspace_create(d->simulator, &d->workspace, &error), STW_OK);
}

static void close_data(data *d) {
    stw_workspace_destroy(d->workspace);
    stw_simulator_destroy(d->simulator);
    stw_costs_destroy(d->costs);
    stw_machine_destroy(d->machine);
    stw_graph_destroy(d->graph);
}

static double step_of(const data *d, const stw_plan *plan) {
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_simulate(d->simulator, plan, d->workspace, &evaluation, NULL), STW_OK);
    CHECK_EQ_INT(evaluation.reason, STW_VALID);
    return evaluation.step_s;
}

TEST(hdp, does_better_than_chance_with_as_many_evaluations) {
    data d = {0};
    if (!open_data(&d)) return;
    stw_plan *learnt = run(d.simulator, "hdp", options_of("16", "2", "8"));
    stw_plan *chance = run(d.simulator, "random", options_of("16", "2", NULL));
    CHECK(step_of(&d, learnt) < 0.9 * step_of(&d, chance));
    stw_plan_destroy(learnt);
    stw_plan_destroy(chance);
    close_data(&d);
}

TEST(hdp, same_plan_from_one_thread_and_two) {
    data d = {0};
    if (!open_data(&d)) return;
    stw_plan *one = run(d.simulator, "hdp", options_of("24", "1", "12")),
             *two = run(d.simulator, "hdp", options_of("24", "2", "12"));
    CHECK_EQ_INT(memcmp(one->device, two->device, (size_t)d.graph->N * sizeof *one->device), 0);
    CHECK_EQ_INT(memcmp(one->priority, two->priority, (size_t)d.graph->N * sizeof *one->priority), 0);
    stw_plan_destroy(one);
    stw_plan_destroy(two);
    close_data(&d);
}

/* The plans that are drawn first lack memory; the best is made to fit while there is budget left for it. */
TEST(hdp, makes_plans_fit) {
    stw_error error = {0};
    stw_session *session = NULL;
    stw_options *options = options_of("400", "2", "8");
    CHECK_EQ_INT(stw_options_set(options, "machine", "h200x2", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "memory", "1.3GB", NULL), STW_OK);
    if (!CHECK_EQ_INT(stw_session_open(STW_SOURCE_DIR "/data/graphs/rnnlm-2.json.gz", options, &session, &error), STW_OK)) return;
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_compare(stw_session_simulator(session), "hdp", options, NULL, &result, &error), STW_OK);
    stw_candidate candidate = {0};
    CHECK(stw_result_candidate(result, 0, &candidate));
    CHECK(candidate.valid && candidate.repaired);
    stw_result_destroy(result);
    stw_session_destroy(session);
    stw_options_destroy(options);
}

/* ---- small problems ---- */

#define FORK OP(0, "a", "[]", 1, 5) OP(1, "b", "[0]", 1, 20) OP(2, "c", "[0]", 1, 20) OP(3, "d", "[1,2]", 1, 5)

static void check_note(const small *s, stw_options *options, const char *updates, const char *groups) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(s->simulator, "hdp", options, NULL, &result, &error), STW_OK);
    if (!CHECK(result != NULL)) return;
    stw_candidate candidate = {0};
    CHECK(stw_result_candidate(result, 0, &candidate));
    CHECK(candidate.valid);
    CHECK_CONTAINS(candidate.note, updates);
    CHECK_CONTAINS(candidate.note, groups);
    stw_result_destroy(result);
    stw_options_destroy(options);
}

TEST(hdp, options_are_honoured) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    stw_options *options = options_of("1000", "1", "2");
    CHECK_EQ_INT(stw_options_set(options, "updates", "3", NULL), STW_OK);
    check_note(s, options, "3 updates", "2 groups from 4 units");
    options = options_of("1000", "1", NULL);
    CHECK_EQ_INT(stw_options_set(options, "preset", "paper", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "updates", "2", NULL), STW_OK);
    check_note(s, options, "2 updates", "4 groups from 4 ops"); /* no more than ops */
    options = options_of("1000", "1", NULL);
    CHECK_EQ_INT(stw_options_set(options, "units", "2", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "updates", "1", NULL), STW_OK);
    check_note(s, options, "1 updates", " units");
    small_close(s);
}

TEST(hdp, options_that_are_wrong_are_told_in_a_line) {
    stw_options *options = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "groups", "0", &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "--groups: '0' is not a whole number from 1 to 1024");
    CHECK_EQ_INT(stw_options_set(options, "groups", "many", &error), STW_ERROR_INPUT);
    CHECK(strchr(error.message, '\n') == NULL);
    stw_options_destroy(options);
}

TEST(hdp, runs_only_where_it_is_named) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    stw_options *options = options_of("400", "1", NULL);
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, &error), STW_OK);
    stw_candidate candidate = {0};
    int32_t others = 0;
    for (int32_t k = 0; stw_result_candidate(result, k, &candidate); k++) {
        CHECK(strcmp(candidate.method, "hdp") != 0);
        others++;
    }
    CHECK(others > 0);
    CHECK(stw_method_exists("hdp"));
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
}

/* A device holds two of the three parameters and what is computed, not all of them. */
TEST(hdp, plans_fit_memory_where_some_do) {
    const char *const devices = DEVICE("d0", "h200", 40) DEVICE("d1", "h200", 40);
    const char *const nodes = SOURCE(0, "p", "parameter", 15) SOURCE(1, "q", "parameter", 15) SOURCE(2, "r", "parameter", 15)
        OP(3, "a", "[0]", 2, 5) OP(4, "b", "[1,3]", 2, 5) OP(5, "c", "[2,4]", 2, 5);
    small *s = small_open((small_text){.nodes = nodes, .devices = devices, .device_count = 2});
    stw_plan *plan = run(s->simulator, "hdp", options_of("40", "1", NULL));
    stw_plan_destroy(s->plan);
    s->plan = plan;
    small_run(s);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
}

/* From d0 no way leads to d2. */
TEST(hdp, plans_use_devices_that_can_talk) {
    small *s = small_open((small_text){
        .nodes = FORK, .device_count = 3, .links = LINK("d0", "d1") LINK("d1", "d0") LINK("d1", "d2") LINK("d2", "d1")});
    for (int32_t seed = 1; seed <= 3; seed++) {
        stw_options *options = options_of("8", "1", NULL);
        char text[8] = {(char)('0' + seed)};
        CHECK_EQ_INT(stw_options_set(options, "seed", text, NULL), STW_OK);
        stw_plan *plan = run(s->simulator, "hdp", options);
        stw_plan_destroy(s->plan);
        s->plan = plan;
        small_run(s);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
    }
    small_close(s);
}

TEST(hdp, plans_of_random_problems_are_valid) {
    const stw_rng seeds = stw_rng_create(77);
    for (uint64_t number = 0; number < 6; number++) {
        stw_rng rng = stw_rng_split(&seeds, number);
        small *s = random_open(
            &rng,
            (random_shape){.nodes = 5 + 6 * (int32_t)number, .device_count = 1 + (int32_t)number % 3, .unlike = number % 2 == 1});
        test_context("problem %d", (int)number);
        stw_plan *plan = run(s->simulator, "hdp", options_of("16", "2", NULL));
        stw_plan_destroy(s->plan);
        s->plan = plan;
        small_run(s);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(hdp, few_evaluations_still_give_a_plan) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    const char *const evaluations[] = {"1", "2", "5"};
    for (int32_t k = 0; k < 3; k++) {
        stw_plan *plan = run(s->simulator, "hdp", options_of(evaluations[k], "1", NULL));
        CHECK(plan != NULL);
        stw_plan_destroy(plan);
    }
    small_close(s);
}

TEST(hdp, placement_stays_where_only_the_schedule_is_asked_for) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    stw_options *options = options_of("20", "1", NULL);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "schedule", NULL), STW_OK);
    stw_plan *plan = run(s->simulator, "hdp", options);
    for (int32_t i = 0; i < s->graph->N; i++) CHECK_EQ_INT(plan->device[i], 0);
    stw_plan_destroy(plan);
    small_close(s);
}
