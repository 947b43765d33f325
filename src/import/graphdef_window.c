/* Shapes of what works on images: convolutions, pools, batch normalization, resizing. Images are NHWC unless data_format says
 * otherwise; filters are HWIO. */
#include "import/graphdef_infer.h"

static bool channels_first(const stw_tf_graph *graph, int32_t node) {
    return stw_str_starts(stw_tf_text(graph->model, &graph->model->node[node], STW_TF_data_format), "NC");
}

int32_t stw_tf_channel(const stw_tf_graph *graph, int32_t node, int32_t rank) {
    return channels_first(graph, node) ? 1 : rank - 1;
}

/* Item d of a list with one number for each dimension of the image. */
static int64_t list_item(const stw_tf_graph *graph, int32_t node, stw_tf_key key, int32_t d, int64_t otherwise) {
    const stw_tf_attribute *a = stw_tf_find(graph->model, &graph->model->node[node], key);
    return a != NULL && d < a->numbers.count ? graph->model->number[a->numbers.start + d] : otherwise;
}

/* How many places a window has along dimension d; -1 if that is not known. */
static int64_t places(const stw_tf_graph *graph, int32_t node, int32_t d, int64_t extent, int64_t window) {
    const stw_str padding = stw_tf_text(graph->model, &graph->model->node[node], STW_TF_padding);
    const int64_t stride = list_item(graph, node, STW_TF_strides, d, 1);
    if (stride < 1 || extent < 0 || window < 1) return -1;
    if (stw_str_is(padding, "SAME")) return extent / stride + (extent % stride != 0);
    int64_t padded = extent;
    if (stw_str_is(padding, "EXPLICIT")) {
        const int64_t before = list_item(graph, node, STW_TF_explicit_paddings, 2 * d, 0);
        const int64_t after = list_item(graph, node, STW_TF_explicit_paddings, 2 * d + 1, 0);
        if (__builtin_add_overflow(padded, before, &padded) || __builtin_add_overflow(padded, after, &padded)) return -1;
    }
    return padded >= window ? (padded - window) / stride + 1 : 0;
}

void stw_tf_convolution(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0), filter = stw_tf_input_dims(graph, node, 1);
    if (image.rank < 3 || filter.rank != image.rank) return;
    const int32_t channel = stw_tf_channel(graph, node, image.rank), first = channels_first(graph, node) ? 2 : 1;
    const bool depthwise = stw_str_starts(graph->model->node[node].op, "Depthwise") ||
                           stw_str_starts(graph->model->node[node].op, "_FusedDepthwise");
    stw_tf_dims out = image;
    for (int32_t s = 0; s < image.rank - 2; s++) {
        const int64_t dilation = list_item(graph, node, STW_TF_dilations, first + s, 1);
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
        out.dim[d] = places(graph, node, d, out.dim[d], list_item(graph, node, STW_TF_ksize, d, 1));
        if (out.dim[d] < 0) return;
    }
    r->count = 1;
    r->out[0] = out;
}

static stw_tf_dims channel_vector(const stw_tf_graph *graph, int32_t node, const stw_tf_dims *image) {
    return (stw_tf_dims){.rank = 1, .dim = {image->dim[stw_tf_channel(graph, node, image->rank)]}};
}

void stw_tf_batch_norm(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
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

void stw_tf_batch_norm_gradient(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
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

void stw_tf_bias_gradient(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0);
    if (image.rank < 2) return;
    r->count = 1;
    r->out[0] = channel_vector(graph, node, &image);
}

void stw_tf_resize(const stw_tf_graph *graph, int32_t node, stw_tf_result *r) {
    const stw_tf_dims image = stw_tf_input_dims(graph, node, 0);
    const stw_tf_ints size = stw_tf_input_ints(graph, node, 1);
    if (image.rank != 4 || size.count != 2 || size.value[0] < 0 || size.value[1] < 0) return;
    r->count = 1;
    r->out[0] = image;
    r->out[0].dim[1] = size.value[0];
    r->out[0].dim[2] = size.value[1];
}
