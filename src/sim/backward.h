/* Priorities from a step that is run backwards.
 *
 * With the devices fixed, the same machine runs the graph with every arrow turned round: an op can run when all its readers have,
 * a transfer when all readers of the copy have. When an op then ends tells how much must follow it in the forward direction, the
 * queues on devices and channels included; the upward rank knows only the longest path. (Known in project scheduling as
 * forward-backward improvement.) */
#ifndef STW_SIM_BACKWARD_H
#define STW_SIM_BACKWARD_H

#include "sim/sim.h"

/* Sets plan->priority of ops, parameters and buffers. start_ps: (T) when each op began in a forward run of this plan: what began
 * last runs first backwards. Groups are ignored: every op is a task of its own. */
stw_status stw_backward_priorities(const stw_simulator *simulator, stw_plan *plan, const int64_t *start_ps, stw_arena scratch,
                                   stw_error *error);

#endif
