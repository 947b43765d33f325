/* The ops inside of a fusion, as the graph keeps them: each is priced and walks its tensors as it would in the entry, so that a
 * fusion in a file and a group of a plan cost the same. */
#include "import/hlo/hlo.h"

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
