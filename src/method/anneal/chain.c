/* One chain: how it begins, what it looks at, when it keeps a change. */
#include <math.h>
#include <string.h>

#include "method/anneal/anneal.h"
#include "plan/plan.h"
#include "search/fusing.h"
#include "sim/critical.h"
#include "sim/op_times.h"
#include "train/decode.h"

/* ---- how it begins ---- */

static const double HEAT = 0.002; /* of the hottest chains, at the beginning */

bool stw_anneal_may_fuse(const stw_search *search) { return search->fusing != NULL && search->fusing->rule < 0; }

static stw_status create_sight(const stw_annealing *a, stw_chain *c, stw_arena *arena, stw_error *error) {
    const bool places = a->weight[STW_MOVE_UNIT] > 0.0;
    if (!places || (a->proposals.scorer == NULL && a->proposals.tried == NULL)) return STW_OK;
    c->proposes = true;
    STW_TRY_NEW(arena, c->feature, STW_MOVE_FEATURES, error);
    STW_TRY_NEW(arena, c->sight, 1, error);
    if (a->learner != NULL) STW_TRY_NEW(arena, c->trial, STW_ANNEAL_TRIALS, error);
    return stw_sight_create(a->search->simulator, arena, c->sight, error);
}

static stw_status create_chain(const stw_annealing *a, stw_chain *c, int32_t index, const stw_plan *start, stw_arena *arena,
                               stw_error *error) {
    const stw_search *search = a->search;
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
    STW_TRY_NEW(arena, c->other_device, N, error);
    STW_TRY_NEW(arena, c->other_priority, N, error);
    STW_TRY_NEW(arena, c->differ, N, error);
    STW_TRY_NEW(arena, c->mark, N, error);
    STW_TRY_NEW(arena, c->queue, N, error);
    STW_TRY_NEW(arena, c->plan_glue, T, error);
    STW_TRY_NEW(arena, c->aversion, T, error);
    STW_TRY_NEW(arena, c->steered, N, error);
    TRY(create_sight(a, c, arena, error));
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
    const bool ordered = stw_plan_has_orders(c->plan) && search->workspace[0]->timeline.start_ps != NULL;
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
    if (!stw_anneal_may_fuse(search) || index < 1 || index > 2 || c->strict) return STW_OK;
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

stw_status stw_chain_begin(const stw_annealing *a, stw_chain *c, int32_t index, const stw_plan *start, const stw_chain *like,
                           stw_arena *arena, stw_error *error) {
    TRY(create_chain(a, c, index, start, arena, error));
    if (like == NULL) return settle(a, c, error);
    TRY(begin_like(c, like, error));
    return vary_groups(a, c, index, error);
}

/* ---- how it goes on ---- */

enum { DIGIT = 11, DIGITS = 1 << DIGIT };

/* One pass: by this digit of their starts; equal ones stay as they were. */
static void sort_by_digit(const int64_t *start_ps, int shift, int32_t T, const int32_t *from, int32_t *to) {
    int32_t next[DIGITS + 1] = {0};
    for (int32_t k = 0; k < T; k++) next[(start_ps[k] >> shift & (DIGITS - 1)) + 1]++;
    for (int32_t d = 0; d < DIGITS; d++) next[d + 1] += next[d];
    for (int32_t k = 0; k < T; k++) to[next[start_ps[from[k]] >> shift & (DIGITS - 1)]++] = from[k];
}

/* What takes no time starts together with what it needs: then the topological order decides. */
static stw_status sort_by_start(const stw_simulator *s, stw_chain *c, stw_arena scratch) {
    const int32_t T = s->unfused.T;
    int32_t *other;
    int64_t last_ps = 0;
    STW_TRY_NEW(&scratch, other, T, c->error);
    for (int32_t k = 0; k < T; k++) c->order[k] = s->unfused.task_of[s->graph->topological[k]];
    for (int32_t t = 0; t < T; t++) last_ps = c->start_ps[t] > last_ps ? c->start_ps[t] : last_ps;
    for (int shift = 0; shift < 63 && last_ps >> shift > 0; shift += 2 * DIGIT) { /* there and back */
        sort_by_digit(c->start_ps, shift, T, c->order, other);
        sort_by_digit(c->start_ps, shift + DIGIT, T, other, c->order);
    }
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

/* What the run that has just ended shows of the plan. */
static stw_status observe(const stw_annealing *a, stw_chain *c, int32_t worker) {
    stw_search *search = a->search;
    const stw_workspace *workspace = search->workspace[worker];
    const int32_t T = search->simulator->unfused.T;
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
    TRY(find_critical(workspace, c, T, scratch));
    if (c->sight == NULL || !c->proposes) return STW_OK;
    const stw_seen seen = {.plan = c->plan,
                           .start_ps = c->start_ps,
                           .end_ps = end_ps,
                           .order = c->order,
                           .critical_count = c->critical_count,
                           .critical = c->critical,
                           .step_ps = c->step_ps,
                           .peak_bytes = workspace->timeline.peak_bytes};
    stw_sight_take(search->simulator, &seen, c->sight);
    return STW_OK;
}

/* Looks at the plan as it is: its critical path, and what runs when. Counts as an evaluation. */
static stw_status look(const stw_annealing *a, stw_chain *c, int32_t worker) {
    TRY(stw_anneal_order(a, c, worker)); /* of a change that was taken back the order is left */
    TRY(stw_search_evaluate(a->search, c->plan, worker, &c->score, c->error));
    return observe(a, c, worker);
}

/* Valid plans may become a little worse. */
static double limit_of(const stw_chain *c) { return c->score.value * (1.0 + (1.0 - c->progress) * c->heat); }

/* Others must come nearer to valid. */
static bool accepts(const stw_chain *c, const stw_score *score) {
    if (score->reason == STW_VALID && c->score.reason == STW_VALID) return score->value <= limit_of(c);
    return !stw_score_is_better(&c->score, score);
}

/* The chain knows the last run of its plan, which is a valid one. */
static bool may_propose(const stw_chain *c) {
    return c->sight != NULL && c->proposes && c->critical_count > 0 && c->score.reason == STW_VALID;
}

static stw_status try_change(const stw_annealing *a, stw_chain *c, int32_t worker) {
    stw_score score = {0};
    bool changed = false;
    const bool proposes = may_propose(c);
    TRY(proposes ? stw_anneal_propose(a, c, worker, &changed) : stw_anneal_change(a, c, worker, &changed));
    if (!changed) return STW_OK;
    TRY(stw_anneal_order(a, c, worker)); /* whichever chain devices or priorities came from, the order is by what they are now */
    /* A step beyond the limit would be rejected: there is no need to see its end. */
    const bool limited = a->search->objective == STW_OBJECTIVE_TIME && c->score.reason == STW_VALID;
    TRY(stw_search_evaluate_within(a->search, c->plan, limited ? limit_of(c) : 0.0, worker, &score, c->error));
    if (proposes) stw_anneal_tell(a, c, &score);
    if (!proposes) c->since_look++;
    if (!accepts(c, &score)) {
        stw_anneal_take_back(c);
        return STW_OK;
    }
    c->score = score;
    if (c->sight != NULL && c->proposes) TRY(observe(a, c, worker));
    if (!stw_score_is_better(&score, &c->best_score)) return STW_OK;
    c->best_score = score;
    c->best_strict = c->strict;
    if (c->fusion != NULL) memcpy(c->best_fusion, c->fusion, (size_t)c->plan->graph->N * sizeof(double));
    return stw_plan_assign(c->best, c->plan, c->error);
}

stw_status stw_chain_step(const stw_annealing *a, stw_chain *c, int32_t worker) {
    return c->since_look >= STW_ANNEAL_LOOK_EVERY ? look(a, c, worker) : try_change(a, c, worker);
}

void stw_chain_may_propose(stw_chain *c, bool proposes) {
    if (c->sight != NULL && proposes && !c->proposes) c->since_look = STW_ANNEAL_LOOK_EVERY; /* it has looked away meanwhile */
    c->proposes = proposes;
}

stw_status stw_chain_follow(stw_chain *c, const stw_lead *lead, stw_error *error) {
    if (stw_plan_has_orders(lead->plan) && !lead->strict) return STW_OK;
    TRY(stw_plan_assign(c->plan, lead->plan, error));
    if (c->fusion != NULL) memcpy(c->fusion, lead->fusion, (size_t)lead->plan->graph->N * sizeof *lead->fusion);
    c->strict = lead->strict;
    c->score = lead->score;
    c->since_look = STW_ANNEAL_LOOK_EVERY;
    return STW_OK;
}
