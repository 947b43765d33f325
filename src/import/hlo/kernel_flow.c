/* How XLA's kernels walk their tensors. A loop over the results computes each of them from the values it needs: what is read
 * through a broadcast is computed again and again, of what is sliced only a part. Reductions, transposes and concatenations have
 * loops of their own and end a kernel. Along the rows of a tensor (its last dimension) a kernel can also hold whole rows, and go
 * on with what it has made of each. */
#include "import/hlo/hlo.h"

/* ---- one instruction ---- */

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
    if (i->rule == STW_HLO_FUSION) return body_flow(m, i, stays);
    stw_flow flow = single_flow(m, i, stays);
    flow.form = stw_hlo_form_of(m, i);
    return flow;
}

/* ---- the ops inside of a fusion ---- */

/* As the graph keeps them: each is priced and walks its tensors as it would in the entry, so that a
 * fusion in a file and a group of a plan cost the same. */

typedef struct {
    const stw_hlo_module *m;
    const stw_hlo_costs *costs;
    const stw_builder *b;
    stw_insides *in;
    const stw_hlo_computation *body;
    bool holds_rows;
    int32_t *behind; /* (body->count) what an instruction is: itself, or what it is a view of */
    int32_t *part;   /* (body->count) + 1; 0: none */
    stw_error *error;
} taker;

static bool is_view(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_BITCAST:
        case STW_HLO_PART:
        case STW_HLO_SAME:
        case STW_HLO_DEPENDENCY: return true;
        case STW_HLO_RESHAPE: return stw_hlo_reshape_is_free(m, i);
        case STW_HLO_TRANSPOSE: return stw_hlo_transpose_is_free(m, i);
        default: return stw_hlo_call_is_view(i);
    }
}

static bool is_op(const stw_hlo_instruction *i) {
    return i->rule == STW_HLO_UNKNOWN || i->rule == STW_HLO_RESHAPE || i->rule == STW_HLO_TRANSPOSE ||
           i->rule >= STW_HLO_ELEMENTWISE;
}

static int32_t *behind_at(taker *t, int64_t instruction) { return &t->behind[instruction - t->body->first]; }

/* Operands come first, so one step leads to the end. A part of a tuple that was packed here is what was packed. */
static int32_t find_behind(taker *t, int32_t index) {
    const stw_hlo_instruction *i = &t->m->instruction[index];
    if (!is_view(t->m, i) || i->operand.count == 0) return index;
    const int32_t whole = *behind_at(t, t->m->number[i->operand.first]);
    const stw_hlo_instruction *from = &t->m->instruction[whole];
    if (i->rule != STW_HLO_PART || from->rule != STW_HLO_TUPLE || i->number < 0 || i->number >= from->operand.count) return whole;
    return *behind_at(t, t->m->number[from->operand.first + i->number]);
}

static stw_take take_of(const stw_flow *flow, int32_t operand) {
    if (flow->by_element) return STW_TAKE_EACH;
    if (operand > 0) return STW_TAKE_ALL;
    return flow->slices ? STW_TAKE_SLICE : flow->in_place ? STW_TAKE_NONE : STW_TAKE_ALL;
}

/* An operand, unless an earlier one is the same through the same view: the graph has each of an op's reads once. */
static stw_status add_read(taker *t, const stw_hlo_instruction *i, int32_t k, const stw_flow *flow, stw_part *part) {
    enum { FEW = 16 };
    const int64_t *operand = &t->m->number[i->operand.first];
    for (int32_t j = 0; j < k && j < FEW; j++) {
        if (operand[j] == operand[k]) return STW_OK;
    }
    const int32_t from = *behind_at(t, operand[k]);
    const stw_hlo_instruction *source = &t->m->instruction[from];
    const int32_t at = t->part[from - t->body->first];
    stw_part_read read = {.from = at - 1, .take = (uint8_t)take_of(flow, k)};
    if (source->rule == STW_HLO_PARAMETER && source->number >= 0) read.from = -1 - (int32_t)source->number;
    if (at == 0 && source->rule != STW_HLO_PARAMETER) return STW_OK; /* a constant */
    part->read_count++;
    return stw_insides_add_part_read(t->in, &read, t->error);
}

static stw_status add_part(taker *t, int32_t index) {
    const stw_hlo_instruction *i = &t->m->instruction[index];
    const stw_hlo_cost cost = stw_hlo_cost_of(t->costs, index);
    const stw_hlo_shape *main = stw_hlo_main_part(t->m, stw_hlo_shape_of(t->m, i));
    bool stays = false;
    const stw_flow flow = stw_hlo_flow_of(t->m, i, &stays);
    stw_part part = {.elements = 1.0,
                     .flops = cost.flops,
                     .bytes = cost.bytes,
                     .in_place = -1,
                     .dear = flow.dear,
                     .folds = flow.folds && t->holds_rows,
                     .form = flow.form,
                     .read_first = t->in->part_read_count};
    const bool array = main->kind == STW_HLO_ARRAY;
    for (int32_t k = 0; array && k < main->rank; k++) part.elements *= (double)stw_hlo_dimensions(t->m, main)[k];
    part.op_class = (uint8_t)(cost.op_class >= 0 ? (stw_op_class)cost.op_class : stw_builder_class_of(t->b, i->opcode));
    part.dtype = (uint8_t)(array && main->dtype >= 0 ? main->dtype : STW_DTYPE_NONE);
    if (flow.in_place) part.in_place = stw_hlo_shape_of(t->m, stw_hlo_operand(t->m, i, 1))->bytes;
    for (int32_t k = 0; k < i->operand.count; k++) TRY(add_read(t, i, k, &flow, &part));
    return stw_insides_add_part(t->in, &part, t->error);
}

static stw_status add_result(taker *t, int64_t instruction) {
    const int32_t behind = *behind_at(t, instruction), at = t->part[behind - t->body->first];
    const stw_hlo_instruction *source = &t->m->instruction[behind];
    stw_part_result result = {.part = at > 0 ? at - 1 : INT32_MIN,
                              .bytes = stw_hlo_shape_of(t->m, &t->m->instruction[instruction])->bytes};
    if (source->rule == STW_HLO_PARAMETER && source->number >= 0) result.part = -1 - (int32_t)source->number;
    return stw_insides_add_result(t->in, &result, t->error);
}

static stw_status take_all(taker *t, stw_fused_kernel *fused) {
    const stw_hlo_computation *body = t->body;
    for (int32_t index = body->first; index < body->first + body->count; index++) {
        const int32_t k = index - body->first;
        t->behind[k] = find_behind(t, index);
        if (t->behind[k] != index || !is_op(&t->m->instruction[index])) continue;
        TRY(add_part(t, index));
        t->part[k] = (int32_t)++fused->part_count;
    }
    const stw_hlo_instruction *root = &t->m->instruction[body->root];
    if (root->rule != STW_HLO_TUPLE) TRY(add_result(t, body->root));
    for (int32_t k = 0; root->rule == STW_HLO_TUPLE && k < root->operand.count; k++)
        TRY(add_result(t, t->m->number[root->operand.first + k]));
    fused->result_count = t->in->result_count - fused->result_first;
    return stw_insides_add_fused(t->in, fused, t->error);
}

stw_status stw_hlo_add_fused(const stw_hlo_module *m, const stw_hlo_costs *costs, const stw_builder *b,
                             const stw_hlo_instruction *fusion, stw_arena scratch, stw_insides *in, stw_error *error) {
    taker t = {.m = m, .costs = costs, .b = b, .in = in, .holds_rows = stw_hlo_is_triton(fusion), .error = error};
    t.body = &m->computation[m->number[fusion->called.first]];
    stw_fused_kernel fused = {.part_first = in->part_count, .result_first = in->result_count};
    STW_TRY_NEW(&scratch, t.behind, t.body->count, error);
    STW_TRY_NEW(&scratch, t.part, t.body->count, error);
    return take_all(&t, &fused);
}
