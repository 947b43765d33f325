/* The network of the hierarchical planner (Mirhoseini et al., A Hierarchical Model for Device Placement, ICLR 2018): a grouper
 * puts ops into groups, a placer puts groups onto devices. N ops, F columns of features, G groups, D devices, E columns of a
 * group's embedding, K samples side by side.
 *
 *   p      = softmax(x A B + noise)             (N, G) the grouper; no activation; the same for all samples
 *   e      = what each group holds              (G, K, E) from the host: grouping_problem.h
 *   f, r   = lstm(e), forwards and backwards    (G, K, width / 2) each
 *   m      = [f, r] P                           (G, K, width)
 *   h      = lstm(embedding of the device of the group before), beginning with the last states of f and r side by side
 *   a      = sum over groups of softmax(<v, tanh(m + h Q)>) m
 *   q      = softmax(bound tanh([h, a] S) + noise)   (D) for one group after the other; bound 0: without the tanh
 *
 * As in the authors' program, the decoder's input is the device alone and the attention's values are its keys. The network knows
 * neither graphs nor devices: plain arrays in, plain arrays out.
 *
 * network.c  parameters, memory, the grouper
 * placer.c   encoder and decoder */
#ifndef STW_BASELINE_HDP_NETWORK_H
#define STW_BASELINE_HDP_NETWORK_H

#include "nn/layers.h"

typedef struct stw_hdp_config {
    int32_t columns;         /* F */
    int32_t hidden;          /* of the grouper */
    int32_t groups, devices; /* G, D */
    int32_t embedding;       /* E */
    int32_t width;           /* of the decoder; even: each direction of the encoder has half */
    double bound;            /* of the placer's logits; 0: none */
    double sharpness;        /* scale of the grouper's first logits: the larger, the fewer groups an op may land in */
} stw_hdp_config;

typedef struct stw_hdp stw_hdp; /* the parameters, and the activations of the last draws */

/* The pool is borrowed; NULL: the calling thread alone. */
stw_status stw_hdp_create(const stw_hdp_config *config, stw_backend *backend, stw_pool *pool, uint64_t seed, stw_hdp **out,
                          stw_error *error);
void stw_hdp_destroy(stw_hdp *hdp);
stw_parameters *stw_hdp_parameters(stw_hdp *hdp);
/* feature: (N, F), copied to the backend. To be called once. */
stw_status stw_hdp_set_input(stw_hdp *hdp, int32_t N, const double *feature, stw_error *error);

typedef enum stw_hdp_choice {
    STW_HDP_SAMPLE, /* draws */
    STW_HDP_LIKELY, /* takes the most likely, the first of equals */
    STW_HDP_GIVEN   /* leaves the decisions as they are and tells how likely they were */
} stw_hdp_choice;

typedef struct stw_hdp_draw {
    stw_hdp_choice choice;
    int32_t K;
    double noise; /* on the logits: its deviation over their root mean square; 0: none. The samples share the grouper's. */
    stw_rng rng;  /* decides all that is drawn */
    bool (*is_stopped)(void *context); /* asked for each group: true ends the draw with STW_ERROR_CANCELLED; NULL: never */
    void *context;
} stw_hdp_draw;

/* group: (K, N), logp: (K), the log probabilities of all N decisions together. */
stw_status stw_hdp_group(stw_hdp *hdp, const stw_hdp_draw *draw, int32_t *group, double *logp, stw_error *error);
/* embedding: (G, K, E). device: (K, G), logp: (K). */
stw_status stw_hdp_place(stw_hdp *hdp, const stw_hdp_draw *draw, const double *embedding, int32_t *device, double *logp,
                         stw_error *error);
/* Adds the gradient of sum over k of weight[k] (log p of its groups + log p of its devices) to the gradient block, from the last
 * draws, whose decisions these are. Goes back through each draw once: the next one needs a new draw. */
stw_status stw_hdp_backward(stw_hdp *hdp, const double *weight, const int32_t *group, const int32_t *device, stw_error *error);

/* Mean entropy of the last draw's decisions about devices, in nats. */
double stw_hdp_device_entropy(const stw_hdp *hdp);

#endif
