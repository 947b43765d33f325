#include "method/fusing.h"

#include <stdio.h>
#include <string.h>

#include "method/fusing_told.h"
#include "method/starts.h"
#include "plan/plan.h"

/* ---- what is shared ---- */

/* The device that does all the work soonest: groups are made as if all were there. */
static int32_t fastest_device(const stw_simulator *s) {
    double least = 0.0;
    int32_t fastest = 0;
    for (int32_t d = 0; d < s->machine->device_count; d++) {
        double us = 0.0;
        for (int32_t i = 0; i < s->graph->N; i++) us += s->costs->us[s->machine->device[d].cost_class][i];
        if (d > 0 && us >= least) continue;
        least = us;
        fastest = d;
    }
    return fastest;
}

/* Groups that are placed as one. */
static stw_status open_fused(const stw_simulator *s, stw_fusing *out, stw_arena *arena, stw_error *error) {
    const stw_fusion rule = out->rule >= 0 ? (stw_fusion)out->rule : STW_FUSION_DEFAULT;
    const int32_t N = s->graph->N, device = fastest_device(s);
    int32_t *group, *on;
    STW_TRY_NEW(arena, out->priority, N, error);
    STW_TRY_NEW(arena, out->workspace, out->threads, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, group, N, error);
    STW_TRY_NEW(&scratch, on, N, error);
    for (int32_t i = 0; i < N; i++) on[i] = device;
    stw_fuse_by_rule(out->fuser[0], rule, on, group, out->priority);
    out->device = device;
    out->asked = rule;
    if (s->machine->device_count == 1 || rule == STW_FUSION_NONE) return STW_OK;
    stw_fuser_allow_recomputing(out->fuser[0], false);
    stw_fuse_by_priority(out->fuser[0], out->priority, on, group);
    stw_fuser_allow_recomputing(out->fuser[0], true);
    TRY(stw_fused_create(s, group, device, &out->fused, error));
    for (int32_t t = 0; t < out->threads; t++) TRY(stw_workspace_create(out->fused->simulator, &out->workspace[t], error));
    return STW_OK;
}

stw_status stw_fusing_open(const stw_simulator *simulator, int32_t rule, int32_t threads, stw_arena *arena, stw_fusing *out,
                           stw_error *error) {
    *out = (stw_fusing){.rule = rule, .threads = threads};
    STW_TRY_NEW(arena, out->fuser, threads, error);
    for (int32_t t = 0; t < threads; t++) TRY(stw_fuser_create(simulator->costs, arena, &out->fuser[t], error));
    return open_fused(simulator, out, arena, error);
}

stw_status stw_fusing_open_groups(const stw_simulator *simulator, const int32_t *group, int32_t threads, stw_arena *arena,
                                  stw_fusing *out, stw_error *error) {
    stw_error several = {0};
    *out = (stw_fusing){.rule = -1, .threads = threads};
    STW_TRY_NEW(arena, out->workspace, threads, error);
    const stw_status status = stw_fused_create(simulator, group, fastest_device(simulator), &out->fused, &several);
    if (status == STW_ERROR_INPUT) return STW_OK;
    if (status != STW_OK && error != NULL) *error = several;
    for (int32_t t = 0; t < threads && status == STW_OK; t++)
        TRY(stw_workspace_create(out->fused->simulator, &out->workspace[t], error));
    return status;
}

void stw_fusing_close(stw_fusing *fusing) {
    for (int32_t t = 0; t < fusing->threads && fusing->workspace != NULL; t++) stw_workspace_destroy(fusing->workspace[t]);
    stw_fused_destroy(fusing->fused);
    *fusing = (stw_fusing){0};
}

/* ---- groups of a plan ---- */

static stw_status remove_orders(stw_plan *plan, stw_error *error) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) TRY(stw_plan_set_order(plan, d, NULL, -1, error));
    return STW_OK;
}

/* All ops are on the device that the rule was asked about already. */
static bool is_on_one(const stw_fusing *fusing, const stw_plan *plan) {
    for (int32_t i = 0; i < plan->graph->N; i++) {
        if (plan->graph->kind[i] == STW_NODE_OP && plan->device[i] != fusing->device) return false;
    }
    return true;
}

stw_status stw_fusing_apply_rule(const stw_search *search, stw_plan *plan, int32_t worker, stw_error *error) {
    const stw_fusing *fusing = search->fusing;
    if (fusing == NULL || fusing->rule < 0) return STW_OK;
    if (fusing->rule == (int32_t)fusing->asked && is_on_one(fusing, plan)) {
        stw_fuse_by_priority(fusing->fuser[worker], fusing->priority, plan->device, plan->group);
    } else {
        stw_fuse_by_rule(fusing->fuser[worker], (stw_fusion)fusing->rule, plan->device, plan->group, NULL);
    }
    return remove_orders(plan, error);
}

static bool has_order(const stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] != NULL) return true;
    }
    return false;
}

/* On larger graphs the rule takes longer than many a method; where devices were open, its priorities for one device serve. */
enum { MOST_BY_RULE = 8192 }; /* ops */

/* The plan with the groups of these priorities (NULL: none), kept if that is better. */
static stw_status try_groups(stw_search *search, const double *priority, stw_plan *plan, stw_score *score, stw_error *error) {
    stw_fuser *fuser = search->fusing->fuser[0];
    stw_plan *other;
    stw_score found = {0};
    TRY(stw_plan_create(plan->graph, plan->machine, &other, error));
    stw_status status = stw_plan_copy(other, plan, error);
    if (status == STW_OK) status = remove_orders(other, error);
    if (status == STW_OK) {
        if (priority != NULL) stw_fuse_by_priority(fuser, priority, other->device, other->group);
        if (priority == NULL) stw_fuse_by_rule(fuser, STW_FUSION_NONE, other->device, other->group, NULL);
        status = stw_search_evaluate(search, other, 0, &found, error);
    }
    if (status == STW_OK && stw_score_is_better(&found, score)) {
        *score = found;
        status = stw_plan_copy(plan, other, error);
    }
    stw_plan_destroy(other);
    return status;
}

/* The same with the rule for its devices. */
static stw_status try_rule(stw_search *search, stw_plan *plan, stw_score *score, stw_error *error) {
    stw_arena scratch = search->arena;
    double *priority;
    int32_t *group;
    STW_TRY_NEW(&scratch, priority, plan->graph->N, error);
    STW_TRY_NEW(&scratch, group, plan->graph->N, error);
    stw_fuse_by_rule(search->fusing->fuser[0], STW_FUSION_DEFAULT, plan->device, group, priority);
    return try_groups(search, priority, plan, score, error);
}

/* The best of the groups that the plan has, of the rule's for its devices, and of none. An order is for the groups it has. */
static stw_status choose_groups(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    if (search->fusing->rule >= 0) return stw_fusing_apply_rule(search, plan, 0, error);
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    if (has_order(plan)) return STW_OK;
    if ((search->tasks & STW_TASK_PLACEMENT) && search->simulator->graph->op_count > MOST_BY_RULE) {
        TRY(try_groups(search, search->fusing->priority, plan, &score, error));
    } else {
        TRY(try_rule(search, plan, &score, error));
    }
    return try_groups(search, NULL, plan, &score, error);
}

/* ---- what was given ---- */

/* What is not among the tasks is as in the plan that was given. A strict order is for its devices: if they may change, its
 * priorities stand for it. */
static stw_status keep_given(const stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_plan *given = search->given;
    if (given == NULL) return STW_OK;
    const size_t N = (size_t)plan->graph->N;
    const bool places = search->tasks & STW_TASK_PLACEMENT;
    const bool orders = (search->tasks & STW_TASK_SCHEDULE) || search->rule >= 0; /* a rule was asked for */
    if (!places) memcpy(plan->device, given->device, N * sizeof *plan->device);
    if (!orders) memcpy(plan->priority, given->priority, N * sizeof *plan->priority);
    if (!(search->tasks & STW_TASK_FUSION)) memcpy(plan->group, given->group, N * sizeof *plan->group);
    return places && !orders ? remove_orders(plan, error) : STW_OK;
}

/* ---- running a method on groups ---- */

/* The plans to begin with, as plans of groups. */
static stw_status reduce_starts(const stw_search *search, const stw_fused *fused, const stw_plan **out, stw_plan **owned,
                                int32_t *count, stw_error *error) {
    for (*count = 0; *count < search->start_count && *count < STW_MAX_STARTS; ++*count) {
        TRY(stw_plan_create(fused->graph, fused->outer->machine, &owned[*count], error));
        out[*count] = owned[*count];
        owned[*count]->method = search->start[*count]->method;
        TRY(stw_fused_reduce(fused, search->start[*count], owned[*count], error));
        stw_plan_join(fused->simulator, owned[*count]);
    }
    return STW_OK;
}

static stw_status run_within(const stw_method *method, stw_search *outer, const stw_fusing *by, const stw_plan *const *start,
                             int32_t count, stw_told *told, stw_plan *of_groups, stw_error *error) {
    stw_search inner = {
        .simulator = by->fused->simulator,
        .objective = outer->objective,
        .tasks = outer->tasks & ~(unsigned)STW_TASK_FUSION,
        .rule = outer->rule,
        .seed = outer->seed,
        .unit_count = outer->unit_count,
        .budget = outer->budget,
        .pool = outer->pool,
        .workspace = by->workspace,
        .scratch = outer->scratch,
        .arena = outer->arena,
        .start = start,
        .start_count = count,
        .cancelled = outer->cancelled,
        .policy = outer->policy,
    };
    stw_told_watch(told, &inner);
    atomic_store(&inner.evaluations, atomic_load(&outer->evaluations));
    const stw_status status = method->run(&inner, of_groups, error);
    atomic_store(&outer->evaluations, atomic_load(&inner.evaluations));
    outer->repaired = inner.repaired;
    memcpy(outer->note, inner.note, sizeof inner.note);
    return status;
}

/* The plan, or a better one that was told of on the way. */
static stw_status take_best(stw_search *search, const stw_told *told, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    if (!told->has_best) return STW_OK;
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    return stw_score_is_better(&told->score, &score) ? stw_plan_copy(plan, told->best, error) : STW_OK;
}

static stw_status place_groups(const stw_method *method, stw_search *search, const stw_fusing *by, stw_plan *plan,
                               stw_error *error) {
    const stw_fused *fused = by->fused;
    const stw_plan *start[STW_MAX_STARTS];
    stw_plan *owned[STW_MAX_STARTS] = {NULL}, *of_groups;
    int32_t count = 0;
    stw_told told = {0};
    TRY(stw_plan_create(fused->graph, fused->outer->machine, &of_groups, error));
    stw_status status = stw_told_open(&told, search, fused, error);
    if (status == STW_OK) status = reduce_starts(search, fused, start, owned, &count, error);
    if (status == STW_OK) status = run_within(method, search, by, start, count, &told, of_groups, error);
    if (status == STW_OK) status = stw_fused_expand(fused, of_groups, plan, error);
    if (status == STW_OK) status = take_best(search, &told, plan, error);
    stw_told_close(&told);
    if (status == STW_OK) status = keep_given(search, plan, error);
    for (int32_t k = 0; k < STW_MAX_STARTS; k++) stw_plan_destroy(owned[k]);
    stw_plan_destroy(of_groups);
    return status;
}

/* Searches, `go-one` and `exact` decide about groups; where a rule is fixed only searches look after it. */
static bool decides_groups(const stw_method *method, const stw_fusing *fusing) {
    if (method->kind == STW_METHOD_SEARCH || method->kind == STW_METHOD_EXACT) return true;
    return fusing->rule < 0 && method->kind == STW_METHOD_LEARNER;
}

/* ---- first the groups as they are, then the groups too ---- */

static const double GROUPS_SHARE = 0.5; /* of the budget, for placing groups as one: there are far fewer of them than ops */

/* Worth it where much is placed; a policy that is kept in a file must see one problem only. */
static bool begins_on_groups(const stw_method *method, const stw_search *search) {
    const bool learns = method->kind == STW_METHOD_LEARNER;
    if (search->fusing == NULL || search->fusing->fused == NULL || (learns && search->fusing->rule >= 0)) return false;
    if (search->objective == STW_OBJECTIVE_MEMORY || !(search->tasks & STW_TASK_PLACEMENT)) return false;
    if (!(learns || method->kind == STW_METHOD_SEARCH)) return false;
    return !learns || search->policy == NULL || search->policy->file == NULL;
}

static stw_budget share_of(const stw_search *search, double share) {
    stw_budget budget = search->budget;
    const double now_s = stw_now_s();
    const int64_t spent = (int64_t)atomic_load(&search->evaluations);
    if (budget.until_s > 0.0) budget.until_s = now_s + share * (budget.until_s - now_s);
    if (budget.evaluations > 0) /* 0 would be no limit */
        budget.evaluations = spent + 1 + (int64_t)(share * (double)(budget.evaluations - spent - 1));
    return budget;
}

/* The second half begins with what the first has found: its note would speak of its own gain alone. */
static stw_status note_gain(const stw_method *method, stw_search *search, const stw_score *before, const stw_plan *plan,
                            stw_error *error) {
    stw_score after = {0};
    if (method->kind != STW_METHOD_SEARCH || before->reason != STW_VALID || before->value <= 0.0) return STW_OK;
    TRY(stw_search_evaluate(search, plan, 0, &after, error));
    snprintf(search->note, sizeof search->note, "%.2f %% below its start", 100.0 * (1.0 - after.value / before->value));
    return STW_OK;
}

/* Places groups, then runs the method on the ops with that plan among those to begin with, before or after the best of them. */
static stw_status run_twice(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_budget whole = search->budget;
    const stw_plan *start[STW_MAX_STARTS];
    stw_plan *placed;
    stw_score score = {0}, best = {0};
    TRY(stw_plan_create(plan->graph, plan->machine, &placed, error));
    placed->method = stw_str_of(method->name);
    search->budget = share_of(search, GROUPS_SHARE);
    stw_status status = place_groups(method, search, search->fusing, placed, error);
    const bool none = status == STW_ERROR_NO_PLAN; /* of ops there may be one */
    if (status == STW_OK) status = choose_groups(search, placed, error);
    if (status == STW_OK) status = stw_search_evaluate(search, placed, 0, &score, error);
    if (status == STW_OK && search->start_count > 0) status = stw_search_evaluate(search, search->start[0], 0, &best, error);
    search->budget = whole;
    if (none) {
        status = method->run(search, plan, error);
        if (status == STW_OK) status = keep_given(search, plan, error);
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
        if (status == STW_OK) status = keep_given(search, plan, error);
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
    return fusing->fused != NULL && !decides_groups(method, fusing) ? fusing : NULL;
}

/* Groups may lack memory where ops do not: then these are placed, and nothing is fused. */
static stw_status place_ops_if_invalid(const stw_method *method, stw_search *search, stw_plan *plan, stw_error *error) {
    stw_fusing *const fusing = search->fusing;
    const unsigned tasks = search->tasks;
    stw_score score = {0}, found = {0};
    stw_plan *other;
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    if (score.reason == STW_VALID) return STW_OK;
    TRY(stw_plan_create(plan->graph, plan->machine, &other, error));
    search->fusing = NULL;
    search->tasks &= ~(unsigned)STW_TASK_FUSION;
    stw_status status = method->run(search, other, error);
    search->fusing = fusing;
    search->tasks = tasks;
    if (status == STW_OK) status = keep_given(search, other, error);
    if (status == STW_OK) status = stw_search_evaluate(search, other, 0, &found, error);
    if (status == STW_OK && stw_score_is_better(&found, &score)) status = stw_plan_copy(plan, other, error);
    stw_plan_destroy(other);
    return status == STW_ERROR_NO_PLAN ? STW_OK : status;
}

/* If the placement is not to be decided, that of the best start takes the place of a method that only places. */
static bool keeps_placement(const stw_method *method, const stw_search *search) {
    if (search->tasks & STW_TASK_PLACEMENT) return false;
    return stw_method_decides_placement(method) || (search->given != NULL && method == &stw_method_single);
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
        TRY(method->run(search, plan, error));
        TRY(keep_given(search, plan, error));
        if (search->given_groups != NULL) search->proved = false; /* it saw ops */
    }
    if (fusing == NULL || decides_groups(method, fusing)) return STW_OK;
    TRY(choose_groups(search, plan, error));
    return by != NULL && fusing->rule < 0 ? place_ops_if_invalid(method, search, plan, error) : STW_OK;
}
