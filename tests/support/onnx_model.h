/* Small ONNX models for tests, written field by field. Lists of names are separated by spaces; "-" is an empty name. */
#ifndef STW_TEST_ONNX_MODEL_H
#define STW_TEST_ONNX_MODEL_H

#include "import/wire/pbwire.h"

enum { ONNX_FLOAT = 1, ONNX_INT64 = 7, ONNX_BOOL = 9 };

/* An int64 attribute list, as "pads=0,0,1,1"; a single number becomes an int; of letters a string. */
void onnx_attribute(stw_pb_writer *w, const char *text);
/* NodeProto in field `number`; attributes separated by spaces, "" for none. */
void onnx_node(stw_pb_writer *w, int64_t number, const char *op, const char *inputs, const char *outputs, const char *attributes);
/* The same with more fields of the node (a body): what `more` holds is appended to it. */
void onnx_node_with(stw_pb_writer *w, int64_t number, const char *op, const char *inputs, const char *outputs, stw_str more);
/* ValueInfoProto in field `number` of a graph: 11 input, 12 output, 13 in between; shape "1,3,n" (letters: open) or NULL. */
void onnx_value(stw_pb_writer *w, int64_t number, const char *name, int64_t dtype, const char *shape);
/* TensorProto in field `number`: float without data, or int64 with its numbers. */
void onnx_weights(stw_pb_writer *w, int64_t number, const char *name, const char *shape);
void onnx_numbers(stw_pb_writer *w, int64_t number, const char *name, const int64_t *value, int64_t count);
/* ModelProto around a graph: its fields, and fields of the model (functions). */
stw_str onnx_model(stw_arena *arena, stw_str graph, stw_str functions);

#endif
