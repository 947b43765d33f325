/* The search: the default first, then the constructive methods, then a search that improves the best of
 * them until the budget ends. What is returned is the best valid plan that was seen, so it is never worse than the default. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/starts.h"
#include "plan/plan.h"
#include "runner.h"

static const double CONSTRUCTIVE_SHARE = 0.4; /* of the budget; what is left is for improving */
static const double METHOD_SHARE = 0.35;      /* of what is left of that, for one method */
static const double EXACT_SHARE = 0.3;        /* for proving the optimum of a small graph, before anything else */
enum { EXACT_OPS = 20 };                      /* more than that is seldom proved in the time that people wait */

/* ---- the budget ---- */

/* What may be used until `share` of the budget is gone. */
static stw_budget share_of(const stw_runner *r, double share) {
    stw_budget budget = {0};
    if (r->settings.budget_s > 0.0) budget.until_s = r->began_s + share * r->settings.budget_s;
    if (r->settings.evaluations > 0) {
        const int64_t all = r->settings.evaluations; /* too large for a double, perhaps */
        const int64_t left = (share < 1.0 ? (int64_t)(share * (double)all) : all) - r->evaluations;
        budget.evaluations = left > 0 ? left : 1;
    }
    return budget;
}

static bool is_spent(const stw_runner *r, double share) {
    if (stw_runner_is_cancelled(r)) return true;
    if (r->settings.budget_s > 0.0 && stw_now_s() >= r->began_s + share * r->settings.budget_s) return true;
    return r->settings.evaluations > 0 && (double)r->evaluations >= share * (double)r->settings.evaluations;
}

/* ---- the steps ---- */

/* The rule that goes with placements: the one that was asked for; the default if the schedule is not ours to decide; else what
 * suits the objective. */
static int32_t rule_of(const stw_settings *settings) {
    if (settings->rule >= 0) return settings->rule;
    if (!(settings->tasks & STW_TASK_SCHEDULE)) return STW_RULE_TOPOLOGICAL;
    return settings->objective == STW_OBJECTIVE_MEMORY ? STW_RULE_DEPTH_FIRST : STW_RULE_UPWARD_RANK;
}

/* The best plan cannot be improved: the objective is the step time, and it meets the bound. */
static bool meets_bound(const stw_runner *r, const stw_result *result) {
    if (result->best < 0 || r->settings.objective != STW_OBJECTIVE_TIME) return false;
    return result->entry[result->best]->score.value <= result->bounds.plan_s * (1.0 + 1e-9);
}

static stw_status find_bounds(stw_runner *r, stw_result *result, stw_error *error) {
    if (result->bounds.plan_s > 0.0) return STW_OK;
    TRY(stw_lower_bounds(r->simulator, result->entry[0]->plan, &result->bounds, error));
    r->progress.lower_bound_s = result->bounds.plan_s;
    return STW_OK;
}

/* About 3 us per op. With little time, plans come first and the bound later. */
static bool is_slow_to_bound(const stw_runner *r) {
    return 3e-6 * r->simulator->graph->op_count > 0.05 * r->settings.budget_s && r->simulator->machine->device_count > 1;
}

static stw_status run_default(stw_runner *r, stw_result *result, stw_error *error) {
    TRY(stw_runner_run(r, &stw_method_single, STW_RULE_TOPOLOGICAL, share_of(r, CONSTRUCTIVE_SHARE), false, result, error));
    return r->settings.budget_s > 0.0 && is_slow_to_bound(r) ? STW_OK : find_bounds(r, result, error);
}

/* The last method may use up the share of the constructive ones; each before it leaves most of it to those that follow. */
static stw_budget slice_for(const stw_runner *r, bool last) {
    stw_budget budget = share_of(r, CONSTRUCTIVE_SHARE);
    if (last) return budget;
    const double now_s = stw_now_s();
    if (budget.until_s > 0.0) budget.until_s = now_s + METHOD_SHARE * (budget.until_s - now_s);
    if (budget.evaluations > 0) budget.evaluations = (int64_t)ceil(METHOD_SHARE * (double)budget.evaluations);
    return budget;
}

static stw_status run_constructive(stw_runner *r, stw_result *result, stw_error *error) {
    const stw_method *method;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method == &stw_method_single && (r->settings.tasks & STW_TASK_PLACEMENT)) continue; /* only its rule would be new */
        if (!stw_method_serves(method, r->settings.objective, r->settings.tasks)) continue;
        if (is_spent(r, CONSTRUCTIVE_SHARE) || meets_bound(r, result)) break;
        const stw_budget slice = slice_for(r, method == &stw_method_steer);
        TRY(stw_runner_run(r, method, rule_of(&r->settings), slice, true, result, error));
    }
    return STW_OK;
}

/* Small graphs are solved; where that is proved, there is nothing left to do. */
static stw_status run_exact(stw_runner *r, stw_result *result, stw_error *error) {
    const bool small = r->simulator->graph->op_count <= EXACT_OPS;
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    if (!small || r->settings.objective != STW_OBJECTIVE_TIME || r->settings.tasks != both || r->settings.rule >= 0)
        return STW_OK;
    if (is_spent(r, EXACT_SHARE) || meets_bound(r, result)) return STW_OK;
    TRY(stw_runner_run(r, &stw_method_exact, -1, share_of(r, EXACT_SHARE), true, result, error));
    result->optimal = result->entry[result->count - 1]->proved;
    return STW_OK;
}

/* Searches improve what there is; from a plan that only lacks memory they may still come to a valid one. */
static stw_status run_search(stw_runner *r, stw_result *result, double until, stw_error *error) {
    const stw_method *method;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind != STW_METHOD_SEARCH) continue;
        if (is_spent(r, until) || meets_bound(r, result)) break;
        TRY(stw_runner_run(r, method, r->settings.rule, share_of(r, until), true, result, error));
    }
    return STW_OK;
}

/* The share of the budget of time after which the noise check begins, which takes 64 evaluations. (A budget of evaluations is
 * for the search alone.) */
static double end_of_search(const stw_runner *r, const stw_result *result) {
    if (r->settings.budget_s <= 0.0 || result->entry[0]->evaluations == 0) return 1.0;
    const double evaluation_s = result->entry[0]->search_s / (double)result->entry[0]->evaluations;
    return 1.0 - fmin(0.1, 100.0 * evaluation_s / r->threads / r->settings.budget_s);
}

/* ---- no plan fits ---- */

static void say_what_lacks(const stw_runner *r, stw_result *result) {
    const stw_graph *graph = r->simulator->graph;
    const stw_entry *nearest = NULL;
    int64_t resident = 0, memory = 0;
    for (int32_t i = 0; i < graph->N; i++) resident += stw_node_is_resident(graph->kind[i]) ? graph->bytes[i] : 0;
    for (int32_t d = 0; d < r->simulator->machine->device_count && memory < resident; d++)
        memory += r->simulator->machine->device[d].memory_bytes;
    if (resident > memory) {
        snprintf(result->lacking, sizeof result->lacking,
                 "parameters and buffers take %" PRId64 " bytes, all devices together hold %" PRId64 ": %" PRId64
                 " bytes are missing",
                 resident, memory, resident - memory);
        return;
    }
    for (int32_t k = 0; k < result->count; k++) {
        const stw_entry *entry = result->entry[k];
        if (entry->plan == NULL || entry->score.reason != STW_INVALID_MEMORY) continue;
        if (nearest == NULL || stw_score_is_better(&entry->score, &nearest->score)) nearest = entry;
    }
    if (nearest == NULL) nearest = result->entry[0];
    snprintf(result->lacking, sizeof result->lacking, "the nearest plan (%s): %.400s", nearest->method, nearest->reason);
}

/* ---- the flow ---- */

stw_status stw_runner_optimize(stw_runner *r, stw_result *result, stw_error *error) {
    TRY(run_default(r, result, error));
    TRY(run_exact(r, result, error));
    if (!result->optimal) TRY(run_constructive(r, result, error));
    TRY(find_bounds(r, result, error));
    if (!result->optimal) TRY(run_search(r, result, end_of_search(r, result), error));
    if (meets_bound(r, result)) result->optimal = true;
    if (result->best < 0) say_what_lacks(r, result);
    return STW_OK;
}

static void finish(stw_runner *r, stw_result *result) {
    result->interrupted = stw_runner_is_cancelled(r);
    result->measured_share = result->best < 0 ? NAN : stw_measured_share(r->simulator, result->entry[result->best]->plan);
}

static stw_status create(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch, stw_runner **runner,
                         stw_result **result, stw_error *error) {
    stw_settings settings;
    *result = NULL;
    TRY(stw_settings_read(options, &settings, error));
    TRY(stw_runner_create(simulator, &settings, watch, runner, error));
    *result = calloc(1, sizeof **result);
    if (*result == NULL) {
        stw_runner_destroy(*runner);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    **result = (stw_result){.simulator = simulator, .settings = settings, .best = -1};
    return STW_OK;
}

/* Gives back the runner; the result only if something failed. */
static stw_status conclude(stw_runner *runner, stw_status status, stw_result *result, stw_result **out) {
    stw_runner_destroy(runner);
    if (status == STW_OK) {
        *out = result;
    } else {
        stw_result_destroy(result);
    }
    return status;
}

stw_status stw_optimize(const stw_simulator *simulator, const stw_options *options, const stw_watch *watch, stw_result **out,
                        stw_error *error) {
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    TRY(create(simulator, options, watch, &runner, &result, error));
    stw_status status = stw_runner_optimize(runner, result, error);
    if (status == STW_OK) finish(runner, result);
    if (status == STW_OK && result->best >= 0 && !result->interrupted) {
        status = stw_runner_try_noise(runner, result->entry[result->best]->plan, result->entry[0]->plan, result, error);
        result->interrupted = stw_runner_is_cancelled(runner);
    }
    return conclude(runner, status, result, out);
}

/* ---- methods by themselves ---- */

/* The best of a whole search as one entry; the others go. */
static stw_status add_best_of(stw_runner *r, stw_result *inner, stw_result *result, stw_error *error) {
    stw_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    entry->method = "optimize";
    entry->search_s = stw_now_s() - r->began_s;
    entry->evaluations = r->evaluations;
    if (inner->best >= 0) {
        stw_entry *best = inner->entry[inner->best];
        entry->plan = best->plan;
        best->plan = NULL;
        entry->repaired = best->repaired;
        snprintf(entry->note, sizeof entry->note, "%s: %.100s", best->method, best->note);
    } else {
        snprintf(entry->reason, sizeof entry->reason, "%.500s", inner->lacking);
    }
    return stw_runner_add(r, entry, result, error);
}

static stw_status run_optimize(stw_runner *r, stw_result *result, stw_error *error) {
    stw_result *inner = calloc(1, sizeof *inner);
    if (inner == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    *inner = (stw_result){.simulator = r->simulator, .settings = r->settings, .best = -1};
    stw_status status = stw_runner_optimize(r, inner, error);
    if (status == STW_OK) status = add_best_of(r, inner, result, error);
    stw_result_destroy(inner);
    return status;
}

/* Constructive methods all get the same rule; a search that decides priorities itself keeps its freedom unless a rule was asked
 * for. */
static stw_status run_named(stw_runner *r, const char *name, stw_result *result, stw_error *error) {
    r->began_s = stw_now_s(); /* each method has the whole budget */
    r->evaluations = 0;
    r->progress.has_plan = false;
    if (strcmp(name, "optimize") == 0) return run_optimize(r, result, error);
    const stw_method *method = stw_method_find(name);
    if (method == NULL) return stw_method_fail_unknown(name, error);
    const int32_t rule = method->kind == STW_METHOD_CONSTRUCTIVE ? rule_of(&r->settings) : r->settings.rule;
    return stw_runner_run(r, method, rule, share_of(r, 1.0), false, result, error);
}

/* The bounds do not depend on a plan whose ops are all alone. */
static stw_status bound_any_plan(stw_runner *r, stw_result *result, stw_error *error) {
    stw_plan *any;
    TRY(stw_plan_create(r->simulator->graph, r->simulator->machine, &any, error));
    const stw_status status = stw_lower_bounds(r->simulator, any, &result->bounds, error);
    stw_plan_destroy(any);
    r->progress.lower_bound_s = result->bounds.plan_s;
    return status;
}

static stw_status run_list(stw_runner *r, const char *methods, stw_result *result, stw_error *error) {
    char name[40];
    TRY(bound_any_plan(r, result, error));
    for (const char *word = methods; word != NULL;) {
        const char *comma = strchr(word, ',');
        const size_t length = comma == NULL ? strlen(word) : (size_t)(comma - word);
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), word);
        TRY(run_named(r, name, result, error));
        if (stw_runner_is_cancelled(r)) break;
        word = comma == NULL ? NULL : comma + 1;
    }
    if (result->best < 0) say_what_lacks(r, result);
    return STW_OK;
}

stw_status stw_compare(const stw_simulator *simulator, const char *methods, const stw_options *options, const stw_watch *watch,
                       stw_result **out, stw_error *error) {
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    if (methods == NULL) return stw_fail(error, STW_ERROR_INPUT, "compare needs the names of methods");
    TRY(create(simulator, options, watch, &runner, &result, error));
    stw_status status = run_list(runner, methods, result, error);
    if (status == STW_OK) finish(runner, result);
    return conclude(runner, status, result, out);
}

stw_status stw_method_run(const char *method, const stw_simulator *simulator, const stw_options *options, stw_plan **out,
                          stw_error *error) {
    stw_runner *runner;
    stw_result *result;
    *out = NULL;
    const stw_method *found = stw_method_find(method);
    if (found == NULL) return stw_method_fail_unknown(method, error);
    TRY(create(simulator, options, NULL, &runner, &result, error));
    stw_status status = stw_runner_run(runner, found, runner->settings.rule, share_of(runner, 1.0), false, result, error);
    if (status == STW_OK && result->entry[0]->plan == NULL) {
        status = stw_fail(error, STW_ERROR_NO_PLAN, "%s: %.400s", method, result->entry[0]->reason);
    }
    if (status == STW_OK) {
        *out = result->entry[0]->plan;
        result->entry[0]->plan = NULL;
    }
    stw_runner_destroy(runner);
    stw_result_destroy(result);
    return status;
}
