/* Every plan of a problem so small that all of them can be tried. Strict orders out of all linear orders of the tasks include
 * every schedule that is worth a thought. */
#ifndef STW_TEST_EVERY_PLAN_H
#define STW_TEST_EVERY_PLAN_H

#include "support/small.h"

enum { EVERY_PLAN_MOST = 6 }; /* nodes */

/* Makes room for orders in the plan; to be called once. */
void every_plan_begin(small *s);

/* The next placement of the ops; false after the last, when all are on device 0 again. */
bool next_placement(stw_plan *plan);

/* The best step over all placements and orders, with the groups of the plan; INT64_MAX if these are illegal on any. */
int64_t best_plan(small *s, stw_arena scratch);

#endif
