/* What an op waits for beside its producers: control edges; the readers of what it writes over, which are an update's wait for
 * the other readers of its parameter, and holds.
 *
 * These are added by the id of the op that waits, then that of the reader; one that would close a cycle is left out. Node ids are
 * a topological order of data and control edges, so waits for earlier ops can never close one, and a graph that has only these
 * needs no check. Otherwise acyclic.h checks each. */
#include "base/sort.h"
#include "graph/acyclic.h"
#include "graph/graph.h"

static int64_t sort_distinct(int32_t *ids, int64_t count) {
    stw_sort_ids(ids, count);
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        if (kept == 0 || ids[kept - 1] != ids[k]) ids[kept++] = ids[k];
    }
    return kept;
}

static int64_t hold_count(const stw_graph *graph, int32_t op) {
    return graph->hold_start != NULL ? graph->hold_start[op + 1] - graph->hold_start[op] : 0;
}

/* Its holds, and the readers of the parameter that it updates; ascending, the op itself left out. */
static int64_t earlier_readers(const stw_graph *graph, int32_t op, int32_t *out) {
    const int32_t parameter = graph->updates[op];
    int64_t count = 0;
    for (int64_t k = 0; k < hold_count(graph, op); k++) out[count++] = graph->hold[graph->hold_start[op] + k];
    for (int64_t r = parameter >= 0 ? graph->reader_start[parameter] : 0;
         parameter >= 0 && r < graph->reader_start[parameter + 1]; r++) {
        if (graph->reader[r].node != op) out[count++] = graph->reader[r].node;
    }
    return sort_distinct(out, count);
}

static int64_t control_waits(const stw_graph *graph, int32_t op, int32_t *out) {
    int64_t count = 0;
    for (int64_t k = graph->control_start[op]; k < graph->control_start[op + 1]; k++) {
        const int32_t before = graph->root[graph->control[k]];
        if (graph->kind[before] == STW_NODE_OP) out[count++] = before; /* a source is always there */
    }
    return count;
}

/* The largest number of waits that there can be, and whether some reader comes after the op that waits for it. */
static int64_t count_waits(const stw_graph *graph, bool *bends) {
    int64_t count = graph->control_start[graph->N];
    *bends = false;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t parameter = graph->updates[i];
        for (int64_t k = 0; k < hold_count(graph, i); k++) *bends |= graph->hold[graph->hold_start[i] + k] > i;
        count += hold_count(graph, i);
        if (parameter < 0) continue;
        for (int64_t r = graph->reader_start[parameter]; r < graph->reader_start[parameter + 1]; r++) {
            *bends |= graph->reader[r].node > i;
            count++;
        }
    }
    return count;
}

/* All data and control edges. */
static stw_status collect_edges(const stw_graph *graph, int64_t waits, stw_arena *scratch, stw_acyclic **out, stw_error *error) {
    TRY(stw_acyclic_create(graph->N, graph->read_start[graph->N] + waits, scratch, out, error));
    int32_t *before;
    STW_TRY_NEW(scratch, before, graph->control_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            stw_acyclic_add_unchecked(*out, graph->read[e].node, i); /* ids ascend along these */
        }
        const int64_t count = control_waits(graph, i, before);
        for (int64_t k = 0; k < count; k++) stw_acyclic_add_unchecked(*out, before[k], i);
    }
    return STW_OK;
}

stw_status stw_graph_build_waits(stw_graph *graph, stw_error *error) {
    bool bends;
    const int64_t most = count_waits(graph, &bends);
    STW_TRY_NEW(&graph->arena, graph->wait_start, (int64_t)graph->N + 1, error);
    STW_TRY_NEW(&graph->arena, graph->wait, most, error);
    stw_arena scratch = graph->arena;
    stw_acyclic *edges = NULL;
    if (bends) TRY(collect_edges(graph, most, &scratch, &edges, error));
    int32_t *readers;
    STW_TRY_NEW(&scratch, readers, most, error);
    int64_t next = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        graph->wait_start[i] = next;
        if (graph->kind[i] != STW_NODE_OP) continue;
        int64_t count = control_waits(graph, i, graph->wait + next);
        const int64_t reader_count = earlier_readers(graph, i, readers);
        for (int64_t r = 0; r < reader_count; r++) {
            if (edges == NULL || stw_acyclic_add(edges, readers[r], i)) graph->wait[next + count++] = readers[r];
        }
        next += sort_distinct(graph->wait + next, count);
    }
    graph->wait_start[graph->N] = next;
    return STW_OK;
}
