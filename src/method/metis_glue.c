/* Vertices whose edge is too dear to be cut, made one before METIS sees them: it takes balance more seriously than cost, and
 * would rather send a large parameter in every step than leave a device with less work. */
#include <stdlib.h>

#include "base/union_find.h"
#include "method/metis_graph.h"

typedef struct {
    double cost;
    int32_t a, b;
} heavy;

static int compare_heavy(const void *x, const void *y) {
    const heavy *a = x, *b = y;
    if (a->cost != b->cost) return a->cost > b->cost ? -1 : 1;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    return (a->b > b->b) - (a->b < b->b);
}

static stw_status list_heavy(const stw_part_graph *graph, double dear, stw_arena *arena, heavy **out, int64_t *count,
                             stw_error *error) {
    int64_t found = 0;
    for (int64_t e = 0; e < graph->start[graph->M]; e++) found += graph->cost[e] > dear;
    STW_TRY_NEW(arena, *out, found, error);
    *count = 0;
    for (int32_t v = 0; v < graph->M; v++) {
        for (int64_t e = graph->start[v]; e < graph->start[v + 1]; e++) {
            if (graph->cost[e] > dear && v < graph->neighbour[e])
                (*out)[(*count)++] = (heavy){graph->cost[e], v, graph->neighbour[e]};
        }
    }
    qsort(*out, (size_t)*count, sizeof **out, compare_heavy);
    return STW_OK;
}

/* Dearest edges first, as long as what comes together is not above `most` of the work. */
static stw_status merge(const stw_part_graph *graph, const double *work, double dear, double most, int32_t *leader,
                        stw_arena scratch, stw_error *error) {
    heavy *edge = NULL;
    int64_t count = 0;
    double *sum;
    TRY(list_heavy(graph, dear, &scratch, &edge, &count, error));
    STW_TRY_NEW(&scratch, sum, graph->M, error);
    for (int32_t v = 0; v < graph->M; v++) {
        leader[v] = v;
        sum[v] = work[v];
    }
    for (int64_t k = 0; k < count; k++) {
        const int32_t a = stw_sets_find(leader, edge[k].a), b = stw_sets_find(leader, edge[k].b);
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
