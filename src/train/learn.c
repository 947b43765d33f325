/* What an update learns: the loss of what its samples decided, and its gradient through the network. */
#include <string.h>

#include "train/trainer_state.h"

/* ---- the loss ---- */

/* A task of a draft: what it gave, what was decided by it, and the gradient. */
typedef struct {
    stw_distribution (*of)(const stw_trainer *, int32_t);
    bool own;     /* every sample has outputs of its own; else they share one */
    bool decides; /* samples differ by it */
    int32_t dims, action_width;
    double *d_out;
    const double *action, *logp;
} task;

static task fusion_task(const stw_trainer *t) {
    const stw_draft *now = t->now;
    return (task){.of = stw_trainer_fusion_of,
                  .own = stw_trainer_is_later(t),
                  .decides = t->problem->fuses,
                  .dims = t->F,
                  .action_width = 1,
                  .d_out = now->d_fusion,
                  .action = now->fusion,
                  .logp = now->logp_fusion};
}

static task placement_task(const stw_trainer *t) {
    const stw_draft *now = t->now;
    return (task){.of = stw_trainer_placement_of,
                  .own = stw_trainer_has_own_placement(t),
                  .decides = t->problem->places,
                  .dims = t->P,
                  .action_width = t->A,
                  .d_out = now->d_placement,
                  .action = now->placement,
                  .logp = now->logp_placement};
}

static task schedule_task(const stw_trainer *t) {
    const stw_draft *now = t->now;
    return (task){.of = stw_trainer_schedule_of,
                  .own = true,
                  .decides = t->problem->schedules,
                  .dims = t->S,
                  .action_width = 1,
                  .d_out = now->d_schedule,
                  .action = now->schedule,
                  .logp = now->logp_schedule};
}

/* Of some samples, as a share of the loss of all; of outputs that all share, all at once with the first of them. */
static stw_status lose(stw_trainer *t, const task *a, stw_batch batch, stw_ppo_result *out, stw_error *error) {
    const int64_t M = t->problem->M, first = a->own ? batch.first : 0, each = M * a->dims;
    const int32_t end = a->own ? batch.first + batch.count : t->settings.samples + 1;
    const int32_t K = (end < t->learnt ? end : t->learnt) - (int32_t)first;
    stw_arena scratch = t->round_arena;
    stw_distribution *d;
    double **d_out;
    if (!a->own && batch.first > 0) return STW_OK;
    memset(&a->d_out[first * each], 0, (size_t)((a->own ? batch.count : 1) * each) * sizeof *a->d_out);
    if (!a->decides || K <= 0) return STW_OK;
    STW_TRY_NEW(&scratch, d, K, error);
    STW_TRY_NEW(&scratch, d_out, K, error);
    for (int32_t k = 0; k < K; k++) {
        d[k] = a->of(t, (int32_t)first + k);
        d_out[k] = &a->d_out[a->own ? (first + k) * each : 0];
    }
    const stw_ppo ppo = {.K = K,
                         .M = (int32_t)M,
                         .all = t->learnt,
                         .clip = t->settings.clip,
                         .pull = t->settings.pull,
                         .advantage = &t->advantage[first]};
    return stw_ppo_loss(&ppo, d, &a->action[first * M * a->action_width], &a->logp[first * M], d_out, out, scratch, error);
}

/* Gradient of all tasks of all drafts by the network's outputs for these samples; adds to the row's loss. `clipped` is that of
 * the first task of the last draft. */
static stw_status find_gradient(stw_trainer *t, stw_batch batch, stw_error *error) {
    const stw_problem *p = t->problem;
    double clipped = 0.0;
    if (batch.first == 0) t->row.loss = t->row.clipped = 0.0;
    for (int32_t k = 0; k < t->drafts; k++) {
        stw_ppo_result fusion = {0}, placement = {0}, schedule = {0};
        t->now = &t->draft[k];
        const task tasks[] = {fusion_task(t), placement_task(t), schedule_task(t)};
        if (t->chained) TRY(lose(t, &tasks[0], batch, &fusion, error));
        TRY(lose(t, &tasks[1], batch, &placement, error));
        if (t->tried > 0) placement.loss += stw_trainer_learn_moves(t, t->now->d_placement);
        TRY(lose(t, &tasks[2], batch, &schedule, error));
        t->row.loss += placement.loss + schedule.loss + fusion.loss;
        clipped = p->places ? placement.clipped : p->schedules ? schedule.clipped : fusion.clipped;
    }
    t->row.clipped += clipped;
    return STW_OK;
}

/* ---- the best sample, again ---- */

void stw_trainer_stand_elite(stw_trainer *t) {
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
    const stw_distribution placement = stw_trainer_placement_of(t, (int32_t)K), schedule = stw_trainer_schedule_of(t, (int32_t)K);
    const stw_distribution fusion = stw_trainer_fusion_of(t, (int32_t)K);
    if (t->problem->fuses) stw_distribution_log_density(&fusion, &t->now->fusion[K * M], &t->now->logp_fusion[K * M]);
    stw_distribution_log_density(&placement, &t->now->placement[K * M * t->A], &t->now->logp_placement[K * M]);
    if (t->problem->schedules) stw_distribution_log_density(&schedule, &t->now->schedule[K * M], &t->now->logp_schedule[K * M]);
}

/* Where moves are tried one by one, no sample says anything about them: as if each had decided what the network says. */
static void forget_move_knob(stw_trainer *t) {
    const int64_t M = t->problem->M;
    for (int64_t k = 0; k < (int64_t)t->learnt * M; k++)
        t->now->placement[k * t->A + STW_MOVE_KNOB] = t->now->means[k % M * t->P + STW_MOVE_KNOB];
}

/* ---- the gradient ---- */

/* The tasks again: all of them, or, where nothing but the decisions of the last sample has changed, those that see them. */
static stw_status run_again(stw_trainer *t, bool all, stw_error *error) {
    const int32_t count = t->settings.samples + 1;
    if (all) return stw_trainer_run_again(t, error);
    if (t->chained && stw_trainer_runs_placement(t)) TRY(stw_trainer_run_placement(t, count, error));
    if (!t->problem->schedules) return STW_OK;
    return stw_pass_schedule(t->pass, count, t->now->placement, t->now->schedule_out, error);
}

/* What the network goes back by, of the samples from `first` on. */
static void gradients_from(const stw_trainer *t, int32_t first, stw_net_gradient of_draft[STW_MOST_DRAFTS]) {
    const int64_t before = (int64_t)first * t->problem->M;
    for (int32_t k = 0; k < t->drafts; k++) {
        const stw_draft *d = &t->draft[k];
        const bool fuses_alone = k > 0, places_alone = t->chained || k > 0; /* every sample has outputs of its own */
        of_draft[k] =
            (stw_net_gradient){t->chained ? d->d_fusion + (fuses_alone ? before * t->F : 0) : NULL,
                               stw_trainer_runs_placement(t) ? d->d_placement + (places_alone ? before * t->P : 0) : NULL,
                               t->problem->schedules && t->learnt > 0 ? d->d_schedule + before * t->S : NULL};
    }
}

/* Without an elite, the first epoch uses the forward passes that the samples came from. */
static stw_status add_whole(stw_trainer *t, int32_t epoch, stw_error *error) {
    const bool elite = t->learnt > t->settings.samples;
    stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    if (epoch > 0 || elite) TRY(run_again(t, epoch > 0, error));
    if (t->settings.moves > 0) forget_move_knob(t);
    if (epoch == 0 && elite) score_elite(t);
    TRY(find_gradient(t, (stw_batch){0, t->settings.samples + 1}, error));
    gradients_from(t, 0, of_draft);
    return stw_pass_backward(t->pass, of_draft, error);
}

/* Samples that do not go through the network together: batch by batch, there and back. In the first epoch the first task of all
 * is there already. */
static stw_status add_in_batches(stw_trainer *t, int32_t epoch, stw_error *error) {
    stw_net_gradient of_draft[STW_MOST_DRAFTS] = {{NULL, NULL, NULL}};
    if (epoch > 0) TRY(stw_trainer_run_first_again(t, error));
    TRY(stw_pass_begin_backward(t->pass, error));
    for (stw_batch batch = stw_trainer_batch(t, 0, t->learnt); batch.count > 0;
         batch = stw_trainer_batch(t, batch.first + batch.count, t->learnt)) {
        TRY(stw_trainer_run_batch_again(t, batch, error));
        TRY(find_gradient(t, batch, error));
        gradients_from(t, batch.first, of_draft);
        TRY(stw_pass_add_backward(t->pass, of_draft, error));
    }
    return stw_pass_end_backward(t->pass, of_draft, error);
}

stw_status stw_trainer_add_gradient(stw_trainer *t, int32_t epoch, stw_error *error) {
    const bool whole = stw_trainer_batch(t, 0, t->settings.samples + 1).count > t->settings.samples;
    return whole ? add_whole(t, epoch, error) : add_in_batches(t, epoch, error);
}
