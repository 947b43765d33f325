/* Initial plans: those that the search was given, else what other methods make. */
#ifndef STW_METHOD_STARTS_H
#define STW_METHOD_STARTS_H

#include "method/method.h"

enum { STW_MAX_STARTS = 16 };

typedef struct stw_starts {
    int32_t count;                        /* may be 0 */
    const stw_plan *plan[STW_MAX_STARTS]; /* best first */
    stw_plan *owned[STW_MAX_STARTS];
    stw_score score[STW_MAX_STARTS]; /* of the owned ones */
} stw_starts;

/* Where none are given, runs methods within `share` of what is left of the budget: those that are named, or with NULL all that
 * serve the objective. With hardly any evaluations left none are made. */
stw_status stw_starts_open(stw_search *search, const stw_method *const *methods, int32_t count, double share, stw_starts *out,
                           stw_error *error);
void stw_starts_close(stw_starts *starts);

/* For a method that decides placements, when placement is not to be decided: the best initial plan as it is, else `single`. */
stw_status stw_starts_keep_placement(stw_search *search, stw_plan *plan, stw_error *error);

/* True for the constructive methods that choose devices: without that task the placement of a start takes their place. */
bool stw_method_decides_placement(const stw_method *method);
/* The cheapest of them that makes good plans for this objective. */
const stw_method *stw_method_for(stw_objective objective);
/* True for the constructive methods that are worth trying for this objective and decide no more than the tasks. */
bool stw_method_serves(const stw_method *method, stw_objective objective, unsigned tasks);

#endif
