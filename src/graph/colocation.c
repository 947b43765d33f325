/* Which nodes must be on one device. */
#include "graph/units.h"

stw_status stw_graph_colocated(const stw_graph *graph, stw_arena *arena, int32_t (**out)[2], int32_t *count, stw_error *error) {
    int32_t(*pair)[2];
    int32_t n = 0;
    STW_TRY_NEW(arena, pair, 2 * (int64_t)graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->updates[i] >= 0) {
            pair[n][0] = i;
            pair[n++][1] = graph->updates[i];
        }
        if (graph->colocate[i] < 0) continue;
        const int32_t a = graph->root[i], b = graph->root[graph->colocate[i]];
        if (a == b || stw_node_is_everywhere(graph->kind[a]) || stw_node_is_everywhere(graph->kind[b])) continue;
        pair[n][0] = a;
        pair[n++][1] = b;
    }
    *out = pair;
    *count = n;
    return STW_OK;
}
