/* What an update learns from its samples, the best sample of the round and the moves that were tried. */
#include <string.h>

#include "train/trainer_state.h"

/* Where moves are tried one by one, no sample says anything about them: as if each had decided what the network says. */
static void forget_move_knob(stw_trainer *t) {
    const int64_t M = t->problem->M;
    for (int64_t k = 0; k < (int64_t)t->learnt * M; k++)
        t->placement[k * t->A + STW_MOVE_KNOB] = t->means[k % M * t->P + STW_MOVE_KNOB];
}

/* Gradient of all tasks by the network's outputs. */
static stw_status find_gradient(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const int64_t M = p->M, outputs = t->chained ? t->settings.samples + 1 : 1;
    const int32_t K = t->learnt;
    const stw_ppo ppo = {.K = K,
                         .M = p->M,
                         .clip = t->settings.clip,
                         .pull = t->settings.pull,
                         .entropy = t->settings.entropy * (1.0 - stw_trainer_progress(t)),
                         .advantage = t->advantage};
    stw_arena scratch = t->round_arena;
    stw_distribution *d;
    double **d_out;
    stw_ppo_result fusion = {0}, placement = {0}, schedule = {0};
    STW_TRY_NEW(&scratch, d, K, error);
    STW_TRY_NEW(&scratch, d_out, K, error);
    memset(t->d_placement, 0, (size_t)(outputs * M * t->P) * sizeof *t->d_placement);
    memset(t->d_schedule, 0, (size_t)((t->settings.samples + 1) * M * t->S) * sizeof *t->d_schedule);
    if (t->chained) memset(t->d_fusion, 0, (size_t)(M * t->F) * sizeof *t->d_fusion);
    for (int32_t k = 0; k < K; k++) {
        d[k] = stw_trainer_fusion_of(t);
        d_out[k] = t->d_fusion;
    }
    if (p->fuses) TRY(stw_ppo_loss(&ppo, d, t->fusion, t->logp_fusion, d_out, &fusion, scratch, error));
    for (int32_t k = 0; k < K; k++) {
        d[k] = stw_trainer_placement_of(t, k);
        d_out[k] = &t->d_placement[t->chained ? k * M * t->P : 0];
    }
    if (p->places && K > 0) TRY(stw_ppo_loss(&ppo, d, t->placement, t->logp_placement, d_out, &placement, scratch, error));
    if (t->tried > 0) placement.loss += stw_trainer_learn_moves(t, t->d_placement);
    for (int32_t k = 0; k < K; k++) {
        d[k] = stw_trainer_schedule_of(t, k);
        d_out[k] = &t->d_schedule[k * M * t->S];
    }
    if (p->schedules && K > 0) TRY(stw_ppo_loss(&ppo, d, t->schedule, t->logp_schedule, d_out, &schedule, scratch, error));
    t->row.loss = placement.loss + schedule.loss + fusion.loss;
    t->row.clipped = p->places ? placement.clipped : p->schedules ? schedule.clipped : fusion.clipped;
    return STW_OK;
}

void stw_trainer_stand_elite(stw_trainer *t) {
    const int64_t M = t->problem->M, K = t->settings.samples;
    for (int64_t k = 0; k <= K; k++) {
        if (t->score[k].reason != STW_VALID || (t->has_elite && !stw_score_is_better(&t->score[k], &t->elite_score))) continue;
        t->has_elite = true;
        t->elite_score = t->score[k];
        memcpy(t->elite_placement, &t->placement[k * M * t->A], (size_t)(M * t->A) * sizeof *t->placement);
        memcpy(t->elite_schedule, &t->schedule[k * M], (size_t)M * sizeof *t->schedule);
        if (t->chained) memcpy(t->elite_fusion, &t->fusion[k * M], (size_t)M * sizeof *t->fusion);
    }
    t->learnt = (int32_t)K + (t->settings.elite && t->has_elite);
    if (t->learnt == K) return;
    t->score[K] = t->elite_score;
    memcpy(&t->placement[K * M * t->A], t->elite_placement, (size_t)(M * t->A) * sizeof *t->placement);
    memcpy(&t->schedule[K * M], t->elite_schedule, (size_t)M * sizeof *t->schedule);
    if (t->chained) memcpy(&t->fusion[K * M], t->elite_fusion, (size_t)M * sizeof *t->fusion);
}

/* What the policy as it is says of the elite, so that its ratios begin at 1 like those of the samples. */
static void score_elite(stw_trainer *t) {
    const int64_t M = t->problem->M, K = t->settings.samples;
    const stw_distribution placement = stw_trainer_placement_of(t, (int32_t)K), schedule = stw_trainer_schedule_of(t, (int32_t)K);
    const stw_distribution fusion = stw_trainer_fusion_of(t);
    if (t->problem->fuses) stw_distribution_log_density(&fusion, &t->fusion[K * M], &t->logp_fusion[K * M]);
    stw_distribution_log_density(&placement, &t->placement[K * M * t->A], &t->logp_placement[K * M]);
    if (t->problem->schedules) stw_distribution_log_density(&schedule, &t->schedule[K * M], &t->logp_schedule[K * M]);
}

/* The tasks again: all of them, or, where nothing but the decisions of the last sample has changed, those that see them. */
static stw_status run_again(stw_trainer *t, bool all, stw_error *error) {
    if (all && t->chained) TRY(stw_pass_fusion(t->pass, t->fusion_out, error));
    if ((all || t->chained) && stw_trainer_runs_placement(t)) TRY(stw_trainer_run_placement(t, t->settings.samples + 1, error));
    if (!t->problem->schedules) return STW_OK;
    return stw_pass_schedule(t->pass, t->settings.samples + 1, t->placement, t->schedule_out, error);
}

/* Without an elite, the first epoch uses the forward passes that the samples came from. */
stw_status stw_trainer_add_gradient(stw_trainer *t, int32_t epoch, stw_error *error) {
    const bool elite = t->learnt > t->settings.samples;
    if (epoch > 0 || elite) TRY(run_again(t, epoch > 0, error));
    if (t->settings.moves > 0) forget_move_knob(t);
    if (epoch == 0 && elite) score_elite(t);
    TRY(find_gradient(t, error));
    return stw_pass_backward(t->pass, t->d_fusion, stw_trainer_runs_placement(t) ? t->d_placement : NULL,
                             t->problem->schedules && t->learnt > 0 ? t->d_schedule : NULL, error);
}

stw_status stw_trainer_learn(stw_trainer *t, stw_error *error) {
    stw_parameters *parameters = stw_net_parameters(t->net);
    for (int32_t epoch = 0; epoch < t->settings.epochs && !stw_trainer_may_stop(t); epoch++) {
        stw_parameters_zero_gradient(parameters);
        TRY(stw_trainer_add_gradient(t, epoch, error));
        t->row.gradient_norm = stw_parameters_update(parameters, t->row.rate, t->settings.gradient_norm);
    }
    return STW_OK;
}
