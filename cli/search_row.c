/* Rows of candidates, and the words for what is in them. */
#include "search.h"

#include <math.h>
#include <string.h>

bool cli_is_dash(const char *path) { return path != NULL && strcmp(path, "-") == 0; }

cli_format cli_format_of(const cli_call *call) {
    static const char *const name[] = {"text", "json", "csv", "markdown"};
    const char *format = stw_options_get(call->options, "format");
    for (int k = 1; format != NULL && k < 4; k++) {
        if (strcmp(format, name[k]) == 0) return (cli_format)k;
    }
    return CLI_TEXT;
}

stw_status cli_session_open(const cli_call *call, const char *graph, stw_session **out, stw_error *error) {
    TRY(stw_session_open(graph, call->options, out, error));
    const char *warning;
    for (int32_t i = 0; (warning = stw_session_warning(*out, i)) != NULL; i++) cli_warn(warning);
    return STW_OK;
}

/* ---- copies ---- */

static stw_status copy_text(stw_arena *arena, const char *text, const char **out, stw_error *error) {
    *out = NULL;
    if (text == NULL) return STW_OK;
    *out = stw_str_copy(arena, stw_str_of(text)).p;
    return *out != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for a result");
}

static stw_status copy_candidate(const stw_candidate *from, int32_t device_count, stw_arena *arena, stw_candidate *out,
                                 stw_error *error) {
    *out = *from;
    TRY(copy_text(arena, from->method, &out->method, error));
    TRY(copy_text(arena, from->reason, &out->reason, error));
    TRY(copy_text(arena, from->note, &out->note, error));
    stw_found *found;
    STW_TRY_NEW(arena, found, from->found_count, error);
    if (from->found_count > 0) memcpy(found, from->found, (size_t)from->found_count * sizeof *found);
    out->found = found;
    if (from->peak_bytes == NULL) return STW_OK;
    int64_t *peak_bytes;
    STW_TRY_NEW(arena, peak_bytes, device_count, error);
    memcpy(peak_bytes, from->peak_bytes, (size_t)device_count * sizeof *peak_bytes);
    out->peak_bytes = peak_bytes;
    return STW_OK;
}

static stw_status copy_warnings(const stw_session *session, stw_arena *arena, cli_row *out, stw_error *error) {
    int32_t count = 0;
    while (stw_session_warning(session, count) != NULL) count++;
    STW_TRY_NEW(arena, out->warning, count, error);
    for (; out->warning_count < count; out->warning_count++)
        TRY(copy_text(arena, stw_session_warning(session, out->warning_count), &out->warning[out->warning_count], error));
    return STW_OK;
}

stw_status cli_row_create(const stw_session *session, const stw_result *result, stw_arena *arena, cli_row *out,
                          stw_error *error) {
    const stw_machine *machine = stw_session_machine(session);
    stw_candidate *copy, one;
    int32_t count = 0;
    while (stw_result_candidate(result, count, &one)) count++;
    STW_TRY_NEW(arena, copy, count, error);
    *out = (cli_row){.device_count = machine->device_count,
                     .size_scale = stw_graph_size_scale(stw_session_graph(session)),
                     .bounds = stw_result_bounds(result),
                     .measured_share = stw_result_measured_share(result),
                     .candidate = copy,
                     .candidate_count = count,
                     .best = stw_result_best(result),
                     .interrupted = stw_result_is_interrupted(result),
                     .short_of_memory = stw_result_is_short_of_memory(result)};
    for (int32_t k = 0; stw_result_candidate(result, k, &one); k++) {
        TRY(copy_candidate(&one, machine->device_count, arena, &copy[k], error));
    }
    TRY(copy_warnings(session, arena, out, error));
    TRY(copy_text(arena, stw_result_lacking(result), &out->lacking, error));
    TRY(copy_text(arena, stw_graph_name(stw_session_graph(session)), &out->graph, error));
    return copy_text(arena, stw_machine_name(machine), &out->machine, error);
}

/* ---- words ---- */

const cli_objective_words cli_words[STW_OBJECTIVE_COUNT] = {
    [STW_OBJECTIVE_TIME] = {"step time", "step time t", "t / lower bound"},
    [STW_OBJECTIVE_MEMORY] = {"largest peak", "largest peak of memory", "peak / lower bound"},
    [STW_OBJECTIVE_THROUGHPUT] = {"largest load", "largest load of a device", "load / best of the row"},
};

int64_t cli_candidate_peak(const cli_row *row, const stw_candidate *candidate) {
    int64_t most = -1;
    for (int32_t d = 0; candidate->peak_bytes != NULL && d < row->device_count; d++) {
        if (candidate->peak_bytes[d] > most) most = candidate->peak_bytes[d];
    }
    return most;
}

cli_text cli_value(stw_objective objective, double value, int digits) {
    if (isnan(value)) return (cli_text){"-"};
    return objective == STW_OBJECTIVE_MEMORY ? cli_bytes(value) : cli_time(value, digits);
}

cli_text cli_row_bytes(const cli_row *row, double bytes) { return cli_bytes(bytes / row->size_scale); }

cli_text cli_row_value(const cli_row *row, stw_objective objective, double value, int digits) {
    return cli_value(objective, objective == STW_OBJECTIVE_MEMORY ? value / row->size_scale : value, digits);
}

double cli_row_bound(const cli_row *row, stw_objective objective) {
    switch (objective) {
        case STW_OBJECTIVE_MEMORY: return (double)row->bounds.peak_bytes;
        case STW_OBJECTIVE_THROUGHPUT: return row->bounds.load_s;
        default: return row->bounds.plan_s;
    }
}

cli_text cli_budget(const stw_settings *settings) {
    cli_text out = {""};
    const cli_text count = cli_count(settings->evaluations);
    if (settings->evaluations == 0) {
        snprintf(out.text, sizeof out.text, "%g s", settings->budget_s);
    } else if (settings->budget_s == 0.0) {
        snprintf(out.text, sizeof out.text, "%.30s evaluations", count.text);
    } else {
        snprintf(out.text, sizeof out.text, "%g s or %.30s evaluations", settings->budget_s, count.text);
    }
    return out;
}

static bool says_out_of_memory(const char *text) { return text != NULL && strncmp(text, "out of memory", 13) == 0; }

void cli_warn_of_memory(const cli_row *row, const char *what) {
    char methods[200] = "", line[400];
    size_t length = 0;
    if (!row->short_of_memory) return;
    for (int32_t k = 0; k < row->candidate_count && length < sizeof methods; k++) {
        const stw_candidate *c = &row->candidate[k];
        if (!says_out_of_memory(c->reason) && !says_out_of_memory(c->note)) continue;
        length += (size_t)snprintf(methods + length, sizeof methods - length, "%s%s", length == 0 ? " in " : ", ", c->method);
    }
    snprintf(line, sizeof line, "%.100s%sout of memory%s%s", what == NULL ? "" : what, what == NULL ? "" : ": ", methods,
             row->best < 0 ? "" : "; the best plan of what was left is kept");
    cli_warn(line);
}

int cli_search_status(const cli_row *row) {
    stw_error error;
    if (row->best < 0) {
        stw_fail(&error, STW_ERROR_NO_PLAN, "%s", row->lacking);
        cli_fault(&error);
    }
    return row->interrupted ? CLI_INTERRUPTED : row->best < 0 ? CLI_NO_PLAN : CLI_DONE;
}

const char *cli_reason_word(const char *reason) {
    for (int k = STW_VALID + 1; k <= STW_INVALID_MEMORY; k++) {
        const char *name = stw_reason_name((stw_reason)k), *place = strstr(reason, name);
        if (place != NULL && place[strlen(name)] == ':') return name;
    }
    return "no plan";
}
