/* export/hlo and plan/kernel_rules: what is valid can be exported, and what cannot be one kernel is in no group of any rule. */
#include "hlo_problem.h"
#include "plan/fuse.h"

/* Element-wise ops around a call, a loop, a branch and a random number: each takes and gives one array of the same shape. */
static const char with_bodies[] =
    "HloModule bodies\n"
    "f {\n"
    "  p = f32[64] parameter(0)\n"
    "  ROOT q = f32[64] exponential(p)\n"
    "}\n"
    "g {\n"
    "  p2 = f32[64] parameter(0)\n"
    "  ROOT q2 = f32[64] negate(p2)\n"
    "}\n"
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
    "  t = (s32[], f32[64]) parameter(0)\n"
    "  h = s32[] get-tuple-element(t), index=0\n"
    "  most = s32[] constant(5)\n"
    "  ROOT less = pred[] compare(h, most), direction=LT\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[64] parameter(0)\n"
    "  which = pred[] parameter(1)\n"
    "  zero = s32[] constant(0)\n"
    "  a = f32[64] tanh(x)\n"
    "  called = f32[64] call(a), to_apply=f\n"
    "  d = f32[64] sine(called)\n"
    "  branch = f32[64] conditional(which, d, d), true_computation=f, false_computation=g\n"
    "  e = f32[64] negate(branch)\n"
    "  init = (s32[], f32[64]) tuple(zero, e)\n"
    "  loop = (s32[], f32[64]) while(init), condition=condition, body=body\n"
    "  k = f32[64] get-tuple-element(loop), index=1\n"
    "  y = f32[64] negate(k)\n"
    "  w = f32[64] sine(y)\n"
    "  ROOT z = f32[64] cosine(w)\n"
    "}\n";

static int32_t group_of(const problem *p, const char *name) { return p->plan->group[node_of(p, name)]; }

static int32_t count_in_group(const problem *p, const char *name) {
    int32_t count = 0;
    for (int32_t i = 0; i < p->graph->N; i++) count += p->plan->group[i] == group_of(p, name);
    return count;
}

TEST(hlo_legal, bodies_join_no_group) {
    static const char *const rule[] = {"none", "default", "reverse-post-order", "joined"};
    static const char *const alone[] = {"called", "branch", "loop"};
    problem p = open_text(with_bodies, "h200x1");
    for (int r = 0; r < 4; r++) {
        test_context("rule %s", rule[r]);
        CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, rule[r], NULL), STW_OK);
        for (int k = 0; k < 3; k++) CHECK_EQ_INT(count_in_group(&p, alone[k]), 1);
        export_well(&p, "hlo");
        if (r > 0) CHECK_EQ_INT(group_of(&p, "y"), group_of(&p, "z")); /* others are fused */
    }
    test_context("%s", "");
    for (int k = 0; k < 3; k++) {
        static const char *const reader[] = {"d", "e", "y"};
        CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "none", NULL), STW_OK);
        set_group(&p, alone[k], 900);
        set_group(&p, reader[k], 900);
        check_invalid(&p, "is control flow: a loop, a branch or a call");
    }
    close_problem(&p);
}

/* No fusion makes them cheaper, so that what they take bounds every plan. */
TEST(hlo_legal, bodies_count_in_the_bound) {
    problem p = open_text(with_bodies, "h200x1");
    stw_bounds bounds = {0};
    CHECK_EQ_INT(stw_lower_bounds(p.simulator, p.plan, &bounds, NULL), STW_OK);
    const double us =
        p.costs->us[0][node_of(&p, "called")] + p.costs->us[0][node_of(&p, "branch")] + p.costs->us[0][node_of(&p, "loop")];
    CHECK(us > 0.0);
    CHECK(bounds.fusion_s > 0.999e-6 * us);
    CHECK(bounds.fusion_s <= bounds.plan_s);
    close_problem(&p);
}

/* Nor where the machine says that such a class takes an epilogue. */
TEST(hlo_legal, no_machine_changes_that) {
    static const char machine[] =
        "{\"format\":\"machine\",\"version\":1,\"name\":\"m\",\"devices\":[{\"name\":\"d\",\"kind\":\"h200\",\"memory_bytes\":"
        "1000000000000,"
        "\"fuses_epilogue\":[\"control\",\"matmul\",\"opaque\"]}],\"links\":[]}";
    problem p = open_text(with_bodies, "h200x1");
    stw_machine *other = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_machine_parse(machine, sizeof machine - 1, "m", &other, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_simulator_destroy(p.simulator);
    stw_costs_destroy(p.costs);
    stw_plan_destroy(p.plan);
    stw_machine_destroy(p.machine);
    p.machine = other;
    CHECK_EQ_INT(stw_costs_create(p.graph, p.machine, NULL, &p.costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(p.costs, &p.simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(p.graph, p.machine, &p.plan, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "reverse-post-order", NULL), STW_OK);
    CHECK_EQ_INT(count_in_group(&p, "loop"), 1);
    CHECK_EQ_INT(count_in_group(&p, "called"), 1);
    close_problem(&p);
}

/* ---- tuples and barriers, which the plan looks through ---- */

static const char behind_barrier[] =
    "HloModule barrier\n"
    "ENTRY main {\n"
    "  x = f32[64,64] parameter(0)\n"
    "  v = f32[64] parameter(1)\n"
    "  m = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  b = f32[64,64] broadcast(v), dimensions={1}\n"
    "  pack = (f32[64,64], f32[64,64]) tuple(b, m)\n"
    "  held = (f32[64,64], f32[64,64]) opt-barrier(pack)\n"
    "  g0 = f32[64,64] get-tuple-element(held), index=0\n"
    "  g1 = f32[64,64] get-tuple-element(held), index=1\n"
    "  r = f32[64,64] add(g0, g1)\n"
    "  s = f32[64,64] multiply(g0, x)\n"
    "  ROOT t = (f32[64,64], f32[64,64]) tuple(r, s)\n"
    "}\n";

/* b is computed in both kernels that read it, by way of the barrier; the entry has no use for it any more. */
TEST(hlo_legal, recomputed_behind_a_barrier) {
    problem p = open_text(behind_barrier, "h200x1");
    set_group(&p, "b", -1);
    export_well(&p, "hlo");
    CHECK(!has(&p, "opt-barrier") && has(&p, "broadcast("));
    CHECK(strstr(strstr(p.io.bytes, "ENTRY"), "broadcast(") == NULL);
    check_op_count(&p, 3);
    /* Where everything in it is written to memory, it stays. */
    set_group(&p, "b", node_of(&p, "b"));
    set_group(&p, "r", 900);
    set_group(&p, "s", 900);
    export_well(&p, "hlo");
    CHECK(has(&p, "opt-barrier"));
    check_op_count(&p, 3);
    close_problem(&p);
}

/* A member of a group behind a barrier: the fusion would have to write what the plan keeps within. */
TEST(hlo_legal, member_behind_a_barrier) {
    problem p = open_text(
        "HloModule barrier\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  a = f32[64] tanh(x)\n"
        "  h = f32[64] opt-barrier(a)\n"
        "  pack = (f32[64], f32[64]) tuple(h, x)\n"
        "  g = f32[64] get-tuple-element(pack), index=0\n"
        "  k = f32[64] get-tuple-element(pack), index=1\n"
        "  b = f32[64] add(g, k)\n"
        "  ROOT c = f32[64] negate(k)\n"
        "}\n",
        "h200x1");
    set_group(&p, "a", 900);
    set_group(&p, "b", 900);
    export_well(&p, "hlo");
    CHECK(has(&p, "  ROOT b = f32[64] add(a, "));
    CHECK(!has(&p, "tuple("));
    check_op_count(&p, 2);
    close_problem(&p);
}

/* a and c are one kernel; b, which c reads, takes its operand from a tuple with a. The plan has no cycle there. */
TEST(hlo_legal, waits_for_itself_by_a_tuple) {
    problem p = open_text(
        "HloModule tuple\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  a = f32[64] tanh(x)\n"
        "  pack = (f32[64], f32[64]) tuple(x, a)\n"
        "  held = (f32[64], f32[64]) opt-barrier(pack)\n"
        "  g = f32[64] get-tuple-element(held), index=0\n"
        "  b = f32[64] sine(g)\n"
        "  c = f32[64] add(b, x)\n"
        "  d = f32[64] get-tuple-element(held), index=1\n"
        "  e = f32[64] cosine(d)\n"
        "  ROOT t = (f32[64], f32[64]) tuple(c, e)\n"
        "}\n",
        "h200x1");
    set_group(&p, "a", 900);
    set_group(&p, "c", 900);
    export_well(&p, "hlo");
    check_before(&p, "  b = f32[64] sine(x)", " fusion(");
    check_op_count(&p, 3);
    close_problem(&p);
}

/* ---- buffers that are overwritten ---- */

/* r reads a before w writes over it; z reads both. One kernel of r and z would have to wait for w, and w for it. */
TEST(hlo_legal, waits_for_itself_by_a_buffer) {
    static const char *const rule[] = {"default", "reverse-post-order", "joined"};
    problem p = open_text(
        "HloModule place, is_scheduled=true\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  u = f32[8] parameter(1)\n"
        "  k = s32[] constant(4)\n"
        "  a = f32[64] tanh(x)\n"
        "  r = f32[64] cosine(a)\n"
        "  w = f32[64] dynamic-update-slice(a, u, k)\n"
        "  ROOT z = f32[64] add(r, w)\n"
        "}\n",
        "h200x1");
    set_group(&p, "r", 900);
    set_group(&p, "z", 900);
    check_invalid(&p, "the groups form a cycle");
    for (int k = 0; k < 3; k++) {
        test_context("rule %s", rule[k]);
        CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, rule[k], NULL), STW_OK);
        export_well(&p, "hlo");
    }
    test_context("%s", "");
    /* A plan that would begin w first: the simulator knows better. */
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "none", NULL), STW_OK);
    set_priority(&p, "w", 5.0);
    export_well(&p, "hlo");
    check_before(&p, "  r = ", "  w = ");
    close_problem(&p);
}

/* What the update puts into a is made of a: as one kernel it would read what it has written. */
TEST(hlo_legal, update_of_what_is_read) {
    static const char *const rule[] = {"default", "reverse-post-order", "joined"};
    problem p = open_text(
        "HloModule place\n"
        "update {\n"
        "  p = f32[64] parameter(0)\n"
        "  q = f32[8] parameter(1)\n"
        "  k = s32[] constant(4)\n"
        "  ROOT d = f32[64] dynamic-update-slice(p, q, k)\n"
        "}\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  y = f32[64,64] parameter(1)\n"
        "  a = f32[64] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
        "  s = f32[8] slice(a), slice={[0:8]}\n"
        "  n = f32[8] negate(s)\n"
        "  ROOT w = f32[64] fusion(a, n), kind=kLoop, calls=update\n"
        "}\n",
        "h200x1");
    for (int k = 0; k < 3; k++) {
        test_context("rule %s", rule[k]);
        CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, rule[k], NULL), STW_OK);
        CHECK(group_of(&p, "s") != group_of(&p, "w"));
        export_well(&p, "hlo");
    }
    test_context("%s", "");
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "none", NULL), STW_OK);
    set_group(&p, "s", 900);
    set_group(&p, "n", 900);
    set_group(&p, "w", 900);
    check_invalid(&p, "writes over what another member of its group reads");
    close_problem(&p);
}

/* A parameter that the step writes over: a kernel may read it element by element, but not turned round or summed up, for its
 * threads write while others read. */
TEST(hlo_legal, update_of_what_is_read_elsewhere) {
    static const char *const rule[] = {"default", "reverse-post-order", "joined"};
    problem p = open_text(
        "HloModule step, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }\n"
        "add {\n"
        "  l = f32[] parameter(0)\n"
        "  r = f32[] parameter(1)\n"
        "  ROOT both = f32[] add(l, r)\n"
        "}\n"
        "ENTRY main {\n"
        "  x = f32[64,64] parameter(0)\n"
        "  y = f32[64,64] parameter(1)\n"
        "  none = f32[] constant(0)\n"
        "  half = f32[64,64] multiply(x, x)\n"
        "  xnew = f32[64,64] add(half, x)\n"
        "  s = f32[64] reduce(y, none), dimensions={1}, to_apply=add\n"
        "  b = f32[64,64] broadcast(s), dimensions={0}\n"
        "  ynew = f32[64,64] subtract(y, b)\n"
        "  ROOT t = (f32[64,64], f32[64,64]) tuple(xnew, ynew)\n"
        "}\n",
        "h200x1");
    for (int k = 0; k < 3; k++) {
        test_context("rule %s", rule[k]);
        CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, rule[k], NULL), STW_OK);
        CHECK_EQ_INT(group_of(&p, "half"), group_of(&p, "xnew"));
        CHECK(group_of(&p, "s") != group_of(&p, "ynew"));
        export_well(&p, "hlo");
    }
    test_context("%s", "");
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "none", NULL), STW_OK);
    set_group(&p, "s", 900);
    set_group(&p, "b", 900);
    set_group(&p, "ynew", 900);
    check_invalid(&p, "comes of what its group writes over, and not element by element");
    close_problem(&p);
}

/* Who waits for an op that is recomputed waits for every fusion that it is in. */
TEST(hlo_legal, waits_for_what_is_recomputed) {
    problem p = open_text(
        "HloModule control\n"
        "ENTRY main {\n"
        "  x = f32[64] parameter(0)\n"
        "  a = f32[64] tanh(x)\n"
        "  b = f32[64] sine(a)\n"
        "  c = f32[64] cosine(a)\n"
        "  d = f32[64] negate(x), control-predecessors={a}\n"
        "  ROOT t = (f32[64], f32[64], f32[64]) tuple(b, c, d)\n"
        "}\n",
        "h200x1");
    set_group(&p, "a", -1);
    set_priority(&p, "d", 9.0);
    export_well(&p, "hlo");
    const char *line = has(&p, "control-predecessors={") ? strstr(p.io.bytes, "control-predecessors={") : "";
    CHECK(strstr(line, "stowage_fusion") != NULL);
    CHECK(strstr(p.io.bytes, "  d = ") > strstr(p.io.bytes, "c = f32[64] fusion("));
    check_before(&p, "fusion(", "  d = ");
    close_problem(&p);
}
