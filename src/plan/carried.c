/* The plan that an exported model carries, for the graph that was read from it. Its groups are ops there already. */
#include <stdlib.h>

#include "plan/plan.h"

typedef struct placed { /* a task in a strict order */
    int32_t device, task;
    int64_t place;
} placed;

static int compare_placed(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->place != b->place) return a->place < b->place ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

static stw_status find_device(const stw_plan *plan, int32_t node, int32_t *out, stw_error *error) {
    const stw_str name = plan->graph->carried[node].device, node_name = plan->graph->node_name[node];
    if (name.length == 0) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "'%.*s' has no device in the model, though others have; was it changed? Export the plan again",
                        STW_STR_SHOW(node_name));
    }
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        *out = d;
        if (stw_str_equal(name, plan->machine->device[d].name)) return STW_OK;
    }
    return stw_fail(error, STW_ERROR_INPUT,
                    "the model has '%.*s' on device '%.*s', which machine '%.*s' does not have; give the machine that it was "
                    "exported for",
                    STW_STR_SHOW(node_name), STW_STR_SHOW(name), STW_STR_SHOW(plan->machine->name));
}

static stw_status fill_orders(stw_plan *plan, stw_error *error) {
    const stw_graph *graph = plan->graph;
    stw_arena scratch = plan->arena;
    placed *list;
    int32_t *task, count = 0;
    STW_TRY_NEW(&scratch, list, graph->N, error);
    STW_TRY_NEW(&scratch, task, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const stw_carried *carried = &graph->carried[i];
        if (graph->kind[i] == STW_NODE_OP && carried->place > 0) list[count++] = (placed){plan->device[i], i, carried->place};
    }
    if (count > 1) qsort(list, (size_t)count, sizeof *list, compare_placed);
    for (int32_t k = 0; k < count; k++) task[k] = list[k].task;
    plan->arena = scratch; /* the lists stay: orders are kept behind them */
    for (int32_t k = 0, n = 0; k < count; k += n) {
        for (n = 1; k + n < count && list[k + n].device == list[k].device;) n++;
        TRY(stw_plan_set_order(plan, list[k].device, &task[k], n, error));
    }
    return STW_OK;
}

static stw_status fill(stw_plan *plan, stw_error *error) {
    const stw_graph *graph = plan->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        TRY(find_device(plan, i, &plan->device[i], error));
        plan->priority[i] = graph->carried[i].priority;
    }
    for (int32_t i = 0; i < graph->N; i++) plan->device[i] = plan->device[graph->root[i]];
    return fill_orders(plan, error);
}

stw_status stw_plan_carried(const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error) {
    STW_NEED(graph);
    STW_NEED(machine);
    STW_NEED(out);
    *out = NULL;
    if (graph->carried == NULL) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "the graph carries no plan; HLO modules do that were exported with a plan for several devices");
    }
    stw_plan *plan;
    TRY(stw_plan_create(graph, machine, &plan, error));
    plan->method = STW_STR(STW_PLAN_CARRIED);
    const stw_status status = fill(plan, error);
    if (status == STW_OK) {
        *out = plan;
    } else {
        stw_plan_destroy(plan);
    }
    return status;
}
