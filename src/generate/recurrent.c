/* The recurrent families, unrolled: a language model (rnnlm) and translation (gnmt). */
#include "generate/generate.h"
#include "generate/step.h"

/* An LSTM cell as PyTorch programs write it: one linear map for all gates, then element by element. */
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

/* ---- rnnlm: a language model of LSTM layers ---- */

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

/* ---- gnmt ---- */

/* A bidirectional LSTM layer and further ones with shortcuts read the source; LSTM layers that attend to it write the target. */

typedef struct {
    stw_step *step;
    const int64_t *value;
    stw_lstm_state zero;
    stw_tensor *encoded; /* (steps) */
} translation;

static stw_tensor *list_of(stw_step *step, int64_t count) {
    stw_tensor *list = STW_NEW(stw_step_arena(step), stw_tensor, count);
    if (list == NULL) stw_step_fail(step, "out of memory");
    return list;
}

static void encode_both_ways(translation *m, stw_tensor source) {
    stw_step *step = m->step;
    const int64_t width = m->value[STW_WIDTH], steps = m->value[STW_STEPS];
    const stw_linear forward = stw_linear_create(step, 2 * width, 4 * width, true, "enc_fwd.gates");
    const stw_linear backward = stw_linear_create(step, 2 * width, 4 * width, true, "enc_bwd.gates");
    const stw_linear bridge = stw_linear_create(step, 2 * width, width, true, "bridge");
    stw_tensor *ahead = list_of(step, steps), *back = list_of(step, steps);
    stw_lstm_state one = m->zero, other = m->zero;
    for (int64_t s = 0; s < steps && !stw_step_failed(step); s++) {
        one = stw_step_lstm(step, stw_step_select(step, source, 1, s), one, forward);
        other = stw_step_lstm(step, stw_step_select(step, source, 1, steps - 1 - s), other, backward);
        ahead[s] = one.h;
        back[steps - 1 - s] = other.h;
    }
    for (int64_t s = 0; s < steps && !stw_step_failed(step); s++) {
        const stw_tensor both[] = {ahead[s], back[s]};
        m->encoded[s] = stw_step_linear(step, stw_step_cat(step, both, 2, 1), bridge);
    }
}

static void encode_further(translation *m) {
    stw_step *step = m->step;
    const int64_t width = m->value[STW_WIDTH];
    for (int64_t l = 0; l + 1 < m->value[STW_LAYERS] && !stw_step_failed(step); l++) {
        const stw_linear gates =
            stw_linear_create(step, 2 * width, 4 * width, true, stw_step_label(step, "enc.%d.gates", (int)l));
        stw_lstm_state state = m->zero;
        for (int64_t s = 0; s < m->value[STW_STEPS] && !stw_step_failed(step); s++) {
            state = stw_step_lstm(step, m->encoded[s], state, gates);
            m->encoded[s] = stw_step_add(step, state.h, m->encoded[s]);
        }
    }
}

typedef struct {
    stw_linear query, score;
    stw_tensor memory, keys; /* (batch, steps, width) */
} attention;

/* What the source says to a state of the decoder: (batch, width). */
static stw_tensor attend(stw_step *step, const attention *a, stw_tensor h) {
    const stw_tensor query = stw_step_unsqueeze(step, stw_step_linear(step, h, a->query), 1);
    const stw_tensor energy = stw_step_tanh(step, stw_step_add(step, a->keys, query));
    const stw_tensor score = stw_step_squeeze(step, stw_step_linear(step, energy, a->score), 2);
    const stw_tensor weight = stw_step_unsqueeze(step, stw_step_softmax(step, score), 2);
    return stw_step_sum(step, stw_step_mul(step, weight, a->memory), 1);
}

static stw_tensor decode(translation *m, stw_tensor target, const attention *a) {
    stw_step *step = m->step;
    const int64_t width = m->value[STW_WIDTH], layers = m->value[STW_LAYERS], steps = m->value[STW_STEPS];
    stw_linear *gates = STW_NEW(stw_step_arena(step), stw_linear, layers);
    stw_lstm_state *state = STW_NEW(stw_step_arena(step), stw_lstm_state, layers);
    stw_tensor *logits = list_of(step, steps), context = m->encoded[0];
    if (gates == NULL || state == NULL) stw_step_fail(step, "out of memory");
    for (int64_t l = 0; l < layers && !stw_step_failed(step); l++) {
        const int64_t in = l == 0 ? 3 * width : 2 * width; /* the first one takes the context too */
        gates[l] = stw_linear_create(step, in, 4 * width, true, stw_step_label(step, "dec.%d.gates", (int)l));
        state[l] = m->zero;
    }
    const stw_linear out = stw_linear_create(step, width, m->value[STW_VOCABULARY], true, "out");
    for (int64_t s = 0; s < steps && !stw_step_failed(step); s++) {
        const stw_tensor seen[] = {stw_step_select(step, target, 1, s), context};
        state[0] = stw_step_lstm(step, stw_step_cat(step, seen, 2, 1), state[0], gates[0]);
        stw_tensor x = state[0].h;
        context = attend(step, a, x);
        for (int64_t l = 1; l < layers && !stw_step_failed(step); l++) {
            state[l] = stw_step_lstm(step, x, state[l], gates[l]);
            x = stw_step_add(step, state[l].h, x);
        }
        logits[s] = stw_step_linear(step, x, out);
    }
    return stw_step_failed(step) ? 0 : stw_step_stack(step, logits, (int32_t)steps, 1);
}

stw_tensor stw_build_gnmt(stw_step *step, const int64_t *value) {
    const int64_t width = value[STW_WIDTH], batch = value[STW_BATCH], steps = value[STW_STEPS];
    translation m = {.step = step, .value = value, .encoded = list_of(step, steps)};
    if (stw_step_failed(step)) return 0;
    const stw_tensor ids = stw_step_int_input(step, STW_SHAPE(batch, steps));
    const stw_shape table = STW_SHAPE(value[STW_VOCABULARY], width);
    const stw_tensor source = stw_step_embedding(step, stw_step_parameter(step, table, "emb_src.weight"), ids);
    const stw_tensor target = stw_step_embedding(step, stw_step_parameter(step, table, "emb_tgt.weight"), ids);
    const stw_tensor like = stw_step_select(step, source, 1, 0);
    m.zero.h = stw_step_zeros(step, like, STW_SHAPE(batch, width));
    m.zero.c = stw_step_zeros(step, like, STW_SHAPE(batch, width));
    encode_both_ways(&m, source);
    encode_further(&m);
    if (stw_step_failed(step)) return 0;
    attention a = {.memory = stw_step_stack(step, m.encoded, (int32_t)steps, 1)};
    a.keys = stw_step_linear(step, a.memory, stw_linear_create(step, width, width, false, "key"));
    a.query = stw_linear_create(step, width, width, false, "query");
    a.score = stw_linear_create(step, width, 1, false, "score");
    return stw_step_cross_entropy(step, decode(&m, target, &a), ids);
}
