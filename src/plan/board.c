#include "plan/board.h"

#include <math.h>
#include <string.h>

/* First the base: what list schedulers need to know of a problem before they begin, and what all their passes share; then the
 * board of one pass. */

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

/* ---- an empty board ---- */

/* Atoms whose home another plan gives are bound from the start. */
static void bind_glued(stw_board *b) {
    const stw_tasks *tasks = b->base->tasks;
    for (int32_t k = 0; k < tasks->source_count; k++) {
        const int32_t v = tasks->source[k], node = tasks->value_node[v];
        if (!(tasks->value_flags[v] & STW_VALUE_RESIDENT)) continue;
        const int32_t atom = b->base->atom[node], device = b->rules.glued[node];
        if (b->atom_device[atom] >= 0) continue;
        b->atom_device[atom] = device;
        b->held[device] += b->base->atom_bytes[atom];
    }
}

static void count_readers(stw_board *b) {
    const stw_board_base *base = b->base;
    for (int32_t r = 0; r < base->read_start[base->tasks->T]; r++) b->value[base->read[r].value].readers++;
}

/* A task makes one of each value that it reads, at most. */
static int64_t most_copies(const stw_board_base *base) {
    const stw_tasks *tasks = base->tasks;
    const int64_t pairs = (int64_t)tasks->V * base->D, slots = tasks->input_start[tasks->T];
    return pairs < slots ? pairs : slots;
}

stw_status stw_board_create(const stw_board_base *base, const stw_board_rules *rules, stw_arena *arena, stw_board *out,
                            stw_error *error) {
    const stw_tasks *tasks = base->tasks;
    const int32_t D = base->D, channels = base->costs->machine->channel_count;
    *out = (stw_board){.base = base, .rules = *rules};
    STW_TRY_NEW(arena, out->atom_device, base->atom_count, error);
    STW_TRY_NEW(arena, out->task_device, tasks->T, error);
    STW_TRY_NEW(arena, out->task_end, tasks->T, error);
    STW_TRY_NEW(arena, out->value, tasks->V, error);
    STW_TRY_NEW(arena, out->there, (int64_t)base->piece_rows * D, error);
    out->device = STW_NEW_DIRTY(arena, stw_calendar, D);
    out->channel = STW_NEW_DIRTY(arena, stw_calendar, (int64_t)channels + 1);
    STW_TRY_NEW(arena, out->sent, (int64_t)channels + 1, error);
    STW_TRY_NEW(arena, out->sent_look, (int64_t)channels + 1, error);
    STW_TRY_NEW(arena, out->copies, tasks->V, error);
    out->copy = STW_NEW_DIRTY(arena, stw_board_copy, most_copies(base)); /* what is not used of it never becomes memory */
    if (out->device == NULL || out->channel == NULL || out->copy == NULL)
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    for (int32_t d = 0; d < D; d++) stw_calendar_clear(&out->device[d]);
    for (int32_t c = 0; c <= channels; c++) stw_calendar_clear(&out->channel[c]);
    memset(out->atom_device, -1, (size_t)base->atom_count * sizeof *out->atom_device);
    for (int32_t k = 0; k < tasks->source_count; k++) {
        out->value[tasks->source[k]].device = -1;
    }
    if (rules->memory) count_readers(out);
    if (rules->home == STW_HOME_GLUED && rules->glued != NULL) bind_glued(out);
    return STW_OK;
}

/* ---- copies ---- */

/* The copy of a value on a device, or NULL. */
static stw_board_copy *find_copy(const stw_board *b, int32_t v, int32_t device) {
    int32_t k = b->copies[v];
    while (k > 0 && b->copy[k - 1].device != device) k = b->copy[k - 1].next;
    return k > 0 ? &b->copy[k - 1] : NULL;
}

static void add_copy(stw_board *b, int32_t v, int32_t device, double there) {
    b->copy[b->copy_count++] = (stw_board_copy){there, device, b->copies[v]};
    b->copies[v] = b->copy_count;
}

/* Since when a value that has a home is on a device; -1: it is not. */
static double arrival_on(const stw_board *b, int32_t v, int32_t device) {
    if (b->value[v].device == device) return b->value[v].ready;
    const stw_board_copy *copy = find_copy(b, v, device);
    return copy != NULL ? copy->there : -1.0;
}

/* The same for the devices from `first` to `last`, into `row`. */
static void list_arrivals(const stw_board *b, int32_t v, int32_t first, int32_t last, double *row) {
    if (first == last) {
        row[first] = arrival_on(b, v, first);
        return;
    }
    for (int32_t d = first; d <= last; d++) row[d] = -1.0;
    for (int32_t k = b->copies[v]; k > 0; k = b->copy[k - 1].next) row[b->copy[k - 1].device] = b->copy[k - 1].there;
    row[b->value[v].device] = b->value[v].ready;
}

/* ---- looking ---- */

/* The home of a value; -1 while that of a parameter is still open. */
static inline int32_t home_of(stw_board *b, int32_t v) {
    stw_board_value *value = &b->value[v];
    if (value->device >= 0) return value->device;
    const int32_t device = b->atom_device[b->base->atom[b->base->tasks->value_node[v]]];
    if (device < 0) return -1;
    value->device = device;
    if (b->base->piece_row[v] >= 0) b->there[(int64_t)b->base->piece_row[v] * b->base->D + device] = 1u;
    return device;
}

/* Will the home of a parameter be where this task goes? */
static bool takes_home(const stw_board *b, int32_t task, int32_t v) {
    switch (b->rules.home) {
        case STW_HOME_UPDATE: return !b->base->atom_has_op[b->base->atom[b->base->tasks->value_node[v]]];
        case STW_HOME_LARGEST: return b->base->largest_reader[v] == task;
        case STW_HOME_FIRST:
        case STW_HOME_GLUED: break;
    }
    return true;
}

/* What is read is on the device in all its pieces. */
static inline bool is_there(const stw_board *b, const stw_board_read *read, int32_t device) {
    const int32_t row = b->base->piece_row[read->value];
    if (row < 0) return true;
    const uint32_t there = b->there[(int64_t)row * b->base->D + device];
    return (there & 1u) || (read->pieces & ~there) == 0;
}

static void look_at_read(stw_board *b, const stw_board_read *read, bool alone, int32_t first, int32_t last) {
    const stw_board_base *base = b->base;
    const stw_board_value *value = &b->value[read->value];
    double row[STW_MAX_DEVICES];
    const int64_t links = (int64_t)value->device * base->D;
    list_arrivals(b, read->value, first, last, row);
    for (int32_t d = first; d <= last; d++) {
        double ready = row[d];
        if (ready < 0.0 || !is_there(b, read, d)) {
            /* A further piece travels with the first: it pays no latency of its own. */
            const double us = (ready < 0.0 ? base->latency[links + d] : 0.0) + stw_board_bytes_us(base, links + d, read->bytes);
            const bool charges = base->send_us != NULL && ready < 0.0;
            const double send_us = charges && base->tasks->value_task[read->value] >= 0 ? base->send_us[links + d] : 0.0;
            const double receive_us = charges ? base->receive_us[links + d] : 0.0;
            double begin = value->ready + send_us;
            if (b->rules.queues) {
                const int32_t c = base->channel[links + d];
                const int64_t look = b->look_count * STW_MAX_DEVICES + d;
                begin = !alone && b->sent_look[c] == look ? stw_larger(begin, b->sent[c])
                                                          : stw_calendar_start(&b->channel[c], b->rules.channel_gaps, begin, us);
                if (!alone) {
                    b->sent[c] = begin + us;
                    b->sent_look[c] = look;
                }
            }
            ready = begin + us;
            b->comm[d] += us + send_us + receive_us;
            b->charge[d] += receive_us;
            b->need[d] += read->bytes;
        }
        if (ready > b->ready[d]) b->ready[d] = ready;
    }
}

/* Bytes that are the same on every device (outputs, homes that are still open), and inputs that are not there yet. */
static void look_at_memory(stw_board *b, int32_t task, int32_t first, int32_t last) {
    const stw_tasks *tasks = b->base->tasks;
    const int32_t own = b->base->atom[tasks->task_node[task]];
    double same = b->atom_device[own] < 0 ? b->base->atom_bytes[own] : 0.0;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++)
        same += (double)tasks->home_bytes[tasks->output[o]];
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t v = tasks->slot_value[slot];
        if (tasks->value_flags[v] & STW_VALUE_RESIDENT) {
            const int32_t atom = b->base->atom[tasks->value_node[v]];
            if (atom != own && b->atom_device[atom] < 0) same += b->base->atom_bytes[atom];
        } else if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) {
            for (int32_t d = first; d <= last; d++)
                if (find_copy(b, v, d) == NULL) b->need[d] += (double)tasks->value_bytes[v];
        }
    }
    for (int32_t d = first; d <= last; d++) b->need[d] += same;
}

void stw_board_look(stw_board *b, int32_t task, int32_t first, int32_t last) {
    const stw_board_base *base = b->base;
    double waited = 0.0;
    for (int32_t w = base->wait_start[task]; w < base->wait_start[task + 1]; w++)
        waited = stw_larger(waited, b->task_end[base->wait[w]]);
    for (int32_t d = first; d <= last; d++) {
        b->ready[d] = waited;
        b->comm[d] = b->charge[d] = b->need[d] = 0.0;
    }
    b->look_count++;
    const int32_t from = base->read_start[task], to = base->read_start[task + 1];
    for (int32_t r = from; r < to; r++) {
        if (home_of(b, base->read[r].value) >= 0) look_at_read(b, &base->read[r], to - from == 1, first, last);
    }
    if (b->rules.memory) look_at_memory(b, task, first, last);
}

double stw_board_start(const stw_board *b, int32_t device, double ready, double us) {
    return stw_calendar_start(&b->device[device], b->rules.insertion, ready, us);
}

/* ---- placing ---- */

static void bind_atom(stw_board *b, int32_t atom, int32_t device) {
    if (atom < 0 || b->atom_device[atom] >= 0) return;
    b->atom_device[atom] = device;
    b->held[device] += b->base->atom_bytes[atom];
}

/* Brings one value to the device; returns when it is there. *charge: what receiving it adds to the reader. */
static double fetch(stw_board *b, const stw_board_read *read, int32_t device, double *charge) {
    const stw_board_base *base = b->base;
    const stw_board_value *value = &b->value[read->value];
    const double there = arrival_on(b, read->value, device);
    if (there >= 0.0 && is_there(b, read, device)) return there;
    const int64_t link = (int64_t)value->device * base->D + device;
    const bool linked = base->latency[link] < STW_FAR_US; /* if not, the plan is invalid anyway */
    const double us = linked ? (there < 0.0 ? base->latency[link] : 0.0) + stw_board_bytes_us(base, link, read->bytes) : 0.0;
    double begin = value->ready;
    if (base->send_us != NULL && linked && there < 0.0) {
        const double send_us = base->tasks->value_task[read->value] >= 0 ? base->send_us[link] : 0.0;
        *charge += base->receive_us[link];
        begin += send_us;
        if (send_us > 0.0) stw_calendar_take(&b->device[value->device], b->rules.insertion, value->ready, send_us);
    }
    double end = begin + us;
    if (b->rules.queues && linked) end = stw_calendar_take(&b->channel[base->channel[link]], b->rules.channel_gaps, begin, us);
    b->held[device] += read->bytes;
    const int32_t row = base->piece_row[read->value];
    if (row >= 0) b->there[(int64_t)row * base->D + device] |= read->pieces;
    stw_board_copy *copy = find_copy(b, read->value, device);
    if (copy == NULL) {
        add_copy(b, read->value, device, end);
        return end;
    }
    return copy->there = stw_larger(there, end);
}

/* What nobody reads any more is given back on all devices. */
static void drop_reader(stw_board *b, const stw_board_read *read) {
    const stw_board_base *base = b->base;
    const stw_tasks *tasks = base->tasks;
    stw_board_value *value = &b->value[read->value];
    if (--value->readers > 0 || value->device < 0) return;
    for (int32_t k = b->copies[read->value]; k > 0; k = b->copy[k - 1].next)
        b->held[b->copy[k - 1].device] -= read->bytes; /* of its last reader: others may have read other views */
    if (tasks->value_flags[read->value] & (STW_VALUE_RESIDENT | STW_VALUE_KEPT)) return;
    b->held[value->device] -= (double)tasks->home_bytes[read->value];
}

/* Inputs and constants take memory on each device that reads them; they are not given back here. */
static void hold_inputs(stw_board *b, int32_t task, int32_t device) {
    const stw_tasks *tasks = b->base->tasks;
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t v = tasks->slot_value[slot];
        if (!(tasks->value_flags[v] & STW_VALUE_EVERYWHERE) || find_copy(b, v, device) != NULL) continue;
        add_copy(b, v, device, 0.0);
        b->held[device] += (double)tasks->value_bytes[v];
    }
}

static void publish(stw_board *b, int32_t task, int32_t device, double end) {
    const stw_tasks *tasks = b->base->tasks;
    const int32_t D = b->base->D;
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t v = tasks->output[o];
        if (b->base->piece_row[v] >= 0) b->there[(int64_t)b->base->piece_row[v] * D + device] = 1u;
        b->value[v].ready = end;
        b->value[v].device = device;
        b->held[device] += (double)tasks->home_bytes[v];
        if (b->rules.memory && b->value[v].readers == 0 && !(tasks->value_flags[v] & STW_VALUE_KEPT))
            b->held[device] -= (double)tasks->home_bytes[v];
    }
}

void stw_board_place(stw_board *b, int32_t task, int32_t device) {
    const stw_board_base *base = b->base;
    double ready = 0.0, charge = 0.0;
    bind_atom(b, base->atom[base->tasks->task_node[task]], device);
    for (int32_t w = base->wait_start[task]; w < base->wait_start[task + 1]; w++)
        ready = stw_larger(ready, b->task_end[base->wait[w]]);
    for (int32_t r = base->read_start[task]; r < base->read_start[task + 1]; r++) {
        const stw_board_read *read = &base->read[r];
        int32_t home = home_of(b, read->value);
        if (home < 0 && takes_home(b, task, read->value)) {
            bind_atom(b, base->atom[base->tasks->value_node[read->value]], device);
            home = home_of(b, read->value);
        }
        if (home >= 0) ready = stw_larger(ready, fetch(b, read, device, &charge));
    }
    const double us = stw_board_us(base, task, device) + charge;
    const double end = stw_calendar_take(&b->device[device], b->rules.insertion, ready, us);
    b->task_device[task] = device;
    b->task_end[task] = end;
    b->end_us = stw_larger(b->end_us, end);
    publish(b, task, device, end);
    if (!b->rules.memory) return;
    hold_inputs(b, task, device);
    for (int32_t r = base->read_start[task]; r < base->read_start[task + 1]; r++) drop_reader(b, &base->read[r]);
}

void stw_board_devices(const stw_board *b, int32_t *device) {
    const stw_graph *graph = b->base->costs->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t atom = b->base->atom[graph->root[i]];
        const bool bound = atom >= 0 && b->atom_device[atom] >= 0;
        device[i] = bound ? b->atom_device[atom] : 0;
    }
}
