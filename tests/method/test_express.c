/* method/express: a chain of short ops, and beside each of them long ones that nothing waits for. A device that runs whatever is
 * ready keeps the chain waiting; with a device of its own it does not wait at all. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/method.h"
#include "whole_search.h"

enum { LINKS = 400, LINK_US = 10, BESIDE = 2, BESIDE_US = 12, NODES = LINKS * (1 + BESIDE) };

/* Node k x 3 is a link of the chain; the two that follow read it. */
static char *write_chain(bool chained) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    fprintf(file, "{\"format\":\"opgraph\",\"version\":1,\"name\":\"chain\",\"outputs\":[%d],\"nodes\":[", NODES - 1);
    for (int id = 0; id < NODES; id++) {
        const bool link = id % (1 + BESIDE) == 0;
        const int us = link || !chained ? LINK_US : BESIDE_US, reads = link ? id - (1 + BESIDE) : id - id % (1 + BESIDE);
        fprintf(file,
                "%s{\"id\":%d,\"name\":\"n%d\",\"op\":\"softmax\",\"dtype\":\"f32\",\"shape\":[64],\"us\":{\"h200\":%d},"
                "\"inputs\":[",
                id > 0 ? "," : "", id, id, us);
        if (chained && reads >= 0) fprintf(file, "%d", reads);
        fprintf(file, "]}");
    }
    fprintf(file, "]}");
    fclose(file);
    return text;
}

static problem open_chain(bool chained) {
    problem p = {0};
    char *text = write_chain(chained);
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "chain", NULL, &p.graph, NULL), STW_OK);
    free(text);
    CHECK_EQ_INT(stw_machine_open("0.1/h200x4", &p.machine, NULL), STW_OK);
    CHECK_EQ_INT(stw_costs_create(p.graph, p.machine, NULL, &p.costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(p.costs, &p.simulator, NULL), STW_OK);
    return p;
}

static stw_result *run_methods(const stw_simulator *simulator, const char *methods, const char *threads) {
    stw_options *options = options_of("tasks", "placement,schedule", "evaluations", "60", "threads", threads, NULL);
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_compare(simulator, methods, options, NULL, &result, NULL), STW_OK);
    stw_options_destroy(options);
    return result;
}

/* The chain takes 4 ms, the last ops beside it 12 us and 3 us to get there. The plan is the same from any number of threads. */
TEST(express, what_is_urgent_does_not_wait) {
    problem p = open_chain(true);
    stw_result *one = run_methods(p.simulator, "express", "1"), *two = run_methods(p.simulator, "express", "2");
    stw_candidate express;
    if (CHECK(one != NULL && two != NULL) && CHECK(stw_result_candidate(one, 0, &express))) {
        CHECK(express.valid);
        CHECK(express.value < 1.02e-6 * LINKS * LINK_US);
        CHECK_CONTAINS(express.note, "devices of its own");
        const stw_plan *a = stw_result_plan(one), *b = stw_result_plan(two);
        for (int id = 3; id < NODES - 3; id++) { /* but for both ends */
            const bool with = a->device[id] == a->device[0];
            CHECK(with == (id % 3 == 0));
        }
        CHECK(memcmp(a->device, b->device, (size_t)a->graph->N * sizeof *a->device) == 0);
    }
    stw_result_destroy(one);
    stw_result_destroy(two);
    close_graph(p);
}

/* Ops that wait for nothing and take the same time: none has any slack. */
TEST(express, where_nothing_is_urgent_it_is_etf) {
    problem p = open_chain(false);
    stw_result *result = run_methods(p.simulator, "etf,express", "1");
    stw_candidate etf, express;
    if (CHECK(result != NULL) && CHECK(stw_result_candidate(result, 0, &etf) && stw_result_candidate(result, 1, &express))) {
        CHECK(express.valid && express.value == etf.value);
        CHECK_CONTAINS(express.note, "each op where it starts first");
    }
    stw_result_destroy(result);
    close_graph(p);
}
