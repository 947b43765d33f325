/* Rules of ONNX operators that make something from nothing: constants, shapes, ranges. */
#include <math.h>

#include "import/onnx/onnx_rules.h"

enum { RANK = STW_ONNX_MAX_RANK };

static void put_scalar(stw_onnx_call *c, int32_t dtype, double value) {
    if (stw_onnx_put(c, 0, dtype, 0, NULL)) stw_onnx_put_content(c, 0, &value, 1);
}

/* The value stands in one of several attributes. */
bool stw_onnx_rule_constant(stw_onnx_call *c) {
    stw_onnx_reader *r = c->eval->reader;
    if (c->output_count == 0) return false;
    stw_onnx_value *out = c->output[0];
    stw_str name = out->name; /* for messages; the tensor may have its own */
    const stw_onnx_attribute value = stw_onnx_find(c->eval, c->node, "value");
    const stw_onnx_attribute sparse = stw_onnx_find(c->eval, c->node, "sparse_value");
    const stw_onnx_attribute one_int = stw_onnx_find(c->eval, c->node, "value_int");
    const stw_onnx_attribute one_float = stw_onnx_find(c->eval, c->node, "value_float");
    const int32_t s64 = stw_onnx_dtype_named("s64");
    int64_t ints[STW_ONNX_MAX_CONTENT], count = 0;
    double floats[STW_ONNX_MAX_CONTENT];
    if (value.found) {
        stw_onnx_read_tensor(r, stw_pb_range(&r->file, value.tensor, value.depth + 1), out, &name, c->eval->arena);
    } else if (sparse.found) {
        stw_onnx_read_sparse(r, stw_pb_range(&r->file, sparse.sparse, sparse.depth + 1), out, &name, c->eval->arena);
    } else if (one_int.found) {
        put_scalar(c, s64, (double)one_int.i);
    } else if (one_float.found) {
        put_scalar(c, STW_DTYPE_F32, one_float.f);
    } else if ((count = stw_onnx_ints(c, "value_ints", ints, STW_ONNX_MAX_CONTENT)) >= 0) {
        for (int64_t k = 0; k < count && k < STW_ONNX_MAX_CONTENT; k++) floats[k] = (double)ints[k];
        if (stw_onnx_put(c, 0, s64, 1, &count)) stw_onnx_put_content(c, 0, floats, count);
    } else if ((count = stw_onnx_floats(c, "value_floats", floats, STW_ONNX_MAX_CONTENT)) >= 0) {
        if (stw_onnx_put(c, 0, STW_DTYPE_F32, 1, &count)) stw_onnx_put_content(c, 0, floats, count);
    } else { /* text */
        out->dtype = STW_DTYPE_NONE;
    }
    stw_onnx_mark_stored(out);
    return !r->file.failed;
}

/* Of a stored shape it is a weight that was left out of the file; of a computed one it is a constant. */
bool stw_onnx_rule_constant_of_shape(stw_onnx_call *c) {
    stw_onnx_reader *r = c->eval->reader;
    const stw_onnx_value *from = stw_onnx_in(c, 0);
    const stw_onnx_attribute value = stw_onnx_find(c->eval, c->node, "value");
    stw_onnx_value one = {.dtype = STW_DTYPE_F32, .rank = STW_UNKNOWN};
    stw_str name = c->output_count > 0 ? c->output[0]->name : (stw_str){0};
    int64_t shape[RANK];
    const int64_t rank = stw_onnx_numbers(c, 0, shape, RANK);
    if (value.found) stw_onnx_read_tensor(r, stw_pb_range(&r->file, value.tensor, value.depth + 1), &one, &name, c->eval->arena);
    if (r->file.failed || rank < 0 || rank > RANK || c->output_count == 0 || !stw_onnx_put(c, 0, one.dtype, rank, shape))
        return false;
    const int64_t elements = stw_onnx_elements(c->output[0]);
    const double fill = one.content != NULL && stw_onnx_elements(&one) == 1 ? one.content[0] : 0.0;
    double content[STW_ONNX_MAX_CONTENT];
    for (int64_t i = 0; i < elements && i < STW_ONNX_MAX_CONTENT; i++) content[i] = fill;
    if (elements <= STW_ONNX_MAX_CONTENT && stw_onnx_is_integer(one.dtype)) stw_onnx_put_content(c, 0, content, elements);
    if (from->stored)
        stw_onnx_mark_stored(c->output[0]);
    else
        c->output[0]->source = STW_ONNX_CONSTANT;
    return true;
}

bool stw_onnx_rule_range(stw_onnx_call *c) {
    const stw_onnx_value *in[3] = {stw_onnx_in(c, 0), stw_onnx_in(c, 1), stw_onnx_in(c, 2)};
    for (int k = 0; k < 3; k++) {
        if (in[k] == NULL || in[k]->content == NULL || stw_onnx_elements(in[k]) != 1) return false;
    }
    const double begin = in[0]->content[0], step = in[2]->content[0];
    const int64_t count = stw_onnx_round(fmax(ceil((in[1]->content[0] - begin) / step), 0.0));
    if (!stw_onnx_put(c, 0, in[0]->dtype, 1, &count)) return false;
    double content[STW_ONNX_MAX_CONTENT];
    for (int64_t i = 0; i < count && i < STW_ONNX_MAX_CONTENT; i++) content[i] = begin + (double)i * step;
    if (count <= STW_ONNX_MAX_CONTENT) stw_onnx_put_content(c, 0, content, count);
    return true;
}

bool stw_onnx_rule_shape(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    double content[RANK];
    if (x == NULL) return false;
    int64_t begin = stw_onnx_int(c, "start", 0), end = stw_onnx_int(c, "end", x->rank);
    if (begin < 0) begin = begin < -x->rank ? 0 : begin + x->rank;
    if (end < 0) end = end < -x->rank ? 0 : end + x->rank;
    if (end > x->rank) end = x->rank;
    const int64_t count = end > begin ? end - begin : 0;
    for (int64_t d = 0; d < count; d++) content[d] = (double)x->shape[begin + d];
    if (!stw_onnx_put(c, 0, stw_onnx_dtype_named("s64"), 1, &count)) return false;
    stw_onnx_put_content(c, 0, content, count);
    return true;
}

bool stw_onnx_rule_size(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    if (x == NULL) return false;
    put_scalar(c, stw_onnx_dtype_named("s64"), (double)stw_onnx_elements(x));
    return true;
}

bool stw_onnx_rule_random(stw_onnx_call *c) {
    int64_t shape[RANK];
    const int64_t rank = stw_onnx_ints(c, "shape", shape, RANK);
    return rank >= 0 && rank <= RANK && stw_onnx_put(c, 0, stw_onnx_dtype(stw_onnx_int(c, "dtype", 1)), rank, shape);
}

bool stw_onnx_rule_like_with_dtype(stw_onnx_call *c) {
    const stw_onnx_value *x = stw_onnx_shaped(c, 0);
    const int64_t code = stw_onnx_int(c, "dtype", 0);
    return x != NULL && stw_onnx_put(c, 0, code != 0 ? stw_onnx_dtype(code) : x->dtype, x->rank, x->shape);
}
