#include "method/anneal/sight.h"

#include <math.h>

#include "plan/plan.h"

enum { BINS = STW_SIGHT_BINS };

static double mean_latency(const stw_machine *machine) {
    double sum = 0.0;
    int32_t links = 0;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        const stw_link *link = &machine->link[k];
        if (k % (machine->device_count + 1) == 0 || link->bandwidth <= 0.0) continue; /* to itself; no link */
        sum += stw_link_fixed_us(link);
        links++;
    }
    return links > 0 ? sum / links : 0.0;
}

stw_status stw_sight_create(const stw_simulator *simulator, stw_arena *arena, stw_sight *s, stw_error *error) {
    const stw_tasks *tasks = &simulator->unfused;
    const int32_t T = tasks->T, D = simulator->machine->device_count, N = simulator->graph->N;
    *s = (stw_sight){.latency_us = mean_latency(simulator->machine)};
    STW_TRY_NEW(arena, s->start, T, error);
    STW_TRY_NEW(arena, s->end, T, error);
    STW_TRY_NEW(arena, s->slack, T, error);
    STW_TRY_NEW(arena, s->give, T, error);
    STW_TRY_NEW(arena, s->before, T, error);
    STW_TRY_NEW(arena, s->behind, T, error);
    STW_TRY_NEW(arena, s->critical, T, error);
    STW_TRY_NEW(arena, s->load, D, error);
    STW_TRY_NEW(arena, s->fill, D, error);
    STW_TRY_NEW(arena, s->busy, (int64_t)D * BINS, error);
    STW_TRY_NEW(arena, s->on_path, (int64_t)D * BINS, error);
    STW_TRY_NEW(arena, s->least_give, (int64_t)D * BINS, error);
    STW_TRY_NEW(arena, s->node_stamp, N, error);
    STW_TRY_NEW(arena, s->old_device, N, error);
    STW_TRY_NEW(arena, s->value_stamp, tasks->V, error);
    STW_TRY_NEW(arena, s->task, T, error);
    return STW_OK;
}

static void mark_path(const stw_seen *seen, int32_t T, stw_sight *s) {
    for (int32_t t = 0; t < T; t++) {
        s->before[t] = s->behind[t] = -1;
        s->critical[t] = 0;
    }
    for (int32_t k = 0; k < seen->critical_count; k++) {
        const int32_t t = seen->critical[k];
        s->critical[t] = 1;
        if (k + 1 == seen->critical_count || seen->critical[k + 1] == t) continue; /* ops of a group stand for its first */
        s->before[t] = seen->critical[k + 1];
        s->behind[seen->critical[k + 1]] = t;
    }
}

typedef struct { /* the latest end that delays nothing */
    float free, ordered;
} latest;

static float takes(const stw_sight *s, int32_t task) { return s->end[task] - s->start[task]; }

static latest sooner(const stw_sight *s, latest l, int32_t reader, float by) {
    return (latest){fminf(l.free, s->slack[reader] - by), fminf(l.ordered, s->give[reader] - by)};
}

/* By what a task is needed for; those are done. Adds what is sent to *sent. */
static latest latest_of(const stw_simulator *simulator, const stw_seen *seen, const stw_sight *s, int32_t task, double *sent) {
    const stw_tasks *k = &simulator->unfused;
    const int32_t *device = seen->plan->device, own = device[k->task_node[task]];
    latest l = {1.0f, 1.0f};
    for (int32_t o = k->output_start[task]; o < k->output_start[task + 1]; o++) {
        const int32_t value = k->output[o];
        uint64_t sent_to = 0;
        double longest[STW_MAX_DEVICES]; /* what is sent to a device, is sent once: all that is read there */
        for (int32_t u = k->use_start[value]; u < k->use_start[value + 1]; u++) {
            const int32_t reader = k->use[u].task, there = device[k->task_node[reader]];
            const double transfer =
                stw_sight_transfer(s, simulator->machine, own, there, stw_sight_bytes(simulator, value, &k->use[u]));
            const double before = sent_to >> there & 1 ? longest[there] : 0.0;
            longest[there] = fmax(before, transfer);
            sent_to |= 1ULL << there;
            *sent += longest[there] - before;
            l = sooner(s, l, reader, takes(s, reader) + (float)transfer);
        }
    }
    for (int32_t w = k->waiter_start[task]; w < k->waiter_start[task + 1]; w++)
        l = sooner(s, l, k->waiter[w], takes(s, k->waiter[w]));
    return l;
}

/* From the last start to the first; `slack` and `give` are latest ends until all are known. */
static void find_slack(const stw_simulator *simulator, const stw_seen *seen, stw_sight *s) {
    const stw_tasks *k = &simulator->unfused;
    int32_t next[STW_MAX_DEVICES];
    double sent = 0.0;
    for (int32_t d = 0; d < STW_MAX_DEVICES; d++) next[d] = -1;
    for (int32_t i = k->T - 1; i >= 0; i--) {
        const int32_t t = seen->order[i], d = seen->plan->device[k->task_node[t]];
        latest l = latest_of(simulator, seen, s, t, &sent);
        if (next[d] >= 0) l.ordered = fminf(l.ordered, s->give[next[d]] - takes(s, next[d]));
        next[d] = t;
        s->slack[t] = l.free;
        s->give[t] = l.ordered;
    }
    for (int32_t t = 0; t < k->T; t++) {
        s->slack[t] = fmaxf(0.0f, s->slack[t] - s->end[t]);
        s->give[t] = fmaxf(0.0f, s->give[t] - s->end[t]);
    }
    s->sent = (float)(sent / simulator->machine->device_count);
}

static void fill_bins(const stw_simulator *simulator, const stw_seen *seen, stw_sight *s) {
    const stw_tasks *k = &simulator->unfused;
    const int32_t D = simulator->machine->device_count;
    for (int32_t d = 0; d < D; d++) s->load[d] = 0.0f;
    for (int32_t i = 0; i < D * BINS; i++) {
        s->busy[i] = s->on_path[i] = 0.0f;
        s->least_give[i] = 1.0f;
    }
    for (int32_t t = 0; t < k->T; t++) {
        const int32_t row = seen->plan->device[k->task_node[t]] * BINS, first = stw_sight_bin(s->start[t]);
        const float from = s->start[t] * BINS, to = s->end[t] * BINS;
        s->load[row / BINS] += takes(s, t);
        s->least_give[row + first] = fminf(s->least_give[row + first], s->give[t]);
        for (int32_t b = first; b < BINS && (float)b < to; b++) {
            const float part = fminf(to, (float)b + 1.0f) - fmaxf(from, (float)b);
            s->busy[row + b] += part;
            if (s->critical[t]) s->on_path[row + b] += part;
        }
    }
}

static void sum_up(const stw_simulator *simulator, const stw_seen *seen, stw_sight *s) {
    const int32_t D = simulator->machine->device_count, T = simulator->unfused.T;
    float sum = 0.0f;
    s->most_load = 0.0f;
    for (int32_t d = 0; d < D; d++) {
        const double memory = (double)simulator->machine->device[d].memory_bytes;
        s->fill[d] = memory > 0.0 ? (float)((double)seen->peak_bytes[d] / memory) : 0.0f;
        s->most_load = fmaxf(s->most_load, s->load[d]);
        sum += s->load[d];
    }
    s->mean_load = sum / (float)D;
    s->mean_task = sum / (float)(T > 0 ? T : 1);
}

void stw_sight_take(const stw_simulator *simulator, const stw_seen *seen, stw_sight *s) {
    const int32_t T = simulator->unfused.T;
    const double step_ps = (double)(seen->step_ps > 0 ? seen->step_ps : 1);
    s->step_us = step_ps * 1e-6;
    for (int32_t t = 0; t < T; t++) {
        s->start[t] = (float)((double)seen->start_ps[t] / step_ps);
        s->end[t] = (float)((double)seen->end_ps[t] / step_ps);
    }
    mark_path(seen, T, s);
    find_slack(simulator, seen, s);
    fill_bins(simulator, seen, s);
    sum_up(simulator, seen, s);
}
