#include "method/starts.h"

#include <string.h>

#include "plan/plan.h"

bool stw_method_serves(const stw_method *method, stw_objective objective, unsigned tasks) {
    if (method->kind != STW_METHOD_CONSTRUCTIVE || method == &stw_method_random) return false;
    if (!(tasks & STW_TASK_PLACEMENT)) return method == &stw_method_single; /* the default's placement, by the rule */
    return method != &stw_method_balance || objective == STW_OBJECTIVE_THROUGHPUT;
}

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

static stw_budget share_of(const stw_search *search, double share) {
    stw_budget budget = {0};
    const double now_s = stw_now_s();
    if (search->budget.until_s > 0.0) budget.until_s = now_s + share * (search->budget.until_s - now_s);
    if (search->budget.evaluations > 0) {
        const int64_t left = (int64_t)(share * (double)stw_search_evaluations_left(search));
        budget.evaluations = left > 0 ? left : 1;
    }
    return budget;
}

/* Runs a method within this one. Its evaluations count as ours. */
static stw_status run_within(stw_search *outer, const stw_method *method, stw_budget budget, stw_starts *starts,
                             stw_error *error) {
    const stw_simulator *s = outer->simulator;
    stw_search inner = {
        .simulator = s,
        .objective = outer->objective,
        .tasks = outer->tasks,
        .rule = outer->rule,
        .seed = outer->seed,
        .unit_count = outer->unit_count,
        .budget = budget,
        .pool = outer->pool,
        .workspace = outer->workspace,
        .scratch = outer->scratch,
        .arena = outer->arena,
        .start = starts->plan,
        .start_count = starts->count,
        .cancelled = outer->cancelled,
        .found = outer->found,
        .tick = outer->tick,
        .watch_context = outer->watch_context,
    };
    stw_plan *plan;
    stw_score score = {0};
    TRY(stw_plan_create(s->graph, s->machine, &plan, error));
    stw_status status = method->run(&inner, plan, error);
    if (status == STW_OK) status = stw_search_evaluate(&inner, plan, 0, &score, error);
    atomic_fetch_add(&outer->evaluations, atomic_load(&inner.evaluations));
    if (status != STW_OK || (score.reason != STW_VALID && score.reason != STW_INVALID_MEMORY)) {
        stw_plan_destroy(plan);
        return status == STW_ERROR_NO_PLAN ? STW_OK : status; /* the others may do better */
    }
    keep(starts, plan, &score);
    return STW_OK;
}

static bool is_spent(const stw_search *search, const stw_budget *budget, int64_t used_before) {
    if (search->cancelled != NULL && atomic_load(search->cancelled)) return true;
    if (budget->until_s > 0.0 && stw_now_s() >= budget->until_s) return true;
    return budget->evaluations > 0 && (int64_t)atomic_load(&search->evaluations) - used_before >= budget->evaluations;
}

stw_status stw_starts_open(stw_search *search, double share, stw_starts *out, stw_error *error) {
    memset(out, 0, sizeof *out);
    for (; out->count < search->start_count && out->count < STW_MAX_STARTS; out->count++)
        out->plan[out->count] = search->start[out->count];
    if (out->count > 0) return STW_OK;
    const stw_budget whole = share_of(search, share);
    const int64_t before = (int64_t)atomic_load(&search->evaluations);
    const stw_method *method;
    stw_status status = STW_OK;
    for (int32_t k = 0; status == STW_OK && (method = stw_method_at(k)) != NULL; k++) {
        if (!stw_method_serves(method, search->objective, search->tasks)) continue;
        if (out->count > 0 && is_spent(search, &whole, before)) break;
        stw_budget budget = whole;
        if (whole.evaluations > 0) {
            budget.evaluations = whole.evaluations - ((int64_t)atomic_load(&search->evaluations) - before);
            if (budget.evaluations < 1) budget.evaluations = 1;
        }
        status = run_within(search, method, budget, out, error);
    }
    if (status == STW_OK && out->count == 0) status = stw_fail(error, STW_ERROR_NO_PLAN, "there is no plan to begin with");
    if (status != STW_OK) stw_starts_close(out);
    return status;
}

void stw_starts_close(stw_starts *starts) {
    for (int32_t k = 0; k < STW_MAX_STARTS; k++) stw_plan_destroy(starts->owned[k]);
}
