/* What the compiler behind a graph's file wants of a kernel. Fusion rules, searches, the simulator and the exporters all ask
 * here. */
#ifndef STW_PLAN_KERNEL_RULES_H
#define STW_PLAN_KERNEL_RULES_H

#include "graph/graph.h"

/* Why these ops cannot be one kernel, as a text behind the op's name, and *op; NULL: they can. `member` (count), ascending, is
 * what it computes; `output` (output_count) what it writes of that. One op alone always can. */
const char *stw_kernel_fault(const stw_graph *graph, const int32_t *member, int32_t count, const int32_t *output,
                             int32_t output_count, int32_t *op);

/* A kernel that goes on with what it has folded from rows, as a softmax does. On a device that can (fuses_epilogue of reductions)
 * it holds whole rows, so all that it computes is such rows or one value for each; else it folds anew for each result. */
typedef struct stw_row_kernel {
    bool folds;     /* it goes on with something that it has folded */
    bool fits;      /* all that it computes is rows, and it has one result */
    double rows;    /* how many there are */
    int64_t length; /* elements of a row */
} stw_row_kernel;
/* Of a graph with flow. `written` (count): results. */
stw_row_kernel stw_find_row_kernel(const stw_graph *graph, const int32_t *member, const bool *written, int32_t count);

#endif
