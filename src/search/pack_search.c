/* The search for a packing: stages to begin with, then moves of units at the peaks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/pack.h"

/* ---- stages ---- */

/* Where an atom belongs in the forward part of the run: what runs before the turn, the moment at which most is held, by when it
 * runs; what runs after it by the latest of the values from before the turn that it reads, or by the parameter; else by what it
 * reads at all. */

typedef struct {
    int32_t key, atom;
} ranked;

static int by_key(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->atom < b->atom ? -1 : a->atom > b->atom;
}

/* The moment at which all devices together hold most. */
static stw_status find_turn(stw_pack *p, stw_arena scratch, int32_t *turn, stw_error *error) {
    int64_t *sum, held = 0, most = -1;
    STW_TRY_NEW(&scratch, sum, (int64_t)p->moments + 1, error);
    for (int32_t v = 0; v < p->tasks->V; v++) {
        const int32_t task = p->tasks->value_task[v];
        int32_t last = task < 0 ? 0 : p->last[task];
        if (task < 0) continue;
        for (int32_t u = p->tasks->use_start[v]; u < p->tasks->use_start[v + 1]; u++) {
            if (p->last[p->tasks->use[u].task] > last) last = p->last[p->tasks->use[u].task];
        }
        if (last < p->first[task]) continue;
        sum[p->first[task]] += p->tasks->value_bytes[v];
        sum[last + 1] -= p->tasks->value_bytes[v];
    }
    for (int32_t m = 0; m < p->moments; m++) {
        held += sum[m];
        if (held > most) *turn = m;
        if (held > most) most = held;
    }
    return STW_OK;
}

static int32_t key_of_task(const stw_pack *p, int32_t task, int32_t turn, const int32_t *key) {
    const stw_tasks *tasks = p->tasks;
    int32_t early = -1, any = -1;
    if (p->first[task] <= turn) return p->first[task];
    for (int32_t slot = tasks->input_start[task]; slot < tasks->input_start[task + 1]; slot++) {
        const int32_t v = tasks->slot_value[slot], writer = tasks->value_task[v];
        if (tasks->value_flags[v] & STW_VALUE_EVERYWHERE) continue;
        if (writer >= 0 && p->first[writer] > turn) {
            any = key[v] > any ? key[v] : any;
        } else if (key[v] > early) {
            early = key[v];
        }
    }
    return early >= 0 ? early : any >= 0 ? any : turn;
}

/* Keys of tasks in the order of the run, and from them those of atoms: the least of their members. */
static stw_status rank_atoms(stw_pack *p, const stw_units *atoms, stw_arena *arena, ranked **out, stw_error *error) {
    const stw_tasks *tasks = p->tasks;
    int32_t turn = 0, *key;
    ranked *task, *atom;
    TRY(find_turn(p, *arena, &turn, error));
    STW_TRY_NEW(arena, atom, atoms->count, error);
    STW_TRY_NEW(arena, task, tasks->T, error);
    STW_TRY_NEW(arena, key, tasks->V, error);
    for (int32_t a = 0; a < atoms->count; a++) atom[a] = (ranked){INT32_MAX, a};
    for (int32_t t = 0; t < tasks->T; t++) task[t] = (ranked){p->first[t], t};
    qsort(task, (size_t)tasks->T, sizeof *task, by_key);
    for (int32_t v = 0; v < tasks->V; v++) key[v] = tasks->value_task[v] < 0 ? INT32_MAX : 0;
    for (int32_t k = 0; k < tasks->T; k++) {
        const int32_t t = task[k].atom;
        for (int32_t slot = tasks->input_start[t]; slot < tasks->input_start[t + 1]; slot++) {
            int32_t *of = &key[tasks->slot_value[slot]]; /* a parameter belongs to its first reader */
            if (*of == INT32_MAX) *of = p->first[t];
        }
        const int32_t mine = key_of_task(p, t, turn, key);
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) key[tasks->output[o]] = mine;
        ranked *a = &atom[atoms->of[tasks->task_node[t]]];
        if (mine < a->key) a->key = mine;
    }
    for (int32_t k = 0; k < tasks->source_count; k++) {
        const int32_t v = tasks->source[k], a = atoms->of[tasks->value_node[v]];
        if (a >= 0 && key[v] < atom[a].key) atom[a].key = key[v];
    }
    qsort(atom, (size_t)atoms->count, sizeof *atom, by_key);
    *out = atom;
    return STW_OK;
}

typedef struct {
    stw_pack *p;
    int32_t *node;  /* members of all atoms, atoms in the order of their keys */
    int32_t *start; /* (atoms + 1) */
    int32_t atoms;
} row;

static void move_atoms(const row *r, int32_t from, int32_t to, int32_t target) {
    stw_pack_move(r->p, &r->node[r->start[from]], r->start[to] - r->start[from], target);
}

/* Fills one device after the other up to `share` of its limit; the last takes what remains. True if that fits too. All is on the
 * last device before. Atoms are moved in chunks, which are halved where one is too much. */
static bool fill(const row *r, double share) {
    enum { CHUNK = 64 };
    stw_pack *p = r->p;
    const int32_t last = p->D - 1;
    int32_t d = 0, chunk = CHUNK;
    for (int32_t k = 0; k < r->atoms && d < last;) {
        const int32_t to = k + chunk < r->atoms ? k + chunk : r->atoms;
        move_atoms(r, k, to, d);
        if ((double)stw_pack_peak(p, d) <= share * (double)p->limit[d]) {
            k = to;
            continue;
        }
        move_atoms(r, k, to, last);
        chunk /= 2;
        if (chunk > 0) continue;
        chunk = CHUNK;
        d++;
    }
    return (double)stw_pack_peak(p, last) <= share * (double)p->limit[last];
}

stw_status stw_pack_stages(stw_pack *p, const stw_units *atoms, stw_arena scratch, stw_error *error) {
    enum { TRIES = 8 };
    ranked *atom = NULL;
    row r = {.p = p, .atoms = atoms->count};
    int32_t *best, nodes = 0;
    TRY(rank_atoms(p, atoms, &scratch, &atom, error));
    STW_TRY_NEW(&scratch, best, p->N, error);
    STW_TRY_NEW(&scratch, r.node, atoms->start[atoms->count], error);
    STW_TRY_NEW(&scratch, r.start, (int64_t)atoms->count + 1, error);
    for (int32_t a = 0; a < atoms->count; a++) {
        for (int32_t k = atoms->start[atom[a].atom]; k < atoms->start[atom[a].atom + 1]; k++) r.node[nodes++] = atoms->member[k];
        r.start[a + 1] = nodes;
    }
    move_atoms(&r, 0, r.atoms, p->D - 1);
    double high = 0.0; /* shares of the limits: one that does, and one that does not */
    for (int32_t d = 0; d < p->D; d++) {
        const double full = (double)stw_pack_peak(p, p->D - 1) / fmax(1.0, (double)p->limit[d]);
        high = full > high ? full : high;
    }
    double low = high / p->D / 2.0;
    memcpy(best, p->device, (size_t)p->N * sizeof *best);
    for (int k = 0; k < TRIES; k++) {
        const double middle = 0.5 * (low + high);
        const bool fits = fill(&r, middle);
        if (fits) memcpy(best, p->device, (size_t)p->N * sizeof *best);
        *(fits ? &high : &low) = middle;
        move_atoms(&r, 0, r.atoms, p->D - 1);
    }
    for (int32_t a = 0, b; a < r.atoms; a = b) {
        const int32_t target = best[r.node[r.start[a]]];
        for (b = a + 1; b < r.atoms && best[r.node[r.start[b]]] == target; b++) {
        }
        if (target != p->D - 1) move_atoms(&r, a, b, target);
    }
    return STW_OK;
}

/* ---- moves ---- */

static const double PER_EXCESS = 20.0; /* what bytes above the limits count, as a share of a device, against steps */
static const double COLD = 0.0002;     /* how much worse a move may be at the end, in steps */
enum { LOOK_EVERY = 48 };              /* moves for one look at a peak */

typedef struct {
    stw_pack *p;
    const stw_pack_plan *plan;
    stw_rng rng;
    double mean_limit;
    int32_t from;   /* the device that was looked at */
    int32_t count;  /* values that it holds at its peak */
    int32_t *value; /* (V) */
    double *sum;    /* (V) their bytes, added up */
    int32_t moment;
    int32_t *part; /* (N) scratch: of a unit */
    int32_t *best; /* (N) devices */
    int64_t best_excess;
    double best_cost;
} mover;

/* Steps that transfers and uneven work cost, roughly. */
static double cost_of(const mover *m) {
    const stw_pack *p = m->p;
    double sum = 0.0, squares = 0.0;
    for (int32_t d = 0; d < p->D; d++) {
        sum += p->busy_us[d];
        squares += p->busy_us[d] * p->busy_us[d];
    }
    const double uneven_us = sum > 0.0 ? squares / sum : 0.0;
    return (0.5 * p->sent_us + uneven_us + m->plan->away * p->away_us) / (p->step_us + 1e-9);
}

static double energy_of(const mover *m) { return PER_EXCESS * (double)stw_pack_excess(m->p) / m->mean_limit + cost_of(m); }

/* The device that lacks most; where none does, any. */
static int32_t choose_device(mover *m) {
    const stw_pack *p = m->p;
    int32_t worst = -1;
    int64_t most = 0;
    for (int32_t d = 0; d < p->D; d++) {
        const int64_t over = stw_pack_peak(p, d) - p->limit[d];
        if (over > most) worst = d;
        if (over > most) most = over;
    }
    return worst >= 0 && stw_rng_uniform(&m->rng) < 0.8 ? worst : (int32_t)stw_rng_below(&m->rng, p->D);
}

static void look(mover *m) {
    stw_pack *p = m->p;
    double sum = 0.0;
    m->from = choose_device(m);
    m->moment = stw_pack_peak_moment(p, m->from);
    m->count = 0;
    for (int32_t v = 0; v < p->tasks->V; v++) {
        const int64_t bytes = stw_pack_held(p, v, m->from, m->moment);
        if (bytes <= 0) continue;
        m->value[m->count] = v;
        m->sum[m->count++] = sum += (double)bytes;
    }
}

/* Something that keeps a value on the device: what writes it, or a reader that is still to come. -1: nothing of that is there. */
static int32_t choose_keeper(mover *m) {
    stw_pack *p = m->p;
    const stw_tasks *tasks = p->tasks;
    const double at = stw_rng_uniform(&m->rng) * m->sum[m->count - 1];
    int32_t low = 0, high = m->count - 1, chosen = -1, seen = 0;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (m->sum[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const int32_t v = m->value[low], node = tasks->value_node[v];
    if (!(tasks->value_flags[v] & STW_VALUE_EVERYWHERE) && p->device[node] == m->from) {
        chosen = node;
        seen = 1;
    }
    for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
        const int32_t task = tasks->use[u].task, reader = tasks->task_node[task];
        if (p->device[reader] != m->from || p->last[task] < m->moment) continue;
        seen++;
        if (stw_rng_below(&m->rng, seen) == 0) chosen = reader;
    }
    return chosen;
}

/* Where something is that the node reads, or the emptier of two devices, or anywhere. */
static int32_t choose_target(mover *m, int32_t node) {
    const stw_pack *p = m->p;
    const stw_tasks *tasks = p->tasks;
    const int32_t task = tasks->task_of[node];
    int32_t a = (int32_t)stw_rng_below(&m->rng, p->D), b = (int32_t)stw_rng_below(&m->rng, p->D);
    switch (stw_rng_below(&m->rng, 3)) {
        case 0:
            if (task < 0 || tasks->input_start[task] == tasks->input_start[task + 1]) return a;
            const int32_t slots = tasks->input_start[task + 1] - tasks->input_start[task];
            const int32_t v = tasks->slot_value[tasks->input_start[task] + stw_rng_below(&m->rng, slots)];
            return tasks->value_flags[v] & STW_VALUE_EVERYWHERE ? a : p->device[tasks->value_node[v]];
        case 1: return p->limit[a] - stw_pack_peak(p, a) > p->limit[b] - stw_pack_peak(p, b) ? a : b;
        default: return a;
    }
}

static void keep_best(mover *m) {
    const int64_t excess = stw_pack_excess(m->p);
    const double cost = cost_of(m);
    if (excess > m->best_excess || (excess == m->best_excess && cost >= m->best_cost)) return;
    m->best_excess = excess;
    m->best_cost = cost;
    memcpy(m->best, m->p->device, (size_t)m->p->N * sizeof *m->best);
}

/* One move, kept if it does not cost too much for this heat. */
static void try_move(mover *m, double heat) {
    stw_pack *p = m->p;
    const int32_t node = choose_keeper(m);
    if (node < 0) return;
    const stw_units *units = &m->plan->units[stw_rng_below(&m->rng, m->plan->kinds)];
    const int32_t unit = units->of[node], target = choose_target(m, node);
    int32_t count = 0;
    if (unit < 0 || target == m->from) return;
    for (int32_t k = units->start[unit]; k < units->start[unit + 1]; k++) {
        if (p->device[units->member[k]] == m->from) m->part[count++] = units->member[k];
    }
    const double before = energy_of(m);
    stw_pack_move(p, m->part, count, target);
    const double worse = energy_of(m) - before;
    if (worse > 0.0 && stw_rng_uniform(&m->rng) >= exp(-worse / heat)) {
        stw_pack_move(p, m->part, count, m->from);
    } else if (worse != 0.0) {
        keep_best(m);
    }
}

/* Back to the best devices. */
static void restore(mover *m) {
    stw_pack *p = m->p;
    for (int32_t i = 0; i < p->N; i++) {
        if (p->device[i] != m->best[i]) stw_pack_move(p, &i, 1, m->best[i]);
    }
}

stw_status stw_pack_search(stw_pack *p, const stw_pack_plan *plan, stw_arena scratch, stw_error *error) {
    mover m = {.p = p, .plan = plan, .rng = plan->rng, .best_excess = INT64_MAX};
    STW_TRY_NEW(&scratch, m.value, p->tasks->V, error);
    STW_TRY_NEW(&scratch, m.sum, p->tasks->V, error);
    STW_TRY_NEW(&scratch, m.part, p->N, error);
    STW_TRY_NEW(&scratch, m.best, p->N, error);
    for (int32_t d = 0; d < p->D; d++) m.mean_limit += (double)p->limit[d] / p->D;
    if (m.mean_limit < 1.0) m.mean_limit = 1.0;
    keep_best(&m);
    const int64_t begin = p->work;
    while (p->work - begin < plan->work && !stw_stop_is_due(plan->stop)) {
        look(&m);
        if (m.count == 0) {
            p->work += p->tasks->V;
            continue;
        }
        const double heat = plan->hot * pow(COLD / plan->hot, (double)(p->work - begin) / (double)plan->work);
        for (int k = 0; k < LOOK_EVERY; k++) try_move(&m, heat);
    }
    restore(&m);
    return STW_OK;
}
