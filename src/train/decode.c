#include "train/decode.h"

#include <math.h>
#include <string.h>

#include "plan/plan.h"
#include "plan/rules.h"

/* ---- the initial fusion priorities ---- */

static const double LEAST = 0.05; /* of what a plan merges though the rule could not */

/* From places among all ops, as the rule tells them, to places among those that it merges, and among those that it does not. */
static void spread_evenly(const stw_graph *graph, double *priority) {
    const double all = graph->op_count + 1.0;
    int32_t merged = 0, refused = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        merged += priority[i] > 0.0;
        refused += priority[i] < 0.0;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (priority[i] > 0.0) priority[i] = (merged - round((1.0 - priority[i]) * all)) / merged;
        if (priority[i] < 0.0) priority[i] = priority[i] * all / refused;
    }
}

/* Ops with a reader on another device have their place back: it has no effect as long as that is so. */
static void mind_borders(const stw_simulator *s, const int32_t *device, const double *rule, double *priority) {
    const stw_tasks *tasks = &s->unfused;
    for (int32_t v = 0; v < tasks->V; v++) {
        const int32_t node = tasks->value_node[v];
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            if (device[tasks->task_node[tasks->use[u].task]] != device[node]) priority[node] = rule[node];
        }
    }
}

/* Merged is what is recomputed, or is not the last of its group. */
static stw_status take_signs(const stw_plan *own, double *priority, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = own->graph;
    int32_t *last, groups = 0;
    stw_plan *plan = NULL;
    STW_TRY_NEW(&scratch, last, graph->N, error);
    TRY(stw_plan_create(graph, own->machine, &plan, error));
    stw_status status = stw_plan_assign(plan, own, error);
    if (status == STW_OK) status = stw_plan_canonical_groups(plan, error);
    for (int32_t k = 0; status == STW_OK && k < graph->op_count; k++) {
        const int32_t op = graph->topological[k], group = plan->group[op];
        groups += group != op;
        if (group >= 0) last[group] = op;
    }
    for (int32_t k = 0; status == STW_OK && groups > 0 && k < graph->op_count; k++) {
        const int32_t op = graph->topological[k], group = plan->group[op];
        const bool merged = group < 0 || last[group] != op;
        if (merged && priority[op] <= 0.0) priority[op] = fmax(-priority[op], LEAST);
        if (!merged && priority[op] > 0.0) priority[op] = -priority[op];
    }
    stw_plan_destroy(plan);
    return status;
}

stw_status stw_fusion_begin(const stw_simulator *s, const double *rule, const stw_plan *plan, double *priority, stw_arena scratch,
                            stw_error *error) {
    const int32_t N = s->graph->N;
    double *places;
    STW_TRY_NEW(&scratch, places, N, error);
    memcpy(places, rule, (size_t)N * sizeof *rule);
    spread_evenly(s->graph, places);
    memcpy(priority, places, (size_t)N * sizeof *places);
    if (plan == NULL) return STW_OK;
    TRY(take_signs(plan, priority, scratch, error));
    mind_borders(s, plan->device, places, priority);
    return STW_OK;
}

/* ---- decoding ---- */

/* Beyond these the decoder does nothing new: one device, or the other plan. */
static const double knob_least[] = {-4, -4, -4}, knob_most[] = {5, 8, 9};
/* Glue to the plan goes from nothing to everything over a wide range; noise must be able to cross it. */
const double stw_knob_scale[STW_STEER_KNOBS] = {1, 1, 3, 1};
enum { EXPONENTS = 3, CHOICE = 3 };     /* knobs that are exponents; the one that chooses a plan */
static const double CHOICE_LEAST = 0.8; /* of a decision for the other plan: one in eight at first */
static const double CHOICE_GLUE = 55.0; /* at least, in mean ops */
static const double NUDGE_SHARE = 0.02; /* of the largest rank, for a nudge of 1 */
static const double FUSION_SHARE = 0.3; /* of a fusion priority of 1, for a nudge of 1 */
static const double FUSION_MOST = 2.0;  /* either way */

static double knob(const stw_round *round, const double *action, int32_t k) {
    return exp(fmin(fmax(round->offset[k] + stw_knob_scale[k] * action[k], knob_least[k]), knob_most[k]));
}

static bool takes_other(const stw_round *round, const double *action, int32_t unit) {
    return round->other != NULL && unit >= 0 && action[(int64_t)unit * STW_STEER_KNOBS + CHOICE] > CHOICE_LEAST;
}

/* (N) the device that each node is pulled to; NULL: none. */
static stw_status find_glued(const stw_problem *p, const stw_round *round, const double *action, stw_arena *arena,
                             const int32_t **out, stw_error *error) {
    const int32_t N = p->simulator->graph->N;
    int32_t *glued;
    *out = round->plan == NULL ? NULL : round->plan->device;
    if (round->plan == NULL || round->other == NULL) return STW_OK;
    STW_TRY_NEW(arena, glued, N, error);
    for (int32_t i = 0; i < N; i++)
        glued[i] = takes_other(round, action, p->units.of[i]) ? round->other[i] : round->plan->device[i];
    *out = glued;
    return STW_OK;
}

static stw_status steer(const stw_problem *p, const stw_round *round, const double *action, stw_plan *plan, stw_arena scratch,
                        stw_error *error) {
    const int32_t T = p->simulator->unfused.T;
    double *aversion, *unit_glue, *plan_glue;
    STW_TRY_NEW(&scratch, aversion, T, error);
    STW_TRY_NEW(&scratch, unit_glue, T, error);
    STW_TRY_NEW(&scratch, plan_glue, T, error);
    const int32_t *glued;
    TRY(find_glued(p, round, action, &scratch, &glued, error));
    double(*of_unit)[EXPONENTS];
    STW_TRY_NEW(&scratch, of_unit, p->M, error);
    for (int32_t u = 0; u < p->M; u++) {
        for (int32_t k = 0; k < EXPONENTS; k++) of_unit[u][k] = knob(round, &action[(int64_t)u * STW_STEER_KNOBS], k);
        if (takes_other(round, action, u)) of_unit[u][2] = fmax(of_unit[u][2], CHOICE_GLUE);
    }
    for (int32_t t = 0; t < T; t++) {
        const double *knobs = of_unit[p->task_unit[t]];
        aversion[t] = knobs[0];
        unit_glue[t] = knobs[1] * p->list->mean_us;
        plan_glue[t] = knobs[2] * p->list->mean_us;
    }
    const stw_steer_input input = {.base = &round->base,
                                   .aversion = aversion,
                                   .unit_glue = unit_glue,
                                   .unit = p->units.of,
                                   .unit_count = p->units.count,
                                   .plan_glue = plan_glue,
                                   .glued = glued,
                                   .home = round->plan == NULL ? STW_HOME_FIRST : round->home,
                                   .allowed = p->list->linked,
                                   .outlook = true,
                                   .insertion = round->insertion,
                                   .queues = p->simulator->machine->queues,
                                   .channel_gaps = round->channel_gaps,
                                   .memory = p->list->memory};
    return stw_steer(&input, plan->device, NULL, scratch, error);
}

static void place_units(const stw_problem *p, const double *device, stw_plan *plan) {
    const stw_graph *graph = p->simulator->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t unit = p->units.of[i];
        plan->device[i] = unit < 0 ? 0 : (int32_t)device[unit];
    }
}

static stw_status prioritise(const stw_problem *p, const stw_decisions *decisions, stw_plan *plan, stw_arena scratch,
                             stw_error *error) {
    const stw_simulator *s = p->simulator;
    const bool by_class = decisions->schedule != NULL && !decisions->nudged;
    memset(plan->priority, 0, (size_t)s->graph->N * sizeof *plan->priority); /* rules leave views as they are */
    if (!by_class) {
        const stw_rule rule = p->rule >= 0 ? (stw_rule)p->rule : STW_RULE_UPWARD_RANK;
        TRY(stw_rule_apply(rule, s->costs, &s->unfused, plan, scratch, error));
    }
    if (decisions->schedule == NULL) return STW_OK;
    double scale = 1.0;
    if (!by_class) {
        double largest = 0.0;
        for (int32_t t = 0; t < s->unfused.T; t++) largest = fmax(largest, plan->priority[s->unfused.task_node[t]]);
        scale = NUDGE_SHARE * largest;
    }
    for (int32_t i = 0; i < s->graph->N; i++) {
        const int32_t unit = p->units.of[i];
        if (unit >= 0) plan->priority[i] += scale * decisions->schedule[unit];
    }
    return STW_OK;
}

static void fuse(const stw_problem *p, const stw_round *round, const stw_decisions *decisions, const stw_group_maker *maker,
                 stw_plan *plan) {
    double *priority = maker->priority;
    for (int32_t i = 0; i < p->simulator->graph->N; i++) {
        const int32_t unit = p->units.of[i];
        priority[i] = round->fusion[i];
        if (unit < 0 || decisions->fusion == NULL) continue;
        const double decided = decisions->fusion[unit];
        const double nudged = priority[i] + FUSION_SHARE * decided;
        priority[i] = decisions->fusion_nudged ? fmin(fmax(nudged, -FUSION_MOST), FUSION_MOST) : decided;
    }
    stw_fuse_by_priority(maker->fuser, priority, plan->device, plan->group);
}

stw_status stw_decode(const stw_problem *p, const stw_round *round, const stw_decisions *decisions, const stw_group_maker *maker,
                      stw_plan *plan, stw_arena scratch, stw_error *error) {
    stw_plan_remove_orders(plan);
    if (decisions->placement == NULL) {
        memcpy(plan->device, round->plan->device, (size_t)p->simulator->graph->N * sizeof *plan->device);
    } else if (decisions->steered) {
        TRY(steer(p, round, decisions->placement, plan, scratch, error));
    } else {
        place_units(p, decisions->placement, plan);
    }
    stw_plan_join(p->simulator, plan);
    if (round->fusion != NULL) fuse(p, round, decisions, maker, plan);
    if (round->fusion != NULL && !p->places && !p->schedules) { /* nothing that priorities go by has changed */
        memcpy(plan->priority, round->plan->priority, (size_t)p->simulator->graph->N * sizeof *plan->priority);
        return STW_OK;
    }
    return prioritise(p, decisions, plan, scratch, error);
}

stw_status stw_round_order(const stw_problem *p, const int64_t *start_ps, stw_arena *arena, stw_round *round, stw_error *error) {
    const stw_tasks *tasks = &p->simulator->unfused;
    double *rank;
    STW_TRY_NEW(arena, rank, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) rank[t] = -(double)start_ps[t];
    return stw_board_prepare(p->simulator->costs, tasks, p->list->atom, p->list->atom_count, rank, arena, &round->base, error);
}
