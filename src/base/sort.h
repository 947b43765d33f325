/* Lists of ids, ascending. */
#ifndef STW_BASE_SORT_H
#define STW_BASE_SORT_H

#include <stdint.h>

/* Ascending, in place. May allocate when the list is long (qsort does). */
void stw_sort_ids(int32_t *ids, int64_t count);
/* The ids of two ascending lists, each of which has an id once: ascending, each once. Returns their number; -1: more than `room`.
 */
int32_t stw_unite_ids(const int32_t *a, int32_t a_count, const int32_t *b, int32_t b_count, int32_t *out, int32_t room);

#endif
