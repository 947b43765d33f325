/* An update: the policy decides, task after task, for some samples and once without noise; their plans are made and evaluated on
 * all threads; a step of Adam goes towards what was better. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "search/fusing.h"
#include "train/trainer_state.h"

/* What was sampled last. */
static stw_actions decided(const stw_trainer *t) {
    return (stw_actions){.fusion = t->problem->fuses ? t->now->fusion : NULL,
                         .placement = t->now->placement,
                         .schedule = t->problem->schedules ? t->now->schedule : NULL};
}

/* Samples of all tasks, and their scores; the last is the greedy one. `*over`: stopped on the way. */
static stw_status sample_and_evaluate(stw_trainer *t, bool *over, stw_error *error) {
    bool complete = false;
    TRY(stw_trainer_draw(t, over, error));
    if (!*over) *over = stw_trainer_may_stop(t);
    if (*over) return STW_OK;
    const stw_actions actions = decided(t);
    TRY(stw_trainer_rollout(t, &actions, t->settings.samples + 1, &complete, error));
    *over = !complete;
    return STW_OK;
}

/* ---- plans and their scores ---- */

stw_status stw_trainer_evaluate(stw_trainer *t, stw_plan *plan, int32_t worker, stw_score *out, stw_error *error) {
    atomic_fetch_add(&t->decodes, 1);
    stw_fusing_apply_rule(t->search, plan, worker);
    return stw_search_evaluate(t->search, plan, worker, out, error);
}

typedef struct {
    stw_trainer *t;
    stw_actions actions;
    atomic_bool stopped;
} rollout;

static stw_status decode_and_evaluate(const rollout *r, int64_t k, int32_t worker, stw_error *error) {
    stw_trainer *t = r->t;
    const int64_t M = t->problem->M;
    const stw_actions *a = &r->actions;
    const stw_decisions decisions = {.fusion = a->fusion == NULL ? NULL : &a->fusion[k * M],
                                     .placement = t->problem->places ? &a->placement[k * M * t->A] : NULL,
                                     .schedule = a->schedule == NULL ? NULL : &a->schedule[k * M],
                                     .steered = t->steered,
                                     .nudged = t->nudged,
                                     .fusion_nudged = t->fusion_nudged};
    const stw_group_maker maker = {t->fuser == NULL ? NULL : t->fuser[worker], t->plan_fusion[k]};
    TRY(stw_decode(t->problem, &t->round, &decisions, &maker, t->plan[k], t->search->scratch[worker], error));
    return stw_trainer_evaluate(t, t->plan[k], worker, &t->score[k], error);
}

static stw_status work(void *context, int64_t k, int32_t worker, stw_error *error) {
    rollout *r = context;
    if (stw_trainer_may_stop(r->t)) atomic_store(&r->stopped, true);
    return atomic_load(&r->stopped) ? STW_OK : decode_and_evaluate(r, k, worker, error);
}

stw_status stw_trainer_rollout(stw_trainer *t, const stw_actions *actions, int32_t count, bool *complete, stw_error *error) {
    rollout r = {.t = t, .actions = *actions};
    TRY(stw_pool_try(t->search->pool, count, work, &r, error));
    *complete = !atomic_load(&r.stopped);
    if (*complete) t->evaluations += count;
    return STW_OK;
}

/* ---- learning ---- */

/* Steps of Adam, one per epoch. */
static stw_status learn(stw_trainer *t, stw_error *error) {
    stw_parameters *parameters = stw_net_parameters(t->net);
    for (int32_t epoch = 0; epoch < t->settings.epochs && !stw_trainer_may_stop(t); epoch++) {
        stw_parameters_zero_gradient(parameters);
        TRY(stw_trainer_add_gradient(t, epoch, error));
        t->row.gradient_norm = stw_parameters_update(parameters, t->row.rate, t->settings.gradient_norm);
    }
    return STW_OK;
}

/* ---- the update ---- */

double stw_trainer_progress(const stw_trainer *t) {
    const double share = t->settings.updates > 0
                             ? (double)t->update / (double)t->settings.updates
                             : fmax(t->progress, stw_budget_progress(&t->budget, stw_search_moment(t->search)));
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
    if (!fits && score.reason == STW_INVALID_MEMORY && !stw_trainer_is_blank(t)) {
        TRY(stw_search_repair(t->search, t->plan[best], &score, 0, error));
        *over = t->settings.updates > 0 && stw_trainer_is_stopped(t);
    }
    return *over ? STW_OK : stw_trainer_keep(t, best, &score, error);
}

static void describe(stw_trainer *t) {
    stw_curve_row *row = &t->row;
    const int32_t K = t->settings.samples;
    const stw_distribution d = stw_trainer_runs_placement(t) ? stw_trainer_placement_of(t, K) : stw_trainer_fusion_of(t, K);
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
    *over = (t->settings.updates > 0 && t->update >= t->settings.updates) || stw_trainer_is_stopped(t);
    if (*over) return STW_OK;
    const bool stale = t->settings.patience > 0 && t->update - t->last_better >= t->settings.patience;
    if (t->round_index < 0 || stale || t->restarted) TRY(stw_trainer_begin_round(t, over, error));
    *over = *over || stw_trainer_evaluations_left(t) < t->settings.samples + 1;
    if (!*over) set_schedule_of_update(t);
    return STW_OK;
}

/* Begins the update unless that was done ahead: then the network is shown what was found. */
static stw_status come_to_update(stw_trainer *t, bool *over, stw_error *error) {
    if (!t->prepared) return begin_update(t, over, error);
    *over = stw_trainer_is_stopped(t);
    if (*over) return STW_OK;
    set_schedule_of_update(t);
    return stw_pass_set_input(t->pass, &t->input, error);
}

stw_status stw_trainer_prepare(stw_trainer *t, stw_error *error) {
    bool over = false;
    t->prepares = true;
    stw_status status = begin_update(t, &over, error);
    if (status == STW_OK && !over) status = stw_trainer_try_moves(t, error);
    t->prepares = false;
    t->prepared = status == STW_OK && !over;
    return status;
}

static stw_status learn_from_moves(stw_trainer *t, stw_error *error) {
    if (!t->prepared) TRY(stw_trainer_try_moves(t, error));
    return stw_trainer_keep_tried(t, error);
}

static void end_update(stw_trainer *t) {
    t->prepared = false;
    t->row.update = t->update++;
    t->row.round = t->round_index;
    t->row.evaluations = t->evaluations;
    t->row.seconds = stw_now_s() - t->began_s;
    t->row.best = t->has_best ? t->best_score.value : NAN;
}

stw_status stw_trainer_sample(stw_trainer *t, bool *over, stw_error *error) {
    TRY(come_to_update(t, over, error));
    if (*over) return STW_OK;
    const int64_t before = t->evaluations;
    TRY(sample_and_evaluate(t, over, error));
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
    if (t->settings.over_trials) {
        stw_advantages_over_trials(t->trials, t->reward, t->learnt, t->advantage);
    } else {
        stw_advantages(t->reward, t->learnt, t->settings.floor, t->settings.limit, t->advantage);
    }
    TRY(learn_from_moves(t, error));
    end_update(t);
    return STW_OK;
}

stw_status stw_trainer_try(stw_trainer *t, bool *over, stw_error *error) {
    bool complete = false;
    TRY(come_to_update(t, over, error));
    if (*over) return STW_OK;
    TRY(stw_trainer_run_placement(t, 1, error));
    const stw_distribution d = stw_trainer_placement_of(t, 0);
    stw_distribution_greedy(&d, t->now->placement);
    const stw_actions actions = {.placement = t->now->placement};
    TRY(stw_trainer_rollout(t, &actions, 1, &complete, error));
    for (int32_t k = 1; k <= t->settings.samples; k++) t->score[k] = t->score[0];
    describe(t);
    TRY(stw_trainer_keep(t, 0, &t->score[0], error));
    t->learnt = 0;
    TRY(learn_from_moves(t, error));
    end_update(t);
    return STW_OK;
}

stw_status stw_trainer_step(stw_trainer *t, bool *over, stw_error *error) {
    TRY(stw_trainer_sample(t, over, error));
    if (*over) return STW_OK;
    if (t->settings.rate > 0.0 && t->own_net != NULL) TRY(learn(t, error));
    t->row.seconds = stw_now_s() - t->began_s;
    if (t->search->curve != NULL) t->search->curve(t->search->watch_context, &t->row);
    return STW_OK;
}

stw_status stw_trainer_greedy(stw_trainer *t, stw_plan *plan, stw_score *score, stw_error *error) {
    bool over = false, complete = false;
    if (t->round_index < 0) TRY(stw_trainer_begin_round(t, &over, error));
    set_schedule_of_update(t);
    TRY(stw_trainer_decide(t, error));
    const stw_actions actions = decided(t);
    TRY(stw_trainer_rollout(t, &actions, 1, &complete, error));
    if (!complete) return stw_fail(error, STW_ERROR_CANCELLED, "stopped before the greedy plan was evaluated");
    *score = t->score[0];
    return stw_plan_assign(plan, t->plan[0], error);
}
