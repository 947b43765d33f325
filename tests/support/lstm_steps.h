/* An LSTM step by step: what stw_lstm_forward and stw_lstm_backward do for a whole sequence is tested against this. */
#ifndef STW_TESTS_SUPPORT_LSTM_STEPS_H
#define STW_TESTS_SUPPORT_LSTM_STEPS_H

#include "nn/layers.h"

/* One step, for decoders whose input hangs on what they gave before. x: (K, in), h_before and c_before: (K, width) or NULL:
 * zeros. gates: (K, 4 width), c, h: (K, width); they must last until the backward pass. */
void stw_lstm_step(const stw_lstm_layer *layer, const stw_parameters *p, int32_t K, const void *x, const void *h_before,
                   const void *c_before, void *gates, void *c, void *h);
/* All but the gradients of the parameters. d_h: (K, width); d_c: (K, width), on entry by c of what follows, on return by
 * c_before. d_gates: (K, 4 width), written, for stw_lstm_weights_back. d_x: (K, in), d_h_before: (K, width), both written, or
 * NULL. */
void stw_lstm_step_back(const stw_lstm_layer *layer, const stw_parameters *p, int32_t K, const void *c_before, const void *gates,
                        const void *c, const void *d_h, void *d_c, void *d_gates, void *d_x, void *d_h_before);
/* The gradients of the parameters, of many steps at once: rows = steps * K. x: (rows, in); h_before: (rows, width), zeros where a
 * step had none, or NULL: no step had one; d_gates: (rows, 4 width). */
void stw_lstm_weights_back(const stw_lstm_layer *layer, stw_parameters *p, int32_t rows, const void *x, const void *h_before,
                           void *d_gates);

#endif
