/* Softmax and losses. */
#include "generate/step_parts.h"

static void softmax_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"_softmax_backward_data", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0);
    const stw_tensor input[] = {stw_step_gradient(step, node), stw_step_saved(step, node)};
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), input, 2));
}

static void log_softmax_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"_log_softmax_backward_data", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0);
    const stw_tensor input[] = {stw_step_gradient(step, node), stw_step_saved(step, node)};
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), input, 2));
}

/* Its outputs, the loss and the weight that it was divided by, are the two nodes behind it. */
static void nll_loss_back(stw_step *step, stw_tensor node) {
    static const stw_step_op op = {"nll_loss_backward", NULL};
    const stw_tensor x = stw_step_operand(step, node, 0);
    const stw_tensor input[] = {stw_step_gradient(step, node + 1), x, stw_step_operand(step, node, 1), node + 2};
    stw_step_pass(step, x, stw_step_emit(step, &op, stw_step_shape(step, x), input, 4));
}

stw_tensor stw_step_softmax(stw_step *step, stw_tensor x) {
    static const stw_step_op op = {"_softmax", softmax_back};
    return stw_step_save(step, stw_step_emit(step, &op, stw_step_shape(step, x), &x, 1));
}

stw_tensor stw_step_cross_entropy(stw_step *step, stw_tensor logits, stw_tensor ids) {
    static const stw_step_op log_softmax = {"_log_softmax", log_softmax_back}, nll_loss = {"nll_loss_forward", nll_loss_back};
    const stw_shape shape = stw_step_shape(step, logits), number = {0};
    if (step->failed) return 0;
    const int64_t classes = shape.size[shape.rank - 1], rows = stw_shape_elements(shape) / classes;
    const stw_tensor flat = stw_step_reshape(step, logits, STW_SHAPE(rows, classes));
    const stw_tensor target = stw_step_reshape(step, ids, STW_SHAPE(rows));
    const stw_tensor logs = stw_step_save(step, stw_step_emit(step, &log_softmax, STW_SHAPE(rows, classes), &flat, 1));
    const stw_tensor input[] = {logs, target};
    const stw_shape shapes[] = {number, number};
    const int32_t dtypes[] = {STW_DTYPE_F32, STW_DTYPE_F32};
    stw_tensor out[2];
    stw_step_emit_outputs(step, &nll_loss, input, 2, shapes, dtypes, 2, out);
    return step->failed ? 0 : out[0];
}

stw_tensor stw_step_mean_square(stw_step *step, stw_tensor x) {
    return stw_step_mean_to(step, stw_step_power(step, x), (stw_shape){0});
}
