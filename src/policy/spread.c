/* The last step of the Gaussian heads: means = shift + gain * normal, where `normal` is the head's output brought to mean 0 and
 * deviation 1 over the rows of a sequence, and shift and gain come from the graph vector.
 *
 * A plan's worth hangs first of all on what all rows have in common. Without this step the gradient of that common part pulls
 * every weight, rows become alike, and the head can no longer tell them apart; with it the common part has parameters of its own.
 * Rows that are equal, or a single one, have no differences to spread: `normal` is 0, the means are the shift, and no gradient
 * goes back to them.
 *
 * A few numbers per row, so it is done on the host. */
#include <math.h>

#include "policy/net.h"

static const double GAIN = 0.3;                   /* at the beginning: how far the means of unlike rows are apart */
static const double LOWEST = -5.0, HIGHEST = 3.0; /* of the gain's logarithm; beyond them it has no gradient */
/* Raw values are near 1. */
static const double LEAST = 1e-8;  /* added to the variance, so that no gradient grows by more than 1e4 * gain */
static const double EQUAL = 1e-12; /* variance up to which rows differ by the rounding of floats only */
enum { MAX_DIMS = STW_STEER_KNOBS };

typedef struct { /* of the graph */
    double shift[MAX_DIMS], gain[MAX_DIMS];
    bool bounded[MAX_DIMS]; /* the gain is at LOWEST or HIGHEST and stays there */
} common;

static stw_status find_common(stw_pass *pass, const stw_linear_layer *layer, int32_t dims, common *out, stw_error *error) {
    const stw_net *net = pass->net;
    void *numbers = NULL;
    double host[2 * MAX_DIMS];
    stw_tape_reset(pass->layer_tape);
    TRY(stw_tape_reals(pass->layer_tape, (int64_t)2 * dims, &numbers, error));
    stw_linear_forward(layer, &net->p, 1, pass->graph, false, numbers);
    stw_reals_out(net->backend, host, numbers, (int64_t)2 * dims, pass->scratch);
    for (int32_t k = 0; k < dims; k++) {
        out->shift[k] = host[k];
        out->gain[k] = GAIN * exp(fmin(fmax(host[dims + k], LOWEST), HIGHEST));
        out->bounded[k] = host[dims + k] < LOWEST || host[dims + k] > HIGHEST;
    }
    return STW_OK;
}

/* One dimension of one sequence, in place. Returns 1 / deviation, or 0 where rows are equal. */
static double normalise(double *z, int32_t rows, int32_t dims) {
    double mean = 0.0, square = 0.0;
    for (int32_t r = 0; r < rows; r++) mean += z[(int64_t)r * dims] / rows;
    for (int32_t r = 0; r < rows; r++) {
        z[(int64_t)r * dims] -= mean;
        square += z[(int64_t)r * dims] * z[(int64_t)r * dims] / rows;
    }
    const double inverse = square <= EQUAL ? 0.0 : 1.0 / sqrt(square + LEAST);
    for (int32_t r = 0; r < rows; r++) z[(int64_t)r * dims] *= inverse;
    return inverse;
}

stw_status stw_spread_forward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                              double *out, stw_error *error) {
    const int32_t M = pass->input.M;
    common c;
    TRY(find_common(pass, layer, dims, &c, error));
    stw_reals_out(pass->net->backend, out, raw, (int64_t)sequences * M * dims, pass->scratch);
    for (int32_t s = 0; s < sequences; s++) {
        for (int32_t k = 0; k < dims; k++) {
            double *z = &out[(int64_t)s * M * dims + k];
            normalise(z, M, dims);
            for (int32_t r = 0; r < M; r++) z[(int64_t)r * dims] = c.shift[k] + c.gain[k] * z[(int64_t)r * dims];
        }
    }
    return STW_OK;
}

/* Of one dimension of one sequence: d in: by the output, out: by the raw value. Adds to d_shift and d_gain. */
static void back(double *d, double *z, int32_t rows, int32_t dims, double gain, double *d_shift, double *d_gain) {
    const double inverse = normalise(z, rows, dims);
    double mean = 0.0, along = 0.0;
    for (int32_t r = 0; r < rows; r++) {
        const int64_t at = (int64_t)r * dims;
        *d_shift += d[at];
        *d_gain += d[at] * z[at] * gain; /* by the logarithm of the gain */
        mean += d[at] / rows;
        along += d[at] * z[at] / rows;
    }
    for (int32_t r = 0; r < rows; r++) {
        const int64_t at = (int64_t)r * dims;
        d[at] = gain * inverse * (d[at] - mean - z[at] * along);
    }
}

stw_status stw_spread_backward(stw_pass *pass, const stw_linear_layer *layer, const void *raw, int32_t sequences, int32_t dims,
                               const double *d_out, void *d_graph, void **d_raw, stw_error *error) {
    stw_net *net = pass->net;
    stw_backend *b = net->backend;
    const int64_t M = pass->input.M, count = sequences * M * dims;
    stw_arena scratch = pass->scratch;
    common c;
    double *z = NULL, *d = NULL, d_common[2 * MAX_DIMS] = {0};
    TRY(find_common(pass, layer, dims, &c, error));
    STW_TRY_NEW(&scratch, z, count, error);
    STW_TRY_NEW(&scratch, d, count, error);
    stw_reals_out(b, z, raw, count, scratch);
    for (int64_t k = 0; k < count; k++) d[k] = d_out[k];
    for (int32_t s = 0; s < sequences; s++) {
        for (int32_t k = 0; k < dims; k++)
            back(&d[s * M * dims + k], &z[s * M * dims + k], (int32_t)M, dims, c.gain[k], &d_common[k], &d_common[dims + k]);
    }
    for (int32_t k = 0; k < dims; k++) {
        if (c.bounded[k]) d_common[dims + k] = 0.0;
    }
    void *d_numbers = NULL;
    TRY(stw_tape_reals(pass->back_tape, count, d_raw, error));
    TRY(stw_tape_reals(pass->back_tape, (int64_t)2 * dims, &d_numbers, error));
    stw_reals_in(b, *d_raw, d, count, scratch);
    stw_reals_in(b, d_numbers, d_common, (int64_t)2 * dims, scratch);
    stw_linear_backward(layer, &net->p, 1, pass->graph, NULL, d_numbers, true, d_graph);
    return STW_OK;
}
