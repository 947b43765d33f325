/* An update: the policy decides, task after task, for some samples and once without noise; their plans are made and evaluated on
 * all threads; a step of Adam goes towards what was better. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "search/fusing.h"
#include "train/trainer_state.h"

static const uint64_t FUSION = UINT64_C(1) << 32; /* of the generator's parts, beyond those of the other tasks */
static const uint64_t DRAFTS = UINT64_C(1) << 33; /* beyond those of the first */

/* ---- what the network says ---- */

/* What sample k is drawn from. The first task of the first draft has the same for all samples. */
static bool is_later(const stw_trainer *t) { return t->now != t->draft; } /* than the first draft */

static stw_distribution fusion_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->fusion_nudged,
                              .rows = t->problem->M,
                              .dims = t->F,
                              .out = &t->now->fusion_out[is_later(t) ? (int64_t)k * t->problem->M * t->F : 0],
                              .sigma = t->row.sigma};
}

static bool has_own_placement(const stw_trainer *t) { return t->chained || is_later(t); }

static stw_distribution placement_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->steered,
                              .rows = t->problem->M,
                              .dims = t->P,
                              .out = &t->now->means[has_own_placement(t) ? (int64_t)k * t->problem->M * t->P : 0],
                              .sigma = t->row.sigma};
}

static stw_distribution schedule_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->nudged,
                              .rows = t->problem->M,
                              .dims = t->S,
                              .out = &t->now->schedule_out[(int64_t)k * t->problem->M * t->S],
                              .sigma = t->row.sigma};
}

stw_status stw_trainer_run_placement(stw_trainer *t, int32_t count, stw_error *error) {
    return t->chained ? stw_pass_place(t->pass, count, t->now->fusion, t->now->means, error)
                      : stw_pass_placement(t->pass, t->now->means, error);
}

/* Fusion is decided first and needs none of the others. */
static bool runs_placement(const stw_trainer *t) { return !t->chained || t->problem->places || t->problem->schedules; }

/* ---- samples ---- */

static stw_status explore(stw_trainer *t, stw_rng rng, int32_t dims, stw_error *error) {
    const double *feedback = stw_net_config(t->net)->feedback_columns > 0 ? t->feedback : NULL;
    return stw_explore(t->problem, &t->settings.noise, rng, dims, feedback, t->noise, t->round_arena, error);
}

/* Sample `samples` is the greedy one. */
static stw_status sample_fusion(stw_trainer *t, const stw_rng *rng, stw_error *error) {
    const int64_t M = t->problem->M;
    for (int32_t k = 0; k <= t->settings.samples; k++) {
        const stw_distribution d = fusion_of(t, k);
        double *action = &t->now->fusion[k * M];
        if (k == t->settings.samples || !t->problem->fuses) {
            stw_distribution_greedy(&d, action);
            continue;
        }
        TRY(explore(t, stw_rng_split(rng, FUSION + (uint64_t)k), t->F, error));
        stw_distribution_sample(&d, t->noise, action);
        stw_distribution_log_density(&d, action, &t->now->logp_fusion[k * M]);
    }
    return STW_OK;
}

/* Spread evenly over the samples. */
static bool is_hedged(const stw_trainer *t, int32_t k) {
    return t->steered && floor((k + 1) * t->settings.hedge) > floor(k * t->settings.hedge);
}

static void ignore_network(const stw_trainer *t, const stw_distribution *d, double *action) {
    for (int64_t i = 0; i < (int64_t)t->problem->M * t->A; i++) action[i] -= d->out[i];
}

static stw_status sample_placement(stw_trainer *t, const stw_rng *rng, stw_error *error) {
    const int64_t M = t->problem->M;
    for (int32_t k = 0; k <= t->settings.samples; k++) {
        const stw_distribution d = placement_of(t, k);
        double *action = &t->now->placement[k * M * t->A];
        if (k == t->settings.samples || !t->problem->places) {
            stw_distribution_greedy(&d, action);
            if (t->settings.hedge >= 1.0) ignore_network(t, &d, action);
            continue;
        }
        TRY(explore(t, stw_rng_split(rng, 2 * (uint64_t)k), t->P, error));
        for (int64_t u = 0; t->settings.moves > 0 && u < M; u++) t->noise[u * t->P + STW_MOVE_KNOB] = 0.0;
        stw_distribution_sample(&d, t->noise, action);
        if (is_hedged(t, k)) ignore_network(t, &d, action);
        stw_distribution_log_density(&d, action, &t->now->logp_placement[k * M]);
    }
    return STW_OK;
}

static stw_status sample_schedule(stw_trainer *t, const stw_rng *rng, stw_error *error) {
    const int64_t M = t->problem->M;
    for (int32_t k = 0; k <= t->settings.samples; k++) {
        const stw_distribution d = schedule_of(t, k);
        double *action = &t->now->schedule[k * M];
        if (k == t->settings.samples) {
            stw_distribution_greedy(&d, action);
            continue;
        }
        TRY(explore(t, stw_rng_split(rng, 2 * (uint64_t)k + 1), t->S, error));
        stw_distribution_sample(&d, t->noise, action);
        stw_distribution_log_density(&d, action, &t->now->logp_schedule[k * M]);
    }
    return STW_OK;
}

/* What was sampled last. */
static stw_actions decided(const stw_trainer *t) {
    return (stw_actions){.fusion = t->problem->fuses ? t->now->fusion : NULL,
                         .placement = t->now->placement,
                         .schedule = t->problem->schedules ? t->now->schedule : NULL};
}

/* ---- drafts ---- */

/* How a task decides once the network has run it: samples drawn from `rng`; without noise, in the place of the first sample; or
 * as it did when the network ran before. */
typedef struct {
    enum { DRAW, GREEDY, AGAIN } how;
    stw_rng rng;
} decider;

static stw_status decide_fusion(stw_trainer *t, const decider *by, stw_error *error) {
    const stw_distribution d = fusion_of(t, 0);
    if (by->how == DRAW) return sample_fusion(t, &by->rng, error);
    if (by->how == GREEDY) stw_distribution_greedy(&d, t->now->fusion);
    return STW_OK;
}

static stw_status decide_placement(stw_trainer *t, const decider *by, stw_error *error) {
    const stw_distribution d = placement_of(t, 0);
    if (by->how == DRAW) return sample_placement(t, &by->rng, error);
    if (by->how == GREEDY) stw_distribution_greedy(&d, t->now->placement);
    return STW_OK;
}

static stw_status decide_schedule(stw_trainer *t, const decider *by, stw_error *error) {
    const stw_distribution d = schedule_of(t, 0);
    if (by->how == DRAW) return sample_schedule(t, &by->rng, error);
    if (by->how == GREEDY) stw_distribution_greedy(&d, t->now->schedule);
    return STW_OK;
}

/* What the last task of a draft decided. */
static const double *last_decisions(const stw_trainer *t, const stw_draft *draft) {
    return t->problem->schedules ? draft->schedule : runs_placement(t) ? draft->placement : draft->fusion;
}

/* The first task: of the graph alone, or knowing the draft before. */
static stw_status run_first_task(stw_trainer *t, int32_t count, double *out, stw_error *error) {
    if (is_later(t)) return stw_pass_next_draft(t->pass, count, last_decisions(t, t->now - 1), out, error);
    return t->chained ? stw_pass_fusion(t->pass, out, error) : stw_pass_placement(t->pass, out, error);
}

/* All tasks of draft t->now for `count` plans. `*over`: stopped before the schedule. */
static stw_status run_draft(stw_trainer *t, int32_t count, const decider *by, bool *over, stw_error *error) {
    stw_draft *now = t->now;
    if (t->chained) {
        TRY(run_first_task(t, count, now->fusion_out, error));
        TRY(decide_fusion(t, by, error));
    }
    if (runs_placement(t)) {
        TRY(t->chained ? stw_pass_place(t->pass, count, now->fusion, now->means, error)
                       : run_first_task(t, count, now->means, error));
        TRY(decide_placement(t, by, error));
    }
    if (!t->problem->schedules) return STW_OK;
    if (by->how == DRAW && (*over = stw_trainer_may_stop(t))) return STW_OK; /* what follows takes longest if every op decides */
    TRY(stw_pass_schedule(t->pass, count, now->placement, now->schedule_out, error));
    return decide_schedule(t, by, error);
}

static stw_status run_drafts(stw_trainer *t, int32_t count, decider by, bool *over, stw_error *error) {
    const stw_rng rng = by.rng;
    for (int32_t k = 0; k < t->drafts && !*over; k++) {
        t->now = &t->draft[k];
        by.rng = k == 0 ? rng : stw_rng_split(&rng, DRAFTS + (uint64_t)k);
        TRY(run_draft(t, count, &by, over, error));
    }
    t->now = &t->draft[t->drafts - 1]; /* also where it was stopped before */
    return STW_OK;
}

stw_status stw_trainer_decide(stw_trainer *t, stw_error *error) {
    bool over = false;
    return run_drafts(t, 1, (decider){.how = GREEDY}, &over, error);
}

/* Samples of all tasks, and their scores; the last is the greedy one. `*over`: stopped on the way. */
static stw_status sample_and_evaluate(stw_trainer *t, bool *over, stw_error *error) {
    bool complete = false;
    TRY(run_drafts(t, t->settings.samples + 1, (decider){DRAW, stw_rng_split(&t->rng, (uint64_t)t->update)}, over, error));
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

/* Where moves are tried one by one, no sample says anything about them: as if each had decided what the network says. */
static void forget_move_knob(stw_trainer *t) {
    const int64_t M = t->problem->M;
    for (int64_t k = 0; k < (int64_t)t->learnt * M; k++)
        t->now->placement[k * t->A + STW_MOVE_KNOB] = t->now->means[k % M * t->P + STW_MOVE_KNOB];
}

/* The parts of a loss, over tasks and drafts; `clipped` is that of the first task of the last draft. */
typedef struct {
    stw_ppo ppo;
    stw_distribution *d; /* (K) */
    double **d_out;      /* (K) */
} losses;

static stw_status lose_fusion(stw_trainer *t, const losses *l, stw_ppo_result *out, stw_arena scratch, stw_error *error) {
    stw_draft *now = t->now;
    const int64_t M = t->problem->M, outputs = is_later(t) ? t->settings.samples + 1 : 1;
    if (!t->chained) return STW_OK;
    memset(now->d_fusion, 0, (size_t)(outputs * M * t->F) * sizeof *now->d_fusion);
    for (int32_t k = 0; k < l->ppo.K; k++) {
        l->d[k] = fusion_of(t, k);
        l->d_out[k] = &now->d_fusion[is_later(t) ? k * M * t->F : 0];
    }
    if (!t->problem->fuses) return STW_OK;
    return stw_ppo_loss(&l->ppo, l->d, now->fusion, now->logp_fusion, l->d_out, out, scratch, error);
}

static stw_status lose_placement(stw_trainer *t, const losses *l, stw_ppo_result *out, stw_arena scratch, stw_error *error) {
    stw_draft *now = t->now;
    const int64_t M = t->problem->M, outputs = has_own_placement(t) ? t->settings.samples + 1 : 1;
    memset(now->d_placement, 0, (size_t)(outputs * M * t->P) * sizeof *now->d_placement);
    for (int32_t k = 0; k < l->ppo.K; k++) {
        l->d[k] = placement_of(t, k);
        l->d_out[k] = &now->d_placement[has_own_placement(t) ? k * M * t->P : 0];
    }
    if (!t->problem->places || l->ppo.K == 0) return STW_OK;
    return stw_ppo_loss(&l->ppo, l->d, now->placement, now->logp_placement, l->d_out, out, scratch, error);
}

static stw_status lose_schedule(stw_trainer *t, const losses *l, stw_ppo_result *out, stw_arena scratch, stw_error *error) {
    stw_draft *now = t->now;
    const int64_t M = t->problem->M;
    memset(now->d_schedule, 0, (size_t)((t->settings.samples + 1) * M * t->S) * sizeof *now->d_schedule);
    for (int32_t k = 0; k < l->ppo.K; k++) {
        l->d[k] = schedule_of(t, k);
        l->d_out[k] = &now->d_schedule[k * M * t->S];
    }
    if (!t->problem->schedules || l->ppo.K == 0) return STW_OK;
    return stw_ppo_loss(&l->ppo, l->d, now->schedule, now->logp_schedule, l->d_out, out, scratch, error);
}

/* Gradient of all tasks of all drafts by the network's outputs. */
static stw_status find_gradient(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const int32_t K = t->learnt;
    stw_arena scratch = t->round_arena;
    losses l = {.ppo = {.K = K, .M = p->M, .clip = t->settings.clip, .pull = t->settings.pull, .advantage = t->advantage}};
    STW_TRY_NEW(&scratch, l.d, K, error);
    STW_TRY_NEW(&scratch, l.d_out, K, error);
    t->row.loss = 0.0;
    for (int32_t k = 0; k < t->drafts; k++) {
        stw_ppo_result fusion = {0}, placement = {0}, schedule = {0};
        t->now = &t->draft[k];
        TRY(lose_fusion(t, &l, &fusion, scratch, error));
        TRY(lose_placement(t, &l, &placement, scratch, error));
        if (t->tried > 0) placement.loss += stw_trainer_learn_moves(t, t->now->d_placement);
        TRY(lose_schedule(t, &l, &schedule, scratch, error));
        t->row.loss += placement.loss + schedule.loss + fusion.loss;
        t->row.clipped = p->places ? placement.clipped : p->schedules ? schedule.clipped : fusion.clipped;
    }
    return STW_OK;
}

/* Keeps the best sample of the round, and puts it in the place of the greedy one for learning. */
static void stand_elite(stw_trainer *t) {
    const int64_t M = t->problem->M, K = t->settings.samples;
    for (int64_t k = 0; k <= K; k++) {
        if (t->score[k].reason != STW_VALID || (t->has_elite && !stw_score_is_better(&t->score[k], &t->elite_score))) continue;
        t->has_elite = true;
        t->elite_score = t->score[k];
        memcpy(t->elite_placement, &t->now->placement[k * M * t->A], (size_t)(M * t->A) * sizeof *t->now->placement);
        memcpy(t->elite_schedule, &t->now->schedule[k * M], (size_t)M * sizeof *t->now->schedule);
        if (t->chained) memcpy(t->elite_fusion, &t->now->fusion[k * M], (size_t)M * sizeof *t->now->fusion);
    }
    t->learnt = (int32_t)K + (t->settings.elite && t->has_elite);
    if (t->learnt == K) return;
    t->score[K] = t->elite_score;
    memcpy(&t->now->placement[K * M * t->A], t->elite_placement, (size_t)(M * t->A) * sizeof *t->now->placement);
    memcpy(&t->now->schedule[K * M], t->elite_schedule, (size_t)M * sizeof *t->now->schedule);
    if (t->chained) memcpy(&t->now->fusion[K * M], t->elite_fusion, (size_t)M * sizeof *t->now->fusion);
}

/* What the policy as it is says of the elite, so that its ratios begin at 1 like those of the samples. */
static void score_elite(stw_trainer *t) {
    const int64_t M = t->problem->M, K = t->settings.samples;
    const stw_distribution placement = placement_of(t, (int32_t)K), schedule = schedule_of(t, (int32_t)K);
    const stw_distribution fusion = fusion_of(t, (int32_t)K);
    if (t->problem->fuses) stw_distribution_log_density(&fusion, &t->now->fusion[K * M], &t->now->logp_fusion[K * M]);
    stw_distribution_log_density(&placement, &t->now->placement[K * M * t->A], &t->now->logp_placement[K * M]);
    if (t->problem->schedules) stw_distribution_log_density(&schedule, &t->now->schedule[K * M], &t->now->logp_schedule[K * M]);
}

/* The tasks again: all of them, or, where nothing but the decisions of the last sample has changed, those that see them. */
static stw_status run_again(stw_trainer *t, bool all, stw_error *error) {
    const int32_t count = t->settings.samples + 1;
    bool over = false;
    if (all) return run_drafts(t, count, (decider){.how = AGAIN}, &over, error);
    if (t->chained && runs_placement(t)) TRY(stw_trainer_run_placement(t, count, error));
    if (!t->problem->schedules) return STW_OK;
    return stw_pass_schedule(t->pass, count, t->now->placement, t->now->schedule_out, error);
}

/* Without an elite, the first epoch uses the forward passes that the samples came from. */
stw_status stw_trainer_add_gradient(stw_trainer *t, int32_t epoch, stw_error *error) {
    const bool elite = t->learnt > t->settings.samples;
    stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    if (epoch > 0 || elite) TRY(run_again(t, epoch > 0, error));
    if (t->settings.moves > 0) forget_move_knob(t);
    if (epoch == 0 && elite) score_elite(t);
    TRY(find_gradient(t, error));
    for (int32_t k = 0; k < t->drafts; k++)
        of_draft[k] = (stw_net_gradient){t->draft[k].d_fusion, runs_placement(t) ? t->draft[k].d_placement : NULL,
                                         t->problem->schedules && t->learnt > 0 ? t->draft[k].d_schedule : NULL};
    return stw_pass_backward(t->pass, of_draft, error);
}

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
    const stw_distribution d = runs_placement(t) ? placement_of(t, K) : fusion_of(t, K);
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
    stand_elite(t);
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
    const stw_distribution d = placement_of(t, 0);
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
