/* Tuples of the entry, with a barrier around them perhaps, that are only packed to be taken apart again. The plan looks through
 * them. Where one packs a value that the plan keeps within a kernel or computes in several, its parts are what went into it, and
 * it goes away with its barrier; all others stay. */
#include "export/hlo.h"

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

stw_status stw_hlo_unpack_tuples(stw_hlo_edit *edit) {
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
