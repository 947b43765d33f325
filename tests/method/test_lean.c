/* `lean`: never above topological order, near the best order of small graphs, the best where it says so; within a limit of
 * memory; and the same from any number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "plan/plan.h"
#include "search/lean_order.h"
#include "support/memory_table.h"
#include "support/random.h"
#include "test.h"

static stw_lean_order find(const stw_tasks *tasks, stw_arena *arena) {
    stw_sequences sequences;
    stw_lean_order order = {0};
    CHECK_EQ_INT(stw_sequences_build(tasks, arena, &sequences, NULL), STW_OK);
    CHECK_EQ_INT(stw_lean_find(&sequences, 1, NULL, NULL, arena, &order, NULL), STW_OK);
    return order;
}

TEST(lean, near_the_best_order) {
    const stw_rng seeds = stw_rng_create(81);
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    int count = 0, best = 0, proved = 0;
    for (int number = 0; number < 600; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = number % 4 == 3 ? 12 : 18,
                                                    .device_count = 1,
                                                    .plain = number % 4 == 3,
                                                    .wide = number % 5 == 4,
                                                    .model = number % 3 == 0});
        const stw_tasks *tasks = &s->simulator->unfused;
        stw_arena scratch = arena;
        if (tasks->T > 0 && tasks->T <= MEMORY_TABLE_TASKS) {
            const int64_t least = memory_table_fill(tasks, false).peak;
            const stw_lean_order order = find(tasks, &scratch);
            test_context("problem %d: %lld, best %lld", number, (long long)order.peak, (long long)least);
            CHECK(order.peak >= least);
            CHECK(!order.is_least || order.peak == least);
            count++;
            best += order.peak == least;
            proved += order.is_least;
            stw_lean_apply(tasks, &order, s->plan);
            small_run(s);
            CHECK_EQ_INT(s->result.worst_peak_bytes, order.peak);
        }
        small_close(s);
    }
    test_context("%d problems, %d solved, %d proved", count, best, proved);
    CHECK(count >= 300 && best * 100 >= count * 95 && proved * 100 >= count * 70);
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

/* ---- the method ---- */

static stw_plan *run(const small *s, const char *method, const char *threads, const char *tasks) {
    stw_options *options;
    stw_plan *plan = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "40", &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "objective", "memory", &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", threads, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", tasks, &error), STW_OK);
    CHECK_EQ_INT(stw_method_run(method, s->simulator, options, &plan, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return plan;
}

static int64_t peak_of(const small *s, const stw_plan *plan) {
    stw_evaluation result;
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &result, NULL), STW_OK);
    CHECK_EQ_INT(result.reason, STW_VALID);
    return result.worst_peak_bytes;
}

TEST(lean, never_above_topological_order_and_the_same_from_any_threads) {
    const stw_rng seeds = stw_rng_create(82);
    int below = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 1 + number % 3, .wide = number % 4 == 0});
        const char *tasks = number % 2 == 0 ? "schedule" : "placement,schedule";
        stw_plan *topological = run(s, "single", "1", tasks), *one = run(s, "lean", "1", tasks),
                 *three = run(s, "lean", "3", tasks);
        test_context("problem %d", number);
        if (CHECK(topological != NULL && one != NULL && three != NULL)) {
            CHECK(peak_of(s, one) <= peak_of(s, topological)); /* single's own rule is topological order */
            below += peak_of(s, one) < peak_of(s, topological);
            CHECK(memcmp(one->priority, three->priority, (size_t)s->graph->N * sizeof(double)) == 0);
            CHECK(memcmp(one->device, three->device, (size_t)s->graph->N * sizeof(int32_t)) == 0);
        }
        stw_plan_destroy(topological);
        stw_plan_destroy(one);
        stw_plan_destroy(three);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(below >= 20);
}

/* Groups are tasks of their own: an order is found for them, and they run in it. */
TEST(lean, plans_with_groups) {
    const stw_rng seeds = stw_rng_create(83);
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    int fused = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 1});
        fused += random_groups(&rng, s->simulator, s->plan, 20) > 0;
        const stw_search search = {.simulator = s->simulator, .rule = -1};
        stw_lean_order order;
        test_context("problem %d", number);
        CHECK_EQ_INT(stw_lean_reorder(&search, NULL, s->plan, arena, &order, NULL), STW_OK);
        small_run(s);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        if (s->simulator->unfused.T > 0) CHECK_EQ_INT(s->result.worst_peak_bytes, order.peak);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(fused >= 30);
    stw_arena_destroy(&arena);
}

/* ---- a limit of memory ---- */

/* Where some order fits, the search for the shortest step finds one, though neither of the usual orders fits. */
TEST(lean, an_order_that_fits) {
    const stw_rng seeds = stw_rng_create(84);
    int tight = 0, found = 0;
    for (int number = 0; number < 300; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 18, .device_count = 1, .plain = number % 2 == 0, .model = true});
        const stw_tasks *tasks = &s->simulator->unfused;
        const int64_t least = tasks->T > 0 && tasks->T <= MEMORY_TABLE_TASKS ? memory_table_fill(tasks, false).peak : 0;
        bool fits = least == 0;
        for (int rule = 0; rule < STW_RULE_COUNT && !fits; rule++) {
            stw_arena scratch;
            CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK);
            CHECK_EQ_INT(stw_rule_apply((stw_rule)rule, s->costs, tasks, s->plan, scratch, NULL), STW_OK);
            stw_arena_destroy(&scratch);
            small_run(s);
            fits = s->result.worst_peak_bytes <= least;
        }
        if (!fits) { /* no rule does */
            stw_options *options;
            stw_result *result = NULL;
            test_context("problem %d", number);
            s->machine->device[0].memory_bytes = least;
            CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
            CHECK_EQ_INT(stw_options_set(options, "evaluations", "60", NULL), STW_OK);
            CHECK_EQ_INT(stw_options_set(options, "tasks", "schedule", NULL), STW_OK);
            CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
            tight++;
            found += result != NULL && stw_result_plan(result) != NULL;
            stw_result_destroy(result);
            stw_options_destroy(options);
        }
        small_close(s);
    }
    test_context("%d problems, %d solved", tight, found);
    CHECK(tight >= 20 && found * 100 >= tight * 90);
    test_context("%s", "");
}
