/* Methods by themselves, and results in files. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdlib.h>
#include <unistd.h>

#include "whole_search.h"

/* ---- compare and stw_method_run ---- */

TEST(compare, methods_by_themselves) {
    stw_rng rng = stw_rng_create(566);
    small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 3});
    stw_result *result =
        compare(s->simulator, "single,optimize,heft,single", options_of(ALL_TASKS, "evaluations", "300", "threads", "2", NULL));
    static const char *const names[] = {"single", "optimize", "heft", "single-2"}; /* no two rows have one name */
    stw_candidate candidate[4];
    if (result != NULL) {
        check_result(s->simulator, result);
        if (CHECK_EQ_INT(count_candidates(result), 4)) {
            for (int32_t k = 0; k < 4; k++) {
                CHECK(stw_result_candidate(result, k, &candidate[k]));
                CHECK_STR(candidate[k].method, names[k]);
                CHECK(candidate[k].valid && candidate[k].seed == 1 && candidate[k].peak_bytes != NULL);
            }
            CHECK(candidate[1].value <= candidate[0].value);
            CHECK(strlen(candidate[1].note) > 3);
            CHECK(candidate[1].evaluations > candidate[0].evaluations);
            CHECK_NEAR(candidate[0].value, candidate[3].value, 0.0); /* each has the whole budget and knows of no other */
            CHECK_EQ_INT(candidate[0].evaluations, candidate[3].evaluations);
        }
        CHECK(!stw_result_candidate(result, 4, &candidate[0]));
        CHECK(!stw_result_candidate(result, -1, &candidate[0]));
        CHECK(stw_result_bounds(result).plan_s > 0.0);
    }
    stw_result_destroy(result);
    small_close(s);
}

TEST(compare, unknown_names) {
    static const char *const lists[] = {"singel",   "",
                                        "single,",  "single,,heft",
                                        ",single",  "single, heft",
                                        "Optimize", "a-name-that-is-longer-than-any-method-could-ever-be-and-then-some",
                                        "optimizer"};
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        stw_options *options = options_of("evaluations", "10", NULL);
        stw_result *result = (stw_result *)1;
        stw_error error = {0};
        test_context("'%s'", lists[k]);
        CHECK_EQ_INT(stw_compare(s->simulator, lists[k], options, NULL, &result, &error), STW_ERROR_INPUT);
        CHECK(result == NULL);
        CHECK_CONTAINS(error.message, "unknown method '");
        CHECK_CONTAINS(error.message, "heft");
        stw_options_destroy(options);
    }
    test_context("%s", "");
    small_close(s);
}

TEST(compare, more_methods_than_there_is_room_for) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    char list[1000] = "single";
    for (int k = 0; k < STW_MAX_ENTRIES; k++) strcat(list, ",single");
    stw_result *result = (stw_result *)1;
    stw_error error = {0};
    CHECK_EQ_INT(stw_compare(s->simulator, list, NULL, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_CONTAINS(error.message, "64");
    small_close(s);
}

TEST(method_run, leaves_a_plan_that_says_who_made_it) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_options *options = options_of("evaluations", "100", "seed", "5", "rule", "fifo", NULL);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_method_run("heft", s->simulator, options, &plan, NULL), STW_OK);
    if (CHECK(plan != NULL)) {
        CHECK_STR(plan->method.p, "heft");
        CHECK_EQ_INT(plan->seed, 5);
        for (int32_t i = 0; i < s->graph->N; i++) CHECK_NEAR(plan->priority[i], 0.0, 0.0);
    }
    stw_plan_destroy(plan);
    stw_options_destroy(options);
    small_close(s);
}

/* ---- results ---- */

TEST(result, is_written_and_read_again) {
    small *s = small_open((small_text){.nodes = CHAINS, .device_count = 2});
    stw_result *result = optimize(s->simulator, options_of(ALL_TASKS, "evaluations", "2000", NULL), NULL);
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0) || result == NULL) return;
    close(file);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_result_write(result, path, false, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_open(path, s->graph, s->machine, &plan, NULL), STW_OK);
    if (plan != NULL) {
        const size_t N = (size_t)s->graph->N;
        CHECK(memcmp(plan->device, stw_result_plan(result)->device, N * sizeof *plan->device) == 0);
        CHECK(memcmp(plan->priority, stw_result_plan(result)->priority, N * sizeof *plan->priority) == 0);
        int fused = 0;
        for (size_t i = 0; i < N; i++) fused += plan->group[i] != (int32_t)i;
        CHECK(fused > 0); /* there is something to get wrong */
        CHECK_EQ_INT(stw_plan_canonical_groups(result->entry[result->best]->plan, NULL), STW_OK); /* as the file has them */
        CHECK(memcmp(plan->group, stw_result_plan(result)->group, N * sizeof *plan->group) == 0);
    }
    unlink(path);
    stw_plan_destroy(plan);
    stw_result_destroy(result);
    small_close(s);
}
