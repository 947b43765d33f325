#include "plan/group_cost.h"

#include <math.h>

#include "plan/membership.h"

/* ---- how often ---- */

typedef struct need { /* of one value, in passes over it */
    double whole;     /* the largest of those that are at least one: the others see the same elements */
    double parts;     /* the sum of the others: slices are different ones */
    bool is_read;
} need;

static void add_need(need *n, const stw_graph *graph, int32_t reader, double reader_passes, int32_t value) {
    const double there = stw_graph_elements(graph, value);
    const bool by_element = graph->flow[reader].by_element && there > 0.0;
    const double passes = by_element ? reader_passes * stw_graph_elements(graph, reader) / there : reader_passes;
    if (passes >= 1.0) n->whole = fmax(n->whole, passes);
    if (passes < 1.0) n->parts += passes;
    n->is_read = true;
}

static double passes_of(const need *n) { return !n->is_read ? 1.0 : fmax(n->whole, fmin(n->parts, 1.0)); }

static int32_t find_member(const stw_group_members *group, int32_t op) {
    int32_t low = 0, high = group->count;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (group->member[middle] < op) low = middle + 1;
        if (group->member[middle] >= op) high = middle;
    }
    return low < group->count && group->member[low] == op ? low : -1;
}

/* From the last member to the first: readers come behind what they read. A kernel that goes on with what it has folded from rows
 * holds these rows, and computes nothing twice. */
static void find_passes(stw_group_members *group, double *passes) {
    const stw_graph *graph = group->graph;
    need needed[2 * STW_MAX_GROUP_MEMBERS] = {0};
    bool holds_rows = false;
    for (int32_t k = group->count - 1; k >= 0; k--) {
        const int32_t op = group->member[k];
        passes[k] = passes_of(&needed[k]);
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            const int32_t at = find_member(group, graph->read[e].node);
            if (at < 0) continue;
            add_need(&needed[at], graph, op, passes[k], graph->read[e].node);
            holds_rows |= graph->flow[graph->read[e].node].folds;
        }
    }
    for (int32_t k = 0; holds_rows && k < group->count; k++) passes[k] = fmin(passes[k], 1.0);
    group->passes = passes;
}

void stw_group_find_passes(stw_group_members *group, double *passes) {
    if (group->graph->flow != NULL) find_passes(group, passes);
}

double stw_group_work_members(stw_group_work *work, const stw_group_members *group, const stw_costs *costs, int32_t cost_class) {
    enum { DEAR = 16 };
    double again_us = 0.0;
    for (int32_t k = 0; k < group->count; k++) stw_group_work_add(work, costs, cost_class, group->member[k]);
    for (int32_t k = 0; k < group->count && group->passes != NULL; k++) {
        const double us = (group->passes[k] - 1.0) * costs->compute_us[cost_class][group->member[k]];
        if (us <= 0.0) work->compute_us += us;
        if (us > 0.0) again_us += us * (group->graph->flow[group->member[k]].dear ? DEAR : 1);
    }
    return again_us;
}

/* The share of an external value that the kernel reads. */
static double share_read(const stw_group_members *group, int32_t value) {
    const stw_graph *graph = group->graph;
    need needed = {0};
    for (int32_t k = 0; k < group->count && needed.whole < 1.0; k++) {
        const int32_t op = group->member[k];
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            if (graph->read[e].node == value) add_need(&needed, graph, op, group->passes[k], value);
        }
    }
    return fmin(passes_of(&needed), 1.0);
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
    const double share = group->passes == NULL ? 1.0 : share_read(group, value);
    work->class_bytes[reading] += share * (double)stw_cost_read_bytes(group->graph, value, use, uses);
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
