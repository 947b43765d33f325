/* What does not depend on a plan: the matrices of units and devices, and who is next to whom. */
#include <string.h>

#include "feature/columns.h"
#include "feature/crossings.h"
#include "feature/feedback.h"
#include "feature/places.h"

/* ---- the matrix of devices, and sums over them ---- */

typedef struct {
    double least_us, most_us; /* all work on the fastest device and on the slowest */
    double memory, parameter_bytes;
} device_sums;

typedef struct {    /* means over the links of one device */
    double out, in; /* bytes per second; where there is no link, 0 counts */
    double latency_us;
} device_links;

static device_links links_of(const stw_machine *machine, int32_t device) {
    device_links sum = {0};
    int32_t count = 0;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const stw_link *pair[] = {stw_machine_link(machine, device, d), stw_machine_link(machine, d, device)};
        if (d == device) continue;
        sum.out += pair[0]->bandwidth;
        sum.in += pair[1]->bandwidth;
        for (int k = 0; k < 2; k++) {
            if (pair[k]->bandwidth <= 0.0) continue;
            sum.latency_us += stw_link_fixed_us(pair[k]);
            count++;
        }
    }
    sum.latency_us = stw_ratio(sum.latency_us, count);
    return sum;
}

static double work_on(const stw_features *f, int32_t device) {
    const stw_graph *graph = f->costs->graph;
    const double *us = f->costs->us[f->costs->machine->device[device].cost_class];
    double sum = 0.0;
    for (int32_t k = 0; k < graph->op_count; k++) sum += us[graph->topological[k]];
    return sum;
}

static double parameter_bytes(const stw_graph *graph) {
    double sum = 0.0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_node_is_resident(graph->kind[i])) sum += (double)graph->bytes[i];
    }
    return sum;
}

/* Against the best of all devices; far below it where there is no link, 0 where no device has any. */
static double relative(double bandwidth, double best) {
    return best <= 0.0 ? 0.0 : bandwidth <= 0.0 ? -2.0 : stw_bounded(log(bandwidth / best) / 5.0);
}

static void fill_slot(int32_t j, int32_t D, double *row) {
    row[STW_DEVICE_SLOT] = D > 1 ? (double)j / (D - 1) : 0.0;
    for (int k = 0; k < 3; k++) {
        const double angle = 6.283185307179586 * (1 << k) * j / D;
        row[STW_DEVICE_SIN_1 + 2 * k] = sin(angle);
        row[STW_DEVICE_COS_1 + 2 * k] = cos(angle);
    }
    row[STW_DEVICE_DEVICES] = stw_bounded(D / 8.0);
    row[STW_DEVICE_PER_DEVICE] = 1.0 / D;
}

static void fill_devices(stw_features *f, device_sums *out) {
    const stw_machine *machine = f->costs->machine;
    double work[STW_MAX_DEVICES], memory = 0.0, best_out = 0.0, best_in = 0.0;
    *out = (device_sums){.parameter_bytes = parameter_bytes(f->costs->graph)};
    for (int32_t d = 0; d < f->D; d++) {
        const device_links links = links_of(machine, d);
        work[d] = work_on(f, d);
        out->least_us = d == 0 ? work[d] : fmin(out->least_us, work[d]);
        out->most_us = fmax(out->most_us, work[d]);
        out->memory += (double)machine->device[d].memory_bytes;
        memory = fmax(memory, (double)machine->device[d].memory_bytes);
        best_out = fmax(best_out, links.out);
        best_in = fmax(best_in, links.in);
    }
    for (int32_t d = 0; d < f->D; d++) {
        const device_links links = links_of(machine, d);
        const double bytes = (double)machine->device[d].memory_bytes;
        double *row = f->device + (int64_t)d * STW_DEVICE_COLUMNS;
        row[STW_DEVICE_SPEED] = work[d] > 0.0 ? out->least_us / work[d] : 1.0;
        row[STW_DEVICE_MEMORY] = stw_ratio(bytes, memory);
        row[STW_DEVICE_LOG_ROOM] = stw_bounded(log((bytes + 1.0) / (out->parameter_bytes + 1.0)) / 10.0);
        row[STW_DEVICE_BANDWIDTH_OUT] = relative(links.out, best_out);
        row[STW_DEVICE_BANDWIDTH_IN] = relative(links.in, best_in);
        row[STW_DEVICE_LOG_LATENCY] = stw_log_scaled(links.latency_us, 5.0);
        row[STW_DEVICE_HOST] = machine->host == d ? 1.0 : 0.0;
        fill_slot(d, f->D, row);
    }
}

/* ---- the operator of each unit: of those in it, the one that takes most of its time ---- */

/* Buckets go by the name, so that a new row in the operator table changes no other operator's. */
static int32_t bucket_of(int32_t row) {
    if (row < 0) return 0;
    return 1 + (int32_t)(stw_str_hash(stw_str_of(stw_op_table[row].name)) % (STW_OPERATOR_BUCKETS - 1));
}

/* time: (rows + 1), all zero before and after; place 0 is for operators that are not in the table. */
static int32_t longest_row(const stw_features *f, int32_t unit, const int32_t *row, double *time) {
    const stw_graph *graph = f->costs->graph;
    const int32_t from = f->units->start[unit], to = f->units->start[unit + 1];
    int32_t best = -1;
    double most = 0.0;
    for (int32_t m = from; m < to; m++) {
        const int32_t node = f->units->member[m];
        if (graph->kind[node] == STW_NODE_OP) time[row[node] + 1] += f->weight[node];
    }
    for (int32_t m = from; m < to; m++) {
        const int32_t node = f->units->member[m];
        if (graph->kind[node] != STW_NODE_OP) continue;
        if (time[row[node] + 1] > most) {
            most = time[row[node] + 1];
            best = row[node];
        }
        time[row[node] + 1] = 0.0;
    }
    return best;
}

static stw_status fill_operators(stw_features *f, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = f->costs->graph;
    stw_op_index *index;
    int32_t *row;
    double *time;
    TRY(stw_op_index_create(&scratch, &index, error));
    STW_TRY_NEW(&scratch, row, graph->N, error);
    STW_TRY_NEW(&scratch, time, (int64_t)stw_op_count + 1, error);
    for (int32_t i = 0; i < graph->N; i++) {
        row[i] = graph->kind[i] == STW_NODE_OP && graph->known[i] ? stw_op_find_any(index, graph->op_name[i]) : -1;
    }
    for (int32_t u = 0; u < f->M; u++) f->operator_[u] = bucket_of(longest_row(f, u, row, time));
    return STW_OK;
}

/* ---- what a unit does ---- */

typedef struct { /* sums over a unit */
    double flops, moved, parameter_bytes, output_bytes, external_bytes, comm_us;
    double all_us; /* on every device once */
    int32_t ops;
} unit_sums;

static void add_member(const stw_features *f, int32_t node, unit_sums *sums, double *row) {
    const stw_costs *costs = f->costs;
    const stw_graph *graph = costs->graph;
    if (graph->kind[node] != STW_NODE_OP) {
        sums->parameter_bytes += (double)graph->bytes[node];
        return;
    }
    sums->ops++;
    sums->flops += (double)graph->flops[node];
    sums->moved += (double)costs->moved[node];
    sums->output_bytes += (double)graph->bytes[node];
    for (int32_t d = 0; d < f->D; d++) sums->all_us += costs->us[costs->machine->device[d].cost_class][node];
    row[STW_UNIT_CLASS_MATMUL + graph->op_class[node]] += f->weight[node];
}

/* A value that leaves its unit counts there once, and once in every unit that reads it. */
static void add_crossings(const stw_features *f, unit_sums *sums) {
    const stw_crossings *c = f->crossings;
    for (int32_t v = 0; v < f->tasks->V; v++) {
        for (int32_t e = c->start[v]; e < c->start[v + 1]; e++) {
            sums[c->to[e]].external_bytes += c->bytes[e];
            sums[c->to[e]].comm_us += stw_mean_link_us(c, c->bytes[e]);
        }
        if (c->start[v] == c->start[v + 1]) continue;
        sums[c->from[v]].external_bytes += c->sent[v];
        sums[c->from[v]].comm_us += stw_mean_link_us(c, c->sent[v]);
    }
}

static void fill_work(const stw_features *f, const stw_places *p, int32_t unit, const unit_sums *s, double *row) {
    const double us = f->unit_us[unit], little = 1e-3 * p->work_us / f->M;
    double weight = 0.0;
    for (int32_t k = 0; k < STW_CLASS_COUNT; k++) weight += row[STW_UNIT_CLASS_MATMUL + k];
    for (int32_t k = 0; k < STW_CLASS_COUNT; k++)
        row[STW_UNIT_CLASS_MATMUL + k] = stw_ratio(row[STW_UNIT_CLASS_MATMUL + k], weight);
    row[STW_UNIT_LOG_TIME] = stw_log_scaled(us, 10.0);
    row[STW_UNIT_TIME_OF_PATH] = stw_compressed(stw_ratio(us, p->path_us));
    row[STW_UNIT_TIME_OF_SHARE] = stw_compressed(stw_ratio(us * f->D, p->work_us));
    row[STW_UNIT_LOG_EXTERNAL_BYTES] = stw_log_scaled(s->external_bytes, 30.0);
    row[STW_UNIT_LOG_PARAMETER_BYTES] = stw_log_scaled(s->parameter_bytes, 30.0);
    row[STW_UNIT_LOG_OUTPUT_BYTES] = stw_log_scaled(s->output_bytes, 30.0);
    row[STW_UNIT_LOG_COMM] = stw_log_scaled(s->comm_us, 10.0);
    row[STW_UNIT_COMM_PER_TIME] = little > 0.0 ? tanh(log((s->comm_us + little) / (us + little)) / 4.0) : 0.0;
    row[STW_UNIT_LOG_FLOPS] = stw_log_scaled(s->flops, 30.0);
    row[STW_UNIT_LOG_MOVED_BYTES] = stw_log_scaled(s->moved, 30.0);
    row[STW_UNIT_LOG_FAN_IN] = stw_log_scaled(f->producer_start[unit + 1] - f->producer_start[unit], 5.0);
    row[STW_UNIT_LOG_FAN_OUT] = stw_log_scaled(f->reader_start[unit + 1] - f->reader_start[unit], 5.0);
    row[STW_UNIT_LOG_UNIT_OPS] = stw_log_scaled(s->ops, 10.0);
    row[STW_UNIT_UNLIKE] = s->all_us > 0.0 ? fmax(0.0, 1.0 - us * f->D / s->all_us) : 0.0;
}

/* ---- where it stands ---- */

static void fill_place(const stw_features *f, const stw_places *p, int32_t unit, double *row) {
    static const double full = 6.283185307179586; /* 2 pi */
    const double level = stw_unit_mean(f, unit, p->level);
    row[STW_UNIT_POSITION] = stw_ratio(unit, f->M - 1);
    row[STW_UNIT_TOP_LEVEL] = stw_ratio(stw_unit_mean(f, unit, p->top), p->path_us);
    row[STW_UNIT_BOTTOM_LEVEL] = stw_ratio(stw_unit_mean(f, unit, p->bottom), p->path_us);
    row[STW_UNIT_SLACK] = fmax(0.0, 1.0 - row[STW_UNIT_TOP_LEVEL] - row[STW_UNIT_BOTTOM_LEVEL]);
    row[STW_UNIT_UPWARD_RANK] = stw_ratio(stw_unit_mean(f, unit, p->rank), p->rank_most);
    row[STW_UNIT_LEVEL] = level;
    row[STW_UNIT_TRACE_POSITION] = stw_unit_mean(f, unit, p->trace);
    row[STW_UNIT_FORWARD] = stw_unit_mean(f, unit, p->forward);
    row[STW_UNIT_UPDATE] = stw_unit_mean(f, unit, p->update);
    for (int k = 0; k < 3; k++) {
        row[STW_UNIT_SIN_1 + 2 * k] = sin((1 << k) * full * level);
        row[STW_UNIT_COS_1 + 2 * k] = cos((1 << k) * full * level);
    }
}

/* ---- graph and machine ---- */

static void fill_problem(const stw_features *f, const stw_places *p, const device_sums *devices, double *row) {
    const stw_crossings *c = f->crossings;
    double values = 0.0;
    for (int32_t v = 0; v < f->tasks->V; v++) {
        if (c->from[v] >= 0) values += (double)f->tasks->home_bytes[v];
    }
    const double parameters = stw_ratio(devices->parameter_bytes, devices->memory), all = stw_ratio(values, devices->memory);
    row[STW_UNIT_DEVICES] = stw_bounded(f->D / 8.0);
    row[STW_UNIT_PER_DEVICE] = 1.0 / f->D;
    row[STW_UNIT_LOG_LATENCY] = stw_log_scaled(c->link.fixed_us, 5.0);
    row[STW_UNIT_LOG_BANDWIDTH] = stw_log_scaled(stw_ratio(1e-3, c->link.us_per_byte), 7.0);
    row[STW_UNIT_PATH_OF_WORK] = stw_ratio(p->path_us, p->work_us);
    row[STW_UNIT_PATH_OF_SHARE] = stw_log_scaled(stw_ratio(p->path_us * f->D, p->work_us), 2.0);
    row[STW_UNIT_LOG_GRAPH_OPS] = stw_log_scaled(f->costs->graph->op_count, 10.0);
    row[STW_UNIT_SPEED_SPREAD] = devices->most_us > 0.0 ? 1.0 - devices->least_us / devices->most_us : 0.0;
    row[STW_UNIT_PARAMETER_PRESSURE] = parameters / (1.0 + parameters);
    row[STW_UNIT_VALUE_PRESSURE] = all / (1.0 + all);
    row[STW_UNIT_CONTENTION] = f->costs->machine->queues ? 1.0 : 0.0;
}

static stw_status fill_units(stw_features *f, const device_sums *devices, stw_arena scratch, stw_error *error) {
    stw_places places = {0};
    unit_sums *sums;
    double *problem; /* one row with what is the same in all */
    TRY(stw_places_build(f, &scratch, &places, error));
    STW_TRY_NEW(&scratch, sums, f->M, error);
    STW_TRY_NEW(&scratch, problem, STW_UNIT_COLUMNS, error);
    fill_problem(f, &places, devices, problem);
    add_crossings(f, sums);
    for (int32_t u = 0; u < f->M; u++) {
        double *row = f->unit + (int64_t)u * STW_UNIT_COLUMNS;
        memcpy(row, problem, STW_UNIT_COLUMNS * sizeof *row);
        for (int32_t m = f->units->start[u]; m < f->units->start[u + 1]; m++) {
            add_member(f, f->units->member[m], &sums[u], row);
            f->unit_us[u] += f->costs->least_us[f->units->member[m]];
        }
        fill_work(f, &places, u, &sums[u], row);
        fill_place(f, &places, u, row);
        for (int32_t k = 0; k < STW_UNIT_COLUMNS; k++) row[k] = stw_bounded(row[k]);
    }
    return STW_OK;
}

stw_status stw_features_build(const stw_costs *costs, const stw_tasks *tasks, const stw_units *units, stw_arena *arena,
                              stw_features *out, stw_error *error) {
    device_sums devices = {0};
    *out = (stw_features){.M = units->count, .D = costs->machine->device_count, .costs = costs, .tasks = tasks, .units = units};
    STW_TRY_NEW(arena, out->unit, (int64_t)out->M * STW_UNIT_COLUMNS, error);
    STW_TRY_NEW(arena, out->device, (int64_t)out->D * STW_DEVICE_COLUMNS, error);
    STW_TRY_NEW(arena, out->operator_, out->M, error);
    STW_TRY_NEW(arena, out->unit_us, out->M, error);
    TRY(stw_places_weigh(out, arena, error));
    TRY(stw_crossings_build(out, arena, error));
    TRY(stw_crossings_neighbours(out, arena, error));
    fill_devices(out, &devices);
    TRY(fill_operators(out, *arena, error));
    return fill_units(out, &devices, *arena, error);
}
