/* What the model of a TensorFlow graph says: types, attributes by name, and which node each input comes from. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "import/tensorflow/function.h"
#include "import/tensorflow/graphdef.h"

/* ---- types ---- */

/* TensorFlow's data types. */

static const struct {
    const char *name; /* behind "DT_" */
    const char *ours; /* "none": it has no size of its own */
} types[] = {
    [1] = {"FLOAT", "f32"},
    [2] = {"DOUBLE", "f64"},
    [3] = {"INT32", "s32"},
    [4] = {"UINT8", "u8"},
    [5] = {"INT16", "s16"},
    [6] = {"INT8", "s8"},
    [7] = {"STRING", "none"},
    [8] = {"COMPLEX64", "c64"},
    [9] = {"INT64", "s64"},
    [10] = {"BOOL", "pred"},
    [11] = {"QINT8", "s8"},
    [12] = {"QUINT8", "u8"},
    [13] = {"QINT32", "s32"},
    [14] = {"BFLOAT16", "bf16"},
    [15] = {"QINT16", "s16"},
    [16] = {"QUINT16", "u16"},
    [17] = {"UINT16", "u16"},
    [18] = {"COMPLEX128", "c128"},
    [19] = {"HALF", "f16"},
    [20] = {"RESOURCE", "none"},
    [21] = {"VARIANT", "none"},
    [22] = {"UINT32", "u32"},
    [23] = {"UINT64", "u64"},
    [24] = {"FLOAT8_E5M2", "f8e5m2"},
    [25] = {"FLOAT8_E4M3FN", "f8e4m3fn"},
    [26] = {"FLOAT8_E4M3FNUZ", "f8e4m3fnuz"},
    [27] = {"FLOAT8_E4M3B11FNUZ", "f8e4m3b11fnuz"},
    [28] = {"FLOAT8_E5M2FNUZ", "f8e5m2fnuz"},
    [29] = {"INT4", "s4"},
    [30] = {"UINT4", "u4"},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0], REFERENCE = 100 };

int32_t stw_tf_dtype(int64_t type) {
    if (type > REFERENCE) type -= REFERENCE;
    return type > 0 && type < TYPE_COUNT ? stw_dtype_find(stw_str_of(types[type].ours)) : -1;
}

bool stw_tf_type_named(stw_str name, int64_t *type) {
    if (!stw_str_starts(name, "DT_")) return false;
    name = (stw_str){name.p + 3, name.length - 3};
    const bool reference = stw_str_ends(name, "_REF");
    if (reference) name.length -= 4;
    *type = 0;
    for (int64_t i = 1; i < TYPE_COUNT; i++) {
        if (stw_str_is(name, types[i].name)) *type = reference ? i + REFERENCE : i;
    }
    return true; /* a type that we do not know counts as not given */
}

/* ---- attributes by name ---- */

/* The attributes of nodes by name. */

static const char *const key_names[STW_TF_KEY_COUNT] = {
    [STW_TF_T] = "T",
    [STW_TF_dtype] = "dtype",
    [STW_TF_DstT] = "DstT",
    [STW_TF_Tparams] = "Tparams",
    [STW_TF_Tidx] = "Tidx",
    [STW_TF_out_type] = "out_type",
    [STW_TF_output_type] = "output_type",
    [STW_TF_output_types] = "output_types",
    [STW_TF_shape] = "shape",
    [STW_TF_output_shapes] = "output_shapes",
    [STW_TF__output_shapes] = "_output_shapes",
    [STW_TF__class] = "_class",
    [STW_TF_value] = "value",
    [STW_TF_strides] = "strides",
    [STW_TF_ksize] = "ksize",
    [STW_TF_dilations] = "dilations",
    [STW_TF_padding] = "padding",
    [STW_TF_explicit_paddings] = "explicit_paddings",
    [STW_TF_data_format] = "data_format",
    [STW_TF_transpose_a] = "transpose_a",
    [STW_TF_transpose_b] = "transpose_b",
    [STW_TF_adj_x] = "adj_x",
    [STW_TF_adj_y] = "adj_y",
    [STW_TF_keep_dims] = "keep_dims",
    [STW_TF_num_split] = "num_split",
    [STW_TF_num] = "num",
    [STW_TF_axis] = "axis",
    [STW_TF_squeeze_dims] = "squeeze_dims",
    [STW_TF_begin_mask] = "begin_mask",
    [STW_TF_end_mask] = "end_mask",
    [STW_TF_ellipsis_mask] = "ellipsis_mask",
    [STW_TF_new_axis_mask] = "new_axis_mask",
    [STW_TF_shrink_axis_mask] = "shrink_axis_mask",
    [STW_TF_equation] = "equation",
    [STW_TF_element_dtype] = "element_dtype",
    [STW_TF_num_elements] = "num_elements",
    [STW_TF_f] = "f",
    [STW_TF_function] = "function",
    [STW_TF_cond] = "cond",
    [STW_TF_body] = "body",
    [STW_TF_then_branch] = "then_branch",
    [STW_TF_else_branch] = "else_branch",
    [STW_TF_branches] = "branches",
    [STW_TF_Tout] = "Tout",
    [STW_TF_Targuments] = "Targuments",
};

stw_tf_key stw_tf_key_named(stw_str name) {
    int key = 0;
    while (key < STW_TF_KEY_COUNT && !stw_str_is(name, key_names[key])) key++;
    return (stw_tf_key)key;
}

const char *stw_tf_key_name(stw_tf_key key) { return key_names[key]; }

const stw_tf_attribute *stw_tf_find(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key) {
    for (int64_t i = 0; i < node->attributes.count; i++) {
        const stw_tf_attribute *a = &model->attribute[node->attributes.start + i];
        if (a->key == key) return a;
    }
    return NULL;
}

int64_t stw_tf_number(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key, int64_t otherwise) {
    const stw_tf_attribute *a = stw_tf_find(model, node, key);
    return a != NULL ? a->number : otherwise;
}

stw_str stw_tf_text(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key) {
    const stw_tf_attribute *a = stw_tf_find(model, node, key);
    return a != NULL ? a->text : (stw_str){0};
}

/* ---- names into positions ---- */

/* Names into positions: which node each input comes from. */

static stw_status fail(const stw_tf_graph *g, const stw_tf_node *n, stw_error *error, const char *what, stw_str input,
                       const char *remedy) {
    char place[STW_POSITION_SIZE];
    stw_show_position(g->model->source, n->at, place);
    return stw_fail(error, STW_ERROR_INPUT, "%s: node '%.*s' (%.*s) %s '%.*s'%s", place, STW_STR_SHOW(n->name),
                    STW_STR_SHOW(n->op), what, STW_STR_SHOW(input), remedy);
}

static stw_status index_names(stw_tf_graph *g, stw_error *error) {
    const stw_tf_model *m = g->model;
    TRY(stw_names_create(g->arena, m->node_count, &g->names, error));
    for (int64_t i = 0; i < m->node_count; i++) {
        const stw_tf_node *n = &m->node[i];
        int32_t *node;
        TRY(stw_names_enter(&g->names, 0, n->name, &node, error));
        if (*node >= 0) return fail(g, n, error, "repeats the name", n->name, "; names of nodes must be distinct");
        *node = (int32_t)i;
    }
    return STW_OK;
}

int64_t stw_tf_find_node(const stw_tf_graph *graph, stw_str name) { return stw_names_find(&graph->names, 0, name); }

/* Cuts ":k" off the name of an input. */
static bool split_output(stw_str *name, int64_t *output) {
    *output = 0;
    int64_t digits = 0;
    while (digits < name->length && name->p[name->length - 1 - digits] >= '0' && name->p[name->length - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits == name->length || name->p[name->length - 1 - digits] != ':') return true;
    const stw_str number = {name->p + name->length - digits, digits};
    name->length -= digits + 1;
    return stw_str_to_int64(number, output) && *output < INT32_MAX;
}

/* The node's part of what is read: no name has a colon in it. */
static stw_str without_output(stw_str name) {
    const char *colon = name.length > 0 ? memchr(name.p, ':', (size_t)name.length) : NULL;
    return colon != NULL ? (stw_str){name.p, (int64_t)(colon - name.p)} : name;
}

/* Within functions "node:out:k": output k of those that go by the name `out`. An argument has no more than its name. */
stw_tf_edge stw_tf_find_source(const stw_tf_graph *g, stw_str name) {
    stw_str output_name = {0};
    int64_t output = 0;
    if (g->function != NULL) {
        const stw_str node = without_output(name);
        if (node.length < name.length) output_name = (stw_str){node.p + node.length + 1, name.length - node.length - 1};
        name = node;
    }
    const bool splits = split_output(g->function != NULL ? &output_name : &name, &output);
    const int64_t from = stw_tf_find_node(g, name);
    if (from >= 0 && output_name.length > 0) output += stw_tf_first_output(g, &g->model->node[from], output_name);
    return (stw_tf_edge){(int32_t)from, splits && output < INT32_MAX ? (int32_t)output : -1};
}

static bool is_back_edge(const stw_tf_node *from, const stw_tf_node *to) {
    const bool merge = stw_str_is(to->op, "Merge") || stw_str_is(to->op, "RefMerge");
    return merge && (stw_str_is(from->op, "NextIteration") || stw_str_is(from->op, "RefNextIteration"));
}

static bool is_one_of(stw_str op, const char *names) {
    for (const char *c = names; *c != '\0';) {
        const char *end = c;
        while (*end != ' ' && *end != '\0') end++;
        if (stw_str_equal((stw_str){c, (int64_t)(end - c)}, op)) return true;
        c = *end == ' ' ? end + 1 : end;
    }
    return false;
}

/* Has the operator this output? Of those that are not listed it is not known. */
static bool has_output(const stw_tf_model *m, const stw_tf_node *n, int64_t output) {
    static const struct {
        int64_t outputs;
        const char *ops;
    } table[] = {
        {1,
         "Const HostConst Placeholder PlaceholderV2 PlaceholderWithDefault _Arg Variable VariableV2 VarHandleOp ReadVariableOp "
         "Identity StopGradient Reshape ExpandDims Squeeze Transpose Cast Shape Size Rank Pack Concat ConcatV2 Slice "
         "StridedSlice "
         "Gather GatherV2 ResourceGather Tile Pad Fill Range OneHot MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv2D "
         "Conv3D DepthwiseConv2dNative BiasAdd MaxPool AvgPool Add AddV2 AddN Sub Mul Div RealDiv Maximum Minimum Pow Neg Exp "
         "Log "
         "Sqrt Rsqrt Square Relu Relu6 Elu Selu Sigmoid Tanh Softmax LogSoftmax Sum Mean Max Min Prod ArgMax ArgMin Assign"},
        {2, "Switch RefSwitch Merge RefMerge TopKV2 SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"},
        {5, "FusedBatchNorm FusedBatchNormV2"},
        {6, "FusedBatchNormV3"},
    };
    if (output == 0) return !is_one_of(n->op, "NoOp ControlTrigger Assert _Retval AssignVariableOp");
    if (is_one_of(n->op, "Split SplitV")) return output < stw_tf_number(m, n, STW_TF_num_split, INT32_MAX);
    if (stw_str_is(n->op, "Unpack")) return output < stw_tf_number(m, n, STW_TF_num, INT32_MAX);
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        if (is_one_of(n->op, table[k].ops)) return output < table[k].outputs;
    }
    return true;
}

static stw_status fail_output(const stw_tf_graph *g, const stw_tf_node *n, const stw_tf_node *source, stw_str input,
                              stw_error *error) {
    char why[140];
    snprintf(why, sizeof why, ", but %.*s has no such output; outputs count from 0", STW_STR_SHOW(source->op));
    return fail(g, n, error, "reads", input, why);
}

/* TensorFlow refuses a node that is to stand with one that is not there. */
static stw_status check_class(const stw_tf_graph *g, const stw_tf_node *n, stw_error *error) {
    const stw_tf_attribute *list = stw_tf_find(g->model, n, STW_TF__class);
    for (int64_t k = 0; list != NULL && k < list->texts.count; k++) {
        const stw_str text = g->model->text[list->texts.start + k];
        const stw_str name = {text.p + 5, text.length - 5};
        if (stw_str_starts(text, "loc:@") && stw_tf_find_node(g, name) < 0)
            return fail(g, n, error, "is to stand with", name,
                        " (_class), which is not in the file; give the whole graph, or remove it");
    }
    return STW_OK;
}

static stw_status link_node(stw_tf_graph *g, int64_t i, int64_t *edges, int64_t *befores, stw_error *error) {
    const stw_tf_node *n = &g->model->node[i];
    stw_tf_facts *f = &g->facts[i];
    f->inputs.start = *edges;
    f->control.start = *befores;
    for (int64_t k = 0; k < n->inputs.count; k++) {
        const stw_str input = g->model->input[n->inputs.start + k];
        const bool control = input.length > 0 && input.p[0] == '^';
        const stw_str name = control ? (stw_str){input.p + 1, input.length - 1} : input;
        const stw_tf_edge source = stw_tf_find_source(g, name);
        const int64_t from = control ? stw_tf_find_node(g, name) : source.from, output = source.output;
        if (!control && output < 0) return fail(g, n, error, "reads", input, ", an output that no op has");
        if (from < 0) {
            return fail(g, n, error, control ? "waits for" : "reads", without_output(name),
                        g->function != NULL ? ", which is not in its function; give the whole function"
                                            : ", which is not in the file; give the whole graph");
        }
        if (control) {
            g->before[(*befores)++] = (int32_t)from;
        } else if (!is_back_edge(&g->model->node[from], n)) {
            const stw_tf_node *maker = &g->model->node[from];
            if (!has_output(g->model, maker, output)) return fail_output(g, n, maker, input, error);
            g->edge[(*edges)++] = (stw_tf_edge){(int32_t)from, (int32_t)output};
            g->facts[from].readers++;
            if (output >= g->facts[from].outputs) g->facts[from].outputs = output + 1;
        }
    }
    f->inputs.count = *edges - f->inputs.start;
    f->control.count = *befores - f->control.start;
    return g->function != NULL ? STW_OK : check_class(g, n, error); /* in functions TensorFlow passes over it */
}

stw_status stw_tf_link_nodes(stw_tf_graph *g, stw_error *error) {
    const stw_tf_model *model = g->model;
    STW_TRY_NEW(g->arena, g->facts, model->node_count, error);
    STW_TRY_NEW(g->arena, g->edge, model->input_count, error);
    STW_TRY_NEW(g->arena, g->before, model->input_count, error);
    TRY(index_names(g, error));
    int64_t edges = 0, befores = 0;
    for (int64_t i = 0; i < model->node_count; i++) g->facts[i].outputs = 1;
    for (int64_t i = 0; i < model->node_count; i++) {
        g->facts[i].row = stw_op_find(g->ops, STW_TENSORFLOW, model->node[i].op);
        g->facts[i].ints.count = -1;
        TRY(link_node(g, i, &edges, &befores, error));
    }
    return STW_OK;
}

stw_status stw_tf_link(stw_tf_model *model, stw_tf_graph *g, stw_error *error) {
    *g = (stw_tf_graph){.model = model, .arena = model->arena};
    TRY(stw_op_index_create(g->arena, &g->ops, error));
    return stw_tf_link_nodes(g, error);
}

stw_status stw_tf_order(const stw_tf_graph *g, int32_t **order, int64_t *count, stw_error *error) {
    const int64_t N = g->model->node_count;
    int64_t edges = 0;
    for (int64_t i = 0; i < N; i++) edges += g->facts[i].inputs.count;
    int32_t *reader, *missing, *queue;
    int64_t *place;
    STW_TRY_NEW(g->arena, reader, edges, error);
    STW_TRY_NEW(g->arena, missing, N, error);
    STW_TRY_NEW(g->arena, queue, N, error);
    STW_TRY_NEW(g->arena, place, N + 1, error);
    for (int64_t e = 0; e < edges; e++) place[g->edge[e].from + 1]++;
    for (int64_t i = 0; i < N; i++) place[i + 1] += place[i];
    for (int64_t i = N - 1; i >= 0; i--) { /* filled from the back, so that place[from] ends where its readers begin */
        const stw_tf_range in = g->facts[i].inputs;
        missing[i] = (int32_t)in.count;
        for (int64_t k = 0; k < in.count; k++) reader[--place[g->edge[in.start + k].from + 1]] = (int32_t)i;
    }
    int64_t tail = 0;
    for (int64_t i = 0; i < N; i++) {
        if (missing[i] == 0) queue[tail++] = (int32_t)i;
    }
    for (int64_t head = 0; head < tail; head++) {
        const int32_t from = queue[head];
        const int64_t first = place[from + 1], readers = g->facts[from].readers;
        for (int64_t k = 0; k < readers; k++) {
            if (--missing[reader[first + k]] == 0) queue[tail++] = reader[first + k];
        }
    }
    *order = queue;
    *count = tail;
    return STW_OK;
}
