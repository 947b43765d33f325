/* What the policy decides, task after task and draft after draft: for some samples and once without noise, or once more as it
 * did. */
#include <math.h>

#include "train/trainer_state.h"

static const uint64_t FUSION = UINT64_C(1) << 32; /* of the generator's parts, beyond those of the other tasks */
static const uint64_t DRAFTS = UINT64_C(1) << 33; /* beyond those of the first */

/* ---- what the network says ---- */

/* What sample k is drawn from. The first task of the first draft has the same for all samples. */
stw_distribution stw_trainer_fusion_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->fusion_nudged,
                              .rows = t->problem->M,
                              .dims = t->F,
                              .out = &t->now->fusion_out[stw_trainer_is_later(t) ? (int64_t)k * t->problem->M * t->F : 0],
                              .sigma = t->row.sigma};
}

stw_distribution stw_trainer_placement_of(const stw_trainer *t, int32_t k) {
    return (stw_distribution){.categorical = !t->steered,
                              .rows = t->problem->M,
                              .dims = t->P,
                              .out = &t->now->means[stw_trainer_has_own_placement(t) ? (int64_t)k * t->problem->M * t->P : 0],
                              .sigma = t->row.sigma};
}

stw_distribution stw_trainer_schedule_of(const stw_trainer *t, int32_t k) {
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

/* ---- samples ---- */

static stw_status explore(stw_trainer *t, stw_rng rng, int32_t dims, stw_error *error) {
    const double *feedback = stw_net_config(t->net)->feedback_columns > 0 ? t->feedback : NULL;
    return stw_explore(t->problem, &t->settings.noise, rng, dims, feedback, t->noise, t->round_arena, error);
}

/* Sample `samples` is the greedy one. */
static stw_status sample_fusion(stw_trainer *t, const stw_rng *rng, stw_batch batch, stw_error *error) {
    const int64_t M = t->problem->M;
    for (int32_t k = batch.first; k < batch.first + batch.count; k++) {
        const stw_distribution d = stw_trainer_fusion_of(t, k);
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

static stw_status sample_placement(stw_trainer *t, const stw_rng *rng, stw_batch batch, stw_error *error) {
    const int64_t M = t->problem->M;
    for (int32_t k = batch.first; k < batch.first + batch.count; k++) {
        const stw_distribution d = stw_trainer_placement_of(t, k);
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

static stw_status sample_schedule(stw_trainer *t, const stw_rng *rng, stw_batch batch, stw_error *error) {
    const int64_t M = t->problem->M;
    for (int32_t k = batch.first; k < batch.first + batch.count; k++) {
        const stw_distribution d = stw_trainer_schedule_of(t, k);
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

/* ---- drafts ---- */

/* How a task decides once the network has run it: samples drawn from `rng`; without noise, in the place of the first sample; or
 * as it did when the network ran before. */
typedef struct {
    enum { DRAW, GREEDY, AGAIN } how;
    stw_rng rng;
} decider;

static stw_status decide_fusion(stw_trainer *t, const decider *by, stw_batch batch, stw_error *error) {
    const stw_distribution d = stw_trainer_fusion_of(t, 0);
    if (by->how == DRAW) return sample_fusion(t, &by->rng, batch, error);
    if (by->how == GREEDY) stw_distribution_greedy(&d, t->now->fusion);
    return STW_OK;
}

static stw_status decide_placement(stw_trainer *t, const decider *by, stw_batch batch, stw_error *error) {
    const stw_distribution d = stw_trainer_placement_of(t, 0);
    if (by->how == DRAW) return sample_placement(t, &by->rng, batch, error);
    if (by->how == GREEDY) stw_distribution_greedy(&d, t->now->placement);
    return STW_OK;
}

static stw_status decide_schedule(stw_trainer *t, const decider *by, stw_batch batch, stw_error *error) {
    const stw_distribution d = stw_trainer_schedule_of(t, 0);
    if (by->how == DRAW) return sample_schedule(t, &by->rng, batch, error);
    if (by->how == GREEDY) stw_distribution_greedy(&d, t->now->schedule);
    return STW_OK;
}

/* Of the whole graph's decisions, those of a batch's first sample; numbers: per unit. */
static int64_t offset(const stw_trainer *t, stw_batch batch, int32_t numbers) {
    return (int64_t)batch.first * t->problem->M * numbers;
}

/* What the last task of a draft decided. */
static const double *last_decisions(const stw_trainer *t, const stw_draft *draft, stw_batch batch) {
    if (t->problem->schedules) return draft->schedule + offset(t, batch, 1);
    return stw_trainer_runs_placement(t) ? draft->placement + offset(t, batch, t->A) : draft->fusion + offset(t, batch, 1);
}

/* Knowing the draft before. */
static stw_status run_next_draft(stw_trainer *t, stw_batch batch, double *out, stw_error *error) {
    return stw_pass_next_draft(t->pass, batch.count, last_decisions(t, t->now - 1, batch), out, error);
}

/* The first task of all, which knows the graph alone and runs once for all samples. */
static stw_status run_first(stw_trainer *t, int32_t count, const decider *by, stw_error *error) {
    const stw_batch all = {0, count};
    t->now = t->draft;
    if (t->chained) {
        TRY(stw_pass_fusion(t->pass, t->now->fusion_out, error));
        return decide_fusion(t, by, all, error);
    }
    TRY(stw_pass_placement(t->pass, t->now->means, error));
    return decide_placement(t, by, all, error);
}

/* The tasks of draft t->now but the first task of all. `*over`: stopped before the schedule. */
static stw_status run_draft(stw_trainer *t, stw_batch batch, const decider *by, bool *over, stw_error *error) {
    stw_draft *now = t->now;
    const bool later = stw_trainer_is_later(t);
    if (t->chained && later) {
        TRY(run_next_draft(t, batch, now->fusion_out + offset(t, batch, t->F), error));
        TRY(decide_fusion(t, by, batch, error));
    }
    if (stw_trainer_runs_placement(t) && (t->chained || later)) {
        double *out = now->means + offset(t, batch, t->P);
        TRY(t->chained ? stw_pass_place(t->pass, batch.count, now->fusion + offset(t, batch, 1), out, error)
                       : run_next_draft(t, batch, out, error));
        TRY(decide_placement(t, by, batch, error));
    }
    if (!t->problem->schedules) return STW_OK;
    if (by->how == DRAW && (*over = stw_trainer_may_stop(t))) return STW_OK; /* what follows takes longest if every op decides */
    TRY(stw_pass_schedule(t->pass, batch.count, now->placement + offset(t, batch, t->A),
                          now->schedule_out + offset(t, batch, t->S), error));
    return decide_schedule(t, by, batch, error);
}

/* All tasks of all drafts but the first task of all. */
static stw_status run_batch(stw_trainer *t, stw_batch batch, decider by, bool *over, stw_error *error) {
    const stw_rng rng = by.rng;
    if (batch.first > 0) stw_pass_rewind(t->pass);
    for (int32_t k = 0; k < t->drafts && !*over; k++) {
        t->now = &t->draft[k];
        by.rng = k == 0 ? rng : stw_rng_split(&rng, DRAFTS + (uint64_t)k);
        TRY(run_draft(t, batch, &by, over, error));
    }
    t->now = &t->draft[t->drafts - 1]; /* also where it was stopped before */
    return STW_OK;
}

stw_batch stw_trainer_batch(const stw_trainer *t, int32_t first, int32_t count) {
    const int64_t M = t->problem->M, rows = t->settings.rows;
    const int64_t most = rows == 0 ? count : rows / M > 0 ? rows / M : 1;
    return (stw_batch){first, (int32_t)(count - first < most ? count - first : most)};
}

static stw_status run_drafts(stw_trainer *t, int32_t count, decider by, bool *over, stw_error *error) {
    TRY(run_first(t, count, &by, error));
    for (stw_batch batch = stw_trainer_batch(t, 0, count); batch.count > 0 && !*over;
         batch = stw_trainer_batch(t, batch.first + batch.count, count))
        TRY(run_batch(t, batch, by, over, error));
    t->now = &t->draft[t->drafts - 1];
    return STW_OK;
}

stw_status stw_trainer_draw(stw_trainer *t, bool *over, stw_error *error) {
    return run_drafts(t, t->settings.samples + 1, (decider){DRAW, stw_rng_split(&t->rng, (uint64_t)t->update)}, over, error);
}

stw_status stw_trainer_decide(stw_trainer *t, stw_error *error) {
    bool over = false;
    return run_drafts(t, 1, (decider){.how = GREEDY}, &over, error);
}

stw_status stw_trainer_run_again(stw_trainer *t, stw_error *error) {
    bool over = false;
    return run_drafts(t, t->settings.samples + 1, (decider){.how = AGAIN}, &over, error);
}

stw_status stw_trainer_run_first_again(stw_trainer *t, stw_error *error) {
    return run_first(t, t->settings.samples + 1, &(decider){.how = AGAIN}, error);
}

stw_status stw_trainer_run_batch_again(stw_trainer *t, stw_batch batch, stw_error *error) {
    bool over = false;
    stw_pass_rewind(t->pass);
    return run_batch(t, batch, (decider){.how = AGAIN}, &over, error);
}
