/* Methods by themselves: one after the other, each with the whole budget; or just one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/runner.h"

/* The best of a whole search as one entry; the others go. */
static stw_status add_best_of(stw_runner *r, stw_result *inner, stw_result *result, stw_error *error) {
    stw_entry *entry;
    TRY(stw_entry_create("optimize", &entry, error));
    entry->began_s = r->began_s;
    entry->candidate.search_s = stw_runner_now_s(r) - r->began_s;
    entry->candidate.evaluations = r->evaluations;
    int64_t evaluations = 0;
    for (int32_t k = 0; k < inner->count; k++) {
        const stw_entry *part = inner->entry[k];
        stw_trail_append(&entry->trail, &part->trail, part->began_s - r->began_s, evaluations);
        evaluations += part->candidate.evaluations;
    }
    if (inner->best >= 0) {
        stw_entry *best = inner->entry[inner->best];
        entry->plan = best->plan;
        best->plan = NULL;
        entry->outcome.repaired = best->outcome.repaired;
        snprintf(entry->outcome.note, sizeof entry->outcome.note, "%.30s%s%.190s", best->candidate.method,
                 best->outcome.note[0] != '\0' ? ": " : "", best->outcome.note);
    } else {
        snprintf(entry->reason, sizeof entry->reason, "%.500s", inner->lacking);
    }
    return stw_runner_add(r, entry, result, error);
}

static stw_status run_optimize(stw_runner *r, stw_result *result, stw_error *error) {
    stw_result *inner = calloc(1, sizeof *inner);
    if (inner == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    *inner = (stw_result){.simulator = r->simulator, .settings = r->settings, .best = -1};
    stw_status status = stw_runner_settle(r, stw_runner_optimize(r, inner, error), inner, error);
    if (status == STW_OK) status = add_best_of(r, inner, result, error);
    stw_result_destroy(inner);
    return status;
}

/* Constructive methods all get the same rule; a search that decides priorities itself keeps its freedom unless a rule was asked
 * for. */
static stw_status run_named(stw_runner *r, const char *name, stw_result *result, stw_error *error) {
    r->began_s = stw_runner_now_s(r); /* each method has the whole budget */
    r->evaluations = 0;
    r->progress.has_plan = false;
    if (strcmp(name, "optimize") == 0) return run_optimize(r, result, error);
    const stw_method *method = stw_method_find(name);
    if (method == NULL) return stw_method_fail_unknown(name, error);
    const int32_t rule = method->kind == STW_METHOD_CONSTRUCTIVE ? stw_runner_rule(r) : r->settings.rule;
    return stw_runner_run(r, method, rule, stw_runner_share(r, 1.0), false, result, error);
}

static stw_status run_list(stw_runner *r, const char *methods, stw_result *result, stw_error *error) {
    char name[40];
    TRY(stw_runner_bound(r, result, error));
    for (const char *word = methods; word != NULL;) {
        const char *comma = strchr(word, ',');
        const size_t length = comma == NULL ? strlen(word) : (size_t)(comma - word);
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word);
        TRY(run_named(r, name, result, error));
        if (stw_runner_is_cancelled(r)) break;
        word = comma == NULL ? NULL : comma + 1;
    }
    if (result->best < 0) stw_runner_say_what_lacks(r, result);
    return STW_OK;
}

stw_status stw_compare(const stw_simulator *simulator, const char *methods, const stw_options *options, const stw_watch *watch,
                       stw_result **out, stw_error *error) {
    STW_NEED(simulator);
    STW_NEED(out);
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    if (methods == NULL) return stw_fail(error, STW_ERROR_INPUT, "compare needs the names of methods");
    TRY(stw_runner_open(simulator, options, STW_TASK_ALL, watch, NULL, &runner, &result, error));
    stw_status status = stw_runner_prepare(runner, NULL, error);
    if (status == STW_OK) status = stw_runner_settle(runner, run_list(runner, methods, result, error), result, error);
    if (status == STW_OK) stw_runner_finish(runner, result);
    return stw_runner_close(runner, status, result, out);
}

stw_status stw_method_run(const char *method, const stw_simulator *simulator, const stw_options *options, stw_plan **out,
                          stw_error *error) {
    STW_NEED(method);
    STW_NEED(simulator);
    STW_NEED(out);
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    const stw_method *found = stw_method_find(method);
    if (found == NULL) return stw_method_fail_unknown(method, error);
    TRY(stw_runner_open(simulator, options, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, NULL, NULL, &runner, &result, error));
    stw_status status = stw_runner_prepare(runner, NULL, error);
    if (status == STW_OK)
        status = stw_runner_run(runner, found, runner->settings.rule, stw_runner_share(runner, 1.0), false, result, error);
    if (status == STW_OK && runner->shortage.status != STW_OK) {
        status = stw_fail(error, STW_ERROR_MEMORY, "%s: %.400s", method, runner->shortage.message);
    } else if (status == STW_OK && result->entry[0]->plan == NULL) {
        status = stw_fail(error, STW_ERROR_NO_PLAN, "%s: %.400s", method, result->entry[0]->reason);
    }
    stw_runner_release(result);
    if (status == STW_OK) {
        *out = result->entry[0]->plan;
        result->entry[0]->plan = NULL;
    }
    stw_runner_destroy(runner);
    stw_result_destroy(result);
    return status;
}
