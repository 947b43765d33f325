/* One training step as it is written down: a family writes its forward ops, stw_step_finish adds the derivative of each op in
 * reverse and one update per parameter. Operators, sizes and arithmetic are those of PyTorch's traces, views and the detached
 * results that derivatives read included (docs/generating.md).
 *
 * A tensor is the number of the node that makes it. The first failure stays: every later call returns tensor 0 and
 * stw_step_finish reports it, so that families need not check each call. */
#ifndef STW_GENERATE_STEP_H
#define STW_GENERATE_STEP_H

#include <stdio.h>

#include "base/str.h"

typedef int32_t stw_tensor;
typedef struct stw_step stw_step;

enum { STW_NO_TENSOR = -1, STW_STEP_MAX_RANK = 6, STW_STEP_MAX_OPS = 1000000 };

typedef struct stw_shape {
    int32_t rank;
    int64_t size[STW_STEP_MAX_RANK];
} stw_shape;
#define STW_SHAPE(...) ((stw_shape){.rank = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .size = {__VA_ARGS__}})

/* All memory is the arena's. */
stw_status stw_step_create(stw_arena *arena, stw_step **out, stw_error *error);
stw_arena *stw_step_arena(stw_step *step); /* for lists of tensors */
/* Derivatives and updates. `loss` is a number. STW_ERROR_INPUT with the first failure; also when a parameter gets no gradient. */
stw_status stw_step_finish(stw_step *step, stw_tensor loss, stw_error *error);
/* opgraph JSON; the caller checks ferror(). Fails when out of memory. */
stw_status stw_step_write(const stw_step *step, stw_str name, stw_str family, FILE *file, stw_error *error);
int64_t stw_step_op_count(const stw_step *step);
double stw_step_flops(const stw_step *step);
int64_t stw_step_parameter_bytes(const stw_step *step);

/* Keeps the first failure. */
void stw_step_fail(stw_step *step, const char *format, ...) STW_PRINTF(2, 3);
bool stw_step_failed(const stw_step *step);
/* printf into the step's memory, for labels. */
const char *stw_step_label(stw_step *step, const char *format, ...) STW_PRINTF(2, 3);

/* step.c: sources. The first component of a label that is a number tells the layer ("layers.2.gates.weight"). */
stw_tensor stw_step_parameter(stw_step *step, stw_shape shape, const char *label);
stw_tensor stw_step_buffer(stw_step *step, stw_shape shape, const char *label);     /* f32 */
stw_tensor stw_step_int_buffer(stw_step *step, stw_shape shape, const char *label); /* s64 */
stw_tensor stw_step_input(stw_step *step, stw_shape shape);                         /* f32 */
stw_tensor stw_step_int_input(stw_step *step, stw_shape shape);                     /* s64 */
stw_shape stw_step_shape(const stw_step *step, stw_tensor tensor);

/* step_views.c: aliases, free. Dimensions may not be negative. */
stw_tensor stw_step_view(stw_step *step, stw_tensor x, stw_shape shape);    /* fails where strides do not allow it */
stw_tensor stw_step_reshape(stw_step *step, stw_tensor x, stw_shape shape); /* a view, else a copy */
stw_tensor stw_step_t(stw_step *step, stw_tensor x);                        /* of a matrix */
stw_tensor stw_step_transpose(stw_step *step, stw_tensor x, int32_t a, int32_t b);
stw_tensor stw_step_permute(stw_step *step, stw_tensor x, const char *order); /* "021": a digit per dimension */
stw_tensor stw_step_unsqueeze(stw_step *step, stw_tensor x, int32_t dimension);
stw_tensor stw_step_squeeze(stw_step *step, stw_tensor x, int32_t dimension);
stw_tensor stw_step_expand(stw_step *step, stw_tensor x, stw_shape shape);
stw_tensor stw_step_select(stw_step *step, stw_tensor x, int32_t dimension, int64_t index);
stw_tensor stw_step_slice(stw_step *step, stw_tensor x, int32_t dimension, int64_t from, int64_t count);
/* Equal parts along a dimension, into out[parts]. */
void stw_step_split(stw_step *step, stw_tensor x, int32_t dimension, int32_t parts, stw_tensor *out);
stw_tensor stw_step_detach(stw_step *step, stw_tensor x); /* no gradient goes through it */
stw_tensor stw_step_alias(stw_step *step, stw_tensor x);

/* step_element.c: element by element; add and mul broadcast. */
stw_tensor stw_step_add(stw_step *step, stw_tensor a, stw_tensor b);
stw_tensor stw_step_add_in_place(stw_step *step, stw_tensor a, stw_tensor b);
stw_tensor stw_step_mul(stw_step *step, stw_tensor a, stw_tensor b);
stw_tensor stw_step_shift(stw_step *step, stw_tensor x);  /* plus a constant */
stw_tensor stw_step_scale(stw_step *step, stw_tensor x);  /* times a constant */
stw_tensor stw_step_divide(stw_step *step, stw_tensor x); /* by a constant */
stw_tensor stw_step_power(stw_step *step, stw_tensor x);  /* to a constant */
stw_tensor stw_step_sigmoid(stw_step *step, stw_tensor x);
stw_tensor stw_step_tanh(stw_step *step, stw_tensor x);
stw_tensor stw_step_relu(stw_step *step, stw_tensor x);
stw_tensor stw_step_relu_in_place(stw_step *step, stw_tensor x);
stw_tensor stw_step_gelu(stw_step *step, stw_tensor x);
stw_tensor stw_step_silu(stw_step *step, stw_tensor x);
stw_tensor stw_step_dropout(stw_step *step, stw_tensor x);

/* step_gather.c: joins, copies, sums, rows of tables */
stw_tensor stw_step_cat(stw_step *step, const stw_tensor *x, int32_t count, int32_t dimension);
stw_tensor stw_step_stack(stw_step *step, const stw_tensor *x, int32_t count, int32_t dimension);
stw_tensor stw_step_clone(stw_step *step, stw_tensor x);
stw_tensor stw_step_zeros(stw_step *step, stw_tensor like, stw_shape shape); /* takes no gradient */
/* More elements at the end of a dimension (fewer, if negative). */
stw_tensor stw_step_pad(stw_step *step, stw_tensor x, int32_t dimension, int64_t count);
/* Over the dimensions where `shape`, of equal rank, has 1; keeps them. */
stw_tensor stw_step_sum_to(stw_step *step, stw_tensor x, stw_shape shape);
stw_tensor stw_step_sum(stw_step *step, stw_tensor x, int32_t dimension); /* drops the dimension */
stw_tensor stw_step_mean_to(stw_step *step, stw_tensor x, stw_shape shape);
stw_tensor stw_step_embedding(stw_step *step, stw_tensor table, stw_tensor ids);
stw_tensor stw_step_index_select(stw_step *step, stw_tensor x, stw_tensor ids);                 /* rows of a matrix */
stw_tensor stw_step_index_add(stw_step *step, stw_tensor x, stw_tensor ids, stw_tensor source); /* x + rows of source */
/* The `count` largest of each row of a matrix. */
void stw_step_topk(stw_step *step, stw_tensor x, int64_t count, stw_tensor *values, stw_tensor *ids);

/* step_product.c */
typedef struct stw_linear {
    stw_tensor weight, bias; /* bias: or STW_NO_TENSOR */
} stw_linear;
stw_linear stw_linear_create(stw_step *step, int64_t in, int64_t out, bool with_bias, const char *label);
stw_tensor stw_step_linear(stw_step *step, stw_tensor x, stw_linear linear);
stw_tensor stw_step_addmm(stw_step *step, stw_tensor bias, stw_tensor a, stw_tensor b);
stw_tensor stw_step_bmm(stw_step *step, stw_tensor a, stw_tensor b);
stw_tensor stw_step_matmul(stw_step *step, stw_tensor a, stw_tensor b); /* of matrices in the last two of four dimensions */

/* step_loss.c */
stw_tensor stw_step_softmax(stw_step *step, stw_tensor x);                            /* along the last dimension */
stw_tensor stw_step_cross_entropy(stw_step *step, stw_tensor logits, stw_tensor ids); /* over the last dimension */
stw_tensor stw_step_mean_square(stw_step *step, stw_tensor x);

/* step_norm.c */
typedef struct stw_norm {
    stw_tensor weight, bias;
    stw_tensor mean, variance, batches; /* of batch norm */
} stw_norm;
stw_norm stw_norm_create(stw_step *step, int64_t channels, const char *label);
stw_norm stw_batch_norm_create(stw_step *step, int64_t channels, const char *label);
stw_tensor stw_step_layer_norm(stw_step *step, stw_tensor x, stw_norm norm);
stw_tensor stw_step_group_norm(stw_step *step, stw_tensor x, int64_t groups, stw_norm norm);
stw_tensor stw_step_batch_norm(stw_step *step, stw_tensor x, stw_norm norm);

/* step_image.c: x is (batch, channels, height, width) or (batch, channels, length) */
typedef struct stw_window {
    int64_t kernel[2], stride, padding[2], dilation; /* stride and dilation: 0 means 1 */
} stw_window;
stw_window stw_window_same(int64_t kernel, int64_t stride); /* padded so that a stride of 1 keeps the size */
/* Makes its own weight, "LABEL.weight", and bias if asked for. */
stw_tensor stw_step_convolution(stw_step *step, stw_tensor x, int64_t channels, stw_window window, int64_t groups, bool with_bias,
                                const char *label);
/* Transposed: the image grows by the stride, which is the kernel. */
stw_tensor stw_step_upsample(stw_step *step, stw_tensor x, int64_t channels, int64_t kernel, const char *label);
stw_tensor stw_step_max_pool(stw_step *step, stw_tensor x, stw_window window);
stw_tensor stw_step_average_pool(stw_step *step, stw_tensor x, stw_window window);

/* recurrent.c */
typedef struct stw_lstm_state {
    stw_tensor h, c;
} stw_lstm_state;
/* One step of an LSTM cell whose gates are one linear map of (input, h). */
stw_lstm_state stw_step_lstm(stw_step *step, stw_tensor x, stw_lstm_state state, stw_linear gates);

#endif
