/* The event loop: rules 1 to 11 of docs/simulator.md.
 *
 * Memory is kept as "holds": a value at home (hold = value), or a copy of it elsewhere (holds from V on). A hold counts its
 * remaining users and is freed with the last. Peaks are sampled when time moves on, so that what is held for no time does not
 * count. */
#include <string.h>

#include "sim/charges.h"
#include "sim/queues.h"
#include "sim/sim.h"

typedef struct {     /* together, since they are asked for together, in no regular order */
    int32_t pending; /* what must still happen before the task is ready */
    int32_t device;
} task_state;

typedef struct {
    const stw_machine *machine;
    const stw_tasks *tasks;
    const int64_t *node_bytes; /* (N) for views */
    const stw_run_options *options;
    stw_timeline *timeline;
    int32_t D;
    int64_t now;

    /* Tasks. */
    task_state *state;                        /* (T) */
    const double *priority;                   /* (T) */
    const int64_t *duration[STW_MAX_DEVICES]; /* (D)(T) by device */
    int64_t *charge;                          /* (T) what transfers add to it; NULL where no link charges anything */
    int64_t *start, *end;                     /* (T) */
    int32_t finished;
    int64_t step;
    bool overflow, stopped;

    /* Where the step has a limit. */
    bool limited;
    int64_t left[STW_MAX_DEVICES]; /* what the tasks that a device has not begun will take */
    int64_t deadline;              /* no device that idles may do so for longer */
    int64_t *tail;                 /* (T) what takes at least so long follows a task, with transfers, when it has ended */

    /* Devices. */
    stw_ready_queue ready[STW_MAX_DEVICES];
    const int32_t *const *order;
    int32_t order_next[STW_MAX_DEVICES], order_count[STW_MAX_DEVICES];
    int32_t running[STW_MAX_DEVICES]; /* task, -1 = idle */
    uint64_t may_start;               /* bit per device: idle, and something may be ready */
    int64_t held[STW_MAX_DEVICES];    /* bytes now */
    uint64_t grown;                   /* bit per device: held more at some point of this instant */
    int64_t peak[STW_MAX_DEVICES], peak_time[STW_MAX_DEVICES], busy[STW_MAX_DEVICES];
    int64_t charged[STW_MAX_DEVICES]; /* the part of `busy` that transfers took */

    /* Holds: the V values at home, then copies. */
    int32_t *hold_users; /* (V + U) */
    int64_t *copy_bytes; /* (U) of the holds from V on */
    int32_t hold_count;
    int32_t *slot_hold; /* (U) */

    /* Transfers. */
    int32_t transfer_count;
    stw_transfer *transfer; /* (U at most) */
    stw_waiting *waiting;   /* same index */
    int32_t *transfer_value, *transfer_hold;
    int64_t *transfer_duration;
    int32_t *channel_queue;   /* (channels) root of waiting transfers, -1 = none */
    int32_t *channel_running; /* (channels) transfer, -1 = idle */
    int32_t *channel_try;     /* channels that may start something */
    bool *channel_marked;     /* (channels) is in channel_try */
    int32_t try_count;

    stw_ending *ending; /* what runs now */
    int32_t ending_count;

    /* Scratch of publish_value, by destination. */
    uint64_t destinations;
    int64_t dest_bytes[STW_MAX_DEVICES];
    int32_t dest_users[STW_MAX_DEVICES], dest_view[STW_MAX_DEVICES], dest_hold[STW_MAX_DEVICES];
} engine;

/* ---- memory ---- */

static void record(engine *e, int32_t device, int64_t bytes) {
    if (!e->options->record_memory || bytes == 0) return;
    e->timeline->change[e->timeline->change_count++] = (stw_memory_change){e->now, device, bytes};
}

static void hold_memory(engine *e, int32_t device, int64_t bytes) {
    e->held[device] += bytes;
    e->grown |= 1ULL << device;
    record(e, device, bytes);
}

static void free_hold(engine *e, int32_t hold, int32_t device) {
    const int32_t V = e->tasks->V;
    const int64_t bytes = hold < V ? e->tasks->home_bytes[hold] : e->copy_bytes[hold - V];
    e->held[device] -= bytes;
    record(e, device, -bytes);
}

static inline void drop_user(engine *e, int32_t hold, int32_t device) {
    if (--e->hold_users[hold] == 0) free_hold(e, hold, device);
}

/* Before time moves on: what is held now is held for some time, and counts. */
static void sample_peaks(engine *e) {
    for (uint64_t left = e->grown; left != 0; left &= left - 1) {
        const int d = __builtin_ctzll(left);
        if (e->held[d] <= e->peak[d]) continue;
        e->peak[d] = e->held[d];
        e->peak_time[d] = e->now;
    }
    e->grown = 0;
}

/* ---- becoming ready ---- */

static void become_ready(engine *e, int32_t task) {
    const int32_t d = e->state[task].device;
    /* What starting and finishing will touch: there is time to fetch it until then. */
    __builtin_prefetch(&e->tasks->output_start[task]);
    __builtin_prefetch(&e->tasks->input_start[task]);
    __builtin_prefetch(&e->tasks->waiter_start[task]);
    __builtin_prefetch(&e->duration[d][task]);
    __builtin_prefetch(&e->start[task], 1);
    __builtin_prefetch(&e->end[task], 1);
    if (e->order[d] == NULL) stw_ready_push(&e->ready[d], (stw_ready){e->priority[task], e->now, task});
    if (e->running[d] < 0) e->may_start |= 1ULL << d;
}

/* One of the things that a task waits for has happened. */
static inline void fulfil(engine *e, int32_t task) {
    if (--e->state[task].pending == 0) become_ready(e, task);
}

static void try_channel(engine *e, int32_t channel) {
    if (e->channel_marked[channel] || e->channel_running[channel] >= 0) return;
    e->channel_marked[channel] = true;
    e->channel_try[e->try_count++] = channel;
}

/* Every transfer passes a channel's queue; with contention `none` the channel is never busy. */
static void queue_transfer(engine *e, int32_t value, int32_t from, int32_t to, double priority) {
    const stw_link *link = stw_machine_link(e->machine, from, to);
    const int32_t t = e->transfer_count++;
    const int32_t hold = e->hold_count++;
    e->hold_users[hold] = e->dest_users[to];
    e->copy_bytes[hold - e->tasks->V] = e->dest_bytes[to];
    e->transfer[t] = (stw_transfer){e->tasks->value_node[value], from, to, e->dest_bytes[to], e->now, 0, 0};
    e->transfer_value[t] = value;
    e->transfer_hold[t] = hold;
    e->transfer_duration[t] =
        stw_scale_ps(e->options, stw_cost_transfer_ps(link, e->dest_bytes[to]), e->transfer[t].producer, link->channel);
    e->waiting[t] = (stw_waiting){priority, e->now, value, to, -1, -1};
    e->channel_queue[link->channel] = stw_waiting_join(e->waiting, e->channel_queue[link->channel], t);
    try_channel(e, link->channel);
}

/* Notes a use on another device: the whole value, or one more distinct view of it (uses are sorted by view). */
static inline void note_remote_use(engine *e, int32_t value, const stw_task_use *use, int32_t device) {
    const uint64_t bit = 1ULL << device;
    if (!(e->destinations & bit)) {
        e->destinations |= bit;
        e->dest_bytes[device] = 0;
        e->dest_users[device] = 0;
        e->dest_view[device] = -2;
    }
    e->dest_users[device]++;
    if (e->dest_view[device] == use->view) return;
    e->dest_view[device] = use->view;
    const int64_t whole = e->tasks->value_bytes[value];
    const int64_t part = use->view < 0 ? whole : e->node_bytes[use->view];
    e->dest_bytes[device] = part >= whole - e->dest_bytes[device] ? whole : e->dest_bytes[device] + part;
}

/* The value is there, on device `home`: its readers on that device have it, for the others transfers are queued. `extra_users`
 * keep the hold at home alive beside these. */
static void publish_value(engine *e, int32_t value, int32_t home, double priority, int32_t extra_users) {
    const stw_tasks *tasks = e->tasks;
    int32_t users = extra_users;
    e->destinations = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        const int32_t d = e->state[use->task].device;
        if (d != home) {
            note_remote_use(e, value, use, d);
            continue;
        }
        users++;
        e->slot_hold[use->slot] = value;
        fulfil(e, use->task);
    }
    for (uint64_t left = e->destinations; left != 0; left &= left - 1) {
        queue_transfer(e, value, home, __builtin_ctzll(left), priority);
        users++;
    }
    e->hold_users[value] = users;
}

/* ---- finishing ---- */

/* A device that idles must begin in time for what it has left. */
static void wait_for_work(engine *e, int32_t device) {
    const int64_t latest = e->options->stop_ps - e->left[device];
    if (e->left[device] > 0 && latest < e->deadline) e->deadline = latest;
}

static void finish_task(engine *e, int32_t device) {
    const stw_tasks *tasks = e->tasks;
    const int32_t task = e->running[device];
    e->running[device] = -1;
    e->may_start |= 1ULL << device;
    if (e->limited) wait_for_work(e, device);
    e->finished++;
    e->step = e->now;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t value = tasks->output[o];
        /* The task itself is a user until here; a graph output has one more that never goes. */
        publish_value(e, value, device, e->priority[task], tasks->value_flags[value] & STW_VALUE_KEPT ? 2 : 1);
        drop_user(e, value, device);
    }
    for (int32_t s = tasks->input_start[task]; s < tasks->input_start[task + 1]; s++) drop_user(e, e->slot_hold[s], device);
    for (int32_t w = tasks->waiter_start[task]; w < tasks->waiter_start[task + 1]; w++) fulfil(e, tasks->waiter[w]);
}

static void finish_transfer(engine *e, int32_t t) {
    const stw_tasks *tasks = e->tasks;
    const stw_transfer *transfer = &e->transfer[t];
    const int32_t value = e->transfer_value[t], hold = e->transfer_hold[t];
    if (e->machine->queues) {
        const int32_t channel = stw_machine_link(e->machine, transfer->from, transfer->to)->channel;
        e->channel_running[channel] = -1;
        if (e->channel_queue[channel] >= 0) try_channel(e, channel);
    }
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        if (e->state[use->task].device != transfer->to) continue;
        e->slot_hold[use->slot] = hold;
        fulfil(e, use->task);
    }
    drop_user(e, value, transfer->from);
    if (tasks->value_updater[value] >= 0) fulfil(e, tasks->value_updater[value]);
}

/* ---- starting ---- */

/* The end of something that begins now. Past 2^62 ps nothing takes time any more: the run goes on only to see whether the
 * orders can be kept. */
static int64_t end_of(engine *e, int64_t duration) {
    if (duration > STW_MAX_STEP_PS - e->now) e->overflow = true;
    return e->overflow ? e->now : e->now + duration;
}

/* How long a task occupies its device. */
static int64_t duration_of(const engine *e, int32_t device, int32_t task) {
    const int64_t own = e->duration[device][task];
    return e->charge == NULL ? own : stw_add_ps(own, e->charge[task]);
}

static void start_task(engine *e, int32_t device, int32_t task) {
    const stw_tasks *tasks = e->tasks;
    const int64_t duration = duration_of(e, device, task);
    const int64_t end = end_of(e, duration);
    if (e->charge != NULL) e->charged[device] = stw_add_ps(e->charged[device], e->charge[task]);
    if (e->limited) {
        e->left[device] -= duration;
        const int64_t room = e->options->stop_ps - end;
        if (e->left[device] > room || (e->tail != NULL && e->tail[task] > room)) e->stopped = true;
    }
    e->running[device] = task;
    e->start[task] = e->now;
    e->end[task] = end;
    e->busy[device] += end - e->now;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t value = tasks->output[o];
        hold_memory(e, device, tasks->home_bytes[value]);
        __builtin_prefetch(&tasks->use[tasks->use_start[value]]);
    }
    __builtin_prefetch(&e->slot_hold[tasks->input_start[task]]);
    stw_ending_push(e->ending, &e->ending_count, (stw_ending){end, device});
}

static void start_devices(engine *e) {
    for (uint64_t left = e->may_start; left != 0; left &= left - 1) {
        const int32_t d = __builtin_ctzll(left);
        if (e->order[d] != NULL) {
            const int32_t next = e->order_next[d];
            if (next == e->order_count[d] || e->state[e->order[d][next]].pending > 0) continue;
            e->order_next[d]++;
            start_task(e, d, e->order[d][next]);
        } else if (!stw_ready_is_empty(&e->ready[d])) {
            start_task(e, d, stw_ready_pop(&e->ready[d]));
        }
    }
    e->may_start = 0;
}

static void start_transfer(engine *e, int32_t channel) {
    const int32_t t = e->channel_queue[channel];
    e->channel_queue[channel] = stw_waiting_pop(e->waiting, t);
    e->transfer[t].start_ps = e->now;
    e->transfer[t].end_ps = end_of(e, e->transfer_duration[t]);
    if (e->machine->queues) e->channel_running[channel] = t;
    hold_memory(e, e->transfer[t].to, e->transfer[t].bytes);
    stw_ending_push(e->ending, &e->ending_count, (stw_ending){e->transfer[t].end_ps, e->D + t});
}

static void start_channels(engine *e) {
    for (int32_t k = 0; k < e->try_count; k++) {
        const int32_t channel = e->channel_try[k];
        e->channel_marked[channel] = false;
        do start_transfer(e, channel);
        while (!e->machine->queues && e->channel_queue[channel] >= 0);
    }
    e->try_count = 0;
}

/* ---- time 0 ---- */

/* Inputs and constants: a hold on each device that reads them. */
static void place_everywhere(engine *e, int32_t value) {
    const stw_tasks *tasks = e->tasks;
    uint64_t devices = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t d = e->state[tasks->use[u].task].device;
        if (!(devices & (1ULL << d))) {
            devices |= 1ULL << d;
            e->dest_hold[d] = e->hold_count++;
            e->hold_users[e->dest_hold[d]] = 0;
            e->copy_bytes[e->dest_hold[d] - tasks->V] = tasks->value_bytes[value];
            hold_memory(e, d, tasks->value_bytes[value]);
        }
        e->hold_users[e->dest_hold[d]]++;
        e->slot_hold[tasks->use[u].slot] = e->dest_hold[d];
    }
}

/* Parameters and buffers: held for the whole step, sent at once; their update waits for the copies to arrive. */
static void place_resident(engine *e, int32_t value, int32_t home, double priority) {
    const int32_t before = e->transfer_count;
    hold_memory(e, home, e->tasks->value_bytes[value]);
    publish_value(e, value, home, priority, 1);
    const int32_t updater = e->tasks->value_updater[value];
    if (updater >= 0) e->state[updater].pending += e->transfer_count - before;
}

static void begin(engine *e, const stw_plan *plan) {
    const stw_tasks *tasks = e->tasks;
    for (int32_t k = 0; k < tasks->source_count; k++) {
        const int32_t value = tasks->source[k], node = tasks->value_node[value];
        if (tasks->value_flags[value] & STW_VALUE_EVERYWHERE) {
            place_everywhere(e, value);
        } else {
            place_resident(e, value, plan->device[node], plan->priority[node]);
        }
    }
    for (int32_t t = 0; t < tasks->T; t++) fulfil(e, t);
}

/* ---- steps that are too long ---- */

/* A limit on the step is kept by what devices have yet to begin: none can be done with it sooner than if it ran without a pause
 * from the moment at which the device is free. And by what follows a task, were there no other; where that pays. */

/* At least so long after its producer has ended a reader will have ended: it reads this use of the value, perhaps others too. */
static int64_t follow_use(const engine *e, int32_t value, const stw_task_use *use, int32_t home) {
    const int32_t d = e->state[use->task].device;
    const int64_t after = stw_add_ps(e->tail[use->task], duration_of(e, d, use->task));
    if (d == home) return after;
    const stw_link *link = stw_machine_link(e->machine, home, d);
    const int64_t bytes = use->view < 0 ? e->tasks->value_bytes[value] : e->node_bytes[use->view];
    const int64_t whole = e->tasks->value_bytes[value];
    return stw_add_ps(after, stw_cost_transfer_ps(link, bytes < whole ? bytes : whole));
}

static void measure_tails(engine *e) {
    const stw_tasks *tasks = e->tasks;
    for (int32_t k = tasks->T - 1; k >= 0; k--) {
        const int32_t task = tasks->order[k], home = e->state[task].device;
        int64_t longest = 0;
        for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
            const int32_t value = tasks->output[o];
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
                const int64_t after = follow_use(e, value, &tasks->use[u], home);
                if (after > longest) longest = after;
            }
        }
        for (int32_t w = tasks->waiter_start[task]; w < tasks->waiter_start[task + 1]; w++) {
            const int32_t waiter = tasks->waiter[w];
            const int64_t after = stw_add_ps(e->tail[waiter], duration_of(e, e->state[waiter].device, waiter));
            if (after > longest) longest = after;
        }
        e->tail[task] = longest;
        if (longest > e->options->stop_ps - duration_of(e, home, task)) e->stopped = true;
    }
}

/* Measuring takes a sixth of a run or so: it pays where every third run need not begin. Now and then it is tried in any case. */
static bool tails_pay(stw_tail_record *record) {
    enum { TRIED_EVERY = 16 };
    record->runs = (record->runs + 1) % TRIED_EVERY;
    return record->runs == 0 || 3 * record->paid > record->measured;
}

static void note_tails(stw_tail_record *record, bool paid) {
    enum { REMEMBERED = 64 };
    record->measured++;
    record->paid += paid;
    if (record->measured < REMEMBERED) return;
    record->measured /= 2;
    record->paid /= 2;
}

static void count_work(engine *e) {
    e->deadline = e->options->stop_ps;
    for (int32_t t = 0; t < e->tasks->T; t++) {
        const int32_t d = e->state[t].device;
        e->left[d] = stw_add_ps(e->left[d], duration_of(e, d, t));
        if (e->left[d] > e->options->stop_ps) e->stopped = true;
    }
    for (int32_t d = 0; d < e->D; d++) wait_for_work(e, d);
}

/* Nothing happens before `time`, and that is too late: for a device that idles, or because the limit is passed. */
static bool is_too_long(engine *e, int64_t time) {
    if (time <= e->deadline) return false;
    e->deadline = e->options->stop_ps; /* the device that it stood for may have begun something since */
    for (int32_t d = 0; d < e->D; d++) {
        if (e->running[d] < 0) wait_for_work(e, d);
    }
    return time > e->deadline && e->finished < e->tasks->T;
}

/* ---- the loop ---- */

static void run(engine *e) {
    start_devices(e);
    start_channels(e);
    while (e->ending_count > 0 && !e->stopped) {
        const int64_t time = e->ending[0].time_ps;
        if (time > e->now) {
            if (e->limited && is_too_long(e, time)) {
                e->stopped = true;
                return;
            }
            sample_peaks(e);
            e->now = time;
        }
        while (e->ending_count > 0 && e->ending[0].time_ps == e->now) {
            const int32_t what = stw_ending_pop(e->ending, &e->ending_count);
            if (what < e->D) {
                finish_task(e, what);
            } else {
                finish_transfer(e, what - e->D);
            }
        }
        start_devices(e);
        start_channels(e);
    }
}

/* ---- memory of a run ---- */

/* Durations that the caller gives, by task. */
static bool load_given_durations(engine *e, stw_arena *arena) {
    int64_t *duration = STW_NEW_DIRTY(arena, int64_t, e->tasks->T);
    if (duration == NULL) return false;
    for (int32_t t = 0; t < e->tasks->T; t++) duration[t] = e->options->duration_ps[e->tasks->task_node[t]];
    for (int32_t d = 0; d < e->D; d++) e->duration[d] = duration;
    return true;
}

static bool allocate(engine *e, stw_arena *arena) {
    const int64_t T = e->tasks->T, V = e->tasks->V, U = e->tasks->U, channels = e->machine->channel_count;
    e->state = STW_NEW_DIRTY(arena, task_state, T);
    e->start = STW_NEW_DIRTY(arena, int64_t, T);
    e->end = STW_NEW_DIRTY(arena, int64_t, T);
    e->hold_users = STW_NEW_DIRTY(arena, int32_t, V + U);
    e->copy_bytes = STW_NEW_DIRTY(arena, int64_t, U);
    e->slot_hold = STW_NEW_DIRTY(arena, int32_t, U);
    e->transfer = STW_NEW_DIRTY(arena, stw_transfer, U);
    e->waiting = STW_NEW_DIRTY(arena, stw_waiting, U);
    e->transfer_value = STW_NEW_DIRTY(arena, int32_t, U);
    e->transfer_hold = STW_NEW_DIRTY(arena, int32_t, U);
    e->transfer_duration = STW_NEW_DIRTY(arena, int64_t, U);
    e->channel_queue = STW_NEW_DIRTY(arena, int32_t, channels);
    e->channel_running = STW_NEW_DIRTY(arena, int32_t, channels);
    e->channel_try = STW_NEW_DIRTY(arena, int32_t, channels);
    e->channel_marked = STW_NEW(arena, bool, channels);
    e->ending = STW_NEW_DIRTY(arena, stw_ending, e->D + U);
    e->ready[0].heap = STW_NEW_DIRTY(arena, stw_ready, T + 1);
    if (e->machine->charges && (e->charge = STW_NEW_DIRTY(arena, int64_t, T)) == NULL) return false;
    if (e->ready[0].heap == NULL) return false; /* the last one: if it fits, so did all before it */
    if (e->options->duration_ps != NULL && !load_given_durations(e, arena)) return false;
    if (e->options->record_memory) e->timeline->change = STW_NEW_DIRTY(arena, stw_memory_change, 2 * (T + V + U));
    return !e->options->record_memory || e->timeline->change != NULL;
}

/* A task becomes ready only after all sources are placed, so that an update sees its copies counted: until then every task is
 * held back by one. */
static void load(engine *e, const int32_t *task_device) {
    int32_t count[STW_MAX_DEVICES] = {0};
    for (int32_t t = 0; t < e->tasks->T; t++) {
        e->state[t] = (task_state){e->tasks->pending[t] + 1, task_device[t]};
        count[task_device[t]]++;
    }
    for (int32_t d = 0; d < e->D; d++) {
        if (d + 1 < e->D) e->ready[d + 1].heap = e->ready[d].heap + count[d];
        e->order_count[d] = count[d];
        e->running[d] = -1;
        if (e->options->duration_ps == NULL) e->duration[d] = e->tasks->duration_ps[e->machine->device[d].cost_class];
    }
    for (int32_t c = 0; c < e->machine->channel_count; c++) e->channel_queue[c] = e->channel_running[c] = -1;
    e->hold_count = e->tasks->V;
}

static stw_status keep_timeline(const engine *e, stw_arena *arena, stw_error *error) {
    stw_timeline *timeline = e->timeline;
    const size_t size = (size_t)e->D * sizeof(int64_t);
    STW_TRY_NEW(arena, timeline->peak_bytes, e->D, error);
    STW_TRY_NEW(arena, timeline->peak_ps, e->D, error);
    STW_TRY_NEW(arena, timeline->busy_ps, e->D, error);
    STW_TRY_NEW(arena, timeline->charged_ps, e->D, error);
    memcpy(timeline->peak_bytes, e->peak, size);
    memcpy(timeline->peak_ps, e->peak_time, size);
    memcpy(timeline->busy_ps, e->busy, size);
    memcpy(timeline->charged_ps, e->charged, size);
    timeline->charge_ps = e->charge;
    timeline->start_ps = e->start;
    timeline->end_ps = e->end;
    timeline->transfer = e->transfer;
    timeline->transfer_count = e->transfer_count;
    return STW_OK;
}

/* ---- why a run came to a halt ---- */

/* A task at the head of a strict order that never became ready. */
static int32_t find_stuck_task(const engine *e) {
    for (int32_t d = 0; d < e->D; d++) {
        if (e->order[d] != NULL && e->order_next[d] < e->order_count[d]) return e->order[d][e->order_next[d]];
    }
    return -1;
}

/* On a free device everything that was ready has run. */
static bool has_run(const engine *e, int32_t task) {
    const int32_t d = e->state[task].device;
    if (e->order[d] == NULL) return e->state[task].pending == 0;
    for (int32_t k = 0; k < e->order_next[d]; k++) {
        if (e->order[d][k] == task) return true;
    }
    return false;
}

/* Something that the stuck task needs and that has not run, or -1. */
static int32_t find_missing_task(const engine *e, int32_t stuck) {
    const stw_tasks *tasks = e->tasks;
    for (int32_t s = tasks->input_start[stuck]; s < tasks->input_start[stuck + 1]; s++) {
        const int32_t producer = tasks->value_task[tasks->slot_value[s]];
        if (producer >= 0 && !has_run(e, producer)) return producer;
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (tasks->waiter[w] == stuck && !has_run(e, t)) return t;
        }
    }
    return -1;
}

stw_status stw_engine_run(const stw_engine_input *input, stw_arena *arena, stw_timeline *timeline, stw_engine_result *out,
                          stw_error *error) {
    engine e;
    memset(&e, 0, sizeof e);
    e.machine = input->machine;
    e.tasks = input->tasks;
    e.node_bytes = input->plan->graph->bytes;
    e.options = input->options;
    e.timeline = timeline;
    e.D = input->machine->device_count;
    e.priority = input->task_priority;
    e.order = input->order;
    timeline->tasks = input->tasks;
    timeline->change_count = 0;
    if (!allocate(&e, arena)) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d tasks", e.tasks->T);
    load(&e, input->task_device);
    if (e.charge != NULL)
        stw_charge_tasks(input->machine, input->tasks, input->task_device, input->plan->device, input->options, e.charge);
    e.limited = e.options->stop_ps > 0;
    if (e.limited) count_work(&e);
    if (e.limited && !e.stopped && tails_pay(input->tails)) {
        if ((e.tail = STW_NEW_DIRTY(arena, int64_t, e.tasks->T)) == NULL)
            return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d tasks", e.tasks->T);
        measure_tails(&e);
        note_tails(input->tails, e.stopped);
    }
    if (!e.stopped) {
        begin(&e, input->plan);
        run(&e);
    }
    *out = (stw_engine_result){.step_ps = e.step,
                               .unfinished = e.tasks->T - e.finished,
                               .stuck_task = -1,
                               .missing_task = -1,
                               .overflow = e.overflow,
                               .stopped = e.stopped};
    if (out->stopped) return STW_OK;
    if (out->unfinished > 0) out->stuck_task = find_stuck_task(&e);
    if (out->stuck_task >= 0) out->missing_task = find_missing_task(&e, out->stuck_task);
    return keep_timeline(&e, arena, error);
}
