/* method: initial plans are those that were given, or the best of what methods make. */
#include "method/annealing.h"

TEST(starts, are_the_given_ones_or_the_best_of_the_methods) {
    CHECK(stw_method_serves(&stw_method_single, STW_OBJECTIVE_TIME, BOTH));
    CHECK(!stw_method_serves(&stw_method_random, STW_OBJECTIVE_TIME, BOTH)); /* no use */
    CHECK(!stw_method_serves(&stw_method_anneal, STW_OBJECTIVE_TIME, BOTH)); /* itself a search */
    CHECK(!stw_method_serves(&stw_method_exact, STW_OBJECTIVE_TIME, BOTH));
    CHECK(!stw_method_serves(&stw_method_balance, STW_OBJECTIVE_TIME, BOTH));
    CHECK(stw_method_serves(&stw_method_balance, STW_OBJECTIVE_THROUGHPUT, PLACEMENT));
    CHECK(!stw_method_serves(&stw_method_balance, STW_OBJECTIVE_THROUGHPUT, SCHEDULE));
    CHECK(stw_method_serves(&stw_method_metis, STW_OBJECTIVE_MEMORY, PLACEMENT));
    CHECK(!stw_method_serves(&stw_method_metis, STW_OBJECTIVE_MEMORY, SCHEDULE));
    CHECK(stw_method_serves(&stw_method_single, STW_OBJECTIVE_MEMORY, SCHEDULE));
    stw_rng rng = stw_rng_create(550);
    small *s = open_problem(&rng, 2);
    stw_arena scratch, arena;
    stw_pool *pool;
    CHECK_EQ_INT(stw_pool_create(1, &pool, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_search search = {.simulator = s->simulator,
                         .tasks = BOTH,
                         .rule = -1,
                         .seed = 7,
                         .unit_count = 512,
                         .budget = {.evaluations = 4000},
                         .pool = pool,
                         .workspace = &s->workspace,
                         .scratch = &scratch,
                         .arena = arena};
    stw_starts starts;
    if (CHECK_EQ_INT(stw_starts_open(&search, NULL, 0, 0.5, &starts, NULL), STW_OK)) {
        CHECK(starts.count > 3 && starts.count <= STW_MAX_STARTS);
        CHECK(atomic_load(&search.evaluations) > starts.count);
        CHECK(atomic_load(&search.evaluations) <= 2000 + 2 * 10);
        for (int32_t k = 0; k < starts.count; k++) {
            const stw_score score = score_of(&search, s, starts.plan[k]);
            CHECK_EQ_INT(score.reason, STW_VALID);
            CHECK_NEAR(score.value, starts.score[k].value, 0.0);
            if (k > 0) CHECK(!stw_score_is_better(&starts.score[k], &starts.score[k - 1]));
        }
        stw_starts_close(&starts);
    }
    const stw_plan *const given[] = {s->plan};
    search.start = given;
    search.start_count = 1;
    atomic_store(&search.evaluations, 0);
    if (CHECK_EQ_INT(stw_starts_open(&search, NULL, 0, 0.5, &starts, NULL), STW_OK)) {
        CHECK_EQ_INT(starts.count, 1);
        CHECK(starts.plan[0] == s->plan);
        CHECK_EQ_INT(atomic_load(&search.evaluations), 0);
        stw_starts_close(&starts); /* what was given is not ours */
    }
    stw_arena_destroy(&arena);
    stw_arena_destroy(&scratch);
    stw_pool_destroy(pool);
    small_close(s);
}
