/* Loops, branches and calls cost their kernels: as much as the same ops written out. */
#include <string.h>

#include "cost/cost.h"
#include "import/import.h"
#include "import/wire/pbwire.h"
#include "support/onnx_model.h"
#include "test.h"

/* ---- what a module takes ---- */

typedef struct taken {
    double us;
    int32_t ops, open_loops;
    char warning[300]; /* the first */
} taken;

static taken take_bytes(const char *bytes, size_t size) {
    stw_graph *graph = NULL;
    stw_machine *machine = NULL;
    stw_costs *costs = NULL;
    stw_error error = {0};
    taken t = {0};
    CHECK_EQ_INT(stw_graph_parse(bytes, size, "module", NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_machine_open("h200x1", &machine, NULL), STW_OK);
    if (graph != NULL && machine != NULL) {
        CHECK_EQ_INT(stw_costs_create(graph, machine, NULL, &costs, NULL), STW_OK);
        for (int32_t i = 0; i < graph->N; i++) t.us += stw_costs_op_us(costs, i, 0);
        t.ops = graph->op_count;
        t.open_loops = graph->open_loops;
        const char *warning = stw_costs_warning(costs, 0);
        snprintf(t.warning, sizeof t.warning, "%s", warning != NULL ? warning : "");
    }
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
    return t;
}

static taken take(const char *text) { return take_bytes(text, strlen(text)); }

static void check_same(const taken *a, const taken *b) {
    CHECK(a->us > 0.0);
    CHECK_NEAR(a->us / b->us, 1.0, 1e-12);
}

#define STATE "(s32[], f32[64,64]{1,0}, f32[64,64]{1,0})"
#define SUM   "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
#define FUSED                              \
    "fused {\n"                            \
    "  p = f32[64,64]{1,0} parameter(0)\n" \
    "  t = f32[64,64]{1,0} tanh(p)\n"      \
    "  ROOT e = f32[64,64]{1,0} exponential(t)\n}\n"
/* As lax.scan writes it: a product, a tanh and the counter, compared with LIMIT; the start and the step are given. */
#define BODY(STEP)                                                                                \
    "step {\n"                                                                                    \
    "  s = " STATE                                                                                \
    " parameter(0)\n"                                                                             \
    "  i = s32[] get-tuple-element(s), index=0\n"                                                 \
    "  one = s32[] constant(" STEP                                                                \
    ")\n"                                                                                         \
    "  next = s32[] add(i, one)\n"                                                                \
    "  x = f32[64,64]{1,0} get-tuple-element(s), index=1\n"                                       \
    "  w = f32[64,64]{1,0} get-tuple-element(s), index=2\n"                                       \
    "  product = f32[64,64]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" \
    "  y = f32[64,64]{1,0} fusion(product), kind=kLoop, calls=fused\n"                            \
    "  ROOT r = " STATE " tuple(next, y, w)\n}\n"
#define CONDITION(LIMIT)                          \
    "goes {\n"                                    \
    "  s = " STATE                                \
    " parameter(0)\n"                             \
    "  i = s32[] get-tuple-element(s), index=0\n" \
    "  limit = s32[] constant(" LIMIT             \
    ")\n"                                         \
    "  ROOT r = pred[] compare(i, limit), direction=LT\n}\n"
#define LOOP(START)                              \
    "ENTRY main {\n"                             \
    "  x = f32[64,64]{1,0} parameter(0)\n"       \
    "  w = f32[64,64]{1,0} parameter(1)\n"       \
    "  start = s32[] " START                     \
    "\n"                                         \
    "  state = " STATE                           \
    " tuple(start, x, w)\n"                      \
    "  loop = " STATE                            \
    " while(state), condition=goes, body=step\n" \
    "  ROOT r = f32[64,64]{1,0} get-tuple-element(loop), index=1\n}\n"

/* The same `turns` times, written out. */
static taken take_unrolled(int turns) {
    char text[20000];
    int length = snprintf(text, sizeof text,
                          "HloModule unrolled\n" FUSED
                          "ENTRY main {\n  y0 = f32[64,64]{1,0} parameter(0)\n  w = f32[64,64]{1,0} parameter(1)\n");
    for (int k = 0; k < turns; k++) {
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "  p%d = f32[64,64]{1,0} dot(y%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                           "  %sy%d = f32[64,64]{1,0} fusion(p%d), kind=kLoop, calls=fused\n",
                           k, k, k == turns - 1 ? "ROOT " : "", k + 1, k);
    }
    snprintf(text + length, sizeof text - (size_t)length, "}\n");
    return take(text);
}

TEST(bodies, a_loop_is_its_turns) {
    const taken loop = take("HloModule loop\n" FUSED BODY("1") CONDITION("20") LOOP("constant(0)"));
    const taken unrolled = take_unrolled(20);
    check_same(&loop, &unrolled);
    CHECK_EQ_INT(loop.ops, 1);
    CHECK_EQ_INT(loop.open_loops, 0);
    CHECK_STR(loop.warning, "");
    CHECK(loop.us > 40 * 1.386); /* forty launches on an H200 */
}

TEST(bodies, turns_by_the_step) {
    const taken loop = take("HloModule loop\n" FUSED BODY("3") CONDITION("20") LOOP("constant(2)")); /* 2, 5, ..., 17 */
    const taken unrolled = take_unrolled(6);
    check_same(&loop, &unrolled);
}

TEST(bodies, turns_that_nobody_knows) {
    const taken start = take("HloModule loop\n" FUSED BODY("1") CONDITION("5") LOOP("parameter(2)"));
    const taken five = take_unrolled(5);
    check_same(&start, &five); /* the limit is the best guess */
    CHECK_EQ_INT(start.open_loops, 1);
    CHECK_CONTAINS(start.warning, "1 loop does not say how often it runs");
    /* A condition on data, which is a kernel. */
    static const char by_data[] =
        "HloModule loop\n" SUM FUSED BODY("1")
        "goes {\n"
        "  s = " STATE " parameter(0)\n"
        "  x = f32[64,64]{1,0} get-tuple-element(s), index=1\n"
        "  zero = f32[] constant(0)\n"
        "  total = f32[] reduce(x, zero), dimensions={0,1}, to_apply=sum\n"
        "  ROOT r = pred[] compare(total, zero), direction=GT\n}\n" LOOP("constant(0)");
    const taken data = take(by_data), once = take_unrolled(1);
    CHECK_EQ_INT(data.open_loops, 1);
    CHECK(data.us > once.us + 2 * 1.386); /* the sum and the comparison */
}

/* The state of a loop around the loop is the same. */
TEST(bodies, loops_in_loops_and_calls) {
    static const char nested[] =
        "HloModule nested\n" FUSED BODY("1") CONDITION("5")
        "inner {\n"
        "  s = " STATE " parameter(0)\n"
        "  x = f32[64,64]{1,0} get-tuple-element(s), index=1\n"
        "  w = f32[64,64]{1,0} get-tuple-element(s), index=2\n"
        "  zero = s32[] constant(0)\n"
        "  t = " STATE " tuple(zero, x, w)\n"
        "  loop = " STATE " while(t), condition=goes, body=step\n"
        "  ROOT y = f32[64,64]{1,0} get-tuple-element(loop), index=1\n}\n"
        "outer {\n"
        "  s = " STATE " parameter(0)\n"
        "  i = s32[] get-tuple-element(s), index=0\n"
        "  one = s32[] constant(1)\n"
        "  next = s32[] add(i, one)\n"
        "  w = f32[64,64]{1,0} get-tuple-element(s), index=2\n"
        "  y = f32[64,64]{1,0} call(s), to_apply=inner\n"
        "  ROOT r = " STATE " tuple(next, y, w)\n}\n"
        "ENTRY main {\n"
        "  x = f32[64,64]{1,0} parameter(0)\n"
        "  w = f32[64,64]{1,0} parameter(1)\n"
        "  start = s32[] constant(1)\n"
        "  state = " STATE " tuple(start, x, w)\n"
        "  loop = " STATE " while(state), condition=goes, body=outer\n" /* 1 to 4 */
        "  ROOT r = f32[64,64]{1,0} get-tuple-element(loop), index=1\n}\n";
    const taken loop = take(nested), unrolled = take_unrolled(20);
    check_same(&loop, &unrolled);
}

TEST(bodies, of_branches_the_dearest) {
#define BRANCHES(NAME, MORE) \
    NAME " {\n"              \
         "  x = f32[64,64]{1,0} parameter(0)\n" MORE "}\n"
#define CHOOSE                                                                     \
    "ENTRY main {\n  x = f32[64,64]{1,0} parameter(0)\n  k = s32[] parameter(1)\n" \
    "  ROOT r = f32[64,64]{1,0} conditional(k, x, x), branch_computations={few, many}\n}\n"
    static const char many[] =
        "  a = f32[64,64]{1,0} negate(x)\n  b = f32[64,64]{1,0} negate(a)\n"
        "  ROOT c = f32[64,64]{1,0} negate(b)\n";
    char branches[2000], plain[2000];
    snprintf(branches, sizeof branches,
             "HloModule m\n" BRANCHES("few", "  ROOT c = f32[64,64]{1,0} negate(x)\n") "%s%s}\n" CHOOSE,
             "many {\n  x = f32[64,64]{1,0} parameter(0)\n", many);
    snprintf(plain, sizeof plain, "HloModule m\nENTRY main {\n  x = f32[64,64]{1,0} parameter(0)\n%s}\n", many);
    const taken chosen = take(branches), written = take(plain);
    check_same(&chosen, &written);
}

/* ---- ONNX ---- */

static stw_str body_attribute(stw_arena *arena, const stw_pb_writer *graph) {
    stw_pb_writer w = {.arena = arena};
    const int64_t begun = stw_pb_begin(&w, 5);
    stw_pb_write_string(&w, 1, STW_STR("body"));
    stw_pb_write_string(&w, 6, (stw_str){graph->data, graph->length});
    stw_pb_write_int(&w, 20, 5);
    stw_pb_end(&w, begun);
    return (stw_str){w.data, w.length};
}

static taken take_onnx(stw_arena *arena, stw_pb_writer *graph) {
    onnx_value(graph, 12, "y", ONNX_FLOAT, "64,64");
    const stw_str model = onnx_model(arena, (stw_str){graph->data, graph->length}, (stw_str){0});
    return take_bytes(model.p, (size_t)model.length);
}

/* A loop of `turns`, or of as many as an input says; its body counts beside. */
static taken take_onnx_loop(stw_arena arena, int64_t turns) {
    stw_pb_writer body = {.arena = &arena}, graph = {.arena = &arena};
    onnx_value(&body, 11, "turn", ONNX_INT64, "");
    onnx_value(&body, 11, "go", ONNX_BOOL, "");
    onnx_value(&body, 11, "state", ONNX_FLOAT, NULL);
    onnx_node(&body, 1, "MatMul", "state w", "product", "");
    onnx_node(&body, 1, "Tanh", "product", "next", "");
    onnx_node(&body, 1, "Add", "turn turn", "count", "");
    onnx_node(&body, 1, "Identity", "go", "on", "");
    onnx_value(&body, 12, "on", ONNX_BOOL, NULL);
    onnx_value(&body, 12, "next", ONNX_FLOAT, NULL);
    onnx_value(&graph, 11, "x", ONNX_FLOAT, "64,64");
    onnx_weights(&graph, 5, "w", "64,64");
    if (turns > 0) onnx_numbers(&graph, 5, "turns", &turns, 1);
    if (turns <= 0) onnx_value(&graph, 11, "turns", ONNX_INT64, "");
    onnx_node_with(&graph, 1, "Loop", "turns - x", "y", body_attribute(&arena, &body));
    return take_onnx(&arena, &graph);
}

static taken take_onnx_unrolled(stw_arena arena, int turns) {
    stw_pb_writer graph = {.arena = &arena};
    onnx_value(&graph, 11, "h0", ONNX_FLOAT, "64,64");
    onnx_weights(&graph, 5, "w", "64,64");
    for (int k = 0; k < turns; k++) {
        char in[40], product[40], out[40];
        snprintf(in, sizeof in, "h%d w", k);
        snprintf(product, sizeof product, "p%d", k);
        snprintf(out, sizeof out, k == turns - 1 ? "y" : "h%d", k + 1);
        onnx_node(&graph, 1, "MatMul", in, product, "");
        onnx_node(&graph, 1, "Tanh", product, out, "");
    }
    return take_onnx(&arena, &graph);
}

TEST(bodies, onnx_loops) {
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    const taken loop = take_onnx_loop(arena, 20), unrolled = take_onnx_unrolled(arena, 20);
    check_same(&loop, &unrolled);
    CHECK_EQ_INT(loop.ops, 1);
    CHECK_EQ_INT(loop.open_loops, 0);
    const taken open = take_onnx_loop(arena, 0), once = take_onnx_unrolled(arena, 1);
    check_same(&open, &once);
    CHECK_EQ_INT(open.open_loops, 1);
    CHECK_CONTAINS(open.warning, "does not say how often it runs");
    stw_arena_destroy(&arena);
}

/* ---- TensorFlow ---- */

#define TF_ATTR(key, value) " attr { key: '" key "' value { " value " } }"
#define TF_INPUT(name)                                                             \
    "node { name: '" name "' op: 'Placeholder'" TF_ATTR("dtype", "type: DT_FLOAT") \
        TF_ATTR("shape", "shape { dim { size: 64 } dim { size: 64 } }") " }\n"
#define TF_NUMBER(value)               \
    TF_ATTR("dtype", "type: DT_INT32") \
    TF_ATTR("value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: " value " }")
#define TF_ARGUMENT(name) " input_arg { name: '" name "' type: DT_FLOAT }"
#define TF_LAYER(MORE) \
    "function { signature { name: 'layer'" TF_ARGUMENT("a") TF_ARGUMENT("b") " output_arg { name: 'c' type: DT_FLOAT } }\n" \
    "node_def { name: 'product' op: 'MatMul' input: 'a' input: 'b'" TF_ATTR("T", "type: DT_FLOAT") " }\n"                  \
    "node_def { name: 'tanh' op: 'Tanh' input: 'product:product:0'" TF_ATTR("T", "type: DT_FLOAT") " }\n" MORE             \
    "ret { key: 'c' value: 'tanh:y:0' } }\n"
/* The state is a counter, a value and the weights, which pass. */
#define TF_STATE " input_arg { name: 'i' type: DT_INT32 }" TF_ARGUMENT("s") TF_ARGUMENT("w")
#define TF_BODY \
    "function { signature { name: 'step'" TF_STATE " output_arg { name: 'i2' type: DT_INT32 } "                        \
    "output_arg { name: 's2' type: DT_FLOAT } output_arg { name: 'w2' type: DT_FLOAT } }\n"                            \
    "node_def { name: 'one' op: 'Const'" TF_NUMBER("1") " }\n"                                                         \
    "node_def { name: 'next' op: 'AddV2' input: 'i' input: 'one:output:0'" TF_ATTR("T", "type: DT_INT32") " }\n"       \
    "node_def { name: 'turn' op: 'layer' input: 's' input: 'w' }\n"                                                    \
    "ret { key: 'i2' value: 'next:z:0' } ret { key: 's2' value: 'turn:c:0' } ret { key: 'w2' value: 'w' } }\n"
#define TF_CONDITION(limit) \
    "function { signature { name: 'goes'" TF_STATE " output_arg { name: 'go' type: DT_BOOL } }\n"                      \
    "node_def { name: 'limit' op: 'Const'" TF_NUMBER(limit) " }\n"                                                     \
    "node_def { name: 'less' op: 'Less' input: 'i' input: 'limit:output:0'" TF_ATTR("T", "type: DT_INT32") " }\n"      \
    "ret { key: 'go' value: 'less:z:0' } }\n"
#define TF_LOOP(start)                                                                                              \
    TF_INPUT("x")                                                                                                   \
    TF_INPUT("w")                                                                                                   \
    "node { name: 'start' op: " start                                                                               \
    " }\n"                                                                                                          \
    "node { name: 'loop' op: 'While' input: 'start' input: 'x' input: 'w'" TF_ATTR("cond", "func { name: 'goes' }") \
        TF_ATTR("body", "func { name: 'step' }") " }\n"

static taken take_tf_unrolled(int turns) {
    char text[20000];
    int length = snprintf(text, sizeof text, TF_INPUT("h0") TF_INPUT("w"));
    for (int k = 0; k < turns; k++) {
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "node { name: 'p%d' op: 'MatMul' input: 'h%d' input: 'w' }\n"
                           "node { name: 'h%d' op: 'Tanh' input: 'p%d' }\n",
                           k, k, k + 1, k);
    }
    return take(text);
}

TEST(bodies, tensorflow_loops_and_calls) {
    const taken loop = take(TF_LOOP("'Const'" TF_NUMBER("0")) "library { " TF_LAYER("") TF_BODY TF_CONDITION("20") "}");
    const taken unrolled = take_tf_unrolled(20);
    check_same(&loop, &unrolled);
    CHECK_EQ_INT(loop.ops, 1);
    CHECK_EQ_INT(loop.open_loops, 0);
    CHECK_STR(loop.warning, "");
    const taken open = take(TF_LOOP("'Placeholder'" TF_ATTR("dtype", "type: DT_INT32")
                                        TF_ATTR("shape", "shape { }")) "library { " TF_LAYER("") TF_BODY TF_CONDITION("5") "}");
    const taken five = take_tf_unrolled(5); /* the limit is the best guess */
    check_same(&open, &five);
    CHECK_EQ_INT(open.open_loops, 1);
    CHECK_CONTAINS(open.warning, "1 loop does not say how often it runs");
}

/* The same function for other shapes costs something else, also where it states one that is open. */
TEST(bodies, tensorflow_calls_with_other_shapes) {
#define TF_SMALL                                                            \
    "node { name: 'v' op: 'Placeholder'" TF_ATTR("dtype", "type: DT_FLOAT") \
        TF_ATTR("shape", "shape { dim { size: 2 } dim { size: 64 } }") " }\n"
#define TF_OPEN                                                                \
    "node_def { name: 'other' op: 'Relu' input: 'a'" TF_ATTR("_output_shapes", \
                                                             "list { shape { dim { size: -1 } dim { size: 64 } } }") " }\n"
#define TF_CALL(name, input) \
    "node { name: '" name "' op: 'PartitionedCall' input: '" input "' input: 'w'" TF_ATTR("f", "func { name: 'layer' }") " }\n"
    const taken called = take(TF_INPUT("x") TF_SMALL TF_INPUT("w") TF_CALL("a", "v") TF_CALL("b", "x")
                                  TF_CALL("c", "v") "library { " TF_LAYER(TF_OPEN) "}");
    const taken written = take(TF_INPUT("x") TF_SMALL TF_INPUT(
        "w") "node { name: 'p' op: 'MatMul' input: 'v' input: 'w' }\nnode { name: 'q' op: 'Tanh' input: 'p' }\n"
             "node { name: 'r' op: 'MatMul' input: 'x' input: 'w' }\nnode { name: 's' op: 'Tanh' input: 'r' }\n"
             "node { name: 't' op: 'MatMul' input: 'v' input: 'w' }\nnode { name: 'u' op: 'Tanh' input: 't' }\n"
             "node { name: 'f' op: 'Relu' input: 'v' }\nnode { name: 'g' op: 'Relu' input: 'x' }\n"
             "node { name: 'h' op: 'Relu' input: 'v' }\n");
    check_same(&called, &written);
    CHECK_EQ_INT(called.ops, 3);
}

TEST(bodies, tensorflow_branches_cost_the_dearest) {
    const taken chosen = take(TF_INPUT("x") TF_INPUT("w") "node { name: 'go' op: 'Placeholder'" TF_ATTR("dtype", "type: DT_BOOL")
                                  TF_ATTR("shape", "shape { }") " }\n"
                              "node { name: 'y' op: 'If' input: 'go' input: 'x' input: 'w'" TF_ATTR(
                                  "then_branch", "func { name: 'pass' }") TF_ATTR("else_branch", "func { name: 'layer' }") " }\n"
                              "library { " TF_LAYER("")
                              "function { signature { name: 'pass'" TF_ARGUMENT("a") TF_ARGUMENT("b")
                              " output_arg { name: 'c' type: DT_FLOAT } } ret { key: 'c' value: 'a' } }\n}");
    const taken once = take_tf_unrolled(1);
    check_same(&chosen, &once);
}
