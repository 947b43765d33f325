/* The chains at the beginning: their memory, their plans, and the groups that they begin with. */
#include <math.h>
#include <string.h>

#include "method/anneal.h"
#include "method/fusing.h"
#include "plan/plan.h"
#include "sim/op_times.h"
#include "train/decode.h"

static const double HEAT = 0.01; /* of the hottest chains, at the beginning */

bool stw_anneal_has_order(const stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] != NULL) return true;
    }
    return false;
}

bool stw_anneal_may_fuse(const stw_search *search) { return search->fusing != NULL && search->fusing->rule < 0; }

static stw_status create_chain(const stw_search *search, stw_chain *c, int32_t index, const stw_plan *start, stw_arena *arena,
                               stw_error *error) {
    const stw_simulator *s = search->simulator;
    const int32_t N = s->graph->N, T = s->unfused.T;
    const stw_rng seeded = stw_rng_create(search->seed);
    const stw_rng mine = stw_rng_split(&seeded, 0x616e6e65616c); /* "anneal" */
    c->rng = stw_rng_split(&mine, (uint64_t)index);
    c->heat = HEAT * (index % 4 + 1) / 4;
    c->since_look = STW_ANNEAL_LOOK_EVERY;
    STW_TRY_NEW(arena, c->moved, N, error);
    STW_TRY_NEW(arena, c->old_device, N, error);
    STW_TRY_NEW(arena, c->old_priority, N, error);
    STW_TRY_NEW(arena, c->critical, T, error);
    STW_TRY_NEW(arena, c->start_ps, T, error);
    STW_TRY_NEW(arena, c->order, T, error);
    STW_TRY_NEW(arena, c->mark, N, error);
    STW_TRY_NEW(arena, c->queue, N, error);
    STW_TRY_NEW(arena, c->plan_glue, T, error);
    STW_TRY_NEW(arena, c->aversion, T, error);
    STW_TRY_NEW(arena, c->steered, N, error);
    if (search->fusing != NULL) {
        STW_TRY_NEW(arena, c->fusion, N, error);
        STW_TRY_NEW(arena, c->old_fusion, N, error);
        STW_TRY_NEW(arena, c->best_fusion, N, error);
        STW_TRY_NEW(arena, c->old_group, N, error);
    }
    TRY(stw_plan_create(s->graph, s->machine, &c->plan, error));
    TRY(stw_plan_create(s->graph, s->machine, &c->best, error));
    TRY(stw_plan_copy(c->plan, start, error));
    return stw_plan_copy(c->best, start, error);
}

/* A strict order would forbid nearly every move, so the chain goes on with priorities that say the same. */
static stw_status turn_into_priorities(const stw_search *search, stw_chain *c, stw_error *error) {
    const stw_tasks *tasks = &search->simulator->unfused;
    stw_arena scratch = search->scratch[0];
    int64_t *end_ps;
    int32_t *task;
    STW_TRY_NEW(&scratch, end_ps, tasks->T, error);
    STW_TRY_NEW(&scratch, task, tasks->T, error);
    TRY(stw_op_times(search->workspace[0], c->start_ps, end_ps, task, scratch, error));
    for (int32_t t = 0; t < tasks->T; t++) c->plan->priority[tasks->task_node[t]] = -(double)c->start_ps[t] / 1e6;
    stw_plan_remove_orders(c->plan);
    return STW_OK;
}

/* Evaluates the start. The chain may go on with something else that says nearly the same; the plan as it was remains the best. */
static stw_status settle(const stw_annealing *a, stw_chain *c, stw_error *error) {
    stw_search *search = a->search;
    TRY(stw_search_evaluate(search, c->best, 0, &c->best_score, error));
    c->score = c->best_score;
    const bool ordered = stw_anneal_has_order(c->plan) && search->workspace[0]->timeline.start_ps != NULL;
    if (ordered) TRY(turn_into_priorities(search, c, error));
    if (c->fusion != NULL) {
        TRY(stw_fusion_begin(search->simulator, a->rule, c->plan, c->fusion, search->scratch[0], error));
        stw_anneal_regroup(a, c, 0);
        memcpy(c->best_fusion, c->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
    }
    return ordered || c->fusion != NULL ? stw_search_evaluate(search, c->plan, 0, &c->score, error) : STW_OK;
}

/* One chain begins with the groups of the rule, one with nothing fused: the start may have other groups. */
static stw_status vary_groups(const stw_annealing *a, stw_chain *c, int32_t index, stw_error *error) {
    stw_search *search = a->search;
    const int32_t N = c->plan->graph->N;
    if (!stw_anneal_may_fuse(search) || index < 1 || index > 2) return STW_OK;
    TRY(stw_fusion_begin(search->simulator, a->rule, NULL, c->fusion, search->scratch[0], error));
    for (int32_t i = 0; i < N && index == 2; i++) c->fusion[i] = -fabs(c->fusion[i]);
    stw_anneal_regroup(a, c, 0);
    TRY(stw_search_evaluate(search, c->plan, 0, &c->score, error));
    if (!stw_score_is_better(&c->score, &c->best_score)) return STW_OK;
    c->best_score = c->score;
    memcpy(c->best_fusion, c->fusion, (size_t)N * sizeof *c->fusion);
    return stw_plan_copy(c->best, c->plan, error);
}

/* What another chain that begins with the same plan has found out about it. */
static stw_status begin_like(stw_chain *c, const stw_chain *like, stw_error *error) {
    TRY(stw_plan_copy(c->plan, like->plan, error));
    if (c->fusion != NULL) {
        memcpy(c->fusion, like->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
        memcpy(c->best_fusion, like->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
    }
    c->score = like->score;
    c->best_score = like->best_score;
    return STW_OK;
}

stw_status stw_anneal_begin_chain(const stw_annealing *a, stw_chain *c, int32_t index, const stw_plan *start,
                                  const stw_chain *like, stw_arena *arena, stw_error *error) {
    TRY(create_chain(a->search, c, index, start, arena, error));
    if (like == NULL) return settle(a, c, error);
    TRY(begin_like(c, like, error));
    return vary_groups(a, c, index, error);
}
