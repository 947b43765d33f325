#include <stdio.h>

#include "nn/layers.h"

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
