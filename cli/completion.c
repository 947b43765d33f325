/* Completion scripts for bash, zsh and fish, from the same tables as the help: commands, the options of each, and for their
 * values words (methods, machines, families, whatever the table names), files, or both. */
#include <string.h>

#include "cli.h"
#include "generate/generate.h"

/* ---- Words: printed with a blank behind each ---------------------------------------------------------------------- */

static void print_commands(void) {
    for (int32_t i = 0; i < cli_command_count; i++) printf("%s ", cli_commands[i].name);
}

static void print_methods(void) {
    const char *name, *description;
    for (int32_t i = 0; stw_method_list(i, &name, &description); i++) printf("%s ", name);
}

static void print_families(void) {
    for (int32_t i = 0; stw_family_at(i) != NULL; i++) printf("%s ", stw_family_at(i)->name);
}

/* Families of machines with the usual numbers of devices in the place of N; one with other places to fill in has no words. */
static void print_machines(void) {
    static const int32_t counts[] = {1, 2, 4, 8};
    const char *name, *description;
    for (int32_t i = 0; stw_machine_list(i, &name, &description); i++) {
        const char *place = strchr(name, 'N');
        if (place == NULL || place != strpbrk(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) continue;
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            printf("%.*s%d%s ", (int)(place - name), name, counts[k], place + 1);
        }
    }
}

/* What the option table does not say of a value: options whose words come from another table. */
typedef struct source {
    const char *option;
    void (*print)(void); /* or NULL */
    const char *also;    /* further words, with a blank behind each */
    bool list, files;    /* several, separated by commas; files besides */
} source;
static const source sources[] = {
    {.option = "machine", .print = print_machines, .also = "", .files = true},
    {.option = "methods", .print = print_methods, .also = "optimize ", .list = true},
    {.option = "plan", .print = print_methods, .also = STW_PLAN_CARRIED " ", .files = true},
    {.option = "corpus", .print = print_families, .also = "all ", .list = true, .files = true},
    {.option = "hold-out", .print = print_families, .also = "", .list = true},
    {.option = "tasks", .also = "placement schedule fusion all ", .list = true},
};

static const source *source_of(const stw_option *option) {
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(sources[i].option, option->name) == 0) return &sources[i];
    }
    return NULL;
}

/* "FILE|none|train" has the words none and train: capitals and numbers stand for something else. Returns how many there are. */
static int32_t literal_words(const char *value, bool print) {
    int32_t count = 0;
    while (value != NULL && *value != '\0') {
        const size_t length = strcspn(value, "|");
        if (strspn(value, "abcdefghijklmnopqrstuvwxyz-") == length) {
            if (print) printf("%.*s ", (int)length, value);
            count++;
        }
        value += length + (value[length] == '|');
    }
    return count;
}

static bool has_words(const stw_option *option) { return source_of(option) != NULL || literal_words(option->value, false) > 0; }

static void print_words(const stw_option *option) {
    const source *from = source_of(option);
    literal_words(option->value, true);
    if (from == NULL) return;
    if (from->print != NULL) from->print();
    printf("%s", from->also);
}

static bool takes_value(const stw_option *option) { return option->kind != STW_OPTION_FLAG; }

static bool takes_list(const stw_option *option) {
    const source *from = source_of(option);
    return from != NULL && (from->list || strchr(option->value, ',') != NULL);
}

static bool takes_files(const stw_option *option) {
    const source *from = source_of(option);
    return option->kind == STW_OPTION_PATH || (from != NULL && from->files);
}

/* What stands behind the command's name, where it is no option: machines, families or commands, else only files. */
static void print_operands(const cli_command *command) {
    if (command->bit == STW_FOR_GENERATE) print_families();
    if (command->bit == STW_FOR_HELP) print_commands();
    if ((command->bit & (STW_FOR_MACHINE | STW_FOR_INSPECT)) != 0) print_machines();
}

static bool operands_are_files(const cli_command *command) {
    return command->most_operands > 0 && (command->bit & (STW_FOR_GENERATE | STW_FOR_HELP)) == 0;
}

/* The commands that take a row of the option table. */
static void print_takers(const stw_option *option) {
    for (int32_t i = 0; i < cli_command_count; i++) {
        if ((option->commands & cli_commands[i].bit) != 0) printf("%s ", cli_commands[i].name);
    }
}

/* Within single quotes; characters of `special` get a backslash. `quote` is how the shell writes a single quote there. */
static void print_text(const char *text, const char *special, const char *quote) {
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            printf("%s", quote);
            continue;
        }
        if (strchr(special, *text) != NULL) putchar('\\');
        putchar(*text);
    }
}

/* ---- bash: files are completed where the words have none that fits ------------------------------------------------ */

static void print_bash_values(void) {
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        if ((option->commands & STW_FOR_COMMANDS) == 0 || !has_words(option)) continue;
        printf("  elif [[ ( $previous == --%s", option->name);
        if (option->letter != 0) printf(" || $previous == -%c", option->letter);
        printf(" ) && ' ");
        print_takers(option);
        printf("' == *\" ${COMP_WORDS[1]} \"* ]]; then\n    words='");
        print_words(option);
        printf("'\n");
        if (takes_list(option)) printf("    [[ $word == *,* ]] && head=${word%%,*},\n");
    }
    printf("  elif [[ ' ");
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        if (!takes_value(option) || has_words(option)) continue;
        printf("--%s ", option->name);
        if (option->letter != 0) printf("-%c ", option->letter);
    }
    printf("' == *\" $previous \"* ]]; then\n    words=''\n");
}

static void print_bash(void) {
    printf(
        "# bash completion for stowage, written by 'stowage help --completion bash'\n"
        "_stowage() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words='' head=''\n"
        "  if [[ $previous == = ]]; then # bash takes --name=value for three words\n"
        "    previous=${COMP_WORDS[COMP_CWORD-2]}\n"
        "  elif [[ $word == = ]]; then\n"
        "    word=''\n"
        "  fi\n"
        "  if [[ $COMP_CWORD == 1 ]]; then\n    words='");
    print_commands();
    printf("--help --version'\n");
    print_bash_values();
    printf("  elif [[ $word == -* ]]; then\n    case ${COMP_WORDS[1]} in\n");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("      %s) words='", cli_commands[i].name);
        for (int32_t o = 0; stw_option_at(o) != NULL; o++) {
            if ((stw_option_at(o)->commands & cli_commands[i].bit) != 0) printf("--%s ", stw_option_at(o)->name);
        }
        printf("' ;;\n");
    }
    printf("    esac\n  else\n    case ${COMP_WORDS[1]} in\n");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("      %s) words='", cli_commands[i].name);
        print_operands(&cli_commands[i]);
        printf("' ;;\n");
    }
    printf(
        "    esac\n"
        "  fi\n"
        "  mapfile -t COMPREPLY < <(compgen -P \"$head\" -W \"$words\" -- \"${word#\"$head\"}\")\n"
        "}\n"
        "complete -o default -F _stowage stowage\n");
}

/* ---- zsh ---------------------------------------------------------------------------------------------------------- */

static void print_zsh_option(const stw_option *option) {
    const char *equals = takes_value(option) ? "=" : "", *plus = takes_value(option) ? "+" : "";
    if (option->letter != 0) {
        printf(" \\\n        '(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter, plus, option->name,
               equals);
    } else {
        printf(" \\\n        '--%s%s[", option->name, equals);
    }
    print_text(option->help, "[]:\\", "'\\''");
    printf("]");
    if (takes_value(option)) {
        printf(":%s: ", option->value);
        if (has_words(option) || takes_files(option)) {
            printf("_stowage_values %s%s ", takes_list(option) ? "list" : "one", takes_files(option) ? "+files" : "");
            print_words(option);
        }
    }
    printf("'");
}

static void print_zsh_operands(const cli_command *command) {
    if (command->most_operands == 0) return;
    printf(" \\\n        '%s: : _stowage_values one%s ", command->most_operands > 1 ? "*" : "1",
           operands_are_files(command) ? "+files" : "");
    print_operands(command);
    printf("'");
}

static void print_zsh(void) {
    printf(
        "#compdef stowage\n"
        "# zsh completion for stowage, written by 'stowage help --completion zsh'\n"
        "_stowage_values() { # one or list (separated by commas), with +files or without, then the words\n"
        "  local kind=$1 expl ret=1\n"
        "  shift\n"
        "  [[ $kind == list* ]] && compset -P '*,'\n"
        "  (( $# )) && _wanted values expl value compadd -- \"$@\" && ret=0\n"
        "  [[ $kind == *+files ]] && _files && ret=0\n"
        "  return ret\n"
        "}\n"
        "_stowage() {\n"
        "  if (( CURRENT == 2 )); then\n"
        "    local -a commands=(");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("\n      '%s:", cli_commands[i].name);
        print_text(cli_commands[i].summary, "\\", "'\\''");
        printf("'");
    }
    printf(
        ")\n"
        "    if [[ $PREFIX == -* ]]; then\n"
        "      compadd -- --help --version\n"
        "    else\n"
        "      _describe -t commands command commands\n"
        "    fi\n"
        "    return\n"
        "  fi\n"
        "  shift words\n"
        "  (( CURRENT-- ))\n"
        "  case $words[1] in\n");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("    %s)\n      _arguments -s -S", cli_commands[i].name);
        for (int32_t o = 0; stw_option_at(o) != NULL; o++) {
            if ((stw_option_at(o)->commands & cli_commands[i].bit) != 0) print_zsh_option(stw_option_at(o));
        }
        print_zsh_operands(&cli_commands[i]);
        printf(" ;;\n");
    }
    printf(
        "  esac\n"
        "}\n"
        "if [[ $funcstack[1] == _stowage ]]; then # found in fpath and called; else sourced\n"
        "  _stowage \"$@\"\n"
        "else\n"
        "  compdef _stowage stowage\n"
        "fi\n");
}

/* ---- fish --------------------------------------------------------------------------------------------------------- */

static void print_fish_option(const stw_option *option) {
    printf("complete -c stowage -n '__stowage_is ");
    print_takers(option);
    printf("' -l %s", option->name);
    if (option->letter != 0) printf(" -s %c", option->letter);
    if (takes_value(option)) printf(takes_files(option) ? " -r -F" : " -x");
    if (takes_value(option) && has_words(option)) {
        printf(takes_list(option) ? " -a '(__stowage_list " : " -a '");
        print_words(option);
        printf(takes_list(option) ? ")'" : "'");
    }
    printf(" -d '");
    print_text(option->help, "\\", "\\'");
    printf("'\n");
}

static void print_fish(void) {
    printf(
        "# fish completion for stowage, written by 'stowage help --completion fish'\n"
        "function __stowage_is # the command is one of these\n"
        "  set -l words (commandline -opc)\n"
        "  test (count $words) -gt 1; and contains -- $words[2] $argv\n"
        "end\n"
        "function __stowage_list # the words behind those that are there, separated by commas\n"
        "  set -l head (commandline -ct | string replace -r -- '^--[^=]*=' '' | string match -r -- '.*,')\n"
        "  printf '%%s\\n' \"$head\"$argv\n"
        "end\n"
        "complete -c stowage -f\n"
        "complete -c stowage -n 'test (count (commandline -opc)) -eq 1' -l help -l version\n");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("complete -c stowage -n 'test (count (commandline -opc)) -eq 1' -a %s -d '", cli_commands[i].name);
        print_text(cli_commands[i].summary, "\\", "\\'");
        printf("'\n");
    }
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        if ((stw_option_at(i)->commands & STW_FOR_COMMANDS) != 0) print_fish_option(stw_option_at(i));
    }
    for (int32_t i = 0; i < cli_command_count; i++) {
        if (cli_commands[i].most_operands == 0) continue;
        printf("complete -c stowage -n '__stowage_is %s'%s -a '", cli_commands[i].name,
               operands_are_files(&cli_commands[i]) ? " -F" : "");
        print_operands(&cli_commands[i]);
        printf("'\n");
    }
}

void cli_print_completion(const char *shell) {
    if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        print_fish();
    } else {
        print_bash();
    }
}
