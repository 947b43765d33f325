/* sim: what searches do, a change of a plan and an evaluation that is given up where the step is too long, over and over in one
 * workspace and with one fuser, which keep what they can from one to the next. Every time it must be, bit for bit, what a new
 * workspace and a new fuser say of the plan. */
#include <stdlib.h>
#include <string.h>

#include "plan/fuse.h"
#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

/* Two plans in turn, as the chains of a search share their threads. */
typedef struct {
    small *s;
    stw_rng rng;
    stw_arena arena;   /* of all that is kept */
    bool fuses, draws; /* groups by priorities; groups of any kind, with several outputs too */
    stw_fuser *kept;
    stw_plan *plan, *other, *before;
    double *priority, *other_priority, *old_priority; /* (N) of fusion */
    int64_t longest_ps;                               /* the step that a change may lead to, as a search has it; 0: any */
    int64_t moves, stopped, invalid;
} walk;

static int32_t below(walk *w, int32_t bound) { return (int32_t)stw_rng_below(&w->rng, bound); }
static bool chance(walk *w, double p) { return stw_rng_uniform(&w->rng) < p; }

static void charge_links(walk *w) {
    stw_machine *machine = w->s->machine;
    machine->charges = true;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        machine->link[k].send_us = below(w, 3);
        machine->link[k].receive_us = below(w, 3);
    }
}

/* Memory that does not suffice for every plan. */
static void take_memory(walk *w) {
    int64_t all = 0;
    for (int32_t i = 0; i < w->s->graph->N; i++) all += w->s->graph->bytes[i];
    for (int32_t d = 0; d < w->s->machine->device_count; d++) w->s->machine->device[d].memory_bytes = all / 6 + below(w, 20);
}

static void draw_fusion(walk *w, double *priority) {
    for (int32_t i = 0; i < w->s->graph->N; i++) priority[i] = below(w, 6) - 2;
}

static walk *open_walk(const stw_rng *seeds, int number) {
    walk *w = calloc(1, sizeof *w);
    w->rng = stw_rng_split(seeds, (uint64_t)number);
    w->fuses = number % 2 == 1 && number % 16 != 5;
    w->draws = number % 16 == 5;
    w->s = random_open(&w->rng, (random_shape){.nodes = 10 + below(w, 60),
                                               .device_count = 1 + number % 5,
                                               .plain = number % 7 == 0,
                                               .wide = number % 9 == 4,
                                               .unlike = number % 3 == 1,
                                               .buses = number % 3 == 0,
                                               .free_links = number % 11 == 5,
                                               .model = number % 4 == 1,
                                               .contention = number % 6 == 5 ? "none" : "queue"});
    if (number % 4 > 1) charge_links(w);
    if (number % 5 > 2) take_memory(w);
    const small *s = w->s;
    CHECK_EQ_INT(stw_arena_create(&w->arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_fuser_create(s->costs, &w->arena, &w->kept, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &w->plan, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &w->other, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &w->before, NULL), STW_OK);
    w->priority = STW_NEW(&w->arena, double, s->graph->N);
    w->other_priority = STW_NEW(&w->arena, double, s->graph->N);
    w->old_priority = STW_NEW(&w->arena, double, s->graph->N);
    if (chance(w, 0.5)) random_placement(&w->rng, s->simulator, w->plan);
    random_placement(&w->rng, s->simulator, w->other);
    random_priorities(&w->rng, w->plan);
    random_priorities(&w->rng, w->other);
    draw_fusion(w, w->priority);
    draw_fusion(w, w->other_priority);
    return w;
}

static void close_walk(walk *w) {
    stw_plan_destroy(w->plan);
    stw_plan_destroy(w->other);
    stw_plan_destroy(w->before);
    stw_arena_destroy(&w->arena);
    small_close(w->s);
    free(w);
}

/* ---- moves ---- */

static void move_ops(walk *w) {
    const stw_graph *graph = w->s->graph;
    const int32_t count = 1 + below(w, 1 + below(w, 8)), to = below(w, w->s->machine->device_count), first = below(w, graph->N);
    const bool near = chance(w, 0.5);
    for (int32_t k = 0; k < count; k++) w->plan->device[near ? (first + k) % graph->N : below(w, graph->N)] = to;
    stw_plan_join(w->s->simulator, w->plan);
}

static void change_priorities(walk *w) {
    if (chance(w, 0.2)) random_priorities(&w->rng, w->plan);
    for (int32_t k = below(w, 4); k >= 0; k--) w->plan->priority[below(w, w->s->graph->N)] += below(w, 5) - 2;
}

static void change_fusion(walk *w) {
    if (chance(w, 0.1)) draw_fusion(w, w->priority);
    for (int32_t k = below(w, 4); k >= 0; k--) w->priority[below(w, w->s->graph->N)] = below(w, 6) - 2;
}

static void exchange(walk *w) {
    stw_plan *const plan = w->plan;
    double *const priority = w->priority;
    w->plan = w->other;
    w->priority = w->other_priority;
    w->other = plan;
    w->other_priority = priority;
}

static void move(walk *w) {
    const int32_t kind = below(w, 10);
    if (kind == 0) exchange(w);
    CHECK_EQ_INT(stw_plan_assign(w->before, w->plan, NULL), STW_OK);
    memcpy(w->old_priority, w->priority, (size_t)w->s->graph->N * sizeof *w->priority);
    if (kind < 6) move_ops(w);
    if (kind > 4 && kind < 8) change_priorities(w);
    if (kind > 6) change_fusion(w);
}

/* ---- both ways ---- */

/* The groups, by the fuser that is kept and by a new one. */
static void group(walk *w) {
    stw_arena scratch = w->arena;
    stw_fuser *fresh;
    const int32_t N = w->s->graph->N;
    int32_t *expected = STW_NEW(&scratch, int32_t, N);
    stw_fuse_by_priority(w->kept, w->priority, w->plan->device, w->plan->group);
    CHECK_EQ_INT(stw_fuser_create(w->s->costs, &scratch, &fresh, NULL), STW_OK);
    stw_fuse_by_priority(fresh, w->priority, w->plan->device, expected);
    CHECK(memcmp(expected, w->plan->group, (size_t)N * sizeof *expected) == 0);
}

/* Some more ops are fused or recomputed; or all begin anew. */
static void draw_groups(walk *w) {
    const stw_graph *graph = w->s->graph;
    const int32_t reset = chance(w, 0.2) ? graph->N : 0;
    for (int32_t i = 0; i < reset; i++) w->plan->group[i] = graph->kind[i] == STW_NODE_OP ? i : -1;
    random_groups(&w->rng, w->s->simulator, w->plan, 4);
}

/* Evaluates it; returns whether a search would keep it. */
static bool evaluate(walk *w) {
    const small *s = w->s;
    const stw_run_options plain = {.record_memory = w->moves % 3 == 0};
    const stw_run_options options = {.record_memory = plain.record_memory, .stop_ps = w->longest_ps};
    stw_workspace *fresh;
    stw_evaluation expected, result;
    CHECK_EQ_INT(stw_workspace_create(s->simulator, &fresh, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_run(s->simulator, w->plan, &plain, fresh, &expected, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_run(s->simulator, w->plan, &options, s->workspace, &result, NULL), STW_OK);
    const bool usable = expected.reason == STW_VALID || expected.reason == STW_INVALID_MEMORY;
    const bool too_long = usable && w->longest_ps > 0 && expected.step_ps > w->longest_ps;
    w->stopped += too_long;
    w->invalid += expected.reason != STW_VALID;
    if (too_long) {
        CHECK_EQ_INT(result.reason, STW_INVALID_OVERFLOW);
        CHECK_EQ_INT(result.step_ps, 0);
    } else {
        CHECK(hash_run(s->workspace, &result) == hash_run(fresh, &expected));
        CHECK_EQ_INT(result.step_ps, expected.step_ps);
    }
    stw_workspace_destroy(fresh);
    if (!usable || too_long) return false;
    w->longest_ps = chance(w, 0.1) ? 0 : expected.step_ps + (chance(w, 0.5) ? expected.step_ps / 50 : 0);
    return true;
}

static void take_back(walk *w) {
    CHECK_EQ_INT(stw_plan_assign(w->plan, w->before, NULL), STW_OK);
    memcpy(w->priority, w->old_priority, (size_t)w->s->graph->N * sizeof *w->priority);
}

TEST(moves, are_evaluated_as_new_plans_would_be) {
    enum { PER_PROBLEM = 100 };
    const stw_rng seeds = stw_rng_create(1871);
    const int moves = test_cases(100000);
    int64_t stopped = 0, invalid = 0;
    for (int number = 0; number < moves / PER_PROBLEM; number++) {
        walk *w = open_walk(&seeds, number);
        for (; w->moves < PER_PROBLEM; w->moves++) {
            test_context("problem %d, move %d", number, (int)w->moves);
            move(w);
            if (w->draws) draw_groups(w);
            if (w->fuses && chance(w, 0.9)) group(w); /* else the old groups may be illegal on the new devices */
            if (!evaluate(w)) take_back(w);
        }
        stopped += w->stopped;
        invalid += w->invalid;
        close_walk(w);
    }
    test_context("%s", "");
    CHECK(stopped > moves / 4); /* and what is compared is of all kinds */
    CHECK(stopped < 3 * moves / 4);
    CHECK(invalid > moves / 50);
}

/* The same three members twice, but what the group writes is n1 at first and n0 then, since n1 is computed again in n3's group.
 */
TEST(moves, times_of_groups_depend_on_what_they_write) {
    static const int32_t groups[][4] = {{0, 0, 0, 3}, {0, -1, 0, 3}};
    small *s = small_open((small_text){.nodes = OP(0, "n0", "[]", 1000000000, 10) OP(1, "n1", "[0]", 10, 10)
                                           OP(2, "n2", "[0,1]", 10, 10) OP(3, "n3", "[1]", 10, 10)});
    int64_t end_ps[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        stw_workspace *fresh;
        stw_evaluation expected;
        memcpy(s->plan->group, groups[k], sizeof groups[k]);
        small_run(s);
        CHECK_STR(s->result.message, "");
        CHECK_EQ_INT(stw_workspace_create(s->simulator, &fresh, NULL), STW_OK);
        CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, fresh, &expected, NULL), STW_OK);
        CHECK_EQ_INT(s->result.step_ps, expected.step_ps);
        end_ps[k] = fresh->timeline.end_ps[0];
        stw_workspace_destroy(fresh);
    }
    CHECK(end_ps[0] < end_ps[1]);
    small_close(s);
}
