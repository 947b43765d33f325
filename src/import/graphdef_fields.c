/* The fields of a GraphDef that are wanted; all others are passed over. */
#include "import/graphdef_fields.h"

#define FIELDS(list) (list), (int32_t)(sizeof(list) / sizeof(list)[0])

static const stw_wanted_field dim_fields[] = {{1, "size", STW_WANTED_NUMBER, STW_TF_FIELD_DIM_SIZE, NULL, NULL, 0}};
static const stw_wanted dim_wanted = {"dim", FIELDS(dim_fields)};

static const stw_wanted_field shape_fields[] = {
    {2, "dim", STW_WANTED_MESSAGE, STW_TF_FIELD_DIM, &dim_wanted, NULL, 0},
    {3, "unknown_rank", STW_WANTED_NUMBER, STW_TF_FIELD_UNKNOWN_RANK, NULL, NULL, 0},
};
static const stw_wanted shape_wanted = {"shape", FIELDS(shape_fields)};

static const stw_wanted_field tensor_fields[] = {
    {1, "dtype", STW_WANTED_NUMBER, STW_TF_FIELD_TENSOR_TYPE, NULL, stw_tf_type_named, 0},
    {2, "tensor_shape", STW_WANTED_MESSAGE, STW_TF_FIELD_TENSOR_SHAPE, &shape_wanted, NULL, 0},
    {4, "tensor_content", STW_WANTED_TEXT, STW_TF_FIELD_TENSOR_CONTENT, NULL, NULL, 8 * STW_TF_MAX_VALUES + 8},
    {7, "int_val", STW_WANTED_NUMBER, STW_TF_FIELD_TENSOR_VALUE, NULL, NULL, 0},
    {10, "int64_val", STW_WANTED_NUMBER, STW_TF_FIELD_TENSOR_VALUE, NULL, NULL, 0},
};
static const stw_wanted tensor_wanted = {"tensor", FIELDS(tensor_fields)};

static const stw_wanted_field called_fields[] = {{1, "name", STW_WANTED_TEXT, STW_TF_FIELD_CALLED, NULL, NULL, 0}};
static const stw_wanted called_wanted = {"func", FIELDS(called_fields)};
static const stw_wanted_field called_list_fields[] = {{1, "name", STW_WANTED_TEXT, STW_TF_FIELD_LIST_CALLED, NULL, NULL, 0}};
static const stw_wanted called_list_wanted = {"func", FIELDS(called_list_fields)};

static const stw_wanted_field list_fields[] = {
    {2, "s", STW_WANTED_TEXT, STW_TF_FIELD_LIST_TEXT, NULL, NULL, 0},
    {3, "i", STW_WANTED_NUMBER, STW_TF_FIELD_LIST_NUMBER, NULL, NULL, 0},
    {5, "b", STW_WANTED_NUMBER, STW_TF_FIELD_LIST_NUMBER, NULL, NULL, 0},
    {6, "type", STW_WANTED_NUMBER, STW_TF_FIELD_LIST_NUMBER, NULL, stw_tf_type_named, 0},
    {7, "shape", STW_WANTED_MESSAGE, STW_TF_FIELD_LIST_SHAPE, &shape_wanted, NULL, 0},
    {9, "func", STW_WANTED_MESSAGE, STW_TF_FIELD_PASSED, &called_list_wanted, NULL, 0},
};
static const stw_wanted list_wanted = {"list", FIELDS(list_fields)};

static const stw_wanted_field value_fields[] = {
    {1, "list", STW_WANTED_MESSAGE, STW_TF_FIELD_LIST, &list_wanted, NULL, 0},
    {2, "s", STW_WANTED_TEXT, STW_TF_FIELD_TEXT, NULL, NULL, 0},
    {3, "i", STW_WANTED_NUMBER, STW_TF_FIELD_NUMBER, NULL, NULL, 0},
    {5, "b", STW_WANTED_NUMBER, STW_TF_FIELD_NUMBER, NULL, NULL, 0},
    {6, "type", STW_WANTED_NUMBER, STW_TF_FIELD_NUMBER, NULL, stw_tf_type_named, 0},
    {7, "shape", STW_WANTED_MESSAGE, STW_TF_FIELD_SHAPE, &shape_wanted, NULL, 0},
    {8, "tensor", STW_WANTED_MESSAGE, STW_TF_FIELD_TENSOR, &tensor_wanted, NULL, 0},
    {10, "func", STW_WANTED_MESSAGE, STW_TF_FIELD_PASSED, &called_wanted, NULL, 0},
};
static const stw_wanted value_wanted = {"value", FIELDS(value_fields)};

static const stw_wanted_field entry_fields[] = {
    {1, "key", STW_WANTED_TEXT, STW_TF_FIELD_ENTRY_KEY, NULL, NULL, 0},
    {2, "value", STW_WANTED_MESSAGE, STW_TF_FIELD_VALUE, &value_wanted, NULL, 0},
};
static const stw_wanted entry_wanted = {"attr", FIELDS(entry_fields)};

static const stw_wanted_field node_fields[] = {
    {1, "name", STW_WANTED_TEXT, STW_TF_FIELD_NODE_NAME, NULL, NULL, 0},
    {2, "op", STW_WANTED_TEXT, STW_TF_FIELD_NODE_OP, NULL, NULL, 0},
    {3, "input", STW_WANTED_TEXT, STW_TF_FIELD_NODE_INPUT, NULL, NULL, 0},
    {4, "device", STW_WANTED_TEXT, STW_TF_FIELD_NODE_DEVICE, NULL, NULL, 0},
    {5, "attr", STW_WANTED_MESSAGE, STW_TF_FIELD_ENTRY, &entry_wanted, NULL, 0},
};
static const stw_wanted node_wanted = {"node", FIELDS(node_fields)};

static const stw_wanted_field argument_fields[] = {
    {1, "name", STW_WANTED_TEXT, STW_TF_FIELD_ARGUMENT_NAME, NULL, NULL, 0},
    {3, "type", STW_WANTED_NUMBER, STW_TF_FIELD_ARGUMENT_TYPE, NULL, stw_tf_type_named, 0},
    {5, "number_attr", STW_WANTED_TEXT, STW_TF_FIELD_ARGUMENT_COUNT, NULL, NULL, 0},
    {6, "type_list_attr", STW_WANTED_TEXT, STW_TF_FIELD_ARGUMENT_COUNT, NULL, NULL, 0},
};
static const stw_wanted argument_wanted = {"argument", FIELDS(argument_fields)};

static const stw_wanted_field signature_fields[] = {
    {1, "name", STW_WANTED_TEXT, STW_TF_FIELD_FUNCTION_NAME, NULL, NULL, 0},
    {2, "input_arg", STW_WANTED_MESSAGE, STW_TF_FIELD_INPUT_ARGUMENT, &argument_wanted, NULL, 0},
    {3, "output_arg", STW_WANTED_MESSAGE, STW_TF_FIELD_OUTPUT_ARGUMENT, &argument_wanted, NULL, 0},
};
static const stw_wanted signature_wanted = {"signature", FIELDS(signature_fields)};

static const stw_wanted_field return_fields[] = {
    {1, "key", STW_WANTED_TEXT, STW_TF_FIELD_RETURN_OUTPUT, NULL, NULL, 0},
    {2, "value", STW_WANTED_TEXT, STW_TF_FIELD_RETURN_VALUE, NULL, NULL, 0},
};
static const stw_wanted return_wanted = {"ret", FIELDS(return_fields)};

static const stw_wanted_field function_fields[] = {
    {1, "signature", STW_WANTED_MESSAGE, STW_TF_FIELD_PASSED, &signature_wanted, NULL, 0},
    {3, "node_def", STW_WANTED_MESSAGE, STW_TF_FIELD_FUNCTION_NODE, &node_wanted, NULL, 0},
    {4, "ret", STW_WANTED_MESSAGE, STW_TF_FIELD_RETURN, &return_wanted, NULL, 0},
};
static const stw_wanted function_wanted = {"function", FIELDS(function_fields)};

static const stw_wanted_field library_fields[] = {
    {1, "function", STW_WANTED_MESSAGE, STW_TF_FIELD_FUNCTION, &function_wanted, NULL, 0}};
static const stw_wanted library_wanted = {"library", FIELDS(library_fields)};

static const stw_wanted nothing_wanted = {"message", NULL, 0};
static const stw_wanted_field graph_fields[] = {
    {1, "node", STW_WANTED_MESSAGE, STW_TF_FIELD_NODE, &node_wanted, NULL, 0},
    {2, "library", STW_WANTED_MESSAGE, STW_TF_FIELD_PASSED, &library_wanted, NULL, 0},
    {4, "versions", STW_WANTED_MESSAGE, STW_TF_FIELD_PASSED, &nothing_wanted, NULL,
     0}, /* so that a text that begins with it is known */
};
const stw_wanted stw_tf_graph_wanted = {"graph", FIELDS(graph_fields)};
