/* Fits the constants of the cost model on the measured ops of data/graphs and says how wrong the model is on ops that it has not
 * seen: each family of graphs in turn is left out of the fit and predicted.
 *
 *     fit_costs [--data DIR]        a table for people
 *     fit_costs --def [--data DIR]  the rows of src/machine/fitted.def
 *
 * launch: the median time of element-wise ops that move at most 4 KiB. Peak and bandwidth (only where the vendor's are not
 * known): the best rate that a matrix product or convolution reaches, and the 98th percentile of the rates of element-wise ops
 * that move at least 1 MiB. Efficiency of a class: what minimises the mean |log(model / measured)|, each distinct op weighted by
 * the square root of its total time, so that neither the many tiny ops nor the few long ones decide alone. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cost/cost.h"

typedef struct { /* one distinct op: equal in all of these */
    stw_op_class op_class;
    int32_t dtype;
    double flops, bytes, us;
    char family[40];
    int64_t count;
} sample;

typedef struct {
    sample *item;
    int64_t count, capacity;
} samples;

typedef struct {
    const char *kind;
    bool fit_rates; /* peak and bandwidth too */
    samples data;
} kind_data;

static void die(const char *what) {
    fprintf(stderr, "fit_costs: %s\n", what);
    exit(2);
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static int by_sample(const void *left, const void *right) {
    const sample *a = left, *b = right;
    const int family = strcmp(a->family, b->family);
    if (family != 0) return family;
    if (a->op_class != b->op_class) return a->op_class < b->op_class ? -1 : 1;
    if (a->dtype != b->dtype) return a->dtype < b->dtype ? -1 : 1;
    if (a->flops != b->flops) return a->flops < b->flops ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->us < b->us ? -1 : a->us > b->us;
}

/* The q-quantile; sorts the values. */
static double quantile(double *values, int64_t count, double q) {
    if (count == 0) return 0.0;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[(int64_t)(q * (double)(count - 1) + 0.5)];
}

/* ---- the measured ops ---- */

static void add_sample(samples *s, sample item) {
    if (STW_GROW(NULL, s->item, s->count + 1, s->capacity, NULL) != STW_OK) die("out of memory");
    s->item[s->count++] = item;
}

static void merge_equal(samples *s) {
    if (s->count == 0) die("no measured ops");
    qsort(s->item, (size_t)s->count, sizeof *s->item, by_sample);
    int64_t kept = 0;
    for (int64_t k = 1; k < s->count; k++) {
        if (by_sample(&s->item[kept], &s->item[k]) == 0) {
            s->item[kept].count += s->item[k].count;
        } else {
            s->item[++kept] = s->item[k];
        }
    }
    s->count = kept + 1;
}

static void collect_graph(const char *path, kind_data *kinds, int kind_count) {
    stw_error error;
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    if (stw_graph_open(path, NULL, &graph, &error) || stw_machine_open("h200x1", &machine, &error) ||
        stw_costs_create(graph, machine, NULL, &costs, &error)) {
        die(error.message);
    }
    for (int32_t c = 0; c < graph->kind_count; c++) {
        for (int k = 0; k < kind_count; k++) {
            if (!stw_str_is(graph->kind_name[c], kinds[k].kind)) continue;
            for (int32_t i = 0; i < graph->N; i++) {
                if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] == STW_CLASS_ALIAS || isnan(graph->us[c][i]) ||
                    graph->us[c][i] <= 0.0)
                    continue;
                sample item = {.op_class = (stw_op_class)graph->op_class[i],
                               .dtype = graph->dtype[i],
                               .flops = (double)graph->flops[i],
                               .bytes = (double)costs->moved[i],
                               .us = graph->us[c][i],
                               .count = 1};
                snprintf(item.family, sizeof item.family, "%s", graph->family.p);
                add_sample(&kinds[k].data, item);
            }
        }
    }
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

/* ---- from kind to kind ---- */

typedef struct { /* times of one kind made of the other's by the ratio of the models */
    double error_us[2], measured_us[2];
} carried;

static void add_carried(const char *path, carried *sum) {
    static const char *const kinds[] = {"h200", "cpu8"};
    stw_error error;
    stw_graph *graph = NULL;
    stw_machine *machine = NULL;
    stw_costs *costs = NULL;
    if (stw_graph_open(path, NULL, &graph, &error) || stw_machine_open("cpu+h200x1", &machine, &error) ||
        stw_costs_create(graph, machine, NULL, &costs, &error)) {
        die(error.message);
    }
    int32_t cost_class[2] = {-1, -1};
    for (int32_t c = 0; c < machine->cost_class_count; c++) {
        for (int k = 0; k < 2; k++) {
            if (stw_str_is(machine->device[machine->class_device[c]].kind, kinds[k])) cost_class[k] = c;
        }
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] == STW_CLASS_ALIAS) continue;
        const int32_t a = cost_class[0], b = cost_class[1];
        if (!costs->measured[a][i] || !costs->measured[b][i] || costs->us[a][i] <= 0.0 || costs->us[b][i] <= 0.0) continue;
        const double ratio = costs->model_us[a][i] / costs->model_us[b][i];
        sum->error_us[0] += fabs(costs->us[b][i] * ratio - costs->us[a][i]);
        sum->error_us[1] += fabs(costs->us[a][i] / ratio - costs->us[b][i]);
        sum->measured_us[0] += costs->us[a][i];
        sum->measured_us[1] += costs->us[b][i];
    }
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

static void collect(const char *folder, kind_data *kinds, int kind_count, carried *sum) {
    struct dirent **entry;
    const int files = scandir(folder, &entry, NULL, alphasort);
    if (files < 0) die("the data folder cannot be read");
    for (int f = 0; f < files; f++) {
        char path[1024];
        if (strstr(entry[f]->d_name, ".json.gz") != NULL) {
            snprintf(path, sizeof path, "%s/%s", folder, entry[f]->d_name);
            collect_graph(path, kinds, kind_count);
            add_carried(path, sum);
        }
        free(entry[f]);
    }
    free(entry);
    for (int k = 0; k < kind_count; k++) merge_equal(&kinds[k].data);
}

/* ---- the fit ---- */

static bool is_used(const sample *s, const char *left_out) { return left_out == NULL || strcmp(s->family, left_out) != 0; }

static double fit_launch(const samples *data, const char *left_out) {
    double *us = calloc((size_t)data->count, sizeof *us);
    int64_t count = 0;
    for (int64_t k = 0; k < data->count; k++) {
        const sample *s = &data->item[k];
        if (is_used(s, left_out) && s->op_class == STW_CLASS_ELEMENTWISE && s->bytes <= 4096.0) us[count++] = s->us;
    }
    const double launch = quantile(us, count, 0.5);
    free(us);
    return launch;
}

static void fit_rates(const samples *data, const char *left_out, stw_device *device) {
    double *rate = calloc((size_t)data->count, sizeof *rate);
    int64_t count = 0;
    double peak = 0.0;
    for (int64_t k = 0; k < data->count; k++) {
        const sample *s = &data->item[k];
        if (!is_used(s, left_out)) continue;
        const double us = s->us - device->launch_us;
        const bool matrix = s->op_class == STW_CLASS_MATMUL || s->op_class == STW_CLASS_CONVOLUTION;
        if (us <= 0.0) continue;
        if (matrix && s->flops / us * 1e6 > peak) peak = s->flops / us * 1e6;
        if (s->op_class == STW_CLASS_ELEMENTWISE && s->bytes >= 1048576.0) rate[count++] = s->bytes / us * 1e6;
    }
    device->flops_f32 = peak;
    device->bandwidth = quantile(rate, count, 0.98);
    free(rate);
}

static double class_error(const samples *data, const char *left_out, const stw_device *device, stw_op_class op_class) {
    double error = 0.0, weights = 0.0;
    for (int64_t k = 0; k < data->count; k++) {
        const sample *s = &data->item[k];
        if (s->op_class != op_class || !is_used(s, left_out)) continue;
        const double weight = sqrt(s->us * (double)s->count);
        error += weight * fabs(log(stw_cost_model_us(device, op_class, s->dtype, s->flops, s->bytes) / s->us));
        weights += weight;
    }
    return weights > 0.0 ? error / weights : -1.0;
}

/* Efficiencies on a logarithmic grid from 0.005 to 1. Classes without measured ops take the median of the others. */
static void fit_efficiencies(const samples *data, const char *left_out, stw_device *device, bool fitted[STW_CLASS_COUNT]) {
    enum { STEPS = 300 };
    double found[STW_CLASS_COUNT];
    int64_t count = 0;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        double best = HUGE_VAL, best_efficiency = 0.0;
        for (int step = 0; step <= STEPS; step++) {
            device->efficiency[c] = pow(0.005, 1.0 - (double)step / STEPS);
            const double error = class_error(data, left_out, device, (stw_op_class)c);
            if (error < 0.0 || error >= best) continue;
            best = error;
            best_efficiency = device->efficiency[c];
        }
        fitted[c] = best < HUGE_VAL;
        device->efficiency[c] = best_efficiency;
        if (fitted[c]) found[count++] = best_efficiency;
    }
    const double median = quantile(found, count, 0.5);
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (!fitted[c]) device->efficiency[c] = median;
    }
}

static void fit(const kind_data *kind, const char *left_out, stw_device *device, bool fitted[STW_CLASS_COUNT]) {
    if (!stw_device_of_kind(stw_str_of(kind->kind), device)) die("unknown kind");
    device->launch_us = fit_launch(&kind->data, left_out);
    if (kind->fit_rates) fit_rates(&kind->data, left_out, device);
    fit_efficiencies(&kind->data, left_out, device, fitted);
}

/* ---- what comes out ---- */

typedef struct {
    int64_t ops, distinct;
    double measured_us, model_us; /* sums */
    double *error;                /* |model / measured - 1| per distinct op */
    double weighted;              /* mean of the same, weighted by time */
} outcome;

static outcome judge(const samples *data, const char *family, int op_class, const stw_device *device) {
    outcome o = {.error = calloc((size_t)data->count, sizeof(double))};
    for (int64_t k = 0; k < data->count; k++) {
        const sample *s = &data->item[k];
        if ((family != NULL && strcmp(s->family, family) != 0) || (op_class >= 0 && (int)s->op_class != op_class)) continue;
        const double model = stw_cost_model_us(device, s->op_class, s->dtype, s->flops, s->bytes),
                     time = s->us * (double)s->count;
        o.error[o.distinct++] = fabs(model / s->us - 1.0);
        o.weighted += fabs(model / s->us - 1.0) * time;
        o.ops += s->count;
        o.measured_us += time;
        o.model_us += model * (double)s->count;
    }
    if (o.measured_us > 0.0) o.weighted /= o.measured_us;
    return o;
}

static void print_outcome(const char *name, outcome *o) {
    if (o->distinct > 0) {
        printf("| %-16s | %7lld | %7lld | %8.1f %% | %8.1f %% | %8.1f %% | %10.3f |\n", name, (long long)o->ops,
               (long long)o->distinct, 100.0 * quantile(o->error, o->distinct, 0.5), 100.0 * quantile(o->error, o->distinct, 0.9),
               100.0 * o->weighted, o->model_us / o->measured_us);
    }
}

static void print_heading(const char *first) {
    printf("| %-16s | %7s | %7s | %10s | %10s | %10s | %10s |\n|---|---|---|---|---|---|---|\n", first, "ops", "distinct",
           "median", "90 %", "by time", "sum ratio");
}

typedef struct {   /* of every family in turn, predicted by constants fitted on the others */
    double *error; /* (count) per distinct op */
    int64_t count;
    double weighted; /* by time */
} held_out;

/* `each` is told of every family, unless it is NULL. */
static held_out judge_held_out(const kind_data *kind, void (*each)(const char *family, outcome *o)) {
    stw_device device;
    bool fitted[STW_CLASS_COUNT];
    held_out all = {.error = calloc((size_t)kind->data.count, sizeof(double))};
    double time = 0.0;
    for (int64_t k = 0; k < kind->data.count; k++) { /* samples are sorted by family */
        const char *family = kind->data.item[k].family;
        if (k > 0 && strcmp(family, kind->data.item[k - 1].family) == 0) continue;
        fit(kind, family, &device, fitted);
        outcome o = judge(&kind->data, family, -1, &device);
        memcpy(all.error + all.count, o.error, (size_t)o.distinct * sizeof(double));
        all.count += o.distinct;
        all.weighted += o.weighted * o.measured_us;
        time += o.measured_us;
        if (each != NULL) each(family, &o);
        free(o.error);
    }
    all.weighted /= time;
    return all;
}

static void report(const kind_data *kind) {
    stw_device device;
    bool fitted[STW_CLASS_COUNT];
    fit(kind, NULL, &device, fitted);
    printf("\n## %s: launch %.3f us, peak f32 %.4g flop/s, bandwidth %.4g B/s\n\nFitted on all, by class:\n\n", kind->kind,
           device.launch_us, device.flops_f32, device.bandwidth);
    print_heading("class");
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        char name[40];
        outcome o = judge(&kind->data, NULL, c, &device);
        snprintf(name, sizeof name, "%s %.3f", stw_op_class_name((stw_op_class)c), device.efficiency[c]);
        print_outcome(name, &o);
        free(o.error);
    }
    printf("\nHeld out: each family predicted by constants fitted on the other families:\n\n");
    print_heading("family");
    held_out all = judge_held_out(kind, print_outcome);
    printf("\nAll held-out ops: median error %.1f %%, 90th percentile %.1f %%, weighted by time %.1f %%.\n",
           100.0 * quantile(all.error, all.count, 0.5), 100.0 * quantile(all.error, all.count, 0.9), 100.0 * all.weighted);
    free(all.error);
}

static void print_def(const kind_data *kind) {
    stw_device device;
    bool fitted[STW_CLASS_COUNT];
    fit(kind, NULL, &device, fitted);
    printf("\nSTW_FITTED_LAUNCH(%s, %.3f)\n", kind->kind, device.launch_us);
    if (kind->fit_rates) {
        printf("STW_FITTED_PEAK(%s, %.4g)\nSTW_FITTED_BANDWIDTH(%s, %.4g)\n", kind->kind, device.flops_f32, kind->kind,
               device.bandwidth);
    }
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        char name[32];
        snprintf(name, sizeof name, "%s", stw_op_class_name((stw_op_class)c));
        for (char *p = name; *p != '\0'; p++) *p = (char)(*p - 'a' + 'A');
        printf("STW_FITTED(%s, %s, %.4f)%s\n", kind->kind, name, device.efficiency[c],
               fitted[c] ? "" : " /* none measured: the median */");
        outcome o = judge(&kind->data, NULL, c, &device);
        if (fitted[c]) printf("STW_FITTED_ERROR(%s, %s, %.3f)\n", kind->kind, name, o.weighted);
        free(o.error);
    }
    held_out all = judge_held_out(kind, NULL);
    printf("STW_HELD_OUT_ERROR(%s, %.3f)\n", kind->kind, all.weighted);
    free(all.error);
}

static void report_carried(const carried *sum) {
    printf(
        "\n## From kind to kind\n\nMeasured on one kind and carried over by the ratio of the models, weighted by time: h200 from "
        "cpu8 "
        "%.1f %%, cpu8 from h200 %.1f %%.\n",
        100.0 * sum->error_us[0] / sum->measured_us[0], 100.0 * sum->error_us[1] / sum->measured_us[1]);
}

int main(int argc, char **argv) {
    const char *folder = "data/graphs";
    bool def = false;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--def") == 0) {
            def = true;
        } else if (strcmp(argv[k], "--data") == 0 && k + 1 < argc) {
            folder = argv[++k];
        } else {
            die("usage: fit_costs [--def] [--data DIR]");
        }
    }
    kind_data kinds[] = {{.kind = "h200"}, {.kind = "cpu8", .fit_rates = true}};
    carried sum = {0};
    collect(folder, kinds, 2, &sum);
    for (int k = 0; k < 2; k++) {
        if (def) {
            print_def(&kinds[k]);
        } else {
            report(&kinds[k]);
        }
        free(kinds[k].data.item);
    }
    if (!def) report_carried(&sum);
    return 0;
}
