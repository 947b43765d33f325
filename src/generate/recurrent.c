/* An LSTM cell as PyTorch programs write it: one linear map for all gates, then element by element. */
#include "generate/step.h"

stw_lstm_state stw_step_lstm(stw_step *step, stw_tensor x, stw_lstm_state state, stw_linear gates) {
    const stw_tensor both[] = {x, state.h};
    stw_tensor gate[4] = {0}; /* input, forget, output, candidate */
    stw_step_split(step, stw_step_linear(step, stw_step_cat(step, both, 2, 1), gates), 1, 4, gate);
    const stw_tensor kept = stw_step_mul(step, stw_step_sigmoid(step, gate[1]), state.c);
    const stw_tensor in = stw_step_sigmoid(step, gate[0]);
    const stw_tensor added = stw_step_mul(step, in, stw_step_tanh(step, gate[3]));
    const stw_tensor c = stw_step_add(step, kept, added), out = stw_step_sigmoid(step, gate[2]);
    return (stw_lstm_state){.h = stw_step_mul(step, out, stw_step_tanh(step, c)), .c = c};
}
