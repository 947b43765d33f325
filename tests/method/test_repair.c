/* method: plans that lack memory are repaired, as far as they can be, and no others are touched. */
#include "search/repair.h"

#include <string.h>

#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

typedef struct {
    stw_search search;
    stw_arena scratch;
    stw_pool *pool;
    stw_score score;
} bench;

/* Repairs the plan of `s` and evaluates what comes out. */
static bench repair(small *s, unsigned tasks, int32_t rule, int64_t evaluations) {
    bench b = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&b.scratch, &error), STW_OK);
    CHECK_EQ_INT(stw_pool_create(1, &b.pool, &error), STW_OK);
    b.search = (stw_search){.simulator = s->simulator,
                            .tasks = tasks,
                            .rule = rule,
                            .seed = 1,
                            .pool = b.pool,
                            .workspace = &s->workspace,
                            .scratch = &b.scratch};
    CHECK_EQ_INT(stw_search_evaluate(&b.search, s->plan, 0, &b.score, &error), STW_OK);
    atomic_store(&b.search.evaluations, 0);
    b.search.budget.evaluations = evaluations;
    CHECK_EQ_INT(stw_search_repair(&b.search, s->plan, &b.score, 0, &error), STW_OK);
    CHECK_STR(error.message, "");
    small_run(s);
    const stw_score now = stw_score_of(b.search.objective, s->workspace, &s->result);
    CHECK_EQ_INT(now.reason, b.score.reason); /* the score is the plan's */
    CHECK_NEAR(now.lacks, b.score.lacks, 0.0);
    CHECK_NEAR(now.step_s, b.score.step_s, 0.0);
    stw_pool_destroy(b.pool);
    stw_arena_destroy(&b.scratch);
    return b;
}

enum { BOTH = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE };

/* Two parameters of 6 bytes with their readers; 10 bytes per device. */
TEST(repair, one_move) {
    const small_text text = {
        .nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6) OP(2, "a", "[0]", 1, 1) OP(3, "b", "[1]", 1, 1),
        .devices = DEVICE("d0", "h200", 10) DEVICE("d1", "h200", 10),
        .device_count = 2};
    small *s = small_open(text);
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    const bench b = repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK(b.search.outcome.repaired);
    CHECK_EQ_INT(s->plan->device[0], s->plan->device[2]); /* a parameter goes with its reader: nothing is sent */
    CHECK_EQ_INT(s->plan->device[1], s->plan->device[3]);
    CHECK(s->plan->device[0] != s->plan->device[1]);
    CHECK_EQ_INT(s->result.transfer_count, 0);
    small_close(s);
}

/* The update and its parameter go together, and views with their roots. */
TEST(repair, keeps_together_what_must_be) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6) VIEW(2, "v", 0, 6)
                                           OP(3, "a", "[2]", 1, 1) OP_WITH(4, "u", "[0,3]", 6, 1, ",'updates':0")
                                               OP(5, "b", "[1]", 1, 1) OP_WITH(6, "w", "[1,5]", 6, 1, ",'updates':1"),
                                       .devices = DEVICE("d0", "h200", 10) DEVICE("d1", "h200", 10),
                                       .device_count = 2});
    repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->plan->device[0], s->plan->device[4]);
    CHECK_EQ_INT(s->plan->device[1], s->plan->device[6]);
    CHECK_EQ_INT(s->plan->device[0], s->plan->device[2]);
    small_close(s);
}

/* An activation that is read late: its reader has to go, the producer may stay. */
TEST(repair, late_readers) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 6, 1) OP(1, "b", "[]", 6, 1) OP(2, "c", "[1]", 1, 1) OP(3, "d", "[0,2]", 1, 1),
                     .devices = DEVICE("d0", "h200", 11) DEVICE("d1", "h200", 11),
                     .device_count = 2,
                     .priority = "[4,3,2,1]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY); /* a and b: 12 */
    repair(s, STW_TASK_PLACEMENT, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small_close(s);
}

TEST(repair, order_alone_may_do) { /* a b c of 4 bytes each; x y z take them away */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 1) OP(1, "b", "[]", 4, 1) OP(2, "c", "[]", 4, 1)
                                           OP(3, "x", "[0]", 1, 1) OP(4, "y", "[1]", 1, 1) OP(5, "z", "[2]", 1, 1),
                                       .devices = DEVICE("d0", "h200", 6) DEVICE("d1", "h200", 6),
                                       .device_count = 2});
    CHECK_EQ_INT(s->result.peak_bytes[0], 13);
    repair(s, STW_TASK_SCHEDULE, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->result.peak_bytes[0], 5);
    for (int32_t i = 0; i < 6; i++) CHECK_EQ_INT(s->plan->device[i], 0);
    small_close(s);
}

TEST(repair, leaves_alone_what_it_may_not_decide) {
    const small_text text = {.nodes = OP(0, "a", "[]", 4, 1) OP(1, "b", "[]", 4, 1) OP(2, "c", "[]", 4, 1) OP(3, "x", "[0]", 1, 1)
                                 OP(4, "y", "[1]", 1, 1) OP(5, "z", "[2]", 1, 1),
                             .devices = DEVICE("d0", "h200", 6) DEVICE("d1", "h200", 9),
                             .device_count = 2,
                             .priority = "[9,8,7,3,2,1]"};
    small *s = small_open(text);
    repair(s, STW_TASK_PLACEMENT, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    static const double priority[] = {9, 8, 7, 3, 2, 1};
    for (int32_t i = 0; i < 6; i++) CHECK_NEAR(s->plan->priority[i], priority[i], 0.0);
    small_close(s);
    s = small_open(text); /* a rule that was asked for is applied to each new placement */
    repair(s, BOTH, STW_RULE_TOPOLOGICAL, 0);
    double by_repair[6];
    stw_error error;
    memcpy(by_repair, s->plan->priority, sizeof by_repair);
    CHECK_EQ_INT(stw_rule_apply(STW_RULE_TOPOLOGICAL, s->costs, &s->simulator->unfused, s->plan, s->workspace->arena, &error),
                 STW_OK);
    for (int32_t i = 0; i < 6; i++) CHECK_NEAR(by_repair[i], s->plan->priority[i], 0.0);
    small_close(s);
}

#define FOUR_PARAMETERS            \
    SOURCE(0, "p", "parameter", 8) \
    SOURCE(1, "q", "parameter", 8) \
    SOURCE(2, "r", "parameter", 8) \
    SOURCE(3, "s", "parameter", 8) \
    OP(4, "a", "[0]", 1, 1) OP(5, "b", "[1,4]", 1, 1) OP(6, "c", "[2,5]", 1, 1) OP(7, "d", "[3,6]", 1, 1)

TEST(repair, unlike_memory) { /* only d2 has room for more than one */
    small *s = small_open((small_text){.nodes = FOUR_PARAMETERS,
                                       .devices = DEVICE("d0", "h200", 12) DEVICE("d1", "h200", 5) DEVICE("d2", "h200", 40),
                                       .device_count = 3});
    repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    for (int32_t i = 0; i < 4; i++) CHECK(s->plan->device[i] != 1);
    small_close(s);
}

TEST(repair, missing_links) { /* d1 has most room, though not for all, and d0 can talk to d2 alone */
    small *s = small_open((small_text){.nodes = FOUR_PARAMETERS,
                                       .devices = DEVICE("d0", "h200", 21) DEVICE("d1", "h200", 31) DEVICE("d2", "h200", 30),
                                       .device_count = 3,
                                       .links = LINK("d0", "d2") LINK("d2", "d0")});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    for (int32_t i = 0; i < 8; i++) CHECK(s->plan->device[i] != 1);
    small_close(s);
}

TEST(repair, strict_orders_go_where_they_may) {
    small_text text = {.nodes = FOUR_PARAMETERS,
                       .devices = DEVICE("d0", "h200", 20) DEVICE("d1", "h200", 30),
                       .device_count = 2,
                       .order = "[[4,5,6,7],[]]"};
    small *s = small_open(text);
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    repair(s, STW_TASK_PLACEMENT, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    CHECK(s->plan->order[0] != NULL);
    repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK(s->plan->order[0] == NULL);
    small_close(s);
}

TEST(repair, hopeless) { /* one device; a parameter that fits nowhere; a budget that is spent */
    small *s = small_open((small_text){.nodes = FOUR_PARAMETERS, .devices = DEVICE("d0", "h200", 12)});
    bench b = repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    small_close(s);
    s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 50) OP(1, "a", "[0]", 0, 1),
                                .devices = DEVICE("d0", "h200", 12) DEVICE("d1", "h200", 20),
                                .device_count = 2});
    b = repair(s, BOTH, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    CHECK_NEAR(b.score.lacks, 30.0, 0.0); /* d1 lacks less */
    CHECK_EQ_INT(s->plan->device[0], 1);
    small_close(s);
    s = small_open(
        (small_text){.nodes = FOUR_PARAMETERS, .devices = DEVICE("d0", "h200", 12) DEVICE("d1", "h200", 40), .device_count = 2});
    b = repair(s, BOTH, -1, 3);
    CHECK(atomic_load(&b.search.evaluations) <= 3);
    const atomic_bool cancelled = true;
    b.search.cancelled = &cancelled;
    b.search.budget.evaluations = 0;
    stw_score score = {.reason = STW_INVALID_MEMORY, .lacks = 1.0};
    const long long before = atomic_load(&b.search.evaluations);
    CHECK_EQ_INT(stw_search_repair(&b.search, s->plan, &score, 0, NULL), STW_OK);
    CHECK_EQ_INT(atomic_load(&b.search.evaluations), before);
    small_close(s);
}

/* ---- random ---- */

static void check_together(const small *s) {
    int32_t wrong = 0;
    for (int32_t k = 0; k < s->simulator->pair_count; k++) {
        wrong += s->plan->device[s->simulator->pair[k][0]] != s->plan->device[s->simulator->pair[k][1]];
    }
    CHECK_EQ_INT(wrong, 0);
}

/* Tight limits for the plan as it stands: so much of each device's peak, and at least what half of all peaks would need. */
static void tighten(stw_rng *rng, small *s) {
    int64_t sum = 0;
    const int32_t D = s->machine->device_count;
    for (int32_t d = 0; d < D; d++) sum += s->result.peak_bytes[d];
    for (int32_t d = 0; d < D; d++) {
        const double share = 0.5 + 0.6 * stw_rng_uniform(rng);
        const int64_t limit = (int64_t)(share * (double)s->result.worst_peak_bytes), mean = 2 * sum / (3 * D);
        s->machine->device[d].memory_bytes = limit > mean ? limit : mean;
    }
}

/* What is said to be held at the peak adds up to the peak, and all that it needs is on the device. */
TEST(repair, holdings_add_up) {
    const stw_rng seeds = stw_rng_create(83);
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        const int32_t D = 1 + number % 4;
        small *s = random_open(&rng, (random_shape){.nodes = 70, .device_count = D, .far = number % 4 == 3});
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        for (int32_t d = 0; d < D; d++) {
            test_context("problem %d, device %d", number, d);
            stw_arena arena = s->simulator->arena; /* scratch: nobody else allocates meanwhile */
            stw_peak peak = {0};
            const stw_timeline *timeline = &s->workspace->timeline;
            CHECK_EQ_INT(stw_peak_find(s->machine, timeline, s->plan->device, d, &arena, &peak, NULL), STW_OK);
            int64_t sum = 0;
            for (int32_t h = 0; h < peak.count; h++) {
                sum += peak.bytes[h];
                CHECK(peak.need_start[h] < peak.need_start[h + 1]);
                for (int32_t k = peak.need_start[h]; k < peak.need_start[h + 1]; k++) {
                    CHECK_EQ_INT(s->plan->device[peak.need[k]], d);
                }
            }
            CHECK_EQ_INT(sum, s->result.peak_bytes[d]);
        }
        small_close(s);
    }
    test_context("%s", "");
}

/* Of two parameters that could go, the one whose reader takes less with it: q's reader is bound to d0 by a large tensor. */
TEST(repair, chooses_what_is_cheap) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 30) SOURCE(1, "q", "parameter", 30)
                                           OP(2, "a", "[]", 20, 1) OP(3, "b", "[1,2]", 1, 1) OP(4, "c", "[0]", 1, 1),
                                       .devices = DEVICE("d0", "h200", 55) DEVICE("d1", "h200", 55),
                                       .device_count = 2});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_MEMORY);
    repair(s, STW_TASK_PLACEMENT, -1, 0);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->result.transfer_count, 0);
    CHECK(s->plan->device[0] != s->plan->device[1]);
    small_close(s);
}

TEST(repair, random_problems) {
    const stw_rng seeds = stw_rng_create(81);
    int lacking = 0, valid = 0, untouched = 0;
    for (int number = 0; number < 150; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        small *s = random_open(&rng, (random_shape){.nodes = 30 + number / 2,
                                                    .device_count = 1 + number % 4,
                                                    .unlike = number % 2 == 1,
                                                    .buses = number % 3 == 0,
                                                    .model = number % 5 == 0});
        if (number % 3 != 0) random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        tighten(&rng, s);
        small_run(s);
        const bool was_valid = s->result.reason == STW_VALID;
        int32_t device[400];
        memcpy(device, s->plan->device, (size_t)s->graph->N * sizeof *device);
        double lacks = 0.0;
        for (int32_t d = 0; d < s->machine->device_count; d++) {
            const int64_t over = s->result.peak_bytes[d] - s->machine->device[d].memory_bytes;
            lacks += over > 0 ? (double)over : 0.0;
        }
        const bench b = repair(s, BOTH, -1, 0);
        check_together(s);
        CHECK(s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY);
        CHECK(b.score.lacks <= lacks);
        if (was_valid) {
            untouched++;
            CHECK_EQ_INT(atomic_load(&b.search.evaluations), 0);
            CHECK(!b.search.outcome.repaired);
            CHECK(memcmp(device, s->plan->device, (size_t)s->graph->N * sizeof *device) == 0);
        } else if (s->machine->device_count > 1) {
            lacking++;
            valid += s->result.reason == STW_VALID;
            CHECK(s->result.reason != STW_VALID || b.search.outcome.repaired);
        }
        small_close(s);
    }
    test_context("%s", "");
    CHECK(untouched > 5);
    CHECK(lacking > 60);
    CHECK(valid * 4 >= lacking * 3);
}

/* Problems whose plans fit with no order as they are, nor once units have moved with the order that they had: with the leanest
 * order they do then. */
TEST(repair, an_order_may_do_once_units_have_moved) {
    static const int problems[] = {87, 237, 273};
    const stw_rng seeds = stw_rng_create(83);
    for (int k = 0; k < 3; k++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)problems[k]);
        small *s = random_open(&rng, (random_shape){.nodes = 30, .device_count = 2});
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        tighten(&rng, s);
        test_context("problem %d", problems[k]);
        repair(s, BOTH, -1, 40);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
    test_context("%s", "");
}

/* What packing alone comes to, from the plan of `s`. */
static stw_score pack_alone(small *s, stw_plan *plan) {
    const stw_simulator *simulator = s->simulator;
    stw_arena scratch, arena = simulator->arena;
    stw_repair_units units;
    stw_score score;
    CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_assign(plan, s->plan, NULL), STW_OK);
    stw_search search = {.simulator = simulator,
                         .tasks = STW_TASK_PLACEMENT,
                         .rule = -1,
                         .seed = 1,
                         .workspace = &s->workspace,
                         .scratch = &scratch};
    CHECK_EQ_INT(stw_search_evaluate(&search, plan, 0, &score, NULL), STW_OK);
    const stw_tasks *tasks = &simulator->unfused;
    CHECK_EQ_INT(stw_repair_units_list(s->graph, s->costs->least_us, tasks, &arena, &units, NULL), STW_OK);
    CHECK_EQ_INT(stw_repair_pack(&search, tasks, &units, STW_PACK_REPAIR, plan, &score, 0, scratch, NULL), STW_OK);
    stw_arena_destroy(&scratch);
    return score;
}

/* Where nothing comes to a valid plan, the nearest of all counts, whichever way it was found. */
TEST(repair, is_as_near_as_packing) {
    const stw_rng seeds = stw_rng_create(82);
    int lacking = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        small *s = random_open(&rng, (random_shape){.nodes = 20 + number / 2, .device_count = 2 + number % 3});
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        for (int32_t d = 0; d < s->machine->device_count; d++) s->machine->device[d].memory_bytes = s->result.peak_bytes[d] / 2;
        small_run(s);
        if (s->result.reason == STW_INVALID_MEMORY) {
            stw_plan *plan;
            CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &plan, NULL), STW_OK);
            const stw_score packed = pack_alone(s, plan);
            stw_plan_destroy(plan);
            const bench b = repair(s, STW_TASK_PLACEMENT, -1, 0);
            CHECK(!stw_score_is_better(&packed, &b.score) || b.score.reason == STW_VALID);
            lacking += b.score.reason == STW_INVALID_MEMORY;
        }
        small_close(s);
    }
    test_context("%s", "");
    CHECK(lacking > 20);
}

TEST(repair, same_plan_twice) {
    for (int number = 0; number < 10; number++) {
        int32_t device[2][400];
        for (int k = 0; k < 2; k++) {
            stw_rng rng = stw_rng_create(900 + (uint64_t)number);
            small *s = random_open(&rng, (random_shape){.nodes = 80, .device_count = 3});
            random_placement(&rng, s->simulator, s->plan);
            small_run(s);
            tighten(&rng, s);
            repair(s, BOTH, -1, 0);
            memcpy(device[k], s->plan->device, (size_t)s->graph->N * sizeof **device);
            if (k == 1) CHECK(memcmp(device[0], device[1], (size_t)s->graph->N * sizeof **device) == 0);
            small_close(s);
        }
    }
}

/* Groups stay whole: a move that would tear one is refused. */
TEST(repair, fused_plans_stay_legal) {
    const stw_rng seeds = stw_rng_create(82);
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 2, .far = true});
        random_groups(&rng, s->simulator, s->plan, 30);
        small_run(s);
        tighten(&rng, s);
        repair(s, BOTH, -1, 0);
        CHECK(s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY);
        small_close(s);
    }
    test_context("%s", "");
}
