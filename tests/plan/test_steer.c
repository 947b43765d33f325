/* plan/steer: the list scheduler, on examples worked out by hand and against the simulator. A microsecond per byte. */
#include "plan/steer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "search/list.h"
#include "support/random.h"
#include "test.h"

typedef struct { /* a small problem, ready for steering */
    small *s;
    stw_arena arena;
    stw_list list;
    double *knob[3]; /* (T) aversion, unit glue, plan glue */
} bench;

static bench bench_of(small *s) {
    bench b = {.s = s};
    const stw_search search = {.simulator = s->simulator};
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&b.arena, &error), STW_OK);
    CHECK_EQ_INT(stw_list_prepare(&search, &b.arena, &b.list, &error), STW_OK);
    for (int k = 0; k < 3; k++) b.knob[k] = STW_NEW(&b.arena, double, s->simulator->unfused.T);
    return b;
}

static void bench_close(bench *b) {
    stw_arena_destroy(&b->arena);
    small_close(b->s);
}

static const double *constant(bench *b, int knob, double value) {
    for (int32_t t = 0; t < b->s->simulator->unfused.T; t++) b->knob[knob][t] = value;
    return b->knob[knob];
}

/* Steers into the problem's plan, gives it upward ranks and runs it. Returns the scheduler's own clock. */
static double steer(bench *b, stw_steer_input input) {
    double us = -1.0;
    stw_error error = {0};
    if (input.base == NULL) input.base = &b->list.base;
    CHECK_EQ_INT(stw_steer(&input, b->s->plan->device, &us, b->arena, &error), STW_OK);
    CHECK_EQ_INT(stw_rule_apply(STW_RULE_UPWARD_RANK, b->s->costs, &b->s->simulator->unfused, b->s->plan, b->arena, &error),
                 STW_OK);
    small_run(b->s);
    return us;
}

static void check_devices(const bench *b, const char *devices) {
    for (int32_t i = 0; devices[i] != '\0'; i++) {
        test_context("node %d", i);
        CHECK_EQ_INT(b->s->plan->device[i], devices[i] - '0');
    }
    test_context("%s", "");
}

/* ---- HEFT ---- */

#define FORK_JOIN OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 1, 3) OP(3, "d", "[1,2]", 1, 1)

TEST(steer, heft_by_hand) {
    /*  d0: a[0,2) b[2,5)            b: ends at 5 on d0, at 6 on d1.  c: at 8 or, with a there at 3, at 6.
     *  d1:        c[3,6) d[6,7)     d: c is on d0 at 7, b on d1 at 6: ends at 8 or 7. */
    bench b = bench_of(small_open((small_text){.nodes = FORK_JOIN, .device_count = 2}));
    const double us = steer(&b, (stw_steer_input){.insertion = true, .queues = true});
    check_devices(&b, "0011");
    CHECK_NEAR(us, 7.0, 1e-9);
    CHECK_STR(b.s->timeline, "d0: a[0,2) b[2,5)\nd1: c[3,6) d[6,7)\nd0>d1: a[2,3) b[5,6)\n");
    bench_close(&b);
}

#define CHARGED \
    LINK_WITH("d0", "d1", 1e6, 0, ",'send_us':1,'receive_us':2") LINK_WITH("d1", "d0", 1e6, 0, ",'send_us':1,'receive_us':2")

TEST(steer, charges_count_when_a_device_is_chosen) {
    /* What pays without charges does not with them: c would be on d1 from 4 on, and take 5. */
    bench b = bench_of(small_open((small_text){.nodes = FORK_JOIN, .device_count = 2, .links = CHARGED}));
    CHECK_NEAR(steer(&b, (stw_steer_input){.insertion = true, .queues = true}), 9.0, 1e-9);
    check_devices(&b, "0000");
    /* us     0 1 2 3 4 5 6 7 8 9 10 11      as the simulator has it: the sender pays at once
     * d0     a a A b b b B
     * d1     . . . . c c c C C d D  D       the scheduler's own clock has b at 2 and both payments behind it: the end is the same
     */
    const int32_t there[] = {0, 0, 1, 1};
    const stw_steer_input kept = {
        .insertion = true, .queues = true, .plan_glue = constant(&b, 2, STW_GLUE_FIXED), .glued = there};
    CHECK_NEAR(steer(&b, kept), 12.0, 1e-9);
    check_devices(&b, "0011");
    CHECK_STR(b.s->timeline, "d0: a[0,3) b[3,7)\nd1: c[4,9) d[9,12)\nd0>d1: a[3,4) b[7,8)\n");
    bench_close(&b);
}

/* Glue that would keep an op where another plan has it means nothing without such a plan. */
TEST(steer, glue_of_any_size_without_another_plan) {
    bench b = bench_of(small_open((small_text){.nodes = FORK_JOIN, .device_count = 2}));
    const stw_steer_input input = {.insertion = true, .queues = true, .plan_glue = constant(&b, 2, 10.0 * STW_GLUE_FIXED)};
    CHECK_NEAR(steer(&b, input), 7.0, 1e-9);
    check_devices(&b, "0011");
    bench_close(&b);
}

TEST(steer, without_a_base_it_makes_one) {
    bench b = bench_of(small_open((small_text){.nodes = FORK_JOIN, .device_count = 2}));
    double us = 0.0;
    stw_error error = {0};
    const stw_steer_input input = {.costs = b.s->costs,
                                   .tasks = &b.s->simulator->unfused,
                                   .atom = b.list.atom,
                                   .atom_count = b.list.atom_count,
                                   .rank = b.list.rank};
    CHECK_EQ_INT(stw_steer(&input, b.s->plan->device, &us, b.arena, &error), STW_OK);
    check_devices(&b, "0011");
    CHECK_NEAR(us, 7.0, 1e-9);
    bench_close(&b);
}

TEST(steer, insertion_fills_gaps) {
    /* q must wait on d1 for p until 10; r (the least rank) fits before it. */
    bench b = bench_of(small_open(
        (small_text){.nodes = OP(0, "p", "[]", 5, 5) OP(1, "q", "[0]", 0, 2) OP(2, "r", "[]", 0, 1), .device_count = 2}));
    const int32_t other[] = {0, 1, 1};
    const double *glue = constant(&b, 2, 1e9);
    CHECK_NEAR(steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other}), 13.0, 1e-9); /* q[10,12) r[12,13) */
    CHECK_NEAR(steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other, .insertion = true}), 12.0, 1e-9);
    CHECK_STR(b.s->timeline, "d0: p[0,5)\nd1: r[0,1) q[10,12)\nd0>d1: p[5,10)\n");
    /* Free to choose, r takes d1's gap (ends at 1) or comes after p (ends at 6). */
    b.knob[2][2] = 0.0;
    steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other, .insertion = true});
    check_devices(&b, "011");
    steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other});
    check_devices(&b, "010");
    bench_close(&b);
}

TEST(steer, queues_matter) {
    /* Both a and b go to d1, 10 us each: at 11 and 12, or 11 and 21 if the second waits for the first. */
    bench b = bench_of(small_open(
        (small_text){.nodes = OP(0, "a", "[]", 10, 1) OP(1, "b", "[]", 10, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[1]", 0, 1),
                     .device_count = 2}));
    const int32_t other[] = {0, 0, 1, 1};
    const double *glue = constant(&b, 2, 1e9);
    CHECK_NEAR(steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other}), 13.0, 1e-9);
    CHECK_NEAR(steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other, .queues = true}), 22.0, 1e-9);
    CHECK_NEAR(b.s->result.step_s, 22e-6, 1e-15);
    /* y: 3 on d0 plus its glue of 15, against 13 or 22 on d1. */
    b.knob[2][3] = 15.0;
    steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other});
    check_devices(&b, "0011");
    steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other, .queues = true});
    check_devices(&b, "0010");
    bench_close(&b);
}

TEST(steer, transfers_may_use_gaps_of_their_channel) {
    /* slow's output takes the bus from 20 to 24 and is decided first; a's could be sent from 2 to 6. */
    bench b = bench_of(small_open(
        (small_text){.nodes = OP(0, "slow", "[]", 4, 20) OP(1, "x", "[0]", 0, 9) OP(2, "a", "[]", 4, 2) OP(3, "y", "[2]", 0, 1),
                     .device_count = 3,
                     .links = LINK_WITH("d0", "d1", 1e6, 0, ",'bus':'b'") LINK_WITH("d2", "d1", 1e6, 0, ",'bus':'b'")}));
    const int32_t other[] = {2, 1, 0, 1};
    stw_steer_input input = {.plan_glue = constant(&b, 2, 1e9), .glued = other, .queues = true, .insertion = true};
    CHECK_NEAR(steer(&b, input), 34.0, 1e-9); /* a is sent from 24 to 28, y[33,34) */
    input.channel_gaps = true;
    CHECK_NEAR(steer(&b, input), 33.0, 1e-9);
    CHECK_STR(b.s->timeline, "d0: a[0,2)\nd1: y[6,7) x[24,33)\nd2: slow[0,20)\nd0>d1: a[2,6)\nd2>d1: slow[20,24)\n");
    bench_close(&b);
}

TEST(steer, unlike_devices_by_end_not_by_start) {
    /* b can start at once on the CPU (d1), but ends first on the H200 after a. */
    bench b = bench_of(small_open((small_text){.nodes = NODE(0, "a", "relu", "[]", 0, ",'us':{'h200':3,'cpu8':30}")
                                                   NODE(1, "b", "relu", "[]", 0, ",'us':{'h200':2,'cpu8':6}")
                                                       NODE(2, "c", "relu", "[]", 0, ",'us':{'h200':2,'cpu8':2}"),
                                               .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "cpu8", 99),
                                               .device_count = 2}));
    CHECK_NEAR(steer(&b, (stw_steer_input){.insertion = true}), 5.0, 1e-9);
    check_devices(&b, "001");
    bench_close(&b);
}

/* ---- knobs ---- */

TEST(steer, aversion_without_end_is_one_device) {
    const stw_rng seeds = stw_rng_create(71);
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        char nodes[8000] = "";
        for (int i = 0; i < 60; i++) { /* a tree */
            char *end = nodes + strlen(nodes);
            const int from = i == 0 ? -1 : (int)stw_rng_below(&rng, i);
            const int bytes = 1 + (int)stw_rng_below(&rng, 9), us = 1 + (int)stw_rng_below(&rng, 9);
            sprintf(end, "{'id':%d,'name':'n%d','op':'relu','inputs':[", i, i);
            if (from >= 0) sprintf(end + strlen(end), "%d", from);
            sprintf(end + strlen(end), "],'dtype':'u8','shape':[%d],'us':{'h200':%d}},", bytes, us);
        }
        bench b = bench_of(small_open((small_text){.nodes = nodes, .device_count = 1 + number % 5}));
        steer(&b, (stw_steer_input){.aversion = constant(&b, 0, 1e9), .insertion = true, .queues = number % 2 == 0});
        CHECK_EQ_INT(b.s->result.transfer_count, 0);
        steer(&b, (stw_steer_input){.aversion = constant(&b, 0, 0.0), .insertion = true});
        if (b.s->machine->device_count > 1) CHECK(b.s->result.transfer_count > 0);
        bench_close(&b);
    }
}

TEST(steer, plan_glue_without_end_is_the_other_plan) {
    const stw_rng seeds = stw_rng_create(72);
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(
            &rng, (random_shape){.nodes = 60, .device_count = 1 + number % 6, .unlike = number % 3 == 0, .buses = true});
        bench b = bench_of(s);
        int32_t *other = STW_NEW(&b.arena, int32_t, s->graph->N);
        random_placement(&rng, s->simulator, s->plan);
        memcpy(other, s->plan->device, (size_t)s->graph->N * sizeof *other);
        steer(&b, (stw_steer_input){.plan_glue = constant(&b, 2, 1e12),
                                    .aversion = constant(&b, 0, 1.0),
                                    .glued = other,
                                    .home = STW_HOME_GLUED,
                                    .outlook = number % 2 == 0,
                                    .insertion = true,
                                    .queues = true});
        test_context("problem %d", number);
        for (int32_t i = 0; i < s->graph->N; i++) {
            if (!stw_node_is_everywhere(s->graph->kind[s->graph->root[i]])) CHECK_EQ_INT(s->plan->device[i], other[i]);
        }
        bench_close(&b);
    }
    test_context("%s", "");
}

TEST(steer, unit_glue_keeps_a_unit_together) {
    bench b = bench_of(small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 5) OP(1, "b", "[]", 1, 4) OP(2, "c", "[]", 1, 3) OP(3, "d", "[]", 1, 2),
                     .device_count = 2}));
    const int32_t unit[] = {0, 1, 0, 1}; /* without glue: a, b, c with b's device (ends at 7, not 8), d on a's */
    steer(&b, (stw_steer_input){.insertion = true});
    check_devices(&b, "0110");
    steer(&b, (stw_steer_input){.insertion = true, .unit_glue = constant(&b, 1, 100.0), .unit = unit, .unit_count = 2});
    check_devices(&b, "0101");
    bench_close(&b);
}

TEST(steer, outlook_minds_the_readers) {
    /* By rank: in, busy, big, out. While d0 is busy, big ends at 165 there; on d1 at 61, and 1 byte has to be sent for it. But
     * its 100 bytes are read on d0. */
    bench b = bench_of(small_open((small_text){
        .nodes = OP(0, "in", "[]", 1, 10) OP(1, "busy", "[]", 0, 105) OP(2, "big", "[0]", 100, 50) OP(3, "out", "[2]", 0, 1),
        .device_count = 2}));
    const int32_t other[] = {0, 0, 0, 0};
    stw_steer_input input = {.aversion = constant(&b, 0, 10.0), .plan_glue = constant(&b, 2, 1e6), .glued = other};
    b.knob[2][2] = 1.0;
    steer(&b, input);
    check_devices(&b, "0010");
    input.outlook = true;
    steer(&b, input);
    check_devices(&b, "0000");
    bench_close(&b);
}

/* ---- values ---- */

TEST(steer, views_are_charged_their_own_bytes) {
    bench b = bench_of(small_open((small_text){
        .nodes = OP(0, "a", "[]", 10, 1) VIEW(1, "v", 0, 2) VIEW(2, "w", 0, 3) OP(3, "x", "[1]", 0, 1) OP(4, "y", "[2]", 0, 1),
        .device_count = 2}));
    const int32_t other[] = {0, 0, 0, 1, 0};
    const double *glue = constant(&b, 2, 1e9);
    CHECK_NEAR(steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other}), 4.0, 1e-9); /* x: 1 + 2, then 1 */
    CHECK_NEAR(b.s->result.step_s, 4e-6, 1e-15);
    bench_close(&b);
}

TEST(steer, homes_of_parameters) {
    /* x (1 us) on d0 reads p first, y (5 us) on d1 takes longest, its update u is on d2. */
    const int32_t other[] = {3, 0, 1, 2};
    static const struct {
        stw_home home;
        int32_t device;
    } expected[] = {{STW_HOME_FIRST, 0}, {STW_HOME_LARGEST, 1}, {STW_HOME_UPDATE, 2}, {STW_HOME_GLUED, 3}};
    for (int k = 0; k < 4; k++) {
        bench b = bench_of(small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 2) OP(1, "x", "[0]", 1, 1)
                                                       OP(2, "y", "[0,1]", 1, 5) OP_WITH(3, "u", "[0,2]", 2, 1, ",'updates':0"),
                                                   .device_count = 4}));
        test_context("home %d", k);
        steer(&b, (stw_steer_input){.plan_glue = constant(&b, 2, 1e9), .glued = other, .home = expected[k].home});
        CHECK_EQ_INT(b.s->plan->device[0], expected[k].device);
        CHECK_EQ_INT(b.s->plan->device[3], expected[k].device); /* the update goes with it */
        CHECK_EQ_INT(b.s->result.reason, STW_VALID);
        bench_close(&b);
    }
    test_context("%s", "");
}

TEST(steer, memory_is_respected_where_it_can_be) {
    /* Four ops with a parameter of 40 bytes each; 100 bytes a device hold two. Aversion wants all on one. */
    const char *const nodes = SOURCE(0, "p", "parameter", 40) SOURCE(1, "q", "parameter", 40) SOURCE(2, "r", "parameter", 40)
        SOURCE(3, "s", "parameter", 40) OP(4, "a", "[0]", 1, 1) OP(5, "b", "[4,1]", 1, 1) OP(6, "c", "[5,2]", 1, 1)
            OP(7, "d", "[6,3]", 1, 1);
    bench b = bench_of(small_open(
        (small_text){.nodes = nodes, .devices = DEVICE("d0", "h200", 100) DEVICE("d1", "h200", 100), .device_count = 2}));
    steer(&b, (stw_steer_input){.aversion = constant(&b, 0, 1e6)});
    CHECK_EQ_INT(b.s->result.reason, STW_INVALID_MEMORY);
    steer(&b, (stw_steer_input){.aversion = constant(&b, 0, 1e6), .memory = true});
    CHECK_EQ_INT(b.s->result.reason, STW_VALID);
    check_devices(&b, "00110011");
    bench_close(&b);
}

TEST(steer, devices_that_cannot_talk_are_avoided) {
    /* d0 and d1 have no link, both talk to d2. a is on d0 by glue, b on d1: only d2 hears both. */
    bench b =
        bench_of(small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[]", 1, 1) OP(2, "c", "[0,1]", 1, 1),
                                         .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "h200", 99) DEVICE("d2", "h200", 99),
                                         .device_count = 3,
                                         .links = LINK("d0", "d2") LINK("d2", "d0") LINK("d1", "d2") LINK("d2", "d1")}));
    const int32_t other[] = {0, 1, 0};
    const double *glue = constant(&b, 2, 1e9);
    CHECK_NEAR(steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other, .queues = true}), 3.0, 1e-9);
    check_devices(&b, "012");
    CHECK_EQ_INT(b.s->result.reason, STW_VALID);
    steer(&b, (stw_steer_input){.plan_glue = glue, .glued = other, .allowed = 1}); /* d0 alone */
    check_devices(&b, "000");
    bench_close(&b);
}

/* ---- against the simulator ---- */

/* With its own order made strict, without gaps and queues, the scheduler's clock is the simulator's. */
TEST(steer, clock_is_exact_in_its_own_order) {
    const stw_rng seeds = stw_rng_create(73);
    for (int number = 0; number < 150; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 5 + number % 60,
                                                    .device_count = 1 + number % 5,
                                                    .plain = true,
                                                    .unlike = number % 2 == 0,
                                                    .wide = number % 3 == 0,
                                                    .contention = "none"});
        bench b = bench_of(s);
        const double *aversion = constant(&b, 0, stw_rng_uniform(&rng));
        const double us = steer(&b, (stw_steer_input){.aversion = aversion});
        for (int32_t d = 0; d < s->machine->device_count; d++) {
            int32_t own[400], count = 0;
            for (int32_t k = 0; k < s->simulator->unfused.T; k++) {
                const int32_t node = s->simulator->unfused.task_node[b.list.base.order[k]];
                if (s->plan->device[node] == d) own[count++] = node;
            }
            CHECK_EQ_INT(stw_plan_set_order(s->plan, d, own, count, NULL), STW_OK);
        }
        small_run(s);
        test_context("problem %d", number);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        CHECK_NEAR(us, 1e6 * s->result.step_s, 1e-6);
        bench_close(&b);
    }
    test_context("%s", "");
}

/* Whatever the ranks, nothing is decided before what it needs. */
TEST(steer, any_ranks_give_a_possible_order) {
    const stw_rng seeds = stw_rng_create(74);
    for (int number = 0; number < 50; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 80, .device_count = 3, .buses = true});
        bench b = bench_of(s);
        const stw_tasks *tasks = &s->simulator->unfused;
        stw_board_base base;
        for (int32_t t = 0; t < tasks->T; t++) b.list.rank[t] = stw_rng_uniform(&rng);
        CHECK_EQ_INT(stw_board_prepare(s->costs, tasks, b.list.atom, b.list.atom_count, b.list.rank, &b.arena, &base, NULL),
                     STW_OK);
        int32_t *place = STW_NEW(&b.arena, int32_t, tasks->T);
        for (int32_t k = 0; k < tasks->T; k++) place[base.order[k]] = k + 1;
        test_context("problem %d", number);
        for (int32_t t = 0; t < tasks->T; t++) {
            CHECK(place[t] > 0);
            for (int32_t r = base.read_start[t]; r < base.read_start[t + 1]; r++) {
                const int32_t from = tasks->value_task[base.read[r].value];
                if (from >= 0) CHECK(place[from] < place[t]);
            }
            for (int32_t w = base.wait_start[t]; w < base.wait_start[t + 1]; w++) CHECK(place[base.wait[w]] < place[t]);
        }
        const double us = steer(&b, (stw_steer_input){.base = &base, .insertion = true, .queues = true, .channel_gaps = true});
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        CHECK(us >= 0.0 && isfinite(us));
        bench_close(&b);
    }
    test_context("%s", "");
}

TEST(steer, nothing_to_do) {
    bench b =
        bench_of(small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 4) SOURCE(1, "i", "input", 4), .device_count = 2}));
    CHECK_NEAR(steer(&b, (stw_steer_input){.memory = true, .queues = true, .insertion = true}), 0.0, 0.0);
    check_devices(&b, "00");
    bench_close(&b);
}
