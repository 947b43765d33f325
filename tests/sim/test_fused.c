/* sim/fused: a plan of groups is worth exactly what the same plan of ops is. */
#include "sim/fused.h"

#include <stdio.h>
#include <string.h>

#include "plan/fuse.h"
#include "support/random.h"
#include "test.h"

typedef struct {
    small *s;
    stw_arena arena;
    stw_fused *fused;
    stw_workspace *workspace;
    stw_plan *plan; /* of groups */
} bench;

static bench bench_of(small *s, stw_fusion rule, bool recompute) {
    bench b = {.s = s};
    stw_error error = {0};
    stw_fuser *fuser;
    CHECK_EQ_INT(stw_arena_create(&b.arena, &error), STW_OK);
    CHECK_EQ_INT(stw_fuser_create(s->costs, &b.arena, &fuser, &error), STW_OK);
    stw_fuser_allow_recomputing(fuser, recompute);
    int32_t *group = STW_NEW(&b.arena, int32_t, s->graph->N);
    stw_fuse_by_rule(fuser, rule, NULL, group, NULL);
    CHECK_EQ_INT(stw_fused_create(s->simulator, group, 0, &b.fused, &error), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(b.fused->simulator, &b.workspace, &error), STW_OK);
    CHECK_EQ_INT(stw_plan_create(b.fused->graph, s->machine, &b.plan, &error), STW_OK);
    return b;
}

static void bench_close(bench *b) {
    stw_plan_destroy(b->plan);
    stw_workspace_destroy(b->workspace);
    stw_fused_destroy(b->fused);
    stw_arena_destroy(&b->arena);
    small_close(b->s);
}

/* Runs the plan of groups and the same as a plan of ops. */
static void check_same(bench *b) {
    stw_error error = {0};
    stw_evaluation result;
    CHECK_EQ_INT(stw_simulate(b->fused->simulator, b->plan, b->workspace, &result, &error), STW_OK);
    CHECK_EQ_INT(stw_fused_expand(b->fused, b->plan, b->s->plan, &error), STW_OK);
    small_run(b->s);
    CHECK_EQ_INT(result.reason, b->s->result.reason);
    CHECK_EQ_INT(result.step_ps, b->s->result.step_ps);
    CHECK_EQ_INT(result.worst_peak_bytes, b->s->result.worst_peak_bytes);
    CHECK_EQ_INT(result.transfer_bytes, b->s->result.transfer_bytes);
}

TEST(fused, a_chain_is_one_op) {
    bench b = bench_of(small_open((small_text){.nodes = SOURCE(0, "x", "input", 4) OP(1, "a", "[0]", 4, 5) OP(2, "b", "[1]", 4, 5)
                                                   VIEW(3, "v", 2, 2) OP(4, "c", "[3]", 4, 5),
                                               .outputs = "[2]"}),
                       STW_FUSION_DEFAULT, true);
    CHECK_EQ_INT(b.fused->graph->op_count, 2);
    CHECK_EQ_INT(b.fused->graph->N, 4);
    CHECK_EQ_INT(b.fused->node_of[1], b.fused->node_of[2]);
    CHECK_EQ_INT(b.fused->task_id[b.fused->node_of[2]], 1);
    check_same(&b);
    bench_close(&b);
}

/* Priorities all differ, since ties are broken by ids, which groups have others of. */
TEST(fused, same_as_the_plan_of_ops) {
    stw_rng rng = stw_rng_create(17);
    int32_t recomputed = 0, fewer = 0, ordered = 0;
    for (int k = 0; k < 500; k++) {
        const random_shape shape = {.nodes = 10 + (int32_t)stw_rng_below(&rng, 150),
                                    .device_count = 1 + (int32_t)stw_rng_below(&rng, 3),
                                    .wide = stw_rng_below(&rng, 2) == 1,
                                    .unlike = stw_rng_below(&rng, 2) == 1,
                                    .model = stw_rng_below(&rng, 2) == 1};
        test_context("problem %d", k);
        small *s = random_open(&rng, shape);
        bench b = bench_of(s, stw_rng_below(&rng, 2) == 1 ? STW_FUSION_DEFAULT : STW_FUSION_REVERSE_POST_ORDER,
                           stw_rng_below(&rng, 2) == 1);
        const stw_graph *graph = b.fused->graph;
        for (int32_t i = 0; i < s->graph->N; i++) recomputed += s->graph->kind[i] == STW_NODE_OP && b.fused->group[i] < 0;
        fewer += s->graph->op_count - graph->op_count;
        random_placement(&rng, b.fused->simulator, b.plan);
        for (int32_t n = 0; n < graph->N; n++) b.plan->priority[n] = stw_rng_uniform(&rng);
        check_same(&b);
        random_orders(&rng, b.fused->simulator, b.plan);
        check_same(&b);
        for (int32_t d = 0; d < s->machine->device_count; d++) ordered += s->plan->order[d] != NULL;
        bench_close(&b);
    }
    test_context("%s", "");
    printf("  %d ops fewer, %d recomputed, %d orders\n", fewer, recomputed, ordered);
    CHECK(fewer > 2000);
    CHECK(recomputed > 200);
    CHECK(ordered > 500);
}

TEST(fused, there_and_back) {
    stw_error error = {0};
    stw_rng rng = stw_rng_create(3);
    bench b = bench_of(random_open(&rng, (random_shape){.nodes = 80, .device_count = 3}), STW_FUSION_DEFAULT, false);
    stw_plan *back;
    CHECK_EQ_INT(stw_plan_create(b.fused->graph, b.s->machine, &back, &error), STW_OK);
    random_placement(&rng, b.fused->simulator, b.plan);
    random_priorities(&rng, b.plan);
    CHECK_EQ_INT(stw_fused_expand(b.fused, b.plan, b.s->plan, &error), STW_OK);
    stw_fused_reduce(b.fused, b.s->plan, back);
    for (int32_t n = 0; n < b.fused->graph->N; n++) {
        CHECK_EQ_INT(back->device[n], b.plan->device[n]);
        CHECK(back->priority[n] == b.plan->priority[n]);
    }
    stw_plan_destroy(back);
    bench_close(&b);
}

TEST(fused, groups_with_several_outputs_are_refused) {
    stw_error error = {0};
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5) OP(2, "c", "[0,1]", 4, 5)});
    stw_fused *fused;
    const int32_t group[] = {0, 0, 2};
    CHECK_EQ_INT(stw_fused_create(s->simulator, group, 0, &fused, &error), STW_ERROR_INPUT);
    CHECK(strstr(error.message, "several outputs") != NULL);
    small_close(s);
}
