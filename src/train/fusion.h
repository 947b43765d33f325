/* Fusion priorities that a round or a search begins with: those of the rule `default` for a plan, so that decisions of 0 mean the
 * rule. */
#ifndef STW_TRAIN_FUSION_H
#define STW_TRAIN_FUSION_H

#include "plan/fuse.h"
#include "plan/plan.h"
#include "sim/sim.h"

/* priority: (N). `rule`: (N) those that the rule tells (plan/fuse.h), for all ops on one device, or for the plan's devices where
 * these stay. What it merges gets places in (0, 1], the first merge 1; what it could merge at a loss [-1, 0), the dearest -1;
 * both evenly, so that a decision of a given size turns the least certain ones first. A plan (or NULL) that has groups changes
 * the signs: above 0 what is merged in it. What only another device keeps from merging has the place of the rule. */
stw_status stw_fusion_begin(const stw_simulator *simulator, const double *rule, const stw_plan *plan, double *priority,
                            stw_arena scratch, stw_error *error);

#endif
