#include "plan/group_cost.h"

#include "plan/kernel_rules.h"

double stw_group_kernel_us(const stw_costs *costs, int32_t cost_class, const stw_members *members, const stw_kernel_room *room) {
    stw_kernel_work kernel;
    stw_group_work sums = {0};
    const stw_device *device = &costs->machine->device[costs->machine->class_device[cost_class]];
    stw_members all = *members;
    all.holds_rows = device->fuses_epilogue[STW_CLASS_REDUCE] &&
                     stw_find_row_kernel(costs->graph, members->member, members->written, members->count).fits;
    stw_kernel_find_work(costs->graph, &all, room, &kernel);
    for (int32_t k = 0; k < members->count; k++) stw_group_work_add(&sums, costs, cost_class, members->member[k]);
    const double model_us = stw_costs_kernel_us(costs, cost_class, &kernel);
    return sums.model_us > 0.0 ? sums.us / sums.model_us * model_us : sums.us;
}

void stw_group_work_members(stw_group_work *work, const stw_group_members *group, const stw_costs *costs, int32_t cost_class) {
    for (int32_t k = 0; k < group->count; k++) stw_group_work_add(work, costs, cost_class, group->member[k]);
}

/* ---- traffic ---- */

/* The class whose efficiency counts for an external value: that of the first member that reads it. An alias only hands it on, so
 * the first member that is none stands for it. */
static stw_op_class reading_class(const stw_group_members *group, int32_t value) {
    const stw_graph *graph = group->graph;
    stw_op_class fallback = STW_CLASS_ALIAS;
    for (int32_t k = 0; k < group->count; k++) {
        const int32_t op = group->member[k];
        if (graph->op_class[op] == STW_CLASS_ALIAS) continue;
        if (fallback == STW_CLASS_ALIAS) fallback = (stw_op_class)graph->op_class[op];
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            if (graph->read[e].node == value) return (stw_op_class)graph->op_class[op];
        }
    }
    return fallback;
}

void stw_group_work_read_as(stw_group_work *work, const stw_group_members *group, stw_op_class reading, int32_t value,
                            const stw_use *use, int64_t uses) {
    work->class_bytes[reading] += (double)stw_read_bytes(group->graph, value, use, uses);
}

void stw_group_work_read(stw_group_work *work, const stw_group_members *group, int32_t value, const stw_use *use, int64_t uses) {
    stw_group_work_read_as(work, group, reading_class(group, value), value, use, uses);
}

void stw_group_work_write(stw_group_work *work, const stw_group_members *group, int32_t op) {
    const stw_op_class own = (stw_op_class)group->graph->op_class[op];
    work->class_bytes[own == STW_CLASS_ALIAS ? reading_class(group, -1) : own] += (double)group->graph->bytes[op];
}

static bool use_before(stw_use a, stw_use b) { return a.node != b.node ? a.node < b.node : a.view < b.view; }

/* Shell's sort: qsort may allocate, and an evaluation must not. */
int32_t stw_sort_uses(stw_use *use, int32_t count) {
    int32_t gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3) {
        for (int32_t k = gap; k < count; k++) {
            const stw_use moved = use[k];
            int32_t to = k;
            for (; to >= gap && use_before(moved, use[to - gap]); to -= gap) use[to] = use[to - gap];
            use[to] = moved;
        }
    }
    int32_t kept = count > 0;
    for (int32_t k = 1; k < count; k++) {
        if (use_before(use[kept - 1], use[k])) use[kept++] = use[k];
    }
    return kept;
}
