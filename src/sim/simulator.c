/* The simulator and its workspaces: what is computed once per graph and machine, and the tasks that a plan makes. */
#include "sim/sim.h"

#include <math.h>

/* Nodes that must be on one device: an update and its parameter, and what the graph asks for. */
static stw_status list_pairs(stw_simulator *s, stw_error *error) {
    const stw_graph *graph = s->graph;
    STW_TRY_NEW(&s->arena, s->pair, 2 * (int64_t)graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->updates[i] >= 0) {
            s->pair[s->pair_count][0] = i;
            s->pair[s->pair_count++][1] = graph->updates[i];
        }
        if (graph->colocate[i] < 0) continue;
        const int32_t a = graph->root[i], b = graph->root[graph->colocate[i]];
        if (a == b || stw_node_is_everywhere(graph->kind[a]) || stw_node_is_everywhere(graph->kind[b])) continue;
        s->pair[s->pair_count][0] = a;
        s->pair[s->pair_count++][1] = b;
    }
    return STW_OK;
}

static stw_status fill_simulator(stw_simulator *s, stw_error *error) {
    stw_membership membership;
    stw_str reason;
    TRY(list_pairs(s, error));
    TRY(stw_membership_build(s->graph, s->machine, NULL, NULL, &s->arena, &membership, &reason, error));
    return stw_tasks_build(s->costs, &membership, &s->arena, &s->unfused, &reason, error);
}

stw_status stw_simulator_create(const stw_costs *costs, stw_simulator **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_simulator *s = STW_NEW(&arena, stw_simulator, 1);
    *s = (stw_simulator){.arena = arena, .costs = costs, .graph = costs->graph, .machine = costs->machine};
    const stw_status status = fill_simulator(s, error);
    if (status != STW_OK) {
        arena = s->arena;
        stw_arena_destroy(&arena);
        return status;
    }
    *out = s;
    return STW_OK;
}

void stw_simulator_destroy(stw_simulator *simulator) {
    if (simulator == NULL) return;
    stw_arena arena = simulator->arena;
    stw_arena_destroy(&arena);
}

stw_status stw_workspace_create(const stw_simulator *simulator, stw_workspace **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_workspace *workspace = STW_NEW(&arena, stw_workspace, 1);
    workspace->arena = arena;
    workspace->simulator = simulator;
    *out = workspace;
    return STW_OK;
}

void stw_workspace_destroy(stw_workspace *workspace) {
    if (workspace == NULL) return;
    stw_arena arena = workspace->arena;
    stw_arena_destroy(&arena);
}

int32_t stw_workspace_transfers(const stw_workspace *workspace, const stw_transfer **out) {
    *out = workspace->timeline.transfer;
    return workspace->timeline.transfer_count;
}

stw_status stw_simulator_tasks(const stw_simulator *simulator, const stw_plan *plan, stw_arena *arena, stw_tasks *room,
                               const stw_tasks **out, stw_str *reason, stw_error *error) {
    const stw_tasks *unfused = &simulator->unfused;
    *reason = (stw_str){0};
    *out = unfused;
    int32_t t = 0;
    while (t < unfused->T && plan->group[unfused->task_node[t]] == unfused->task_node[t]) t++;
    if (t == unfused->T) return STW_OK;
    stw_membership membership;
    TRY(stw_membership_build(simulator->graph, simulator->machine, plan->group, plan->device, arena, &membership, reason, error));
    if (reason->length > 0) return STW_OK;
    *out = room;
    return stw_tasks_build(simulator->costs, &membership, arena, room, reason, error);
}

/* Values that no simulation could make sense of. */
static stw_status check_entry(const stw_simulator *s, const stw_plan *plan, int32_t node, stw_error *error) {
    const stw_str name = s->graph->node_name[node];
    const int32_t last = s->machine->device_count - 1;
    if (plan->device[node] < 0 || plan->device[node] > last) {
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is on device %d; the machine has devices 0 to %d", node,
                        STW_STR_SHOW(name), plan->device[node], last);
    }
    if (!isfinite(plan->priority[node])) {
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' has a priority that is no finite number", node,
                        STW_STR_SHOW(name));
    }
    if (s->graph->kind[node] == STW_NODE_OP && plan->group[node] < -1) {
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is in group %d; groups are 0 or more, or -1", node,
                        STW_STR_SHOW(name), plan->group[node]);
    }
    return STW_OK;
}

stw_status stw_simulator_check_owner(const stw_simulator *s, const stw_plan *plan, stw_error *error) {
    if (plan->graph == s->graph && (plan->machine == s->machine || stw_machine_equal(plan->machine, s->machine))) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "the plan belongs to another graph or machine than the simulator");
}

stw_status stw_simulator_check(const stw_simulator *s, const stw_plan *plan, stw_error *error) {
    TRY(stw_simulator_check_owner(s, plan, error));
    for (int32_t value = 0; value < s->unfused.V; value++) {
        if (!(s->unfused.value_flags[value] & STW_VALUE_EVERYWHERE))
            TRY(check_entry(s, plan, s->unfused.value_node[value], error));
    }
    return STW_OK;
}
