/* The features of a move as plain loops over the whole problem, in double: what move_features.c is compared with. Nothing is
 * carried over from a run but its times. */
#ifndef STW_TEST_METHOD_PLAIN_FEATURES_H
#define STW_TEST_METHOD_PLAIN_FEATURES_H

#include <math.h>
#include <stdlib.h>

#include "method/anneal/move_features.h"
#include "plan/plan.h"

typedef struct {
    const stw_simulator *s;
    const stw_seen *seen;
    const int32_t *was, *is;            /* (N) devices before and after */
    const int32_t *group;               /* (N) */
    double *start, *end, *slack, *give; /* (T) shares of the step */
    double step_us;
} plain;

static double plain_send(const plain *p, int32_t from, int32_t to, double bytes) {
    const stw_link *link = stw_machine_link(p->s->machine, from, to);
    if (from == to) return 0.0;
    if (!(link->bandwidth > 0.0)) return 10.0;
    return (link->latency_us + link->send_us + link->receive_us + stw_link_bytes_us(link, bytes)) / p->step_us;
}

static double plain_bytes(const plain *p, const stw_task_use *use, int32_t value) {
    const double whole = (double)p->s->unfused.value_bytes[value];
    return use->view < 0 ? whole : fmin(whole, (double)p->s->graph->bytes[use->view]);
}

static int32_t plain_holder(const plain *p, int32_t value) {
    const int32_t producer = p->s->unfused.value_task[value];
    return producer < 0 ? p->s->unfused.value_node[value] : p->s->unfused.task_node[producer];
}

/* What each task leaves to those that need it, until nothing changes any more. */
static void plain_slack(plain *p, bool ordered, double *out) {
    const stw_tasks *k = &p->s->unfused;
    for (int32_t t = 0; t < k->T; t++) out[t] = 1.0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t v = 0; v < k->V; v++) {
            const int32_t t = k->value_task[v];
            for (int32_t u = k->use_start[v]; t >= 0 && u < k->use_start[v + 1]; u++) {
                const int32_t r = k->use[u].task;
                const double sent =
                    plain_send(p, p->was[k->task_node[t]], p->was[k->task_node[r]], plain_bytes(p, &k->use[u], v));
                const double latest = out[r] - (p->end[r] - p->start[r]) - sent;
                if (latest < out[t] - 1e-12) out[t] = latest, changed = true;
            }
        }
        for (int32_t t = 0; t < k->T; t++) {
            for (int32_t w = k->waiter_start[t]; w < k->waiter_start[t + 1]; w++) {
                const double latest = out[k->waiter[w]] - (p->end[k->waiter[w]] - p->start[k->waiter[w]]);
                if (latest < out[t] - 1e-12) out[t] = latest, changed = true;
            }
        }
        for (int32_t i = 0; ordered && i + 1 < k->T; i++) {
            int32_t j = i + 1;
            const int32_t t = p->seen->order[i], device = p->was[k->task_node[t]];
            while (j < k->T && p->was[k->task_node[p->seen->order[j]]] != device) j++;
            if (j == k->T) continue;
            const int32_t next = p->seen->order[j];
            const double latest = out[next] - (p->end[next] - p->start[next]);
            if (latest < out[t] - 1e-12) out[t] = latest, changed = true;
        }
    }
    for (int32_t t = 0; t < k->T; t++) out[t] = fmax(0.0, out[t] - p->end[t]);
}

static bool plain_critical(const plain *p, int32_t task) {
    for (int32_t k = 0; k < p->seen->critical_count; k++)
        if (p->seen->critical[k] == task) return true;
    return false;
}

/* Share of a bin that a device runs something, or something critical. */
static double plain_busy(const plain *p, int32_t device, int32_t bin, bool critical) {
    const double from = (double)bin / STW_SIGHT_BINS, to = (double)(bin + 1) / STW_SIGHT_BINS;
    double sum = 0.0;
    for (int32_t t = 0; t < p->s->unfused.T; t++) {
        if (p->was[p->s->unfused.task_node[t]] != device || (critical && !plain_critical(p, t))) continue;
        sum += fmax(0.0, fmin(to, p->end[t]) - fmax(from, p->start[t]));
    }
    return sum * STW_SIGHT_BINS;
}

static int32_t plain_bin(double share) { return (int32_t)fmin(STW_SIGHT_BINS - 1, floor(share * STW_SIGHT_BINS)); }

static double plain_least_give(const plain *p, int32_t device, int32_t bin) {
    double give = 1.0;
    for (int32_t t = 0; t < p->s->unfused.T; t++) {
        if (p->was[p->s->unfused.task_node[t]] == device && plain_bin(p->start[t]) == bin) give = fmin(give, p->give[t]);
    }
    return give;
}

static double plain_load(const plain *p, const int32_t *on, int32_t device) {
    double sum = 0.0;
    for (int32_t t = 0; t < p->s->unfused.T; t++) sum += on[p->s->unfused.task_node[t]] == device ? p->end[t] - p->start[t] : 0.0;
    return sum;
}

static double plain_most_load(const plain *p, const int32_t *on) {
    double most = 0.0;
    for (int32_t d = 0; d < p->s->machine->device_count; d++) most = fmax(most, plain_load(p, on, d));
    return most;
}

/* All transfers of a value: time, and how many. */
static double plain_transfers(const plain *p, int32_t v, const int32_t *on, int32_t *count) {
    const stw_tasks *k = &p->s->unfused;
    double sum = 0.0;
    for (int32_t d = 0; d < p->s->machine->device_count; d++) {
        double bytes = -1.0;
        for (int32_t u = k->use_start[v]; u < k->use_start[v + 1]; u++)
            if (on[k->task_node[k->use[u].task]] == d) bytes = fmax(bytes, plain_bytes(p, &k->use[u], v));
        if (bytes < 0.0 || on[plain_holder(p, v)] == d) continue;
        sum += plain_send(p, on[plain_holder(p, v)], d, bytes);
        ++*count;
    }
    return sum;
}

static bool plain_touches(const plain *p, int32_t v) {
    const stw_tasks *k = &p->s->unfused;
    const int32_t producer = k->value_task[v];
    if (k->value_flags[v] & STW_VALUE_EVERYWHERE) return false;
    if (producer >= 0 && p->was[k->task_node[producer]] != p->is[k->task_node[producer]]) return true;
    for (int32_t u = k->use_start[v]; u < k->use_start[v + 1]; u++) {
        const int32_t node = k->task_node[k->use[u].task];
        if (p->was[node] != p->is[node]) return true;
    }
    return false;
}

/* The columns by name, before they are scaled. */
static void plain_columns(const plain *p, const stw_proposed *move, double *f) {
    const stw_tasks *k = &p->s->unfused;
    const stw_machine *machine = p->s->machine;
    const int32_t D = machine->device_count;
    double work = 0, critical = 0, middle = 0, first = 2, last = 0, swapped = 0, count = 0, latency = 0, links = 0, total = 0;
    int32_t own = -1, goes_to = -1;
#define F(name) f[STW_MOVE_HAS_##name]
    for (int32_t i = 0; i < move->count && own < 0; i++) { /* the first task in the order of the move */
        const int32_t node = move->node[i];
        if (k->task_of[node] >= 0 && p->was[node] != p->is[node]) own = p->was[node], goes_to = p->is[node];
    }
    for (int32_t t = 0; t < k->T; t++) total += p->end[t] - p->start[t];
    for (int32_t t = 0; t < k->T; t++) {
        const int32_t was = p->was[k->task_node[t]], is = p->is[k->task_node[t]], bin = plain_bin(p->start[t]);
        const double takes = p->end[t] - p->start[t] + 1e-9;
        if (was == is) continue;
        if (count++ == 0.0) F(give_to) = F(slack_least) = F(give_least) = 1.0, F(late_most) = F(late_critical) = -1.0;
        work += takes;
        critical += plain_critical(p, t) ? takes : 0.0;
        swapped += was != own;
        middle += takes * p->start[t];
        first = fmin(first, p->start[t]);
        last = fmax(last, p->end[t]);
        F(load_from) += takes * plain_load(p, p->was, was);
        F(load_to) += takes * plain_load(p, p->was, is);
        F(busy_from) += takes * plain_busy(p, was, bin, false);
        F(busy_to) += takes * plain_busy(p, is, bin, false);
        F(critical_from) += takes * plain_busy(p, was, bin, true);
        F(critical_to) += takes * plain_busy(p, is, bin, true);
        F(give_to) = fmin(F(give_to), plain_least_give(p, is, bin));
        F(slack_least) = fmin(F(slack_least), p->slack[t]);
        F(slack_mean) += takes * p->slack[t];
        F(give_least) = fmin(F(give_least), p->give[t]);
        F(give_mean) += takes * p->give[t];
        double ready = -1.0;
        for (int32_t v = 0; v < k->V; v++) {
            const int32_t producer = k->value_task[v], holder = plain_holder(p, v);
            bool reads = false;
            for (int32_t u = k->use_start[v]; u < k->use_start[v + 1]; u++) reads |= k->use[u].task == t;
            if (!reads || (k->value_flags[v] & STW_VALUE_EVERYWHERE)) continue;
            if (producer >= 0 && p->was[holder] != p->is[holder] && p->is[holder] == is) continue;
            ready = fmax(ready,
                         (producer >= 0 ? p->end[producer] : 0.0) + plain_send(p, p->is[holder], is, (double)k->value_bytes[v]));
        }
        if (ready < 0.0) continue;
        F(late_most) = fmax(F(late_most), ready - p->start[t] - p->slack[t]);
        F(late_mean) += takes * fmax(0.0, ready - p->start[t] - p->slack[t]);
        if (plain_critical(p, t)) F(late_critical) = fmax(F(late_critical), ready - p->start[t]);
    }
    F(devices) = D;
    F(busy) = total / D;
    F(most_load) = plain_most_load(p, p->was);
    F(size) = k->T;
    F(progress) = move->progress;
    F(heat) = move->heat;
    F(unit) = move->shape == STW_SHAPE_UNIT;
    F(blob) = move->shape == STW_SHAPE_BLOB;
    F(window) = move->shape == STW_SHAPE_WINDOW;
    for (int32_t a = 0; a < D; a++) {
        for (int32_t b = 0; b < D; b++) {
            const stw_link *link = stw_machine_link(machine, a, b);
            if (a == b || !(link->bandwidth > 0.0)) continue;
            latency += link->latency_us + link->send_us + link->receive_us;
            links++;
        }
    }
    F(task_latency) = total / k->T * p->step_us / ((links > 0.0 ? latency / links : 0.0) + 1e-3);
    for (int32_t v = 0; v < k->V; v++) {
        int32_t ignored = 0;
        if (k->value_task[v] >= 0) F(sent) += plain_transfers(p, v, p->was, &ignored) / D;
    }
    if (count == 0.0) return;
    double *const means[] = {&F(load_from),   &F(load_to),    &F(busy_from), &F(busy_to),  &F(critical_from),
                             &F(critical_to), &F(slack_mean), &F(give_mean), &F(late_mean)};
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) *means[i] /= work;
    F(swapped) = swapped / count;
    F(tasks) = count;
    F(work) = work;
    F(work_tasks) = work / (total / k->T + 1e-12);
    F(critical_work) = critical;
    F(critical_share) = critical / work;
    F(span) = last - first;
    F(middle) = middle / work;
    F(load_change) = F(load_to) - F(load_from);
    F(crowding) = work;
    for (int32_t b = plain_bin(first); b <= plain_bin(last); b++)
        F(crowding) -= fmax(0.0, 1.0 - plain_busy(p, goes_to, b, false)) / STW_SIGHT_BINS;
    F(most_load_change) = plain_most_load(p, p->is) - F(most_load);
    for (int32_t d = 0; d < D; d++) {
        double brought = 0.0;
        for (int32_t v = 0; v < k->V; v++) {
            const int32_t node = plain_holder(p, v);
            if (k->value_task[v] >= 0 && p->was[node] != p->is[node] && p->is[node] == d) brought += (double)k->home_bytes[v];
        }
        const double memory = (double)machine->device[d].memory_bytes;
        if (brought > 0.0) F(fill_to) = fmax(F(fill_to), ((double)p->seen->peak_bytes[d] + brought) / memory);
    }
    F(fill_to) = fmin(F(fill_to), 4.0);
    for (int32_t i = 0; i + 1 < p->seen->critical_count; i++) {
        const int32_t q = p->seen->critical[i], r = p->seen->critical[i + 1], a = k->task_node[r], b = k->task_node[q];
        const bool was = p->was[a] == p->was[b], is = p->is[a] == p->is[b];
        double bytes = -1.0;
        for (int32_t v = 0; v < k->V; v++) {
            for (int32_t u = k->use_start[v]; u < k->use_start[v + 1]; u++)
                if (k->value_task[v] == r && k->use[u].task == q) bytes = fmax(bytes, (double)k->value_bytes[v]);
        }
        F(broken) += was && !is && bytes < 0.0;
        F(split) += was && !is && bytes >= 0.0;
        F(healed) += !was && is;
        if (was != is && bytes >= 0.0)
            F(cut) += was ? plain_send(p, p->is[a], p->is[b], bytes) : -plain_send(p, p->was[a], p->was[b], bytes);
    }
    double before = 0.0, after = 0.0;
    int32_t count_before = 0, count_after = 0;
    F(readers_late_most) = -1.0;
    for (int32_t v = 0; v < k->V; v++) {
        const int32_t producer = k->value_task[v], node = plain_holder(p, v);
        if (!plain_touches(p, v)) continue;
        before += plain_transfers(p, v, p->was, &count_before);
        after += plain_transfers(p, v, p->is, &count_after);
        for (int32_t u = k->use_start[v]; producer >= 0 && u < k->use_start[v + 1]; u++) {
            const int32_t r = k->use[u].task, reader = k->task_node[r];
            F(torn) += p->was[node] == p->was[reader] && p->is[node] != p->is[reader] && p->group[node] == p->group[reader];
            if (p->was[node] == p->is[node] || p->was[reader] != p->is[reader]) continue;
            const double by = p->end[producer] + plain_send(p, p->is[node], p->is[reader], plain_bytes(p, &k->use[u], v)) -
                              p->start[r] - p->slack[r];
            F(readers_late_most) = fmax(F(readers_late_most), by);
            F(readers_late) += fmax(0.0, by);
        }
    }
    F(sent_before) = before;
    F(sent_after) = after;
    F(sent_change) = after - before;
    F(sent_per_work) = (after - before) / (work + total / k->T);
    F(transfers_before) = count_before;
    F(transfers_change) = count_after - count_before;
#undef F
}

/* log2(1 + |x|), linear between powers of two, with the sign of x. */
static double plain_bend(double x) {
    int exponent;
    const double mantissa = frexp(1.0 + fabs(x), &exponent); /* in [0.5, 1) */
    return copysign(exponent - 1 + (2.0 * mantissa - 1.0), x);
}

/* was: (N) devices that the run of `seen` had; move->plan has those after. feature: (STW_MOVE_FEATURES). */
static inline void plain_features(const stw_simulator *s, const stw_seen *seen, const int32_t *was, const stw_proposed *move,
                                  double *feature) {
    static const enum {
        PLAIN,
        LOG,
        SHARE
    } scale[] = {
#define COLUMN(name, scale, what) scale,
#include "method/anneal/move_columns.def"
#undef COLUMN
    };
    const int32_t T = s->unfused.T;
    double *times = calloc((size_t)T * 4, sizeof *times);
    plain p = {.s = s,
               .seen = seen,
               .was = was,
               .is = move->plan->device,
               .group = move->plan->group,
               .start = times,
               .end = times + T,
               .slack = times + 2 * T,
               .give = times + 3 * T,
               .step_us = (double)seen->step_ps * 1e-6};
    for (int32_t t = 0; t < T; t++) {
        p.start[t] = (double)seen->start_ps[t] / (double)seen->step_ps;
        p.end[t] = (double)seen->end_ps[t] / (double)seen->step_ps;
    }
    plain_slack(&p, false, p.slack);
    plain_slack(&p, true, p.give);
    for (int c = 0; c < STW_MOVE_FEATURES; c++) feature[c] = 0.0;
    plain_columns(&p, move, feature);
    for (int c = 0; c < STW_MOVE_FEATURES; c++) {
        if (scale[c] != PLAIN) feature[c] = plain_bend(scale[c] == SHARE ? 100.0 * feature[c] : feature[c]);
    }
    free(times);
}

#endif
