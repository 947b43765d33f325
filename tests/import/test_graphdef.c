/* import/graphdef: graphs that TensorFlow 2.21 wrote, with the shapes that it inferred itself; and small ones by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graphdef_text.h"
#include "import/wire/pbwire.h"

#define DATA STW_SOURCE_DIR "/tests/import/data/"

static stw_graph *open_file(const char *name, stw_arena *arena) {
    char path[1000];
    stw_error error = {0};
    stw_str bytes = {0};
    stw_graph *graph = NULL;
    snprintf(path, sizeof path, "%s%s", DATA, name);
    if (!CHECK_EQ_INT(stw_file_read(path, arena, &bytes, &error), STW_OK)) return NULL;
    const bool text = strstr(name, ".pbtxt") != NULL;
    CHECK(stw_pbtxt_is(bytes) == text && stw_graphdef_is(bytes) == !text);
    CHECK_EQ_INT(text ? stw_pbtxt_read(bytes, NULL, &graph, &error) : stw_graphdef_read(bytes, NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    return graph;
}

static int32_t find(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; graph != NULL && i < graph->N; i++) {
        if (strcmp(graph->node_name[i].p, name) == 0) return i;
    }
    return -1;
}

/* "f32[32, 50]" of a node. */
static const char *show(const stw_graph *graph, int32_t i, char out[200]) {
    if (i < 0) return "absent";
    int length = snprintf(out, 200, "%s[", stw_dtype_name(graph->dtype[i]));
    for (int64_t d = graph->shape_start[i]; d < graph->shape_start[i + 1]; d++) {
        const char *comma = d > graph->shape_start[i] ? ", " : "";
        length += snprintf(out + length, 200 - (size_t)length, "%s%lld", comma, (long long)graph->shape[d]);
    }
    snprintf(out + length, 200 - (size_t)length, "]");
    return out;
}

static void check_shape(const stw_graph *graph, const char *name, const char *expected) {
    char text[200];
    test_context("%s", name);
    CHECK_STR(show(graph, find(graph, name), text), expected);
    test_context("%s", "");
}

/* A line of the oracle: "node:0<tab>float32<tab>[32, 50]". Outputs that nobody reads have no node of their own. */
static int check_line(const stw_graph *graph, char *line) {
    static const char *const names[][2] = {{"float32", "f32"}, {"int32", "s32"}, {"int64", "s64"}, {"bool", "pred"}};
    const char *tensor = strtok(line, "\t\n"), *type = strtok(NULL, "\t\n"), *shape = strtok(NULL, "\t\n");
    int32_t node = find(graph, tensor);
    char name[400], expected[200] = "", text[200];
    snprintf(name, sizeof name, "%s", tensor);
    char *colon = strrchr(name, ':');
    if (node < 0 && strcmp(colon, ":0") == 0) {
        *colon = '\0';
        node = find(graph, name);
    }
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        if (strcmp(type, names[k][0]) == 0) snprintf(expected, sizeof expected, "%s%s", names[k][1], shape);
    }
    if (node < 0 || expected[0] == '\0' || strcmp(shape, "None") == 0) return 0;
    test_context("%s", tensor);
    CHECK_STR(show(graph, node, text), expected);
    test_context("%s", "");
    return 1;
}

static void check_against_tensorflow(const char *name, const char *oracle, int at_least) {
    stw_arena arena;
    char path[1000], line[1000];
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    stw_graph *graph = open_file(name, &arena);
    snprintf(path, sizeof path, "%s%s", DATA, oracle);
    FILE *file = fopen(path, "r");
    int checked = 0;
    if (CHECK(file != NULL && graph != NULL)) {
        while (fgets(line, sizeof line, file) != NULL) checked += check_line(graph, line);
    }
    CHECK(checked >= at_least);
    if (file != NULL) fclose(file);
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

TEST(graphdef, shapes_agree_with_tensorflow) {
    check_against_tensorflow("tf_mlp.pb", "tf_mlp.shapes", 60);
    check_against_tensorflow("tf_conv.pb.gz", "tf_conv.shapes", 180);
    check_against_tensorflow("tf_loop.pb", "tf_loop.shapes", 55);
    check_against_tensorflow("tf_loop.pbtxt", "tf_loop.shapes", 55);
    check_against_tensorflow("tf_functions.pb", "tf_functions.shapes", 50);
}

TEST(graphdef, bytes_and_text_give_the_same_graph) {
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    stw_graph *bytes = open_file("tf_loop.pb", &arena), *text = open_file("tf_loop.pbtxt", &arena);
    if (CHECK(bytes != NULL && text != NULL)) {
        CHECK_STR(stw_graph_fingerprint(bytes), stw_graph_fingerprint(text));
        CHECK_EQ_INT(bytes->N, text->N);
        for (int32_t i = 0; i < bytes->N && i < text->N; i++) CHECK_STR(bytes->node_name[i].p, text->node_name[i].p);
    }
    stw_graph_destroy(bytes);
    stw_graph_destroy(text);
    stw_arena_destroy(&arena);
}

/* A training step: reference and resource variables, a gradient, an update of each. */
TEST(graphdef, a_training_step) {
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    stw_graph *g = open_file("tf_mlp.pb", &arena);
    const int32_t w = find(g, "w"), w2 = find(g, "w2"), product = find(g, "MatMul"), read = find(g, "MatMul_1/ReadVariableOp");
    const int32_t update = find(g, "GradientDescent/update_w/ApplyGradientDescent"), assign = find(g, "w/Assign");
    const int32_t update2 = find(g, "GradientDescent/update_w2/ResourceApplyGradientDescent"), step = find(g, "GradientDescent");
    if (CHECK(w >= 0 && w2 >= 0 && product >= 0 && read >= 0 && update >= 0 && update2 >= 0 && step >= 0 && assign >= 0)) {
        CHECK(g->kind[w] == STW_NODE_PARAMETER && g->kind[w2] == STW_NODE_PARAMETER);
        CHECK(g->kind[find(g, "x")] == STW_NODE_INPUT && g->kind[find(g, "GradientDescent/learning_rate")] == STW_NODE_CONSTANT);
        CHECK(g->kind[read] == STW_NODE_VIEW && g->root[read] == w2);
        CHECK_EQ_INT(g->bytes[w2], 50 * 10 * 4);
        CHECK_STR(g->label[w].p, "w");
        CHECK_EQ_INT(g->flops[product], 2 * 32 * 20 * 50);
        CHECK_EQ_INT(g->updates[update], w);
        CHECK_EQ_INT(g->updates[update2], w2);
        CHECK_EQ_INT(g->updates[assign], -1); /* it only initializes */
        CHECK_EQ_INT(g->colocate[assign], w);
        CHECK_EQ_INT(g->colocate[update], w);
        CHECK_EQ_INT(g->control_start[step + 1] - g->control_start[step], 3);
        CHECK(g->op_class[step] == STW_CLASS_ALIAS && g->bytes[step] == 0);
    }
    /* Gradients pass through Identities that wait: these stay views, and their readers wait. */
    const int32_t gradient = find(g, "gradients/MatMul_grad/tuple/control_dependency_1");
    if (CHECK(gradient >= 0 && update >= 0)) {
        CHECK(g->kind[gradient] == STW_NODE_VIEW);
        const int32_t awaited = g->control[g->control_start[update]];
        CHECK_STR(g->node_name[awaited].p, "gradients/MatMul_grad/tuple/group_deps");
    }
    stw_graph_destroy(g);
    stw_arena_destroy(&arena);
}

TEST(graphdef, work_of_a_convolution_and_its_gradients) {
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    stw_graph *g = open_file("tf_conv.pb.gz", &arena);
    const int64_t work = 2LL * (2 * 14 * 14 * 16) * (5 * 5 * 3);
    const int32_t forward = find(g, "Conv2D"), to_input = find(g, "gradients/Conv2D_grad/Conv2DBackpropInput");
    const int32_t to_filter = find(g, "gradients/Conv2D_grad/Conv2DBackpropFilter"), narrow = find(g, "depthwise");
    if (CHECK(forward >= 0 && to_input >= 0 && to_filter >= 0 && narrow >= 0)) {
        CHECK_EQ_INT(g->flops[forward], work);
        CHECK_EQ_INT(g->flops[to_input], work);
        CHECK_EQ_INT(g->flops[to_filter], work);
        CHECK_EQ_INT(g->flops[narrow], 2LL * (2 * 14 * 14 * 16) * (3 * 3));
    }
    const int32_t norm = find(g, "FusedBatchNormV3"), part = find(g, "FusedBatchNormV3:0");
    if (CHECK(norm >= 0 && part >= 0)) { /* six outputs: a view for each that is read */
        CHECK(g->kind[part] == STW_NODE_VIEW && g->root[part] == norm);
        CHECK_EQ_INT(g->bytes[part], 2 * 14 * 14 * 16 * 4);
        CHECK_EQ_INT(g->bytes[norm], 2 * 14 * 14 * 16 * 4 + 4 * 16 * 4 + 4);
    }
    stw_graph_destroy(g);
    stw_arena_destroy(&arena);
}

#define ATTR(key, value) " attr { key: \"" key "\" value { " value " } }"
#define FLOAT(key)       ATTR(key, "type: DT_FLOAT")
#define INPUT(name, shape) \
    "node { name: \"" name "\" op: \"Placeholder\"" FLOAT("dtype") ATTR("shape", "shape { " shape " }") " }\n"

TEST(graphdef, nodes_in_any_order_and_open_dimensions) {
    stw_graph *g = take_text("node { name: \"y\" op: \"MatMul\" input: \"x\" input: \"w\"" FLOAT("T")
                                 ATTR("transpose_b", "b: true") " }\n" INPUT("x", "dim { size: -1 } dim { size: 3 }")
                                     INPUT("w", "dim { size: 5 } dim { size: 3 }"));
    check_shape(g, "x", "f32[1, 3]");
    check_shape(g, "y", "f32[1, 5]");
    if (CHECK(g != NULL)) {
        CHECK_EQ_INT(g->flops[find(g, "y")], 2 * 1 * 5 * 3);
        CHECK_EQ_INT(g->origin[find(g, "y")], 0);
        CHECK_EQ_INT(g->output_count, 1);
        CHECK_EQ_INT(g->output[0], find(g, "y"));
    }
    stw_graph_destroy(g);
}

#define SHAPES "list { shape { dim { size: 7 } dim { size: 2 } } shape { unknown_rank: true } }"

TEST(graphdef, stated_shapes_and_unknown_operators) {
    stw_graph *g = take_text(INPUT("x", "dim { size: 4 }") "node { name: \"a\" op: \"MyOp\" input: \"x\"" FLOAT("T") ATTR(
        "_output_shapes", SHAPES) " }\n"
                                  "node { name: \"b\" op: \"Other\" input: \"a\" input: \"a:1\" input: \"a:5\" }");
    check_shape(g, "a:0", "f32[7, 2]");
    if (CHECK(g != NULL)) {
        CHECK_EQ_INT(g->bytes[find(g, "a")], 56);
        CHECK(!g->known[find(g, "a")] && g->op_class[find(g, "a")] == STW_CLASS_OPAQUE);
        CHECK_EQ_INT(g->bytes[find(g, "a:1")], 0);
        CHECK(find(g, "a:5") >= 0 && find(g, "a:2") < 0);
        CHECK_EQ_INT(g->flops[find(g, "b")], 0);
    }
    stw_graph_destroy(g);
}

/* The gradient of a broadcast: shapes are computed in the graph, and so are the axes over which it is summed. */
TEST(graphdef, shapes_that_the_graph_computes) {
    stw_graph *g = take_text(INPUT("x", "dim { size: 4 } dim { size: 6 }") INPUT(
        "b", "dim { size: 6 }") "node { name: \"n\" op: \"ShapeN\" input: \"x\" input: \"b\" }\n"
                                "node { name: \"a\" op: \"BroadcastGradientArgs\" input: \"n\" input: \"n:1\" }\n"
                                "node { name: \"s\" op: \"Sum\" input: \"x\" input: \"a:1\" }\n"
                                "node { name: \"t\" op: \"Sum\" input: \"x\" input: \"a\" }\n"
                                "node { name: \"p\" op: \"Prod\" input: \"n\" input: \"n\" }\n"
                                "node { name: \"k\" op: \"Pack\" input: \"p\" input: \"p\" }\n"
                                "node { name: \"f\" op: \"Fill\" input: \"k\" input: \"x\"" FLOAT("T") " }\n");
    check_shape(g, "n:1", "s32[1]");
    check_shape(g, "s", "f32[6]");
    check_shape(g, "t", "f32[4, 6]");
    check_shape(g, "f", "f32[24, 24]");
    stw_graph_destroy(g);
}

/* A loop of the old kind: Enter, Merge, Switch, NextIteration, Exit. */
TEST(graphdef, a_loop_is_cut_where_it_returns) {
    stw_graph *g = take_text(INPUT("x", "dim { size: 4 }") INPUT("go", "")
                             "node { name: \"e\" op: \"Enter\" input: \"x\"" FLOAT("T") " }\n"
                             "node { name: \"m\" op: \"Merge\" input: \"e\" input: \"n\"" FLOAT("T") " }\n"
                             "node { name: \"s\" op: \"Switch\" input: \"m\" input: \"go\"" FLOAT("T") " }\n"
                             "node { name: \"t\" op: \"Tanh\" input: \"s:1\"" FLOAT("T") " }\n"
                             "node { name: \"n\" op: \"NextIteration\" input: \"t\"" FLOAT("T") " }\n"
                             "node { name: \"o\" op: \"Exit\" input: \"s\"" FLOAT("T") " }\n");
    check_shape(g, "t", "f32[4]");
    check_shape(g, "o", "f32[4]");
    if (CHECK(g != NULL)) {
        CHECK_EQ_INT(g->bytes[find(g, "s")], 16); /* one of its two outputs comes to life */
        CHECK_EQ_INT(g->root[find(g, "o")], find(g, "s"));
    }
    stw_graph_destroy(g);
}

TEST(graphdef, colocation_and_large_constants) {
    stw_graph *g = take_text(INPUT("x", "dim { size: 4 }")
                             "node { name: \"w\" op: \"Const\"" FLOAT("dtype")
                             ATTR("value", "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 300 } } float_val: 0.5 }") " }\n"
                             "node { name: \"v\" op: \"Identity\" input: \"w\" }\n"
                             "node { name: \"r\" op: \"Relu\" input: \"x\"" ATTR("_class", "list { s: 'loc:@x' s: 'loc:@v' }") " }\n"
                             "node { name: \"p\" op: \"IdentityN\" input: \"x\" input: \"r\" }\n"
                             "node { name: \"q\" op: \"Neg\" input: \"p:1\" input: \"^w\" }\n");
    if (CHECK(g != NULL)) {
        CHECK(g->kind[find(g, "w")] == STW_NODE_PARAMETER);
        CHECK_EQ_INT(g->colocate[find(g, "r")], find(g, "w")); /* the one that has a place, behind its view */
        CHECK_EQ_INT(g->input[g->input_start[find(g, "q")]], find(g, "r"));
    }
    stw_graph_destroy(g);
}

TEST(graphdef, refusals_name_the_node) {
    const char *x = INPUT("x", "");
    char text[2000];
    snprintf(text, sizeof text, "%snode { name: \"x\" op: \"Relu\" }", x);
    refuse_text(text, "node 'x' (Relu) repeats the name 'x'");
    snprintf(text, sizeof text, "%snode { name: \"y\" op: \"Relu\" input: \"gone:2\" }", x);
    refuse_text(text, "node 'y' (Relu) reads 'gone', which is not in the file");
    snprintf(text, sizeof text, "%snode { name: \"y\" op: \"Relu\" input: \"^gone\" }", x);
    refuse_text(text, "waits for 'gone'");
    snprintf(text, sizeof text, "%snode { name: \"y\" op: \"Relu\" input: \"x:99999999999999999999\" }", x);
    refuse_text(text, "an output that no op has");
    refuse_text("node { name: \"a\" op: \"Relu\" input: \"b\" } node { name: \"b\" op: \"Relu\" input: \"a\" }", "cycle");
    refuse_text("node { name: \"a\" op: \"Identity\" input: \"a\" }", "cycle");
    refuse_text("node { name: \"a\" op: \"Relu\" input: \"^a\" }", "cycle");
    refuse_text("node { name: \"a\" op: \"Identity\" }", "a view needs an input");
    refuse_text("node { op: \"Identity\" }", "node 0 '' (Identity): it has no name");
    refuse_text("\nnode { name: \"a\" }", "line 2: node 0 'a' (): it has no op");
    refuse_text("node { name: \"a\\001\" op: \"Relu\" }", "not UTF-8");
    refuse_text("versions { }", "no nodes");
    refuse_text(INPUT("x", "dim { size: 9223372036854775807 } dim { size: 3 }"), "node 0 'x'");
    snprintf(text, sizeof text, "%snode { name: \"y\" op: \"Split\" input: \"x\" input: \"x\"%s }", x,
             ATTR("num_split", "i: 9223372036854775807"));
    stw_graph_destroy(take_text(text)); /* nothing is known of its outputs, so nothing is too large */
}

TEST(graphdef, outputs_that_an_operator_does_not_have) {
    static const char *const refused[] = {"Const", "Placeholder", "VariableV2", "MatMul", "NoOp"};
    char text[1000], says[200];
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        const int output = strcmp(refused[k], "NoOp") == 0 ? 0 : 7;
        snprintf(text, sizeof text, "node { name: 'a' op: '%s' }\nnode { name: 'y' op: 'Relu' input: 'a:%d' }", refused[k],
                 output);
        snprintf(says, sizeof says, "line 2: node 'y' (Relu) reads 'a:%d', but %s has no such output; outputs count from 0",
                 output, refused[k]);
        refuse_text(text, says);
    }
    refuse_text("node { name: 'a' op: 'FusedBatchNormV3' } node { name: 'y' op: 'Relu' input: 'a:6' }", "has no such output");
    refuse_text("node { name: 'a' op: 'Split'" ATTR("num_split", "i: 2") " } node { name: 'y' op: 'Relu' input: 'a:2' }",
                "has no such output");
    stw_graph_destroy(
        take_text("node { name: 'a' op: 'Split'" ATTR("num_split", "i: 2") " } node { name: 'y' op: 'Relu' input: 'a:1' }"));
    stw_graph_destroy(take_text("node { name: 'a' op: 'MyOp' } node { name: 'y' op: 'Relu' input: 'a:7' }")); /* who knows? */
}

TEST(graphdef, colocation_with_nobody_and_sizes_below_open) {
    refuse_text("node { name: 'x' op: 'Placeholder' }\n\nnode { name: 'y' op: 'Relu' input: 'x'" ATTR(
                    "_class", "list { s: 'loc:@gone' }") " }",
                "line 3: node 'y' (Relu) is to stand with 'gone' (_class), which is not in the file; give the whole graph");
    refuse_text("\n" INPUT("x", "dim { size: -7 }"),
                "line 2: node 0 'x' (Placeholder): a size in its attribute 'shape' is -7; write -1");
    stw_graph_destroy(take_text(INPUT("x", "dim { size: -1 }")));
}

/* Text by lines, bytes by bytes. */
TEST(graphdef, places_of_errors) {
    refuse_text("node { name: 'a' op: 'Relu' input: 'b' }\nnode { name: 'b' op: 'Relu' input: 'a' }\n",
                "line 1: node 0 'a' (Relu): depends on itself: its inputs close a cycle; remove one of them");
    refuse_text("node { name: 'a' op: 'Relu' }\n# why\nnode { name: 'b'\n op: 'Relu' input: 'gone' }",
                "line 3: node 'b' (Relu) reads 'gone'");
    static const char bytes[] =
        "\n\x09\n\x01"
        "a"
        "\x12\x04Relu"
        "\n\x0c\n\x01"
        "b"
        "\x12\x04Relu\x1a\x01"
        "c";
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graph_parse(bytes, sizeof bytes - 1, "g", &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "g: byte 11: node 'b' (Relu) reads 'c'");
}

/* A version, then a MetaGraphDef: its info (tags), its graph. */
TEST(graphdef, saved_models_are_known) {
    static const char bytes[] =
        "\x08\x01\x12\x16\n\x07\"\x05serve\x12\x0b\n\x09\n\x01"
        "a"
        "\x12\x04Relu";
    static const char text[] = "saved_model_schema_version: 1\nmeta_graphs {\n}\n";
    static const char onnx[] = "\x08\x08\x12\x07pytorch"; /* a model that is cut off behind its producer */
    const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = {{bytes, sizeof bytes - 1, "g: this is a SavedModel"},
                 {text, sizeof text - 1, "g: this is a SavedModel"},
                 {onnx, sizeof onnx - 1, "the model has no graph"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        stw_error error = {0};
        stw_graph *graph = NULL;
        CHECK_EQ_INT(stw_graph_parse(cases[k].bytes, cases[k].size, "g", &graph, &error), STW_ERROR_INPUT);
        CHECK(graph == NULL);
        CHECK_CONTAINS(error.message, cases[k].says);
    }
}

/* Every prefix, and every byte changed: an answer, and never a crash. */
TEST(graphdef, truncated_and_damaged_files) {
    stw_arena arena;
    stw_str bytes = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (!CHECK_EQ_INT(stw_file_read(DATA "tf_traced.pb", &arena, &bytes, NULL), STW_OK)) return;
    int taken = 0;
    for (int64_t length = 0; length < bytes.length; length++) {
        stw_error error = {0};
        stw_graph *graph = NULL;
        char *copy = malloc((size_t)length + 1); /* its exact size, so that sanitizers see a step too far */
        memcpy(copy, bytes.p, (size_t)length);
        const stw_status status = stw_graphdef_read((stw_str){copy, length}, NULL, &graph, &error);
        if (status != STW_OK) CHECK(graph == NULL && error.message[0] != '\0');
        taken += status == STW_OK;
        stw_graph_destroy(graph);
        graph = NULL;
        memcpy(copy, bytes.p, (size_t)length);
        if (length > 0) copy[length / 2] = (char)(copy[length / 2] ^ 0x55);
        (void)stw_graphdef_is((stw_str){copy, length});
        if (length % 4 == 0 && stw_graphdef_read((stw_str){copy, length}, NULL, &graph, &error) == STW_OK) CHECK(graph != NULL);
        stw_graph_destroy(graph);
        free(copy);
    }
    CHECK(taken > 0 && taken < 60); /* whole nodes may be missing at the end */
    stw_arena_destroy(&arena);
}

TEST(graphdef, lengths_past_the_end) {
    static const char first[] =
        "\x0a\x7f\x0a\x01"
        "a";
    static const char endless[] =
        "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x0a\x01"
        "a";
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graphdef_read((stw_str){first, sizeof first - 1}, NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "byte 0: field 1 has 127 bytes");
    CHECK_EQ_INT(stw_graphdef_read((stw_str){endless, sizeof endless - 1}, NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "is the file cut off?");
    CHECK(!stw_graphdef_is((stw_str){first, sizeof first - 1}) && !stw_graphdef_is((stw_str){NULL, 0}));
}

/* Bytes of other formats that begin like a graph: HloProto has a module, with messages where a node has strings. */
TEST(graphdef, is_not_taken_for_another_format) {
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    stw_pb_writer w = {.arena = &arena};
    stw_str bytes = {0};
    const int64_t module = stw_pb_begin(&w, 1);
    stw_pb_write_string(&w, 1, STW_STR("jit_f"));
    stw_pb_write_string(&w, 2, STW_STR("main.5"));
    const int64_t computation = stw_pb_begin(&w, 3);
    stw_pb_write_string(&w, 1, STW_STR("main.5"));
    stw_pb_end(&w, computation);
    stw_pb_end(&w, module);
    CHECK_EQ_INT(stw_pb_written(&w, &bytes, NULL), STW_OK);
    CHECK(!stw_graphdef_is(bytes));
    CHECK(!stw_graphdef_is(STW_STR("\x08\x07\x12\x03onx")));
    CHECK(!stw_pbtxt_is(STW_STR("HloModule f, is_scheduled=true")) && !stw_pbtxt_is(STW_STR("{\"node\": 1}")));
    CHECK(stw_pbtxt_is(STW_STR("# a graph\n\nlibrary: <>")) && !stw_pbtxt_is(STW_STR("node")));
    stw_arena_destroy(&arena);
}

/* Views near their root hand on their waits. A reader waits for each op once, however many views tell it to; and where the waits
 * would be many more than the file has inputs, it is refused. */
TEST(graphdef, waits_of_views_are_bounded) {
    enum { ROOM = 8 << 20, CHAIN = 7, FEW = 4, READERS = 120000 };
    char *text = malloc(ROOM);
    if (!CHECK(text != NULL)) return;
    for (int distinct = 0; distinct < 2; distinct++) {
        const int readers = distinct ? READERS : 100;
        char *at = text + sprintf(text, "node { name: 'v0' op: 'Relu' }\n");
        for (int k = 0; k < CHAIN * FEW; k++) at += sprintf(at, "node { name: 'c%d' op: 'Relu' }\n", k);
        for (int k = 1; k <= CHAIN; k++) {
            at += sprintf(at, "node { name: 'v%d' op: 'Identity' input: 'v%d'", k, k - 1);
            for (int f = 0; f < FEW; f++) at += sprintf(at, " input: '^c%d'", distinct ? (k - 1) * FEW + f : f);
            at += sprintf(at, " }\n");
        }
        for (int k = 0; k < readers; k++) at += sprintf(at, "node { name: 'r%d' op: 'Relu' input: 'v%d' }\n", k, CHAIN);
        stw_error error = {0};
        stw_graph *graph = NULL;
        const stw_status status = stw_pbtxt_read((stw_str){text, (int64_t)(at - text)}, NULL, &graph, &error);
        CHECK_EQ_INT(status, distinct ? STW_ERROR_INPUT : STW_OK);
        if (distinct) {
            CHECK_CONTAINS(error.message, "ops wait for more than 2");
            CHECK_CONTAINS(error.message, "(Relu): with it, ops wait");
        } else if (graph != NULL) {
            CHECK_EQ_INT(graph->control_start[graph->N], (int64_t)readers * FEW);
        }
        stw_graph_destroy(graph);
    }
    free(text);
}
