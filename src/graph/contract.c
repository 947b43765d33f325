/* How units are merged.
 *
 * Units are numbered in a topological order. An edge u -> v may be contracted if no other path leads from u to v; such a path
 * could only pass units that stand between the two in the order, so the search is short where the order is local, and it is
 * given up where it is not. After a merge the units between are rearranged (what follows u comes after the pair, the rest
 * before it), so the order stays topological and the next question is as cheap. Within one pass the heaviest edges, in bytes
 * over work, go first, and a unit grows by a few others only; each pass begins with fresh edges and numbers. */
#include "graph/contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/union_find.h"

/* ---- what must come after each op ---- */

/* Bytes that reader r of p reads: distinct views, at most the whole. Reader lists are sorted by view, so each view comes once. */
static void link_readers(stw_contraction *c, int32_t p, int64_t *place, int64_t *count) {
    const stw_graph *graph = c->graph;
    for (int64_t k = graph->reader_start[p]; k < graph->reader_start[p + 1]; k++) {
        const int32_t reader = graph->reader[k].node, view = graph->reader[k].view;
        const int64_t whole = graph->bytes[p], part = view < 0 ? whole : graph->bytes[view];
        if (place[reader] < c->next_from[p]) { /* place: where this reader stands in the list of an op, this one or an earlier */
            place[reader] = *count;
            c->next[*count] = reader;
            c->next_bytes[(*count)++] = 0;
        }
        int64_t *bytes = &c->next_bytes[place[reader]];
        *bytes = part >= whole - *bytes ? whole : *bytes + part;
    }
}

stw_status stw_contraction_link(stw_contraction *c, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = c->graph;
    const int32_t N = graph->N;
    const int64_t capacity = (int64_t)graph->reader_start[N] + graph->wait_start[N];
    STW_TRY_NEW(arena, c->next_from, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, c->next, capacity, error);
    STW_TRY_NEW(arena, c->next_bytes, capacity, error);
    stw_arena scratch = *arena;
    int64_t *place, *waiter_start;
    int32_t *waiter;
    STW_TRY_NEW(&scratch, place, N, error);
    STW_TRY_NEW(&scratch, waiter_start, (int64_t)N + 2, error);
    STW_TRY_NEW(&scratch, waiter, graph->wait_start[N], error);
    for (int64_t k = 0; k < graph->wait_start[N]; k++) waiter_start[graph->wait[k] + 2]++;
    for (int32_t i = 0; i < N; i++) waiter_start[i + 2] += waiter_start[i + 1];
    for (int32_t i = 0; i < N; i++) {
        for (int64_t k = graph->wait_start[i]; k < graph->wait_start[i + 1]; k++) waiter[waiter_start[graph->wait[k] + 1]++] = i;
    }
    int64_t count = 0;
    for (int32_t i = 0; i < N; i++) place[i] = -1;
    for (int32_t i = 0; i < N; i++) {
        c->next_from[i] = count;
        if (graph->kind[i] != STW_NODE_OP) continue; /* sources are there at time 0 */
        link_readers(c, i, place, &count);
        for (int64_t k = waiter_start[i]; k < waiter_start[i + 1]; k++) {
            c->next[count] = waiter[k];
            c->next_bytes[count++] = 0;
        }
    }
    c->next_from[N] = count;
    return STW_OK;
}

enum {
    MAX_SPAN = 1024,  /* places in the order that a merge may rearrange */
    MAX_STEPS = 2048, /* edges that the search for another path looks at */
    MAX_GROWTH = 4    /* units that become one within a pass */
};
#define MAX_SHARE 3.0 /* times the mean: what edges may make of a unit */

/* ---- edges between units ---- */

typedef struct {
    double rating;
    int32_t from, to;
    int64_t index;
} candidate;

typedef struct {
    stw_contraction *c;
    int32_t M;             /* units when the pass began: numbers below go by these */
    int64_t *start;        /* (M + 1) into to */
    int32_t *to;           /* successors of each */
    candidate *edge;       /* beside each `to` */
    int32_t *leader;       /* (M) union-find; the leader's entries below are those of the merged unit */
    int32_t *last;         /* (M) of a leader: the end of its list */
    int32_t *link;         /* (M) list of the units that were merged, beginning with the leader; -1 ends it */
    int32_t *size;         /* (M) length of that list */
    double *weight;        /* (M) */
    int32_t *place;        /* (M) of a leader: where it stands in the order */
    int32_t *order;        /* (M) leaders; -1: empty */
    int32_t *mark, *mark2; /* (M) stamps */
    int32_t stamp;
    int32_t *stack, *room; /* (M) */
    int32_t left;          /* units now */
} pass;

/* Lists the ops of each unit. */
static stw_status list_ops(const stw_contraction *c, stw_arena *arena, int32_t **out_start, int32_t **out_op, stw_error *error) {
    int32_t *start, *op;
    STW_TRY_NEW(arena, start, (int64_t)c->count + 2, error);
    STW_TRY_NEW(arena, op, c->graph->op_count, error);
    for (int32_t k = 0; k < c->graph->op_count; k++) start[c->of[c->graph->topological[k]] + 2]++;
    for (int32_t u = 0; u < c->count; u++) start[u + 2] += start[u + 1];
    for (int32_t k = 0; k < c->graph->op_count; k++) {
        const int32_t i = c->graph->topological[k];
        op[start[c->of[i] + 1]++] = i;
    }
    *out_start = start;
    *out_op = op;
    return STW_OK;
}

/* The edges of unit u; a value that several ops of a unit read goes there once. */
static void add_edges(pass *p, int32_t u, const int32_t *op, int32_t op_count, int64_t *value_bytes, int64_t *edge_at,
                      double *bytes, int64_t *count) {
    const stw_contraction *c = p->c;
    p->start[u] = *count;
    for (int32_t o = 0; o < op_count; o++) {
        for (int64_t k = c->next_from[op[o]]; k < c->next_from[op[o] + 1]; k++) {
            const int32_t v = c->of[c->next[k]];
            if (v <= u) continue; /* within the unit; or backwards, which only colocation can bring about */
            if (p->mark[v] != u) {
                p->mark[v] = u;
                edge_at[v] = *count;
                p->to[*count] = v;
                bytes[(*count)++] = 0.0;
            }
            if (p->mark2[v] != op[o]) {
                p->mark2[v] = op[o];
                value_bytes[v] = 0;
            }
            if (c->next_bytes[k] <= value_bytes[v]) continue;
            bytes[edge_at[v]] += (double)(c->next_bytes[k] - value_bytes[v]);
            value_bytes[v] = c->next_bytes[k];
        }
    }
}

/* Bytes over the work at both ends. What is small counts as a share of the mean: neither an empty tensor nor an op without
 * work decides everything. */
static void rate_edges(pass *p, const double *bytes) {
    const int64_t E = p->start[p->M];
    double all = 0.0;
    for (int64_t e = 0; e < E; e++) all += bytes[e];
    const double little_bytes = E > 0 && all > 0.0 ? 0.1 * all / (double)E : 1.0;
    const double little_work = p->c->total > 0.0 ? 0.1 * p->c->total / p->M : 1.0;
    for (int32_t u = 0; u < p->M; u++) {
        for (int64_t e = p->start[u]; e < p->start[u + 1]; e++) {
            const int32_t v = p->to[e];
            const double work = (p->weight[u] + little_work) * (p->weight[v] + little_work);
            p->edge[e] = (candidate){(bytes[e] + little_bytes) / work, u, v, e};
        }
    }
}

static int compare_candidates(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->rating != y->rating) return x->rating > y->rating ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static stw_status open_pass(stw_contraction *c, stw_arena *arena, pass *p, stw_error *error) {
    const int32_t M = c->count;
    const int64_t capacity = c->next_from[c->graph->N];
    *p = (pass){.c = c, .M = M, .left = M};
    STW_TRY_NEW(arena, p->start, (int64_t)M + 1, error);
    STW_TRY_NEW(arena, p->leader, M, error);
    STW_TRY_NEW(arena, p->last, M, error);
    STW_TRY_NEW(arena, p->link, M, error);
    STW_TRY_NEW(arena, p->size, M, error);
    STW_TRY_NEW(arena, p->weight, M, error);
    STW_TRY_NEW(arena, p->place, M, error);
    STW_TRY_NEW(arena, p->order, M, error);
    STW_TRY_NEW(arena, p->mark, M, error);
    STW_TRY_NEW(arena, p->mark2, M, error);
    STW_TRY_NEW(arena, p->stack, M, error);
    STW_TRY_NEW(arena, p->room, M, error);
    p->to = STW_NEW_DIRTY(arena, int32_t, capacity);
    p->edge = STW_NEW_DIRTY(arena, candidate, capacity);
    if (p->to == NULL || p->edge == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d units", M);
    for (int32_t u = 0; u < M; u++) {
        p->leader[u] = p->last[u] = p->place[u] = p->order[u] = u;
        p->link[u] = p->mark[u] = p->mark2[u] = -1;
        p->size[u] = 1;
        p->weight[u] = c->weight[u];
    }
    stw_arena scratch = *arena;
    int32_t *op_start = NULL, *op = NULL;
    TRY(list_ops(c, &scratch, &op_start, &op, error));
    int64_t *value_bytes, *edge_at, count = 0;
    STW_TRY_NEW(&scratch, value_bytes, M, error);
    STW_TRY_NEW(&scratch, edge_at, M, error);
    double *bytes = STW_NEW_DIRTY(&scratch, double, capacity);
    if (bytes == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory for %d units", M);
    for (int32_t u = 0; u < M; u++) {
        add_edges(p, u, op + op_start[u], op_start[u + 1] - op_start[u], value_bytes, edge_at, bytes, &count);
    }
    p->start[M] = count;
    rate_edges(p, bytes);
    for (int32_t u = 0; u < M; u++) p->mark[u] = 0;
    return STW_OK;
}

/* ---- one merge ---- */

/* Marks what follows u and stands before v. False if there is another way to v, or if it would take too long to know. */
static bool mark_between(pass *p, int32_t u, int32_t v) {
    int32_t depth = 0;
    int64_t steps = 0;
    p->stamp++;
    p->stack[depth++] = u;
    while (depth > 0) {
        const int32_t at = p->stack[--depth];
        for (int32_t w = at; w >= 0; w = p->link[w]) {
            steps += p->start[w + 1] - p->start[w];
            if (steps > MAX_STEPS) return false;
            for (int64_t e = p->start[w]; e < p->start[w + 1]; e++) {
                const int32_t x = stw_sets_find(p->leader, p->to[e]);
                if (x == v && at != u) return false;
                if (p->place[x] >= p->place[v] || x == at || p->mark[x] == p->stamp) continue;
                p->mark[x] = p->stamp;
                p->stack[depth++] = x;
            }
        }
    }
    return true;
}

/* Makes u and v one (the new u). Between them in the order: what does not follow u, the pair, what does. */
static void merge(pass *p, int32_t u, int32_t v) {
    const int32_t first = p->place[u], past = p->place[v];
    int32_t at = first, later = 0;
    for (int32_t k = first + 1; k < past; k++) {
        const int32_t x = p->order[k];
        if (x < 0) continue;
        if (p->mark[x] == p->stamp) {
            p->room[later++] = x;
        } else {
            p->place[x] = at;
            p->order[at++] = x;
        }
    }
    p->place[u] = at;
    p->order[at++] = u;
    for (int32_t k = 0; k < later; k++) {
        p->place[p->room[k]] = at;
        p->order[at++] = p->room[k];
    }
    while (at <= past) p->order[at++] = -1;
    p->leader[v] = u;
    p->link[p->last[u]] = v;
    p->last[u] = p->last[v];
    p->size[u] += p->size[v];
    p->weight[u] += p->weight[v];
    p->left--;
}

static void merge_along_edges(pass *p, int32_t wanted, double cap) {
    const int64_t E = p->start[p->M];
    qsort(p->edge, (size_t)E, sizeof *p->edge, compare_candidates);
    for (int64_t e = 0; e < E && p->left > wanted; e++) {
        const int32_t u = stw_sets_find(p->leader, p->edge[e].from), v = stw_sets_find(p->leader, p->edge[e].to);
        if (u == v || p->size[u] + p->size[v] > MAX_GROWTH || p->weight[u] + p->weight[v] > cap) continue;
        if (p->place[v] - p->place[u] <= MAX_SPAN && mark_between(p, u, v)) merge(p, u, v);
    }
}

/* ---- passes ---- */

/* Numbers the units anew, in the order that the pass leaves. `number`: (M). */
static void close_pass(pass *p, int32_t *number) {
    stw_contraction *c = p->c;
    int32_t count = 0;
    for (int32_t k = 0; k < p->M; k++) {
        if (p->order[k] < 0) continue;
        c->weight[count] = p->weight[p->order[k]];
        number[p->order[k]] = count++;
    }
    for (int32_t i = 0; i < c->graph->N; i++) {
        if (c->of[i] >= 0) c->of[i] = number[stw_sets_find(p->leader, c->of[i])];
    }
    c->count = count;
}

static stw_status edge_pass(stw_contraction *c, int32_t wanted, double cap, stw_arena scratch, stw_error *error) {
    pass p;
    TRY(open_pass(c, &scratch, &p, error));
    merge_along_edges(&p, wanted, cap);
    close_pass(&p, p.room);
    return STW_OK;
}

/* Joins neighbours in the order, edge or not, up to `limit` in weight: nothing is between them, so no cycle can come of it. */
static stw_status neighbour_pass(stw_contraction *c, int32_t wanted, double limit, stw_arena scratch, stw_error *error) {
    int32_t *number;
    STW_TRY_NEW(&scratch, number, c->count, error);
    int32_t left = c->count, last = -1;
    for (int32_t u = 0; u < c->count; u++) {
        if (last >= 0 && left > wanted && c->weight[last] + c->weight[u] <= limit) {
            c->weight[last] += c->weight[u];
            left--;
        } else {
            c->weight[++last] = c->weight[u];
        }
        number[u] = last;
    }
    for (int32_t i = 0; i < c->graph->N; i++) {
        if (c->of[i] >= 0) c->of[i] = number[c->of[i]];
    }
    c->count = left;
    return STW_OK;
}

stw_status stw_contract(stw_contraction *c, int32_t wanted, stw_arena scratch, stw_error *error) {
    const double mean = c->total / wanted;
    double limit = 0.25 * mean; /* of neighbours; doubles whenever edges do not help any more */
    while (c->count > wanted) {
        const int32_t before = c->count;
        const double cap = limit > MAX_SHARE * mean ? limit : MAX_SHARE * mean;
        TRY(edge_pass(c, wanted, cap, scratch, error));
        if (c->count <= wanted || before - c->count > before / 50) continue;
        TRY(neighbour_pass(c, wanted, limit, scratch, error));
        limit *= 2.0;
    }
    return STW_OK;
}
