#include "plan/group_times.h"

#include <string.h>

/* Of the store, per node: groups have few members in the mean, and an op is in few groups at once. */
enum { PER_NODE = 8 };

stw_status stw_group_times_create(const stw_costs *costs, stw_arena *arena, stw_group_times *out, stw_error *error) {
    const int32_t N = costs->graph->N;
    *out = (stw_group_times){.N = N,
                             .classes = costs->machine->cost_class_count,
                             .size = (int64_t)PER_NODE * N + STW_MAX_GROUP_MEMBERS}; /* any group has room in an empty one */
    STW_TRY_NEW(arena, out->count, N, error);
    STW_TRY_NEW(arena, out->room, N, error);
    /* The rest is read only where there is a count. */
    out->place = STW_NEW_DIRTY(arena, int64_t, N);
    out->written = STW_NEW_DIRTY(arena, uint64_t, N);
    out->ps = STW_NEW_DIRTY(arena, int64_t, (int64_t)N * out->classes);
    out->store = STW_NEW_DIRTY(arena, int32_t, out->size);
    return out->store != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory for the groups of %d nodes", (int)N);
}

const int64_t *stw_group_times_find(const stw_group_times *times, int32_t id, const int32_t *member, int32_t count,
                                    uint64_t written) {
    if (times->count[id] != count || times->written[id] != written) return NULL;
    if (memcmp(times->store + times->place[id], member, (size_t)count * sizeof *member) != 0) return NULL;
    return times->ps + (int64_t)id * times->classes;
}

static void forget_all(stw_group_times *times) {
    memset(times->count, 0, (size_t)times->N * sizeof *times->count);
    memset(times->room, 0, (size_t)times->N * sizeof *times->room);
    times->used = 0;
}

/* A place that is large enough: the one that the id has, or a new one. */
static void find_place(stw_group_times *times, int32_t id, int32_t count) {
    if (count <= times->room[id]) return;
    int32_t room = 2;
    while (room < count) room *= 2; /* so that a group that grows leaves no more behind than it has in the end */
    if (times->used + room > times->size) forget_all(times);
    times->place[id] = times->used;
    times->room[id] = (uint8_t)room;
    times->used += room;
}

int64_t *stw_group_times_note(stw_group_times *times, int32_t id, const int32_t *member, int32_t count, uint64_t written) {
    find_place(times, id, count);
    times->count[id] = (uint8_t)count;
    times->written[id] = written;
    memcpy(times->store + times->place[id], member, (size_t)count * sizeof *member);
    return times->ps + (int64_t)id * times->classes;
}
