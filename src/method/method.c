#include "method/method.h"

#include <stdio.h>
#include <string.h>

#include "method/go/go.h"
#include "method/rehearse.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "sim/bounds.h"

/* ---- the table ---- */

static const stw_method *const methods[] = {
    &stw_method_single,    &stw_method_spread, &stw_method_topo,    &stw_method_random,    &stw_method_etf,
    &stw_method_expert,    &stw_method_metis,  &stw_method_heft,    &stw_method_sct,       &stw_method_balance,
    &stw_method_pack,      &stw_method_lean,   &stw_method_steer,   &stw_method_go_zero,   &stw_method_go_tune,
    &stw_method_go_one,    &stw_method_hdp,    &stw_method_placeto, &stw_method_stretches, &stw_method_express,
    &stw_method_shortlist, &stw_method_coarse, &stw_method_breed,   &stw_method_anneal,    &stw_method_exact,
};
enum { METHOD_COUNT = sizeof methods / sizeof methods[0] };

const stw_method *stw_method_at(int32_t index) { return index >= 0 && index < METHOD_COUNT ? methods[index] : NULL; }

const stw_method *stw_method_find(const char *name) {
    for (int k = 0; k < METHOD_COUNT; k++) {
        if (strcmp(methods[k]->name, name) == 0) return methods[k];
    }
    return NULL;
}

bool stw_method_list(int32_t index, const char **name, const char **description) {
    STW_NEED(name);
    const stw_method *method = stw_method_at(index);
    if (method == NULL) return false;
    *name = method->name;
    *description = method->description;
    return true;
}

bool stw_method_exists(const char *name) {
    STW_NEED(name);
    return stw_method_find(name) != NULL;
}

stw_status stw_method_fail_unknown(const char *name, stw_error *error) {
    char list[300] = "";
    size_t length = 0;
    for (int k = 0; k < METHOD_COUNT && length < sizeof list; k++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", k == 0 ? "" : ", ", methods[k]->name);
    }
    return stw_fail(error, STW_ERROR_INPUT, "unknown method '%s'; known: %s", name, list);
}

/* ---- plans of groups, reported as plans of ops ---- */

/* What a method reports about its plans of groups, passed on as plans of ops. Where priorities tie, a plan of ops may take
 * another time than that of groups, so each is judged, and the best of them can be had at the end. */

typedef struct {
    stw_search *outer;
    const stw_search *inner;
    const stw_fused *fused;
    stw_plan *trial, *best; /* of ops */
    stw_score score;        /* of `best`, if there is one */
    bool has_best;
} relay;

static void relay_close(relay *t) {
    stw_plan_destroy(t->trial);
    stw_plan_destroy(t->best);
    *t = (relay){0};
}

static stw_status relay_open(relay *t, stw_search *outer, const stw_fused *fused, stw_error *error) {
    *t = (relay){.outer = outer, .fused = fused};
    TRY(stw_plan_create(fused->outer->graph, fused->outer->machine, &t->trial, error));
    const stw_status status = stw_plan_create(fused->outer->graph, fused->outer->machine, &t->best, error);
    if (status != STW_OK) relay_close(t);
    return status;
}

/* The workspaces of the ops are not in use while a method runs on groups. */
static stw_status judge(relay *t, const stw_plan *of_groups, stw_score *score) {
    stw_workspace *workspace = t->outer->workspace[0];
    stw_evaluation evaluation;
    TRY(stw_fused_expand(t->fused, of_groups, t->trial, NULL));
    TRY(stw_simulate(t->outer->simulator, t->trial, workspace, &evaluation, NULL));
    *score = stw_score_of(t->outer->objective, workspace, &evaluation);
    stw_workspace_trim(workspace); /* the method goes on with its own */
    return STW_OK;
}

static void on_found(void *context, const stw_plan *of_groups, const stw_score *unused) {
    relay *t = context;
    stw_score score = {0};
    (void)unused;
    if (judge(t, of_groups, &score) != STW_OK || score.reason != STW_VALID) return;
    if (t->has_best && !stw_score_is_better(&score, &t->score)) return;
    if (stw_plan_assign(t->best, t->trial, NULL) != STW_OK) return;
    t->has_best = true;
    t->score = score;
    atomic_store(&t->outer->evaluations, atomic_load(&t->inner->evaluations));
    if (t->outer->found != NULL) t->outer->found(t->outer->watch_context, t->best, &score);
}

static void on_tick(void *context) {
    const relay *t = context;
    atomic_store(&t->outer->evaluations, atomic_load(&t->inner->evaluations));
    stw_search_tick(t->outer);
}

static void on_curve(void *context, const stw_curve_row *row) {
    const relay *t = context;
    t->outer->curve(t->outer->watch_context, row);
}

static void relay_watch(relay *t, stw_search *inner) {
    t->inner = inner;
    inner->found = on_found;
    inner->tick = on_tick;
    inner->curve = t->outer->curve == NULL ? NULL : on_curve;
    inner->watch_context = t;
}

/* ---- what was given ---- */

/* What is not among the tasks is as in the plan that was given. A strict order is for its devices: if they may change, its
 * priorities stand for it. */
static void keep_given(const stw_search *search, stw_plan *plan) {
    const stw_plan *given = search->given;
    if (given == NULL) return;
    const size_t N = (size_t)plan->graph->N;
    const bool places = search->tasks & STW_TASK_PLACEMENT;
    const bool orders = (search->tasks & STW_TASK_SCHEDULE) || search->rule >= 0; /* a rule was asked for */
    if (!places) memcpy(plan->device, given->device, N * sizeof *plan->device);
    if (!orders) memcpy(plan->priority, given->priority, N * sizeof *plan->priority);
    if (!(search->tasks & STW_TASK_FUSION)) memcpy(plan->group, given->group, N * sizeof *plan->group);
    if (places && !orders) stw_plan_remove_orders(plan);
}

/* ---- running a method on groups ---- */

/* The initial plans, as plans of groups. */
static stw_status reduce_starts(const stw_search *search, const stw_fused *fused, const stw_plan **out, stw_plan **owned,
                                int32_t *count, stw_error *error) {
    for (*count = 0; *count < search->start_count && *count < STW_MAX_STARTS; ++*count) {
        TRY(stw_plan_create(fused->graph, fused->outer->machine, &owned[*count], error));
        out[*count] = owned[*count];
        owned[*count]->method = search->start[*count]->method;
        stw_fused_reduce(fused, search->start[*count], owned[*count]);
        stw_plan_join(fused->simulator, owned[*count]);
    }
    return STW_OK;
}

static stw_status run_method(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    if (stw_method_rehearses(method, search)) TRY(stw_rehearse(method, search, error));
    return method->run(search, plan, error);
}

/* The devices that it finds for groups get groups of their own afterwards, which recompute and so hold far less: its plan is
 * repaired then. (What learns from its plans repairs some on the way, while its budget lasts.) */
static bool is_repaired_later(const stw_method *method, const stw_search *outer, const stw_fusing *by) {
    return method->kind == STW_METHOD_CONSTRUCTIVE && by == outer->fusing && by->rule < 0;
}

/* Policies use up their evaluations; these are for choosing groups for what they found. */
static void leave_some(stw_search *inner) {
    enum { TO_CHOOSE_GROUPS = 5 };
    if (inner->budget.evaluations / 2 > TO_CHOOSE_GROUPS) inner->budget.evaluations -= TO_CHOOSE_GROUPS;
}

static stw_status run_within(const stw_method *method, stw_search *outer, const stw_fusing *by, const stw_plan *const *start,
                             int32_t count, relay *via, stw_plan *of_groups, stw_error *error) {
    stw_search inner = stw_search_on_groups(outer, by->fused->simulator, by->workspace);
    inner.start = start;
    inner.start_count = count;
    inner.repairs_later = is_repaired_later(method, outer, by);
    if (method->kind == STW_METHOD_POLICY && by == outer->fusing && by->rule < 0) leave_some(&inner);
    relay_watch(via, &inner);
    const stw_status status = run_method(method, &inner, of_groups, error);
    atomic_store(&outer->evaluations, atomic_load(&inner.evaluations));
    outer->outcome.repaired = inner.outcome.repaired;
    memcpy(outer->outcome.note, inner.outcome.note, sizeof inner.outcome.note);
    return status;
}

/* The plan, or a better one that was reported on the way. */
static stw_status take_best(stw_search *search, const relay *via, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    if (!via->has_best) return STW_OK;
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    return stw_score_is_better(&via->score, &score) ? stw_plan_assign(plan, via->best, error) : STW_OK;
}

enum { WORTH_BYTES = 1 << 26 };

static void trim_all(const stw_search *search, stw_workspace *const *workspace) {
    for (int32_t t = 0; t < stw_pool_threads(search->pool); t++) stw_workspace_trim(workspace[t]);
}

static stw_status place_groups(const stw_method *method, stw_search *search, const stw_fusing *by, stw_plan *plan,
                               stw_error *error) {
    const stw_fused *fused = by->fused;
    const stw_plan *start[STW_MAX_STARTS];
    stw_plan *owned[STW_MAX_STARTS] = {NULL}, *of_groups;
    int32_t count = 0;
    relay via = {0};
    trim_all(search, search->workspace);
    TRY(stw_plan_create(fused->graph, fused->outer->machine, &of_groups, error));
    stw_status status = relay_open(&via, search, fused, error);
    if (status == STW_OK) status = reduce_starts(search, fused, start, owned, &count, error);
    if (status == STW_OK) status = run_within(method, search, by, start, count, &via, of_groups, error);
    trim_all(search, by->workspace);
    stw_arena_trim(&search->arena, WORTH_BYTES); /* what it prepared for itself */
    for (int32_t k = 0; k < STW_MAX_STARTS; k++) stw_plan_destroy(owned[k]);
    if (status == STW_OK) status = stw_fused_expand(fused, of_groups, plan, error);
    if (status == STW_OK) status = take_best(search, &via, plan, error);
    relay_close(&via);
    if (status == STW_OK) keep_given(search, plan);
    stw_plan_destroy(of_groups);
    return status;
}

/* A policy as published, whose plans nobody else has a part in: it decides groups, or leaves ops alone. */
static bool is_published(const stw_method *method, const stw_search *search) {
    return (method->kind == STW_METHOD_LEARNER || method->kind == STW_METHOD_POLICY) && stw_go_is_published(search, method);
}

/* Searches, `go-one` and `exact` decide about groups; where a rule is fixed only searches look after it. */
static bool decides_groups(const stw_method *method, const stw_search *search) {
    if (method->kind == STW_METHOD_SEARCH || method->kind == STW_METHOD_EXACT) return true;
    return search->fusing->rule < 0 && (method->kind == STW_METHOD_LEARNER || is_published(method, search));
}

/* What each group reads and writes fits on some device: else no placement of them is valid. */
static bool groups_fit(const stw_search *search, const stw_fusing *fusing) {
    const stw_machine *machine = search->simulator->machine;
    int64_t needed = 0;
    if (stw_bound_largest_task(fusing->fused->simulator, &fusing->fused->simulator->unfused, search->scratch[0], &needed, NULL) !=
        STW_OK)
        return true; /* the method will tell */
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (needed <= machine->device[d].memory_bytes) return true;
    }
    return false;
}

/* ---- first the groups as they are, then the groups too ---- */

static const double GROUPS_SHARE = 0.5; /* of the budget, for placing groups as one: there are far fewer of them than ops */

/* Worth it where much is placed; a policy that is kept in a file must see one problem only. */
static bool begins_on_groups(const stw_method *method, const stw_search *search) {
    const bool learns = method->kind == STW_METHOD_LEARNER;
    if (search->fusing == NULL || search->fusing->fused == NULL || (learns && search->fusing->rule >= 0)) return false;
    if (search->objective == STW_OBJECTIVE_MEMORY || !(search->tasks & STW_TASK_PLACEMENT)) return false;
    if (!(learns || method->kind == STW_METHOD_SEARCH) || !groups_fit(search, search->fusing)) return false;
    return !learns || search->policy == NULL || (search->policy->file == NULL && !is_published(method, search));
}

/* The second half begins with what the first has found: its note would speak of its own gain alone. */
static stw_status note_gain(const stw_method *method, stw_search *search, const stw_score *before, const stw_plan *plan,
                            stw_error *error) {
    stw_score after = {0};
    if (method->kind != STW_METHOD_SEARCH || before->reason != STW_VALID || before->value <= 0.0) return STW_OK;
    TRY(stw_search_evaluate(search, plan, 0, &after, error));
    snprintf(search->outcome.note, sizeof search->outcome.note, "%.2f %% better than the initial plan",
             100.0 * (1.0 - after.value / before->value));
    return STW_OK;
}

/* Places groups, then runs the method on the ops with that plan among the initial ones, before or after the best of them. */
static stw_status run_twice(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_budget whole = search->budget;
    const stw_plan *start[STW_MAX_STARTS];
    stw_plan *placed;
    stw_score score = {0}, best = {0};
    TRY(stw_plan_create(plan->graph, plan->machine, &placed, error));
    placed->method = stw_str_of(method->name);
    search->budget = stw_budget_share(&whole, stw_search_moment(search), GROUPS_SHARE, STW_SHARE_BESIDE_ONE);
    stw_status status = place_groups(method, search, search->fusing, placed, error);
    const bool none = status == STW_ERROR_NO_PLAN; /* of ops there may be one */
    if (status == STW_OK) status = stw_fusing_choose(search, placed, error);
    if (status == STW_OK) status = stw_search_evaluate(search, placed, 0, &score, error);
    if (status == STW_OK && search->start_count > 0) status = stw_search_evaluate(search, search->start[0], 0, &best, error);
    search->budget = whole;
    if (none) {
        status = method->run(search, plan, error);
        if (status == STW_OK) keep_given(search, plan);
    } else if (status == STW_OK) {
        const stw_plan *const *given = search->start;
        const int32_t given_count = search->start_count,
                      count = given_count < STW_MAX_STARTS - 1 ? given_count : STW_MAX_STARTS - 1;
        const int32_t at = count > 0 && !stw_score_is_better(&score, &best); /* behind the best, or before all */
        for (int32_t k = 0; k < count; k++) start[k < at ? k : k + 1] = given[k];
        start[at] = placed;
        search->start = start;
        search->start_count = count + 1;
        status = method->run(search, plan, error);
        if (status == STW_OK) keep_given(search, plan);
        search->start = given;
        search->start_count = given_count;
        if (status == STW_OK && given_count > 0) status = note_gain(method, search, &best, plan, error);
    }
    stw_plan_destroy(placed);
    return status;
}

/* ---- any method ---- */

/* The method places groups as one: those of the rule, or those that were given. */
static const stw_fusing *places_groups_of(const stw_method *method, const stw_search *search) {
    const stw_fusing *fusing = search->fusing;
    if (!(search->tasks & STW_TASK_PLACEMENT)) return NULL;
    if (fusing == NULL) return search->given_groups != NULL && search->given_groups->fused != NULL ? search->given_groups : NULL;
    if (search->objective == STW_OBJECTIVE_MEMORY && fusing->rule < 0) return NULL; /* a group holds all that it reads at once */
    if (fusing->fused == NULL || decides_groups(method, search)) return NULL;
    if (method == &stw_method_pack && fusing->rule < 0) return NULL; /* its groups recompute, which takes less memory */
    return fusing->rule >= 0 || groups_fit(search, fusing) ? fusing : NULL;
}

/* Groups may lack memory where ops do not: where their plan cannot be repaired, ops are placed, and nothing is fused. */
static stw_status make_it_fit(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    stw_fusing *const fusing = search->fusing;
    const unsigned tasks = search->tasks;
    stw_score score = {0}, found = {0};
    stw_plan *other;
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    if (score.reason == STW_INVALID_MEMORY) TRY(stw_search_repair(search, plan, &score, 0, error));
    if (score.reason == STW_VALID) return STW_OK;
    TRY(stw_plan_create(plan->graph, plan->machine, &other, error));
    search->fusing = NULL;
    search->tasks &= ~(unsigned)STW_TASK_FUSION;
    stw_status status = method->run(search, other, error);
    search->fusing = fusing;
    search->tasks = tasks;
    if (status == STW_OK) keep_given(search, other);
    if (status == STW_OK) status = stw_search_evaluate(search, other, 0, &found, error);
    if (status == STW_OK && stw_score_is_better(&found, &score)) status = stw_plan_assign(plan, other, error);
    stw_plan_destroy(other);
    return status == STW_ERROR_NO_PLAN ? STW_OK : status;
}

/* A policy improves the plan that it begins with, but as a plan of other groups, which may be worth less: then the plan as it was
 * is better than what came of it. */
static stw_status keep_better_start(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    stw_score start = {0}, found = {0};
    if (method->kind != STW_METHOD_POLICY || search->start_count == 0) return STW_OK;
    TRY(stw_search_evaluate(search, plan, 0, &found, error));
    TRY(stw_search_evaluate(search, search->start[0], 0, &start, error));
    if (!stw_score_is_better(&start, &found)) return STW_OK;
    snprintf(search->outcome.note, sizeof search->outcome.note, "nothing better than the initial plan");
    return stw_plan_assign(plan, search->start[0], error);
}

/* If the placement is not to be decided, that of the best initial plan takes the place of a method that only places. */
static bool keeps_placement(const stw_method *method, const stw_search *search) {
    if (search->tasks & STW_TASK_PLACEMENT) return false;
    return stw_method_decides_placement(method) || (search->given != NULL && (method->traits & STW_METHOD_DEFAULT) != 0);
}

stw_status stw_method_apply(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_fusing *fusing = search->fusing, *by = places_groups_of(method, search);
    if (begins_on_groups(method, search)) {
        TRY(run_twice(method, search, plan, error));
    } else if (by != NULL) {
        TRY(place_groups(method, search, by, plan, error));
    } else if (keeps_placement(method, search)) {
        TRY(stw_starts_keep_placement(search, plan, error));
    } else {
        TRY(run_method(method, search, plan, error));
        keep_given(search, plan);
        if (search->given_groups != NULL) search->outcome.proved = false;                /* it saw ops */
        if (method->kind == STW_METHOD_EXACT) TRY(stw_search_tidy(search, plan, error)); /* it knows no ties */
    }
    if (fusing == NULL || decides_groups(method, search)) return STW_OK;
    TRY(stw_fusing_choose(search, plan, error));
    if (by != NULL && fusing->rule < 0) TRY(make_it_fit(method, search, plan, error));
    return by != NULL ? keep_better_start(method, search, plan, error) : STW_OK;
}
