/* Moves that are tried in an update, and what is learnt from them: a logistic regression of "is the plan better with it?". Worth
 * more the more it matters; what helps is rarer than what does not, and counts more. */
#include <math.h>
#include <string.h>

#include "sim/complete.h"
#include "train/trainer_state.h"

static const uint64_t TRIALS = UINT64_C(3) << 60; /* of the generator's parts */
static const double ALONE = 0.7;                  /* share of the trials of one move; else some at once */
enum { MOST_AT_ONCE = 4 };
static const double WORTH = 0.001;                                      /* a gain: of the logarithm of the value */
static const double PER_GAIN = 200.0, LEAST_WEIGHT = 0.02, HELPS = 3.0; /* weights: what is off by 0.5 % or more counts in full */

typedef struct {
    stw_trainer *t;
    stw_status *status;
    stw_error *error;
} trials;

stw_status stw_trainer_evaluate_moved(stw_trainer *t, stw_plan *plan, int32_t worker, stw_score *score, stw_error *error) {
    const stw_environment *e = &t->environment;
    stw_plan_join(t->problem->simulator, plan);
    if (e->finish != NULL) TRY(e->finish(e->context, plan, worker, error));
    return e->evaluate(e->context, plan, worker, score, error);
}

static stw_status try_one(trials *r, int64_t k, int32_t worker, stw_error *error) {
    stw_trainer *t = r->t;
    stw_plan *plan = t->plan[k];
    TRY(stw_plan_copy(plan, t->origin, error));
    for (int32_t m = 0; m < t->trial[k].count; m++) stw_moves_apply(t->problem, &t->moves, t->trial[k].move[m], plan);
    return stw_trainer_evaluate_moved(t, plan, worker, &t->trial[k].score, error);
}

static void work(void *context, int64_t k, int32_t worker) {
    trials *r = context;
    r->status[k] = try_one(r, k, worker, &r->error[k]);
}

static void draw(stw_trainer *t, int32_t k, const stw_rng *rngs) {
    stw_rng rng = stw_rng_split(rngs, (uint64_t)k);
    stw_trial *trial = &t->trial[k];
    const bool alone = stw_rng_uniform(&rng) < ALONE;
    trial->count = alone ? 1 : 2 + (int32_t)stw_rng_below(&rng, MOST_AT_ONCE - 1);
    for (int32_t m = 0; m < trial->count; m++) trial->move[m] = (int32_t)stw_rng_below(&rng, t->moves.count);
}

stw_status stw_trainer_try_moves(stw_trainer *t, stw_error *error) {
    const int32_t count = t->settings.moves;
    const stw_rng rngs = stw_rng_split(&t->rng, TRIALS + (uint64_t)t->update);
    stw_arena scratch = t->round_arena;
    trials r = {.t = t};
    t->tried = 0;
    if (count == 0 || t->moves.count == 0 || t->settings.rate <= 0.0) return STW_OK; /* nothing to try, or to learn */
    STW_TRY_NEW(&scratch, r.status, count, error);
    STW_TRY_NEW(&scratch, r.error, count, error);
    for (int32_t k = 0; k < count; k++) draw(t, k, &rngs);
    stw_pool_run(t->environment.pool, count, work, &r);
    int32_t best = 0;
    for (int32_t k = 0; k < count; k++) {
        if (r.status[k] != STW_OK) {
            if (error != NULL) *error = r.error[k];
            return r.status[k];
        }
        if (stw_score_is_better(&t->trial[k].score, &t->trial[best].score)) best = k;
    }
    t->evaluations += count;
    t->tried = count;
    return stw_trainer_keep(t, best, &t->trial[best].score, error);
}

/* d_out: (M, width), added to. Returns the loss. */
double stw_trainer_learn_moves(const stw_trainer *t, double *d_out) {
    double loss = 0.0;
    for (int32_t k = 0; k < t->tried; k++) {
        const stw_trial *trial = &t->trial[k];
        const bool valid = trial->score.reason == STW_VALID && t->reference > 0.0;
        const double gain = valid ? log(t->reference / trial->score.value) : -1.0;
        const double weight = (fmin(1.0, PER_GAIN * fabs(gain - WORTH)) + LEAST_WEIGHT) * (gain > WORTH ? HELPS : 1.0) / t->tried;
        double z = 0.0;
        for (int32_t m = 0; m < trial->count; m++) z += stw_moves_score(&t->moves, trial->move[m], t->means, t->P) / trial->count;
        const double p = 1.0 / (1.0 + exp(-z)), wanted = gain > WORTH ? 1.0 : 0.0;
        loss -= weight * log(fmax(1e-12, gain > WORTH ? p : 1.0 - p));
        for (int32_t m = 0; m < trial->count; m++) {
            const int32_t first = t->moves.start[trial->move[m]], end = t->moves.start[trial->move[m] + 1];
            const double slope = weight * (p - wanted) / trial->count / (end - first);
            for (int32_t i = first; i < end; i++) d_out[(int64_t)t->moves.unit[i] * t->P + STW_MOVE_KNOB] += slope;
        }
    }
    return loss;
}
