/* A placement as activities. Where a device is open, only what holds for all its choices is in: the op takes its least time, its
 * inputs come without transfers, and it holds no memory. So a bound of a partial placement bounds all that complete it. */
#include <string.h>

#include "method/exact.h"

typedef struct {
    const stw_exact *x;
    const stw_tasks *tasks;
    stw_exact_model *m;
    int32_t *task_device;    /* (T) or -1 */
    int32_t *transfer_first; /* (V + 1) activities that send a value: from here to the next; by destination */
    int64_t *transfer_bytes; /* (U) of activity T + k */
} builder;

static uint64_t *row_before(const builder *b, int32_t a) { return b->m->before + (int64_t)a * b->m->W; }

static bool is_everywhere(const builder *b, int32_t value) { return b->tasks->value_flags[value] & STW_VALUE_EVERYWHERE; }

static int64_t least_ps(const builder *b, int32_t t) {
    const stw_machine *machine = b->x->s->machine;
    int64_t least = STW_EXACT_LIMIT_PS;
    for (int32_t c = 0; c < machine->cost_class_count; c++) {
        if (b->tasks->duration_ps[c][t] < least) least = b->tasks->duration_ps[c][t];
    }
    return least;
}

static void load_tasks(builder *b) {
    const stw_machine *machine = b->x->s->machine;
    for (int32_t t = 0; t < b->tasks->T; t++) {
        const int32_t d = b->x->device[b->tasks->task_node[t]];
        int64_t ps = d < 0 ? least_ps(b, t) : b->tasks->duration_ps[machine->device[d].cost_class][t];
        if (ps > STW_EXACT_LIMIT_PS) ps = STW_EXACT_LIMIT_PS;
        b->task_device[t] = d;
        b->m->activity[t] = (stw_activity){.ps = ps, .resource = d, .value = -1, .to = -1};
        b->m->open |= d < 0;
    }
}

/* ---- transfers ---- */

/* Bytes for each destination of a value by the readers that are placed: the whole, or its distinct views (uses are sorted by
 * view). Returns the set of destinations. */
static uint64_t sum_bytes(const builder *b, int32_t value, int32_t home, int64_t bytes[STW_MAX_DEVICES]) {
    const stw_tasks *tasks = b->tasks;
    const int64_t whole = tasks->value_bytes[value];
    int32_t last_view[STW_MAX_DEVICES];
    uint64_t destinations = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t to = b->task_device[tasks->use[u].task], view = tasks->use[u].view;
        if (to < 0 || to == home) continue;
        if (!(destinations >> to & 1)) {
            destinations |= 1ULL << to;
            bytes[to] = 0;
            last_view[to] = -2;
        }
        if (last_view[to] == view) continue;
        last_view[to] = view;
        const int64_t part = view < 0 ? whole : b->x->s->graph->bytes[view];
        bytes[to] = part >= whole - bytes[to] ? whole : bytes[to] + part;
    }
    return destinations;
}

static void add_transfers(builder *b, int32_t value) {
    const stw_machine *machine = b->x->s->machine;
    const int32_t home = b->x->device[b->tasks->value_node[value]];
    int64_t bytes[STW_MAX_DEVICES];
    b->transfer_first[value] = b->m->A;
    if (is_everywhere(b, value)) return;
    if (home < 0) {
        b->m->open = true;
        return;
    }
    for (uint64_t left = sum_bytes(b, value, home, bytes); left != 0; left &= left - 1) {
        const int32_t to = __builtin_ctzll(left);
        const stw_link *link = stw_machine_link(machine, home, to);
        if (!(link->bandwidth > 0.0)) {
            b->m->impossible = true;
            continue;
        }
        int64_t ps = stw_cost_transfer_ps(link, bytes[to]);
        if (ps > STW_EXACT_LIMIT_PS) ps = STW_EXACT_LIMIT_PS;
        const int32_t resource = machine->queues ? machine->device_count + link->channel : -1;
        b->transfer_bytes[b->m->A - b->tasks->T] = bytes[to];
        b->m->activity[b->m->A++] = (stw_activity){.ps = ps, .resource = resource, .value = value, .to = to};
    }
}

/* ---- precedence ---- */

/* What precedes a precedes b, and so does a. */
static void precede(builder *b, int32_t first, int32_t second) {
    uint64_t *to = row_before(b, second);
    const uint64_t *from = row_before(b, first);
    for (int32_t w = 0; w < b->m->W; w++) to[w] |= from[w];
    stw_set_bit(to, first);
}

static void follow_transfer(builder *b, int32_t transfer) {
    const stw_tasks *tasks = b->tasks;
    const int32_t value = b->m->activity[transfer].value, to = b->m->activity[transfer].to;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        if (b->task_device[tasks->use[u].task] == to) precede(b, transfer, tasks->use[u].task);
    }
    if (tasks->value_updater[value] >= 0) precede(b, transfer, tasks->value_updater[value]);
}

/* What follows a value that is there. Copies of it for one channel always go by destination, since they get ready together. */
static void follow_value(builder *b, int32_t value) {
    const stw_tasks *tasks = b->tasks;
    const int32_t producer = tasks->value_task[value], home = b->x->device[tasks->value_node[value]];
    for (int32_t k = b->transfer_first[value]; k < b->transfer_first[value + 1]; k++) {
        if (producer >= 0) precede(b, producer, k);
        for (int32_t j = b->transfer_first[value]; j < k; j++) {
            const int32_t channel = b->m->activity[k].resource;
            if (channel >= 0 && channel == b->m->activity[j].resource) precede(b, j, k);
        }
        follow_transfer(b, k);
    }
    for (int32_t u = tasks->use_start[value]; producer >= 0 && u < tasks->use_start[value + 1]; u++) {
        const int32_t to = b->task_device[tasks->use[u].task];
        if (home < 0 || to < 0 || to == home) precede(b, producer, tasks->use[u].task);
    }
}

/* In topological order, so that a row is complete when it is passed on. */
static void close_precedence(builder *b) {
    const stw_tasks *tasks = b->tasks;
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_task[v] < 0) follow_value(b, v);
    }
    for (int32_t k = 0; k < tasks->T; k++) {
        const int32_t t = b->x->task_order[k];
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) follow_value(b, tasks->output[o]);
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) precede(b, t, tasks->waiter[w]);
    }
    for (int32_t a = 0; a < b->m->A; a++) {
        for (int32_t p = 0; p < b->m->A; p++) {
            if (stw_bit(row_before(b, a), p)) stw_set_bit(b->m->after + (int64_t)p * b->m->W, a);
        }
    }
}

/* ---- memory ---- */

static stw_status add_hold(builder *b, stw_hold hold, uint64_t **user, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, *user, b->m->W, error);
    hold.user = *user;
    b->m->hold[b->m->hold_count++] = hold;
    return STW_OK;
}

/* Inputs and constants: with every device that reads them. */
static stw_status hold_everywhere(builder *b, int32_t value, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = b->tasks;
    uint64_t *user[STW_MAX_DEVICES] = {NULL};
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t d = b->task_device[tasks->use[u].task];
        if (d < 0) continue;
        const stw_hold hold = {.device = d, .begin = -1, .bytes = tasks->value_bytes[value]};
        if (user[d] == NULL) TRY(add_hold(b, hold, &user[d], arena, error));
        stw_set_bit(user[d], tasks->use[u].task);
    }
    return STW_OK;
}

static stw_status hold_value(builder *b, int32_t value, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = b->tasks;
    const int32_t home = b->x->device[tasks->value_node[value]], producer = tasks->value_task[value];
    if (is_everywhere(b, value)) return hold_everywhere(b, value, arena, error);
    if (home < 0) return STW_OK;
    uint64_t *user = NULL, *copy_user = NULL;
    const stw_hold hold = {.device = home,
                           .begin = producer,
                           .bytes = tasks->home_bytes[value],
                           .forever = producer < 0 || (tasks->value_flags[value] & STW_VALUE_KEPT)};
    TRY(add_hold(b, hold, &user, arena, error));
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        if (b->task_device[tasks->use[u].task] == home) stw_set_bit(user, tasks->use[u].task);
    }
    for (int32_t k = b->transfer_first[value]; k < b->transfer_first[value + 1]; k++) {
        const int32_t to = b->m->activity[k].to;
        stw_set_bit(user, k);
        TRY(add_hold(b, (stw_hold){.device = to, .begin = k, .bytes = b->transfer_bytes[k - tasks->T]}, &copy_user, arena,
                     error));
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            if (b->task_device[tasks->use[u].task] == to) stw_set_bit(copy_user, tasks->use[u].task);
        }
    }
    return STW_OK;
}

/* ---- the whole ---- */

static stw_status list_queues(stw_exact_model *m, stw_arena *arena, stw_error *error) {
    int32_t count = 0;
    STW_TRY_NEW(arena, m->queued, m->A, error);
    STW_TRY_NEW(arena, m->queue_start, m->A + 1, error);
    for (int32_t a = 0; a < m->A; a++) {
        if (m->activity[a].resource < 0) continue;
        int32_t place = count++;
        for (; place > 0 && m->activity[m->queued[place - 1]].resource > m->activity[a].resource; place--)
            m->queued[place] = m->queued[place - 1];
        m->queued[place] = a;
    }
    for (int32_t k = 0; k < count; k++) {
        if (k > 0 && m->activity[m->queued[k]].resource == m->activity[m->queued[k - 1]].resource) continue;
        m->queue_start[m->queue_count++] = k;
    }
    m->queue_start[m->queue_count] = count;
    return STW_OK;
}

stw_status stw_exact_build(const stw_exact *x, stw_arena *arena, stw_exact_model *out, stw_error *error) {
    const stw_tasks *tasks = x->tasks;
    builder b = {.x = x, .tasks = tasks, .m = out};
    *out = (stw_exact_model){.A = tasks->T};
    STW_TRY_NEW(arena, out->activity, (int64_t)tasks->T + tasks->U, error);
    STW_TRY_NEW(arena, b.task_device, tasks->T, error);
    STW_TRY_NEW(arena, b.transfer_first, tasks->V + 1, error);
    STW_TRY_NEW(arena, b.transfer_bytes, tasks->U, error);
    load_tasks(&b);
    for (int32_t v = 0; v < tasks->V; v++) add_transfers(&b, v);
    b.transfer_first[tasks->V] = out->A;
    if (out->impossible) return STW_OK;
    out->W = (out->A + 63) / 64;
    STW_TRY_NEW(arena, out->before, (int64_t)out->A * out->W, error);
    STW_TRY_NEW(arena, out->after, (int64_t)out->A * out->W, error);
    close_precedence(&b);
    TRY(list_queues(out, arena, error));
    if (x->roomy) return STW_OK;
    STW_TRY_NEW(arena, out->hold, (int64_t)tasks->V + tasks->U, error);
    for (int32_t v = 0; v < tasks->V; v++) TRY(hold_value(&b, v, arena, error));
    return STW_OK;
}

stw_status stw_exact_copy(const stw_exact_model *from, stw_arena *arena, stw_exact_model *out, stw_error *error) {
    const int64_t count = (int64_t)from->A * from->W;
    *out = *from;
    STW_TRY_NEW(arena, out->before, count, error);
    STW_TRY_NEW(arena, out->after, count, error);
    if (count > 0) {
        memcpy(out->before, from->before, (size_t)count * sizeof *out->before);
        memcpy(out->after, from->after, (size_t)count * sizeof *out->after);
    }
    return STW_OK;
}

/* Every p that is a or before a comes before every q that is b or after b. */
static void close_over(uint64_t *rows, int32_t W, int32_t A, const uint64_t *some, int32_t one, const uint64_t *added,
                       int32_t also) {
    for (int32_t p = 0; p < A; p++) {
        if (p != one && !stw_bit(some, p)) continue;
        uint64_t *row = rows + (int64_t)p * W;
        for (int32_t w = 0; w < W; w++) row[w] |= added[w];
        stw_set_bit(row, also);
    }
}

void stw_exact_decide(stw_exact_model *m, int32_t a, int32_t b) {
    const uint64_t *before_a = m->before + (int64_t)a * m->W, *after_b = m->after + (int64_t)b * m->W;
    close_over(m->after, m->W, m->A, before_a, a, after_b, b);
    close_over(m->before, m->W, m->A, after_b, b, before_a, a);
}
