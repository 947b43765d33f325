/* A TensorFlow graph into nodes, with their work. */
#include "base/str.h"
#include "import/builder.h"
#include "import/tensorflow/function.h"
#include "import/tensorflow/infer.h"

/* ---- work ---- */

/* The work of TensorFlow operators; a multiply and an add count as two. */

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

/* Passes over each element: mean, variance, scale and shift; maximum, exponential, sum and division; an estimate. */
enum { NORMALIZATION_PASSES = 5 };

static int64_t flops_of(const stw_tf_graph *graph, int32_t node) {
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

/* ---- nodes ---- */

/* A TensorFlow graph into nodes: variables and large constants are parameters, what only renames a tensor is a view, what assigns
 * updates its variable. The builder's first nodes are those of the file, in its order; single outputs of an op follow as views.
 */

enum { CHAIN = 100 };                 /* views that are followed; longer chains may be cycles */
enum { LARGE_CONSTANT_BYTES = 1024 }; /* below it is no weight but a number or a shape, and lies everywhere */

typedef struct {
    stw_tf_edge of;
    int32_t node; /* the builder's, a view */
} output_part;

typedef struct {
    stw_tf_graph graph;
    stw_builder *builder;
    uint8_t *kind;       /* (node_count) stw_node_kind */
    int32_t *updated_by; /* (node_count) of variables: the op that writes it, else -1 */
    int32_t *awaited_by; /* (node_count) the last node that was made to wait for it, plus 1 */
    int64_t wait_count;
    stw_index part_index; /* by node and output */
    output_part *part;
    int64_t part_count, part_room;
    stw_error *error;
} build;

static bool is_in(stw_str op, const char *const *names) {
    for (; *names != NULL; names++) {
        if (stw_str_is(op, *names)) return true;
    }
    return false;
}

static bool is_view(stw_str op) {
    static const char *const names[] = {
        "Identity",       "RefIdentity", "IdentityN",     "StopGradient",     "PreventGradient", "EnsureShape", "Snapshot",
        "Reshape",        "ExpandDims",  "Squeeze",       "ReadVariableOp",   "Bitcast",         "Enter",       "RefEnter",
        "Exit",           "RefExit",     "NextIteration", "RefNextIteration", "LoopCond",        "_Retval",     "_DeviceRetval",
        "GuaranteeConst", NULL};
    return is_in(op, names);
}

static bool is_variable(stw_str op) {
    static const char *const names[] = {"VariableV2", "Variable", "VarHandleOp", "AutoReloadVariable", "TemporaryVariable", NULL};
    return is_in(op, names);
}

static bool is_input(stw_str op) {
    static const char *const names[] = {
        "Placeholder",         "PlaceholderV2", "PlaceholderWithDefault", "_Arg", "_DeviceArg", "IteratorGetNext",
        "IteratorGetNextSync", "InfeedDequeue", "InfeedDequeueTuple",     NULL};
    return is_in(op, names);
}

/* Nothing runs. */
static bool is_empty(stw_str op) { return stw_str_is(op, "NoOp") || stw_str_is(op, "ControlTrigger"); }

/* Only one of its outputs comes to life, so they share their bytes. */
static bool is_switch(stw_str op) { return stw_str_is(op, "Switch") || stw_str_is(op, "RefSwitch"); }

/* Sets a variable, as initializers do. */
static bool is_assignment(stw_str op) { return stw_str_is(op, "Assign") || stw_str_is(op, "AssignVariableOp"); }

/* Changes a variable, its first input. */
static bool is_update(stw_str op) {
    if (stw_str_starts(op, "Resource")) op = (stw_str){op.p + 8, op.length - 8};
    if (stw_str_starts(op, "Sparse")) op = (stw_str){op.p + 6, op.length - 6};
    if (stw_str_is(op, "ScatterNd") || stw_str_is(op, "ScatterNdNonAliasingAdd")) return false;
    return stw_str_starts(op, "Apply") || stw_str_starts(op, "AssignAdd") || stw_str_starts(op, "AssignSub") ||
           stw_str_starts(op, "Scatter");
}

static stw_node_kind kind_of(const build *b, int32_t i) {
    const stw_str op = b->graph.model->node[i].op;
    const stw_tf_value value = stw_tf_value_of(&b->graph, i, 0);
    if (is_variable(op)) return STW_NODE_PARAMETER;
    if (stw_str_is(op, "Const") || stw_str_is(op, "HostConst")) {
        return stw_tf_bytes(&b->graph, value) >= LARGE_CONSTANT_BYTES ? STW_NODE_PARAMETER : STW_NODE_CONSTANT;
    }
    if (is_input(op)) { /* a resource that comes from outside is a variable of somebody else */
        const int64_t type = stw_tf_number(b->graph.model, &b->graph.model->node[i], STW_TF_T, 0);
        return type == 20 ? STW_NODE_PARAMETER : STW_NODE_INPUT;
    }
    return is_view(op) ? STW_NODE_VIEW : STW_NODE_OP;
}

/* All outputs together; those of which nothing is known count nothing. -1 if that is all of them. */
static int64_t output_bytes(const build *b, int32_t i) {
    const stw_tf_facts *f = &b->graph.facts[i];
    const int64_t first = stw_tf_bytes(&b->graph, stw_tf_value_of(&b->graph, i, 0));
    if (f->outputs == 1 || is_switch(b->graph.model->node[i].op)) return first;
    int64_t sum = -1, rest = 0;
    for (int64_t k = 0; k < f->values.count; k++) {
        const int64_t bytes = stw_tf_bytes(&b->graph, stw_tf_value_of(&b->graph, i, k));
        if (bytes >= 0 && __builtin_add_overflow(sum < 0 ? 0 : sum, bytes, &sum)) return INT64_MAX;
    }
    if (!f->alike || first < 0 || f->outputs <= f->values.count) return sum;
    if (__builtin_mul_overflow(first, f->outputs - f->values.count, &rest)) return INT64_MAX;
    return __builtin_add_overflow(sum, rest, &sum) ? INT64_MAX : sum;
}

static stw_raw_node raw_of(const build *b, int32_t i, stw_tf_value value) {
    const stw_tf_node *n = &b->graph.model->node[i];
    return (stw_raw_node){.kind = STW_NODE_VIEW,
                          .name = n->name,
                          .op = n->op,
                          .dtype = value.dtype,
                          .shape = value.rank > 0 ? b->graph.model->dim + value.start : NULL,
                          .rank = value.rank,
                          .bytes = STW_UNKNOWN,
                          .flops = STW_UNKNOWN,
                          .moved = STW_UNKNOWN,
                          .at = n->at,
                          .op_class = STW_UNKNOWN};
}

static stw_status add_node(build *b, int32_t i) {
    const stw_tf_node *n = &b->graph.model->node[i];
    stw_raw_node raw = raw_of(b, i, stw_tf_value_of(&b->graph, i, 0));
    raw.kind = kind_of(b, i);
    if (raw.kind == STW_NODE_PARAMETER) raw.label = n->name;
    if (raw.kind == STW_NODE_OP) raw.flops = flops_of(&b->graph, i);
    if (b->graph.facts[i].body > 0) {
        raw.body = b->graph.facts[i].body;
        raw.flops = b->graph.facts[i].flops;
        raw.moved = b->graph.facts[i].moved;
        raw.op_class = STW_CLASS_CONTROL;
    }
    if (is_empty(n->op)) raw.op_class = STW_CLASS_ALIAS;
    /* A loop of Enter, Merge and Exit has one; its nodes are ops of the graph, which run once. */
    if (stw_str_is(n->op, "LoopCond")) b->graph.library->insides.open_loops++;
    raw.bytes = output_bytes(b, i);
    /* A view of unknown shape has the size of what it views. */
    if (raw.kind == STW_NODE_VIEW && raw.bytes < 0) raw.bytes = stw_tf_bytes(&b->graph, stw_tf_input(&b->graph, i, 0));
    b->kind[i] = (uint8_t)raw.kind;
    int32_t at = 0;
    return stw_builder_add(b->builder, &raw, &at, b->error);
}

/* Reading an output of IdentityN is reading the input of that number. */
static stw_tf_edge pass_through(const build *b, stw_tf_edge edge) {
    for (int steps = 0; steps < 100 && stw_str_is(b->graph.model->node[edge.from].op, "IdentityN"); steps++) {
        const stw_tf_range in = b->graph.facts[edge.from].inputs;
        if (edge.output >= in.count) break;
        edge = b->graph.edge[in.start + edge.output];
    }
    return edge;
}

static stw_status add_part(build *b, stw_tf_edge edge, int32_t *out) {
    const stw_tf_node *n = &b->graph.model->node[edge.from];
    const int length = (int)(n->name.length < 4000 ? n->name.length : 4000);
    stw_raw_node raw = raw_of(b, edge.from, stw_tf_value_of(&b->graph, edge.from, edge.output));
    raw.name = stw_str_format(b->graph.arena, "%.*s:%d", length, n->name.p, edge.output);
    raw.attributes = stw_str_format(b->graph.arena, "{\"output\": %d}", edge.output);
    raw.op = STW_STR("Identity");
    if (raw.name.p == NULL || raw.attributes.p == NULL) return stw_fail(b->error, STW_ERROR_MEMORY, "out of memory");
    TRY(stw_builder_add(b->builder, &raw, out, b->error));
    return stw_builder_input(b->builder, *out, edge.from, b->error);
}

/* The builder's node for one output of a node: itself, or a view of that output. */
static stw_status find_part(build *b, stw_tf_edge edge, int32_t *out) {
    edge = pass_through(b, edge);
    const stw_tf_node *n = &b->graph.model->node[edge.from];
    *out = edge.from;
    if (b->graph.facts[edge.from].outputs == 1 || is_switch(n->op)) return STW_OK;
    const uint64_t hash = stw_hash_pair((uint64_t)edge.from, (uint64_t)edge.output);
    int32_t k;
    for (uint32_t step = 0; (k = stw_index_next(&b->part_index, hash, &step)) >= 0;) {
        *out = b->part[k].node;
        if (b->part[k].of.from == edge.from && b->part[k].of.output == edge.output) return STW_OK;
    }
    TRY(add_part(b, edge, out));
    TRY(stw_index_add(&b->part_index, hash, (int32_t)b->part_count, b->error));
    STW_PUSH(b->graph.arena, b, part, ((output_part){edge, *out}), b->error);
    return STW_OK;
}

/* What stands behind a chain of views. Long chains, which may be cycles, are not followed to their end. */
static int32_t root_of(const build *b, int32_t i) {
    for (int steps = 0; steps < CHAIN && b->kind[i] == STW_NODE_VIEW && b->graph.facts[i].inputs.count > 0; steps++) {
        i = b->graph.edge[b->graph.facts[i].inputs.start].from;
    }
    return i;
}

enum { NEAR = 8, FEW = 4 };

/* A view that waits for something would have to be an op, with memory of its own. Where it stands near its root and waits for
 * little, its readers wait instead: the graph stays linear in the file. */
static bool hands_on_waits(const build *b, int32_t i) {
    const int64_t waits = b->graph.facts[i].control.count;
    if (b->kind[i] != STW_NODE_VIEW || waits == 0 || waits > FEW) return false;
    for (int steps = 0; steps < NEAR && b->kind[i] == STW_NODE_VIEW && b->graph.facts[i].inputs.count > 0; steps++) {
        i = b->graph.edge[b->graph.facts[i].inputs.start].from;
    }
    return b->kind[i] != STW_NODE_VIEW;
}

/* Each once. Waits that are handed on can be many more than the file has; the limit keeps memory near its size. */
static stw_status wait_for(build *b, int32_t node, int32_t for_those_of) {
    enum { LEAST = 1 << 20, PER_INPUT = 16 };
    const stw_tf_range control = b->graph.facts[for_those_of].control;
    for (int64_t k = 0; k < control.count; k++) {
        const int32_t before = b->graph.before[control.start + k];
        if (b->awaited_by[before] == node + 1) continue;
        b->awaited_by[before] = node + 1;
        TRY(stw_builder_control(b->builder, node, before, b->error));
        if (++b->wait_count <= LEAST + PER_INPUT * b->graph.model->input_count) continue;
        const stw_tf_node *n = &b->graph.model->node[node];
        char place[STW_POSITION_SIZE];
        stw_show_position(b->graph.model->source, n->at, place);
        return stw_fail(b->error, STW_ERROR_INPUT,
                        "%s: node '%.*s' (%.*s): with it, ops wait for more than %lld others through Identity and its "
                        "like; remove control inputs of those",
                        place, STW_STR_SHOW(n->name), STW_STR_SHOW(n->op), (long long)b->wait_count - 1);
    }
    return STW_OK;
}

static stw_status connect(build *b, int32_t i) {
    const stw_tf_facts *f = &b->graph.facts[i];
    if (stw_node_is_source(b->kind[i])) return STW_OK;
    const int64_t inputs = b->kind[i] == STW_NODE_VIEW && f->inputs.count > 1 ? 1 : f->inputs.count;
    for (int64_t k = 0; k < inputs; k++) {
        int32_t from = 0, behind = b->graph.edge[f->inputs.start + k].from;
        TRY(find_part(b, b->graph.edge[f->inputs.start + k], &from));
        TRY(stw_builder_input(b->builder, i, from, b->error));
        for (int steps = 0; steps < CHAIN && b->kind[i] == STW_NODE_OP && b->kind[behind] == STW_NODE_VIEW; steps++) {
            if (hands_on_waits(b, behind)) TRY(wait_for(b, i, behind));
            if (b->graph.facts[behind].inputs.count == 0) break;
            behind = b->graph.edge[b->graph.facts[behind].inputs.start].from;
        }
    }
    return hands_on_waits(b, i) ? STW_OK : wait_for(b, i, i);
}

/* Initializers come first, so that of several ops that write a variable the one that trains it counts (the last one does). */
static void mark_updates(build *b, bool (*writes)(stw_str op)) {
    for (int32_t i = 0; i < (int32_t)b->graph.model->node_count; i++) {
        if (!writes(b->graph.model->node[i].op) || b->graph.facts[i].inputs.count == 0) continue;
        const int32_t variable = root_of(b, b->graph.edge[b->graph.facts[i].inputs.start].from);
        if (b->kind[variable] != STW_NODE_PARAMETER) continue;
        const int32_t before = b->updated_by[variable];
        if (before >= 0) {
            stw_builder_update(b->builder, before, -1);
            stw_builder_colocate(b->builder, before, variable);
        }
        b->updated_by[variable] = i;
        stw_builder_update(b->builder, i, variable);
    }
}

/* `_class` lists "loc:@node": the first that is there and has a place of its own counts. */
static void colocate(build *b, int32_t i) {
    const stw_tf_model *m = b->graph.model;
    const stw_tf_attribute *list = stw_tf_find(m, &m->node[i], STW_TF__class);
    if (list == NULL || (b->kind[i] != STW_NODE_OP && b->kind[i] != STW_NODE_PARAMETER)) return;
    for (int64_t k = 0; k < list->texts.count; k++) {
        const stw_str text = m->text[list->texts.start + k];
        if (!stw_str_starts(text, "loc:@")) continue;
        const int64_t with = stw_tf_find_node(&b->graph, (stw_str){text.p + 5, text.length - 5});
        const int32_t root = with >= 0 ? root_of(b, (int32_t)with) : i;
        if (root == i || (b->kind[root] != STW_NODE_OP && b->kind[root] != STW_NODE_PARAMETER)) continue;
        stw_builder_colocate(b->builder, i, root);
        return;
    }
}

/* The returned values, or what nobody reads where nothing is returned. */
static stw_status mark_outputs(build *b) {
    const stw_tf_model *m = b->graph.model;
    bool returned = false;
    for (int32_t i = 0; i < (int32_t)m->node_count; i++) {
        if (!stw_str_is(m->node[i].op, "_Retval") && !stw_str_is(m->node[i].op, "_DeviceRetval")) continue;
        TRY(stw_builder_output(b->builder, i, b->error));
        returned = true;
    }
    for (int32_t i = 0; i < (int32_t)m->node_count && !returned; i++) {
        const bool ends = b->graph.facts[i].readers == 0 && b->kind[root_of(b, i)] == STW_NODE_OP;
        if (!ends || is_empty(m->node[i].op) || is_update(m->node[i].op) || is_assignment(m->node[i].op)) continue;
        TRY(stw_builder_output(b->builder, i, b->error));
    }
    return STW_OK;
}

static stw_status build_graph(build *b, stw_graph **out) {
    const int32_t N = (int32_t)b->graph.model->node_count;
    STW_TRY_NEW(b->graph.arena, b->kind, N, b->error);
    STW_TRY_NEW(b->graph.arena, b->updated_by, N, b->error);
    STW_TRY_NEW(b->graph.arena, b->awaited_by, N, b->error);
    TRY(stw_index_create(b->graph.arena, 0, &b->part_index, b->error));
    TRY(stw_builder_create(b->graph.arena, STW_TENSORFLOW, b->graph.ops, &b->builder, b->error));
    stw_builder_keep_insides(b->builder, &b->graph.library->insides, b->graph.function != NULL);
    stw_builder_set_text(b->builder, b->graph.model->source);
    for (int32_t i = 0; i < N; i++) {
        b->updated_by[i] = -1;
        TRY(add_node(b, i));
    }
    for (int32_t i = 0; i < N; i++) {
        TRY(connect(b, i));
        colocate(b, i);
    }
    mark_updates(b, is_assignment);
    mark_updates(b, is_update);
    TRY(mark_outputs(b));
    return stw_builder_finish(b->builder, STW_STR("graph"), STW_STR("tensorflow"), out, b->error);
}

stw_status stw_tf_build(const stw_tf_graph *graph, stw_graph **out, stw_error *error) {
    build b = {.graph = *graph, .error = error};
    return build_graph(&b, out);
}
