/* A mixture of experts: a gate sends each token to two of several feed-forward networks. Every expert takes an equal share of the
 * tokens, as training with a balanced load does. */
#include "generate/generate.h"
#include "generate/step_parts.h"

enum { CHOSEN = 2, GROWTH = 4 };

/* The (token, choice) pairs in the order of their expert, and the token of each. */
static void sort_pairs(stw_step *step, stw_tensor chosen, int64_t pairs, stw_tensor *order, stw_tensor *token) {
    static const stw_step_op sort = {"sort", NULL}, halve = {"floor_divide", NULL};
    const stw_shape shape = STW_SHAPE(pairs), shapes[] = {shape, shape};
    const int32_t dtypes[] = {step->dtype_s64, step->dtype_s64};
    const stw_tensor flat = stw_step_view(step, chosen, shape);
    stw_tensor out[2] = {0};
    stw_step_emit_outputs(step, &sort, &flat, 1, shapes, dtypes, 2, out);
    *order = out[1];
    *token = stw_step_emit_typed(step, &halve, shape, step->dtype_s64, order, 1);
}

stw_tensor stw_step_mixture(stw_step *step, stw_tensor x, int64_t experts, int64_t width, const char *label) {
    const stw_shape shape = stw_step_shape(step, x);
    const int64_t tokens = shape.size[0] * shape.size[1], share = CHOSEN * tokens / experts;
    if (share * experts != CHOSEN * tokens) {
        stw_step_fail(step, "--experts: the %lld tokens of a step, %d times, cannot be shared equally by %lld experts",
                      (long long)tokens, (int)CHOSEN, (long long)experts);
        return 0;
    }
    const stw_tensor rows = stw_step_reshape(step, x, STW_SHAPE(tokens, width));
    const stw_linear gate = stw_linear_create(step, width, experts, false, stw_step_label(step, "%s.gate", label));
    stw_tensor weight = 0, chosen = 0, order = 0, token = 0;
    stw_step_topk(step, stw_step_softmax(step, stw_step_linear(step, rows, gate)), CHOSEN, &weight, &chosen);
    sort_pairs(step, chosen, CHOSEN * tokens, &order, &token);
    weight = stw_step_view(step, weight, STW_SHAPE(CHOSEN * tokens, 1));
    stw_tensor sum = stw_step_zeros(step, rows, STW_SHAPE(tokens, width));
    for (int64_t e = 0; e < experts && !stw_step_failed(step); e++) {
        const char *name = stw_step_label(step, "%s.experts.%d", label, (int)e);
        const stw_linear inner = stw_linear_create(step, width, GROWTH * width, true, stw_step_label(step, "%s.inner", name));
        const stw_linear outer = stw_linear_create(step, GROWTH * width, width, true, stw_step_label(step, "%s.outer", name));
        const stw_tensor mine = stw_step_slice(step, token, 0, e * share, share);
        const stw_tensor pair = stw_step_slice(step, order, 0, e * share, share);
        stw_tensor y = stw_step_gelu(step, stw_step_linear(step, stw_step_index_select(step, rows, mine), inner));
        y = stw_step_mul(step, stw_step_linear(step, y, outer), stw_step_index_select(step, weight, pair));
        sum = stw_step_index_add(step, sum, mine, y);
    }
    return stw_step_view(step, sum, shape);
}
