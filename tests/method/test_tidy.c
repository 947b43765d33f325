/* method/tidy: transfers that bring nothing go, and nothing gets worse by that. */
#include "search/fusing.h"
#include "whole_search.h"

/* Two towers that know nothing of each other, the first the longer one; each op has weights of its own, which take no time to
 * send that anybody notices. */
#define TOWERS                     \
    SOURCE(0, "v", "parameter", 2) \
    OP(1, "a", "[0]", 1, 10)       \
    SOURCE(2, "w", "parameter", 2) \
    OP(3, "b", "[1,2]", 1, 10)     \
    SOURCE(4, "p", "parameter", 2) \
    OP(5, "c", "[4]", 1, 3)        \
    SOURCE(6, "q", "parameter", 2) \
    OP(7, "d", "[5,6]", 1, 3)

static stw_score score_of(small *s, stw_objective objective) {
    small_run(s);
    return stw_score_of(objective, s->workspace, &s->result);
}

/* Runs it on s->plan. */
static void tidy(small *s, stw_objective objective, unsigned tasks, int64_t evaluations) {
    stw_pool *pool;
    stw_arena scratch, arena;
    CHECK_EQ_INT(stw_pool_create(1, &pool, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_search search = {.simulator = s->simulator,
                         .objective = objective,
                         .tasks = tasks,
                         .rule = -1,
                         .budget = {.evaluations = evaluations},
                         .pool = pool,
                         .workspace = &s->workspace,
                         .scratch = &scratch,
                         .arena = arena};
    CHECK_EQ_INT(stw_search_tidy(&search, s->plan, NULL), STW_OK);
    if (evaluations > 0) CHECK((int64_t)atomic_load(&search.evaluations) <= evaluations);
    stw_arena_destroy(&arena);
    stw_arena_destroy(&scratch);
    stw_pool_destroy(pool);
}

TEST(tidy, exact_sends_nothing_between_towers) {
    for (int k = 0; k < 2; k++) {
        small *s = small_open((small_text){.nodes = TOWERS, .device_count = 2});
        stw_options *options = options_of("evaluations", "2000", NULL);
        stw_result *result = k == 0 ? optimize(s->simulator, options, NULL) : compare(s->simulator, "exact", options);
        if (result != NULL && CHECK(result->best >= 0)) {
            const stw_score *score = &result->entry[result->best]->score;
            test_context("run %d, %s", k, result->entry[result->best]->candidate.method);
            check_result(s->simulator, result);
            CHECK_NEAR(score->value, 20e-6, 1e-15);
            CHECK_EQ_INT(score->sent_bytes, 0);
            CHECK_EQ_INT(score->devices, 2);
            if (k == 0) CHECK(stw_result_is_optimal(result));
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

/* The short tower is spread over both devices, under strict orders; what moves must find its place in them. */
TEST(tidy, islands_move_under_strict_orders) {
    small *s =
        small_open((small_text){.nodes = TOWERS, .device_count = 2, .device = "[0,0,0,0,0,1,1,1]", .order = "[[1,3],[5,7]]"});
    const stw_score before = score_of(s, STW_OBJECTIVE_TIME);
    CHECK_EQ_INT(before.sent_bytes, 2); /* p, to c */
    tidy(s, STW_OBJECTIVE_TIME, STW_TASK_ALL, 0);
    stw_score after = score_of(s, STW_OBJECTIVE_TIME);
    CHECK_EQ_INT(after.reason, STW_VALID);
    CHECK_EQ_INT(after.sent_bytes, 0);
    CHECK_NEAR(after.value, before.value, 0.0);
    small_close(s);
    /* c alone is on the long tower's device and only waits there: an op moves, into the order. */
    s = small_open((small_text){.nodes = TOWERS, .device_count = 2, .device = "[0,0,0,0,0,0,1,1]", .order = "[[1,5,3],[7]]"});
    tidy(s, STW_OBJECTIVE_TIME, STW_TASK_ALL, 0);
    after = score_of(s, STW_OBJECTIVE_TIME);
    CHECK_EQ_INT(after.reason, STW_VALID);
    CHECK_EQ_INT(after.sent_bytes, 0);
    CHECK_NEAR(after.value, 20e-6, 1e-15);
    CHECK(s->plan->order[0] != NULL && s->plan->order[1] != NULL);
    small_close(s);
}

TEST(tidy, keeps_to_tasks_and_budget) {
    for (int k = 0; k < 2; k++) {
        small *s = small_open((small_text){.nodes = TOWERS, .device_count = 2, .device = "[1,0,1,0,0,1,0,1]"});
        const stw_score before = score_of(s, STW_OBJECTIVE_TIME);
        tidy(s, STW_OBJECTIVE_TIME, k == 0 ? STW_TASK_SCHEDULE : STW_TASK_ALL, k == 0 ? 0 : 1);
        CHECK_EQ_INT(score_of(s, STW_OBJECTIVE_TIME).sent_bytes, before.sent_bytes);
        CHECK_EQ_INT(before.sent_bytes, 8);
        small_close(s);
    }
}

TEST(tidy, is_never_worse) {
    const stw_rng seeds = stw_rng_create(1910);
    int better = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        const stw_objective objective = (stw_objective)(number % 3);
        test_context("problem %d", number);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        const stw_score before = score_of(s, objective);
        tidy(s, objective, STW_TASK_ALL, 0);
        const stw_score after = score_of(s, objective);
        CHECK(!stw_score_is_better(&before, &after));
        better += stw_score_is_better(&after, &before);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(better > 20);
}
