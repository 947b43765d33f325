/* A lower bound of the peak on one device from sets of tasks: whatever the order, one of the set is the first to run. While it
 * runs, all others of the set are still to come, which leaves less choice than the task alone has. So the least cut (see
 * memory_cut.c) of the cheapest task to run first is a bound; so is that of the cheapest to run last. Sums of gradients are
 * the example: each sum could wait until all others are done, but one cannot. */
#include <stdlib.h>

#include "sim/bounds.h"
#include "sim/sequence.h"

enum { MAX_SETS = 12, MAX_FIRST = 48 /* tasks of a set that may be the first */ };

typedef struct {
    const stw_bound_sets *in;
    bool first;     /* the first of a set, else the last */
    int64_t *need;  /* (T) bytes that a task reads and writes */
    int32_t *stage; /* (T) for the cut */
    int32_t *queue; /* (T) */
    int32_t candidate[MAX_FIRST];
} problem;

static void find_need(problem *p) {
    const stw_sequences *s = p->in->s;
    for (int32_t t = 0; t < s->T; t++) {
        p->need[t] = 0;
        for (int32_t r = s->read_start[t]; r < s->read_start[t + 1]; r++) p->need[t] += s->bytes[s->read[r]];
    }
    for (int32_t v = 0; v < s->V; v++) {
        if (s->writer[v] >= 0) p->need[s->writer[v]] += s->bytes[v];
    }
}

static bool is_in(const problem *p, int32_t task, int64_t least) { return p->in->lasts[task] && p->need[task] >= least; }

/* Marks in `stage` what must run after (for the last of a set: before) the tasks of the set, `but` left out, and these. */
static void mark_rest(const problem *p, int64_t least, int32_t but) {
    const stw_sequences *s = p->in->s;
    const int32_t *start = p->first ? s->after_start : s->before_start, *item = p->first ? s->after : s->before;
    const int32_t rest = p->first ? 1 : 0, free = 1 - rest;
    int32_t count = 0;
    for (int32_t t = 0; t < s->T; t++) {
        const bool in = t != but && is_in(p, t, least);
        p->stage[t] = in ? rest : free;
        if (in) p->queue[count++] = t;
    }
    for (int32_t k = 0; k < count; k++) {
        for (int32_t i = start[p->queue[k]]; i < start[p->queue[k] + 1]; i++) {
            if (p->stage[item[i]] == rest) continue;
            p->stage[item[i]] = rest;
            p->queue[count++] = item[i];
        }
    }
}

/* Those that no other of the set must precede (or follow); -1 if they are too many. Uses `stage`. */
static int32_t list_candidates(problem *p, int64_t least) {
    const stw_sequences *s = p->in->s;
    const int32_t *start = p->first ? s->before_start : s->after_start, *item = p->first ? s->before : s->after;
    int32_t count = 0;
    for (int32_t k = 0; k < s->T; k++) { /* stage: 1 if some of the set comes before it, or is it */
        const int32_t t = p->in->order[p->first ? k : s->T - 1 - k];
        int32_t behind = 0;
        for (int32_t i = start[t]; i < start[t + 1]; i++) behind |= p->stage[item[i]];
        p->stage[t] = behind;
        if (behind || !is_in(p, t, least)) continue;
        p->stage[t] = 1;
        if (count == MAX_FIRST) return -1;
        p->candidate[count++] = t;
    }
    return count;
}

static stw_status try_set(problem *p, int64_t least, stw_arena scratch, int64_t *bytes, stw_error *error) {
    int64_t cheapest = INT64_MAX;
    const int32_t count = list_candidates(p, least);
    for (int32_t k = 0; k < count && cheapest > *bytes; k++) {
        stw_cut cut = {.bytes = p->in->s->bytes, .stage = p->stage, .work = p->in->work};
        mark_rest(p, least, p->candidate[k]);
        TRY(stw_cut_find(p->in->s, p->candidate[k], &cut, scratch, error));
        if (cut.held < cheapest) cheapest = cut.held;
    }
    if (count > 0 && cheapest > *bytes) *bytes = cheapest;
    return STW_OK;
}

static int by_falling(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a > b ? -1 : a < b;
}

stw_status stw_bound_by_sets(const stw_bound_sets *in, stw_arena scratch, int64_t *bytes, stw_error *error) {
    const int32_t T = in->s->T;
    problem p = {.in = in};
    int64_t *sorted;
    STW_TRY_NEW(&scratch, p.need, T, error);
    STW_TRY_NEW(&scratch, p.stage, T, error);
    STW_TRY_NEW(&scratch, p.queue, T, error);
    STW_TRY_NEW(&scratch, sorted, T, error);
    find_need(&p);
    for (int32_t t = 0; t < T; t++) sorted[t] = p.need[t];
    qsort(sorted, (size_t)T, sizeof *sorted, by_falling);
    for (int32_t k = 0, sets = 0; k < T && sets<MAX_SETS && * in->work> 0; k++) {
        if (sorted[k] == 0 || (k + 1 < T && sorted[k + 1] == sorted[k])) continue;
        sets++;
        for (int first = 0; first < 2; first++) {
            p.first = first == 1;
            TRY(try_set(&p, sorted[k], scratch, bytes, error));
        }
    }
    return STW_OK;
}
