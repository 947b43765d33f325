/* A graph as the hierarchical planner sees it: rows that the grouper puts into groups, and what the placer sees of a group: its
 * edges to and from every group, and what it holds. */
#ifndef STW_BASELINE_HDP_GROUPING_PROBLEM_H
#define STW_BASELINE_HDP_GROUPING_PROBLEM_H

#include "feature/feature.h"
#include "plan/plan.h"
#include "sim/sim.h"

typedef struct stw_hdp_ops { /* N ops */
    int32_t N;
    int64_t edge_count;
    const int32_t *from, *to; /* (edge_count) ops */
    int32_t contents;         /* C */
    const double *content;    /* (N, C) summed over the ops of a group */
} stw_hdp_ops;

/* E = 2 G + C */
static inline int32_t stw_hdp_embedding_columns(const stw_hdp_ops *ops, int32_t G) { return 2 * G + ops->contents; }

/* group: (N). Writes G rows of E columns, each row divided by (its largest entry + 1): edges to each group, edges from each
 * group, contents. Row g begins at out[g * step]. */
void stw_hdp_embed(const stw_hdp_ops *ops, int32_t G, const int32_t *group, double *out, int64_t step);

typedef struct stw_grouping_problem { /* N rows: ops, or units of ops; parameters go with their reader */
    const stw_simulator *simulator;
    int32_t N, columns;
    double *feature; /* (N, columns) */
    int32_t *row;    /* (nodes) of each op, or -1 */
    int32_t D;
    int32_t device[STW_MAX_DEVICES]; /* (D) that may be used */
    stw_hdp_ops ops;                 /* edges and contents: ops of each class, summed output shapes */
    int32_t rule;                    /* stw_rule of the plans; -1: upward rank */
} stw_grouping_problem;
/* allowed: devices, a bit each; 0: all. units: as in the settings; ops that must be together are one row in any case. Everything
 * lives in the arena. */
stw_status stw_grouping_problem_build(const stw_simulator *simulator, uint64_t allowed, int32_t units, stw_arena *arena,
                                      stw_grouping_problem *out, stw_error *error);
/* group: (N), device: (G) in [0, D). Fills devices and priorities of all nodes. */
stw_status stw_grouping_decode(const stw_grouping_problem *problem, const int32_t *group, const int32_t *device, stw_plan *plan,
                               stw_arena scratch, stw_error *error);

#endif
