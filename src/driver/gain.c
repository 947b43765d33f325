/* Several devices are worth their trouble only if they bring something. */
#include <math.h>
#include <stdio.h>

#include "driver/runner.h"

static const double GAIN_OF_GRAINS = 0.01; /* what they must bring where whole modules are placed, if nothing else is said */

static bool uses_one(const stw_simulator *s, const stw_plan *plan) {
    int32_t device = -1;
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (s->graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(s->graph->kind[i])) continue;
        if (device >= 0 && plan->device[i] != device) return false;
        device = plan->device[i];
    }
    return true;
}

static double wanted_gain(const stw_runner *r) {
    if (r->settings.min_gain >= 0.0) return r->settings.min_gain;
    return r->limited != NULL && r->limited->grain != STW_GRAIN_OP ? GAIN_OF_GRAINS : 0.0;
}

int32_t stw_runner_best_on_one(const stw_runner *r, const stw_result *result) {
    int32_t one = -1;
    for (int32_t k = 0; k < result->count; k++) {
        const stw_entry *entry = result->entry[k];
        if (entry->plan == NULL || entry->score.reason != STW_VALID || !uses_one(r->simulator, entry->plan)) continue;
        if (one < 0 || stw_score_is_better(&entry->score, &result->entry[one]->score)) one = k;
    }
    return one;
}

void stw_runner_weigh_gain(const stw_runner *r, stw_result *result) {
    const double wanted = wanted_gain(r);
    if (wanted <= 0.0 || result->best < 0 || uses_one(r->simulator, result->entry[result->best]->plan)) return;
    const int32_t one = stw_runner_best_on_one(r, result);
    const stw_entry *best = result->entry[result->best];
    if (one < 0 || best->score.value <= (1.0 - wanted) * result->entry[one]->score.value) return;
    const double gain = 1.0 - best->score.value / result->entry[one]->score.value;
    snprintf(result->entry[one]->outcome.note, sizeof result->entry[one]->outcome.note,
             "stays on one device: several gain %.2g %% (%s), below the %.3g %% of --min-gain", 100.0 * fmax(gain, 0.0),
             best->candidate.method, 100.0 * wanted);
    result->best = one;
    result->optimal = false;
}
