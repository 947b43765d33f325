#include "train/proposal.h"

enum { TRIES = 8 };

static int32_t device_of(const stw_problem *p, const stw_plan *plan, int32_t unit) {
    return plan->device[p->units.member[p->units.start[unit]]];
}

/* The device of a producer or reader of the unit that is not its own; its own if none is found. */
static int32_t across_the_border(const stw_problem *p, const stw_plan *plan, int32_t unit, stw_rng *rng) {
    const stw_features *f = &p->features;
    const int32_t own = device_of(p, plan, unit);
    const int32_t *producer = &f->producer[f->producer_start[unit]], *reader = &f->reader[f->reader_start[unit]];
    const int32_t producers = f->producer_start[unit + 1] - f->producer_start[unit];
    const int32_t readers = f->reader_start[unit + 1] - f->reader_start[unit];
    for (int32_t tries = 0; tries < TRIES && producers + readers > 0; tries++) {
        const int32_t k = (int32_t)stw_rng_below(rng, producers + readers);
        const int32_t device = device_of(p, plan, k < producers ? producer[k] : reader[k - producers]);
        if (device != own) return device;
    }
    return own;
}

/* Each group goes where one of its units that are at a border borders on, all of them being as likely. */
static stw_status draw_neighbours(const stw_problem *p, const stw_plan *plan, int32_t grouping, stw_rng *rng, int32_t *of_group,
                                  stw_arena scratch, stw_error *error) {
    int32_t *seen;
    STW_TRY_NEW(&scratch, seen, p->group_count[grouping], error);
    for (int32_t u = 0; u < p->M; u++) {
        const int32_t group = p->grouping[grouping][u], device = across_the_border(p, plan, u, rng);
        if (device != device_of(p, plan, u) && stw_rng_below(rng, ++seen[group]) == 0) of_group[group] = device;
    }
    return STW_OK;
}

stw_status stw_propose(const stw_problem *p, const stw_plan *plan, stw_rng rng, int32_t *device, int32_t *drawn_grouping,
                       stw_arena scratch, stw_error *error) {
    const int32_t grouping = (int32_t)stw_rng_below(&rng, STW_GROUPINGS), groups = p->group_count[grouping];
    const int32_t N = plan->graph->N, D = plan->machine->device_count;
    const bool anywhere = stw_rng_below(&rng, 2) == 1;
    *drawn_grouping = grouping;
    int32_t *of_group; /* -1: stays */
    STW_TRY_NEW(&scratch, of_group, groups, error);
    for (int32_t k = 0; k < groups; k++) of_group[k] = anywhere ? (int32_t)stw_rng_below(&rng, D) : -1;
    if (!anywhere) TRY(draw_neighbours(p, plan, grouping, &rng, of_group, scratch, error));
    for (int32_t i = 0; i < N; i++) {
        const int32_t unit = p->units.of[i], drawn = unit < 0 ? -1 : of_group[p->grouping[grouping][unit]];
        const bool may = drawn >= 0 && (p->listing.allowed == 0 || (p->listing.allowed >> drawn & 1) != 0);
        device[i] = may ? drawn : plan->device[i];
    }
    return STW_OK;
}
