/* Shapes and strides: which reshapes are free, and how an op's result lies in memory. The rules are those of PyTorch; they decide
 * where a trace has a copy. */
#include <string.h>

#include "generate/step_parts.h"

int64_t stw_shape_elements(stw_shape shape) {
    int64_t elements = 1;
    for (int32_t k = 0; k < shape.rank; k++) elements *= shape.size[k];
    return elements;
}

bool stw_shape_equal(stw_shape a, stw_shape b) {
    if (a.rank != b.rank) return false;
    for (int32_t k = 0; k < a.rank; k++) {
        if (a.size[k] != b.size[k]) return false;
    }
    return true;
}

stw_shape stw_shape_broadcast(stw_step *step, stw_shape a, stw_shape b) {
    stw_shape out = {.rank = a.rank > b.rank ? a.rank : b.rank};
    for (int32_t k = 1; k <= out.rank; k++) { /* from the last dimension */
        const int64_t left = k <= a.rank ? a.size[a.rank - k] : 1, right = k <= b.rank ? b.size[b.rank - k] : 1;
        if (left != right && left != 1 && right != 1) stw_step_fail(step, "internal: shapes that do not broadcast");
        out.size[out.rank - k] = left == 1 ? right : left;
    }
    return out;
}

void stw_stride_contiguous(stw_shape shape, int64_t *stride) {
    int64_t next = 1;
    for (int32_t k = shape.rank - 1; k >= 0; k--) {
        stride[k] = next;
        next *= shape.size[k] > 1 ? shape.size[k] : 1;
    }
}

/* Runs of old dimensions that lie in memory as one are matched, from the last on, with runs of new ones of equal size. */
bool stw_stride_view(const stw_step *step, stw_tensor x, stw_shape shape, int64_t *stride) {
    const stw_step_node *node = stw_step_at(step, x);
    int32_t next = shape.rank - 1;
    int64_t base = node->rank > 0 ? node->stride[node->rank - 1] : 1, run = 1, made = 1;
    if (node->rank == 0) stw_stride_contiguous(shape, stride);
    for (int32_t k = node->rank - 1; k >= 0; k--) {
        run *= node->shape[k];
        const bool ends = k == 0 || (node->shape[k - 1] != 1 && node->stride[k - 1] != run * base);
        if (!ends) continue;
        while (next >= 0 && (made < run || shape.size[next] == 1)) {
            stride[next] = made * base;
            made *= shape.size[next--];
        }
        if (made != run) return false;
        if (k > 0) base = node->stride[k - 1];
        made = run = 1;
    }
    return next == -1 || node->rank == 0;
}

void stw_stride_follow(stw_step *step, stw_tensor result, stw_tensor operand) {
    if (step->failed) return;
    stw_step_node *to = stw_step_at(step, result);
    const stw_step_node *from = stw_step_at(step, operand);
    int32_t order[STW_STEP_MAX_RANK]; /* dimensions from the slowest to the fastest */
    if (from->rank != to->rank) return;
    for (int32_t k = 0; k < from->rank; k++) {
        if (from->shape[k] != to->shape[k] || (from->stride[k] == 0 && from->shape[k] > 1)) return; /* broadcast: contiguous */
        int32_t at = k;
        for (; at > 0 && from->stride[order[at - 1]] < from->stride[k] && from->shape[k] > 1; at--) order[at] = order[at - 1];
        order[at] = k;
    }
    int64_t next = 1;
    for (int32_t k = from->rank - 1; k >= 0; k--) {
        to->stride[order[k]] = next;
        next *= to->shape[order[k]];
    }
}
