/* The groups of a plan whose devices are decided. */
#include "method/fusing.h"
#include "plan/plan.h"

/* All ops are on the device that the rule was asked about already. */
static bool is_on_one(const stw_fusing *fusing, const stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        if (plan->graph->kind[i] == STW_NODE_OP && plan->device[i] != fusing->device) return false;
    }
    return true;
}

void stw_fusing_apply_rule(const stw_search *search, stw_plan *plan, int32_t worker) {
    const stw_fusing *fusing = search->fusing;
    if (fusing == NULL || fusing->rule < 0) return;
    if (fusing->rule == (int32_t)fusing->asked && is_on_one(fusing, plan)) {
        stw_fuse_by_priority(fusing->fuser[worker], fusing->priority, plan->device, plan->group);
    } else {
        stw_fuse_by_rule(fusing->fuser[worker], (stw_fusion)fusing->rule, plan->device, plan->group, NULL);
    }
    stw_plan_remove_orders(plan);
}

static bool has_order(const stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] != NULL) return true;
    }
    return false;
}

/* On larger graphs the rule takes longer than many a method; where devices were open, its priorities for one device serve. So
 * they do when the time is up. */
enum { MOST_BY_RULE = 8192 }; /* ops */

/* The plan with the groups of these priorities (NULL: none), kept if that is better. */
static stw_status try_groups(stw_search *search, const double *priority, stw_plan *plan, stw_score *score, stw_error *error) {
    stw_fuser *fuser = search->fusing->fuser[0];
    stw_plan *other;
    stw_score found = {0};
    TRY(stw_plan_create(plan->graph, plan->machine, &other, error));
    stw_status status = stw_plan_copy(other, plan, error);
    if (status == STW_OK) {
        stw_plan_remove_orders(other);
        if (priority != NULL) stw_fuse_by_priority(fuser, priority, other->device, other->group);
        if (priority == NULL) stw_fuse_by_rule(fuser, STW_FUSION_NONE, other->device, other->group, NULL);
        status = stw_search_evaluate(search, other, 0, &found, error);
    }
    if (status == STW_OK && stw_score_is_better(&found, score)) {
        *score = found;
        status = stw_plan_copy(plan, other, error);
    }
    stw_plan_destroy(other);
    return status;
}

/* The same with the rule for its devices. */
static stw_status try_rule(stw_search *search, stw_plan *plan, stw_score *score, stw_error *error) {
    stw_arena scratch = search->arena;
    double *priority;
    int32_t *group;
    STW_TRY_NEW(&scratch, priority, plan->graph->N, error);
    STW_TRY_NEW(&scratch, group, plan->graph->N, error);
    stw_fuse_by_rule(search->fusing->fuser[0], STW_FUSION_DEFAULT, plan->device, group, priority);
    return try_groups(search, priority, plan, score, error);
}

stw_status stw_fusing_choose(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    if (search->fusing->rule >= 0) {
        stw_fusing_apply_rule(search, plan, 0);
        return STW_OK;
    }
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    if (has_order(plan)) return STW_OK;
    const bool large = (search->tasks & STW_TASK_PLACEMENT) && search->simulator->graph->op_count > MOST_BY_RULE;
    if (large || stw_search_is_stopped(search)) {
        TRY(try_groups(search, search->fusing->priority, plan, &score, error));
    } else {
        TRY(try_rule(search, plan, &score, error));
    }
    return try_groups(search, NULL, plan, &score, error);
}
