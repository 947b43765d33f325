/* GraphDef into memory: the model that the wanted fields fill. Tensors are never copied. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "import/import.h"
#include "import/tensorflow/graphdef.h"
#include "import/wire/pbfields.h"

/* ---- the fields that are wanted ---- */

/* The fields of a GraphDef that are wanted, by what they mean here; all others are passed over. */
typedef enum {
    FIELD_NODE,
    FIELD_NODE_NAME,
    FIELD_NODE_OP,
    FIELD_NODE_INPUT,
    FIELD_NODE_DEVICE,
    FIELD_ENTRY,
    FIELD_ENTRY_KEY,
    FIELD_VALUE,
    FIELD_LIST,
    FIELD_TEXT,
    FIELD_CALLED,
    FIELD_NUMBER,
    FIELD_SHAPE,
    FIELD_DIM,
    FIELD_DIM_SIZE,
    FIELD_UNKNOWN_RANK,
    FIELD_TENSOR,
    FIELD_TENSOR_TYPE,
    FIELD_TENSOR_SHAPE,
    FIELD_TENSOR_CONTENT,
    FIELD_TENSOR_VALUE,
    FIELD_LIST_TEXT,
    FIELD_LIST_CALLED,
    FIELD_LIST_NUMBER,
    FIELD_LIST_SHAPE,
    FIELD_FUNCTION,
    FIELD_FUNCTION_NAME,
    FIELD_FUNCTION_NODE,
    FIELD_INPUT_ARGUMENT,
    FIELD_OUTPUT_ARGUMENT,
    FIELD_ARGUMENT_NAME,
    FIELD_ARGUMENT_TYPE,
    FIELD_ARGUMENT_COUNT,
    FIELD_RETURN,
    FIELD_RETURN_OUTPUT,
    FIELD_RETURN_VALUE,
    FIELD_PASSED /* a message around wanted ones, or nothing */
} tf_field;

#define FIELDS(list) (list), (int32_t)(sizeof(list) / sizeof(list)[0])

static const stw_wanted_field dim_fields[] = {{1, "size", STW_WANTED_NUMBER, FIELD_DIM_SIZE, NULL, NULL, 0}};
static const stw_wanted dim_wanted = {"dim", FIELDS(dim_fields)};

static const stw_wanted_field shape_fields[] = {
    {2, "dim", STW_WANTED_MESSAGE, FIELD_DIM, &dim_wanted, NULL, 0},
    {3, "unknown_rank", STW_WANTED_NUMBER, FIELD_UNKNOWN_RANK, NULL, NULL, 0},
};
static const stw_wanted shape_wanted = {"shape", FIELDS(shape_fields)};

static const stw_wanted_field tensor_fields[] = {
    {1, "dtype", STW_WANTED_NUMBER, FIELD_TENSOR_TYPE, NULL, stw_tf_type_named, 0},
    {2, "tensor_shape", STW_WANTED_MESSAGE, FIELD_TENSOR_SHAPE, &shape_wanted, NULL, 0},
    {4, "tensor_content", STW_WANTED_TEXT, FIELD_TENSOR_CONTENT, NULL, NULL, 8 * STW_TF_MAX_VALUES + 8},
    {7, "int_val", STW_WANTED_NUMBER, FIELD_TENSOR_VALUE, NULL, NULL, 0},
    {10, "int64_val", STW_WANTED_NUMBER, FIELD_TENSOR_VALUE, NULL, NULL, 0},
};
static const stw_wanted tensor_wanted = {"tensor", FIELDS(tensor_fields)};

static const stw_wanted_field called_fields[] = {{1, "name", STW_WANTED_TEXT, FIELD_CALLED, NULL, NULL, 0}};
static const stw_wanted called_wanted = {"func", FIELDS(called_fields)};
static const stw_wanted_field called_list_fields[] = {{1, "name", STW_WANTED_TEXT, FIELD_LIST_CALLED, NULL, NULL, 0}};
static const stw_wanted called_list_wanted = {"func", FIELDS(called_list_fields)};

static const stw_wanted_field list_fields[] = {
    {2, "s", STW_WANTED_TEXT, FIELD_LIST_TEXT, NULL, NULL, 0},
    {3, "i", STW_WANTED_NUMBER, FIELD_LIST_NUMBER, NULL, NULL, 0},
    {5, "b", STW_WANTED_NUMBER, FIELD_LIST_NUMBER, NULL, NULL, 0},
    {6, "type", STW_WANTED_NUMBER, FIELD_LIST_NUMBER, NULL, stw_tf_type_named, 0},
    {7, "shape", STW_WANTED_MESSAGE, FIELD_LIST_SHAPE, &shape_wanted, NULL, 0},
    {9, "func", STW_WANTED_MESSAGE, FIELD_PASSED, &called_list_wanted, NULL, 0},
};
static const stw_wanted list_wanted = {"list", FIELDS(list_fields)};

static const stw_wanted_field value_fields[] = {
    {1, "list", STW_WANTED_MESSAGE, FIELD_LIST, &list_wanted, NULL, 0},
    {2, "s", STW_WANTED_TEXT, FIELD_TEXT, NULL, NULL, 0},
    {3, "i", STW_WANTED_NUMBER, FIELD_NUMBER, NULL, NULL, 0},
    {5, "b", STW_WANTED_NUMBER, FIELD_NUMBER, NULL, NULL, 0},
    {6, "type", STW_WANTED_NUMBER, FIELD_NUMBER, NULL, stw_tf_type_named, 0},
    {7, "shape", STW_WANTED_MESSAGE, FIELD_SHAPE, &shape_wanted, NULL, 0},
    {8, "tensor", STW_WANTED_MESSAGE, FIELD_TENSOR, &tensor_wanted, NULL, 0},
    {10, "func", STW_WANTED_MESSAGE, FIELD_PASSED, &called_wanted, NULL, 0},
};
static const stw_wanted value_wanted = {"value", FIELDS(value_fields)};

static const stw_wanted_field entry_fields[] = {
    {1, "key", STW_WANTED_TEXT, FIELD_ENTRY_KEY, NULL, NULL, 0},
    {2, "value", STW_WANTED_MESSAGE, FIELD_VALUE, &value_wanted, NULL, 0},
};
static const stw_wanted entry_wanted = {"attr", FIELDS(entry_fields)};

static const stw_wanted_field node_fields[] = {
    {1, "name", STW_WANTED_TEXT, FIELD_NODE_NAME, NULL, NULL, 0},
    {2, "op", STW_WANTED_TEXT, FIELD_NODE_OP, NULL, NULL, 0},
    {3, "input", STW_WANTED_TEXT, FIELD_NODE_INPUT, NULL, NULL, 0},
    {4, "device", STW_WANTED_TEXT, FIELD_NODE_DEVICE, NULL, NULL, 0},
    {5, "attr", STW_WANTED_MESSAGE, FIELD_ENTRY, &entry_wanted, NULL, 0},
};
static const stw_wanted node_wanted = {"node", FIELDS(node_fields)};

static const stw_wanted_field argument_fields[] = {
    {1, "name", STW_WANTED_TEXT, FIELD_ARGUMENT_NAME, NULL, NULL, 0},
    {3, "type", STW_WANTED_NUMBER, FIELD_ARGUMENT_TYPE, NULL, stw_tf_type_named, 0},
    {5, "number_attr", STW_WANTED_TEXT, FIELD_ARGUMENT_COUNT, NULL, NULL, 0},
    {6, "type_list_attr", STW_WANTED_TEXT, FIELD_ARGUMENT_COUNT, NULL, NULL, 0},
};
static const stw_wanted argument_wanted = {"argument", FIELDS(argument_fields)};

static const stw_wanted_field signature_fields[] = {
    {1, "name", STW_WANTED_TEXT, FIELD_FUNCTION_NAME, NULL, NULL, 0},
    {2, "input_arg", STW_WANTED_MESSAGE, FIELD_INPUT_ARGUMENT, &argument_wanted, NULL, 0},
    {3, "output_arg", STW_WANTED_MESSAGE, FIELD_OUTPUT_ARGUMENT, &argument_wanted, NULL, 0},
};
static const stw_wanted signature_wanted = {"signature", FIELDS(signature_fields)};

static const stw_wanted_field return_fields[] = {
    {1, "key", STW_WANTED_TEXT, FIELD_RETURN_OUTPUT, NULL, NULL, 0},
    {2, "value", STW_WANTED_TEXT, FIELD_RETURN_VALUE, NULL, NULL, 0},
};
static const stw_wanted return_wanted = {"ret", FIELDS(return_fields)};

static const stw_wanted_field function_fields[] = {
    {1, "signature", STW_WANTED_MESSAGE, FIELD_PASSED, &signature_wanted, NULL, 0},
    {3, "node_def", STW_WANTED_MESSAGE, FIELD_FUNCTION_NODE, &node_wanted, NULL, 0},
    {4, "ret", STW_WANTED_MESSAGE, FIELD_RETURN, &return_wanted, NULL, 0},
};
static const stw_wanted function_wanted = {"function", FIELDS(function_fields)};

static const stw_wanted_field library_fields[] = {{1, "function", STW_WANTED_MESSAGE, FIELD_FUNCTION, &function_wanted, NULL, 0}};
static const stw_wanted library_wanted = {"library", FIELDS(library_fields)};

static const stw_wanted nothing_wanted = {"message", NULL, 0};
static const stw_wanted_field graph_fields[] = {
    {1, "node", STW_WANTED_MESSAGE, FIELD_NODE, &node_wanted, NULL, 0},
    {2, "library", STW_WANTED_MESSAGE, FIELD_PASSED, &library_wanted, NULL, 0},
    {4, "versions", STW_WANTED_MESSAGE, FIELD_PASSED, &nothing_wanted, NULL, 0}, /* so that a text that begins with it is known */
};
static const stw_wanted graph_wanted = {"graph", FIELDS(graph_fields)};

/* ---- the model ---- */

/* GraphDef into memory: the model that the wanted fields fill. Tensors are never copied. */

typedef struct { /* where the stream of fields stands */
    stw_tf_model *model;
    stw_tf_node *node;          /* that is open, the last of its list */
    stw_tf_attribute attribute; /* of the entry that is open */
    stw_tf_model mark;          /* lengths of the lists when it began, to forget what nobody wants */
    stw_tf_shape shape;
    stw_str content;
} collector;

#define PUSH(model, list, item) STW_PUSH((model)->arena, (model), list, (item), error)

/* About the node that is being read. */
static STW_PRINTF(3, 4) stw_status node_fail(const collector *c, stw_error *error, const char *format, ...) {
    char what[200], place[STW_POSITION_SIZE];
    const stw_tf_model *m = c->model;
    const stw_tf_node *n = c->node;
    const bool within = m->inner_count > 0 && n == &m->inner[m->inner_count - 1]; /* nodes count within their function */
    const int64_t index = within ? m->inner_count - m->function[m->function_count - 1].nodes.start : m->node_count;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    stw_show_position(m->source, n->at, place);
    return stw_fail(error, STW_ERROR_INPUT, "%s: node %lld '%.*s' (%.*s): %s", place, (long long)index - 1, STW_STR_SHOW(n->name),
                    STW_STR_SHOW(n->op), what);
}

static stw_status begin_node(collector *c, bool is_inner, int64_t at, stw_error *error) {
    stw_tf_model *m = c->model;
    const stw_tf_node node = {.at = at, .inputs = {m->input_count, 0}, .attributes = {m->attribute_count, 0}};
    if (m->node_count + m->inner_count >= INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "more than %d nodes", INT32_MAX);
    if (is_inner) {
        PUSH(m, inner, node);
        m->function[m->function_count - 1].nodes.count++;
        c->node = &m->inner[m->inner_count - 1];
    } else {
        PUSH(m, node, node);
        c->node = &m->node[m->node_count - 1];
    }
    return STW_OK;
}

static stw_status begin_argument(stw_tf_model *m, bool is_output, stw_error *error) {
    PUSH(m, argument, ((stw_tf_argument){.is_output = is_output}));
    m->function[m->function_count - 1].arguments.count++;
    return STW_OK;
}

static stw_status begin(void *context, int32_t id, int64_t at, stw_error *error) {
    collector *c = context;
    stw_tf_model *m = c->model;
    switch (id) {
        case FIELD_NODE: return begin_node(c, false, at, error);
        case FIELD_FUNCTION_NODE: return begin_node(c, true, at, error);
        case FIELD_FUNCTION:
            PUSH(m, function,
                 ((stw_tf_function){.at = at,
                                    .nodes = {m->inner_count, 0},
                                    .arguments = {m->argument_count, 0},
                                    .returns = {m->returned_count, 0}}));
            break;
        case FIELD_INPUT_ARGUMENT:
        case FIELD_OUTPUT_ARGUMENT: return begin_argument(m, id == FIELD_OUTPUT_ARGUMENT, error);
        case FIELD_RETURN:
            PUSH(m, returned, ((stw_tf_return){0}));
            m->function[m->function_count - 1].returns.count++;
            break;
        case FIELD_ENTRY:
            c->mark = *m;
            c->attribute = (stw_tf_attribute){.key = STW_TF_KEY_COUNT, .shape = {0, -1}};
            break;
        case FIELD_LIST:
            c->attribute.numbers = (stw_tf_range){m->number_count, 0};
            c->attribute.texts = (stw_tf_range){m->text_count, 0};
            c->attribute.shapes = (stw_tf_range){m->shape_count, 0};
            break;
        case FIELD_TENSOR:
            c->attribute.is_tensor = true;
            c->attribute.numbers = (stw_tf_range){m->number_count, 0};
            c->attribute.shape = (stw_tf_shape){0, 0};
            c->content = (stw_str){0};
            break;
        case FIELD_SHAPE:
        case FIELD_TENSOR_SHAPE:
        case FIELD_LIST_SHAPE: c->shape = (stw_tf_shape){m->dim_count, 0}; break;
        case FIELD_DIM:
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
    while (a->numbers.count < elements) { /* without any they are 0 */
        const int64_t last = a->numbers.count > 0 ? m->number[m->number_count - 1] : 0;
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
            return node_fail(c, error, "a size in its attribute '%s' is %lld; write -1 where it is open",
                             stw_tf_key_name(c->attribute.key), (long long)m->dim[d]);
    }
    return STW_OK;
}

static stw_status finish_entry(collector *c, stw_error *error) {
    stw_tf_model *m = c->model;
    if (c->attribute.key < STW_TF_KEY_COUNT) {
        TRY(check_sizes(c, error));
        stw_tf_range *list = &c->node->attributes;
        for (int64_t i = 0; i < list->count; i++) { /* a map: the last of a name counts */
            stw_tf_attribute *earlier = &m->attribute[list->start + i];
            if (earlier->key != c->attribute.key) continue;
            *earlier = c->attribute;
            return STW_OK;
        }
        PUSH(m, attribute, c->attribute);
        list->count++;
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
        case FIELD_NODE: /* of functions those that are run are looked at */
            if (c->node->name.length > 0 && c->node->op.length > 0) return STW_OK;
            return node_fail(c, error, "it has no %s; give it one", c->node->name.length == 0 ? "name" : "op");
        case FIELD_ENTRY: return finish_entry(c, error);
        case FIELD_TENSOR: return finish_tensor(c, error);
        case FIELD_SHAPE:
        case FIELD_TENSOR_SHAPE: c->attribute.shape = c->shape; break;
        case FIELD_LIST_SHAPE:
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
        case FIELD_NUMBER:
        case FIELD_TENSOR_TYPE: c->attribute.number = value; break;
        case FIELD_ARGUMENT_TYPE: m->argument[m->argument_count - 1].type = value; break;
        case FIELD_DIM_SIZE: m->dim[m->dim_count - 1] = value; break;
        case FIELD_UNKNOWN_RANK:
            if (value != 0) c->shape.rank = -1;
            break;
        case FIELD_TENSOR_VALUE:
            if (c->attribute.numbers.count == STW_TF_MAX_VALUES) break;
            PUSH(m, number, value);
            c->attribute.numbers.count++;
            break;
        case FIELD_LIST_NUMBER:
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

/* Of a function, beside its nodes. */
static stw_status function_text(stw_tf_model *m, int32_t id, stw_str value, stw_error *error) {
    char place[STW_POSITION_SIZE];
    stw_tf_function *f = &m->function[m->function_count - 1];
    stw_show_position(m->source, f->at, place);
    if (!is_clean(value))
        return stw_fail(error, STW_ERROR_INPUT, "%s: a name in a function is not UTF-8 text; the file is damaged", place);
    switch (id) {
        case FIELD_FUNCTION_NAME: f->name = value; break;
        case FIELD_ARGUMENT_NAME: m->argument[m->argument_count - 1].name = value; break;
        case FIELD_ARGUMENT_COUNT: m->argument[m->argument_count - 1].is_list |= value.length > 0; break;
        case FIELD_RETURN_OUTPUT: m->returned[m->returned_count - 1].output = value; break;
        default: m->returned[m->returned_count - 1].value = value; break;
    }
    return STW_OK;
}

static stw_status text(void *context, int32_t id, stw_str value, stw_error *error) {
    collector *c = context;
    stw_tf_model *m = c->model;
    stw_tf_node *n = c->node;
    const bool is_name = (id >= FIELD_NODE_NAME && id <= FIELD_NODE_DEVICE) || id == FIELD_CALLED || id == FIELD_LIST_CALLED;
    if (is_name && !is_clean(value)) {
        return node_fail(c, error, "a name is not UTF-8 text; the file is damaged");
    }
    switch (id) {
        case FIELD_NODE_NAME: n->name = value; break;
        case FIELD_NODE_OP: n->op = value; break;
        case FIELD_NODE_DEVICE: n->device = value; break;
        case FIELD_NODE_INPUT:
            PUSH(m, input, value);
            n->inputs.count++;
            break;
        case FIELD_FUNCTION_NAME:
        case FIELD_ARGUMENT_NAME:
        case FIELD_ARGUMENT_COUNT:
        case FIELD_RETURN_OUTPUT:
        case FIELD_RETURN_VALUE: return function_text(m, id, value, error);
        case FIELD_ENTRY_KEY: c->attribute.key = stw_tf_key_named(value); break;
        case FIELD_TEXT:
        case FIELD_CALLED: c->attribute.text = value; break;
        case FIELD_TENSOR_CONTENT: c->content = value; break;
        case FIELD_LIST_TEXT:
        case FIELD_LIST_CALLED:
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
