/* The operator of each unit: of those in it, the one that takes most of its time. */
#include "feature/parts.h"

/* Buckets go by the name, so that a new row in the operator table changes no other operator's. */
static int32_t bucket_of(int32_t row) {
    if (row < 0) return 0;
    return 1 + (int32_t)(stw_str_hash(stw_str_of(stw_op_table[row].name)) % (STW_OPERATOR_BUCKETS - 1));
}

/* time: (rows + 1), all zero before and after; place 0 is for operators that are not in the table. */
static int32_t longest_row(const stw_features *f, int32_t unit, const int32_t *row, double *time) {
    const stw_graph *graph = f->costs->graph;
    const int32_t from = f->units->start[unit], to = f->units->start[unit + 1];
    int32_t best = -1;
    double most = 0.0;
    for (int32_t m = from; m < to; m++) {
        const int32_t node = f->units->member[m];
        if (graph->kind[node] == STW_NODE_OP) time[row[node] + 1] += f->weight[node];
    }
    for (int32_t m = from; m < to; m++) {
        const int32_t node = f->units->member[m];
        if (graph->kind[node] != STW_NODE_OP) continue;
        if (time[row[node] + 1] > most) {
            most = time[row[node] + 1];
            best = row[node];
        }
        time[row[node] + 1] = 0.0;
    }
    return best;
}

stw_status stw_features_operators(stw_features *f, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = f->costs->graph;
    stw_op_index *index;
    int32_t *row;
    double *time;
    TRY(stw_op_index_create(&scratch, &index, error));
    STW_TRY_NEW(&scratch, row, graph->N, error);
    STW_TRY_NEW(&scratch, time, (int64_t)stw_op_count + 1, error);
    for (int32_t i = 0; i < graph->N; i++) {
        row[i] = graph->kind[i] == STW_NODE_OP && graph->known[i] ? stw_op_find_any(index, graph->op_name[i]) : -1;
    }
    for (int32_t u = 0; u < f->M; u++) f->operator_[u] = bucket_of(longest_row(f, u, row, time));
    return STW_OK;
}
