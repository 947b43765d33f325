/* `single`: everything on the fastest device that holds it. The default placement: what happens without us. */
#include "method/method.h"
#include "plan/plan.h"

/* Microseconds of all ops on one device. */
static double total_us(const stw_simulator *s, int32_t device) {
    const double *us = s->costs->us[s->machine->device[device].cost_class];
    double sum = 0.0;
    for (int32_t k = 0; k < s->graph->op_count; k++) sum += us[s->graph->topological[k]];
    return sum;
}

static stw_status place_on(const stw_search *search, stw_plan *plan, int32_t device, stw_error *error) {
    const stw_simulator *s = search->simulator;
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = device;
    const stw_rule rule = search->rule < 0 ? STW_RULE_TOPOLOGICAL : (stw_rule)search->rule;
    return stw_rule_apply(rule, s->costs, &s->unfused, plan, search->arena, error);
}

/* Another device that takes as long and holds at least as much did not do: nor will this one. */
static bool is_hopeless(const stw_machine *machine, const bool *tried, int32_t device) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (tried[d] && machine->device[d].cost_class == machine->device[device].cost_class &&
            machine->device[d].memory_bytes >= machine->device[device].memory_bytes)
            return true;
    }
    return false;
}

/* Tries the devices from fast to slow; equally fast ones by number. If nothing holds the graph, the fastest stays, and the
 * evaluation tells what is missing. */
static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    const int32_t D = s->machine->device_count;
    double total[STW_MAX_DEVICES];
    bool tried[STW_MAX_DEVICES] = {false};
    int32_t fastest = -1;
    for (int32_t d = 0; d < D; d++) total[d] = total_us(s, d);
    for (int32_t k = 0; k < D; k++) {
        int32_t best = -1;
        for (int32_t d = 0; d < D; d++) {
            if (!tried[d] && (best < 0 || total[d] < total[best])) best = d;
        }
        const bool hopeless = is_hopeless(s->machine, tried, best);
        tried[best] = true;
        if (hopeless) continue;
        if (fastest < 0) fastest = best;
        stw_score score = {0};
        TRY(place_on(search, plan, best, error));
        TRY(stw_search_evaluate(search, plan, 0, &score, error));
        if (score.reason == STW_VALID) return STW_OK;
        if (k > 0 && stw_search_is_over(search)) break;
    }
    return place_on(search, plan, fastest, error);
}

const stw_method stw_method_single = {.name = "single",
                                      .description = "everything on the fastest device that holds it",
                                      .kind = STW_METHOD_CONSTRUCTIVE,
                                      .traits = STW_METHOD_DEFAULT,
                                      .op_s = 7e-7,
                                      .run = run};
