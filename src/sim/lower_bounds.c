/* The lower bounds that stand beside every result: of the step with the plan's groups and with the groups free; of the peak of
 * memory with the plan's groups.
 *
 * Groups free. A group takes r x model(group), r being at least the smallest ratio rho of time to modelled time among the ops
 * that can fuse on that class of device; and model(group) is at least the sum of its members' arithmetic, and at least the
 * time for the bytes that must cross its border however ops are grouped. So each of
 *     w = rho x arithmetic,   w = rho x border bytes / (bandwidth x best efficiency),   w = their mean
 * never sums up to more than the group's time, and w in place of an op's time gives a valid bound. Ops that never fuse keep
 * their own time. Where it is known how ops go over their elements (graph->flow), a group may compute and read only parts: then
 * nothing is certain of those that can fuse. */
#include <float.h>
#include <math.h>

#include "sim/bounds.h"

static bool may_fuse(const stw_device *device, uint8_t op_class) {
    return stw_op_class_fuses((stw_op_class)op_class) || device->fuses_epilogue[op_class];
}

static void count_devices(const stw_machine *machine, stw_bound_input *in) {
    in->C = machine->cost_class_count;
    for (int32_t c = 0; c < in->C; c++) in->device_count[c] = 0;
    for (int32_t d = 0; d < machine->device_count; d++) in->device_count[machine->device[d].cost_class]++;
}

/* ---- with the plan's groups ---- */

static stw_status bound_tasks(const stw_simulator *s, const stw_tasks *tasks, stw_arena scratch, double *out_ps,
                              stw_error *error) {
    stw_bound_input in = {.tasks = tasks};
    count_devices(s->machine, &in);
    STW_TRY_NEW(&scratch, in.time_ps, in.C, error);
    for (int32_t c = 0; c < in.C; c++) {
        double *time;
        STW_TRY_NEW(&scratch, time, tasks->T, error);
        for (int32_t t = 0; t < tasks->T; t++) time[t] = (double)tasks->duration_ps[c][t];
        in.time_ps[c] = time;
    }
    return stw_bound_steps(&in, scratch, out_ps, error);
}

/* ---- with the groups free ---- */

/* Bytes that op i must move across the border of its group, whatever the group: its share of what it reads from sources and from
 * ops that never fuse, and its output if that must be written. */
static double border_bytes(const stw_graph *graph, const stw_device *device, const int32_t *reader_ops, int32_t i) {
    double bytes = 0.0;
    bool written = graph->kept[i] || graph->updates[i] >= 0;
    for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1] && !written; r++) {
        written = !may_fuse(device, graph->op_class[graph->reader[r].node]);
    }
    if (written) bytes += (double)graph->bytes[i];
    for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1];) {
        const int32_t producer = graph->read[e].node;
        int64_t end = e + 1;
        while (end < graph->read_start[i + 1] && graph->read[end].node == producer) end++;
        if (graph->kind[producer] != STW_NODE_OP || !may_fuse(device, graph->op_class[producer])) {
            bytes += (double)stw_cost_read_bytes(graph, producer, graph->read + e, end - e) / reader_ops[producer];
        }
        e = end;
    }
    return bytes;
}

/* The number of distinct ops that read each value. */
static void count_reader_ops(const stw_graph *graph, int32_t *count) {
    for (int32_t i = 0; i < graph->N; i++) {
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            count[graph->read[e].node] += e == graph->read_start[i] || graph->read[e].node != graph->read[e - 1].node;
        }
    }
}

static double smallest_ratio(const stw_costs *costs, int32_t c, const stw_device *device) {
    const stw_graph *graph = costs->graph;
    double least = DBL_MAX;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        if (may_fuse(device, graph->op_class[i]) && costs->model_us[c][i] > 0.0)
            least = fmin(least, costs->us[c][i] / costs->model_us[c][i]);
    }
    return least == DBL_MAX ? 0.0 : least;
}

static double best_efficiency(const stw_device *device) {
    double best = 0.0;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (may_fuse(device, (uint8_t)c)) best = fmax(best, device->efficiency[c]);
    }
    return best;
}

/* Times of class c with weights mixed from arithmetic (1 - mix) and border traffic (mix). */
static void free_times(const stw_simulator *s, int32_t c, double mix, const int32_t *reader_ops, double *time_ps) {
    const stw_costs *costs = s->costs;
    const stw_graph *graph = s->graph;
    const stw_device *device = &s->machine->device[s->machine->class_device[c]];
    const double rho = smallest_ratio(costs, c, device), bandwidth = device->bandwidth * best_efficiency(device);
    for (int32_t t = 0; t < s->unfused.T; t++) {
        const int32_t i = s->unfused.task_node[t];
        double us = costs->us[c][i];
        if (may_fuse(device, graph->op_class[i]) && graph->apart[i] == NULL) {
            const double traffic_us = border_bytes(graph, device, reader_ops, i) / bandwidth * 1e6;
            us = fmin(us, rho * ((1.0 - mix) * costs->compute_us[c][i] + mix * traffic_us));
            if (graph->flow != NULL) us = 0.0;
        }
        time_ps[t] = us * 1e6;
    }
}

static stw_status bound_free(const stw_simulator *s, stw_arena scratch, double *out_ps, stw_error *error) {
    stw_bound_input in = {.tasks = &s->unfused};
    int32_t *reader_ops;
    count_devices(s->machine, &in);
    STW_TRY_NEW(&scratch, reader_ops, s->graph->N, error);
    STW_TRY_NEW(&scratch, in.time_ps, in.C, error);
    count_reader_ops(s->graph, reader_ops);
    *out_ps = 0.0;
    for (int half = 0; half <= 2; half++) {
        stw_arena round = scratch;
        for (int32_t c = 0; c < in.C; c++) {
            double *time;
            STW_TRY_NEW(&round, time, s->unfused.T, error);
            free_times(s, c, half / 2.0, reader_ops, time);
            in.time_ps[c] = time;
        }
        double bound;
        TRY(stw_bound_steps(&in, round, &bound, error));
        *out_ps = fmax(*out_ps, bound);
    }
    return STW_OK;
}

/* Sums in doubles carry an error, and durations are rounded to whole picoseconds: stay on the safe side of both. */
static double safe_seconds(double ps, int32_t T) {
    const double safe = ps * (1.0 - 1e-12) - 0.5 * T * DBL_EPSILON * ps;
    return isfinite(ps) ? fmax(safe, 0.0) / 1e12 : 0.0;
}

stw_status stw_lower_bounds(const stw_simulator *simulator, const stw_plan *plan, stw_bounds *out, stw_error *error) {
    *out = (stw_bounds){0};
    TRY(stw_simulator_check(simulator, plan, error));
    stw_arena scratch;
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str illegal;
    TRY(stw_arena_create(&scratch, error));
    double plan_ps = 0.0, free_ps = 0.0;
    stw_arena work = scratch;
    stw_status status = stw_simulator_tasks(simulator, plan, &work, &room, &tasks, &illegal, error);
    if (status == STW_OK && illegal.length > 0) tasks = &simulator->unfused; /* no such plan: bound what could be run */
    if (status == STW_OK) status = bound_tasks(simulator, tasks, work, &plan_ps, error);
    if (status == STW_OK) status = stw_bound_peak(simulator, tasks, work, &out->peak_bytes, error);
    if (status == STW_OK) status = bound_free(simulator, scratch, &free_ps, error);
    stw_arena_destroy(&scratch);
    if (status != STW_OK) return status;
    out->plan_s = safe_seconds(plan_ps, tasks->T);
    /* A group's time is rounded to a picosecond, half a one at most, once per task. */
    out->fusion_s = fmax(safe_seconds(free_ps, simulator->unfused.T) - 0.5e-12 * simulator->unfused.T, 0.0);
    return STW_OK;
}

double stw_measured_share(const stw_simulator *simulator, const stw_plan *plan) {
    if (stw_simulator_check(simulator, plan, NULL) != STW_OK) return NAN;
    const stw_costs *costs = simulator->costs;
    double measured = 0.0, all = 0.0;
    for (int32_t t = 0; t < simulator->unfused.T; t++) {
        const int32_t i = simulator->unfused.task_node[t], d = plan->device[i];
        const int32_t c = simulator->machine->device[d].cost_class;
        all += costs->us[c][i];
        if (costs->measured[c][i]) measured += costs->us[c][i];
    }
    return all > 0.0 ? measured / all : 1.0;
}
