/* `pack`: stages of equal memory, in an order that holds little, then units moved until all fits: for graphs whose plans are rare
 * because memory is. With fusion among the tasks, with the groups of the rule and without, what holds less first. */
#include <stdio.h>
#include <string.h>

#include "method/method.h"
#include "method/starts.h"
#include "search/fusing.h"
#include "search/lean_order.h"
#include "search/repair.h"

typedef struct { /* one way to group */
    stw_plan *plan;
    stw_score score;
    bool fused;
} trial;

/* Everything on one device in an order that holds little, which shows what there is to hold and when. */
static stw_status run_alone(stw_search *search, trial *t, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_lean_order order;
    for (int32_t i = 0; i < t->plan->graph->N; i++) t->plan->device[i] = 0;
    if ((search->tasks & STW_TASK_SCHEDULE) && search->rule < 0) {
        TRY(stw_lean_reorder(search, NULL, t->plan, search->scratch[0], &order, error));
    } else {
        const stw_rule rule = search->rule >= 0 ? (stw_rule)search->rule : STW_RULE_TOPOLOGICAL;
        TRY(stw_rule_apply(rule, s->costs, &s->unfused, t->plan, search->scratch[0], error));
    }
    return stw_search_evaluate(search, t->plan, 0, &t->score, error);
}

/* The groups of the rule for stages of the ops, so that nothing is recomputed for several of them: that would tie them together.
 * The run of the ops alone is in the workspace. */
static stw_status fuse_stages(const stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_arena arena = search->arena;
    stw_repair_units units;
    TRY(stw_repair_units_list(s->graph, s->costs->least_us, &s->unfused, &arena, &units, error));
    for (int32_t i = 0; i < plan->graph->N; i++) plan->device[i] = 0;
    TRY(stw_repair_stages(search, &units, plan, 0, search->scratch[0], error));
    stw_fuse_by_priority(search->fusing->fuser[0], search->fusing->priority, plan->device, plan->group);
    return STW_OK;
}

static stw_status pack(stw_search *search, trial *t, stw_error *error) {
    const stw_simulator *s = search->simulator;
    stw_arena arena = search->arena;
    stw_repair_units units;
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str illegal;
    stw_score again;
    TRY(stw_simulator_tasks(s, t->plan, &arena, &room, &tasks, &illegal, error));
    if (illegal.length > 0) return STW_OK;
    TRY(stw_search_evaluate(search, t->plan, 0, &again, error)); /* its run, in the workspace */
    TRY(stw_repair_units_list(s->graph, s->costs->least_us, tasks, &arena, &units, error));
    return stw_repair_pack(search, tasks, &units, STW_PACK_STAGES, t->plan, &t->score, 0, search->scratch[0], error);
}

static stw_status try_all(stw_search *search, trial *t, int32_t count, stw_plan *plan, stw_error *error) {
    stw_score best = {0};
    bool any = false;
    int32_t tried = 0;
    for (; tried < count && (tried == 0 || stw_search_evaluations_left(search) > 0); tried++) {
        if (t[tried].fused) TRY(fuse_stages(search, t[tried].plan, error));
        TRY(run_alone(search, &t[tried], error));
    }
    const bool swapped = tried == 2 && t[1].score.lacks < t[0].score.lacks;
    for (int32_t k = 0; k < tried && !(any && best.reason == STW_VALID); k++) {
        trial *now = &t[swapped ? 1 - k : k];
        if (now->score.reason == STW_INVALID_MEMORY && stw_search_evaluations_left(search) > 0) TRY(pack(search, now, error));
        if (any && !stw_score_is_better(&now->score, &best)) continue;
        any = true;
        best = now->score;
        TRY(stw_plan_assign(plan, now->plan, error));
        snprintf(search->outcome.note, sizeof search->outcome.note, "stages of equal memory, then units moved until all fits%s",
                 count == 1   ? ""
                 : now->fused ? "; fused by the rule default"
                              : "; nothing fused");
    }
    if (best.reason == STW_VALID) stw_search_tell(search, plan, &best);
    return STW_OK;
}

/* It begins with a run of everything on the first device. */
static bool may_be_alone(const stw_graph *graph) {
    for (int32_t i = 0; i < graph->N && graph->allowed != NULL; i++)
        if (!(graph->allowed[i] & 1u)) return false;
    return true;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    if (!may_be_alone(search->simulator->graph))
        return stw_fail(error, STW_ERROR_NO_PLAN,
                        "pack begins with everything on the first device, which pins and the like forbid");
    const bool fuses = search->fusing != NULL && search->fusing->rule < 0;
    trial t[2] = {{.fused = false}, {.fused = true}};
    stw_status status = STW_OK;
    const int32_t count = fuses ? 2 : 1;
    for (int32_t k = 0; k < count && status == STW_OK; k++)
        status = stw_plan_create(search->simulator->graph, search->simulator->machine, &t[k].plan, error);
    if (status == STW_OK) status = try_all(search, t, count, plan, error);
    for (int32_t k = 0; k < count; k++) stw_plan_destroy(t[k].plan);
    return status;
}

const stw_method stw_method_pack = {
    .name = "pack",
    .description = "stages of equal memory, then units moved by a model of the run until all fits",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
    .op_s = 1e-5,
    .run = run};
