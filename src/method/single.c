/* `single`: everything on the fastest device that holds it. The default placement: what happens without us. */
#include "method/method.h"

/* Microseconds of all ops on one device. */
static double total_us(const stw_simulator *s, int32_t device) {
    const double *us = s->costs->us[s->machine->device[device].cost_class];
    double sum = 0.0;
    for (int32_t k = 0; k < s->graph->op_count; k++) sum += us[s->graph->topological[k]];
    return sum;
}

static void place_on(stw_plan *plan, int32_t device) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = device;
}

/* Tries the devices from fast to slow; equally fast ones by number. If nothing holds the graph, the fastest stays, and the
 * evaluation tells what is missing. */
static stw_status run(const stw_simulator *s, stw_plan *plan, stw_error *error) {
    const int32_t D = s->machine->device_count;
    double total[STW_MAX_DEVICES];
    bool tried[STW_MAX_DEVICES] = {false};
    int32_t fastest = -1;
    stw_workspace *workspace;
    stw_evaluation result = {0};
    stw_method_topological_priority(plan);
    for (int32_t d = 0; d < D; d++) total[d] = total_us(s, d);
    TRY(stw_workspace_create(s, &workspace, error));
    stw_status status = STW_OK;
    for (int32_t k = 0; k < D && status == STW_OK; k++) {
        int32_t best = -1;
        for (int32_t d = 0; d < D; d++) {
            if (!tried[d] && (best < 0 || total[d] < total[best])) best = d;
        }
        tried[best] = true;
        if (fastest < 0) fastest = best;
        place_on(plan, best);
        status = stw_simulate(s, plan, workspace, &result, error);
        if (result.reason == STW_VALID) break;
    }
    stw_workspace_destroy(workspace);
    if (status == STW_OK && result.reason != STW_VALID) place_on(plan, fastest);
    return status;
}

const stw_method stw_method_single = {"single", "everything on the fastest device that holds it", run};
