/* Exploration: noise that units share. A step time says nothing about one unit among thousands; it does about a whole region that
 * was decided differently. So the noise of a unit is that of the graph, of its group and its own. Some samples explore in a few
 * groups alone: near a good plan nearly every change makes it worse, and many at once hide the one that helps. In others, units
 * that look alike explore alike: what is found so can be said in terms of features, and so holds for other graphs. */
#ifndef STW_TRAIN_EXPLORE_H
#define STW_TRAIN_EXPLORE_H

#include "base/rng.h"
#include "train/problem.h"

typedef struct stw_noise_shares {
    double graph, group, unit; /* of the variance; they add up to 1 */
    double sparse;             /* share of the samples that explore in some groups only */
    double alike;              /* share of the samples in which a direction in the space of features takes the group's place */
} stw_noise_shares;

/* feedback: (M, STW_FEEDBACK_COLUMNS), to explore by beside the unit columns; NULL: none. noise: (M, dims), each of mean 0 and
 * variance 1, or 0 where a sample does not explore. The grouping is drawn too. */
stw_status stw_explore(const stw_problem *problem, const stw_noise_shares *shares, stw_rng rng, int32_t dims,
                       const double *feedback, double *noise, stw_arena scratch, stw_error *error);

#endif
