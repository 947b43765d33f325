/* Reads HLO text as XLA prints and dumps it: the head, then computations, each a list of instructions. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/hlo/text.h"
#include "import/import.h"

/* ---- words and values ---- */

/* Words and values of HLO text. */

stw_status stw_hlo_text_fail(const stw_hlo_text *t, const char *at, const char *format, ...) {
    char text[300];
    long long line = 1, column = 1;
    for (const char *c = t->begin; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (t->instruction.length == 0) {
        return stw_fail(t->error, STW_ERROR_INPUT, "line %lld, column %lld: %s", line, column, text);
    }
    return stw_fail(t->error, STW_ERROR_INPUT, "line %lld, column %lld: instruction '%.*s': %s", line, column,
                    STW_STR_SHOW(t->instruction), text);
}

static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' || c == '$' ||
           c == '@' || c == '#' || c == '/' || (unsigned char)c >= 0x80;
}

static bool starts(const stw_hlo_text *t, const char *symbol) {
    const size_t length = strlen(symbol);
    return (size_t)(t->end - t->cursor) >= length && memcmp(t->cursor, symbol, length) == 0;
}

void stw_hlo_skip_space(stw_hlo_text *t) {
    while (t->cursor < t->end) {
        if (is_space(*t->cursor)) {
            t->cursor++;
        } else if (starts(t, "//")) {
            while (t->cursor < t->end && *t->cursor != '\n') t->cursor++;
        } else if (starts(t, "/*")) {
            t->cursor += 2;
            while (t->cursor < t->end && !starts(t, "*/")) t->cursor++;
            t->cursor = t->end - t->cursor >= 2 ? t->cursor + 2 : t->end;
        } else {
            return;
        }
    }
}

bool stw_hlo_accept(stw_hlo_text *t, const char *symbol) {
    stw_hlo_skip_space(t);
    if (!starts(t, symbol)) return false;
    t->cursor += strlen(symbol);
    return true;
}

stw_status stw_hlo_expect(stw_hlo_text *t, const char *symbol) {
    if (stw_hlo_accept(t, symbol)) return STW_OK;
    if (t->cursor == t->end)
        return stw_hlo_text_fail(t, t->cursor, "the text ends where '%s' is expected: it is cut off; print the module again",
                                 symbol);
    return stw_hlo_text_fail(t, t->cursor, "'%s' is expected, not '%.1s'", symbol, t->cursor);
}

stw_str stw_hlo_word(stw_hlo_text *t) {
    stw_hlo_skip_space(t);
    if (t->cursor < t->end && *t->cursor == '%') t->cursor++;
    const char *start = t->cursor;
    while (t->cursor < t->end && is_word(*t->cursor) && !starts(t, "->")) t->cursor++;
    return (stw_str){start, (int64_t)(t->cursor - start)};
}

static void skip_string(stw_hlo_text *t) {
    t->cursor++;
    while (t->cursor < t->end && *t->cursor != '"') t->cursor += *t->cursor == '\\' && t->end - t->cursor > 1 ? 2 : 1;
    if (t->cursor < t->end) t->cursor++;
}

/* At a blank: a mesh of devices is followed by its axes, as in mesh['x'=2,'y'=4] {'y'}. */
static bool has_axes(const stw_hlo_text *t, const char *start) {
    const char *c = t->cursor;
    if (t->cursor - start < 5 || memcmp(start, "mesh[", 5) != 0) return false;
    while (c < t->end && is_space(*c)) c++;
    return c < t->end && *c == '{';
}

stw_str stw_hlo_value(stw_hlo_text *t) {
    stw_hlo_skip_space(t);
    const char *start = t->cursor;
    int64_t depth = 0;
    while (t->cursor < t->end) {
        const char c = *t->cursor;
        if (c == '"') {
            skip_string(t);
            continue;
        }
        if (c == '{' || c == '(' || c == '[') depth++;
        if (c == '}' || c == ')' || c == ']') depth--;
        if (depth < 0 || (depth == 0 && (c == ',' || (is_space(c) && !has_axes(t, start))))) break;
        t->cursor++;
    }
    return (stw_str){start, (int64_t)(t->cursor - start)};
}

bool stw_hlo_next_number(const char **cursor, const char *end, int64_t *out) {
    const char *c = *cursor;
    while (c < end && !is_digit(*c)) c++;
    if (c == end) return false;
    const bool negative = c > *cursor && c[-1] == '-';
    int64_t number = 0;
    bool fits = true;
    for (; c < end && is_digit(*c); c++) {
        fits &= !__builtin_mul_overflow(number, 10, &number) && !__builtin_add_overflow(number, *c - '0', &number);
    }
    *cursor = c;
    *out = !fits ? INT64_MAX : negative ? -number : number;
    return true;
}

stw_str stw_hlo_find_after(stw_str text, const char *what) {
    const int64_t length = (int64_t)strlen(what);
    for (int64_t k = 0; k + length <= text.length; k++) {
        if (memcmp(text.p + k, what, (size_t)length) == 0) return (stw_str){text.p + k + length, text.length - k - length};
    }
    return (stw_str){0};
}

stw_status stw_hlo_numbers(stw_hlo_text *t, stw_str text, stw_hlo_range *out) {
    int64_t number = 0;
    out->first = t->module->number_count;
    for (const char *c = text.p; stw_hlo_next_number(&c, text.p + text.length, &number);) {
        TRY(stw_hlo_add_number(t->module, number, t->error));
    }
    out->count = t->module->number_count - out->first;
    return STW_OK;
}

/* ---- shapes ---- */

/* Shapes in HLO text: f32[8,<=128]{1,0:T(8,128)}, (s32[], bf16[2]{0}), token[]. */

static stw_str read_type(stw_hlo_text *t) {
    stw_hlo_skip_space(t);
    const char *start = t->cursor;
    while (t->cursor < t->end && ((*t->cursor >= 'a' && *t->cursor <= 'z') || (*t->cursor >= '0' && *t->cursor <= '9')))
        t->cursor++;
    return (stw_str){start, (int64_t)(t->cursor - start)};
}

/* "8,<=128,?": a bound counts as the size, an unbounded size as 1. */
static stw_status read_dimensions(stw_hlo_text *t, stw_hlo_shape *out) {
    out->first = t->module->number_count;
    if (stw_hlo_accept(t, "]")) return STW_OK;
    do {
        int64_t size = 1;
        const bool bounded = stw_hlo_accept(t, "<=");
        stw_hlo_skip_space(t);
        const char *start = t->cursor;
        const bool is_number = start < t->end && *start >= '0' && *start <= '9';
        if (is_number) {
            stw_hlo_next_number(&t->cursor, t->end, &size);
        } else if (bounded || !stw_hlo_accept(t, "?")) {
            return stw_hlo_text_fail(t, start, "a shape needs numbers between its brackets; write them as in f32[8,128]");
        }
        if (out->rank == STW_HLO_MAX_RANK)
            return stw_hlo_text_fail(t, start, "a shape of more than %d dimensions; merge some of them", STW_HLO_MAX_RANK);
        TRY(stw_hlo_add_number(t->module, size, t->error));
        out->rank++;
    } while (stw_hlo_accept(t, ","));
    return stw_hlo_expect(t, "]");
}

/* "{1,0:T(8,128)}", directly behind the dimensions. What follows the colon is skipped. */
static stw_status read_layout(stw_hlo_text *t, stw_hlo_shape *out) {
    const char *start = t->cursor;
    if (start == t->end || *start != '{') return STW_OK;
    const stw_str value = stw_hlo_value(t);
    int64_t length = 1;
    while (length < value.length && value.p[length] != ':' && value.p[length] != '}') length++;
    stw_hlo_range order = {0};
    TRY(stw_hlo_numbers(t, (stw_str){value.p, length}, &order));
    out->has_layout = order.count == out->rank; /* otherwise it says only tiles */
    return order.count == 0 || out->has_layout
               ? STW_OK
               : stw_hlo_text_fail(
                     t, start, "the layout does not fit the shape; name each of its dimensions once, or leave the layout out");
}

static stw_status read_tuple(stw_hlo_text *t, int32_t depth, stw_hlo_shape *out) {
    if (depth >= STW_HLO_MAX_DEPTH) {
        return stw_hlo_text_fail(t, t->cursor, "tuples nested more than %d deep; put their parts into one", STW_HLO_MAX_DEPTH);
    }
    enum { FEW = 16 };
    int32_t count = 0, room = FEW;
    stw_hlo_shape few[FEW] = {0}, *parts = few;
    if (stw_hlo_accept(t, ")")) return stw_hlo_add_tuple(t->module, parts, 0, out, t->error);
    do {
        if (count == room) {
            stw_hlo_shape *more;
            STW_TRY_NEW(t->module->arena, more, 2 * (int64_t)room, t->error);
            for (int32_t k = 0; k < count; k++) more[k] = parts[k];
            parts = more;
            room *= 2;
        }
        TRY(stw_hlo_read_shape(t, depth + 1, &parts[count++]));
    } while (stw_hlo_accept(t, ","));
    TRY(stw_hlo_expect(t, ")"));
    return stw_hlo_add_tuple(t->module, parts, count, out, t->error);
}

stw_status stw_hlo_read_shape(stw_hlo_text *t, int32_t depth, stw_hlo_shape *out) {
    if (stw_hlo_accept(t, "(")) return read_tuple(t, depth, out);
    const char *start = t->cursor;
    const stw_str type = read_type(t);
    *out = (stw_hlo_shape){.kind = STW_HLO_ARRAY};
    int64_t bits = 0;
    const bool is_token = stw_str_is(type, "token") || stw_str_is(type, "opaque");
    if (!is_token && !stw_hlo_find_type(type, &out->dtype, &bits)) {
        return stw_hlo_text_fail(t, start, "a shape is expected, such as f32[8,128]; '%.*s' is not a type", STW_STR_SHOW(type));
    }
    TRY(stw_hlo_expect(t, "["));
    TRY(read_dimensions(t, out));
    if (!stw_hlo_measure_array(t->module, out, bits)) {
        return stw_hlo_text_fail(t, start, "the shape holds more than 2^56 bytes; check its dimensions");
    }
    if (is_token) {
        out->kind = STW_HLO_TOKEN;
        out->dtype = STW_UNKNOWN;
        out->elements = out->bytes = out->rank = 0;
    }
    return read_layout(t, out);
}

void stw_hlo_skip_shape(stw_hlo_text *t) {
    stw_hlo_skip_space(t);
    const char *start = t->cursor;
    if (start < t->end && *start == '(') {
        stw_hlo_value(t);
        return;
    }
    read_type(t);
    if (t->cursor > start && t->cursor < t->end && *t->cursor == '[') {
        stw_hlo_value(t); /* the dimensions and the layout behind them */
    } else {
        t->cursor = start;
    }
}

/* ---- the module ---- */

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
