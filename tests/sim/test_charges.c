/* sim/charges: small steps computed by hand, drawn like those of test_simulate.c: a column per microsecond, capitals where a task
 * pays charges. A link takes a microsecond per byte; it charges 1 us to send and 2 us to receive unless the case says otherwise.
 */
#include <math.h>

#include "sim/charges.h"
#include "support/drawn.h"

#define CHARGED(from, to) LINK_WITH(from, to, 1e6, 0, ",'send_us':1,'receive_us':2")
#define BOTH_WAYS         CHARGED("d0", "d1") CHARGED("d1", "d0")

static void check_charged(const small *s, double first_us, double second_us) {
    CHECK_EQ_INT(s->workspace->timeline.charged_ps[0], llround(first_us * 1e6));
    CHECK_EQ_INT(s->workspace->timeline.charged_ps[1], llround(second_us * 1e6));
}

TEST(charges, both_ends_pay_in_one_piece) {
    /* us     0 1 2 3 4 5 6 7 8 9 10
     * d0     a a A b b b                   b, which reads a where it was made, has it at 3 only
     * d0>d1  . . . a a a a
     * d1     . . . . . . . c c C C */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 2, 2),
                                       .device_count = 2,
                                       .links = BOTH_WAYS,
                                       .device = "[0,0,1]"});
    check_step(s, 11, "d0: a[0,3) b[3,6)\nd1: c[7,11)\nd0>d1: a[3,7)\n");
    check_charged(s, 1, 2);
    CHECK_EQ_INT(s->result.busy_ps[0], 6000000);
    CHECK_EQ_INT(s->result.busy_ps[1], 4000000);
    CHECK_EQ_INT(s->workspace->timeline.charge_ps[0], 1000000);
    CHECK_EQ_INT(s->workspace->timeline.charge_ps[1], 0);
    CHECK_EQ_INT(small_held(s, 0, 2.5), 4); /* a's output is there from its start, and until the transfer ends */
    CHECK_EQ_INT(small_held(s, 1, 10.5), 6);
    int64_t load[STW_MAX_DEVICES];
    stw_workspace_loads_ps(s->workspace, load);
    CHECK_EQ_INT(load[0], 10000000); /* busy for 6, and a transfer of 4 */
    CHECK_EQ_INT(load[1], 8000000);
    small_close(s);
}

TEST(charges, the_smallest_reader_receives_whoever_reads_first) {
    /* us     0 1 2 3 4 5 6 7
     * d0     a A
     * d0>d1  . . a
     * d1     . . . y x X X        y outranks x, yet x has the smaller id */
    small_text text = {.nodes = OP(0, "a", "[]", 1, 1) OP(1, "x", "[0]", 0, 1) OP(2, "y", "[0]", 0, 1),
                       .device_count = 2,
                       .links = BOTH_WAYS,
                       .device = "[0,1,1]",
                       .priority = "[0,0,1]"};
    check_drawn(text, 7, "d0: a[0,2)\nd1: y[3,4) x[4,7)\nd0>d1: a[2,3)\n");
    text.priority = NULL;
    text.order = "[null,[2,1]]";
    check_drawn(text, 7, "d0: a[0,2)\nd1: y[3,4) x[4,7)\nd0>d1: a[2,3)\n");
}

TEST(charges, a_view_is_read_through_to_its_root) {
    /* us     0 1 2 3 4 5 6 7 8 9
     * d0     a A
     * d0>d1  . . a a a            two views of 1 and 2 bytes, one transfer
     * d1     . . . . . x X X y */
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 4, 1) VIEW(1, "v", 0, 1) VIEW(2, "w", 0, 2) OP(3, "x", "[2]", 0, 1) OP(4, "y", "[1]", 0, 1),
        .device_count = 2,
        .links = BOTH_WAYS,
        .device = "[0,0,0,1,1]"});
    check_step(s, 9, "d0: a[0,2)\nd1: x[5,8) y[8,9)\nd0>d1: a[2,5)\n");
    check_charged(s, 1, 2);
    small_close(s);
}

TEST(charges, a_task_pays_for_every_transfer) {
    /* us     0 1 2 3 4 5 6 7 8 9
     * d0     a A A                 to d1 and to d2
     * d1     . . . . b B B
     * d2     . . . . c C C C       c also sends its output, which has no bytes, to d0
     * d0     . . . . . . . . d D D */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 0, 1) OP(2, "c", "[0]", 0, 1) OP(3, "d", "[2]", 0, 1),
                     .device_count = 3,
                     .links = CHARGED("d0", "d1") CHARGED("d0", "d2") CHARGED("d2", "d0"),
                     .device = "[0,1,2,0]"});
    check_step(s, 11, "d0: a[0,3) d[8,11)\nd1: b[4,7)\nd2: c[4,8)\nd0>d1: a[3,4)\nd0>d2: a[3,4)\nd2>d0: c[8,8)\n");
    CHECK_EQ_INT(s->workspace->timeline.charged_ps[0], 4000000);
    CHECK_EQ_INT(s->workspace->timeline.charged_ps[2], 3000000);
    small_close(s);
}

TEST(charges, nothing_to_do_and_nothing_to_send_pay_in_full) {
    /* us     0 1 2
     * d0     A             takes no time, and its value no bytes
     * d1     . C C */
    check_drawn(
        (small_text){
            .nodes = OP(0, "a", "[]", 0, 0) OP(1, "c", "[0]", 0, 0), .device_count = 2, .links = BOTH_WAYS, .device = "[0,1]"},
        3, "d0: a[0,1)\nd1: c[1,3)\nd0>d1: a[1,1)\n");
}

TEST(charges, sources_charge_the_receiver_only_and_waits_nobody) {
    /* us     0 1 2 3 4 5 6
     * d0     k                  k has the parameter p by it, and sends nothing: r only waits for it
     * d0>d1  p p p
     * d1     i . . r R R        the input x is on both devices */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 3) SOURCE(1, "x", "input", 5) OP(2, "k", "[0]", 0, 1)
                                           OP(3, "i", "[1]", 0, 1) OP_WITH(4, "r", "[0]", 0, 1, ",'control':[2]"),
                                       .device_count = 2,
                                       .links = BOTH_WAYS,
                                       .device = "[0,0,0,1,1]"});
    check_step(s, 6, "d0: k[0,1)\nd1: i[0,1) r[3,6)\nd0>d1: p[0,3)\n");
    check_charged(s, 0, 2);
    small_close(s);
}

TEST(charges, an_update_pays_like_others) {
    /* us     0 1 2 3 4 5 6
     * d1     g G
     * d1>d0  . . g
     * d0     . . . u U U        u writes the parameter p in place */
    check_drawn((small_text){.nodes = SOURCE(0, "p", "parameter", 3) OP(1, "g", "[]", 1, 1)
                                 OP_WITH(2, "u", "[0,1]", 3, 1, ",'updates':0"),
                             .device_count = 2,
                             .links = BOTH_WAYS,
                             .device = "[0,1,0]"},
                6, "d0: u[3,6)\nd1: g[0,2)\nd1>d0: g[2,3)\n");
}

TEST(charges, a_group_is_one_task_and_pays_for_what_leaves_it) {
    /* a and b are one kernel on d0; a is read within it alone, b on d1, by c and by d, which are a kernel too. */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 8, 1) OP(1, "b", "[0]", 1, 1) OP(2, "c", "[1]", 1, 1) OP(3, "d", "[1,2]", 1, 1),
                     .device_count = 2,
                     .links = BOTH_WAYS,
                     .device = "[0,0,1,1]",
                     .group = "[0,0,2,2]"});
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->result.transfer_count, 1);
    const stw_timeline *timeline = &s->workspace->timeline;
    CHECK_EQ_INT(timeline->tasks->T, 2);
    CHECK_EQ_INT(timeline->charge_ps[0], 1000000);
    CHECK_EQ_INT(timeline->charge_ps[1], 2000000);
    for (int t = 0; t < 2; t++) { /* its own time, and the charge */
        CHECK_EQ_INT(timeline->end_ps[t] - timeline->start_ps[t], timeline->tasks->duration_ps[0][t] + timeline->charge_ps[t]);
    }
    small_close(s);
}

TEST(charges, who_recomputes_an_op_reads_its_inputs) {
    /* b is recomputed within c and within d on d1: both read a, which is on d0, and c has the smaller id. */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1) OP(2, "c", "[1]", 1, 1) OP(3, "d", "[1]", 1, 1),
                     .device_count = 2,
                     .links = BOTH_WAYS,
                     .device = "[0,1,1,1]",
                     .group = "[0,-1,2,3]"});
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    const stw_timeline *timeline = &s->workspace->timeline;
    CHECK_EQ_INT(timeline->tasks->T, 3);
    CHECK_EQ_INT(timeline->charge_ps[0], 1000000);
    CHECK_EQ_INT(timeline->charge_ps[1], 2000000);
    CHECK_EQ_INT(timeline->charge_ps[2], 0);
    small_close(s);
}

TEST(charges, contention_changes_none) {
    small_text text = {.nodes = OP(0, "a", "[]", 2, 1) OP(1, "b", "[]", 2, 1) OP(2, "c", "[0,1]", 0, 1),
                       .device_count = 2,
                       .links = BOTH_WAYS,
                       .device = "[0,0,1]"};
    small *s = small_open(text); /* c receives two values: 1 + 2 + 2 */
    check_step(s, 11, "d0: a[0,2) b[2,4)\nd1: c[6,11)\nd0>d1: a[2,4) b[4,6)\n");
    check_charged(s, 2, 4);
    small_close(s);
    text.contention = "none";
    s = small_open(text);
    check_step(s, 11, "d0: a[0,2) b[2,4)\nd1: c[6,11)\nd0>d1: a[2,4) b[4,6)\n");
    check_charged(s, 2, 4);
    small_close(s);
}

TEST(charges, only_links_that_charge_do) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1) OP(2, "c", "[1]", 0, 1),
                                       .device_count = 2,
                                       .links = LINK("d0", "d1") LINK_WITH("d1", "d0", 1e6, 0, ",'send_us':0.5"),
                                       .device = "[0,1,0]"});
    check_step(s, 5.5, "d0: a[0,1) c[4.5,5.5)\nd1: b[2,3.5)\nd0>d1: a[1,2)\nd1>d0: b[3.5,4.5)\n");
    check_charged(s, 0, 0.5);
    small_close(s);
}

TEST(charges, without_any_there_is_nothing_to_see) {
    small *s =
        small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1), .device_count = 2, .device = "[0,1]"});
    check_step(s, 3, "d0: a[0,1)\nd1: b[2,3)\nd0>d1: a[1,2)\n");
    CHECK(s->workspace->timeline.charge_ps == NULL);
    check_charged(s, 0, 0);
    small_close(s);
}

TEST(charges, that_last_for_ever_overflow) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 0, 1) OP(1, "b", "[0]", 0, 1) OP(2, "c", "[0]", 0, 1) OP(3, "d", "[0]", 0, 1),
                     .device_count = 4,
                     .links = LINK_WITH("d0", "d1", 1e6, 0, ",'send_us':2e12") LINK_WITH("d0", "d2", 1e6, 0, ",'send_us':2e12")
                         LINK_WITH("d0", "d3", 1e6, 0, ",'send_us':2e12"),
                     .device = "[0,1,2,3]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_OVERFLOW); /* 6e18 ps; 2^62 are 4.6e18 */
    small_close(s);
}

TEST(charges, trials_scale_them_with_their_transfer) {
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 2, 1) OP(1, "b", "[0]", 0, 1), .device_count = 2, .links = BOTH_WAYS, .device = "[0,1]"});
    const double by_producer[] = {1.5, 1.0}, by_channel[] = {2.0, 1.0};
    stw_error error;
    stw_evaluation result;
    stw_run_options options = {.transfer_factor = by_producer};
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &options, s->workspace, &result, &error), STW_OK);
    CHECK_EQ_INT(result.step_ps, 9500000); /* a 1 + 1.5, the transfer 3, b 1 + 3 */
    options.channel_factor = by_channel;
    CHECK_EQ_INT(stw_simulator_run(s->simulator, s->plan, &options, s->workspace, &result, &error), STW_OK);
    CHECK_EQ_INT(result.step_ps, 17000000); /* 1 + 3, 6, 1 + 6 */
    small_close(s);
}

TEST(bandwidths, time_is_linear_between_points) {
    /* 10 bytes take 10 us, 30 bytes 20 us; beyond, 1.5 bytes a microsecond. */
    const char *links = "{'from':'d0','to':'d1','latency_us':1,'bandwidth_bytes_per_s':[[10,1e6],[30,1.5e6]]},";
    static const struct {
        const char *nodes;
        double us;
    } sizes[] = {
        {OP(0, "a", "[]", 5, 1) OP(1, "b", "[0]", 0, 1), 5},   {OP(0, "a", "[]", 10, 1) OP(1, "b", "[0]", 0, 1), 10},
        {OP(0, "a", "[]", 20, 1) OP(1, "b", "[0]", 0, 1), 15}, {OP(0, "a", "[]", 30, 1) OP(1, "b", "[0]", 0, 1), 20},
        {OP(0, "a", "[]", 60, 1) OP(1, "b", "[0]", 0, 1), 40},
    };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        small *s = small_open((small_text){.nodes = sizes[k].nodes, .device_count = 2, .links = links, .device = "[0,1]"});
        CHECK_NEAR(s->result.step_s * 1e6, 3 + sizes[k].us, 1e-9);
        small_close(s);
    }
}
