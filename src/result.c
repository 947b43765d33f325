/* What a search came to, for callers. */
#include <math.h>
#include <stdlib.h>

#include "runner.h"

void stw_result_destroy(stw_result *result) {
    if (result == NULL) return;
    for (int32_t k = 0; k < result->count; k++) {
        stw_plan_destroy(result->entry[k]->plan);
        free(result->entry[k]);
    }
    free(result);
}

const stw_plan *stw_result_plan(const stw_result *result) { return result->best < 0 ? NULL : result->entry[result->best]->plan; }

int32_t stw_result_best(const stw_result *result) { return result->best; }

bool stw_result_candidate(const stw_result *result, int32_t index, stw_candidate *out) {
    if (index < 0 || index >= result->count) return false;
    const stw_entry *entry = result->entry[index];
    const bool valid = entry->plan != NULL && entry->score.reason == STW_VALID;
    *out = (stw_candidate){
        .method = entry->method,
        .valid = valid,
        .reason = valid ? NULL : entry->reason,
        .step_s = entry->has_step ? entry->score.step_s : NAN,
        .value = entry->has_step ? entry->score.value : NAN,
        .peak_bytes = entry->has_step ? entry->peak_bytes : NULL,
        .search_s = entry->search_s,
        .evaluations = entry->evaluations,
        .seed = (int64_t)result->settings.seed,
        .repaired = entry->repaired,
        .note = entry->note,
    };
    return true;
}

const char *stw_result_lacking(const stw_result *result) { return result->lacking; }
stw_bounds stw_result_bounds(const stw_result *result) { return result->bounds; }
double stw_result_measured_share(const stw_result *result) { return result->measured_share; }
bool stw_result_is_interrupted(const stw_result *result) { return result->interrupted; }
bool stw_result_is_optimal(const stw_result *result) { return result->optimal; }

int32_t stw_result_ahead(const stw_result *result, int32_t *draws) {
    if (draws != NULL) *draws = result->draws;
    return result->ahead;
}
