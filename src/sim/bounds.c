/* Lower bounds: what no plan can beat under this cost model.
 *
 * Every op has a head (the least time before it can begin) and a tail (the least time after it). For thresholds (h, t), all ops
 * with at least that head and tail run within [h, step - t], so step >= h + work / devices + t. The bound is the maximum over
 * all thresholds; it contains the critical path and the work over all devices. Unlike devices: "work / devices" is the
 * fractional-assignment bound through prices (see price_devices). Transfers and memory are ignored, which only lowers it. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bounds.h"

/* ---- heads and tails ---- */

/* The order in which tasks can run; predecessors first. */
static stw_status order_tasks(const stw_tasks *tasks, stw_arena *arena, int32_t **out, stw_error *error) {
    int32_t *pending, *queue, count = 0;
    STW_TRY_NEW(arena, queue, tasks->T, error);
    STW_TRY_NEW(arena, pending, tasks->T, error);
    for (int32_t v = 0; v < tasks->V; v++) { /* what comes from sources is there at once */
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) pending[tasks->use[u].task]++;
    }
    for (int32_t w = 0; w < tasks->waiter_start[tasks->T]; w++) pending[tasks->waiter[w]]++;
    for (int32_t t = 0; t < tasks->T; t++) {
        if (pending[t] == 0) queue[count++] = t;
    }
    for (int32_t k = 0; k < count; k++) {
        const int32_t t = queue[k];
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            for (int32_t u = tasks->use_start[tasks->output[o]]; u < tasks->use_start[tasks->output[o] + 1]; u++) {
                if (--pending[tasks->use[u].task] == 0) queue[count++] = tasks->use[u].task;
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            if (--pending[tasks->waiter[w]] == 0) queue[count++] = tasks->waiter[w];
        }
    }
    *out = queue;
    return STW_OK;
}

typedef struct {
    double *head, *tail, *least; /* (T) ps; least: time on the fastest device */
} levels;

static void raise(double *value, double to) {
    if (*value < to) *value = to;
}

static void walk_levels(const stw_tasks *tasks, const int32_t *order, levels *l) {
    for (int32_t k = 0; k < tasks->T; k++) {
        const int32_t t = order[k];
        const double end = l->head[t] + l->least[t];
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            for (int32_t u = tasks->use_start[tasks->output[o]]; u < tasks->use_start[tasks->output[o] + 1]; u++) {
                raise(&l->head[tasks->use[u].task], end);
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) raise(&l->head[tasks->waiter[w]], end);
    }
    for (int32_t k = tasks->T - 1; k >= 0; k--) {
        const int32_t t = order[k];
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            for (int32_t u = tasks->use_start[tasks->output[o]]; u < tasks->use_start[tasks->output[o] + 1]; u++) {
                const int32_t reader = tasks->use[u].task;
                raise(&l->tail[t], l->tail[reader] + l->least[reader]);
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++) {
            const int32_t waiter = tasks->waiter[w];
            raise(&l->tail[t], l->tail[waiter] + l->least[waiter]);
        }
    }
}

/* ---- work over unlike devices ---- */

/* Prices y_c >= 0 with sum over devices of y = 1 make sum over tasks of min_c(y_c x time_c) a lower bound on the largest load
 * (linear-programming duality), whatever the prices; good prices make it tight. shares[c] = n_c y_c. */
static double priced_work(const stw_bound_input *in, const double *share, double *load, double *weight) {
    double sum = 0.0, price_of[STW_MAX_DEVICES];
    for (int32_t c = 0; c < in->C; c++) {
        load[c] = 0.0;
        price_of[c] = share[c] / in->device_count[c];
    }
    for (int32_t t = 0; t < in->tasks->T; t++) {
        int32_t best = 0;
        double least = DBL_MAX;
        for (int32_t c = 0; c < in->C; c++) {
            const double price = price_of[c] * in->time_ps[c][t];
            if (price >= least) continue;
            least = price;
            best = c;
        }
        if (weight != NULL) weight[t] = least;
        load[best] += in->time_ps[best][t] / in->device_count[best];
        sum += least;
    }
    return sum;
}

/* Raises the price of the loaded classes and lowers that of the others, in shrinking steps; keeps the best. */
static void price_devices(const stw_bound_input *in, double *weight) {
    enum { ROUNDS = 120 };
    double share[STW_MAX_DEVICES], best_share[STW_MAX_DEVICES], load[STW_MAX_DEVICES];
    double best = -1.0;
    for (int32_t c = 0; c < in->C; c++) best_share[c] = share[c] = 1.0 / in->C;
    for (int round = 0; in->C > 1 && round < ROUNDS; round++) {
        const double value = priced_work(in, share, load, NULL);
        if (value > best) {
            best = value;
            memcpy(best_share, share, sizeof share);
        }
        double largest = 0.0, sum = 0.0;
        for (int32_t c = 0; c < in->C; c++) largest = fmax(largest, load[c]);
        if (!(largest > 0.0) || !isfinite(largest)) break;
        for (int32_t c = 0; c < in->C; c++) {
            share[c] = fmax(share[c] * exp(2.0 / (1.0 + 0.15 * round) * (load[c] / largest - 0.5)), 1e-9);
            sum += share[c];
        }
        for (int32_t c = 0; c < in->C; c++) share[c] /= sum;
    }
    priced_work(in, best_share, load, weight);
}

/* ---- the maximum over thresholds ---- */

/* A tree over the distinct tails: adds to a prefix, knows the maximum. */
typedef struct {
    int32_t leaves;     /* a power of two */
    double *best, *add; /* (2 x leaves) */
} prefix_tree;

static void refresh(prefix_tree *tree, int64_t node) {
    for (node >>= 1; node >= 1; node >>= 1)
        tree->best[node] = fmax(tree->best[2 * node], tree->best[2 * node + 1]) + tree->add[node];
}

static void set_leaf(prefix_tree *tree, int32_t leaf, double value) {
    tree->best[tree->leaves + leaf] = value;
    refresh(tree, tree->leaves + leaf);
}

static void add_prefix(prefix_tree *tree, int32_t last, double value) {
    int32_t left = tree->leaves, right = tree->leaves + last + 1;
    for (; left < right; left >>= 1, right >>= 1) {
        if (left & 1) {
            tree->best[left] += value;
            tree->add[left++] += value;
        }
        if (right & 1) {
            tree->best[--right] += value;
            tree->add[right] += value;
        }
    }
    refresh(tree, tree->leaves);
    refresh(tree, tree->leaves + last);
}

typedef struct {
    double key;
    int32_t task;
} ranked;

static int by_key(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

static stw_status rank(int32_t T, const double *key, stw_arena *arena, ranked **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, T, error);
    for (int32_t t = 0; t < T; t++) (*out)[t] = (ranked){key[t], t};
    if (T > 1) qsort(*out, (size_t)T, sizeof **out, by_key);
    return STW_OK;
}

/* Adds tasks by falling head; after each, every tail threshold that some task reaches gives a bound. A leaf counts only once a
 * task with at least its tail is in, since an empty set bounds nothing. Adds apply to leaves that are in. */
static stw_status maximise(const levels *l, const double *weight, int32_t T, stw_arena *arena, double *out, stw_error *error) {
    ranked *by_head, *by_tail;
    int32_t *leaf;
    prefix_tree tree = {.leaves = 1};
    while (tree.leaves < T) tree.leaves *= 2;
    TRY(rank(T, l->head, arena, &by_head, error));
    TRY(rank(T, l->tail, arena, &by_tail, error));
    STW_TRY_NEW(arena, leaf, T, error);
    STW_TRY_NEW(arena, tree.best, 2 * (int64_t)tree.leaves, error);
    STW_TRY_NEW(arena, tree.add, 2 * (int64_t)tree.leaves, error);
    for (int32_t k = 0; k < T; k++) leaf[by_tail[k].task] = k;
    for (int64_t k = 0; k < 2 * (int64_t)tree.leaves; k++) tree.best[k] = -DBL_MAX;
    *out = 0.0;
    int32_t last = -1; /* largest leaf that is in */
    for (int32_t k = T - 1; k >= 0; k--) {
        const int32_t task = by_head[k].task;
        for (; last < leaf[task]; last++) set_leaf(&tree, last + 1, l->tail[by_tail[last + 1].task]);
        add_prefix(&tree, leaf[task], weight[task]);
        *out = fmax(*out, l->head[task] + tree.best[1]);
        *out = fmax(*out, l->head[task] + l->least[task] + l->tail[task]);
    }
    return STW_OK;
}

stw_status stw_bound_steps(const stw_bound_input *in, stw_arena scratch, stw_bound_times *out, stw_error *error) {
    const int32_t T = in->tasks->T;
    levels l;
    double *weight;
    int32_t *order = NULL;
    *out = (stw_bound_times){0};
    if (T == 0) return STW_OK;
    TRY(order_tasks(in->tasks, &scratch, &order, error));
    STW_TRY_NEW(&scratch, l.head, T, error);
    STW_TRY_NEW(&scratch, l.tail, T, error);
    STW_TRY_NEW(&scratch, l.least, T, error);
    STW_TRY_NEW(&scratch, weight, T, error);
    for (int32_t t = 0; t < T; t++) {
        l.least[t] = in->time_ps[0][t];
        for (int32_t c = 1; c < in->C; c++) l.least[t] = fmin(l.least[t], in->time_ps[c][t]);
    }
    walk_levels(in->tasks, order, &l);
    price_devices(in, weight);
    for (int32_t t = 0; t < T; t++) out->load_ps += weight[t];
    for (int32_t t = 0; t < T; t++) out->load_ps = fmax(out->load_ps, l.least[t]);
    return maximise(&l, weight, T, &scratch, &out->step_ps, error);
}
