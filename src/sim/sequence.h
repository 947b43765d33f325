/* Tasks one after the other, as one device runs them, and the memory that they hold: without the event loop, so that many orders
 * can be looked at. T tasks, V values. */
#ifndef STW_SIM_SEQUENCE_H
#define STW_SIM_SEQUENCE_H

#include "sim/sim.h"

/* The tasks of stw_tasks with every relation once. */
typedef struct stw_sequences {
    int32_t T, V;
    const stw_tasks *tasks;
    int32_t *before_start, *before; /* (T + 1) what must run before a task: what writes its inputs, and what it waits for */
    int32_t *after_start, *after;   /* (T + 1) the same from the other side */
    int32_t *reader_start, *reader; /* (V + 1) tasks that read a value */
    int32_t *read_start, *read;     /* (T + 1) values that a task reads */
    int32_t *writer;                /* (V) task, -1 for sources */
    int64_t *bytes;                 /* (V) while it is held; 0 for parameters and buffers: */
    bool *kept;                     /* (V) written, and held to the end */
    int64_t resident_bytes;         /* they are held all the time */
} stw_sequences;

stw_status stw_sequences_build(const stw_tasks *tasks, stw_arena *arena, stw_sequences *out, stw_error *error);

typedef enum stw_sequence_rule {
    STW_SEQUENCE_IDS,           /* the smallest id that can run: near the order of the graph */
    STW_SEQUENCE_FORWARD,       /* from the first to the last: what frees most or takes least; else what was possible first */
    STW_SEQUENCE_FORWARD_DEEP,  /* the same; else what became possible last */
    STW_SEQUENCE_BACKWARD,      /* from the last to the first: what takes back most of what it wrote, less what it reads */
    STW_SEQUENCE_BACKWARD_DEEP, /* the same; else what became possible last */
    STW_SEQUENCE_RULE_COUNT
} stw_sequence_rule;

/* order: (T). stage: (T) or NULL; tasks of a smaller stage come first (0 to T - 1; no task needs one of a larger stage). */
stw_status stw_sequence_make(const stw_sequences *s, stw_sequence_rule rule, const int32_t *stage, int32_t *order,
                             stw_arena scratch, stw_error *error);

/* Bytes that an order holds during each task, parameters and buffers left out: (T) by position. bytes: (V). */
stw_status stw_sequence_held(const stw_sequences *s, const int64_t *bytes, const int32_t *order, int64_t *held, stw_arena scratch,
                             stw_error *error);

/* ---- memory_cut.c ---- */

typedef struct stw_cut {
    const int64_t *bytes; /* (V) of each value */
    const int32_t *stage; /* (T) or NULL: orders by stage alone */
    bool late;            /* of several choices: as much as possible before the task, else as little */
    int64_t *work;        /* steps that may be taken; falls */
    /* What comes out. */
    int64_t held;    /* the least that any order holds during the task; less than that if `work` ran out */
    bool complete;   /* `work` did not run out; then: */
    uint8_t *before; /* (T) or NULL: 1: runs before the task in such an order */
} stw_cut;

/* The least memory that any order of the tasks holds while one task runs: a minimum cut between what must run before it and what
 * must run after it. */
stw_status stw_cut_find(const stw_sequences *s, int32_t task, stw_cut *cut, stw_arena scratch, stw_error *error);

#endif
