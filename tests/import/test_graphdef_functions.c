/* import/graphdef: nodes that run functions (loops, branches, calls), as TensorFlow 2.21 wrote them and by hand. What they cost
 * is in tests/cost/test_bodies.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graphdef_text.h"

#define ATTR(key, value) " attr { key: '" key "' value { " value " } }"
#define RUNS(key, name)  ATTR(key, "func { name: '" name "' }")
#define FLOAT(key)       ATTR(key, "type: DT_FLOAT")
#define NUMBER(value) \
    ATTR("dtype", "type: DT_INT32") ATTR("value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: " value " }")
#define INPUT(name, shape) "node { name: '" name "' op: 'Placeholder'" FLOAT("dtype") ATTR("shape", "shape { " shape " }") " }\n"
#define X                  INPUT("x", "dim { size: 8 } dim { size: 16 }")
#define W                  INPUT("w", "dim { size: 16 } dim { size: 16 }")
/* A function from a to b that is one op. */
#define FUNCTION(name, op)                                                               \
    "function { signature { name: '" name                                                \
    "' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'b' type: DT_FLOAT } }" \
    " node_def { name: 'n' op: '" op "' input: 'a' } ret { key: 'b' value: 'n:y:0' } }\n"

static int32_t find(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; graph != NULL && i < graph->N; i++) {
        if (strcmp(graph->node_name[i].p, name) == 0) return i;
    }
    return -1;
}

/* The work of a node, and that it stands by itself with kernels inside. */
static void check_work(const stw_graph *graph, const char *name, int64_t flops) {
    const int32_t i = find(graph, name);
    test_context("%s", name);
    if (CHECK(i >= 0)) {
        CHECK_EQ_INT(graph->flops[i], flops);
        CHECK(graph->apart[i] != NULL && graph->body_of[i] >= 0 && graph->known[i]);
        CHECK_EQ_INT(graph->op_class[i], STW_CLASS_CONTROL);
    }
    test_context("%s", "");
}

static void check_extents(const stw_graph *graph, const char *name, int64_t rows, int64_t columns) {
    const int32_t i = find(graph, name);
    test_context("%s", name);
    if (CHECK(i >= 0) && CHECK_EQ_INT(graph->shape_start[i + 1] - graph->shape_start[i], 2)) {
        CHECK_EQ_INT(graph->shape[graph->shape_start[i]], rows);
        CHECK_EQ_INT(graph->shape[graph->shape_start[i] + 1], columns);
    }
    test_context("%s", "");
}

/* Calls, a loop and its derivative, branches, a map and a function with several outputs; nothing but inputs states a shape. */
TEST(functions, as_tensorflow_writes_them) {
    enum { PRODUCT = 2 * 8 * 16 * 16, TANH = 8 * 16, COUNT = 3 }; /* of a turn: two counters and a comparison */
    stw_arena arena;
    stw_str bytes = {0};
    stw_graph *g = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_file_read(STW_SOURCE_DIR "/tests/import/data/tf_functions.pb", &arena, &bytes, NULL), STW_OK);
    if (CHECK_EQ_INT(stw_graphdef_read(bytes, NULL, &g, NULL), STW_OK)) {
        CHECK_EQ_INT(g->open_loops, 0);
        check_work(g, "PartitionedCall", PRODUCT + TANH);
        check_work(g, "PartitionedCall_1", PRODUCT + TANH);
        check_work(g, "cond", PRODUCT + TANH);
        check_work(g, "switch_case/indexed_case", 2 * PRODUCT + TANH);
        check_work(g, "while", 12 * (PRODUCT + TANH + COUNT));
        check_extents(g, "PartitionedCall_2:0", 8, 8);
        check_extents(g, "PartitionedCall_2:1", 8, 3);
    }
    stw_graph_destroy(g);
    stw_arena_destroy(&arena);
}

TEST(functions, an_op_that_is_a_function) {
    stw_graph *g = take_text(X
                             "node { name: 'y' op: 'activate' input: 'x' }\n"
                             "library { " FUNCTION("activate", "Tanh") "}\n");
    check_work(g, "y", 8 * 16);
    check_extents(g, "y", 8, 16);
    stw_graph_destroy(g);
}

/* The name of an output and a number within it say which one it is. */
TEST(functions, outputs_by_name) {
    stw_graph *g = take_text(
        X "node { name: 'y' op: 'PartitionedCall' input: 'x'" RUNS("f", "halves") " }\n"
        "node { name: 'p' op: 'Relu' input: 'y:0' }\n"
        "node { name: 'q' op: 'Relu' input: 'y:1' }\n"
        "library { function { signature { name: 'halves' input_arg { name: 'a' type: DT_FLOAT } "
        "output_arg { name: 'left' type: DT_FLOAT } output_arg { name: 'best' type: DT_FLOAT } }\n"
        "node_def { name: 'axis' op: 'Const'" NUMBER("1") " }\n"
        "node_def { name: 'three' op: 'Const'" NUMBER("3") " }\n"
        "node_def { name: 'split' op: 'Split' input: 'axis:output:0' input: 'a'" ATTR("num_split", "i: 2") " }\n"
        "node_def { name: 'top' op: 'TopKV2' input: 'split:output:1' input: 'three:output:0' }\n"
        "node_def { name: 'sum' op: 'twice' input: 'top:values:0' input: '^axis' }\n"
        "ret { key: 'best' value: 'sum:b' } ret { key: 'left' value: 'split:output:0' } }\n" FUNCTION("twice", "Neg") "}\n");
    check_extents(g, "p", 8, 8);
    check_extents(g, "q", 8, 3);
    stw_graph_destroy(g);
}

#define STEP(by) \
    "function { signature { name: 'step' input_arg { name: 'i' type: DT_INT32 } input_arg { name: 's' type: DT_FLOAT } " \
    "input_arg { name: 'n' type: DT_INT32 } output_arg { name: 'i2' type: DT_INT32 } "                               \
    "output_arg { name: 's2' type: DT_FLOAT } output_arg { name: 'n2' type: DT_INT32 } }\n"                          \
    "node_def { name: 'by' op: 'Const'" NUMBER("3") " }\n"                                                           \
    "node_def { name: 'next' op: '" by "' input: 'i' input: 'by:output:0' }\n"                                       \
    "node_def { name: 'kept' op: 'Identity' input: 'n' }\n"                                                          \
    "node_def { name: 'tanh' op: 'Tanh' input: 's' }\n"                                                              \
    "ret { key: 'i2' value: 'next:z:0' } ret { key: 's2' value: 'tanh:y:0' } ret { key: 'n2' value: 'kept:output:0' } }\n"
#define GOES(compares, left, right) \
    "function { signature { name: 'goes' input_arg { name: 'i' type: DT_INT32 } input_arg { name: 's' type: DT_FLOAT } " \
    "input_arg { name: 'n' type: DT_INT32 } output_arg { name: 'go' type: DT_BOOL } }\n"                             \
    "node_def { name: 'seven' op: 'Const'" NUMBER("7") " }\n"                                                        \
    "node_def { name: 'compare' op: '" compares "' input: '" left "' input: '" right "' }\n"                         \
    "ret { key: 'go' value: 'compare:z:0' } }\n"
#define LOOP(start, limit)                                                                                     \
    X "node { name: 'start' op: " start " }\nnode { name: 'limit' op: " limit                                  \
      " }\n"                                                                                                   \
      "node { name: 'loop' op: 'StatelessWhile' input: 'start' input: 'x' input: 'limit'" RUNS("cond", "goes") \
          RUNS("body", "step") ATTR("parallel_iterations", "i: 10") " }\nnode { name: 'y' op: 'Relu' input: 'loop:1' }\n"
#define CONSTANT(value) "'Const'" NUMBER(value)
#define UNKNOWN         "'Placeholder'" ATTR("dtype", "type: DT_INT32") ATTR("shape", "shape { }")

/* Flops of a turn: the tanh, the counter and the comparison. */
static void check_turns(const char *text, int64_t turns, int32_t open_loops) {
    stw_graph *g = take_text(text);
    test_context("%s", text);
    if (CHECK(g != NULL)) {
        CHECK_EQ_INT(g->flops[find(g, "loop")] / (8 * 16 + 2), turns);
        CHECK_EQ_INT(g->open_loops, open_loops);
    }
    test_context("%s", "");
    check_extents(g, "y", 8, 16);
    stw_graph_destroy(g);
}

TEST(functions, turns_of_loops) {
    check_turns(LOOP(CONSTANT("0"), CONSTANT("20")) "library { " STEP("AddV2") GOES("Less", "i", "n") "}", 7, 0);
    check_turns(LOOP(CONSTANT("2"), CONSTANT("20")) "library { " STEP("AddV2") GOES("Less", "i", "n") "}", 6, 0);
    check_turns(LOOP(CONSTANT("2"), CONSTANT("20")) "library { " STEP("AddV2") GOES("LessEqual", "i", "n") "}", 7, 0);
    check_turns(LOOP(CONSTANT("20"), CONSTANT("0")) "library { " STEP("Sub") GOES("Greater", "i", "n") "}", 7, 0);
    check_turns(LOOP(CONSTANT("20"), CONSTANT("0")) "library { " STEP("Sub") GOES("LessEqual", "seven:output:0", "i") "}", 5, 0);
    check_turns(LOOP(CONSTANT("0"), UNKNOWN) "library { " STEP("AddV2") GOES("Less", "i", "seven:output:0") "}", 3, 0);
}

TEST(functions, turns_that_nobody_knows) {
    check_turns(LOOP(CONSTANT("0"), UNKNOWN) "library { " STEP("AddV2") GOES("Less", "i", "n") "}", 1, 1);
    check_turns(LOOP(UNKNOWN, CONSTANT("21")) "library { " STEP("AddV2") GOES("Less", "i", "n") "}", 7,
                1); /* the limit is a guess */
    check_turns(LOOP(CONSTANT("0"), CONSTANT("20")) "library { " STEP("Mul") GOES("Less", "i", "n") "}", 20, 1);
    check_turns(LOOP(CONSTANT("0"), CONSTANT("20")) "library { " STEP("AddV2") GOES("NotEqual", "i", "n") "}", 1, 1);
}

/* The loops of old are ops of the graph, and run once. */
TEST(functions, loops_of_old_are_counted) {
    stw_graph *g = take_text(INPUT("x", "dim { size: 4 }") INPUT(
        "go", "") "node { name: 'e' op: 'Enter' input: 'x' }\n"
                  "node { name: 'm' op: 'Merge' input: 'e' input: 'n' }\n"
                  "node { name: 'c' op: 'LoopCond' input: 'go' }\n"
                  "node { name: 's' op: 'Switch' input: 'm' input: 'c' }\n"
                  "node { name: 't' op: 'Tanh' input: 's:1' }\n"
                  "node { name: 'n' op: 'NextIteration' input: 't' }\n"
                  "node { name: 'o' op: 'Exit' input: 's' }\n");
    if (CHECK(g != NULL)) CHECK_EQ_INT(g->open_loops, 1);
    stw_graph_destroy(g);
}

TEST(functions, refusals) {
#define CALL(name) "node { name: 'y' op: 'PartitionedCall' input: 'x'" RUNS("f", name) " }\n"
    refuse_text(X CALL("gone"), "line 2: node 'y' (PartitionedCall) runs function 'gone', which is not in the file's library");
    refuse_text(X "node { name: 'y' op: 'PartitionedCall' input: 'x' }", "has no function in its attribute 'f'; name one there");
    refuse_text(X W "node { name: 'y' op: 'PartitionedCall' input: 'x' input: 'w'" RUNS("f", "g") " }\nlibrary { " FUNCTION(
                    "g", "Neg") "}",
                "gives function 'g' 2 values, but it takes 1");
    refuse_text(X "node { name: 'y' op: 'If'" RUNS("then_branch", "g")
                    RUNS("else_branch", "g") " }\nlibrary { " FUNCTION("g", "Neg") "}",
                "has 0 inputs, but it needs 1 beside what its function takes");
    refuse_text(X CALL("g") "library { " FUNCTION("g", "h") FUNCTION("h", "g") "}", "runs function 'g', which runs itself");
    refuse_text(X CALL("g") "library { " FUNCTION("g", "Neg") FUNCTION("g", "Neg") "}", "function 'g' stands twice");
    refuse_text(X CALL("g") "library { function { node_def { name: 'n' op: 'Neg' } } }", "runs function 'g', which is not in");
    /* nobody runs it */
    stw_graph_destroy(take_text(X "library { function { signature { name: 'g' } node_def { name: 'a' } } }"));
    refuse_text(X CALL("g") "library { function { signature { name: 'g' input_arg { name: 'a' } output_arg { name: 'b' } } } }",
                "function 'g' does not say what its output 'b' is; add it to its ret");
    refuse_text(X CALL("g") "library { function { signature { name: 'g' input_arg { name: 'a' } output_arg { name: 'b' } } "
                            "ret { key: 'b' value: 'n:y:0' } } }",
                "function 'g' returns 'n:y:0', which is not in it");
    refuse_text(X CALL("g") "library { function { signature { name: 'g' input_arg { name: 'a' } }\n"
                            "node_def { name: 'n' op: 'Neg' input: 'x' } } }",
                "line 4: node 'n' (Neg) reads 'x', which is not in its function");
    refuse_text(X CALL("g") "library { function { signature { name: 'g' input_arg { name: 'a' } }\n"
                            "node_def { name: 'n' op: 'Neg' input: 'm:y:0' } node_def { name: 'm' op: 'Neg' input: 'n:y:0' } } }",
                "cycle");
    refuse_text(
        X CALL("g") "library { function { signature { name: 'g' input_arg { name: 'x' } } node_def { name: 'a' op: 'Neg' } node_def { name: 'b' } } }",
        "node 'b' () of function 'g' has no op; give it one");
}

/* f0 calls f1 twice, and so on: without end, as far as one can see. Those that nobody runs cost nothing. */
static char *nest(int depth, const char *op_of_last, const char *second_input) {
    const size_t room = 1000 + 500 * (size_t)(depth + 1);
    char *text = malloc(room);
    size_t length = (size_t)snprintf(text, room, X CALL("f0") "library {\n");
    for (int k = 0; k <= depth; k++) {
        char op[40];
        snprintf(op, sizeof op, "f%d", k + 1);
        length += (size_t)snprintf(
            text + length, room - length,
            "function { signature { name: 'f%d' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'b' type: DT_FLOAT } } "
            "node_def { name: 'n' op: '%s' input: 'a' } node_def { name: 'm' op: '%s' input: '%s' } "
            "ret { key: 'b' value: 'm:b:0' } }\n",
            k, k == depth ? op_of_last : op, k == depth ? op_of_last : op, second_input);
    }
    snprintf(text + length, room - length, "}\n");
    return text;
}

TEST(functions, many_calls_of_calls) {
    char *deep = nest(200, "Neg", "n:b:0"), *wide = nest(60, "Neg", "n:b:0");
    refuse_text(deep, "runs functions nested deeper than 100");
    stw_graph *g = take_text(wide); /* 2^60 calls, of which those with equal arguments are looked at once */
    if (CHECK(g != NULL)) CHECK(g->flops[find(g, "y")] == INT64_MAX || g->flops[find(g, "y")] > (int64_t)1 << 60);
    stw_graph_destroy(g);
    free(deep);
    free(wide);
}
