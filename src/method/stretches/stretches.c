/* `stretches`: large graphs in which the same comes again and again, such as several training steps in a row. The graph is cut
 * into stretches where little crosses; those that are alike are planned once, with all the time that this leaves; and the plan of
 * the whole is that of its stretches, one after the other. */
#include <math.h>
#include <stdio.h>

#include "method/method.h"
#include "plan/plan.h"
#include "sim/slice.h"

enum { STRETCH_OPS = 12288 };           /* of a stretch, from half to half as much again */
static const double WHOLE_SHARE = 0.25; /* of the budget, for plans of the whole */

typedef struct {
    stw_search *search;
    int32_t count;
    int32_t *start; /* (count + 1) nodes */
    uint64_t *hash; /* (count) */
    int32_t *model; /* (count) the first stretch that is like this one */
    int32_t kinds;
    stw_plan **plan; /* (count) of those that are their own model, else NULL; their graphs are gone */
    bool alike;      /* devices can be exchanged for each other */
} stretches;

/* ---- cutting ---- */

/* (N + 1) bytes that are made before a node and read from there on. */
static stw_status sum_crossings(const stw_graph *graph, stw_arena *arena, double **out, stw_error *error) {
    double *bytes;
    STW_TRY_NEW(arena, bytes, (int64_t)graph->N + 1, error);
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t last = i;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++)
            last = graph->reader[r].node > last ? graph->reader[r].node : last;
        bytes[i + 1] += (double)graph->bytes[i];
        bytes[last + 1 <= graph->N ? last + 1 : graph->N] -= (double)graph->bytes[i];
    }
    for (int32_t i = 1; i <= graph->N; i++) bytes[i] += bytes[i - 1];
    *out = bytes;
    return STW_OK;
}

/* Where the stretch that begins at a node ends: where least crosses, as soon as it can. */
static int32_t end_of_stretch(const stw_graph *graph, const double *crossing, int32_t from) {
    int32_t best = graph->N, ops = 0, n = from;
    for (; n < graph->N && 2 * ops < 3 * STRETCH_OPS; n++) {
        ops += graph->kind[n] == STW_NODE_OP;
        if (2 * ops >= STRETCH_OPS && (best == graph->N || crossing[n + 1] < crossing[best])) best = n + 1;
    }
    return n == graph->N ? graph->N : best;
}

static stw_status cut(stretches *s, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = s->search->simulator->graph;
    const int32_t most = 2 * (graph->op_count / STRETCH_OPS) + 2;
    double *crossing = NULL;
    STW_TRY_NEW(arena, s->start, most + 1, error);
    stw_arena scratch = *arena;
    TRY(sum_crossings(graph, &scratch, &crossing, error));
    while (s->start[s->count] < graph->N && s->count < most) {
        s->start[s->count + 1] = s->count + 1 == most ? graph->N : end_of_stretch(graph, crossing, s->start[s->count]);
        s->count++;
    }
    return STW_OK;
}

static bool are_alike(const stretches *s, int32_t a, int32_t b) {
    return s->hash[a] == s->hash[b] && s->start[a + 1] - s->start[a] == s->start[b + 1] - s->start[b];
}

static stw_status find_models(stretches *s, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, s->hash, s->count, error);
    STW_TRY_NEW(arena, s->model, s->count, error);
    STW_TRY_NEW(arena, s->plan, s->count, error);
    for (int32_t k = 0; k < s->count; k++) {
        stw_slice slice;
        const stw_status status = stw_slice_open(s->search->simulator, s->start[k], s->start[k + 1], &slice, error);
        if (status == STW_OK) s->hash[k] = stw_slice_hash(&slice);
        stw_slice_close(&slice);
        TRY(status);
        s->model[k] = 0;
        while (!are_alike(s, s->model[k], k)) s->model[k]++;
        s->kinds += s->model[k] == k;
    }
    return STW_OK;
}

/* ---- planning ---- */

/* The plan of a stretch by itself, by all methods and then a search. */
static stw_status plan_slice(stretches *s, int32_t k, const stw_slice *slice, stw_budget budget, stw_workspace *const *workspace,
                             stw_error *error) {
    stw_search inner = stw_search_on_groups(s->search, slice->simulator, workspace);
    inner.bound = 0.0; /* that of the whole graph is none of a part */
    inner.budget = budget;
    TRY(stw_plan_create(slice->graph, slice->simulator->machine, &s->plan[k], error));
    const stw_status status = stw_method_anneal.run(&inner, s->plan[k], error);
    atomic_store(&s->search->evaluations, atomic_load(&inner.evaluations));
    return status;
}

static stw_status plan_stretch(stretches *s, int32_t k, stw_budget budget, stw_arena arena, stw_error *error) {
    const int32_t threads = stw_pool_threads(s->search->pool);
    const stw_arena before = s->search->arena;
    stw_workspace **workspace;
    stw_slice slice;
    STW_TRY_NEW(&arena, workspace, threads, error);
    s->search->arena = arena; /* what runs within this method must not overwrite it */
    stw_status status = stw_slice_open(s->search->simulator, s->start[k], s->start[k + 1], &slice, error);
    for (int32_t t = 0; t < threads && status == STW_OK; t++)
        status = stw_workspace_create(slice.simulator, &workspace[t], error);
    if (status == STW_OK) status = plan_slice(s, k, &slice, budget, workspace, error);
    for (int32_t t = 0; t < threads; t++) stw_workspace_destroy(workspace[t]);
    stw_slice_close(&slice);
    s->search->arena = before;
    return status;
}

/* Each model in turn, with a share of the budget by how many stretches it is for. */
static stw_status plan_models(stretches *s, stw_arena arena, stw_error *error) {
    const stw_budget whole = stw_budget_share(&s->search->budget, stw_search_moment(s->search), 1.0 - WHOLE_SHARE, STW_SHARE_UP);
    int32_t left = s->count;
    for (int32_t k = 0; k < s->count; k++) {
        int32_t like = 0;
        if (s->model[k] != k) continue;
        for (int32_t other = k; other < s->count; other++) like += s->model[other] == k;
        const stw_budget part = stw_budget_share(&whole, stw_search_moment(s->search), (double)like / left, STW_SHARE_UP);
        TRY(plan_stretch(s, k, part, arena, error));
        left -= like;
    }
    return STW_OK;
}

/* ---- the whole ---- */

/* How the devices of a stretch are exchanged for others, so that one does not wait for the rest of the one before, and what must
 * stay in memory is spread. */
typedef enum { AS_THEY_ARE, ONE_FURTHER, HALF_FURTHER } turning;

static const struct {
    turning turning;
    bool ranks; /* priorities by upward rank; else one stretch after the other, each with its own */
} variant[] = {{AS_THEY_ARE, true},  {AS_THEY_ARE, false}, {ONE_FURTHER, true},
               {ONE_FURTHER, false}, {HALF_FURTHER, true}, {HALF_FURTHER, false}};
enum { VARIANTS = sizeof variant / sizeof variant[0], VARIANTS_AS_THEY_ARE = 2 };

static int32_t turn_of(turning how, int32_t stretch, int32_t D) {
    const int32_t step = how == AS_THEY_ARE ? 0 : how == ONE_FURTHER ? 1 : D / 2;
    return (int32_t)((int64_t)stretch * step % D);
}

/* Its priorities, in [0, 1]. */
static void add_priorities(const stw_plan *of, int32_t N, double above, double *priority) {
    double least = HUGE_VAL, most = -HUGE_VAL;
    for (int32_t i = 0; i < N; i++) {
        least = fmin(least, of->priority[i]);
        most = fmax(most, of->priority[i]);
    }
    for (int32_t i = 0; i < N; i++) priority[i] = above + (most > least ? (of->priority[i] - least) / (most - least) : 0.0);
}

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const stretches *s = context;
    const stw_simulator *simulator = s->search->simulator;
    const int32_t D = simulator->machine->device_count;
    for (int32_t k = 0; k < s->count; k++) {
        const stw_plan *of = s->plan[s->model[k]];
        const int32_t turn = turn_of(variant[index].turning, k, D);
        const int32_t first = s->start[k], N = s->start[k + 1] - first;
        for (int32_t i = 0; i < N; i++) plan->device[first + i] = (of->device[i] + turn) % D;
        add_priorities(of, N, 2.0 * (s->count - k), plan->priority + first);
    }
    stw_plan_join(simulator, plan); /* parameters of earlier stretches decide where their updates are */
    if (!variant[index].ranks) return STW_OK;
    return stw_rule_apply(STW_RULE_UPWARD_RANK, simulator->costs, &simulator->unfused, plan, scratch, error);
}

static bool devices_are_alike(const stw_machine *machine) {
    const int32_t D = machine->device_count;
    for (int32_t k = 0; k < D * D; k++) {
        if (k / D != k % D && !stw_link_equal(&machine->link[k], &machine->link[1])) return false;
    }
    for (int32_t d = 0; d < D; d++) {
        if (machine->device[d].memory_bytes != machine->device[0].memory_bytes) return false;
    }
    return machine->cost_class_count == 1;
}

static stw_status plan_whole(stretches *s, stw_plan *plan, stw_arena arena, stw_error *error) {
    TRY(plan_models(s, arena, error));
    const stw_variants variants = {
        .count = s->alike ? VARIANTS : VARIANTS_AS_THEY_ARE, .build = build, .context = s, .sets_priority = true};
    TRY(stw_search_variants(s->search, &variants, plan, NULL, error));
    snprintf(s->search->outcome.note, sizeof s->search->outcome.note, "%d stretches of %d kinds, each kind planned once",
             s->count, s->kinds);
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_arena arena = search->arena;
    stretches s = {.search = search, .alike = devices_are_alike(search->simulator->machine)};
    if (search->simulator->graph->op_count < STW_STRETCHES_OPS || search->simulator->graph->flow != NULL)
        return stw_method_anneal.run(search, plan, error); /* one stretch */
    TRY(cut(&s, &arena, error));
    TRY(find_models(&s, &arena, error));
    if (2 * s.kinds > s.count)
        return stw_fail(error, STW_ERROR_NO_PLAN, "no stretch of the graph comes again: %d stretches of %d kinds", s.count,
                        s.kinds);
    const stw_status status = plan_whole(&s, plan, arena, error);
    for (int32_t k = 0; k < s.count; k++) stw_plan_destroy(s.plan[k]);
    return status;
}

const stw_method stw_method_stretches = {.name = "stretches",
                                         .description = "large graphs of parts that come again: each kind of part planned once",
                                         .kind = STW_METHOD_CONSTRUCTIVE,
                                         .traits = STW_METHOD_PLACES | STW_METHOD_NAMED_ONLY,
                                         .op_s = 2e-6,
                                         .run = run};
