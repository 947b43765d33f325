/* What the placer sees of a group of ops: its edges to and from every group, and what it holds. */
#ifndef STW_POLICY_HDP_EMBEDDING_H
#define STW_POLICY_HDP_EMBEDDING_H

#include <stdint.h>

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

#endif
