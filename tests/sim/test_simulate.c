/* sim/simulate: small steps computed by hand. Every case draws its timeline, a column per microsecond; a link takes a
 * microsecond per byte unless the case says otherwise. The rules are those of docs/simulator.md. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/drawn.h"

static void check_peaks(const small *s, int64_t first, int64_t second) {
    CHECK_EQ_INT(s->result.peak_bytes[0], first);
    CHECK_EQ_INT(s->result.peak_bytes[1], second);
    CHECK_EQ_INT(s->result.worst_peak_bytes, first > second ? first : second);
}

static void check_invalid(const small *s, stw_reason reason, const char *message) {
    CHECK_EQ_INT(s->result.reason, reason);
    CHECK_CONTAINS(s->result.message, message);
    CHECK_EQ_INT(strncmp(s->result.message, stw_reason_name(reason), strlen(stw_reason_name(reason))), 0);
    if (reason == STW_INVALID_MEMORY) return; /* which leaves its numbers */
    CHECK_NEAR(s->result.step_s, 0.0, 0.0);
    CHECK_EQ_INT(s->result.step_ps, 0);
    CHECK_EQ_INT(s->result.transfer_count, 0);
    CHECK(s->result.peak_bytes == NULL && s->result.busy_ps == NULL);
}

/* ---- time --------------------------------------------------------------------------------------------------------------- */

TEST(simulate, chain_on_one_device) {
    /* us  0 1 2 3 4 5
     * d0  a a b b b c     a (4 bytes) to 5, b (8) from 2, c (1) from 5: 4, 12, 9 */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 8, 3) OP(2, "c", "[1]", 1, 1)});
    check_step(s, 6, "d0: a[0,2) b[2,5) c[5,6)\n");
    CHECK_EQ_INT(s->result.peak_bytes[0], 12);
    CHECK_EQ_INT(s->workspace->timeline.peak_ps[0], 2000000);
    CHECK_EQ_INT(s->result.busy_ps[0], 6000000);
    CHECK_EQ_INT(s->result.transfer_count, 0);
    CHECK_NEAR(small_start_us(s, "b"), 2, 0);
    CHECK_NEAR(small_end_us(s, "b"), 5, 0);
    small_close(s);
}

TEST(simulate, fork_on_two_devices_overlaps) {
    /* us     0 1 2 3 4 5 6 7 8 9 10
     * d0     a a b b b . . . . . d
     * d0>d1  . . a a a a
     * d1     . . . . . . c c
     * d1>d0  . . . . . . . . c c */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 2, 2) OP(3, "d", "[1,2]", 1, 1),
                     .device_count = 2,
                     .device = "[0,0,1,0]"});
    check_step(s, 11, "d0: a[0,2) b[2,5) d[10,11)\nd1: c[6,8)\nd0>d1: a[2,6)\nd1>d0: c[8,10)\n");
    CHECK_EQ_INT(s->result.busy_ps[0], 6000000);
    CHECK_EQ_INT(s->result.busy_ps[1], 2000000);
    CHECK_EQ_INT(s->result.transfer_count, 2);
    CHECK_EQ_INT(s->result.transfer_bytes, 6);
    small_close(s);
}

TEST(simulate, device_takes_priority_then_ready_time_then_id) {
    /* us  0 1 2 3 4 5
     * d1  z
     * d0  e e d c a b     all but d are ready at 0; e outranks all; d, ready at 1, outranks c; c outranks a and b of priority 0,
     *                     of which a, ready at 0 like b, has the smaller id */
    check_drawn((small_text){.nodes = OP(0, "z", "[]", 0, 1) OP(1, "a", "[]", 0, 1) OP(2, "b", "[]", 0, 1) OP(3, "c", "[]", 0, 1)
                                 OP_WITH(4, "d", "[]", 0, 1, ",'control':[0]") OP(5, "e", "[]", 0, 2),
                             .device_count = 2,
                             .device = "[1,0,0,0,0,0]",
                             .priority = "[0,0,0,0.5,1,2]"},
                6, "d0: e[0,2) d[2,3) c[3,4) a[4,5) b[5,6)\nd1: z[0,1)\n");
    /* us  0 1 2 3
     * d1  z z
     * d0  f f b a         a waits for z, b and f are ready at 0: at 2, b has been ready for longer, a has the smaller id */
    check_drawn((small_text){.nodes = OP(0, "z", "[]", 0, 2) OP_WITH(1, "a", "[]", 0, 1, ",'control':[0]") OP(2, "b", "[]", 0, 1)
                                 OP(3, "f", "[]", 0, 2),
                             .device_count = 2,
                             .device = "[1,0,0,0]",
                             .priority = "[0,0,0,7]"},
                4, "d0: f[0,2) b[2,3) a[3,4)\nd1: z[0,2)\n");
}

TEST(simulate, queued_channel_goes_by_priority) {
    /* us     0 1 2 3 4 5 6 7 8 9 10
     * d0     a b c
     * d0>d1  . a a a a c c c b b      b was ready before c, but c outranks it
     * d1     . . . . . x . . z . y    */
    small_text text = {.nodes = OP(0, "a", "[]", 4, 1) OP(1, "b", "[]", 2, 1) OP(2, "c", "[]", 3, 1) OP(3, "x", "[0]", 0, 1)
                           OP(4, "y", "[1]", 0, 1) OP(5, "z", "[2]", 0, 1),
                       .device_count = 2,
                       .device = "[0,0,0,1,1,1]",
                       .priority = "[0,1,2,0,0,0]",
                       .order = "[[0,1,2],null]"};
    check_drawn(text, 11, "d0: a[0,1) b[1,2) c[2,3)\nd1: x[5,6) z[8,9) y[10,11)\nd0>d1: a[1,5) c[5,8) b[8,10)\n");
    /* us     0 1 2 3 4 5 6 7 8 9 10
     * d0     a c b
     * d0>d1  . a a a a c c c b b      alike in priority: c was ready first, though b has the smaller id
     * d1     . . . . . x . . z . y    */
    text.priority = NULL;
    text.order = "[[0,2,1],null]";
    check_drawn(text, 11, "d0: a[0,1) c[1,2) b[2,3)\nd1: x[5,6) z[8,9) y[10,11)\nd0>d1: a[1,5) c[5,8) b[8,10)\n");
}

TEST(simulate, all_that_ends_at_an_instant_ends_before_anything_starts) {
    /* us  0 1 2 3
     * d0  f f b c     f and z end together; b, which waits for z, outranks c, which was ready all along
     * d1  z z         and the same with the devices exchanged */
    small_text text = {.nodes = OP(0, "z", "[]", 0, 2) OP(1, "f", "[]", 0, 2) OP_WITH(2, "b", "[]", 0, 1, ",'control':[0]")
                           OP(3, "c", "[]", 0, 1),
                       .device_count = 2,
                       .device = "[1,0,0,0]",
                       .priority = "[0,9,5,0]"};
    check_drawn(text, 4, "d0: f[0,2) b[2,3) c[3,4)\nd1: z[0,2)\n");
    text.device = "[0,1,1,1]";
    check_drawn(text, 4, "d0: z[0,2)\nd1: f[0,2) b[2,3) c[3,4)\n");
}

TEST(simulate, channels_of_the_two_directions_are_two) {
    /* us     0 1 2 3 4
     * d0     a . . . y
     * d0>d1  . a a a
     * d1>d0  . b b b
     * d1     b . . . x    */
    check_drawn(
        (small_text){.nodes = OP(0, "a", "[]", 3, 1) OP(1, "b", "[]", 3, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[1]", 0, 1),
                     .device_count = 2,
                     .device = "[0,1,1,0]"},
        5, "d0: a[0,1) y[4,5)\nd1: b[0,1) x[4,5)\nd0>d1: a[1,4)\nd1>d0: b[1,4)\n");
}

#define BUS ",'bus':'b'"
static const small_text bus_text = {
    .nodes =
        OP(0, "a", "[]", 2, 1) OP(1, "b", "[]", 3, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[0]", 0, 1) OP(4, "z", "[1]", 0, 1),
    .device_count = 3,
    .links = LINK_WITH("d0", "d1", 1e6, 0, BUS) LINK_WITH("d0", "d2", 1e6, 0, BUS) LINK_WITH("d1", "d0", 1e6, 0, BUS),
    .device = "[0,1,2,1,0]",
};

TEST(simulate, shared_bus) {
    /* us     0 1 2 3 4 5 6 7 8
     * d0     a . . . . . . . z
     * d1     b . . y
     * d2     . . . . . x
     * d0>d1  . a a                    all three wait at 1: a goes before b (its id is smaller), and to d1 before d2
     * d0>d2  . . . a a
     * d1>d0  . . . . . b b b          a pair of its own, but the same bus */
    check_drawn(bus_text, 9, "d0: a[0,1) z[8,9)\nd1: b[0,1) y[3,4)\nd2: x[5,6)\nd0>d1: a[1,3)\nd0>d2: a[3,5)\nd1>d0: b[5,8)\n");
}

TEST(simulate, contention_none) {
    /* us     0 1 2 3 4
     * d0     a . . . z
     * d1     b . . y
     * d2     . . . x
     * d0>d1  . a a
     * d0>d2  . a a
     * d1>d0  . b b b                  the same with contention none: the bus has no meaning */
    small_text text = bus_text;
    text.contention = "none";
    check_drawn(text, 5, "d0: a[0,1) z[4,5)\nd1: b[0,1) y[3,4)\nd2: x[3,4)\nd0>d1: a[1,3)\nd0>d2: a[1,3)\nd1>d0: b[1,4)\n");
    /* us     0 1 2 3 4
     * d0     a b
     * d0>d1  . a a a
     *        . . b b b                two at a time on one pair
     * d1     . . . . . x              */
    check_drawn((small_text){.nodes = OP(0, "a", "[]", 3, 1) OP(1, "b", "[]", 3, 1) OP(2, "x", "[0,1]", 0, 1),
                             .device_count = 2,
                             .contention = "none",
                             .device = "[0,0,1]"},
                6, "d0: a[0,1) b[1,2)\nd1: x[5,6)\nd0>d1: a[1,4) b[2,5)\n");
}

TEST(simulate, zero_durations_in_rounds) {
    /* us     0 1
     * d0     c c      a[0,0), then b[0,0): b becomes ready at 0 and outranks c, which was ready all along
     * d0>d1           a[0,0): no bytes, no latency
     * d1     x        */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 0, 0) OP(1, "b", "[0]", 0, 0) OP(2, "c", "[]", 3, 2) OP(3, "x", "[0]", 4, 1),
                     .device_count = 2,
                     .device = "[0,0,0,1]",
                     .priority = "[1,1,0,0]"});
    check_step(s, 2, "d0: a[0,0) b[0,0) c[0,2)\nd1: x[0,1)\nd0>d1: a[0,0)\n");
    check_peaks(s, 3, 4);
    small_close(s);
    /* us  0 1 2 3
     * d0  c c c b     z[0,0) on d1; but at 0 every idle device starts something before z ends, so b comes too late
     *                 z holds its 1000 bytes for 0 ps, which do not count */
    s = small_open(
        (small_text){.nodes = OP(0, "z", "[]", 1000, 0) OP_WITH(1, "b", "[]", 0, 1, ",'control':[0]") OP(2, "c", "[]", 0, 3),
                     .device_count = 2,
                     .device = "[1,0,0]",
                     .priority = "[0,5,0]"});
    check_step(s, 4, "d0: c[0,3) b[3,4)\nd1: z[0,0)\n");
    check_peaks(s, 0, 0);
    small_close(s);
}

TEST(simulate, duplicate_inputs_count_once) {
    /* us     0 1 2 3 4
     * d0     a . . . .
     * d0>d1  . a a a
     * d1     . . . . x      x reads a three times, once through a view of the whole and the view twice */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 3, 1) VIEW(1, "v", 0, 3) OP(2, "x", "[0,1,0,1]", 0, 1),
                                       .device_count = 2,
                                       .device = "[0,0,1]"});
    check_step(s, 5, "d0: a[0,1)\nd1: x[4,5)\nd0>d1: a[1,4)\n");
    check_peaks(s, 3, 3);
    small_close(s);
}

TEST(simulate, bytes_of_views) {
    /* a (12 bytes) ends at 1; every copy has a pair of its own, so its length tells its bytes.
     * d0>d1  a[1,6)    x reads the slice s (5)
     * d0>d2  a[1,10)   two ops read the slices s (5) and t (4), s twice
     * d0>d3  a[1,13)   the expansion e (40): at most the whole
     * d0>d4  a[1,13)   the slice and the root itself
     * d0>d5  a[1,13)   s (5), t (4) and r (4), a view of a view: at most the whole
     * d0>d6  a[1,1)    an empty view */
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 12, 1) VIEW(1, "s", 0, 5) VIEW(2, "t", 0, 4) VIEW(3, "e", 0, 40) VIEW(4, "r", 3, 4)
            VIEW(5, "empty", 0, 0) OP(6, "x1", "[1]", 0, 1) OP(7, "x2", "[1,2]", 0, 1) OP(8, "y2", "[1]", 0, 1)
                OP(9, "x3", "[3]", 0, 1) OP(10, "x4", "[0,1]", 0, 1) OP(11, "x5", "[1,2,4]", 0, 1) OP(12, "x6", "[5]", 0, 1),
        .device_count = 7,
        .device = "[0,0,0,0,0,0,1,2,2,3,4,5,6]"});
    check_step(s, 14,
               "d0: a[0,1)\nd1: x1[6,7)\nd2: x2[10,11) y2[11,12)\nd3: x3[13,14)\nd4: x4[13,14)\nd5: x5[13,14)\nd6: x6[1,2)\n"
               "d0>d1: a[1,6)\nd0>d2: a[1,10)\nd0>d3: a[1,13)\nd0>d4: a[1,13)\nd0>d5: a[1,13)\nd0>d6: a[1,1)\n");
    static const int64_t bytes[] = {-1, 5, 9, 12, 12, 12, 0};
    for (int32_t d = 0; d < 7; d++) CHECK_EQ_INT(small_copy_bytes(s, "a", d), bytes[d]);
    for (int32_t d = 1; d < 7; d++) CHECK_EQ_INT(s->result.peak_bytes[d], bytes[d]); /* a copy takes what was sent */
    small_close(s);
}

TEST(simulate, parameters_are_sent_from_time_0) {
    /* us     0 1 2 3 4 5
     * d0>d1  q q p p p        by the priorities that the plan gives the parameters
     * d1     i . y . . x      the input i is there at once, wherever it is read */
    small_text text = {.nodes = SOURCE(0, "p", "parameter", 3) SOURCE(1, "q", "buffer", 2) SOURCE(2, "in", "input", 9)
                           OP(3, "x", "[0]", 0, 1) OP(4, "y", "[1]", 0, 1) OP(5, "i", "[2]", 0, 1),
                       .device_count = 2,
                       .device = "[0,0,0,1,1,1]",
                       .priority = "[1,2,0,0,0,0]"};
    small *s = small_open(text);
    check_step(s, 6, "d1: i[0,1) y[2,3) x[5,6)\nd0>d1: q[0,2) p[2,5)\n");
    check_peaks(s, 5, 11); /* q's copy (2) over [0,3), p's (3) over [2,6), the input (9) over [0,1): 11, 2, 5, 3 */
    small_close(s);
    text.priority = NULL; /* now by id: p p p q q */
    check_drawn(text, 6, "d1: i[0,1) x[3,4) y[5,6)\nd0>d1: p[0,3) q[3,5)\n");
}

TEST(simulate, update_waits_for_readers) {
    /* us     0 1 2 3 4 5 6
     * d0     r . . . . . u     u waits for r, and for x on d1, which reads p too
     * d0>d1  p p p
     * d1     . . . x x x       */
    check_drawn((small_text){.nodes = SOURCE(0, "p", "parameter", 3) OP(1, "r", "[0]", 0, 1)
                                 OP_WITH(2, "u", "[0]", 3, 1, ",'updates':0") OP(3, "x", "[0]", 0, 3),
                             .device_count = 2,
                             .device = "[0,0,0,1]",
                             .priority = "[0,0,9,0]"},
                7, "d0: r[0,1) u[6,7)\nd1: x[3,6)\nd0>d1: p[0,3)\n");
}

TEST(simulate, update_waits_for_copies) {
    /* us     0 1 2 3 4 5 6 7 8 9
     * d0     r . . . u            y reads p and comes after u, so u does not wait for it; but p's copy must have left
     * d0>d1  p p p p . u u u u
     * d1     . . . . . . . . . y
     * d0: p (4) all the time, r (1) to 5; u's output takes no memory. d1: p's copy from 0, u's from 5, y (2) from 9: 10 */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 4) OP(1, "r", "[0]", 1, 1)
                                           OP_WITH(2, "u", "[0,1]", 4, 1, ",'updates':0") OP(3, "y", "[0,2]", 2, 1),
                                       .device_count = 2,
                                       .device = "[0,0,0,1]"});
    check_step(s, 10, "d0: r[0,1) u[4,5)\nd1: y[9,10)\nd0>d1: p[0,4) u[5,9)\n");
    check_peaks(s, 5, 10);
    small_close(s);
}

TEST(simulate, control_edges_carry_nothing) {
    /* us  0 1 2 3
     * d0  a a a
     * d1  . . . b     b waits for a through a view of it; there is no link and none is needed; a source is no reason to wait */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 5) OP(1, "a", "[]", 7, 3) VIEW(2, "v", 1, 7)
                                           OP_WITH(3, "b", "[]", 0, 1, ",'control':[0,2]"),
                                       .device_count = 2,
                                       .links = "",
                                       .device = "[0,0,0,1]"});
    check_step(s, 4, "d0: a[0,3)\nd1: b[3,4)\n");
    check_peaks(s, 12, 0);
    small_close(s);
}

TEST(simulate, strict_order_waits) {
    /* us  0 1 2 3 4 5 6
     * d1  z z z z z
     * d0  . . . . . b a     a could run at 0, but the order says b first; its priority does not matter */
    small *s = small_open(
        (small_text){.nodes = OP(0, "z", "[]", 0, 5) OP(1, "a", "[]", 0, 1) OP_WITH(2, "b", "[]", 0, 1, ",'control':[0]"),
                     .device_count = 2,
                     .device = "[1,0,0]",
                     .priority = "[0,9,0]",
                     .order = "[[2,1],null]"});
    check_step(s, 7, "d0: b[5,6) a[6,7)\nd1: z[0,5)\n");
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, NULL, -1, NULL), STW_OK); /* without it: a at once */
    small_run(s);
    check_step(s, 6, "d0: a[0,1) b[5,6)\nd1: z[0,5)\n");
    small_close(s);
}

TEST(simulate, orders_that_cannot_proceed) {
    /* b waits for a, d for c. d0 runs d before a: fine as long as d1 may choose.
     * us  0 1 2 3
     * d0  . d a
     * d1  c . . b
     * If d1 runs b before c, then d waits for c, c for b, b for a, a for d: nothing ever starts. */
    small_text text = {.nodes = OP(0, "a", "[]", 0, 1) OP_WITH(1, "b", "[]", 0, 1, ",'control':[0]") OP(2, "c", "[]", 0, 1)
                           OP_WITH(3, "d", "[]", 0, 1, ",'control':[2]"),
                       .device_count = 2,
                       .device = "[0,1,1,0]",
                       .order = "[[3,0],null]"};
    check_drawn(text, 4, "d0: d[1,2) a[2,3)\nd1: c[0,1) b[3,4)\n");
    text.order = "[[3,0],[1,2]]";
    small *s = small_open(text);
    check_invalid(s, STW_INVALID_ORDER, "d0 waits for ever for op 3 'd'");
    small_close(s);
    text.order = "[null,[1,2]]"; /* d1 alone is free to proceed: a, then b, then c; d at the end */
    check_drawn(text, 4, "d0: a[0,1) d[3,4)\nd1: b[1,2) c[2,3)\n");
    text = (small_text){.nodes = OP(0, "first", "[]", 0, 1) OP(1, "then", "[0]", 0, 1), .order = "[[1,0]]"};
    s = small_open(text); /* against a data edge, on one device */
    check_invalid(s, STW_INVALID_ORDER, "d0 waits for ever for op 1 'then'");
    small_close(s);
}

TEST(simulate, orders_that_are_no_permutation) {
    static const struct {
        const char *order, *message;
    } wrong[] = {
        {"[[],null]", "order: the order of d0 has 0 entries; the device has 2 tasks"},
        {"[[0],null]", "order: the order of d0 has 1 entries; the device has 2 tasks"},
        {"[[0,0],null]", "order: entry 1 of the order of d0 is 0, which is there twice"},
        {"[[0,2],null]", "order: entry 1 of the order of d0 is 2, which is no task of that device"},
        {"[[0,1],null]", "order: entry 1 of the order of d0 is 1, which is no task of that device"},
        {"[null,[2,2]]", "order: entry 1 of the order of d1 is 2, which is there twice"},
        {"[null,[]]", "order: the order of d1 has 0 entries; the device has 1 tasks"},
    };
    small_text text = {.nodes = OP(0, "a", "[]", 0, 1) VIEW(1, "v", 0, 0) OP(2, "b", "[]", 0, 1) OP(3, "c", "[]", 0, 1),
                       .device_count = 2,
                       .device = "[0,0,1,0]"};
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        test_context("%s", wrong[k].order);
        text.order = wrong[k].order;
        small *s = small_open(text);
        check_invalid(s, STW_INVALID_ORDER, wrong[k].message);
        small_close(s);
    }
    test_context("%s", "");
    /* us  0 1
     * d0  c a
     * d1  b     */
    text.order = "[[3,0],[2]]";
    check_drawn(text, 2, "d0: c[0,1) a[1,2)\nd1: b[0,1)\n");
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

TEST(memory, output_lives_to_its_last_reader_and_transfer) {
    /* us     0 1 2 3 4 5 6 7 8 9 10 11 12
     * d0     a r r m m . . . . . .  .  k     k waits for x
     * d0>d1  . a a a a a a a a a a
     * d1     . . . . . . . . . . .  x        a (10) is on d0 to 11, when its transfer ends, long after r, its reader there
     * d0: a[0,11) r(1)[1,3) m(100)[3,5) k(105)[12,13): 110 at 3. d1: a's copy (10) over [1,12), x (2) over [11,12) */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 10, 1) OP(1, "r", "[0]", 1, 2)
                                           OP_WITH(2, "m", "[]", 100, 2, ",'control':[1]") OP(3, "x", "[0]", 2, 1)
                                               OP_WITH(4, "k", "[]", 105, 1, ",'control':[3]"),
                                       .device_count = 2,
                                       .device = "[0,0,0,1,0]"});
    check_step(s, 13, "d0: a[0,1) r[1,3) m[3,5) k[12,13)\nd1: x[11,12)\nd0>d1: a[1,11)\n");
    check_peaks(s, 110, 12);
    static const int64_t first[] = {10, 11, 11, 110, 110, 10, 10, 10, 10, 10, 10, 0, 105, 0};
    static const int64_t second[] = {0, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 12, 0, 0};
    for (int t = 0; t <= 13; t++) {
        test_context("at %d us", t);
        CHECK_EQ_INT(small_held(s, 0, t), first[t]);
        CHECK_EQ_INT(small_held(s, 1, t), second[t]);
    }
    small_close(s);
}

TEST(memory, copy_takes_room_when_its_transfer_begins) {
    /* us     0 1 2 3 4 5 6 7 8
     * d0     a b
     * d0>d1  . a a a b b b b       b waits for the channel from 2 to 4
     * d1     . . . . x . . . y     a's copy (3) over [1,5), b's (4) over [4,9), read by x and y; x (0) and y (1) */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 3, 1) OP(1, "b", "[]", 4, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[1]", 1, 1),
                     .device_count = 2,
                     .device = "[0,0,1,1]"});
    check_step(s, 9, "d0: a[0,1) b[1,2)\nd1: x[4,5) y[8,9)\nd0>d1: a[1,4) b[4,8)\n");
    check_peaks(s, 7, 7);
    static const int64_t second[] = {0, 3, 3, 3, 7, 4, 4, 4, 5, 0};
    for (int t = 0; t <= 9; t++) {
        test_context("at %d us", t);
        CHECK_EQ_INT(small_held(s, 1, t), second[t]);
    }
    small_close(s);
}

TEST(memory, graph_output_is_kept_and_its_copy_is_not) {
    /* us     0 1 2 3 4 5 6
     * d0     a m
     * d0>d1  . a a a
     * d1     . . . . x z z    d0: a (3) is an output (through its view v), held to 7; m (100) over [1,2)
     *                         d1: a's copy over [1,5), z (50) over [5,7), x (1) over [4,5) */
    small_text text = {.nodes = OP(0, "a", "[]", 3, 1) VIEW(1, "v", 0, 1) OP(2, "m", "[]", 100, 1) OP(3, "x", "[0]", 1, 1)
                           OP_WITH(4, "z", "[]", 50, 2, ",'control':[3]"),
                       .outputs = "[1]",
                       .device_count = 2,
                       .device = "[0,0,0,1,1]",
                       .priority = "[1,0,0,0,0]"};
    const char *timeline = "d0: a[0,1) m[1,2)\nd1: x[4,5) z[5,7)\nd0>d1: a[1,4)\n";
    small *s = small_open(text);
    check_step(s, 7, timeline);
    check_peaks(s, 103, 50);
    CHECK_EQ_INT(small_held(s, 0, 7), 3);
    CHECK_EQ_INT(small_held(s, 1, 7), 0);
    small_close(s);
    text.outputs = "[]";
    s = small_open(text);
    check_step(s, 7, timeline);
    CHECK_EQ_INT(small_held(s, 0, 3), 3);
    CHECK_EQ_INT(small_held(s, 0, 4), 0);
    small_close(s);
}

TEST(memory, inputs_live_to_their_last_reader_parameters_all_the_time) {
    /* us  0 1 2 3 4 5
     * d0  a a a b b c     input x (40) on d0 over [0,3), whole though a reads a view of it; constant k (7) over [0,5)
     * d1  e e e e e e     x on d1 over [0,6). The parameter p (2) and the buffer q (1) are read by nobody and stay on d1.
     * d0: a (5) over [0,5), b (42) over [3,6), c (1) over [5,6): 52, 54, 43. That x is an output changes nothing. */
    small *s = small_open((small_text){.nodes = SOURCE(0, "x", "input", 40) VIEW(1, "v", 0, 1) SOURCE(2, "k", "constant", 7)
                                           SOURCE(3, "p", "parameter", 2) SOURCE(4, "q", "buffer", 1) OP(5, "a", "[1]", 5, 3)
                                               OP(6, "b", "[5,2]", 42, 2) OP(7, "c", "[6]", 1, 1) OP(8, "e", "[0]", 0, 6),
                                       .outputs = "[0]",
                                       .device_count = 2,
                                       .device = "[1,0,0,1,1,0,0,0,1]"});
    check_step(s, 6, "d0: a[0,3) b[3,5) c[5,6)\nd1: e[0,6)\n");
    check_peaks(s, 54, 43);
    static const int64_t first[] = {52, 52, 52, 54, 54, 43, 0};
    for (int t = 0; t <= 6; t++) {
        test_context("at %d us", t);
        CHECK_EQ_INT(small_held(s, 0, t), first[t]);
        CHECK_EQ_INT(small_held(s, 1, t), t < 6 ? 43 : 3);
    }
    small_close(s);
}

TEST(memory, peak_at_the_limit_and_above) {
    /* us  0 1 2 3 4 5
     * d0  a a b b b c     12 bytes at 2, as in chain_on_one_device */
#define CHAIN OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 8, 3) OP(2, "c", "[1]", 1, 1)
    small *s = small_open((small_text){.nodes = CHAIN, .devices = DEVICE("d0", "h200", 12)});
    check_step(s, 6, "d0: a[0,2) b[2,5) c[5,6)\n");
    CHECK_EQ_INT(s->result.peak_bytes[0], 12);
    small_close(s);
    s = small_open((small_text){.nodes = CHAIN, .devices = DEVICE("d0", "h200", 11)});
    check_invalid(s, STW_INVALID_MEMORY, "memory: d0 lacks 1 bytes: it holds 12 at 0.002 ms and has 11");
    CHECK_STR(s->timeline, "d0: a[0,2) b[2,5) c[5,6)\n"); /* all its numbers are there */
    CHECK_EQ_INT(s->result.step_ps, 6000000);
    CHECK_NEAR(s->result.step_s, 6e-6, 1e-18);
    CHECK_EQ_INT(s->result.peak_bytes[0], 12);
    CHECK_EQ_INT(s->result.busy_ps[0], 6000000);
    small_close(s);
    /* Of two devices the one that lacks more is named. d0: a[0,2) holds 4; d1: b[0,3) holds 8. */
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[]", 8, 3),
                                .devices = DEVICE("d0", "h200", 3) DEVICE("d1", "h200", 6),
                                .device_count = 2,
                                .device = "[0,1]"});
    check_invalid(s, STW_INVALID_MEMORY, "memory: d1 lacks 2 bytes: it holds 8 at 0 ms and has 6");
    check_peaks(s, 4, 8);
    small_close(s);
}

TEST(memory, held_for_no_time) {
    /* us  0 1 2 3
     * d0  a a b b     at 2 a (10) is freed and c (10), which takes 0 us and nobody reads, comes and goes: never 20 */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 10, 2) OP_WITH(1, "c", "[]", 10, 0, ",'control':[0]")
                                           OP_WITH(2, "b", "[]", 10, 2, ",'control':[1]")});
    check_step(s, 4, "d0: a[0,2) c[2,2) b[2,4)\n");
    CHECK_EQ_INT(s->result.peak_bytes[0], 10);
    small_close(s);
}

TEST(memory, zero_bytes_still_cost_the_latency) {
    /* us     0 1 2 3 4
     * d0     a
     * d0>d1  . a a a
     * d1     . . . . x     */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 1) OP(1, "x", "[0]", 0, 1),
                                       .device_count = 2,
                                       .links = LINK_WITH("d0", "d1", 1e6, 3, ""),
                                       .device = "[0,1]"});
    check_step(s, 5, "d0: a[0,1)\nd1: x[4,5)\nd0>d1: a[1,4)\n");
    CHECK_EQ_INT(small_copy_bytes(s, "a", 1), 0);
    check_peaks(s, 0, 0);
    small_close(s);
}

TEST(simulate, times_are_rounded_once) {
    /* In ps. Ops: 1.5 -> 2, 2.4 -> 2. The transfer: 0.5 + 3 bytes x 2/3 ps = 2.5 -> 3.
     * d0 a[0,2)   d0>d1 a[2,5)   d1 x[5,7) */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 3, 0.0000015) OP(1, "x", "[0]", 0, 0.0000024),
                                       .device_count = 2,
                                       .links = LINK_WITH("d0", "d1", 1.5e12, 0.0000005, ""),
                                       .device = "[0,1]"});
    CHECK_EQ_INT(s->result.step_ps, 7);
    CHECK_EQ_INT(s->workspace->timeline.end_ps[0], 2);
    CHECK_EQ_INT(s->workspace->timeline.transfer[0].end_ps, 5);
    small_close(s);
}

/* ---- groups ------------------------------------------------------------------------------------------------------------- */

TEST(groups, recomputation) {
    /* r is recomputed in the tasks {b, r} and {c, d, r}; both read p, which is on d1.
     * us     0 1 2 3 4 5 6 7 8 9 10
     * d1>d0  p p p p p p
     * d0     . . . . . . b b c c c     c stands for {c, d, r}
     * d0: p's copy (6) over [0,11), b (20) over [6,11), d (30) over [8,11); r (500) and c (1000) do not exist */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 6) OP(1, "r", "[0]", 500, 1) OP(2, "b", "[1]", 20, 1)
                                           OP(3, "c", "[1]", 1000, 1) VIEW(4, "v", 1, 9) OP(5, "d", "[3,4]", 30, 1),
                                       .outputs = "[2,5]",
                                       .device_count = 2,
                                       .device = "[1,0,0,0,0,0]",
                                       .group = "[-1,-1,0,77,-1,77]"});
    s->duration_ps = (const int64_t[]){0, 0, 2000000, 3000000, 0, 0};
    small_run(s);
    check_step(s, 11, "d0: b[6,8) c[8,11)\nd1>d0: p[0,6)\n");
    check_peaks(s, 56, 6);
    CHECK_NEAR(small_start_us(s, "d"), 8, 0); /* with its group */
    CHECK_NEAR(small_start_us(s, "r"), -1, 0);
    small_close(s);
}

TEST(groups, outputs_go_with_the_largest_priority_of_the_members) {
    /* us     0 1 2 3 4 5 6 7 8 9 10
     * d0     a                         a stands for {a, b}, of priority 5, which is b's
     * d0>d1  q q q q a a b b b p       so both go before p (3), a too, whose own is 0
     * d1     . . . . . . . . . . r     */
    small *s = small_open((small_text){.nodes = SOURCE(0, "q", "parameter", 4) SOURCE(1, "p", "parameter", 1)
                                           OP(2, "a", "[]", 2, 1) OP(3, "b", "[]", 3, 1) OP(4, "r", "[0,2,3,1]", 0, 1),
                                       .device_count = 2,
                                       .device = "[0,0,0,0,1]",
                                       .priority = "[9,3,0,5,0]",
                                       .group = "[-1,-1,2,2,4]"});
    s->duration_ps = (const int64_t[]){0, 0, 1000000, 0, 1000000};
    small_run(s);
    check_step(s, 11, "d0: a[0,1)\nd1: r[10,11)\nd0>d1: q[0,4) a[4,6) b[6,9) p[9,10)\n");
    check_peaks(s, 10, 10);
    small_close(s);
}

TEST(groups, wait_for_all_members_and_are_waited_for) {
    /* us  0 1 2 3 4 5 6
     * d1  z z z . . . y     y waits for r, which runs inside b and inside c
     * d0  . . . b c c       b stands for {b, e, r}: b could run at 0, but e waits for z */
    small *s = small_open((small_text){.nodes = OP(0, "z", "[]", 0, 3) OP(1, "r", "[]", 70, 1) OP(2, "b", "[1]", 5, 1)
                                           OP(3, "c", "[1]", 5, 1) OP_WITH(4, "e", "[1]", 60, 1, ",'control':[0]")
                                               OP_WITH(5, "y", "[]", 0, 1, ",'control':[1]"),
                                       .device_count = 2,
                                       .device = "[1,0,0,0,0,1]",
                                       .priority = "[0,0,1,0,0,0]",
                                       .group = "[0,-1,9,3,9,5]",
                                       .order = "[[2,3],null]"}); /* an order lists task ids; r is in none */
    s->duration_ps = (const int64_t[]){3000000, 0, 1000000, 2000000, 0, 1000000};
    small_run(s);
    check_step(s, 7, "d0: b[3,4) c[4,6)\nd1: z[0,3) y[6,7)\n");
    check_peaks(s, 0, 0); /* in a group only what is used outside exists; c has r beside it, so it is one, too */
    small_close(s);
}

TEST(groups, output_of_an_op_alone_always_exists) {
    /* us  0 1 2 3
     * d0  a b b d     a (8) over [0,1); b stands for {b, c}, unread: nothing; d recomputes e and is unread: nothing */
    small *s =
        small_open((small_text){.nodes = OP(0, "a", "[]", 8, 1) OP_WITH(1, "b", "[]", 50, 1, ",'control':[0]") OP(
                                    2, "c", "[1]", 60, 1) OP_WITH(3, "e", "[]", 70, 1, ",'control':[2]") OP(4, "d", "[3]", 80, 1),
                                .group = "[0,7,7,-1,4]"});
    s->duration_ps = (const int64_t[]){1000000, 2000000, 0, 0, 1000000};
    small_run(s);
    check_step(s, 4, "d0: a[0,1) b[1,3) d[3,4)\n");
    CHECK_EQ_INT(s->result.peak_bytes[0], 8);
    small_close(s);
}

TEST(groups, update_in_a_group) {
    /* us     0 1 2 3 4 5 6
     * d0>d1  p p p p
     * d0     . . . . . . r      r stands for {r, u}: u's wait for r is within the group and dropped; it waits for x on d1
     * d1     . . . . x x        u writes in place: d0 holds p (4) only, for r is read by u alone */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 4) OP(1, "r", "[0]", 9, 1)
                                           OP_WITH(2, "u", "[0,1]", 4, 1, ",'updates':0") OP(3, "x", "[0]", 0, 2),
                                       .device_count = 2,
                                       .device = "[0,0,0,1]",
                                       .group = "[-1,1,1,3]"});
    s->duration_ps = (const int64_t[]){0, 1000000, 0, 2000000};
    small_run(s);
    check_step(s, 7, "d0: r[6,7)\nd1: x[4,6)\nd0>d1: p[0,4)\n");
    check_peaks(s, 4, 4);
    small_close(s);
}

/* ---- invalid plans ------------------------------------------------------------------------------------------------------ */

TEST(invalid, reasons_in_their_order) {
    /* Everything is wrong at once; one after the other is put right. At the end, with memory for 24 bytes on d0:
     * us     0 1 2 3 4 5 6
     * d1>d0  p p p p p
     * d0     . . . . . a         p's copy (5) and a (20)
     * d1     . . . . . . u       */
    small_text text = {.nodes = SOURCE(0, "p", "parameter", 5) NODE(1, "u", "mystery", "[0]", 5, ",'updates':0,'us':{'h200':1}")
                           OP(2, "a", "[0]", 20, 1),
                       .devices = DEVICE("d0", "h200", 24) DEVICE("d1", "h200", 100),
                       .device_count = 2,
                       .links = "",
                       .device = "[1,0,0]",
                       .group = "[-1,1,1]",
                       .order = "[[2,2],null]"};
    const int64_t long_ps[] = {0, STW_MAX_STEP_PS + 1, 1000000};
    small *s = small_open(text);
    check_invalid(s, STW_INVALID_COLOCATION, "colocation: node 1 'u' is on d0, but must be with node 0 'p' on d1");
    s->plan->device[1] = 1;
    small_run(s);
    check_invalid(s, STW_INVALID_GROUPS, "groups: op 2 'a' is fused with an op on another device");
    s->plan->group[2] = 2;
    small_run(s);
    check_invalid(s, STW_INVALID_LINKS, "links: node 0 'p' must go from d1 to d0, but there is no link");
    small_close(s);

    text.links = LINK("d1", "d0");
    text.device = "[1,1,0]";
    text.group = NULL;
    s = small_open(text);
    s->duration_ps = long_ps;
    small_run(s);
    check_invalid(s, STW_INVALID_ORDER, "order: entry 1 of the order of d0 is 2, which is there twice");
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, (const int32_t[]){2}, 1, NULL), STW_OK);
    small_run(s);
    check_invalid(s, STW_INVALID_OVERFLOW, "overflow: the step takes more than 2^62 ps");
    s->duration_ps = NULL;
    small_run(s);
    check_invalid(s, STW_INVALID_MEMORY, "memory: d0 lacks 1 bytes: it holds 25");
    CHECK_STR(s->timeline, "d0: a[5,6)\nd1: u[6,7)\nd1>d0: p[0,5)\n");
    check_peaks(s, 25, 5);
    small_close(s);
}

TEST(invalid, order_before_overflow) {
    /* a takes longer than a step may; after it, d0 waits for c, which reads b, which comes later. */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 0, 1) OP(1, "b", "[]", 0, 1) OP(2, "c", "[1]", 0, 1), .order = "[[0,2,1]]"});
    s->duration_ps = (const int64_t[]){INT64_MAX, 1, 1};
    small_run(s);
    check_invalid(s, STW_INVALID_ORDER, "d0 waits for ever for op 2 'c'");
    CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, (const int32_t[]){0, 1, 2}, 3, NULL), STW_OK);
    small_run(s);
    check_invalid(s, STW_INVALID_OVERFLOW, "2^62");
    small_close(s);
}

TEST(invalid, step_above_the_limit) {
    /* d0  a[0, 2^61) b[2^61, 2^62): the longest step there is. Files with such times are refused, so the run is told of them. */
    const int64_t half = (int64_t)1 << 61, whole = (int64_t)1 << 62;
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 1) OP(1, "b", "[]", 0, 1) OP(2, "c", "[]", 0, 1)});
    s->duration_ps = (const int64_t[]){half, half, 0};
    small_run(s);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->result.step_ps, STW_MAX_STEP_PS);
    s->duration_ps = (const int64_t[]){half, half, 1};
    small_run(s);
    check_invalid(s, STW_INVALID_OVERFLOW, "overflow: the step takes more than 2^62 ps");
    s->duration_ps = (const int64_t[]){INT64_MAX, 1, 1};
    small_run(s);
    check_invalid(s, STW_INVALID_OVERFLOW, "overflow");
    small_close(s);
    /* A transfer of 1e30 s, which 64 bits do not hold. */
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 0, 1),
                                .device_count = 2,
                                .links = LINK_WITH("d0", "d1", 1e-30, 0, ""),
                                .device = "[0,1]"});
    check_invalid(s, STW_INVALID_OVERFLOW, "overflow");
    small_close(s);
    /* Two ops of 2^62 ps on two devices at the same time are no overflow. */
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 1) OP(1, "b", "[]", 0, 1), .device_count = 2, .device = "[0,1]"});
    s->duration_ps = (const int64_t[]){whole, whole};
    small_run(s);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->result.step_ps, STW_MAX_STEP_PS);
    CHECK_EQ_INT(s->result.busy_ps[1], STW_MAX_STEP_PS);
    small_close(s);
}

TEST(invalid, colocation_of_any_node) {
    /* us  0 1
     * d0  a
     * d1  b     b shall be with an input, which means nothing */
    small_text text = {.nodes = SOURCE(0, "in", "input", 1) OP(1, "a", "[]", 0, 1) VIEW(2, "v", 1, 0)
                           OP_WITH(3, "b", "[]", 0, 1, ",'colocate':0"),
                       .device_count = 2,
                       .device = "[0,0,0,1]"};
    check_drawn(text, 1, "d0: a[0,1)\nd1: b[0,1)\n");
    /* us  0 1
     * d0  a b   b shall be with v, which stands for a wherever the plan puts it */
    text.nodes =
        SOURCE(0, "in", "input", 1) OP(1, "a", "[]", 0, 1) VIEW(2, "v", 1, 0) OP_WITH(3, "b", "[]", 0, 1, ",'colocate':2");
    small *s = small_open(text);
    check_invalid(s, STW_INVALID_COLOCATION, "colocation: node 3 'b' is on d1, but must be with node 1 'a' on d0");
    s->plan->device[3] = 0;
    s->plan->device[2] = 1;
    small_run(s);
    check_step(s, 2, "d0: a[0,1) b[1,2)\n");
    small_close(s);
}

TEST(invalid, faults_in_the_call) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[0]", 0, 1) VIEW(2, "v", 1, 0)});
    stw_error error;
    s->plan->device[1] = 1;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "node 1 'a' is on device 1; the machine has devices 0 to 0");
    s->plan->device[1] = 0;
    s->plan->device[0] = -1;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, NULL), STW_ERROR_INPUT);
    s->plan->device[0] = 0;
    s->plan->priority[1] = (double)NAN;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "node 1 'a' has a priority that is not a finite number");
    s->plan->priority[1] = 0.0;
    s->plan->group[1] = -2;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "node 1 'a' is in group -2");
    s->plan->group[1] = 1;
    s->plan->device[2] = 99; /* of a view: ignored */
    s->plan->priority[2] = (double)INFINITY;
    s->plan->group[2] = -99;
    CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, &error), STW_OK);
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    small *other = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 1)});
    CHECK_EQ_INT(stw_simulate(s->simulator, other->plan, s->workspace, &s->result, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "another graph or machine");
    small_close(other);
    small_close(s);
}

/* ---- edges -------------------------------------------------------------------------------------------------------------- */

TEST(edges, empty_graph) {
    small *s = small_open((small_text){.device_count = 2});
    check_step(s, 0, "");
    check_peaks(s, 0, 0);
    small_close(s);
    s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 5), .device_count = 2, .order = "[[],null]"});
    check_step(s, 0, ""); /* what is held for 0 ps does not count */
    check_peaks(s, 0, 0);
    CHECK_NEAR(stw_measured_share(s->simulator, s->plan), 1.0, 0.0);
    small_close(s);
}

TEST(edges, one_op_and_more_devices_than_ops) {
    /* us  0 1 2
     * d5  a a a     */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 7, 3), .device_count = 8, .device = "[5]"});
    check_step(s, 3, "d5: a[0,3)\n");
    for (int32_t d = 0; d < 8; d++) {
        CHECK_EQ_INT(s->result.peak_bytes[d], d == 5 ? 7 : 0);
        CHECK_EQ_INT(s->result.busy_ps[d], d == 5 ? 3000000 : 0);
    }
    small_close(s);
}

TEST(edges, sixty_four_devices) {
    /* us        0 1 2 3
     * d63       a           sent to all others at once, each pair having its own channel
     * d63>dk    . a a
     * dk        . . . xk    k = 0 to 62 */
    enum { D = 64 };
    char *nodes, *device;
    size_t node_size, device_size;
    FILE *node_file = open_memstream(&nodes, &node_size), *device_file = open_memstream(&device, &device_size);
    fputs(OP(0, "a", "[]", 2, 1), node_file);
    fputs("[63", device_file);
    for (int k = 0; k < D - 1; k++) {
        fprintf(node_file, "{'id':%d,'name':'x%d','op':'relu','inputs':[0],'dtype':'u8','shape':[3],'us':{'h200':1}},", k + 1, k);
        fprintf(device_file, ",%d", k);
    }
    fputs("]", device_file);
    fclose(node_file);
    fclose(device_file);
    small *s = small_open((small_text){.nodes = nodes, .device_count = D, .device = device});
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_EQ_INT(s->result.step_ps, 4000000);
    CHECK_EQ_INT(s->result.transfer_count, D - 1);
    CHECK_EQ_INT(s->result.transfer_bytes, 2 * (D - 1));
    for (int32_t d = 0; d < D; d++) CHECK_EQ_INT(s->result.peak_bytes[d], d == D - 1 ? 2 : 5);
    for (int32_t k = 0; k < s->workspace->timeline.transfer_count; k++) {
        CHECK_EQ_INT(s->workspace->timeline.transfer[k].start_ps, 1000000);
        CHECK_EQ_INT(s->workspace->timeline.transfer[k].end_ps, 3000000);
    }
    small_close(s);
    free(nodes);
    free(device);
}

TEST(edges, unlike_devices) {
    /* us     0 1 2 3 4 5 6 7
     * d0     a a . . . . . c     an H200: a takes 2, c takes 1
     * d0>d1  . . a
     * d1     . . . b b b         a CPU: b takes 3, on the H200 it would take 9
     * d1>d0  . . . . . . b       */
    small_text text = {.nodes = NODE(0, "a", "relu", "[]", 1, ",'us':{'h200':2,'cpu8':50}")
                           NODE(1, "b", "relu", "[0]", 1, ",'us':{'cpu8':3,'h200':9}")
                               NODE(2, "c", "relu", "[1]", 1, ",'us':{'h200':1,'cpu8':7}"),
                       .devices = DEVICE("d0", "h200", 100) DEVICE("d1", "cpu8", 100),
                       .device_count = 2,
                       .device = "[0,1,0]"};
    small *s = small_open(text);
    check_step(s, 8, "d0: a[0,2) c[7,8)\nd1: b[3,6)\nd0>d1: a[2,3)\nd1>d0: b[6,7)\n");
    CHECK_NEAR(stw_measured_share(s->simulator, s->plan), 1.0, 0.0);
    for (int32_t i = 0; i < 3; i++) s->plan->device[i] = 1;
    small_run(s);
    check_step(s, 60, "d1: a[0,50) b[50,53) c[53,60)\n");
    small_close(s);
}

TEST(edges, disconnected) {
    /* us  0 1 2
     * d0  a a
     * d1  b b b      nothing in common */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[]", 2, 3), .device_count = 2, .links = "", .device = "[0,1]"});
    check_step(s, 3, "d0: a[0,2)\nd1: b[0,3)\n");
    check_peaks(s, 1, 2);
    small_close(s);
}
