/* What the two matrices of the feedback share (feedback.c, pair.c). Private to feature/. */
#ifndef STW_FEATURE_FEEDBACK_H
#define STW_FEATURE_FEEDBACK_H

#include "feature/feature.h"

/* Links as the feedback needs them: picoseconds from the end of a producer to the moment when the value is there. */
typedef struct stw_feature_links {
    int32_t D;
    const double *latency_ps, *ps_per_byte; /* (D, D) from row to column; 0 on the diagonal; infinite latency: no link */
    const stw_link *tabled;                 /* (D, D) where some have tables of rates; else NULL */
} stw_feature_links;

static inline double stw_feature_transfer_ps(const stw_feature_links *links, int32_t from, int32_t to, double bytes) {
    const int64_t k = (int64_t)from * links->D + to;
    if (links->tabled != NULL && from != to && links->tabled[k].bandwidth > 0.0)
        return links->latency_ps[k] + 1e6 * stw_link_bytes_us(&links->tabled[k], bytes);
    return links->latency_ps[k] + bytes * links->ps_per_byte[k];
}

typedef struct stw_feedback {
    const stw_features *features;
    const stw_feedback_input *input;
    stw_feature_links links;
    int32_t *task_device; /* (T) */
    double per_step;      /* 1 / step; 0 for a step without time */
    double *start;        /* (M) mean start of each unit, picoseconds */
} stw_feedback;

/* pair.c */
stw_status stw_feedback_pairs(const stw_feedback *feedback, double *matrix, stw_arena scratch, stw_error *error);

#endif
