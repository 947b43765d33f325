#include "train/explore.h"

#include <math.h>

#include "feature/columns.h"

/* ---- by features ---- */

enum { MIXED = 3, TRIES = 50 };     /* columns that a direction is made of; some are the same for all units */
static const double FARTHEST = 2.5; /* from the mean, in deviations */

/* Adds a column of features, standardised over the units, with a random weight. False if it is the same for all. */
static bool add_column(const double *column, int64_t step, int32_t M, stw_rng *rng, double *out) {
    double mean = 0.0, square = 0.0;
    for (int32_t u = 0; u < M; u++) mean += column[u * step] / M;
    for (int32_t u = 0; u < M; u++) square += (column[u * step] - mean) * (column[u * step] - mean) / M;
    if (square < 1e-8) return false;
    const double weight = stw_rng_normal(rng) / sqrt(square);
    for (int32_t u = 0; u < M; u++) out[u] += weight * (column[u * step] - mean);
    return true;
}

/* (M) how far each unit lies along a random direction: mean 0 and variance 1, but for outliers; 0 if units do not differ. */
static void draw_direction(const stw_problem *p, const double *feedback, stw_rng *rng, double *out) {
    const int32_t M = p->M, columns = STW_UNIT_COLUMNS + (feedback != NULL ? STW_FEEDBACK_COLUMNS : 0);
    double square = 0.0;
    for (int32_t u = 0; u < M; u++) out[u] = 0.0;
    for (int32_t mixed = 0, tries = 0; mixed < MIXED && tries < TRIES; tries++) {
        const int32_t c = (int32_t)stw_rng_below(rng, columns);
        mixed += c < STW_UNIT_COLUMNS ? add_column(&p->features.unit[c], STW_UNIT_COLUMNS, M, rng, out)
                                      : add_column(&feedback[c - STW_UNIT_COLUMNS], STW_FEEDBACK_COLUMNS, M, rng, out);
    }
    for (int32_t u = 0; u < M; u++) square += out[u] * out[u] / M;
    for (int32_t u = 0; u < M && square > 0.0; u++) out[u] = fmax(-FARTHEST, fmin(FARTHEST, out[u] / sqrt(square)));
}

static stw_status explore_alike(const stw_problem *p, const stw_noise_shares *shares, stw_rng rng, int32_t dims,
                                const double *feedback, double *noise, stw_arena scratch, stw_error *error) {
    double *direction;
    STW_TRY_NEW(&scratch, direction, p->M, error);
    for (int32_t k = 0; k < dims; k++) {
        const double common = sqrt(shares->graph) * stw_rng_normal(&rng);
        draw_direction(p, feedback, &rng, direction);
        for (int32_t u = 0; u < p->M; u++) {
            const double own = sqrt(shares->unit) * stw_rng_normal(&rng);
            noise[(int64_t)u * dims + k] = common + sqrt(shares->group) * direction[u] + own;
        }
    }
    return STW_OK;
}

/* ---- by groups ---- */

static const double LEAST_SHARE = 0.02; /* of the groups that a sparse sample explores in */

/* (groups) whether it explores there: one at least, and a share that is as likely to be small as to be large. */
static stw_status choose_groups(const stw_noise_shares *shares, stw_rng *rng, int32_t groups, stw_arena *arena, bool **out,
                                stw_error *error) {
    STW_TRY_NEW(arena, *out, groups, error);
    const bool sparse = shares->sparse > 0.0 && stw_rng_uniform(rng) < shares->sparse;
    const double share = sparse ? exp(log(LEAST_SHARE) * stw_rng_uniform(rng)) : 1.0;
    for (int32_t k = 0; k < groups; k++) (*out)[k] = !sparse || stw_rng_uniform(rng) < share;
    if (sparse) (*out)[stw_rng_below(rng, groups)] = true;
    return STW_OK;
}

static stw_status explore_groups(const stw_problem *p, const stw_noise_shares *shares, stw_rng rng, int32_t dims, double *noise,
                                 stw_arena scratch, stw_error *error) {
    const int32_t grouping = (int32_t)stw_rng_below(&rng, STW_GROUPINGS), groups = p->group_count[grouping];
    double *common, *of_group;
    bool *explores;
    STW_TRY_NEW(&scratch, common, dims, error);
    STW_TRY_NEW(&scratch, of_group, (int64_t)groups * dims, error);
    for (int32_t k = 0; k < dims; k++) common[k] = sqrt(shares->graph) * stw_rng_normal(&rng);
    for (int64_t k = 0; k < (int64_t)groups * dims; k++) of_group[k] = sqrt(shares->group) * stw_rng_normal(&rng);
    TRY(choose_groups(shares, &rng, groups, &scratch, &explores, error));
    for (int32_t u = 0; u < p->M; u++) {
        const int32_t group = p->grouping[grouping][u];
        for (int32_t k = 0; k < dims; k++) {
            const double own = sqrt(shares->unit) * stw_rng_normal(&rng);
            noise[(int64_t)u * dims + k] = explores[group] ? common[k] + of_group[(int64_t)group * dims + k] + own : 0.0;
        }
    }
    return STW_OK;
}

stw_status stw_explore(const stw_problem *p, const stw_noise_shares *shares, stw_rng rng, int32_t dims, const double *feedback,
                       double *noise, stw_arena scratch, stw_error *error) {
    const bool alike = shares->alike > 0.0 && stw_rng_uniform(&rng) < shares->alike;
    return alike ? explore_alike(p, shares, rng, dims, feedback, noise, scratch, error)
                 : explore_groups(p, shares, rng, dims, noise, scratch, error);
}
