/* Normalization over features, groups of channels, and batches. */
#include "generate/step_parts.h"

stw_norm stw_norm_create(stw_step *step, int64_t channels, const char *label) {
    stw_norm norm = {.mean = STW_NO_TENSOR, .variance = STW_NO_TENSOR, .batches = STW_NO_TENSOR};
    norm.weight = stw_step_parameter(step, STW_SHAPE(channels), stw_step_label(step, "%s.weight", label));
    norm.bias = stw_step_parameter(step, STW_SHAPE(channels), stw_step_label(step, "%s.bias", label));
    return norm;
}

stw_norm stw_batch_norm_create(stw_step *step, int64_t channels, const char *label) {
    stw_norm norm = stw_norm_create(step, channels, label);
    norm.mean = stw_step_buffer(step, STW_SHAPE(channels), stw_step_label(step, "%s.running_mean", label));
    norm.variance = stw_step_buffer(step, STW_SHAPE(channels), stw_step_label(step, "%s.running_var", label));
    norm.batches = stw_step_int_buffer(step, (stw_shape){0}, stw_step_label(step, "%s.num_batches_tracked", label));
    return norm;
}

/* The result, the mean and the reciprocal deviation. */
static void emit_norm(stw_step *step, const stw_step_op *op, const stw_tensor *input, int32_t count, stw_shape moments,
                      stw_tensor *out) {
    const stw_shape shapes[] = {stw_step_shape(step, input[0]), moments, moments};
    const int32_t dtypes[] = {STW_DTYPE_F32, STW_DTYPE_F32, STW_DTYPE_F32};
    stw_step_emit_outputs(step, op, input, count, shapes, dtypes, 3, out);
}

/* The gradients of x, weight and bias. */
static void pass_norm(stw_step *step, stw_tensor node, const stw_step_op *op, const stw_tensor *input, int32_t count) {
    const stw_step_node *norm = stw_step_at(step, node);
    const stw_shape channels = stw_step_shape(step, norm->input[1]);
    const stw_shape shapes[] = {stw_step_shape(step, norm->input[0]), channels, channels};
    const int32_t dtypes[] = {STW_DTYPE_F32, STW_DTYPE_F32, STW_DTYPE_F32};
    stw_tensor out[3] = {0};
    stw_step_emit_outputs(step, op, input, count, shapes, dtypes, 3, out);
    for (int32_t k = 0; k < 3; k++) stw_step_pass(step, norm->input[k], out[k]);
}

static void layer_norm_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"native_layer_norm_backward", NULL};
    const stw_tensor *x = stw_step_at(step, node)->input;
    const stw_tensor input[] = {stw_step_gradient(step, node + 1), x[0], node + 2, node + 3, x[1], x[2]};
    pass_norm(step, node, &op, input, 6);
}

stw_tensor stw_step_layer_norm(stw_step *step, stw_tensor x, stw_norm norm) {
    static const stw_step_op op = {"native_layer_norm", layer_norm_back};
    const stw_tensor input[] = {x, norm.weight, norm.bias};
    stw_shape moments = stw_step_shape(step, x);
    if (moments.rank > 0) moments.size[moments.rank - 1] = 1;
    stw_tensor out[3] = {0};
    emit_norm(step, &op, input, 3, moments, out);
    return out[0];
}

static void group_norm_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"native_group_norm_backward", NULL};
    const stw_tensor *x = stw_step_at(step, node)->input;
    const stw_tensor mean = stw_step_saved(step, node + 2), deviation = stw_step_saved(step, node + 3);
    const stw_tensor input[] = {stw_step_gradient(step, node + 1), x[0], mean, deviation, x[1]};
    pass_norm(step, node, &op, input, 5);
}

stw_tensor stw_step_group_norm(stw_step *step, stw_tensor x, int64_t groups, stw_norm norm) {
    static const stw_step_op op = {"native_group_norm", group_norm_back};
    const stw_tensor input[] = {x, norm.weight, norm.bias};
    stw_tensor out[3] = {0};
    emit_norm(step, &op, input, 3, STW_SHAPE(stw_step_at(step, x)->shape[0], groups), out);
    for (int32_t k = 1; k < 3; k++) stw_step_save(step, out[k]);
    return out[0];
}

static void batch_norm_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"native_batch_norm_backward", NULL};
    const stw_tensor *x = stw_step_at(step, node)->input;
    const stw_tensor input[] = {stw_step_gradient(step, node + 1), x[0], x[1], x[3], x[4], node + 2, node + 3};
    pass_norm(step, node, &op, input, 7);
}

stw_tensor stw_step_batch_norm(stw_step *step, stw_tensor x, stw_norm norm) {
    static const stw_step_op op = {"native_batch_norm", batch_norm_back}, count = {"add_", NULL}, room = {"empty", NULL};
    const stw_tensor input[] = {x, norm.weight, norm.bias, norm.mean, norm.variance};
    stw_tensor out[3] = {0};
    stw_step_emit_typed(step, &count, (stw_shape){0}, step->dtype_s64, &norm.batches, 1);
    stw_step_emit_typed(step, &room, STW_SHAPE(0), step->dtype_u8, NULL, 0);
    emit_norm(step, &op, input, 5, stw_step_shape(step, norm.weight), out);
    return out[0];
}
