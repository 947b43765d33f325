/* Rehearsals: of a large graph the budget allows few plans, and which variant of a method is good depends on the graph. So all of
 * them are tried on its beginning first, and the best one there is the first on the whole. */
#ifndef STW_METHOD_REHEARSE_H
#define STW_METHOD_REHEARSE_H

#include "method/method.h"

/* By the number of ops and what is left of the budget in evaluations: never by the clock. */
bool stw_method_rehearses(const stw_method *method, const stw_search *search);
/* Sets search->first_variant. Its plans count as evaluations. */
stw_status stw_rehearse(const stw_method *method, stw_search *search, stw_error *error);

#endif
