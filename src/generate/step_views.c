/* Views: aliases of a tensor in another shape. */
#include <string.h>

#include "generate/step_parts.h"

/* The gradient of a change of shape is the change back, with a copy where the strides ask for one. */
static void reshape_back(stw_step *step, stw_tensor node) {
    const stw_tensor x = stw_step_operand(step, node, 0);
    if (stw_step_wants(step, x))
        stw_step_pass(step, x, stw_step_reshape(step, stw_step_gradient(step, node), stw_step_shape(step, x)));
}

static void transpose_back(stw_step *step, stw_tensor node) {
    const int64_t *dimension = stw_step_at(step, node)->attribute;
    stw_step_pass(step, stw_step_operand(step, node, 0),
                  stw_step_transpose(step, stw_step_gradient(step, node), (int32_t)dimension[0], (int32_t)dimension[1]));
}

static void t_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), stw_step_t(step, stw_step_gradient(step, node)));
}

/* attribute[0] holds the order, three bits a dimension. */
static void permute_back(stw_step *step, stw_tensor node) {
    const stw_step_node *permuted = stw_step_at(step, node);
    char order[STW_STEP_MAX_RANK + 1] = {0};
    for (int32_t k = 0; k < permuted->rank; k++) order[(permuted->attribute[0] >> (3 * k)) & 7] = (char)('0' + k);
    stw_step_pass(step, permuted->input[0], stw_step_permute(step, permuted->gradient, order));
}

static void unsqueeze_back(stw_step *step, stw_tensor node) {
    const stw_step_node *made = stw_step_at(step, node);
    stw_step_pass(step, made->input[0], stw_step_squeeze(step, made->gradient, (int32_t)made->attribute[0]));
}

static void squeeze_back(stw_step *step, stw_tensor node) {
    const stw_step_node *made = stw_step_at(step, node);
    stw_step_pass(step, made->input[0], stw_step_unsqueeze(step, made->gradient, (int32_t)made->attribute[0]));
}

static void expand_back(stw_step *step, stw_tensor node) {
    stw_step_pass_reduced(step, stw_step_operand(step, node, 0), stw_step_gradient(step, node));
}

/* A part's gradient in a tensor of zeros of the whole's shape. */
static void select_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"select_backward", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0), gradient = stw_step_gradient(step, node);
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), &gradient, 1));
}

static void slice_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"slice_backward", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0), gradient = stw_step_gradient(step, node);
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), &gradient, 1));
}

/* The parts' gradients side by side; zeros for a part that has none. */
static void split_back(stw_step *step, stw_tensor node) {
    const stw_step_node *split = stw_step_at(step, node);
    stw_tensor *part = STW_NEW(step->arena, stw_tensor, split->output_count);
    if (part == NULL) {
        stw_step_fail(step, "out of memory");
        return;
    }
    stw_tensor some = STW_NO_TENSOR;
    for (int32_t k = 0; k < split->output_count; k++) {
        part[k] = stw_step_gradient(step, node + 1 + k);
        if (part[k] >= 0) some = part[k];
    }
    for (int32_t k = 0; k < split->output_count; k++) {
        if (part[k] < 0) part[k] = stw_step_zeros(step, some, stw_step_shape(step, node + 1 + k));
    }
    stw_step_pass(step, split->input[0], stw_step_cat(step, part, split->output_count, (int32_t)split->attribute[0]));
}

stw_tensor stw_step_view(stw_step *step, stw_tensor x, stw_shape shape) {
    static const stw_step_op op = {"view", reshape_back};
    int64_t stride[STW_STEP_MAX_RANK] = {0};
    if (!step->failed && !stw_stride_view(step, x, shape, stride)) stw_step_fail(step, "internal: a view that needs a copy");
    return stw_step_emit_view(step, &op, x, shape, stride);
}

stw_tensor stw_step_unsafe_view(stw_step *step, stw_tensor x, stw_shape shape) {
    static const stw_step_op op = {"_unsafe_view", reshape_back};
    return stw_step_emit(step, &op, shape, &x, 1);
}

stw_tensor stw_step_reshape(stw_step *step, stw_tensor x, stw_shape shape) {
    int64_t stride[STW_STEP_MAX_RANK] = {0};
    if (step->failed) return 0;
    if (stw_stride_view(step, x, shape, stride)) return stw_step_view(step, x, shape);
    return stw_step_unsafe_view(step, stw_step_clone(step, x), shape);
}

stw_tensor stw_step_transpose(stw_step *step, stw_tensor x, int32_t a, int32_t b) {
    static const stw_step_op op = {"transpose", transpose_back};
    stw_shape shape = stw_step_shape(step, x);
    int64_t stride[STW_STEP_MAX_RANK];
    memcpy(stride, stw_step_at(step, x)->stride, sizeof stride);
    const int64_t size = shape.size[a], pace = stride[a];
    shape.size[a] = shape.size[b];
    stride[a] = stride[b];
    shape.size[b] = size;
    stride[b] = pace;
    const stw_tensor result = stw_step_emit_view(step, &op, x, shape, stride);
    if (step->failed) return 0;
    stw_step_at(step, result)->attribute[0] = a;
    stw_step_at(step, result)->attribute[1] = b;
    return result;
}

stw_tensor stw_step_t(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"t", t_back};
    const stw_step_node *node = stw_step_at(step, x);
    const int64_t stride[STW_STEP_MAX_RANK] = {node->stride[1], node->stride[0]};
    return stw_step_emit_view(step, &op, x, STW_SHAPE(node->shape[1], node->shape[0]), stride);
}

stw_tensor stw_step_permute(stw_step *step, stw_tensor x, const char *order) {
    static const stw_step_op op = {"permute", permute_back};
    const stw_step_node *node = stw_step_at(step, x);
    stw_shape shape = {.rank = node->rank};
    int64_t stride[STW_STEP_MAX_RANK] = {0}, packed = 0;
    for (int32_t k = 0; k < node->rank && order[k] != '\0'; k++) {
        const int32_t from = order[k] - '0';
        shape.size[k] = node->shape[from];
        stride[k] = node->stride[from];
        packed |= (int64_t)from << (3 * k);
    }
    const stw_tensor result = stw_step_emit_view(step, &op, x, shape, stride);
    if (!step->failed) stw_step_at(step, result)->attribute[0] = packed;
    return result;
}

stw_tensor stw_step_unsqueeze(stw_step *step, stw_tensor x, int32_t dimension) {
    static const stw_step_op op = {"unsqueeze", unsqueeze_back};
    const stw_step_node *node = stw_step_at(step, x);
    stw_shape shape = {.rank = node->rank + 1};
    int64_t stride[STW_STEP_MAX_RANK] = {0};
    if (shape.rank > STW_STEP_MAX_RANK) stw_step_fail(step, "internal: more than %d dimensions", STW_STEP_MAX_RANK);
    if (step->failed) return 0;
    for (int32_t k = 0; k < shape.rank; k++) {
        const int32_t from = k < dimension ? k : k - 1;
        shape.size[k] = k == dimension ? 1 : node->shape[from];
        stride[k] = k == dimension ? (k < node->rank ? node->stride[k] * node->shape[k] : 1) : node->stride[from];
    }
    const stw_tensor result = stw_step_emit_view(step, &op, x, shape, stride);
    if (!step->failed) stw_step_at(step, result)->attribute[0] = dimension;
    return result;
}

/* All but one dimension. */
static stw_tensor drop(stw_step *step, const stw_step_op *op, stw_tensor x, int32_t dimension) {
    const stw_step_node *node = stw_step_at(step, x);
    stw_shape shape = {0};
    int64_t stride[STW_STEP_MAX_RANK] = {0};
    for (int32_t k = 0; k < node->rank; k++) {
        if (k == dimension) continue;
        shape.size[shape.rank] = node->shape[k];
        stride[shape.rank++] = node->stride[k];
    }
    const stw_tensor result = stw_step_emit_view(step, op, x, shape, stride);
    if (!step->failed) stw_step_at(step, result)->attribute[0] = dimension;
    return result;
}

stw_tensor stw_step_squeeze(stw_step *step, stw_tensor x, int32_t dimension) {
    static const stw_step_op op = {"squeeze", squeeze_back};
    return drop(step, &op, x, dimension);
}

stw_tensor stw_step_select(stw_step *step, stw_tensor x, int32_t dimension, int64_t index) {
    static const stw_step_op op = {"select", select_back};
    (void)index; /* which one it is changes neither time nor memory */
    return drop(step, &op, x, dimension);
}

stw_tensor stw_step_expand(stw_step *step, stw_tensor x, stw_shape shape) {
    static const stw_step_op op = {"expand", expand_back};
    const stw_step_node *node = stw_step_at(step, x);
    int64_t stride[STW_STEP_MAX_RANK] = {0};
    for (int32_t k = 1; k <= node->rank; k++) {
        const int32_t to = shape.rank - k, from = node->rank - k;
        if (node->shape[from] == shape.size[to]) stride[to] = node->stride[from];
    }
    return stw_step_emit_view(step, &op, x, shape, stride);
}

stw_tensor stw_step_slice(stw_step *step, stw_tensor x, int32_t dimension, int64_t from, int64_t count) {
    static const stw_step_op op = {"slice", slice_back};
    stw_shape shape = stw_step_shape(step, x);
    if (from + count > shape.size[dimension]) stw_step_fail(step, "internal: a slice beyond its tensor");
    shape.size[dimension] = count;
    return stw_step_emit_view(step, &op, x, shape, stw_step_at(step, x)->stride);
}

void stw_step_split(stw_step *step, stw_tensor x, int32_t dimension, int32_t parts, stw_tensor *out) {
    static const stw_step_op op = {"split", split_back};
    stw_shape shape = stw_step_shape(step, x);
    shape.size[dimension] /= parts;
    const stw_tensor split = stw_step_emit_view(step, &op, x, shape, stw_step_at(step, x)->stride);
    for (int32_t k = 0; k < parts; k++) out[k] = stw_step_emit_part(step, split, shape, stw_step_at(step, x)->stride);
    if (step->failed) return;
    stw_step_at(step, split)->attribute[0] = dimension;
    stw_step_at(step, split)->output_count = parts;
}

stw_tensor stw_step_detach(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"detach", NULL};
    return stw_step_emit_view(step, &op, x, stw_step_shape(step, x), stw_step_at(step, x)->stride);
}

static void alias_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), stw_step_gradient(step, node));
}

stw_tensor stw_step_alias(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"alias", alias_back};
    return stw_step_emit_view(step, &op, x, stw_step_shape(step, x), stw_step_at(step, x)->stride);
}
