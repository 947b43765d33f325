/* Writes a module as HloModuleProto: the old bytes, with the entry's instructions in their new order, new fused computations in
 * front of it and the schedule. What is not touched stays as it is, fields that nobody knows included. */
#include <string.h>

#include "export/hlo.h"
#include "import/import.h"

enum { /* fields of HloInstructionProto */
       NAME = 1,
       OPCODE = 2,
       SHAPE = 3,
       METADATA = 7,
       PARAMETER_NUMBER = 9,
       FUSION_KIND = 11,
       TUPLE_INDEX = 13,
       ID = 35,
       OPERANDS = 36,
       CONTROLS = 37,
       CALLED = 38,
       SHARDING = 40,
       FRONTEND = 68
};

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

/* FrontendAttributes: a map (1) of strings; an entry that an earlier export has put there goes. */
static void write_frontend(proto_out *o, stw_str old, stw_str device) {
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb map = open_message(&file, old, &ignored);
    const int64_t begun = stw_pb_begin(&o->w, FRONTEND);
    for (stw_pb_field f; stw_pb_next(&map, &f);) {
        const bool ours = f.number == 1 && f.type == STW_PB_BYTES && stw_str_is(stw_hlo_content(f.bytes, 1), stw_hlo_device_key);
        if (!ours) stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(map.cursor - f.at)});
    }
    if (device.length > 0) {
        const int64_t entry = stw_pb_begin(&o->w, 1);
        stw_pb_write_string(&o->w, 1, stw_str_of(stw_hlo_device_key));
        stw_pb_write_string(&o->w, 2, device);
        stw_pb_end(&o->w, entry);
    }
    stw_pb_end(&o->w, begun);
}

/* OpSharding: type (1) MAXIMAL; tile_assignment_dimensions (3) [1]; tile_assignment_devices (4) [index]. */
static void write_maximal(proto_out *o, int32_t index) {
    const int64_t one = 1, device = index;
    const int64_t begun = stw_pb_begin(&o->w, SHARDING);
    stw_pb_write_int(&o->w, 1, 1);
    stw_pb_write_ints(&o->w, 3, &one, 1);
    stw_pb_write_ints(&o->w, 4, &device, 1);
    stw_pb_end(&o->w, begun);
}

static bool is_maximal(stw_str sharding) { return stw_hlo_int_of(sharding, 1) == 1; }

static bool is_ours(stw_str frontend) { return stw_hlo_find_after(frontend, stw_hlo_device_key).p != NULL; }

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
    const stw_str message = i->attributes, frontend = stw_hlo_content(message, FRONTEND);
    stw_str device = {0};
    int32_t index = -1;
    if (is_entry) stw_hlo_device_of(edit, item, &device, &index);
    const bool was_ours = is_ours(frontend), new_frontend = was_ours || device.length > 0;
    const bool old_sharding = stw_hlo_field(message, SHARDING).length > 0;
    const bool drop_sharding = was_ours && is_maximal(stw_hlo_content(message, SHARDING));
    const bool same_operands = is_entry && has_same_list(edit, item->operand, i->operand);
    const bool same_controls = is_entry && has_same_list(edit, item->control, i->control);
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb fields = open_message(&file, message, &ignored);
    if (!is_entry) stw_pb_write_string(&o->w, NAME, item->name);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (!is_entry && (f.number == NAME || f.number == ID)) continue;
        if ((f.number == OPERANDS && !same_operands) || (f.number == CONTROLS && !same_controls)) continue;
        if ((f.number == FRONTEND && new_frontend) || (f.number == SHARDING && drop_sharding)) continue;
        stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
    }
    if (!is_entry) stw_pb_write_int(&o->w, ID, item->id);
    if (!same_operands) write_ids(o, OPERANDS, item->operand);
    if (is_entry && !same_controls) write_ids(o, CONTROLS, item->control);
    if (index >= 0 && (!old_sharding || drop_sharding) && is_array(edit, item)) write_maximal(o, index);
    if (new_frontend) write_frontend(o, frontend, device);
}

/* ShapeProto: the shape of one output, or a tuple (element type 13) of them (4). */
static void write_output_shape(proto_out *o, int64_t field, const stw_hlo_fused *fused) {
    const stw_hlo_output *output = &o->edit->output[fused->output_first];
    if (fused->output_count == 1) {
        stw_pb_write_string(&o->w, field, stw_hlo_content(message_of(o->edit, output[0].value), SHAPE));
        return;
    }
    const int64_t begun = stw_pb_begin(&o->w, field);
    stw_pb_write_int(&o->w, 2, 13);
    for (int32_t k = 0; k < fused->output_count; k++) {
        stw_pb_write_string(&o->w, 4, stw_hlo_content(message_of(o->edit, output[k].value), SHAPE));
    }
    stw_pb_end(&o->w, begun);
}

static void write_fusion(proto_out *o, const stw_hlo_item *item) {
    const stw_hlo_fused *fused = &o->edit->fused[item->group];
    stw_str device;
    int32_t index = -1;
    stw_hlo_device_of(o->edit, item, &device, &index);
    write_output_shape(o, SHAPE, fused);
    stw_pb_write_raw(&o->w, stw_hlo_field(message_of(o->edit, item->source), METADATA));
    stw_pb_write_string(&o->w, FUSION_KIND, fused->is_input ? STW_STR("kInput") : STW_STR("kLoop"));
    write_ids(o, CONTROLS, item->control);
    stw_pb_write_ints(&o->w, CALLED, &fused->id, 1);
    if (index >= 0 && is_array(o->edit, item)) write_maximal(o, index);
    write_frontend(o, (stw_str){0}, device);
}

static void write_new(proto_out *o, const stw_hlo_item *item, const stw_hlo_fused *fused) {
    static const char *const opcode[] = {"", "parameter", "fusion", "get-tuple-element", "tuple"};
    stw_pb_write_string(&o->w, NAME, item->name);
    stw_pb_write_string(&o->w, OPCODE, stw_str_of(opcode[item->kind]));
    if (item->kind == STW_ITEM_FUSION) {
        write_fusion(o, item);
    } else if (item->kind == STW_ITEM_TUPLE) {
        write_output_shape(o, SHAPE, fused);
    } else {
        stw_pb_write_string(&o->w, SHAPE, stw_hlo_content(message_of(o->edit, item->source), SHAPE));
        stw_pb_write_int(&o->w, item->kind == STW_ITEM_PART ? TUPLE_INDEX : PARAMETER_NUMBER, item->number);
    }
    stw_pb_write_int(&o->w, ID, item->id);
    write_ids(o, OPERANDS, item->operand);
}

static void write_item(proto_out *o, int32_t k, const stw_hlo_fused *fused) {
    const stw_hlo_item *item = &o->edit->item[k];
    const int64_t begun = stw_pb_begin(&o->w, 2);
    if (item->kind == STW_ITEM_COPY) {
        write_copy(o, item, fused == NULL);
    } else {
        write_new(o, item, fused);
    }
    stw_pb_end(&o->w, begun);
}

/* ---- computations ---- */

/* ProgramShapeProto: parameters (1), result (2), parameter_names (3). */
static void write_program_shape(proto_out *o, const stw_hlo_fused *fused) {
    const stw_hlo_edit *edit = o->edit;
    const int64_t begun = stw_pb_begin(&o->w, 4);
    for (int32_t k = 0; k < fused->parameter.count; k++) {
        const int32_t source = edit->item[stw_hlo_number(edit, fused->parameter, k)].source;
        stw_pb_write_string(&o->w, 1, stw_hlo_content(message_of(edit, source), SHAPE));
    }
    write_output_shape(o, 2, fused);
    for (int32_t k = 0; k < fused->parameter.count; k++) {
        stw_pb_write_string(&o->w, 3, edit->item[stw_hlo_number(edit, fused->parameter, k)].name);
    }
    stw_pb_end(&o->w, begun);
}

static void write_fused(proto_out *o, const stw_hlo_fused *fused, stw_str entry) {
    const int64_t begun = stw_pb_begin(&o->w, 3);
    stw_pb_write_string(&o->w, 1, fused->name);
    for (int32_t k = 0; k < fused->count; k++) write_item(o, fused->first + k, fused);
    for (int32_t k = 0; k < fused->tail_count; k++) write_item(o, fused->tail_first + k, fused);
    write_program_shape(o, fused);
    stw_pb_write_int(&o->w, 5, fused->id);
    stw_pb_write_int(&o->w, 6, o->edit->item[fused->root].id);
    stw_pb_write_int(&o->w, 7, 1);
    stw_pb_write_raw(&o->w, stw_hlo_field(entry, 8)); /* the thread that runs it */
    stw_pb_end(&o->w, begun);
}

static void write_entry(proto_out *o, stw_str entry) {
    stw_error ignored = {0};
    stw_pb_file file;
    stw_pb fields = open_message(&file, entry, &ignored);
    const int64_t begun = stw_pb_begin(&o->w, 3);
    bool done = false;
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number == 6) continue;
        if (f.number != 2) stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
        if (f.number != 2 || done) continue;
        for (int32_t k = 0; k < o->edit->entry_count; k++) write_item(o, o->edit->sequence[k], NULL);
        done = true;
    }
    stw_pb_write_int(&o->w, 6, o->edit->item[o->edit->root].id);
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
        if (f.number == 7) {
            schedule = f.bytes;
        } else if (f.number != 3 || (c != edit->m->entry && !edit->dropped[c])) {
            stw_pb_write_raw(&o->w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
        } else if (c == edit->m->entry) {
            for (int32_t g = 0; g < edit->fused_count; g++) write_fused(o, &edit->fused[g], f.bytes);
            write_entry(o, f.bytes);
        }
        c += f.number == 3;
    }
    return stw_hlo_write_schedule(edit, &o->w, schedule);
}

stw_status stw_hlo_write_proto(stw_hlo_edit *edit, stw_str *out) {
    proto_out o = {.edit = edit, .w = {.arena = edit->arena}};
    const stw_str inner = stw_hlo_content(edit->bytes, 1);
    if (!stw_hlo_proto_is(inner)) {
        TRY(write_module(&o, edit->bytes));
        return stw_pb_written(&o.w, out, edit->error);
    }
    stw_error ignored = {0}; /* HloProto: the module is its field 1 */
    stw_pb_file file;
    stw_pb fields = open_message(&file, edit->bytes, &ignored);
    for (stw_pb_field f; stw_pb_next(&fields, &f);) {
        if (f.number != 1) {
            stw_pb_write_raw(&o.w, (stw_str){f.at, (int64_t)(fields.cursor - f.at)});
            continue;
        }
        const int64_t begun = stw_pb_begin(&o.w, 1);
        TRY(write_module(&o, f.bytes));
        stw_pb_end(&o.w, begun);
    }
    return stw_pb_written(&o.w, out, edit->error);
}
