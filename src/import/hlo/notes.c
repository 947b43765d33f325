/* The plan that an exported module carries, instruction by instruction: entries of frontend_attributes. */
#include <string.h>

#include "import/hlo/hlo.h"
#include "import/hlo/text.h"

const char *const stw_hlo_note_keys[STW_HLO_NOTES] = {"stowage_device", "stowage_priority", "stowage_order"};

int stw_hlo_find_note(stw_str key) {
    int k = 0;
    while (k < STW_HLO_NOTES && !stw_str_is(key, stw_hlo_note_keys[k])) k++;
    return k;
}

/* ---- in text ---- */

stw_str stw_hlo_between_braces(stw_str value) {
    const bool braced = value.length >= 2 && value.p[0] == '{' && value.p[value.length - 1] == '}';
    return braced ? (stw_str){value.p + 1, value.length - 2} : value;
}

bool stw_hlo_next_entry(stw_str *rest, stw_str *entry) {
    if (rest->length == 0) return false;
    stw_hlo_text t = stw_hlo_text_of(*rest);
    while (t.cursor < t.end && *t.cursor != ',') {
        const char *before = t.cursor;
        stw_hlo_value(&t);
        t.cursor += t.cursor == before; /* a bracket that nothing has opened */
    }
    *entry = (stw_str){rest->p, (int64_t)(t.cursor - rest->p)};
    t.cursor += t.cursor < t.end;
    *rest = (stw_str){t.cursor, (int64_t)(t.end - t.cursor)};
    return true;
}

int stw_hlo_entry_note(stw_str entry, stw_str *value) {
    stw_hlo_text t = stw_hlo_text_of(entry);
    const int which = stw_hlo_find_note(stw_hlo_word(&t));
    if (which == STW_HLO_NOTES || !stw_hlo_accept(&t, "=")) return STW_HLO_NOTES;
    *value = stw_hlo_value(&t);
    return which;
}

static bool is_octal(char c) { return c >= '0' && c <= '7'; }

/* What stands between quotes, escapes as in C undone. */
static stw_status unquote(stw_str quoted, stw_arena *arena, stw_str *out, stw_error *error) {
    char *text;
    int64_t n = 0, k = quoted.length > 0 && quoted.p[0] == '"';
    const int64_t end = quoted.length - (quoted.length > 1 && quoted.p[quoted.length - 1] == '"');
    STW_TRY_NEW(arena, text, quoted.length + 1, error);
    while (k < end) {
        char c = quoted.p[k++];
        if (c == '\\' && k < end) {
            int code = 0, digits = 0;
            for (; digits < 3 && k < end && is_octal(quoted.p[k]); digits++) code = 8 * code + quoted.p[k++] - '0';
            if (digits == 0) c = quoted.p[k++];
            if (digits == 0 && c == 'n') c = '\n';
            if (digits > 0) c = (char)code;
        }
        text[n++] = c;
    }
    *out = (stw_str){text, n};
    return STW_OK;
}

stw_status stw_hlo_text_note(stw_str frontend, stw_arena *arena, stw_hlo_note *out, stw_error *error) {
    stw_str rest = stw_hlo_between_braces(frontend), entry, value = {0};
    while (stw_hlo_next_entry(&rest, &entry)) {
        const int which = stw_hlo_entry_note(entry, &value);
        if (which < STW_HLO_NOTES) TRY(unquote(value, arena, &out->value[which], error));
    }
    return STW_OK;
}

/* ---- what it says ---- */

/* The next of a list with commas; where there is only one, it is for all. */
static stw_str take_next(stw_str list, stw_str *rest) {
    const stw_str last = *rest;
    const char *comma = last.length > 0 ? memchr(last.p, ',', (size_t)last.length) : NULL;
    if (comma == NULL && last.p == list.p) return list;
    const char *end = comma != NULL ? comma : last.p + last.length, *next = comma != NULL ? comma + 1 : end;
    *rest = (stw_str){next, (int64_t)(last.p + last.length - next)};
    return (stw_str){last.p, (int64_t)(end - last.p)};
}

stw_hlo_note stw_hlo_next_note(const stw_hlo_note *list, stw_hlo_note *rest) {
    stw_hlo_note next;
    for (int k = 0; k < STW_HLO_NOTES; k++) next.value[k] = take_next(list->value[k], &rest->value[k]);
    return next;
}

const char *stw_hlo_read_note(const stw_hlo_note *note, stw_carried *out) {
    const stw_str priority = note->value[STW_HLO_NOTE_PRIORITY], place = note->value[STW_HLO_NOTE_ORDER];
    *out = (stw_carried){.device = note->value[STW_HLO_NOTE_DEVICE]};
    if (priority.length > 0 && !stw_str_to_double(priority, &out->priority))
        return "its stowage_priority is not a number; export the plan again";
    if (place.length == 0) return NULL;
    if (!stw_str_to_int64(place, &out->place) || out->place < 0 || out->place >= INT32_MAX)
        return "its stowage_order is not a number from 0 on; export the plan again";
    out->place++;
    return NULL;
}
