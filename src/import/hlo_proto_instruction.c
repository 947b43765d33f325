/* An HloInstructionProto, with its ShapeProto. Field numbers as in xla/service/hlo.proto and xla/xla_data.proto. */
#include "import/hlo_proto.h"

stw_status stw_hlo_proto_numbers(stw_hlo_proto *p, stw_pb message, int64_t field, stw_hlo_range *out) {
    *out = (stw_hlo_range){p->module->number_count, 0};
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number != field) continue;
        int64_t number = 0;
        for (stw_pb_list list = stw_pb_list_of(&f); stw_pb_list_int(&message, &list, &number);) {
            TRY(stw_hlo_add_number(p->module, number, p->error));
        }
    }
    out->count = p->module->number_count - out->first;
    return stw_hlo_proto_state(p);
}

/* The message in a field; the last one counts. False: it is not there. */
static bool find_message(stw_pb message, int64_t number, stw_pb *out) {
    bool found = false;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number == number) found = stw_pb_enter(&message, &f, out);
    }
    return found && !message.file->failed;
}

/* ---- shapes ---- */

static const char *type_name(int64_t element_type) {
    static const char *const names[] = {NULL,         "pred",
                                        "s8",         "s16",
                                        "s32",        "s64",
                                        "u8",         "u16",
                                        "u32",        "u64",
                                        "f16",        "f32",
                                        "f64",        NULL /* tuple */,
                                        "opaque",     "c64",
                                        "bf16",       "token",
                                        "c128",       "f8e5m2",
                                        "f8e4m3fn",   "s4",
                                        "u4",         "f8e4m3b11fnuz",
                                        "f8e5m2fnuz", "f8e4m3fnuz",
                                        "s2",         "u2",
                                        "f8e4m3",     "f8e3m4",
                                        "s1",         "u1",
                                        "f4e2m1fn",   "f8e8m0fnu"};
    const int64_t count = (int64_t)(sizeof names / sizeof names[0]);
    return element_type > 0 && element_type < count ? names[element_type] : NULL;
}

static stw_status read_shape(stw_hlo_proto *p, stw_pb message, const char *at, int32_t depth, stw_hlo_shape *out);

static stw_status read_tuple(stw_hlo_proto *p, stw_pb message, int32_t depth, stw_hlo_shape *out) {
    enum { FEW = 16 };
    int32_t count = 0, room = FEW;
    stw_hlo_shape few[FEW], *parts = few;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb inner;
        if (f.number != 4 || !stw_pb_enter(&message, &f, &inner)) continue;
        if (count == room) {
            stw_hlo_shape *more;
            STW_TRY_NEW(p->module->arena, more, 2 * (int64_t)room, p->error);
            for (int32_t k = 0; k < count; k++) more[k] = parts[k];
            parts = more;
            room *= 2;
        }
        TRY(read_shape(p, inner, f.at, depth + 1, &parts[count++]));
    }
    TRY(stw_hlo_proto_state(p));
    return stw_hlo_add_tuple(p->module, parts, count, out, p->error);
}

/* An unbounded dimension is negative and counts as 1. */
static stw_status read_array(stw_hlo_proto *p, stw_pb message, const char *at, const char *type, stw_hlo_shape *out) {
    stw_hlo_module *m = p->module;
    stw_hlo_range list;
    stw_pb layout;
    int64_t bits = 8;
    TRY(stw_hlo_proto_numbers(p, message, 3, &list));
    if (list.count > STW_HLO_MAX_RANK) {
        stw_pb_fail(&p->file, at, "a shape of more than %d dimensions", STW_HLO_MAX_RANK);
        return STW_ERROR_INPUT;
    }
    out->first = list.first;
    out->rank = list.count;
    for (int32_t k = 0; k < list.count; k++) {
        if (m->number[list.first + k] < 0) m->number[list.first + k] = 1;
    }
    stw_hlo_find_type(stw_str_of(type), &out->dtype, &bits);
    if (!stw_hlo_measure_array(m, out, bits)) {
        stw_pb_fail(&p->file, at, "the shape holds more than 2^56 bytes");
        return STW_ERROR_INPUT;
    }
    if (!find_message(message, 5, &layout)) return stw_hlo_proto_state(p);
    TRY(stw_hlo_proto_numbers(p, layout, 1, &list));
    out->has_layout = list.count == out->rank;
    return STW_OK;
}

static stw_status read_shape(stw_hlo_proto *p, stw_pb message, const char *at, int32_t depth, stw_hlo_shape *out) {
    int64_t type = 0;
    for (stw_pb scan = message;;) {
        stw_pb_field f;
        if (!stw_pb_next(&scan, &f)) break;
        if (f.number == 2) stw_pb_int(&scan, &f, &type);
    }
    TRY(stw_hlo_proto_state(p));
    if (depth >= STW_HLO_MAX_DEPTH) {
        stw_pb_fail(&p->file, at, "tuples nested more than %d deep", STW_HLO_MAX_DEPTH);
        return STW_ERROR_INPUT;
    }
    enum { TUPLE = 13, OPAQUE = 14, TOKEN = 17 };
    *out = (stw_hlo_shape){.kind = STW_HLO_ARRAY};
    if (type == TUPLE) return read_tuple(p, message, depth, out);
    if (type == OPAQUE || type == TOKEN) {
        *out = (stw_hlo_shape){.kind = STW_HLO_TOKEN, .dtype = STW_UNKNOWN, .leaves = 1, .first = p->module->number_count};
        return STW_OK;
    }
    const char *name = type_name(type);
    if (name != NULL) return read_array(p, message, at, name, out);
    stw_pb_fail(&p->file, at, "a shape has the element type %lld, which is not known", (long long)type);
    return STW_ERROR_INPUT;
}

/* ---- what decides costs ---- */

/* Window.dimensions: one field of each, 1 where it is not given. */
static stw_status read_window(stw_hlo_proto *p, stw_pb window, int64_t field, stw_hlo_range *out) {
    *out = (stw_hlo_range){p->module->number_count, 0};
    for (stw_pb_field f; stw_pb_next(&window, &f);) {
        stw_pb dimension;
        int64_t number = 1;
        if (f.number != 1 || !stw_pb_enter(&window, &f, &dimension)) continue;
        for (stw_pb_field g; stw_pb_next(&dimension, &g);) {
            if (g.number == field) stw_pb_int(&dimension, &g, &number);
        }
        TRY(stw_hlo_add_number(p->module, number, p->error));
    }
    out->count = p->module->number_count - out->first;
    return stw_hlo_proto_state(p);
}

static stw_status read_numbers(stw_hlo_proto *p, stw_pb message, stw_hlo_instruction *i) {
    stw_pb part, inner;
    if (i->rule == STW_HLO_TRANSPOSE || i->rule == STW_HLO_REDUCE) TRY(stw_hlo_proto_numbers(p, message, 14, &i->dimensions));
    if (find_message(message, 15, &part)) {
        TRY(read_window(p, part, 1, &i->window));
        TRY(read_window(p, part, 6, &i->dilation));
    }
    if (find_message(message, 16, &part)) {
        int64_t output = 0;
        for (stw_pb_field f; stw_pb_next(&part, &f);) {
            if (f.number == 4) stw_pb_int(&part, &f, &output);
        }
        if (output >= 0 && output < INT16_MAX) i->kernel_output = (int16_t)output;
    }
    const bool ragged = find_message(message, 90, &inner) && find_message(inner, 1, &part);
    if (ragged || find_message(message, 30, &part)) {
        TRY(stw_hlo_proto_numbers(p, part, 1, &i->contracting));
        TRY(stw_hlo_proto_numbers(p, part, 3, &i->batch));
    }
    return stw_hlo_proto_state(p);
}

/* LiteralProto: s32s, s64s, u32s or u64s of one number. */
static void read_literal(stw_pb literal, stw_hlo_instruction *i) {
    for (stw_pb_field f; stw_pb_next(&literal, &f);) {
        if (f.number < 4 || f.number > 7) continue;
        stw_pb_list list = stw_pb_list_of(&f);
        i->has_value = stw_pb_list_int(&literal, &list, &i->value);
    }
}

/* FrontendAttributes: a map of strings. */
static void read_note(stw_pb frontend, stw_hlo_note *note) {
    for (stw_pb_field f; stw_pb_next(&frontend, &f);) {
        stw_pb entry;
        stw_str key = {0}, value = {0};
        if (f.number != 1 || !stw_pb_enter(&frontend, &f, &entry)) continue;
        for (stw_pb_field g; stw_pb_next(&entry, &g);) {
            if (g.number == 1) stw_pb_string(&entry, &g, &key);
            if (g.number == 2) stw_pb_string(&entry, &g, &value);
        }
        const int which = stw_hlo_find_note(key);
        if (which < STW_HLO_NOTES) note->value[which] = value;
    }
}

static stw_status read_fields(stw_hlo_proto *p, stw_pb message, stw_hlo_instruction *i, int64_t *id, stw_pb *literal) {
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb inner;
        stw_str text = {0};
        switch (f.number) {
            case 1: stw_pb_string(&message, &f, &i->name); break;
            case 2: stw_pb_string(&message, &f, &i->opcode); break;
            case 7:
                if (!stw_pb_enter(&message, &f, &inner)) break;
                for (stw_pb_field g; stw_pb_next(&inner, &g);) {
                    if (g.number == 2) stw_pb_string(&inner, &g, &i->op_name);
                }
                break;
            case 8: stw_pb_enter(&message, &f, literal); break;
            case 9:
            case 13: stw_pb_int(&message, &f, &i->number); break;
            case 11: stw_pb_string(&message, &f, &i->kind); break;
            case 28: stw_pb_string(&message, &f, &i->target); break;
            case 35: stw_pb_int(&message, &f, id); break;
            case 43: stw_pb_string(&message, &f, &i->config); break;
            case 68:
                if (stw_pb_enter(&message, &f, &inner)) read_note(inner, &i->note);
                break;
            case 65: i->has_effect = f.type == STW_PB_VARINT && f.value != 0; break;
            case 74: i->aliases = true; break;
            case 63:
                if (stw_pb_string(&message, &f, &text)) i->direction = (uint8_t)stw_hlo_find_direction(text);
                break;
            default: break;
        }
    }
    return stw_hlo_proto_state(p);
}

/* ---- references ---- */

static stw_status resolve(stw_hlo_proto *p, stw_hlo_range list, int32_t scope, const char *at, const stw_hlo_instruction *i) {
    for (int32_t k = 0; k < list.count; k++) {
        int64_t *number = &p->module->number[list.first + k];
        const int32_t found = stw_hlo_find_id(p, scope, *number);
        if (found < 0) {
            stw_pb_fail(&p->file, at, "instruction '%.*s': %s %lld is not defined before it", STW_STR_SHOW(i->name),
                        scope < 0 ? "computation" : "instruction", (long long)*number);
            return STW_ERROR_INPUT;
        }
        *number = found;
    }
    return STW_OK;
}

static stw_status read_references(stw_hlo_proto *p, stw_pb message, const char *at, stw_hlo_instruction *i) {
    TRY(stw_hlo_proto_numbers(p, message, 36, &i->operand));
    TRY(stw_hlo_proto_numbers(p, message, 37, &i->control));
    TRY(stw_hlo_proto_numbers(p, message, 38, &i->called));
    TRY(resolve(p, i->operand, p->scope, at, i));
    TRY(resolve(p, i->control, p->scope, at, i));
    return resolve(p, i->called, -1, at, i);
}

stw_status stw_hlo_proto_instruction(stw_hlo_proto *p, stw_pb message, stw_str bytes, const char *at) {
    stw_hlo_module *m = p->module;
    stw_hlo_instruction i = {.attributes = bytes, .kernel_output = STW_UNKNOWN};
    stw_hlo_shape shape = {0};
    stw_pb inner, literal = {0};
    int64_t id = 0;
    i.at = stw_pb_offset(&p->file, at);
    TRY(read_fields(p, message, &i, &id, &literal));
    i.rule = (uint8_t)stw_hlo_find_rule(m, i.opcode);
    if (!find_message(message, 3, &inner)) {
        stw_pb_fail(&p->file, at, "instruction '%.*s' has no shape", STW_STR_SHOW(i.name));
        return STW_ERROR_INPUT;
    }
    TRY(read_shape(p, inner, at, 0, &shape));
    i.shape = m->shape_count;
    TRY(stw_hlo_add_shape(m, &shape, p->error));
    if (literal.file != NULL && shape.kind == STW_HLO_ARRAY && shape.rank == 0) read_literal(literal, &i);
    TRY(read_references(p, message, at, &i));
    TRY(read_numbers(p, message, &i));
    TRY(stw_hlo_proto_mean(p, message, &i));
    const bool numbered = i.number <= INT32_MAX;
    const char *fault = numbered ? stw_hlo_find_fault(m, &i) : "its number is too large";
    if (fault != NULL) {
        stw_pb_fail(&p->file, at, "instruction '%.*s' (%.*s): %s", STW_STR_SHOW(i.name), STW_STR_SHOW(i.opcode), fault);
        return STW_ERROR_INPUT;
    }
    bool fresh = true;
    TRY(stw_hlo_set_id(p, p->scope, id, m->instruction_count, &fresh));
    if (!fresh) stw_pb_fail(&p->file, at, "the id %lld stands twice in a computation", (long long)id);
    TRY(stw_hlo_proto_state(p));
    return stw_hlo_add_instruction(m, &i, p->error);
}
