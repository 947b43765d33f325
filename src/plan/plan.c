#include "plan/plan.h"

#include <string.h>

#include "plan/membership.h"

stw_status stw_plan_create(const stw_graph *graph, const stw_machine *machine, stw_plan **out, stw_error *error) {
    STW_NEED(graph);
    STW_NEED(machine);
    STW_NEED(out);
    *out = NULL;
    stw_arena arena;
    /* Four arrays, scratch of the same kind, and orders: each device's may grow to N entries, leaving smaller ones behind. */
    const int64_t per_node = 512 + 16 * (int64_t)machine->device_count;
    TRY(stw_arena_create_sized(&arena, 65536 + per_node * ((int64_t)graph->N + 16), error));
    stw_plan *plan = STW_NEW(&arena, stw_plan, 1);
    plan->graph = graph;
    plan->machine = machine;
    plan->method = STW_STR("");
    plan->device = STW_NEW(&arena, int32_t, graph->N);
    plan->priority = STW_NEW(&arena, double, graph->N);
    plan->group = STW_NEW(&arena, int32_t, graph->N);
    plan->order = STW_NEW(&arena, int32_t *, machine->device_count);
    plan->order_room = STW_NEW(&arena, int32_t, machine->device_count);
    plan->order_memory = STW_NEW(&arena, int32_t *, machine->device_count);
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

const stw_machine *stw_plan_machine(const stw_plan *plan) {
    STW_NEED(plan);
    return plan->machine;
}

const char *stw_plan_warning(const stw_plan *plan) {
    STW_NEED(plan);
    return plan->warning.length > 0 ? plan->warning.p : NULL;
}

const int32_t *stw_plan_device(const stw_plan *plan) {
    STW_NEED(plan);
    return plan->device;
}

const double *stw_plan_priority(const stw_plan *plan) {
    STW_NEED(plan);
    return plan->priority;
}

const int32_t *stw_plan_group(const stw_plan *plan) {
    STW_NEED(plan);
    return plan->group;
}

const int32_t *stw_plan_order(const stw_plan *plan, int32_t device, int32_t *count) {
    STW_NEED(plan);
    STW_NEED(count);
    const int32_t *order = device >= 0 && device < plan->machine->device_count ? plan->order[device] : NULL;
    *count = order == NULL ? -1 : plan->order_count[device];
    return order;
}

void stw_plan_set_device(stw_plan *plan, const int32_t *device) {
    STW_NEED(plan);
    STW_NEED(device);
    memmove(plan->device, device, (size_t)plan->graph->N * sizeof *device); /* it may be the plan's own */
}

void stw_plan_set_priority(stw_plan *plan, const double *priority) {
    STW_NEED(plan);
    STW_NEED(priority);
    memmove(plan->priority, priority, (size_t)plan->graph->N * sizeof *priority);
}

void stw_plan_set_group(stw_plan *plan, const int32_t *group) {
    STW_NEED(plan);
    STW_NEED(group);
    memmove(plan->group, group, (size_t)plan->graph->N * sizeof *group);
}

stw_status stw_plan_set_order(stw_plan *plan, int32_t device, const int32_t *tasks, int32_t count, stw_error *error) {
    STW_NEED(plan);
    if (device < 0 || device >= plan->machine->device_count) {
        return stw_fail(error, STW_ERROR_INPUT, "order for device %d; the machine has devices 0 to %d", device,
                        plan->machine->device_count - 1);
    }
    if (count > plan->graph->N) {
        return stw_fail(error, STW_ERROR_INPUT, "an order of %d entries; the graph has %d nodes", count, plan->graph->N);
    }
    if (count > 0) STW_NEED(tasks);
    plan->order[device] = NULL;
    plan->order_count[device] = 0;
    if (count < 0) return STW_OK;
    if (count > plan->order_room[device] || plan->order_memory[device] == NULL) { /* an empty order is an order all the same */
        int64_t room = 2 * (int64_t)plan->order_room[device] > count ? 2 * (int64_t)plan->order_room[device] : count;
        if (room > plan->graph->N) room = plan->graph->N;
        STW_TRY_NEW(&plan->arena, plan->order_memory[device], room, error);
        plan->order_room[device] = (int32_t)room;
    }
    plan->order[device] = plan->order_memory[device];
    if (count > 0) memmove(plan->order[device], tasks, (size_t)count * sizeof *tasks); /* it may be the plan's own */
    plan->order_count[device] = count;
    return STW_OK;
}

bool stw_plan_has_orders(const stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] != NULL) return true;
    }
    return false;
}

void stw_plan_remove_orders(stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        plan->order[d] = NULL;
        plan->order_count[d] = 0;
    }
}

stw_status stw_plan_assign(stw_plan *to, const stw_plan *from, stw_error *error) {
    const size_t N = (size_t)from->graph->N;
    memcpy(to->device, from->device, N * sizeof *to->device);
    memcpy(to->priority, from->priority, N * sizeof *to->priority);
    memcpy(to->group, from->group, N * sizeof *to->group);
    for (int32_t d = 0; d < from->machine->device_count; d++) {
        TRY(stw_plan_set_order(to, d, from->order[d], from->order[d] == NULL ? -1 : from->order_count[d], error));
    }
    return STW_OK;
}

stw_status stw_plan_copy(const stw_plan *plan, stw_plan **out, stw_error *error) {
    STW_NEED(plan);
    STW_NEED(out);
    TRY(stw_plan_create(plan->graph, plan->machine, out, error));
    const stw_status status = stw_plan_assign(*out, plan, error);
    if (status != STW_OK) {
        stw_plan_destroy(*out);
        *out = NULL;
    }
    return status;
}

stw_status stw_plan_canonical_groups(stw_plan *plan, stw_error *error) {
    const stw_graph *graph = plan->graph;
    stw_membership membership;
    stw_arena scratch = plan->arena;
    TRY(stw_membership_number(graph, plan->group, &scratch, &membership, error));
    for (int32_t i = 0; i < graph->N; i++) {
        const bool written = graph->kind[i] == STW_NODE_OP && plan->group[i] >= 0;
        plan->group[i] = written ? membership.task_node[membership.task_of[i]] : -1;
    }
    return STW_OK;
}
