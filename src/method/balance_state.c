#include <string.h>

#include "method/balance.h"

stw_status stw_balance_state_create(const stw_balance_model *model, stw_arena *arena, stw_balance_state *out, stw_error *error) {
    *out = (stw_balance_state){.model = model};
    STW_TRY_NEW(arena, out->device, model->A, error);
    STW_TRY_NEW(arena, out->readers, (int64_t)model->E * model->D, error);
    STW_TRY_NEW(arena, out->present, model->E, error);
    return STW_OK;
}

/* One transfer of an edge begins (sign 1) or ends (-1) to be needed. Without a host both ends pay all of it; with one, the
 * receiver pays its hop here. */
static void pay_arrival(stw_balance_state *s, const stw_balance_edge *edge, int32_t from, int32_t to, double sign) {
    const stw_balance_model *m = s->model;
    const stw_balance_hop *link = &m->link[from * m->D + to];
    if (!link->possible) s->broken += sign > 0.0 ? 1 : -1;
    if (m->host >= 0) {
        s->load[to] += sign * stw_balance_hop_us(&m->down[to], edge);
        return;
    }
    const double us = sign * stw_balance_hop_us(link, edge);
    s->load[from] += us;
    s->load[to] += us;
}

/* All that an edge costs where its producer is on `home`. */
static void pay_edge(stw_balance_state *s, int32_t e, int32_t home, double sign) {
    const stw_balance_model *m = s->model;
    const stw_balance_edge *edge = &m->edge[e];
    uint64_t away = s->present[e] & ~((uint64_t)1 << home);
    if (away == 0) return;
    if (m->host >= 0) s->load[home] += sign * stw_balance_hop_us(&m->up[home], edge);
    for (; away != 0; away &= away - 1) {
        pay_arrival(s, edge, home, __builtin_ctzll(away), sign);
    }
}

/* The first reader of an edge comes to a device (sign 1), or the last one has gone (-1); `present` is without it. */
static void pay_reader(stw_balance_state *s, int32_t e, int32_t to, double sign) {
    const stw_balance_model *m = s->model;
    const stw_balance_edge *edge = &m->edge[e];
    const int32_t home = s->device[edge->producer];
    if (home == to) return;
    pay_arrival(s, edge, home, to, sign);
    if (m->host >= 0 && (s->present[e] & ~((uint64_t)1 << home)) == 0)
        s->load[home] += sign * stw_balance_hop_us(&m->up[home], edge);
}

void stw_balance_state_set(stw_balance_state *s, const int32_t *device) {
    const stw_balance_model *m = s->model;
    memset(s->load, 0, sizeof s->load);
    memset(s->resident, 0, sizeof s->resident);
    memset(s->readers, 0, (size_t)m->E * (size_t)m->D * sizeof *s->readers);
    memset(s->present, 0, (size_t)m->E * sizeof *s->present);
    s->broken = 0;
    for (int32_t a = 0; a < m->A; a++) {
        s->device[a] = device[a];
        s->load[device[a]] += m->work_us[(int64_t)a * m->D + device[a]];
        s->resident[device[a]] += m->resident[a];
    }
    for (int32_t e = 0; e < m->E; e++) {
        const stw_balance_edge *edge = &m->edge[e];
        for (int32_t k = 0; k < edge->reader_count; k++) {
            const int32_t d = device[m->reader_atom[edge->reader + k]];
            s->readers[(int64_t)e * m->D + d]++;
            s->present[e] |= (uint64_t)1 << d;
        }
        pay_edge(s, e, device[edge->producer], 1.0);
    }
}

void stw_balance_state_move(stw_balance_state *s, int32_t atom, int32_t to) {
    const stw_balance_model *m = s->model;
    const int32_t from = s->device[atom];
    if (from == to) return;
    const double *work = &m->work_us[(int64_t)atom * m->D];
    s->load[from] -= work[from];
    s->load[to] += work[to];
    s->resident[from] -= m->resident[atom];
    s->resident[to] += m->resident[atom];
    for (int32_t e = m->made_start[atom]; e < m->made_start[atom + 1]; e++) {
        pay_edge(s, e, from, -1.0);
        pay_edge(s, e, to, 1.0);
    }
    s->device[atom] = to;
    for (int32_t k = m->read_start[atom]; k < m->read_start[atom + 1]; k++) {
        const int32_t e = m->read_edge[k];
        int32_t *readers = &s->readers[(int64_t)e * m->D];
        if (--readers[from] == 0) {
            s->present[e] &= ~((uint64_t)1 << from);
            pay_reader(s, e, from, -1.0);
        }
        if (readers[to]++ == 0) {
            pay_reader(s, e, to, 1.0);
            s->present[e] |= (uint64_t)1 << to;
        }
    }
}

double stw_balance_largest(const stw_balance_state *s) {
    double largest = 0.0;
    for (int32_t d = 0; d < s->model->D; d++) {
        if (s->load[d] > largest) largest = s->load[d];
    }
    return largest;
}

double stw_balance_lacks(const stw_balance_state *s) {
    int64_t over = 0;
    for (int32_t d = 0; d < s->model->D; d++) {
        if (s->resident[d] > s->model->memory[d]) over += s->resident[d] - s->model->memory[d];
    }
    return over == 0 && s->broken == 0 ? 0.0 : (double)s->broken + (double)over / (double)s->model->resident_sum;
}
