/* Learning a scorer from moves that were tried: what a move may be expected to gain, by a network of one hidden layer. Each
 * counts once as a move that did not help, and by what it gained as one that did: so odds become expected gain, however often
 * moves of its kind help, and no gain is too large for a step of the fit. */
#ifndef STW_PRETRAIN_SCORER_FIT_H
#define STW_PRETRAIN_SCORER_FIT_H

#include "method/anneal/scorer.h"

typedef struct stw_example { /* a move that was tried */
    float feature[STW_MOVE_FEATURES];
    float gain;  /* as a share of the plan; 0: none */
    float worth; /* stw_examples_weigh */
} stw_example;

/* The examples of one problem: what they are worth are their gains over the mean of all of them, since problems differ in what
 * there is to gain, at most 30. */
void stw_examples_weigh(stw_example *example, int64_t count);
/* The loss of some examples, added up; adds its gradient by the weights of the network. */
double stw_scorer_learn(const stw_scorer *scorer, const stw_example *const *example, int64_t count,
                        float gradient[STW_SCORER_WEIGHTS]);
typedef struct stw_scorer_course {
    int32_t epochs;
    double rate; /* the highest; 0: the scorer stays as it is made, but that columns are made alike */
    stw_rng rng;
} stw_scorer_course;

/* A new scorer that goes by these examples: Adam over all of them in random order, again and again. Returns the mean loss of the
 * last time. order: (count) scratch. */
double stw_scorer_fit(const stw_example *example, int64_t count, const stw_scorer_course *course, const stw_example **order,
                      stw_scorer *out);
/* Of a move that helped and one that did not, how often the first has the higher score; NAN where one of them is missing.
 * score: (count) scratch. */
double stw_scorer_auc(const stw_scorer *scorer, const stw_example *example, int64_t count, float *score);

#endif
