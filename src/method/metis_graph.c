#include "method/metis_graph.h"

#include <math.h>

typedef struct {
    int32_t a, b;
    double cost;
} edge;

typedef struct { /* edges as they are found; a pair may come up several times */
    int64_t count;
    edge *edge;
} edge_list;

typedef struct { /* units that read one value */
    int32_t count;
    int32_t *unit;      /* in order of first use */
    int64_t *bytes;     /* what a copy for this unit holds */
    int32_t *last_view; /* the last view that was counted; -2: none */
    int32_t *slot;      /* (M) place of a unit in the list + 1, else 0; empty between values */
} reader_list;

static stw_status create_readers(reader_list *list, int32_t M, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, list->unit, M, error);
    STW_TRY_NEW(arena, list->bytes, M, error);
    STW_TRY_NEW(arena, list->last_view, M, error);
    STW_TRY_NEW(arena, list->slot, M, error);
    return STW_OK;
}

/* Uses are sorted by view, the whole value first. */
static void list_readers(const stw_graph *graph, const stw_units *units, int32_t value, reader_list *list) {
    list->count = 0;
    for (int64_t r = graph->reader_start[value]; r < graph->reader_start[value + 1]; r++) {
        const int32_t unit = units->of[graph->reader[r].node], view = graph->reader[r].view;
        if (unit == units->of[value]) continue;
        if (list->slot[unit] == 0) {
            list->unit[list->count] = unit;
            list->bytes[list->count] = 0;
            list->last_view[list->count] = -2;
            list->slot[unit] = ++list->count;
        }
        const int32_t k = list->slot[unit] - 1;
        if (list->last_view[k] == view) continue;
        list->last_view[k] = view;
        const int64_t sum = list->bytes[k] + graph->bytes[view < 0 ? value : view];
        list->bytes[k] = sum < graph->bytes[value] ? sum : graph->bytes[value];
    }
    for (int32_t k = 0; k < list->count; k++) list->slot[list->unit[k]] = 0;
}

static double cost_of(const stw_edge_cost *c, int64_t bytes, int32_t sharers) {
    return pow((c->latency_us + (double)bytes * c->us_per_byte) / sharers, c->exponent);
}

static void add_edges(const stw_edge_cost *c, int32_t unit, const reader_list *list, edge_list *out) {
    int32_t from = unit;
    for (int32_t k = 0; k < list->count; k++) {
        const int32_t sharers = c->shape == STW_NET_SHARE ? list->count : 1;
        out->edge[out->count++] = (edge){from, list->unit[k], cost_of(c, list->bytes[k], sharers)};
        if (c->shape == STW_NET_PATH) from = list->unit[k];
    }
}

static bool has_transfers(const stw_graph *graph, int32_t node) {
    return graph->kind[node] == STW_NODE_OP || stw_node_is_resident(graph->kind[node]);
}

/* Both directions by vertex, repeats added up.  */
static stw_status gather(const edge_list *edges, int32_t M, stw_arena *arena, stw_part_graph *out, stw_error *error) {
    int64_t *start, *row, *last; /* last: where a vertex stands in the row at hand, else before it */
    STW_TRY_NEW(arena, out->start, (int64_t)M + 1, error);
    STW_TRY_NEW(arena, out->neighbour, 2 * edges->count, error);
    STW_TRY_NEW(arena, out->cost, 2 * edges->count, error);
    stw_arena scratch = *arena; /* only from here on: what is kept lies in front of it */
    STW_TRY_NEW(&scratch, start, (int64_t)M + 2, error);
    STW_TRY_NEW(&scratch, last, M, error);
    STW_TRY_NEW(&scratch, row, 2 * edges->count, error); /* edge x 2 + side */
    for (int64_t k = 0; k < edges->count; k++) {
        start[edges->edge[k].a + 2]++;
        start[edges->edge[k].b + 2]++;
    }
    for (int32_t v = 0; v < M; v++) start[v + 2] += start[v + 1];
    for (int64_t k = 0; k < edges->count; k++) {
        row[start[edges->edge[k].a + 1]++] = 2 * k;
        row[start[edges->edge[k].b + 1]++] = 2 * k + 1;
    }
    int64_t count = 0;
    for (int32_t v = 0; v < M; v++) last[v] = -1;
    for (int32_t v = 0; v < M; v++) {
        out->start[v] = count;
        for (int64_t k = start[v]; k < start[v + 1]; k++) {
            const edge *e = &edges->edge[row[k] / 2];
            const int32_t other = row[k] % 2 == 0 ? e->b : e->a;
            if (last[other] < out->start[v]) {
                last[other] = count;
                out->neighbour[count++] = other;
            }
            out->cost[last[other]] += e->cost;
        }
    }
    out->start[M] = count;
    return STW_OK;
}

stw_status stw_part_graph_build(const stw_graph *graph, const stw_units *units, const stw_edge_cost *edge_cost, stw_arena *arena,
                                stw_part_graph *out, stw_error *error) {
    *out = (stw_part_graph){.M = units->count};
    edge_list edges = {0};
    reader_list readers = {0};
    STW_TRY_NEW(arena, edges.edge, graph->reader_start[graph->N], error);
    stw_arena scratch = *arena;
    TRY(create_readers(&readers, units->count, &scratch, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (!has_transfers(graph, i)) continue;
        list_readers(graph, units, i, &readers);
        add_edges(edge_cost, units->of[i], &readers, &edges);
    }
    return gather(&edges, units->count, arena, out, error);
}
