/* plan: plan files there and back, what the reader refuses and where, and every rule for groups with its message. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, open_memstream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/random.h"
#include "test.h"

/* ---- there and back ----------------------------------------------------------------------------------------------------- */

/* The path of a new empty file; the caller removes it. */
static const char *make_file(char path[40]) {
    strcpy(path, "/tmp/stowage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    close(descriptor);
    return path;
}

static void check_same_decisions(const stw_plan *a, const stw_plan *b) {
    const stw_graph *graph = a->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        CHECK_NEAR(a->priority[i], b->priority[i], 0.0);
        if (stw_node_is_everywhere(graph->kind[graph->root[i]])) continue; /* ignored there */
        CHECK_EQ_INT(a->device[i], b->device[i]);
        if (graph->kind[i] == STW_NODE_OP) CHECK_EQ_INT(a->group[i], b->group[i]);
    }
    for (int32_t d = 0; d < a->machine->device_count; d++) {
        CHECK_EQ_INT(a->order[d] == NULL, b->order[d] == NULL);
        CHECK_EQ_INT(a->order_count[d], b->order_count[d]);
        for (int32_t k = 0; a->order_count[d] == b->order_count[d] && k < a->order_count[d]; k++) {
            CHECK_EQ_INT(a->order[d][k], b->order[d][k]);
        }
    }
}

/* The plan's timeline on a machine that is not the problem's own object. */
static uint64_t hash_on(const small *s, const stw_machine *machine, const stw_plan *plan) {
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_evaluation result;
    CHECK_EQ_INT(stw_costs_create(s->graph, machine, NULL, &costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(costs, &simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &result, NULL), STW_OK);
    const uint64_t hash = hash_run(workspace, &result);
    stw_workspace_destroy(workspace);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    return hash;
}

/* Written and read again, for the same machine and for the machine in the file. */
static void check_round_trip(const small *s) {
    char path[40];
    stw_plan *again;
    stw_error error = {0};
    const uint64_t hash = hash_on(s, s->machine, s->plan);
    make_file(path);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, &error), STW_OK);
    if (CHECK_EQ_INT(stw_plan_open(path, s->graph, s->machine, &again, &error), STW_OK)) {
        CHECK(stw_plan_warning(again) == NULL);
        CHECK(stw_plan_machine(again) == s->machine);
        CHECK_STR(again->method.p, s->plan->method.p);
        CHECK_EQ_INT(again->seed, s->plan->seed);
        check_same_decisions(s->plan, again);
        CHECK(hash_on(s, s->machine, again) == hash);
        stw_plan_destroy(again);
    }
    if (CHECK_EQ_INT(stw_plan_open(path, s->graph, NULL, &again, &error), STW_OK)) {
        CHECK(stw_plan_warning(again) == NULL);
        CHECK(stw_machine_equal(stw_plan_machine(again), s->machine));
        check_same_decisions(s->plan, again);
        CHECK(hash_on(s, stw_plan_machine(again), again) == hash);
        stw_plan_destroy(again);
    }
    CHECK_STR(error.message, "");
    remove(path);
}

TEST(plan, round_trip) {
    const stw_rng seeds = stw_rng_create(51);
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(
            &rng, (random_shape){.nodes = 25, .device_count = 1 + number % 4, .unlike = number % 2 == 1, .buses = true});
        test_context("problem %d", number);
        random_placement(&rng, s->simulator, s->plan);
        for (int32_t i = 0; i < s->graph->N; i++) s->plan->priority[i] = stw_rng_normal(&rng) * 1e3; /* no digit is lost */
        if (number % 3 > 0) random_groups(&rng, s->simulator, s->plan, 20);
        if (number % 3 > 1) random_orders(&rng, s->simulator, s->plan);
        if (number % 6 == 5) CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, NULL, -1, NULL), STW_OK);
        s->plan->method = STW_STR("by chance");
        s->plan->seed = number - 3;
        check_round_trip(s);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(plan, round_trip_of_an_invalid_plan) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 8, 1), .devices = DEVICE("d0", "h200", 7)});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    check_round_trip(s);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 8, 1), .group = "[-1]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_GROUPS);
    check_round_trip(s);
    small_close(s);
    s = small_open((small_text){.device_count = 2}); /* no node */
    check_round_trip(s);
    small_close(s);
}

TEST(plan, numbers_of_the_evaluation) {
    char path[40];
    stw_arena arena;
    stw_str text;
    small *s =
        small_open((small_text){.nodes = OP(0, "a", "[]", 8, 1) OP(1, "b", "[0]", 4, 2), .device_count = 2, .device = "[0,1]"});
    make_file(path);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_file_read(path, &arena, &text, NULL), STW_OK);
    CHECK_CONTAINS(text.p, "\"step_s\":1.1e-05,"); /* a[0,1), sent over [1,9), b[9,11) */
    CHECK_CONTAINS(text.p, "\"valid\":true,");
    CHECK_CONTAINS(text.p, "\"measured_share\":1,");
    CHECK_CONTAINS(text.p, "\"peak_bytes\":[8,12],");
    CHECK_CONTAINS(text.p, s->graph->fingerprint);
    stw_arena_destroy(&arena);
    remove(path);
    small_close(s);
}

/* ---- graphs and machines ------------------------------------------------------------------------------------------------ */

#define TWO_OPS OP(0, "a", "[]", 8, 1) OP(1, "b", "[0]", 4, 2)

/* Reads the text, in which ' stands for ". The plan, or NULL and the message. */
static stw_plan *parse(const small *s, const stw_machine *machine, const char *text, stw_error *error) {
    char *quoted = small_quote(text);
    stw_plan *plan = (stw_plan *)1;
    *error = (stw_error){0};
    const stw_status status = stw_plan_parse(quoted, strlen(quoted), "p.json", s->graph, machine, &plan, error);
    CHECK_EQ_INT(status, error->status);
    CHECK_EQ_INT(status == STW_OK, plan != NULL);
    free(quoted);
    return plan;
}

static void check_refused(const small *s, const stw_machine *machine, const char *text, const char *message) {
    stw_error error;
    stw_plan *plan = parse(s, machine, text, &error);
    CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
    CHECK(plan == NULL);
    CHECK_STR(error.message, message);
    stw_plan_destroy(plan);
}

TEST(plan, another_graph_is_refused) {
    small *s = small_open((small_text){.nodes = TWO_OPS});
    char text[300], message[300];
    snprintf(text, sizeof text, "{'format':'plan','version':1,\n'graph':{'name':'x','fingerprint':'%032d'},'device':[0,0]}", 7);
    snprintf(message, sizeof message,
             "p.json: line 2, column 70: the plan is for another graph (fingerprint %032d, this graph has %s), or for other "
             "sizes (--shape)",
             7, s->graph->fingerprint);
    check_refused(s, s->machine, text, message);
    /* Told before the lists, which do not fit either. */
    snprintf(text, sizeof text, "{'format':'plan','version':1,\n'graph':{'name':'x','fingerprint':'%032d'},'device':[0]}", 7);
    check_refused(s, s->machine, text, message);
    small_close(s);
    /* The same through files: names and times may differ, a shape may not. */
    char path[40];
    stw_plan *plan;
    stw_error error = {0};
    s = small_open((small_text){.nodes = TWO_OPS});
    small *renamed = small_open((small_text){.nodes = OP(0, "x", "[]", 8, 9) OP(1, "y", "[0]", 4, 9)});
    small *larger = small_open((small_text){.nodes = OP(0, "a", "[]", 8, 1) OP(1, "b", "[0]", 5, 2)});
    make_file(path);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_open(path, renamed->graph, s->machine, &plan, &error), STW_OK);
    stw_plan_destroy(plan);
    CHECK_EQ_INT(stw_plan_open(path, larger->graph, s->machine, &plan, &error), STW_ERROR_INPUT);
    CHECK(plan == NULL);
    CHECK_CONTAINS(error.message, path);
    CHECK_CONTAINS(error.message, "the plan is for another graph");
    remove(path);
    small_close(s);
    small_close(renamed);
    small_close(larger);
}

TEST(plan, another_machine) {
    /* Written for d0 and d1; then read for machines that have these in another order, more of them, or one of them only. */
    char path[40];
    stw_plan *plan;
    stw_error error = {0};
    small *s = small_open((small_text){.nodes = TWO_OPS, .device_count = 2, .device = "[0,1]", .order = "[[0],[1]]"});
    small *turned = small_open((small_text){.nodes = TWO_OPS,
                                            .devices = DEVICE("d2", "h200", 9) DEVICE("d1", "h200", 99) DEVICE("d0", "h200", 99),
                                            .links = LINK("d0", "d1")});
    small *less = small_open((small_text){.nodes = TWO_OPS, .devices = DEVICE("d1", "h200", 99)});
    make_file(path);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);

    if (CHECK_EQ_INT(stw_plan_open(path, turned->graph, turned->machine, &plan, &error), STW_OK)) {
        CHECK_STR(stw_plan_warning(plan), "the plan was made for another machine 'small'; it is evaluated again");
        CHECK_EQ_INT(plan->device[0], 2);
        CHECK_EQ_INT(plan->device[1], 1);
        CHECK(plan->order[0] == NULL && plan->order_count[1] == 1 && plan->order_count[2] == 1);
        CHECK_EQ_INT(plan->order[2][0], 0);
        CHECK_EQ_INT(plan->order[1][0], 1);
        stw_plan_destroy(turned->plan);
        turned->plan = plan;
        small_run(turned);
        CHECK_STR(turned->timeline, "d1: b[9,11)\nd0: a[0,1)\nd0>d1: a[1,9)\n"); /* as on its own machine */
    }
    CHECK_EQ_INT(stw_plan_open(path, less->graph, less->machine, &plan, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "the plan uses device 'd0', which machine 'small' does not have");
    /* A device that is not used may be absent, its order too if it is empty. */
    s->plan->device[0] = 1;
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, NULL, 0, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 1, (const int32_t[]){0, 1}, 2, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    if (CHECK_EQ_INT(stw_plan_open(path, less->graph, less->machine, &plan, &error), STW_OK)) {
        CHECK_CONTAINS(stw_plan_warning(plan), "the plan was made for another machine");
        CHECK(plan->device[0] == 0 && plan->device[1] == 0 && plan->order_count[0] == 2);
        stw_plan_destroy(plan);
    }
    remove(path);
    small_close(s);
    small_close(turned);
    small_close(less);
}

TEST(plan, written_by_hand) {
    stw_error error;
    small *s = small_open(
        (small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[0]", 8, 1) VIEW(2, "v", 1, 8) OP(3, "b", "[2]", 4, 2),
                     .device_count = 2});
    stw_plan *plan = parse(s, s->machine, "{'format':'plan','version':1,'device':[0,1,7,1]}", &error);
    if (CHECK(plan != NULL)) {
        CHECK_STR(stw_plan_warning(plan), "the plan has no fingerprint; it is taken to be for this graph");
        CHECK_EQ_INT(plan->device[1], 1);
        CHECK_EQ_INT(plan->device[2], 1); /* a view is where its root is, whatever stands there */
        CHECK(plan->group[1] == 1 && plan->group[3] == 3 && plan->order[0] == NULL && plan->order[1] == NULL);
        CHECK_NEAR(plan->priority[3], 0.0, 0.0);
        CHECK_STR(plan->method.p, "");
        stw_plan_destroy(plan);
    }
    /* Keys in any order, unknown ones among them. */
    plan = parse(
        s, s->machine,
        "{'order':[[1,3],null],'note':{'x':[1,2]},'group':[-1,3,-1,3],'priority':[0,1e2,0,-0.5],'device':[0,0,0,0],'seed':5,"
        "'method':'me','version':1.0,'format':'plan'}",
        &error);
    if (CHECK(plan != NULL)) {
        CHECK(plan->group[1] == 1 && plan->group[3] == 1 && plan->order_count[0] == 2 && plan->order[1] == NULL);
        CHECK_NEAR(plan->priority[1], 100.0, 0.0);
        CHECK_EQ_INT(plan->seed, 5);
        CHECK_STR(plan->method.p, "me");
        stw_plan_destroy(plan);
    }
    check_refused(s, NULL, "{'format':'plan','version':1,'device':[0,0,0,0]}",
                  "p.json: the plan names no machine; give one (--machine)");
    small_close(s);
}

/* ---- refusals ----------------------------------------------------------------------------------------------------------- */

#define HEAD "{'format':'plan','version':1,\n"

TEST(plan, refusals_say_where) {
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "p.json: line 1, column 1: the text ends where an object should be"},
        {"[]", "p.json: line 1, column 1: an object is expected here, but an array stands here"},
        {"{'format':'opgraph'}", "p.json: line 1, column 20: format 'opgraph' is not a plan; \"plan\" is expected"},
        {"{'format':'plan','version':2}", "p.json: line 1, column 29: plan version 2; this program reads version 1"},
        {"{'version':1,'device':[0,0]}", "p.json: line 1, column 29: \"format\":\"plan\" is missing; is this a plan file?"},
        {"{'format':'plan','device':[0,0]}", "p.json: line 1, column 33: \"version\" is missing; write \"version\":1"},
        {HEAD "'priority':[0,0]}", "p.json: line 2, column 18: \"device\" is missing: one device index per node"},
        {HEAD "'device':[0,0],\n'device':[0,0]}", "p.json: line 3, column 10: \"device\" stands twice"},
        /* lists */
        {HEAD "'device':[0]}",
         "p.json: line 2, column 13: \"device\" has 1 entries, the graph has 2 nodes; is the plan for another graph?"},
        {HEAD "'device':[0,0,0]}",
         "p.json: line 2, column 15: \"device\" has more entries than the graph has nodes (2); is the plan for another graph?"},
        {HEAD "'device':[0,-1]}", "p.json: line 2, column 15: \"device\" of node 1 'b' is -1; it must be from 0 to 2147483647"},
        {HEAD "'device':[0,1e300]}", "p.json: line 2, column 13: 1e300 is not a 64-bit whole number"},
        {HEAD "'device':[0,0.5]}", "p.json: line 2, column 13: 0.5 is not a 64-bit whole number"},
        {HEAD "'device':[0,'0']}", "p.json: line 2, column 13: a number is expected here, but a string stands here"},
        {HEAD "'device':[0,1]}", "p.json: node 1 'b' is on device 1; its machine has devices 0 to 0"},
        {HEAD "'device':[0,0],\n'priority':[0]}",
         "p.json: line 3, column 15: \"priority\" has 1 entries, the graph has 2 nodes; is the plan for another graph?"},
        {HEAD "'device':[0,0],\n'priority':[0,0,0]}",
         "p.json: line 3, column 17: \"priority\" has more entries than the graph has nodes (2); is the plan for another graph?"},
        {HEAD "'device':[0,0],\n'priority':[0,null]}",
         "p.json: line 3, column 15: a number is expected here, but null stands here"},
        {HEAD "'device':[0,0],\n'group':[0]}",
         "p.json: line 3, column 12: \"group\" has 1 entries, the graph has 2 nodes; is the plan for another graph?"},
        {HEAD "'device':[0,0],\n'group':[0,-2]}",
         "p.json: line 3, column 14: \"group\" of node 1 'b' is -2; it must be from -1 to 2147483647"},
        {HEAD "'device':[0,0],\n'group':[0,2147483648]}",
         "p.json: line 3, column 22: \"group\" of node 1 'b' is 2147483648; it must be from -1 to 2147483647"},
        /* orders */
        {HEAD "'device':[0,0],\n'order':[[0,2]]}", "p.json: line 3, column 14: \"order\" names node 2, which does not exist"},
        {HEAD "'device':[0,0],\n'order':[[0,-1]]}", "p.json: line 3, column 15: \"order\" names node -1, which does not exist"},
        {HEAD "'device':[0,0],\n'order':[[0,1,0]]}",
         "p.json: line 3, column 15: \"order\" has more entries than the graph has nodes (2); is the plan for another graph?"},
        {HEAD "'device':[0,0],\n'order':[0]}", "p.json: line 3, column 10: an array is expected here, but a number stands here"},
        {HEAD "'device':[0,0],\n'order':[null,[]]}",
         "p.json: \"order\" has a list for device 1, which the machine does not have"},
        {HEAD "'device':[0,0],\n'order':[[0,1],[1]]}",
         "p.json: \"order\" has a list for device 1, which the machine does not have"},
        /* the rest */
        {HEAD "'graph':[],'device':[0,0]}", "p.json: line 2, column 9: an object is expected here, but an array stands here"},
        {HEAD "'graph':{'fingerprint':3},'device':[0,0]}",
         "p.json: line 2, column 24: a string is expected here, but a number stands here"},
        {HEAD "'method':7,'device':[0,0]}", "p.json: line 2, column 10: a string is expected here, but a number stands here"},
        {HEAD "'device':[0,0]} x", "p.json: line 2, column 17: text after the end of the JSON value; remove it"},
    };
    small *s = small_open((small_text){.nodes = TWO_OPS});
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        test_context("%s", wrong[k].text);
        check_refused(s, s->machine, wrong[k].text, wrong[k].message);
    }
    test_context("%s", "");
    small_close(s);
}

TEST(plan, many_orders) {
    /* One list per device that there can be at most, and one more. */
    small *s = small_open((small_text){.nodes = TWO_OPS});
    for (int lists = STW_MAX_DEVICES; lists <= STW_MAX_DEVICES + 1; lists++) {
        char *text;
        size_t size;
        stw_error error;
        FILE *file = open_memstream(&text, &size);
        fputs(HEAD "'device':[0,0],'order':[[0,1]", file);
        for (int k = 1; k < lists; k++) fputs(",null", file);
        fputs("]}", file);
        fclose(file);
        stw_plan *plan = parse(s, s->machine, text, &error);
        CHECK_EQ_INT(plan != NULL, lists == STW_MAX_DEVICES);
        if (plan == NULL) CHECK_CONTAINS(error.message, "\"order\" has more than 64 lists");
        stw_plan_destroy(plan);
        free(text);
    }
    small_close(s);
}

TEST(plan, machine_in_the_file_is_checked) {
    small *s = small_open((small_text){.nodes = TWO_OPS});
    stw_error error;
    CHECK(parse(s, s->machine, HEAD "'machine':{'format':'machine','version':1,'devices':[]},'device':[0,0]}", &error) == NULL);
    CHECK_CONTAINS(error.message, "p.json: line 2, column ");
    CHECK(parse(s, NULL, HEAD "'machine':3,'device':[0,0]}", &error) == NULL);
    CHECK_CONTAINS(error.message, "p.json: line 2, column ");
    stw_plan *plan =
        parse(s, NULL, HEAD "'machine':{'format':'machine','version':1,'devices':[{'name':'g','kind':'h200'}]},'device':[0,0]}",
              &error);
    if (CHECK(plan != NULL)) CHECK_STR(stw_machine_device_name(stw_plan_machine(plan), 0), "g");
    stw_plan_destroy(plan);
    small_close(s);
}

TEST(plan, every_truncation_is_refused) {
    char path[40];
    stw_arena arena;
    stw_str text;
    stw_plan *plan;
    stw_error error;
    small *s =
        small_open((small_text){.nodes = TWO_OPS, .device_count = 2, .device = "[0,1]", .order = "[[0],null]", .group = "[0,1]"});
    make_file(path);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_file_read(path, &arena, &text, NULL), STW_OK);
    while (text.length > 0 && text.p[text.length - 1] == '\n') text.length--; /* white space at the end may well be missing */
    for (int64_t length = 0; length <= text.length; length++) {
        test_context("%lld of %lld bytes", (long long)length, (long long)text.length);
        char *part = malloc(length > 0 ? (size_t)length : 1); /* made to measure, for the address sanitizer */
        memcpy(part, text.p, (size_t)length);
        const stw_status status = stw_plan_parse(part, (size_t)length, "p.json", s->graph, s->machine, &plan, &error);
        free(part);
        CHECK_EQ_INT(status, length == text.length ? STW_OK : STW_ERROR_INPUT);
        CHECK_EQ_INT(plan != NULL, length == text.length);
        if (plan == NULL) CHECK_EQ_INT(strncmp(error.message, "p.json: line ", 13), 0);
        stw_plan_destroy(plan);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
    remove(path);
    CHECK_EQ_INT(stw_plan_open(path, s->graph, s->machine, &plan, &error), STW_ERROR_INPUT); /* there is no such file now */
    CHECK_CONTAINS(error.message, path);
    CHECK(plan == NULL);
    small_close(s);
}

TEST(plan, set_order) {
    stw_error error;
    small *s = small_open((small_text){.nodes = TWO_OPS});
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 1, NULL, 0, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "order for device 1; the machine has devices 0 to 0");
    CHECK_EQ_INT(stw_plan_set_order(s->plan, -1, NULL, 0, NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, (const int32_t[]){0, 1, 0}, 3, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "an order of 3 entries; the graph has 2 nodes");
    CHECK(s->plan->order[0] == NULL);
    /* Longer, shorter, empty (which is an order all the same), none, and that many times over. */
    for (int k = 0; k < 100000; k++) {
        CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, (const int32_t[]){1, 0}, k % 3, NULL), STW_OK);
        CHECK(s->plan->order[0] != NULL && s->plan->order_count[0] == k % 3 && (k % 3 == 0 || s->plan->order[0][0] == 1));
        CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, NULL, -1, NULL), STW_OK);
        CHECK(s->plan->order[0] == NULL && s->plan->order_count[0] == 0);
    }
    small_close(s);
}

/* What a caller reads from a plan that it may not change, and changes in a copy of it. */
TEST(plan, read_write_copy) {
    small *s = small_open((small_text){.nodes = TWO_OPS});
    stw_plan *copy;
    int32_t count;
    const stw_plan *plan = s->plan;
    CHECK(stw_plan_order(plan, 0, &count) == NULL && count == -1);
    CHECK(stw_plan_order(plan, 1, &count) == NULL && count == -1); /* there is no such device */
    stw_plan_set_priority(s->plan, (const double[]){0.5, 2.0});
    stw_plan_set_group(s->plan, (const int32_t[]){1, 1});
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, (const int32_t[]){1}, 1, NULL), STW_OK);
    if (!CHECK_EQ_INT(stw_plan_copy(plan, &copy, NULL), STW_OK)) return;
    stw_plan_set_device(s->plan, (const int32_t[]){7, 7}); /* the copy is its own */
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, NULL, 0, NULL), STW_OK);
    CHECK(stw_plan_order(plan, 0, &count) != NULL && count == 0);
    CHECK_EQ_INT(stw_plan_device(plan)[1], 7);
    CHECK_EQ_INT(stw_plan_device(copy)[1], 0);
    CHECK(stw_plan_priority(copy)[0] == 0.5 && stw_plan_priority(copy)[1] == 2.0);
    CHECK(stw_plan_group(copy)[0] == 1 && stw_plan_group(copy)[1] == 1);
    const int32_t *order = stw_plan_order(copy, 0, &count);
    if (CHECK(order != NULL && count == 1)) CHECK_EQ_INT(order[0], 1);
    CHECK(stw_plan_machine(copy) == s->machine);
    stw_plan_destroy(copy);
    small_close(s);
}

/* ---- groups ------------------------------------------------------------------------------------------------------------- */

TEST(groups, canonical_numbers) {
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "p", "input", 1) OP(1, "a", "[0]", 1, 1) OP(2, "b", "[1]", 1, 1)
                                    VIEW(3, "v", 2, 1) OP(4, "c", "[3]", 1, 1) OP(5, "d", "[4]", 1, 1) OP(6, "e", "[5]", 1, 1)});
    static const int32_t given[] = {44, 900000000, 3, 900000000, 900000000, -1, 3}, canonical[] = {-1, 1, 2, -1, 1, -1, 2};
    memcpy(s->plan->group, given, sizeof given);
    CHECK_EQ_INT(stw_plan_canonical_groups(s->plan, NULL), STW_OK);
    for (int32_t i = 0; i < 7; i++) CHECK_EQ_INT(s->plan->group[i], canonical[i]);
    CHECK_EQ_INT(stw_plan_canonical_groups(s->plan, NULL), STW_OK);
    for (int32_t i = 0; i < 7; i++) CHECK_EQ_INT(s->plan->group[i], canonical[i]);
    small_close(s);
}

/* NULL: legal. */
static void check_groups(small_text text, const char *message) {
    small *s = small_open(text);
    if (message == NULL) {
        CHECK_STR(s->result.message, "");
    } else {
        CHECK_EQ_INT(s->result.reason, STW_INVALID_GROUPS);
        CHECK_STR(s->result.message, message);
    }
    small_close(s);
}

TEST(groups, are_on_one_device) {
    const char *const pair = OP(0, "a", "[]", 1, 1) OP(1, "b", "[]", 1, 1);
    check_groups((small_text){.nodes = pair, .device_count = 2, .device = "[0,1]", .group = "[3,3]"},
                 "groups: op 1 'b' is fused with an op on another device");
    check_groups((small_text){.nodes = pair, .device_count = 2, .device = "[1,1]", .group = "[3,3]"}, NULL);
}

TEST(groups, recomputed_ops) {
    const char *const three = OP(0, "r", "[]", 1, 1) VIEW(1, "v", 0, 1) OP(2, "a", "[1]", 1, 1) OP(3, "b", "[0]", 1, 1);
    small_text text = {.nodes = three, .device_count = 2, .group = "[-1,-1,2,3]"};
    check_groups(text, NULL);
    text.device = "[0,0,0,1]";
    check_groups(text, "groups: op 0 'r' is recomputed but read on another device");
    text.device = "[0,0,1,0]"; /* through a view */
    check_groups(text, "groups: op 0 'r' is recomputed but read on another device");
    text.device = NULL;
    text.outputs = "[0]";
    check_groups(text, "groups: op 0 'r' is a graph output and cannot be recomputed");
    text.outputs = "[1]"; /* a view of it is one */
    check_groups(text, "groups: op 0 'r' is a graph output and cannot be recomputed");
    text.outputs = "[2]";
    check_groups(text, NULL);
    text.group = "[-1,-1,-1,3]";
    check_groups(text, "groups: op 2 'a' is a graph output and cannot be recomputed");
    text.outputs = NULL;
    check_groups(text, "groups: op 2 'a' is marked as recomputed but nothing reads it");
    check_groups((small_text){.nodes = OP(0, "r", "[]", 1, 1) VIEW(1, "v", 0, 1), .group = "[-1,-1]"}, /* a view is no reader */
                 "groups: op 0 'r' is marked as recomputed but nothing reads it");
    check_groups(
        (small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP_WITH(1, "u", "[0]", 1, 1, ",'updates':0") OP(2, "a", "[1]", 1, 1),
                     .group = "[-1,-1,2]"},
        "groups: op 1 'u' updates a parameter and cannot be recomputed");
}

#define OF_CLASS(id, name, op, inputs) NODE(id, name, op, inputs, 4, ",'us':{'h200':1}")
#define FUSES(classes)                 "{'name':'d0','kind':'h200','fuses_epilogue':[" classes "]}"

TEST(groups, classes_that_fuse) {
    static const char *const fuse[] = {"add", "relu", "expand_as", "sum", "cat", "detach"};
    static const char *const others[] = {"mm", "convolution", "_softmax", "max_pool2d", "index_select", "sort", "mystery"};
    char nodes[500];
    for (size_t k = 0; k < sizeof fuse / sizeof fuse[0]; k++) {
        test_context("%s", fuse[k]);
        snprintf(nodes, sizeof nodes, "%s{'id':1,'name':'b','op':'%s','inputs':[0],'dtype':'u8','shape':[1]}",
                 OP(0, "a", "[]", 1, 1), fuse[k]);
        check_groups((small_text){.nodes = nodes, .group = "[0,0]"}, NULL);
    }
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        test_context("%s", others[k]);
        snprintf(nodes, sizeof nodes, "{'id':0,'name':'a','op':'%s','inputs':[],'dtype':'u8','shape':[1]},%s", others[k],
                 OP(1, "b", "[0]", 1, 1));
        check_groups((small_text){.nodes = nodes, .devices = FUSES(""), .group = "[0,0]"},
                     "groups: op 0 'a' is of a class that does not fuse on its device");
        check_groups((small_text){.nodes = nodes, .devices = FUSES(""), .group = "[-1,1]"}, /* nor is it recomputed */
                     "groups: op 0 'a' is of a class that does not fuse on its device");
        check_groups((small_text){.nodes = nodes, .devices = FUSES(""), .group = "[0,1]"}, NULL); /* alone it may be anything */
    }
    test_context("%s", "");
}

TEST(groups, epilogues) {
    const char *const mm_add = OF_CLASS(0, "m", "mm", "[]") OF_CLASS(1, "a", "add", "[0]");
    check_groups((small_text){.nodes = mm_add, .devices = FUSES("'matmul'"), .group = "[0,0]"}, NULL);
    check_groups((small_text){.nodes = mm_add, .devices = FUSES("'convolution'"), .group = "[0,0]"},
                 "groups: op 0 'm' is of a class that does not fuse on its device");
    check_groups(
        (small_text){
            .nodes = OF_CLASS(0, "m", "mm", "[]") OF_CLASS(1, "n", "bmm", "[]"), .devices = FUSES("'matmul'"), .group = "[0,0]"},
        "groups: op 1 'n' is the second op of its group that takes an epilogue");
    check_groups((small_text){.nodes = OF_CLASS(0, "m", "mm", "[]") OF_CLASS(1, "c", "convolution", "[]"),
                              .devices = FUSES("'matmul','convolution'"),
                              .group = "[0,0]"},
                 "groups: op 1 'c' is the second op of its group that takes an epilogue");
    const char *const add_mm = OF_CLASS(0, "a", "add", "[]") VIEW(1, "v", 0, 2) OF_CLASS(2, "m", "mm", "[1]");
    check_groups((small_text){.nodes = add_mm, .devices = FUSES("'matmul'"), .group = "[0,-1,0]"}, /* through a view */
                 "groups: op 2 'm' takes an epilogue but reads from its own group");
    check_groups((small_text){.nodes = add_mm, .devices = FUSES("'matmul'"), .group = "[-1,-1,2]"}, /* a recomputed one */
                 "groups: op 2 'm' takes an epilogue but reads from its own group");
    check_groups(
        (small_text){
            .nodes = OF_CLASS(0, "a", "add", "[]") OF_CLASS(1, "m", "mm", "[]"), .devices = FUSES("'matmul'"), .group = "[0,0]"},
        NULL);
    /* The device of the group decides. */
    check_groups((small_text){.nodes = mm_add,
                              .devices = "{'name':'d0','kind':'h200','fuses_epilogue':['matmul']},{'name':'d1','kind':'h200'}",
                              .device_count = 2,
                              .device = "[1,1]",
                              .group = "[0,0]"},
                 "groups: op 0 'm' is of a class that does not fuse on its device");
}

/* A chain of `count` ops in one group; the first `recomputed` of them are recomputed in it. */
static void check_chain(int count, int recomputed, const char *message) {
    char *nodes, *group;
    size_t node_size, group_size;
    FILE *node_file = open_memstream(&nodes, &node_size), *group_file = open_memstream(&group, &group_size);
    for (int i = 0; i < count; i++) {
        fprintf(node_file, "{'id':%d,'name':'n%d','op':'relu','inputs':[", i, i);
        if (i > 0) fprintf(node_file, "%d", i - 1);
        fputs("],'dtype':'u8','shape':[1],'us':{'h200':1}},", node_file);
        fprintf(group_file, "%c%d", i == 0 ? '[' : ',', i < recomputed ? -1 : 1);
    }
    fputs("]", group_file);
    fclose(node_file);
    fclose(group_file);
    check_groups((small_text){.nodes = nodes, .group = group}, message);
    free(nodes);
    free(group);
}

TEST(groups, at_most_64_members) {
    check_chain(64, 0, NULL);
    check_chain(64, 3, NULL);
    check_chain(64, 63, NULL);
    check_chain(65, 0, "groups: the group of op 0 'n0' has more than 64 members");
    check_chain(65, 1, "groups: the group of op 1 'n1' has more than 64 members");
    check_chain(65, 64, "groups: the group of op 64 'n64' has more than 64 members");
}

/* A `cat` of `count` values and its reader in one group; both are outputs. */
static void check_wide(int count, bool fused, const char *message) {
    char *nodes, *group, outputs[40];
    size_t node_size, group_size;
    FILE *node_file = open_memstream(&nodes, &node_size), *group_file = open_memstream(&group, &group_size);
    fputs("[", group_file);
    for (int i = 0; i < count; i++) {
        fprintf(node_file, "{'id':%d,'name':'n%d','op':'%s','inputs':[],'dtype':'u8','shape':[1]},", i, i,
                i % 2 ? "input" : "parameter");
        fputs("-1,", group_file);
    }
    fprintf(node_file, "{'id':%d,'name':'cat','op':'cat','inputs':[0", count);
    for (int i = 1; i < count; i++) fprintf(node_file, ",%d,%d", i, i - 1); /* repeats count once */
    fprintf(node_file, "],'dtype':'u8','shape':[1]},{'id':%d,'name':'r','op':'relu','inputs':[%d,0],'dtype':'u8','shape':[1]}",
            count + 1, count);
    fprintf(group_file, fused ? "7,7]" : "7,8]");
    fclose(node_file);
    fclose(group_file);
    snprintf(outputs, sizeof outputs, "[%d,%d]", count, count + 1);
    check_groups((small_text){.nodes = nodes, .outputs = outputs, .group = group}, message);
    free(nodes);
    free(group);
}

TEST(groups, at_most_96_tensors) {
    check_wide(94, true, NULL); /* with two outputs */
    check_wide(95, true, "groups: the group of op 95 'cat' has 97 operands and outputs; at most 96 are allowed");
    check_wide(95, false, NULL); /* alone an op may read what it likes */
    check_wide(300, false, NULL);
}

TEST(groups, form_no_cycle) {
    /* a -> m -> b with a and b in one group: over data, over control, and over the wait of an update */
    check_groups((small_text){.nodes = OP(0, "a", "[]", 1, 1) NODE(1, "m", "mystery", "[0]", 1, "") OP(2, "b", "[1]", 1, 1),
                              .group = "[9,1,9]"},
                 "groups: the groups form a cycle through or before op 0 'a'");
    check_groups(
        (small_text){.nodes = OP(0, "a", "[]", 1, 1) NODE(1, "m", "mystery", "[]", 1, ",'control':[0]") OP(2, "b", "[1]", 1, 1),
                     .group = "[9,1,9]"},
        "groups: the groups form a cycle through or before op 0 'a'");
    small_text text = {.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[0]", 1, 1)
                           OP_WITH(2, "u", "[0]", 1, 1, ",'updates':0") OP(3, "b", "[2]", 1, 1),
                       .group = "[-1,9,2,9]"};
    check_groups(text, "groups: the groups form a cycle through or before op 1 'a'");
    text.group = "[-1,9,9,9]"; /* all in one: what is waited for is inside */
    check_groups(text, NULL);
    /* Two groups that need each other. */
    check_groups(
        (small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[]", 1, 1) OP(2, "c", "[0]", 1, 1) OP(3, "d", "[1]", 1, 1),
                     .group = "[0,1,1,0]"},
        "groups: the groups form a cycle through or before op 0 'a'");
    check_groups(
        (small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[]", 1, 1) OP(2, "c", "[0]", 1, 1) OP(3, "d", "[1]", 1, 1),
                     .group = "[0,1,0,1]"},
        NULL);
}
