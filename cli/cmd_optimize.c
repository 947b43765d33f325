/* `stowage optimize`: the best plan within a budget. */
#include <math.h>
#include <string.h>

#include "search.h"

typedef struct outcome {
    const cli_row *row;
    const stw_settings *settings;
    stw_noise noise;
    bool optimal;
    const char *limits;                         /* "": none */
    const char *output, *trace, *report, *plot; /* files that were written, or NULL */
} outcome;

/* ---- the report: the candidates, then the winner beside the default and beside what no plan can beat ---- */

/* What the default is, in words. */
static const char *describe_default(const outcome *o) {
    static const char unfused[] = "nothing fused";
    const stw_candidate *standard = &o->row->candidate[0];
    if (strcmp(standard->method, "given") == 0) return "the plan that was given";
    const bool none = o->settings->fusion == 0; /* the rule `none` */
    if (!(o->settings->tasks & STW_TASK_FUSION) || none) return "single, topological order";
    return strncmp(standard->note, unfused, strlen(unfused)) == 0 ? "single, topological order, nothing fused"
                                                                  : "single, topological order, fusion by rule";
}

static void add_default(cli_table *table, const outcome *o) {
    const stw_candidate *standard = &o->row->candidate[0];
    const stw_objective objective = o->settings->objective;
    cli_table_add(table, CLI_PLAIN, "default");
    if (!standard->valid) {
        cli_table_add(table, CLI_RED, "not valid; %s", standard->reason);
    } else {
        cli_table_add(table, CLI_PLAIN, "%s (%s)", cli_row_value(o->row, objective, standard->value, 5).text,
                      describe_default(o));
    }
}

/* Each ratio with its definition: the two are easily taken for each other. */
static void add_ratios(cli_table *table, const outcome *o) {
    const stw_candidate *best = &o->row->candidate[o->row->best], *standard = &o->row->candidate[0];
    if (!standard->valid || best->value <= 0.0 || standard->value <= 0.0) return;
    const bool is_time = o->settings->objective != STW_OBJECTIVE_MEMORY;
    if (is_time) {
        cli_table_add(table, CLI_PLAIN, "speed-up");
        cli_table_add(table, CLI_PLAIN, "%.3f (speed-up = t_ref / t, the default being t_ref%s)", standard->value / best->value,
                      o->settings->objective == STW_OBJECTIVE_THROUGHPUT ? "; t: the largest load" : "");
    }
    cli_table_add(table, CLI_PLAIN, "reduction");
    cli_table_add(table, CLI_PLAIN, "%s (reduction = 1 - %s)", cli_percent(1.0 - best->value / standard->value).text,
                  is_time ? "t / t_ref" : "peak / peak of the default");
}

/* A bound of nothing is none: where everything may be fused away, or nothing takes time. */
static void add_bound(cli_table *table, const char *name, const char *what, double bound_s, double seconds) {
    if (bound_s <= 0.0) return;
    cli_table_add(table, CLI_PLAIN, "%s", name);
    cli_table_add(table, CLI_PLAIN, "%s; the %s is %s above it", cli_time(bound_s, 5).text, what,
                  cli_percent(seconds / bound_s - 1.0).text);
}

/* Of the objective; of the step beside, unless that is the objective. */
static void add_bounds(cli_table *table, const outcome *o) {
    const stw_candidate *best = &o->row->candidate[o->row->best];
    const stw_bounds *bounds = &o->row->bounds;
    const stw_objective objective = o->settings->objective;
    if (objective == STW_OBJECTIVE_MEMORY && bounds->peak_bytes > 0) {
        cli_table_add(table, CLI_PLAIN, "lower bound");
        cli_table_add(table, CLI_PLAIN, "%s; the peak is %s above it", cli_row_bytes(o->row, (double)bounds->peak_bytes).text,
                      cli_percent(best->value / (double)bounds->peak_bytes - 1.0).text);
    }
    if (objective == STW_OBJECTIVE_THROUGHPUT) {
        add_bound(table, "lower bound", "load", bounds->load_s, best->value);
        add_bound(table, "  with any fusion", "load", bounds->load_fusion_s, best->value);
    }
    add_bound(table, objective == STW_OBJECTIVE_TIME ? "lower bound" : "bound of the step", "step", bounds->plan_s, best->step_s);
    add_bound(table, "  with any fusion", "step", bounds->fusion_s, best->step_s);
    if (bounds->plan_s > 0.0 && bounds->fusion_s <= 0.0 && (o->settings->tasks & STW_TASK_FUSION) != 0) {
        cli_table_add(table, CLI_PLAIN, "  with any fusion"); /* else the line above would seem to hold for it */
        cli_table_add(table, CLI_PLAIN, "not known");
    }
}

/* The best valid candidate before this one, or NULL. */
static const stw_candidate *best_before(const cli_row *row, int32_t index) {
    const stw_candidate *best = NULL;
    for (int32_t k = 0; k < index; k++) {
        const stw_candidate *c = &row->candidate[k];
        if (c->valid && (best == NULL || c->value < best->value)) best = c;
    }
    return best;
}

/* Whether learning was worth its time. */
static void add_policy(cli_table *table, const outcome *o) {
    const stw_objective objective = o->settings->objective;
    for (int32_t k = 1; k < o->row->candidate_count; k++) {
        const stw_candidate *policy = &o->row->candidate[k], *before = best_before(o->row, k);
        if (strncmp(policy->method, "go-", 3) != 0 || before == NULL) continue;
        char in_time[80] = "";
        if (!o->row->repeats) snprintf(in_time, sizeof in_time, " in %s", cli_time(policy->search_s, 2).text);
        cli_table_add(table, CLI_PLAIN, "policy");
        if (policy->valid && policy->value < before->value) {
            const double gain = 1.0 - policy->value / before->value;
            cli_table_add(table, CLI_PLAIN, "%s improved the best plan by %s%.2f %% (%s -> %s)%s", policy->method,
                          gain < 1e-4 ? "less than " : "", 100.0 * fmax(gain, 1e-4),
                          cli_row_value(o->row, objective, before->value, 4).text,
                          cli_row_value(o->row, objective, policy->value, 4).text, in_time);
        } else {
            cli_table_add(table, CLI_PLAIN, "%s did not improve on %s (%s)%s", policy->method, before->method,
                          cli_row_value(o->row, objective, before->value, 4).text, in_time);
        }
    }
}

/* " with times off by 5 % where measured, 31 % where modelled" */
static void tell_errors(const stw_noise *noise, char *out, size_t size) {
    const struct {
        double error;
        const char *where;
    } part[] = {{noise->measured_error, "where measured"},
                {noise->carried_error, "where carried over from another kind"},
                {noise->modelled_error, "where modelled"},
                {noise->fused_error, "where fused"}};
    size_t length = 0;
    out[0] = '\0';
    for (size_t k = 0; k < sizeof part / sizeof part[0] && length < size; k++) {
        if (isnan(part[k].error)) continue;
        length += (size_t)snprintf(out + length, size - length, "%s%.0f %% %s", length > 0 ? ", " : " with times off by ",
                                   100.0 * part[k].error, part[k].where);
    }
}

static void add_confidence(cli_table *table, const outcome *o) {
    if (o->optimal)
        cli_table_add_line(table, "proved",
                           o->limits[0] == '\0' ? "optimal: no plan is better" : "optimal: no plan within the limits is better");
    if (o->noise.draws > 0 && o->row->best > 0 && o->row->candidate[0].valid) {
        char errors[200];
        tell_errors(&o->noise, errors, sizeof errors);
        cli_table_add(table, CLI_PLAIN, "noise");
        cli_table_add(table, CLI_PLAIN, "ahead of the default in %d of %d draws%s", o->noise.ahead, o->noise.draws, errors);
    }
    cli_table_add(table, CLI_PLAIN, "measured");
    cli_table_add(table, CLI_PLAIN, "%s of the work", cli_percent(o->row->measured_share).text);
}

static bool uses_several(const stw_candidate *c, int32_t devices) {
    int32_t used = 0;
    for (int32_t d = 0; d < devices && c->peak_bytes != NULL; d++) used += c->peak_bytes[d] > 0;
    return used > 1;
}

/* Whether several devices are worth it. */
static void add_devices(cli_table *table, const outcome *o) {
    static const double HARDLY = 0.01;
    static const char stays[] = "stays on one device: ";
    const stw_candidate *best = &o->row->candidate[o->row->best], *one = &o->row->candidate[0];
    if (strncmp(best->note, stays, strlen(stays)) == 0) cli_table_add_line(table, "devices", best->note);
    if (o->settings->objective != STW_OBJECTIVE_TIME || !one->valid || strcmp(one->method, "single") != 0) return;
    if (!uses_several(best, o->row->device_count) || uses_several(one, o->row->device_count)) return;
    if (best->value <= (1.0 - HARDLY) * one->value) return;
    cli_table_add(table, CLI_PLAIN, "devices");
    cli_table_add(table, CLI_PLAIN, "several, for %.2g %% over one: hardly worth it (--min-gain 1%% keeps to one)",
                  100.0 * (1.0 - best->value / one->value));
}

static void print_winner(const outcome *o, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    const stw_candidate *best = &o->row->candidate[o->row->best];
    const stw_objective objective = o->settings->objective;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    cli_table_add(&table, CLI_PLAIN, "%s", cli_words[objective].quantity);
    cli_table_add(&table, CLI_BOLD, "%s by %s", cli_row_value(o->row, objective, best->value, 5).text, best->method);
    add_default(&table, o);
    add_ratios(&table, o);
    add_devices(&table, o);
    if (objective != STW_OBJECTIVE_TIME) cli_table_add_line(&table, "step time", cli_time(best->step_s, 5).text);
    add_bounds(&table, o);
    add_policy(&table, o);
    add_confidence(&table, o);
    if (o->output != NULL) cli_table_add_line(&table, "plan", o->output);
    if (o->trace != NULL) cli_table_add_line(&table, "trace", o->trace);
    if (o->report != NULL) cli_table_add_line(&table, "report", o->report);
    if (o->plot != NULL) cli_table_add_line(&table, "plot", o->plot);
    cli_table_print(&table, stdout);
}

static void print_how_to_repeat(const outcome *o) {
    if (o->settings->budget_s == 0.0) return;
    int64_t evaluations = 0;
    for (int32_t k = 0; k < o->row->candidate_count; k++) evaluations += o->row->candidate[k].evaluations;
    printf("\n  A budget of time does not repeat exactly. This much work does: --evaluations %lld --seed %llu\n",
           (long long)evaluations, (unsigned long long)o->settings->seed);
}

static void report_outcome(const outcome *o, stw_arena arena) {
    cli_heading("%s on %s: objective %s, budget %s%s", o->row->graph, o->row->machine, stw_objective_name[o->settings->objective],
                cli_budget(o->settings).text, o->row->interrupted ? "; interrupted, the best so far" : "");
    cli_print_candidates(o->row, o->settings->objective, true, CLI_TEXT, arena);
    if (o->row->best >= 0) {
        printf("\n");
        print_winner(o, arena);
    }
    print_how_to_repeat(o);
}

/* ---- the command ---- */

typedef struct job {
    const cli_call *call;
    stw_arena arena;
    const char *graph, *output, *trace, *report, *plot;
    stw_settings settings;
    double began_s; /* by the clock of the budget */
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
               .trace = stw_options_get(call->options, "trace"),
               .report = stw_options_get(call->options, "report"),
               .plot = stw_options_get(call->options, "plot")};
    if (cli_is_dash(j->graph) + cli_is_dash(machine) + cli_is_dash(costs) > 1) {
        return stw_fail(error, STW_ERROR_INPUT, "'-' (standard input) can be read only once");
    }
    if (cli_is_dash(j->output) && cli_is_dash(j->trace)) {
        return stw_fail(error, STW_ERROR_INPUT, "--output and --trace cannot both write to '-' (standard output)");
    }
    TRY(cli_check_report(call, error));
    TRY(stw_settings_read(call->options, STW_TASK_ALL, &j->settings, error));
    j->began_s = stw_clock_now_s(j->settings.clock);
    return STW_OK;
}

static stw_status search(job *j, stw_error *error) {
    cli_progress progress;
    cli_progress_begin(j->call, &progress, j->settings.objective);
    progress.size_scale = stw_graph_size_scale(stw_session_graph(j->session));
    stw_watch watch = {
        .progress = cli_progress_draw, .context = &progress, .spent_s = stw_clock_now_s(j->settings.clock) - j->began_s};
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
    const stw_simulator *simulator = stw_session_simulator(j->session);
    stw_export_io trace = {.path = j->trace};
    if (j->trace != NULL) TRY(stw_plan_export(simulator, plan, "trace", NULL, &trace, error));
    return j->report == NULL ? STW_OK : stw_plan_report(simulator, plan, j->result, j->call->options, j->report, error);
}

static void print_text(const job *j) {
    const outcome o = {.row = &j->row,
                       .settings = &j->settings,
                       .optimal = stw_result_is_optimal(j->result),
                       .limits = stw_result_limits(j->result),
                       .noise = stw_result_noise(j->result),
                       .output = j->output,
                       .trace = j->trace,
                       .report = j->report,
                       .plot = j->plot};
    report_outcome(&o, j->arena);
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
    TRY(cli_row_create(j->session, j->result, &j->arena, &j->row, error));
    j->row.repeats = j->settings.budget_s == 0.0;
    const stw_status drawn =
        j->plot != NULL && j->row.best >= 0 ? cli_plot_search(&j->row, &j->settings, j->arena, j->plot, error) : STW_OK;
    if (drawn != STW_OK) j->plot = NULL; /* a fault is told after the report, which says what was written */
    cli_release_interrupts();
    cli_warn_of_memory(&j->row, NULL);
    if (cli_is_dash(j->output) || cli_is_dash(j->trace)) return drawn; /* the report would spoil that file */
    stw_error later;
    const stw_status printed = print_report(j, drawn == STW_OK ? error : &later);
    return drawn == STW_OK ? printed : drawn;
}

int cmd_optimize(const cli_call *call) {
    stw_error error;
    job j;
    stw_status status = check_arguments(call, &j, &error);
    if (status == STW_OK) status = cli_session_open(call, j.graph, &j.session, &error);
    const bool dry = status == STW_OK && cli_is_set(call, "dry-run");
    if (dry) status = cli_dry_run_check(j.session, &j.settings, &error);
    if (dry && status == STW_OK) status = cli_dry_run_optimize(call, j.session, &j.settings, j.arena, &error);
    if (status == STW_OK && !dry) status = search(&j, &error);
    if (status == STW_OK && !dry) status = finish(&j, &error);
    const int exit_status = status != STW_OK ? cli_fault(&error) : dry ? CLI_DONE : cli_search_status(&j.row);
    stw_result_destroy(j.result);
    stw_session_destroy(j.session);
    return exit_status;
}
