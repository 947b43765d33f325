/* method/stretches and method/rehearse, on a graph as large as they ask for: the same part again and again, each waiting for the
 * one before. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "whole_search.h"

enum {
    BRANCHES = 4,
    BRANCH_OPS = 255,
    PART_OPS = BRANCHES * BRANCH_OPS + 1,
    PART_COUNT = 66
}; /* ops of a part: chains, and what reads their ends */

/* `odd`: no two parts take the same time. */
static char *write_parts(bool odd) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    fprintf(file, "{\"format\":\"opgraph\",\"version\":1,\"name\":\"parts\",\"outputs\":[%d],\"nodes\":[",
            PART_COUNT * PART_OPS - 1);
    for (int id = 0; id < PART_COUNT * PART_OPS; id++) {
        const int part = id / PART_OPS, place = id % PART_OPS, us = odd ? 50 + part : 50;
        fprintf(
            file,
            "%s{\"id\":%d,\"name\":\"n%d\",\"op\":\"softmax\",\"dtype\":\"f32\",\"shape\":[64],\"us\":{\"h200\":%d},\"inputs\":[",
            id > 0 ? "," : "", id, id, us);
        if (place == PART_OPS - 1) {
            for (int c = 0; c < BRANCHES; c++)
                fprintf(file, "%s%d", c > 0 ? "," : "", part * PART_OPS + (c + 1) * BRANCH_OPS - 1);
        } else if (place % BRANCH_OPS > 0) {
            fprintf(file, "%d", id - 1);
        }
        fprintf(file, "]");
        if (place < PART_OPS - 1 && place % BRANCH_OPS == 0 && part > 0) fprintf(file, ",\"control\":[%d]", part * PART_OPS - 1);
        fprintf(file, "}");
    }
    fprintf(file, "]}");
    fclose(file);
    return text;
}

static problem open_parts(bool odd) {
    problem p = {0};
    char *text = write_parts(odd);
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "parts", NULL, &p.graph, NULL), STW_OK);
    free(text);
    CHECK_EQ_INT(stw_machine_open("0.1/h200x4", &p.machine, NULL), STW_OK);
    CHECK_EQ_INT(stw_costs_create(p.graph, p.machine, NULL, &p.costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(p.costs, &p.simulator, NULL), STW_OK);
    return p;
}

static stw_result *run_methods(const stw_simulator *simulator, const char *methods, const char *evaluations,
                               const char *threads) {
    stw_options *options = options_of("tasks", "placement,schedule", "evaluations", evaluations, "threads", threads, NULL);
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_compare(simulator, methods, options, NULL, &result, NULL), STW_OK);
    stw_options_destroy(options);
    return result;
}

/* One part has four chains, so four devices take a quarter of the time; a part is planned twice, the last one being longer. The
 * plan is the same from any number of threads. */
TEST(stretches, what_comes_again_is_planned_once) {
    problem p = open_parts(false);
    stw_result *one = run_methods(p.simulator, "single,stretches", "60", "1"),
               *two = run_methods(p.simulator, "single,stretches", "60", "2");
    stw_candidate single, stretches;
    if (CHECK(one != NULL && two != NULL) &&
        CHECK(stw_result_candidate(one, 0, &single) && stw_result_candidate(one, 1, &stretches))) {
        CHECK(stretches.valid);
        CHECK(stretches.value < 0.3 * single.value);
        CHECK_CONTAINS(stretches.note, "stretches of 2 kinds");
        CHECK(stretches.evaluations <= 60);
        const stw_plan *a = stw_result_plan(one), *b = stw_result_plan(two);
        CHECK(memcmp(a->device, b->device, (size_t)a->graph->N * sizeof *a->device) == 0);
        CHECK(memcmp(a->priority, b->priority, (size_t)a->graph->N * sizeof *a->priority) == 0);
    }
    stw_result_destroy(one);
    stw_result_destroy(two);
    close_graph(p);
}

TEST(stretches, a_graph_without_parts_that_come_again_is_left_alone) {
    problem p = open_parts(true);
    stw_result *result = run_methods(p.simulator, "single,stretches", "60", "1");
    stw_candidate candidate;
    if (CHECK(result != NULL) && CHECK(stw_result_candidate(result, 1, &candidate))) {
        CHECK(!candidate.valid);
        CHECK_CONTAINS(candidate.reason, "no stretch of the graph comes again");
    }
    stw_result_destroy(result);
    close_graph(p);
}

TEST(stretches, a_small_graph_is_one_stretch) {
    problem p = open_graph("unet", "h200x4");
    stw_result *result = run_methods(p.simulator, "stretches", "60", "1");
    stw_candidate stretches;
    if (CHECK(result != NULL) && CHECK(stw_result_candidate(result, 0, &stretches))) {
        CHECK(stretches.valid);
        CHECK_CONTAINS(stretches.note, "% better than the initial plan"); /* as anneal says */
    }
    stw_result_destroy(result);
    close_graph(p);
}

/* With many evaluations variants are tried on the beginning first, and the best there is tried before the others: the same plan
 * from any number of threads. */
TEST(rehearse, the_same_from_any_number_of_threads) {
    problem p = open_parts(true);
    stw_result *one = run_methods(p.simulator, "etf", "140", "1"), *two = run_methods(p.simulator, "etf", "140", "2");
    stw_candidate candidate;
    if (CHECK(one != NULL && two != NULL) && CHECK(stw_result_candidate(one, 0, &candidate))) {
        CHECK(candidate.valid);
        CHECK_EQ_INT(candidate.evaluations, 2 * 6); /* of six variants */
        const stw_plan *a = stw_result_plan(one), *b = stw_result_plan(two);
        CHECK(memcmp(a->device, b->device, (size_t)a->graph->N * sizeof *a->device) == 0);
    }
    stw_result_destroy(one);
    stw_result_destroy(two);
    close_graph(p);
}
