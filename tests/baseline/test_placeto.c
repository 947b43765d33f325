/* `placeto` as a method: it runs only where it is named, repeats, honours its options and budgets, and does better than chance
 * and than itself without learning. */
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

static void set(stw_options *options, const char *name, const char *value) {
    CHECK_EQ_INT(stw_options_set(options, name, value, NULL), STW_OK);
}

static stw_options *options_of(const char *evaluations, const char *threads, const char *units) {
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    set(options, "evaluations", evaluations);
    set(options, "threads", threads);
    set(options, "tasks", "placement,schedule"); /* units are of ops, not of groups */
    if (units != NULL) set(options, "units", units);
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

/* The only row of a comparison. */
static stw_candidate row_of(const stw_simulator *simulator, stw_options *options, stw_result **result) {
    stw_candidate candidate = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(simulator, "placeto", options, NULL, result, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK(*result != NULL && stw_result_candidate(*result, 0, &candidate));
    stw_options_destroy(options);
    return candidate;
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
    return CHECK_EQ_INT(stw_graph_open(STW_SOURCE_DIR "/data/graphs/transformer-xl-2.json.gz", NULL, &d->graph, &error),
                        STW_OK) &&
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

static double step_and_free(const data *d, stw_plan *plan) {
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_simulate(d->simulator, plan, d->workspace, &evaluation, NULL), STW_OK);
    CHECK_EQ_INT(evaluation.reason, STW_VALID);
    stw_plan_destroy(plan);
    return evaluation.step_s;
}

TEST(placeto_method, does_better_than_chance_and_than_itself_without_learning) {
    data d = {0};
    double learnt = 0.0, still = 0.0;
    if (!open_data(&d)) return;
    for (int32_t seed = 1; seed <= 2; seed++) {
        const char text[2] = {(char)('0' + seed)};
        stw_options *options = options_of("300", "2", NULL);
        set(options, "seed", text);
        learnt += step_and_free(&d, run(d.simulator, "placeto", options));
        options = options_of("300", "2", NULL);
        set(options, "seed", text);
        set(options, "learning-rate", "0");
        still += step_and_free(&d, run(d.simulator, "placeto", options));
    }
    const double chance = step_and_free(&d, run(d.simulator, "random", options_of("300", "2", NULL)));
    CHECK(learnt < 0.95 * still);
    CHECK(learnt / 2 < 0.9 * chance);
    close_data(&d);
}

TEST(placeto_method, same_plan_from_one_thread_two_and_three) {
    data d = {0};
    if (!open_data(&d)) return;
    const char *const threads[] = {"1", "2", "3"};
    stw_plan *plan[3];
    for (int32_t k = 0; k < 3; k++) plan[k] = run(d.simulator, "placeto", options_of("150", threads[k], "16"));
    for (int32_t k = 1; k < 3; k++) {
        CHECK_EQ_INT(memcmp(plan[0]->device, plan[k]->device, (size_t)d.graph->N * sizeof *plan[0]->device), 0);
        CHECK_EQ_INT(memcmp(plan[0]->priority, plan[k]->priority, (size_t)d.graph->N * sizeof *plan[0]->priority), 0);
    }
    for (int32_t k = 0; k < 3; k++) stw_plan_destroy(plan[k]);
    close_data(&d);
}

/* Nothing that is drawn at first fits. */
TEST(placeto_method, makes_plans_fit) {
    stw_error error = {0};
    stw_session *session = NULL;
    stw_options *options = options_of("400", "2", NULL);
    set(options, "machine", "h200x2");
    set(options, "memory", "1.3GB");
    if (!CHECK_EQ_INT(stw_session_open(STW_SOURCE_DIR "/data/graphs/rnnlm-2.json.gz", options, &session, &error), STW_OK)) return;
    stw_result *result = NULL;
    const stw_candidate candidate = row_of(stw_session_simulator(session), options, &result);
    CHECK(candidate.valid); /* by the simulator, on devices of that size */
    stw_result_destroy(result);
    stw_session_destroy(session);
}

/* ---- small problems ---- */

#define FORK OP(0, "a", "[]", 1, 5) OP(1, "b", "[0]", 1, 20) OP(2, "c", "[0]", 1, 20) OP(3, "d", "[1,2]", 1, 5)

static void check_note(const small *s, stw_options *options, const char *updates, const char *nodes) {
    stw_result *result = NULL;
    const stw_candidate candidate = row_of(s->simulator, options, &result);
    CHECK(candidate.valid);
    CHECK_CONTAINS(candidate.note, updates);
    CHECK_CONTAINS(candidate.note, nodes);
    stw_result_destroy(result);
}

/* A link is slow, so that no plan meets the bound and ends the search. */
TEST(placeto_method, options_are_honoured) {
    small *s =
        small_open((small_text){.nodes = FORK, .device_count = 2, .links = LINK_WITH("d0", "d1", 1e6, 3, "") LINK("d1", "d0")});
    stw_options *options = options_of("100000", "1", NULL);
    set(options, "updates", "3");
    check_note(s, options, "3 updates of 2 episodes", "4 units visited");
    options = options_of("100000", "1", "off");
    set(options, "updates", "2");
    set(options, "preset", "paper");
    check_note(s, options, "2 updates of 4 episodes", "4 ops visited");
    options = options_of("100000", "1", "2");
    set(options, "updates", "1");
    check_note(s, options, "1 updates", "2 units visited");
    small_close(s);
}

TEST(placeto_method, runs_only_where_it_is_named) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    stw_options *options = options_of("400", "1", NULL);
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, &error), STW_OK);
    stw_candidate candidate = {0};
    int32_t others = 0;
    for (int32_t k = 0; stw_result_candidate(result, k, &candidate); k++) {
        CHECK(strcmp(candidate.method, "placeto") != 0);
        others++;
    }
    CHECK(others > 0);
    CHECK(stw_method_exists("placeto"));
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
}

static void check_valid(small *s, stw_plan *plan) {
    stw_plan_destroy(s->plan);
    s->plan = plan;
    small_run(s);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
}

/* A device holds two of the three parameters and what is computed, not all of them. */
TEST(placeto_method, plans_fit_memory_where_some_do) {
    const char *const devices = DEVICE("d0", "h200", 40) DEVICE("d1", "h200", 40);
    const char *const nodes = SOURCE(0, "p", "parameter", 15) SOURCE(1, "q", "parameter", 15) SOURCE(2, "r", "parameter", 15)
        OP(3, "a", "[0]", 2, 5) OP(4, "b", "[1,3]", 2, 5) OP(5, "c", "[2,4]", 2, 5);
    small *s = small_open((small_text){.nodes = nodes, .devices = devices, .device_count = 2});
    check_valid(s, run(s->simulator, "placeto", options_of("40", "1", NULL)));
    small_close(s);
}

/* From d0 no way leads to d2. */
TEST(placeto_method, plans_use_devices_that_can_talk) {
    small *s = small_open((small_text){
        .nodes = FORK, .device_count = 3, .links = LINK("d0", "d1") LINK("d1", "d0") LINK("d1", "d2") LINK("d2", "d1")});
    for (int32_t seed = 1; seed <= 3; seed++) {
        const char text[2] = {(char)('0' + seed)};
        stw_options *options = options_of("8", "1", NULL);
        set(options, "seed", text);
        check_valid(s, run(s->simulator, "placeto", options));
    }
    small_close(s);
}

TEST(placeto_method, plans_of_random_problems_are_valid) {
    const stw_rng seeds = stw_rng_create(77);
    for (uint64_t number = 0; number < 6; number++) {
        stw_rng rng = stw_rng_split(&seeds, number);
        small *s = random_open(
            &rng,
            (random_shape){.nodes = 5 + 6 * (int32_t)number, .device_count = 1 + (int32_t)number % 3, .unlike = number % 2 == 1});
        test_context("problem %d", (int)number);
        check_valid(s, run(s->simulator, "placeto", options_of("40", "2", NULL)));
        small_close(s);
    }
    test_context("%s", "");
}

static void check_evaluations(const stw_simulator *simulator) {
    const char *const evaluations[] = {"1", "2", "3", "5", "17"};
    for (int32_t k = 0; k < 5; k++) {
        stw_result *result = NULL;
        const stw_candidate candidate = row_of(simulator, options_of(evaluations[k], "2", NULL), &result);
        test_context("%s", evaluations[k]);
        CHECK(candidate.valid);
        CHECK(candidate.evaluations <= strtol(evaluations[k], NULL, 10) + (k == 0)); /* `single` is measured and judged */
        stw_result_destroy(result);
    }
    test_context("%s", "");
}

TEST(placeto_method, evaluations_bind_and_few_still_give_a_plan) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    data d = {0};
    check_evaluations(s->simulator); /* a search that needs few */
    small_close(s);
    if (!open_data(&d)) return;
    check_evaluations(d.simulator); /* and one that would need more */
    close_data(&d);
}

TEST(placeto_method, placement_stays_where_only_the_schedule_is_asked_for) {
    small *s = small_open((small_text){.nodes = FORK, .device_count = 2});
    stw_options *options = options_of("20", "1", NULL);
    set(options, "tasks", "schedule");
    stw_plan *plan = run(s->simulator, "placeto", options);
    for (int32_t i = 0; i < s->graph->N; i++) CHECK_EQ_INT(plan->device[i], 0);
    stw_plan_destroy(plan);
    small_close(s);
}
