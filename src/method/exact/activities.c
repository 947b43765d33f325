/* A placement, whole or partial, as activities with precedence, and what no completion of it can beat. */
#include <string.h>

#include "method/exact/exact.h"

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

/* ---- charges ---- */

static void charge(builder *b, int32_t task, double us) {
    stw_activity *activity = &b->m->activity[task];
    activity->ps = stw_exact_add(activity->ps, stw_cost_us_to_ps(us));
    if (activity->ps > STW_EXACT_LIMIT_PS) activity->ps = STW_EXACT_LIMIT_PS;
}

/* What no completion can take back: every transfer that there is charges its sender. It charges its receiver only where no reader
 * with a smaller id is open, since that one would take the charge over if it came to the same device. */
static void charge_value(builder *b, int32_t value) {
    const stw_tasks *tasks = b->tasks;
    const int32_t producer = tasks->value_task[value], home = b->x->device[tasks->value_node[value]];
    int32_t first_open = INT32_MAX;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t task = tasks->use[u].task;
        if (b->task_device[task] < 0 && task < first_open) first_open = task;
    }
    for (int32_t k = b->transfer_first[value]; k < b->transfer_first[value + 1]; k++) {
        const int32_t to = b->m->activity[k].to;
        const stw_link *link = stw_machine_link(b->x->s->machine, home, to);
        int32_t receiver = INT32_MAX;
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const int32_t task = tasks->use[u].task;
            if (b->task_device[task] == to && task < receiver) receiver = task;
        }
        if (producer >= 0) charge(b, producer, link->send_us);
        if (receiver < first_open) charge(b, receiver, link->receive_us);
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
    for (int32_t v = 0; x->s->machine->charges && v < tasks->V; v++) charge_value(&b, v);
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

/* ---- what no completion can beat ---- */

/* Bounds: what no completion of a partial decision can beat, and what follows from having to beat the best plan.
 *
 * Heads and tails are longest paths. A resource carries one activity at a time, so those with head at least h and tail at least q
 * need h + (sum of their times) + q; the largest of these over all (h, q) is the preemptive one-machine bound of Jackson. Over
 * all devices together the sum is shared, which is all that is known of ops whose device is open. */

stw_status stw_exact_times_create(int32_t A, stw_arena *arena, stw_exact_times *out, stw_error *error) {
    STW_TRY_NEW(arena, out->head, A, error);
    STW_TRY_NEW(arena, out->tail, A, error);
    STW_TRY_NEW(arena, out->rank, A, error);
    STW_TRY_NEW(arena, out->sorted, A, error);
    STW_TRY_NEW(arena, out->list, A, error);
    for (int32_t a = 0; a < A; a++) out->sorted[a] = a;
    out->least_ps = 0;
    return STW_OK;
}

/* ---- heads and tails ---- */

static void raise(int64_t *value, int64_t to) {
    if (to > *value) *value = to;
}

/* What comes first has fewer activities before it. The order of the last time is nearly right, so insertion is quick. */
static void sort_by_rank(const stw_exact_model *m, stw_exact_times *times) {
    for (int32_t a = 0; a < m->A; a++) {
        times->rank[a] = 0;
        for (int32_t w = 0; w < m->W; w++) times->rank[a] += __builtin_popcountll(m->before[(int64_t)a * m->W + w]);
    }
    for (int32_t k = 1; k < m->A; k++) {
        const int32_t a = times->sorted[k];
        int32_t place = k;
        for (; place > 0 && times->rank[times->sorted[place - 1]] > times->rank[a]; place--)
            times->sorted[place] = times->sorted[place - 1];
        times->sorted[place] = a;
    }
}

/* The latest end of the activities in `row`: of `start` + time. */
static int64_t latest(const stw_exact_model *m, const uint64_t *row, const int64_t *start) {
    int64_t end = 0;
    for (int32_t w = 0; w < m->W; w++) {
        for (uint64_t left = row[w]; left != 0; left &= left - 1) {
            const int32_t p = 64 * w + __builtin_ctzll(left);
            raise(&end, stw_exact_add(start[p], m->activity[p].ps));
        }
    }
    return end;
}

static void walk(const stw_exact *x, const stw_exact_model *m, stw_exact_times *times) {
    sort_by_rank(m, times);
    times->least_ps = 0;
    for (int32_t k = 0; k < m->A; k++) {
        const int32_t a = times->sorted[k];
        times->head[a] = latest(m, m->before + (int64_t)a * m->W, times->head);
        if (m->open && a < x->tasks->T) raise(&times->head[a], stw_exact_head(x, m, times, a));
    }
    for (int32_t k = m->A - 1; k >= 0; k--) {
        const int32_t a = times->sorted[k];
        times->tail[a] = latest(m, m->after + (int64_t)a * m->W, times->tail);
        if (m->open && a < x->tasks->T) raise(&times->tail[a], stw_exact_tail(x, m, times, a));
        raise(&times->least_ps, stw_exact_add(stw_exact_add(times->head[a], m->activity[a].ps), times->tail[a]));
    }
}

/* ---- work ---- */

/* The bound of `count` activities that `share` resources carry. Sorts the list by falling tail. */
static int64_t bound_work(const stw_exact_model *m, const stw_exact_times *times, int32_t *list, int32_t count, int32_t share) {
    int64_t bound = 0;
    for (int32_t k = 1; k < count; k++) {
        const int32_t a = list[k];
        int32_t place = k;
        for (; place > 0 && times->tail[list[place - 1]] < times->tail[a]; place--) list[place] = list[place - 1];
        list[place] = a;
    }
    for (int32_t first = 0; first < count; first++) {
        const int64_t head = times->head[list[first]];
        int64_t sum = 0;
        for (int32_t k = 0; k < count; k++) {
            if (times->head[list[k]] < head) continue;
            sum = stw_exact_add(sum, m->activity[list[k]].ps);
            const int64_t each = sum / share + (sum % share > 0);
            raise(&bound, stw_exact_add(stw_exact_add(head, each), times->tail[list[k]]));
        }
    }
    return bound;
}

/* ---- what has one way left ---- */

/* a, then b: possible in time? */
static bool may_go_first(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, int32_t a, int32_t b) {
    const int64_t both = stw_exact_add(m->activity[a].ps, m->activity[b].ps);
    return stw_exact_add(stw_exact_add(times->head[a], both), times->tail[b]) < x->beat_ps;
}

typedef enum { NOTHING_NEW, SOMETHING_NEW, HOPELESS } finding;

static finding decide_pairs(const stw_exact *x, stw_exact_model *m, const stw_exact_times *times) {
    finding found = NOTHING_NEW;
    for (int32_t q = 0; q < m->queue_count; q++) {
        for (int32_t i = m->queue_start[q]; i < m->queue_start[q + 1]; i++) {
            for (int32_t j = i + 1; j < m->queue_start[q + 1]; j++) {
                const int32_t a = m->queued[i], b = m->queued[j];
                if (!stw_is_undecided(m, a, b)) continue;
                const bool ab = may_go_first(x, m, times, a, b), ba = may_go_first(x, m, times, b, a);
                if (ab && ba) continue;
                if (!ab && !ba) return HOPELESS;
                stw_exact_decide(m, ab ? a : b, ab ? b : a);
                found = SOMETHING_NEW;
            }
        }
    }
    return found;
}

/* ---- memory ---- */

/* The hold is there all the time that `a` takes, by what is decided. */
static bool is_held_during(const stw_exact_model *m, const stw_hold *hold, int32_t a) {
    if (hold->begin == a) return true;
    if (hold->begin >= 0 && !stw_is_before(m, hold->begin, a)) return false;
    if (hold->forever || stw_bit(hold->user, a)) return true;
    for (int32_t w = 0; w < m->W; w++) {
        if (hold->user[w] & m->after[(int64_t)a * m->W + w]) return true;
    }
    return false;
}

static bool fits_during(const stw_exact *x, const stw_exact_model *m, int32_t a) {
    int64_t held[STW_MAX_DEVICES] = {0};
    for (int32_t k = 0; k < m->hold_count; k++) {
        const stw_hold *hold = &m->hold[k];
        if (!is_held_during(m, hold, a)) continue;
        held[hold->device] += hold->bytes;
        if (held[hold->device] > x->s->machine->device[hold->device].memory_bytes) return false;
    }
    return true;
}

/* What is held for no time does not count. */
static bool may_fit(const stw_exact *x, const stw_exact_model *m) {
    for (int32_t a = 0; a < m->A; a++) {
        if (m->activity[a].ps > 0 && !fits_during(x, m, a)) return false;
    }
    return true;
}

/* ---- all together ---- */

static int64_t bound_all(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times) {
    int64_t bound = times->least_ps;
    for (int32_t q = 0; q < m->queue_count; q++) {
        const int32_t first = m->queue_start[q];
        raise(&bound, bound_work(m, times, m->queued + first, m->queue_start[q + 1] - first, 1));
    }
    if (!m->open) return bound;
    for (int32_t t = 0; t < x->tasks->T; t++) times->list[t] = t;
    raise(&bound, bound_work(m, times, times->list, x->tasks->T, x->s->machine->device_count));
    return bound;
}

bool stw_exact_tighten(const stw_exact *x, stw_exact_model *m, stw_exact_times *times) {
    finding found = SOMETHING_NEW;
    while (found == SOMETHING_NEW) {
        walk(x, m, times);
        times->least_ps = bound_all(x, m, times);
        if (times->least_ps >= x->beat_ps) return false;
        found = decide_pairs(x, m, times);
    }
    return found != HOPELESS && may_fit(x, m);
}
