/* Writes a module as HloModuleProto. */
#include "export/hlo/edit.h"
#include "import/hlo/hlo_fields.h"

/* ---- the schedule ---- */

/* Writes the schedule of a module in a protobuf (HloScheduleProto): the entry's is the planned one, the others keep theirs. A
 * module that has none gets one for all computations but those of fusions, in the order in which their instructions stand. */

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
static stw_status write_schedule(const stw_hlo_edit *edit, stw_pb_writer *w, stw_str old) {
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

/* ---- the module ---- */

/* Writes a module as HloModuleProto: the old bytes, with the entry's instructions in their new order, new fused computations in
 * front of it and the schedule. What is not touched stays as it is, fields that nobody knows included. */

typedef struct proto_out {
    stw_hlo_edit *edit;
    stw_pb_writer w;
} proto_out;

static stw_pb open_message(stw_pb_file *file, stw_str bytes, stw_error *ignored) {
    *file = stw_pb_open(bytes, ignored);
    return stw_pb_message(file);
}

static stw_str message_of(const stw_hlo_edit *edit, int32_t instruction) { return stw_hlo_at(edit, instruction)->attributes; }

/* ---- instructions ---- */

static void write_ids(proto_out *o, int64_t field, stw_hlo_range items) {
    if (items.count == 0) return;
    int64_t *id = STW_NEW(o->edit->arena, int64_t, items.count);
    if (id == NULL) {
        o->w.failed = true;
        return;
    }
    for (int32_t k = 0; k < items.count; k++) id[k] = o->edit->item[stw_hlo_number(o->edit, items, k)].id;
    stw_pb_write_ints(&o->w, field, id, items.count);
}

/* Of an entry of FrontendAttributes: has an export put it there? */
static bool is_ours(const stw_pb_field *f) {
    const bool is_entry = f->number == HLO_FRONTEND_MAP && f->type == STW_PB_BYTES;
    return is_entry && stw_hlo_find_note(stw_hlo_content(f->bytes, HLO_MAP_KEY)) < STW_HLO_NOTES;
}

static bool has_ours(stw_str frontend) {
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb map = open_message(&file, frontend, &ignored);
    bool found = false;
    for (stw_pb_field f; !found && stw_pb_next(&map, &f);) found = is_ours(&f);
    return found;
}

/* FrontendAttributes: a map of strings; an entry that an earlier export has put there goes. */
static void write_frontend(proto_out *o, stw_str old, const stw_hlo_note *note) {
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb map = open_message(&file, old, &ignored);
    const int64_t begun = stw_pb_begin(&o->w, HLO_FRONTEND);
    for (stw_pb_field f; stw_pb_next(&map, &f);) {
        if (!is_ours(&f)) stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(map.cursor - f.at)});
    }
    for (int k = 0; k < STW_HLO_NOTES; k++) {
        if (note->value[k].length == 0) continue;
        const int64_t entry = stw_pb_begin(&o->w, HLO_FRONTEND_MAP);
        stw_pb_write_string(&o->w, HLO_MAP_KEY, stw_str_of(stw_hlo_note_keys[k]));
        stw_pb_write_string(&o->w, HLO_MAP_VALUE, note->value[k]);
        stw_pb_end(&o->w, entry);
    }
    stw_pb_end(&o->w, begun);
}

/* OpSharding: all of it on one device. */
static void write_maximal(proto_out *o, int32_t index) {
    const int64_t one = 1, device = index;
    const int64_t begun = stw_pb_begin(&o->w, HLO_SHARDING);
    stw_pb_write_int(&o->w, HLO_SHARDING_TYPE, HLO_SHARDING_MAXIMAL);
    stw_pb_write_ints(&o->w, HLO_SHARDING_DIMENSIONS, &one, 1);
    stw_pb_write_ints(&o->w, HLO_SHARDING_DEVICES, &device, 1);
    stw_pb_end(&o->w, begun);
}

static bool is_maximal(stw_str sharding) { return stw_hlo_int_of(sharding, HLO_SHARDING_TYPE) == HLO_SHARDING_MAXIMAL; }

static bool is_array(const stw_hlo_edit *edit, const stw_hlo_item *item) {
    if (item->kind == STW_ITEM_FUSION && edit->fused[item->group].output_count > 1) return false;
    return stw_hlo_shape_of(edit->m, stw_hlo_at(edit, item->source))->kind == STW_HLO_ARRAY;
}

static bool has_same_list(const stw_hlo_edit *edit, stw_hlo_range items, stw_hlo_range old) {
    bool same = items.count == old.count;
    for (int32_t k = 0; same && k < items.count; k++) {
        const stw_hlo_item *item = &edit->item[stw_hlo_number(edit, items, k)];
        same = item->kind == STW_ITEM_COPY && item->source == stw_hlo_number(edit, old, k);
    }
    return same;
}

/* A copy in the entry keeps its name and id; one in a fused computation gets new ones, and no control edges. */
static void write_copy(proto_out *o, const stw_hlo_item *item, bool is_entry) {
    const stw_hlo_edit *edit = o->edit;
    const stw_hlo_instruction *i = stw_hlo_at(edit, item->source);
    const stw_str message = i->attributes, frontend = stw_hlo_content(message, HLO_FRONTEND);
    const stw_hlo_mark *mark = &edit->mark[item - edit->item];
    const bool was_ours = has_ours(frontend), new_frontend = was_ours || stw_hlo_is_marked(mark);
    const bool old_sharding = stw_hlo_field(message, HLO_SHARDING).length > 0;
    const bool drop_sharding = was_ours && is_maximal(stw_hlo_content(message, HLO_SHARDING));
    const bool same_operands = is_entry && has_same_list(edit, item->operand, i->operand);
    const bool same_controls = is_entry && has_same_list(edit, item->control, i->control);
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb fields = open_message(&file, message, &ignored);
    if (!is_entry) stw_pb_write_string(&o->w, HLO_NAME, item->name);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (!is_entry && (f.number == HLO_NAME || f.number == HLO_ID)) continue;
        if ((f.number == HLO_OPERANDS && !same_operands) || (f.number == HLO_CONTROLS && !same_controls)) continue;
        if ((f.number == HLO_FRONTEND && new_frontend) || (f.number == HLO_SHARDING && drop_sharding)) continue;
        stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
    }
    if (!is_entry) stw_pb_write_int(&o->w, HLO_ID, item->id);
    if (!same_operands) write_ids(o, HLO_OPERANDS, item->operand);
    if (is_entry && !same_controls) write_ids(o, HLO_CONTROLS, item->control);
    if (mark->device >= 0 && (!old_sharding || drop_sharding) && is_array(edit, item)) write_maximal(o, mark->device);
    if (new_frontend) write_frontend(o, frontend, &mark->note);
}

/* The shape of one output, or a tuple of them. */
static void write_output_shape(proto_out *o, int64_t field, const stw_hlo_fused *fused) {
    const stw_hlo_output *output = &o->edit->output[fused->output_first];
    if (fused->output_count == 1) {
        stw_pb_write_string(&o->w, field, stw_hlo_content(message_of(o->edit, output[0].value), HLO_SHAPE));
        return;
    }
    const int64_t begun = stw_pb_begin(&o->w, field);
    stw_pb_write_int(&o->w, HLO_SHAPE_TYPE, HLO_TYPE_TUPLE);
    for (int32_t k = 0; k < fused->output_count; k++) {
        stw_pb_write_string(&o->w, HLO_SHAPE_PARTS, stw_hlo_content(message_of(o->edit, output[k].value), HLO_SHAPE));
    }
    stw_pb_end(&o->w, begun);
}

static void write_fusion(proto_out *o, const stw_hlo_item *item) {
    const stw_hlo_fused *fused = &o->edit->fused[item->group];
    const stw_hlo_mark *mark = &o->edit->mark[item - o->edit->item];
    write_output_shape(o, HLO_SHAPE, fused);
    stw_pb_write_raw(&o->w, stw_hlo_field(message_of(o->edit, item->source), HLO_METADATA));
    stw_pb_write_string(&o->w, HLO_FUSION_KIND, stw_hlo_kind_of(fused));
    if (fused->config.length > 0) stw_pb_write_string(&o->w, HLO_BACKEND_CONFIG, fused->config);
    write_ids(o, HLO_CONTROLS, item->control);
    stw_pb_write_ints(&o->w, HLO_CALLED, &fused->id, 1);
    if (mark->device >= 0 && is_array(o->edit, item)) write_maximal(o, mark->device);
    write_frontend(o, (stw_str){0}, &mark->note);
}

static void write_new(proto_out *o, const stw_hlo_item *item, const stw_hlo_fused *fused) {
    static const char *const opcode[] = {"", "parameter", "fusion", "get-tuple-element", "tuple"};
    stw_pb_write_string(&o->w, HLO_NAME, item->name);
    stw_pb_write_string(&o->w, HLO_OPCODE, stw_str_of(opcode[item->kind]));
    if (item->kind == STW_ITEM_FUSION) {
        write_fusion(o, item);
    } else if (item->kind == STW_ITEM_TUPLE) {
        write_output_shape(o, HLO_SHAPE, fused);
    } else {
        stw_pb_write_string(&o->w, HLO_SHAPE, stw_hlo_content(message_of(o->edit, item->source), HLO_SHAPE));
        stw_pb_write_int(&o->w, item->kind == STW_ITEM_PART ? HLO_TUPLE_INDEX : HLO_PARAMETER_NUMBER, item->number);
    }
    stw_pb_write_int(&o->w, HLO_ID, item->id);
    write_ids(o, HLO_OPERANDS, item->operand);
}

static void write_item(proto_out *o, int32_t k, const stw_hlo_fused *fused) {
    const stw_hlo_item *item = &o->edit->item[k];
    const int64_t begun = stw_pb_begin(&o->w, HLO_COMPUTATION_INSTRUCTION);
    if (item->kind == STW_ITEM_COPY) {
        write_copy(o, item, fused == NULL);
    } else {
        write_new(o, item, fused);
    }
    stw_pb_end(&o->w, begun);
}

/* ---- computations ---- */

static void write_program_shape(proto_out *o, const stw_hlo_fused *fused) {
    const stw_hlo_edit *edit = o->edit;
    const int64_t begun = stw_pb_begin(&o->w, HLO_COMPUTATION_PROGRAM_SHAPE);
    for (int32_t k = 0; k < fused->parameter.count; k++) {
        const int32_t source = edit->item[stw_hlo_number(edit, fused->parameter, k)].source;
        stw_pb_write_string(&o->w, HLO_PROGRAM_PARAMETER, stw_hlo_content(message_of(edit, source), HLO_SHAPE));
    }
    write_output_shape(o, HLO_PROGRAM_RESULT, fused);
    for (int32_t k = 0; k < fused->parameter.count; k++) {
        stw_pb_write_string(&o->w, HLO_PROGRAM_PARAMETER_NAME, edit->item[stw_hlo_number(edit, fused->parameter, k)].name);
    }
    stw_pb_end(&o->w, begun);
}

static void write_fused(proto_out *o, const stw_hlo_fused *fused, stw_str entry) {
    const int64_t begun = stw_pb_begin(&o->w, HLO_MODULE_COMPUTATION);
    stw_pb_write_string(&o->w, HLO_COMPUTATION_NAME, fused->name);
    for (int32_t k = 0; k < fused->count; k++) write_item(o, fused->first + k, fused);
    for (int32_t k = 0; k < fused->tail_count; k++) write_item(o, fused->tail_first + k, fused);
    write_program_shape(o, fused);
    stw_pb_write_int(&o->w, HLO_COMPUTATION_ID, fused->id);
    stw_pb_write_int(&o->w, HLO_COMPUTATION_ROOT, o->edit->item[fused->root].id);
    stw_pb_write_int(&o->w, HLO_COMPUTATION_IS_FUSION, 1);
    stw_pb_write_raw(&o->w, stw_hlo_field(entry, HLO_COMPUTATION_THREAD));
    stw_pb_end(&o->w, begun);
}

static void write_entry(proto_out *o, stw_str entry) {
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb fields = open_message(&file, entry, &ignored);
    const int64_t begun = stw_pb_begin(&o->w, HLO_MODULE_COMPUTATION);
    bool done = false;
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == HLO_COMPUTATION_ROOT) continue;
        const bool is_instruction = f.number == HLO_COMPUTATION_INSTRUCTION;
        if (!is_instruction) stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
        if (!is_instruction || done) continue;
        for (int32_t k = 0; k < o->edit->entry_count; k++) write_item(o, o->edit->sequence[k], NULL);
        done = true;
    }
    stw_pb_write_int(&o->w, HLO_COMPUTATION_ROOT, o->edit->item[o->edit->root].id);
    stw_pb_end(&o->w, begun);
}

/* ---- the module ---- */

static stw_status write_module(proto_out *o, stw_str module) {
    const stw_hlo_edit *edit = o->edit;
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb fields = open_message(&file, module, &ignored);
    stw_str schedule = {0};
    int32_t c = 0;
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        const bool is_computation = f.number == HLO_MODULE_COMPUTATION;
        if (f.number == HLO_MODULE_SCHEDULE) {
            schedule = f.bytes;
        } else if (!is_computation || (c != edit->m->entry && !edit->dropped[c])) {
            stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
        } else if (c == edit->m->entry) {
            for (int32_t g = 0; g < edit->fused_count; g++) write_fused(o, &edit->fused[g], f.bytes);
            write_entry(o, f.bytes);
        }
        c += is_computation;
    }
    return write_schedule(edit, &o->w, schedule);
}

stw_status stw_hlo_write_proto(stw_hlo_edit *edit, stw_str *out) {
    proto_out o = {.edit = edit, .w = {.arena = edit->arena}};
    const stw_str module = stw_hlo_module_bytes(edit->m, edit->bytes);
    if (module.p == edit->bytes.p) {
        TRY(write_module(&o, edit->bytes));
        return stw_pb_written(&o.w, out, edit->error);
    }
    stw_error ignored = {0}; /* HloProto: the module and more */
    stw_pb_file file;
    stw_pb fields = open_message(&file, edit->bytes, &ignored);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.type != STW_PB_BYTES || f.bytes.p != module.p) {
            stw_pb_write_raw(&o.w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
            continue;
        }
        const int64_t begun = stw_pb_begin(&o.w, HLO_PROTO_MODULE);
        TRY(write_module(&o, f.bytes));
        stw_pb_end(&o.w, begun);
    }
    return stw_pb_written(&o.w, out, edit->error);
}
