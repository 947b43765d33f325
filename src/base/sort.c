#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>

static int compare(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

/* Short lists, mostly sorted already: each id goes down to its place. */
static void insert_ids(int32_t *ids, int64_t count) {
    for (int64_t k = 1; k < count; k++) {
        const int32_t id = ids[k];
        int64_t to = k;
        for (; to > 0 && ids[to - 1] > id; to--) ids[to] = ids[to - 1];
        ids[to] = id;
    }
}

void stw_sort_ids(int32_t *ids, int64_t count) {
    enum { SHORT = 64 };
    if (count <= SHORT) {
        insert_ids(ids, count);
    } else {
        qsort(ids, (size_t)count, sizeof *ids, compare);
    }
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

enum { UNSEEN, BEGUN, DONE };

/* A depth-first walk with a stack of its own: files nest deeper than C calls can. */
stw_status stw_inputs_first(int32_t count, const int64_t *start, const int32_t *need, stw_arena scratch, int32_t *order,
                            int32_t *stuck, stw_error *error) {
    uint8_t *state;
    int64_t *cursor; /* (count) the next need to look at */
    int32_t *stack, done = 0;
    STW_TRY_NEW(&scratch, state, count, error);
    STW_TRY_NEW(&scratch, cursor, count, error);
    STW_TRY_NEW(&scratch, stack, count, error);
    for (int32_t i = 0; i < count; i++) cursor[i] = start[i];
    for (int32_t first = 0; first < count; first++) {
        int32_t depth = 0;
        if (state[first] == UNSEEN) stack[depth++] = first;
        while (depth > 0) {
            const int32_t i = stack[depth - 1];
            state[i] = BEGUN;
            if (cursor[i] == start[i + 1]) {
                state[i] = DONE;
                order[done++] = i;
                depth--;
                continue;
            }
            *stuck = need[cursor[i]++];
            if (state[*stuck] == BEGUN) return STW_OK;
            if (state[*stuck] == UNSEEN) stack[depth++] = *stuck;
        }
    }
    *stuck = -1;
    return STW_OK;
}
