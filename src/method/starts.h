/* Plans to begin with: those that the search was given, else the best of the constructive methods. */
#ifndef STW_METHOD_STARTS_H
#define STW_METHOD_STARTS_H

#include "method/method.h"

enum { STW_MAX_STARTS = 16 };

typedef struct stw_starts {
    int32_t count;                        /* at least 1 */
    const stw_plan *plan[STW_MAX_STARTS]; /* best first */
    stw_plan *owned[STW_MAX_STARTS];
    stw_score score[STW_MAX_STARTS]; /* of the owned ones */
} stw_starts;

/* Where none are given, runs the constructive methods that serve the objective within `share` of what is left of the budget. */
stw_status stw_starts_open(stw_search *search, double share, stw_starts *out, stw_error *error);
void stw_starts_close(stw_starts *starts);

/* True for the constructive methods that are worth trying for this objective and decide no more than the tasks. */
bool stw_method_serves(const stw_method *method, stw_objective objective, unsigned tasks);

#endif
