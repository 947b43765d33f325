/* `stowage train --corpus`: one policy for many graphs and machines, on as many processes as mpirun starts. */
#define _POSIX_C_SOURCE 200809L /* truncate */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "pretrain/pretrain.h"
#include "search.h"

static const double SAVE_S = 60.0; /* between checkpoints */

typedef struct job {
    const cli_call *call;
    const char *policy, *curve_file;
    bool resumes;
    stw_settings settings;
    stw_pretrain_settings wish;
    stw_comm *comm;
    stw_corpus *corpus;
    stw_pool *pool;
    stw_pretrain *pretrain;
    stw_cancel *cancel;
    cli_progress progress;
    FILE *curve;
    double saved_s;
    long curve_kept;         /* bytes of the curve up to where the generation began */
    stw_pretrain_row unseen; /* the last validation */
    bool interrupted;
} job;

/* ---- before ---- */

/* What features and tasks do not fix. */
static bool may_differ(const char *field) {
    static const char *const free[] = {"width",       "operator_width", "pair_width",    "sage_layers", "attention_layers",
                                       "heads",       "inner",          "segment",       "modulation",  "drafts",
                                       "score_width", "classes",        "fusion_classes"};
    for (size_t k = 0; k < sizeof free / sizeof free[0]; k++)
        if (strcmp(free[k], field) == 0) return true;
    return false;
}

static stw_status set_dimension(stw_policy_config *config, stw_str name, stw_str value, stw_error *error) {
    int32_t *at = NULL;
    const char *field;
    int64_t number = 0;
    for (int32_t k = 0; (field = stw_policy_config_field(k, config, &at)) != NULL; k++) {
        if (!stw_str_is(name, field) || !may_differ(field)) continue;
        if (!stw_str_to_int64(value, &number) || number < 0 || number > INT32_MAX)
            return stw_fail(error, STW_ERROR_INPUT, "--network: '%.*s' is not a number for %s", STW_STR_SHOW(value), field);
        *at = (int32_t)number;
        return STW_OK;
    }
    return stw_fail(
        error, STW_ERROR_INPUT,
        "--network: '%.*s' is nothing to choose; width, operator_width, pair_width, sage_layers, attention_layers, heads, "
        "inner, segment, modulation, drafts, score_width, classes and fusion_classes are",
        STW_STR_SHOW(name));
}

static stw_status set_network(stw_policy_config *config, const char *text, stw_error *error) {
    while (text != NULL && *text != '\0') {
        const size_t length = strcspn(text, ","), name = strcspn(text, "=,");
        if (name == length) return stw_fail(error, STW_ERROR_INPUT, "--network: '%.*s' is not KEY=N", (int)length, text);
        const stw_str value = {text + name + 1, (int64_t)(length - name - 1)};
        TRY(set_dimension(config, (stw_str){text, (int64_t)name}, value, error));
        text += length + (text[length] == ',');
    }
    return stw_policy_config_check(config, error);
}

static const char *preset_of(const job *j) {
    return j->settings.policy.preset[0] != '\0' ? j->settings.policy.preset : "default";
}

static stw_status refuse_others(const cli_call *call, stw_error *error) {
    static const char *const of_one_graph[] = {"machine",       "costs",      "memory", "shape",  "best",     "reward",
                                               "initial-plans", "warm-start", "rule",   "fusion", "objective"};
    static const char *const of_published[] = {"tasks", "units", "device-names"};
    for (size_t k = 0; k < sizeof of_one_graph / sizeof of_one_graph[0]; k++) {
        if (stw_options_is_given(call->options, of_one_graph[k]))
            return stw_fail(error, STW_ERROR_INPUT, "--%s is for the training on one graph, without --corpus", of_one_graph[k]);
    }
    const char *preset = stw_options_get(call->options, "preset");
    const bool published = preset != NULL && strcmp(preset, "default") != 0;
    for (size_t k = 0; k < sizeof of_published / sizeof of_published[0] && !published; k++) {
        if (stw_options_is_given(call->options, of_published[k]))
            return stw_fail(error, STW_ERROR_INPUT, "--%s with --corpus is for --preset paper and gdp", of_published[k]);
    }
    if (call->operand_count > 0)
        return stw_fail(error, STW_ERROR_INPUT, "with --corpus, graphs are named there: --corpus all,%s", call->operand[0]);
    return STW_OK;
}

static stw_status read_wish(job *j, stw_error *error) {
    const stw_options *options = j->call->options;
    TRY(refuse_others(j->call, error));
    TRY(stw_settings_read(options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &j->settings, error));
    TRY(stw_pretrain_preset(preset_of(j), j->settings.tasks, &j->wish, error));
    if (j->settings.policy.device_names == 0) j->wish.config.device_names = 0;
    j->wish.unit_count = j->settings.policy.unit_count;
    j->wish.seed = j->settings.seed;
    j->wish.updates = j->settings.policy.updates;
    j->wish.budget_s = j->settings.budget_s;
    j->wish.slots = (int32_t)stw_options_number(options, "problems", 16);
    j->wish.ordered = strcmp(stw_options_get(options, "sum"), "ordered") == 0;
    if (j->settings.policy.learning_rate >= 0.0) {
        j->wish.train.rate_end *= j->settings.policy.learning_rate / j->wish.train.rate;
        j->wish.train.rate = j->settings.policy.learning_rate;
    }
    if (j->resumes && j->wish.updates == 0)
        return stw_fail(error, STW_ERROR_INPUT, "--resume needs --updates, the number that the training was begun with");
    return set_network(&j->wish.config, stw_options_get(options, "network"), error);
}

static stw_status check_arguments(job *j, stw_error *error) {
    const stw_options *options = j->call->options;
    j->policy = stw_options_get(options, "output");
    j->curve_file = stw_options_get(options, "curve");
    j->resumes = cli_is_set(j->call, "resume");
    if (j->policy == NULL) return stw_fail(error, STW_ERROR_INPUT, "train needs a file for the policy: -o FILE");
    if (cli_is_dash(j->policy)) return stw_fail(error, STW_ERROR_INPUT, "a policy cannot be written to '-' (standard output)");
    return read_wish(j, error);
}

/* ---- training ---- */

static bool is_first(const job *j) { return stw_comm_rank(j->comm) == 0; }

static const char curve_head[] =
    "update,evaluations,seconds,difficulty,greedy,best,mean,spread,rate,sigma,gradient_norm,clipped,"
    "validation_greedy,validation_best,validation_constants,validation_moves\n";

/* Bytes of the curve so far that the policy has the updates of: a training that was killed may have written more. */
static stw_status measure_curve(const job *j, stw_arena arena, int64_t *kept, stw_error *error) {
    const char *end;
    stw_str text;
    *kept = 0;
    if (!j->resumes || stw_file_state_of(j->curve_file).size == 0) return STW_OK;
    TRY(stw_file_read(j->curve_file, &arena, &text, error));
    if (!stw_str_starts(text, curve_head))
        return stw_fail(error, STW_ERROR_INPUT, "%s: is no learning curve of such a training", j->curve_file);
    *kept = (int64_t)strlen(curve_head);
    while ((end = memchr(text.p + *kept, '\n', (size_t)(text.length - *kept))) != NULL) {
        if (strtoll(text.p + *kept, NULL, 10) >= stw_pretrain_updates(j->pretrain)) break;
        *kept = end + 1 - text.p;
    }
    return STW_OK;
}

static stw_status open_curve_file(job *j, stw_error *error) {
    stw_arena arena = {0};
    int64_t kept = 0;
    TRY(stw_arena_create(&arena, error));
    const stw_status status = measure_curve(j, arena, &kept, error);
    stw_arena_destroy(&arena);
    TRY(status);
    const bool is_cut = kept == 0 || truncate(j->curve_file, (off_t)kept) == 0;
    j->curve = is_cut ? fopen(j->curve_file, kept > 0 ? "a" : "w") : NULL;
    if (j->curve == NULL) return stw_fail(error, STW_ERROR_IO, "%s: cannot be written", j->curve_file);
    if (kept == 0) fputs(curve_head, j->curve);
    j->curve_kept = kept > 0 ? (long)kept : (long)strlen(curve_head);
    return STW_OK;
}

/* Rows of a generation that is given up go with it; where that cannot be done, --resume does it. */
static void cut_curve(const job *j) {
    if (j->curve == NULL || j->curve == stdout || j->wish.updates == 0) return;
    if (fflush(j->curve) == 0 && ftruncate(fileno(j->curve), (off_t)j->curve_kept) != 0) return;
}

static stw_status open_curve(job *j, stw_error *error) {
    if (j->curve_file == NULL || !is_first(j)) return STW_OK;
    if (!cli_is_dash(j->curve_file)) return open_curve_file(j, error);
    j->curve = stdout;
    fputs(curve_head, j->curve);
    return STW_OK;
}

static void write_number(FILE *file, double number) {
    char text[32] = "";
    if (isfinite(number)) stw_format_double(text, number);
    fprintf(file, ",%s", text);
}

static void write_row(FILE *file, const stw_pretrain_row *row) {
    const double number[] = {row->seconds,
                             row->difficulty,
                             row->greedy,
                             row->best,
                             row->mean,
                             row->spread,
                             row->rate,
                             row->sigma,
                             row->gradient_norm,
                             row->clipped,
                             row->validation_greedy,
                             row->validation_best,
                             row->validation_constants,
                             row->validation_moves};
    fprintf(file, "%" PRId64 ",%" PRId64, row->update, row->evaluations);
    for (size_t k = 0; k < sizeof number / sizeof number[0]; k++) write_number(file, number[k]);
    fputc('\n', file);
    if (isfinite(row->validation_greedy)) fflush(file);
}

static void show(job *j, const stw_pretrain_row *row) {
    char text[160];
    if (isfinite(row->validation_greedy)) j->unseen = *row;
    if (!is_first(j)) return;
    if (j->curve != NULL) write_row(j->curve, row);
    const double share = j->wish.updates > 0 ? (double)(row->update + 1) / (double)j->wish.updates
                                             : fmin(1.0, row->seconds / fmax(j->wish.budget_s, 1e-9));
    snprintf(text, sizeof text, "update %s  greedy %.3f  best %.3f  unseen: greedy %.3f, best %.3f",
             cli_count(row->update + 1).text, row->greedy, row->best, j->unseen.validation_greedy, j->unseen.validation_best);
    cli_progress_say(&j->progress, share, text);
}

/* Before the first generation is over there is nothing to keep but how the training begins, which is not worth an older file. */
static stw_status save(job *j, stw_error *error) {
    if (!is_first(j)) return STW_OK;
    if (stw_pretrain_updates(j->pretrain) == 0 && (j->wish.updates == 0 || stw_file_state_of(j->policy).size > 0)) {
        if (!j->resumes) cli_warn("ended before the first generation was over: no policy was written");
        return STW_OK;
    }
    j->saved_s = stw_now_s();
    return stw_pretrain_save(j->pretrain, j->wish.updates > 0, j->policy, error);
}

/* Everybody stops after the same update, which must be one that can be gone on from. */
static stw_status is_interrupted(job *j, bool *out, stw_error *error) {
    *out = stw_cancel_is_requested(j->cancel);
    return stw_comm_any(j->comm, out, error);
}

static stw_status train(job *j, stw_error *error) {
    stw_pretrain_row row;
    bool over = false;
    j->saved_s = -INFINITY; /* the first as soon as there is one */
    while (!over) {
        TRY(stw_pretrain_step(j->pretrain, &row, &over, error));
        if (over) break;
        show(j, &row);
        if (!stw_pretrain_may_save(j->pretrain)) continue;
        if (j->curve != NULL && j->curve != stdout) j->curve_kept = ftell(j->curve);
        TRY(is_interrupted(j, &j->interrupted, error));
        if (j->interrupted) return STW_OK;
        if (stw_now_s() - j->saved_s > SAVE_S) (void)save(j, NULL); /* the next time, perhaps; the last one counts */
    }
    return stw_pretrain_judge(j->pretrain, &j->unseen, error);
}

/* Whatever ends it, the file then has what can be gone on from: interrupted at once, or out of memory, the generation before. */
static stw_status train_and_save(job *j, stw_error *error) {
    const stw_status status = train(j, error);
    if (status == STW_ERROR_CANCELLED) j->interrupted = true;
    if (status == STW_ERROR_CANCELLED || status == STW_ERROR_MEMORY) cut_curve(j);
    if (status == STW_ERROR_MEMORY) (void)save(j, NULL);
    if (status != STW_OK && status != STW_ERROR_CANCELLED) return status;
    return stw_comm_agree(j->comm, save(j, error), error);
}

/* ---- the whole ---- */

static void report(const job *j, double seconds) {
    const double updates = (double)stw_pretrain_updates(j->pretrain);
    if (!is_first(j) || cli_is_dash(j->curve_file)) return;
    if (cli_wants_json(j->call)) {
        stw_json_writer json;
        stw_json_writer_init(&json, stdout);
        stw_json_begin_object(&json);
        stw_json_field_text(&json, "policy", stw_str_of(j->policy));
        stw_json_field_int64(&json, "updates", stw_pretrain_updates(j->pretrain));
        stw_json_field_int64(&json, "processes", stw_comm_size(j->comm));
        stw_json_field_double(&json, "seconds", seconds);
        stw_json_field_double(&json, "updates_per_s", updates / fmax(seconds, 1e-9));
        stw_json_field_int64(&json, "bytes_sent", stw_comm_traffic(j->comm));
        if (isfinite(j->unseen.validation_greedy)) {
            stw_json_field_double(&json, "unseen_greedy", j->unseen.validation_greedy);
            stw_json_field_double(&json, "unseen_best", j->unseen.validation_best);
        }
        if (isfinite(j->unseen.validation_moves)) {
            stw_json_field_double(&json, "unseen_constants", j->unseen.validation_constants);
            stw_json_field_double(&json, "unseen_moves", j->unseen.validation_moves);
        }
        stw_json_end_object(&json);
        printf("\n");
        return;
    }
    stw_write_escaped(stdout, stw_str_of(j->policy));
    printf(": %s updates of %d problems in %.1f s (%.2f a second, %d process%s)\n",
           cli_count(stw_pretrain_updates(j->pretrain)).text, j->wish.slots, seconds, updates / fmax(seconds, 1e-9),
           stw_comm_size(j->comm), stw_comm_size(j->comm) == 1 ? "" : "es");
    if (isfinite(j->unseen.validation_greedy) && !isfinite(j->unseen.validation_moves))
        printf(
            "on %d problems that it has not seen, over the best plan of other methods: one plan %.3f, the best of it and %d "
            "%.3f\n",
            j->wish.validations, j->unseen.validation_greedy, j->wish.train.samples, j->unseen.validation_best);
    if (isfinite(j->unseen.validation_moves))
        printf(
            "on %d problems that it has not seen, over the best plan of other methods: one plan %.3f, the best of %d %.3f, ten "
            "with moves "
            "%.3f; "
            "without a policy, the best of 60 constants %.3f\n",
            j->wish.validations, j->unseen.validation_greedy, j->wish.train.samples + 1 + j->wish.train.moves,
            j->unseen.validation_best, j->unseen.validation_moves, j->unseen.validation_constants);
}

static stw_status run(job *j, stw_error *error) {
    const stw_corpus_wish wish = {.families = stw_options_get(j->call->options, "corpus"),
                                  .hold_out = stw_options_get(j->call->options, "hold-out"),
                                  .limits = stw_options_file_limits(j->call->options)};
    const double began_s = stw_now_s();
    TRY(stw_comm_agree(j->comm, stw_corpus_open(&wish, &j->corpus, error), error));
    TRY(stw_pool_create(j->settings.threads, &j->pool, error));
    TRY(stw_pretrain_create(&j->wish, j->corpus, j->comm, j->pool, &j->pretrain, error));
    if (j->resumes) TRY(stw_comm_agree(j->comm, stw_pretrain_resume(j->pretrain, j->policy, error), error));
    TRY(stw_comm_agree(j->comm, open_curve(j, error), error));
    cli_progress_begin(j->call, &j->progress, STW_OBJECTIVE_TIME);
    const stw_status status = train_and_save(j, error);
    cli_progress_clear(&j->progress);
    if (status == STW_OK) report(j, stw_now_s() - began_s);
    return status;
}

static void close_all(job *j) {
    if (j->curve != NULL && j->curve != stdout) fclose(j->curve);
    stw_pretrain_destroy(j->pretrain);
    stw_pool_destroy(j->pool);
    stw_corpus_close(j->corpus);
    stw_comm_close(j->comm);
}

int cli_train_many(const cli_call *call) {
    stw_error error;
    job j = {.call = call, .unseen = {.validation_greedy = NAN, .validation_moves = NAN}};
    stw_status status = check_arguments(&j, &error);
    if (status == STW_OK) status = cli_interrupt_begin(&j.cancel, &error);
    j.wish.cancel = j.cancel;
    if (status != STW_OK) return cli_fault(&error);
    status = stw_comm_open(&j.comm, &error);
    if (status == STW_OK) status = run(&j, &error);
    if (status != STW_OK) stw_comm_give_up(j.comm); /* the others may not come */
    close_all(&j);
    cli_interrupt_end(j.cancel);
    cli_release_interrupts();
    return status != STW_OK ? cli_fault(&error) : j.interrupted ? CLI_INTERRUPTED : CLI_DONE;
}
