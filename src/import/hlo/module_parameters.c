/* What the parameters of an entry computation are. HLO does not say; the first of these that holds decides:
 *
 *   1. An output is written over it (input_output_alias): state that training updates, a parameter.
 *   2. Its op_name, or else its name, has a telling word: cache -> buffer; param, weight, kernel, bias, embedding, scale ->
 * parameter; data, input, token, batch, label, mask -> input. Only numbers that weights are kept in (floating point, 8 bits or
 * less) can be parameters.
 *   3. The first parameters have, one by one, the shapes of the outputs, at least two: a training step without aliases. If these
 *      are all outputs, the other parameters are inputs.
 *   4. The first product or convolution that reads it has it, perhaps after casts and reshapes, on the right side and without
 *      batch dimensions: a weight. Vectors of floating point numbers go with the weights, where there are any.
 *   5. Anything else is an input. */
#include <string.h>

#include "import/hlo/hlo.h"

typedef struct {
    const stw_hlo_module *m;
    const stw_hlo_computation *entry;
    uint8_t *kind; /* (entry->count) stw_node_kind; STW_NODE_OP: open */
} classifier;

static uint8_t *kind_of(classifier *c, int64_t instruction) { return &c->kind[instruction - c->entry->first]; }

static bool holds_weights(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    const stw_hlo_shape *main = stw_hlo_main_part(m, shape);
    if (main->kind != STW_HLO_ARRAY || main->dtype < 0) return main->kind == STW_HLO_ARRAY;
    const char *name = stw_dtype_name(main->dtype);
    return name[0] == 'f' || name[0] == 'b' || name[0] == 'c' || (stw_dtype_bytes(main->dtype) == 1 && name[0] != 'p');
}

/* ---- 2: names ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Does `word` begin somewhere in the text where no letter stands before it? */
static bool has_word(stw_str text, const char *word) {
    for (stw_str rest = stw_hlo_find_after(text, word); rest.p != NULL; rest = stw_hlo_find_after(rest, word)) {
        const char *start = rest.p - strlen(word);
        if (start == text.p || !is_letter(start[-1])) return true;
        if (rest.length == 0) break;
    }
    return false;
}

static bool has_any(stw_str text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (has_word(text, *words)) return true;
    }
    return false;
}

/* "param.3", "Arg_2.3", "p5.6": names that XLA gives and that tell nothing. */
static bool is_generic(stw_str name) {
    int64_t letters = 0;
    while (letters < name.length && is_letter(name.p[letters])) letters++;
    const stw_str word = {name.p, letters};
    return letters <= 1 || stw_str_is(word, "param") || stw_str_is(word, "parameter") || stw_str_is(word, "Arg") ||
           stw_str_is(word, "arg");
}

static uint8_t kind_by_name(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    static const char *const caches[] = {"cache", NULL};
    static const char *const weights[] = {"param", "weight", "kernel", "bias", "embedding", "scale", NULL};
    static const char *const inputs[] = {"data", "input", "token", "batch", "label", "mask", NULL};
    const bool has_path =
        i->op_name.length > 0 && !stw_str_is(i->op_name, "xla__device_data"); /* PyTorch/XLA's for all of them */
    const stw_str text = has_path ? i->op_name : i->name;
    if (!has_path && is_generic(i->name)) return STW_NODE_OP;
    if (has_any(text, caches)) return STW_NODE_BUFFER;
    if (has_any(text, weights) && holds_weights(m, stw_hlo_shape_of(m, i))) return STW_NODE_PARAMETER;
    return has_any(text, inputs) ? STW_NODE_INPUT : STW_NODE_OP;
}

/* ---- 3: outputs of the same shapes ---- */

static bool have_same_shape(const stw_hlo_module *m, const stw_hlo_shape *a, const stw_hlo_shape *b) {
    if (a->kind != STW_HLO_ARRAY || b->kind != STW_HLO_ARRAY || a->dtype != b->dtype || a->rank != b->rank) return false;
    const size_t size = (size_t)a->rank * sizeof(int64_t);
    return a->rank == 0 || memcmp(stw_hlo_dimensions(m, a), stw_hlo_dimensions(m, b), size) == 0;
}

/* True if they are all of the outputs: the rest can only be inputs. */
static bool match_outputs(classifier *c) {
    const stw_hlo_module *m = c->m;
    const stw_hlo_shape *out = stw_hlo_shape_of(m, &m->instruction[c->entry->root]);
    int32_t run = 0;
    if (out->kind != STW_HLO_PARTS) return false;
    for (; run < out->rank && run < c->entry->parameter.count; run++) {
        const int64_t parameter = m->number[c->entry->parameter.first + run];
        if (parameter < 0) break;
        const stw_hlo_shape *shape = stw_hlo_shape_of(m, &m->instruction[parameter]);
        if (!have_same_shape(m, shape, &m->shape[out->first + run]) || !holds_weights(m, shape)) break;
    }
    for (int32_t k = 0; run >= 2 && k < run; k++) {
        uint8_t *kind = kind_of(c, m->number[c->entry->parameter.first + k]);
        if (*kind == STW_NODE_OP) *kind = STW_NODE_PARAMETER;
    }
    return run >= 2 && run == out->rank;
}

/* ---- 4: sides of products ---- */

/* The parameter that an operand is, behind casts and other changes of form; NULL: none. */
static const stw_hlo_instruction *find_source(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    enum { FAR = 16 };
    for (int step = 0; step < FAR && i->rule != STW_HLO_PARAMETER; step++) {
        const bool form = i->rule == STW_HLO_BITCAST || i->rule == STW_HLO_RESHAPE || i->rule == STW_HLO_TRANSPOSE ||
                          i->rule == STW_HLO_MOVE || i->rule == STW_HLO_ELEMENTWISE || i->rule == STW_HLO_OPAQUE ||
                          i->rule == STW_HLO_FUSION || stw_hlo_call_is_view(i);
        if (!form || i->operand.count != 1) return NULL;
        i = stw_hlo_operand(m, i, 0);
    }
    return i->rule == STW_HLO_PARAMETER ? i : NULL;
}

static void take_side(classifier *c, const stw_hlo_instruction *product, int32_t side, uint8_t kind) {
    const stw_hlo_instruction *source = find_source(c->m, stw_hlo_operand(c->m, product, side));
    if (source == NULL || !holds_weights(c->m, stw_hlo_shape_of(c->m, source))) return;
    uint8_t *place = kind_of(c, source - c->m->instruction);
    if (*place == STW_NODE_OP) *place = kind;
}

/* True if there is a weight. */
static bool match_products(classifier *c) {
    const stw_hlo_module *m = c->m;
    bool any = false;
    for (int32_t i = c->entry->first; i < c->entry->first + c->entry->count; i++) {
        const stw_hlo_instruction *at = &m->instruction[i];
        const bool call = at->rule == STW_HLO_CUSTOM && at->operand.count >= 2 &&
                          (stw_str_starts(at->target, "__cublas$") || stw_str_starts(at->target, "__cudnn$convF") ||
                           stw_str_starts(at->target, "__cudnn$convB"));
        if (at->rule != STW_HLO_DOT && at->rule != STW_HLO_CONVOLUTION && !call) continue;
        take_side(c, at, 0, STW_NODE_INPUT);
        take_side(c, at, 1, at->batch.count > 0 ? STW_NODE_INPUT : STW_NODE_PARAMETER);
    }
    for (int32_t i = 0; i < c->entry->count; i++) any |= c->kind[i] == STW_NODE_PARAMETER;
    return any;
}

/* ---- what an export says ---- */

/* It names the devices of parameters and buffers, which its readers may no longer tell: casts are within fusions, and others come
 * first. */
static void match_notes(classifier *c) {
    bool carries = false;
    for (int32_t i = 0; i < c->entry->count; i++)
        carries |= c->m->instruction[c->entry->first + i].note.value[STW_HLO_NOTE_DEVICE].length > 0;
    for (int32_t i = 0; carries && i < c->entry->count; i++) {
        const stw_hlo_instruction *at = &c->m->instruction[c->entry->first + i];
        if (at->rule != STW_HLO_PARAMETER) continue;
        const bool has_home = at->note.value[STW_HLO_NOTE_DEVICE].length > 0;
        if (!has_home) c->kind[i] = STW_NODE_INPUT;
        if (has_home && !stw_node_is_resident(c->kind[i])) c->kind[i] = STW_NODE_PARAMETER;
    }
}

stw_status stw_hlo_classify_parameters(const stw_hlo_module *m, stw_arena *arena, uint8_t **out, stw_error *error) {
    classifier c = {.m = m, .entry = &m->computation[m->entry]};
    STW_TRY_NEW(arena, c.kind, c.entry->count, error);
    for (int32_t k = 0; k < m->alias_count; k++) {
        const int64_t number = m->alias[k].parameter;
        if (number < 0 || number >= c.entry->parameter.count) continue;
        const int64_t parameter = m->number[c.entry->parameter.first + number];
        if (parameter >= 0) *kind_of(&c, parameter) = STW_NODE_PARAMETER;
    }
    for (int32_t i = 0; i < c.entry->count; i++) {
        const stw_hlo_instruction *at = &m->instruction[c.entry->first + i];
        if (at->rule == STW_HLO_PARAMETER && c.kind[i] == STW_NODE_OP) c.kind[i] = kind_by_name(m, at);
    }
    const bool any = !match_outputs(&c) && match_products(&c);
    for (int32_t i = 0; i < c.entry->count; i++) {
        if (c.kind[i] != STW_NODE_OP) continue;
        const stw_hlo_shape *shape = stw_hlo_shape_of(m, &m->instruction[c.entry->first + i]);
        const bool vector = shape->kind == STW_HLO_ARRAY && shape->rank == 1 && holds_weights(m, shape);
        c.kind[i] = any && vector ? STW_NODE_PARAMETER : STW_NODE_INPUT;
    }
    match_notes(&c);
    *out = c.kind;
    return STW_OK;
}
