/* The inside of the hierarchical planner's network, for its files. */
#ifndef STW_BASELINE_HDP_NETWORK_STATE_H
#define STW_BASELINE_HDP_NETWORK_STATE_H

#include "baseline/hdp/network.h"

struct stw_hdp {
    stw_hdp_config config;
    stw_backend *backend; /* borrowed */
    stw_pool *pool;       /* borrowed, or NULL */
    stw_parameters p;
    stw_linear_layer hide, group;            /* F -> hidden -> G */
    stw_lstm_layer forwards, backwards;      /* E -> width / 2 */
    stw_linear_layer from_first, from_last;  /* width / 2 -> width each: P */
    stw_lstm_layer decoder;                  /* width -> width */
    stw_linear_layer query;                  /* width -> width: Q */
    stw_linear_layer head_state, head_value; /* width -> D each: S */
    int32_t devices;                         /* (D + 1, width) embeddings; the last is what the first group gets */
    int32_t score;                           /* (1, width): v */

    /* The grouper. */
    stw_tape *input_tape;
    stw_arena arena; /* host memory of the grouper */
    int32_t N;
    void *feature, *hidden, *d_hidden; /* (N, F), (N, hidden) twice */
    void *chance;                      /* (N, G): logits, then probabilities, then the gradient of the logits */
    bool grouped, placed;              /* there is a draw to go back through */
    int32_t K;                         /* of the last draws */
    double *desk;                      /* (threads, desk_count) where workers have rows of `chance` */
    int64_t desk_count;

    /* The placer, one draw. */
    stw_tape *place_tape, *back_tape;
    stw_arena host; /* of the draw, begun anew with each from `host_begin` */
    stw_arena host_begin;
    stw_lstm_kept kept_forwards, kept_backwards;
    int32_t *to_sample, *to_step;                  /* (K * G) rows of (G, K, .) in the order (K, G, .), and back */
    void *memory;                                  /* (K, G, width): m */
    void *table;                                   /* (D + 1, 4 width) what each device adds to the decoder's gates */
    int32_t *before;                               /* (G, K) on the backend: the device of the group before */
    void *h, *c;                                   /* (G + 1, K, width): before the first step and after each */
    void *gates, *asked, *value, *weight, *logits; /* (G, K, .): 4 width, width, width, G, D */
    double *q;                                     /* (G, K, D) on the host: probabilities */
    double *slope;                                 /* (G, K, D) of the bound */
};

/* Step t of (G, K, width) on the backend. */
static inline void *stw_hdp_at(const stw_hdp *hdp, void *block, int64_t t, int64_t width) {
    return (char *)block + t * hdp->K * width * (int64_t)hdp->backend->real_bytes;
}

/* placer.c: its part of stw_hdp_backward. */
stw_status stw_hdp_placer_backward(stw_hdp *hdp, const double *weight, const int32_t *device, stw_error *error);

/* Log probabilities of `count` logits, in place. */
void stw_hdp_log_softmax(int32_t count, double *logits);

#endif
