/* What loads and memory depend on, and a placement with its loads. */
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "method/balance/balance.h"
#include "plan/plan.h"

/* ---- atoms and edges ---- */

/* Atoms and edges of a graph. */

/* ---- atoms ---- */

/* All ops that read a node are in one set of what must be together. */
static bool has_one_reader(const stw_simulator *s, int32_t node) {
    const stw_graph *graph = s->graph;
    for (int64_t r = graph->reader_start[node]; r < graph->reader_start[node + 1]; r++) {
        if (s->together[graph->reader[r].node] != s->together[graph->reader[graph->reader_start[node]].node]) return false;
    }
    return graph->reader_start[node] < graph->reader_start[node + 1];
}

/* The node that stands for all that is placed together with node i; -1 if it is on every device. A free parameter goes with its
 * reader if it has only one. */
static int32_t leader_of(const stw_simulator *s, int32_t i) {
    const int32_t node = s->together[i];
    const uint8_t kind = s->graph->kind[node];
    if (stw_node_is_everywhere(kind)) return -1;
    return stw_node_is_resident(kind) && has_one_reader(s, node) ? s->follows[node] : node;
}

/* Without units every set of nodes that are placed together is an atom; with them, every unit is. */
static stw_status number_atoms(const stw_simulator *s, const stw_units *units, stw_arena *arena, stw_balance_model *m,
                               stw_error *error) {
    const stw_graph *graph = s->graph;
    STW_TRY_NEW(arena, m->atom_of, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        m->atom_of[i] = units != NULL ? units->of[i] : leader_of(s, i) == i ? m->A++ : -1;
    }
    if (units != NULL) m->A = units->count;
    for (int32_t i = 0; i < graph->N && units == NULL; i++) {
        const int32_t leader = leader_of(s, i);
        if (leader >= 0) m->atom_of[i] = m->atom_of[leader];
    }
    STW_TRY_NEW(arena, m->node, m->A, error);
    for (int32_t i = graph->N - 1; i >= 0; i--) {
        if (m->atom_of[i] >= 0) m->node[m->atom_of[i]] = i;
    }
    return STW_OK;
}

static stw_status weigh_atoms(const stw_simulator *s, stw_arena *arena, stw_balance_model *m, stw_error *error) {
    const stw_graph *graph = s->graph;
    STW_TRY_NEW(arena, m->work_us, (int64_t)m->A * m->D, error);
    STW_TRY_NEW(arena, m->resident, m->A, error);
    STW_TRY_NEW(arena, m->first_op, m->A, error);
    for (int32_t a = 0; a < m->A; a++) m->first_op[a] = INT32_MAX;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) { /* backwards, so that the first of those that count stays */
        const int32_t op = graph->topological[k], a = m->atom_of[op];
        double most_us = 0.0;
        for (int32_t d = 0; d < m->D; d++) {
            const double us = s->costs->us[s->machine->device[d].cost_class][op];
            m->work_us[(int64_t)a * m->D + d] += us;
            if (us > most_us) most_us = us;
        }
        if (most_us > 0.0 || m->first_op[a] == INT32_MAX) m->first_op[a] = k;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) continue;
        m->resident[m->atom_of[i]] += graph->bytes[i];
        m->resident_sum += graph->bytes[i];
    }
    return STW_OK;
}

/* ---- edges ---- */

typedef struct {
    stw_balance_model *model;
    stw_balance_edge *edge;
    int32_t *reader; /* by place */
    int32_t *mark;   /* (A) the edge in which an atom was last seen, + 1 */
    int32_t count, places;
} edge_list;

static int compare_int32(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

/* The readers of one value through one view: uses first .. last - 1 of graph->reader. */
static void add_edge(edge_list *list, const stw_graph *graph, int32_t value, int64_t first, int64_t last) {
    const stw_balance_model *m = list->model;
    const int32_t producer = m->atom_of[value], view = graph->reader[first].view;
    int64_t bytes = graph->bytes[value];
    if (view >= 0 && graph->bytes[view] < bytes) bytes = graph->bytes[view];
    stw_balance_edge *edge = &list->edge[list->count];
    *edge = (stw_balance_edge){.producer = producer, .reader = list->places, .bytes = (double)bytes, .transfers = 1.0};
    edge->sends = graph->kind[value] == STW_NODE_OP;
    for (int64_t r = first; r < last; r++) {
        const int32_t atom = m->atom_of[graph->reader[r].node];
        if (atom == producer || list->mark[atom] == list->count + 1) continue;
        list->mark[atom] = list->count + 1;
        list->reader[list->places++] = atom;
        edge->reader_count++;
    }
    if (edge->reader_count == 0) return;
    qsort(list->reader + edge->reader, (size_t)edge->reader_count, sizeof *list->reader, compare_int32);
    list->count++;
}

static void list_edges(edge_list *list, const stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (list->model->atom_of[i] < 0 || graph->root[i] != i) continue;
        for (int64_t r = graph->reader_start[i], end; r < graph->reader_start[i + 1]; r = end) {
            end = r + 1;
            while (end < graph->reader_start[i + 1] && graph->reader[end].view == graph->reader[r].view) end++;
            add_edge(list, graph, i, r, end);
        }
    }
}

static uint64_t hash_edge(const edge_list *list, int32_t e) {
    const stw_balance_edge *edge = &list->edge[e];
    uint64_t hash = (uint64_t)edge->producer + 1;
    for (int32_t k = 0; k < edge->reader_count; k++)
        hash = (hash ^ (uint64_t)list->reader[edge->reader + k]) * 0x9fb21c651e98df25u;
    return hash ^ hash >> 29;
}

static bool same_ends(const edge_list *list, int32_t a, int32_t b) {
    const stw_balance_edge *x = &list->edge[a], *y = &list->edge[b];
    return x->producer == y->producer && x->reader_count == y->reader_count &&
           memcmp(list->reader + x->reader, list->reader + y->reader, (size_t)x->reader_count * sizeof *list->reader) == 0;
}

/* Edges with the same ends become one. */
static stw_status merge_edges(edge_list *list, stw_arena scratch, stw_error *error) {
    int32_t kept = 0, same;
    stw_index index;
    TRY(stw_index_create(&scratch, list->count, &index, error));
    for (int32_t e = 0; e < list->count; e++) {
        const uint64_t hash = hash_edge(list, e);
        for (uint32_t step = 0; (same = stw_index_next(&index, hash, &step)) >= 0 && !same_ends(list, same, e);) {
        }
        if (same >= 0) {
            list->edge[same].bytes += list->edge[e].bytes;
            list->edge[same].transfers += list->edge[e].transfers;
            list->edge[same].sends += list->edge[e].sends;
        } else {
            list->edge[kept] = list->edge[e];
            TRY(stw_index_add(&index, hash, kept++, error));
        }
    }
    list->count = kept;
    return STW_OK;
}

static int compare_edges(const void *left, const void *right) {
    const stw_balance_edge *a = left, *b = right;
    if (a->producer != b->producer) return a->producer < b->producer ? -1 : 1;
    return a->reader < b->reader ? -1 : a->reader > b->reader;
}

static stw_status index_edges(stw_balance_model *m, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, m->made_start, (int64_t)m->A + 1, error);
    STW_TRY_NEW(arena, m->read_start, (int64_t)m->A + 2, error);
    int64_t places = 0;
    for (int32_t e = 0; e < m->E; e++) {
        m->made_start[m->edge[e].producer + 1]++;
        places += m->edge[e].reader_count;
        for (int32_t k = 0; k < m->edge[e].reader_count; k++) m->read_start[m->reader_atom[m->edge[e].reader + k] + 2]++;
    }
    STW_TRY_NEW(arena, m->read_edge, places, error);
    for (int32_t a = 0; a < m->A; a++) {
        m->made_start[a + 1] += m->made_start[a];
        m->read_start[a + 2] += m->read_start[a + 1];
    }
    for (int32_t e = 0; e < m->E; e++) {
        for (int32_t k = 0; k < m->edge[e].reader_count; k++)
            m->read_edge[m->read_start[m->reader_atom[m->edge[e].reader + k] + 1]++] = e;
    }
    return STW_OK;
}

static stw_status build_edges(const stw_graph *graph, stw_arena *arena, stw_balance_model *m, stw_error *error) {
    const int64_t uses = graph->reader_start[graph->N];
    edge_list list = {.model = m};
    STW_TRY_NEW(arena, list.edge, uses + 1, error);
    STW_TRY_NEW(arena, list.reader, uses + 1, error);
    STW_TRY_NEW(arena, list.mark, m->A, error);
    list_edges(&list, graph);
    TRY(merge_edges(&list, *arena, error));
    if (list.count > 1) qsort(list.edge, (size_t)list.count, sizeof *list.edge, compare_edges);
    m->edge = list.edge;
    m->reader_atom = list.reader;
    m->E = list.count;
    return index_edges(m, arena, error);
}

/* ---- hops ---- */

static stw_balance_hop hop_of(const stw_link *link) {
    if (link->bandwidth <= 0.0) return (stw_balance_hop){0};
    return (stw_balance_hop){1e6 / link->bandwidth, link->latency_us, link->rates != NULL ? link : NULL,
                             link->send_us,         link->receive_us, true};
}

/* The fastest hop between a device and any other, for estimates that do not know the other end yet. */
static stw_balance_hop fastest_hop(const stw_balance_model *m, int32_t d, bool up) {
    stw_balance_hop best = {0};
    for (int32_t other = 0; other < m->D; other++) {
        const stw_balance_hop *hop = up ? &m->link[d * m->D + other] : &m->link[other * m->D + d];
        if (other == d || !hop->possible) continue;
        if (!best.possible || hop->us_per_byte < best.us_per_byte) best = *hop;
    }
    return best;
}

static stw_status build_hops(const stw_machine *machine, stw_arena *arena, stw_balance_model *m, stw_error *error) {
    STW_TRY_NEW(arena, m->link, (int64_t)m->D * m->D, error);
    STW_TRY_NEW(arena, m->up, m->D, error);
    STW_TRY_NEW(arena, m->down, m->D, error);
    STW_TRY_NEW(arena, m->memory, m->D, error);
    m->host = machine->host;
    for (int32_t i = 0; i < m->D * m->D; i++) m->link[i] = hop_of(&machine->link[i]);
    for (int32_t d = 0; d < m->D; d++) {
        m->memory[d] = machine->device[d].memory_bytes;
        m->up[d] = m->host < 0 ? fastest_hop(m, d, true) : d == m->host ? (stw_balance_hop){0} : m->link[d * m->D + m->host];
        m->down[d] = m->host < 0 ? fastest_hop(m, d, false) : d == m->host ? (stw_balance_hop){0} : m->link[m->host * m->D + d];
    }
    return STW_OK;
}

stw_status stw_balance_model_build(const stw_simulator *s, const stw_units *units, stw_arena *arena, stw_balance_model *out,
                                   stw_error *error) {
    *out = (stw_balance_model){.D = s->machine->device_count, .resident_sum = 1};
    TRY(number_atoms(s, units, arena, out, error));
    TRY(weigh_atoms(s, arena, out, error));
    TRY(build_edges(s->graph, arena, out, error));
    return build_hops(s->machine, arena, out, error);
}

/* ---- a placement with its loads ---- */

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
    s->load[from] += sign * edge->sends * link->send_us; /* those of the direct link, also with a host */
    s->load[to] += sign * edge->transfers * link->receive_us;
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
