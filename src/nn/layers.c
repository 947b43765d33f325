#include "nn/layers.h"

#include <stdio.h>

/* ---- linear ---- */

stw_linear_layer stw_linear_declare(stw_parameters *p, const char *name, int32_t in, int32_t out, bool bias, bool relu,
                                    double scale) {
    return (stw_linear_layer){
        .in = in,
        .out = out,
        .weight = stw_parameters_declare(p, out, in, STW_START_UNIFORM, scale, "%s.weight", name),
        .bias = bias ? stw_parameters_declare(p, 1, out, STW_START_ZERO, 0.0, "%s.bias", name) : -1,
        .relu = relu,
    };
}

void stw_linear_forward(const stw_linear_layer *layer, const stw_parameters *p, int32_t rows, const void *x, bool add, void *y) {
    stw_backend *b = p->backend;
    const void *bias = layer->bias < 0 ? NULL : stw_parameter_value(p, layer->bias);
    b->linear(b, rows, layer->in, layer->out, x, stw_parameter_value(p, layer->weight), bias, add, layer->relu, y);
}

void stw_linear_backward(const stw_linear_layer *layer, stw_parameters *p, int32_t rows, const void *x, const void *y, void *d_y,
                         bool add, void *d_x) {
    stw_backend *b = p->backend;
    void *d_bias = layer->bias < 0 ? NULL : stw_parameter_gradient(p, layer->bias);
    b->linear_back(b, rows, layer->in, layer->out, x, stw_parameter_value(p, layer->weight), y, layer->relu, d_y, add, d_x,
                   stw_parameter_gradient(p, layer->weight), d_bias);
}

/* A linear layer of a larger one. */
static stw_linear_layer part(stw_parameters *p, const char *name, const char *which, int32_t in, int32_t out, bool bias,
                             bool relu) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, which);
    return stw_linear_declare(p, full, in, out, bias, relu, 1.0);
}

/* ---- norm ---- */

stw_norm_layer stw_norm_declare(stw_parameters *p, const char *name, int32_t width) {
    return (stw_norm_layer){
        .width = width,
        .gain = stw_parameters_declare(p, 1, width, STW_START_ONE, 0.0, "%s.gain", name),
        .bias = stw_parameters_declare(p, 1, width, STW_START_ZERO, 0.0, "%s.bias", name),
    };
}

stw_status stw_norm_forward(const stw_norm_layer *layer, const stw_parameters *p, int32_t rows, const void *x,
                            const void *residual, void *y, stw_tape *tape, stw_norm_kept *kept, stw_error *error) {
    stw_backend *b = p->backend;
    TRY(stw_tape_reals(tape, (int64_t)rows * layer->width, &kept->normal, error));
    TRY(stw_tape_reals(tape, rows, &kept->inverse, error));
    b->norm(b, rows, layer->width, x, residual, stw_parameter_value(p, layer->gain), stw_parameter_value(p, layer->bias), y,
            kept->normal, kept->inverse);
    return STW_OK;
}

void stw_norm_backward(const stw_norm_layer *layer, stw_parameters *p, int32_t rows, const stw_norm_kept *kept, const void *d_y,
                       void *d_z) {
    stw_backend *b = p->backend;
    b->norm_back(b, rows, layer->width, kept->normal, kept->inverse, stw_parameter_value(p, layer->gain), d_y, d_z,
                 stw_parameter_gradient(p, layer->gain), stw_parameter_gradient(p, layer->bias));
}

/* ---- sage: what producers and readers say ---- */

stw_sage_layer stw_sage_declare(stw_parameters *p, const char *name, int32_t in, int32_t out) {
    return (stw_sage_layer){
        .in = in,
        .out = out,
        .pool_in = part(p, name, "pool_in", in, in, true, true),
        .pool_out = part(p, name, "pool_out", in, in, true, true),
        .self = part(p, name, "self", in, out, true, false),
        .from_in = part(p, name, "from_in", in, out, false, false),
        .from_out = part(p, name, "from_out", in, out, false, true), /* runs last and cuts the sum */
    };
}

static stw_status take_sage(int64_t rows, const stw_sage_layer *layer, stw_tape *tape, stw_sage_kept *kept, stw_error *error) {
    const int64_t count = rows * layer->in;
    TRY(stw_tape_reals(tape, count, &kept->pooled_in, error));
    TRY(stw_tape_reals(tape, count, &kept->pooled_out, error));
    TRY(stw_tape_reals(tape, count, &kept->in, error));
    TRY(stw_tape_reals(tape, count, &kept->out, error));
    TRY(stw_tape_indices(tape, count, &kept->chosen_in, error));
    TRY(stw_tape_indices(tape, count, &kept->chosen_out, error));
    return stw_tape_reals(tape, rows * layer->out, &kept->y, error);
}

stw_status stw_sage_forward(const stw_sage_layer *layer, const stw_parameters *p, const stw_gathering *producers,
                            const stw_gathering *readers, const void *x, stw_tape *tape, stw_sage_kept *kept, stw_error *error) {
    stw_backend *b = p->backend;
    const int32_t rows = producers->rows;
    *kept = (stw_sage_kept){.x = x};
    TRY(take_sage(rows, layer, tape, kept, error));
    stw_linear_forward(&layer->pool_in, p, rows, x, false, kept->pooled_in);
    stw_linear_forward(&layer->pool_out, p, rows, x, false, kept->pooled_out);
    b->gather_max(b, producers, layer->in, kept->pooled_in, kept->in, kept->chosen_in);
    b->gather_max(b, readers, layer->in, kept->pooled_out, kept->out, kept->chosen_out);
    stw_linear_forward(&layer->self, p, rows, x, false, kept->y);
    stw_linear_forward(&layer->from_in, p, rows, kept->in, true, kept->y);
    stw_linear_forward(&layer->from_out, p, rows, kept->out, true, kept->y);
    return STW_OK;
}

stw_status stw_sage_backward(const stw_sage_layer *layer, stw_parameters *p, const stw_gathering *producers,
                             const stw_gathering *readers, const stw_sage_kept *kept, void *d_y, void *d_x, stw_tape *tape,
                             stw_error *error) {
    stw_backend *b = p->backend;
    const int32_t rows = producers->rows;
    const stw_tape_mark begin = stw_tape_here(tape);
    void *d_in, *d_out, *d_pooled;
    TRY(stw_tape_reals(tape, (int64_t)rows * layer->in, &d_in, error));
    TRY(stw_tape_reals(tape, (int64_t)rows * layer->in, &d_out, error));
    TRY(stw_tape_reals(tape, (int64_t)rows * layer->in, &d_pooled, error));
    stw_linear_backward(&layer->from_out, p, rows, kept->out, kept->y, d_y, false, d_out); /* first: it cuts d_y */
    stw_linear_backward(&layer->from_in, p, rows, kept->in, NULL, d_y, false, d_in);
    stw_linear_backward(&layer->self, p, rows, kept->x, NULL, d_y, false, d_x);
    b->gather_max_back(b, producers, layer->in, kept->chosen_in, d_in, false, d_pooled);
    stw_linear_backward(&layer->pool_in, p, rows, kept->x, kept->pooled_in, d_pooled, true, d_x);
    b->gather_max_back(b, readers, layer->in, kept->chosen_out, d_out, false, d_pooled);
    stw_linear_backward(&layer->pool_out, p, rows, kept->x, kept->pooled_out, d_pooled, true, d_x);
    stw_tape_back(tape, begin);
    return STW_OK;
}

/* ---- attention ---- */

static stw_norm_layer norm_part(stw_parameters *p, const char *name, const char *which, int32_t width) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, which);
    return stw_norm_declare(p, full, width);
}

stw_attention_layer stw_attention_declare(stw_parameters *p, const char *name, int32_t width, int32_t inner, int32_t heads) {
    stw_attention_layer layer = {
        .width = width,
        .inner = inner,
        .heads = heads,
        .query = part(p, name, "query", width, width, false, false),
        .key = part(p, name, "key", width, width, false, false),
        .value = part(p, name, "value", width, width, false, false),
        .output = part(p, name, "output", width, width, false, false),
        .norm1 = norm_part(p, name, "norm1", width),
    };
    if (inner == 0) return layer;
    layer.up = part(p, name, "up", width, inner, false, true);
    layer.down = part(p, name, "down", inner, width, false, false);
    layer.norm2 = norm_part(p, name, "norm2", width);
    return layer;
}

static stw_status take_attention(int64_t rows, const stw_attention_layer *layer, stw_tape *tape, stw_attention_kept *kept,
                                 stw_error *error) {
    const int64_t count = rows * layer->width;
    void **out[] = {&kept->q, &kept->k, &kept->v, &kept->attended, &kept->a};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) TRY(stw_tape_reals(tape, count, out[i], error));
    TRY(stw_tape_reals(tape, rows * layer->heads, &kept->peak, error));
    if (layer->inner == 0) return STW_OK;
    TRY(stw_tape_reals(tape, rows * layer->inner, &kept->hidden, error));
    return stw_tape_reals(tape, count, &kept->y, error);
}

stw_status stw_attention_forward(const stw_attention_layer *layer, const stw_parameters *p, int32_t rows, int32_t sequence,
                                 int32_t segment, const void *x, stw_tape *tape, stw_attention_kept *kept, stw_error *error) {
    stw_backend *b = p->backend;
    *kept = (stw_attention_kept){.x = x, .shape = {rows, sequence, segment, layer->heads, layer->width}};
    TRY(take_attention(rows, layer, tape, kept, error));
    stw_linear_forward(&layer->query, p, rows, x, false, kept->q);
    stw_linear_forward(&layer->key, p, rows, x, false, kept->k);
    stw_linear_forward(&layer->value, p, rows, x, false, kept->v);
    b->attend(b, &kept->shape, kept->q, kept->k, kept->v, kept->attended, kept->peak);
    stw_linear_forward(&layer->output, p, rows, kept->attended, false, kept->a);
    TRY(stw_norm_forward(&layer->norm1, p, rows, kept->a, x, kept->a, tape, &kept->norm1, error));
    if (layer->inner == 0) {
        kept->y = kept->a;
        return STW_OK;
    }
    stw_linear_forward(&layer->up, p, rows, kept->a, false, kept->hidden);
    stw_linear_forward(&layer->down, p, rows, kept->hidden, false, kept->y);
    return stw_norm_forward(&layer->norm2, p, rows, kept->y, kept->a, kept->y, tape, &kept->norm2, error);
}

typedef struct { /* gradients on their way back, (rows, width) but for hidden */
    void *a, *hidden, *attended, *q, *k, *v, *k_later, *v_later;
} gradients;

static stw_status take_gradients(int64_t rows, const stw_attention_layer *layer, stw_tape *tape, gradients *d, stw_error *error) {
    void **out[] = {&d->attended, &d->q, &d->k, &d->v, &d->k_later, &d->v_later};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) TRY(stw_tape_reals(tape, rows * layer->width, out[i], error));
    if (layer->inner == 0) return STW_OK;
    TRY(stw_tape_reals(tape, rows * layer->inner, &d->hidden, error));
    return stw_tape_reals(tape, rows * layer->width, &d->a, error);
}

/* Through keys or values: x learns from its own segment alone, the weights from both. */
static void back_through_memory(const stw_linear_layer *layer, stw_parameters *p, const stw_attention_kept *kept, void *d_own,
                                const void *d_later, void *d_x) {
    stw_backend *b = p->backend;
    const int32_t rows = kept->shape.rows;
    const void *weight = stw_parameter_value(p, layer->weight);
    void *d_weight = stw_parameter_gradient(p, layer->weight);
    const bool alone = kept->shape.sequence <= kept->shape.segment; /* no segment has one after it */
    b->linear_back(b, rows, layer->in, layer->out, kept->x, weight, NULL, false, d_own, true, d_x, alone ? d_weight : NULL, NULL);
    if (alone) return;
    b->add_scaled(b, (int64_t)rows * layer->out, 1.0, d_later, d_own);
    b->linear_back(b, rows, layer->in, layer->out, kept->x, weight, NULL, false, d_own, false, NULL, d_weight, NULL);
}

stw_status stw_attention_backward(const stw_attention_layer *layer, stw_parameters *p, const stw_attention_kept *kept, void *d_y,
                                  void *d_x, stw_tape *tape, stw_error *error) {
    stw_backend *b = p->backend;
    const int32_t rows = kept->shape.rows;
    const stw_tape_mark begin = stw_tape_here(tape);
    gradients d = {.a = d_y};
    TRY(take_gradients(rows, layer, tape, &d, error));
    if (layer->inner > 0) {
        stw_norm_backward(&layer->norm2, p, rows, &kept->norm2, d_y, d.a);
        stw_linear_backward(&layer->down, p, rows, kept->hidden, NULL, d.a, false, d.hidden);
        stw_linear_backward(&layer->up, p, rows, kept->a, kept->hidden, d.hidden, true, d.a);
    }
    stw_norm_backward(&layer->norm1, p, rows, &kept->norm1, d.a, d_x); /* d_x: x is the residual */
    stw_linear_backward(&layer->output, p, rows, kept->attended, NULL, d_x, false, d.attended);
    b->attend_back(b, &kept->shape, kept->q, kept->k, kept->v, kept->attended, kept->peak, d.attended, d.q, d.k, d.v, d.k_later,
                   d.v_later);
    stw_linear_backward(&layer->query, p, rows, kept->x, NULL, d.q, true, d_x);
    back_through_memory(&layer->key, p, kept, d.k, d.k_later, d_x);
    back_through_memory(&layer->value, p, kept, d.v, d.v_later, d_x);
    stw_tape_back(tape, begin);
    return STW_OK;
}

/* ---- lstm ---- */

stw_lstm_layer stw_lstm_declare(stw_parameters *p, const char *name, int32_t in, int32_t width) {
    char input[64], recurse[64];
    snprintf(input, sizeof input, "%s.input", name);
    snprintf(recurse, sizeof recurse, "%s.recurse", name);
    stw_lstm_layer layer = {
        .in = in,
        .width = width,
        .input = stw_linear_declare(p, input, in, 4 * width, false, false, 1.0),
        .recurse = stw_linear_declare(p, recurse, width, 4 * width, false, false, 1.0),
    };
    layer.input.bias = stw_parameters_declare(p, 1, 4 * width, STW_START_FORGET, 0.0, "%s.bias", name);
    return layer;
}

/* Through a matrix to what it was multiplied with, not to the matrix. */
static void back_to_input(const stw_linear_layer *layer, const stw_parameters *p, int32_t rows, void *d_y, bool add, void *d_x) {
    stw_backend *b = p->backend;
    b->linear_back(b, rows, layer->in, layer->out, NULL, stw_parameter_value(p, layer->weight), NULL, false, d_y, add, d_x, NULL,
                   NULL);
}

/* Row t of (steps, K, width), on the backend. */
static void *at_step(const stw_parameters *p, void *block, int64_t t, int64_t K, int64_t width) {
    return (char *)block + t * K * width * (int64_t)p->backend->real_bytes;
}

stw_status stw_lstm_forward(const stw_lstm_layer *layer, const stw_parameters *p, int32_t steps, int32_t K, bool backwards,
                            const void *x, stw_tape *tape, stw_lstm_kept *kept, stw_error *error) {
    const int64_t width = layer->width, count = (int64_t)steps * K * width;
    *kept = (stw_lstm_kept){.steps = steps, .K = K, .backwards = backwards, .x = x};
    TRY(stw_tape_reals(tape, 4 * count, &kept->gates, error));
    TRY(stw_tape_reals(tape, count, &kept->c, error));
    TRY(stw_tape_reals(tape, count, &kept->h, error));
    stw_linear_forward(&layer->input, p, steps * K, x, false, kept->gates);
    void *h_before = NULL, *c_before = NULL;
    for (int32_t i = 0; i < steps; i++) {
        const int32_t t = backwards ? steps - 1 - i : i;
        void *gates = at_step(p, kept->gates, t, K, 4 * width), *c = at_step(p, kept->c, t, K, width);
        void *h = at_step(p, kept->h, t, K, width);
        if (h_before != NULL) stw_linear_forward(&layer->recurse, p, K, h_before, true, gates);
        p->backend->lstm(p->backend, K, layer->width, gates, c_before, c, h);
        h_before = h;
        c_before = c;
    }
    return STW_OK;
}

/* d_h collects what comes from the step that ran after; d_gates: (steps, K, 4 width), written. */
static void back_through_steps(const stw_lstm_layer *layer, const stw_parameters *p, const stw_lstm_kept *kept, void *d_h,
                               void *d_c, void *d_gates) {
    stw_backend *b = p->backend;
    const int64_t K = kept->K, width = layer->width;
    for (int32_t i = kept->steps; i-- > 0;) {
        const int32_t t = kept->backwards ? kept->steps - 1 - i : i, before = kept->backwards ? t + 1 : t - 1;
        void *c_before = i == 0 ? NULL : at_step(p, kept->c, before, K, width), *now = at_step(p, d_gates, t, K, 4 * width);
        b->lstm_back(b, kept->K, layer->width, at_step(p, kept->gates, t, K, 4 * width), c_before,
                     at_step(p, kept->c, t, K, width), at_step(p, d_h, t, K, width), d_c, now);
        if (i > 0) back_to_input(&layer->recurse, p, kept->K, now, true, at_step(p, d_h, before, K, width));
    }
}

stw_status stw_lstm_backward(const stw_lstm_layer *layer, stw_parameters *p, const stw_lstm_kept *kept, void *d_h, void *d_c,
                             bool add, void *d_x, stw_tape *tape, stw_error *error) {
    stw_backend *b = p->backend;
    const int64_t width = layer->width, K = kept->K;
    const int32_t later = kept->steps - 1; /* steps that had a step before them */
    const stw_tape_mark begin = stw_tape_here(tape);
    void *d_gates = NULL;
    TRY(stw_tape_reals(tape, kept->steps * K * 4 * width, &d_gates, error));
    if (d_c == NULL) {
        TRY(stw_tape_reals(tape, K * width, &d_c, error));
        b->zero(b, d_c, K * width * (int64_t)b->real_bytes);
    }
    back_through_steps(layer, p, kept, d_h, d_c, d_gates);
    stw_linear_backward(&layer->input, p, kept->steps * kept->K, kept->x, NULL, d_gates, add, d_x);
    if (later > 0)
        stw_linear_backward(&layer->recurse, p, later * kept->K, at_step(p, kept->h, kept->backwards ? 1 : 0, K, width), NULL,
                            at_step(p, d_gates, kept->backwards ? 0 : 1, K, 4 * width), false, NULL);
    stw_tape_back(tape, begin);
    return STW_OK;
}
