/* Scheduling rules: what sets the priorities once the devices are decided. Any placement combines with any rule. */
#ifndef STW_PLAN_RULES_H
#define STW_PLAN_RULES_H

#include "plan/tasks.h"

typedef enum stw_rule {
    STW_RULE_FIFO,          /* what is ready first runs first */
    STW_RULE_TOPOLOGICAL,   /* what comes first in the graph */
    STW_RULE_UPWARD_RANK,   /* what has most to come after it, transfers of this placement included */
    STW_RULE_CRITICAL_PATH, /* what is on the longest path through the graph */
    STW_RULE_DEPTH_FIRST,   /* what frees most memory or takes least; else what was possible first */
    STW_RULE_COUNT
} stw_rule;

/* "fifo", "topological", "upward-rank", "critical-path", "depth-first" */
extern const char *const stw_rule_name[STW_RULE_COUNT];
bool stw_rule_find(stw_str name, stw_rule *out);

/* Sets the priority of every op, parameter and buffer from plan->device. `tasks`: every op a task of its own (the simulator's
 * `unfused`). Scratch memory is taken from the arena, which may be a copy of anybody's. */
stw_status stw_rule_apply(stw_rule rule, const stw_costs *costs, const stw_tasks *tasks, stw_plan *plan, stw_arena scratch,
                          stw_error *error);

/* The upward rank: time from the start of each task to the end of the step if nothing had to queue, in microseconds. rank: (T)
 * by task. device: (N), or NULL when nothing is placed yet; then means over devices and links stand in. Never rises along an
 * edge. */
void stw_rule_upward_ranks(const stw_costs *costs, const stw_tasks *tasks, const int32_t *device, double *rank);

#endif
