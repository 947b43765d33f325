/* `stowage simulate`: reads what is needed, makes or reads the plan, evaluates it, reports. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <string.h>
#include <unistd.h>

#include "simulate.h"

typedef struct arguments {
    const char *graph, *machine, *plan, *costs, *output, *trace;
} arguments;

static bool is_dash(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

/* A name that is neither a method nor a file is more often a slip than a lost file. */
static stw_status fail_unknown_plan(const char *plan, stw_error *error) {
    char what[200];
    snprintf(what, sizeof what, "--plan: '%.120s' is neither a file nor a method", plan);
    return cli_unknown_method(plan, NULL, what, error);
}

static stw_status check_arguments(const cli_call *call, arguments *a, stw_error *error) {
    *a = (arguments){.graph = call->operand[0],
                     .machine = stw_options_get(call->options, "machine"),
                     .plan = stw_options_get(call->options, "plan"),
                     .costs = stw_options_get(call->options, "costs"),
                     .output = stw_options_get(call->options, "output"),
                     .trace = stw_options_get(call->options, "trace")};
    if (a->plan == NULL) return stw_fail(error, STW_ERROR_INPUT, "simulate needs --plan FILE|METHOD, such as --plan spread");
    const bool is_word = stw_method_exists(a->plan) || strcmp(a->plan, STW_PLAN_CARRIED) == 0;
    if (!is_word && !is_dash(a->plan) && access(a->plan, F_OK) != 0) return fail_unknown_plan(a->plan, error);
    if (is_dash(a->graph) + is_dash(a->machine) + is_dash(a->plan) + is_dash(a->costs) > 1) {
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    }
    if (is_dash(a->output) && is_dash(a->trace)) {
        return stw_fail(error, STW_ERROR_INPUT, "--output and --trace cannot both write to '-' (standard output)");
    }
    return STW_OK;
}

static stw_status open_session(const cli_call *call, const arguments *a, cli_simulation *s, stw_error *error) {
    TRY(stw_session_open(a->graph, call->options, &s->session, error));
    const char *warning;
    for (int32_t i = 0; (warning = stw_session_warning(s->session, i)) != NULL; i++) cli_warn(warning);
    s->graph = stw_session_graph(s->session);
    s->machine = stw_session_machine(s->session);
    s->simulator = stw_session_simulator(s->session);
    s->plan = stw_session_plan(s->session);
    return STW_OK;
}

static stw_status evaluate(cli_simulation *s, stw_error *error) {
    TRY(stw_workspace_create(s->simulator, &s->workspace, error));
    TRY(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, error));
    s->has_step = s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY;
    s->measured_share = stw_measured_share(s->simulator, s->plan);
    return stw_lower_bounds(s->simulator, s->plan, &s->bounds, error);
}

/* An interrupt waits until the files are whole: they are small, and a half-written one would be left behind. */
static stw_status write_files(const arguments *a, const cli_simulation *s, stw_error *error) {
    cli_hold_interrupts();
    stw_status status = STW_OK;
    if (a->output != NULL) status = stw_plan_write(s->simulator, s->plan, a->output, error);
    if (status == STW_OK && a->trace != NULL && s->has_step) {
        stw_export_io trace = {.path = a->trace};
        status = stw_plan_export(s->simulator, s->plan, "trace", NULL, &trace, error);
    }
    cli_release_interrupts();
    return status;
}

static stw_status write_results(const cli_call *call, const arguments *a, const cli_simulation *s, stw_error *error) {
    TRY(write_files(a, s, error));
    if (a->trace != NULL && !s->has_step) cli_warn("no trace was written: an invalid plan has no timeline");
    if (is_dash(a->output) || is_dash(a->trace)) return STW_OK; /* the report would spoil that file */
    return cli_wants_json(call) ? cli_report_json(s, call->arena, error) : cli_report_text(s, call->arena, error);
}

int cmd_simulate(const cli_call *call) {
    stw_error error;
    arguments a;
    cli_simulation s = {0};
    stw_status status = check_arguments(call, &a, &error);
    if (status == STW_OK) status = open_session(call, &a, &s, &error);
    if (status == STW_OK) status = evaluate(&s, &error);
    if (status == STW_OK) status = write_results(call, &a, &s, &error);
    const int exit_status = status != STW_OK ? cli_fault(&error) : s.result.reason == STW_VALID ? CLI_DONE : CLI_NO_PLAN;
    stw_workspace_destroy(s.workspace);
    stw_session_destroy(s.session);
    return exit_status;
}
