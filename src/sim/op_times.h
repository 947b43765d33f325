/* When each op ran, whatever groups it was in. */
#ifndef STW_SIM_OP_TIMES_H
#define STW_SIM_OP_TIMES_H

#include "sim/sim.h"

/* Of the last run; arrays by the simulator's `unfused` tasks. An op alone has the times of its task. The ops of a group share out
 * the time of theirs, one after the other in topological order, by what they would take alone. A recomputed op counts for the
 * first of the tasks that compute it. task: the task of the run; -1 (times 0): computed nowhere. So no op starts before one that
 * it reads has ended, and times add up along a path within a group. */
stw_status stw_op_times(const stw_workspace *workspace, int64_t *start_ps, int64_t *end_ps, int32_t *task, stw_arena scratch,
                        stw_error *error);

#endif
