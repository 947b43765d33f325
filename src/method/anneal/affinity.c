#include "method/anneal/affinity.h"

#include <stdlib.h>
#include <string.h>

#include "machine/link_mean.h"

/* Heavy-edge matching, again and again: each cluster is joined with the neighbour with which it exchanges most, for its size. */

static const double MOST_WORK = 4.0; /* of a cluster, as a multiple of the mean that is wanted */
static const double LEAST_US = 1e-3; /* clusters without work count as so large, since worth is by size */

typedef struct {
    int32_t a, b; /* clusters, a < b */
    double us;    /* what it costs to send all that passes between them */
} edge;

typedef struct {
    int32_t count;   /* M clusters now */
    double *work_us; /* (M) */
    int64_t edge_count;
    edge *edge;         /* one per pair, by a, then b */
    int32_t atom_count; /* A */
    int32_t *of;        /* (A) cluster of each atom */
} clusters;

/* ---- edges ---- */

static int by_pair(const void *left, const void *right) {
    const edge *x = left, *y = right;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

static void merge_edges(clusters *c) {
    int64_t kept = 0;
    if (c->edge_count > 1) qsort(c->edge, (size_t)c->edge_count, sizeof *c->edge, by_pair);
    for (int64_t k = 0; k < c->edge_count; k++) {
        if (kept > 0 && by_pair(&c->edge[kept - 1], &c->edge[k]) == 0) {
            c->edge[kept - 1].us += c->edge[k].us;
        } else {
            c->edge[kept++] = c->edge[k];
        }
    }
    c->edge_count = kept;
}

static void add_edge(clusters *c, int32_t a, int32_t b, double us) {
    if (a != b) c->edge[c->edge_count++] = (edge){a < b ? a : b, a < b ? b : a, us};
}

static stw_status list_edges(const stw_simulator *s, const stw_units *atoms, clusters *c, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = s->graph;
    const stw_link_mean link = stw_machine_mean_link(s->machine);
    STW_TRY_NEW(arena, c->edge, graph->reader_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (atoms->of[i] < 0) continue;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            const int32_t view = graph->reader[r].view;
            const int64_t whole = graph->bytes[i], part = view < 0 ? whole : graph->bytes[view];
            const double bytes = (double)(part < whole ? part : whole);
            add_edge(c, atoms->of[i], atoms->of[graph->reader[r].node], stw_link_mean_us(&link, bytes));
        }
    }
    merge_edges(c);
    return STW_OK;
}

/* ---- matching ---- */

typedef struct {    /* the edges of each cluster */
    int64_t *start; /* (M + 1) into other and us */
    int32_t *other;
    double *us;
} neighbours;

static stw_status list_neighbours(const clusters *c, stw_arena *arena, neighbours *out, stw_error *error) {
    int64_t *start;
    STW_TRY_NEW(arena, start, (int64_t)c->count + 2, error);
    STW_TRY_NEW(arena, out->other, 2 * c->edge_count, error);
    STW_TRY_NEW(arena, out->us, 2 * c->edge_count, error);
    for (int64_t k = 0; k < c->edge_count; k++) {
        start[c->edge[k].a + 2]++;
        start[c->edge[k].b + 2]++;
    }
    for (int32_t u = 0; u < c->count; u++) start[u + 2] += start[u + 1];
    for (int64_t k = 0; k < c->edge_count; k++) { /* start[u + 1] moves from the begin of u to its end */
        const edge *e = &c->edge[k];
        const int64_t at_a = start[e->a + 1]++, at_b = start[e->b + 1]++;
        out->other[at_a] = e->b;
        out->other[at_b] = e->a;
        out->us[at_a] = out->us[at_b] = e->us;
    }
    out->start = start;
    return STW_OK;
}

/* Of the neighbours that are free and not too large: the one that is worth most for its size; -1: none. */
static int32_t best_partner(const clusters *c, const neighbours *n, const int32_t *partner, int32_t u, double cap_us) {
    int32_t best = -1;
    double most = 0.0;
    for (int64_t k = n->start[u]; k < n->start[u + 1]; k++) {
        const int32_t v = n->other[k];
        if (partner[v] >= 0 || c->work_us[u] + c->work_us[v] > cap_us) continue;
        const double worth = n->us[k] / (LEAST_US + c->work_us[v]);
        if (best >= 0 && worth <= most) continue;
        best = v;
        most = worth;
    }
    return best;
}

/* Finds pairs until `wanted` clusters would be left. partner: (M) -1 for those that stay alone. Clusters choose in the order of
 * the graph; when small ones chose first, less of what is exchanged stayed inside clusters. */
static stw_status find_pairs(const clusters *c, int32_t wanted, double cap_us, int32_t *partner, int32_t *pairs,
                             stw_arena scratch, stw_error *error) {
    neighbours n = {0};
    TRY(list_neighbours(c, &scratch, &n, error));
    *pairs = 0;
    for (int32_t u = 0; u < c->count; u++) partner[u] = -1;
    for (int32_t u = 0; u < c->count && c->count - *pairs > wanted; u++) {
        const int32_t v = partner[u] >= 0 ? -1 : best_partner(c, &n, partner, u, cap_us);
        if (v < 0) continue;
        partner[u] = v;
        partner[v] = u;
        (*pairs)++;
    }
    return STW_OK;
}

/* Numbers the clusters anew, by their smallest atom; `number` (M) is scratch. */
static void join_pairs(clusters *c, const int32_t *partner, int32_t *number) {
    int32_t count = 0;
    for (int32_t u = 0; u < c->count; u++) {
        if (partner[u] >= 0 && partner[u] < u) {
            number[u] = number[partner[u]];
            c->work_us[number[u]] += c->work_us[u];
        } else {
            number[u] = count++;
            c->work_us[number[u]] = c->work_us[u]; /* number[u] <= u */
        }
    }
    c->count = count;
    for (int32_t atom = 0; atom < c->atom_count; atom++) c->of[atom] = number[c->of[atom]];
    const int64_t edges = c->edge_count;
    c->edge_count = 0;
    for (int64_t k = 0; k < edges; k++) add_edge(c, number[c->edge[k].a], number[c->edge[k].b], c->edge[k].us);
    merge_edges(c);
}

/* Joins pairs until `wanted` clusters are left, or nobody finds a partner. */
static stw_status coarsen(clusters *c, int32_t wanted, double cap_us, stw_arena scratch, stw_error *error) {
    int32_t *partner, *number, pairs = 1;
    STW_TRY_NEW(&scratch, partner, c->count, error);
    STW_TRY_NEW(&scratch, number, c->count, error);
    while (pairs > 0 && c->count > wanted) {
        TRY(find_pairs(c, wanted, cap_us, partner, &pairs, scratch, error));
        if (pairs > 0) join_pairs(c, partner, number);
    }
    return STW_OK;
}

/* ---- levels ---- */

/* Writes the clusters down as the level after `finer`. */
static stw_status add_level(const clusters *c, const stw_graph *graph, const stw_units *atoms, stw_units *finer, stw_arena *arena,
                            stw_units *out, stw_error *error) {
    out->count = c->count;
    out->parent = NULL;
    STW_TRY_NEW(arena, out->of, graph->N, error);
    STW_TRY_NEW(arena, out->start, (int64_t)c->count + 2, error);
    STW_TRY_NEW(arena, out->member, atoms->start[atoms->count], error);
    STW_TRY_NEW(arena, finer->parent, finer->count, error);
    for (int32_t atom = 0; atom < atoms->count; atom++)
        out->start[c->of[atom] + 2] += atoms->start[atom + 1] - atoms->start[atom];
    for (int32_t u = 0; u < c->count; u++) out->start[u + 2] += out->start[u + 1];
    for (int32_t i = 0; i < graph->N; i++) {
        out->of[i] = atoms->of[i] < 0 ? -1 : c->of[atoms->of[i]];
        if (out->of[i] < 0 || graph->kind[i] == STW_NODE_VIEW) continue;
        out->member[out->start[out->of[i] + 1]++] = i;
        finer->parent[finer->of[i]] = out->of[i];
    }
    return STW_OK;
}

static stw_status build(const stw_simulator *s, const stw_units *atoms, const int32_t *wanted, int32_t wanted_count,
                        stw_arena work, stw_arena *arena, stw_unit_levels *out, stw_error *error) {
    const stw_graph *graph = s->graph;
    clusters c = {.count = atoms->count, .atom_count = atoms->count};
    double total_us = 0.0;
    STW_TRY_NEW(&work, c.of, atoms->count, error);
    STW_TRY_NEW(&work, c.work_us, atoms->count, error);
    for (int32_t atom = 0; atom < atoms->count; atom++) c.of[atom] = atom;
    for (int32_t i = 0; i < graph->N; i++) {
        if (atoms->of[i] >= 0) c.work_us[atoms->of[i]] += s->costs->least_us[i];
        total_us += s->costs->least_us[i];
    }
    TRY(list_edges(s, atoms, &c, &work, error));
    for (int32_t k = 0; k < wanted_count && out->count < STW_MAX_UNIT_LEVELS; k++) {
        stw_units *finer = &out->level[out->count - 1];
        TRY(coarsen(&c, wanted[k], MOST_WORK * total_us / wanted[k], work, error));
        if (c.count < finer->count) TRY(add_level(&c, graph, atoms, finer, arena, &out->level[out->count++], error));
    }
    return STW_OK;
}

stw_status stw_affinity_build(const stw_simulator *s, const stw_units *atoms, const int32_t *wanted, int32_t wanted_count,
                              stw_arena *arena, stw_unit_levels *out, stw_error *error) {
    stw_arena work; /* what is kept grows in `arena` meanwhile */
    out->count = 1;
    out->level[0] = *atoms;
    out->level[0].parent = NULL; /* that of the given atoms is another hierarchy's */
    TRY(stw_arena_create(&work, error));
    const stw_status status = build(s, atoms, wanted, wanted_count, work, arena, out, error);
    stw_arena_destroy(&work);
    return status;
}
