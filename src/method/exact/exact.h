/* `exact`: the best plan of a small graph, and the proof that there is none better.
 *
 * exact.c   the method: budget, the best plan so far, branching over placements; devices that may be exchanged
 * activities.c  a placement, whole or partial, as activities with precedence; what no completion of it can beat
 * apart.c   what is known of times while devices are open
 * orders.c  branching over orders, for one placement; a schedule as a plan: which priorities give it, if any do
 * fusion.c  merges of a chain, where fusion is among the tasks
 *
 * A run of the simulator is decided by the placement, by the order of the tasks on each device and by the order in which each
 * channel carries its transfers: everything begins as early as these allow. Every plan's run has such orders, so searching all
 * of them finds the best plan; and free priorities give nothing that strict orders do not. Not every order of transfers has
 * priorities that give it, since a channel never idles while something waits and a producer has one priority for all channels:
 * orders.c finds them or says that there are none, and the simulator has the last word on every plan. */
#ifndef STW_METHOD_EXACT_EXACT_H
#define STW_METHOD_EXACT_EXACT_H

#include "method/method.h"
#include "plan/plan.h"

enum {
    STW_EXACT_MAX_OPS = 40,
    STW_EXACT_MAX_VALUES = 240,
    STW_EXACT_MAX_READS = 240,
    STW_EXACT_NODES_PER_EVALUATION = 100 /* this many search nodes count as one evaluation of the budget */
};

#define STW_EXACT_LIMIT_PS STW_MAX_STEP_PS
/* Sums of times that stay within the limit. */
static inline int64_t stw_exact_add(int64_t a, int64_t b) { return a > STW_EXACT_LIMIT_PS - b ? STW_EXACT_LIMIT_PS : a + b; }

/* A task that reads what another makes. */
typedef struct stw_exact_edge {
    int32_t from, to;
    int64_t ps; /* what a transfer of that takes at least */
} stw_exact_edge;

/* T tasks (ops), V values, D devices, N nodes. */
typedef struct stw_exact {
    stw_search *search;
    const stw_simulator *s;
    const stw_tasks *tasks; /* every op a task of its own */
    int32_t *task_order;    /* (T) predecessors first */
    bool roomy;             /* no device can run out of memory, whatever the plan */
    int64_t grain_ps;       /* every step is a multiple of it */
    int32_t edge_count;
    stw_exact_edge *edge, *in;     /* (edge_count) by producer, by reader */
    int32_t *out_start, *in_start; /* (T + 1) into them */

    int32_t *device;     /* (N) of ops, parameters and buffers; -1: open */
    int32_t atom_count;  /* what must be together, in the order of branching */
    int32_t *atom_start; /* (atom_count + 1) into atom_member */
    int32_t *atom_member;
    int32_t alike[STW_MAX_DEVICES]; /* (D) the first device that this one may be exchanged with */

    stw_plan *best;  /* the best plan so far */
    stw_plan *trial; /* the one at hand */
    stw_plan *bred;  /* what `breed` has found, or NULL */
    stw_score score; /* of `best` */
    bool has_best;
    int64_t beat_ps; /* a plan is of use if its step is below: by a grain less than that of `best`, if that is valid */
    int64_t nodes;
    double done;      /* the share of the placements that is done with, each choice of a device taken as the same part of them */
    stw_moment began; /* with branching */
    bool over;        /* the budget ended before the search did, or it `gave_up`: nothing is proved */
    bool gave_up;
} stw_exact;

/* Something that takes time: a task, or the transfer of a value to a device. */
typedef struct stw_activity {
    int64_t ps;        /* the least over devices, where the device is open */
    int32_t resource;  /* carries one activity at a time: a device d, or D + a channel; -1: open, or nothing waits for it */
    int32_t value, to; /* of a transfer; -1 for tasks */
} stw_activity;

/* Memory that is held on a device from the start of an activity to the end of the last of some others. */
typedef struct stw_hold {
    int32_t device, begin; /* activity; -1: from time 0 */
    bool forever;
    int64_t bytes;
    const uint64_t *user; /* (W) set of activities */
} stw_hold;

/* A placement as activities: the T tasks, then the transfers. Sets of activities are rows of W words. */
typedef struct stw_exact_model {
    int32_t A, W;
    stw_activity *activity; /* (A) */
    uint64_t *before;       /* (A, W) what ends before an activity begins; closed under transitivity */
    uint64_t *after;        /* (A, W) the reverse */
    int32_t queue_count;    /* resources with something to carry */
    int32_t *queue_start;   /* (queue_count + 1) into queued */
    int32_t *queued;        /* activities by resource, in no order */
    int32_t hold_count;
    stw_hold *hold;
    bool open;       /* some device is open */
    bool impossible; /* devices must talk that have no link */
} stw_exact_model;

static inline bool stw_bit(const uint64_t *row, int32_t i) { return row[i >> 6] >> (i & 63) & 1; }
static inline void stw_set_bit(uint64_t *row, int32_t i) { row[i >> 6] |= 1ULL << (i & 63); }

static inline bool stw_is_before(const stw_exact_model *m, int32_t a, int32_t b) {
    return stw_bit(m->after + (int64_t)a * m->W, b);
}
/* Of two activities on one resource: which goes first is not decided yet. */
static inline bool stw_is_undecided(const stw_exact_model *m, int32_t a, int32_t b) {
    return !stw_is_before(m, a, b) && !stw_is_before(m, b, a);
}

/* When everything begins if only what is decided counts. */
typedef struct stw_exact_times {
    int64_t *head;    /* (A) earliest start */
    int64_t *tail;    /* (A) least time from its end to the step's end */
    int32_t *rank;    /* (A) number of activities before it */
    int32_t *sorted;  /* (A) by rank */
    int32_t *list;    /* (A) scratch */
    int64_t least_ps; /* what the step takes at least */
} stw_exact_times;

/* The model of x->device. */
stw_status stw_exact_build(const stw_exact *x, stw_arena *arena, stw_exact_model *out, stw_error *error);
/* The same model with precedence of its own. */
stw_status stw_exact_copy(const stw_exact_model *from, stw_arena *arena, stw_exact_model *out, stw_error *error);
/* Decides that a goes before b. */
void stw_exact_decide(stw_exact_model *m, int32_t a, int32_t b);

stw_status stw_exact_times_create(int32_t A, stw_arena *arena, stw_exact_times *out, stw_error *error);
/* Fills the times and decides what has one way left; false if nothing that follows is valid and better than the best. */
bool stw_exact_tighten(const stw_exact *x, stw_exact_model *m, stw_exact_times *times);

/* What only needs to be known once: edges, the grain. */
stw_status stw_exact_look_ahead(stw_exact *x, stw_arena *arena, stw_error *error);
/* A task's head, and tail, by its neighbours whose devices, or its own, are open: they are together with it, or something is
 * sent.
 */
int64_t stw_exact_head(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, int32_t task);
int64_t stw_exact_tail(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, int32_t task);

/* All orders of a whole placement. */
stw_status stw_exact_orders(stw_exact *x, stw_arena arena, stw_error *error);

/* Evaluates a plan and keeps it if it is the best; *step_ps: its step, above the limit if it is not valid. */
stw_status stw_exact_judge(stw_exact *x, const stw_plan *plan, int64_t *step_ps, stw_error *error);
/* Counts one node of the search; true if the budget is spent. */
bool stw_exact_count(stw_exact *x);

/* The best plan of ops; with `breeds` a good one is looked for first, which pays where it is done once. */
stw_status stw_exact_solve(stw_search *search, bool breeds, stw_plan *plan, stw_error *error);
/* fusion.c: with fusion among the tasks. */
stw_status stw_exact_fuse(stw_search *search, stw_plan *plan, stw_error *error);

#endif
