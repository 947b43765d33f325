#include "method/go/go.h"

#include <math.h>

#include "search/fusing.h"

static const double START_SHARE = 0.1; /* of the budget, for initial plans where none are given */

/* ---- what the trainer asks for ---- */

static stw_status finish(void *context, stw_plan *plan, int32_t worker, stw_error *error) {
    stw_go *g = context;
    (void)error;
    atomic_fetch_add(&g->decodes, 1);
    stw_fusing_apply_rule(g->search, plan, worker);
    return STW_OK;
}

static stw_status evaluate(void *context, const stw_plan *plan, int32_t worker, stw_score *out, stw_error *error) {
    const stw_go *g = context;
    return stw_search_evaluate(g->search, plan, worker, out, error);
}

static stw_status repair(void *context, stw_plan *plan, stw_score *score, stw_error *error) {
    const stw_go *g = context;
    return stw_search_repair(g->search, plan, score, 0, error);
}

static bool is_stopped(void *context) {
    const stw_go *g = context;
    return stw_search_is_stopped(g->search) || (g->phase.until_s > 0.0 && stw_search_now_s(g->search) >= g->phase.until_s);
}

static int64_t evaluations_left(void *context) {
    const stw_go *g = context;
    const int64_t left = g->phase.evaluations - (int64_t)atomic_load(&g->search->evaluations);
    if (atomic_load(&g->search->met)) return 0;
    return g->phase.evaluations <= 0 ? INT64_MAX : left > 0 ? left : 0;
}

double stw_go_progress(const stw_go *g) {
    const stw_budget *budget = &g->phase;
    double share = g->done;
    if (budget->until_s > 0.0)
        share = fmax(share, (stw_search_now_s(g->search) - g->began_s) / fmax(budget->until_s - g->began_s, 1e-9));
    if (budget->evaluations > 0) {
        const double used = (double)(atomic_load(&g->search->evaluations) - g->began_evaluations);
        share = fmax(share, used / fmax((double)(budget->evaluations - g->began_evaluations), 1.0));
    }
    return share;
}

static double progress(void *context) { return stw_go_progress(context); }

static void found(void *context, const stw_plan *plan, const stw_score *score) {
    const stw_search *search = ((const stw_go *)context)->search;
    if (search->found != NULL) search->found(search->watch_context, plan, score);
}

static void curve(void *context, const stw_curve_row *row) {
    const stw_search *search = ((const stw_go *)context)->search;
    if (search->curve != NULL) search->curve(search->watch_context, row);
}

stw_environment stw_go_environment(stw_go *g) {
    return (stw_environment){.context = g,
                             .pool = g->search->pool,
                             .workspace = g->search->workspace,
                             .scratch = g->search->scratch,
                             .finish = finish,
                             .evaluate = evaluate,
                             .repair = repair,
                             .is_stopped = is_stopped,
                             .evaluations_left = evaluations_left,
                             .progress = progress,
                             .found = found,
                             .curve = curve};
}

/* ---- the problem ---- */

const stw_policy_settings *stw_go_wish(const stw_search *search) {
    static const stw_policy_settings unset = {
        .learning_rate = -1.0, .reward = -1, .glue = -1, .warm_start = -1, .unit_count = -1};
    return search->policy != NULL ? search->policy : &unset;
}

stw_status stw_go_prepare(stw_go *g, stw_arena *arena, stw_error *error) {
    const stw_search *search = g->search;
    const int32_t wanted = stw_go_wish(search)->unit_count;
    TRY(stw_list_prepare(search, arena, &g->list, error));
    const stw_listing listing = {.base = &g->list.base,
                                 .atom = g->list.atom,
                                 .atom_count = g->list.atom_count,
                                 .mean_us = g->list.mean_us,
                                 .memory = g->list.memory,
                                 .allowed = g->list.linked};
    TRY(stw_problem_build(search->simulator, search->objective, &listing,
                          wanted >= 0 ? wanted : stw_problem_units(search->simulator->graph->op_count), arena, &g->problem,
                          error));
    g->problem.places = (search->tasks & STW_TASK_PLACEMENT) != 0;
    g->problem.schedules = (search->tasks & STW_TASK_SCHEDULE) != 0 && search->rule < 0;
    g->problem.rule = search->rule;
    return STW_OK;
}

stw_status stw_go_open_starts(stw_go *g, stw_error *error) {
    const stw_method *methods[STW_MAX_STARTS], *method;
    int32_t count = 0;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL && count < STW_MAX_STARTS; k++) {
        if (!(method->traits & STW_METHOD_STEERS) && stw_method_serves(method, g->search->objective, g->search->tasks))
            methods[count++] = method;
    }
    return stw_starts_open(g->search, methods, count, START_SHARE, &g->starts, error);
}

stw_status stw_go_measure_start(stw_go *g, stw_error *error) {
    g->has_first = g->starts.count > 0;
    if (!g->has_first) return STW_OK;
    const double began_s = stw_search_now_s(g->search);
    TRY(stw_search_evaluate(g->search, g->starts.plan[0], 0, &g->first, error));
    g->evaluation_s = stw_search_now_s(g->search) - began_s;
    return STW_OK;
}

/* ---- the budget ---- */

void stw_go_begin_phase(stw_go *g, double share) {
    const stw_budget *whole = &g->search->budget;
    g->began_s = stw_search_now_s(g->search);
    g->began_evaluations = (int64_t)atomic_load(&g->search->evaluations);
    g->phase = (stw_budget){0};
    g->done = 0.0;
    if (whole->until_s > 0.0) g->phase.until_s = g->began_s + share * (whole->until_s - g->began_s);
    if (whole->evaluations > 0)
        g->phase.evaluations = g->began_evaluations + (int64_t)(share * (double)stw_search_evaluations_left(g->search));
}

/* ---- the end ---- */

stw_status stw_go_take_best(stw_go *g, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    const stw_plan *best = stw_trainer_best(g->trainer, &score);
    if (best == NULL) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan was made before the budget ended");
    TRY(stw_plan_assign(plan, best, error));
    return score.reason == STW_INVALID_MEMORY ? stw_search_repair(g->search, plan, &score, 0, error) : STW_OK;
}
