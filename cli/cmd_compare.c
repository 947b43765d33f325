/* `stowage compare`: each method by itself, for every graph on every machine. */
#include <math.h>
#include <string.h>

#include "driver/limits.h"
#include "export/plan_file.h"
#include "method/starts.h"
#include "search.h"

enum { MAX_METHODS = 64 };

typedef struct comparison {
    const cli_call *call;
    stw_arena arena;
    stw_settings settings;
    const char **method, **machine; /* as asked for; without --machine there is one, NULL */
    int32_t method_count, machine_count;
    stw_str machine_list; /* the machines as one text; p is NULL: none was named */
    cli_row *row;         /* (graphs x machines) */
    int32_t row_count;
    cli_progress progress;
    stw_watch watch;
    const char *curve_file, *best_file, *report_file, *plot_file; /* or NULL */
    cli_curve curve;
    bool curve_is_cut;      /* there was no memory for all of it */
    stw_status file_status; /* of writing them; the first fault counts */
    stw_error file_error;
} comparison;

/* ---- the table of several graphs or machines: a line each, a column per method ---- */

/* What a method came to in a row, or NULL if it was not run. */
static const stw_candidate *find_candidate(const cli_row *row, const char *method) {
    for (int32_t k = 0; k < row->candidate_count; k++) {
        if (strcmp(row->candidate[k].method, method) == 0) return &row->candidate[k];
    }
    return NULL;
}

/* "-" and a letter for the reason why there is no plan; print_letters explains them. */
static const struct {
    const char *word;
    char letter;
} letters[] = {{"memory", 'm'}, {"links", 'l'},    {"colocation", 'c'}, {"groups", 'g'},
               {"order", 'o'},  {"overflow", 'v'}, {"no plan", 'n'},    {"interrupted", 'i'}};
enum { LETTER_COUNT = sizeof letters / sizeof letters[0] };

static const char *word_of(const stw_candidate *candidate) {
    return candidate == NULL ? "interrupted" : cli_reason_word(candidate->reason);
}

static char letter_of(const char *word) {
    for (int k = 0; k < LETTER_COUNT; k++) {
        if (strcmp(letters[k].word, word) == 0) return letters[k].letter;
    }
    return '?';
}

static void print_letters(const comparison *c) {
    const char *before = "  -: no valid plan; ";
    for (int k = 0; k < LETTER_COUNT; k++) {
        bool used = false;
        for (int32_t r = 0; r < c->row_count; r++) {
            for (int32_t m = 0; m < c->method_count; m++) {
                const stw_candidate *candidate = find_candidate(&c->row[r], c->method[m]);
                if (candidate == NULL || !candidate->valid) used |= strcmp(word_of(candidate), letters[k].word) == 0;
            }
        }
        if (!used) continue;
        printf("%s%c: %s", before, letters[k].letter, letters[k].word);
        before = ", ";
    }
    if (strcmp(before, ", ") == 0) printf("\n");
}

/* The value that a method's is measured by: the lower bound of the objective. For the throughput, of which bounds say little, the
 * best of the row. */
static double yardstick(const comparison *c, const cli_row *row) {
    if (c->settings.objective != STW_OBJECTIVE_THROUGHPUT) return cli_row_bound(row, c->settings.objective);
    return row->best < 0 ? NAN : row->candidate[row->best].value;
}

/* The geometric mean over all rows of value / yardstick; NaN if a row has no plan by this method. */
static double mean_of(const comparison *c, const char *method) {
    double sum = 0.0;
    for (int32_t r = 0; r < c->row_count; r++) {
        const stw_candidate *candidate = find_candidate(&c->row[r], method);
        const double measure = yardstick(c, &c->row[r]);
        if (candidate == NULL || !candidate->valid) return NAN;
        sum += candidate->value == measure ? 0.0 : log(candidate->value / measure); /* equal: 0 / 0 for graphs without ops */
    }
    return exp(sum / c->row_count);
}

/* The best is marked: in bold, and with a star where there may be no bold. */
static void add_value(cli_table *table, bool is_best, cli_format format, const char *text) {
    cli_table_add(table, is_best ? CLI_BOLD : CLI_PLAIN, "%s%s", is_best && format == CLI_TEXT ? "*" : "", text);
}

static void add_row(const comparison *c, const cli_row *row, cli_format format, cli_table *table) {
    const stw_objective objective = c->settings.objective;
    cli_table_add_name(table, CLI_PLAIN, row->graph);
    cli_table_add_name(table, CLI_PLAIN, row->machine);
    const double bound = cli_row_bound(row, objective);
    cli_table_add(table, CLI_PLAIN, "%s", bound > 0.0 ? cli_row_value(row, objective, bound, 4).text : "-");
    for (int32_t m = 0; m < c->method_count; m++) {
        const stw_candidate *candidate = find_candidate(row, c->method[m]);
        if (candidate == NULL || !candidate->valid) {
            cli_table_add(table, CLI_PLAIN, "- (%c)", letter_of(word_of(candidate)));
            continue;
        }
        const bool is_best = candidate->value == row->candidate[row->best].value;
        add_value(table, is_best, format, cli_row_value(row, objective, candidate->value, 4).text);
    }
}

static void add_means(const comparison *c, cli_format format, cli_table *table) {
    double least = INFINITY;
    for (int32_t m = 0; m < c->method_count; m++) least = fmin(least, mean_of(c, c->method[m]));
    cli_table_add(table, CLI_PLAIN, "mean ratio");
    cli_table_add(table, CLI_PLAIN, "%s", "");
    const bool measured_by_it = c->settings.objective != STW_OBJECTIVE_THROUGHPUT && isfinite(least);
    cli_table_add(table, CLI_PLAIN, "%s", measured_by_it ? "1.000" : "");
    for (int32_t m = 0; m < c->method_count; m++) {
        const double mean = mean_of(c, c->method[m]);
        char text[32] = "-";
        if (isfinite(mean)) snprintf(text, sizeof text, "%.3f", mean);
        add_value(table, isfinite(mean) && mean == least, format, text);
    }
}

static void print_wide(const comparison *c, cli_format format, stw_arena arena) {
    cli_column columns[CLI_MAX_COLUMNS] = {{"graph", CLI_LEFT}, {"machine", CLI_LEFT}, {"lower bound", CLI_RIGHT}};
    cli_table table;
    for (int32_t m = 0; m < c->method_count; m++) columns[3 + m] = (cli_column){c->method[m], CLI_RIGHT};
    cli_table_begin(&table, &arena, columns, 3 + c->method_count);
    for (int32_t r = 0; r < c->row_count; r++) add_row(c, &c->row[r], format, &table);
    if (c->row_count > 0) add_means(c, format, &table);
    if (format == CLI_MARKDOWN) {
        cli_table_print_markdown(&table, stdout);
    } else {
        cli_table_print(&table, stdout);
    }
}

/* ---- the report ---- */

static void print_definitions(const comparison *c, bool is_wide) {
    const stw_objective objective = c->settings.objective;
    printf("\n");
    if (is_wide) print_letters(c);
    printf("  %s by method; budget of each: %s; seed %llu", cli_words[objective].in_full, cli_budget(&c->settings).text,
           (unsigned long long)c->settings.seed);
    printf("\n");
    if (is_wide)
        printf("  the best of a row is marked; mean ratio: geometric mean over the rows of %s\n", cli_words[objective].ratio);
    if (c->settings.budget_s > 0.0) printf("  A budget of time does not repeat exactly; --evaluations N does.\n");
    if (c->row_count > 0 && c->row[c->row_count - 1].interrupted) printf("  interrupted: the last method was cut short\n");
}

static void print_one(const comparison *c, stw_arena arena) {
    const cli_row *row = &c->row[0];
    cli_heading("%s on %s", row->graph, row->machine);
    cli_print_candidates(row, c->settings.objective, false, CLI_TEXT, arena);
    const double bound = cli_row_bound(row, c->settings.objective);
    const bool has_share = !isnan(row->measured_share);
    if (bound <= 0.0 && !has_share) return;
    printf("\n  ");
    if (bound > 0.0)
        printf("lower bound of the %s: %s", cli_words[c->settings.objective].quantity,
               cli_row_value(row, c->settings.objective, bound, 5).text);
    if (bound > 0.0 && has_share) printf("; ");
    if (has_share) printf("measured: %s of the work", cli_percent(row->measured_share).text);
    printf("\n");
}

static void print_json(const comparison *c) {
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_array(&writer);
    for (int32_t r = 0; r < c->row_count; r++) {
        const cli_row *row = &c->row[r];
        stw_json_newline(&writer);
        stw_json_begin_object(&writer);
        stw_json_field_text(&writer, "graph", stw_str_of(row->graph));
        stw_json_field_text(&writer, "machine", stw_str_of(row->machine));
        stw_json_field_text(&writer, "objective", stw_str_of(stw_objective_name[c->settings.objective]));
        stw_json_field_double(&writer, "lower_bound_s", row->bounds.plan_s);
        stw_json_field_double(&writer, "lower_bound_fusion_s", row->bounds.fusion_s);
        stw_json_field_double(&writer, "lower_bound_load_s", row->bounds.load_s);
        cli_field_bytes(&writer, "lower_bound_bytes", row->bounds.peak_bytes);
        stw_json_field_double(&writer, "measured_share", row->measured_share);
        cli_field_texts(&writer, "warnings", row->warning, row->warning_count);
        stw_json_write_key(&writer, "methods");
        stw_json_begin_array(&writer);
        for (int32_t k = 0; k < row->candidate_count; k++) {
            stw_json_newline(&writer);
            stw_candidate_write(&writer, &row->candidate[k], row->device_count, true);
        }
        stw_json_end_array(&writer);
        stw_json_end_object(&writer);
    }
    stw_json_end_array(&writer);
    printf("\n");
}

static void print_report(const comparison *c, cli_format format, stw_arena arena) {
    switch (format) {
        case CLI_JSON: print_json(c); return;
        case CLI_CSV:
            cli_print_csv_head();
            for (int32_t r = 0; r < c->row_count; r++) cli_print_csv_row(&c->row[r], c->settings.objective);
            return;
        case CLI_MARKDOWN: print_wide(c, format, arena); break;
        case CLI_TEXT:
            if (c->row_count == 1) {
                print_one(c, arena);
            } else {
                print_wide(c, format, arena);
            }
            break;
    }
    print_definitions(c, format == CLI_MARKDOWN || c->row_count != 1);
}

/* ---- what is asked for ---- */

/* Without --methods: those that build plans for this objective and these tasks, and optimize. */
static stw_status list_methods(comparison *c, stw_error *error) {
    const stw_method *method;
    STW_TRY_NEW(&c->arena, c->method, MAX_METHODS, error);
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL && c->method_count + 1 < MAX_METHODS; k++) {
        if (stw_method_serves(method, c->settings.objective, c->settings.tasks)) c->method[c->method_count++] = method->name;
    }
    c->method[c->method_count++] = "optimize";
    return STW_OK;
}

static stw_status check_methods(comparison *c, stw_error *error) {
    const char *list = stw_options_get(c->call->options, "methods");
    if (list == NULL) return list_methods(c, error);
    TRY(cli_split(list, "methods", &c->arena, &c->method, &c->method_count, error));
    if (c->method_count > MAX_METHODS) {
        return stw_fail(error, STW_ERROR_INPUT, "--methods: %d methods; at most %d", c->method_count, MAX_METHODS);
    }
    for (int32_t m = 0; m < c->method_count; m++) {
        if (stw_method_exists(c->method[m]) || strcmp(c->method[m], "optimize") == 0) continue;
        char what[120];
        snprintf(what, sizeof what, "--methods: unknown method '%.60s'", c->method[m]);
        return cli_unknown_method(c->method[m], "optimize", what, error);
    }
    return STW_OK;
}

/* Each of them is opened, so that a mistake is reported now and not after minutes of work. */
static stw_status check_machines(comparison *c, stw_error *error) {
    static const char *none[] = {NULL};
    const char *list = stw_options_get(c->call->options, "machine");
    c->machine = none;
    c->machine_count = 1;
    if (!stw_options_is_given(c->call->options, "machine")) return STW_OK;
    c->machine_list = stw_str_copy(&c->arena, stw_str_of(list));
    TRY(cli_split(list, "machine", &c->arena, &c->machine, &c->machine_count, error));
    for (int32_t k = 0; k < c->machine_count; k++) {
        stw_machine *machine;
        if (cli_is_dash(c->machine[k])) continue;
        TRY(stw_machine_open(c->machine[k], &machine, error));
        stw_machine_destroy(machine);
    }
    return STW_OK;
}

/* Standard input is there once: for one graph with one machine, or one machine with one graph. */
static stw_status check_standard_input(const comparison *c, stw_error *error) {
    const int32_t graphs = c->call->operand_count, machines = c->machine_count;
    int32_t reads = cli_is_dash(stw_options_get(c->call->options, "costs")) ? graphs * machines : 0;
    for (int32_t g = 0; g < graphs; g++) reads += cli_is_dash(c->call->operand[g]) ? machines : 0;
    for (int32_t m = 0; m < machines; m++) reads += cli_is_dash(c->machine[m]) ? graphs : 0;
    if (reads <= 1) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
}

static stw_status set_machine(const comparison *c, int32_t index, stw_error *error) {
    return c->machine[index] == NULL ? STW_OK : stw_options_set(c->call->options, "machine", c->machine[index], error);
}

/* Opens everything once before the first search begins, except what can be read only once. */
static stw_status check_graphs(const comparison *c, stw_error *error) {
    if (cli_is_dash(stw_options_get(c->call->options, "costs"))) return STW_OK;
    for (int32_t g = 0; g < c->call->operand_count; g++) {
        for (int32_t m = 0; m < c->machine_count; m++) {
            stw_session *session;
            stw_limited *limited = NULL;
            if (cli_is_dash(c->call->operand[g]) || cli_is_dash(c->machine[m])) continue;
            TRY(set_machine(c, m, error));
            TRY(stw_session_open(c->call->operand[g], c->call->options, &session, error));
            const bool dry = cli_is_set(c->call, "dry-run");
            stw_status status = stw_limited_open(stw_session_simulator(session), c->call->options, &limited, error);
            stw_limited_close(limited);
            if (status == STW_OK && dry) status = cli_dry_run_check(session, &c->settings, error);
            stw_session_destroy(session);
            TRY(status);
        }
    }
    return STW_OK;
}

/* One plan, one learning curve. */
static stw_status check_files(const comparison *c, int64_t rows, stw_error *error) {
    if (c->best_file != NULL && rows > 1)
        return stw_fail(error, STW_ERROR_INPUT, "--best writes one plan; name one graph and one machine");
    if (c->report_file != NULL && rows > 1)
        return stw_fail(error, STW_ERROR_INPUT, "--report shows one plan; name one graph and one machine");
    if (c->curve_file != NULL && (rows > 1 || c->method_count > 1))
        return stw_fail(error, STW_ERROR_INPUT, "--curve writes one learning curve; name one graph, one machine and one method");
    TRY(cli_check_report(c->call, error));
    if (!cli_is_dash(c->best_file) && !cli_is_dash(c->curve_file)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT, "--%s needs a file; standard output has the comparison",
                    cli_is_dash(c->best_file) ? "best" : "curve");
}

static stw_status check_arguments(comparison *c, stw_error *error) {
    TRY(stw_settings_read(c->call->options, STW_TASK_ALL, &c->settings, error));
    TRY(check_methods(c, error));
    TRY(check_machines(c, error));
    TRY(check_standard_input(c, error));
    STW_TRY_NEW(&c->arena, c->row, (int64_t)c->call->operand_count * c->machine_count, error);
    const int64_t rows = (int64_t)c->call->operand_count * c->machine_count;
    TRY(check_files(c, rows, error));
    const bool dry = cli_is_set(c->call, "dry-run");
    return rows > 1 || dry ? check_graphs(c, error) : STW_OK; /* a single one is reported at once anyway */
}

/* ---- the work ---- */

static const char *join_methods(comparison *c) {
    stw_str list = STW_STR("");
    for (int32_t m = 0; m < c->method_count; m++) {
        list = stw_str_format(&c->arena, "%s%s%s", m == 0 ? "" : list.p, m == 0 ? "" : ",", c->method[m]);
        if (list.p == NULL) return NULL;
    }
    return list.p;
}

static void on_progress(void *context, const stw_progress *now) {
    comparison *c = context;
    cli_progress_draw(&c->progress, now);
}

static void on_update(void *context, const stw_curve_row *row) {
    comparison *c = context;
    c->curve_is_cut |= !cli_curve_add(&c->curve, row);
}

static stw_status write_files(const comparison *c, const stw_session *session, const stw_result *result, stw_error *error) {
    const stw_plan *plan = stw_result_plan(result);
    if (c->best_file != NULL && plan != NULL) TRY(stw_result_write(result, c->best_file, false, error));
    if (c->report_file != NULL && plan != NULL)
        TRY(stw_plan_report(stw_session_simulator(session), plan, result, c->call->options, c->report_file, error));
    if (c->curve_is_cut) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for the learning curve");
    return c->curve_file == NULL ? STW_OK : cli_curve_write(&c->curve, c->curve_file, error);
}

static stw_status run_session(comparison *c, const stw_session *session, const char *methods, stw_error *error) {
    const int32_t rows = c->call->operand_count * c->machine_count;
    stw_result *result;
    char what[100];
    snprintf(what, sizeof what, "%d/%d %.30s on %.30s", c->row_count + 1, rows, stw_graph_name(stw_session_graph(session)),
             stw_machine_name(stw_session_machine(session)));
    c->progress.what = what;
    c->progress.size_scale = stw_graph_size_scale(stw_session_graph(session));
    stw_status status = stw_compare(stw_session_simulator(session), methods, c->call->options, &c->watch, &result, error);
    c->progress.what = NULL;
    TRY(status);
    status = cli_row_create(session, result, &c->arena, &c->row[c->row_count], error);
    if (status == STW_OK)
        c->file_status = write_files(c, session, result, &c->file_error); /* a fault is reported after the table */
    stw_result_destroy(result);
    if (status == STW_OK) c->row_count++;
    return status;
}

static bool is_interrupted(const comparison *c) { return c->row_count > 0 && c->row[c->row_count - 1].interrupted; }

static stw_status run_all(comparison *c, stw_error *error) {
    const char *methods = join_methods(c);
    if (methods == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    for (int32_t g = 0; g < c->call->operand_count; g++) {
        for (int32_t m = 0; m < c->machine_count && !is_interrupted(c); m++) {
            stw_session *session;
            TRY(set_machine(c, m, error));
            TRY(cli_session_open(c->call, c->call->operand[g], &session, error));
            const stw_status status = run_session(c, session, methods, error);
            stw_session_destroy(session);
            TRY(status);
        }
    }
    return STW_OK;
}

/* A fault is reported after the table, if writing the other files went well. */
static void draw(comparison *c) {
    stw_error *error = c->file_status == STW_OK ? &c->file_error : NULL;
    if (c->plot_file == NULL || c->row_count == 0) return;
    const stw_status status = cli_plot_methods(c->row, c->row_count, c->machine_count, &c->settings, c->plot_file, error);
    if (c->file_status == STW_OK) c->file_status = status;
}

static stw_status run(comparison *c, stw_error *error) {
    cli_progress_begin(c->call, &c->progress, c->settings.objective);
    c->watch = (stw_watch){.progress = on_progress, .curve = c->curve_file == NULL ? NULL : on_update, .context = c};
    TRY(cli_interrupt_begin(&c->watch.cancel, error));
    const stw_status status = run_all(c, error);
    if (status == STW_OK) draw(c);
    cli_progress_clear(&c->progress);
    cli_interrupt_end(c->watch.cancel);
    cli_release_interrupts();
    return status;
}

/* ---- the end ---- */

static int report(const comparison *c) {
    int status = CLI_DONE;
    print_report(c, cli_format_of(c->call), c->arena);
    for (int32_t r = 0; r < c->row_count; r++) {
        stw_error error;
        cli_warn_of_memory(&c->row[r], c->row_count > 1 ? c->row[r].graph : NULL);
        if (c->row[r].best >= 0) continue;
        stw_fail(&error, STW_ERROR_NO_PLAN, "%s on %s: %s", c->row[r].graph, c->row[r].machine, c->row[r].lacking);
        status = cli_fault(&error);
    }
    if (c->file_status != STW_OK) status = cli_fault(&c->file_error);
    return is_interrupted(c) ? CLI_INTERRUPTED : status;
}

int cmd_compare(const cli_call *call) {
    stw_error error;
    comparison c = {.call = call,
                    .arena = call->arena,
                    .curve_file = stw_options_get(call->options, "curve"),
                    .best_file = stw_options_get(call->options, "best"),
                    .report_file = stw_options_get(call->options, "report"),
                    .plot_file = stw_options_get(call->options, "plot")};
    c.curve.arena = &c.arena;
    stw_status status = check_arguments(&c, &error);
    if (status == STW_OK && cli_is_set(call, "dry-run")) {
        if (c.machine_list.p != NULL) status = stw_options_set(call->options, "machine", c.machine_list.p, &error);
        cli_dry_run_compare(call, &c.settings, c.method, c.method_count, (int64_t)call->operand_count * c.machine_count, c.arena);
        return status == STW_OK ? CLI_DONE : cli_fault(&error);
    }
    if (status == STW_OK) status = run(&c, &error);
    return status == STW_OK ? report(&c) : cli_fault(&error);
}
