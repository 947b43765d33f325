/* `hdp`: the hierarchical planner of Mirhoseini et al. (ICLR 2018), trained on this graph alone: what `go-one` is compared
 * with. */
#include <stdio.h>

#include "baseline/hdp/reinforce.h"
#include "baseline/rival.h"
#include "method/method.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/list.h"

typedef struct {
    stw_search *search;
    stw_grouping_problem problem;
    stw_reinforce_settings settings;
    stw_reinforce *trainer;
} planner;

static stw_status choose_settings(planner *h, stw_error *error) {
    static const stw_policy_settings unset = {.learning_rate = -1.0, .unit_count = -1};
    const stw_policy_settings *wish = h->search->policy != NULL ? h->search->policy : &unset;
    const char *preset = wish->preset[0] != '\0' ? wish->preset : "default";
    if (!stw_reinforce_preset(preset, h->search->simulator->machine->device_count, &h->settings))
        return stw_fail(error, STW_ERROR_INPUT, "unknown preset '%s'; known: default, paper", preset);
    h->settings.seed = h->search->seed;
    h->settings.updates = wish->updates;
    if (wish->learning_rate >= 0.0) h->settings.rate = wish->learning_rate;
    if (wish->group_count > 0) h->settings.groups = wish->group_count;
    if (wish->unit_count >= 0) h->settings.units = wish->unit_count;
    return STW_OK;
}

static stw_status train(planner *h, stw_reinforce_end *end, stw_error *error) {
    *end = STW_REINFORCE_GOES_ON;
    while (*end == STW_REINFORCE_GOES_ON) {
        TRY(stw_reinforce_step(h->trainer, end, error));
        stw_search_tick(h->search);
    }
    return STW_OK;
}

static stw_status run_trainer(planner *h, stw_plan *plan, stw_error *error) {
    stw_score score;
    stw_reinforce_end end = STW_REINFORCE_GOES_ON;
    double reference = 0.0;
    TRY(stw_rival_measure_single(h->search, plan, &reference, error));
    const int64_t left = stw_search_evaluations_left(h->search);
    if (left < h->settings.samples) h->settings.samples = left > 1 ? (int32_t)left : 1;
    TRY(stw_reinforce_create(&h->problem, h->search, &h->settings, reference, &h->trainer, error));
    TRY(train(h, &end, error));
    const stw_plan *best = stw_reinforce_best(h->trainer, &score);
    if (best == NULL) return stw_rival_end_early(h->search, plan, error);
    const int32_t groups = stw_reinforce_groups(&h->settings, h->problem.D, h->problem.N);
    char ending[80] = "";
    if (end == STW_REINFORCE_STALE)
        snprintf(ending, sizeof ending, "; ended after %lld updates without a better plan", (long long)h->settings.patience);
    snprintf(h->search->outcome.note, sizeof h->search->outcome.note, "%lld updates, %d groups from %d %s%s",
             (long long)stw_reinforce_updates(h->trainer), groups, h->problem.N, h->settings.units > 0 ? "units" : "ops", ending);
    TRY(stw_plan_assign(plan, best, error));
    return score.reason == STW_INVALID_MEMORY ? stw_search_repair(h->search, plan, &score, 0, error) : STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    planner *h;
    if ((search->tasks & STW_TASK_PLACEMENT) == 0) return stw_starts_keep_placement(search, plan, error);
    STW_TRY_NEW(&arena, h, 1, error);
    h->search = search;
    TRY(choose_settings(h, error));
    TRY(stw_grouping_problem_build(search->simulator, stw_list_linked(search->simulator), h->settings.units, &arena, &h->problem,
                                   error));
    h->problem.rule = search->rule;
    if (h->problem.N == 0) return stw_starts_keep_placement(search, plan, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    const stw_status status = run_trainer(h, plan, error);
    search->arena = before;
    stw_reinforce_destroy(h->trainer);
    return status;
}

const stw_method stw_method_hdp = {
    .name = "hdp",
    .description = "the hierarchical planner: ops into groups, groups onto devices, learnt on this graph",
    .kind = STW_METHOD_RIVAL,
    .run = run};
