/* Annealing: chains that each change a plan a little and keep the change if it does not make the plan much worse.
 *
 * anneal.c        what all chains share, and how many there are
 * chain.c         one chain: how it begins, when it accepts
 * meet.c          who runs which chain for how long; when chains meet; when they end
 * anneal_moves.c  changes of the placement, of the priorities, of what is fused
 * propose.c       of some changes of the placement the one that promises most, by features of moves and what was learnt of them:
 *                 sight.c, move_features.c, scorer.c
 * learn.c         the scorer learns on from what the chains try
 * strict.c        strict orders, where plans fit in no other way
 * affinity.c      units of ops that exchange much */
#ifndef STW_METHOD_ANNEAL_ANNEAL_H
#define STW_METHOD_ANNEAL_ANNEAL_H

#include "method/anneal/learn.h"
#include "method/anneal/proposals.h"
#include "method/anneal/sight.h"
#include "method/method.h"
#include "plan/steer.h"
#include "sim/sequence.h"

enum { STW_ANNEAL_LOOK_EVERY = 48 }; /* evaluations between looks at a chain's plan */

typedef enum stw_move {
    STW_MOVE_UNIT,     /* a unit of some level goes to another device */
    STW_MOVE_BLOB,     /* so do connected ops of one device */
    STW_MOVE_WINDOW,   /* so does what a device runs in an interval of time; or two devices exchange it */
    STW_MOVE_STEER,    /* a region is placed anew by the steered list scheduler */
    STW_MOVE_NUDGE,    /* a unit runs earlier or later */
    STW_MOVE_RANK,     /* all priorities by upward rank of the plan as it is */
    STW_MOVE_BACKWARD, /* all priorities by a run backwards */
    STW_MOVE_FUSE,     /* some ops are merged into their readers, or no longer */
    STW_MOVE_CROSS,    /* a region goes where another chain has it, or all priorities are as there */
    STW_MOVE_COUNT
} stw_move;

/* Trials of a chain between two meetings; with so few evaluations as searches that learn have, there are no more. */
enum { STW_ANNEAL_TRIALS = 256 };
enum { STW_ANNEAL_CHAINS = 8 }; /* by evaluations; by time at least as many (stw_anneal_chains) */

typedef struct stw_chain stw_chain;

typedef struct stw_annealing { /* shared by the chains, immutable while they run */
    stw_search *search;
    stw_chain *chain; /* (count) each is changed by the thread that runs it */
    int32_t count;
    stw_budget budget;             /* of the chains: what is left of the search's when they begin */
    stw_unit_levels units;         /* level 0: atoms */
    stw_unit_levels affinity;      /* level 0: the same atoms */
    stw_board_base board;          /* for the list scheduler */
    double weight[STW_MOVE_COUNT]; /* chance of each kind; they add up to 1 */
    double affinity_share;         /* of the moves of units */
    double largest_rank;           /* the scale of priorities */
    double mean_us;                /* of an op */
    const double *rule;            /* (N) fusion priorities of the rule; NULL: nothing is fused */
    stw_sequences *sequences;      /* what must run before what; for chains with strict orders */
    stw_proposals proposals;       /* none: nothing is proposed, and nobody is told of what is tried */
    stw_learner *learner;          /* changes where all chains meet; NULL: the scorer stays as it is */
} stw_annealing;

typedef struct stw_tally { /* [0] of moves drawn blindly, [1] of proposed ones */
    double tries[2];
    double gain[2]; /* what they improved the plan by, as shares of it */
} stw_tally;

typedef struct stw_verdict { /* of all chains, on proposals */
    stw_tally tally;
    double pause; /* above 0: they did not pay, and are left out for so many rounds */
} stw_verdict;

struct stw_chain { /* N nodes, T tasks */
    stw_rng rng;
    stw_plan *plan, *best;
    stw_score score, best_score;
    bool strict;      /* its plan has strict orders, by the priorities: without them it would not fit */
    bool best_strict; /* so has `best`, unless it is the plan that the chain began with */
    double heat;      /* how much worse a plan may become at the beginning, as a share */
    double progress;  /* of the budget, from 0 to 1; changes between turns only */

    /* The change under trial, so that it can be taken back. */
    int32_t moved_count;
    int32_t *moved, *old_device; /* (N) */
    bool priorities_changed;
    double *old_priority; /* (N) */
    bool fusion_changed;
    double *fusion, *old_fusion, *best_fusion; /* (N) fusion priorities, also of `best`; NULL: nothing is fused */
    int32_t *old_group;                        /* (N) */

    /* What the last look at the plan showed. */
    int32_t critical_count;
    int32_t *critical; /* (T) tasks on the critical path */
    int64_t *start_ps; /* (T) */
    int32_t *order;    /* (T) tasks as they began */
    int64_t step_ps;
    int32_t since_look; /* evaluations that may have changed the plan since */

    /* Proposals. */
    stw_sight *sight; /* of the plan as it is, while it proposes; NULL: nothing is ever proposed */
    bool proposes;
    bool has_shape, proposed; /* the change under trial: a move that can be proposed; it was */
    float *feature;           /* (STW_MOVE_FEATURES) of it, where somebody is told of them */
    stw_tally tally;          /* since the last meeting */
    stw_trial *trial;         /* (STW_ANNEAL_TRIALS) since then; NULL: nothing is learnt */
    int32_t trial_count;

    /* What another chain had come to when this one met it last. */
    int32_t *other_device;  /* (N) */
    double *other_priority; /* (N) */
    int32_t differ_count;
    int32_t *differ; /* (N) atoms that were elsewhere there, by a node of each */

    /* Scratch of the moves. */
    int32_t *mark, marked;        /* (N) visited by this move: mark[i] == marked */
    int32_t *queue;               /* (N) */
    double *plan_glue, *aversion; /* (T) */
    int32_t *steered;             /* (N) */

    stw_error *error; /* where what fails in it says why, while it runs */

    char apart[128]; /* no cache line is written by the threads of two chains */
};

/* ---- chain.c ---- */

/* A chain with its memory, from a plan that another chain may have begun with already (`like`, or NULL). */
stw_status stw_chain_begin(const stw_annealing *a, stw_chain *chain, int32_t index, const stw_plan *start, const stw_chain *like,
                           stw_arena *arena, stw_error *error);
/* One evaluation: of a change, or of the plan as it is to look at it. */
stw_status stw_chain_step(const stw_annealing *a, stw_chain *chain, int32_t worker);
/* What a chain can go on from; fusion: (N), or NULL where nothing is fused. */
typedef struct stw_lead {
    const stw_plan *plan;
    const double *fusion;
    bool strict; /* the plan's orders, if it has any, are those of its priorities */
    stw_score score;
} stw_lead;

/* Goes on from this plan, unless it has orders that do not come from its priorities: every change would lose them. */
stw_status stw_chain_follow(stw_chain *chain, const stw_lead *lead, stw_error *error);
/* From its next step on. */
void stw_chain_may_propose(stw_chain *chain, bool proposes);
bool stw_anneal_may_fuse(const stw_search *search);

/* ---- meet.c ---- */

/* The budget is one of time: then chains take turns, and what comes out need not repeat. */
bool stw_anneal_is_timed(const stw_search *search);
/* How many chains there are: of a budget of evaluations always as many, of time a multiple of the threads. */
int32_t stw_anneal_chains(const stw_search *search);
/* Runs the chains until the budget ends, and tells of plans that are better than `known`. */
stw_status stw_anneal_run(stw_annealing *a, stw_score known, stw_arena arena, stw_error *error);
int32_t stw_anneal_best_chain(const stw_annealing *a);

/* ---- anneal_moves.c ---- */

/* Makes one change of the plan, with the groups that follow from it. It may come to nothing. */
stw_status stw_anneal_change(const stw_annealing *a, stw_chain *chain, int32_t worker, bool *changed);
void stw_anneal_take_back(stw_chain *chain);
/* The parts of a change: its kind; devices, priorities and fusion priorities; what goes with them. What has been drawn and not
 * completed, of a kind that only moves, can be moved back. */
stw_move stw_anneal_choose(const stw_annealing *a, stw_chain *chain);
stw_status stw_anneal_draw(const stw_annealing *a, stw_chain *chain, stw_move kind, int32_t worker);
stw_status stw_anneal_complete(const stw_annealing *a, stw_chain *chain, int32_t worker, bool *changed);
void stw_anneal_move_back(stw_chain *chain);
/* Finds out what differs between the chain's plan and that of the other. */
void stw_anneal_compare(const stw_annealing *a, stw_chain *chain);
/* The groups of the chain's plan, from its fusion priorities. */
void stw_anneal_regroup(const stw_annealing *a, stw_chain *chain, int32_t worker);

/* ---- propose.c ---- */

/* As stw_anneal_change, of a chain that knows its last run; moves of the placement are the best of several, but for a share. */
stw_status stw_anneal_propose(const stw_annealing *a, stw_chain *chain, int32_t worker, bool *changed);
/* What its trial came to, before it is accepted or not. */
void stw_anneal_tell(const stw_annealing *a, stw_chain *chain, const stw_score *score);
/* Where all chains have met: what they have tried is learnt from. */
void stw_anneal_learn(const stw_annealing *a);
/* Adds to the verdict what is new, which is emptied, and tells whether chains should propose now. share: of all chains, those
 * that the new is of. cost: what a proposed try takes over a blind one; proposals pay where they gain as much for it. */
bool stw_anneal_pays(stw_verdict *verdict, stw_tally *new, double share, double cost);

/* ---- strict.c ---- */

stw_status stw_anneal_prepare_orders(stw_annealing *a, stw_arena *arena, stw_error *error);
/* Strict orders of the chain's plan, by its priorities, if it is to have some and has no groups. */
stw_status stw_anneal_order(const stw_annealing *a, stw_chain *chain, int32_t worker);

#endif
