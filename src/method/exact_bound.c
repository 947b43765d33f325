/* Bounds: what no completion of a partial decision can beat, and what follows from having to beat the best plan.
 *
 * Heads and tails are longest paths. A resource carries one activity at a time, so those with head at least h and tail at least q
 * need h + (sum of their times) + q; the largest of these over all (h, q) is the preemptive one-machine bound of Jackson. Over
 * all devices together the sum is shared, which is all that is known of ops whose device is open. */
#include "method/exact.h"

stw_status stw_exact_times_create(int32_t A, stw_arena *arena, stw_exact_times *out, stw_error *error) {
    STW_TRY_NEW(arena, out->head, A, error);
    STW_TRY_NEW(arena, out->tail, A, error);
    STW_TRY_NEW(arena, out->rank, A, error);
    STW_TRY_NEW(arena, out->sorted, A, error);
    STW_TRY_NEW(arena, out->list, A, error);
    for (int32_t a = 0; a < A; a++) out->sorted[a] = a;
    out->least_ps = 0;
    return STW_OK;
}

/* ---- heads and tails ---- */

static void raise(int64_t *value, int64_t to) {
    if (to > *value) *value = to;
}

/* What comes first has fewer activities before it. The order of the last time is nearly right, so insertion is quick. */
static void sort_by_rank(const stw_exact_model *m, stw_exact_times *times) {
    for (int32_t a = 0; a < m->A; a++) {
        times->rank[a] = 0;
        for (int32_t w = 0; w < m->W; w++) times->rank[a] += __builtin_popcountll(m->before[(int64_t)a * m->W + w]);
    }
    for (int32_t k = 1; k < m->A; k++) {
        const int32_t a = times->sorted[k];
        int32_t place = k;
        for (; place > 0 && times->rank[times->sorted[place - 1]] > times->rank[a]; place--)
            times->sorted[place] = times->sorted[place - 1];
        times->sorted[place] = a;
    }
}

/* The latest end of the activities in `row`: of `start` + time. */
static int64_t latest(const stw_exact_model *m, const uint64_t *row, const int64_t *start) {
    int64_t end = 0;
    for (int32_t w = 0; w < m->W; w++) {
        for (uint64_t left = row[w]; left != 0; left &= left - 1) {
            const int32_t p = 64 * w + __builtin_ctzll(left);
            raise(&end, stw_exact_add(start[p], m->activity[p].ps));
        }
    }
    return end;
}

static void walk(const stw_exact_model *m, stw_exact_times *times) {
    sort_by_rank(m, times);
    times->least_ps = 0;
    for (int32_t k = 0; k < m->A; k++) {
        const int32_t a = times->sorted[k];
        times->head[a] = latest(m, m->before + (int64_t)a * m->W, times->head);
    }
    for (int32_t k = m->A - 1; k >= 0; k--) {
        const int32_t a = times->sorted[k];
        times->tail[a] = latest(m, m->after + (int64_t)a * m->W, times->tail);
        raise(&times->least_ps, stw_exact_add(stw_exact_add(times->head[a], m->activity[a].ps), times->tail[a]));
    }
}

/* ---- work ---- */

/* The bound of `count` activities that `share` resources carry. Sorts the list by falling tail. */
static int64_t bound_work(const stw_exact_model *m, const stw_exact_times *times, int32_t *list, int32_t count, int32_t share) {
    int64_t bound = 0;
    for (int32_t k = 1; k < count; k++) {
        const int32_t a = list[k];
        int32_t place = k;
        for (; place > 0 && times->tail[list[place - 1]] < times->tail[a]; place--) list[place] = list[place - 1];
        list[place] = a;
    }
    for (int32_t first = 0; first < count; first++) {
        const int64_t head = times->head[list[first]];
        int64_t sum = 0;
        for (int32_t k = 0; k < count; k++) {
            if (times->head[list[k]] < head) continue;
            sum = stw_exact_add(sum, m->activity[list[k]].ps);
            const int64_t each = sum / share + (sum % share > 0);
            raise(&bound, stw_exact_add(stw_exact_add(head, each), times->tail[list[k]]));
        }
    }
    return bound;
}

/* ---- what has one way left ---- */

/* a, then b: possible in time? */
static bool may_go_first(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, int32_t a, int32_t b) {
    const int64_t both = stw_exact_add(m->activity[a].ps, m->activity[b].ps);
    return stw_exact_add(stw_exact_add(times->head[a], both), times->tail[b]) < x->beat_ps;
}

typedef enum { NOTHING_NEW, SOMETHING_NEW, HOPELESS } finding;

static finding decide_pairs(const stw_exact *x, stw_exact_model *m, const stw_exact_times *times) {
    finding found = NOTHING_NEW;
    for (int32_t q = 0; q < m->queue_count; q++) {
        for (int32_t i = m->queue_start[q]; i < m->queue_start[q + 1]; i++) {
            for (int32_t j = i + 1; j < m->queue_start[q + 1]; j++) {
                const int32_t a = m->queued[i], b = m->queued[j];
                if (!stw_is_undecided(m, a, b)) continue;
                const bool ab = may_go_first(x, m, times, a, b), ba = may_go_first(x, m, times, b, a);
                if (ab && ba) continue;
                if (!ab && !ba) return HOPELESS;
                stw_exact_decide(m, ab ? a : b, ab ? b : a);
                found = SOMETHING_NEW;
            }
        }
    }
    return found;
}

/* ---- memory ---- */

/* The hold is there all the time that `a` takes, by what is decided. */
static bool is_held_during(const stw_exact_model *m, const stw_hold *hold, int32_t a) {
    if (hold->begin == a) return true;
    if (hold->begin >= 0 && !stw_is_before(m, hold->begin, a)) return false;
    if (hold->forever || stw_bit(hold->user, a)) return true;
    for (int32_t w = 0; w < m->W; w++) {
        if (hold->user[w] & m->after[(int64_t)a * m->W + w]) return true;
    }
    return false;
}

static bool fits_during(const stw_exact *x, const stw_exact_model *m, int32_t a) {
    int64_t held[STW_MAX_DEVICES] = {0};
    for (int32_t k = 0; k < m->hold_count; k++) {
        const stw_hold *hold = &m->hold[k];
        if (!is_held_during(m, hold, a)) continue;
        held[hold->device] += hold->bytes;
        if (held[hold->device] > x->s->machine->device[hold->device].memory_bytes) return false;
    }
    return true;
}

/* What is held for no time does not count. */
static bool may_fit(const stw_exact *x, const stw_exact_model *m) {
    for (int32_t a = 0; a < m->A; a++) {
        if (m->activity[a].ps > 0 && !fits_during(x, m, a)) return false;
    }
    return true;
}

/* ---- all together ---- */

static int64_t bound_all(const stw_exact *x, const stw_exact_model *m, const stw_exact_times *times) {
    int64_t bound = times->least_ps;
    for (int32_t q = 0; q < m->queue_count; q++) {
        const int32_t first = m->queue_start[q];
        raise(&bound, bound_work(m, times, m->queued + first, m->queue_start[q + 1] - first, 1));
    }
    if (!m->open) return bound;
    for (int32_t t = 0; t < x->tasks->T; t++) times->list[t] = t;
    raise(&bound, bound_work(m, times, times->list, x->tasks->T, x->s->machine->device_count));
    return bound;
}

bool stw_exact_tighten(const stw_exact *x, stw_exact_model *m, stw_exact_times *times) {
    finding found = SOMETHING_NEW;
    while (found == SOMETHING_NEW) {
        walk(m, times);
        times->least_ps = bound_all(x, m, times);
        if (times->least_ps >= x->beat_ps) return false;
        found = decide_pairs(x, m, times);
    }
    return found != HOPELESS && may_fit(x, m);
}
