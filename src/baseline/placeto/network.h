/* The network of Placeto (Addanki et al., Placeto: Learning Generalizable Device Placement Algorithms for Distributed Machine
 * Learning, 2019): which device the node that is visited goes to, given where all nodes are now. N nodes, D devices, F = 4 + D
 * columns, W the width of a message, R rounds of messages.
 *
 *   x    = time where it is, bytes, is it visited now, was it visited, its device as D columns     (N, F)
 *   own  = relu(relu(x A) B) C                                                                     (N, W)
 *   y    = own, then R times  own + g(sum over neighbours of f(y)), own alone without neighbours   (N, W), in two ways:
 *          top down (neighbours: what a node reads from) and bottom up (what reads it), side by side: e   (N, 2 W)
 *   pool = g(sum of f(e)) over what leads to the node, over what it leads to, over the rest        3 times (2 W)
 *   p    = softmax(relu(relu([pools, e of the node] P) Q) S)                                       (D)
 *
 * f and g are two layers each, with a relu behind both, and each of the two ways and three pools has its own. Nothing here
 * belongs to one graph: the same parameters are for any graph on D devices.
 *
 * Plain loops, in double whatever the parameters are: matrices are a few columns wide, and what is side by side are samples, each
 * with a pass of its own on one thread. */
#ifndef STW_BASELINE_PLACETO_NETWORK_H
#define STW_BASELINE_PLACETO_NETWORK_H

#include "nn/layers.h"

typedef struct stw_placeto_config {
    int32_t devices; /* D */
    int32_t rounds;  /* R */
    int32_t width;   /* W; 0: F, as in the authors' program */
    bool mean;       /* pools are means, not sums */
} stw_placeto_config;

typedef struct stw_placeto_graph { /* nodes in the order in which they are visited */
    int32_t N, D;
    const double *time;                 /* (N, D) of the node on each device, over the largest of all */
    const double *bytes;                /* (N) that leave the node, over the most of all */
    const int32_t *above_start, *above; /* (N + 1), nodes that each reads from */
    const int32_t *below_start, *below; /* (N + 1), nodes that read it: the same edges */
} stw_placeto_graph;

typedef struct stw_placeto_net stw_placeto_net;

stw_status stw_placeto_net_create(const stw_placeto_config *config, stw_backend *backend, uint64_t seed, stw_placeto_net **out,
                                  stw_error *error);
void stw_placeto_net_destroy(stw_placeto_net *net);
/* One block with one table: what a file would hold. To be fetched after it was changed by hand. */
stw_parameters *stw_placeto_net_parameters(stw_placeto_net *net);
void stw_placeto_net_fetch(stw_placeto_net *net);

/* ---- one decision ---- */

typedef struct stw_placeto_round { /* (N, W) each */
    double *f[2], *sum, *g[2];     /* f of what came before it; g is 0 without neighbours */
    double *y;
} stw_placeto_round;

typedef struct stw_placeto_pool { /* m nodes */
    int32_t m, *member;           /* (m) */
    double *in, *f[2];            /* (m, 2 W) */
    double *sum, *g;              /* (2 W): the sum or mean; the first layer of g. The second is in `joined` */
} stw_placeto_pool;

enum { STW_PLACETO_WAYS = 2, STW_PLACETO_POOLS = 3 }; /* top down, bottom up; above, below, beside */

typedef struct stw_placeto_pass { /* what a decision came from */
    int32_t node;
    double *x, *hidden[2], *own;                /* (N, F), (N, W) each */
    stw_placeto_round *round[STW_PLACETO_WAYS]; /* (R) */
    double *e;                                  /* (N, 2 W) */
    stw_placeto_pool pool[STW_PLACETO_POOLS];
    double *joined;    /* (8 W): pools, the node */
    double *policy[2]; /* (16 W), (8 W) */
    double *logp;      /* (D) */
} stw_placeto_pass;

/* device: (N), where nodes are; those before `node` were visited. The pass lives in the arena. */
stw_status stw_placeto_forward(const stw_placeto_net *net, const stw_placeto_graph *graph, const int32_t *device, int32_t node,
                               stw_arena *arena, stw_placeto_pass *out, stw_error *error);
/* Adds the gradient of weight * logp[choice] + bonus * (the entropy of p) to `gradient`: (total), laid out as the parameters. */
stw_status stw_placeto_backward(const stw_placeto_net *net, const stw_placeto_graph *graph, const stw_placeto_pass *pass,
                                int32_t choice, double weight, double bonus, double *gradient, stw_arena scratch,
                                stw_error *error);
double stw_placeto_entropy(int32_t devices, const double *logp); /* nats */

/* A step of Adam down this gradient, cut to norm `clip`. Returns the norm before. */
double stw_placeto_net_update(stw_placeto_net *net, const double *gradient, double rate, double clip);

#endif
