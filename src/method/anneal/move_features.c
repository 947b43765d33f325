#include "method/anneal/move_features.h"

#include <math.h>

#include "plan/plan.h"

enum { BINS = STW_SIGHT_BINS };
typedef enum scale { PLAIN, LOG, SHARE } scale;

static const scale scales[STW_MOVE_FEATURES] = {
#define COLUMN(name, scale, what) [STW_MOVE_HAS_##name] = scale,
#include "method/anneal/move_columns.def"
#undef COLUMN
};

#define SET(name, value) l->f[STW_MOVE_HAS_##name] = (float)(value)

typedef struct {
    const stw_simulator *simulator;
    const stw_tasks *tasks;
    stw_sight *s;
    const int32_t *device; /* (N) after the move */
    const int32_t *group;  /* (N) */
    int32_t count;         /* tasks that move: s->task */
    double work;           /* what these take */
    float *f;
} look;

static bool moves(const look *l, int32_t node) { return l->s->node_stamp[node] == l->s->stamp; }
static int32_t was_on(const look *l, int32_t node) { return moves(l, node) ? l->s->old_device[node] : l->device[node]; }
static int32_t before(const look *l, int32_t task) { return was_on(l, l->tasks->task_node[task]); }
static int32_t after(const look *l, int32_t task) { return l->device[l->tasks->task_node[task]]; }
static double takes(const look *l, int32_t task) { return (double)(l->s->end[task] - l->s->start[task]) + 1e-9; }
static double send(const look *l, int32_t from, int32_t to, double bytes) {
    return stw_sight_transfer(l->s, l->simulator->machine, from, to, bytes);
}

/* ---- what moves ---- */

/* What comes back to where it was does not. */
static void mark(look *l, const stw_proposed *move) {
    stw_sight *s = l->s;
    const int32_t *task_of = l->tasks->task_of, *task_node = l->tasks->task_node;
    int32_t count = 0;
    s->stamp++;
    for (int32_t i = 0; i < move->count; i++) {
        const int32_t node = move->node[i];
        if (moves(l, node)) continue;
        s->node_stamp[node] = s->stamp;
        s->old_device[node] = move->old_device[i];
        if (task_of[node] >= 0 && task_node[task_of[node]] == node) s->task[count++] = task_of[node];
    }
    for (int32_t i = 0; i < move->count; i++) {
        if (s->old_device[move->node[i]] == l->device[move->node[i]]) s->node_stamp[move->node[i]] = 0;
    }
    for (int32_t i = 0; i < count; i++) {
        if (moves(l, task_node[s->task[i]])) s->task[l->count++] = s->task[i];
    }
}

static void see_work(look *l) {
    const stw_sight *s = l->s;
    double critical = 0.0, swapped = 0.0, middle = 0.0, first = 2.0, last = 0.0;
    for (int32_t i = 0; i < l->count; i++) {
        const int32_t t = s->task[i];
        l->work += takes(l, t);
        swapped += before(l, t) != before(l, s->task[0]);
        if (s->critical[t]) critical += takes(l, t);
        middle += takes(l, t) * s->start[t];
        first = fmin(first, s->start[t]);
        last = fmax(last, s->end[t]);
    }
    SET(swapped, swapped / l->count);
    SET(tasks, l->count);
    SET(work, l->work);
    SET(work_tasks, l->work / (s->mean_task + 1e-12));
    SET(critical_work, critical);
    SET(critical_share, critical / l->work);
    SET(span, last - first);
    SET(middle, middle / l->work);
    const float *busy = &s->busy[(int64_t)after(l, s->task[0]) * BINS];
    double idle = 0.0;
    for (int32_t b = stw_sight_bin((float)first); b <= stw_sight_bin((float)last); b++) idle += fmax(0.0, 1.0 - busy[b]) / BINS;
    SET(crowding, l->work - idle);
}

/* ---- where it comes from and goes to ---- */

static void see_devices(const look *l) {
    const stw_sight *s = l->s;
    double load[2] = {0}, busy[2] = {0}, on_path[2] = {0}, give = 1.0;
    for (int32_t i = 0; i < l->count; i++) {
        const int32_t t = s->task[i], bin = stw_sight_bin(s->start[t]), device[2] = {before(l, t), after(l, t)};
        for (int k = 0; k < 2; k++) {
            load[k] += takes(l, t) * s->load[device[k]];
            busy[k] += takes(l, t) * s->busy[device[k] * BINS + bin];
            on_path[k] += takes(l, t) * s->on_path[device[k] * BINS + bin];
        }
        give = fmin(give, s->least_give[device[1] * BINS + bin]);
    }
    SET(load_from, load[0] / l->work);
    SET(load_to, load[1] / l->work);
    SET(load_change, (load[1] - load[0]) / l->work);
    SET(busy_from, busy[0] / l->work);
    SET(busy_to, busy[1] / l->work);
    SET(critical_from, on_path[0] / l->work);
    SET(critical_to, on_path[1] / l->work);
    SET(give_to, give);
}

static void see_loads(const look *l) {
    const stw_sight *s = l->s;
    const stw_machine *machine = l->simulator->machine;
    float load[STW_MAX_DEVICES], most = 0.0f;
    double brought[STW_MAX_DEVICES] = {0}, fill = 0.0;
    memcpy(load, s->load, (size_t)machine->device_count * sizeof *load);
    for (int32_t i = 0; i < l->count; i++) {
        const int32_t t = s->task[i], to = after(l, t);
        load[before(l, t)] -= s->end[t] - s->start[t];
        load[to] += s->end[t] - s->start[t];
        for (int32_t o = l->tasks->output_start[t]; o < l->tasks->output_start[t + 1]; o++)
            brought[to] += (double)l->tasks->home_bytes[l->tasks->output[o]];
    }
    for (int32_t d = 0; d < machine->device_count; d++) {
        const double memory = (double)machine->device[d].memory_bytes;
        most = fmaxf(most, load[d]);
        if (brought[d] > 0.0 && memory > 0.0) fill = fmax(fill, s->fill[d] + brought[d] / memory);
    }
    SET(most_load_change, most - s->most_load);
    SET(fill_to, fmin(fill, 4.0));
}

/* ---- when inputs would be there ---- */

/* The last of what comes from elsewhere or from what stays, as a share of the step; negative: there is none. */
static double ready_at(const look *l, int32_t t) {
    const stw_tasks *k = l->tasks;
    double ready = -1.0;
    for (int32_t q = k->input_start[t]; q < k->input_start[t + 1]; q++) {
        const int32_t v = k->slot_value[q], producer = k->value_task[v];
        if (k->value_flags[v] & STW_VALUE_EVERYWHERE) continue;
        const int32_t home = producer >= 0 ? after(l, producer) : l->device[k->value_node[v]];
        if (producer >= 0 && moves(l, k->task_node[producer]) && home == after(l, t)) continue;
        const double made = producer >= 0 ? (double)l->s->end[producer] : 0.0;
        ready = fmax(ready, made + send(l, home, after(l, t), (double)k->value_bytes[v]));
    }
    return ready;
}

static void see_lateness(const look *l) {
    const stw_sight *s = l->s;
    double most = -1.0, sum = 0.0, critical = -1.0, slack_least = 1.0, slack = 0.0, give_least = 1.0, give = 0.0;
    for (int32_t i = 0; i < l->count; i++) {
        const int32_t t = s->task[i];
        const double ready = ready_at(l, t), by = ready - s->start[t];
        slack_least = fmin(slack_least, s->slack[t]);
        slack += takes(l, t) * s->slack[t];
        give_least = fmin(give_least, s->give[t]);
        give += takes(l, t) * s->give[t];
        if (ready < 0.0) continue;
        most = fmax(most, by - s->slack[t]);
        sum += takes(l, t) * fmax(0.0, by - s->slack[t]);
        if (s->critical[t]) critical = fmax(critical, by);
    }
    SET(late_most, most);
    SET(late_mean, sum / l->work);
    SET(late_critical, critical);
    SET(slack_least, slack_least);
    SET(slack_mean, slack / l->work);
    SET(give_least, give_least);
    SET(give_mean, give / l->work);
}

/* ---- the critical path ---- */

/* The largest value that passes from one task to the other; -1: none does. */
static double bytes_between(const stw_tasks *k, int32_t producer, int32_t reader) {
    double bytes = -1.0;
    for (int32_t q = k->input_start[reader]; q < k->input_start[reader + 1]; q++) {
        if (k->value_task[k->slot_value[q]] == producer) bytes = fmax(bytes, (double)k->value_bytes[k->slot_value[q]]);
    }
    return bytes;
}

typedef struct {
    double broken, split, healed, cut;
} path;

static void see_pair(const look *l, int32_t first, int32_t second, path *p) {
    const bool was = before(l, first) == before(l, second), is = after(l, first) == after(l, second);
    if (was == is) return;
    const double bytes = bytes_between(l->tasks, first, second);
    p->broken += was && bytes < 0.0;
    p->split += was && bytes >= 0.0;
    p->healed += is;
    if (bytes < 0.0) return;
    p->cut += was ? send(l, after(l, first), after(l, second), bytes) : -send(l, before(l, first), before(l, second), bytes);
}

static void see_path(const look *l) {
    const stw_sight *s = l->s;
    path p = {0};
    for (int32_t i = 0; i < l->count; i++) {
        const int32_t t = s->task[i], behind = s->behind[t];
        if (s->before[t] >= 0) see_pair(l, s->before[t], t, &p);
        if (behind >= 0 && !moves(l, l->tasks->task_node[behind])) see_pair(l, t, behind, &p); /* else that one counts it */
    }
    SET(broken, p.broken);
    SET(split, p.split);
    SET(healed, p.healed);
    SET(cut, p.cut);
}

/* ---- what is sent ---- */

typedef struct {
    double takes; /* all transfers of what was looked at */
    int32_t count;
} transfers;

typedef struct {
    transfers before, after;
    double late_most, late; /* readers that stay */
    int32_t torn;
} sent;

typedef struct { /* of one value: to which devices, and how much */
    uint64_t to;
    double bytes[STW_MAX_DEVICES];
} destinations;

static void add_destination(destinations *d, int32_t device, double bytes) {
    d->bytes[device] = d->to >> device & 1 ? fmax(d->bytes[device], bytes) : bytes;
    d->to |= 1ULL << device;
}

static void add_transfers(const look *l, int32_t home, const destinations *d, transfers *out) {
    for (uint64_t left = d->to; left != 0; left &= left - 1) {
        const int32_t to = __builtin_ctzll(left);
        out->takes += send(l, home, to, d->bytes[to]);
        out->count++;
    }
}

static void see_value(const look *l, int32_t v, sent *x) {
    const stw_tasks *k = l->tasks;
    const int32_t producer = k->value_task[v], node = producer >= 0 ? k->task_node[producer] : k->value_node[v];
    const int32_t was = was_on(l, node), is = l->device[node];
    destinations old, new;
    old.to = new.to = 0;
    for (int32_t u = k->use_start[v]; u < k->use_start[v + 1]; u++) {
        const int32_t r = k->use[u].task, reader = k->task_node[r], to = l->device[reader];
        const double bytes = stw_sight_bytes(l->simulator, v, &k->use[u]);
        if (was_on(l, reader) != was) add_destination(&old, was_on(l, reader), bytes);
        if (to != is) add_destination(&new, to, bytes);
        if (producer < 0) continue;
        x->torn += was_on(l, reader) == was && to != is && l->group[node] == l->group[reader];
        if (!moves(l, node) || moves(l, reader)) continue;
        const double by = l->s->end[producer] + send(l, is, to, bytes) - l->s->start[r] - l->s->slack[r];
        x->late_most = fmax(x->late_most, by);
        x->late += fmax(0.0, by);
    }
    add_transfers(l, was, &old, &x->before);
    add_transfers(l, is, &new, &x->after);
}

/* Every value once. */
static void see_once(const look *l, int32_t v, sent *x) {
    if (l->s->value_stamp[v] == l->s->stamp || (l->tasks->value_flags[v] & STW_VALUE_EVERYWHERE)) return;
    l->s->value_stamp[v] = l->s->stamp;
    see_value(l, v, x);
}

static void see_sent(const look *l) {
    const stw_tasks *k = l->tasks;
    sent x = {.late_most = -1.0};
    for (int32_t i = 0; i < l->count; i++) {
        const int32_t t = l->s->task[i];
        for (int32_t o = k->output_start[t]; o < k->output_start[t + 1]; o++) see_once(l, k->output[o], &x);
        for (int32_t q = k->input_start[t]; q < k->input_start[t + 1]; q++) see_once(l, k->slot_value[q], &x);
    }
    SET(sent_before, x.before.takes);
    SET(sent_after, x.after.takes);
    SET(sent_change, x.after.takes - x.before.takes);
    SET(sent_per_work, (x.after.takes - x.before.takes) / (l->work + l->s->mean_task));
    SET(transfers_before, x.before.count);
    SET(transfers_change, x.after.count - x.before.count);
    SET(readers_late_most, x.late_most);
    SET(readers_late, x.late);
    SET(torn, x.torn);
}

/* ---- all of it ---- */

static void see_state(const look *l, const stw_proposed *move) {
    const stw_sight *s = l->s;
    SET(unit, move->shape == STW_SHAPE_UNIT);
    SET(blob, move->shape == STW_SHAPE_BLOB);
    SET(window, move->shape == STW_SHAPE_WINDOW);
    SET(devices, l->simulator->machine->device_count);
    SET(busy, s->mean_load);
    SET(most_load, s->most_load);
    SET(sent, s->sent);
    SET(task_latency, (double)s->mean_task * s->step_us / (s->latency_us + 1e-3));
    SET(size, l->tasks->T);
    SET(progress, move->progress);
    SET(heat, move->heat);
}

void stw_move_features(const stw_simulator *simulator, stw_sight *sight, const stw_proposed *move, float *feature) {
    look l = {.simulator = simulator,
              .tasks = &simulator->unfused,
              .s = sight,
              .device = move->plan->device,
              .group = move->plan->group,
              .f = feature};
    memset(feature, 0, STW_MOVE_FEATURES * sizeof *feature);
    mark(&l, move);
    see_state(&l, move);
    if (l.count > 0) {
        see_work(&l);
        see_devices(&l);
        see_loads(&l);
        see_lateness(&l);
        see_path(&l);
        see_sent(&l);
    }
    for (int c = 0; c < STW_MOVE_FEATURES; c++) {
        if (scales[c] != PLAIN) feature[c] = stw_bend(scales[c] == SHARE ? 100.0f * feature[c] : feature[c]);
    }
}
