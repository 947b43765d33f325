/* Convolution and pooling of images and of signals. */
#include "generate/step_parts.h"

stw_window stw_window_same(int64_t kernel, int64_t stride) {
    return (stw_window){.kernel = {kernel, kernel}, .stride = stride, .padding = {kernel / 2, kernel / 2}};
}

/* The size of dimension k (0 or 1) behind a window. */
static int64_t size_behind(stw_step *step, int64_t size, const stw_window *window, int32_t k) {
    const int64_t stride = window->stride > 0 ? window->stride : 1, dilation = window->dilation > 0 ? window->dilation : 1;
    const int64_t reach = dilation * (window->kernel[k] - 1) + 1, room = size + 2 * window->padding[k] - reach;
    if (room < 0) {
        stw_step_fail(step, "the image is too small: %lld pixels are left where %lld are needed", (long long)size,
                      (long long)(reach - 2 * window->padding[k]));
        return 1;
    }
    return room / stride + 1;
}

static stw_shape shape_behind(stw_step *step, stw_tensor x, const stw_window *window) {
    stw_shape shape = stw_step_shape(step, x);
    for (int32_t k = 2; k < shape.rank && !step->failed; k++) shape.size[k] = size_behind(step, shape.size[k], window, k - 2);
    return shape;
}

/* The gradients of x, weight and bias by one op; that of x costs what the convolution does, that of the weight as if each group
 * saw all channels: so PyTorch counts it, and the costs are fitted on its counts. */
static void convolution_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"convolution_backward", NULL};
    const stw_step_node *made = stw_step_at(step, node);
    const stw_tensor input[] = {made->gradient, made->input[0], made->input[1]};
    const bool first = stw_step_wants(step, made->input[0]), with_bias = made->input_count > 2;
    const stw_shape none = {.rank = -1};
    const stw_shape shapes[] = {first ? stw_step_shape(step, made->input[0]) : none, stw_step_shape(step, made->input[1]),
                                with_bias ? stw_step_shape(step, made->input[2]) : none};
    const int32_t dtypes[] = {STW_DTYPE_F32, STW_DTYPE_F32, STW_DTYPE_F32};
    stw_tensor out[3] = {0};
    const stw_tensor result = stw_step_emit_outputs(step, &op, input, 3, shapes, dtypes, 3, out);
    const int64_t factor[] = {made->flops, made->attribute[0] + (first ? 1 : 0)};
    stw_step_set_flops(step, result, stw_step_product(step, factor, 2));
    for (int32_t k = 0; k < made->input_count; k++) stw_step_pass(step, made->input[k], out[k]);
}

/* Every element of the weight is used once per image and place of the window. */
static stw_tensor emit_convolution(stw_step *step, stw_tensor x, stw_shape shape, stw_shape weight_shape, bool with_bias,
                                   int64_t places, int64_t groups, const char *label) {
    static const stw_step_op op = {"convolution", convolution_back};
    stw_tensor input[3] = {x};
    input[1] = stw_step_parameter(step, weight_shape, stw_step_label(step, "%s.weight", label));
    if (with_bias) input[2] = stw_step_parameter(step, STW_SHAPE(shape.size[1]), stw_step_label(step, "%s.bias", label));
    const stw_tensor result = stw_step_emit(step, &op, shape, input, with_bias ? 3 : 2);
    const int64_t factor[] = {2, shape.size[0], places, step->failed ? 0 : stw_shape_elements(weight_shape)};
    stw_step_set_flops(step, result, stw_step_product(step, factor, 4));
    if (!step->failed) stw_step_at(step, result)->attribute[0] = groups;
    return result;
}

stw_tensor stw_step_convolution(stw_step *step, stw_tensor x, int64_t channels, stw_window window, int64_t groups, bool with_bias,
                                const char *label) {
    stw_shape shape = shape_behind(step, x, &window);
    stw_shape weight = STW_SHAPE(channels, shape.size[1] / groups, window.kernel[0], window.kernel[1]);
    weight.rank = shape.rank;
    shape.size[1] = channels;
    int64_t places = 1;
    for (int32_t k = 2; k < shape.rank; k++) places *= shape.size[k];
    return emit_convolution(step, x, shape, weight, with_bias, places, groups, label);
}

stw_tensor stw_step_upsample(stw_step *step, stw_tensor x, int64_t channels, int64_t kernel, const char *label) {
    stw_shape shape = stw_step_shape(step, x);
    const stw_shape weight = STW_SHAPE(shape.size[1], channels, kernel, kernel);
    const int64_t places = shape.size[2] * shape.size[3];
    shape.size[1] = channels;
    shape.size[2] *= kernel;
    shape.size[3] *= kernel;
    return emit_convolution(step, x, shape, weight, true, places, 1, label);
}

static void max_pool_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"max_pool2d_with_indices_backward", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0);
    const stw_tensor input[] = {stw_step_gradient(step, node + 1), x, node + 2};
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), input, 3));
}

stw_tensor stw_step_max_pool(stw_step *step, stw_tensor x, stw_window window) {
    static const stw_step_op op = {"max_pool2d_with_indices", max_pool_back};
    const stw_shape shape = shape_behind(step, x, &window), shapes[] = {shape, shape};
    const int32_t dtypes[] = {STW_DTYPE_F32, step->dtype_s64};
    stw_tensor out[2] = {0};
    stw_step_emit_outputs(step, &op, &x, 1, shapes, dtypes, 2, out);
    return out[0];
}

static void average_pool_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"avg_pool2d_backward", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0);
    const stw_tensor input[] = {stw_step_gradient(step, node), x};
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), input, 2));
}

stw_tensor stw_step_average_pool(stw_step *step, stw_tensor x, stw_window window) {
    static const stw_step_op op = {"avg_pool2d", average_pool_back};
    return stw_step_emit(step, &op, shape_behind(step, x, &window), &x, 1);
}
