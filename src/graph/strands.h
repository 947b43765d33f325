/* Strands: ops that run one after the other, as one. An op joins what it alone waits for, behind which it would run anyway, or
 * what alone waits for it. Most of what could run at once still can, but not all: what else waits for a strand waits for all of
 * it, and a strand begins when all that it reads is there. (Units, by contrast, are what should be on one device: heavy edges
 * count there.) */
#ifndef STW_GRAPH_STRANDS_H
#define STW_GRAPH_STRANDS_H

#include "graph/graph.h"

typedef struct stw_strands {
    int32_t count;   /* in topological order: a strand reads from those before it only */
    int32_t *of;     /* (N) of ops; -1 for all else */
    int32_t *start;  /* (count + 1) into member */
    int32_t *member; /* (ops) in topological order within a strand */
} stw_strands;

/* At most `most` where chains allow it; strands grow until then, in rounds, to a few times the mean. us: (N) by op. */
stw_status stw_strands_build(const stw_graph *graph, const double *us, int32_t most, stw_arena *arena, stw_strands *out,
                             stw_error *error);

#endif
