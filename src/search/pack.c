/* The model of a packing: what each device holds at each moment of a run. */
#include "search/pack.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LEAVES = 1 << 19 }; /* of all trees together */
#define NO_LINK_US 1e12        /* what a transfer without a link counts */

/* ---- trees ---- */

static void add_to(stw_pack_node *node, int64_t bytes) {
    node->most += bytes;
    node->added += bytes;
}

static void lift(stw_pack_node *tree, int32_t leaf) {
    for (int32_t i = leaf >> 1; i >= 1; i >>= 1) {
        const int64_t left = tree[(int64_t)2 * i].most, right = tree[(int64_t)2 * i + 1].most;
        tree[i].most = (left > right ? left : right) + tree[i].added;
    }
}

/* So many bytes more in all moments from `from` to `to`. */
static void hold(stw_pack *p, int32_t device, int32_t from, int32_t to, int64_t bytes) {
    if (to < from || bytes == 0) return;
    stw_pack_node *tree = &p->tree[(int64_t)device * 2 * p->leaves];
    int32_t low = from + p->leaves, high = to + p->leaves + 1;
    for (; low < high; low >>= 1, high >>= 1) {
        if (low & 1) add_to(&tree[low++], bytes);
        if (high & 1) add_to(&tree[--high], bytes);
    }
    lift(tree, from + p->leaves);
    lift(tree, to + p->leaves);
}

int32_t stw_pack_peak_moment(const stw_pack *p, int32_t device) {
    const stw_pack_node *tree = &p->tree[(int64_t)device * 2 * p->leaves];
    int32_t i = 1;
    while (i < p->leaves) i = tree[(int64_t)2 * i].most >= tree[(int64_t)2 * i + 1].most ? 2 * i : 2 * i + 1;
    return i - p->leaves;
}

int64_t stw_pack_excess(const stw_pack *p) {
    int64_t sum = 0;
    for (int32_t d = 0; d < p->D; d++) {
        const int64_t over = stw_pack_peak(p, d) - p->limit[d];
        if (over > 0) sum += over;
    }
    return sum;
}

/* ---- what is held of a value ---- */

typedef struct {
    int32_t device, from, to;
    int64_t bytes;
    double sent_us; /* what it took to get there */
} holding;

typedef struct { /* the readers of a value on one device */
    int32_t device, last, view;
    int64_t bytes; /* that they read, each view once */
} reading;

static int32_t list_readings(stw_pack *p, int32_t value, reading *out) {
    const stw_tasks *tasks = p->tasks;
    const stw_graph *graph = p->costs->graph;
    int32_t at[STW_MAX_DEVICES], count = 0;
    for (int32_t d = 0; d < p->D; d++) at[d] = -1;
    for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
        const stw_task_use *use = &tasks->use[u];
        const int32_t d = p->device[tasks->task_node[use->task]];
        const int64_t whole = tasks->value_bytes[value];
        if (at[d] < 0) {
            at[d] = count;
            out[count++] = (reading){.device = d, .last = -1, .view = -2};
        }
        reading *r = &out[at[d]];
        if (p->last[use->task] > r->last) r->last = p->last[use->task];
        if (use->view != r->view) r->bytes += use->view < 0 ? whole : graph->bytes[use->view];
        if (r->bytes > whole) r->bytes = whole;
        r->view = use->view;
    }
    p->work += 2 + tasks->use_start[value + 1] - tasks->use_start[value];
    return count;
}

static double transfer_us(const stw_machine *machine, int32_t from, int32_t to, int64_t bytes) {
    const stw_link *link = stw_machine_link(machine, from, to);
    return link->bandwidth > 0.0 ? stw_link_fixed_us(link) + stw_link_bytes_us(link, (double)bytes) : NO_LINK_US;
}

/* Everything that devices hold of a value; returns how many do. out: (D + 1). */
static int32_t list_holdings(stw_pack *p, int32_t value, holding *out) {
    const stw_tasks *tasks = p->tasks;
    const int32_t task = tasks->value_task[value], home = p->device[tasks->value_node[value]];
    const uint8_t flags = tasks->value_flags[value];
    reading read[STW_MAX_DEVICES];
    const int32_t readings = list_readings(p, value, read);
    int32_t count = 0, until = task < 0 || (flags & STW_VALUE_KEPT) ? p->moments - 1 : p->last[task];
    for (int32_t k = 0; k < readings; k++) {
        if (flags & STW_VALUE_EVERYWHERE) {
            out[count++] = (holding){read[k].device, 0, read[k].last, tasks->value_bytes[value], 0.0};
        } else if (read[k].device != home) {
            const int32_t from = task < 0 ? 0 : p->last[task] + 1;
            out[count++] = (holding){read[k].device, from, read[k].last, read[k].bytes,
                                     transfer_us(p->machine, home, read[k].device, read[k].bytes)};
            if (p->sent_until[value] > until) until = p->sent_until[value];
        } else if (read[k].last > until) {
            until = read[k].last;
        }
    }
    if (!(flags & STW_VALUE_EVERYWHERE)) {
        out[count++] = (holding){home, task < 0 ? 0 : p->first[task], until, tasks->home_bytes[value], 0.0};
    }
    return count;
}

static void change(stw_pack *p, int32_t value, int64_t sign) {
    holding held[STW_MAX_DEVICES + 1];
    const int32_t count = list_holdings(p, value, held);
    for (int32_t k = 0; k < count; k++) {
        hold(p, held[k].device, held[k].from, held[k].to, sign * held[k].bytes);
        p->sent_us += (double)sign * held[k].sent_us;
    }
}

int64_t stw_pack_held(stw_pack *p, int32_t value, int32_t device, int32_t moment) {
    holding held[STW_MAX_DEVICES + 1];
    const int32_t count = list_holdings(p, value, held);
    int64_t bytes = 0;
    for (int32_t k = 0; k < count; k++) {
        if (held[k].device == device && held[k].from <= moment && moment <= held[k].to) bytes += held[k].bytes;
    }
    return bytes;
}

/* ---- moving ---- */

static void touch(stw_pack *p, int32_t value, int32_t *count) {
    if (p->stamp[value] == p->stamps) return;
    p->stamp[value] = p->stamps;
    p->touched[(*count)++] = value;
}

static void touch_values_of(stw_pack *p, int32_t node, int32_t *count) {
    const stw_tasks *tasks = p->tasks;
    const int32_t task = tasks->task_of[node];
    if (p->value_of[node] >= 0) touch(p, p->value_of[node], count);
    if (task < 0) return;
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        touch(p, tasks->slot_value[slot], count);
    }
}

static double task_us(const stw_pack *p, int32_t node, int32_t device) {
    const int32_t task = p->tasks->task_of[node];
    if (task < 0 || p->tasks->task_node[task] != node) return 0.0; /* a group counts with its first */
    return (double)p->tasks->duration_ps[p->machine->device[device].cost_class][task] / 1e6;
}

void stw_pack_move(stw_pack *p, const int32_t *node, int32_t count, int32_t target) {
    int32_t touched = 0;
    p->stamps++;
    for (int32_t k = 0; k < count; k++) touch_values_of(p, node[k], &touched);
    for (int32_t k = 0; k < touched; k++) change(p, p->touched[k], -1);
    for (int32_t k = 0; k < count; k++) {
        const int32_t from = p->device[node[k]];
        p->busy_us[from] -= task_us(p, node[k], from);
        p->busy_us[target] += task_us(p, node[k], target);
        if (from != p->began[node[k]]) p->away_us -= task_us(p, node[k], from);
        if (target != p->began[node[k]]) p->away_us += task_us(p, node[k], target);
        p->device[node[k]] = target;
    }
    for (int32_t k = 0; k < touched; k++) change(p, p->touched[k], 1);
}

/* ---- moments ---- */

static int by_time(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* How many moments are before a time. */
static int32_t count_before(const int64_t *moment, int32_t count, int64_t ps) {
    int32_t low = 0, high = count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (moment[middle] < ps) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t fastest_ps(const stw_machine *machine, int64_t bytes) {
    int64_t best = INT64_MAX;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        const stw_link *link = &machine->link[k];
        if (k / machine->device_count == k % machine->device_count || link->bandwidth <= 0.0) continue;
        const int64_t ps = stw_cost_transfer_ps(link, bytes);
        if (ps < best) best = ps;
    }
    return best == INT64_MAX ? 0 : best;
}

static stw_status find_moments(stw_pack *p, const stw_timeline *timeline, stw_arena scratch, stw_error *error) {
    const stw_tasks *tasks = p->tasks;
    int64_t *moment;
    int32_t count = 0;
    STW_TRY_NEW(&scratch, moment, tasks->T, error);
    memcpy(moment, timeline->start_ps, (size_t)tasks->T * sizeof *moment);
    qsort(moment, (size_t)tasks->T, sizeof *moment, by_time);
    for (int32_t t = 0; t < tasks->T; t++) {
        if (count == 0 || moment[t] != moment[count - 1]) moment[count++] = moment[t];
    }
    const int32_t most = MAX_LEAVES / p->D;
    int32_t stretch = 1; /* moments that count as one: what is held in one of them counts in all */
    while (count / stretch >= most) stretch++;
    p->moments = (count - 1) / stretch + 1;
    for (int32_t t = 0; t < tasks->T; t++) {
        const bool lasts = timeline->end_ps[t] > timeline->start_ps[t];
        p->first[t] = count_before(moment, count, timeline->start_ps[t]) / stretch;
        p->last[t] = lasts ? (count_before(moment, count, timeline->end_ps[t]) - 1) / stretch : p->first[t] - 1;
    }
    for (int32_t v = 0; v < tasks->V; v++) {
        const int32_t task = tasks->value_task[v];
        const int64_t sent = task < 0 ? 0 : timeline->end_ps[task] + fastest_ps(p->machine, tasks->value_bytes[v]);
        p->sent_until[v] = task < 0 ? 0 : (count_before(moment, count, sent) - 1) / stretch;
    }
    return STW_OK;
}

stw_status stw_pack_open(const stw_costs *costs, const stw_machine *machine, const stw_timeline *timeline, const int32_t *device,
                         stw_arena *arena, stw_pack *out, stw_error *error) {
    const stw_tasks *tasks = timeline->tasks;
    const int32_t N = costs->graph->N;
    *out = (stw_pack){.machine = machine, .tasks = tasks, .costs = costs, .D = machine->device_count, .N = N};
    STW_TRY_NEW(arena, out->first, tasks->T, error);
    STW_TRY_NEW(arena, out->last, tasks->T, error);
    STW_TRY_NEW(arena, out->sent_until, tasks->V, error);
    STW_TRY_NEW(arena, out->stamp, tasks->V, error);
    STW_TRY_NEW(arena, out->touched, tasks->V, error);
    STW_TRY_NEW(arena, out->value_of, N, error);
    STW_TRY_NEW(arena, out->device, N, error);
    STW_TRY_NEW(arena, out->began, N, error);
    TRY(find_moments(out, timeline, *arena, error));
    for (out->leaves = 2; out->leaves < out->moments; out->leaves *= 2) {
    }
    STW_TRY_NEW(arena, out->tree, (int64_t)out->D * 2 * out->leaves, error);
    memcpy(out->device, device, (size_t)N * sizeof *device);
    memcpy(out->began, device, (size_t)N * sizeof *device);
    for (int32_t i = 0; i < N; i++) out->value_of[i] = -1;
    for (int32_t v = 0; v < tasks->V; v++) out->value_of[tasks->value_node[v]] = v;
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t node = tasks->task_node[t];
        out->busy_us[device[node]] += task_us(out, node, device[node]);
        if ((double)timeline->end_ps[t] / 1e6 > out->step_us) out->step_us = (double)timeline->end_ps[t] / 1e6;
    }
    for (int32_t v = 0; v < tasks->V; v++) change(out, v, 1);
    for (int32_t d = 0; d < out->D; d++) out->limit[d] = machine->device[d].memory_bytes;
    return STW_OK;
}
