#include "plan/siblings.h"

#include "base/array.h"
#include "base/union_find.h"
#include "plan/kernels.h"

enum {
    MOST_READERS = 24, /* of a value; what more kernels read brings none of them together */
    NOBODY = -1
};

typedef struct pair {
    double saved;
    int32_t a, b;
    int32_t version; /* the sum of theirs when it was looked at */
} pair;

typedef struct joiner {
    stw_kernels all;
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
    const stw_kernel *k = &j->all.kernel[task];
    for (int32_t i = 0; i < k->count; i++) {
        const int32_t op = k->member[i];
        for (int64_t w = j->waiter_from[op]; w < j->waiter_from[op + 1]; w++) {
            for (int32_t c = j->all.m.computer_start[j->waiter[w]]; c < j->all.m.computer_start[j->waiter[w] + 1]; c++) {
                const int32_t next = stw_sets_find(j->all.into, j->all.m.computer[c]);
                if (next != task && visit(j, next, to, count)) return true;
            }
        }
        if (!stw_kernels_write(&j->all, task, op)) continue;
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
    const pair p = {stw_kernels_saving(&j->all, a, b), a < b ? a : b, a < b ? b : a,
                    j->all.kernel[a].version + j->all.kernel[b].version};
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
        TRY(stw_kernels_join(&j->all, a, b, p.saved, j->arena, j->error));
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
    TRY(stw_kernels_build(costs, device, group, arena, &j->all, error));
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
