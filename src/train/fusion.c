#include "train/fusion.h"

#include <math.h>
#include <string.h>

static const double LEAST = 0.05; /* of what a plan merges though the rule could not */

/* From places among all ops, as the rule tells them, to places among those that it merges, and among those that it does not. */
static void spread_evenly(const stw_graph *graph, double *priority) {
    const double all = graph->op_count + 1.0;
    int32_t merged = 0, refused = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        merged += priority[i] > 0.0;
        refused += priority[i] < 0.0;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (priority[i] > 0.0) priority[i] = (merged - round((1.0 - priority[i]) * all)) / merged;
        if (priority[i] < 0.0) priority[i] = priority[i] * all / refused;
    }
}

/* Ops with a reader on another device have their place back: it has no effect as long as that is so. */
static void mind_borders(const stw_simulator *s, const int32_t *device, const double *rule, double *priority) {
    const stw_tasks *tasks = &s->unfused;
    for (int32_t v = 0; v < tasks->V; v++) {
        const int32_t node = tasks->value_node[v];
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            if (device[tasks->task_node[tasks->use[u].task]] != device[node]) priority[node] = rule[node];
        }
    }
}

/* Merged is what is recomputed, or is not the last of its group. */
static stw_status take_signs(const stw_plan *own, double *priority, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = own->graph;
    int32_t *last, groups = 0;
    stw_plan *plan = NULL;
    STW_TRY_NEW(&scratch, last, graph->N, error);
    TRY(stw_plan_create(graph, own->machine, &plan, error));
    stw_status status = stw_plan_copy(plan, own, error);
    if (status == STW_OK) status = stw_plan_canonical_groups(plan, error);
    for (int32_t k = 0; status == STW_OK && k < graph->op_count; k++) {
        const int32_t op = graph->topological[k], group = plan->group[op];
        groups += group != op;
        if (group >= 0) last[group] = op;
    }
    for (int32_t k = 0; status == STW_OK && groups > 0 && k < graph->op_count; k++) {
        const int32_t op = graph->topological[k], group = plan->group[op];
        const bool merged = group < 0 || last[group] != op;
        if (merged && priority[op] <= 0.0) priority[op] = fmax(-priority[op], LEAST);
        if (!merged && priority[op] > 0.0) priority[op] = -priority[op];
    }
    stw_plan_destroy(plan);
    return status;
}

stw_status stw_fusion_begin(const stw_simulator *s, const double *rule, const stw_plan *plan, double *priority, stw_arena scratch,
                            stw_error *error) {
    const int32_t N = s->graph->N;
    double *places;
    STW_TRY_NEW(&scratch, places, N, error);
    memcpy(places, rule, (size_t)N * sizeof *rule);
    spread_evenly(s->graph, places);
    memcpy(priority, places, (size_t)N * sizeof *places);
    if (plan == NULL) return STW_OK;
    TRY(take_signs(plan, priority, scratch, error));
    mind_borders(s, plan->device, places, priority);
    return STW_OK;
}
