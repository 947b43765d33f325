/* What XLA wants of a fusion beyond the rules of plans. */
#include "export/hlo.h"

static const stw_hlo_instruction *source_of(const stw_hlo_edit *edit, int64_t item) {
    return stw_hlo_at(edit, edit->item[item].source);
}

static bool is_rule(const stw_hlo_edit *edit, int64_t item, stw_hlo_rule rule) {
    return edit->item[item].kind == STW_ITEM_COPY && source_of(edit, item)->rule == rule;
}

/* The shape that an output is computed over: a reduction's is that of what it reads. */
static const stw_hlo_shape *iteration_of(const stw_hlo_edit *edit, int64_t item) {
    while (is_rule(edit, item, STW_HLO_PART)) item = stw_hlo_number(edit, edit->item[item].operand, 0);
    if (is_rule(edit, item, STW_HLO_REDUCE) && !stw_hlo_reduces_few(edit->m, source_of(edit, item)))
        item = stw_hlo_number(edit, edit->item[item].operand, 0);
    return stw_hlo_shape_of(edit->m, source_of(edit, item));
}

/* The same loop: equal shapes; where there are reductions, also the same elements in the same order. */
static bool are_alike(const stw_hlo_edit *edit, const stw_hlo_shape *a, const stw_hlo_shape *b, bool reduces) {
    if (a == b) return true;
    const bool in_order = stw_hlo_is_row_major(edit->m, a) && stw_hlo_is_row_major(edit->m, b);
    if (reduces && a->kind == STW_HLO_ARRAY && b->kind == STW_HLO_ARRAY && a->elements == b->elements && in_order) return true;
    bool alike = a->kind == STW_HLO_ARRAY && b->kind == STW_HLO_ARRAY && a->rank == b->rank;
    for (int32_t k = 0; alike && k < a->rank; k++) {
        alike = stw_hlo_dimensions(edit->m, a)[k] == stw_hlo_dimensions(edit->m, b)[k];
    }
    return alike;
}

/* How often each item of a fused computation is read in it, by item minus the first. What makes its root does not count. */
static stw_status count_uses(const stw_hlo_edit *edit, const stw_hlo_fused *fused, stw_arena *arena, int32_t **out) {
    int32_t *uses;
    STW_TRY_NEW(arena, uses, fused->count, edit->error);
    for (int32_t k = fused->first; k < fused->first + fused->count; k++) {
        const stw_hlo_range operand = edit->item[k].operand;
        for (int32_t o = 0; o < operand.count; o++) uses[stw_hlo_number(edit, operand, o) - fused->first]++;
    }
    *out = uses;
    return STW_OK;
}

/* Does another parameter of the fusion stand for the same bytes? */
static bool is_read_twice(const stw_hlo_edit *edit, const stw_hlo_fused *fused, const int32_t *uses, int64_t parameter) {
    const int32_t root = stw_hlo_root_of(edit, edit->item[parameter].source);
    int32_t same = 0;
    for (int32_t k = 0; k < fused->outside.count; k++) {
        same += stw_hlo_root_of(edit, stw_hlo_number(edit, fused->outside, k)) == root;
    }
    return same > 1 || uses[parameter - fused->first] > 1;
}

/* An output that XLA writes over what it updates: nobody else in the fusion may read that. */
static stw_status check_in_place(const stw_hlo_edit *edit, const stw_hlo_fused *fused, const int32_t *uses, int64_t item) {
    const int32_t source = edit->item[item].source;
    if (!is_rule(edit, item, STW_HLO_UPDATE) && !is_rule(edit, item, STW_HLO_SCATTER)) return STW_OK;
    const bool scatters = is_rule(edit, item, STW_HLO_SCATTER);
    item = stw_hlo_number(edit, edit->item[item].operand, 0);
    while (is_rule(edit, item, STW_HLO_BITCAST) && uses[item - fused->first] == 1) {
        item = stw_hlo_number(edit, edit->item[item].operand, 0);
    }
    if (edit->item[item].kind == STW_ITEM_PARAMETER && is_read_twice(edit, fused, uses, item)) {
        return stw_hlo_refuse(edit, fused, source, "writes over what another member reads");
    }
    if (scatters && edit->item[item].kind != STW_ITEM_PARAMETER) {
        return stw_hlo_refuse(edit, fused, source, "writes over what another member makes");
    }
    return STW_OK;
}

stw_status stw_hlo_check_fused(const stw_hlo_edit *edit, const stw_hlo_fused *fused) {
    const stw_hlo_output *output = &edit->output[fused->output_first];
    stw_arena scratch = *edit->arena;
    int32_t *uses = NULL;
    if (fused->outside.count + fused->output_count > STW_MAX_GROUP_TENSORS) {
        return stw_hlo_refuse(edit, fused, output[0].value, "would be one of more than 96 operands and results");
    }
    TRY(count_uses(edit, fused, &scratch, &uses));
    for (int32_t k = 0; k < fused->output_count; k++) {
        TRY(check_in_place(edit, fused, uses, output[k].item));
        if (!are_alike(edit, iteration_of(edit, output[0].item), iteration_of(edit, output[k].item), fused->is_input)) {
            return stw_hlo_refuse(edit, fused, output[k].value, "is a result of another shape than the others");
        }
    }
    for (int32_t k = fused->first; k < fused->first + fused->count; k++) {
        if (!is_rule(edit, k, STW_HLO_SCATTER) || (k == fused->root && fused->output_count == 1)) continue;
        return stw_hlo_refuse(edit, fused, edit->item[k].source, "must be its only result");
    }
    return STW_OK;
}
