/* An update: samples from the policy, their scores, and a step towards the better ones; and the plan without noise. */
#include <math.h>

#include "base/clock.h"
#include "train/trainer_state.h"

double stw_trainer_progress(const stw_trainer *t) {
    const double share = t->settings.updates > 0 ? (double)t->update / (double)t->settings.updates
                                                 : t->environment.progress(t->environment.context);
    return fmin(fmax(share, 0.0), 1.0);
}

/* The best plan of the update; one that lacks memory is repaired if there is none that fits. (The score of its decisions stays
 * what it is.) `*over`: the repair was broken off, so that an update that must repeat does not count. */
static stw_status keep_best(stw_trainer *t, bool *over, stw_error *error) {
    int32_t best = 0;
    for (int32_t k = 1; k <= t->settings.samples; k++)
        if (stw_score_is_better(&t->score[k], &t->score[best])) best = k;
    const bool fits = t->score[best].reason == STW_VALID || (t->has_best && t->best_score.reason == STW_VALID);
    stw_score score = t->score[best];
    if (!fits && score.reason == STW_INVALID_MEMORY && t->environment.repair != NULL) {
        TRY(t->environment.repair(t->environment.context, t->plan[best], &score, error));
        *over = t->settings.updates > 0 && t->environment.is_stopped(t->environment.context);
    }
    return *over ? STW_OK : stw_trainer_keep(t, best, &score, error);
}

static void describe(stw_trainer *t) {
    stw_curve_row *row = &t->row;
    const int32_t K = t->settings.samples;
    const stw_distribution d = stw_trainer_runs_placement(t) ? stw_trainer_placement_of(t, K) : stw_trainer_fusion_of(t);
    double mean = 0.0, square = 0.0;
    int32_t valid = 0;
    row->mean = 0.0;
    for (int32_t k = 0; k < K; k++) {
        if (t->score[k].reason != STW_VALID) continue;
        row->mean += t->score[k].value;
        valid++;
    }
    row->mean = valid > 0 ? row->mean / valid : NAN;
    row->valid = (double)valid / K;
    row->greedy = t->score[K].reason == STW_VALID ? t->score[K].value : NAN;
    row->entropy = stw_distribution_entropy(&d);
    for (int32_t u = 0; !d.categorical && u < t->problem->M; u++) {
        const double first = d.out[(int64_t)u * d.dims];
        mean += first / t->problem->M;
        square += first * first / t->problem->M;
    }
    row->spread = sqrt(fmax(square - mean * mean, 0.0));
}

static void set_schedule_of_update(stw_trainer *t) {
    const double p = stw_trainer_progress(t);
    const double ramp = t->settings.warm_up > 0 ? fmin(1.0, (double)(t->update + 1) / t->settings.warm_up) : 1.0;
    t->row.sigma = t->settings.sigma + p * (t->settings.sigma_end - t->settings.sigma);
    t->row.rate = ramp * (t->settings.rate + p * (t->settings.rate_end - t->settings.rate));
}

/* True in *over: nothing is left to do. */
static stw_status begin_update(stw_trainer *t, bool *over, stw_error *error) {
    const stw_environment *e = &t->environment;
    *over = (t->settings.updates > 0 && t->update >= t->settings.updates) || e->is_stopped(e->context);
    if (*over) return STW_OK;
    const bool stale = t->settings.patience > 0 && t->update - t->last_better >= t->settings.patience;
    if (t->round_index < 0 || stale || t->restarted) TRY(stw_trainer_begin_round(t, over, error));
    *over = *over || e->evaluations_left(e->context) < t->settings.samples + 1;
    if (!*over) set_schedule_of_update(t);
    return STW_OK;
}

static void end_update(stw_trainer *t) {
    t->row.update = t->update++;
    t->row.round = t->round_index;
    t->row.evaluations = t->evaluations;
    t->row.seconds = stw_now_s() - t->began_s;
    t->row.best = t->has_best ? t->best_score.value : NAN;
}

stw_status stw_trainer_sample(stw_trainer *t, bool *over, stw_error *error) {
    TRY(begin_update(t, over, error));
    if (*over) return STW_OK;
    const int64_t before = t->evaluations;
    TRY(stw_trainer_sample_and_evaluate(t, over, error));
    if (*over) return STW_OK;
    const stw_reward_rule rule = {t->settings.reward, t->reference, t->settings.loss_weight};
    describe(t);
    TRY(stw_trainer_look_beside(t, t->settings.samples + 1, error));
    TRY(keep_best(t, over, error));
    if (*over) {
        t->evaluations = before;
        return STW_OK;
    }
    stw_trainer_stand_elite(t);
    stw_rewards(&rule, t->score, t->learnt, t->reward);
    stw_advantages(t->reward, t->learnt, t->settings.floor, t->settings.limit, t->advantage);
    TRY(stw_trainer_try_moves(t, error));
    end_update(t);
    return STW_OK;
}

stw_status stw_trainer_try(stw_trainer *t, bool *over, stw_error *error) {
    bool complete = false;
    TRY(begin_update(t, over, error));
    if (*over) return STW_OK;
    TRY(stw_trainer_run_placement(t, 1, error));
    const stw_distribution d = stw_trainer_placement_of(t, 0);
    stw_distribution_greedy(&d, t->placement);
    const stw_actions actions = {.placement = t->placement};
    TRY(stw_trainer_rollout(t, &actions, 1, &complete, error));
    for (int32_t k = 1; k <= t->settings.samples; k++) t->score[k] = t->score[0];
    describe(t);
    TRY(stw_trainer_keep(t, 0, &t->score[0], error));
    t->learnt = 0;
    TRY(stw_trainer_try_moves(t, error));
    end_update(t);
    return STW_OK;
}

stw_status stw_trainer_step(stw_trainer *t, bool *over, stw_error *error) {
    const stw_environment *e = &t->environment;
    TRY(stw_trainer_sample(t, over, error));
    if (*over) return STW_OK;
    if (t->settings.rate > 0.0 && t->own_net != NULL) TRY(stw_trainer_learn(t, error));
    t->row.seconds = stw_now_s() - t->began_s;
    if (e->curve != NULL) e->curve(e->context, &t->row);
    return STW_OK;
}

stw_status stw_trainer_greedy(stw_trainer *t, stw_plan *plan, stw_score *score, stw_error *error) {
    bool over = false, complete = false;
    if (t->round_index < 0) TRY(stw_trainer_begin_round(t, &over, error));
    set_schedule_of_update(t);
    if (t->chained) {
        TRY(stw_pass_fusion(t->pass, t->fusion_out, error));
        const stw_distribution f = stw_trainer_fusion_of(t);
        stw_distribution_greedy(&f, t->fusion);
    }
    if (stw_trainer_runs_placement(t)) {
        TRY(stw_trainer_run_placement(t, 1, error));
        const stw_distribution d = stw_trainer_placement_of(t, 0);
        stw_distribution_greedy(&d, t->placement);
    }
    if (t->problem->schedules) {
        TRY(stw_pass_schedule(t->pass, 1, t->placement, t->schedule_out, error));
        const stw_distribution s = stw_trainer_schedule_of(t, 0);
        stw_distribution_greedy(&s, t->schedule);
    }
    const stw_actions actions = stw_trainer_decided(t);
    TRY(stw_trainer_rollout(t, &actions, 1, &complete, error));
    if (!complete) return stw_fail(error, STW_ERROR_CANCELLED, "stopped before the greedy plan was evaluated");
    *score = t->score[0];
    return stw_plan_copy(plan, t->plan[0], error);
}
