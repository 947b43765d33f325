#include "baseline/placeto/trainer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "plan/plan.h"

/* ---- the rules ---- */

static const stw_placeto_settings preset_paper = {.patience = 200,
                                                  .samples = 4,
                                                  .units = 128,
                                                  .start = STW_PLACETO_DRAWN,
                                                  .rate = 1e-3,
                                                  .last_rate = 1e-4,
                                                  .rate_until = 1000,
                                                  .entropy = 0.1,
                                                  .entropy_until = 1000,
                                                  .discount = 1.0,
                                                  .history = 10,
                                                  .gradient_norm = 1.25,
                                                  .memory_penalty = 16.0,
                                                  .most = 10.0,
                                                  .rounds = 8};
static const stw_placeto_settings preset_default = {.patience = 200,
                                                    .samples = 2,
                                                    .units = 32,
                                                    .start = STW_PLACETO_BEST,
                                                    .rate = 3e-3,
                                                    .last_rate = 3e-3,
                                                    .rate_until = 1000,
                                                    .entropy = 0.1,
                                                    .entropy_until = 1000,
                                                    .discount = 1.0,
                                                    .history = 10,
                                                    .gradient_norm = 1.25,
                                                    .memory_penalty = 16.0,
                                                    .most = 10.0,
                                                    .rounds = 8,
                                                    .mean = true};

bool stw_placeto_preset(const char *name, stw_placeto_settings *out) {
    const bool paper = strcmp(name, "paper") == 0;
    *out = paper ? preset_paper : preset_default;
    return paper || strcmp(name, "default") == 0;
}

double stw_placeto_time(const stw_placeto_settings *settings, const stw_score *score, double reference, double memory_bytes) {
    if (score->reason != STW_VALID && score->reason != STW_INVALID_MEMORY) return settings->most;
    const double excess = score->reason == STW_VALID ? 0.0 : score->lacks / fmax(memory_bytes, 1.0);
    return fmin(score->value / reference + settings->memory_penalty * excess, settings->most);
}

double stw_placeto_between(double from, double to, int64_t until, int64_t update) {
    return update < until ? from + (to - from) * (double)update / (double)until : to;
}

void stw_placeto_returns(const stw_placeto_settings *settings, int32_t N, const double *time, double *out) {
    double following = 0.0;
    for (int32_t t = N; t-- > 0;) out[t] = following = time[t] - time[t + 1] + settings->discount * following;
}

/* ---- training ---- */

typedef struct episode { /* N visits */
    int32_t *device;     /* (N) now */
    int32_t *choice;     /* (N) of each visit */
    double *time;        /* (N + 1) before the first visit and after each: stw_placeto_time */
    double *worth;       /* (N) returns */
    double *gradient;
    bool complete;
    double entropy, loss;
    stw_score score; /* of the placement now */
    stw_plan *plan, *best;
    stw_score best_score; /* of those that it tried */
    bool has_best;
    int32_t *near; /* (N) the placement with the smallest of the times, */
    double near_time;
    stw_score near_score;
} episode;

typedef struct lesson { /* a graph */
    stw_placeto_task task;
    int32_t N;
    double memory_bytes; /* of a device, the mean */
    int32_t *start;      /* (N) where episodes begin */
    double start_time;
    bool begun; /* the start was evaluated */
    stw_score start_score;
    double *past;     /* (history, N) mean returns, one update over the other */
    double *usual;    /* (N) the baseline */
    int64_t updates;  /* on this graph */
    episode *episode; /* (K) */
    stw_plan *best;
    stw_score best_score;
    bool has_best;
} lesson;

struct stw_placeto_trainer {
    stw_arena arena;
    stw_placeto_settings settings;
    stw_backend *backend;
    stw_placeto_net *net;
    stw_rng rng;
    double began_s;
    int32_t count, devices;
    lesson *lesson; /* (count) */
    int64_t update, last_better;
    stw_curve_row row;

    /* One update. */
    lesson *now;
    int64_t quota; /* evaluations of an episode */
    atomic_bool stopped;
};

/* ---- making one ---- */

static stw_status make_episode(stw_placeto_trainer *t, const lesson *l, episode *e, stw_error *error) {
    const stw_simulator *s = l->task.problem->rows.simulator;
    STW_TRY_NEW(&t->arena, e->device, l->N, error);
    STW_TRY_NEW(&t->arena, e->choice, l->N, error);
    STW_TRY_NEW(&t->arena, e->time, (int64_t)l->N + 1, error);
    STW_TRY_NEW(&t->arena, e->worth, l->N, error);
    STW_TRY_NEW(&t->arena, e->near, l->N, error);
    STW_TRY_NEW(&t->arena, e->gradient, stw_placeto_net_parameters(t->net)->total, error);
    TRY(stw_plan_create(s->graph, s->machine, &e->plan, error));
    return stw_plan_create(s->graph, s->machine, &e->best, error);
}

/* The device on which all nodes together take least. */
static int32_t fastest(const stw_placeto_graph *graph) {
    int32_t best = 0;
    double least = INFINITY;
    for (int32_t d = 0; d < graph->D; d++) {
        double sum = 0.0;
        for (int32_t u = 0; u < graph->N; u++) sum += graph->time[(int64_t)u * graph->D + d];
        if (sum < least) best = d;
        least = fmin(least, sum);
    }
    return best;
}

static void set_start(const stw_placeto_trainer *t, lesson *l, int32_t number) {
    const stw_rng all = stw_rng_split(&t->rng, UINT64_MAX);
    stw_rng rng = stw_rng_split(&all, (uint64_t)number);
    const int32_t single = fastest(&l->task.problem->graph), D = t->devices;
    for (int32_t u = 0; u < l->N; u++)
        l->start[u] = t->settings.start == STW_PLACETO_DRAWN ? (int32_t)stw_rng_below(&rng, D) : single;
}

static stw_status make_lesson(stw_placeto_trainer *t, const stw_placeto_task *task, lesson *l, int32_t number, stw_error *error) {
    const stw_grouping_problem *rows = &task->problem->rows;
    l->task = *task;
    l->N = rows->N;
    for (int32_t d = 0; d < rows->D; d++)
        l->memory_bytes += (double)rows->simulator->machine->device[rows->device[d]].memory_bytes / rows->D;
    STW_TRY_NEW(&t->arena, l->start, l->N, error);
    STW_TRY_NEW(&t->arena, l->past, (int64_t)t->settings.history * l->N, error);
    STW_TRY_NEW(&t->arena, l->usual, l->N, error);
    STW_TRY_NEW(&t->arena, l->episode, t->settings.samples, error);
    TRY(stw_plan_create(rows->simulator->graph, rows->simulator->machine, &l->best, error));
    for (int32_t k = 0; k < t->settings.samples; k++) TRY(make_episode(t, l, &l->episode[k], error));
    set_start(t, l, number);
    return STW_OK;
}

static stw_status fill(stw_placeto_trainer *t, const stw_placeto_task *task, stw_error *error) {
    const stw_placeto_settings *s = &t->settings;
    t->devices = task[0].problem->graph.D;
    for (int32_t i = 1; i < t->count; i++) {
        if (task[i].problem->graph.D != t->devices)
            return stw_fail(error, STW_ERROR_INPUT,
                            "graphs on %d and %d devices; one network of placeto is for one number of devices", t->devices,
                            task[i].problem->graph.D);
    }
    const stw_placeto_config config = {.devices = t->devices, .rounds = s->rounds, .width = s->width, .mean = s->mean};
    TRY(stw_arena_create(&t->arena, error));
    TRY(stw_backend_cpu(task[0].search->pool, &t->backend, error));
    TRY(stw_placeto_net_create(&config, t->backend, s->seed, &t->net, error));
    STW_TRY_NEW(&t->arena, t->lesson, t->count, error);
    for (int32_t i = 0; i < t->count; i++) TRY(make_lesson(t, &task[i], &t->lesson[i], i, error));
    return STW_OK;
}

stw_status stw_placeto_trainer_create(const stw_placeto_task *task, int32_t count, const stw_placeto_settings *settings,
                                      stw_placeto_trainer **out, stw_error *error) {
    *out = NULL;
    stw_placeto_trainer *t = calloc(1, sizeof *t);
    if (t == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    t->settings = *settings;
    t->count = count;
    t->began_s = stw_now_s();
    t->rng = stw_rng_create(settings->seed);
    const stw_status status = fill(t, task, error);
    if (status != STW_OK) {
        stw_placeto_trainer_destroy(t);
        return status;
    }
    *out = t;
    return STW_OK;
}

void stw_placeto_trainer_destroy(stw_placeto_trainer *t) {
    if (t == NULL) return;
    for (int32_t i = 0; t->lesson != NULL && i < t->count; i++) {
        lesson *l = &t->lesson[i];
        for (int32_t k = 0; l->episode != NULL && k < t->settings.samples; k++) {
            stw_plan_destroy(l->episode[k].plan);
            stw_plan_destroy(l->episode[k].best);
        }
        stw_plan_destroy(l->best);
    }
    stw_placeto_net_destroy(t->net);
    stw_backend_destroy(t->backend);
    stw_arena_destroy(&t->arena);
    free(t);
}

/* ---- an episode ---- */

/* A number of updates repeats exactly: one that has begun is completed. */
static bool may_stop(const stw_placeto_trainer *t) {
    return t->settings.updates == 0 && stw_search_is_stopped(t->now->task.search);
}

/* The placement now, whose time becomes the t-th. */
static stw_status evaluate(const stw_placeto_trainer *t, episode *e, int32_t at, int32_t worker, stw_error *error) {
    const lesson *l = t->now;
    stw_search *search = l->task.search;
    TRY(stw_placeto_decode(l->task.problem, e->device, e->plan, search->scratch[worker], error));
    TRY(stw_search_evaluate(search, e->plan, worker, &e->score, error));
    e->time[at] = stw_placeto_time(&t->settings, &e->score, l->task.reference, l->memory_bytes);
    if (e->time[at] < e->near_time) {
        e->near_time = e->time[at];
        e->near_score = e->score;
        memcpy(e->near, e->device, (size_t)l->N * sizeof *e->near);
    }
    if (e->has_best && !stw_score_is_better(&e->score, &e->best_score)) return STW_OK;
    e->best_score = e->score;
    e->has_best = true;
    return stw_plan_assign(e->best, e->plan, error);
}

static void begin_episode(const lesson *l, episode *e) {
    memcpy(e->device, l->start, (size_t)l->N * sizeof *e->device);
    e->time[0] = l->start_time;
    e->score = l->start_score;
    e->near_time = INFINITY;
    e->has_best = false;
    e->complete = false;
    e->entropy = 0.0;
}

static int32_t draw_device(int32_t D, const double *logp, stw_rng *rng) {
    double left = stw_rng_uniform(rng);
    for (int32_t d = 0; d < D - 1; d++) {
        left -= exp(logp[d]);
        if (left < 0.0) return d;
    }
    return D - 1;
}

/* Ends before all nodes were visited when the evaluations are used up or somebody stops it. A visit that leaves its node where it
 * is needs none. */
static stw_status run_episode(void *context, int64_t k, int32_t worker, stw_error *error) {
    stw_placeto_trainer *t = context;
    const lesson *l = t->now;
    const stw_placeto_graph *graph = &l->task.problem->graph;
    episode *e = &l->episode[k];
    int64_t left = t->quota;
    const stw_rng all = stw_rng_split(&t->rng, (uint64_t)t->update);
    stw_rng rng = stw_rng_split(&all, (uint64_t)k);
    begin_episode(l, e);
    for (int32_t u = 0; u < l->N; u++) {
        stw_arena scratch = l->task.search->scratch[worker];
        stw_placeto_pass pass;
        if (may_stop(t)) atomic_store(&t->stopped, true);
        if (atomic_load(&t->stopped)) return STW_OK;
        TRY(stw_placeto_forward(t->net, graph, e->device, u, &scratch, &pass, error));
        e->entropy += stw_placeto_entropy(t->devices, pass.logp) / l->N;
        e->choice[u] = draw_device(t->devices, pass.logp, &rng);
        e->time[u + 1] = e->time[u];
        if (e->choice[u] == e->device[u]) continue;
        if (left-- == 0) return STW_OK;
        e->device[u] = e->choice[u];
        TRY(evaluate(t, e, u + 1, worker, error));
    }
    e->complete = true;
    return STW_OK;
}

/* ---- what is kept ---- */

/* As long as no plan fits, the best of the update is made to fit. */
static stw_status repair_best(stw_placeto_trainer *t, stw_plan *plan, const stw_score *of_plan, stw_error *error) {
    lesson *l = t->now;
    stw_score score = *of_plan;
    if (l->best_score.reason == STW_VALID || score.reason != STW_INVALID_MEMORY) return STW_OK;
    TRY(stw_search_repair(l->task.search, plan, &score, 0, error));
    if (!stw_score_is_better(&score, &l->best_score)) return STW_OK;
    l->best_score = score;
    t->last_better = t->update;
    TRY(stw_plan_assign(l->best, plan, error));
    if (score.reason == STW_VALID) stw_search_tell(l->task.search, l->best, &score);
    return STW_OK;
}

/* The best of `count` episodes, in their order. */
static stw_status keep_best(stw_placeto_trainer *t, int32_t count, stw_error *error) {
    lesson *l = t->now;
    episode *best = NULL;
    for (int32_t k = 0; k < count; k++) {
        episode *e = &l->episode[k];
        if (e->has_best && (best == NULL || stw_score_is_better(&e->best_score, &best->best_score))) best = e;
    }
    if (best == NULL) return STW_OK;
    if (!l->has_best || stw_score_is_better(&best->best_score, &l->best_score)) {
        TRY(stw_plan_assign(l->best, best->best, error));
        l->best_score = best->best_score;
        l->has_best = true;
        t->last_better = t->update;
        if (l->best_score.reason == STW_VALID) stw_search_tell(l->task.search, l->best, &l->best_score);
    }
    return repair_best(t, best->best, &best->best_score, error);
}

static void move_start(const stw_placeto_trainer *t, int32_t count) {
    lesson *l = t->now;
    if (t->settings.start != STW_PLACETO_BEST) return;
    for (int32_t k = 0; k < count; k++) {
        const episode *e = &l->episode[k];
        if (e->near_time >= l->start_time) continue;
        memcpy(l->start, e->near, (size_t)l->N * sizeof *l->start);
        l->start_time = e->near_time;
        l->start_score = e->near_score;
    }
}

/* ---- an update ---- */

static stw_status begin_lesson(stw_placeto_trainer *t, stw_error *error) {
    lesson *l = t->now;
    episode *e = &l->episode[0];
    begin_episode(l, e);
    TRY(evaluate(t, e, 0, 0, error));
    l->start_time = e->time[0];
    l->start_score = e->score;
    l->begun = true;
    return keep_best(t, 1, error);
}

/* The mean return of each visit over the last updates, this one among them. */
static void set_baseline(const stw_placeto_trainer *t) {
    const int32_t K = t->settings.samples, history = t->settings.history;
    lesson *l = t->now;
    double *now = &l->past[l->updates % history * l->N];
    const int64_t known = l->updates + 1 < history ? l->updates + 1 : history;
    for (int32_t k = 0; k < K; k++) stw_placeto_returns(&t->settings, l->N, l->episode[k].time, l->episode[k].worth);
    for (int32_t u = 0; u < l->N; u++) {
        double sum = 0.0;
        now[u] = l->usual[u] = 0.0;
        for (int32_t k = 0; k < K; k++) sum += l->episode[k].worth[u];
        now[u] = sum / K;
        for (int64_t h = 0; h < known; h++) l->usual[u] += l->past[h * l->N + u] / (double)known;
    }
    l->updates++;
}

/* Goes through the episode again, now that it is known what each choice was worth. */
static stw_status go_back(void *context, int64_t k, int32_t worker, stw_error *error) {
    stw_placeto_trainer *t = context;
    const lesson *l = t->now;
    const stw_placeto_graph *graph = &l->task.problem->graph;
    episode *e = &l->episode[k];
    const double share = 1.0 / t->settings.samples;
    const double bonus = stw_placeto_between(t->settings.entropy, 0.0, t->settings.entropy_until, t->update);
    memset(e->gradient, 0, (size_t)stw_placeto_net_parameters(t->net)->total * sizeof *e->gradient);
    memcpy(e->device, l->start, (size_t)l->N * sizeof *e->device);
    e->loss = 0.0;
    for (int32_t u = 0; u < l->N; u++) {
        stw_arena scratch = l->task.search->scratch[worker];
        stw_placeto_pass pass;
        if (may_stop(t)) atomic_store(&t->stopped, true);
        if (atomic_load(&t->stopped)) return STW_OK;
        const double advantage = e->worth[u] - l->usual[u];
        TRY(stw_placeto_forward(t->net, graph, e->device, u, &scratch, &pass, error));
        TRY(stw_placeto_backward(t->net, graph, &pass, e->choice[u], -share * advantage, -share * bonus, e->gradient, scratch,
                                 error));
        e->loss -= share * (advantage * pass.logp[e->choice[u]] + bonus * stw_placeto_entropy(t->devices, pass.logp));
        e->device[u] = e->choice[u];
    }
    return STW_OK;
}

static stw_status learn(stw_placeto_trainer *t, stw_error *error) {
    const int32_t K = t->settings.samples;
    const int64_t total = stw_placeto_net_parameters(t->net)->total;
    episode *e = t->now->episode;
    t->row.rate = stw_placeto_between(t->settings.rate, t->settings.last_rate, t->settings.rate_until, t->update);
    t->row.loss = t->row.gradient_norm = 0.0;
    set_baseline(t);
    if (t->settings.rate <= 0.0) return STW_OK;
    TRY(stw_pool_try(t->now->task.search->pool, K, go_back, t, error));
    if (atomic_load(&t->stopped)) return STW_OK;
    for (int32_t k = 0; k < K; k++) t->row.loss += e[k].loss;
    for (int32_t k = 1; k < K; k++) {
        for (int64_t i = 0; i < total; i++) e[0].gradient[i] += e[k].gradient[i];
    }
    t->row.gradient_norm = stw_placeto_net_update(t->net, e[0].gradient, t->row.rate, t->settings.gradient_norm);
    return STW_OK;
}

static void describe(stw_placeto_trainer *t) {
    const lesson *l = t->now;
    const int32_t K = t->settings.samples;
    stw_curve_row *row = &t->row;
    int32_t valid = 0;
    row->mean = row->entropy = 0.0;
    for (int32_t k = 0; k < K; k++) {
        row->entropy += l->episode[k].entropy / K;
        if (l->episode[k].score.reason != STW_VALID) continue;
        row->mean += l->episode[k].score.value;
        valid++;
    }
    row->mean = valid > 0 ? row->mean / valid : NAN;
    row->valid = (double)valid / K;
    row->greedy = NAN;
    row->evaluations = (int64_t)atomic_load(&l->task.search->evaluations);
    row->seconds = stw_now_s() - t->began_s;
    row->best = l->has_best && l->best_score.reason == STW_VALID ? l->best_score.value : NAN;
}

/* Some episodes, as many as there are evaluations for. */
static stw_status run_episodes(stw_placeto_trainer *t, bool *complete, stw_error *error) {
    lesson *l = t->now;
    const int64_t left = stw_search_evaluations_left(l->task.search);
    const int32_t K = t->settings.samples, count = left < K ? (int32_t)left : K;
    atomic_store(&t->stopped, false);
    *complete = false;
    if (count == 0) return STW_OK;
    t->quota = left / count;
    TRY(stw_pool_try(l->task.search->pool, count, run_episode, t, error));
    *complete = count == K && !atomic_load(&t->stopped);
    for (int32_t k = 0; k < count; k++) *complete = *complete && l->episode[k].complete;
    return keep_best(t, count, error);
}

stw_status stw_placeto_trainer_step(stw_placeto_trainer *t, stw_placeto_end *end, stw_error *error) {
    const stw_placeto_settings *s = &t->settings;
    bool complete = false;
    lesson *l = t->now = &t->lesson[t->update % t->count];
    stw_search *search = l->task.search;
    *end = STW_PLACETO_SPENT;
    if ((s->updates > 0 && t->update >= s->updates) || stw_search_is_over(search)) return STW_OK;
    if (s->patience > 0 && t->update - t->last_better > s->patience) {
        *end = STW_PLACETO_STALE;
        return STW_OK;
    }
    *end = STW_PLACETO_GOES_ON;
    if (!l->begun) TRY(begin_lesson(t, error));
    const int64_t left = stw_search_evaluations_left(search);
    TRY(run_episodes(t, &complete, error));
    if (!complete) { /* its plans count, but nothing is learnt from it; what is left of the budget may do for another */
        if (stw_search_evaluations_left(search) == left) *end = STW_PLACETO_SPENT;
        return STW_OK;
    }
    TRY(learn(t, error));
    move_start(t, s->samples);
    describe(t);
    t->row.update = t->update++;
    if (search->curve != NULL) search->curve(search->watch_context, &t->row);
    return STW_OK;
}

const stw_plan *stw_placeto_trainer_best(const stw_placeto_trainer *t, int32_t task, stw_score *score) {
    const lesson *l = &t->lesson[task];
    if (score != NULL) *score = l->best_score;
    return l->has_best ? l->best : NULL;
}

int64_t stw_placeto_trainer_updates(const stw_placeto_trainer *t) { return t->update; }
const stw_curve_row *stw_placeto_trainer_last_row(const stw_placeto_trainer *t) { return &t->row; }
stw_placeto_net *stw_placeto_trainer_net(stw_placeto_trainer *t) { return t->net; }
