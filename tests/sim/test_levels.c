/* sim/levels: heads and tails that know transfers. Thousands of problems so small that every plan can be tried, over all sorts of
 * links; then steps computed by hand at which the bound is exact, one for each thing that it counts. A link takes a microsecond
 * per byte unless the case says otherwise. */
#include <math.h>
#include <stdio.h>

#include "sim/bounds.h"
#include "support/every_plan.h"
#include "support/random.h"
#include "test.h"

static double bound_ps(const small *s, bool with_transfers) {
    stw_bounds bounds = {0};
    CHECK_EQ_INT(stw_find_bounds(s->simulator, s->plan, with_transfers, &bounds, NULL), STW_OK);
    CHECK(bounds.fusion_s <= bounds.plan_s);
    return bounds.plan_s * 1e12;
}

/* ---- every plan of random problems ---- */

typedef struct {
    int problems, tight, tight_without, higher;
} tally;

static void try_all(small *s, stw_arena scratch, int number, tally *out) {
    every_plan_begin(s);
    const double bound = bound_ps(s, true), without = bound_ps(s, false), best = (double)best_plan(s, scratch);
    test_context("problem %d: bound %.17g, without transfers %.17g, best %.17g ps", number, bound, without, best);
    CHECK(bound <= best);
    CHECK(without <= bound * (1.0 + 1e-9));
    out->problems++;
    out->tight += bound >= best * (1.0 - 1e-9);
    out->tight_without += without >= best * (1.0 - 1e-9);
    out->higher += bound > without * (1.0 + 1e-9);
    test_context("%s", "");
    small_close(s);
}

TEST(levels, never_above_the_best_plan) {
    const stw_rng seeds = stw_rng_create(41);
    stw_arena scratch;
    tally all = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK)) return;
    for (int number = 0; number < 2000; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        const bool three = number % 10 == 0, five = number % 10 == 5;
        try_all(random_open(&rng, (random_shape){.nodes = five ? 5 : 4,
                                                 .device_count = three ? 3 : 2,
                                                 .plain = true,
                                                 .unlike = number % 3 == 1,
                                                 .buses = number % 4 < 2,
                                                 .charges = number % 5 < 2,
                                                 .model = number % 7 == 0,
                                                 .contention = number % 6 == 0 ? "none" : "queue"}),
                scratch, number, &all);
    }
    printf("  %d problems: tight on %d, %d without transfers; higher on %d\n", all.problems, all.tight, all.tight_without,
           all.higher);
    CHECK(all.tight > all.problems / 3); /* they are no idle numbers */
    CHECK(all.tight > all.tight_without + all.problems / 20);
    CHECK(all.higher > all.problems / 10);
    stw_arena_destroy(&scratch);
}

/* Sources, views, updates, control edges, colocation, groups: whatever the plan, its step is not below. */
TEST(levels, never_above_random_plans) {
    const stw_rng seeds = stw_rng_create(42);
    for (int number = 0; number < 400; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 6 + number % 20,
                                                    .device_count = 2 + number % 2,
                                                    .unlike = number % 4 == 1,
                                                    .buses = number % 3 == 0,
                                                    .charges = number % 5 < 2});
        for (int plan = 0; plan < 12; plan++) {
            for (int32_t i = 0; i < s->graph->N; i++) s->plan->group[i] = i;
            random_placement(&rng, s->simulator, s->plan);
            random_priorities(&rng, s->plan);
            if (plan % 3 == 0) random_groups(&rng, s->simulator, s->plan, 30);
            small_run(s);
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            test_context("problem %d, plan %d", number, plan);
            CHECK(bound_ps(s, true) <= (double)s->result.step_ps);
        }
        test_context("%s", "");
        small_close(s);
    }
}

/* ---- by hand ---- */

/* The plan's step is this, and so is the bound. */
static void check_exact(small_text text, double step_us) {
    if (text.device_count == 0) text.device_count = 2;
    small *s = small_open(text);
    test_context("step %.12g, bound %.12g, expected %.12g us", (double)s->result.step_ps / 1e6, bound_ps(s, true) / 1e6, step_us);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_NEAR((double)s->result.step_ps / 1e6, step_us, 1e-9 * step_us);
    CHECK_NEAR(bound_ps(s, true) / 1e6, step_us, 1e-9 * step_us);
    test_context("%s", "");
    small_close(s);
}

#define DIAMOND(bytes) \
    OP(0, "a", "[]", bytes, 1) OP(1, "b", "[0]", bytes, 3) OP(2, "c", "[0]", bytes, 3) OP(3, "d", "[1,2]", 0, 1)

TEST(levels, together_or_apart) {
    /* us     0 1 2 3 4 5 6 7
     * d0     a b b b              a to c, and b to d, at once
     * d1     . . . c c c d   */
    check_exact((small_text){.nodes = DIAMOND(2), .device = "[0,0,1,1]"}, 7);
    check_exact((small_text){.nodes = DIAMOND(3), .device = "[0,0,1,1]"}, 8);
    check_exact((small_text){.nodes = DIAMOND(3)}, 8);
    check_exact((small_text){.nodes = DIAMOND(9)}, 8); /* too long to send: one after the other */
    check_exact((small_text){.nodes = DIAMOND(0), .device = "[0,0,1,0]"}, 5);
}

TEST(levels, tails_as_well) {
    /* A fork: two readers of a follow it in turn, or one waits for what is sent. */
    check_exact(
        (small_text){.nodes = OP(0, "a", "[]", 2, 4) OP(1, "b", "[0]", 0, 3) OP(2, "c", "[0]", 0, 3), .device = "[0,0,1]"}, 9);
    check_exact((small_text){.nodes = OP(0, "a", "[]", 8, 4) OP(1, "b", "[0]", 0, 3) OP(2, "c", "[0]", 0, 3)}, 10);
    /* A join, the same turned round. */
    check_exact(
        (small_text){.nodes = OP(0, "a", "[]", 2, 3) OP(1, "b", "[]", 2, 3) OP(2, "c", "[0,1]", 0, 4), .device = "[0,1,0]"}, 9);
    check_exact((small_text){.nodes = OP(0, "a", "[]", 8, 3) OP(1, "b", "[]", 8, 3) OP(2, "c", "[0,1]", 0, 4)}, 10);
}

TEST(levels, what_is_sent_further_back) {
    /* Two chains into d. The cheapest place to cut one is a's byte, which is sent while c runs: 7 + 4 + 1, not 4 + 4 + 7 + 1 in
     * turn; b and c stay, since nine bytes would take longer. */
    check_exact(
        (small_text){.nodes = OP(0, "a", "[]", 1, 4) OP(1, "b", "[0]", 9, 4) OP(2, "c", "[]", 9, 7) OP(3, "d", "[1,2]", 0, 1),
                     .device = "[1,0,0,0]"},
        12);
    /* Five of two each before the last, all too large to send: in turn, not along the longest path, which takes 7. */
    check_exact((small_text){.nodes = OP(0, "a", "[]", 20, 2) OP(1, "b", "[0]", 20, 2) OP(2, "c", "[1]", 20, 2)
                                 OP(3, "e", "[]", 20, 2) OP(4, "f", "[3]", 20, 2) OP(5, "g", "[2,4]", 0, 1)},
                11);
}

TEST(levels, of_several_tasks_the_last_one_is_sent) {
    /* Of three that d reads one is sent, while two run here: 4 + 1, not 6 + 1 and not 2 + 2 + 1. */
    check_exact(
        (small_text){.nodes = OP(0, "a", "[]", 2, 2) OP(1, "b", "[]", 2, 2) OP(2, "c", "[]", 2, 2) OP(3, "d", "[0,1,2]", 0, 1),
                     .device = "[0,0,1,0]"},
        5);
}

TEST(levels, one_device_waits_for_heads) {
    /* What r makes is nothing to send, so it may be anywhere; b, a and p are too large to send, and none begins before 5. */
    check_exact((small_text){.nodes = OP(0, "r", "[]", 0, 5) OP(1, "b", "[0]", 90, 2) OP(2, "a", "[0]", 90, 3)
                                 OP(3, "p", "[2]", 90, 6) OP(4, "v", "[1,3]", 0, 1)},
                17);
}

TEST(levels, sending_is_charged_first) {
    /* a takes 4, 1 more to send; 2 bytes; b and c are 3 each. The receiver pays, too, of which nothing is known: c might not. */
    const char *const links =
        LINK_WITH("d0", "d1", 1e6, 0, ",'send_us':1,'receive_us':0") LINK_WITH("d1", "d0", 1e6, 0, ",'send_us':1,'receive_us':0");
    check_exact(
        (small_text){
            .nodes = OP(0, "a", "[]", 1, 4) OP(1, "b", "[0]", 0, 3) OP(2, "c", "[0]", 0, 3), .links = links, .device = "[0,0,1]"},
        9);
}

TEST(levels, the_fastest_link_counts) {
    const char *const links = LINK_WITH("d0", "d1", 1e6, 5, "") LINK_WITH("d1", "d0", 2e6, 0, "");
    check_exact(
        (small_text){
            .nodes = OP(0, "a", "[]", 4, 4) OP(1, "b", "[0]", 0, 3) OP(2, "c", "[0]", 0, 3), .links = links, .device = "[1,1,0]"},
        9);
}

TEST(levels, waits_send_nothing) {
    check_exact(
        (small_text){.nodes = OP(0, "a", "[]", 9, 3) OP(1, "b", "[]", 9, 3) OP_WITH(2, "c", "[]", 0, 4, ",'control':[0,1]"),
                     .device = "[0,1,0]"},
        7);
}

TEST(levels, a_view_is_what_is_sent) {
    /* b and c read two bytes of nine. */
    check_exact((small_text){.nodes = OP(0, "a", "[]", 9, 4) VIEW(1, "v", 0, 2) OP(2, "b", "[1]", 0, 3) OP(3, "c", "[1]", 0, 3),
                             .device = "[0,0,0,1]"},
                9);
}

TEST(levels, what_must_be_together_is) {
    /* Nothing to send, but b must be where a is: both before c. */
    check_exact((small_text){.nodes = OP(0, "a", "[]", 0, 3) OP_WITH(1, "b", "[]", 0, 3, ",'colocate':0")
                                 OP_WITH(2, "c", "[0,1]", 0, 4, ",'colocate':0")},
                10);
}

TEST(levels, what_must_be_together_may_have_others_between) {
    /* us     0 1 2 3 4 5 6 7 8 9 10 11 12 13
     * d0     a a a b b b b q q q q  q  q  v      a, b and v must be on one device; p, which is between a and v, need not
     * d1     . . . p p p p p p                   */
    small *s =
        small_open((small_text){.nodes = OP(0, "a", "[]", 0, 3) OP_WITH(1, "b", "[]", 0, 4, ",'colocate':0") OP(
                                    2, "p", "[0]", 2, 6) OP(3, "q", "[1]", 2, 6) OP_WITH(4, "v", "[2,3]", 0, 1, ",'colocate':0"),
                                .device_count = 2,
                                .device = "[0,0,1,0,0]"});
    CHECK_EQ_INT(s->result.step_ps, 14000000);
    CHECK(bound_ps(s, true) <= 14e6 && bound_ps(s, true) >= 12e6 * (1.0 - 1e-9));
    small_close(s);
}

TEST(levels, one_device_or_few_links) {
    check_exact((small_text){.nodes = DIAMOND(2), .device_count = 1}, 8);
    check_exact((small_text){.nodes = DIAMOND(2), .links = LINK("d0", "d1"), .device = "[0,0,1,1]", .device_count = 3}, 7);
    check_exact((small_text){.nodes = DIAMOND(2), .links = ""}, 8);
}
