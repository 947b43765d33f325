/* The formulas: what an op, a fused group and a transfer take. docs/cost-model.md explains them and gives their error. */
#include <math.h>

#include "cost/cost.h"

int64_t stw_cost_read_bytes(const stw_graph *graph, int32_t value, const stw_use *use, int64_t count) {
    const int64_t whole = graph->bytes[value];
    int64_t sum = 0;
    for (int64_t k = 0; k < count; k++) {
        if (use[k].view < 0) return whole;
        if (k > 0 && use[k].view == use[k - 1].view) continue;
        const int64_t part = graph->bytes[use[k].view];
        if (part >= whole - sum) return whole;
        sum += part;
    }
    return sum;
}

/* Peak rate of the units that a class of ops runs on, for one dtype. */
static double peak_flops(const stw_device *device, stw_op_class op_class, int32_t dtype) {
    const bool half = dtype == STW_DTYPE_F16 || dtype == STW_DTYPE_BF16;
    const bool matrix = op_class == STW_CLASS_MATMUL || op_class == STW_CLASS_CONVOLUTION || op_class == STW_CLASS_ATTENTION;
    if (dtype == STW_DTYPE_F64) return device->flops_f32 / 2.0;
    if (matrix && half && device->flops_bf16 > 0.0) return device->flops_bf16;
    if (matrix && dtype == STW_DTYPE_F32 && device->flops_tf32 > 0.0) return device->flops_tf32;
    return device->flops_f32;
}

double stw_cost_compute_us(const stw_device *device, stw_op_class op_class, int32_t dtype, double flops) {
    if (op_class == STW_CLASS_ALIAS) return 0.0;
    return flops / (peak_flops(device, op_class, dtype) * device->efficiency[op_class]) * 1e6;
}

double stw_cost_traffic_us(const stw_device *device, stw_op_class op_class, double bytes) {
    return bytes / (device->bandwidth * device->efficiency[op_class]) * 1e6;
}

double stw_cost_model_us(const stw_device *device, stw_op_class op_class, int32_t dtype, double flops, double bytes) {
    if (op_class == STW_CLASS_ALIAS) return 0.0; /* nothing is launched */
    return device->launch_us + device->latency_us[op_class] +
           fmax(stw_cost_compute_us(device, op_class, dtype, flops), stw_cost_traffic_us(device, op_class, bytes));
}

void stw_group_work_add(stw_group_work *work, const stw_costs *costs, int32_t cost_class, int32_t member) {
    work->us += costs->us[cost_class][member];
    work->model_us += costs->model_us[cost_class][member];
    work->compute_us += costs->compute_us[cost_class][member];
}

double stw_cost_group_us(const stw_device *device, const stw_group_work *work) {
    int most = 0;
    double bytes = 0.0;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (work->class_bytes[c] > work->class_bytes[most]) most = c;
        bytes += work->class_bytes[c];
    }
    const double traffic_us = stw_cost_traffic_us(device, (stw_op_class)most, bytes);
    const double model_us = device->launch_us + device->latency_us[most] + fmax(work->compute_us, traffic_us);
    return work->model_us > 0.0 ? work->us / work->model_us * model_us : work->us;
}

/* Halves away from zero, for ps >= 0: what llround does, without the call. The difference is exact. */
static int64_t round_ps(double ps) {
    if (!(ps <= (double)STW_MAX_STEP_PS)) return INT64_MAX;
    const int64_t whole = (int64_t)ps;
    return whole + (ps - (double)whole >= 0.5);
}

int64_t stw_cost_us_to_ps(double us) { return round_ps(us * 1e6); }

int64_t stw_cost_transfer_ps(const stw_link *link, int64_t bytes) {
    return round_ps(link->latency_us * 1e6 + (double)bytes / link->bandwidth * 1e12);
}
