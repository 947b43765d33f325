#include <stdio.h>

#include "nn/layers.h"

static stw_linear_layer part(stw_parameters *p, const char *name, const char *which, int32_t in, int32_t out, bool bias,
                             bool relu) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", name, which);
    return stw_linear_declare(p, full, in, out, bias, relu, 1.0);
}

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

static stw_status take(int64_t rows, const stw_sage_layer *layer, stw_tape *tape, stw_sage_kept *kept, stw_error *error) {
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
    TRY(take(rows, layer, tape, kept, error));
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
