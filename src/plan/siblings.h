/* Kernels with several outputs: groups that read the same values, or of which one reads the other's output, become one where that
 * saves by the cost of groups. For graphs whose flow is known (graph.h) alone: all that is computed in one kernel must come from
 * one loop, over as many elements. The groups stay convex. */
#ifndef STW_PLAN_SIBLINGS_H
#define STW_PLAN_SIBLINGS_H

#include "plan/membership.h"

/* `group`, (N) as plans have it, is legal and stays so; `device`, (N). */
stw_status stw_siblings_join(const stw_costs *costs, const int32_t *device, int32_t *group, stw_error *error);

#endif
