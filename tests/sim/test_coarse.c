/* graph/strands and sim/coarse: every op in one strand, none before what it waits for; what alone follows is joined, what could
 * run at once is not; on one device a coarse step is that of the ops, and with an op per strand any step is. */
#include "sim/coarse.h"

#include <stdlib.h>
#include <string.h>

#include "graph/strands.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

/* ---- strands ---- */

static stw_strands strands_of(const small *s, int32_t most, stw_arena *arena) {
    stw_strands found;
    CHECK_EQ_INT(stw_arena_create(arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_strands_build(s->graph, s->costs->least_us, most, arena, &found, NULL), STW_OK);
    return found;
}

static void check_strands(const stw_graph *graph, const stw_strands *c) {
    int32_t members = 0;
    for (int32_t k = 0; k < c->count; k++) {
        CHECK(c->start[k] < c->start[k + 1]);
        for (int32_t m = c->start[k]; m < c->start[k + 1]; m++, members++) CHECK_EQ_INT(c->of[c->member[m]], k);
    }
    CHECK_EQ_INT(members, graph->op_count);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) {
            CHECK_EQ_INT(c->of[i], -1);
            continue;
        }
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) CHECK(c->of[graph->read[k].node] <= c->of[i]);
        for (int64_t k = graph->wait_start[i]; k < graph->wait_start[i + 1]; k++) CHECK(c->of[graph->wait[k]] <= c->of[i]);
    }
}

TEST(strands, in_topological_order) {
    stw_rng rng = stw_rng_create(5);
    int64_t joined = 0;
    for (int k = 0; k < 300; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 150), .device_count = 2});
        stw_arena arena;
        const int32_t most = 1 + (int32_t)stw_rng_below(&rng, s->graph->op_count + 1);
        const stw_strands found = strands_of(s, most, &arena);
        test_context("problem %d, at most %d of %d ops", k, most, s->graph->op_count);
        check_strands(s->graph, &found);
        CHECK(found.count >= (most < s->graph->op_count ? most : s->graph->op_count));
        joined += s->graph->op_count - found.count;
        stw_arena_destroy(&arena);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(joined > 1000);
}

TEST(strands, what_is_alone_between_others_is_joined) {
    /* a -> b -> c is a chain; d and e both follow c, and f follows both */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5) OP(2, "c", "[1]", 4, 5)
                                           OP(3, "d", "[2]", 4, 50) OP(4, "e", "[2]", 4, 50) OP(5, "f", "[3,4]", 4, 60),
                                       .outputs = "[5]"});
    stw_arena arena;
    stw_strands found = strands_of(s, 4, &arena);
    CHECK_EQ_INT(found.count, 4);
    CHECK(found.of[0] == found.of[1] && found.of[1] == found.of[2]);
    CHECK(found.of[3] != found.of[2] && found.of[4] != found.of[2] && found.of[3] != found.of[4]);
    CHECK_EQ_INT(found.of[5], 3);
    stw_arena_destroy(&arena);
    small_close(s);
    /* what waits for two is with neither, however few are asked for: of d and e one could begin without the other */
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[]", 4, 5) OP(2, "c", "[]", 4, 5)
                                    OP(3, "d", "[0,1]", 4, 5) OP(4, "e", "[1,2]", 4, 5) OP(5, "f", "[0,2]", 4, 5),
                                .outputs = "[3,4,5]"});
    found = strands_of(s, 1, &arena);
    CHECK_EQ_INT(found.count, 6);
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(strands, none_grows_far_beyond_the_mean) {
    char nodes[8000] = "";
    for (int i = 0; i < 64; i++) {
        char line[200], input[20];
        snprintf(input, sizeof input, i == 0 ? "[]" : "[%d]", i - 1);
        snprintf(line, sizeof line, "{'id':%d,'name':'n%d','op':'relu','inputs':%s,'dtype':'u8','shape':[4],'us':{'h200':10}},",
                 i, i, input);
        strcat(nodes, line);
    }
    small *s = small_open((small_text){.nodes = nodes, .outputs = "[63]"});
    stw_arena arena;
    const stw_strands found = strands_of(s, 8, &arena);
    CHECK_EQ_INT(found.count, 8);
    for (int32_t k = 0; k < found.count; k++) CHECK(found.start[k + 1] - found.start[k] <= 32); /* four times the mean */
    stw_arena_destroy(&arena);
    small_close(s);
}

/* ---- the coarser problem ---- */

typedef struct {
    stw_coarse *coarse;
    stw_workspace *workspace;
    stw_plan *plan;
} coarser;

static coarser open_coarser(const small *s, int32_t most) {
    coarser c = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_coarse_create(s->simulator, most, &c.coarse, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_workspace_create(c.coarse->simulator, &c.workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(c.coarse->graph, s->machine, &c.plan, NULL), STW_OK);
    return c;
}

static void close_coarser(coarser c) {
    stw_plan_destroy(c.plan);
    stw_workspace_destroy(c.workspace);
    stw_coarse_destroy(c.coarse);
}

static stw_evaluation step_of(coarser c) {
    stw_evaluation evaluation = {0};
    stw_plan_join(c.coarse->simulator, c.plan);
    CHECK_EQ_INT(stw_simulate(c.coarse->simulator, c.plan, c.workspace, &evaluation, NULL), STW_OK);
    return evaluation;
}

/* Whatever is joined, and whatever the order: ops, views, updates and control edges. */
TEST(coarse, one_device_takes_the_same_time) {
    stw_rng rng = stw_rng_create(6);
    for (int k = 0; k < 200; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 150), .device_count = 1});
        coarser c = open_coarser(s, 1 + (int32_t)stw_rng_below(&rng, s->graph->op_count + 1));
        test_context("problem %d: %d ops, %d strands", k, s->graph->op_count, c.coarse->strands);
        random_priorities(&rng, c.plan);
        CHECK_NEAR((double)step_of(c).step_ps, (double)s->result.step_ps, (double)s->graph->op_count); /* each is rounded */
        close_coarser(c);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(coarse, an_op_in_each_strand_is_the_problem_itself) {
    stw_rng rng = stw_rng_create(7);
    for (int k = 0; k < 200; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 80),
                                                    .device_count = 2 + k % 3,
                                                    .plain = true,
                                                    .unlike = k % 2 == 0,
                                                    .charges = k % 5 == 0});
        coarser c = open_coarser(s, s->graph->op_count);
        test_context("problem %d", k);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        for (int32_t i = 0; i < s->graph->N; i++) {
            c.plan->device[c.coarse->node_of[i]] = s->plan->device[i];
            c.plan->priority[c.coarse->node_of[i]] = s->plan->priority[i];
        }
        CHECK_EQ_INT(c.coarse->strands, s->graph->op_count);
        CHECK_EQ_INT(step_of(c).step_ps, s->result.step_ps);
        close_coarser(c);
        small_close(s);
    }
    test_context("%s", "");
}

/* A plan of strands is one of ops that keeps what must be together, with the whole strand on one device. */
TEST(coarse, plans_are_those_of_ops) {
    stw_rng rng = stw_rng_create(8);
    for (int k = 0; k < 200; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 150), .device_count = 3});
        coarser c = open_coarser(s, 1 + s->graph->op_count / 3);
        test_context("problem %d", k);
        random_placement(&rng, c.coarse->simulator, c.plan);
        random_priorities(&rng, c.plan);
        CHECK(step_of(c).reason != STW_INVALID_COLOCATION);
        stw_coarse_expand(c.coarse, c.plan, s->plan);
        small_run(s);
        CHECK(s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY);
        for (int32_t i = 0; i < s->graph->N; i++) {
            if (s->graph->kind[i] == STW_NODE_OP) CHECK_EQ_INT(s->plan->device[i], c.plan->device[c.coarse->node_of[i]]);
        }
        close_coarser(c);
        small_close(s);
    }
    test_context("%s", "");
}

/* A strand hands over each of its values when all of it is done: a [0,5) and b [5,10) are one, c and d read them elsewhere. */
TEST(coarse, a_strand_hands_over_at_its_end) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 2, 5) OP(1, "b", "[0]", 3, 5) OP(2, "c", "[0]", 4, 20) OP(3, "d", "[1]", 4, 20),
                     .outputs = "[2,3]",
                     .device_count = 2});
    coarser c = open_coarser(s, 3);
    CHECK_EQ_INT(c.coarse->strands, 3);
    const int32_t *node_of = c.coarse->node_of;
    CHECK(node_of[0] == node_of[1] && node_of[2] != node_of[3]);
    c.plan->device[node_of[2]] = c.plan->device[node_of[3]] = 1;
    CHECK_EQ_INT(step_of(c).step_ps, 52 * 1000000); /* the strands to 10, a's two bytes to 12, c to 32, d to 52 */
    close_coarser(c);
    small_close(s);
}

/* Where ops may be is where their strands may be; a strand that may be nowhere is refused. */
TEST(coarse, limits_of_devices) {
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 2, 5) OP(1, "b", "[0]", 3, 5) OP(2, "c", "[]", 4, 1), .outputs = "[1,2]", .device_count = 2});
    stw_coarse *coarse = NULL;
    stw_error error = {0};
    uint64_t allowed[] = {1, 3, 2};
    s->graph->allowed = allowed;
    CHECK_EQ_INT(stw_coarse_create(s->simulator, 2, &coarse, &error), STW_OK);
    if (CHECK(coarse != NULL)) {
        CHECK_EQ_INT((int)coarse->graph->allowed[coarse->node_of[1]], 1);
        CHECK_EQ_INT((int)coarse->graph->allowed[coarse->node_of[2]], 2);
    }
    stw_coarse_destroy(coarse);
    allowed[1] = 2;
    CHECK_EQ_INT(stw_coarse_create(s->simulator, 2, &coarse, &error), STW_ERROR_NO_PLAN);
    CHECK_CONTAINS(error.message, "on no device");
    s->graph->allowed = NULL;
    small_close(s);
}
