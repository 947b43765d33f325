/* export/graphdef: devices and priorities into TensorFlow graphs, in bytes and in text, with nothing else changed. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "import/import.h"
#include "import/tensorflow/graphdef.h"
#include "import/wire/pbwire.h"
#include "sim/sim.h"
#include "support/pb_fixed.h"
#include "test.h"

#define DATA   STW_SOURCE_DIR "/tests/import/data/"
#define GPU(k) "/job:localhost/replica:0/task:0/device:GPU:" #k

typedef struct problem { /* a model file on a machine, everything on device 0 */
    stw_arena arena;
    char path[40]; /* of the model */
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_export_io io; /* of the last export */
    stw_error error;
} problem;

static void write_file(char path[40], stw_str bytes) {
    snprintf(path, 40, "/tmp/stowage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (!CHECK(file != NULL)) return;
    CHECK(fwrite(bytes.p, 1, (size_t)bytes.length, file) == (size_t)bytes.length);
    CHECK_EQ_INT(fclose(file), 0);
}

static problem *open_problem(stw_str bytes, const char *machine) {
    problem *p = calloc(1, sizeof *p);
    write_file(p->path, bytes);
    CHECK_EQ_INT(stw_arena_create(&p->arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_graph_open(p->path, NULL, &p->graph, &p->error), STW_OK);
    CHECK_STR(p->error.message, "");
    CHECK_EQ_INT(stw_machine_open(machine, &p->machine, &p->error), STW_OK);
    CHECK_EQ_INT(stw_costs_create(p->graph, p->machine, NULL, &p->costs, &p->error), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(p->costs, &p->simulator, &p->error), STW_OK);
    CHECK_EQ_INT(stw_plan_create(p->graph, p->machine, &p->plan, &p->error), STW_OK);
    return p;
}

static void close_problem(problem *p) {
    unlink(p->path);
    stw_plan_destroy(p->plan);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
    stw_arena_destroy(&p->arena);
    free(p);
}

static void place(problem *p, const char *name, int32_t device, double priority) {
    bool found = false;
    for (int32_t i = 0; i < p->graph->N; i++) {
        if (!stw_str_is(p->graph->node_name[i], name)) continue;
        p->plan->device[i] = device;
        p->plan->priority[i] = priority;
        found = true;
    }
    CHECK(found);
}

/* What the export of a model file gives; empty if it fails. */
static stw_str export_from(problem *p, const char *model) {
    char path[40];
    stw_str bytes = {"", 0};
    write_file(path, bytes);
    p->error = (stw_error){0};
    p->io = (stw_export_io){.model_path = model, .path = path};
    if (stw_plan_export(p->simulator, p->plan, "graphdef", NULL, &p->io, &p->error) == STW_OK) {
        CHECK_EQ_INT(stw_file_read(path, &p->arena, &bytes, NULL), STW_OK);
    }
    unlink(path);
    return bytes;
}

static void check_text(problem *p, const char *expected) {
    const stw_str text = export_from(p, p->path);
    CHECK_STR(p->error.message, "");
    CHECK_STR(text.p, expected);
}

/* The device of a node in an exported file. */
static const char *device_in(problem *p, stw_str bytes, const char *name) {
    stw_tf_model model = {.arena = &p->arena};
    if (stw_pbtxt_is(bytes)) {
        CHECK_EQ_INT(stw_tf_read_text(bytes, &model, NULL), STW_OK);
    } else {
        CHECK_EQ_INT(stw_tf_read_wire(bytes, &model, NULL), STW_OK);
    }
    for (int64_t k = 0; k < model.node_count; k++) {
        if (stw_str_is(model.node[k].name, name)) return stw_str_copy(&p->arena, model.node[k].device).p;
    }
    return "absent";
}

/* ---- text ---- */

#define X "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }\n"

TEST(graphdef_text, only_devices_and_priorities_change) {
    problem *p =
        open_problem(STW_STR("# a graph\n"
                             "node {\n"
                             "  name: \"x\" # the input\n"
                             "  op: \"Placeholder\"\n"
                             "  attr {\n"
                             "    key: \"dtype\"\n"
                             "    value { type: DT_FLOAT }\n"
                             "  }\n"
                             "}\n"
                             "node: <name:'a'op:\"Relu\",input:'x';device:\"/gpu\" \":7\" attr:[{key:'T' value{type:1}}]>\n"
                             "\n"
                             "node {\n"
                             "\tname: \"b\"\n"
                             "\top: \"Relu\"\n"
                             "\tinput: \"a\" # } not the end\n"
                             "} # b\n"
                             "versions { producer: 1234 }\n"),
                     "h200x2");
    place(p, "a", 1, 0.5);
    place(p, "b", 0, -3);
    check_text(p, "# a graph\n"
                  "node {\n"
                  "  name: \"x\" # the input\n"
                  "  op: \"Placeholder\"\n"
                  "  device: \"" GPU(1) "\"\n"
                  "  attr {\n"
                  "    key: \"dtype\"\n"
                  "    value { type: DT_FLOAT }\n"
                  "  }\n"
                  "}\n"
                  "node: <name:'a'op:\"Relu\",input:'x';device:\"" GPU(1) "\" attr:[{key:'T' value{type:1}}] "
                  "attr { key: \"_stowage_priority\" value { f: 0.5 } } >\n"
                  "\n"
                  "node {\n"
                  "\tname: \"b\"\n"
                  "\top: \"Relu\"\n"
                  "\tinput: \"a\" # } not the end\n"
                  "\tdevice: \"" GPU(0) "\"\n"
                  "\tattr { key: \"_stowage_priority\" value { f: -3 } }\n"
                  "} # b\n"
                  "versions { producer: 1234 }\n");
    close_problem(p);
}

TEST(graphdef_text, line_ends_of_windows_stay) {
    problem *p = open_problem(STW_STR("node {\r\n  name: 'x'\r\n  op: 'Placeholder'\r\n}\r\n"
                                      "node {\r\n  name: 'a'\r\n  op: 'Relu'\r\n  input: 'x'\r\n}\r\n"),
                              "h200x2");
    place(p, "a", 1, 2);
    check_text(p, "node {\r\n  name: 'x'\r\n  op: 'Placeholder'\r\n  device: \"" GPU(1) "\"\r\n}\r\n"
                  "node {\r\n  name: 'a'\r\n  op: 'Relu'\r\n  input: 'x'\r\n  device: \"" GPU(1) "\"\r\n"
                  "  attr { key: \"_stowage_priority\" value { f: 2 } }\r\n}\r\n");
    close_problem(p);
}

TEST(graphdef_text, an_export_is_exported_as_it_is) {
    static const char *const files[] = {"tf_loop.pbtxt", "tf_loop.pb",   "tf_mlp.pb",
                                        "tf_conv.pb.gz", "tf_traced.pb", "tf_functions.pb"};
    for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
        char path[500];
        stw_arena arena;
        stw_str model = {0};
        test_context("%s", files[k]);
        snprintf(path, sizeof path, "%s%s", DATA, files[k]);
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        CHECK_EQ_INT(stw_file_read(path, &arena, &model, NULL), STW_OK);
        problem *p = open_problem(model, "h200x2");
        const stw_str once = export_from(p, p->path);
        char first[40];
        write_file(first, once);
        const stw_str twice = export_from(p, first);
        CHECK(once.length > model.length && stw_str_equal(once, twice));
        p->plan->priority[p->graph->N - 1] = 77; /* may be a view: then nothing changes */
        for (int32_t i = 0; i < p->graph->N; i++) p->plan->device[i] = 1;
        const stw_str other = export_from(p, first), fresh = export_from(p, p->path);
        CHECK(stw_str_equal(other, fresh) && !stw_str_equal(other, once));
        stw_graph *again = NULL;
        CHECK_EQ_INT(stw_graph_parse(other.p, (size_t)other.length, "again", NULL, &again, NULL), STW_OK);
        CHECK_STR(stw_graph_fingerprint(again), stw_graph_fingerprint(p->graph));
        stw_graph_destroy(again);
        unlink(first);
        close_problem(p);
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
}

/* ---- bytes ---- */

static void put_priority(stw_pb_writer *w, float priority) {
    const int64_t entry = stw_pb_begin(w, 5);
    stw_pb_write_string(w, 1, STW_STR("_stowage_priority"));
    const int64_t value = stw_pb_begin(w, 2);
    stw_pb_write_float(w, 4, priority);
    stw_pb_end(w, value);
    stw_pb_end(w, entry);
}

/* A graph with fields that nobody knows, in an odd order, and a function of which nothing may change; as it is, or as it must
 * become. */
static stw_str odd_bytes(stw_arena *arena, bool planned) {
    stw_pb_writer w = {.arena = arena};
    int64_t node = stw_pb_begin(&w, 1);
    stw_pb_write_string(&w, 1, STW_STR("x"));
    stw_pb_write_string(&w, 2, STW_STR("Placeholder"));
    if (planned) stw_pb_write_string(&w, 4, STW_STR(GPU(1)));
    stw_pb_write_string(&w, 7, STW_STR("\x08\x01"));
    stw_pb_end(&w, node);
    const int64_t library = stw_pb_begin(&w, 2), function = stw_pb_begin(&w, 1);
    node = stw_pb_begin(&w, 3);
    stw_pb_write_string(&w, 1, STW_STR("inner"));
    stw_pb_write_string(&w, 4, STW_STR("/cpu:0"));
    stw_pb_end(&w, node);
    stw_pb_end(&w, function);
    stw_pb_end(&w, library);
    node = stw_pb_begin(&w, 1);
    stw_pb_write_string(&w, 2, STW_STR("Relu"));
    if (planned) {
        put_priority(&w, 2.5f);
    } else {
        put_priority(&w, -1.0f);
    }
    stw_pb_write_string(&w, 3, STW_STR("x"));
    stw_pb_write_string(&w, 4, planned ? STW_STR(GPU(1)) : STW_STR("/job:old"));
    if (!planned) stw_pb_write_string(&w, 4, STW_STR("/job:older"));
    stw_pb_write_int(&w, 99, -5);
    stw_pb_write_string(&w, 1, STW_STR("a"));
    stw_pb_end(&w, node);
    stw_pb_write_double(&w, 1000, 0.25);
    stw_str out = {0};
    CHECK_EQ_INT(stw_pb_written(&w, &out, NULL), STW_OK);
    return out;
}

TEST(graphdef_bytes, all_other_bytes_survive) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    const stw_str before = odd_bytes(&arena, false), after = odd_bytes(&arena, true);
    problem *p = open_problem(before, "h200x2");
    place(p, "a", 1, 2.5);
    CHECK(stw_str_equal(export_from(p, p->path), after));
    CHECK_STR(p->error.message, "");
    close_problem(p);
    stw_arena_destroy(&arena);
}

/* ---- where nodes go ---- */

TEST(graphdef_places, what_tensorflow_ties_is_together) {
    problem *p =
        open_problem(STW_STR(X "node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } } attr { "
                               "key: 'shape' value { shape { dim { size: 64 } dim { size: 64 } } } } }\n"
                               "node { name: 'gather' op: 'ResourceGather' input: 'v' input: 'x' }\n"
                               "node { name: 'a' op: 'Relu' input: 'x' }\n"
                               "node { name: 'b' op: 'Relu' input: 'a' attr { key: '_class' value { list { s: 'loc:@x' "
                               "s: 'loc:@a' } } } }\n"
                               "node { name: 'c' op: 'Relu' input: 'b' }\n"
                               "node { name: 'idle' op: 'Const' device: '/cpu:0' }\n"),
                     "h200x2");
    place(p, "v", 1, 0);
    place(p, "c", 1, 0);
    const stw_str out = export_from(p, p->path);
    CHECK_STR(p->error.message, "");
    CHECK_STR(device_in(p, out, "v"), GPU(1));
    CHECK_STR(device_in(p, out, "gather"), GPU(1)); /* a handle does not travel */
    CHECK_STR(device_in(p, out, "a"), GPU(0));
    CHECK_STR(device_in(p, out, "b"), GPU(0));
    CHECK_STR(device_in(p, out, "x"), GPU(0));
    CHECK_STR(device_in(p, out, "c"), GPU(1));
    CHECK_STR(device_in(p, out, "idle"), "/cpu:0"); /* nobody reads it */
    CHECK_CONTAINS(p->io.note, "of 7 nodes 1 are not where the plan has them");
    CHECK_CONTAINS(p->io.note, "set_soft_device_placement(True)");
    close_problem(p);
}

TEST(graphdef_places, references_stay_and_reads_travel) {
    problem *p =
        open_problem(STW_STR("node { name: 'v' op: 'VariableV2' attr { key: 'shape' value { shape { dim { size: 64 } } } } "
                             "attr { key: 'dtype' value { type: DT_FLOAT } } }\n"
                             "node { name: 'read' op: 'Identity' input: 'v' }\n"
                             "node { name: 'other' op: 'Relu' input: 'read' }\n"
                             "node { name: 'count' op: 'CountUpTo' input: 'v' }\n"),
                     "h200x2");
    place(p, "v", 1, 0);
    const stw_str out = export_from(p, p->path);
    CHECK_STR(p->error.message, "");
    CHECK_STR(device_in(p, out, "read"), GPU(1)); /* a view is with its root */
    CHECK_STR(device_in(p, out, "other"), GPU(0));
    CHECK_STR(device_in(p, out, "count"), GPU(1));
    close_problem(p);
}

TEST(graphdef_places, hosts_and_processors_have_their_names) {
    static const struct {
        const char *machine;
        int32_t device;
        const char *name;
    } cases[] = {{"h200x2+2", 0, "/job:worker/replica:0/task:0/device:GPU:0"},
                 {"h200x2+2", 1, "/job:worker/replica:0/task:0/device:GPU:1"},
                 {"h200x2+2", 3, "/job:worker/replica:0/task:1/device:GPU:1"},
                 {"h200x1+2", 1, "/job:worker/replica:0/task:1/device:GPU:0"},
                 {"cpu+h200x2", 0, "/job:localhost/replica:0/task:0/device:CPU:0"},
                 {"cpu+h200x2", 2, GPU(1)},
                 {"h200x3-host", 2, GPU(2)}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        test_context("%s %d", cases[k].machine, cases[k].device);
        problem *p = open_problem(STW_STR(X "node { name: 'a' op: 'Relu' input: 'x' }\n"), cases[k].machine);
        place(p, "a", cases[k].device, 0);
        CHECK_STR(device_in(p, export_from(p, p->path), "a"), cases[k].name);
        CHECK((strstr(p->io.note, "several hosts") != NULL) == (strchr(cases[k].machine + 4, '+') != NULL));
        close_problem(p);
    }
    test_context("%s", "");
}

/* ---- faults ---- */

static void check_refused(problem *p, stw_str model, const char *words) {
    char path[40];
    write_file(path, model);
    CHECK_EQ_INT(export_from(p, path).length, 0);
    CHECK_EQ_INT(p->error.status, STW_ERROR_INPUT);
    CHECK_CONTAINS(p->error.message, words);
    CHECK(strchr(p->error.message, '\n') == NULL);
    unlink(path);
}

TEST(graphdef_faults, another_file_is_refused) {
    problem *p = open_problem(STW_STR(X "node { name: 'a' op: 'Relu' input: 'x' }\n"), "h200x2");
    check_refused(p, STW_STR(X "node { name: 'a' op: 'Tanh' input: 'x' }\n"), "the graph lacks 'a'");
    check_refused(p, STW_STR(X "node { name: 'b' op: 'Relu' input: 'x' }\n"), "the graph lacks 'b'");
    check_refused(p, STW_STR(X), "it lacks 'a'");
    check_refused(p, STW_STR(X "node { name: 'a' op: 'Relu' input: 'x' } node { name: 'b' op: 'NoOp' }\n"),
                  "the graph lacks 'b'");
    check_refused(p, STW_STR("{\"format\": \"opgraph\"}"), "not a TensorFlow GraphDef");
    check_refused(p, STW_STR(X "node { name: 'a' op: 'Relu' input: 'x'"), "line 2");
    CHECK(export_from(p, p->path).length > 0);
    close_problem(p);
}
