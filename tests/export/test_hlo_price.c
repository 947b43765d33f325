/* One kernel, one price: a fused plan that is exported and read back takes as long as before. On modules that are written here,
 * and on real ones where they are: in shared/hlo and shared/external/hlo beside the source tree. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "hlo_problem.h"

#define SUM "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"

/* x less its mean, by the root of its variance; N tells the values of several apart. */
#define LAYER_NORM(N, IN, OUT)                                    \
    "  total" N " = f32[4096]{0} reduce(" IN                      \
    ", zero), dimensions={1}, to_apply=sum\n"                     \
    "  mean" N " = f32[4096]{0} multiply(total" N                 \
    ", parts)\n"                                                  \
    "  means" N " = f32[4096,768]{1,0} broadcast(mean" N          \
    "), dimensions={0}\n"                                         \
    "  off" N " = f32[4096,768]{1,0} subtract(" IN ", means" N    \
    ")\n"                                                         \
    "  square" N " = f32[4096,768]{1,0} multiply(off" N ", off" N \
    ")\n"                                                         \
    "  spread" N " = f32[4096]{0} reduce(square" N                \
    ", zero), dimensions={1}, to_apply=sum\n"                     \
    "  variance" N " = f32[4096]{0} multiply(spread" N            \
    ", parts)\n"                                                  \
    "  scale" N " = f32[4096]{0} rsqrt(variance" N                \
    ")\n"                                                         \
    "  scales" N " = f32[4096,768]{1,0} broadcast(scale" N        \
    "), dimensions={0}\n"                                         \
    "  " OUT " = f32[4096,768]{1,0} multiply(off" N ", scales" N ")\n"

static const char layer_norms[] =
    "HloModule norms\n" SUM
    "ENTRY main {\n"
    "  x = f32[4096,768]{1,0} parameter(0)\n"
    "  zero = f32[] constant(0)\n"
    "  part = f32[] constant(0.00130208)\n"
    "  parts = f32[4096]{0} broadcast(part), dimensions={}\n" LAYER_NORM("1", "x", "y") LAYER_NORM("2", "y", "ROOT z") "}\n";

static const char one_reduction[] = "HloModule one\n" SUM
                                    "ENTRY main {\n"
                                    "  x = bf16[2048,4096]{1,0} parameter(0)\n"
                                    "  w = bf16[2048,4096]{1,0} parameter(1)\n"
                                    "  zero = f32[] constant(0)\n"
                                    "  long = f32[2048,4096]{1,0} convert(x)\n"
                                    "  wide = f32[2048,4096]{1,0} convert(w)\n"
                                    "  both = f32[2048,4096]{1,0} multiply(long, wide)\n"
                                    "  ROOT rows = f32[2048]{0} reduce(both, zero), dimensions={1}, to_apply=sum\n"
                                    "}\n";

/* Several results, one of them sliced again within; broadcasts of dear ops; updates and slices of which a part is touched; views;
 * a fusion that is there already, with two results. */
static const char mixed[] =
    "HloModule mixed\n" SUM
    "two {\n"
    "  p = f32[512,1024]{1,0} parameter(0)\n"
    "  q = f32[1024]{0} parameter(1)\n"
    "  e = f32[1024]{0} exponential(q)\n"
    "  es = f32[512,1024]{1,0} broadcast(e), dimensions={1}\n"
    "  m = f32[512,1024]{1,0} multiply(p, es)\n"
    "  n = f32[512,1024]{1,0} negate(m)\n"
    "  ROOT t = (f32[512,1024]{1,0}, f32[512,1024]{1,0}) tuple(m, n)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[512,1024]{1,0} parameter(0)\n"
    "  v = f32[1024]{0} parameter(1)\n"
    "  k = s32[] parameter(2)\n"
    "  zero = s32[] constant(0)\n"
    "  none = f32[] constant(0)\n"
    "  pair = (f32[512,1024]{1,0}, f32[512,1024]{1,0}) fusion(x, v), kind=kLoop, calls=two\n"
    "  left = f32[512,1024]{1,0} get-tuple-element(pair), index=0\n"
    "  right = f32[512,1024]{1,0} get-tuple-element(pair), index=1\n"
    "  flat = f32[524288]{0} bitcast(right)\n"
    "  tanh = f32[524288]{0} tanh(flat)\n"
    "  back = f32[512,1024]{1,0} bitcast(tanh)\n"
    "  sum1 = f32[512,1024]{1,0} add(left, back)\n"
    "  piece = f32[8,1024]{1,0} slice(sum1), slice={[0:8], [0:1024]}\n"
    "  small = f32[8,1024]{1,0} sqrt(piece)\n"
    "  row = f32[1,1024]{1,0} dynamic-slice(x, k, zero), dynamic_slice_sizes={1,1024}\n"
    "  twice = f32[1,1024]{1,0} add(row, row)\n"
    "  cosine = f32[512,1024]{1,0} cosine(sum1)\n"
    "  sines = f32[512,1024]{1,0} sine(sum1)\n"
    "  columns = f32[1024]{0} reduce(cosine, none), dimensions={0}, to_apply=sum\n"
    "  padded = f32[520,1024]{1,0} pad(sines, none), padding=0_8x0_0\n"
    "  padding = f32[520,1024]{1,0} negate(padded)\n"
    "  updated = f32[512,1024]{1,0} dynamic-update-slice(cosine, twice, k, zero)\n"
    "  ROOT out = (f32[8,1024]{1,0}, f32[1024]{0}, f32[520,1024]{1,0}, f32[512,1024]{1,0}) tuple(small, columns, padding, "
    "updated)\n"
    "}\n";

/* A reduction with two results, of which nobody reads one. */
static const char two_results[] =
    "HloModule largest\n"
    "larger {\n"
    "  a = f32[] parameter(0)\n"
    "  i = s32[] parameter(1)\n"
    "  b = f32[] parameter(2)\n"
    "  k = s32[] parameter(3)\n"
    "  first = pred[] compare(a, b), direction=GE\n"
    "  value = f32[] select(first, a, b)\n"
    "  index = s32[] select(first, i, k)\n"
    "  ROOT t = (f32[], s32[]) tuple(value, index)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[512,1024]{1,0} parameter(0)\n"
    "  least = f32[] constant(0)\n"
    "  none = s32[] constant(0)\n"
    "  square = f32[512,1024]{1,0} multiply(x, x)\n"
    "  place = s32[512,1024]{1,0} iota(), iota_dimension=1\n"
    "  largest = (f32[512]{0}, s32[512]{0}) reduce(square, place, least, none), dimensions={1}, to_apply=larger\n"
    "  value = f32[512]{0} get-tuple-element(largest), index=0\n"
    "  index = s32[512]{0} get-tuple-element(largest), index=1\n"
    "  ROOT root = f32[512]{0} sqrt(value)\n"
    "}\n";

/* Fusions of a file, grouped again and taken apart by the exporter. */
static const char wrapped[] = "HloModule wrapped\n" SUM
                              "one {\n"
                              "  p = f32[1024]{0} parameter(0)\n"
                              "  ROOT e = f32[1024]{0} exponential(p)\n"
                              "}\n"
                              "many {\n"
                              "  p = f32[2048,1024]{1,0} parameter(0)\n"
                              "  q = f32[1024]{0} parameter(1)\n"
                              "  qs = f32[2048,1024]{1,0} broadcast(q), dimensions={1}\n"
                              "  m = f32[2048,1024]{1,0} multiply(p, qs)\n"
                              "  ROOT n = f32[2048,1024]{1,0} negate(m)\n"
                              "}\n"
                              "ENTRY main {\n"
                              "  x = f32[2048,1024]{1,0} parameter(0)\n"
                              "  v = f32[1024]{0} parameter(1)\n"
                              "  zero = f32[] constant(0)\n"
                              "  small = f32[1024]{0} fusion(v), kind=kLoop, calls=one\n"
                              "  large = f32[2048,1024]{1,0} fusion(x, small), kind=kLoop, calls=many\n"
                              "  again = f32[2048,1024]{1,0} fusion(large, small), kind=kLoop, calls=many\n"
                              "  tanh = f32[2048,1024]{1,0} tanh(again)\n"
                              "  ROOT rows = f32[2048]{0} reduce(tanh, zero), dimensions={1}, to_apply=sum\n"
                              "}\n";

/* ---- steps ---- */

static double step_of(const stw_simulator *simulator, const stw_plan *plan) {
    stw_workspace *workspace = NULL;
    stw_evaluation result = {0};
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &result, NULL), STW_OK);
    CHECK(result.reason == STW_VALID || result.reason == STW_INVALID_MEMORY);
    stw_workspace_destroy(workspace);
    return result.step_s;
}

/* The export as a graph of its own, with the plan that it carries; on one device nothing is to be said. */
static void check_back(problem *p, const char *machine) {
    const double before = step_of(p->simulator, p->plan);
    export_well(p, "hlo");
    if (p->io.bytes == NULL) return;
    problem back = open_bytes((stw_str){p->io.bytes, (int64_t)p->io.size}, machine);
    if (p->machine->device_count > 1) {
        stw_plan_destroy(back.plan);
        CHECK_EQ_INT(stw_plan_carried(back.graph, back.machine, &back.plan, &back.error), STW_OK);
        CHECK_STR(back.error.message, "");
    }
    CHECK(before > 0.0);
    if (back.plan != NULL) CHECK_NEAR(step_of(back.simulator, back.plan) / before, 1.0, 1e-9);
    close_problem(&back);
}

/* No plan beats the bounds: this one with its groups, nor any with whatever groups. */
static void check_bounds(const problem *p) {
    stw_bounds bounds = {0};
    const double step_s = step_of(p->simulator, p->plan);
    CHECK_EQ_INT(stw_lower_bounds(p->simulator, p->plan, &bounds, NULL), STW_OK);
    CHECK(bounds.plan_s <= step_s * (1.0 + 1e-9));
    CHECK(bounds.fusion_s <= step_s * (1.0 + 1e-9));
}

static int32_t fused_ops(const problem *p) {
    int32_t fused = 0;
    for (int32_t i = 0; i < p->graph->N; i++) fused += p->graph->kind[i] == STW_NODE_OP && p->plan->group[i] != i;
    return fused;
}

static void check_rule(const char *text, const char *machine, const char *rule) {
    problem p = open_text(text, machine);
    test_context("%.20s on %s by %s", text, machine, rule);
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, rule, &p.error), STW_OK);
    CHECK(fused_ops(&p) > 0);
    check_back(&p, machine);
    check_bounds(&p);
    test_context("%s", "");
    close_problem(&p);
}

static const char row_kernels[] = /* whose kernels go on with what they have reduced from rows */
    "{\"format\": \"machine\", \"version\": 1, \"name\": \"rows\", \"devices\": [{\"name\": \"h200:0\", \"kind\": \"h200\", "
    "\"fuses_epilogue\": [\"reduce\"]}]}";

TEST(hlo_price, by_rule) {
    static const char *const texts[] = {layer_norms, one_reduction, mixed, two_results};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        check_rule(texts[k], "h200x1", "default");
        check_rule(texts[k], "h200x1", "joined");
        check_rule(texts[k], "a100x1", "default");
    }
}

/* By the learned model groups and fusions of a file cost alike as well, and no bound is above a step. */
TEST(hlo_price, by_what_was_learnt) {
    static const char *const texts[] = {layer_norms, one_reduction, mixed, two_results, wrapped};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        problem_kernels = "formula";
        problem by_formula = open_text(texts[k], "h200x1");
        problem_kernels = "learned";
        problem learned = open_text(texts[k], "h200x1");
        CHECK(step_of(by_formula.simulator, by_formula.plan) != step_of(learned.simulator, learned.plan));
        close_problem(&by_formula);
        close_problem(&learned);
        check_rule(texts[k], "h200x1", "default");
        check_rule(texts[k], "h200x1", "joined");
    }
    problem_kernels = "formula";
}

TEST(hlo_price, kernels_that_hold_rows) {
    char path[] = "/tmp/stowage_rows_XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0)) return;
    CHECK_EQ_INT(write(file, row_kernels, strlen(row_kernels)), (int64_t)strlen(row_kernels));
    close(file);
    check_rule(layer_norms, path, "default");
    problem_kernels = "learned";
    check_rule(layer_norms, path, "default");
    problem_kernels = "formula";
    unlink(path);
}

TEST(hlo_price, by_search) {
    problem p = open_text(layer_norms, "h200x1");
    stw_options *options = NULL;
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "40", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "all", NULL), STW_OK);
    CHECK_EQ_INT(stw_method_run("anneal", p.simulator, options, &plan, &p.error), STW_OK);
    stw_plan_destroy(p.plan);
    p.plan = plan;
    CHECK(fused_ops(&p) > 0);
    check_back(&p, "h200x1");
    stw_options_destroy(options);
    close_problem(&p);
}

/* ---- several devices ---- */

/* A chain of two norms, the second on another device: no order is left to decide. */
TEST(hlo_price, two_devices) {
    problem p = open_text(layer_norms, "h200x2");
    for (int32_t i = node_of(&p, "total2"); i < p.graph->N; i++) p.plan->device[i] = 1;
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "default", &p.error), STW_OK);
    CHECK(fused_ops(&p) > 0);
    check_back(&p, "h200x2");
    CHECK(has(&p, "h200:1"));
    close_problem(&p);
}

/* first and second begin at one time, with one priority; the barrier has first stand behind all that it packs. */
TEST(hlo_price, ties_behind_a_barrier) {
    problem p = open_text(
        "HloModule tie\n"
        "ENTRY main {\n"
        "  x = f32[1024,1024]{1,0} parameter(0)\n"
        "  a = f32[1024,1024]{1,0} tanh(x)\n"
        "  b = f32[1024,1024]{1,0} cosine(a)\n"
        "  late = f32[1024,1024]{1,0} exponential(b)\n"
        "  t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(a, late)\n"
        "  s = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) opt-barrier(t)\n"
        "  g = f32[1024,1024]{1,0} get-tuple-element(s), index=0\n"
        "  first = f32[1024,1024]{1,0} negate(g)\n"
        "  second = f32[1024,1024]{1,0} sine(a)\n"
        "  far = f32[1024,1024]{1,0} dot(first, first), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "  ROOT out = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(far, second)\n"
        "}\n",
        "h200x2");
    p.plan->device[node_of(&p, "far")] = 1;
    check_back(&p, "h200x2");
    check_before(&p, " second = ", " first = ");
    CHECK(has(&p, "negate(g), frontend_attributes={stowage_device=\"h200:0\",stowage_order=\"2\"}"));
    CHECK(has(&p, "rhs_contracting_dims={0}, frontend_attributes={stowage_device=\"h200:1\"}"));
    set_priority(&p, "first", 1.0); /* no tie, no order */
    check_back(&p, "h200x2");
    CHECK(!has(&p, "stowage_order"));
    close_problem(&p);
}

/* The results of a kernel, of which another device reads two: a group sends each by itself, an op of a file all of them together.
 * That is the one difference there is: the first transfer's reader waits for both, and one latency goes. */
TEST(hlo_price, several_results_that_are_sent) {
    problem p = open_text(
        "HloModule two\n"
        "ENTRY main {\n"
        "  x = f32[1024,1024]{1,0} parameter(0)\n"
        "  a = f32[1024,1024]{1,0} tanh(x)\n"
        "  b = f32[1024,1024]{1,0} sine(x)\n"
        "  c = f32[1024,1024]{1,0} negate(a)\n"
        "  d = f32[1024,1024]{1,0} cosine(b)\n"
        "  ROOT out = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(c, d)\n"
        "}\n",
        "0.1/h200x2");
    set_group(&p, "a", 1);
    set_group(&p, "b", 1);
    p.plan->device[node_of(&p, "d")] = 1; /* one result is sent, the other is not */
    check_back(&p, "0.1/h200x2");
    p.plan->device[node_of(&p, "c")] = 1;
    export_well(&p, "hlo");
    problem back = open_bytes((stw_str){p.io.bytes, (int64_t)p.io.size}, "0.1/h200x2");
    stw_plan_destroy(back.plan);
    CHECK_EQ_INT(stw_plan_carried(back.graph, back.machine, &back.plan, &back.error), STW_OK);
    const int32_t c = node_of(&p, "c"), d = node_of(&p, "d");
    const double us = p.costs->us[0][c] < p.costs->us[0][d] ? p.costs->us[0][c] : p.costs->us[0][d];
    const double latency = stw_machine_link(p.machine, 0, 1)->latency_us;
    CHECK_NEAR(step_of(back.simulator, back.plan) - step_of(p.simulator, p.plan), (us - latency) * 1e-6,
               2e-12); /* whole picoseconds */
    close_problem(&back);
    close_problem(&p);
}

TEST(hlo_price, fusions_within_groups) {
    check_rule(wrapped, "h200x1", "default");
    check_rule(wrapped, "h200x1", "reverse-post-order");
}

/* Everything somewhere, with priorities of which many are equal. */
static void plan_by_chance(problem *p, uint64_t seed) {
    stw_options *options = NULL;
    stw_rng rng = stw_rng_create(seed);
    char text[24];
    snprintf(text, sizeof text, "%d", (int)seed);
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "seed", text, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "1", NULL), STW_OK);
    stw_plan_destroy(p->plan);
    CHECK_EQ_INT(stw_method_run("random", p->simulator, options, &p->plan, &p->error), STW_OK);
    CHECK_EQ_INT(stw_plan_fuse(p->plan, p->costs, "default", &p->error), STW_OK);
    for (int32_t i = 0; i < p->graph->N; i++) p->plan->priority[i] = (double)stw_rng_below(&rng, 5) / 3.0 - 0.7;
    stw_options_destroy(options);
}

/* Each device keeps to the order in which the plan has it begin its tasks, whatever the priorities are from now on. */
static void keep_order(problem *p) {
    stw_workspace *workspace = NULL;
    stw_evaluation result = {0};
    CHECK_EQ_INT(stw_workspace_create(p->simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(p->simulator, p->plan, workspace, &result, NULL), STW_OK);
    const stw_timeline *timeline = &workspace->timeline;
    int32_t *task = calloc((size_t)p->graph->N, sizeof *task);
    for (int32_t d = 0; d < p->machine->device_count; d++) {
        int32_t count = 0;
        for (int32_t t = 0; t < timeline->tasks->T; t++) {
            const int32_t node = timeline->tasks->task_node[t];
            if (p->plan->device[node] != d) continue;
            int32_t k = count++;
            for (; k > 0 && timeline->start_ps[timeline->tasks->task_of[task[k - 1]]] > timeline->start_ps[t]; k--)
                task[k] = task[k - 1];
            task[k] = node;
        }
        CHECK_EQ_INT(stw_plan_set_order(p->plan, d, task, count, NULL), STW_OK);
    }
    for (int32_t i = 0; i < p->graph->N; i++) p->plan->priority[i] = (double)(i % 7);
    free(task);
    stw_workspace_destroy(workspace);
}

/* Without charges: these are paid by the reader with the smallest id, and in a planned module nodes have other ids. */
static const char *const several_devices[] = {"0.1/h200x2", "0.1/h200x4", "0.1/h200x2+2"};
enum { SEVERAL = sizeof several_devices / sizeof several_devices[0] };

TEST(hlo_price, plans_by_chance) {
    static const char *const texts[] = {layer_norms, mixed, wrapped};
    for (int k = 0; k < 3 * SEVERAL * 20; k++) {
        const char *machine = several_devices[k / 3 % SEVERAL];
        problem p = open_text(texts[k % 3], machine);
        test_context("text %d on %s, seed %d", k % 3, machine, k);
        plan_by_chance(&p, (uint64_t)k + 1);
        check_back(&p, machine);
        keep_order(&p);
        check_back(&p, machine);
        close_problem(&p);
    }
    test_context("%s", "");
}

/* ---- real files ---- */

typedef void check_file(stw_str text, const char *name);

/* Calls `check` with each of these files that is there. */
static void for_files(const char *const *names, size_t count, check_file *check) {
    int read = 0;
    for (size_t k = 0; k < count; k++) {
        char path[4096];
        stw_arena arena;
        stw_str text;
        snprintf(path, sizeof path, "%s/../shared/%s", STW_SOURCE_DIR, names[k]);
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        if (stw_file_read(path, &arena, &text, NULL) == STW_OK) {
            check(text, names[k]);
            read++;
        }
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
    if (read == 0) SKIP("no HLO files in ../shared");
}

static void check_fused(stw_str text, const char *name) {
    test_context("%s", name);
    problem p = open_bytes(text, "h200x1");
    CHECK_EQ_INT(stw_plan_fuse(p.plan, p.costs, "default", &p.error), STW_OK);
    check_back(&p, "h200x1");
    check_bounds(&p);
    close_problem(&p);
}

TEST(hlo_price, real_files) {
    static const char *const names[] = {"hlo/mlp.nofusion.hlo.txt.gz",
                                        "hlo/transformer.nofusion.hlo.txt.gz",
                                        "hlo/wavenet.default.hlo.txt.gz",
                                        "hlo/rnnlm.before.hlo.txt.gz",
                                        "external/hlo/layer_norm_1x4096x768_bf16.hlo.gz",
                                        "external/hlo/mha_block_1x12x128x64_bf16.hlo.gz",
                                        "external/hlo/mobilenet_v2.hlo.gz"};
    for_files(names, sizeof names / sizeof names[0], check_fused);
    problem_kernels = "learned";
    for_files(names, sizeof names / sizeof names[0], check_fused);
    problem_kernels = "formula";
}

static void check_on_several(stw_str text, const char *name) {
    static const char *const methods[] = {"etf", "spread", "anneal"};
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "20", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "all", NULL), STW_OK);
    for (int k = 0; k < SEVERAL * 3; k++) {
        const char *machine = several_devices[k / 3];
        test_context("%s on %s by %s", name, machine, methods[k % 3]);
        problem p = open_bytes(text, machine);
        stw_plan_destroy(p.plan);
        CHECK_EQ_INT(stw_method_run(methods[k % 3], p.simulator, options, &p.plan, &p.error), STW_OK);
        check_back(&p, machine);
        plan_by_chance(&p, (uint64_t)k + 1);
        check_back(&p, machine);
        keep_order(&p);
        check_back(&p, machine);
        close_problem(&p);
    }
    stw_options_destroy(options);
}

TEST(hlo_price, real_files_on_several_devices) {
    static const char *const names[] = {"hlo/convnet.nofusion.hlo.txt.gz", "hlo/transformer.nofusion.hlo.txt.gz",
                                        "hlo/wavenet.nofusion.hlo.txt.gz", "hlo/mlp.default.hlo.txt.gz",
                                        "external/hlo/mobilenet_v2.hlo.gz"};
    for_files(names, sizeof names / sizeof names[0], check_on_several);
}
