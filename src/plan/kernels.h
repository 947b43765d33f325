/* Kernels that siblings.c joins: what each is like, whether one loop can compute two of them, and what that saves. */
#ifndef STW_PLAN_KERNELS_H
#define STW_PLAN_KERNELS_H

#include "plan/membership.h"

enum { STW_KERNEL_USES = 4096 }; /* most that a kernel reads: values, each through each of its views */

typedef struct stw_kernel {
    const int32_t *member; /* (count) ascending */
    int32_t count;
    int32_t first, last; /* written members */
    int32_t version;     /* how often it has been joined */
    bool joins;          /* it is of a kind that may */
    double loop;         /* elements that its loop goes over */
    double folded;       /* results of its reductions; 0: it has none */
    int64_t row;         /* of its reductions: the rows' length; 0: columns are reduced */
    int32_t folds;       /* how many reductions it ends with */
    double us;
} stw_kernel;

typedef struct stw_kernels {
    const stw_costs *costs;
    const stw_graph *graph;
    const int32_t *device;
    stw_membership m;
    stw_kernel *kernel;   /* (T) */
    int32_t *into;        /* (T) the task that a task was joined to, or itself (base/union_find.h) */
    int32_t *mark, round; /* (N) members of the kernel that is looked at */
    stw_use use[STW_KERNEL_USES];
    stw_kernel_room room;
} stw_kernels;

/* A kernel per task of these groups; `group` and `device`, (N) as plans have them. */
stw_status stw_kernels_build(const stw_costs *costs, const int32_t *device, const int32_t *group, stw_arena *arena,
                             stw_kernels *out, stw_error *error);
/* The op is written, not computed again, by the kernel of a task. */
bool stw_kernels_write(stw_kernels *kernels, int32_t task, int32_t op);
/* What the kernels of two tasks save as one; 0 or less: nothing, or they cannot be one. Other kernels are not looked at. */
double stw_kernels_saving(stw_kernels *kernels, int32_t a, int32_t b);
/* The kernel of `b` becomes a part of that of `a`, which saves that much. */
stw_status stw_kernels_join(stw_kernels *kernels, int32_t a, int32_t b, double saved, stw_arena *arena, stw_error *error);

#endif
