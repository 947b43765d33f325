/* Plans that are kept: the best, with better priorities where a run backwards finds them, and the best beside it. */
#include <string.h>

#include "sim/backward.h"
#include "sim/op_times.h"
#include "train/trainer_state.h"

static const double LEAST_CHANGE = 0.002; /* of the nodes */

stw_status stw_trainer_times(const stw_trainer *t, stw_run_times *out, stw_arena *arena, stw_error *error) {
    const int32_t T = t->problem->simulator->unfused.T;
    STW_TRY_NEW(arena, out->start_ps, T, error);
    STW_TRY_NEW(arena, out->end_ps, T, error);
    STW_TRY_NEW(arena, out->task, T, error);
    return stw_op_times(t->environment.workspace[0], out->start_ps, out->end_ps, out->task, *arena, error);
}

void stw_trainer_copy_fusion(const stw_trainer *t, double *to, const double *from) {
    if (t->problem->fuses) memcpy(to, from, (size_t)t->problem->simulator->graph->N * sizeof *to);
}

/* ---- the best plan ---- */

/* Priorities from a run backwards, as long as they help. */
static stw_status polish(stw_trainer *t, stw_error *error) {
    const stw_environment *e = &t->environment;
    const stw_simulator *s = t->problem->simulator;
    stw_plan *trial = t->plan[0];
    stw_score score;
    for (int32_t k = 0; k < 3; k++) {
        if (e->evaluations_left(e->context) < 2 || stw_trainer_may_stop(t)) return STW_OK;
        TRY(e->evaluate(e->context, t->best, 0, &score, error));
        t->evaluations++;
        stw_arena scratch = e->scratch[0];
        stw_run_times times;
        TRY(stw_trainer_times(t, &times, &scratch, error));
        TRY(stw_plan_copy(trial, t->best, error));
        TRY(stw_backward_priorities(s, trial, times.start_ps, scratch, error));
        TRY(e->evaluate(e->context, trial, 0, &score, error));
        t->evaluations++;
        if (!stw_score_is_better(&score, &t->best_score)) return STW_OK;
        TRY(stw_plan_copy(t->best, trial, error));
        t->best_score = score;
    }
    return STW_OK;
}

static bool may_polish(const stw_trainer *t) {
    const stw_problem *p = t->problem;
    return (p->schedules || p->polishes) && p->rule < 0 && p->objective == STW_OBJECTIVE_TIME && t->nudged;
}

stw_status stw_trainer_polish(stw_trainer *t, stw_error *error) {
    if (!t->has_best || t->best_score.reason != STW_VALID || !may_polish(t)) return STW_OK;
    const stw_score before = t->best_score;
    TRY(polish(t, error));
    if (stw_score_is_better(&t->best_score, &before)) t->environment.found(t->environment.context, t->best, &t->best_score);
    return STW_OK;
}

stw_status stw_trainer_keep(stw_trainer *t, int32_t k, const stw_score *score, stw_error *error) {
    const bool usable = score->reason == STW_VALID || score->reason == STW_INVALID_MEMORY;
    if (!usable || (t->has_best && !stw_score_is_better(score, &t->best_score))) return STW_OK;
    TRY(stw_plan_copy(t->best, t->plan[k], error));
    stw_trainer_copy_fusion(t, t->best_fusion, t->plan_fusion[k]);
    t->best_score = *score;
    t->has_best = true;
    t->last_better = t->update;
    if (may_polish(t)) TRY(polish(t, error));
    t->environment.found(t->environment.context, t->best, &t->best_score);
    return STW_OK;
}

/* ---- beside it ---- */

bool stw_trainer_is_a_change(const stw_trainer *t, const stw_plan *plan) {
    const int32_t N = plan->graph->N;
    int32_t moved = 0;
    if (t->round.plan == NULL) return true;
    for (int32_t i = 0; i < N; i++)
        moved += plan->device[i] != t->origin->device[i] || (t->problem->fuses && plan->group[i] != t->origin->group[i]);
    return moved > LEAST_CHANGE * N;
}

stw_status stw_trainer_look_beside(stw_trainer *t, int32_t count, stw_error *error) {
    int32_t best = -1;
    for (int32_t k = 0; k < count; k++) {
        const stw_score *than = best >= 0 ? &t->score[best] : t->has_beside ? &t->beside_score : NULL;
        const bool better = t->score[k].reason == STW_VALID && (than == NULL || stw_score_is_better(&t->score[k], than));
        if (better && stw_trainer_is_a_change(t, t->plan[k])) best = k;
    }
    if (best < 0 || t->settings.wander <= 0.0) return STW_OK;
    t->has_beside = true;
    t->beside_score = t->score[best];
    stw_trainer_copy_fusion(t, t->beside_fusion, t->plan_fusion[best]);
    return stw_plan_copy(t->beside, t->plan[best], error);
}
