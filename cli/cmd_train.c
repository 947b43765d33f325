/* `stowage train`: a policy for one graph on one machine, into a file. (For many graphs: train_many.c.) */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "policy/checkpoint.h"
#include "search.h"

typedef struct training { /* of one policy; the row has one candidate */
    const cli_row *row;
    const stw_settings *settings;
    const stw_graph *graph;
    const stw_machine *machine;
    const cli_curve *curve;
    int64_t updates;
    const char *policy, *curve_file, *best_file; /* files that were written, or NULL */
} training;

static const char *preset_of(const training *t) {
    return t->settings->policy.preset[0] != '\0' ? t->settings->policy.preset : "default";
}

static const stw_candidate *candidate_of(const training *t) { return &t->row->candidate[0]; }

/* ---- the report for people: how far the policy is, what its best plan is worth, the learning curve as a small plot ---- */

static void add_outcome(cli_table *table, const training *t) {
    const stw_candidate *best = candidate_of(t);
    const stw_objective objective = t->settings->objective;
    const double bound_s = t->row->bounds.plan_s;
    cli_table_add(table, CLI_PLAIN, "%s", cli_words[objective].quantity);
    cli_table_add(table, CLI_BOLD, "%s", cli_row_value(t->row, objective, best->value, 5).text);
    if (objective != STW_OBJECTIVE_TIME) cli_table_add_line(table, "step time", cli_time(best->step_s, 5).text);
    cli_table_add(table, CLI_PLAIN, "lower bound");
    if (bound_s > 0.0) {
        cli_table_add(table, CLI_PLAIN, "%s; the step is %s above it", cli_time(bound_s, 5).text,
                      cli_percent(best->step_s / bound_s - 1.0).text);
    } else {
        cli_table_add(table, CLI_PLAIN, "%s", cli_time(bound_s, 5).text);
    }
}

static void print_curve(const training *t, stw_arena arena) {
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

static void report_training(const training *t, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    const stw_candidate *best = candidate_of(t);
    cli_table table;
    cli_heading("%s on %s: a policy, trained for objective %s%s", t->row->graph, t->row->machine,
                stw_objective_name[t->settings->objective], t->row->interrupted ? "; interrupted, as far as it came" : "");
    cli_table_begin(&table, &arena, columns, 2);
    cli_table_add_line(&table, "preset", preset_of(t));
    cli_table_add_line(&table, "updates", cli_count(t->updates).text);
    cli_table_add_line(&table, "evaluations", cli_count(best->evaluations).text);
    if (best->note[0] != '\0') cli_table_add_line(&table, "course", best->note);
    if (t->row->best >= 0) add_outcome(&table, t);
    if (t->policy != NULL) cli_table_add_line(&table, "policy", t->policy);
    if (t->curve_file != NULL) cli_table_add_line(&table, "curve", t->curve_file);
    if (t->best_file != NULL) cli_table_add_line(&table, "best plan", t->best_file);
    cli_table_print(&table, stdout);
    print_curve(t, arena);
}

/* ---- the report for programs ---- */

static stw_str text_or_null(const char *text) { return text == NULL ? (stw_str){0} : stw_str_of(text); }

/* Keys as in the head of a plan file. */
static void write_head(stw_json_writer *w, const training *t) {
    stw_json_field_text(w, "format", STW_STR("training"));
    stw_json_field_int64(w, "version", 1);
    stw_json_write_key(w, "graph");
    stw_json_begin_object(w);
    stw_json_field_text(w, "name", stw_str_of(t->row->graph));
    stw_json_field_text(w, "fingerprint", stw_str_of(stw_graph_fingerprint(t->graph)));
    stw_json_end_object(w);
    stw_json_write_key(w, "machine");
    stw_machine_write(t->machine, w);
    stw_json_write_key(w, "tasks");
    stw_tasks_write(t->settings->tasks, w);
    stw_json_field_text(w, "method", t->row->best < 0 ? (stw_str){0} : stw_str_of(candidate_of(t)->method));
    stw_json_field_int64(w, "seed", (int64_t)t->settings->seed);
    stw_json_field_text(w, "objective", stw_str_of(stw_objective_name[t->settings->objective]));
}

static void write_numbers(stw_json_writer *w, const training *t) {
    const stw_candidate *best = candidate_of(t);
    stw_json_field_double(w, "value", best->value);
    stw_json_field_double(w, "step_s", best->step_s);
    stw_json_field_bool(w, "valid", best->valid);
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

static void write_training(const training *t) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    write_head(&w, t);
    write_numbers(&w, t);
    stw_json_field_text(&w, "preset", stw_str_of(preset_of(t)));
    stw_json_field_int64(&w, "updates", t->updates);
    stw_json_field_int64(&w, "evaluations", candidate_of(t)->evaluations);
    stw_json_field_double(&w, "search_s", candidate_of(t)->search_s);
    stw_json_field_bool(&w, "interrupted", t->row->interrupted);
    stw_json_field_text(&w, "note", stw_str_of(candidate_of(t)->note));
    stw_json_field_text(&w, "policy", text_or_null(t->policy));
    stw_json_field_text(&w, "curve", text_or_null(t->curve_file));
    stw_json_field_text(&w, "best", text_or_null(t->best_file));
    stw_json_end_object(&w);
    printf("\n");
}

typedef struct job {
    const cli_call *call;
    stw_arena arena;
    const char *graph, *policy, *curve_file, *best_file;
    bool resumes;
    stw_settings settings;
    stw_session *session;
    stw_result *result;
    cli_row row;
    cli_progress progress;
    cli_curve curve;
    bool curve_is_cut;     /* there was no memory for all of it */
    stw_file_state before; /* of the policy's file */
    int64_t updates;       /* of the policy, this run's and those before */
} job;

/* ---- before ---- */

/* The number of updates that a policy file has behind it. */
static stw_status count_updates(const job *j, int64_t *out, stw_error *error) {
    stw_arena scratch = j->arena;
    stw_tensor_file file;
    TRY(stw_tensor_file_read(j->policy, &scratch, &file, error));
    if (!stw_tensor_file_dimension(&file, "train.update", out))
        return stw_fail(error, STW_ERROR_INPUT, "%s: has no state of a training", j->policy);
    return STW_OK;
}

/* What a resumed training needs is looked at before anything runs. */
static stw_status check_resume(job *j, stw_error *error) {
    int64_t begins = 0;
    if (!j->resumes) return STW_OK;
    if (j->settings.policy.updates == 0)
        return stw_fail(error, STW_ERROR_INPUT, "--resume needs --updates, the number that the training was begun with");
    TRY(count_updates(j, &begins, error));
    if (j->curve_file == NULL || cli_is_dash(j->curve_file)) return STW_OK;
    TRY(cli_curve_read(&j->curve, j->curve_file, error));
    cli_curve_cut(&j->curve, begins);
    return STW_OK;
}

static stw_status check_arguments(job *j, stw_error *error) {
    const stw_options *options = j->call->options;
    j->graph = j->call->operand[0];
    j->policy = stw_options_get(options, "output");
    j->curve_file = stw_options_get(options, "curve");
    j->best_file = stw_options_get(options, "best");
    j->resumes = cli_is_set(j->call, "resume");
    if (j->policy == NULL) return stw_fail(error, STW_ERROR_INPUT, "train needs a file for the policy: -o FILE");
    if (cli_is_dash(j->policy)) return stw_fail(error, STW_ERROR_INPUT, "a policy cannot be written to '-' (standard output)");
    if (cli_is_dash(j->graph) + cli_is_dash(stw_options_get(options, "machine")) +
            cli_is_dash(stw_options_get(options, "costs")) >
        1)
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    if (cli_is_dash(j->curve_file) && cli_is_dash(j->best_file))
        return stw_fail(error, STW_ERROR_INPUT, "--curve and --best cannot both write to '-' (standard output)");
    TRY(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &j->settings, error));
    if (j->settings.policy.updates > 0) j->settings.budget_s = 0.0;
    return check_resume(j, error);
}

/* ---- training ---- */

static void on_progress(void *context, const stw_progress *now) { cli_progress_draw(&((job *)context)->progress, now); }

static void on_update(void *context, const stw_curve_row *row) {
    job *j = context;
    j->curve_is_cut |= !cli_curve_add(&j->curve, row);
    j->progress.updates = row->update + 1;
    j->progress.greedy = row->greedy;
}

static stw_status train(job *j, stw_error *error) {
    j->before = stw_file_state_of(j->policy);
    cli_progress_begin(j->call, &j->progress, j->settings.objective);
    j->progress.size_scale = stw_graph_size_scale(stw_session_graph(j->session));
    j->progress.trains = true;
    j->progress.greedy = NAN;
    j->progress.update_budget = j->settings.policy.updates;
    stw_watch watch = {.progress = on_progress, .curve = on_update, .context = j};
    TRY(cli_interrupt_begin(&watch.cancel, error));
    const stw_status status = stw_train(stw_session_simulator(j->session), j->call->options, &watch, &j->result, error);
    cli_progress_clear(&j->progress);
    cli_interrupt_end(watch.cancel);
    return status;
}

/* ---- afterwards ---- */

static stw_status write_files(const job *j, stw_error *error) {
    const bool learnt = j->curve.count > 0; /* else an older curve, like an older policy, stays as it is */
    if (j->curve_file != NULL && (learnt || cli_is_dash(j->curve_file))) TRY(cli_curve_write(&j->curve, j->curve_file, error));
    if (j->best_file == NULL || stw_result_plan(j->result) == NULL) return STW_OK;
    return stw_result_write(j->result, j->best_file, false, error);
}

static void print_report(const job *j) {
    const training t = {.row = &j->row,
                        .settings = &j->settings,
                        .graph = stw_session_graph(j->session),
                        .machine = stw_session_machine(j->session),
                        .curve = &j->curve,
                        .updates = j->updates,
                        .policy = j->updates > 0 ? j->policy : NULL,
                        .curve_file = j->curve_file,
                        .best_file = stw_result_plan(j->result) == NULL ? NULL : j->best_file};
    if (cli_wants_json(j->call)) {
        write_training(&t);
    } else {
        report_training(&t, j->arena);
    }
}

/* Nothing is written before the first update; the file may then be an older one. */
static stw_status find_updates(job *j, stw_error *error) {
    const bool wrote = j->resumes || j->curve.count > 0 || j->curve_is_cut;
    if (j->row.short_of_memory && !j->resumes && stw_file_state_equal(j->before, stw_file_state_of(j->policy))) {
        cli_warn("out of memory before the first checkpoint: there is no policy yet");
        return STW_OK;
    }
    if (wrote) return count_updates(j, &j->updates, error);
    if (!j->row.interrupted)
        return stw_fail(error, STW_ERROR_INPUT,
                        "%s: no policy was written, since there was nothing to decide or no time for an update", j->policy);
    cli_warn("interrupted before the first update: there is no policy yet");
    return STW_OK;
}

/* Interrupts are held since the search: the files must be whole before the program can be ended. */
static stw_status finish(job *j, stw_error *error) {
    TRY(write_files(j, error));
    TRY(cli_row_create(j->session, j->result, &j->arena, &j->row, error));
    cli_warn_of_memory(&j->row, NULL);
    TRY(find_updates(j, error));
    cli_release_interrupts();
    if (j->curve_is_cut) cli_warn("out of memory: the learning curve is not complete");
    if (!cli_is_dash(j->curve_file) && !cli_is_dash(j->best_file)) print_report(j); /* it would spoil that file */
    return STW_OK;
}

static int train_one(const cli_call *call) {
    stw_error error;
    job j = {.call = call, .arena = call->arena};
    j.curve.arena = &j.arena;
    stw_status status = check_arguments(&j, &error);
    if (status == STW_OK) status = cli_session_open(call, j.graph, &j.session, &error);
    if (status == STW_OK) status = train(&j, &error);
    if (status == STW_OK) status = finish(&j, &error);
    const int exit_status = status == STW_OK ? cli_search_status(&j.row) : cli_fault(&error);
    stw_result_destroy(j.result);
    stw_session_destroy(j.session);
    return exit_status;
}

int cmd_train(const cli_call *call) {
    static const char *const of_many[] = {"hold-out", "learn", "network", "problems", "sum"};
    stw_error error;
    if (stw_options_get(call->options, "corpus") != NULL)
        return strcmp(stw_options_get(call->options, "learn"), "proposals") == 0 ? cli_train_proposals(call)
                                                                                 : cli_train_many(call);
    for (size_t k = 0; k < sizeof of_many / sizeof of_many[0]; k++) {
        if (!stw_options_is_given(call->options, of_many[k])) continue;
        stw_fail(&error, STW_ERROR_INPUT, "--%s goes with --corpus", of_many[k]);
        return cli_fault(&error);
    }
    if (call->operand_count == 1) return train_one(call);
    stw_fail(&error, STW_ERROR_INPUT, "train needs a graph, or --corpus for many; usage: stowage %s", call->command->usage);
    return cli_fault(&error);
}
