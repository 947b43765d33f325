/* Plans that keep to the limits: what moves for that, and which groups are left. */
#include <string.h>

#include "driver/limits.h"

static bool is_member(const stw_graph *graph, int32_t i) {
    return graph->kind[i] == STW_NODE_OP || stw_node_is_resident(graph->kind[i]);
}

/* ---- stages in line ---- */

static void read_stages(const stw_limited *limited, const stw_plan *plan, int32_t device[STW_MAX_DEVICES]) {
    for (int32_t i = 0; i < limited->graph.N; i++)
        if (is_member(&limited->graph, i) && limited->parcels.of[i] >= 0) device[limited->parcels.of[i]] = plan->device[i];
}

static uint64_t devices_of(const int32_t *device, int32_t count) {
    uint64_t used = 0;
    for (int32_t k = 0; k < count; k++) used |= 1ull << device[k];
    return used;
}

/* Where stages go whose device has earlier ones that are no neighbours: to one like it that has none, to that of the stage before
 * them, to any that has none. -1: nowhere. */
static int32_t other_device(const stw_machine *machine, uint64_t allowed, uint64_t used, int32_t was, int32_t before) {
    int32_t any = -1;
    for (int32_t d = machine->device_count - 1; d >= 0; d--)
        if ((allowed & ~used) >> d & 1u) any = d;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const bool like = machine->device[d].cost_class == machine->device[was].cost_class &&
                          machine->device[d].memory_bytes >= machine->device[was].memory_bytes;
        if (((allowed & ~used) >> d & 1u) && like) return d;
    }
    return allowed >> before & 1u ? before : any;
}

/* device: of each stage. Whether any changed. */
static bool put_in_line(const stw_limited *limited, int32_t *device) {
    const int32_t count = limited->parcels.count;
    bool changed = false;
    for (int32_t s = 1, end; s < count; s = end) {
        uint64_t allowed = limited->stage_allowed[s];
        const int32_t was = device[s];
        for (end = s + 1; end < count && device[end] == was; end++) allowed &= limited->stage_allowed[end];
        if (was == device[s - 1] || !(devices_of(device, s) >> was & 1u)) continue;
        const int32_t to = other_device(limited->simulator->machine, allowed, devices_of(device, count), was, device[s - 1]);
        for (int32_t k = s; k < end && to >= 0; k++) device[k] = to;
        changed |= to >= 0;
    }
    return changed;
}

bool stw_limited_is_in_line(const stw_limited *limited, const stw_plan *plan) {
    int32_t device[STW_MAX_DEVICES] = {0};
    if (!limited->in_line) return true;
    read_stages(limited, plan, device);
    return !put_in_line(limited, device);
}

static void line_up(const stw_limited *limited, stw_plan *plan) {
    int32_t device[STW_MAX_DEVICES] = {0};
    if (!limited->in_line) return;
    read_stages(limited, plan, device);
    if (!put_in_line(limited, device)) return;
    for (int32_t i = 0; i < limited->graph.N; i++)
        if (limited->parcels.of[i] >= 0) plan->device[i] = device[limited->parcels.of[i]];
    stw_plan_join(limited->simulator, plan);
}

/* ---- groups ---- */

static bool are_apart(const stw_graph *graph, const stw_plan *plan, int32_t a, int32_t b) {
    return plan->device[a] != plan->device[b] || graph->kept_apart[a] != graph->kept_apart[b];
}

/* Groups of which two ops are apart become ops alone, and so do recomputed ops that such a group has or reads. torn: (N), zero.
 */
static bool dissolve_torn(const stw_graph *graph, stw_plan *plan, bool *torn) {
    bool changed = false;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || plan->group[i] < 0) continue;
        torn[plan->group[i]] |= are_apart(graph, plan, i, plan->group[i]);
    }
    for (int32_t k = graph->op_count - 1; k >= 0; k--) { /* readers come before what they read */
        const int32_t i = graph->topological[k];
        bool alone = plan->group[i] >= 0 && torn[plan->group[i]];
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1] && plan->group[i] < 0 && !alone; r++) {
            const int32_t reader = graph->reader[r].node;
            alone = are_apart(graph, plan, i, reader) || torn[plan->group[reader] < 0 ? reader : plan->group[reader]];
        }
        if (!alone) continue;
        changed |= plan->group[i] != i;
        torn[i] = true;
        plan->group[i] = i;
    }
    return changed;
}

static void dissolve_all(stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->group[i] = i;
}

/* Groups that the limits and the devices of the plan tear apart are dissolved. */
static stw_status settle_groups(const stw_limited *limited, stw_plan *plan, stw_workspace *workspace, stw_error *error) {
    stw_evaluation evaluation;
    bool *torn;
    TRY(stw_plan_canonical_groups(plan, error)); /* so that the number of an op that is alone is free */
    stw_arena scratch = limited->arena;
    STW_TRY_NEW(&scratch, torn, plan->graph->N, error);
    if (!dissolve_torn(&limited->graph, plan, torn)) return STW_OK;
    stw_plan_remove_orders(plan);
    TRY(stw_simulate(limited->simulator, plan, workspace, &evaluation, error));
    if (evaluation.reason == STW_INVALID_GROUPS) dissolve_all(plan); /* what is left of one may be no kernel */
    return STW_OK;
}

/* ---- plans ---- */

stw_status stw_limited_settle(const stw_limited *limited, stw_plan *plan, stw_workspace *workspace, stw_error *error) {
    const stw_graph *graph = &limited->graph;
    bool moves = false;
    for (int32_t i = 0; i < graph->N && graph->allowed != NULL; i++)
        moves |= is_member(graph, i) && !(graph->allowed[i] >> plan->device[i] & 1u);
    if (!moves && stw_limited_is_in_line(limited, plan)) return STW_OK;
    stw_plan_join(limited->simulator, plan);
    line_up(limited, plan);
    stw_plan_remove_orders(plan);
    return settle_groups(limited, plan, workspace, error);
}

stw_status stw_limited_take(const stw_limited *limited, stw_plan *plan, stw_workspace *workspace, stw_error *error) {
    const stw_graph *graph = &limited->graph;
    stw_arena scratch = limited->arena;
    int32_t *before;
    bool moved = false;
    STW_TRY_NEW(&scratch, before, graph->N, error);
    memcpy(before, plan->device, (size_t)graph->N * sizeof *before);
    TRY(stw_limited_project(limited, plan, scratch, error));
    for (int32_t i = 0; i < graph->N; i++) moved |= is_member(graph, i) && plan->device[i] != before[i];
    if (moved) stw_plan_remove_orders(plan);
    return settle_groups(limited, plan, workspace, error);
}

stw_status stw_limited_project(const stw_limited *limited, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const stw_simulator *s = limited->simulator;
    const stw_graph *graph = s->graph;
    const int32_t D = s->machine->device_count;
    double *weight; /* (N, D) by the node that leads: microseconds, and a little for each byte of parameters */
    STW_TRY_NEW(&scratch, weight, (int64_t)graph->N * D, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (!is_member(graph, i)) continue;
        weight[(int64_t)s->together[i] * D + plan->device[i]] +=
            graph->kind[i] == STW_NODE_OP ? s->costs->least_us[i] + 1e-3 : 1e-12 * (double)graph->bytes[i];
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (s->together[i] != i || !is_member(graph, i)) continue;
        const double *mine = &weight[(int64_t)i * D];
        for (int32_t d = 0; d < D; d++)
            if (mine[d] > mine[plan->device[i]]) plan->device[i] = d;
    }
    stw_plan_join(s, plan);
    line_up(limited, plan);
    return STW_OK;
}
