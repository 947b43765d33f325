/* Methods: anything that makes a plan. One file each, one table. */
#ifndef STW_METHOD_METHOD_H
#define STW_METHOD_METHOD_H

#include "sim/sim.h"

typedef struct stw_method {
    const char *name;
    const char *description;
    /* Fills in devices and priorities of all nodes. */
    stw_status (*run)(const stw_simulator *simulator, stw_plan *plan, stw_error *error);
} stw_method;

extern const stw_method stw_method_single, stw_method_spread;

/* Priority = -topological position: what comes first in the graph runs first. */
void stw_method_topological_priority(stw_plan *plan);
/* Nodes that must be together (colocation, an update and its parameter) follow the op of smallest id among them; views follow
 * their root. */
stw_status stw_method_join_colocated(const stw_simulator *simulator, stw_plan *plan, stw_error *error);

#endif
