/* A module, a plan and what an export made of them, for the tests of the HLO exporter. */
#ifndef TESTS_EXPORT_HLO_PROBLEM_H
#define TESTS_EXPORT_HLO_PROBLEM_H

#include <string.h>

#include "export/export.h"
#include "import/import.h"
#include "test.h"

typedef struct problem {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_str model;
    stw_export_io io; /* of the last export */
    stw_error error;
} problem;

/* --kernels of the problems that are opened from now on. */
static const char *problem_kernels = "formula";

static inline problem open_bytes(stw_str model, const char *machine) {
    problem p = {.model = model};
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "kernels", problem_kernels, NULL), STW_OK);
    CHECK_EQ_INT(stw_graph_parse(model.p, (size_t)model.length, "module", NULL, &p.graph, &p.error), STW_OK);
    CHECK_STR(p.error.message, "");
    CHECK_EQ_INT(stw_machine_open(machine, &p.machine, NULL), STW_OK);
    CHECK_EQ_INT(stw_costs_create(p.graph, p.machine, options, &p.costs, NULL), STW_OK);
    stw_options_destroy(options);
    CHECK_EQ_INT(stw_simulator_create(p.costs, &p.simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(p.graph, p.machine, &p.plan, NULL), STW_OK);
    for (int32_t i = 0; i < p.graph->N; i++) p.plan->group[i] = i;
    return p;
}

static inline problem open_text(const char *text, const char *machine) { return open_bytes(stw_str_of(text), machine); }

static inline void close_problem(problem *p) {
    stw_bytes_free(p->io.bytes);
    stw_plan_destroy(p->plan);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

static inline int32_t node_of(const problem *p, const char *name) {
    for (int32_t i = 0; i < p->graph->N; i++) {
        if (stw_str_is(p->graph->node_name[i], name)) return i;
    }
    CHECK_STR(name, "a node of the graph");
    return 0;
}

static inline void set_group(problem *p, const char *name, int32_t group) { p->plan->group[node_of(p, name)] = group; }
static inline void set_priority(problem *p, const char *name, double priority) { p->plan->priority[node_of(p, name)] = priority; }

static inline stw_status run(problem *p, const char *format) {
    stw_bytes_free(p->io.bytes);
    p->io = (stw_export_io){.model = p->model.p, .model_size = (size_t)p->model.length};
    p->error = (stw_error){0};
    return stw_plan_export(p->simulator, p->plan, format, NULL, &p->io, &p->error);
}

static inline void export_well(problem *p, const char *format) {
    CHECK_EQ_INT(run(p, format), STW_OK);
    CHECK_STR(p->error.message, "");
}

/* a stands before b. */
static inline void check_before(const problem *p, const char *a, const char *b) {
    const char *first = p->io.bytes != NULL ? strstr(p->io.bytes, a) : NULL,
               *second = p->io.bytes != NULL ? strstr(p->io.bytes, b) : NULL;
    test_context("'%s' before '%s'", a, b);
    CHECK(first != NULL && second != NULL && first < second);
    test_context("%s", "");
}

static inline bool has(const problem *p, const char *part) { return p->io.bytes != NULL && strstr(p->io.bytes, part) != NULL; }

/* The last export reads back as a graph, or NULL. */
static inline stw_graph *read_back(const problem *p) {
    stw_graph *graph = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_graph_parse(p->io.bytes, p->io.size, "out", NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    return graph;
}

static inline void check_op_count(const problem *p, int32_t ops) {
    stw_graph *graph = read_back(p);
    if (CHECK(graph != NULL)) CHECK_EQ_INT(graph->op_count, ops);
    stw_graph_destroy(graph);
}

/* The simulator says so, and an export repeats it. */
static inline void check_invalid(problem *p, const char *why) {
    stw_evaluation evaluation = {0};
    stw_workspace *workspace = NULL;
    CHECK_EQ_INT(stw_workspace_create(p->simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulate(p->simulator, p->plan, workspace, &evaluation, NULL), STW_OK);
    CHECK_EQ_INT(evaluation.reason, STW_INVALID_GROUPS);
    CHECK_CONTAINS(evaluation.message, why);
    CHECK_EQ_INT(run(p, "hlo"), STW_ERROR_NO_PLAN);
    CHECK_CONTAINS(p->error.message, evaluation.message);
    stw_workspace_destroy(workspace);
}

static inline void check_refused(problem *p, const char *why) {
    CHECK_EQ_INT(run(p, "hlo"), STW_ERROR_INPUT);
    CHECK_CONTAINS(p->error.message, why);
}

#endif
