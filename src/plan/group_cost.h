/* What a group of ops costs as one kernel: its external bytes by class, on top of cost/cost.h. Members ascend. */
#ifndef STW_PLAN_GROUP_COST_H
#define STW_PLAN_GROUP_COST_H

#include "cost/cost.h"

typedef struct stw_group_members {
    const stw_graph *graph;
    const int32_t *member; /* (count) */
    int32_t count;
} stw_group_members;

/* Where the graph says how ops walk their tensors (graph->flow): what a group takes as one kernel; two members or more. */
double stw_group_kernel_us(const stw_costs *costs, int32_t cost_class, const stw_members *members, const stw_kernel_room *room);

/* The rest is for graphs that do not say it: each member is computed once, and what is read is read whole. */

/* The members' times and arithmetic. */
void stw_group_work_members(stw_group_work *work, const stw_group_members *group, const stw_costs *costs, int32_t cost_class);

/* A value that members read from outside, through these distinct uses; it is read once. */
void stw_group_work_read(stw_group_work *work, const stw_group_members *group, int32_t value, const stw_use *use, int64_t uses);
/* The same by who knows the class already: that of the first member which reads it and is no alias, else of the first that is
 * none. */
void stw_group_work_read_as(stw_group_work *work, const stw_group_members *group, stw_op_class reading, int32_t value,
                            const stw_use *use, int64_t uses);
/* A member's output that is used outside, or that updates a parameter. */
void stw_group_work_write(stw_group_work *work, const stw_group_members *group, int32_t op);

/* Sorts by node, then view, and drops repeats; returns how many are left. Allocates nothing. */
int32_t stw_sort_uses(stw_use *use, int32_t count);

#endif
