/* sim: priorities from a step that is run backwards. */
#include "sim/backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/rules.h"
#include "support/random.h"
#include "test.h"

/* From the last run, whose starts say what runs first backwards. */
static void apply(small *s) {
    const int32_t T = s->simulator->unfused.T;
    stw_arena arena;
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    int64_t *start_ps = STW_NEW(&arena, int64_t, (int64_t)T + 1);
    if (s->workspace->timeline.start_ps != NULL) {
        memcpy(start_ps, s->workspace->timeline.start_ps, (size_t)T * sizeof *start_ps);
    }
    CHECK_EQ_INT(stw_backward_priorities(s->simulator, s->plan, start_ps, arena, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_arena_destroy(&arena);
}

static double priority_of(const small *s, const char *name) { return s->plan->priority[small_node(s, name)]; }

/* ---- by hand ---- */

TEST(backward, a_chain_has_what_remains) {
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "p", "parameter", 2) OP(1, "a", "[0]", 3, 2) OP(2, "b", "[1]", 5, 4) OP(3, "c", "[2]", 1, 1),
        .device_count = 2,
        .device = "[0,0,1,1]"});
    apply(s);
    CHECK_NEAR(priority_of(s, "c"), 1.0, 1e-12);
    CHECK_NEAR(priority_of(s, "b"), 5.0, 1e-12);
    CHECK_NEAR(priority_of(s, "a"), 10.0, 1e-12); /* 3 bytes are sent */
    CHECK_NEAR(priority_of(s, "p"), 10.0, 1e-12);
    small_close(s);
}

TEST(backward, charges_lengthen_both_ends) {
    const char *charged = LINK_WITH("d0", "d1", 1e6, 0, ",'send_us':1,'receive_us':2");
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 3, 2) OP(1, "b", "[0]", 5, 4) OP(2, "c", "[1]", 1, 1),
                                       .device_count = 2,
                                       .links = charged,
                                       .device = "[0,1,1]"});
    apply(s);
    CHECK_NEAR(priority_of(s, "c"), 1.0, 1e-12);
    CHECK_NEAR(priority_of(s, "b"), 7.0, 1e-12);
    CHECK_NEAR(priority_of(s, "a"), 13.0, 1e-12); /* 3 bytes are sent */
    small_close(s);
}

TEST(backward, what_began_last_runs_first) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[]", 1, 3), .priority = "[1,2]"});
    CHECK_STR(s->timeline, "d0: b[0,3) a[3,5)\n");
    apply(s);
    CHECK_NEAR(priority_of(s, "a"), 2.0, 1e-12);
    CHECK_NEAR(priority_of(s, "b"), 5.0, 1e-12);
    small_close(s);
}

TEST(backward, what_is_sent_is_what_is_read_there) {
    /* The two views of a that are read on d1 are 1 and 2 of its 9 bytes, and one copy. */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 9, 1) VIEW(1, "v", 0, 1) VIEW(2, "w", 0, 2)
                                           OP(3, "b", "[1]", 1, 1) OP(4, "c", "[2]", 1, 1) OP(5, "e", "[1]", 1, 1),
                                       .device_count = 2,
                                       .device = "[0,0,0,1,1,1]"});
    apply(s);
    CHECK_NEAR(priority_of(s, "a"), 3.0 + 3.0 + 1.0, 1e-12); /* three ops, three bytes, itself */
    small_close(s);
}

TEST(backward, a_wait_counts) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 2) OP(1, "r", "[0]", 1, 4)
                                           OP_WITH(2, "u", "[]", 2, 3, ",'updates':0")});
    apply(s);
    CHECK_NEAR(priority_of(s, "u"), 3.0, 1e-12);
    CHECK_NEAR(priority_of(s, "r"), 7.0, 1e-12);
    small_close(s);
}

/* x has three readers of 2 us that share d1; y has one of 3 us on d2. The upward rank sees 1 + 2 and 1 + 3 and runs y first:
 *     d0: y[0,1) x[1,2)    d1: x1[2,4) x2[4,6) x3[6,8)
 * Backwards, x ends at 7 and y at 4: x first, and the step takes 7. */
TEST(backward, sees_the_queue_on_another_device) {
    small *s = small_open((small_text){.nodes = OP(0, "x", "[]", 0, 1) OP(1, "y", "[]", 0, 1) OP(2, "x1", "[0]", 0, 2)
                                           OP(3, "x2", "[0]", 0, 2) OP(4, "x3", "[0]", 0, 2) OP(5, "y1", "[1]", 0, 3),
                                       .device_count = 3,
                                       .device = "[0,0,1,1,1,2]"});
    CHECK_EQ_INT(stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->simulator->unfused, s->plan, s->simulator->arena, NULL),
                 STW_OK);
    small_run(s);
    CHECK_NEAR(s->result.step_s, 8e-6, 1e-15);
    apply(s);
    CHECK_NEAR(priority_of(s, "x"), 7.0, 1e-12);
    CHECK_NEAR(priority_of(s, "y"), 4.0, 1e-12);
    small_run(s);
    CHECK_NEAR(s->result.step_s, 7e-6, 1e-15);
    small_close(s);
}

/* The same with the queue on the channel: x's three values of 2 bytes go to three readers without time. */
TEST(backward, sees_the_queue_on_a_channel) {
    const small_text text = {.nodes =
                                 OP(0, "x", "[]", 0, 1) OP(1, "y", "[]", 3, 1) OP(2, "x1", "[0]", 2, 0) OP(3, "x2", "[0]", 2, 0)
                                     OP(4, "x3", "[0]", 2, 0) OP(5, "end", "[2,3,4]", 0, 0) OP(6, "y1", "[1]", 0, 0),
                             .device_count = 3,
                             .device = "[0,0,0,0,0,1,2]"};
    small *s = small_open(text);
    CHECK_EQ_INT(stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->simulator->unfused, s->plan, s->simulator->arena, NULL),
                 STW_OK);
    small_run(s);
    CHECK_NEAR(s->result.step_s, 8e-6, 1e-15); /* y[0,1) x[1,2), then 6 bytes */
    apply(s);
    small_run(s);
    CHECK_NEAR(s->result.step_s, 7e-6, 1e-15);
    small_close(s);
}

TEST(backward, times_without_end) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 5e11) OP(1, "b", "[0]", 1, 5e11) OP(2, "c", "[1]", 1, 5e11),
                                       .device_count = 2,
                                       .links = LINK_WITH("d0", "d1", 1e-7, 0, "") LINK_WITH("d1", "d0", 1e-7, 0, ""),
                                       .device = "[0,1,0]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_OVERFLOW);
    apply(s); /* two transfers of 1e19 ps would not fit into 63 bits */
    CHECK(isfinite(priority_of(s, "a")) && priority_of(s, "a") >= priority_of(s, "b"));
    CHECK(priority_of(s, "b") >= priority_of(s, "c") && priority_of(s, "b") > 3e12);
    small_close(s);
}

TEST(backward, no_ops) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 2)});
    apply(s);
    CHECK(isfinite(priority_of(s, "p")));
    small_close(s);
}

/* ---- on random problems ---- */

static small *open_problem(stw_rng *rng, int number, int32_t devices) {
    small *s = random_open(rng, (random_shape){.nodes = (int32_t)stw_rng_below(rng, 60),
                                               .device_count = devices,
                                               .plain = number % 7 == 0,
                                               .unlike = number % 2 == 1,
                                               .buses = number % 3 == 0,
                                               .free_links = number % 11 == 0,
                                               .model = number % 4 == 0,
                                               .contention = number % 6 == 5 ? "none" : "queue"});
    random_placement(rng, s->simulator, s->plan);
    random_priorities(rng, s->plan);
    small_run(s);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    return s;
}

static double us_of(const small *s, int32_t op) {
    return (double)stw_cost_us_to_ps(stw_costs_op_us(s->costs, op, s->plan->device[op])) / 1e6;
}

/* Backwards, an op occupies its device from priority - time to priority: after all that needs it, and alone. */
static void check_priorities(const small *s) {
    const stw_graph *graph = s->graph;
    const double *priority = s->plan->priority;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        const double start = priority[op] - us_of(s, op);
        if (!CHECK(isfinite(priority[op])) || !CHECK(start >= -1e-6)) return;
        for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
            CHECK(start >= priority[graph->reader[r].node] - 1e-6);
        }
        for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
            const int32_t before = graph->wait[w];
            CHECK(priority[before] - us_of(s, before) >= priority[op] - 1e-6);
        }
        for (int32_t j = 0; j < k; j++) {
            const int32_t other = graph->topological[j];
            if (s->plan->device[op] != s->plan->device[other]) continue;
            CHECK(start >= priority[other] - 1e-6 || priority[other] - us_of(s, other) >= priority[op] - 1e-6);
        }
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_node_is_resident(graph->kind[i])) CHECK(isfinite(priority[i]));
        if (!stw_node_is_resident(graph->kind[i]) || graph->reader_start[i] == graph->reader_start[i + 1]) continue;
        double most = -INFINITY;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            most = fmax(most, priority[graph->reader[r].node]);
        }
        CHECK_NEAR(priority[i], most, 0.0);
    }
}

TEST(backward, promises_on_random_problems) {
    const stw_rng seeds = stw_rng_create(521);
    for (int number = 0; number < 200; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 1 + number % 5);
        const size_t size = (size_t)s->graph->N * sizeof *s->plan->priority;
        double *first = malloc(size + 1), *given = malloc(size + 1);
        test_context("problem %d", number);
        memcpy(given, s->plan->priority, size);
        apply(s);
        check_priorities(s);
        memcpy(first, s->plan->priority, size);
        memcpy(s->plan->priority, given, size);
        apply(s); /* the same run again gives the same */
        CHECK(memcmp(first, s->plan->priority, size) == 0);
        free(first);
        free(given);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(backward, on_one_device_the_step_stays) {
    const stw_rng seeds = stw_rng_create(522);
    for (int number = 0; number < 50; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 1);
        const int64_t step_ps = s->result.step_ps;
        test_context("problem %d", number);
        apply(s);
        small_run(s);
        CHECK_EQ_INT(s->result.step_ps, step_ps);
        double most = 0.0;
        for (int32_t k = 0; k < s->graph->op_count; k++) most = fmax(most, s->plan->priority[s->graph->topological[k]]);
        CHECK_NEAR(most, (double)step_ps / 1e6, 1e-6); /* what must follow the first op is all */
        small_close(s);
    }
    test_context("%s", "");
}
