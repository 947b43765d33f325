/* Shapes of an operator's outputs from those of its inputs. A rule that lacks something leaves the outputs unknown. */
#include "import/tensorflow/infer.h"

static stw_tf_dims scalar(void) { return (stw_tf_dims){.rank = 0}; }

static void same(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) { stw_tf_give(r, stw_tf_input_dims(graph, node, 0)); }
static void same_as_second(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_give(r, stw_tf_input_dims(graph, node, 1));
}
static void one_number(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    (void)graph, (void)node;
    stw_tf_give(r, scalar());
}
static void no_output(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    (void)graph, (void)node;
    stw_tf_give(r, scalar());
    r->dtype[0] = STW_DTYPE_NONE;
}

/* Switch: its input comes out on one of two sides. */
static void two_alike(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    same(graph, node, r);
    r->outputs = 2;
    r->alike = true;
}

static void merge(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    same(graph, node, r);
    r->outputs = r->count = 2;
    r->out[1] = scalar();
    r->dtype[1] = stw_dtype_find(STW_STR("s32"));
}

/* One shape from two by broadcasting; rank -1 if they do not fit. */
static stw_tf_dims broadcast(stw_tf_dims a, stw_tf_dims b) {
    if (a.rank < 0 || b.rank < 0) return (stw_tf_dims){.rank = -1};
    const stw_tf_dims *longer = a.rank >= b.rank ? &a : &b, *shorter = a.rank >= b.rank ? &b : &a;
    stw_tf_dims out = *longer;
    const int32_t shift = longer->rank - shorter->rank;
    for (int32_t d = 0; d < shorter->rank; d++) {
        const int64_t x = longer->dim[shift + d], y = shorter->dim[d];
        if (x != y && x != 1 && y != 1) return (stw_tf_dims){.rank = -1};
        out.dim[shift + d] = x == 1 ? y : x;
    }
    return out;
}

static void elementwise(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = stw_tf_input_dims(graph, node, 0);
    for (int64_t k = 1; k < graph->facts[node].inputs.count; k++) out = broadcast(out, stw_tf_input_dims(graph, node, k));
    stw_tf_give(r, out);
}

static void matmul(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims a = stw_tf_input_dims(graph, node, 0), b = stw_tf_input_dims(graph, node, 1);
    if (a.rank != 2 || b.rank != 2) return;
    const int64_t rows = a.dim[stw_tf_attribute_of(graph, node, STW_TF_transpose_a, 0) != 0];
    const int64_t columns = b.dim[stw_tf_attribute_of(graph, node, STW_TF_transpose_b, 0) == 0];
    stw_tf_give(r, (stw_tf_dims){.rank = 2, .dim = {rows, columns}});
}

static void batch_matmul(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims a = stw_tf_input_dims(graph, node, 0), b = stw_tf_input_dims(graph, node, 1);
    if (a.rank < 2 || b.rank < 2) return;
    const int64_t rows = a.dim[stw_tf_attribute_of(graph, node, STW_TF_adj_x, 0) != 0 ? a.rank - 1 : a.rank - 2];
    const int64_t columns = b.dim[stw_tf_attribute_of(graph, node, STW_TF_adj_y, 0) != 0 ? b.rank - 2 : b.rank - 1];
    a.rank -= 2;
    b.rank -= 2;
    stw_tf_dims out = broadcast(a, b);
    if (out.rank < 0) return;
    out.dim[out.rank++] = rows;
    out.dim[out.rank++] = columns;
    stw_tf_give(r, out);
}

static void einsum(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = {.rank = -1};
    stw_tf_einsum(graph, node, &out);
    stw_tf_give(r, out);
}

static void reduce(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints axes = stw_tf_input_ints(graph, node, 1);
    const bool keep = stw_tf_attribute_of(graph, node, STW_TF_keep_dims, 0) != 0;
    if (in.rank < 0 || axes.count < 0) return;
    stw_tf_dims out = {.rank = 0};
    for (int32_t d = 0; d < in.rank; d++) {
        bool reduced = false;
        for (int64_t i = 0; i < axes.count; i++) reduced |= stw_tf_axis(axes.value[i], in.rank) == d;
        if (!reduced || keep) out.dim[out.rank++] = reduced ? 1 : in.dim[d];
    }
    stw_tf_give(r, out);
}

static void argument(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints at = stw_tf_input_ints(graph, node, 1);
    const int32_t axis = at.count == 1 ? stw_tf_axis(at.value[0], in.rank) : -1;
    if (axis >= 0) stw_tf_give(r, stw_tf_without(in, axis));
}

static void cross_entropy(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0);
    r->outputs = 2;
    if (in.rank < 1) return;
    r->count = 2;
    r->out[0] = stw_tf_without(in, in.rank - 1);
    r->out[1] = in;
}

static void shape_of(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const int32_t rank = stw_tf_input_dims(graph, node, 0).rank;
    if (rank >= 0) stw_tf_give(r, (stw_tf_dims){.rank = 1, .dim = {rank}});
}

static void shapes_of(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    r->outputs = graph->facts[node].inputs.count;
    r->count = r->outputs < STW_TF_MAX_OUTPUTS ? (int32_t)r->outputs : STW_TF_MAX_OUTPUTS;
    for (int32_t k = 0; k < r->count; k++) {
        const int32_t rank = stw_tf_input_dims(graph, node, k).rank;
        if (rank >= 0) r->out[k] = (stw_tf_dims){.rank = 1, .dim = {rank}};
        r->dtype[k] = stw_tf_dtype(stw_tf_attribute_of(graph, node, STW_TF_out_type, 3));
    }
}

/* Where the pieces of a concatenation begin: a position for each of them. */
static void offsets(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    same_as_second(graph, node, r);
    r->outputs = graph->facts[node].inputs.count - 1;
    r->alike = true;
}

static void random_state(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    (void)graph, (void)node;
    r->outputs = r->count = 2;
    r->out[0] = (stw_tf_dims){.rank = 1, .dim = {1}};
    r->out[1] = (stw_tf_dims){.rank = 1, .dim = {2}};
    r->dtype[0] = r->dtype[1] = stw_dtype_find(STW_STR("u64"));
}

static void top(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints k = stw_tf_input_ints(graph, node, 1);
    r->outputs = 2;
    if (out.rank < 1 || k.count != 1 || k.value[0] < 0) return;
    out.dim[out.rank - 1] = k.value[0];
    r->count = 2;
    r->out[0] = r->out[1] = out;
    r->dtype[1] = stw_dtype_find(STW_STR("s32"));
}

/* The shape of the elements of a list of tensors, as input k says it; what is open counts as 1. */
static stw_tf_dims element_shape(const stw_tf_graph *graph, int32_t node, int64_t k) {
    const stw_tf_ints shape = stw_tf_input_ints(graph, node, k);
    const bool is_known = shape.count >= 0 && shape.count < STW_TF_MAX_RANK && stw_tf_input_dims(graph, node, k).rank == 1;
    stw_tf_dims out = {.rank = is_known ? (int32_t)shape.count : -1};
    for (int32_t d = 0; d < out.rank; d++) out.dim[d] = shape.value[d] < 0 ? 1 : shape.value[d];
    return out;
}

static void list_item(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_give(r, element_shape(graph, node, 2));
}

static void list_end(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    r->outputs = r->count = 2;
    r->out[0] = scalar();
    r->dtype[0] = STW_DTYPE_NONE;
    r->out[1] = element_shape(graph, node, 1);
}

static void list_stack(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const int64_t count = stw_tf_attribute_of(graph, node, STW_TF_num_elements, -1);
    if (count >= 0) stw_tf_give(r, stw_tf_insert(element_shape(graph, node, 1), 0, count));
}

static void segment_sum(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims in = stw_tf_input_dims(graph, node, 0), ids = stw_tf_input_dims(graph, node, 1);
    const stw_tf_ints count = stw_tf_input_ints(graph, node, 2);
    if (ids.rank < 1 || in.rank < ids.rank || count.count != 1 || count.value[0] < 0) return;
    stw_tf_dims out = {.rank = 1, .dim = {count.value[0]}};
    for (int32_t d = ids.rank; d < in.rank; d++) out.dim[out.rank++] = in.dim[d];
    stw_tf_give(r, out);
}

static stw_tf_rule convolution, batch_norm, batch_norm_gradient, bias_gradient, resize;

static const struct {
    const char *ops; /* separated by spaces */
    stw_tf_rule *rule;
} rules[] = {
    {"MatMul _FusedMatMul SparseMatMul", matmul},
    {"BatchMatMul BatchMatMulV2 BatchMatMulV3", batch_matmul},
    {"Einsum XlaEinsum", einsum},
    {"Conv2D Conv3D _FusedConv2D DepthwiseConv2dNative _FusedDepthwiseConv2dNative", convolution},
    {"Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput AvgPoolGrad AvgPool3DGrad",
     stw_tf_shape_is_first},
    {"Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter BroadcastTo", stw_tf_shape_is_second},
    {"MaxPool AvgPool MaxPool3D AvgPool3D", stw_tf_pooling},
    {"FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx", batch_norm},
    {"FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", batch_norm_gradient},
    {"BiasAddGrad", bias_gradient},
    {"ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea", resize},
    {"SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits", cross_entropy},
    {"Reshape", stw_tf_reshape},
    {"Transpose ConjugateTranspose", stw_tf_transpose},
    {"Concat ConcatV2", stw_tf_concatenate},
    {"Sum Mean Max Min Prod Any All EuclideanNorm", reduce},
    {"ArgMax ArgMin", argument},
    {"Shape", shape_of},
    {"ShapeN", shapes_of},
    {"ConcatOffset", offsets},
    {"StatelessRandomGetKeyCounter", random_state},
    {"Size Rank L2Loss VarIsInitializedOp", one_number},
    {"Pack", stw_tf_pack},
    {"Unpack", stw_tf_unpack},
    {"Split", stw_tf_split},
    {"SplitV", stw_tf_split_unevenly},
    {"ExpandDims", stw_tf_expand},
    {"Squeeze", stw_tf_squeeze},
    {"Tile", stw_tf_tile},
    {"Pad PadV2 MirrorPad", stw_tf_pad},
    {"Slice", stw_tf_slice},
    {"StridedSlice", stw_tf_strided_slice},
    {"Gather GatherV2 ResourceGather", stw_tf_gather},
    {"OneHot", stw_tf_one_hot},
    {"Range", stw_tf_counting},
    {"TopKV2", top},
    {"TensorListGetItem", list_item},
    {"TensorListPopBack", list_end},
    {"TensorListStack", list_stack},
    {"UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentProd", segment_sum},
    {"Fill RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt StridedSliceGrad StatelessRandomUniform "
     "StatelessRandomNormal StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2",
     stw_tf_shape_is_first},
    {"Switch RefSwitch", two_alike},
    {"Merge RefMerge", merge},
    {"SeluGrad ReluGrad Relu6Grad LeakyReluGrad EluGrad", same},
    {"Select Assign AssignVariableOp", same_as_second},
    {"ScatterNd", stw_tf_shape_is_third},
    {"BiasAdd BiasAddV1 Softmax LogSoftmax LRN Cast AddN ZerosLike OnesLike Cumsum Reverse ReverseV2 InvertPermutation "
     "CheckNumerics "
     "Identity RefIdentity StopGradient PreventGradient EnsureShape Snapshot ReadVariableOp Enter RefEnter Exit RefExit "
     "NextIteration "
     "RefNextIteration LoopCond PlaceholderWithDefault MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MirrorPadGrad LRNGrad DeepCopy "
     "CopyHost Copy ReverseSequence Bitcast TensorScatterUpdate TensorScatterAdd RandomShuffle",
     same},
    {"NoOp ControlTrigger Assert", no_output},
};

static bool lists(const char *ops, stw_str op) {
    for (const char *c = ops; *c != '\0';) {
        const char *end = c;
        while (*end != ' ' && *end != '\0') end++;
        if (stw_str_equal((stw_str){c, (int64_t)(end - c)}, op)) return true;
        c = *end == ' ' ? end + 1 : end;
    }
    return false;
}

stw_tf_rule *stw_tf_find_rule(const stw_tf_graph *graph, int32_t node) {
    const stw_tf_facts *f = &graph->facts[node];
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (lists(rules[i].ops, graph->model->node[node].op)) return rules[i].rule;
    }
    if (f->row < 0 || f->inputs.count == 0) return NULL;
    if (stw_str_starts(graph->model->node[node].op, "Resource")) return same; /* they write their first input */
    switch (stw_op_table[f->row].op_class) {
        case STW_CLASS_ELEMENTWISE: return elementwise;
        case STW_CLASS_SCATTER:
        case STW_CLASS_NORMALIZATION: return same;
        default: return NULL;
    }
}

/* ---- images ---- */

/* Shapes of what works on images: convolutions, pools, batch normalization, resizing. Images are NHWC unless data_format says
 * otherwise; filters are HWIO. */

static bool channels_first(const stw_tf_graph *graph, int32_t node) {
    return stw_str_starts(stw_tf_text(graph->model, &graph->model->node[node], STW_TF_data_format), "NC");
}

/* Position of the channels among the dimensions of an image. */
static int32_t channel_of(const stw_tf_graph *graph, int32_t node, int32_t rank) {
    return channels_first(graph, node) ? 1 : rank - 1;
}

/* Item d of a list with one number for each dimension of the image. */
static int64_t number_at(const stw_tf_graph *graph, int32_t node, stw_tf_key key, int32_t d, int64_t otherwise) {
    const stw_tf_attribute *a = stw_tf_find(graph->model, &graph->model->node[node], key);
    return a != NULL && d < a->numbers.count ? graph->model->number[a->numbers.start + d] : otherwise;
}

/* How many places a window has along dimension d; -1 if that is not known. */
static int64_t places(const stw_tf_graph *graph, int32_t node, int32_t d, int64_t extent, int64_t window) {
    const stw_str padding = stw_tf_text(graph->model, &graph->model->node[node], STW_TF_padding);
    const int64_t stride = number_at(graph, node, STW_TF_strides, d, 1);
    if (stride < 1 || extent < 0 || window < 1) return -1;
    if (stw_str_is(padding, "SAME")) return extent / stride + (extent % stride != 0);
    int64_t padded = extent;
    if (stw_str_is(padding, "EXPLICIT")) {
        const int64_t before = number_at(graph, node, STW_TF_explicit_paddings, 2 * d, 0);
        const int64_t after = number_at(graph, node, STW_TF_explicit_paddings, 2 * d + 1, 0);
        if (__builtin_add_overflow(padded, before, &padded) || __builtin_add_overflow(padded, after, &padded)) return -1;
    }
    return padded >= window ? (padded - window) / stride + 1 : 0;
}

static void convolution(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0), filter = stw_tf_input_dims(graph, node, 1);
    if (image.rank < 3 || filter.rank != image.rank) return;
    const int32_t channel = channel_of(graph, node, image.rank), first = channels_first(graph, node) ? 2 : 1;
    const bool depthwise = stw_str_starts(graph->model->node[node].op, "Depthwise") ||
                           stw_str_starts(graph->model->node[node].op, "_FusedDepthwise");
    stw_tf_dims out = image;
    for (int32_t s = 0; s < image.rank - 2; s++) {
        const int64_t dilation = number_at(graph, node, STW_TF_dilations, first + s, 1);
        int64_t window = 0;
        if (dilation < 1 || filter.dim[s] < 1 || __builtin_mul_overflow(filter.dim[s] - 1, dilation, &window)) return;
        if (__builtin_add_overflow(window, 1, &window)) return;
        out.dim[first + s] = places(graph, node, first + s, image.dim[first + s], window);
        if (out.dim[first + s] < 0) return;
    }
    out.dim[channel] = filter.dim[filter.rank - 1];
    if (depthwise && __builtin_mul_overflow(filter.dim[filter.rank - 2], filter.dim[filter.rank - 1], &out.dim[channel])) return;
    r->count = 1;
    r->out[0] = out;
}

void stw_tf_pooling(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    stw_tf_dims out = stw_tf_input_dims(graph, node, 0);
    if (out.rank < 3) return;
    for (int32_t d = 0; d < out.rank; d++) {
        out.dim[d] = places(graph, node, d, out.dim[d], number_at(graph, node, STW_TF_ksize, d, 1));
        if (out.dim[d] < 0) return;
    }
    r->count = 1;
    r->out[0] = out;
}

static stw_tf_dims channel_vector(const stw_tf_graph *graph, int32_t node, const stw_tf_dims *image) {
    return (stw_tf_dims){.rank = 1, .dim = {image->dim[channel_of(graph, node, image->rank)]}};
}

static void batch_norm(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const bool six = stw_str_is(graph->model->node[node].op, "FusedBatchNormV3") ||
                     stw_str_is(graph->model->node[node].op, "_FusedBatchNormEx");
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0);
    r->outputs = six ? 6 : 5;
    if (image.rank < 2) return;
    r->count = (int32_t)r->outputs;
    r->out[0] = image;
    for (int32_t k = 1; k < 5; k++) {
        r->out[k] = channel_vector(graph, node, &image);
        r->dtype[k] = STW_DTYPE_F32;
    }
    r->out[5].rank = 0; /* kept for the gradient; its size depends on the device */
    r->dtype[5] = STW_DTYPE_F32;
}

static void batch_norm_gradient(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0);
    r->outputs = 5;
    if (image.rank < 2) return;
    r->count = 5;
    r->out[0] = image;
    for (int32_t k = 1; k < 5; k++) {
        r->out[k] = k < 3 ? channel_vector(graph, node, &image) : (stw_tf_dims){.rank = 1, .dim = {0}};
        r->dtype[k] = STW_DTYPE_F32;
    }
}

static void bias_gradient(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0);
    if (image.rank < 2) return;
    r->count = 1;
    r->out[0] = channel_vector(graph, node, &image);
}

static void resize(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints size = stw_tf_input_ints(graph, node, 1);
    if (image.rank != 4 || size.count != 2 || size.value[0] < 0 || size.value[1] < 0) return;
    r->count = 1;
    r->out[0] = image;
    r->out[0].dim[1] = size.value[0];
    r->out[0].dim[2] = size.value[1];
}
