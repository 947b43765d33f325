/* export/hlo: plans in HLO modules, text and protobuf: order, fused computations, devices, and what must not be done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "export/export.h"
#include "import/import.h"
#include "import/pbwire.h"
#include "test.h"

typedef struct problem {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_str model;
    char *out; /* of the last export */
    size_t out_size;
    stw_error error;
} problem;

static problem open_bytes(stw_str model, const char *machine) {
    problem p = {.model = model};
    CHECK_EQ_INT(stw_graph_parse(model.p, (size_t)model.length, "module", &p.graph, &p.error), STW_OK);
    CHECK_STR(p.error.message, "");
    CHECK_EQ_INT(stw_machine_open(machine, &p.machine, NULL), STW_OK);
    CHECK_EQ_INT(stw_costs_create(p.graph, p.machine, NULL, &p.costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(p.costs, &p.simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(p.graph, p.machine, &p.plan, NULL), STW_OK);
    for (int32_t i = 0; i < p.graph->N; i++) stw_plan_group(p.plan)[i] = i;
    return p;
}

static problem open_text(const char *text, const char *machine) { return open_bytes(stw_str_of(text), machine); }

static void close_problem(problem *p) {
    stw_bytes_free(p->out);
    stw_plan_destroy(p->plan);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

static int32_t node_of(const problem *p, const char *name) {
    for (int32_t i = 0; i < p->graph->N; i++) {
        if (stw_str_is(p->graph->node_name[i], name)) return i;
    }
    CHECK_STR(name, "a node of the graph");
    return 0;
}

static void set_group(problem *p, const char *name, int32_t group) { stw_plan_group(p->plan)[node_of(p, name)] = group; }
static void set_priority(problem *p, const char *name, double priority) {
    stw_plan_priority(p->plan)[node_of(p, name)] = priority;
}

static stw_status run(problem *p, const char *format) {
    stw_bytes_free(p->out);
    p->out = NULL;
    p->error = (stw_error){0};
    return stw_plan_export_bytes(p->simulator, p->plan, format, p->model.p, (size_t)p->model.length, &p->out, &p->out_size, NULL,
                                 &p->error);
}

static void export_well(problem *p, const char *format) {
    CHECK_EQ_INT(run(p, format), STW_OK);
    CHECK_STR(p->error.message, "");
}

/* a stands before b. */
static void check_before(const problem *p, const char *a, const char *b) {
    const char *first = p->out != NULL ? strstr(p->out, a) : NULL, *second = p->out != NULL ? strstr(p->out, b) : NULL;
    test_context("'%s' before '%s'", a, b);
    CHECK(first != NULL && second != NULL && first < second);
    test_context("%s", "");
}

static bool has(const problem *p, const char *part) { return p->out != NULL && strstr(p->out, part) != NULL; }

/* ---- text: order ---- */

static const char two_chains[] =
    "HloModule chains, entry_computation_layout={(f32[64]{0})->(f32[64]{0}, f32[64]{0})}\n"
    "\n"
    "ENTRY %main (x: f32[64]) -> (f32[64], f32[64]) {\n"
    "  %x = f32[64]{0} parameter(0), metadata={op_name=\"x\"}\n"
    "  // the first chain\n"
    "  %a1 = f32[64]{0} tanh(f32[64]{0} %x)\n"
    "  %a2 = f32[64]{0} negate(f32[64]{0} %a1), metadata={op_name=\"a\"}\n"
    "  %b1 = f32[64]{0} cosine(f32[64]{0} %x)\n"
    "  %b2 = f32[64]{0} sine(f32[64]{0} %b1)\n"
    "  ROOT %t = (f32[64]{0}, f32[64]{0}) tuple(%a2, %b2)\n"
    "}\n";

TEST(hlo_export, order) {
    problem p = open_text(two_chains, "h200x1");
    set_priority(&p, "b1", 3.0);
    set_priority(&p, "b2", 2.0);
    export_well(&p, "hlo");
    CHECK(has(&p, "HloModule chains, is_scheduled=true, entry_computation_layout="));
    check_before(&p, "%x = ", "%b1 = ");
    check_before(&p, "%b1 = ", "%b2 = ");
    check_before(&p, "%b2 = ", "// the first chain\n  %a1 = ");
    check_before(&p, "%a2 = ", "ROOT %t = ");
    CHECK(has(&p, "  %a2 = f32[64]{0} negate(f32[64]{0} %a1), metadata={op_name=\"a\"}\n"));
    CHECK(!has(&p, "stowage") && !has(&p, "sharding")); /* one device: nothing is said of it */
    CHECK_EQ_INT(p.out_size, p.model.length + (int64_t)strlen(", is_scheduled=true"));
    close_problem(&p);
}

TEST(hlo_export, devices) {
    problem p = open_text(two_chains, "h200x2");
    stw_plan_device(p.plan)[node_of(&p, "b1")] = stw_plan_device(p.plan)[node_of(&p, "b2")] = 1;
    export_well(&p, "hlo");
    CHECK(has(&p,
              "%a1 = f32[64]{0} tanh(f32[64]{0} %x), frontend_attributes={stowage_device=\"h200:0\"}, sharding={maximal "
              "device=0}"));
    CHECK(has(&p, "sine(f32[64]{0} %b1), frontend_attributes={stowage_device=\"h200:1\"}, sharding={maximal device=1}"));
    CHECK(has(&p, "tuple(%a2, %b2)\n")); /* no task */

    /* Exported again with another plan, the new devices replace the old. */
    char *first = calloc(1, p.out_size + 1);
    memcpy(first, p.out, p.out_size);
    problem again = open_text(first, "h200x2");
    stw_plan_device(again.plan)[node_of(&again, "a2")] = 1;
    export_well(&again, "hlo");
    CHECK(has(&again, "cosine(f32[64]{0} %x), frontend_attributes={stowage_device=\"h200:0\"}, sharding={maximal device=0}\n"));
    CHECK(
        has(&again, "metadata={op_name=\"a\"}, frontend_attributes={stowage_device=\"h200:1\"}, sharding={maximal device=1}\n"));
    close_problem(&again);
    problem single = open_text(first, "h200x1");
    export_well(&single, "hlo");
    CHECK(!has(&single, "stowage") && !has(&single, "sharding"));
    close_problem(&single);
    free(first);
    close_problem(&p);
}

TEST(hlo_export, other_attributes_stay) {
    problem p = open_text(
        "HloModule m, is_scheduled=false\n"
        "ENTRY main {\n"
        "  x = f32[8] parameter(0), sharding={replicated}\n"
        "  a = f32[8] tanh(x), sharding={devices=[2]0,1}, frontend_attributes={k=\"v, w\",j=\"1\"}\n"
        "  ROOT b = f32[8] negate(a), control-predecessors={x}\n"
        "}\n",
        "h200x2");
    export_well(&p, "hlo");
    CHECK(has(&p, "HloModule m, is_scheduled=true\n"));
    CHECK(has(&p, "  x = f32[8] parameter(0), sharding={replicated}\n"));
    CHECK(has(&p, "sharding={devices=[2]0,1}, frontend_attributes={k=\"v, w\",j=\"1\",stowage_device=\"h200:0\"}\n"));
    CHECK(has(&p, "  ROOT b = f32[8] negate(a), control-predecessors={x}, frontend_attributes="));
    close_problem(&p);
}

/* ---- text: fusions ---- */

static const char element_wise[] =
    "HloModule fuse\n"
    "\n"
    "%sum (l: f32[], r: f32[]) -> f32[] {\n"
    "  %l = f32[] parameter(0)\n"
    "  %r = f32[] parameter(1)\n"
    "  ROOT %s = f32[] add(%l, %r)\n"
    "}\n"
    "\n"
    "%wrapped (p: f32[8,16]) -> f32[8,16] {\n"
    "  %p = f32[8,16]{1,0} parameter(0)\n"
    "  ROOT %w = f32[8,16]{1,0} exponential(%p)\n"
    "}\n"
    "\n"
    "ENTRY %main (x: f32[8,16], y: f32[8,16]) -> (f32[8,16], f32[8], f32[8,16]) {\n"
    "  %x = f32[8,16]{1,0} parameter(0)\n"
    "  %y = f32[8,16]{1,0} parameter(1)\n"
    "  %zero = f32[] constant(0)\n"
    "  %a = f32[8,16]{1,0} add(%x, %y), metadata={op_name=\"a\"}\n"
    "  %e = f32[8,16]{1,0} fusion(%a), kind=kLoop, calls=%wrapped\n"
    "  %m = f32[8,16]{1,0} multiply(%e, %y), metadata={op_name=\"m\"}\n"
    "  %r1 = f32[8]{0} reduce(%m, %zero), dimensions={1}, to_apply=%sum\n"
    "  %n = f32[8,16]{1,0} negate(%e)\n"
    "  ROOT %t = (f32[8,16]{1,0}, f32[8]{0}, f32[8,16]{1,0}) tuple(%m, %r1, %n)\n"
    "}\n";

TEST(hlo_export, one_output) {
    problem p = open_text(element_wise, "h200x1");
    set_group(&p, "a", 500);
    set_group(&p, "e", 500);
    export_well(&p, "hlo");
    CHECK(has(&p, "  %a = f32[8,16]{1,0} add(%stowage_parameter."));
    CHECK(has(&p, "  ROOT %w = f32[8,16]{1,0} exponential(%a)\n}"));
    CHECK(has(&p, "kind=kLoop, calls=%stowage_fused."));
    CHECK(!has(&p, "%wrapped") && has(&p, "%sum (l")); /* nobody calls it any more */
    CHECK(!has(&p, "%e)") && !has(&p, "(%e,"));
    check_before(&p, "%stowage_fused.", "ENTRY %main");
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "out", &graph, &p.error), STW_OK);
    CHECK_STR(p.error.message, "");
    if (graph != NULL) CHECK_EQ_INT(graph->op_count, p.graph->op_count - 1);
    stw_graph_destroy(graph);
    close_problem(&p);
}

TEST(hlo_export, several_outputs) {
    problem p = open_text(element_wise, "h200x2");
    set_group(&p, "e", 907);
    set_group(&p, "m", 907);
    set_group(&p, "r1", 907);
    set_group(&p, "n", 907);
    export_well(&p, "hlo");
    CHECK(has(&p, "%stowage_results."));
    CHECK(has(&p, " = (f32[8,16]{1,0}, f32[8]{0}, f32[8,16]{1,0}) tuple(%m, %r1, %n)\n}"));
    CHECK(has(&p, "kind=kInput, calls=%stowage_fused."));
    CHECK(has(&p, "), index=2\n"));
    CHECK(has(&p, "constant(0)")); /* the copy within */
    check_before(&p, "constant(0)", "ENTRY");
    CHECK(strstr(strstr(p.out, "ENTRY"), "constant(0)") == NULL);        /* and nobody reads the original */
    CHECK(has(&p, "frontend_attributes={stowage_device=\"h200:0\"}\n")); /* a tuple: no sharding */
    CHECK(has(&p, "ROOT %t = (f32[8,16]{1,0}, f32[8]{0}, f32[8,16]{1,0}) tuple(%stowage_result."));
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "out", &graph, &p.error), STW_OK);
    if (graph != NULL) CHECK_EQ_INT(graph->op_count, 2);
    stw_graph_destroy(graph);
    close_problem(&p);
}

TEST(hlo_export, recomputed) {
    problem p = open_text(element_wise, "h200x1");
    set_group(&p, "a", -1);
    set_group(&p, "e", -1);
    export_well(&p, "hlo");
    const char *once = has(&p, "add(%stowage_parameter") ? strstr(p.out, "add(%stowage_parameter") : NULL;
    CHECK(once != NULL && strstr(once + 1, "add(%stowage_parameter") != NULL);
    CHECK(has(&p, "  %w = f32[8,16]{1,0} exponential(%a)") && has(&p, " = f32[8,16]{1,0} exponential(%a."));
    CHECK(has(&p, "  %m = f32[8,16]{1,0} multiply(%w") || has(&p, "  ROOT %m = f32[8,16]{1,0} multiply(%w"));
    CHECK(strstr(strstr(p.out, "ENTRY"), "%a ") == NULL && strstr(strstr(p.out, "ENTRY"), "%e ") == NULL);
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "out", &graph, &p.error), STW_OK);
    CHECK_STR(p.error.message, "");
    if (graph != NULL) CHECK_EQ_INT(graph->op_count, 3);
    stw_graph_destroy(graph);
    close_problem(&p);
}

/* A view between members, a part of what a member yields, and the root itself fused. */
TEST(hlo_export, views_within) {
    problem p = open_text(
        "HloModule views\n"
        "f {\n"
        "  p = f32[8,16] parameter(0)\n"
        "  u = f32[8,16] tanh(p)\n"
        "  v = f32[8,16] negate(p)\n"
        "  ROOT t = (f32[8,16], f32[8,16]) tuple(u, v)\n"
        "}\n"
        "ENTRY main {\n"
        "  x = f32[8,16] parameter(0)\n"
        "  f1 = (f32[8,16], f32[8,16]) fusion(x), kind=kLoop, calls=f\n"
        "  g0 = f32[8,16] get-tuple-element(f1), index=0\n"
        "  g1 = f32[8,16] get-tuple-element(f1), index=1\n"
        "  flat = f32[128] bitcast(g1)\n"
        "  k = f32[128] cosine(flat)\n"
        "  ROOT out = f32[128] add(k, k)\n"
        "}\n",
        "h200x1");
    set_group(&p, "f1", 903);
    set_group(&p, "k", 903);
    set_group(&p, "out", 903);
    CHECK_EQ_INT(run(&p, "hlo"), STW_ERROR_INPUT); /* g0, which nobody reads, is an output of another shape */
    CHECK_CONTAINS(p.error.message, "another shape");
    set_group(&p, "out", 904);
    CHECK_EQ_INT(run(&p, "hlo"), STW_ERROR_INPUT);
    close_problem(&p);
}

TEST(hlo_export, parts_of_a_member) {
    problem p = open_text(
        "HloModule parts\n"
        "f {\n"
        "  p = f32[8,16] parameter(0)\n"
        "  u = f32[8,16] tanh(p)\n"
        "  v = f32[8,16] negate(p)\n"
        "  ROOT t = (f32[8,16], f32[8,16]) tuple(u, v)\n"
        "}\n"
        "ENTRY main {\n"
        "  x = f32[8,16] parameter(0)\n"
        "  f1 = (f32[8,16], f32[8,16]) fusion(x), kind=kLoop, calls=f\n"
        "  g0 = f32[8,16] get-tuple-element(f1), index=0\n"
        "  g1 = f32[8,16] get-tuple-element(f1), index=1\n"
        "  same = f32[8,16] bitcast(g1)\n"
        "  k = f32[8,16] cosine(same)\n"
        "  ROOT out = (f32[8,16], f32[8,16]) tuple(k, g0)\n"
        "}\n",
        "h200x1");
    set_group(&p, "f1", 903);
    set_group(&p, "k", 903);
    export_well(&p, "hlo");
    CHECK(has(&p, "  same = f32[8,16] bitcast(v)\n  k = f32[8,16] cosine(same)\n"));
    CHECK(has(&p, "tuple(u, k)\n}") && has(&p, "  g0 = f32[8,16] get-tuple-element(stowage_fusion."));
    CHECK(strstr(strstr(p.out, "ENTRY"), "same") == NULL);
    close_problem(&p);
}

/* ---- what is refused ---- */

TEST(hlo_export, refused) {
    problem p = open_text(
        "HloModule m\n"
        "f {\n"
        "  p = f32[64] parameter(0)\n"
        "  ROOT q = f32[64] exponential(p)\n"
        "}\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  a = f32[64] tanh(x)\n"
        "  s = f32[64] call(a), to_apply=f\n"
        "  k = f32[64] fusion(x), kind=kCustom, calls=f\n"
        "  b = f32[64] add(a, s)\n"
        "  ROOT c = f32[64] subtract(b, k)\n"
        "}\n",
        "h200x1");
    set_group(&p, "s", 901);
    set_group(&p, "b", 901);
    CHECK_EQ_INT(run(&p, "hlo"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "'s' (call) may not be in one");
    set_group(&p, "s", 903);
    set_group(&p, "b", 904);
    set_group(&p, "k", 901);
    set_group(&p, "c", 901);
    CHECK_EQ_INT(run(&p, "hlo"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "another kind than kLoop and kInput");
    set_group(&p, "k", 905);
    set_group(&p, "b", 901);
    set_group(&p, "s", 902);
    set_group(&p, "c", 901);
    export_well(&p, "hlo");

    /* Another model than the graph's, and none at all. */
    p.model = stw_str_of(two_chains);
    CHECK_EQ_INT(run(&p, "hlo"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "is not the one that the plan's graph was read from");
    p.model = STW_STR("{\"format\":\"opgraph\"}");
    CHECK_EQ_INT(run(&p, "hlo-text"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "no HLO module");
    close_problem(&p);
}

/* ---- buffers that are overwritten ---- */

static const char in_place[] =
    "HloModule place, is_scheduled=true\n"
    "update {\n"
    "  p = f32[64] parameter(0)\n"
    "  q = f32[8] parameter(1)\n"
    "  k = s32[] constant(4)\n"
    "  n = f32[8] negate(q)\n"
    "  ROOT d = f32[64] dynamic-update-slice(p, n, k)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[64] parameter(0)\n"
    "  a = f32[64] tanh(x)\n"
    "  v = f32[64] bitcast(a)\n"
    "  r = f32[64] cosine(v)\n"
    "  u = f32[8] slice(x), slice={[0:8]}\n"
    "  w = f32[64] fusion(a, u), kind=kLoop, calls=update\n"
    "  z = f32[64] sine(r)\n"
    "  ROOT t = (f32[64], f32[64]) tuple(z, w)\n"
    "}\n";

TEST(hlo_export, readers_before_writer) {
    problem p = open_text(in_place, "h200x1");
    set_priority(&p, "r", -5.0); /* the plan would read last */
    export_well(&p, "hlo");
    check_before(&p, "  r = ", "  w = ");
    /* A group that reads what it overwrites. */
    set_group(&p, "r", 901);
    set_group(&p, "w", 901);
    set_group(&p, "z", 901);
    CHECK_EQ_INT(run(&p, "hlo"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "writes over what another member reads");
    /* One that would have to overwrite before r, on which it waits, has read. */
    set_group(&p, "r", 902);
    CHECK_EQ_INT(run(&p, "hlo"), STW_OK);
    check_before(&p, "  r = ", " fusion(");
    close_problem(&p);
}

TEST(hlo_export, readers_before_loop) {
    problem p = open_text(
        "HloModule loop, is_scheduled=true, input_output_alias={ {1}: (0, {}, may-alias) }\n"
        "body {\n"
        "  s = (s32[], f32[64]) parameter(0)\n"
        "  i = s32[] get-tuple-element(s), index=0\n"
        "  one = s32[] constant(1)\n"
        "  j = s32[] add(i, one)\n"
        "  b = f32[64] get-tuple-element(s), index=1\n"
        "  c = f32[64] cosine(b)\n"
        "  ROOT n = (s32[], f32[64]) tuple(j, c)\n"
        "}\n"
        "condition {\n"
        "  q = (s32[], f32[64]) parameter(0)\n"
        "  h = s32[] get-tuple-element(q), index=0\n"
        "  most = s32[] constant(5)\n"
        "  ROOT less = pred[] compare(h, most), direction=LT\n"
        "}\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  zero = s32[] constant(0)\n"
        "  a = f32[64] tanh(x)\n"
        "  r = f32[64] sine(a)\n"
        "  y = f32[64] negate(x)\n"
        "  init = (s32[], f32[64]) tuple(zero, a)\n"
        "  w = (s32[], f32[64]) while(init), condition=condition, body=body\n"
        "  g = f32[64] get-tuple-element(w), index=1\n"
        "  z = f32[64] add(g, g)\n"
        "  d = f32[64] divide(r, y)\n"
        "  ROOT t = (f32[64], f32[64]) tuple(d, z)\n"
        "}\n",
        "h200x1");
    set_priority(&p, "r", -5.0);
    set_priority(&p, "y", -6.0);
    export_well(&p, "hlo");
    check_before(&p, "  r = ", "  w = ");
    check_before(&p, "  y = ", "  z = "); /* z is written over x */
    check_before(&p, "  w = ", "  g = ");
    CHECK(has(&p, "\nbody {\n") && has(&p, "condition=condition, body=body"));
    close_problem(&p);
}

/* ---- protobuf ---- */

static const char *const names[] = {"hlo_conv", "hlo_train", "hlo_fused"};

static bool load(const char *name, stw_arena *arena, stw_str *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/import/data/%s.pb", STW_SOURCE_DIR, name);
    return CHECK_EQ_INT(stw_file_read(path, arena, out, NULL), STW_OK);
}

/* Every node of a is in b, by name. */
static void check_same_nodes(const stw_graph *a, const stw_graph *b) {
    if (!CHECK(a != NULL && b != NULL) || !CHECK_EQ_INT(a->N, b->N)) return;
    for (int32_t i = 0; i < a->N; i++) {
        int32_t k = 0;
        while (k < b->N && !stw_str_equal(a->node_name[i], b->node_name[k])) k++;
        test_context("%.*s", STW_STR_SHOW(a->node_name[i]));
        if (!CHECK(k < b->N)) continue;
        CHECK_EQ_INT(a->bytes[i], b->bytes[k]);
        CHECK_EQ_INT(a->flops[i], b->flops[k]);
        CHECK_EQ_INT(a->kind[i], b->kind[k]);
        CHECK_EQ_INT(a->input_start[i + 1] - a->input_start[i], b->input_start[k + 1] - b->input_start[k]);
    }
    test_context("%s", "");
}

TEST(hlo_export, proto_reads_back) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        stw_arena arena;
        stw_str bytes;
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        if (load(names[k], &arena, &bytes)) {
            problem p = open_bytes(bytes, "h200x2");
            stw_graph *graph = NULL, *text = NULL;
            export_well(&p, "hlo");
            CHECK(stw_hlo_proto_is((stw_str){p.out, (int64_t)p.out_size}));
            CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "out", &graph, &p.error), STW_OK);
            CHECK_STR(p.error.message, "");
            check_same_nodes(p.graph, graph);
            export_well(&p, "hlo-text");
            CHECK(stw_hlo_text_is((stw_str){p.out, (int64_t)p.out_size}));
            CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "text", &text, &p.error), STW_OK);
            CHECK_STR(p.error.message, "");
            if (CHECK(graph != NULL && text != NULL)) CHECK_STR(graph->fingerprint, text->fingerprint);
            stw_graph_destroy(graph);
            stw_graph_destroy(text);
            close_problem(&p);
        }
        stw_arena_destroy(&arena);
    }
}

/* Fields that nobody knows, in the module, the entry and an instruction, survive; HloProto stays HloProto. */
static stw_str with_unknown(stw_str bytes, stw_arena *arena) {
    stw_error error = {0};
    stw_pb_file file = stw_pb_open(bytes, &error);
    stw_pb module = stw_pb_message(&file);
    stw_pb_writer w = {.arena = arena};
    stw_str out = {0};
    const int64_t outer = stw_pb_begin(&w, 1);
    for (stw_pb_field f; stw_pb_next(&module, &f);) {
        if (f.number != 3) {
            stw_pb_write_raw(&w, (stw_str){f.at, (int64_t)(module.cursor - f.at)});
            continue;
        }
        const int64_t computation = stw_pb_begin(&w, 3);
        stw_pb fields = stw_pb_range(&file, f.bytes, 1);
        for (stw_pb_field g; stw_pb_next(&fields, &g);) {
            if (g.number != 2) {
                stw_pb_write_raw(&w, (stw_str){g.at, (int64_t)(fields.cursor - g.at)});
                continue;
            }
            const int64_t instruction = stw_pb_begin(&w, 2);
            stw_pb_write_raw(&w, g.bytes);
            stw_pb_write_string(&w, 900, STW_STR("of an instruction"));
            stw_pb_end(&w, instruction);
        }
        stw_pb_write_string(&w, 901, STW_STR("of a computation"));
        stw_pb_end(&w, computation);
    }
    stw_pb_write_string(&w, 902, STW_STR("of the module"));
    stw_pb_end(&w, outer);
    stw_pb_write_string(&w, 903, STW_STR("of the file"));
    CHECK_EQ_INT(stw_pb_written(&w, &out, NULL), STW_OK);
    return out;
}

static int32_t count_parts(const char *bytes, size_t size, const char *part) {
    int32_t count = 0;
    const size_t length = strlen(part);
    for (size_t k = 0; k + length <= size; k++) count += memcmp(bytes + k, part, length) == 0;
    return count;
}

TEST(hlo_export, unknown_fields_survive) {
    static const char *const marks[] = {"of an instruction", "of a computation", "of the module", "of the file"};
    stw_arena arena;
    stw_str bytes;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_train", &arena, &bytes)) {
        const stw_str model = with_unknown(bytes, &arena);
        problem p = open_bytes(model, "h200x2");
        export_well(&p, "hlo");
        for (int k = 0; k < 4; k++) {
            CHECK_EQ_INT(count_parts(p.out, p.out_size, marks[k]), count_parts(model.p, (size_t)model.length, marks[k]));
        }
        CHECK_EQ_INT(p.out[0], 0x0a); /* field 1 */
        close_problem(&p);
    }
    stw_arena_destroy(&arena);
}

static bool can_fuse(stw_str op) { return !stw_str_is(op, "call") && !stw_str_is(op, "conditional") && !stw_str_is(op, "while"); }

/* Fuses each op that can be with its only reader, where the reader can be too, in pairs. */
static int32_t fuse_pairs(problem *p) {
    const stw_graph *graph = p->graph;
    int32_t pairs = 0;
    int32_t *group = stw_plan_group(p->plan);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] != STW_CLASS_ELEMENTWISE || group[i] != i || graph->kept[i])
            continue;
        if (graph->reader_start[i + 1] - graph->reader_start[i] != 1) continue;
        const int32_t reader = graph->reader[graph->reader_start[i]].node;
        if (graph->op_class[reader] != STW_CLASS_ELEMENTWISE || group[reader] != reader) continue;
        if (!can_fuse(graph->op_name[i]) || !can_fuse(graph->op_name[reader])) continue;
        group[i] = group[reader] = 100000 + pairs++;
    }
    return pairs;
}

TEST(hlo_export, proto_fusions) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        stw_arena arena;
        stw_str bytes;
        test_context("%s", names[k]);
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        if (load(names[k], &arena, &bytes)) {
            problem p = open_bytes(bytes, "h200x1");
            stw_graph *graph = NULL, *text = NULL;
            const int32_t pairs = fuse_pairs(&p);
            export_well(&p, "hlo");
            CHECK_EQ_INT(count_parts(p.out, p.out_size,
                                     "\x12\x06"
                                     "fusion") -
                             count_parts(bytes.p, (size_t)bytes.length,
                                         "\x12\x06"
                                         "fusion"),
                         pairs);
            CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "out", &graph, &p.error), STW_OK);
            CHECK_STR(p.error.message, "");
            if (CHECK(graph != NULL)) CHECK_EQ_INT(graph->op_count, p.graph->op_count - pairs);
            for (int32_t i = 0; i < p.graph->N; i++) { /* every instruction is still there */
                char name[200];
                snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(p.graph->node_name[i]));
                if (p.graph->kind[i] == STW_NODE_OP) CHECK(count_parts(p.out, p.out_size, name) > 0);
            }
            export_well(&p, "hlo-text");
            CHECK_EQ_INT(stw_graph_parse(p.out, p.out_size, "text", &text, &p.error), STW_OK);
            CHECK_STR(p.error.message, "");
            if (CHECK(graph != NULL && text != NULL)) CHECK_STR(graph->fingerprint, text->fingerprint);
            stw_graph_destroy(graph);
            stw_graph_destroy(text);
            close_problem(&p);
        }
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
}
