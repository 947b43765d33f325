/* Plans into HLO modules: reads the module again, applies the plan, writes it as it came. */
#include "export/hlo.h"

#include "export/hlo_fields.h"
#include "import/import.h"

stw_status stw_hlo_add_item(stw_hlo_edit *edit, const stw_hlo_item *item, int32_t *out) {
    STW_HLO_RESERVE(edit->arena, edit->item, edit->item_count, edit->item_room, edit->error);
    edit->item[edit->item_count] = *item;
    *out = edit->item_count++;
    return STW_OK;
}

stw_status stw_hlo_add_list(stw_hlo_edit *edit, const int64_t *number, int32_t count, stw_hlo_range *out) {
    *out = (stw_hlo_range){edit->m->number_count, count};
    for (int32_t k = 0; k < count; k++) TRY(stw_hlo_add_number(edit->m, number[k], edit->error));
    return STW_OK;
}

stw_str stw_hlo_field(stw_str message, int64_t number) {
    stw_error ignored = {0};
    stw_str found = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == number) found = (stw_str){f.at, (int64_t)(fields.cursor - f.at)};
    }
    return found;
}

stw_str stw_hlo_content(stw_str message, int64_t number) {
    stw_error ignored = {0};
    stw_str found = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == number && f.type == STW_PB_BYTES) found = f.bytes;
    }
    return found;
}

int64_t stw_hlo_int_of(stw_str message, int64_t field) {
    int64_t value = 0;
    stw_error ignored = {0};
    stw_pb_file file = stw_pb_open(message, &ignored);
    stw_pb fields = stw_pb_message(&file);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == field && f.type == STW_PB_VARINT) value = (int64_t)f.value;
    }
    return value;
}

/* By what the reader has found: an instruction lies within. */
stw_str stw_hlo_module_bytes(const stw_hlo_module *m, stw_str file) {
    const char *inside = m->instruction[0].attributes.p;
    stw_error ignored = {0};
    stw_pb_file opened = stw_pb_open(file, &ignored);
    stw_pb fields = stw_pb_message(&opened);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number != HLO_PROTO_MODULE || f.type != STW_PB_BYTES) continue;
        if (inside >= f.bytes.p && inside < f.bytes.p + f.bytes.length) return f.bytes;
    }
    return file;
}

stw_str stw_hlo_fusion_kind(const stw_hlo_edit *edit, const stw_hlo_instruction *i) {
    return edit->is_text ? stw_hlo_attribute(i->attributes, "kind", NULL) : stw_hlo_content(i->attributes, HLO_FUSION_KIND);
}

/* ---- the whole ---- */

/* Whatever is packed into a tuple with something late stands behind it, which the plan does not know of: where that closes a
 * cycle, nobody takes parts of tuples any more. Then the entry has the order of the plan's tasks, and these have no cycle. */
static stw_status link_entry(stw_hlo_edit *edit) {
    const int32_t bodies = edit->item_count;
    bool is_cyclic = false;
    TRY(stw_hlo_link(edit));
    TRY(stw_hlo_find_cycle(edit, &is_cyclic));
    if (!is_cyclic) return STW_OK;
    edit->item_count = bodies;
    edit->output_count = 0;
    edit->unpacks_all = true;
    return stw_hlo_link(edit);
}

stw_status stw_hlo_apply(stw_export *e, stw_str *out, stw_error *error) {
    stw_hlo_edit edit = {.e = e, .arena = e->arena, .bytes = e->model, .error = error};
    edit.is_text = stw_hlo_text_is(e->model);
    if (!edit.is_text && !stw_hlo_proto_is(e->model)) {
        return stw_fail(error, STW_ERROR_INPUT, "the graph is no HLO module, so its plan cannot be written as one; see --to");
    }
    TRY(edit.is_text ? stw_hlo_text_parse(e->model, e->arena, &edit.m, error)
                     : stw_hlo_proto_parse(e->model, e->arena, &edit.m, error));
    edit.entry = &edit.m->computation[edit.m->entry];
    TRY(stw_hlo_match(&edit));
    TRY(stw_hlo_fuse(&edit));
    TRY(link_entry(&edit));
    TRY(stw_hlo_name(&edit));
    TRY(stw_hlo_order(&edit));
    TRY(stw_hlo_mark_entry(&edit));
    return edit.is_text ? stw_hlo_write_text(&edit, out) : stw_hlo_write_proto(&edit, out);
}

stw_status stw_export_hlo(stw_export *e, stw_error *error) {
    stw_str bytes;
    TRY(stw_hlo_apply(e, &bytes, error));
    fwrite(bytes.p, 1, (size_t)bytes.length, e->out);
    return STW_OK;
}

stw_status stw_export_hlo_text(stw_export *e, stw_error *error) {
    stw_str bytes, text;
    TRY(stw_hlo_apply(e, &bytes, error));
    text = bytes;
    if (!stw_hlo_text_is(bytes)) TRY(stw_hlo_print(bytes, e->arena, &text, error));
    fwrite(text.p, 1, (size_t)text.length, e->out);
    return STW_OK;
}
