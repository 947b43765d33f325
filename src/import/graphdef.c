/* GraphDef into memory: the fields that are wanted, and the model that they fill. Tensors are never copied. */
#include "import/graphdef.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import/import.h"
#include "import/pbfields.h"
#include "import/place.h"

enum { /* fields by what they mean here */
       NODE,
       NODE_NAME,
       NODE_OP,
       NODE_INPUT,
       NODE_DEVICE,
       ENTRY,
       ENTRY_KEY,
       VALUE,
       LIST,
       TEXT,
       NUMBER,
       SHAPE,
       DIM,
       DIM_SIZE,
       UNKNOWN_RANK,
       TENSOR,
       TENSOR_TYPE,
       TENSOR_SHAPE,
       TENSOR_CONTENT,
       TENSOR_VALUE,
       LIST_TEXT,
       LIST_NUMBER,
       LIST_SHAPE,
       IGNORED
};

#define FIELDS(list) (list), (int32_t)(sizeof(list) / sizeof(list)[0])

static const stw_wanted_field dim_fields[] = {{1, "size", STW_WANTED_NUMBER, DIM_SIZE, NULL, NULL, 0}};
static const stw_wanted dim_wanted = {"dim", FIELDS(dim_fields)};

static const stw_wanted_field shape_fields[] = {
    {2, "dim", STW_WANTED_MESSAGE, DIM, &dim_wanted, NULL, 0},
    {3, "unknown_rank", STW_WANTED_NUMBER, UNKNOWN_RANK, NULL, NULL, 0},
};
static const stw_wanted shape_wanted = {"shape", FIELDS(shape_fields)};

static const stw_wanted_field tensor_fields[] = {
    {1, "dtype", STW_WANTED_NUMBER, TENSOR_TYPE, NULL, stw_tf_type_named, 0},
    {2, "tensor_shape", STW_WANTED_MESSAGE, TENSOR_SHAPE, &shape_wanted, NULL, 0},
    {4, "tensor_content", STW_WANTED_TEXT, TENSOR_CONTENT, NULL, NULL, 8 * STW_TF_MAX_VALUES + 8},
    {7, "int_val", STW_WANTED_NUMBER, TENSOR_VALUE, NULL, NULL, 0},
    {10, "int64_val", STW_WANTED_NUMBER, TENSOR_VALUE, NULL, NULL, 0},
};
static const stw_wanted tensor_wanted = {"tensor", FIELDS(tensor_fields)};

static const stw_wanted_field list_fields[] = {
    {2, "s", STW_WANTED_TEXT, LIST_TEXT, NULL, NULL, 0},
    {3, "i", STW_WANTED_NUMBER, LIST_NUMBER, NULL, NULL, 0},
    {5, "b", STW_WANTED_NUMBER, LIST_NUMBER, NULL, NULL, 0},
    {6, "type", STW_WANTED_NUMBER, LIST_NUMBER, NULL, stw_tf_type_named, 0},
    {7, "shape", STW_WANTED_MESSAGE, LIST_SHAPE, &shape_wanted, NULL, 0},
};
static const stw_wanted list_wanted = {"list", FIELDS(list_fields)};

static const stw_wanted_field value_fields[] = {
    {1, "list", STW_WANTED_MESSAGE, LIST, &list_wanted, NULL, 0},
    {2, "s", STW_WANTED_TEXT, TEXT, NULL, NULL, 0},
    {3, "i", STW_WANTED_NUMBER, NUMBER, NULL, NULL, 0},
    {5, "b", STW_WANTED_NUMBER, NUMBER, NULL, NULL, 0},
    {6, "type", STW_WANTED_NUMBER, NUMBER, NULL, stw_tf_type_named, 0},
    {7, "shape", STW_WANTED_MESSAGE, SHAPE, &shape_wanted, NULL, 0},
    {8, "tensor", STW_WANTED_MESSAGE, TENSOR, &tensor_wanted, NULL, 0},
};
static const stw_wanted value_wanted = {"value", FIELDS(value_fields)};

static const stw_wanted_field entry_fields[] = {
    {1, "key", STW_WANTED_TEXT, ENTRY_KEY, NULL, NULL, 0},
    {2, "value", STW_WANTED_MESSAGE, VALUE, &value_wanted, NULL, 0},
};
static const stw_wanted entry_wanted = {"attr", FIELDS(entry_fields)};

static const stw_wanted_field node_fields[] = {
    {1, "name", STW_WANTED_TEXT, NODE_NAME, NULL, NULL, 0},         {2, "op", STW_WANTED_TEXT, NODE_OP, NULL, NULL, 0},
    {3, "input", STW_WANTED_TEXT, NODE_INPUT, NULL, NULL, 0},       {4, "device", STW_WANTED_TEXT, NODE_DEVICE, NULL, NULL, 0},
    {5, "attr", STW_WANTED_MESSAGE, ENTRY, &entry_wanted, NULL, 0},
};
static const stw_wanted node_wanted = {"node", FIELDS(node_fields)};

static const stw_wanted nothing_wanted = {"message", NULL, 0};
static const stw_wanted_field graph_fields[] = {
    {1, "node", STW_WANTED_MESSAGE, NODE, &node_wanted, NULL, 0},
    /* A call of a function is one op; the library is there so that a text that begins with it is known. */
    {2, "library", STW_WANTED_MESSAGE, IGNORED, &nothing_wanted, NULL, 0},
    {4, "versions", STW_WANTED_MESSAGE, IGNORED, &nothing_wanted, NULL, 0},
};
static const stw_wanted graph_wanted = {"graph", FIELDS(graph_fields)};

typedef struct { /* where the stream of fields stands */
    stw_tf_model *model;
    stw_tf_attribute attribute; /* of the entry that is open */
    stw_tf_model mark;          /* lengths of the lists when it began, to forget what nobody wants */
    stw_tf_shape shape;
    stw_str content;
} collector;

stw_status stw_tf_grow(stw_arena *arena, void *list, int64_t count, int64_t *room, size_t size, stw_error *error) {
    if (count < *room) return STW_OK;
    const int64_t more = 2 * *room + 64;
    void *old = NULL;
    memcpy(&old, list, sizeof old);
    void *grown = stw_arena_alloc(arena, size, _Alignof(max_align_t), more);
    if (grown == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory (%lld items of %zu bytes)", (long long)more, size);
    if (count > 0) memcpy(grown, old, (size_t)count * size);
    memcpy(list, &grown, sizeof grown);
    *room = more;
    return STW_OK;
}

#define PUSH(model, list, item)                                                                                              \
    do {                                                                                                                     \
        TRY(stw_tf_grow((model)->arena, &(model)->list, (model)->list##_count, &(model)->list##_room, sizeof *(model)->list, \
                        error));                                                                                             \
        (model)->list[(model)->list##_count++] = (item);                                                                     \
    } while (0)

/* About the last node, which is being read. */
static STW_PRINTF(3, 4) stw_status node_fail(const stw_tf_model *m, stw_error *error, const char *format, ...) {
    char what[200], place[STW_PLACE_SIZE];
    const stw_tf_node *n = &m->node[m->node_count - 1];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    stw_place(m->source, n->at, place);
    return stw_fail(error, STW_ERROR_INPUT, "%s: node %lld '%.*s' (%.*s): %s", place, (long long)m->node_count - 1,
                    STW_STR_SHOW(n->name), STW_STR_SHOW(n->op), what);
}

static stw_status begin(void *context, int32_t id, int64_t at, stw_error *error) {
    collector *c = context;
    stw_tf_model *m = c->model;
    switch (id) {
        case NODE:
            if (m->node_count == INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "more than %d nodes", INT32_MAX);
            PUSH(m, node, ((stw_tf_node){.at = at, .inputs = {m->input_count, 0}, .attributes = {m->attribute_count, 0}}));
            break;
        case ENTRY:
            c->mark = *m;
            c->attribute = (stw_tf_attribute){.key = STW_TF_KEY_COUNT, .shape = {0, -1}};
            break;
        case LIST:
            c->attribute.numbers = (stw_tf_range){m->number_count, 0};
            c->attribute.texts = (stw_tf_range){m->text_count, 0};
            c->attribute.shapes = (stw_tf_range){m->shape_count, 0};
            break;
        case TENSOR:
            c->attribute.is_tensor = true;
            c->attribute.numbers = (stw_tf_range){m->number_count, 0};
            c->attribute.shape = (stw_tf_shape){0, 0};
            c->content = (stw_str){0};
            break;
        case SHAPE:
        case TENSOR_SHAPE:
        case LIST_SHAPE: c->shape = (stw_tf_shape){m->dim_count, 0}; break;
        case DIM:
            PUSH(m, dim, 0);
            if (c->shape.rank >= 0) c->shape.rank++;
            break;
        default: break;
    }
    return STW_OK;
}

/* The first values of a small integer tensor, from its bytes (little-endian) or, if values are left out, from the last one. */
static stw_status finish_tensor(collector *c, stw_error *error) {
    stw_tf_model *m = c->model;
    stw_tf_attribute *a = &c->attribute;
    const int32_t dtype = stw_tf_dtype(a->number);
    const char *name = dtype > 0 ? stw_dtype_name(dtype) : "";
    const int64_t size = strcmp(name, "s32") == 0 ? 4 : strcmp(name, "s64") == 0 ? 8 : 0;
    if (size == 0) {
        a->numbers.count = 0;
        return STW_OK;
    }
    int64_t elements = 1;
    for (int32_t d = 0; d < a->shape.rank; d++) {
        const int64_t extent = m->dim[a->shape.start + d];
        if (extent < 0 || extent > STW_TF_MAX_VALUES || elements * extent > STW_TF_MAX_VALUES) {
            a->numbers.count = 0; /* data, not a shape */
            return STW_OK;
        }
        elements *= extent;
    }
    for (int64_t i = 0; i < elements && a->numbers.count < elements && c->content.length > 0; i++) {
        uint64_t bits = 0;
        if ((i + 1) * size > c->content.length) break;
        for (int64_t k = size - 1; k >= 0; k--) bits = bits << 8 | (unsigned char)c->content.p[i * size + k];
        PUSH(m, number, size == 4 ? (int64_t)(int32_t)(uint32_t)bits : (int64_t)bits);
        a->numbers.count++;
    }
    while (a->numbers.count > 0 && a->numbers.count < elements) {
        const int64_t last = m->number[m->number_count - 1];
        PUSH(m, number, last);
        a->numbers.count++;
    }
    if (a->numbers.count > elements) a->numbers.count = elements;
    return STW_OK;
}

/* Sizes are 0 or more, and -1 where they are open. */
static stw_status check_sizes(const collector *c, stw_error *error) {
    const stw_tf_model *m = c->model;
    for (int64_t d = c->mark.dim_count; d < m->dim_count; d++) {
        if (m->dim[d] < -1)
            return node_fail(m, error, "a size in its attribute '%s' is %lld; write -1 where it is open",
                             stw_tf_key_name(c->attribute.key), (long long)m->dim[d]);
    }
    return STW_OK;
}

static stw_status finish_entry(collector *c, stw_error *error) {
    stw_tf_model *m = c->model;
    if (c->attribute.key < STW_TF_KEY_COUNT) {
        TRY(check_sizes(c, error));
        stw_tf_range *list = &m->node[m->node_count - 1].attributes;
        for (int64_t i = 0; i < list->count; i++) { /* a map: the last of a name counts */
            stw_tf_attribute *earlier = &m->attribute[list->start + i];
            if (earlier->key != c->attribute.key) continue;
            *earlier = c->attribute;
            return STW_OK;
        }
        PUSH(m, attribute, c->attribute);
        m->node[m->node_count - 1].attributes.count++;
        return STW_OK;
    }
    m->text_count = c->mark.text_count;
    m->number_count = c->mark.number_count;
    m->shape_count = c->mark.shape_count;
    m->dim_count = c->mark.dim_count;
    return STW_OK;
}

static stw_status end(void *context, int32_t id, stw_error *error) {
    collector *c = context;
    stw_tf_model *m = c->model;
    switch (id) {
        case NODE: {
            stw_tf_node *n = &m->node[m->node_count - 1];
            if (n->name.length > 0 && n->op.length > 0) return STW_OK;
            const bool unnamed = n->name.length == 0;
            return node_fail(m, error, "it has no %s; give it one", unnamed ? "name" : "op");
        }
        case ENTRY: return finish_entry(c, error);
        case TENSOR: return finish_tensor(c, error);
        case SHAPE:
        case TENSOR_SHAPE: c->attribute.shape = c->shape; break;
        case LIST_SHAPE:
            PUSH(m, shape, c->shape);
            c->attribute.shapes.count++;
            break;
        default: break;
    }
    return STW_OK;
}

static stw_status number(void *context, int32_t id, int64_t value, stw_error *error) {
    collector *c = context;
    stw_tf_model *m = c->model;
    switch (id) {
        case NUMBER:
        case TENSOR_TYPE: c->attribute.number = value; break;
        case DIM_SIZE: m->dim[m->dim_count - 1] = value; break;
        case UNKNOWN_RANK:
            if (value != 0) c->shape.rank = -1;
            break;
        case TENSOR_VALUE:
            if (c->attribute.numbers.count == STW_TF_MAX_VALUES) break;
            PUSH(m, number, value);
            c->attribute.numbers.count++;
            break;
        case LIST_NUMBER:
            PUSH(m, number, value);
            c->attribute.numbers.count++;
            break;
        default: break;
    }
    return STW_OK;
}

/* Names go into messages and files: whole UTF-8 characters without control characters. */
static bool is_clean(stw_str text) {
    for (int64_t i = 0; i < text.length;) {
        const int length = stw_utf8_length(text.p + i, text.p + text.length);
        if (length == 0 || (unsigned char)text.p[i] < 0x20 || text.p[i] == 0x7f) return false;
        i += length;
    }
    return true;
}

static stw_status text(void *context, int32_t id, stw_str value, stw_error *error) {
    collector *c = context;
    stw_tf_model *m = c->model;
    stw_tf_node *n = m->node_count > 0 ? &m->node[m->node_count - 1] : NULL;
    if (id >= NODE_NAME && id <= NODE_DEVICE && !is_clean(value)) {
        return node_fail(m, error, "a name is not UTF-8 text; the file is damaged");
    }
    switch (id) {
        case NODE_NAME: n->name = value; break;
        case NODE_OP: n->op = value; break;
        case NODE_DEVICE: n->device = value; break;
        case NODE_INPUT:
            PUSH(m, input, value);
            n->inputs.count++;
            break;
        case ENTRY_KEY: c->attribute.key = stw_tf_key_named(value); break;
        case TEXT: c->attribute.text = value; break;
        case TENSOR_CONTENT: c->content = value; break;
        case LIST_TEXT:
            PUSH(m, text, value);
            c->attribute.texts.count++;
            break;
        default: break;
    }
    return STW_OK;
}

stw_status stw_tf_read_wire(stw_str bytes, stw_tf_model *model, stw_error *error) {
    collector c = {.model = model};
    const stw_field_receiver receiver = {&c, begin, end, number, text};
    return stw_fields_of_bytes(bytes, &graph_wanted, &receiver, error);
}

stw_status stw_tf_read_text(stw_str source, stw_tf_model *model, stw_error *error) {
    collector c = {.model = model};
    const stw_field_receiver receiver = {&c, begin, end, number, text};
    model->source = source;
    return stw_fields_of_text(source, &graph_wanted, &receiver, model->arena, error);
}

bool stw_pbtxt_is(stw_str source) { return stw_fields_text_begins(source, &graph_wanted); }
