/* Attention by segment and head: what the ways to compute it share. */
#ifndef STW_BACKEND_CPU_ATTENTION_H
#define STW_BACKEND_CPU_ATTENTION_H

#include "backend/backend.h"

typedef struct stw_attention_work {
    const stw_attention_shape *shape;
    int64_t segments; /* of a sequence */
    int64_t size;     /* of a head */
    float scale;
    bool wide;    /* by heads.c */
    int64_t desk; /* floats of scratch of a thread */
    const float *q, *k, *v, *y, *peak, *d_y;
    float *out, *out_peak;                          /* forward */
    float *d_q, *d_k, *d_v, *d_k_later, *d_v_later; /* backward */
    float *scratch;                                 /* (threads, desk) */
} stw_attention_work;

typedef struct stw_attention_part { /* one segment and head */
    int64_t column;                 /* where the head begins in a row */
    int64_t begin, own, end;        /* rows: of the segment before, of the segment, after it */
} stw_attention_part;

/* The most rows that a row sees. */
static inline int64_t stw_seen_at_most(const stw_attention_shape *s) {
    return s->segment < s->sequence ? 2 * (int64_t)s->segment : s->sequence;
}

/* Rows of `size` numbers from one matrix to another, with other distances between rows. */
void stw_move_rows(int64_t rows, int64_t size, const float *from, int64_t from_step, float *to, int64_t to_step);

#endif
