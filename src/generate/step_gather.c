/* Joins, copies, sums, and rows that are picked by number. */
#include "generate/step_parts.h"

/* Every part takes its slice of the gradient, those that need none too: so it is traced. */
static void cat_back(stw_step *step, stw_tensor node) {
    const stw_step_node *whole = stw_step_at(step, node);
    const int32_t dimension = (int32_t)whole->attribute[0];
    int64_t from = 0;
    for (int32_t k = 0; k < whole->input_count && !step->failed; k++) {
        const int64_t size = stw_step_at(step, whole->input[k])->shape[dimension];
        stw_step_pass(step, whole->input[k], stw_step_slice(step, whole->gradient, dimension, from, size));
        from += size;
    }
}

stw_tensor stw_step_cat(stw_step *step, const stw_tensor *x, int32_t count, int32_t dimension) {
    static const stw_step_op op = {"cat", cat_back};
    stw_shape shape = stw_step_shape(step, x[0]);
    for (int32_t k = 1; k < count; k++) shape.size[dimension] += stw_step_at(step, x[k])->shape[dimension];
    const stw_tensor result = stw_step_emit(step, &op, shape, x, count);
    if (!step->failed) stw_step_at(step, result)->attribute[0] = dimension;
    return result;
}

static void stack_back(stw_step *step, stw_tensor node) {
    const stw_step_node *whole = stw_step_at(step, node);
    for (int32_t k = 0; k < whole->input_count && !step->failed; k++) {
        stw_step_pass(step, whole->input[k], stw_step_select(step, whole->gradient, (int32_t)whole->attribute[0], k));
    }
}

stw_tensor stw_step_stack(stw_step *step, const stw_tensor *x, int32_t count, int32_t dimension) {
    static const stw_step_op op = {"stack", stack_back};
    const stw_shape part = stw_step_shape(step, x[0]);
    stw_shape shape = {.rank = part.rank + 1};
    for (int32_t k = 0; k < shape.rank; k++) shape.size[k] = k == dimension ? count : part.size[k < dimension ? k : k - 1];
    const stw_tensor result = stw_step_emit(step, &op, shape, x, count);
    if (!step->failed) stw_step_at(step, result)->attribute[0] = dimension;
    return result;
}

static void clone_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), stw_step_gradient(step, node));
}

stw_tensor stw_step_clone(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"clone", clone_back};
    return stw_step_emit(step, &op, stw_step_shape(step, x), &x, 1);
}

stw_tensor stw_step_zeros(stw_step *step, stw_tensor like, stw_shape shape) {
    static const stw_step_op op = {"new_zeros", NULL};
    return stw_step_emit(step, &op, shape, &like, 1);
}

static void pad_back(stw_step *step, stw_tensor node) {
    const stw_step_node *padded = stw_step_at(step, node);
    stw_step_pass(step, padded->input[0],
                  stw_step_pad(step, padded->gradient, (int32_t)padded->attribute[0], -padded->attribute[1]));
}

stw_tensor stw_step_pad(stw_step *step, stw_tensor x, int32_t dimension, int64_t count) {
    static const stw_step_op op = {"constant_pad_nd", pad_back};
    stw_shape shape = stw_step_shape(step, x);
    shape.size[dimension] += count;
    const stw_tensor result = stw_step_emit(step, &op, shape, &x, 1);
    if (step->failed) return 0;
    stw_step_at(step, result)->attribute[0] = dimension;
    stw_step_at(step, result)->attribute[1] = count;
    return result;
}

/* The gradient of a sum, spread over what was summed. attribute[0]: the dimension that was dropped, plus 1. */
static stw_tensor spread(stw_step *step, stw_tensor node) {
    const stw_step_node *sum = stw_step_at(step, node);
    stw_tensor gradient = sum->gradient;
    if (sum->attribute[0] > 0) gradient = stw_step_unsqueeze(step, gradient, (int32_t)sum->attribute[0] - 1);
    return stw_step_expand(step, gradient, stw_step_shape(step, sum->input[0]));
}

static void sum_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), spread(step, node));
}

static void mean_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), stw_step_divide(step, spread(step, node)));
}

stw_tensor stw_step_sum_to(stw_step *step, stw_tensor x, stw_shape shape) {
    static const stw_step_op op = {"sum", sum_back};
    return stw_step_emit(step, &op, shape, &x, 1);
}

stw_tensor stw_step_sum(stw_step *step, stw_tensor x, int32_t dimension) {
    stw_shape shape = stw_step_shape(step, x);
    for (int32_t k = dimension; k + 1 < shape.rank; k++) shape.size[k] = shape.size[k + 1];
    shape.rank--;
    const stw_tensor result = stw_step_sum_to(step, x, shape);
    if (!step->failed) stw_step_at(step, result)->attribute[0] = dimension + 1;
    return result;
}

stw_tensor stw_step_mean_to(stw_step *step, stw_tensor x, stw_shape shape) {
    static const stw_step_op op = {"mean", mean_back};
    return stw_step_emit(step, &op, shape, &x, 1);
}

static void embedding_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"embedding_dense_backward", NULL};
    const stw_tensor table = stw_step_operand(step, node, 0);
    const stw_tensor input[] = {stw_step_gradient(step, node), stw_step_operand(step, node, 1)};
    stw_step_pass(step, table, stw_step_emit(step, &op, stw_step_shape(step, table), input, 2));
}

stw_tensor stw_step_embedding(stw_step *step, stw_tensor table, stw_tensor ids) {
    static const stw_step_op op = {"embedding", embedding_back};
    const stw_tensor input[] = {table, ids};
    stw_shape shape = stw_step_shape(step, ids);
    shape.size[shape.rank++] = stw_step_at(step, table)->shape[1];
    return stw_step_emit(step, &op, shape, input, 2);
}

static void index_select_back(stw_step *step, stw_tensor node) {
    const stw_tensor x = stw_step_operand(step, node, 0), gradient = stw_step_gradient(step, node);
    const stw_tensor zeros = stw_step_zeros(step, gradient, stw_step_shape(step, x));
    stw_step_pass(step, x, stw_step_index_add(step, zeros, stw_step_operand(step, node, 1), gradient));
}

stw_tensor stw_step_index_select(stw_step *step, stw_tensor x, stw_tensor ids) {
    static const stw_step_op op = {"index_select", index_select_back};
    const stw_tensor input[] = {x, ids};
    stw_shape shape = stw_step_shape(step, x);
    shape.size[0] = stw_step_at(step, ids)->shape[0];
    return stw_step_emit(step, &op, shape, input, 2);
}

static void index_add_back(stw_step *step, stw_tensor node) {
    const stw_step_node *sum = stw_step_at(step, node);
    stw_step_pass(step, sum->input[0], sum->gradient);
    if (stw_step_wants(step, sum->input[2])) {
        stw_step_pass(step, sum->input[2], stw_step_index_select(step, sum->gradient, sum->input[1]));
    }
}

stw_tensor stw_step_index_add(stw_step *step, stw_tensor x, stw_tensor ids, stw_tensor source) {
    static const stw_step_op op = {"index_add", index_add_back};
    const stw_tensor input[] = {x, ids, source};
    return stw_step_emit(step, &op, stw_step_shape(step, x), input, 3);
}

/* The values' gradients go back to where they were found. */
static void topk_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"scatter", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0), gradient = stw_step_gradient(step, node + 1);
    const stw_tensor input[] = {stw_step_zeros(step, gradient, stw_step_shape(step, x)), node + 2, gradient};
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), input, 3));
}

void stw_step_topk(stw_step *step, stw_tensor x, int64_t count, stw_tensor *values, stw_tensor *ids) {
    static const stw_step_op op = {"topk", topk_back};
    const stw_shape shape = STW_SHAPE(stw_step_at(step, x)->shape[0], count);
    const stw_shape shapes[] = {shape, shape};
    const int32_t dtypes[] = {STW_DTYPE_F32, step->dtype_s64};
    stw_tensor out[2];
    stw_step_emit_outputs(step, &op, &x, 1, shapes, dtypes, 2, out);
    *values = out[0];
    *ids = out[1];
}
