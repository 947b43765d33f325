/* The plan: the decisions, one entry per node (docs/formats/plan.md gives the file format). */
#ifndef STW_PLAN_PLAN_H
#define STW_PLAN_PLAN_H

#include "cost/cost.h"

struct stw_plan {
    stw_arena arena;
    const stw_graph *graph;
    const stw_machine *machine;
    stw_machine *owned_machine; /* when the machine came with the plan file, else NULL */
    int32_t *device;            /* (N) */
    double *priority;           /* (N) */
    int32_t *group;             /* (N) -1: recomputed; ignored for views and sources */
    int32_t **order;            /* (D) task ids, or NULL: free */
    int32_t *order_count;       /* (D) */
    stw_str method;             /* what made it, or empty */
    int64_t seed;
    stw_str remark;             /* a warning of the reader, or empty */
};

/* Views take their root's device; inputs and constants too (they have their own). */
void stw_plan_follow_roots(stw_plan *plan);
/* True if no op shares a group and none is recomputed: then a task is simply an op. */
bool stw_plan_is_unfused(const stw_plan *plan, int32_t *scratch_seen);

#endif
