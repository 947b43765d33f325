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
    stw_linear_layer unit, feedback, pair, proposal, operator_;
    int32_t identity; /* (identities, width) is added to x0 */
    stw_sage_layer sage[STW_NET_MAX_LAYERS];
    stw_linear_layer modulation[STW_NET_MAX_LAYERS];
    stw_attention_layer attention[STW_NET_MAX_LAYERS];
    /* The tasks: one block for all. */
    stw_linear_layer task_self, task_action; /* width -> width: W_x, W_a */
    stw_norm_layer task_norm;
    stw_attention_layer task_block;
    stw_linear_layer action;        /* knobs, or what a device is like, -> width */
    int32_t schedule_table;         /* (classes, width): what a class of priority is like, for the draft after */
    stw_linear_layer fusion_action; /* a nudge of fusion -> width */
    int32_t fusion_table;           /* (fusion_classes, width): what a class of fusion is like */
    /* The heads; those that the config does not name are not declared. */
    stw_linear_layer steer, nudge, class_, fusion;
    stw_linear_layer steer_own, fusion_own;                     /* x0 -> knobs: what a row is, beside what it sees */
    stw_linear_layer steer_common, nudge_common, fusion_common; /* of the graph: what all rows have in common (heads.c) */
    stw_linear_layer query[2], device[2];                       /* -> score_width -> score_width */
    int32_t device_names;                                       /* (device_names, score_width) is added to that of devices */
};

typedef struct stw_held_input { /* on the backend */
    int32_t M, D;
    void *unit, *feedback, *pair, *proposal, *device;
    int32_t *operator_;
    stw_gathering producers, readers;
    stw_gathering of_pairs; /* each row from its D pairs */
} stw_held_input;

typedef struct stw_action_kept { /* what the decisions before a task add to its input */
    void *reals;                 /* (rows, dims) where they are real numbers */
    void *weight, *bias;         /* (width, dims), (width): of the two layers in one */
    int32_t *choice;             /* (rows) where they are choices */
    void *embedded, *terms;      /* (choices, width) the choices, and what each adds */
} stw_action_kept;

typedef enum stw_task_kind { STW_TASK_OF_FUSION, STW_TASK_OF_PLACEMENT, STW_TASK_OF_SCHEDULE } stw_task_kind;

typedef struct stw_task_kept { /* one task: its block and what its head gives; rows: sequences * M */
    stw_task_kind kind;
    stw_tape *tape;         /* until it runs again */
    int32_t sequences;      /* 1, or the samples of the decisions before it; 0: it has not run */
    stw_action_kept action; /* of the task before */
    void *base;             /* (M, width) h W_x + h of a task before that has one sequence */
    void *x;                /* (rows, width) what is normed */
    void *n;                /* (rows, width) the block's input */
    stw_norm_kept norm;
    stw_attention_kept block; /* block.y: h */
    void *out;                /* (rows, dims) real numbers before they are spread, or log probabilities */
} stw_task_kept;

enum { STW_DRAFT_TASKS = 3 };
typedef struct stw_draft_kept {
    stw_task_kept fusion, placement, schedule;
    void *query_hidden, *query; /* (rows of the placement, score_width) */
} stw_draft_kept;

struct stw_pass {
    stw_net *net;
    stw_arena scratch; /* used by copy: conversions on the host */
    /* Memory, by how long it lasts: the input; the trunk, until it runs again; a backward pass; a part of it; one layer. */
    stw_tape *input_tape, *trunk_tape, *back_tape, *part_tape, *layer_tape;
    stw_held_input input;
    bool has_input;

    /* Kept by the trunk; rows: M. */
    void *pooled;         /* (M * D, pair_width) relu */
    void *pair;           /* (M, pair_width) the largest */
    int32_t *pair_chosen; /* (M, pair_width) */
    void *operator_;      /* (M, operator_width) */
    void *x0;             /* (M, width) */
    stw_sage_kept sage[STW_NET_MAX_LAYERS];
    void *graph;                     /* (1, width) */
    void *gate[STW_NET_MAX_LAYERS];  /* (1, width), or (M, width) */
    void *gated[STW_NET_MAX_LAYERS]; /* (M, width) */
    stw_attention_kept attention[STW_NET_MAX_LAYERS];
    /* Kept by the tasks. */
    stw_draft_kept draft[STW_MOST_DRAFTS];
    stw_draft_kept *now;                   /* the draft that runs, or that is gone back through */
    void *device_hidden, *device, *scaled; /* (D, score_width); scaled: device / sqrt(score_width) */
    /* In a backward pass. */
    void *d_first;  /* (M, width) of the first task's h, by those after it */
    void *d_x0;     /* (M, width) by the heads alone */
    void *d_graph;  /* (1, width) the gradient of the graph vector */
    void *d_device; /* (D, score_width) of the devices' embedding, for the head `device` */
};

static inline int32_t stw_net_drafts(const stw_net *net) { return net->config.drafts > 1 ? net->config.drafts : 1; }
static inline bool stw_net_fuses(const stw_net *net) { return net->config.fusion != STW_FUSION_HEAD_NONE; }

/* The first task of a draft. */
static inline stw_task_kept *stw_first_task(const stw_net *net, stw_draft_kept *draft) {
    return stw_net_fuses(net) ? &draft->fusion : &draft->placement;
}

/* The layer by which a head's numbers are spread; NULL: they are log probabilities. */
static inline const stw_linear_layer *stw_fusion_common(const stw_net *net) {
    return net->config.fusion == STW_FUSION_HEAD_NUDGE ? &net->fusion_common : NULL;
}
static inline const stw_linear_layer *stw_placement_common(const stw_net *net) {
    return net->config.placement == STW_PLACEMENT_STEER ? &net->steer_common : NULL;
}
static inline const stw_linear_layer *stw_schedule_common(const stw_net *net) {
    return net->config.schedule == STW_SCHEDULE_NUDGE ? &net->nudge_common : NULL;
}

/* The output of the trunk, (M, width). */
const void *stw_trunk_output(const stw_pass *pass);
stw_status stw_trunk_forward(stw_pass *pass, stw_error *error);
/* d_x: (M, width), the gradient of the trunk's output; overwritten. */
stw_status stw_trunk_backward(stw_pass *pass, void *d_x, stw_error *error);

/* The tasks: from the trunk, or from the task before and its decisions, to the head's input h, (rows, width). `task->sequences`
 * is set by the caller. Backward: d_h, (rows, width), is overwritten. */
stw_status stw_first_task_forward(stw_pass *pass, stw_task_kept *task, stw_error *error);
stw_status stw_first_task_backward(stw_pass *pass, const stw_task_kept *task, void *d_h, void *d_x, stw_error *error);
/* `action`: decisions of the task before, as in policy.h. Backward adds to d_before, the gradient of that task's h. */
stw_status stw_next_task_forward(stw_pass *pass, const stw_task_kept *before, stw_task_kept *task, const double *action,
                                 stw_error *error);
stw_status stw_next_task_backward(stw_pass *pass, const stw_task_kept *before, const stw_task_kept *task, void *d_h,
                                  void *d_before, stw_error *error);

/* The heads, from h to `out`. Backward: d_out on the backend, overwritten; d_h is added to. */
stw_status stw_fusion_head_forward(stw_pass *pass, stw_error *error);
stw_status stw_fusion_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error);
stw_status stw_placement_head_forward(stw_pass *pass, stw_error *error);
stw_status stw_placement_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error);
stw_status stw_schedule_head_forward(stw_pass *pass, stw_error *error);
stw_status stw_schedule_head_backward(stw_pass *pass, void *d_out, void *d_h, stw_error *error);
/* What the heads gave, as callers see it. out: (sequences, M, width). */
stw_status stw_fusion_on_host(stw_pass *pass, double *out, stw_error *error);
stw_status stw_placement_on_host(stw_pass *pass, double *out, stw_error *error);
stw_status stw_schedule_on_host(stw_pass *pass, double *out, stw_error *error);
/* The spread of real numbers, raw: (sequences * M, dims) on the backend, out: the same on the host. Backward: from d_out on the
 * host; takes d_raw from the tape of the backward pass and adds to d_graph. */
stw_status stw_spread_forward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                              double *out, stw_error *error);
stw_status stw_spread_backward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                               const double *d_out, void *d_graph, void **d_raw, stw_error *error);
/* The devices' embedding, which the head and the task after it share. d_device is overwritten. */
stw_status stw_device_backward(stw_pass *pass, stw_error *error);

/* Zeroed reals. */
stw_status stw_tape_zeros(stw_backend *b, stw_tape *tape, int64_t count, void **out, stw_error *error);

#endif
