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
    int32_t *order_room;        /* (D) entries that fit into order_memory */
    int32_t **order_memory;     /* (D) kept when an order is taken away, so that setting orders again and again needs no more */
    stw_str method;             /* what made it, or empty */
    int64_t seed;
    stw_str warning; /* of the reader of the file, or empty */
};

/* Numbers each group by its smallest written op, so that an op alone is in the group of its own id. */
stw_status stw_plan_canonical_groups(stw_plan *plan, stw_error *error);
/* Some device has a strict order. */
bool stw_plan_has_orders(const stw_plan *plan);
/* No device has one any more. */
void stw_plan_remove_orders(stw_plan *plan);
/* Devices, priorities, groups and orders of one plan into another of the same graph and machine. */
stw_status stw_plan_assign(stw_plan *to, const stw_plan *from, stw_error *error);

#endif
