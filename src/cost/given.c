/* Costs that somebody has worked out already, such as those of fused groups. */
#include <math.h>
#include <string.h>

#include "cost/cost.h"

static stw_status fill(stw_costs *costs, const stw_given_costs *given, stw_error *error) {
    const stw_graph *graph = costs->graph;
    const int32_t classes = costs->machine->cost_class_count;
    const size_t size = (size_t)graph->N * sizeof(double);
    STW_TRY_NEW(&costs->arena, costs->us, classes, error);
    STW_TRY_NEW(&costs->arena, costs->model_us, classes, error);
    STW_TRY_NEW(&costs->arena, costs->compute_us, classes, error);
    STW_TRY_NEW(&costs->arena, costs->measured, classes, error);
    STW_TRY_NEW(&costs->arena, costs->carried, classes, error);
    STW_TRY_NEW(&costs->arena, costs->moved, graph->N, error);
    STW_TRY_NEW(&costs->arena, costs->least_us, graph->N, error);
    for (int32_t c = 0; c < classes; c++) {
        STW_TRY_NEW(&costs->arena, costs->us[c], graph->N, error);
        STW_TRY_NEW(&costs->arena, costs->compute_us[c], graph->N, error);
        STW_TRY_NEW(&costs->arena, costs->measured[c], graph->N, error);
        STW_TRY_NEW(&costs->arena, costs->carried[c], graph->N, error);
        costs->model_us[c] = costs->us[c];
        memcpy(costs->us[c], given->us[c], size);
        for (int32_t i = 0; i < graph->N; i++) costs->compute_us[c][i] = fmin(given->compute_us[c][i], costs->us[c][i]);
        memcpy(costs->measured[c], given->measured[c], (size_t)graph->N * sizeof(bool));
    }
    for (int32_t i = 0; i < graph->N; i++) {
        costs->moved[i] = graph->kind[i] == STW_NODE_OP ? graph->moved[i] : 0;
        costs->least_us[i] = costs->us[0][i];
        for (int32_t c = 1; c < classes; c++) costs->least_us[i] = fmin(costs->least_us[i], costs->us[c][i]);
    }
    return STW_OK;
}

stw_status stw_costs_create_given(const stw_graph *graph, const stw_machine *machine, const stw_given_costs *given,
                                  stw_costs **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_costs *costs = STW_NEW(&arena, stw_costs, 1);
    *costs = (stw_costs){.arena = arena, .graph = graph, .machine = machine};
    const stw_status status = fill(costs, given, error);
    if (status != STW_OK) {
        stw_costs_destroy(costs);
        return status;
    }
    *out = costs;
    return STW_OK;
}
