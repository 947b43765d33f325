/* Fusion among the tasks; see fusing.h. */
#include "search/fusing.h"

#include <string.h>

#include "plan/plan.h"

enum { WORTH_BYTES = 1 << 26 }; /* less is not worth giving back */

/* ---- what the methods share ---- */

/* What methods share when fusion is among the tasks: the rule's groups, as a problem whose ops they are, and room for threads. */

/* The device that does all the work soonest: groups are made as if all were there. */
static int32_t fastest_device(const stw_simulator *s) {
    double least = 0.0;
    int32_t fastest = 0;
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        double us = 0.0;
        for (int32_t i = 0; i < s->graph->N; i++) us += s->costs->us[s->machine->device[d].cost_class][i];
        if (d > 0 && us >= least) continue;
        least = us;
        fastest = d;
    }
    return fastest;
}

/* Groups that are placed as one. */
static stw_status open_fused(const stw_simulator *s, const stw_stop *stop, stw_fusing *out, stw_arena *arena, stw_error *error) {
    const stw_fusion rule = out->asked;
    const int32_t N = s->graph->N, device = fastest_device(s);
    int32_t *group, *on;
    STW_TRY_NEW(arena, out->priority, N, error);
    STW_TRY_NEW(arena, out->group, N, error);
    STW_TRY_NEW(arena, out->workspace, out->threads, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, group, N, error);
    STW_TRY_NEW(&scratch, on, N, error);
    for (int32_t i = 0; i < N; i++) on[i] = device;
    stw_fuser_set_stop(out->fuser[0], stop);
    stw_fuse_by_rule(out->fuser[0], rule, on, out->group, out->priority);
    stw_fuser_set_stop(out->fuser[0], NULL);
    out->partial = stw_fuser_was_stopped(out->fuser[0]);
    out->device = device;
    if (out->partial || s->machine->device_count == 1 || rule == STW_FUSION_NONE || stw_stop_is_due(stop)) return STW_OK;
    stw_fuser_allow_recomputing(out->fuser[0], false);
    stw_fuse_by_priority(out->fuser[0], out->priority, on, group);
    stw_fuser_allow_recomputing(out->fuser[0], true);
    TRY(stw_fused_create(s, group, device, &out->fused, error));
    for (int32_t t = 0; t < out->threads; t++) TRY(stw_workspace_create(out->fused->simulator, &out->workspace[t], error));
    return STW_OK;
}

stw_status stw_fusing_open(const stw_simulator *simulator, int32_t rule, stw_fusion by, int32_t threads, const stw_stop *stop,
                           stw_arena *arena, stw_fusing *out, stw_error *error) {
    *out = (stw_fusing){.rule = rule, .asked = rule >= 0 ? (stw_fusion)rule : by, .threads = threads};
    STW_TRY_NEW(arena, out->fuser, threads, error);
    STW_TRY_NEW(arena, out->fuser_arena, threads, error);
    for (int32_t t = 0; t < threads; t++) {
        TRY(stw_arena_create(&out->fuser_arena[t], error));
        TRY(stw_fuser_create(simulator->costs, &out->fuser_arena[t], &out->fuser[t], error));
    }
    return open_fused(simulator, stop, out, arena, error);
}

stw_status stw_fusing_open_groups(const stw_simulator *simulator, const int32_t *group, int32_t threads, stw_arena *arena,
                                  stw_fusing *out, stw_error *error) {
    stw_error several = {0};
    *out = (stw_fusing){.rule = -1, .threads = threads};
    STW_TRY_NEW(arena, out->workspace, threads, error);
    const stw_status status = stw_fused_create(simulator, group, fastest_device(simulator), &out->fused, &several);
    if (status == STW_ERROR_INPUT) return STW_OK;
    if (status != STW_OK && error != NULL) *error = several;
    for (int32_t t = 0; t < threads && status == STW_OK; t++)
        TRY(stw_workspace_create(out->fused->simulator, &out->workspace[t], error));
    return status;
}

void stw_fusing_rest(stw_fusing *fusing) {
    for (int32_t t = 0; fusing != NULL && t < fusing->threads && fusing->fuser != NULL; t++)
        stw_fuser_rest(fusing->fuser[t], WORTH_BYTES);
}

void stw_fusing_close(stw_fusing *fusing) {
    for (int32_t t = 0; t < fusing->threads && fusing->fuser_arena != NULL; t++) stw_arena_destroy(&fusing->fuser_arena[t]);
    for (int32_t t = 0; t < fusing->threads && fusing->workspace != NULL; t++) stw_workspace_destroy(fusing->workspace[t]);
    stw_fused_destroy(fusing->fused);
    *fusing = (stw_fusing){0};
}

/* ---- the groups of a plan ---- */

/* The groups of a plan whose devices are decided. */

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
        memcpy(plan->group, fusing->group, (size_t)plan->graph->N * sizeof *plan->group);
    } else {
        stw_fuse_by_rule(fusing->fuser[worker], (stw_fusion)fusing->rule, plan->device, plan->group, NULL);
    }
    stw_plan_remove_orders(plan);
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
    stw_status status = stw_plan_assign(other, plan, error);
    if (status == STW_OK) {
        stw_plan_remove_orders(other);
        if (priority != NULL) stw_fuse_by_priority(fuser, priority, other->device, other->group);
        if (priority == NULL) stw_fuse_by_rule(fuser, STW_FUSION_NONE, other->device, other->group, NULL);
        stw_fuser_rest(fuser, WORTH_BYTES);
        status = stw_search_evaluate(search, other, 0, &found, error);
    }
    if (status == STW_OK && stw_score_is_better(&found, score)) {
        *score = found;
        status = stw_plan_assign(plan, other, error);
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
    const stw_stop last = stw_search_stop(search, -1);
    stw_score score = {0};
    if (search->fusing->rule >= 0) {
        stw_fusing_apply_rule(search, plan, 0);
        return STW_OK;
    }
    if (stw_stop_is_due(&last)) return STW_OK; /* no time to try others */
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    if (stw_plan_has_orders(plan)) return STW_OK;
    const bool large = (search->tasks & STW_TASK_PLACEMENT) && search->simulator->graph->op_count > MOST_BY_RULE;
    if (large || stw_search_is_stopped(search)) {
        TRY(try_groups(search, search->fusing->priority, plan, &score, error));
    } else {
        TRY(try_rule(search, plan, &score, error));
    }
    return try_groups(search, NULL, plan, &score, error);
}
