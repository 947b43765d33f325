/* `stowage report`: a plan as a page for the browser. */
#include "search.h"

static stw_status check_arguments(const cli_call *call, stw_error *error) {
    const char *plan = stw_options_get(call->options, "plan"), *machine = stw_options_get(call->options, "machine");
    const char *costs = stw_options_get(call->options, "costs"), *measured = stw_options_get(call->options, "measured");
    if (plan == NULL) return stw_fail(error, STW_ERROR_INPUT, "report needs --plan FILE|METHOD, such as --plan plan.json");
    TRY(cli_check_plan(plan, error));
    if (cli_is_dash(call->operand[0]) + cli_is_dash(machine) + cli_is_dash(plan) + cli_is_dash(costs) + cli_is_dash(measured) > 1)
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    return STW_OK;
}

static stw_status write_report(const cli_call *call, const stw_session *session, stw_error *error) {
    const char *path = stw_options_get(call->options, "output");
    stw_cancel *cancel;
    TRY(cli_interrupt_begin(&cancel, error)); /* the first waits until the file is whole, the second ends the program */
    const stw_status status =
        stw_plan_report(stw_session_simulator(session), stw_session_plan(session), NULL, call->options, path, error);
    cli_interrupt_end(cancel);
    cli_release_interrupts();
    if (status != STW_OK || cli_is_dash(path)) return status;
    fputs("report written to ", stdout);
    stw_write_escaped(stdout, stw_str_of(path));
    fputs("; open it in a browser\n", stdout);
    return STW_OK;
}

int cmd_report(const cli_call *call) {
    stw_error error;
    stw_session *session = NULL;
    stw_status status = check_arguments(call, &error);
    if (status == STW_OK) status = cli_session_open(call, call->operand[0], &session, &error);
    if (status == STW_OK) status = write_report(call, session, &error);
    const int exit_status = status == STW_OK ? CLI_DONE : cli_fault(&error);
    stw_session_destroy(session);
    return exit_status;
}
