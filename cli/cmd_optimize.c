/* `stowage optimize`: the best plan within a budget. */
#include "search.h"

typedef struct job {
    const cli_call *call;
    stw_arena arena;
    const char *graph, *output, *trace;
    stw_settings settings;
    stw_session *session;
    stw_result *result;
    cli_row row;
} job;

static stw_status check_arguments(const cli_call *call, job *j, stw_error *error) {
    const char *machine = stw_options_get(call->options, "machine"), *costs = stw_options_get(call->options, "costs");
    *j = (job){.call = call,
               .arena = call->arena,
               .graph = call->operand[0],
               .output = stw_options_get(call->options, "output"),
               .trace = stw_options_get(call->options, "trace")};
    if (cli_is_dash(j->graph) + cli_is_dash(machine) + cli_is_dash(costs) > 1) {
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    }
    if (cli_is_dash(j->output) && cli_is_dash(j->trace)) {
        return stw_fail(error, STW_ERROR_INPUT, "--output and --trace cannot both write to '-' (standard output)");
    }
    return stw_settings_read(call->options, STW_TASK_ALL, &j->settings, error);
}

static stw_status search(job *j, stw_error *error) {
    cli_progress progress;
    cli_progress_begin(&progress, j->settings.objective);
    progress.size_scale = stw_graph_size_scale(stw_session_graph(j->session));
    stw_watch watch = {.progress = cli_progress_draw, .context = &progress};
    TRY(cli_interrupt_begin(&watch.cancel, error));
    const stw_status status = stw_optimize(stw_session_simulator(j->session), j->call->options, &watch, &j->result, error);
    cli_progress_clear(&progress);
    cli_interrupt_end(watch.cancel);
    return status;
}

static stw_status write_files(const job *j, stw_error *error) {
    const stw_plan *plan = stw_result_plan(j->result);
    if (plan == NULL) return STW_OK;
    if (j->output != NULL) TRY(stw_result_write(j->result, j->output, false, error));
    stw_export_io trace = {.path = j->trace};
    return j->trace == NULL ? STW_OK : stw_plan_export(stw_session_simulator(j->session), plan, "trace", NULL, &trace, error);
}

static void print_text(const job *j) {
    cli_outcome outcome = {.row = &j->row,
                           .settings = &j->settings,
                           .optimal = stw_result_is_optimal(j->result),
                           .noise = stw_result_noise(j->result),
                           .output = j->output,
                           .trace = j->trace};
    cli_report_outcome(&outcome, j->arena);
}

static stw_status print_report(const job *j, stw_error *error) {
    const cli_format format = cli_format_of(j->call);
    if (format == CLI_JSON) return stw_result_write(j->result, "-", true, error);
    if (format == CLI_TEXT) print_text(j);
    if (format == CLI_CSV) cli_print_csv_head();
    if (format == CLI_CSV) cli_print_csv_row(&j->row, j->settings.objective);
    if (format == CLI_MARKDOWN) cli_print_candidates(&j->row, j->settings.objective, true, format, j->arena);
    return STW_OK;
}

/* Interrupts are held since the search: the files must be whole before the program can be ended. */
static stw_status finish(job *j, stw_error *error) {
    TRY(write_files(j, error));
    cli_release_interrupts();
    TRY(cli_row_create(j->session, j->result, &j->arena, &j->row, error));
    j->row.repeats = j->settings.budget_s == 0.0;
    cli_warn_of_memory(&j->row, NULL);
    if (cli_is_dash(j->output) || cli_is_dash(j->trace)) return STW_OK; /* the report would spoil that file */
    return print_report(j, error);
}

int cmd_optimize(const cli_call *call) {
    stw_error error;
    job j;
    stw_status status = check_arguments(call, &j, &error);
    if (status == STW_OK) status = cli_session_open(call, j.graph, &j.session, &error);
    if (status == STW_OK) status = search(&j, &error);
    if (status == STW_OK) status = finish(&j, &error);
    const int exit_status = status == STW_OK ? cli_search_status(&j.row) : cli_fault(&error);
    stw_result_destroy(j.result);
    stw_session_destroy(j.session);
    return exit_status;
}
