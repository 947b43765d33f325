#include "graph/acyclic.h"

typedef struct {
    int32_t from, to;
    int64_t next_out, next_in; /* next edge with the same `from` / the same `to`; -1 at the end */
} edge;

/* One side of a search: the nodes found, which serve as their own work queue. */
typedef struct {
    int32_t *found;
    int32_t count, done;
} side;

struct stw_acyclic {
    edge *edges;
    int64_t edge_count;
    int64_t *first_out, *first_in; /* (N) edge index or -1 */
    int8_t *seen;                  /* (N) 0, or the side that found the node: 1 after, 2 before; all 0 between calls */
    side after, before;            /* what `to` reaches; what reaches `from` */
};

stw_status stw_acyclic_create(int32_t N, int64_t capacity, stw_arena *arena, stw_acyclic **out, stw_error *error) {
    stw_acyclic *a;
    STW_TRY_NEW(arena, a, 1, error);
    STW_TRY_NEW(arena, a->edges, capacity, error);
    STW_TRY_NEW(arena, a->first_out, N, error);
    STW_TRY_NEW(arena, a->first_in, N, error);
    STW_TRY_NEW(arena, a->seen, N, error);
    STW_TRY_NEW(arena, a->after.found, N, error);
    STW_TRY_NEW(arena, a->before.found, N, error);
    for (int32_t i = 0; i < N; i++) a->first_out[i] = a->first_in[i] = -1;
    *out = a;
    return STW_OK;
}

void stw_acyclic_add_unchecked(stw_acyclic *a, int32_t from, int32_t to) {
    const int64_t e = a->edge_count++;
    a->edges[e] = (edge){from, to, a->first_out[from], a->first_in[to]};
    a->first_out[from] = a->first_in[to] = e;
}

/* True if the other side has the node already: the two have met. */
static bool find(stw_acyclic *a, side *s, int8_t mark, int32_t node) {
    if (a->seen[node] == mark) return false;
    if (a->seen[node] != 0) return true;
    a->seen[node] = mark;
    s->found[s->count++] = node;
    return false;
}

/* Takes one node further; true if the sides meet. */
static bool expand_after(stw_acyclic *a) {
    for (int64_t e = a->first_out[a->after.found[a->after.done++]]; e >= 0; e = a->edges[e].next_out) {
        if (find(a, &a->after, 1, a->edges[e].to)) return true;
    }
    return false;
}

static bool expand_before(stw_acyclic *a) {
    for (int64_t e = a->first_in[a->before.found[a->before.done++]]; e >= 0; e = a->edges[e].next_in) {
        if (find(a, &a->before, 2, a->edges[e].from)) return true;
    }
    return false;
}

static void forget(stw_acyclic *a, side *s) {
    for (int32_t k = 0; k < s->count; k++) a->seen[s->found[k]] = 0;
    s->count = s->done = 0;
}

bool stw_acyclic_add(stw_acyclic *a, int32_t from, int32_t to) {
    if (from == to) return false;
    (void)find(a, &a->after, 1, to);
    (void)find(a, &a->before, 2, from);
    bool met = false;
    while (!met && a->after.done < a->after.count && a->before.done < a->before.count) met = expand_after(a) || expand_before(a);
    forget(a, &a->after);
    forget(a, &a->before);
    if (!met) stw_acyclic_add_unchecked(a, from, to);
    return !met;
}
