/* import/onnx: hand-made models with the graphs that they must become, what is refused with which words, every truncation, and
 * the real models where they are: in shared/external/onnx beside the source tree, or where STOWAGE_ONNX says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "import/import.h"
#include "support/onnx_model.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_pb_writer graph, functions; /* fields of the GraphProto and of the ModelProto */
    stw_error error;
    stw_graph *out;
} fixture;

static void begin(fixture *f) {
    *f = (fixture){0};
    CHECK_EQ_INT(stw_arena_create(&f->arena, NULL), STW_OK);
    f->graph.arena = f->functions.arena = &f->arena;
}

static stw_str model_of(fixture *f) {
    return onnx_model(&f->arena, (stw_str){f->graph.data, f->graph.length}, (stw_str){f->functions.data, f->functions.length});
}

static bool read(fixture *f) {
    const stw_str bytes = model_of(f);
    CHECK(stw_onnx_is(bytes));
    const stw_status status = stw_graph_parse(bytes.p, (size_t)bytes.length, "m.onnx", NULL, &f->out, &f->error);
    CHECK_STR(f->error.message, "");
    return CHECK_EQ_INT(status, STW_OK);
}

static void end(fixture *f) {
    stw_graph_destroy(f->out);
    stw_arena_destroy(&f->arena);
}

static int32_t find(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_str_is(graph->node_name[i], name)) return i;
    }
    test_context("%s", name);
    CHECK_STR("no such node", name);
    test_context("%s", "");
    return 0;
}

static bool has(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_str_is(graph->node_name[i], name)) return true;
    }
    return false;
}

/* Node `name` has this shape, as "1,64,112,112", and these FLOPs unless below 0. */
static void check_node(const stw_graph *graph, const char *name, const char *shape, int64_t flops) {
    const int32_t i = find(graph, name);
    char text[200] = "";
    for (int64_t k = graph->shape_start[i]; k < graph->shape_start[i + 1]; k++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%lld", length > 0 ? "," : "", (long long)graph->shape[k]);
    }
    test_context("%s", name);
    CHECK_STR(text, shape);
    if (flops >= 0) CHECK_EQ_INT(graph->flops[i], flops);
    test_context("%s", "");
}

TEST(onnx, a_convolution_net) {
    fixture f;
    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "2,3,8,8");
    onnx_weights(&f.graph, 5, "block.0.weight", "4,3,3,3");
    onnx_weights(&f.graph, 5, "bias", "4");
    onnx_weights(&f.graph, 5, "fc", "10,64");
    onnx_node(&f.graph, 1, "Conv", "x block.0.weight bias", "c", "pads=1,1,1,1 strides=1,1");
    onnx_node(&f.graph, 1, "Relu", "c", "r", "");
    onnx_node(&f.graph, 1, "MaxPool", "r", "p", "kernel_shape=2,2 strides=2,2");
    onnx_node(&f.graph, 1, "Flatten", "p", "flat", "");
    onnx_node(&f.graph, 1, "Gemm", "flat fc -", "y", "transB=1");
    onnx_node(&f.graph, 1, "Dropout", "y", "d mask", "");
    onnx_node(&f.graph, 1, "Softmax", "d", "s", "");
    onnx_value(&f.graph, 12, "s", ONNX_FLOAT, NULL);
    if (read(&f)) {
        check_node(f.out, "c", "2,4,8,8", 512 * 2 * 27 + 512);
        check_node(f.out, "r", "2,4,8,8", 512);
        check_node(f.out, "p", "2,4,4,4", 128 * 4);
        check_node(f.out, "flat", "2,64", 0);
        check_node(f.out, "y", "2,10", 2 * 20 * 64);
        check_node(f.out, "s", "2,10", 100);
        CHECK_EQ_INT(f.out->op_count, 5); /* Flatten and Dropout are views */
        CHECK_EQ_INT(f.out->kind[find(f.out, "flat")], STW_NODE_VIEW);
        CHECK_EQ_INT(f.out->kind[find(f.out, "d")], STW_NODE_VIEW);
        const int32_t w = find(f.out, "block.0.weight");
        CHECK_EQ_INT(f.out->kind[w], STW_NODE_PARAMETER);
        CHECK_STR(f.out->label[w].p, "block.0.weight");
        CHECK_EQ_INT(f.out->bytes[w], 4 * 108);
        CHECK_EQ_INT(f.out->kind[find(f.out, "x")], STW_NODE_INPUT);
        CHECK_STR(f.out->attributes[find(f.out, "c")].p, "{\"pads\":[1,1,1,1],\"strides\":[1,1]}");
        CHECK_EQ_INT(f.out->output_count, 1);
        CHECK_EQ_INT(f.out->output[0], find(f.out, "s"));
    }
    end(&f);
}

/* What only computes a shape is worked out and leaves the graph; open dimensions count as 1. */
TEST(onnx, shape_arithmetic_is_folded) {
    fixture f;
    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "batch,6,4");
    onnx_numbers(&f.graph, 5, "zero", (const int64_t[]){0}, 1);
    onnx_numbers(&f.graph, 5, "rest", (const int64_t[]){-1}, 1);
    onnx_numbers(&f.graph, 5, "two", (const int64_t[]){2}, 1);
    onnx_node(&f.graph, 1, "Shape", "x", "shape", "");
    onnx_node(&f.graph, 1, "Gather", "shape zero", "batch", "axis=0");
    onnx_node(&f.graph, 1, "Mul", "batch two", "twice", "");
    onnx_node(&f.graph, 1, "Concat", "twice rest two", "to", "axis=0");
    onnx_node(&f.graph, 1, "Reshape", "x to", "y", "");
    onnx_node(&f.graph, 1, "ConstantOfShape", "to2", "w", "");
    onnx_numbers(&f.graph, 5, "to2", (const int64_t[]){2, 6, 7}, 3);
    onnx_node(&f.graph, 1, "MatMul", "yt w", "m", "");
    onnx_node(&f.graph, 1, "Transpose", "y", "yt", "perm=0,2,1"); /* after its reader */
    onnx_value(&f.graph, 12, "m", ONNX_FLOAT, NULL);
    if (read(&f)) {
        check_node(f.out, "y", "2,6,2", 0);
        check_node(f.out, "yt", "2,2,6", 0);
        check_node(f.out, "m", "2,2,7", 2 * 28 * 6);
        CHECK_EQ_INT(f.out->kind[find(f.out, "w")], STW_NODE_PARAMETER);
        CHECK_EQ_INT(f.out->op_count, 2);
        CHECK(!has(f.out, "shape") && !has(f.out, "batch") && !has(f.out, "to") && !has(f.out, "zero"));
    }
    end(&f);
}

TEST(onnx, several_outputs_are_parts) {
    fixture f;
    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "6,5");
    onnx_numbers(&f.graph, 5, "sizes", (const int64_t[]){1, 2, 3}, 3);
    onnx_node(&f.graph, 1, "Split", "x sizes", "a b c", "");
    onnx_node(&f.graph, 1, "Add", "c c", "d", "");
    onnx_node(&f.graph, 1, "NoSuchOperator", "a d", "e", "");
    onnx_value(&f.graph, 12, "e", ONNX_FLOAT, NULL);
    onnx_value(&f.graph, 12, "a", ONNX_FLOAT, NULL);
    if (read(&f)) { /* a and c are read, b is not */
        const stw_graph *g = f.out;
        int32_t split = 0;
        while (split < g->N && !stw_str_is(g->op_name[split], "Split")) split++;
        CHECK_EQ_INT(g->bytes[split], 4 * 5 * (1 + 3));
        int32_t c = -1;
        for (int32_t i = 0; i < g->N; i++) {
            if (stw_str_is(g->node_name[i], "c")) c = i;
        }
        if (CHECK(c >= 0)) {
            CHECK_EQ_INT(g->kind[c], STW_NODE_VIEW);
            CHECK_EQ_INT(g->root[c], split);
            CHECK_EQ_INT(g->bytes[c], 60);
        }
        CHECK(!has(g, "b"));
        CHECK(!g->known[find(g, "e")]);
        CHECK_EQ_INT(g->dtype[find(g, "e")], STW_DTYPE_F32); /* declared, without a shape */
    }
    end(&f);
}

static stw_str body_attribute(fixture *f, const char *name, const stw_pb_writer *graph) {
    stw_pb_writer w = {.arena = &f->arena};
    const int64_t begun = stw_pb_begin(&w, 5);
    stw_pb_write_string(&w, 1, stw_str_of(name));
    stw_pb_write_string(&w, 6, (stw_str){graph->data, graph->length});
    stw_pb_write_int(&w, 20, 5);
    stw_pb_end(&w, begun);
    return (stw_str){w.data, w.length};
}

/* A loop of seven turns whose body multiplies (4, 4) by (4, 4) from outside. */
TEST(onnx, a_loop_costs_its_turns) {
    fixture f;
    begin(&f);
    stw_pb_writer body = {.arena = &f.arena};
    onnx_value(&body, 11, "turn", ONNX_INT64, "");
    onnx_value(&body, 11, "go", ONNX_BOOL, "");
    onnx_value(&body, 11, "state", ONNX_FLOAT, NULL);
    onnx_node(&body, 1, "MatMul", "state w", "next", "");
    onnx_node(&body, 1, "Identity", "go", "on", "");
    onnx_value(&body, 12, "on", ONNX_BOOL, NULL);
    onnx_value(&body, 12, "next", ONNX_FLOAT, NULL);
    onnx_value(&body, 12, "next", ONNX_FLOAT, NULL); /* once more, as scan output */
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "4,4");
    onnx_weights(&f.graph, 5, "w", "4,4");
    onnx_numbers(&f.graph, 5, "turns", (const int64_t[]){7}, 1);
    onnx_node_with(&f.graph, 1, "Loop", "turns - x", "last all", body_attribute(&f, "body", &body));
    onnx_node(&f.graph, 1, "Relu", "all", "y", "");
    onnx_value(&f.graph, 12, "y", ONNX_FLOAT, NULL);
    onnx_value(&f.graph, 12, "last", ONNX_FLOAT, NULL);
    if (read(&f)) {
        const stw_graph *g = f.out;
        check_node(g, "y", "7,4,4", 112);
        int32_t loop = 0;
        while (loop < g->N && !stw_str_is(g->op_name[loop], "Loop")) loop++;
        CHECK_EQ_INT(g->flops[loop], 7 * 2 * 64);
        CHECK_EQ_INT(stw_graph_moved(g, loop), 7 * 3 * 64);
        CHECK_EQ_INT(g->op_class[loop], STW_CLASS_CONTROL);
        if (CHECK(g->apart[loop] != NULL)) CHECK_CONTAINS(g->apart[loop], "is control flow"); /* no kernel has it with others */
        CHECK(g->apart[find(g, "y")] == NULL);
        bool reads_w = false; /* through its body */
        for (int64_t k = g->input_start[loop]; k < g->input_start[loop + 1]; k++) reads_w |= g->input[k] == find(g, "w");
        CHECK(reads_w);
    }
    end(&f);
}

TEST(onnx, of_two_branches_the_dearer) {
    fixture f;
    begin(&f);
    stw_pb_writer a = {.arena = &f.arena}, b = {.arena = &f.arena}, both = {.arena = &f.arena};
    onnx_node(&a, 1, "Relu", "x", "ya", "");
    onnx_value(&a, 12, "ya", ONNX_FLOAT, NULL);
    onnx_node(&b, 1, "MatMul", "x x", "yb", "");
    onnx_value(&b, 12, "yb", ONNX_FLOAT, NULL);
    stw_pb_write_raw(&both, body_attribute(&f, "then_branch", &a));
    stw_pb_write_raw(&both, body_attribute(&f, "else_branch", &b));
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "8,8");
    onnx_value(&f.graph, 11, "which", ONNX_BOOL, "");
    onnx_node_with(&f.graph, 1, "If", "which", "y", (stw_str){both.data, both.length});
    onnx_value(&f.graph, 12, "y", ONNX_FLOAT, NULL);
    if (read(&f)) {
        check_node(f.out, "y", "8,8", 2 * 512);
        const int32_t y = find(f.out, "y");
        CHECK_EQ_INT(f.out->input_start[y + 1] - f.out->input_start[y], 2); /* the condition, and x once */
    }
    end(&f);
}

static void write_function(stw_pb_writer *w, const char *name, const char *calls) {
    const int64_t begun = stw_pb_begin(w, 25);
    stw_pb_write_string(w, 1, stw_str_of(name));
    stw_pb_write_string(w, 4, STW_STR("a"));
    stw_pb_write_string(w, 5, STW_STR("c"));
    onnx_node(w, 7, calls, "a", "b", "");
    onnx_node(w, 7, calls, "b", "c", "");
    stw_pb_write_string(w, 10, STW_STR("own"));
    stw_pb_end(w, begun);
}

static void call_in_domain(stw_pb_writer *w, int64_t number, const char *op) {
    const int64_t begun = stw_pb_begin(w, number);
    stw_pb_write_string(w, 1, STW_STR("x"));
    stw_pb_write_string(w, 2, STW_STR("y"));
    stw_pb_write_string(w, 4, stw_str_of(op));
    stw_pb_write_string(w, 7, STW_STR("own"));
    stw_pb_end(w, begun);
}

TEST(onnx, a_function_costs_its_body) {
    fixture f;
    begin(&f);
    write_function(&f.functions, "Twice", "Relu");
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "10");
    call_in_domain(&f.graph, 1, "Twice");
    onnx_value(&f.graph, 12, "y", ONNX_FLOAT, NULL);
    if (read(&f)) {
        check_node(f.out, "y", "10", 20);
        CHECK_EQ_INT(stw_graph_moved(f.out, find(f.out, "y")), 160);
        CHECK(f.out->known[find(f.out, "y")]);
    }
    end(&f);
}

TEST(onnx, a_weight_is_an_input_with_a_gradient) {
    fixture f;
    begin(&f);
    onnx_value(&f.graph, 11, "w", ONNX_FLOAT, "3");
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    onnx_node(&f.graph, 1, "Mul", "w x", "w_grad", "");
    onnx_value(&f.graph, 12, "w_grad", ONNX_FLOAT, "3");
    if (read(&f)) {
        CHECK_EQ_INT(f.out->kind[find(f.out, "w")], STW_NODE_PARAMETER);
        CHECK_EQ_INT(f.out->kind[find(f.out, "x")], STW_NODE_INPUT);
    }
    end(&f);
}

/* ---- refusals ---- */

static void check_refused(fixture *f, const char *says) {
    const stw_str bytes = model_of(f);
    f->out = (stw_graph *)1;
    CHECK_EQ_INT(stw_graph_parse(bytes.p, (size_t)bytes.length, "m.onnx", NULL, &f->out, &f->error), STW_ERROR_INPUT);
    CHECK(f->out == NULL);
    CHECK(strncmp(f->error.message, "m.onnx: byte ", 13) == 0);
    CHECK(strchr(f->error.message, '\n') == NULL);
    CHECK_CONTAINS(f->error.message, says);
    end(f);
}

TEST(onnx, refusals) {
    fixture f;
    begin(&f);
    onnx_node(&f.graph, 1, "Relu", "absent", "y", "");
    check_refused(
        &f, "node 'y' (Relu): its input 'absent' is written by no node and is no input or initializer; give the whole model");

    begin(&f);
    onnx_node(&f.graph, 1, "Relu", "b", "a", "");
    onnx_node(&f.graph, 1, "Relu", "a", "b", "");
    check_refused(&f, "(Relu): it depends on itself: its inputs close a cycle; a loop must be a Loop or Scan");

    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    onnx_node(&f.graph, 1, "Relu", "x", "y", "");
    onnx_node(&f.graph, 1, "Tanh", "x", "y", "");
    check_refused(&f, "(Tanh): its output 'y' exists already");

    begin(&f);
    onnx_weights(&f.graph, 5, "w", "3");
    onnx_weights(&f.graph, 5, "w", "3");
    check_refused(&f, "initializer 'w' stands twice");

    begin(&f);
    onnx_value(&f.graph, 12, "y", ONNX_FLOAT, "3");
    check_refused(&f, "output 'y' of the graph is written by no node; give the whole model");

    begin(&f);
    onnx_weights(&f.graph, 5, "w", "3,-4");
    check_refused(&f, "dimension 1 of tensor 'w' is -4; ");

    begin(&f); /* in an attribute it has no name of its own */
    stw_pb_writer value = {.arena = &f.arena};
    const int64_t attribute = stw_pb_begin(&value, 5);
    stw_pb_write_string(&value, 1, STW_STR("value"));
    onnx_weights(&value, 5, "", "-2,3");
    stw_pb_end(&value, attribute);
    onnx_node_with(&f.graph, 1, "Constant", "", "c", (stw_str){value.data, value.length});
    check_refused(&f, "dimension 0 of tensor '");

    begin(&f);
    onnx_weights(&f.graph, 5, "w", "3,9000000000000000000");
    check_refused(&f, "one above 2^40");

    begin(&f);
    onnx_node(&f.graph, 1, "", "", "y", "");
    check_refused(&f, "has no operator");

    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "1000000000000,1000000000000");
    check_refused(&f, ": input 'x': its shape holds more than 2^63 bytes; check its dimensions");

    begin(&f);
    onnx_weights(&f.graph, 5, "w", "1000000000000,1000000000000");
    onnx_node(&f.graph, 1, "Relu", "w", "y", "");
    check_refused(&f, ": parameter 'w': its shape holds more than 2^63 bytes");

    begin(&f);
    write_function(&f.functions, "Twice", "Relu");
    write_function(&f.functions, "Twice", "Tanh");
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    call_in_domain(&f.graph, 1, "Twice");
    check_refused(&f, "function 'Twice' of domain 'own' stands twice");

    begin(&f);
    stw_pb_writer body = {.arena = &f.arena};
    onnx_node(&body, 1, "Relu", "late", "b", "");
    onnx_value(&body, 12, "b", ONNX_FLOAT, NULL);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    onnx_node_with(&f.graph, 1, "If", "x", "y", body_attribute(&f, "then_branch", &body));
    onnx_node(&f.graph, 1, "Relu", "x", "late", "");
    check_refused(&f, "(If): its body reads 'late', which is written only later");
}

/* Shapes that cannot be multiplied are refused where the file leaves no doubt of them. */
TEST(onnx, products_that_do_not_fit) {
    static const struct {
        const char *op, *attributes, *left, *right, *says; /* NULL: taken, and the product is not known */
    } cases[] = {
        {"MatMul", "", "4,4", "3,4",
         "node 'y' (MatMul): 'r' (4,4) and 'w' (3,4) cannot be multiplied; check the model or --shape"},
        {"MatMul", "", "2,4,4", "3,4,4", "node 'y' (MatMul): 'r' (2,4,4) and 'w' (3,4,4) cannot be multiplied"},
        {"MatMul", "", "5", "4,4", "'r' (5) and 'w' (4,4)"},
        {"Gemm", "", "4,4", "3,4", "node 'y' (Gemm): 'r' (4,4) and 'w' (3,4) cannot be multiplied"},
        {"Gemm", "transB=1", "4,3", "3,4", "'r' (4,3) and 'w' (3,4)"},
        {"MatMulInteger", "", "4,4", "3,4", "node 'y' (MatMulInteger): "},
        {"MatMul", "", "4,n", "3,4", NULL}, /* n counts as 1, which proves nothing */
        {"Gemm", "", "n,4", "3,4", NULL},
        {"FusedMatMul", "domain", "4,4", "3,4", NULL}, /* somebody's own operator */
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const bool own = strcmp(cases[k].attributes, "domain") == 0;
        fixture f;
        begin(&f);
        test_context("case %zu", k);
        onnx_value(&f.graph, 11, "x", ONNX_FLOAT, cases[k].left);
        onnx_weights(&f.graph, 5, "w", cases[k].right);
        onnx_node(&f.graph, 1, "Relu", "x", "r", ""); /* by its rule as good as stated */
        stw_pb_writer more = {.arena = &f.arena};
        if (own) stw_pb_write_string(&more, 7, STW_STR("com.microsoft"));
        if (!own && cases[k].attributes[0] != '\0') onnx_attribute(&more, cases[k].attributes);
        onnx_node_with(&f.graph, 1, cases[k].op, "r w", "y", (stw_str){more.data, more.length});
        onnx_value(&f.graph, 12, "y", ONNX_FLOAT, NULL);
        if (cases[k].says != NULL) {
            check_refused(&f, cases[k].says);
            continue;
        }
        if (read(&f)) {
            const int32_t y = find(f.out, "y");
            CHECK_EQ_INT(f.out->flops[y], 0);
            CHECK_EQ_INT(f.out->bytes[y], 0);
        }
        end(&f);
    }
    test_context("%s", "");
}

/* What data decides, and what the file declares otherwise, is no proof. */
TEST(onnx, products_of_uncertain_shapes_are_taken) {
    fixture f;
    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "4,4");
    onnx_weights(&f.graph, 5, "w", "3,4");
    onnx_node(&f.graph, 1, "NonZero", "x", "some", "");
    onnx_node(&f.graph, 1, "MatMul", "some w", "y", "");
    onnx_value(&f.graph, 13, "r", ONNX_FLOAT, "4,3");
    onnx_node(&f.graph, 1, "Relu", "x", "r", "");
    onnx_node(&f.graph, 1, "MatMul", "r w", "z", "");
    read(&f);
    end(&f);
}

/* Functions that call each other twice double the work with every level; and one that calls itself never ends. */
TEST(onnx, bombs) {
    fixture f;
    char name[20], calls[20];
    begin(&f);
    for (int k = 0; k < 60; k++) {
        snprintf(name, sizeof name, "F%d", k);
        snprintf(calls, sizeof calls, "F%d", k + 1);
        const int64_t begun = stw_pb_begin(&f.functions, 25);
        stw_pb_write_string(&f.functions, 1, stw_str_of(name));
        stw_pb_write_string(&f.functions, 10, STW_STR("own"));
        stw_pb_write_string(&f.functions, 4, STW_STR("x"));
        stw_pb_write_string(&f.functions, 5, STW_STR("y"));
        call_in_domain(&f.functions, 7, calls);
        const int64_t second = stw_pb_begin(&f.functions, 7);
        stw_pb_write_string(&f.functions, 1, STW_STR("x"));
        stw_pb_write_string(&f.functions, 4, stw_str_of(calls));
        stw_pb_write_string(&f.functions, 7, STW_STR("own"));
        stw_pb_end(&f.functions, second);
        stw_pb_end(&f.functions, begun);
    }
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    call_in_domain(&f.graph, 1, "F0");
    check_refused(
        &f, "node 'y' (F0): what it runs, and the nodes before it, come to millions of nodes when every call is written out");

    begin(&f);
    const int64_t begun = stw_pb_begin(&f.functions, 25);
    stw_pb_write_string(&f.functions, 1, STW_STR("F"));
    stw_pb_write_string(&f.functions, 10, STW_STR("own"));
    stw_pb_write_string(&f.functions, 4, STW_STR("x"));
    call_in_domain(&f.functions, 7, "F");
    stw_pb_end(&f.functions, begun);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    call_in_domain(&f.graph, 1, "F");
    check_refused(&f, "does a function call itself?");

    begin(&f); /* few nodes, but one of them long */
    const int64_t wide = stw_pb_begin(&f.functions, 25);
    stw_pb_write_string(&f.functions, 1, STW_STR("F0"));
    stw_pb_write_string(&f.functions, 10, STW_STR("own"));
    const int64_t node = stw_pb_begin(&f.functions, 7);
    stw_pb_write_string(&f.functions, 4, STW_STR("Foo"));
    for (int k = 0; k < 100000; k++) stw_pb_write_string(&f.functions, 2, STW_STR(""));
    stw_pb_end(&f.functions, node);
    stw_pb_end(&f.functions, wide);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "3");
    for (int k = 0; k < 1000; k++) {
        const int64_t call = stw_pb_begin(&f.graph, 1);
        stw_pb_write_string(&f.graph, 4, STW_STR("F0"));
        stw_pb_write_string(&f.graph, 7, STW_STR("own"));
        stw_pb_end(&f.graph, call);
    }
    check_refused(&f, "(F0): what it runs, and the nodes before it, come to millions of nodes");

    begin(&f); /* bodies within bodies: the message runs out of levels first */
    stw_pb_writer body = {.arena = &f.arena};
    for (int k = 0; k < 70; k++) {
        stw_pb_writer outer = {.arena = &f.arena};
        onnx_node_with(&outer, 1, "If", "", "y", body_attribute(&f, "then_branch", &body));
        body = outer;
    }
    f.graph = body;
    check_refused(&f, "node 'y' (If): its body is nested too deep: 31 bodies stand around it");
}

/* Backwards a slice begins within the dimension, however far outside its start is, and may end before its first element. */
TEST(onnx, slices_backwards) {
    static const struct {
        int64_t start, end, step;
        const char *shape;
    } cases[] = {{-1, INT64_MIN, -1, "5"}, {100, -100, -1, "5"}, {3, 0, -2, "2"},  {-100, INT64_MIN, -1, "1"},
                 {0, -1, -1, "0"},         {4, 4, -1, "0"},      {1, -6, -1, "2"}, {-1, -4, -2, "2"},
                 {1, 100, 2, "2"},         {-100, 100, 3, "2"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fixture f;
        begin(&f);
        onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "5");
        onnx_numbers(&f.graph, 5, "start", &cases[k].start, 1);
        onnx_numbers(&f.graph, 5, "end", &cases[k].end, 1);
        onnx_numbers(&f.graph, 5, "axis", (const int64_t[]){0}, 1);
        onnx_numbers(&f.graph, 5, "step", &cases[k].step, 1);
        onnx_node(&f.graph, 1, "Slice", "x start end axis step", "y", "");
        onnx_value(&f.graph, 12, "y", ONNX_FLOAT, NULL);
        test_context("case %zu", k);
        if (read(&f)) check_node(f.out, "y", cases[k].shape, -1);
        end(&f);
    }
    test_context("%s", "");
}

TEST(onnx, every_truncation) {
    fixture f;
    begin(&f);
    onnx_value(&f.graph, 11, "x", ONNX_FLOAT, "2,3,8,8");
    onnx_weights(&f.graph, 5, "w", "4,3,3,3");
    onnx_numbers(&f.graph, 5, "to", (const int64_t[]){2, -1}, 2);
    onnx_node(&f.graph, 1, "Conv", "x w", "c", "pads=1,1,1,1");
    onnx_node(&f.graph, 1, "Reshape", "c to", "y", "");
    onnx_value(&f.graph, 12, "y", ONNX_FLOAT, "2,n");
    const stw_str bytes = model_of(&f);
    int refused = 0;
    for (int64_t length = 0; length < bytes.length; length++) {
        char *cut = malloc(length > 0 ? (size_t)length : 1);
        memcpy(cut, bytes.p, (size_t)length);
        stw_graph *graph = NULL;
        stw_error error = {0};
        const bool failed = stw_onnx_read((stw_str){cut, length}, NULL, &graph, &error) != STW_OK;
        CHECK(failed == (error.message[0] != '\0'));
        refused += failed;
        stw_graph_destroy(graph);
        free(cut);
    }
    CHECK_EQ_INT(refused, bytes.length - 1); /* without its opsets the model is whole */
    end(&f);
}

TEST(onnx, other_files_are_not_models) {
    CHECK(!stw_onnx_is((stw_str){"", 0}));
    CHECK(!stw_onnx_is(STW_STR("{\"format\":\"opgraph\"}")));
    CHECK(!stw_onnx_is(STW_STR("HloModule jit_f")));
    CHECK(!stw_onnx_is(STW_STR("\x0a\x04node")));
    CHECK(
        !stw_onnx_is(STW_STR("\x08\x00\x12\x01"
                             "a")));
    CHECK(
        stw_onnx_is(STW_STR("\x08\x07\x12\x01"
                            "a")));
}

/* ---- real models ---- */

/* FLOPs within 2 % of what is published (multiply-adds doubled); AlexNet is counted for the file's 224 x 224 input. */
TEST(onnx, real_models) {
    static const struct {
        const char *file;
        double flops; /* below 0: not compared */
    } cases[] = {
        {"light_resnet50.onnx", 8.2e9},
        {"light_densenet121.onnx", 5.74e9},
        {"light_squeezenet.onnx", 0.70e9},
        {"light_bvlc_alexnet.onnx", 1.31e9},
        {"light_inception_v1.onnx", -1.0},
        {"ort_bert_toy_optimized.onnx", -1.0},
        {"ort_TFBertForQuestionAnswering.onnx", -1.0},
        {"ort_3layer_bloom_optimized_training.onnx", -1.0},
    };
    const char *given = getenv("STOWAGE_ONNX");
    const char *folder = given != NULL ? given : STW_SOURCE_DIR "/../shared/external/onnx";
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char path[2000];
        snprintf(path, sizeof path, "%s/%s", folder, cases[k].file);
        FILE *there = fopen(path, "rb");
        if (there == NULL) SKIP("the real models are not there; STOWAGE_ONNX names their folder");
        fclose(there);
        stw_error error = {0};
        stw_graph *graph = NULL;
        test_context("%s", cases[k].file);
        if (!CHECK_EQ_INT(stw_graph_open(path, NULL, &graph, &error), STW_OK)) continue;
        double flops = 0.0;
        int32_t without = 0;
        for (int32_t i = 0; i < graph->N; i++) {
            flops += (double)graph->flops[i];
            without += graph->kind[i] == STW_NODE_OP && graph->dtype[i] == STW_DTYPE_NONE;
        }
        if (cases[k].flops > 0.0) CHECK_NEAR(flops, cases[k].flops, 0.02 * cases[k].flops);
        CHECK_EQ_INT(without, 0);
        stw_graph_destroy(graph);
    }
}
