/* method: annealing keeps what it promises: never worse than its start, what it may not decide stays, plans come nearer to
 * fitting. */
#include "method/annealing.h"

/* ---- never worse ---- */

TEST(anneal, is_never_worse_than_its_start) {
    const stw_rng seeds = stw_rng_create(541);
    int better = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        const outcome o =
            anneal(s, (setting){.tasks = BOTH, .rule = -1, .objective = (stw_objective)(number % 3), .evaluations = 300});
        CHECK_EQ_INT(o.after.reason, STW_VALID);
        CHECK(!stw_score_is_better(&o.before, &o.after));
        CHECK(!o.repaired);
        better += stw_score_is_better(&o.after, &o.before);
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(better > 35);
}

/* A chain of 60 ops on one device: no plan is better, and each cut makes it worse by less than a thousandth. */
TEST(anneal, a_good_start_is_kept) {
    char nodes[60 * 120] = "";
    for (int k = 0; k < 60; k++) {
        const size_t used = strlen(nodes);
        char input[20] = "";
        if (k > 0) snprintf(input, sizeof input, "%d", k - 1);
        snprintf(nodes + used, sizeof nodes - used,
                 "{'id':%d,'name':'n%d','op':'relu','inputs':[%s],'dtype':'u8','shape':[1],'us':{'h200':50}},", k, k, input);
    }
    small *s = small_open((small_text){.nodes = nodes, .device_count = 4});
    for (int64_t evaluations = 40; evaluations <= 320; evaluations *= 2) {
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = evaluations});
        CHECK_NEAR(o.after.step_s, 3e-3, 1e-15);
        stw_plan_destroy(o.plan);
    }
    small_close(s);
}

/* Two chains without a byte between them: the best is one on each device. */
TEST(anneal, finds_the_obvious) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 9, 5) OP(1, "b", "[0]", 9, 5) OP(2, "c", "[]", 9, 5) OP(3, "d", "[2]", 9, 5),
                     .device_count = 2});
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 200});
    CHECK_NEAR(o.before.step_s, 20e-6, 1e-15);
    CHECK_NEAR(o.after.step_s, 10e-6, 1e-15);
    stw_plan_destroy(o.plan);
    small_close(s);
}

TEST(anneal, finds_the_order) {
    /* x before y: the other device has most to do after x. Devices are not to be decided. */
    small *s = small_open((small_text){
        .nodes = OP(0, "y", "[]", 0, 4) OP(1, "x", "[]", 0, 1) OP(2, "z", "[1]", 0, 9), .device_count = 2, .device = "[0,0,1]"});
    const outcome o = anneal(s, (setting){.tasks = SCHEDULE, .rule = -1, .evaluations = 200});
    CHECK_NEAR(o.before.step_s, 14e-6, 1e-15);
    CHECK_NEAR(o.after.step_s, 10e-6, 1e-15);
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* ---- what may be decided ---- */

TEST(anneal, leaves_alone_what_it_may_not_decide) {
    const stw_rng seeds = stw_rng_create(542);
    int moved = 0, reordered = 0;
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        const outcome schedule = anneal(s, (setting){.tasks = SCHEDULE, .rule = -1, .evaluations = 150});
        const outcome placement = anneal(s, (setting){.tasks = PLACEMENT, .rule = -1, .evaluations = 150});
        CHECK(are_placed_alike(schedule.plan, s->plan));
        CHECK(have_equal_priorities(placement.plan, s->plan));
        CHECK(!stw_score_is_better(&schedule.before, &schedule.after));
        CHECK(!stw_score_is_better(&placement.before, &placement.after));
        moved += !are_placed_alike(placement.plan, s->plan);
        reordered += !have_equal_priorities(schedule.plan, s->plan);
        stw_plan_destroy(schedule.plan);
        stw_plan_destroy(placement.plan);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(moved > 20 && reordered > 10);
}

static void apply_rule(const small *s, stw_plan *plan, int rule) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_rule_apply((stw_rule)rule, s->costs, &s->simulator->unfused, plan, arena, NULL), STW_OK);
    stw_arena_destroy(&arena);
}

TEST(anneal, a_rule_goes_with_every_placement) {
    const stw_rng seeds = stw_rng_create(543);
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        const int rule = number % STW_RULE_COUNT;
        test_context("problem %d, %s", number, stw_rule_name[rule]);
        apply_rule(s, s->plan, rule);
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = rule, .evaluations = 120, .without_start = number % 2 == 1});
        stw_plan *expected;
        CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &expected, NULL), STW_OK);
        CHECK_EQ_INT(stw_plan_assign(expected, o.plan, NULL), STW_OK);
        apply_rule(s, expected, rule);
        CHECK(have_equal_priorities(expected, o.plan));
        stw_plan_destroy(expected);
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
}

/* The schedule alone, and that by a rule: nothing is left to decide. */
TEST(anneal, nothing_to_decide) {
    stw_rng rng = stw_rng_create(544);
    small *s = open_problem(&rng, 1);
    apply_rule(s, s->plan, STW_RULE_FIFO);
    const outcome o = anneal(s, (setting){.tasks = SCHEDULE, .rule = STW_RULE_FIFO, .evaluations = 100});
    CHECK(are_placed_alike(o.plan, s->plan));
    CHECK(have_equal_priorities(o.plan, s->plan));
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* ---- memory ---- */

TEST(anneal, a_start_that_does_not_fit_becomes_valid) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6)
                                           OP(2, "a", "[0]", 1, 1) OP(3, "b", "[1]", 1, 1) OP(4, "c", "[2,3]", 1, 1),
                                       .devices = DEVICE("d0", "h200", 10) DEVICE("d1", "h200", 10),
                                       .device_count = 2});
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 300});
    CHECK_EQ_INT(o.before.reason, STW_INVALID_MEMORY);
    CHECK_EQ_INT(o.after.reason, STW_VALID);
    CHECK(o.repaired);
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* Memory for half of what the start needs, or a bit more. */
TEST(anneal, comes_nearer_to_valid) {
    const stw_rng seeds = stw_rng_create(545);
    int valid = 0;
    for (int number = 0; number < 20; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        for (int32_t i = 0; i < s->graph->N; i++) s->plan->device[i] = 0;
        small_run(s);
        const int64_t peak = s->result.worst_peak_bytes;
        small_set_memory(s, peak / 2 + peak / 5);
        test_context("problem %d", number);
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 300});
        if (peak > 0) CHECK_EQ_INT(o.before.reason, STW_INVALID_MEMORY);
        CHECK(o.after.reason == STW_VALID || o.after.lacks <= o.before.lacks);
        CHECK_EQ_INT(o.repaired, o.before.reason != STW_VALID && o.after.reason == STW_VALID);
        valid += o.after.reason == STW_VALID;
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(valid > 10);
}
