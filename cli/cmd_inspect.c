/* `stowage inspect`: finds out what a file is and shows it. */
#include <string.h>

#include "base/file.h"
#include "cli.h"
#include "import/import.h"

/* The value of the key "format" of the object in the text; empty if there is none. */
static stw_status find_format(stw_str text, stw_arena *arena, stw_str *out, stw_error *error) {
    *out = (stw_str){0};
    stw_json json;
    stw_str key;
    stw_json_init(&json, text, arena, error);
    if (stw_json_object(&json)) {
        while (stw_json_key(&json, &key)) {
            if (stw_str_is(key, "format")) {
                return stw_json_string(&json, out) ? STW_OK : STW_ERROR_INPUT;
            }
            if (!stw_json_skip(&json, NULL)) break;
        }
    }
    return stw_json_finish(&json);
}

/* Shows the machine and gives it back. */
static void show_machine(const cli_call *call, stw_machine *machine) {
    stw_arena scratch = call->arena;
    if (cli_wants_json(call)) {
        cli_write_machine_json(machine, stdout);
    } else {
        cli_show_machine(machine, &scratch);
    }
    stw_machine_destroy(machine);
}

static stw_status show_machine_file(const cli_call *call, stw_str text, const char *label, stw_error *error) {
    stw_machine *machine;
    TRY(stw_machine_parse(text.p, (size_t)text.length, label, &machine, error));
    show_machine(call, machine);
    return STW_OK;
}

static stw_status show_file(const cli_call *call, const char *path, stw_error *error) {
    stw_arena arena = call->arena;
    const char *label = strcmp(path, "-") == 0 ? "standard input" : path;
    stw_str text, format;
    const stw_file_limits limits = stw_options_file_limits(call->options);
    TRY(stw_file_read_within(path, &limits, &arena, &text, error));
    cli_call inner = *call; /* what is shown goes behind the text in the arena */
    inner.arena = arena;
    if (cli_is_policy(text)) return cli_show_policy(&inner, text, label, error);
    if (stw_model_is(text)) return cli_show_graph(&inner, text, label, error);
    stw_status status = stw_check_known(text, error);
    if (status == STW_OK) status = find_format(text, &inner.arena, &format, error);
    if (status != STW_OK) {
        stw_error_prefix(error, label);
        return status;
    }
    if (stw_str_is(format, "opgraph") || stw_dnnpart_is(text, inner.arena)) return cli_show_graph(&inner, text, label, error);
    if (stw_options_get(call->options, "shape") != NULL)
        return stw_fail(error, STW_ERROR_INPUT, "--shape is for models, but '%s' is none", label);
    if (stw_str_is(format, "machine")) return show_machine_file(&inner, text, label, error);
    if (stw_str_is(format, "plan")) return cli_show_plan(&inner, text, label, error);
    if (format.length == 0) {
        return stw_fail(error, STW_ERROR_INPUT, "%s: no key \"format\"; it should be opgraph, machine or plan", label);
    }
    return stw_fail(error, STW_ERROR_INPUT, "%s: format '%.*s' is none of opgraph, machine, plan", label, STW_STR_SHOW(format));
}

/* With --features the operand is a graph and nothing else. */
static int show_features(const cli_call *call, stw_machine *machine) {
    stw_error error = {0};
    stw_status status = STW_OK;
    if (machine != NULL) {
        stw_machine_destroy(machine);
        status = stw_fail(&error, STW_ERROR_INPUT, "--features needs a graph file, but '%s' is a machine", call->operand[0]);
    }
    if (status == STW_OK) status = cli_show_features(call, &error);
    return status == STW_OK ? CLI_DONE : cli_fault(&error);
}

int cmd_inspect(const cli_call *call) {
    stw_error error = {0};
    stw_machine *machine;
    const bool features = cli_is_set(call, "features");
    if (!features && stw_options_get(call->options, "machine") != NULL) {
        stw_fail(&error, STW_ERROR_INPUT, "--machine is for --features only; to see a machine: stowage inspect NAME|FILE");
        return cli_fault(&error);
    }
    if (stw_machine_build(stw_str_of(call->operand[0]), &machine, &error) != STW_OK) return cli_fault(&error);
    if (machine != NULL && stw_options_get(call->options, "shape") != NULL) {
        stw_machine_destroy(machine);
        stw_fail(&error, STW_ERROR_INPUT, "--shape is for models, but '%s' is a machine", call->operand[0]);
        return cli_fault(&error);
    }
    if (features) return show_features(call, machine);
    if (machine == NULL) return show_file(call, call->operand[0], &error) == STW_OK ? CLI_DONE : cli_fault(&error);
    show_machine(call, machine);
    return CLI_DONE;
}
