/* plan/fuse: groups by rule. What `default` thinks it saves is held against the simulator on one device, where the step is the
 * sum of all kernels. */
#include "plan/fuse.h"

#include <stdio.h>
#include <string.h>

#include "support/random.h"
#include "test.h"

typedef struct {
    small *s;
    stw_arena arena;
    stw_fuser *fuser;
    double *priority;       /* (N) */
    int32_t *group, *again; /* (N) */
} bench;

static bench bench_of(small *s) {
    bench b = {.s = s};
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&b.arena, &error), STW_OK);
    CHECK_EQ_INT(stw_fuser_create(s->costs, &b.arena, &b.fuser, &error), STW_OK);
    b.priority = STW_NEW(&b.arena, double, s->graph->N);
    b.group = STW_NEW(&b.arena, int32_t, s->graph->N);
    b.again = STW_NEW(&b.arena, int32_t, s->graph->N);
    return b;
}

static void bench_close(bench *b) {
    stw_arena_destroy(&b->arena);
    small_close(b->s);
}

/* The step with these groups, in picoseconds. */
static int64_t step_of(bench *b, const int32_t *group) {
    memcpy(b->s->plan->group, group, (size_t)b->s->graph->N * sizeof *group);
    small_run(b->s);
    CHECK(b->s->result.reason == STW_VALID || b->s->result.reason == STW_INVALID_MEMORY);
    return b->s->result.step_ps;
}

static int64_t step_by(bench *b, stw_fusion rule) {
    stw_fuse_by_rule(b->fuser, rule, b->s->plan->device, b->group, b->priority);
    return step_of(b, b->group);
}

#define BIG(id, name, op, inputs) \
    "{'id':" #id ",'name':'" name "','op':'" op "','inputs':" inputs ",'dtype':'f32','shape':[1048576]},"

/* What is dear to read again and cheap to compute goes into both of its readers. */
TEST(fuse, rules_on_a_fork) {
    bench b = bench_of(small_open((small_text){
        .nodes = BIG(0, "x", "input", "[]") BIG(1, "a", "relu", "[0]") BIG(2, "b", "relu", "[1]") BIG(3, "c", "relu", "[1]"),
        .outputs = "[2,3]",
        .devices = "{'name':'d0','kind':'h200','memory_bytes':100000000000},"}));
    const int64_t none = step_by(&b, STW_FUSION_NONE), all = step_by(&b, STW_FUSION_DEFAULT);
    CHECK_EQ_INT(b.group[1], -1);
    CHECK(all < none);
    CHECK(b.priority[1] > 0.0);
    CHECK_EQ_INT(step_by(&b, STW_FUSION_REVERSE_POST_ORDER), all);
    CHECK_EQ_INT(step_by(&b, STW_FUSION_ONE_PASS), all);
    stw_fuser_allow_recomputing(b.fuser, false);
    CHECK_EQ_INT(step_by(&b, STW_FUSION_DEFAULT), none);
    CHECK_EQ_INT(b.group[1], 1);
    bench_close(&b);
}

TEST(fuse, names) {
    stw_fusion rule = STW_FUSION_NONE;
    CHECK(stw_fusion_find(STW_STR("reverse-post-order"), &rule));
    CHECK_EQ_INT(rule, STW_FUSION_REVERSE_POST_ORDER);
    CHECK(stw_fusion_find(STW_STR("one-pass"), &rule));
    CHECK_EQ_INT(rule, STW_FUSION_ONE_PASS);
    CHECK(!stw_fusion_find(STW_STR("reverse"), &rule));
}

/* Its priorities make the same groups again; these are legal on any placement. */
TEST(fuse, default_said_as_priorities) {
    stw_rng rng = stw_rng_create(5);
    int32_t fused = 0, refused = 0;
    for (int k = 0; k < 300; k++) {
        const random_shape shape = {.nodes = 10 + (int32_t)stw_rng_below(&rng, 150),
                                    .device_count = 1 + (int32_t)stw_rng_below(&rng, 3),
                                    .wide = stw_rng_below(&rng, 2) == 1,
                                    .unlike = stw_rng_below(&rng, 2) == 1,
                                    .model = stw_rng_below(&rng, 2) == 1};
        bench b = bench_of(random_open(&rng, shape));
        const int32_t N = b.s->graph->N;
        random_placement(&rng, b.s->simulator, b.s->plan);
        test_context("problem %d", k);
        for (int rule = 0; rule < STW_FUSION_COUNT; rule++) {
            step_by(&b, (stw_fusion)rule);
            stw_fuse_by_priority(b.fuser, b.priority, b.s->plan->device, b.again);
            CHECK_EQ_INT(memcmp(b.again, b.group, (size_t)N * sizeof *b.group), 0);
            for (int32_t i = 0; i < N && rule == STW_FUSION_DEFAULT; i++) {
                fused += b.priority[i] > 0.0;
                refused += b.priority[i] < 0.0;
            }
        }
        bench_close(&b);
    }
    test_context("%s", "");
    printf("  %d ops merged, %d could be but were not\n", fused, refused);
    CHECK(fused > 1000);
    CHECK(refused > 100);
}

/* On one device: never worse than none, and no merge that was left would have helped. */
/* A fuser that has given its memory back makes the same groups as one that has not; both know nothing of what they made before.
 */
TEST(fuse, goes_on_after_a_rest) {
    stw_rng rng = stw_rng_create(23);
    for (int k = 0; k < 20; k++) {
        bench b = bench_of(random_open(&rng, (random_shape){.nodes = 120, .device_count = 2, .model = k % 2 == 1}));
        random_placement(&rng, b.s->simulator, b.s->plan);
        stw_arena own;
        stw_fuser *other;
        stw_error error = {0};
        const size_t size = (size_t)b.s->graph->N * sizeof *b.group;
        CHECK_EQ_INT(stw_arena_create(&own, &error), STW_OK);
        CHECK_EQ_INT(stw_fuser_create(b.s->costs, &own, &other, &error), STW_OK);
        for (int round = 0; round < 4; round++) {
            const stw_fusion rule = round % 2 == 0 ? STW_FUSION_DEFAULT : STW_FUSION_ONE_PASS;
            stw_fuser_rest(other, round < 3 ? 0 : INT64_MAX);
            stw_fuse_by_rule(b.fuser, rule, b.s->plan->device, b.group, b.priority);
            stw_fuse_by_rule(other, rule, b.s->plan->device, b.again, NULL);
            CHECK(memcmp(b.group, b.again, size) == 0);
            stw_fuser_rest(other, 0);
            stw_fuse_by_priority(b.fuser, b.priority, b.s->plan->device, b.group);
            stw_fuse_by_priority(other, b.priority, b.s->plan->device, b.again);
            CHECK(memcmp(b.group, b.again, size) == 0);
        }
        stw_arena_destroy(&own);
        bench_close(&b);
    }
}

TEST(fuse, default_ends_where_no_merge_helps) {
    stw_rng rng = stw_rng_create(6);
    int32_t tried = 0, better = 0;
    for (int k = 0; k < 120; k++) {
        const random_shape shape = {
            .nodes = 10 + (int32_t)stw_rng_below(&rng, 60), .device_count = 1, .model = stw_rng_below(&rng, 4) > 0};
        bench b = bench_of(random_open(&rng, shape));
        const int32_t N = b.s->graph->N;
        test_context("problem %d", k);
        const int64_t none = step_by(&b, STW_FUSION_NONE), step = step_by(&b, STW_FUSION_DEFAULT);
        CHECK(step <= none + N);
        better += step < none;
        for (int32_t i = 0; i < N; i++) {
            if (!(b.priority[i] < 0.0)) continue;
            const double own = b.priority[i];
            b.priority[i] = 1e-9; /* after all others */
            stw_fuse_by_priority(b.fuser, b.priority, b.s->plan->device, b.again);
            CHECK(memcmp(b.again, b.group, (size_t)N * sizeof *b.group) != 0);
            CHECK(step_of(&b, b.again) >= step - N);
            b.priority[i] = own;
            tried++;
        }
        bench_close(&b);
    }
    test_context("%s", "");
    printf("  better than none on %d of 120; %d further merges tried\n", better, tried);
    CHECK(better > 60);
    CHECK(tried > 100);
}

/* What is dear to compute and cheap to read goes into none of its readers, where a rule without a model puts it into both. */
TEST(fuse, one_pass_recomputes_only_what_pays) {
    bench b = bench_of(small_open((small_text){
        .nodes = NODE(0, "a", "relu", "[]", 4, ",'flops':100000000000") OP(1, "b", "[0]", 4, 5) OP(2, "c", "[0]", 4, 5),
        .outputs = "[1,2]"}));
    const int64_t none = step_by(&b, STW_FUSION_NONE);
    CHECK(step_by(&b, STW_FUSION_REVERSE_POST_ORDER) > none);
    CHECK_EQ_INT(step_by(&b, STW_FUSION_ONE_PASS), none);
    CHECK(b.priority[0] < 0.0);
    bench_close(&b);
}

/* On one device, one pass comes to nearly what the greedy rule does, and is hardly ever worse than nothing. */
TEST(fuse, one_pass_is_nearly_as_good) {
    stw_rng rng = stw_rng_create(7);
    double none = 0.0, all = 0.0, once = 0.0;
    int32_t worse = 0;
    for (int k = 0; k < 120; k++) {
        bench b = bench_of(
            random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 150), .device_count = 1, .model = true}));
        const int64_t step = step_by(&b, STW_FUSION_ONE_PASS), alone = step_by(&b, STW_FUSION_NONE);
        worse += step > alone + b.s->graph->N;
        once += (double)step;
        none += (double)alone;
        all += (double)step_by(&b, STW_FUSION_DEFAULT);
        bench_close(&b);
    }
    printf("  none %.6g, default %.6g, one-pass %.6g; worse than none on %d of 120\n", none, all, once, worse);
    CHECK(once - all < 0.1 * (none - all));
    CHECK(worse < 6);
}

TEST(fuse, plans_by_the_name_of_a_rule) {
    stw_error error = {0};
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5)});
    CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, "default", &error), STW_OK);
    CHECK_EQ_INT(s->plan->group[0], 1);
    CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, "none", &error), STW_OK);
    CHECK_EQ_INT(s->plan->group[0], 0);
    CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, "all", &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "unknown fusion rule 'all'; known: none, default, reverse-post-order, one-pass, joined");
    s->plan->device[1] = 1;
    CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, "default", &error), STW_ERROR_INPUT);
    small_close(s);
}

/* ---- ending early ---- */

static double count_looks(void *context) { return ++*(double *)context; }

/* Whenever it ends, its groups are legal, no worse than none, and what its priorities make again; and the next time it does all.
 */
TEST(fuse, ends_early_with_what_saves_most) {
    stw_rng rng = stw_rng_create(20261);
    for (int k = 0; k < 40; k++) {
        bench b = bench_of(random_open(&rng, (random_shape){.nodes = 400, .device_count = 1, .model = true}));
        const int64_t none = step_by(&b, STW_FUSION_NONE), all = step_by(&b, STW_FUSION_DEFAULT);
        double looks = 0.0;
        const stw_clock clock = {count_looks, &looks};
        const stw_stop stop = {.clock = &clock, .until_s = 1.0 + k / 2};
        test_context("case %d", k);
        CHECK(!stw_fuser_was_stopped(b.fuser));
        stw_fuser_set_stop(b.fuser, &stop);
        const int64_t some = step_by(&b, STW_FUSION_DEFAULT);
        if (k == 0) CHECK(stw_fuser_was_stopped(b.fuser));
        if (!stw_fuser_was_stopped(b.fuser)) CHECK_EQ_INT(some, all);
        CHECK(some <= none);
        stw_fuse_by_priority(b.fuser, b.priority, b.s->plan->device, b.again);
        CHECK(memcmp(b.group, b.again, (size_t)b.s->graph->N * sizeof *b.group) == 0);
        stw_fuser_set_stop(b.fuser, NULL);
        CHECK_EQ_INT(step_by(&b, STW_FUSION_DEFAULT), all);
        CHECK(!stw_fuser_was_stopped(b.fuser));
        bench_close(&b);
    }
    test_context("%s", "");
}
