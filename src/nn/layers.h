/* Layers: each knows its parameters and sizes, runs forward into memory that it takes, and backward from what it kept.
 *
 * A layer is declared once (parameters) and run on any number of rows. `tape` is memory on the backend that lasts from the
 * forward pass to the end of the backward pass. Shapes: R rows, W width. */
#ifndef STW_NN_LAYERS_H
#define STW_NN_LAYERS_H

#include "nn/parameters.h"

/* Memory on the backend, handed out in order and given back all at once; it grows in chunks and keeps them. */
typedef struct stw_tape stw_tape;
stw_status stw_tape_create(stw_backend *backend, stw_tape **out, stw_error *error);
void stw_tape_destroy(stw_tape *tape);
void stw_tape_reset(stw_tape *tape);
int64_t stw_tape_bytes(const stw_tape *tape); /* taken from the backend so far */
/* A place in the tape, and back to it: what was taken since is free again. */
typedef struct stw_tape_mark {
    int32_t chunk;
    int64_t used; /* bytes of it */
} stw_tape_mark;
stw_tape_mark stw_tape_here(const stw_tape *tape);
void stw_tape_back(stw_tape *tape, stw_tape_mark mark);
/* `count` reals (or int32), not zeroed. */
stw_status stw_tape_reals(stw_tape *tape, int64_t count, void **out, stw_error *error);
stw_status stw_tape_indices(stw_tape *tape, int64_t count, int32_t **out, stw_error *error);

typedef struct stw_linear_layer {
    int32_t in, out;
    int32_t weight, bias; /* parameters; bias -1: none */
    bool relu;
} stw_linear_layer;
stw_linear_layer stw_linear_declare(stw_parameters *p, const char *name, int32_t in, int32_t out, bool bias, bool relu,
                                    double scale);

typedef struct stw_norm_layer {
    int32_t width, gain, bias;
} stw_norm_layer;
stw_norm_layer stw_norm_declare(stw_parameters *p, const char *name, int32_t width);
typedef struct stw_norm_kept {
    void *normal, *inverse;
} stw_norm_kept;

/* GraphSAGE with max pooling: y = relu(x A^T + in B^T + out C^T + b), where in (out) is the element-wise largest of
 * relu(x P^T + p) over the producers (readers) of a row. */
typedef struct stw_sage_layer {
    int32_t in, out;
    stw_linear_layer pool_in, pool_out;       /* in -> in */
    stw_linear_layer self, from_in, from_out; /* in -> out; the bias is with `self` */
} stw_sage_layer;
stw_sage_layer stw_sage_declare(stw_parameters *p, const char *name, int32_t in, int32_t out);
typedef struct stw_sage_kept {
    const void *x;
    void *pooled_in, *pooled_out; /* relu(x P^T + p) */
    void *in, *out;               /* their maxima over neighbours */
    int32_t *chosen_in, *chosen_out;
    void *y;
} stw_sage_kept;
/* x: (R, in), y: (R, out) taken from the tape. `producers` and `readers` have R rows and R sources. */
stw_status stw_sage_forward(const stw_sage_layer *layer, const stw_parameters *p, const stw_gathering *producers,
                            const stw_gathering *readers, const void *x, stw_tape *tape, stw_sage_kept *kept, stw_error *error);
/* d_y is overwritten. d_x: (R, in) written. */
stw_status stw_sage_backward(const stw_sage_layer *layer, stw_parameters *p, const stw_gathering *producers,
                             const stw_gathering *readers, const stw_sage_kept *kept, void *d_y, void *d_x, stw_tape *tape,
                             stw_error *error);

/* One block of segment-recurrent attention: a = norm1(x + attend(x) O^T), y = norm2(a + relu(a F^T) G^T). inner 0: y = a, no
 * second half. */
typedef struct stw_attention_layer {
    int32_t width, inner, heads;
    stw_linear_layer query, key, value, output, up, down;
    stw_norm_layer norm1, norm2;
} stw_attention_layer;
stw_attention_layer stw_attention_declare(stw_parameters *p, const char *name, int32_t width, int32_t inner, int32_t heads);
typedef struct stw_attention_kept {
    stw_attention_shape shape;
    const void *x;
    void *q, *k, *v, *attended, *peak, *a, *hidden, *y;
    stw_norm_kept norm1, norm2;
} stw_attention_kept;
/* x: (rows, width) with rows, sequence and segment as in stw_attention_shape. */
stw_status stw_attention_forward(const stw_attention_layer *layer, const stw_parameters *p, int32_t rows, int32_t sequence,
                                 int32_t segment, const void *x, stw_tape *tape, stw_attention_kept *kept, stw_error *error);
/* d_y is overwritten. d_x: (rows, width) written. */
stw_status stw_attention_backward(const stw_attention_layer *layer, stw_parameters *p, const stw_attention_kept *kept, void *d_y,
                                  void *d_x, stw_tape *tape, stw_error *error);

/* LSTM over sequences: K of them side by side, a row per sequence and step. sums = x W^T + h_before U^T + b, then the step of
 * backend.h. The forget gate's bias starts at 1. */
typedef struct stw_lstm_layer {
    int32_t in, width;
    stw_linear_layer input;   /* in -> 4 width, with the bias */
    stw_linear_layer recurse; /* width -> 4 width, without */
} stw_lstm_layer;
stw_lstm_layer stw_lstm_declare(stw_parameters *p, const char *name, int32_t in, int32_t width);
typedef struct stw_lstm_kept {
    int32_t steps, K;
    bool backwards;
    const void *x;
    void *gates, *c, *h; /* (steps, K, 4 width), (steps, K, width) twice; of step t whichever way it runs */
} stw_lstm_kept;
/* x: (steps, K, in). `backwards`: from the last step to the first. All of kept->h is the output. */
stw_status stw_lstm_forward(const stw_lstm_layer *layer, const stw_parameters *p, int32_t steps, int32_t K, bool backwards,
                            const void *x, stw_tape *tape, stw_lstm_kept *kept, stw_error *error);
/* d_h: (steps, K, width), overwritten. d_c: (K, width), by the state c of the step that ran last, overwritten; NULL: zeros. d_x:
 * (steps, K, in) or NULL, added to if `add`. */
stw_status stw_lstm_backward(const stw_lstm_layer *layer, stw_parameters *p, const stw_lstm_kept *kept, void *d_h, void *d_c,
                             bool add, void *d_x, stw_tape *tape, stw_error *error);

/* Short forms of the kernels with a layer's parameters. */
void stw_linear_forward(const stw_linear_layer *layer, const stw_parameters *p, int32_t rows, const void *x, bool add, void *y);
void stw_linear_backward(const stw_linear_layer *layer, stw_parameters *p, int32_t rows, const void *x, const void *y, void *d_y,
                         bool add, void *d_x);
stw_status stw_norm_forward(const stw_norm_layer *layer, const stw_parameters *p, int32_t rows, const void *x,
                            const void *residual, void *y, stw_tape *tape, stw_norm_kept *kept, stw_error *error);
void stw_norm_backward(const stw_norm_layer *layer, stw_parameters *p, int32_t rows, const stw_norm_kept *kept, const void *d_y,
                       void *d_z);

#endif
