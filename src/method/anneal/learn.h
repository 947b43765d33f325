/* A scorer that learns on from what a search tries on the graph at hand: its last layer, each trial once, in the order in which
 * chains meet. What training wants is wanted here as well: that a score's odds are the gain to be expected, over the mean. */
#ifndef STW_METHOD_ANNEAL_LEARN_H
#define STW_METHOD_ANNEAL_LEARN_H

#include "method/anneal/scorer.h"

#define STW_LEARNER_RATE 0.05                /* what was trained counts as much as some twenty trials */
enum { STW_LEARNT = STW_SCORER_HIDDEN + 1 }; /* weights of the last layer, and the bias */

typedef struct stw_trial {           /* a move that was tried */
    float hidden[STW_SCORER_HIDDEN]; /* what the last layer had of it: after the slope */
    float gain;                      /* as a share of the plan; 0: none */
} stw_trial;

typedef struct stw_learner {
    const stw_scorer *from;                /* as it was trained */
    stw_scorer now;                        /* what serves, as of the last time that it was settled */
    double change[STW_LEARNT];             /* of its last layer */
    double spread[STW_LEARNT][STW_LEARNT]; /* how sure that is: the inverse of the curvature of all losses so far */
    double tries, gain;                    /* trials so far, and what they gained */
    /* Whether changed scores are better ones: of two trials in a row, the difference of what was added to their scores times that
     * of what they were worth, added up. */
    double agreement, pairs;
    double last_added, last_worth;
} stw_learner;

/* rate: the variance that a weight may have about the trained one before anything was tried, above 0. */
void stw_learner_begin(stw_learner *learner, const stw_scorer *from, double rate);
/* Of a move with these features. */
void stw_trial_of(const stw_scorer *from, const float *feature, double gain, stw_trial *out);
void stw_learner_take(stw_learner *learner, const stw_trial *trial, int64_t count);
/* False: what was learnt has pointed the wrong way so far, and the scorer serves as it was trained. */
bool stw_learner_serves(const stw_learner *learner);
/* Makes `now` what serves. */
void stw_learner_settle(stw_learner *learner);

#endif
