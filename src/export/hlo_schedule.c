/* Writes the schedule of a module in a protobuf (HloScheduleProto): the entry's is the planned one, the others keep theirs. A
 * module that has none gets one for all computations but those of fusions, in the order in which their instructions stand. */
#include "export/hlo.h"
#include "export/hlo_fields.h"

/* The computation of this id, or -1. */
static int32_t find_computation(const stw_hlo_edit *edit, int64_t id) {
    return stw_hlo_find_name(edit->m, -1, (stw_str){(const char *)&id, sizeof id}); /* as the reader has named it */
}

static stw_status write_sequence(const stw_hlo_edit *edit, stw_pb_writer *w, int32_t c) {
    const stw_hlo_computation *at = &edit->m->computation[c];
    const bool is_entry = c == edit->m->entry;
    const int32_t count = is_entry ? edit->entry_count : at->count;
    int64_t *id;
    STW_TRY_NEW(edit->arena, id, count, edit->error);
    for (int32_t k = 0; k < count; k++) {
        id[k] = is_entry ? edit->item[edit->sequence[k]].id : stw_hlo_int_of(stw_hlo_at(edit, at->first + k)->attributes, HLO_ID);
    }
    const int64_t begun = stw_pb_begin(w, HLO_SCHEDULE_SEQUENCE);
    stw_pb_write_int(w, HLO_MAP_KEY, at->id);
    const int64_t value = stw_pb_begin(w, HLO_MAP_VALUE);
    stw_pb_write_ints(w, HLO_SEQUENCE_ID, id, count);
    stw_pb_end(w, value);
    stw_pb_end(w, begun);
    return STW_OK;
}

/* Computations that a fusion calls have no schedule. */
stw_status stw_hlo_write_schedule(const stw_hlo_edit *edit, stw_pb_writer *w, stw_str old) {
    bool *is_fused;
    STW_TRY_NEW(edit->arena, is_fused, edit->m->computation_count, edit->error);
    const int64_t begun = stw_pb_begin(w, HLO_MODULE_SCHEDULE);
    stw_error ignored = {0};
    stw_pb_file file = stw_pb_open(old, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        const bool is_sequence = f.number == HLO_SCHEDULE_SEQUENCE && f.type == STW_PB_BYTES;
        const int32_t c = is_sequence ? find_computation(edit, stw_hlo_int_of(f.bytes, HLO_MAP_KEY)) : -1;
        if (c < 0 || (!edit->dropped[c] && c != edit->m->entry)) {
            stw_pb_write_raw(w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
        }
    }
    for (int32_t k = 0; k < edit->m->instruction_count; k++) {
        const stw_hlo_instruction *i = stw_hlo_at(edit, k);
        if (i->rule == STW_HLO_FUSION) is_fused[stw_hlo_number(edit, i->called, 0)] = true;
    }
    for (int32_t c = 0; c < edit->m->computation_count; c++) {
        const bool was_there = edit->m->is_scheduled && c != edit->m->entry;
        if (!was_there && !is_fused[c] && !edit->dropped[c]) TRY(write_sequence(edit, w, c));
    }
    stw_pb_end(w, begun);
    return STW_OK;
}
