/* Heads and tails: the least time before a task can begin and the least time after it, whatever the plan.
 *
 * Two tasks of which one reads the other are together, and then run one after the other, or apart, and then something is sent.
 * For a task v and what comes before it, u, with the longest path from u's end to v's start taken through tasks in between:
 *     path(u)  = the longest of least(w) + path(w)                                over what reads u and comes before v, w
 *     apart(u) = the longest of least(w) + min(transfer(u, w) + path(w), apart(w)); transfer(u, v) where v itself reads u
 * If u is on another device than v, then for each such w either u is apart from w, or w is apart from v: so v does not begin
 * before late(u) = head(u) + least(u) + apart(u). And a set of tasks that are all together with v runs on one device before it:
 * v does not begin before serial(set), when one device can be through with them, none begun before its head. Now let u1, u2, ...
 * be any list of tasks before v. Either all are together with v, or u_k is the first that is not: v begins at min over k of
 * max(serial(u1 ... u_k-1), late(u_k)),   or at serial(all) or later. The list goes by falling `late`, found as in Dijkstra's
 * algorithm (late never rises on the way back), and ends where it cannot raise the head. (Papadimitriou and Yannakakis, "Towards
 * an architecture-independent analysis of parallel algorithms", and Jung, Kirousis and Spirakis, "Lower bounds and efficient
 * algorithms for multiprocessor scheduling of directed acyclic graphs with communication delays", have this for sets of equal
 * delay.) Tails are heads of the graph turned round.
 *
 * A transfer takes at least what the fastest link takes for what this one reader reads, and the charge of sending that precedes
 * it. That it may have to queue is left out, and so are parameters, which are sent from the beginning on. */
#include <math.h>
#include <string.h>

#include "sim/bounds.h"

enum {
    MOST = 256, /* tasks in a list: more hardly ever raise a head */
    PATIENCE = 32,
    LESS_PATIENCE = 16, /* so many must raise it, or it is given up: how long this takes depends on it */
    LARGE = 5000        /* tasks of a graph for which there is less patience */
};
static const double NEVER = 4611686018427387904.0; /* 2^62 ps: no step is as long */

/* ---- who comes before whom ---- */

typedef struct {
    int32_t task;
    double transfer_ps; /* the least time, if they are apart; 0: nothing is sent */
} arc;

typedef struct {
    int32_t *start; /* (T + 1) into arc */
    arc *arc;
} arcs;

/* Links between devices, each kind of them once: mostly all are the same. */
typedef struct {
    const stw_link **link; /* (count) */
    int32_t count;
} link_kinds;

static stw_status list_links(const stw_machine *machine, stw_arena *arena, link_kinds *out, stw_error *error) {
    const int32_t D = machine->device_count;
    out->count = 0;
    STW_TRY_NEW(arena, out->link, (int64_t)D * D, error);
    for (int32_t k = 0; k < D * D; k++) {
        const stw_link *link = &machine->link[k];
        int32_t kind = 0;
        if (k / D == k % D || !(link->bandwidth > 0.0)) continue;
        while (kind < out->count && !stw_link_equal(link, out->link[kind])) kind++;
        if (kind == out->count) out->link[out->count++] = link;
    }
    return STW_OK;
}

static double least_transfer_ps(const stw_machine *machine, const link_kinds *kinds, int64_t bytes) {
    double least = NEVER;
    if (machine->device_count == 1) return 0.0;
    for (int32_t k = 0; k < kinds->count; k++) {
        const stw_link *link = kinds->link[k];
        least = fmin(least, (double)stw_cost_us_to_ps(link->send_us) + (double)stw_cost_transfer_ps(link, bytes));
    }
    return least;
}

/* What one task reads of a value by one use: a transfer carries at least that. */
static int64_t use_bytes(const stw_graph *graph, const stw_tasks *tasks, int32_t value, int32_t use) {
    const int64_t whole = tasks->value_bytes[value], view = tasks->use[use].view;
    return view >= 0 && graph->bytes[view] < whole ? graph->bytes[view] : whole;
}

/* From each task to those that wait for it. */
static stw_status list_after(const stw_simulator *s, const stw_tasks *tasks, stw_arena *arena, arcs *out, stw_error *error) {
    int32_t count = 0;
    link_kinds kinds;
    TRY(list_links(s->machine, arena, &kinds, error));
    STW_TRY_NEW(arena, out->start, tasks->T + 1, error);
    STW_TRY_NEW(arena, out->arc, (int64_t)tasks->U + tasks->waiter_start[tasks->T], error);
    for (int32_t t = 0; t < tasks->T; t++) {
        out->start[t] = count;
        for (int32_t o = tasks->output_start[t]; o < tasks->output_start[t + 1]; o++) {
            const int32_t value = tasks->output[o];
            int64_t bytes = -1;
            double transfer = 0.0;
            for (int32_t u = tasks->use_start[value]; u < tasks->use_start[value + 1]; u++) {
                const int64_t own = use_bytes(s->graph, tasks, value, u);
                if (own != bytes) transfer = least_transfer_ps(s->machine, &kinds, own);
                bytes = own;
                out->arc[count++] = (arc){tasks->use[u].task, transfer};
            }
        }
        for (int32_t w = tasks->waiter_start[t]; w < tasks->waiter_start[t + 1]; w++)
            out->arc[count++] = (arc){tasks->waiter[w], 0.0};
    }
    out->start[tasks->T] = count;
    return STW_OK;
}

/* The same from each task to those that it waits for. */
static stw_status turn_round(int32_t T, const arcs *after, stw_arena *arena, arcs *out, stw_error *error) {
    int32_t *filled;
    STW_TRY_NEW(arena, out->start, T + 1, error);
    STW_TRY_NEW(arena, out->arc, after->start[T], error);
    STW_TRY_NEW(arena, filled, T, error);
    for (int32_t k = 0; k < after->start[T]; k++) out->start[after->arc[k].task + 1]++;
    for (int32_t t = 0; t < T; t++) out->start[t + 1] += out->start[t];
    for (int32_t t = 0; t < T; t++) {
        for (int32_t k = after->start[t]; k < after->start[t + 1]; k++) {
            const int32_t to = after->arc[k].task;
            out->arc[out->start[to] + filled[to]++] = (arc){t, after->arc[k].transfer_ps};
        }
    }
    return STW_OK;
}

/* ---- the largest first ---- */

typedef struct {
    double key;
    int32_t item;
} entry;

typedef struct {
    int32_t count;
    entry *entry;
} heap;

static bool precedes(entry a, entry b) { return a.key != b.key ? a.key > b.key : a.item < b.item; }

static void push(heap *h, entry added) {
    int32_t k = h->count++;
    for (; k > 0 && precedes(added, h->entry[(k - 1) / 2]); k = (k - 1) / 2) h->entry[k] = h->entry[(k - 1) / 2];
    h->entry[k] = added;
}

static entry pop(heap *h) {
    const entry top = h->entry[0], last = h->entry[--h->count];
    int32_t k = 0;
    for (int32_t child = 1; child < h->count; child = 2 * k + 1) {
        if (child + 1 < h->count && precedes(h->entry[child + 1], h->entry[child])) child++;
        if (!precedes(h->entry[child], last)) break;
        h->entry[k] = h->entry[child];
        k = child;
    }
    h->entry[k] = last;
    return top;
}

/* ---- the list of one task ---- */

typedef struct {
    const arcs *before;
    const double *least; /* (T) ps on the fastest device */
    const int32_t *kin;  /* (T) tasks of one number must be on one device */
    int32_t patience;
    double *level; /* (T) ps: what is computed */
    /* What is known of the tasks before the present one: valid where `seen` names it. */
    int32_t *seen;        /* (T) */
    bool *listed;         /* (T) */
    double *path, *apart; /* (T) ps */
    heap waiting;         /* not listed yet, by `late`; an item may stand in it with older keys as well */
    int32_t count;
    int32_t task[MOST];
    double late[MOST + 1];
    int32_t by_level[MOST]; /* (timed) places in `task` of those that take time, by falling level */
    int32_t timed;
    heap ready; /* of run_on_one_device */
    entry room[MOST];
} walk;

static double end_of(const walk *w, int32_t u) { return w->level[u] + w->least[u]; }

static void meet(walk *w, int32_t v, int32_t u, double path, double apart, double floor_ps) {
    if (w->seen[u] != v) {
        w->seen[u] = v;
        w->listed[u] = false;
        w->path[u] = 0.0;
        w->apart[u] = -1.0;
    }
    if (w->listed[u]) return;
    if (w->kin[u] == w->kin[v]) apart = NEVER;
    w->path[u] = fmax(w->path[u], path);
    if (apart <= w->apart[u]) return;
    w->apart[u] = apart;
    if (end_of(w, u) + apart > floor_ps) push(&w->waiting, (entry){end_of(w, u) + apart, u});
}

static void add_to_list(walk *w, int32_t v, entry next, double floor_ps) {
    const int32_t u = next.item;
    if (w->least[u] > 0.0) {
        int32_t place = w->timed++;
        for (; place > 0 && w->level[w->task[w->by_level[place - 1]]] < w->level[u]; place--)
            w->by_level[place] = w->by_level[place - 1];
        w->by_level[place] = w->count;
    }
    w->task[w->count] = u;
    w->late[w->count] = w->count > 0 ? fmin(next.key, w->late[w->count - 1]) : next.key; /* kin that is met on the way has more */
    w->count++;
    w->listed[u] = true;
    for (int32_t k = w->before->start[u]; k < w->before->start[u + 1]; k++) {
        const arc *a = &w->before->arc[k];
        const double sent = w->kin[a->task] == w->kin[u] ? NEVER : a->transfer_ps + w->path[u];
        meet(w, v, a->task, w->least[u] + w->path[u], w->least[u] + fmin(sent, w->apart[u]), floor_ps);
    }
}

/* When one device is through with the first `count` of the list, none of which begins before its level. (Paths behind them add
 * nothing: what is on them is in the list as well.) */
static double run_on_one_device(const walk *w, int32_t count) {
    double end = 0.0;
    for (int32_t k = w->timed - 1; k >= 0; k--) {
        const int32_t u = w->task[w->by_level[k]];
        if (w->by_level[k] < count) end = fmax(end, w->level[u]) + w->least[u];
    }
    return end;
}

/* The least over where the list is cut: as it grows, `late` falls and what one device takes rises. */
static double best_cut(walk *w, double floor_ps) {
    int32_t low = 0, high = w->count;
    w->late[w->count] = floor_ps;
    if (run_on_one_device(w, w->count) <= floor_ps) return floor_ps;
    while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (run_on_one_device(w, middle) >= w->late[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const double serial = fmax(run_on_one_device(w, low), w->late[low]);
    return low > 0 ? fmin(serial, w->late[low - 1]) : serial; /* cut before: late, since serial is less there */
}

static double find_level(walk *w, int32_t v) {
    double floor_ps = 0.0;
    int32_t check = w->patience;
    for (int32_t k = w->before->start[v]; k < w->before->start[v + 1]; k++)
        floor_ps = fmax(floor_ps, end_of(w, w->before->arc[k].task));
    if (w->patience == 0) return floor_ps;
    w->seen[v] = v;
    w->listed[v] = true;
    w->count = w->timed = w->waiting.count = 0;
    for (int32_t k = w->before->start[v]; k < w->before->start[v + 1]; k++)
        meet(w, v, w->before->arc[k].task, 0.0, w->before->arc[k].transfer_ps, floor_ps);
    while (w->waiting.count > 0 && w->count < MOST) {
        const entry next = pop(&w->waiting);
        if (w->listed[next.item]) continue;
        if (w->count == check) {
            const double serial = run_on_one_device(w, w->count);
            if (serial >= next.key || serial <= floor_ps) break;
            check *= 2;
        }
        add_to_list(w, v, next, floor_ps);
    }
    return fmax(floor_ps, best_cut(w, floor_ps));
}

static stw_status walk_levels(walk *w, int32_t T, const int32_t *order, int32_t step, stw_arena scratch, stw_error *error) {
    STW_TRY_NEW(&scratch, w->seen, T, error);
    STW_TRY_NEW(&scratch, w->listed, T, error);
    STW_TRY_NEW(&scratch, w->path, T, error);
    STW_TRY_NEW(&scratch, w->apart, T, error);
    STW_TRY_NEW(&scratch, w->waiting.entry, w->before->start[T], error); /* each arc is met once */
    memset(w->seen, -1, (size_t)T * sizeof *w->seen);
    for (int32_t k = step > 0 ? 0 : T - 1; k >= 0 && k < T; k += step) w->level[order[k]] = find_level(w, order[k]);
    return STW_OK;
}

stw_status stw_bound_levels(const stw_simulator *s, const stw_tasks *tasks, const double *least_ps, bool with_transfers,
                            stw_arena *arena, stw_levels *out, stw_error *error) {
    STW_TRY_NEW(arena, out->head, tasks->T, error);
    STW_TRY_NEW(arena, out->tail, tasks->T, error);
    stw_arena scratch = *arena;
    arcs after, before;
    int32_t *kin;
    TRY(list_after(s, tasks, &scratch, &after, error));
    TRY(turn_round(tasks->T, &after, &scratch, &before, error));
    STW_TRY_NEW(&scratch, kin, tasks->T, error);
    for (int32_t t = 0; t < tasks->T; t++) kin[t] = s->together[tasks->task_node[t]];
    walk w = {.before = &before, .least = least_ps, .kin = kin, .level = out->head};
    w.patience = !with_transfers ? 0 : tasks->T < LARGE ? PATIENCE : LESS_PATIENCE;
    TRY(walk_levels(&w, tasks->T, tasks->order, 1, scratch, error));
    w.before = &after;
    w.level = out->tail;
    return walk_levels(&w, tasks->T, tasks->order, -1, scratch, error);
}
