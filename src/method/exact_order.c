/* Branching over orders, for one placement: of two activities on one resource, one goes first.
 *
 * Everything begins as early as what is decided allows. Where two activities overlap on a resource, both ways are tried. Where
 * nothing overlaps, the times are a schedule, and none below this node is quicker: if a plan gives it and its memory suffices,
 * the node is done. Otherwise the search goes on until every pair is decided. */
#include "method/exact.h"

enum { MAX_DEPTH = 4000 }; /* of the recursion; the deepest that was seen is far below */

typedef struct {
    int32_t a, b;    /* a first is the better way by the bounds; -1: no pair */
    int64_t certain; /* the step takes at least this, whichever way */
    int64_t other;   /* the other way */
} choice;

static bool overlap(const stw_exact_model *m, const stw_exact_times *times, int32_t a, int32_t b) {
    return times->head[a] < stw_exact_add(times->head[b], m->activity[b].ps) &&
           times->head[b] < stw_exact_add(times->head[a], m->activity[a].ps);
}

static int64_t bound_of(const stw_exact_model *m, const stw_exact_times *times, int32_t a, int32_t b) {
    const int64_t both = stw_exact_add(m->activity[a].ps, m->activity[b].ps);
    return stw_exact_add(stw_exact_add(times->head[a], both), times->tail[b]);
}

static void consider(const stw_exact_model *m, const stw_exact_times *times, int32_t a, int32_t b, choice *best) {
    const int64_t ab = bound_of(m, times, a, b), ba = bound_of(m, times, b, a);
    const int64_t certain = ab < ba ? ab : ba, other = ab < ba ? ba : ab;
    if (best->a >= 0 && (certain < best->certain || (certain == best->certain && other <= best->other))) return;
    /* Of equal ways, what can begin earlier goes first. */
    const bool a_first = ab < ba || (ab == ba && times->head[a] <= times->head[b]);
    *best = (choice){a_first ? a : b, a_first ? b : a, certain, other};
}

/* The undecided pair that settles most. */
static choice choose(const stw_exact_model *m, const stw_exact_times *times, bool only_overlaps) {
    choice best = {-1, -1, 0, 0};
    for (int32_t q = 0; q < m->queue_count; q++) {
        for (int32_t i = m->queue_start[q]; i < m->queue_start[q + 1]; i++) {
            for (int32_t j = i + 1; j < m->queue_start[q + 1]; j++) {
                const int32_t a = m->queued[i] < m->queued[j] ? m->queued[i] : m->queued[j];
                const int32_t b = m->queued[i] < m->queued[j] ? m->queued[j] : m->queued[i];
                if (!stw_is_undecided(m, a, b) || (only_overlaps && !overlap(m, times, a, b))) continue;
                consider(m, times, a, b, &best);
            }
        }
    }
    return best;
}

static stw_status explore(stw_exact *x, stw_exact_model *m, int32_t depth, stw_arena arena, stw_error *error) {
    stw_exact_times times;
    x->over |= depth > MAX_DEPTH;
    if (x->over || stw_exact_count(x)) return STW_OK;
    TRY(stw_exact_times_create(m->A, &arena, &times, error));
    if (!stw_exact_tighten(x, m, &times)) return STW_OK;
    choice next = choose(m, &times, true);
    if (next.a < 0) {
        bool done = false;
        TRY(stw_exact_try(x, m, &times, arena, &done, error));
        if (done) return STW_OK;
        next = choose(m, &times, false);
        if (next.a < 0) return STW_OK; /* no plan gives this schedule, or memory is short */
    }
    for (int way = 0; way < 2 && !x->over; way++) {
        stw_arena own = arena;
        stw_exact_model child;
        TRY(stw_exact_copy(m, &own, &child, error));
        stw_exact_decide(&child, way == 0 ? next.a : next.b, way == 0 ? next.b : next.a);
        TRY(explore(x, &child, depth + 1, own, error));
    }
    return STW_OK;
}

stw_status stw_exact_orders(stw_exact *x, stw_arena arena, stw_error *error) {
    stw_exact_model model;
    TRY(stw_exact_build(x, &arena, &model, error));
    return model.impossible ? STW_OK : explore(x, &model, 0, arena, error);
}
