/* sim/simulate: small steps computed by hand. Every case draws its timeline, a column per microsecond; a link takes a
 * microsecond per byte unless the case says otherwise. The rules are those of docs/simulator.md. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/small.h"
#include "test.h"

static void check_step(const small *s, double step_us, const char *timeline) {
    CHECK_STR(s->result.message, "");
    CHECK_EQ_INT(s->result.reason, STW_VALID);
    CHECK_NEAR(s->result.step_s * 1e6, step_us, 1e-9 * step_us);
    CHECK_STR(s->timeline, timeline);
}

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
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 2, 2) OP(3, "d", "[1,2]", 1, 1),
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
    small *s = small_open((small_text){
        .nodes = OP(0, "z", "[]", 0, 1) OP(1, "a", "[]", 0, 1) OP(2, "b", "[]", 0, 1) OP(3, "c", "[]", 0, 1)
            OP_WITH(4, "d", "[]", 0, 1, ",'control':[0]") OP(5, "e", "[]", 0, 2),
        .device_count = 2,
        .device = "[1,0,0,0,0,0]",
        .priority = "[0,0,0,0.5,1,2]"});
    check_step(s, 6, "d0: e[0,2) d[2,3) c[3,4) a[4,5) b[5,6)\nd1: z[0,1)\n");
    small_close(s);
    /* us  0 1 2
     * d1  z z
     * d0  f f a b         a waits for z, b and f are ready at 0: at 2, b has been ready for longer, a has the smaller id */
    s = small_open((small_text){.nodes = OP(0, "z", "[]", 0, 2) OP_WITH(1, "a", "[]", 0, 1, ",'control':[0]") OP(2, "b", "[]", 0, 1)
                                    OP(3, "f", "[]", 0, 2),
                                .device_count = 2,
                                .device = "[1,0,0,0]",
                                .priority = "[0,0,0,7]"});
    check_step(s, 4, "d0: f[0,2) b[2,3) a[3,4)\nd1: z[0,2)\n");
    small_close(s);
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
    small *s = small_open(text);
    check_step(s, 11, "d0: a[0,1) b[1,2) c[2,3)\nd1: x[5,6) z[8,9) y[10,11)\nd0>d1: a[1,5) c[5,8) b[8,10)\n");
    small_close(s);
    /* us     0 1 2 3 4 5 6 7 8 9 10
     * d0     a b c
     * d0>d1  . a a a a b b c c c      alike in priority: b was ready first
     * d1     . . . . . x . y . . z    */
    text.priority = NULL;
    s = small_open(text);
    check_step(s, 11, "d0: a[0,1) b[1,2) c[2,3)\nd1: x[5,6) y[7,8) z[10,11)\nd0>d1: a[1,5) b[5,7) c[7,10)\n");
    small_close(s);
}

TEST(simulate, channels_of_the_two_directions_are_two) {
    /* us     0 1 2 3 4
     * d0     a . . . y
     * d0>d1  . a a a
     * d1>d0  . b b b
     * d1     b . . . x    */
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 3, 1) OP(1, "b", "[]", 3, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[1]", 0, 1),
        .device_count = 2,
        .device = "[0,1,1,0]"});
    check_step(s, 5, "d0: a[0,1) y[4,5)\nd1: b[0,1) x[4,5)\nd0>d1: a[1,4)\nd1>d0: b[1,4)\n");
    small_close(s);
}

#define BUS ",'bus':'b'"
static const small_text bus_text = {
    .nodes = OP(0, "a", "[]", 2, 1) OP(1, "b", "[]", 3, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[0]", 0, 1) OP(4, "z", "[1]", 0, 1),
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
    small *s = small_open(bus_text);
    check_step(s, 9, "d0: a[0,1) z[8,9)\nd1: b[0,1) y[3,4)\nd2: x[5,6)\nd0>d1: a[1,3)\nd0>d2: a[3,5)\nd1>d0: b[5,8)\n");
    small_close(s);
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
    small *s = small_open(text);
    check_step(s, 5, "d0: a[0,1) z[4,5)\nd1: b[0,1) y[3,4)\nd2: x[3,4)\nd0>d1: a[1,3)\nd0>d2: a[1,3)\nd1>d0: b[1,4)\n");
    small_close(s);
    /* us     0 1 2 3 4
     * d0     a b
     * d0>d1  . a a a
     *        . . b b b                two at a time on one pair
     * d1     . . . . . x              */
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 3, 1) OP(1, "b", "[]", 3, 1) OP(2, "x", "[0,1]", 0, 1),
                                .device_count = 2,
                                .contention = "none",
                                .device = "[0,0,1]"});
    check_step(s, 6, "d0: a[0,1) b[1,2)\nd1: x[5,6)\nd0>d1: a[1,4) b[2,5)\n");
    small_close(s);
}

TEST(simulate, zero_durations_in_rounds) {
    /* us     0 1
     * d0     c c      a[0,0), then b[0,0): b becomes ready at 0 and outranks c, which was ready all along
     * d0>d1           a[0,0): no bytes, no latency
     * d1     x        */
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 0, 0) OP(1, "b", "[0]", 0, 0) OP(2, "c", "[]", 3, 2) OP(3, "x", "[0]", 4, 1),
        .device_count = 2,
        .device = "[0,0,0,1]",
        .priority = "[1,1,0,0]"});
    check_step(s, 2, "d0: a[0,0) b[0,0) c[0,2)\nd1: x[0,1)\nd0>d1: a[0,0)\n");
    check_peaks(s, 3, 4);
    small_close(s);
    /* us  0 1 2 3
     * d0  c c c b     z[0,0) on d1; but at 0 every idle device starts something before z ends, so b comes too late
     *                 z holds its 1000 bytes for 0 ps, which do not count */
    s = small_open((small_text){.nodes = OP(0, "z", "[]", 1000, 0) OP_WITH(1, "b", "[]", 0, 1, ",'control':[0]") OP(2, "c", "[]", 0, 3),
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
            VIEW(5, "empty", 0, 0) OP(6, "x1", "[1]", 0, 1) OP(7, "x2", "[1,2]", 0, 1) OP(8, "y2", "[1]", 0, 1) OP(9, "x3", "[3]", 0, 1)
                OP(10, "x4", "[0,1]", 0, 1) OP(11, "x5", "[1,2,4]", 0, 1) OP(12, "x6", "[5]", 0, 1),
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
    s = small_open(text);
    check_step(s, 6, "d1: i[0,1) x[3,4) y[5,6)\nd0>d1: p[0,3) q[3,5)\n");
    small_close(s);
}

TEST(simulate, update_waits_for_readers) {
    /* us     0 1 2 3 4 5 6
     * d0     r . . . . . u     u waits for r, and for x on d1, which reads p too
     * d0>d1  p p p
     * d1     . . . x x x       */
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "p", "parameter", 3) OP(1, "r", "[0]", 0, 1) OP_WITH(2, "u", "[0]", 3, 1, ",'updates':0") OP(3, "x", "[0]", 0, 3),
        .device_count = 2,
        .device = "[0,0,0,1]",
        .priority = "[0,0,9,0]"});
    check_step(s, 7, "d0: r[0,1) u[6,7)\nd1: x[3,6)\nd0>d1: p[0,3)\n");
    small_close(s);
}

TEST(simulate, update_waits_for_copies) {
    /* us     0 1 2 3 4 5 6 7 8 9
     * d0     r . . . u            y reads p and comes after u, so u does not wait for it; but p's copy must have left
     * d0>d1  p p p p . u u u u
     * d1     . . . . . . . . . y
     * d0: p (4) all the time, r (1) to 5; u's output takes no memory. d1: p's copy from 0, u's from 5, y (2) from 9: 10 */
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "p", "parameter", 4) OP(1, "r", "[0]", 1, 1) OP_WITH(2, "u", "[0,1]", 4, 1, ",'updates':0") OP(3, "y", "[0,2]", 2, 1),
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
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "p", "parameter", 5) OP(1, "a", "[]", 7, 3) VIEW(2, "v", 1, 7) OP_WITH(3, "b", "[]", 0, 1, ",'control':[0,2]"),
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
    small *s = small_open((small_text){.nodes = OP(0, "z", "[]", 0, 5) OP(1, "a", "[]", 0, 1) OP_WITH(2, "b", "[]", 0, 1, ",'control':[0]"),
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
    small *s = small_open(text);
    check_step(s, 4, "d0: d[1,2) a[2,3)\nd1: c[0,1) b[3,4)\n");
    small_close(s);
    text.order = "[[3,0],[1,2]]";
    s = small_open(text);
    check_invalid(s, STW_INVALID_ORDER, "d0 waits for ever for op 3 'd'");
    small_close(s);
    text.order = "[null,[1,2]]"; /* d1 alone is free to proceed: a, then b, then c; d at the end */
    s = small_open(text);
    check_step(s, 4, "d0: a[0,1) d[3,4)\nd1: b[1,2) c[2,3)\n");
    small_close(s);
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
    small *s = small_open(text);
    check_step(s, 2, "d0: c[0,1) a[1,2)\nd1: b[0,1)\n");
    small_close(s);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

TEST(memory, output_lives_to_its_last_reader_and_transfer) {
    /* us     0 1 2 3 4 5 6 7 8 9 10 11 12
     * d0     a r r m m . . . . . .  .  k     k waits for x
     * d0>d1  . a a a a a a a a a a
     * d1     . . . . . . . . . . .  x        a (10) is on d0 to 11, when its transfer ends, long after r, its reader there
     * d0: a[0,11) r(1)[1,3) m(100)[3,5) k(105)[12,13): 110 at 3. d1: a's copy (10) over [1,12), x (2) over [11,12) */
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 10, 1) OP(1, "r", "[0]", 1, 2) OP_WITH(2, "m", "[]", 100, 2, ",'control':[1]") OP(3, "x", "[0]", 2, 1)
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
    small *s = small_open((small_text){
        .nodes = OP(0, "a", "[]", 3, 1) OP(1, "b", "[]", 4, 1) OP(2, "x", "[0]", 0, 1) OP(3, "y", "[1]", 1, 1),
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
     * d0  a a a b b c     input x (40) on d0 over [0,3), whole though a reads a view of it; constant k (7) over [3,5)
     * d1  e e e e e e     x on d1 over [0,6). The parameter p (2) and the buffer q (1) are read by nobody and stay on d1.
     * d0: a (5) over [0,5), b (42) over [3,6), c (1) over [5,6): 45, 54, 43. That x is an output changes nothing. */
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "x", "input", 40) VIEW(1, "v", 0, 1) SOURCE(2, "k", "constant", 7) SOURCE(3, "p", "parameter", 2)
            SOURCE(4, "q", "buffer", 1) OP(5, "a", "[1]", 5, 3) OP(6, "b", "[5,2]", 42, 2) OP(7, "c", "[6]", 1, 1) OP(8, "e", "[0]", 0, 6),
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
