/* The orders of one placement: branching over what goes first, and priorities that give a schedule, if any do. */
#include "method/exact/exact.h"

/* ---- a schedule as a plan ---- */

/* A schedule as a plan. The order of tasks on a device becomes its strict order. The order of transfers on a channel must come
 * out of one priority per producer, so: whoever goes first although another waits has the higher priority. If that goes round in
 * a circle, or if a channel would idle while something waits, no plan gives this schedule.
 *
 * What takes no time happens in rounds within one instant (rule 1 of docs/simulator.md), and who waits for whom depends on them:
 * a moment is a time and a round. */

typedef struct {
    int64_t ps;
    int32_t round;
} moment;

static bool is_earlier(moment a, moment b) { return a.ps != b.ps ? a.ps < b.ps : a.round < b.round; }
static moment later(moment a, moment b) { return is_earlier(a, b) ? b : a; }

static moment end_of(moment start, int64_t ps) {
    return ps > 0 ? (moment){stw_exact_add(start.ps, ps), 0} : (moment){start.ps, start.round + 1};
}

typedef struct {
    stw_exact *x;
    const stw_exact_model *m;
    const stw_exact_times *times;
    int32_t *sequence;     /* (A) all activities as they begin */
    moment *start, *end;   /* (A) */
    int32_t *previous;     /* (A) what the resource carries before it, or -1 */
    uint64_t *lower;       /* (V, values_W) values that must have a lower priority */
    int32_t *higher_count; /* (V) how many must have a higher one */
    int32_t values_W;
} schedule;

/* ---- the sequence ---- */

/* By start, then end, then what is before it: an order in which everything can happen. */
static bool goes_first(const schedule *s, int32_t a, int32_t b) {
    const int64_t *head = s->times->head;
    if (head[a] != head[b]) return head[a] < head[b];
    if (s->m->activity[a].ps != s->m->activity[b].ps) return s->m->activity[a].ps < s->m->activity[b].ps;
    if (s->times->rank[a] != s->times->rank[b]) return s->times->rank[a] < s->times->rank[b];
    return a < b;
}

static void sort_sequence(schedule *s) {
    for (int32_t k = 0; k < s->m->A; k++) {
        const int32_t a = s->times->sorted[k];
        int32_t place = k;
        for (; place > 0 && goes_first(s, a, s->sequence[place - 1]); place--) s->sequence[place] = s->sequence[place - 1];
        s->sequence[place] = a;
    }
}

static void find_moments(schedule *s, int32_t *last) {
    const stw_exact_model *m = s->m;
    for (int32_t k = 0; k < m->A; k++) {
        const int32_t a = s->sequence[k], resource = m->activity[a].resource;
        moment start = {0, 0};
        for (int32_t j = 0; j < k; j++) {
            if (stw_is_before(m, s->sequence[j], a)) start = later(start, s->end[s->sequence[j]]);
        }
        s->previous[a] = resource >= 0 ? last[resource] - 1 : -1;
        if (s->previous[a] >= 0) start = later(start, s->end[s->previous[a]]);
        if (resource >= 0) last[resource] = a + 1;
        s->start[a] = start;
        s->end[a] = end_of(start, m->activity[a].ps);
    }
}

/* ---- priorities ---- */

static moment ready_of(const schedule *s, int32_t transfer) {
    const int32_t producer = s->x->tasks->value_task[s->m->activity[transfer].value];
    return producer < 0 ? (moment){0, 0} : s->end[producer];
}

/* `first` goes before `second` on one channel; false if the channel would never do so. */
static bool compare(schedule *s, int32_t first, int32_t second) {
    const moment ready = ready_of(s, second), start = s->start[first];
    const int32_t a = s->m->activity[first].value, b = s->m->activity[second].value;
    if (is_earlier(start, ready)) return true;
    moment idle = ready; /* from when on the channel could carry the second */
    if (s->previous[first] >= 0) idle = later(idle, s->end[s->previous[first]]);
    if (is_earlier(idle, start)) return false;
    if (a == b) return s->m->activity[first].to < s->m->activity[second].to;
    uint64_t *lower = s->lower + (int64_t)a * s->values_W;
    if (!stw_bit(lower, b)) s->higher_count[b]++;
    stw_set_bit(lower, b);
    return true;
}

static bool compare_all(schedule *s) {
    const stw_exact_model *m = s->m;
    for (int32_t i = 0; i < m->A; i++) {
        const int32_t a = s->sequence[i];
        if (m->activity[a].value < 0 || m->activity[a].resource < 0) continue;
        for (int32_t j = i + 1; j < m->A; j++) {
            const int32_t b = s->sequence[j];
            if (m->activity[b].resource == m->activity[a].resource && !compare(s, a, b)) return false;
        }
    }
    return true;
}

/* Hands out priorities from high to low; false if the comparisons go round in a circle. */
static bool set_priorities(schedule *s, int32_t *ready) {
    const int32_t V = s->x->tasks->V;
    int32_t count = 0;
    for (int32_t v = 0; v < V; v++) {
        if (s->higher_count[v] == 0) ready[count++] = v;
    }
    for (int32_t k = 0; k < count; k++) {
        s->x->trial->priority[s->x->tasks->value_node[ready[k]]] = V - k;
        for (int32_t v = 0; v < V; v++) {
            if (stw_bit(s->lower + (int64_t)ready[k] * s->values_W, v) && --s->higher_count[v] == 0) ready[count++] = v;
        }
    }
    return count == V;
}

/* ---- the plan ---- */

static stw_status set_orders(const schedule *s, int32_t *order, stw_error *error) {
    const stw_tasks *tasks = s->x->tasks;
    for (int32_t d = 0; d < s->x->s->machine->device_count; d++) {
        int32_t count = 0;
        for (int32_t k = 0; k < s->m->A; k++) {
            const int32_t a = s->sequence[k];
            if (a < tasks->T && s->m->activity[a].resource == d) order[count++] = tasks->task_node[a];
        }
        TRY(stw_plan_set_order(s->x->trial, d, order, count, error));
    }
    return STW_OK;
}

static void set_devices(const stw_exact *x) {
    const stw_graph *graph = x->s->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t d = x->device[graph->root[i]];
        x->trial->device[i] = d < 0 ? 0 : d; /* inputs and constants are everywhere */
    }
}

static stw_status allocate(schedule *s, stw_arena *arena, int32_t **room, stw_error *error) {
    const int32_t A = s->m->A, V = s->x->tasks->V;
    s->values_W = V / 64 + 1;
    STW_TRY_NEW(arena, s->sequence, A, error);
    STW_TRY_NEW(arena, s->start, A, error);
    STW_TRY_NEW(arena, s->end, A, error);
    STW_TRY_NEW(arena, s->previous, A, error);
    STW_TRY_NEW(arena, s->lower, (int64_t)V * s->values_W, error);
    STW_TRY_NEW(arena, s->higher_count, V, error);
    STW_TRY_NEW(arena, *room, (int64_t)A + V + s->x->s->machine->device_count + s->x->s->machine->channel_count, error);
    return STW_OK;
}

static stw_status try_schedule(stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, stw_arena scratch,
                               bool *done, stw_error *error) {
    schedule s = {.x = x, .m = m, .times = times};
    int32_t *room = NULL;
    int64_t step_ps = 0;
    *done = false;
    TRY(allocate(&s, &scratch, &room, error));
    sort_sequence(&s);
    find_moments(&s, room);
    if (!compare_all(&s) || !set_priorities(&s, room)) return STW_OK;
    set_devices(x);
    TRY(set_orders(&s, room, error));
    TRY(stw_exact_judge(x, x->trial, &step_ps, error));
    *done = step_ps <= times->least_ps;
    return STW_OK;
}

/* ---- branching ---- */

/* Branching over orders, for one placement: of two activities on one resource, one goes first.
 *
 * Everything begins as early as what is decided allows. Where two activities overlap on a resource, both ways are tried. Where
 * nothing overlaps, the times are a schedule, and none below this node is quicker: if a plan gives it and its memory suffices,
 * the node is done. Otherwise the search goes on until every pair is decided. */

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
        TRY(try_schedule(x, m, &times, arena, &done, error));
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
