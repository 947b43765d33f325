/* sim/memory_bound, memory_cut, memory_sets, sequence: against every order on one device, through the simulator and through a
 * table over all sets of tasks that may have run; and against many plans on several devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sequence.h"
#include "support/memory_table.h"
#include "support/random.h"
#include "test.h"

enum { MOST = MEMORY_TABLE_TASKS };

static int64_t bound_of(const small *s) {
    stw_bounds bounds = {0};
    CHECK_EQ_INT(stw_lower_bounds(s->simulator, s->plan, &bounds, NULL), STW_OK);
    return bounds.peak_bytes;
}

static int32_t in(uint32_t set, int32_t task) { return (int32_t)(set >> task & 1u); }

/* ---- every order, through the simulator ---- */

static int64_t best_of_orders(small *s, uint32_t set, int32_t *sequence, int32_t length, const uint32_t *needs) {
    const stw_tasks *tasks = &s->simulator->unfused;
    if (length == tasks->T) {
        for (int32_t k = 0; k < length; k++) s->plan->order[0][k] = tasks->task_node[sequence[k]];
        CHECK_EQ_INT(stw_simulate(s->simulator, s->plan, s->workspace, &s->result, NULL), STW_OK);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        return s->result.worst_peak_bytes;
    }
    int64_t best = INT64_MAX;
    for (int32_t t = 0; t < tasks->T; t++) {
        if (in(set, t) || (needs[t] & ~set) != 0) continue;
        sequence[length] = t;
        const int64_t peak = best_of_orders(s, set | 1u << t, sequence, length + 1, needs);
        if (peak < best) best = peak;
    }
    return best;
}

static small *open_one(stw_rng *rng, int number, int32_t nodes) {
    return random_open(
        rng, (random_shape){
                 .nodes = nodes, .device_count = 1, .plain = number % 4 == 3, .wide = number % 5 == 4, .model = number % 3 == 0});
}

TEST(memory_bound, the_table_says_what_the_simulator_says) {
    const stw_rng seeds = stw_rng_create(71);
    int compared = 0;
    for (int number = 0; number < 300; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_one(&rng, number, number % 4 == 3 ? 6 : 10);
        const stw_tasks *tasks = &s->simulator->unfused;
        test_context("problem %d", number);
        if (tasks->T > 0 && tasks->T <= 6) {
            uint32_t needs[MOST];
            int32_t sequence[MOST], none[MOST] = {0};
            memory_table_needs(tasks, needs);
            CHECK_EQ_INT(stw_plan_set_order(s->plan, 0, none, tasks->T, NULL), STW_OK);
            const int64_t best = best_of_orders(s, 0, sequence, 0, needs);
            CHECK_EQ_INT(best, memory_table_fill(tasks, false).peak);
            CHECK(bound_of(s) <= best);
            compared++;
        }
        small_close(s);
    }
    test_context("%s", "");
    CHECK(compared >= 80);
}

/* ---- one device ---- */

TEST(memory_bound, never_above_the_best_order) {
    const stw_rng seeds = stw_rng_create(72);
    int tight = 0, count = 0;
    for (int number = 0; number < 800; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_one(&rng, number, number % 4 == 3 ? MOST : 18);
        if (s->simulator->unfused.T <= MOST) {
            const int64_t best = memory_table_fill(&s->simulator->unfused, false).peak, bound = bound_of(s);
            test_context("problem %d: bound %lld, best %lld", number, (long long)bound, (long long)best);
            CHECK(bound <= best);
            tight += bound == best;
            count++;
        }
        small_close(s);
    }
    test_context("%d of %d are tight", tight, count);
    CHECK(count >= 450 && tight * 10 >= count * 8);
    test_context("%s", "");
}

TEST(memory_bound, a_cut_is_the_least_that_any_order_holds) {
    const stw_rng seeds = stw_rng_create(73);
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    for (int number = 0; number < 200; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_one(&rng, number, number % 4 == 3 ? MOST : 18);
        stw_arena scratch = arena;
        stw_sequences sequences;
        CHECK_EQ_INT(stw_sequences_build(&s->simulator->unfused, &scratch, &sequences, NULL), STW_OK);
        const stw_tasks *tasks = &s->simulator->unfused;
        const memory_table expected = tasks->T <= MOST ? memory_table_fill(tasks, true) : (memory_table){0};
        for (int32_t t = 0; tasks->T <= MOST && t < 2 * tasks->T; t++) {
            uint8_t before[MOST];
            uint32_t needs[MOST], set = 0;
            int64_t work = 1 << 20;
            stw_cut cut = {.bytes = sequences.bytes, .late = t % 2 == 1, .work = &work, .before = before};
            test_context("problem %d, task %d", number, t / 2);
            CHECK_EQ_INT(stw_cut_find(&sequences, t / 2, &cut, scratch, NULL), STW_OK);
            CHECK(cut.complete);
            CHECK_EQ_INT(cut.held + sequences.resident_bytes, expected.during[t / 2]);
            memory_table_needs(tasks, needs);
            for (int32_t k = 0; k < tasks->T; k++) set |= (uint32_t)before[k] << k;
            for (int32_t k = 0; k < tasks->T; k++) CHECK(!before[k] || (needs[k] & ~set) == 0);
            CHECK((needs[t / 2] & ~set) == 0);
            CHECK_EQ_INT(memory_table_held(tasks, set, t / 2), expected.during[t / 2]); /* the cut is such an order */
        }
        small_close(s);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

TEST(memory_bound, work_that_runs_out_leaves_a_bound) {
    const stw_rng seeds = stw_rng_create(74);
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    int cut_short = 0;
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_one(&rng, number, 60);
        stw_arena scratch = arena;
        stw_sequences sequences;
        CHECK_EQ_INT(stw_sequences_build(&s->simulator->unfused, &scratch, &sequences, NULL), STW_OK);
        for (int32_t t = 0; t < sequences.T; t++) {
            int64_t endless = 1 << 24, little = sequences.T + sequences.V + 1 + 10 * (t % 7);
            stw_cut whole = {.bytes = sequences.bytes, .work = &endless}, part = {.bytes = sequences.bytes, .work = &little};
            CHECK_EQ_INT(stw_cut_find(&sequences, t, &whole, scratch, NULL), STW_OK);
            CHECK_EQ_INT(stw_cut_find(&sequences, t, &part, scratch, NULL), STW_OK);
            CHECK(part.held <= whole.held && (!part.complete || part.held == whole.held));
            cut_short += part.held < whole.held;
        }
        small_close(s);
    }
    CHECK(cut_short > 20);
    stw_arena_destroy(&arena);
}

/* ---- by hand ---- */

/* Three sums of two terms each: a term is 10 bytes, what it is made from 1. One of the sums must be first, while the inputs of
 * the others are still there. */
TEST(memory_bound, one_of_the_sums_is_first) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[]", 1, 1) OP(2, "c", "[]", 1, 1)
                                           OP(3, "next", "[0,1,2]", 0, 1) OP(4, "a1", "[0,3]", 10, 1) OP(5, "a2", "[0,3]", 10, 1)
                                               OP(6, "as", "[4,5]", 0, 1) OP(7, "b1", "[1,3]", 10, 1) OP(8, "b2", "[1,3]", 10, 1)
                                                   OP(9, "bs", "[7,8]", 0, 1) OP(10, "c1", "[2,3]", 10, 1)
                                                       OP(11, "c2", "[2,3]", 10, 1) OP(12, "cs", "[10,11]", 0, 1)});
    CHECK_EQ_INT(bound_of(s), 22); /* the first sum: its two terms, and the inputs of the two others */
    small_close(s);
}

TEST(memory_bound, rules_by_hand) {
    /* A parameter all the time; an input until its last reader; a graph output to the end; an update takes nothing. */
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 100) SOURCE(1, "x", "input", 7) OP(2, "a", "[0,1]", 20, 1)
                                    OP(3, "b", "[2]", 5, 1) OP_WITH(4, "u", "[0,3]", 100, 1, ",'updates':0"),
                                .outputs = "[3]"});
    CHECK_EQ_INT(bound_of(s), 127);
    CHECK_EQ_INT(s->result.worst_peak_bytes, 127);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 50, 0) OP(1, "b", "[0]", 0, 0)}); /* nothing lasts */
    CHECK_EQ_INT(bound_of(s), 0);
    small_close(s);
    s = small_open((small_text){.nodes = NULL});
    CHECK_EQ_INT(bound_of(s), 0);
    small_close(s);
}

TEST(memory_bound, several_devices_by_hand) {
    /* 100 bytes of parameters over two devices; a task that reads 30 and writes 31. */
    small_text text = {
        .nodes = SOURCE(0, "w", "parameter", 60) SOURCE(1, "v", "parameter", 39) OP(2, "a", "[]", 30, 1) OP(3, "b", "[2]", 31, 1),
        .device_count = 2};
    small *s = small_open(text);
    CHECK_EQ_INT(bound_of(s), 80); /* half of 99 + 61 */
    small_close(s);
    text.nodes = OP(0, "a", "[]", 30, 1) OP(1, "b", "[0]", 31, 1);
    s = small_open(text);
    CHECK_EQ_INT(bound_of(s), 61); /* both are on one device */
    small_close(s);
}

/* ---- several devices, groups ---- */

TEST(memory_bound, no_plan_beats_it) {
    const stw_rng seeds = stw_rng_create(75);
    int met = 0;
    for (int number = 0; number < 200; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 3 + (int32_t)stw_rng_below(&rng, number % 2 == 0 ? 8 : 40),
                                                    .device_count = 1 + number % 4,
                                                    .plain = number % 7 == 0,
                                                    .unlike = number % 2 == 1,
                                                    .buses = number % 3 == 0,
                                                    .free_links = number % 5 == 0,
                                                    .model = number % 4 == 0,
                                                    .contention = number % 6 == 5 ? "none" : "queue"});
        int64_t least = INT64_MAX;
        for (int plan = 0; plan < 40; plan++) {
            unfuse_and_free(s->plan);
            random_placement(&rng, s->simulator, s->plan);
            random_priorities(&rng, s->plan);
            if (plan % 4 == 1) random_groups(&rng, s->simulator, s->plan, 20);
            if (plan % 4 >= 2) random_orders(&rng, s->simulator, s->plan);
            small_run(s);
            test_context("problem %d, plan %d", number, plan);
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            CHECK(bound_of(s) <= s->result.worst_peak_bytes);
            if (plan % 4 != 1 && s->result.worst_peak_bytes < least) least = s->result.worst_peak_bytes;
            if (plan == 39) met += bound_of(s) == least;
        }
        small_close(s);
    }
    test_context("met by chance %d times", met);
    CHECK(met >= 40);
    test_context("%s", "");
}

/* ---- orders ---- */

TEST(memory_bound, orders_are_orders) {
    const stw_rng seeds = stw_rng_create(76);
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    for (int number = 0; number < 120; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_one(&rng, number, 50);
        stw_arena scratch = arena;
        stw_sequences q;
        int32_t order[64], stage[64], ids[64], position[64];
        int64_t held[64], peak = 0;
        CHECK_EQ_INT(stw_sequences_build(&s->simulator->unfused, &scratch, &q, NULL), STW_OK);
        CHECK_EQ_INT(stw_sequence_make(&q, STW_SEQUENCE_IDS, NULL, ids, scratch, NULL), STW_OK);
        for (int32_t k = 0; k < q.T; k++) stage[ids[k]] = k / 7; /* stages out of an order are possible */
        for (int rule = 0; rule < 2 * STW_SEQUENCE_RULE_COUNT; rule++) {
            const bool staged = rule >= STW_SEQUENCE_RULE_COUNT;
            const stw_sequence_rule which = (stw_sequence_rule)(rule % STW_SEQUENCE_RULE_COUNT);
            test_context("problem %d, rule %d", number, rule);
            for (int32_t t = 0; t < q.T; t++) position[t] = -1;
            CHECK_EQ_INT(stw_sequence_make(&q, which, staged ? stage : NULL, order, scratch, NULL), STW_OK);
            for (int32_t k = 0; k < q.T; k++) {
                CHECK_EQ_INT(position[order[k]], -1);
                position[order[k]] = k;
                CHECK(!staged || stage[order[k]] == k / 7);
            }
            for (int32_t t = 0; t < q.T; t++) {
                for (int32_t b = q.before_start[t]; b < q.before_start[t + 1]; b++) CHECK(position[q.before[b]] < position[t]);
            }
            /* What it holds is what the simulator says, as far as it lasts. */
            CHECK_EQ_INT(stw_sequence_held(&q, q.bytes, order, held, scratch, NULL), STW_OK);
            peak = 0;
            for (int32_t k = 0; k < q.T; k++) {
                const int64_t now = held[k] + q.resident_bytes;
                s->plan->priority[q.tasks->task_node[order[k]]] = -k;
                if (q.tasks->duration_ps[0][order[k]] > 0 && now > peak) peak = now;
            }
            small_run(s);
            CHECK_EQ_INT(peak, s->result.worst_peak_bytes);
        }
        small_close(s);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}
