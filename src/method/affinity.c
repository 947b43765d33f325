#include "method/affinity.h"

#include <stdlib.h>
#include <string.h>

/* Heavy-edge matching, again and again: each cluster is joined with the neighbour with which it exchanges most, for its size. */

typedef struct {
    int32_t a, b; /* clusters, a < b */
    double us;    /* what it costs to send all that passes between them */
} edge;

typedef struct {
    int32_t count;   /* clusters now */
    double *work_us; /* (count) */
    int64_t edge_count;
    edge *edge;
    int32_t *of; /* (N) cluster of each node, -1: none */
} clusters;

static double mean_us_per_byte(const stw_machine *machine) {
    double sum = 0.0;
    int32_t links = 0;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        if (machine->link[k].bandwidth <= 0.0) continue;
        sum += 1e6 / machine->link[k].bandwidth;
        links++;
    }
    return links == 0 ? 0.0 : sum / links;
}

static double mean_latency_us(const stw_machine *machine) {
    double sum = 0.0;
    int32_t links = 0;
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        if (machine->link[k].bandwidth <= 0.0) continue;
        sum += machine->link[k].latency_us;
        links++;
    }
    return links == 0 ? 0.0 : sum / links;
}

static int by_pair(const void *left, const void *right) {
    const edge *x = left, *y = right;
    if (x->a != y->a) return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

/* One edge per pair. */
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

static stw_status list_edges(const stw_simulator *s, const stw_units *atoms, stw_arena *arena, clusters *c, stw_error *error) {
    const stw_graph *graph = s->graph;
    const double per_byte = mean_us_per_byte(s->machine), latency = mean_latency_us(s->machine);
    STW_TRY_NEW(arena, c->edge, graph->reader_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (atoms->of[i] < 0 || graph->kind[i] == STW_NODE_VIEW) continue;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            const int32_t a = atoms->of[i], b = atoms->of[graph->reader[r].node];
            if (a == b) continue;
            const int32_t view = graph->reader[r].view;
            const int64_t bytes = view >= 0 && graph->bytes[view] < graph->bytes[i] ? graph->bytes[view] : graph->bytes[i];
            c->edge[c->edge_count++] = (edge){a < b ? a : b, a < b ? b : a, latency + (double)bytes * per_byte};
        }
    }
    merge_edges(c);
    return STW_OK;
}

/* Joins pairs until `wanted` are left or nobody finds a partner below `cap_us`; small clusters choose first. */
static stw_status match(clusters *c, int32_t wanted, double cap_us, stw_arena scratch, bool *progress, stw_error *error) {
    int32_t *partner, *number, *start, *next, *neighbour;
    double *weight;
    STW_TRY_NEW(&scratch, partner, c->count, error);
    STW_TRY_NEW(&scratch, number, c->count, error);
    STW_TRY_NEW(&scratch, start, (int64_t)c->count + 2, error);
    STW_TRY_NEW(&scratch, next, c->count, error);
    STW_TRY_NEW(&scratch, neighbour, 2 * c->edge_count, error);
    STW_TRY_NEW(&scratch, weight, 2 * c->edge_count, error);
    for (int64_t k = 0; k < c->edge_count; k++) {
        start[c->edge[k].a + 1]++;
        start[c->edge[k].b + 1]++;
    }
    for (int32_t u = 0; u < c->count; u++) {
        start[u + 1] += start[u];
        next[u] = start[u];
        partner[u] = -1;
    }
    for (int64_t k = 0; k < c->edge_count; k++) {
        const edge *e = &c->edge[k];
        neighbour[next[e->a]] = e->b;
        weight[next[e->a]++] = e->us;
        neighbour[next[e->b]] = e->a;
        weight[next[e->b]++] = e->us;
    }
    int32_t left = c->count;
    for (int32_t u = 0; u < c->count && left > wanted; u++) {
        if (partner[u] >= 0) continue;
        int32_t best = -1;
        double most = 0.0;
        for (int32_t k = start[u]; k < start[u + 1]; k++) {
            const int32_t v = neighbour[k];
            if (partner[v] >= 0 || c->work_us[u] + c->work_us[v] > cap_us) continue;
            const double worth = weight[k] / (1e-3 + c->work_us[v]);
            if (best >= 0 && worth <= most) continue;
            best = v;
            most = worth;
        }
        if (best < 0) continue;
        partner[u] = best;
        partner[best] = u;
        left--;
    }
    *progress = left < c->count;
    int32_t count = 0;
    for (int32_t u = 0; u < c->count; u++) number[u] = partner[u] >= 0 && partner[u] < u ? number[partner[u]] : count++;
    double *work_us;
    STW_TRY_NEW(&scratch, work_us, count, error);
    for (int32_t u = 0; u < c->count; u++) work_us[number[u]] += c->work_us[u];
    memcpy(c->work_us, work_us, (size_t)count * sizeof *work_us);
    int64_t kept = 0;
    for (int64_t k = 0; k < c->edge_count; k++) {
        const int32_t a = number[c->edge[k].a], b = number[c->edge[k].b];
        if (a != b) c->edge[kept++] = (edge){a < b ? a : b, a < b ? b : a, c->edge[k].us};
    }
    c->edge_count = kept;
    c->count = count;
    merge_edges(c);
    for (int32_t i = 0; c->of[i] != -2; i++) {
        if (c->of[i] >= 0) c->of[i] = number[c->of[i]];
    }
    return STW_OK;
}

/* Writes the clusters down as a level. */
static stw_status add_level(const clusters *c, const stw_units *atoms, int32_t N, stw_arena *arena, stw_units *out,
                            stw_error *error) {
    out->count = c->count;
    STW_TRY_NEW(arena, out->of, N, error);
    STW_TRY_NEW(arena, out->start, (int64_t)c->count + 2, error);
    STW_TRY_NEW(arena, out->member, atoms->start[atoms->count], error);
    memcpy(out->of, c->of, (size_t)N * sizeof *out->of);
    for (int32_t m = 0; m < atoms->start[atoms->count]; m++) out->start[c->of[atoms->member[m]] + 2]++;
    for (int32_t u = 0; u < c->count; u++) out->start[u + 2] += out->start[u + 1];
    for (int32_t i = 0; i < N; i++) { /* ascending */
        if (c->of[i] < 0) continue;
        out->of[i] = c->of[i];
    }
    for (int32_t m = 0; m < atoms->start[atoms->count]; m++) {
        const int32_t node = atoms->member[m];
        out->member[out->start[c->of[node] + 1]++] = node;
    }
    return STW_OK;
}

stw_status stw_affinity_build(const stw_simulator *s, const stw_units *atoms, const int32_t *wanted, int32_t wanted_count,
                              stw_arena *arena, stw_unit_levels *out, stw_error *error) {
    const int32_t N = s->graph->N;
    clusters c = {.count = atoms->count};
    stw_arena work;
    TRY(stw_arena_create(&work, error));
    stw_status status = STW_OK;
    double total_us = 0.0;
    c.work_us = STW_NEW(&work, double, atoms->count + 1);
    c.of = STW_NEW(&work, int32_t, (int64_t)N + 1);
    if (c.of == NULL || c.work_us == NULL) status = stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    if (status == STW_OK) {
        memcpy(c.of, atoms->of, (size_t)N * sizeof *c.of);
        c.of[N] = -2;
        for (int32_t i = 0; i < N; i++) {
            if (c.of[i] >= 0) c.work_us[c.of[i]] += s->costs->us[0][i];
            total_us += s->costs->us[0][i];
        }
        status = list_edges(s, atoms, &work, &c, error);
    }
    out->count = 1;
    out->level[0] = *atoms;
    for (int32_t k = 0; k < wanted_count && status == STW_OK && out->count < STW_MAX_UNIT_LEVELS; k++) {
        bool progress = true;
        const int32_t before = c.count;
        while (status == STW_OK && progress && c.count > wanted[k])
            status = match(&c, wanted[k], 4.0 * total_us / wanted[k], work, &progress, error);
        if (status == STW_OK && c.count < before) status = add_level(&c, atoms, N, arena, &out->level[out->count++], error);
    }
    stw_arena_destroy(&work);
    return status;
}
