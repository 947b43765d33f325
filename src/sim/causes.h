/* What began after what in a run: who waits for whom, and which transfer brought a value to a device. */
#ifndef STW_SIM_CAUSES_H
#define STW_SIM_CAUSES_H

#include "base/index.h"
#include "sim/sim.h"

typedef struct stw_causes {
    const stw_tasks *tasks;
    const stw_timeline *timeline;
    stw_index arrived;          /* (producer node, destination) -> transfer */
    int32_t *wait_start, *wait; /* (T + 1), the tasks that each task waits for, ascending; repeats possible */
} stw_causes;

/* Of the last run of a workspace, which must stay as it is. */
stw_status stw_causes_build(const stw_workspace *workspace, stw_arena *arena, stw_causes *out, stw_error *error);
/* The transfer of a node's value to a device; -1: none. */
int32_t stw_causes_transfer(const stw_causes *causes, int32_t producer, int32_t device);

#endif
