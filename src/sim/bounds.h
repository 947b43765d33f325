/* Lower bounds (stw_lower_bounds in stowage.h), in parts that others ask for. */
#ifndef STW_SIM_BOUNDS_H
#define STW_SIM_BOUNDS_H

#include "sim/sim.h"

/* Some group of two or more ops is legal on some device, for all that the classes of ops tell. */
bool stw_simulator_may_fuse(const stw_simulator *simulator);

/* stw_lower_bounds is this with transfers. Without them the bounds are lower, and sooner there. */
stw_status stw_find_bounds(const stw_simulator *simulator, const stw_plan *plan, bool with_transfers, stw_bounds *out,
                           stw_error *error);

/* Those of the plan's own groups alone, plan_s and load_s: for another plan of a problem whose bounds are known. */
stw_status stw_find_bounds_of_groups(const stw_simulator *simulator, const stw_plan *plan, bool with_transfers, stw_bounds *out,
                                     stw_error *error);

typedef struct stw_levels {
    double *head, *tail; /* (T) ps */
} stw_levels;

/* levels.c: the least time before each task can begin and after it, if they take these times. Without transfers these are
 * longest paths, which is quick. */
stw_status stw_bound_levels(const stw_simulator *simulator, const stw_tasks *tasks, const double *least_ps, bool with_transfers,
                            stw_arena *arena, stw_levels *out, stw_error *error);

/* memory_bound.c: bytes that the largest peak of a device never falls below, however these tasks are placed and ordered. */
stw_status stw_bound_peak(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                          stw_error *error);

/* The same whatever is fused. */
stw_status stw_bound_peak_of_groups(const stw_simulator *simulator, stw_arena scratch, int64_t *out, stw_error *error);
/* The part of it that one task makes: what it reads and writes is on its own device. */
stw_status stw_bound_largest_task(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                                  stw_error *error);

#endif
