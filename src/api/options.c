#include "api/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/settings.h"
#include "plan/aims.h"
#include "plan/fuse.h"

/* ---- the table ---- */

static const stw_option table[] = {
#include "api/options.def"
};

enum { OPTION_COUNT = sizeof table / sizeof table[0], MAX_PATH_BYTES = 4095 };

struct stw_options {
    unsigned commands;
    char *text[OPTION_COUNT]; /* owned; NULL: not set */
    stw_option_value value[OPTION_COUNT];
    char *otherwise[OPTION_COUNT]; /* owned; NULL: the table's default */
};

const stw_option *stw_option_at(int32_t index) { return index >= 0 && index < OPTION_COUNT ? &table[index] : NULL; }

const stw_option *stw_option_find(stw_str name, unsigned commands) {
    for (int32_t i = 0; i < OPTION_COUNT; i++) {
        if ((table[i].commands & commands) != 0 && stw_str_is(name, table[i].name)) return &table[i];
    }
    return NULL;
}

const stw_option *stw_option_find_letter(char letter, unsigned commands) {
    for (int32_t i = 0; i < OPTION_COUNT; i++) {
        if ((table[i].commands & commands) != 0 && letter != 0 && table[i].letter == letter) return &table[i];
    }
    return NULL;
}

/* ---- values ---- */

/* "text|json": true if `value` is one of the words. */
static bool is_choice(const char *choices, const char *value) {
    const size_t length = strlen(value);
    for (const char *word = choices; *word != '\0';) {
        const size_t word_length = strcspn(word, "|");
        if (word_length == length && memcmp(word, value, length) == 0) return true;
        word += word_length;
        if (*word == '|') word++;
    }
    return false;
}

static stw_status read_bytes(const stw_option *option, const char *text, int64_t *out, stw_error *error) {
    if (!stw_str_to_bytes(stw_str_of(text), out)) {
        return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a size; write 4GB, 512MiB or a number of bytes", option->name,
                        text);
    }
    if (*out >= option->minimum) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is too small; at least %" PRId64 " byte is needed", option->name, text,
                    option->minimum);
}

static stw_status read_integer(const stw_option *option, const char *text, int64_t *out, stw_error *error) {
    if (stw_str_to_int64(stw_str_of(text), out) && *out >= option->minimum && *out <= option->maximum) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, option->name, text,
                    option->minimum, option->maximum);
}

static stw_status read_seconds(const stw_option *option, const char *text, double *out, stw_error *error) {
    if (stw_str_to_seconds(stw_str_of(text), out)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a time; write 10s, 500ms or 2min", option->name, text);
}

static stw_status read_choice(const stw_option *option, const char *choices, const char *text, stw_error *error) {
    if (is_choice(choices, text)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not one of %s", option->name, text, choices);
}

/* Checks and reads the text of a value. STW_ERROR_INPUT with a line that names option, value and what is allowed. */
static stw_status read_value(const stw_option *option, const char *text, stw_option_value *out, stw_error *error) {
    *out = (stw_option_value){0};
    switch (option->kind) {
        case STW_OPTION_BYTES: return read_bytes(option, text, &out->number, error);
        case STW_OPTION_INTEGER: return read_integer(option, text, &out->number, error);
        case STW_OPTION_SECONDS: return read_seconds(option, text, &out->seconds, error);
        case STW_OPTION_CHOICE: return read_choice(option, option->value, text, error);
        case STW_OPTION_FLAG: out->number = strcmp(text, "yes") == 0; return read_choice(option, "yes|no", text, error);
        case STW_OPTION_PATH:
            if (strlen(text) > MAX_PATH_BYTES) {
                return stw_fail(error, STW_ERROR_INPUT, "--%s: the path is longer than %d bytes", option->name, MAX_PATH_BYTES);
            }
            break;
        case STW_OPTION_TEXT: break;
    }
    if (text[0] != '\0') return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: the value is empty; it should be %s", option->name, option->value);
}

/* ---- a set of options ---- */

stw_status stw_options_create_for(unsigned commands, stw_options **out, stw_error *error) {
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for options");
    (*out)->commands = commands;
    return STW_OK;
}

stw_status stw_options_create(stw_options **out, stw_error *error) {
    STW_NEED(out);
    return stw_options_create_for(STW_FOR_LIBRARY, out, error);
}

void stw_options_destroy(stw_options *options) {
    if (options == NULL) return;
    for (int32_t i = 0; i < OPTION_COUNT; i++) {
        free(options->text[i]);
        free(options->otherwise[i]);
    }
    free(options);
}

/* A copy in place of the text that was there. */
static stw_status keep_text(const char *value, char **text, stw_error *error) {
    const size_t size = strlen(value) + 1;
    char *copy = malloc(size);
    if (copy == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for options");
    memcpy(copy, value, size);
    free(*text);
    *text = copy;
    return STW_OK;
}

stw_status stw_options_set(stw_options *options, const char *name, const char *value, stw_error *error) {
    STW_NEED(options);
    STW_NEED(name);
    STW_NEED(value);
    const stw_option *option = stw_option_find(stw_str_of(name), options->commands);
    if (option == NULL) return stw_fail(error, STW_ERROR_INPUT, "there is no option '%s'", name == NULL ? "" : name);
    if (value == NULL) return stw_fail(error, STW_ERROR_INPUT, "--%s: there is no value", option->name);
    stw_option_value meaning;
    TRY(read_value(option, value, &meaning, error));
    TRY(keep_text(value, &options->text[option - table], error));
    options->value[option - table] = meaning;
    return STW_OK;
}

stw_status stw_options_set_otherwise(stw_options *options, const char *name, const char *value, stw_error *error) {
    const stw_option *option = stw_option_find(stw_str_of(name), options->commands);
    stw_option_value meaning;
    if (option == NULL) return stw_fail(error, STW_ERROR_INPUT, "there is no option '%s'", name);
    TRY(read_value(option, value, &meaning, error));
    return keep_text(value, &options->otherwise[option - table], error);
}

bool stw_options_takes(const stw_options *options, const char *name) {
    return stw_option_find(stw_str_of(name), options->commands) != NULL;
}

bool stw_options_is_given(const stw_options *options, const char *name) {
    const stw_option *option = stw_option_find(stw_str_of(name), options->commands);
    return option != NULL && options->text[option - table] != NULL;
}

/* The row of a value that is set or has a default, and its text; else NULL. */
static const stw_option *find_value(const stw_options *options, const char *name, const char **text) {
    const stw_option *option = options == NULL ? NULL : stw_option_find(stw_str_of(name), options->commands);
    *text = NULL;
    if (option == NULL) return NULL;
    *text = options->text[option - table];
    if (*text == NULL) *text = options->otherwise[option - table];
    if (*text == NULL) *text = option->default_value;
    return *text == NULL ? NULL : option;
}

const char *stw_options_text(const stw_options *options, const char *name) {
    const char *text;
    find_value(options, name, &text);
    return text;
}

const char *stw_options_get(const stw_options *options, const char *name) {
    STW_NEED(options);
    STW_NEED(name);
    return stw_options_text(options, name);
}

/* False where there is none. */
static bool get_value(const stw_options *options, const char *name, stw_option_value *out) {
    const char *text;
    const stw_option *option = find_value(options, name, &text);
    if (option == NULL) return false;
    const bool given = text == options->text[option - table];
    if (given) *out = options->value[option - table];
    return given || read_value(option, text, out, NULL) == STW_OK;
}

int64_t stw_options_number(const stw_options *options, const char *name, int64_t otherwise) {
    stw_option_value value;
    return get_value(options, name, &value) ? value.number : otherwise;
}

double stw_options_seconds(const stw_options *options, const char *name, double otherwise) {
    stw_option_value value;
    return get_value(options, name, &value) ? value.seconds : otherwise;
}

bool stw_options_flag(const stw_options *options, const char *name) { return stw_options_number(options, name, 0) == 1; }

stw_file_limits stw_options_file_limits(const stw_options *options) {
    const int64_t bytes = stw_options_number(options, "file-limit", 0);
    return bytes == 0 ? (stw_file_limits){0} : (stw_file_limits){.bytes = bytes, .ratio = INT64_MAX};
}

/* ---- what they say of a search ---- */

/* "2%" or "0.02". */
static stw_status read_gain(const char *text, double *out, stw_error *error) {
    stw_str number = stw_str_of(text);
    const bool percent = stw_str_ends(number, "%");
    if (percent) number.length--;
    if (!stw_str_to_double(number, out) || !(*out >= 0.0) || *out > (percent ? 100.0 : 1.0))
        return stw_fail(error, STW_ERROR_INPUT, "--min-gain: '%s' is no share; write 2%% or 0.02", text);
    if (percent) *out /= 100.0;
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

static stw_status read_rate(const stw_options *options, const char *name, double *out, stw_error *error) {
    const char *text = stw_options_text(options, name);
    double rate = 0.0;
    if (text == NULL) return STW_OK;
    if (!stw_str_to_double(stw_str_of(text), &rate) || !(rate >= 0.0) || rate > 1.0)
        return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a number from 0 to 1", name, text);
    *out = rate;
    return STW_OK;
}

/* What is not given stays unset: the preset decides. */
static stw_status read_policy(const stw_options *options, stw_policy_settings *out, stw_error *error) {
    const char *preset = stw_options_text(options, "preset");
    const char *reward = stw_options_text(options, "reward"), *starts = stw_options_text(options, "initial-plans");
    const char *warm = stw_options_text(options, "warm-start"), *names = stw_options_text(options, "device-names");
    *out = (stw_policy_settings){.learning_rate = -1.0,
                                 .scorer_rate = -1.0,
                                 .reward = -1,
                                 .glue = -1,
                                 .warm_start = -1,
                                 .device_names = -1,
                                 .unit_count = -1};
    if (preset != NULL) snprintf(out->preset, sizeof out->preset, "%s", preset);
    TRY(read_rate(options, "learning-rate", &out->learning_rate, error));
    TRY(read_rate(options, "scorer-rate", &out->scorer_rate, error));
    if (reward != NULL) out->reward = strcmp(reward, "log") == 0 ? 0 : strcmp(reward, "sqrt") == 0 ? 1 : 2; /* as stw_reward */
    if (starts != NULL) out->glue = strcmp(starts, "yes") == 0;
    if (warm != NULL) out->warm_start = strcmp(warm, "yes") == 0;
    if (names != NULL) out->device_names = strcmp(names, "yes") == 0;
    const char *policy = stw_options_text(options, "policy");
    out->no_policy = policy != NULL && (strcmp(policy, "none") == 0 || strcmp(policy, "train") == 0);
    out->trains = policy != NULL && strcmp(policy, "train") == 0;
    out->policy = out->no_policy ? NULL : policy;
    const char *proposals = stw_options_text(options, "proposals");
    out->no_proposals = proposals == NULL ? out->no_policy : strcmp(proposals, "none") == 0;
    out->proposals = out->no_proposals ? NULL : proposals;
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
    *out = (stw_settings){.rule = -1, .fusion = -1, .tasks = otherwise, .unit_count = 512, .min_gain = -1.0};
    if (objective != NULL) stw_objective_find(objective, &out->objective);
    const char *grain = stw_options_text(options, "grain");
    if (grain != NULL && strcmp(grain, "op") != 0 && !stw_options_is_given(options, "tasks"))
        tasks = "placement"; /* targets that place modules run them in the order of the program */
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
    const char *gain = stw_options_text(options, "min-gain");
    if (gain != NULL) TRY(read_gain(gain, &out->min_gain, error));
    out->from = stw_options_text(options, "from");
    out->seed = (uint64_t)stw_options_number(options, "seed", 1);
    out->threads = (int32_t)stw_options_number(options, "threads", 0);
    out->evaluations = stw_options_number(options, "evaluations", 0);
    const bool counted = out->evaluations > 0 && !stw_options_is_given(options, "budget"); /* then it must repeat */
    out->budget_s = counted ? 0.0 : stw_options_seconds(options, "budget", 10.0);
    const char *clock = stw_options_text(options, "clock");
    if (clock != NULL && strcmp(clock, "cpu") == 0) out->clock = stw_processor_clock();
    return STW_OK;
}
