/* Rules of ONNX operators that only look at their input in another shape. Numbers that are known are handed on. */
#include "import/onnx_rules.h"

enum { RANK = STW_ONNX_MAX_RANK };

/* The output's numbers are the input's, in the same order. */
static bool hand_on(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_in(c, 0);
    if (x->content != NULL) stw_onnx_put_content(c, 0, x->content, stw_onnx_elements(x));
    return true;
}

bool stw_onnx_rule_identity(stw_onnx_call *c) {
    c->is_view = true;
    return stw_onnx_put_like(c, 0, stw_onnx_in(c, 0)) && hand_on(c);
}

/* 0 keeps a dimension (unless allowzero), -1 takes what is left. */
static bool fill_shape(const stw_onnx_value *x, int64_t *shape, int64_t rank, bool allow_zero) {
    int64_t open = -1, rest = 1;
    for (int64_t d = 0; d < rank; d++) {
        if (shape[d] == 0 && !allow_zero) {
            if (d >= x->rank) return false;
            shape[d] = x->shape[d];
        }
        if (shape[d] == -1 && open < 0)
            open = d;
        else if (shape[d] < 0)
            return false;
        else
            rest = stw_onnx_multiply(rest, shape[d]);
    }
    if (open >= 0) shape[open] = rest > 0 ? stw_onnx_elements(x) / rest : 0;
    return true;
}

bool stw_onnx_rule_reshape(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t shape[RANK];
    c->is_view = true;
    const int64_t rank = stw_onnx_list(c, "shape", 1, shape, RANK);
    if (x == NULL || rank < 0 || rank > RANK) return false;
    if (!fill_shape(x, shape, rank, stw_onnx_int(c, "allowzero", 0) != 0)) return false;
    return stw_onnx_put(c, 0, x->dtype, rank, shape) && hand_on(c);
}

bool stw_onnx_rule_squeeze(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t axes[RANK], shape[RANK], axis = 0, rank = 0;
    bool gone[RANK] = {false};
    c->is_view = true;
    const int64_t count = stw_onnx_list(c, "axes", 1, axes, RANK);
    if (x == NULL || count > RANK || (count < 0 && stw_onnx_in(c, 1) != NULL)) return false;
    for (int64_t k = 0; k < count; k++) {
        if (!stw_onnx_axis(axes[k], x->rank, &axis)) return false;
        gone[axis] = true;
    }
    for (int32_t d = 0; d < x->rank; d++) {
        if (!(count < 0 ? x->shape[d] == 1 : gone[d])) shape[rank++] = x->shape[d];
    }
    return stw_onnx_put(c, 0, x->dtype, rank, shape) && hand_on(c);
}

bool stw_onnx_rule_unsqueeze(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t axes[RANK], shape[RANK], axis = 0;
    bool added[RANK] = {false};
    c->is_view = true;
    const int64_t count = stw_onnx_list(c, "axes", 1, axes, RANK);
    if (x == NULL || count < 0 || count + x->rank > RANK) return false;
    const int64_t rank = x->rank + count;
    for (int64_t k = 0; k < count; k++) {
        if (!stw_onnx_axis(axes[k], rank, &axis) || added[axis]) return false;
        added[axis] = true;
    }
    for (int64_t d = 0, from = 0; d < rank; d++) shape[d] = added[d] ? 1 : x->shape[from++];
    return stw_onnx_put(c, 0, x->dtype, rank, shape) && hand_on(c);
}

bool stw_onnx_rule_flatten(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t axis = stw_onnx_int(c, "axis", 1), shape[2] = {1, 1};
    c->is_view = true;
    if (x == NULL || axis < -x->rank || axis > x->rank) return false;
    if (axis < 0) axis += x->rank;
    for (int32_t d = 0; d < x->rank; d++) shape[d >= axis] = stw_onnx_multiply(shape[d >= axis], x->shape[d]);
    return stw_onnx_put(c, 0, x->dtype, 2, shape) && hand_on(c);
}
