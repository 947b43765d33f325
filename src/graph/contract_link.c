/* What must come after each op. */
#include "graph/contract.h"

/* Bytes that reader r of p reads: distinct views, at most the whole. Reader lists are sorted by view, so each view comes once. */
static void link_readers(stw_contraction *c, int32_t p, int64_t *place, int64_t *count) {
    const stw_graph *graph = c->graph;
    for (int64_t k = graph->reader_start[p]; k < graph->reader_start[p + 1]; k++) {
        const int32_t reader = graph->reader[k].node, view = graph->reader[k].view;
        const int64_t whole = graph->bytes[p], part = view < 0 ? whole : graph->bytes[view];
        if (place[reader] < c->next_from[p]) { /* place: where this reader stands in the list of an op, this one or an earlier */
            place[reader] = *count;
            c->next[*count] = reader;
            c->next_bytes[(*count)++] = 0;
        }
        int64_t *bytes = &c->next_bytes[place[reader]];
        *bytes = part >= whole - *bytes ? whole : *bytes + part;
    }
}

stw_status stw_contraction_link(stw_contraction *c, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = c->graph;
    const int32_t N = graph->N;
    const int64_t capacity = graph->reader_start[N] + graph->wait_start[N];
    STW_TRY_NEW(arena, c->next_from, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, c->next, capacity, error);
    STW_TRY_NEW(arena, c->next_bytes, capacity, error);
    stw_arena scratch = *arena;
    int64_t *place, *waiter_start;
    int32_t *waiter;
    STW_TRY_NEW(&scratch, place, N, error);
    STW_TRY_NEW(&scratch, waiter_start, (int64_t)N + 2, error);
    STW_TRY_NEW(&scratch, waiter, graph->wait_start[N], error);
    for (int64_t k = 0; k < graph->wait_start[N]; k++) waiter_start[graph->wait[k] + 2]++;
    for (int32_t i = 0; i < N; i++) waiter_start[i + 2] += waiter_start[i + 1];
    for (int32_t i = 0; i < N; i++) {
        for (int64_t k = graph->wait_start[i]; k < graph->wait_start[i + 1]; k++) waiter[waiter_start[graph->wait[k] + 1]++] = i;
    }
    int64_t count = 0;
    for (int32_t i = 0; i < N; i++) place[i] = -1;
    for (int32_t i = 0; i < N; i++) {
        c->next_from[i] = count;
        if (graph->kind[i] != STW_NODE_OP) continue; /* sources are there at time 0 */
        link_readers(c, i, place, &count);
        for (int64_t k = waiter_start[i]; k < waiter_start[i + 1]; k++) {
            c->next[count] = waiter[k];
            c->next_bytes[count++] = 0;
        }
    }
    c->next_from[N] = count;
    return STW_OK;
}
