/* A graph as Placeto sees it: the rows of the hierarchical planner (units of ops, each a group of its own) as nodes that are
 * visited in topological order. */
#ifndef STW_BASELINE_PLACETO_PROBLEM_H
#define STW_BASELINE_PLACETO_PROBLEM_H

#include "baseline/hdp/grouping_problem.h"
#include "baseline/placeto/network.h"

typedef struct stw_placeto_problem {
    stw_grouping_problem rows; /* N of them, D devices that may be used */
    stw_placeto_graph graph;
    int32_t *group; /* (N) of each row: itself */
} stw_placeto_problem;

/* allowed, units: as for stw_grouping_problem_build. Everything lives in the arena. */
stw_status stw_placeto_problem_build(const stw_simulator *simulator, uint64_t allowed, int32_t units, stw_arena *arena,
                                     stw_placeto_problem *out, stw_error *error);
/* device: (N) in [0, D). Fills devices and priorities of all nodes of the graph. */
stw_status stw_placeto_decode(const stw_placeto_problem *problem, const int32_t *device, stw_plan *plan, stw_arena scratch,
                              stw_error *error);

#endif
