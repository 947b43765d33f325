/* From decisions to a plan.
 *
 * `steer`: four numbers per unit. Three are the knobs of the list scheduler (plan/steer.h): aversion exp(a0), glue within the
 * unit and glue to the plan of the round in units of the mean op, exp(a1) and exp(3 a2), all relative to the constants of the
 * round. The fourth says which plan that is: the other one (moves.h), with much glue, if a3 is large. `device`: the device of
 * the unit. `nudge`: the upward rank of an op plus a share of the largest one. `class`: the class is the priority.
 *
 * Fusion: a nudge is added to the fusion priorities of the round, a class takes their place (0: not merged); groups are made by
 * these priorities on the devices that were decided. */
#ifndef STW_TRAIN_DECODE_H
#define STW_TRAIN_DECODE_H

#include "plan/fuse.h"
#include "plan/plan.h"
#include "policy/policy.h"
#include "train/problem.h"

/* What the decisions of a round are relative to. */
typedef struct stw_round {
    const stw_plan *plan; /* to which the plan glue pulls; NULL: none */
    const int32_t *other; /* (N) devices that units may be pulled to instead; NULL: none */
    stw_board_base base;  /* in the order in which ops are placed */
    bool insertion, channel_gaps;
    stw_home home;
    double offset[STW_STEER_KNOBS]; /* added to the knobs: the constants that were best */
    const double *fusion;           /* (N) fusion priorities; NULL: plans are not fused, groups are left as they are */
} stw_round;

typedef struct stw_decisions { /* of one plan */
    const double *placement;   /* (M, 4) knobs or (M) devices; NULL: the devices of the round's plan */
    const double *schedule;    /* (M) nudges or classes; NULL: by the rule alone */
    bool steered;              /* placement is knobs */
    bool nudged;               /* schedule is nudges */
    const double *fusion;      /* (M) nudges or classes; NULL: the round's priorities as they are */
    bool fusion_nudged;        /* fusion is nudges */
} stw_decisions;

/* How much a knob's exponent changes with a decision of 1. */
extern const double stw_knob_scale[STW_STEER_KNOBS];

/* What groups are made with: one thread at a time. */
typedef struct stw_group_maker {
    stw_fuser *fuser;
    double *priority; /* (N) receives the fusion priorities of the plan */
} stw_group_maker;

/* Fills devices and priorities of all nodes and, where the round has fusion priorities, groups. If neither placement nor schedule
 * is decided but fusion is, priorities are those of the round's plan. maker: NULL where plans are not fused. */
stw_status stw_decode(const stw_problem *problem, const stw_round *round, const stw_decisions *decisions,
                      const stw_group_maker *maker, stw_plan *plan, stw_arena scratch, stw_error *error);

/* The order of the ops in a run of the round's plan: start_ps: (T). */
stw_status stw_round_order(const stw_problem *problem, const int64_t *start_ps, stw_arena *arena, stw_round *round,
                           stw_error *error);

/* Fusion priorities that a round or a search begins with: those of the rule `default` for a plan, so that decisions of 0 mean the
 * rule.
 *
 * priority: (N). `rule`: (N) those that the rule tells (plan/fuse.h), for all ops on one device, or for the plan's devices where
 * these stay. What it merges gets places in (0, 1], the first merge 1; what it could merge at a loss [-1, 0), the dearest -1;
 * both evenly, so that a decision of a given size turns the least certain ones first. A plan (or NULL) that has groups changes
 * the signs: above 0 what is merged in it. What only another device keeps from merging has the place of the rule. */
stw_status stw_fusion_begin(const stw_simulator *simulator, const double *rule, const stw_plan *plan, double *priority,
                            stw_arena scratch, stw_error *error);

#endif
