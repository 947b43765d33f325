/* What HLO instructions do with the elements that they move: which of them lie side by side in memory, how many values make one.
 */
#include "import/hlo/hlo.h"

/* ---- where elements lie ---- */

/* The fastest dimension that is not of size 1; -1: there is none. */
static int64_t fastest(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    int32_t k = 0;
    return shape->kind == STW_HLO_ARRAY ? stw_hlo_next_dimension(m, shape, &k) : -1;
}

static float minor_of(const stw_hlo_module *m, const stw_hlo_shape *shape) {
    const int64_t d = fastest(m, shape);
    return d >= 0 ? (float)stw_hlo_dimensions(m, shape)[d] : 1.0f;
}

static bool folds_dimension(const stw_hlo_module *m, const stw_hlo_instruction *i, int64_t dimension) {
    for (int32_t k = 0; k < i->dimensions.count; k++) {
        if (m->number[i->dimensions.first + k] == dimension) return true;
    }
    return false;
}

static float share_of(int64_t whole, int64_t parts) { return parts > 0 ? (float)((double)whole / (double)parts) : 1.0f; }

/* ---- sorts ---- */

static void describe_reduction(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_form *form) {
    const stw_hlo_shape *from = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    form->folded = share_of(from->elements, stw_hlo_main_part(m, stw_hlo_shape_of(m, i))->elements);
    form->sort = STW_FORM_ROWS;
    int32_t k = 0;
    if (from->kind != STW_HLO_ARRAY) return;
    for (int64_t d; (d = stw_hlo_next_dimension(m, from, &k)) >= 0 && !folds_dimension(m, i, d);) {
        form->sort = STW_FORM_COLUMNS;
        form->wide *= (float)stw_hlo_dimensions(m, from)[d];
    }
    if (stw_hlo_reduces_few(m, i)) form->sort = STW_FORM_FEW;
}

/* What a product sums over, and how many products there are side by side. */
static double contracted_by(const stw_hlo_module *m, const stw_hlo_instruction *i, double *batch) {
    const stw_hlo_shape *out = stw_hlo_main_part(m, stw_hlo_shape_of(m, i));
    const stw_hlo_shape *left = stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0));
    double inner = 1.0;
    *batch = 1.0;
    if (i->rule == STW_HLO_DOT) { /* whose dimensions are checked */
        const int64_t *size = stw_hlo_dimensions(m, left);
        for (int32_t k = 0; k < i->contracting.count; k++) inner *= (double)size[m->number[i->contracting.first + k]];
        for (int32_t k = 0; k < i->batch.count; k++) *batch *= (double)size[m->number[i->batch.first + k]];
        return inner;
    }
    stw_hlo_cost cost = {0};
    stw_hlo_call_cost(m, i, &cost);
    for (int32_t k = 0; out->kind == STW_HLO_ARRAY && k < out->rank - 2; k++) *batch *= (double)stw_hlo_dimensions(m, out)[k];
    return out->elements > 0 ? (double)cost.flops / (2.0 * (double)out->elements) : 1.0;
}

/* (.. x m x k) by (.. x k x n). */
static void describe_product(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_form *form) {
    double batch;
    if (i->operand.count < 2) return;
    const double inner = contracted_by(m, i, &batch), right = (double)stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1))->elements;
    form->sort = STW_FORM_PRODUCT;
    form->folded = (float)inner;
    form->wide = inner > 0.0 && batch > 0.0 ? (float)(right / inner / batch) : 1.0f;
}

static void describe_convolution(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_form_sort sort, stw_form *form) {
    if (i->operand.count < 2) return;
    const stw_hlo_shape *result = stw_hlo_main_part(m, stw_hlo_shape_of(m, i));
    const stw_hlo_shape *kernel = sort == STW_FORM_KERNEL_GRADIENT ? result : stw_hlo_shape_of(m, stw_hlo_operand(m, i, 1));
    form->sort = (uint8_t)sort;
    if (kernel->kind != STW_HLO_ARRAY || i->kernel_output < 0 || i->kernel_output >= kernel->rank) return;
    form->wide = (float)stw_hlo_dimensions(m, kernel)[i->kernel_output];
    form->folded = share_of(kernel->elements, stw_hlo_dimensions(m, kernel)[i->kernel_output]);
}

static stw_form_sort sort_of_move(stw_str opcode) {
    static const struct {
        const char *opcode;
        stw_form_sort sort;
    } moves[] = {{"broadcast", STW_FORM_BROADCAST},     {"iota", STW_FORM_IOTA},     {"pad", STW_FORM_PAD},
                 {"concatenate", STW_FORM_CONCATENATE}, {"slice", STW_FORM_SLICE},   {"dynamic-slice", STW_FORM_DYNAMIC_SLICE},
                 {"gather", STW_FORM_GATHER},           {"reverse", STW_FORM_PLAIN}, {"copy", STW_FORM_PLAIN}};
    for (int k = 0; k < (int)(sizeof moves / sizeof moves[0]); k++) {
        if (stw_str_is(opcode, moves[k].opcode)) return moves[k].sort;
    }
    return STW_FORM_OTHER;
}

/* A copy whose result lies otherwise is a transpose. */
static bool changes_layout(const stw_hlo_module *m, const stw_hlo_shape *from, const stw_hlo_shape *to) {
    if (from->kind != STW_HLO_ARRAY || to->kind != STW_HLO_ARRAY || from->rank != to->rank) return false;
    return fastest(m, from) != fastest(m, to) || stw_hlo_is_row_major(m, from) != stw_hlo_is_row_major(m, to);
}

static void describe_call(const stw_hlo_module *m, const stw_hlo_instruction *i, stw_form *form) {
    stw_hlo_cost cost = {.op_class = STW_CLASS_OPAQUE};
    stw_hlo_call_cost(m, i, &cost);
    if (cost.op_class == STW_CLASS_MATMUL) describe_product(m, i, form);
    if (cost.op_class != STW_CLASS_CONVOLUTION) return;
    const bool input = stw_hlo_find_after(i->target, "BackwardInput").p != NULL;
    const bool kernel = stw_hlo_find_after(i->target, "BackwardFilter").p != NULL;
    describe_convolution(m, i, input ? STW_FORM_INPUT_GRADIENT : kernel ? STW_FORM_KERNEL_GRADIENT : STW_FORM_CONVOLUTION, form);
}

stw_form stw_hlo_form_of(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *to = stw_hlo_main_part(m, stw_hlo_shape_of(m, i));
    const stw_hlo_shape *from = i->operand.count > 0 ? stw_hlo_main_part(m, stw_hlo_shape_of(m, stw_hlo_operand(m, i, 0))) : to;
    stw_form form = {
        .minor = minor_of(m, to), .from_minor = minor_of(m, from), .folded = 1.0f, .wide = 1.0f, .sort = STW_FORM_OTHER};
    form.call = i->rule == STW_HLO_CUSTOM;
    form.from = (uint8_t)(from->kind == STW_HLO_ARRAY && from->dtype >= 0 ? from->dtype : STW_DTYPE_NONE);
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_ELEMENTWISE:
        case STW_HLO_MAP: form.sort = STW_FORM_PLAIN; break;
        case STW_HLO_RESHAPE:
        case STW_HLO_TRANSPOSE: form.sort = STW_FORM_TRANSPOSE; break;
        case STW_HLO_MOVE:
        case STW_HLO_SLICE: form.sort = (uint8_t)sort_of_move(i->opcode); break;
        case STW_HLO_UPDATE: form.sort = STW_FORM_UPDATE; break;
        case STW_HLO_SCATTER: form.sort = STW_FORM_SCATTER; break;
        case STW_HLO_REDUCE: describe_reduction(m, i, &form); break;
        case STW_HLO_DOT: describe_product(m, i, &form); break;
        case STW_HLO_CONVOLUTION: describe_convolution(m, i, STW_FORM_CONVOLUTION, &form); break;
        case STW_HLO_CUSTOM: describe_call(m, i, &form); break;
        default: break;
    }
    if (stw_str_is(i->opcode, "copy") && changes_layout(m, from, to)) form.sort = STW_FORM_TRANSPOSE;
    return form;
}
