/* method/balance: small problems against all placements, its own sums against the simulator, and the published inputs of
 * dnn-partitioning where they are: in shared/external/dnn-partitioning beside the source tree, or where STOWAGE_DNN_PARTITIONING
 * says. */
#include "method/balance/balance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

static stw_status run_with(const stw_simulator *simulator, const char *objective, const char *evaluations, const char *threads,
                           stw_plan **plan, stw_error *error) {
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "objective", objective, error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", evaluations, error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", threads, error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "units", "1", error), STW_OK); /* so that small problems have levels, too */
    const stw_status status = stw_method_run("balance", simulator, options, plan, error);
    stw_options_destroy(options);
    return status;
}

/* Replaces the plan of the problem by that of the method and runs it; the largest load in microseconds. */
static double balance_us(small *s, const char *evaluations) {
    stw_error error = {0};
    stw_plan *plan = NULL;
    if (!CHECK_EQ_INT(run_with(s->simulator, "throughput", evaluations, "2", &plan, &error), STW_OK)) return -1.0;
    CHECK_STR(error.message, "");
    stw_plan_destroy(s->plan);
    s->plan = plan;
    small_run(s);
    if (!CHECK_STR(s->result.message, "")) return -1.0;
    return stw_workspace_largest_load_s(s->workspace) * 1e6;
}

/* The smallest largest load of all valid placements of the ops. */
static double least_us(small *s) {
    double least = HUGE_VAL;
    int64_t count = 1;
    for (int32_t i = 0; i < s->graph->op_count; i++) count *= s->machine->device_count;
    for (int64_t code = 0; code < count; code++) {
        int64_t rest = code;
        for (int32_t k = 0; k < s->graph->op_count; k++) {
            s->plan->device[s->graph->topological[k]] = (int32_t)(rest % s->machine->device_count);
            rest /= s->machine->device_count;
        }
        stw_plan_complete(s->simulator, s->plan);
        stw_error error;
        if (stw_simulate(s->simulator, s->plan, s->workspace, &s->result, &error) != STW_OK) return -1.0;
        if (s->result.reason != STW_VALID) continue;
        least = fmin(least, stw_workspace_largest_load_s(s->workspace) * 1e6);
    }
    return least;
}

TEST(balance, as_good_as_all_placements) {
    stw_rng rng = stw_rng_create(11);
    for (int round = 0; round < 16; round++) {
        const random_shape shape = {.nodes = 6, .device_count = 3, .plain = true, .unlike = round % 2 == 0};
        small *s = random_open(&rng, shape);
        s->machine->host = round % 4 - 1;
        const double least = least_us(s);
        test_context("round %d, %d ops", round, s->graph->op_count);
        CHECK_NEAR(balance_us(s, "40"), least, 1e-6 * (1.0 + least));
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
}

TEST(balance, respects_memory) {
    /* Three parameters of 40 bytes with their readers; a device holds two, and the middle one is long. */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 40) SOURCE(1, "q", "parameter", 40)
                                           SOURCE(2, "r", "parameter", 40) OP(3, "a", "[0]", 1, 3) OP(4, "b", "[1,3]", 1, 100)
                                               OP(5, "c", "[2,4]", 1, 3),
                                       .devices = DEVICE("d0", "h200", 85) DEVICE("d1", "h200", 85),
                                       .device_count = 2,
                                       .device = "[0,0,1,0,0,1]"});
    CHECK_NEAR(balance_us(s, "20"), 101.0, 1e-6 + 1.0); /* b alone and one or two bytes that come or go */
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
}

/* What operators leave in memory counts as well: two outputs of 50 bytes do not fit beside the parameter. */
TEST(balance, learns_what_tensors_need) {
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "p", "parameter", 60) OP(1, "a", "[0]", 50, 9) OP(2, "b", "[1]", 50, 9) OP(3, "c", "[2]", 1, 9),
        .devices = DEVICE("d0", "h200", 170) DEVICE("d1", "h200", 120),
        .device_count = 2,
        .device = "[0,0,0,0]"});
    CHECK(balance_us(s, "20") > 0.0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
}

TEST(balance, devices_that_cannot_talk) {
    /* d0 and d1 are linked, d2 is alone: the chain must not use it, the op beside it may. */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 10) OP(1, "b", "[0]", 1, 10) OP(2, "x", "[]", 1, 10),
                                       .device_count = 3,
                                       .links = LINK("d0", "d1") LINK("d1", "d0"),
                                       .device = "[0,0,0]"});
    CHECK_NEAR(balance_us(s, "20"), 11.0, 1e-6);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
}

TEST(balance, small_and_odd_problems) {
    small *s = small_open((small_text){.device_count = 2}); /* nothing at all */
    CHECK_NEAR(balance_us(s, "3"), 0.0, 0.0);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 5) OP(1, "b", "[0]", 1, 6)}); /* one device */
    CHECK_NEAR(balance_us(s, "1"), 11.0, 1e-6);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 0) OP(1, "b", "[0]", 0, 0), .device_count = 64}); /* no time */
    CHECK_NEAR(balance_us(s, "3"), 0.0, 0.0);
    small_close(s);
}

TEST(balance, other_objectives) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1), .device_count = 2});
    stw_plan *plan = NULL;
    stw_error error;
    CHECK_EQ_INT(run_with(s->simulator, "time", "10", "1", &plan, &error), STW_ERROR_NO_PLAN);
    CHECK_CONTAINS(error.message, "serves the objective throughput only");
    CHECK(plan == NULL);
    small_close(s);
}

/* Sources, views, updates, control edges, buses: valid, and no worse than one device. */
TEST(balance, random_problems) {
    stw_rng rng = stw_rng_create(3);
    for (int round = 0; round < 20; round++) {
        const random_shape shape = {.nodes = 100, .device_count = 1 + round % 5, .buses = true, .unlike = round % 3 == 0};
        small *s = random_open(&rng, shape);
        const double single = stw_workspace_largest_load_s(s->workspace) * 1e6; /* all on device 0 */
        test_context("round %d", round);
        CHECK(balance_us(s, "8") <= single * (1.0 + 1e-9));
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
}

TEST(balance, any_number_of_threads) {
    stw_rng rng = stw_rng_create(8);
    small *s = random_open(&rng, (random_shape){.nodes = 200, .device_count = 4});
    stw_plan *plan[2];
    stw_error error;
    for (int k = 0; k < 2; k++)
        CHECK_EQ_INT(run_with(s->simulator, "throughput", "40", k == 0 ? "1" : "3", &plan[k], &error), STW_OK);
    CHECK(memcmp(plan[0]->device, plan[1]->device, (size_t)s->graph->N * sizeof *plan[0]->device) == 0);
    for (int k = 0; k < 2; k++) stw_plan_destroy(plan[k]);
    small_close(s);
}

/* ---- the sums that are kept up to date ---- */

static void check_state(small *s, const stw_balance_model *model, const stw_balance_state *state) {
    for (int32_t i = 0; i < s->graph->N; i++) s->plan->device[i] = model->atom_of[i] < 0 ? 0 : state->device[model->atom_of[i]];
    small_run(s);
    int64_t load[STW_MAX_DEVICES];
    stw_workspace_loads_ps(s->workspace, load);
    for (int32_t d = 0; d < model->D; d++) CHECK_NEAR(state->load[d], (double)load[d] / 1e6, 1e-4 + 1e-9 * state->load[d]);
}

TEST(balance, sums_agree_with_the_simulator) {
    stw_rng rng = stw_rng_create(21);
    for (int round = 0; round < 20; round++) {
        small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 4, .plain = true, .unlike = true});
        s->machine->host = round % 5 - 1;
        s->machine->charges = round % 2 == 1;
        for (int32_t k = 0; s->machine->charges && k < 16; k++) {
            s->machine->link[k].send_us = (double)stw_rng_below(&rng, 3);
            s->machine->link[k].receive_us = (double)stw_rng_below(&rng, 4);
        }
        stw_arena arena;
        stw_error error;
        stw_balance_model model;
        stw_balance_state state;
        CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
        CHECK_EQ_INT(stw_balance_model_build(s->simulator, NULL, &arena, &model, &error), STW_OK);
        CHECK_EQ_INT(stw_balance_state_create(&model, &arena, &state, &error), STW_OK);
        int32_t *device = STW_NEW(&arena, int32_t, model.A);
        for (int32_t a = 0; a < model.A; a++) device[a] = (int32_t)stw_rng_below(&rng, 4);
        stw_balance_state_set(&state, device);
        check_state(s, &model, &state);
        for (int k = 0; k < 200; k++)
            stw_balance_state_move(&state, (int32_t)stw_rng_below(&rng, model.A), (int32_t)stw_rng_below(&rng, 4));
        check_state(s, &model, &state);
        stw_arena_destroy(&arena);
        small_close(s);
    }
}

/* Every order is a permutation. */
TEST(balance, orders) {
    stw_rng rng = stw_rng_create(4);
    for (int round = 0; round < 20; round++) {
        small *s = random_open(&rng, (random_shape){.nodes = 50, .device_count = 3});
        stw_arena arena;
        stw_error error;
        stw_balance_model model;
        CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
        CHECK_EQ_INT(stw_balance_model_build(s->simulator, NULL, &arena, &model, &error), STW_OK);
        int32_t *order = STW_NEW(&arena, int32_t, model.A), *seen = STW_NEW(&arena, int32_t, model.A);
        for (int32_t kind = 0; kind < STW_BALANCE_ORDERS; kind++) {
            CHECK_EQ_INT(stw_balance_order(&model, kind, &rng, order, arena, &error), STW_OK);
            for (int32_t k = 0; k < model.A; k++) seen[order[k]]++;
            for (int32_t a = 0; a < model.A; a++) CHECK_EQ_INT(seen[a], kind + 1);
        }
        stw_arena_destroy(&arena);
        small_close(s);
    }
}

/* ---- the published inputs ---- */

static const char *inputs(char *path, size_t size) {
    const char *given = getenv("STOWAGE_DNN_PARTITIONING");
    snprintf(path, size, "%s", given != NULL ? given : STW_SOURCE_DIR "/../shared/external/dnn-partitioning");
    return path;
}

/* A short run must come within a twentieth of the best contiguous split, or of pipedream's where that is not known. */
static void check_input(const char *folder, const char *name, double limit_ms) {
    char path[2000];
    stw_graph *graph = NULL;
    stw_costs *costs = NULL;
    stw_simulator *simulator = NULL;
    stw_workspace *workspace = NULL;
    stw_plan *plan = NULL;
    stw_evaluation result;
    stw_error error = {0};
    snprintf(path, sizeof path, "%s/throughput-inputs/%s.json", folder, name);
    test_context("%s", name);
    if (!CHECK_EQ_INT(stw_graph_open(path, NULL, &graph, &error), STW_OK)) return;
    CHECK_EQ_INT(stw_costs_create(graph, stw_graph_machine(graph), NULL, &costs, &error), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(costs, &simulator, &error), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, &error), STW_OK);
    CHECK_EQ_INT(run_with(simulator, "throughput", "8", "2", &plan, &error), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &result, &error), STW_OK);
    CHECK_EQ_INT(result.reason, STW_VALID);
    CHECK_NEAR(fmax(stw_workspace_largest_load_s(workspace) * 1e3, limit_ms), limit_ms, 0.05 * limit_ms);
    stw_plan_destroy(plan);
    stw_workspace_destroy(workspace);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_graph_destroy(graph);
}

TEST(balance, published_inputs) {
    char folder[1000], path[1200], line[500], name[200];
    snprintf(path, sizeof path, "%s/baselines.csv", inputs(folder, sizeof folder));
    FILE *file = fopen(path, "r");
    if (file == NULL) SKIP("the dnn-partitioning inputs are not here; STOWAGE_DNN_PARTITIONING may name their folder");
    int count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        double known = 0.0, pipedream = 0.0;
        if (sscanf(line, "throughput,%199[^,],%*d,%*d,%*d,%*d,%lf,%*f,%lf", name, &known, &pipedream) < 2 &&
            sscanf(line, "throughput,%199[^,],%*d,%*d,%*d,%*d,,%*[^,],%lf", name, &known) < 2)
            continue;
        check_input(folder, name, known);
        count++;
    }
    fclose(file);
    CHECK_EQ_INT(count, 16);
}
