/* Lower bounds on a step, from times per task and class of device; and on the peak of memory. */
#ifndef STW_SIM_BOUNDS_H
#define STW_SIM_BOUNDS_H

#include "sim/sim.h"

typedef struct stw_bound_input {
    const stw_tasks *tasks;
    int32_t C;                             /* cost classes */
    const double **time_ps;                /* (C)(T) the least time that a task takes on a device of a class */
    int32_t device_count[STW_MAX_DEVICES]; /* (C) devices of each class */
} stw_bound_input;

typedef struct stw_bound_times { /* picoseconds, rounding errors included */
    double step_ps;              /* the largest bound that heads, tails and work give */
    double load_ps;              /* of the largest load of a device: work alone, and the longest task */
} stw_bound_times;
stw_status stw_bound_steps(const stw_bound_input *in, stw_arena scratch, stw_bound_times *out, stw_error *error);

/* lower_bounds.c: some group of two or more ops is legal on some device, for all that the classes of ops tell. */
bool stw_simulator_may_fuse(const stw_simulator *simulator);

/* memory_bound.c: bytes that the largest peak of a device never falls below, however these tasks are placed and ordered. */
stw_status stw_bound_peak(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                          stw_error *error);

/* memory_sets.c: one device. Raises *bytes (parameters and buffers left out) to what sets of tasks show. */
typedef struct stw_bound_sets {
    const struct stw_sequences *s;
    const bool *lasts;    /* (T) takes time */
    const int32_t *order; /* (T) some order */
    int64_t *work;        /* steps that may be taken; falls */
} stw_bound_sets;
stw_status stw_bound_by_sets(const stw_bound_sets *in, stw_arena scratch, int64_t *bytes, stw_error *error);

#endif
