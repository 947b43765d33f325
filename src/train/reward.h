/* Rewards and advantages: how much better than its siblings a sampled plan is. */
#ifndef STW_TRAIN_REWARD_H
#define STW_TRAIN_REWARD_H

#include "sim/score.h"

typedef enum stw_reward { STW_REWARD_LOG, STW_REWARD_SQRT } stw_reward; /* -log t, -sqrt(t / reference) */

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

#endif
