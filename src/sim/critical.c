#include "sim/critical.h"

#include "sim/causes.h"

typedef struct {
    const stw_tasks *tasks;
    const stw_timeline *timeline;
    const stw_machine *machine;
    stw_causes causes;
    stw_index ended; /* (device, end) -> task that took time */
    stw_index freed; /* (channel, end) -> transfer */
} walk;

static int32_t channel_of(const walk *w, const stw_transfer *transfer) {
    return stw_machine_link(w->machine, transfer->from, transfer->to)->channel;
}

static uint64_t hash_of(int64_t what, int64_t when) { return stw_hash_pair((uint64_t)what, (uint64_t)when); }

static stw_status fill_tables(walk *w, stw_arena *arena, stw_error *error) {
    const stw_timeline *l = w->timeline;
    TRY(stw_index_create(arena, w->tasks->T, &w->ended, error));
    TRY(stw_index_create(arena, l->transfer_count, &w->freed, error));
    for (int32_t t = 0; t < w->tasks->T; t++) {
        if (l->end_ps[t] > l->start_ps[t]) TRY(stw_index_add(&w->ended, hash_of(l->device[t], l->end_ps[t]), t, error));
    }
    for (int32_t k = 0; k < l->transfer_count; k++) {
        const stw_transfer *t = &l->transfer[k];
        if (t->end_ps > t->start_ps) TRY(stw_index_add(&w->freed, hash_of(channel_of(w, t), t->end_ps), k, error));
    }
    return STW_OK;
}

static int32_t task_before(const walk *w, int32_t device, int64_t when) {
    int32_t t;
    for (uint32_t step = 0; (t = stw_index_next(&w->ended, hash_of(device, when), &step)) >= 0;) {
        if (w->timeline->device[t] == device && w->timeline->end_ps[t] == when) return t;
    }
    return -1;
}

static const stw_transfer *transfer_before(const walk *w, int32_t channel, int64_t when) {
    int32_t k;
    for (uint32_t step = 0; (k = stw_index_next(&w->freed, hash_of(channel, when), &step)) >= 0;) {
        const stw_transfer *transfer = &w->timeline->transfer[k];
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
        const int32_t k = stw_causes_transfer(&w->causes, tasks->value_node[value], device);
        if (k >= 0 && w->timeline->transfer[k].end_ps == start) return cause_of_transfer(w, &w->timeline->transfer[k]);
    }
    const stw_causes *c = &w->causes;
    for (int32_t k = c->wait_start[t]; k < c->wait_start[t + 1]; k++) {
        if (w->timeline->end_ps[c->wait[k]] == start) return c->wait[k];
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
    TRY(stw_causes_build(workspace, &scratch, &w.causes, error));
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
