/* `stowage generate`: lists the families of models, or writes a training step of one as a graph file. */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include "generate/generate.h"

#include <string.h>
#include <unistd.h>

#include "cli.h"

static void list_text(stw_arena arena) {
    static const cli_column columns[] = {{"family", CLI_LEFT}, {"what it is", CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        const stw_family *family = stw_family_at(k);
        cli_table_add(&table, CLI_PLAIN, "%s", family->name);
        cli_table_add(&table, CLI_PLAIN, "%s", family->description);
        for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
            const stw_parameter_range *range = &family->takes[p];
            if (range->meaning == NULL) continue;
            cli_table_add(&table, CLI_PLAIN, "  --%s %lld", stw_parameter_name((stw_parameter)p), (long long)range->standard);
            cli_table_add(&table, CLI_DIM, "  %s", range->meaning);
        }
    }
    cli_table_print(&table, stdout);
}

static void list_json(void) {
    stw_json_writer json;
    stw_json_writer_init(&json, stdout);
    stw_json_begin_array(&json);
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        const stw_family *family = stw_family_at(k);
        stw_json_begin_object(&json);
        stw_json_field_text(&json, "family", stw_str_of(family->name));
        stw_json_field_text(&json, "description", stw_str_of(family->description));
        stw_json_write_key(&json, "parameters");
        stw_json_begin_object(&json);
        for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
            if (family->takes[p].meaning == NULL) continue;
            stw_json_field_int64(&json, stw_parameter_name((stw_parameter)p), family->takes[p].standard);
        }
        stw_json_end_object(&json);
        stw_json_end_object(&json);
    }
    stw_json_end_array(&json);
    printf("\n");
}

static stw_status find_family(const char *name, const stw_family **out, stw_error *error) {
    *out = stw_family_find(name);
    if (*out != NULL) return STW_OK;
    cli_suggestion near = {.word = stw_str_of(name)};
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) cli_suggest(&near, stw_family_at(k)->name);
    if (near.best != NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "there is no family '%s'; did you mean %s?", name, near.best);
    }
    return stw_fail(error, STW_ERROR_INPUT, "there is no family '%s'; 'stowage generate' lists them", name);
}

/* The family's own sizes and what the options say in their place. */
static stw_status read_sizes(const cli_call *call, const stw_family *family, int64_t *value, stw_error *error) {
    stw_family_standard(family, value);
    for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
        const char *name = stw_parameter_name((stw_parameter)p);
        if (stw_options_get(call->options, name) == NULL) continue;
        const int64_t number = stw_options_number(call->options, name, 0);
        TRY(stw_family_check(family, (stw_parameter)p, number, error));
        value[p] = number;
    }
    return STW_OK;
}

static void show_result(const cli_call *call, const stw_generated *made) {
    const double flops = stw_step_flops(made->step);
    const int64_t ops = stw_step_op_count(made->step), bytes = stw_step_parameter_bytes(made->step);
    if (!cli_wants_json(call)) {
        printf("%s: %s ops, %s of parameters, %s\n", made->name.p, cli_count(ops).text, cli_bytes((double)bytes).text,
               cli_amount(flops, "FLOP").text);
        return;
    }
    stw_json_writer json;
    stw_json_writer_init(&json, stdout);
    stw_json_begin_object(&json);
    stw_json_field_text(&json, "name", made->name);
    stw_json_field_int64(&json, "ops", ops);
    stw_json_field_int64(&json, "parameter_bytes", bytes);
    stw_json_field_double(&json, "flops", flops);
    stw_json_end_object(&json);
    printf("\n");
}

static stw_status generate(const cli_call *call, stw_error *error) {
    const char *path = stw_options_get(call->options, "output");
    const stw_family *family;
    int64_t value[STW_PARAMETER_COUNT];
    stw_generated made = {0};
    stw_arena arena = call->arena;
    TRY(find_family(call->operand[0], &family, error));
    TRY(read_sizes(call, family, value, error));
    if (path == NULL)
        return stw_fail(error, STW_ERROR_INPUT, "generate needs -o FILE, such as -o %s.json.gz; '-' is standard output",
                        family->name);
    const bool to_output = strcmp(path, "-") == 0;
    if (to_output && isatty(STDOUT_FILENO)) {
        return stw_fail(error, STW_ERROR_INPUT, "a graph is not written to a terminal; name a file with -o FILE, or pipe it on");
    }
    TRY(stw_generate(family, value, &arena, &made, error));
    cli_hold_interrupts();
    const stw_status status = stw_generate_write(family, &made, path, error);
    cli_release_interrupts();
    if (status == STW_OK && !to_output) show_result(call, &made);
    return status;
}

int cmd_generate(const cli_call *call) {
    stw_error error;
    if (call->operand_count > 0) return generate(call, &error) == STW_OK ? CLI_DONE : cli_fault(&error);
    for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
        const char *name = stw_parameter_name((stw_parameter)p);
        if (stw_options_get(call->options, name) == NULL) continue;
        stw_fail(&error, STW_ERROR_INPUT, "--%s needs a family: stowage %s", name, call->command->usage);
        return cli_fault(&error);
    }
    if (stw_options_get(call->options, "output") != NULL) {
        stw_fail(&error, STW_ERROR_INPUT, "--output needs a family: stowage %s", call->command->usage);
        return cli_fault(&error);
    }
    if (cli_wants_json(call)) {
        list_json();
    } else {
        list_text(call->arena);
    }
    return CLI_DONE;
}
