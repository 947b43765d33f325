/* Drops transfers that bring nothing. A search that is after the step alone may leave weights on one device and their reader on
 * another, as long as they arrive in time. Whatever is connected to another device is moved there, first whole islands (ops of
 * one device that read each other), then single atoms; what makes the plan better among its equals stays. */
#include <stdlib.h>

#include "base/union_find.h"
#include "search/fusing.h"

enum { MOST_EVALUATIONS = 2000, PASSES = 4 };

typedef struct {
    int64_t start_ps, end_ps;
    int32_t position; /* in topological order: what takes no time starts together with what it needs */
    int32_t node;     /* the task's id */
} begun;

typedef struct { /* N nodes, T ops */
    stw_search *search;
    const stw_graph *graph;
    stw_plan *plan, *trial;
    stw_score *score;       /* of the plan */
    int32_t *atom, *island; /* (N) sets: what must move together; what reads each other on one device */
    int32_t *first, *next;  /* (N) the members of a set, by what stands for it; -1: the end */
    int32_t *position;      /* (N) of ops */
    int32_t task_count;     /* at most T */
    begun *task;            /* (task_count) of the plan's run, as they began */
    int32_t *order;         /* (T) */
    int64_t left;           /* evaluations */
} tidying;

static bool is_placed(const stw_graph *graph, int32_t node) {
    return graph->kind[node] == STW_NODE_OP || stw_node_is_resident(graph->kind[node]);
}

/* ---- what moves together ---- */

/* Colocation and groups. A recomputed op is where its readers are. */
static stw_status find_atoms(const tidying *t, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = t->graph;
    const int32_t *group = t->plan->group;
    int32_t *first; /* (N) op of a group number + 1 */
    STW_TRY_NEW(&scratch, first, graph->N, error);
    stw_sets_begin(t->atom, graph->N);
    for (int32_t i = 0; i < graph->N; i++) {
        stw_sets_join(t->atom, i, t->search->simulator->together[i]);
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1] && group[i] < 0; r++)
            stw_sets_join(t->atom, i, graph->reader[r].node);
        if (group[i] < 0 || group[i] >= graph->N) continue;
        if (first[group[i]] == 0) first[group[i]] = i + 1;
        stw_sets_join(t->atom, i, first[group[i]] - 1);
    }
    return STW_OK;
}

static void find_islands(const tidying *t) {
    const stw_graph *graph = t->graph;
    for (int32_t i = 0; i < graph->N; i++) t->island[i] = stw_sets_find(t->atom, i);
    for (int32_t i = 0; i < graph->N; i++) {
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            const int32_t read = graph->read[e].node;
            if (is_placed(graph, read) && t->plan->device[read] == t->plan->device[i]) stw_sets_join(t->island, i, read);
        }
    }
}

static void list_members(const tidying *t, int32_t *set) {
    for (int32_t i = 0; i < t->graph->N; i++) t->first[i] = -1;
    for (int32_t i = t->graph->N - 1; i >= 0; i--) {
        const int32_t leader = stw_sets_find(set, i);
        t->next[i] = t->first[leader];
        t->first[leader] = i;
    }
}

/* The devices that a set sends to or hears from, as bits. */
static uint64_t neighbours_of(const tidying *t, int32_t leader) {
    const stw_graph *graph = t->graph;
    uint64_t found = 0;
    for (int32_t i = t->first[leader]; i >= 0; i = t->next[i]) {
        if (!is_placed(graph, i)) continue;
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            if (is_placed(graph, graph->read[e].node)) found |= 1ULL << t->plan->device[graph->read[e].node];
        }
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++)
            found |= 1ULL << t->plan->device[graph->reader[r].node];
    }
    return found & ~(1ULL << t->plan->device[leader]);
}

/* ---- a trial ---- */

static int by_start(const void *left, const void *right) {
    const begun *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if (a->end_ps != b->end_ps) return a->end_ps < b->end_ps ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* The tasks of the run that the workspace holds, as they began. */
static void list_tasks(tidying *t) {
    const stw_timeline *timeline = &t->search->workspace[0]->timeline;
    t->task_count = timeline->tasks->T;
    for (int32_t k = 0; k < t->task_count; k++) {
        const int32_t node = timeline->tasks->task_node[k];
        t->task[k] = (begun){timeline->start_ps[k], timeline->end_ps[k], t->position[node], node};
    }
    qsort(t->task, (size_t)t->task_count, sizeof *t->task, by_start);
}

/* Strict orders for the devices of the trial: what moved comes in where it began. */
static stw_status set_orders(const tidying *t, stw_error *error) {
    bool any = false;
    for (int32_t d = 0; d < t->plan->machine->device_count; d++) any |= t->plan->order[d] != NULL;
    for (int32_t d = 0; d < t->plan->machine->device_count && any; d++) {
        int32_t count = 0;
        for (int32_t k = 0; k < t->task_count; k++) {
            if (t->trial->device[t->task[k].node] == d) t->order[count++] = t->task[k].node;
        }
        TRY(stw_plan_set_order(t->trial, d, t->order, count, error));
    }
    return STW_OK;
}

/* The plan with a set on another device; kept if that is better. */
static stw_status try_move(tidying *t, int32_t leader, int32_t device, bool *kept, stw_error *error) {
    stw_search *search = t->search;
    const stw_simulator *s = search->simulator;
    stw_score score = {0};
    *kept = false;
    TRY(stw_plan_assign(t->trial, t->plan, error));
    for (int32_t i = t->first[leader]; i >= 0; i = t->next[i]) t->trial->device[i] = device;
    TRY(set_orders(t, error));
    if (search->rule >= 0)
        TRY(stw_rule_apply((stw_rule)search->rule, s->costs, &s->unfused, t->trial, search->scratch[0], error));
    stw_fusing_apply_rule(search, t->trial, 0);
    TRY(stw_search_evaluate(search, t->trial, 0, &score, error));
    t->left--;
    if (!stw_score_is_better(&score, t->score)) return STW_OK;
    *kept = true;
    *t->score = score;
    list_tasks(t);
    return stw_plan_assign(t->plan, t->trial, error);
}

/* ---- all of them ---- */

static stw_status move_sets(tidying *t, int32_t *set, bool *changed, stw_error *error) {
    list_members(t, set);
    for (int32_t i = 0; i < t->graph->N; i++) {
        if (t->first[i] < 0 || !is_placed(t->graph, i)) continue;
        const uint64_t devices = neighbours_of(t, i);
        for (int32_t d = 0; d < t->plan->machine->device_count; d++) {
            bool kept = false;
            if (!(devices >> d & 1)) continue;
            if (t->left <= 0 || t->score->sent_bytes == 0 || stw_search_is_over(t->search)) return STW_OK;
            stw_search_tick(t->search);
            TRY(try_move(t, i, d, &kept, error));
            *changed |= kept;
            if (kept) break;
        }
    }
    return STW_OK;
}

static stw_status prepare(tidying *t, stw_arena *arena, stw_error *error) {
    const int32_t N = t->graph->N, T = t->search->simulator->unfused.T;
    STW_TRY_NEW(arena, t->atom, N, error);
    STW_TRY_NEW(arena, t->island, N, error);
    STW_TRY_NEW(arena, t->first, N, error);
    STW_TRY_NEW(arena, t->next, N, error);
    STW_TRY_NEW(arena, t->position, N, error);
    STW_TRY_NEW(arena, t->task, T, error);
    STW_TRY_NEW(arena, t->order, T, error);
    for (int32_t k = 0; k < t->graph->op_count; k++) t->position[t->graph->topological[k]] = k;
    return find_atoms(t, *arena, error);
}

static stw_status tidy(tidying *t, stw_error *error) {
    bool changed = true;
    list_tasks(t);
    for (int32_t pass = 0; pass < PASSES && changed; pass++) {
        changed = false;
        find_islands(t);
        TRY(move_sets(t, t->island, &changed, error));
        TRY(move_sets(t, t->atom, &changed, error));
    }
    return STW_OK;
}

static stw_status tidy_plan(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    stw_score score = {0};
    TRY(stw_search_evaluate(search, plan, 0, &score, error));
    if (score.reason != STW_VALID || score.sent_bytes == 0) return STW_OK;
    tidying t = {.search = search, .graph = plan->graph, .plan = plan, .score = &score, .left = MOST_EVALUATIONS};
    TRY(stw_plan_create(plan->graph, plan->machine, &t.trial, error));
    stw_status status = prepare(&t, &arena, error);
    if (status == STW_OK) {
        const stw_arena before = search->arena;
        search->arena = arena;
        status = tidy(&t, error);
        search->arena = before;
    }
    stw_plan_destroy(t.trial);
    return status;
}

/* The plan may meet the bound, which ends a search, but not this one. */
stw_status stw_search_tidy(stw_search *search, stw_plan *plan, stw_error *error) {
    const double bound = search->bound;
    const bool met = atomic_load(&search->met);
    search->bound = 0.0;
    atomic_store(&search->met, false);
    const bool may = (search->tasks & STW_TASK_PLACEMENT) != 0 && !stw_search_is_over(search);
    const stw_status status = may ? tidy_plan(search, plan, error) : STW_OK;
    search->bound = bound;
    atomic_store(&search->met, met);
    return status;
}
