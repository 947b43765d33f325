/* What a sequence takes; a sequence from a plan and a plan from a sequence. */
#include <stdlib.h>
#include <string.h>

#include "method/breed/breed.h"

/* ---- what is computed once ---- */

static bool is_everywhere(const stw_tasks *tasks, int32_t value) { return tasks->value_flags[value] & STW_VALUE_EVERYWHERE; }

/* Items: what must be together, by the node that leads it. */
static stw_status list_items(stw_breed *b, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = b->s->graph;
    STW_TRY_NEW(arena, b->item_of, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) b->item_of[i] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(graph->kind[i])) continue;
        const int32_t leader = b->s->together[i];
        if (b->item_of[leader] < 0) b->item_of[leader] = b->I++;
        b->item_of[i] = b->item_of[leader];
    }
    STW_TRY_NEW(arena, b->task_item, b->T, error);
    STW_TRY_NEW(arena, b->value_item, b->V, error);
    STW_TRY_NEW(arena, b->mover, b->I, error);
    for (int32_t t = 0; t < b->T; t++) {
        b->task_item[t] = b->item_of[b->tasks->task_node[t]];
        for (int32_t k = 0; k < t; k++) b->together |= b->task_item[k] == b->task_item[t];
    }
    for (int32_t v = 0; v < b->V; v++) b->value_item[v] = is_everywhere(b->tasks, v) ? -1 : b->item_of[b->tasks->value_node[v]];
    return STW_OK;
}

static void find_movers(stw_breed *b, bool *moves) {
    for (int32_t t = 0; t < b->T; t++) moves[b->task_item[t]] = true;
    for (int32_t r = 0; r < b->read_start[b->T]; r++) moves[b->value_item[b->read_value[r]]] = true;
    for (int32_t i = 0; i < b->I; i++) {
        if (moves[i]) b->mover[b->mover_count++] = i;
    }
}

/* The values that each task reads, once each however many views it reads them through. */
static stw_status list_reads(stw_breed *b, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = b->tasks;
    STW_TRY_NEW(arena, b->read_start, b->T + 1, error);
    STW_TRY_NEW(arena, b->read_value, tasks->U, error);
    STW_TRY_NEW(arena, b->partly, b->V, error);
    for (int32_t v = 0; v < b->V; v++) {
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) b->partly[v] |= tasks->use[u].view >= 0;
    }
    int32_t count = 0;
    for (int32_t t = 0; t < b->T; t++) {
        b->read_start[t] = count;
        for (int32_t slot = tasks->input_start[t]; slot < tasks->input_start[t + 1]; slot++) {
            const int32_t value = tasks->slot_value[slot];
            bool known = is_everywhere(tasks, value);
            for (int32_t k = b->read_start[t]; k < count && !known; k++) known = b->read_value[k] == value;
            if (!known) b->read_value[count++] = value;
        }
    }
    b->read_start[b->T] = count;
    return STW_OK;
}

static stw_status list_waits(stw_breed *b, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = b->tasks;
    const int32_t count = tasks->waiter_start[b->T];
    STW_TRY_NEW(arena, b->wait_start, b->T + 2, error);
    STW_TRY_NEW(arena, b->wait, count, error);
    STW_TRY_NEW(arena, b->updated, b->T, error);
    for (int32_t k = 0; k < count; k++) b->wait_start[tasks->waiter[k] + 2]++;
    for (int32_t t = 0; t < b->T; t++) b->wait_start[t + 2] += b->wait_start[t + 1];
    for (int32_t t = 0; t < b->T; t++) {
        for (int32_t k = tasks->waiter_start[t]; k < tasks->waiter_start[t + 1]; k++)
            b->wait[b->wait_start[tasks->waiter[k] + 1]++] = t;
    }
    for (int32_t t = 0; t < b->T; t++) b->updated[t] = -1;
    for (int32_t v = 0; v < b->V; v++) {
        if (tasks->value_updater[v] >= 0) b->updated[tasks->value_updater[v]] = v;
    }
    return STW_OK;
}

static void add_before(stw_breed *b, int32_t t, int32_t earlier, int32_t *count) {
    for (int32_t k = b->before_start[t]; k < *count; k++) {
        if (b->before[k] == earlier) return;
    }
    b->before[(*count)++] = earlier;
}

/* What must come before and after each task. */
static stw_status list_neighbours(stw_breed *b, stw_arena *arena, stw_error *error) {
    const int32_t most = b->read_start[b->T] + b->wait_start[b->T];
    int32_t count = 0;
    STW_TRY_NEW(arena, b->before_start, b->T + 1, error);
    STW_TRY_NEW(arena, b->before, most, error);
    STW_TRY_NEW(arena, b->after_start, b->T + 2, error);
    STW_TRY_NEW(arena, b->after, most, error);
    for (int32_t t = 0; t < b->T; t++) {
        b->before_start[t] = count;
        for (int32_t k = b->read_start[t]; k < b->read_start[t + 1]; k++) {
            const int32_t producer = b->tasks->value_task[b->read_value[k]];
            if (producer >= 0) add_before(b, t, producer, &count);
        }
        for (int32_t k = b->wait_start[t]; k < b->wait_start[t + 1]; k++) add_before(b, t, b->wait[k], &count);
    }
    b->before_start[b->T] = count;
    for (int32_t k = 0; k < count; k++) b->after_start[b->before[k] + 2]++;
    for (int32_t t = 0; t < b->T; t++) b->after_start[t + 2] += b->after_start[t + 1];
    for (int32_t t = 0; t < b->T; t++) {
        for (int32_t k = b->before_start[t]; k < b->before_start[t + 1]; k++) b->after[b->after_start[b->before[k] + 1]++] = t;
    }
    return STW_OK;
}

static int64_t least_ps(const stw_breed *b, int32_t t) {
    int64_t least = b->duration_ps[t];
    for (int32_t d = 1; d < b->D; d++) {
        const int64_t ps = b->duration_ps[(int64_t)d * b->T + t];
        if (ps < least) least = ps;
    }
    return least;
}

static stw_status fill_times(stw_breed *b, stw_arena *arena, stw_error *error) {
    const stw_machine *machine = b->s->machine;
    STW_TRY_NEW(arena, b->duration_ps, (int64_t)b->D * b->T, error);
    STW_TRY_NEW(arena, b->left_ps, b->T, error);
    for (int32_t d = 0; d < b->D; d++)
        memcpy(b->duration_ps + (int64_t)d * b->T, b->tasks->duration_ps[machine->device[d].cost_class],
               (size_t)b->T * sizeof(int64_t));
    for (int32_t k = b->T - 1; k >= 0; k--) {
        const int32_t t = b->tasks->task_of[b->s->graph->topological[k]];
        int64_t most = 0;
        for (int32_t j = b->after_start[t]; j < b->after_start[t + 1]; j++) {
            if (b->left_ps[b->after[j]] > most) most = b->left_ps[b->after[j]];
        }
        b->left_ps[t] = least_ps(b, t) + most;
    }
    return STW_OK;
}

/* Links that are alike are of one kind: there are few kinds, so times are kept by kind and value. */
static stw_status fill_links(stw_breed *b, stw_arena *arena, stw_error *error) {
    const stw_machine *machine = b->s->machine;
    const int32_t pairs = b->D * b->D;
    int32_t *first, kinds = 0;
    STW_TRY_NEW(arena, b->link_kind, pairs, error);
    STW_TRY_NEW(arena, first, pairs, error);
    for (int32_t k = 0; k < pairs; k++) {
        b->link_kind[k] = -1;
        if (k / b->D == k % b->D || !(machine->link[k].bandwidth > 0.0)) continue;
        int32_t kind = 0;
        while (kind < kinds && !stw_link_equal(&machine->link[first[kind]], &machine->link[k])) kind++;
        if (kind == kinds) first[kinds++] = k;
        b->link_kind[k] = kind;
    }
    STW_TRY_NEW(arena, b->whole_ps, (int64_t)kinds * b->V, error);
    STW_TRY_NEW(arena, b->send_ps, kinds, error);
    STW_TRY_NEW(arena, b->receive_ps, kinds, error);
    for (int32_t kind = 0; kind < kinds; kind++) {
        const stw_link *link = &machine->link[first[kind]];
        for (int32_t v = 0; v < b->V; v++)
            b->whole_ps[(int64_t)kind * b->V + v] = stw_cost_transfer_ps(link, b->tasks->value_bytes[v]);
        b->send_ps[kind] = stw_cost_us_to_ps(link->send_us);
        b->receive_ps[kind] = stw_cost_us_to_ps(link->receive_us);
    }
    b->alike = kinds <= 1 && machine->complete && machine->cost_class_count == 1 && machine->bus_count == 0;
    b->charges = machine->charges;
    b->queues = machine->queues;
    return STW_OK;
}

/* All that could ever be added up, one after the other. */
static bool is_too_long(const stw_breed *b) {
    const stw_tasks *tasks = b->tasks;
    double sum = 0.0, each = 0.0;
    for (int32_t d = 0; d < b->D; d++) {
        for (int32_t t = 0; t < b->T; t++) sum += (double)b->duration_ps[(int64_t)d * b->T + t];
    }
    for (int32_t k = 0; k < b->D * b->D; k++) {
        const int32_t kind = b->link_kind[k];
        if (kind < 0) continue;
        for (int32_t v = 0; v < tasks->V; v++) each += (double)b->whole_ps[(int64_t)kind * b->V + v];
        each += (double)tasks->V * (double)(b->send_ps[kind] + b->receive_ps[kind]);
    }
    return sum + each > (double)STW_MAX_STEP_PS / 4.0;
}

stw_status stw_breed_prepare(const stw_simulator *simulator, stw_arena *arena, stw_breed *out, stw_error *error) {
    *out = (stw_breed){.s = simulator,
                       .tasks = &simulator->unfused,
                       .T = simulator->unfused.T,
                       .V = simulator->unfused.V,
                       .D = simulator->machine->device_count};
    TRY(list_items(out, arena, error));
    TRY(list_reads(out, arena, error));
    TRY(list_waits(out, arena, error));
    TRY(list_neighbours(out, arena, error));
    TRY(fill_times(out, arena, error));
    TRY(fill_links(out, arena, error));
    TRY(stw_breed_prepare_retime(out, arena, error));
    if (is_too_long(out))
        return stw_fail(error, STW_ERROR_NO_PLAN, "breed is for steps of less than some days; take another method");
    stw_arena scratch = *arena;
    bool *moves;
    STW_TRY_NEW(&scratch, moves, out->I, error);
    find_movers(out, moves);
    return STW_OK;
}

stw_status stw_sequence_create(const stw_breed *b, stw_arena *arena, stw_sequence *out, stw_error *error) {
    STW_TRY_NEW(arena, out->task, b->T, error);
    STW_TRY_NEW(arena, out->place, b->T, error);
    STW_TRY_NEW(arena, out->device, b->I, error);
    out->ps = STW_BREED_NEVER_PS;
    return STW_OK;
}

stw_status stw_sweep_create(const stw_breed *b, stw_arena *arena, stw_sweep *out, stw_error *error) {
    STW_TRY_NEW(arena, out->end_ps, b->T + 1, error);
    STW_TRY_NEW(arena, out->cause, b->T, error);
    STW_TRY_NEW(arena, out->free_ps, b->D, error);
    STW_TRY_NEW(arena, out->ran, b->D, error);
    STW_TRY_NEW(arena, out->charge_ps, b->T, error);
    STW_TRY_NEW(arena, out->channel_ps, b->s->machine->channel_count, error);
    STW_TRY_NEW(arena, out->arrival_ps, b->queues ? (int64_t)b->V * b->D : 0, error);
    return STW_OK;
}

void stw_sequence_copy(const stw_breed *b, stw_sequence *to, const stw_sequence *from) {
    memcpy(to->task, from->task, (size_t)b->T * sizeof *to->task);
    memcpy(to->place, from->place, (size_t)b->T * sizeof *to->place);
    memcpy(to->device, from->device, (size_t)b->I * sizeof *to->device);
    to->ps = from->ps;
}

/* ---- transfers ---- */

/* The bytes of a value that some tasks read through views: those views that are read there. */
static int64_t partial_ps(const stw_breed *b, const stw_sequence *q, int32_t value, int32_t from, int32_t to) {
    const stw_tasks *tasks = b->tasks;
    const int64_t whole = tasks->value_bytes[value];
    int64_t bytes = 0;
    int32_t last = -2; /* uses are sorted by view */
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const int32_t view = tasks->use[u].view;
        if (q->device[b->task_item[tasks->use[u].task]] != to || view == last) continue;
        last = view;
        const int64_t part = view < 0 ? whole : b->s->graph->bytes[view];
        bytes = part >= whole - bytes ? whole : bytes + part;
    }
    return stw_cost_transfer_ps(stw_machine_link(b->s->machine, from, to), bytes);
}

static int64_t transfer_ps(const stw_breed *b, const stw_sequence *q, int32_t value, int32_t from, int32_t to) {
    const int32_t kind = b->link_kind[from * b->D + to];
    if (kind < 0) return -1;
    return b->partly[value] ? partial_ps(b, q, value, from, to) : b->whole_ps[(int64_t)kind * b->V + value];
}

/* The devices that read a value. */
static uint64_t readers_of(const stw_breed *b, const stw_sequence *q, int32_t value) {
    const stw_tasks *tasks = b->tasks;
    uint64_t devices = 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++)
        devices |= 1ULL << q->device[b->task_item[tasks->use[u].task]];
    return devices;
}

/* Rule "Charges" of docs/simulator.md. */
static void charge(const stw_breed *b, const stw_sequence *q, int64_t *charge_ps) {
    const stw_tasks *tasks = b->tasks;
    memset(charge_ps, 0, (size_t)b->T * sizeof *charge_ps);
    for (int32_t v = 0; v < b->V; v++) {
        if (b->value_item[v] < 0) continue;
        int32_t receiver[STW_MAX_DEVICES];
        const int32_t home = q->device[b->value_item[v]], producer = tasks->value_task[v];
        uint64_t left = readers_of(b, q, v) & ~(1ULL << home);
        if (left == 0) continue;
        for (int32_t d = 0; d < b->D; d++) receiver[d] = INT32_MAX;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int32_t task = tasks->use[u].task, d = q->device[b->task_item[task]];
            if (task < receiver[d]) receiver[d] = task;
        }
        for (; left != 0; left &= left - 1) {
            const int32_t to = __builtin_ctzll(left), kind = b->link_kind[home * b->D + to];
            if (kind < 0) continue; /* the pass will say so */
            if (producer >= 0) charge_ps[producer] += b->send_ps[kind];
            charge_ps[receiver[to]] += b->receive_ps[kind];
        }
    }
}

/* With queues: sends a value that is there from `ready_ps` on to all that read it; false: a link is missing. */
static bool send(const stw_breed *b, const stw_sequence *q, int32_t value, int64_t ready_ps, stw_sweep *sweep) {
    const int32_t home = q->device[b->value_item[value]];
    for (uint64_t left = readers_of(b, q, value) & ~(1ULL << home); left != 0; left &= left - 1) {
        const int32_t to = __builtin_ctzll(left);
        const int64_t ps = transfer_ps(b, q, value, home, to);
        if (ps < 0) return false;
        int64_t *channel_ps = &sweep->channel_ps[stw_machine_link(b->s->machine, home, to)->channel];
        *channel_ps = (*channel_ps > ready_ps ? *channel_ps : ready_ps) + ps;
        sweep->arrival_ps[(int64_t)value * b->D + to] = *channel_ps;
    }
    return true;
}

/* With queues: parameters and buffers go first, in the order in which they are read. */
static bool send_sources(const stw_breed *b, const stw_sequence *q, stw_sweep *sweep) {
    memset(sweep->channel_ps, 0, (size_t)b->s->machine->channel_count * sizeof *sweep->channel_ps);
    for (int32_t v = 0; v < b->V; v++) sweep->arrival_ps[(int64_t)v * b->D] = -1; /* not sent yet; device 0 stands for all */
    for (int32_t k = 0; k < b->T; k++) {
        const int32_t t = q->task[k];
        for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
            const int32_t v = b->read_value[r];
            if (b->tasks->value_task[v] >= 0 || sweep->arrival_ps[(int64_t)v * b->D] >= 0) continue;
            sweep->arrival_ps[(int64_t)v * b->D] = 0;
            if (!send(b, q, v, 0, sweep)) return false;
        }
    }
    return true;
}

/* When a value is on device d; -1: never. */
static inline int64_t arrival_of(const stw_breed *b, const stw_sequence *q, int32_t value, int32_t d, const stw_sweep *sweep) {
    const int32_t home = q->device[b->value_item[value]], producer = b->tasks->value_task[value];
    const int64_t ready = producer >= 0 ? sweep->end_ps[producer] : 0;
    if (home == d) return ready;
    if (b->queues) return sweep->arrival_ps[(int64_t)value * b->D + d];
    const int64_t ps = transfer_ps(b, q, value, home, d);
    return ps < 0 ? -1 : ready + ps;
}

/* When all copies of a parameter have arrived: its update waits for them. */
static int64_t copies_arrive(const stw_breed *b, const stw_sequence *q, int32_t value, const stw_sweep *sweep) {
    const int32_t home = q->device[b->value_item[value]];
    int64_t all = 0;
    for (uint64_t left = readers_of(b, q, value) & ~(1ULL << home); left != 0; left &= left - 1) {
        const int64_t one = arrival_of(b, q, value, __builtin_ctzll(left), sweep);
        if (one > all) all = one;
    }
    return all;
}

/* ---- the pass ---- */

/* When a task can begin, and after what; -1: never. */
static inline int64_t start_of(const stw_breed *b, const stw_sequence *q, int32_t t, int32_t d, stw_sweep *sweep) {
    int64_t start = sweep->free_ps[d];
    int32_t cause = sweep->ran[d];
    for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
        const int32_t value = b->read_value[r];
        const int64_t there = arrival_of(b, q, value, d, sweep);
        if (there < 0) return -1;
        if (there <= start) continue;
        start = there;
        cause = b->tasks->value_task[value];
    }
    for (int32_t k = b->wait_start[t]; k < b->wait_start[t + 1]; k++) {
        if (sweep->end_ps[b->wait[k]] <= start) continue;
        start = sweep->end_ps[b->wait[k]];
        cause = b->wait[k];
    }
    if (b->updated[t] >= 0) {
        const int64_t there = copies_arrive(b, q, b->updated[t], sweep);
        if (there > start) start = there, cause = -1;
    }
    sweep->cause[t] = cause;
    return start;
}

int64_t stw_sequence_time(const stw_breed *b, const stw_sequence *q, int64_t limit_ps, stw_sweep *sweep) {
    int64_t step = 0;
    for (int32_t d = 0; d < b->D; d++) {
        sweep->free_ps[d] = 0;
        sweep->ran[d] = -1;
    }
    sweep->last = -1;
    if (b->charges) charge(b, q, sweep->charge_ps);
    if (b->queues && !send_sources(b, q, sweep)) return STW_BREED_NEVER_PS;
    for (int32_t k = 0; k < b->T; k++) {
        const int32_t t = q->task[k], d = q->device[b->task_item[t]];
        const int64_t start = start_of(b, q, t, d, sweep);
        if (start < 0 || start > limit_ps - b->left_ps[t]) return STW_BREED_NEVER_PS;
        const int64_t end = start + b->duration_ps[(int64_t)d * b->T + t] + (b->charges ? sweep->charge_ps[t] : 0);
        sweep->end_ps[t] = sweep->free_ps[d] = end;
        sweep->ran[d] = t;
        if (end > step || sweep->last < 0) {
            step = end;
            sweep->last = t;
        }
        for (int32_t o = b->tasks->output_start[t]; b->queues && o < b->tasks->output_start[t + 1]; o++) {
            if (!send(b, q, b->tasks->output[o], end, sweep)) return STW_BREED_NEVER_PS;
        }
    }
    return step > limit_ps ? STW_BREED_NEVER_PS : step;
}

/* ---- from and to plans ---- */

typedef struct {
    int64_t start_ps, end_ps;
    int32_t position; /* in topological order: what takes no time starts together with what it needs, and before what does */
    int32_t task;
} begun;

static int by_start(const void *left, const void *right) {
    const begun *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if ((a->end_ps > a->start_ps) != (b->end_ps > b->start_ps)) return a->end_ps > a->start_ps ? 1 : -1;
    return a->position < b->position ? -1 : a->position > b->position;
}

stw_status stw_sequence_of_plan(const stw_breed *b, const stw_plan *plan, const int64_t *start_ps, const int64_t *end_ps,
                                stw_sequence *out, stw_arena scratch, stw_error *error) {
    begun *all;
    STW_TRY_NEW(&scratch, all, b->T, error);
    for (int32_t k = 0; k < b->T; k++) {
        const int32_t t = b->tasks->task_of[b->s->graph->topological[k]];
        all[k] = (begun){start_ps[t], end_ps[t], k, t};
    }
    qsort(all, (size_t)b->T, sizeof *all, by_start);
    for (int32_t k = 0; k < b->T; k++) {
        out->task[k] = all[k].task;
        out->place[all[k].task] = k;
    }
    for (int32_t i = 0; i < b->s->graph->N; i++) {
        if (b->item_of[i] >= 0 && b->s->together[i] == i) out->device[b->item_of[i]] = plan->device[i];
    }
    out->ps = STW_BREED_NEVER_PS;
    return STW_OK;
}

/* What is sent first has the higher priority; parameters and buffers by their first reader. */
static void set_priorities(const stw_breed *b, const stw_sequence *q, stw_plan *plan) {
    const stw_tasks *tasks = b->tasks;
    for (int32_t v = 0; v < b->V; v++) {
        if (tasks->value_task[v] < 0) plan->priority[tasks->value_node[v]] = 0.0;
    }
    for (int32_t k = b->T - 1; k >= 0; k--) {
        const int32_t t = q->task[k];
        plan->priority[tasks->task_node[t]] = b->T - k;
        for (int32_t r = b->read_start[t]; r < b->read_start[t + 1]; r++) {
            const int32_t v = b->read_value[r];
            if (tasks->value_task[v] < 0) plan->priority[tasks->value_node[v]] = b->T - k + 0.5;
        }
    }
}

stw_status stw_sequence_to_plan(const stw_breed *b, const stw_sequence *q, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = b->s->graph;
    int32_t *order;
    STW_TRY_NEW(&scratch, order, b->T, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t item = b->item_of[graph->root[i]];
        plan->device[i] = item < 0 ? 0 : q->device[item]; /* inputs and constants are everywhere */
    }
    set_priorities(b, q, plan);
    for (int32_t d = 0; d < b->D; d++) {
        int32_t count = 0;
        for (int32_t k = 0; k < b->T; k++) {
            if (q->device[b->task_item[q->task[k]]] == d) order[count++] = b->tasks->task_node[q->task[k]];
        }
        TRY(stw_plan_set_order(plan, d, order, count, error));
    }
    return STW_OK;
}
