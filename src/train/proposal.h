/* Another plan beside that of the round, drawn anew for each: regions of units on other devices. Knobs alone cannot name a
 * device; a unit that takes this plan's can go anywhere, and the policy learns which regions gain by it. */
#ifndef STW_TRAIN_PROPOSAL_H
#define STW_TRAIN_PROPOSAL_H

#include "base/rng.h"
#include "plan/plan.h"
#include "train/problem.h"

/* device: (N). *grouping: that was drawn. A grouping is drawn, then a device for each of its groups: any, or that of a neighbour
 * of one of its units. Where none is drawn, the device is that of `plan`. */
stw_status stw_propose(const stw_problem *problem, const stw_plan *plan, stw_rng rng, int32_t *device, int32_t *grouping,
                       stw_arena scratch, stw_error *error);

#endif
