/* The critical path of a run: what the step time is made of. */
#ifndef STW_SIM_CRITICAL_H
#define STW_SIM_CRITICAL_H

#include "sim/sim.h"

/* Walks back from the task that ends last: each task begins when the device has finished the one before, when an input arrives,
 * or when something it waits for ends; a transfer begins when its producer ends or its channel comes free. Writes the tasks on
 * that way, last first, at most `room` of them, and their number. Needs the timeline of a run that has just ended. With strict
 * orders the way may end early (an op behind one that takes no time). */
stw_status stw_critical_path(const stw_workspace *workspace, int32_t *task, int32_t room, int32_t *count, stw_arena scratch,
                             stw_error *error);

#endif
