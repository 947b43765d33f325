#include "plan/plan.h"

#include <math.h>
#include <string.h>

stw_status stw_plan_create(const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_plan *plan = STW_NEW(&arena, stw_plan, 1);
    plan->graph = graph;
    plan->machine = machine;
    plan->method = STW_STR("");
    plan->device = STW_NEW(&arena, int32_t, graph->N);
    plan->priority = STW_NEW(&arena, double, graph->N);
    plan->group = STW_NEW(&arena, int32_t, graph->N);
    plan->order = STW_NEW(&arena, int32_t *, machine->device_count);
    plan->order_count = STW_NEW(&arena, int32_t, machine->device_count);
    if (plan->order_count == NULL || plan->group == NULL || plan->priority == NULL || plan->device == NULL) {
        stw_arena_destroy(&arena);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory for a plan of %d nodes", graph->N);
    }
    for (int32_t i = 0; i < graph->N; i++) plan->group[i] = graph->kind[i] == STW_NODE_OP ? i : -1;
    plan->arena = arena;
    *out = plan;
    return STW_OK;
}

void stw_plan_destroy(stw_plan *plan) {
    if (plan == NULL) return;
    stw_machine_destroy(plan->owned_machine);
    stw_arena arena = plan->arena;
    stw_arena_destroy(&arena);
}

const stw_machine *stw_plan_machine(const stw_plan *plan) { return plan->machine; }
int32_t *stw_plan_device(stw_plan *plan) { return plan->device; }
double *stw_plan_priority(stw_plan *plan) { return plan->priority; }
int32_t *stw_plan_group(stw_plan *plan) { return plan->group; }

stw_status stw_plan_set_order(stw_plan *plan, int32_t device, const int32_t *tasks, int32_t count, stw_error *error) {
    if (device < 0 || device >= plan->machine->device_count) {
        return stw_fail(error, STW_ERROR_INPUT, "order for device %d; the machine has devices 0 to %d", device,
                        plan->machine->device_count - 1);
    }
    plan->order[device] = NULL;
    plan->order_count[device] = 0;
    if (count < 0) return STW_OK;
    STW_TRY_NEW(&plan->arena, plan->order[device], count, error);
    if (count > 0) memcpy(plan->order[device], tasks, (size_t)count * sizeof *tasks);
    plan->order_count[device] = count;
    return STW_OK;
}

stw_status stw_plan_check(const stw_plan *plan, stw_error *error) {
    const stw_graph *graph = plan->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        const uint8_t kind = graph->kind[i];
        if (kind == STW_NODE_VIEW || stw_node_is_everywhere(kind)) continue; /* ignored there */
        if (plan->device[i] < 0 || plan->device[i] >= plan->machine->device_count) {
            return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is on device %d; the machine has devices 0 to %d", i,
                            STW_STR_SHOW(graph->node_name[i]), plan->device[i], plan->machine->device_count - 1);
        }
        if (!isfinite(plan->priority[i])) {
            return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' has a priority that is no finite number", i,
                            STW_STR_SHOW(graph->node_name[i]));
        }
        if (kind == STW_NODE_OP && plan->group[i] < -1) {
            return stw_fail(error, STW_ERROR_INPUT, "node %d '%.*s' is in group %d; groups are 0 or more, or -1", i,
                            STW_STR_SHOW(graph->node_name[i]), plan->group[i]);
        }
    }
    return STW_OK;
}

bool stw_plan_is_unfused(const stw_plan *plan, int32_t *seen) {
    const stw_graph *graph = plan->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k], group = plan->group[op];
        if (group == op && seen[op] == 0) { /* the usual numbering */
            seen[op] = 1;
            continue;
        }
        if (group < 0 || group >= graph->N || seen[group] != 0) return false;
        seen[group] = 1;
    }
    return true;
}
