#include "graph/ordering.h"

#include <stdlib.h>

typedef struct {
    int32_t from, to;
    int64_t next_out, next_in; /* next edge with the same `from` / the same `to`; -1 at the end */
} edge;

struct stw_ordering {
    edge *edges;
    int64_t edge_count;
    int64_t *first_out, *first_in; /* (N) edge index or -1 */
    int32_t *position;             /* (N) place of a node in the order */
    bool *seen;                    /* (N) all false between calls */
    int32_t *after, *before;       /* (N) nodes found behind `to` / before `from` */
    int32_t *place;                /* (2N) positions to be dealt out again */
    int32_t (*pair)[2];            /* (N) (position, node) */
};

stw_status stw_ordering_create(int32_t N, int64_t capacity, stw_arena *arena, stw_ordering **out, stw_error *error) {
    stw_ordering *o;
    STW_TRY_NEW(arena, o, 1, error);
    STW_TRY_NEW(arena, o->edges, capacity, error);
    STW_TRY_NEW(arena, o->first_out, N, error);
    STW_TRY_NEW(arena, o->first_in, N, error);
    STW_TRY_NEW(arena, o->position, N, error);
    STW_TRY_NEW(arena, o->seen, N, error);
    STW_TRY_NEW(arena, o->after, N, error);
    STW_TRY_NEW(arena, o->before, N, error);
    STW_TRY_NEW(arena, o->place, 2 * (int64_t)N, error);
    STW_TRY_NEW(arena, o->pair, N, error);
    for (int32_t i = 0; i < N; i++) {
        o->first_out[i] = o->first_in[i] = -1;
        o->position[i] = i;
    }
    *out = o;
    return STW_OK;
}

static void insert(stw_ordering *o, int32_t from, int32_t to) {
    const int64_t e = o->edge_count++;
    o->edges[e] = (edge){from, to, o->first_out[from], o->first_in[to]};
    o->first_out[from] = o->first_in[to] = e;
}

/* Nodes reachable from `start` that lie at or before `limit`; the list serves as its own work queue. */
static int32_t collect_after(stw_ordering *o, int32_t start, int32_t limit) {
    int32_t count = 0;
    o->after[count++] = start;
    o->seen[start] = true;
    for (int32_t k = 0; k < count; k++) {
        for (int64_t e = o->first_out[o->after[k]]; e >= 0; e = o->edges[e].next_out) {
            const int32_t node = o->edges[e].to;
            if (o->seen[node] || o->position[node] > limit) continue;
            o->seen[node] = true;
            o->after[count++] = node;
        }
    }
    return count;
}

static int32_t collect_before(stw_ordering *o, int32_t start, int32_t limit) {
    int32_t count = 0;
    o->before[count++] = start;
    o->seen[start] = true;
    for (int32_t k = 0; k < count; k++) {
        for (int64_t e = o->first_in[o->before[k]]; e >= 0; e = o->edges[e].next_in) {
            const int32_t node = o->edges[e].from;
            if (o->seen[node] || o->position[node] < limit) continue;
            o->seen[node] = true;
            o->before[count++] = node;
        }
    }
    return count;
}

static int compare_ids(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

static void sort_by_position(stw_ordering *o, int32_t *nodes, int32_t count) {
    for (int32_t k = 0; k < count; k++) {
        o->pair[k][0] = o->position[nodes[k]];
        o->pair[k][1] = nodes[k];
    }
    qsort(o->pair, (size_t)count, sizeof *o->pair, compare_ids); /* compares the first of each pair, the position */
    for (int32_t k = 0; k < count; k++) nodes[k] = o->pair[k][1];
}

/* Puts the nodes before `from` ahead of those behind `to`, each list in its old order, on the positions they hold together. */
static void reorder(stw_ordering *o, int32_t before_count, int32_t after_count) {
    sort_by_position(o, o->before, before_count);
    sort_by_position(o, o->after, after_count);
    int32_t count = 0;
    for (int32_t k = 0; k < before_count; k++) o->place[count++] = o->position[o->before[k]];
    for (int32_t k = 0; k < after_count; k++) o->place[count++] = o->position[o->after[k]];
    qsort(o->place, (size_t)count, sizeof *o->place, compare_ids);
    count = 0;
    for (int32_t k = 0; k < before_count; k++) o->position[o->before[k]] = o->place[count++];
    for (int32_t k = 0; k < after_count; k++) o->position[o->after[k]] = o->place[count++];
}

bool stw_ordering_add(stw_ordering *o, int32_t from, int32_t to) {
    if (from == to) return false;
    if (o->position[from] > o->position[to]) {
        const int32_t after_count = collect_after(o, to, o->position[from]);
        const bool cycle = o->seen[from];
        const int32_t before_count = cycle ? 0 : collect_before(o, from, o->position[to]);
        for (int32_t k = 0; k < after_count; k++) o->seen[o->after[k]] = false;
        for (int32_t k = 0; k < before_count; k++) o->seen[o->before[k]] = false;
        if (cycle) return false;
        reorder(o, before_count, after_count);
    }
    insert(o, from, to);
    return true;
}
