#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "train/trainer_state.h"

/* ---- presets ---- */

static const stw_train_settings preset_default = {.patience = 40,
                                                  .samples = 16,
                                                  .epochs = 2,
                                                  .clip = 0.2,
                                                  .rate = 4e-3,
                                                  .rate_end = 4e-4,
                                                  .warm_up = 20,
                                                  .sigma = 0.7,
                                                  .sigma_end = 0.35,
                                                  .floor = 0.002,
                                                  .limit = 2.5,
                                                  .gradient_norm = 1.0,
                                                  .pull = 1e-4,
                                                  .noise = {.graph = 0.05, .group = 0.8, .unit = 0.15, .sparse = 0.5},
                                                  .reward = STW_REWARD_LOG,
                                                  .loss_weight = 0.2,
                                                  .elite = true,
                                                  .proposals = true,
                                                  .wander = 0.02,
                                                  .grid = true,
                                                  .glue = true};
/* GO and GDP: docs/paper.md says what is published of it and what was chosen. */
static const stw_train_settings preset_paper = {.patience = 0,
                                                .samples = 16,
                                                .epochs = 4,
                                                .rows = 32768,
                                                .clip = 0.2,
                                                .rate = 3e-4,
                                                .rate_end = 3e-4,
                                                .sigma = 0.7,
                                                .sigma_end = 0.7,
                                                .gradient_norm = 1.0,
                                                .noise = {.unit = 1.0},
                                                .reward = STW_REWARD_PUBLISHED,
                                                .over_trials = true,
                                                .loss_weight = 1.0,
                                                .imitation_rate = 1e-3};

static const stw_train_settings preset_transfer = {
    .patience = 0,
    .samples = 15,
    .epochs = 2,
    .clip = 0.2,
    .rate = 3e-3,
    .rate_end = 3e-4,
    .warm_up = 20,
    .sigma = 0.8,
    .sigma_end = 0.6,
    .floor = 0.005,
    .limit = 2.5,
    .gradient_norm = 1.0,
    .pull = 1e-4,
    .noise = {.graph = 0.2, .group = 0.7, .unit = 0.1, .sparse = 0.5, .alike = 0.5},
    .reward = STW_REWARD_LOG,
    .loss_weight = 0.3,
    .moves = 16,
    .proposals = true,
    .offset = {0.5, 0.0, 5.0, 0.0},
    .glue = true};

bool stw_train_preset(const char *name, stw_train_settings *out) {
    static const struct {
        const char *name;
        const stw_train_settings *settings;
    } presets[] = {
        {"default", &preset_default}, {"paper", &preset_paper}, {"gdp", &preset_paper}, {"transfer", &preset_transfer}};
    *out = preset_default;
    for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++) {
        if (strcmp(name, presets[k].name) != 0) continue;
        *out = *presets[k].settings;
        return true;
    }
    return false;
}

/* ---- making one ---- */

/* `later`: not the first of the network. */
static stw_status allocate_draft(stw_trainer *t, stw_draft *draft, bool later, stw_error *error) {
    const int64_t M = t->problem->M, K = t->settings.samples, all = (K + 1) * M;
    const int64_t fused = later ? all : M, placed = later || t->chained ? all : M;
    STW_TRY_NEW(&t->arena, draft->means, placed * t->P, error);
    STW_TRY_NEW(&t->arena, draft->d_placement, placed * t->P, error);
    STW_TRY_NEW(&t->arena, draft->placement, all * t->A, error);
    STW_TRY_NEW(&t->arena, draft->logp_placement, all, error);
    STW_TRY_NEW(&t->arena, draft->schedule_out, all * t->S, error);
    STW_TRY_NEW(&t->arena, draft->d_schedule, all * t->S, error);
    STW_TRY_NEW(&t->arena, draft->schedule, all, error);
    STW_TRY_NEW(&t->arena, draft->logp_schedule, all, error);
    if (!t->chained) return STW_OK;
    STW_TRY_NEW(&t->arena, draft->fusion_out, fused * t->F, error);
    STW_TRY_NEW(&t->arena, draft->d_fusion, fused * t->F, error);
    STW_TRY_NEW(&t->arena, draft->fusion, all, error);
    STW_TRY_NEW(&t->arena, draft->logp_fusion, all, error);
    return STW_OK;
}

static stw_status allocate_update(stw_trainer *t, stw_error *error) {
    const stw_features *f = &t->problem->features;
    const stw_policy_config *config = stw_net_config(t->net);
    const int64_t M = t->problem->M, K = t->settings.samples;
    t->steered = config->placement == STW_PLACEMENT_STEER;
    t->nudged = config->schedule == STW_SCHEDULE_NUDGE;
    t->chained = config->fusion != STW_FUSION_HEAD_NONE;
    t->fusion_nudged = config->fusion == STW_FUSION_HEAD_NUDGE;
    t->F = t->chained && !t->fusion_nudged ? config->fusion_classes : 1;
    t->P = t->steered ? STW_STEER_KNOBS : f->D;
    t->S = t->nudged ? 1 : config->classes;
    t->A = t->steered ? STW_STEER_KNOBS : 1;
    t->drafts = config->drafts > 1 ? config->drafts : 1;
    t->now = &t->draft[t->drafts - 1];
    if (t->drafts > 1 && t->settings.elite)
        return stw_fail(error, STW_ERROR_INPUT, "the best sample is kept of one draft; the network makes %d", t->drafts);
    if (t->settings.rows > 0 && (t->settings.elite || t->settings.moves > 0))
        return stw_fail(error, STW_ERROR_INPUT, "learning in batches of %lld rows knows neither moves nor an elite",
                        (long long)t->settings.rows);
    for (int32_t k = 0; k < t->drafts; k++) TRY(allocate_draft(t, &t->draft[k], k > 0, error));
    STW_TRY_NEW(&t->arena, t->feedback, M * config->feedback_columns + 1, error);
    STW_TRY_NEW(&t->arena, t->pair, M * f->D * config->pair_columns + 1, error);
    STW_TRY_NEW(&t->arena, t->proposal, M * config->proposal_columns + 1, error);
    const int32_t wide = t->P > t->S ? t->P : t->S;
    STW_TRY_NEW(&t->arena, t->noise, M * (wide > t->F ? wide : t->F), error);
    STW_TRY_NEW(&t->arena, t->plan, K + 2, error);
    STW_TRY_NEW(&t->arena, t->score, K + 1, error);
    STW_TRY_NEW(&t->arena, t->reward, K + 1, error);
    STW_TRY_NEW(&t->arena, t->advantage, K + 1, error);
    STW_TRY_NEW(&t->arena, t->elite_placement, M * t->A, error);
    STW_TRY_NEW(&t->arena, t->elite_schedule, M, error);
    STW_TRY_NEW(&t->arena, t->other, t->problem->simulator->graph->N, error);
    STW_TRY_NEW(&t->arena, t->trial, t->settings.moves, error);
    return STW_OK;
}

/* The fusion task's share of an update, and what fuses. */
static stw_status allocate_fusion(stw_trainer *t, stw_error *error) {
    const stw_simulator *s = t->problem->simulator;
    const int64_t M = t->problem->M, K = t->settings.samples, N = s->graph->N;
    const int32_t threads = stw_pool_threads(t->search->pool);
    STW_TRY_NEW(&t->arena, t->plan_fusion, K + 2, error);
    if (t->problem->fuses && !t->chained)
        return stw_fail(error, STW_ERROR_INPUT, "fusion is to be decided, but the network has no head for it");
    if (t->chained) STW_TRY_NEW(&t->arena, t->elite_fusion, M, error);
    if (!t->problem->fuses) return STW_OK;
    STW_TRY_NEW(&t->arena, t->fuser, threads, error);
    for (int32_t k = 0; k < threads; k++) TRY(stw_fuser_create(s->costs, &t->arena, &t->fuser[k], error));
    for (int32_t k = 0; k <= K + 1; k++) STW_TRY_NEW(&t->arena, t->plan_fusion[k], N, error);
    STW_TRY_NEW(&t->arena, t->rule_fusion, N, error);
    STW_TRY_NEW(&t->arena, t->origin_fusion, N, error);
    STW_TRY_NEW(&t->arena, t->best_fusion, N, error);
    STW_TRY_NEW(&t->arena, t->beside_fusion, N, error);
    return STW_OK;
}

static stw_status ask_rule(stw_trainer *t, const stw_plan *start, stw_error *error) {
    stw_arena scratch = t->arena;
    int32_t *group;
    if (!t->problem->fuses) return STW_OK;
    STW_TRY_NEW(&scratch, group, t->problem->simulator->graph->N, error);
    stw_fuse_by_rule(t->fuser[0], STW_FUSION_DEFAULT, t->problem->places || start == NULL ? NULL : start->device, group,
                     t->rule_fusion);
    return STW_OK;
}

static stw_status create_plans(stw_trainer *t, stw_error *error) {
    const stw_simulator *s = t->problem->simulator;
    TRY(stw_plan_create(s->graph, s->machine, &t->origin, error));
    TRY(stw_plan_create(s->graph, s->machine, &t->best, error));
    TRY(stw_plan_create(s->graph, s->machine, &t->beside, error));
    for (int32_t k = 0; k <= t->settings.samples + 1; k++) TRY(stw_plan_create(s->graph, s->machine, &t->plan[k], error));
    return STW_OK;
}

static stw_status fill(stw_trainer *t, stw_net *net, const stw_policy_config *config, const stw_plan *start,
                       const stw_score *score, stw_error *error) {
    TRY(stw_arena_create(&t->arena, error));
    t->net = net;
    if (t->net == NULL) {
        TRY(stw_backend_cpu(t->search->pool, &t->backend, error));
        TRY(stw_net_create(config, t->backend, t->settings.seed, &t->own_net, error));
        t->net = t->own_net;
    }
    if (!t->shares_pass) TRY(stw_pass_create(t->net, &t->pass, error));
    TRY(allocate_update(t, error));
    TRY(allocate_fusion(t, error));
    TRY(ask_rule(t, start, error));
    TRY(create_plans(t, error));
    if (start == NULL) return STW_OK;
    TRY(stw_plan_assign(t->best, start, error));
    t->best_score = *score;
    t->has_best = true;
    const stw_problem *p = t->problem;
    if (!p->fuses) return STW_OK;
    return stw_fusion_begin(p->simulator, t->rule_fusion, start, t->best_fusion, t->arena, error);
}

/* `beside`: another trainer of the same problem, whose pass and trials it shares, or NULL. */
static stw_status create(const stw_problem *problem, stw_search *search, stw_net *net, const stw_policy_config *config,
                         const stw_train_settings *settings, const stw_trainer *beside, const stw_plan *start,
                         const stw_score *score, stw_trainer **out, stw_error *error) {
    *out = NULL;
    stw_trainer *t = calloc(1, sizeof *t);
    if (t == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    t->problem = problem;
    t->search = search;
    t->settings = *settings;
    t->shares_pass = beside != NULL;
    if (t->shares_pass) t->pass = beside->pass;
    t->round_index = -1;
    t->draw = -1;
    t->began_s = stw_now_s();
    stw_trainer_limit(t, 1.0);
    t->rng = stw_rng_create(settings->seed);
    t->trials = t->shares_pass ? beside->trials : &t->own_trials;
    const stw_status status = fill(t, net, config, start, score, error);
    if (status == STW_OK) {
        *out = t;
    } else {
        stw_trainer_destroy(t);
    }
    return status;
}

stw_status stw_trainer_create(const stw_problem *problem, stw_search *search, stw_net *net, const stw_policy_config *config,
                              const stw_train_settings *settings, const stw_plan *start, const stw_score *score,
                              stw_trainer **out, stw_error *error) {
    return create(problem, search, net, config, settings, NULL, start, score, out, error);
}

stw_status stw_trainer_create_beside(const stw_trainer *t, const stw_plan *start, const stw_score *score, stw_trainer **out,
                                     stw_error *error) {
    return create(t->problem, t->search, t->net, stw_net_config(t->net), &t->settings, t, start, score, out, error);
}

void stw_trainer_destroy(stw_trainer *t) {
    if (t == NULL) return;
    for (int32_t k = 0; t->plan != NULL && k <= t->settings.samples + 1; k++) stw_plan_destroy(t->plan[k]);
    stw_plan_destroy(t->origin);
    stw_plan_destroy(t->best);
    stw_plan_destroy(t->beside);
    if (!t->shares_pass) stw_pass_destroy(t->pass);
    stw_net_destroy(t->own_net);
    stw_backend_destroy(t->backend);
    stw_arena_destroy(&t->arena);
    free(t);
}

void stw_trainer_limit(stw_trainer *t, double share) {
    t->budget = stw_budget_share(&t->search->budget, stw_search_moment(t->search), share, STW_SHARE_DOWN);
}

void stw_trainer_set_progress(stw_trainer *t, double progress) { t->progress = progress; }

stw_status stw_trainer_restart(stw_trainer *t, const stw_plan *plan, const stw_score *score, int32_t round, int64_t update,
                               stw_error *error) {
    TRY(stw_plan_assign(t->best, plan, error));
    t->update = update;
    t->round_index = round - 1;
    t->draw = update;
    t->best_score = *score;
    t->has_best = true;
    t->has_beside = false;
    t->failed_count = 0;
    t->restarted = true;
    t->prepared = false;
    return STW_OK;
}

/* ---- looking at one ---- */

const stw_plan *stw_trainer_best(const stw_trainer *t, stw_score *score) {
    if (score != NULL) *score = t->best_score;
    return t->has_best ? t->best : NULL;
}

bool stw_trainer_learns_from_all(const stw_trainer *t) { return t->settings.reward == STW_REWARD_PUBLISHED; }
int64_t stw_trainer_updates(const stw_trainer *t) { return t->update; }
int64_t stw_trainer_decodes(const stw_trainer *t) { return (int64_t)atomic_load(&t->decodes); }
const stw_curve_row *stw_trainer_last_row(const stw_trainer *t) { return &t->row; }
stw_net *stw_trainer_net(stw_trainer *t) { return t->net; }
