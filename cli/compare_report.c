/* What `stowage compare` prints. One graph on one machine: its methods, one per line. Several: a line each, a column per method.
 */
#include <math.h>
#include <string.h>

#include "export/plan_file.h"
#include "search.h"

/* ---- the wide table ---- */

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

static void print_letters(const cli_comparison *c) {
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
static double yardstick(const cli_comparison *c, const cli_row *row) {
    if (c->settings->objective != STW_OBJECTIVE_THROUGHPUT) return cli_row_bound(row, c->settings->objective);
    return row->best < 0 ? NAN : row->candidate[row->best].value;
}

/* The geometric mean over all rows of value / yardstick; NaN if a row has no plan by this method. */
static double mean_of(const cli_comparison *c, const char *method) {
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

static void add_row(const cli_comparison *c, const cli_row *row, cli_format format, cli_table *table) {
    const stw_objective objective = c->settings->objective;
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

static void add_means(const cli_comparison *c, cli_format format, cli_table *table) {
    double least = INFINITY;
    for (int32_t m = 0; m < c->method_count; m++) least = fmin(least, mean_of(c, c->method[m]));
    cli_table_add(table, CLI_PLAIN, "mean ratio");
    cli_table_add(table, CLI_PLAIN, "%s", "");
    const bool measured_by_it = c->settings->objective != STW_OBJECTIVE_THROUGHPUT && isfinite(least);
    cli_table_add(table, CLI_PLAIN, "%s", measured_by_it ? "1.000" : "");
    for (int32_t m = 0; m < c->method_count; m++) {
        const double mean = mean_of(c, c->method[m]);
        char text[32] = "-";
        if (isfinite(mean)) snprintf(text, sizeof text, "%.3f", mean);
        add_value(table, isfinite(mean) && mean == least, format, text);
    }
}

static void print_wide(const cli_comparison *c, cli_format format, stw_arena arena) {
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

static void print_definitions(const cli_comparison *c, bool is_wide) {
    static const char *const quantity[] = {"step time t", "largest peak of memory", "largest load of a device"};
    static const char *const ratio[] = {"t / lower bound", "peak / lower bound", "load / best of the row"};
    const stw_objective objective = c->settings->objective;
    printf("\n");
    if (is_wide) print_letters(c);
    printf("  %s by method; budget of each: %s; seed %llu", quantity[objective], cli_budget(c->settings).text,
           (unsigned long long)c->settings->seed);
    printf("\n");
    if (is_wide) printf("  the best of a row is marked; mean ratio: geometric mean over the rows of %s\n", ratio[objective]);
    if (c->settings->budget_s > 0.0) printf("  A budget of time does not repeat exactly; --evaluations N does.\n");
    if (c->row_count > 0 && c->row[c->row_count - 1].interrupted) printf("  interrupted: the last method was cut short\n");
}

static void print_one(const cli_comparison *c, stw_arena arena) {
    const cli_row *row = &c->row[0];
    cli_heading("%s on %s", row->graph, row->machine);
    cli_print_candidates(row, c->settings->objective, false, CLI_TEXT, arena);
    static const char *const what[] = {"step time", "largest peak", "largest load"}; /* by objective */
    const double bound = cli_row_bound(row, c->settings->objective);
    const bool has_share = !isnan(row->measured_share);
    if (bound <= 0.0 && !has_share) return;
    printf("\n  ");
    if (bound > 0.0)
        printf("lower bound of the %s: %s", what[c->settings->objective],
               cli_row_value(row, c->settings->objective, bound, 5).text);
    if (bound > 0.0 && has_share) printf("; ");
    if (has_share) printf("measured: %s of the work", cli_percent(row->measured_share).text);
    printf("\n");
}

static void print_json(const cli_comparison *c) {
    stw_json_writer writer;
    stw_json_writer_init(&writer, stdout);
    stw_json_begin_array(&writer);
    for (int32_t r = 0; r < c->row_count; r++) {
        const cli_row *row = &c->row[r];
        stw_json_newline(&writer);
        stw_json_begin_object(&writer);
        cli_field_text(&writer, "graph", stw_str_of(row->graph));
        cli_field_text(&writer, "machine", stw_str_of(row->machine));
        cli_field_text(&writer, "objective", stw_str_of(stw_objective_name[c->settings->objective]));
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

void cli_report_comparison(const cli_comparison *c, cli_format format, stw_arena arena) {
    switch (format) {
        case CLI_JSON: print_json(c); return;
        case CLI_CSV:
            cli_print_csv_head();
            for (int32_t r = 0; r < c->row_count; r++) cli_print_csv_row(&c->row[r], c->settings->objective);
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
