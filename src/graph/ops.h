/* The operator table: every operator name of PyTorch aten, HLO, ONNX and TensorFlow, and its class. The table itself is
 * ops.def; to add an operator, add a row there and nowhere else. */
#ifndef STW_GRAPH_OPS_H
#define STW_GRAPH_OPS_H

#include "base/str.h"

typedef enum stw_op_class {
    STW_CLASS_MATMUL,
    STW_CLASS_CONVOLUTION,
    STW_CLASS_ATTENTION,
    STW_CLASS_NORMALIZATION,
    STW_CLASS_POOLING,
    STW_CLASS_RECURRENT,
    STW_CLASS_ELEMENTWISE,
    STW_CLASS_BROADCAST,
    STW_CLASS_REDUCE,
    STW_CLASS_SHAPE,
    STW_CLASS_ALIAS, /* moves no data */
    STW_CLASS_GATHER,
    STW_CLASS_SCATTER,
    STW_CLASS_RANDOM,
    STW_CLASS_SORT,
    STW_CLASS_COLLECTIVE,
    STW_CLASS_CONTROL,
    STW_CLASS_OPAQUE, /* also what unknown operators get */
    STW_CLASS_COUNT
} stw_op_class;

typedef enum stw_vocabulary { STW_ATEN, STW_HLO, STW_ONNX, STW_TENSORFLOW, STW_VOCABULARY_COUNT } stw_vocabulary;

typedef struct stw_op_info {
    const char *name; /* canonical */
    stw_op_class op_class;
    const char *names[STW_VOCABULARY_COUNT]; /* separated by spaces */
} stw_op_info;

/* The rows of ops.def. */
extern const stw_op_info stw_op_table[];
extern const int32_t stw_op_count;

const char *stw_op_class_name(stw_op_class op_class); /* "matmul", ..., as in machine files */
bool stw_op_class_find(stw_str name, stw_op_class *out);
/* Element-wise, broadcast, reduce, shape and alias ops may join any group. */
bool stw_op_class_fuses(stw_op_class op_class);

/* Looks names up: built once per reader, since the table is long. */
typedef struct stw_op_index stw_op_index;
stw_status stw_op_index_create(stw_arena *arena, stw_op_index **out, stw_error *error);
/* The row of a name, or -1. An aten overload suffix (".Tensor") is ignored. */
int32_t stw_op_find(const stw_op_index *index, stw_vocabulary vocabulary, stw_str name);
/* The first of aten, HLO, ONNX, TensorFlow that knows the name, or -1. */
int32_t stw_op_find_any(const stw_op_index *index, stw_str name);

#endif
