/* What the tests of fusion among the tasks share: runs, scores and comparisons of plans with groups. Include it after
 * _POSIX_C_SOURCE, for mkstemp. */
#ifndef STW_TEST_METHOD_FUSED_PLANS_H
#define STW_TEST_METHOD_FUSED_PLANS_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/runner.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "support/random.h"
#include "test.h"

#define ALL "placement,schedule,fusion"

/* Names and values in turn, up to NULL. */
static inline stw_options *options_of(const char *name, ...) {
    stw_options *options;
    va_list list;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    va_start(list, name);
    for (; name != NULL; name = va_arg(list, const char *)) {
        const char *value = va_arg(list, const char *);
        if (value != NULL) CHECK_EQ_INT(stw_options_set(options, name, value, NULL), STW_OK);
    }
    va_end(list);
    return options;
}

/* Takes the options over. NULL: it made no plan, and says why. */
static inline stw_plan *run(const small *s, const char *method, stw_options *options, stw_error *error) {
    stw_plan *plan = NULL;
    stw_error ours = {0};
    const stw_status status = stw_method_run(method, s->simulator, options, &plan, error == NULL ? &ours : error);
    if (error == NULL) CHECK_STR(ours.message, "");
    CHECK((status == STW_OK) == (plan != NULL));
    stw_options_destroy(options);
    return plan;
}

static inline stw_result *optimize(const small *s, stw_options *options, const stw_watch *watch) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, watch, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

static inline stw_score score_of(const small *s, const stw_plan *plan) {
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &evaluation, NULL), STW_OK);
    return stw_score_of(STW_OBJECTIVE_TIME, s->workspace, &evaluation);
}

static inline bool has_order(const stw_plan *plan) {
    bool any = false;
    for (int32_t d = 0; d < plan->machine->device_count; d++) any |= plan->order[d] != NULL;
    return any;
}

static inline stw_plan *copy_of(const stw_plan *plan) {
    stw_plan *copy;
    CHECK_EQ_INT(stw_plan_create(plan->graph, plan->machine, &copy, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_assign(copy, plan, NULL), STW_OK);
    return copy;
}

/* The same devices and priorities, with the groups of a rule. */
static inline stw_score score_with(const small *s, const stw_plan *plan, const char *rule) {
    stw_plan *other = copy_of(plan);
    CHECK_EQ_INT(stw_plan_fuse(other, s->costs, rule, NULL), STW_OK);
    const stw_score score = score_of(s, other);
    stw_plan_destroy(other);
    return score;
}

static inline int32_t count_merged(const stw_plan *plan) {
    int32_t count = 0;
    for (int32_t i = 0; i < plan->graph->N; i++) count += plan->graph->kind[i] == STW_NODE_OP && plan->group[i] != i;
    return count;
}

/* Ops only: what other nodes have there is ignored. Group numbers are free, so they are compared by their smallest op. */
static inline bool have_same(const stw_plan *a, const stw_plan *b, unsigned what) {
    stw_plan *x = copy_of(a), *y = copy_of(b);
    bool same = true;
    CHECK_EQ_INT(stw_plan_canonical_groups(x, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_canonical_groups(y, NULL), STW_OK);
    for (int32_t i = 0; i < a->graph->N; i++) {
        const uint8_t kind = a->graph->kind[i];
        if (what & STW_TASK_PLACEMENT && (kind == STW_NODE_OP || stw_node_is_resident(kind)))
            same &= x->device[i] == y->device[i];
        if (kind != STW_NODE_OP) continue;
        if (what & STW_TASK_SCHEDULE) same &= x->priority[i] == y->priority[i];
        if (what & STW_TASK_FUSION) same &= x->group[i] == y->group[i];
    }
    stw_plan_destroy(x);
    stw_plan_destroy(y);
    return same;
}

/* Costs by the model, so that fusing is worth something. */
static inline small *open_problem(stw_rng *rng, int number, int32_t most) {
    return random_open(rng, (random_shape){.nodes = 8 + (int32_t)stw_rng_below(rng, most - 7),
                                           .device_count = 1 + number % 4,
                                           .plain = number % 5 == 0,
                                           .wide = number % 7 == 1,
                                           .unlike = number % 2 == 1,
                                           .buses = number % 3 == 0,
                                           .model = number % 4 != 3,
                                           .contention = number % 6 == 5 ? "none" : "queue"});
}

/* A valid plan with random devices and priorities, and all groups that merging can make, in a file. */
static inline void write_given(stw_rng *rng, small *s, char path[]) {
    random_placement(rng, s->simulator, s->plan);
    random_priorities(rng, s->plan);
    CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, stw_rng_below(rng, 2) == 0 ? "reverse-post-order" : "default", NULL), STW_OK);
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
}

static const struct {
    const char *text;
    unsigned tasks;
} subsets[] = {{"placement", STW_TASK_PLACEMENT},
               {"schedule", STW_TASK_SCHEDULE},
               {"fusion", STW_TASK_FUSION},
               {"placement,schedule", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
               {"placement,fusion", STW_TASK_PLACEMENT | STW_TASK_FUSION},
               {"schedule,fusion", STW_TASK_SCHEDULE | STW_TASK_FUSION},
               {ALL, STW_TASK_ALL}};
enum { SUBSETS = sizeof subsets / sizeof subsets[0] };

#endif
