#include "policy/distribution.h"

#include <math.h>

static const double HALF_LOG_TWO_PI = 0.91893853320467274178;

/* A standard normal number as one of the standard Gumbel distribution, in the same order. */
static double gumbel_of(double noise) {
    static const double LEAST = 1e-12; /* keeps the logarithms finite */
    const double below = 0.5 * erfc(-noise * 0.70710678118654752440);
    return -log(-log(fmin(fmax(below, LEAST), 1.0 - LEAST)));
}

/* The first of the largest sums of a and, unless NULL, the noise. */
static int32_t largest(int32_t count, const double *a, const double *noise) {
    int32_t best = 0;
    double most = 0.0;
    for (int32_t i = 0; i < count; i++) {
        const double sum = a[i] + (noise == NULL ? 0.0 : gumbel_of(noise[i]));
        if (i > 0 && !(sum > most)) continue;
        best = i;
        most = sum;
    }
    return best;
}

void stw_distribution_sample(const stw_distribution *d, const double *noise, double *action) {
    const int64_t dims = d->dims;
    if (d->categorical) {
        for (int64_t r = 0; r < d->rows; r++) action[r] = largest(d->dims, d->out + r * dims, noise + r * dims);
    } else {
        for (int64_t i = 0; i < d->rows * dims; i++) action[i] = d->out[i] + d->sigma * noise[i];
    }
}

void stw_distribution_greedy(const stw_distribution *d, double *action) {
    const int64_t dims = d->dims;
    if (d->categorical) {
        for (int64_t r = 0; r < d->rows; r++) action[r] = largest(d->dims, d->out + r * dims, NULL);
    } else {
        for (int64_t i = 0; i < d->rows * dims; i++) action[i] = d->out[i];
    }
}

void stw_distribution_log_density(const stw_distribution *d, const double *action, double *logp) {
    const int64_t dims = d->dims;
    for (int64_t r = 0; r < d->rows; r++) {
        if (d->categorical) {
            logp[r] = d->out[r * dims + (int64_t)action[r]];
            continue;
        }
        double sum = -(double)dims * (log(d->sigma) + HALF_LOG_TWO_PI);
        for (int64_t i = r * dims; i < (r + 1) * dims; i++) {
            const double z = (action[i] - d->out[i]) / d->sigma;
            sum -= 0.5 * z * z;
        }
        logp[r] = sum;
    }
}

void stw_distribution_log_density_back(const stw_distribution *d, const double *action, const double *weight, double *d_out) {
    const int64_t dims = d->dims;
    for (int64_t r = 0; r < d->rows; r++) {
        if (d->categorical) {
            d_out[r * dims + (int64_t)action[r]] += weight[r];
            continue;
        }
        for (int64_t i = r * dims; i < (r + 1) * dims; i++)
            d_out[i] += weight[r] * (action[i] - d->out[i]) / (d->sigma * d->sigma);
    }
}

double stw_distribution_entropy(const stw_distribution *d) {
    const int64_t dims = d->dims;
    if (!d->categorical) return (double)dims * (0.5 + HALF_LOG_TWO_PI + log(d->sigma));
    double sum = 0.0;
    for (int64_t i = 0; i < d->rows * dims; i++) {
        const double p = exp(d->out[i]);
        if (p > 0.0) sum -= p * d->out[i]; /* a choice that cannot happen adds nothing */
    }
    return sum / (double)d->rows;
}
