/* explain: the critical path and why devices idle, on drawn timelines and by what must hold for every plan. */
#include <stdio.h>
#include <string.h>

#include "explain/explain.h"
#include "support/random.h"
#include "test.h"

static stw_explanation *explain(const small *s) {
    stw_explanation *x = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_explain(s->simulator, s->plan, NULL, NULL, &x, &error), STW_OK);
    CHECK_STR(error.message, "");
    return x;
}

/* The path as a line: "compute a 0-2, transfer a d0>d1 2-6, ..."; waits name what was in the way and, in brackets, what waited.
 */
static void draw_path(const stw_explanation *x, char *out, size_t size) {
    stw_path_part part;
    size_t used = 0;
    out[0] = '\0';
    for (int32_t k = 0; stw_explanation_path(x, k, &part) && used < size; k++) {
        const stw_str *names = x->simulator->graph->node_name;
        used += (size_t)snprintf(out + used, size - used, "%s%s %s", k > 0 ? ", " : "", stw_path_kind_names[part.kind],
                                 names[part.node].p);
        if (part.waiting >= 0 && used < size) used += (size_t)snprintf(out + used, size - used, " (%s)", names[part.waiting].p);
        if (part.from != part.to && used < size)
            used += (size_t)snprintf(out + used, size - used, " d%d>d%d", part.from, part.to);
        if (used < size)
            used += (size_t)snprintf(out + used, size - used, " %g-%g", (double)part.start_ps / 1e6, (double)part.end_ps / 1e6);
    }
}

static void draw_idle(const stw_explanation *x, char *out, size_t size) {
    static const char *const kinds[] = {"ops", "channel", "transfer", "done"};
    stw_idle idle;
    size_t used = 0;
    out[0] = '\0';
    for (int32_t k = 0; stw_explanation_idle(x, k, &idle) && used < size; k++) {
        used += (size_t)snprintf(out + used, size - used, "%sd%d %s %g", k > 0 ? ", " : "", idle.device, kinds[idle.kind],
                                 (double)idle.ps / 1e6);
        if (idle.node >= 0 && used < size)
            used += (size_t)snprintf(out + used, size - used, " d%d %s", idle.from, x->simulator->graph->node_name[idle.node].p);
    }
}

static void check_case(small_text text, const char *timeline, const char *path, const char *idle) {
    char drawn[1000];
    small *s = small_open(text);
    CHECK_STR(s->timeline, timeline);
    stw_explanation *x = explain(s);
    if (x == NULL) return;
    draw_path(x, drawn, sizeof drawn);
    CHECK_STR(drawn, path);
    draw_idle(x, drawn, sizeof drawn);
    CHECK_STR(drawn, idle);
    stw_explanation_destroy(x);
    small_close(s);
}

/* ---- drawn ---- */

TEST(explain_path, chain) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3)}, "d0: a[0,2) b[2,5)\n",
               "compute a 0-2, compute b 2-5", "");
}

TEST(explain_path, a_busy_device_is_named) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[]", 1, 3) OP(2, "c", "[]", 1, 1)},
               "d0: a[0,2) b[2,5) c[5,6)\n", "device a (c) 0-2, device b (c) 2-5, compute c 5-6", "");
}

TEST(explain_path, a_transfer) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[]", 1, 1),
                            .device_count = 2,
                            .device = "[0,1,1]"},
               "d0: a[0,2)\nd1: c[0,1) b[6,9)\nd0>d1: a[2,6)\n", "compute a 0-2, transfer a d0>d1 2-6, compute b 6-9",
               "d0 done 7, d1 transfer 4 d0 a, d1 ops 1 d0 a");
}

/* b could go at 2, when a is on the channel. */
TEST(explain_path, a_busy_channel_is_named) {
    check_case(
        (small_text){.nodes = OP(0, "a", "[]", 5, 1) OP(1, "b", "[]", 2, 1) OP(2, "c", "[0]", 1, 1) OP(3, "e", "[1]", 1, 1),
                     .device_count = 2,
                     .device = "[0,0,1,1]"},
        "d0: a[0,1) b[1,2)\nd1: c[6,7) e[8,9)\nd0>d1: a[1,6) b[6,8)\n",
        "device a (b) 0-1, compute b 1-2, channel a (b) d0>d1 2-6, transfer b d0>d1 6-8, compute e 8-9",
        "d0 done 7, d1 transfer 6 d0 a, d1 ops 1 d0 a");
}

/* The order has c before b, which is ready from the start. */
TEST(explain_path, a_strict_order_is_named) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[]", 1, 3) OP(2, "c", "[0]", 1, 1),
                            .device_count = 2,
                            .device = "[0,1,1]",
                            .order = "[null,[2,1]]"},
               "d0: a[0,2)\nd1: c[6,7) b[7,10)\nd0>d1: a[2,6)\n", "order c (b) 0-6, device c (b) 6-7, compute b 7-10",
               "d0 done 8, d1 transfer 4 d0 a, d1 ops 2 d0 a");
}

TEST(explain_path, an_update_waits_for_a_copy) {
    check_case((small_text){.nodes = SOURCE(0, "w", "parameter", 3) OP_WITH(1, "u", "[]", 3, 1, ",'updates':0")
                                OP(2, "r", "[0,1]", 1, 4),
                            .device_count = 2,
                            .device = "[0,0,1]"},
               "d0: u[3,4)\nd1: r[7,11)\nd0>d1: w[0,3) u[4,7)\n",
               "transfer w d0>d1 0-3, compute u 3-4, transfer u d0>d1 4-7, compute r 7-11",
               "d0 done 7, d0 transfer 3 d0 w, d1 ops 4 d0 u, d1 transfer 3 d0 u");
}

/* Sending takes half a microsecond of a's device, receiving one of b's. */
TEST(explain_path, charges) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "b", "[0]", 1, 3),
                            .device_count = 2,
                            .links = LINK_WITH("d0", "d1", 1e6, 0, ",'send_us':0.5,'receive_us':1"),
                            .device = "[0,1]"},
               "d0: a[0,2.5)\nd1: b[6.5,10.5)\nd0>d1: a[2.5,6.5)\n",
               "compute a 0-2, charge a 2-2.5, transfer a d0>d1 2.5-6.5, compute b 6.5-9.5, charge b 9.5-10.5",
               "d0 done 8, d1 transfer 4 d0 a, d1 ops 2.5 d0 a");
}

TEST(explain_path, ops_that_take_no_time) {
    check_case((small_text){.nodes = OP(0, "a", "[]", 4, 2) OP(1, "z", "[0]", 1, 0) OP(2, "b", "[1]", 1, 1),
                            .device_count = 2,
                            .device = "[0,1,1]"},
               "d0: a[0,2)\nd1: z[6,6) b[6,7)\nd0>d1: a[2,6)\n", "compute a 0-2, transfer a d0>d1 2-6, compute b 6-7",
               "d0 done 5, d1 transfer 4 d0 a, d1 ops 2 d0 a");
}

TEST(explain_path, no_ops) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 3)});
    stw_explanation *x = explain(s);
    stw_path_part part;
    CHECK_EQ_INT(stw_explanation_parts(x).step_ps, 0);
    CHECK(!stw_explanation_path(x, 0, &part));
    stw_explanation_destroy(x);
    small_close(s);
}

TEST(explain_path, an_invalid_plan_has_none) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3),
                                       .device_count = 2,
                                       .links = LINK("d1", "d0"),
                                       .device = "[0,1]"});
    stw_explanation *x;
    stw_error error = {0};
    CHECK_EQ_INT(stw_explain(s->simulator, s->plan, NULL, NULL, &x, &error), STW_ERROR_NO_PLAN);
    CHECK(strstr(error.message, "no link") != NULL);
    small_close(s);
}

/* ---- every plan ---- */

typedef struct {
    int64_t parts[STW_PATH_KINDS]; /* how many plans had such a part */
    int64_t idle[4];
    int64_t lacking;
} seen;

/* Parts touch, from the beginning to the end; waits name something else; sums are sums. */
static void check_parts(const stw_explanation *x, int64_t step_ps, seen *n) {
    const stw_step_parts parts = stw_explanation_parts(x);
    stw_path_part part;
    stw_path_cost cost;
    int64_t end = 0, sum[STW_PATH_KINDS] = {0}, all = 0, path = 0, delay = 0;
    for (int32_t k = 0; stw_explanation_path(x, k, &part); k++) {
        CHECK_EQ_INT(part.start_ps, end);
        CHECK(part.end_ps > part.start_ps);
        CHECK_EQ_INT(part.waiting >= 0, part.kind >= STW_PATH_DEVICE);
        end = part.end_ps;
        sum[part.kind] += part.end_ps - part.start_ps;
    }
    CHECK_EQ_INT(end, step_ps);
    CHECK_EQ_INT(parts.step_ps, step_ps);
    for (int k = 0; k < STW_PATH_KINDS; k++) {
        CHECK_EQ_INT(parts.ps[k], sum[k]);
        all += parts.ps[k];
        n->parts[k] += sum[k] > 0;
    }
    CHECK_EQ_INT(all, step_ps);
    for (int32_t k = 0; stw_explanation_cost(x, k, &cost); k++) {
        path += cost.path_ps;
        delay += cost.delay_ps;
    }
    CHECK_EQ_INT(path, sum[STW_PATH_COMPUTE] + sum[STW_PATH_CHARGE] + sum[STW_PATH_TRANSFER]);
    CHECK_EQ_INT(delay, sum[STW_PATH_DEVICE] + sum[STW_PATH_CHANNEL] + sum[STW_PATH_ORDER]);
}

/* What a part says was so in the run: found by looking at all tasks and transfers, not by the tables of the walk. */
static void check_truth(const stw_explanation *x, const small *s) {
    const stw_timeline *l = &s->workspace->timeline;
    const int32_t *task_of = l->tasks->task_of;
    stw_path_part part;
    for (int32_t k = 0; stw_explanation_path(x, k, &part); k++) {
        const int32_t t = task_of[part.node];
        bool found = false;
        if (part.kind == STW_PATH_COMPUTE || part.kind == STW_PATH_CHARGE || part.kind == STW_PATH_DEVICE)
            CHECK(t >= 0 && l->start_ps[t] <= part.start_ps && l->end_ps[t] >= part.end_ps && l->device[t] == part.from);
        if (part.kind == STW_PATH_CHARGE) CHECK_EQ_INT(part.end_ps - part.start_ps, l->charge_ps[t]);
        for (int32_t d = 0; d < l->transfer_count; d++) {
            const stw_transfer *y = &l->transfer[d];
            found |= y->producer == part.node && y->from == part.from && y->to == part.to && y->start_ps <= part.start_ps &&
                     y->end_ps >= part.end_ps;
        }
        if (part.kind == STW_PATH_TRANSFER || part.kind == STW_PATH_CHANNEL) CHECK(found);
        for (int32_t o = 0; o < l->tasks->T && part.kind == STW_PATH_ORDER; o++)
            CHECK(l->device[o] != part.from || l->end_ps[o] <= part.start_ps || l->start_ps[o] >= part.end_ps);
        if (part.kind == STW_PATH_ORDER) CHECK(s->plan->order[part.from] != NULL && l->start_ps[t] >= part.end_ps);
    }
}

static void check_idle(const stw_explanation *x, const small *s, seen *n) {
    int64_t sum[STW_MAX_DEVICES] = {0};
    stw_idle idle;
    stw_device_time time;
    for (int32_t k = 0; stw_explanation_idle(x, k, &idle); k++) {
        sum[idle.device] += idle.ps;
        n->idle[idle.kind]++;
        CHECK(idle.ps > 0 && idle.times > 0 && idle.node_ps <= idle.ps);
        CHECK_EQ_INT(idle.node >= 0, idle.kind != STW_IDLE_DONE);
    }
    for (int32_t d = 0; stw_explanation_device(x, d, &time); d++) {
        CHECK_EQ_INT(time.busy_ps, s->result.busy_ps[d]);
        CHECK_EQ_INT(time.charged_ps, s->result.charged_ps[d]);
        CHECK_EQ_INT(time.busy_ps + time.idle_ps, s->result.step_ps);
        CHECK_EQ_INT(sum[d], time.idle_ps);
    }
}

static small *open_problem(stw_rng *rng, int number) {
    return random_open(rng, (random_shape){.nodes = 1 + (int32_t)stw_rng_below(rng, 70),
                                           .device_count = 1 + number % 5,
                                           .plain = number % 7 == 0,
                                           .wide = number % 13 == 0,
                                           .unlike = number % 2 == 1,
                                           .buses = number % 3 == 0,
                                           .free_links = number % 11 == 0,
                                           .charges = number % 4 < 2,
                                           .model = number % 5 == 0,
                                           .contention = number % 6 == 5 ? "none" : "queue"});
}

TEST(explain_path, two_thousand_random_plans_add_up) {
    const stw_rng seeds = stw_rng_create(90210);
    seen n = {0};
    for (int number = 0; number < 500; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        for (int plan = 0; plan < 4; plan++) { /* free, fused, ordered, both with little memory */
            test_context("problem %d, plan %d", number, plan);
            unfuse_and_free(s->plan);
            random_placement(&rng, s->simulator, s->plan);
            random_priorities(&rng, s->plan);
            if (plan % 2 == 1) random_groups(&rng, s->simulator, s->plan, 30);
            if (plan >= 2) random_orders(&rng, s->simulator, s->plan);
            small_set_memory(s, plan == 3 ? 20 : INT64_C(1) << 40);
            small_run(s);
            CHECK(s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY);
            n.lacking += s->result.reason == STW_INVALID_MEMORY;
            stw_explanation *x = explain(s);
            if (x == NULL) continue;
            check_parts(x, s->result.step_ps, &n);
            check_truth(x, s);
            check_idle(x, s, &n);
            stw_explanation_destroy(x);
        }
        small_close(s);
    }
    test_context("%s", "");
    for (int k = 0; k < STW_PATH_KINDS; k++) CHECK(n.parts[k] > 50); /* each was put to the test */
    for (int k = 0; k < 4; k++) CHECK(n.idle[k] > 50);
    CHECK(n.lacking > 50);
}
