/* `coarse`: the search on a coarser graph, whose ops are strands of ops. There a plan is tried in a part of the time, so that
 * far more of them are, and what comes of it is a good plan to begin with for searches that move single ops. */
#include <stdio.h>

#include "method/starts.h"
#include "plan/plan.h"
#include "sim/coarse.h"

enum { OPS_PER_STRAND = 5, MOST_STRANDS = 8192 };
static const double START_SHARE = 0.4; /* of the budget, for initial plans */
static const double FAR = 1.3;         /* times the best of the ops' plans: what follows would hardly come so far */

typedef struct {
    stw_search *search;
    stw_coarse *coarse;
    stw_plan *of_strands;
    bool far, lacks; /* the initial plans of strands are no good */
    int64_t cheaper; /* so many plans of strands count as one of ops */
} coarse_search;

static int64_t tasks_of(const stw_simulator *simulator) { return simulator->unfused.T > 0 ? simulator->unfused.T : 1; }

/* By evaluations, as much work as those of ops would be. */
static stw_budget budget_of(const coarse_search *x) {
    stw_budget budget = x->search->budget;
    const int64_t left = stw_search_evaluations_left(x->search);
    if (budget.evaluations > 0) budget.evaluations = left < INT64_MAX / x->cheaper ? left * x->cheaper : left;
    return budget;
}

/* As one of ops, the best initial plan of strands is far from the best that others have made. */
static stw_status judge(coarse_search *x, const stw_plan *of_strands, stw_error *error) {
    stw_search *search = x->search;
    stw_score found = {0}, start = {0};
    stw_plan *plan;
    if (search->start_count == 0) return STW_OK;
    TRY(stw_plan_create(search->simulator->graph, search->simulator->machine, &plan, error));
    stw_coarse_expand(x->coarse, of_strands, plan);
    stw_status status = stw_search_evaluate(search, plan, 0, &found, error);
    if (status == STW_OK) status = stw_search_evaluate(search, search->start[0], 0, &start, error);
    x->lacks = start.reason == STW_VALID && found.reason != STW_VALID;
    x->far = x->lacks || (start.reason == STW_VALID && found.value > FAR * start.value);
    stw_plan_destroy(plan);
    return status;
}

/* By all methods, and then the search, which ends before it begins where these are far off. */
static stw_status search_strands(coarse_search *x, stw_workspace *const *workspace, stw_error *error) {
    stw_search inner = stw_search_on_groups(x->search, x->coarse->simulator, workspace);
    stw_starts starts;
    atomic_init(&inner.evaluations, 0);
    inner.budget = budget_of(x);
    inner.bound = 0.0;
    inner.unit_count = inner.unit_count > 0 && inner.unit_count < x->coarse->strands ? inner.unit_count : x->coarse->strands;
    inner.start_count = 0;
    TRY(stw_starts_open(&inner, NULL, 0, START_SHARE, &starts, error));
    inner.start = starts.plan;
    inner.start_count = starts.count;
    stw_status status =
        starts.count > 0 ? judge(x, starts.plan[0], error) : stw_fail(error, STW_ERROR_NO_PLAN, "there is no initial plan");
    if (status == STW_OK && x->far) status = stw_plan_assign(x->of_strands, starts.plan[0], error);
    if (status == STW_OK && !x->far) status = stw_method_anneal.run(&inner, x->of_strands, error);
    stw_starts_close(&starts);
    atomic_fetch_add(&x->search->evaluations, (atomic_load(&inner.evaluations) + x->cheaper - 1) / x->cheaper);
    return status;
}

static stw_status search_with_workspaces(coarse_search *x, stw_arena arena, stw_error *error) {
    const int32_t threads = stw_pool_threads(x->search->pool);
    const stw_arena before = x->search->arena;
    stw_workspace **workspace;
    stw_status status = STW_OK;
    STW_TRY_NEW(&arena, workspace, threads, error);
    x->search->arena = arena; /* what runs within this method must not overwrite it */
    for (int32_t t = 0; t < threads && status == STW_OK; t++)
        status = stw_workspace_create(x->coarse->simulator, &workspace[t], error);
    if (status == STW_OK) status = search_strands(x, workspace, error);
    for (int32_t t = 0; t < threads; t++) stw_workspace_destroy(workspace[t]);
    x->search->arena = before;
    return status;
}

/* Ops in the order that their strands had, or by their own upward ranks. */
static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const coarse_search *x = context;
    const stw_simulator *s = x->search->simulator;
    stw_coarse_expand(x->coarse, x->of_strands, plan);
    return index == 0 ? STW_OK : stw_rule_apply(STW_RULE_UPWARD_RANK, s->costs, &s->unfused, plan, scratch, error);
}

static stw_status search_coarse(coarse_search *x, stw_plan *plan, stw_error *error) {
    static const char *const order[] = {"in their order", "by upward rank"};
    int32_t best = 0;
    x->cheaper = tasks_of(x->search->simulator) / tasks_of(x->coarse->simulator);
    if (x->cheaper < 1) x->cheaper = 1;
    TRY(stw_plan_create(x->coarse->graph, x->coarse->simulator->machine, &x->of_strands, error));
    TRY(search_with_workspaces(x, x->search->arena, error));
    const stw_variants variants = {.count = 2, .build = build, .context = x, .sets_priority = true};
    TRY(stw_search_variants(x->search, &variants, plan, &best, error));
    snprintf(x->search->outcome.note, sizeof x->search->outcome.note, "of %d strands, %s%s", x->coarse->strands, order[best],
             x->lacks ? "; its initial plans do not fit"
             : x->far ? "; its initial plans are far off"
                      : "");
    return STW_OK;
}

/* Some ops must be together, or may not be everywhere: strands know nothing of that, and would tie far more to each other. */
static bool is_limited(const stw_simulator *s) {
    bool tied = false;
    for (int32_t k = 0; k < s->pair_count && !tied; k++)
        tied = s->graph->kind[s->pair[k][0]] == STW_NODE_OP && s->graph->kind[s->pair[k][1]] == STW_NODE_OP;
    return tied || s->graph->allowed != NULL;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    const int32_t most = search->simulator->graph->op_count / OPS_PER_STRAND;
    coarse_search x = {.search = search};
    const bool places = (search->tasks & STW_TASK_PLACEMENT) != 0, few = most < search->simulator->machine->device_count;
    if (!places || few || is_limited(search->simulator)) return stw_method_anneal.run(search, plan, error);
    TRY(stw_coarse_create(search->simulator, most < MOST_STRANDS ? most : MOST_STRANDS, &x.coarse, error));
    const stw_status status = search_coarse(&x, plan, error);
    stw_plan_destroy(x.of_strands);
    stw_coarse_destroy(x.coarse);
    return status;
}

const stw_method stw_method_coarse = {.name = "coarse",
                                      .description = "the search on a coarser graph, whose ops are strands of ops",
                                      .kind = STW_METHOD_COARSENER,
                                      .run = run};
