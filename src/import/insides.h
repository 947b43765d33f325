/* What is inside of nodes, as readers collect it: the ops of fused kernels, and the kernels of loops, branches and calls. The
 * lists become those of the graph (graph.h). */
#ifndef STW_IMPORT_INSIDES_H
#define STW_IMPORT_INSIDES_H

#include "graph/graph.h"

typedef struct stw_insides {
    stw_arena *arena;
    stw_fused_kernel *fused;
    stw_part *part;
    stw_part_read *part_read;
    stw_part_result *result;
    stw_body *body;
    stw_body_step *step;
    stw_work_row *work;
    int64_t fused_count, part_count, part_read_count, result_count, body_count, step_count, work_count;
    int64_t fused_room, part_room, part_read_room, result_room, body_room, step_room, work_room;
    int32_t open_loops; /* as the graph has it */
} stw_insides;

/* Each appends one; its index is the count before. */
stw_status stw_insides_add_fused(stw_insides *in, const stw_fused_kernel *fused, stw_error *error);
stw_status stw_insides_add_part(stw_insides *in, const stw_part *part, stw_error *error);
stw_status stw_insides_add_part_read(stw_insides *in, const stw_part_read *read, stw_error *error);
stw_status stw_insides_add_result(stw_insides *in, const stw_part_result *result, stw_error *error);
/* A body of these steps; *out is its index. */
stw_status stw_insides_add_body(stw_insides *in, const stw_body_step *step, int64_t count, bool dearest, int32_t *out,
                                stw_error *error);
/* Of a single op: a step that is one kernel. */
stw_status stw_insides_make_op_step(stw_insides *in, const stw_work_row *work, stw_body_step *out, stw_error *error);
/* The kernels of a graph that is a body, as one; `counts`: (N) ops that
 * only keep a loop going and are no kernels, or NULL; where `counts_alone`, they are if there is nothing else. */
stw_status stw_insides_add_graph(stw_insides *in, const stw_graph *graph, const bool *counts, bool counts_alone,
                                 stw_arena scratch, int32_t *out, stw_error *error);

/* The lists in the graph: copied into its arena, or, for a graph that does not outlive them, shared. */
stw_status stw_insides_give(const stw_insides *in, stw_graph *graph, bool share, stw_error *error);

#endif
