/* `stowage train --corpus --learn proposals`: what anneal proposes moves by. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "pretrain/proposals.h"
#include "search.h"

static const double RATE = 5e-3; /* of learning, where none is given */

typedef struct job {
    const cli_call *call;
    const char *file;
    stw_settings settings;
    stw_cancel *cancel;
    stw_corpus *corpus;
    stw_pool *pool;
    stw_proposals_training *training;
    bool interrupted;
} job;

static stw_status check_arguments(job *j, stw_error *error) {
    static const char *const others[] = {"resume",     "curve", "network", "sum",    "budget",   "machine", "costs",
                                         "memory",     "shape", "best",    "reward", "preset",   "tasks",   "initial-plans",
                                         "warm-start", "units", "rule",    "fusion", "objective"};
    const stw_options *options = j->call->options;
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        if (stw_options_is_given(options, others[k]))
            return stw_fail(error, STW_ERROR_INPUT, "--%s does not go with --learn proposals", others[k]);
    }
    if (j->call->operand_count > 0)
        return stw_fail(error, STW_ERROR_INPUT, "with --corpus, graphs are named there: --corpus all,%s", j->call->operand[0]);
    j->file = stw_options_get(options, "output");
    if (j->file == NULL) return stw_fail(error, STW_ERROR_INPUT, "train needs a file for what is learnt: -o FILE");
    if (cli_is_dash(j->file)) return stw_fail(error, STW_ERROR_INPUT, "it cannot be written to '-' (standard output)");
    TRY(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &j->settings, error));
    if (j->settings.policy.updates == 0)
        return stw_fail(error, STW_ERROR_INPUT,
                        "--learn proposals needs --updates, how often problems are drawn and all is fitted "
                        "anew");
    return STW_OK;
}

static void show(const job *j, const stw_proposals_row *row) {
    if (cli_wants_json(j->call)) {
        stw_json_writer json;
        stw_json_writer_init(&json, stdout);
        stw_json_begin_object(&json);
        stw_json_field_int64(&json, "update", row->update);
        stw_json_field_int64(&json, "problems", row->problems);
        stw_json_field_int64(&json, "examples", row->examples);
        stw_json_field_int64(&json, "helped", row->helped);
        if (isfinite(row->auc)) stw_json_field_double(&json, "auc", row->auc);
        if (isfinite(row->auc)) stw_json_field_double(&json, "least_auc", row->least_auc);
        stw_json_field_double(&json, "loss", row->loss);
        stw_json_field_double(&json, "seconds", row->seconds);
        stw_json_end_object(&json);
        printf("\n");
    } else {
        printf("update %s: %s moves of %s problems, ", cli_count(row->update + 1).text, cli_count(row->examples).text,
               cli_count(row->problems).text);
        printf("%.2f %% helped; loss %.4f", 100.0 * (double)row->helped / fmax((double)row->examples, 1.0), row->loss);
        if (isfinite(row->auc)) printf("; the scorer before ranks them with AUC %.3f (worst %.3f)", row->auc, row->least_auc);
        printf("; %.0f s\n", row->seconds);
    }
    fflush(stdout);
}

static stw_status train(job *j, stw_error *error) {
    for (int64_t update = 0; update < j->settings.policy.updates; update++) {
        stw_proposals_row row;
        const stw_status status = stw_proposals_update(j->training, &row, error);
        if (status == STW_ERROR_CANCELLED) {
            j->interrupted = true;
            break;
        }
        TRY(status);
        show(j, &row);
        TRY(stw_scorer_write(stw_proposals_scorer(j->training), j->file, error));
    }
    if (stw_proposals_scorer(j->training) == NULL) cli_warn("interrupted before the first update: nothing was written");
    return STW_OK;
}

static stw_status run(job *j, stw_error *error) {
    const stw_options *options = j->call->options;
    const stw_corpus_wish wish = {.families = stw_options_get(options, "corpus"),
                                  .hold_out = stw_options_get(options, "hold-out"),
                                  .limits = stw_options_file_limits(options)};
    const stw_proposals_settings settings = {
        .seed = j->settings.seed,
        .problems = (int32_t)stw_options_number(options, "problems", 16),
        .rate = j->settings.policy.learning_rate >= 0.0 ? j->settings.policy.learning_rate : RATE,
        .cancel = j->cancel};
    TRY(stw_corpus_open(&wish, &j->corpus, error));
    TRY(stw_pool_create(j->settings.threads, &j->pool, error));
    TRY(stw_proposals_create(&settings, j->corpus, j->pool, &j->training, error));
    return train(j, error);
}

int cli_train_proposals(const cli_call *call) {
    stw_error error;
    job j = {.call = call};
    stw_status status = check_arguments(&j, &error);
    if (status == STW_OK) status = cli_interrupt_begin(&j.cancel, &error);
    if (status != STW_OK) return cli_fault(&error);
    status = run(&j, &error);
    stw_proposals_destroy(j.training);
    stw_pool_destroy(j.pool);
    stw_corpus_close(j.corpus);
    cli_interrupt_end(j.cancel);
    cli_release_interrupts();
    return status != STW_OK ? cli_fault(&error) : j.interrupted ? CLI_INTERRUPTED : CLI_DONE;
}
