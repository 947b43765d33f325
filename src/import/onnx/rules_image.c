/* Rules of ONNX operators with a window: convolution, pooling; and of images. */
#include <math.h>

#include "import/onnx/onnx_rules.h"

enum { RANK = STW_ONNX_MAX_RANK };
#define LARGEST ((int64_t)1 << 30) /* of strides, pads and their like, so that their products stay in 63 bits */

typedef struct { /* per spatial dimension */
    int64_t kernel[RANK], stride[RANK], dilation[RANK], before[RANK], after[RANK];
    int64_t count;
} window;

static bool read_list(const stw_onnx_call *c, const char *name, int64_t count, int64_t otherwise, int64_t *out) {
    for (int64_t k = 0; k < count; k++) out[k] = otherwise;
    const int64_t found = stw_onnx_ints(c, name, out, count);
    for (int64_t k = 0; k < count; k++) {
        if (out[k] < 0 || out[k] > LARGEST) return false;
    }
    return found < 0 || found == count;
}

/* Reads all but the kernel, which convolutions have from their weights. */
static bool read_window(const stw_onnx_call *c, const stw_onnx_value *x, window *w) {
    int64_t pads[2 * RANK];
    w->count = x->rank - 2;
    if (w->count < 0 || !read_list(c, "strides", w->count, 1, w->stride) ||
        !read_list(c, "dilations", w->count, 1, w->dilation) || !read_list(c, "pads", 2 * w->count, 0, pads))
        return false;
    for (int64_t k = 0; k < w->count; k++) {
        if (w->stride[k] < 1 || w->dilation[k] < 1 || w->kernel[k] < 0 || w->kernel[k] > LARGEST) return false;
        w->before[k] = pads[k];
        w->after[k] = pads[w->count + k];
    }
    return true;
}

/* The output's size in dimension k for an input of `size`. */
static int64_t slide(const stw_onnx_call *c, const window *w, int64_t k, int64_t size, bool ceiling) {
    const stw_str automatic = stw_onnx_text(c, "auto_pad");
    const int64_t reach = (w->kernel[k] - 1) * w->dilation[k] + 1;
    if (stw_str_starts(automatic, "SAME")) return (size + w->stride[k] - 1) / w->stride[k];
    const bool valid = stw_str_is(automatic, "VALID");
    const int64_t room = size + (valid ? 0 : w->before[k] + w->after[k]) - reach;
    if (room < 0) return -1;
    int64_t places = (room + (ceiling ? w->stride[k] - 1 : 0)) / w->stride[k] + 1;
    /* A window must not begin behind the input. */
    if (ceiling && (places - 1) * w->stride[k] >= size + w->before[k]) places--;
    return places;
}

static int64_t kernel_size(const window *w) {
    int64_t size = 1;
    for (int64_t k = 0; k < w->count; k++) size = stw_onnx_multiply(size, w->kernel[k]);
    return size;
}

/* ---- convolution ---- */

/* x (N, C, ...), weights (M, C / groups, ...): output (N, M, ...), 2 C / groups x kernel each. */
static bool put_convolution(stw_onnx_call *c, const stw_onnx_value *x, const stw_onnx_value *weights, int32_t bias,
                            int32_t dtype) {
    window w = {0};
    int64_t shape[RANK];
    if (x == NULL || weights == NULL || x->rank < 3 || weights->rank != x->rank) return false;
    for (int32_t k = 0; k + 2 < x->rank; k++) w.kernel[k] = weights->shape[k + 2];
    if (!read_window(c, x, &w)) return false;
    shape[0] = x->shape[0];
    shape[1] = weights->shape[0];
    for (int64_t k = 0; k < w.count; k++) shape[k + 2] = slide(c, &w, k, x->shape[k + 2], false);
    if (!stw_onnx_put(c, 0, dtype, x->rank, shape)) return false;
    const int64_t elements = c->output_count > 0 ? stw_onnx_elements(c->output[0]) : 0;
    const int64_t each = stw_onnx_multiply(2, stw_onnx_multiply(weights->shape[1], kernel_size(&w)));
    c->flops = stw_onnx_multiply(elements, each);
    if (stw_onnx_in(c, bias) != NULL) c->flops = stw_onnx_add(c->flops, elements);
    return true;
}

bool stw_onnx_rule_convolution(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    const bool integer = stw_str_is(c->node->op, "ConvInteger");
    if (x == NULL) return false;
    return put_convolution(c, x, stw_onnx_shaped(c, 1), 2, integer ? stw_onnx_dtype_named("s32") : x->dtype);
}

bool stw_onnx_rule_convolution_quantized(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    return x != NULL && put_convolution(c, x, stw_onnx_shaped(c, 3), 8, x->dtype);
}

static bool transposed_size(const stw_onnx_call *c, const window *w, const int64_t *extra, const stw_onnx_value *x,
                            int64_t *shape) {
    int64_t wanted[RANK];
    const int64_t stated = stw_onnx_ints(c, "output_shape", wanted, RANK);
    const bool same = stw_str_starts(stw_onnx_text(c, "auto_pad"), "SAME");
    for (int64_t k = 0; k < w->count; k++) {
        const int64_t reach = (w->kernel[k] - 1) * w->dilation[k] + 1, size = x->shape[k + 2];
        if (size > STW_ONNX_MAX_DIM >> 10 || w->stride[k] > 1 << 20) return false;
        if (stated == w->count || stated == x->rank)
            shape[k] = wanted[stated - w->count + k];
        else if (same)
            shape[k] = size * w->stride[k];
        else
            shape[k] = (size - 1) * w->stride[k] + extra[k] + reach - w->before[k] - w->after[k];
    }
    return true;
}

/* x (N, C, ...), weights (C, M / groups, ...). Every input element meets every weight of its group. */
bool stw_onnx_rule_convolution_transpose(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0), *weights = stw_onnx_shaped(c, 1);
    window w = {0};
    int64_t shape[RANK], extra[RANK];
    if (x == NULL || weights == NULL || x->rank < 3 || weights->rank != x->rank) return false;
    for (int32_t k = 0; k + 2 < x->rank; k++) w.kernel[k] = weights->shape[k + 2];
    if (!read_window(c, x, &w) || !read_list(c, "output_padding", w.count, 0, extra)) return false;
    if (!transposed_size(c, &w, extra, x, shape + 2)) return false;
    const int64_t groups = stw_onnx_int(c, "group", 1);
    if (groups < 1) return false;
    shape[0] = x->shape[0];
    shape[1] = stw_onnx_multiply(weights->shape[1], groups);
    const int64_t each = stw_onnx_multiply(2, stw_onnx_multiply(weights->shape[1], kernel_size(&w)));
    c->flops = stw_onnx_multiply(stw_onnx_elements(x), each);
    return stw_onnx_put(c, 0, x->dtype, x->rank, shape);
}

/* dY, X, W give dX, dW, db: two convolutions as large as the one forward. */
bool stw_onnx_rule_convolution_grad(stw_onnx_call *c) {
    const stw_onnx_value *y = stw_onnx_shaped(c, 0), *x = stw_onnx_shaped(c, 1), *w = stw_onnx_shaped(c, 2);
    if (y == NULL || x == NULL || w == NULL || w->rank < 3) return false;
    int64_t each = 4;
    for (int32_t d = 1; d < w->rank; d++) each = stw_onnx_multiply(each, w->shape[d]);
    c->flops = stw_onnx_multiply(stw_onnx_elements(y), each);
    return stw_onnx_put_like(c, 0, x) && stw_onnx_put_like(c, 1, w) && stw_onnx_put(c, 2, w->dtype, 1, w->shape);
}

/* ---- pooling ---- */

bool stw_onnx_rule_pool(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    window w = {0};
    int64_t shape[RANK];
    if (x == NULL || x->rank < 3 || stw_onnx_ints(c, "kernel_shape", w.kernel, RANK) != x->rank - 2) return false;
    if (!read_window(c, x, &w)) return false;
    const bool ceiling = stw_onnx_int(c, "ceil_mode", 0) != 0;
    shape[0] = x->shape[0];
    shape[1] = x->shape[1];
    for (int64_t k = 0; k < w.count; k++) shape[k + 2] = slide(c, &w, k, x->shape[k + 2], ceiling);
    if (!stw_onnx_put(c, 0, x->dtype, x->rank, shape)) return false;
    if (c->output_count > 0) c->flops = stw_onnx_multiply(stw_onnx_elements(c->output[0]), kernel_size(&w));
    return stw_onnx_put(c, 1, stw_onnx_dtype_named("s64"), x->rank, shape);
}

bool stw_onnx_rule_global_pool(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t shape[RANK];
    if (x == NULL || x->rank < 2) return false;
    for (int32_t d = 0; d < x->rank; d++) shape[d] = d < 2 ? x->shape[d] : 1;
    return stw_onnx_put(c, 0, x->dtype, x->rank, shape);
}

bool stw_onnx_rule_pool_grad(stw_onnx_call *c) { return stw_onnx_put_like(c, 0, stw_onnx_in(c, 1)); }

/* ---- images ---- */

/* Scales of all dimensions, wherever the version of the operator has them. */
static int64_t read_scales(const stw_onnx_call *c, double *out) {
    const int64_t found = stw_onnx_floats(c, "scales", out, RANK);
    if (found >= 0) return found;
    for (int32_t k = 2; k >= 1; k--) {
        const stw_onnx_value *value = stw_onnx_in(c, k);
        if (value == NULL || value->content == NULL || stw_onnx_elements(value) == 0) continue;
        const int64_t count = stw_onnx_elements(value);
        for (int64_t i = 0; i < count && i < RANK; i++) out[i] = value->content[i];
        return count;
    }
    return -1;
}

bool stw_onnx_rule_resize(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t shape[RANK], axes[RANK], sizes[RANK], axis = 0;
    double scale[RANK];
    if (x == NULL) return false;
    int64_t count = stw_onnx_ints(c, "axes", axes, RANK);
    if (count > RANK) return false;
    if (count < 0) {
        count = x->rank;
        for (int64_t k = 0; k < count; k++) axes[k] = k;
    }
    for (int32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    const bool sized = stw_onnx_numbers(c, 3, sizes, RANK) == count && count > 0;
    if (!sized && read_scales(c, scale) != count) return false;
    for (int64_t k = 0; k < count; k++) {
        if (!stw_onnx_axis(axes[k], x->rank, &axis)) return false;
        shape[axis] = sized ? sizes[k] : stw_onnx_round(floor((double)x->shape[axis] * scale[k]));
    }
    return stw_onnx_put(c, 0, x->dtype, x->rank, shape);
}

static bool put_blocks(stw_onnx_call *c, bool to_space) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    const int64_t block = stw_onnx_int(c, "blocksize", 0);
    if (x == NULL || x->rank != 4 || block < 1 || block > 1 << 10) return false;
    const int64_t deep[] = {x->shape[0], stw_onnx_multiply(x->shape[1], block * block), x->shape[2] / block, x->shape[3] / block};
    const int64_t wide[] = {x->shape[0], x->shape[1] / (block * block), stw_onnx_multiply(x->shape[2], block),
                            stw_onnx_multiply(x->shape[3], block)};
    return stw_onnx_put(c, 0, x->dtype, 4, to_space ? wide : deep);
}

bool stw_onnx_rule_depth_to_space(stw_onnx_call *c) { return put_blocks(c, true); }
bool stw_onnx_rule_space_to_depth(stw_onnx_call *c) { return put_blocks(c, false); }

bool stw_onnx_rule_roi_align(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0), *regions = stw_onnx_shaped(c, 1);
    int64_t pooled[2] = {stw_onnx_int(c, "output_height", 1), stw_onnx_int(c, "output_width", 1)};
    stw_onnx_ints(c, "pooled_shape", pooled, 2);
    if (x == NULL || regions == NULL || x->rank != 4 || regions->rank < 1) return false;
    const int64_t shape[] = {regions->shape[0], x->shape[1], pooled[0], pooled[1]};
    return stw_onnx_put(c, 0, x->dtype, 4, shape);
}
