/* Transformers: BERT, which reads a text in both directions, and GPT, which reads it forwards; with --experts every second layer
 * has a mixture of experts for its feed-forward part. */
#include "generate/generate.h"
#include "generate/step_parts.h"

enum { HEAD = 64, GROWTH = 4 }; /* features of a head; how much wider the feed-forward part is */

typedef struct {
    stw_step *step;
    int64_t batch, sequence, width, heads, experts;
} sizes;

static sizes sizes_of(stw_step *step, const int64_t *value) {
    return (sizes){step, value[STW_BATCH], value[STW_SEQUENCE], value[STW_WIDTH], value[STW_WIDTH] / HEAD, value[STW_EXPERTS]};
}

static bool has_experts(const sizes *m, int64_t layer) { return m->experts > 0 && layer % 2 == 1; }

/* (batch, sequence, width) as (batch, heads, sequence, HEAD) */
static stw_tensor by_head(const sizes *m, stw_tensor x) {
    return stw_step_transpose(m->step, stw_step_view(m->step, x, STW_SHAPE(m->batch, m->sequence, m->heads, HEAD)), 1, 2);
}

/* (batch, sequence, heads, HEAD); `mask`: added to the scores, or STW_NO_TENSOR. */
static stw_tensor attend(const sizes *m, stw_tensor query, stw_tensor key, stw_tensor value, stw_tensor mask) {
    stw_step *step = m->step;
    stw_tensor score = stw_step_scale(step, stw_step_matmul(step, query, stw_step_transpose(step, key, 2, 3)));
    if (mask != STW_NO_TENSOR) score = stw_step_add(step, score, mask);
    const stw_tensor weight = stw_step_dropout(step, stw_step_softmax(step, score));
    return stw_step_transpose(step, stw_step_matmul(step, weight, value), 1, 2);
}

static stw_tensor bert_attention(const sizes *m, stw_tensor x, const char *label) {
    stw_step *step = m->step;
    static const char *const name[] = {"query", "key", "value"};
    stw_tensor part[3];
    for (int k = 0; k < 3; k++) {
        const char *full = stw_step_label(step, "%s.attention.self.%s", label, name[k]);
        part[k] = by_head(m, stw_step_linear(step, x, stw_linear_create(step, m->width, m->width, true, full)));
    }
    stw_tensor mixed = stw_step_clone(step, attend(m, part[0], part[1], part[2], STW_NO_TENSOR));
    mixed = stw_step_view(step, mixed, STW_SHAPE(m->batch, m->sequence, m->width));
    const char *dense = stw_step_label(step, "%s.attention.output.dense", label);
    return stw_step_linear(step, mixed, stw_linear_create(step, m->width, m->width, true, dense));
}

static stw_tensor bert_layer(const sizes *m, stw_tensor x, int64_t layer) {
    stw_step *step = m->step;
    const char *label = stw_step_label(step, "bert.encoder.layer.%d", (int)layer);
    stw_tensor y = stw_step_dropout(step, bert_attention(m, x, label));
    const stw_norm norm1 = stw_norm_create(step, m->width, stw_step_label(step, "%s.attention.output.LayerNorm", label));
    x = stw_step_layer_norm(step, stw_step_add(step, y, x), norm1);
    if (has_experts(m, layer)) {
        y = stw_step_mixture(step, x, m->experts, m->width, label);
    } else {
        const stw_linear inner =
            stw_linear_create(step, m->width, GROWTH * m->width, true, stw_step_label(step, "%s.intermediate.dense", label));
        const stw_linear outer =
            stw_linear_create(step, GROWTH * m->width, m->width, true, stw_step_label(step, "%s.output.dense", label));
        y = stw_step_linear(step, stw_step_gelu(step, stw_step_linear(step, x, inner)), outer);
    }
    y = stw_step_add(step, stw_step_dropout(step, y), x);
    return stw_step_layer_norm(step, y, stw_norm_create(step, m->width, stw_step_label(step, "%s.output.LayerNorm", label)));
}

/* Words, kinds of sentences and positions; *table is that of the words, which the head reads too. */
static stw_tensor bert_embedding(const sizes *m, stw_tensor ids, int64_t vocabulary, stw_tensor *table) {
    stw_step *step = m->step;
    *table = stw_step_parameter(step, STW_SHAPE(vocabulary, m->width), "bert.embeddings.word_embeddings.weight");
    const stw_tensor position =
        stw_step_parameter(step, STW_SHAPE(m->sequence, m->width), "bert.embeddings.position_embeddings.weight");
    const stw_tensor kind = stw_step_parameter(step, STW_SHAPE(2, m->width), "bert.embeddings.token_type_embeddings.weight");
    const stw_tensor places = stw_step_int_buffer(step, STW_SHAPE(1, m->sequence), "bert.embeddings.position_ids");
    const stw_tensor kinds = stw_step_int_buffer(step, STW_SHAPE(1, m->sequence), "bert.embeddings.token_type_ids");
    const stw_tensor words = stw_step_embedding(step, *table, ids);
    const stw_tensor all_kinds = stw_step_expand(step, kinds, STW_SHAPE(m->batch, m->sequence));
    stw_tensor x = stw_step_add(step, words, stw_step_embedding(step, kind, all_kinds));
    x = stw_step_add(step, x, stw_step_embedding(step, position, stw_step_alias(step, places)));
    x = stw_step_layer_norm(step, x, stw_norm_create(step, m->width, "bert.embeddings.LayerNorm"));
    return stw_step_dropout(step, x);
}

stw_tensor stw_build_bert(stw_step *step, const int64_t *value) {
    const sizes m = sizes_of(step, value);
    const stw_tensor ids = stw_step_int_input(step, STW_SHAPE(m.batch, m.sequence));
    stw_tensor table = 0, x = bert_embedding(&m, ids, value[STW_VOCABULARY], &table);
    for (int64_t l = 0; l < value[STW_LAYERS] && !stw_step_failed(step); l++) x = bert_layer(&m, x, l);
    const stw_linear dense = stw_linear_create(step, m.width, m.width, true, "cls.predictions.transform.dense");
    x = stw_step_gelu(step, stw_step_linear(step, x, dense));
    x = stw_step_layer_norm(step, x, stw_norm_create(step, m.width, "cls.predictions.transform.LayerNorm"));
    const stw_tensor bias = stw_step_parameter(step, STW_SHAPE(value[STW_VOCABULARY]), "cls.predictions.bias");
    return stw_step_cross_entropy(step, stw_step_linear(step, x, (stw_linear){table, bias}), ids);
}

/* Each place sees itself and what is before it: numbers to be added to the scores. */
static stw_tensor causal_mask(const sizes *m) {
    static const stw_step_op arange = {"arange", NULL}, at_most = {"le", NULL}, where = {"where", NULL};
    stw_step *step = m->step;
    const stw_shape line = STW_SHAPE(m->sequence), square = STW_SHAPE(1, 1, m->sequence, m->sequence);
    stw_tensor place[2];
    for (int k = 0; k < 2; k++) {
        place[k] = stw_step_unsqueeze(step, stw_step_emit_typed(step, &arange, line, step->dtype_s64, NULL, 0), k);
    }
    const stw_tensor seen = stw_step_emit_typed(step, &at_most, square, step->dtype_pred, place, 2);
    const stw_tensor all = stw_step_expand(step, seen, STW_SHAPE(m->batch, 1, m->sequence, m->sequence));
    return stw_step_emit(step, &where, stw_step_shape(step, all), &all, 1);
}

/* GPT-2 keeps its weights as (in, out). */
static stw_tensor gpt_linear(const sizes *m, stw_tensor x, int64_t in, int64_t out, const char *label) {
    stw_step *step = m->step;
    const stw_tensor weight = stw_step_parameter(step, STW_SHAPE(in, out), stw_step_label(step, "%s.weight", label));
    const stw_tensor bias = stw_step_parameter(step, STW_SHAPE(out), stw_step_label(step, "%s.bias", label));
    const stw_tensor rows = stw_step_reshape(step, x, STW_SHAPE(m->batch * m->sequence, in));
    return stw_step_view(step, stw_step_addmm(step, bias, rows, weight), STW_SHAPE(m->batch, m->sequence, out));
}

/* The approximation of gelu by tanh, op by op. */
static stw_tensor bend(stw_step *step, stw_tensor x) {
    const stw_tensor half = stw_step_scale(step, x), cube = stw_step_scale(step, stw_step_power(step, x));
    const stw_tensor curve = stw_step_tanh(step, stw_step_scale(step, stw_step_add(step, x, cube)));
    return stw_step_mul(step, half, stw_step_shift(step, curve));
}

static stw_tensor gpt_layer(const sizes *m, stw_tensor x, int64_t layer, stw_tensor mask) {
    stw_step *step = m->step;
    const char *label = stw_step_label(step, "transformer.h.%d", (int)layer);
    const stw_norm norm1 = stw_norm_create(step, m->width, stw_step_label(step, "%s.ln_1", label));
    stw_tensor part[3] = {0};
    stw_tensor y = stw_step_layer_norm(step, x, norm1);
    stw_step_split(step, gpt_linear(m, y, m->width, 3 * m->width, stw_step_label(step, "%s.attn.c_attn", label)), 2, 3, part);
    for (int k = 0; k < 3; k++) part[k] = by_head(m, part[k]);
    y = stw_step_reshape(step, attend(m, part[0], part[1], part[2], mask), STW_SHAPE(m->batch, m->sequence, m->width));
    y = gpt_linear(m, y, m->width, m->width, stw_step_label(step, "%s.attn.c_proj", label));
    x = stw_step_add(step, stw_step_dropout(step, y), x);
    y = stw_step_layer_norm(step, x, stw_norm_create(step, m->width, stw_step_label(step, "%s.ln_2", label)));
    if (has_experts(m, layer)) {
        y = stw_step_mixture(step, y, m->experts, m->width, label);
    } else {
        y = bend(step, gpt_linear(m, y, m->width, GROWTH * m->width, stw_step_label(step, "%s.mlp.c_fc", label)));
        y = gpt_linear(m, y, GROWTH * m->width, m->width, stw_step_label(step, "%s.mlp.c_proj", label));
    }
    return stw_step_add(step, x, stw_step_dropout(step, y));
}

stw_tensor stw_build_gpt(stw_step *step, const int64_t *value) {
    static const stw_step_op arange = {"arange", NULL};
    const sizes m = sizes_of(step, value);
    const stw_tensor ids = stw_step_int_input(step, STW_SHAPE(m.batch, m.sequence));
    const stw_tensor table = stw_step_parameter(step, STW_SHAPE(value[STW_VOCABULARY], m.width), "transformer.wte.weight");
    const stw_tensor position = stw_step_parameter(step, STW_SHAPE(m.sequence, m.width), "transformer.wpe.weight");
    const stw_tensor places = stw_step_emit_typed(step, &arange, STW_SHAPE(m.sequence), step->dtype_s64, NULL, 0);
    const stw_tensor words = stw_step_embedding(step, table, ids);
    const stw_tensor where = stw_step_embedding(step, position, stw_step_unsqueeze(step, places, 0));
    stw_tensor x = stw_step_dropout(step, stw_step_add(step, words, where));
    const stw_tensor mask = causal_mask(&m);
    for (int64_t l = 0; l < value[STW_LAYERS] && !stw_step_failed(step); l++) x = gpt_layer(&m, x, l, mask);
    x = stw_step_layer_norm(step, x, stw_norm_create(step, m.width, "transformer.ln_f"));
    return stw_step_cross_entropy(step, stw_step_linear(step, x, (stw_linear){table, STW_NO_TENSOR}), ids);
}
