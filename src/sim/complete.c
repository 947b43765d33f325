#include "sim/complete.h"

#include "plan/plan.h"

void stw_plan_join(const stw_simulator *simulator, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = plan->device[simulator->together[i]];
}

void stw_plan_complete(const stw_simulator *simulator, stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        plan->device[i] = simulator->follows[i] < 0 ? 0 : plan->device[simulator->follows[i]];
    }
}
