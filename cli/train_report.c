/* What `stowage train` tells: how far the policy is, what its best plan is worth, and the learning curve as a small plot. */
#include <math.h>
#include <string.h>

#include "search.h"

static const char *preset_of(const cli_training *t) {
    return t->settings->policy.preset[0] != '\0' ? t->settings->policy.preset : "default";
}

static const stw_candidate *candidate_of(const cli_training *t) { return &t->row->candidate[0]; }

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
    cli_table_add(table, CLI_BOLD, "%s", cli_row_value(t->row, objective, best->value, 5).text);
    if (objective != STW_OBJECTIVE_TIME) add_line(table, "step time", cli_time(best->step_s, 5).text);
    cli_table_add(table, CLI_PLAIN, "lower bound");
    if (bound_s > 0.0) {
        cli_table_add(table, CLI_PLAIN, "%s; the step is %s above it", cli_time(bound_s, 5).text,
                      cli_percent(best->step_s / bound_s - 1.0).text);
    } else {
        cli_table_add(table, CLI_PLAIN, "%s", cli_time(bound_s, 5).text);
    }
}

static void print_curve(const cli_training *t, stw_arena arena) {
    const cli_curve *curve = t->curve;
    double *best = STW_NEW(&arena, double, curve->count), *greedy = STW_NEW(&arena, double, curve->count);
    if (best == NULL || greedy == NULL || curve->count == 0) return;
    for (int64_t k = 0; k < curve->count; k++) {
        best[k] = curve->row[k].best;
        greedy[k] = curve->row[k].greedy;
    }
    cli_plot_print(&(cli_plot){.objective = t->settings->objective,
                               .series = {{'-', "best plan so far", best}, {'*', "plan of the policy without noise", greedy}},
                               .count = curve->count,
                               .axis = "update",
                               .first = curve->row[0].update + 1,
                               .last = curve->row[curve->count - 1].update + 1},
                   stdout);
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
    print_curve(t, arena);
}

/* ---- for programs ---- */

static void write_flag(stw_json_writer *w, const char *key, bool value) {
    stw_json_write_key(w, key);
    stw_json_write_bool(w, value);
}

static stw_str text_or_null(const char *text) { return text == NULL ? (stw_str){0} : stw_str_of(text); }

/* Keys as in the head of a plan file. */
static void write_head(stw_json_writer *w, const cli_training *t) {
    cli_field_text(w, "format", STW_STR("training"));
    stw_json_field_int64(w, "version", 1);
    stw_json_write_key(w, "graph");
    stw_json_begin_object(w);
    cli_field_text(w, "name", stw_str_of(t->row->graph));
    cli_field_text(w, "fingerprint", stw_str_of(stw_graph_fingerprint(t->graph)));
    stw_json_end_object(w);
    stw_json_write_key(w, "machine");
    stw_machine_write(t->machine, w);
    stw_json_write_key(w, "tasks");
    stw_tasks_write(t->settings->tasks, w);
    cli_field_text(w, "method", t->row->best < 0 ? (stw_str){0} : stw_str_of(candidate_of(t)->method));
    stw_json_field_int64(w, "seed", (int64_t)t->settings->seed);
    cli_field_text(w, "objective", stw_str_of(stw_objective_name[t->settings->objective]));
}

static void write_numbers(stw_json_writer *w, const cli_training *t) {
    const stw_candidate *best = candidate_of(t);
    stw_json_field_double(w, "value", best->value);
    stw_json_field_double(w, "step_s", best->step_s);
    write_flag(w, "valid", best->valid);
    stw_json_field_double(w, "lower_bound_s", t->row->bounds.plan_s);
    stw_json_field_double(w, "lower_bound_fusion_s", t->row->bounds.fusion_s);
    stw_json_field_double(w, "lower_bound_load_s", t->row->bounds.load_s);
    cli_field_bytes(w, "lower_bound_bytes", t->row->bounds.peak_bytes);
    stw_json_field_double(w, "measured_share", t->row->measured_share);
    stw_json_write_key(w, "peak_bytes");
    stw_json_begin_array(w);
    for (int32_t d = 0; best->peak_bytes != NULL && d < t->row->device_count; d++) stw_json_write_int64(w, best->peak_bytes[d]);
    stw_json_end_array(w);
    cli_field_texts(w, "warnings", t->row->warning, t->row->warning_count);
}

void cli_write_training(const cli_training *t) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    write_head(&w, t);
    write_numbers(&w, t);
    cli_field_text(&w, "preset", stw_str_of(preset_of(t)));
    stw_json_field_int64(&w, "updates", t->updates);
    stw_json_field_int64(&w, "evaluations", candidate_of(t)->evaluations);
    stw_json_field_double(&w, "search_s", candidate_of(t)->search_s);
    write_flag(&w, "interrupted", t->row->interrupted);
    cli_field_text(&w, "note", stw_str_of(candidate_of(t)->note));
    cli_field_text(&w, "policy", text_or_null(t->policy));
    cli_field_text(&w, "curve", text_or_null(t->curve_file));
    cli_field_text(&w, "best", text_or_null(t->best_file));
    stw_json_end_object(&w);
    printf("\n");
}
