/* `etf` (m-ETF): an event clock. Of all ops whose needs are met and all devices, the pair that can start first; among equals the
 * op of higher rank. Devices whose memory would not suffice are left out.
 *
 * Each device has two heaps of ops: those whose inputs are there (by rank) and those whose inputs will be there later (by that
 * time). Times only rise while other things are placed, so an entry is looked at again when it is taken, and put back if it is
 * no longer true. Entries of ops that have been placed elsewhere stay until they are at the top, or until the heap is full.
 *
 * Where links charge, an op starts once it has paid for what it receives: among those whose inputs are there, what pays least
 * comes first, and devices are compared by that start. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "method/method.h"
#include "search/list.h"

typedef struct {
    double key;    /* smaller first: what it pays, or when its inputs are there */
    double charge; /* what it pays for what it receives */
    int32_t task;
} entry;

/* Entries lie in columns, of which only those are there that can differ: where many ops are ready on many devices, most memory of
 * a search is here. */
typedef struct {
    double *key;    /* (room) NULL: all are 0 */
    double *charge; /* (room) NULL: of those whose inputs are there it is the key; else all are 0 */
    int32_t *task;  /* (room) */
    int32_t count, room;
    const double *rank; /* (T) among equal keys, higher first; NULL: by number */
} heap;

static entry get(const heap *h, int32_t k) {
    const double key = h->key != NULL ? h->key[k] : 0.0;
    return (entry){key, h->charge != NULL ? h->charge[k] : 0.0, h->task[k]};
}

static void put(heap *h, int32_t k, entry e) {
    h->task[k] = e.task;
    if (h->key != NULL) h->key[k] = e.key;
    if (h->charge != NULL) h->charge[k] = e.charge;
}

static bool is_before(const heap *h, entry a, entry b) {
    if (a.key != b.key) return a.key < b.key;
    if (h->rank != NULL && h->rank[a.task] != h->rank[b.task]) return h->rank[a.task] > h->rank[b.task];
    return a.task < b.task;
}

static void sink(heap *h, int32_t k, entry e) {
    for (int32_t child = 2 * k + 1; child < h->count; child = 2 * k + 1) {
        entry next = get(h, child);
        if (child + 1 < h->count) {
            const entry other = get(h, child + 1);
            if (is_before(h, other, next)) child++, next = other;
        }
        if (!is_before(h, next, e)) break;
        put(h, k, next);
        k = child;
    }
    put(h, k, e);
}

static entry pop(heap *h) {
    const entry top = get(h, 0), last = get(h, --h->count);
    sink(h, 0, last);
    return top;
}

enum { FIRST_ROOM = 256, LARGE_ROOM = 1 << 18 }; /* entries; the latter of half a large page or more */

typedef struct {
    const stw_etf_input *input;
    const stw_list *list;
    stw_board board;
    uint64_t allowed;
    heap now[STW_MAX_DEVICES], later[STW_MAX_DEVICES];
    int32_t kept_for[STW_MAX_DEVICES]; /* the task that a device keeps itself free for, or -1 */
    int32_t *pending;                  /* (T) needs that are not met; -1: placed */
    uint8_t *options;                  /* (T) devices in whose heaps it is */
    double *urgent;                    /* (T) when its inputs could be on every device; NULL without favourites */
    stw_arena *arena;                  /* in which heaps grow */
    bool failed;                       /* there was no memory for an entry */
} etf;

/* ---- entries ---- */

/* Drops what is placed; the rest is in order again. No two entries are alike, so it is taken as it would have been. */
static void drop_placed(const etf *e, heap *h) {
    int32_t kept = 0;
    for (int32_t k = 0; k < h->count; k++) {
        if (e->pending[h->task[k]] >= 0) put(h, kept++, get(h, k));
    }
    h->count = kept;
    for (int32_t k = kept / 2 - 1; k >= 0; k--) sink(h, k, get(h, k));
}

/* A column of another length with the same beginning. */
static bool widen(stw_arena *arena, double **column, int32_t count, int32_t room) {
    double *wider = STW_NEW_DIRTY(arena, double, room);
    if (wider == NULL) return false;
    if (count > 0) memcpy(wider, *column, (size_t)count * sizeof *wider);
    *column = wider;
    return true;
}

static bool allocate(stw_arena *arena, heap *h, int32_t room) {
    int32_t *task = STW_NEW_DIRTY(arena, int32_t, room);
    if (task == NULL) return false;
    if (h->count > 0) memcpy(task, h->task, (size_t)h->count * sizeof *task);
    h->task = task;
    return (h->key == NULL || widen(arena, &h->key, h->count, room)) &&
           (h->charge == NULL || widen(arena, &h->charge, h->count, room));
}

/* Few entries are about ops that are to be placed still, so heaps are small where they are tidied in time. One that is very large
 * all the same gets a place where it can grow to the last entry that it may have, of which only the pages that it uses become
 * memory: large ones, so that smaller heaps would be mostly air there. */
static bool make_room(etf *e, heap *h) {
    const int32_t T = e->board.base->tasks->T, room = h->room < T / 2 ? 2 * h->room : T;
    drop_placed(e, h);
    if (h->count <= h->room / 2) return true;
    if (h->room <= LARGE_ROOM && !allocate(e->arena, h, room <= LARGE_ROOM ? room : T)) return false;
    h->room = room;
    return true;
}

static void push(etf *e, heap *h, entry added) {
    if (h->count == h->room && !make_room(e, h)) {
        e->failed = true;
        return;
    }
    int32_t k = h->count++;
    for (; k > 0; k = (k - 1) / 2) {
        const entry above = get(h, (k - 1) / 2);
        if (!is_before(h, added, above)) break;
        put(h, k, above);
    }
    put(h, k, added);
}

/* ---- becoming ready ---- */

static void offer(etf *e, int32_t task, int32_t device) {
    push(e, &e->later[device], (entry){e->board.ready[device], e->board.charge[device], task});
    e->options[task]++;
}

static void become_ready(etf *e, int32_t task) {
    const int32_t D = e->board.base->D, bound = stw_board_bound(&e->board, task);
    const uint64_t allowed = e->input->task_allowed == NULL ? e->allowed : e->allowed & e->input->task_allowed[task];
    double last = 0.0;
    stw_board_look(&e->board, task, 0, D - 1);
    for (int32_t d = 0; d < D; d++) {
        if (e->board.ready[d] < STW_FAR_US) last = fmax(last, e->board.ready[d]);
        const bool may = bound >= 0 ? d == bound : (allowed >> d & 1u) && e->board.ready[d] < STW_FAR_US;
        if (may) offer(e, task, d);
    }
    for (int32_t d = 0; d < D && e->options[task] == 0; d++) { /* no device is in reach of all inputs; the plan is lost anyway */
        if (e->allowed >> d & 1u) offer(e, task, d);
    }
    if (e->urgent != NULL) e->urgent[task] = last;
}

static void release(etf *e, int32_t task) {
    if (--e->pending[task] == 0) become_ready(e, task);
}

static void place(etf *e, int32_t task, int32_t device) {
    const stw_tasks *tasks = e->board.base->tasks;
    stw_board_place(&e->board, task, device);
    e->pending[task] = -1;
    e->kept_for[device] = e->input->favourite == NULL ? -1 : e->input->favourite[task];
    for (int32_t o = tasks->output_start[task]; o < tasks->output_start[task + 1]; o++) {
        const int32_t v = tasks->output[o];
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) release(e, tasks->use[u].task);
    }
    for (int32_t w = tasks->waiter_start[task]; w < tasks->waiter_start[task + 1]; w++) release(e, tasks->waiter[w]);
}

/* ---- choosing ---- */

/* The task that a device would start next; -1: none. Drops what is placed, moves what has come. */
static int32_t first_of(etf *e, int32_t device, double *start) {
    heap *now = &e->now[device], *later = &e->later[device];
    const double end = e->board.device[device].end;
    while (later->count > 0 && (later->key[0] <= end || e->pending[later->task[0]] < 0)) {
        const entry come = pop(later);
        if (e->pending[come.task] == 0) push(e, now, (entry){come.charge, come.charge, come.task});
    }
    while (now->count > 0 && e->pending[now->task[0]] < 0) pop(now);
    if (now->count == 0 && later->count == 0) return -1;
    const entry first = get(now->count > 0 ? now : later, 0);
    *start = now->count > 0 ? end + first.key : first.key + first.charge;
    return first.task;
}

typedef struct {
    int32_t task, device; /* -1: none */
    double start;
    bool kept; /* the device kept itself free for it: it is not at the top of a heap */
} choice;

static void consider(const etf *e, choice *best, choice other) {
    const double *rank = e->list->rank;
    if (best->task >= 0 && other.start > best->start) return;
    if (best->task >= 0 && other.start == best->start && rank[other.task] <= rank[best->task]) return;
    *best = other;
}

/* A device that is kept for a task takes another only once that one is urgent. */
static choice choose(etf *e) {
    choice best = {.task = -1};
    for (int32_t d = 0; d < e->board.base->D; d++) {
        double start = 0.0;
        const int32_t first = first_of(e, d, &start);
        if (first < 0) continue;
        int32_t kept = e->kept_for[d];
        if (kept >= 0 && e->pending[kept] < 0) kept = e->kept_for[d] = -1;
        const bool other = kept >= 0 && first != kept;
        consider(e, &best, (choice){first, d, other ? fmax(start, e->urgent[first]) : start, false});
        if (!other || e->pending[kept] != 0) continue;
        const int32_t bound = stw_board_bound(&e->board, kept);
        if (bound >= 0 && bound != d) continue;
        stw_board_look(&e->board, kept, d, d);
        const double ready = fmax(e->board.device[d].end, e->board.ready[d]);
        if (e->board.ready[d] < STW_FAR_US) consider(e, &best, (choice){kept, d, ready + e->board.charge[d], true});
    }
    return best;
}

/* Takes the choice off its heap and places it, unless it was founded on what is no longer true. */
static void follow(etf *e, choice c) {
    const int32_t d = c.device, task = c.task, bound = stw_board_bound(&e->board, task);
    double believed = c.start;
    if (!c.kept) {
        const bool here = e->now[d].count > 0;
        const entry top = pop(here ? &e->now[d] : &e->later[d]);
        believed = here ? e->board.device[d].end : top.key;
    }
    stw_board_look(&e->board, task, d, d);
    const bool last = e->options[task] == 1;
    if (bound >= 0 && bound != d) { /* its atom has been bound since */
        if (!c.kept) e->options[task]--;
        if (last) place(e, task, bound);
        return;
    }
    if (!c.kept && e->board.ready[d] > believed) {
        push(e, &e->later[d], (entry){e->board.ready[d], e->board.charge[d], task});
        return;
    }
    const bool lacks = e->list->memory && stw_board_lacks(&e->board, d) > 0.0;
    if (lacks && bound < 0 && !last) {
        if (c.kept) {
            e->kept_for[d] = -1;
        } else {
            e->options[task]--;
        }
        return;
    }
    place(e, task, d);
}

/* ---- the whole ---- */

/* Among those whose inputs are there, keys are charges. */
static bool open_heaps(etf *e, stw_arena *arena, int32_t device) {
    heap *now = &e->now[device], *later = &e->later[device];
    const bool charges = e->board.base->send_us != NULL;
    now->room = later->room = FIRST_ROOM;
    return widen(arena, &later->key, 0, FIRST_ROOM) && (!charges || widen(arena, &later->charge, 0, FIRST_ROOM)) &&
           (!charges || widen(arena, &now->key, 0, FIRST_ROOM)) && allocate(arena, now, FIRST_ROOM) &&
           allocate(arena, later, FIRST_ROOM);
}

static stw_status prepare(etf *e, stw_arena *arena, stw_error *error) {
    const stw_board_base *base = &e->list->base;
    const stw_tasks *tasks = base->tasks;
    const stw_board_rules rules = {.home = e->input->home, .queues = e->input->queues, .memory = e->list->memory};
    TRY(stw_board_create(base, &rules, arena, &e->board, error));
    STW_TRY_NEW(arena, e->pending, tasks->T, error);
    STW_TRY_NEW(arena, e->options, tasks->T, error);
    if (e->input->favourite != NULL) STW_TRY_NEW(arena, e->urgent, tasks->T, error);
    for (int32_t d = 0; d < base->D; d++) {
        e->kept_for[d] = -1;
        e->now[d].rank = e->list->rank;
        if (!open_heaps(e, arena, d)) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    for (int32_t v = 0; v < tasks->V; v++) {
        if (tasks->value_task[v] < 0) continue;
        for (int32_t u = tasks->use_start[v]; u < tasks->use_start[v + 1]; u++) e->pending[tasks->use[u].task]++;
    }
    for (int32_t w = 0; w < tasks->waiter_start[tasks->T]; w++) e->pending[tasks->waiter[w]]++;
    for (int32_t t = 0; t < tasks->T; t++) {
        if (e->pending[t] == 0) become_ready(e, t);
    }
    return STW_OK;
}

enum { STEPS_PER_LOOK = 1024 }; /* at the clock: some milliseconds on many devices */

stw_status stw_etf(const stw_etf_input *input, int32_t *device, stw_arena scratch, stw_error *error) {
    const int32_t D = input->list->base.D;
    const uint64_t all = D == STW_MAX_DEVICES ? UINT64_MAX : (1ull << D) - 1;
    etf e = {.input = input,
             .list = input->list,
             .allowed = (input->allowed & all) == 0 ? all : input->allowed & all,
             .arena = &scratch};
    TRY(prepare(&e, &scratch, error));
    int64_t steps = 0;
    for (choice next = choose(&e); next.task >= 0; next = choose(&e)) {
        if (++steps % STEPS_PER_LOOK == 0 && stw_stop_is_due(&input->stop)) return stw_fail_stopped(error);
        follow(&e, next);
        if (e.failed) break;
    }
    if (e.failed) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    stw_board_devices(&e.board, device);
    return STW_OK;
}

/* ---- the method ---- */

typedef struct {
    const stw_search *search;
    stw_list list;
} problem;

static const struct {
    stw_home home;
    bool queues;
} variant[] = {{STW_HOME_UPDATE, true}, {STW_HOME_UPDATE, false}, {STW_HOME_FIRST, true},
               {STW_HOME_FIRST, false}, {STW_HOME_LARGEST, true}, {STW_HOME_LARGEST, false}};
enum { VARIANTS = sizeof variant / sizeof variant[0] };

static stw_status build(void *context, int32_t index, stw_plan *plan, stw_arena scratch, stw_error *error) {
    const problem *p = context;
    const stw_etf_input input = {.list = &p->list,
                                 .home = variant[index].home,
                                 .queues = variant[index].queues,
                                 .allowed = p->list.linked,
                                 .stop = stw_search_stop(p->search, index)};
    return stw_etf(&input, plan->device, scratch, error);
}

static stw_status run(stw_search *search, stw_plan *plan, stw_error *error) {
    static const char *const home[] = {"their first reader", "their update", "their largest reader"};
    stw_arena arena = search->arena;
    problem p = {.search = search};
    int32_t best = 0;
    TRY(stw_list_prepare(search, &arena, &p.list, error));
    const stw_variants variants = {.count = VARIANTS, .build = build, .context = &p, .own_rule = STW_RULE_UPWARD_RANK};
    TRY(stw_search_variants(search, &variants, plan, &best, error));
    snprintf(search->outcome.note, sizeof search->outcome.note, "each op where it starts first, parameters with %s, %s",
             home[variant[best].home],
             variant[best].queues ? "assuming that transfers queue" : "assuming that transfers never queue");
    return STW_OK;
}

const stw_method stw_method_etf = {.name = "etf",
                                   .description = "always the op that can start first, where it can, within memory",
                                   .kind = STW_METHOD_CONSTRUCTIVE,
                                   .traits = STW_METHOD_PLACES | STW_METHOD_VARIES,
                                   .pair_s = 2.5e-7,
                                   .run = run};
