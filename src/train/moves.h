/* Moves: groups of units that go to another device together, as a round proposes them. The network sees what each would mean
 * (feature/pair.c) and says how promising it is; that is learnt from moves that were tried, one by one, as a yes or no. A
 * plan is made of the round's plan by moving; nothing else in it changes. */
#ifndef STW_TRAIN_MOVES_H
#define STW_TRAIN_MOVES_H

#include "base/rng.h"
#include "plan/plan.h"
#include "train/problem.h"

/* Another plan beside that of the round, drawn anew for each: regions of units on other devices. Knobs alone cannot name a
 * device; a unit that takes this plan's can go anywhere, and the policy learns which regions gain by it.
 *
 * device: (N). *grouping: that was drawn. A grouping is drawn, then a device for each of its groups: any, or that of a neighbour
 * of one of its units. Where none is drawn, the device is that of `plan`. */
stw_status stw_propose(const stw_problem *problem, const stw_plan *plan, stw_rng rng, int32_t *device, int32_t *grouping,
                       stw_arena scratch, stw_error *error);

typedef struct stw_moves {
    int32_t count;
    int32_t *start;  /* (count + 1) into unit */
    int32_t *unit;   /* (.) */
    int32_t *device; /* (count) where the group goes */
} stw_moves;

/* The groups of grouping `grouping` that `other`, (N), has elsewhere than the plan. */
stw_status stw_moves_find(const stw_problem *problem, const stw_plan *plan, const int32_t *other, int32_t grouping,
                          stw_arena *arena, stw_moves *out, stw_error *error);
/* Moves one group. */
void stw_moves_apply(const stw_problem *problem, const stw_moves *moves, int32_t move, stw_plan *plan);

/* The knob that says how promising it is that a unit moves. */
enum { STW_MOVE_KNOB = 3 };
/* Mean of the knob over the units of a move. means: (M, width). */
double stw_moves_score(const stw_moves *moves, int32_t move, const double *means, int32_t width);

#endif
