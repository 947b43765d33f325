#include "train/ppo.h"

#include <math.h>

/* ---- rewards and advantages ---- */

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

static const double DOES_NOT_FIT = -10.0; /* as published */

static void publish(const stw_score *score, int32_t count, double *reward) {
    for (int32_t k = 0; k < count; k++) reward[k] = score[k].reason == STW_VALID ? -sqrt(score[k].value) : DOES_NOT_FIT;
}

void stw_rewards(const stw_reward_rule *rule, const stw_score *score, int32_t count, double *reward) {
    const stw_reward_rule against = {rule->kind, reference_of(rule, score, count), rule->loss_weight};
    if (rule->kind == STW_REWARD_PUBLISHED) {
        publish(score, count, reward);
        return;
    }
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

void stw_advantages_over_trials(stw_trials *trials, const double *reward, int32_t count, double *advantage) {
    double mean = 0.0;
    for (int32_t k = 0; k < count; k++) mean += reward[k] / count;
    const double baseline = trials->count > 0 ? trials->mean : mean;
    for (int32_t k = 0; k < count; k++) advantage[k] = reward[k] - baseline;
    trials->count += count;
    trials->mean += (mean - trials->mean) * count / (double)trials->count;
}

/* ---- the loss ---- */

/* weight[row] = d loss / d logp of the row. */
static void weigh(const stw_ppo *ppo, double advantage, const double *logp, const double *logp_old, double *weight,
                  stw_ppo_result *out) {
    const double share = 1.0 / ((double)ppo->all * ppo->M);
    for (int32_t u = 0; u < ppo->M; u++) {
        const double ratio = exp(fmin(fmax(logp[u] - logp_old[u], -20.0), 20.0));
        const double cut = fmin(fmax(ratio, 1.0 - ppo->clip), 1.0 + ppo->clip);
        const bool is_cut = cut * advantage < ratio * advantage;
        out->loss -= share * (is_cut ? cut * advantage : ratio * advantage);
        out->clipped += is_cut ? share : 0.0;
        weight[u] = is_cut ? 0.0 : -share * ratio * advantage;
    }
}

/* Means of Gaussian decisions towards 0: once per sample, so that shared and own outputs are pulled alike. */
static void pull_means(const stw_ppo *ppo, const stw_distribution *d, double *d_out, stw_ppo_result *out) {
    const double share = 1.0 / ((double)ppo->all * ppo->M);
    for (int64_t k = 0; k < (int64_t)d->rows * d->dims; k++) {
        out->loss += share * ppo->pull * d->out[k] * d->out[k];
        d_out[k] += share * 2.0 * ppo->pull * d->out[k];
    }
}

stw_status stw_ppo_loss(const stw_ppo *ppo, const stw_distribution *sample, const double *action, const double *logp_old,
                        double *const *d_out, stw_ppo_result *out, stw_arena scratch, stw_error *error) {
    double *logp, *weight;
    *out = (stw_ppo_result){0};
    STW_TRY_NEW(&scratch, logp, ppo->M, error);
    STW_TRY_NEW(&scratch, weight, ppo->M, error);
    for (int32_t k = 0; k < ppo->K; k++) {
        const stw_distribution *d = &sample[k];
        const double *taken = &action[(int64_t)k * ppo->M * stw_distribution_action_width(d)];
        stw_distribution_log_density(d, taken, logp);
        weigh(ppo, ppo->advantage[k], logp, &logp_old[(int64_t)k * ppo->M], weight, out);
        stw_distribution_log_density_back(d, taken, weight, d_out[k]);
        if (!d->categorical) pull_means(ppo, d, d_out[k], out);
    }
    return STW_OK;
}
