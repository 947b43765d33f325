/* The formulas: what an op, a fused group and a transfer take. docs/cost-model.md explains them and gives their error. */
#include <math.h>
#include <string.h>

#include "cost/cost.h"

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

static double cost_traffic_us(const stw_device *device, stw_op_class op_class, double bytes) {
    return bytes / (device->bandwidth * device->efficiency[op_class]) * 1e6;
}

double stw_cost_model_us(const stw_device *device, stw_op_class op_class, int32_t dtype, double flops, double bytes) {
    if (op_class == STW_CLASS_ALIAS) return 0.0; /* nothing is launched */
    return device->launch_us + device->latency_us[op_class] +
           fmax(stw_cost_compute_us(device, op_class, dtype, flops), cost_traffic_us(device, op_class, bytes));
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
    const double traffic_us = cost_traffic_us(device, (stw_op_class)most, bytes);
    const double model_us = device->launch_us + device->latency_us[most] + fmax(work->compute_us, traffic_us);
    return work->model_us > 0.0 ? work->us / work->model_us * model_us : work->us;
}

/* One kernel: one launch, whatever is in it. */
static double fused_us(const stw_device *device, const double *class_bytes, double compute_us, double again_us) {
    stw_group_work work = {.us = 1.0, .model_us = 1.0, .compute_us = compute_us};
    memcpy(work.class_bytes, class_bytes, sizeof work.class_bytes);
    return again_us + stw_cost_group_us(device, &work);
}

double stw_cost_kernel_us(const stw_device *device, const stw_kernel_work *kernel, double *compute_us) {
    double sum_us = 0.0, again_us = 0.0;
    bool launches = kernel->unit_count == 0;
    for (int32_t u = 0; u < kernel->unit_count; u++) {
        const stw_unit *unit = &kernel->unit[u];
        const double us = stw_cost_compute_us(device, (stw_op_class)unit->op_class, unit->dtype, unit->flops);
        launches |= unit->op_class != STW_CLASS_ALIAS;
        sum_us += us * fmin(unit->passes, 1.0);
        if (unit->passes > 1.0) again_us += us * (unit->passes - 1.0) * (unit->dear ? STW_DEAR_FACTOR : 1);
    }
    if (compute_us != NULL) *compute_us = sum_us;
    return launches ? fused_us(device, kernel->class_bytes, sum_us, again_us) : 0.0;
}

/* ---- loops, branches, calls ---- */

/* A kernel from its rows. */
static double step_us(const stw_device *device, const stw_graph *graph, const stw_body_step *step, double *compute_us) {
    const stw_work_row *row = &graph->work[step->work_first];
    double class_bytes[STW_CLASS_COUNT] = {0}, again_us = 0.0;
    *compute_us = 0.0;
    for (int64_t k = 0; k < step->work_count; k++) {
        *compute_us += stw_cost_compute_us(device, (stw_op_class)row[k].op_class, row[k].dtype, row[k].flops);
        again_us += stw_cost_compute_us(device, (stw_op_class)row[k].op_class, row[k].dtype, row[k].again);
        class_bytes[row[k].op_class] += row[k].bytes;
    }
    if (!step->is_op) return fused_us(device, class_bytes, *compute_us, again_us);
    return stw_cost_model_us(device, (stw_op_class)row->op_class, row->dtype, row->flops, row->bytes);
}

/* Longer than any clock holds; loops in loops could leave the numbers behind. */
static const double MOST_US = 1e30;

void stw_cost_bodies(const stw_device *device, const stw_graph *graph, double *out_us, double *out_compute_us) {
    for (int32_t b = 0; b < graph->body_count; b++) { /* those that others run come first */
        const stw_body *body = &graph->body[b];
        out_us[b] = out_compute_us[b] = 0.0;
        for (int64_t s = body->first; s < body->first + body->count; s++) {
            const stw_body_step *step = &graph->step[s];
            double us = 0.0, compute_us = 0.0;
            if (step->body < 0) us = step_us(device, graph, step, &compute_us);
            if (step->body >= 0) us = out_us[step->body], compute_us = out_compute_us[step->body];
            us = fmin(us * step->times, MOST_US), compute_us = fmin(compute_us * step->times, MOST_US);
            if (body->dearest && us <= out_us[b]) continue;
            out_us[b] = body->dearest ? us : out_us[b] + us;
            out_compute_us[b] = body->dearest ? compute_us : out_compute_us[b] + compute_us;
        }
    }
}

/* ---- time ---- */

/* Halves away from zero, for ps >= 0: what llround does, without the call. The difference is exact. */
static int64_t round_ps(double ps) {
    if (!(ps <= (double)STW_MAX_STEP_PS)) return INT64_MAX;
    const int64_t whole = (int64_t)ps;
    return whole + (ps - (double)whole >= 0.5);
}

int64_t stw_cost_us_to_ps(double us) { return round_ps(us * 1e6); }

int64_t stw_cost_transfer_ps(const stw_link *link, int64_t bytes) {
    return round_ps(link->latency_us * 1e6 + stw_link_bytes_s(link, (double)bytes) * 1e12);
}
