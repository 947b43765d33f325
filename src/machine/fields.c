#include "machine/fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"

bool stw_field_fail(stw_machine_reader *r, const char *at, const char *format, ...) {
    char message[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (at != NULL) r->json->cursor = at;
    return stw_json_fail(r->json, "%s: %s", r->subject, message);
}

bool stw_field_want(stw_machine_reader *r, const char *key, stw_json_type type) {
    static const char *const names[] = {[STW_JSON_OBJECT] = "an object",
                                        [STW_JSON_ARRAY] = "an array",
                                        [STW_JSON_STRING] = "a string",
                                        [STW_JSON_NUMBER] = "a number"};
    if (stw_json_peek(r->json) == type || r->json->failed || r->json->cursor == r->json->end) return true;
    return stw_field_fail(r, NULL, "%s must be %s", key, names[type]);
}

/* Once for a machine: the others are likely to be the same in other links. */
static void remark_on_key(stw_machine_reader *r, stw_str key, const char *const *keys, int32_t count) {
    char list[200] = "", text[600];
    size_t length = 0;
    for (int32_t i = 0; i < count && length < sizeof list; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", i == 0 ? "" : ", ", keys[i]);
    }
    snprintf(text, sizeof text, "machine: %s has the key '%.*s', which is not known and counts for nothing; there are %s",
             r->subject, key.length < 60 ? (int)key.length : 60, key.p, list);
    stw_escape_text(text, sizeof text);
    r->machine->remark = stw_str_copy(&r->machine->arena, stw_str_of(text));
}

int32_t stw_field_next(stw_machine_reader *r, const char *const *keys, int32_t count, uint32_t *seen) {
    stw_str key;
    while (stw_json_key(r->json, &key)) {
        int32_t i = 0;
        while (i < count && !stw_str_is(key, keys[i])) i++;
        if (i == count) {
            if (r->warns && r->machine->remark.length == 0) remark_on_key(r, key, keys, count);
            stw_json_skip(r->json, NULL);
        } else if ((*seen >> i & 1) != 0) {
            stw_field_fail(r, NULL, "\"%s\" is given twice; keep one", keys[i]);
        } else {
            *seen |= 1u << i;
            return i;
        }
    }
    return -1;
}

bool stw_field_check(stw_machine_reader *r, const char *at, const char *const *keys, uint32_t needed, uint32_t seen,
                     const char *remedy) {
    const uint32_t missing = needed & ~seen;
    if (missing == 0) return true;
    int32_t i = 0;
    while ((missing >> i & 1) == 0) i++;
    return stw_field_fail(r, at, "\"%s\" is missing; %s", keys[i], remedy);
}

bool stw_field_text(stw_machine_reader *r, const char *key, bool may_be_empty, stw_str *out) {
    if (!stw_field_want(r, key, STW_JSON_STRING)) return false;
    const char *at = r->json->cursor;
    stw_str text;
    if (!stw_json_string(r->json, &text)) return false;
    if (text.length == 0 && !may_be_empty) return stw_field_fail(r, at, "%s is empty; give at least one character", key);
    if (text.length > 0 && memchr(text.p, '\0', (size_t)text.length) != NULL) { /* stowage.h gives names as C strings */
        return stw_field_fail(r, at, "%s contains the character \\u0000; remove it", key);
    }
    *out = stw_str_copy(&r->machine->arena, text);
    return out->p != NULL || stw_json_lacks_memory(r->json, key);
}

bool stw_field_choice(stw_machine_reader *r, const char *key, const char *first, const char *second, bool *is_first) {
    if (!stw_field_want(r, key, STW_JSON_STRING)) return false;
    const char *at = r->json->cursor;
    stw_str word;
    if (!stw_json_string(r->json, &word)) return false;
    *is_first = stw_str_is(word, first);
    if (*is_first || (second != NULL && stw_str_is(word, second))) return true;
    if (second == NULL) return stw_field_fail(r, at, "%s is '%.*s'; it must be \"%s\"", key, STW_STR_SHOW(word), first);
    return stw_field_fail(r, at, "%s is '%.*s'; it must be \"%s\" or \"%s\"", key, STW_STR_SHOW(word), first, second);
}

/* The limits keep every product and quotient of the cost model finite. */
bool stw_field_number(stw_machine_reader *r, const char *key, stw_range range, double *out) {
    static const struct {
        double least, most;
        const char *remedy;
    } limits[] = {
        [STW_ABOVE_ZERO] = {1e-100, 1e100, "give a number above 0 (1e-100 to 1e100)"},
        [STW_ZERO_OR_MORE] = {0.0, 2e12, "give 0 or more (at most 2e12)"}, /* times: STW_GRAPH_MAX_US */
        [STW_SHARE] = {1e-100, 1.0, "give a share above 0 and at most 1"},
    };
    stw_str text;
    if (!stw_field_want(r, key, STW_JSON_NUMBER) || !stw_json_skip(r->json, &text)) return false;
    if (stw_str_to_double(text, out) && *out >= limits[range].least && *out <= limits[range].most) return true;
    return stw_field_fail(r, text.p, "%s is %.*s; %s", key, STW_STR_SHOW(text), limits[range].remedy);
}

bool stw_field_whole(stw_machine_reader *r, const char *key, int64_t least, int64_t most, const char *remedy, int64_t *out) {
    stw_str text;
    if (!stw_field_want(r, key, STW_JSON_NUMBER) || !stw_json_skip(r->json, &text)) return false;
    stw_json trial; /* its error stays unsaid: it would not name the key */
    stw_json_init(&trial, text, NULL, NULL);
    if (stw_json_int64(&trial, out) && *out >= least && *out <= most) return true;
    return stw_field_fail(r, text.p, "%s is %.*s; %s", key, STW_STR_SHOW(text), remedy);
}
