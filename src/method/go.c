/* `go-one`: the policy network, trained on this graph alone for as long as the budget lasts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "method/fusing.h"
#include "method/list.h"
#include "method/starts.h"
#include "train/trainer.h"

static const double START_SHARE = 0.1; /* of the budget, for plans to begin with where none are given */
enum { OPS_PER_UNIT = 32 };
static const double NOTHING_SHARE = 0.4; /* of the budget at most, for plans built from nothing */
static const double PROBE_SHARE = 0.3;   /* of that, before they must be good */
static const double NEAR_ENOUGH = 1.0;   /* times the first plan */
static const double SAVE_S = 30.0;       /* between checkpoints */

typedef struct {
    stw_search *search;
    stw_list list;
    stw_problem problem;
    stw_starts starts;
    stw_train_settings settings;
    stw_policy_config config;
    stw_trainer *trainer;
    int32_t unit_count;
    bool has_identities;
    double saved_s;
    stw_budget phase; /* the end of what trains now, on the search's clock and count */
    double began_s;   /* its beginning */
    int64_t began_evaluations;
    stw_score first; /* of the plan to begin with, if there is one */
    bool has_first;
} go;

/* ---- what the trainer asks for ---- */

static stw_status finish(void *context, stw_plan *plan, int32_t worker, stw_error *error) {
    const go *g = context;
    return stw_fusing_apply_rule(g->search, plan, worker, error);
}

static stw_status evaluate(void *context, const stw_plan *plan, int32_t worker, stw_score *out, stw_error *error) {
    const go *g = context;
    return stw_search_evaluate(g->search, plan, worker, out, error);
}

static stw_status repair(void *context, stw_plan *plan, stw_score *score, stw_error *error) {
    const go *g = context;
    return stw_search_repair(g->search, plan, score, 0, error);
}

static bool is_stopped(void *context) {
    const go *g = context;
    return stw_search_is_stopped(g->search) || (g->phase.until_s > 0.0 && stw_now_s() >= g->phase.until_s);
}

static int64_t evaluations_left(void *context) {
    const go *g = context;
    const int64_t left = g->phase.evaluations - (int64_t)atomic_load(&g->search->evaluations);
    return g->phase.evaluations <= 0 ? INT64_MAX : left > 0 ? left : 0;
}

static double progress(void *context) {
    const go *g = context;
    const stw_budget *budget = &g->phase;
    double share = 0.0;
    if (budget->until_s > 0.0) share = (stw_now_s() - g->began_s) / fmax(budget->until_s - g->began_s, 1e-9);
    if (budget->evaluations > 0) {
        const double used = (double)(atomic_load(&g->search->evaluations) - g->began_evaluations);
        share = fmax(share, used / fmax((double)(budget->evaluations - g->began_evaluations), 1.0));
    }
    return share;
}

static void found(void *context, const stw_plan *plan, const stw_score *score) {
    const stw_search *search = ((const go *)context)->search;
    if (search->found != NULL) search->found(search->watch_context, plan, score);
}

static void curve(void *context, const stw_curve_row *row) {
    const stw_search *search = ((const go *)context)->search;
    if (search->curve != NULL) search->curve(search->watch_context, row);
}

/* ---- settings ---- */

/* A plan of few ops is decoded in less time than the network takes for many units. */
static int32_t units_for(int32_t ops) {
    return ops < 128 * OPS_PER_UNIT ? 128 : ops < 512 * OPS_PER_UNIT ? ops / OPS_PER_UNIT : 512;
}

static stw_status choose_settings(go *g, stw_error *error) {
    static const stw_policy_settings unset = {
        .learning_rate = -1.0, .reward = -1, .glue = -1, .warm_start = -1, .unit_count = -1};
    const stw_policy_settings *wish = g->search->policy != NULL ? g->search->policy : &unset;
    g->unit_count = wish->unit_count >= 0 ? wish->unit_count : units_for(g->search->simulator->graph->op_count);
    const char *preset = wish->preset[0] != '\0' ? wish->preset : "default";
    if (!stw_policy_preset(preset, &g->config) || !stw_train_preset(preset, &g->settings))
        return stw_fail(error, STW_ERROR_INPUT, "unknown preset '%s'; known: default, paper", preset);
    stw_train_settings *s = &g->settings;
    s->seed = g->search->seed;
    s->updates = wish->updates;
    if (wish->learning_rate >= 0.0) {
        s->rate_end *= s->rate > 0.0 ? wish->learning_rate / s->rate : 0.0;
        s->rate = wish->learning_rate;
    }
    if (wish->reward >= 0) s->reward = (stw_reward)wish->reward;
    if (wish->glue >= 0) s->glue = wish->glue == 1;
    if (wish->warm_start == 0) s->imitations = 0;
    const bool feedback = g->config.pair_width > 0;
    g->has_identities = g->config.placement == STW_PLACEMENT_STEER; /* GO as published has none */
    g->config.feature_version = STW_FEATURE_VERSION;
    g->config.unit_columns = stw_feature_count(STW_FEATURES_UNIT);
    g->config.device_columns = stw_feature_count(STW_FEATURES_DEVICE);
    g->config.feedback_columns = feedback ? stw_feature_count(STW_FEATURES_FEEDBACK) : 0;
    g->config.pair_columns = feedback ? stw_feature_count(STW_FEATURES_PAIR) : 0;
    return STW_OK;
}

/* Decisions that start plans play no part in begin from nothing. The head `device` imitates one, if it may. */
static bool wants_starts(const go *g) {
    if (!g->problem.places) return true;
    return g->config.placement == STW_PLACEMENT_STEER ? g->settings.glue : g->settings.imitations > 0;
}

/* A training that is kept has one course; and nobody asked for glue or for none. */
static bool tries_nothing(const go *g) {
    const stw_policy_settings *wish = g->search->policy;
    const bool free = wish == NULL || (wish->glue < 0 && wish->updates == 0 && wish->file == NULL);
    return free && g->problem.places && g->config.placement == STW_PLACEMENT_STEER;
}

/* Every constructive method but `steer`, whose constants the policy tries itself. */
static stw_status open_starts(go *g, stw_error *error) {
    const stw_method *methods[STW_MAX_STARTS], *method;
    int32_t count = 0;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL && count < STW_MAX_STARTS; k++) {
        if (method != &stw_method_steer && stw_method_serves(method, g->search->objective, g->search->tasks))
            methods[count++] = method;
    }
    return stw_starts_open(g->search, methods, count, START_SHARE, &g->starts, error);
}

/* ---- training ---- */

static stw_status save(go *g, stw_error *error) {
    const stw_policy_settings *wish = g->search->policy;
    if (wish == NULL || wish->file == NULL || stw_trainer_updates(g->trainer) == 0) return STW_OK; /* nothing is learnt yet */
    g->saved_s = stw_now_s();
    return stw_trainer_save(g->trainer, wish->file, error);
}

static stw_status train(go *g, stw_error *error) {
    bool over = false;
    if (g->search->policy != NULL && g->search->policy->resume)
        TRY(stw_trainer_resume(g->trainer, g->search->policy->file, error));
    g->saved_s = stw_now_s();
    while (!over) {
        TRY(stw_trainer_step(g->trainer, &over, error));
        stw_search_tick(g->search);
        if (!over && stw_now_s() - g->saved_s > SAVE_S) (void)save(g, NULL); /* the next time, perhaps; the last one counts */
    }
    return save(g, error);
}

static void write_note(const go *g, const stw_score *score) {
    const stw_curve_row *row = stw_trainer_last_row(g->trainer);
    const long long updates = (long long)stw_trainer_updates(g->trainer);
    char *note = g->search->note;
    const size_t size = sizeof g->search->note;
    const bool compares = g->has_first && g->first.reason == STW_VALID && score->reason == STW_VALID && g->first.value > 0.0;
    if (compares && row->greedy > 0.0) { /* it is 0 before an update of this run, and no number where the plan was not valid */
        snprintf(note, size,
                 "%lld updates on %d units; %.1f %% below the plan it began with; the last greedy plan is at %.3f of it", updates,
                 g->problem.M, 100.0 * (1.0 - score->value / g->first.value), row->greedy / g->first.value);
    } else if (compares) {
        snprintf(note, size, "%lld updates on %d units; %.1f %% below the plan it began with", updates, g->problem.M,
                 100.0 * (1.0 - score->value / g->first.value));
    } else if (g->has_first) {
        snprintf(note, size, "%lld updates on %d units", updates, g->problem.M);
    } else {
        snprintf(note, size, "%lld updates on %d units, from nothing", updates, g->problem.M);
    }
}

/* From now until `share` of what is left of the budget is gone. */
static void begin_phase(go *g, double share) {
    const stw_budget *whole = &g->search->budget;
    g->began_s = stw_now_s();
    g->began_evaluations = (int64_t)atomic_load(&g->search->evaluations);
    g->phase = (stw_budget){0};
    if (whole->until_s > 0.0) g->phase.until_s = g->began_s + share * (whole->until_s - g->began_s);
    if (whole->evaluations > 0)
        g->phase.evaluations = g->began_evaluations + (int64_t)(share * (double)stw_search_evaluations_left(g->search));
}

/* Plans built from nothing, for as long as they are about as good as the one that others made: what is far from that plan is out
 * of reach once decisions are relative to it. Leaves the best in `plan` if it is better. */
static stw_status try_from_nothing(go *g, const stw_environment *environment, stw_plan *plan, stw_score *score,
                                   stw_error *error) {
    stw_train_settings settings = g->settings;
    stw_score found_score = {0};
    bool over = false;
    settings.glue = false;
    begin_phase(g, NOTHING_SHARE);
    TRY(stw_trainer_create(&g->problem, environment, &g->config, &settings, NULL, NULL, &g->trainer, error));
    stw_status status = STW_OK;
    while (!over && status == STW_OK) {
        status = stw_trainer_step(g->trainer, &over, error);
        stw_search_tick(g->search);
        const stw_plan *best = stw_trainer_best(g->trainer, &found_score);
        const bool good = best != NULL && found_score.reason == STW_VALID && found_score.value < NEAR_ENOUGH * score->value;
        if (!good && progress(g) > PROBE_SHARE) break;
    }
    const stw_plan *best = stw_trainer_best(g->trainer, &found_score);
    if (status == STW_OK && best != NULL && stw_score_is_better(&found_score, score)) {
        *score = found_score;
        status = stw_plan_copy(plan, best, error);
    }
    stw_trainer_destroy(g->trainer);
    g->trainer = NULL;
    return status;
}

static stw_status run_trainer(go *g, stw_plan *plan, stw_error *error) {
    const stw_environment environment = {.context = g,
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
    if (!g->problem.places && g->starts.count == 0) return stw_starts_keep_placement(g->search, plan, error);
    const stw_plan *start = wants_starts(g) && g->starts.count > 0 ? g->starts.plan[0] : NULL;
    if (start != NULL) TRY(stw_search_evaluate(g->search, start, 0, &g->first, error));
    g->has_first = start != NULL;
    stw_score begin = g->first;
    if (start != NULL && tries_nothing(g)) {
        TRY(stw_plan_copy(plan, start, error));
        TRY(try_from_nothing(g, &environment, plan, &begin, error));
        start = plan;
    }
    begin_phase(g, 1.0);
    TRY(stw_trainer_create(&g->problem, &environment, &g->config, &g->settings, start, &begin, &g->trainer, error));
    TRY(train(g, error));
    stw_score score = {0};
    const stw_plan *best = stw_trainer_best(g->trainer, &score);
    if (best == NULL) return stw_fail(error, STW_ERROR_NO_PLAN, "no plan was made before the budget ended");
    write_note(g, &score);
    TRY(stw_plan_copy(plan, best, error));
    return score.reason == STW_INVALID_MEMORY ? stw_search_repair(g->search, plan, &score, 0, error) : STW_OK;
}

static bool has_fusion_rule(const stw_search *search) { return search->fusing != NULL && search->fusing->rule >= 0; }

static stw_status prepare(go *g, stw_arena *arena, stw_error *error) {
    stw_search *search = g->search;
    TRY(choose_settings(g, error));
    TRY(stw_list_prepare(search, arena, &g->list, error));
    const stw_listing listing = {.base = &g->list.base,
                                 .atom = g->list.atom,
                                 .atom_count = g->list.atom_count,
                                 .mean_us = g->list.mean_us,
                                 .memory = g->list.memory,
                                 .allowed = g->list.linked};
    TRY(stw_problem_build(search->simulator, search->objective, &listing, g->unit_count, arena, &g->problem, error));
    if (g->has_identities) g->config.identities = g->problem.M;
    g->problem.places = (search->tasks & STW_TASK_PLACEMENT) != 0;
    g->problem.schedules = (search->tasks & STW_TASK_SCHEDULE) != 0 && search->rule < 0;
    g->problem.fuses = (search->tasks & STW_TASK_FUSION) != 0 && !has_fusion_rule(search);
    if (g->problem.fuses) stw_policy_add_fusion(&g->config);
    g->problem.rule = search->rule;
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    go *g;
    STW_TRY_NEW(&arena, g, 1, error);
    g->search = search;
    TRY(prepare(g, &arena, error));
    if (g->problem.M == 0 || (!g->problem.places && !g->problem.schedules && !g->problem.fuses))
        return stw_starts_keep_placement(search, plan, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    stw_status status = wants_starts(g) ? open_starts(g, error) : STW_OK;
    if (status == STW_OK) status = run_trainer(g, plan, error);
    search->arena = before;
    stw_trainer_destroy(g->trainer);
    stw_starts_close(&g->starts);
    return status;
}

const stw_method stw_method_go_one = {"go-one", "the policy network, trained on this graph alone while the budget lasts",
                                      STW_METHOD_POLICY, run};
