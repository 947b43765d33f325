/* `stowage help` and `stowage version`. The texts come from the command table (main.c) and the option table (options.def). */
#include <string.h>

#include "cli.h"

enum { LINE_WIDTH = 80, INDENT = 2 };

/* Prints words from `column` on, breaking lines at LINE_WIDTH; further lines begin at `indent`. Ends the line. */
static void print_wrapped(stw_str text, int32_t column, int32_t indent) {
    bool line_is_empty = true;
    for (int64_t i = 0; i < text.length;) {
        int64_t end = i;
        while (end < text.length && text.p[end] != ' ') end++;
        const int32_t length = (int32_t)(end - i);
        if (!line_is_empty && column + 1 + length > LINE_WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
            line_is_empty = true;
        }
        printf("%s%.*s", line_is_empty ? "" : " ", (int)length, text.p + i);
        column += length + (line_is_empty ? 0 : 1);
        line_is_empty = false;
        i = end + 1;
    }
    putchar('\n');
}

static void print_paragraphs(const char *text) {
    while (*text != '\0') {
        const char *end = strstr(text, "\n\n");
        const int64_t length = end == NULL ? (int64_t)strlen(text) : end - text;
        putchar('\n');
        print_wrapped((stw_str){text, length}, 0, 0);
        text += length;
        if (end != NULL) text += 2;
    }
}

/* "term  explanation", the explanation wrapped in its column; a long term has the line to itself. */
static void print_entry(const char *term, const char *explanation, int32_t width) {
    const int32_t length = (int32_t)strlen(term), column = INDENT + width + 2;
    printf("%*s%s", INDENT, "", term);
    if (explanation[0] == '\0') {
        putchar('\n');
    } else if (length > width) {
        printf("\n%*s", column, "");
        print_wrapped(stw_str_of(explanation), column, column);
    } else {
        printf("%*s", width - length + 2, "");
        print_wrapped(stw_str_of(explanation), column, column);
    }
}

/* Lines "term<TAB>explanation". */
static void print_entries(const char *lines, int32_t width) {
    while (*lines != '\0') {
        char term[200], explanation[200];
        const size_t term_length = strcspn(lines, "\t"), length = strcspn(lines + term_length + 1, "\n");
        snprintf(term, sizeof term, "%.*s", (int)term_length, lines);
        snprintf(explanation, sizeof explanation, "%.*s", (int)length, lines + term_length + 1);
        print_entry(term, explanation, width);
        lines += term_length + 1 + length + 1;
    }
}

/* The examples: what it does, then the command to copy. */
static void print_examples(const char *lines) {
    while (*lines != '\0') {
        const size_t command = strcspn(lines, "\t"), what = strcspn(lines + command + 1, "\n");
        printf("%*s%.*s\n", INDENT, "", (int)command, lines);
        if (what > 0) printf("%*s%.*s\n", 3 * INDENT, "", (int)what, lines + command + 1);
        lines += command + 1 + what + 1;
    }
}

static void print_options(const cli_command *command) {
    printf("\nOptions:\n");
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        if ((option->commands & command->bit) == 0) continue;
        char term[80], letter[8] = "    ", explanation[300];
        if (option->letter != 0) snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(term, sizeof term, "%s--%s%s%s", letter, option->name, option->value != NULL ? " " : "",
                 option->value != NULL ? option->value : "");
        const bool shows_default = option->kind != STW_OPTION_FLAG && option->default_value != NULL;
        snprintf(explanation, sizeof explanation, "%s%s%s%s", option->help, shows_default ? " (default: " : "",
                 shows_default ? option->default_value : "", shows_default ? ")" : "");
        print_entry(term, explanation, 24);
    }
}

static void print_methods(void) {
    const char *name, *description;
    printf("\nMethods:\n");
    for (int32_t i = 0; stw_method_list(i, &name, &description); i++) print_entry(name, description, 8);
}

static void print_formats(void) {
    const char *name, *description;
    printf("\nFormats:\n");
    for (int32_t i = 0; stw_export_list(i, &name, &description); i++) print_entry(name, description, 12);
}

static void print_program_help(void) {
    printf("usage: stowage COMMAND [ARGUMENT...] [OPTION...]\n\n");
    print_wrapped(stw_str_of(cli_description), 0, 0);
    printf("\nCommands:\n");
    for (int32_t i = 0; i < cli_command_count; i++) print_entry(cli_commands[i].name, cli_commands[i].summary, 9);
    printf("\nExit status:\n");
    print_entries(cli_exit_statuses, 3);
    printf("\n'stowage help COMMAND' tells more about a command.\n");
}

void cli_print_help(const cli_command *command) {
    if (command == NULL) {
        print_program_help();
        return;
    }
    printf("usage: stowage %s\n", command->usage);
    print_paragraphs(command->description);
    print_options(command);
    if (command->lists_methods) print_methods();
    if (command->lists_formats) print_formats();
    printf("\nExamples:\n");
    print_examples(command->examples);
}

int cmd_help(const cli_call *call) {
    const cli_command *command = NULL;
    if (call->operand_count > 0) {
        command = cli_command_find(stw_str_of(call->operand[0]));
        stw_error error;
        if (command == NULL && cli_unknown_command(call->operand[0], &error) != STW_OK) return cli_fault(&error);
    }
    const char *shell = stw_options_get(call->options, "completion");
    if (shell != NULL) {
        cli_print_completion(shell);
    } else if (cli_is_set(call, "man")) {
        cli_print_man(command);
    } else {
        cli_print_help(command);
    }
    return CLI_DONE;
}

int cmd_version(const cli_call *call) {
    (void)call;
    printf("stowage %s\n", stw_version());
    return CLI_DONE;
}
