/* Affinity clusters: atoms that exchange much, whatever the order in which they run. Unlike units they need not be convex: a
 * parameter, the ops that read it and their gradients come together, however far apart in time. */
#ifndef STW_METHOD_ANNEAL_AFFINITY_H
#define STW_METHOD_ANNEAL_AFFINITY_H

#include "graph/units.h"
#include "sim/sim.h"

/* Levels as in units.h: level 0 are the given atoms, then one for each wanted number (falling, at least 1). A level has that many
 * clusters, or more where edges or sizes do not allow it: clusters without an edge stay alone, and none grows far beyond the mean
 * work. What is not below the level before is left out. */
stw_status stw_affinity_build(const stw_simulator *simulator, const stw_units *atoms, const int32_t *wanted, int32_t wanted_count,
                              stw_arena *arena, stw_unit_levels *out, stw_error *error);

#endif
