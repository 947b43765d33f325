/* What groups took when they were looked at last: where tasks are built over and over, most groups are the same as before, and
 * their times need not be computed again. A group is known by its smallest written op; its time depends on its members and on
 * which of them it writes, and on nothing else where the graph does not say how ops walk their tensors (graph->flow).
 *
 * Members stand in one store, each group's in a place of its own that has room for a power of two of them. When the store is full
 * everything is forgotten. */
#ifndef STW_PLAN_GROUP_TIMES_H
#define STW_PLAN_GROUP_TIMES_H

#include "plan/membership.h"

typedef struct stw_group_times {
    int32_t N, classes;
    uint8_t *count;    /* (N) members; 0: nothing is known */
    uint8_t *room;     /* (N) for how many there is a place; 0: there is none */
    int64_t *place;    /* (N) where it begins in the store */
    uint64_t *written; /* (N) a bit per member */
    int64_t *ps;       /* (N)(classes) */
    int32_t *store;    /* (size) */
    int64_t used, size;
} stw_group_times;

stw_status stw_group_times_create(const stw_costs *costs, stw_arena *arena, stw_group_times *out, stw_error *error);
/* (classes) picoseconds of the group of this id, if it is the one that was noted last; else NULL. Members ascend. */
const int64_t *stw_group_times_find(const stw_group_times *times, int32_t id, const int32_t *member, int32_t count,
                                    uint64_t written);
/* Notes a group in place of the last one of its id; returns where its (classes) times go. */
int64_t *stw_group_times_note(stw_group_times *times, int32_t id, const int32_t *member, int32_t count, uint64_t written);

#endif
