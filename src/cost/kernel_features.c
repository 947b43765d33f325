#include "cost/kernel_features.h"

#include <math.h>

static float bend(double x) { return (float)log2(1.0 + fmax(x, 0.0)); }

static void raise_to(float *to, double x) { *to = fmaxf(*to, bend(x)); }

/* ---- memory ---- */

static void add_memory(const stw_kernel_work *kernel, float *out) {
    double read = 0.0, first = 0.0, second = 0.0, reused = 0.0;
    int32_t inputs = 0, big = 0;
    for (int32_t k = 0; k < kernel->external_count; k++) {
        const stw_external *external = &kernel->external[k];
        const double moved = external->moved;
        read += moved;
        inputs += moved > 0.0;
        if (external->whole > 1.0) reused += moved;
        second = fmax(second, fmin(first, moved));
        first = fmax(first, moved);
    }
    for (int32_t k = 0; k < kernel->external_count; k++) big += kernel->external[k].moved > first / 16.0;
    out[STW_KERNEL_read] = bend(read);
    out[STW_KERNEL_written] = bend(kernel->written);
    out[STW_KERNEL_most_read] = bend(first);
    out[STW_KERNEL_second_read] = bend(second);
    out[STW_KERNEL_inputs] = (float)inputs;
    out[STW_KERNEL_big_inputs] = (float)big;
    for (int32_t u = 0; u < kernel->unit_count; u++) out[STW_KERNEL_outputs] += kernel->unit[u].leaves ? 1.0f : 0.0f;
    out[STW_KERNEL_reused] = bend(reused);
}

/* ---- arithmetic ---- */

static void add_arithmetic(const stw_kernel_work *kernel, float *out) {
    double work = 0.0, dear = 0.0, passes = 0.0, most = 0.0, written = 0.0, operations = 0.0, sum = 0.0, half = 0.0, single = 0.0;
    for (int32_t u = 0; u < kernel->unit_count; u++) {
        const stw_unit *unit = &kernel->unit[u];
        const double times = unit->elements * unit->passes;
        const int64_t bytes = stw_dtype_bytes(unit->dtype);
        work += times;
        dear += unit->dear ? times : 0.0;
        passes = fmax(passes, unit->passes);
        operations += unit->flops * unit->passes;
        sum += unit->elements;
        half += bytes <= 2 ? unit->elements : 0.0;
        single += unit->dtype == STW_DTYPE_F32 ? unit->elements : 0.0;
        if (unit->elements > most || (unit->elements == most && (float)bytes > out[STW_KERNEL_element_bytes])) {
            most = unit->elements;
            out[STW_KERNEL_element_bytes] = (float)bytes;
        }
        const bool larger =
            unit->elements > written || (unit->elements == written && unit->form->minor > out[STW_KERNEL_out_minor]);
        if (!unit->leaves || !larger) continue;
        written = unit->elements;
        out[STW_KERNEL_out_minor] = unit->form->minor;
    }
    out[STW_KERNEL_out_minor] = bend(out[STW_KERNEL_out_minor]);
    out[STW_KERNEL_ops] = bend(kernel->unit_count);
    out[STW_KERNEL_elements] = bend(most);
    out[STW_KERNEL_out_elements] = bend(written);
    out[STW_KERNEL_work] = bend(work);
    out[STW_KERNEL_dear_work] = bend(dear);
    out[STW_KERNEL_passes] = bend(passes);
    out[STW_KERNEL_per_element] = most > 0.0 ? bend(operations / most) : 0.0f;
    out[STW_KERNEL_halves] = sum > 0.0 ? (float)(half / sum) : 0.0f;
    out[STW_KERNEL_singles] = sum > 0.0 ? (float)(single / sum) : 0.0f;
}

/* ---- sorts of ops ---- */

/* Of several ops of a sort the one that does most stands for all; of equal ones the larger numbers, whatever their order. */
static bool leads(float *most, double amount, const float *number, const float *so_far, int32_t count) {
    const float bent = bend(amount);
    bool ahead = bent > *most;
    for (int32_t k = 0; bent == *most && k < count && !ahead; k++) {
        if (bend(number[k]) < so_far[k]) return false;
        ahead = bend(number[k]) > so_far[k];
    }
    if (ahead) *most = bent;
    return ahead;
}

/* `to` and the `count` columns behind it. */
static void lead(float *to, double amount, const float *number, int32_t count) {
    if (!leads(to, amount, number, to + 1, count)) return;
    for (int32_t k = 0; k < count; k++) to[k + 1] = bend(number[k]);
}

static void add_reduction(const stw_unit *unit, float *out) {
    const stw_form *form = unit->form;
    const double from = unit->elements * form->folded;
    out[STW_KERNEL_reductions] += 1.0f;
    if (form->sort == STW_FORM_ROWS)
        lead(&out[STW_KERNEL_rows], from, (const float[]){form->folded, (float)unit->elements}, 2);
    else
        lead(&out[STW_KERNEL_columns], from, (const float[]){form->folded, form->wide, (float)unit->elements}, 3);
}

static void add_product(const stw_unit *unit, float *out) {
    const stw_form *form = unit->form;
    const float half = stw_dtype_bytes(unit->dtype) <= 2 ? 1.0f : 0.0f;
    const float of_halves = stw_dtype_bytes(form->from) <= 2 ? 1.0f : 0.0f;
    out[STW_KERNEL_products] += 1.0f;
    lead(&out[STW_KERNEL_product], unit->flops,
         (const float[]){(float)unit->elements, form->folded, form->wide, form->minor, form->from_minor, half, of_halves}, 7);
    out[STW_KERNEL_library] = fmaxf(out[STW_KERNEL_library], form->call ? 1.0f : 0.0f);
}

static void add_convolution(const stw_unit *unit, float *out) {
    const stw_form *form = unit->form;
    const float sort = form->sort == STW_FORM_CONVOLUTION ? 1.0f : form->sort == STW_FORM_INPUT_GRADIENT ? 3.0f : 7.0f;
    lead(&out[STW_KERNEL_convolution], unit->flops,
         (const float[]){sort, (float)unit->elements, form->folded, form->wide, form->minor}, 5);
    out[STW_KERNEL_library] = fmaxf(out[STW_KERNEL_library], form->call ? 1.0f : 0.0f);
}

static void add_unit(const stw_unit *unit, float *out) {
    const stw_form *form = unit->form;
    const double elements = unit->elements;
    switch ((stw_form_sort)form->sort) {
        case STW_FORM_PLAIN: break;
        case STW_FORM_BROADCAST: raise_to(&out[STW_KERNEL_broadcasts], elements); break;
        case STW_FORM_IOTA: raise_to(&out[STW_KERNEL_iotas], elements); break;
        case STW_FORM_FEW: raise_to(&out[STW_KERNEL_few], elements * form->folded); break;
        case STW_FORM_ROWS:
        case STW_FORM_COLUMNS: add_reduction(unit, out); break;
        case STW_FORM_TRANSPOSE:
            out[STW_KERNEL_transposes] += 1.0f;
            lead(&out[STW_KERNEL_transposed], elements, (const float[]){form->from_minor, form->minor}, 2);
            break;
        case STW_FORM_SLICE:
            out[STW_KERNEL_slices] += 1.0f;
            raise_to(&out[STW_KERNEL_sliced], elements);
            break;
        case STW_FORM_DYNAMIC_SLICE: raise_to(&out[STW_KERNEL_dynamic], elements); break;
        case STW_FORM_UPDATE: raise_to(&out[STW_KERNEL_updated], elements); break;
        case STW_FORM_PAD: raise_to(&out[STW_KERNEL_padded], elements); break;
        case STW_FORM_CONCATENATE: raise_to(&out[STW_KERNEL_concatenated], elements); break;
        case STW_FORM_GATHER: raise_to(&out[STW_KERNEL_gathered], elements); break;
        case STW_FORM_SCATTER: raise_to(&out[STW_KERNEL_scattered], elements); break;
        case STW_FORM_PRODUCT: add_product(unit, out); break;
        case STW_FORM_CONVOLUTION:
        case STW_FORM_INPUT_GRADIENT:
        case STW_FORM_KERNEL_GRADIENT: add_convolution(unit, out); break;
        case STW_FORM_OTHER:
        case STW_FORM_COUNT: raise_to(&out[STW_KERNEL_other], elements); break;
    }
}

/* ---- all of it ---- */

static void add_formula(const stw_device *device, const stw_kernel_work *kernel, double us, float *out) {
    double compute = 0.0, again = 0.0, bytes = kernel->written;
    for (int32_t u = 0; u < kernel->unit_count; u++) {
        const stw_unit *unit = &kernel->unit[u];
        const double each = stw_cost_compute_us(device, (stw_op_class)unit->op_class, unit->dtype, unit->flops);
        compute += each * fmin(unit->passes, 1.0);
        again += fmax(unit->passes - 1.0, 0.0) * each * (unit->dear ? STW_DEAR_FACTOR : 1);
    }
    for (int32_t k = 0; k < kernel->external_count; k++) bytes += kernel->external[k].moved;
    out[STW_KERNEL_formula] = bend(1e3 * us);
    out[STW_KERNEL_compute] = bend(1e3 * compute);
    out[STW_KERNEL_traffic] = bend(1e9 * bytes / device->bandwidth);
    out[STW_KERNEL_again] = bend(1e3 * again);
}

/* Ratios, which trees would need many steps for. */
static void add_ratios(float *out) {
    const bool columns = out[STW_KERNEL_columns] > 0.0f, product = out[STW_KERNEL_product] > 0.0f;
    out[STW_KERNEL_intensity] = out[STW_KERNEL_compute] - out[STW_KERNEL_traffic];
    out[STW_KERNEL_overhead] = out[STW_KERNEL_formula] - out[STW_KERNEL_traffic];
    out[STW_KERNEL_repeats] = out[STW_KERNEL_again] - out[STW_KERNEL_formula];
    out[STW_KERNEL_shrinks] = out[STW_KERNEL_elements] - out[STW_KERNEL_out_elements];
    out[STW_KERNEL_work_per_result] = out[STW_KERNEL_work] - out[STW_KERNEL_out_elements];
    out[STW_KERNEL_dear_per_byte] = out[STW_KERNEL_dear_work] - out[STW_KERNEL_traffic];
    out[STW_KERNEL_read_per_written] = out[STW_KERNEL_read] - out[STW_KERNEL_written];
    if (columns) out[STW_KERNEL_column_blocks] = out[STW_KERNEL_column_count] - out[STW_KERNEL_column_wide];
    if (columns) out[STW_KERNEL_column_read] = out[STW_KERNEL_read] - out[STW_KERNEL_columns];
    if (product) out[STW_KERNEL_product_rows] = out[STW_KERNEL_product_out] - out[STW_KERNEL_product_wide];
}

void stw_kernel_find_features(const stw_device *device, const stw_kernel_work *kernel, double us, float *out) {
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) out[c] = 0.0f;
    add_formula(device, kernel, us, out);
    add_memory(kernel, out);
    add_arithmetic(kernel, out);
    for (int32_t u = 0; u < kernel->unit_count; u++) {
        add_unit(&kernel->unit[u], out);
        if (kernel->unit[u].folds) out[STW_KERNEL_holds_rows] = 1.0f;
    }
    add_ratios(out);
}
