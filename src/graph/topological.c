/* A stable topological order of the ops: among those that are free to go, the smallest id first. */
#include "graph/graph.h"

/* A binary heap of ids, smallest on top. */
static void heap_push(int32_t *heap, int32_t *count, int32_t id) {
    int32_t k = (*count)++;
    for (; k > 0 && heap[(k - 1) / 2] > id; k = (k - 1) / 2) heap[k] = heap[(k - 1) / 2];
    heap[k] = id;
}

static int32_t heap_pop(int32_t *heap, int32_t *count) {
    const int32_t top = heap[0], last = heap[--(*count)];
    int32_t k = 0;
    for (;;) {
        int32_t child = 2 * k + 1;
        if (child >= *count) break;
        if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[k] = heap[child];
        k = child;
    }
    heap[k] = last;
    return top;
}

/* Ids ascend along every data and control edge. If they do along the update waits too, they are the order. */
static bool ids_are_topological(const stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++) {
        const int64_t end = graph->wait_start[i + 1];
        if (end > graph->wait_start[i] && graph->wait[end - 1] > i) return false;
    }
    return true;
}

/* For each op, the ops that wait for it. */
static stw_status build_waiters(const stw_graph *graph, stw_arena *arena, int64_t **start, int32_t **waiter, stw_error *error) {
    const int32_t N = graph->N;
    const int64_t waits = graph->wait_start[N];
    int64_t *place;
    STW_TRY_NEW(arena, *start, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, place, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, *waiter, waits, error);
    for (int64_t w = 0; w < waits; w++) (*start)[graph->wait[w] + 1]++;
    for (int32_t i = 0; i < N; i++) {
        (*start)[i + 1] += (*start)[i];
        place[i + 1] = (*start)[i + 1];
    }
    for (int32_t i = 0; i < N; i++) {
        for (int64_t w = graph->wait_start[i]; w < graph->wait_start[i + 1]; w++) (*waiter)[place[graph->wait[w]]++] = i;
    }
    return STW_OK;
}

static stw_status sort_with_heap(stw_graph *graph, stw_arena scratch, stw_error *error) {
    int64_t *waiter_start;
    int32_t *waiter, *pending, *heap;
    TRY(build_waiters(graph, &scratch, &waiter_start, &waiter, error));
    STW_TRY_NEW(&scratch, pending, graph->N, error);
    STW_TRY_NEW(&scratch, heap, graph->N, error);
    int32_t heap_count = 0, done = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            pending[i] += graph->kind[graph->read[e].node] == STW_NODE_OP;
        }
        pending[i] += (int32_t)(graph->wait_start[i + 1] - graph->wait_start[i]);
        if (pending[i] == 0) heap_push(heap, &heap_count, i);
    }
    while (heap_count > 0) {
        const int32_t op = heap_pop(heap, &heap_count);
        graph->topological[done++] = op;
        for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
            if (--pending[graph->reader[r].node] == 0) heap_push(heap, &heap_count, graph->reader[r].node);
        }
        for (int64_t w = waiter_start[op]; w < waiter_start[op + 1]; w++) {
            if (--pending[waiter[w]] == 0) heap_push(heap, &heap_count, waiter[w]);
        }
    }
    /* Readers refuse forward edges and waits.c leaves out what closes a cycle, so this cannot happen. */
    if (done != graph->op_count) return stw_fail(error, STW_ERROR_INPUT, "the graph has a cycle");
    return STW_OK;
}

stw_status stw_graph_build_topological(stw_graph *graph, stw_error *error) {
    STW_TRY_NEW(&graph->arena, graph->topological, graph->op_count, error);
    if (!ids_are_topological(graph)) return sort_with_heap(graph, graph->arena, error);
    int32_t count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP) graph->topological[count++] = i;
    }
    return STW_OK;
}
