/* Arguments: --name value, --name=value, -x value, -xvalue, flags, "--" before operands that look like options, and "-" as an
 * operand. Options and operands may come in any order; of a repeated option the last one counts, but shapes and what-ifs add up.
 */
#define _POSIX_C_SOURCE 200809L /* access */
#include <string.h>
#include <unistd.h>

#include "cli.h"

void cli_suggest(cli_suggestion *suggestion, const char *candidate) {
    const stw_str word = suggestion->word, other = stw_str_of(candidate);
    /* The beginning of a word counts as one slip. Short words must be nearer, else everything resembles everything. */
    const bool begins = word.length >= 2 && other.length > word.length && memcmp(word.p, other.p, (size_t)word.length) == 0;
    const int32_t distance = begins ? 1 : stw_str_distance(word, other);
    if (distance > (word.length < 5 ? 1 : 2)) return;
    if (suggestion->best != NULL && suggestion->distance <= distance) return;
    suggestion->best = candidate;
    suggestion->distance = distance;
}

stw_status cli_unknown_command(const char *name, stw_error *error) {
    cli_suggestion near = {.word = stw_str_of(name)};
    for (int32_t i = 0; i < cli_command_count; i++) cli_suggest(&near, cli_commands[i].name);
    if (near.best != NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "unknown command '%s'; did you mean '%s'?", name, near.best);
    }
    return stw_fail(error, STW_ERROR_INPUT, "unknown command '%s'; 'stowage help' lists them", name);
}

stw_status cli_unknown_method(const char *name, const char *also, const char *what, stw_error *error) {
    const char *method, *description;
    char list[300];
    cli_suggestion near = {.word = stw_str_of(name)};
    size_t length = (size_t)snprintf(list, sizeof list, "%s", also != NULL ? also : "");
    if (also != NULL) cli_suggest(&near, also);
    for (int32_t i = 0; stw_method_list(i, &method, &description); i++) {
        cli_suggest(&near, method);
        if (length >= sizeof list) continue;
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", length == 0 ? "" : ", ", method);
    }
    if (near.best != NULL) return stw_fail(error, STW_ERROR_INPUT, "%s; did you mean %s?", what, near.best);
    return stw_fail(error, STW_ERROR_INPUT, "%s (%s)", what, list);
}

/* A name that is neither a method nor a file is more often a slip than a lost file. */
stw_status cli_check_plan(const char *plan, stw_error *error) {
    char what[200];
    if (stw_method_exists(plan) || strcmp(plan, STW_PLAN_CARRIED) == 0 || strcmp(plan, "-") == 0) return STW_OK;
    if (access(plan, F_OK) == 0) return STW_OK;
    snprintf(what, sizeof what, "--plan: '%.120s' is neither a file nor a method", plan);
    return cli_unknown_method(plan, NULL, what, error);
}

/* `name` as written, without its value. */
static stw_status unknown_option(const cli_command *command, stw_str name, stw_error *error) {
    const stw_str word = {name.p + 2, name.length > 2 ? name.length - 2 : 0};
    cli_suggestion near = {.word = word};
    for (int32_t i = 0; word.length > 0 && stw_option_at(i) != NULL; i++) {
        if ((stw_option_at(i)->commands & command->bit) != 0) cli_suggest(&near, stw_option_at(i)->name);
    }
    if (near.best != NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "unknown option '%.*s' of %s; did you mean --%s?", STW_STR_SHOW(name),
                        command->name, near.best);
    }
    const bool elsewhere = word.length > 0 && stw_option_find(word, STW_FOR_COMMANDS) != NULL;
    return stw_fail(error, STW_ERROR_INPUT, "%s '%.*s' of %s; 'stowage help %s' lists its options",
                    elsewhere ? "there is no option" : "unknown option", STW_STR_SHOW(name), command->name, command->name);
}

/* Looks like an option: "-" alone is a file and "-1" is nobody's letter. */
static bool is_option(const char *argument) { return argument[0] == '-' && argument[1] != '\0'; }

/* A further --shape or --what-if goes behind those before it. */
static stw_status set_value(cli_call *call, const stw_option *option, const char *value, stw_error *error) {
    const bool shapes = strcmp(option->name, "shape") == 0,
               adds_up = shapes || strcmp(option->name, "what-if") == 0 || strcmp(option->name, "pin") == 0 ||
                         strcmp(option->name, "keep-together") == 0 || strcmp(option->name, "forbid") == 0;
    const char *before = adds_up ? stw_options_get(call->options, option->name) : NULL;
    if (before == NULL) return stw_options_set(call->options, option->name, value, error);
    stw_arena scratch = call->arena;
    const stw_str both = stw_str_format(&scratch, "%s%c%s", before, shapes ? ';' : ',', value);
    if (both.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    return stw_options_set(call->options, option->name, both.p, error);
}

/* Reads the option at argument[*next] and its value, and moves *next behind them. */
static stw_status parse_option(cli_call *call, int count, char **argument, int *next, stw_error *error) {
    const char *text = argument[(*next)++];
    const bool is_long = text[1] == '-';
    const char *equals = is_long ? strchr(text, '=') : NULL;
    const stw_str name = {text, equals != NULL ? equals - text : is_long ? (int64_t)strlen(text) : 2};
    const stw_option *option = is_long ? stw_option_find((stw_str){text + 2, name.length - 2}, call->command->bit)
                                       : stw_option_find_letter(text[1], call->command->bit);
    if (option == NULL) return unknown_option(call->command, name, error);

    const char *attached = equals != NULL ? equals + 1 : !is_long && text[2] != '\0' ? text + 2 : NULL;
    if (option->kind == STW_OPTION_FLAG) {
        if (attached == NULL) return stw_options_set(call->options, option->name, "yes", error);
        return stw_fail(error, STW_ERROR_INPUT, "--%s takes no value, but '%s' was given", option->name, attached);
    }
    if (attached != NULL) return set_value(call, option, attached, error);
    if (*next == count || strncmp(argument[*next], "--", 2) == 0) { /* a value that begins with "--" needs the "=" */
        return stw_fail(error, STW_ERROR_INPUT, "--%s needs a value: %s", option->name, option->value);
    }
    return set_value(call, option, argument[(*next)++], error);
}

stw_status cli_parse(cli_call *call, int count, char **argument, stw_error *error) {
    STW_TRY_NEW(&call->arena, call->operand, (int64_t)count + 1, error);
    bool options_end = false;
    for (int next = 0; next < count;) {
        if (!options_end && strcmp(argument[next], "--") == 0) {
            options_end = true;
            next++;
        } else if (!options_end && is_option(argument[next])) {
            TRY(parse_option(call, count, argument, &next, error));
        } else {
            call->operand[call->operand_count++] = argument[next++];
        }
    }
    return STW_OK;
}

stw_status cli_split(const char *text, const char *option, stw_arena *arena, const char ***out, int32_t *count,
                     stw_error *error) {
    const stw_str all = stw_str_copy(arena, stw_str_of(text));
    if (all.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    STW_TRY_NEW(arena, *out, all.length + 1, error);
    *count = 0;
    for (const char *word = text; word != NULL;) {
        const char *comma = strchr(word, ',');
        const int64_t length = comma == NULL ? (int64_t)strlen(word) : comma - word;
        const stw_str copy = stw_str_copy(arena, (stw_str){word, length});
        if (copy.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
        if (length == 0) return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' has an empty entry", option, text);
        for (int32_t k = 0; k < *count; k++) {
            if (strcmp((*out)[k], copy.p) == 0) {
                return stw_fail(error, STW_ERROR_INPUT, "--%s: '%s' stands twice", option, copy.p);
            }
        }
        (*out)[(*count)++] = copy.p;
        word = comma == NULL ? NULL : comma + 1;
    }
    return STW_OK;
}

bool cli_is_set(const cli_call *call, const char *flag) { return stw_options_flag(call->options, flag); }

bool cli_wants_json(const cli_call *call) {
    const char *format = stw_options_get(call->options, "format");
    return format != NULL && strcmp(format, "json") == 0;
}
