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
    bool *stands;            /* (T) or NULL: whatever the groups, it is never recomputed */
    bool *leads;             /* (T) or NULL: whatever the groups, what it reads is in memory (see below) */
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
        const int32_t writer = tasks->value_task[v];
        if (writer >= 0 && (p->stands == NULL || p->stands[writer])) sum[writer] += tasks->home_bytes[v];
        const bool in_place = (tasks->value_flags[v] & STW_VALUE_IN_PLACE) != 0; /* it takes nothing at home */
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1] && !in_place; u++) {
            const int32_t t = tasks->use[u].task;
            if (p->leads != NULL && !p->leads[t]) continue;
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

/* ---- sets of tasks ---- */

/* On one device: whatever the order, one of a set of tasks is the first to run. While it runs, all others of the set are still to
 * come, which leaves less choice than the task alone has. So the least cut (see memory_cut.c) of the cheapest task to run first
 * is a bound; so is that of the cheapest to run last. Sums of gradients are the example: each sum could wait until all others
 * are done, but one cannot. */

enum { MAX_SETS = 12, MAX_FIRST = 48 /* tasks of a set that may be the first */ };

typedef struct {
    const problem *p;
    int64_t *work;  /* steps that may be taken; falls */
    bool first;     /* the first of a set, else the last */
    int64_t *need;  /* (T) bytes that a task reads and writes */
    int32_t *stage; /* (T) for the cut */
    int32_t *queue; /* (T) */
    int32_t candidate[MAX_FIRST];
} sets;

static void find_need(sets *q) {
    const stw_sequences *s = &q->p->s;
    for (int32_t t = 0; t < s->T; t++) {
        q->need[t] = 0;
        for (int32_t r = s->read_start[t]; r < s->read_start[t + 1]; r++) q->need[t] += s->bytes[s->read[r]];
    }
    for (int32_t v = 0; v < s->V; v++) {
        if (s->writer[v] >= 0) q->need[s->writer[v]] += s->bytes[v];
    }
}

static bool is_in(const sets *q, int32_t task, int64_t least) { return q->p->lasts[task] && q->need[task] >= least; }

/* Marks in `stage` what must run after (for the last of a set: before) the tasks of the set, `but` left out, and these. */
static void mark_rest(const sets *q, int64_t least, int32_t but) {
    const stw_sequences *s = &q->p->s;
    const int32_t *start = q->first ? s->after_start : s->before_start, *item = q->first ? s->after : s->before;
    const int32_t rest = q->first ? 1 : 0, free = 1 - rest;
    int32_t count = 0;
    for (int32_t t = 0; t < s->T; t++) {
        const bool in = t != but && is_in(q, t, least);
        q->stage[t] = in ? rest : free;
        if (in) q->queue[count++] = t;
    }
    for (int32_t k = 0; k < count; k++) {
        for (int32_t i = start[q->queue[k]]; i < start[q->queue[k] + 1]; i++) {
            if (q->stage[item[i]] == rest) continue;
            q->stage[item[i]] = rest;
            q->queue[count++] = item[i];
        }
    }
}

/* Those that no other of the set must precede (or follow); -1 if they are too many. Uses `stage`. */
static int32_t list_candidates(sets *q, int64_t least) {
    const stw_sequences *s = &q->p->s;
    const int32_t *start = q->first ? s->before_start : s->after_start, *item = q->first ? s->before : s->after;
    int32_t count = 0;
    for (int32_t k = 0; k < s->T; k++) { /* stage: 1 if some of the set comes before it, or is it */
        const int32_t t = q->p->order[q->first ? k : s->T - 1 - k];
        int32_t behind = 0;
        for (int32_t i = start[t]; i < start[t + 1]; i++) behind |= q->stage[item[i]];
        q->stage[t] = behind;
        if (behind || !is_in(q, t, least)) continue;
        q->stage[t] = 1;
        if (count == MAX_FIRST) return -1;
        q->candidate[count++] = t;
    }
    return count;
}

static stw_status try_set(sets *q, int64_t least, stw_arena scratch, int64_t *bytes, stw_error *error) {
    int64_t cheapest = INT64_MAX;
    const int32_t count = list_candidates(q, least);
    for (int32_t k = 0; k < count && cheapest > *bytes; k++) {
        stw_cut cut = {.bytes = q->p->s.bytes, .stage = q->stage, .work = q->work};
        mark_rest(q, least, q->candidate[k]);
        TRY(stw_cut_find(&q->p->s, q->candidate[k], &cut, scratch, error));
        if (cut.held < cheapest) cheapest = cut.held;
    }
    if (count > 0 && cheapest > *bytes) *bytes = cheapest;
    return STW_OK;
}

static int by_falling_bytes(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a > b ? -1 : a < b;
}

/* Raises *bytes (parameters and buffers left out) to what sets of tasks show. */
static stw_status raise_by_sets(const problem *p, int64_t *work, stw_arena scratch, int64_t *bytes, stw_error *error) {
    const int32_t T = p->s.T;
    sets q = {.p = p, .work = work};
    int64_t *sorted;
    STW_TRY_NEW(&scratch, q.need, T, error);
    STW_TRY_NEW(&scratch, q.stage, T, error);
    STW_TRY_NEW(&scratch, q.queue, T, error);
    STW_TRY_NEW(&scratch, sorted, T, error);
    find_need(&q);
    for (int32_t t = 0; t < T; t++) sorted[t] = q.need[t];
    qsort(sorted, (size_t)T, sizeof *sorted, by_falling_bytes);
    for (int32_t k = 0, count = 0; k<T && * work> 0 && count < MAX_SETS; k++) {
        if (sorted[k] == 0 || (k + 1 < T && sorted[k + 1] == sorted[k])) continue;
        count++;
        for (int first = 0; first < 2; first++) {
            q.first = first == 1;
            TRY(try_set(&q, sorted[k], scratch, bytes, error));
        }
    }
    return STW_OK;
}

/* ---- the largest ---- */

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
    if (p->D == 1 && count > 0 && rank[0].held > *bytes) TRY(raise_by_sets(p, &work, scratch, bytes, error));
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
        if (p->lasts[t] && (p->stands == NULL || p->stands[t])) rank[count++] = (ranked){p->held[t], t};
    }
    qsort(rank, (size_t)count, sizeof *rank, by_falling_held);
    *out = 0;
    for (int32_t first = 0, blocks = 0; first < count && blocks < MAX_BLOCKS && rank[first].held > *out; blocks++) {
        int32_t size = 0;
        for (; size < 64 && first < count; first++) block[size++] = rank[first].task;
        const int64_t largest = largest_of_block(p, block, size);
        if (largest > *out) *out = largest;
    }
    return p->stands == NULL ? raise_by_cuts(p, rank, count, scratch, out, error) : STW_OK;
}

/* ---- whatever the groups ---- */

/* An op whose class joins no group but at its head leads: what it reads never comes from its own group, so it exists in memory.
 * What a leading op reads, what is an output of the graph and what updates is therefore written by one task, never recomputed: it
 * stands. While the task of a standing op t runs, a value that is written by a standing op before t (or by t) and read by a
 * leading op after t (or by t) is in memory, as without groups. Other values may live inside a group, and count for nothing. */

static void keep_leading_readers(problem *p) {
    stw_sequences *s = &p->s;
    int32_t count = 0;
    for (int32_t v = 0; v < s->V; v++) {
        const int32_t from = s->reader_start[v], to = s->reader_start[v + 1];
        s->reader_start[v] = count;
        for (int32_t u = from; u < to; u++) {
            if (p->leads[s->reader[u]]) s->reader[count++] = s->reader[u];
        }
        if (s->writer[v] >= 0 && (count > s->reader_start[v] || s->kept[v])) p->stands[s->writer[v]] = true;
    }
    s->reader_start[s->V] = count;
}

/* The least that some device holds of a value until its leading readers are done; 0 for what has none. */
static void find_leading_bytes(problem *p) {
    const stw_tasks *tasks = p->s.tasks;
    for (int32_t v = 0; v < tasks->V; v++) {
        const bool read = p->s.reader_start[v] < p->s.reader_start[v + 1];
        p->least_bytes[v] = read || p->s.kept[v] ? p->s.bytes[v] : 0;
        if (p->D == 1 || p->s.writer[v] < 0 || p->s.kept[v]) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) {
            const int64_t part = part_bytes(p, v, &tasks->use[u]);
            if (p->leads[tasks->use[u].task] && part < p->least_bytes[v]) p->least_bytes[v] = part;
        }
    }
}

/* A kernel takes time whatever is in it, where every launch does. */
static bool launches(const stw_machine *machine) {
    for (int32_t d = 0; d < machine->device_count; d++) {
        if (!(machine->device[d].launch_us > 0.0)) return false;
    }
    return true;
}

static stw_status create(problem *p, const stw_tasks *tasks, stw_arena *arena, stw_error *error) {
    TRY(stw_sequences_build(tasks, arena, &p->s, error));
    STW_TRY_NEW(arena, p->lasts, tasks->T, error);
    STW_TRY_NEW(arena, p->least_bytes, tasks->V, error);
    STW_TRY_NEW(arena, p->order, tasks->T, error);
    STW_TRY_NEW(arena, p->held, tasks->T, error);
    STW_TRY_NEW(arena, p->above, tasks->T, error);
    STW_TRY_NEW(arena, p->below, tasks->T, error);
    return STW_OK;
}

static stw_status find_largest(const problem *p, stw_arena scratch, int64_t *out, stw_error *error) {
    int64_t task_bytes = 0, live_bytes = 0;
    TRY(largest_task(p, scratch, &task_bytes, error));
    TRY(find_held(p, scratch, error));
    TRY(largest_of_all(p, scratch, &live_bytes, error));
    const int64_t all = p->s.resident_bytes + live_bytes, share = all / p->D + (all % p->D > 0);
    *out = share > task_bytes ? share : task_bytes;
    return STW_OK;
}

stw_status stw_bound_peak_of_groups(const stw_simulator *simulator, stw_arena scratch, int64_t *out, stw_error *error) {
    const stw_tasks *tasks = &simulator->unfused;
    const stw_graph *graph = simulator->graph;
    problem p = {.graph = graph, .D = simulator->machine->device_count};
    *out = 0;
    TRY(create(&p, tasks, &scratch, error));
    if (!launches(simulator->machine) || !find_lasting(&p, simulator->machine->cost_class_count)) return STW_OK;
    STW_TRY_NEW(&scratch, p.stands, tasks->T, error);
    STW_TRY_NEW(&scratch, p.leads, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) {
        const int32_t node = tasks->task_node[t];
        p.leads[t] = !stw_op_class_fuses((stw_op_class)graph->op_class[node]) || graph->apart[node] != NULL;
        p.stands[t] = graph->updates[node] >= 0;
    }
    keep_leading_readers(&p);
    find_leading_bytes(&p);
    return find_largest(&p, scratch, out, error);
}

stw_status stw_bound_largest_task(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                                  stw_error *error) {
    problem p = {.graph = simulator->graph, .s = {.T = tasks->T, .tasks = tasks}};
    *out = 0;
    STW_TRY_NEW(&scratch, p.lasts, tasks->T, error);
    find_lasting(&p, simulator->machine->cost_class_count);
    return largest_task(&p, scratch, out, error);
}

stw_status stw_bound_peak(const stw_simulator *simulator, const stw_tasks *tasks, stw_arena scratch, int64_t *out,
                          stw_error *error) {
    problem p = {.graph = simulator->graph, .D = simulator->machine->device_count};
    *out = 0;
    TRY(create(&p, tasks, &scratch, error));
    if (!find_lasting(&p, simulator->machine->cost_class_count)) return STW_OK;
    find_least_bytes(&p);
    return find_largest(&p, scratch, out, error);
}
