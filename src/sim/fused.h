/* The problem whose ops are the groups of another: whatever decides about ops can decide about groups, each as one.
 *
 * Groups have one output each (plan/merge.h makes no others), so a group becomes the op that it is read by; values inside and
 * their views are gone. Groups that recompute the same op must be on one device. */
#ifndef STW_SIM_FUSED_H
#define STW_SIM_FUSED_H

#include "sim/sim.h"

typedef struct stw_fused {
    const stw_simulator *outer; /* the problem itself */
    stw_graph *graph;           /* of groups, n nodes */
    stw_costs *costs;
    stw_simulator *simulator;
    stw_arena arena;
    int32_t *group;   /* (N) as plans have it */
    int32_t *node_of; /* (N) the node of `graph` that stands for a node; of a recomputed op, the first group that computes it */
    int32_t *root_of; /* (n) the node of the outer graph that is seen from outside */
    int32_t *task_id; /* (n) of groups: what orders call them, the smallest written member */
} stw_fused;

/* The groups must be legal on one device, `device`. */
stw_status stw_fused_create(const stw_simulator *outer, const int32_t *group, int32_t device, stw_fused **out, stw_error *error);
void stw_fused_destroy(stw_fused *fused);

/* A plan of the groups as one of the ops. */
stw_status stw_fused_expand(const stw_fused *fused, const stw_plan *of_groups, stw_plan *of_ops, stw_error *error);
/* The reverse, for initial plans: each group is where its output is. Orders are left out. */
void stw_fused_reduce(const stw_fused *fused, const stw_plan *of_ops, stw_plan *of_groups);

#endif
