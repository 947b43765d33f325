/* export/onnx: hand-made models with a plan in them, what survives of the rest, the order of nodes, exporting again, files that
 * are other ones; and the real models where they are: in shared/external/onnx beside the source tree, or where STOWAGE_ONNX
 * says. */
#define _GNU_SOURCE /* mkstemp, memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "sim/sim.h"
#include "support/onnx_model.h"
#include "support/pb_fixed.h"
#include "test.h"

typedef struct { /* a model, a machine of two devices, and a plan */
    stw_arena arena;
    char path[64]; /* the model's file */
    stw_str bytes; /* and what is in it */
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_error error;
    stw_export_io io; /* of the last export */
    stw_str out;      /* of the last export */
} fixture;

static void write_temporary(char path[64], stw_str bytes) {
    strcpy(path, "/tmp/stowage-test-XXXXXX");
    const int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (!CHECK(file != NULL)) return;
    CHECK_EQ_INT(fwrite(bytes.p, 1, (size_t)bytes.length, file), bytes.length);
    CHECK_EQ_INT(fclose(file), 0);
}

static bool open_machine(fixture *f, const char *machine) {
    CHECK_EQ_INT(stw_machine_open(machine, &f->machine, &f->error), STW_OK);
    CHECK_EQ_INT(stw_costs_create(f->graph, f->machine, NULL, &f->costs, &f->error), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(f->costs, &f->simulator, &f->error), STW_OK);
    CHECK_EQ_INT(stw_plan_create(f->graph, f->machine, &f->plan, &f->error), STW_OK);
    return CHECK_STR(f->error.message, "");
}

static bool begin(fixture *f, stw_str model) {
    *f = (fixture){0};
    CHECK_EQ_INT(stw_arena_create(&f->arena, NULL), STW_OK);
    f->bytes = model;
    write_temporary(f->path, model);
    if (!CHECK_EQ_INT(stw_graph_open(f->path, NULL, &f->graph, &f->error), STW_OK)) CHECK_STR(f->error.message, "");
    /* Without charges: who pays for a transfer goes by ids, and these by the order of nodes, which an export changes. */
    return f->graph != NULL && open_machine(f, "0.1/h200x2");
}

static void end(fixture *f) {
    unlink(f->path);
    stw_plan_destroy(f->plan);
    stw_simulator_destroy(f->simulator);
    stw_costs_destroy(f->costs);
    stw_machine_destroy(f->machine);
    stw_graph_destroy(f->graph);
    stw_arena_destroy(&f->arena);
}

static stw_status export_from(fixture *f, const char *model_path) {
    char path[64];
    f->error = (stw_error){0};
    write_temporary(path, STW_STR("x"));
    f->io = (stw_export_io){.model_path = model_path, .path = path};
    const stw_status status = stw_plan_export(f->simulator, f->plan, "onnx", NULL, &f->io, &f->error);
    if (status == STW_OK) CHECK_EQ_INT(stw_file_read(path, &f->arena, &f->out, NULL), STW_OK);
    unlink(path);
    return status;
}

static bool export_it(fixture *f) {
    const stw_status status = export_from(f, f->path);
    CHECK_STR(f->error.message, "");
    return CHECK_EQ_INT(status, STW_OK);
}

static int32_t find(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_str_is(graph->node_name[i], name)) return i;
    }
    test_context("%s", name);
    CHECK_STR("no such node", "");
    test_context("%s", "");
    return 0;
}

static void set(fixture *f, const char *name, int32_t device, double priority) {
    const int32_t i = find(f->graph, name);
    f->plan->device[i] = device;
    f->plan->priority[i] = priority;
}

/* ---- looking at models ---- */

/* The k-th field of this number in a message, as bytes; empty and false if there is none. */
static bool field(stw_str message, int64_t number, int32_t k, stw_str *out) {
    stw_pb_file file = stw_pb_open(message, NULL);
    stw_pb m = stw_pb_message(&file);
    *out = (stw_str){0};
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number != number || k-- > 0) continue;
        *out = f.bytes;
        return true;
    }
    CHECK(!file.failed);
    return false;
}

static stw_str text_of(stw_str message, int64_t number) {
    stw_str text;
    field(message, number, 0, &text);
    return text;
}

static int64_t number_of(stw_str message, int64_t number) {
    stw_pb_file file = stw_pb_open(message, NULL);
    stw_pb m = stw_pb_message(&file);
    int64_t value = -1;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == number) stw_pb_int(&m, &f, &value);
    }
    return value;
}

static stw_str graph_of(stw_str model) { return text_of(model, 7); }

/* The node whose first output has this name; *at is its place among the nodes. */
static stw_str node_of(stw_str model, const char *output, int32_t *at) {
    stw_str node;
    for (*at = 0; field(graph_of(model), 1, *at, &node); (*at)++) {
        if (stw_str_is(text_of(node, 2), output)) return node;
    }
    test_context("%s", output);
    CHECK_STR("no such node", "");
    test_context("%s", "");
    return (stw_str){0};
}

static int32_t place_of(stw_str model, const char *output) {
    int32_t at;
    node_of(model, output, &at);
    return at;
}

/* How often a key stands at a node, and the value that stood there last, ended by NUL. */
static int32_t metadata(stw_str node, const char *key, char value[100]) {
    stw_str entry;
    int32_t count = 0;
    value[0] = '\0';
    for (int32_t k = 0; field(node, 9, k, &entry); k++) {
        if (!stw_str_is(text_of(entry, 1), key)) continue;
        const stw_str text = text_of(entry, 2);
        snprintf(value, 100, "%.*s", (int)text.length, text.p);
        count++;
    }
    return count;
}

static void check_metadata(stw_str model, const char *output, const char *key, const char *value) {
    int32_t at;
    char text[100];
    test_context("%s at %s", key, output);
    CHECK_EQ_INT(metadata(node_of(model, output, &at), key, text), 1);
    CHECK_STR(text, value);
    test_context("%s", "");
}

static int group_of(stw_str model, const char *output) {
    int32_t at;
    char text[100];
    CHECK_EQ_INT(metadata(node_of(model, output, &at), "stowage.group", text), 1);
    return atoi(text);
}

/* ---- taking the plan out again ---- */

static bool is_ours(const stw_pb_field *f) {
    if (f->number == 10) return stw_str_is(text_of(f->bytes, 1), "stowage");
    if (f->number != 9) return false;
    const stw_str key = text_of(f->bytes, 1);
    return stw_str_is(key, "layer_ann") || stw_str_starts(key, "stowage.");
}

static void strip_node(stw_pb_writer *w, stw_str node) {
    stw_pb_file file = stw_pb_open(node, NULL);
    stw_pb m = stw_pb_message(&file);
    const int64_t begun = stw_pb_begin(w, 1);
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (!is_ours(&f)) stw_pb_write_raw(w, (stw_str){f.at, (int64_t)(m.cursor - f.at)});
    }
    stw_pb_end(w, begun);
    CHECK(!file.failed);
}

static void strip_graph(stw_pb_writer *w, stw_str graph) {
    stw_pb_file file = stw_pb_open(graph, NULL);
    stw_pb m = stw_pb_message(&file);
    const int64_t begun = stw_pb_begin(w, 7);
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == 1) {
            strip_node(w, f.bytes);
        } else {
            stw_pb_write_raw(w, (stw_str){f.at, (int64_t)(m.cursor - f.at)});
        }
    }
    stw_pb_end(w, begun);
    CHECK(!file.failed);
}

/* The model without our fields; what stands in an IR version is set back. */
static stw_str strip(stw_arena *arena, stw_str model, int64_t ir_version) {
    stw_pb_file file = stw_pb_open(model, NULL);
    stw_pb m = stw_pb_message(&file);
    stw_pb_writer w = {.arena = arena};
    stw_str out = {0};
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == 1) {
            stw_pb_write_int(&w, 1, ir_version);
        } else if (f.number == 7) {
            strip_graph(&w, f.bytes);
        } else if (f.number != 26 || !stw_str_is(text_of(f.bytes, 1), "stowage")) {
            stw_pb_write_raw(&w, (stw_str){f.at, (int64_t)(m.cursor - f.at)});
        }
    }
    CHECK(!file.failed);
    CHECK_EQ_INT(stw_pb_written(&w, &out, NULL), STW_OK);
    return out;
}

/* ---- small models ---- */

/* A model of this version around the fields of a graph; `more` are further fields of the model, put in front and behind. */
static stw_str model_of(stw_arena *arena, const stw_pb_writer *graph, int64_t ir_version, stw_str more) {
    stw_pb_writer w = {.arena = arena};
    stw_str out = {0};
    stw_pb_write_raw(&w, more);
    stw_pb_write_int(&w, 1, ir_version);
    stw_pb_write_string(&w, 7, (stw_str){graph->data, graph->length});
    const int64_t opset = stw_pb_begin(&w, 8);
    stw_pb_write_int(&w, 2, 17);
    stw_pb_end(&w, opset);
    stw_pb_write_raw(&w, more);
    CHECK_EQ_INT(stw_pb_written(&w, &out, NULL), STW_OK);
    return out;
}

static const char *const size = "256,256";

static void border(stw_pb_writer *graph, const char *inputs, const char *output) {
    onnx_value(graph, 11, inputs, ONNX_FLOAT, size);
    onnx_value(graph, 12, output, ONNX_FLOAT, size);
}

/* x -> a -> b -> c */
static stw_str chain(stw_arena *arena, int64_t ir_version) {
    stw_pb_writer graph = {.arena = arena};
    border(&graph, "x", "c");
    onnx_node(&graph, 1, "Relu", "x", "a", "");
    onnx_node(&graph, 1, "Sigmoid", "a", "b", "");
    onnx_node(&graph, 1, "Tanh", "b", "c", "");
    return model_of(arena, &graph, ir_version, (stw_str){0});
}

TEST(onnx_export, every_node_carries_the_plan) {
    stw_arena arena;
    fixture f;
    stw_str configuration, sharding;
    int32_t at;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, chain(&arena, 8))) {
        set(&f, "a", 0, 1.0);
        set(&f, "b", 1, 0.25);
        set(&f, "c", 1, -3.0);
        if (export_it(&f)) {
            check_metadata(f.out, "a", "layer_ann", "stowage_0");
            check_metadata(f.out, "b", "layer_ann", "stowage_1");
            check_metadata(f.out, "a", "stowage.device", stw_machine_device_name(f.machine, 0));
            check_metadata(f.out, "c", "stowage.device", stw_machine_device_name(f.machine, 1));
            check_metadata(f.out, "b", "stowage.priority", "0.25");
            check_metadata(f.out, "c", "stowage.priority", "-3");
            check_metadata(f.out, "a", "stowage.group", "0");
            check_metadata(f.out, "c", "stowage.group", "2");
            const stw_str node = node_of(f.out, "b", &at);
            CHECK(field(node, 10, 0, &configuration));
            CHECK(stw_str_is(text_of(configuration, 1), "stowage"));
            CHECK_EQ_INT(number_of(configuration, 3), 1);
            CHECK(field(configuration, 2, 0, &sharding));
            CHECK(stw_str_is(text_of(sharding, 1), "b"));
            CHECK(stw_str_is(text_of(sharding, 2), "\001")); /* packed: device 1 */
            CHECK_EQ_INT(number_of(f.out, 1), 11);
            CHECK(field(f.out, 26, 0, &configuration));
            CHECK_EQ_INT(number_of(configuration, 2), 2);
            CHECK(field(configuration, 3, 1, &sharding));
            CHECK(stw_str_is(sharding, stw_machine_device_name(f.machine, 1)));
            CHECK_CONTAINS(f.io.note, "session.layer_assignment_settings = gpu:0(=stowage_0); gpu:1(=stowage_1)\n");
            CHECK_CONTAINS(f.io.note, "raised from 8 to 11");
        }
    }
    end(&f);
    stw_arena_destroy(&arena);
}

/* Another plan gives another file, and the devices that are used decide what the user is told. */
TEST(onnx_export, another_plan_another_file) {
    stw_arena arena;
    fixture f;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, chain(&arena, 12)) && export_it(&f)) {
        const stw_str first = f.out;
        CHECK_EQ_INT(number_of(first, 1), 12);
        CHECK(strstr(f.io.note, "raised") == NULL);
        CHECK(strstr(f.io.note, "one instance") == NULL);
        CHECK(strstr(f.io.note, "stowage_1") == NULL);
        set(&f, "c", 1, 0.0);
        if (export_it(&f)) CHECK(!stw_str_equal(first, f.out));
        CHECK_CONTAINS(f.io.note, "one instance");
        CHECK_CONTAINS(f.io.note, "  stowage_0: inputs ['x'], outputs ['b']\n  stowage_1: inputs ['b'], outputs ['c']\n");
        CHECK(strstr(f.io.note, "back and forth") == NULL);
        set(&f, "a", 1, 0.0); /* 1, 0, 1: there and back */
        CHECK(export_it(&f));
        CHECK_CONTAINS(f.io.note, "back and forth between them (2 tensors cross)");
        CHECK(strstr(f.io.note, "extract_model") == NULL);
    }
    end(&f);
    stw_arena_destroy(&arena);
}

/* What we do not write ourselves is there byte for byte, in its place: fields that nobody knows, metadata and configurations of
 * others, and old ones of ours are replaced. */
TEST(onnx_export, everything_else_survives) {
    stw_arena arena;
    fixture f;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_pb_writer node = {.arena = &arena}, clean = {.arena = &arena}, graph = {.arena = &arena}, plain = {.arena = &arena};
    stw_pb_writer model = {.arena = &arena};
    stw_pb_writer *both[] = {&node, &clean}, *graphs[] = {&graph, &plain};
    for (int k = 0; k < 2; k++) { /* `clean` lacks what an earlier export left */
        stw_pb_write_int(both[k], 777, -5);
        int64_t begun = stw_pb_begin(both[k], 9);
        stw_pb_write_string(both[k], 1, STW_STR("namespace"));
        stw_pb_write_string(both[k], 2, STW_STR("decoder.0"));
        stw_pb_end(both[k], begun);
        if (k == 0) {
            begun = stw_pb_begin(both[k], 9);
            stw_pb_write_string(both[k], 1, STW_STR("layer_ann"));
            stw_pb_write_string(both[k], 2, STW_STR("old"));
            stw_pb_end(both[k], begun);
            begun = stw_pb_begin(both[k], 10);
            stw_pb_write_int(both[k], 3, 9);
            stw_pb_write_string(both[k], 1, STW_STR("stowage"));
            stw_pb_end(both[k], begun);
        }
        begun = stw_pb_begin(both[k], 10);
        stw_pb_write_string(both[k], 1, STW_STR("other"));
        stw_pb_end(both[k], begun);
        stw_pb_write_double(both[k], 55, 1.5);
        stw_pb_write_float(both[k], 56, 2.5f);
        border(graphs[k], "x", "b");
        onnx_node_with(graphs[k], 1, "Relu", "x", "a", (stw_str){both[k]->data, both[k]->length});
        stw_pb_write_string(graphs[k], 4242, STW_STR("between the nodes"));
        onnx_weights(graphs[k], 5, "w", size);
        onnx_node_with(graphs[k], 1, "Add", "a w", "b", (stw_str){both[k]->data, both[k]->length});
        stw_pb_write_string(graphs[k], 10, STW_STR("a doc string"));
    }
    stw_pb_write_string(&model, 30, STW_STR("unknown"));
    stw_pb_write_float(&model, 31, 0.5f);
    const int64_t begun = stw_pb_begin(&model, 26);
    stw_pb_write_string(&model, 1, STW_STR("other"));
    stw_pb_end(&model, begun);
    const stw_str more = {model.data, model.length};
    if (begin(&f, model_of(&arena, &graph, 11, more)) && export_it(&f)) {
        const stw_str expected = model_of(&arena, &plain, 11, more);
        CHECK(stw_str_equal(strip(&f.arena, f.out, 11), expected));
        check_metadata(f.out, "a", "layer_ann", "stowage_0");
        check_metadata(f.out, "a", "namespace", "decoder.0");
    }
    end(&f);
    stw_arena_destroy(&arena);
}

TEST(onnx_export, initializers_among_the_inputs_keep_the_version_below) {
    for (int listed = 0; listed < 2; listed++) {
        stw_arena arena;
        fixture f;
        stw_str found;
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        stw_pb_writer graph = {.arena = &arena};
        border(&graph, "x", "b");
        if (listed) onnx_value(&graph, 11, "w", ONNX_FLOAT, size);
        onnx_weights(&graph, 5, "w", size);
        onnx_node(&graph, 1, "Add", "x w", "b", "");
        if (begin(&f, model_of(&arena, &graph, 3, (stw_str){0})) && export_it(&f)) {
            CHECK_EQ_INT(number_of(f.out, 1), listed ? 3 : 11);
            CHECK(field(f.out, 26, 0, &found) == !listed);
            CHECK(field(node_of(f.out, "b", &(int32_t){0}), 10, 0, &found) == !listed);
            check_metadata(f.out, "b", "layer_ann", "stowage_0");
            CHECK_CONTAINS(f.io.note, listed ? "stays at IR version 3" : "raised from 3 to 11");
        }
        end(&f);
        stw_arena_destroy(&arena);
    }
}

/* ---- order ---- */

/* Three independent branches and their sum; file order a b c. */
static stw_str branches(stw_arena *arena) {
    static const int64_t shape[] = {256, 256};
    stw_pb_writer graph = {.arena = arena};
    border(&graph, "x", "s");
    onnx_numbers(&graph, 5, "shape", shape, 2);
    onnx_node(&graph, 1, "ConstantOfShape", "shape", "weight", "");
    onnx_node(&graph, 1, "Relu", "x", "a", "");
    onnx_node(&graph, 1, "Sigmoid", "x", "b", "");
    onnx_node(&graph, 1, "MatMul", "x weight", "c", "");
    onnx_node(&graph, 1, "Reshape", "a shape", "v", "");
    onnx_node(&graph, 1, "Sum", "v b c", "s", "");
    return model_of(arena, &graph, 11, (stw_str){0});
}

TEST(onnx_export, nodes_stand_in_planned_order) {
    stw_arena arena;
    fixture f;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, branches(&arena))) {
        set(&f, "c", 0, 2.0);
        set(&f, "b", 0, 3.0);
        set(&f, "a", 0, 1.0);
        if (export_it(&f)) {
            static const char *const expected[] = {"b", "weight", "c", "a", "v", "s"}; /* without a task: before their reader */
            for (int32_t k = 0; k < 6; k++) CHECK_EQ_INT(place_of(f.out, expected[k]), k);
        }
        set(&f, "b", 0, 0.0);
        if (export_it(&f)) {
            static const char *const expected[] = {"weight", "c", "a", "b", "v", "s"};
            for (int32_t k = 0; k < 6; k++) CHECK_EQ_INT(place_of(f.out, expected[k]), k);
        }
    }
    end(&f);
    stw_arena_destroy(&arena);
}

TEST(onnx_export, nodes_without_a_task_have_a_device_too) {
    stw_arena arena;
    fixture f;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, branches(&arena))) {
        set(&f, "a", 1, 7.0);
        set(&f, "c", 0, 5.0);
        set(&f, "weight", 1, 0.0);
        f.plan->device[find(f.graph, "v")] = 0; /* of a view it means nothing */
        if (export_it(&f)) {
            check_metadata(f.out, "v", "layer_ann", "stowage_1");
            check_metadata(f.out, "v", "stowage.priority", "7");
            check_metadata(f.out, "weight", "layer_ann", "stowage_1");
            check_metadata(f.out, "weight", "stowage.priority", "5");
            CHECK_EQ_INT(group_of(f.out, "v"), group_of(f.out, "a"));
            CHECK(group_of(f.out, "weight") != group_of(f.out, "c"));
        }
    }
    end(&f);
    stw_arena_destroy(&arena);
}

TEST(onnx_export, groups_are_counted_in_the_order_of_the_file) {
    stw_arena arena;
    fixture f;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, chain(&arena, 11))) {
        int32_t *group = f.plan->group;
        group[find(f.graph, "a")] = group[find(f.graph, "b")] = find(f.graph, "b");
        if (export_it(&f)) {
            CHECK_EQ_INT(group_of(f.out, "a"), 0);
            CHECK_EQ_INT(group_of(f.out, "b"), 0);
            CHECK_EQ_INT(group_of(f.out, "c"), 1);
        }
        group[find(f.graph, "a")] = -1; /* recomputed */
        if (export_it(&f)) {
            CHECK_EQ_INT(group_of(f.out, "a"), -1);
            CHECK_EQ_INT(group_of(f.out, "b"), 0);
        }
    }
    end(&f);
    stw_arena_destroy(&arena);
}

/* A node with a body that reads `captured`, directly or from a body within, and shadows the name `late`. */
static void node_with_body(stw_arena *arena, stw_pb_writer *graph, const char *op, const char *inputs, const char *output,
                           bool nested) {
    enum { GRAPH_TYPE = 5 };
    stw_pb_writer inner = {.arena = arena}, more = {.arena = arena};
    onnx_node(&inner, 1, "Tanh", "captured", "late", "");
    onnx_node(&inner, 1, "Neg", "late", "inside", "");
    onnx_value(&inner, 12, "inside", ONNX_FLOAT, size);
    static const char *const branch[] = {"then_branch", "else_branch"};
    for (int k = 0; k < 2; k++) {
        const int64_t attribute = stw_pb_begin(&more, 5);
        stw_pb_write_string(&more, 1, stw_str_of(branch[k]));
        const int64_t body = stw_pb_begin(&more, 6);
        if (nested) {
            const int64_t node = stw_pb_begin(&more, 1);
            stw_pb_write_string(&more, 2, STW_STR("nested"));
            stw_pb_write_string(&more, 4, STW_STR("Custom"));
            const int64_t within = stw_pb_begin(&more, 5);
            stw_pb_write_string(&more, 1, STW_STR("body"));
            stw_pb_write_string(&more, 6, (stw_str){inner.data, inner.length});
            stw_pb_write_int(&more, 20, GRAPH_TYPE);
            stw_pb_end(&more, within);
            stw_pb_end(&more, node);
            onnx_value(&more, 12, "nested", ONNX_FLOAT, size);
        } else {
            stw_pb_write_raw(&more, (stw_str){inner.data, inner.length});
        }
        stw_pb_end(&more, body);
        stw_pb_write_int(&more, 20, GRAPH_TYPE);
        stw_pb_end(&more, attribute);
    }
    onnx_node_with(graph, 1, op, inputs, output, (stw_str){more.data, more.length});
}

/* Of an operator that the reader does not know, it does not look into the body, so the plan may begin it too early; in the file
 * what the body reads must stand before it all the same. A body may have a name of its own that an outer node has, too. */
TEST(onnx_export, what_bodies_read_comes_first) {
    static const char *const op[] = {"If", "Custom", "Custom"};
    for (int k = 0; k < 3; k++) {
        stw_arena arena;
        fixture f;
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        stw_pb_writer graph = {.arena = &arena};
        onnx_value(&graph, 11, "condition", ONNX_BOOL, "");
        border(&graph, "x", "end");
        onnx_node(&graph, 1, "Relu", "x", "captured", "");
        node_with_body(&arena, &graph, op[k], "condition", "y", k == 2);
        onnx_node(&graph, 1, "Add", "y x", "late", "");
        onnx_node(&graph, 1, "Add", "y late", "end", "");
        test_context("%s %d", op[k], k);
        if (begin(&f, model_of(&arena, &graph, 11, (stw_str){0}))) {
            set(&f, "captured", 1, -10.0);
            set(&f, "y", 0, 10.0);
            if (export_it(&f)) {
                CHECK_EQ_INT(place_of(f.out, "captured"), 0);
                CHECK_EQ_INT(place_of(f.out, "y"), 1);
                CHECK_EQ_INT(place_of(f.out, "end"), 3);
                CHECK(stw_str_equal(strip(&f.arena, f.out, 11), f.bytes));
            }
        }
        end(&f);
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
}

/* ---- again ---- */

/* The plan of one graph at another whose nodes have the same names. */
static void carry_over(const fixture *from, fixture *to) {
    for (int32_t i = 0; i < from->graph->N; i++) {
        const stw_str name = from->graph->node_name[i];
        for (int32_t j = 0; j < to->graph->N; j++) {
            if (!stw_str_equal(to->graph->node_name[j], name) || to->graph->kind[j] != from->graph->kind[i]) continue;
            to->plan->device[j] = from->plan->device[i];
            to->plan->priority[j] = from->plan->priority[i];
        }
    }
}

static void check_again(const fixture *f) {
    fixture again;
    if (begin(&again, f->out)) {
        carry_over(f, &again);
        if (export_it(&again)) CHECK(stw_str_equal(again.out, f->out));
    }
    end(&again);
}

TEST(onnx_export, exporting_again_gives_equal_bytes) {
    stw_arena arena;
    fixture f;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, branches(&arena))) {
        set(&f, "c", 1, 2.0);
        set(&f, "b", 0, 3.0);
        set(&f, "a", 0, 1.0);
        if (export_it(&f)) check_again(&f);
        CHECK(f.out.length > f.bytes.length);
    }
    end(&f);
    stw_arena_destroy(&arena);
}

/* ---- what is refused ---- */

TEST(onnx_export, another_file_is_refused) {
    stw_arena arena;
    fixture f;
    char path[64];
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, chain(&arena, 8))) {
        write_temporary(path, branches(&arena));
        CHECK_EQ_INT(export_from(&f, path), STW_ERROR_INPUT);
        CHECK_CONTAINS(f.error.message, "is not there; the model file is not the one");
        unlink(path);
        stw_str renamed = stw_str_copy(&arena, f.bytes); /* the same length, another operator */
        memcpy(memmem(renamed.p, (size_t)renamed.length, "Tanh", 4), "Erf2", 4);
        write_temporary(path, renamed);
        CHECK_EQ_INT(export_from(&f, path), STW_ERROR_INPUT);
        CHECK_CONTAINS(f.error.message, "node 'c' (Tanh) of the graph is not there");
        unlink(path);
        write_temporary(path, STW_STR("{\"format\":\"opgraph\"}"));
        CHECK_EQ_INT(export_from(&f, path), STW_ERROR_INPUT);
        CHECK_CONTAINS(f.error.message, "does not come from an ONNX model");
        unlink(path);
        CHECK_EQ_INT(export_from(&f, NULL), STW_ERROR_INPUT);
    }
    end(&f);
    stw_arena_destroy(&arena);
}

/* Every prefix of the file: either an error with words, or a whole model (what is cut off stood behind the graph). */
TEST(onnx_export, every_truncation_ends_well) {
    stw_arena arena;
    fixture f;
    char path[64];
    int32_t refused = 0;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (begin(&f, chain(&arena, 8))) {
        for (int64_t length = 0; length < f.bytes.length; length++) {
            write_temporary(path, (stw_str){f.bytes.p, length});
            if (export_from(&f, path) != STW_OK) {
                CHECK(f.error.message[0] != '\0');
                refused++;
            }
            unlink(path);
        }
        CHECK(refused >= f.bytes.length - 5);
    }
    end(&f);
    stw_arena_destroy(&arena);
}

/* ---- the real models ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    return stw_str_hash((stw_str){(const char *)(uint64_t[]){hash, value}, 2 * sizeof(uint64_t)});
}

/* What makes up a node, all that it reads included: equal for equal nodes, wherever they stand. */
static uint64_t node_hash(const stw_graph *graph, int32_t i, const uint64_t *hash) {
    uint64_t h = stw_str_hash(graph->op_name[i]);
    h = mix(h, stw_str_hash(graph->node_name[i]));
    h = mix(h, stw_str_hash(graph->label[i]));
    h = mix(h, stw_str_hash(graph->attributes[i]));
    h = mix(h, (uint64_t)graph->kind[i] << 16 | (uint64_t)graph->dtype[i] << 8 | graph->op_class[i]);
    h = mix(h, (uint64_t)graph->bytes[i]);
    h = mix(h, (uint64_t)graph->flops[i]);
    h = mix(h, (uint64_t)stw_graph_moved(graph, i));
    for (int64_t k = graph->shape_start[i]; k < graph->shape_start[i + 1]; k++) h = mix(h, (uint64_t)graph->shape[k]);
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) h = mix(h, hash[graph->input[k]]);
    return h;
}

static int compare_hash(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Equal for graphs with the same nodes, inputs in argument order and outputs in order, whatever the order of the nodes. */
static uint64_t graph_hash(const stw_graph *graph) {
    uint64_t *hash = calloc((size_t)graph->N + 1, sizeof *hash), h = 0;
    for (int32_t i = 0; i < graph->N; i++) hash[i] = node_hash(graph, i, hash);
    for (int32_t k = 0; k < graph->output_count; k++) h = mix(h, hash[graph->output[k]]);
    qsort(hash, (size_t)graph->N, sizeof *hash, compare_hash);
    for (int32_t i = 0; i < graph->N; i++) h = mix(h, hash[i]);
    free(hash);
    return h;
}

/* Alternating devices and priorities that turn the order around. */
static void scatter(fixture *f, int32_t period) {
    for (int32_t i = 0; i < f->graph->N; i++) {
        f->plan->device[i] = i / period % 2;
        f->plan->priority[i] = i % 7;
    }
}

/* The op that a node of the file is, or -1; nodes without a name have that of their first output. */
static int32_t op_of(const stw_graph *graph, stw_str node) {
    const stw_str name = text_of(node, 3).length > 0 ? text_of(node, 3) : text_of(node, 2), op = text_of(node, 4);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP && stw_str_equal(graph->node_name[i], name) && stw_str_equal(graph->op_name[i], op))
            return i;
    }
    return -1;
}

/* Tasks stand in the order in which they begin, each with its device. */
static void check_plan(const fixture *f) {
    stw_workspace *workspace = NULL;
    stw_evaluation result;
    stw_str node;
    int64_t before = 0;
    int32_t ops = 0, late = 0, misplaced = 0;
    CHECK_EQ_INT(stw_workspace_create(f->simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(f->simulator, f->plan, workspace, &result, NULL), STW_OK);
    for (int32_t at = 0; field(graph_of(f->out), 1, at, &node); at++) {
        char device[100];
        const bool carried = metadata(node, "stowage.device", device) == 1;
        const int32_t i = op_of(f->graph, node);
        misplaced += !carried || (i >= 0 && strcmp(device, stw_machine_device_name(f->machine, f->plan->device[i])) != 0);
        if (i < 0) continue;
        const int64_t start = workspace->timeline.start_ps[workspace->timeline.tasks->task_of[i]];
        late += start < before;
        before = start;
        ops++;
    }
    CHECK_EQ_INT(late, 0);
    CHECK_EQ_INT(misplaced, 0);
    CHECK_EQ_INT(ops, f->graph->op_count);
    stw_workspace_destroy(workspace);
}

static void check_file(const char *path) {
    stw_arena arena;
    stw_str bytes = {0};
    fixture f;
    stw_graph *back = NULL;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_file_read(path, &arena, &bytes, NULL), STW_OK);
    if (begin(&f, bytes)) {
        CHECK_EQ_INT(stw_machine_set_memory(f.machine, (int64_t)4 << 40, NULL), STW_OK);
        scatter(&f, 20);
        if (export_it(&f)) {
            const stw_str first = f.out;
            CHECK_EQ_INT(stw_graph_parse(first.p, (size_t)first.length, "out.onnx", NULL, &back, &f.error), STW_OK);
            CHECK_STR(f.error.message, "");
            if (back != NULL) CHECK(graph_hash(back) == graph_hash(f.graph));
            check_plan(&f);
            check_again(&f);
            scatter(&f, 3);
            if (export_it(&f)) CHECK(!stw_str_equal(first, f.out));
        }
        stw_graph_destroy(back);
    }
    end(&f);
    stw_arena_destroy(&arena);
}

TEST(onnx_export, real_models_read_back_as_the_same_graph) {
    static const char *const files[] = {"light_bvlc_alexnet",     "light_densenet121",
                                        "light_inception_v1",     "light_resnet50",
                                        "light_squeezenet",       "ort_3layer_bloom_optimized_training",
                                        "ort_bert_toy_optimized", "ort_TFBertForQuestionAnswering"};
    const char *given = getenv("STOWAGE_ONNX");
    const char *folder = given != NULL ? given : STW_SOURCE_DIR "/../shared/external/onnx";
    for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
        char path[2000];
        snprintf(path, sizeof path, "%s/%s.onnx", folder, files[k]);
        if (access(path, R_OK) != 0) SKIP("the real models are not there; STOWAGE_ONNX names their folder");
        test_context("%s", files[k]);
        check_file(path);
    }
    test_context("%s", "");
}
