#include "train/problem.h"

enum { BANDS = 24 };
enum { OPS_PER_UNIT = 32, FEWEST = 128, MOST = 512 }; /* units, where nobody says how many */
static const int32_t sizes[] = {512, 128, 32};        /* of the groups that explore together */
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int32_t unit_of_first_member(const stw_units *fine, const stw_units *coarse, int32_t unit) {
    return coarse->of[fine->member[fine->start[unit]]];
}

/* The groups of a grouping are numbered from 0 without gaps, units that are in none get groups of their own. */
static stw_status group_by_level(stw_problem *p, int32_t index, const stw_units *coarse, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, p->grouping[index], p->M, error);
    p->group_count[index] = coarse == NULL ? p->M : coarse->count;
    for (int32_t u = 0; u < p->M; u++) {
        const int32_t group = coarse == NULL ? u : unit_of_first_member(&p->units, coarse, u);
        p->grouping[index][u] = group >= 0 ? group : 0;
    }
    return STW_OK;
}

static stw_status group_by_bands(stw_problem *p, int32_t index, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, p->grouping[index], p->M, error);
    p->group_count[index] = BANDS;
    for (int32_t u = 0; u < p->M; u++) p->grouping[index][u] = (int32_t)((int64_t)u * BANDS / p->M);
    return STW_OK;
}

/* Levels: atoms, the units that are decided about (if they are not the atoms), and coarser ones for exploring. */
static stw_status build_units(stw_problem *p, int32_t unit_count, stw_arena *arena, stw_error *error) {
    int32_t wanted[SIZES + 1], count = 0;
    stw_unit_levels *levels;
    STW_TRY_NEW(arena, levels, 1, error);
    if (unit_count > 0) wanted[count++] = unit_count;
    for (int32_t k = 0; k < SIZES; k++) {
        if (unit_count == 0 || sizes[k] < unit_count) wanted[count++] = sizes[k];
    }
    TRY(stw_units_build(p->simulator->graph, p->simulator->costs->least_us, wanted, count, arena, levels, error));
    int32_t decided = 0;
    while (unit_count > 0 && decided + 1 < levels->count && levels->level[decided].count > unit_count) decided++;
    p->units = levels->level[decided];
    p->M = p->units.count;
    const stw_units *fine = NULL, *coarse = NULL; /* of about 128 and 32 units */
    for (int32_t k = decided + 1; k < levels->count; k++) {
        if (levels->level[k].count <= 128 && fine == NULL) fine = &levels->level[k];
        if (levels->level[k].count <= 32) coarse = &levels->level[k];
    }
    TRY(group_by_level(p, 0, NULL, arena, error));
    TRY(group_by_level(p, 1, fine, arena, error));
    TRY(group_by_level(p, 2, fine, arena, error));
    TRY(group_by_level(p, 3, coarse, arena, error));
    return group_by_bands(p, 4, arena, error);
}

/* A plan of few ops is decoded in less time than the network takes for many units. */
int32_t stw_problem_units(int32_t ops) {
    return ops < FEWEST * OPS_PER_UNIT ? FEWEST : ops < MOST * OPS_PER_UNIT ? ops / OPS_PER_UNIT : MOST;
}

stw_status stw_problem_build(const stw_simulator *simulator, stw_objective objective, const stw_list *list, int32_t unit_count,
                             stw_arena *arena, stw_problem *out, stw_error *error) {
    *out = (stw_problem){.simulator = simulator, .objective = objective, .list = list, .rule = -1};
    out->places = out->schedules = true;
    TRY(build_units(out, unit_count, arena, error));
    const stw_tasks *tasks = &simulator->unfused;
    STW_TRY_NEW(arena, out->task_unit, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) out->task_unit[t] = out->units.of[tasks->task_node[t]];
    return stw_features_build(simulator->costs, tasks, &out->units, arena, &out->features, error);
}
