#include "train/moves.h"

/* A group goes where its first unit that moves goes; units that are there already come along. */
stw_status stw_moves_find(const stw_problem *p, const stw_plan *plan, const int32_t *other, int32_t grouping, stw_arena *arena,
                          stw_moves *out, stw_error *error) {
    const int32_t groups = p->group_count[grouping], *group = p->grouping[grouping];
    int32_t *target, *size, *place;
    STW_TRY_NEW(arena, target, groups, error);
    STW_TRY_NEW(arena, size, groups, error);
    STW_TRY_NEW(arena, place, groups, error);
    for (int32_t g = 0; g < groups; g++) target[g] = place[g] = -1;
    for (int32_t u = 0; u < p->M; u++) {
        const int32_t member = p->units.member[p->units.start[u]];
        size[group[u]]++;
        if (other[member] != plan->device[member] && target[group[u]] < 0) target[group[u]] = other[member];
    }
    *out = (stw_moves){0};
    STW_TRY_NEW(arena, out->start, groups + 1, error);
    STW_TRY_NEW(arena, out->device, groups, error);
    STW_TRY_NEW(arena, out->unit, p->M, error);
    for (int32_t g = 0; g < groups; g++) {
        if (target[g] < 0) continue;
        place[g] = out->start[out->count];
        out->device[out->count] = target[g];
        out->start[out->count + 1] = out->start[out->count] + size[g];
        out->count++;
    }
    for (int32_t u = 0; u < p->M; u++)
        if (place[group[u]] >= 0) out->unit[place[group[u]]++] = u;
    return STW_OK;
}

void stw_moves_put(const stw_problem *p, const int32_t *unit, int32_t count, int32_t device, stw_plan *plan) {
    for (int32_t k = 0; k < count; k++) {
        for (int32_t m = p->units.start[unit[k]]; m < p->units.start[unit[k] + 1]; m++) plan->device[p->units.member[m]] = device;
    }
}

void stw_moves_apply(const stw_problem *p, const stw_moves *moves, int32_t move, stw_plan *plan) {
    const int32_t first = moves->start[move];
    stw_moves_put(p, &moves->unit[first], moves->start[move + 1] - first, moves->device[move], plan);
}

double stw_moves_score(const stw_moves *moves, int32_t move, const double *means, int32_t width) {
    double sum = 0.0;
    for (int32_t k = moves->start[move]; k < moves->start[move + 1]; k++)
        sum += means[(int64_t)moves->unit[k] * width + STW_MOVE_KNOB];
    return sum / (moves->start[move + 1] - moves->start[move]);
}
