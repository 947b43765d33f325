/* Shapes of a TensorFlow graph: as the file states them, else by rules from the inputs on. A dimension that the file leaves open
 * (the batch, mostly) counts as 1. */
#include <string.h>

#include "import/tensorflow/function.h"
#include "import/tensorflow/infer.h"

/* ---- inputs ---- */

/* Inputs of a TensorFlow graph (placeholders): what the file states of their shapes, and what is given instead. */

static bool is_placeholder(stw_str op) {
    static const char *const names[] = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg", "_DeviceArg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (stw_str_is(op, names[i])) return true;
    }
    return false;
}

/* By the name of the node or of its output: "x", "x:0". */
static const stw_given_shape *find_given(stw_read_options *options, stw_str name) {
    const stw_given_shape *exact = stw_given_find(options, name);
    for (int64_t k = 0; exact == NULL && k < options->given_count; k++) {
        const stw_str other = options->given[k].name;
        const bool same = other.length == name.length + 2 && stw_str_ends(other, ":0") && name.length > 0 &&
                          memcmp(other.p, name.p, (size_t)name.length) == 0;
        if (same) return stw_given_find(options, other);
    }
    return exact;
}

/* Notes a placeholder, with the shape that the file states for it; *given: the shape that it has instead, or
 * NULL. Does nothing for other nodes. */
static stw_status note_input(const stw_tf_graph *graph, int32_t node, stw_tf_shape stated, const stw_given_shape **given,
                             stw_error *error) {
    enum { RESOURCE = 20 };
    const stw_tf_node *n = &graph->model->node[node];
    stw_model_input input = {.name = n->name, .rank = stated.rank};
    *given = NULL;
    if (graph->options == NULL || graph->function != NULL || !is_placeholder(n->op)) return STW_OK;
    if (stated.rank > 0) input.dim = graph->model->dim + stated.start;
    *given = find_given(graph->options, n->name);
    if (*given != NULL) {
        TRY(stw_given_settle(graph->options, &input, *given, error));
        if ((*given)->rank > STW_TF_MAX_RANK)
            return stw_fail(error, STW_ERROR_INPUT, "--shape: '%.*s' has more than %d dimensions", STW_STR_SHOW(n->name),
                            STW_TF_MAX_RANK);
        input.name = (*given)->name;
    }
    /* A resource is somebody else's variable, not data. */
    if (*given == NULL && stw_tf_number(graph->model, n, STW_TF_T, 0) == RESOURCE) return STW_OK;
    return stw_note_input(graph->options, &input, error);
}

/* ---- shapes ---- */

/* Shapes of a TensorFlow graph: as the file states them, else by rules from the inputs on. A dimension that the file leaves open
 * (the batch, mostly) counts as 1. */

static const stw_tf_value unknown = {-1, -1, 0};

stw_tf_value stw_tf_value_of(const stw_tf_graph *graph, int32_t node, int64_t output) {
    const stw_tf_facts *f = &graph->facts[node];
    if (output < f->values.count) return graph->value[f->values.start + output];
    return f->alike && f->values.count > 0 ? graph->value[f->values.start] : unknown;
}

stw_tf_value stw_tf_input(const stw_tf_graph *graph, int32_t node, int64_t k) {
    const stw_tf_range in = graph->facts[node].inputs;
    if (k < 0 || k >= in.count) return unknown;
    const stw_tf_edge edge = graph->edge[in.start + k];
    return stw_tf_value_of(graph, edge.from, edge.output);
}

int64_t stw_tf_elements(const stw_tf_graph *graph, stw_tf_value value) {
    int64_t elements = 1;
    if (value.rank < 0) return -1;
    for (int32_t d = 0; d < value.rank; d++) {
        if (__builtin_mul_overflow(elements, graph->model->dim[value.start + d], &elements)) return -1;
    }
    return elements;
}

int64_t stw_tf_bytes(const stw_tf_graph *graph, stw_tf_value value) {
    int64_t bytes = stw_tf_elements(graph, value);
    if (bytes < 0 || value.dtype < 0) return -1;
    return __builtin_mul_overflow(bytes, stw_dtype_bytes(value.dtype), &bytes) ? -1 : bytes;
}

stw_tf_dims stw_tf_dims_of(const stw_tf_graph *graph, stw_tf_value value) {
    stw_tf_dims dims = {.rank = value.rank <= STW_TF_MAX_RANK ? value.rank : -1};
    for (int32_t d = 0; d < dims.rank; d++) dims.dim[d] = graph->model->dim[value.start + d];
    return dims;
}

stw_tf_dims stw_tf_input_dims(const stw_tf_graph *graph, int32_t node, int64_t k) {
    return stw_tf_dims_of(graph, stw_tf_input(graph, node, k));
}

stw_tf_ints stw_tf_ints_of(const stw_tf_graph *graph, stw_tf_edge edge) {
    stw_tf_ints ints = {.count = -1};
    stw_tf_fold_output(graph, edge.from, edge.output, &ints);
    if (edge.output != 0 || ints.count >= 0) return ints;
    const stw_tf_range from = graph->facts[edge.from].ints;
    for (int64_t i = 0; i < from.count; i++) ints.value[i] = graph->model->number[from.start + i];
    ints.count = from.count;
    return ints;
}

stw_tf_ints stw_tf_input_ints(const stw_tf_graph *graph, int32_t node, int64_t k) {
    const stw_tf_range in = graph->facts[node].inputs;
    if (k < 0 || k >= in.count) return (stw_tf_ints){.count = -1};
    return stw_tf_ints_of(graph, graph->edge[in.start + k]);
}

stw_tf_fact stw_tf_input_fact(const stw_tf_graph *graph, int32_t node, int64_t k) {
    const stw_tf_value value = stw_tf_input(graph, node, k);
    return (stw_tf_fact){value.dtype, stw_tf_dims_of(graph, value), stw_tf_input_ints(graph, node, k)};
}

/* Which attribute says the type of the outputs; the first that a node has. */
static int32_t stated_dtype(const stw_tf_graph *graph, int32_t node) {
    static const stw_tf_key keys[] = {STW_TF_DstT, STW_TF_out_type, STW_TF_output_type, STW_TF_dtype,
                                      STW_TF_T,    STW_TF_Tparams,  STW_TF_Tidx,        STW_TF_element_dtype};
    const stw_tf_model *m = graph->model;
    const stw_tf_attribute *value = stw_tf_find(m, &m->node[node], STW_TF_value);
    if (value != NULL && value->is_tensor) return stw_tf_dtype(value->number);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const stw_tf_attribute *a = stw_tf_find(m, &m->node[node], keys[i]);
        if (a != NULL && a->number != 0) return stw_tf_dtype(a->number);
    }
    return stw_tf_input(graph, node, 0).dtype;
}

static int32_t output_dtype(const stw_tf_graph *graph, int32_t node) {
    static const char *const truths[] = {
        "Less", "LessEqual", "Greater", "GreaterEqual", "Equal",    "NotEqual", "LogicalAnd", "LogicalOr",         "LogicalNot",
        "Any",  "All",       "IsNan",   "IsInf",        "IsFinite", "InTopK",   "InTopKV2",   "VarIsInitializedOp"};
    const stw_str op = graph->model->node[node].op;
    for (size_t i = 0; i < sizeof truths / sizeof truths[0]; i++) {
        if (stw_str_is(op, truths[i])) return stw_dtype_find(STW_STR("pred"));
    }
    const bool counts = stw_str_is(op, "Shape") || stw_str_is(op, "ShapeN") || stw_str_is(op, "Size") || stw_str_is(op, "Rank");
    if (counts) return stw_tf_dtype(stw_tf_number(graph->model, &graph->model->node[node], STW_TF_out_type, 3));
    if (stw_str_is(op, "ConcatOffset") || stw_str_is(op, "BroadcastGradientArgs")) return stw_dtype_find(STW_STR("s32"));
    if (stw_str_is(op, "ArgMax") || stw_str_is(op, "ArgMin")) {
        return stw_tf_dtype(stw_tf_number(graph->model, &graph->model->node[node], STW_TF_output_type, 9));
    }
    return stated_dtype(graph, node);
}

static stw_status push_value(stw_tf_graph *graph, stw_tf_value value, stw_error *error) {
    STW_PUSH(graph->arena, graph, value, value, error);
    return STW_OK;
}

static stw_status push_dims(stw_tf_graph *graph, const stw_tf_dims *dims, int64_t *start, stw_error *error) {
    stw_tf_model *m = graph->model;
    *start = m->dim_count;
    for (int32_t d = 0; d < dims->rank; d++) STW_PUSH(m->arena, m, dim, dims->dim[d], error);
    return STW_OK;
}

/* A shape of the file as a value; *whole tells whether every dimension is stated. Open ones become 1. */
static stw_tf_value stated_value(const stw_tf_graph *graph, stw_tf_shape shape, int32_t dtype, bool *whole) {
    int64_t *dim = graph->model->dim;
    *whole = shape.rank >= 0;
    for (int32_t d = 0; d < shape.rank; d++) *whole &= dim[shape.start + d] >= 0;
    return (stw_tf_value){dtype, shape.rank, shape.start};
}

/* The same with 1 for what is open. What the file states stays: a function is looked at once for each call. */
static stw_status close_dims(stw_tf_graph *graph, stw_tf_value *value, stw_error *error) {
    stw_tf_model *m = graph->model;
    const int64_t start = m->dim_count;
    for (int32_t d = 0; d < value->rank; d++) {
        const int64_t extent = m->dim[value->start + d];
        STW_PUSH(m->arena, m, dim, extent < 0 ? 1 : extent, error);
    }
    value->start = start;
    return STW_OK;
}

/* The list of shapes that a node states for its outputs, or NULL. */
static const stw_tf_attribute *stated_shapes(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_model *m = graph->model;
    if (stw_str_is(m->node[node].op, "VarHandleOp")) return NULL; /* those are of the handle, not of what it holds */
    const stw_tf_attribute *list = stw_tf_find(m, &m->node[node], STW_TF__output_shapes);
    return list != NULL ? list : stw_tf_find(m, &m->node[node], STW_TF_output_shapes);
}

/* Sources state one shape: a constant's tensor, else the attribute `shape`. */
static const stw_tf_attribute *source_shape(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_model *m = graph->model;
    const stw_tf_attribute *value = stw_tf_find(m, &m->node[node], STW_TF_value);
    if (value != NULL && value->is_tensor) return value;
    return graph->facts[node].inputs.count == 0 ? stw_tf_find(m, &m->node[node], STW_TF_shape) : NULL;
}

/* Output k: what the file states completely, else what was found, else the file with open dimensions as 1. */
static stw_status decide(stw_tf_graph *graph, int32_t node, int64_t k, const stw_tf_dims *found, int32_t dtype,
                         stw_error *error) {
    const stw_tf_attribute *list = stated_shapes(graph, node), *source = source_shape(graph, node);
    const stw_tf_attribute *types = stw_tf_find(graph->model, &graph->model->node[node], STW_TF_output_types);
    if (types != NULL && k < types->numbers.count) dtype = stw_tf_dtype(graph->model->number[types->numbers.start + k]);
    stw_tf_value stated = {dtype, -1, 0};
    bool whole = false;
    if (list != NULL && k < list->shapes.count) {
        stated = stated_value(graph, graph->model->shape[list->shapes.start + k], dtype, &whole);
    } else if (source != NULL && k == 0) {
        stated = stated_value(graph, source->shape, dtype, &whole);
    }
    /* Where shapes are given, what the file states further on may be of other sizes. */
    const bool distrusts = graph->options != NULL && graph->options->given_count > 0 && source == NULL;
    if ((!whole || distrusts) && found->rank >= 0) {
        int64_t start = 0;
        TRY(push_dims(graph, found, &start, error));
        return push_value(graph, (stw_tf_value){dtype, found->rank, start}, error);
    }
    if (!whole) TRY(close_dims(graph, &stated, error));
    return push_value(graph, stated, error);
}

/* A tensor's values are known if it is small and of integers. */
static void constant_ints(const stw_tf_graph *graph, int32_t node, stw_tf_ints *out) {
    const stw_tf_model *m = graph->model;
    const stw_tf_attribute *a = stw_tf_find(m, &m->node[node], STW_TF_value);
    if (a == NULL || !a->is_tensor) return;
    const int64_t elements = stw_tf_elements(graph, stw_tf_value_of(graph, node, 0));
    if (elements != a->numbers.count || elements > STW_TF_MAX_VALUES) return;
    out->count = elements;
    for (int64_t i = 0; i < elements; i++) out->value[i] = m->number[a->numbers.start + i];
}

static stw_status put_ints(stw_tf_graph *graph, int32_t node, const stw_tf_ints *ints, stw_error *error) {
    stw_tf_model *m = graph->model;
    graph->facts[node].ints = (stw_tf_range){m->number_count, ints->count};
    for (int64_t i = 0; i < ints->count; i++) STW_PUSH(m->arena, m, number, ints->value[i], error);
    return STW_OK;
}

static stw_status keep_ints(stw_tf_graph *graph, int32_t node, stw_error *error) {
    stw_tf_ints ints = {.count = -1};
    if (stw_str_is(graph->model->node[node].op, "Const")) {
        constant_ints(graph, node, &ints);
    } else {
        stw_tf_fold(graph, node, &ints);
    }
    return put_ints(graph, node, &ints, error);
}

/* What the file states of an input's only output, before open dimensions become 1. */
static stw_tf_shape stated_input(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_model *m = graph->model;
    const stw_tf_attribute *list = stated_shapes(graph, node), *own = stw_tf_find(m, &m->node[node], STW_TF_shape);
    if (list != NULL && list->shapes.count > 0) return m->shape[list->shapes.start];
    return own != NULL ? own->shape : (stw_tf_shape){0, -1};
}

static stw_status take_given(stw_tf_graph *graph, const stw_given_shape *given, stw_tf_value *value, stw_error *error) {
    stw_tf_dims dims = {.rank = given->rank};
    for (int32_t d = 0; d < given->rank; d++) dims.dim[d] = given->dim[d];
    value->rank = given->rank;
    return push_dims(graph, &dims, &value->start, error);
}

/* An argument of a function is what it is called with. */
static stw_status take_argument(stw_tf_graph *graph, int32_t node, stw_error *error) {
    const stw_tf_fact *given = &graph->argument[node];
    stw_tf_value value = {given->dtype, given->dims.rank, 0};
    TRY(push_dims(graph, &given->dims, &value.start, error));
    graph->facts[node].values = (stw_tf_range){graph->value_count, 1};
    TRY(push_value(graph, value, error));
    return put_ints(graph, node, &given->ints, error);
}

/* What runs functions gives out what they do. */
static stw_status infer_call(stw_tf_graph *graph, int32_t node, stw_error *error) {
    stw_tf_facts *f = &graph->facts[node];
    stw_tf_outcome outcome;
    TRY(stw_tf_run_functions(graph, node, &outcome, error));
    f->body = outcome.body + 1;
    f->flops = outcome.flops;
    f->moved = outcome.moved;
    f->values = (stw_tf_range){graph->value_count, outcome.count};
    if (outcome.count > f->outputs) f->outputs = outcome.count;
    for (int64_t k = 0; k < outcome.count; k++) {
        const int32_t dtype = outcome.out[k].dtype;
        TRY(decide(graph, node, k, &outcome.out[k].dims, dtype >= 0 ? dtype : output_dtype(graph, node), error));
    }
    return outcome.count > 0 ? put_ints(graph, node, &outcome.out[0].ints, error) : STW_OK;
}

static stw_status infer_node(stw_tf_graph *graph, int32_t node, stw_error *error) {
    stw_tf_facts *f = &graph->facts[node];
    if (node < graph->argument_count) return take_argument(graph, node, error);
    if (stw_tf_runs_functions(graph, node)) return infer_call(graph, node, error);
    const stw_given_shape *given = NULL;
    stw_tf_result r = {.outputs = 1};
    for (int32_t k = 0; k < STW_TF_MAX_OUTPUTS; k++) {
        r.out[k].rank = -1;
        r.dtype[k] = -1;
    }
    stw_tf_rule *rule = stw_tf_find_rule(graph, node);
    if (rule != NULL) rule(graph, node, &r);
    const stw_tf_attribute *list = stated_shapes(graph, node);
    int64_t count = r.count > 1 ? r.count : 1;
    if (list != NULL && list->shapes.count > count) count = list->shapes.count;
    const int64_t start = graph->value_count;
    TRY(note_input(graph, node, stated_input(graph, node), &given, error));
    for (int64_t k = 0; k < count; k++) {
        const bool is_found = k < r.count;
        const int32_t dtype = is_found && r.dtype[k] >= 0 ? r.dtype[k] : output_dtype(graph, node);
        TRY(decide(graph, node, k, is_found ? &r.out[k] : &(stw_tf_dims){.rank = -1}, dtype, error));
    }
    if (given != NULL) TRY(take_given(graph, given, &graph->value[start], error));
    f->values = (stw_tf_range){start, count};
    f->alike = r.alike;
    if (r.outputs > f->outputs) f->outputs = r.outputs;
    if (count > f->outputs) f->outputs = count;
    return keep_ints(graph, node, error);
}

stw_status stw_tf_infer(stw_tf_graph *graph, stw_error *error) {
    int32_t *order = NULL;
    int64_t count = 0;
    TRY(stw_tf_order(graph, &order, &count, error));
    for (int64_t i = 0; i < count; i++) TRY(infer_node(graph, order[i], error));
    return STW_OK;
}
