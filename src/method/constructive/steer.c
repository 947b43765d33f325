/* `steer`: the list scheduler with three knobs (aversion to communication, glue within a unit, glue to another plan), over a
 * grid of constants. In rounds: around the best plans so far, and around what came of that, each time with another view of
 * order, gaps and homes. */
#include <math.h>
#include <stdio.h>

#include "method/method.h"
#include "method/starts.h"
#include "search/list.h"
#include "sim/op_times.h"

/* Knobs: aversion exp(a0); glue in units of the mean op, exp(a1) and exp(a2). Listed so that the first of the grid are those
 * that were best most often. */
enum { AVERSIONS = 4, UNIT_GLUES = 3, PLAN_GLUES = 5, GRID = AVERSIONS * UNIT_GLUES * PLAN_GLUES };
static const double a0[AVERSIONS] = {-1, 2, 1, 0}, a1[UNIT_GLUES] = {-2, 2, 0}, a2[PLAN_GLUES] = {6, 4, 2, 0, -3};

typedef struct {
    int32_t around; /* an initial plan; -1: the best so far */
    bool as_run;    /* ops in the order in which that plan runs them, else by upward rank */
    bool insertion, channel_gaps;
    stw_home home;
} round_rules;

static const round_rules rounds[] = {
    {0, true, true, false, STW_HOME_FIRST},   {-1, true, true, true, STW_HOME_FIRST},  {-1, false, false, false, STW_HOME_GLUED},
    {1, true, true, false, STW_HOME_FIRST},   {-1, true, true, true, STW_HOME_GLUED},  {2, false, false, false, STW_HOME_FIRST},
    {-1, true, false, false, STW_HOME_GLUED}, {-1, false, true, true, STW_HOME_FIRST}, {-1, true, true, true, STW_HOME_FIRST},
};
enum { ROUNDS = sizeof rounds / sizeof rounds[0], STARTS = 3 };

typedef struct {
    stw_search *search;
    stw_list list;
    const stw_units *units;
    stw_starts starts;
    stw_plan *best;         /* so far */
    const stw_plan *around; /* this round; or NULL: no other plan */
    stw_board_base base;    /* in this round's order */
    round_rules rules;
} steer;

static stw_status fill(double **out, int32_t count, double value, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, *out, count, error);
    for (int32_t k = 0; k < count; k++) (*out)[k] = value;
    return STW_OK;
}

/* Variant 0 is the best placement so far, so that no round loses it. */
static stw_status build(void *context, int32_t variant, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const steer *s = context;
    const stw_search *search = s->search;
    if (variant == 0 && s->best != NULL) return stw_plan_assign(plan, s->best, error);
    const int32_t T = s->base.tasks->T, k = s->best != NULL ? variant - 1 : variant;
    double *aversion = NULL, *unit_glue = NULL, *plan_glue = NULL;
    TRY(fill(&aversion, T, exp(a0[k % AVERSIONS]), &scratch, error));
    TRY(fill(&plan_glue, T, s->list.mean_us * exp(a2[k / AVERSIONS % PLAN_GLUES]), &scratch, error));
    TRY(fill(&unit_glue, T, s->list.mean_us * exp(a1[k / (AVERSIONS * PLAN_GLUES)]), &scratch, error));
    const stw_steer_input input = {.base = &s->base,
                                   .aversion = aversion,
                                   .unit_glue = unit_glue,
                                   .unit = s->units->of,
                                   .unit_count = s->units->count,
                                   .plan_glue = plan_glue,
                                   .glued = s->around == NULL ? NULL : s->around->device,
                                   .home = s->around == NULL ? STW_HOME_FIRST : s->rules.home,
                                   .allowed = s->list.linked,
                                   .outlook = true,
                                   .insertion = s->rules.insertion,
                                   .queues = search->simulator->machine->queues,
                                   .channel_gaps = s->rules.channel_gaps,
                                   .memory = s->list.memory,
                                   .stop = stw_search_stop(search, variant)};
    return stw_steer(&input, plan->device, NULL, scratch, error);
}

/* The order of this round. As the other plan runs it: a run of the simulator tells. */
static stw_status prepare_order(steer *s, stw_arena *arena, stw_error *error) {
    stw_search *search = s->search;
    const stw_simulator *simulator = search->simulator;
    s->base = s->list.base;
    if (!s->rules.as_run || s->around == NULL || stw_search_evaluations_left(search) < 4) return STW_OK;
    stw_score score = {0};
    TRY(stw_search_evaluate(search, s->around, 0, &score, error));
    if (score.reason != STW_VALID && score.reason != STW_INVALID_MEMORY) return STW_OK;
    const int32_t T = simulator->unfused.T;
    double *rank;
    int64_t *start_ps, *end_ps;
    int32_t *task;
    STW_TRY_NEW(arena, rank, T, error);
    STW_TRY_NEW(arena, start_ps, T, error);
    STW_TRY_NEW(arena, end_ps, T, error);
    STW_TRY_NEW(arena, task, T, error);
    TRY(stw_op_times(search->workspace[0], start_ps, end_ps, task, *arena, error));
    for (int32_t t = 0; t < T; t++) rank[t] = -(double)start_ps[t];
    return stw_board_prepare(simulator->costs, &simulator->unfused, s->list.atom, s->list.atom_count, rank, arena, &s->base,
                             error);
}

static stw_status run_round(steer *s, stw_plan *plan, stw_arena arena, int32_t *best, stw_error *error) {
    TRY(prepare_order(s, &arena, error));
    const stw_variants variants = {
        .count = GRID + (s->best != NULL), .build = build, .context = s, .own_rule = STW_RULE_UPWARD_RANK};
    return stw_search_variants(s->search, &variants, plan, best, error);
}

static void write_note(const steer *s, int32_t variant) {
    const stw_str name = s->rules.around < 0 || s->around == NULL ? stw_str_of("the best so far") : s->around->method;
    const int32_t k = s->best != NULL ? variant - 1 : variant;
    if (k < 0) return; /* nothing new */
    snprintf(s->search->outcome.note, sizeof s->search->outcome.note,
             "from %.*s: transfers count %.3g times; to stay together an op may end %.2g, to stay where it was %.2g mean op "
             "times later",
             STW_STR_SHOW(name), exp(a0[k % AVERSIONS]), exp(a1[k / (AVERSIONS * PLAN_GLUES)]),
             exp(a2[k / AVERSIONS % PLAN_GLUES]));
}

/* Leaves the best in `plan`. s->best: a plan for use here, a copy since rounds write to `plan`. */
static stw_status run_rounds(steer *s, stw_plan *plan, stw_plan *kept, stw_arena arena, stw_error *error) {
    const int32_t starts = s->starts.count < STARTS ? s->starts.count : STARTS;
    s->best = starts > 0 ? kept : NULL;
    if (s->best != NULL) {
        TRY(stw_plan_assign(kept, s->starts.plan[0], error));
        snprintf(s->search->outcome.note, sizeof s->search->outcome.note, "nothing better than the plan of %.*s",
                 STW_STR_SHOW(s->starts.plan[0]->method));
    }
    for (int32_t r = 0; r < ROUNDS; r++) {
        int32_t best = 0;
        s->rules = rounds[r];
        if (r > 0 && stw_search_is_over(s->search)) break;
        if (r > 0 && s->rules.around >= starts) continue;
        s->around = s->rules.around < 0 ? s->best : starts > 0 ? s->starts.plan[s->rules.around] : NULL;
        TRY(run_round(s, plan, arena, &best, error));
        write_note(s, best);
        s->best = kept;
        TRY(stw_plan_assign(kept, plan, error));
    }
    return STW_OK;
}

static stw_status prepare_units(steer *s, stw_arena *arena, stw_unit_levels *levels, stw_error *error) {
    const int32_t wanted = s->search->unit_count;
    TRY(stw_units_build(s->search->simulator->graph, s->search->simulator->costs->least_us, &wanted, wanted > 0 ? 1 : 0, arena,
                        levels, error));
    s->units = &levels->level[levels->count - 1];
    return STW_OK;
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    static const stw_method *const beginnings[] = {&stw_method_expert, &stw_method_etf, &stw_method_heft};
    stw_arena arena = search->arena;
    stw_unit_levels *levels;
    steer *s;
    STW_TRY_NEW(&arena, s, 1, error);
    STW_TRY_NEW(&arena, levels, 1, error);
    s->search = search;
    TRY(stw_list_prepare(search, &arena, &s->list, error));
    TRY(prepare_units(s, &arena, levels, error));
    const stw_arena before = search->arena;
    search->arena = arena; /* what runs within this method must not overwrite it */
    const stw_status found = stw_starts_open(search, beginnings, 3, 0.5, &s->starts, error);
    search->arena = before;
    TRY(found);
    stw_plan *kept = NULL;
    stw_status status = stw_plan_create(search->simulator->graph, search->simulator->machine, &kept, error);
    if (status == STW_OK) status = run_rounds(s, plan, kept, arena, error);
    stw_plan_destroy(kept);
    stw_starts_close(&s->starts);
    return status;
}

const stw_method stw_method_steer = {
    .name = "steer",
    .description = "a steered list scheduler over a grid of constants, around the best plans so far",
    .kind = STW_METHOD_CONSTRUCTIVE,
    .traits = STW_METHOD_PLACES | STW_METHOD_STEERS,
    .pair_s = 1e-7,
    .run = run};
