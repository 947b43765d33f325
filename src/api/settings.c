#include "api/settings.h"

#include <stdio.h>
#include <string.h>

#include "api/options.h"
#include "plan/fuse.h"

static stw_status read_units(const char *text, stw_settings *out, stw_error *error) {
    int64_t count = 0;
    if (strcmp(text, "auto") == 0) return STW_OK;
    if (strcmp(text, "off") == 0) {
        out->unit_count = out->policy.unit_count = 0;
        return STW_OK;
    }
    if (!stw_str_to_int64(stw_str_of(text), &count) || count < 1 || count > INT32_MAX) {
        return stw_fail(error, STW_ERROR_INPUT, "--units: '%s' is neither 'off', 'auto' nor a whole number from 1 to %d", text,
                        INT32_MAX);
    }
    out->unit_count = out->policy.unit_count = (int32_t)count;
    return STW_OK;
}

/* What is not given stays unset: the preset decides. */
static stw_status read_policy(const stw_options *options, stw_policy_settings *out, stw_error *error) {
    const char *preset = stw_options_text(options, "preset"), *rate = stw_options_text(options, "learning-rate");
    const char *reward = stw_options_text(options, "reward"), *starts = stw_options_text(options, "initial-plans");
    const char *warm = stw_options_text(options, "warm-start");
    *out = (stw_policy_settings){.learning_rate = -1.0, .reward = -1, .glue = -1, .warm_start = -1, .unit_count = -1};
    if (preset != NULL) snprintf(out->preset, sizeof out->preset, "%s", preset);
    if (rate != NULL &&
        (!stw_str_to_double(stw_str_of(rate), &out->learning_rate) || !(out->learning_rate >= 0.0) || out->learning_rate > 1.0))
        return stw_fail(error, STW_ERROR_INPUT, "--learning-rate: '%s' is not a number from 0 to 1", rate);
    if (reward != NULL) out->reward = strcmp(reward, "sqrt") == 0;
    if (starts != NULL) out->glue = strcmp(starts, "yes") == 0;
    if (warm != NULL) out->warm_start = strcmp(warm, "yes") == 0;
    const char *policy = stw_options_text(options, "policy");
    out->no_policy = policy != NULL && (strcmp(policy, "none") == 0 || strcmp(policy, "train") == 0);
    out->trains = policy != NULL && strcmp(policy, "train") == 0;
    out->policy = out->no_policy ? NULL : policy;
    out->decodes = (int32_t)stw_options_number(options, "decodes", 0);
    out->shuffled = stw_options_flag(options, "shuffle-features");
    out->updates = stw_options_number(options, "updates", 0);
    out->group_count = (int32_t)stw_options_number(options, "groups", 0);
    return STW_OK;
}

stw_status stw_settings_read(const stw_options *options, unsigned otherwise, stw_settings *out, stw_error *error) {
    const char *objective = stw_options_text(options, "objective"), *tasks = stw_options_text(options, "tasks"),
               *rule = stw_options_text(options, "rule");
    const char *fusion = stw_options_text(options, "fusion");
    const char *units = stw_options_text(options, "units");
    *out = (stw_settings){.rule = -1, .fusion = -1, .tasks = otherwise, .unit_count = 512};
    if (objective != NULL) stw_objective_find(objective, &out->objective);
    if (tasks != NULL && !stw_tasks_find(tasks, &out->tasks))
        return stw_fail(error, STW_ERROR_INPUT, "--tasks: '%s' is not a list of " STW_TASK_LIST ", each at most once", tasks);
    stw_rule named = STW_RULE_FIFO;
    if (rule != NULL && stw_rule_find(stw_str_of(rule), &named)) out->rule = (int32_t)named;
    stw_fusion grouped = STW_FUSION_NONE;
    if (fusion != NULL && stw_fusion_find(stw_str_of(fusion), &grouped)) out->fusion = (int32_t)grouped;
    if (out->fusion >= 0 && !(out->tasks & STW_TASK_FUSION))
        return stw_fail(error, STW_ERROR_INPUT,
                        "--fusion: fusion is not among the tasks; add it to --tasks or leave out --fusion");
    TRY(read_policy(options, &out->policy, error));
    if (units != NULL) TRY(read_units(units, out, error));
    out->from = stw_options_text(options, "from");
    out->seed = (uint64_t)stw_options_number(options, "seed", 1);
    out->threads = (int32_t)stw_options_number(options, "threads", 0);
    out->evaluations = stw_options_number(options, "evaluations", 0);
    out->budget_s = stw_options_seconds(options, "budget", out->evaluations > 0 ? 0.0 : 10.0);
    return STW_OK;
}
