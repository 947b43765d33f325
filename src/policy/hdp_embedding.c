#include "policy/hdp_embedding.h"

#include <string.h>

static void normalise(double *row, int32_t columns) {
    double most = row[0];
    for (int32_t i = 1; i < columns; i++) most = row[i] > most ? row[i] : most;
    for (int32_t i = 0; i < columns; i++) row[i] /= most + 1.0;
}

void stw_hdp_embed(const stw_hdp_ops *ops, int32_t G, const int32_t *group, double *out, int64_t step) {
    const int32_t columns = stw_hdp_embedding_columns(ops, G), C = ops->contents;
    for (int32_t g = 0; g < G; g++) memset(&out[g * step], 0, (size_t)columns * sizeof *out);
    for (int64_t e = 0; e < ops->edge_count; e++) {
        const int32_t from = group[ops->from[e]], to = group[ops->to[e]];
        out[from * step + to] += 1.0;
        out[to * step + G + from] += 1.0;
    }
    for (int32_t i = 0; i < ops->N; i++) {
        double *row = &out[group[i] * step + 2 * (int64_t)G];
        for (int32_t k = 0; k < C; k++) row[k] += ops->content[(int64_t)i * C + k];
    }
    for (int32_t g = 0; g < G; g++) normalise(&out[g * step], columns);
}
