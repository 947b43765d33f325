/* What list schedulers need to know of a problem before they begin, and what all their passes share. */
#include "plan/board.h"

#include <math.h>

/* ---- reads: what a task needs, a line per value ---- */

static double piece_bytes(const stw_board_base *base, int32_t value, int32_t view) {
    const int64_t whole = base->tasks->value_bytes[value];
    const int64_t part = view < 0 ? whole : base->costs->graph->bytes[view];
    return (double)(part < whole ? part : whole);
}

static void add_piece(stw_board_read *read, uint32_t piece, double bytes, double whole) {
    if (read->pieces & 1u) return;
    read->bytes = piece & 1u ? whole : read->bytes + bytes < whole ? read->bytes + bytes : whole;
    read->pieces = piece & 1u ? 1u : read->pieces | piece;
}

/* The reads of all tasks, each value once per task. place: (T) where the next read of a task goes. */
static void list_reads(stw_board_base *base, int32_t *place) {
    const stw_tasks *tasks = base->tasks;
    for (int32_t v = 0; v < tasks->V; v++) {
        base->piece_row[v] = -1;
        if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) continue;
        int32_t ways = 0, view = -2; /* uses are sorted by view */
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const stw_task_use *use = &tasks->use[u];
            if (use->view != view) {
                ways++;
                base->sent_bytes[v] = fmin(base->sent_bytes[v] + piece_bytes(base, v, use->view), (double)tasks->value_bytes[v]);
            }
            view = use->view;
            const uint32_t piece = view < 0 ? 1u : 1u << (ways < 31 ? ways : 31);
            int32_t *end = &place[use->task];
            if (*end == base->read_start[use->task] || base->read[*end - 1].value != v) base->read[(*end)++].value = v;
            add_piece(&base->read[*end - 1], piece, piece_bytes(base, v, view), (double)tasks->value_bytes[v]);
        }
        if (ways > 1) base->piece_row[v] = base->piece_rows++;
    }
}

static stw_status build_reads(stw_board_base *base, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    stw_board_read *read;
    int32_t *place;
    STW_TRY_NEW(arena, base->read_start, (int64_t)tasks->T + 1, error);
    STW_TRY_NEW(arena, base->piece_row, tasks->V, error);
    STW_TRY_NEW(arena, base->sent_bytes, tasks->V, error);
    STW_TRY_NEW(arena, base->read, tasks->U, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, place, (int64_t)tasks->T + 1, error);
    for (int32_t t = 0; t <= tasks->T; t++) place[t] = base->read_start[t] = tasks->input_start[t];
    list_reads(base, place);
    read = base->read; /* close up: a task has fewer reads than slots where it reads several views of a value */
    int32_t next = 0;
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t from = base->read_start[t];
        base->read_start[t] = next;
        for (int32_t r = from; r < place[t]; r++) read[next++] = read[r];
    }
    base->read_start[tasks->T] = next;
    return STW_OK;
}

/* ---- waits, the other way round ---- */

static stw_status build_waits(stw_board_base *base, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    STW_TRY_NEW(arena, base->wait_start, (int64_t)tasks->T + 2, error);
    STW_TRY_NEW(arena, base->wait, tasks->waiter_start[tasks->T], error);
    for (int32_t w = 0; w < tasks->waiter_start[tasks->T]; w++) base->wait_start[tasks->waiter[w] + 2]++;
    for (int32_t t = 0; t < tasks->T; t++) base->wait_start[t + 2] += base->wait_start[t + 1];
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++)
            base->wait[base->wait_start[tasks->waiter[w] + 1]++] = t;
    }
    return STW_OK;
}

/* ---- the order ---- */

typedef struct { /* tasks that could come next, the first at the top */
    const double *rank;
    int32_t *task;
    int32_t count;
} queue;

static bool is_before(const queue *q, int32_t a, int32_t b) { return q->rank[a] != q->rank[b] ? q->rank[a] > q->rank[b] : a < b; }

static void push(queue *q, int32_t task) {
    int32_t k = q->count++;
    for (; k > 0 && is_before(q, task, q->task[(k - 1) / 2]); k = (k - 1) / 2) q->task[k] = q->task[(k - 1) / 2];
    q->task[k] = task;
}

static int32_t pop(queue *q) {
    const int32_t top = q->task[0], last = q->task[--q->count];
    int32_t k = 0;
    for (int32_t child = 1; child < q->count; child = 2 * k + 1) {
        if (child + 1 < q->count && is_before(q, q->task[child + 1], q->task[child])) child++;
        if (!is_before(q, q->task[child], last)) break;
        q->task[k] = q->task[child];
        k = child;
    }
    q->task[k] = last;
    return top;
}

/* Highest rank first among the tasks whose needs are met, so that any ranks give a possible order. */
static stw_status build_order(stw_board_base *base, const double *rank, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    int32_t *pending;
    queue q = {.rank = rank};
    STW_TRY_NEW(arena, base->order, tasks->T, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, pending, tasks->T, error);
    STW_TRY_NEW(&scratch, q.task, tasks->T, error);
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) pending[tasks->use[u].task]++;
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        pending[t] += base->wait_start[t + 1] - base->wait_start[t];
        if (pending[t] == 0) push(&q, t);
    }
    for (int32_t count = 0; q.count > 0;) {
        const int32_t t = base->order[count++] = pop(&q);
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t v = tasks->output[o];
            for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
                if (--pending[tasks->use[u].task] == 0) push(&q, tasks->use[u].task);
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (--pending[tasks->waiter[w]] == 0) push(&q, tasks->waiter[w]);
        }
    }
    return STW_OK;
}

/* ---- tables ---- */

static stw_status build_times(stw_board_base *base, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    const stw_machine *machine = base->costs->machine;
    STW_TRY_NEW(arena, base->us, (int64_t)tasks->T * base->C, error);
    for (int32_t d = 0; d < base->D; d++) base->cost_class[d] = machine->device[d].cost_class;
    for (int32_t t = 0; t < tasks->T; t++) {
        for (int32_t c = 0; c < base->C; c++) base->us[(int64_t)t * base->C + c] = base->costs->us[c][tasks->task_node[t]];
    }
    const int64_t pairs = (int64_t)base->D * base->D, charging = machine->charges ? pairs : 0;
    STW_TRY_NEW(arena, base->latency, pairs, error);
    STW_TRY_NEW(arena, base->us_per_byte, pairs, error);
    STW_TRY_NEW(arena, base->channel, pairs, error);
    if (charging > 0) {
        STW_TRY_NEW(arena, base->send_us, charging, error);
        STW_TRY_NEW(arena, base->receive_us, charging, error);
    }
    base->tabled = machine->tabled ? machine->link : NULL;
    for (int64_t k = 0; k < pairs; k++) {
        const stw_link *link = &machine->link[k];
        if (k / base->D == k % base->D) continue;
        const bool linked = link->bandwidth > 0.0;
        base->latency[k] = linked ? link->latency_us : STW_FAR_US;
        base->us_per_byte[k] = linked ? 1e6 / link->bandwidth : 0.0;
        base->channel[k] = linked ? link->channel : 0;
        if (charging > 0) base->send_us[k] = link->send_us, base->receive_us[k] = link->receive_us;
    }
    return STW_OK;
}

static stw_status build_homes(stw_board_base *base, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    STW_TRY_NEW(arena, base->atom_bytes, base->atom_count, error);
    STW_TRY_NEW(arena, base->atom_has_op, base->atom_count, error);
    STW_TRY_NEW(arena, base->largest_reader, tasks->V, error);
    for (int32_t t = 0; t < tasks->T; t++) base->atom_has_op[base->atom[tasks->task_node[t]]] = true;
    for (int32_t v = 0; v < tasks->V; v++) {
        base->largest_reader[v] = -1;
        if (!(tasks->value_flags[v] & STW_VALUE_RESIDENT)) continue;
        base->atom_bytes[base->atom[tasks->value_node[v]]] += (double)tasks->value_bytes[v];
        double longest = -1.0;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int32_t t = tasks->use[u].task;
            const double us = base->us[(int64_t)t * base->C];
            if (us <= longest) continue;
            longest = us;
            base->largest_reader[v] = t;
        }
    }
    return STW_OK;
}

stw_status stw_board_prepare(const stw_costs *costs, const stw_tasks *tasks, const int32_t *atom, int32_t atom_count,
                             const double *rank, stw_arena *arena, stw_board_base *out, stw_error *error) {
    *out = (stw_board_base){.costs = costs, .tasks = tasks, .atom = atom, .atom_count = atom_count};
    out->D = costs->machine->device_count;
    out->C = costs->machine->cost_class_count;
    TRY(build_reads(out, arena, error));
    TRY(build_waits(out, arena, error));
    TRY(build_order(out, rank, arena, error));
    TRY(build_times(out, arena, error));
    return build_homes(out, arena, error);
}
