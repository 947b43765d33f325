/* The plan as it ran: the sequence, what arrived when, what is left behind each task; and its windows. */
#include <stdlib.h>
#include <string.h>

#include "method/windows/windows.h"
#include "plan/plan.h"

int32_t stw_look_members(const stw_look *look, int32_t task, const int32_t **member) {
    const stw_membership *m = look->membership;
    *member = m == NULL ? &look->tasks->task_node[task] : m->member + m->member_start[task];
    return m == NULL ? 1 : m->member_start[task + 1] - m->member_start[task];
}

/* ---- what is computed once ---- */

static stw_status list_waits(stw_look *look, stw_arena *arena, stw_error *error) {
    const stw_tasks *tasks = look->tasks;
    STW_TRY_NEW(arena, look->wait_start, look->T + 2, error);
    STW_TRY_NEW(arena, look->wait, tasks->waiter_start[look->T], error);
    for (int32_t k = 0; k < tasks->waiter_start[look->T]; k++) look->wait_start[tasks->waiter[k] + 2]++;
    for (int32_t t = 0; t < look->T; t++) look->wait_start[t + 2] += look->wait_start[t + 1];
    for (int32_t t = 0; t < look->T; t++) {
        for (int32_t k = tasks->waiter_start[t]; k < tasks->waiter_start[t + 1]; k++)
            look->wait[look->wait_start[tasks->waiter[k] + 1]++] = t;
    }
    return STW_OK;
}

/* ---- atoms ---- */

/* Paths are halved on the way. */
static int32_t find(int32_t *leader, int32_t node) {
    while (leader[node] != node) node = leader[node] = leader[leader[node]];
    return node;
}

/* Nodes that must be on one device: what the graph asks for, the members of a task, and so all tasks that recompute an op. */
static void unite(const stw_look *look, int32_t *leader) {
    for (int32_t i = 0; i < look->s->graph->N; i++) leader[i] = look->s->together[i];
    for (int32_t t = 0; t < look->T; t++) {
        const int32_t *member;
        const int32_t count = stw_look_members(look, t, &member);
        for (int32_t k = 1; k < count; k++) leader[find(leader, member[k])] = find(leader, member[0]);
    }
}

/* Atoms of tasks. One with a parameter or buffer stays where it is: that may be read in any window. */
static stw_status find_atoms(stw_look *look, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = look->s->graph;
    int32_t *leader, *start;
    bool *stays;
    STW_TRY_NEW(arena, look->atom_start, look->T, error);
    STW_TRY_NEW(arena, look->atom_count, look->T, error);
    STW_TRY_NEW(arena, look->atom, look->T, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, leader, graph->N, error);
    STW_TRY_NEW(&scratch, start, graph->N + 1, error);
    STW_TRY_NEW(&scratch, stays, graph->N, error);
    unite(look, leader);
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_node_is_resident(graph->kind[i])) stays[find(leader, i)] = true;
    }
    for (int32_t t = 0; t < look->T; t++) start[find(leader, look->tasks->task_node[t]) + 1]++;
    for (int32_t i = 0; i < graph->N; i++) start[i + 1] += start[i];
    for (int32_t t = 0; t < look->T; t++) {
        const int32_t of = find(leader, look->tasks->task_node[t]);
        look->atom_start[t] = start[of];
        look->atom_count[t] = stays[of] ? 0 : start[of + 1] - start[of];
    }
    for (int32_t t = look->T - 1; t >= 0; t--) look->atom[--start[find(leader, look->tasks->task_node[t]) + 1]] = t;
    return STW_OK;
}

stw_status stw_look_create(const stw_workspace *workspace, int32_t window, stw_arena *arena, stw_look *out, stw_error *error) {
    const stw_simulator *s = workspace->simulator;
    const stw_tasks *tasks = workspace->timeline.tasks;
    const int32_t T = tasks->T, most = T / window + 2, D = s->machine->device_count;
    *out = (stw_look){.s = s,
                      .tasks = tasks,
                      .membership = tasks == &s->unfused ? NULL : &workspace->membership,
                      .T = T,
                      .D = D,
                      .window = window,
                      .queues = s->machine->queues,
                      .charges = s->machine->charges};
    STW_TRY_NEW(arena, out->partly, tasks->V, error);
    STW_TRY_NEW(arena, out->position, T, error);
    STW_TRY_NEW(arena, out->value_of, s->graph->N, error);
    STW_TRY_NEW(arena, out->sequence, T, error);
    STW_TRY_NEW(arena, out->device, T, error);
    STW_TRY_NEW(arena, out->home, tasks->V, error);
    STW_TRY_NEW(arena, out->end_ps, T, error);
    STW_TRY_NEW(arena, out->left_ps, T, error);
    STW_TRY_NEW(arena, out->arrival_start, tasks->V + 2, error);
    STW_TRY_NEW(arena, out->first, most + 1, error);
    STW_TRY_NEW(arena, out->begin_ps, (int64_t)most * D, error);
    STW_TRY_NEW(arena, out->behind_ps, (int64_t)most * D, error);
    STW_TRY_NEW(arena, out->next, T, error);
    STW_TRY_NEW(arena, out->moved_to, T, error);
    for (int32_t v = 0; v < tasks->V; v++) {
        out->value_of[tasks->value_node[v]] = v;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) out->partly[v] |= tasks->use[u].view >= 0;
    }
    for (int32_t k = 0; k < T; k++) out->position[tasks->order[k]] = k;
    TRY(list_waits(out, arena, error));
    return find_atoms(out, arena, error);
}

/* ---- the sequence ---- */

typedef struct {
    int64_t start_ps;
    int32_t position; /* in topological order: what takes no time starts together with what it needs */
    int32_t index;    /* a task; of transfers: which */
} begun;

static int by_start(const void *left, const void *right) {
    const begun *a = left, *b = right;
    if (a->start_ps != b->start_ps) return a->start_ps < b->start_ps ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static void sort_tasks(stw_look *look, const stw_timeline *line, begun *all) {
    for (int32_t t = 0; t < look->T; t++) all[t] = (begun){line->start_ps[t], look->position[t], t};
    qsort(all, (size_t)look->T, sizeof *all, by_start);
    for (int32_t k = 0; k < look->T; k++) look->sequence[k] = all[k].index;
}

static void sort_transfers(const stw_timeline *line, begun *all) {
    for (int32_t k = 0; k < line->transfer_count; k++) all[k] = (begun){line->transfer[k].start_ps, k, k};
    qsort(all, (size_t)line->transfer_count, sizeof *all, by_start);
}

/* Arrivals by value. Those of a look before are written over. */
static stw_status note_arrivals(stw_look *look, const stw_timeline *line, stw_error *error) {
    const int32_t V = look->tasks->V, count = line->transfer_count;
    look->held = look->room;
    STW_TRY_NEW(&look->held, look->arrival, count, error);
    memset(look->arrival_start, 0, (size_t)(V + 2) * sizeof *look->arrival_start);
    for (int32_t k = 0; k < count; k++) look->arrival_start[look->value_of[line->transfer[k].producer] + 2]++;
    for (int32_t v = 0; v < V; v++) look->arrival_start[v + 2] += look->arrival_start[v + 1];
    for (int32_t k = 0; k < count; k++) {
        const stw_transfer *x = &line->transfer[k];
        look->arrival[look->arrival_start[look->value_of[x->producer] + 1]++] = (stw_arrival){x->to, x->end_ps};
    }
    return STW_OK;
}

/* ---- what is left ---- */

typedef struct {
    int64_t *device_ps;  /* (D) left from the start of the next task */
    int64_t *channel_ps; /* (channels) of the next transfer */
    int64_t *sent_ps;    /* (V) of the transfer of a value that has most behind it */
} behind;

static void raise(int64_t *most, int64_t ps) {
    if (ps > *most) *most = ps;
}

static void pass_transfer(const stw_look *look, const stw_transfer *x, const behind *b) {
    const stw_tasks *tasks = look->tasks;
    const int32_t value = look->value_of[x->producer];
    int64_t *channel = &b->channel_ps[stw_machine_link(look->s->machine, x->from, x->to)->channel];
    int64_t left = look->queues ? *channel : 0;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        if (look->device[tasks->use[u].task] == x->to) raise(&left, look->left_ps[tasks->use[u].task]);
    }
    *channel = left + (x->end_ps - x->start_ps);
    raise(&b->sent_ps[value], *channel);
}

static void pass_task(const stw_look *look, const stw_timeline *line, int32_t task, const behind *b) {
    const stw_tasks *tasks = look->tasks;
    const int32_t d = look->device[task];
    int64_t left = b->device_ps[d];
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t value = tasks->output[o];
        raise(&left, b->sent_ps[value]);
        for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
            if (look->device[tasks->use[u].task] == d) raise(&left, look->left_ps[tasks->use[u].task]);
        }
    }
    for (int32_t k = tasks->waiter_start[task]; k < tasks->waiter_start[task + 1]; k++)
        raise(&left, look->left_ps[tasks->waiter[k]]);
    look->left_ps[task] = b->device_ps[d] = left + line->end_ps[task] - line->start_ps[task];
}

/* From the end to the beginning, tasks and transfers by their start. */
static stw_status measure_left(stw_look *look, const stw_timeline *line, const begun *transfer, stw_arena scratch,
                               stw_error *error) {
    behind b;
    STW_TRY_NEW(&scratch, b.device_ps, look->D, error);
    STW_TRY_NEW(&scratch, b.channel_ps, look->s->machine->channel_count, error);
    STW_TRY_NEW(&scratch, b.sent_ps, look->tasks->V, error);
    int32_t next = line->transfer_count - 1;
    for (int32_t k = look->T - 1; k >= 0; k--) {
        const int32_t task = look->sequence[k];
        for (; next >= 0 && transfer[next].start_ps >= line->start_ps[task]; next--)
            pass_transfer(look, &line->transfer[transfer[next].index], &b);
        pass_task(look, line, task, &b);
    }
    return STW_OK;
}

/* ---- windows ---- */

static void cut_windows(stw_look *look, int32_t offset) {
    look->windows = 0;
    look->first[0] = 0;
    for (int32_t at = offset > 0 ? offset : look->window; at < look->T; at += look->window) look->first[++look->windows] = at;
    look->first[++look->windows] = look->T;
    int64_t free_ps[STW_MAX_DEVICES] = {0}, left_ps[STW_MAX_DEVICES] = {0};
    for (int32_t w = 0; w < look->windows; w++) {
        memcpy(look->begin_ps + (int64_t)w * look->D, free_ps, (size_t)look->D * sizeof *free_ps);
        for (int32_t k = look->first[w]; k < look->first[w + 1]; k++)
            free_ps[look->device[look->sequence[k]]] = look->end_ps[look->sequence[k]];
    }
    for (int32_t w = look->windows - 1; w >= 0; w--) {
        memcpy(look->behind_ps + (int64_t)w * look->D, left_ps, (size_t)look->D * sizeof *left_ps);
        for (int32_t k = look->first[w + 1] - 1; k >= look->first[w]; k--)
            left_ps[look->device[look->sequence[k]]] = look->left_ps[look->sequence[k]];
    }
}

stw_status stw_look_at(stw_look *look, const stw_plan *plan, const stw_workspace *workspace, int32_t offset, stw_arena scratch,
                       stw_error *error) {
    const stw_timeline *line = &workspace->timeline;
    const stw_tasks *tasks = look->tasks;
    begun *all;
    STW_TRY_NEW(&scratch, all, look->T > line->transfer_count ? look->T : line->transfer_count, error);
    sort_tasks(look, line, all);
    memcpy(look->end_ps, line->end_ps, (size_t)look->T * sizeof *look->end_ps);
    for (int32_t t = 0; t < look->T; t++) look->device[t] = plan->device[tasks->task_node[t]];
    for (int32_t v = 0; v < tasks->V; v++) {
        const bool everywhere = tasks->value_flags[v] & STW_VALUE_EVERYWHERE;
        look->home[v] = everywhere ? -1 : plan->device[tasks->value_node[v]];
    }
    TRY(note_arrivals(look, line, error));
    sort_transfers(line, all);
    TRY(measure_left(look, line, all, scratch, error));
    cut_windows(look, offset);
    memcpy(look->next, look->sequence, (size_t)look->T * sizeof *look->next);
    memcpy(look->moved_to, look->device, (size_t)look->T * sizeof *look->moved_to);
    return STW_OK;
}
