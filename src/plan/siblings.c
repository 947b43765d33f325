#include "plan/siblings.h"

#include <math.h>

#include "base/array.h"
#include "base/sort.h"
#include "base/union_find.h"
#include "plan/group_cost.h"
#include "plan/kernel_rules.h"

enum {
    MOST_FOLDED = 8,          /* outputs of a kernel that are reductions */
    FEWEST_COLUMNS = 1 << 13, /* results of a reduction, below which its loop is too short of threads for other work: */
    FEWEST_ROWS = 1 << 10,    /* over columns, and over rows */
    MOST_USES = 4096,         /* that a kernel reads: values, each through each of its views */
    MOST_READERS = 24,        /* of a value; what more kernels read brings none of them together */
    NOBODY = -1
};

typedef int32_t member_block[STW_MAX_GROUP_MEMBERS];

typedef struct {
    const int32_t *member; /* (count) ascending */
    int32_t count;
    int32_t first, last; /* written members */
    int32_t version;     /* how often it has been joined */
    bool joins;          /* it is of a kind that may */
    double loop;         /* elements that its loop goes over */
    double folded;       /* results of its reductions; 0: it has none */
    int64_t row;         /* of its reductions: the rows' length; 0: columns are reduced */
    int32_t folds;       /* how many reductions it ends with */
    double us;
} kernel_state;

typedef struct {
    const stw_costs *costs;
    const stw_graph *graph;
    const int32_t *device;
    stw_membership m;
    kernel_state *kernel; /* (T) */
    int32_t *into;        /* (T) the task that a task was joined to, or itself (base/union_find.h) */
    int32_t *mark, round; /* (N) members of the kernel that is looked at */
    stw_use use[MOST_USES];
    stw_kernel_room room;
} kernels;

/* ---- what a kernel is like ---- */

/* The op is written, not computed again, by the kernel of a task. */
static bool writes(kernels *all, int32_t task, int32_t op) {
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
static bool may_join(const stw_graph *graph, const kernel_state *k) {
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

static void describe(kernels *all, int32_t task) {
    const stw_graph *graph = all->graph;
    kernel_state *k = &all->kernel[task];
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

static bool are_alike(const kernels *all, const kernel_state *a, const kernel_state *b) {
    const int32_t *apart = all->costs->graph->kept_apart;
    if (apart != NULL && apart[a->last] != apart[b->last]) return false;
    if (!a->joins || !b->joins || a->loop != b->loop || all->device[a->last] != all->device[b->last]) return false;
    if (a->folds > 0 && b->folds > 0) return a->folded == b->folded && a->row == b->row && a->folds + b->folds <= MOST_FOLDED;
    const kernel_state *folding = a->folds > 0 ? a : b;
    return folding->folds == 0 || folding->folded >= (folding->row > 0 ? FEWEST_ROWS : FEWEST_COLUMNS);
}

/* The members of both; -1: too many. */
static int32_t unite(const kernel_state *a, const kernel_state *b, int32_t out[STW_MAX_GROUP_MEMBERS]) {
    return stw_unite_ids(a->member, a->count, b->member, b->count, out, STW_MAX_GROUP_MEMBERS);
}

/* What ends a kernel, such as a reduction, is read by no other member. With the members marked. */
static bool ends_are_outputs(const kernels *all, const int32_t *member, int32_t count) {
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
    kernels *all;
    int32_t a, b;
} both;

static bool reads_outside(const void *context, int32_t reader) {
    const both *p = context;
    for (int32_t c = p->all->m.computer_start[reader]; c < p->all->m.computer_start[reader + 1]; c++) {
        const int32_t by = stw_sets_find(p->all->into, p->all->m.computer[c]);
        if (by != p->a && by != p->b) return true;
    }
    return false;
}

/* Somebody else computes a reader of it: the kernel, made of `a` and `b`, must write it. */
static bool is_visible(kernels *all, int32_t op, int32_t a, int32_t b) {
    const stw_graph *graph = all->graph;
    if (graph->kept[op] || graph->reader_start[op] == graph->reader_start[op + 1]) return true;
    const both p = {all, a, b};
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        if (reads_outside(&p, graph->reader[r].node)) return true;
    }
    return false;
}

/* The distinct (value, view) pairs that members read from outside; -1: too many. */
static int32_t collect_uses(kernels *all, const int32_t *member, int32_t count) {
    const stw_graph *graph = all->graph;
    int32_t uses = 0;
    all->round++;
    for (int32_t k = 0; k < count; k++) all->mark[member[k]] = all->round;
    for (int32_t k = 0; k < count; k++) {
        for (int64_t e = graph->read_start[member[k]]; e < graph->read_start[member[k] + 1]; e++) {
            if (all->mark[graph->read[e].node] == all->round) continue;
            if (uses == MOST_USES) return -1;
            all->use[uses++] = graph->read[e];
        }
    }
    return stw_sort_uses(all->use, uses);
}

/* Distinct values among the uses. */
static int32_t count_values(const kernels *all, int32_t uses) {
    int32_t values = 0;
    for (int32_t u = 0; u < uses; u++) values += u == 0 || all->use[u].node != all->use[u - 1].node;
    return values;
}

/* Of these members as the kernel of tasks `a` and `b`; HUGE_VAL: it has too many operands. */
static double kernel_us(kernels *all, const int32_t *member, int32_t count, int32_t a, int32_t b) {
    const int32_t device = all->device[member[0]], class = all->costs->machine->device[device].cost_class;
    if (count == 1) return all->costs->us[class][member[0]];
    const both p = {all, a, b};
    bool written[STW_MAX_GROUP_MEMBERS];
    const int32_t uses = collect_uses(all, member, count);
    int32_t tensors = count_values(all, uses), output[STW_MAX_GROUP_MEMBERS], outputs = 0, named;
    for (int32_t k = 0; k < count; k++) {
        written[k] = (writes(all, a, member[k]) || writes(all, b, member[k])) && is_visible(all, member[k], a, b);
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

/* What the kernels of two tasks save as one; 0 or less: nothing, or they cannot be one. Other kernels are not looked at. */
static double saving_of(kernels *all, int32_t a, int32_t b) {
    int32_t member[STW_MAX_GROUP_MEMBERS];
    const kernel_state *left = &all->kernel[a], *right = &all->kernel[b];
    if (!are_alike(all, left, right)) return 0.0;
    const int32_t count = unite(left, right, member);
    return count < 0 ? 0.0 : left->us + right->us - kernel_us(all, member, count, a, b);
}

/* The kernel of `b` becomes a part of that of `a`, which saves that much. */
static stw_status join_two(kernels *all, int32_t a, int32_t b, double saved, stw_arena *arena, stw_error *error) {
    kernel_state *to = &all->kernel[a];
    const kernel_state from = all->kernel[b];
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

/* A kernel per task of these groups; `group` and `device`, (N) as plans have them. */
static stw_status build_kernels(const stw_costs *costs, const int32_t *device, const int32_t *group, stw_arena *arena,
                                kernels *all, stw_error *error) {
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

typedef struct {
    double saved;
    int32_t a, b;
    int32_t version; /* the sum of theirs when it was looked at */
} pair;

typedef struct {
    kernels all;
    stw_arena *arena;
    int32_t *waiter;      /* ops that wait for an op */
    int64_t *waiter_from; /* (N + 1) into waiter */
    int32_t *seen, stamp; /* (T) */
    int32_t *stack;       /* (T) */
    pair *heap;           /* (heap_count) the largest saving first */
    int64_t heap_count, heap_room;
    stw_error *error;
} joiner;

/* ---- order: one may not lead to the other through a third ---- */

static bool visit(joiner *j, int32_t task, int32_t to, int32_t *count) {
    if (task == to) return true;
    if (j->seen[task] == j->stamp || j->all.kernel[task].first > j->all.kernel[to].last) return false;
    j->seen[task] = j->stamp;
    j->stack[(*count)++] = task;
    return false;
}

/* Does something that follows the task, in one step, lead to `to`? `direct`: in one step alone counts too. */
static bool step_on(joiner *j, int32_t task, int32_t to, bool direct, int32_t *count) {
    const stw_graph *graph = j->all.graph;
    const kernel_state *k = &j->all.kernel[task];
    for (int32_t i = 0; i < k->count; i++) {
        const int32_t op = k->member[i];
        for (int64_t w = j->waiter_from[op]; w < j->waiter_from[op + 1]; w++) {
            for (int32_t c = j->all.m.computer_start[j->waiter[w]]; c < j->all.m.computer_start[j->waiter[w] + 1]; c++) {
                const int32_t next = stw_sets_find(j->all.into, j->all.m.computer[c]);
                if (next != task && visit(j, next, to, count)) return true;
            }
        }
        if (!writes(&j->all, task, op)) continue;
        for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
            const int32_t reader = graph->reader[r].node;
            for (int32_t c = j->all.m.computer_start[reader]; c < j->all.m.computer_start[reader + 1]; c++) {
                const int32_t next = stw_sets_find(j->all.into, j->all.m.computer[c]);
                if (next == task || (next == to && !direct)) continue;
                if (visit(j, next, to, count)) return true;
            }
        }
    }
    return false;
}

/* A path of at least two steps. */
static bool leads_to(joiner *j, int32_t from, int32_t to) {
    int32_t count = 0;
    j->stamp++;
    j->seen[from] = j->stamp;
    if (step_on(j, from, to, false, &count)) return true;
    while (count > 0) {
        if (step_on(j, j->stack[--count], to, true, &count)) return true;
    }
    return false;
}

/* ---- pairs that may come next ---- */

static bool goes_before(pair a, pair b) {
    if (a.saved != b.saved) return a.saved > b.saved;
    return a.a != b.a ? a.a < b.a : a.b < b.b;
}

static stw_status push(joiner *j, pair p) {
    TRY(STW_GROW(j->arena, j->heap, j->heap_count + 1, j->heap_room, j->error));
    int64_t slot = j->heap_count++;
    for (; slot > 0 && goes_before(p, j->heap[(slot - 1) / 2]); slot = (slot - 1) / 2) j->heap[slot] = j->heap[(slot - 1) / 2];
    j->heap[slot] = p;
    return STW_OK;
}

static pair pop(joiner *j) {
    const pair top = j->heap[0], last = j->heap[--j->heap_count];
    int64_t slot = 0;
    for (int64_t child; (child = 2 * slot + 1) < j->heap_count; slot = child) {
        if (child + 1 < j->heap_count && goes_before(j->heap[child + 1], j->heap[child])) child++;
        if (!goes_before(j->heap[child], last)) break;
        j->heap[slot] = j->heap[child];
    }
    j->heap[slot] = last;
    return top;
}

static stw_status look_at(joiner *j, int32_t a, int32_t b) {
    const pair p = {saving_of(&j->all, a, b), a < b ? a : b, a < b ? b : a, j->all.kernel[a].version + j->all.kernel[b].version};
    return p.saved > 0.0 ? push(j, p) : STW_OK;
}

/* The kernels that read a value, and the one that writes it; -1: too many. */
static int32_t users_of(joiner *j, int32_t value, int32_t user[MOST_READERS]) {
    const stw_graph *graph = j->all.graph;
    int32_t count = 0;
    j->stamp++;
    const int32_t writer = graph->kind[value] == STW_NODE_OP ? j->all.m.task_of[value] : NOBODY;
    if (writer >= 0) j->seen[user[count++] = writer] = j->stamp;
    for (int64_t r = graph->reader_start[value]; r < graph->reader_start[value + 1]; r++) {
        const int32_t reader = graph->reader[r].node;
        for (int32_t c = j->all.m.computer_start[reader]; c < j->all.m.computer_start[reader + 1]; c++) {
            const int32_t task = j->all.m.computer[c];
            if (j->seen[task] == j->stamp || !j->all.kernel[task].joins) continue;
            if (count == MOST_READERS) return -1;
            j->seen[task] = j->stamp;
            user[count++] = task;
        }
    }
    return count;
}

static stw_status find_pairs(joiner *j) {
    const stw_graph *graph = j->all.graph;
    int32_t user[MOST_READERS];
    for (int32_t i = 0; i < graph->N; i++) {
        const bool is_value = stw_node_is_source(graph->kind[i]) || (graph->kind[i] == STW_NODE_OP && j->all.m.task_of[i] >= 0);
        const int32_t count = is_value ? users_of(j, i, user) : 0;
        for (int32_t a = 0; a < count; a++) {
            for (int32_t b = a + 1; b < count; b++) TRY(look_at(j, user[a], user[b]));
        }
    }
    return STW_OK;
}

/* ---- joining ---- */

static stw_status join_greedily(joiner *j) {
    while (j->heap_count > 0) {
        const pair p = pop(j);
        const int32_t a = stw_sets_find(j->all.into, p.a), b = stw_sets_find(j->all.into, p.b);
        if (a == b) continue;
        if (j->all.kernel[a].version + j->all.kernel[b].version != p.version || a != p.a || b != p.b) {
            TRY(look_at(j, a, b));
            continue;
        }
        if (leads_to(j, a, b) || leads_to(j, b, a)) continue;
        TRY(join_two(&j->all, a, b, p.saved, j->arena, j->error));
    }
    return STW_OK;
}

static stw_status find_waiters(joiner *j) {
    const stw_graph *graph = j->all.graph;
    STW_TRY_NEW(j->arena, j->waiter_from, (int64_t)graph->N + 2, j->error);
    STW_TRY_NEW(j->arena, j->waiter, graph->wait_start[graph->N], j->error);
    for (int64_t w = 0; w < graph->wait_start[graph->N]; w++) j->waiter_from[graph->wait[w] + 2]++;
    for (int32_t i = 0; i < graph->N; i++) j->waiter_from[i + 2] += j->waiter_from[i + 1];
    for (int32_t i = 0; i < graph->N; i++) {
        for (int64_t w = graph->wait_start[i]; w < graph->wait_start[i + 1]; w++) {
            j->waiter[j->waiter_from[graph->wait[w] + 1]++] = i;
        }
    }
    return STW_OK;
}

static stw_status join_all(const stw_costs *costs, const int32_t *device, int32_t *group, stw_arena *arena, stw_error *error) {
    joiner *j;
    STW_TRY_NEW(arena, j, 1, error);
    j->arena = arena, j->error = error;
    TRY(build_kernels(costs, device, group, arena, &j->all, error));
    const stw_membership *m = &j->all.m;
    STW_TRY_NEW(arena, j->seen, m->T, error);
    STW_TRY_NEW(arena, j->stack, m->T, error);
    TRY(find_waiters(j));
    TRY(find_pairs(j));
    TRY(join_greedily(j));
    for (int32_t i = 0; i < costs->graph->N; i++) {
        if (m->task_of[i] >= 0) group[i] = m->task_node[stw_sets_find(j->all.into, m->task_of[i])];
    }
    return STW_OK;
}

stw_status stw_siblings_join(const stw_costs *costs, const int32_t *device, int32_t *group, stw_error *error) {
    stw_arena arena;
    if (costs->graph->flow == NULL) return STW_OK;
    TRY(stw_arena_create(&arena, error));
    const stw_status status = join_all(costs, device, group, &arena, error);
    stw_arena_destroy(&arena);
    return status;
}
