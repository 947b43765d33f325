#include "cost/kernel_model.h"

#include <math.h>

#include "base/shipped.h"
#include "base/tensor_file.h"

static const char model_kind[] = "h200";

/* ---- the trees ---- */

static float find_leaf(const stw_kernel_model *model, int32_t root, const float *feature) {
    const stw_kernel_node *node = &model->node[root];
    while (node->column >= 0) node = feature[node->column] <= node->number ? node + 1 : &model->node[node->above];
    return node->number;
}

double stw_kernel_model_log_ratio(const stw_kernel_model *model, const float *feature) {
    double sum = 0.0;
    for (int32_t t = 0; t < model->tree_count; t++) sum += (double)find_leaf(model, model->root[t], feature);
    return fmin(fmax(sum, -4.0), 4.0);
}

bool stw_kernel_model_covers(const stw_kernel_model *model, const float *feature) {
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) {
        if (!(feature[c] >= model->least[c] - 1.0f && feature[c] <= model->most[c] + 1.0f)) return false;
        const bool nowhere = model->least[c] == 0.0f && model->most[c] == 0.0f; /* a sort of op that none of them had */
        if (nowhere && feature[c] > 0.0f) return false;
    }
    return true;
}

double stw_kernel_model_us(const stw_kernel_model *model, const stw_device *device, const stw_kernel_work *kernel, double us) {
    float feature[STW_KERNEL_FEATURES];
    if (!(us > 0.0)) return us;
    stw_kernel_find_features(device, kernel, us, feature);
    return stw_kernel_model_covers(model, feature) ? us * exp(stw_kernel_model_log_ratio(model, feature)) : us;
}

bool stw_kernel_model_knows(const stw_device *device) {
    stw_device there;
    if (!stw_str_is(device->kind, model_kind) || !stw_device_of_kind(device->kind, &there)) return false;
    if (device->launch_us != there.launch_us || device->bandwidth != there.bandwidth || device->flops_f32 != there.flops_f32)
        return false;
    if (device->flops_tf32 != there.flops_tf32 || device->flops_bf16 != there.flops_bf16) return false;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (device->efficiency[c] != there.efficiency[c] || device->latency_us[c] != there.latency_us[c]) return false;
    }
    return true;
}

/* ---- in costs ---- */

double stw_costs_kernel_us(const stw_costs *costs, int32_t cost_class, const stw_kernel_work *kernel) {
    const stw_device *device = &costs->machine->device[costs->machine->class_device[cost_class]];
    const double us = stw_cost_kernel_us(device, kernel, NULL);
    return costs->learned[cost_class] ? stw_kernel_model_us(costs->kernel_model, device, kernel, us) : us;
}

/* ---- its file ---- */

static stw_status check_dimension(const stw_tensor_file *file, const char *name, int64_t expected, stw_error *error) {
    int64_t stated = 0;
    if (!stw_tensor_file_dimension(file, name, &stated))
        return stw_fail(error, STW_ERROR_INPUT, "does not state %s: it has no model of kernels", name);
    if (stated == expected) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT,
                    "was made for other features of kernels than this program's: %s is %lld there and %lld here; train it again",
                    name, (long long)stated, (long long)expected);
}

static stw_status find_list(const stw_tensor_file *file, const char *name, stw_tensor_type type, int64_t count, const void **out,
                            stw_error *error) {
    const stw_tensor *there;
    TRY(stw_tensor_expect(file, name, type, 1, count, &there, error));
    *out = there->data;
    return STW_OK;
}

/* Every way through a tree ends: what follows a node stands behind it, and the last one is a leaf. */
static stw_status check_nodes(const stw_kernel_model *model, stw_error *error) {
    for (int32_t t = 0; t < model->tree_count; t++) {
        if (model->root[t] < 0 || model->root[t] >= model->node_count)
            return stw_fail(error, STW_ERROR_INPUT, "tree %d begins at node %d of %d", t, model->root[t], model->node_count);
    }
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) {
        if (!isfinite(model->least[c])) return stw_fail(error, STW_ERROR_INPUT, "least has what is no number");
        if (!isfinite(model->most[c])) return stw_fail(error, STW_ERROR_INPUT, "most has what is no number");
    }
    for (int32_t n = 0; n < model->node_count; n++) {
        const stw_kernel_node *node = &model->node[n];
        if (!isfinite(node->number)) return stw_fail(error, STW_ERROR_INPUT, "node %d has what is no number", n);
        if (node->column == -1) continue;
        if (node->column < 0 || node->column >= STW_KERNEL_FEATURES)
            return stw_fail(error, STW_ERROR_INPUT, "node %d asks for column %d of %d", n, node->column, STW_KERNEL_FEATURES);
        if (n + 1 >= model->node_count || node->above <= n || node->above >= model->node_count)
            return stw_fail(error, STW_ERROR_INPUT, "node %d of %d leads to node %d", n, model->node_count, node->above);
    }
    return STW_OK;
}

static stw_status take(const stw_tensor_file *file, stw_arena *arena, stw_kernel_model *out, stw_error *error) {
    enum { MOST = 1 << 20 };
    const void *column = NULL, *number = NULL, *above = NULL, *root = NULL, *least = NULL, *most = NULL;
    int64_t trees = 0, nodes = 0;
    stw_kernel_node *node;
    TRY(check_dimension(file, "kernel_features_version", STW_KERNEL_FEATURES_VERSION, error));
    TRY(check_dimension(file, "kernel_features", STW_KERNEL_FEATURES, error));
    if (!stw_tensor_file_dimension(file, "trees", &trees) || !stw_tensor_file_dimension(file, "nodes", &nodes) || trees < 1 ||
        nodes < 1 || trees > MOST || nodes > MOST)
        return stw_fail(error, STW_ERROR_INPUT, "states %lld trees and %lld nodes; 1 to %d are read", (long long)trees,
                        (long long)nodes, MOST);
    TRY(find_list(file, "least", STW_TENSOR_F32, STW_KERNEL_FEATURES, &least, error));
    TRY(find_list(file, "most", STW_TENSOR_F32, STW_KERNEL_FEATURES, &most, error));
    TRY(find_list(file, "root", STW_TENSOR_I32, trees, &root, error));
    TRY(find_list(file, "column", STW_TENSOR_I32, nodes, &column, error));
    TRY(find_list(file, "number", STW_TENSOR_F32, nodes, &number, error));
    TRY(find_list(file, "above", STW_TENSOR_I32, nodes, &above, error));
    STW_TRY_NEW(arena, node, nodes, error);
    for (int64_t n = 0; n < nodes; n++)
        node[n] = (stw_kernel_node){((const int32_t *)column)[n], ((const float *)number)[n], ((const int32_t *)above)[n]};
    *out = (stw_kernel_model){
        .tree_count = (int32_t)trees, .node_count = (int32_t)nodes, .least = least, .most = most, .root = root, .node = node};
    return check_nodes(out, error);
}

stw_status stw_kernel_model_parse(stw_str bytes, const char *label, stw_arena *arena, stw_kernel_model *out, stw_error *error) {
    stw_tensor_file file;
    TRY(stw_tensor_file_parse(bytes, label, arena, &file, error));
    const stw_status status = take(&file, arena, out, error);
    if (status != STW_OK) stw_error_prefix(error, label);
    return status;
}

/* ---- what comes with the library ---- */

#ifdef STW_SHIPPED_KERNELS
STW_SHIPPED("stw_shipped_kernels", STW_SHIPPED_KERNELS);
extern const char stw_shipped_kernels_begin[], stw_shipped_kernels_end[];
static stw_str shipped_bytes(void) {
    return (stw_str){stw_shipped_kernels_begin, stw_shipped_kernels_end - stw_shipped_kernels_begin};
}
#else
static stw_str shipped_bytes(void) { return (stw_str){0}; }
#endif

stw_status stw_kernel_model_shipped(stw_arena *arena, const stw_kernel_model **out, stw_error *error) {
    stw_kernel_model *made;
    *out = NULL;
    if (shipped_bytes().length == 0) return STW_OK;
    STW_TRY_NEW(arena, made, 1, error);
    TRY(stw_kernel_model_parse(shipped_bytes(), "the model of kernels that comes with the library", arena, made, error));
    *out = made;
    return STW_OK;
}
