#include <stdio.h>

#include "nn/layers.h"

static stw_linear_layer part(stw_parameters *p, const char *name, const char *which, int32_t in, int32_t out, bool relu) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, which);
    return stw_linear_declare(p, full, in, out, false, relu, 1.0);
}

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
        .query = part(p, name, "query", width, width, false),
        .key = part(p, name, "key", width, width, false),
        .value = part(p, name, "value", width, width, false),
        .output = part(p, name, "output", width, width, false),
        .norm1 = norm_part(p, name, "norm1", width),
    };
    if (inner == 0) return layer;
    layer.up = part(p, name, "up", width, inner, true);
    layer.down = part(p, name, "down", inner, width, false);
    layer.norm2 = norm_part(p, name, "norm2", width);
    return layer;
}

static stw_status take(int64_t rows, const stw_attention_layer *layer, stw_tape *tape, stw_attention_kept *kept,
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
    TRY(take(rows, layer, tape, kept, error));
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
