/* The best contiguous split of an order, by dynamic programming over its places: f(k, j) is the smallest largest load when the
 * first k devices hold what stands before place j. A piece's load has its transfers: what it reads from outside, and what
 * others read of it, once each. With a host that is exact; without one the mean hop stands for every link. Long orders are cut
 * at some places only. */
#include <math.h>

#include "method/balance.h"

typedef struct { /* a piece that grows to the right */
    double out_bytes, out_transfers, in_bytes, in_transfers;
    int64_t resident;
} piece;

typedef struct {
    const stw_balance_model *m;
    const int32_t *order, *sequence;
    int32_t places;  /* B: places 0 .. B */
    int32_t *cut;    /* (B + 1) index into the order of each place */
    int32_t *inside; /* (E) readers within the piece */
    bool *within;    /* (A) */
    double *best;    /* (D + 1, B + 1) f */
    int32_t *from;   /* (D + 1, B + 1) where the last piece begins */
    double *work;    /* (D) of the piece */
} splitter;

static void count_in(piece *p, const stw_balance_edge *edge, double sign) {
    p->in_bytes += sign * edge->bytes;
    p->in_transfers += sign * edge->transfers;
}

static void count_out(piece *p, const stw_balance_edge *edge, double sign) {
    p->out_bytes += sign * edge->bytes;
    p->out_transfers += sign * edge->transfers;
}

static void grow(splitter *s, piece *p, int32_t atom) {
    const stw_balance_model *m = s->m;
    s->within[atom] = true;
    p->resident += m->resident[atom];
    for (int32_t d = 0; d < m->D; d++) s->work[d] += m->work_us[(int64_t)atom * m->D + d];
    for (int32_t e = m->made_start[atom]; e < m->made_start[atom + 1]; e++) {
        if (s->inside[e] > 0) count_in(p, &m->edge[e], -1.0);
        if (s->inside[e] < m->edge[e].reader_count) count_out(p, &m->edge[e], 1.0);
    }
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) {
        const int32_t e = m->read_edge[k];
        const stw_balance_edge *edge = &m->edge[e];
        const int32_t inside = ++s->inside[e];
        if (s->within[edge->producer]) {
            if (inside == edge->reader_count) count_out(p, edge, -1.0);
        } else if (inside == 1) {
            count_in(p, edge, 1.0);
        }
    }
}

static void shrink_to_nothing(splitter *s, int32_t first, int32_t last) {
    const stw_balance_model *m = s->m;
    for (int32_t k = first; k < last; k++) {
        const int32_t atom = s->order[k];
        s->within[atom] = false;
        for (int32_t r = m->read_start[atom]; r < m->read_start[atom + 1]; r++) s->inside[m->read_edge[r]] = 0;
    }
}

static double load_of(const splitter *s, const piece *p, int32_t d) {
    const stw_balance_hop *up = &s->m->up[d], *down = &s->m->down[d];
    if (p->resident > s->m->memory[d]) return HUGE_VAL;
    return s->work[d] + p->out_bytes * up->us_per_byte + p->out_transfers * up->latency_us + p->in_bytes * down->us_per_byte +
           p->in_transfers * down->latency_us;
}

/* All pieces that begin at place i. */
static void extend(splitter *s, int32_t i) {
    const int32_t D = s->m->D, width = s->places + 1;
    piece p = {0};
    for (int32_t d = 0; d < D; d++) s->work[d] = 0.0;
    for (int32_t k = 0; k < D; k++) { /* a device may stay empty */
        if (s->best[k * width + i] < s->best[(k + 1) * width + i]) {
            s->best[(k + 1) * width + i] = s->best[k * width + i];
            s->from[(k + 1) * width + i] = i;
        }
    }
    for (int32_t j = i + 1; j <= s->places; j++) {
        for (int32_t at = s->cut[j - 1]; at < s->cut[j]; at++) grow(s, &p, s->order[at]);
        for (int32_t k = 0; k < D; k++) {
            const double load = load_of(s, &p, s->sequence[k]), before = s->best[k * width + i];
            const double value = load > before ? load : before;
            if (value >= s->best[(k + 1) * width + j]) continue;
            s->best[(k + 1) * width + j] = value;
            s->from[(k + 1) * width + j] = i;
        }
    }
    shrink_to_nothing(s, s->cut[i], s->cut[s->places]);
}

/* So many places that the work stays bearable: pieces x edges. */
static int32_t count_places(const stw_balance_model *m) {
    const double pins = 1.0 + m->E + m->read_start[m->A];
    double places = 4e7 / pins;
    if (places > 1024.0) places = 1024.0;
    if (places < 2.0 * m->D) places = 2.0 * m->D;
    return places < m->A ? (int32_t)places : m->A;
}

stw_status stw_balance_split(const stw_balance_model *m, const int32_t *order, const int32_t *sequence, int32_t *device,
                             stw_arena scratch, stw_error *error) {
    splitter s = {.m = m, .order = order, .sequence = sequence, .places = count_places(m)};
    const int32_t width = s.places + 1;
    STW_TRY_NEW(&scratch, s.cut, width, error);
    STW_TRY_NEW(&scratch, s.inside, m->E, error);
    STW_TRY_NEW(&scratch, s.within, m->A, error);
    STW_TRY_NEW(&scratch, s.best, (int64_t)(m->D + 1) * width, error);
    STW_TRY_NEW(&scratch, s.from, (int64_t)(m->D + 1) * width, error);
    STW_TRY_NEW(&scratch, s.work, m->D, error);
    for (int32_t j = 0; j <= s.places; j++) s.cut[j] = s.places == 0 ? 0 : (int32_t)((int64_t)j * m->A / s.places);
    for (int64_t k = 0; k < (int64_t)(m->D + 1) * width; k++) s.best[k] = HUGE_VAL;
    s.best[0] = 0.0;
    for (int32_t i = 0; i <= s.places; i++) extend(&s, i);
    if (!(s.best[m->D * width + s.places] < HUGE_VAL)) { /* it does not fit: equal pieces, for others to repair */
        for (int32_t k = 0; k < m->A; k++) device[order[k]] = sequence[(int64_t)k * m->D / m->A];
        return STW_OK;
    }
    for (int32_t k = m->D, j = s.places; k > 0; k--) {
        const int32_t i = s.from[k * width + j];
        for (int32_t at = s.cut[i]; at < s.cut[j]; at++) device[order[at]] = sequence[k - 1];
        j = i;
    }
    return STW_OK;
}
