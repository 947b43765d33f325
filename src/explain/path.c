/* The critical path: from the task that ends last back to the beginning of the step. A task begins when what it waited for last
 * has ended, or later, when its device was busy with others; likewise a transfer and its channel. So the parts touch each other,
 * and their sum is the step. */
#include <stdlib.h>

#include "explain/explain.h"

/* ---- what a task waited for ---- */

static void consider(stw_last_wait *last, int64_t end_ps, int32_t task, int32_t transfer) {
    if ((last->task >= 0 || last->transfer >= 0) && end_ps <= last->ready_ps) return;
    *last = (stw_last_wait){.ready_ps = end_ps, .task = task, .transfer = transfer};
}

stw_last_wait stw_find_last_wait(const stw_explainer *e, int32_t task) {
    const stw_tasks *tasks = e->tasks;
    const stw_timeline *l = e->timeline;
    const int32_t device = l->device[task];
    stw_last_wait last = {.task = -1, .transfer = -1};
    for (int32_t s = tasks->input_start[task]; s < tasks->input_start[task + 1]; s++) {
        const int32_t value = tasks->slot_value[s], producer = tasks->value_task[value];
        if (tasks->value_flags[value] & STW_VALUE_EVERYWHERE) continue;
        if (producer >= 0 && l->device[producer] == device) {
            consider(&last, l->end_ps[producer], producer, -1);
            continue;
        }
        const int32_t k = stw_causes_transfer(&e->causes, tasks->value_node[value], device);
        if (k >= 0) consider(&last, l->transfer[k].end_ps, -1, k);
    }
    for (int32_t k = e->causes.wait_start[task]; k < e->causes.wait_start[task + 1]; k++)
        consider(&last, l->end_ps[e->causes.wait[k]], e->causes.wait[k], -1);
    for (int32_t k = e->first_copy[task]; k >= 0; k = e->next_copy[k]) consider(&last, l->transfer[k].end_ps, -1, k);
    return last;
}

/* ---- what devices and channels were busy with ---- */

static int compare_spans(const void *left, const void *right) {
    const stw_span *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    if (a->end_ps != b->end_ps) return a->end_ps < b->end_ps ? -1 : 1; /* what takes no time ran first */
    return a->id - b->id;
}

/* Spans in lanes, each lane by time: lane[k] (count), start (lanes + 1). */
static stw_status sort_lanes(stw_span *span, const int32_t *lane, int32_t count, int32_t lanes, stw_arena *arena, int64_t **start,
                             stw_span **out, stw_error *error) {
    STW_TRY_NEW(arena, *start, (int64_t)lanes + 2, error);
    STW_TRY_NEW(arena, *out, count, error);
    for (int32_t k = 0; k < count; k++) (*start)[lane[k] + 2]++;
    for (int32_t c = 0; c < lanes; c++) (*start)[c + 2] += (*start)[c + 1];
    for (int32_t k = 0; k < count; k++) (*out)[(*start)[lane[k] + 1]++] = span[k];
    for (int32_t c = 0; c < lanes; c++)
        qsort(*out + (*start)[c], (size_t)((*start)[c + 1] - (*start)[c]), sizeof **out, compare_spans);
    return STW_OK;
}

stw_status stw_device_spans(const stw_explainer *e, stw_arena *arena, int64_t **start, stw_span **span, stw_error *error) {
    const stw_timeline *l = e->timeline;
    const int32_t T = e->tasks->T;
    stw_span *all;
    STW_TRY_NEW(arena, all, T, error);
    for (int32_t t = 0; t < T; t++) all[t] = (stw_span){l->start_ps[t], l->end_ps[t], t};
    return sort_lanes(all, l->device, T, e->simulator->machine->device_count, arena, start, span, error);
}

static stw_status channel_spans(const stw_explainer *e, stw_arena *arena, int64_t **start, stw_span **span, stw_error *error) {
    const stw_machine *machine = e->simulator->machine;
    const int32_t count = e->timeline->transfer_count;
    stw_span *all;
    int32_t *channel;
    STW_TRY_NEW(arena, all, count, error);
    STW_TRY_NEW(arena, channel, count, error);
    for (int32_t k = 0; k < count; k++) {
        const stw_transfer *x = &e->timeline->transfer[k];
        all[k] = (stw_span){x->start_ps, x->end_ps, k};
        channel[k] = stw_machine_link(machine, x->from, x->to)->channel;
    }
    return sort_lanes(all, channel, count, machine->channel_count, arena, start, span, error);
}

/* ---- the walk ---- */

typedef struct {
    stw_explainer *e;
    int64_t *device_start, *channel_start; /* (D + 1), (channels + 1) */
    stw_span *on_device, *on_channel;
    int64_t *task_path, *task_delay;         /* (T) */
    int64_t *transfer_path, *transfer_delay; /* (transfers) */
} walk;

static stw_status push(walk *w, stw_path_part part, stw_error *error) {
    stw_explanation *out = w->e->out;
    if (part.start_ps == part.end_ps) return STW_OK; /* what takes no time is left out */
    out->parts.ps[part.kind] += part.end_ps - part.start_ps;
    STW_PUSH(&out->arena, out, path, part, error);
    return STW_OK;
}

static stw_status push_task(walk *w, int32_t task, stw_error *error) {
    const stw_timeline *l = w->e->timeline;
    const int64_t charge = l->charge_ps == NULL ? 0 : l->charge_ps[task];
    stw_path_part part = {.kind = STW_PATH_CHARGE, .node = w->e->tasks->task_node[task], .waiting = -1};
    part.from = part.to = l->device[task];
    part.start_ps = l->end_ps[task] - charge;
    part.end_ps = l->end_ps[task];
    w->task_path[task] += l->end_ps[task] - l->start_ps[task];
    TRY(push(w, part, error));
    part.kind = STW_PATH_COMPUTE;
    part.end_ps = part.start_ps;
    part.start_ps = l->start_ps[task];
    return push(w, part, error);
}

/* What was in the way from `ready_ps` to `start_ps`, last first: tasks of the device, or transfers of the channel. Where nothing
 * ran, the next that did had its turn before. */
static stw_status push_waits(walk *w, const stw_span *span, int64_t count, stw_path_part part, int64_t ready_ps, int64_t start_ps,
                             stw_error *error) {
    const stw_timeline *l = w->e->timeline;
    const bool on_device = part.kind == STW_PATH_DEVICE;
    int64_t low = 0, high = count; /* spans before `low` begin before start_ps */
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (span[middle].start_ps < start_ps)
            low = middle + 1;
        else
            high = middle;
    }
    int32_t next = low < count ? span[low].id : -1;
    part.end_ps = start_ps;
    for (int64_t k = low - 1; part.end_ps > ready_ps; k--) {
        const int64_t until = k >= 0 && span[k].end_ps > ready_ps ? span[k].end_ps : ready_ps;
        if (until < part.end_ps && on_device) { /* nothing ran */
            stw_path_part gap = part;
            gap.kind = STW_PATH_ORDER;
            gap.node = w->e->tasks->task_node[next];
            gap.start_ps = until;
            w->task_delay[next] += gap.end_ps - gap.start_ps;
            TRY(push(w, gap, error));
        }
        part.end_ps = until < part.end_ps ? until : part.end_ps;
        if (k < 0 || part.end_ps == ready_ps) break;
        next = span[k].id;
        part.start_ps = span[k].start_ps > ready_ps ? span[k].start_ps : ready_ps;
        part.node = on_device ? w->e->tasks->task_node[next] : l->transfer[next].producer;
        if (!on_device) part.from = l->transfer[next].from, part.to = l->transfer[next].to;
        (on_device ? w->task_delay : w->transfer_delay)[next] += part.end_ps - part.start_ps;
        TRY(push(w, part, error));
        part.end_ps = part.start_ps;
    }
    return STW_OK;
}

static stw_status push_device_waits(walk *w, int32_t task, int64_t ready_ps, stw_error *error) {
    const int32_t d = w->e->timeline->device[task];
    const stw_path_part part = {.kind = STW_PATH_DEVICE, .waiting = w->e->tasks->task_node[task], .from = d, .to = d};
    return push_waits(w, w->on_device + w->device_start[d], w->device_start[d + 1] - w->device_start[d], part, ready_ps,
                      w->e->timeline->start_ps[task], error);
}

/* A transfer with what it waited for; returns the task that made its value in *task, -1: there at time 0. */
static stw_status push_transfer(walk *w, int32_t k, int32_t *task, stw_error *error) {
    const stw_transfer *x = &w->e->timeline->transfer[k];
    const int32_t c = stw_machine_link(w->e->simulator->machine, x->from, x->to)->channel;
    const stw_path_part part = {.kind = STW_PATH_TRANSFER,
                                .node = x->producer,
                                .waiting = -1,
                                .from = x->from,
                                .to = x->to,
                                .start_ps = x->start_ps,
                                .end_ps = x->end_ps};
    w->transfer_path[k] += x->end_ps - x->start_ps;
    *task = w->e->tasks->task_of[x->producer];
    TRY(push(w, part, error));
    return push_waits(w, w->on_channel + w->channel_start[c], w->channel_start[c + 1] - w->channel_start[c],
                      (stw_path_part){.kind = STW_PATH_CHANNEL, .waiting = x->producer}, x->ready_ps, x->start_ps, error);
}

static stw_status walk_back(walk *w, int32_t task, stw_error *error) {
    while (task >= 0) {
        const stw_last_wait last = stw_find_last_wait(w->e, task);
        TRY(push_task(w, task, error));
        TRY(push_device_waits(w, task, last.ready_ps, error));
        task = last.task;
        if (last.transfer >= 0) TRY(push_transfer(w, last.transfer, &task, error));
    }
    return STW_OK;
}

static void turn_round(stw_path_part *path, int64_t count) {
    for (int64_t k = 0; k < count / 2; k++) {
        const stw_path_part part = path[k];
        path[k] = path[count - 1 - k];
        path[count - 1 - k] = part;
    }
}

/* ---- sums ---- */

static int compare_costs(const void *left, const void *right) {
    const stw_path_cost *a = left, *b = right;
    const int64_t x = a->path_ps + a->delay_ps, y = b->path_ps + b->delay_ps;
    if (a->sort != b->sort) return a->sort < b->sort ? -1 : 1;
    if (x != y) return x > y ? -1 : 1;
    return a->node != b->node ? a->node - b->node : a->to - b->to;
}

static stw_path_cost cost_of_task(const walk *w, int32_t t, const int32_t *members) {
    const int32_t d = w->e->timeline->device[t];
    return (stw_path_cost){.sort = members[t] > 1 ? STW_SORT_GROUP : STW_SORT_OP,
                           .node = w->e->tasks->task_node[t],
                           .members = members[t],
                           .from = d,
                           .to = d,
                           .path_ps = w->task_path[t],
                           .delay_ps = w->task_delay[t]};
}

/* members[t]: how many ops a task computes, recomputed ones included. */
static stw_status count_members(const stw_explainer *e, int32_t *members, stw_error *error) {
    stw_membership m;
    stw_str reason;
    stw_arena scratch = *e->scratch;
    TRY(stw_membership_build(e->simulator->graph, e->simulator->machine, e->plan->group, e->plan->device, &scratch, &m, &reason,
                             error));
    for (int32_t t = 0; t < m.T; t++) members[t] = m.member_start[t + 1] - m.member_start[t];
    return STW_OK;
}

static stw_status list_costs(walk *w, stw_error *error) {
    stw_explanation *out = w->e->out;
    const stw_timeline *l = w->e->timeline;
    const int32_t T = w->e->tasks->T;
    int32_t *members;
    STW_TRY_NEW(w->e->scratch, members, T, error);
    TRY(count_members(w->e, members, error));
    STW_TRY_NEW(&out->arena, out->cost, (int64_t)T + l->transfer_count, error);
    for (int32_t t = 0; t < T; t++) {
        if (w->task_path[t] + w->task_delay[t] > 0) out->cost[out->cost_count++] = cost_of_task(w, t, members);
    }
    for (int32_t k = 0; k < l->transfer_count; k++) {
        const stw_transfer *x = &l->transfer[k];
        if (w->transfer_path[k] + w->transfer_delay[k] == 0) continue;
        out->cost[out->cost_count++] = (stw_path_cost){.sort = STW_SORT_TRANSFER,
                                                       .node = x->producer,
                                                       .from = x->from,
                                                       .to = x->to,
                                                       .bytes = x->bytes,
                                                       .path_ps = w->transfer_path[k],
                                                       .delay_ps = w->transfer_delay[k]};
    }
    qsort(out->cost, (size_t)out->cost_count, sizeof *out->cost, compare_costs);
    return STW_OK;
}

stw_status stw_explain_path(stw_explainer *e, stw_error *error) {
    const stw_timeline *l = e->timeline;
    walk w = {.e = e};
    e->out->parts.step_ps = e->result.step_ps;
    TRY(stw_device_spans(e, e->scratch, &w.device_start, &w.on_device, error));
    TRY(channel_spans(e, e->scratch, &w.channel_start, &w.on_channel, error));
    STW_TRY_NEW(e->scratch, w.task_path, e->tasks->T, error);
    STW_TRY_NEW(e->scratch, w.task_delay, e->tasks->T, error);
    STW_TRY_NEW(e->scratch, w.transfer_path, l->transfer_count, error);
    STW_TRY_NEW(e->scratch, w.transfer_delay, l->transfer_count, error);
    int32_t last = e->tasks->T > 0 ? 0 : -1;
    for (int32_t t = 1; t < e->tasks->T; t++) {
        if (l->end_ps[t] > l->end_ps[last]) last = t;
    }
    TRY(walk_back(&w, last, error));
    turn_round(e->out->path, e->out->path_count);
    return list_costs(&w, error);
}
