/* The simulator and its workspaces: what is computed once per graph and machine, and the tasks that a plan makes. */
#include "sim/sim.h"

#include <math.h>

#include "base/union_find.h"
#include "graph/units.h"
#include "plan/plan.h"

static int32_t smallest_reader(const stw_graph *graph, int32_t node) {
    int32_t least = -1;
    for (int64_t r = graph->reader_start[node]; r < graph->reader_start[node + 1]; r++) {
        if (least < 0 || graph->reader[r].node < least) least = graph->reader[r].node;
    }
    return least;
}

static stw_status list_followers(stw_simulator *s, stw_error *error) {
    const stw_graph *graph = s->graph;
    STW_TRY_NEW(&s->arena, s->together, graph->N, error);
    STW_TRY_NEW(&s->arena, s->follows, graph->N, error);
    stw_arena scratch = s->arena;
    int32_t *leader, *first;
    STW_TRY_NEW(&scratch, leader, graph->N, error);
    STW_TRY_NEW(&scratch, first, graph->N, error); /* of a set: the smallest op, else the smallest member */
    stw_sets_begin(leader, graph->N);
    for (int32_t k = 0; k < s->pair_count; k++) stw_sets_join(leader, s->pair[k][0], s->pair[k][1]);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = graph->N - 1; i >= 0; i--) {
            if (pass == 0 || graph->kind[i] == STW_NODE_OP) first[stw_sets_find(leader, i)] = i;
        }
    }
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t node = first[stw_sets_find(leader, graph->root[i])];
        s->together[i] = s->follows[i] = node;
        if (graph->kind[node] == STW_NODE_OP) continue;
        const int32_t reader = stw_node_is_resident(graph->kind[node]) ? smallest_reader(graph, node) : -1;
        s->follows[i] = reader < 0 ? -1 : first[stw_sets_find(leader, reader)];
    }
    return STW_OK;
}

static stw_status fill_simulator(stw_simulator *s, stw_error *error) {
    stw_membership membership;
    stw_str reason;
    TRY(stw_graph_colocated(s->graph, &s->arena, &s->pair, &s->pair_count, error));
    TRY(list_followers(s, error));
    TRY(stw_membership_build(s->graph, s->machine, NULL, NULL, &s->arena, &membership, &reason, error));
    return stw_tasks_build(s->costs, &membership, &s->arena, &s->unfused, &reason, error);
}

stw_status stw_simulator_create(const stw_costs *costs, stw_simulator **out, stw_error *error) {
    STW_NEED(costs);
    STW_NEED(out);
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
    STW_NEED(simulator);
    STW_NEED(out);
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
        return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' has a priority that is not a finite number", node,
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

/* ---- what a method need not decide ---- */

void stw_plan_join(const stw_simulator *simulator, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = plan->device[simulator->together[i]];
}

void stw_plan_complete(const stw_simulator *simulator, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        plan->device[i] = simulator->follows[i] < 0 ? 0 : plan->device[simulator->follows[i]];
    }
}
