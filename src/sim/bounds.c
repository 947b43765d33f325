/* Lower bounds: what no plan can beat under this cost model. Those of the step and of the largest load of a device stand here,
 * with the plan's groups and with the groups free; that of the peak of memory is in memory_bound.c.
 *
 * Every op has a head (the least time before it can begin) and a tail (the least time after it), transfers included (levels.c).
 * For thresholds (h, t), all ops with at least that head and tail run within [h, step - t], so step >= h + work / devices + t.
 * The bound is the maximum over all thresholds; it contains the critical path and the work over all devices. Unlike devices:
 * "work / devices" is the fractional-assignment bound through prices (see price_devices). Memory is ignored, and so is what
 * transfers take of each other's time, which only lowers it.
 *
 * Groups free. A group takes r x model(group), r being at least the smallest ratio rho of time to modelled time among the ops
 * that can fuse on that class of device; and model(group) is at least the sum of its members' arithmetic, and at least the
 * time for the bytes that must cross its border however ops are grouped. So each of
 *     w = rho x arithmetic,   w = rho x border bytes / (bandwidth x best efficiency),   w = their mean
 * never sums up to more than the group's time, and w in place of an op's time gives a valid bound: within a group, ops may be
 * thought to run one after the other, and of an op that is recomputed the first time counts, on the device of all its readers.
 * Ops that never fuse keep their own time. Where it is known how ops go over their elements (graph->flow), a group may compute
 * and read only parts: then nothing is certain of those that can fuse. */
#include "sim/bounds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const stw_simulator *simulator;
    const stw_tasks *tasks;
    int32_t C;                             /* cost classes */
    const double **time_ps;                /* (C)(T) the least time that a task takes on a device of a class */
    int32_t device_count[STW_MAX_DEVICES]; /* (C) devices of each class */
} bound_input;

typedef struct {    /* picoseconds, rounding errors included */
    double step_ps; /* the largest bound that heads, tails and work give */
    double load_ps; /* of the largest load of a device: work alone, and the longest task */
} bound_times;

/* ---- work over unlike devices ---- */

/* Prices y_c >= 0 with sum over devices of y = 1 make sum over tasks of min_c(y_c x time_c) a lower bound on the largest load
 * (linear-programming duality), whatever the prices; good prices make it tight. shares[c] = n_c y_c. */
static double priced_work(const bound_input *in, const double *share, double *load, double *weight) {
    double sum = 0.0, price_of[STW_MAX_DEVICES];
    for (int32_t c = 0; c < in->C; c++) {
        load[c] = 0.0;
        price_of[c] = share[c] / in->device_count[c];
    }
    for (int32_t t = 0; t < in->tasks->T; t++) {
        int32_t best = 0;
        double least = DBL_MAX;
        for (int32_t c = 0; c < in->C; c++) {
            const double price = price_of[c] * in->time_ps[c][t];
            if (price >= least) continue;
            least = price;
            best = c;
        }
        if (weight != NULL) weight[t] = least;
        load[best] += in->time_ps[best][t] / in->device_count[best];
        sum += least;
    }
    return sum;
}

/* Raises the price of the loaded classes and lowers that of the others, in shrinking steps; keeps the best. */
static void price_devices(const bound_input *in, double *weight) {
    enum { ROUNDS = 120 };
    double share[STW_MAX_DEVICES], best_share[STW_MAX_DEVICES], load[STW_MAX_DEVICES];
    double best = -1.0;
    for (int32_t c = 0; c < in->C; c++) best_share[c] = share[c] = 1.0 / in->C;
    for (int round = 0; in->C > 1 && round < ROUNDS; round++) {
        const double value = priced_work(in, share, load, NULL);
        if (value > best) {
            best = value;
            memcpy(best_share, share, sizeof share);
        }
        double largest = 0.0, sum = 0.0;
        for (int32_t c = 0; c < in->C; c++) largest = fmax(largest, load[c]);
        if (!(largest > 0.0) || !isfinite(largest)) break;
        for (int32_t c = 0; c < in->C; c++) {
            share[c] = fmax(share[c] * exp(2.0 / (1.0 + 0.15 * round) * (load[c] / largest - 0.5)), 1e-9);
            sum += share[c];
        }
        for (int32_t c = 0; c < in->C; c++) share[c] /= sum;
    }
    priced_work(in, best_share, load, weight);
}

/* ---- the maximum over thresholds ---- */

/* A tree over the distinct tails: adds to a prefix, knows the maximum. */
typedef struct {
    int32_t leaves;     /* a power of two */
    double *best, *add; /* (2 x leaves) */
} prefix_tree;

static void refresh(prefix_tree *tree, int64_t node) {
    for (node >>= 1; node >= 1; node >>= 1)
        tree->best[node] = fmax(tree->best[2 * node], tree->best[2 * node + 1]) + tree->add[node];
}

static void set_leaf(prefix_tree *tree, int32_t leaf, double value) {
    tree->best[tree->leaves + leaf] = value;
    refresh(tree, tree->leaves + leaf);
}

static void add_prefix(prefix_tree *tree, int32_t last, double value) {
    int32_t left = tree->leaves, right = tree->leaves + last + 1;
    for (; left < right; left >>= 1, right >>= 1) {
        if (left & 1) {
            tree->best[left] += value;
            tree->add[left++] += value;
        }
        if (right & 1) {
            tree->best[--right] += value;
            tree->add[right] += value;
        }
    }
    refresh(tree, tree->leaves);
    refresh(tree, tree->leaves + last);
}

typedef struct {
    double key;
    int32_t task;
} ranked;

static int by_key(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

static stw_status rank(int32_t T, const double *key, stw_arena *arena, ranked **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, T, error);
    for (int32_t t = 0; t < T; t++) (*out)[t] = (ranked){key[t], t};
    if (T > 1) qsort(*out, (size_t)T, sizeof **out, by_key);
    return STW_OK;
}

/* Adds tasks by falling head; after each, every tail threshold that some task reaches gives a bound. A leaf counts only once a
 * task with at least its tail is in, since an empty set bounds nothing. Adds apply to leaves that are in. */
static stw_status maximise(const stw_levels *l, const double *least, const double *weight, int32_t T, stw_arena *arena,
                           double *out, stw_error *error) {
    ranked *by_head, *by_tail;
    int32_t *leaf;
    prefix_tree tree = {.leaves = 1};
    while (tree.leaves < T) tree.leaves *= 2;
    TRY(rank(T, l->head, arena, &by_head, error));
    TRY(rank(T, l->tail, arena, &by_tail, error));
    STW_TRY_NEW(arena, leaf, T, error);
    STW_TRY_NEW(arena, tree.best, 2 * (int64_t)tree.leaves, error);
    STW_TRY_NEW(arena, tree.add, 2 * (int64_t)tree.leaves, error);
    for (int32_t k = 0; k < T; k++) leaf[by_tail[k].task] = k;
    for (int64_t k = 0; k < 2 * (int64_t)tree.leaves; k++) tree.best[k] = -DBL_MAX;
    *out = 0.0;
    int32_t last = -1; /* largest leaf that is in */
    for (int32_t k = T - 1; k >= 0; k--) {
        const int32_t task = by_head[k].task;
        for (; last < leaf[task]; last++) set_leaf(&tree, last + 1, l->tail[by_tail[last + 1].task]);
        add_prefix(&tree, leaf[task], weight[task]);
        *out = fmax(*out, l->head[task] + tree.best[1]);
        *out = fmax(*out, l->head[task] + least[task] + l->tail[task]);
    }
    return STW_OK;
}

static stw_status bound_steps(const bound_input *in, bool with_transfers, stw_arena scratch, bound_times *out, stw_error *error) {
    const int32_t T = in->tasks->T;
    stw_levels l;
    double *least, *weight;
    *out = (bound_times){0};
    if (T == 0) return STW_OK;
    STW_TRY_NEW(&scratch, least, T, error);
    STW_TRY_NEW(&scratch, weight, T, error);
    for (int32_t t = 0; t < T; t++) {
        least[t] = in->time_ps[0][t];
        for (int32_t c = 1; c < in->C; c++) least[t] = fmin(least[t], in->time_ps[c][t]);
    }
    TRY(stw_bound_levels(in->simulator, in->tasks, least, with_transfers, &scratch, &l, error));
    price_devices(in, weight);
    for (int32_t t = 0; t < T; t++) out->load_ps += weight[t];
    for (int32_t t = 0; t < T; t++) out->load_ps = fmax(out->load_ps, least[t]);
    return maximise(&l, least, weight, T, &scratch, &out->step_ps, error);
}

/* ---- what can fuse ---- */

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

static void count_devices(const stw_machine *machine, bound_input *in) {
    in->C = machine->cost_class_count;
    for (int32_t c = 0; c < in->C; c++) in->device_count[c] = 0;
    for (int32_t d = 0; d < machine->device_count; d++) in->device_count[machine->device[d].cost_class]++;
}

/* ---- with the plan's groups ---- */

static stw_status bound_tasks(const stw_simulator *s, const stw_tasks *tasks, bool with_transfers, stw_arena scratch,
                              bound_times *out, stw_error *error) {
    bound_input in = {.simulator = s, .tasks = tasks};
    count_devices(s->machine, &in);
    STW_TRY_NEW(&scratch, in.time_ps, in.C, error);
    for (int32_t c = 0; c < in.C; c++) {
        double *time;
        STW_TRY_NEW(&scratch, time, tasks->T, error);
        for (int32_t t = 0; t < tasks->T; t++) time[t] = (double)tasks->duration_ps[c][t];
        in.time_ps[c] = time;
    }
    return bound_steps(&in, with_transfers, scratch, out, error);
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

static stw_status bound_mixed(const stw_simulator *s, double mix, bool with_transfers, const int32_t *reader_ops,
                              stw_arena scratch, bound_times *out, stw_error *error) {
    bound_input in = {.simulator = s, .tasks = &s->unfused};
    count_devices(s->machine, &in);
    STW_TRY_NEW(&scratch, in.time_ps, in.C, error);
    for (int32_t c = 0; c < in.C; c++) {
        double *time;
        STW_TRY_NEW(&scratch, time, s->unfused.T, error);
        free_times(s, c, mix, reader_ops, time);
        in.time_ps[c] = time;
    }
    return bound_steps(&in, with_transfers, scratch, out, error);
}

/* Transfers count only in the mix that is best without them: looking at them takes most of the time. */
static stw_status bound_free(const stw_simulator *s, bool with_transfers, stw_arena scratch, bound_times *out, stw_error *error) {
    int32_t *reader_ops;
    STW_TRY_NEW(&scratch, reader_ops, s->graph->N, error);
    count_reader_ops(s->graph, reader_ops);
    bound_times bound;
    double best_mix = 0.0;
    *out = (bound_times){0};
    for (int half = 0; half <= 2; half++) {
        TRY(bound_mixed(s, half / 2.0, false, reader_ops, scratch, &bound, error));
        if (bound.step_ps > out->step_ps) best_mix = half / 2.0;
        out->step_ps = fmax(out->step_ps, bound.step_ps);
        out->load_ps = fmax(out->load_ps, bound.load_ps);
    }
    if (!with_transfers) return STW_OK;
    TRY(bound_mixed(s, best_mix, true, reader_ops, scratch, &bound, error));
    out->step_ps = fmax(out->step_ps, bound.step_ps);
    return STW_OK;
}

/* ---- the results ---- */

/* Sums in doubles carry an error, half a unit in the last place for each addition; a task is added at most a few times on the way
 * to a bound. Stay on the safe side. */
static double safe_seconds(double ps, int32_t T) {
    const double safe = ps * (1.0 - 1e-12) - 4.0 * T * DBL_EPSILON * ps;
    return isfinite(ps) ? fmax(safe, 0.0) / 1e12 : 0.0;
}

/* Of the groups that the plan has. */
static stw_status bound_plan(const stw_simulator *simulator, const stw_plan *plan, bool with_transfers, bool with_peak,
                             stw_arena scratch, stw_bounds *out, stw_error *error) {
    stw_tasks room;
    const stw_tasks *tasks;
    stw_str illegal;
    bound_times of_plan = {0};
    TRY(stw_simulator_tasks(simulator, plan, &scratch, &room, &tasks, &illegal, error));
    if (illegal.length > 0) tasks = &simulator->unfused; /* no such plan: bound what could be run */
    TRY(bound_tasks(simulator, tasks, with_transfers, scratch, &of_plan, error));
    if (with_peak) TRY(stw_bound_peak(simulator, tasks, scratch, &out->peak_bytes, error));
    out->plan_s = safe_seconds(of_plan.step_ps, tasks->T);
    out->load_s = safe_seconds(of_plan.load_ps, tasks->T);
    return STW_OK;
}

stw_status stw_lower_bounds(const stw_simulator *simulator, const stw_plan *plan, stw_bounds *out, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(plan);
    STW_NEED(out);
    return stw_find_bounds(simulator, plan, true, out, error);
}

stw_status stw_find_bounds(const stw_simulator *simulator, const stw_plan *plan, bool with_transfers, stw_bounds *out,
                           stw_error *error) {
    *out = (stw_bounds){0};
    TRY(stw_simulator_check(simulator, plan, error));
    stw_arena scratch;
    TRY(stw_arena_create(&scratch, error));
    bound_times of_any = {0};
    stw_status status = bound_plan(simulator, plan, with_transfers, true, scratch, out, error);
    if (status == STW_OK) status = bound_free(simulator, with_transfers, scratch, &of_any, error);
    stw_arena_destroy(&scratch);
    if (status != STW_OK) return status;
    const int32_t T = simulator->unfused.T;
    out->fusion_s = safe_seconds(of_any.step_ps, T);
    out->plan_s = fmax(out->plan_s, out->fusion_s); /* these are groups, too */
    out->load_fusion_s = safe_seconds(of_any.load_ps, T);
    return STW_OK;
}

stw_status stw_find_bounds_of_groups(const stw_simulator *simulator, const stw_plan *plan, bool with_transfers, stw_bounds *out,
                                     stw_error *error) {
    stw_arena scratch;
    *out = (stw_bounds){0};
    TRY(stw_simulator_check(simulator, plan, error));
    TRY(stw_arena_create(&scratch, error));
    const stw_status status = bound_plan(simulator, plan, with_transfers, false, scratch, out, error);
    stw_arena_destroy(&scratch);
    return status;
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
