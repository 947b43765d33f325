/* What a method works with: the problem, its share of the budget, threads, initial plans. And what most of them do with it:
 * build some variants of a plan and keep the best.
 *
 * The same seed and the same number of evaluations give the same plan from any number of threads: what is computed for a
 * variant or a chain depends on its index alone, and indices are judged in their order. */
#ifndef STW_SEARCH_SEARCH_H
#define STW_SEARCH_SEARCH_H

#include <stdatomic.h>

#include "base/cancel.h"
#include "base/pool.h"
#include "base/rng.h"
#include "graph/units.h"
#include "plan/plan.h"
#include "plan/rules.h"
#include "search/budget.h"
#include "sim/score.h"

/* How the methods go-* and hdp train. What is unset is as the preset says. */
typedef struct stw_policy_settings {
    char preset[16];       /* of the network and of the training; empty: "default" */
    int64_t updates;       /* 0: as long as the budget lasts */
    double learning_rate;  /* negative: unset */
    double scorer_rate;    /* of the scorer of anneal's moves, as it learns on; 0: it does not; negative: unset */
    int32_t reward;        /* stw_reward, or -1: unset */
    int32_t glue;          /* decisions are relative to plans that others made: 0, 1, or -1: unset */
    int32_t unit_count;    /* 0: one per op; -1: by the size of the graph */
    int32_t group_count;   /* of hdp; 0: unset */
    int32_t warm_start;    /* 0, 1, or -1: unset */
    int32_t device_names;  /* like devices have names, where the policy chooses devices: 0, 1, or -1: unset */
    int32_t decodes;       /* plans that go-zero makes; 0: unset */
    bool shuffled;         /* go-zero sees the features of other units, anneal those of other moves: a control */
    bool no_policy;        /* the pre-trained policy is not to be used */
    bool trains;           /* optimize trains one on this graph alone in its place */
    const char *policy;    /* file of the pre-trained policy; NULL: the one that comes with the library */
    bool no_proposals;     /* anneal is to draw its moves blindly */
    const char *proposals; /* file of the scorer that it goes by; NULL: the one that comes with the library */
    const char *file;      /* the policy and the state of its training are written here; NULL: nowhere */
    bool resume;           /* from that file */
} stw_policy_settings;

typedef struct stw_outcome { /* what a method says of its plan */
    bool repaired;           /* it did not fit at first */
    bool proved;             /* no plan is better; of a method that makes none: no plan is valid */
    int32_t variant;         /* the best one of stw_search_variants */
    char note[224];          /* how it was found, for people; or empty */
} stw_outcome;

typedef struct stw_fusing stw_fusing;       /* fusing.h */
typedef struct stw_proposals stw_proposals; /* method/anneal/proposals.h */

typedef struct stw_search {
    const stw_simulator *simulator;
    stw_objective objective;
    unsigned tasks; /* STW_TASK_...; a method leaves alone what it may not decide */
    int32_t rule;   /* stw_rule for the priorities of a new placement, or -1: the method's own choice */
    uint64_t seed;
    int32_t unit_count; /* how many units the coarse decisions go by; 0: one per op */
    stw_budget budget;
    int32_t first_variant; /* that stw_search_variants tries before the others, which follow in order */
    bool repairs_later;    /* its plans will get other groups, which hold other amounts: whoever runs it repairs them then */
    double bound; /* no plan has a smaller value, whatever the method: where it is met, the search is over; 0: not known */
    stw_pool *pool;
    struct stw_metis_copies *metis_copies; /* for its threads; or NULL */
    stw_workspace *const *workspace;       /* (threads) */
    const stw_arena *scratch;              /* (threads) a worker works on a copy of its own */
    stw_arena arena;                       /* for the thread that runs the method, on a copy */
    const stw_plan *const *start;          /* initial plans, best first; may be none */
    int32_t start_count;
    const stw_plan *given;             /* what is not among the tasks stays as it is there; NULL: as the default has it */
    stw_fusing *given_groups;          /* placed as one, when they must stay and the placement need not; else NULL */
    const atomic_bool *cancelled;      /* or NULL */
    const stw_clock *clock;            /* NULL: the computer's */
    const stw_policy_settings *policy; /* or NULL: all unset */
    const stw_proposals *proposals;    /* what anneal goes by, whatever the settings say; NULL: they say it */
    stw_fusing *fusing;                /* when fusion is among the tasks; else NULL, and nothing is fused */

    /* What the method reports. The counter is written by every thread, all the time: no cache line that is only read has it. */
    char before[64];
    atomic_llong evaluations; /* simulations so far */
    char behind[64];
    atomic_bool met; /* one of them met the bound */
    stw_outcome outcome;

    /* Called by the thread that runs the method, with each better plan and now and then; may be NULL. */
    void (*found)(void *context, const stw_plan *plan, const stw_score *score);
    void (*tick)(void *context);
    void (*curve)(void *context, const stw_curve_row *row);
    void *watch_context;
} stw_search;

/* A search within another, for a method that runs as a part of it. The problem, what is given, settings, threads, memory and
 * watchers are the outer's. Its own are the budget, the initial plans (none yet), the curve (shown to nobody) and what it
 * reports: its evaluations begin at 0. */
stw_search stw_search_within(const stw_search *outer, stw_budget budget);
/* The same with groups as ops: `simulator` and `workspace` (threads) are those of a stw_fused. It goes on with the outer's budget
 * and evaluations. Nothing is fused, nothing is given, and nobody hears of its plans, which are not plans of the outer's graph.
 */
stw_search stw_search_on_groups(const stw_search *outer, const stw_simulator *simulator, stw_workspace *const *workspace);

/* True when the method should come to its end: time is up, evaluations are spent, the bound is met, or somebody cancelled. To be
 * asked between what threads do side by side, not within it. */
bool stw_search_is_over(const stw_search *search);
/* The part of it that depends on the clock or on other people: time is up, or somebody cancelled. A run that only counts
 * evaluations is never ended by it of itself, so asking changes no result. */
bool stw_search_is_stopped(const stw_search *search);
/* When a pass that builds this variant gives up. */
stw_stop stw_search_stop(const stw_search *search, int32_t variant);
double stw_search_now_s(const stw_search *search);
/* Its clock and its count, for shares of the budget. */
stw_moment stw_search_moment(const stw_search *search);
/* Nothing is better than a plan of this worth. */
bool stw_search_meets_bound(const stw_search *search, const stw_score *score);
/* Evaluations that are left: none once the bound is met; INT64_MAX without such a limit. To be asked as is_over is. */
int64_t stw_search_evaluations_left(const stw_search *search);

/* To be called a few times per second. */
void stw_search_tick(const stw_search *search);
/* To be called with each better plan. */
void stw_search_tell(const stw_search *search, const stw_plan *plan, const stw_score *score);

/* One evaluation. The timeline is in the worker's workspace until its next run. */
stw_status stw_search_evaluate(stw_search *search, const stw_plan *plan, int32_t worker, stw_score *out, stw_error *error);
/* The same, given up as soon as the step is longer than `limit_s`: then the plan counts as invalid (overflow). */
stw_status stw_search_evaluate_within(stw_search *search, const stw_plan *plan, double limit_s, int32_t worker, stw_score *out,
                                      stw_error *error);
/* Fills devices of all nodes (and, if `sets_priority` is set, priorities) of variant k. `scratch` is the variant's own. Must
 * depend on `variant` alone, since any thread may call it. STW_ERROR_CANCELLED: it was given up, see stw_search_stop. */
typedef stw_status stw_build_variant(void *context, int32_t variant, stw_plan *plan, stw_arena scratch, stw_error *error);

typedef struct stw_variants {
    int32_t count;
    stw_build_variant *build;
    void *context;
    stw_rule own_rule;  /* when the search leaves the rule to the method */
    bool sets_priority; /* build fills in priorities itself (kept unless the search names a rule) */
} stw_variants;

/* Builds the variants on all threads, completes each (colocation, parameters, priorities), evaluates it, repairs the best if it
 * lacks memory, and leaves the best in `plan`. `*best` (optional) is its index. At least one variant is built whatever the
 * budget says, unless it `gives_up`. */
stw_status stw_search_variants(stw_search *search, const stw_variants *variants, stw_plan *plan, int32_t *best, stw_error *error);

/* repair.c: moves what costs least off devices whose memory does not suffice, until the plan is valid or nothing helps.
 * `*score` is the plan's on entry and on return. A search that `repairs_later` leaves the plan as it is. */
stw_status stw_search_repair(stw_search *search, stw_plan *plan, stw_score *score, int32_t worker, stw_error *error);

/* tidy.c: a plan that is as good as can be, with fewer transfers where nothing is lost by that. */
stw_status stw_search_tidy(stw_search *search, stw_plan *plan, stw_error *error);

#endif
