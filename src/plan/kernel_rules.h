/* What the compiler behind a graph's file wants of a kernel. Fusion rules, searches, the simulator and the exporters all ask
 * here. */
#ifndef STW_PLAN_KERNEL_RULES_H
#define STW_PLAN_KERNEL_RULES_H

#include "graph/graph.h"

/* Why these ops cannot be one kernel, as a text behind the op's name, and *op; NULL: they can. `member` (count), ascending, is
 * what it computes; `output` (output_count) what it writes of that. One op alone always can. */
const char *stw_kernel_fault(const stw_graph *graph, const int32_t *member, int32_t count, const int32_t *output,
                             int32_t output_count, int32_t *op);

#endif
