/* What `stowage train` tells: how far the policy is, what its best plan is worth, and the learning curve as a small plot. */
#include <math.h>
#include <string.h>

#include "search.h"

enum { PLOT_LINES = 12, PLOT_COLUMNS = 60 };

static const char *preset_of(const cli_training *t) {
    return t->settings->policy.preset[0] != '\0' ? t->settings->policy.preset : "default";
}

static const stw_candidate *candidate_of(const cli_training *t) { return &t->row->candidate[0]; }

/* ---- the plot ---- */

typedef struct plot {
    const cli_curve *curve;
    double low, high; /* of all values */
    char cell[PLOT_LINES][PLOT_COLUMNS + 1];
} plot;

static void widen(plot *p, double value) {
    if (!isfinite(value)) return;
    p->low = fmin(p->low, value);
    p->high = fmax(p->high, value);
}

static void mark(plot *p, int column, double value, char sign) {
    if (!isfinite(value)) return;
    const double share = p->high > p->low ? (p->high - value) / (p->high - p->low) : 1.0;
    p->cell[lround(share * (PLOT_LINES - 1))][column] = sign;
}

/* A column stands for the last of its rows; few rows are several columns wide. */
static void fill_plot(plot *p, const cli_curve *curve) {
    *p = (plot){.curve = curve, .low = INFINITY, .high = -INFINITY};
    for (int line = 0; line < PLOT_LINES; line++) memset(p->cell[line], ' ', PLOT_COLUMNS);
    for (int64_t k = 0; k < curve->count; k++) {
        widen(p, curve->row[k].greedy);
        widen(p, curve->row[k].best);
    }
    for (int column = 0; column < PLOT_COLUMNS && curve->count > 0; column++) {
        const int64_t k = ((column + 1) * curve->count + PLOT_COLUMNS - 1) / PLOT_COLUMNS - 1;
        mark(p, column, curve->row[k].best, '-');
        mark(p, column, curve->row[k].greedy, '*');
    }
}

static void print_line(const plot *p, stw_objective objective, int line) {
    const double value = p->high - (p->high - p->low) * line / (PLOT_LINES - 1);
    const bool labelled = line == 0 || line == PLOT_LINES / 2 || line == PLOT_LINES - 1;
    int length = PLOT_COLUMNS;
    while (length > 0 && p->cell[line][length - 1] == ' ') length--;
    printf("  %12s |%.*s\n", labelled ? cli_value(objective, value, 5).text : "", length, p->cell[line]);
}

static void print_plot(const cli_curve *curve, stw_objective objective) {
    plot p;
    char rule[PLOT_COLUMNS + 1] = "";
    fill_plot(&p, curve);
    if (!(p.low <= p.high)) return; /* no plan was valid */
    memset(rule, '-', PLOT_COLUMNS);
    printf("\n  %12s  * plan of the policy without noise   - best plan so far\n", "");
    for (int line = 0; line < PLOT_LINES; line++) print_line(&p, objective, line);
    const cli_text first = cli_count(curve->row[0].update + 1), last = cli_count(curve->row[curve->count - 1].update + 1);
    printf("  %12s +%s\n  %12s  %-*s%s\n", "", rule, "update", PLOT_COLUMNS - (int)strlen(last.text), first.text, last.text);
}

/* ---- for people ---- */

static void add_line(cli_table *table, const char *name, const char *text) {
    cli_table_add(table, CLI_PLAIN, "%s", name);
    cli_table_add(table, CLI_PLAIN, "%s", text);
}

static void add_outcome(cli_table *table, const cli_training *t) {
    static const char *const quantity[] = {"step time", "largest peak", "largest load"}; /* by objective */
    const stw_candidate *best = candidate_of(t);
    const stw_objective objective = t->settings->objective;
    const double bound_s = t->row->bounds.plan_s;
    cli_table_add(table, CLI_PLAIN, "%s", quantity[objective]);
    cli_table_add(table, CLI_BOLD, "%s", cli_value(objective, best->value, 5).text);
    if (objective != STW_OBJECTIVE_TIME) add_line(table, "step time", cli_time(best->step_s, 5).text);
    cli_table_add(table, CLI_PLAIN, "lower bound");
    if (bound_s > 0.0) {
        cli_table_add(table, CLI_PLAIN, "%s; the step is %s above it", cli_time(bound_s, 5).text,
                      cli_percent(best->step_s / bound_s - 1.0).text);
    } else {
        cli_table_add(table, CLI_PLAIN, "%s", cli_time(bound_s, 5).text);
    }
}

void cli_report_training(const cli_training *t, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    const stw_candidate *best = candidate_of(t);
    cli_table table;
    cli_heading("%s on %s: a policy, trained for objective %s%s", t->row->graph, t->row->machine,
                stw_objective_name[t->settings->objective], t->row->interrupted ? "; interrupted, as far as it came" : "");
    cli_table_begin(&table, &arena, columns, 2);
    add_line(&table, "preset", preset_of(t));
    add_line(&table, "updates", cli_count(t->updates).text);
    add_line(&table, "evaluations", cli_count(best->evaluations).text);
    if (best->note[0] != '\0') add_line(&table, "course", best->note);
    if (t->row->best >= 0) add_outcome(&table, t);
    if (t->policy != NULL) add_line(&table, "policy", t->policy);
    if (t->curve_file != NULL) add_line(&table, "curve", t->curve_file);
    if (t->best_file != NULL) add_line(&table, "best plan", t->best_file);
    cli_table_print(&table, stdout);
    if (t->curve->count > 0) print_plot(t->curve, t->settings->objective);
}

/* ---- for programs ---- */

static void write_flag(stw_json_writer *w, const char *key, bool value) {
    stw_json_write_key(w, key);
    stw_json_write_bool(w, value);
}

static stw_str text_or_null(const char *text) { return text == NULL ? (stw_str){0} : stw_str_of(text); }

/* Keys as in the head of a plan file. */
static void write_head(stw_json_writer *w, const cli_training *t) {
    static const char *const task_name[] = {"placement", "schedule"}; /* by bit */
    cli_field_text(w, "format", STW_STR("training"));
    cli_field_int(w, "version", 1);
    stw_json_write_key(w, "graph");
    stw_json_begin_object(w);
    cli_field_text(w, "name", stw_str_of(t->row->graph));
    cli_field_text(w, "fingerprint", stw_str_of(stw_graph_fingerprint(t->graph)));
    stw_json_end_object(w);
    stw_json_write_key(w, "machine");
    stw_machine_write(t->machine, w);
    stw_json_write_key(w, "tasks");
    stw_json_begin_array(w);
    for (int k = 0; k < 2; k++) {
        if (t->settings->tasks & (1u << k)) stw_json_write_string(w, stw_str_of(task_name[k]));
    }
    stw_json_end_array(w);
    cli_field_text(w, "method", t->row->best < 0 ? (stw_str){0} : stw_str_of(candidate_of(t)->method));
    cli_field_int(w, "seed", (int64_t)t->settings->seed);
    cli_field_text(w, "objective", stw_str_of(stw_objective_name[t->settings->objective]));
}

static void write_numbers(stw_json_writer *w, const cli_training *t) {
    const stw_candidate *best = candidate_of(t);
    cli_field_double(w, "value", best->value);
    cli_field_double(w, "step_s", best->step_s);
    write_flag(w, "valid", best->valid);
    cli_field_double(w, "lower_bound_s", t->row->bounds.plan_s);
    cli_field_double(w, "lower_bound_fusion_s", t->row->bounds.fusion_s);
    cli_field_double(w, "measured_share", t->row->measured_share);
    stw_json_write_key(w, "peak_bytes");
    stw_json_begin_array(w);
    for (int32_t d = 0; best->peak_bytes != NULL && d < t->row->device_count; d++) stw_json_write_int64(w, best->peak_bytes[d]);
    stw_json_end_array(w);
}

void cli_write_training(const cli_training *t) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    write_head(&w, t);
    write_numbers(&w, t);
    cli_field_text(&w, "preset", stw_str_of(preset_of(t)));
    cli_field_int(&w, "updates", t->updates);
    cli_field_int(&w, "evaluations", candidate_of(t)->evaluations);
    cli_field_double(&w, "search_s", candidate_of(t)->search_s);
    write_flag(&w, "interrupted", t->row->interrupted);
    cli_field_text(&w, "note", stw_str_of(candidate_of(t)->note));
    cli_field_text(&w, "policy", text_or_null(t->policy));
    cli_field_text(&w, "curve", text_or_null(t->curve_file));
    cli_field_text(&w, "best", text_or_null(t->best_file));
    stw_json_end_object(&w);
    printf("\n");
}
