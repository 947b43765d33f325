/* The second half of a step: derivatives in reverse, then a plain gradient step for each parameter. */
#include "generate/step_parts.h"

bool stw_step_wants(const stw_step *step, stw_tensor x) { return stw_step_at(step, x)->needs_gradient; }

void stw_step_pass(stw_step *step, stw_tensor x, stw_tensor gradient) {
    if (step->failed || !stw_step_wants(step, x)) return;
    if (!stw_shape_equal(stw_step_shape(step, x), stw_step_shape(step, gradient))) {
        stw_step_fail(step, "internal: a gradient of another shape than its tensor");
        return;
    }
    const stw_tensor before = stw_step_at(step, x)->gradient;
    const stw_tensor sum = before < 0 ? gradient : stw_step_add(step, before, gradient);
    stw_step_at(step, x)->gradient = sum;
}

void stw_step_pass_reduced(stw_step *step, stw_tensor x, stw_tensor gradient) {
    if (step->failed || !stw_step_wants(step, x)) return;
    const stw_shape to = stw_step_shape(step, x), from = stw_step_shape(step, gradient);
    if (!stw_shape_equal(to, from)) {
        stw_shape kept = {.rank = from.rank}; /* of the gradient's rank: 1 where x was repeated */
        for (int32_t k = 1; k <= from.rank; k++) kept.size[from.rank - k] = k <= to.rank ? to.size[to.rank - k] : 1;
        if (!stw_shape_equal(kept, from)) gradient = stw_step_sum_to(step, gradient, kept);
        if (to.rank < from.rank) gradient = stw_step_view(step, gradient, to);
    }
    stw_step_pass(step, x, gradient);
}

static bool has_gradient(const stw_step *step, stw_tensor node) {
    const int32_t outputs = stw_step_at(step, node)->output_count;
    for (int32_t k = 1; k <= outputs; k++) {
        if (stw_step_gradient(step, node + k) >= 0) return true;
    }
    return outputs == 0 && stw_step_gradient(step, node) >= 0;
}

static void differentiate(stw_step *step, stw_tensor loss) {
    static const stw_step_op ones_like = {"ones_like", NULL};
    step->loss = loss;
    step->differentiating = true;
    stw_step_pass(step, loss, stw_step_emit(step, &ones_like, stw_step_shape(step, loss), &loss, 1));
    for (stw_tensor node = loss; node >= 0 && !step->failed; node--) {
        const stw_step_node *made = stw_step_at(step, node);
        if (made->op == NULL || made->op->derivative == NULL || !made->needs_gradient) continue;
        if (has_gradient(step, node)) made->op->derivative(step, node);
    }
}

static void update(stw_step *step, stw_tensor parameter) {
    static const stw_step_op sub = {"sub", NULL};
    const stw_step_node *node = stw_step_at(step, parameter);
    if (node->gradient < 0) {
        stw_step_fail(step, "internal: the parameter %s gets no gradient", node->label);
        return;
    }
    const stw_tensor input[] = {parameter, stw_step_scale(step, node->gradient)};
    const stw_tensor result = stw_step_emit(step, &sub, stw_step_shape(step, parameter), input, 2);
    if (!step->failed) stw_step_at(step, result)->updates = parameter;
}

stw_status stw_step_finish(stw_step *step, stw_tensor loss, stw_error *error) {
    if (!step->failed) differentiate(step, loss);
    for (stw_tensor node = 0; node <= loss && !step->failed; node++) {
        if (stw_step_at(step, node)->kind == STW_NODE_PARAMETER) update(step, node);
    }
    return step->failed ? stw_fail(error, STW_ERROR_INPUT, "%s", step->error.message) : STW_OK;
}
