/* Lower bounds on a step, from times per task and class of device. */
#ifndef STW_SIM_BOUNDS_H
#define STW_SIM_BOUNDS_H

#include "sim/sim.h"

typedef struct stw_bound_input {
    const stw_tasks *tasks;
    int32_t C;                             /* cost classes */
    const double **time_ps;                /* (C)(T) the least time that a task takes on a device of a class */
    int32_t device_count[STW_MAX_DEVICES]; /* (C) devices of each class */
} stw_bound_input;

/* The largest lower bound that heads, tails and work give, in picoseconds (rounding errors included). */
stw_status stw_bound_steps(const stw_bound_input *in, stw_arena scratch, double *out_ps, stw_error *error);

#endif
