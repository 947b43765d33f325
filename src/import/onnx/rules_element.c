/* Rules of ONNX operators that work element by element, normalize or reduce. */
#include "import/onnx/onnx_rules.h"

enum { RANK = STW_ONNX_MAX_RANK };

bool stw_onnx_rule_same(stw_onnx_call *c) { return stw_onnx_put_like(c, 0, stw_onnx_in(c, 0)); }
bool stw_onnx_rule_like_second(stw_onnx_call *c) { return stw_onnx_put_like(c, 0, stw_onnx_in(c, 1)); }
bool stw_onnx_rule_predicate(stw_onnx_call *c) { return stw_onnx_put_like_as(c, 0, stw_onnx_in(c, 0), "pred"); }

static int32_t dtype_of(const stw_onnx_call *c, int32_t k) {
    return stw_onnx_in(c, k) != NULL ? stw_onnx_in(c, k)->dtype : STW_UNKNOWN;
}

static bool put_broadcast(stw_onnx_call *c, int32_t dtype) {
    int64_t shape[RANK], rank = 0;
    if (stw_onnx_broadcast(c, 0, c->node->input_count, shape, &rank)) return stw_onnx_put(c, 0, dtype, rank, shape);
    /* Before opset 7 the second operand was stretched to the first as an attribute says. */
    const stw_onnx_value *first = stw_onnx_shaped(c, 0);
    return first != NULL && stw_onnx_int(c, "broadcast", 0) != 0 && stw_onnx_put(c, 0, dtype, first->rank, first->shape);
}

bool stw_onnx_rule_broadcast(stw_onnx_call *c) { return put_broadcast(c, dtype_of(c, 0)); }
bool stw_onnx_rule_compare(stw_onnx_call *c) { return put_broadcast(c, stw_onnx_dtype_named("pred")); }
bool stw_onnx_rule_where(stw_onnx_call *c) { return put_broadcast(c, dtype_of(c, 1)); }

bool stw_onnx_rule_cast(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL) return false;
    int32_t dtype = STW_UNKNOWN;
    if (stw_str_is(c->node->op, "Cast"))
        dtype = stw_onnx_dtype(stw_onnx_int(c, "to", 0));
    else if (stw_str_is(c->node->op, "CastLike") || stw_str_is(c->node->op, "DequantizeLinear"))
        dtype = dtype_of(c, 1);
    else
        dtype = stw_onnx_in(c, 2) != NULL ? dtype_of(c, 2) : stw_onnx_dtype_named("u8");
    return stw_onnx_put(c, 0, dtype, x->rank, x->shape);
}

bool stw_onnx_rule_dynamic_quantize(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    return stw_onnx_put_like_as(c, 0, x, "u8") && stw_onnx_put(c, 1, STW_DTYPE_F32, 0, NULL) &&
           stw_onnx_put(c, 2, stw_onnx_dtype_named("u8"), 0, NULL);
}

/* Without training it hands its input on. */
bool stw_onnx_rule_dropout(stw_onnx_call *c) {
    const bool fused = !stw_str_is(c->node->op, "Dropout");
    const stw_onnx_value *mode = stw_onnx_in(c, 2);
    const bool off = mode == NULL || (mode->content != NULL && stw_onnx_elements(mode) > 0 && mode->content[0] == 0.0);
    c->is_view = !fused && off;
    return stw_onnx_put_like(c, 0, stw_onnx_in(c, 0)) && stw_onnx_put_like_as(c, 1, stw_onnx_in(c, 0), "pred");
}

/* ---- normalization ---- */

bool stw_onnx_rule_batch_normalization(stw_onnx_call *c) {
    for (int32_t k = 1; k < c->output_count; k++) stw_onnx_put_like(c, k, stw_onnx_in(c, 1));
    return stw_onnx_put_like(c, 0, stw_onnx_in(c, 0));
}

/* dY, X, scale, ... give dX, dscale, dbias. */
bool stw_onnx_rule_batch_normalization_grad(stw_onnx_call *c) {
    for (int32_t k = 1; k < c->output_count; k++) stw_onnx_put_like(c, k, stw_onnx_in(c, 2));
    return stw_onnx_put_like(c, 0, stw_onnx_in(c, 1));
}

bool stw_onnx_rule_layer_normalization_grad(stw_onnx_call *c) { return stw_onnx_rule_batch_normalization_grad(c); }

/* Mean and deviation have one number for all dimensions from the axis on. */
static bool put_statistics(stw_onnx_call *c, const stw_onnx_value *x, int64_t axis) {
    int64_t shape[RANK];
    if (!stw_onnx_axis(axis, x->rank, &axis)) return true;
    for (int32_t d = 0; d < x->rank; d++) shape[d] = d < axis ? x->shape[d] : 1;
    return stw_onnx_put(c, 1, STW_DTYPE_F32, x->rank, shape) && stw_onnx_put(c, 2, STW_DTYPE_F32, x->rank, shape);
}

bool stw_onnx_rule_layer_normalization(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL || !stw_onnx_put_like(c, 0, x)) return false;
    return c->output_count < 2 || put_statistics(c, x, stw_onnx_int(c, "axis", -1));
}

/* Input, skip, ... give output, mean, deviation, input + skip. */
bool stw_onnx_rule_skip_layer_normalization(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL || !stw_onnx_put_like(c, 0, x)) return false;
    return put_statistics(c, x, -1) && stw_onnx_put_like(c, 3, x);
}

/* Ids (B, S), segment ids, word embedding (V, D), ...: output (B, S, D), mask index (B). */
bool stw_onnx_rule_embed_layer_normalization(stw_onnx_call *c) {
    const stw_onnx_value *ids = stw_onnx_shaped(c, 0), *word = stw_onnx_shaped(c, 2);
    if (ids == NULL || word == NULL || ids->rank != 2 || word->rank != 2) return false;
    const int64_t shape[] = {ids->shape[0], ids->shape[1], word->shape[1]};
    return stw_onnx_put(c, 0, word->dtype, 3, shape) && stw_onnx_put(c, 1, stw_onnx_dtype_named("s32"), 1, shape) &&
           stw_onnx_put(c, 2, word->dtype, 3, shape);
}

bool stw_onnx_rule_local_response_normalization(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    const int64_t size = stw_onnx_int(c, "size", 1);
    if (x == NULL || size < 1) return false;
    c->flops = stw_onnx_multiply(stw_onnx_add(stw_onnx_multiply(2, size), 3), stw_onnx_elements(x));
    return stw_onnx_put_like(c, 0, x);
}

/* ---- reductions ---- */

static bool put_reduced(stw_onnx_call *c, int32_t dtype, const bool *gone, bool keep) {
    const stw_onnx_value *x = stw_onnx_in(c, 0);
    int64_t shape[RANK], rank = 0;
    for (int32_t d = 0; d < x->rank; d++) {
        if (!gone[d])
            shape[rank++] = x->shape[d];
        else if (keep)
            shape[rank++] = 1;
    }
    return stw_onnx_put(c, 0, dtype, rank, shape);
}

/* Numbers that are known and reduced to one. */
static void fold_reduction(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_in(c, 0);
    const bool product = stw_str_is(c->node->op, "ReduceProd"), sum = stw_str_is(c->node->op, "ReduceSum");
    const bool most = stw_str_is(c->node->op, "ReduceMax"), least = stw_str_is(c->node->op, "ReduceMin");
    if (x->content == NULL || !(product || sum || most || least) || stw_onnx_elements(c->output[0]) != 1) return;
    const int64_t count = stw_onnx_elements(x);
    double value = product ? 1.0 : sum || count == 0 ? 0.0 : x->content[0];
    for (int64_t i = 0; i < count; i++) {
        const double one = x->content[i];
        value = product ? value * one : sum ? value + one : (most ? one > value : one < value) ? one : value;
    }
    stw_onnx_put_content(c, 0, &value, 1);
}

bool stw_onnx_rule_reduce(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL || c->output_count == 0) return false;
    int64_t axes[RANK], axis = 0;
    int64_t count = stw_onnx_list(c, "axes", 1, axes, RANK);
    if (count > RANK || (count < 0 && stw_onnx_in(c, 1) != NULL)) return false;
    if (count <= 0 && stw_onnx_int(c, "noop_with_empty_axes", 0) != 0) return stw_onnx_put_like(c, 0, x);
    bool gone[RANK] = {false};
    for (int32_t d = 0; d < x->rank; d++) gone[d] = count <= 0;
    for (int64_t k = 0; k < count; k++) {
        if (!stw_onnx_axis(axes[k], x->rank, &axis)) return false;
        gone[axis] = true;
    }
    if (!put_reduced(c, x->dtype, gone, stw_onnx_int(c, "keepdims", 1) != 0)) return false;
    fold_reduction(c);
    return true;
}

bool stw_onnx_rule_arg_reduce(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t axis = 0;
    bool gone[RANK] = {false};
    if (x == NULL || !stw_onnx_axis(stw_onnx_int(c, "axis", 0), x->rank, &axis)) return false;
    gone[axis] = true;
    return put_reduced(c, stw_onnx_dtype_named("s64"), gone, stw_onnx_int(c, "keepdims", 1) != 0);
}

bool stw_onnx_rule_top_k(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    int64_t shape[RANK], axis = 0, k = stw_onnx_int(c, "k", -1);
    if (x == NULL || !stw_onnx_axis(stw_onnx_int(c, "axis", -1), x->rank, &axis)) return false;
    if (k < 0 && stw_onnx_numbers(c, 1, &k, 1) < 1) return false;
    for (int32_t d = 0; d < x->rank; d++) shape[d] = d == axis ? k : x->shape[d];
    return stw_onnx_put(c, 0, x->dtype, x->rank, shape) && stw_onnx_put(c, 1, stw_onnx_dtype_named("s64"), x->rank, shape);
}

/* ---- losses ---- */

static bool put_loss(stw_onnx_call *c) {
    const stw_onnx_value *scores = stw_onnx_shaped(c, 0), *labels = stw_onnx_shaped(c, 1);
    if (scores == NULL) return false;
    const bool whole = !stw_str_is(stw_onnx_text(c, "reduction"), "none");
    if (whole) return stw_onnx_put(c, 0, scores->dtype, 0, NULL);
    return labels != NULL && stw_onnx_put(c, 0, scores->dtype, labels->rank, labels->shape);
}

bool stw_onnx_rule_likelihood_loss(stw_onnx_call *c) { return put_loss(c); }
bool stw_onnx_rule_cross_entropy(stw_onnx_call *c) { return put_loss(c) && stw_onnx_put_like(c, 1, stw_onnx_in(c, 0)); }

/* ---- training in ONNX Runtime ---- */

bool stw_onnx_rule_each_like_input(stw_onnx_call *c) {
    bool known = true;
    for (int32_t k = 0; k < c->output_count; k++) known &= stw_onnx_put_like(c, k, stw_onnx_in(c, k));
    return known;
}

/* Two shapes; the axes along which each was stretched. */
bool stw_onnx_rule_broadcast_gradient_args(stw_onnx_call *c) {
    int64_t shape[2][RANK];
    int64_t count[2] = {stw_onnx_numbers(c, 0, shape[0], RANK), stw_onnx_numbers(c, 1, shape[1], RANK)};
    if (count[0] < 0 || count[1] < 0 || count[0] > RANK || count[1] > RANK) return false;
    const int64_t rank = count[0] > count[1] ? count[0] : count[1];
    for (int32_t s = 0; s < 2; s++) {
        double axes[RANK];
        int64_t found = 0;
        for (int64_t d = rank - 1; d >= 0; d--) {
            const int64_t own = d - (rank - count[s]), other = d - (rank - count[1 - s]);
            const int64_t mine = own >= 0 ? shape[s][own] : 1, theirs = other >= 0 ? shape[1 - s][other] : 1;
            if (own < 0 || (mine == 1 && theirs != 1)) axes[found++] = (double)d;
        }
        if (!stw_onnx_put(c, s, stw_onnx_dtype_named("s64"), 1, &found)) return false;
        stw_onnx_put_content(c, s, axes, found);
    }
    return true;
}

/* An operator of PyTorch by name; those that exports hold. */
bool stw_onnx_rule_aten(stw_onnx_call *c) {
    const stw_str name = stw_onnx_text(c, "operator");
    const stw_onnx_value *first = stw_onnx_shaped(c, 0), *second = stw_onnx_shaped(c, 1);
    int64_t shape[RANK], rows = 0;
    if (stw_str_is(name, "embedding") && first != NULL && second != NULL && first->rank == 2 && second->rank < RANK) {
        for (int32_t d = 0; d < second->rank; d++) shape[d] = second->shape[d];
        shape[second->rank] = first->shape[1];
        return stw_onnx_put(c, 0, first->dtype, second->rank + 1, shape);
    }
    if (stw_str_is(name, "embedding_backward") && first != NULL && first->rank > 0 && stw_onnx_numbers(c, 2, &rows, 1) == 1) {
        shape[0] = rows;
        shape[1] = first->shape[first->rank - 1];
        return stw_onnx_put(c, 0, first->dtype, 2, shape);
    }
    return false;
}
