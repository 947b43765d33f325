/* Fusion priorities that a round or a search begins with: those of the rule `default` for a plan, so that decisions of 0 mean the
 * rule. */
#ifndef STW_TRAIN_FUSION_H
#define STW_TRAIN_FUSION_H

#include "plan/fuse.h"
#include "plan/plan.h"
#include "sim/sim.h"

/* priority: (N). What the rule merges has places in (0, 1], the first merge 1; what it could merge at a loss [-1, 0), the dearest
 * -1; both evenly, so that a decision of a given size turns the least certain ones first. A plan (NULL: all on one device) that
 * has groups changes the signs: above 0 what is merged in it. Where placement is open, what only another device keeps from
 * merging has the place that it would have on one device. */
stw_status stw_fusion_begin(const stw_simulator *simulator, bool places, stw_fuser *fuser, const stw_plan *plan, double *priority,
                            stw_arena scratch, stw_error *error);

#endif
