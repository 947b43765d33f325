#include "method/go/go.h"

#include <stdio.h>

static const double START_SHARE = 0.1; /* of the budget, for initial plans where none are given */

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
    TRY(stw_problem_build(search->simulator, search->objective, &g->list,
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

/* ---- the end ---- */

void stw_go_write_note(const stw_go *g, const char *without) {
    char *note = g->search->outcome.note;
    const size_t size = sizeof g->search->outcome.note;
    const long long updates = (long long)stw_trainer_updates(g->trainer);
    const char *plural = updates == 1 ? "" : "s";
    stw_score score = {0};
    if (stw_trainer_best(g->trainer, &score) == NULL) return;
    if (updates == 0) {
        snprintf(note, size, "the budget ended before the first update; give it more");
    } else if (g->has_first && g->first.reason == STW_VALID && score.reason == STW_VALID && g->first.value > 0.0) {
        snprintf(note, size, "%lld update%s; %.2f %% better than the initial plan", updates, plural,
                 100.0 * (1.0 - score.value / g->first.value));
    } else {
        snprintf(note, size, "%lld update%s%s", updates, plural, g->has_first ? "" : without);
    }
}

stw_status stw_go_take_best(stw_go *g, stw_plan *plan, stw_error *error) {
    stw_score score = {0};
    const stw_plan *best = stw_trainer_best(g->trainer, &score);
    if (best == NULL) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan was made before the budget ended");
    TRY(stw_plan_assign(plan, best, error));
    return score.reason == STW_INVALID_MEMORY ? stw_search_repair(g->search, plan, &score, 0, error) : STW_OK;
}
