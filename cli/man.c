/* Man pages (roff, man macros) from the same tables as the help. scripts/make_man.sh writes them to docs/man. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

/* Text with what roff would take for markup escaped. A line must not begin with '.' or "'", so none of ours may either: the
 * zero-width \& goes in front. */
static void print_escaped(stw_str text) {
    for (int64_t i = 0; i < text.length; i++) {
        const char c = text.p[i];
        const bool line_begins = i == 0 || text.p[i - 1] == '\n';
        if (line_begins && (c == '.' || c == '\'')) fputs("\\&", stdout);
        switch (c) {
            case '\\': fputs("\\e", stdout); break;
            case '-': fputs("\\-", stdout); break;
            case '\'': fputs("\\(aq", stdout); break; /* a plain ', which can be copied */
            case '~': fputs("\\(ti", stdout); break;
            case '^': fputs("\\(ha", stdout); break;
            default: putchar(c);
        }
    }
}

static void print_text(const char *text) { print_escaped(stw_str_of(text)); }

static void print_section(const char *title) { printf(".SH %s\n", title); }

/* A tagged paragraph: a term in bold and its explanation. */
static void print_tagged(stw_str term, stw_str explanation) {
    printf(".TP\n\\fB");
    print_escaped(term);
    printf("\\fR\n");
    print_escaped(explanation);
    printf("\n");
}

/* Lines "term<TAB>explanation". */
static void print_tagged_lines(const char *lines) {
    while (*lines != '\0') {
        const size_t term = strcspn(lines, "\t"), explanation = strcspn(lines + term + 1, "\n");
        print_tagged((stw_str){lines, (int64_t)term}, (stw_str){lines + term + 1, (int64_t)explanation});
        lines += term + 1 + explanation + 1;
    }
}

static void print_paragraphs(const char *text) {
    for (bool first = true; *text != '\0'; first = false) {
        const char *end = strstr(text, "\n\n");
        const int64_t length = end == NULL ? (int64_t)strlen(text) : end - text;
        if (!first) printf(".PP\n");
        print_escaped((stw_str){text, length});
        printf("\n");
        text += length;
        if (end != NULL) text += 2;
    }
}

static void print_head(const char *suffix, const char *summary, const char *usage) {
    char title[64] = "STOWAGE";
    if (suffix != NULL) {
        size_t length = (size_t)snprintf(title, sizeof title, "STOWAGE-%s", suffix);
        for (size_t i = 0; i < length && i < sizeof title; i++) title[i] = (char)toupper((unsigned char)title[i]);
    }
    printf(".\\\" Written by 'stowage help --man'; see scripts/make_man.sh.\n");
    printf(".TH \"%s\" 1 \"\" \"Stowage %s\" \"Stowage Manual\"\n", title, stw_version());
    printf(".nh\n.ad l\n"); /* options and paths must not be hyphenated or stretched */
    print_section("NAME");
    printf("stowage%s%s \\- %s\n", suffix != NULL ? "\\-" : "", suffix != NULL ? suffix : "", summary);
    print_section("SYNOPSIS");
    printf("\\fBstowage\\fR ");
    print_text(usage);
    printf("\n");
}

static void print_options(const cli_command *command) {
    print_section("OPTIONS");
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        if ((option->commands & command->bit) == 0) continue;
        printf(".TP\n");
        if (option->letter != 0) printf("\\fB\\-%c\\fR, ", option->letter);
        printf("\\fB\\-\\-%s\\fR", option->name);
        if (option->value != NULL) {
            printf(" \\fI");
            print_text(option->value);
            printf("\\fR");
        }
        printf("\n");
        print_text(option->help);
        if (option->kind != STW_OPTION_FLAG && option->default_value != NULL) {
            printf(" (default: ");
            print_text(option->default_value);
            printf(")");
        }
        printf("\n");
    }
}

static void print_methods(void) {
    const char *name, *description;
    print_section("METHODS");
    for (int32_t i = 0; stw_method_list(i, &name, &description); i++) {
        print_tagged(stw_str_of(name), stw_str_of(description));
    }
}

static void print_formats(void) {
    const char *name, *description;
    print_section("FORMATS");
    for (int32_t i = 0; stw_export_list(i, &name, &description); i++) {
        print_tagged(stw_str_of(name), stw_str_of(description));
    }
}

static void print_examples(const char *lines) {
    print_section("EXAMPLES");
    while (*lines != '\0') {
        const size_t command = strcspn(lines, "\t"), what = strcspn(lines + command + 1, "\n");
        printf(".TP\n");
        print_escaped((stw_str){lines, (int64_t)command});
        printf("\n");
        if (what > 0) print_escaped((stw_str){lines + command + 1, (int64_t)what});
        printf("%s\n", what > 0 ? "" : "\\&");
        lines += command + 1 + what + 1;
    }
}

/* Every page names the others. */
static void print_see_also(const cli_command *self) {
    print_section("SEE ALSO");
    bool first = true;
    if (self != NULL) {
        printf("\\fBstowage\\fR(1)");
        first = false;
    }
    for (int32_t i = 0; i < cli_command_count; i++) {
        const cli_command *command = &cli_commands[i];
        if (command == self || (command->bit & (STW_FOR_HELP | STW_FOR_VERSION)) != 0) continue; /* they have no page */
        printf("%s\\fBstowage\\-%s\\fR(1)", first ? "" : ",\n", command->name);
        first = false;
    }
    printf("\n");
}

static void print_program_page(void) {
    print_head(NULL, "place, schedule and fuse the operators of a model", "COMMAND [ARGUMENT...] [OPTION...]");
    print_section("DESCRIPTION");
    print_paragraphs(cli_description);
    printf(".PP\n");
    print_paragraphs(
        "Results go to standard output, remarks to standard error. '-' stands for standard input where a file is read "
        "and for standard output where one is written. Options may come before or after arguments; '--' ends them. "
        "A value follows its option or an equals sign: --memory 4GB, --memory=4GB.");
    print_section("COMMANDS");
    for (int32_t i = 0; i < cli_command_count; i++) {
        print_tagged(stw_str_of(cli_commands[i].name), stw_str_of(cli_commands[i].summary));
    }
    print_section("OPTIONS");
    print_tagged_lines(
        "-h, --help\tprint the help of the program, or of the command that it follows\n"
        "-V, --version\tprint the version\n");
    print_section("EXIT STATUS");
    print_tagged_lines(cli_exit_statuses);
    print_section("ENVIRONMENT");
    print_tagged_lines(
        "NO_COLOR\tif set and not empty, output is never coloured; colour is used on a terminal only\n"
        "STOWAGE_PYTHON\tthe Python interpreter of 'stowage calibrate', where --python names none\n"
        "XDG_CONFIG_HOME\tthe folder of your settings (default: ~/.config)\n");
    print_section("FILES");
    print_tagged_lines(
        "$XDG_CONFIG_HOME/stowage/config\tyour defaults: lines 'key = value' with the keys machine, budget and threads; '#' "
        "begins "
        "a comment. They hold where the command line has no such option; budget not where --evaluations is given, machine not "
        "where "
        "the graph or the plan file brings one. A machine is a built-in name or a path that begins with '/'. The file must be "
        "yours, "
        "and nobody else may write to it. No other folder is looked at\n");
    print_examples(
        "stowage inspect gnmt-4.json.gz\twhat a graph holds\n"
        "stowage optimize gnmt-4.json.gz --machine h200x4 -o plan.json\ta plan\n"
        "stowage simulate gnmt-4.json.gz --machine h200x4 --plan spread\twhat a plan is worth\n"
        "stowage help simulate\tthe options of a command\n");
    print_see_also(NULL);
}

void cli_print_man(const cli_command *command) {
    if (command == NULL) {
        print_program_page();
        return;
    }
    print_head(command->name, command->summary, command->usage);
    print_section("DESCRIPTION");
    print_paragraphs(command->description);
    print_options(command);
    if (command->lists_methods) print_methods();
    if (command->lists_formats) print_formats();
    print_section("EXIT STATUS");
    print_tagged_lines(cli_exit_statuses);
    print_examples(command->examples);
    print_see_also(command);
}
