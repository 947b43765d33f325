/* `stowage export`: a plan in a form that other programs take. */
#define _POSIX_C_SOURCE 200809L /* isatty */
#include <string.h>
#include <unistd.h>

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

static stw_status export_plan(const cli_call *call, stw_session *session, stw_error *error) {
    stw_export_io io = {.model_path = call->operand[0], .path = stw_options_get(call->options, "output")};
    stw_cancel *cancel;
    const char *warning;
    for (int32_t i = 0; (warning = stw_session_warning(session, i)) != NULL; i++) cli_warn(warning);
    TRY(cli_interrupt_begin(&cancel, error)); /* the first waits until the file is whole, the second ends the program */
    const stw_status status = stw_plan_export(stw_session_simulator(session), stw_session_plan(session),
                                              stw_options_get(call->options, "to"), call->options, &io, error);
    cli_interrupt_end(cancel);
    cli_release_interrupts();
    if (status == STW_OK) show_note(call, io.note);
    return status;
}

int cmd_export(const cli_call *call) {
    stw_error error;
    stw_session *session = NULL;
    stw_status status = check_arguments(call, &error);
    if (status == STW_OK) status = check_terminal(call, &error);
    if (status == STW_OK) status = stw_session_open(call->operand[0], call->options, &session, &error);
    if (status == STW_OK) status = export_plan(call, session, &error);
    const int exit_status = status == STW_OK ? CLI_DONE : cli_fault(&error);
    stw_session_destroy(session);
    return exit_status;
}
