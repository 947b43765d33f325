#include "sim/critical.h"

#include <string.h>

/* A hash table from (what, when) to an index; linear probing, at most half full. */
typedef struct {
    int64_t mask;
    int32_t *slot; /* index + 1, 0 = empty */
} table;

static stw_status create_table(int64_t count, stw_arena *arena, table *out, stw_error *error) {
    int64_t size = 16;
    while (size < 2 * count) size *= 2;
    out->mask = size - 1;
    STW_TRY_NEW(arena, out->slot, size, error);
    return STW_OK;
}

static int64_t first_slot(const table *t, int64_t what, int64_t when) {
    const uint64_t mixed = ((uint64_t)what * 0x9e3779b97f4a7c15u) ^ ((uint64_t)when * 0xc2b2ae3d27d4eb4fu);
    return (int64_t)((mixed ^ (mixed >> 29)) & (uint64_t)t->mask);
}

typedef struct {
    const stw_tasks *tasks;
    const stw_timeline *timeline;
    const stw_machine *machine;
    table ended;                /* (device, end) -> task that took time */
    table arrived;              /* (producer node, destination) -> transfer */
    table freed;                /* (channel, end) -> transfer */
    int32_t *wait_start, *wait; /* (T + 1), what each task waits for, ascending; repeats possible */
} walk;

static int32_t channel_of(const walk *w, const stw_transfer *transfer) {
    return stw_machine_link(w->machine, transfer->from, transfer->to)->channel;
}

static void insert(table *t, int64_t what, int64_t when, int32_t index) {
    int64_t k = first_slot(t, what, when);
    while (t->slot[k] != 0) k = (k + 1) & t->mask;
    t->slot[k] = index + 1;
}

static stw_status fill_tables(walk *w, stw_arena *arena, stw_error *error) {
    const stw_timeline *l = w->timeline;
    TRY(create_table(w->tasks->T, arena, &w->ended, error));
    TRY(create_table(l->transfer_count, arena, &w->arrived, error));
    TRY(create_table(l->transfer_count, arena, &w->freed, error));
    for (int32_t t = 0; t < w->tasks->T; t++) {
        if (l->end_ps[t] > l->start_ps[t]) insert(&w->ended, l->device[t], l->end_ps[t], t);
    }
    for (int32_t k = 0; k < l->transfer_count; k++) {
        insert(&w->arrived, l->transfer[k].producer, l->transfer[k].to, k);
        if (l->transfer[k].end_ps > l->transfer[k].start_ps)
            insert(&w->freed, channel_of(w, &l->transfer[k]), l->transfer[k].end_ps, k);
    }
    return STW_OK;
}

/* The waits of all members of a group, as the tasks have them, turned round. */
static stw_status list_waits(walk *w, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = w->tasks;
    const int32_t T = tasks->T, count = tasks->waiter_start[T];
    STW_TRY_NEW(arena, w->wait_start, (int64_t)T + 2, error);
    STW_TRY_NEW(arena, w->wait, count, error);
    for (int32_t k = 0; k < count; k++) w->wait_start[tasks->waiter[k] + 2]++;
    for (int32_t t = 0; t < T; t++) w->wait_start[t + 2] += w->wait_start[t + 1];
    for (int32_t t = 0; t < T; t++) {
        for (int32_t k = tasks->waiter_start[t]; k < tasks->waiter_start[t + 1]; k++)
            w->wait[w->wait_start[tasks->waiter[k] + 1]++] = t;
    }
    return STW_OK;
}

static int32_t task_before(const walk *w, int32_t device, int64_t when) {
    for (int64_t k = first_slot(&w->ended, device, when); w->ended.slot[k] != 0; k = (k + 1) & w->ended.mask) {
        const int32_t t = w->ended.slot[k] - 1;
        if (w->timeline->device[t] == device && w->timeline->end_ps[t] == when) return t;
    }
    return -1;
}

static const stw_transfer *transfer_to(const walk *w, int32_t producer, int32_t device) {
    for (int64_t k = first_slot(&w->arrived, producer, device); w->arrived.slot[k] != 0; k = (k + 1) & w->arrived.mask) {
        const stw_transfer *transfer = &w->timeline->transfer[w->arrived.slot[k] - 1];
        if (transfer->producer == producer && transfer->to == device) return transfer;
    }
    return NULL;
}

static const stw_transfer *transfer_before(const walk *w, int32_t channel, int64_t when) {
    for (int64_t k = first_slot(&w->freed, channel, when); w->freed.slot[k] != 0; k = (k + 1) & w->freed.mask) {
        const stw_transfer *transfer = &w->timeline->transfer[w->freed.slot[k] - 1];
        if (channel_of(w, transfer) == channel && transfer->end_ps == when) return transfer;
    }
    return NULL;
}

/* The task whose end set off a transfer, behind those that held the channel before it; -1: a parameter, there at time 0. */
static int32_t cause_of_transfer(const walk *w, const stw_transfer *transfer) {
    while (transfer->start_ps > transfer->ready_ps) {
        const stw_transfer *before = transfer_before(w, channel_of(w, transfer), transfer->start_ps);
        if (before == NULL) break;
        transfer = before;
    }
    return w->tasks->task_of[transfer->producer];
}

/* The task because of which t began no earlier; -1: nothing. */
static int32_t cause_of_task(const walk *w, int32_t t) {
    const stw_tasks *tasks = w->tasks;
    const int32_t device = w->timeline->device[t];
    const int64_t start = w->timeline->start_ps[t];
    for (int32_t s = tasks->input_start[t]; s < tasks->input_start[t + 1]; s++) {
        const int32_t value = tasks->slot_value[s], producer = tasks->value_task[value];
        if (tasks->value_flags[value] & STW_VALUE_EVERYWHERE) continue;
        if (producer >= 0 && w->timeline->device[producer] == device) {
            if (w->timeline->end_ps[producer] == start) return producer;
            continue;
        }
        const stw_transfer *transfer = transfer_to(w, tasks->value_node[value], device);
        if (transfer != NULL && transfer->end_ps == start) return cause_of_transfer(w, transfer);
    }
    for (int32_t k = w->wait_start[t]; k < w->wait_start[t + 1]; k++) {
        if (w->timeline->end_ps[w->wait[k]] == start) return w->wait[k];
    }
    const int32_t before = task_before(w, device, start);
    return before == t ? -1 : before;
}

stw_status stw_critical_path(const stw_workspace *workspace, int32_t *task, int32_t room, int32_t *count, stw_arena scratch,
                             stw_error *error) {
    const stw_simulator *s = workspace->simulator;
    walk w = {.tasks = workspace->timeline.tasks, .timeline = &workspace->timeline, .machine = s->machine};
    *count = 0;
    if (w.tasks == NULL || w.tasks->T == 0) return STW_OK;
    TRY(fill_tables(&w, &scratch, error));
    TRY(list_waits(&w, &scratch, error));
    int32_t t = 0;
    for (int32_t k = 1; k < w.tasks->T; k++) {
        if (w.timeline->end_ps[k] > w.timeline->end_ps[t]) t = k;
    }
    while (t >= 0 && *count < room) {
        task[(*count)++] = t;
        t = cause_of_task(&w, t);
    }
    return STW_OK;
}
