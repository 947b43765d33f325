/* A language model of LSTM layers, unrolled. */
#include "generate/generate.h"

stw_tensor stw_build_rnnlm(stw_step *step, const int64_t *value) {
    const int64_t layers = value[STW_LAYERS], width = value[STW_WIDTH], batch = value[STW_BATCH], steps = value[STW_STEPS];
    const stw_tensor ids = stw_step_int_input(step, STW_SHAPE(batch, steps));
    const stw_tensor table = stw_step_parameter(step, STW_SHAPE(value[STW_VOCABULARY], width), "emb.weight");
    const stw_tensor embedded = stw_step_embedding(step, table, ids);
    stw_linear *gates = STW_NEW(stw_step_arena(step), stw_linear, layers);
    stw_lstm_state *state = STW_NEW(stw_step_arena(step), stw_lstm_state, layers);
    stw_tensor *logits = STW_NEW(stw_step_arena(step), stw_tensor, steps);
    if (gates == NULL || state == NULL || logits == NULL) {
        stw_step_fail(step, "out of memory");
        return 0;
    }
    for (int64_t l = 0; l < layers && !stw_step_failed(step); l++) {
        gates[l] = stw_linear_create(step, 2 * width, 4 * width, true, stw_step_label(step, "layers.%d.gates", (int)l));
        const stw_tensor like = stw_step_select(step, embedded, 1, 0);
        state[l].h = stw_step_zeros(step, like, STW_SHAPE(batch, width));
        state[l].c = stw_step_zeros(step, like, STW_SHAPE(batch, width));
    }
    const stw_linear out = stw_linear_create(step, width, value[STW_VOCABULARY], true, "out");
    for (int64_t s = 0; s < steps && !stw_step_failed(step); s++) {
        stw_tensor x = stw_step_select(step, embedded, 1, s);
        for (int64_t l = 0; l < layers && !stw_step_failed(step); l++) {
            state[l] = stw_step_lstm(step, x, state[l], gates[l]);
            x = state[l].h;
        }
        logits[s] = stw_step_linear(step, x, out);
    }
    return stw_step_cross_entropy(step, stw_step_stack(step, logits, (int32_t)steps, 1), ids);
}
