/* train/decode: what decisions mean for a plan. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "train/decode.h"

#include "train/bench.h"

/* ---- problems ---- */

static bench *random_bench(stw_rng *rng, int number) {
    const random_shape shape = {
        .nodes = 40 + number % 60, .device_count = 2 + number % 4, .unlike = number % 3 == 0, .buses = number % 2 == 0};
    return bench_open(random_open(rng, shape), number % 4 == 0 ? 0 : 4 + number % 20, 1);
}

/* Every op but the first reads one or two before it, so that everything hangs together. Times and sizes are far from alike. */
static small *web(stw_rng *rng, int32_t ops, int32_t device_count, const char *links) {
    sketch *k = sketch_begin();
    sketch_op(k, 40, 5.0, "%s", "");
    while (k->count < ops) {
        const int32_t a = (int32_t)stw_rng_below(rng, k->count), late = k->count < 5 ? k->count : 5;
        const int32_t b = k->count - 1 - (int32_t)stw_rng_below(rng, late), bytes = 10 + (int32_t)stw_rng_below(rng, 60);
        const double us = 3.0 + 10.0 * stw_rng_uniform(rng);
        if (a == b) {
            sketch_op(k, bytes, us, "%d", a);
        } else {
            sketch_op(k, bytes, us, "%d,%d", a, b);
        }
    }
    return sketch_end(k, device_count, links);
}

static double *random_knobs(bench *b, stw_rng *rng, double sigma) {
    double *action = constant_knobs(b, 0.0, 0.0, 0.0);
    for (int64_t k = 0; k < (int64_t)b->problem.M * STW_STEER_KNOBS; k++) action[k] = sigma * stw_rng_normal(rng);
    return action;
}

static bool is_placed(const bench *b, int32_t node) {
    return !stw_node_is_everywhere(b->s->graph->kind[b->s->graph->root[node]]);
}

/* Devices in range, views with their root, what belongs together on one device. */
static void check_complete(const bench *b, const stw_plan *plan) {
    const stw_simulator *s = b->s->simulator;
    for (int32_t i = 0; i < s->graph->N; i++) {
        CHECK(plan->device[i] >= 0 && plan->device[i] < s->machine->device_count);
        CHECK(isfinite(plan->priority[i]));
        if (is_placed(b, i)) CHECK_EQ_INT(plan->device[i], plan->device[s->graph->root[i]]);
    }
    for (int32_t k = 0; k < s->pair_count; k++) CHECK_EQ_INT(plan->device[s->pair[k][0]], plan->device[s->pair[k][1]]);
    for (int32_t d = 0; d < s->machine->device_count; d++) CHECK(plan->order[d] == NULL);
}

/* ---- steer ---- */

TEST(decode, steered_plans_are_complete_and_valid) {
    const stw_rng seeds = stw_rng_create(41);
    for (int number = 0; number < 60; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = random_bench(&rng, number);
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *other = plan_with(b, NULL);
        random_placement(&rng, b->s->simulator, b->s->plan); /* what was in the plan before must not matter */
        random_priorities(&rng, b->s->plan);
        random_orders(&rng, b->s->simulator, b->s->plan);
        stw_round round = round_of(b, number % 3 == 0 ? NULL : other);
        round.home = number % 2 == 0 ? STW_HOME_GLUED : STW_HOME_FIRST;
        round.offset[0] = stw_rng_normal(&rng);
        test_context("problem %d", number);
        steer(b, &round, random_knobs(b, &rng, number % 5 == 0 ? 1e6 : 2.0)); /* far beyond the range as well */
        check_complete(b, b->s->plan);
        CHECK_EQ_INT(b->s->result.reason, STW_VALID);
        stw_plan_destroy(other);
        bench_close(b);
    }
    test_context("%s", "");
}

TEST(decode, glue_without_end_is_the_plan_of_the_round) {
    const stw_rng seeds = stw_rng_create(42);
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = random_bench(&rng, number);
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *other = plan_with(b, NULL);
        const stw_round round = round_of(b, other);
        double *action = constant_knobs(b, 0.0, 0.0, 1e3);
        for (int32_t u = 0; u < b->problem.M; u++) action[(int64_t)u * STW_STEER_KNOBS] = -1.0 + stw_rng_normal(&rng);
        decode(b, &round, &(stw_decisions){0}); /* without placement decisions: that plan */
        const int64_t bytes = b->s->result.transfer_bytes;
        for (int32_t i = 0; i < b->s->graph->N; i++) CHECK_EQ_INT(b->s->plan->device[i], other->device[i]);
        steer(b, &round, action);
        test_context("problem %d", number);
        for (int32_t i = 0; i < b->s->graph->N; i++)
            if (is_placed(b, i)) CHECK_EQ_INT(b->s->plan->device[i], other->device[i]);
        CHECK_EQ_INT(b->s->result.transfer_bytes, bytes);
        stw_plan_destroy(other);
        bench_close(b);
    }
    test_context("%s", "");
}

/* With glue without end, units that choose it are where the other plan has them, the rest where the round's plan has them. */
TEST(decode, units_may_choose_the_other_plan) {
    const stw_rng seeds = stw_rng_create(45);
    int32_t moved = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = bench_open(web(&rng, 40, 3, NULL), 10, 1);
        const stw_units *units = &b->problem.units;
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *plan = plan_with(b, NULL);
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *other = plan_with(b, NULL);
        stw_round round = round_of(b, plan);
        double *action = constant_knobs(b, 0.0, 0.0, 1e3);
        for (int32_t u = 0; u < b->problem.M; u++)
            action[(int64_t)u * STW_STEER_KNOBS + 3] = stw_rng_below(&rng, 2) == 1 ? 1.0 : 0.0;
        test_context("problem %d", number);
        steer(b, &round, action); /* there is no other plan: the choice says nothing */
        for (int32_t i = 0; i < b->s->graph->N; i++) CHECK_EQ_INT(b->s->plan->device[i], plan->device[i]);
        round.other = other->device;
        steer(b, &round, action);
        for (int32_t i = 0; i < b->s->graph->N; i++) {
            const bool chooses = action[(int64_t)units->of[i] * STW_STEER_KNOBS + 3] > 0.5;
            CHECK_EQ_INT(b->s->plan->device[i], (chooses ? other : plan)->device[i]);
            moved += b->s->plan->device[i] != plan->device[i];
        }
        for (int32_t u = 0; u < b->problem.M; u++)
            action[(int64_t)u * STW_STEER_KNOBS + 2] = -1e3; /* it brings glue of its own */
        round.offset[0] = -4.0;
        steer(b, &round, action);
        check_complete(b, b->s->plan);
        int32_t there = 0, all = 0;
        for (int32_t i = 0; i < b->s->graph->N; i++) {
            if (action[(int64_t)units->of[i] * STW_STEER_KNOBS + 3] < 0.5) continue;
            there += b->s->plan->device[i] == other->device[i];
            all++;
        }
        CHECK(there >= 0.9 * all);
        stw_plan_destroy(other);
        stw_plan_destroy(plan);
        bench_close(b);
    }
    CHECK(moved > 100);
    test_context("%s", "");
}

TEST(decode, aversion_without_end_is_one_device) {
    const stw_rng seeds = stw_rng_create(43);
    int32_t spread = 0;
    for (int number = 0; number < 20; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = bench_open(web(&rng, 30, 2 + number % 3, NULL), number % 2 == 0 ? 0 : 8, 1);
        const stw_round round = round_of(b, NULL);
        test_context("problem %d", number);
        steer(b, &round, constant_knobs(b, 5.0, -4.0, -4.0));
        CHECK_EQ_INT(devices_used(b, b->s->plan), 1);
        CHECK_EQ_INT(b->s->result.transfer_bytes, 0);
        steer(b, &round, constant_knobs(b, -4.0, -4.0, -4.0));
        spread += devices_used(b, b->s->plan) > 1;
        bench_close(b);
    }
    CHECK(spread >= 10); /* it is the aversion that does it */
    test_context("%s", "");
}

TEST(decode, unit_glue_keeps_units_whole) {
    const stw_rng seeds = stw_rng_create(44);
    int32_t split = 0;
    for (int number = 0; number < 20; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = bench_open(web(&rng, 40, 3, NULL), 8, 1);
        const stw_round round = round_of(b, NULL);
        for (int glue = 0; glue < 2; glue++) {
            steer(b, &round, constant_knobs(b, -4.0, glue == 1 ? 8.0 : -4.0, 0.0));
            for (int32_t i = 0; i < b->s->graph->N; i++) {
                const stw_units *units = &b->problem.units;
                const int32_t first = units->member[units->start[units->of[i]]];
                if (glue == 1) CHECK_EQ_INT(b->s->plan->device[i], b->s->plan->device[first]);
                split += b->s->plan->device[i] != b->s->plan->device[first];
            }
        }
        CHECK(devices_used(b, b->s->plan) > 1);
        bench_close(b);
    }
    CHECK(split > 0); /* without glue some are torn */
}

TEST(decode, offset_and_decision_add_up) {
    const stw_rng seeds = stw_rng_create(45);
    int32_t unlike = 0;
    for (int number = 0; number < 20; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = bench_open(web(&rng, 40, 3, NULL), 10, 1);
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *other = plan_with(b, NULL);
        const double knobs[STW_STEER_KNOBS] = {stw_rng_normal(&rng), stw_rng_normal(&rng), 2.0 * stw_rng_normal(&rng)};
        stw_round round = round_of(b, other);
        steer(b, &round, constant_knobs(b, knobs[0], knobs[1], knobs[2]));
        stw_plan *direct = plan_with(b, NULL);
        for (int k = 0; k < STW_STEER_KNOBS; k++) round.offset[k] = knobs[k] - 0.5;
        steer(b, &round, constant_knobs(b, 0.5, 0.5, 0.5));
        for (int32_t i = 0; i < b->s->graph->N; i++) CHECK_EQ_INT(b->s->plan->device[i], direct->device[i]);
        steer(b, &round, constant_knobs(b, 4.0, 0.5, 0.5));
        for (int32_t i = 0; i < b->s->graph->N; i++) unlike += b->s->plan->device[i] != direct->device[i];
        stw_plan_destroy(other);
        stw_plan_destroy(direct);
        bench_close(b);
    }
    CHECK(unlike > 0);
}

/* ---- bytes that are sent ---- */

/* A chain: what is cut costs more than it can bring. */
TEST(decode, aversion_does_not_cut_a_chain_more_than_the_plan_of_the_round) {
    const stw_rng seeds = stw_rng_create(46);
    int32_t fewer = 0;
    for (int number = 0; number < 30; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        sketch *k = sketch_begin();
        sketch_op(k, 50, 5.0, "%s", "");
        while (k->count < 32)
            sketch_op(k, 20 + (int32_t)stw_rng_below(&rng, 200), 2.0 + stw_rng_uniform(&rng), "%d", k->count - 1);
        bench *b = bench_open(sketch_end(k, 2 + number % 3, NULL), number % 2 == 0 ? 0 : 8, 1);
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *other = plan_with(b, NULL);
        const stw_round round = round_of(b, other);
        decode(b, &round, &(stw_decisions){0});
        const int64_t bytes = b->s->result.transfer_bytes;
        test_context("problem %d", number);
        for (int a2 = -4; a2 <= 8; a2 += 2) {
            steer(b, &round, constant_knobs(b, 5.0, -4.0, a2));
            CHECK(b->s->result.transfer_bytes <= bytes);
            fewer += b->s->result.transfer_bytes < bytes;
        }
        steer(b, &round, constant_knobs(b, 1.0, -4.0, 9.0)); /* glue that outweighs aversion */
        CHECK_EQ_INT(b->s->result.transfer_bytes, bytes);
        stw_plan_destroy(other);
        bench_close(b);
    }
    CHECK(fewer >= 60); /* of 210 */
    test_context("%s", "");
}

/* ---- device ---- */

TEST(decode, units_go_to_the_devices_that_are_named) {
    const stw_rng seeds = stw_rng_create(47);
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        bench *b = random_bench(&rng, number);
        const stw_round round = round_of(b, NULL);
        double *device = STW_NEW(&b->arena, double, b->problem.M);
        for (int32_t u = 0; u < b->problem.M; u++) device[u] = (double)stw_rng_below(&rng, b->s->machine->device_count);
        random_orders(&rng, b->s->simulator, b->s->plan);
        decode(b, &round, &(stw_decisions){.placement = device});
        test_context("problem %d", number);
        check_complete(b, b->s->plan);
        CHECK_EQ_INT(b->s->result.reason, STW_VALID);
        for (int32_t i = 0; i < b->s->graph->N; i++) {
            const int32_t unit = b->problem.units.of[i];
            if (unit >= 0) CHECK_EQ_INT(b->s->plan->device[i], device[unit]);
        }
        bench_close(b);
    }
    test_context("%s", "");
}

/* ---- priorities ---- */

TEST(decode, classes_are_the_priorities) {
    stw_rng rng = stw_rng_create(48);
    bench *b = random_bench(&rng, 41);
    const stw_round round = round_of(b, b->s->plan);
    double *class = STW_NEW(&b->arena, double, b->problem.M);
    for (int32_t u = 0; u < b->problem.M; u++) class[u] = (double)stw_rng_below(&rng, 8);
    random_priorities(&rng, b->s->plan);
    stw_plan *other = plan_with(b, NULL);
    decode(b, &(stw_round){.plan = other, .base = round.base}, &(stw_decisions){.schedule = class});
    for (int32_t i = 0; i < b->s->graph->N; i++) {
        const int32_t unit = b->problem.units.of[i];
        CHECK_NEAR(b->s->plan->priority[i], unit >= 0 ? class[unit] : 0.0, 0.0);
    }
    stw_plan_destroy(other);
    bench_close(b);
}

/* A nudge of 1 is 2 % of the largest rank, on top of the upward rank or of the rule that was asked for. */
TEST(decode, nudges_move_priorities_by_a_share_of_the_largest) {
    static const int32_t rules[] = {-1, STW_RULE_UPWARD_RANK, STW_RULE_CRITICAL_PATH};
    for (int r = 0; r < 3; r++) {
        stw_rng rng = stw_rng_create(49);
        bench *b = random_bench(&rng, 42);
        const int32_t N = b->s->graph->N;
        const stw_tasks *tasks = &b->s->simulator->unfused;
        double *nudge = STW_NEW(&b->arena, double, b->problem.M), *plain = STW_NEW(&b->arena, double, N), largest = 0.0;
        random_placement(&rng, b->s->simulator, b->s->plan);
        stw_plan *other = plan_with(b, NULL);
        const stw_round round = round_of(b, other);
        b->problem.rule = rules[r];
        for (int32_t u = 0; u < b->problem.M; u++) nudge[u] = stw_rng_normal(&rng);
        decode(b, &round, &(stw_decisions){.nudged = true});
        memcpy(plain, b->s->plan->priority, (size_t)N * sizeof *plain);
        for (int32_t t = 0; t < tasks->T; t++) largest = fmax(largest, plain[tasks->task_node[t]]);
        CHECK(largest > 0.0);
        random_priorities(&rng, b->s->plan); /* what was there before does not stay */
        decode(b, &round, &(stw_decisions){.schedule = nudge, .nudged = true});
        for (int32_t i = 0; i < N; i++) {
            const int32_t unit = b->problem.units.of[i];
            CHECK_NEAR(b->s->plan->priority[i], plain[i] + (unit >= 0 ? 0.02 * largest * nudge[unit] : 0.0), 1e-9);
        }
        if (r < 2) { /* the rule without nudges is the upward rank */
            double *rank = STW_NEW(&b->arena, double, tasks->T);
            stw_rule_upward_ranks(b->s->costs, tasks, other->device, rank);
            for (int32_t t = 0; t < tasks->T; t++) CHECK_NEAR(plain[tasks->task_node[t]], rank[t], 1e-9);
        }
        stw_plan_destroy(other);
        bench_close(b);
    }
}

/* ---- order ---- */

/* As the plan of the round ran: by start, and nothing before what it needs. */
TEST(decode, order_of_a_round_is_that_of_its_run) {
    stw_rng rng = stw_rng_create(50);
    bench *b = bench_open(web(&rng, 40, 3, NULL), 0, 1);
    const stw_tasks *tasks = &b->s->simulator->unfused;
    stw_round round = round_of(b, NULL);
    stw_error error = {0};
    random_placement(&rng, b->s->simulator, b->s->plan);
    small_run(b->s);
    CHECK_EQ_INT(stw_round_order(&b->problem, b->s->workspace->timeline.start_ps, &b->arena, &round, &error), STW_OK);
    for (int32_t k = 1; k < tasks->T; k++) {
        const int64_t *start = b->s->workspace->timeline.start_ps;
        CHECK(start[round.base.order[k]] >= start[round.base.order[k - 1]]);
    }
    bench_close(b);
}
