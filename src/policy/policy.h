/* The GO network: features -> GraphSAGE -> segment-recurrent attention with modulation -> one recurrent attention block per task,
 * with shared weights, each task conditioned on the decisions before it.
 *
 *   u    = features (M, unit + feedback + proposal columns), operator embedding, largest over devices of relu(pair features)
 *   x0   = relu(u W + v)                               (M, width); v: a vector per row, where the policy is for one graph
 *   x    = sage(x0)                  sage_layers times
 *   g    = mean over rows of x                         the graph
 *   x    = attention_l(x * 2 sigmoid(G_l g + b_l))     attention_layers times (modulation; starts as the identity)
 *   h_1  = block(norm(x W_x + x))                      placement
 *   a_1  = head_1(h_1, x0)                             (M, .); real numbers are spread by g
 *   h_2  = block(norm(h_1 W_x + h_1 + action(a_1) W_a))  scheduling: K samples of a_1, so (K * M, width)
 *   a_2  = head_2(h_2)                                 likewise
 *
 *   where fusion is decided too, it comes before them:
 *   h_f  = block(norm(x W_x + x))                      fusion
 *   a_f  = head_f(h_f, x0)                             (M, .)
 *   h_1  = block(norm(h_f W_x + h_f + action(a_f) W_a))  placement: K samples of a_f, so (K * M, width)
 *   and each of them goes on to one sample of the schedule
 *
 *   spread(z), of a head that gives real numbers; per dimension, over the M rows of a sequence (heads.c):
 *   z    = h W, of placement and fusion h W + x0 W_own (M, dims), no bias; what a row sees, and what it is
 *   n    = (z - mean z) / deviation of z               0 where all rows are equal
 *   s, l = halves of C g + c                           (dims) each; both start as 0
 *   a    = s + 0.3 exp(l) n                            l cut to [-5, 3]
 *
 *   drafts (the papers' T rounds), where there are several: the tasks run once more, each task knowing the last one before it,
 *   the first that of the draft before; only the last draft's decisions make the plan
 *   h    = block(norm(h' W_x + h' + action(a') W_a))   first task of a later draft; h', a': last task of the draft before
 *
 *   modulation per row, as in GDP: x * 2 sigmoid(G_l s + b_l), s the output of GraphSAGE, in the place of g
 *   without tasks, as in GDP: h_1 = x, and the placement is all that is decided
 *
 * block is one attention layer without the second half. The network knows neither graphs nor the simulator: plain arrays in,
 * plain arrays out. Distributions over the decisions are in distribution.h; what they mean for a plan is in train/decode.h.
 *
 * Heads of placement: `steer`: four real numbers per row (means of Gaussians), spread; `device`: a softmax over the devices,
 * each scored by <MLP(h), MLP(device features) + the vector of its number, if devices have names>. Of scheduling: `nudge`: one
 * real number per row, spread; `class`: a softmax over priority classes. Of fusion: none, or the same two.
 */
#ifndef STW_POLICY_POLICY_H
#define STW_POLICY_POLICY_H

#include "nn/layers.h"

typedef enum stw_placement_head { STW_PLACEMENT_STEER, STW_PLACEMENT_DEVICE } stw_placement_head;
typedef enum stw_schedule_head { STW_SCHEDULE_NUDGE, STW_SCHEDULE_CLASS } stw_schedule_head;
typedef enum stw_fusion_head { STW_FUSION_HEAD_NONE, STW_FUSION_HEAD_NUDGE, STW_FUSION_HEAD_CLASS } stw_fusion_head;

typedef enum stw_modulation { STW_MODULATION_NONE, STW_MODULATION_GRAPH, STW_MODULATION_ROW } stw_modulation;

enum { STW_STEER_KNOBS = 4, STW_MOST_DRAFTS = 4 };

/* The dimensions: what a checkpoint must agree on. All int32, so that they are written and read by one table (config.c). */
typedef struct stw_policy_config {
    int32_t feature_version;
    int32_t unit_columns, feedback_columns, device_columns, pair_columns; /* feedback and pair 0: the network does without */
    int32_t operators, operator_width;
    int32_t identities; /* rows with a vector of their own: a policy for one graph, M rows; 0: a policy that transfers */
    int32_t width, pair_width;
    int32_t sage_layers, attention_layers, heads, inner, segment;
    int32_t modulation;       /* stw_modulation */
    int32_t placement;        /* stw_placement_head */
    int32_t schedule;         /* stw_schedule_head */
    int32_t classes;          /* of priority, for STW_SCHEDULE_CLASS */
    int32_t score_width;      /* of the device head */
    int32_t fusion;           /* stw_fusion_head */
    int32_t fusion_classes;   /* of fusion priority, for STW_FUSION_HEAD_CLASS; class 0: not merged */
    int32_t proposal_columns; /* 0: the network does not see what the round proposes */
    int32_t drafts;           /* 0, 1: one; more only of choices: heads `device` and `class` */
    int32_t device_names;     /* devices that have a vector of their number, for the head `device`; 0: like devices are alike */
    int32_t bare;             /* 1: no block of tasks, the placement follows the trunk */
} stw_policy_config;

/* Presets: "default", "paper" (GO) and "gdp". False if unknown. Feature columns are left 0 for the caller to fill in. */
bool stw_policy_preset(const char *name, stw_policy_config *out);
/* Gives the network a fusion head that goes with its schedule head. */
void stw_policy_add_fusion(stw_policy_config *config);
/* Refuses dimensions that make no network or would not fit memory. */
stw_status stw_policy_config_check(const stw_policy_config *config, stw_error *error);
/* Name and place of each dimension, for files and messages; NULL past the last. */
const char *stw_policy_config_field(int32_t index, stw_policy_config *config, int32_t **value);
/* Files state it only where it is not 0: those of networks without fusion are as they were before there was any. */
bool stw_policy_config_is_optional(int32_t index);

typedef struct stw_net stw_net;   /* the parameters; changed by updates only */
typedef struct stw_pass stw_pass; /* one run of it: activations */

stw_status stw_net_create(const stw_policy_config *config, stw_backend *backend, uint64_t seed, stw_net **out, stw_error *error);
void stw_net_destroy(stw_net *net);
const stw_policy_config *stw_net_config(const stw_net *net);
stw_parameters *stw_net_parameters(stw_net *net);

/* What the network sees; host arrays. */
typedef struct stw_net_input {
    int32_t M, D;
    const double *unit;                       /* (M, unit_columns) */
    const double *feedback;                   /* (M, feedback_columns) or NULL: zeros */
    const double *pair;                       /* (M, D, pair_columns) or NULL: zeros */
    const double *proposal;                   /* (M, proposal_columns) or NULL: zeros */
    const double *device;                     /* (D, device_columns); only for the head `device` */
    const int32_t *operator_;                 /* (M) in [0, operators) */
    const int32_t *producer_start, *producer; /* (M + 1), (.) */
    const int32_t *reader_start, *reader;
} stw_net_input;

stw_status stw_pass_create(stw_net *net, stw_pass **out, stw_error *error);
void stw_pass_destroy(stw_pass *pass);
/* Makes the input known (copied to the backend); valid for any number of forward passes until the next call. */
stw_status stw_pass_set_input(stw_pass *pass, const stw_net_input *input, stw_error *error);

/* Numbers per row that the placement head gives: 4 (means of the knobs), or D (log probabilities). */
int32_t stw_pass_placement_width(const stw_pass *pass);
int32_t stw_pass_schedule_width(const stw_pass *pass); /* 1 or classes */
int32_t stw_pass_fusion_width(const stw_pass *pass);   /* 1, classes, or 0: the network has no such head */

/* Up to the first head: of a network without fusion. out: (M, placement width). */
stw_status stw_pass_placement(stw_pass *pass, double *out, stw_error *error);
/* Up to the first head: of a network with fusion. out: (M, fusion width). */
stw_status stw_pass_fusion(stw_pass *pass, double *out, stw_error *error);
/* The placement task for K samples of fusion; after stw_pass_fusion. action: (K, M) nudges, or classes as doubles; out: (K, M,
 * placement width). Segments do not cross samples. */
stw_status stw_pass_place(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error);
/* The scheduling task for K samples of the placement; after stw_pass_placement, or after stw_pass_place with the same K. action:
 * (K, M, 4) knobs, or (K, M) devices as doubles; out: (K, M, schedule width). */
stw_status stw_pass_schedule(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error);
/* The first task of the next draft, for K samples of the last task that ran; where that ran for samples, as many. action: (K, M)
 * that task's choices as doubles; out: (K, M, width of the first task). _place and _schedule are of this draft then. */
stw_status stw_pass_next_draft(stw_pass *pass, int32_t K, const double *action, double *out, stw_error *error);
/* Of the loss by what the tasks of a draft gave; shapes as those outputs. NULL: that task was not run, does not count, or
 * (fusion) the network has none. */
typedef struct stw_net_gradient {
    const double *fusion, *placement, *schedule;
} stw_net_gradient;
/* Adds the gradient of the loss to the net's gradient block. of_draft: of each draft that ran in the last forward passes. */
stw_status stw_pass_backward(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error);

/* In parts, where what all samples keep for the way back would fill the memory: the trunk and the first task of the first draft
 * run once; then, for some samples after the other, the rest runs from there, after _rewind, and _add_backward goes back through
 * it; _end_backward goes back through what all share. The sums are those of stw_pass_backward in another order. of_draft: as
 * there; _add_backward takes no notice of what the first task of all gave, _end_backward of anything else. */
void stw_pass_rewind(stw_pass *pass);
stw_status stw_pass_begin_backward(stw_pass *pass, stw_error *error);
stw_status stw_pass_add_backward(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error);
stw_status stw_pass_end_backward(stw_pass *pass, const stw_net_gradient *of_draft, stw_error *error);

#endif
