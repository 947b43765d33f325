/* import/hlo_text: what becomes of hand-written modules, what is refused with which words, and real files where they are: in
 * shared/external/hlo beside the source tree, or where STOWAGE_HLO says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/hlo/hlo.h"
#include "import/import.h"
#include "test.h"

static stw_graph *read_text(const char *text) {
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_hlo_text_read(stw_str_of(text), &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    return graph;
}

/* The node of this name, or a failed check and node 0. */
static int32_t find(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_str_is(graph->node_name[i], name)) return i;
    }
    test_context("%s", name);
    const bool found = false;
    CHECK(found);
    test_context("%s", "");
    return 0;
}

static bool reads(const stw_graph *graph, const char *reader, const char *from) {
    const int32_t i = find(graph, reader), wanted = find(graph, from);
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
        if (graph->input[k] == wanted) return true;
    }
    return false;
}

/* ---- structure ---- */

/* A training step: w is written over; the loop leaves its second state alone. */
#define STEP                                                                                                  \
    "HloModule step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, "                     \
    "entry_computation_layout={(f32[4,4]{1,0}, f32[2,4]{1,0})->(f32[4,4]{1,0}, f32[])}\n\n"                   \
    "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"            \
    "pair {\n  p = f32[4,4]{1,0} parameter(0)\n  q = f32[4,4]{1,0} parameter(1)\n"                            \
    "  s = f32[4,4]{1,0} subtract(p, q)\n  n = f32[4,4]{1,0} negate(s)\n"                                     \
    "  ROOT t = (f32[4,4]{1,0}, f32[4,4]{1,0}) tuple(s, n)\n}\n\n"                                            \
    "body {\n  s = (s32[], f32[4,4]{1,0}, f32[2,4]{1,0}) parameter(0)\n"                                      \
    "  i = s32[] get-tuple-element(s), index=0\n  w = f32[4,4]{1,0} get-tuple-element(s), index=1\n"          \
    "  h = f32[2,4]{1,0} get-tuple-element(s), index=2\n  one = s32[] constant(1)\n  j = s32[] add(i, one)\n" \
    "  d = f32[2,4]{1,0} dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"                     \
    "  ROOT r = (s32[], f32[4,4]{1,0}, f32[2,4]{1,0}) tuple(j, w, d)\n}\n\n"                                  \
    "condition {\n  s = (s32[], f32[4,4]{1,0}, f32[2,4]{1,0}) parameter(0)\n"                                 \
    "  i = s32[] get-tuple-element(s), index=0\n  five = s32[] constant(5)\n"                                 \
    "  ROOT l = pred[] compare(i, five), direction=LT\n}\n\n"

#define STEP_ENTRY                                                                                                   \
    "ENTRY main {\n  w = f32[4,4]{1,0} parameter(0)\n  x = f32[2,4]{1,0} parameter(1)\n  zero = s32[] constant(0)\n" \
    "  state = (s32[], f32[4,4]{1,0}, f32[2,4]{1,0}) tuple(zero, w, x)\n"                                            \
    "  loop = (s32[], f32[4,4]{1,0}, f32[2,4]{1,0}) while(state), condition=condition, body=body\n"                  \
    "  v = f32[4,4]{1,0} get-tuple-element(loop), index=1\n  y = f32[2,4]{1,0} get-tuple-element(loop), index=2\n"   \
    "  f0 = f32[] constant(0)\n  loss = f32[] reduce(y, f0), dimensions={0,1}, to_apply=sum\n"                       \
    "  g = f32[4,4]{1,0} dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"                            \
    "  both = (f32[4,4]{1,0}, f32[4,4]{1,0}) fusion(v, g), kind=kLoop, calls=pair, control-predecessors={loss}\n"    \
    "  new = f32[4,4]{1,0} get-tuple-element(both), index=0\n"                                                       \
    "  ROOT out = (f32[4,4]{1,0}, f32[]) tuple(new, loss)\n}\n"

TEST(hlo_text, graph) {
    stw_graph *graph = read_text(STEP STEP_ENTRY);
    if (graph == NULL) return;
    CHECK_STR(graph->name.p, "step");
    CHECK_EQ_INT(graph->op_count, 4); /* loop, loss, g, both */
    const int32_t w = find(graph, "w"), loop = find(graph, "loop"), both = find(graph, "both");
    CHECK_EQ_INT(graph->kind[w], STW_NODE_PARAMETER);
    CHECK_EQ_INT(graph->kind[find(graph, "x")], STW_NODE_INPUT);
    CHECK_EQ_INT(graph->kind[find(graph, "zero")], STW_NODE_CONSTANT);
    CHECK_EQ_INT(graph->kind[find(graph, "y")], STW_NODE_VIEW);
    /* five times: a product of 2 x 4 x 4, an addition and a comparison */
    CHECK_EQ_INT(graph->flops[loop], 5 * (2 * 2 * 4 * 4 + 1 + 1));
    CHECK_EQ_INT(stw_graph_moved(graph, loop), 5 * ((32 + 64 + 32) + (4 + 4 + 4) + (4 + 4 + 1)));
    CHECK_EQ_INT(graph->op_class[loop], STW_CLASS_MATMUL);
    CHECK_EQ_INT(graph->bytes[loop], 4 + 32); /* w passes through */
    CHECK(reads(graph, "loop", "w") && reads(graph, "loop", "x") && reads(graph, "loop", "zero"));
    CHECK(reads(graph, "both", "w") && !reads(graph, "both", "loop")); /* v is w */
    CHECK_EQ_INT(graph->flops[find(graph, "loss")], 8);
    CHECK_EQ_INT(graph->flops[find(graph, "g")], 2 * 16 * 2);
    CHECK_EQ_INT(graph->flops[both], 32);
    CHECK_EQ_INT(graph->bytes[both], 128);
    CHECK_EQ_INT(stw_graph_moved(graph, both), 64 + 64 + 128);
    CHECK_EQ_INT(graph->updates[both], w);
    CHECK_EQ_INT(graph->control_start[both + 1] - graph->control_start[both], 1);
    CHECK_EQ_INT(graph->control[graph->control_start[both]], find(graph, "loss"));
    CHECK_EQ_INT(graph->output_count, 2);
    CHECK_EQ_INT(graph->output[0], find(graph, "new"));
    stw_graph_destroy(graph);
}

/* The same with percent signs, shapes before operands, comments, tiles, argument lists and tables of source lines. */
TEST(hlo_text, spellings) {
    static const char plain[] =
        "HloModule m\nENTRY e {\n a = f32[8,128]{1,0} parameter(0)\n b = f32[8,128]{1,0} exponential(a)\n"
        " ROOT t = (f32[8,128]{1,0}, f32[8,128]{1,0}) tuple(a, b)\n}\n";
    static const char rich[] =
        "// a dump\nHloModule m, num_partitions=1, frontend_attributes={a=\"}{\"}\n\nFileNames\n1 \"a.py\"\n\nStackFrames\n"
        "1 {file_location_id=1 parent_frame_id=1}\n\nENTRY %e (a: f32[8,128]) -> (f32[8,128], /*index=1*/f32[8,128]) {\n"
        "  %a = f32[<=8,128]{1,0:T(8,128)} parameter(0), metadata={op_name=\"x\\\"y, {\" source_line=3}\n"
        "  %b = f32[8,128]{1,0:T(8,128)S(1)} exponential(f32[8,128]{1,0:T(8,128)} /*first*/ %a), backend_config={\"a\":[1,{}]}\n"
        "  ROOT %t = (f32[8,128]{1,0}, /*index=1*/f32[8,128]{1,0}) tuple(f32[8,128]{1,0} %a, %b)\n}, execution_thread=\"main\"\n";
    stw_graph *a = read_text(plain), *b = read_text(rich);
    CHECK(stw_hlo_text_is(stw_str_of(rich)) && !stw_hlo_text_is(STW_STR("HloModules x")) && !stw_hlo_text_is(STW_STR("")));
    if (a == NULL || b == NULL) return;
    CHECK_STR(a->fingerprint, b->fingerprint);
    stw_graph_destroy(a);
    stw_graph_destroy(b);
}

/* ---- costs by opcode ---- */

static const struct {
    const char *instruction; /* reads x, y: f32[6,8]; k: f32[3,3,4,10]; i: f32[2,9,9,4]; n: s32[] */
    int64_t flops;
    int64_t moved; /* -1: inputs + output */
    stw_op_class op_class;
} costs[] = {
    {"f32[6,8] add(x, y)", 48, -1, STW_CLASS_ELEMENTWISE},
    {"f32[6,8] tanh(x)", 48, -1, STW_CLASS_ELEMENTWISE},
    {"f32[6,6] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}", 2 * 36 * 8, -1, STW_CLASS_MATMUL},
    {"f32[8,6,6] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={}, rhs_contracting_dims={}", 2 * 288,
     -1, STW_CLASS_MATMUL},
    {"f32[2,7,7,10] convolution(i, k), window={size=3x3}, dim_labels=b01f_01io->b01f", 2 * 980 * 36, -1, STW_CLASS_CONVOLUTION},
    {"f32[2,20,20,10] convolution(i, k), window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2}, dim_labels=b01f_01io->b01f",
     2 * 8000 * 36 / 4, -1, STW_CLASS_CONVOLUTION},
    {"f32[] reduce(x, zero), dimensions={0,1}, to_apply=sum", 48, -1, STW_CLASS_REDUCE},
    {"f32[6] reduce(x, zero), dimensions={1}, to_apply=sum", 48, -1, STW_CLASS_ELEMENTWISE}, /* 8 values: a loop */
    {"f32[2,3,3,4] reduce-window(i, zero), window={size=1x3x3x1 stride=1x3x3x1}, to_apply=sum", 72 * 9, -1, STW_CLASS_POOLING},
    {"f32[2,8] slice(x), slice={[0:2], [0:8]}", 0, 128, STW_CLASS_SHAPE},
    {"f32[1,8] dynamic-slice(x, n, n), dynamic_slice_sizes={1,8}", 0, 64, STW_CLASS_GATHER},
    {"f32[8,8] broadcast(x), dimensions={0,1}", 0, -1, STW_CLASS_BROADCAST},
    {"f32[6,8] sort(x), dimensions={1}, to_apply=sum", 48 * 3, -1, STW_CLASS_SORT},
    {"f32[6,8] fusion(x, y), kind=kLoop, calls=twice", 96, 3 * 192, STW_CLASS_ELEMENTWISE},
    {"f32[6,8] call(x, y), to_apply=twice", 96, 2 * 3 * 192, STW_CLASS_ELEMENTWISE},
    {"f32[6,8] conditional(n, x, x), branch_computations={once, thrice}", 144, 3 * 2 * 192, STW_CLASS_ELEMENTWISE},
    {"f32[6,8] all-reduce(x), replica_groups={{0,1}}, to_apply=sum", 0, -1, STW_CLASS_COLLECTIVE},
    {"(f32[6,6], s8[1024]) custom-call(x, y), custom_call_target=\"__cublas$lt$matmul\"", 2 * 36 * 8, 2 * 192 + 144,
     STW_CLASS_MATMUL},
    {"(f32[2,7,7,10], u8[64]) custom-call(i, k), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "custom_call_target=\"__cudnn$convForward\"",
     2 * 980 * 36, 4 * (648 + 360 + 980), STW_CLASS_CONVOLUTION},
    {"(f32[3,3,4,10], u8[64]) custom-call(i, j), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "custom_call_target=\"__cudnn$convBackwardFilter\"",
     2 * 980 * 36, 4 * (648 + 360 + 980), STW_CLASS_CONVOLUTION},
    {"f32[6,8] custom-call(x), custom_call_target=\"mine\"", 0, -1, STW_CLASS_OPAQUE},
    {"f32[6,8] frobnicate(x)", 0, -1, STW_CLASS_OPAQUE},
    {"f32[8,6]{1,0} transpose(x), dimensions={1,0}", 0, -1, STW_CLASS_SHAPE},
    {"f32[48]{0} reshape(turned)", 0, -1, STW_CLASS_SHAPE},
};

#define COST_HEAD                                                                                                            \
    "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"                   \
    "twice {\n a = f32[6,8] parameter(0)\n b = f32[6,8] parameter(1)\n c = f32[6,8] add(a, b)\n ROOT d = f32[6,8] "          \
    "multiply(c, b)\n}\nonce {\n a = f32[6,8] parameter(0)\n ROOT b = f32[6,8] exponential(a)\n}\nthrice {\n a = f32[6,8] "  \
    "parameter(0)\n b = f32[6,8] exponential(a)\n c = f32[6,8] exponential(b)\n ROOT d = f32[6,8] exponential(c)\n}\n"       \
    "ENTRY e {\n x = f32[6,8] parameter(0)\n y = f32[6,8] parameter(1)\n k = f32[3,3,4,10] parameter(2)\n i = f32[2,9,9,4] " \
    "parameter(3)\n n = s32[] parameter(4)\n zero = f32[] constant(0)\n j = f32[2,7,7,10] parameter(5)\n"                    \
    " turned = f32[8,6]{0,1} parameter(6)\n"

TEST(hlo_text, costs) {
    for (size_t k = 0; k < sizeof costs / sizeof costs[0]; k++) {
        char text[4096];
        test_context("%s", costs[k].instruction);
        snprintf(text, sizeof text, COST_HEAD " ROOT it = %s\n}\n", costs[k].instruction);
        stw_graph *graph = read_text(text);
        if (graph == NULL) continue;
        const int32_t it = find(graph, "it");
        CHECK_EQ_INT(graph->kind[it], STW_NODE_OP);
        CHECK_EQ_INT(graph->flops[it], costs[k].flops);
        CHECK_EQ_INT(stw_graph_moved(graph, it), costs[k].moved);
        CHECK_EQ_INT(graph->op_class[it], costs[k].op_class);
        stw_graph_destroy(graph);
    }
    test_context("%s", "");
}

static const char *const free_ones[] = {"f32[8,6]{0,1} transpose(x), dimensions={1,0}",
                                        "f32[48]{0} reshape(x)",
                                        "f32[2,3,8]{2,1,0} reshape(x)",
                                        "f32[8,1,6]{0,2,1} reshape(turned)",
                                        "f32[48]{0} bitcast(turned)",
                                        "f32[6,8] custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}"};

TEST(hlo_text, views) {
    for (size_t k = 0; k < sizeof free_ones / sizeof free_ones[0]; k++) {
        char text[4096];
        test_context("%s", free_ones[k]);
        snprintf(text, sizeof text, COST_HEAD " ROOT it = %s\n}\n", free_ones[k]);
        stw_graph *graph = read_text(text);
        if (graph == NULL) continue;
        CHECK_EQ_INT(graph->kind[find(graph, "it")], STW_NODE_VIEW);
        CHECK_EQ_INT(graph->op_count, 0);
        stw_graph_destroy(graph);
    }
    test_context("%s", "");
}

/* A fusion reads of its parameters and computes what its results need, through whatever lies between. */
static const struct {
    const char *body; /* reads a: f32[4,6,8], v: f32[8]; root: f32[6,2] */
    int64_t flops, moved;
} parts[] = {
    /* all of a is summed, a quarter of the sums is wanted: 12 x 4 values */
    {" s = f32[6,8] reduce(a, z), dimensions={0}, to_apply=sum\n ROOT r = f32[6,2] slice(s), slice={[0:6], [0:2]}\n", 48, 4 * 60},
    /* two slices of one value: half of it */
    {" b = f32[6,32] bitcast(a)\n s = f32[6,2] slice(b), slice={[0:6], [0:2]}\n t = f32[6,2] slice(b), slice={[0:6], [4:6]}\n"
     " ROOT r = f32[6,2] add(s, t)\n",
     12, 4 * 36},
    /* read whole elsewhere: counts once */
    {" e = f32[4,6,8] exponential(a)\n s = f32[1,6,2] slice(a), slice={[0:1], [0:6], [0:2]}\n m = f32[6,8] reduce(e, z), "
     "dimensions={0}, to_apply=sum\n p = f32[12] bitcast(m)\n b = f32[6,2] bitcast(s)\n q = f32[6,2] bitcast(p)\n"
     " ROOT r = f32[6,2] add(b, q)\n",
     192 + 192 + 12, 4 * 204},
    /* of a small value that is spread out no more than there is */
    {" w = f32[6,8] broadcast(v), dimensions={1}\n e = f32[6,8] exponential(w)\n ROOT r = f32[6,2] slice(e), slice={[0:6], "
     "[0:2]}\n",
     12, 4 * (8 + 12)},
};

TEST(hlo_text, fusions_read_what_they_need) {
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        char text[4096];
        test_context("%s", parts[k].body);
        snprintf(text, sizeof text,
                 "HloModule m\nsum {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
                 "f {\n a = f32[4,6,8] parameter(0)\n v = f32[8] parameter(1)\n z = f32[] constant(0)\n%s}\n"
                 "ENTRY e {\n a = f32[4,6,8] parameter(0)\n v = f32[8] parameter(1)\n"
                 " ROOT it = f32[6,2] fusion(a, v), kind=kLoop, calls=f\n}\n",
                 parts[k].body);
        stw_graph *graph = read_text(text);
        if (graph == NULL) continue;
        CHECK_EQ_INT(graph->flops[find(graph, "it")], parts[k].flops);
        CHECK_EQ_INT(stw_graph_moved(graph, find(graph, "it")), parts[k].moved);
        stw_graph_destroy(graph);
    }
    test_context("%s", "");
}

/* A fusion that takes slices reads these alone; one that updates a slice in place writes it alone. */
TEST(hlo_text, slices_in_fusions) {
    stw_graph *graph = read_text(
        "HloModule m\nf {\n a = f32[100,8] parameter(0)\n n = s32[] parameter(1)\n b = f32[800] bitcast(a)\n"
        " s = f32[8] dynamic-slice(b, n), dynamic_slice_sizes={8}\n e = f32[8] exponential(s)\n t = f32[100,8] parameter(2)\n"
        " r = f32[1,8] bitcast(e)\n ROOT u = f32[100,8] dynamic-update-slice(t, r, n, n)\n}\n"
        "ENTRY e {\n a = f32[100,8] parameter(0)\n n = s32[] parameter(1)\n t = f32[100,8] parameter(2)\n"
        " ROOT it = f32[100,8] fusion(a, n, t), kind=kLoop, calls=f\n}\n");
    if (graph == NULL) return;
    CHECK_EQ_INT(stw_graph_moved(graph, find(graph, "it")), 32 + 4 + 0 + 32);
    CHECK_EQ_INT(graph->bytes[find(graph, "it")], 3200);
    stw_graph_destroy(graph);
}

TEST(hlo_text, asynchronous_pairs) {
    stw_graph *graph = read_text(
        "HloModule m\nENTRY e {\n a = f32[4] parameter(0)\n"
        " s = (f32[4], f32[16]) all-gather-start(a), dimensions={0}\n d = f32[16] all-gather-done(s)\n"
        " c = (f32[16], f32[16], u32[]) copy-start(d)\n f = f32[16] copy-done(c)\n t = token[] after-all()\n"
        " g = f32[16] add-dependency(f, t)\n h = f32[16] negate(g)\n"
        " l = ((f32[16]), f32[2], u32[]) slice-start(h), slice={[0:2]}\n u = ((f32[16]), f32[2], u32[]) slice-update(l)\n"
        " ROOT k = f32[2] slice-done(u)\n}\n");
    if (graph == NULL) return;
    CHECK_EQ_INT(graph->op_count, 6); /* s, c, t, g that waits for t, h, l */
    CHECK_EQ_INT(graph->bytes[find(graph, "l")], 8);
    CHECK_EQ_INT(stw_graph_moved(graph, find(graph, "l")), 16);
    CHECK_EQ_INT(graph->output[0], find(graph, "l"));
    CHECK_EQ_INT(graph->bytes[find(graph, "s")], 64);
    CHECK_EQ_INT(stw_graph_moved(graph, find(graph, "s")), -1);
    CHECK_EQ_INT(graph->op_class[find(graph, "s")], STW_CLASS_COLLECTIVE);
    CHECK(reads(graph, "c", "s") && reads(graph, "g", "c"));
    CHECK_EQ_INT(graph->op_class[find(graph, "t")], STW_CLASS_ALIAS);
    stw_graph_destroy(graph);
}

#define LESS "(i, n), direction=LT"

TEST(hlo_text, trip_counts) {
    static const struct {
        const char *limit, *start, *more;
        int64_t trips;
        const char *compared, *next;
        bool is_open;
    } loops[] = {
        {"constant(7)", "constant(0)", "", 7, LESS, "add(i, one)", false},
        {"constant(7)", "constant(0)", "", 8, "(i, n), direction=LE", "add(one, i)", false},
        {"constant(7)", "constant(0)", "", 7, "(n, i), direction=GT", "add(i, one)", false},
        {"constant(7)", "constant(2)", "", 6, "(n, i), direction=GE", "add(i, one)", false},
        {"constant(2)", "constant(9)", "", 7, "(i, n), direction=GT", "subtract(i, one)", false},
        {"constant(2)", "constant(9)", "", 8, "(i, n), direction=GE", "subtract(i, one)", false},
        {"constant(7)", "constant(2)", "", 5, LESS, "add(i, one)", false},
        {"constant(7)", "constant(0)", "", 3, LESS, "add(i, three)", false},
        {"constant(0)", "constant(12)", "", 4, "(i, n), direction=NE", "subtract(i, three)", false},
        {"constant(0)", "constant(1000)", "", 1000, "(i, n), direction=NE", "subtract(i, one)", false},
        {"constant(7)", "constant(9)", "", 1, LESS, "add(i, one)", false},
        {"constant(7)", "parameter(0)", "", 7, LESS, "add(i, one)", true},                    /* where does it begin? */
        {"constant(7)", "constant(0)", "", 1, "(i, n), direction=NE", "add(i, three)", true}, /* it never is 7 */
        {"constant(7)", "constant(0)", "", 1, "(i, n), direction=EQ", "add(i, one)", true},
        {"constant(7)", "constant(0)", "", 1, LESS, "subtract(i, one)", true}, /* until it overflows */
        {"constant(7)", "constant(1)", "", 6, LESS, "multiply(i, three)", true},
        {"constant(7)", "constant(1)", "", 6, LESS, "subtract(one, i)", true},
        {"add(i, i)", "constant(0)", "", 1, LESS, "add(i, one)", true},
        {"add(i, i)", "constant(0)", ", backend_config={\"known_trip_count\":{\"n\":\"12\"}}", 12, LESS, "add(i, one)", false}};
    for (size_t k = 0; k < sizeof loops / sizeof loops[0]; k++) {
        char text[2048];
        test_context("loop %zu", k);
        snprintf(text, sizeof text,
                 "HloModule m\nb {\n s = (s32[], f32[10]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                 " x = f32[10] get-tuple-element(s), index=1\n y = f32[10] sqrt(x)\n one = s32[] constant(1)\n"
                 " three = s32[] constant(3)\n j = s32[] %s\n ROOT r = (s32[], f32[10]) tuple(j, y)\n}\n"
                 "c {\n s = (s32[], f32[10]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] %s\n"
                 " ROOT l = pred[] compare%s\n}\nENTRY e {\n z = s32[] %s\n x = f32[10] constant({...})\n"
                 " t = (s32[], f32[10]) tuple(z, x)\n ROOT it = (s32[], f32[10]) while(t), condition=c, body=b%s\n}\n",
                 loops[k].next, loops[k].limit, loops[k].compared, loops[k].start, loops[k].more);
        stw_graph *graph = read_text(text);
        if (graph == NULL) continue;
        const int64_t compared = loops[k].limit[0] == 'a' ? 2 : 1;
        CHECK_EQ_INT(graph->flops[find(graph, "it")], loops[k].trips * (11 + compared));
        CHECK_EQ_INT(graph->open_loops, loops[k].is_open);
        stw_graph_destroy(graph);
    }
    test_context("%s", "");
}

/* ---- what parameters are ---- */

TEST(hlo_text, parameters) {
    stw_graph *graph = read_text(
        "HloModule m\nENTRY e {\n x = f32[8,4] parameter(0)\n Arg_1.2 = f32[4,4] parameter(1)\n p3 = f32[4] parameter(2)\n"
        " p4 = s32[4] parameter(3)\n q = f32[8,4] parameter(4), metadata={op_name=\"state[\\'layers\\'][0][\\'kernel\\']\"}\n"
        " r = f32[8,4] parameter(5), metadata={op_name=\"kwargs[\\'cache\\'][\\'k\\']\"}\n"
        " p = (f32[2], (s32[3], f32[4])) parameter(6)\n c = bf16[4,4] convert(Arg_1.2)\n"
        " d = f32[8,4] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        " i = (s32[3], f32[4]) get-tuple-element(p), index=1\n j = f32[4] get-tuple-element(i), index=1\n k = f32[4] sqrt(j)\n"
        " ROOT l = f32[8,4] add(d, q)\n}\n");
    if (graph == NULL) return;
    CHECK_EQ_INT(graph->kind[find(graph, "x")], STW_NODE_INPUT);
    CHECK_EQ_INT(graph->kind[find(graph, "Arg_1.2")], STW_NODE_PARAMETER);
    CHECK_EQ_INT(graph->kind[find(graph, "p3")], STW_NODE_PARAMETER);
    CHECK_EQ_INT(graph->kind[find(graph, "p4")], STW_NODE_INPUT);
    CHECK_EQ_INT(graph->kind[find(graph, "q")], STW_NODE_PARAMETER);
    CHECK_STR(graph->label[find(graph, "q")].p, "state.layers.0.kernel");
    CHECK_EQ_INT(graph->kind[find(graph, "r")], STW_NODE_BUFFER);
    CHECK(reads(graph, "k", "p.2")); /* the third array in the tuple */
    CHECK_EQ_INT(graph->bytes[find(graph, "p.2")], 16);
    stw_graph_destroy(graph);
}

TEST(hlo_text, training_without_aliases) {
    stw_graph *graph = read_text(
        "HloModule m\nENTRY e {\n a.1 = f32[4,4] parameter(0)\n b.1 = f32[4] parameter(1)\n c.1 = f32[8,4] parameter(2)\n"
        " d = f32[4,4] negate(a.1)\n e = f32[4] negate(b.1)\n ROOT t = (f32[4,4], f32[4]) tuple(d, e)\n}\n");
    if (graph == NULL) return;
    CHECK_EQ_INT(graph->kind[find(graph, "a.1")], STW_NODE_PARAMETER);
    CHECK_EQ_INT(graph->kind[find(graph, "b.1")], STW_NODE_PARAMETER);
    CHECK_EQ_INT(graph->kind[find(graph, "c.1")], STW_NODE_INPUT);
    stw_graph_destroy(graph);
}

/* ---- refusals ---- */

#define ONES_16      "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
#define ONES         ONES_16 ONES_16 ONES_16 ONES_16
#define ENTRY(lines) "HloModule m\nENTRY e {\n" lines "}\n"
static const struct {
    const char *text, *where, *why;
} refused[] = {
    {"HloModule", "line 1, column 10", "name of the module"},
    {"HloModule m\n", "", "no computations"},
    {"HloModule m\nENTRY e {\n}\n", "'e'", "no instructions"},
    {"HloModule m\nENTRY e {\n", "line 3", "cut off"},
    {ENTRY(" a = f32[2] add(b, b)\n"), "line 3, column 17", "operand 'b' is not defined above"},
    {ENTRY(" a = f32[2] negate(a)\n"), "line 3", "operand 'a' is not defined above"},
    {ENTRY(" a = f32[2] parameter(0)\n a = f32[2] negate(a)\n"), "line 4, column 2", "stands twice"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] parameter(0)\n"), "'e'", "parameter(0) stands twice"},
    {ENTRY(" a = f32[2] parameter(9)\n"), "'e'", "only 1 instructions"},
    {ENTRY(" a = f32[2] parameter(x)\n"), "line 3", "needs its number"},
    {ENTRY(" a = f31[2] parameter(0)\n"), "line 3, column 6", "'f31' is not a type"},
    {ENTRY(" a = f32[2,] parameter(0)\n"), "line 3", "needs numbers"},
    {ENTRY(" a = f32[9223372036854775807,9] parameter(0)\n"), "line 3", "more than 2^56 bytes"},
    {ENTRY(" a = f32[99999999999999999999] parameter(0)\n"), "line 3", "more than 2^56 bytes"},
    {ENTRY(" a = f32[" ONES ONES ONES ONES "1] parameter(0)\n"), "line 3", "more than 255 dimensions"},
    {ENTRY(" a = f32[2]{1,0} parameter(0)\n"), "line 3", "layout does not fit"},
    {ENTRY(" a = f32[2] constant({1, 2\n"), "line 3", "has no end"},
    {ENTRY(" a = f32[2] parameter(0), index\n"), "line 4", "'=' is expected"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] fusion(a), calls=f\n"), "line 4", "computation 'f' is not defined above"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] fusion(a), kind=kLoop\n"), "'b' (fusion)", "it calls is missing"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] call(a), to_apply=e\n"), "line 4", "computation 'e' is not defined above"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] add(a)\n"), "'b' (add)", "too few operands"},
    {ENTRY(" b = f32[2] slice-done()\n"), "'b' (slice-done)", "too few operands"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] get-tuple-element(a), index=0\n"), "line 4", "not a tuple"},
    {ENTRY(" a = f32[2] parameter(0)\n t = (f32[2]) tuple(a)\n b = f32[2] get-tuple-element(t), index=1\n"), "line 5",
     "no element of that index"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[] dot(a, a), lhs_contracting_dims={1}\n"), "line 4", "contracts"},
    {ENTRY(" a = f32[2] parameter(0)\n b = f32[2] negate(a), control-predecessors={c}\n"), "line 4", "instruction 'c'"},
    {"HloModule m\nf {\n a = f32[] parameter(0)\n}\nf {\n a = f32[] parameter(0)\n}\n", "line 5", "two computations 'f'"},
    {ENTRY(" a = f32[] parameter(0)\n") "ENTRY f {\n a = f32[] parameter(0)\n}\n", "line 5", "second ENTRY"},
    {"HloModule m, input_output_alias={ {0}: (x, {}) }\nENTRY e {\n a = f32[] parameter(0)\n}\n", "line 1",
     "number of a parameter"},
};

TEST(hlo_text, refusals) {
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        stw_error error = {0};
        stw_graph *graph = (stw_graph *)1;
        test_context("%s", refused[k].text);
        CHECK_EQ_INT(stw_hlo_text_read(stw_str_of(refused[k].text), &graph, &error), STW_ERROR_INPUT);
        CHECK(graph == NULL);
        CHECK(strchr(error.message, '\n') == NULL);
        CHECK_CONTAINS(error.message, refused[k].where);
        CHECK_CONTAINS(error.message, refused[k].why);
    }
    test_context("%s", "");
}

TEST(hlo_text, cut_anywhere) {
    static const char text[] = STEP STEP_ENTRY;
    const size_t whole = sizeof text - 1;
    for (size_t length = 0; length + 1 < whole; length++) {
        stw_error error = {0};
        stw_graph *graph = NULL;
        char *copy = malloc(length + 1); /* to measure, so that a sanitizer sees every step too far */
        if (copy == NULL) return;
        memcpy(copy, text, length);
        const stw_status status = stw_hlo_text_read((stw_str){copy, (int64_t)length}, &graph, &error);
        test_context("%zu bytes", length);
        /* between two computations it is a module that ends early; the last of them is its entry then */
        const bool between = length > 0 && (text[length - 1] == '}' || (text[length - 1] == '\n' && text[length - 2] == '}') ||
                                            (text[length - 1] == '\n' && text[length - 2] == '\n' && text[length - 3] == '}'));
        if (!between) CHECK_EQ_INT(status, STW_ERROR_INPUT);
        if (status != STW_OK) CHECK(error.message[0] != '\0' && graph == NULL);
        stw_graph_destroy(graph);
        free(copy);
    }
    test_context("%s", "");
}

static char *repeat(char *at, const char *text, int count) {
    for (int k = 0; k < count; k++) at += sprintf(at, "%s", text);
    return at;
}

TEST(hlo_text, depth) {
    static char text[4096];
    for (int depth = 90; depth <= 1000; depth += 910) {
        stw_error error = {0};
        stw_graph *graph = NULL;
        char *at = repeat(text, "HloModule m\nENTRY e {\n a = ", 1);
        at = repeat(at, "(", depth);
        at = repeat(at, "f32[]", 1);
        at = repeat(at, ")", depth);
        repeat(at, " parameter(0)\n}\n", 1);
        const stw_status status = stw_hlo_text_read(stw_str_of(text), &graph, &error);
        CHECK_EQ_INT(status, depth < 100 ? STW_OK : STW_ERROR_INPUT);
        if (depth > 100) CHECK_CONTAINS(error.message, "more than 100 deep");
        stw_graph_destroy(graph);
    }
}

/* What an instruction computes is part of the fingerprint: attributes, and bodies whatever their names. */
TEST(hlo_text, fingerprints_tell_attributes_apart) {
    static const char *const entries[] = {
        "ROOT r = f32[8,8] transpose(a), dimensions={0,1}",
        "ROOT r = f32[8,8] transpose(a), dimensions={1,0}",
        "ROOT r = f32[8,8] reverse(a), dimensions={1}",
        "ROOT r = f32[8,8] reverse(a), dimensions={0}",
        "ROOT r = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ROOT r = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        "ROOT r = f32[4,8] slice(a), slice={[0:4], [0:8]}",
        "ROOT r = f32[4,8] slice(a), slice={[0:8:2], [0:8]}",
        "ROOT r = f32[4,8] slice(a), slice={[4:8], [0:8]}",
        "ROOT r = pred[8,8] compare(a, a), direction=EQ",
        "ROOT r = pred[8,8] compare(a, a), direction=NE",
        "ROOT r = f32[8,8] fusion(a), kind=kLoop, calls=up",
        "ROOT r = f32[8,8] fusion(a), kind=kLoop, calls=down",
        "ROOT r = f32[8,8] fusion(a), kind=kInput, calls=down",
    };
    /* Pairs that say the same. */
    static const char *const same[][2] = {
        {"ROOT r = f32[4,8] slice(a), slice={[0:4], [0:8]}", "ROOT r = f32[4,8] slice(a), slice={[0:4:1], [0:8:1]}"},
        {"ROOT r = f32[8,8] fusion(a), kind=kLoop, calls=up", "ROOT r = f32[8,8] fusion(a), calls=up_too, kind=kLoop"},
        {"ROOT r = f32[8,8] reduce-window(a, z), window={size=1x1}, to_apply=sum",
         "ROOT r = f32[8,8] reduce-window(a, z), to_apply=sum, window={size=1x1 stride=1x1 pad=0_0x0_0 rhs_dilate=1x1}, "
         "metadata={op_name=\"m\"}"},
    };
    enum { ENTRIES = sizeof entries / sizeof entries[0], PAIRS = sizeof same / sizeof same[0] };
    static const char head[] =
        "HloModule m\nup {\n p = f32[8,8] parameter(0)\n ROOT n = f32[8,8] exponential(p)\n}\n"
        "up_too {\n q = f32[8,8] parameter(0)\n ROOT m = f32[8,8] exponential(q)\n}\n"
        "down {\n p = f32[8,8] parameter(0)\n ROOT n = f32[8,8] negate(p)\n}\n"
        "sum {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y)\n}\n"
        "ENTRY e {\n a = f32[8,8] parameter(0)\n z = f32[] constant(0)\n ";
    char text[2000], print[ENTRIES + 2 * PAIRS][33];
    for (int k = 0; k < ENTRIES + 2 * PAIRS; k++) {
        const char *entry = k < ENTRIES ? entries[k] : same[(k - ENTRIES) / 2][(k - ENTRIES) % 2];
        snprintf(text, sizeof text, "%s%s\n}\n", head, entry);
        stw_graph *graph = read_text(text);
        if (graph == NULL) return;
        snprintf(print[k], sizeof print[k], "%s", graph->fingerprint);
        stw_graph_destroy(graph);
    }
    for (int i = 0; i < ENTRIES; i++) {
        for (int k = 0; k < i; k++) {
            test_context("%s and %s", entries[i], entries[k]);
            CHECK(strcmp(print[i], print[k]) != 0);
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        test_context("%s", same[i][0]);
        CHECK_STR(print[ENTRIES + 2 * i], print[ENTRIES + 2 * i + 1]);
    }
    test_context("%s", "");
}

/* 2000 calls that each read a tuple of 2000 parts: the graph would be a thousand times the file. */
/* As XLA prints a module that it has partitioned: groups may be axes of a mesh, behind a blank. */
TEST(hlo_text, partitions) {
    stw_graph *graph = read_text(
        "HloModule m, num_partitions=4\n"
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { x = f32[8] parameter(0)\n"
        "  y = f32[8] all-reduce(x), replica_groups=mesh['axis_0'=1,'axis_1'=4] {'axis_1'}, use_global_device_ids=true, "
        "to_apply=sum\n"
        "  ROOT z = f32[8] negate(y) }\n");
    if (graph != NULL) {
        CHECK_EQ_INT(graph->partitions, 4);
        CHECK_EQ_INT(graph->op_count, 2);
    }
    stw_graph_destroy(graph);
    graph = read_text("HloModule m\nENTRY e { x = f32[8] parameter(0) ROOT z = f32[8] negate(x) }\n");
    if (graph != NULL) CHECK_EQ_INT(graph->partitions, 0);
    stw_graph_destroy(graph);
}

TEST(hlo_text, tuples_read_whole) {
    enum { PARTS = 2000, CALLS = 2000 };
    char *text = malloc((size_t)1 << 20), *at = text;
    if (!CHECK(text != NULL)) return;
    at = repeat(at, "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n t = (f32[]", 1);
    at = repeat(at, ",f32[]", PARTS - 1);
    at = repeat(at, ") tuple(p", 1);
    at = repeat(at, ",p", PARTS - 1);
    at = repeat(at, ")\n", 1);
    for (int k = 0; k < CALLS; k++) at += sprintf(at, " c%d = f32[] custom-call(t), custom_call_target=\"x\"\n", k);
    repeat(at, "}\n", 1);
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_hlo_text_read(stw_str_of(text), &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "instruction 't' (tuple): with it, more than 1");
    CHECK_CONTAINS(error.message, "elements of tuples are read whole");
    stw_graph_destroy(graph);
    free(text);
}

/* 20000 loops over one condition of 20000 instructions. */
TEST(hlo_text, many_loops_of_a_long_condition) {
    enum { LOOPS = 20000, LENGTH = 20000 };
    char *text = malloc((size_t)4 << 20), *at = text;
    if (!CHECK(text != NULL)) return;
    at += sprintf(at, "HloModule m\nb {\n ROOT p = s32[] parameter(0)\n}\nc {\n n0 = s32[] parameter(0)\n");
    for (int k = 1; k < LENGTH; k++) at += sprintf(at, " n%d = s32[] negate(n%d)\n", k, k - 1);
    at += sprintf(
        at,
        " five = s32[] constant(5)\n ROOT r = pred[] fusion(n0), kind=kLoop, calls=b\n}\nENTRY e {\n w0 = s32[] parameter(0)\n");
    for (int k = 1; k < LOOPS; k++) at += sprintf(at, " w%d = s32[] while(w%d), body=b, condition=c\n", k, k - 1);
    sprintf(at, "}\n");
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_hlo_text_read(stw_str_of(text), &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    if (graph != NULL) { /* the body does nothing; the condition negates, five times over */
        CHECK_EQ_INT(graph->N, LOOPS);
        CHECK_EQ_INT(graph->flops[LOOPS - 1] % 5, 0);
        CHECK(graph->flops[LOOPS - 1] >= (int64_t)5 * (LENGTH - 1));
    }
    stw_graph_destroy(graph);
    free(text);
}

/* Tuples of the tuple before, twice: 2^40 leaves if they were taken apart again and again. */
TEST(hlo_text, doubling) {
    static char text[1 << 14];
    char *at = text + sprintf(text, "HloModule m\nENTRY e {\n t0 = f32[] parameter(0)\n");
    for (int k = 1; k <= 40; k++) at += sprintf(at, " t%d = () tuple(t%d, t%d)\n", k, k - 1, k - 1);
    sprintf(at, " ROOT r = f32[] outfeed(t40)\n}\n");
    stw_graph *graph = read_text(text);
    if (graph == NULL) return;
    CHECK(reads(graph, "r", "t0"));
    stw_graph_destroy(graph);
}

/* ---- real files ---- */

static const struct {
    const char *name;
    double flops, tolerance; /* published or counted by hand; see below */
} real[] = {
    {"resnet50_keras_jax_f32", 7.75e9, 0.02}, /* 3.87 G multiply-adds of ResNet-50 v1, batch 1 */
    {"mobilenet_v2", 1.79e11, 0.08},          /* 0.3 G multiply-adds, forward and twice that back, batch 96; and the rest */
    {"hlo_llama31_8b_bf16_1x8", 9.0e14, 0.1}, /* 6 x 8.03 G parameters x 16,384 tokens, and causal attention */
    {"gemma3_1b_flax_call", 1.6e10, 0.05},    /* 2 x 0.7 G parameters in layers x 11 tokens, and one row of logits */
    {"nv_maxtext_1n1g_jit_train_step_before_optimization", 1.4e14, 0.05},
    {"mha_block_1x12x128x64_bf16", 5.17e7, 0.02},    /* 4 x 12 x 128 x 128 x 64 */
    {"layer_norm_1x4096x768_bf16", 2.52e7, 0.02},    /* 8 for each element */
    {"dlrm_keras_jax_f32_train_step", 2.93e9, 0.02}, /* as read: guards against change */
    {"hlo_llama3_8b_cp_bf16_1x4", 2.35e14, 0.02},    /* as read */
};

TEST(hlo_text, real_files) {
    const char *given = getenv("STOWAGE_HLO");
    const char *folder = given != NULL ? given : STW_SOURCE_DIR "/../shared/external/hlo";
    int read = 0;
    for (size_t k = 0; k < sizeof real / sizeof real[0]; k++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.hlo.gz", folder, real[k].name);
        FILE *file = fopen(path, "rb");
        if (file == NULL) continue;
        fclose(file);
        stw_error error = {0};
        stw_arena arena;
        stw_str text;
        stw_graph *graph = NULL;
        double flops = 0.0;
        int32_t opaque = 0;
        test_context("%s", real[k].name);
        if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
        CHECK_EQ_INT(stw_file_read(path, &arena, &text, &error), STW_OK);
        CHECK_EQ_INT(stw_hlo_text_read(text, &graph, &error), STW_OK);
        CHECK_STR(error.message, "");
        for (int32_t i = 0; graph != NULL && i < graph->N; i++) {
            flops += (double)graph->flops[i];
            opaque += graph->kind[i] == STW_NODE_OP && graph->op_class[i] == STW_CLASS_OPAQUE;
        }
        CHECK_NEAR(flops / real[k].flops, 1.0, real[k].tolerance);
        if (graph != NULL) CHECK(50 * opaque <= graph->op_count);
        stw_graph_destroy(graph);
        stw_arena_destroy(&arena);
        read++;
    }
    test_context("%s", "");
    if (read == 0) SKIP("no HLO files; STOWAGE_HLO can name their folder");
}
