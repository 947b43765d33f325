/* What a group of ops costs as one kernel: its external bytes by class, on top of cost/cost.h. Members ascend. */
#ifndef STW_PLAN_GROUP_COST_H
#define STW_PLAN_GROUP_COST_H

#include "cost/cost.h"

typedef struct stw_group_members {
    const stw_graph *graph;
    const int32_t *member; /* (count) */
    int32_t count;
    const double *passes; /* (count), or NULL: 1 each */
} stw_group_members;

/* How often the kernel computes each member's output, 1 being each element once: fewer where others read only a part of it, more
 * where a larger output takes each element several times. `passes`: (count) room; unused where the graph has no flow. */
void stw_group_find_passes(stw_group_members *group, double *passes);
/* The members' times and arithmetic. Returns what is computed again, in microseconds: it adds to the kernel's time, since traffic
 * does not hide it. */
double stw_group_work_members(stw_group_work *work, const stw_group_members *group, const stw_costs *costs, int32_t cost_class);

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
