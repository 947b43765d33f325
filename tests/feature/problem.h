/* A problem with its features: what the tests of feature/ share. */
#ifndef STW_TEST_PROBLEM_H
#define STW_TEST_PROBLEM_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "feature/feature.h"
#include "sim/critical.h"
#include "support/random.h"
#include "test.h"

typedef struct problem {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_arena arena;
    stw_unit_levels *levels; /* in the arena */
    stw_features features;
} problem;

/* A mistake of the test itself, or a file that is missing. */
static inline void need(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

/* The coarsest level of at most `wanted` units; 0: level 0. */
static inline void problem_build(problem *p, int32_t wanted) {
    stw_error error = {0};
    p->levels = STW_NEW(&p->arena, stw_unit_levels, 1);
    need(stw_units_build(p->simulator->graph, p->simulator->costs->least_us, &wanted, wanted > 0 ? 1 : 0, &p->arena, p->levels,
                         &error),
         &error);
    need(stw_features_build(p->simulator->costs, &p->simulator->unfused, &p->levels->level[p->levels->count - 1], &p->arena,
                            &p->features, &error),
         &error);
}

/* `graph` by its name in data/graphs. */
static inline problem problem_open(const char *graph, const char *machine, int32_t wanted) {
    problem p = {0};
    stw_error error = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/data/graphs/%s.json.gz", STW_SOURCE_DIR, graph);
    need(stw_graph_open(path, NULL, &p.graph, &error), &error);
    need(stw_machine_open(machine, &p.machine, &error), &error);
    need(stw_costs_create(p.graph, p.machine, NULL, &p.costs, &error), &error);
    need(stw_simulator_create(p.costs, &p.simulator, &error), &error);
    need(stw_arena_create(&p.arena, &error), &error);
    problem_build(&p, wanted);
    return p;
}

static inline void problem_close(problem *p) {
    stw_arena_destroy(&p->arena);
    stw_simulator_destroy(p->simulator);
    stw_costs_destroy(p->costs);
    stw_machine_destroy(p->machine);
    stw_graph_destroy(p->graph);
}

/* The features of a small problem, which stays with its owner. */
static inline problem problem_of(const small *s, int32_t wanted) {
    problem p = {.simulator = s->simulator};
    stw_error error = {0};
    need(stw_arena_create(&p.arena, &error), &error);
    problem_build(&p, wanted);
    return p;
}

static inline int32_t column_of(stw_feature_set set, const char *name) {
    for (int32_t k = 0; k < stw_feature_count(set); k++) {
        if (strcmp(stw_feature_name(set, k), name) == 0) return k;
    }
    fprintf(stderr, "no column %s\n", name);
    abort();
}

static inline double unit_value(const problem *p, int32_t unit, const char *name) {
    return p->features.unit[(int64_t)unit * stw_feature_count(STW_FEATURES_UNIT) + column_of(STW_FEATURES_UNIT, name)];
}
static inline double device_value(const problem *p, int32_t device, const char *name) {
    return p->features.device[(int64_t)device * stw_feature_count(STW_FEATURES_DEVICE) + column_of(STW_FEATURES_DEVICE, name)];
}

/* The feedback of a plan. */
typedef struct sight {
    double *feedback, *pair;
    stw_feedback_input input; /* points into the workspace of the run */
} sight;

static inline sight look(problem *p, const stw_feedback_input *input) {
    const stw_features *f = &p->features;
    sight s = {.input = *input};
    stw_error error = {0};
    s.feedback = STW_NEW(&p->arena, double, (int64_t)f->M *stw_feature_count(STW_FEATURES_FEEDBACK));
    s.pair = STW_NEW(&p->arena, double, (int64_t)f->M * f->D * stw_feature_count(STW_FEATURES_PAIR));
    CHECK_EQ_INT(stw_features_feedback(f, &s.input, s.feedback, s.pair, p->arena, &error), STW_OK);
    return s;
}

static inline sight look_at_run(problem *p, const stw_plan *plan, const stw_workspace *workspace, const stw_evaluation *result) {
    stw_error error = {0};
    int32_t *critical = STW_NEW(&p->arena, int32_t, p->simulator->unfused.T + 1), count = 0;
    need(stw_critical_path(workspace, critical, p->simulator->unfused.T, &count, p->arena, &error), &error);
    const stw_feedback_input input = {.device = plan->device,
                                      .step_ps = result->step_ps,
                                      .start_ps = workspace->timeline.start_ps,
                                      .end_ps = workspace->timeline.end_ps,
                                      .critical = critical,
                                      .critical_count = count,
                                      .busy_ps = result->busy_ps,
                                      .priority = plan->priority};
    return look(p, &input);
}

static inline double feedback_value(const sight *s, int32_t unit, const char *name) {
    return s->feedback[(int64_t)unit * stw_feature_count(STW_FEATURES_FEEDBACK) + column_of(STW_FEATURES_FEEDBACK, name)];
}
static inline double pair_value(const problem *p, const sight *s, int32_t unit, int32_t device, const char *name) {
    return s->pair[((int64_t)unit * p->features.D + device) * stw_feature_count(STW_FEATURES_PAIR) +
                   column_of(STW_FEATURES_PAIR, name)];
}

/* How many of `count` numbers are not finite, or beyond 2. */
static inline int64_t count_bad(const double *x, int64_t count) {
    int64_t bad = 0;
    for (int64_t k = 0; k < count; k++) bad += !isfinite(x[k]) || fabs(x[k]) > 2.0;
    return bad;
}

static inline int64_t count_bad_static(const stw_features *f) {
    return count_bad(f->unit, (int64_t)f->M * stw_feature_count(STW_FEATURES_UNIT)) +
           count_bad(f->device, (int64_t)f->D * stw_feature_count(STW_FEATURES_DEVICE));
}
static inline int64_t count_bad_seen(const stw_features *f, const sight *s) {
    return count_bad(s->feedback, (int64_t)f->M * stw_feature_count(STW_FEATURES_FEEDBACK)) +
           count_bad(s->pair, (int64_t)f->M * f->D * stw_feature_count(STW_FEATURES_PAIR));
}

#endif
