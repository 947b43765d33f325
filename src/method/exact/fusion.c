/* `exact` with fusion among the tasks: every set of merges, and for each the best plan of its groups. What comes out is the best
 * of what merging can make; groups of other forms (several outputs) are not tried, so nothing is proved, but for chains on like
 * devices, which have none, and where no two ops can be in one group. Where a graph says how ops walk their tensors, merges are
 * choosier than the rules of groups, so a chain is cut in all ways instead. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "method/exact/exact.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "sim/bounds.h"

enum { MOST_MERGES = 12 };

typedef struct {
    stw_search *search;
    int32_t count;
    int32_t op[MOST_MERGES]; /* that can be merged */
    double *priority;        /* (N) */
    int32_t *one;            /* (N) zeros: all on the first device */
    const stw_plan *fixed;   /* placement and schedule, if they are not to be decided */
    stw_plan *trial, *best;
    stw_score score;
    bool has_best;
    bool cuts;   /* op[] are the ops of a chain but the last; what is in the set goes with the next one */
    bool proves; /* no groups are left out, and the best plan of each set was proved */
    int64_t tried;
} exact_fusion;

/* Each op is read by the next and by nobody else. What is in a group then is in one piece, and its last op alone is seen outside:
 * groups with a gap would wait for themselves. */
static bool is_chain(const stw_graph *graph) {
    for (int32_t k = 0; k + 1 < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        if (graph->kept[op] || graph->updates[op] >= 0 || graph->reader_start[op] == graph->reader_start[op + 1]) return false;
        for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
            if (graph->reader[r].node != graph->topological[k + 1]) return false;
        }
    }
    return true;
}

static stw_status list_merges(exact_fusion *x, int32_t *group, stw_error *error) {
    const stw_search *search = x->search;
    const stw_graph *graph = search->simulator->graph;
    for (int32_t k = 0; x->cuts && k + 1 < graph->op_count; k++) x->op[x->count++] = graph->topological[k];
    if (x->cuts) return STW_OK;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        x->priority[i] = 1.0; /* by itself, or after others that the rule has merged */
        stw_fuse_by_priority(search->fusing->fuser[0], x->priority, x->one, group);
        x->priority[i] = 0.0;
        if (group[i] == i && search->fusing->priority[i] == 0.0) continue;
        if (x->count == MOST_MERGES)
            return stw_fail(
                error, STW_ERROR_NO_PLAN,
                "exact tries all merges of at most %d ops, and here more can be merged; leave fusion out of --tasks or "
                "take another method",
                MOST_MERGES);
        x->op[x->count++] = i;
    }
    return STW_OK;
}

/* A group is called by its last op, as merges do. */
static void cut_chain(const exact_fusion *x, int32_t set, int32_t *group) {
    const stw_graph *graph = x->search->simulator->graph;
    for (int32_t i = 0; i < graph->N; i++) group[i] = -1;
    for (int32_t k = graph->op_count - 1, last = -1; k >= 0; k--) {
        if (k == x->count || !(set >> k & 1)) last = graph->topological[k];
        group[graph->topological[k]] = last;
    }
}

/* Whether these groups can be kernels, wherever they run. */
static stw_status are_legal(exact_fusion *x, bool *legal, stw_error *error) {
    stw_score score = {0};
    *legal = true;
    if (!x->cuts) return STW_OK;
    memcpy(x->trial->device, x->one, (size_t)x->trial->graph->N * sizeof *x->one);
    TRY(stw_search_evaluate(x->search, x->trial, 0, &score, error));
    *legal = score.reason != STW_INVALID_GROUPS;
    return STW_OK;
}

/* The groups of a set of merges. False: one of them has no effect, so that a smaller set makes the same groups. */
static bool make_groups(const exact_fusion *x, int32_t set, const int32_t *device, int32_t *group) {
    if (x->cuts) {
        cut_chain(x, set, group);
        return true;
    }
    for (int32_t k = 0; k < x->count; k++) x->priority[x->op[k]] = set >> k & 1;
    stw_fuse_by_priority(x->search->fusing->fuser[0], x->priority, device, group);
    for (int32_t k = 0; k < x->count; k++) {
        const bool merged = group[x->op[k]] != x->op[k];
        if (merged != (bool)(set >> k & 1)) return false;
    }
    return true;
}

/* The best plan of these groups, placed and ordered as one op each. */
static stw_status solve_groups(exact_fusion *x, stw_error *error) {
    stw_search *outer = x->search;
    stw_fused *fused;
    stw_workspace *workspace = NULL;
    stw_plan *plan = NULL;
    TRY(stw_fused_create(outer->simulator, x->trial->group, 0, &fused, error));
    stw_status status = stw_workspace_create(fused->simulator, &workspace, error);
    if (status == STW_OK) status = stw_plan_create(fused->graph, outer->simulator->machine, &plan, error);
    if (status == STW_OK) {
        stw_search inner = stw_search_on_groups(outer, fused->simulator, &workspace);
        inner.unit_count = 0; /* every op by itself */
        inner.policy = NULL;
        status = stw_exact_solve(&inner, x->count == 0, plan, error);
        x->proves &= inner.outcome.proved;
        atomic_store(&outer->evaluations, atomic_load(&inner.evaluations));
    }
    if (status == STW_OK) status = stw_fused_expand(fused, plan, x->trial, error);
    stw_plan_destroy(plan);
    stw_workspace_destroy(workspace);
    stw_fused_destroy(fused);
    return status;
}

static stw_status try_set(exact_fusion *x, int32_t set, stw_error *error) {
    stw_score score = {0};
    if (x->fixed != NULL) TRY(stw_plan_assign(x->trial, x->fixed, error));
    if (!make_groups(x, set, x->fixed != NULL ? x->fixed->device : x->one, x->trial->group)) return STW_OK;
    bool legal = false;
    TRY(are_legal(x, &legal, error));
    if (!legal) return STW_OK;
    x->tried++;
    if (x->fixed == NULL) {
        const stw_status status = solve_groups(x, error);
        if (status == STW_ERROR_NO_PLAN) return STW_OK; /* other groups may fit */
        if (status != STW_OK) return status;
    }
    TRY(stw_search_evaluate(x->search, x->trial, 0, &score, error));
    if (x->has_best && !stw_score_is_better(&score, &x->score)) return STW_OK;
    x->has_best = true;
    x->score = score;
    stw_search_tell(x->search, x->trial, &score);
    return stw_plan_assign(x->best, x->trial, error);
}

static stw_status try_all(exact_fusion *x, stw_error *error) {
    int32_t set = 0;
    for (; set < 1 << x->count && (set == 0 || !stw_search_is_over(x->search)); set++) {
        stw_search_tick(x->search);
        TRY(try_set(x, set, error));
    }
    x->search->outcome.proved = x->proves && set == 1 << x->count;
    if (!x->has_best) return stw_fail(error, STW_ERROR_NO_PLAN, "none of %" PRId64 " groupings gave a plan", x->tried);
    snprintf(x->search->outcome.note, sizeof x->search->outcome.note, "the best of %s%" PRId64 " ways to fuse%s",
             set == 1 << x->count ? "all " : "the first ", x->tried, x->search->outcome.proved ? ", proved optimal" : "");
    return STW_OK;
}

stw_status stw_exact_fuse(stw_search *search, stw_plan *plan, stw_error *error) {
    const unsigned both = STW_TASK_PLACEMENT | STW_TASK_SCHEDULE;
    const int32_t N = search->simulator->graph->N;
    exact_fusion x = {.search = search, .best = plan};
    const stw_graph *graph = search->simulator->graph;
    const bool chain = is_chain(graph);
    x.cuts = chain && graph->flow != NULL && graph->op_count <= MOST_MERGES + 1;
    const bool whole_chain = chain && (graph->flow == NULL || x.cuts) && search->simulator->machine->cost_class_count == 1;
    x.proves = whole_chain || !stw_simulator_may_fuse(search->simulator);
    stw_arena arena = search->arena;
    STW_TRY_NEW(&arena, x.priority, N, error);
    STW_TRY_NEW(&arena, x.one, N, error);
    int32_t *group;
    STW_TRY_NEW(&arena, group, N, error);
    TRY(list_merges(&x, group, error));
    const stw_arena before = search->arena;
    search->arena = arena;
    stw_plan *fixed = NULL;
    stw_status status = stw_plan_create(plan->graph, plan->machine, &x.trial, error);
    if (status == STW_OK && !(search->tasks & both)) {
        status = stw_plan_create(plan->graph, plan->machine, &fixed, error);
        if (status == STW_OK) status = stw_starts_keep_placement(search, fixed, error);
        x.fixed = fixed;
    }
    if (status == STW_OK) status = try_all(&x, error);
    search->arena = before;
    stw_plan_destroy(fixed);
    stw_plan_destroy(x.trial);
    return status;
}
