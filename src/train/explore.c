#include "train/explore.h"

#include <math.h>

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

stw_status stw_explore(const stw_problem *p, const stw_noise_shares *shares, stw_rng rng, int32_t dims, double *noise,
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
