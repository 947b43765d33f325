/* Kernels that hold whole rows: they reduce rows and go on with the results, as a softmax does. XLA's loops cannot; its Triton
 * emitter can, if the fusion asks for it and says how many rows a block takes. */
#include "export/hlo.h"
#include "plan/kernel_rules.h"

static const stw_hlo_shape *shape_of(const stw_hlo_edit *edit, int64_t item) {
    return stw_hlo_shape_of(edit->m, stw_hlo_at(edit, edit->item[item].source));
}

static bool is_output(const stw_hlo_edit *edit, const stw_hlo_fused *fused, int64_t item) {
    for (int32_t k = 0; k < fused->output_count; k++) {
        if (edit->output[fused->output_first + k].item == item) return true;
    }
    return false;
}

/* A reduction that is read within the fusion; -1: none. */
static int32_t find_inner_reduction(const stw_hlo_edit *edit, const stw_hlo_fused *fused) {
    for (int32_t k = fused->first; k < fused->first + fused->count; k++) {
        const stw_hlo_item *item = &edit->item[k];
        if (item->kind != STW_ITEM_COPY || is_output(edit, fused, k)) continue;
        const stw_hlo_instruction *i = stw_hlo_at(edit, item->source);
        if (i->rule == STW_HLO_REDUCE && !stw_hlo_reduces_few(edit->m, i)) return k;
    }
    return -1;
}

/* Priced as such (plan/group_cost.h). */
static bool is_row_kernel(const stw_hlo_edit *edit, const stw_hlo_fused *fused) {
    const stw_membership *tasks = &edit->tasks;
    const int32_t *member = &tasks->member[tasks->member_start[fused->task]];
    const int32_t count = tasks->member_start[fused->task + 1] - tasks->member_start[fused->task];
    bool written[STW_MAX_GROUP_MEMBERS] = {false};
    if (fused->output_count != 1 || count < 2) return false;
    const int32_t result = stw_hlo_root_of(edit, edit->output[fused->output_first].value);
    for (int32_t k = 0; k < count; k++) written[k] = edit->op_at[member[k]] == result;
    return stw_find_row_kernel(edit->e->graph, member, written, count).fits;
}

/* Blocks of about as many elements as the threads of four or eight warps hold well. */
static int64_t rows_per_block(int64_t row, int64_t rows) {
    const int64_t most = row <= 512 ? 8192 : 4096;
    int64_t count = 1;
    while (2 * count * row <= most && rows % (2 * count) == 0) count *= 2;
    return count;
}

static stw_status write_config(stw_hlo_edit *edit, const stw_hlo_shape *shape, bool is_row, int64_t row, stw_str *out) {
    const int32_t last = shape->rank - 1, block = is_row ? last - 1 : last;
    const int64_t rows = block >= 0 ? stw_hlo_dimensions(edit->m, shape)[block] : 1, count = rows_per_block(row, rows);
    stw_str sizes = STW_STR("");
    for (int32_t k = 0; k < shape->rank; k++) {
        const int64_t size = k == block ? count : k == last ? row : 1;
        sizes = stw_str_format(edit->arena, "%.*s%s\"%lld\"", STW_STR_SHOW(sizes), k > 0 ? "," : "", (long long)size);
    }
    *out = stw_str_format(edit->arena,
                          "{\"fusion_backend_config\":{\"kind\":\"__triton\",\"block_level_fusion_config\":{\"num_warps\":\"%d\","
                          "\"output_tiles\":[{\"sizes\":[%.*s]}],\"num_ctas\":1,\"num_stages\":1}}}",
                          count * row >= 8192 ? 8 : 4, STW_STR_SHOW(sizes));
    return out->p != NULL ? STW_OK : stw_fail(edit->error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_hlo_find_rows(stw_hlo_edit *edit, stw_hlo_fused *fused) {
    const stw_export *e = edit->e;
    const int32_t device = e->plan->device[edit->tasks.task_node[fused->task]];
    const int32_t inner = find_inner_reduction(edit, fused);
    if (inner < 0 || !e->machine->device[device].fuses_epilogue[STW_CLASS_REDUCE] || !is_row_kernel(edit, fused)) return STW_OK;
    const stw_hlo_instruction *reduction = stw_hlo_at(edit, edit->item[inner].source);
    const stw_hlo_shape *from = stw_hlo_shape_of(edit->m, stw_hlo_operand(edit->m, reduction, 0));
    const stw_hlo_shape *to = shape_of(edit, inner), *result = shape_of(edit, fused->root);
    const int64_t row = from->rank > 0 ? stw_hlo_dimensions(edit->m, from)[from->rank - 1] : 0;
    const bool is_row = result->elements == from->elements;
    if (result->kind != STW_HLO_ARRAY || !(is_row || result->elements == to->elements) ||
        (is_row && (result->rank < 2 || stw_hlo_dimensions(edit->m, result)[result->rank - 1] != row))) {
        return STW_OK; /* an ordinary loop, which reduces anew for each result */
    }
    return write_config(edit, result, is_row, row, &fused->config);
}
