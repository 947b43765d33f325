/* Sets that are joined: each element names another of its set, and in the end the one that stands for all, which names itself.
 * To join two sets, let what stands for one name what stands for the other. */
#ifndef STW_BASE_UNION_FIND_H
#define STW_BASE_UNION_FIND_H

#include <stdint.h>

/* Every element by itself. */
static inline void stw_sets_begin(int32_t *leader, int32_t count) {
    for (int32_t i = 0; i < count; i++) leader[i] = i;
}

/* What stands for the set of an element. Ways that were gone are shorter afterwards. */
static inline int32_t stw_sets_find(int32_t *leader, int32_t i) {
    while (leader[i] != i) i = leader[i] = leader[leader[i]];
    return i;
}

/* Joins the sets of both; the smaller of those that stand for them stands for all. */
static inline void stw_sets_join(int32_t *leader, int32_t a, int32_t b) {
    a = stw_sets_find(leader, a);
    b = stw_sets_find(leader, b);
    if (a < b) leader[b] = a;
    if (b < a) leader[a] = b;
}

#endif
