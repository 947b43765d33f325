#include "import/inputs_first.h"

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
