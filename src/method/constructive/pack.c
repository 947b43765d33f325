/* `pack`: stages of equal memory, in an order that holds little, then units moved until all fits: for graphs whose plans are rare
 * because memory is. */
#include <stdio.h>

#include "method/method.h"
#include "method/starts.h"
#include "search/lean_order.h"
#include "search/repair.h"

/* Everything on one device in an order that holds little, which shows what there is to hold and when. */
static stw_status run_alone(stw_search *search, stw_plan *plan, stw_score *score, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_lean_order order;
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = 0;
    if ((search->tasks & STW_TASK_SCHEDULE) && search->rule < 0) {
        TRY(stw_lean_reorder(search, NULL, plan, search->scratch[0], &order, error));
    } else {
        const stw_rule rule = search->rule >= 0 ? (stw_rule)search->rule : STW_RULE_TOPOLOGICAL;
        TRY(stw_rule_apply(rule, s->costs, &s->unfused, plan, search->scratch[0], error));
    }
    return stw_search_evaluate(search, plan, 0, score, error);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_arena arena = search->arena;
    stw_repair_units units;
    stw_score score;
    TRY(run_alone(search, plan, &score, error));
    if (score.reason != STW_INVALID_MEMORY) return STW_OK; /* it fits, or no placement is at fault */
    TRY(stw_repair_units_list(s->graph, s->costs->least_us, &arena, &units, error));
    TRY(stw_repair_pack(search, &units, STW_PACK_STAGES, plan, &score, 0, search->scratch[0], error));
    if (score.reason == STW_VALID) stw_search_tell(search, plan, &score);
    snprintf(search->outcome.note, sizeof search->outcome.note, "stages of equal memory, then units moved until all fits");
    return STW_OK;
}

const stw_method stw_method_pack = {.name = "pack",
                                    .description = "stages of equal memory, then units moved by a model of the run until all fits",
                                    .kind = STW_METHOD_CONSTRUCTIVE,
                                    .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
                                    .op_s = 1e-5,
                                    .run = run};
