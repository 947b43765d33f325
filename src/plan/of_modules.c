#include "plan/of_modules.h"

static bool is_member(const stw_graph *graph, int32_t i) {
    return graph->kind[i] == STW_NODE_OP || stw_node_is_resident(graph->kind[i]);
}

/* (parcels) the device with most bytes of each; of equals the first. */
static stw_status weigh(const stw_graph *graph, int32_t D, const stw_parcels *parcels, const int32_t *home, int32_t *device,
                        int32_t *torn, stw_arena scratch, stw_error *error) {
    double *weight;
    int32_t first = -1;
    STW_TRY_NEW(&scratch, weight, (int64_t)parcels->count * D, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i]) || home[i] < 0) continue;
        weight[(int64_t)parcels->of[i] * D + home[i]] += (double)graph->bytes[i] + 1.0;
        if (first < 0) first = home[i];
    }
    *torn = 0;
    for (int32_t u = 0; u < parcels->count; u++) {
        const double *mine = &weight[(int64_t)u * D];
        int32_t best = -1, parts = 0;
        for (int32_t d = 0; d < D; d++) {
            parts += mine[d] > 0.0;
            if (mine[d] > 0.0 && (best < 0 || mine[d] > mine[best])) best = d;
        }
        device[u] = best >= 0 ? best : first >= 0 ? first : 0;
        *torn += parts > 1;
    }
    return STW_OK;
}

static stw_status fill(stw_plan *plan, stw_grain grain, const int32_t *home, int32_t *torn, stw_error *error) {
    const stw_graph *graph = plan->graph;
    stw_parcels parcels;
    int32_t *device, parts = 0;
    stw_arena arena;
    TRY(stw_arena_create(&arena, error));
    stw_status status = stw_grain_parcels(graph, grain, &arena, &parcels, error);
    if (status == STW_OK) {
        device = STW_NEW(&arena, int32_t, parcels.count);
        status = device == NULL ? stw_fail(error, STW_ERROR_MEMORY, "out of memory")
                                : weigh(graph, plan->machine->device_count, &parcels, home, device, &parts, arena, error);
        for (int32_t i = 0; i < graph->N && status == STW_OK; i++) {
            const int32_t root = graph->root[i];
            plan->device[i] = is_member(graph, root) ? device[parcels.of[root]] : 0;
        }
    }
    stw_arena_destroy(&arena);
    for (int32_t k = 0; k < graph->op_count; k++) plan->priority[graph->topological[k]] = -(double)k;
    if (torn != NULL) *torn = parts;
    return status;
}

stw_status stw_plan_of_homes(const stw_graph *graph, const stw_machine *machine, stw_grain grain, const int32_t *home,
                             stw_plan **out, int32_t *torn, stw_error *error) {
    TRY(stw_plan_create(graph, machine, out, error));
    const stw_status status = fill(*out, grain, home, torn, error);
    if (status == STW_OK) return STW_OK;
    stw_plan_destroy(*out);
    *out = NULL;
    return status;
}
