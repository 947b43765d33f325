/* A round: the plan that its decisions are relative to, what the network sees of it, the constants that decisions of 0 stand for,
 * and the plans that are kept for the next one. */
#include <string.h>

#include "feature/columns.h"
#include "sim/backward.h"
#include "sim/critical.h"
#include "sim/op_times.h"
#include "train/moves.h"
#include "train/trainer_state.h"

static const double LEAST_CHANGE = 0.002; /* of the nodes */

typedef struct { /* (T) by op, groups or not */
    int64_t *start_ps, *end_ps;
    int32_t *task;
} run_times;

/* Of the run that has just ended in the first workspace. */
static stw_status find_times(const stw_trainer *t, run_times *out, stw_arena *arena, stw_error *error) {
    const int32_t T = t->problem->simulator->unfused.T;
    STW_TRY_NEW(arena, out->start_ps, T, error);
    STW_TRY_NEW(arena, out->end_ps, T, error);
    STW_TRY_NEW(arena, out->task, T, error);
    return stw_op_times(t->search->workspace[0], out->start_ps, out->end_ps, out->task, *arena, error);
}

/* Fusion priorities, (N); nothing without fusion. */
static void copy_fusion(const stw_trainer *t, double *to, const double *from) {
    if (t->problem->fuses) memcpy(to, from, (size_t)t->problem->simulator->graph->N * sizeof *to);
}

/* ---- the best plan ---- */

/* Priorities from a run backwards, as long as they help. */
static stw_status polish(stw_trainer *t, stw_error *error) {
    const stw_simulator *s = t->problem->simulator;
    stw_plan *trial = t->plan[0];
    stw_score score;
    for (int32_t k = 0; k < 3; k++) {
        if (stw_trainer_evaluations_left(t) < 2 || stw_trainer_may_stop(t)) return STW_OK;
        TRY(stw_search_evaluate(t->search, t->best, 0, &score, error));
        t->evaluations++;
        stw_arena scratch = t->search->scratch[0];
        run_times times;
        TRY(find_times(t, &times, &scratch, error));
        TRY(stw_plan_assign(trial, t->best, error));
        TRY(stw_backward_priorities(s, trial, times.start_ps, scratch, error));
        TRY(stw_search_evaluate(t->search, trial, 0, &score, error));
        t->evaluations++;
        if (!stw_score_is_better(&score, &t->best_score)) return STW_OK;
        TRY(stw_plan_assign(t->best, trial, error));
        t->best_score = score;
    }
    return STW_OK;
}

static bool may_polish(const stw_trainer *t) {
    const stw_problem *p = t->problem;
    return (p->schedules || p->polishes) && p->rule < 0 && p->objective == STW_OBJECTIVE_TIME && t->nudged;
}

stw_status stw_trainer_polish(stw_trainer *t, stw_error *error) {
    if (!t->has_best || t->best_score.reason != STW_VALID || !may_polish(t)) return STW_OK;
    const stw_score before = t->best_score;
    TRY(polish(t, error));
    if (stw_score_is_better(&t->best_score, &before)) stw_search_tell(t->search, t->best, &t->best_score);
    return STW_OK;
}

stw_status stw_trainer_keep(stw_trainer *t, int32_t k, const stw_score *score, stw_error *error) {
    const bool usable = score->reason == STW_VALID || score->reason == STW_INVALID_MEMORY;
    if (!usable || (t->has_best && !stw_score_is_better(score, &t->best_score))) return STW_OK;
    TRY(stw_plan_assign(t->best, t->plan[k], error));
    copy_fusion(t, t->best_fusion, t->plan_fusion[k]);
    t->best_score = *score;
    t->has_best = true;
    t->last_better = t->update;
    if (may_polish(t)) TRY(polish(t, error));
    stw_search_tell(t->search, t->best, &t->best_score);
    return STW_OK;
}

/* ---- beside it ---- */

/* A plan that is the round's plan all over again says nothing about how to leave it. */
static bool is_a_change(const stw_trainer *t, const stw_plan *plan) {
    const int32_t N = plan->graph->N;
    int32_t moved = 0;
    if (t->round.plan == NULL) return true;
    for (int32_t i = 0; i < N; i++)
        moved += plan->device[i] != t->origin->device[i] || (t->problem->fuses && plan->group[i] != t->origin->group[i]);
    return moved > LEAST_CHANGE * N;
}

stw_status stw_trainer_look_beside(stw_trainer *t, int32_t count, stw_error *error) {
    int32_t best = -1;
    for (int32_t k = 0; k < count; k++) {
        const stw_score *than = best >= 0 ? &t->score[best] : t->has_beside ? &t->beside_score : NULL;
        const bool better = t->score[k].reason == STW_VALID && (than == NULL || stw_score_is_better(&t->score[k], than));
        if (better && is_a_change(t, t->plan[k])) best = k;
    }
    if (best < 0 || t->settings.wander <= 0.0) return STW_OK;
    t->has_beside = true;
    t->beside_score = t->score[best];
    copy_fusion(t, t->beside_fusion, t->plan_fusion[best]);
    return stw_plan_assign(t->beside, t->plan[best], error);
}

/* ---- constants: knobs that are the same for all units ---- */

static const double a0[] = {-1, 0, 1, 2}, a1[] = {-2, 0, 2}, a2[] = {-3, 0, 2, 4, 6};
enum { A0 = 4, A1 = 3, A2 = 5, GRID = A0 * A1 * A2 };

static void constant_at(const stw_trainer *t, int32_t k, double *knobs) {
    knobs[0] = a0[k % A0];
    knobs[1] = a1[k / A0 % A1];
    knobs[2] = t->settings.glue ? a2[k / (A0 * A1)] : 0.0;
    knobs[3] = 0.0;
}

static void fill_constant(stw_trainer *t, int32_t place, int32_t constant) {
    double knobs[STW_STEER_KNOBS], *action = &t->now->placement[(int64_t)place * t->problem->M * STW_STEER_KNOBS];
    constant_at(t, constant, knobs);
    for (int64_t u = 0; u < t->problem->M; u++) {
        for (int32_t k = 0; k < STW_STEER_KNOBS; k++) action[u * STW_STEER_KNOBS + k] = knobs[k] / stw_knob_scale[k];
    }
}

/* Those that give the best new plan become the offset of the round: means of 0 stand for them. */
static stw_status find_constants(stw_trainer *t, bool *over, stw_error *error) {
    const int32_t count = t->settings.glue ? GRID : A0 * A1, room = t->settings.samples + 1;
    double offset[STW_STEER_KNOBS] = {0, 0, 0, 0};
    stw_score best = {.reason = STW_INVALID_ORDER};
    memset(t->round.offset, 0, sizeof t->round.offset);
    for (int32_t first = 0; first < count && !*over; first += room) {
        const int32_t size = count - first < room ? count - first : room;
        bool complete = false;
        if (stw_trainer_evaluations_left(t) < size) {
            *over = true;
            break;
        }
        for (int32_t k = 0; k < size; k++) fill_constant(t, k, first + k);
        const stw_actions actions = {.placement = t->now->placement};
        TRY(stw_trainer_rollout(t, &actions, size, &complete, error));
        *over = !complete;
        for (int32_t k = 0; k < size && complete; k++) {
            if (!is_a_change(t, t->plan[k]) || !stw_score_is_better(&t->score[k], &best)) continue;
            best = t->score[k];
            constant_at(t, first + k, offset);
        }
        int32_t winner = -1; /* kept last: keeping writes to the first of these plans */
        for (int32_t k = 0; k < size && complete; k++)
            if (winner < 0 || stw_score_is_better(&t->score[k], &t->score[winner])) winner = k;
        if (winner >= 0) TRY(stw_trainer_keep(t, winner, &t->score[winner], error));
    }
    memcpy(t->round.offset, offset, sizeof offset);
    return STW_OK;
}

/* ---- a control: features dealt out among the units ---- */

static stw_status deal(const void *from, size_t row_bytes, const int32_t *of, int32_t M, stw_arena *arena, const void **out,
                       stw_error *error) {
    char *to;
    *out = from;
    if (from == NULL || row_bytes == 0) return STW_OK;
    STW_TRY_NEW(arena, to, (int64_t)M * (int64_t)row_bytes, error);
    for (int32_t u = 0; u < M; u++) memcpy(to + (size_t)u * row_bytes, (const char *)from + (size_t)of[u] * row_bytes, row_bytes);
    *out = to;
    return STW_OK;
}

stw_status stw_trainer_shuffle(const stw_trainer *t, stw_net_input *input, stw_arena *arena, stw_error *error) {
    const stw_policy_config *c = stw_net_config(t->net);
    const int32_t M = input->M;
    stw_rng rng = stw_rng_split(&t->rng, UINT64_MAX);
    int32_t *of;
    const void *dealt = NULL;
    STW_TRY_NEW(arena, of, M, error);
    for (int32_t u = 0; u < M; u++) of[u] = u;
    for (int32_t u = M - 1; u > 0; u--) {
        const int32_t k = (int32_t)stw_rng_below(&rng, u + 1), kept = of[u];
        of[u] = of[k];
        of[k] = kept;
    }
    TRY(deal(input->unit, (size_t)c->unit_columns * sizeof *input->unit, of, M, arena, &dealt, error));
    input->unit = dealt;
    TRY(deal(input->feedback, (size_t)c->feedback_columns * sizeof *input->feedback, of, M, arena, &dealt, error));
    input->feedback = dealt;
    TRY(deal(input->pair, (size_t)c->pair_columns * (size_t)input->D * sizeof *input->pair, of, M, arena, &dealt, error));
    input->pair = dealt;
    TRY(deal(input->proposal, (size_t)c->proposal_columns * sizeof *input->proposal, of, M, arena, &dealt, error));
    input->proposal = dealt;
    TRY(deal(input->operator_, sizeof *input->operator_, of, M, arena, &dealt, error));
    input->operator_ = dealt;
    return STW_OK;
}

/* How ops are placed, from round to round: plans that one way does not find, another may. */
static const struct {
    bool as_run; /* in the order in which the round's plan runs, else by upward rank */
    bool insertion, channel_gaps;
    stw_home home;
} ways[] = {
    {true, true, true, STW_HOME_FIRST},
    {true, true, false, STW_HOME_GLUED},
    {false, false, false, STW_HOME_GLUED},
};
enum { WAYS = sizeof ways / sizeof ways[0] };
static const uint64_t PROPOSALS = UINT64_C(1) << 62; /* of the generator's parts, beyond those of the updates */

/* ---- what the network sees ---- */

static stw_status observe_run(stw_trainer *t, const stw_workspace *workspace, const run_times *times, stw_error *error) {
    const stw_timeline *timeline = &workspace->timeline;
    const int32_t T = timeline->tasks->T, ops = t->problem->simulator->unfused.T;
    stw_arena scratch = t->round_arena;
    stw_feedback_input input = {.device = t->origin->device,
                                .priority = t->origin->priority,
                                .start_ps = times->start_ps,
                                .end_ps = times->end_ps,
                                .busy_ps = timeline->busy_ps};
    int32_t *path, *critical, count = 0;
    bool *on_path;
    STW_TRY_NEW(&scratch, path, T, error);
    STW_TRY_NEW(&scratch, on_path, T, error);
    STW_TRY_NEW(&scratch, critical, ops, error);
    TRY(stw_critical_path(workspace, path, T, &count, scratch, error));
    for (int32_t k = 0; k < count; k++) on_path[path[k]] = true;
    for (int32_t k = 0; k < ops; k++)
        if (times->task[k] >= 0 && on_path[times->task[k]]) critical[input.critical_count++] = k;
    input.critical = critical;
    for (int32_t k = 0; k < T; k++) input.step_ps = timeline->end_ps[k] > input.step_ps ? timeline->end_ps[k] : input.step_ps;
    return stw_features_feedback(&t->problem->features, &input, t->feedback, t->pair, scratch, error);
}

/* What the round proposes: samples may take it, or it is tried move by move. */
static stw_status propose(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const stw_rng rng = stw_rng_split(&t->rng, PROPOSALS + (uint64_t)(t->draw >= 0 ? t->draw : t->round_index));
    int32_t grouping = 0;
    t->round.other = NULL;
    t->moves.count = 0;
    if (t->round.plan == NULL || !t->settings.proposals || !t->steered || !p->places) return STW_OK;
    TRY(stw_propose(p, t->origin, rng, t->other, &grouping, t->round_arena, error));
    if (t->settings.moves > 0) return stw_moves_find(p, t->origin, t->other, grouping, &t->round_arena, &t->moves, error);
    t->round.other = t->other;
    return STW_OK;
}

static void choose_way(stw_trainer *t) {
    const int32_t way = t->round_index % WAYS;
    t->round.plan = t->settings.glue || !t->problem->places ? t->origin : NULL; /* devices that are not decided are the plan's */
    t->round.base = t->problem->list->base;
    t->round.insertion = ways[way].insertion;
    t->round.channel_gaps = ways[way].channel_gaps;
    t->round.home = ways[way].home;
    t->round.fusion = t->problem->fuses ? t->origin_fusion : NULL;
}

/* Where like devices have no names, nothing tells the network their order. */
static stw_status forget_order(stw_trainer *t, const double **device, stw_error *error) {
    const int64_t D = t->problem->features.D;
    double *to;
    if (t->steered || stw_net_config(t->net)->device_names > 0) return STW_OK;
    STW_TRY_NEW(&t->round_arena, to, D * STW_DEVICE_COLUMNS, error);
    memcpy(to, *device, (size_t)(D * STW_DEVICE_COLUMNS) * sizeof *to);
    for (int64_t d = 0; d < D; d++)
        for (int64_t k = STW_DEVICE_SLOT; k <= STW_DEVICE_COS_4; k++) to[d * STW_DEVICE_COLUMNS + k] = 0.0;
    *device = to;
    return STW_OK;
}

stw_status stw_trainer_show(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const stw_features *f = &p->features;
    const stw_policy_config *config = stw_net_config(t->net);
    TRY(propose(t, error));
    const bool proposes = t->moves.count > 0 || t->round.other != NULL;
    if (config->proposal_columns > 0)
        stw_features_proposal(f, t->pair, t->origin->device, proposes ? t->other : t->origin->device, t->proposal);
    t->input = (stw_net_input){.M = p->M,
                               .D = f->D,
                               .unit = f->unit,
                               .feedback = config->feedback_columns > 0 ? t->feedback : NULL,
                               .pair = config->pair_columns > 0 ? t->pair : NULL,
                               .proposal = config->proposal_columns > 0 ? t->proposal : NULL,
                               .device = f->device,
                               .operator_ = f->operator_,
                               .producer_start = f->producer_start,
                               .producer = f->producer,
                               .reader_start = f->reader_start,
                               .reader = f->reader};
    TRY(forget_order(t, &t->input.device, error));
    if (t->settings.shuffled) TRY(stw_trainer_shuffle(t, &t->input, &t->round_arena, error));
    return t->prepares ? STW_OK : stw_pass_set_input(t->pass, &t->input, error);
}

stw_status stw_trainer_observe(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const stw_policy_config *config = stw_net_config(t->net);
    const stw_workspace *workspace = t->search->workspace[0];
    stw_score score;
    TRY(stw_search_evaluate(t->search, t->origin, 0, &score, error));
    choose_way(t);
    const bool ran = score.reason == STW_VALID || score.reason == STW_INVALID_MEMORY;
    run_times times = {0};
    if (ran) TRY(find_times(t, &times, &t->round_arena, error));
    memset(t->feedback, 0, (size_t)((int64_t)p->M * config->feedback_columns) * sizeof *t->feedback);
    memset(t->pair, 0, (size_t)((int64_t)p->M * p->features.D * config->pair_columns) * sizeof *t->pair);
    if (ran && config->feedback_columns > 0) TRY(observe_run(t, workspace, &times, error));
    if (ran && ways[t->round_index % WAYS].as_run && t->settings.glue)
        TRY(stw_round_order(p, times.start_ps, &t->round_arena, &t->round, error));
    return stw_trainer_show(t, error);
}

/* ---- the round ---- */

/* Makes plan 1 of it, and keeps it if it is better than the best. */
static stw_status try_plan(stw_trainer *t, const stw_round *round, const stw_decisions *decisions, stw_error *error) {
    const stw_group_maker maker = {t->fuser == NULL ? NULL : t->fuser[0], t->plan_fusion[1]};
    stw_score score;
    TRY(stw_decode(t->problem, round, decisions, &maker, t->plan[1], t->search->scratch[0], error));
    TRY(stw_trainer_evaluate(t, t->plan[1], 0, &score, error));
    t->evaluations++;
    return stw_trainer_keep(t, 1, &score, error);
}

/* Without an initial plan: one with all knobs at 1, without glue to any; of the head `device`, all on one device. Fused by
 * the rule. */
static stw_status make_origin(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    stw_round nothing = {.base = p->list->base};
    const stw_decisions decisions = {.placement = t->now->placement, .steered = t->steered};
    memset(t->now->placement, 0, (size_t)p->M * (size_t)t->A * sizeof *t->now->placement);
    if (p->fuses) TRY(stw_fusion_begin(p->simulator, t->rule_fusion, NULL, t->origin_fusion, t->search->scratch[0], error));
    if (p->fuses) nothing.fusion = t->origin_fusion;
    TRY(try_plan(t, &nothing, &decisions, error));
    return stw_plan_assign(t->origin, t->plan[1], error);
}

/* The plan that training begins with, fused by the rule unless it has groups of its own. */
static stw_status fuse_start(stw_trainer *t, stw_error *error) {
    const stw_round round = {.plan = t->best, .base = t->problem->list->base, .fusion = t->best_fusion};
    const stw_decisions decisions = {.nudged = t->nudged};
    return try_plan(t, &round, &decisions, error);
}

/* The best plan; after a round in which nothing was better, one beside it if there is one that is nearly as good. */
static stw_status choose_origin(stw_trainer *t, stw_error *error) {
    const bool stuck = t->round_index > 0 && t->has_best && t->best_score.value >= t->least;
    const double limit = t->best_score.value * (1.0 + t->settings.wander * (1.0 - stw_trainer_progress(t)));
    const bool wanders = stuck && t->has_beside && t->beside_score.value < limit;
    t->reference = wanders ? t->beside_score.value : t->best_score.value;
    t->least = t->best_score.value;
    t->has_beside = false;
    if (!t->has_best) return STW_OK;
    copy_fusion(t, t->origin_fusion, wanders ? t->beside_fusion : t->best_fusion);
    return stw_plan_assign(t->origin, wanders ? t->beside : t->best, error);
}

bool stw_trainer_is_blank(const stw_trainer *t) {
    return !t->steered && t->problem->places && !t->settings.glue && t->settings.imitations == 0 &&
           stw_net_config(t->net)->feedback_columns == 0;
}

/* Nothing to be relative to: no plan is made or run. */
static stw_status begin_blank(stw_trainer *t, stw_error *error) {
    t->last_better = t->update;
    t->restarted = false;
    choose_way(t);
    return stw_trainer_show(t, error);
}

stw_status stw_trainer_begin_round(stw_trainer *t, bool *over, stw_error *error) {
    *over = t->has_best && stw_trainer_evaluations_left(t) < 2;
    if (*over) return STW_OK;
    t->round_arena = t->arena;
    t->round_index++;
    if (stw_trainer_is_blank(t)) return begin_blank(t, error);
    if (!t->has_best) {
        TRY(make_origin(t, error));
    } else if (t->problem->fuses && t->round_index == 0) {
        TRY(fuse_start(t, error));
    }
    TRY(choose_origin(t, error));
    t->last_better = t->update;
    t->has_elite = false; /* its decisions were relative to another plan */
    TRY(stw_trainer_observe(t, error));
    t->evaluations++;
    t->restarted = false;
    memcpy(t->round.offset, t->settings.offset, sizeof t->round.offset);
    if (t->steered && t->problem->places && t->settings.grid) return find_constants(t, over, error);
    if (t->settings.imitations > 0 && t->round_index == 0 && !t->steered) return stw_trainer_imitate(t, over, error);
    return STW_OK;
}

stw_status stw_trainer_begin(stw_trainer *t, stw_error *error) {
    bool over = false;
    return t->round_index < 0 ? stw_trainer_begin_round(t, &over, error) : STW_OK;
}
