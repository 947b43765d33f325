/* Measured times from a CSV file: rows name,kind,us. A heading "name,kind,us" is allowed; empty lines and lines that begin
 * with # are skipped; a field may stand in double quotes, with "" for a quote within. */
#include <string.h>

#include "cost/cost.h"

typedef struct {
    const char *cursor, *end;
    int64_t line;
    stw_arena *arena;
    stw_error *error;
} csv;

static stw_status csv_fail(const csv *c, const char *what) {
    return stw_fail(c->error, STW_ERROR_INPUT, "line %lld: %s; each row is name,kind,us", (long long)c->line, what);
}

static stw_status read_quoted(csv *c, stw_str *out) {
    c->cursor++;
    const char *line_end = memchr(c->cursor, '\n', (size_t)(c->end - c->cursor));
    char *text = STW_NEW(c->arena, char, (int64_t)((line_end != NULL ? line_end : c->end) - c->cursor) + 1);
    if (text == NULL) return stw_fail(c->error, STW_ERROR_MEMORY, "out of memory");
    int64_t length = 0;
    for (;; c->cursor++) {
        if (c->cursor == c->end || *c->cursor == '\n') return csv_fail(c, "a quoted field has no closing quote");
        if (*c->cursor != '"') {
            text[length++] = *c->cursor;
        } else if (c->end - c->cursor > 1 && c->cursor[1] == '"') {
            text[length++] = *c->cursor++;
        } else {
            break;
        }
    }
    c->cursor++;
    *out = (stw_str){text, length};
    return STW_OK;
}

/* One field; the cursor stops at the comma or the end of the line. */
static stw_status read_field(csv *c, stw_str *out) {
    while (c->cursor < c->end && (*c->cursor == ' ' || *c->cursor == '\t')) c->cursor++;
    if (c->cursor < c->end && *c->cursor == '"') {
        TRY(read_quoted(c, out));
    } else {
        const char *start = c->cursor;
        while (c->cursor < c->end && *c->cursor != ',' && *c->cursor != '\n') c->cursor++;
        *out = (stw_str){start, (int64_t)(c->cursor - start)};
        while (out->length > 0 && strchr(" \t\r", out->p[out->length - 1]) != NULL) out->length--;
    }
    while (c->cursor < c->end && (*c->cursor == ' ' || *c->cursor == '\t' || *c->cursor == '\r')) c->cursor++;
    if (c->cursor < c->end && *c->cursor != ',' && *c->cursor != '\n') return csv_fail(c, "text after a closing quote");
    return STW_OK;
}

static stw_status read_row(csv *c, stw_cost_row *row, bool first, bool *heading) {
    stw_str field[3];
    for (int k = 0; k < 3; k++) {
        if (k > 0) {
            if (c->cursor == c->end || *c->cursor != ',') return csv_fail(c, "fewer than three fields");
            c->cursor++;
        }
        TRY(read_field(c, &field[k]));
    }
    if (c->cursor < c->end && *c->cursor == ',') return csv_fail(c, "more than three fields");
    *heading = first && stw_str_is(field[0], "name") && stw_str_is(field[1], "kind") && stw_str_is(field[2], "us");
    if (*heading) return STW_OK;
    *row = (stw_cost_row){.name = field[0], .kind = field[1], .line = c->line};
    if (row->name.length == 0) return csv_fail(c, "the name is empty");
    if (row->kind.length == 0) return csv_fail(c, "the kind of device is empty");
    if (!stw_str_to_double(field[2], &row->us) || row->us < 0.0) {
        return stw_fail(c->error, STW_ERROR_INPUT,
                        "line %lld: '%.*s': the time '%.*s' is not a number of microseconds (0 or more)", (long long)c->line,
                        STW_STR_SHOW(row->name), STW_STR_SHOW(field[2]));
    }
    if (row->us > STW_GRAPH_MAX_US) {
        return stw_fail(c->error, STW_ERROR_INPUT,
                        "line %lld: '%.*s': a time of %g us; at most %g (23 days) are possible; is it in other units?",
                        (long long)c->line, STW_STR_SHOW(row->name), row->us, STW_GRAPH_MAX_US);
    }
    return STW_OK;
}

stw_status stw_cost_csv_parse(stw_str text, stw_arena *arena, stw_cost_row **out, int64_t *count, stw_error *error) {
    int64_t lines = 1;
    for (int64_t i = 0; i < text.length; i++) lines += text.p[i] == '\n';
    STW_TRY_NEW(arena, *out, lines, error);
    *count = 0;
    csv c = {.cursor = text.p, .end = text.p + text.length, .line = 1, .arena = arena, .error = error};
    if (text.length >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0) c.cursor += 3; /* byte order mark */
    bool first = true; /* no row was read yet, so a heading may come */
    for (; c.cursor < c.end; c.line++) {
        const char *line_end = memchr(c.cursor, '\n', (size_t)(c.end - c.cursor));
        if (line_end == NULL) line_end = c.end;
        const bool skip = *c.cursor == '#' || *c.cursor == '\n' || (*c.cursor == '\r' && c.cursor + 1 == line_end);
        bool heading = false;
        if (!skip) {
            TRY(read_row(&c, &(*out)[*count], first, &heading));
            first = false;
            *count += !heading;
        }
        c.cursor = line_end < c.end ? line_end + 1 : c.end;
    }
    return STW_OK;
}
