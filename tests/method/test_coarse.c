/* method/coarse: the search on a coarser graph. The same plan from any number of threads; evaluations by the work that they are;
 * small graphs are searched as they are; within `optimize` it has a turn where graphs are large. */
#include "method/method.h"

#include <string.h>

#include "whole_search.h"

static stw_result *run_coarse(const stw_simulator *simulator, const char *evaluations, const char *threads) {
    return compare(simulator, "single,coarse", options_of("evaluations", evaluations, "threads", threads, NULL));
}

TEST(coarse, the_same_from_any_number_of_threads) {
    problem p = open_graph("rnnlm-2", "0.1/h200x4");
    stw_result *one = run_coarse(p.simulator, "150", "1"), *three = run_coarse(p.simulator, "150", "3");
    stw_candidate single, coarse;
    if (CHECK(one != NULL && three != NULL) && CHECK(stw_result_candidate(one, 0, &single)) &&
        CHECK(stw_result_candidate(one, 1, &coarse))) {
        check_result(p.simulator, one);
        CHECK(coarse.valid && coarse.value < 0.6 * single.value);
        CHECK_CONTAINS(coarse.note, "strands, ");
        CHECK(coarse.evaluations > 100 && coarse.evaluations <= 160); /* the last round is not cut, and there are two of ops */
        const stw_plan *a = stw_result_plan(one), *b = stw_result_plan(three);
        CHECK(memcmp(a->device, b->device, (size_t)a->graph->N * sizeof *a->device) == 0);
        CHECK(memcmp(a->priority, b->priority, (size_t)a->graph->N * sizeof *a->priority) == 0);
    }
    stw_result_destroy(one);
    stw_result_destroy(three);
    close_graph(p);
}

TEST(coarse, groups_are_left_alone) {
    problem p = open_graph("rnnlm-2", "0.1/h200x4");
    stw_result *result = compare(p.simulator, "single,coarse", options_of(ALL_TASKS, "evaluations", "120", NULL));
    stw_candidate coarse;
    if (CHECK(result != NULL) && CHECK(stw_result_candidate(result, 1, &coarse))) {
        check_result(p.simulator, result);
        CHECK(coarse.valid);
    }
    stw_result_destroy(result);
    close_graph(p);
}

/* What has no coarser graph that is worth it is searched as it is. */
TEST(coarse, small_graphs_and_placements_that_stay) {
    static const char *const tasks[] = {"placement,schedule", "schedule"};
    stw_rng rng = stw_rng_create(3);
    for (int k = 0; k < 2; k++) {
        small *s = random_open(&rng, (random_shape){.nodes = 12, .device_count = 3});
        stw_result *result = compare(s->simulator, "coarse,anneal", options_of("tasks", tasks[k], "evaluations", "120", NULL));
        stw_candidate coarse, anneal;
        test_context("%s", tasks[k]);
        if (CHECK(result != NULL) && CHECK(stw_result_candidate(result, 0, &coarse) && stw_result_candidate(result, 1, &anneal)))
            CHECK(coarse.valid && coarse.value == anneal.value);
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

static bool has_candidate(const stw_result *result, const char *method) {
    stw_candidate candidate;
    for (int32_t k = 0; stw_result_candidate(result, k, &candidate); k++) {
        if (strcmp(candidate.method, method) == 0) return true;
    }
    return false;
}

TEST(coarse, its_turn) {
    static const struct {
        const char *graph, *evaluations, *objective;
        bool has;
    } turn[] = {{"rnnlm-4", "900", "time", true},
                {"unet", "900", "time", false},
                {"rnnlm-4", "200", "time", false},
                {"rnnlm-4", "900", "throughput", false}};
    for (int k = 0; k < 4; k++) {
        problem p = open_graph(turn[k].graph, "0.1/h200x4");
        stw_result *result = optimize(
            p.simulator, options_of("evaluations", turn[k].evaluations, "objective", turn[k].objective, "policy", "none", NULL),
            NULL);
        test_context("%s, %s evaluations, %s", turn[k].graph, turn[k].evaluations, turn[k].objective);
        if (CHECK(result != NULL)) {
            CHECK_EQ_INT(has_candidate(result, "coarse"), turn[k].has);
            check_result(p.simulator, result);
        }
        stw_result_destroy(result);
        close_graph(p);
    }
    test_context("%s", "");
}

/* Strands know nothing of what must be together: with limits others have the time. */
TEST(coarse, limits_leave_it_out) {
    problem p = open_graph("rnnlm-4", "0.1/h200x4");
    stw_result *result = optimize(p.simulator, options_of("evaluations", "700", "grain", "layer", "policy", "none", NULL), NULL);
    if (CHECK(result != NULL)) {
        CHECK(!has_candidate(result, "coarse"));
        check_result(p.simulator, result);
    }
    stw_result_destroy(result);
    stw_options *options = options_of("evaluations", "100", "grain", "layer", NULL);
    stw_plan *coarse = NULL, *anneal = NULL;
    CHECK_EQ_INT(stw_method_run("coarse", p.simulator, options, &coarse, NULL), STW_OK);
    CHECK_EQ_INT(stw_method_run("anneal", p.simulator, options, &anneal, NULL), STW_OK);
    if (CHECK(coarse != NULL && anneal != NULL))
        CHECK(memcmp(coarse->device, anneal->device, (size_t)p.graph->N * sizeof *coarse->device) == 0);
    stw_plan_destroy(coarse);
    stw_plan_destroy(anneal);
    stw_options_destroy(options);
    close_graph(p);
}
