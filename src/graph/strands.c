#include "graph/strands.h"

#include <string.h>

#include "base/union_find.h"

static const double FIRST_SHARE = 1.0 / 16, LAST_SHARE = 4.0; /* of the mean time of a strand: how far they grow */

typedef struct {
    const stw_graph *graph;
    int64_t *waiter_start; /* (N + 1) into waiter: who waits for an op; the reverse of the graph's waits */
    int32_t *waiter;
    int32_t *leader;      /* (N) of ops that are in one strand */
    int32_t *next, *last; /* (N) members as a chain from the leader on; -1: its end. last: by leader */
    double *us;           /* (N) by leader */
    int32_t *order;       /* (ops) leaders in topological order, as of the last time they were put in order */
    int32_t ordered;
    int32_t *cursor; /* (N) by leader: the member whose sources are being looked at; -2: not begun; -1: done */
    int32_t *stack;  /* (ops) */
    int32_t count;   /* of strands */
} strander;

/* ---- what is next to a strand ---- */

typedef struct {
    int32_t leader; /* of the only neighbour so far; -1: none */
    bool several;
} neighbours;

static void meet(strander *c, int32_t own, int32_t op, neighbours *n) {
    if (c->graph->kind[op] != STW_NODE_OP) return;
    const int32_t other = stw_sets_find(c->leader, op);
    if (other == own) return;
    n->several |= n->leader >= 0 && n->leader != other;
    n->leader = other;
}

static neighbours sources_of(strander *c, int32_t own) {
    const stw_graph *g = c->graph;
    neighbours n = {.leader = -1};
    for (int32_t i = own; i >= 0 && !n.several; i = c->next[i]) {
        for (int64_t k = g->read_start[i]; k < g->read_start[i + 1]; k++) meet(c, own, g->read[k].node, &n);
        for (int64_t k = g->wait_start[i]; k < g->wait_start[i + 1]; k++) meet(c, own, g->wait[k], &n);
    }
    return n;
}

static neighbours readers_of(strander *c, int32_t own) {
    const stw_graph *g = c->graph;
    neighbours n = {.leader = -1};
    for (int32_t i = own; i >= 0 && !n.several; i = c->next[i]) {
        for (int64_t k = g->reader_start[i]; k < g->reader_start[i + 1]; k++) meet(c, own, g->reader[k].node, &n);
        for (int64_t k = c->waiter_start[i]; k < c->waiter_start[i + 1]; k++) meet(c, own, c->waiter[k], &n);
    }
    return n;
}

/* ---- the order of strands ---- */

/* A source of the strand that has no place yet, or -1. */
static int32_t next_source(strander *c, int32_t own) {
    const stw_graph *g = c->graph;
    if (c->cursor[own] == -2) c->cursor[own] = own;
    for (; c->cursor[own] >= 0; c->cursor[own] = c->next[c->cursor[own]]) {
        const int32_t i = c->cursor[own];
        const int64_t reads = g->read_start[i + 1] - g->read_start[i], all = reads + g->wait_start[i + 1] - g->wait_start[i];
        for (int64_t k = 0; k < all; k++) {
            const int32_t op = k < reads ? g->read[g->read_start[i] + k].node : g->wait[g->wait_start[i] + k - reads];
            if (g->kind[op] != STW_NODE_OP) continue;
            const int32_t other = stw_sets_find(c->leader, op);
            if (other != own && c->cursor[other] == -2) return other;
        }
    }
    return -1;
}

/* As the program has them, but each behind its sources. */
static void put_in_order(strander *c) {
    const stw_graph *g = c->graph;
    c->ordered = 0;
    for (int32_t k = 0; k < g->op_count; k++) c->cursor[g->topological[k]] = -2;
    for (int32_t k = 0; k < g->op_count; k++) {
        int32_t depth = 0;
        const int32_t first = stw_sets_find(c->leader, g->topological[k]);
        if (c->cursor[first] == -2) c->stack[depth++] = first;
        while (depth > 0) {
            const int32_t own = c->stack[depth - 1], source = next_source(c, own);
            if (source >= 0) {
                c->stack[depth++] = source;
            } else {
                c->order[c->ordered++] = own;
                depth--;
            }
        }
    }
}

/* ---- growing ---- */

/* `second` runs right after `first`, or the other way round. */
static void join(strander *c, int32_t first, int32_t second) {
    stw_sets_join(c->leader, first, second);
    const int32_t leader = stw_sets_find(c->leader, first), other = leader == first ? second : first;
    c->next[c->last[leader]] = other;
    c->last[leader] = c->last[other];
    c->us[leader] += c->us[other];
    c->count--;
}

static void grow(strander *c, double most_us, int32_t most) {
    for (int32_t k = 0; k < c->ordered && c->count > most; k++) {
        const int32_t own = c->order[k];
        if (c->leader[own] != own) continue;
        const neighbours sources = sources_of(c, own);
        const bool follows = sources.leader >= 0 && !sources.several;
        if (follows && c->us[sources.leader] + c->us[own] <= most_us) join(c, sources.leader, own);
    }
    for (int32_t k = c->ordered - 1; k >= 0 && c->count > most; k--) {
        const int32_t own = c->order[k];
        if (c->leader[own] != own) continue;
        const neighbours readers = readers_of(c, own);
        const bool leads = readers.leader >= 0 && !readers.several;
        if (leads && c->us[readers.leader] + c->us[own] <= most_us) join(c, own, readers.leader);
    }
}

/* ---- the whole ---- */

static stw_status list_waiters(strander *c, stw_arena *arena, stw_error *error) {
    const stw_graph *g = c->graph;
    const int64_t waits = g->wait_start[g->N];
    STW_TRY_NEW(arena, c->waiter_start, (int64_t)g->N + 2, error);
    STW_TRY_NEW(arena, c->waiter, waits, error);
    int64_t *next = c->waiter_start + 1; /* counted one place ahead, so that filling leaves the starts right */
    for (int64_t k = 0; k < waits; k++) next[g->wait[k] + 1]++;
    for (int32_t i = 0; i < g->N; i++) next[i + 1] += next[i];
    for (int32_t i = 0; i < g->N; i++) {
        for (int64_t k = g->wait_start[i]; k < g->wait_start[i + 1]; k++) c->waiter[next[g->wait[k]]++] = i;
    }
    return STW_OK;
}

static stw_status begin(strander *c, const double *us, stw_arena *scratch, stw_error *error) {
    const stw_graph *g = c->graph;
    STW_TRY_NEW(scratch, c->leader, g->N, error);
    STW_TRY_NEW(scratch, c->next, g->N, error);
    STW_TRY_NEW(scratch, c->last, g->N, error);
    STW_TRY_NEW(scratch, c->us, g->N, error);
    STW_TRY_NEW(scratch, c->cursor, g->N, error);
    STW_TRY_NEW(scratch, c->order, g->op_count, error);
    STW_TRY_NEW(scratch, c->stack, g->op_count, error);
    stw_sets_begin(c->leader, g->N);
    for (int32_t i = 0; i < g->N; i++) {
        c->next[i] = -1;
        c->last[i] = i;
        c->us[i] = g->kind[i] == STW_NODE_OP ? us[i] : 0.0;
    }
    c->count = g->op_count;
    return list_waiters(c, scratch, error);
}

static stw_status take(strander *c, stw_arena *arena, stw_strands *out, stw_error *error) {
    const stw_graph *g = c->graph;
    out->count = c->ordered;
    STW_TRY_NEW(arena, out->of, g->N, error);
    STW_TRY_NEW(arena, out->start, (int64_t)out->count + 2, error);
    STW_TRY_NEW(arena, out->member, g->op_count, error);
    for (int32_t k = 0; k < out->count; k++) c->cursor[c->order[k]] = k;
    for (int32_t i = 0; i < g->N; i++) out->of[i] = g->kind[i] == STW_NODE_OP ? c->cursor[stw_sets_find(c->leader, i)] : -1;
    int32_t *next = out->start + 1; /* counted one place ahead, so that filling leaves the starts right */
    for (int32_t k = 0; k < g->op_count; k++) next[out->of[g->topological[k]] + 1]++;
    for (int32_t k = 0; k < out->count; k++) next[k + 1] += next[k];
    for (int32_t k = 0; k < g->op_count; k++) out->member[next[out->of[g->topological[k]]]++] = g->topological[k];
    return STW_OK;
}

stw_status stw_strands_build(const stw_graph *graph, const double *us, int32_t most, stw_arena *arena, stw_strands *out,
                             stw_error *error) {
    stw_arena scratch;
    double all = 0.0;
    strander c = {.graph = graph};
    TRY(stw_arena_create(&scratch, error));
    stw_status status = begin(&c, us, &scratch, error);
    if (status == STW_OK) {
        for (int32_t k = 0; k < graph->op_count; k++) all += us[graph->topological[k]];
        put_in_order(&c);
        for (double share = FIRST_SHARE; share <= LAST_SHARE && c.count > most; share *= 2.0) {
            int32_t before;
            do {
                before = c.count;
                grow(&c, share * all / most, most);
                put_in_order(&c);
            } while (c.count > most && c.count < before);
        }
        status = take(&c, arena, out, error);
    }
    stw_arena_destroy(&scratch);
    return status;
}
