/* `stowage export`: a plan in a form that other programs take. */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "export/export.h"
#include "search.h"

static bool is_dash(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

static stw_status check_arguments(const cli_call *call, stw_error *error) {
    const char *plan = stw_options_get(call->options, "plan"), *format = stw_options_get(call->options, "to");
    if (plan == NULL) return stw_fail(error, STW_ERROR_INPUT, "export needs --plan FILE|METHOD, such as --plan plan.json");
    if (format == NULL) return stw_fail(error, STW_ERROR_INPUT, "export needs --to FORMAT; 'stowage help export' lists them");
    if (is_dash(call->operand[0]) + is_dash(plan) + is_dash(stw_options_get(call->options, "machine")) +
            is_dash(stw_options_get(call->options, "costs")) >
        1) {
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    }
    return STW_OK;
}

/* Bytes of a model would garble a terminal, and its text could steer it. */
static stw_status check_terminal(const cli_call *call, stw_error *error) {
    const char *format = stw_options_get(call->options, "to");
    const bool is_model = strcmp(format, "onnx") == 0 || strncmp(format, "hlo", 3) == 0 || strcmp(format, "graphdef") == 0;
    if (!is_model || !is_dash(stw_options_get(call->options, "output")) || !isatty(STDOUT_FILENO)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "a model is not written to a terminal; name a file with -o FILE, or pipe it on");
}

/* What may be pasted goes to standard output, unless the file itself does. */
static void show_note(const cli_call *call, const char *note) {
    if (note[0] == '\0') return;
    FILE *to = is_dash(stw_options_get(call->options, "output")) ? stderr : stdout;
    if (to == stderr && cli_is_set(call, "quiet")) return;
    for (const char *line = note; *line != '\0';) { /* names in it come from files */
        const size_t length = strcspn(line, "\n");
        stw_write_escaped(to, (stw_str){line, (int64_t)length});
        fputc('\n', to);
        line += length + (line[length] == '\n');
    }
}

/* The plan at the grain that was asked for, or that the format has; NULL: as it is. */
static stw_status regrain(const cli_call *call, const stw_session *session, stw_plan **out, stw_error *error) {
    const char *grain = stw_options_get(call->options, "grain");
    const bool is_map = strcmp(stw_options_get(call->options, "to"), "device-map") == 0;
    *out = NULL;
    if (grain == NULL ? !is_map : strcmp(grain, "op") == 0) return STW_OK;
    return stw_plan_regrain(stw_session_simulator(session), stw_session_plan(session), call->options, out, error);
}

/* Such a plan and the one that was given are two things. */
static void tell_given(const stw_session *session, const stw_plan *exported) {
    const stw_plan *given = stw_session_plan(session);
    const int32_t *a = stw_plan_device(given), *b = stw_plan_device(exported);
    int32_t moved = 0, ops = 0;
    stw_node node;
    for (int32_t i = 0; stw_graph_node(stw_session_graph(session), i, &node); i++) {
        if (strcmp(node.kind, "op") != 0) continue;
        ops++;
        moved += a[i] != b[i];
    }
    char line[160];
    snprintf(line, sizeof line,
             "the plan was found anew at the grain of the target: %d of %d ops have moved (--grain op: as it is)", moved, ops);
    if (moved > 0) cli_warn(line);
}

static stw_status export_plan(const cli_call *call, stw_session *session, bool *is_poor, stw_error *error) {
    stw_export_io io = {.model_path = call->operand[0], .path = stw_options_get(call->options, "output")};
    stw_cancel *cancel;
    stw_plan *plan;
    const char *warning;
    for (int32_t i = 0; (warning = stw_session_warning(session, i)) != NULL; i++) cli_warn(warning);
    TRY(regrain(call, session, &plan, error));
    stw_status status =
        cli_interrupt_begin(&cancel, error); /* the first waits until the file is whole, the second ends the program */
    if (status == STW_OK) {
        status = stw_plan_export(stw_session_simulator(session), plan != NULL ? plan : stw_session_plan(session),
                                 stw_options_get(call->options, "to"), call->options, &io, error);
        cli_interrupt_end(cancel);
        cli_release_interrupts();
    }
    if (plan != NULL && status == STW_OK) tell_given(session, plan);
    stw_plan_destroy(plan);
    if (status != STW_OK) return status;
    show_note(call, io.note);
    const bool worse = stw_export_is_worse(io.exported_s, io.one_device_s);
    if (worse) cli_warn("what was exported is worse than one device");
    *is_poor = worse || isnan(io.exported_s); /* not valid, though one device would be no better */
    return STW_OK;
}

int cmd_export(const cli_call *call) {
    stw_error error;
    stw_session *session = NULL;
    stw_status status = check_arguments(call, &error);
    if (status == STW_OK) status = check_terminal(call, &error);
    if (status == STW_OK) status = stw_session_open(call->operand[0], call->options, &session, &error);
    bool is_poor = false;
    if (status == STW_OK) status = export_plan(call, session, &is_poor, &error);
    const bool strict = strcmp(stw_options_get(call->options, "strict"), "yes") == 0;
    const int exit_status = status != STW_OK ? cli_fault(&error) : is_poor && strict ? CLI_WORSE : CLI_DONE;
    stw_session_destroy(session);
    return exit_status;
}
