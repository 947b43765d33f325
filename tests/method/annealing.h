/* What the tests of annealing share: a run of it from the plan of a problem, problems, and what two plans have in common. */
#ifndef STW_TEST_METHOD_ANNEALING_H
#define STW_TEST_METHOD_ANNEALING_H

#include <stdlib.h>
#include <string.h>

#include "method/anneal/anneal.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

enum { PLACEMENT = STW_TASK_PLACEMENT, SCHEDULE = STW_TASK_SCHEDULE, BOTH = PLACEMENT | SCHEDULE, MOST_THREADS = 8 };

typedef struct {
    unsigned tasks;
    int32_t rule; /* or -1 */
    stw_objective objective;
    int64_t evaluations; /* 0: by time */
    double seconds;
    int32_t threads; /* 0 stands for 1 */
    bool without_start, cancelled;
    const stw_policy_settings *policy; /* NULL: all unset */
    const stw_proposals *proposals;    /* NULL: as the settings say */
} setting;

typedef struct {
    stw_plan *plan;
    stw_score before, after; /* of the start (unless there is none) and of the plan */
    stw_score told;          /* of the last plan that was told of; of the start if none was */
    int64_t evaluations;
    bool repaired;
} outcome;

static inline stw_score score_of(const stw_search *search, const small *s, const stw_plan *plan) {
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &evaluation, NULL), STW_OK);
    return stw_score_of(search->objective, s->workspace, &evaluation);
}

static inline void hear(void *context, const stw_plan *plan, const stw_score *score) {
    (void)plan;
    *(stw_score *)context = *score;
}

/* Anneals from the plan of `s`, which stays as it is. */
static inline outcome anneal(const small *s, setting how) {
    const int32_t threads = how.threads == 0 ? 1 : how.threads;
    const stw_plan *const start[] = {s->plan};
    const atomic_bool cancelled = how.cancelled;
    stw_workspace *workspace[MOST_THREADS] = {0};
    stw_arena scratch[MOST_THREADS], arena;
    stw_pool *pool;
    stw_error error = {0};
    outcome out = {0};
    CHECK_EQ_INT(stw_pool_create(threads, &pool, &error), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    for (int32_t k = 0; k < threads; k++) {
        CHECK_EQ_INT(stw_workspace_create(s->simulator, &workspace[k], &error), STW_OK);
        CHECK_EQ_INT(stw_arena_create(&scratch[k], &error), STW_OK);
    }
    stw_search search = {
        .simulator = s->simulator,
        .objective = how.objective,
        .tasks = how.tasks,
        .rule = how.rule,
        .seed = 7,
        .unit_count = 512,
        .budget = {.evaluations = how.evaluations, .until_s = how.seconds > 0.0 ? stw_now_s() + how.seconds : 0.0},
        .pool = pool,
        .workspace = workspace,
        .scratch = scratch,
        .arena = arena,
        .start = start,
        .start_count = how.without_start ? 0 : 1,
        .cancelled = &cancelled,
        .policy = how.policy,
        .proposals = how.proposals,
        .found = hear,
        .watch_context = &out.told,
    };
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &out.plan, &error), STW_OK);
    out.before = out.told = score_of(&search, s, s->plan);
    CHECK_EQ_INT(stw_method_anneal.run(&search, out.plan, &error), STW_OK);
    CHECK_STR(error.message, "");
    out.after = score_of(&search, s, out.plan);
    out.evaluations = (int64_t)atomic_load(&search.evaluations);
    out.repaired = search.outcome.repaired;
    for (int32_t k = 0; k < threads; k++) {
        stw_workspace_destroy(workspace[k]);
        stw_arena_destroy(&scratch[k]);
    }
    stw_arena_destroy(&arena);
    stw_pool_destroy(pool);
    return out;
}

static inline small *open_problem(stw_rng *rng, int number) {
    small *s = random_open(rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(rng, 50),
                                               .device_count = 2 + number % 3,
                                               .plain = number % 7 == 0,
                                               .unlike = number % 2 == 1,
                                               .buses = number % 3 == 0,
                                               .model = number % 4 == 0,
                                               .contention = number % 6 == 5 ? "none" : "queue"});
    random_placement(rng, s->simulator, s->plan);
    random_priorities(rng, s->plan);
    return s;
}

/* Ops, parameters and buffers: the device of anything else means nothing. */
static inline bool are_placed_alike(const stw_plan *a, const stw_plan *b) {
    for (int32_t i = 0; i < a->graph->N; i++) {
        const uint8_t kind = a->graph->kind[i];
        if ((kind == STW_NODE_OP || stw_node_is_resident(kind)) && a->device[i] != b->device[i]) return false;
    }
    return true;
}

static inline bool have_equal_priorities(const stw_plan *a, const stw_plan *b) {
    return memcmp(a->priority, b->priority, (size_t)a->graph->N * sizeof *a->priority) == 0;
}

#endif
