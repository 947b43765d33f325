/* What the methods of other people have in common: the unit in which their plans cost, and an end before anything was learnt. */
#ifndef STW_BASELINE_RIVAL_H
#define STW_BASELINE_RIVAL_H

#include "search/search.h"

/* What everything on the fastest device is worth, whether it fits or not: the unit in which plans cost. Leaves that plan. */
stw_status stw_rival_measure_single(stw_search *search, stw_plan *plan, double *out, stw_error *error);
/* When the budget ended before a first plan: says so of that plan, and makes it fit. */
stw_status stw_rival_end_early(stw_search *search, stw_plan *plan, stw_error *error);

#endif
