/* method/anneal/learn: the sums against plain ones, a rule that can be learnt, what is turned off when it points the wrong way.
 */
#include "method/anneal/learn.h"

#include <math.h>
#include <string.h>

#include "test.h"

enum { HIDDEN = STW_SCORER_HIDDEN, LEARNT = STW_LEARNT };

static stw_scorer example_scorer(uint64_t seed) {
    const stw_rng rng = stw_rng_create(seed);
    stw_scorer s;
    stw_scorer_begin(&s, &rng);
    s.weight[STW_SCORER_OUT_BIAS] = -0.4f;
    return s;
}

static stw_trial drawn(stw_rng *rng) {
    stw_trial t = {0};
    for (int k = 0; k < HIDDEN; k++) t.hidden[k] = (float)stw_rng_normal(rng);
    t.gain = stw_rng_uniform(rng) < 0.2 ? (float)(1e-3 * stw_rng_uniform(rng)) : 0.0f;
    return t;
}

/* ---- the sums ---- */

/* Solves curvature x = right by elimination; the curvature is positive definite. */
static void solve(double curvature[LEARNT][LEARNT], const double right[LEARNT], double x[LEARNT]) {
    double a[LEARNT][LEARNT];
    memcpy(a, curvature, sizeof a);
    memcpy(x, right, LEARNT * sizeof *x);
    for (int i = 0; i < LEARNT; i++) {
        for (int j = i + 1; j < LEARNT; j++) {
            const double by = a[j][i] / a[i][i];
            for (int k = i; k < LEARNT; k++) a[j][k] -= by * a[i][k];
            x[j] -= by * x[i];
        }
    }
    for (int i = LEARNT - 1; i >= 0; i--) {
        for (int k = i + 1; k < LEARNT; k++) x[i] -= a[i][k] * x[k];
        x[i] /= a[i][i];
    }
}

typedef struct {
    double curvature[LEARNT][LEARNT], change[LEARNT], tries, gain;
} plain;

/* Newton's method with the curvature written out: that of all losses so far, and of what holds the weights where they were. */
static void plain_take(plain *p, const stw_scorer *from, const stw_trial *t) {
    double input[LEARNT], right[LEARNT], by[LEARNT], score = 0.0;
    for (int k = 0; k < LEARNT; k++) {
        input[k] = k < HIDDEN ? (double)t->hidden[k] : 1.0;
        score += input[k] * ((double)from->weight[STW_SCORER_OUT + k] + p->change[k]);
    }
    p->tries++;
    p->gain += (double)t->gain;
    const double worth = p->gain > 0.0 ? fmin(30.0, (double)t->gain / (p->gain / p->tries)) : 0.0,
                 odds = 1.0 / (1.0 + exp(-score));
    for (int i = 0; i < LEARNT; i++) {
        right[i] = ((1.0 + worth) * odds - worth) * input[i];
        for (int k = 0; k < LEARNT; k++) p->curvature[i][k] += (1.0 + worth) * odds * (1.0 - odds) * input[i] * input[k];
    }
    solve(p->curvature, right, by);
    for (int k = 0; k < LEARNT; k++) p->change[k] -= by[k];
}

TEST(learn, steps_are_those_of_newton_written_out) {
    const stw_scorer from = example_scorer(3);
    stw_rng rng = stw_rng_create(4);
    stw_learner learner;
    plain p = {0};
    stw_learner_begin(&learner, &from, STW_LEARNER_RATE);
    for (int k = 0; k < LEARNT; k++) p.curvature[k][k] = 1.0 / learner.spread[k][k];
    for (int n = 0; n < 200; n++) {
        const stw_trial t = drawn(&rng);
        plain_take(&p, &from, &t);
        stw_learner_take(&learner, &t, 1);
    }
    for (int k = 0; k < LEARNT; k++) CHECK_NEAR(learner.change[k], p.change[k], 1e-9 + 1e-8 * fabs(p.change[k]));
}

TEST(learn, a_trial_has_what_the_last_layer_has) {
    const stw_scorer from = example_scorer(5);
    stw_rng rng = stw_rng_create(6);
    float feature[STW_MOVE_FEATURES];
    stw_trial t;
    for (int c = 0; c < STW_MOVE_FEATURES; c++) feature[c] = (float)stw_rng_normal(&rng);
    stw_trial_of(&from, feature, 0.25, &t);
    double score = (double)from.weight[STW_SCORER_OUT_BIAS];
    for (int k = 0; k < HIDDEN; k++) score += (double)t.hidden[k] * (double)from.weight[STW_SCORER_OUT + k];
    CHECK_NEAR(score, (double)stw_scorer_score(&from, feature, NULL), 1e-4);
    CHECK_NEAR((double)t.gain, 0.25, 0.0);
}

/* ---- what is learnt ---- */

/* The first weight in which they differ; STW_SCORER_WEIGHTS: none. */
static int first_change(const stw_scorer *a, const stw_scorer *b) {
    int k = 0;
    while (k < STW_SCORER_WEIGHTS && !(a->weight[k] < b->weight[k]) && !(a->weight[k] > b->weight[k])) k++;
    return k;
}

/* Trials in which what is hidden at `at` decides whether there is something to gain. */
static void teach(stw_learner *learner, stw_rng *rng, int at, int count) {
    for (int n = 0; n < count; n++) {
        stw_trial t = drawn(rng);
        t.gain = t.hidden[at] > 1.0f ? 1e-3f : 0.0f;
        stw_learner_take(learner, &t, 1);
    }
}

/* Of trials by that rule, how often one that gains has a higher score than one that does not. */
static double ranked(const stw_scorer *s, stw_rng *rng, int at) {
    double right = 0.0;
    enum { PAIRS = 2000 };
    for (int n = 0; n < PAIRS; n++) {
        stw_trial t[2];
        double score[2] = {0};
        do t[0] = drawn(rng);
        while (t[0].hidden[at] <= 1.0f);
        do t[1] = drawn(rng);
        while (t[1].hidden[at] > 1.0f);
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < HIDDEN; k++) score[i] += (double)t[i].hidden[k] * (double)s->weight[STW_SCORER_OUT + k];
        }
        right += score[0] > score[1];
    }
    return right / PAIRS;
}

TEST(learn, a_rule_of_the_graph_at_hand) {
    const stw_scorer from = example_scorer(7);
    stw_rng rng = stw_rng_create(8);
    stw_learner learner;
    stw_learner_begin(&learner, &from, STW_LEARNER_RATE);
    stw_learner_settle(&learner);
    CHECK_EQ_INT(first_change(&learner.now, &from), STW_SCORER_WEIGHTS); /* before anything was tried */
    teach(&learner, &rng, 2, 300);
    CHECK(stw_learner_serves(&learner));
    stw_learner_settle(&learner);
    CHECK(ranked(&learner.now, &rng, 2) > 0.9);
    CHECK(ranked(&from, &rng, 2) < 0.8);
    CHECK_EQ_INT(first_change(&learner.now, &from), STW_SCORER_OUT); /* the last layer alone */
}

TEST(learn, what_points_the_wrong_way_is_left_out) {
    const stw_scorer from = example_scorer(9);
    stw_rng rng = stw_rng_create(10);
    stw_learner learner;
    stw_learner_begin(&learner, &from, STW_LEARNER_RATE);
    memset(learner.spread, 0, sizeof learner.spread); /* it learns nothing */
    learner.change[2] = -1.0;                         /* and what it has learnt is wrong */
    teach(&learner, &rng, 2, 30);
    CHECK(stw_learner_serves(&learner)); /* too few to say */
    teach(&learner, &rng, 2, 60);
    CHECK(!stw_learner_serves(&learner));
    stw_learner_settle(&learner);
    CHECK_EQ_INT(first_change(&learner.now, &from), STW_SCORER_WEIGHTS);
    for (int k = 0; k < LEARNT; k++) learner.spread[k][k] = STW_LEARNER_RATE;
    teach(&learner, &rng, 2, 2000);
    CHECK(stw_learner_serves(&learner));
}
