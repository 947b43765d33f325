/* Who gets how much of the budget in `optimize`: policies while they pay, and an end for dropping transfers that charge. */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "policy/checkpoint.h"

#include "whole_search.h"

/* The best value of the candidates before `end`. */
static double best_before(const stw_result *result, int32_t end) {
    stw_candidate candidate;
    double best = INFINITY;
    for (int32_t k = 0; k < end && stw_result_candidate(result, k, &candidate); k++) {
        if (candidate.valid && candidate.value < best) best = candidate.value;
    }
    return best;
}

/* The row of go-tune; its index. */
static int32_t find_tune(const stw_result *result, stw_candidate *out) {
    int32_t k = 0;
    while (stw_result_candidate(result, k, out) && strcmp(out->method, "go-tune") != 0) k++;
    return CHECK(k < count_candidates(result)) ? k : -1;
}

/* The shipped policy, as if it had learnt to steer as well. */
static void write_policy_that_steers(char *path) {
    stw_arena arena = {0};
    stw_tensor_file file;
    const int handle = mkstemp(path);
    CHECK(handle >= 0);
    close(handle);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_tensor_file_parse(stw_shipped_policy(), "shipped", &arena, &file, NULL), STW_OK);
    int32_t k = 0;
    while (k < file.dimension_count && strcmp(file.dimension[k].name, "pretrain.reinforced") != 0) k++;
    if (CHECK(k < file.dimension_count)) file.dimension[k].value = 1;
    CHECK_EQ_INT(stw_tensor_file_write(&file, path, NULL), STW_OK);
    stw_arena_destroy(&arena);
}

/* One that has learnt from moves alone: `anneal` learns on, with all of the share. */
TEST(shares, what_anneal_would_do_is_left_to_it) {
    problem p = open_graph("unet", "h200x4");
    stw_result *result = optimize(p.simulator, options_of("evaluations", "2000", "threads", "1", NULL), NULL);
    stw_candidate candidate, before = {0};
    int32_t k = 0;
    while (stw_result_candidate(result, k, &candidate) && strcmp(candidate.method, "anneal") != 0) {
        CHECK(strcmp(candidate.method, "go-tune") != 0);
        before = candidate;
        k++;
    }
    CHECK_STR(before.method, "go-zero");
    CHECK_STR(candidate.method, "anneal");
    CHECK(candidate.evaluations > 1000);
    stw_result_destroy(result);
    close_graph(p);
}

/* It finds nothing better here: after six updates its share goes to the search that follows. */
TEST(shares, a_policy_that_does_not_pay_gives_back_its_share) {
    problem p = open_graph("unet", "h200x4");
    char path[] = "/tmp/stowage-test-XXXXXX";
    write_policy_that_steers(path);
    stw_result *result = optimize(p.simulator, options_of("evaluations", "2000", "threads", "1", "policy", path, NULL), NULL);
    stw_candidate tune, search;
    if (CHECK(result != NULL)) {
        const int32_t k = find_tune(result, &tune);
        CHECK(k >= 0 && tune.value >= best_before(result, k));
        CHECK_CONTAINS(tune.note, "6 updates");
        CHECK(stw_result_candidate(result, k + 1, &search));
        CHECK_STR(search.method, "anneal");
        CHECK(search.evaluations > 800 + tune.evaluations); /* more than the 40 % that are its own */
    }
    unlink(path);
    stw_result_destroy(result);
    close_graph(p);
}

TEST(shares, updates_that_were_asked_for_are_made) {
    problem p = open_graph("unet", "h200x4");
    stw_candidate tune;
    stw_result *result = optimize(p.simulator, options_of("evaluations", "2000", "threads", "1", "updates", "9", NULL), NULL);
    if (CHECK(result != NULL) && find_tune(result, &tune) >= 0) CHECK_CONTAINS(tune.note, "9 updates");
    stw_result_destroy(result);
    close_graph(p);
}

static void charge(stw_machine *machine) {
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) machine->link[k].receive_us = 2.0;
    CHECK_EQ_INT(stw_machine_finish(machine, NULL), STW_OK);
    CHECK(machine->charges);
}

/* Moves of one op, with all that must be with it, that would make the plan faster. */
static int32_t count_better_moves(const small *s, const stw_plan *plan, double step_s) {
    stw_plan *trial;
    stw_workspace *workspace;
    int32_t better = 0;
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &trial, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(s->simulator, &workspace, NULL), STW_OK);
    for (int32_t i = 0; i < s->graph->N; i++) {
        for (int32_t d = 0; d < s->machine->device_count; d++) {
            stw_evaluation evaluation;
            CHECK_EQ_INT(stw_plan_assign(trial, plan, NULL), STW_OK);
            for (int32_t j = 0; j < s->graph->N; j++) {
                if (s->simulator->together[j] == s->simulator->together[i]) trial->device[j] = d;
            }
            CHECK_EQ_INT(stw_simulate(s->simulator, trial, workspace, &evaluation, NULL), STW_OK);
            better += evaluation.reason == STW_VALID && evaluation.step_s < step_s * (1.0 - 1e-9);
        }
    }
    stw_workspace_destroy(workspace);
    stw_plan_destroy(trial);
    return better;
}

TEST(shares, transfers_that_charge_are_dropped_in_the_end) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        stw_rng rng = stw_rng_create(seed);
        small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 3, .plain = true});
        charge(s->machine);
        stw_result *result = optimize(s->simulator, options_of("evaluations", "1200", "threads", "1", NULL), NULL);
        test_context("seed %d", (int)seed);
        if (CHECK(result != NULL)) {
            stw_candidate best;
            check_result(s->simulator, result);
            CHECK(count_evaluations(result) <= 1200);
            CHECK(stw_result_candidate(result, stw_result_best(result), &best));
            if (best.found_count > 0) CHECK_NEAR(best.found[best.found_count - 1].value, best.value, 0.0);
            CHECK_EQ_INT(count_better_moves(s, stw_result_plan(result), best.step_s), 0);
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}
