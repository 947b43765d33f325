/* A small problem with all that the trainer and its decoder need: what the tests of train/ share. */
#ifndef STW_TEST_TRAIN_BENCH_H
#define STW_TEST_TRAIN_BENCH_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "plan/plan.h"
#include "search/list.h"
#include "support/random.h"
#include "test.h"
#include "train/trainer_state.h"

enum { BENCH_THREADS = 2, BENCH_SAMPLES = 16 };

/* A mistake of the test itself. */
static inline void need(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

/* ---- graphs, written op by op ---- */

typedef struct sketch {
    FILE *file;
    char *text;
    size_t size;
    int32_t count; /* nodes so far: the id of the next */
} sketch;

static inline sketch *sketch_begin(void) {
    sketch *k = calloc(1, sizeof *k);
    k->file = open_memstream(&k->text, &k->size);
    return k;
}

/* inputs: "1,2". Returns the id. */
static inline int32_t sketch_op(sketch *k, int32_t bytes, double us, const char *inputs, ...) {
    va_list list;
    fprintf(k->file, "{'id':%d,'name':'n%d','op':'relu','inputs':[", k->count, k->count);
    va_start(list, inputs);
    vfprintf(k->file, inputs, list);
    va_end(list);
    fprintf(k->file, "],'dtype':'u8','shape':[%d],'us':{'h200':%.6f}},", bytes, us);
    return k->count++;
}

/* A microsecond per byte between all pairs unless there are links. */
static inline small *sketch_end(sketch *k, int32_t device_count, const char *links) {
    fclose(k->file);
    small *s = small_open((small_text){.nodes = k->text, .device_count = device_count, .links = links});
    free(k->text);
    free(k);
    return s;
}

/* ---- the bench ---- */

typedef struct bench {
    small *s;
    stw_arena arena;
    stw_list list;
    stw_problem problem;
    stw_search search; /* without a limit */
    stw_pool *pool;
    stw_workspace *workspace[BENCH_THREADS];
    stw_arena scratch[BENCH_THREADS];
} bench;

static inline void bench_found(void *context, const stw_plan *plan, const stw_score *score) {
    const bench *b = context;
    CHECK(plan->graph == b->s->graph && score->reason == STW_VALID);
}

/* Takes the problem over. unit_count as for stw_problem_build. Only places; priorities are upward ranks. */
static inline bench *bench_open(small *s, int32_t unit_count, int32_t threads) {
    bench *b = calloc(1, sizeof *b);
    stw_error error = {0};
    b->s = s;
    need(stw_arena_create(&b->arena, &error), &error);
    need(stw_pool_create(threads, &b->pool, &error), &error);
    for (int32_t k = 0; k < BENCH_THREADS; k++) {
        need(stw_workspace_create(s->simulator, &b->workspace[k], &error), &error);
        need(stw_arena_create(&b->scratch[k], &error), &error);
    }
    b->search = (stw_search){.simulator = s->simulator,
                             .tasks = STW_TASK_PLACEMENT,
                             .rule = STW_RULE_UPWARD_RANK,
                             .pool = b->pool,
                             .workspace = b->workspace,
                             .scratch = b->scratch,
                             .found = bench_found,
                             .watch_context = b};
    need(stw_list_prepare(&b->search, &b->arena, &b->list, &error), &error);
    need(stw_problem_build(s->simulator, STW_OBJECTIVE_TIME, &b->list, unit_count, &b->arena, &b->problem, &error), &error);
    b->search.arena = b->arena;
    b->problem.schedules = false;
    b->problem.rule = STW_RULE_UPWARD_RANK;
    return b;
}

static inline void bench_close(bench *b) {
    for (int32_t k = 0; k < BENCH_THREADS; k++) {
        stw_workspace_destroy(b->workspace[k]);
        stw_arena_destroy(&b->scratch[k]);
    }
    stw_pool_destroy(b->pool);
    stw_arena_destroy(&b->arena);
    small_close(b->s);
    free(b);
}

/* Adds fusion to what is decided. */
static inline stw_policy_config with_fusion(bench *b, stw_policy_config config) {
    b->problem.fuses = true;
    stw_policy_add_fusion(&config);
    return config;
}

/* ---- decoding ---- */

/* The round of a plan (NULL: none), in the order of upward ranks. */
static inline stw_round round_of(const bench *b, const stw_plan *plan) {
    return (stw_round){.plan = plan, .base = b->list.base, .insertion = true, .channel_gaps = true, .home = STW_HOME_GLUED};
}

/* Decodes into the problem's plan and runs it. */
static inline void decode(bench *b, const stw_round *round, const stw_decisions *decisions) {
    stw_error error = {0};
    CHECK_EQ_INT(stw_decode(&b->problem, round, decisions, NULL, b->s->plan, b->scratch[0], &error), STW_OK);
    CHECK_STR(error.message, "");
    small_run(b->s);
}

/* Actions that give all units these knobs, in exponents, and leave the round's plan to them: (M, 4). */
static inline double *constant_knobs(bench *b, double a0, double a1, double a2) {
    double *action = STW_NEW(&b->arena, double, (int64_t)b->problem.M *STW_STEER_KNOBS);
    const double knobs[STW_STEER_KNOBS] = {a0, a1, a2};
    for (int64_t k = 0; k < (int64_t)b->problem.M * STW_STEER_KNOBS; k++)
        action[k] = knobs[k % STW_STEER_KNOBS] / stw_knob_scale[k % STW_STEER_KNOBS];
    return action;
}

static inline void steer(bench *b, const stw_round *round, const double *action) {
    decode(b, round, &(stw_decisions){.placement = action, .steered = true});
}

/* A plan of the problem with these devices (NULL: the problem's own now); the caller destroys it. */
static inline stw_plan *plan_with(const bench *b, const int32_t *device) {
    stw_plan *plan = NULL;
    stw_error error = {0};
    need(stw_plan_create(b->s->graph, b->s->machine, &plan, &error), &error);
    need(stw_plan_assign(plan, b->s->plan, &error), &error);
    if (device != NULL) memcpy(plan->device, device, (size_t)b->s->graph->N * sizeof *device);
    return plan;
}

static inline int32_t devices_used(const bench *b, const stw_plan *plan) {
    uint64_t used = 0;
    for (int32_t t = 0; t < b->s->simulator->unfused.T; t++) used |= 1ull << plan->device[b->s->simulator->unfused.task_node[t]];
    return __builtin_popcountll(used);
}

/* ---- training ---- */

/* A preset's network, made small: the tests' graphs are. */
static inline stw_policy_config config_of(const char *preset) {
    stw_policy_config c;
    CHECK(stw_policy_preset(preset, &c));
    const bool feedback = c.pair_width > 0;
    c.width = 16;
    c.heads = 2;
    c.inner = 32;
    c.sage_layers = 1;
    c.attention_layers = 1;
    c.operator_width = 4;
    c.pair_width = feedback ? 8 : 0;
    c.score_width = 16;
    c.feature_version = STW_FEATURE_VERSION;
    c.unit_columns = stw_feature_count(STW_FEATURES_UNIT);
    c.device_columns = stw_feature_count(STW_FEATURES_DEVICE);
    c.feedback_columns = feedback ? stw_feature_count(STW_FEATURES_FEEDBACK) : 0;
    c.pair_columns = feedback ? stw_feature_count(STW_FEATURES_PAIR) : 0;
    return c;
}

/* One round of so many updates. */
static inline stw_train_settings settings_of(const char *preset, uint64_t seed, int64_t updates) {
    stw_train_settings s;
    CHECK(stw_train_preset(preset, &s));
    s.seed = seed;
    s.updates = updates;
    s.patience = 0;
    return s;
}

static inline stw_score score_of(bench *b, const stw_plan *plan) {
    stw_score score = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_search_evaluate(&b->search, plan, 0, &score, &error), STW_OK);
    return score;
}

/* start: the initial plan, or NULL. */
static inline stw_trainer *trainer_of(bench *b, const stw_policy_config *config, const stw_train_settings *settings,
                                      const stw_plan *start) {
    stw_trainer *trainer = NULL;
    stw_error error = {0};
    const stw_score score = start != NULL ? score_of(b, start) : (stw_score){0};
    need(stw_trainer_create(&b->problem, &b->search, NULL, config, settings, start, &score, &trainer, &error), &error);
    return trainer;
}

/* Until all updates are done. */
static inline void train(stw_trainer *trainer) {
    stw_error error = {0};
    bool over = false;
    while (!over && CHECK_EQ_INT(stw_trainer_step(trainer, &over, &error), STW_OK)) continue;
    CHECK_STR(error.message, "");
}

/* Leaves the policy's plan in the problem's. */
static inline double greedy_s(bench *b, stw_trainer *trainer) {
    stw_error error = {0};
    stw_score score = {0};
    CHECK_EQ_INT(stw_trainer_greedy(trainer, b->s->plan, &score, &error), STW_OK);
    CHECK_EQ_INT(score.reason, STW_VALID);
    return score.value;
}

#endif
