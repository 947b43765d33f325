/* The matrix of devices. */
#include "feature/columns.h"
#include "feature/parts.h"

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

void stw_features_devices(stw_features *f, stw_device_sums *out) {
    const stw_machine *machine = f->costs->machine;
    double work[STW_MAX_DEVICES], memory = 0.0, best_out = 0.0, best_in = 0.0;
    *out = (stw_device_sums){.parameter_bytes = parameter_bytes(f->costs->graph)};
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
