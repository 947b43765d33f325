#include "method/starts.h"

#include <string.h>

#include "plan/plan.h"
#include "search/fusing.h"

bool stw_method_decides_placement(const stw_method *method) { return (method->traits & STW_METHOD_PLACES) != 0; }

bool stw_method_serves(const stw_method *method, stw_objective objective, unsigned tasks) {
    const unsigned traits = method->traits;
    if (method->kind != STW_METHOD_CONSTRUCTIVE || (traits & STW_METHOD_NAMED_ONLY)) return false;
    if (traits & STW_METHOD_ORDERS) return objective == STW_OBJECTIVE_MEMORY && (tasks & STW_TASK_SCHEDULE);
    if (!(tasks & STW_TASK_PLACEMENT)) return (traits & STW_METHOD_DEFAULT) != 0; /* the default's placement, by the rule */
    return !(traits & STW_METHOD_THROUGHPUT_ONLY) || objective == STW_OBJECTIVE_THROUGHPUT;
}

const stw_method *stw_method_for(stw_objective objective) {
    switch (objective) {
        case STW_OBJECTIVE_MEMORY: return &stw_method_lean;
        case STW_OBJECTIVE_THROUGHPUT: return &stw_method_expert; /* stages of equal work, with little between them */
        default: return &stw_method_etf;
    }
}

enum { LEAST_EVALUATIONS = 16 }; /* with fewer, nothing is spent on others' plans */

/* Keeps the best first; what does not fit any more is dropped. */
static void keep(stw_starts *starts, stw_plan *plan, const stw_score *score) {
    int32_t k = starts->count;
    if (k == STW_MAX_STARTS) {
        if (!stw_score_is_better(score, &starts->score[k - 1])) {
            stw_plan_destroy(plan);
            return;
        }
        stw_plan_destroy(starts->owned[--k]);
    } else {
        starts->count++;
    }
    for (; k > 0 && stw_score_is_better(score, &starts->score[k - 1]); k--) {
        starts->owned[k] = starts->owned[k - 1];
        starts->score[k] = starts->score[k - 1];
    }
    starts->owned[k] = plan;
    starts->score[k] = *score;
    for (k = 0; k < starts->count; k++) starts->plan[k] = starts->owned[k];
}

/* Runs a method within this one. Its evaluations count as ours. */
static stw_status run_within(stw_search *outer, const stw_method *method, stw_budget budget, stw_starts *starts,
                             stw_error *error) {
    const stw_simulator *s = outer->simulator;
    stw_search inner = stw_search_within(outer, budget);
    inner.start = starts->plan;
    inner.start_count = starts->count;
    stw_plan *plan;
    stw_score score = {0};
    TRY(stw_plan_create(s->graph, s->machine, &plan, error));
    plan->method = stw_str_of(method->name);
    stw_status status = stw_method_apply(method, &inner, plan, error);
    if (status == STW_OK) status = stw_search_evaluate(&inner, plan, 0, &score, error);
    atomic_fetch_add(&outer->evaluations, atomic_load(&inner.evaluations));
    if (atomic_load(&inner.met)) atomic_store(&outer->met, true);
    if (status != STW_OK || (score.reason != STW_VALID && score.reason != STW_INVALID_MEMORY)) {
        stw_plan_destroy(plan);
        return status == STW_ERROR_NO_PLAN ? STW_OK : status; /* the others may do better */
    }
    keep(starts, plan, &score);
    return STW_OK;
}

/* The cheapest good method goes first: what follows may find the budget gone. */
static void put_first(const stw_method **methods, int32_t count, const stw_method *first) {
    for (int32_t k = 1; k < count; k++) {
        if (methods[k] != first) continue;
        memmove(methods + 1, methods, (size_t)k * sizeof *methods);
        methods[0] = first;
    }
}

static stw_status run_methods(stw_search *search, const stw_method *const *methods, int32_t count, double share, stw_starts *out,
                              stw_error *error) {
    const stw_budget whole = stw_budget_share(&search->budget, stw_search_moment(search), share, STW_SHARE_ONE_MORE);
    for (int32_t k = 0; k < count; k++) {
        const stw_moment now = stw_search_moment(search);
        if (out->count > 0 && (stw_search_is_over(search) || stw_budget_evaluations_left(&whole, now.evaluations) == 0)) break;
        const stw_budget part = stw_budget_part(&whole, now, count - k); /* equal for each of the methods that are left */
        TRY(run_within(search, methods[k], stw_budget_rest(&part, now.evaluations), out, error));
    }
    return STW_OK;
}

stw_status stw_starts_open(stw_search *search, const stw_method *const *methods, int32_t count, double share, stw_starts *out,
                           stw_error *error) {
    const stw_method *serving[STW_MAX_STARTS], *method;
    int32_t serving_count = 0;
    memset(out, 0, sizeof *out);
    for (; out->count < search->start_count && out->count < STW_MAX_STARTS; out->count++)
        out->plan[out->count] = search->start[out->count];
    if (out->count > 0) return STW_OK;
    if (methods != NULL && stw_search_evaluations_left(search) < LEAST_EVALUATIONS) return STW_OK;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL && serving_count < STW_MAX_STARTS; k++) {
        if (stw_method_serves(method, search->objective, search->tasks)) serving[serving_count++] = method;
    }
    if (methods != NULL) {
        serving_count = count < STW_MAX_STARTS ? count : STW_MAX_STARTS;
        memcpy(serving, methods, (size_t)serving_count * sizeof *serving);
    }
    put_first(serving, serving_count, stw_method_for(search->objective));
    const stw_status status = run_methods(search, serving, serving_count, share, out, error);
    if (status != STW_OK) stw_starts_close(out);
    return status;
}

stw_status stw_starts_keep_placement(stw_search *search, stw_plan *plan, stw_error *error) {
    const stw_simulator *s = search->simulator;
    if (search->start_count == 0) return stw_method_single.run(search, plan, error);
    TRY(stw_plan_assign(plan, search->start[0], error));
    if (search->rule < 0) return STW_OK;
    return stw_rule_apply((stw_rule)search->rule, s->costs, &s->unfused, plan, search->arena, error);
}

void stw_starts_close(stw_starts *starts) {
    for (int32_t k = 0; k < STW_MAX_STARTS; k++) stw_plan_destroy(starts->owned[k]);
    memset(starts, 0, sizeof *starts); /* closing twice does no harm */
}
