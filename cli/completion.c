/* A completion script for bash, from the same tables as the help. Where it has no words to offer, bash completes files. */
#include "cli.h"

static void print_command_names(void) {
    for (int32_t i = 0; i < cli_command_count; i++) printf("%s%s", i == 0 ? "" : " ", cli_commands[i].name);
}

static void print_option_names(const cli_command *command) {
    bool first = true;
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        if ((option->commands & command->bit) == 0) continue;
        printf("%s--%s", first ? "" : " ", option->name);
        first = false;
    }
}

static void print_methods(void) {
    const char *name, *description;
    for (int32_t i = 0; stw_method_list(i, &name, &description); i++) printf("%s%s", i == 0 ? "" : " ", name);
}

/* The values of options that have a list of them. */
static void print_values(void) {
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        const bool is_plan = stw_str_is(stw_str_of(option->name), "plan");
        const bool seen = stw_option_find(stw_str_of(option->name), ~0u) != option; /* another command's row of this name */
        if (seen || (option->kind != STW_OPTION_CHOICE && !is_plan)) continue;
        printf("  elif [[ $previous == --%s", option->name);
        if (option->letter != 0) printf(" || $previous == -%c", option->letter);
        printf(" ]]; then\n    words='");
        if (is_plan) {
            print_methods();
        } else {
            for (const char *c = option->value; *c != '\0'; c++) putchar(*c == '|' ? ' ' : *c);
        }
        printf("'\n");
    }
}

void cli_print_completion(void) {
    printf(
        "# bash completion for stowage, written by 'stowage help --completion'\n"
        "_stowage() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
        "  if [[ $COMP_CWORD == 1 ]]; then\n    words='");
    print_command_names();
    printf(" --help --version'\n");
    print_values();
    printf("  elif [[ $word == -* ]]; then\n    case ${COMP_WORDS[1]} in\n");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("      %s) words='", cli_commands[i].name);
        print_option_names(&cli_commands[i]);
        printf("' ;;\n");
    }
    printf("    esac\n  elif [[ ${COMP_WORDS[1]} == help ]]; then\n    words='");
    print_command_names();
    printf(
        "'\n  fi\n"
        "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
        "}\n"
        "complete -o default -F _stowage stowage\n");
}
