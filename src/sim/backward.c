#include "sim/backward.h"

#include "plan/plan.h"
#include "sim/charges.h"
#include "sim/queues.h"

typedef struct {
    int32_t value, from, to; /* devices in the forward direction */
    int32_t readers;         /* that have not run yet */
    int64_t duration_ps;
} sending;

typedef struct {
    const stw_simulator *s;
    const stw_tasks *tasks;
    const int32_t *device;   /* (N) */
    const int64_t *start_ps; /* (T) forward */
    int64_t now;
    int64_t *charge;       /* (T) or NULL: none */
    int32_t *pending;      /* (T) */
    int64_t *end;          /* (T) */
    int32_t *slot_sending; /* (U) the copy that a use reads, or -1: the value itself */
    int32_t sending_count;
    sending *sending;
    stw_waiting *waiting;                     /* (sendings) */
    int32_t *channel_queue, *channel_running; /* (channels) */
    stw_ready_queue *ready;                   /* (D) */
    int32_t *running;                         /* (D) */
    stw_ending *ending;
    int32_t ending_count;
} backward;

/* Stays in range: a step backwards may take longer than the one forwards, of which it is known. now <= STW_MAX_STEP_PS. */
static int64_t after(int64_t now, int64_t duration_ps) {
    return duration_ps < STW_MAX_STEP_PS - now ? now + duration_ps : STW_MAX_STEP_PS;
}

static void start_device(backward *b, int32_t d) {
    if (b->running[d] >= 0 || stw_ready_is_empty(&b->ready[d])) return;
    const int32_t t = stw_ready_pop(&b->ready[d]);
    b->running[d] = t;
    const int64_t duration = b->tasks->duration_ps[b->s->machine->device[d].cost_class][t];
    b->end[t] = after(b->now, b->charge == NULL ? duration : stw_add_ps(duration, b->charge[t]));
    stw_ending_push(b->ending, &b->ending_count, (stw_ending){b->end[t], d});
}

static void fulfil(backward *b, int32_t t) {
    if (--b->pending[t] > 0) return;
    const int32_t d = b->device[b->tasks->task_node[t]];
    stw_ready_push(&b->ready[d], (stw_ready){(double)b->start_ps[t], b->now, t});
}

static void start_channel(backward *b, int32_t channel) {
    if (b->channel_running[channel] >= 0 || b->channel_queue[channel] < 0) return;
    const int32_t k = b->channel_queue[channel];
    b->channel_queue[channel] = stw_waiting_pop(b->waiting, k);
    if (b->s->machine->queues) b->channel_running[channel] = k;
    stw_ending_push(b->ending, &b->ending_count,
                    (stw_ending){after(b->now, b->sending[k].duration_ps), b->s->machine->device_count + k});
}

static int32_t channel_of(const backward *b, const sending *x) {
    return stw_machine_link(b->s->machine, x->from, x->to)->channel;
}

static void queue_sending(backward *b, int32_t k) {
    const sending *x = &b->sending[k];
    const int32_t channel = channel_of(b, x), producer = b->tasks->value_task[x->value];
    b->waiting[k] = (stw_waiting){(double)b->start_ps[producer], b->now, x->value, x->to, -1, -1};
    b->channel_queue[channel] = stw_waiting_join(b->waiting, b->channel_queue[channel], k);
    start_channel(b, channel);
}

static void finish_task(backward *b, int32_t d) {
    const stw_tasks *tasks = b->tasks;
    const stw_graph *graph = b->s->graph;
    const int32_t t = b->running[d], node = tasks->task_node[t];
    b->running[d] = -1;
    for (int32_t slot = tasks->input_start[t]; slot < tasks->input_start[t + 1]; slot++) {
        const int32_t producer = tasks->value_task[tasks->slot_value[slot]], k = b->slot_sending[slot];
        if (producer < 0) continue;
        if (k < 0) {
            fulfil(b, producer);
        } else if (--b->sending[k].readers == 0) {
            queue_sending(b, k);
        }
    }
    for (int64_t w = graph->wait_start[node]; w < graph->wait_start[node + 1]; w++) fulfil(b, tasks->task_of[graph->wait[w]]);
}

static void finish_sending(backward *b, int32_t k) {
    const int32_t channel = channel_of(b, &b->sending[k]);
    b->channel_running[channel] = -1;
    fulfil(b, b->tasks->value_task[b->sending[k].value]);
    start_channel(b, channel);
}

static void run(backward *b) {
    const int32_t D = b->s->machine->device_count;
    for (int32_t d = 0; d < D; d++) start_device(b, d);
    while (b->ending_count > 0) {
        b->now = b->ending[0].time_ps;
        while (b->ending_count > 0 && b->ending[0].time_ps == b->now) {
            const int32_t what = stw_ending_pop(b->ending, &b->ending_count);
            if (what < D) {
                finish_task(b, what);
            } else {
                finish_sending(b, what - D);
            }
        }
        for (int32_t d = 0; d < D; d++) start_device(b, d);
    }
}

/* One copy per value and device that reads it; the bytes are those of the views that are read there. */
static void list_sendings(backward *b) {
    const stw_tasks *tasks = b->tasks;
    int32_t found[STW_MAX_DEVICES], view[STW_MAX_DEVICES];
    int64_t bytes[STW_MAX_DEVICES];
    for (int32_t v = 0; v < tasks->V; v++) {
        const int32_t producer = tasks->value_task[v];
        if (producer < 0) continue;
        const int32_t home = b->device[tasks->value_node[v]], first = b->sending_count;
        uint64_t seen = 0;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const stw_task_use *use = &tasks->use[u];
            const int32_t d = b->device[tasks->task_node[use->task]];
            b->slot_sending[use->slot] = -1;
            if (d == home) {
                b->pending[producer]++;
                continue;
            }
            if (!(seen & (1ULL << d))) {
                seen |= 1ULL << d;
                found[d] = b->sending_count;
                view[d] = -2;
                bytes[d] = 0;
                b->sending[b->sending_count++] = (sending){.value = v, .from = home, .to = d};
                b->pending[producer]++;
            }
            b->slot_sending[use->slot] = found[d];
            b->sending[found[d]].readers++;
            if (use->view == view[d]) continue;
            view[d] = use->view;
            const int64_t whole = tasks->value_bytes[v], part = use->view < 0 ? whole : b->s->graph->bytes[use->view];
            bytes[d] = part >= whole - bytes[d] ? whole : bytes[d] + part;
        }
        for (int32_t k = first; k < b->sending_count; k++) {
            sending *x = &b->sending[k];
            x->duration_ps = stw_cost_transfer_ps(stw_machine_link(b->s->machine, x->from, x->to), bytes[x->to]);
        }
    }
}

static stw_status charge_tasks(backward *b, stw_arena *arena, stw_error *error) {
    int32_t *device;
    STW_TRY_NEW(arena, b->charge, b->tasks->T, error);
    STW_TRY_NEW(arena, device, b->tasks->T, error);
    for (int32_t t = 0; t < b->tasks->T; t++) device[t] = b->device[b->tasks->task_node[t]];
    stw_charge_tasks(b->s->machine, b->tasks, device, b->device, NULL, b->charge);
    return STW_OK;
}

static stw_status allocate(backward *b, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = b->tasks;
    const stw_machine *machine = b->s->machine;
    STW_TRY_NEW(arena, b->pending, tasks->T, error);
    STW_TRY_NEW(arena, b->end, tasks->T, error);
    STW_TRY_NEW(arena, b->slot_sending, tasks->U, error);
    STW_TRY_NEW(arena, b->sending, tasks->U, error);
    STW_TRY_NEW(arena, b->waiting, tasks->U, error);
    STW_TRY_NEW(arena, b->channel_queue, machine->channel_count, error);
    STW_TRY_NEW(arena, b->channel_running, machine->channel_count, error);
    STW_TRY_NEW(arena, b->ready, machine->device_count, error);
    STW_TRY_NEW(arena, b->running, machine->device_count, error);
    STW_TRY_NEW(arena, b->ending, (int64_t)machine->device_count + tasks->U, error);
    for (int32_t k = 0; k < machine->channel_count; k++) b->channel_queue[k] = b->channel_running[k] = -1;
    for (int32_t d = 0; d < machine->device_count; d++) {
        b->running[d] = -1;
        STW_TRY_NEW(arena, b->ready[d].heap, tasks->T, error);
    }
    return STW_OK;
}

stw_status stw_backward_priorities(const stw_simulator *s, stw_plan *plan, const int64_t *start_ps, stw_arena scratch,
                                   stw_error *error) {
    const stw_tasks *tasks = &s->unfused;
    backward b = {.s = s, .tasks = tasks, .device = plan->device, .start_ps = start_ps};
    TRY(allocate(&b, &scratch, error));
    list_sendings(&b);
    if (s->machine->charges) TRY(charge_tasks(&b, &scratch, error));
    for (int32_t t = 0; t < tasks->T; t++) b.pending[t] += tasks->waiter_start[t + 1] - tasks->waiter_start[t] + 1;
    for (int32_t t = 0; t < tasks->T; t++) fulfil(&b, t);
    run(&b);
    for (int32_t t = 0; t < tasks->T; t++) plan->priority[tasks->task_node[t]] = (double)b.end[t] / 1e6;
    for (int32_t k = 0; k < tasks->source_count; k++) {
        const int32_t value = tasks->source[k], node = tasks->value_node[value];
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            const double reader = plan->priority[tasks->task_node[tasks->use[u].task]];
            if (u == tasks->use_start[value] || reader > plan->priority[node]) plan->priority[node] = reader;
        }
    }
    return STW_OK;
}
