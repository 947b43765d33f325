/* sim/slice: a part of a problem as one of its own. All of it is the problem itself; a part takes no longer than the whole; parts
 * that are alike are told from those that are not. */
#include "sim/slice.h"

#include <string.h>

#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

/* The step of the nodes [from, to) with what a plan of the whole says of them, in picoseconds. */
static int64_t step_of(const small *s, int32_t from, int32_t to) {
    stw_slice slice;
    stw_workspace *workspace = NULL;
    stw_plan *plan = NULL;
    stw_evaluation evaluation = {0};
    CHECK_EQ_INT(stw_slice_open(s->simulator, from, to, &slice, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(slice.simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(slice.graph, s->machine, &plan, NULL), STW_OK);
    memcpy(plan->device, s->plan->device + from, (size_t)(to - from) * sizeof *plan->device);
    memcpy(plan->priority, s->plan->priority + from, (size_t)(to - from) * sizeof *plan->priority);
    stw_plan_join(slice.simulator, plan);
    CHECK_EQ_INT(stw_simulate(slice.simulator, plan, workspace, &evaluation, NULL), STW_OK);
    CHECK(evaluation.reason == STW_VALID || evaluation.reason == STW_INVALID_MEMORY);
    stw_plan_destroy(plan);
    stw_workspace_destroy(workspace);
    stw_slice_close(&slice);
    return evaluation.step_ps;
}

static uint64_t hash_of(const small *s, int32_t from, int32_t to) {
    stw_slice slice;
    CHECK_EQ_INT(stw_slice_open(s->simulator, from, to, &slice, NULL), STW_OK);
    const uint64_t hash = stw_slice_hash(&slice);
    stw_slice_close(&slice);
    return hash;
}

TEST(slice, all_of_it_is_the_problem) {
    stw_rng rng = stw_rng_create(11);
    for (int k = 0; k < 100; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 80),
                                                    .device_count = 1 + (int32_t)stw_rng_below(&rng, 3),
                                                    .unlike = stw_rng_below(&rng, 2) == 1});
        test_context("problem %d", k);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        CHECK_EQ_INT(step_of(s, 0, s->graph->N), s->result.step_ps);
        small_close(s);
    }
    test_context("%s", "");
}

/* On one device a step is the sum of its ops: parts add up to the whole, wherever they are cut. */
TEST(slice, parts_add_up) {
    stw_rng rng = stw_rng_create(12);
    for (int k = 0; k < 100; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(&rng, 80), .device_count = 1});
        const int32_t N = s->graph->N, at = (int32_t)stw_rng_below(&rng, (int64_t)N + 1);
        test_context("problem %d, cut at %d of %d", k, at, N);
        CHECK_EQ_INT(step_of(s, 0, at) + step_of(s, at, N), s->result.step_ps);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(slice, parts_that_are_alike) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 6) OP(2, "c", "[]", 4, 5)
                                           OP_WITH(3, "d", "[2]", 4, 6, ",'control':[1]") OP(4, "e", "[]", 4, 5)
                                               OP(5, "f", "[4]", 4, 7) OP(6, "g", "[]", 4, 5) OP(7, "h", "[]", 4, 6),
                                       .outputs = "[7]"});
    CHECK(hash_of(s, 0, 2) == hash_of(s, 2, 4)); /* what it waits for is outside */
    CHECK(hash_of(s, 0, 2) != hash_of(s, 4, 6)); /* another time */
    CHECK(hash_of(s, 0, 2) != hash_of(s, 6, 8)); /* another edge */
    CHECK(hash_of(s, 0, 2) != hash_of(s, 0, 3));
    small_close(s);
}
