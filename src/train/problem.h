/* One graph on one machine as the policy meets it: units that are decided about, their features, and what the decoder needs.
 * Immutable while training runs; shared by threads. */
#ifndef STW_TRAIN_PROBLEM_H
#define STW_TRAIN_PROBLEM_H

#include "feature/feature.h"
#include "plan/steer.h"
#include "sim/score.h"

enum { STW_GROUPINGS = 5 }; /* ways in which units explore together */

/* What the list schedulers of this problem go by; the caller has it (search/list.h). */
typedef struct stw_listing {
    const stw_board_base *base; /* in the order of the upward rank with mean costs */
    const int32_t *atom;        /* (N) */
    int32_t atom_count;
    double mean_us;   /* work / ops: the unit of glue */
    bool memory;      /* some device could overflow */
    uint64_t allowed; /* devices, a bit each; 0: all */
} stw_listing;

typedef struct stw_problem {
    const stw_simulator *simulator;
    stw_objective objective;
    stw_listing listing;
    int32_t rule;           /* stw_rule of a new placement; -1: upward rank, which the policy may nudge */
    bool places, schedules; /* what is to be decided */
    bool fuses;             /* false: every op is alone */
    bool polishes;          /* the best plan's priorities are improved even where the policy does not decide the schedule */
    int32_t M;
    stw_units units; /* M decisions */
    stw_features features;
    int32_t *task_unit;               /* (T) */
    int32_t *grouping[STW_GROUPINGS]; /* (M) the group of each unit: itself, fine, fine, coarse units, bands of the order */
    int32_t group_count[STW_GROUPINGS];
} stw_problem;

/* How many units suit a graph of so many ops. */
int32_t stw_problem_units(int32_t ops);

/* unit_count 0: one decision per op. Everything lives in the arena. */
stw_status stw_problem_build(const stw_simulator *simulator, stw_objective objective, const stw_listing *listing,
                             int32_t unit_count, stw_arena *arena, stw_problem *out, stw_error *error);

#endif
