#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>

static int compare(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

void stw_sort_ids(int32_t *ids, int64_t count) {
    if (count > 1) qsort(ids, (size_t)count, sizeof *ids, compare);
}

int32_t stw_unite_ids(const int32_t *a, int32_t a_count, const int32_t *b, int32_t b_count, int32_t *out, int32_t room) {
    int32_t count = 0, l = 0, r = 0;
    while (l < a_count || r < b_count) {
        const bool from_a = r == b_count || (l < a_count && a[l] <= b[r]);
        const int32_t id = from_a ? a[l] : b[r];
        l += l < a_count && a[l] == id;
        r += r < b_count && b[r] == id;
        if (count == room) return -1;
        out[count++] = id;
    }
    return count;
}
