/* The simulator: (graph, machine, plan) -> timeline. docs/simulator.md states what it computes, rule by rule.
 *
 * simulator.c     what is computed once; the tasks that a plan makes; one evaluation: is the plan valid, what does the loop say
 * engine.c        the event loop
 * queues.h        its three priority queues
 * charges.c       what transfers take of the devices' own time
 * bounds.c        the bounds that stand beside every result: heads, tails and work
 * levels.c        heads and tails: what must come before and after a task, transfers included
 * memory_bound.c  what no order of the tasks can do without
 * score.c         what an evaluation is worth, by the objective; the load of each device
 * op_times.c      when each op ran, groups or not
 * causes.c        what began after what */
#ifndef STW_SIM_SIM_H
#define STW_SIM_SIM_H

#include "plan/tasks.h"

typedef struct stw_transfer {
    int32_t producer; /* node */
    int32_t from, to; /* devices */
    int64_t bytes;
    int64_t ready_ps, start_ps, end_ps;
} stw_transfer;

typedef struct stw_memory_change {
    int64_t time_ps;
    int32_t device;
    int64_t bytes; /* held from now on, minus what was held before */
} stw_memory_change;

struct stw_simulator {
    stw_arena arena;
    const stw_costs *costs;
    const stw_graph *graph;
    const stw_machine *machine;
    stw_tasks unfused; /* every op a task of its own */
    int32_t pair_count;
    int32_t (*pair)[2]; /* nodes that must be on one device */
    int32_t *together;  /* (N) the smallest op that a node must be with (a view: its root), else itself */
    int32_t *follows;   /* (N) the same, but parameters and buffers that are free follow their smallest reader; -1: nobody */
};

/* What a run leaves behind. Everything lives in the workspace until its next run. */
typedef struct stw_timeline {
    const stw_tasks *tasks;
    int32_t *device;            /* (T) */
    int64_t *start_ps, *end_ps; /* (T) */
    int32_t transfer_count;
    stw_transfer *transfer;
    int64_t *peak_bytes;  /* (D) */
    int64_t *peak_ps;     /* (D) when the peak is first reached */
    int64_t *busy_ps;     /* (D) */
    int64_t *charge_ps;   /* (T) what transfers take of each task's time, the last part of it; NULL: nothing */
    int64_t *charged_ps;  /* (D) the same by device */
    int64_t change_count; /* memory changes in order of time, if they were asked for */
    stw_memory_change *change;
} stw_timeline;

/* Whether measuring what follows each task has paid in the last runs with a limit: how soon a run is given up depends on it, what
 * comes out does not. */
typedef struct stw_tail_record {
    int32_t runs;     /* with a limit, up to the next that measures in any case */
    int32_t measured; /* of late */
    int32_t paid;     /* of these: given up before they began */
} stw_tail_record;

struct stw_workspace {
    stw_arena arena; /* a run works on a copy, so its memory is used again by the next */
    stw_tail_record tails;
    const stw_simulator *simulator;
    stw_timeline timeline;
    /* The tasks of the last plan that had groups stand first in the arena, so that they serve as long as groups stay. */
    stw_tasks fused;
    stw_membership membership;
    int32_t *group;        /* (N) NULL: none */
    stw_arena after_fused; /* what is free behind them */
    stw_group_times times; /* stand before them; none before the first groups */
    char message[512];
};

typedef struct stw_run_options {
    const int64_t *duration_ps;    /* (N) by task id, in place of the costs; or NULL */
    const double *transfer_factor; /* (N) by producer: what a transfer's time and its charges are multiplied with; or NULL */
    const double *channel_factor;  /* (channels) the same by what it queues on; or NULL */
    int64_t stop_ps;               /* a step that takes longer is of no interest: the run ends there, invalid; 0: no limit */
    bool record_memory;            /* fill timeline.change */
} stw_run_options;

/* stw_simulate is this without options. */
stw_status stw_simulator_run(const stw_simulator *simulator, const stw_plan *plan, const stw_run_options *options,
                             stw_workspace *workspace, stw_evaluation *out, stw_error *error);

/* Gives the memory of the last run back to the system, if it is much: for workspaces that are not going to be used for a while.
 * Its timeline is gone then; the tasks of the last groups stay. */
void stw_workspace_trim(stw_workspace *workspace);

/* score.c: the load of each device in the last run, (D) picoseconds: its ops and the transfers that it sends and receives. On a
 * machine with a host, each end pays its own hop to or from the host, a value leaves its device once, and the host's load counts
 * no transfers. */
void stw_workspace_loads_ps(const stw_workspace *workspace, int64_t *load);
/* The largest of them in seconds: what limits steps that follow each other as in a pipeline. */
double stw_workspace_largest_load_s(const stw_workspace *workspace);

/* The transfers of the last run; returns their number. */
int32_t stw_workspace_transfers(const stw_workspace *workspace, const stw_transfer **out);

/* Completes the devices: what must be together goes where the smallest op of it is, and views follow their root. */
void stw_plan_join(const stw_simulator *simulator, stw_plan *plan);
/* The same, and parameters and buffers that are free go to their smallest reader; what nobody reads, and what is on every
 * device anyway, to device 0. */
void stw_plan_complete(const stw_simulator *simulator, stw_plan *plan);

/* Refuses entries that no simulation could make sense of: devices out of range, priorities that are not numbers, groups below
 * -1. Only what is used is looked at. Everything below takes plans that have passed. */
stw_status stw_simulator_check(const stw_simulator *simulator, const stw_plan *plan, stw_error *error);
/* The tasks that a plan makes, built in the arena or borrowed from the simulator; `reason` tells if its groups are illegal. */
stw_status stw_simulator_tasks(const stw_simulator *simulator, const stw_plan *plan, stw_arena *arena, stw_tasks *room,
                               const stw_tasks **out, stw_str *reason, stw_error *error);

/* The event loop. The plan's devices are in range, links and orders checked. */
typedef struct stw_engine_input {
    const stw_machine *machine;
    const stw_tasks *tasks;
    const stw_plan *plan;
    const double *task_priority; /* (T) */
    const int32_t *task_device;  /* (T) */
    const int32_t *const *order; /* (D) task indices in strict order, or NULL */
    const stw_run_options *options;
    stw_tail_record *tails;
} stw_engine_input;

typedef struct stw_engine_result {
    int64_t step_ps;
    int32_t unfinished;   /* tasks that never ran: the orders contradict the dependencies */
    int32_t stuck_task;   /* one of them that a device waits for, or -1 */
    int32_t missing_task; /* what that one needs, or -1 */
    bool overflow;        /* above 2^62 ps */
    bool stopped;         /* above options->stop_ps; nothing else counts then */
} stw_engine_result;

stw_status stw_engine_run(const stw_engine_input *input, stw_arena *arena, stw_timeline *timeline, stw_engine_result *out,
                          stw_error *error);

#endif
