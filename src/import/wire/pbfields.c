/* The wanted fields of a message, in bytes and in text; see pbfields.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/wire/pbfields.h"
#include "import/wire/pbwire.h"

/* ---- in bytes ---- */

/* The wanted fields of a message in bytes. */

static const stw_wanted_field *find_number(const stw_wanted *wanted, int64_t number) {
    for (int32_t i = 0; i < wanted->count; i++) {
        if (wanted->field[i].number == number) return &wanted->field[i];
    }
    return NULL;
}

/* stw_field_receiver keeps its own errors; the cursor's errors are found at the end by stw_pb_close. */
static stw_status read_bytes(stw_pb *message, const stw_wanted *wanted, const stw_field_receiver *to);

static stw_status read_bytes_field(stw_pb *message, const stw_pb_field *f, const stw_wanted_field *field,
                                   const stw_field_receiver *to) {
    stw_error *error = message->file->error;
    if (field->type == STW_WANTED_NUMBER) {
        stw_pb_list list = stw_pb_list_of(f);
        for (int64_t value = 0; stw_pb_list_int(message, &list, &value);) {
            TRY(to->number(to->context, field->id, value, error));
        }
        return STW_OK;
    }
    if (field->type == STW_WANTED_TEXT) {
        stw_str value = {0};
        return stw_pb_string(message, f, &value) ? to->text(to->context, field->id, value, error) : STW_OK;
    }
    stw_pb inner = {0};
    if (!stw_pb_enter(message, f, &inner)) return STW_OK;
    TRY(to->begin(to->context, field->id, stw_pb_offset(message->file, f->at), error));
    TRY(read_bytes(&inner, field->message, to));
    return message->file->failed ? STW_OK : to->end(to->context, field->id, error);
}

static stw_status read_bytes(stw_pb *message, const stw_wanted *wanted, const stw_field_receiver *to) {
    for (stw_pb_field f = {0}; stw_pb_next(message, &f);) {
        const stw_wanted_field *field = find_number(wanted, f.number);
        if (field != NULL) TRY(read_bytes_field(message, &f, field, to));
    }
    return STW_OK;
}

stw_status stw_fields_of_bytes(stw_str bytes, const stw_wanted *wanted, const stw_field_receiver *receiver, stw_error *error) {
    stw_pb_file file = stw_pb_open(bytes, error);
    stw_pb message = stw_pb_message(&file);
    TRY(read_bytes(&message, wanted, receiver));
    return stw_pb_close(&file);
}

/* ---- in text ---- */

/* The protobuf text format: `name: value`, `name { ... }`, `name < ... >`, lists in brackets, comments from # to the line's end.
 */

typedef struct {
    const char *begin, *cursor, *end;
    const stw_field_receiver *receiver;
    stw_arena *strings;
    stw_error *error;
    int32_t depth;
} reader;

static STW_PRINTF(2, 3) stw_status fail(reader *r, const char *format, ...) {
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    long long line = 1;
    const char *start = r->begin;
    for (const char *c = r->begin; c < r->cursor; c++) {
        if (*c == '\n') {
            line++;
            start = c + 1;
        }
    }
    return stw_fail(r->error, STW_ERROR_INPUT, "line %lld, column %lld: %s", line, (long long)(r->cursor - start) + 1, what);
}

static void skip_space(reader *r) {
    while (r->cursor < r->end) {
        if (*r->cursor == '#') {
            const char *newline = memchr(r->cursor, '\n', (size_t)(r->end - r->cursor));
            r->cursor = newline != NULL ? newline : r->end;
        } else if (*r->cursor == ' ' || (*r->cursor >= '\t' && *r->cursor <= '\r')) {
            r->cursor++;
        } else {
            return;
        }
    }
}

static char peek(reader *r) { /* NUL at the end, which no value begins with */
    skip_space(r);
    return r->cursor < r->end ? *r->cursor : '\0';
}

static bool take(reader *r, char c) {
    if (r->cursor == r->end || peek(r) != c) return false;
    r->cursor++;
    return true;
}

static bool is_word_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Letters, digits and underscores; in numbers also points and the signs of exponents. */
static stw_str take_word(reader *r, bool number) {
    skip_space(r);
    const char *start = r->cursor;
    while (r->cursor < r->end) {
        const char c = *r->cursor;
        const bool exponent = r->cursor > start && (r->cursor[-1] == 'e' || r->cursor[-1] == 'E') && (c == '+' || c == '-');
        if (!is_word_character(c) && !(number && (c == '.' || exponent))) break;
        r->cursor++;
    }
    return (stw_str){start, (int64_t)(r->cursor - start)};
}

/* Moves over one quoted piece; *plain stays true if it has no escapes. */
static stw_status skip_quoted(reader *r, bool *plain) {
    const char quote = *r->cursor++;
    for (; r->cursor < r->end && *r->cursor != '\n'; r->cursor++) {
        if (*r->cursor == quote) {
            r->cursor++;
            return STW_OK;
        }
        if (*r->cursor != '\\') continue;
        *plain = false;
        if (++r->cursor == r->end) break;
    }
    return fail(r, "a string is not closed; a %c is missing", quote);
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static uint32_t take_digits(const char **cursor, const char *end, uint32_t base, int most) {
    uint32_t value = 0;
    for (int i = 0; i < most && *cursor < end && digit_of(**cursor) < (int)base; i++) {
        value = value * base + (uint32_t)digit_of(*(*cursor)++);
    }
    return value;
}

static int encode_utf8(uint32_t code, char out[4]) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint32_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[length] | (code & 0x3f));
    return length;
}

/* One character behind a backslash, into at most 4 bytes. Letters without a meaning stand for themselves. */
static int decode_escape(const char **cursor, const char *end, char out[4]) {
    static const char names[] = "abfnrtv", values[] = "\a\b\f\n\r\t\v";
    const char c = *(*cursor)++;
    const char *named = memchr(names, c, sizeof names - 1);
    if (c >= '0' && c <= '7') {
        (*cursor)--;
        out[0] = (char)take_digits(cursor, end, 8, 3);
    } else if (c == 'x' || c == 'X') {
        out[0] = (char)take_digits(cursor, end, 16, 2);
    } else if (c == 'u' || c == 'U') {
        return encode_utf8(take_digits(cursor, end, 16, c == 'u' ? 4 : 8) & 0x1fffff, out);
    } else {
        out[0] = named != NULL ? values[named - names] : c;
    }
    return 1;
}

/* Decodes the pieces between `c` and `end`, which skip_quoted has checked, up to `limit` bytes. */
static int64_t decode(const char *c, const char *end, int64_t limit, char *out) {
    int64_t length = 0;
    char quote = '\0';
    while (c < end && length < limit) {
        if (quote == '\0') {
            if (*c == '#') {
                while (*c != '\n') c++; /* a comment between pieces ends before the next piece */
            } else if (*c == '"' || *c == '\'') {
                quote = *c;
            }
            c++;
        } else if (*c == quote) {
            quote = '\0';
            c++;
        } else if (*c == '\\') {
            c++;
            char bytes[4];
            const int count = decode_escape(&c, end, bytes);
            for (int i = 0; i < count && length < limit; i++) out[length++] = bytes[i];
        } else {
            out[length++] = *c++;
        }
    }
    return length;
}

/* Pieces in quotes, one behind the other, are one string. out == NULL: only move over it. */
static stw_status read_string(reader *r, int64_t keep, stw_str *out) {
    bool plain = true;
    int pieces = 0;
    if (peek(r) != '"' && peek(r) != '\'') return fail(r, "a string in quotes was expected");
    const char *start = r->cursor, *end = r->cursor;
    while (peek(r) == '"' || peek(r) == '\'') {
        TRY(skip_quoted(r, &plain));
        end = r->cursor;
        if (pieces < 2) pieces++;
    }
    r->cursor = end;
    if (out == NULL) return STW_OK;
    if (plain && pieces == 1) {
        *out = (stw_str){start + 1, (int64_t)(end - start) - 2};
        return STW_OK;
    }
    int64_t limit = (int64_t)(end - start); /* decoding never makes it longer: an escape of n bytes has n or more characters */
    if (keep > 0 && keep < limit) limit = keep;
    char *text = STW_NEW_DIRTY(r->strings, char, limit + 1);
    if (text == NULL) return stw_fail(r->error, STW_ERROR_MEMORY, "out of memory (a string of %lld bytes)", (long long)limit);
    *out = (stw_str){text, decode(start, end, limit, text)};
    text[out->length] = '\0';
    return STW_OK;
}

/* Decimal, 0x hexadecimal or 0 octal. */
static bool to_integer(stw_str word, bool negative, int64_t *out) {
    uint64_t value = 0, base = 10;
    int64_t i = 0;
    if (word.length > 2 && word.p[0] == '0' && (word.p[1] == 'x' || word.p[1] == 'X')) {
        base = 16;
        i = 2;
    } else if (word.length > 1 && word.p[0] == '0') {
        base = 8;
        i = 1;
    }
    if (i == word.length) return false;
    for (; i < word.length; i++) {
        const int digit = digit_of(word.p[i]);
        if (digit >= (int)base) return false;
        if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, (uint64_t)digit, &value)) return false;
    }
    if (value > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) return false;
    *out = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static stw_status read_number(reader *r, const stw_wanted_field *field, int64_t *out) {
    skip_space(r);
    const char *start = r->cursor;
    const bool negative = take(r, '-');
    const stw_str word = take_word(r, true);
    if (to_integer(word, negative, out)) return STW_OK;
    if (!negative) {
        const bool truth = stw_str_is(word, "true") || stw_str_is(word, "True") || stw_str_is(word, "t");
        *out = truth ? 1 : 0;
        if (truth || stw_str_is(word, "false") || stw_str_is(word, "False") || stw_str_is(word, "f")) return STW_OK;
        if (field->word != NULL && word.length > 0 && field->word(word, out)) return STW_OK;
    }
    r->cursor = start;
    return fail(r, "'%.*s' is no value for %s; an integer%s was expected", STW_STR_SHOW(word), field->name,
                field->word != NULL ? " or the name of an enum value" : "");
}

/* The name of a field; extensions in brackets give an empty one, which no table has. */
static stw_status read_name(reader *r, stw_str *out) {
    *out = (stw_str){0};
    if (take(r, '[')) {
        const char *close = memchr(r->cursor, ']', (size_t)(r->end - r->cursor));
        if (close == NULL) return fail(r, "a ] is missing");
        r->cursor = close + 1;
        return STW_OK;
    }
    *out = take_word(r, false);
    return out->length > 0 ? STW_OK : fail(r, "the name of a field was expected");
}

/* Opens a message; *close is the bracket that ends it. */
static stw_status open_message(reader *r, char *close) {
    *close = take(r, '{') ? '}' : '>';
    if (*close == '>' && !take(r, '<')) return fail(r, "a message in { } was expected");
    if (++r->depth > STW_PB_MAX_DEPTH)
        return fail(r, "messages are nested deeper than %d, which protobuf refuses too; " STW_PB_DEPTH_REMEDY, STW_PB_MAX_DEPTH);
    return STW_OK;
}

/* Passes over everything up to the bracket that closes the one at the cursor, whatever is inside. */
static stw_status skip_brackets(reader *r) {
    char open[STW_PB_MAX_DEPTH + 1] = {0};
    int32_t depth = 0;
    do {
        const char c = peek(r);
        if (r->cursor == r->end) return fail(r, "the text ends inside a message; a %c is missing", open[depth - 1]);
        if (c == '{' || c == '<' || c == '[') {
            if (r->depth + depth >= STW_PB_MAX_DEPTH) {
                return fail(r, "messages are nested deeper than %d, which protobuf refuses too; " STW_PB_DEPTH_REMEDY,
                            STW_PB_MAX_DEPTH);
            }
            open[depth++] = c == '{' ? '}' : c == '<' ? '>' : ']';
            r->cursor++;
        } else if (c == '}' || c == '>' || c == ']') {
            if (open[--depth] != c) return fail(r, "'%c' does not close what is open; a %c was expected", c, open[depth]);
            r->cursor++;
        } else if (c == '"' || c == '\'') {
            TRY(read_string(r, 0, NULL));
        } else {
            r->cursor++;
        }
    } while (depth > 0);
    return STW_OK;
}

static stw_status skip_value(reader *r) {
    const char c = peek(r);
    if (c == '{' || c == '<' || c == '[') return skip_brackets(r);
    if (c == '"' || c == '\'') return read_string(r, 0, NULL);
    take(r, '-');
    return take_word(r, true).length > 0 ? STW_OK : fail(r, "a value was expected");
}

static stw_status read_message(reader *r, const stw_wanted *schema, char close);

static stw_status read_value(reader *r, const stw_wanted_field *field) {
    const stw_field_receiver *to = r->receiver;
    if (field->type == STW_WANTED_NUMBER) {
        int64_t value = 0;
        TRY(read_number(r, field, &value));
        return to->number(to->context, field->id, value, r->error);
    }
    if (field->type == STW_WANTED_TEXT) {
        stw_str value = {0};
        TRY(read_string(r, field->keep, &value));
        return to->text(to->context, field->id, value, r->error);
    }
    char close = '}';
    skip_space(r);
    const int64_t at = (int64_t)(r->cursor - r->begin);
    TRY(open_message(r, &close));
    TRY(to->begin(to->context, field->id, at, r->error));
    TRY(read_message(r, field->message, close));
    r->depth--;
    return to->end(to->context, field->id, r->error);
}

/* One value, or a list of them in brackets. */
static stw_status read_values(reader *r, const stw_wanted_field *field) {
    if (!take(r, '[')) return read_value(r, field);
    if (take(r, ']')) return STW_OK;
    do {
        TRY(read_value(r, field));
    } while (take(r, ','));
    return take(r, ']') ? STW_OK : fail(r, "a ] or a comma was expected");
}

static const stw_wanted_field *find_field(const stw_wanted *schema, stw_str name) {
    for (int32_t i = 0; i < schema->count; i++) {
        if (stw_str_is(name, schema->field[i].name)) return &schema->field[i];
    }
    return NULL;
}

/* Fields up to `close`, or to the end of the text for NUL. */
static stw_status read_message(reader *r, const stw_wanted *schema, char close) {
    for (;;) {
        const char c = peek(r);
        if (r->cursor == r->end) {
            return close == '\0' ? STW_OK : fail(r, "the text ends inside a %s; a %c is missing", schema->name, close);
        }
        if (close != '\0' && c == close) {
            r->cursor++;
            return STW_OK;
        }
        stw_str name;
        TRY(read_name(r, &name));
        const bool colon = take(r, ':');
        const stw_wanted_field *field = find_field(schema, name);
        const char next = peek(r);
        if (!colon && next != '{' && next != '<') {
            return fail(r, "a colon was expected behind '%.*s'", STW_STR_SHOW(name));
        }
        TRY(field != NULL ? read_values(r, field) : skip_value(r));
        if (!take(r, ',')) take(r, ';');
    }
}

stw_status stw_fields_of_text(stw_str text, const stw_wanted *schema, const stw_field_receiver *receiver, stw_arena *strings,
                              stw_error *error) {
    reader r = {
        .begin = text.p, .cursor = text.p, .end = text.p + text.length, .receiver = receiver, .strings = strings, .error = error};
    return text.length > 0 ? read_message(&r, schema, '\0') : STW_OK;
}

bool stw_fields_text_begins(stw_str text, const stw_wanted *schema) {
    if (text.length == 0) return false;
    reader r = {.begin = text.p, .cursor = text.p, .end = text.p + text.length};
    const stw_str name = take_word(&r, false);
    const stw_wanted_field *field = name.length > 0 ? find_field(schema, name) : NULL;
    const char after_name = peek(&r);
    take(&r, ':');
    const char next = peek(&r);
    return field != NULL && field->type == STW_WANTED_MESSAGE && (after_name == ':' || next == '{' || next == '<') &&
           (next == '{' || next == '<' || next == '[');
}
