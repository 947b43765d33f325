/* A part of a problem, as a problem of its own: nodes of its graph that follow each other, with their costs, on the same machine.
 * What comes from before is there from the beginning on and everywhere, and nobody waits for what comes after. What is good for
 * a part of a large graph can be found in a small part of the time. */
#ifndef STW_SIM_SLICE_H
#define STW_SIM_SLICE_H

#include "sim/sim.h"

typedef struct stw_slice {
    int32_t from;     /* node of the whole graph that is node 0 here */
    stw_graph *graph; /* its lists are partly those of the whole graph, which must outlive it */
    stw_costs *costs;
    stw_simulator *simulator;
} stw_slice;

/* Nodes [from, to). The graph may not say how ops walk their tensors (graph->flow is NULL), as that of groups. To be closed in
 * any case. */
stw_status stw_slice_open(const stw_simulator *whole, int32_t from, int32_t to, stw_slice *out, stw_error *error);
void stw_slice_close(stw_slice *slice);

/* Slices of one number have the same nodes, edges and costs, for all that a hash tells. */
uint64_t stw_slice_hash(const stw_slice *slice);

#endif
