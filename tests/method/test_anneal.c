/* method: annealing keeps what it promises: never worse than its start, what it may not decide stays, the same plan from any
 * number of threads, and an end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "method/anneal/affinity.h"
#include "method/anneal/anneal.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "support/random.h"
#include "test.h"
#include "train/decode.h"

enum { PLACEMENT = STW_TASK_PLACEMENT, SCHEDULE = STW_TASK_SCHEDULE, BOTH = PLACEMENT | SCHEDULE, MOST_THREADS = 8 };

typedef struct {
    unsigned tasks;
    int32_t rule; /* or -1 */
    stw_objective objective;
    int64_t evaluations; /* 0: by time */
    double seconds;
    int32_t threads; /* 0 stands for 1 */
    bool without_start, cancelled;
} setting;

typedef struct {
    stw_plan *plan;
    stw_score before, after; /* of the start (unless there is none) and of the plan */
    stw_score told;          /* of the last plan that was told of; of the start if none was */
    int64_t evaluations;
    bool repaired;
} outcome;

static stw_score score_of(const stw_search *search, const small *s, const stw_plan *plan) {
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &evaluation, NULL), STW_OK);
    return stw_score_of(search->objective, s->workspace, &evaluation);
}

static void hear(void *context, const stw_plan *plan, const stw_score *score) {
    (void)plan;
    *(stw_score *)context = *score;
}

/* Anneals from the plan of `s`, which stays as it is. */
static outcome anneal(const small *s, setting how) {
    const int32_t threads = how.threads == 0 ? 1 : how.threads;
    const stw_plan *const start[] = {s->plan};
    const atomic_bool cancelled = how.cancelled;
    stw_workspace *workspace[MOST_THREADS] = {0};
    stw_arena scratch[MOST_THREADS], arena;
    stw_pool *pool;
    stw_error error = {0};
    outcome out = {0};
    CHECK_EQ_INT(stw_pool_create(threads, &pool, &error), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    for (int32_t k = 0; k < threads; k++) {
        CHECK_EQ_INT(stw_workspace_create(s->simulator, &workspace[k], &error), STW_OK);
        CHECK_EQ_INT(stw_arena_create(&scratch[k], &error), STW_OK);
    }
    stw_search search = {
        .simulator = s->simulator,
        .objective = how.objective,
        .tasks = how.tasks,
        .rule = how.rule,
        .seed = 7,
        .unit_count = 512,
        .budget = {.evaluations = how.evaluations, .until_s = how.seconds > 0.0 ? stw_now_s() + how.seconds : 0.0},
        .pool = pool,
        .workspace = workspace,
        .scratch = scratch,
        .arena = arena,
        .start = start,
        .start_count = how.without_start ? 0 : 1,
        .cancelled = &cancelled,
        .found = hear,
        .watch_context = &out.told,
    };
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &out.plan, &error), STW_OK);
    out.before = out.told = score_of(&search, s, s->plan);
    CHECK_EQ_INT(stw_method_anneal.run(&search, out.plan, &error), STW_OK);
    CHECK_STR(error.message, "");
    out.after = score_of(&search, s, out.plan);
    out.evaluations = (int64_t)atomic_load(&search.evaluations);
    out.repaired = search.outcome.repaired;
    for (int32_t k = 0; k < threads; k++) {
        stw_workspace_destroy(workspace[k]);
        stw_arena_destroy(&scratch[k]);
    }
    stw_arena_destroy(&arena);
    stw_pool_destroy(pool);
    return out;
}

static small *open_problem(stw_rng *rng, int number) {
    small *s = random_open(rng, (random_shape){.nodes = 10 + (int32_t)stw_rng_below(rng, 50),
                                               .device_count = 2 + number % 3,
                                               .plain = number % 7 == 0,
                                               .unlike = number % 2 == 1,
                                               .buses = number % 3 == 0,
                                               .model = number % 4 == 0,
                                               .contention = number % 6 == 5 ? "none" : "queue"});
    random_placement(rng, s->simulator, s->plan);
    random_priorities(rng, s->plan);
    return s;
}

/* Ops, parameters and buffers: the device of anything else means nothing. */
static bool are_placed_alike(const stw_plan *a, const stw_plan *b) {
    for (int32_t i = 0; i < a->graph->N; i++) {
        const uint8_t kind = a->graph->kind[i];
        if ((kind == STW_NODE_OP || stw_node_is_resident(kind)) && a->device[i] != b->device[i]) return false;
    }
    return true;
}

static bool have_equal_priorities(const stw_plan *a, const stw_plan *b) {
    return memcmp(a->priority, b->priority, (size_t)a->graph->N * sizeof *a->priority) == 0;
}

/* ---- never worse ---- */

TEST(anneal, is_never_worse_than_its_start) {
    const stw_rng seeds = stw_rng_create(541);
    int better = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        const outcome o =
            anneal(s, (setting){.tasks = BOTH, .rule = -1, .objective = (stw_objective)(number % 3), .evaluations = 300});
        CHECK_EQ_INT(o.after.reason, STW_VALID);
        CHECK(!stw_score_is_better(&o.before, &o.after));
        CHECK(!o.repaired);
        better += stw_score_is_better(&o.after, &o.before);
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(better > 35);
}

/* A chain of 60 ops on one device: no plan is better, and each cut makes it worse by less than a thousandth. */
TEST(anneal, a_good_start_is_kept) {
    char nodes[60 * 120] = "";
    for (int k = 0; k < 60; k++) {
        const size_t used = strlen(nodes);
        char input[20] = "";
        if (k > 0) snprintf(input, sizeof input, "%d", k - 1);
        snprintf(nodes + used, sizeof nodes - used,
                 "{'id':%d,'name':'n%d','op':'relu','inputs':[%s],'dtype':'u8','shape':[1],'us':{'h200':50}},", k, k, input);
    }
    small *s = small_open((small_text){.nodes = nodes, .device_count = 4});
    for (int64_t evaluations = 40; evaluations <= 320; evaluations *= 2) {
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = evaluations});
        CHECK_NEAR(o.after.step_s, 3e-3, 1e-15);
        stw_plan_destroy(o.plan);
    }
    small_close(s);
}

/* Two chains without a byte between them: the best is one on each device. */
TEST(anneal, finds_the_obvious) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 9, 5) OP(1, "b", "[0]", 9, 5) OP(2, "c", "[]", 9, 5) OP(3, "d", "[2]", 9, 5),
                     .device_count = 2});
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 200});
    CHECK_NEAR(o.before.step_s, 20e-6, 1e-15);
    CHECK_NEAR(o.after.step_s, 10e-6, 1e-15);
    stw_plan_destroy(o.plan);
    small_close(s);
}

TEST(anneal, finds_the_order) {
    /* x before y: the other device has most to do after x. Devices are not to be decided. */
    small *s = small_open((small_text){
        .nodes = OP(0, "y", "[]", 0, 4) OP(1, "x", "[]", 0, 1) OP(2, "z", "[1]", 0, 9), .device_count = 2, .device = "[0,0,1]"});
    const outcome o = anneal(s, (setting){.tasks = SCHEDULE, .rule = -1, .evaluations = 200});
    CHECK_NEAR(o.before.step_s, 14e-6, 1e-15);
    CHECK_NEAR(o.after.step_s, 10e-6, 1e-15);
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* ---- what may be decided ---- */

TEST(anneal, leaves_alone_what_it_may_not_decide) {
    const stw_rng seeds = stw_rng_create(542);
    int moved = 0, reordered = 0;
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        test_context("problem %d", number);
        const outcome schedule = anneal(s, (setting){.tasks = SCHEDULE, .rule = -1, .evaluations = 150});
        const outcome placement = anneal(s, (setting){.tasks = PLACEMENT, .rule = -1, .evaluations = 150});
        CHECK(are_placed_alike(schedule.plan, s->plan));
        CHECK(have_equal_priorities(placement.plan, s->plan));
        CHECK(!stw_score_is_better(&schedule.before, &schedule.after));
        CHECK(!stw_score_is_better(&placement.before, &placement.after));
        moved += !are_placed_alike(placement.plan, s->plan);
        reordered += !have_equal_priorities(schedule.plan, s->plan);
        stw_plan_destroy(schedule.plan);
        stw_plan_destroy(placement.plan);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(moved > 20 && reordered > 10);
}

static void apply_rule(const small *s, stw_plan *plan, int rule) {
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_rule_apply((stw_rule)rule, s->costs, &s->simulator->unfused, plan, arena, NULL), STW_OK);
    stw_arena_destroy(&arena);
}

TEST(anneal, a_rule_goes_with_every_placement) {
    const stw_rng seeds = stw_rng_create(543);
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        const int rule = number % STW_RULE_COUNT;
        test_context("problem %d, %s", number, stw_rule_name[rule]);
        apply_rule(s, s->plan, rule);
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = rule, .evaluations = 120, .without_start = number % 2 == 1});
        stw_plan *expected;
        CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &expected, NULL), STW_OK);
        CHECK_EQ_INT(stw_plan_assign(expected, o.plan, NULL), STW_OK);
        apply_rule(s, expected, rule);
        CHECK(have_equal_priorities(expected, o.plan));
        stw_plan_destroy(expected);
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
}

/* The schedule alone, and that by a rule: nothing is left to decide. */
TEST(anneal, nothing_to_decide) {
    stw_rng rng = stw_rng_create(544);
    small *s = open_problem(&rng, 1);
    apply_rule(s, s->plan, STW_RULE_FIFO);
    const outcome o = anneal(s, (setting){.tasks = SCHEDULE, .rule = STW_RULE_FIFO, .evaluations = 100});
    CHECK(are_placed_alike(o.plan, s->plan));
    CHECK(have_equal_priorities(o.plan, s->plan));
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* ---- memory ---- */

TEST(anneal, a_start_that_does_not_fit_becomes_valid) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 6) SOURCE(1, "q", "parameter", 6)
                                           OP(2, "a", "[0]", 1, 1) OP(3, "b", "[1]", 1, 1) OP(4, "c", "[2,3]", 1, 1),
                                       .devices = DEVICE("d0", "h200", 10) DEVICE("d1", "h200", 10),
                                       .device_count = 2});
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 300});
    CHECK_EQ_INT(o.before.reason, STW_INVALID_MEMORY);
    CHECK_EQ_INT(o.after.reason, STW_VALID);
    CHECK(o.repaired);
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* Memory for half of what the start needs, or a bit more. */
TEST(anneal, comes_nearer_to_valid) {
    const stw_rng seeds = stw_rng_create(545);
    int valid = 0;
    for (int number = 0; number < 20; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        for (int32_t i = 0; i < s->graph->N; i++) s->plan->device[i] = 0;
        small_run(s);
        const int64_t peak = s->result.worst_peak_bytes;
        for (int32_t d = 0; d < s->machine->device_count; d++) s->machine->device[d].memory_bytes = peak / 2 + peak / 5;
        test_context("problem %d", number);
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 300});
        if (peak > 0) CHECK_EQ_INT(o.before.reason, STW_INVALID_MEMORY);
        CHECK(o.after.reason == STW_VALID || o.after.lacks <= o.before.lacks);
        CHECK_EQ_INT(o.repaired, o.before.reason != STW_VALID && o.after.reason == STW_VALID);
        valid += o.after.reason == STW_VALID;
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(valid > 10);
}

/* ---- threads, budgets, ends ---- */

TEST(anneal, the_number_of_threads_changes_nothing) {
    const stw_rng seeds = stw_rng_create(546);
    for (int number = 0; number < 8; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        setting how = {
            .tasks = BOTH, .rule = number == 5 ? STW_RULE_UPWARD_RANK : -1, .evaluations = 400, .without_start = number == 6};
        test_context("problem %d", number);
        const outcome one = anneal(s, how);
        for (how.threads = 2; how.threads <= 8; how.threads += 6) {
            const outcome more = anneal(s, how);
            CHECK(are_placed_alike(one.plan, more.plan));
            CHECK(have_equal_priorities(one.plan, more.plan));
            CHECK_EQ_INT(one.evaluations, more.evaluations);
            stw_plan_destroy(more.plan);
        }
        stw_plan_destroy(one.plan);
        small_close(s);
    }
    test_context("%s", "");
}

/* Eight evaluations are for the starts of the chains, whatever the budget. Without a start, the methods that make one build at
 * least one variant each as long as none is valid, and evaluate it once more: two for each of them. */
TEST(anneal, keeps_to_its_evaluations) {
    static const int64_t budgets[] = {1, 2, 7, 8, 9, 30, 100, 1000};
    stw_rng rng = stw_rng_create(547);
    small *s = open_problem(&rng, 2);
    for (int k = 0; k < 8; k++) {
        test_context("%d evaluations", (int)budgets[k]);
        outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = budgets[k]});
        CHECK(o.evaluations <= (budgets[k] < 8 ? 8 : budgets[k]));
        if (budgets[k] >= 100) CHECK(o.evaluations > budgets[k] / 2);
        CHECK(!stw_score_is_better(&o.before, &o.after));
        stw_plan_destroy(o.plan);
        o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = budgets[k], .without_start = true});
        CHECK(o.evaluations <= budgets[k] + 8 + 2 * 10);
        CHECK_EQ_INT(o.after.reason, STW_VALID);
        stw_plan_destroy(o.plan);
    }
    test_context("%s", "");
    small_close(s);
}

TEST(anneal, ends_in_time) {
    stw_rng rng = stw_rng_create(548);
    small *s = open_problem(&rng, 2);
    const double began_s = stw_now_s();
    const clock_t busy = clock(); /* of the processor: what others do on the machine does not count */
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 0.2, .threads = 2});
    CHECK(stw_now_s() - began_s >= 0.2 && clock() - busy < 2 * CLOCKS_PER_SEC);
    CHECK(o.evaluations > 0);
    CHECK(!stw_score_is_better(&o.before, &o.after));
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* By evaluations there are eight whatever the threads; by time each thread has as many as the others. */
TEST(anneal, chains_follow_the_threads_where_time_is_the_budget) {
    static const int32_t expected[][2] = {{1, 8}, {2, 8}, {3, 9}, {5, 10}, {8, 8}, {12, 12}, {16, 16}};
    for (size_t k = 0; k < sizeof expected / sizeof expected[0]; k++) {
        stw_pool *pool;
        if (!CHECK_EQ_INT(stw_pool_create(expected[k][0], &pool, NULL), STW_OK)) return;
        const stw_search timed = {.pool = pool, .budget = {.until_s = 1.0}},
                         counted = {.pool = pool, .budget = {.evaluations = 100}};
        CHECK_EQ_INT(stw_anneal_chains(&timed), expected[k][1]);
        CHECK_EQ_INT(stw_anneal_chains(&counted), 8);
        stw_pool_destroy(pool);
    }
}

/* What any of the threads finds is what comes out, and it is told of before the end. */
TEST(anneal, by_time_on_several_threads) {
    for (int32_t threads = 1; threads <= MOST_THREADS; threads *= 2) {
        stw_rng rng = stw_rng_create(549);
        small *s = open_problem(&rng, 2);
        test_context("%d threads", (int)threads);
        const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 0.1, .threads = threads});
        CHECK(!stw_score_is_better(&o.before, &o.after));
        CHECK(!stw_score_is_better(&o.told, &o.after) && !stw_score_is_better(&o.after, &o.told));
        CHECK(o.evaluations > 0);
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(anneal, cancelled_at_once) {
    stw_rng rng = stw_rng_create(549);
    small *s = open_problem(&rng, 2);
    for (int k = 0; k < 2; k++) {
        const outcome o =
            anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = k == 0 ? 1000 : 0, .seconds = 5.0, .cancelled = true});
        CHECK(are_placed_alike(o.plan, s->plan));
        CHECK(have_equal_priorities(o.plan, s->plan));
        CHECK(o.evaluations <= 8);
        stw_plan_destroy(o.plan);
    }
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .seconds = 5.0, .cancelled = true, .without_start = true});
    CHECK_EQ_INT(o.after.reason, STW_VALID);
    stw_plan_destroy(o.plan);
    small_close(s);
}

TEST(anneal, nothing_to_search) {
    static const setting how[] = {{.tasks = BOTH, .rule = -1, .evaluations = 50},
                                  {.tasks = BOTH, .rule = -1, .seconds = 0.05},
                                  {.tasks = BOTH, .rule = -1, .evaluations = 50, .without_start = true}};
    const small_text text[] = {{.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1)}, /* one device */
                               {.nodes = NULL, .device_count = 2},
                               {.nodes = SOURCE(0, "p", "parameter", 3), .device_count = 2},
                               {.nodes = OP(0, "a", "[]", 0, 0), .device_count = 2}}; /* no time, no bytes */
    for (int k = 0; k < 12; k++) {
        small *s = small_open(text[k % 4]);
        test_context("case %d", k);
        const outcome o = anneal(s, how[k / 4]);
        CHECK_EQ_INT(o.after.reason, STW_VALID);
        CHECK(!stw_score_is_better(&o.before, &o.after));
        stw_plan_destroy(o.plan);
        small_close(s);
    }
    test_context("%s", "");
}

/* d0 and d1 cannot talk; what needs each other must stay together. */
TEST(anneal, devices_without_a_link) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 2, 5) OP(1, "b", "[0]", 2, 5) OP(2, "c", "[]", 2, 5) OP(3, "d", "[2]", 2, 5),
                     .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "h200", 99),
                     .device_count = 2,
                     .links = ""});
    const outcome o = anneal(s, (setting){.tasks = BOTH, .rule = -1, .evaluations = 300});
    CHECK_EQ_INT(o.after.reason, STW_VALID);
    CHECK_NEAR(o.after.step_s, 10e-6, 1e-15);
    stw_plan_destroy(o.plan);
    small_close(s);
}

/* ---- single changes ---- */

/* Another chain has each atom on some device. */
static void meet_another(const stw_annealing *a, stw_chain *c, stw_arena *arena) {
    const stw_units *atoms = &a->units.level[0];
    const int32_t N = c->plan->graph->N, D = c->plan->machine->device_count;
    c->other_device = STW_NEW(arena, int32_t, N);
    c->other_priority = STW_NEW(arena, double, N);
    c->differ = STW_NEW(arena, int32_t, N);
    memcpy(c->other_device, c->plan->device, (size_t)N * sizeof *c->other_device);
    for (int32_t u = 0; u < atoms->count; u++) {
        const int32_t device = (int32_t)stw_rng_below(&c->rng, D);
        for (int32_t m = atoms->start[u]; m < atoms->start[u + 1]; m++) c->other_device[atoms->member[m]] = device;
    }
    stw_anneal_compare(a, c);
    int32_t elsewhere = 0;
    for (int32_t u = 0; u < atoms->count; u++) {
        const int32_t node = atoms->member[atoms->start[u]];
        elsewhere += c->other_device[node] != c->plan->device[node];
    }
    CHECK_EQ_INT(c->differ_count, elsewhere);
}

static void prepare_changes(stw_annealing *a, stw_chain *c, const small *s, stw_arena *arena) {
    static const int32_t wanted[] = {16, 4};
    const stw_simulator *simulator = s->simulator;
    const stw_tasks *tasks = &simulator->unfused;
    const stw_units *atoms = &a->units.level[0];
    const int32_t N = s->graph->N, T = tasks->T;
    double *rank = STW_NEW(arena, double, T);
    CHECK_EQ_INT(stw_units_build(s->graph, s->costs->us[0], wanted, 2, arena, &a->units, NULL), STW_OK);
    CHECK_EQ_INT(stw_affinity_build(simulator, atoms, wanted, 2, arena, &a->affinity, NULL), STW_OK);
    stw_rule_upward_ranks(s->costs, tasks, NULL, rank);
    CHECK_EQ_INT(stw_board_prepare(s->costs, tasks, atoms->of, atoms->count, rank, arena, &a->board, NULL), STW_OK);
    a->affinity_share = 0.5;
    a->largest_rank = 10.0;
    a->mean_us = 1.0;
    c->plan = s->plan;
    c->moved = STW_NEW(arena, int32_t, N);
    c->old_device = STW_NEW(arena, int32_t, N);
    c->old_priority = STW_NEW(arena, double, N);
    c->critical = STW_NEW(arena, int32_t, T);
    c->start_ps = STW_NEW(arena, int64_t, T);
    c->order = STW_NEW(arena, int32_t, T);
    c->mark = STW_NEW(arena, int32_t, N);
    c->queue = STW_NEW(arena, int32_t, N);
    c->plan_glue = STW_NEW(arena, double, T);
    c->aversion = STW_NEW(arena, double, T);
    c->steered = STW_NEW(arena, int32_t, N);
    if (a->search->fusing != NULL) {
        c->fusion = STW_NEW(arena, double, N);
        c->old_fusion = STW_NEW(arena, double, N);
        c->old_group = STW_NEW(arena, int32_t, N);
        CHECK_EQ_INT(stw_fusion_begin(s->simulator, a->search->fusing->priority, c->plan, c->fusion, *arena, NULL), STW_OK);
        stw_anneal_regroup(a, c, 0);
    }
    memcpy(c->start_ps, s->workspace->timeline.start_ps, (size_t)T * sizeof *c->start_ps);
    c->step_ps = s->result.step_ps;
    meet_another(a, c, arena);
}

static bool are_grouped_alike(const stw_plan *a, const stw_plan *b) {
    return memcmp(a->group, b->group, (size_t)a->graph->N * sizeof *a->group) == 0;
}

/* The groups are legal for the devices, and those that the fusion priorities make. */
static void check_groups(const stw_annealing *a, const stw_chain *c, stw_arena arena) {
    const stw_graph *graph = c->plan->graph;
    stw_membership membership;
    stw_str reason = STW_STR("");
    CHECK_EQ_INT(
        stw_membership_build(graph, c->plan->machine, c->plan->group, c->plan->device, &arena, &membership, &reason, NULL),
        STW_OK);
    CHECK_EQ_INT(reason.length, 0);
    int32_t *group = STW_NEW(&arena, int32_t, graph->N);
    stw_fuse_by_priority(a->search->fusing->fuser[0], c->fusion, c->plan->device, group);
    CHECK(memcmp(group, c->plan->group, (size_t)graph->N * sizeof *group) == 0);
}

/* Makes the change, looks at it, takes it back. Returns whether it came to anything. */
static bool try_change(const stw_annealing *a, stw_chain *c, stw_plan *before, bool places, stw_arena arena) {
    bool changed = false;
    double *fusion = STW_NEW(&arena, double, before->graph->N); /* as it was before */
    if (c->fusion != NULL) memcpy(fusion, c->fusion, (size_t)before->graph->N * sizeof *fusion);
    CHECK_EQ_INT(stw_plan_assign(before, c->plan, NULL), STW_OK);
    a->search->scratch = &arena;
    CHECK_EQ_INT(stw_anneal_change(a, c, 0, &changed), STW_OK);
    const size_t N = (size_t)before->graph->N;
    const bool moved = !are_placed_alike(before, c->plan), reordered = !have_equal_priorities(before, c->plan);
    CHECK(!moved || (places && c->moved_count > 0));
    CHECK(!reordered || c->priorities_changed);
    CHECK(!reordered || !places || a->search->rule >= 0);
    const bool regrouped = !are_grouped_alike(before, c->plan);
    CHECK(!regrouped || (c->fusion != NULL && (moved || c->fusion_changed)));
    CHECK(changed || !regrouped);
    if (c->fusion != NULL) check_groups(a, c, arena);
    const stw_units *atoms = &a->units.level[0]; /* what must be together is */
    for (int32_t m = 1; m < atoms->start[atoms->count]; m++) {
        const int32_t x = atoms->member[m - 1], y = atoms->member[m];
        if (atoms->of[x] == atoms->of[y]) CHECK_EQ_INT(c->plan->device[x], c->plan->device[y]);
    }
    for (int32_t i = 0; a->weight[STW_MOVE_CROSS] > 0.0 && i < before->graph->N; i++)
        CHECK(c->plan->device[i] == before->device[i] || c->plan->device[i] == c->other_device[i]);
    stw_anneal_take_back(c);
    CHECK(memcmp(before->device, c->plan->device, N * sizeof *before->device) == 0);
    CHECK(have_equal_priorities(before, c->plan));
    CHECK(are_grouped_alike(before, c->plan));
    if (c->fusion != NULL) CHECK(memcmp(fusion, c->fusion, N * sizeof *fusion) == 0);
    return moved || reordered || regrouped;
}

TEST(anneal, changes_keep_atoms_whole_and_are_taken_back) {
    const stw_rng seeds = stw_rng_create(552);
    int changes[STW_MOVE_COUNT] = {0};
    for (int number = 0; number < 12; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        const bool fuses = number % 3 != 2;
        for (int32_t i = 0; fuses && i < s->graph->N; i++) s->plan->device[i] = 0; /* so that much can be merged */
        small_run(s);
        stw_arena arena;
        stw_plan *before;
        stw_search search = {.simulator = s->simulator, .tasks = BOTH, .rule = number == 0 ? STW_RULE_UPWARD_RANK : -1};
        stw_fusing fusing = {0};
        stw_annealing *a = calloc(1, sizeof *a);
        stw_chain *c = calloc(1, sizeof *c);
        CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
        if (fuses) {
            search.tasks |= STW_TASK_FUSION;
            search.fusing = &fusing;
            CHECK_EQ_INT(stw_fusing_open(s->simulator, -1, STW_FUSION_DEFAULT, 1, NULL, &arena, &fusing, NULL), STW_OK);
        }
        CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &before, NULL), STW_OK);
        a->search = &search;
        c->rng = stw_rng_split(&rng, 1);
        prepare_changes(a, c, s, &arena);
        for (int k = 0; k < 30 * STW_MOVE_COUNT; k++) {
            const int move = k % STW_MOVE_COUNT;
            if (move == STW_MOVE_FUSE && !fuses) continue;
            test_context("problem %d, move %d", number, move);
            memset(a->weight, 0, sizeof a->weight);
            a->weight[move] = 1.0;
            changes[move] += try_change(a, c, before, move <= STW_MOVE_STEER || move == STW_MOVE_CROSS, arena);
        }
        if (fuses) stw_fusing_close(&fusing);
        stw_plan_destroy(before);
        stw_arena_destroy(&arena);
        free(a);
        free(c);
        small_close(s);
    }
    test_context("%s", "");
    for (int k = 0; k < STW_MOVE_COUNT; k++) {
        test_context("move %d: %d changes", k, changes[k]);
        CHECK(changes[k] > (k == STW_MOVE_FUSE ? 40 : 100)); /* most ops here cannot be merged */
    }
    test_context("%s", "");
}

/* ---- initial plans ---- */

TEST(starts, are_the_given_ones_or_the_best_of_the_methods) {
    CHECK(stw_method_serves(&stw_method_single, STW_OBJECTIVE_TIME, BOTH));
    CHECK(!stw_method_serves(&stw_method_random, STW_OBJECTIVE_TIME, BOTH)); /* no use */
    CHECK(!stw_method_serves(&stw_method_anneal, STW_OBJECTIVE_TIME, BOTH)); /* itself a search */
    CHECK(!stw_method_serves(&stw_method_exact, STW_OBJECTIVE_TIME, BOTH));
    CHECK(!stw_method_serves(&stw_method_balance, STW_OBJECTIVE_TIME, BOTH));
    CHECK(stw_method_serves(&stw_method_balance, STW_OBJECTIVE_THROUGHPUT, PLACEMENT));
    CHECK(!stw_method_serves(&stw_method_balance, STW_OBJECTIVE_THROUGHPUT, SCHEDULE));
    CHECK(stw_method_serves(&stw_method_metis, STW_OBJECTIVE_MEMORY, PLACEMENT));
    CHECK(!stw_method_serves(&stw_method_metis, STW_OBJECTIVE_MEMORY, SCHEDULE));
    CHECK(stw_method_serves(&stw_method_single, STW_OBJECTIVE_MEMORY, SCHEDULE));
    stw_rng rng = stw_rng_create(550);
    small *s = open_problem(&rng, 2);
    stw_arena scratch, arena;
    stw_pool *pool;
    CHECK_EQ_INT(stw_pool_create(1, &pool, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&scratch, NULL), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    stw_search search = {.simulator = s->simulator,
                         .tasks = BOTH,
                         .rule = -1,
                         .seed = 7,
                         .unit_count = 512,
                         .budget = {.evaluations = 4000},
                         .pool = pool,
                         .workspace = &s->workspace,
                         .scratch = &scratch,
                         .arena = arena};
    stw_starts starts;
    if (CHECK_EQ_INT(stw_starts_open(&search, NULL, 0, 0.5, &starts, NULL), STW_OK)) {
        CHECK(starts.count > 3 && starts.count <= STW_MAX_STARTS);
        CHECK(atomic_load(&search.evaluations) > starts.count);
        CHECK(atomic_load(&search.evaluations) <= 2000 + 2 * 10);
        for (int32_t k = 0; k < starts.count; k++) {
            const stw_score score = score_of(&search, s, starts.plan[k]);
            CHECK_EQ_INT(score.reason, STW_VALID);
            CHECK_NEAR(score.value, starts.score[k].value, 0.0);
            if (k > 0) CHECK(!stw_score_is_better(&starts.score[k], &starts.score[k - 1]));
        }
        stw_starts_close(&starts);
    }
    const stw_plan *const given[] = {s->plan};
    search.start = given;
    search.start_count = 1;
    atomic_store(&search.evaluations, 0);
    if (CHECK_EQ_INT(stw_starts_open(&search, NULL, 0, 0.5, &starts, NULL), STW_OK)) {
        CHECK_EQ_INT(starts.count, 1);
        CHECK(starts.plan[0] == s->plan);
        CHECK_EQ_INT(atomic_load(&search.evaluations), 0);
        stw_starts_close(&starts); /* what was given is not ours */
    }
    stw_arena_destroy(&arena);
    stw_arena_destroy(&scratch);
    stw_pool_destroy(pool);
    small_close(s);
}
