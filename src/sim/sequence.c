#include "sim/sequence.h"

#include <string.h>

#include "sim/queues.h"

/* ---- relations, each once ---- */

typedef struct {
    int32_t *start, *item; /* (n + 1), (start[n]) */
} lists;

/* Turns counts at start[k + 1] into starts. */
static void sum_up(int32_t *start, int32_t n) {
    for (int32_t k = 0; k < n; k++) start[k + 1] += start[k];
}

/* The other side of each relation: lists by item of the lists that hold it, ascending. */
static stw_status turn_around(const lists *from, int32_t n, int32_t m, stw_arena *arena, lists *out, stw_error *error) {
    STW_TRY_NEW(arena, out->start, (int64_t)m + 1, error);
    STW_TRY_NEW(arena, out->item, from->start[n], error);
    for (int32_t k = 0; k < from->start[n]; k++) out->start[from->item[k] + 1]++;
    sum_up(out->start, m);
    stw_arena scratch = *arena;
    int32_t *next;
    STW_TRY_NEW(&scratch, next, m, error);
    memcpy(next, out->start, (size_t)m * sizeof *next);
    for (int32_t k = 0; k < n; k++) {
        for (int32_t i = from->start[k]; i < from->start[k + 1]; i++) out->item[next[from->item[i]]++] = k;
    }
    return STW_OK;
}

/* `last`: (T) zeroed. */
static stw_status list_readers(const stw_tasks *tasks, int32_t *last, stw_arena *arena, lists *out, stw_error *error) {
    STW_TRY_NEW(arena, out->start, (int64_t)tasks->V + 1, error);
    STW_TRY_NEW(arena, out->item, tasks->U, error);
    int32_t count = 0;
    for (int32_t v = 0; v < tasks->V; v++) {
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int32_t reader = tasks->use[u].task;
            if (last[reader] == v + 1) continue;
            last[reader] = v + 1;
            out->item[count++] = reader;
        }
        out->start[v + 1] = count;
    }
    return STW_OK;
}

/* `last`: (T) zeroed. */
static stw_status list_after(const stw_tasks *tasks, int32_t *last, stw_arena *arena, lists *out, stw_error *error) {
    STW_TRY_NEW(arena, out->start, (int64_t)tasks->T + 1, error);
    STW_TRY_NEW(arena, out->item, (int64_t)tasks->U + tasks->waiter_start[tasks->T], error);
    int32_t count = 0;
    for (int32_t t = 0; t < tasks->T; t++) {
        last[t] = t + 1; /* a group may wait for itself: it does not */
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            for (int32_t u = tasks->use_start[tasks->output[o]]; u < tasks->use_start[tasks->output[o] + 1]; u++) {
                const int32_t reader = tasks->use[u].task;
                if (last[reader] != t + 1) out->item[count++] = reader;
                last[reader] = t + 1;
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (last[tasks->waiter[w]] != t + 1) out->item[count++] = tasks->waiter[w];
            last[tasks->waiter[w]] = t + 1;
        }
        out->start[t + 1] = count;
    }
    return STW_OK;
}

stw_status stw_sequences_build(const stw_tasks *tasks, stw_arena *arena, stw_sequences *out, stw_error *error) {
    const int32_t T = tasks->T, V = tasks->V;
    lists readers, reads, after, before;
    int32_t *last;
    STW_TRY_NEW(arena, last, T, error);
    TRY(list_readers(tasks, last, arena, &readers, error));
    memset(last, 0, (size_t)T * sizeof *last);
    TRY(list_after(tasks, last, arena, &after, error));
    TRY(turn_around(&readers, V, T, arena, &reads, error));
    TRY(turn_around(&after, T, T, arena, &before, error));
    *out = (stw_sequences){.T = T,
                           .V = V,
                           .tasks = tasks,
                           .before_start = before.start,
                           .before = before.item,
                           .after_start = after.start,
                           .after = after.item,
                           .reader_start = readers.start,
                           .reader = readers.item,
                           .read_start = reads.start,
                           .read = reads.item,
                           .writer = tasks->value_task};
    STW_TRY_NEW(arena, out->bytes, V, error);
    STW_TRY_NEW(arena, out->kept, V, error);
    for (int32_t v = 0; v < V; v++) {
        const bool written = tasks->value_task[v] >= 0, resident = (tasks->value_flags[v] & STW_VALUE_RESIDENT) != 0;
        out->kept[v] = written && (tasks->value_flags[v] & STW_VALUE_KEPT);
        out->bytes[v] = written ? tasks->home_bytes[v] : resident ? 0 : tasks->value_bytes[v];
        if (resident) out->resident_bytes += tasks->value_bytes[v];
    }
    return STW_OK;
}

/* ---- making an order ---- */

typedef struct {
    const stw_sequences *s;
    stw_sequence_rule rule;
    stw_ready_queue queue;
    int64_t age;
    int32_t *pending; /* (T) relations that are still open; -1: is in the order */
    int64_t *gain;    /* (T) bytes freed minus bytes taken */
    int32_t *open;    /* (V) forward: readers that have not run; backward: 1 until it is live */
    /* Stages, turned around where the order is made backward. */
    const int32_t *stage; /* or NULL */
    int32_t now;
    int32_t *later; /* (T) tasks that could run, but for their stage; linked lists by stage */
    int32_t *first_later;
} making;

static bool is_backward(const making *m) { return m->rule == STW_SEQUENCE_BACKWARD || m->rule == STW_SEQUENCE_BACKWARD_DEEP; }

static void push(making *m, int32_t task) {
    if (m->stage != NULL && m->stage[task] != m->now) {
        m->later[task] = m->first_later[m->stage[task]];
        m->first_later[m->stage[task]] = task;
        return;
    }
    const bool deep = m->rule == STW_SEQUENCE_FORWARD_DEEP || m->rule == STW_SEQUENCE_BACKWARD_DEEP;
    const int64_t age = m->rule == STW_SEQUENCE_IDS ? 0 : deep ? -m->age : m->age;
    m->age++;
    stw_ready_push(&m->queue, (stw_ready){m->rule == STW_SEQUENCE_IDS ? -(double)task : (double)m->gain[task], age, task});
}

/* Something changed for the better. Old entries of a task stay in the queue and are passed over. */
static void credit(making *m, int32_t task, int64_t bytes) {
    m->gain[task] += bytes;
    if (m->pending[task] != 0 || bytes == 0) return;
    if (m->stage == NULL || m->stage[task] == m->now) push(m, task);
}

static void release(making *m, int32_t task) {
    if (--m->pending[task] == 0) push(m, task);
}

static void begin_forward(making *m) {
    const stw_sequences *s = m->s;
    for (int32_t v = 0; v < s->V; v++) {
        m->open[v] = s->reader_start[v + 1] - s->reader_start[v];
        if (s->writer[v] >= 0 && (m->open[v] > 0 || s->kept[v])) m->gain[s->writer[v]] -= s->bytes[v];
        if (m->open[v] == 1 && !s->kept[v]) m->gain[s->reader[s->reader_start[v]]] += s->bytes[v];
    }
}

static void run_forward(making *m, int32_t task) {
    const stw_sequences *s = m->s;
    for (int32_t r = s->read_start[task]; r < s->read_start[task + 1]; r++) {
        const int32_t v = s->read[r];
        if (--m->open[v] != 1 || s->kept[v]) continue;
        for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1]; u++) { /* the one that is left frees it */
            if (m->pending[s->reader[u]] >= 0) credit(m, s->reader[u], s->bytes[v]);
        }
    }
    for (int32_t a = s->after_start[task]; a < s->after_start[task + 1]; a++) release(m, s->after[a]);
}

static void begin_backward(making *m) {
    const stw_sequences *s = m->s;
    for (int32_t v = 0; v < s->V; v++) {
        const bool read = s->reader_start[v + 1] > s->reader_start[v];
        m->open[v] = !s->kept[v];
        if (s->writer[v] >= 0 && (read || s->kept[v])) m->gain[s->writer[v]] += s->bytes[v];
        for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1] && m->open[v]; u++) m->gain[s->reader[u]] -= s->bytes[v];
    }
}

static void run_backward(making *m, int32_t task) {
    const stw_sequences *s = m->s;
    for (int32_t r = s->read_start[task]; r < s->read_start[task + 1]; r++) {
        const int32_t v = s->read[r];
        if (m->open[v] == 0) continue;
        m->open[v] = 0;
        for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1]; u++) {
            if (m->pending[s->reader[u]] >= 0) credit(m, s->reader[u], s->bytes[v]);
        }
    }
    for (int32_t b = s->before_start[task]; b < s->before_start[task + 1]; b++) release(m, s->before[b]);
}

static void next_stage(making *m) {
    m->now += is_backward(m) ? -1 : 1;
    for (int32_t t = m->first_later[m->now], next; t >= 0; t = next) {
        next = m->later[t];
        push(m, t);
    }
}

static void make_order(making *m, int32_t *order) {
    const stw_sequences *s = m->s;
    const bool backward = is_backward(m);
    const int32_t *start = backward ? s->after_start : s->before_start;
    if (backward) {
        begin_backward(m);
    } else {
        begin_forward(m);
    }
    for (int32_t t = 0; t < s->T; t++) m->pending[t] = start[t + 1] - start[t];
    for (int32_t t = 0; t < s->T; t++) {
        if (m->pending[t] == 0) push(m, t);
    }
    for (int32_t count = 0; count < s->T;) {
        while (stw_ready_is_empty(&m->queue)) next_stage(m);
        const int32_t task = stw_ready_pop(&m->queue);
        if (m->pending[task] < 0) continue;
        m->pending[task] = -1;
        order[backward ? s->T - 1 - count : count] = task;
        count++;
        if (backward) {
            run_backward(m, task);
        } else {
            run_forward(m, task);
        }
    }
}

stw_status stw_sequence_make(const stw_sequences *s, stw_sequence_rule rule, const int32_t *stage, int32_t *order,
                             stw_arena scratch, stw_error *error) {
    making m = {.s = s, .rule = rule, .stage = stage};
    if (s->T == 0) return STW_OK;
    STW_TRY_NEW(&scratch, m.pending, s->T, error);
    STW_TRY_NEW(&scratch, m.gain, s->T, error);
    STW_TRY_NEW(&scratch, m.open, s->V, error);
    STW_TRY_NEW(&scratch, m.later, s->T, error);
    STW_TRY_NEW(&scratch, m.first_later, s->T, error);
    /* A task enters once when it can run, and once for each of its values that is credited to it. */
    STW_TRY_NEW(&scratch, m.queue.heap, 2 * (int64_t)s->T + s->reader_start[s->V] + 1, error);
    for (int32_t t = 0; t < s->T; t++) m.first_later[t] = -1;
    m.now = stage != NULL && is_backward(&m) ? s->T - 1 : 0;
    make_order(&m, order);
    return STW_OK;
}

/* ---- what an order holds ---- */

stw_status stw_sequence_held(const stw_sequences *s, const int64_t *bytes, const int32_t *order, int64_t *held, stw_arena scratch,
                             stw_error *error) {
    int32_t *position;
    STW_TRY_NEW(&scratch, position, s->T, error);
    for (int32_t k = 0; k < s->T; k++) {
        position[order[k]] = k;
        held[k] = 0;
    }
    for (int32_t v = 0; v < s->V; v++) {
        const int32_t from = s->writer[v] < 0 ? 0 : position[s->writer[v]];
        int32_t last = s->writer[v] < 0 ? -1 : from;
        for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1]; u++) {
            if (position[s->reader[u]] > last) last = position[s->reader[u]];
        }
        if (s->kept[v]) last = s->T - 1;
        if (last < from) continue;
        held[from] += bytes[v];
        if (last + 1 < s->T) held[last + 1] -= bytes[v];
    }
    for (int32_t k = 1; k < s->T; k++) held[k] += held[k - 1];
    return STW_OK;
}
