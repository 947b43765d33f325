/* Inside the network: its layers, and what one run of it keeps. */
#ifndef STW_POLICY_NET_H
#define STW_POLICY_NET_H

#include "policy/policy.h"

enum { STW_NET_MAX_LAYERS = 8 };

struct stw_net {
    stw_policy_config config;
    stw_backend *backend; /* borrowed */
    stw_parameters p;
    /* The input. `operator_` comes last and has the relu of the sum. */
    int32_t operator_table; /* (operators, operator_width) */
    stw_linear_layer pool;  /* pair_columns -> pair_width */
    stw_linear_layer unit, feedback, pair, operator_;
    int32_t identity; /* (identities, width) is added to x0 */
    stw_sage_layer sage[STW_NET_MAX_LAYERS];
    stw_linear_layer modulation[STW_NET_MAX_LAYERS];
    stw_attention_layer attention[STW_NET_MAX_LAYERS];
    /* The tasks: one block for both. */
    stw_linear_layer task_self, task_action; /* width -> width: W_x, W_a */
    stw_norm_layer task_norm;
    stw_attention_layer task_block;
    stw_linear_layer action; /* knobs, or what a device is like, -> width */
    /* The heads; those that the config does not name are not declared. */
    stw_linear_layer steer, nudge, class_;
    stw_linear_layer steer_own;                  /* x0 -> knobs: what a row is, beside what it sees */
    stw_linear_layer steer_common, nudge_common; /* of the graph: what all rows have in common (spread.c) */
    stw_linear_layer query[2], device[2];        /* -> score_width -> score_width */
};

typedef struct stw_held_input { /* on the backend */
    int32_t M, D;
    void *unit, *feedback, *pair, *device;
    int32_t *operator_;
    stw_gathering producers, readers;
    stw_gathering of_pairs; /* each row from its D pairs */
} stw_held_input;

typedef struct stw_task_kept { /* one task's block */
    void *x;                   /* (rows, width) what is normed */
    void *n;                   /* (rows, width) the block's input */
    stw_norm_kept norm;
    stw_attention_kept block; /* block.y: h */
} stw_task_kept;

struct stw_pass {
    stw_net *net;
    stw_arena scratch; /* used by copy: conversions on the host */
    /* Memory, by how long it lasts: the input; a placement pass; a scheduling pass; a backward pass; one layer of it. */
    stw_tape *input_tape, *placement_tape, *schedule_tape, *back_tape, *layer_tape;
    stw_held_input input;
    bool has_input, placed;
    int32_t K; /* samples of the last scheduling pass; 0: none since the placement */

    /* Kept by the placement pass; rows: M. */
    void *pooled;         /* (M * D, pair_width) relu */
    void *pair;           /* (M, pair_width) the largest */
    int32_t *pair_chosen; /* (M, pair_width) */
    void *operator_;      /* (M, operator_width) */
    void *x0;             /* (M, width) */
    stw_sage_kept sage[STW_NET_MAX_LAYERS];
    void *graph;                     /* (1, width) */
    void *gate[STW_NET_MAX_LAYERS];  /* (1, width) */
    void *gated[STW_NET_MAX_LAYERS]; /* (M, width) */
    stw_attention_kept attention[STW_NET_MAX_LAYERS];
    stw_task_kept placement;
    void *placement_out;                   /* (M, 4) before they are spread, or (M, D) log probabilities */
    void *query_hidden, *query;            /* (M, score_width) */
    void *device_hidden, *device, *scaled; /* (D, score_width); scaled: device / sqrt(score_width) */
    /* Kept by the scheduling pass; rows: K * M. */
    void *base;                    /* (M, width) h_1 W_x + h_1 */
    void *knobs;                   /* (K * M, 3) */
    void *knob_weight, *knob_bias; /* (width, 3), (width): of the two layers in one */
    int32_t *choice;               /* (K * M) devices */
    void *embedded, *device_terms; /* (D, width) the devices, and what each adds */
    stw_task_kept schedule;
    void *schedule_out; /* (K * M, 1) before they are spread, or (K * M, classes) log probabilities */
    void *d_x0;         /* (M, width) in a backward pass: by the head alone */
    void *d_graph;      /* (1, width) in a backward pass: the gradient of the graph vector */
};

/* The output of the trunk, (M, width). */
const void *stw_trunk_output(const stw_pass *pass);
stw_status stw_trunk_forward(stw_pass *pass, stw_error *error);
/* d_x: (M, width), the gradient of the trunk's output; overwritten. */
stw_status stw_trunk_backward(stw_pass *pass, void *d_x, stw_error *error);

/* The tasks: from the trunk to the heads' inputs h, (M, width) and (K * M, width). */
stw_status stw_placement_forward(stw_pass *pass, stw_error *error);
stw_status stw_placement_backward(stw_pass *pass, void *d_h, void *d_x, stw_error *error);
/* `action` as in stw_pass_schedule. */
stw_status stw_schedule_forward(stw_pass *pass, const double *action, stw_error *error);
/* Adds to d_h1 (M, width) and, for the head `device`, to d_device (D, score_width). d_h is overwritten. */
stw_status stw_schedule_backward(stw_pass *pass, void *d_h, void *d_h1, void *d_device, stw_error *error);

/* The heads. Backward: d_out on the backend, overwritten; d_h is added to. */
stw_status stw_placement_head_forward(stw_pass *pass, stw_error *error);
stw_status stw_placement_head_backward(stw_pass *pass, void *d_out, void *d_h, void *d_device, stw_error *error);
stw_status stw_schedule_head_forward(stw_pass *pass, stw_error *error);
stw_status stw_schedule_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error);
/* spread.c: raw: (sequences * M, dims) on the backend, out: the same on the host. Backward: from d_out on the host; takes d_raw
 * from the tape of the backward pass and adds to d_graph. */
stw_status stw_spread_forward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                              double *out, stw_error *error);
stw_status stw_spread_backward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                               const double *d_out, void *d_graph, void **d_raw, stw_error *error);
/* The devices' embedding, which the head and the second task share. d_device is overwritten. */
stw_status stw_device_forward(stw_pass *pass, stw_error *error);
stw_status stw_device_backward(stw_pass *pass, void *d_device, stw_error *error);

/* Zeroed reals. */
stw_status stw_tape_zeros(stw_backend *b, stw_tape *tape, int64_t count, void **out, stw_error *error);

#endif
