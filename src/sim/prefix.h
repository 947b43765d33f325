/* The beginning of a problem, as a problem of its own: the first nodes of its graph with their costs, on the same machine. What
 * is good for the beginning of a large graph is mostly good for the rest, and can be tried there in a small part of the time. */
#ifndef STW_SIM_PREFIX_H
#define STW_SIM_PREFIX_H

#include "sim/sim.h"

typedef struct stw_prefix {
    stw_graph *graph; /* its lists are partly those of the whole graph, which must outlive it */
    stw_costs *costs;
    stw_simulator *simulator;
} stw_prefix;

/* At most this many ops, with what they read. The graph may not say how ops walk their tensors (graph->flow is NULL), as that of
 * groups. To be closed in any case. */
stw_status stw_prefix_open(const stw_simulator *whole, int32_t ops, stw_prefix *out, stw_error *error);
void stw_prefix_close(stw_prefix *prefix);

#endif
