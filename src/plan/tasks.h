/* What the simulator runs: tasks (ops and fused groups) and the values that pass between them.
 *
 * A value is a tensor that exists in memory: a source, or an op's output that is visible outside its task. A use is one task
 * reading one value, whole or through one view. T tasks by ascending id, V values by ascending node id, U uses. */
#ifndef STW_PLAN_TASKS_H
#define STW_PLAN_TASKS_H

#include "plan/group_times.h"

typedef struct stw_task_use {
    int32_t task; /* the reader */
    int32_t slot; /* which of the reader's inputs this is: an index into arrays of U */
    int32_t view; /* view node, or -1 for the whole value */
} stw_task_use;

enum {                           /* value_flags */
       STW_VALUE_RESIDENT = 1,   /* parameter or buffer: on one device for the whole step */
       STW_VALUE_EVERYWHERE = 2, /* input or constant: on every device, never sent */
       STW_VALUE_KEPT = 4,       /* a graph output: held to the step's end */
       STW_VALUE_IN_PLACE = 8    /* an update's output: no memory of its own */
};

typedef struct stw_tasks {
    int32_t T, V, U;
    int32_t *task_node;    /* (T) id: smallest written member */
    int32_t *task_of;      /* (N) the task that writes an op, else -1 */
    int32_t *output_start; /* (T + 1) into output */
    int32_t *output;       /* values that a task writes */
    int32_t *input_start;  /* (T + 1) first slot of each task */
    int32_t *waiter_start; /* (T + 1) into waiter */
    int32_t *waiter;       /* tasks that wait for a task to finish; repeats possible, and counted as often in `pending` */
    int32_t *pending;     /* (T) what must happen before a task is ready: its uses of values that are not everywhere, and waits */
    int32_t *value_node;  /* (V) */
    int32_t *value_task;  /* (V) producer, -1 for sources */
    int64_t *value_bytes; /* (V) */
    int64_t *home_bytes;  /* (V) what it takes on the device of its producer: 0 for an update's output */
    uint8_t *value_flags; /* (V) */
    int32_t *value_updater; /* (V) the task that updates this parameter or buffer, else -1 */
    int32_t *use_start;     /* (V + 1) into use */
    stw_task_use *use;      /* (U) sorted by value, view, task */
    int32_t *slot_value;    /* (U) the value that a slot holds */
    int32_t source_count;
    int32_t *source;       /* (source_count) values that are sources */
    int64_t **duration_ps; /* (C)(T) by cost class */
    int32_t *order;        /* (T) an order in which they could run */
} stw_tasks;

/* Builds the tasks. `reason` is not empty if the groups are illegal (too many tensors, a cycle). `times`: kept from one time to
 * the next; or NULL. */
stw_status stw_tasks_build(const stw_costs *costs, const stw_membership *membership, stw_group_times *times, stw_arena *arena,
                           stw_tasks *out, stw_str *reason, stw_error *error);

/* The same tasks of a graph of N nodes, made to measure: what building them took is left behind. */
stw_status stw_tasks_copy(const stw_tasks *tasks, int32_t N, int32_t classes, stw_arena *arena, stw_tasks *out, stw_error *error);

#endif
