/* Attributes of ONNX nodes, looked up in the file when a rule asks for them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "import/onnx/onnx.h"

enum { NODE_ATTRIBUTE = 5, FUNCTION_DEFAULT = 11 }; /* field numbers */

static bool read_attribute(stw_pb *node, const stw_pb_field *field, stw_onnx_attribute *out) {
    stw_pb m;
    *out = (stw_onnx_attribute){0};
    if (!stw_pb_enter(node, field, &m)) return false;
    out->bytes = field->bytes;
    out->depth = m.depth;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        switch (f.number) {
            case 1: stw_pb_string(&m, &f, &out->name); break;
            case 2: stw_pb_float(&m, &f, &out->f); break;
            case 3: stw_pb_int(&m, &f, &out->i); break;
            case 4: stw_pb_string(&m, &f, &out->s); break;
            case 5: stw_pb_string(&m, &f, &out->tensor); break;
            case 6: stw_pb_string(&m, &f, &out->graph); break;
            case 20: stw_pb_int(&m, &f, &out->type); break;
            case 21: stw_pb_string(&m, &f, &out->reference); break;
            case 22: stw_pb_string(&m, &f, &out->sparse); break;
            default: break;
        }
    }
    out->found = !node->file->failed;
    return out->found;
}

static stw_onnx_attribute find_in(stw_pb_file *file, stw_str message, int32_t depth, int64_t number, stw_str name) {
    stw_pb m = stw_pb_range(file, message, depth);
    stw_onnx_attribute attribute = {0};
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number != number || !read_attribute(&m, &f, &attribute)) continue;
        if (stw_str_equal(attribute.name, name)) return attribute;
    }
    return (stw_onnx_attribute){0};
}

stw_onnx_attribute stw_onnx_find(const stw_onnx_eval *eval, const stw_onnx_node *node, const char *name) {
    stw_pb_file *file = &eval->reader->file;
    stw_onnx_attribute a = find_in(file, node->bytes, node->depth, NODE_ATTRIBUTE, stw_str_of(name));
    /* Within a function an attribute may stand for one of the call's; of a body in a function, the function is further out. */
    while (a.found && a.reference.length > 0) {
        while (eval != NULL && eval->function == NULL) eval = eval->outer;
        if (eval == NULL) return (stw_onnx_attribute){0};
        const stw_str reference = a.reference;
        a = find_in(file, eval->call->bytes, eval->call->depth, NODE_ATTRIBUTE, reference);
        if (!a.found) return find_in(file, eval->function->bytes, eval->function->depth, FUNCTION_DEFAULT, reference);
        eval = eval->outer;
    }
    return a;
}

int64_t stw_onnx_int(const stw_onnx_call *c, const char *name, int64_t otherwise) {
    const stw_onnx_attribute a = stw_onnx_find(c->eval, c->node, name);
    return a.found ? a.i : otherwise;
}

stw_str stw_onnx_text(const stw_onnx_call *c, const char *name) { return stw_onnx_find(c->eval, c->node, name).s; }

/* The numbers of list field `number` of an attribute; `whole` or `real` is filled. */
static int64_t read_list(stw_pb_file *file, const stw_onnx_attribute *a, int64_t number, int64_t *whole, double *real,
                         int64_t room) {
    stw_pb m = stw_pb_range(file, a->bytes, a->depth);
    int64_t count = 0, i = 0;
    double f = 0.0;
    for (stw_pb_field field; stw_pb_next(&m, &field);) {
        if (field.number != number) continue;
        for (stw_pb_list list = stw_pb_list_of(&field);
             whole != NULL ? stw_pb_list_int(&m, &list, &i) : stw_pb_list_float(&m, &list, &f); count++) {
            if (count >= room) continue;
            if (whole != NULL)
                whole[count] = i;
            else
                real[count] = f;
        }
    }
    return count;
}

int64_t stw_onnx_ints(const stw_onnx_call *c, const char *name, int64_t *out, int64_t room) {
    const stw_onnx_attribute a = stw_onnx_find(c->eval, c->node, name);
    return a.found ? read_list(&c->eval->reader->file, &a, 8, out, NULL, room) : -1;
}

int64_t stw_onnx_floats(const stw_onnx_call *c, const char *name, double *out, int64_t room) {
    const stw_onnx_attribute a = stw_onnx_find(c->eval, c->node, name);
    return a.found ? read_list(&c->eval->reader->file, &a, 7, NULL, out, room) : -1;
}

/* ---- as JSON ---- */

enum { MAX_TEXT = 1 << 16 }; /* of all attributes of a node; nobody reads more */

typedef struct {
    char *data; /* (MAX_TEXT) */
    int64_t length;
    bool failed;
} text;

static void append(text *t, const char *bytes, int64_t length) {
    t->failed |= t->length + length > MAX_TEXT;
    if (t->failed) return;
    memcpy(t->data + t->length, bytes, (size_t)length);
    t->length += length;
}

static void append_string(text *t, stw_str s) {
    append(t, "\"", 1);
    for (int64_t k = 0; k < s.length; k++) {
        char escaped[8];
        const unsigned char c = (unsigned char)s.p[k];
        if (c == '"' || c == '\\') append(t, "\\", 1);
        if (c < 0x20)
            append(t, escaped, snprintf(escaped, sizeof escaped, "\\u%04x", c));
        else
            append(t, s.p + k, 1);
    }
    append(t, "\"", 1);
}

static void append_int(text *t, int64_t value) {
    char number[24];
    append(t, number, snprintf(number, sizeof number, "%lld", (long long)value));
}

static void append_double(text *t, double value) {
    char number[32];
    if (isfinite(value))
        append(t, number, stw_format_double(number, value));
    else
        append(t, "null", 4);
}

enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_FLOATS = 6, TYPE_INTS = 7, MAX_LIST = 64, MAX_STRING = 200 };

static bool append_value(text *t, stw_pb_file *file, const stw_onnx_attribute *a) {
    int64_t whole[MAX_LIST] = {0};
    double real[MAX_LIST] = {0};
    const bool ints = a->type == TYPE_INTS;
    if (ints || a->type == TYPE_FLOATS) {
        const int64_t count = read_list(file, a, ints ? 8 : 7, ints ? whole : NULL, real, MAX_LIST);
        append(t, "[", 1);
        for (int64_t k = 0; k < count && k < MAX_LIST; k++) {
            if (k > 0) append(t, ",", 1);
            if (ints)
                append_int(t, whole[k]);
            else
                append_double(t, real[k]);
        }
        append(t, "]", 1);
    } else if (a->type == TYPE_INT) {
        append_int(t, a->i);
    } else if (a->type == TYPE_FLOAT) {
        append_double(t, a->f);
    } else {
        append_string(t, (stw_str){a->s.p, a->s.length < MAX_STRING ? a->s.length : MAX_STRING});
    }
    return !t->failed;
}

static bool is_shown(const stw_onnx_attribute *a) {
    const int64_t type = a->type;
    return type == TYPE_FLOAT || type == TYPE_INT || type == TYPE_STRING || type == TYPE_FLOATS || type == TYPE_INTS;
}

stw_str stw_onnx_attributes_json(const stw_onnx_eval *eval, const stw_onnx_node *node, stw_arena *arena) {
    stw_pb_file *file = &eval->reader->file;
    stw_pb m = stw_pb_range(file, node->bytes, node->depth);
    stw_arena aside = eval->reader->scratch;
    text t = {.data = STW_NEW_DIRTY(&aside, char, MAX_TEXT)};
    t.failed = t.data == NULL;
    stw_onnx_attribute a = {0};
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number != NODE_ATTRIBUTE || !read_attribute(&m, &f, &a) || !is_shown(&a)) continue;
        append(&t, t.length == 0 ? "{" : ",", 1);
        append_string(&t, (stw_str){a.name.p, a.name.length < MAX_STRING ? a.name.length : MAX_STRING});
        append(&t, ":", 1);
        append_value(&t, file, &a);
    }
    if (t.length == 0 || t.failed) return (stw_str){0};
    append(&t, "}", 1);
    return t.failed ? (stw_str){0} : stw_str_copy(arena, (stw_str){t.data, t.length});
}
