#include "baseline/rival.h"

#include <stdio.h>

#include "plan/plan.h"

stw_status stw_rival_measure_single(stw_search *search, stw_plan *plan, double *out, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_score score = {0};
    double least = 0.0;
    int32_t fastest = -1;
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        const double *us = s->costs->us[s->machine->device[d].cost_class];
        double sum = 0.0;
        for (int32_t k = 0; k < s->graph->op_count; k++) sum += us[s->graph->topological[k]];
        if (fastest < 0 || sum < least) {
            fastest = d;
            least = sum;
        }
    }
    for (int32_t i = 0; i < s->graph->N; i++) plan->device[i] = fastest;
    const stw_rule rule = search->rule >= 0 ? (stw_rule)search->rule : STW_RULE_UPWARD_RANK;
    TRY(stw_rule_apply(rule, s->costs, &s->unfused, plan, search->scratch[0], error));
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    const bool has_value = score.reason == STW_VALID || score.reason == STW_INVALID_MEMORY;
    *out = has_value && score.value > 0.0 ? score.value : 1.0;
    return STW_OK;
}

stw_status stw_rival_end_early(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    snprintf(search->outcome.note, sizeof search->outcome.note,
             "everything on one device: the budget ended before the first update; give it more");
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    return score.reason == STW_INVALID_MEMORY ? stw_search_repair(search, plan, &score, 0, error) : STW_OK;
}
