/* import/input_shapes: what --shape may look like, and what it does to ONNX models and TensorFlow graphs. */
#include <stdio.h>
#include <string.h>

#include "import/import.h"
#include "support/onnx_model.h"
#include "test.h"

static void check_refused_text(const char *text, const char *message) {
    stw_arena arena;
    stw_read_options options;
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    test_context("%s", text);
    CHECK_EQ_INT(stw_read_options_parse(text, &arena, &options, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, message);
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

TEST(input_shapes, parsed) {
    stw_arena arena;
    stw_read_options o;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_read_options_parse(NULL, &arena, &o, NULL), STW_OK);
    CHECK_EQ_INT(o.given_count, 0);
    CHECK_EQ_INT(stw_read_options_parse("a=1,3;;b=c=2,77;batch=8;", &arena, &o, NULL), STW_OK);
    if (CHECK_EQ_INT(o.given_count, 3)) {
        CHECK(stw_str_is(o.given[0].name, "a") && o.given[0].rank == 2 && o.given[0].dim[1] == 3);
        CHECK(stw_str_is(o.given[1].name, "b=c") && o.given[1].dim[0] == 2 && o.given[1].dim[1] == 77);
        CHECK(stw_str_is(o.given[2].name, "batch") && o.given[2].rank == 1 && o.given[2].dim[0] == 8);
    }
    stw_arena_destroy(&arena);
    check_refused_text("a", "'a' is not NAME=1,3,224,224");
    check_refused_text("=3", "'=3' is not NAME=");
    check_refused_text("a=", "'' is not a size");
    check_refused_text("a=1,,2", "'' is not a size");
    check_refused_text("a=1,x", "'x' is not a size");
    check_refused_text("a=0", "'0' is not a size from 1 to 2^40");
    check_refused_text("a=-1", "'-1' is not a size");
    check_refused_text("a=1;b=2;a=3", "'a' stands twice");
    check_refused_text("a=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "more than 32 dimensions");
}

/* Two inputs with a common dimension, a product, and a shape that the file alone tells (of an operator without a rule). */
static stw_str make_model(stw_arena *arena) {
    stw_pb_writer w = {.arena = arena};
    onnx_value(&w, 11, "x", ONNX_FLOAT, "batch,16");
    onnx_value(&w, 11, "other", ONNX_FLOAT, "batch,n,16");
    onnx_value(&w, 11, "fixed", ONNX_FLOAT, "2,16");
    onnx_value(&w, 11, "free", ONNX_FLOAT, NULL);
    onnx_weights(&w, 5, "w", "16,4");
    onnx_node(&w, 1, "MatMul", "x w", "y", "");
    onnx_node(&w, 1, "Relu", "other", "o", "");
    onnx_node(&w, 1, "Relu", "fixed", "f", "");
    onnx_node(&w, 1, "Relu", "free", "e", "");
    onnx_node(&w, 1, "NoSuchOperator", "y", "u", "");
    onnx_value(&w, 12, "u", ONNX_FLOAT, "batch,later");
    return onnx_model(arena, (stw_str){w.data, w.length}, (stw_str){0});
}

typedef struct {
    stw_arena arena;
    stw_read_options options;
    stw_error error;
    stw_graph *graph;
} reading;

static stw_status read_shaped(reading *r, stw_str bytes, const char *shapes) {
    r->error = (stw_error){0};
    r->graph = NULL;
    CHECK_EQ_INT(stw_read_options_parse(shapes, &r->arena, &r->options, &r->error), STW_OK);
    return stw_graph_read(&(stw_graph_source){.bytes = bytes, .label = "m"}, &r->options, &r->graph, &r->error);
}

static void check_shape(const stw_graph *graph, const char *name, const char *shape) {
    char text[100] = "";
    size_t length = 0;
    int32_t i = 0;
    while (i < graph->N && !stw_str_is(graph->node_name[i], name)) i++;
    test_context("%s", name);
    if (CHECK(i < graph->N)) {
        for (int64_t k = graph->shape_start[i]; k < graph->shape_start[i + 1]; k++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%lld", length > 0 ? "," : "",
                                       (long long)graph->shape[k]);
        CHECK_STR(text, shape);
    }
    test_context("%s", "");
}

static void check_refused(reading *r, stw_str bytes, const char *shapes, const char *message) {
    test_context("%s", shapes);
    CHECK_EQ_INT(read_shaped(r, bytes, shapes), STW_ERROR_INPUT);
    CHECK_CONTAINS(r->error.message, message);
    CHECK(r->graph == NULL);
    test_context("%s", "");
}

TEST(input_shapes, of_an_onnx_model) {
    reading r;
    if (!CHECK_EQ_INT(stw_arena_create(&r.arena, NULL), STW_OK)) return;
    const stw_str model = make_model(&r.arena);
    if (CHECK_EQ_INT(read_shaped(&r, model, NULL), STW_OK)) {
        check_shape(r.graph, "y", "1,4");
        check_shape(r.graph, "o", "1,1,16");
        CHECK_EQ_INT(r.options.input_count, 4);
        CHECK(r.options.input[0].is_open && r.options.input[1].is_open && !r.options.input[2].is_open &&
              r.options.input[3].is_open);
        CHECK_STR(stw_input_text(&r.options.input[1], &r.arena).p, "batch,n,16");
        CHECK_STR(stw_input_text(&r.options.input[3], &r.arena).p, "?");
    }
    stw_graph_destroy(r.graph);
    if (CHECK_EQ_INT(read_shaped(&r, model, "batch=8"), STW_OK)) { /* everywhere */
        check_shape(r.graph, "x", "8,16");
        check_shape(r.graph, "y", "8,4");
        check_shape(r.graph, "o", "8,1,16");
        check_shape(r.graph, "u", "8,1");
        CHECK(!r.options.input[0].is_open && r.options.input[1].is_open);
    }
    stw_graph_destroy(r.graph);
    if (CHECK_EQ_INT(read_shaped(&r, model, "x=5,16;free=2,3"), STW_OK)) { /* the dimensions that x has are those of others too */
        check_shape(r.graph, "y", "5,4");
        check_shape(r.graph, "o", "5,1,16");
        check_shape(r.graph, "e", "2,3");
        CHECK(!r.options.input[0].is_open && r.options.input[1].is_open && !r.options.input[3].is_open);
    }
    stw_graph_destroy(r.graph);
    if (CHECK_EQ_INT(read_shaped(&r, model, "fixed=7,16;later=9"), STW_OK)) { /* stated sizes give way */
        check_shape(r.graph, "f", "7,16");
        check_shape(r.graph, "u", "1,9");
    }
    stw_graph_destroy(r.graph);
    check_refused(&r, model, "nosuch=1,2",
                  "m: --shape: there is no input 'nosuch'; open inputs: x (batch,16), other (batch,n,16), free (?); open "
                  "dimensions: batch, n");
    check_refused(&r, model, "nosuch=1", "there is no input and no dimension 'nosuch'");
    check_refused(&r, model, "w=16,8", "there is no input 'w'"); /* a weight */
    check_refused(&r, model, "x=1,2,3", "input 'x' has 2 dimensions (batch,16), but 3 are given");
    check_refused(&r, model, "x=2,16;other=3,4,16", "'other' makes dimension 'batch' 3, but elsewhere it is 2");
    check_refused(&r, model, "batch=4;x=2,16", "'x' makes dimension 'batch' 2, but elsewhere it is 4");
    stw_arena_destroy(&r.arena);
}

static const char tensorflow[] =
    "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }"
    " attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 16 } } } } }"
    "node { name: 'f' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }"
    " attr { key: 'shape' value { shape { dim { size: 2 } } } } }"
    "node { name: 'y' op: 'Relu' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }"
    "node { name: 'g' op: 'Relu' input: 'f' attr { key: 'T' value { type: DT_FLOAT } }"
    " attr { key: '_output_shapes' value { list { shape { dim { size: 2 } } } } } }";

TEST(input_shapes, of_a_tensorflow_graph) {
    reading r;
    if (!CHECK_EQ_INT(stw_arena_create(&r.arena, NULL), STW_OK)) return;
    const stw_str text = STW_STR(tensorflow);
    if (CHECK_EQ_INT(read_shaped(&r, text, NULL), STW_OK)) {
        check_shape(r.graph, "y", "1,16");
        CHECK(r.options.input_count == 2 && r.options.input[0].is_open && !r.options.input[1].is_open);
    }
    stw_graph_destroy(r.graph);
    if (CHECK_EQ_INT(read_shaped(&r, text, "x=32,16"), STW_OK)) {
        check_shape(r.graph, "x", "32,16");
        check_shape(r.graph, "y", "32,16");
        check_shape(r.graph, "g", "2");
        CHECK(!r.options.input[0].is_open);
    }
    stw_graph_destroy(r.graph);
    if (CHECK_EQ_INT(read_shaped(&r, text, "x:0=4,16;f=6"),
                     STW_OK)) { /* by output; and what the file states further on gives way */
        check_shape(r.graph, "y", "4,16");
        check_shape(r.graph, "g", "6");
    }
    stw_graph_destroy(r.graph);
    check_refused(&r, text, "x=1", "input 'x' has 2 dimensions (?,16), but 1 are given");
    check_refused(&r, text, "y=1,2", "there is no input 'y'; open inputs: x (?,16)");
    stw_arena_destroy(&r.arena);
}

TEST(input_shapes, fixed_formats) {
    reading r;
    if (!CHECK_EQ_INT(stw_arena_create(&r.arena, NULL), STW_OK)) return;
    check_refused(&r, STW_STR("HloModule m\nENTRY e {\n a = f32[] parameter(0)\n}\n"), "a=1",
                  "in this format every shape is fixed");
    check_refused(&r, STW_STR("{\"format\": \"opgraph\", \"version\": 1, \"nodes\": []}"), "a=1",
                  "in this format every shape is fixed");
    stw_arena_destroy(&r.arena);
}

TEST(input_shapes, through_the_library) {
    stw_arena arena;
    stw_options *options = NULL;
    stw_graph *graph = NULL;
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    const stw_str model = make_model(&arena);
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "shape", "batch=3", &error), STW_OK);
    if (CHECK_EQ_INT(stw_graph_parse(model.p, (size_t)model.length, "m", options, &graph, &error), STW_OK)) {
        check_shape(graph, "y", "3,4");
    }
    stw_graph_destroy(graph);
    CHECK_EQ_INT(stw_graph_parse(model.p, (size_t)model.length, "m", NULL, &graph, &error), STW_OK);
    stw_graph_destroy(graph);
    CHECK_EQ_INT(stw_options_set(options, "shape", "batch", &error), STW_OK);
    CHECK_EQ_INT(stw_graph_parse(model.p, (size_t)model.length, "m", options, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "'batch' is not NAME=");
    stw_options_destroy(options);
    stw_arena_destroy(&arena);
}
