#include "train/reward.h"

#include <math.h>

static double reward_of(const stw_reward_rule *rule, double value) {
    const double t = fmax(value, 1e-300), reference = fmax(rule->reference, 1e-300);
    const double gain = rule->kind == STW_REWARD_LOG ? log(reference / t) : 1.0 - sqrt(t / reference);
    return gain < 0.0 ? rule->loss_weight * gain : gain;
}

/* Without a plan to improve on, the best of the samples. */
static double reference_of(const stw_reward_rule *rule, const stw_score *score, int32_t count) {
    double best = INFINITY;
    if (rule->reference > 0.0) return rule->reference;
    for (int32_t k = 0; k < count; k++) best = score[k].reason == STW_VALID ? fmin(best, score[k].value) : best;
    return isfinite(best) ? best : 1.0;
}

void stw_rewards(const stw_reward_rule *rule, const stw_score *score, int32_t count, double *reward) {
    const stw_reward_rule against = {rule->kind, reference_of(rule, score, count), rule->loss_weight};
    double worst = 0.0, most = 0.0; /* reward of a valid plan; bytes that are lacking */
    bool any = false;
    for (int32_t k = 0; k < count; k++) {
        most = fmax(most, score[k].lacks);
        if (score[k].reason != STW_VALID) continue;
        reward[k] = reward_of(&against, score[k].value);
        worst = any ? fmin(worst, reward[k]) : reward[k];
        any = true;
    }
    for (int32_t k = 0; k < count; k++) {
        if (score[k].reason == STW_VALID) continue;
        const bool hopeless = score[k].reason != STW_INVALID_MEMORY;
        reward[k] = worst - 1.0 - (hopeless ? 1.0 : most > 0.0 ? score[k].lacks / most : 0.0);
    }
}

void stw_advantages(const double *reward, int32_t count, double floor, double limit, double *advantage) {
    double mean = 0.0, square = 0.0;
    for (int32_t k = 0; k < count; k++) mean += reward[k] / count;
    for (int32_t k = 0; k < count; k++) square += (reward[k] - mean) * (reward[k] - mean) / count;
    for (int32_t k = 0; k < count; k++) advantage[k] = fmin(fmax((reward[k] - mean) / (sqrt(square) + floor), -limit), limit);
}
