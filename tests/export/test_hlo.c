/* export/hlo: plans in HLO text: order, fused computations, devices, and what must not be done. */
#include <stdlib.h>

#include "hlo_problem.h"

/* ---- order ---- */

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
    CHECK_EQ_INT(p.io.size, p.model.length + (int64_t)strlen(", is_scheduled=true"));
    close_problem(&p);
}

TEST(hlo_export, devices) {
    problem p = open_text(two_chains, "h200x2");
    p.plan->device[node_of(&p, "b1")] = p.plan->device[node_of(&p, "b2")] = 1;
    export_well(&p, "hlo");
    CHECK(has(&p,
              "%a1 = f32[64]{0} tanh(f32[64]{0} %x), frontend_attributes={stowage_device=\"h200:0\"}, sharding={maximal "
              "device=0}"));
    CHECK(has(&p, "sine(f32[64]{0} %b1), frontend_attributes={stowage_device=\"h200:1\"}, sharding={maximal device=1}"));
    CHECK(has(&p, "tuple(%a2, %b2)\n")); /* no task */

    /* Exported again with another plan, the new devices replace the old. */
    char *first = calloc(1, p.io.size + 1);
    memcpy(first, p.io.bytes, p.io.size);
    problem again = open_text(first, "h200x2");
    again.plan->device[node_of(&again, "a2")] = 1;
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

/* ---- fusions ---- */

static const char element_wise[] =
    "HloModule fuse\n"
    "\n"
    "%sum (l: f32[], r: f32[]) -> f32[] {\n"
    "  %l = f32[] parameter(0)\n"
    "  %r = f32[] parameter(1)\n"
    "  ROOT %s = f32[] add(%l, %r)\n"
    "}\n"
    "\n"
    "%wrapped_sum (q: f32[8,16], z: f32[]) -> f32[8] {\n"
    "  %q = f32[8,16]{1,0} parameter(0)\n"
    "  %z = f32[] parameter(1)\n"
    "  ROOT %rows = f32[8]{0} reduce(%q, %z), dimensions={1}, to_apply=%sum\n"
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
    "  %r1 = f32[8]{0} fusion(%m, %zero), kind=kInput, calls=%wrapped_sum\n"
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
    CHECK(!has(&p, "%wrapped (") && has(&p, "%sum (l")); /* nobody calls it any more */
    CHECK(!has(&p, "%e)") && !has(&p, "(%e,"));
    check_before(&p, "%stowage_fused.", "ENTRY %main");
    check_op_count(&p, p.graph->op_count - 1);
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
    CHECK(has(&p, " = (f32[8,16]{1,0}, f32[8]{0}, f32[8,16]{1,0}) tuple(%m, %rows, %n)\n}"));
    CHECK(has(&p, "kind=kInput, calls=%stowage_fused."));
    CHECK(has(&p, "), index=2\n"));
    CHECK(has(&p, "constant(0)")); /* the copy within */
    check_before(&p, "constant(0)", "ENTRY");
    CHECK(strstr(strstr(p.io.bytes, "ENTRY"), "constant(0)") == NULL);   /* and nobody reads the original */
    CHECK(has(&p, "frontend_attributes={stowage_device=\"h200:0\"}\n")); /* a tuple: no sharding */
    CHECK(has(&p, "ROOT %t = (f32[8,16]{1,0}, f32[8]{0}, f32[8,16]{1,0}) tuple(%stowage_result."));
    check_op_count(&p, 2);
    close_problem(&p);
}

TEST(hlo_export, recomputed) {
    problem p = open_text(element_wise, "h200x1");
    set_group(&p, "a", -1);
    set_group(&p, "e", -1);
    export_well(&p, "hlo");
    const char *once = has(&p, "add(%stowage_parameter") ? strstr(p.io.bytes, "add(%stowage_parameter") : NULL;
    CHECK(once != NULL && strstr(once + 1, "add(%stowage_parameter") != NULL);
    CHECK(has(&p, "  %w = f32[8,16]{1,0} exponential(%a)") && has(&p, " = f32[8,16]{1,0} exponential(%a."));
    CHECK(has(&p, "  %m = f32[8,16]{1,0} multiply(%w") || has(&p, "  ROOT %m = f32[8,16]{1,0} multiply(%w"));
    CHECK(strstr(strstr(p.io.bytes, "ENTRY"), "%a ") == NULL && strstr(strstr(p.io.bytes, "ENTRY"), "%e ") == NULL);
    check_op_count(&p, 3);
    close_problem(&p);
}

/* A fusion with two results, and lines of the entry that read them. */
#define TWO_RESULTS(lines)                                           \
    "HloModule parts\n"                                              \
    "f {\n"                                                          \
    "  p = f32[8,16] parameter(0)\n"                                 \
    "  u = f32[8,16] tanh(p)\n"                                      \
    "  v = f32[8,16] negate(p)\n"                                    \
    "  ROOT t = (f32[8,16], f32[8,16]) tuple(u, v)\n"                \
    "}\n"                                                            \
    "ENTRY main {\n"                                                 \
    "  x = f32[8,16] parameter(0)\n"                                 \
    "  f1 = (f32[8,16], f32[8,16]) fusion(x), kind=kLoop, calls=f\n" \
    "  g0 = f32[8,16] get-tuple-element(f1), index=0\n" lines "}\n"

static problem open_two_results(const char *text) {
    problem p = open_text(text, "h200x1");
    set_group(&p, "f1", 903);
    set_group(&p, "k", 903);
    return p;
}

TEST(hlo_export, results_of_other_shapes) {
    problem p =
        open_two_results(TWO_RESULTS("  g1 = f32[8,16] get-tuple-element(f1), index=1\n"
                                     "  flat = f32[128] bitcast(g1)\n"
                                     "  k = f32[128] cosine(flat)\n"
                                     "  o = f32[128] add(k, k)\n"
                                     "  ROOT out = (f32[128], f32[8,16], f32[8,16]) tuple(o, g1, g0)\n"));
    set_group(&p, "o", 903);
    check_invalid(&p, "'o' (add) is a result of another shape than the others");
    set_group(&p, "o", 904);
    check_invalid(&p, "'k' (cosine) is a result of another shape than the others");
    close_problem(&p);

    /* A part that nobody reads is written all the same. */
    p =
        open_two_results(TWO_RESULTS("  g1 = f32[8,16] get-tuple-element(f1), index=1\n"
                                     "  flat = f32[128] bitcast(g1)\n"
                                     "  ROOT k = f32[128] cosine(flat)\n"));
    check_invalid(&p, "'k' (cosine) is a result of another shape than the others");
    close_problem(&p);
}

TEST(hlo_export, parts_of_a_member) {
    problem p =
        open_two_results(TWO_RESULTS("  g1 = f32[8,16] get-tuple-element(f1), index=1\n"
                                     "  same = f32[8,16] bitcast(g1)\n"
                                     "  k = f32[8,16] cosine(same)\n"
                                     "  ROOT out = (f32[8,16], f32[8,16]) tuple(k, g0)\n"));
    export_well(&p, "hlo");
    CHECK(has(&p, "  same = f32[8,16] bitcast(v)\n  k = f32[8,16] cosine(same)\n"));
    CHECK(has(&p, "tuple(u, k)\n}") && has(&p, "  g0 = f32[8,16] get-tuple-element(stowage_fusion."));
    CHECK(strstr(strstr(p.io.bytes, "ENTRY"), "same") == NULL);
    close_problem(&p);
}

/* The results as a whole go into another tuple and come out of it again, at another index than the part that is read. */
TEST(hlo_export, parts_through_a_tuple) {
    problem p =
        open_two_results(TWO_RESULTS("  nest = (f32[8,16], (f32[8,16], f32[8,16])) tuple(x, f1)\n"
                                     "  whole = (f32[8,16], f32[8,16]) get-tuple-element(nest), index=1\n"
                                     "  g1 = f32[8,16] get-tuple-element(whole), index=0\n"
                                     "  k = f32[8,16] cosine(g1)\n"
                                     "  ROOT out = (f32[8,16], f32[8,16]) tuple(k, g0)\n"));
    export_well(&p, "hlo");
    CHECK(has(&p, "  k = f32[8,16] cosine(u)\n")); /* not v, the second result */
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
    check_invalid(&p, "'s' (call) is control flow: a loop, a branch or a call");
    set_group(&p, "s", 903);
    set_group(&p, "b", 904);
    set_group(&p, "k", 901);
    set_group(&p, "c", 901);
    check_invalid(&p, "another kind than kLoop, kInput and kCustom of Triton");
    set_group(&p, "k", 905);
    set_group(&p, "b", 901);
    set_group(&p, "s", 902);
    set_group(&p, "c", 901);
    export_well(&p, "hlo");

    /* Another model than the graph's, and none at all. */
    p.model = stw_str_of(two_chains);
    check_refused(&p, "is not the one that the plan's graph was read from");
    p.model = STW_STR("{\"format\":\"opgraph\"}");
    CHECK_EQ_INT(run(&p, "hlo-text"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p.error.message, "not an HLO module");
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
    check_invalid(&p, "writes over what another member of its group reads");
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
