/* A random graph of layers: every node of a layer takes one to three results of earlier layers, mostly of the last, and makes one
 * of its own. Unlike real models it has no repeated structure. */
#include "base/rng.h"
#include "generate/generate.h"

enum { MAX_READ = 3, MAX_DOUBLINGS = 3 };

typedef struct {
    stw_step *step;
    stw_rng rng;
    int64_t width;
    stw_tensor *made; /* in order; the first is the input */
    bool *read;
    int64_t count;
} random_graph;

/* From the last layer, or from anywhere. */
static int64_t choose(random_graph *g, int64_t layer_begins) {
    const bool anywhere = layer_begins == 0 || stw_rng_below(&g->rng, 4) == 0;
    const int64_t from = anywhere ? 0 : layer_begins;
    return from + stw_rng_below(&g->rng, g->count - from);
}

static stw_tensor bend(random_graph *g, stw_tensor x) {
    switch (stw_rng_below(&g->rng, 4)) {
        case 0: return stw_step_relu(g->step, x);
        case 1: return stw_step_tanh(g->step, x);
        case 2: return stw_step_gelu(g->step, x);
        default: return stw_step_sigmoid(g->step, x);
    }
}

/* All results of equal width are added or multiplied; else they are joined and mapped to a new width. */
static stw_tensor combine(random_graph *g, const stw_tensor *x, int32_t count, const char *label) {
    stw_step *step = g->step;
    bool equal = count > 1;
    for (int32_t k = 1; k < count; k++) equal &= stw_step_shape(step, x[k]).size[1] == stw_step_shape(step, x[0]).size[1];
    if (equal && stw_rng_below(&g->rng, 2) == 0) {
        stw_tensor sum = x[0];
        const bool product = stw_rng_below(&g->rng, 2) == 0;
        for (int32_t k = 1; k < count; k++) sum = product ? stw_step_mul(step, sum, x[k]) : stw_step_add(step, sum, x[k]);
        return sum;
    }
    const stw_tensor joined = count > 1 ? stw_step_cat(step, x, count, 1) : x[0];
    const int64_t out = g->width << stw_rng_below(&g->rng, MAX_DOUBLINGS);
    const stw_linear linear = stw_linear_create(step, stw_step_shape(step, joined).size[1], out, true, label);
    return bend(g, stw_step_linear(step, joined, linear));
}

static void add_layer(random_graph *g, int64_t layer, int64_t nodes, int64_t layer_begins) {
    const int64_t before = g->count;
    int64_t added = 0;
    for (; added < nodes && !stw_step_failed(g->step); added++) {
        stw_tensor x[MAX_READ];
        const int32_t reads = 1 + (int32_t)stw_rng_below(&g->rng, MAX_READ);
        for (int32_t k = 0; k < reads; k++) {
            const int64_t which = choose(g, layer_begins);
            x[k] = g->made[which];
            g->read[which] = true;
        }
        g->made[before + added] = combine(g, x, reads, stw_step_label(g->step, "layers.%d.%d", (int)layer, (int)added));
    }
    g->count = before + added;
}

/* What nobody read ends in the loss. */
static stw_tensor sum_up(random_graph *g) {
    stw_tensor loss = STW_NO_TENSOR;
    for (int64_t k = 0; k < g->count && !stw_step_failed(g->step); k++) {
        if (g->read[k]) continue;
        const stw_tensor term = stw_step_mean_square(g->step, g->made[k]);
        loss = loss == STW_NO_TENSOR ? term : stw_step_add(g->step, loss, term);
    }
    return loss;
}

stw_tensor stw_build_layered(stw_step *step, const int64_t *value) {
    const int64_t layers = value[STW_LAYERS], nodes = value[STW_STEPS];
    const stw_rng root = stw_rng_create((uint64_t)value[STW_SEED]);
    random_graph g = {.step = step, .rng = stw_rng_split(&root, 0x6c61796572), .width = value[STW_WIDTH]};
    if (layers > STW_STEP_MAX_OPS / nodes) {
        stw_step_fail(step, "the graph would have more than %d ops; take fewer layers or steps", STW_STEP_MAX_OPS);
        return 0;
    }
    g.made = STW_NEW(stw_step_arena(step), stw_tensor, layers * nodes + 1);
    g.read = STW_NEW(stw_step_arena(step), bool, layers *nodes + 1);
    if (g.made == NULL || g.read == NULL) {
        stw_step_fail(step, "out of memory");
        return 0;
    }
    const stw_tensor x = stw_step_input(step, STW_SHAPE(value[STW_BATCH], g.width));
    g.made[g.count++] = stw_step_linear(step, x, stw_linear_create(step, g.width, g.width, true, "stem"));
    for (int64_t l = 0; l < layers && !stw_step_failed(step); l++) add_layer(&g, l, nodes, l == 0 ? 0 : g.count - nodes);
    return stw_step_failed(step) ? 0 : sum_up(&g);
}
