/* One sequence that is annealed: its changes, and which of them are accepted. */
#include <math.h>
#include <string.h>

#include "method/breed/breed.h"

stw_status stw_breeding_create(const stw_breed *b, stw_arena *arena, stw_breeding *out, stw_error *error) {
    *out = (stw_breeding){.b = b};
    TRY(stw_sequence_create(b, arena, &out->now, error));
    TRY(stw_sequence_create(b, arena, &out->best, error));
    TRY(stw_sweep_create(b, arena, &out->sweep, error));
    TRY(stw_sweep_create(b, arena, &out->trial, error));
    STW_TRY_NEW(arena, out->critical, b->T, error);
    STW_TRY_NEW(arena, out->branch, b->T, error);
    STW_TRY_NEW(arena, out->moved, b->I, error);
    STW_TRY_NEW(arena, out->moved_from, b->I, error);
    return STW_OK;
}

/* ---- chance ---- */

static int32_t below(stw_breeding *a, int32_t bound) {
    return (int32_t)(((stw_rng_next(&a->rng) >> 32) * (uint64_t)bound) >> 32); /* as good as even: bounds are small */
}
static bool chance(stw_breeding *a, uint32_t of_256) { return (stw_rng_next(&a->rng) >> 56) < of_256; }

/* The tasks that the step hangs on, from the last to the first. */
static void find_critical(stw_breeding *a) {
    a->critical_count = 0;
    for (int32_t t = a->sweep.last; t >= 0; t = a->sweep.cause[t]) a->critical[a->critical_count++] = t;
}

/* Half of the time one that the step hangs on. */
static int32_t choose_task(stw_breeding *a) {
    if (a->critical_count > 0 && chance(a, 128)) return a->critical[below(a, a->critical_count)];
    return below(a, a->b->T);
}

/* ---- changes ---- */

/* Puts a task elsewhere; those between make room. */
static void put(stw_sequence *q, int32_t task, int32_t to) {
    int32_t k = q->place[task];
    for (; k < to; k++) q->place[q->task[k] = q->task[k + 1]] = k;
    for (; k > to; k--) q->place[q->task[k] = q->task[k - 1]] = k;
    q->task[to] = task;
    q->place[task] = to;
}

/* Where a task may be in the sequence with all others as they are. */
static void find_window(const stw_breeding *a, int32_t t, int32_t *first, int32_t *last) {
    const stw_breed *b = a->b;
    *first = 0;
    *last = b->T - 1;
    for (int32_t k = b->before_start[t]; k < b->before_start[t + 1]; k++) {
        const int32_t place = a->now.place[b->before[k]];
        if (place >= *first) *first = place + 1;
    }
    for (int32_t k = b->after_start[t]; k < b->after_start[t + 1]; k++) {
        const int32_t place = a->now.place[b->after[k]];
        if (place <= *last) *last = place - 1;
    }
}

static void shift(stw_breeding *a, int32_t t, int32_t to) {
    if (a->now.place[t] == to) return;
    a->shifted = t;
    a->shifted_from = a->now.place[t];
    put(&a->now, t, to);
}

/* Passes at least one task of its own device; else nothing would change, unless something waits for a channel. */
static bool passes_one(const stw_breeding *a, int32_t t, int32_t to) {
    const int32_t own = a->now.device[a->b->task_item[t]], from = a->now.place[t];
    if (a->b->queues) return from != to;
    for (int32_t k = from < to ? from + 1 : to; k <= (from < to ? to : from - 1); k++) {
        if (a->now.device[a->b->task_item[a->now.task[k]]] == own) return true;
    }
    return false;
}

static void shift_anywhere(stw_breeding *a, int32_t t) {
    int32_t first, last;
    find_window(a, t, &first, &last);
    if (last > first) shift(a, t, first + below(a, last - first + 1));
}

static void shift_past(stw_breeding *a, int32_t t) {
    int32_t first, last;
    find_window(a, t, &first, &last);
    if (last <= first) return;
    for (int tries = 0; tries < 4; tries++) {
        const int32_t to = first + below(a, last - first + 1);
        if (!passes_one(a, t, to)) continue;
        shift(a, t, to);
        return;
    }
}

static void move(stw_breeding *a, int32_t item, int32_t device) {
    if (a->now.device[item] == device) return;
    a->moved[a->moved_count] = item;
    a->moved_from[a->moved_count++] = a->now.device[item];
    a->now.device[item] = device;
}

static int32_t choose_neighbour(stw_breeding *a, int32_t t) {
    const stw_breed *b = a->b;
    const int32_t before = b->before_start[t + 1] - b->before_start[t], after = b->after_start[t + 1] - b->after_start[t];
    if (before + after == 0) return -1;
    const int32_t k = below(a, before + after);
    return k < before ? b->before[b->before_start[t] + k] : b->after[b->after_start[t] + k - before];
}

/* Half of the time where something is that the task needs or that needs it. */
static int32_t choose_device(stw_breeding *a, int32_t t) {
    const int32_t own = a->now.device[a->b->task_item[t]];
    if (chance(a, 128)) {
        const int32_t other = choose_neighbour(a, t);
        if (other >= 0 && a->now.device[a->b->task_item[other]] != own) return a->now.device[a->b->task_item[other]];
    }
    const int32_t d = below(a, a->b->D - 1);
    return d < own ? d : d + 1;
}

/* What lies there and is read by the task alone, or by others too, goes with it half of the time. */
static void bring_sources(stw_breeding *a, int32_t t, int32_t device) {
    const stw_breed *b = a->b;
    for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
        const int32_t v = b->read_value[r];
        if (b->tasks->value_task[v] < 0 && a->moved_count < b->I - 1 && chance(a, 128)) move(a, b->value_item[v], device);
    }
}

static void move_task(stw_breeding *a, int32_t t) {
    const int32_t to = choose_device(a, t);
    move(a, a->b->task_item[t], to);
    bring_sources(a, t, to);
    if (chance(a, 128)) shift_anywhere(a, t);
}

/* Two tasks exchange their devices, and one of them takes a place near the other's. */
static void swap_tasks(stw_breeding *a, int32_t t) {
    const int32_t u = below(a, a->b->T), one = a->b->task_item[t], other = a->b->task_item[u];
    const int32_t device = a->now.device[one];
    int32_t first, last;
    if (device == a->now.device[other]) {
        shift_past(a, t);
        return;
    }
    move(a, one, a->now.device[other]);
    move(a, other, device);
    if (!chance(a, 128)) return;
    find_window(a, t, &first, &last);
    const int32_t to = a->now.place[u];
    shift(a, t, to < first ? first : to > last ? last : to);
}

static void move_pair(stw_breeding *a, int32_t t) {
    const int32_t to = choose_device(a, t), other = choose_neighbour(a, t);
    move(a, a->b->task_item[t], to);
    if (other >= 0 && a->b->task_item[other] != a->b->task_item[t]) move(a, a->b->task_item[other], to);
}

/* The device of something near that runs elsewhere: a walk from `t` ends there. */
static int32_t walk_away(stw_breeding *a, int32_t t, int32_t own) {
    enum { STEPS = 12 };
    for (int k = 0; k < STEPS; k++) {
        const int32_t next = choose_neighbour(a, t);
        if (next < 0) break;
        t = next;
        if (a->now.device[a->b->task_item[t]] != own) return a->now.device[a->b->task_item[t]];
    }
    return own;
}

/* What runs on `own` and is next to `task` comes along to `to`, but for what is with `cut`. */
static void take_along(stw_breeding *a, const int32_t *next, const int32_t *end, int32_t own, int32_t cut, int32_t to) {
    for (; next < end; next++) {
        const int32_t item = a->b->task_item[*next];
        if (a->now.device[item] != own || item == a->b->task_item[cut]) continue;
        move(a, item, to);
        a->branch[a->branch_count++] = *next;
    }
}

static bool is_hub(const stw_breed *b, int32_t t) {
    enum { MANY = 6 };
    return b->before_start[t + 1] - b->before_start[t] + b->after_start[t + 1] - b->after_start[t] > MANY;
}

/* What hangs together on one device is cut at a task, and the part on the side of `t` goes elsewhere as a whole. Where transfers
 * are dear, no way leads there task by task: each step would send something. In a tree the cut is an edge, and the part a branch.
 * Of what surrounds a hub, as in a fork, nearly all would move: there tasks go one by one. */
static void move_branch(stw_breeding *a, int32_t t) {
    const stw_breed *b = a->b;
    const int32_t own = a->now.device[b->task_item[t]], cut = choose_neighbour(a, t);
    if (cut < 0 || b->task_item[cut] == b->task_item[t] || is_hub(b, t) || is_hub(b, cut)) {
        move_task(a, t);
        return;
    }
    const int32_t to = chance(a, 128) ? walk_away(a, t, own) : below(a, b->D);
    if (to == own) return;
    move(a, b->task_item[t], to);
    a->branch[0] = t;
    a->branch_count = 1;
    for (int32_t k = 0; k < a->branch_count; k++) {
        const int32_t task = a->branch[k];
        take_along(a, b->before + b->before_start[task], b->before + b->before_start[task + 1], own, cut, to);
        take_along(a, b->after + b->after_start[task], b->after + b->after_start[task + 1], own, cut, to);
    }
}

/* From some place of the sequence on, to its end or to another place, two devices exchange what they run. */
static void swap_stretch(stw_breeding *a, int32_t t) {
    const stw_breed *b = a->b;
    const int32_t one = a->now.device[b->task_item[t]], other = choose_device(a, t), from = a->now.place[t];
    const int32_t end = chance(a, 128) ? from + 1 + below(a, b->T - from) : b->T;
    for (int32_t k = from; k < end; k++) {
        const int32_t item = b->task_item[a->now.task[k]], device = a->now.device[item];
        bool known = false; /* an item of several tasks moves once */
        for (int32_t j = 0; b->together && j < a->moved_count && !known; j++) known = a->moved[j] == item;
        if (known || (device != one && device != other)) continue;
        move(a, item, device == one ? other : one);
    }
}

/* An item without tasks: a parameter that several read. */
static void move_source(stw_breeding *a) {
    const int32_t item = a->b->mover[below(a, a->b->mover_count)], d = below(a, a->b->D);
    move(a, item, d);
}

/* Of 100 changes 29 exchange stretches: per trial these lead to better sequences twice as often as any other. */
static void change(stw_breeding *a) {
    const int32_t kind = below(a, 100), t = choose_task(a);
    a->moved_count = 0;
    a->shifted = -1;
    if (a->b->D == 1 || kind < 22) {
        shift_past(a, t);
    } else if (kind < (a->moves_branches ? 47 : 53)) {
        move_task(a, t);
    } else if (kind < 53) {
        move_branch(a, t);
    } else if (kind < 66) {
        swap_tasks(a, t);
    } else if (kind < 70) {
        move_pair(a, t);
    } else if (kind < 99) {
        swap_stretch(a, t);
    } else {
        move_source(a);
    }
}

static void take_back(stw_breeding *a) {
    if (a->shifted >= 0) put(&a->now, a->shifted, a->shifted_from);
    for (int32_t k = a->moved_count - 1; k >= 0; k--) a->now.device[a->moved[k]] = a->moved_from[k];
}

/* The place of the first task that the change can delay or hasten. */
static int32_t find_first(const stw_breeding *a) {
    const int32_t first = stw_sequence_first_touched(a->b, &a->now, a->moved, a->moved_count);
    if (a->shifted < 0) return first;
    const int32_t to = a->now.place[a->shifted], shifted = to < a->shifted_from ? to : a->shifted_from;
    return shifted < first ? shifted : first;
}

/* ---- annealing ---- */

/* Most changes leave the step as it is. Among these, and beside what they add to it, those are favoured after which devices end
 * early, and evenly: the root of the mean square of their ends, in part. */
static int64_t ends_ps(const stw_breeding *a, const stw_sweep *sweep) {
    static const double PART = 0.3;
    double sum = 0.0;
    for (int32_t d = 0; d < a->b->D; d++) sum += (double)sweep->free_ps[d] * (double)sweep->free_ps[d];
    return (int64_t)(PART * sqrt(sum / a->b->D));
}

/* The pass of the trial becomes that of the sequence. */
static void accept(stw_breeding *a, int64_t ps, int64_t ends) {
    const stw_sweep sweep = a->sweep;
    a->sweep = a->trial;
    a->trial = sweep;
    a->now.ps = ps;
    a->ends_ps = ends;
    find_critical(a);
    if (ps < a->best.ps) stw_sequence_copy(a->b, &a->best, &a->now);
}

/* Metropolis: what is longer by x is accepted with chance exp(-x / heat), so that is known before the trial. */
static int64_t draw_slack(stw_breeding *a, double heat_ps) {
    const double u = stw_rng_uniform(&a->rng) + 0x1p-54;
    return (int64_t)(-log(u) * heat_ps);
}

/* The step alone is within the slack, so that most trials end early; and with the ends of devices, unless it is the best. */
static bool try_change(stw_breeding *a, int64_t slack_ps) {
    const int64_t ps = stw_sequence_retime(a->b, &a->now, find_first(a), &a->sweep, a->now.ps + slack_ps, &a->trial);
    if (ps == STW_BREED_NEVER_PS) return false;
    const int64_t ends = ends_ps(a, &a->trial);
    if (ps >= a->best.ps && ps + ends > a->now.ps + a->ends_ps + slack_ps) return false;
    accept(a, ps, ends);
    return true;
}

void stw_breeding_anneal(stw_breeding *a, double heat, int64_t trials, int64_t enough_ps, const stw_search *search) {
    enum { COOL_EVERY = 64, LOOK_EVERY = 1024 };
    static const double COLDEST = 0.02; /* of the first heat */
    const int64_t unlimited = STW_MAX_STEP_PS;
    a->now.ps = stw_sequence_time(a->b, &a->now, unlimited, &a->sweep);
    stw_sequence_copy(a->b, &a->best, &a->now);
    a->trials = 1;
    if (a->now.ps == STW_BREED_NEVER_PS) return; /* a link is missing */
    a->ends_ps = ends_ps(a, &a->sweep);
    find_critical(a);
    const double hottest = heat * (double)a->now.ps;
    double heat_ps = hottest;
    for (; a->trials < trials && a->best.ps > enough_ps; a->trials++) {
        if (a->trials % COOL_EVERY == 0) heat_ps = hottest * pow(COLDEST, (double)a->trials / (double)trials);
        if (a->trials % LOOK_EVERY == 0 && stw_search_is_stopped(search)) return;
        change(a);
        if (a->moved_count == 0 && a->shifted < 0) continue;
        if (!try_change(a, draw_slack(a, heat_ps))) take_back(a);
    }
}
