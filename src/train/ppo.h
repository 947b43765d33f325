/* From scores to a gradient: rewards (how good a sampled plan is), advantages (how much better than its siblings), and PPO's loss
 * with a ratio per decision: each unit's probability ratio is clipped on its own, all with the plan's advantage. (The ratio of a
 * whole plan, a product over thousands of units, would leave the range of numbers.) */
#ifndef STW_TRAIN_PPO_H
#define STW_TRAIN_PPO_H

#include "policy/distribution.h"
#include "sim/score.h"

/* -log t, -sqrt(t / reference), and as published: -sqrt(t), t in seconds, and -10 for a plan that does not fit. */
typedef enum stw_reward { STW_REWARD_LOG, STW_REWARD_SQRT, STW_REWARD_PUBLISHED } stw_reward;

/* What is worse than the reference counts `loss_weight` times. Most changes of a good plan make it worse, so with full weight a
 * policy does best on average by leaving that plan alone; what is wanted is the best plan, not the best mean. */
typedef struct stw_reward_rule {
    stw_reward kind;
    double reference; /* value of the plan that the samples are to improve on */
    double loss_weight;
} stw_reward_rule;

/* reward: (count). Plans that are not valid get one less than the worst valid one, and less the more memory they lack. */
void stw_rewards(const stw_reward_rule *rule, const stw_score *score, int32_t count, double *reward);
/* (reward - mean) / (deviation + floor), cut to [-limit, limit]. Without the floor, a group that has converged would blow its
 * noise up to full size. */
void stw_advantages(const double *reward, int32_t count, double floor, double limit, double *advantage);

typedef struct stw_trials { /* of a graph, so far */
    int64_t count;
    double mean; /* of their rewards */
} stw_trials;
/* reward - the mean of the trials before; in the first update, which has none before it, of its own. Then these are trials too.
 */
void stw_advantages_over_trials(stw_trials *trials, const double *reward, int32_t count, double *advantage);

typedef struct stw_ppo { /* K samples of M decisions, of `all` samples whose loss it is a part of */
    int32_t K, M, all;
    double clip;             /* of the ratio, to [1 - clip, 1 + clip] */
    double pull;             /* weight of the squared outputs: keeps means near where they began */
    const double *advantage; /* (K) */
} stw_ppo;

typedef struct stw_ppo_result {
    double loss;
    double clipped; /* share of the decisions whose gradient the clip took away */
} stw_ppo_result;

/* The loss of one task and its gradient by the outputs, both divided by all * M. `sample[k]` is the distribution that sample k
 * was drawn from; all samples may share one. action: (K, M, action width), logp_old: (K, M). d_out[k] is added to: (M, dims). */
stw_status stw_ppo_loss(const stw_ppo *ppo, const stw_distribution *sample, const double *action, const double *logp_old,
                        double *const *d_out, stw_ppo_result *out, stw_arena scratch, stw_error *error);

#endif
