/* The graph as a person sees it: a forward pass of layers, and with each forward op the gradients and updates that belong to it.
 *
 * Forward ops are those that the loss depends on; without a loss, all that do not serve an update alone. An op that serves
 * the update of one parameter alone (its gradient, their sum, the update) goes with the forward op that reads this parameter.
 * Any other gradient op goes with the forward op whose inputs and outputs it reads. */
#ifndef STW_METHOD_EXPERT_MODEL_LAYERS_H
#define STW_METHOD_EXPERT_MODEL_LAYERS_H

#include "graph/graph.h"

typedef struct stw_layers { /* N nodes; entries of ops only, unless said otherwise */
    const stw_graph *graph;
    const double *us; /* (N) */
    int32_t *place;   /* (N) position in topological order */
    bool *forward;    /* (N) */
    int32_t *owner;   /* (N) the parameter or buffer whose update alone an op serves, else -1 */
    int32_t *partner; /* (N) the forward op that an op goes with, itself if it is one; also of parameters and buffers */
    int32_t *level;   /* (N) forward ops on the longest path to it */
    int32_t count;    /* layers with a name, in the order in which the forward pass meets them; 0: the graph has no names */
    int32_t *layer;   /* (N) of forward ops: the layer of the parameters that it reads, else the last one that it depends on */
    int32_t *number;  /* (count) the number within the name ("enc.3.gates": 3), else that of the layer before */
} stw_layers;

/* us: (N) microseconds of each op; kept by the result. `mirrored` false: the loss is not looked at, so that gradients count as
 * forward ops, which follow the pass that they come from. */
stw_status stw_layers_build(const stw_graph *graph, const double *us, bool mirrored, stw_arena *arena, stw_layers *out,
                            stw_error *error);

#endif
