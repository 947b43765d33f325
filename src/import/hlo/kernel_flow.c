/* How XLA's kernels walk their tensors. A loop over the results computes each of them from the values it needs: what is read
 * through a broadcast is computed again and again, of what is sliced only a part. Reductions, transposes and concatenations have
 * loops of their own and end a kernel. Along the rows of a tensor (its last dimension) a kernel can also hold whole rows, and go
 * on with what it has made of each. */
#include "import/hlo/hlo.h"

static bool is_move(const stw_hlo_instruction *i, const char *opcode) { return stw_str_is(i->opcode, opcode); }

bool stw_hlo_reduces_few(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    enum { FEW = 16 };
    const stw_hlo_shape *from = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    return from->elements < stw_hlo_multiply(FEW, stw_hlo_main_part(m, stw_hlo_shape_of(m, i))->elements);
}

/* What Triton computes with anywhere. */
static bool is_common(stw_str dtype) {
    static const char *const common[] = {"f32", "f16", "bf16", "pred", "s32"};
    for (int k = 0; k < (int)(sizeof common / sizeof common[0]); k++) {
        if (stw_str_is(dtype, common[k])) return true;
    }
    return false;
}

/* The length of its rows; 0: it has none. */
static int64_t row_of(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    if (shape->kind != STW_HLO_ARRAY || shape->elements < 1 || !stw_hlo_is_row_major(m, shape)) return 0;
    if (shape->dtype < 0 || !is_common(stw_str_of(stw_dtype_name(shape->dtype)))) return 0;
    return shape->rank == 0 ? 1 : stw_hlo_dimensions(m, shape)[shape->rank - 1];
}

static stw_flow reduction_flow(const stw_hlo_module *m, const stw_hlo_instruction *i, bool *stays) {
    const stw_hlo_shape *from = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0)), *to = stw_hlo_shape_of(m, i);
    if (to->kind == STW_HLO_ARRAY && stw_hlo_reduces_few(m, i)) return (stw_flow){0};
    const bool one = i->dimensions.count == 1 && m->number[i->dimensions.first] == from->rank - 1;
    const int64_t row = one && to->kind == STW_HLO_ARRAY && row_of(m, to) > 0 ? row_of(m, from) : 0;
    *stays = row == 0;
    return (stw_flow){.row = row, .folds = row > 0};
}

/* Divisions, roots and what has no closed form. */
static bool is_dear(stw_str opcode) {
    static const char *const dear[] = {"divide",   "remainder", "power", "exponential", "log",          "tanh",
                                       "logistic", "sqrt",      "rsqrt", "cbrt",        "sine",         "cosine",
                                       "tan",      "asin",      "acos",  "atan2",       "sinh",         "cosh",
                                       "asinh",    "acosh",     "erf",   "atanh",       "log-plus-one", "exponential-minus-one"};
    for (int k = 0; k < (int)(sizeof dear / sizeof dear[0]); k++) {
        if (stw_str_is(opcode, dear[k])) return true;
    }
    return false;
}

static stw_flow single_flow(const stw_hlo_module *m, const stw_hlo_instruction *i, bool *stays) {
    stw_flow by_element = {.row = row_of(m, stw_hlo_shape_of(m, i)), .by_element = true};
    *stays = false;
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_ELEMENTWISE: by_element.dear = is_dear(i->opcode); return by_element;
        case STW_HLO_REDUCE: return reduction_flow(m, i, stays);
        case STW_HLO_MOVE:
            if (is_move(i, "broadcast")) return by_element;
            if (is_move(i, "iota") || is_move(i, "reverse")) return (stw_flow){.by_element = true};
            if (is_move(i, "pad")) return (stw_flow){.slices = true}; /* what it pads with is in no input */
            break;
        case STW_HLO_SLICE:
            if (is_move(i, "slice")) return (stw_flow){.by_element = true};
            *stays = true;
            return (stw_flow){.slices = true};
        case STW_HLO_UPDATE: *stays = true; return (stw_flow){.in_place = true};
        default: break;
    }
    *stays = true;
    return (stw_flow){0};
}

/* A transpose that XLA does in no tiles of its own, or by Triton, would read all that it took in out of order. Small ones are
 * in the cache. */
static bool transposes_plainly(const stw_hlo_module *m, const stw_hlo_instruction *fusion, const stw_hlo_instruction *i) {
    enum { MANY = 1 << 18 };
    if (i->rule != STW_HLO_TRANSPOSE || stw_hlo_shape_of(m, i)->elements < MANY) return false;
    return !stw_str_is(fusion->kind, "kInput") && !stw_hlo_transpose_is_free(m, i);
}

/* Of a body: all that its instructions have in common. One that ends with an op that stays is as that one. */
static stw_flow body_flow(const stw_hlo_module *m, const stw_hlo_instruction *fusion, bool *stays) {
    const stw_hlo_computation *body = &m->computation[m->number[fusion->called.first]];
    stw_flow flow = {0};
    int32_t count = 0;
    *stays = false;
    for (int32_t k = body->first; k < body->first + body->count; k++) {
        const stw_hlo_instruction *i = &m->instruction[k];
        const bool is_value = i->rule == STW_HLO_PARAMETER || i->rule == STW_HLO_CONSTANT || i->rule == STW_HLO_BITCAST;
        const bool is_free = i->rule == STW_HLO_RESHAPE && stw_hlo_reshape_is_free(m, i);
        if (is_value || is_free) continue;
        bool one_stays = false;
        const stw_flow one = single_flow(m, i, &one_stays);
        flow.dear |= one.dear;
        flow.by_element = one.by_element && (count == 0 || flow.by_element);
        flow.row = count == 0 || flow.row == one.row ? one.row : 0;
        flow.folds = count == 0 && one.folds;
        if (count > 0 && (one.folds || flow.folds)) flow = (stw_flow){0}, one_stays = true;
        flow.alone |= transposes_plainly(m, fusion, i);
        *stays |= one_stays;
        count++;
    }
    return flow;
}

stw_flow stw_hlo_flow_of(const stw_hlo_module *m, const stw_hlo_instruction *i, bool *stays) {
    if (i->rule != STW_HLO_FUSION) return single_flow(m, i, stays);
    return body_flow(m, i, stays);
}
