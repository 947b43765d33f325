/* Linear orders of the atoms. A split of an order is only as good as the order, so there are several kinds:
 * 0 the graph's own; 1 depth first; 2 the one that keeps what crosses each place small, greedily; 3 at random among what is
 * ready. Kinds 1 to 3 depend on chance. Atoms may depend on each other in circles; then the first in the graph goes first. */
#include <math.h>
#include <stdlib.h>

#include "method/balance.h"

typedef struct {
    int32_t first, atom;
} graph_place;

static int compare_places(const void *left, const void *right) {
    const graph_place *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->atom < b->atom ? -1 : a->atom > b->atom;
}

static stw_status graph_order(const stw_balance_model *m, int32_t *order, stw_arena scratch, stw_error *error) {
    graph_place *place;
    STW_TRY_NEW(&scratch, place, m->A, error);
    for (int32_t a = 0; a < m->A; a++) place[a] = (graph_place){m->first_op[a], a};
    if (m->A > 1) qsort(place, (size_t)m->A, sizeof *place, compare_places);
    for (int32_t a = 0; a < m->A; a++) order[a] = place[a].atom;
    return STW_OK;
}

typedef struct {
    const stw_balance_model *m;
    int32_t *pending;     /* (A) edges from atoms that come earlier in the graph and are not yet in the order */
    int32_t *list;        /* (A) atoms that are ready */
    int32_t ready;        /* how many */
    int32_t *left;        /* (E) readers that are not yet in the order */
    bool *taken;          /* (A) */
    const int32_t *first; /* (A) place in the graph's own order */
} walk;

/* Does the edge order its ends? Only if its producer comes first in the graph: so there are no circles. */
static bool orders(const walk *w, int32_t producer, int32_t reader) { return w->first[producer] < w->first[reader]; }

static void take(walk *w, int32_t atom) {
    const stw_balance_model *m = w->m;
    w->taken[atom] = true;
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) w->left[m->read_edge[k]]--;
    for (int32_t e = m->made_start[atom]; e < m->made_start[atom + 1]; e++) {
        for (int32_t k = 0; k < m->edge[e].reader_count; k++) {
            const int32_t reader = m->reader_atom[m->edge[e].reader + k];
            if (orders(w, atom, reader) && --w->pending[reader] == 0) w->list[w->ready++] = reader;
        }
    }
}

/* What crosses the place behind `atom` minus what crosses the place before it, in bytes, latencies left aside. */
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
        } else {
            change += left == edge->reader_count ? edge->bytes : 0.0;
        }
    }
    return change;
}

enum { FEWEST_LOOKED_AT = 64 }; /* of the atoms that are ready, so that wide graphs stay fast */

static int32_t choose(const walk *w, int32_t kind, stw_rng *rng) {
    if (kind == 1) return w->ready - 1; /* the last that became ready */
    if (kind == 3) return (int32_t)stw_rng_below(rng, w->ready);
    int32_t best = w->ready - 1;
    double least = HUGE_VAL;
    for (int32_t k = w->ready - 1; k >= 0 && k >= w->ready - FEWEST_LOOKED_AT; k--) {
        const double change = change_of_cut(w, w->list[k]) * (0.75 + 0.5 * stw_rng_uniform(rng));
        if (change >= least) continue;
        least = change;
        best = k;
    }
    return best;
}

stw_status stw_balance_order(const stw_balance_model *m, int32_t kind, stw_rng *rng, int32_t *order, stw_arena scratch,
                             stw_error *error) {
    int32_t *first;
    walk w = {.m = m};
    TRY(graph_order(m, order, scratch, error));
    if (kind == 0) return STW_OK;
    STW_TRY_NEW(&scratch, first, m->A, error);
    STW_TRY_NEW(&scratch, w.pending, m->A, error);
    STW_TRY_NEW(&scratch, w.list, m->A, error);
    STW_TRY_NEW(&scratch, w.left, m->E, error);
    STW_TRY_NEW(&scratch, w.taken, m->A, error);
    w.first = first;
    for (int32_t k = 0; k < m->A; k++) first[order[k]] = k;
    for (int32_t e = 0; e < m->E; e++) {
        w.left[e] = m->edge[e].reader_count;
        for (int32_t k = 0; k < m->edge[e].reader_count; k++) {
            const int32_t reader = m->reader_atom[m->edge[e].reader + k];
            w.pending[reader] += orders(&w, m->edge[e].producer, reader);
        }
    }
    for (int32_t k = m->A - 1; k >= 0; k--) { /* the graph's first lies on top */
        if (w.pending[order[k]] == 0) w.list[w.ready++] = order[k];
    }
    if (kind != 2) { /* chance enters where there is a choice at the beginning */
        for (int32_t k = w.ready - 1; k > 0; k--) {
            const int32_t other = (int32_t)stw_rng_below(rng, k + 1), swap = w.list[k];
            w.list[k] = w.list[other];
            w.list[other] = swap;
        }
    }
    for (int32_t done = 0; done < m->A; done++) {
        const int32_t k = choose(&w, kind, rng), atom = w.list[k];
        for (int32_t i = k; i + 1 < w.ready; i++) w.list[i] = w.list[i + 1];
        w.ready--;
        order[done] = atom;
        take(&w, atom);
    }
    return STW_OK;
}
