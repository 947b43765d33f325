#include "baseline/hdp/reinforce.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "plan/plan.h"

/* ---- the rules ---- */

static const stw_reinforce_settings preset_paper = {.patience = 200,
                                                    .samples = 1,
                                                    .per_device = 20,
                                                    .most_groups = 256,
                                                    .rate = 0.1,
                                                    .rate_for_many = 0.1,
                                                    .decay = 0.95,
                                                    .decay_from = 400,
                                                    .decay_every = 50,
                                                    .gradient_norm = 1.0,
                                                    .failing = 100.0,
                                                    .keep = 0.9,
                                                    .noise = 0.5,
                                                    .noise_until = 750,
                                                    .sampling_until = 500,
                                                    .failures_until = 1000,
                                                    .bound = 1.0,
                                                    .sharpness = 1.0,
                                                    .hidden = 64,
                                                    .width = 512};
static const stw_reinforce_settings preset_default = {.patience = 200,
                                                      .samples = 16,
                                                      .units = 128,
                                                      .per_device = 3,
                                                      .most_groups = 256,
                                                      .rate = 3e-3,
                                                      .rate_for_many = 3e-4,
                                                      .decay = 0.95,
                                                      .decay_from = 400,
                                                      .decay_every = 50,
                                                      .gradient_norm = 1.0,
                                                      .failing = 100.0,
                                                      .own_baseline = true,
                                                      .failures_until = 1000,
                                                      .sharpness = 5.0,
                                                      .hidden = 64,
                                                      .width = 512};

bool stw_reinforce_preset(const char *name, int32_t devices, stw_reinforce_settings *out) {
    const bool paper = strcmp(name, "paper") == 0;
    *out = paper ? preset_paper : preset_default;
    if (devices >= STW_MANY_DEVICES) out->rate = out->rate_for_many;
    return paper || strcmp(name, "default") == 0;
}

int32_t stw_reinforce_groups(const stw_reinforce_settings *settings, int32_t devices, int32_t ops) {
    int64_t groups = (int64_t)settings->per_device * devices;
    if (groups > settings->most_groups) groups = settings->most_groups;
    if (settings->groups > 0) groups = settings->groups;
    return groups < ops ? (int32_t)groups : ops;
}

double stw_reinforce_cost(const stw_reinforce_settings *settings, const stw_score *score, double reference) {
    return sqrt(score->reason == STW_VALID ? fmin(score->value / reference, settings->failing) : settings->failing);
}

double stw_reinforce_rate(const stw_reinforce_settings *settings, int64_t update) {
    if (update < settings->decay_from || settings->decay_every <= 0) return settings->rate;
    const int64_t steps = (update - settings->decay_from) / settings->decay_every;
    return settings->rate * pow(settings->decay, (double)steps);
}

void stw_reinforce_weights(const stw_reinforce_settings *settings, int64_t update, const double *cost, const bool *valid,
                           stw_baseline *baseline, double *weight) {
    const bool forgives = settings->failures_until > 0 && update >= settings->failures_until;
    double mean = 0.0;
    int32_t count = 0;
    for (int32_t k = 0; k < settings->samples; k++) {
        if (forgives && !valid[k]) continue;
        mean += cost[k];
        count++;
    }
    if (count > 0) mean /= count;
    if (!baseline->begun) baseline->value = sqrt(settings->failing);
    if (settings->own_baseline && count > 0) baseline->value = mean;
    baseline->begun = true;
    for (int32_t k = 0; k < settings->samples; k++) weight[k] = forgives && !valid[k] ? 0.0 : (cost[k] - baseline->value) / count;
    if (count > 0) baseline->value = settings->keep * baseline->value + (1.0 - settings->keep) * mean;
}

/* ---- training ---- */

struct stw_reinforce {
    stw_arena arena;
    const stw_grouping_problem *problem;
    stw_search *search;
    stw_reinforce_settings settings;
    stw_backend *backend;
    stw_hdp *hdp;
    stw_rng rng;
    double began_s, reference;
    int32_t G, E;
    int64_t update, evaluations, last_better;
    stw_baseline baseline;
    stw_plan *best;
    stw_score best_score;
    bool has_best;
    stw_curve_row row;

    /* One update. */
    int32_t *group, *device;         /* (K, N), (K, G) */
    double *embedding;               /* (G, K, E) */
    double *group_logp, *place_logp; /* (K) */
    double *cost, *weight;           /* (K) */
    bool *valid;                     /* (K) */
    stw_plan **plan;                 /* (K) */
    stw_score *score;                /* (K) */
    atomic_bool stopped;
};

/* ---- making one ---- */

static stw_status make_room(stw_reinforce *r, stw_error *error) {
    const int64_t K = r->settings.samples;
    const stw_simulator *s = r->problem->simulator;
    STW_TRY_NEW(&r->arena, r->group, K * r->problem->N, error);
    STW_TRY_NEW(&r->arena, r->device, K * r->G, error);
    STW_TRY_NEW(&r->arena, r->embedding, r->G * K * r->E, error);
    STW_TRY_NEW(&r->arena, r->group_logp, K, error);
    STW_TRY_NEW(&r->arena, r->place_logp, K, error);
    STW_TRY_NEW(&r->arena, r->cost, K, error);
    STW_TRY_NEW(&r->arena, r->weight, K, error);
    STW_TRY_NEW(&r->arena, r->valid, K, error);
    STW_TRY_NEW(&r->arena, r->plan, K, error);
    STW_TRY_NEW(&r->arena, r->score, K, error);
    TRY(stw_plan_create(s->graph, s->machine, &r->best, error));
    for (int64_t k = 0; k < K; k++) TRY(stw_plan_create(s->graph, s->machine, &r->plan[k], error));
    return STW_OK;
}

static stw_status fill(stw_reinforce *r, stw_error *error) {
    const stw_reinforce_settings *s = &r->settings;
    r->G = stw_reinforce_groups(s, r->problem->D, r->problem->N);
    r->E = stw_hdp_embedding_columns(&r->problem->ops, r->G);
    const stw_hdp_config config = {.columns = r->problem->columns,
                                   .hidden = s->hidden,
                                   .groups = r->G,
                                   .devices = r->problem->D,
                                   .embedding = r->E,
                                   .width = s->width,
                                   .bound = s->bound,
                                   .sharpness = s->sharpness};
    TRY(stw_arena_create(&r->arena, error));
    TRY(stw_backend_cpu(r->search->pool, &r->backend, error));
    TRY(stw_hdp_create(&config, r->backend, r->search->pool, s->seed, &r->hdp, error));
    TRY(stw_hdp_set_input(r->hdp, r->problem->N, r->problem->feature, error));
    return make_room(r, error);
}

stw_status stw_reinforce_create(const stw_grouping_problem *problem, stw_search *search, const stw_reinforce_settings *settings,
                                double reference, stw_reinforce **out, stw_error *error) {
    *out = NULL;
    stw_reinforce *r = calloc(1, sizeof *r);
    if (r == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    r->problem = problem;
    r->search = search;
    r->settings = *settings;
    r->reference = reference;
    r->began_s = stw_now_s();
    r->rng = stw_rng_create(settings->seed);
    const stw_status status = fill(r, error);
    if (status != STW_OK) {
        stw_reinforce_destroy(r);
        return status;
    }
    *out = r;
    return STW_OK;
}

void stw_reinforce_destroy(stw_reinforce *r) {
    if (r == NULL) return;
    for (int32_t k = 0; r->plan != NULL && k < r->settings.samples; k++) stw_plan_destroy(r->plan[k]);
    stw_plan_destroy(r->best);
    stw_hdp_destroy(r->hdp);
    stw_backend_destroy(r->backend);
    stw_arena_destroy(&r->arena);
    free(r);
}

/* ---- an update ---- */

/* A number of updates repeats exactly: one that has begun is completed. */
static bool may_stop(void *context) {
    const stw_reinforce *r = context;
    return r->settings.updates == 0 && stw_search_is_stopped(r->search);
}

static void embed(void *context, int64_t k, int32_t worker) {
    const stw_reinforce *r = context;
    (void)worker;
    stw_hdp_embed(&r->problem->ops, r->G, &r->group[k * r->problem->N], &r->embedding[k * r->E],
                  (int64_t)r->settings.samples * r->E);
}

static stw_status draw(stw_reinforce *r, stw_error *error) {
    const stw_reinforce_settings *s = &r->settings;
    const stw_rng rng = stw_rng_split(&r->rng, (uint64_t)r->update);
    const bool noisy = s->noise_until == 0 || r->update < s->noise_until;
    const bool samples = s->sampling_until == 0 || r->update < s->sampling_until;
    stw_hdp_draw d = {.K = s->samples, .noise = noisy ? s->noise : 0.0, .rng = stw_rng_split(&rng, 0)};
    TRY(stw_hdp_group(r->hdp, &d, r->group, r->group_logp, error));
    stw_pool_run(r->search->pool, s->samples, embed, r);
    d.rng = stw_rng_split(&rng, 1);
    if (!samples) d.choice = STW_HDP_LIKELY;
    d.is_stopped = may_stop;
    d.context = r;
    return stw_hdp_place(r->hdp, &d, r->embedding, r->device, r->place_logp, error);
}

static stw_status evaluate(void *context, int64_t k, int32_t worker, stw_error *error) {
    stw_reinforce *r = context;
    if (may_stop(r)) atomic_store(&r->stopped, true);
    if (atomic_load(&r->stopped)) return STW_OK;
    TRY(stw_grouping_decode(r->problem, &r->group[k * r->problem->N], &r->device[k * r->G], r->plan[k],
                            r->search->scratch[worker], error));
    return stw_search_evaluate(r->search, r->plan[k], worker, &r->score[k], error);
}

static stw_status evaluate_all(stw_reinforce *r, bool *complete, stw_error *error) {
    const int32_t K = r->settings.samples;
    atomic_store(&r->stopped, false);
    TRY(stw_pool_try(r->search->pool, K, evaluate, r, error));
    *complete = !atomic_load(&r->stopped);
    if (*complete) r->evaluations += K;
    return STW_OK;
}

/* As long as no plan fits, the best of the update is made to fit. */
static stw_status repair_best(stw_reinforce *r, stw_error *error) {
    int32_t best = 0;
    for (int32_t k = 1; k < r->settings.samples; k++)
        if (stw_score_is_better(&r->score[k], &r->score[best])) best = k;
    if (r->best_score.reason == STW_VALID || r->score[best].reason != STW_INVALID_MEMORY) return STW_OK;
    stw_score score = r->score[best];
    TRY(stw_search_repair(r->search, r->plan[best], &score, 0, error));
    if (!stw_score_is_better(&score, &r->best_score)) return STW_OK;
    r->best_score = score;
    r->last_better = r->update;
    TRY(stw_plan_assign(r->best, r->plan[best], error));
    if (score.reason == STW_VALID) stw_search_tell(r->search, r->best, &score);
    return STW_OK;
}

static stw_status keep_best(stw_reinforce *r, stw_error *error) {
    for (int32_t k = 0; k < r->settings.samples; k++) {
        if (r->has_best && !stw_score_is_better(&r->score[k], &r->best_score)) continue;
        TRY(stw_plan_assign(r->best, r->plan[k], error));
        r->best_score = r->score[k];
        r->has_best = true;
        r->last_better = r->update;
        if (r->score[k].reason == STW_VALID) stw_search_tell(r->search, r->best, &r->best_score);
    }
    return repair_best(r, error);
}

static stw_status learn(stw_reinforce *r, stw_error *error) {
    stw_parameters *parameters = stw_hdp_parameters(r->hdp);
    r->row.rate = stw_reinforce_rate(&r->settings, r->update);
    r->row.loss = 0.0;
    for (int32_t k = 0; k < r->settings.samples; k++) {
        r->valid[k] = r->score[k].reason == STW_VALID;
        r->cost[k] = stw_reinforce_cost(&r->settings, &r->score[k], r->reference);
    }
    stw_reinforce_weights(&r->settings, r->update, r->cost, r->valid, &r->baseline, r->weight);
    for (int32_t k = 0; k < r->settings.samples; k++) r->row.loss += r->weight[k] * (r->group_logp[k] + r->place_logp[k]);
    if (r->settings.rate <= 0.0 || may_stop(r)) return STW_OK;
    stw_parameters_zero_gradient(parameters);
    TRY(stw_hdp_backward(r->hdp, r->weight, r->group, r->device, error));
    r->row.gradient_norm = stw_parameters_update(parameters, r->row.rate, r->settings.gradient_norm);
    return STW_OK;
}

static void describe(stw_reinforce *r) {
    stw_curve_row *row = &r->row;
    int32_t valid = 0;
    row->mean = 0.0;
    for (int32_t k = 0; k < r->settings.samples; k++) {
        if (!r->valid[k]) continue;
        row->mean += r->score[k].value;
        valid++;
    }
    row->mean = valid > 0 ? row->mean / valid : NAN;
    row->valid = (double)valid / r->settings.samples;
    row->greedy = NAN;
    row->entropy = stw_hdp_device_entropy(r->hdp);
    row->evaluations = r->evaluations;
    row->seconds = stw_now_s() - r->began_s;
    row->best = r->has_best && r->best_score.reason == STW_VALID ? r->best_score.value : NAN;
}

stw_status stw_reinforce_step(stw_reinforce *r, stw_reinforce_end *end, stw_error *error) {
    const stw_reinforce_settings *s = &r->settings;
    bool complete = false;
    *end = STW_REINFORCE_SPENT;
    if ((s->updates > 0 && r->update >= s->updates) || stw_search_is_stopped(r->search)) return STW_OK;
    if (stw_search_evaluations_left(r->search) < s->samples) return STW_OK;
    if (s->patience > 0 && r->update - r->last_better > s->patience) {
        *end = STW_REINFORCE_STALE;
        return STW_OK;
    }
    const stw_status drawn = draw(r, error);
    if (drawn == STW_ERROR_CANCELLED) {
        if (error != NULL) *error = (stw_error){0};
        return STW_OK;
    }
    TRY(drawn);
    TRY(evaluate_all(r, &complete, error));
    if (!complete) return STW_OK;
    *end = STW_REINFORCE_GOES_ON;
    TRY(keep_best(r, error));
    TRY(learn(r, error));
    describe(r);
    r->row.update = r->update++;
    if (r->search->curve != NULL) r->search->curve(r->search->watch_context, &r->row);
    return STW_OK;
}

const stw_plan *stw_reinforce_best(const stw_reinforce *r, stw_score *score) {
    if (score != NULL) *score = r->best_score;
    return r->has_best ? r->best : NULL;
}

int64_t stw_reinforce_updates(const stw_reinforce *r) { return r->update; }
const stw_curve_row *stw_reinforce_last_row(const stw_reinforce *r) { return &r->row; }
