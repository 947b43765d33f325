#include "base/sort.h"

#include <stdlib.h>

static int compare(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

void stw_sort_ids(int32_t *ids, int64_t count) {
    if (count > 1) qsort(ids, (size_t)count, sizeof *ids, compare);
}
