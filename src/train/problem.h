/* One graph on one machine as the policy meets it: units that are decided about, their features, and what the decoder needs.
 * Immutable while training runs; shared by threads. */
#ifndef STW_TRAIN_PROBLEM_H
#define STW_TRAIN_PROBLEM_H

#include "feature/feature.h"
#include "search/list.h"

enum { STW_GROUPINGS = 5 }; /* ways in which units explore together */

typedef struct stw_problem {
    const stw_simulator *simulator;
    stw_objective objective;
    const stw_list *list;   /* borrowed */
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
stw_status stw_problem_build(const stw_simulator *simulator, stw_objective objective, const stw_list *list, int32_t unit_count,
                             stw_arena *arena, stw_problem *out, stw_error *error);

#endif
