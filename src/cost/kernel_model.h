/* The learned model of kernels: from what a kernel looks like (kernel_features.h) the logarithm of what it takes over what the
 * formula says. Trees, each of which leads to a number; the sum of these. Learnt from kernels that XLA made on an H200
 * (data/kernels); on any other device, and unless it is asked for, the formula stands. */
#ifndef STW_COST_KERNEL_MODEL_H
#define STW_COST_KERNEL_MODEL_H

#include "cost/kernel_features.h"

typedef struct stw_kernel_node {
    int32_t column; /* -1: a leaf */
    float number;   /* up to it the next node follows, else `above`; of a leaf what it adds */
    int32_t above;  /* a later node */
} stw_kernel_node;

struct stw_kernel_model {
    int32_t tree_count, node_count;
    const float *least, *most;   /* (STW_KERNEL_FEATURES) of the kernels that it was learnt from */
    const int32_t *root;         /* (tree_count) */
    const stw_kernel_node *node; /* (node_count) */
};

/* `feature`: (STW_KERNEL_FEATURES). At most 4 either way. */
double stw_kernel_model_log_ratio(const stw_kernel_model *model, const float *feature);
/* Whether it was learnt from such kernels: of nothing half as little or twice as much as any of them had. */
bool stw_kernel_model_covers(const stw_kernel_model *model, const float *feature);
/* What the kernel takes on the device; `us` by the formula, which stands where the model does not cover the kernel. */
double stw_kernel_model_us(const stw_kernel_model *model, const stw_device *device, const stw_kernel_work *kernel, double us);

/* Whether the kernels that it was learnt from ran on such a device: the kind, and the figures by which the formula goes. */
bool stw_kernel_model_knows(const stw_device *device);

/* A tensor file, everything checked; the model lives in the arena. */
stw_status stw_kernel_model_parse(stw_str bytes, const char *label, stw_arena *arena, stw_kernel_model *out, stw_error *error);
/* The one that comes with the library; *out is NULL where it was built without. */
stw_status stw_kernel_model_shipped(stw_arena *arena, const stw_kernel_model **out, stw_error *error);

#endif
