/* What stays in the entry, what the fusions hand to it, and who reads what there. */
#include "export/hlo/edit.h"
#include "plan/kernel_rules.h"

/* ---- kernels that hold whole rows ---- */

/* Kernels that hold whole rows: they reduce rows and go on with the results, as a softmax does. XLA's loops cannot; its Triton
 * emitter can, if the fusion asks for it and says how many rows a block takes. */

static const stw_hlo_shape *shape_of(const stw_hlo_edit *edit, int64_t item) {
    return stw_hlo_shape_of(edit->m, stw_hlo_at(edit, edit->item[item].source));
}

static bool is_result(const stw_hlo_edit *edit, const stw_hlo_fused *fused, int64_t item) {
    for (int32_t k = 0; k < fused->output_count; k++) {
        if (edit->output[fused->output_first + k].item == item) return true;
    }
    return false;
}

/* A reduction that is read within the fusion; -1: none. */
static int32_t find_inner_reduction(const stw_hlo_edit *edit, const stw_hlo_fused *fused) {
    for (int32_t k = fused->first; k < fused->first + fused->count; k++) {
        const stw_hlo_item *item = &edit->item[k];
        if (item->kind != STW_ITEM_COPY || is_result(edit, fused, k)) continue;
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

static stw_status find_rows(stw_hlo_edit *edit, stw_hlo_fused *fused) {
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

/* ---- tuples that are only packed to be taken apart ---- */

/* Tuples of the entry, with a barrier around them perhaps, that are only packed to be taken apart again. The plan looks through
 * them. Where one packs a value that the plan keeps within a kernel or computes in several, its parts are what went into it, and
 * it goes away with its barrier; all others stay. */

/* The plan writes it to memory: some other task reads it, or it is an output. */
static bool is_visible(const stw_hlo_edit *edit, int32_t op) {
    const stw_graph *graph = edit->e->graph;
    const stw_membership *m = &edit->tasks;
    if (graph->kept[op]) return true;
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        const int32_t reader = graph->reader[r].node;
        for (int32_t c = m->computer_start[reader]; c < m->computer_start[reader + 1]; c++) {
            if (m->computer[c] != m->task_of[op]) return true;
        }
    }
    return false;
}

/* A value that the new entry does not have, or not in one piece. */
static bool is_gone(const stw_hlo_edit *edit, const bool *unpacked, int64_t value) {
    const int32_t root = stw_hlo_root_of(edit, value), node = edit->op_node[stw_hlo_local(edit, root)];
    if (unpacked[stw_hlo_local(edit, root)] || stw_hlo_is_recomputed(edit, root)) return true;
    if (stw_hlo_fused_of(edit, root) < 0) return false;
    const stw_hlo_instruction *whole = stw_hlo_at(edit, edit->behind[stw_hlo_local(edit, value)]);
    return stw_hlo_shape_of(edit->m, whole)->kind != STW_HLO_ARRAY || !is_visible(edit, node);
}

static stw_status unpack_tuples(stw_hlo_edit *edit) {
    const stw_hlo_computation *entry = edit->entry;
    bool *unpacked; /* (entry->count) */
    STW_TRY_NEW(edit->arena, unpacked, entry->count, edit->error);
    STW_TRY_NEW(edit->arena, edit->stands_for, entry->count, edit->error);
    for (int32_t k = 0; k < entry->count; k++) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, entry->first + k);
        edit->stands_for[k] = entry->first + k;
        if (i->rule == STW_HLO_TUPLE) unpacked[k] = edit->unpacks_all;
        for (int32_t o = 0; i->rule == STW_HLO_TUPLE && o < i->operand.count; o++) {
            unpacked[k] |= is_gone(edit, unpacked, stw_hlo_number(edit, i->operand, o));
        }
        if (i->rule != STW_HLO_PART) continue;
        const int32_t whole = edit->behind[stw_hlo_local(edit, stw_hlo_number(edit, i->operand, 0))];
        if (!unpacked[stw_hlo_local(edit, whole)]) continue;
        const int64_t part = stw_hlo_number(edit, stw_hlo_at(edit, whole)->operand, (int32_t)i->number);
        edit->stands_for[k] = edit->stands_for[stw_hlo_local(edit, part)];
    }
    return STW_OK;
}

/* ---- the entry ---- */

/* What stays in the entry, what the fusions hand to it, and who reads what there. */

/* ---- who is needed ---- */

static bool is_kept(const stw_hlo_edit *edit, int32_t k) {
    return stw_hlo_fused_of(edit, k) < 0 && !stw_hlo_is_recomputed(edit, k);
}

/* A part of what a member yields: the fusion yields it itself. */
static bool is_part_of_member(const stw_hlo_edit *edit, int32_t k) {
    const stw_hlo_instruction *i = stw_hlo_at(edit, k);
    return i->rule == STW_HLO_PART && stw_hlo_fused_of(edit, stw_hlo_new_operand(edit, i, 0)) >= 0;
}

/* Constants and views stand in the entry only for their readers. What nobody ever read stays; where there are fusions, no tuples
 * and of what they make no views but parts. */
static bool stays_unread(const stw_hlo_edit *edit, int32_t k) {
    const int32_t root = stw_hlo_root_of(edit, k), behind = edit->behind[stw_hlo_local(edit, k)];
    if (edit->fused_count == 0) return true;
    if (stw_hlo_at(edit, behind)->rule == STW_HLO_TUPLE || edit->stands_for[stw_hlo_local(edit, k)] != k) return false;
    if (root == k || stw_hlo_is_recomputed(edit, root)) return root == k;
    return stw_hlo_fused_of(edit, root) < 0 || is_part_of_member(edit, k);
}

static stw_status find_live(stw_hlo_edit *edit) {
    const stw_hlo_computation *entry = edit->entry;
    bool *read;
    STW_TRY_NEW(edit->arena, edit->live, entry->count, edit->error);
    STW_TRY_NEW(edit->arena, read, entry->count, edit->error);
    for (int32_t k = entry->first; k < entry->first + entry->count; k++) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, k);
        for (int32_t o = 0; o < i->operand.count; o++) read[stw_hlo_local(edit, stw_hlo_number(edit, i->operand, o))] = true;
    }
    for (int32_t g = 0; g < edit->fused_count; g++) {
        const stw_hlo_range outside = edit->fused[g].outside;
        for (int32_t o = 0; o < outside.count; o++) {
            const int32_t at = edit->stands_for[stw_hlo_local(edit, stw_hlo_number(edit, outside, o))];
            edit->live[stw_hlo_local(edit, at)] = true;
        }
    }
    edit->live[stw_hlo_local(edit, edit->stands_for[stw_hlo_local(edit, entry->root)])] = true;
    for (int32_t k = entry->first + entry->count; k-- > entry->first;) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, k);
        bool *live = &edit->live[k - entry->first];
        const bool stands = edit->op_node[k - entry->first] >= 0 || i->rule == STW_HLO_PARAMETER;
        *live |= (is_kept(edit, k) && stands) || (!read[k - entry->first] && k != entry->root && stays_unread(edit, k));
        if (!*live || !is_kept(edit, k) || is_part_of_member(edit, k)) continue;
        for (int32_t o = 0; o < i->operand.count; o++) edit->live[stw_hlo_local(edit, stw_hlo_new_operand(edit, i, o))] = true;
    }
    return STW_OK;
}

/* A group that nobody reads any more, as views of it went with their readers: one of its results stays, of a tuple a part. */
static void keep_some_result(stw_hlo_edit *edit, const stw_hlo_fused *fused) {
    const stw_membership *tasks = &edit->tasks;
    int32_t last = -1, written = -1;
    for (int32_t k = tasks->member_start[fused->task]; k < tasks->member_start[fused->task + 1]; k++) {
        const int32_t at = edit->op_at[tasks->member[k]];
        if (stw_hlo_is_recomputed(edit, at)) continue;
        written = at;
        if (stw_hlo_shape_of(edit->m, stw_hlo_at(edit, at))->kind == STW_HLO_ARRAY && at > last) last = at;
    }
    for (int32_t k = edit->entry->first + edit->entry->count; last < 0 && k-- > edit->entry->first;) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, k);
        if (i->rule == STW_HLO_PART && stw_hlo_number(edit, i->operand, 0) == written) last = k; /* it would stand apart else */
    }
    edit->live[stw_hlo_local(edit, last >= 0 ? last : written)] = true;
}

/* ---- outputs ---- */

static stw_status add_output(stw_hlo_edit *edit, int32_t value, int32_t item) {
    STW_HLO_RESERVE(edit->arena, edit->output, edit->output_count, edit->output_room, edit->error);
    edit->output[edit->output_count++] = (stw_hlo_output){value, item};
    return STW_OK;
}

/* The item of a live value of a group; a part of what a member yields is taken from it within the fused computation. */
static stw_status find_output(stw_hlo_edit *edit, int32_t value, int32_t *item) {
    const stw_hlo_instruction *i = stw_hlo_at(edit, value);
    if (!is_part_of_member(edit, value)) {
        *item = edit->result[stw_hlo_local(edit, value)].item;
        return STW_OK;
    }
    const stw_hlo_result *from = &edit->result[stw_hlo_local(edit, stw_hlo_new_operand(edit, i, 0))];
    if (from->is_pack) {
        *item = (int32_t)stw_hlo_number(edit, from->pack, (int32_t)i->number);
        return STW_OK;
    }
    stw_hlo_item part = {.kind = STW_ITEM_COPY, .group = -1, .source = value, .number = (int32_t)i->number};
    const int64_t whole = from->item;
    TRY(stw_hlo_add_list(edit, &whole, 1, &part.operand));
    return stw_hlo_add_item(edit, &part, item);
}

static int32_t group_of_value(const stw_hlo_edit *edit, int32_t k) {
    return stw_hlo_fused_of(edit, is_part_of_member(edit, k) ? stw_hlo_new_operand(edit, stw_hlo_at(edit, k), 0) : k);
}

static stw_status keep_results(stw_hlo_edit *edit) {
    bool *is_read;
    STW_TRY_NEW(edit->arena, is_read, edit->fused_count, edit->error);
    for (int32_t k = edit->entry->first; k < edit->entry->first + edit->entry->count; k++) {
        const int32_t group = edit->live[stw_hlo_local(edit, k)] ? group_of_value(edit, k) : -1;
        if (group >= 0) is_read[group] = true;
    }
    for (int32_t g = 0; g < edit->fused_count; g++) {
        if (!is_read[g]) keep_some_result(edit, &edit->fused[g]);
    }
    return STW_OK;
}

/* Live values by group: a counting sort. start: (fused_count + 1) into value. */
static stw_status sort_values(stw_hlo_edit *edit, int32_t **start, int32_t **value) {
    int32_t *first, *list;
    STW_TRY_NEW(edit->arena, first, (int64_t)edit->fused_count + 2, edit->error);
    STW_TRY_NEW(edit->arena, list, edit->entry->count, edit->error);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t k = edit->entry->first; k < edit->entry->first + edit->entry->count; k++) {
            const int32_t group = edit->live[stw_hlo_local(edit, k)] ? group_of_value(edit, k) : -1;
            if (group < 0) continue;
            if (pass == 0) first[group + 2]++;
            if (pass == 1) list[first[group + 1]++] = k;
        }
        for (int32_t g = 0; pass == 0 && g < edit->fused_count; g++) first[g + 2] += first[g + 1];
    }
    *start = first;
    *value = list;
    return STW_OK;
}

/* Of kind kInput, or a reduction by blocks that would be. A reduction outside of a fusion stands in modules for CPUs, which know
 * of loops alone, and in those that are not for any device yet. */
static bool is_input(const stw_hlo_edit *edit, const stw_hlo_instruction *fusion, int32_t made) {
    const stw_str kind = stw_hlo_fusion_kind(edit, fusion);
    const stw_hlo_instruction *i = stw_hlo_at(edit, made);
    if (stw_str_is(kind, "kInput")) return true;
    return stw_str_is(kind, "kCustom") && i->rule == STW_HLO_REDUCE && !stw_hlo_reduces_few(edit->m, i);
}

static stw_status make_root(stw_hlo_edit *edit, stw_hlo_fused *fused, const int32_t *value, int32_t count) {
    fused->tail_first = edit->item_count;
    fused->output_first = edit->output_count;
    fused->is_input = false;
    fused->config = (stw_str){0};
    for (int32_t k = 0; k < count; k++) {
        int32_t item = -1;
        TRY(find_output(edit, value[k], &item));
        TRY(add_output(edit, value[k], item));
        const stw_hlo_instruction *i = stw_hlo_at(edit, value[k]);
        const bool is_part = is_part_of_member(edit, value[k]);
        const stw_hlo_instruction *member = is_part ? stw_hlo_at(edit, stw_hlo_new_operand(edit, i, 0)) : i;
        if (member->rule == STW_HLO_FUSION) fused->is_input |= is_input(edit, member, edit->item[item].source);
    }
    fused->output_count = count;
    fused->root = edit->output[fused->output_first].item;
    if (count > 1) {
        stw_hlo_item tuple = {.kind = STW_ITEM_TUPLE, .group = -1, .source = value[0]};
        tuple.operand = (stw_hlo_range){edit->m->number_count, count};
        for (int32_t k = 0; k < count; k++) {
            TRY(stw_hlo_add_number(edit->m, edit->output[fused->output_first + k].item, edit->error));
        }
        TRY(stw_hlo_add_item(edit, &tuple, &fused->root));
    }
    fused->tail_count = edit->item_count - fused->tail_first;
    return find_rows(edit, fused);
}

/* ---- the entry ---- */

static stw_status add_fusion(stw_hlo_edit *edit, int32_t group) {
    stw_hlo_fused *fused = &edit->fused[group];
    const stw_hlo_output *output = &edit->output[fused->output_first];
    const int32_t count = fused->output_count;
    const stw_hlo_item fusion = {.kind = STW_ITEM_FUSION, .group = group, .source = output[count - 1].value};
    TRY(stw_hlo_add_item(edit, &fusion, &fused->item));
    if (count == 1) edit->item_of[stw_hlo_local(edit, output[0].value)] = fused->item;
    for (int32_t k = 0; count > 1 && k < count; k++) {
        stw_hlo_item part = {.kind = STW_ITEM_PART, .group = group, .source = output[k].value, .number = k};
        const int64_t whole = fused->item;
        TRY(stw_hlo_add_list(edit, &whole, 1, &part.operand));
        TRY(stw_hlo_add_item(edit, &part, &edit->item_of[stw_hlo_local(edit, output[k].value)]));
    }
    return STW_OK;
}

static stw_status add_entry_items(stw_hlo_edit *edit, int32_t first) {
    STW_TRY_NEW(edit->arena, edit->item_of, edit->entry->count, edit->error);
    for (int32_t k = 0; k < edit->entry->count; k++) edit->item_of[k] = -1;
    for (int32_t k = 0; k < edit->entry->count; k++) {
        const int32_t at = edit->entry->first + k;
        if (!edit->live[k] || group_of_value(edit, at) >= 0) continue;
        const stw_hlo_item copy = {
            .kind = STW_ITEM_COPY, .group = -1, .source = at, .number = (int32_t)stw_hlo_at(edit, at)->number};
        TRY(stw_hlo_add_item(edit, &copy, &edit->item_of[k]));
    }
    for (int32_t g = 0; g < edit->fused_count; g++) TRY(add_fusion(edit, g));
    edit->root = edit->item_of[stw_hlo_local(edit, edit->stands_for[stw_hlo_local(edit, edit->entry->root)])];
    edit->entry_count = edit->item_count - first;
    STW_TRY_NEW(edit->arena, edit->sequence, edit->entry_count, edit->error);
    for (int32_t k = 0; k < edit->entry_count; k++) edit->sequence[k] = first + k;
    return STW_OK;
}

typedef struct linker {
    stw_hlo_edit *edit;
    int32_t *controls; /* (item_count) the last item that this one must come before, + 1 */
} linker;

static stw_status add_control(linker *l, int32_t before, int32_t self, stw_hlo_range *out) {
    if (before < 0 || before == self || l->controls[before] == self + 1) return STW_OK;
    l->controls[before] = self + 1;
    out->count++;
    return stw_hlo_add_number(l->edit->m, before, l->edit->error);
}

/* Appends the control predecessors of an instruction, each once, `self` not at all. Of one that is recomputed these are all
 * fusions that it is in; of a view that is no more, what it was a view of. */
static stw_status add_controls(linker *l, const stw_hlo_instruction *i, int32_t self, stw_hlo_range *out) {
    const stw_hlo_edit *edit = l->edit;
    const stw_membership *tasks = &edit->tasks;
    for (int32_t k = 0; k < i->control.count; k++) {
        int64_t at = stw_hlo_number(edit, i->control, k);
        if (edit->item_of[stw_hlo_local(edit, at)] < 0) at = stw_hlo_root_of(edit, at);
        const int32_t node = edit->op_node[stw_hlo_local(edit, at)];
        const bool is_recomputed = stw_hlo_is_recomputed(edit, at);
        if (!is_recomputed) TRY(add_control(l, stw_hlo_doer_of(edit, at), self, out));
        for (int32_t c = is_recomputed ? tasks->computer_start[node] : 0; is_recomputed && c < tasks->computer_start[node + 1];
             c++) {
            TRY(add_control(l, edit->fused[edit->fused_of[tasks->computer[c]]].item, self, out));
        }
    }
    return STW_OK;
}

static stw_status link_fusion(linker *l, stw_hlo_item *item, int32_t self) {
    stw_hlo_edit *edit = l->edit;
    const stw_hlo_fused *fused = &edit->fused[item->group];
    item->operand = (stw_hlo_range){edit->m->number_count, fused->outside.count};
    for (int32_t o = 0; o < fused->outside.count; o++) {
        const int32_t at = edit->stands_for[stw_hlo_local(edit, stw_hlo_number(edit, fused->outside, o))];
        TRY(stw_hlo_add_number(edit->m, edit->item_of[stw_hlo_local(edit, at)], edit->error));
    }
    item->control = (stw_hlo_range){edit->m->number_count, 0};
    for (int32_t k = edit->tasks.member_start[fused->task]; k < edit->tasks.member_start[fused->task + 1]; k++) {
        TRY(add_controls(l, stw_hlo_at(edit, edit->op_at[edit->tasks.member[k]]), self, &item->control));
    }
    return STW_OK;
}

static stw_status link_copy(linker *l, stw_hlo_item *item, int32_t self) {
    stw_hlo_edit *edit = l->edit;
    const stw_hlo_instruction *i = stw_hlo_at(edit, item->source);
    item->operand = (stw_hlo_range){edit->m->number_count, i->operand.count};
    for (int32_t o = 0; o < i->operand.count; o++) {
        const int32_t read = edit->item_of[stw_hlo_local(edit, stw_hlo_new_operand(edit, i, o))];
        TRY(stw_hlo_add_number(edit->m, read, edit->error));
    }
    item->control = (stw_hlo_range){edit->m->number_count, 0};
    return add_controls(l, i, self, &item->control);
}

stw_status stw_hlo_link(stw_hlo_edit *edit) {
    int32_t *start = NULL, *value = NULL;
    TRY(unpack_tuples(edit));
    TRY(find_live(edit));
    TRY(keep_results(edit));
    TRY(sort_values(edit, &start, &value));
    for (int32_t g = 0; g < edit->fused_count; g++)
        TRY(make_root(edit, &edit->fused[g], &value[start[g]], start[g + 1] - start[g]));
    TRY(add_entry_items(edit, edit->item_count));
    linker l = {.edit = edit};
    STW_TRY_NEW(edit->arena, l.controls, edit->item_count, edit->error);
    for (int32_t k = 0; k < edit->entry_count; k++) {
        const int32_t self = edit->sequence[k];
        stw_hlo_item *item = &edit->item[self];
        if (item->kind == STW_ITEM_COPY) TRY(link_copy(&l, item, self));
        if (item->kind == STW_ITEM_FUSION) TRY(link_fusion(&l, item, self));
    }
    return STW_OK;
}
