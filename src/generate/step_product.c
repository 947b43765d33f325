/* Products of matrices. */
#include "generate/step_parts.h"

static int64_t product_flops(stw_step *step, int64_t batch, int64_t rows, int64_t inner, int64_t columns) {
    const int64_t factor[] = {2, batch, rows, inner, columns};
    return stw_step_product(step, factor, 5);
}

/* A transposed view of a matrix that lies row by row. */
static bool is_transposed(const stw_step *step, stw_tensor x) {
    const stw_step_node *node = stw_step_at(step, x);
    return node->stride[0] == 1 && node->stride[1] == node->shape[0];
}

static stw_tensor step_mm(stw_step *step, stw_tensor a, stw_tensor b);

/* The gradient of an operand of a @ b, laid out as the operand is. */
static stw_tensor left_gradient(stw_step *step, stw_tensor a, stw_tensor b, stw_tensor gradient) {
    if (is_transposed(step, a)) return stw_step_t(step, step_mm(step, b, stw_step_t(step, gradient)));
    return step_mm(step, gradient, stw_step_t(step, b));
}

static stw_tensor right_gradient(stw_step *step, stw_tensor a, stw_tensor b, stw_tensor gradient) {
    if (is_transposed(step, b)) return stw_step_t(step, step_mm(step, stw_step_t(step, gradient), a));
    return step_mm(step, stw_step_t(step, a), gradient);
}

static void mm_back(stw_step *step, stw_tensor node) {
    const stw_step_node *product = stw_step_at(step, node);
    const stw_tensor a = product->input[0], b = product->input[1];
    if (stw_step_wants(step, b)) stw_step_pass(step, b, right_gradient(step, a, b, product->gradient));
    if (stw_step_wants(step, a)) stw_step_pass(step, a, left_gradient(step, a, b, product->gradient));
}

/* An op that multiplies the last two of its inputs. */
static stw_tensor multiply(stw_step *step, const stw_step_op *op, const stw_tensor *input, int32_t count) {
    const int64_t *left = stw_step_at(step, input[count - 2])->shape, *right = stw_step_at(step, input[count - 1])->shape;
    if (left[1] != right[0]) stw_step_fail(step, "internal: a product of matrices that do not fit");
    const stw_tensor result = stw_step_emit(step, op, STW_SHAPE(left[0], right[1]), input, count);
    stw_step_set_flops(step, result, product_flops(step, 1, left[0], left[1], right[1]));
    return result;
}

static stw_tensor step_mm(stw_step *step, stw_tensor a, stw_tensor b) {
    static const stw_step_op op = {"mm", mm_back};
    return multiply(step, &op, (const stw_tensor[]){a, b}, 2);
}

static void addmm_back(stw_step *step, stw_tensor node) {
    const stw_step_node *product = stw_step_at(step, node);
    const stw_tensor bias = product->input[0], a = product->input[1], b = product->input[2];
    if (stw_step_wants(step, a)) stw_step_pass(step, a, left_gradient(step, a, b, product->gradient));
    if (stw_step_wants(step, b)) stw_step_pass(step, b, right_gradient(step, a, b, product->gradient));
    stw_step_pass_reduced(step, bias, product->gradient);
}

stw_tensor stw_step_addmm(stw_step *step, stw_tensor bias, stw_tensor a, stw_tensor b) {
    static const stw_step_op op = {"addmm", addmm_back};
    return multiply(step, &op, (const stw_tensor[]){bias, a, b}, 3);
}

static void bmm_back(stw_step *step, stw_tensor node) {
    const stw_step_node *product = stw_step_at(step, node);
    const stw_tensor a = product->input[0], b = product->input[1];
    if (stw_step_wants(step, b)) {
        stw_step_pass(step, b, stw_step_bmm(step, stw_step_transpose(step, a, 1, 2), product->gradient));
    }
    if (stw_step_wants(step, a)) {
        stw_step_pass(step, a, stw_step_bmm(step, product->gradient, stw_step_transpose(step, b, 1, 2)));
    }
}

stw_tensor stw_step_bmm(stw_step *step, stw_tensor a, stw_tensor b) {
    static const stw_step_op op = {"bmm", bmm_back};
    const stw_tensor input[] = {a, b};
    const int64_t *left = stw_step_at(step, a)->shape, *right = stw_step_at(step, b)->shape;
    if (left[0] != right[0] || left[2] != right[1]) stw_step_fail(step, "internal: a product of matrices that do not fit");
    const stw_tensor result = stw_step_emit(step, &op, STW_SHAPE(left[0], left[1], right[2]), input, 2);
    stw_step_set_flops(step, result, product_flops(step, left[0], left[1], left[2], right[2]));
    return result;
}

stw_tensor stw_step_matmul(stw_step *step, stw_tensor a, stw_tensor b) {
    const stw_shape left = stw_step_shape(step, a), right = stw_step_shape(step, b);
    const int64_t batch = left.size[0] * left.size[1];
    const stw_tensor flat_a =
        stw_step_reshape(step, stw_step_expand(step, a, left), STW_SHAPE(batch, left.size[2], left.size[3]));
    const stw_tensor flat_b =
        stw_step_reshape(step, stw_step_expand(step, b, right), STW_SHAPE(batch, right.size[2], right.size[3]));
    return stw_step_unsafe_view(step, stw_step_bmm(step, flat_a, flat_b),
                                STW_SHAPE(left.size[0], left.size[1], left.size[2], right.size[3]));
}

stw_linear stw_linear_create(stw_step *step, int64_t in, int64_t out, bool with_bias, const char *label) {
    stw_linear linear = {.bias = STW_NO_TENSOR};
    linear.weight = stw_step_parameter(step, STW_SHAPE(out, in), stw_step_label(step, "%s.weight", label));
    if (with_bias) linear.bias = stw_step_parameter(step, STW_SHAPE(out), stw_step_label(step, "%s.bias", label));
    return linear;
}

/* More than two dimensions: the first ones as one. */
stw_tensor stw_step_linear(stw_step *step, stw_tensor x, stw_linear linear) {
    stw_shape shape = stw_step_shape(step, x);
    const int64_t in = shape.size[shape.rank > 0 ? shape.rank - 1 : 0];
    const bool flat = shape.rank == 2, with_bias = linear.bias != STW_NO_TENSOR;
    if (step->failed) return 0;
    const stw_tensor rows = flat ? x : stw_step_reshape(step, x, STW_SHAPE(stw_shape_elements(shape) / in, in));
    const stw_tensor weight = stw_step_t(step, linear.weight);
    const stw_tensor result = with_bias ? stw_step_addmm(step, linear.bias, rows, weight) : step_mm(step, rows, weight);
    shape.size[shape.rank - 1] = stw_step_at(step, weight)->shape[1];
    if (flat) return result;
    return with_bias ? stw_step_view(step, result, shape) : stw_step_unsafe_view(step, result, shape);
}
