/* Samples -> plans -> scores, on all threads. */
#include <stdatomic.h>

#include "train/trainer_state.h"

typedef struct {
    stw_trainer *t;
    stw_actions actions;
    stw_status *status;
    stw_error *error;
    atomic_bool stopped;
} rollout;

static stw_status decode_and_evaluate(rollout *r, int64_t k, int32_t worker) {
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
    TRY(stw_decode(t->problem, &t->round, &decisions, &maker, t->plan[k], t->environment.scratch[worker], &r->error[k]));
    if (t->environment.finish != NULL) TRY(t->environment.finish(t->environment.context, t->plan[k], worker, &r->error[k]));
    return t->environment.evaluate(t->environment.context, t->plan[k], worker, &t->score[k], &r->error[k]);
}

static void work(void *context, int64_t k, int32_t worker) {
    rollout *r = context;
    if (stw_trainer_may_stop(r->t)) atomic_store(&r->stopped, true);
    if (atomic_load(&r->stopped)) return;
    r->status[k] = decode_and_evaluate(r, k, worker);
}

stw_status stw_trainer_rollout(stw_trainer *t, const stw_actions *actions, int32_t count, bool *complete, stw_error *error) {
    stw_arena scratch = t->round_arena;
    rollout r = {.t = t, .actions = *actions};
    STW_TRY_NEW(&scratch, r.status, count, error);
    STW_TRY_NEW(&scratch, r.error, count, error);
    stw_pool_run(t->environment.pool, count, work, &r);
    for (int32_t k = 0; k < count; k++) {
        if (r.status[k] == STW_OK) continue;
        if (error != NULL) *error = r.error[k];
        return r.status[k];
    }
    *complete = !atomic_load(&r.stopped);
    if (*complete) t->evaluations += count;
    return STW_OK;
}
