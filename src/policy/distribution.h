/* Distributions over decisions: what the heads' outputs mean, sampled and scored on the host.
 *
 * A decision is made per row. Gaussian: `dims` independent numbers with the given means and a common sigma. Categorical: one of
 * `dims` choices, from log probabilities. */
#ifndef STW_POLICY_DISTRIBUTION_H
#define STW_POLICY_DISTRIBUTION_H

#include "base/rng.h"
#include "policy/policy.h"

typedef struct stw_distribution {
    bool categorical;
    int32_t rows, dims;
    const double *out; /* (rows, dims) means, or log probabilities */
    double sigma;      /* Gaussian */
} stw_distribution;

/* Numbers that a decision takes: dims, or 1 (the choice). */
static inline int32_t stw_distribution_action_width(const stw_distribution *d) { return d->categorical ? 1 : d->dims; }
/* Actions from standard normal noise of the same shape: (rows, dims) for both kinds (categorical: the Gaussian copula of Gumbel
 * noise, so that rows with like noise decide alike). action: (rows, action width). */
void stw_distribution_sample(const stw_distribution *d, const double *noise, double *action);
/* Means, or the most probable choice (the smallest of equals). */
void stw_distribution_greedy(const stw_distribution *d, double *action);
/* logp: (rows), of the density or the probability; for a Gaussian the dims are summed. */
void stw_distribution_log_density(const stw_distribution *d, const double *action, double *logp);
/* Adds weight[row] * d logp[row] / d out to d_out: (rows, dims). For a categorical, by the log probabilities. */
void stw_distribution_log_density_back(const stw_distribution *d, const double *action, const double *weight, double *d_out);
/* Mean over rows, in nats. A Gaussian's depends on sigma alone. */
double stw_distribution_entropy(const stw_distribution *d);

#endif
