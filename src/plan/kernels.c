#include "plan/kernels.h"

#include <math.h>

#include "base/sort.h"
#include "base/union_find.h"
#include "plan/group_cost.h"
#include "plan/kernel_rules.h"

enum {
    MOST_FOLDED = 8,          /* outputs of a kernel that are reductions */
    FEWEST_COLUMNS = 1 << 13, /* results of a reduction, below which its loop is too short of threads for other work: */
    FEWEST_ROWS = 1 << 10     /* over columns, and over rows */
};

typedef int32_t member_block[STW_MAX_GROUP_MEMBERS];

/* ---- what a kernel is like ---- */

bool stw_kernels_write(stw_kernels *all, int32_t task, int32_t op) {
    return all->m.task_of[op] >= 0 && stw_sets_find(all->into, all->m.task_of[op]) == task;
}

static double loop_of(const stw_graph *graph, int32_t op) {
    double most = stw_graph_elements(graph, op);
    if (graph->op_class[op] != STW_CLASS_REDUCE) return most;
    for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
        most = fmax(most, stw_graph_elements(graph, graph->read[e].node));
    }
    return most;
}

/* A kernel may be joined if it ends with an element-wise op or a reduction. One that goes on with what it folded does not. */
static bool may_join(const stw_graph *graph, const stw_kernel *k) {
    const int32_t end = k->last;
    const bool reduces = graph->op_class[end] == STW_CLASS_REDUCE;
    if (!reduces && (graph->stays[end] || !graph->flow[end].by_element || graph->flow[end].row == 0)) return false;
    for (int32_t i = 0; i < k->count; i++) {
        const int32_t op = k->member[i];
        if (!stw_op_class_fuses((stw_op_class)graph->op_class[op]) || graph->updates[op] >= 0) return false;
        if (op != end && graph->flow[op].folds) return false;
    }
    return true;
}

static void describe(stw_kernels *all, int32_t task) {
    const stw_graph *graph = all->graph;
    stw_kernel *k = &all->kernel[task];
    k->member = &all->m.member[all->m.member_start[task]];
    k->count = all->m.member_start[task + 1] - all->m.member_start[task];
    k->first = all->m.task_node[task];
    int32_t written = 0;
    for (int32_t i = 0; i < k->count; i++) {
        if (all->m.task_of[k->member[i]] != task) continue;
        k->last = k->member[i];
        written++;
    }
    k->joins = may_join(graph, k) && written > 0;
    k->loop = loop_of(graph, k->last);
    k->folds = graph->op_class[k->last] == STW_CLASS_REDUCE;
    k->folded = k->folds ? stw_graph_elements(graph, k->last) : 0.0;
    k->row = k->folds ? graph->flow[k->last].row : 0;
}

static bool are_alike(const stw_kernels *all, const stw_kernel *a, const stw_kernel *b) {
    if (!a->joins || !b->joins || a->loop != b->loop || all->device[a->last] != all->device[b->last]) return false;
    if (a->folds > 0 && b->folds > 0) return a->folded == b->folded && a->row == b->row && a->folds + b->folds <= MOST_FOLDED;
    const stw_kernel *folding = a->folds > 0 ? a : b;
    return folding->folds == 0 || folding->folded >= (folding->row > 0 ? FEWEST_ROWS : FEWEST_COLUMNS);
}

/* The members of both; -1: too many. */
static int32_t unite(const stw_kernel *a, const stw_kernel *b, int32_t out[STW_MAX_GROUP_MEMBERS]) {
    return stw_unite_ids(a->member, a->count, b->member, b->count, out, STW_MAX_GROUP_MEMBERS);
}

/* What ends a kernel, such as a reduction, is read by no other member. With the members marked. */
static bool ends_are_outputs(const stw_kernels *all, const int32_t *member, int32_t count) {
    const stw_graph *graph = all->graph;
    for (int32_t k = 0; k < count; k++) {
        for (int64_t e = graph->read_start[member[k]]; e < graph->read_start[member[k] + 1]; e++) {
            const int32_t read = graph->read[e].node;
            if (all->mark[read] == all->round && (graph->stays[read] || graph->flow[read].folds)) return false;
        }
    }
    return true;
}

/* ---- what a kernel takes ---- */

typedef struct {
    stw_kernels *all;
    int32_t a, b;
} pair;

static bool reads_outside(const void *context, int32_t reader) {
    const pair *p = context;
    for (int32_t c = p->all->m.computer_start[reader]; c < p->all->m.computer_start[reader + 1]; c++) {
        const int32_t by = stw_sets_find(p->all->into, p->all->m.computer[c]);
        if (by != p->a && by != p->b) return true;
    }
    return false;
}

/* Somebody else computes a reader of it: the kernel, made of `a` and `b`, must write it. */
static bool is_visible(stw_kernels *all, int32_t op, int32_t a, int32_t b) {
    const stw_graph *graph = all->graph;
    if (graph->kept[op] || graph->reader_start[op] == graph->reader_start[op + 1]) return true;
    const pair p = {all, a, b};
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        if (reads_outside(&p, graph->reader[r].node)) return true;
    }
    return false;
}

/* The distinct (value, view) pairs that members read from outside; -1: too many. */
static int32_t collect_uses(stw_kernels *all, const int32_t *member, int32_t count) {
    const stw_graph *graph = all->graph;
    int32_t uses = 0;
    all->round++;
    for (int32_t k = 0; k < count; k++) all->mark[member[k]] = all->round;
    for (int32_t k = 0; k < count; k++) {
        for (int64_t e = graph->read_start[member[k]]; e < graph->read_start[member[k] + 1]; e++) {
            if (all->mark[graph->read[e].node] == all->round) continue;
            if (uses == STW_KERNEL_USES) return -1;
            all->use[uses++] = graph->read[e];
        }
    }
    return stw_sort_uses(all->use, uses);
}

/* Distinct values among the uses. */
static int32_t count_values(const stw_kernels *all, int32_t uses) {
    int32_t values = 0;
    for (int32_t u = 0; u < uses; u++) values += u == 0 || all->use[u].node != all->use[u - 1].node;
    return values;
}

/* Of these members as the kernel of tasks `a` and `b`; HUGE_VAL: it has too many operands. */
static double kernel_us(stw_kernels *all, const int32_t *member, int32_t count, int32_t a, int32_t b) {
    const int32_t device = all->device[member[0]], class = all->costs->machine->device[device].cost_class;
    if (count == 1) return all->costs->us[class][member[0]];
    const pair p = {all, a, b};
    bool written[STW_MAX_GROUP_MEMBERS];
    const int32_t uses = collect_uses(all, member, count);
    int32_t tensors = count_values(all, uses), output[STW_MAX_GROUP_MEMBERS], outputs = 0, named;
    for (int32_t k = 0; k < count; k++) {
        written[k] =
            (stw_kernels_write(all, a, member[k]) || stw_kernels_write(all, b, member[k])) && is_visible(all, member[k], a, b);
        if (written[k]) output[outputs++] = member[k];
        tensors += written[k];
    }
    if (a != b && stw_kernel_fault(all->graph, member, count, output, outputs, &named) != NULL) return HUGE_VAL;
    if (uses < 0 || tensors > STW_MAX_GROUP_TENSORS || (a != b && !ends_are_outputs(all, member, count))) return HUGE_VAL;
    return stw_group_kernel_us(
        all->costs, class,
        &(stw_members){.member = member, .written = written, .count = count, .reads_outside = reads_outside, .context = &p},
        &all->room);
}

double stw_kernels_saving(stw_kernels *all, int32_t a, int32_t b) {
    int32_t member[STW_MAX_GROUP_MEMBERS];
    const stw_kernel *left = &all->kernel[a], *right = &all->kernel[b];
    if (!are_alike(all, left, right)) return 0.0;
    const int32_t count = unite(left, right, member);
    return count < 0 ? 0.0 : left->us + right->us - kernel_us(all, member, count, a, b);
}

stw_status stw_kernels_join(stw_kernels *all, int32_t a, int32_t b, double saved, stw_arena *arena, stw_error *error) {
    stw_kernel *to = &all->kernel[a];
    const stw_kernel from = all->kernel[b];
    member_block *block;
    STW_TRY_NEW(arena, block, 1, error);
    to->count = unite(to, &from, *block);
    to->member = *block;
    to->us += from.us - saved;
    to->version += from.version + 1;
    to->first = to->first < from.first ? to->first : from.first;
    to->last = to->last > from.last ? to->last : from.last;
    if (to->folds == 0) to->folded = from.folded, to->row = from.row;
    to->folds += from.folds;
    all->into[b] = a;
    return STW_OK;
}

stw_status stw_kernels_build(const stw_costs *costs, const int32_t *device, const int32_t *group, stw_arena *arena,
                             stw_kernels *all, stw_error *error) {
    stw_str reason;
    const stw_graph *graph = costs->graph;
    all->costs = costs, all->graph = graph, all->device = device;
    TRY(stw_membership_build(graph, costs->machine, group, device, arena, &all->m, &reason, error));
    if (reason.length > 0) return stw_fail(error, STW_ERROR_INPUT, "%.*s", STW_STR_SHOW(reason));
    STW_TRY_NEW(arena, all->kernel, all->m.T, error);
    STW_TRY_NEW(arena, all->into, all->m.T, error);
    STW_TRY_NEW(arena, all->mark, graph->N, error);
    TRY(stw_kernel_room_create(graph, arena, &all->room, error));
    all->round = 0;
    stw_sets_begin(all->into, all->m.T);
    for (int32_t t = 0; t < all->m.T; t++) describe(all, t);
    for (int32_t t = 0; t < all->m.T; t++) all->kernel[t].us = kernel_us(all, all->kernel[t].member, all->kernel[t].count, t, t);
    return STW_OK;
}
