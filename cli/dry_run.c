/* `--dry-run`: what a search would read and write, and which methods would run with what part of the budget. What it
 * reads is read, so that mistakes in it are found; nothing is searched, and nothing written. */
#include <string.h>
#include <unistd.h>

#include "driver/runner.h"
#include "method/anneal/proposals.h"
#include "method/go/go.h"
#include "search.h"

/* ---- files ---- */

typedef struct named { /* an option that names something, and what that is */
    const char *option, *what;
} named;
static const named inputs[] = {
    {"machine", "machine"}, {"costs", "measured times"}, {"from", "initial plan"}, {"policy", "policy"}, {"proposals", "scorer"}};
static const named outputs[] = {{"output", "plan"},          {"trace", "timeline"}, {"best", "best plan"},
                                {"curve", "learning curve"}, {"report", "report"},  {"plot", "picture"}};

static const char *value_of(const cli_call *call, const named *file) {
    return stw_options_takes(call->options, file->option) ? stw_options_get(call->options, file->option) : NULL;
}

static const char *config_there(stw_arena *arena) {
    const char *path = cli_config_path(arena);
    return path != NULL && access(path, F_OK) == 0 ? path : NULL;
}

static void add_files(cli_table *table, const cli_call *call, const named *list, size_t count, const char *verb) {
    for (size_t k = 0; k < count; k++) {
        const char *value = value_of(call, &list[k]);
        if (value == NULL) continue;
        cli_table_add(table, CLI_PLAIN, "%s", verb);
        cli_table_add(table, CLI_PLAIN, "%s (%s)", value, list[k].what);
    }
}

enum { INPUTS = sizeof inputs / sizeof inputs[0], OUTPUTS = sizeof outputs / sizeof outputs[0] };

static void print_files(const cli_call *call, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    for (int32_t k = 0; k < call->operand_count; k++) {
        cli_table_add(&table, CLI_PLAIN, "reads");
        cli_table_add(&table, CLI_PLAIN, "%s (graph)", call->operand[k]);
    }
    add_files(&table, call, inputs, INPUTS, "reads");
    const char *config = config_there(&arena);
    if (config != NULL) cli_table_add(&table, CLI_PLAIN, "reads");
    if (config != NULL) cli_table_add(&table, CLI_PLAIN, "%s (your defaults)", config);
    add_files(&table, call, outputs, OUTPUTS, "would write");
    cli_table_print(&table, stdout);
}

static void write_files_json(stw_json_writer *w, const cli_call *call, stw_arena arena) {
    stw_json_write_key(w, "reads");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < call->operand_count; k++) stw_json_write_string(w, stw_str_of(call->operand[k]));
    for (size_t k = 0; k < INPUTS; k++) {
        if (value_of(call, &inputs[k]) != NULL) stw_json_write_string(w, stw_str_of(value_of(call, &inputs[k])));
    }
    if (config_there(&arena) != NULL) stw_json_write_string(w, stw_str_of(config_there(&arena)));
    stw_json_end_array(w);
    stw_json_write_key(w, "would_write");
    stw_json_begin_array(w);
    for (size_t k = 0; k < OUTPUTS; k++) {
        if (value_of(call, &outputs[k]) != NULL) stw_json_write_string(w, stw_str_of(value_of(call, &outputs[k])));
    }
    stw_json_end_array(w);
}

/* What a search opens itself, in its order; opened, so that a mistake in it is found. */
stw_status cli_dry_run_check(const stw_session *session, const stw_settings *settings, stw_error *error) {
    stw_plan *from = NULL;
    TRY(stw_pretrained_check(&settings->policy, error));
    TRY(stw_proposals_check(&settings->policy, error));
    if (settings->from == NULL) return STW_OK;
    TRY(stw_plan_open(settings->from, stw_session_graph(session), stw_session_machine(session), &from, error));
    stw_plan_destroy(from);
    return STW_OK;
}

/* ---- methods ---- */

/* "14 % (1.4 s)", "14 % (56 evaluations)" */
static cli_text part_of(const stw_settings *settings, double share) {
    cli_text out = {""};
    if (share <= 0.0) return (cli_text){"one plan"};
    if (settings->budget_s > 0.0) {
        snprintf(out.text, sizeof out.text, "%.3g %% (%.30s)", 100.0 * share, cli_time(share * settings->budget_s, 2).text);
    } else {
        snprintf(out.text, sizeof out.text, "%.3g %% (%.0f evaluations)", 100.0 * share, share * (double)settings->evaluations);
    }
    return out;
}

static void print_steps(const stw_outline *outline, const stw_settings *settings, stw_arena arena) {
    static const cli_column columns[] = {
        {"method", CLI_LEFT}, {"at most", CLI_RIGHT}, {"ends by", CLI_RIGHT}, {"when", CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 4);
    for (int32_t k = 0; k < outline->count; k++) {
        const stw_outline_step *step = &outline->step[k];
        cli_table_add(&table, CLI_PLAIN, "%s", step->method);
        cli_table_add(&table, CLI_PLAIN, "%s", part_of(settings, step->most).text);
        cli_table_add(&table, CLI_PLAIN, "%.3g %%", 100.0 * step->until);
        cli_table_add(&table, CLI_PLAIN, "%s", step->when);
    }
    cli_table_print(&table, stdout);
}

static void write_steps_json(stw_json_writer *w, const stw_outline *outline) {
    stw_json_write_key(w, "methods");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < outline->count; k++) {
        const stw_outline_step *step = &outline->step[k];
        stw_json_begin_object(w);
        stw_json_field_text(w, "method", stw_str_of(step->method));
        stw_json_field_double(w, "share_at_most", step->most);
        stw_json_field_double(w, "share_until", step->until);
        stw_json_field_text(w, "when", stw_str_of(step->when));
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
}

/* ---- the whole ---- */

static void write_json(const cli_call *call, const stw_settings *settings, const stw_outline *outline, stw_arena arena) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    stw_json_field_bool(&w, "dry_run", true);
    write_files_json(&w, call, arena);
    stw_json_field_double(&w, "budget_s", settings->budget_s);
    stw_json_field_int64(&w, "evaluations", settings->evaluations);
    write_steps_json(&w, outline);
    stw_json_end_object(&w);
    stw_json_newline(&w);
}

stw_status cli_dry_run_optimize(const cli_call *call, const stw_session *session, const stw_settings *settings, stw_arena arena,
                                stw_error *error) {
    stw_outline outline;
    TRY(stw_optimize_outline(stw_session_simulator(session), call->options, settings, &outline, error));
    if (cli_format_of(call) == CLI_JSON) {
        write_json(call, settings, &outline, arena);
        return STW_OK;
    }
    cli_heading("%s on %s, dry run: objective %s, budget %s", stw_graph_name(stw_session_graph(session)),
                stw_machine_name(stw_session_machine(session)), stw_objective_name[settings->objective],
                cli_budget(settings).text);
    print_files(call, arena);
    printf("\n");
    print_steps(&outline, settings, arena);
    printf(
        "\n  Nothing was searched or written. The search ends before if a plan meets its lower bound; parts that a method does "
        "not "
        "use go to\n  those behind it.\n");
    return STW_OK;
}

void cli_dry_run_compare(const cli_call *call, const stw_settings *settings, const char *const *method, int32_t count,
                         int64_t rows, stw_arena arena) {
    stw_outline outline = {0};
    for (int32_t k = 0; k < count && k < STW_MAX_ENTRIES; k++)
        outline.step[outline.count++] = (stw_outline_step){method[k], 1.0, 1.0, ""};
    if (cli_format_of(call) == CLI_JSON) {
        write_json(call, settings, &outline, arena);
        return;
    }
    cli_heading("dry run of %s searches: objective %s, budget %s each", cli_count(rows * count).text,
                stw_objective_name[settings->objective], cli_budget(settings).text);
    print_files(call, arena);
    printf("\n");
    print_steps(&outline, settings, arena);
    printf("\n  Nothing was searched or written. Each method runs by itself for every graph on every machine.\n");
}
