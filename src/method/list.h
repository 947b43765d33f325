/* What the list schedulers share: ranks, atoms and what there is to watch out for, made once and read by all threads. */
#ifndef STW_METHOD_LIST_H
#define STW_METHOD_LIST_H

#include "method/method.h"
#include "plan/plan.h"
#include "plan/steer.h"

typedef struct stw_list {
    stw_board_base base; /* in the order of the upward rank with mean costs */
    double *rank;        /* (T) it */
    int32_t *atom;       /* (N) */
    int32_t atom_count;
    double mean_us;  /* work / ops: the unit of glue */
    bool memory;     /* some device could overflow */
    uint64_t linked; /* see stw_list_linked */
} stw_list;

enum { STW_LIST_STARTS = 6 }; /* start plans that are looked at */

stw_status stw_list_prepare(const stw_search *search, stw_arena *arena, stw_list *out, stw_error *error);

/* Where links are missing: the fastest devices that can all talk to each other, a bit each; else 0. */
uint64_t stw_list_linked(const stw_simulator *simulator);

/* For methods that decide placements, when placement is not theirs to decide: the best start plan as it is, else `single`. */
stw_status stw_list_keep_placement(stw_search *search, stw_plan *plan, stw_error *error);

/* Plans to begin with, best first: the search's own, at most `room` of them, or if it has none those that these methods make
 * within a quarter each of what is left of the budget. plan: (room) owned by the caller. */
stw_status stw_list_starts(stw_search *search, const char *const *method, int32_t method_count, stw_plan **plan, int32_t room,
                           int32_t *count, stw_error *error);
void stw_list_drop_starts(stw_plan **plan, int32_t count);

/* etf.c: an event clock. Always the op that can start first, on the device where it can; among equals the higher rank. */
typedef struct stw_etf_input {
    const stw_list *list;
    const int32_t *favourite; /* (T) the reader for which a device keeps itself free when it has run a task, or -1; NULL: none */
    stw_home home;
    uint64_t allowed; /* devices; 0: all */
    bool queues;
} stw_etf_input;
/* Fills device: (N). */
stw_status stw_etf(const stw_etf_input *input, int32_t *device, stw_arena scratch, stw_error *error);

#endif
