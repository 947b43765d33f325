/* plan/merge: groups from fusion priorities, on examples worked out by hand and on random graphs against the simulator's own
 * check of legality. */
#include "plan/merge.h"

#include <stdio.h>
#include <string.h>

#include "support/random.h"
#include "test.h"

#define MATMUL(id, name, inputs) NODE(id, name, "mm", inputs, 4, ",'us':{'h200':5}")

typedef struct {
    small *s;
    stw_arena arena;
    stw_merge *m;
    double *priority; /* (N) */
    int32_t *group;   /* (N) */
} bench;

static bench bench_of(small *s) {
    bench b = {.s = s};
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&b.arena, &error), STW_OK);
    CHECK_EQ_INT(stw_merge_create(s->graph, s->machine, &b.arena, &b.m, &error), STW_OK);
    b.priority = STW_NEW(&b.arena, double, s->graph->N);
    b.group = STW_NEW(&b.arena, int32_t, s->graph->N);
    for (int32_t i = 0; i < s->graph->N; i++) b.priority[i] = 1.0;
    return b;
}

static void bench_close(bench *b) {
    stw_arena_destroy(&b->arena);
    small_close(b->s);
}

static void merge(bench *b) {
    stw_merge_reset(b->m, b->s->plan->device);
    stw_merge_by_priority(b->m, b->priority, b->s->graph->topological, b->s->graph->op_count);
    stw_merge_groups(b->m, b->group);
}

/* "1144-": the group of each node, '-' for -1; ids are single digits. */
static void check_groups(bench *b, const char *groups) {
    merge(b);
    for (int32_t i = 0; groups[i] != '\0'; i++) {
        test_context("node %d", i);
        CHECK_EQ_INT(b->group[i], groups[i] == '-' ? -1 : groups[i] - '0');
    }
    test_context("%s", "");
    memcpy(b->s->plan->group, b->group, (size_t)b->s->graph->N * sizeof *b->group);
    small_run(b->s);
    CHECK_STR(b->s->result.message, "");
}

TEST(merge, chain_becomes_one_kernel) {
    bench b = bench_of(small_open((small_text){.nodes = SOURCE(0, "x", "input", 4) OP(1, "a", "[0]", 4, 5) OP(2, "b", "[1]", 4, 5)
                                                   OP(3, "c", "[2]", 4, 5)}));
    check_groups(&b, "-333");
    b.priority[2] = 0.0; /* b stays, so a goes no further than b */
    check_groups(&b, "-223");
    b.priority[1] = 0.0;
    check_groups(&b, "-123");
    bench_close(&b);
}

TEST(merge, what_several_read_is_recomputed) {
    bench b = bench_of(small_open((small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5) OP(2, "c", "[1]", 4, 5)
                                                   OP(3, "d", "[1]", 4, 5) OP(4, "e", "[1]", 4, 5)}));
    check_groups(&b, "--234"); /* a is recomputed where b is */
    bench_close(&b);
}

TEST(merge, readers_in_one_group_are_one_reader) {
    bench b = bench_of(small_open(
        (small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5) OP(2, "c", "[0]", 4, 5) OP(3, "d", "[1,2]", 4, 5)}));
    check_groups(&b, "3333");
    b.priority[0] = 2.0; /* visited before b and c are in one group */
    check_groups(&b, "-333");
    bench_close(&b);
}

TEST(merge, all_or_nothing) {
    bench b = bench_of(small_open(
        (small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5) MATMUL(2, "m", "[0]") OP(3, "d", "[1]", 4, 5)}));
    check_groups(&b, "0323");
    bench_close(&b);
}

TEST(merge, what_must_stay) {
    bench b = bench_of(small_open((small_text){.nodes = OP(0, "kept", "[]", 4, 5) OP(1, "far", "[0]", 4, 5)
                                                   OP(2, "end", "[1]", 4, 5) MATMUL(3, "m", "[2]") OP(4, "last", "[3]", 4, 5),
                                               .outputs = "[0]",
                                               .device_count = 2,
                                               .device = "[0,1,0,0,0]"}));
    check_groups(&b, "01234");
    bench_close(&b);
}

TEST(merge, epilogue_where_the_device_takes_one) {
    bench b = bench_of(small_open((small_text){
        .nodes = OP(0, "before", "[]", 4, 5) MATMUL(1, "m", "[0]") OP(2, "after", "[1]", 4, 5) OP(3, "end", "[2]", 4, 5),
        .devices = "{'name':'d0','kind':'h200','memory_bytes':1000,'fuses_epilogue':['matmul']},"}));
    check_groups(&b, "0333"); /* nothing goes into the product from before */
    bench_close(&b);
}

/* An update waits for the readers of its parameter, and nothing follows it. */
TEST(merge, readers_of_an_updated_parameter) {
    bench b = bench_of(
        small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 4) OP(1, "bias", "[0]", 4, 5) OP(2, "act", "[1]", 4, 5)
                                    MATMUL(3, "grad", "[2]") OP_WITH(4, "update", "[0,3]", 4, 5, ",'updates':0")}));
    check_groups(&b, "-2234");
    bench_close(&b);
}

TEST(merge, at_most_64_members) {
    char nodes[20000], *end = nodes;
    for (int k = 0; k < 100; k++)
        end +=
            snprintf(end, 200, "{'id':%d,'name':'n%d','op':'relu','inputs':[%s%.0d],'dtype':'u8','shape':[4],'us':{'h200':5}},",
                     k, k, k == 1 ? "0" : "", k < 2 ? 0 : k - 1);
    bench b = bench_of(small_open((small_text){.nodes = nodes}));
    merge(&b);
    int32_t size[100] = {0};
    for (int k = 0; k < 100; k++) size[b.group[k]]++;
    CHECK_EQ_INT(size[99], 64);
    CHECK_EQ_INT(size[35], 36);
    bench_close(&b);
}

/* Whatever the priorities, the simulator finds the groups legal; the same input gives the same groups. */
TEST(merge, always_legal) {
    stw_rng rng = stw_rng_create(11);
    int32_t fused = 0, recomputed = 0;
    for (int k = 0; k < 1500; k++) {
        const random_shape shape = {.nodes = 10 + (int32_t)stw_rng_below(&rng, 120),
                                    .device_count = 1 + (int32_t)stw_rng_below(&rng, 3),
                                    .wide = stw_rng_below(&rng, 2) == 1,
                                    .unlike = stw_rng_below(&rng, 2) == 1};
        bench b = bench_of(random_open(&rng, shape));
        const int32_t N = b.s->graph->N;
        random_placement(&rng, b.s->simulator, b.s->plan);
        for (int32_t i = 0; i < N; i++) b.priority[i] = (double)stw_rng_below(&rng, 5);
        test_context("problem %d", k);
        merge(&b);
        memcpy(b.s->plan->group, b.group, (size_t)N * sizeof *b.group);
        small_run(b.s);
        CHECK(b.s->result.reason == STW_VALID || b.s->result.reason == STW_INVALID_MEMORY);
        CHECK_STR(b.s->result.reason == STW_INVALID_MEMORY ? "" : b.s->result.message, "");
        for (int32_t i = 0; i < N; i++) {
            fused += b.group[i] >= 0 && b.group[i] != i;
            recomputed += b.group[i] < 0 && b.s->graph->kind[i] == STW_NODE_OP;
        }
        merge(&b);
        CHECK_EQ_INT(memcmp(b.s->plan->group, b.group, (size_t)N * sizeof *b.group), 0);
        bench_close(&b);
    }
    test_context("%s", "");
    printf("  %d ops fused, %d recomputed\n", fused, recomputed);
    CHECK(fused > 1000);
    CHECK(recomputed > 300);
}
