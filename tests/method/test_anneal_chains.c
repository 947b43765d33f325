/* method: the chains of annealing: the same plan from any number of threads, as many evaluations or as much time as was asked
 * for, an end. */
#include <time.h>

#include "method/annealing.h"

TEST(anneal, the_number_of_threads_changes_nothing) {
    const stw_rng seeds = stw_rng_create(546);
    for (int number = 0; number < 8; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        setting how = {
            .tasks = BOTH, .rule = number == 5 ? STW_RULE_UPWARD_RANK : -1, .evaluations = 400, .without_start = number == 6};
        test_context("problem %d", number);
        const outcome one = anneal(s, how);
        for (how.threads = 2; how.threads <= 8; how.threads += 6) {
            const outcome more = anneal(s, how);
            CHECK(are_placed_alike(one.plan, more.plan));
            CHECK(have_equal_priorities(one.plan, more.plan));
            CHECK_EQ_INT(one.evaluations, more.evaluations);
            stw_plan_destroy(more.plan);
        }
        stw_plan_destroy(one.plan);
        small_close(s);
    }
    test_context("%s", "");
}

/* Eight evaluations are for the starts of the chains, whatever the budget. Without a start, the methods that make one build at
 * least one variant each as long as none is valid, and evaluate it once more: two for each of them. */
TEST(anneal, keeps_to_its_evaluations) {
    static const int64_t budgets[] = {1, 2, 7, 8, 9, 30, 100, 1000};
    stw_rng rng = stw_rng_create(547);
    small *s = open_problem(&rng, 2);
    for (int k = 0; k < 8; k++) {
        test_context("%d evaluations", (int)budgets[k]);
        outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = budgets[k]});
        CHECK(o.evaluations <= (budgets[k] < 8 ? 8 : budgets[k]));
        if (budgets[k] >= 100) CHECK(o.evaluations > budgets[k] / 2);
        CHECK(!stw_score_is_better(&o.before, &o.after));
        stw_plan_destroy(o.plan);
        o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = budgets[k], .without_start = true});
        CHECK(o.evaluations <= budgets[k] + 8 + 2 * 10);
        CHECK_EQ_INT(o.after.reason, STW_VALID);
        stw_plan_destroy(o.plan);
    }
    test_context("%s", "");
    small_close(s);
}

TEST(anneal, ends_in_time) {
    stw_rng rng = stw_rng_create(548);
    small *s = open_problem(&rng, 2);
    const double began_s = stw_now_s();
    const clock_t busy = clock(); /* of the processor: what others do on the machine does not count */
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 0.2, .threads = 2});
    CHECK(stw_now_s() - began_s >= 0.2 && clock() - busy < 2 * CLOCKS_PER_SEC);
    CHECK(o.evaluations > 0);
    CHECK(!stw_score_is_better(&o.before, &o.after));
    stw_plan_destroy(o.plan);
    small_close(s);
}

static double never_later(void *context) {
    (void)context;
    return 0.0;
}

/* By evaluations there are eight whatever the threads; by time each thread has as many as the others: of 100,000 ops, of which
 * 100 plans are tried in 5 s, two in 12 s, and one at least. */
TEST(anneal, chains_follow_the_threads_where_time_is_the_budget) {
    static const int32_t expected[][4] = {{1, 8, 2, 1}, {2, 8, 4, 2},     {3, 9, 6, 3},    {5, 10, 10, 5},
                                          {8, 8, 8, 8}, {12, 12, 12, 12}, {16, 16, 16, 16}};
    const stw_graph few = {.op_count = 1000}, many = {.op_count = 100000};
    const stw_simulator of_few = {.graph = &few}, of_many = {.graph = &many};
    const stw_clock clock = {never_later, NULL};
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++) {
        stw_pool *pool;
        if (!CHECK_EQ_INT(stw_pool_create(expected[k][0], &pool, NULL), STW_OK)) return;
        const stw_search timed = {.simulator = &of_few, .pool = pool, .clock = &clock, .budget = {.until_s = 1.0}},
                         long_timed = {.simulator = &of_many, .pool = pool, .clock = &clock, .budget = {.until_s = 12.0}},
                         short_timed = {.simulator = &of_many, .pool = pool, .clock = &clock, .budget = {.until_s = 1.0}},
                         counted = {.simulator = &of_many, .pool = pool, .budget = {.evaluations = 100}};
        CHECK_EQ_INT(stw_anneal_chains(&timed), expected[k][1]);
        CHECK_EQ_INT(stw_anneal_chains(&long_timed), expected[k][2]);
        CHECK_EQ_INT(stw_anneal_chains(&short_timed), expected[k][3]);
        CHECK_EQ_INT(stw_anneal_chains(&counted), 8);
        stw_pool_destroy(pool);
    }
}

/* What any of the threads finds is what comes out, and it is told of before the end. */
TEST(anneal, by_time_on_several_threads) {
    for (int32_t threads = 1; threads <= MOST_THREADS; threads *= 2) {
        stw_rng rng = stw_rng_create(549);
        small *s = open_problem(&rng, 2);
        test_context("%d threads", (int)threads);
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 0.1, .threads = threads});
        CHECK(!stw_score_is_better(&o.before, &o.after));
        CHECK(!stw_score_is_better(&o.told, &o.after) && !stw_score_is_better(&o.after, &o.told));
        CHECK(o.evaluations > 0);
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(anneal, cancelled_at_once) {
    stw_rng rng = stw_rng_create(549);
    small *s = open_problem(&rng, 2);
    for (int k = 0; k < 2; k++) {
        const outcome o =
            anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = k == 0 ? 1000 : 0, .seconds = 5.0, .cancelled = true});
        CHECK(are_placed_alike(o.plan, s->plan));
        CHECK(have_equal_priorities(o.plan, s->plan));
        CHECK(o.evaluations <= 8);
        stw_plan_destroy(o.plan);
    }
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 5.0, .cancelled = true, .without_start = true});
    CHECK_EQ_INT(o.after.reason, STW_VALID);
    stw_plan_destroy(o.plan);
    small_close(s);
}

TEST(anneal, nothing_to_search) {
    static const setting how[] = {{.tasks = BOTH, .rule = -1, .evaluations = 50},
                                  {.tasks = BOTH, .rule = -1, .seconds = 0.05},
                                  {.tasks = BOTH, .rule = -1, .evaluations = 50, .without_start = true}};
    const small_text text[] = {{.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1)}, /* one device */
                               {.nodes = NULL, .device_count = 2},
                               {.nodes = SOURCE(0, "p", "parameter", 3), .device_count = 2},
                               {.nodes = OP(0, "a", "[]", 0, 0), .device_count = 2}}; /* no time, no bytes */
    for (int k = 0; k < 12; k++) {
        small *s = small_open(text[k % 4]);
        test_context("case %d", k);
        const outcome o = anneal(s, how[k / 4]);
        CHECK_EQ_INT(o.after.reason, STW_VALID);
        CHECK(!stw_score_is_better(&o.before, &o.after));
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
}

/* d0 and d1 cannot talk; what needs each other must stay together. */
TEST(anneal, devices_without_a_link) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 2, 5) OP(1, "b", "[0]", 2, 5) OP(2, "c", "[]", 2, 5) OP(3, "d", "[2]", 2, 5),
                     .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "h200", 99),
                     .device_count = 2,
                     .links = ""});
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 300});
    CHECK_EQ_INT(o.after.reason, STW_VALID);
    CHECK_NEAR(o.after.step_s, 10e-6, 1e-15);
    stw_plan_destroy(o.plan);
    small_close(s);
}
