/* method: topo, heft, etf, sct and steer: by hand, on random problems, and at the edges. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/runner.h"
#include "search/list.h"
#include "support/random.h"
#include "test.h"

static const char *const names[] = {"topo", "heft", "etf", "sct", "steer"};
enum { METHODS = sizeof names / sizeof names[0] };

/* Replaces the problem's plan by the method's and runs it; false if the method is not built in. `start` may be NULL. */
static bool run_with(small *s, const char *method, stw_settings settings, const stw_plan *start, stw_entry *out) {
    stw_runner *runner = NULL;
    stw_error error = {0};
    stw_result *result = calloc(1, sizeof *result);
    result->simulator = s->simulator;
    result->best = -1;
    CHECK_EQ_INT(stw_runner_create(s->simulator, &settings, NULL, &runner, &error), STW_OK);
    if (start != NULL) {
        stw_entry *entry = NULL;
        CHECK_EQ_INT(stw_entry_create("start", &entry, &error), STW_OK);
        CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &entry->plan, &error), STW_OK);
        CHECK_EQ_INT(stw_plan_assign(entry->plan, start, &error), STW_OK);
        CHECK_EQ_INT(stw_runner_add(runner, entry, result, &error), STW_OK);
    }
    const stw_budget budget = {.evaluations = settings.evaluations};
    const stw_status status =
        stw_runner_run(runner, stw_method_find(method), STW_RULE_UPWARD_RANK, budget, start != NULL, result, &error);
    CHECK_EQ_INT(status, STW_OK);
    CHECK_STR(error.message, "");
    stw_entry *entry = result->entry[result->count - 1];
    const bool made = entry->plan != NULL;
    if (out != NULL) *out = *entry;
    if (made) {
        stw_plan_destroy(s->plan);
        s->plan = entry->plan;
        entry->plan = NULL;
        small_run(s);
    } else {
        CHECK_CONTAINS(entry->reason, "built without");
    }
    stw_runner_destroy(runner);
    result->simulator = s->simulator;
    for (int32_t k = 0; k < result->count; k++) stw_entry_destroy(result->entry[k]);
    free(result);
    return made;
}

static void add_named(stw_runner *runner, const char *method, bool is_again, stw_result *result, const char *becomes) {
    stw_entry *entry = NULL;
    CHECK_EQ_INT(stw_entry_create(method, &entry, NULL), STW_OK);
    if (is_again) { /* the name of an entry may be one that was made unique before */
        snprintf(entry->again, sizeof entry->again, "%s", method);
        entry->candidate.method = entry->again;
    }
    CHECK_EQ_INT(stw_runner_add(runner, entry, result, NULL), STW_OK);
    CHECK_STR(entry->candidate.method, becomes);
}

static stw_settings plain(void) {
    stw_settings settings;
    CHECK_EQ_INT(stw_settings_read(NULL, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, &settings, NULL), STW_OK);
    settings.threads = 1;
    settings.budget_s = 0.0;
    return settings;
}

TEST(lists, no_two_entries_have_one_name) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 2), .device_count = 1});
    const stw_settings settings = plain();
    stw_runner *runner = NULL;
    stw_result result = {.simulator = s->simulator, .best = -1};
    CHECK_EQ_INT(stw_runner_create(s->simulator, &settings, NULL, &runner, NULL), STW_OK);
    add_named(runner, "lean", false, &result, "lean");
    add_named(runner, "lean", false, &result, "lean-2");
    add_named(runner, "lean", false, &result, "lean-3");
    add_named(runner, "lean", true, &result, "lean-4");
    add_named(runner, "lean-2", true, &result, "lean-2-2");
    stw_runner_destroy(runner);
    for (int32_t k = 0; k < result.count; k++) stw_entry_destroy(result.entry[k]);
    small_close(s);
}

static bool run_method(small *s, const char *method) { return run_with(s, method, plain(), NULL, NULL); }

static void check_together(const small *s) {
    for (int32_t k = 0; k < s->simulator->pair_count; k++)
        CHECK_EQ_INT(s->plan->device[s->simulator->pair[k][0]], s->plan->device[s->simulator->pair[k][1]]);
}

/* ---- by hand ---- */

TEST(lists, fork_join) {
    /* Two devices, a microsecond per byte; see tests/plan/test_steer.c. */
    for (int m = 1; m < METHODS; m++) {
        small *s = small_open((small_text){
            .nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 3) OP(2, "c", "[0]", 1, 3) OP(3, "d", "[1,2]", 1, 1),
            .device_count = 2});
        test_context("%s", names[m]);
        if (run_method(s, names[m])) CHECK_NEAR(s->result.step_s, 7e-6, 1e-15);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(etf, takes_what_can_start_first) {
    /* After a, b can start at 2 and long at 1 (d1): long goes first although b ranks higher; then c, on d1 after long or when b
     * has come to d0. Etf by hand: a[0,2) d0, long[0,1) d1, b[2,5) d0, c: d0 at 5. */
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 9, 2) OP(1, "long", "[]", 9, 1) OP(2, "b", "[0]", 9, 3) OP(3, "c", "[2]", 9, 1),
                     .device_count = 2});
    run_method(s, "etf");
    CHECK_STR(s->timeline, "d0: a[0,2) b[2,5) c[5,6)\nd1: long[0,1)\n");
    small_close(s);
}

TEST(etf, an_op_starts_once_it_has_paid) {
    /* What receives pays 10. d1 is free at 20 and has had a since 3, but c would only begin at 30 there: it waits for d0.
     *
     *   d0:  a[0,2) b[2,21) c[21,26)
     *   d1:  x[0,20) */
    static const char *const both[] = {"etf", "sct"};
    for (int k = 0; k < 2; k++) {
        small *s = small_open((small_text){
            .nodes = OP(0, "a", "[]", 1, 2) OP(1, "b", "[0]", 1, 19) OP(2, "c", "[0]", 1, 5) OP(3, "x", "[]", 1, 20),
            .links = LINK_WITH("d0", "d1", 1e6, 0, ",'receive_us':10") LINK_WITH("d1", "d0", 1e6, 0, ",'receive_us':10"),
            .device_count = 2});
        test_context("%s", both[k]);
        if (run_method(s, both[k])) CHECK_NEAR(s->result.step_s, 26e-6, 1e-15);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(topo, fills_a_device_up_to_its_share) {
    /* Six ops of 10 bytes on three devices, the largest is 10: 60 / 3 + 10 = 30 bytes a device, three ops. By time (6 us in all):
     * two each. What comes of it is the same step here, a chain; the first of equals is kept. */
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 10, 1) OP(1, "b", "[0]", 10, 1) OP(2, "c", "[1]", 10, 1)
                                           OP(3, "d", "[2]", 10, 1) OP(4, "e", "[3]", 10, 1) OP(5, "f", "[4]", 10, 1),
                                       .device_count = 3});
    run_method(s, "topo");
    for (int32_t i = 0; i < 6; i++) CHECK_EQ_INT(s->plan->device[i], i / 3); /* one transfer; by time there are two */
    small_close(s);
}

/* ---- random problems ---- */

TEST(lists, valid_on_random_problems) {
    const stw_rng seeds = stw_rng_create(81);
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 50,
                                                    .device_count = 1 + number % 5,
                                                    .unlike = number % 2 == 1,
                                                    .buses = number % 3 == 0,
                                                    .contention = number % 7 == 0 ? "none" : NULL});
        for (int m = 0; m < METHODS; m++) {
            test_context("problem %d, %s", number, names[m]);
            if (!run_method(s, names[m])) continue;
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            check_together(s);
        }
        small_close(s);
    }
    test_context("%s", "");
}

TEST(lists, steer_keeps_the_better_of_grid_and_start) {
    const stw_rng seeds = stw_rng_create(82);
    for (int number = 0; number < 25; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 2 + number % 4});
        test_context("problem %d", number);
        run_method(s, "etf");
        const double start_s = s->result.step_s;
        stw_plan *start = NULL;
        CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &start, NULL), STW_OK);
        CHECK_EQ_INT(stw_plan_assign(start, s->plan, NULL), STW_OK);
        run_with(s, "steer", plain(), start, NULL);
        CHECK(s->result.step_s <= start_s * (1.0 + 1e-12));
        run_with(s, "heft", plain(), start, NULL);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        stw_plan_destroy(start);
        small_close(s);
    }
    test_context("%s", "");
}

/* Evaluations as the budget: the same plan from any number of threads, and no more evaluations than allowed. */
TEST(lists, repeat_exactly) {
    stw_rng rng = stw_rng_create(83);
    small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 4});
    int32_t *first = calloc((size_t)s->graph->N, sizeof *first);
    for (int m = 0; m < METHODS; m++) {
        for (int64_t evaluations = 1; evaluations < 200; evaluations = 6 * evaluations + 1) {
            test_context("%s, %d evaluations", names[m], (int)evaluations);
            stw_settings settings = plain();
            stw_entry entry;
            settings.evaluations = evaluations;
            if (!run_with(s, names[m], settings, NULL, &entry)) continue;
            CHECK(entry.candidate.evaluations <= evaluations);
            memcpy(first, s->plan->device, (size_t)s->graph->N * sizeof *first);
            settings.threads = 3;
            run_with(s, names[m], settings, NULL, NULL);
            CHECK(memcmp(first, s->plan->device, (size_t)s->graph->N * sizeof *first) == 0);
        }
    }
    test_context("%s", "");
    free(first);
    small_close(s);
}

/* ---- edges ---- */

TEST(lists, placement_that_is_not_theirs_stays) {
    stw_rng rng = stw_rng_create(84);
    small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 3});
    stw_plan *start = NULL;
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &start, NULL), STW_OK);
    random_placement(&rng, s->simulator, start);
    stw_settings settings = plain();
    settings.tasks = STW_TASK_SCHEDULE;
    for (int m = 0; m < METHODS; m++) {
        test_context("%s", names[m]);
        if (!run_with(s, names[m], settings, start, NULL)) continue;
        CHECK(memcmp(s->plan->device, start->device, (size_t)s->graph->N * sizeof *start->device) == 0);
        run_with(s, names[m], settings, NULL, NULL);
        for (int32_t i = 0; i < s->graph->N; i++) CHECK_EQ_INT(s->plan->device[i], 0); /* single */
    }
    test_context("%s", "");
    stw_plan_destroy(start);
    small_close(s);
}

TEST(lists, no_ops_one_op_many_devices) {
    for (int m = 0; m < METHODS; m++) {
        test_context("%s", names[m]);
        small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 4), .device_count = 3});
        if (run_method(s, names[m])) CHECK_NEAR(s->result.step_s, 0.0, 0.0);
        small_close(s);
        s = small_open((small_text){.nodes = OP(0, "a", "[]", 0, 0), .device_count = 1});
        if (run_method(s, names[m])) CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
        stw_rng rng = stw_rng_create(85);
        s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 64});
        if (run_method(s, names[m])) CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(lists, missing_links) {
    /* Two islands, and the ops hang together: only within one island is there a valid plan. Times are such that all of an
     * island's devices are wanted. */
    const char *const devices = DEVICE("d0", "h200", 9999) DEVICE("d1", "h200", 9999) DEVICE("d2", "h200", 9999)
        DEVICE("d3", "h200", 9999) DEVICE("d4", "h200", 9999);
    const char *const links = LINK("d0", "d1") LINK("d1", "d0") LINK("d2", "d3") LINK("d3", "d2") LINK("d2", "d4")
        LINK("d4", "d2") LINK("d3", "d4") LINK("d4", "d3") LINK("d1", "d2");
    for (int m = 0; m < METHODS; m++) {
        small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[]", 1, 20) OP(2, "b", "[]", 1, 20)
                                               OP(3, "c", "[0]", 1, 20) OP(4, "d", "[1,2]", 1, 20) OP(5, "e", "[2,3]", 1, 20)
                                                   OP(6, "f", "[4,5,0]", 1, 20),
                                           .devices = devices,
                                           .links = links,
                                           .device_count = 5});
        test_context("%s", names[m]);
        if (run_method(s, names[m])) {
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            if (m > 0) CHECK_NEAR(s->result.step_s, 61e-6, 3e-6); /* three rounds of 20 and a transfer or two */
        }
        small_close(s);
    }
    test_context("%s", "");
}

TEST(lists, memory_is_not_exceeded_where_avoidable) {
    /* Eight independent branches with a parameter of 40 bytes; a device holds three of them. d0 is much faster. */
    char nodes[4000] = "";
    for (int k = 0; k < 8; k++) {
        sprintf(nodes + strlen(nodes), "{'id':%d,'name':'p%d','op':'parameter','inputs':[],'dtype':'u8','shape':[40]},", 2 * k,
                k);
        sprintf(nodes + strlen(nodes),
                "{'id':%d,'name':'a%d','op':'relu','inputs':[%d],'dtype':'u8','shape':[1],'us':{'h200':1,'cpu8':50}},", 2 * k + 1,
                k, 2 * k);
    }
    for (int m = 1; m < METHODS; m++) {
        small *s =
            small_open((small_text){.nodes = nodes,
                                    .devices = DEVICE("d0", "h200", 130) DEVICE("d1", "cpu8", 130) DEVICE("d2", "cpu8", 130),
                                    .device_count = 3});
        test_context("%s", names[m]);
        if (run_method(s, names[m])) CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(lists, a_cancelled_search_still_gives_a_plan) {
    stw_rng rng = stw_rng_create(86);
    small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 3});
    for (int m = 0; m < METHODS; m++) {
        stw_runner *runner = NULL;
        stw_result result = {.simulator = s->simulator, .best = -1};
        stw_watch watch = {0};
        stw_settings settings = plain();
        test_context("%s", names[m]);
        CHECK_EQ_INT(stw_cancel_create(&watch.cancel, NULL), STW_OK);
        stw_cancel_request(watch.cancel);
        CHECK_EQ_INT(stw_runner_create(s->simulator, &settings, &watch, &runner, NULL), STW_OK);
        CHECK_EQ_INT(stw_runner_run(runner, stw_method_find(names[m]), -1, (stw_budget){0}, false, &result, NULL), STW_OK);
        const bool made = result.entry[0]->plan != NULL;
        CHECK(made || strcmp(names[m], "sct") == 0);
        if (made) CHECK_EQ_INT(result.entry[0]->score.reason, STW_VALID);
        stw_entry_destroy(result.entry[0]);
        stw_runner_destroy(runner);
        stw_cancel_destroy(watch.cancel);
    }
    test_context("%s", "");
    small_close(s);
}
