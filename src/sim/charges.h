/* Charges: what transfers take of the time of the devices at their ends (docs/simulator.md). */
#ifndef STW_SIM_CHARGES_H
#define STW_SIM_CHARGES_H

#include "sim/sim.h"

/* charge[t], (T) picoseconds: what the transfers of a plan add to each task. All of them are known before anything runs, since
 * they depend on devices and groups only. task_device (T), device (N) of the plan; options: NULL, or the factors of a trial. */
void stw_charge_tasks(const stw_machine *machine, const stw_tasks *tasks, const int32_t *task_device, const int32_t *device,
                      const stw_run_options *options, int64_t *charge);

/* A sum of times, INT64_MAX when above 2^62: a task that long is an overflow. */
static inline int64_t stw_add_ps(int64_t a, int64_t b) { return b > STW_MAX_STEP_PS - a ? INT64_MAX : a + b; }

/* What a transfer takes or charges, by the factors of a trial (driver/noise.c); options may be NULL. */
static inline int64_t stw_scale_ps(const stw_run_options *options, int64_t ps, int32_t producer, int32_t channel) {
    if (options == NULL || (options->transfer_factor == NULL && options->channel_factor == NULL)) return ps;
    double scaled = (double)ps;
    if (options->transfer_factor != NULL) scaled *= options->transfer_factor[producer];
    if (options->channel_factor != NULL) scaled *= options->channel_factor[channel];
    return scaled < (double)STW_MAX_STEP_PS ? (int64_t)(scaled + 0.5) : INT64_MAX;
}

#endif
