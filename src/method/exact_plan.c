/* A schedule as a plan. The order of tasks on a device becomes its strict order. The order of transfers on a channel must come
 * out of one priority per producer, so: whoever goes first although another waits has the higher priority. If that goes round in
 * a circle, or if a channel would idle while something waits, no plan gives this schedule.
 *
 * What takes no time happens in rounds within one instant (rule 1 of docs/simulator.md), and who waits for whom depends on them:
 * a moment is a time and a round. */
#include "method/exact.h"

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

stw_status stw_exact_try(stw_exact *x, const stw_exact_model *m, const stw_exact_times *times, stw_arena scratch, bool *done,
                         stw_error *error) {
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
