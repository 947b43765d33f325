#include "plan/group_times.h"

#include <string.h>

stw_status stw_group_times_create(const stw_costs *costs, stw_arena *arena, stw_group_times *out, stw_error *error) {
    const int64_t N = costs->graph->N;
    *out = (stw_group_times){.classes = costs->machine->cost_class_count};
    STW_TRY_NEW(arena, out->count, N, error);
    /* The rest is read only where there is a count. */
    out->written = STW_NEW_DIRTY(arena, uint64_t, N);
    out->ps = STW_NEW_DIRTY(arena, int64_t, N * out->classes);
    out->member = stw_arena_alloc_dirty(arena, sizeof *out->member, _Alignof(int32_t), N);
    return out->member != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for the groups of %d nodes", (int)N);
}

const int64_t *stw_group_times_find(const stw_group_times *times, int32_t id, const int32_t *member, int32_t count,
                                    uint64_t written) {
    if (times->count[id] != count || times->written[id] != written) return NULL;
    if (memcmp(times->member[id], member, (size_t)count * sizeof *member) != 0) return NULL;
    return times->ps + (int64_t)id * times->classes;
}

int64_t *stw_group_times_note(stw_group_times *times, int32_t id, const int32_t *member, int32_t count, uint64_t written) {
    times->count[id] = (uint8_t)count;
    times->written[id] = written;
    memcpy(times->member[id], member, (size_t)count * sizeof *member);
    return times->ps + (int64_t)id * times->classes;
}
