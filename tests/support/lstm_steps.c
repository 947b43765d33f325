#include "support/lstm_steps.h"

void stw_lstm_step(const stw_lstm_layer *layer, const stw_parameters *p, int32_t K, const void *x, const void *h_before,
                   const void *c_before, void *gates, void *c, void *h) {
    stw_linear_forward(&layer->input, p, K, x, false, gates);
    if (h_before != NULL) stw_linear_forward(&layer->recurse, p, K, h_before, true, gates);
    p->backend->lstm(p->backend, K, layer->width, gates, c_before, c, h);
}

/* Through a matrix to what it was multiplied with, not to the matrix. */
static void back_to_input(const stw_linear_layer *layer, const stw_parameters *p, int32_t rows, void *d_y, void *d_x) {
    stw_backend *b = p->backend;
    b->linear_back(b, rows, layer->in, layer->out, NULL, stw_parameter_value(p, layer->weight), NULL, false, d_y, false, d_x,
                   NULL, NULL);
}

void stw_lstm_step_back(const stw_lstm_layer *layer, const stw_parameters *p, int32_t K, const void *c_before, const void *gates,
                        const void *c, const void *d_h, void *d_c, void *d_gates, void *d_x, void *d_h_before) {
    p->backend->lstm_back(p->backend, K, layer->width, gates, c_before, c, d_h, d_c, d_gates);
    if (d_x != NULL) back_to_input(&layer->input, p, K, d_gates, d_x);
    if (d_h_before != NULL) back_to_input(&layer->recurse, p, K, d_gates, d_h_before);
}

void stw_lstm_weights_back(const stw_lstm_layer *layer, stw_parameters *p, int32_t rows, const void *x, const void *h_before,
                           void *d_gates) {
    stw_linear_backward(&layer->input, p, rows, x, NULL, d_gates, false, NULL);
    if (h_before != NULL) stw_linear_backward(&layer->recurse, p, rows, h_before, NULL, d_gates, false, NULL);
}
