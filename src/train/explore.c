#include "train/explore.h"

#include <math.h>

stw_status stw_explore(const stw_problem *p, const stw_noise_shares *shares, stw_rng rng, int32_t dims, double *noise,
                       stw_arena scratch, stw_error *error) {
    const int32_t grouping = (int32_t)stw_rng_below(&rng, STW_GROUPINGS), groups = p->group_count[grouping];
    double *common, *of_group;
    STW_TRY_NEW(&scratch, common, dims, error);
    STW_TRY_NEW(&scratch, of_group, (int64_t)groups * dims, error);
    for (int32_t k = 0; k < dims; k++) common[k] = sqrt(shares->graph) * stw_rng_normal(&rng);
    for (int64_t k = 0; k < (int64_t)groups * dims; k++) of_group[k] = sqrt(shares->group) * stw_rng_normal(&rng);
    for (int32_t u = 0; u < p->M; u++) {
        const double *group = &of_group[(int64_t)p->grouping[grouping][u] * dims];
        for (int32_t k = 0; k < dims; k++)
            noise[(int64_t)u * dims + k] = common[k] + group[k] + sqrt(shares->unit) * stw_rng_normal(&rng);
    }
    return STW_OK;
}
