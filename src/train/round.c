/* The beginning of a round: what its decisions are relative to. */
#include <string.h>

#include "sim/critical.h"
#include "train/proposal.h"
#include "train/trainer_state.h"

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

static stw_status observe_run(stw_trainer *t, const stw_workspace *workspace, const stw_run_times *times, stw_error *error) {
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
    t->round.base = *t->problem->listing.base;
    t->round.insertion = ways[way].insertion;
    t->round.channel_gaps = ways[way].channel_gaps;
    t->round.home = ways[way].home;
    t->round.fusion = t->problem->fuses ? t->origin_fusion : NULL;
}

stw_status stw_trainer_show(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const stw_features *f = &p->features;
    const stw_policy_config *config = stw_net_config(t->net);
    TRY(propose(t, error));
    const bool proposes = t->moves.count > 0 || t->round.other != NULL;
    if (config->proposal_columns > 0)
        stw_features_proposal(f, t->pair, t->origin->device, proposes ? t->other : t->origin->device, t->proposal);
    stw_net_input input = {.M = p->M,
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
    if (t->settings.shuffled) TRY(stw_trainer_shuffle(t, &input, &t->round_arena, error));
    return stw_pass_set_input(t->pass, &input, error);
}

stw_status stw_trainer_observe(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    const stw_policy_config *config = stw_net_config(t->net);
    const stw_workspace *workspace = t->environment.workspace[0];
    stw_score score;
    TRY(t->environment.evaluate(t->environment.context, t->origin, 0, &score, error));
    choose_way(t);
    const bool ran = score.reason == STW_VALID || score.reason == STW_INVALID_MEMORY;
    stw_run_times times = {0};
    if (ran) TRY(stw_trainer_times(t, &times, &t->round_arena, error));
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
    const stw_environment *e = &t->environment;
    const stw_group_maker maker = {t->fuser == NULL ? NULL : t->fuser[0], t->plan_fusion[1]};
    stw_score score;
    TRY(stw_decode(t->problem, round, decisions, &maker, t->plan[1], e->scratch[0], error));
    if (e->finish != NULL) TRY(e->finish(e->context, t->plan[1], 0, error));
    TRY(e->evaluate(e->context, t->plan[1], 0, &score, error));
    t->evaluations++;
    return stw_trainer_keep(t, 1, &score, error);
}

/* Without a plan to begin with: one with all knobs at 1, without glue to any; of the head `device`, all on one device. Fused by
 * the rule. */
static stw_status make_origin(stw_trainer *t, stw_error *error) {
    const stw_problem *p = t->problem;
    stw_round nothing = {.base = *p->listing.base};
    const stw_decisions decisions = {.placement = t->placement, .steered = t->steered};
    memset(t->placement, 0, (size_t)p->M * (size_t)t->A * sizeof *t->placement);
    if (p->fuses) TRY(stw_fusion_begin(p->simulator, t->rule_fusion, NULL, t->origin_fusion, t->environment.scratch[0], error));
    if (p->fuses) nothing.fusion = t->origin_fusion;
    TRY(try_plan(t, &nothing, &decisions, error));
    return stw_plan_copy(t->origin, t->plan[1], error);
}

/* The plan that training begins with, fused by the rule unless it has groups of its own. */
static stw_status fuse_start(stw_trainer *t, stw_error *error) {
    const stw_round round = {.plan = t->best, .base = *t->problem->listing.base, .fusion = t->best_fusion};
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
    stw_trainer_copy_fusion(t, t->origin_fusion, wanders ? t->beside_fusion : t->best_fusion);
    return stw_plan_copy(t->origin, wanders ? t->beside : t->best, error);
}

stw_status stw_trainer_begin_round(stw_trainer *t, bool *over, stw_error *error) {
    *over = t->has_best && t->environment.evaluations_left(t->environment.context) < 2;
    if (*over) return STW_OK;
    t->round_arena = t->arena;
    t->round_index++;
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
    if (t->steered && t->problem->places && t->settings.grid) return stw_trainer_find_constants(t, over, error);
    if (t->settings.imitations > 0 && t->round_index == 0 && !t->steered) return stw_trainer_imitate(t, over, error);
    return STW_OK;
}

stw_status stw_trainer_begin(stw_trainer *t, stw_error *error) {
    bool over = false;
    return t->round_index < 0 ? stw_trainer_begin_round(t, &over, error) : STW_OK;
}
