/* Reads HLO text as XLA prints and dumps it: the head, then computations, each a list of instructions. */
#include "import/hlo_text.h"

#include "import/import.h"

bool stw_hlo_text_is(stw_str bytes) {
    stw_hlo_text t = {.begin = bytes.p, .cursor = bytes.p, .end = bytes.p + bytes.length};
    return bytes.length > 0 && stw_hlo_accept(&t, "HloModule") && t.cursor < t.end && (*t.cursor == ' ' || *t.cursor == '\t');
}

/* ---- operands ---- */

static stw_status read_operand(stw_hlo_text *t) {
    stw_hlo_skip_shape(t);
    const stw_str name = stw_hlo_word(t);
    if (name.length == 0)
        return stw_hlo_text_fail(t, t->cursor,
                                 "the name of an operand is expected, such as %%x; write it, or close the list with ')'");
    const int32_t found = stw_hlo_find_name(t->module, t->scope, name);
    if (found < 0) {
        return stw_hlo_text_fail(t, name.p,
                                 "operand '%.*s' is not defined above; put it into this computation, before its readers",
                                 STW_STR_SHOW(name));
    }
    return stw_hlo_add_number(t->module, found, t->error);
}

static stw_status read_operands(stw_hlo_text *t, stw_hlo_range *out) {
    out->first = t->module->number_count;
    if (stw_hlo_accept(t, ")")) return STW_OK;
    do {
        TRY(read_operand(t));
    } while (stw_hlo_accept(t, ","));
    out->count = t->module->number_count - out->first;
    return stw_hlo_expect(t, ")");
}

/* What stands between the brackets of a constant. It may be elided ("{...}"); only single numbers are of use. */
static stw_status read_literal(stw_hlo_text *t, const char *open, stw_hlo_instruction *i) {
    t->cursor = open;
    const stw_str value = stw_hlo_value(t);
    if (value.length < 2 || value.p[value.length - 1] != ')') {
        return stw_hlo_text_fail(t, open, "the constant has no end: the text is cut off; print the module again");
    }
    i->has_value = stw_str_to_int64((stw_str){value.p + 1, value.length - 2}, &i->value);
    return STW_OK;
}

static stw_status read_parameter(stw_hlo_text *t, stw_hlo_instruction *i) {
    const stw_str number = stw_hlo_word(t);
    if (!stw_str_to_int64(number, &i->number) || i->number < 0 || i->number > INT32_MAX) {
        return stw_hlo_text_fail(t, number.p, "a parameter needs its number; write it between the brackets: parameter(0)");
    }
    return stw_hlo_expect(t, ")");
}

/* ---- instructions ---- */

static stw_status read_instruction(stw_hlo_text *t, bool is_root, stw_str name) {
    stw_hlo_module *m = t->module;
    stw_hlo_instruction i = {.name = name, .number = STW_UNKNOWN, .kernel_output = STW_UNKNOWN};
    stw_hlo_shape shape;
    i.at = (int64_t)(name.p - t->begin);
    t->instruction = name;
    TRY(stw_hlo_expect(t, "="));
    TRY(stw_hlo_read_shape(t, 0, &shape));
    i.shape = m->shape_count;
    TRY(stw_hlo_add_shape(m, &shape, t->error));
    i.opcode = stw_hlo_word(t);
    if (i.opcode.length == 0)
        return stw_hlo_text_fail(t, t->cursor, "an opcode is expected behind the shape; write it as in: f32[8] add(%%x, %%y)");
    i.rule = (uint8_t)stw_hlo_find_rule(m, i.opcode);
    TRY(stw_hlo_expect(t, "("));
    if (i.rule == STW_HLO_CONSTANT) {
        TRY(read_literal(t, t->cursor - 1, &i));
    } else if (i.rule == STW_HLO_PARAMETER) {
        TRY(read_parameter(t, &i));
    } else {
        TRY(read_operands(t, &i.operand));
    }
    TRY(stw_hlo_read_attributes(t, &i));
    const char *fault = stw_hlo_find_fault(m, &i);
    if (fault != NULL) {
        t->instruction = (stw_str){0}; /* with its opcode it says more */
        return stw_hlo_text_fail(t, name.p, "instruction '%.*s' (%.*s): %s", STW_STR_SHOW(name), STW_STR_SHOW(i.opcode), fault);
    }
    bool fresh = true;
    TRY(stw_hlo_set_name(m, t->scope, name, m->instruction_count, &fresh, t->error));
    if (!fresh) return stw_hlo_text_fail(t, name.p, "its name stands twice in the computation; give one of the two another");
    t->instruction = (stw_str){0};
    if (is_root) m->computation[t->scope].root = m->instruction_count;
    return stw_hlo_add_instruction(m, &i, t->error);
}

static stw_status read_body(stw_hlo_text *t) {
    while (!stw_hlo_accept(t, "}")) {
        stw_str name = stw_hlo_word(t);
        const bool is_root = stw_str_is(name, "ROOT");
        if (is_root) name = stw_hlo_word(t);
        if (name.length == 0) {
            const char *ends = "the text ends within a computation: it is cut off; print the module again";
            const char *other = "an instruction or '}' is expected; an instruction is written as %y = f32[8] negate(%x)";
            return stw_hlo_text_fail(t, t->cursor, "%s", t->cursor == t->end ? ends : other);
        }
        TRY(read_instruction(t, is_root, name));
    }
    return STW_OK;
}

/* ---- computations ---- */

static stw_status skip_attributes(stw_hlo_text *t) {
    while (stw_hlo_accept(t, ",")) {
        stw_hlo_word(t);
        TRY(stw_hlo_expect(t, "="));
        stw_hlo_value(t);
    }
    return STW_OK;
}

/* Puts the line in front of an error that has none. */
static stw_status add_place(const stw_hlo_text *t, const char *at, stw_status status) {
    stw_error found = {0};
    if (t->error == NULL || status != STW_ERROR_INPUT) return status;
    found = *t->error;
    return stw_hlo_text_fail(t, at, "%s", found.message);
}

static stw_status read_computation(stw_hlo_text *t, bool is_entry, stw_str name) {
    stw_hlo_module *m = t->module;
    stw_hlo_computation c = {.name = name, .first = m->instruction_count, .root = -1};
    bool fresh = true;
    t->scope = m->computation_count;
    if (is_entry && m->entry >= 0)
        return stw_hlo_text_fail(t, name.p, "a second ENTRY computation; a module has one, so take the word from the other");
    if (is_entry) m->entry = t->scope;
    stw_hlo_skip_shape(t); /* the parameters: "(a: f32[8], b: s32[])" */
    if (stw_hlo_accept(t, "->")) stw_hlo_skip_shape(t);
    TRY(stw_hlo_expect(t, "{"));
    TRY(stw_hlo_add_computation(m, &c, t->error));
    TRY(read_body(t));
    const stw_status ended = stw_hlo_end_computation(m, t->error);
    if (ended != STW_OK) return add_place(t, name.p, ended);
    TRY(stw_hlo_set_name(m, -1, name, t->scope, &fresh, t->error)); /* only now: it cannot call itself */
    if (!fresh)
        return stw_hlo_text_fail(t, name.p, "there are two computations '%.*s'; give one of them another name",
                                 STW_STR_SHOW(name));
    return skip_attributes(t);
}

/* Tables of source lines, which newer dumps carry: a word, then lines that begin with a number. */
static bool skip_table(stw_hlo_text *t, stw_str word) {
    if (!stw_str_is(word, "FileNames") && !stw_str_is(word, "FunctionNames") && !stw_str_is(word, "FileLocations") &&
        !stw_str_is(word, "StackFrames")) {
        return false;
    }
    for (stw_hlo_skip_space(t); t->cursor < t->end && *t->cursor >= '0' && *t->cursor <= '9'; stw_hlo_skip_space(t)) {
        while (t->cursor < t->end && *t->cursor != '\n') t->cursor++;
    }
    return true;
}

static stw_status read_head(stw_hlo_text *t) {
    TRY(stw_hlo_expect(t, "HloModule"));
    t->module->name = stw_hlo_value(t);
    if (t->module->name.length == 0)
        return stw_hlo_text_fail(t, t->cursor, "the name of the module is missing; write it behind HloModule");
    while (stw_hlo_accept(t, ",")) {
        const stw_str key = stw_hlo_word(t);
        TRY(stw_hlo_expect(t, "="));
        const stw_str value = stw_hlo_value(t);
        if (stw_str_is(key, "num_partitions")) stw_str_to_int64(value, &t->module->partitions);
        if (stw_str_is(key, "is_scheduled")) t->module->is_scheduled = stw_str_is(value, "true");
        if (stw_str_is(key, "input_output_alias")) TRY(stw_hlo_read_aliases(t, value));
    }
    return STW_OK;
}

static stw_status read_module(stw_hlo_text *t) {
    TRY(read_head(t));
    for (stw_hlo_skip_space(t); t->cursor < t->end; stw_hlo_skip_space(t)) {
        stw_str name = stw_hlo_word(t);
        if (skip_table(t, name)) continue;
        const bool is_entry = stw_str_is(name, "ENTRY");
        if (is_entry) name = stw_hlo_word(t);
        if (name.length == 0)
            return stw_hlo_text_fail(t, t->cursor, "a computation is expected; it begins with its name and '{'");
        TRY(read_computation(t, is_entry, name));
    }
    if (t->module->computation_count == 0) {
        return stw_hlo_text_fail(t, t->end,
                                 "the module has no computations: the text is cut off behind its head; print it again");
    }
    return stw_hlo_end_module(t->module, t->error);
}

stw_status stw_hlo_text_parse(stw_str bytes, stw_arena *arena, stw_hlo_module **out, stw_error *error) {
    stw_hlo_text t = {.begin = bytes.p, .cursor = bytes.p, .end = bytes.p + bytes.length, .error = error};
    TRY(stw_hlo_module_create(arena, &t.module, error));
    TRY(read_module(&t));
    *out = t.module;
    return STW_OK;
}

stw_status stw_hlo_text_read(stw_str bytes, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    stw_hlo_module *module = NULL;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_status status = stw_hlo_text_parse(bytes, &arena, &module, error);
    if (status == STW_OK) status = stw_hlo_build(module, &arena, out, NULL, error);
    stw_arena_destroy(&arena);
    return status;
}
