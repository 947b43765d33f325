/* Device descriptions by kind: specifications from kinds.def, what only measurements tell from fitted.def. */
#include "machine/machine.h"

enum {
#define STW_KIND(name, ...) KIND_##name,
#include "machine/kinds.def"
    KIND_COUNT
};

typedef struct kind_row {
    const char *name;
    int64_t memory_bytes;
    double f32, tf32, bf16; /* flop/s */
    double bandwidth;       /* bytes/s */
} kind_row;

static const kind_row kinds[KIND_COUNT] = {
#define STW_KIND(name, memory, f32, tf32, bf16, bandwidth, link, description) {#name, memory, f32, tf32, bf16, bandwidth},
#include "machine/kinds.def"
};

static const double fitted_efficiency[KIND_COUNT][STW_CLASS_COUNT] = {
#define STW_FITTED(kind, op_class, efficiency) [KIND_##kind][STW_CLASS_##op_class] = efficiency,
#include "machine/fitted.def"
};

static const double fitted_launch_us[KIND_COUNT] = {
#define STW_FITTED_LAUNCH(kind, us) [KIND_##kind] = us,
#include "machine/fitted.def"
};

static const double fitted_peak[KIND_COUNT] = {
#define STW_FITTED_PEAK(kind, flops_per_s) [KIND_##kind] = flops_per_s,
#include "machine/fitted.def"
};

static const double fitted_bandwidth[KIND_COUNT] = {
#define STW_FITTED_BANDWIDTH(kind, bytes_per_s) [KIND_##kind] = bytes_per_s,
#include "machine/fitted.def"
};

static const double fitted_error[KIND_COUNT][STW_CLASS_COUNT] = {
#define STW_FITTED_ERROR(kind, op_class, error) [KIND_##kind][STW_CLASS_##op_class] = error,
#include "machine/fitted.def"
};

static const double held_out_error[KIND_COUNT] = {
#define STW_HELD_OUT_ERROR(kind, error) [KIND_##kind] = error,
#include "machine/fitted.def"
};

static double first_set(double a, double b) { return a > 0.0 ? a : b; }

bool stw_device_of_kind(stw_str kind, stw_device *out) {
    for (int32_t k = 0; k < KIND_COUNT; k++) {
        const kind_row *row = &kinds[k];
        if (!stw_str_is(kind, row->name)) continue;
        *out = (stw_device){.name = stw_str_of(row->name),
                            .kind = stw_str_of(row->name),
                            .memory_bytes = row->memory_bytes,
                            .launch_us = first_set(fitted_launch_us[k], fitted_launch_us[KIND_h200]),
                            .flops_f32 = first_set(row->f32, fitted_peak[k]),
                            .flops_tf32 = row->tf32,
                            .flops_bf16 = row->bf16,
                            .bandwidth = first_set(row->bandwidth, fitted_bandwidth[k])};
        for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
            out->efficiency[c] = first_set(fitted_efficiency[k][c], fitted_efficiency[KIND_h200][c]);
        }
        return true;
    }
    return false;
}

double stw_kind_error(stw_str kind, stw_op_class op_class) {
    const int32_t k = stw_str_starts(kind, "cpu") ? KIND_cpu8 : KIND_h200; /* the two that were measured */
    return first_set(fitted_error[k][op_class], held_out_error[k]);
}
