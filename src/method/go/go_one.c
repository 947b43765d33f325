/* `go-one`: the policy network, trained on this graph alone for as long as the budget lasts. */
#include "method/go/go.h"
#include "search/fusing.h"

static const double NOTHING_SHARE = 0.4; /* of the budget at most, for plans built from nothing */
static const double PROBE_SHARE = 0.3;   /* of that, before they must be good */
static const double NEAR_ENOUGH = 1.0;   /* times the first plan */
static const double SAVE_S = 30.0;       /* between checkpoints */
enum { IMITATIONS = 300 };               /* steps of a warm start, at most */

/* ---- settings ---- */

static stw_status choose_settings(stw_go *g, stw_error *error) {
    const stw_policy_settings *wish = stw_go_wish(g->search);
    const char *preset = wish->preset[0] != '\0' ? wish->preset : "default";
    if (!stw_policy_preset(preset, &g->config) || !stw_train_preset(preset, &g->settings))
        return stw_fail(error, STW_ERROR_INPUT, "unknown preset '%s'; known: default, paper, gdp", preset);
    stw_train_settings *s = &g->settings;
    s->seed = g->search->seed;
    s->updates = wish->updates;
    if (wish->learning_rate >= 0.0) {
        s->rate_end *= s->rate > 0.0 ? wish->learning_rate / s->rate : 0.0;
        s->rate = wish->learning_rate;
    }
    if (wish->reward >= 0) s->reward = (stw_reward)wish->reward;
    if (wish->glue >= 0) s->glue = wish->glue == 1;
    if (wish->warm_start == 1 && stw_go_chooses(&g->config)) s->imitations = IMITATIONS;
    if (wish->device_names == 0) g->config.device_names = 0;
    const bool feedback = g->config.pair_width > 0;
    g->config.feature_version = STW_FEATURE_VERSION;
    g->config.unit_columns = stw_feature_count(STW_FEATURES_UNIT);
    g->config.device_columns = stw_feature_count(STW_FEATURES_DEVICE);
    g->config.feedback_columns = feedback ? stw_feature_count(STW_FEATURES_FEEDBACK) : 0;
    g->config.pair_columns = feedback ? stw_feature_count(STW_FEATURES_PAIR) : 0;
    return STW_OK;
}

/* Decisions in which initial plans play no part begin from nothing. The head `device` imitates one, if it may. */
static bool wants_starts(const stw_go *g) {
    if (!g->problem.places) return true;
    return g->config.placement == STW_PLACEMENT_STEER ? g->settings.glue : g->settings.imitations > 0;
}

/* A training that is kept has one course; and nobody asked for glue or for none. */
static bool tries_nothing(const stw_go *g) {
    const stw_policy_settings *wish = stw_go_wish(g->search);
    const bool free = wish->glue < 0 && wish->updates == 0 && wish->file == NULL;
    return free && g->problem.places && g->config.placement == STW_PLACEMENT_STEER;
}

/* ---- training ---- */

static stw_status save(stw_go *g, stw_error *error) {
    const char *file = stw_go_wish(g->search)->file;
    if (file == NULL || stw_trainer_updates(g->trainer) == 0) return STW_OK; /* nothing is learnt yet */
    return stw_trainer_save(g->trainer, file, error);
}

static stw_status train(stw_go *g, stw_error *error) {
    bool over = false;
    if (stw_go_wish(g->search)->resume) TRY(stw_trainer_resume(g->trainer, stw_go_wish(g->search)->file, error));
    double saved_s = stw_now_s();
    while (!over) {
        TRY(stw_trainer_step(g->trainer, &over, error));
        stw_search_tick(g->search);
        if (over || stw_now_s() - saved_s <= SAVE_S) continue;
        (void)save(g, NULL); /* the next time, perhaps; the last one counts */
        saved_s = stw_now_s();
    }
    return save(g, error);
}

/* Plans built from nothing, for as long as they are about as good as the one that others made: what is far from that plan is out
 * of reach once decisions are relative to it. Leaves the best in `plan` if it is better. */
static stw_status try_from_nothing(stw_go *g, stw_plan *plan, stw_score *score, stw_error *error) {
    stw_train_settings settings = g->settings;
    stw_score found_score = {0};
    bool over = false;
    settings.glue = false;
    TRY(stw_trainer_create(&g->problem, g->search, NULL, &g->config, &settings, NULL, NULL, &g->trainer, error));
    stw_trainer_limit(g->trainer, NOTHING_SHARE);
    stw_status status = STW_OK;
    while (!over && status == STW_OK) {
        status = stw_trainer_step(g->trainer, &over, error);
        stw_search_tick(g->search);
        const stw_plan *best = stw_trainer_best(g->trainer, &found_score);
        const bool good = best != NULL && found_score.reason == STW_VALID && found_score.value < NEAR_ENOUGH * score->value;
        if (!good && stw_trainer_progress(g->trainer) > PROBE_SHARE) break;
    }
    const stw_plan *best = stw_trainer_best(g->trainer, &found_score);
    if (status == STW_OK && best != NULL && stw_score_is_better(&found_score, score)) {
        *score = found_score;
        status = stw_plan_assign(plan, best, error);
    }
    stw_trainer_destroy(g->trainer);
    g->trainer = NULL;
    return status;
}

static stw_status run_trainer(stw_go *g, stw_plan *plan, stw_error *error) {
    if (!g->problem.places && g->starts.count == 0) return stw_starts_keep_placement(g->search, plan, error);
    const stw_plan *start = wants_starts(g) && g->starts.count > 0 ? g->starts.plan[0] : NULL;
    if (start != NULL) TRY(stw_search_evaluate(g->search, start, 0, &g->first, error));
    g->has_first = start != NULL;
    stw_score begin = g->first;
    if (start != NULL && tries_nothing(g)) {
        TRY(stw_plan_assign(plan, start, error));
        TRY(try_from_nothing(g, plan, &begin, error));
        start = plan;
    }
    TRY(stw_trainer_create(&g->problem, g->search, NULL, &g->config, &g->settings, start, &begin, &g->trainer, error));
    TRY(train(g, error));
    stw_go_write_note(g, ", without an initial plan");
    return stw_go_take_best(g, plan, error);
}

static bool has_fusion_rule(const stw_search *search) { return search->fusing != NULL && search->fusing->rule >= 0; }

static stw_status prepare(stw_go *g, stw_arena *arena, stw_error *error) {
    const stw_search *search = g->search;
    TRY(choose_settings(g, error));
    TRY(stw_go_prepare(g, arena, error));
    if (g->config.placement == STW_PLACEMENT_STEER) g->config.identities = g->problem.M; /* GO as published has none */
    g->problem.fuses = (search->tasks & STW_TASK_FUSION) != 0 && !has_fusion_rule(search);
    stw_go_limit(&g->config, &g->problem);
    if (g->problem.fuses) stw_policy_add_fusion(&g->config);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    stw_go *g;
    STW_TRY_NEW(&arena, g, 1, error);
    g->search = search;
    TRY(prepare(g, &arena, error));
    if (g->problem.M == 0 || (!g->problem.places && !g->problem.schedules && !g->problem.fuses))
        return stw_starts_keep_placement(search, plan, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    stw_status status = wants_starts(g) ? stw_go_open_starts(g, error) : STW_OK;
    if (status == STW_OK) status = run_trainer(g, plan, error);
    search->arena = before;
    stw_trainer_destroy(g->trainer);
    stw_starts_close(&g->starts);
    return status;
}

const stw_method stw_method_go_one = {.name = "go-one",
                                      .description = "the policy network, trained on this graph alone while the budget lasts",
                                      .kind = STW_METHOD_LEARNER,
                                      .run = run};
