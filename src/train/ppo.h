/* PPO with a ratio per decision: each unit's probability ratio is clipped on its own, all with the plan's advantage. (The ratio
 * of a whole plan, a product over thousands of units, would leave the range of numbers.) */
#ifndef STW_TRAIN_PPO_H
#define STW_TRAIN_PPO_H

#include "policy/distribution.h"

typedef struct stw_ppo { /* K samples of M decisions */
    int32_t K, M;
    double clip;             /* of the ratio, to [1 - clip, 1 + clip] */
    double pull;             /* weight of the squared outputs: keeps means near where they began */
    double entropy;          /* weight of the entropy of categorical decisions */
    const double *advantage; /* (K) */
} stw_ppo;

typedef struct stw_ppo_result {
    double loss;
    double clipped; /* share of the decisions whose gradient the clip took away */
} stw_ppo_result;

/* The loss of one task and its gradient by the outputs, both divided by K * M. `sample[k]` is the distribution that sample k was
 * drawn from; all samples may share one. action: (K, M, action width), logp_old: (K, M). d_out[k] is added to: (M, dims). */
stw_status stw_ppo_loss(const stw_ppo *ppo, const stw_distribution *sample, const double *action, const double *logp_old,
                        double *const *d_out, stw_ppo_result *out, stw_arena scratch, stw_error *error);

#endif
