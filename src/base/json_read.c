#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/json.h"

void stw_json_init(stw_json *json, stw_str text, stw_arena *strings, stw_error *error) {
    if (text.p == NULL) text = STW_STR("");
    if (stw_str_starts(text, "\xef\xbb\xbf")) text = (stw_str){text.p + 3, text.length - 3}; /* a byte order mark */
    *json = (stw_json){.begin = text.p, .cursor = text.p, .end = text.p + text.length, .strings = strings, .error = error};
}

bool stw_json_fail(stw_json *json, const char *format, ...) {
    if (json->failed) return false;
    json->failed = true;
    int64_t line = 1, column = 1;
    for (const char *c = json->begin; c < json->cursor; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    char message[sizeof json->error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    stw_fail(json->error, stw_json_status(json), "line %lld, column %lld: %s", (long long)line, (long long)column, message);
    return false;
}

bool stw_json_lacks_memory(stw_json *json, const char *what) {
    if (json->failed) return false;
    json->short_of_memory = true;
    return stw_json_fail(json, "out of memory for %s", what);
}

stw_status stw_json_status(const stw_json *json) {
    return !json->failed ? STW_OK : json->short_of_memory ? STW_ERROR_MEMORY : STW_ERROR_INPUT;
}

static void skip_space(stw_json *json) {
    while (json->cursor < json->end) {
        const char c = *json->cursor;
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') break;
        json->cursor++;
    }
}

stw_json_type stw_json_peek(stw_json *json) {
    if (json->failed) return STW_JSON_NONE;
    skip_space(json);
    if (json->cursor == json->end) return STW_JSON_NONE;
    switch (*json->cursor) {
        case '{': return STW_JSON_OBJECT;
        case '[': return STW_JSON_ARRAY;
        case '"': return STW_JSON_STRING;
        case 't':
        case 'f': return STW_JSON_BOOL;
        case 'n': return STW_JSON_NULL;
        default: break;
    }
    return *json->cursor == '-' || (*json->cursor >= '0' && *json->cursor <= '9') ? STW_JSON_NUMBER : STW_JSON_NONE;
}

static const char *type_name(stw_json_type type) {
    static const char *const names[] = {"something else", "an object", "an array", "a string", "a number", "a boolean", "null"};
    return names[type];
}

static bool expect(stw_json *json, stw_json_type wanted) {
    if (json->failed) return false;
    const stw_json_type found = stw_json_peek(json);
    if (found == wanted) return true;
    if (json->cursor == json->end) return stw_json_fail(json, "the text ends where %s should be", type_name(wanted));
    return stw_json_fail(json, "%s is expected here, but %s stands here", type_name(wanted), type_name(found));
}

static bool open_container(stw_json *json, stw_json_type type) {
    if (!expect(json, type)) return false;
    if (json->depth == STW_JSON_MAX_DEPTH) {
        return stw_json_fail(json, "nested deeper than %d levels; flatten the file", STW_JSON_MAX_DEPTH);
    }
    json->cursor++;
    json->depth++;
    json->has_item &= ~(1ULL << (json->depth - 1));
    return true;
}

bool stw_json_object(stw_json *json) { return open_container(json, STW_JSON_OBJECT); }
bool stw_json_array(stw_json *json) { return open_container(json, STW_JSON_ARRAY); }

/* Steps over a comma to the next item; false at the closing character, which is eaten. */
static bool next_item(stw_json *json, char close) {
    if (json->failed) return false;
    skip_space(json);
    if (json->cursor == json->end) return stw_json_fail(json, "the text ends before the closing '%c'", close);
    const uint64_t bit = 1ULL << (json->depth - 1);
    if (*json->cursor == close) {
        json->cursor++;
        json->depth--;
        return false;
    }
    if (json->has_item & bit) {
        if (*json->cursor != ',') return stw_json_fail(json, "',' or '%c' is expected here", close);
        json->cursor++;
        skip_space(json);
        if (json->cursor < json->end && *json->cursor == close) return stw_json_fail(json, "nothing follows this ','");
    }
    json->has_item |= bit;
    return true;
}

bool stw_json_item(stw_json *json) { return next_item(json, ']'); }

bool stw_json_key(stw_json *json, stw_str *key) {
    if (!next_item(json, '}')) return false;
    if (!stw_json_string(json, key)) return false;
    skip_space(json);
    if (json->cursor == json->end || *json->cursor != ':') return stw_json_fail(json, "':' is expected after a key");
    json->cursor++;
    return true;
}

static bool read_hex4(stw_json *json, uint32_t *out) {
    if (json->end - json->cursor < 4) return stw_json_fail(json, "the text ends within a \\u escape");
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        const char c = json->cursor[i];
        uint32_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A') + 10;
        } else {
            return stw_json_fail(json, "a \\u escape needs four hexadecimal digits");
        }
        code = code * 16 + digit;
    }
    json->cursor += 4;
    *out = code;
    return true;
}

static char *put_utf8(char *out, uint32_t code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | (code >> 6));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | (code >> 12));
        *out++ = (char)(0x80 | ((code >> 6) & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | (code >> 18));
        *out++ = (char)(0x80 | ((code >> 12) & 0x3f));
        *out++ = (char)(0x80 | ((code >> 6) & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* After the backslash. */
static char *read_escape(stw_json *json, char *out) {
    if (json->cursor == json->end) {
        stw_json_fail(json, "the text ends within a string");
        return NULL;
    }
    const char c = *json->cursor++;
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *simple = c == '\0' ? NULL : strchr(from, c);
    if (simple != NULL) {
        *out++ = to[simple - from];
        return out;
    }
    uint32_t code = 0, low = 0;
    if (c != 'u') {
        json->cursor--;
        stw_json_fail(json, "unknown escape in a string");
        return NULL;
    }
    if (!read_hex4(json, &code)) return NULL;
    if (code >= 0xd800 && code < 0xdc00) { /* a surrogate pair */
        const bool follows = json->end - json->cursor >= 2 && json->cursor[0] == '\\' && json->cursor[1] == 'u';
        if (follows) json->cursor += 2;
        if (!follows || !read_hex4(json, &low) || low < 0xdc00 || low > 0xdfff) {
            stw_json_fail(json, "half of a \\u surrogate pair");
            return NULL;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        stw_json_fail(json, "half of a \\u surrogate pair");
        return NULL;
    }
    return put_utf8(out, code);
}

/* A string with escapes: the decoded text is never longer than the written one. */
static bool read_escaped_string(stw_json *json, const char *start, const char *closing, stw_str *out) {
    char *text = STW_NEW(json->strings, char, (int64_t)(closing - start) + 1);
    if (text == NULL) return stw_json_lacks_memory(json, "a string");
    char *next = text;
    json->cursor = start;
    while (json->cursor < closing) {
        if (*json->cursor != '\\') {
            *next++ = *json->cursor++;
            continue;
        }
        json->cursor++;
        next = read_escape(json, next);
        if (next == NULL) return false;
    }
    json->cursor = closing + 1;
    *out = (stw_str){text, (int64_t)(next - text)};
    return true;
}

bool stw_json_string(stw_json *json, stw_str *out) {
    if (!expect(json, STW_JSON_STRING)) return false;
    const char *start = json->cursor + 1;
    bool escaped = false;
    const char *c = start;
    for (; c < json->end && *c != '"'; c++) {
        if ((unsigned char)*c < 0x20) {
            json->cursor = c;
            return stw_json_fail(json, "a control character within a string; write it as \\u00XX");
        }
        if (*c == '\\') {
            escaped = true;
            c++;
            if (c == json->end) break;
        }
        if ((unsigned char)*c >= 0x80) {
            const int length = stw_utf8_length(c, json->end);
            if (length == 0) {
                json->cursor = c;
                return stw_json_fail(json, "a string is not UTF-8 here; convert the file");
            }
            c += length - 1;
        }
    }
    if (c >= json->end) return stw_json_fail(json, "the string that begins here has no closing quote");
    if (escaped) return read_escaped_string(json, start, c, out);
    *out = (stw_str){start, (int64_t)(c - start)};
    json->cursor = c + 1;
    return true;
}

/* Scans a number of JSON's grammar; the cursor moves behind it. */
static bool scan_number(stw_json *json, stw_str *text, bool *integral) {
    if (!expect(json, STW_JSON_NUMBER)) return false;
    const char *c = json->cursor, *end = json->end;
    *integral = true;
    if (*c == '-') c++;
    const char *digits = c;
    while (c < end && *c >= '0' && *c <= '9') c++;
    if (c == digits) return stw_json_fail(json, "a number needs digits");
    if (*digits == '0' && c - digits > 1) return stw_json_fail(json, "a number must not begin with 0");
    if (c < end && *c == '.') {
        *integral = false;
        const char *fraction = ++c;
        while (c < end && *c >= '0' && *c <= '9') c++;
        if (c == fraction) return stw_json_fail(json, "digits are missing after the decimal point");
    }
    if (c < end && (*c == 'e' || *c == 'E')) {
        *integral = false;
        c++;
        if (c < end && (*c == '+' || *c == '-')) c++;
        const char *exponent = c;
        while (c < end && *c >= '0' && *c <= '9') c++;
        if (c == exponent) return stw_json_fail(json, "digits are missing in the exponent");
    }
    *text = (stw_str){json->cursor, (int64_t)(c - json->cursor)};
    return true;
}

bool stw_json_double(stw_json *json, double *out) {
    stw_str text;
    bool integral;
    if (!scan_number(json, &text, &integral)) return false;
    if (!stw_str_to_double(text, out)) return stw_json_fail(json, "%.*s is out of range", STW_STR_SHOW(text));
    json->cursor += text.length;
    return true;
}

bool stw_json_int64(stw_json *json, int64_t *out) {
    stw_str text;
    bool integral;
    if (!scan_number(json, &text, &integral)) return false;
    if (!integral || !stw_str_to_int64(text, out)) {
        double value = 0.0;
        const bool whole = stw_str_to_double(text, &value) && fabs(value) < 9007199254740992.0 && value == floor(value);
        if (!whole) return stw_json_fail(json, "%.*s is not a 64-bit whole number", STW_STR_SHOW(text));
        *out = (int64_t)value;
    }
    json->cursor += text.length;
    return true;
}

static bool read_word(stw_json *json, const char *word) {
    const int64_t length = (int64_t)strlen(word);
    if (json->end - json->cursor < length || memcmp(json->cursor, word, (size_t)length) != 0) {
        return stw_json_fail(json, "'%s' is expected here", word);
    }
    json->cursor += length;
    return true;
}

bool stw_json_bool(stw_json *json, bool *out) {
    if (!expect(json, STW_JSON_BOOL)) return false;
    *out = *json->cursor == 't';
    return read_word(json, *out ? "true" : "false");
}

bool stw_json_null(stw_json *json) { return expect(json, STW_JSON_NULL) && read_word(json, "null"); }

static bool skip_scalar(stw_json *json) {
    stw_str text;
    bool flag;
    switch (stw_json_peek(json)) {
        case STW_JSON_STRING: return stw_json_string(json, &text);
        case STW_JSON_NUMBER:
            if (!scan_number(json, &text, &flag)) return false;
            json->cursor += text.length;
            return true;
        case STW_JSON_BOOL: return stw_json_bool(json, &flag);
        case STW_JSON_NULL: return stw_json_null(json);
        default: break;
    }
    return stw_json_fail(
        json, json->cursor == json->end
                  ? "the text ends where a value should be"
                  : "this is not a JSON value (an object, a list, a string in double quotes, a number, true, false or null)");
}

bool stw_json_skip(stw_json *json, stw_str *raw) {
    if (json->failed) return false;
    skip_space(json);
    const char *start = json->cursor;
    const stw_json_type type = stw_json_peek(json);
    stw_str key;
    if (type == STW_JSON_OBJECT) { /* the depth limit bounds this recursion */
        if (!stw_json_object(json)) return false;
        while (stw_json_key(json, &key)) stw_json_skip(json, NULL);
    } else if (type == STW_JSON_ARRAY) {
        if (!stw_json_array(json)) return false;
        while (stw_json_item(json)) stw_json_skip(json, NULL);
    } else {
        skip_scalar(json);
    }
    if (raw != NULL) *raw = (stw_str){start, (int64_t)(json->cursor - start)};
    return !json->failed;
}

stw_status stw_json_finish(stw_json *json) {
    if (json->failed) return stw_json_status(json);
    skip_space(json);
    if (json->cursor != json->end) stw_json_fail(json, "text after the end of the JSON value; remove it");
    return stw_json_status(json);
}

int64_t stw_json_count_items(const stw_json *json, stw_arena scratch) {
    stw_json ahead = *json;
    stw_arena strings = scratch;
    stw_error ignored;
    ahead.strings = &strings;
    ahead.error = &ignored;
    int64_t count = 0;
    if (!stw_json_array(&ahead)) return 0;
    while (stw_json_item(&ahead) && stw_json_skip(&ahead, NULL)) {
        strings = scratch;
        count++;
    }
    return count;
}
