/* The outcome of a search, for callers. */
#include <math.h>
#include <stdlib.h>

#include "driver/runner.h"
#include "export/plan_file.h"

void stw_result_destroy(stw_result *result) {
    if (result == NULL) return;
    for (int32_t k = 0; k < result->count; k++) stw_entry_destroy(result->entry[k]);
    free(result->limits);
    free(result);
}

const stw_plan *stw_result_plan(const stw_result *result) {
    STW_NEED(result);
    return result->best < 0 ? NULL : result->entry[result->best]->plan;
}

int32_t stw_result_best(const stw_result *result) {
    STW_NEED(result);
    return result->best;
}

bool stw_result_candidate(const stw_result *result, int32_t index, stw_candidate *out) {
    STW_NEED(result);
    STW_NEED(out);
    if (index < 0 || index >= result->count) return false;
    *out = result->entry[index]->candidate;
    return true;
}

const char *stw_result_lacking(const stw_result *result) {
    STW_NEED(result);
    return result->lacking;
}

stw_bounds stw_result_bounds(const stw_result *result) {
    STW_NEED(result);
    return result->bounds;
}

double stw_result_measured_share(const stw_result *result) {
    STW_NEED(result);
    return result->measured_share;
}

bool stw_result_is_short_of_memory(const stw_result *result) {
    STW_NEED(result);
    return result->short_of_memory;
}

bool stw_result_is_interrupted(const stw_result *result) {
    STW_NEED(result);
    return result->interrupted;
}

bool stw_result_is_optimal(const stw_result *result) {
    STW_NEED(result);
    return result->optimal && result->best >= 0;
}

const char *stw_result_limits(const stw_result *result) {
    STW_NEED(result);
    return result->limits == NULL ? "" : result->limits;
}

stw_noise stw_result_noise(const stw_result *result) {
    STW_NEED(result);
    return result->noise;
}

stw_status stw_result_write(const stw_result *result, const char *path, bool head_only, stw_error *error) {
    STW_NEED(result);
    STW_NEED(path);
    stw_candidate candidate[STW_MAX_ENTRIES];
    stw_plan_head head = {.simulator = result->simulator,
                          .plan = stw_result_plan(result),
                          .tasks = result->settings.tasks,
                          .seed = (int64_t)result->settings.seed,
                          .objective = result->settings.objective,
                          .outcome = {.value = NAN, .step_s = NAN},
                          .bounds = result->bounds,
                          .optimal = stw_result_is_optimal(result),
                          .limits = result->limits,
                          .measured_share = result->measured_share,
                          .noise = result->best > 0 ? &result->noise : NULL, /* the default is level with itself */
                          .candidate = candidate,
                          .candidate_count = result->count};
    for (int32_t k = 0; k < result->count; k++) stw_result_candidate(result, k, &candidate[k]);
    if (result->best >= 0) head.outcome = candidate[result->best];
    return stw_plan_head_write(&head, path, head_only, error);
}
