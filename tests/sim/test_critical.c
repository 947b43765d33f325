/* sim: the critical path, on drawn timelines and by what must hold for every one. */
#include "sim/critical.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

typedef struct {
    int32_t count;
    int32_t task[400];
    char names[400]; /* last first, separated by blanks */
} path;

static path walk_with_room(const small *s, int32_t room) {
    path p = {0};
    stw_arena arena;
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    CHECK_EQ_INT(stw_critical_path(s->workspace, p.task, room, &p.count, arena, &error), STW_OK);
    CHECK_STR(error.message, "");
    for (int32_t k = 0; k < p.count; k++) {
        const stw_str name = s->graph->node_name[s->workspace->timeline.tasks->task_node[p.task[k]]];
        const size_t used = strlen(p.names);
        snprintf(p.names + used, sizeof p.names - used, "%s%.*s", k > 0 ? " " : "", (int)name.length, name.p);
    }
    stw_arena_destroy(&arena);
    return p;
}

static path walk(const small *s) { return walk_with_room(s, s->workspace->timeline.tasks->T); }

/* Runs the problem and compares its timeline and its path. */
static void check_case(small_text text, const char *timeline, const char *names) {
    small *s = small_open(text);
    CHECK_STR(s->timeline, timeline);
    CHECK_STR(walk(s).names, names);
    small_close(s);
}

/* ---- drawn ---- */

TEST(critical, chain_on_one_device) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[1]", 1, 1)},
               "d0: a[0,2) b[2,5) c[5,6)\n", "c b a");
}

TEST(critical, a_busy_device) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[]", 1, 3) OP(2, "c", "[]", 1, 1)},
               "d0: a[0,2) b[2,5) c[5,6)\n", "c b a");
}

TEST(critical, a_transfer) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[]", 1, 1),
                            .device_count = 2,
                            .device = "[0,1,1]"},
               "d0: a[0,2)\nd1: c[0,1) b[6,9)\nd0>d1: a[2,6)\n", "b a");
}

/* b is sent behind a, so what holds up e is a: it is b's own end only that does not. */
TEST(critical, a_queue_on_a_channel) {
    check_case(
        (small_text){.nodes = OP(0, "a", "[]", 5, 1) OP(1, "b", "[]", 2, 1) OP(2, "c", "[0]", 1, 1) OP(3, "e", "[1]", 1, 1),
                     .device_count = 2,
                     .device = "[0,0,1,1]"},
        "d0: a[0,1) b[1,2)\nd1: c[6,7) e[8,9)\nd0>d1: a[1,6) b[6,8)\n", "e a");
}

TEST(critical, a_longer_queue) {
    check_case((small_text){.nodes = OP(0, "x", "[]", 1, 3) OP(1, "a", "[0]", 5, 1) OP(2, "b", "[]", 2, 1) OP(3, "c", "[]", 3, 1)
                                OP(4, "e", "[1]", 1, 1) OP(5, "f", "[2]", 1, 1) OP(6, "g", "[3]", 1, 1),
                            .device_count = 2,
                            .device = "[0,0,0,0,1,1,1]",
                            .priority = "[9,8,7,6,0,0,0]"},
               "d0: x[0,3) a[3,4) b[4,5) c[5,6)\nd1: e[9,10) f[11,12) g[14,15)\nd0>d1: a[4,9) b[9,11) c[11,14)\n", "g a x");
}

TEST(critical, a_queue_on_a_bus) {
    /* Both links are one bus: b goes from d1 to d2, and waits for a, which goes from d0 to d2. */
    check_case((small_text){.nodes = OP(0, "a", "[]", 5, 1) OP(1, "b", "[]", 2, 2) OP(2, "c", "[0,1]", 1, 1),
                            .device_count = 3,
                            .links = LINK_WITH("d0", "d2", 1e6, 0, ",'bus':'x'") LINK_WITH("d1", "d2", 1e6, 0, ",'bus':'x'"),
                            .device = "[0,1,2]"},
               "d0: a[0,1)\nd1: b[0,2)\nd2: c[8,9)\nd0>d2: a[1,6)\nd1>d2: b[6,8)\n", "c a");
}

TEST(critical, without_contention_nothing_queues) {
    check_case(
        (small_text){.nodes = OP(0, "a", "[]", 5, 1) OP(1, "b", "[]", 5, 1) OP(2, "c", "[0]", 1, 0) OP(3, "e", "[1]", 1, 1),
                     .device_count = 2,
                     .contention = "none",
                     .device = "[0,0,1,1]"},
        "d0: a[0,1) b[1,2)\nd1: c[6,6) e[7,8)\nd0>d1: a[1,6) b[2,7)\n", "e b a");
}

/* u writes w in place and so waits for r, on the other device. */
TEST(critical, an_update_waits) {
    check_case(
        (small_text){.nodes = SOURCE(0, "w", "parameter", 3) OP(1, "r", "[0]", 1, 4) OP_WITH(2, "u", "[]", 3, 1, ",'updates':0"),
                     .device_count = 2,
                     .device = "[0,1,0]"},
        "d0: u[7,8)\nd1: r[3,7)\nd0>d1: w[0,3)\n", "u r");
}

/* r needs u, so u does not wait for r, but for w's copy to have left. */
TEST(critical, an_update_waits_for_a_copy) {
    check_case((small_text){.nodes = SOURCE(0, "w", "parameter", 3) OP_WITH(1, "u", "[]", 3, 1, ",'updates':0")
                                OP(2, "r", "[0,1]", 1, 4),
                            .device_count = 2,
                            .device = "[0,0,1]"},
               "d0: u[3,4)\nd1: r[7,11)\nd0>d1: w[0,3) u[4,7)\n", "r u");
}

/* The kernel of a and b waits for r because b does, not a, whose id it has. */
TEST(critical, a_member_of_a_group_waits) {
    static const int64_t duration[] = {3000000, 2000000, 0};
    small *s = small_open(
        (small_text){.nodes = OP(0, "r", "[]", 1, 3) OP(1, "a", "[]", 1, 1) OP_WITH(2, "b", "[1]", 1, 1, ",'control':[0]"),
                     .device_count = 2,
                     .device = "[0,1,1]",
                     .group = "[0,1,1]",
                     .outputs = "[2]"});
    s->duration_ps = duration;
    small_run(s);
    CHECK_STR(s->timeline, "d0: r[0,3)\nd1: a[3,5)\n");
    CHECK_STR(walk(s).names, "a r");
    small_close(s);
}

TEST(critical, ops_that_take_no_time) {
    check_case(
        (small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "z", "[0]", 1, 0) OP(2, "y", "[1]", 1, 0) OP(3, "b", "[2]", 1, 1)},
        "d0: a[0,2) z[2,2) y[2,2) b[2,3)\n", "b y z a");
    check_case((small_text){.nodes = OP(0, "a", "[]", 1, 0) OP(1, "b", "[]", 1, 0)}, "d0: a[0,0) b[0,0)\n", "a");
}

TEST(critical, no_room_and_no_ops) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[1]", 1, 1)});
    CHECK_STR(walk_with_room(s, 2).names, "c b");
    CHECK_STR(walk_with_room(s, 0).names, "");
    small_close(s);
    s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 3)});
    CHECK_EQ_INT(walk_with_room(s, 10).count, 0);
    small_close(s);
}

TEST(critical, a_plan_that_could_not_run_has_none) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3),
                                       .device_count = 2,
                                       .links = LINK("d1", "d0"),
                                       .device = "[0,1]"});
    CHECK_EQ_INT(s->result.reason, STW_INVALID_LINKS);
    CHECK_EQ_INT(walk_with_room(s, 10).count, 0);
    small_close(s);
}

/* ---- on random problems ---- */

/* The transfer began at once, or behind others that held its channel from the beginning; the first of them was a parameter. */
static bool began_with_a_parameter(const small *s, const stw_transfer *transfer) {
    const stw_timeline *l = &s->workspace->timeline;
    while (transfer->start_ps > transfer->ready_ps) {
        const stw_transfer *before = NULL;
        for (int32_t k = 0; k < l->transfer_count && before == NULL; k++) {
            const stw_transfer *x = &l->transfer[k];
            const bool same = stw_machine_link(s->machine, x->from, x->to)->channel ==
                              stw_machine_link(s->machine, transfer->from, transfer->to)->channel;
            if (same && x->end_ps == transfer->start_ps && x->start_ps < x->end_ps) before = x;
        }
        if (before == NULL) return false;
        transfer = before;
    }
    return stw_node_is_source(s->graph->kind[transfer->producer]);
}

/* A copy of a parameter arrived at this moment: one that the op reads, or, of the one that it updates, anywhere. */
static bool waited_for_a_parameter(const small *s, int32_t op, int64_t when) {
    const stw_timeline *l = &s->workspace->timeline;
    for (int32_t k = 0; k < l->transfer_count; k++) {
        const stw_transfer *x = &l->transfer[k];
        const bool counts = x->to == s->plan->device[op] || x->producer == s->graph->updates[op];
        if (counts && x->end_ps == when && began_with_a_parameter(s, x)) return true;
    }
    return false;
}

static bool is_behind_an_op_without_time(const small *s, int32_t t) {
    const stw_timeline *l = &s->workspace->timeline;
    for (int32_t k = 0; k < l->tasks->T; k++) {
        if (k != t && l->device[k] == l->device[t] && l->start_ps[k] == l->start_ps[t] && l->end_ps[k] == l->start_ps[t])
            return true;
    }
    return false;
}

static void check_path(const small *s, bool ordered) {
    const stw_timeline *l = &s->workspace->timeline;
    const path p = walk(s);
    if (l->tasks->T == 0) {
        CHECK_EQ_INT(p.count, 0);
        return;
    }
    if (!CHECK(p.count > 0)) return;
    CHECK_EQ_INT(l->end_ps[p.task[0]], s->result.step_ps);
    for (int32_t k = 1; k < p.count; k++) CHECK(l->end_ps[p.task[k]] <= l->start_ps[p.task[k - 1]]);
    for (int32_t k = 0; k < p.count; k++) {
        for (int32_t j = 0; j < k; j++) CHECK(p.task[k] != p.task[j]);
    }
    const int32_t first = p.task[p.count - 1];
    const bool explained = l->start_ps[first] == 0 || waited_for_a_parameter(s, l->tasks->task_node[first], l->start_ps[first]);
    CHECK(explained || (ordered && is_behind_an_op_without_time(s, first)));
}

TEST(critical, promises_on_random_problems) {
    const stw_rng seeds = stw_rng_create(511);
    for (int number = 0; number < 300; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = (int32_t)stw_rng_below(&rng, 60),
                                                    .device_count = 1 + number % 5,
                                                    .plain = number % 7 == 0,
                                                    .unlike = number % 2 == 1,
                                                    .buses = number % 3 == 0,
                                                    .free_links = number % 11 == 0,
                                                    .model = number % 4 == 0,
                                                    .contention = number % 6 == 5 ? "none" : "queue"});
        for (int plan = 0; plan < 4; plan++) {
            test_context("problem %d, plan %d", number, plan);
            remove_orders(s->plan);
            random_placement(&rng, s->simulator, s->plan);
            random_priorities(&rng, s->plan);
            if (plan == 3) random_orders(&rng, s->simulator, s->plan);
            small_run(s);
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            check_path(s, plan == 3);
        }
        small_close(s);
    }
    test_context("%s", "");
}
