/* Sorting lists of ids. */
#ifndef STW_BASE_SORT_H
#define STW_BASE_SORT_H

#include <stdint.h>

/* Ascending, in place. May allocate when the list is long (qsort does). */
void stw_sort_ids(int32_t *ids, int64_t count);

#endif
