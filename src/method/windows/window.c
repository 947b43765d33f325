/* One window: what the step takes with its tasks elsewhere or in another order, and the search for what is better. */
#include <string.h>

#include "method/windows/windows.h"

stw_status stw_window_create(const stw_look *look, int32_t room, stw_arena *arena, stw_window *out, stw_error *error) {
    const int32_t channels = look->s->machine->channel_count;
    *out = (stw_window){.look = look, .room = room};
    STW_TRY_NEW(arena, out->task, room, error);
    STW_TRY_NEW(arena, out->number, look->T, error);
    STW_TRY_NEW(arena, out->order, room, error);
    STW_TRY_NEW(arena, out->turn, room, error);
    STW_TRY_NEW(arena, out->device, room, error);
    STW_TRY_NEW(arena, out->end_ps, room, error);
    STW_TRY_NEW(arena, out->cause, room, error);
    STW_TRY_NEW(arena, out->over_link, room, error);
    STW_TRY_NEW(arena, out->arrival_ps, (int64_t)room * look->D, error);
    STW_TRY_NEW(arena, out->free_ps, look->D, error);
    STW_TRY_NEW(arena, out->ran, look->D, error);
    STW_TRY_NEW(arena, out->channel_ps, channels, error);
    STW_TRY_NEW(arena, out->critical, room, error);
    STW_TRY_NEW(arena, out->best_order, room, error);
    STW_TRY_NEW(arena, out->best_device, room, error);
    for (int32_t t = 0; t < look->T; t++) out->number[t] = -1;
    return STW_OK;
}

/* ---- where things are ---- */

static int32_t device_of(const stw_window *w, int32_t task) {
    const int32_t number = w->number[task];
    return number >= 0 ? w->device[number] : w->look->device[task];
}

/* The bytes of a value that are sent: all of it, or the views that tasks there read. */
static int64_t bytes_to(const stw_window *w, int32_t value, int32_t device) {
    const stw_tasks *tasks = w->look->tasks;
    const int64_t whole = tasks->value_bytes[value];
    int64_t bytes = 0;
    int32_t last = -2; /* uses are sorted by view */
    if (!w->look->partly[value]) return whole;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t view = tasks->use[u].view;
        if (view == last || device_of(w, tasks->use[u].task) != device) continue;
        last = view;
        const int64_t part = view < 0 ? whole : w->look->s->graph->bytes[view];
        bytes = part >= whole - bytes ? whole : bytes + part;
    }
    return bytes;
}

static int64_t sending_ps(const stw_window *w, int32_t value, int32_t from, int32_t to) {
    return stw_cost_transfer_ps(stw_machine_link(w->look->s->machine, from, to), bytes_to(w, value, to));
}

/* When a value from before the window is on a device. One that was not sent there is sent as soon as it exists: what its channel
 * did then is not known here. */
static int64_t known_arrival_ps(const stw_window *w, int32_t value, int32_t home, int32_t device) {
    const stw_look *look = w->look;
    const int32_t producer = look->tasks->value_task[value];
    for (int32_t k = look->arrival_start[value]; k < look->arrival_start[value + 1]; k++) {
        if (look->arrival[k].device == device) return look->arrival[k].ps;
    }
    return (producer < 0 ? 0 : look->end_ps[producer]) + sending_ps(w, value, home, device);
}

/* The reader with the smallest id on a device pays for receiving. */
static bool receives(const stw_window *w, int32_t value, int32_t task, int32_t device) {
    const stw_tasks *tasks = w->look->tasks;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        if (tasks->use[u].task < task && device_of(w, tasks->use[u].task) == device) return false;
    }
    return true;
}

/* ---- running the window ---- */

typedef struct {
    int64_t ready_ps, charge_ps;
    int32_t cause;
    bool over_link;
} readiness;

static void wait_until(readiness *r, int64_t ps, int32_t cause, bool over_link) {
    if (ps <= r->ready_ps) return;
    *r = (readiness){ps, r->charge_ps, cause, over_link};
}

static void read_value(const stw_window *w, int32_t task, int32_t device, int32_t value, readiness *r) {
    const stw_look *look = w->look;
    if (look->home[value] < 0) return; /* everywhere */
    const int32_t producer = look->tasks->value_task[value], number = producer < 0 ? -1 : w->number[producer];
    const int32_t home = number >= 0 ? w->device[number] : look->home[value];
    if (home == device) {
        if (producer >= 0) wait_until(r, number >= 0 ? w->end_ps[number] : look->end_ps[producer], number, false);
        return;
    }
    if (look->charges && receives(w, value, task, device))
        r->charge_ps += stw_cost_us_to_ps(stw_machine_link(look->s->machine, home, device)->receive_us);
    if (number >= 0) {
        wait_until(r, w->arrival_ps[(int64_t)number * look->D + device], number, true);
    } else {
        wait_until(r, known_arrival_ps(w, value, home, device), -1, true);
    }
}

static readiness find_ready(const stw_window *w, int32_t task, int32_t device) {
    const stw_look *look = w->look;
    const stw_tasks *tasks = look->tasks;
    readiness r = {.cause = -1};
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++)
        read_value(w, task, device, tasks->slot_value[slot], &r);
    for (int32_t k = look->wait_start[task]; k < look->wait_start[task + 1]; k++) {
        const int32_t number = w->number[look->wait[k]];
        wait_until(&r, number >= 0 ? w->end_ps[number] : look->end_ps[look->wait[k]], number, false);
    }
    return r;
}

/* A bit per device, but its own, that reads what the task writes. */
static uint64_t devices_that_read(const stw_window *w, int32_t task, int32_t device) {
    const stw_tasks *tasks = w->look->tasks;
    uint64_t there = 0;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t value = tasks->output[o];
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++)
            there |= 1ull << device_of(w, tasks->use[u].task);
    }
    return there & ~(1ull << device);
}

/* Sends what the task has written to wherever it is read. */
static void send(const stw_window *w, int32_t number, uint64_t to) {
    const stw_look *look = w->look;
    const stw_tasks *tasks = look->tasks;
    const int32_t task = w->task[number], from = w->device[number];
    for (; to != 0; to &= to - 1) {
        const int32_t device = __builtin_ctzll(to);
        int64_t *arrival = &w->arrival_ps[(int64_t)number * look->D + device];
        int64_t *channel = &w->channel_ps[stw_machine_link(look->s->machine, from, device)->channel];
        *arrival = 0;
        for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
            const int64_t begin = look->queues && *channel > w->end_ps[number] ? *channel : w->end_ps[number];
            *arrival = begin + sending_ps(w, tasks->output[o], from, device);
            *channel = *arrival;
        }
    }
}

/* The step, as far as it hangs on what leaves the window with this task. */
static int64_t step_behind(const stw_window *w, int32_t number) {
    const stw_look *look = w->look;
    const stw_tasks *tasks = look->tasks;
    const int32_t task = w->task[number], from = w->device[number];
    int64_t step = w->end_ps[number];
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t value = tasks->output[o];
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const int32_t reader = tasks->use[u].task, to = look->device[reader];
            if (w->number[reader] >= 0) continue;
            const int64_t there = to == from ? w->end_ps[number] : w->arrival_ps[(int64_t)number * look->D + to];
            if (there + look->left_ps[reader] > step) step = there + look->left_ps[reader];
        }
    }
    for (int32_t k = tasks->waiter_start[task]; k < tasks->waiter_start[task + 1]; k++) {
        const int32_t waiter = tasks->waiter[k];
        if (w->number[waiter] < 0 && w->end_ps[number] + look->left_ps[waiter] > step)
            step = w->end_ps[number] + look->left_ps[waiter];
    }
    return step;
}

static int64_t run_task(stw_window *w, int32_t number) {
    const stw_look *look = w->look;
    const int32_t task = w->task[number], d = w->device[number];
    const uint64_t to = devices_that_read(w, task, d);
    const readiness r = find_ready(w, task, d);
    const bool waits = r.ready_ps > w->free_ps[d];
    int64_t ps = look->tasks->duration_ps[look->s->machine->device[d].cost_class][task] + r.charge_ps;
    for (uint64_t left = look->charges ? to : 0; left != 0; left &= left - 1)
        ps += stw_cost_us_to_ps(stw_machine_link(look->s->machine, d, __builtin_ctzll(left))->send_us);
    w->cause[number] = waits ? r.cause : w->ran[d];
    w->over_link[number] = waits && r.over_link;
    w->end_ps[number] = w->free_ps[d] = (waits ? r.ready_ps : w->free_ps[d]) + ps;
    w->ran[d] = number;
    send(w, number, to);
    return step_behind(w, number);
}

/* The step with the window as it is now; given up beyond `limit`. */
static int64_t run_window(stw_window *w, int64_t limit) {
    const stw_look *look = w->look;
    int64_t step = 0;
    memcpy(w->free_ps, w->begin_ps, (size_t)look->D * sizeof *w->free_ps);
    memset(w->channel_ps, 0, (size_t)look->s->machine->channel_count * sizeof *w->channel_ps);
    for (int32_t d = 0; d < look->D; d++) w->ran[d] = -1;
    w->worst = -1;
    for (int32_t k = 0; k < w->count && step <= limit; k++) {
        const int64_t behind = run_task(w, w->order[k]);
        if (behind <= step) continue;
        step = behind;
        w->worst = w->order[k];
    }
    w->excess = 0.0;
    for (int32_t d = 0; d < look->D && step <= limit; d++) {
        const int64_t behind = w->free_ps[d] + w->behind_ps[d];
        if (behind > w->floor_ps) w->excess += (double)(behind - w->floor_ps);
        if (w->behind_ps[d] == 0 || behind <= step) continue;
        step = behind;
        w->worst = w->ran[d];
    }
    return step;
}

static void find_critical(stw_window *w) {
    w->critical_count = 0;
    for (int32_t k = w->worst; k >= 0; k = w->cause[k])
        w->critical[w->critical_count++] = (stw_critical_task){k, w->cause[k], w->over_link[k]};
}

/* ---- changes ---- */

enum { MOST_MOVED = 64 }; /* tasks at once */

typedef struct { /* what must be taken back if it does not help */
    int32_t count;
    int32_t number[MOST_MOVED], device[MOST_MOVED];
    int32_t from, to; /* turns between which the order was turned round; equal: it was not */
} change;

/* The task that ran at `from` runs at `to`, and what is in between one turn later or sooner. */
static void rotate(stw_window *w, int32_t from, int32_t to) {
    const int32_t number = w->order[from], step = to < from ? -1 : 1;
    for (int32_t k = from; k != to; k += step) {
        w->order[k] = w->order[k + step];
        w->turn[w->order[k]] = k;
    }
    w->order[to] = number;
    w->turn[number] = to;
}

static void take_back(stw_window *w, const change *c) {
    if (c->from != c->to) rotate(w, c->to, c->from);
    for (int32_t k = c->count - 1; k >= 0; k--) w->device[c->number[k]] = c->device[k];
}

/* A task and what must be with it. */
static void move(stw_window *w, int32_t number, int32_t device, change *c) {
    const stw_look *look = w->look;
    const int32_t task = w->task[number], count = look->atom_count[task], *atom = look->atom + look->atom_start[task];
    if (w->device[number] == device || c->count + count > MOST_MOVED) return;
    for (int32_t k = 0; k < count; k++) {
        if (w->number[atom[k]] < 0) return; /* some of it is elsewhere in the sequence */
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t other = w->number[atom[k]];
        c->number[c->count] = other;
        c->device[c->count++] = w->device[other];
        w->device[other] = device;
    }
}

/* Where something is that the task reads or that reads it; now and then anywhere. */
static int32_t choose_device(const stw_window *w, int32_t number, stw_rng *rng) {
    const stw_tasks *tasks = w->look->tasks;
    const int32_t task = w->task[number];
    const int32_t reads = tasks->input_start[task + 1] - tasks->input_start[task];
    const int32_t outputs = tasks->output_start[task + 1] - tasks->output_start[task];
    const int64_t kind = stw_rng_below(rng, 8);
    if (kind < 4 && reads > 0) {
        const int32_t value = tasks->slot_value[tasks->input_start[task] + stw_rng_below(rng, reads)];
        const int32_t producer = tasks->value_task[value];
        if (w->look->home[value] >= 0) return producer >= 0 ? device_of(w, producer) : w->look->home[value];
    }
    if (kind < 7 && outputs > 0) {
        const int32_t value = tasks->output[tasks->output_start[task]];
        const int32_t uses = tasks->use_start[value + 1] - tasks->use_start[value];
        if (uses > 0) return device_of(w, tasks->use[tasks->use_start[value] + stw_rng_below(rng, uses)].task);
    }
    return (int32_t)stw_rng_below(rng, w->look->D);
}

/* What the step hangs on, one task after the other on one device, goes elsewhere together: mostly to where the first of them
 * waits for something. */
static bool move_critical(stw_window *w, stw_rng *rng, change *c) {
    int32_t k = (int32_t)stw_rng_below(rng, w->critical_count);
    const stw_critical_task first = w->critical[k];
    const int32_t from = w->device[first.number];
    const bool follows = first.cause >= 0 && first.over_link && stw_rng_below(rng, 4) > 0;
    const int32_t to = follows ? w->device[first.cause] : choose_device(w, first.number, rng);
    int32_t length = 1 << stw_rng_below(rng, 5);
    for (; k >= 0 && length > 0 && w->device[w->critical[k].number] == from; k--, length--) move(w, w->critical[k].number, to, c);
    return c->count > 0;
}

static bool move_any(stw_window *w, stw_rng *rng, change *c) {
    const int32_t number = (int32_t)stw_rng_below(rng, w->count);
    move(w, number, choose_device(w, number, rng), c);
    return c->count > 0;
}

/* The turn of the last task in the window that this one needs; -1: none. */
static int32_t last_needed(const stw_window *w, int32_t number) {
    const stw_look *look = w->look;
    const stw_tasks *tasks = look->tasks;
    const int32_t task = w->task[number];
    int32_t last = -1;
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t producer = tasks->value_task[tasks->slot_value[slot]], n = producer < 0 ? -1 : w->number[producer];
        if (n >= 0 && w->turn[n] > last) last = w->turn[n];
    }
    for (int32_t k = look->wait_start[task]; k < look->wait_start[task + 1]; k++) {
        const int32_t n = w->number[look->wait[k]];
        if (n >= 0 && w->turn[n] > last) last = w->turn[n];
    }
    return last;
}

/* A task that the step hangs on and whose device was busy goes before what it waited for. */
static bool go_sooner(stw_window *w, stw_rng *rng, change *c) {
    const stw_critical_task at = w->critical[stw_rng_below(rng, w->critical_count)];
    const int32_t number = at.number, cause = at.cause;
    if (cause < 0 || at.over_link || w->device[cause] != w->device[number]) return false;
    const int32_t least = last_needed(w, number) + 1, from = w->turn[number];
    int32_t to = w->turn[cause];
    if (to < least) return false;
    if (stw_rng_below(rng, 2) == 0) to = least + (int32_t)stw_rng_below(rng, to - least + 1);
    rotate(w, from, to);
    c->from = from;
    c->to = to;
    return true;
}

static bool change_something(stw_window *w, stw_rng *rng, change *c) {
    const int64_t kind = stw_rng_below(rng, 8);
    *c = (change){0};
    if (w->critical_count == 0 || kind == 7) return move_any(w, rng, c);
    return kind < 5 ? move_critical(w, rng, c) : go_sooner(w, rng, c);
}

/* ---- the search ---- */

static void enter(stw_window *w, int32_t index) {
    const stw_look *look = w->look;
    const int32_t first = w->first = look->first[index], count = w->count = look->first[index + 1] - first;
    for (int32_t k = 0; k < count; k++) {
        const int32_t task = look->sequence[first + k];
        w->task[k] = task;
        w->number[task] = w->order[k] = w->turn[k] = k;
        w->device[k] = look->device[task];
    }
    w->begin_ps = look->begin_ps + (int64_t)index * look->D;
    w->behind_ps = look->behind_ps + (int64_t)index * look->D;
}

static void leave(stw_window *w, bool changed) {
    for (int32_t k = 0; k < w->count; k++) {
        const int32_t task = w->task[k];
        w->number[task] = -1;
        if (!changed) continue;
        w->look->moved_to[task] = w->best_device[k];
        w->look->next[w->first + k] = w->task[w->best_order[k]];
    }
}

static void keep(stw_window *w) {
    memcpy(w->best_order, w->order, (size_t)w->count * sizeof *w->order);
    memcpy(w->best_device, w->device, (size_t)w->count * sizeof *w->device);
}

/* Of steps that are equal the one whose devices are done sooner is better: where many of them are busy all the time, the step
 * only becomes shorter when all do. */
typedef struct {
    int64_t step_ps;
    double excess;
} worth;

static bool is_better(worth a, worth b) { return a.step_ps != b.step_ps ? a.step_ps < b.step_ps : a.excess < b.excess; }

static worth measure(stw_window *w, int64_t limit) {
    const int64_t step = run_window(w, limit);
    return (worth){step, w->excess};
}

bool stw_window_improve(stw_window *w, int32_t index, int64_t trials, stw_rng rng, const stw_search *search) {
    enum { TRIALS_PER_LOOK = 16 };   /* at the clock */
    static const double HEAT = 0.01; /* of what the window takes, in the beginning */
    enter(w, index);
    const worth before = measure(w, INT64_MAX);
    const int64_t span = w->end_ps[w->count - 1] - w->end_ps[0];
    w->floor_ps = before.step_ps - (span > 0 ? span : 0);
    worth now = measure(w, INT64_MAX), best = now;
    const worth first = now;
    find_critical(w);
    for (int64_t k = 0; k < trials; k++) {
        change c;
        if (k % TRIALS_PER_LOOK == 0 && stw_search_is_stopped(search)) break;
        if (!change_something(w, &rng, &c)) continue;
        const double heat = HEAT * (1.0 - (double)k / (double)trials);
        const int64_t limit = now.step_ps + (span > 0 ? (int64_t)(heat * (double)span) : 0);
        const worth found = measure(w, limit);
        if (found.step_ps > limit || (found.step_ps >= now.step_ps && found.excess > now.excess * (1.0 + heat))) {
            take_back(w, &c);
            continue;
        }
        now = found;
        find_critical(w);
        if (!is_better(now, best)) continue;
        best = now;
        keep(w);
    }
    const bool better = is_better(best, first);
    leave(w, better);
    return better;
}
