/* The order of the nodes in the file, and what the plan says of each. */
#include <stdlib.h>

#include "export/onnx.h"

typedef struct {
    int32_t rank, node;
} ranked;

static int compare_ranked(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1) : a->node - b->node;
}

/* When the node's task begins among all; -1 for what has none: views, stored tensors, what was worked out while reading. */
static int32_t rank_of(const stw_onnx_output *x, int32_t k) {
    const int32_t i = x->id[k];
    return i >= 0 && x->e->graph->kind[i] == STW_NODE_OP ? x->e->rank[i] : -1;
}

enum { UNSEEN, BEGUN, DONE };

typedef struct {
    uint8_t *state;  /* (n) */
    int64_t *cursor; /* (n) into need */
    int32_t *stack;  /* (n) */
    int32_t done;
} walk;

/* The node, and before it whatever it needs that is not there yet. */
static stw_status place(stw_onnx_output *x, walk *w, int32_t first, stw_error *error) {
    int32_t depth = 0;
    if (w->state[first] == UNSEEN) w->stack[depth++] = first;
    while (depth > 0) {
        const int32_t k = w->stack[depth - 1];
        if (w->state[k] == UNSEEN) w->cursor[k] = x->need_start[k];
        w->state[k] = BEGUN;
        if (w->cursor[k] == x->need_start[k + 1]) {
            w->state[k] = DONE;
            x->order[w->done++] = k;
            depth--;
            continue;
        }
        const int32_t need = x->need[w->cursor[k]++];
        if (w->state[need] == BEGUN)
            return stw_fail(error, STW_ERROR_INPUT, "byte %lld: node '%.*s' (%.*s) depends on itself: its inputs close a cycle",
                            (long long)x->graph.node[need].at, STW_STR_SHOW(x->graph.node[need].name),
                            STW_STR_SHOW(x->graph.node[need].op));
        if (w->state[need] == UNSEEN) w->stack[depth++] = need;
    }
    return STW_OK;
}

stw_status stw_onnx_order(stw_onnx_output *x, stw_error *error) {
    const int32_t n = x->graph.node_count;
    stw_arena scratch = x->reader.scratch;
    walk w = {0};
    ranked *tasks;
    int32_t count = 0;
    STW_TRY_NEW(x->e->arena, x->order, n, error);
    STW_TRY_NEW(&scratch, tasks, n, error);
    STW_TRY_NEW(&scratch, w.state, n, error);
    STW_TRY_NEW(&scratch, w.cursor, n, error);
    STW_TRY_NEW(&scratch, w.stack, n, error);
    for (int32_t k = 0; k < n; k++) {
        if (rank_of(x, k) >= 0) tasks[count++] = (ranked){rank_of(x, k), k};
    }
    if (count > 1) qsort(tasks, (size_t)count, sizeof *tasks, compare_ranked);
    for (int32_t t = 0; t < count; t++) TRY(place(x, &w, tasks[t].node, error));
    for (int32_t k = 0; k < n; k++) TRY(place(x, &w, k, error)); /* what no task needs */
    return STW_OK;
}

/* ---- decisions ---- */

/* A view is where its root is; of a stored tensor the plan knows the device; the rest is as `otherwise`: with its first reader.
 */
static void decide_node(const stw_onnx_output *x, int32_t k, stw_onnx_decision otherwise, stw_onnx_decision *out) {
    const stw_graph *graph = x->e->graph;
    const int32_t root = x->id[k] >= 0 ? graph->root[x->id[k]] : -1;
    *out = otherwise;
    if (root < 0) return;
    if (graph->kind[root] == STW_NODE_OP) {
        const int32_t task = x->e->timeline->tasks->task_of[root];
        *out = (stw_onnx_decision){.device = x->e->plan->device[root],
                                   .priority = x->e->plan->priority[root],
                                   .task = task >= 0 ? task : STW_ONNX_RECOMPUTED};
    } else if (stw_node_is_resident(graph->kind[root])) {
        out->device = x->e->plan->device[root];
        out->task = STW_ONNX_ALONE;
    }
}

static stw_status number_groups(stw_onnx_output *x, stw_error *error) {
    stw_arena scratch = x->reader.scratch;
    const int32_t tasks = x->e->timeline->tasks->T;
    int64_t *number, next = 0;
    STW_TRY_NEW(&scratch, number, tasks, error);
    for (int32_t t = 0; t < tasks; t++) number[t] = -1;
    for (int32_t p = 0; p < x->graph.node_count; p++) {
        stw_onnx_decision *d = &x->decision[x->order[p]];
        if (d->task >= 0 && number[d->task] < 0) number[d->task] = next++;
        d->group = d->task == STW_ONNX_RECOMPUTED ? -1 : d->task == STW_ONNX_ALONE ? next++ : number[d->task];
    }
    return STW_OK;
}

stw_status stw_onnx_decide(stw_onnx_output *x, stw_error *error) {
    const int32_t n = x->graph.node_count;
    stw_arena scratch = x->reader.scratch;
    int32_t *first_reader;
    STW_TRY_NEW(x->e->arena, x->decision, n, error);
    STW_TRY_NEW(&scratch, first_reader, n, error);
    for (int32_t k = 0; k < n; k++) first_reader[k] = -1;
    for (int32_t p = n - 1; p >= 0; p--) { /* readers stand behind */
        const int32_t k = x->order[p], reader = first_reader[k];
        const stw_onnx_decision nobody = {.task = STW_ONNX_ALONE};
        decide_node(x, k, reader >= 0 ? x->decision[reader] : nobody, &x->decision[k]);
        for (int64_t u = x->need_start[k]; u < x->need_start[k + 1]; u++) first_reader[x->need[u]] = k;
    }
    return number_groups(x, error);
}
