/* Words and values of HLO text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/hlo_text.h"

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
