#include "api/settings.h"

#include <stdio.h>
#include <string.h>

#include "api/options.h"
#include "plan/fuse.h"

const char *const stw_objective_name[3] = {"time", "memory", "throughput"};

static const char *text_of(const stw_options *options, const char *name) {
    return options == NULL ? NULL : stw_options_get(options, name);
}

static int64_t integer_of(const stw_options *options, const char *name, int64_t otherwise) {
    const char *text = text_of(options, name);
    int64_t value = otherwise;
    return text != NULL && stw_str_to_int64(stw_str_of(text), &value) ? value : otherwise;
}

/* "placement,schedule,fusion" in any order, each once. */
static stw_status read_tasks(const char *text, unsigned *out, stw_error *error) {
    static const char *const names[] = {"placement", "schedule", "fusion"};
    *out = strcmp(text, "all") == 0 ? STW_TASK_ALL : 0;
    if (*out != 0) return STW_OK;
    for (const char *word = text; word != NULL;) {
        const char *comma = strchr(word, ',');
        const size_t length = comma == NULL ? strlen(word) : (size_t)(comma - word);
        unsigned bit = 0;
        for (int k = 0; k < 3; k++) {
            if (strlen(names[k]) == length && memcmp(names[k], word, length) == 0) bit = 1u << k;
        }
        if (bit == 0 || (*out & bit) != 0) {
            return stw_fail(error, STW_ERROR_INPUT,
                            "--tasks: '%s' is not a list of placement, schedule and fusion, each at most once", text);
        }
        *out |= bit;
        word = comma == NULL ? NULL : comma + 1;
    }
    return STW_OK;
}

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
    const char *preset = text_of(options, "preset"), *rate = text_of(options, "learning-rate");
    const char *reward = text_of(options, "reward"), *starts = text_of(options, "initial-plans");
    const char *warm = text_of(options, "warm-start");
    *out = (stw_policy_settings){.learning_rate = -1.0, .reward = -1, .glue = -1, .warm_start = -1, .unit_count = -1};
    if (preset != NULL) snprintf(out->preset, sizeof out->preset, "%s", preset);
    if (rate != NULL &&
        (!stw_str_to_double(stw_str_of(rate), &out->learning_rate) || !(out->learning_rate >= 0.0) || out->learning_rate > 1.0))
        return stw_fail(error, STW_ERROR_INPUT, "--learning-rate: '%s' is not a number from 0 to 1", rate);
    if (reward != NULL) out->reward = strcmp(reward, "sqrt") == 0;
    if (starts != NULL) out->glue = strcmp(starts, "yes") == 0;
    if (warm != NULL) out->warm_start = strcmp(warm, "yes") == 0;
    const char *policy = text_of(options, "policy");
    out->no_policy = policy != NULL && (strcmp(policy, "none") == 0 || strcmp(policy, "train") == 0);
    out->trains = policy != NULL && strcmp(policy, "train") == 0;
    out->policy = out->no_policy ? NULL : policy;
    out->decodes = (int32_t)integer_of(options, "decodes", 0);
    const char *shuffle = text_of(options, "shuffle-features");
    out->shuffled = shuffle != NULL && strcmp(shuffle, "yes") == 0;
    out->updates = integer_of(options, "updates", 0);
    out->group_count = (int32_t)integer_of(options, "groups", 0);
    return STW_OK;
}

stw_status stw_settings_read(const stw_options *options, unsigned otherwise, stw_settings *out, stw_error *error) {
    const char *objective = text_of(options, "objective"), *tasks = text_of(options, "tasks"), *rule = text_of(options, "rule");
    const char *fusion = text_of(options, "fusion");
    const char *units = text_of(options, "units"), *budget = text_of(options, "budget");
    *out = (stw_settings){.rule = -1, .fusion = -1, .tasks = otherwise, .unit_count = 512};
    for (int k = 0; k < 3; k++) {
        if (objective != NULL && strcmp(objective, stw_objective_name[k]) == 0) out->objective = (stw_objective)k;
    }
    if (tasks != NULL) TRY(read_tasks(tasks, &out->tasks, error));
    stw_rule named = STW_RULE_FIFO;
    if (rule != NULL && stw_rule_find(stw_str_of(rule), &named)) out->rule = (int32_t)named;
    stw_fusion grouped = STW_FUSION_NONE;
    if (fusion != NULL && stw_fusion_find(stw_str_of(fusion), &grouped)) out->fusion = (int32_t)grouped;
    if (out->fusion >= 0 && !(out->tasks & STW_TASK_FUSION))
        return stw_fail(error, STW_ERROR_INPUT,
                        "--fusion: fusion is not among the tasks; add it to --tasks or leave out --fusion");
    TRY(read_policy(options, &out->policy, error));
    if (units != NULL) TRY(read_units(units, out, error));
    out->from = text_of(options, "from");
    out->seed = (uint64_t)integer_of(options, "seed", 1);
    out->threads = (int32_t)integer_of(options, "threads", 0);
    out->evaluations = integer_of(options, "evaluations", 0);
    out->budget_s = out->evaluations > 0 ? 0.0 : 10.0;
    if (budget != NULL && !stw_str_to_seconds(stw_str_of(budget), &out->budget_s)) out->budget_s = 10.0;
    return STW_OK;
}
