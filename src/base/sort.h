/* Lists of ids, ascending; and an order by what needs what. */
#ifndef STW_BASE_SORT_H
#define STW_BASE_SORT_H

#include "base/arena.h"

/* Ascending, in place. May allocate when the list is long (qsort does). */
void stw_sort_ids(int32_t *ids, int64_t count);
/* The ids of two ascending lists, each of which has an id once: ascending, each once. Returns their number; -1: more than `room`.
 */
int32_t stw_unite_ids(const int32_t *a, int32_t a_count, const int32_t *b, int32_t b_count, int32_t *out, int32_t room);

/* An order in which what an item needs comes before it; otherwise ascending. Item i needs need[start[i]] to need[start[i + 1] -
 * 1]. order: (count). *stuck: an item on a cycle, where there is no order; else -1. */
stw_status stw_inputs_first(int32_t count, const int64_t *start, const int32_t *need, stw_arena scratch, int32_t *order,
                            int32_t *stuck, stw_error *error);

#endif
