/* method: what `single` and `spread` promise, on small problems and on every graph that comes with the program. */
#define _DEFAULT_SOURCE /* scandir */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "support/random.h"
#include "test.h"

/* Replaces the problem's plan by the method's and runs it. */
static void run_method(small *s, const char *method) {
    stw_plan *plan;
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_method_run(method, s->simulator, NULL, &plan, &error), STW_OK)) return;
    CHECK_STR(error.message, "");
    CHECK_STR(plan->method.p, method);
    stw_plan_destroy(s->plan);
    s->plan = plan;
    small_run(s);
}

TEST(methods, are_listed) {
    const char *name, *description;
    CHECK(stw_method_list(0, &name, &description));
    CHECK_STR(name, "single");
    CHECK(stw_method_list(1, &name, &description));
    CHECK_STR(name, "spread");
    for (int32_t k = 0; stw_method_list(k, &name, &description); k++) CHECK(strlen(description) > 10);
    CHECK(!stw_method_list(-1, &name, &description));
    CHECK(!stw_method_list(1000, &name, &description));
}

TEST(methods, unknown_one) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1)});
    stw_plan *plan = (stw_plan *)1;
    stw_error error;
    CHECK_EQ_INT(stw_method_run("singel", s->simulator, NULL, &plan, &error), STW_ERROR_INPUT);
    CHECK(plan == NULL);
    CHECK_CONTAINS(error.message, "unknown method 'singel'");
    CHECK_CONTAINS(error.message, "single");
    small_close(s);
}

/* ---- single ---- */

static void check_all_on(const small *s, int32_t device) {
    for (int32_t i = 0; i < s->graph->N; i++) CHECK_EQ_INT(s->plan->device[i], device);
}

#define UNLIKE(a, b, c, d)                                               \
    NODE(0, "a", "relu", "[]", 8, ",'us':{'h200':" #a ",'cpu8':" #b "}") \
    NODE(1, "b", "relu", "[0]", 4, ",'us':{'h200':" #c ",'cpu8':" #d "}")

TEST(single, picks_the_fastest_device) {
    const char *const devices = DEVICE("d0", "h200", 99) DEVICE("d1", "cpu8", 99) DEVICE("d2", "h200", 99);
    small *s = small_open((small_text){.nodes = UNLIKE(1, 9, 2, 9), .devices = devices});
    run_method(s, "single");
    check_all_on(s, 0); /* as fast as d2, which comes later */
    CHECK_STR(s->timeline, "d0: a[0,1) b[1,3)\n");
    small_close(s);
    s = small_open((small_text){.nodes = UNLIKE(1, 9, 20, 9), .devices = devices}); /* 21 and 18 in all */
    run_method(s, "single");
    check_all_on(s, 1);
    CHECK_STR(s->timeline, "d1: a[0,9) b[9,18)\n");
    small_close(s);
}

TEST(single, goes_on_to_the_next_device_if_memory_is_short) {
    /* a (8) and b (4) are held together: 12 bytes. The fastest are d1 and d2, then d0. */
    small *s = small_open((small_text){.nodes = UNLIKE(1, 9, 2, 9),
                                       .devices = DEVICE("d0", "cpu8", 99) DEVICE("d1", "h200", 11) DEVICE("d2", "h200", 12)});
    run_method(s, "single");
    check_all_on(s, 2);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
    s = small_open((small_text){.nodes = UNLIKE(1, 9, 2, 9),
                                .devices = DEVICE("d0", "cpu8", 99) DEVICE("d1", "h200", 11) DEVICE("d2", "h200", 11)});
    run_method(s, "single");
    check_all_on(s, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
    /* Nothing holds it: the fastest, and the evaluation says what is missing. */
    s = small_open((small_text){.nodes = UNLIKE(1, 9, 2, 9),
                                .devices = DEVICE("d0", "cpu8", 11) DEVICE("d1", "h200", 10) DEVICE("d2", "h200", 11)});
    run_method(s, "single");
    check_all_on(s, 1);
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    CHECK_CONTAINS(s->result.message, "d1 lacks 2 bytes");
    small_close(s);
}

/* ---- spread ---- */

/* Microseconds of the ops on each device, and of the longest op. */
static void sum_loads(const small *s, double load[STW_MAX_DEVICES], double *longest) {
    *longest = 0.0;
    memset(load, 0, STW_MAX_DEVICES * sizeof *load);
    for (int32_t k = 0; k < s->graph->op_count; k++) {
        const int32_t op = s->graph->topological[k];
        const double us = stw_costs_op_us(s->costs, op, s->plan->device[op]);
        load[s->plan->device[op]] += us;
        *longest = fmax(*longest, us);
    }
}

TEST(spread, balances_within_one_op) {
    const stw_rng seeds = stw_rng_create(61);
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 1 + number % 50, .device_count = 1 + number % 7, .plain = true});
        test_context("problem %d", number);
        run_method(s, "spread");
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        double load[STW_MAX_DEVICES], longest, total = 0.0;
        sum_loads(s, load, &longest);
        for (int32_t d = 0; d < s->machine->device_count; d++) total += load[d];
        for (int32_t d = 0; d < s->machine->device_count; d++)
            CHECK(load[d] <= total / s->machine->device_count + longest + 1e-6);
        for (int32_t k = 1; k < s->graph->op_count; k++) { /* a stage per device, in topological order */
            CHECK(s->plan->device[s->graph->topological[k]] >= s->plan->device[s->graph->topological[k - 1]]);
            CHECK(s->plan->priority[s->graph->topological[k]] < s->plan->priority[s->graph->topological[k - 1]]);
        }
        small_close(s);
    }
    test_context("%s", "");
}

TEST(spread, unlike_devices_get_what_they_can_do) {
    /* Six ops of 1 us on an H200 and 2 us on the CPU, in a chain: with d0 a CPU the best stages are 2 ops (4 us) and 4 ops. */
    small *s = small_open((small_text){.nodes = NODE(0, "a", "relu", "[]", 0, ",'us':{'h200':1,'cpu8':2}")
                                           NODE(1, "b", "relu", "[0]", 0, ",'us':{'h200':1,'cpu8':2}")
                                               NODE(2, "c", "relu", "[1]", 0, ",'us':{'h200':1,'cpu8':2}")
                                                   NODE(3, "d", "relu", "[2]", 0, ",'us':{'h200':1,'cpu8':2}")
                                                       NODE(4, "e", "relu", "[3]", 0, ",'us':{'h200':1,'cpu8':2}")
                                                           NODE(5, "f", "relu", "[4]", 0, ",'us':{'h200':1,'cpu8':2}"),
                                       .devices = DEVICE("d0", "cpu8", 99) DEVICE("d1", "h200", 99),
                                       .device_count = 2});
    run_method(s, "spread");
    CHECK_STR(s->timeline, "d0: a[0,2) b[2,4)\nd1: c[4,5) d[5,6) e[6,7) f[7,8)\nd0>d1: b[4,4)\n");
    small_close(s);
}

/* ---- both ---- */

static void check_together(const small *s) {
    for (int32_t k = 0; k < s->simulator->pair_count; k++) {
        CHECK_EQ_INT(s->plan->device[s->simulator->pair[k][0]], s->plan->device[s->simulator->pair[k][1]]);
    }
    for (int32_t i = 0; i < s->graph->N; i++) CHECK_EQ_INT(s->plan->device[i], s->plan->device[s->graph->root[i]]);
}

TEST(methods, respect_colocation) {
    const stw_rng seeds = stw_rng_create(62);
    int pairs = 0;
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(
            &rng, (random_shape){.nodes = 45, .device_count = 1 + number % 4, .unlike = number % 2 == 1, .buses = true});
        pairs += s->simulator->pair_count;
        for (int m = 0; m < 2; m++) {
            test_context("problem %d, method %d", number, m);
            run_method(s, m == 0 ? "single" : "spread");
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            check_together(s);
        }
        small_close(s);
    }
    test_context("%s", "");
    CHECK(pairs > 200);
    /* A chain of colocations through a parameter and a view: all follow the op of smallest id. */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[]", 0, 1) OP(2, "b", "[1]", 0, 1)
                                           OP(3, "c", "[2]", 0, 1) VIEW(4, "v", 3, 0)
                                               OP_WITH(5, "u", "[0,3]", 1, 1, ",'updates':0,'colocate':4") OP(6, "d", "[5]", 0, 1)
                                                   OP_WITH(7, "e", "[6]", 0, 1, ",'colocate':0"),
                                       .device_count = 3});
    run_method(s, "spread"); /* two ops each: a b, c u, d e; then e follows c, the first of {p, c, u, e} */
    static const int32_t devices[] = {1, 0, 0, 1, 1, 1, 2, 1};
    for (int32_t i = 0; i < 8; i++) CHECK_EQ_INT(s->plan->device[i], devices[i]);
    small_close(s);
}

TEST(methods, parameters_are_sent_in_the_order_of_their_readers) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 1) SOURCE(1, "q", "parameter", 1)
                                           SOURCE(2, "r", "buffer", 1) OP(3, "a", "[1]", 0, 1) OP(4, "b", "[0,1]", 0, 1)});
    run_method(s, "spread");
    CHECK_NEAR(s->plan->priority[1], s->plan->priority[3], 0.0); /* q is read by a first, p by b */
    CHECK_NEAR(s->plan->priority[0], s->plan->priority[4], 0.0);
    CHECK(s->plan->priority[1] > s->plan->priority[0]);
    small_close(s);
}

TEST(methods, edges) {
    for (int m = 0; m < 2; m++) {
        const char *method = m == 0 ? "single" : "spread";
        test_context("%s", method);
        small *s = small_open((small_text){.device_count = 3}); /* no node */
        run_method(s, method);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
        s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 7), .device_count = 3}); /* no op */
        run_method(s, method);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
        s = small_open((small_text){.nodes = OP(0, "a", "[]", 7, 0), .device_count = 64}); /* one op, which takes no time */
        run_method(s, method);
        CHECK_STR(s->timeline, "d0: a[0,0)\n");
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- the graphs that come with the program ---- */

static int is_graph(const struct dirent *entry) { return strstr(entry->d_name, ".json") != NULL; }

static void check_graph(const char *name) {
    char path[1000];
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_error error = {0};
    snprintf(path, sizeof path, "%s/data/graphs/%s", STW_SOURCE_DIR, name);
    const bool ok = stw_graph_open(path, NULL, &graph, &error) == STW_OK &&
                    stw_machine_open("h200x4", &machine, &error) == STW_OK &&
                    stw_costs_create(graph, machine, NULL, &costs, &error) == STW_OK &&
                    stw_simulator_create(costs, &simulator, &error) == STW_OK &&
                    stw_workspace_create(simulator, &workspace, &error) == STW_OK;
    CHECK_STR(error.message, "");
    if (!CHECK(ok)) return;
    for (int m = 0; m < 2; m++) {
        stw_plan *plan;
        stw_evaluation result;
        stw_bounds bounds;
        test_context("%s, %s", name, m == 0 ? "single" : "spread");
        if (!CHECK_EQ_INT(stw_method_run(m == 0 ? "single" : "spread", simulator, NULL, &plan, &error), STW_OK)) continue;
        CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &result, &error), STW_OK);
        CHECK_STR(result.message, "");
        CHECK_EQ_INT(result.reason, STW_VALID);
        CHECK_EQ_INT(stw_lower_bounds(simulator, plan, &bounds, &error), STW_OK);
        CHECK(bounds.plan_s > 0.0 && bounds.plan_s <= result.step_s);
        CHECK(bounds.fusion_s > 0.0 && bounds.fusion_s <= result.step_s);
        if (m == 0) { /* never idle: the sum of all times */
            CHECK_EQ_INT(result.step_ps, result.busy_ps[0]);
            CHECK_EQ_INT(result.transfer_count, 0);
        } else {
            for (int32_t d = 0; d < 4; d++) CHECK(result.busy_ps[d] > 0);
        }
        stw_plan_destroy(plan);
    }
    stw_workspace_destroy(workspace);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

TEST(methods, every_graph_that_comes_along) {
    struct dirent **entries = NULL;
    const int count = scandir(STW_SOURCE_DIR "/data/graphs", &entries, is_graph, alphasort);
    CHECK(count >= 20);
    for (int k = 0; k < count; k++) {
        test_context("%s", entries[k]->d_name);
        check_graph(entries[k]->d_name);
        free(entries[k]);
    }
    test_context("%s", "");
    free(entries);
}
