/* Shapes of what arranges elements anew, and the small integer tensors that say where elements go. */
#include "import/tensorflow/infer.h"

/* ---- small integer tensors ---- */

/* The values of small integer tensors: the arithmetic that graphs do on shapes. */

static void add_int(stw_tf_ints *out, int64_t value) {
    if (out->count < 0) return;
    if (out->count == STW_TF_MAX_VALUES) {
        out->count = -1;
        return;
    }
    out->value[out->count++] = value;
}

static void add_all(stw_tf_ints *out, const stw_tf_ints *more) {
    if (more->count < 0) out->count = -1;
    for (int64_t i = 0; i < more->count; i++) add_int(out, more->value[i]);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool combine(stw_str op, int64_t a, int64_t b, int64_t *out) {
    const bool divides = b != 0 && !(a == INT64_MIN && b == -1);
    if (stw_str_is(op, "Mul")) return !__builtin_mul_overflow(a, b, out);
    if (stw_str_is(op, "Sub")) return !__builtin_sub_overflow(a, b, out);
    if (stw_str_is(op, "Add") || stw_str_is(op, "AddV2")) return !__builtin_add_overflow(a, b, out);
    if (stw_str_is(op, "Maximum") || stw_str_is(op, "Minimum")) {
        *out = (a > b) == stw_str_is(op, "Maximum") ? a : b;
        return true;
    }
    if (!divides) return false;
    if (stw_str_is(op, "FloorDiv") || stw_str_is(op, "RealDiv") || stw_str_is(op, "Div") || stw_str_is(op, "TruncateDiv")) {
        *out = floor_div(a, b);
        return true;
    }
    if (!stw_str_is(op, "FloorMod")) return false;
    *out = a % b;
    if (*out != 0 && (*out < 0) != (b < 0)) *out += b;
    return true;
}

/* Two tensors element by element; one of them may be a single number. */
static void fold_pair(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_ints a = stw_tf_input_ints(graph, node, 0), b = stw_tf_input_ints(graph, node, 1);
    if (a.count < 1 || b.count < 1 || (a.count != b.count && a.count != 1 && b.count != 1)) return;
    out->count = 0;
    const int64_t count = a.count > b.count ? a.count : b.count;
    for (int64_t i = 0; i < count && out->count >= 0; i++) {
        int64_t value = 0;
        const bool ok =
            combine(graph->model->node[node].op, a.value[a.count == 1 ? 0 : i], b.value[b.count == 1 ? 0 : i], &value);
        if (!ok) out->count = -1;
        add_int(out, value);
    }
}

static void fold_product(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_ints in = stw_tf_input_ints(graph, node, 0);
    int64_t product = 1;
    if (in.count < 0 || stw_tf_input_dims(graph, node, 0).rank > 1) return;
    for (int64_t i = 0; i < in.count; i++) {
        if (__builtin_mul_overflow(product, in.value[i], &product)) return;
    }
    out->count = 0;
    add_int(out, product);
}

/* The largest or the least of all. */
static void fold_extreme(const stw_tf_graph *graph, int32_t node, bool largest, stw_tf_ints *out) {
    const stw_tf_ints in = stw_tf_input_ints(graph, node, 0);
    if (in.count < 1 || stw_tf_elements(graph, stw_tf_value_of(graph, node, 0)) != 1) return;
    int64_t found = in.value[0];
    for (int64_t i = 1; i < in.count; i++) found = (in.value[i] > found) == largest ? in.value[i] : found;
    out->count = 0;
    add_int(out, found);
}

/* Elements first, first + stride, ... before last of a dimension, by the rules of slices; -1 if there is no such slice. */
static int64_t slice_length(int64_t extent, int64_t *begin, int64_t end, int64_t stride, bool from_start, bool to_end) {
    if (stride == 0 || stride == INT64_MIN || extent < 0) return -1;
    const bool forward = stride > 0;
    const int64_t low = forward ? 0 : -1, high = forward ? extent : extent - 1;
    if (*begin < 0) *begin += extent;
    if (end < 0) end += extent;
    if (from_start) *begin = forward ? 0 : extent - 1;
    if (to_end) end = forward ? extent : -1;
    *begin = *begin < low ? low : *begin > high ? high : *begin;
    end = end < low ? low : end > high ? high : end;
    const int64_t span = forward ? end - *begin : *begin - end, step = forward ? stride : -stride;
    return span <= 0 ? 0 : (span - 1) / step + 1;
}

static void fold_strided_slice(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_node *n = &graph->model->node[node];
    const stw_tf_ints in = stw_tf_input_ints(graph, node, 0), begin = stw_tf_input_ints(graph, node, 1);
    const stw_tf_ints end = stw_tf_input_ints(graph, node, 2), stride = stw_tf_input_ints(graph, node, 3);
    const bool special =
        (stw_tf_number(graph->model, n, STW_TF_ellipsis_mask, 0) | stw_tf_number(graph->model, n, STW_TF_new_axis_mask, 0)) != 0;
    if (in.count < 0 || begin.count != 1 || end.count != 1 || stride.count != 1 || special) return;
    if (stw_tf_input_dims(graph, node, 0).rank != 1) return;
    const bool single = (stw_tf_number(graph->model, n, STW_TF_shrink_axis_mask, 0) & 1) != 0;
    int64_t at = begin.value[0];
    if (single) {
        if (at < 0) at += in.count;
        if (at < 0 || at >= in.count) return;
    }
    const int64_t length = single ? 1
                                  : slice_length(in.count, &at, end.value[0], stride.value[0],
                                                 (stw_tf_number(graph->model, n, STW_TF_begin_mask, 0) & 1) != 0,
                                                 (stw_tf_number(graph->model, n, STW_TF_end_mask, 0) & 1) != 0);
    if (length < 0) return;
    out->count = 0;
    for (int64_t i = 0; i < length; i++) add_int(out, in.value[at + (length > 1 ? i * stride.value[0] : 0)]);
}

static void fold_gather(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_ints in = stw_tf_input_ints(graph, node, 0), index = stw_tf_input_ints(graph, node, 1);
    if (in.count < 0 || index.count < 0 || stw_tf_input_dims(graph, node, 0).rank != 1) return;
    out->count = 0;
    for (int64_t i = 0; i < index.count; i++) {
        if (index.value[i] < 0 || index.value[i] >= in.count) {
            out->count = -1;
            return;
        }
        add_int(out, in.value[index.value[i]]);
    }
}

static void fold_range(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_ints start = stw_tf_input_ints(graph, node, 0), limit = stw_tf_input_ints(graph, node, 1);
    const stw_tf_ints delta = stw_tf_input_ints(graph, node, 2);
    if (start.count != 1 || limit.count != 1 || delta.count != 1 || delta.value[0] != 1) return;
    int64_t length = 0;
    if (__builtin_sub_overflow(limit.value[0], start.value[0], &length) || length > STW_TF_MAX_VALUES) return;
    out->count = 0;
    for (int64_t i = 0; i < length; i++) add_int(out, start.value[0] + i);
}

static void fold_shape(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_dims dims = stw_tf_input_dims(graph, node, 0);
    if (dims.rank >= 0) out->count = 0;
    for (int32_t d = 0; d < dims.rank; d++) add_int(out, dims.dim[d]);
}

static void fold_one(stw_tf_ints *out, int64_t value) {
    if (value < 0) return;
    out->count = 0;
    add_int(out, value);
}

static void fold_list(const stw_tf_graph *graph, int32_t node, int64_t count, stw_tf_ints *out) {
    out->count = 0;
    for (int64_t k = 0; k < count && out->count >= 0; k++) {
        const stw_tf_ints more = stw_tf_input_ints(graph, node, k);
        if (stw_tf_input_dims(graph, node, k).rank > 1) out->count = -1;
        add_all(out, &more);
    }
}

static void fold_inverse(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_ints in = stw_tf_input_ints(graph, node, 0);
    for (int64_t i = 0; i < in.count; i++) {
        if (in.value[i] < 0 || in.value[i] >= in.count) return;
        out->value[in.value[i]] = i;
    }
    out->count = in.count;
}

/* The axes over which a gradient is summed, since the operand with shape `mine` was broadcast to that of `other`. */
static void broadcast_axes(const stw_tf_ints *mine, const stw_tf_ints *other, stw_tf_ints *out) {
    const int64_t rank = mine->count > other->count ? mine->count : other->count;
    if (mine->count < 0 || other->count < 0) return;
    out->count = 0;
    for (int64_t d = 0; d < rank; d++) {
        const int64_t here = d - (rank - mine->count), there = d - (rank - other->count);
        const int64_t a = here >= 0 ? mine->value[here] : 1, b = there >= 0 ? other->value[there] : 1;
        if (here < 0 || (a == 1 && b != 1)) add_int(out, d);
    }
}

void stw_tf_fold_output(const stw_tf_graph *graph, int32_t node, int64_t output, stw_tf_ints *out) {
    const stw_str op = graph->model->node[node].op;
    if (stw_str_is(op, "ShapeN")) {
        const stw_tf_dims dims = stw_tf_input_dims(graph, node, output);
        if (dims.rank >= 0) out->count = 0;
        for (int32_t d = 0; d < dims.rank; d++) add_int(out, dims.dim[d]);
    } else if (stw_str_is(op, "BroadcastGradientArgs") && output < 2) {
        const stw_tf_range in = graph->facts[node].inputs;
        stw_tf_ints shape[2] = {{.count = -1}, {.count = -1}};
        for (int64_t k = 0; k < 2 && k < in.count; k++) {
            const stw_tf_edge edge = graph->edge[in.start + k];
            if (!stw_str_is(graph->model->node[edge.from].op, "BroadcastGradientArgs"))
                shape[k] = stw_tf_input_ints(graph, node, k);
        }
        broadcast_axes(&shape[output], &shape[1 - output], out);
    }
}

static bool is_one_of(stw_str op, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (stw_str_is(op, names[i])) return true;
    }
    return false;
}

void stw_tf_fold(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    static const char *const same[] = {"Identity", "Cast",         "Reshape",  "ExpandDims",
                                       "Squeeze",  "StopGradient", "Snapshot", "EnsureShape"};
    static const char *const pair[] = {"Mul",      "Sub",     "Add", "AddV2",       "Maximum", "Minimum",
                                       "FloorDiv", "RealDiv", "Div", "TruncateDiv", "FloorMod"};
    const stw_str op = graph->model->node[node].op;
    const int64_t inputs = graph->facts[node].inputs.count;
    if (is_one_of(op, same, sizeof same / sizeof same[0])) {
        *out = stw_tf_input_ints(graph, node, 0);
    } else if (is_one_of(op, pair, sizeof pair / sizeof pair[0])) {
        fold_pair(graph, node, out);
    } else if (stw_str_is(op, "Shape")) {
        fold_shape(graph, node, out);
    } else if (stw_str_is(op, "Size")) {
        fold_one(out, stw_tf_elements(graph, stw_tf_input(graph, node, 0)));
    } else if (stw_str_is(op, "Rank")) {
        fold_one(out, stw_tf_input(graph, node, 0).rank);
    } else if (stw_str_is(op, "Prod")) {
        fold_product(graph, node, out);
    } else if (stw_str_is(op, "Max") || stw_str_is(op, "Min")) {
        fold_extreme(graph, node, stw_str_is(op, "Max"), out);
    } else if (stw_str_is(op, "Pack") && stw_tf_number(graph->model, &graph->model->node[node], STW_TF_axis, 0) == 0) {
        fold_list(graph, node, inputs, out);
    } else if (stw_str_is(op, "ConcatV2")) {
        fold_list(graph, node, inputs - 1, out);
    } else if (stw_str_is(op, "StridedSlice")) {
        fold_strided_slice(graph, node, out);
    } else if (stw_str_is(op, "Gather") || stw_str_is(op, "GatherV2")) {
        fold_gather(graph, node, out);
    } else if (stw_str_is(op, "InvertPermutation")) {
        fold_inverse(graph, node, out);
    } else if (stw_str_is(op, "Range")) {
        fold_range(graph, node, out);
    }
}

/* ---- elements arranged anew ---- */

/* Shapes of what arranges elements anew: reshapes, slices, joins. Where elements go is said by small integer tensors. */

/* The values of input k as a shape; one dimension may be -1, which `elements` then decides (-1: it may not). */
static stw_tf_dims shape_from_ints(const stw_tf_graph *graph, int32_t node, int64_t k, int64_t elements) {
    const stw_tf_ints ints = stw_tf_input_ints(graph, node, k);
    stw_tf_dims out = {.rank = -1};
    if (ints.count < 0 || ints.count > STW_TF_MAX_RANK) return out;
    int32_t open = -1;
    int64_t known = 1;
    for (int32_t d = 0; d < (int32_t)ints.count; d++) {
        out.dim[d] = ints.value[d];
        if (ints.value[d] == -1 && open < 0) {
            open = d;
        } else if (ints.value[d] < 0 || __builtin_mul_overflow(known, ints.value[d], &known)) {
            return out;
        }
    }
    if (open >= 0) {
        if (elements < 0 || known == 0) return out;
        out.dim[open] = elements / known;
    }
    out.rank = (int32_t)ints.count;
    return out;
}

void stw_tf_shape_is_first(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_give(r, shape_from_ints(graph, node, 0, -1));
}

void stw_tf_shape_is_second(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_give(r, shape_from_ints(graph, node, 1, -1));
}

void stw_tf_shape_is_third(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_give(r, shape_from_ints(graph, node, 2, -1));
}

void stw_tf_reshape(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_give(r, shape_from_ints(graph, node, 1, stw_tf_elements(graph, stw_tf_input(graph, node, 0))));
}

void stw_tf_transpose(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints order = stw_tf_input_ints(graph, node, 1);
    if (in.rank < 0 || order.count != in.rank) return;
    stw_tf_dims out = in;
    for (int32_t d = 0; d < in.rank; d++) {
        const int32_t from = stw_tf_axis(order.value[d], in.rank);
        if (from < 0) return;
        out.dim[d] = in.dim[from];
    }
    stw_tf_give(r, out);
}

void stw_tf_concatenate(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const bool axis_first = stw_str_is(graph->model->node[node].op, "Concat");
    const int64_t count = graph->facts[node].inputs.count - 1, first = axis_first ? 1 : 0;
    const stw_tf_ints at = stw_tf_input_ints(graph, node, axis_first ? 0 : count);
    stw_tf_dims out = stw_tf_input_dims(graph, node, first);
    const int32_t axis = at.count == 1 ? stw_tf_axis(at.value[0], out.rank) : -1;
    if (axis < 0) return;
    for (int64_t k = 1; k < count; k++) {
        const stw_tf_dims more = stw_tf_input_dims(graph, node, first + k);
        if (more.rank != out.rank || __builtin_add_overflow(out.dim[axis], more.dim[axis], &out.dim[axis])) return;
    }
    stw_tf_give(r, out);
}

void stw_tf_pack(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const int32_t axis = in.rank >= 0 ? stw_tf_axis(stw_tf_attribute_of(graph, node, STW_TF_axis, 0), in.rank + 1) : -1;
    if (axis >= 0) stw_tf_give(r, stw_tf_insert(in, axis, graph->facts[node].inputs.count));
}

void stw_tf_unpack(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const int32_t axis = stw_tf_axis(stw_tf_attribute_of(graph, node, STW_TF_axis, 0), in.rank);
    r->outputs = stw_tf_attribute_of(graph, node, STW_TF_num, 1);
    r->alike = true;
    if (axis >= 0) stw_tf_give(r, stw_tf_without(in, axis));
}

void stw_tf_split(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims in = stw_tf_input_dims(graph, node, 1);
    const stw_tf_ints at = stw_tf_input_ints(graph, node, 0);
    const int32_t axis = at.count == 1 ? stw_tf_axis(at.value[0], in.rank) : -1;
    r->outputs = stw_tf_attribute_of(graph, node, STW_TF_num_split, 1);
    r->alike = true;
    if (axis < 0 || r->outputs < 1) return;
    in.dim[axis] /= r->outputs;
    stw_tf_give(r, in);
}

void stw_tf_split_unevenly(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints size = stw_tf_input_ints(graph, node, 1), at = stw_tf_input_ints(graph, node, 2);
    const int32_t axis = at.count == 1 ? stw_tf_axis(at.value[0], in.rank) : -1;
    r->outputs = stw_tf_attribute_of(graph, node, STW_TF_num_split, 1);
    if (axis < 0 || size.count < 1 || size.count > STW_TF_MAX_OUTPUTS) return;
    int64_t left = in.dim[axis];
    for (int64_t k = 0; k < size.count; k++) left -= size.value[k] > 0 && size.value[k] <= left ? size.value[k] : 0;
    for (int64_t k = 0; k < size.count; k++) {
        r->out[k] = in;
        r->out[k].dim[axis] = size.value[k] >= 0 ? size.value[k] : left;
    }
    r->count = (int32_t)size.count;
}

void stw_tf_expand(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints at = stw_tf_input_ints(graph, node, 1);
    const int32_t axis = at.count == 1 && in.rank >= 0 ? stw_tf_axis(at.value[0], in.rank + 1) : -1;
    if (axis >= 0) stw_tf_give(r, stw_tf_insert(in, axis, 1));
}

void stw_tf_squeeze(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_attribute *axes = stw_tf_find(graph->model, &graph->model->node[node], STW_TF_squeeze_dims);
    const bool all = axes == NULL || axes->numbers.count == 0;
    stw_tf_dims out = {.rank = in.rank < 0 ? -1 : 0};
    for (int32_t d = 0; d < in.rank; d++) {
        bool named = false;
        for (int64_t i = 0; !all && i < axes->numbers.count; i++) {
            named |= stw_tf_axis(graph->model->number[axes->numbers.start + i], in.rank) == d;
        }
        if (in.dim[d] != 1 || !(all || named)) out.dim[out.rank++] = in.dim[d];
    }
    stw_tf_give(r, out);
}

void stw_tf_tile(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints times = stw_tf_input_ints(graph, node, 1);
    if (out.rank < 0 || times.count != out.rank) return;
    for (int32_t d = 0; d < out.rank; d++) {
        if (times.value[d] < 0 || __builtin_mul_overflow(out.dim[d], times.value[d], &out.dim[d])) return;
    }
    stw_tf_give(r, out);
}

void stw_tf_pad(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints by = stw_tf_input_ints(graph, node, 1);
    if (out.rank < 0 || by.count != 2 * (int64_t)out.rank) return;
    for (int64_t d = 0; d < out.rank; d++) {
        if (by.value[2 * d] < 0 || by.value[2 * d + 1] < 0) return;
        if (__builtin_add_overflow(out.dim[d], by.value[2 * d], &out.dim[d])) return;
        if (__builtin_add_overflow(out.dim[d], by.value[2 * d + 1], &out.dim[d])) return;
    }
    stw_tf_give(r, out);
}

void stw_tf_slice(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints begin = stw_tf_input_ints(graph, node, 1), size = stw_tf_input_ints(graph, node, 2);
    if (out.rank < 0 || size.count != out.rank) return;
    for (int32_t d = 0; d < out.rank; d++) {
        const bool rest = size.value[d] < 0;
        if (rest && (begin.count != out.rank || begin.value[d] < 0 || begin.value[d] > out.dim[d])) return;
        out.dim[d] = rest ? out.dim[d] - begin.value[d] : size.value[d];
    }
    stw_tf_give(r, out);
}

void stw_tf_strided_slice(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints begin = stw_tf_input_ints(graph, node, 1), end = stw_tf_input_ints(graph, node, 2);
    const stw_tf_ints stride = stw_tf_input_ints(graph, node, 3);
    const uint64_t ellipsis = (uint64_t)stw_tf_attribute_of(graph, node, STW_TF_ellipsis_mask, 0);
    const uint64_t fresh = (uint64_t)stw_tf_attribute_of(graph, node, STW_TF_new_axis_mask, 0);
    const uint64_t single = (uint64_t)stw_tf_attribute_of(graph, node, STW_TF_shrink_axis_mask, 0);
    const uint64_t from_start = (uint64_t)stw_tf_attribute_of(graph, node, STW_TF_begin_mask, 0);
    const uint64_t to_end = (uint64_t)stw_tf_attribute_of(graph, node, STW_TF_end_mask, 0);
    const int64_t count = begin.count;
    if (in.rank < 0 || count < 0 || count > STW_TF_MAX_RANK || end.count != count || stride.count != count) return;
    int32_t consuming = 0; /* dimensions of the input that the items stand for, the ellipsis left out */
    for (int64_t i = 0; i < count; i++) consuming += !(ellipsis >> i & 1) && !(fresh >> i & 1);
    if (consuming > in.rank) return;
    stw_tf_dims out = {.rank = 0};
    int32_t d = 0;
    for (int64_t i = 0; i <= count; i++) {
        int32_t whole = 0; /* dimensions taken as they are: at the ellipsis, or behind the last item */
        if (i == count) whole = in.rank - d;
        if (i < count && (ellipsis >> i & 1)) {
            whole = in.rank - consuming;
            if (d + whole > in.rank) return;
        }
        if (out.rank + whole + 1 > STW_TF_MAX_RANK) return;
        for (int32_t k = 0; k < whole; k++) out.dim[out.rank++] = in.dim[d++];
        if (i == count || (ellipsis >> i & 1)) continue;
        if (fresh >> i & 1) {
            out.dim[out.rank++] = 1;
            continue;
        }
        if (d == in.rank) return;
        int64_t first = begin.value[i];
        const int64_t length =
            slice_length(in.dim[d++], &first, end.value[i], stride.value[i], from_start >> i & 1, to_end >> i & 1);
        if (length < 0) return;
        if (!(single >> i & 1)) out.dim[out.rank++] = length;
    }
    stw_tf_give(r, out);
}

void stw_tf_gather(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0), index = stw_tf_input_dims(graph, node, 1);
    const bool has_axis = stw_str_is(graph->model->node[node].op, "GatherV2");
    const stw_tf_ints at = stw_tf_input_ints(graph, node, 2);
    const int32_t axis = stw_tf_axis(has_axis && at.count == 1 ? at.value[0] : 0, in.rank);
    if (axis < 0 || index.rank < 0 || (has_axis && at.count != 1)) return;
    stw_tf_dims out = stw_tf_without(in, axis);
    for (int32_t d = index.rank - 1; d >= 0; d--) out = stw_tf_insert(out, axis, index.dim[d]);
    stw_tf_give(r, out);
}

void stw_tf_one_hot(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints depth = stw_tf_input_ints(graph, node, 1);
    if (in.rank < 0 || depth.count != 1 || depth.value[0] < 0) return;
    const int32_t axis = stw_tf_axis(stw_tf_attribute_of(graph, node, STW_TF_axis, -1), in.rank + 1);
    if (axis >= 0) stw_tf_give(r, stw_tf_insert(in, axis, depth.value[0]));
}

void stw_tf_counting(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_ints start = stw_tf_input_ints(graph, node, 0), limit = stw_tf_input_ints(graph, node, 1);
    const stw_tf_ints delta = stw_tf_input_ints(graph, node, 2);
    int64_t span = 0;
    if (start.count != 1 || limit.count != 1 || delta.count != 1 || delta.value[0] < 1) return;
    if (__builtin_sub_overflow(limit.value[0], start.value[0], &span) || span < 0) return;
    stw_tf_give(r, (stw_tf_dims){.rank = 1, .dim = {span / delta.value[0] + (span % delta.value[0] != 0)}});
}
