#include "sim/causes.h"

static uint64_t hash_of(int32_t producer, int32_t device) { return stw_hash_pair((uint64_t)producer, (uint64_t)device); }

/* The waits of all members of a group, as the tasks have them, turned round. */
static stw_status list_waits(stw_causes *c, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = c->tasks;
    const int32_t T = tasks->T, count = tasks->waiter_start[T];
    STW_TRY_NEW(arena, c->wait_start, (int64_t)T + 2, error);
    STW_TRY_NEW(arena, c->wait, count, error);
    for (int32_t k = 0; k < count; k++) c->wait_start[tasks->waiter[k] + 2]++;
    for (int32_t t = 0; t < T; t++) c->wait_start[t + 2] += c->wait_start[t + 1];
    for (int32_t t = 0; t < T; t++) {
        for (int32_t k = tasks->waiter_start[t]; k < tasks->waiter_start[t + 1]; k++)
            c->wait[c->wait_start[tasks->waiter[k] + 1]++] = t;
    }
    return STW_OK;
}

stw_status stw_causes_build(const stw_workspace *workspace, stw_arena *arena, stw_causes *out, stw_error *error) {
    const stw_timeline *timeline = &workspace->timeline;
    *out = (stw_causes){.tasks = timeline->tasks, .timeline = timeline};
    TRY(stw_index_create(arena, timeline->transfer_count, &out->arrived, error));
    for (int32_t k = 0; k < timeline->transfer_count; k++) {
        const stw_transfer *t = &timeline->transfer[k];
        TRY(stw_index_add(&out->arrived, hash_of(t->producer, t->to), k, error));
    }
    return list_waits(out, arena, error);
}

int32_t stw_causes_transfer(const stw_causes *causes, int32_t producer, int32_t device) {
    int32_t k;
    for (uint32_t step = 0; (k = stw_index_next(&causes->arrived, hash_of(producer, device), &step)) >= 0;) {
        const stw_transfer *transfer = &causes->timeline->transfer[k];
        if (transfer->producer == producer && transfer->to == device) return k;
    }
    return -1;
}
