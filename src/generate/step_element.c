/* Element by element. */
#include "generate/step_parts.h"

stw_tensor stw_step_save(stw_step *step, stw_tensor result) {
    if (step->failed || !stw_step_at(step, result)->needs_gradient) return result;
    const stw_tensor saved = stw_step_detach(step, result);
    if (!step->failed) stw_step_at(step, result)->saved = saved;
    return result;
}

stw_tensor stw_step_saved(stw_step *step, stw_tensor node) { return stw_step_detach(step, stw_step_at(step, node)->saved); }

static stw_tensor unary(stw_step *step, const stw_step_op *op, stw_tensor x) {
    const stw_tensor result = stw_step_emit(step, op, stw_step_shape(step, x), &x, 1);
    stw_stride_follow(step, result, x);
    return result;
}

static stw_tensor binary(stw_step *step, const stw_step_op *op, stw_tensor a, stw_tensor b) {
    const stw_tensor input[] = {a, b};
    const stw_shape shape = stw_shape_broadcast(step, stw_step_shape(step, a), stw_step_shape(step, b));
    const stw_tensor result = stw_step_emit(step, op, shape, input, 2);
    stw_stride_follow(step, result, stw_shape_equal(stw_step_shape(step, a), shape) ? a : b);
    return result;
}

static void add_back(stw_step *step, stw_tensor node) {
    const stw_step_node *sum = stw_step_at(step, node);
    for (int32_t k = 0; k < sum->input_count; k++) stw_step_pass_reduced(step, sum->input[k], sum->gradient);
}

static void mul_back(stw_step *step, stw_tensor node) {
    const stw_step_node *product = stw_step_at(step, node);
    for (int32_t k = 1; k >= 0; k--) {
        if (!stw_step_wants(step, product->input[k])) continue;
        stw_step_pass_reduced(step, product->input[k], stw_step_mul(step, product->gradient, product->input[1 - k]));
    }
}

stw_tensor stw_step_add(stw_step *step, stw_tensor a, stw_tensor b) {
    static const stw_step_op op = {"add", add_back};
    return binary(step, &op, a, b);
}

stw_tensor stw_step_add_in_place(stw_step *step, stw_tensor a, stw_tensor b) {
    static const stw_step_op op = {"add_", add_back};
    return binary(step, &op, a, b);
}

stw_tensor stw_step_mul(stw_step *step, stw_tensor a, stw_tensor b) {
    static const stw_step_op op = {"mul", mul_back};
    return binary(step, &op, a, b);
}

static void scale_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), stw_step_scale(step, stw_step_gradient(step, node)));
}

static void divide_back(stw_step *step, stw_tensor node) {
    stw_step_pass(step, stw_step_operand(step, node, 0), stw_step_divide(step, stw_step_gradient(step, node)));
}

/* The exponent less one, times the exponent, times the gradient. */
static void power_back(stw_step *step, stw_tensor node) {
    const stw_tensor x = stw_step_operand(step, node, 0);
    const stw_tensor slope = stw_step_scale(step, stw_step_power(step, x));
    stw_step_pass(step, x, stw_step_mul(step, stw_step_gradient(step, node), slope));
}

stw_tensor stw_step_shift(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"add", add_back};
    return unary(step, &op, x);
}

stw_tensor stw_step_scale(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"mul", scale_back};
    return unary(step, &op, x);
}

stw_tensor stw_step_divide(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"div", divide_back};
    return unary(step, &op, x);
}

stw_tensor stw_step_power(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"pow", power_back};
    return unary(step, &op, x);
}

/* A derivative that reads the gradient and one more tensor. */
static void pass_through(stw_step *step, stw_tensor node, const stw_step_op *op, stw_tensor other) {
    stw_step_pass(step, stw_step_operand(step, node, 0), binary(step, op, stw_step_gradient(step, node), other));
}

static void sigmoid_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"sigmoid_backward", NULL};
    pass_through(step, node, &op, stw_step_saved(step, node));
}

static void tanh_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"tanh_backward", NULL};
    pass_through(step, node, &op, stw_step_saved(step, node));
}

static void relu_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"threshold_backward", NULL};
    pass_through(step, node, &op, stw_step_saved(step, node));
}

static void gelu_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"gelu_backward", NULL};
    pass_through(step, node, &op, stw_step_operand(step, node, 0));
}

static void silu_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"silu_backward", NULL};
    pass_through(step, node, &op, stw_step_operand(step, node, 0));
}

stw_tensor stw_step_sigmoid(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"sigmoid", sigmoid_back};
    return stw_step_save(step, unary(step, &op, x));
}

stw_tensor stw_step_tanh(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"tanh", tanh_back};
    return stw_step_save(step, unary(step, &op, x));
}

stw_tensor stw_step_relu(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"relu", relu_back};
    return stw_step_save(step, unary(step, &op, x));
}

stw_tensor stw_step_relu_in_place(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"relu_", relu_back};
    return stw_step_save(step, unary(step, &op, x));
}

stw_tensor stw_step_gelu(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"gelu", gelu_back};
    return unary(step, &op, x);
}

stw_tensor stw_step_silu(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"silu", silu_back};
    return unary(step, &op, x);
}

stw_tensor stw_step_dropout(stw_step *step, stw_tensor x) {
    static const stw_step_op room = {"empty_like", NULL}, draw = {"bernoulli_", NULL}, rescale = {"div_", NULL};
    return stw_step_mul(step, x, unary(step, &rescale, unary(step, &draw, unary(step, &room, x))));
}
