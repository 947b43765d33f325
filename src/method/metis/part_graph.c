#include "method/metis/part_graph.h"

#include <math.h>
#include <stdlib.h>

#include "base/union_find.h"

/* ---- units and transfers ---- */

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
    return pow((c->fixed_us + stw_link_mean_bytes_us(c->link, (double)bytes)) / sharers, c->exponent);
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

/* ---- vertices that stay together ---- */

/* Vertices whose edge is too dear to be cut, made one before METIS sees them: it takes balance more seriously than cost, and
 * would rather send a large parameter in every step than leave a device with less work. */

static int compare_heavy(const void *x, const void *y) {
    const edge *a = x, *b = y;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    return (a->b > b->b) - (a->b < b->b);
}

static stw_status list_heavy(const stw_part_graph *graph, double dear, stw_arena *arena, edge **out, int64_t *count,
                             stw_error *error) {
    int64_t found = 0;
    for (int64_t e = 0; e < graph->start[graph->M]; e++) found += graph->cost[e] > dear;
    STW_TRY_NEW(arena, *out, found, error);
    *count = 0;
    for (int32_t v = 0; v < graph->M; v++) {
        for (int64_t e = graph->start[v]; e < graph->start[v + 1]; e++) {
            if (graph->cost[e] > dear && v < graph->neighbour[e])
                (*out)[(*count)++] = (edge){v, graph->neighbour[e], graph->cost[e]};
        }
    }
    qsort(*out, (size_t)*count, sizeof **out, compare_heavy);
    return STW_OK;
}

/* Dearest edges first, as long as what comes together is not above `most` of the work. */
static stw_status merge(const stw_part_graph *graph, const double *work, double dear, double most, int32_t *leader,
                        stw_arena scratch, stw_error *error) {
    edge *dearest = NULL;
    int64_t count = 0;
    double *sum;
    TRY(list_heavy(graph, dear, &scratch, &dearest, &count, error));
    STW_TRY_NEW(&scratch, sum, graph->M, error);
    for (int32_t v = 0; v < graph->M; v++) {
        leader[v] = v;
        sum[v] = work[v];
    }
    for (int64_t k = 0; k < count; k++) {
        const int32_t a = stw_sets_find(leader, dearest[k].a), b = stw_sets_find(leader, dearest[k].b);
        if (a == b || sum[a] + sum[b] > most) continue;
        leader[b] = a;
        sum[a] += sum[b];
    }
    return STW_OK;
}

stw_status stw_part_graph_glue(const stw_part_graph *graph, const double *work, double dear, double most, stw_arena *arena,
                               int32_t *piece, int32_t *pieces, stw_error *error) {
    stw_arena scratch = *arena;
    int32_t *leader;
    STW_TRY_NEW(&scratch, leader, graph->M, error);
    TRY(merge(graph, work, dear, most, leader, scratch, error));
    *pieces = 0;
    for (int32_t v = 0; v < graph->M; v++) {
        if (stw_sets_find(leader, v) == v) piece[v] = (*pieces)++;
    }
    for (int32_t v = 0; v < graph->M; v++) piece[v] = piece[stw_sets_find(leader, v)];
    return STW_OK;
}

/* Rows of the pieces one after the other; `last`: where a neighbour stands in the row at hand. */
stw_status stw_part_graph_contract(const stw_part_graph *graph, const stw_part_weights *weights, const int32_t *piece,
                                   int32_t pieces, stw_arena *arena, stw_part_graph *out, stw_part_weights *out_weights,
                                   stw_error *error) {
    const int32_t M = graph->M, K = weights->K;
    int32_t *start, *member;
    int64_t *last, count = 0;
    *out = (stw_part_graph){.M = pieces};
    *out_weights = (stw_part_weights){.K = K};
    STW_TRY_NEW(arena, out->start, (int64_t)pieces + 1, error);
    STW_TRY_NEW(arena, out->neighbour, graph->start[M], error);
    STW_TRY_NEW(arena, out->cost, graph->start[M], error);
    STW_TRY_NEW(arena, out_weights->weight, (int64_t)pieces * K, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, start, (int64_t)pieces + 2, error);
    STW_TRY_NEW(&scratch, member, M, error);
    STW_TRY_NEW(&scratch, last, pieces, error);
    for (int32_t v = 0; v < M; v++) start[piece[v] + 2]++;
    for (int32_t p = 0; p < pieces; p++) start[p + 2] += start[p + 1];
    for (int32_t v = 0; v < M; v++) {
        member[start[piece[v] + 1]++] = v;
        for (int32_t k = 0; k < K; k++) out_weights->weight[(int64_t)piece[v] * K + k] += weights->weight[(int64_t)v * K + k];
    }
    for (int32_t p = 0; p < pieces; p++) last[p] = -1;
    for (int32_t p = 0; p < pieces; p++) {
        out->start[p] = count;
        for (int32_t m = start[p]; m < start[p + 1]; m++) {
            for (int64_t e = graph->start[member[m]]; e < graph->start[member[m] + 1]; e++) {
                const int32_t other = piece[graph->neighbour[e]];
                if (other == p) continue;
                if (last[other] < out->start[p]) {
                    last[other] = count;
                    out->neighbour[count++] = other;
                }
                out->cost[last[other]] += graph->cost[e];
            }
        }
    }
    out->start[pieces] = count;
    return STW_OK;
}
