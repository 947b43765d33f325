/* Who runs with whom: the tasks (ops and fused groups) that a plan's groups make of a graph. T tasks, ordered by their id, the
 * smallest node id of their written members. */
#ifndef STW_PLAN_MEMBERSHIP_H
#define STW_PLAN_MEMBERSHIP_H

#include "plan/plan.h"

enum { STW_MAX_GROUP_MEMBERS = 64, STW_MAX_GROUP_TENSORS = 96 };

typedef struct stw_membership {
    int32_t T;
    int32_t *task_node;      /* (T) id */
    int32_t *task_of;        /* (N) the task that writes an op; -1 for recomputed ops, views and sources */
    int32_t *member_start;   /* (T + 1) into member */
    int32_t *member;         /* ops that a task computes, recomputed ones included, ascending */
    int32_t *computer_start; /* (N + 1) into computer */
    int32_t *computer;       /* tasks that compute an op, ascending */
} stw_membership;

/* With `group` NULL every op is a task of its own. Illegal groups leave `reason` (a text in the arena) behind, and the
 * membership is not usable; `reason` is empty otherwise. Checks all rules but the size in tensors and the cycles (tasks.h). */
stw_status stw_membership_build(const stw_graph *graph, const stw_machine *machine, const int32_t *group, const int32_t *device,
                                stw_arena *arena, stw_membership *out, stw_str *reason, stw_error *error);

/* Why these groups, which are legal on some devices, are not on others: a text in the arena, or empty. */
stw_str stw_membership_fault(const stw_graph *graph, const stw_machine *machine, const int32_t *group, const int32_t *device,
                             const stw_membership *membership, stw_arena *arena);

/* Only the first step: T, task_of and task_node. */
stw_status stw_membership_number(const stw_graph *graph, const int32_t *group, stw_arena *arena, stw_membership *out,
                                 stw_error *error);

#endif
