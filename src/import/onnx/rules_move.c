/* Rules of ONNX operators that move data, or only look at it in another shape. Where the numbers are known, they move too. */
#include "import/onnx/onnx_rules.h"

enum { RANK = STW_ONNX_MAX_RANK };

/* ---- views ---- */

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

/* ---- pieces ---- */

bool stw_onnx_rule_transpose(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t order[RANK], shape[RANK], axis = 0;
    if (x == NULL) return false;
    const int64_t count = stw_onnx_ints(c, "perm", order, RANK);
    if (count >= 0 && count != x->rank) return false;
    for (int32_t d = 0; d < x->rank; d++) {
        if (!stw_onnx_axis(count < 0 ? x->rank - 1 - d : order[d], x->rank, &axis)) return false;
        shape[d] = x->shape[axis];
    }
    if (!stw_onnx_put(c, 0, x->dtype, x->rank, shape)) return false;
    if (x->rank <= 1 && x->content != NULL) stw_onnx_put_content(c, 0, x->content, stw_onnx_elements(x));
    return true;
}

/* Lists of numbers one behind the other. */
static void fold_concat(stw_onnx_call *c) {
    double content[STW_ONNX_MAX_CONTENT];
    int64_t count = 0;
    for (int32_t k = 0; k < c->node->input_count; k++) {
        const stw_onnx_value *x = c->node->input[k];
        const int64_t more = stw_onnx_elements(x);
        if (x->content == NULL || x->rank != 1 || count + more > STW_ONNX_MAX_CONTENT) return;
        for (int64_t i = 0; i < more; i++) content[count++] = x->content[i];
    }
    stw_onnx_put_content(c, 0, content, count);
}

/* ConcatTraining tells also how long each piece is. */
static bool put_lengths(stw_onnx_call *c, int64_t axis) {
    double length[STW_ONNX_MAX_CONTENT];
    const int64_t count = c->node->input_count;
    if (c->output_count < 2 || !stw_onnx_put(c, 1, stw_onnx_dtype_named("s64"), 1, &count)) return true;
    if (count > STW_ONNX_MAX_CONTENT) return true;
    for (int64_t k = 0; k < count; k++) length[k] = (double)c->node->input[k]->shape[axis];
    stw_onnx_put_content(c, 1, length, count);
    return true;
}

bool stw_onnx_rule_concat(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t shape[RANK], axis = 0;
    if (x == NULL || !stw_onnx_axis(stw_onnx_int(c, "axis", 1), x->rank, &axis)) return false; /* 1: before opset 4 */
    for (int32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    for (int32_t k = 1; k < c->node->input_count; k++) {
        const stw_onnx_value *other = stw_onnx_shaped(c, k);
        if (other == NULL || other->rank != x->rank) return false;
        shape[axis] = stw_onnx_add(shape[axis], other->shape[axis]);
    }
    if (!stw_onnx_put(c, 0, x->dtype, x->rank, shape)) return false;
    fold_concat(c);
    return put_lengths(c, axis);
}

bool stw_onnx_rule_split(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t sizes[STW_ONNX_MAX_CONTENT], shape[RANK], axis = 0, begin = 0;
    if (x == NULL || c->output_count == 0 || !stw_onnx_axis(stw_onnx_int(c, "axis", 0), x->rank, &axis)) return false;
    const int64_t count = stw_onnx_list(c, "split", 1, sizes, STW_ONNX_MAX_CONTENT);
    if (count < 0 && stw_onnx_in(c, 1) != NULL) return false;
    if (count >= 0 && (count != c->output_count || count > STW_ONNX_MAX_CONTENT)) return false;
    const int64_t even = (x->shape[axis] + c->output_count - 1) / c->output_count;
    for (int32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    for (int32_t k = 0; k < c->output_count; k++) {
        const int64_t left = x->shape[axis] - begin;
        shape[axis] = count >= 0 ? sizes[k] : even < left ? even : left;
        if (shape[axis] < 0 || shape[axis] > left || !stw_onnx_put(c, k, x->dtype, x->rank, shape)) return false;
        if (x->content != NULL && x->rank == 1) stw_onnx_put_content(c, k, x->content + begin, shape[axis]);
        begin += shape[axis];
    }
    return true;
}

typedef struct {
    int64_t begin, end, step, count;
} range;

static int64_t between(int64_t least, int64_t x, int64_t most) { return x < least ? least : x > most ? most : x; }

/* Bounds count from the end when negative and are cut to the dimension: forwards to [0, size], backwards the first to
 * [0, size - 1] and the end to [-1, size - 1]. */
static bool clip_range(int64_t size, range *r) {
    if (r->step == 0 || r->step == INT64_MIN) return false;
    const bool forwards = r->step > 0;
    if (r->begin < 0) r->begin = r->begin < -size ? -1 : r->begin + size;
    if (r->end < 0) r->end = r->end < -size ? -1 : r->end + size;
    r->begin = between(0, r->begin, forwards ? size : size - 1);
    r->end = between(forwards ? 0 : -1, r->end, forwards ? size : size - 1);
    const int64_t distance = forwards ? r->end - r->begin : r->begin - r->end, step = forwards ? r->step : -r->step;
    r->count = distance > 0 && size > 0 ? (distance - 1) / step + 1 : 0;
    return true;
}

bool stw_onnx_rule_slice(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t begin[RANK], end[RANK], axes[RANK], step[RANK], shape[RANK], axis = 0;
    if (x == NULL) return false;
    const int64_t count = stw_onnx_list(c, "starts", 1, begin, RANK);
    if (count < 0 || count > x->rank || stw_onnx_list(c, "ends", 2, end, RANK) != count) return false;
    const int64_t axis_count = stw_onnx_list(c, "axes", 3, axes, RANK), step_count = stw_onnx_numbers(c, 4, step, RANK);
    if ((axis_count >= 0 && axis_count != count) || (step_count >= 0 && step_count != count)) return false;
    if ((axis_count < 0 && stw_onnx_in(c, 3) != NULL) || (step_count < 0 && stw_onnx_in(c, 4) != NULL)) return false;
    for (int32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    range r = {0};
    for (int64_t k = 0; k < count; k++) {
        if (!stw_onnx_axis(axis_count < 0 ? k : axes[k], x->rank, &axis)) return false;
        r = (range){.begin = begin[k], .end = end[k], .step = step_count < 0 ? 1 : step[k]};
        if (!clip_range(x->shape[axis], &r)) return false;
        shape[axis] = r.count;
    }
    if (!stw_onnx_put(c, 0, x->dtype, x->rank, shape)) return false;
    if (x->content == NULL || x->rank != 1 || count != 1) return true;
    double content[STW_ONNX_MAX_CONTENT];
    for (int64_t i = 0; i < r.count; i++) content[i] = x->content[r.begin + i * r.step];
    stw_onnx_put_content(c, 0, content, r.count);
    return true;
}

/* ---- indexing ---- */

static void fold_gather(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_in(c, 0), *index = stw_onnx_in(c, 1);
    double content[STW_ONNX_MAX_CONTENT];
    const int64_t count = stw_onnx_elements(index);
    if (x->content == NULL || index->content == NULL || x->rank != 1 || count > STW_ONNX_MAX_CONTENT) return;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        if (!stw_onnx_axis(stw_onnx_round(index->content[i]), x->shape[0], &at)) return;
        content[i] = x->content[at];
    }
    stw_onnx_put_content(c, 0, content, count);
}

bool stw_onnx_rule_gather(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0), *index = stw_onnx_shaped(c, 1);
    int64_t shape[2 * RANK], rank = 0, axis = 0;
    if (x == NULL || index == NULL || !stw_onnx_axis(stw_onnx_int(c, "axis", 0), x->rank, &axis)) return false;
    for (int64_t d = 0; d < axis; d++) shape[rank++] = x->shape[d];
    for (int32_t d = 0; d < index->rank; d++) shape[rank++] = index->shape[d];
    for (int64_t d = axis + 1; d < x->rank; d++) shape[rank++] = x->shape[d];
    if (!stw_onnx_put(c, 0, x->dtype, rank, shape)) return false;
    fold_gather(c);
    return true;
}

bool stw_onnx_rule_gather_elements(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_in(c, 0), *index = stw_onnx_shaped(c, 1);
    return x != NULL && index != NULL && stw_onnx_put(c, 0, x->dtype, index->rank, index->shape);
}

bool stw_onnx_rule_gather_nd(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0), *index = stw_onnx_shaped(c, 1);
    const int64_t batch = stw_onnx_int(c, "batch_dims", 0);
    int64_t shape[2 * RANK], rank = 0;
    if (x == NULL || index == NULL || index->rank < 1 || batch < 0 || batch >= index->rank) return false;
    const int64_t depth = index->shape[index->rank - 1];
    if (depth > x->rank - batch) return false;
    for (int32_t d = 0; d + 1 < index->rank; d++) shape[rank++] = index->shape[d];
    for (int64_t d = batch + depth; d < x->rank; d++) shape[rank++] = x->shape[d];
    return stw_onnx_put(c, 0, x->dtype, rank, shape);
}

/* ---- more than there was ---- */

bool stw_onnx_rule_expand(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t wanted[RANK], shape[RANK];
    const int64_t count = stw_onnx_numbers(c, 1, wanted, RANK);
    if (x == NULL || count < 0 || count > RANK) return false;
    const int64_t rank = count > x->rank ? count : x->rank;
    for (int64_t d = 0; d < rank; d++) {
        const int64_t own = d - (rank - x->rank), other = d - (rank - count);
        const int64_t a = own >= 0 ? x->shape[own] : 1, b = other >= 0 ? wanted[other] : 1;
        if (a != b && a != 1 && b != 1) return false;
        shape[d] = a == 1 ? b : a;
    }
    if (!stw_onnx_put(c, 0, x->dtype, rank, shape)) return false;
    const int64_t elements = c->output_count > 0 ? stw_onnx_elements(c->output[0]) : 0;
    if (x->content == NULL || stw_onnx_elements(x) != 1 || elements > STW_ONNX_MAX_CONTENT) return true;
    double content[STW_ONNX_MAX_CONTENT];
    for (int64_t i = 0; i < elements; i++) content[i] = x->content[0];
    stw_onnx_put_content(c, 0, content, elements);
    return true;
}

bool stw_onnx_rule_tile(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t repeats[RANK], shape[RANK];
    if (x == NULL || stw_onnx_numbers(c, 1, repeats, RANK) != x->rank) return false;
    for (int32_t d = 0; d < x->rank; d++) {
        if (repeats[d] < 0) return false;
        shape[d] = stw_onnx_multiply(x->shape[d], repeats[d]);
    }
    return stw_onnx_put(c, 0, x->dtype, x->rank, shape);
}

bool stw_onnx_rule_pad(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t pads[2 * RANK], axes[RANK], shape[RANK], axis = 0;
    if (x == NULL) return false;
    int64_t count = stw_onnx_numbers(c, 3, axes, RANK);
    if (count > RANK || (count < 0 && stw_onnx_in(c, 3) != NULL)) return false;
    if (count < 0) {
        count = x->rank;
        for (int64_t k = 0; k < count; k++) axes[k] = k;
    }
    int64_t found = stw_onnx_list(c, "pads", 1, pads, (int64_t)2 * RANK);
    if (found < 0) found = stw_onnx_ints(c, "paddings", pads, (int64_t)2 * RANK); /* opset 1 */
    if (found != 2 * count) return false;
    for (int32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    for (int64_t k = 0; k < count; k++) {
        if (!stw_onnx_axis(axes[k], x->rank, &axis)) return false;
        const int64_t before = pads[k], after = pads[count + k];
        if (before > STW_ONNX_MAX_DIM || after > STW_ONNX_MAX_DIM || before < -STW_ONNX_MAX_DIM || after < -STW_ONNX_MAX_DIM)
            return false;
        shape[axis] += before + after;
    }
    return stw_onnx_put(c, 0, x->dtype, x->rank, shape);
}

/* How many there are is in the data: at most all. */
bool stw_onnx_rule_non_zero(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL) return false;
    const int64_t shape[] = {x->rank, stw_onnx_elements(x)};
    return stw_onnx_put(c, 0, stw_onnx_dtype_named("s64"), 2, shape);
}

bool stw_onnx_rule_compress(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL) return false;
    const int64_t all = stw_onnx_elements(x);
    const bool flat = !stw_onnx_find(c->eval, c->node, "axis").found;
    return flat ? stw_onnx_put(c, 0, x->dtype, 1, &all) : stw_onnx_put_like(c, 0, x);
}

bool stw_onnx_rule_one_hot(stw_onnx_call *c) {
    const stw_onnx_value *index = stw_onnx_shaped(c, 0), *values = stw_onnx_in(c, 2);
    int64_t depth = 0, shape[RANK + 1], axis = 0;
    if (index == NULL || index->rank >= RANK || stw_onnx_numbers(c, 1, &depth, 1) < 1) return false;
    if (!stw_onnx_axis(stw_onnx_int(c, "axis", -1), index->rank + 1, &axis)) return false;
    for (int32_t d = 0, from = 0; d <= index->rank; d++) shape[d] = d == axis ? depth : index->shape[from++];
    return stw_onnx_put(c, 0, values != NULL ? values->dtype : STW_DTYPE_F32, index->rank + 1, shape);
}

/* Gradients of pieces: the whole has the shape that one of the inputs tells. */
bool stw_onnx_rule_from_shape_input(stw_onnx_call *c) {
    const bool slice = stw_str_is(c->node->op, "SliceGrad");
    const stw_onnx_value *gradient = stw_onnx_in(c, slice || stw_str_is(c->node->op, "GatherElementsGrad") ? 0 : 2);
    int64_t shape[RANK];
    const int64_t rank = stw_onnx_numbers(c, stw_str_is(c->node->op, "GatherGrad") ? 0 : 1, shape, RANK);
    return gradient != NULL && rank >= 0 && rank <= RANK && stw_onnx_put(c, 0, gradient->dtype, rank, shape);
}
