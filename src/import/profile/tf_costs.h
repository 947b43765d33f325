/* Measured costs from TensorFlow: RunMetadata, StepStats and CostGraphDef, in bytes or in text. */
#ifndef STW_IMPORT_PROFILE_TF_COSTS_H
#define STW_IMPORT_PROFILE_TF_COSTS_H

#include "graph/graph.h"

typedef struct stw_tf_cost { /* one run of one node */
    stw_str name;            /* "conv1"; of kernels on a stream "conv1:Conv2D" */
    stw_str device;          /* "/job:localhost/replica:0/task:0/device:GPU:0" */
    double us;
    int64_t bytes; /* that its outputs and temporaries took */
} stw_tf_cost;

typedef struct stw_tf_costs {
    int64_t count;
    stw_tf_cost *row; /* (count) */
} stw_tf_costs;

/* Is it one of these messages, or a graph of TensorFlow, which reading refuses with words? */
bool stw_tf_costs_is(stw_str bytes);
/* Which of the messages it is shows in the bytes. Of RunMetadata the step counts, and the cost graph if there is no step. Names
 * lie in `bytes` or in the arena. */
stw_status stw_tf_costs_read(stw_str bytes, stw_arena *arena, stw_tf_costs *out, stw_error *error);

/* The times by op: (*us)[node] is NaN where there is none; *unmatched: rows that name no op. Several rows of a node on one device
 * are added up (kernels, executions); of several devices the longest counts, since a device is listed again for each of its
 * streams.
 */
stw_status stw_tf_costs_times(const stw_tf_costs *costs, const stw_graph *graph, stw_arena *arena, double **us,
                              int64_t *unmatched, stw_error *error);

#endif
