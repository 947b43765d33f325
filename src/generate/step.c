#include "generate/step.h"

#include <stdarg.h>
#include <string.h>

#include "generate/step_parts.h"

/* No machine comes near; far enough from overflow that sums of a few stay in range. */
#define MAX_ELEMENTS ((int64_t)1 << 50)
#define MAX_FLOPS    ((int64_t)1 << 60)
#define MAX_BYTES    ((int64_t)1 << 55) /* of all tensors; readers take twice that */

stw_status stw_step_create(stw_arena *arena, stw_step **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, 1, error);
    stw_step *step = *out;
    step->arena = arena;
    step->loss = STW_NO_TENSOR;
    step->dtype_s64 = stw_dtype_find(STW_STR("s64"));
    step->dtype_u8 = stw_dtype_find(STW_STR("u8"));
    step->dtype_pred = stw_dtype_find(STW_STR("pred"));
    STW_TRY_NEW(arena, step->chunk[0], STW_STEP_CHUNK, error); /* tensor 0 can be looked at even if nothing was added */
    return STW_OK;
}

stw_arena *stw_step_arena(stw_step *step) { return step->arena; }

void stw_step_fail(stw_step *step, const char *format, ...) {
    if (step->failed) return;
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    stw_fail(&step->error, STW_ERROR_INPUT, "%s", text);
    step->failed = true;
}

bool stw_step_failed(const stw_step *step) { return step->failed; }
int64_t stw_step_op_count(const stw_step *step) { return step->op_count; }
double stw_step_flops(const stw_step *step) { return step->flops; }

int64_t stw_step_parameter_bytes(const stw_step *step) {
    int64_t bytes = 0;
    for (stw_tensor i = 0; i < step->count; i++) {
        if (stw_step_at(step, i)->kind == STW_NODE_PARAMETER) bytes += stw_step_at(step, i)->bytes;
    }
    return bytes;
}

const char *stw_step_label(stw_step *step, const char *format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const stw_str copy = stw_str_copy(step->arena, stw_str_of(text));
    if (copy.p == NULL) stw_step_fail(step, "out of memory");
    return copy.p != NULL ? copy.p : "";
}

stw_shape stw_step_shape(const stw_step *step, stw_tensor tensor) {
    const stw_step_node *node = stw_step_at(step, tensor);
    stw_shape shape = {.rank = node->rank};
    memcpy(shape.size, node->shape, sizeof shape.size);
    return shape;
}

int64_t stw_step_product(stw_step *step, const int64_t *factor, int32_t count) {
    int64_t product = 1;
    for (int32_t k = 0; k < count; k++) {
        if (factor[k] < 0 || __builtin_mul_overflow(product, factor[k], &product) || product > MAX_FLOPS) {
            stw_step_fail(step, "the sizes are too large: the arithmetic of one op is beyond 2^60");
            return 0;
        }
    }
    return product;
}

/* A new node of this shape, or NULL. */
static stw_step_node *add_node(stw_step *step, stw_node_kind kind, stw_shape shape, int32_t dtype) {
    if (step->failed) return NULL;
    int64_t elements = 1;
    for (int32_t k = 0; k < shape.rank; k++) {
        if (shape.size[k] < 0 || __builtin_mul_overflow(elements, shape.size[k], &elements) || elements > MAX_ELEMENTS) {
            stw_step_fail(step, "the sizes are too large: a tensor has more than 2^50 elements");
            return NULL;
        }
    }
    const int64_t chunk = step->count / STW_STEP_CHUNK;
    if (chunk < STW_STEP_MAX_CHUNKS && step->chunk[chunk] == NULL) {
        step->chunk[chunk] = STW_NEW(step->arena, stw_step_node, STW_STEP_CHUNK);
        if (step->chunk[chunk] == NULL) stw_step_fail(step, "out of memory");
    }
    if (chunk == STW_STEP_MAX_CHUNKS || (kind == STW_NODE_OP && step->op_count == STW_STEP_MAX_OPS)) {
        stw_step_fail(step, "the graph would have more than %d ops; take fewer layers or steps", STW_STEP_MAX_OPS);
    }
    if (step->failed) return NULL;
    stw_step_node *node = stw_step_at(step, (stw_tensor)step->count++);
    *node = (stw_step_node){.kind = (uint8_t)kind, .rank = (uint8_t)shape.rank, .dtype = (uint8_t)dtype};
    node->saved = node->gradient = node->updates = STW_NO_TENSOR;
    memcpy(node->shape, shape.size, sizeof node->shape);
    stw_stride_contiguous(shape, node->stride);
    node->bytes = kind == STW_NODE_VIEW ? 0 : elements * stw_dtype_bytes(dtype);
    step->total_bytes += node->bytes;
    if (step->total_bytes > MAX_BYTES)
        stw_step_fail(step, "the sizes are too large: all tensors together have more than 2^55 bytes");
    if (kind == STW_NODE_OP) step->op_count++;
    return node;
}

static stw_tensor last(const stw_step *step) { return (stw_tensor)(step->count - 1); }

static bool keep_inputs(stw_step *step, stw_step_node *node, const stw_tensor *input, int32_t count) {
    stw_tensor *copy = STW_NEW(step->arena, stw_tensor, count);
    if (copy == NULL) {
        stw_step_fail(step, "out of memory");
        return false;
    }
    if (count > 0) memcpy(copy, input, (size_t)count * sizeof *copy);
    node->input = copy;
    node->input_count = count;
    const bool passes = node->op->derivative != NULL && !step->differentiating;
    for (int32_t k = 0; passes && k < count; k++) node->needs_gradient |= stw_step_at(step, input[k])->needs_gradient;
    return true;
}

stw_tensor stw_step_emit_typed(stw_step *step, const stw_step_op *op, stw_shape shape, int32_t dtype, const stw_tensor *input,
                               int32_t count) {
    stw_step_node *node = add_node(step, STW_NODE_OP, shape, dtype);
    if (node == NULL) return 0;
    node->op = op;
    if (!keep_inputs(step, node, input, count)) return 0;
    const stw_tensor result = last(step);
    stw_step_set_flops(step, result, stw_shape_elements(shape));
    return result;
}

stw_tensor stw_step_emit(stw_step *step, const stw_step_op *op, stw_shape shape, const stw_tensor *input, int32_t count) {
    return stw_step_emit_typed(step, op, shape, STW_DTYPE_F32, input, count);
}

stw_tensor stw_step_emit_view(stw_step *step, const stw_step_op *op, stw_tensor x, stw_shape shape, const int64_t *stride) {
    stw_step_node *node = add_node(step, STW_NODE_VIEW, shape, stw_step_at(step, x)->dtype);
    if (node == NULL) return 0;
    node->op = op;
    if (!keep_inputs(step, node, &x, 1)) return 0;
    memcpy(node->stride, stride, sizeof node->stride);
    return last(step);
}

/* Its gradient waits for the op's derivative. */
static void keep_gradient(stw_step *step, stw_tensor node) { (void)step, (void)node; }

stw_tensor stw_step_emit_part(stw_step *step, stw_tensor op, stw_shape shape, const int64_t *stride) {
    static const stw_step_op getitem = {"getitem", keep_gradient};
    return stw_step_emit_view(step, &getitem, op, shape, stride);
}

stw_tensor stw_step_emit_outputs(stw_step *step, const stw_step_op *op, const stw_tensor *input, int32_t count,
                                 const stw_shape *shape, const int32_t *dtype, int32_t outputs, stw_tensor *out) {
    int64_t bytes = 0, elements = 0;
    int32_t first = 0;
    while (first + 1 < outputs && shape[first].rank < 0) first++;
    const stw_tensor result = stw_step_emit_typed(step, op, shape[first], dtype[first], input, count);
    for (int32_t k = 0; k < outputs; k++) {
        const bool exists = shape[k].rank >= 0;
        int64_t stride[STW_STEP_MAX_RANK] = {0};
        if (exists) stw_stride_contiguous(shape[k], stride);
        out[k] = stw_step_emit_part(step, result, exists ? shape[k] : (stw_shape){0}, stride);
        if (step->failed) return 0;
        stw_step_at(step, out[k])->dtype = (uint8_t)(exists ? dtype[k] : STW_DTYPE_NONE);
        if (!exists) continue;
        bytes += stw_shape_elements(shape[k]) * stw_dtype_bytes(dtype[k]);
        elements += stw_shape_elements(shape[k]);
    }
    if (step->failed) return 0;
    step->total_bytes += bytes - stw_step_at(step, result)->bytes;
    stw_step_at(step, result)->bytes = bytes;
    stw_step_at(step, result)->output_count = outputs;
    stw_step_set_flops(step, result, elements);
    return result;
}

void stw_step_set_flops(stw_step *step, stw_tensor op, int64_t flops) {
    if (step->failed) return;
    step->flops += (double)(flops - stw_step_at(step, op)->flops);
    stw_step_at(step, op)->flops = flops;
}

static stw_tensor add_source(stw_step *step, stw_node_kind kind, stw_shape shape, int32_t dtype, const char *label) {
    stw_step_node *node = add_node(step, kind, shape, dtype);
    if (node == NULL) return 0;
    node->label = label;
    node->needs_gradient = kind == STW_NODE_PARAMETER;
    return last(step);
}

stw_tensor stw_step_parameter(stw_step *step, stw_shape shape, const char *label) {
    return add_source(step, STW_NODE_PARAMETER, shape, STW_DTYPE_F32, label);
}
stw_tensor stw_step_buffer(stw_step *step, stw_shape shape, const char *label) {
    return add_source(step, STW_NODE_BUFFER, shape, STW_DTYPE_F32, label);
}
stw_tensor stw_step_int_buffer(stw_step *step, stw_shape shape, const char *label) {
    return add_source(step, STW_NODE_BUFFER, shape, step->dtype_s64, label);
}
stw_tensor stw_step_input(stw_step *step, stw_shape shape) {
    return add_source(step, STW_NODE_INPUT, shape, STW_DTYPE_F32, "input");
}
stw_tensor stw_step_int_input(stw_step *step, stw_shape shape) {
    return add_source(step, STW_NODE_INPUT, shape, step->dtype_s64, "input");
}
