#include "method/rehearse.h"

#include "plan/plan.h"
#include "sim/slice.h"

enum {
    LEAST_OPS = 65536,      /* of the graph; smaller ones are tried as a whole */
    BEGINNING = 16384,      /* ops of it */
    MOST_PLANS = 64,        /* that are tried there */
    LEAST_EVALUATIONS = 128 /* that are left: with fewer it does not pay */
};
static const double SHARE = 0.4; /* of what the method may use, at most */

bool stw_method_rehearses(const stw_method *method, const stw_search *search) {
    const stw_graph *graph = search->simulator->graph;
    if (!(method->traits & STW_METHOD_VARIES) || !(search->tasks & STW_TASK_PLACEMENT)) return false;
    return graph->op_count >= LEAST_OPS && graph->flow == NULL && stw_search_evaluations_left(search) >= LEAST_EVALUATIONS;
}

/* The method on the beginning alone. No plan is one of the graph's, and no bound holds for them. */
static stw_status try_on(const stw_slice *beginning, const stw_method *method, stw_search *search,
                         stw_workspace *const *workspace, stw_error *error) {
    const stw_moment now = stw_search_moment(search);
    stw_search inner = stw_search_on_groups(search, beginning->simulator, workspace);
    stw_plan *plan;
    inner.bound = 0.0;
    inner.budget = stw_budget_share(&search->budget, now, SHARE, STW_SHARE_UP);
    inner.budget.last_s = 0.0;
    inner.budget.gives_up = true;
    inner.budget.evaluations = now.evaluations + MOST_PLANS;
    TRY(stw_plan_create(beginning->graph, beginning->simulator->machine, &plan, error));
    const stw_status status = method->run(&inner, plan, error);
    stw_plan_destroy(plan);
    atomic_store(&search->evaluations, atomic_load(&inner.evaluations));
    if (status == STW_OK) search->first_variant = inner.outcome.variant;
    return status == STW_ERROR_NO_PLAN ? STW_OK : status; /* on the whole there may be one */
}

static int32_t count_nodes(const stw_graph *graph) {
    int32_t n = 0;
    for (int32_t ops = 0; n < graph->N; n++) {
        ops += graph->kind[n] == STW_NODE_OP;
        if (ops > BEGINNING) break;
    }
    return n;
}

stw_status stw_rehearse(const stw_method *method, stw_search *search, stw_error *error) {
    const int32_t threads = stw_pool_threads(search->pool);
    stw_arena arena = search->arena;
    stw_workspace **workspace;
    stw_slice beginning;
    STW_TRY_NEW(&arena, workspace, threads, error);
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within it must not overwrite the list */
    stw_status status = stw_slice_open(search->simulator, 0, count_nodes(search->simulator->graph), &beginning, error);
    for (int32_t t = 0; t < threads && status == STW_OK; t++)
        status = stw_workspace_create(beginning.simulator, &workspace[t], error);
    if (status == STW_OK) status = try_on(&beginning, method, search, workspace, error);
    for (int32_t t = 0; t < threads; t++) stw_workspace_destroy(workspace[t]);
    stw_slice_close(&beginning);
    search->arena = before;
    return status;
}
