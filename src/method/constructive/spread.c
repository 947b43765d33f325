/* `spread`: contiguous stages of equal time, in topological order, a stage per device. */
#include <math.h>

#include "method/method.h"
#include "plan/plan.h"

/* Fills the devices in turn, each up to `limit` microseconds of its own time; true if all ops find a place. */
static bool fill(const stw_simulator *s, double limit, stw_plan *plan) {
    const stw_graph *graph = s->graph;
    int32_t d = 0;
    double used = 0.0;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        while (d < s->machine->device_count) {
            const double us = s->costs->us[s->machine->device[d].cost_class][op];
            if (used + us <= limit) {
                used += us;
                break;
            }
            d++;
            used = 0.0;
        }
        if (d == s->machine->device_count) return false;
        plan->device[op] = d;
    }
    return true;
}

/* The smallest limit under which everything fits, by bisection. */
static stw_status build(void *context, int32_t variant, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const stw_simulator *s = ((const stw_search *)context)->simulator;
    double low = 0.0, high = 0.0;
    (void)variant, (void)scratch, (void)error;
    for (int32_t k = 0; k < s->graph->op_count; k++) {
        double slowest = 0.0;
        for (int32_t c = 0; c < s->machine->cost_class_count; c++)
            slowest = fmax(slowest, s->costs->us[c][s->graph->topological[k]]);
        high += slowest;
    }
    high *= 1.0 + 1e-9; /* all on one device fits, rounding included */
    for (int round = 0; round < 60; round++) {
        const double middle = 0.5 * (low + high);
        if (fill(s, middle, plan)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    fill(s, high, plan);
    stw_plan_complete(s, plan);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_variants variants = {.count = 1, .build = build, .context = search, .own_rule = STW_RULE_TOPOLOGICAL};
    return stw_search_variants(search, &variants, plan, NULL, error);
}

const stw_method stw_method_spread = {.name = "spread",
                                      .description = "contiguous stages of equal time in topological order, one per device",
                                      .kind = STW_METHOD_CONSTRUCTIVE,
                                      .traits = STW_METHOD_PLACES,
                                      .op_s = 7e-7,
                                      .run = run};
