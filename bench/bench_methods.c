/* Speed of the methods: seconds per plan that a constructive method evaluates, plans per second that annealing tries on one core
 * (those that it gives up early included), and how well what stands in for the simulator ranks plans (Spearman's rank
 * correlation): the list scheduler's own clock, and the load that `balance` keeps up to date move by move. Absolute times are for
 * orientation: the machines are noisy.
 *
 *     bench_methods [GRAPH MACHINE] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/balance/balance.h"
#include "method/method.h"
#include "search/list.h"

static void check(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "bench_methods: %s\n", error->message);
    exit(2);
}

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
} setting;

static setting open_setting(const char *graph, const char *machine) {
    setting s;
    stw_error error;
    char path[1024];
    snprintf(path, sizeof path, "data/graphs/%s.json.gz", graph);
    check(stw_graph_open(path, NULL, &s.graph, &error), &error);
    check(stw_machine_open(machine, &s.machine, &error), &error);
    check(stw_costs_create(s.graph, s.machine, NULL, &s.costs, &error), &error);
    check(stw_simulator_create(s.costs, &s.simulator, &error), &error);
    return s;
}

static void close_setting(setting *s) {
    stw_simulator_destroy(s->simulator);
    stw_costs_destroy(s->costs);
    stw_machine_destroy(s->machine);
    stw_graph_destroy(s->graph);
}

static void set(stw_options *options, const char *name, const char *value) {
    stw_error error;
    check(stw_options_set(options, name, value, &error), &error);
}

/* One core, as much time as it takes. */
static void time_methods(const setting *s) {
    stw_error error;
    stw_options *options;
    stw_result *result;
    stw_candidate c;
    check(stw_options_create(&options, &error), &error);
    set(options, "threads", "1");
    set(options, "tasks", "placement,schedule");
    set(options, "budget", "60s");
    printf("  %-10s %12s %8s %14s %12s\n", "method", "step, ms", "plans", "s per plan", "s in all");
    const stw_method *method;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind != STW_METHOD_CONSTRUCTIVE) continue;
        check(stw_compare(s->simulator, method->name, options, NULL, &result, &error), &error);
        stw_result_candidate(result, 0, &c);
        if (c.valid) {
            printf("  %-10s %12.4f %8lld %14.4f %12.3f\n", c.method, 1e3 * c.step_s, (long long)c.evaluations,
                   c.search_s / (double)c.evaluations, c.search_s);
        }
        stw_result_destroy(result);
    }
    stw_options_destroy(options);
}

static void time_annealing(const setting *s) {
    stw_error error;
    stw_options *options;
    stw_result *result;
    stw_candidate c;
    check(stw_options_create(&options, &error), &error);
    set(options, "threads", "1");
    set(options, "tasks", "placement,schedule");
    set(options, "budget", "20s");
    check(stw_optimize(s->simulator, options, NULL, &result, &error), &error);
    for (int32_t k = 0; stw_result_candidate(result, k, &c); k++) {
        if (strcmp(c.method, "anneal") == 0)
            printf("  anneal, one core: %.0f plans per second\n", (double)c.evaluations / c.search_s);
    }
    stw_result_destroy(result);
    stw_options_destroy(options);
}

/* ---- rank correlation ---- */

static int by_value(const void *left, const void *right) {
    const double a = **(const double *const *)left, b = **(const double *const *)right;
    return a < b ? -1 : a > b;
}

enum { PLANS = 60 };

/* Ranks, equal values sharing the mean of their places. */
static void rank_values(const double *value, double *rank) {
    const double *sorted[PLANS];
    for (int k = 0; k < PLANS; k++) sorted[k] = &value[k];
    qsort(sorted, PLANS, sizeof *sorted, by_value);
    for (int k = 0; k < PLANS;) {
        int end = k + 1;
        while (end < PLANS && *sorted[end] == *sorted[k]) end++;
        for (int j = k; j < end; j++) rank[sorted[j] - value] = 0.5 * (k + end - 1);
        k = end;
    }
}

static double correlation(const double *a, const double *b) {
    double x[PLANS], y[PLANS], xy = 0.0, xx = 0.0, yy = 0.0;
    const double middle = 0.5 * (PLANS - 1);
    rank_values(a, x);
    rank_values(b, y);
    for (int k = 0; k < PLANS; k++) {
        xy += (x[k] - middle) * (y[k] - middle);
        xx += (x[k] - middle) * (x[k] - middle);
        yy += (y[k] - middle) * (y[k] - middle);
    }
    return xy / sqrt(xx * yy);
}

/* Sixty plans of the list scheduler with knobs from loose to tight, by its own clock and by the simulator; their loads as
 * `balance` sees them and by the simulator. */
static void correlate(const setting *s, double *clock, double *load) {
    stw_error error;
    stw_arena arena;
    stw_list list;
    stw_plan *plan;
    stw_workspace *workspace;
    stw_evaluation result;
    stw_unit_levels atoms;
    stw_balance_model model;
    stw_balance_state state;
    double clock_us[PLANS], step_s[PLANS], kept_us[PLANS], load_s[PLANS];
    const stw_search search = {.simulator = s->simulator, .tasks = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, .rule = -1};
    check(stw_arena_create(&arena, &error), &error);
    check(stw_list_prepare(&search, &arena, &list, &error), &error);
    check(stw_plan_create(s->graph, s->machine, &plan, &error), &error);
    check(stw_workspace_create(s->simulator, &workspace, &error), &error);
    const int32_t T = s->simulator->unfused.T;
    double *aversion = STW_NEW(&arena, double, T), *glue = STW_NEW(&arena, double, T);
    int32_t *other = STW_NEW(&arena, int32_t, s->graph->N);
    check(stw_units_build(s->graph, s->costs->least_us, NULL, 0, &arena, &atoms, &error), &error);
    check(stw_balance_model_build(s->simulator, &atoms.level[0], &arena, &model, &error), &error);
    check(stw_balance_state_create(&model, &arena, &state, &error), &error);
    int32_t *atom_device = STW_NEW(&arena, int32_t, model.A);
    for (int k = 0; k < PLANS; k++) {
        for (int32_t t = 0; t < T; t++) {
            aversion[t] = exp(-2.0 + k % 10 * 0.5);
            glue[t] = list.mean_us * exp(-3.0 + k / 10 * 1.5);
        }
        const stw_steer_input input = {
            .base = &list.base, .aversion = aversion, .plan_glue = glue, .glued = other, .queues = true, .insertion = true};
        check(stw_steer(&input, plan->device, &clock_us[k], arena, &error), &error);
        stw_plan_join(s->simulator, plan);
        check(stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->simulator->unfused, plan, arena, &error), &error);
        check(stw_simulate(s->simulator, plan, workspace, &result, &error), &error);
        step_s[k] = result.step_s;
        load_s[k] = stw_workspace_largest_load_s(workspace);
        for (int32_t i = 0; i < s->graph->N; i++) {
            if (model.atom_of[i] >= 0) atom_device[model.atom_of[i]] = plan->device[i];
        }
        stw_balance_state_set(&state, atom_device);
        kept_us[k] = stw_balance_largest(&state);
    }
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    stw_arena_destroy(&arena);
    *clock = correlation(clock_us, step_s);
    *load = correlation(kept_us, load_s);
}

int main(int count, char **argument) {
    static const char *const rows[][2] = {{"rnnlm-4", "0.1/h200x4"},
                                          {"gnmt-4", "0.1/h200x4"},
                                          {"gnmt-4", "0.1/h200x4-pcie"},
                                          {"inception-v3-b32", "0.1/h200x2"},
                                          {"transformer-xl-4", "0.1/h200x4-pcie"}};
    const char *graph = count == 3 ? argument[1] : "gnmt-8", *machine = count == 3 ? argument[2] : "0.1/h200x8";
    setting s = open_setting(graph, machine);
    printf("%s on %s\n", graph, machine);
    time_methods(&s);
    time_annealing(&s);
    close_setting(&s);
    printf("rank correlation with the simulator over %d plans\n  %-18s %-12s %22s %18s\n", PLANS, "", "",
           "list scheduler's clock", "load of balance");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        setting row = open_setting(rows[k][0], rows[k][1]);
        double clock = 0.0, load = 0.0;
        correlate(&row, &clock, &load);
        printf("  %-18s %-12s %22.3f %18.4f\n", rows[k][0], rows[k][1], clock, load);
        close_setting(&row);
    }
    return 0;
}
