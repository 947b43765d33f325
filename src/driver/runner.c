#include "driver/runner.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "method/anneal/proposals.h"
#include "method/go/go.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"

stw_status stw_cancel_create(stw_cancel **out, stw_error *error) {
    STW_NEED(out);
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    atomic_init(&(*out)->requested, false);
    return STW_OK;
}

void stw_cancel_destroy(stw_cancel *cancel) { free(cancel); }
void stw_cancel_request(stw_cancel *cancel) {
    STW_NEED(cancel);
    atomic_store(&cancel->requested, true);
}

bool stw_cancel_is_requested(const stw_cancel *cancel) { return cancel != NULL && atomic_load(&cancel->requested); }

double stw_runner_now_s(const stw_runner *r) { return stw_clock_now_s(r->settings.clock); }

bool stw_runner_is_cancelled(const stw_runner *runner) {
    return runner->watch->cancel != NULL && atomic_load(&runner->watch->cancel->requested);
}

bool stw_runner_is_late(const stw_runner *r, double seconds) {
    const double most_s = (r->end_s > 0.0 ? 1.0 : 1.1) * r->settings.budget_s;
    return most_s > 0.0 && stw_runner_now_s(r) + seconds > r->began_s + most_s;
}

/* ---- making one ---- */

/* The initial plan. Rules that were asked for go with its placement too. */
static stw_status open_given(stw_runner *r, stw_error *error) {
    const stw_simulator *s = r->simulator;
    const bool regroups = r->fusing != NULL && r->settings.fusion >= 0;
    if (r->settings.given != NULL)
        TRY(stw_plan_copy(r->settings.given, &r->from, error));
    else
        TRY(stw_plan_open(r->settings.from, s->graph, s->machine, &r->from, error));
    r->from->method = STW_STR("given");
    r->from->graph = s->graph; /* of which the caller's may be another view */
    if (r->limited != NULL) TRY(stw_limited_take(r->limited, r->from, r->workspace[0], error));
    if (regroups || r->settings.rule >= 0) stw_plan_remove_orders(r->from);
    if (regroups) stw_fuse_by_rule(r->fusing->fuser[0], (stw_fusion)r->settings.fusion, r->from->device, r->from->group, NULL);
    if (r->settings.rule < 0) return STW_OK;
    return stw_rule_apply((stw_rule)r->settings.rule, s->costs, &s->unfused, r->from, r->arena, error);
}

static bool has_groups(const stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        if (plan->graph->kind[i] == STW_NODE_OP && plan->group[i] != i) return true;
    }
    return false;
}

/* What decides about fusion; or what keeps the groups of the initial plan. */
static stw_status open_fusing(stw_runner *r, const stw_stop *stop, stw_error *error) {
    if (!(r->settings.tasks & STW_TASK_FUSION)) return STW_OK;
    STW_TRY_NEW(&r->arena, r->fusing, 1, error);
    return stw_fusing_open(r->simulator, r->settings.fusion, r->groups_by, r->threads, stop, &r->arena, r->fusing, error);
}

static stw_status open_given_groups(stw_runner *r, stw_error *error) {
    if (r->fusing != NULL || !(r->settings.tasks & STW_TASK_PLACEMENT) || !has_groups(r->from)) return STW_OK;
    STW_TRY_NEW(&r->arena, r->given_groups, 1, error);
    return stw_fusing_open_groups(r->simulator, r->from->group, r->threads, &r->arena, r->given_groups, error);
}

static stw_status fill_runner(stw_runner *r, stw_error *error) {
    TRY(stw_arena_create(&r->arena, error));
    TRY(stw_pool_create(r->settings.threads, &r->pool, error));
    r->threads = stw_pool_threads(r->pool);
    STW_TRY_NEW(&r->arena, r->workspace, r->threads, error);
    STW_TRY_NEW(&r->arena, r->scratch, r->threads, error);
    for (int32_t t = 0; t < r->threads; t++) {
        TRY(stw_workspace_create(r->simulator, &r->workspace[t], error));
        TRY(stw_arena_create(&r->scratch[t], error));
    }
    return STW_OK;
}

stw_status stw_runner_prepare(stw_runner *r, const stw_stop *stop, stw_error *error) {
    TRY(open_fusing(r, stop, error));
    if (r->settings.from == NULL && r->settings.given == NULL) return STW_OK;
    TRY(open_given(r, error));
    return open_given_groups(r, error);
}

stw_status stw_runner_create(const stw_simulator *simulator, const stw_settings *settings, const stw_watch *watch,
                             stw_runner **out, stw_error *error) {
    static const stw_watch nobody = {0};
    *out = NULL;
    stw_runner *r = calloc(1, sizeof *r);
    if (r == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    r->simulator = simulator;
    r->settings = *settings;
    r->groups_by = STW_FUSION_DEFAULT;
    r->watch = watch == NULL ? &nobody : watch;
    r->began_s = stw_runner_now_s(r);
    const stw_status status = fill_runner(r, error);
    if (status != STW_OK) {
        stw_runner_destroy(r);
        return status;
    }
    *out = r;
    return STW_OK;
}

void stw_runner_destroy(stw_runner *r) {
    if (r == NULL) return;
    for (int32_t t = 0; t < r->threads && r->workspace != NULL; t++) stw_workspace_destroy(r->workspace[t]);
    for (int32_t t = 0; t < r->threads && r->scratch != NULL; t++) stw_arena_destroy(&r->scratch[t]);
    stw_plan_destroy(r->from);
    stw_plan_destroy(r->kept);
    if (r->fusing != NULL) stw_fusing_close(r->fusing);
    if (r->given_groups != NULL) stw_fusing_close(r->given_groups);
    stw_pool_destroy(r->pool);
    stw_arena_destroy(&r->arena);
    stw_limited_close(r->limited);
    free(r);
}

/* ---- telling the caller ---- */

static void report_progress(stw_runner *r) {
    if (r->watch->progress == NULL) return;
    r->reported_s = stw_runner_now_s(r);
    r->progress.elapsed_s = r->reported_s - r->began_s;
    r->progress.budget_s = r->settings.budget_s;
    r->progress.evaluation_budget = r->settings.evaluations;
    r->progress.evaluations = r->evaluations;
    if (r->running != NULL) r->progress.evaluations += (int64_t)atomic_load(&r->running->evaluations);
    r->watch->progress(r->watch->context, &r->progress);
}

static void on_tick(void *context) {
    stw_runner *r = context;
    if (stw_runner_now_s(r) - r->reported_s >= 0.1) report_progress(r);
}

/* A method tells what it found while it runs. */
static void note_found(stw_runner *r, const stw_score *score) {
    if (r->running == NULL || score->reason != STW_VALID) return;
    stw_trail_add(&r->entry->trail, (stw_found){.seconds = stw_runner_now_s(r) - r->entry->began_s,
                                                .evaluations = (int64_t)atomic_load(&r->running->evaluations),
                                                .value = score->value});
}

static void on_found(void *context, const stw_plan *plan, const stw_score *score) {
    stw_runner *r = context;
    if (r->limited != NULL && !stw_limited_is_in_line(r->limited, plan)) return; /* it will not stay so */
    note_found(r, score);
    if (score->reason != STW_VALID || (r->progress.has_plan && r->progress.best_value <= score->value)) return;
    r->progress.has_plan = true;
    r->progress.best_step_s = score->step_s;
    r->progress.best_value = score->value;
    if (r->running != NULL && r->kept != NULL) r->kept_for = stw_plan_assign(r->kept, plan, NULL) == STW_OK ? r->entry : NULL;
    report_progress(r);
}

static void on_curve(void *context, const stw_curve_row *row) {
    const stw_runner *r = context;
    r->watch->curve(r->watch->context, row);
}

/* ---- running a method ---- */

/* The plans so far, best first; those that lack memory come last. */
static int32_t list_starts(const stw_result *result, const stw_plan **out) {
    int32_t index[STW_MAX_ENTRIES], count = 0;
    for (int32_t k = 0; k < result->count; k++) {
        const stw_reason reason = result->entry[k]->score.reason;
        if (result->entry[k]->plan == NULL || (reason != STW_VALID && reason != STW_INVALID_MEMORY)) continue;
        int32_t place = count++;
        for (; place > 0 && stw_score_is_better(&result->entry[k]->score, &result->entry[index[place - 1]]->score); place--)
            index[place] = index[place - 1];
        index[place] = k;
    }
    for (int32_t k = 0; k < count; k++) out[k] = result->entry[index[k]]->plan;
    return count;
}

/* Of a large graph each plan takes much memory, and methods begin with three at most: the others are not kept, but for that of
 * the first entry, with which all are compared, of the best on one device, which several must outdo, and of the last, which may
 * become the first. */
static void drop_plans(const stw_runner *r, stw_result *result) {
    enum { LARGE_OPS = 50000, KEPT = 3 };
    const stw_plan *start[STW_MAX_ENTRIES];
    if (r->simulator->graph->op_count < LARGE_OPS) return;
    const int32_t count = list_starts(result, start), one = stw_runner_best_on_one(r, result);
    for (int32_t k = KEPT; k < count; k++) {
        for (int32_t e = 1; e < result->count - 1; e++) {
            if (result->entry[e]->plan != start[k] || e == one) continue;
            stw_plan_destroy(result->entry[e]->plan);
            result->entry[e]->plan = NULL;
        }
    }
}

/* Where the search begins by itself: with the plan that was given, if any. */
static int32_t list_given(const stw_runner *r, const stw_plan **out) {
    out[0] = r->from;
    return r->from != NULL;
}

static void fill_entry(stw_entry *entry, const stw_search *search) {
    entry->candidate.search_s = stw_search_now_s(search) - entry->began_s;
    entry->candidate.evaluations = (int64_t)atomic_load(&search->evaluations);
    entry->outcome = search->outcome;
}

/* The method ran out of memory: it leaves the best plan that it had found, if any. */
static void note_shortage(stw_runner *r, stw_entry *entry, const stw_error *shortage) {
    const bool says_so = strncmp(shortage->message, "out of memory", strlen("out of memory")) == 0;
    if (r->shortage.status == STW_OK) r->shortage = *shortage;
    if (r->kept_for == entry) {
        entry->plan = r->kept;
        r->kept = NULL;
        r->kept_for = NULL;
        snprintf(entry->outcome.note, sizeof entry->outcome.note, "out of memory; the best plan until then");
    } else {
        snprintf(entry->reason, sizeof entry->reason, "%s%.480s", says_so ? "" : "out of memory; ", shortage->message);
    }
}

static stw_status run_search(stw_runner *r, const stw_method *method, stw_search *search, stw_entry *entry, stw_error *error) {
    stw_error local = {0};
    if (r->kept == NULL && stw_plan_create(r->simulator->graph, r->simulator->machine, &r->kept, NULL) != STW_OK) r->kept = NULL;
    r->kept_for = NULL;
    entry->began_s = stw_runner_now_s(r);
    r->progress.method = method->name;
    r->running = search;
    r->entry = entry;
    report_progress(r);
    stw_status status = stw_plan_create(r->simulator->graph, r->simulator->machine, &entry->plan, &local);
    if (status == STW_OK) status = stw_method_apply(method, search, entry->plan, &local);
    if (status == STW_OK && r->limited != NULL) status = stw_limited_settle(r->limited, entry->plan, r->workspace[0], &local);
    r->running = NULL;
    r->evaluations += (int64_t)atomic_load(&search->evaluations);
    report_progress(r);
    fill_entry(entry, search);
    if (status == STW_OK) return STW_OK;
    stw_plan_destroy(entry->plan);
    entry->plan = NULL;
    if (status == STW_ERROR_MEMORY) {
        note_shortage(r, entry, &local);
        return STW_OK;
    }
    if (status == STW_ERROR_NO_PLAN) { /* that is an outcome */
        memcpy(entry->reason, local.message, sizeof local.message);
        return STW_OK;
    }
    if (error != NULL) *error = local;
    return status;
}

/* Training for a policy file, or for a given number of updates, continues. */
static double bound_for(const stw_runner *r, const stw_method *method, const stw_result *result) {
    const stw_policy_settings *wish = &r->settings.policy;
    const bool learns =
        method->kind == STW_METHOD_LEARNER || method->kind == STW_METHOD_RIVAL || method->kind == STW_METHOD_POLICY;
    return learns && (wish->file != NULL || wish->updates > 0) ? 0.0 : stw_runner_objective_bound(r, result);
}

/* With no initial plans. */
static stw_search search_of(stw_runner *r, int32_t rule, stw_budget budget) {
    return (stw_search){
        .simulator = r->simulator,
        .objective = r->settings.objective,
        .tasks = r->settings.tasks,
        .rule = rule < 0 && !(r->settings.tasks & STW_TASK_SCHEDULE) && r->from == NULL ? STW_RULE_TOPOLOGICAL : rule,
        .given = r->from,
        .given_groups = r->given_groups,
        .seed = r->settings.seed,
        .unit_count = r->settings.unit_count,
        .budget = budget,
        .pool = r->pool,
        .workspace = r->workspace,
        .scratch = r->scratch,
        .arena = r->arena,
        .cancelled = r->watch->cancel == NULL ? NULL : &r->watch->cancel->requested,
        .clock = r->settings.clock,
        .found = on_found,
        .policy = &r->settings.policy,
        .fusing = r->fusing,
        .tick = on_tick,
        .curve = r->watch->curve == NULL ? NULL : on_curve,
        .watch_context = r,
    };
}

/* What one method needed of memory, another may not need at the same place, nor do bounds. */
static void trim(stw_runner *r) {
    enum { WORTH_BYTES = 1 << 26 };
    stw_fusing_rest(r->fusing);
    stw_arena_trim(&r->arena, WORTH_BYTES);
    for (int32_t t = 0; t < r->threads; t++) {
        stw_arena_trim(&r->scratch[t], WORTH_BYTES);
        stw_workspace_trim(r->workspace[t]);
    }
}

stw_status stw_runner_run(stw_runner *r, const stw_method *method, int32_t rule, stw_budget budget, bool starts,
                          stw_result *result, stw_error *error) {
    const stw_plan *start[STW_MAX_ENTRIES];
    stw_entry *entry;
    TRY(stw_entry_create(method->name, &entry, error));
    entry->ran = method->name;
    stw_search search = search_of(r, rule, budget);
    search.bound = bound_for(r, method, result);
    search.start = start;
    search.start_count = starts && result->count > 0 ? list_starts(result, start) : list_given(r, start);
    stw_status status = run_search(r, method, &search, entry, error);
    trim(r);
    if (status != STW_OK) {
        stw_entry_destroy(entry);
        return status;
    }
    status = stw_runner_add(r, entry, result, error);
    trim(r);
    return status;
}

/* ---- entries ---- */

stw_status stw_entry_create(const char *method, stw_entry **out, stw_error *error) {
    stw_entry *entry = *out = calloc(1, sizeof *entry);
    if (entry == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    entry->candidate =
        (stw_candidate){.method = method, .reason = entry->reason, .step_s = NAN, .value = NAN, .note = entry->outcome.note};
    return STW_OK;
}

void stw_entry_destroy(stw_entry *entry) {
    stw_plan_destroy(entry->plan);
    stw_trail_free(&entry->trail);
    free(entry);
}

static stw_status judge_entry(stw_runner *r, stw_entry *entry, stw_error *error) {
    stw_evaluation evaluation;
    TRY(stw_simulate(r->simulator, entry->plan, r->workspace[0], &evaluation, error));
    entry->score = stw_score_of(r->settings.objective, r->workspace[0], &evaluation);
    strncpy(entry->reason, evaluation.message, sizeof entry->reason - 1);
    stw_candidate *candidate = &entry->candidate;
    candidate->valid = entry->score.reason == STW_VALID;
    candidate->reason = candidate->valid ? NULL : entry->reason;
    if (evaluation.peak_bytes == NULL) return STW_OK; /* then there are no numbers */
    candidate->step_s = entry->score.step_s;
    candidate->value = entry->score.value;
    candidate->peak_bytes = entry->peak_bytes;
    memcpy(entry->peak_bytes, evaluation.peak_bytes, (size_t)r->simulator->machine->device_count * sizeof(int64_t));
    return STW_OK;
}

static bool has_entry(const stw_result *result, const char *method) {
    int32_t k = 0;
    while (k < result->count && strcmp(result->entry[k]->candidate.method, method) != 0) k++;
    return k < result->count;
}

static void make_name_unique(const stw_result *result, stw_entry *entry) {
    char method[31]; /* a copy: it may be an earlier name of this kind */
    snprintf(method, sizeof method, "%.30s", entry->candidate.method);
    for (int run = 2; has_entry(result, entry->candidate.method); run++) {
        snprintf(entry->again, sizeof entry->again, "%s-%d", method, run);
        entry->candidate.method = entry->again;
    }
}

stw_status stw_runner_add(stw_runner *r, stw_entry *entry, stw_result *result, stw_error *error) {
    stw_status status = STW_OK;
    if (result->count == STW_MAX_ENTRIES) status = stw_fail(error, STW_ERROR_INPUT, "more than %d methods", STW_MAX_ENTRIES);
    make_name_unique(result, entry);
    if (status == STW_OK && entry->plan != NULL) {
        entry->plan->method = stw_str_of(entry->candidate.method);
        entry->plan->seed = (int64_t)r->settings.seed;
        stw_error local = {0};
        status = judge_entry(r, entry, &local);
        if (status == STW_ERROR_MEMORY) { /* nobody knows what it is worth, nor what an earlier one is */
            stw_plan_destroy(entry->plan);
            entry->plan = NULL;
            r->kept_for = NULL;
            note_shortage(r, entry, &local);
            status = STW_OK;
        } else if (status != STW_OK && error != NULL) {
            *error = local;
        }
    }
    if (status != STW_OK) {
        stw_entry_destroy(entry);
        return status;
    }
    const int32_t k = result->count++;
    result->entry[k] = entry;
    entry->candidate.seed = (int64_t)r->settings.seed;
    entry->candidate.repaired = entry->outcome.repaired;
    if (entry->candidate.valid)
        stw_trail_add(&entry->trail, (stw_found){entry->candidate.search_s, entry->candidate.evaluations, entry->score.value});
    entry->candidate.found = entry->trail.found;
    entry->candidate.found_count = entry->trail.count;
    if (entry->candidate.valid) {
        if (result->best < 0 || stw_score_is_better(&entry->score, &result->entry[result->best]->score)) result->best = k;
        on_found(r, entry->plan, &entry->score);
    }
    drop_plans(r, result);
    return STW_OK;
}

/* A better value is told; an equal one of the better kind needs no words. */
static void tell_tidied(stw_runner *r, stw_entry *entry, double before) {
    if (!entry->candidate.valid || entry->score.value >= before) return;
    stw_trail_add(&entry->trail, (stw_found){entry->candidate.search_s, entry->candidate.evaluations, entry->score.value});
    entry->candidate.found = entry->trail.found;
    entry->candidate.found_count = entry->trail.count;
    on_found(r, entry->plan, &entry->score);
}

stw_status stw_runner_tidy(stw_runner *r, double until, stw_result *result, stw_error *error) {
    stw_entry *best = result->entry[result->best];
    const double before = best->score.value;
    if (best == result->entry[0]) return STW_OK;                  /* what others are compared with stays as it is */
    if (r->limited != NULL && r->limited->in_line) return STW_OK; /* single stages that move would leave the line */
    stw_search search = search_of(r, r->settings.rule, stw_runner_share(r, until));
    const double began_s = stw_runner_now_s(r);
    TRY(stw_search_tidy(&search, best->plan, error));
    best->candidate.search_s += stw_runner_now_s(r) - began_s;
    best->candidate.evaluations += (int64_t)atomic_load(&search.evaluations);
    r->evaluations += (int64_t)atomic_load(&search.evaluations);
    TRY(judge_entry(r, best, error));
    tell_tidied(r, best, before);
    return STW_OK;
}

stw_status stw_runner_regroup(stw_runner *r, stw_result *result, stw_error *error) {
    const stw_entry *best = result->entry[result->best];
    stw_entry *entry;
    TRY(stw_entry_create("", &entry, error));
    const char *ending = strstr(best->candidate.method, "-unfused");
    const size_t length = ending == NULL ? strlen(best->candidate.method) : (size_t)(ending - best->candidate.method);
    snprintf(entry->again, sizeof entry->again, "%.*s-fused", (int)(length < 30 ? length : 30), best->candidate.method);
    entry->candidate.method = entry->again;
    entry->began_s = stw_runner_now_s(r);
    stw_search search = search_of(r, r->settings.rule, stw_runner_share(r, 1.0));
    stw_status status = stw_plan_create(r->simulator->graph, r->simulator->machine, &entry->plan, error);
    if (status == STW_OK) status = stw_plan_assign(entry->plan, best->plan, error);
    if (status == STW_OK) status = stw_fusing_choose(&search, entry->plan, error);
    r->evaluations += (int64_t)atomic_load(&search.evaluations);
    fill_entry(entry, &search);
    if (status == STW_OK) return stw_runner_add(r, entry, result, error);
    stw_entry_destroy(entry);
    return status;
}

/* ---- shares and rules ---- */

stw_budget stw_runner_budget(const stw_runner *r) {
    return (stw_budget){.evaluations = r->settings.evaluations,
                        .until_s = r->settings.budget_s > 0.0 ? r->began_s + r->settings.budget_s - r->end_s : 0.0,
                        .began = {.s = r->began_s}};
}

stw_budget stw_runner_share(const stw_runner *r, double share) {
    const stw_budget whole = stw_runner_budget(r), part = stw_budget_share(&whole, whole.began, share, STW_SHARE_DOWN);
    return stw_budget_rest(&part, r->evaluations);
}

int32_t stw_runner_rule(const stw_runner *r) {
    const stw_settings *settings = &r->settings;
    if (settings->rule >= 0) return settings->rule;
    if (!(settings->tasks & STW_TASK_SCHEDULE)) return r->from != NULL ? -1 : STW_RULE_TOPOLOGICAL;
    return settings->objective == STW_OBJECTIVE_MEMORY ? STW_RULE_DEPTH_FIRST : STW_RULE_UPWARD_RANK;
}

/* ---- from options to a result ---- */

stw_status stw_runner_settle(stw_runner *r, stw_status status, const stw_result *result, stw_error *error) {
    if (status == STW_ERROR_MEMORY && result->best >= 0) {
        if (r->shortage.status == STW_OK) stw_fail(&r->shortage, status, "%s", error != NULL ? error->message : "out of memory");
        return STW_OK;
    }
    bool any = false;
    for (int32_t k = 0; k < result->count; k++) any |= result->entry[k]->plan != NULL;
    if (status != STW_OK || any || r->shortage.status == STW_OK) return status;
    if (error != NULL) *error = r->shortage;
    return STW_ERROR_MEMORY;
}

void stw_runner_finish(stw_runner *r, stw_result *result) {
    result->interrupted = stw_runner_is_cancelled(r);
    result->short_of_memory = r->shortage.status != STW_OK;
    result->measured_share = result->best < 0 ? NAN : stw_measured_share(r->simulator, result->entry[result->best]->plan);
}

stw_status stw_runner_open(const stw_simulator *simulator, const stw_options *options, unsigned tasks, const stw_watch *watch,
                           const stw_clock *clock, stw_runner **runner, stw_result **result, stw_error *error) {
    stw_settings settings;
    *result = NULL;
    TRY(stw_settings_read(options, tasks, &settings, error));
    if (clock != NULL) settings.clock = clock;
    TRY(stw_pretrained_check(&settings.policy, error));
    TRY(stw_proposals_check(&settings.policy, error));
    stw_limited *limited;
    TRY(stw_limited_open(simulator, options, &limited, error));
    const stw_status status =
        stw_runner_create(limited != NULL ? limited->simulator : simulator, &settings, watch, runner, error);
    if (status != STW_OK) {
        stw_limited_close(limited);
        return status;
    }
    (*runner)->limited = limited;
    *result = calloc(1, sizeof **result);
    if (*result == NULL) {
        stw_runner_destroy(*runner);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    **result = (stw_result){.simulator = simulator, .settings = settings, .best = -1};
    const stw_status shown = stw_limits_show(options, &(*result)->limits, error);
    if (shown == STW_OK) return STW_OK;
    stw_runner_destroy(*runner);
    stw_result_destroy(*result);
    return shown;
}

void stw_runner_release(stw_result *result) {
    for (int32_t k = 0; k < result->count; k++)
        if (result->entry[k]->plan != NULL) result->entry[k]->plan->graph = result->simulator->graph;
}

stw_status stw_runner_close(stw_runner *runner, stw_status status, stw_result *result, stw_result **out) {
    stw_runner_release(result);
    stw_runner_destroy(runner);
    if (status == STW_OK) {
        *out = result;
    } else {
        stw_result_destroy(result);
    }
    return status;
}
