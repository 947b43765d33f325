#include "method/anneal/learn.h"

#include <math.h>
#include <string.h>

enum { HIDDEN = STW_SCORER_HIDDEN, LEARNT = STW_LEARNT };

static const double MOST_WORTH = 30.0; /* as in training */

void stw_learner_begin(stw_learner *l, const stw_scorer *from, double rate) {
    *l = (stw_learner){.from = from, .now = *from};
    for (int k = 0; k < LEARNT; k++) l->spread[k][k] = rate;
}

void stw_trial_of(const stw_scorer *from, const float *feature, double gain, stw_trial *out) {
    (void)stw_scorer_score(from, feature, out->hidden);
    for (int k = 0; k < HIDDEN; k++) out->hidden[k] *= out->hidden[k] > 0.0f ? 1.0f : stw_scorer_slope;
    out->gain = (float)gain;
}

/* ---- one trial ---- */

static double trained_score(const stw_scorer *s, const stw_trial *t) {
    double score = (double)s->weight[STW_SCORER_OUT_BIAS];
    for (int k = 0; k < HIDDEN; k++) score += (double)t->hidden[k] * (double)s->weight[STW_SCORER_OUT + k];
    return score;
}

/* The bias is left out: it says nothing of one move against another. */
static double added_score(const stw_learner *l, const stw_trial *t) {
    double added = 0.0;
    for (int k = 0; k < HIDDEN; k++) added += (double)t->hidden[k] * l->change[k];
    return added;
}

static void compare(stw_learner *l, double added, double worth) {
    static const double KEPT = 1.0 - 1.0 / 512;
    if (l->tries > 1.0) {
        l->agreement = KEPT * l->agreement + (added - l->last_added) * (worth - l->last_worth);
        l->pairs++;
    }
    l->last_added = added;
    l->last_worth = worth;
}

/* A step of Newton's method on the loss of this trial alone, the curvature being that of all trials so far. */
static void step(stw_learner *l, const stw_trial *t, double score, double worth) {
    const double odds = 1.0 / (1.0 + exp(-score));
    const double slope = (1.0 + worth) * odds - worth, curve = (1.0 + worth) * odds * (1.0 - odds);
    double input[LEARNT], along[LEARNT], length = 0.0;
    for (int k = 0; k < HIDDEN; k++) input[k] = (double)t->hidden[k];
    input[HIDDEN] = 1.0;
    for (int i = 0; i < LEARNT; i++) {
        along[i] = 0.0;
        for (int k = 0; k < LEARNT; k++) along[i] += l->spread[i][k] * input[k];
        length += along[i] * input[i];
    }
    const double share = 1.0 / (1.0 + curve * length);
    for (int i = 0; i < LEARNT; i++) {
        l->change[i] -= share * slope * along[i];
        for (int k = 0; k < LEARNT; k++) l->spread[i][k] -= share * curve * along[i] * along[k];
    }
}

static void take(stw_learner *l, const stw_trial *t) {
    l->tries++;
    l->gain += (double)t->gain;
    const double worth = l->gain > 0.0 ? fmin((double)t->gain * l->tries / l->gain, MOST_WORTH) : 0.0;
    const double added = added_score(l, t);
    compare(l, added, worth);
    step(l, t, trained_score(l->from, t) + added + l->change[HIDDEN], worth);
}

void stw_learner_take(stw_learner *l, const stw_trial *trial, int64_t count) {
    for (int64_t k = 0; k < count; k++) take(l, &trial[k]);
}

/* ---- what serves ---- */

bool stw_learner_serves(const stw_learner *l) {
    enum { ENOUGH = 32 };
    return l->pairs < ENOUGH || l->agreement >= 0.0;
}

void stw_learner_settle(stw_learner *l) {
    const bool serves = stw_learner_serves(l);
    for (int k = 0; k < LEARNT; k++) {
        const float trained = l->from->weight[STW_SCORER_OUT + k];
        l->now.weight[STW_SCORER_OUT + k] = serves ? (float)((double)trained + l->change[k]) : trained;
    }
}
