/* A completion script for bash, from the same tables as the help. Whatever takes a file is left to the shell's own completion. */
#include <string.h>

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

static void print_choices(void) {
    for (int32_t i = 0; stw_option_at(i) != NULL; i++) {
        const stw_option *option = stw_option_at(i);
        const bool repeated = stw_option_find(stw_str_of(option->name), ~0u) != option;
        if (option->kind != STW_OPTION_CHOICE || repeated) continue;
        printf("    --%s) words='", option->name);
        for (const char *c = option->value; *c != '\0'; c++) putchar(*c == '|' ? ' ' : *c);
        printf("' ;;\n");
    }
}

static void print_plan_methods(void) {
    const char *name, *description;
    printf("    --plan) files=yes words='");
    for (int32_t i = 0; stw_method_list(i, &name, &description); i++) printf("%s%s", i == 0 ? "" : " ", name);
    printf("' ;;\n");
}

void cli_print_completion(void) {
    printf(
        "# bash completion for stowage, written by 'stowage help --completion'\n"
        "_stowage() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words='' files=''\n"
        "  if [ \"$COMP_CWORD\" -eq 1 ]; then words='");
    print_command_names();
    printf(" --help --version'; else\n  case $previous in\n");
    print_choices();
    print_plan_methods();
    printf("    --*) [[ $word == -* ]] || files=yes ;;\n  esac\n");
    printf("  if [ -z \"$words\" ]; then case $command in\n");
    for (int32_t i = 0; i < cli_command_count; i++) {
        printf("    %s) [[ $word == -* ]] && words='", cli_commands[i].name);
        print_option_names(&cli_commands[i]);
        printf("' || files=yes ;;\n");
    }
    printf("  esac; fi\n  [ \"$command\" = help ] && [[ $word != -* ]] && files='' words='");
    print_command_names();
    printf(
        "'\n  fi\n"
        "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
        "  [ -n \"$files\" ] && compopt -o default && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$word\")\n"
        "  return 0\n"
        "}\n"
        "complete -F _stowage stowage\n");
}
