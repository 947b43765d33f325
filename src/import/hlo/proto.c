/* Reads HloModuleProto, bare or within HloProto, as XLA dumps it and as its hooks hand it over. Field numbers as in
 * xla/service/hlo.proto and xla/xla_data.proto. */
#include <string.h>

#include "import/hlo/proto.h"
#include "import/import.h"

/* ---- an instruction ---- */

/* An HloInstructionProto, with its ShapeProto. Field numbers as in xla/service/hlo.proto and xla/xla_data.proto. */

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
        if (f.number != HLO_SHAPE_PARTS || !stw_pb_enter(&message, &f, &inner)) continue;
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
    TRY(stw_hlo_proto_numbers(p, message, HLO_SHAPE_DIMENSIONS, &list));
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
    if (!find_message(message, HLO_SHAPE_LAYOUT, &layout)) return stw_hlo_proto_state(p);
    TRY(stw_hlo_proto_numbers(p, layout, HLO_LAYOUT_MINOR_TO_MAJOR, &list));
    out->has_layout = list.count == out->rank;
    return STW_OK;
}

static stw_status read_shape(stw_hlo_proto *p, stw_pb message, const char *at, int32_t depth, stw_hlo_shape *out) {
    int64_t type = 0;
    for (stw_pb scan = message;;) {
        stw_pb_field f;
        if (!stw_pb_next(&scan, &f)) break;
        if (f.number == HLO_SHAPE_TYPE) stw_pb_int(&scan, &f, &type);
    }
    TRY(stw_hlo_proto_state(p));
    if (depth >= STW_HLO_MAX_DEPTH) {
        stw_pb_fail(&p->file, at, "tuples nested more than %d deep", STW_HLO_MAX_DEPTH);
        return STW_ERROR_INPUT;
    }
    *out = (stw_hlo_shape){.kind = STW_HLO_ARRAY};
    if (type == HLO_TYPE_TUPLE) return read_tuple(p, message, depth, out);
    if (type == HLO_TYPE_OPAQUE || type == HLO_TYPE_TOKEN) {
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
        if (f.number != HLO_WINDOW_DIMENSION || !stw_pb_enter(&window, &f, &dimension)) continue;
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
    if (i->rule == STW_HLO_TRANSPOSE || i->rule == STW_HLO_REDUCE)
        TRY(stw_hlo_proto_numbers(p, message, HLO_DIMENSIONS, &i->dimensions));
    if (find_message(message, HLO_WINDOW, &part)) {
        TRY(read_window(p, part, HLO_WINDOW_SIZE, &i->window));
        TRY(read_window(p, part, HLO_WINDOW_BASE_DILATION, &i->dilation));
    }
    if (find_message(message, HLO_CONVOLUTION_NUMBERS, &part)) {
        int64_t output = 0;
        for (stw_pb_field f; stw_pb_next(&part, &f);) {
            if (f.number == HLO_CONVOLUTION_KERNEL_OUTPUT) stw_pb_int(&part, &f, &output);
        }
        if (output >= 0 && output < INT16_MAX) i->kernel_output = (int16_t)output;
    }
    const bool ragged = find_message(message, HLO_RAGGED_DOT_NUMBERS, &inner) && find_message(inner, HLO_RAGGED_DOT, &part);
    if (ragged || find_message(message, HLO_DOT_NUMBERS, &part)) {
        TRY(stw_hlo_proto_numbers(p, part, HLO_DOT_LEFT_CONTRACTING, &i->contracting));
        TRY(stw_hlo_proto_numbers(p, part, HLO_DOT_LEFT_BATCH, &i->batch));
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
        if (f.number != HLO_FRONTEND_MAP || !stw_pb_enter(&frontend, &f, &entry)) continue;
        for (stw_pb_field g; stw_pb_next(&entry, &g);) {
            if (g.number == HLO_MAP_KEY) stw_pb_string(&entry, &g, &key);
            if (g.number == HLO_MAP_VALUE) stw_pb_string(&entry, &g, &value);
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
            case HLO_NAME: stw_pb_string(&message, &f, &i->name); break;
            case HLO_OPCODE: stw_pb_string(&message, &f, &i->opcode); break;
            case HLO_METADATA:
                if (!stw_pb_enter(&message, &f, &inner)) break;
                for (stw_pb_field g; stw_pb_next(&inner, &g);) {
                    if (g.number == HLO_METADATA_OP_NAME) stw_pb_string(&inner, &g, &i->op_name);
                }
                break;
            case HLO_LITERAL: stw_pb_enter(&message, &f, literal); break;
            case HLO_PARAMETER_NUMBER:
            case HLO_TUPLE_INDEX: stw_pb_int(&message, &f, &i->number); break;
            case HLO_FUSION_KIND: stw_pb_string(&message, &f, &i->kind); break;
            case HLO_CALL_TARGET: stw_pb_string(&message, &f, &i->target); break;
            case HLO_ID: stw_pb_int(&message, &f, id); break;
            case HLO_BACKEND_CONFIG: stw_pb_string(&message, &f, &i->config); break;
            case HLO_FRONTEND:
                if (stw_pb_enter(&message, &f, &inner)) read_note(inner, &i->note);
                break;
            case HLO_CALL_HAS_SIDE_EFFECT: i->has_effect = f.type == STW_PB_VARINT && f.value != 0; break;
            case HLO_OUTPUT_ALIASING: i->aliases = true; break;
            case HLO_COMPARISON_DIRECTION:
                if (stw_pb_string(&message, &f, &text)) i->direction = (uint8_t)stw_hlo_find_direction(text);
                break;
            default: break;
        }
    }
    return stw_hlo_proto_state(p);
}

/* ---- ids ---- */

/* Ids (of computations: scope -1) to indices; -1: none. */
static stw_status set_id(stw_hlo_proto *p, int32_t scope, int64_t id, int32_t index, bool *fresh) {
    int64_t *kept;
    STW_TRY_NEW(p->module->arena, kept, 1, p->error);
    *kept = id;
    return stw_hlo_set_name(p->module, scope, (stw_str){(const char *)kept, sizeof *kept}, index, fresh, p->error);
}

static int32_t find_id(const stw_hlo_proto *p, int32_t scope, int64_t id) {
    return stw_hlo_find_name(p->module, scope, (stw_str){(const char *)&id, sizeof id});
}

/* ---- references ---- */

static stw_status resolve(stw_hlo_proto *p, stw_hlo_range list, int32_t scope, const char *at, const stw_hlo_instruction *i) {
    for (int32_t k = 0; k < list.count; k++) {
        int64_t *number = &p->module->number[list.first + k];
        const int32_t found = find_id(p, scope, *number);
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
    TRY(stw_hlo_proto_numbers(p, message, HLO_OPERANDS, &i->operand));
    TRY(stw_hlo_proto_numbers(p, message, HLO_CONTROLS, &i->control));
    TRY(stw_hlo_proto_numbers(p, message, HLO_CALLED, &i->called));
    TRY(resolve(p, i->operand, p->scope, at, i));
    TRY(resolve(p, i->control, p->scope, at, i));
    return resolve(p, i->called, -1, at, i);
}

static stw_status read_instruction(stw_hlo_proto *p, stw_pb message, stw_str bytes, const char *at) {
    stw_hlo_module *m = p->module;
    stw_hlo_instruction i = {.attributes = bytes, .kernel_output = STW_UNKNOWN};
    stw_hlo_shape shape = {0};
    stw_pb inner, literal = {0};
    int64_t id = 0;
    i.at = stw_pb_offset(&p->file, at);
    TRY(read_fields(p, message, &i, &id, &literal));
    i.rule = (uint8_t)stw_hlo_find_rule(m, i.opcode);
    if (!find_message(message, HLO_SHAPE, &inner)) {
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
    TRY(set_id(p, p->scope, id, m->instruction_count, &fresh));
    if (!fresh) stw_pb_fail(&p->file, at, "the id %lld stands twice in a computation", (long long)id);
    TRY(stw_hlo_proto_state(p));
    return stw_hlo_add_instruction(m, &i, p->error);
}

/* ---- the schedule ---- */

/* The schedule of an HloModuleProto. In text a scheduled computation stands in its order; in a protobuf the order stands apart
 * (HloScheduleProto), and the entry's instructions are put into it. */

static stw_status fail_at(stw_hlo_proto *p, const char *at, const char *why) {
    stw_pb_fail(&p->file, at, "the schedule of the entry computation %s", why);
    return STW_ERROR_INPUT;
}

/* The instructions' new indices by their old ones, less the first of the computation. */
static stw_status find_places(stw_hlo_proto *p, const stw_hlo_computation *c, stw_hlo_range ids, const char *at, int32_t **out) {
    int32_t *place;
    STW_TRY_NEW(p->module->arena, place, c->count, p->error);
    for (int32_t k = 0; k < c->count; k++) place[k] = -1;
    if (ids.count != c->count) return fail_at(p, at, "does not list every instruction once");
    for (int32_t k = 0; k < ids.count; k++) {
        const int32_t instruction = find_id(p, p->module->entry, p->module->number[ids.first + k]);
        if (instruction < 0) return fail_at(p, at, "lists an instruction that is not there");
        if (place[instruction - c->first] >= 0) return fail_at(p, at, "does not list every instruction once");
        place[instruction - c->first] = c->first + k;
    }
    *out = place;
    return STW_OK;
}

static bool move_list(stw_hlo_module *m, stw_hlo_range list, const stw_hlo_computation *c, const int32_t *place, int32_t reader) {
    bool before = true;
    for (int32_t k = 0; k < list.count; k++) {
        int64_t *number = &m->number[list.first + k];
        if (*number >= 0) *number = place[*number - c->first];
        before &= *number < reader;
    }
    return before;
}

static stw_status reorder(stw_hlo_proto *p, stw_hlo_range ids, const char *at) {
    stw_hlo_module *m = p->module;
    stw_hlo_computation *c = &m->computation[m->entry];
    int32_t *place = NULL;
    stw_hlo_instruction *copy;
    TRY(find_places(p, c, ids, at, &place));
    STW_TRY_NEW(m->arena, copy, c->count, p->error);
    memcpy(copy, &m->instruction[c->first], (size_t)c->count * sizeof *copy);
    for (int32_t k = 0; k < c->count; k++) {
        const bool operands = move_list(m, copy[k].operand, c, place, place[k]);
        const bool control = move_list(m, copy[k].control, c, place, place[k]);
        if (!operands || !control) return fail_at(p, at, "has an instruction before what it reads");
        m->instruction[place[k]] = copy[k];
    }
    move_list(m, c->parameter, c, place, INT32_MAX);
    c->root = place[c->root - c->first];
    return STW_OK;
}

/* A map from computation ids to instruction_ids. */
static stw_status take_schedule(stw_hlo_proto *p, stw_pb schedule) {
    const stw_hlo_computation *entry = &p->module->computation[p->module->entry];
    for (stw_pb_field f; stw_pb_next(&schedule, &f);) {
        stw_pb sequence, ids = {0};
        int64_t id = 0;
        if (f.number != HLO_SCHEDULE_SEQUENCE || !stw_pb_enter(&schedule, &f, &sequence)) continue;
        for (stw_pb_field g; stw_pb_next(&sequence, &g);) {
            if (g.number == HLO_MAP_KEY) stw_pb_int(&sequence, &g, &id);
            if (g.number == HLO_MAP_VALUE) stw_pb_enter(&sequence, &g, &ids);
        }
        TRY(stw_hlo_proto_state(p));
        if (id != entry->id || ids.file == NULL) continue;
        stw_hlo_range list = {0};
        TRY(stw_hlo_proto_numbers(p, ids, HLO_SEQUENCE_ID, &list));
        return reorder(p, list, f.at);
    }
    return stw_hlo_proto_state(p);
}

/* ---- which format is it ---- */

static bool is_opcode(stw_str text) {
    bool letters = text.length > 0 && text.length < 64;
    for (int64_t k = 0; letters && k < text.length; k++) {
        letters = (text.p[k] >= 'a' && text.p[k] <= 'z') || (text.p[k] >= '0' && text.p[k] <= '9') || text.p[k] == '-';
    }
    return letters;
}

/* A computation has instructions, and these have an opcode and a shape. */
static bool is_computation(stw_pb message) {
    stw_pb instruction;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number == HLO_COMPUTATION_NAME && f.type != STW_PB_BYTES) return false;
        if (f.number != HLO_COMPUTATION_INSTRUCTION) continue;
        if (f.type != STW_PB_BYTES || !stw_pb_enter(&message, &f, &instruction)) return false;
        bool opcode = false, shape = false;
        for (stw_pb_field g; stw_pb_next(&instruction, &g);) {
            if (g.number == HLO_OPCODE) opcode = g.type == STW_PB_BYTES && is_opcode(g.bytes);
            if (g.number == HLO_SHAPE) shape = g.type == STW_PB_BYTES;
        }
        return opcode && shape && !instruction.file->failed;
    }
    return false;
}

/* A module has names (1, 2) and computations (3); the first of these tells. */
static bool is_module(stw_pb message) {
    stw_pb computation;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number <= 2 && f.type != STW_PB_BYTES) return false;
        if (f.number != HLO_MODULE_COMPUTATION) continue;
        return f.type == STW_PB_BYTES && stw_pb_enter(&message, &f, &computation) && is_computation(computation);
    }
    return false;
}

/* The module in the file: the file itself, or its field 1. */
static bool find_module(stw_str bytes, stw_str *out) {
    stw_error ignored = {0};
    stw_pb_file file = stw_pb_open(bytes, &ignored), again = file;
    stw_pb message = stw_pb_message(&file);
    *out = bytes;
    if (is_module(message)) return true;
    message = stw_pb_message(&again);
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number != HLO_PROTO_MODULE || f.type != STW_PB_BYTES) continue;
        stw_pb_file inner = stw_pb_open(bytes, &ignored);
        *out = f.bytes;
        return is_module(stw_pb_range(&inner, f.bytes, 1));
    }
    return false;
}

bool stw_hlo_proto_is(stw_str bytes) {
    stw_str module;
    return bytes.length > 0 && find_module(bytes, &module);
}

/* ---- the module ---- */

static stw_status read_computation(stw_hlo_proto *p, stw_pb message, const char *at) {
    stw_hlo_module *m = p->module;
    stw_hlo_computation c = {.first = m->instruction_count, .root = -1};
    int64_t root = -1;
    bool has_root = false, fresh = true;
    p->scope = m->computation_count;
    TRY(stw_hlo_add_computation(m, &c, p->error));
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb inner;
        switch (f.number) {
            case HLO_COMPUTATION_NAME: stw_pb_string(&message, &f, &c.name); break;
            case HLO_COMPUTATION_INSTRUCTION:
                if (stw_pb_enter(&message, &f, &inner)) TRY(read_instruction(p, inner, f.bytes, f.at));
                break;
            case HLO_COMPUTATION_ID: stw_pb_int(&message, &f, &c.id); break;
            case HLO_COMPUTATION_ROOT: has_root = stw_pb_int(&message, &f, &root); break;
            default: break;
        }
    }
    TRY(stw_hlo_proto_state(p));
    c.root = has_root ? find_id(p, p->scope, root) : -1;
    if (has_root && c.root < 0) {
        stw_pb_fail(&p->file, at, "computation '%.*s': its root %lld is not in it", STW_STR_SHOW(c.name), (long long)root);
        return STW_ERROR_INPUT;
    }
    m->computation[p->scope] = c;
    TRY(stw_hlo_end_computation(m, p->error));
    TRY(set_id(p, -1, c.id, p->scope, &fresh)); /* only now: it cannot call itself */
    if (!fresh) stw_pb_fail(&p->file, at, "there are two computations with the id %lld", (long long)c.id);
    return stw_hlo_proto_state(p);
}

/* HloInputOutputAliasProto. */
static stw_status read_aliases(stw_hlo_proto *p, stw_pb message) {
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb entry;
        stw_hlo_alias alias = {.parameter = 0};
        if (f.number != HLO_ALIASES_ENTRY || !stw_pb_enter(&message, &f, &entry)) continue;
        TRY(stw_hlo_proto_numbers(p, entry, HLO_ALIAS_OUTPUT_PATH, &alias.output));
        TRY(stw_hlo_proto_numbers(p, entry, HLO_ALIAS_PATH, &alias.parameter_part));
        for (stw_pb_field g; stw_pb_next(&entry, &g);) {
            if (g.number == HLO_ALIAS_NUMBER) stw_pb_int(&entry, &g, &alias.parameter);
        }
        TRY(stw_hlo_add_alias(p->module, &alias, p->error));
    }
    return stw_hlo_proto_state(p);
}

static stw_status read_module(stw_hlo_proto *p, stw_pb message) {
    stw_hlo_module *m = p->module;
    int64_t entry = 0;
    bool has_entry = false;
    stw_pb schedule = {0};
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb inner;
        switch (f.number) {
            case HLO_MODULE_NAME: stw_pb_string(&message, &f, &m->name); break;
            case HLO_MODULE_COMPUTATION:
                if (stw_pb_enter(&message, &f, &inner)) TRY(read_computation(p, inner, f.at));
                break;
            case HLO_MODULE_ENTRY_ID: has_entry = stw_pb_int(&message, &f, &entry); break;
            case HLO_MODULE_SCHEDULE: m->is_scheduled = stw_pb_enter(&message, &f, &schedule); break;
            case HLO_MODULE_ALIASES:
                if (stw_pb_enter(&message, &f, &inner)) TRY(read_aliases(p, inner));
                break;
            case HLO_MODULE_ASSIGNMENT:
                if (!stw_pb_enter(&message, &f, &inner)) break;
                for (stw_pb_field g; stw_pb_next(&inner, &g);) {
                    if (g.number == HLO_ASSIGNMENT_PARTITIONS) stw_pb_int(&inner, &g, &m->partitions);
                }
                break;
            default: break;
        }
    }
    TRY(stw_hlo_proto_state(p));
    if (has_entry) m->entry = find_id(p, -1, entry);
    if (has_entry && m->entry < 0) {
        return stw_fail(p->error, STW_ERROR_INPUT, "the entry computation %lld is not in the module", (long long)entry);
    }
    TRY(stw_hlo_end_module(m, p->error));
    return m->is_scheduled ? take_schedule(p, schedule) : STW_OK;
}

stw_status stw_hlo_proto_parse(stw_str bytes, stw_arena *arena, stw_hlo_module **out, stw_error *error) {
    stw_hlo_proto p = {.file = stw_pb_open(bytes, error), .error = error};
    stw_str module = bytes;
    find_module(bytes, &module);
    TRY(stw_hlo_module_create(arena, &p.module, error));
    TRY(read_module(&p, stw_pb_range(&p.file, module, 0)));
    *out = p.module;
    return STW_OK;
}

stw_status stw_hlo_proto_read(stw_str bytes, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    stw_hlo_module *module = NULL;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_status status = stw_hlo_proto_parse(bytes, &arena, &module, error);
    if (status == STW_OK) status = stw_hlo_build(module, &arena, out, NULL, error);
    stw_arena_destroy(&arena);
    return status;
}
