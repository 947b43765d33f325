/* The work of TensorFlow operators; a multiply and an add count as two. */
#include "import/graphdef_infer.h"

/* 2 a b; -1 if a factor is not known or the product too large. */
static int64_t twice(int64_t a, int64_t b) {
    int64_t product = 0;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, (int64_t)2, &product))
        return -1;
    return product;
}

static int64_t times(int64_t a, int64_t b) {
    int64_t product = 0;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

/* Labels of one operand, up to `end`; false where there is something else than one label for each dimension. */
static bool read_labels(const char *c, const char *end, const stw_tf_dims *dims, int64_t extent[52]) {
    int32_t d = 0;
    for (; c < end; c++) {
        if (*c == ' ') continue;
        const bool small = *c >= 'a' && *c <= 'z', large = *c >= 'A' && *c <= 'Z';
        if ((!small && !large) || d == dims->rank) return false;
        int64_t *known = &extent[small ? *c - 'a' : *c - 'A' + 26];
        if (*known < 0 || *known == 1) *known = dims->dim[d];
        d++;
    }
    return d == dims->rank;
}

int64_t stw_tf_einsum(const stw_tf_graph *graph, int32_t node, stw_tf_dims *out) {
    const stw_str equation = stw_tf_text(graph->model, &graph->model->node[node], STW_TF_equation);
    int64_t extent[52], work = 1;
    for (int i = 0; i < 52; i++) extent[i] = -1;
    out->rank = -1;
    if (equation.length == 0) return -1;
    const char *c = equation.p, *end = equation.p + equation.length;
    for (int64_t k = 0; k < graph->facts[node].inputs.count; k++) {
        const char *stop = c;
        while (stop < end && *stop != ',' && *stop != '-') stop++;
        const stw_tf_dims dims = stw_tf_input_dims(graph, node, k);
        if (dims.rank < 0 || stop == end || !read_labels(c, stop, &dims, extent)) return -1;
        c = stop + 1;
    }
    if (c >= end || *c != '>') return -1;
    stw_tf_dims result = {.rank = 0};
    for (c++; c < end; c++) {
        if (*c == ' ') continue;
        const bool small = *c >= 'a' && *c <= 'z', large = *c >= 'A' && *c <= 'Z';
        const int64_t one = small ? extent[*c - 'a'] : large ? extent[*c - 'A' + 26] : -1;
        if (one < 0 || result.rank == STW_TF_MAX_RANK) return -1;
        result.dim[result.rank++] = one;
    }
    *out = result;
    for (int i = 0; i < 52; i++) work = extent[i] < 0 ? work : times(work, extent[i]);
    return work;
}

static int64_t matmul_flops(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_node *n = &graph->model->node[node];
    const stw_tf_dims a = stw_tf_input_dims(graph, node, 0);
    if (stw_str_ends(n->op, "Einsum")) {
        stw_tf_dims out = {.rank = -1};
        return twice(stw_tf_einsum(graph, node, &out), 1);
    }
    if (a.rank < 2) return -1;
    const bool turned =
        stw_tf_number(graph->model, n, STW_TF_transpose_a, 0) != 0 || stw_tf_number(graph->model, n, STW_TF_adj_x, 0) != 0;
    return twice(stw_tf_elements(graph, stw_tf_value_of(graph, node, 0)), a.dim[turned ? a.rank - 2 : a.rank - 1]);
}

/* Each output of the forward pass takes one multiply-add for each weight of a filter; the gradients take as many. */
static int64_t convolution_flops(const stw_tf_graph *graph, int32_t node) {
    const stw_str op = graph->model->node[node].op;
    const bool to_input = stw_str_ends(op, "BackpropInput") || stw_str_ends(op, "BackpropInputV2");
    const bool to_filter = stw_str_ends(op, "BackpropFilter") || stw_str_ends(op, "BackpropFilterV2");
    const bool depthwise = stw_str_starts(op, "Depthwise") || stw_str_starts(op, "_FusedDepthwise");
    const stw_tf_value outputs = to_input || to_filter ? stw_tf_input(graph, node, 2) : stw_tf_value_of(graph, node, 0);
    const stw_tf_value weights = to_filter ? stw_tf_value_of(graph, node, 0) : stw_tf_input(graph, node, 1);
    const stw_tf_dims filter = stw_tf_dims_of(graph, weights);
    int64_t one = 1;
    for (int32_t d = 0; d < filter.rank - (depthwise ? 2 : 1); d++) one = times(one, filter.dim[d]);
    return filter.rank < 3 ? -1 : twice(stw_tf_elements(graph, outputs), one);
}

static int64_t pooling_flops(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_attribute *window = stw_tf_find(graph->model, &graph->model->node[node], STW_TF_ksize);
    const int64_t out = stw_tf_elements(graph, stw_tf_value_of(graph, node, 0));
    int64_t size = 1;
    if (window == NULL || stw_tf_find_rule(graph, node) != stw_tf_pooling) return out;
    for (int64_t i = 0; i < window->numbers.count; i++) size = times(size, graph->model->number[window->numbers.start + i]);
    return times(out, size);
}

/* Passes over each element: mean, variance, scale and shift; maximum, exponential, sum and division; about so many. */
enum { NORMALIZATION_PASSES = 5 };

int64_t stw_tf_flops(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_facts *f = &graph->facts[node];
    const int64_t out = stw_tf_elements(graph, stw_tf_value_of(graph, node, 0));
    const int64_t in = stw_tf_elements(graph, stw_tf_input(graph, node, 0));
    if (f->row < 0) return 0;
    switch (stw_op_table[f->row].op_class) {
        case STW_CLASS_MATMUL: return matmul_flops(graph, node);
        case STW_CLASS_CONVOLUTION: return convolution_flops(graph, node);
        case STW_CLASS_POOLING: return pooling_flops(graph, node);
        case STW_CLASS_NORMALIZATION: return times(in, NORMALIZATION_PASSES);
        case STW_CLASS_REDUCE: return in;
        case STW_CLASS_ELEMENTWISE:
            return stw_str_is(graph->model->node[node].op, "AddN") ? times(out, f->inputs.count - 1) : out;
        case STW_CLASS_RANDOM: return out;
        default: return 0;
    }
}
