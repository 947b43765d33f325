/* Devices and priorities into a GraphDef in text, which the reader has found to be sound. Only their own characters change:
 * comments, spaces and everything else stay. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "export/tensorflow/planned_graphdef.h"

typedef struct editor {
    const char *begin, *end;
    const char *copied; /* up to here the text is written */
    FILE *out;
} editor;

typedef struct span {
    const char *begin, *end;
} span;

/* ---- finding the way: what is nested stays closed ---- */

static const char *skip_space(const editor *t, const char *c) {
    while (c < t->end) {
        if (*c == '#') {
            while (c < t->end && *c != '\n') c++;
        } else if (*c == ' ' || (*c >= '\t' && *c <= '\r')) {
            c++;
        } else {
            break;
        }
    }
    return c;
}

static const char *skip_quoted(const editor *t, const char *c) {
    const char quote = *c++;
    for (; c < t->end && *c != quote; c++) {
        if (*c == '\\') c++;
    }
    return c < t->end ? c + 1 : t->end;
}

static bool is_quote(const char *c) { return *c == '"' || *c == '\''; }
static bool is_open(char c) { return c == '{' || c == '<' || c == '['; }
static bool is_close(char c) { return c == '}' || c == '>' || c == ']'; }

static const char *skip_brackets(const editor *t, const char *c) {
    int64_t depth = 0;
    while (c < t->end) {
        if (is_quote(c)) {
            c = skip_quoted(t, c);
        } else if (*c == '#') {
            c = skip_space(t, c);
        } else {
            depth += is_open(*c) ? 1 : is_close(*c) ? -1 : 0;
            c++;
            if (depth == 0) return c;
        }
    }
    return t->end;
}

static bool ends_word(char c) { return is_close(c) || c == ',' || c == ';' || c == '#' || c == ' ' || (c >= '\t' && c <= '\r'); }

static const char *skip_value(const editor *t, const char *c) {
    if (c == t->end) return c;
    if (is_open(*c)) return skip_brackets(t, c);
    if (!is_quote(c)) {
        while (c < t->end && !ends_word(*c)) c++;
        return c;
    }
    const char *after = c;
    for (; c < t->end && is_quote(c); c = skip_space(t, after)) after = skip_quoted(t, c); /* pieces are one string */
    return after;
}

/* The field at *c, which moves behind it: its name and its value; false at the bracket that closes the message. */
static bool next_field(const editor *t, const char **c, span *name, span *value) {
    const char *at = skip_space(t, *c);
    while (at < t->end && (*at == ',' || *at == ';')) at = skip_space(t, at + 1);
    *c = at;
    if (at == t->end || is_close(*at)) return false;
    name->begin = at;
    if (*at == '[') {
        at = skip_brackets(t, at);
    } else {
        while (at < t->end && *at != ':' && !is_open(*at) && !ends_word(*at)) at++;
    }
    name->end = at;
    at = skip_space(t, at);
    if (at < t->end && *at == ':') at = skip_space(t, at + 1);
    *value = (span){at, skip_value(t, at)};
    *c = value->end;
    return value->end > name->begin;
}

static bool span_is(span s, const char *text) {
    return (size_t)(s.end - s.begin) == strlen(text) && memcmp(s.begin, text, strlen(text)) == 0;
}

/* ---- changing it ---- */

static void copy_to(editor *t, const char *c) {
    if (c > t->copied) fwrite(t->copied, 1, (size_t)(c - t->copied), t->out);
    t->copied = c;
}

static void put_device(FILE *out, const stw_tf_given *given) {
    fprintf(out, "\"%.*s\"", (int)given->device.length, given->device.p);
}

static void put_priority(FILE *out, const stw_tf_given *given) {
    char number[32];
    stw_format_double(number, (double)given->priority);
    fprintf(out, "{ key: \"" STW_TF_PRIORITY "\" value { f: %s } }", number);
}

typedef void put_value(FILE *out, const stw_tf_given *given);

static void replace(editor *t, span old, put_value *put, const stw_tf_given *given) {
    copy_to(t, old.begin);
    put(t->out, given);
    t->copied = old.end;
}

/* The spaces that something stands behind, if it is the first on its line. */
static bool indent_of(const editor *t, const char *c, span *indent) {
    const char *start = c;
    while (start > t->begin && (start[-1] == ' ' || start[-1] == '\t')) start--;
    *indent = (span){start, c};
    return start == t->begin || start[-1] == '\n';
}

/* A field before what stands at `c`: on a line of its own, indented as `like`, where that is first on its line. */
static void insert(editor *t, const char *c, const char *like, const char *name, put_value *put, const stw_tf_given *given) {
    span own, indent;
    const bool line = indent_of(t, c, &own) && own.begin >= t->copied && indent_of(t, like, &indent);
    if (!line) {
        copy_to(t, c);
        const bool apart = c == t->begin || c[-1] == ' ' || (c[-1] >= '\t' && c[-1] <= '\r');
        fprintf(t->out, "%s%s", apart ? "" : " ", name);
        put(t->out, given);
        fputc(' ', t->out);
        return;
    }
    copy_to(t, own.begin);
    fwrite(indent.begin, 1, (size_t)(indent.end - indent.begin), t->out);
    fputs(name, t->out);
    put(t->out, given);
    fputs(own.begin - t->begin >= 2 && own.begin[-2] == '\r' ? "\r\n" : "\n", t->out);
}

/* With its line, if nothing else stands there. */
static void leave_out(editor *t, span old) {
    span indent;
    const char *end = old.end;
    while (end < t->end && (*end == ' ' || *end == '\t' || *end == '\r')) end++;
    const bool line = indent_of(t, old.begin, &indent) && indent.begin >= t->copied && end < t->end && *end == '\n';
    copy_to(t, line ? indent.begin : old.begin);
    t->copied = line ? end + 1 : old.end;
}

/* Is this attribute, at its bracket, the priority? */
static bool is_priority(const editor *t, const char *c) {
    span name, value;
    bool is = false;
    for (c++; next_field(t, &c, &name, &value);) {
        if (span_is(name, "key")) is = span_is(value, "\"" STW_TF_PRIORITY "\"") || span_is(value, "'" STW_TF_PRIORITY "'");
    }
    return is;
}

/* Replaces the priority if it is this attribute, or one of these in a list. */
static bool change_priority(editor *t, span value, const stw_tf_given *given) {
    if (value.begin == value.end) return false;
    if (*value.begin != '[') {
        if (!is_open(*value.begin) || !is_priority(t, value.begin)) return false;
        replace(t, value, put_priority, given);
        return true;
    }
    bool changed = false;
    const char *c = skip_space(t, value.begin + 1);
    while (c < value.end && is_open(*c)) {
        const span item = {c, skip_brackets(t, c)};
        changed |= change_priority(t, item, given);
        c = skip_space(t, item.end);
        if (c < value.end && *c == ',') c = skip_space(t, c + 1);
    }
    return changed;
}

static bool has_device(const editor *t, const char *c) {
    span name, value;
    while (next_field(t, &c, &name, &value)) {
        if (span_is(name, "device")) return true;
    }
    return false;
}

/* A node, from its opening bracket on. */
static void edit_node(editor *t, const char *open, const stw_tf_given *given) {
    const char *c = open + 1, *first = NULL;
    bool device_due = given->device.length > 0 && !has_device(t, c), priority_due = !isnan(given->priority);
    span name, value;
    while (next_field(t, &c, &name, &value)) {
        if (first == NULL) first = name.begin;
        if (span_is(name, "device") && given->device.length > 0) replace(t, value, put_device, given);
        if (!span_is(name, "attr")) continue;
        if (device_due) insert(t, name.begin, name.begin, "device: ", put_device, given);
        device_due = false;
        const bool is_stale = !priority_due && is_open(*value.begin) && is_priority(t, value.begin);
        if (is_stale) {
            leave_out(t, (span){name.begin, value.end});
        } else if (priority_due && change_priority(t, value, given)) {
            priority_due = false;
        }
    }
    const char *like = first != NULL ? first : c;
    if (device_due) insert(t, c, like, "device: ", put_device, given);
    if (priority_due) insert(t, c, like, "attr ", put_priority, given);
}

void stw_tf_put_text(stw_str text, const stw_tf_model *model, const stw_tf_given *given, FILE *out) {
    editor t = {.begin = text.p, .end = text.p + text.length, .copied = text.p, .out = out};
    for (int64_t i = 0; i < model->node_count; i++) edit_node(&t, text.p + model->node[i].at, &given[i]);
    copy_to(&t, t.end);
}
