/* What XLA lets into a fusion, as facts about single instructions of the entry: which stand by themselves, and what those that do
 * not want of a kernel that they are in. Every search and the exporter go by what stands here (plan/kernel_rules.h). */
#include "import/hlo/hlo.h"

static const char kind_alone[] = "is of a kind that XLA fuses with nothing";

/* ---- single instructions ---- */

static bool is_random(const stw_hlo_instruction *i) { return stw_str_starts(i->opcode, "rng"); }

/* As an instruction of a fused computation. */
static const char *find_fault(const stw_hlo_instruction *i) {
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_ELEMENTWISE: return is_random(i) ? kind_alone : NULL;
        case STW_HLO_MOVE: return is_random(i) || stw_str_starts(i->opcode, "set-dimension") ? kind_alone : NULL;
        case STW_HLO_CONSTANT:
        case STW_HLO_TUPLE:
        case STW_HLO_PART:
        case STW_HLO_BITCAST:
        case STW_HLO_RESHAPE:
        case STW_HLO_TRANSPOSE:
        case STW_HLO_SLICE:
        case STW_HLO_UPDATE:
        case STW_HLO_SCATTER:
        case STW_HLO_REDUCE:
        case STW_HLO_WINDOW:
        case STW_HLO_MAP: return NULL;
        case STW_HLO_CALL:
        case STW_HLO_WHILE:
        case STW_HLO_CONDITIONAL: return stw_apart_control;
        default: return kind_alone;
    }
}

bool stw_hlo_is_triton(const stw_hlo_instruction *fusion) {
    return stw_str_is(fusion->kind, "kCustom") && stw_hlo_find_after(fusion->config, "\"__triton\"").length > 0;
}

/* Of plain ops: by loops, or by blocks of Triton. */
static bool is_plain(const stw_hlo_instruction *fusion) {
    return stw_str_is(fusion->kind, "kLoop") || stw_str_is(fusion->kind, "kInput") || stw_hlo_is_triton(fusion);
}

static const stw_hlo_computation *body_of(const stw_hlo_module *m, const stw_hlo_instruction *fusion) {
    return &m->computation[m->number[fusion->called.first]];
}

static const char *find_body_fault(const stw_hlo_module *m, const stw_hlo_instruction *fusion) {
    const stw_hlo_computation *body = body_of(m, fusion);
    const bool packs = m->instruction[body->root].rule == STW_HLO_TUPLE;
    for (int32_t k = body->first; k < body->first + body->count; k++) {
        const stw_hlo_instruction *i = &m->instruction[k];
        if (i->rule == STW_HLO_PARAMETER) continue;
        if (find_fault(i) != NULL) return "is a fusion with an op that XLA fuses with nothing else";
        for (int32_t o = 0; packs && o < i->operand.count; o++) {
            if (m->number[i->operand.first + o] == body->root) return "is a fusion that reads its own results";
        }
    }
    return NULL;
}

static bool is_array(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    return stw_hlo_shape_of(m, i)->kind == STW_HLO_ARRAY;
}

static bool yields_arrays(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    bool arrays = shape->kind != STW_HLO_TOKEN;
    for (int32_t k = 0; shape->kind == STW_HLO_PARTS && k < shape->rank; k++) {
        arrays &= m->shape[shape->first + k].kind == STW_HLO_ARRAY;
    }
    return arrays;
}

static const char *find_op_fault(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    if (i->rule == STW_HLO_FUSION && !is_plain(i)) return "is a fusion of another kind than kLoop, kInput and kCustom of Triton";
    const char *fault = i->rule == STW_HLO_FUSION ? find_body_fault(m, i) : find_fault(i);
    if (fault != NULL) return fault;
    if (i->rule == STW_HLO_PART || i->rule == STW_HLO_TUPLE) return "takes a tuple apart and waits for others";
    if (!yields_arrays(m, i)) return "yields something else than arrays";
    for (int32_t k = 0; k < i->operand.count; k++) {
        if (!is_array(m, stw_hlo_operand(m, i, k))) return "reads a tuple as a whole";
    }
    return NULL;
}

const char *stw_hlo_view_apart(const stw_hlo_instruction *i) {
    if (i->rule == STW_HLO_PART) return NULL;
    if (find_fault(i) != NULL || i->operand.count != 1) return "stands between two ops, and XLA fuses it with nothing";
    return NULL;
}

/* ---- tuples that are read as a whole ---- */

/* What an instruction of the entry is when one looks through tuples and barriers. */
stw_status stw_hlo_look_through(const stw_hlo_module *m, const stw_hlo_computation *entry, stw_arena *arena, int32_t **out,
                                stw_error *error) {
    int32_t *behind;
    STW_TRY_NEW(arena, behind, entry->count, error);
    for (int32_t k = 0; k < entry->count; k++) {
        const stw_hlo_instruction *i = &m->instruction[entry->first + k];
        behind[k] = entry->first + k;
        if (i->rule != STW_HLO_SAME && i->rule != STW_HLO_PART) continue;
        const int32_t from = behind[m->number[i->operand.first] - entry->first];
        const stw_hlo_instruction *whole = &m->instruction[from];
        if (i->rule == STW_HLO_SAME) behind[k] = from;
        if (i->rule == STW_HLO_PART && whole->rule == STW_HLO_TUPLE && i->number < whole->operand.count) {
            behind[k] = behind[m->number[whole->operand.first + i->number] - entry->first];
        }
    }
    *out = behind;
    return STW_OK;
}

/* Operands come first, so the root of what a view shows is known already. */
stw_status stw_hlo_find_roots(const stw_hlo_module *m, const stw_hlo_computation *entry, const bool *is_op, const int32_t *behind,
                              stw_arena *arena, int32_t **out, stw_error *error) {
    int32_t *root;
    STW_TRY_NEW(arena, root, entry->count, error);
    for (int32_t k = 0; k < entry->count; k++) {
        const stw_hlo_instruction *i = &m->instruction[entry->first + k];
        const bool is_source = i->rule == STW_HLO_PARAMETER || i->rule == STW_HLO_CONSTANT;
        const bool is_view = !is_op[k] && !is_source && i->rule != STW_HLO_TUPLE && i->operand.count > 0;
        root[k] = entry->first + k;
        if (behind[k] != entry->first + k) {
            root[k] = root[behind[k] - entry->first];
        } else if (is_view) {
            root[k] = root[m->number[i->operand.first] - entry->first];
        }
    }
    *out = root;
    return STW_OK;
}

enum { READ_WHOLE = 1, HAS_PART = 2 };

/* (entry->count) whether somebody reads the value as it is, all of it; and whether a part of it is taken right there. */
static stw_status find_reads(const stw_hlo_module *m, const stw_hlo_computation *entry, const int32_t *behind, stw_arena *arena,
                             uint8_t **out, stw_error *error) {
    uint8_t *read;
    STW_TRY_NEW(arena, read, entry->count, error);
    read[behind[entry->root - entry->first] - entry->first] |= READ_WHOLE;
    for (int32_t k = entry->count; k-- > 0;) {
        const stw_hlo_instruction *i = &m->instruction[entry->first + k];
        const bool looks_through = i->rule == STW_HLO_SAME || i->rule == STW_HLO_PART;
        if (i->rule == STW_HLO_PART) read[m->number[i->operand.first] - entry->first] |= HAS_PART;
        if (looks_through || (i->rule == STW_HLO_TUPLE && (read[k] & READ_WHOLE) == 0)) continue;
        for (int32_t o = 0; o < i->operand.count; o++) {
            read[behind[m->number[i->operand.first + o] - entry->first] - entry->first] |= READ_WHOLE;
        }
    }
    *out = read;
    return STW_OK;
}

stw_status stw_hlo_find_apart(const stw_hlo_module *m, const stw_hlo_computation *entry, stw_arena *arena, const char ***out,
                              bool **keeps, stw_error *error) {
    const char **apart;
    int32_t *behind = NULL;
    uint8_t *read = NULL;
    STW_TRY_NEW(arena, apart, entry->count, error);
    STW_TRY_NEW(arena, *keeps, entry->count, error);
    TRY(stw_hlo_look_through(m, entry, arena, &behind, error));
    TRY(find_reads(m, entry, behind, arena, &read, error));
    for (int32_t k = 0; k < entry->count; k++) {
        const stw_hlo_instruction *i = &m->instruction[entry->first + k];
        apart[k] = find_op_fault(m, i);
        if (apart[k] != NULL || is_array(m, i)) continue;
        if (read[k] & READ_WHOLE) apart[k] = "yields a tuple that is read as a whole";
        if ((read[k] & HAS_PART) == 0) apart[k] = "yields a tuple of which no part is taken";
    }
    for (int32_t k = 0; k < entry->count; k++) {
        const stw_hlo_instruction *i = &m->instruction[entry->first + k];
        if (i->rule != STW_HLO_PART || read[k] != 0 || behind[k] != entry->first + k) continue;
        (*keeps)[behind[m->number[i->operand.first] - entry->first] - entry->first] = true;
    }
    *out = apart;
    return STW_OK;
}

/* ---- loops ---- */

static uint64_t number_of(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    uint64_t number = 0x9e3779b97f4a7c15u * (uint64_t)(shape->rank + 1);
    for (int32_t k = 0; k < shape->rank; k++) {
        number = (number ^ (uint64_t)stw_hlo_dimensions(m, shape)[k]) * 0xd6e8feb86659fd93u;
        number ^= number >> 32;
    }
    return number;
}

/* Of one result: the shape that it is computed over. Of a reduction for which threads work together that is what it reads: GPUs
 * do so, in kernels of kind kInput or by blocks. */
static void describe_loop(const stw_hlo_module *m, const stw_hlo_instruction *i, bool together, stw_flow *flow) {
    const stw_hlo_shape *shape = stw_hlo_main_part(m, stw_hlo_shape_of(m, i));
    flow->reduces = together && i->rule == STW_HLO_REDUCE && !stw_hlo_reduces_few(m, i);
    if (flow->reduces) shape = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    flow->loop = number_of(m, shape);
    flow->loop_elements = shape->elements;
    flow->in_order = stw_hlo_is_row_major(m, shape);
}

static bool are_alike(const stw_flow *a, const stw_flow *b) {
    const bool may_differ = (a->reduces || b->reduces) && a->in_order && b->in_order;
    return a->loop == b->loop || (may_differ && a->loop_elements == b->loop_elements);
}

/* The parameter that stands behind an instruction of a body, perhaps through bitcasts; -1: it is made there. */
static int64_t parameter_behind(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    while (i->rule == STW_HLO_BITCAST) i = stw_hlo_operand(m, i, 0);
    return i->rule == STW_HLO_PARAMETER ? i->number : -1;
}

/* An update in place of one of the results: which input it writes over. Several results that do so leave `several`. */
static void describe_writing(const stw_hlo_module *m, const stw_hlo_instruction *i, bool in_body, stw_flow *flow, bool *several) {
    if (i->rule != STW_HLO_UPDATE && i->rule != STW_HLO_SCATTER) return;
    const int64_t parameter = in_body ? parameter_behind(m, stw_hlo_operand(m, i, 0)) : 0;
    const bool scatters = i->rule == STW_HLO_SCATTER;
    *several |= flow->overwrites > 0 || (scatters && (parameter < 0 || i->operand.count != 3));
    flow->scatters |= scatters;
    if (parameter >= 0 && parameter < INT32_MAX) flow->overwrites = (int32_t)parameter + 1;
}

static bool scatters_within(const stw_hlo_module *m, const stw_hlo_computation *body) {
    for (int32_t k = body->first; k < body->first + body->count; k++) {
        if (m->instruction[k].rule == STW_HLO_SCATTER && k != body->root) return true;
    }
    return false;
}

static const char *describe_body(const stw_hlo_module *m, const stw_hlo_instruction *fusion, stw_flow *flow) {
    const stw_hlo_computation *body = body_of(m, fusion);
    const stw_hlo_instruction *root = &m->instruction[body->root];
    const int32_t count = root->rule == STW_HLO_TUPLE ? root->operand.count : 1;
    bool alike = true, several = false;
    for (int32_t k = 0; k < count; k++) {
        const stw_hlo_instruction *made = root->rule == STW_HLO_TUPLE ? stw_hlo_operand(m, root, k) : root;
        stw_flow one = {0};
        describe_loop(m, made, !stw_str_is(fusion->kind, "kLoop"), &one);
        one.reduces |= stw_str_is(fusion->kind, "kInput");
        describe_writing(m, made, true, flow, &several);
        if (k == 0) flow->loop = one.loop, flow->loop_elements = one.loop_elements, flow->in_order = one.in_order;
        flow->reduces |= one.reduces;
        one.reduces = flow->reduces;
        alike &= are_alike(flow, &one);
        flow->in_order &= one.in_order;
    }
    if (!alike) return "is a fusion whose results are computed over several shapes";
    if (several || scatters_within(m, body)) return "is a fusion that writes in place in several places";
    return NULL;
}

/* Its target is read once, by it alone of all its operands. */
static bool reads_target_again(const stw_hlo_module *m, const stw_hlo_instruction *i, const stw_flow *flow) {
    int32_t same = 0;
    if (flow->overwrites == 0 || flow->overwrites > i->operand.count) return false;
    const int64_t target = m->number[i->operand.first + flow->overwrites - 1];
    for (int32_t k = 0; k < i->operand.count; k++) same += m->number[i->operand.first + k] == target;
    if (i->rule != STW_HLO_FUSION) return same > 1;
    const stw_hlo_computation *body = body_of(m, i);
    int32_t uses = 0;
    for (int32_t k = body->first; k < body->first + body->count; k++) {
        const stw_hlo_instruction *inner = &m->instruction[k];
        for (int32_t o = 0; o < inner->operand.count; o++) {
            const stw_hlo_instruction *read = stw_hlo_operand(m, inner, o);
            uses += read->rule == STW_HLO_PARAMETER && read->number == flow->overwrites - 1;
        }
    }
    return same > 1 || uses > 1;
}

const char *stw_hlo_describe_kernel(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_flow *flow) {
    const char *fault = NULL;
    bool several = false;
    if (i->rule == STW_HLO_FUSION) {
        fault = describe_body(m, i, flow);
    } else {
        describe_loop(m, i, false, flow);
        describe_writing(m, i, false, flow, &several);
    }
    if (several) fault = "writes in place in several places";
    if (fault == NULL && reads_target_again(m, i, flow)) fault = "writes over what it reads again";
    return fault;
}
