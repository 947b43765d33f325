/* The problem whose ops are strands of another's ops: what is good for it can be found in a part of the time.
 *
 * A strand runs as one task, begins when all that it reads is there, and hands over all that it made when it has ended. What it
 * takes is the sum of its ops. So a plan's step is only nearly that of the plan of ops which it stands for: the simulator of
 * these has the last word. */
#ifndef STW_SIM_COARSE_H
#define STW_SIM_COARSE_H

#include "sim/sim.h"

typedef struct stw_coarse {
    const stw_simulator *fine; /* the problem itself */
    stw_graph *graph; /* of strands, n nodes: sources, then each strand with a node for each further value that it hands over */
    stw_costs *costs;
    stw_simulator *simulator;
    stw_arena arena;
    int32_t *node_of; /* (N) the strand that an op is in, or the source; of a view that of its root */
    int32_t strands;  /* how many */
} stw_coarse;

/* Of at most so many strands, if chains allow it. STW_ERROR_NO_PLAN: the ops of a strand may be on no device together. */
stw_status stw_coarse_create(const stw_simulator *fine, int32_t most, stw_coarse **out, stw_error *error);
void stw_coarse_destroy(stw_coarse *coarse);

/* A plan of strands as one of ops, unfused: each has the device and the priority of its strand. */
void stw_coarse_expand(const stw_coarse *coarse, const stw_plan *of_strands, stw_plan *of_ops);

#endif
