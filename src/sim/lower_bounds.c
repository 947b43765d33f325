/* The lower bounds that stand beside every result: of the step and of the largest load of a device with the plan's groups and
 * with the groups free; of the peak of memory with the plan's groups.
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

/* What a device could make groups of. */
typedef struct {
    const stw_device *device;
    int32_t fusing, leading; /* ops of the classes that fuse; of those that take an epilogue */
} partners;

static partners count_partners(const stw_graph *graph, const stw_device *device) {
    partners p = {.device = device};
    for (int32_t k = 0; k < graph->op_count; k++) {
        const uint8_t op_class = graph->op_class[graph->topological[k]];
        if (stw_op_class_fuses((stw_op_class)op_class)) {
            p.fusing++;
        } else if (device->fuses_epilogue[op_class]) {
            p.leading++;
        }
    }
    return p;
}

/* An op of this class can be in one group with another: one with an epilogue leads, all others fuse. */
static bool may_fuse(const partners *p, uint8_t op_class) {
    if (stw_op_class_fuses((stw_op_class)op_class)) return p->fusing + p->leading > 1;
    return p->device->fuses_epilogue[op_class] && p->fusing > 0;
}

bool stw_simulator_may_fuse(const stw_simulator *s) {
    for (int32_t c = 0; c < s->machine->cost_class_count; c++) {
        const partners p = count_partners(s->graph, &s->machine->device[s->machine->class_device[c]]);
        if (p.fusing > 0 && p.fusing + p.leading > 1) return true;
    }
    return false;
}

static void count_devices(const stw_machine *machine, stw_bound_input *in) {
    in->C = machine->cost_class_count;
    for (int32_t c = 0; c < in->C; c++) in->device_count[c] = 0;
    for (int32_t d = 0; d < machine->device_count; d++) in->device_count[machine->device[d].cost_class]++;
}

/* ---- with the plan's groups ---- */

static stw_status bound_tasks(const stw_simulator *s, const stw_tasks *tasks, stw_arena scratch, stw_bound_times *out,
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
    return stw_bound_steps(&in, scratch, out, error);
}

/* ---- with the groups free ---- */

/* Bytes that op i must move across the border of its group, whatever the group: its share of what it reads from sources and from
 * ops that never fuse, and its output if that must be written. */
static double border_bytes(const stw_graph *graph, const partners *p, const int32_t *reader_ops, int32_t i) {
    double bytes = 0.0;
    bool written = graph->kept[i] || graph->updates[i] >= 0;
    for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1] && !written; r++) {
        written = !may_fuse(p, graph->op_class[graph->reader[r].node]);
    }
    if (written) bytes += (double)graph->bytes[i];
    for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1];) {
        const int32_t producer = graph->read[e].node;
        int64_t end = e + 1;
        while (end < graph->read_start[i + 1] && graph->read[end].node == producer) end++;
        if (graph->kind[producer] != STW_NODE_OP || !may_fuse(p, graph->op_class[producer])) {
            bytes += (double)stw_read_bytes(graph, producer, graph->read + e, end - e) / reader_ops[producer];
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

static double smallest_ratio(const stw_costs *costs, int32_t c, const partners *p) {
    const stw_graph *graph = costs->graph;
    double least = DBL_MAX;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        if (may_fuse(p, graph->op_class[i]) && costs->model_us[c][i] > 0.0)
            least = fmin(least, costs->us[c][i] / costs->model_us[c][i]);
    }
    return least == DBL_MAX ? 0.0 : least;
}

static double best_efficiency(const partners *p) {
    double best = 0.0;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (may_fuse(p, (uint8_t)c)) best = fmax(best, p->device->efficiency[c]);
    }
    return best;
}

/* Times of class c with weights mixed from arithmetic (1 - mix) and border traffic (mix). The time of a group is rounded to a
 * picosecond, half a one at most: it is taken off each member, so that what never fuses keeps its time to the picosecond. */
static void free_times(const stw_simulator *s, int32_t c, double mix, const int32_t *reader_ops, double *time_ps) {
    const stw_costs *costs = s->costs;
    const stw_graph *graph = s->graph;
    const stw_device *device = &s->machine->device[s->machine->class_device[c]];
    const partners p = count_partners(graph, device);
    const double rho = smallest_ratio(costs, c, &p), bandwidth = device->bandwidth * best_efficiency(&p);
    for (int32_t t = 0; t < s->unfused.T; t++) {
        const int32_t i = s->unfused.task_node[t];
        time_ps[t] = (double)s->unfused.duration_ps[c][t];
        if (!may_fuse(&p, graph->op_class[i]) || graph->apart[i] != NULL) continue;
        const double traffic_us = border_bytes(graph, &p, reader_ops, i) / bandwidth * 1e6;
        const double us = fmin(costs->us[c][i], rho * ((1.0 - mix) * costs->compute_us[c][i] + mix * traffic_us));
        time_ps[t] = graph->flow != NULL ? 0.0 : fmax(us * 1e6 - 0.5, 0.0);
    }
}

static stw_status bound_free(const stw_simulator *s, stw_arena scratch, stw_bound_times *out, stw_error *error) {
    stw_bound_input in = {.tasks = &s->unfused};
    int32_t *reader_ops;
    count_devices(s->machine, &in);
    STW_TRY_NEW(&scratch, reader_ops, s->graph->N, error);
    STW_TRY_NEW(&scratch, in.time_ps, in.C, error);
    count_reader_ops(s->graph, reader_ops);
    *out = (stw_bound_times){0};
    for (int half = 0; half <= 2; half++) {
        stw_arena round = scratch;
        for (int32_t c = 0; c < in.C; c++) {
            double *time;
            STW_TRY_NEW(&round, time, s->unfused.T, error);
            free_times(s, c, half / 2.0, reader_ops, time);
            in.time_ps[c] = time;
        }
        stw_bound_times bound;
        TRY(stw_bound_steps(&in, round, &bound, error));
        out->step_ps = fmax(out->step_ps, bound.step_ps);
        out->load_ps = fmax(out->load_ps, bound.load_ps);
    }
    return STW_OK;
}

/* Sums in doubles carry an error, and durations are rounded to whole picoseconds: stay on the safe side of both. */
static double safe_seconds(double ps, int32_t T) {
    const double safe = ps * (1.0 - 1e-12) - 0.5 * T * DBL_EPSILON * ps;
    return isfinite(ps) ? fmax(safe, 0.0) / 1e12 : 0.0;
}

stw_status stw_lower_bounds(const stw_simulator *simulator, const stw_plan *plan, stw_bounds *out, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(out);
    *out = (stw_bounds){0};
    TRY(stw_simulator_check(simulator, plan, error));
    stw_arena scratch;
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str illegal;
    TRY(stw_arena_create(&scratch, error));
    stw_bound_times of_plan = {0}, of_any = {0};
    stw_arena work = scratch;
    stw_status status = stw_simulator_tasks(simulator, plan, &work, &room, &tasks, &illegal, error);
    if (status == STW_OK && illegal.length > 0) tasks = &simulator->unfused; /* no such plan: bound what could be run */
    if (status == STW_OK) status = bound_tasks(simulator, tasks, work, &of_plan, error);
    if (status == STW_OK) status = stw_bound_peak(simulator, tasks, work, &out->peak_bytes, error);
    if (status == STW_OK) status = bound_free(simulator, scratch, &of_any, error);
    stw_arena_destroy(&scratch);
    if (status != STW_OK) return status;
    const int32_t T = simulator->unfused.T;
    out->plan_s = safe_seconds(of_plan.step_ps, tasks->T);
    out->load_s = safe_seconds(of_plan.load_ps, tasks->T);
    out->fusion_s = safe_seconds(of_any.step_ps, T);
    out->load_fusion_s = safe_seconds(of_any.load_ps, T);
    return STW_OK;
}

double stw_measured_share(const stw_simulator *simulator, const stw_plan *plan) {
    STW_NEED(simulator);
    STW_NEED(plan);
    if (stw_simulator_check(simulator, plan, NULL) != STW_OK) return NAN;
    const stw_costs *costs = simulator->costs;
    double measured = 0.0, all = 0.0;
    for (int32_t t = 0; t < simulator->unfused.T; t++) {
        const int32_t i = simulator->unfused.task_node[t], d = plan->device[i];
        const int32_t c = simulator->machine->device[d].cost_class;
        all += costs->us[c][i];
        if (costs->measured[c][i]) measured += costs->us[c][i];
    }
    return all > 0.0 ? measured / all : simulator->unfused.T == 0 ? 1.0 : 0.0;
}
