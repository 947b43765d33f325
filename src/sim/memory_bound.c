/* A lower bound of the largest peak of memory, for every placement and every order of these tasks.
 *
 * While task t runs, a value is in memory if what writes it must come before t (or is t) and some reader must come after t (or
 * is t): whatever the order, it exists already and is still needed. The same holds for an input with such a reader, and for a
 * graph output from its writer on. On one device the bound is the largest such sum, with all parameters and buffers. On several,
 * the sum is spread over all of them, a value that was sent may be there in part only, and what a task itself reads and writes
 * is on its own device.
 *
 * 64 tasks are looked at together, a bit each: one walk up and one walk down the graph finds what must come before and after
 * all of them. No order holds less than the bound during a task, so what some orders hold tells which tasks are worth it. Where
 * these orders hold more than the bound, memory_cut.c finds the least that any order holds, which is more than the sum above:
 * one value may be there in place of another. */
#include <stdlib.h>
#include <string.h>

#include "sim/bounds.h"
#include "sim/sequence.h"

enum {
    MAX_BLOCKS = 128,               /* of 64 tasks; what remains is left out, which only lowers the bound */
    MAX_CUT_WORK = 12 * 1000 * 1000 /* steps, likewise */
};

typedef struct {
    stw_sequences s;
    const stw_graph *graph;
    int32_t D;
    bool *lasts;             /* (T) takes time on every device: what is held for no time does not count */
    int64_t *least_bytes;    /* (V) that some device holds as long as a reader is to come */
    int32_t *order;          /* (T) some order */
    int64_t *held;           /* (T) the least bytes that some order holds during each task, parameters and buffers left out */
    uint64_t *above, *below; /* (T) bit k: is the k-th task of the block or must come before it; or after it */
} problem;

static bool find_lasting(problem *p, int32_t C) {
    bool any = false;
    for (int32_t t = 0; t < p->s.T; t++) {
        p->lasts[t] = true;
        for (int32_t c = 0; c < C; c++) p->lasts[t] &= p->s.tasks->duration_ps[c][t] > 0;
        any |= p->lasts[t];
    }
    return any;
}

/* ---- what values take at least ---- */

static int64_t part_bytes(const problem *p, int32_t value, const stw_task_use *use) {
    const int64_t whole = p->s.tasks->value_bytes[value], part = use->view < 0 ? whole : p->graph->bytes[use->view];
    return part < whole ? part : whole;
}

static void find_least_bytes(problem *p) {
    const stw_tasks *tasks = p->s.tasks;
    for (int32_t v = 0; v < tasks->V; v++) {
        p->least_bytes[v] = p->s.bytes[v];
        if (p->D == 1 || p->s.writer[v] < 0 || p->s.kept[v]) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int64_t part = part_bytes(p, v, &tasks->use[u]);
            if (part < p->least_bytes[v]) p->least_bytes[v] = part;
        }
    }
}

/* What a task reads and writes, on its own device. */
static stw_status largest_task(const problem *p, stw_arena scratch, int64_t *out, stw_error *error) {
    const stw_tasks *tasks = p->s.tasks;
    int64_t *sum, *part;
    int32_t *reads; /* the value that a task was last seen to read, plus 1; `part`: how much of it */
    STW_TRY_NEW(&scratch, sum, tasks->T, error);
    STW_TRY_NEW(&scratch, part, tasks->T, error);
    STW_TRY_NEW(&scratch, reads, tasks->T, error);
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_task[v] >= 0) sum[tasks->value_task[v]] += tasks->home_bytes[v];
        const bool in_place = (tasks->value_flags[v] & STW_VALUE_IN_PLACE) != 0; /* it takes nothing at home */
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1] && !in_place; u++) {
            const int32_t t = tasks->use[u].task;
            const int64_t bytes =
                tasks->value_flags[v] & STW_VALUE_EVERYWHERE ? tasks->value_bytes[v] : part_bytes(p, v, &tasks->use[u]);
            if (reads[t] != v + 1) part[t] = 0;
            reads[t] = v + 1;
            if (bytes <= part[t]) continue;
            sum[t] += bytes - part[t];
            part[t] = bytes;
        }
    }
    for (int32_t t = 0; t < tasks->T; t++) {
        if (p->lasts[t] && sum[t] > *out) *out = sum[t];
    }
    return STW_OK;
}

/* ---- some orders, and what they hold ---- */

static stw_status find_held(const problem *p, stw_arena scratch, stw_error *error) {
    static const stw_sequence_rule rules[] = {STW_SEQUENCE_FORWARD, STW_SEQUENCE_BACKWARD_DEEP, STW_SEQUENCE_IDS};
    int64_t *held;
    STW_TRY_NEW(&scratch, held, p->s.T, error);
    for (int32_t t = 0; t < p->s.T; t++) p->held[t] = INT64_MAX;
    for (int rule = 0; rule < 3; rule++) {
        TRY(stw_sequence_make(&p->s, rules[rule], NULL, p->order, scratch, error));
        TRY(stw_sequence_held(&p->s, p->least_bytes, p->order, held, scratch, error));
        for (int32_t k = 0; k < p->s.T; k++) {
            if (held[k] < p->held[p->order[k]]) p->held[p->order[k]] = held[k];
        }
    }
    return STW_OK;
}

/* ---- what must be there: blocks of tasks ---- */

static void mark_relatives(const problem *p, const int32_t *block, int32_t count) {
    const stw_sequences *s = &p->s;
    memset(p->above, 0, (size_t)s->T * sizeof *p->above);
    memset(p->below, 0, (size_t)s->T * sizeof *p->below);
    for (int32_t k = 0; k < count; k++) p->above[block[k]] = p->below[block[k]] = 1ULL << k;
    for (int32_t k = s->T - 1; k >= 0; k--) {
        const int32_t t = p->order[k];
        for (int32_t a = s->after_start[t]; a < s->after_start[t + 1]; a++) p->above[t] |= p->above[s->after[a]];
    }
    for (int32_t k = 0; k < s->T; k++) {
        const int32_t t = p->order[k];
        for (int32_t b = s->before_start[t]; b < s->before_start[t + 1]; b++) p->below[t] |= p->below[s->before[b]];
    }
}

/* Bytes that must be there during the tasks of a block, the largest of them. */
static int64_t largest_of_block(const problem *p, const int32_t *block, int32_t count) {
    const stw_sequences *s = &p->s;
    int64_t sum[64] = {0}, largest = 0;
    mark_relatives(p, block, count);
    for (int32_t v = 0; v < s->V; v++) {
        const int32_t writer = s->writer[v];
        uint64_t live = writer < 0 ? ~0ULL : p->above[writer];
        if (p->least_bytes[v] == 0 || live == 0) continue;
        if (!s->kept[v]) {
            uint64_t needed = writer < 0 ? 0 : p->below[writer]; /* with `above`: the writer itself */
            for (int32_t u = s->reader_start[v]; u < s->reader_start[v + 1]; u++) needed |= p->below[s->reader[u]];
            live &= needed;
        }
        for (; live != 0; live &= live - 1) sum[__builtin_ctzll(live)] += p->least_bytes[v];
    }
    for (int32_t k = 0; k < count; k++) largest = sum[k] > largest ? sum[k] : largest;
    return largest;
}

typedef struct {
    int64_t held;
    int32_t task;
} ranked;

static int by_falling_held(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->held != b->held) return a->held > b->held ? -1 : 1;
    return a->task < b->task ? -1 : a->task > b->task;
}

/* The least that any order holds, task by task. */
static stw_status raise_by_cuts(const problem *p, const ranked *rank, int32_t count, stw_arena scratch, int64_t *bytes,
                                stw_error *error) {
    int64_t work = MAX_CUT_WORK;
    if (p->D == 1 && count > 0 && rank[0].held > *bytes) {
        const stw_bound_sets sets = {.s = &p->s, .lasts = p->lasts, .order = p->order, .work = &work};
        TRY(stw_bound_by_sets(&sets, scratch, bytes, error));
    }
    for (int32_t k = 0; k < count && rank[k].held > *bytes && work > 0; k++) {
        stw_cut cut = {.bytes = p->least_bytes, .work = &work};
        TRY(stw_cut_find(&p->s, rank[k].task, &cut, scratch, error));
        if (cut.held > *bytes) *bytes = cut.held;
    }
    return STW_OK;
}

static stw_status largest_of_all(const problem *p, stw_arena scratch, int64_t *out, stw_error *error) {
    ranked *rank;
    int32_t count = 0, block[64];
    STW_TRY_NEW(&scratch, rank, p->s.T, error);
    for (int32_t t = 0; t < p->s.T; t++) {
        if (p->lasts[t]) rank[count++] = (ranked){p->held[t], t};
    }
    qsort(rank, (size_t)count, sizeof *rank, by_falling_held);
    *out = 0;
    for (int32_t first = 0, blocks = 0; first < count && blocks < MAX_BLOCKS && rank[first].held > *out; blocks++) {
        int32_t size = 0;
        for (; size < 64 && first < count; first++) block[size++] = rank[first].task;
        const int64_t largest = largest_of_block(p, block, size);
        if (largest > *out) *out = largest;
    }
    return raise_by_cuts(p, rank, count, scratch, out, error);
}

stw_status stw_bound_peak(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                          stw_error *error) {
    problem p = {.graph = simulator->graph, .D = simulator->machine->device_count};
    int64_t task_bytes = 0, live_bytes = 0;
    *out = 0;
    TRY(stw_sequences_build(tasks, &scratch, &p.s, error));
    STW_TRY_NEW(&scratch, p.lasts, tasks->T, error);
    if (!find_lasting(&p, simulator->machine->cost_class_count)) return STW_OK;
    STW_TRY_NEW(&scratch, p.least_bytes, tasks->V, error);
    STW_TRY_NEW(&scratch, p.order, tasks->T, error);
    STW_TRY_NEW(&scratch, p.held, tasks->T, error);
    STW_TRY_NEW(&scratch, p.above, tasks->T, error);
    STW_TRY_NEW(&scratch, p.below, tasks->T, error);
    find_least_bytes(&p);
    TRY(largest_task(&p, scratch, &task_bytes, error));
    TRY(find_held(&p, scratch, error));
    TRY(largest_of_all(&p, scratch, &live_bytes, error));
    const int64_t all = p.s.resident_bytes + live_bytes, share = all / p.D + (all % p.D > 0);
    *out = share > task_bytes ? share : task_bytes;
    return STW_OK;
}
