/* Fusion rules: what they make of a graph, and how fast. One evaluation of a fused plan is taken apart into the merge by
 * priorities and the simulation of its groups.
 *
 *     bench_fuse [--data DIR] [--machine M] [GRAPH...] */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "method/method.h"
#include "plan/fuse.h"
#include "sim/sim.h"

static const char *data_folder = "data/graphs", *machine_name = "h200x1";

static void check(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_fuse: %s\n", error->message);
    exit(2);
}

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_workspace *workspace;
    stw_arena arena;
    stw_fuser *fuser;
    stw_plan *plan;
    double *priority; /* (N) */
} setting;

static setting open_setting(const char *graph) {
    setting s = {0};
    stw_error error;
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.json.gz", data_folder, graph);
    check(stw_graph_open(path, NULL, &s.graph, &error), &error);
    check(stw_machine_open(machine_name, &s.machine, &error), &error);
    check(stw_costs_create(s.graph, s.machine, NULL, &s.costs, &error), &error);
    check(stw_simulator_create(s.costs, &s.simulator, &error), &error);
    check(stw_workspace_create(s.simulator, &s.workspace, &error), &error);
    check(stw_arena_create(&s.arena, &error), &error);
    check(stw_fuser_create(s.costs, &s.arena, &s.fuser, &error), &error);
    check(stw_method_run(s.machine->device_count > 1 ? "expert" : "single", s.simulator, NULL, &s.plan, &error), &error);
    s.priority = STW_NEW(&s.arena, double, s.graph->N);
    return s;
}

static void close_setting(setting *s) {
    stw_plan_destroy(s->plan);
    stw_workspace_destroy(s->workspace);
    stw_arena_destroy(&s->arena);
    stw_simulator_destroy(s->simulator);
    stw_costs_destroy(s->costs);
    stw_machine_destroy(s->machine);
    stw_graph_destroy(s->graph);
}

enum { ROUNDS = 7 };

static double least(double a, double b) { return a < b ? a : b; }

static void show_rule(setting *s, stw_fusion rule) {
    stw_error error;
    stw_evaluation result;
    double rule_s = 1e9, merge_s = 1e9, run_s = 1e9;
    for (int k = 0; k < ROUNDS; k++) {
        const double began = stw_now_s();
        stw_fuse_by_rule(s->fuser, rule, s->plan->device, s->plan->group, s->priority);
        const double ruled = stw_now_s();
        stw_fuse_by_priority(s->fuser, s->priority, s->plan->device, s->plan->group);
        const double merged = stw_now_s();
        check(stw_simulate(s->simulator, s->plan, s->workspace, &result, &error), &error);
        rule_s = least(rule_s, ruled - began);
        merge_s = least(merge_s, merged - ruled);
        run_s = least(run_s, stw_now_s() - merged);
    }
    int32_t recomputed = 0;
    for (int32_t i = 0; i < s->graph->N; i++) recomputed += s->graph->kind[i] == STW_NODE_OP && s->plan->group[i] < 0;
    printf("%-20s %8d %10d %11.3f %9.2f %9.2f %9.2f  %s\n", stw_fusion_name[rule],
           s->workspace->timeline.tasks ? s->workspace->timeline.tasks->T : 0, recomputed, result.step_s * 1e3, rule_s * 1e3,
           merge_s * 1e3, run_s * 1e3, result.message);
}

static void show_graph(const char *name) {
    setting s = open_setting(name);
    printf("%s on %s: %d ops\n%-20s %8s %10s %11s %9s %9s %9s\n", name, machine_name, s.graph->op_count, "  rule", "kernels",
           "recomputed", "step ms", "rule ms", "merge ms", "run ms");
    for (int rule = 0; rule < STW_FUSION_COUNT; rule++) show_rule(&s, (stw_fusion)rule);
    close_setting(&s);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"rnnlm-2", "gnmt-2", "gnmt-8", "transformer-xl-8", "inception-v3-b32"};
    int k = 1;
    for (; k + 1 < argc && argv[k][0] == '-'; k += 2) {
        if (strcmp(argv[k], "--data") == 0) data_folder = argv[k + 1];
        if (strcmp(argv[k], "--machine") == 0) machine_name = argv[k + 1];
    }
    for (int i = k; i < argc; i++) show_graph(argv[i]);
    for (size_t i = 0; k >= argc && i < sizeof usual / sizeof usual[0]; i++) show_graph(usual[i]);
    return 0;
}
