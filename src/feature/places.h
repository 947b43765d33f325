/* Where each op stands in the graph, whatever the plan: longest paths, depth, what the loss needs. Private to feature/. */
#ifndef STW_FEATURE_PLACES_H
#define STW_FEATURE_PLACES_H

#include "feature/feature.h"

typedef struct stw_places {  /* (T) by task */
    double work_us, path_us; /* all times on the fastest classes; the longest path of them */
    double *top, *bottom;    /* longest path before it; from its start to the end, itself included: microseconds */
    double *rank;            /* bottom with transfers over the mean link, times the chance that there is one */
    double rank_most;
    double *level;   /* share of the weight at smaller depth, 0 to 1 */
    double *forward; /* 1: the loss depends on it; 0.5: no loss is named */
    double *update;  /* 1: it updates a parameter or buffer */
    double *trace;   /* place in the order of the file, 0 to 1 */
} stw_places;

/* Fills weight and stand_in of the features, which the means over units need. */
stw_status stw_places_weigh(stw_features *features, stw_arena *arena, stw_error *error);
stw_status stw_places_build(const stw_features *features, stw_arena *arena, stw_places *out, stw_error *error);

/* The mean of a number per task over the members of a unit, by weight. */
double stw_unit_mean(const stw_features *features, int32_t unit, const double *by_task);

#endif
