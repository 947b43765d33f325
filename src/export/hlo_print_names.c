/* Names for printing: a protobuf may hold any bytes, and the same twice, for it refers by ids; text refers by names. */
#include "export/hlo_print.h"

enum { COMPUTATIONS = -5 }; /* scopes in the table of names: computations, and from here down each one's instructions */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_inner(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; }

bool stw_hlo_is_name(stw_str text) {
    bool fits = text.length > 0 && is_letter(text.p[0]);
    for (int64_t k = 1; fits && k < text.length; k++) fits = is_inner(text.p[k]);
    return fits;
}

stw_str stw_hlo_clean_name(stw_arena *arena, stw_str text) {
    if (stw_hlo_is_name(text)) return text;
    if (text.length == 0) return STW_STR("unnamed");
    const int64_t shift = !is_letter(text.p[0]) && is_inner(text.p[0]); /* "7x" to "_7x", but "%x" to "_x" */
    char *name = STW_NEW(arena, char, text.length + shift);
    if (name == NULL) return (stw_str){0};
    name[0] = '_';
    for (int64_t k = 0; k < text.length; k++) name[k + shift] = is_inner(text.p[k]) ? text.p[k] : '_';
    return (stw_str){name, text.length + shift};
}

/* Words that stand in front of names. */
static bool is_reserved(stw_str name) {
    static const char *const word[] = {"ROOT", "ENTRY", "FileNames", "FunctionNames", "FileLocations", "StackFrames"};
    bool found = false;
    for (size_t k = 0; k < sizeof word / sizeof word[0]; k++) found |= stw_str_is(name, word[k]);
    return found;
}

typedef struct renamer {
    stw_hlo_module *m;
    stw_arena *arena;
    stw_error *error;
    int64_t counter;
} renamer;

/* First the names that are fit stay where they are the first of their kind, then the others take what is free. */
static stw_status settle(renamer *r, int32_t scope, stw_str *name, bool *is_settled) {
    if (!stw_hlo_is_name(*name) || is_reserved(*name)) return STW_OK;
    return stw_hlo_set_name(r->m, scope, *name, 0, is_settled, r->error);
}

static stw_status find_free(renamer *r, int32_t scope, stw_str *name) {
    const stw_str base = stw_hlo_clean_name(r->arena, *name);
    const int length = base.length < 1000 ? (int)base.length : 1000;
    bool fresh = false;
    *name = base;
    if (base.p != NULL && !is_reserved(base)) TRY(stw_hlo_set_name(r->m, scope, *name, 0, &fresh, r->error));
    while (!fresh) {
        if (base.p != NULL) *name = stw_str_format(r->arena, "%.*s.%lld", length, base.p, (long long)++r->counter);
        if (name->p == NULL) return stw_fail(r->error, STW_ERROR_MEMORY, "out of memory");
        TRY(stw_hlo_set_name(r->m, scope, *name, 0, &fresh, r->error));
    }
    return STW_OK;
}

static stw_status rename_instructions(renamer *r, int32_t c, bool *is_settled) {
    const stw_hlo_computation *at = &r->m->computation[c];
    const int32_t scope = COMPUTATIONS - 1 - c;
    for (int32_t k = at->first; k < at->first + at->count; k++) {
        TRY(settle(r, scope, &r->m->instruction[k].name, &is_settled[k]));
    }
    for (int32_t k = at->first; k < at->first + at->count; k++) {
        if (!is_settled[k]) TRY(find_free(r, scope, &r->m->instruction[k].name));
    }
    return STW_OK;
}

stw_status stw_hlo_print_names(stw_hlo_module *m, stw_arena *arena, stw_error *error) {
    renamer r = {.m = m, .arena = arena, .error = error};
    bool *is_settled;
    STW_TRY_NEW(arena, is_settled, (int64_t)m->instruction_count + m->computation_count, error);
    for (int32_t c = 0; c < m->computation_count; c++) {
        TRY(rename_instructions(&r, c, is_settled));
        TRY(settle(&r, COMPUTATIONS, &m->computation[c].name, &is_settled[m->instruction_count + c]));
    }
    for (int32_t c = 0; c < m->computation_count; c++) {
        if (!is_settled[m->instruction_count + c]) TRY(find_free(&r, COMPUTATIONS, &m->computation[c].name));
    }
    m->name = stw_hlo_clean_name(arena, m->name);
    return m->name.p == NULL ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : STW_OK;
}
