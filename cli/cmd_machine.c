/* `stowage machine`: lists the built-in machines and where their numbers come from, or writes one as a machine file. */
#include <string.h>

#include "base/file.h"
#include "cli.h"

static void list_sources(stw_arena arena) {
    static const cli_column columns[] = {{"number", CLI_LEFT}, {"where it comes from", CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    const char *what, *source;
    for (int32_t i = 0; stw_machine_source(i, &what, &source); i++) {
        cli_table_add(&table, CLI_PLAIN, "%s", what);
        cli_table_add(&table, CLI_PLAIN, "%s", source);
    }
    cli_table_print(&table, stdout);
}

static void list_text(stw_arena arena) {
    static const cli_column columns[] = {{"machine", CLI_LEFT}, {"what it is", CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    const char *name, *description;
    for (int32_t i = 0; stw_machine_list(i, &name, &description); i++) {
        cli_table_add(&table, CLI_PLAIN, "%s", name);
        cli_table_add(&table, CLI_PLAIN, "%s", description);
    }
    cli_table_print(&table, stdout);
    printf("\n  N, A and B count devices: h200x4, cpu+h200x2, h200x2+2; at most %d in all.\n\n", STW_MAX_DEVICES);
    list_sources(arena);
}

static void list_json(void) {
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_array(&writer);
    const char *name, *description;
    for (int32_t i = 0; stw_machine_list(i, &name, &description); i++) {
        stw_json_begin_object(&writer);
        stw_json_field_text(&writer, "name", stw_str_of(name));
        stw_json_field_text(&writer, "description", stw_str_of(description));
        stw_json_end_object(&writer);
    }
    stw_json_end_array(&writer);
    printf("\n");
}

/* What makes no sense for the list, or for text. */
static stw_status check_options(const cli_call *call, stw_error *error) {
    const char *output = stw_options_get(call->options, "output"), *memory = stw_options_get(call->options, "memory");
    const char *format = stw_options_get(call->options, "format");
    if (call->operand_count == 0 && (output != NULL || memory != NULL)) {
        return stw_fail(error, STW_ERROR_INPUT, "--%s needs a machine: stowage %s", output != NULL ? "output" : "memory",
                        call->command->usage);
    }
    if (output != NULL && format != NULL && strcmp(format, "text") == 0) {
        return stw_fail(error, STW_ERROR_INPUT, "--output writes a machine file, which is JSON; leave out --format text");
    }
    return STW_OK;
}

static stw_status write_file(const stw_machine *machine, const char *path, stw_error *error) {
    if (strcmp(path, "-") == 0) {
        cli_write_machine_json(machine, stdout);
        return STW_OK;
    }
    stw_output output;
    cli_hold_interrupts(); /* until the file is whole */
    stw_status status = stw_output_open(&output, path, error);
    if (status == STW_OK) {
        cli_write_machine_json(machine, output.file);
        status = stw_output_commit(&output, error);
    }
    cli_release_interrupts();
    return status;
}

static stw_status show_machine(const cli_call *call, stw_machine *machine, stw_error *error) {
    const char *output = stw_options_get(call->options, "output"), *format = stw_options_get(call->options, "format");
    const int64_t memory = stw_options_number(call->options, "memory", 0);
    if (memory > 0) TRY(stw_machine_set_memory(machine, memory, error));
    if (format == NULL || strcmp(format, "json") == 0) return write_file(machine, output != NULL ? output : "-", error);
    stw_arena scratch = call->arena;
    cli_show_machine(machine, &scratch);
    return STW_OK;
}

int cmd_machine(const cli_call *call) {
    stw_error error;
    if (check_options(call, &error) != STW_OK) return cli_fault(&error);
    if (call->operand_count == 0) {
        if (cli_wants_json(call)) {
            list_json();
        } else {
            list_text(call->arena);
        }
        return CLI_DONE;
    }
    stw_machine *machine;
    if (stw_machine_open(call->operand[0], &machine, &error) != STW_OK) return cli_fault(&error);
    const stw_status status = show_machine(call, machine, &error);
    stw_machine_destroy(machine);
    return status == STW_OK ? CLI_DONE : cli_fault(&error);
}
