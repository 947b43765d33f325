/* `stowage train`: a policy for one graph on one machine, into a file. (For many graphs: train_many.c.) */
#include <math.h>

#include "base/file.h"
#include "policy/checkpoint.h"
#include "search.h"
#include "train_many.h"

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
    cli_progress_begin(&j->progress, j->settings.objective);
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
    const cli_training training = {.row = &j->row,
                                   .settings = &j->settings,
                                   .graph = stw_session_graph(j->session),
                                   .machine = stw_session_machine(j->session),
                                   .curve = &j->curve,
                                   .updates = j->updates,
                                   .policy = j->updates > 0 ? j->policy : NULL,
                                   .curve_file = j->curve_file,
                                   .best_file = stw_result_plan(j->result) == NULL ? NULL : j->best_file};
    if (cli_wants_json(j->call)) {
        cli_write_training(&training);
    } else {
        cli_report_training(&training, j->arena);
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
    static const char *const of_many[] = {"hold-out", "network", "problems", "sum"};
    stw_error error;
    if (stw_options_get(call->options, "corpus") != NULL) return cli_train_many(call);
    for (int k = 0; k < 4; k++) {
        if (!stw_options_is_given(call->options, of_many[k])) continue;
        stw_fail(&error, STW_ERROR_INPUT, "--%s goes with --corpus", of_many[k]);
        return cli_fault(&error);
    }
    if (call->operand_count == 1) return train_one(call);
    stw_fail(&error, STW_ERROR_INPUT, "train needs a graph, or --corpus for many; usage: stowage %s", call->command->usage);
    return cli_fault(&error);
}
