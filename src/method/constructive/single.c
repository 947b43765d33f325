/* `single`: everything on the fastest device that holds it. The default placement: what happens without us. */
#include "method/method.h"
#include "plan/plan.h"

/* Everything on one device, but for what may not be there. */
static void place_all(const stw_simulator *s, stw_plan *plan, int32_t device) {
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = device;
    if (s->graph->allowed != NULL) stw_plan_join(s, plan);
}

typedef struct {
    double us;      /* of all ops */
    int32_t strays; /* ops, parameters and buffers that may not be on the device */
} load;

static load load_of(const stw_simulator *s, stw_plan *plan, int32_t device) {
    load sum = {0};
    place_all(s, plan, device);
    for (int32_t k = 0; k < s->graph->op_count; k++) {
        const int32_t i = s->graph->topological[k];
        sum.us += s->costs->us[s->machine->device[plan->device[i]].cost_class][i];
    }
    for (int32_t i = 0; i < s->graph->N; i++) sum.strays += plan->device[i] != device;
    return sum;
}

static bool is_less(load a, load b) { return a.us < b.us || (a.us <= b.us && a.strays < b.strays); }

static stw_status place_on(const stw_search *search, stw_plan *plan, int32_t device, stw_error *error) {
    const stw_simulator *s = search->simulator;
    place_all(s, plan, device);
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
    load total[STW_MAX_DEVICES];
    bool tried[STW_MAX_DEVICES] = {false};
    int32_t fastest = -1;
    for (int32_t d = 0; d < D; d++) total[d] = load_of(s, plan, d);
    for (int32_t k = 0; k < D; k++) {
        int32_t best = -1;
        for (int32_t d = 0; d < D; d++) {
            if (!tried[d] && (best < 0 || is_less(total[d], total[best]))) best = d;
        }
        const bool hopeless = s->graph->allowed == NULL && is_hopeless(s->machine, tried, best);
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
