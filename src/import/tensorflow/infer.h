/* Private to the inference of TensorFlow shapes: infer.c walks the graph, shapes.c and layout.c have the rules for operators;
 * layout.c also computes the small integer tensors that say shapes and axes. */
#ifndef STW_IMPORT_TENSORFLOW_INFER_H
#define STW_IMPORT_TENSORFLOW_INFER_H

#include "import/tensorflow/graphdef.h"

enum { STW_TF_MAX_RANK = 16, STW_TF_MAX_OUTPUTS = 8 };

typedef struct stw_tf_dims {
    int32_t rank; /* -1: not known */
    int64_t dim[STW_TF_MAX_RANK];
} stw_tf_dims;

typedef struct stw_tf_result { /* what a rule finds out about a node */
    int32_t count;             /* outputs that it describes */
    bool alike;                /* the others are like the first */
    int64_t outputs;           /* how many there are */
    stw_tf_dims out[STW_TF_MAX_OUTPUTS];
    int32_t dtype[STW_TF_MAX_OUTPUTS]; /* -1: as the attributes say */
} stw_tf_result;

typedef struct stw_tf_ints {
    int64_t count; /* -1: not known */
    int64_t value[STW_TF_MAX_VALUES];
} stw_tf_ints;

struct stw_tf_fact { /* what is known of a value, apart from any graph */
    int32_t dtype;   /* -1: not known */
    stw_tf_dims dims;
    stw_tf_ints ints;
};

typedef void stw_tf_rule(const stw_tf_graph *graph, int32_t node, stw_tf_result *result);

/* NULL where no rule is known. */
stw_tf_rule *stw_tf_find_rule(const stw_tf_graph *graph, int32_t node);

/* What slides over an image. */
stw_tf_rule stw_tf_pooling;

/* Rules of layout.c. */
stw_tf_rule stw_tf_shape_is_first, stw_tf_shape_is_second, stw_tf_shape_is_third, stw_tf_reshape, stw_tf_transpose,
    stw_tf_concatenate, stw_tf_pack, stw_tf_unpack, stw_tf_split, stw_tf_split_unevenly, stw_tf_expand, stw_tf_squeeze,
    stw_tf_tile, stw_tf_pad, stw_tf_slice, stw_tf_strided_slice, stw_tf_gather, stw_tf_one_hot, stw_tf_counting;

/* Helpers of rules. */
static inline void stw_tf_give(stw_tf_result *r, stw_tf_dims dims) {
    r->count = 1;
    r->out[0] = dims;
}

/* An axis counted from the end if negative; -1 if it is none of `rank`. */
static inline int32_t stw_tf_axis(int64_t axis, int32_t rank) {
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? (int32_t)axis : -1;
}

static inline stw_tf_dims stw_tf_without(stw_tf_dims dims, int32_t axis) {
    dims.rank--;
    for (int32_t d = axis; d < dims.rank; d++) dims.dim[d] = dims.dim[d + 1];
    return dims;
}

static inline stw_tf_dims stw_tf_insert(stw_tf_dims dims, int32_t axis, int64_t extent) {
    if (dims.rank < 0 || dims.rank == STW_TF_MAX_RANK) return (stw_tf_dims){.rank = -1};
    for (int32_t d = dims.rank++; d > axis; d--) dims.dim[d] = dims.dim[d - 1];
    dims.dim[axis] = extent;
    return dims;
}

static inline int64_t stw_tf_attribute_of(const stw_tf_graph *graph, int32_t node, stw_tf_key key, int64_t otherwise) {
    return stw_tf_number(graph->model, &graph->model->node[node], key, otherwise);
}

stw_tf_dims stw_tf_dims_of(const stw_tf_graph *graph, stw_tf_value value);
stw_tf_dims stw_tf_input_dims(const stw_tf_graph *graph, int32_t node, int64_t k);
/* The values of input k, if they are known. */
stw_tf_ints stw_tf_input_ints(const stw_tf_graph *graph, int32_t node, int64_t k);
/* All of it; also where there is no such input. */
stw_tf_fact stw_tf_input_fact(const stw_tf_graph *graph, int32_t node, int64_t k);
/* The values that a small integer tensor has, if they are known. */
stw_tf_ints stw_tf_ints_of(const stw_tf_graph *graph, stw_tf_edge edge);
/* The values of a node's output, from its inputs. */
void stw_tf_fold(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out);

/* The same for the operators with several outputs of integers, whose values are computed when they are read. */
void stw_tf_fold_output(const stw_tf_graph *graph, int32_t node, int64_t output, stw_tf_ints *out);

/* For the labels of an Einsum: the shape of its output, and the number of multiply-adds (-1: not known). */
int64_t stw_tf_einsum(const stw_tf_graph *graph, int32_t node, stw_tf_dims *out);

#endif
