/* What the list schedulers share: ranks, atoms and what there is to watch out for, made once and read by all threads. */
#ifndef STW_SEARCH_LIST_H
#define STW_SEARCH_LIST_H

#include "plan/plan.h"
#include "plan/steer.h"
#include "search/search.h"

typedef struct stw_list {
    stw_board_base base; /* in the order of the upward rank with mean costs */
    double *rank;        /* (T) it */
    int32_t *atom;       /* (N) */
    int32_t atom_count;
    double mean_us;  /* work / ops: the unit of glue */
    bool memory;     /* some device could overflow */
    uint64_t linked; /* see stw_list_linked */
} stw_list;

stw_status stw_list_prepare(const stw_search *search, stw_arena *arena, stw_list *out, stw_error *error);

/* Where links are missing: the fastest devices that can all talk to each other, a bit each; else 0. */
uint64_t stw_list_linked(const stw_simulator *simulator);

/* etf.c: an event clock. Always the op that can start first, on the device where it can; among equals the higher rank. */
typedef struct stw_etf_input {
    const stw_list *list;
    const int32_t *favourite; /* (T) the reader for which a device keeps itself free when it has run a task, or -1; NULL: none */
    stw_home home;
    uint64_t allowed;             /* devices; 0: all */
    const uint64_t *task_allowed; /* (T) the same for each task; NULL: all alike */
    bool queues;
    stw_stop stop; /* looked at now and then; due: STW_ERROR_CANCELLED */
} stw_etf_input;
/* Fills device: (N). */
stw_status stw_etf(const stw_etf_input *input, int32_t *device, stw_arena scratch, stw_error *error);

#endif
