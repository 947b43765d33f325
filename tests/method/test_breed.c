/* method/breed: what a sequence takes is what the simulator says of its plan; changes keep sequences possible and are taken back
 * whole; the method is never worse than its start, gives the same plan from any number of threads, and ends. */
#include <stdlib.h>
#include <string.h>

#include "method/breed/breed.h"
#include "sim/op_times.h"
#include "support/random.h"
#include "test.h"
#include "whole_search.h"

typedef struct {
    small *s;
    stw_arena arena;
    stw_breed b;
    stw_breeding nest;
    stw_sequence other;
    int32_t *rename;
} breeding;

static void add_charges(stw_rng *rng, stw_machine *machine) {
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        machine->link[k].send_us = (double)stw_rng_below(rng, 3);
        machine->link[k].receive_us = (double)stw_rng_below(rng, 4);
    }
    machine->charges = true;
}

static breeding open_breeding(stw_rng *rng, int number, const char *contention) {
    breeding x = {.s = random_open(rng, (random_shape){.nodes = 6 + number % 30,
                                                       .device_count = 1 + number % 4,
                                                       .plain = number % 7 == 0,
                                                       .wide = number % 5 == 1,
                                                       .unlike = number % 3 == 1,
                                                       .buses = number % 6 < 2,
                                                       .free_links = number % 11 == 0,
                                                       .contention = contention})};
    if (number % 2 == 0) add_charges(rng, x.s->machine);
    CHECK_EQ_INT(stw_arena_create(&x.arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_breed_prepare(x.s->simulator, &x.arena, &x.b, NULL), STW_OK);
    return x;
}

static void create_nest(breeding *x, stw_rng *rng) {
    CHECK_EQ_INT(stw_breeding_create(&x->b, &x->arena, &x->nest, NULL), STW_OK);
    CHECK_EQ_INT(stw_sequence_create(&x->b, &x->arena, &x->other, NULL), STW_OK);
    x->rename = STW_NEW(&x->arena, int32_t, x->b.D);
    x->nest.rng = stw_rng_split(rng, 1);
}

static void close_breeding(breeding *x) {
    stw_arena_destroy(&x->arena);
    small_close(x->s);
}

/* Every task once, after all that it needs; places that agree; devices that exist. */
static void check_possible(const stw_breed *b, const stw_sequence *q) {
    for (int32_t k = 0; k < b->T; k++) CHECK_EQ_INT(q->place[q->task[k]], k);
    for (int32_t t = 0; t < b->T; t++) {
        for (int32_t k = b->before_start[t]; k < b->before_start[t + 1]; k++) CHECK(q->place[b->before[k]] < q->place[t]);
    }
    for (int32_t i = 0; i < b->I; i++) CHECK(q->device[i] >= 0 && q->device[i] < b->D);
}

static int64_t simulated_ps(breeding *x, const stw_sequence *q) {
    stw_evaluation result;
    CHECK_EQ_INT(stw_sequence_to_plan(&x->b, q, x->s->plan, x->arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(x->s->simulator, x->s->plan, x->s->workspace, &result, NULL), STW_OK);
    CHECK(result.reason == STW_VALID || result.reason == STW_INVALID_MEMORY);
    return result.step_ps;
}

TEST(breed, sequences_take_what_the_simulator_says) {
    const stw_rng seeds = stw_rng_create(401);
    for (int number = 0; number < test_cases(300); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        breeding x = open_breeding(&rng, number, "none");
        create_nest(&x, &rng);
        for (int k = 0; k < 5 && x.b.T > 0; k++) {
            stw_sequence_draw(&x.b, &rng, k == 0 ? &x.other : &x.nest.now);
            if (k > 0) stw_sequence_cross(&x.b, &rng, &x.nest.now, &x.other, &x.nest.best, x.rename);
            const stw_sequence *q = k == 0 ? &x.other : &x.nest.best;
            check_possible(&x.b, q);
            const int64_t ps = stw_sequence_time(&x.b, q, STW_MAX_STEP_PS, &x.nest.sweep);
            CHECK_EQ_INT(ps, simulated_ps(&x, q));
            if (ps > 0) CHECK(stw_sequence_time(&x.b, q, ps - 1, &x.nest.sweep) == STW_BREED_NEVER_PS);
            CHECK_EQ_INT(stw_sequence_time(&x.b, q, ps, &x.nest.sweep), ps);
        }
        close_breeding(&x);
    }
    test_context("%s", "");
}

TEST(breed, a_plan_becomes_a_sequence_that_takes_no_longer) {
    const stw_rng seeds = stw_rng_create(402);
    for (int number = 0; number < test_cases(200); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        breeding x = open_breeding(&rng, number, "none");
        create_nest(&x, &rng);
        stw_evaluation result;
        random_placement(&rng, x.s->simulator, x.s->plan);
        random_priorities(&rng, x.s->plan);
        CHECK_EQ_INT(stw_simulate(x.s->simulator, x.s->plan, x.s->workspace, &result, NULL), STW_OK);
        const stw_timeline *ran = &x.s->workspace->timeline;
        CHECK_EQ_INT(stw_sequence_of_plan(&x.b, x.s->plan, ran->start_ps, ran->end_ps, &x.other, x.arena, NULL), STW_OK);
        check_possible(&x.b, &x.other);
        CHECK(stw_sequence_time(&x.b, &x.other, STW_MAX_STEP_PS, &x.nest.sweep) <= result.step_ps);
        close_breeding(&x);
    }
    test_context("%s", "");
}

TEST(breed, annealing_keeps_sequences_possible_and_their_times_true) {
    const stw_rng seeds = stw_rng_create(403);
    for (int number = 0; number < test_cases(120); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        breeding x = open_breeding(&rng, number, number % 3 == 2 ? "queue" : "none");
        create_nest(&x, &rng);
        stw_sequence_draw(&x.b, &rng, &x.nest.now);
        const int64_t before = stw_sequence_time(&x.b, &x.nest.now, STW_MAX_STEP_PS, &x.nest.sweep);
        if (x.b.T > 0) stw_breeding_anneal(&x.nest, 0.05, 2000, 0, &(stw_search){0});
        const stw_sequence *const ends[] = {&x.nest.now, &x.nest.best};
        for (int k = 0; k < 2 && x.b.T > 0; k++) {
            check_possible(&x.b, ends[k]);
            CHECK_EQ_INT(stw_sequence_time(&x.b, ends[k], STW_MAX_STEP_PS, &x.nest.trial), ends[k]->ps);
            if (number % 3 != 2) CHECK_EQ_INT(simulated_ps(&x, ends[k]), ends[k]->ps);
        }
        if (x.b.T > 0) CHECK(x.nest.best.ps <= before && x.nest.best.ps <= x.nest.now.ps);
        close_breeding(&x);
    }
    test_context("%s", "");
}

/* Puts a task where it may be, and moves some items. The first place at which that can be seen. */
static int32_t change_at_random(breeding *x, stw_rng *rng, stw_sequence *q) {
    const stw_breed *b = &x->b;
    int32_t moved[3], first = 0, last = b->T - 1;
    const int32_t count = (int32_t)stw_rng_below(rng, 4), t = (int32_t)stw_rng_below(rng, b->T), from = q->place[t];
    for (int32_t k = 0; k < count; k++) {
        moved[k] = b->mover[stw_rng_below(rng, b->mover_count)];
        q->device[moved[k]] = (int32_t)stw_rng_below(rng, b->D);
    }
    for (int32_t k = b->before_start[t]; k < b->before_start[t + 1]; k++)
        first = q->place[b->before[k]] >= first ? q->place[b->before[k]] + 1 : first;
    for (int32_t k = b->after_start[t]; k < b->after_start[t + 1]; k++)
        last = q->place[b->after[k]] <= last ? q->place[b->after[k]] - 1 : last;
    const int32_t to = first + (int32_t)stw_rng_below(rng, last - first + 1);
    for (int32_t k = from; k < to; k++) q->task[k] = q->task[k + 1];
    for (int32_t k = from; k > to; k--) q->task[k] = q->task[k - 1];
    q->task[to] = t;
    for (int32_t k = 0; k < b->T; k++) q->place[q->task[k]] = k;
    const int32_t touched = stw_sequence_first_touched(b, q, moved, count), shifted = from < to ? from : to;
    return from != to && shifted < touched ? shifted : touched;
}

static void check_equal(const stw_breed *b, const stw_sweep *one, const stw_sweep *other) {
    CHECK_EQ_INT(one->last, other->last);
    for (int32_t t = 0; t < b->T; t++) {
        CHECK_EQ_INT(one->end_ps[t], other->end_ps[t]);
        CHECK_EQ_INT(one->cause[t], other->cause[t]);
    }
}

TEST(breed, a_pass_from_the_first_change_on_is_a_whole_pass) {
    const stw_rng seeds = stw_rng_create(406);
    int plain = 0, parts = 0;
    for (int number = 0; number < test_cases(300); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        breeding x = open_breeding(&rng, number, number % 5 == 4 ? "queue" : "none");
        create_nest(&x, &rng);
        plain += x.b.plain;
        if (x.b.T > 0) stw_sequence_draw(&x.b, &rng, &x.other);
        for (int k = 0; k < 20 && x.b.T > 0; k++) {
            stw_sweep *known = &x.nest.sweep, *sweep = &x.nest.trial, whole;
            if (stw_sequence_time(&x.b, &x.other, STW_MAX_STEP_PS, known) == STW_BREED_NEVER_PS) break;
            const int32_t from = change_at_random(&x, &rng, &x.other);
            parts += from > 0;
            CHECK_EQ_INT(stw_sweep_create(&x.b, &x.arena, &whole, NULL), STW_OK);
            const int64_t ps = stw_sequence_time(&x.b, &x.other, STW_MAX_STEP_PS, &whole);
            CHECK_EQ_INT(stw_sequence_retime(&x.b, &x.other, from, known, STW_MAX_STEP_PS, sweep), ps);
            if (ps == STW_BREED_NEVER_PS) break;
            check_equal(&x.b, sweep, &whole);
            CHECK_EQ_INT(stw_sequence_retime(&x.b, &x.other, from, known, ps, sweep), ps);
            if (ps > 0) CHECK(stw_sequence_retime(&x.b, &x.other, from, known, ps - 1, sweep) == STW_BREED_NEVER_PS);
        }
        close_breeding(&x);
    }
    test_context("%s", "");
    CHECK(plain > test_cases(20) && parts > test_cases(200));
}

TEST(breed, finds_what_exact_proves) {
    const stw_rng seeds = stw_rng_create(404);
    int tried = 0, above = 0;
    for (int number = 0; number < test_cases(60); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("problem %d", number);
        small *s =
            random_open(&rng, (random_shape){.nodes = 12, .device_count = 2 + number % 2, .plain = true, .contention = "none"});
        stw_result *result = compare(s->simulator, "exact,breed",
                                     options_of("tasks", "placement,schedule", "evaluations", "20000", "threads", "1", NULL));
        const stw_entry *exact = result->entry[0], *breed = result->entry[1];
        if (exact->outcome.proved) {
            tried++;
            CHECK(breed->score.value >= exact->score.value);
            above += breed->score.value > exact->score.value;
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(tried > test_cases(40));
    CHECK_EQ_INT(above, 0);
}

TEST(breed, says_what_it_is_not_for) {
    stw_rng rng = stw_rng_create(405);
    small *s = random_open(&rng, (random_shape){.nodes = STW_BREED_MAX_OPS + 100, .device_count = 2, .plain = true});
    stw_result *result = compare(s->simulator, "breed", options_of("tasks", "placement,schedule", "evaluations", "10", NULL));
    CHECK(result->entry[0]->plan == NULL && strstr(result->entry[0]->reason, "breed is for graphs of 1 to 300 ops") != NULL);
    stw_result_destroy(result);
    result = compare(s->simulator, "breed",
                     options_of("tasks", "placement,schedule", "objective", "memory", "evaluations", "10", NULL));
    CHECK(strstr(result->entry[0]->reason, "for the step time") != NULL);
    stw_result_destroy(result);
    small_close(s);
}
