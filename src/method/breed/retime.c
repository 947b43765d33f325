/* What a sequence takes after a change: a pass that begins at the first task that the change can delay or hasten. */
#include "method/breed/breed.h"

/* ---- what is computed once ---- */

static void add_touched(stw_breed *b, int32_t item, int32_t task, int32_t *count) {
    for (int32_t k = b->touch_start[item]; k < *count; k++) {
        if (b->touch[k] == task) return;
    }
    b->touch[(*count)++] = task;
}

/* Whether a value lies elsewhere than the task that makes it runs. */
static bool lies_apart(const stw_breed *b, int32_t value) {
    const int32_t producer = b->tasks->value_task[value];
    return producer < 0 || b->task_item[producer] != b->value_item[value];
}

/* The tasks of an item, and those that read what lies with it; what reads the results of its tasks comes later anyway. */
static stw_status list_touched(stw_breed *b, stw_arena *arena, stw_error *error) {
    int32_t count = 0;
    STW_TRY_NEW(arena, b->touch_start, b->I + 1, error);
    STW_TRY_NEW(arena, b->touch, b->T + b->read_start[b->T], error);
    for (int32_t i = 0; i < b->I; i++) {
        b->touch_start[i] = count;
        for (int32_t t = 0; t < b->T; t++) {
            if (b->task_item[t] == i) add_touched(b, i, t, &count);
            for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
                if (b->value_item[b->read_value[r]] == i && lies_apart(b, b->read_value[r])) add_touched(b, i, t, &count);
            }
        }
    }
    b->touch_start[b->I] = count;
    return STW_OK;
}

static stw_status pack_reads(stw_breed *b, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, b->read, b->read_start[b->T], error);
    for (int32_t r = 0; r < b->read_start[b->T]; r++) {
        const int32_t v = b->read_value[r], producer = b->tasks->value_task[v];
        b->read[r] = (stw_breed_read){.way_ps = b->alike && b->D > 1 ? b->whole_ps[v] : 0,
                                      .value = v,
                                      .item = b->value_item[v],
                                      .producer = producer < 0 ? b->T : producer};
    }
    return STW_OK;
}

stw_status stw_breed_prepare_retime(stw_breed *b, stw_arena *arena, stw_error *error) {
    b->plain = !b->charges && !b->queues;
    for (int32_t t = 0; t < b->T; t++) b->plain &= b->updated[t] < 0;
    for (int32_t r = 0; r < b->read_start[b->T]; r++) b->plain &= !b->partly[b->read_value[r]];
    if (!b->plain) return STW_OK;
    TRY(list_touched(b, arena, error));
    return pack_reads(b, arena, error);
}

/* ---- the pass ---- */

int32_t stw_sequence_first_touched(const stw_breed *b, const stw_sequence *q, const int32_t *moved, int32_t count) {
    int32_t first = b->T;
    if (!b->plain) return 0;
    for (int32_t k = 0; k < count; k++) {
        for (int32_t j = b->touch_start[moved[k]]; j < b->touch_start[moved[k] + 1]; j++) {
            if (q->place[b->touch[j]] < first) first = q->place[b->touch[j]];
        }
    }
    return first;
}

/* When a value is on device d; -1: never. */
static inline int64_t arrival_of(const stw_breed *b, const stw_sequence *q, const stw_breed_read *read, int32_t d, bool alike,
                                 const stw_sweep *sweep) {
    const int32_t home = q->device[read->item];
    const int64_t ready = sweep->end_ps[read->producer];
    if (alike) return ready + (home == d ? 0 : read->way_ps);
    if (home == d) return ready;
    const int32_t kind = b->link_kind[home * b->D + d];
    return kind < 0 ? -1 : ready + b->whole_ps[(int64_t)kind * b->V + read->value];
}

/* The first task that is touched comes too late by what it reads alone: so do many that move. */
static inline bool is_late_at_once(const stw_breed *b, const stw_sequence *q, int32_t t, const stw_sweep *known, int64_t limit_ps,
                                   bool alike) {
    const int32_t d = q->device[b->task_item[t]];
    for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
        if (arrival_of(b, q, &b->read[r], d, alike, known) > limit_ps - b->left_ps[t]) return true;
    }
    return false;
}

/* What ended before stays as it was. */
static int64_t keep_beginning(const stw_breed *b, const stw_sequence *q, int32_t count, const stw_sweep *known,
                              stw_sweep *sweep) {
    int64_t step = 0;
    sweep->last = -1;
    sweep->end_ps[b->T] = 0; /* of parameters, buffers and inputs: they have no task */
    for (int32_t d = 0; d < b->D; d++) {
        sweep->free_ps[d] = 0;
        sweep->ran[d] = -1;
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t t = q->task[k], d = q->device[b->task_item[t]];
        const int64_t end = known->end_ps[t];
        sweep->end_ps[t] = sweep->free_ps[d] = end;
        sweep->cause[t] = known->cause[t];
        sweep->ran[d] = t;
        if (end > step || sweep->last < 0) step = end, sweep->last = t;
    }
    return step;
}

static inline int64_t pass(const stw_breed *b, const stw_sequence *q, int32_t from, int64_t step, int64_t limit_ps, bool alike,
                           stw_sweep *sweep) {
    for (int32_t k = from; k < b->T; k++) {
        const int32_t t = q->task[k], d = q->device[b->task_item[t]];
        int64_t start = sweep->free_ps[d];
        int32_t cause = sweep->ran[d];
        for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
            const int64_t there = arrival_of(b, q, &b->read[r], d, alike, sweep);
            if (there < 0) return STW_BREED_NEVER_PS;
            if (there > start) start = there, cause = b->read[r].producer;
        }
        for (int32_t w = b->wait_start[t]; w < b->wait_start[t + 1]; w++) {
            if (sweep->end_ps[b->wait[w]] > start) start = sweep->end_ps[b->wait[w]], cause = b->wait[w];
        }
        if (start > limit_ps - b->left_ps[t]) return STW_BREED_NEVER_PS;
        const int64_t end = start + b->duration_ps[alike ? t : (int64_t)d * b->T + t];
        sweep->end_ps[t] = sweep->free_ps[d] = end;
        sweep->cause[t] = cause == b->T ? -1 : cause;
        sweep->ran[d] = t;
        if (end > step || sweep->last < 0) step = end, sweep->last = t;
    }
    return step > limit_ps ? STW_BREED_NEVER_PS : step;
}

static inline int64_t retime(const stw_breed *b, const stw_sequence *q, int32_t from, const stw_sweep *known, int64_t limit_ps,
                             bool alike, stw_sweep *sweep) {
    if (from < b->T && is_late_at_once(b, q, q->task[from], known, limit_ps, alike)) return STW_BREED_NEVER_PS;
    return pass(b, q, from, keep_beginning(b, q, from, known, sweep), limit_ps, alike, sweep);
}

int64_t stw_sequence_retime(const stw_breed *b, const stw_sequence *q, int32_t from, const stw_sweep *known, int64_t limit_ps,
                            stw_sweep *sweep) {
    if (!b->plain) return stw_sequence_time(b, q, limit_ps, sweep);
    return b->alike ? retime(b, q, from, known, limit_ps, true, sweep) : retime(b, q, from, known, limit_ps, false, sweep);
}
