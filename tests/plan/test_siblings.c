#define _GNU_SOURCE /* memmem */

/* plan/siblings and the rows of plan/merge, on modules of XLA: kernels with several outputs, and kernels that hold rows. */
#include "plan/siblings.h"

#include <stdio.h>
#include <string.h>

#include "import/import.h"
#include "test.h"

#define ADD                        \
    "HloModule m\n"                \
    "add {\n"                      \
    "  p = f32[] parameter(0)\n"   \
    "  q = f32[] parameter(1)\n"   \
    "  ROOT r = f32[] add(p, q)\n" \
    "}\n"                          \
    "ENTRY main {\n"               \
    "  zero = f32[] constant(0)\n"

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_str model;
} problem;

static problem open_problem(const char *text, bool by_rows) {
    char device[400];
    problem p = {.model = stw_str_of(text)};
    stw_error error = {0};
    snprintf(device, sizeof device,
             "{\"format\":\"machine\",\"version\":1,\"name\":\"one\",\"devices\":[{\"name\":\"gpu\",\"kind\":\"h200\","
             "\"memory_bytes\":100000000000%s}],\"links\":[]}",
             by_rows ? ",\"fuses_epilogue\":[\"reduce\"]" : "");
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "module", NULL, &p.graph, &error), STW_OK);
    CHECK_EQ_INT(stw_machine_parse(device, strlen(device), "machine", &p.machine, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_costs_create(p.graph, p.machine, NULL, &p.costs, &error), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(p.costs, &p.simulator, &error), STW_OK);
    CHECK_EQ_INT(stw_plan_create(p.graph, p.machine, &p.plan, &error), STW_OK);
    return p;
}

static void close_problem(problem *p) {
    stw_plan_destroy(p->plan);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

static int32_t group_of(const problem *p, const char *name) {
    for (int32_t i = 0; i < p->graph->N; i++) {
        if (stw_str_is(p->graph->node_name[i], name)) return p->plan->group[i];
    }
    CHECK_STR(name, "a node of the graph");
    return -2;
}

static double step_by(problem *p, const char *rule) {
    stw_evaluation evaluation = {0};
    stw_workspace *workspace;
    stw_error error = {0};
    CHECK_EQ_INT(stw_plan_fuse(p->plan, p->costs, rule, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_workspace_create(p->simulator, &workspace, &error), STW_OK);
    CHECK_EQ_INT(stw_simulate(p->simulator, p->plan, workspace, &evaluation, &error), STW_OK);
    CHECK_EQ_INT(evaluation.reason, STW_VALID);
    stw_workspace_destroy(workspace);
    return evaluation.step_s;
}

/* Two sums over the same tensor, and a value that others read too, come from one loop. */
TEST(siblings, readers_of_a_value) {
    problem p = open_problem(
        "HloModule m\n"
        "add {\n"
        "  p = f32[] parameter(0)\n"
        "  q = f32[] parameter(1)\n"
        "  ROOT r = f32[] add(p, q)\n"
        "}\n"
        "wrapped_reduce {\n"
        "  v = f32[8192,4096]{1,0} parameter(0)\n"
        "  z = f32[] parameter(1)\n"
        "  ROOT s = f32[8192]{0} reduce(v, z), dimensions={1}, to_apply=add\n"
        "}\n"
        "ENTRY main {\n"
        "  zero = f32[] constant(0)\n"
        "  x = f32[8192,4096]{1,0} parameter(0)\n"
        "  t = f32[8192,4096]{1,0} tanh(x)\n"
        "  a = f32[8192]{0} fusion(x, zero), kind=kInput, calls=wrapped_reduce\n"
        "  b = f32[8192]{0} fusion(t, zero), kind=kInput, calls=wrapped_reduce\n"
        "  c = f32[8192]{0} cosine(a)\n"
        "  ROOT out = (f32[8192,4096]{1,0}, f32[8192]{0}, f32[8192]{0}) tuple(t, b, c)\n"
        "}\n",
        false);
    const double apart = step_by(&p, "default"), joined = step_by(&p, "joined");
    CHECK(joined < 0.7 * apart);
    CHECK_EQ_INT(group_of(&p, "a"), group_of(&p, "b"));
    CHECK_EQ_INT(group_of(&p, "t"), group_of(&p, "b"));
    CHECK(group_of(&p, "c") != group_of(&p, "a")); /* what a loop has reduced, the same loop cannot read */
    close_problem(&p);
}

/* y and w read x, but w also waits for what is made of y by way of a product. */
TEST(siblings, not_around_others) {
    problem p = open_problem(ADD
                             "  x = f32[2048,2048]{1,0} parameter(0)\n"
                             "  y = f32[2048,2048]{1,0} tanh(x)\n"
                             "  d = f32[2048,2048]{1,0} dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                             "  w = f32[2048,2048]{1,0} add(x, d)\n"
                             "  z = f32[2048,2048]{1,0} cosine(x)\n"
                             "  ROOT out = (f32[2048,2048]{1,0}, f32[2048,2048]{1,0}) tuple(w, z)\n"
                             "}\n",
                             false);
    step_by(&p, "joined");
    CHECK(group_of(&p, "y") != group_of(&p, "w"));
    CHECK(group_of(&p, "z") == group_of(&p, "y") || group_of(&p, "z") == group_of(&p, "w"));
    close_problem(&p);
}

/* A few values for each of many elements: what is cheap is computed again, a root is not. */
TEST(siblings, dear_ops_are_not_repeated) {
    problem p = open_problem(ADD
                             "  x = f32[65536,256]{1,0} parameter(0)\n"
                             "  v = f32[256]{0} parameter(1)\n"
                             "  r = f32[256]{0} rsqrt(v)\n"
                             "  b = f32[65536,256]{1,0} broadcast(r), dimensions={1}\n"
                             "  s = f32[256]{0} add(v, v)\n"
                             "  c = f32[65536,256]{1,0} broadcast(s), dimensions={1}\n"
                             "  m = f32[65536,256]{1,0} multiply(x, b)\n"
                             "  ROOT y = f32[65536,256]{1,0} add(m, c)\n"
                             "}\n",
                             false);
    step_by(&p, "default");
    CHECK_EQ_INT(group_of(&p, "b"), group_of(&p, "y"));
    CHECK_EQ_INT(group_of(&p, "s"), group_of(&p, "y"));
    CHECK(group_of(&p, "r") != group_of(&p, "y"));
    close_problem(&p);
}

static const char softmax[] = ADD
    "  x = f32[64,128,512]{2,1,0} parameter(0)\n"
    "  e = f32[64,128,512]{2,1,0} exponential(x)\n"
    "  s = f32[64,128]{1,0} reduce(e, zero), dimensions={2}, to_apply=add\n"
    "  b = f32[64,128,512]{2,1,0} broadcast(s), dimensions={0,1}\n"
    "  ROOT y = f32[64,128,512]{2,1,0} divide(e, b)\n"
    "}\n";

static bool export_has(problem *p, const char *what) {
    stw_export_io io = {.model = p->model.p, .model_size = (size_t)p->model.length};
    stw_error error = {0};
    CHECK_EQ_INT(stw_plan_export(p->simulator, p->plan, "hlo", NULL, &io, &error), STW_OK);
    CHECK_STR(error.message, "");
    const bool found = memmem(io.bytes, io.size, what, strlen(what)) != NULL;
    stw_bytes_free(io.bytes);
    return found;
}

TEST(siblings, rows_are_held_where_the_device_can) {
    problem p = open_problem(softmax, false);
    const double apart = step_by(&p, "default");
    CHECK(group_of(&p, "s") != group_of(&p, "y"));
    CHECK(!export_has(&p, "__triton"));
    close_problem(&p);
    p = open_problem(softmax, true);
    CHECK(step_by(&p, "default") < 0.8 * apart);
    CHECK_EQ_INT(group_of(&p, "s"), group_of(&p, "y"));
    CHECK(export_has(&p, "kind=kCustom") && export_has(&p, "\"kind\":\"__triton\""));
    CHECK(export_has(&p, "\"sizes\":[\"1\",\"16\",\"512\"]"));
    close_problem(&p);
}

/* Of what is sliced afterwards a kernel computes only a part, so a bound for any groups must not count the whole. */
TEST(siblings, the_bound_for_any_groups_knows_of_parts) {
    problem p = open_problem(
        "HloModule m\n"
        "ENTRY main {\n"
        "  p0 = f32[4096,4096] parameter(0)\n"
        "  e0 = f32[4096,4096] exponential(p0)\n"
        "  e1 = f32[4096,4096] tanh(e0)\n"
        "  s0 = f32[16,16] slice(e1), slice={[0:16], [0:16]}\n"
        "  ROOT n0 = f32[16,16] negate(s0)\n"
        "}\n",
        false);
    stw_bounds bounds;
    stw_error error = {0};
    const double none = step_by(&p, "none"), fused = step_by(&p, "default");
    CHECK_EQ_INT(stw_lower_bounds(p.simulator, p.plan, &bounds, &error), STW_OK);
    CHECK(fused < 0.5 * none);
    CHECK(bounds.fusion_s <= fused);
    close_problem(&p);
}
