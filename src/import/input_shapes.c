/* Shapes that the user gives for a model's inputs, and what the file says of them; see input_shapes.h. */
#include "import/input_shapes.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"

enum { MAX_GIVEN = 1000, MAX_RANK = 32 };
#define MAX_SIZE ((int64_t)1 << 40)

/* ---- the option ---- */

static stw_status parse_sizes(stw_str text, stw_str entry, stw_given_shape *out, stw_arena *arena, stw_error *error) {
    int64_t size[MAX_RANK], *kept;
    out->rank = 0;
    for (const char *c = text.p, *end = text.p + text.length; c <= end;) {
        const char *comma = memchr(c, ',', (size_t)(end - c));
        const stw_str word = {c, (int64_t)((comma != NULL ? comma : end) - c)};
        if (out->rank == MAX_RANK)
            return stw_fail(error, STW_ERROR_INPUT, "--shape: '%.*s' has more than %d dimensions", STW_STR_SHOW(entry), MAX_RANK);
        if (!stw_str_to_int64(word, &size[out->rank]) || size[out->rank] < 1 || size[out->rank] > MAX_SIZE)
            return stw_fail(error, STW_ERROR_INPUT,
                            "--shape: '%.*s': '%.*s' is not a size from 1 to 2^40; write NAME=1,3,224,224", STW_STR_SHOW(entry),
                            STW_STR_SHOW(word));
        out->rank++;
        c += word.length + 1;
    }
    STW_TRY_NEW(arena, kept, out->rank, error);
    memcpy(kept, size, (size_t)out->rank * sizeof *kept);
    out->dim = kept;
    return STW_OK;
}

/* The last "=" divides, since names may contain one. */
static stw_status parse_entry(stw_str entry, stw_read_options *o, stw_error *error) {
    int64_t equals = entry.length - 1;
    while (equals >= 0 && entry.p[equals] != '=') equals--;
    if (equals < 1)
        return stw_fail(error, STW_ERROR_INPUT, "--shape: '%.*s' is not NAME=1,3,224,224; several are separated by ';'",
                        STW_STR_SHOW(entry));
    stw_given_shape *given = &o->given[o->given_count];
    *given = (stw_given_shape){.name = {entry.p, equals}};
    for (int64_t k = 0; k < o->given_count; k++) {
        if (stw_str_equal(o->given[k].name, given->name))
            return stw_fail(error, STW_ERROR_INPUT, "--shape: '%.*s' stands twice", STW_STR_SHOW(given->name));
    }
    TRY(parse_sizes((stw_str){entry.p + equals + 1, entry.length - equals - 1}, entry, given, o->arena, error));
    o->given_count++;
    return STW_OK;
}

stw_status stw_read_options_parse(const char *shapes, stw_arena *arena, stw_read_options *out, stw_error *error) {
    *out = (stw_read_options){.arena = arena};
    if (shapes == NULL || shapes[0] == '\0') return STW_OK;
    const stw_str text = stw_str_copy(arena, stw_str_of(shapes));
    if (text.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    int64_t entries = 1;
    for (int64_t k = 0; k < text.length; k++) entries += text.p[k] == ';';
    if (entries > MAX_GIVEN) return stw_fail(error, STW_ERROR_INPUT, "--shape: more than %d shapes", MAX_GIVEN);
    STW_TRY_NEW(arena, out->given, entries, error);
    for (const char *c = text.p, *end = text.p + text.length; c <= end;) {
        const char *semicolon = memchr(c, ';', (size_t)(end - c));
        const stw_str entry = {c, (int64_t)((semicolon != NULL ? semicolon : end) - c)};
        if (entry.length > 0) TRY(parse_entry(entry, out, error));
        c += entry.length + 1;
    }
    return STW_OK;
}

/* ---- for readers ---- */

const stw_given_shape *stw_given_find(stw_read_options *o, stw_str input) {
    for (int64_t k = 0; o != NULL && k < o->given_count; k++) {
        if (!stw_str_equal(o->given[k].name, input)) continue;
        o->given[k].is_input = o->given[k].used = true;
        return &o->given[k];
    }
    return NULL;
}

bool stw_given_size(stw_read_options *o, stw_str dimension, int64_t *out) {
    if (o == NULL || dimension.length == 0) return false;
    for (int64_t k = 0; k < o->given_count; k++) {
        stw_given_shape *given = &o->given[k];
        if (given->rank != 1 || given->is_input || !stw_str_equal(given->name, dimension)) continue;
        given->used = true;
        *out = given->dim[0];
        return true;
    }
    for (int64_t k = 0; k < o->named_count; k++) {
        if (!stw_str_equal(o->named[k].name, dimension)) continue;
        *out = o->named[k].size;
        return true;
    }
    return false;
}

static stw_status settle_dim(stw_read_options *o, stw_str name, int64_t size, stw_str by, stw_error *error) {
    int64_t other = 0;
    if (stw_given_size(o, name, &other)) {
        if (other == size) return STW_OK;
        return stw_fail(error, STW_ERROR_INPUT, "--shape: '%.*s' makes dimension '%.*s' %lld, but elsewhere it is %lld",
                        STW_STR_SHOW(by), STW_STR_SHOW(name), (long long)size, (long long)other);
    }
    const stw_named_dim named = {stw_str_copy(o->arena, name), by, size};
    if (named.name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    STW_PUSH(o->arena, o, named, named, error);
    return STW_OK;
}

stw_status stw_given_settle(stw_read_options *o, const stw_model_input *input, const stw_given_shape *given, stw_error *error) {
    if (input->rank < 0) return STW_OK;
    if (input->rank != given->rank) {
        stw_arena scratch = *o->arena;
        return stw_fail(error, STW_ERROR_INPUT, "--shape: input '%.*s' has %d dimensions (%s), but %d are given",
                        STW_STR_SHOW(input->name), input->rank, stw_input_text(input, &scratch).p, given->rank);
    }
    for (int32_t d = 0; d < input->rank && input->dim_name != NULL; d++) {
        if (input->dim[d] < 0 && input->dim_name[d].length > 0)
            TRY(settle_dim(o, input->dim_name[d], given->dim[d], given->name, error));
    }
    return STW_OK;
}

/* Names go into reports: what is no UTF-8, and controls, become '?'. */
static stw_str copy_clean(stw_arena *arena, stw_str from) {
    char *copy = STW_NEW(arena, char, from.length + 1);
    if (copy == NULL) return (stw_str){0};
    if (from.length > 0) memcpy(copy, from.p, (size_t)from.length);
    for (char *c = copy; c < copy + from.length;) {
        const int length = (unsigned char)*c < 0x20 ? 0 : stw_utf8_length(c, copy + from.length);
        if (length == 0) *c = '?';
        c += length == 0 ? 1 : length;
    }
    return (stw_str){copy, from.length};
}

stw_status stw_note_input(stw_read_options *o, const stw_model_input *input, stw_error *error) {
    if (o == NULL || o->arena == NULL) return STW_OK;
    stw_model_input kept = {.name = copy_clean(o->arena, input->name), .rank = input->rank, .is_open = input->rank < 0};
    int64_t *dim;
    stw_str *name;
    const int64_t rank = input->rank > 0 ? input->rank : 0;
    STW_TRY_NEW(o->arena, dim, rank, error);
    STW_TRY_NEW(o->arena, name, rank, error);
    for (int32_t d = 0; d < rank; d++) {
        const bool named = input->dim_name != NULL && input->dim_name[d].length > 0;
        dim[d] = input->dim[d];
        if (named) name[d] = copy_clean(o->arena, input->dim_name[d]);
        kept.is_open |= dim[d] < 0 && !(named && stw_given_size(o, input->dim_name[d], &(int64_t){0}));
    }
    for (int64_t k = 0; k < o->given_count; k++) kept.is_open &= !stw_str_equal(o->given[k].name, input->name);
    kept.dim = dim;
    kept.dim_name = name;
    STW_PUSH(o->arena, o, input, kept, error);
    return STW_OK;
}

/* ---- what the file has ---- */

bool stw_next_open_name(const stw_read_options *o, int64_t *at, int32_t *d, stw_str *out) {
    for (; *at < o->input_count; ++*at, *d = 0) {
        const stw_model_input *input = &o->input[*at];
        while (input->is_open && *d < input->rank) {
            *out = input->dim_name[*d];
            const bool open = input->dim[(*d)++] < 0;
            if (open && out->length > 0 && !stw_given_size((stw_read_options *)(uintptr_t)o, *out, &(int64_t){0})) return true;
        }
    }
    return false;
}

stw_str stw_input_text(const stw_model_input *input, stw_arena *arena) {
    char text[600];
    size_t length = 0;
    if (input->rank < 0) return STW_STR("?");
    text[0] = '\0';
    for (int32_t d = 0; d < input->rank && length < sizeof text - 100; d++) {
        const char *comma = d > 0 ? "," : "";
        const bool named = input->dim[d] < 0 && input->dim_name != NULL && input->dim_name[d].length > 0;
        const int written =
            named               ? snprintf(text + length, sizeof text - length, "%s%.*s", comma, STW_STR_SHOW(input->dim_name[d]))
            : input->dim[d] < 0 ? snprintf(text + length, sizeof text - length, "%s?", comma)
                                : snprintf(text + length, sizeof text - length, "%s%lld", comma, (long long)input->dim[d]);
        length += written > 0 ? (size_t)written : 0;
    }
    const stw_str copy = stw_str_copy(arena, (stw_str){text, (int64_t)length});
    return copy.p != NULL ? copy : STW_STR("");
}

/* Lines of one message hold some names and not all. */
static void list_inputs(const stw_read_options *o, bool open_only, char *text, size_t size) {
    size_t length = 0;
    enum { SHOWN = 6 };
    int shown = 0;
    for (int64_t k = 0; k < o->input_count && length < size; k++) {
        if (open_only && !o->input[k].is_open) continue;
        if (shown++ == SHOWN) {
            snprintf(text + length, size - length, ", ...");
            return;
        }
        stw_arena scratch = *o->arena;
        length += (size_t)snprintf(text + length, size - length, "%s%.*s (%.60s)", shown > 1 ? ", " : "",
                                   STW_STR_SHOW(o->input[k].name), stw_input_text(&o->input[k], &scratch).p);
    }
}

static bool is_among(const stw_str *names, int count, stw_str name) {
    for (int k = 0; k < count; k++) {
        if (stw_str_equal(names[k], name)) return true;
    }
    return false;
}

static void list_names(const stw_read_options *o, char *text, size_t size) {
    enum { SHOWN = 6 };
    stw_str name, seen[SHOWN];
    int shown = 0;
    size_t length = 0;
    int64_t at = 0;
    for (int32_t d = 0; stw_next_open_name(o, &at, &d, &name) && shown < SHOWN && length < size;) {
        if (is_among(seen, shown, name)) continue;
        seen[shown++] = name;
        length += (size_t)snprintf(text + length, size - length, "%s%.*s",
                                   shown > 1 ? ", " : "; open dimensions: ", STW_STR_SHOW(name));
    }
}

stw_status stw_given_check(const stw_read_options *o, stw_error *error) {
    for (int64_t k = 0; o != NULL && k < o->given_count; k++) {
        if (o->given[k].used) continue;
        char inputs[260] = "", names[120] = "";
        bool any = false;
        for (int64_t i = 0; i < o->input_count; i++) any |= o->input[i].is_open;
        list_inputs(o, any, inputs, sizeof inputs);
        list_names(o, names, sizeof names);
        return stw_fail(error, STW_ERROR_INPUT, "--shape: there is no input%s '%.*s'; %s: %s%s",
                        o->given[k].rank == 1 ? " and no dimension" : "", STW_STR_SHOW(o->given[k].name),
                        any ? "open inputs" : "inputs", inputs[0] != '\0' ? inputs : "none", names);
    }
    return STW_OK;
}
