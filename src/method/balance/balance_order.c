/* Linear orders of the atoms. A split of an order is only as good as the order, so there are several kinds:
 * 0 the graph's own; 1 depth first; 2 the one that keeps what crosses each place small, greedily; 3 at random among what is
 * ready. Kinds 1 to 3 depend on chance. Atoms may depend on each other in circles; then the first in the graph goes first.
 *
 * Atoms that take no time and depend on nothing that does (weights, constants) stand right before their first reader: nothing
 * is gained by having them earlier, and each would cross many places. They are called lazy here. */
#include <math.h>
#include <stdlib.h>

#include "method/balance/balance.h"

typedef struct {
    int32_t first, atom;
} graph_place;

static int compare_places(const void *left, const void *right) {
    const graph_place *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->atom < b->atom ? -1 : a->atom > b->atom;
}

typedef struct {
    const stw_balance_model *m;
    int32_t *order; /* (A) the result, `done` long */
    int32_t done;
    int32_t *sorted;         /* (A) the graph's own order */
    int32_t *place;          /* (A) in the graph's own order */
    int32_t *pending;        /* (A) edges from atoms earlier in the graph that are neither lazy nor in the order */
    int32_t *list;           /* (A) atoms that are ready */
    int32_t ready;           /* how many */
    int32_t *left;           /* (E) readers that are not yet in the order */
    bool *taken, *lazy;      /* (A) */
    int32_t *stack, *cursor; /* (A) of `emit` */
} walk;

/* Does the edge order its ends? Only if its producer comes first in the graph: so there are no circles. */
static bool orders(const walk *w, int32_t producer, int32_t reader) { return w->place[producer] < w->place[reader]; }

/* ---- before the walk ---- */

static stw_status make_room(walk *w, stw_arena *arena, stw_error *error) {
    const stw_balance_model *m = w->m;
    STW_TRY_NEW(arena, w->sorted, m->A, error);
    STW_TRY_NEW(arena, w->place, m->A, error);
    STW_TRY_NEW(arena, w->pending, m->A, error);
    STW_TRY_NEW(arena, w->list, m->A, error);
    STW_TRY_NEW(arena, w->left, m->E, error);
    STW_TRY_NEW(arena, w->taken, m->A, error);
    STW_TRY_NEW(arena, w->lazy, m->A, error);
    STW_TRY_NEW(arena, w->stack, m->A, error);
    STW_TRY_NEW(arena, w->cursor, m->A, error);
    return STW_OK;
}

static bool is_lazy(const walk *w, int32_t atom) {
    const stw_balance_model *m = w->m;
    if (m->made_start[atom] == m->made_start[atom + 1]) return false;
    for (int32_t d = 0; d < m->D; d++) {
        if (m->work_us[(int64_t)atom * m->D + d] > 0.0) return false;
    }
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) {
        const int32_t producer = m->edge[m->read_edge[k]].producer;
        if (!orders(w, producer, atom) || !w->lazy[producer]) return false;
    }
    return true;
}

/* The graph's own order; who is lazy; what must come before what. */
static stw_status prepare(walk *w, stw_arena scratch, stw_error *error) {
    const stw_balance_model *m = w->m;
    graph_place *place;
    STW_TRY_NEW(&scratch, place, m->A, error);
    for (int32_t a = 0; a < m->A; a++) place[a] = (graph_place){m->first_op[a], a};
    if (m->A > 1) qsort(place, (size_t)m->A, sizeof *place, compare_places);
    for (int32_t k = 0; k < m->A; k++) {
        w->sorted[k] = place[k].atom;
        w->place[place[k].atom] = k;
    }
    for (int32_t k = 0; k < m->A; k++) w->lazy[w->sorted[k]] = is_lazy(w, w->sorted[k]);
    for (int32_t e = 0; e < m->E; e++) {
        const stw_balance_edge *edge = &m->edge[e];
        w->left[e] = edge->reader_count;
        for (int32_t k = 0; k < edge->reader_count && !w->lazy[edge->producer]; k++) {
            const int32_t reader = m->reader_atom[edge->reader + k];
            w->pending[reader] += orders(w, edge->producer, reader);
        }
    }
    return STW_OK;
}

/* ---- the walk ---- */

static void take(walk *w, int32_t atom) {
    const stw_balance_model *m = w->m;
    w->taken[atom] = true;
    w->order[w->done++] = atom;
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) w->left[m->read_edge[k]]--;
    for (int32_t e = m->made_start[atom]; e < m->made_start[atom + 1] && !w->lazy[atom]; e++) {
        for (int32_t k = 0; k < m->edge[e].reader_count; k++) {
            const int32_t reader = m->reader_atom[m->edge[e].reader + k];
            if (orders(w, atom, reader) && --w->pending[reader] == 0 && !w->lazy[reader]) w->list[w->ready++] = reader;
        }
    }
}

/* The next lazy atom that `atom` needs and that has no place yet; -1: none. */
static int32_t next_lazy(walk *w, int32_t atom) {
    const stw_balance_model *m = w->m;
    while (w->cursor[atom] < m->read_start[atom + 1]) {
        const int32_t producer = m->edge[m->read_edge[w->cursor[atom]++]].producer;
        if (w->lazy[producer] && !w->taken[producer]) return producer;
    }
    return -1;
}

/* An atom, and before it the lazy ones that it needs. */
static void emit(walk *w, int32_t atom) {
    int32_t depth = 0;
    w->stack[depth++] = atom;
    w->cursor[atom] = w->m->read_start[atom];
    while (depth > 0) {
        const int32_t top = w->stack[depth - 1], lazy = next_lazy(w, top);
        if (lazy < 0) {
            take(w, top);
            depth--;
        } else {
            w->stack[depth++] = lazy;
            w->cursor[lazy] = w->m->read_start[lazy];
        }
    }
}

/* What crosses the place behind `atom` minus what crosses the place before it, in bytes; latencies are left aside, and so is
 * what the lazy ones before it bring. */
static double change_of_cut(const walk *w, int32_t atom) {
    const stw_balance_model *m = w->m;
    double change = 0.0;
    for (int32_t e = m->made_start[atom]; e < m->made_start[atom + 1]; e++) {
        const bool read_before = w->left[e]<m->edge[e].reader_count, read_after = w->left[e]> 0;
        change += ((read_after ? 1.0 : 0.0) - (read_before ? 1.0 : 0.0)) * m->edge[e].bytes;
    }
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) {
        const stw_balance_edge *edge = &m->edge[m->read_edge[k]];
        const int32_t left = w->left[m->read_edge[k]];
        if (w->taken[edge->producer]) {
            change -= left == 1 ? edge->bytes : 0.0;
        } else if (w->lazy[edge->producer]) {
            change += left > 1 ? edge->bytes : 0.0;
        } else {
            change += left == edge->reader_count ? edge->bytes : 0.0;
        }
    }
    return change;
}

enum { MOST_LOOKED_AT = 64 }; /* of the atoms that are ready, so that wide graphs stay fast */

static int32_t choose(const walk *w, int32_t kind, stw_rng *rng) {
    if (kind == 1) return w->ready - 1; /* the last that became ready */
    if (kind == 3) return (int32_t)stw_rng_below(rng, w->ready);
    int32_t best = w->ready - 1;
    double least = HUGE_VAL;
    for (int32_t k = w->ready - 1; k >= 0 && k >= w->ready - MOST_LOOKED_AT; k--) {
        const double change = change_of_cut(w, w->list[k]) * (0.75 + 0.5 * stw_rng_uniform(rng));
        if (change >= least) continue;
        least = change;
        best = k;
    }
    return best;
}

static void shuffle(int32_t *list, int32_t count, stw_rng *rng) {
    for (int32_t k = count - 1; k > 0; k--) {
        const int32_t other = (int32_t)stw_rng_below(rng, k + 1), swap = list[k];
        list[k] = list[other];
        list[other] = swap;
    }
}

/* All that is not lazy, each when all it needs has its place. */
static void walk_all(walk *w, int32_t kind, stw_rng *rng) {
    for (int32_t k = w->m->A - 1; k >= 0; k--) { /* the graph's first lies on top */
        const int32_t atom = w->sorted[k];
        if (w->pending[atom] == 0 && !w->lazy[atom]) w->list[w->ready++] = atom;
    }
    shuffle(w->list, w->ready, rng);
    while (w->ready > 0) {
        const int32_t k = choose(w, kind, rng), atom = w->list[k], before = w->ready;
        for (int32_t i = k; i + 1 < w->ready; i++) w->list[i] = w->list[i + 1];
        w->ready--;
        emit(w, atom);
        if (w->ready >= before) shuffle(w->list + before - 1, w->ready - before + 1, rng); /* what it made ready */
    }
}

stw_status stw_balance_order(const stw_balance_model *m, int32_t kind, stw_rng *rng, int32_t *order, stw_arena scratch,
                             stw_error *error) {
    walk w = {.m = m, .order = order};
    TRY(make_room(&w, &scratch, error));
    TRY(prepare(&w, scratch, error));
    if (kind == 0) {
        for (int32_t k = 0; k < m->A; k++) {
            if (!w.lazy[w.sorted[k]]) emit(&w, w.sorted[k]);
        }
    } else {
        walk_all(&w, kind, rng);
    }
    for (int32_t a = 0; a < m->A; a++) { /* lazy ones that nothing but lazy ones need */
        if (!w.taken[a]) emit(&w, a);
    }
    return STW_OK;
}
