/* Samples from the policy, task after task, and their scores. */
#include <math.h>

#include "train/trainer_state.h"

static const uint64_t FUSION = UINT64_C(1) << 32; /* of the generator's parts, beyond those of the other tasks */

/* ---- what the network says ---- */

stw_distribution stw_trainer_fusion_of(const stw_trainer *t) {
    return (stw_distribution){
        .categorical = !t->fusion_nudged, .rows = t->problem->M, .dims = t->F, .out = t->fusion_out, .sigma = t->row.sigma};
}

stw_distribution stw_trainer_placement_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->steered,
                              .rows = t->problem->M,
                              .dims = t->P,
                              .out = &t->means[t->chained ? (int64_t)k * t->problem->M * t->P : 0],
                              .sigma = t->row.sigma};
}

stw_distribution stw_trainer_schedule_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->nudged,
                              .rows = t->problem->M,
                              .dims = t->S,
                              .out = &t->schedule_out[(int64_t)k * t->problem->M * t->S],
                              .sigma = t->row.sigma};
}

stw_status stw_trainer_run_placement(stw_trainer *t, int32_t count, stw_error *error) {
    return t->chained ? stw_pass_place(t->pass, count, t->fusion, t->means, error) : stw_pass_placement(t->pass, t->means, error);
}

bool stw_trainer_runs_placement(const stw_trainer *t) { return !t->chained || t->problem->places || t->problem->schedules; }

/* ---- samples ---- */

static stw_status explore(stw_trainer *t, stw_rng rng, int32_t dims, stw_error *error) {
    const double *feedback = stw_net_config(t->net)->feedback_columns > 0 ? t->feedback : NULL;
    return stw_explore(t->problem, &t->settings.noise, rng, dims, feedback, t->noise, t->round_arena, error);
}

/* Sample `samples` is the greedy one. */
static stw_status sample_fusion(stw_trainer *t, const stw_rng *rng, stw_error *error) {
    const stw_distribution d = stw_trainer_fusion_of(t);
    const int64_t M = t->problem->M;
    for (int32_t k = 0; k <= t->settings.samples; k++) {
        double *action = &t->fusion[k * M];
        if (k == t->settings.samples || !t->problem->fuses) {
            stw_distribution_greedy(&d, action);
            continue;
        }
        TRY(explore(t, stw_rng_split(rng, FUSION + (uint64_t)k), t->F, error));
        stw_distribution_sample(&d, t->noise, action);
        stw_distribution_log_density(&d, action, &t->logp_fusion[k * M]);
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
        const stw_distribution d = stw_trainer_placement_of(t, k);
        double *action = &t->placement[k * M * t->A];
        if (k == t->settings.samples || !t->problem->places) {
            stw_distribution_greedy(&d, action);
            if (t->settings.hedge >= 1.0) ignore_network(t, &d, action);
            continue;
        }
        TRY(explore(t, stw_rng_split(rng, 2 * (uint64_t)k), t->P, error));
        for (int64_t u = 0; t->settings.moves > 0 && u < M; u++) t->noise[u * t->P + STW_MOVE_KNOB] = 0.0;
        stw_distribution_sample(&d, t->noise, action);
        if (is_hedged(t, k)) ignore_network(t, &d, action);
        stw_distribution_log_density(&d, action, &t->logp_placement[k * M]);
    }
    return STW_OK;
}

static stw_status sample_schedule(stw_trainer *t, const stw_rng *rng, stw_error *error) {
    const int64_t M = t->problem->M;
    TRY(stw_pass_schedule(t->pass, t->settings.samples + 1, t->placement, t->schedule_out, error));
    for (int32_t k = 0; k <= t->settings.samples; k++) {
        const stw_distribution d = stw_trainer_schedule_of(t, k);
        double *action = &t->schedule[k * M];
        if (k == t->settings.samples) {
            stw_distribution_greedy(&d, action);
            continue;
        }
        TRY(explore(t, stw_rng_split(rng, 2 * (uint64_t)k + 1), t->S, error));
        stw_distribution_sample(&d, t->noise, action);
        stw_distribution_log_density(&d, action, &t->logp_schedule[k * M]);
    }
    return STW_OK;
}

stw_actions stw_trainer_decided(const stw_trainer *t) {
    return (stw_actions){.fusion = t->problem->fuses ? t->fusion : NULL,
                         .placement = t->placement,
                         .schedule = t->problem->schedules ? t->schedule : NULL};
}

stw_status stw_trainer_sample_and_evaluate(stw_trainer *t, bool *over, stw_error *error) {
    const stw_rng rng = stw_rng_split(&t->rng, (uint64_t)t->update);
    bool complete = false;
    if (t->chained) {
        TRY(stw_pass_fusion(t->pass, t->fusion_out, error));
        TRY(sample_fusion(t, &rng, error));
    }
    if (stw_trainer_runs_placement(t)) {
        TRY(stw_trainer_run_placement(t, t->settings.samples + 1, error));
        TRY(sample_placement(t, &rng, error));
    }
    if ((*over = stw_trainer_may_stop(t))) return STW_OK; /* what follows takes longest if every op decides */
    if (t->problem->schedules) TRY(sample_schedule(t, &rng, error));
    const stw_actions actions = stw_trainer_decided(t);
    TRY(stw_trainer_rollout(t, &actions, t->settings.samples + 1, &complete, error));
    *over = !complete;
    return STW_OK;
}
