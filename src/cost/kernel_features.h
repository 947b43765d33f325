/* What a kernel looks like to the learned model (kernel_model.h): one table of columns, kernel_columns.def. The same for a group
 * of a plan and for a fusion in a file that does the same, whatever the order of its ops. */
#ifndef STW_COST_KERNEL_FEATURES_H
#define STW_COST_KERNEL_FEATURES_H

#include "cost/cost.h"

enum { STW_KERNEL_FEATURES_VERSION = 1 };

typedef enum stw_kernel_column {
#define COLUMN(name, what) STW_KERNEL_##name,
#include "cost/kernel_columns.def"
#undef COLUMN
    STW_KERNEL_FEATURES
} stw_kernel_column;

/* `us`: the formula's time of it on the device. `out`: (STW_KERNEL_FEATURES). */
void stw_kernel_find_features(const stw_device *device, const stw_kernel_work *kernel, double us, float *out);

#endif
