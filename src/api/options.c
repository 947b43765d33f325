#include "api/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/aims.h"

static const stw_option table[] = {
#include "api/options.def"
};

enum { OPTION_COUNT = sizeof table / sizeof table[0], MAX_PATH_BYTES = 4095 };

struct stw_options {
    unsigned commands;
    char *value[OPTION_COUNT]; /* owned; NULL: not set */
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

static stw_status check_bytes(const stw_option *option, const char *value, stw_error *error) {
    int64_t bytes = 0;
    if (!stw_str_to_bytes(stw_str_of(value), &bytes)) {
        return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a size; write 4GB, 512MiB or a number of bytes", option->name,
                        value);
    }
    if (bytes >= option->minimum) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is too small; at least %" PRId64 " byte is needed", option->name, value,
                    option->minimum);
}

static stw_status check_integer(const stw_option *option, const char *value, stw_error *error) {
    int64_t number = 0;
    const bool ok = stw_str_to_int64(stw_str_of(value), &number) && number >= option->minimum && number <= option->maximum;
    if (ok) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, option->name, value,
                    option->minimum, option->maximum);
}

static stw_status check_seconds(const stw_option *option, const char *value, stw_error *error) {
    double seconds = 0.0;
    if (stw_str_to_seconds(stw_str_of(value), &seconds)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not a time; write 10s, 500ms or 2min", option->name, value);
}

/* STW_ERROR_INPUT with a line that names option, value and what is allowed. */
static stw_status check_value(const stw_option *option, const char *value, stw_error *error) {
    switch (option->kind) {
        case STW_OPTION_BYTES: return check_bytes(option, value, error);
        case STW_OPTION_INTEGER: return check_integer(option, value, error);
        case STW_OPTION_SECONDS: return check_seconds(option, value, error);
        case STW_OPTION_FLAG:
        case STW_OPTION_CHOICE: {
            const char *choices = option->kind == STW_OPTION_FLAG ? "yes|no" : option->value;
            if (is_choice(choices, value)) return STW_OK;
            return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' is not one of %s", option->name, value, choices);
        }
        case STW_OPTION_PATH:
            if (strlen(value) > MAX_PATH_BYTES) {
                return stw_fail(error, STW_ERROR_INPUT, "--%s: the path is longer than %d bytes", option->name, MAX_PATH_BYTES);
            }
            break;
        case STW_OPTION_TEXT: break;
    }
    if (value[0] != '\0') return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s: the value is empty; it should be %s", option->name, option->value);
}

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
    for (int32_t i = 0; i < OPTION_COUNT; i++) free(options->value[i]);
    free(options);
}

stw_status stw_options_set(stw_options *options, const char *name, const char *value, stw_error *error) {
    STW_NEED(options);
    STW_NEED(name);
    STW_NEED(value);
    const stw_option *option = stw_option_find(stw_str_of(name), options->commands);
    if (option == NULL) return stw_fail(error, STW_ERROR_INPUT, "there is no option '%s'", name == NULL ? "" : name);
    if (value == NULL) return stw_fail(error, STW_ERROR_INPUT, "--%s: there is no value", option->name);
    TRY(check_value(option, value, error));
    const size_t size = strlen(value) + 1;
    char *copy = malloc(size);
    if (copy == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for options");
    memcpy(copy, value, size);
    free(options->value[option - table]);
    options->value[option - table] = copy;
    return STW_OK;
}

bool stw_options_takes(const stw_options *options, const char *name) {
    return stw_option_find(stw_str_of(name), options->commands) != NULL;
}

const char *stw_options_get(const stw_options *options, const char *name) {
    STW_NEED(options);
    STW_NEED(name);
    const stw_option *option = stw_option_find(stw_str_of(name), options->commands);
    if (option == NULL) return NULL;
    const char *value = options->value[option - table];
    return value != NULL ? value : option->default_value;
}

bool stw_options_is_given(const stw_options *options, const char *name) {
    const stw_option *option = stw_option_find(stw_str_of(name), options->commands);
    return option != NULL && options->value[option - table] != NULL;
}
