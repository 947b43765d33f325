/* sim/bounds: on graphs so small that every plan can be tried, the lower bounds are never above the best step, and equal to it
 * where they are tight. Strict orders out of all linear orders of the tasks include every schedule that is worth a thought. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/every_plan.h"
#include "support/random.h"
#include "test.h"

static stw_bounds bounds_of(const small *s) {
    stw_bounds bounds = {0};
    CHECK_EQ_INT(stw_lower_bounds(s->simulator, s->plan, &bounds, NULL), STW_OK);
    return bounds;
}

static int64_t run(small *s) {
    stw_evaluation result;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &result, NULL), STW_OK);
    return result.reason == STW_VALID ? result.step_ps : INT64_MAX;
}

/* ---- every partition into groups ---- */

/* The next choice of a group for every op, -1 included; numbers in the order of their first use. */
static bool next_partition(const stw_graph *graph, int32_t *group) {
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        int32_t largest = -1;
        for (int32_t j = 0; j < k; j++) {
            if (group[graph->topological[j]] > largest) largest = group[graph->topological[j]];
        }
        int32_t *own = &group[graph->topological[k]];
        if (*own <= largest) {
            ++*own;
            return true;
        }
        *own = -1;
    }
    return false;
}

static small *open_tiny(stw_rng *rng, int number, int32_t ops) {
    return random_open(rng, (random_shape){.nodes = ops,
                                           .device_count = 2,
                                           .plain = true,
                                           .unlike = number % 2 == 1,
                                           .free_links = number % 3 == 0,
                                           .model = number % 5 < 2,
                                           .contention = number % 4 == 0 ? "none" : "queue"});
}

TEST(bounds, never_above_the_best_plan) {
    const stw_rng seeds = stw_rng_create(31);
    stw_arena scratch;
    if (!CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK)) return;
    int tight = 0;
    for (int number = 0; number < 200; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_tiny(&rng, number, number % 8 == 0 ? EVERY_PLAN_MOST : 5);
        every_plan_begin(s);
        const stw_bounds bounds = bounds_of(s);
        const double best = (double)best_plan(s, scratch);
        test_context("problem %d: bound %.17g, with groups free %.17g, best %.17g ps", number, bounds.plan_s * 1e12,
                     bounds.fusion_s * 1e12, best);
        CHECK(bounds.plan_s * 1e12 <= best);
        CHECK(bounds.fusion_s * 1e12 <= best);
        tight += bounds.plan_s * 1e12 >= best * (1.0 - 1e-11);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(tight >= 50); /* it is no idle number */
    stw_arena_destroy(&scratch);
}

TEST(bounds, never_above_the_best_priorities) {
    /* The same with priorities in place of orders, in every permutation. */
    const stw_rng seeds = stw_rng_create(32);
    int tight_loads = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_tiny(&rng, number, 4);
        const stw_bounds bounds = bounds_of(s);
        int64_t best = INT64_MAX;
        double least_load_s = INFINITY;
        do {
            for (int code = 0; code < 24; code++) { /* the digits of a permutation of four */
                int32_t left[] = {0, 1, 2, 3}, rest = code;
                for (int32_t i = 0; i < 4; i++) {
                    const int32_t k = rest % (4 - i);
                    rest /= 4 - i;
                    s->plan->priority[i] = left[k];
                    left[k] = left[3 - i];
                }
                const int64_t step = run(s);
                if (step < best) best = step;
                if (step < INT64_MAX) least_load_s = fmin(least_load_s, stw_workspace_largest_load_s(s->workspace));
            }
        } while (next_placement(s->plan));
        test_context("problem %d", number);
        CHECK(best < INT64_MAX && best > 0);
        CHECK(bounds.plan_s * 1e12 <= (double)best);
        CHECK(bounds.fusion_s * 1e12 <= (double)best);
        CHECK(bounds.load_s <= least_load_s && bounds.load_fusion_s <= bounds.load_s * (1.0 + 1e-12));
        tight_loads += bounds.load_s >= least_load_s * (1.0 - 1e-11);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(tight_loads >= 15);
}

TEST(bounds, never_above_the_best_groups) {
    const stw_rng seeds = stw_rng_create(33);
    stw_arena scratch;
    if (!CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK)) return;
    int better = 0, legal = 0;
    for (int number = 0; number < 110; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_tiny(&rng, number, number < 100 ? 4 : 5);
        every_plan_begin(s);
        const double fusion_ps = bounds_of(s).fusion_s * 1e12;
        const int64_t unfused = best_plan(s, scratch);
        int64_t best = INT64_MAX;
        for (int32_t i = 0; i < s->graph->N; i++) s->plan->group[i] = -1;
        do {
            const int64_t step = best_plan(s, scratch);
            if (step == INT64_MAX) continue;
            legal++;
            test_context("problem %d, groups %d %d %d %d ...", number, s->plan->group[0], s->plan->group[1], s->plan->group[2],
                         s->plan->group[3]);
            CHECK(bounds_of(s).plan_s * 1e12 <= (double)step);
            if (step < best) best = step;
        } while (next_partition(s->graph, s->plan->group));
        test_context("problem %d: with groups free %.17g, best %.17g ps", number, fusion_ps, (double)best);
        CHECK(best <= unfused);
        CHECK(fusion_ps <= (double)best);
        better += best < unfused;
        small_close(s);
    }
    test_context("%s", "");
    CHECK(legal > 1000); /* of the 52 partitions of four ops most are illegal, for their classes above all */
    CHECK(better > 20);
    stw_arena_destroy(&scratch);
}

/* ---- where the bound is tight ---- */

static void check_tight(small_text text, double bound_us) {
    small *s = small_open(text);
    CHECK_NEAR(bounds_of(s).plan_s * 1e6, bound_us, 1e-9 * bound_us);
    CHECK(bounds_of(s).plan_s * 1e12 <= (double)s->result.step_ps);
    CHECK_NEAR(s->result.step_s * 1e6, bound_us, 1e-9 * bound_us);
    small_close(s);
}

TEST(bounds, tight_where_they_can_be) {
    const char *const chain = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[1]", 1, 4);
    check_tight((small_text){.nodes = chain}, 9);
    check_tight((small_text){.nodes = chain, .device_count = 3}, 9); /* more devices do not help a chain */
    const char *const four = OP(0, "a", "[]", 1, 5) OP(1, "b", "[]", 1, 5) OP(2, "c", "[]", 1, 5) OP(3, "d", "[]", 1, 5);
    check_tight((small_text){.nodes = four}, 20);
    check_tight((small_text){.nodes = four, .device_count = 2, .device = "[0,1,0,1]"}, 10);
    check_tight((small_text){.nodes = four, .device_count = 4, .device = "[0,1,2,3]"}, 5);
    /* A head, two in the middle for each of two devices, a tail: neither the path (7) nor the work over devices (8) alone,
     * but head + work / devices + tail = 1 + 6 + 1. With nothing to send it is reached. */
    const char *const diamond = OP(0, "a", "[]", 0, 1) OP(1, "b", "[0]", 0, 3) OP(2, "c", "[0]", 0, 3) OP(3, "d", "[0]", 0, 3)
        OP(4, "e", "[0]", 0, 3) OP(5, "f", "[1,2,3,4]", 0, 1);
    check_tight((small_text){.nodes = diamond, .device_count = 2, .device = "[0,0,0,1,1,0]"}, 8);
    /* Waits count as well: an update and the reader that it waits for. */
    check_tight(
        (small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "r", "[0]", 1, 3) OP_WITH(2, "u", "[]", 1, 4, ",'updates':0"),
                     .device_count = 2},
        7);
}

TEST(bounds, tight_on_unlike_devices) {
    /* Two ops that the H200 does in 2 and the CPU in 6, and two the other way round: each device does its own in 4. */
    check_tight((small_text){.nodes = NODE(0, "a", "relu", "[]", 1, ",'us':{'h200':2,'cpu8':6}")
                                 NODE(1, "b", "relu", "[]", 1, ",'us':{'h200':2,'cpu8':6}")
                                     NODE(2, "c", "relu", "[]", 1, ",'us':{'h200':6,'cpu8':2}")
                                         NODE(3, "d", "relu", "[]", 1, ",'us':{'h200':6,'cpu8':2}"),
                             .devices = DEVICE("d0", "h200", 100) DEVICE("d1", "cpu8", 100),
                             .device_count = 2,
                             .device = "[0,0,1,1]"},
                4);
}

/* A chain takes 12 us, but two devices that share it are busy for 6 each. Nothing is shorter than the longest op. */
TEST(bounds, of_the_largest_load) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 0, 3) OP(1, "b", "[0]", 0, 3) OP(2, "c", "[1]", 0, 3) OP(3, "d", "[2]", 0, 3),
                     .device_count = 2,
                     .device = "[0,0,1,1]"});
    CHECK_NEAR(bounds_of(s).plan_s * 1e6, 12.0, 1e-9);
    CHECK_NEAR(bounds_of(s).load_s * 1e6, 6.0, 1e-9);
    CHECK_NEAR(stw_workspace_largest_load_s(s->workspace) * 1e6, 6.0, 1e-9);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 7) OP(1, "b", "[0]", 0, 3), .device_count = 2});
    CHECK_NEAR(bounds_of(s).load_s * 1e6, 7.0, 1e-9);
    small_close(s);
}

/* Two devices of one kind and one of another; nothing better than this placement can be hoped for. */
static void check_unlike(const char *nodes, const char *device, double step_us) {
    small *s = small_open((small_text){.nodes = nodes,
                                       .devices = DEVICE("d0", "h200", 100) DEVICE("d1", "h200", 100) DEVICE("d2", "cpu8", 100),
                                       .device_count = 3,
                                       .device = device});
    CHECK_NEAR(s->result.step_s * 1e6, step_us, 1e-9 * step_us);
    CHECK(bounds_of(s).plan_s * 1e12 <= (double)s->result.step_ps);
    CHECK_NEAR(bounds_of(s).plan_s * 1e6, step_us, 0.01 * step_us); /* the prices are not found exactly */
    small_close(s);
}

#define ON_BOTH(id, name, inputs, h200, cpu8) NODE(id, name, "relu", inputs, 0, ",'us':{'h200':" #h200 ",'cpu8':" #cpu8 "}")

TEST(bounds, tight_through_prices) {
    /* Ten ops that take 3 on each of two H200 and 1 on the CPU: two, two and six of them take 6 each. */
    check_unlike(ON_BOTH(0, "a", "[]", 3, 1) ON_BOTH(1, "b", "[]", 3, 1) ON_BOTH(2, "c", "[]", 3, 1) ON_BOTH(3, "d", "[]", 3, 1)
                     ON_BOTH(4, "e", "[]", 3, 1) ON_BOTH(5, "f", "[]", 3, 1) ON_BOTH(6, "g", "[]", 3, 1)
                         ON_BOTH(7, "h", "[]", 3, 1) ON_BOTH(8, "i", "[]", 3, 1) ON_BOTH(9, "j", "[]", 3, 1),
                 "[0,0,1,1,2,2,2,2,2,2]", 6);
    /* The CPU is the slower one for all, but not equally slow: it takes two of the four on which it loses least. */
    check_unlike(ON_BOTH(0, "a", "[]", 2, 4) ON_BOTH(1, "b", "[]", 2, 4) ON_BOTH(2, "c", "[]", 2, 4) ON_BOTH(3, "d", "[]", 2, 4)
                     ON_BOTH(4, "e", "[]", 3, 30) ON_BOTH(5, "f", "[]", 3, 30) ON_BOTH(6, "g", "[]", 3, 30)
                         ON_BOTH(7, "h", "[]", 3, 30),
                 "[0,1,2,2,0,0,1,1]", 8);
    /* A chain runs on the faster device, before and behind every op of it; with the work of others in the middle. */
    check_unlike(ON_BOTH(0, "a", "[]", 2, 20) ON_BOTH(1, "b", "[0]", 3, 30) ON_BOTH(2, "c", "[1]", 4, 40), "[0,0,0]", 9);
    check_unlike(ON_BOTH(0, "a", "[]", 2, 20) ON_BOTH(1, "b", "[0]", 3, 60) ON_BOTH(2, "c", "[0]", 3, 60)
                     ON_BOTH(3, "d", "[0]", 60, 3) ON_BOTH(4, "e", "[1,2,3]", 5, 50),
                 "[0,0,1,2,0]", 10);
}

TEST(bounds, tight_where_waits_make_heads_and_tails) {
    /* A reader, the update that waits for it, and behind the update twelve of work for two devices; without the wait it would
     * be eight. Then the same with control edges, to the front and to the back. */
    check_tight(
        (small_text){.nodes = SOURCE(0, "p", "parameter", 0) OP(1, "r", "[0]", 0, 3) OP_WITH(2, "u", "[]", 0, 1, ",'updates':0")
                         OP(3, "a", "[2]", 0, 3) OP(4, "b", "[2]", 0, 3) OP(5, "c", "[2]", 0, 3) OP(6, "d", "[2]", 0, 3),
                     .device_count = 2,
                     .device = "[0,0,0,0,0,1,1]"},
        10);
    const char *const middle = OP_WITH(1, "a", "[]", 0, 3, ",'control':[0]") OP_WITH(2, "b", "[]", 0, 3, ",'control':[0]")
        OP_WITH(3, "c", "[]", 0, 3, ",'control':[0]") OP_WITH(4, "d", "[]", 0, 3, ",'control':[0]");
    char nodes[2000];
    snprintf(nodes, sizeof nodes, "%s%s%s", OP(0, "h", "[]", 0, 3), middle, OP_WITH(5, "t", "[]", 0, 3, ",'control':[1,2,3,4]"));
    check_tight((small_text){.nodes = nodes, .device_count = 2, .device = "[0,0,0,1,1,0]"}, 12);
}

/* ---- with the groups free: one case for each factor ----
 *
 * On these devices an efficiency of 1 means a microsecond per megabyte and per million operations, and nothing else counts. The
 * plan fuses all that can be fused, and its step is the bound or close to it, so that a bound that is too large is above it. */

#define WORK(id, name, op, inputs, megabytes, more) NODE(id, name, op, inputs, megabytes##000000, more)
#define MEGA_OPS(count)                             ",'flops':" #count "000000"
#define BIG(id, name, megabytes)                    SOURCE(id, name, "input", megabytes##000000)
#define TIME(us)                                    ",'us':{'plain':" #us "}"
#define UNIT(name, kind, ops_per_s, bytes_per_s, matmul, elementwise, others, more)                                    \
    "{'name':'" name "','kind':'" kind "','memory_bytes':1000000000000,'launch_us':0,'flops_per_s':{'f32':" #ops_per_s \
    "},'bandwidth_bytes_per_s':" #bytes_per_s ",'efficiency':{'matmul':" #matmul ",'elementwise':" #elementwise        \
    ",'reduce':" #others ",'broadcast':" #others ",'shape':" #others ",'alias':" #others "}" more "},"
#define PLAIN UNIT("d0", "plain", 1e12, 1e12, 1, 1, 1, "")

/* The step of the plan and the bound, in microseconds; the bound is at most the step. */
static void check_free(small_text text, double step_us, double bound_us) {
    if (text.devices == NULL) text.devices = PLAIN;
    small *s = small_open(text);
    const stw_bounds bounds = bounds_of(s);
    test_context("step %.17g, bound %.17g us, with groups free %.17g us", s->result.step_s * 1e6, bounds.plan_s * 1e6,
                 bounds.fusion_s * 1e6);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_NEAR(s->result.step_s * 1e6, step_us, 1e-7 * step_us); /* whole picoseconds */
    CHECK(bounds.plan_s <= s->result.step_s);
    CHECK(bounds.fusion_s <= s->result.step_s);
    CHECK_NEAR(bounds.fusion_s * 1e6, bound_us, 1e-6 * bound_us); /* the margin is half a picosecond per op */
    test_context("%s", "");
    small_close(s);
}

TEST(free_bounds, only_what_must_be_written_crosses_the_border) {
    /* 8 in, 8 out, and 64 twice that stay inside. */
    check_free((small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, "") WORK(2, "b", "relu", "[1]", 64, "")
                                WORK(3, "c", "relu", "[2]", 8, ""),
                            .outputs = "[3]",
                            .group = "[-1,0,0,0]"},
               16, 16);
    /* Recomputed instead of written. */
    check_free((small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, "") WORK(2, "b", "relu", "[1]", 16, ""),
                            .outputs = "[2]",
                            .group = "[-1,-1,0]"},
               24, 24);
    /* What an update writes is written, read or not: p is read and written, x is read. */
    check_free((small_text){.nodes = SOURCE(0, "p", "parameter", 8000000) BIG(1, "x", 8) WORK(2, "a", "relu", "[1]", 64, "")
                                WORK(3, "u", "add", "[0,2]", 8, ",'updates':0"),
                            .group = "[-1,-1,0,0]"},
               24, 24);
    /* A product that does not fuse here is read and written by others: all that is moved must be moved. */
    check_free((small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 4, "") WORK(2, "m", "mm", "[1]", 32, "")
                                WORK(3, "b", "relu", "[2]", 64, "") WORK(4, "c", "relu", "[3]", 2, ""),
                            .outputs = "[4]",
                            .group = "[-1,0,1,2,2]"},
               12 + 36 + 34, 12 + 36 + 34);
}

TEST(free_bounds, times_below_the_model) {
    /* All take half of what is modelled, and so does the group. */
    check_free(
        (small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 8, TIME(8)) WORK(2, "b", "relu", "[1]", 8, TIME(8)),
                     .outputs = "[2]",
                     .group = "[-1,0,0]"},
        8, 8);
    /* Half for the three of the group (16 modelled), twice for another one (2 modelled, 4 measured). */
    check_free(
        (small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, TIME(36)) WORK(2, "b", "relu", "[1]", 64, TIME(64))
                         WORK(3, "c", "relu", "[2]", 8, TIME(36)) BIG(4, "y", 1) WORK(5, "d", "relu", "[4]", 1, TIME(4)),
                     .outputs = "[3,5]",
                     .group = "[-1,0,0,0,-1,1]"},
        8 + 4, 8 + 1);
    /* Twice for an op of the group itself, but a small one: (36 + 64 + 36 + 4) / (72 + 128 + 72 + 2) x 18. */
    check_free(
        (small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, TIME(36)) WORK(2, "b", "relu", "[1]", 64, TIME(64))
                         WORK(3, "c", "relu", "[2]", 8, TIME(36)) BIG(4, "y", 1) WORK(5, "d", "relu", "[4]", 1, TIME(4)),
                     .outputs = "[3,5]",
                     .group = "[-1,0,0,0,-1,0]"},
        140.0 / 274.0 * 18.0, 9);
    /* Above the model all the same: twice, so the group takes twice as well. */
    check_free(
        (small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 8, TIME(32)) WORK(2, "b", "relu", "[1]", 8, TIME(32)),
                     .outputs = "[2]",
                     .group = "[-1,0,0]"},
        32, 32);
}

TEST(free_bounds, unlike_efficiencies) {
    const char *const chain = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, "") WORK(2, "b", "relu", "[1]", 8, "");
    check_free(
        (small_text){
            .nodes = chain, .outputs = "[2]", .devices = UNIT("d0", "plain", 1e12, 1e12, 0.1, 1, 0.1, ""), .group = "[-1,0,0]"},
        16, 16);
    /* The reduction moves less than the other, so it, too, moves at the other's rate. */
    check_free((small_text){.nodes = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, "") WORK(2, "s", "sum", "[1]", 2, ""),
                            .outputs = "[2]",
                            .devices = UNIT("d0", "plain", 1e12, 1e12, 0.1, 1, 0.1, ""),
                            .group = "[-1,0,0]"},
               10, 10);
    /* A product leads the group, and its rate is the best one. */
    const char *const product =
        BIG(0, "x", 8) BIG(1, "w", 8) WORK(2, "m", "mm", "[0,1]", 64, "") WORK(3, "a", "relu", "[2]", 8, "");
    check_free((small_text){.nodes = product,
                            .outputs = "[3]",
                            .devices = UNIT("d0", "plain", 1e12, 1e12, 1, 0.5, 0.5, ",'fuses_epilogue':['matmul']"),
                            .group = "[-1,-1,0,0]"},
               24, 24);
    /* Where it may not lead one its rate is its own: 80 at 1, 72 at a half. */
    check_free((small_text){.nodes = product, .outputs = "[3]", .devices = UNIT("d0", "plain", 1e12, 1e12, 1, 0.5, 0.5, "")},
               80 + 144, 80 + 144);
}

TEST(free_bounds, arithmetic_and_traffic) {
    const char *const equal = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, MEGA_OPS(6))
        WORK(2, "b", "relu", "[1]", 64, MEGA_OPS(4)) WORK(3, "c", "relu", "[2]", 8, MEGA_OPS(6));
    check_free((small_text){.nodes = equal, .outputs = "[3]", .group = "[-1,0,0,0]"}, 16, 16);
    /* Arithmetic alone: 160 of it. */
    check_free(
        (small_text){
            .nodes = equal, .outputs = "[3]", .devices = UNIT("d0", "plain", 1e11, 1e12, 1, 1, 1, ""), .group = "[-1,0,0,0]"},
        160, 160);
    const char *const ends = BIG(0, "x", 8) WORK(1, "a", "relu", "[0]", 64, MEGA_OPS(8)) WORK(2, "b", "relu", "[1]", 64, "")
        WORK(3, "c", "relu", "[2]", 8, MEGA_OPS(8));
    /* One device is slow at arithmetic and the other one at traffic: arithmetic alone says that the second is fast and traffic
     * alone that the first is; only their mean sees half of the 16. */
    check_free((small_text){.nodes = ends,
                            .outputs = "[3]",
                            .devices = UNIT("d0", "slow at arithmetic", 1e12, 1e15, 1, 1, 1, "")
                                UNIT("d1", "slow at traffic", 1e15, 1e12, 1, 1, 1, ""),
                            .device_count = 2,
                            .group = "[-1,0,0,0]"},
               16, 8.008);
}

TEST(free_bounds, one_value_for_many) {
    /* 64 that four ops of the group read once, and the last one writes 1. */
    check_free((small_text){.nodes = BIG(0, "x", 64) WORK(1, "a", "relu", "[0]", 1, "") WORK(2, "b", "relu", "[0]", 1, "")
                                WORK(3, "c", "relu", "[0]", 1, "") WORK(4, "d", "relu", "[0]", 1, "")
                                    WORK(5, "e", "add", "[1,2,3,4]", 1, ""),
                            .outputs = "[5]",
                            .group = "[-1,0,0,0,0,0]"},
               65, 65);
    /* The same of the output of a product that does not fuse, which is computed first. */
    check_free((small_text){.nodes = BIG(0, "x", 8) WORK(1, "m", "mm", "[0]", 64, "") WORK(2, "a", "relu", "[1]", 1, "")
                                WORK(3, "b", "relu", "[1]", 1, "") WORK(4, "c", "relu", "[1]", 1, "")
                                    WORK(5, "d", "add", "[2,3,4]", 2, ""),
                            .outputs = "[5]",
                            .group = "[-1,0,1,1,1,1]"},
               72 + 66, 72 + 66);
    /* One op that reads a value twice, directly and through a view, reads it once. */
    check_free((small_text){.nodes = BIG(0, "x", 64) VIEW(1, "v", 0, 16000000) WORK(2, "a", "add", "[0,1,0]", 32, "")
                                WORK(3, "b", "relu", "[2]", 2, ""),
                            .outputs = "[3]",
                            .group = "[-1,-1,0,0]"},
               66, 66);
}

/* ---- random problems, large ones ---- */

/* One plan: whatever it is, no bound is above its step. Returns how much of the step the bound with groups free explains. */
static double check_random_plan(stw_rng *rng, small *s, bool ordered) {
    const stw_bounds bounds = bounds_of(s);
    remove_orders(s->plan);
    if (ordered) random_orders(rng, s->simulator, s->plan);
    small_run(s);
    test_context("step %.17g s, bound %.17g s, with groups free %.17g s", s->result.step_s, bounds.plan_s, bounds.fusion_s);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK(bounds.plan_s <= s->result.step_s);
    CHECK(bounds.fusion_s <= s->result.step_s);
    const double load_s = stw_workspace_largest_load_s(s->workspace); /* what a pipeline of steps is limited by */
    CHECK(bounds.load_s <= load_s && bounds.load_fusion_s <= load_s);
    CHECK(bounds.load_s <= bounds.plan_s * (1.0 + 1e-12)); /* it knows of no waiting */
    return s->result.step_ps > 0 ? bounds.fusion_s / s->result.step_s : 0.0;
}

TEST(free_bounds, never_above_random_plans) {
    const stw_rng seeds = stw_rng_create(34);
    int32_t groups = 0;
    int close = 0;
    for (int number = 0; number < 500; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 4 + number % 25,
                                                    .device_count = 1 + number % 3,
                                                    .unlike = number % 2 == 1,
                                                    .free_links = number % 5 < 3,
                                                    .far = true});
        double most = 0.0;
        for (int plan = 0; plan < 4; plan++) {
            for (int32_t i = 0; i < s->graph->N; i++) s->plan->group[i] = i;
            if (plan > 0) random_placement(&rng, s->simulator, s->plan); /* the first has all on one device */
            random_priorities(&rng, s->plan);
            groups += random_groups(&rng, s->simulator, s->plan, 20 * plan + 40);
            most = fmax(most, check_random_plan(&rng, s, plan % 2 == 1));
        }
        close += most > 0.7;
        small_close(s);
    }
    test_context("%s", "");
    CHECK(groups > 5000);
    CHECK(close > 100); /* it is no idle number */
}

TEST(bounds, edges) {
    small *s = small_open((small_text){0}); /* no op */
    CHECK_NEAR(bounds_of(s).plan_s, 0.0, 0.0);
    CHECK_NEAR(bounds_of(s).fusion_s, 0.0, 0.0);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 0)}); /* an op that takes no time */
    CHECK_NEAR(bounds_of(s).plan_s, 0.0, 0.0);
    small_close(s);
    /* Illegal groups: what could be run is bounded. */
    s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 2) NODE(1, "b", "mystery", "[0]", 1, ",'us':{'h200':3}"), .group = "[0,0]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_GROUPS);
    CHECK_NEAR(bounds_of(s).plan_s * 1e6, 5.0, 1e-8);
    CHECK(bounds_of(s).fusion_s * 1e6 >= 3.0 - 1e-5); /* b never fuses; the margin is half a picosecond per op */
    small_close(s);
    /* The longest times there are, and a link that takes longer than a step may: nothing infinite comes out. */
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1e12) OP(1, "b", "[0]", 1, 1e12),
                                .device_count = 2,
                                .links = LINK_WITH("d0", "d1", 1e-100, 0, ""),
                                .device = "[0,1]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_OVERFLOW);
    CHECK(isfinite(bounds_of(s).plan_s) && isfinite(bounds_of(s).fusion_s));
    small_close(s);
}
