#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/anneal/affinity.h"
#include "method/anneal/anneal.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "sim/critical.h"
#include "sim/op_times.h"
#include "train/decode.h"

/* ---- how chains begin ---- */

/* The chains at the beginning: their memory, their plans, and the groups that they begin with. */

static const double HEAT = 0.002; /* of the hottest chains, at the beginning */

static bool has_order(const stw_plan *plan) {
    for (int32_t d = 0; d < plan->machine->device_count; d++) {
        if (plan->order[d] != NULL) return true;
    }
    return false;
}

static bool may_fuse(const stw_search *search) { return search->fusing != NULL && search->fusing->rule < 0; }

static stw_status create_chain(const stw_search *search, stw_chain *c, int32_t index, const stw_plan *start, stw_arena *arena,
                               stw_error *error) {
    const stw_simulator *s = search->simulator;
    const int32_t N = s->graph->N, T = s->unfused.T;
    const stw_rng seeded = stw_rng_create(search->seed);
    const stw_rng mine = stw_rng_split(&seeded, 0x616e6e65616c); /* "anneal" */
    c->rng = stw_rng_split(&mine, (uint64_t)index);
    c->heat = HEAT * (index % 4 + 1) / 4;
    c->since_look = STW_ANNEAL_LOOK_EVERY;
    STW_TRY_NEW(arena, c->moved, N, error);
    STW_TRY_NEW(arena, c->old_device, N, error);
    STW_TRY_NEW(arena, c->old_priority, N, error);
    STW_TRY_NEW(arena, c->critical, T, error);
    STW_TRY_NEW(arena, c->start_ps, T, error);
    STW_TRY_NEW(arena, c->order, T, error);
    STW_TRY_NEW(arena, c->mark, N, error);
    STW_TRY_NEW(arena, c->queue, N, error);
    STW_TRY_NEW(arena, c->plan_glue, T, error);
    STW_TRY_NEW(arena, c->aversion, T, error);
    STW_TRY_NEW(arena, c->steered, N, error);
    if (search->fusing != NULL) {
        STW_TRY_NEW(arena, c->fusion, N, error);
        STW_TRY_NEW(arena, c->old_fusion, N, error);
        STW_TRY_NEW(arena, c->best_fusion, N, error);
        STW_TRY_NEW(arena, c->old_group, N, error);
    }
    TRY(stw_plan_create(s->graph, s->machine, &c->plan, error));
    TRY(stw_plan_create(s->graph, s->machine, &c->best, error));
    TRY(stw_plan_assign(c->plan, start, error));
    return stw_plan_assign(c->best, start, error);
}

/* A strict order would forbid nearly every move, so the chain goes on with priorities that say the same. */
static stw_status turn_into_priorities(const stw_search *search, stw_chain *c, stw_error *error) {
    const stw_tasks *tasks = &search->simulator->unfused;
    stw_arena scratch = search->scratch[0];
    int64_t *end_ps;
    int32_t *task;
    STW_TRY_NEW(&scratch, end_ps, tasks->T, error);
    STW_TRY_NEW(&scratch, task, tasks->T, error);
    TRY(stw_op_times(search->workspace[0], c->start_ps, end_ps, task, scratch, error));
    for (int32_t t = 0; t < tasks->T; t++) c->plan->priority[tasks->task_node[t]] = -(double)c->start_ps[t] / 1e6;
    stw_plan_remove_orders(c->plan);
    return STW_OK;
}

/* Without its orders the plan does not fit: the chain keeps some, and leaves groups alone. */
static stw_status keep_orders(const stw_annealing *a, stw_chain *c, stw_error *error) {
    stw_search *search = a->search;
    for (int32_t i = 0; i < c->plan->graph->N; i++) c->plan->group[i] = c->best->group[i];
    for (int32_t i = 0; c->fusion != NULL && i < c->plan->graph->N; i++) {
        c->fusion[i] = c->best_fusion[i] = -fabs(c->fusion[i]);
    }
    c->strict = true;
    c->error = error;
    TRY(stw_anneal_order(a, c, 0));
    return stw_search_evaluate(search, c->plan, 0, &c->score, error);
}

/* Evaluates the start. The chain may go on with something else that says nearly the same; the plan as it was remains the best. */
static stw_status settle(const stw_annealing *a, stw_chain *c, stw_error *error) {
    stw_search *search = a->search;
    TRY(stw_search_evaluate(search, c->best, 0, &c->best_score, error));
    c->score = c->best_score;
    const bool ordered = has_order(c->plan) && search->workspace[0]->timeline.start_ps != NULL;
    if (ordered) TRY(turn_into_priorities(search, c, error));
    if (c->fusion != NULL) {
        TRY(stw_fusion_begin(search->simulator, a->rule, c->plan, c->fusion, search->scratch[0], error));
        stw_anneal_regroup(a, c, 0);
        memcpy(c->best_fusion, c->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
    }
    if (ordered || c->fusion != NULL) TRY(stw_search_evaluate(search, c->plan, 0, &c->score, error));
    if (!ordered || c->score.reason == STW_VALID || c->best_score.reason != STW_VALID) return STW_OK;
    return keep_orders(a, c, error);
}

/* One chain begins with the groups of the rule, one with nothing fused: the start may have other groups. */
static stw_status vary_groups(const stw_annealing *a, stw_chain *c, int32_t index, stw_error *error) {
    stw_search *search = a->search;
    const int32_t N = c->plan->graph->N;
    if (!may_fuse(search) || index < 1 || index > 2 || c->strict) return STW_OK;
    TRY(stw_fusion_begin(search->simulator, a->rule, NULL, c->fusion, search->scratch[0], error));
    for (int32_t i = 0; i < N && index == 2; i++) c->fusion[i] = -fabs(c->fusion[i]);
    stw_anneal_regroup(a, c, 0);
    TRY(stw_search_evaluate(search, c->plan, 0, &c->score, error));
    if (!stw_score_is_better(&c->score, &c->best_score)) return STW_OK;
    c->best_score = c->score;
    memcpy(c->best_fusion, c->fusion, (size_t)N * sizeof *c->fusion);
    return stw_plan_assign(c->best, c->plan, error);
}

/* What another chain that begins with the same plan has found out about it. */
static stw_status begin_like(stw_chain *c, const stw_chain *like, stw_error *error) {
    TRY(stw_plan_assign(c->plan, like->plan, error));
    if (c->fusion != NULL) {
        memcpy(c->fusion, like->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
        memcpy(c->best_fusion, like->fusion, (size_t)c->plan->graph->N * sizeof *c->fusion);
    }
    c->strict = like->strict;
    c->score = like->score;
    c->best_score = like->best_score;
    return STW_OK;
}

/* A chain with its memory, from a plan that another chain may have begun with already (`like`, or NULL). */
static stw_status begin_chain(const stw_annealing *a, stw_chain *c, int32_t index, const stw_plan *start, const stw_chain *like,
                              stw_arena *arena, stw_error *error) {
    TRY(create_chain(a->search, c, index, start, arena, error));
    if (like == NULL) return settle(a, c, error);
    TRY(begin_like(c, like, error));
    return vary_groups(a, c, index, error);
}

/* ---- the chains ---- */

/* `anneal`: local search from the best plans so far. Eight chains, whatever the number of threads; each has its own random
 * numbers and its share of the evaluations. They meet at fixed counts: the chain that is worst goes on from the best plan. A
 * change is kept if the plan becomes at most a little worse; how little falls to nothing by the end (threshold accepting). */

enum { CHAINS = 8, ROUNDS = 48, LEVELS = 5 };
static const double DEFAULT_S = 10.0;  /* without any limit */
static const double START_SHARE = 0.4; /* of the budget, for initial plans where none are given */

typedef struct {
    stw_annealing shared;
    stw_chain chain[CHAINS];
    double heat;       /* now, as a share of each chain's own */
    int64_t quota;     /* evaluations per chain in this round */
    stw_budget budget; /* of the rounds: what is left of the search's when they begin */
} annealing;

/* ---- one chain ---- */

typedef struct {
    int64_t start_ps;
    int32_t position; /* in topological order: what takes no time starts together with what it needs */
    int32_t task;
} begun;

static int by_start(const void *left, const void *right) {
    const begun *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static stw_status sort_by_start(const stw_simulator *s, stw_chain *c, stw_arena scratch) {
    begun *all;
    const int32_t T = s->unfused.T;
    STW_TRY_NEW(&scratch, all, T, c->error);
    for (int32_t k = 0; k < T; k++) {
        const int32_t task = s->unfused.task_of[s->graph->topological[k]];
        all[k] = (begun){c->start_ps[task], k, task};
    }
    qsort(all, (size_t)T, sizeof *all, by_start);
    for (int32_t k = 0; k < T; k++) c->order[k] = all[k].task;
    return STW_OK;
}

/* Tasks of the run as ops: a group stands for its first. */
static stw_status find_critical(const stw_workspace *workspace, stw_chain *c, int32_t T, stw_arena scratch) {
    const stw_tasks *ran = workspace->timeline.tasks, *unfused = &workspace->simulator->unfused;
    TRY(stw_critical_path(workspace, c->critical, T, &c->critical_count, scratch, c->error));
    for (int32_t k = 0; k < c->critical_count && ran != unfused; k++)
        c->critical[k] = unfused->task_of[ran->task_node[c->critical[k]]];
    return STW_OK;
}

/* Looks at the plan as it is: its critical path, and what runs when. Counts as an evaluation. */
static stw_status look(const stw_annealing *a, stw_chain *c, int32_t worker) {
    stw_search *search = a->search;
    const stw_workspace *workspace = search->workspace[worker];
    const int32_t T = search->simulator->unfused.T;
    TRY(stw_anneal_order(a, c, worker)); /* of a change that was taken back the order is left */
    TRY(stw_search_evaluate(search, c->plan, worker, &c->score, c->error));
    c->since_look = 0;
    c->critical_count = 0;
    if (workspace->timeline.start_ps == NULL) return STW_OK;
    stw_arena scratch = search->scratch[worker];
    int64_t *end_ps;
    int32_t *task;
    STW_TRY_NEW(&scratch, end_ps, T, c->error);
    STW_TRY_NEW(&scratch, task, T, c->error);
    TRY(stw_op_times(workspace, c->start_ps, end_ps, task, scratch, c->error));
    c->step_ps = (int64_t)(c->score.step_s * 1e12);
    TRY(sort_by_start(search->simulator, c, scratch));
    return find_critical(workspace, c, T, scratch);
}

/* Valid plans may become a little worse. */
static double limit_of(const stw_chain *c, double heat) { return c->score.value * (1.0 + heat * c->heat); }

/* Others must come nearer to valid. */
static bool accepts(const stw_chain *c, const stw_score *score, double heat) {
    if (score->reason == STW_VALID && c->score.reason == STW_VALID) return score->value <= limit_of(c, heat);
    return !stw_score_is_better(&c->score, score);
}

static stw_status step(const stw_annealing *a, stw_chain *c, double heat, int32_t worker) {
    stw_score score = {0};
    bool changed = false;
    TRY(stw_anneal_change(a, c, worker, &changed));
    if (!changed) return STW_OK;
    TRY(stw_anneal_order(a, c, worker));
    /* A step beyond the limit would be rejected: there is no need to see its end. */
    const bool limited = a->search->objective == STW_OBJECTIVE_TIME && c->score.reason == STW_VALID;
    TRY(stw_search_evaluate_within(a->search, c->plan, limited ? limit_of(c, heat) : 0.0, worker, &score, c->error));
    c->since_look++;
    if (!accepts(c, &score, heat)) {
        stw_anneal_take_back(c);
        return STW_OK;
    }
    c->score = score;
    if (!stw_score_is_better(&score, &c->best_score)) return STW_OK;
    c->best_score = score;
    if (c->fusion != NULL) memcpy(c->best_fusion, c->fusion, (size_t)c->plan->graph->N * sizeof(double));
    return stw_plan_assign(c->best, c->plan, c->error);
}

static stw_status run_chain(const annealing *a, stw_chain *c, int32_t worker) {
    const stw_search *search = a->shared.search;
    for (int64_t k = 0; k < a->quota && !stw_search_is_stopped(search); k++) {
        if (stw_search_meets_bound(search, &c->best_score)) break;
        if (worker == 0) stw_search_tick(search); /* the thread that runs the method */
        if (c->since_look >= STW_ANNEAL_LOOK_EVERY) {
            TRY(look(&a->shared, c, worker));
        } else {
            TRY(step(&a->shared, c, a->heat, worker));
        }
    }
    return STW_OK;
}

static stw_status work_on_chain(void *context, int64_t index, int32_t worker, stw_error *error) {
    annealing *a = context;
    a->chain[index].error = error;
    return run_chain(a, &a->chain[index], worker);
}

/* ---- meeting ---- */

static int32_t best_chain(const annealing *a) {
    int32_t best = 0;
    for (int32_t k = 1; k < CHAINS; k++) {
        if (stw_score_is_better(&a->chain[k].best_score, &a->chain[best].best_score)) best = k;
    }
    return best;
}

static int32_t worst_chain(const annealing *a) {
    int32_t worst = 0;
    for (int32_t k = 1; k < CHAINS; k++) {
        if (stw_score_is_better(&a->chain[worst].score, &a->chain[k].score)) worst = k;
    }
    return worst;
}

static stw_status meet(annealing *a, stw_score *known, stw_error *error) {
    const stw_search *search = a->shared.search;
    const stw_chain *best = &a->chain[best_chain(a)];
    stw_chain *worst = &a->chain[worst_chain(a)];
    if (stw_score_is_better(&best->best_score, known)) {
        *known = best->best_score;
        stw_search_tell(search, best->best, known);
    }
    if (stw_score_is_better(&best->best_score, &worst->score) && (best->strict || !has_order(best->best))) {
        worst->strict = best->strict;
        TRY(stw_plan_assign(worst->plan, best->best, error));
        if (worst->fusion != NULL) memcpy(worst->fusion, best->best_fusion, (size_t)best->plan->graph->N * sizeof(double));
        worst->score = best->best_score;
        worst->since_look = STW_ANNEAL_LOOK_EVERY;
    }
    stw_search_tick(search);
    return STW_OK;
}

/* ---- the rounds ---- */

/* How much of the budget is gone, from 0 to 1. */
static double progress_of(const annealing *a, int32_t round) {
    if (a->shared.search->budget.evaluations > 0) return (double)round / ROUNDS;
    return fmin(1.0, stw_budget_progress(&a->budget, stw_search_moment(a->shared.search)));
}

/* Evaluations per chain for the next round: an equal share of what is left; by time, as many as the pace so far allows. */
static int64_t next_quota(const annealing *a, int32_t round) {
    const stw_search *search = a->shared.search;
    const int64_t rounds_left = round < ROUNDS ? ROUNDS - round : 1;
    if (search->budget.evaluations > 0) return stw_search_evaluations_left(search) / CHAINS / rounds_left;
    if (round == 0) return 2;
    const stw_moment now = stw_search_moment(search);
    const double pace = (double)now.evaluations / fmax(now.s - a->budget.began.s, 1e-6);
    return (int64_t)fmax(2.0, pace * stw_budget_seconds_left(&a->budget, now.s) / (double)(rounds_left * CHAINS));
}

static stw_status run_rounds(annealing *a, stw_score *known, stw_error *error) {
    const stw_search *search = a->shared.search;
    const bool timed = search->budget.evaluations <= 0;
    a->budget = stw_budget_share(&search->budget, stw_search_moment(search), 1.0, STW_SHARE_DOWN);
    if (a->budget.until_s <= 0.0) a->budget.until_s = a->budget.began.s + DEFAULT_S;
    for (int32_t round = 0; (timed || round < ROUNDS) && !stw_search_is_over(search); round++) {
        a->shared.progress = progress_of(a, round);
        a->heat = 1.0 - a->shared.progress;
        a->quota = next_quota(a, round);
        if (timed && stw_search_now_s(search) >= a->budget.until_s) break;
        TRY(stw_pool_try(search->pool, CHAINS, work_on_chain, a, error));
        TRY(meet(a, known, error));
    }
    return STW_OK;
}

/* ---- preparing ---- */

static bool may_place(const stw_search *search) {
    return (search->tasks & STW_TASK_PLACEMENT) != 0 && search->simulator->machine->device_count > 1;
}

static bool may_order(const stw_search *search) { return (search->tasks & STW_TASK_SCHEDULE) != 0 && search->rule < 0; }

/* Chances of the kinds of moves: those that change what may not be changed get none. */
static void weigh_moves(stw_annealing *a) {
    static const double weight[STW_MOVE_COUNT] = {0.42, 0.19, 0.24, 0.06, 0.05, 0.01, 0.03, 0.25};
    double sum = 0.0;
    for (int k = 0; k < STW_MOVE_COUNT; k++) {
        const bool may = k <= STW_MOVE_STEER  ? may_place(a->search)
                         : k == STW_MOVE_FUSE ? may_fuse(a->search)
                                              : may_order(a->search);
        a->weight[k] = may ? weight[k] : 0.0;
        sum += a->weight[k];
    }
    for (int k = 0; k < STW_MOVE_COUNT && sum > 0.0; k++) a->weight[k] /= sum;
}

static stw_status prepare(stw_annealing *a, stw_arena *arena, stw_error *error) {
    const stw_search *search = a->search;
    const stw_simulator *s = search->simulator;
    const stw_units *atoms = &a->units.level[0];
    const int32_t count = search->unit_count == 0 ? 0 : LEVELS;
    int32_t wanted[LEVELS]; /* from 16 times as many units as asked for to a sixteenth */
    for (int32_t k = 0; k < count; k++) wanted[k] = (int32_t)fmin(fmax(ldexp(search->unit_count, 4 - 2 * k), 1.0), INT32_MAX);
    double *rank;
    TRY(stw_units_build(s->graph, s->costs->least_us, wanted, count, arena, &a->units, error));
    TRY(stw_affinity_build(s, atoms, wanted, count, arena, &a->affinity, error));
    STW_TRY_NEW(arena, rank, s->unfused.T, error);
    stw_rule_upward_ranks(s->costs, &s->unfused, NULL, rank);
    for (int32_t t = 0; t < s->unfused.T; t++) a->largest_rank = fmax(a->largest_rank, rank[t]);
    TRY(stw_board_prepare(s->costs, &s->unfused, atoms->of, atoms->count, rank, arena, &a->board, error));
    for (int32_t i = 0; i < s->graph->N; i++) a->mean_us += s->costs->least_us[i] / s->graph->op_count;
    a->affinity_share = 0.2;
    weigh_moves(a);
    return STW_OK;
}

/* Most chains begin with the best plan, some with the second and the third. */
static stw_status create_chains(annealing *a, const stw_starts *starts, stw_arena *arena, stw_error *error) {
    static const int32_t start_of[CHAINS] = {0, 0, 0, 0, 0, 1, 1, 2};
    int32_t first[3] = {-1, -1, -1}; /* chain that begins with this start */
    for (int32_t k = 0; k < CHAINS; k++) {
        stw_chain *c = &a->chain[k];
        const int32_t start = start_of[k] < starts->count ? start_of[k] : 0;
        const stw_chain *like = first[start] < 0 ? NULL : &a->chain[first[start]];
        if (like == NULL) first[start] = k;
        TRY(begin_chain(&a->shared, c, k, starts->plan[start], like, arena, error));
    }
    return STW_OK;
}

static void write_note(stw_search *search, const stw_score *before, const stw_score *after) {
    if (before->reason != STW_VALID) {
        snprintf(search->outcome.note, sizeof search->outcome.note, "the initial plan did not fit in memory");
        search->outcome.repaired = after->reason == STW_VALID;
        return;
    }
    const double gain = before->value > 0.0 ? 1.0 - after->value / before->value : 0.0;
    snprintf(search->outcome.note, sizeof search->outcome.note, "%.2f %% better than the initial plan", 100.0 * gain);
}

/* Where devices stay, the rule for them; else the one for all ops on one device. */
static stw_status ask_rule(stw_annealing *a, const stw_plan *start, stw_arena *arena, stw_error *error) {
    const stw_fusing *fusing = a->search->fusing;
    double *own;
    int32_t *group;
    a->rule = fusing->priority;
    if (may_place(a->search) || fusing->rule >= 0) return STW_OK;
    STW_TRY_NEW(arena, own, start->graph->N, error);
    STW_TRY_NEW(arena, group, start->graph->N, error);
    stw_fuse_by_rule(fusing->fuser[0], STW_FUSION_DEFAULT, start->device, group, own);
    a->rule = own;
    return STW_OK;
}

static stw_status anneal(annealing *a, const stw_starts *starts, stw_plan *plan, stw_error *error) {
    stw_search *search = a->shared.search;
    stw_arena arena = search->arena;
    TRY(prepare(&a->shared, &arena, error));
    if (search->fusing != NULL) TRY(ask_rule(&a->shared, starts->plan[0], &arena, error));
    bool ordered = false;
    for (int32_t k = 0; k < starts->count; k++) ordered |= has_order(starts->plan[k]);
    if (ordered) TRY(stw_anneal_prepare_orders(&a->shared, &arena, error));
    TRY(create_chains(a, starts, &arena, error));
    const stw_score before = a->chain[0].best_score;
    stw_score known = before;
    TRY(run_rounds(a, &known, error));
    const stw_chain *best = &a->chain[best_chain(a)];
    write_note(search, &before, &best->best_score);
    TRY(stw_plan_assign(plan, best->best, error));
    stw_plan_join(search->simulator, plan);
    return STW_OK;
}

/* Nothing to search: no ops, neither the placement nor the priorities are ours, or not even one evaluation for each chain. */
static bool is_decided(const stw_search *search) {
    if (search->simulator->graph->op_count == 0 || stw_search_evaluations_left(search) < CHAINS) return true;
    return !may_place(search) && !may_order(search) && !may_fuse(search);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_starts starts;
    TRY(stw_starts_open(search, NULL, 0, START_SHARE, &starts, error));
    if (starts.count == 0) return stw_fail(error, STW_ERROR_NO_PLAN, "there is no initial plan");
    annealing *a = calloc(1, sizeof *a);
    stw_status status = a == NULL ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : STW_OK;
    const bool decided = is_decided(search);
    if (status == STW_OK && decided) status = stw_plan_assign(plan, starts.plan[0], error);
    if (status == STW_OK && !decided) {
        a->shared.search = search;
        status = anneal(a, &starts, plan, error);
    }
    for (int32_t k = 0; k < CHAINS && a != NULL; k++) {
        stw_plan_destroy(a->chain[k].plan);
        stw_plan_destroy(a->chain[k].best);
    }
    free(a);
    stw_starts_close(&starts);
    return status;
}

const stw_method stw_method_anneal = {
    .name = "anneal",
    .description = "local search from the best plans of the other methods, until the budget ends",
    .kind = STW_METHOD_SEARCH,
    .run = run};
