/* Partitions by calls of METIS that are known to behave.
 *
 * METIS writes to standard output when a bisection within its recursion leaves one side empty, as large imbalances and few
 * vertices make it do. So the recursion is ours and each call divides into two; all parts at once only where no side can
 * become empty by balance alone. */
#include "method/metis_graph.h"

typedef struct {
    const stw_part_call *call; /* the whole */
    int32_t *local;            /* (M) number of a vertex within the piece at hand, else -1 */
    int32_t *part;             /* (M) the result */
} splitter;

/* The part of the graph that lies within these vertices. */
static stw_status extract(const splitter *s, const int32_t *vertex, int32_t count, stw_arena *arena, stw_part_graph *graph,
                          stw_part_weights *weights, stw_error *error) {
    const stw_part_graph *whole = s->call->graph;
    const int32_t K = s->call->weights->K;
    int64_t most = 0, edges = 0;
    for (int32_t v = 0; v < count; v++) most += whole->start[vertex[v] + 1] - whole->start[vertex[v]];
    *graph = (stw_part_graph){.M = count};
    *weights = (stw_part_weights){.K = K};
    STW_TRY_NEW(arena, graph->start, (int64_t)count + 1, error);
    STW_TRY_NEW(arena, graph->neighbour, most, error);
    STW_TRY_NEW(arena, graph->cost, most, error);
    STW_TRY_NEW(arena, weights->weight, (int64_t)count * K, error);
    for (int32_t v = 0; v < count; v++) s->local[vertex[v]] = v;
    for (int32_t v = 0; v < count; v++) {
        graph->start[v] = edges;
        for (int64_t e = whole->start[vertex[v]]; e < whole->start[vertex[v] + 1]; e++) {
            if (s->local[whole->neighbour[e]] < 0) continue;
            graph->neighbour[edges] = s->local[whole->neighbour[e]];
            graph->cost[edges++] = whole->cost[e];
        }
        for (int32_t k = 0; k < K; k++)
            weights->weight[(int64_t)v * K + k] = s->call->weights->weight[(int64_t)vertex[v] * K + k];
    }
    graph->start[count] = edges;
    for (int32_t v = 0; v < count; v++) s->local[vertex[v]] = -1;
    return STW_OK;
}

/* Two sides with the shares of parts [first, middle) and [middle, last). */
static stw_status bisect(const splitter *s, const int32_t *vertex, int32_t count, int32_t first, int32_t last, int32_t *side,
                         stw_arena scratch, stw_error *error) {
    const int32_t middle = first + (last - first + 1) / 2;
    stw_part_graph graph;
    stw_part_weights weights;
    double left = 0.0, all = 0.0;
    for (int32_t p = first; p < last; p++) {
        all += s->call->share[p];
        if (p < middle) left += s->call->share[p];
    }
    const double share[] = {left / all, 1.0 - left / all};
    TRY(extract(s, vertex, count, &scratch, &graph, &weights, error));
    stw_part_call two = *s->call;
    two.graph = &graph;
    two.weights = &weights;
    two.parts = 2;
    two.share = share;
    two.recursive = s->call->recursive || s->call->parts > 2;
    two.volume = two.volume && !two.recursive;
    return stw_metis_call(&two, side, scratch, error);
}

/* Divides these vertices, which are reordered, among parts [first, last). */
static stw_status split(const splitter *s, int32_t *vertex, int32_t count, int32_t first, int32_t last, stw_arena scratch,
                        stw_error *error) {
    const int32_t middle = first + (last - first + 1) / 2;
    if (last - first == 1 || count <= last - first) {
        for (int32_t v = 0; v < count; v++) s->part[vertex[v]] = first + (last - first == 1 ? 0 : v);
        return STW_OK;
    }
    int32_t *side, *sorted, left = 0, right = 0;
    STW_TRY_NEW(&scratch, side, count, error);
    STW_TRY_NEW(&scratch, sorted, count, error);
    TRY(bisect(s, vertex, count, first, last, side, scratch, error));
    for (int32_t v = 0; v < count; v++) left += side[v] == 0;
    for (int32_t v = 0, at = 0; v < count; v++) sorted[side[v] == 0 ? at++ : left + right++] = vertex[v];
    for (int32_t v = 0; v < count; v++) vertex[v] = sorted[v];
    TRY(split(s, vertex, left, first, middle, scratch, error));
    return split(s, vertex + left, right, middle, last, scratch, error);
}

/* Many vertices, none of them heavy in any constraint, and little imbalance: then a side that balance allows is not empty. */
static bool may_go_at_once(const stw_part_call *call) {
    enum { VERTICES_PER_PART = 50, PIECES_PER_PART = 8, MOST_CONSTRAINTS = 8 };
    const int32_t M = call->graph->M, K = call->weights->K;
    if (call->recursive || M / VERTICES_PER_PART < call->parts || call->imbalance > 1.3 || K > MOST_CONSTRAINTS) return false;
    for (int32_t k = 0; k < K; k++) {
        double sum = 0.0, largest = 0.0;
        for (int32_t v = 0; v < M; v++) {
            const double weight = call->weights->weight[(int64_t)v * K + k];
            sum += weight;
            largest = weight > largest ? weight : largest;
        }
        if (largest * PIECES_PER_PART * call->parts > sum) return false;
    }
    return true;
}

stw_status stw_metis_partition(const stw_part_call *call, int32_t *part, stw_arena scratch, stw_error *error) {
    enum { MOST = 1 << 28 };
    const int32_t M = call->graph->M;
    splitter s = {.call = call, .part = part};
    int32_t *vertex;
    if (call->graph->start[M] > MOST || M > MOST)
        return stw_fail(error, STW_ERROR_NO_PLAN, "the graph has %lld edges, METIS takes 2^28; use coarser units",
                        (long long)call->graph->start[M]);
    if (may_go_at_once(call)) return stw_metis_call(call, part, scratch, error);
    STW_TRY_NEW(&scratch, s.local, M, error);
    STW_TRY_NEW(&scratch, vertex, M, error);
    for (int32_t v = 0; v < M; v++) {
        s.local[v] = -1;
        vertex[v] = v;
    }
    return split(&s, vertex, M, 0, call->parts, scratch, error);
}
