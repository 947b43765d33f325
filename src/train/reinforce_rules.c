#include <math.h>
#include <string.h>

#include "train/reinforce.h"

static const stw_reinforce_settings preset_paper = {.patience = 200,
                                                    .samples = 1,
                                                    .per_device = 20,
                                                    .most_groups = 256,
                                                    .rate = 0.1,
                                                    .rate_for_many = 0.1,
                                                    .decay = 0.95,
                                                    .decay_from = 400,
                                                    .decay_every = 50,
                                                    .gradient_norm = 1.0,
                                                    .failing = 100.0,
                                                    .keep = 0.9,
                                                    .noise = 0.5,
                                                    .noise_until = 750,
                                                    .sampling_until = 500,
                                                    .failures_until = 1000,
                                                    .bound = 1.0,
                                                    .sharpness = 1.0,
                                                    .hidden = 64,
                                                    .width = 512};
static const stw_reinforce_settings preset_default = {.patience = 200,
                                                      .samples = 16,
                                                      .units = 128,
                                                      .per_device = 3,
                                                      .most_groups = 256,
                                                      .rate = 3e-3,
                                                      .rate_for_many = 3e-4,
                                                      .decay = 0.95,
                                                      .decay_from = 400,
                                                      .decay_every = 50,
                                                      .gradient_norm = 1.0,
                                                      .failing = 100.0,
                                                      .own_baseline = true,
                                                      .failures_until = 1000,
                                                      .sharpness = 5.0,
                                                      .hidden = 64,
                                                      .width = 512};

bool stw_reinforce_preset(const char *name, int32_t devices, stw_reinforce_settings *out) {
    const bool paper = strcmp(name, "paper") == 0;
    *out = paper ? preset_paper : preset_default;
    if (devices >= STW_MANY_DEVICES) out->rate = out->rate_for_many;
    return paper || strcmp(name, "default") == 0;
}

int32_t stw_reinforce_groups(const stw_reinforce_settings *settings, int32_t devices, int32_t ops) {
    int64_t groups = (int64_t)settings->per_device * devices;
    if (groups > settings->most_groups) groups = settings->most_groups;
    if (settings->groups > 0) groups = settings->groups;
    return groups < ops ? (int32_t)groups : ops;
}

double stw_reinforce_cost(const stw_reinforce_settings *settings, const stw_score *score, double reference) {
    return sqrt(score->reason == STW_VALID ? fmin(score->value / reference, settings->failing) : settings->failing);
}

double stw_reinforce_rate(const stw_reinforce_settings *settings, int64_t update) {
    if (update < settings->decay_from || settings->decay_every <= 0) return settings->rate;
    const int64_t steps = (update - settings->decay_from) / settings->decay_every;
    return settings->rate * pow(settings->decay, (double)steps);
}

void stw_reinforce_weights(const stw_reinforce_settings *settings, int64_t update, const double *cost, const bool *valid,
                           stw_baseline *baseline, double *weight) {
    const bool forgives = settings->failures_until > 0 && update >= settings->failures_until;
    double mean = 0.0;
    int32_t count = 0;
    for (int32_t k = 0; k < settings->samples; k++) {
        if (forgives && !valid[k]) continue;
        mean += cost[k];
        count++;
    }
    if (count > 0) mean /= count;
    if (!baseline->begun) baseline->value = sqrt(settings->failing);
    if (settings->own_baseline && count > 0) baseline->value = mean;
    baseline->begun = true;
    for (int32_t k = 0; k < settings->samples; k++) weight[k] = forgives && !valid[k] ? 0.0 : (cost[k] - baseline->value) / count;
    if (count > 0) baseline->value = settings->keep * baseline->value + (1.0 - settings->keep) * mean;
}
