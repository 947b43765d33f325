/* Transformer-XL: segments of a text in turn, each of which attends to the one before it as well. The products of four dimensions
 * are einsum's, with its views and copies. */
#include "generate/generate.h"

enum { HEAD = 64 }; /* features of a head */

typedef struct {
    stw_tensor u, v; /* (heads, HEAD) what is asked of content and of position whatever the query */
    stw_linear query, both, relative, out, inner, outer;
    stw_norm norm1, norm2;
} layer;

typedef struct {
    int64_t batch, segment, width, heads;
    stw_tensor position;
} sizes;

static layer create_layer(stw_step *step, const sizes *m, int32_t l) {
    layer made = {0};
    const int64_t width = m->width;
    made.u = stw_step_parameter(step, STW_SHAPE(m->heads, HEAD), stw_step_label(step, "layers.%d.u", l));
    made.v = stw_step_parameter(step, STW_SHAPE(m->heads, HEAD), stw_step_label(step, "layers.%d.v", l));
    made.query = stw_linear_create(step, width, width, false, stw_step_label(step, "layers.%d.q", l));
    made.both = stw_linear_create(step, width, 2 * width, false, stw_step_label(step, "layers.%d.kv", l));
    made.relative = stw_linear_create(step, width, width, false, stw_step_label(step, "layers.%d.r", l));
    made.out = stw_linear_create(step, width, width, false, stw_step_label(step, "layers.%d.o", l));
    made.norm1 = stw_norm_create(step, width, stw_step_label(step, "layers.%d.n1", l));
    made.norm2 = stw_norm_create(step, width, stw_step_label(step, "layers.%d.n2", l));
    made.inner = stw_linear_create(step, width, 4 * width, true, stw_step_label(step, "layers.%d.f1", l));
    made.outer = stw_linear_create(step, 4 * width, width, true, stw_step_label(step, "layers.%d.f2", l));
    return made;
}

/* bihd,bjhd->bhij */
static stw_tensor ask_content(stw_step *step, const sizes *m, stw_tensor query, stw_tensor key) {
    const int64_t i = m->segment, j = 2 * m->segment, both = m->batch * m->heads;
    query = stw_step_permute(step, stw_step_unsqueeze(step, query, 4), "02143"); /* b h i 1 d */
    key = stw_step_permute(step, stw_step_unsqueeze(step, key, 4), "02413");     /* b h 1 j d */
    query = stw_step_reshape(step, stw_step_permute(step, query, "01243"), STW_SHAPE(both, i, HEAD));
    key = stw_step_reshape(step, stw_step_permute(step, key, "01432"), STW_SHAPE(both, HEAD, j));
    stw_tensor score = stw_step_view(step, stw_step_bmm(step, query, key), STW_SHAPE(m->batch, m->heads, i, 1, j));
    return stw_step_view(step, stw_step_permute(step, score, "01243"), STW_SHAPE(m->batch, m->heads, i, j));
}

/* bihd,jhd->bhij, then every row moved so that it begins with its own distance */
static stw_tensor ask_position(stw_step *step, const sizes *m, stw_tensor query, stw_tensor relative) {
    const int64_t i = m->segment, j = 2 * m->segment, b = m->batch, h = m->heads;
    query = stw_step_permute(step, stw_step_unsqueeze(step, query, 4), "02143"); /* b h i 1 d */
    relative = stw_step_unsqueeze(step, stw_step_unsqueeze(step, relative, 3), 4);
    relative = stw_step_permute(step, relative, "31402"); /* 1 h 1 j d */
    query = stw_step_reshape(step, stw_step_permute(step, query, "10243"), STW_SHAPE(h, b * i, HEAD));
    relative = stw_step_reshape(step, stw_step_permute(step, relative, "14302"), STW_SHAPE(h, HEAD, j));
    stw_tensor score = stw_step_view(step, stw_step_bmm(step, query, relative), STW_SHAPE(h, b, i, 1, j));
    score = stw_step_view(step, stw_step_permute(step, score, "10243"), STW_SHAPE(b, h, i, j));
    score = stw_step_view(step, stw_step_pad(step, score, 3, 1), STW_SHAPE(b, h, j + 1, i));
    return stw_step_view(step, stw_step_slice(step, score, 2, 1, j), STW_SHAPE(b, h, i, j));
}

/* bhij,bjhd->bihd */
static stw_tensor answer(stw_step *step, const sizes *m, stw_tensor weight, stw_tensor value) {
    const int64_t i = m->segment, j = 2 * m->segment, both = m->batch * m->heads;
    weight = stw_step_permute(step, stw_step_unsqueeze(step, weight, 4), "02143"); /* b i h 1 j */
    value = stw_step_permute(step, stw_step_unsqueeze(step, value, 4), "04231");   /* b 1 h d j */
    weight = stw_step_reshape(step, stw_step_permute(step, weight, "02143"), STW_SHAPE(both, i, j));
    value = stw_step_reshape(step, stw_step_permute(step, value, "02431"), STW_SHAPE(both, j, HEAD));
    stw_tensor mixed = stw_step_view(step, stw_step_bmm(step, weight, value), STW_SHAPE(m->batch, m->heads, i, 1, HEAD));
    return stw_step_view(step, stw_step_permute(step, mixed, "02143"), STW_SHAPE(m->batch, i, m->heads, HEAD));
}

static stw_tensor run_layer(stw_step *step, const sizes *m, const layer *l, stw_tensor x, stw_tensor memory) {
    const stw_tensor context[] = {memory, x};
    const int64_t i = m->segment, j = 2 * m->segment;
    const stw_tensor seen = stw_step_cat(step, context, 2, 1);
    const stw_tensor query = stw_step_view(step, stw_step_linear(step, x, l->query), STW_SHAPE(m->batch, i, m->heads, HEAD));
    stw_tensor pair[2] = {0};
    stw_step_split(step, stw_step_linear(step, seen, l->both), 2, 2, pair);
    const stw_tensor key = stw_step_view(step, pair[0], STW_SHAPE(m->batch, j, m->heads, HEAD));
    const stw_tensor value = stw_step_view(step, pair[1], STW_SHAPE(m->batch, j, m->heads, HEAD));
    const stw_tensor relative =
        stw_step_view(step, stw_step_linear(step, m->position, l->relative), STW_SHAPE(j, m->heads, HEAD));
    const stw_tensor content = ask_content(step, m, stw_step_add(step, query, l->u), key);
    const stw_tensor place = ask_position(step, m, stw_step_add(step, query, l->v), relative);
    const stw_tensor weight = stw_step_softmax(step, stw_step_divide(step, stw_step_add(step, content, place)));
    const stw_tensor heads = stw_step_reshape(step, answer(step, m, weight, value), STW_SHAPE(m->batch, i, m->width));
    x = stw_step_layer_norm(step, stw_step_add(step, x, stw_step_linear(step, heads, l->out)), l->norm1);
    const stw_tensor inner = stw_step_relu(step, stw_step_linear(step, x, l->inner));
    return stw_step_layer_norm(step, stw_step_add(step, x, stw_step_linear(step, inner, l->outer)), l->norm2);
}

stw_tensor stw_build_transformer_xl(stw_step *step, const int64_t *value) {
    const int64_t layers = value[STW_LAYERS], segments = value[STW_STEPS];
    sizes m = {value[STW_BATCH], value[STW_SEQUENCE], value[STW_WIDTH], value[STW_WIDTH] / HEAD, 0};
    m.position = stw_step_parameter(step, STW_SHAPE(2 * m.segment, m.width), "pos");
    const stw_tensor table = stw_step_parameter(step, STW_SHAPE(value[STW_VOCABULARY], m.width), "emb.weight");
    const stw_tensor ids = stw_step_int_input(step, STW_SHAPE(m.batch, segments * m.segment));
    const stw_tensor embedded = stw_step_embedding(step, table, ids);
    layer *made = STW_NEW(stw_step_arena(step), layer, layers);
    stw_tensor *memory = STW_NEW(stw_step_arena(step), stw_tensor, layers);
    stw_tensor *logits = STW_NEW(stw_step_arena(step), stw_tensor, segments);
    if (made == NULL || memory == NULL || logits == NULL) stw_step_fail(step, "out of memory");
    for (int64_t l = 0; l < layers && !stw_step_failed(step); l++) {
        made[l] = create_layer(step, &m, (int32_t)l);
        memory[l] = stw_step_zeros(step, embedded, STW_SHAPE(m.batch, m.segment, m.width));
    }
    const stw_linear out = stw_linear_create(step, m.width, value[STW_VOCABULARY], true, "out");
    for (int64_t s = 0; s < segments && !stw_step_failed(step); s++) {
        stw_tensor x = stw_step_slice(step, embedded, 1, s * m.segment, m.segment);
        for (int64_t l = 0; l < layers && !stw_step_failed(step); l++) {
            const stw_tensor kept = stw_step_detach(step, x);
            x = run_layer(step, &m, &made[l], x, memory[l]);
            memory[l] = kept;
        }
        logits[s] = stw_step_linear(step, x, out);
    }
    if (stw_step_failed(step)) return 0;
    return stw_step_cross_entropy(step, stw_step_cat(step, logits, (int32_t)segments, 1), ids);
}
