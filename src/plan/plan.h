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

/* Refuses entries that no simulation could make sense of: devices out of range, priorities that are no numbers, groups below
 * -1. Legality proper is the simulator's business. */
stw_status stw_plan_check(const stw_plan *plan, stw_error *error);
/* True if every op is written by a group of its own. `seen`: (N) zeroed, left dirty. */
bool stw_plan_is_unfused(const stw_plan *plan, int32_t *seen);

#endif
