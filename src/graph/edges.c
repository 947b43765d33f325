/* Edges between ops and sources: views resolved to their roots, duplicates dropped, both directions. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static void resolve_roots(stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++) { /* inputs come earlier, so their roots are known */
        const bool view = graph->kind[i] == STW_NODE_VIEW;
        graph->root[i] = view ? graph->root[graph->input[graph->input_start[i]]] : i;
    }
    for (int32_t o = 0; o < graph->output_count; o++) graph->kept[graph->root[graph->output[o]]] = true;
}

static int compare_reads(const void *left, const void *right) {
    const stw_use *a = left, *b = right;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->view < b->view ? -1 : a->view > b->view;
}

/* The distinct (root, view) pairs that op i reads, sorted, into `out`; returns their number. */
static int64_t collect_reads(const stw_graph *graph, int32_t i, stw_use *out) {
    int64_t count = 0;
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
        const int32_t input = graph->input[k];
        const bool view = graph->kind[input] == STW_NODE_VIEW;
        out[count++] = (stw_use){graph->root[input], view ? input : -1};
    }
    if (count > 1) qsort(out, (size_t)count, sizeof *out, compare_reads);
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        if (kept == 0 || compare_reads(&out[kept - 1], &out[k]) != 0) out[kept++] = out[k];
    }
    return kept;
}

static void build_reads(stw_graph *graph) {
    int64_t next = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        graph->read_start[i] = next;
        if (graph->kind[i] == STW_NODE_OP) next += collect_reads(graph, i, graph->read + next);
    }
    graph->read_start[graph->N] = next;
}

/* Readers of each value sorted by view, then reader: a stable counting sort of the reads by producer, after one by view. */
static stw_status build_readers(stw_graph *graph, stw_arena scratch, stw_error *error) {
    const int32_t N = graph->N;
    const int64_t E = graph->read_start[N];
    int64_t *place;
    stw_use *by_view; /* (E) node = reader, view = what it reads */
    int32_t *producer_by_view;
    STW_TRY_NEW(&scratch, place, (int64_t)N + 2, error);
    STW_TRY_NEW(&scratch, by_view, E, error);
    STW_TRY_NEW(&scratch, producer_by_view, E, error);
    for (int64_t e = 0; e < E; e++) place[graph->read[e].view + 2]++; /* view -1 comes first */
    for (int32_t v = 0; v <= N; v++) place[v + 1] += place[v];
    for (int32_t i = 0; i < N; i++) {
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            const int64_t slot = place[graph->read[e].view + 1]++;
            by_view[slot] = (stw_use){i, graph->read[e].view};
            producer_by_view[slot] = graph->read[e].node;
        }
    }
    for (int64_t e = 0; e < E; e++) graph->reader_start[producer_by_view[e] + 1]++;
    for (int32_t i = 0; i < N; i++) graph->reader_start[i + 1] += graph->reader_start[i];
    memcpy(place, graph->reader_start, ((size_t)N + 1) * sizeof *place);
    for (int64_t e = 0; e < E; e++) graph->reader[place[producer_by_view[e]]++] = by_view[e];
    return STW_OK;
}

stw_status stw_graph_build_edges(stw_graph *graph, stw_error *error) {
    stw_arena *arena = &graph->arena;
    const int64_t N = graph->N;
    const int64_t inputs = graph->input_start[N];
    STW_TRY_NEW(arena, graph->root, N, error);
    STW_TRY_NEW(arena, graph->kept, N, error);
    STW_TRY_NEW(arena, graph->read_start, N + 1, error);
    STW_TRY_NEW(arena, graph->read, inputs, error);
    STW_TRY_NEW(arena, graph->reader_start, N + 1, error);
    resolve_roots(graph);
    build_reads(graph);
    STW_TRY_NEW(arena, graph->reader, graph->read_start[N], error);
    return build_readers(graph, *arena, error);
}
