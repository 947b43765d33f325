/* Calibrates the model of fused groups on kernels that XLA made, and says how wrong it is on modules that it has not seen.
 *
 *     fit_fusion FOLDER             a table for people
 *     fit_fusion --plain FOLDER     the same without latencies by class
 *     fit_fusion --machine FOLDER   a machine file with the constants, fitted on all modules
 *     fit_fusion --csv FOLDER       every judged kernel
 *
 * FOLDER holds CASE.nofusion.hlo.txt.gz (XLA with every fusion pass off: an op a kernel), CASE.default.hlo.txt.gz (as XLA fuses)
 * and beside each CASE.MODE.kernels.json.gz with the median time of each kernel and how often it ran in 5 steps; only kernels
 * that ran 5 times count. Constants are fitted on the ops of all modules but one; the fused kernels of that one are predicted.
 *
 * Right behind a library call (cuBLAS, cuDNN) a kernel takes longer than elsewhere, up to 50 us, whatever it does: it seems to
 * start before the call has ended and to wait for it. None of these is fitted on; they are judged among all and left out apart.
 *
 * The fit: what minimises the mean |log(model / measured)|, distinct kernels of a module (equal work, median time) counting
 * alike. */
#define _POSIX_C_SOURCE 200809L
#include "fit_fusion.h"

#include <math.h>

/* ---- the model ---- */

static double predict(const stw_device *device, const kernel *k) {
    if (!k->fused) {
        return stw_cost_model_us(device, k->op_class, k->dtype[k->op_class], k->flops[k->op_class],
                                 k->work.class_bytes[k->op_class]);
    }
    stw_group_work work = k->work;
    work.us = work.model_us = 1.0; /* r = 1 */
    double again_us = 0.0;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (k->flops[c] > 0.0) work.compute_us += stw_cost_compute_us(device, (stw_op_class)c, k->dtype[c], k->flops[c]);
        if (k->again[c] > 0.0) again_us += stw_cost_compute_us(device, (stw_op_class)c, k->dtype[c], k->again[c]);
    }
    return again_us + stw_cost_group_us(device, &work);
}

/* The class that a kernel is fitted under: by which its traffic goes. */
static stw_op_class pace_of(const kernel *k) {
    int pace = 0;
    if (!k->fused) return k->op_class;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (k->work.class_bytes[c] > k->work.class_bytes[pace]) pace = c;
    }
    return (stw_op_class)pace;
}

static double bytes_of(const kernel *k) {
    double sum = 0.0;
    for (int c = 0; c < STW_CLASS_COUNT; c++) sum += k->work.class_bytes[c];
    return sum;
}

/* ---- the fit ---- */

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double quantile(double *values, int64_t count, double q) {
    if (count == 0) return 0.0;
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[(int64_t)(q * (double)(count - 1) + 0.5)];
}

static int by_work(const void *left, const void *right) {
    const kernel *a = left, *b = right;
    if (a->case_index != b->case_index) return a->case_index < b->case_index ? -1 : 1;
    const int bytes = memcmp(a->work.class_bytes, b->work.class_bytes, sizeof a->work.class_bytes);
    return bytes != 0 ? bytes : memcmp(a->flops, b->flops, sizeof a->flops);
}

static int by_work_and_time(const void *left, const void *right) {
    const int work = by_work(left, right);
    const double a = ((const kernel *)left)->us, b = ((const kernel *)right)->us;
    return work != 0 ? work : a < b ? -1 : a > b;
}

/* Kernels to fit on: distinct ones of all modules but one (-1: of all), each with its median time. */
static kernels choose(const kernels *all, int left_out) {
    kernels chosen = {0}, out = {0};
    for (int64_t n = 0; n < all->count; n++) {
        if (all->item[n].case_index != left_out && !all->item[n].behind) add_kernel(&chosen, &all->item[n]);
    }
    if (chosen.count == 0) die("no kernels to fit on");
    qsort(chosen.item, (size_t)chosen.count, sizeof *chosen.item, by_work_and_time);
    for (int64_t n = 0; n < chosen.count;) {
        int64_t end = n + 1;
        while (end < chosen.count && by_work(&chosen.item[n], &chosen.item[end]) == 0) end++;
        add_kernel(&out, &chosen.item[n + (end - n) / 2]);
        n = end;
    }
    free(chosen.item);
    return out;
}

/* The sum of |log(model / measured)| over the kernels of a class; negative: there is none. */
static double class_error(const kernels *data, const stw_device *device, int op_class) {
    double error = 0.0;
    int64_t count = 0;
    for (int64_t n = 0; n < data->count; n++) {
        if ((int)pace_of(&data->item[n]) != op_class) continue;
        error += fabs(log(predict(device, &data->item[n]) / data->item[n].us));
        count++;
    }
    return count > 0 ? error : -1.0;
}

/* Grids: launch from 0.5 to 2 us; shares from 0.05 to 1; latencies from 0 to 2 us. Classes without a kernel keep what is built
 * in. */
enum { SHARES = 100, LATENCIES = 21, LAUNCHES = 31 };
static double share_at(int step) { return pow(0.05, 1.0 - (double)step / SHARES); }

/* How many latencies to try: products take their time anyway, and what element-wise ops and broadcasts take with nothing to do
 * is the launch. */
static int latencies_of(bool plain, int c) {
    return plain || c == STW_CLASS_ELEMENTWISE || c == STW_CLASS_BROADCAST || is_matrix((stw_op_class)c) ? 1 : LATENCIES;
}

/* The sum of errors that is left. */
static double fit_class(const kernels *data, bool plain, stw_device *device, int c) {
    double best = HUGE_VAL;
    if (class_error(data, device, c) < 0.0) return 0.0;
    stw_device found = *device;
    for (int l = 0; l < latencies_of(plain, c); l++) {
        for (int step = 0; step <= SHARES; step++) {
            device->latency_us[c] = 0.1 * l;
            device->efficiency[c] = share_at(step);
            const double error = class_error(data, device, c);
            if (error >= best) continue;
            best = error;
            found = *device;
        }
    }
    *device = found;
    return best;
}

static stw_device fit(const data_set *data, int left_out) {
    stw_device device;
    kernels chosen = choose(&data->nofusion, left_out);
    if (!stw_device_of_kind(STW_STR("h200"), &device)) die("no h200");
    stw_device best = device;
    double least = HUGE_VAL;
    for (int step = 0; step < LAUNCHES; step++) {
        double error = 0.0;
        device.launch_us = 0.5 + 0.05 * step;
        for (int c = 0; c < STW_CLASS_COUNT; c++) error += fit_class(&chosen, data->plain, &device, c);
        if (error >= least) continue;
        least = error;
        best = device;
    }
    free(chosen.item);
    return best;
}

/* ---- the judgement ---- */

typedef enum { ALL, APART, FUSED, MATRIX, SUBSETS } subset;
static const char *const subset_name[SUBSETS] = {"all kernels", "not behind a library call", "... and no matrix product",
                                                 "matrix products"};

static bool is_in(subset s, const kernel *k) {
    switch (s) {
        case APART: return !k->behind;
        case FUSED: return !k->behind && !k->matrix;
        case MATRIX: return k->matrix;
        default: return true;
    }
}

/* Kendall's tau-b: 1 where the two orders agree; pairs that are equal in one count for neither. */
static double tau_b(const double *a, const double *b, int64_t count) {
    double agree = 0.0, in_a = 0.0, in_b = 0.0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < i; j++) {
            const int x = (a[i] > a[j]) - (a[i] < a[j]), y = (b[i] > b[j]) - (b[i] < b[j]);
            agree += x * y;
            in_a += x != 0;
            in_b += y != 0;
        }
    }
    return in_a > 0.0 && in_b > 0.0 ? agree / sqrt(in_a * in_b) : NAN;
}

/* One row: the kernels of a case (-1: of all) that are in a subset. */
static void print_row(const data_set *data, const double *model_us, int case_index, subset s) {
    const kernels *list = &data->fused;
    double *error = calloc((size_t)list->count, sizeof *error), *measured = calloc((size_t)list->count, sizeof *measured),
           *model = calloc((size_t)list->count, sizeof *model), sum = 0.0, model_sum = 0.0;
    int64_t count = 0;
    for (int64_t n = 0; n < list->count; n++) {
        const kernel *k = &list->item[n];
        if ((case_index >= 0 && k->case_index != case_index) || !is_in(s, k)) continue;
        measured[count] = k->us;
        model[count] = model_us[n];
        error[count++] = fabs(model_us[n] / k->us - 1.0);
        sum += k->us;
        model_sum += model_us[n];
    }
    char tau[16] = "-";
    const double t = tau_b(measured, model, count);
    if (!isnan(t)) snprintf(tau, sizeof tau, "%.3f", t);
    if (count > 0) {
        printf("| %-12s | %-26s | %5lld | %8.3f | %6.1f %% | %6.1f %% | %6s | %6.3f |\n",
               case_index < 0 ? "all" : data->name[case_index], subset_name[s], (long long)count, sum / 1e3,
               100.0 * quantile(error, count, 0.5), 100.0 * quantile(error, count, 0.9), tau, model_sum / sum);
    }
    free(error);
    free(measured);
    free(model);
}

static void print_table(const data_set *data, const double *model_us) {
    printf("| %-12s | %-26s | %5s | %8s | %8s | %8s | %6s | %6s |\n|---|---|---|---|---|---|---|---|\n", "module", "kernels",
           "count", "ms", "median", "90 %", "tau", "sum");
    for (int c = 0; c < data->count; c++) {
        for (int s = 0; s < SUBSETS; s++) print_row(data, model_us, c, (subset)s);
    }
    for (int s = 0; s < SUBSETS; s++) print_row(data, model_us, -1, (subset)s);
}

static void print_constants(const stw_device *device) {
    printf("launch %.3f us", device->launch_us);
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        if (c == STW_CLASS_ELEMENTWISE || c == STW_CLASS_BROADCAST || c == STW_CLASS_REDUCE || c == STW_CLASS_SHAPE ||
            c == STW_CLASS_MATMUL) {
            printf(", %s %.3f", stw_op_class_name((stw_op_class)c), device->efficiency[c]);
            if (device->latency_us[c] > 0.0) printf(" + %.2f us", device->latency_us[c]);
        }
    }
    printf("\n");
}

/* Kernels of equal work get the median of their times: no model that sees the work alone can rank better. */
static void fill_ceiling(const data_set *data, double *model_us) {
    const int64_t count = data->fused.count;
    kernel *sorted = malloc((size_t)count * sizeof *sorted);
    if (sorted == NULL) die("out of memory");
    memcpy(sorted, data->fused.item, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_work_and_time);
    for (int64_t n = 0; n < count; n++) {
        int64_t first = 0, end = 0;
        while (by_work(&sorted[first], &data->fused.item[n]) != 0) first++;
        for (end = first; end < count && by_work(&sorted[end], &data->fused.item[n]) == 0;) end++;
        model_us[n] = sorted[first + (end - first) / 2].us;
    }
    free(sorted);
}

static void report(const data_set *data, bool csv) {
    double *model_us = calloc((size_t)data->fused.count, sizeof *model_us);
    if (model_us == NULL) die("out of memory");
    if (!csv) printf("Fitted on the modules without fusion, each in turn left out:\n\n");
    for (int c = 0; c < data->count; c++) {
        const stw_device device = fit(data, c);
        for (int64_t n = 0; n < data->fused.count; n++) {
            if (data->fused.item[n].case_index == c) model_us[n] = predict(&device, &data->fused.item[n]);
        }
        if (!csv) printf("- without %s: ", data->name[c]);
        if (!csv) print_constants(&device);
    }
    for (int64_t n = 0; csv && n < data->fused.count; n++) {
        const kernel *k = &data->fused.item[n];
        printf("%s,%s,%s,%d,%.0f,%.3f,%.3f\n", data->name[k->case_index], k->name, stw_op_class_name(pace_of(k)), k->behind,
               bytes_of(k), k->us, model_us[n]);
    }
    if (!csv) {
        stw_device device;
        printf("\nFused kernels of the module that was left out:\n\n");
        print_table(data, model_us);
        (void)stw_device_of_kind(STW_STR("h200"), &device);
        for (int64_t n = 0; n < data->fused.count; n++) model_us[n] = predict(&device, &data->fused.item[n]);
        printf("\nThe same with the constants of the built-in h200: ");
        print_constants(&device);
        printf("\n");
        print_table(data, model_us);
        fill_ceiling(data, model_us);
        printf("\nThe most that any model of the work alone can reach: kernels of equal work at their median time:\n\n");
        print_table(data, model_us);
    }
    free(model_us);
}

/* A machine with one device of these constants. */
static void print_machine(const data_set *data) {
    stw_error error;
    stw_machine *machine;
    stw_json_writer writer;
    check(stw_machine_open("h200x1", &machine, &error), &error);
    const stw_str name = machine->device[0].name, kind = machine->device[0].kind;
    machine->device[0] = fit(data, -1);
    machine->device[0].name = name;
    machine->device[0].kind = kind;
    machine->name = STW_STR("h200-xla");
    stw_json_writer_init(&writer, stdout);
    stw_machine_write(machine, &writer);
    printf("\n");
    stw_machine_destroy(machine);
}

int main(int argc, char **argv) {
    const char *folder = NULL;
    bool whole = false, csv = false, plain = false;
    for (int n = 1; n < argc; n++) {
        if (strcmp(argv[n], "--machine") == 0) {
            whole = true;
        } else if (strcmp(argv[n], "--plain") == 0) {
            plain = true;
        } else if (strcmp(argv[n], "--csv") == 0) {
            csv = true;
        } else {
            folder = argv[n];
        }
    }
    if (folder == NULL) die("usage: fit_fusion [--plain] [--machine | --csv] FOLDER");
    data_set data = {.plain = plain};
    collect(folder, &data);
    if (whole) {
        print_machine(&data);
    } else {
        report(&data, csv);
    }
    free(data.nofusion.item);
    free(data.fused.item);
    return 0;
}
