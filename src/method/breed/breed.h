/* `breed`: plans of small graphs as sequences, annealed, crossed with each other and begun anew.
 *
 * breed.c     the method: rounds of eight annealed sequences, what each begins with, what is kept
 * cross.c     sequences that are drawn, or made of two others
 * changes.c   one annealed sequence: its changes, and what is accepted
 * sequence.c  what a sequence takes; a sequence from a plan and a plan from a sequence
 * retime.c    what it takes after a change, where only what comes later can differ
 *
 * A sequence is an order of all ops in which each comes after what it needs, and a device for each. A device runs its ops in that
 * order, waiting where it must, so nothing is lost: every plan's run is such a sequence (begin with the order in which its ops
 * began). What it takes is found in one pass without an event loop, some ten times as quickly as by the simulator. Without queues
 * and with memory enough the two agree to the picosecond; a channel is taken in the order of the sequence here, in the order of
 * time there. So the simulator judges what is kept. */
#ifndef STW_METHOD_BREED_BREED_H
#define STW_METHOD_BREED_BREED_H

#include "method/method.h"
#include "plan/plan.h"

enum {
    STW_BREED_MAX_OPS = 300,
    STW_BREED_MAX_READS = 3000,
    STW_BREED_TRIALS_PER_EVALUATION = 10 /* this many sequences count as one evaluation of the budget */
};
#define STW_BREED_NEVER_PS INT64_MAX

/* What a task reads. */
typedef struct {
    int64_t way_ps;      /* where all links are alike: its transfer */
    int32_t value, item; /* where it lies */
    int32_t producer;    /* T: it has none, and is there from the beginning */
} stw_breed_read;

/* T tasks (ops), V values, D devices, I items: what must be on one device. Immutable while sequences are bred. */
typedef struct stw_breed {
    const stw_simulator *s;
    const stw_tasks *tasks; /* every op a task of its own */
    int32_t T, V, D, I;
    int32_t *item_of;    /* (N) of ops, parameters and buffers; -1: nothing to place */
    int32_t *task_item;  /* (T) */
    int32_t *value_item; /* (V) where it lies; -1: everywhere */
    int32_t *mover;      /* (mover_count) items that may move: some task is in them, or reads them */
    int32_t mover_count;
    int32_t *read_start; /* (T + 1) into read_value: the values that a task reads, each once, but those that are everywhere */
    int32_t *read_value;
    int32_t *wait_start; /* (T + 1) into wait: tasks that must have ended */
    int32_t *wait;
    int32_t *before_start; /* (T + 1) into before: tasks of either kind, each once */
    int32_t *before;
    int32_t *after_start; /* (T + 1) into after: the reverse */
    int32_t *after;
    int32_t *updated;              /* (T) the value whose copies must have arrived, since the task updates it; -1: none */
    bool *partly;                  /* (V) some task reads it through a view: what is sent depends on who reads where */
    int64_t *duration_ps;          /* (D, T) */
    int64_t *left_ps;              /* (T) from a task's start to the end of the step, at least */
    int32_t *link_kind;            /* (D, D); -1: no link */
    int64_t *whole_ps;             /* (kinds, V) the transfer of a whole value */
    int64_t *send_ps, *receive_ps; /* (kinds) charges */
    bool together;                 /* some item has several tasks */
    bool charges, queues;
    bool alike;           /* all devices, and all links */
    bool plain;           /* nothing that a task waits for depends on what comes after it in the sequence; then there are also: */
    stw_breed_read *read; /* (read_start[T]) */
    int32_t *touch_start; /* (I + 1) into touch: the tasks that may begin at another time where an item moves, or later ones */
    int32_t *touch;
} stw_breed;

typedef struct stw_sequence {
    int32_t *task;   /* (T) in order */
    int32_t *place;  /* (T) where each task is in it */
    int32_t *device; /* (I) */
    int64_t ps;      /* the step by stw_sequence_time; STW_BREED_NEVER_PS: not known, or a link is missing */
} stw_sequence;

/* What one pass leaves behind, and its memory. */
typedef struct stw_sweep {
    int64_t *end_ps;     /* (T + 1), the last for what has no task */
    int32_t *cause;      /* (T) the task whose end, or whose transfer, a task began after; -1: none */
    int32_t last;        /* the task that ended last */
    int64_t *free_ps;    /* (D) */
    int32_t *ran;        /* (D) the last task of each device */
    int64_t *charge_ps;  /* (T) with charges */
    int64_t *channel_ps; /* (channels) with queues */
    int64_t *arrival_ps; /* (V, D) with queues */
} stw_sweep;

/* sequence.c */
stw_status stw_breed_prepare(const stw_simulator *simulator, stw_arena *arena, stw_breed *out, stw_error *error);
stw_status stw_sequence_create(const stw_breed *b, stw_arena *arena, stw_sequence *out, stw_error *error);
stw_status stw_sweep_create(const stw_breed *b, stw_arena *arena, stw_sweep *out, stw_error *error);
void stw_sequence_copy(const stw_breed *b, stw_sequence *to, const stw_sequence *from);
/* The step; STW_BREED_NEVER_PS as soon as it is known to be above `limit_ps`. */
int64_t stw_sequence_time(const stw_breed *b, const stw_sequence *q, int64_t limit_ps, stw_sweep *sweep);
/* The order in which tasks began in a run, start_ps and end_ps (T), and the devices of its plan. */
stw_status stw_sequence_of_plan(const stw_breed *b, const stw_plan *plan, const int64_t *start_ps, const int64_t *end_ps,
                                stw_sequence *out, stw_arena scratch, stw_error *error);
/* Strict orders, and priorities for channels. */
stw_status stw_sequence_to_plan(const stw_breed *b, const stw_sequence *q, stw_plan *plan, stw_arena scratch, stw_error *error);

/* retime.c */
stw_status stw_breed_prepare_retime(stw_breed *b, stw_arena *arena, stw_error *error); /* the end of stw_breed_prepare */
/* The place of the first task that may begin at another time now that these items have moved: what is before it may stay. */
int32_t stw_sequence_first_touched(const stw_breed *b, const stw_sequence *q, const int32_t *moved, int32_t count);
/* stw_sequence_time, where `known` is what a pass has left over a sequence whose first `from` tasks, and all that these wait for,
 * were the same. */
int64_t stw_sequence_retime(const stw_breed *b, const stw_sequence *q, int32_t from, const stw_sweep *known, int64_t limit_ps,
                            stw_sweep *sweep);

/* changes.c */
typedef struct stw_breeding { /* one sequence that is annealed, with all that this takes */
    const stw_breed *b;
    stw_rng rng;
    stw_sequence now, best;
    stw_sweep sweep, trial;
    int64_t ends_ps;   /* of `now`: how late and how unevenly devices end */
    int32_t *critical; /* (T) tasks that the step hangs on */
    int32_t critical_count;
    bool moves_branches; /* in this round */
    int32_t *branch;     /* (T) tasks that move as one */
    int32_t branch_count;
    int32_t *moved, *moved_from; /* (I) items that this change moves, and where they were */
    int32_t moved_count;
    int32_t shifted, shifted_from; /* the task whose place this change changes, and its old place; -1: none */
    int64_t trials;
} stw_breeding;

stw_status stw_breeding_create(const stw_breed *b, stw_arena *arena, stw_breeding *out, stw_error *error);
/* Anneals `now` in so many trials, from a heat (a share of the step) down to nothing, and leaves the best in `best`. Looks at the
 * clock of `search` now and then. */
void stw_breeding_anneal(stw_breeding *a, double heat, int64_t trials, int64_t enough_ps, const stw_search *search);

/* cross.c */
/* An order at random, and devices: any, or those of few devices. */
void stw_sequence_draw(const stw_breed *b, stw_rng *rng, stw_sequence *out);
/* What begins first as in one, the rest as in the other; or the order of one with some devices of the other. */
void stw_sequence_cross(const stw_breed *b, stw_rng *rng, const stw_sequence *one, const stw_sequence *other, stw_sequence *out,
                        int32_t *rename);

#endif
