/* A completion script for bash, from the same tables as the help. Where it has no words to offer, bash completes files. */
#include "cli.h"
#include "generate/generate.h"

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

static void print_families(void) {
    for (int32_t i = 0; stw_family_at(i) != NULL; i++) printf("%s%s", i == 0 ? "" : " ", stw_family_at(i)->name);
}

/* The commands that take a row of the option table, as bash compares them. */
static void print_takers(const stw_option *option) {
    printf("\" ");
    for (int32_t i = 0; i < cli_command_count; i++) {
        if ((option->commands & cli_commands[i].bit) != 0) printf("%s ", cli_commands[i].name);
    }
    printf("\" == *\" ${COMP_WORDS[1]} \"*");
}

/* The values of options that have a list of them. */
static void print_values(void) {
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        const stw_str name = stw_str_of(option->name);
        const bool names_methods = stw_str_is(name, "plan") || stw_str_is(name, "methods");
        if (option->kind != STW_OPTION_CHOICE && !names_methods) continue;
        printf("  elif [[ ( $previous == --%s", option->name);
        if (option->letter != 0) printf(" || $previous == -%c", option->letter);
        printf(" ) && ");
        print_takers(option);
        printf(" ]]; then\n    words='");
        if (names_methods) {
            print_methods();
            if (stw_str_is(name, "methods")) printf(" optimize");
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
    printf("    esac\n  elif [[ ${COMP_WORDS[1]} == generate && $COMP_CWORD == 2 ]]; then\n    words='");
    print_families();
    printf("'\n  elif [[ ${COMP_WORDS[1]} == help ]]; then\n    words='");
    print_command_names();
    printf(
        "'\n  fi\n"
        "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
        "}\n"
        "complete -o default -F _stowage stowage\n");
}
