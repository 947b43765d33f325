/* Reads HloModuleProto, bare or within HloProto, as XLA dumps it and as its hooks hand it over. */
#include "import/hlo_proto.h"

#include "import/import.h"

/* ---- ids ---- */

stw_status stw_hlo_set_id(stw_hlo_proto *p, int32_t scope, int64_t id, int32_t index, bool *fresh) {
    int64_t *kept;
    STW_TRY_NEW(p->module->arena, kept, 1, p->error);
    *kept = id;
    return stw_hlo_set_name(p->module, scope, (stw_str){(const char *)kept, sizeof *kept}, index, fresh, p->error);
}

int32_t stw_hlo_find_id(const stw_hlo_proto *p, int32_t scope, int64_t id) {
    return stw_hlo_find_name(p->module, scope, (stw_str){(const char *)&id, sizeof id});
}

/* ---- which format is it ---- */

static bool is_opcode(stw_str text) {
    bool letters = text.length > 0 && text.length < 64;
    for (int64_t k = 0; letters && k < text.length; k++) {
        letters = (text.p[k] >= 'a' && text.p[k] <= 'z') || (text.p[k] >= '0' && text.p[k] <= '9') || text.p[k] == '-';
    }
    return letters;
}

/* A computation has instructions (2), and these have an opcode (2) and a shape (3). */
static bool is_computation(stw_pb message) {
    stw_pb instruction;
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        if (f.number == 1 && f.type != STW_PB_BYTES) return false;
        if (f.number != 2) continue;
        if (f.type != STW_PB_BYTES || !stw_pb_enter(&message, &f, &instruction)) return false;
        bool opcode = false, shape = false;
        for (stw_pb_field g; stw_pb_next(&instruction, &g);) {
            if (g.number == 2) opcode = g.type == STW_PB_BYTES && is_opcode(g.bytes);
            if (g.number == 3) shape = g.type == STW_PB_BYTES;
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
        if (f.number != 3) continue;
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
        if (f.number != 1 || f.type != STW_PB_BYTES) continue;
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
            case 1: stw_pb_string(&message, &f, &c.name); break;
            case 2:
                if (stw_pb_enter(&message, &f, &inner)) TRY(stw_hlo_proto_instruction(p, inner, f.bytes, f.at));
                break;
            case 5: stw_pb_int(&message, &f, &c.id); break;
            case 6: has_root = stw_pb_int(&message, &f, &root); break;
            default: break;
        }
    }
    TRY(stw_hlo_proto_state(p));
    c.root = has_root ? stw_hlo_find_id(p, p->scope, root) : -1;
    if (has_root && c.root < 0) {
        stw_pb_fail(&p->file, at, "computation '%.*s': its root %lld is not in it", STW_STR_SHOW(c.name), (long long)root);
        return STW_ERROR_INPUT;
    }
    m->computation[p->scope] = c;
    TRY(stw_hlo_end_computation(m, p->error));
    TRY(stw_hlo_set_id(p, -1, c.id, p->scope, &fresh)); /* only now: it cannot call itself */
    if (!fresh) stw_pb_fail(&p->file, at, "there are two computations with the id %lld", (long long)c.id);
    return stw_hlo_proto_state(p);
}

/* HloInputOutputAliasProto. */
static stw_status read_aliases(stw_hlo_proto *p, stw_pb message) {
    for (stw_pb_field f; stw_pb_next(&message, &f);) {
        stw_pb entry;
        stw_hlo_alias alias = {.parameter = 0};
        if (f.number != 1 || !stw_pb_enter(&message, &f, &entry)) continue;
        TRY(stw_hlo_proto_numbers(p, entry, 1, &alias.output));
        TRY(stw_hlo_proto_numbers(p, entry, 3, &alias.parameter_part));
        for (stw_pb_field g; stw_pb_next(&entry, &g);) {
            if (g.number == 2) stw_pb_int(&entry, &g, &alias.parameter);
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
            case 1: stw_pb_string(&message, &f, &m->name); break;
            case 3:
                if (stw_pb_enter(&message, &f, &inner)) TRY(read_computation(p, inner, f.at));
                break;
            case 6: has_entry = stw_pb_int(&message, &f, &entry); break;
            case 7: m->is_scheduled = stw_pb_enter(&message, &f, &schedule); break;
            case 8:
                if (stw_pb_enter(&message, &f, &inner)) TRY(read_aliases(p, inner));
                break;
            case 15: /* the assignment of devices: replicas (1) x partitions (2) */
                if (!stw_pb_enter(&message, &f, &inner)) break;
                for (stw_pb_field g; stw_pb_next(&inner, &g);) {
                    if (g.number == 2) stw_pb_int(&inner, &g, &m->partitions);
                }
                break;
            default: break;
        }
    }
    TRY(stw_hlo_proto_state(p));
    if (has_entry) m->entry = stw_hlo_find_id(p, -1, entry);
    if (has_entry && m->entry < 0) {
        return stw_fail(p->error, STW_ERROR_INPUT, "the entry computation %lld is not in the module", (long long)entry);
    }
    TRY(stw_hlo_end_module(m, p->error));
    return m->is_scheduled ? stw_hlo_proto_schedule(p, schedule) : STW_OK;
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
