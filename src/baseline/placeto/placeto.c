/* `placeto`: the method of Addanki et al. (2019), trained on this graph alone: what comes beside `hdp` in comparisons. */
#include <stdio.h>

#include "baseline/placeto/trainer.h"
#include "baseline/rival.h"
#include "method/method.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/list.h"

typedef struct {
    stw_search *search;
    stw_placeto_problem problem;
    stw_placeto_settings settings;
    stw_placeto_trainer *trainer;
} placer;

static stw_status choose_settings(placer *p, stw_error *error) {
    static const stw_policy_settings unset = {.learning_rate = -1.0, .unit_count = -1};
    const stw_policy_settings *wish = p->search->policy != NULL ? p->search->policy : &unset;
    const char *preset = wish->preset[0] != '\0' ? wish->preset : "default";
    if (!stw_placeto_preset(preset, &p->settings))
        return stw_fail(error, STW_ERROR_INPUT, "unknown preset '%s'; known: default, paper", preset);
    p->settings.seed = p->search->seed;
    p->settings.updates = wish->updates;
    if (wish->learning_rate >= 0.0) p->settings.rate = p->settings.last_rate = wish->learning_rate;
    if (wish->unit_count >= 0) p->settings.units = wish->unit_count;
    return STW_OK;
}

static stw_status train(placer *p, stw_placeto_end *end, stw_error *error) {
    *end = STW_PLACETO_GOES_ON;
    while (*end == STW_PLACETO_GOES_ON) {
        TRY(stw_placeto_trainer_step(p->trainer, end, error));
        stw_search_tick(p->search);
    }
    return STW_OK;
}

static void say(const placer *p, stw_placeto_end end) {
    char ending[80] = "";
    if (end == STW_PLACETO_STALE)
        snprintf(ending, sizeof ending, "; ended after %lld updates without a better plan", (long long)p->settings.patience);
    snprintf(p->search->outcome.note, sizeof p->search->outcome.note, "%lld updates of %d episodes, %d %s visited in each%s",
             (long long)stw_placeto_trainer_updates(p->trainer), p->settings.samples, p->problem.graph.N,
             p->settings.units > 0 ? "units" : "ops", ending);
}

static stw_status run_trainer(placer *p, stw_plan *plan, stw_error *error) {
    stw_score score;
    stw_placeto_end end = STW_PLACETO_GOES_ON;
    stw_placeto_task task = {.problem = &p->problem, .search = p->search};
    TRY(stw_rival_measure_single(p->search, plan, &task.reference, error));
    TRY(stw_placeto_trainer_create(&task, 1, &p->settings, &p->trainer, error));
    TRY(train(p, &end, error));
    const stw_plan *best = stw_placeto_trainer_best(p->trainer, 0, &score);
    if (best == NULL) return stw_rival_end_early(p->search, plan, error);
    say(p, end);
    TRY(stw_plan_assign(plan, best, error));
    return score.reason == STW_INVALID_MEMORY ? stw_search_repair(p->search, plan, &score, 0, error) : STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    placer *p;
    if ((search->tasks & STW_TASK_PLACEMENT) == 0) return stw_starts_keep_placement(search, plan, error);
    STW_TRY_NEW(&arena, p, 1, error);
    p->search = search;
    TRY(choose_settings(p, error));
    TRY(stw_placeto_problem_build(search->simulator, stw_list_linked(search->simulator), p->settings.units, &arena, &p->problem,
                                  error));
    p->problem.rows.rule = search->rule;
    if (p->problem.graph.N == 0) return stw_starts_keep_placement(search, plan, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    const stw_status status = run_trainer(p, plan, error);
    search->arena = before;
    stw_placeto_trainer_destroy(p->trainer);
    return status;
}

const stw_method stw_method_placeto = {
    .name = "placeto",
    .description = "Placeto: units visited one after the other, each moved to where the step falls, learnt on this graph",
    .kind = STW_METHOD_RIVAL,
    .run = run};
