#include "baseline/placeto/problem.h"

#include <math.h>

/* (N, D): what the ops of a row take on each device, over the largest. */
static stw_status sum_times(const stw_grouping_problem *rows, stw_arena *arena, const double **out, stw_error *error) {
    const stw_simulator *s = rows->simulator;
    const int32_t D = rows->D;
    double *time, most = 0.0;
    STW_TRY_NEW(arena, time, (int64_t)rows->N * D, error);
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (s->graph->kind[i] != STW_NODE_OP || rows->row[i] < 0) continue;
        for (int32_t d = 0; d < D; d++)
            time[(int64_t)rows->row[i] * D + d] += s->costs->us[s->machine->device[rows->device[d]].cost_class][i];
    }
    for (int64_t k = 0; k < (int64_t)rows->N * D; k++) most = fmax(most, time[k]);
    for (int64_t k = 0; k < (int64_t)rows->N * D && most > 0.0; k++) time[k] /= most;
    *out = time;
    return STW_OK;
}

static bool leaves_row(const stw_grouping_problem *rows, int32_t op) {
    const stw_graph *graph = rows->simulator->graph;
    for (int64_t k = graph->reader_start[op]; k < graph->reader_start[op + 1]; k++) {
        if (rows->row[graph->reader[k].node] != rows->row[op]) return true;
    }
    return false;
}

/* (N): bytes of ops that other rows read, over the most. */
static stw_status sum_bytes(const stw_grouping_problem *rows, stw_arena *arena, const double **out, stw_error *error) {
    const stw_graph *graph = rows->simulator->graph;
    double *bytes, most = 0.0;
    STW_TRY_NEW(arena, bytes, rows->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP && rows->row[i] >= 0 && leaves_row(rows, i))
            bytes[rows->row[i]] += (double)graph->bytes[i];
    }
    for (int32_t u = 0; u < rows->N; u++) most = fmax(most, bytes[u]);
    for (int32_t u = 0; u < rows->N && most > 0.0; u++) bytes[u] /= most;
    *out = bytes;
    return STW_OK;
}

/* The other ends of the edges by one end. key, other: (edge_count). */
static stw_status list_neighbours(int32_t N, int64_t edge_count, const int32_t *key, const int32_t *other, stw_arena *arena,
                                  const int32_t **start_out, const int32_t **item_out, stw_error *error) {
    int32_t *start, *item, *next;
    STW_TRY_NEW(arena, start, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, next, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, item, edge_count, error);
    for (int64_t e = 0; e < edge_count; e++) start[key[e] + 1]++;
    for (int32_t u = 0; u < N; u++) next[u + 1] = start[u + 1] += start[u];
    for (int64_t e = 0; e < edge_count; e++) item[next[key[e]]++] = other[e];
    *start_out = start;
    *item_out = item;
    return STW_OK;
}

stw_status stw_placeto_problem_build(const stw_simulator *simulator, uint64_t allowed, int32_t units, stw_arena *arena,
                                     stw_placeto_problem *out, stw_error *error) {
    *out = (stw_placeto_problem){0};
    TRY(stw_grouping_problem_build(simulator, allowed, units, arena, &out->rows, error));
    const stw_hdp_ops *ops = &out->rows.ops;
    stw_placeto_graph *graph = &out->graph;
    graph->N = out->rows.N;
    graph->D = out->rows.D;
    TRY(sum_times(&out->rows, arena, &graph->time, error));
    TRY(sum_bytes(&out->rows, arena, &graph->bytes, error));
    TRY(list_neighbours(graph->N, ops->edge_count, ops->to, ops->from, arena, &graph->above_start, &graph->above, error));
    TRY(list_neighbours(graph->N, ops->edge_count, ops->from, ops->to, arena, &graph->below_start, &graph->below, error));
    STW_TRY_NEW(arena, out->group, graph->N, error);
    for (int32_t u = 0; u < graph->N; u++) out->group[u] = u;
    return STW_OK;
}

stw_status stw_placeto_decode(const stw_placeto_problem *problem, const int32_t *device, stw_plan *plan, stw_arena scratch,
                              stw_error *error) {
    return stw_grouping_decode(&problem->rows, problem->group, device, plan, scratch, error);
}
