/* Lower bounds (stw_lower_bounds in stowage.h), in parts that others ask for. */
#ifndef STW_SIM_BOUNDS_H
#define STW_SIM_BOUNDS_H

#include "sim/sim.h"

/* Some group of two or more ops is legal on some device, for all that the classes of ops tell. */
bool stw_simulator_may_fuse(const stw_simulator *simulator);

/* memory_bound.c: bytes that the largest peak of a device never falls below, however these tasks are placed and ordered. */
stw_status stw_bound_peak(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                          stw_error *error);

#endif
