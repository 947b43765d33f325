/* `go-tune`: what `go-zero` does, then whatever was learnt on other graphs goes on learning with this one. A policy that has
 * learnt from moves alone knows which moves to try: there it is `anneal`, whose scorer goes on learning. A policy that has learnt
 * to steer is trained for some updates; its units get vectors of their own, which begin as 0. */
#include <stdio.h>

#include "method/anneal/learn.h"
#include "method/anneal/proposals.h"
#include "method/go/go.h"

enum { UPDATES = 50, PATIENCE = 15, WARM_UP = 5 };
enum { SAMPLES = 16 }; /* per update, of a policy as published */
enum { IDLE = 6 };     /* updates without a better plan, after which a search that goes on has better use for the rest */
static const double RATE = 1e-3, RATE_END = 2e-4;

static stw_status choose_settings(stw_go *g, const stw_pretrained *policy, stw_error *error) {
    const stw_policy_settings *wish = stw_go_wish(g->search);
    stw_train_settings *s = &g->settings;
    if (!stw_train_preset("default", s)) return stw_fail(error, STW_ERROR_INPUT, "there is no preset 'default'");
    s->seed = g->search->seed;
    s->patience = PATIENCE;
    s->warm_up = WARM_UP;
    s->rate = wish->learning_rate >= 0.0 ? wish->learning_rate : RATE;
    s->rate_end = s->rate * (RATE_END / RATE);
    if (wish->reward >= 0) s->reward = (stw_reward)wish->reward;
    g->config = policy->config;
    g->config.identities = g->problem.M;
    return STW_OK;
}

/* The course of the training goes by the updates, or by the budget if that ends sooner. It ends after `idle` updates in a row
 * that brought no better plan than `known`, and than those before. */
static stw_status train(stw_go *g, int64_t updates, int64_t idle, stw_score known, stw_error *error) {
    bool over = false;
    int64_t last = 0; /* updates until the last better plan */
    for (int64_t k = 0; k < updates && !over && k - last < idle; k++) {
        stw_score best = {0};
        stw_trainer_set_progress(g->trainer, (double)k / (double)updates);
        TRY(stw_trainer_step(g->trainer, &over, error));
        stw_search_tick(g->search);
        if (stw_trainer_best(g->trainer, &best) == NULL || !stw_score_is_better(&best, &known)) continue;
        known = best;
        last = k + 1;
    }
    return STW_OK;
}

/* In `optimize` go-zero ran before, and its plan is among the initial ones. */
static bool has_zero(const stw_search *search) {
    for (int32_t k = 0; k < search->start_count; k++) {
        if (stw_str_is(search->start[k]->method, stw_method_go_zero.name)) return true;
    }
    return false;
}

/* A policy that chooses devices itself goes on as it was trained, from its own weights and nothing else. */
static stw_status tune_published(stw_go *g, const stw_pretrained *policy, int64_t updates, stw_plan *plan, stw_error *error) {
    const double rate = stw_go_wish(g->search)->learning_rate;
    TRY(stw_go_published(g, policy, SAMPLES, error));
    if (rate >= 0.0) g->settings.rate = g->settings.rate_end = rate;
    TRY(stw_trainer_create(&g->problem, g->search, NULL, &policy->config, &g->settings, NULL, NULL, &g->trainer, error));
    TRY(stw_net_load_shared(stw_trainer_net(g->trainer), &policy->file, g->search->arena, error));
    TRY(train(g, updates, updates, (stw_score){.reason = STW_INVALID_ORDER}, error));
    stw_go_write_note(g, "");
    return stw_go_take_best(g, plan, error);
}

/* One evaluation is left for what is said of the plan. */
static stw_budget but_one(stw_budget budget) {
    if (budget.evaluations > 1) budget.evaluations--;
    return budget;
}

/* `anneal` from that plan, with a scorer that goes on learning. */
static stw_status search_by_scorer(stw_search *search, const stw_plan *first, stw_plan *plan, stw_error *error) {
    const stw_arena before = search->arena;
    const stw_budget whole = search->budget;
    const stw_proposals *const gone_by = search->proposals;
    const stw_plan *const *start = search->start;
    const int32_t start_count = search->start_count;
    const double wanted = stw_go_wish(search)->scorer_rate;
    stw_arena arena = search->arena;
    stw_proposals proposals;
    TRY(stw_proposals_open(search, &arena, &proposals, error));
    proposals.rate = wanted >= 0.0 ? wanted : STW_LEARNER_RATE;
    search->arena = arena;
    search->budget = but_one(whole);
    search->proposals = &proposals;
    search->start = &first;
    search->start_count = 1;
    const stw_status status = stw_method_anneal.run(search, plan, error);
    search->arena = before;
    search->budget = whole;
    search->proposals = gone_by;
    search->start = start;
    search->start_count = start_count;
    return status;
}

/* From the best plan so far; what is said of the gain is relative to the initial plan. */
static stw_status tune_scorer(stw_go *g, const stw_plan *start, stw_plan *plan, stw_error *error) {
    stw_outcome *outcome = &g->search->outcome;
    stw_score score = {0};
    stw_plan *first;
    TRY(stw_plan_create(start->graph, start->machine, &first, error));
    stw_status status = stw_plan_assign(first, start, error);
    if (status == STW_OK) status = search_by_scorer(g->search, first, plan, error);
    stw_plan_destroy(first);
    if (status != STW_OK || !g->has_first || stw_search_evaluations_left(g->search) < 1) return status;
    TRY(stw_search_evaluate(g->search, plan, 0, &score, error));
    if (g->first.reason == STW_VALID && score.reason == STW_VALID && g->first.value > 0.0)
        snprintf(outcome->note, sizeof outcome->note, "%.2f %% better than the initial plan",
                 100.0 * (1.0 - score.value / g->first.value));
    return STW_OK;
}

static stw_status run_policy(stw_go *g, const stw_pretrained *policy, stw_plan *plan, stw_error *error) {
    const int64_t wanted = stw_go_wish(g->search)->updates, updates = wanted > 0 ? wanted : UPDATES;
    const bool goes_on = has_zero(g->search);
    stw_zero zero;
    if (stw_go_chooses(&policy->config)) return tune_published(g, policy, updates, plan, error);
    TRY(stw_go_open_starts(g, error));
    if (!g->problem.places && g->starts.count == 0) return stw_starts_keep_placement(g->search, plan, error);
    TRY(stw_go_measure_start(g, error));
    const stw_plan *start = g->has_first ? g->starts.plan[0] : NULL;
    stw_score begin = g->first;
    if (!goes_on) {
        TRY(stw_zero_decode(g, policy, start, plan, &zero, error));
        start = plan;
        begin = zero.best;
    }
    if (start != NULL && stw_go_tunes_scorer(stw_go_wish(g->search), g->search->objective, g->search->tasks, policy))
        return tune_scorer(g, start, plan, error);
    TRY(choose_settings(g, policy, error));
    TRY(stw_trainer_create(&g->problem, g->search, NULL, &g->config, &g->settings, start, &begin, &g->trainer, error));
    TRY(stw_net_load_shared(stw_trainer_net(g->trainer), &policy->file, g->search->arena, error));
    TRY(train(g, updates, wanted > 0 || !goes_on ? updates : IDLE, begin, error));
    stw_go_write_note(g, "");
    return stw_go_take_best(g, plan, error);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    return stw_go_run_pretrained(search, "go-tune", run_policy, plan, error);
}

const stw_method stw_method_go_tune = {.name = "go-tune",
                                       .description = "go-zero, then a search whose scorer goes on learning from this graph",
                                       .kind = STW_METHOD_POLICY,
                                       .run = run};
