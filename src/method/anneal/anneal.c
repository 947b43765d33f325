/* `anneal`: local search from the best plans so far. Chains side by side, each with its own random numbers, which meet now and
 * then: the one that is worst goes on from the best plan. A change is kept if the plan becomes at most a little worse; how little
 * falls to nothing by the end (threshold accepting). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "method/anneal/affinity.h"
#include "method/anneal/anneal.h"
#include "method/starts.h"
#include "plan/plan.h"
#include "search/fusing.h"

enum { LEVELS = 5 };
static const double START_SHARE = 0.4; /* of the budget, for initial plans where none are given */

/* ---- preparing ---- */

static bool may_place(const stw_search *search) {
    return (search->tasks & STW_TASK_PLACEMENT) != 0 && search->simulator->machine->device_count > 1;
}

static bool may_order(const stw_search *search) { return (search->tasks & STW_TASK_SCHEDULE) != 0 && search->rule < 0; }

/* Chances of the kinds of moves: those that change what may not be changed get none. */
static void weigh_moves(stw_annealing *a) {
    static const double weight[STW_MOVE_COUNT] = {0.42, 0.19, 0.24, 0.06, 0.05, 0.01, 0.03, 0.25, 0.05};
    double sum = 0.0;
    for (int k = 0; k < STW_MOVE_COUNT; k++) {
        const bool may = k <= STW_MOVE_STEER   ? may_place(a->search)
                         : k == STW_MOVE_FUSE  ? stw_anneal_may_fuse(a->search)
                         : k == STW_MOVE_CROSS ? stw_anneal_is_timed(a->search) && may_place(a->search)
                                               : may_order(a->search);
        a->weight[k] = may ? weight[k] : 0.0;
        sum += a->weight[k];
    }
    for (int k = 0; k < STW_MOVE_COUNT && sum > 0.0; k++) a->weight[k] /= sum;
}

/* In longer searches what was learnt of this graph did harm (docs/results/learning.md). */
static bool learns(const stw_annealing *a) {
    enum { MOST_EVALUATIONS = 1500 };
    if (a->proposals.scorer == NULL || a->proposals.rate <= 0.0 || stw_anneal_is_timed(a->search)) return false;
    return a->weight[STW_MOVE_UNIT] > 0.0 && stw_search_evaluations_left(a->search) <= MOST_EVALUATIONS;
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
    TRY(stw_proposals_open(search, arena, &a->proposals, error));
    if (!learns(a)) return STW_OK;
    STW_TRY_NEW(arena, a->learner, 1, error);
    stw_learner_begin(a->learner, a->proposals.scorer, a->proposals.rate);
    return STW_OK;
}

/* Most chains begin with the best plan, some with the second and the third. */
static stw_status create_chains(const stw_annealing *a, const stw_starts *starts, stw_arena *arena, stw_error *error) {
    static const int32_t start_of[STW_ANNEAL_CHAINS] = {0, 0, 0, 0, 0, 1, 1, 2};
    int32_t first[3] = {-1, -1, -1}; /* chain that begins with this start */
    for (int32_t k = 0; k < a->count; k++) {
        const int32_t wanted = start_of[k % STW_ANNEAL_CHAINS], start = wanted < starts->count ? wanted : 0;
        const stw_chain *like = first[start] < 0 ? NULL : &a->chain[first[start]];
        if (like == NULL) first[start] = k;
        TRY(stw_chain_begin(a, &a->chain[k], k, starts->plan[start], like, arena, error));
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

static stw_status anneal(stw_annealing *a, const stw_starts *starts, stw_plan *plan, stw_error *error) {
    stw_search *search = a->search;
    stw_arena arena = search->arena;
    TRY(prepare(a, &arena, error));
    if (search->fusing != NULL) TRY(ask_rule(a, starts->plan[0], &arena, error));
    bool ordered = false;
    for (int32_t k = 0; k < starts->count; k++) ordered |= stw_plan_has_orders(starts->plan[k]);
    if (ordered) TRY(stw_anneal_prepare_orders(a, &arena, error));
    TRY(create_chains(a, starts, &arena, error));
    const stw_score before = a->chain[0].best_score;
    TRY(stw_anneal_run(a, before, arena, error));
    const stw_chain *best = &a->chain[stw_anneal_best_chain(a)];
    write_note(search, &before, &best->best_score);
    TRY(stw_plan_assign(plan, best->best, error));
    stw_plan_join(search->simulator, plan);
    return STW_OK;
}

/* Nothing to search: no ops, neither the placement nor the priorities are ours, or not even one evaluation for each chain. */
static bool is_decided(const stw_search *search) {
    if (search->simulator->graph->op_count == 0 || stw_search_evaluations_left(search) < STW_ANNEAL_CHAINS) return true;
    return !may_place(search) && !may_order(search) && !stw_anneal_may_fuse(search);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    stw_starts starts;
    TRY(stw_starts_open(search, NULL, 0, START_SHARE, &starts, error));
    if (starts.count == 0) return stw_fail(error, STW_ERROR_NO_PLAN, "there is no initial plan");
    stw_annealing a = {.search = search, .count = stw_anneal_chains(search)};
    a.chain = calloc((size_t)a.count, sizeof *a.chain);
    stw_status status = a.chain == NULL ? stw_fail(error, STW_ERROR_MEMORY, "out of memory") : STW_OK;
    if (status == STW_OK)
        status = is_decided(search) ? stw_plan_assign(plan, starts.plan[0], error) : anneal(&a, &starts, plan, error);
    for (int32_t k = 0; k < a.count && a.chain != NULL; k++) {
        stw_plan_destroy(a.chain[k].plan);
        stw_plan_destroy(a.chain[k].best);
    }
    free(a.chain);
    stw_starts_close(&starts);
    return status;
}

const stw_method stw_method_anneal = {
    .name = "anneal",
    .description = "local search from the best plans of the other methods, until the budget ends",
    .kind = STW_METHOD_SEARCH,
    .run = run};
