#include "graph/units.h"

#include <string.h>

#include "base/union_find.h"
#include "graph/contract.h"

stw_status stw_graph_colocated(const stw_graph *graph, stw_arena *arena, int32_t (**out)[2], int32_t *count, stw_error *error) {
    int32_t(*pair)[2];
    int32_t n = 0;
    STW_TRY_NEW(arena, pair, 2 * (int64_t)graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->updates[i] >= 0) {
            pair[n][0] = i;
            pair[n++][1] = graph->updates[i];
        }
        if (graph->colocate[i] < 0) continue;
        const int32_t a = graph->root[i], b = graph->root[graph->colocate[i]];
        if (a == b || stw_node_is_everywhere(graph->kind[a]) || stw_node_is_everywhere(graph->kind[b])) continue;
        pair[n][0] = a;
        pair[n++][1] = b;
    }
    *out = pair;
    *count = n;
    return STW_OK;
}

static bool is_member(uint8_t kind) { return kind == STW_NODE_OP || stw_node_is_resident(kind); }

/* ---- atoms ---- */

/* leader: (N) the same for nodes that must be together; a view has its root's. */
static stw_status join_atoms(const stw_graph *graph, int32_t *leader, stw_arena scratch, stw_error *error) {
    int32_t(*pair)[2], count = 0;
    TRY(stw_graph_colocated(graph, &scratch, &pair, &count, error));
    stw_sets_begin(leader, graph->N);
    for (int32_t k = 0; k < count; k++) /* who leads decides how units are numbered: as policies have learnt them */
        leader[stw_sets_find(leader, pair[k][0])] = stw_sets_find(leader, pair[k][1]);
    return STW_OK;
}

/* A set without ops (a free parameter or buffer) produces no precedence; it stands before its smallest reader, if any.
 * with: (N) by leader: itself, or the leader of the set that it goes with at the first coarser level. */
static void find_companions(const stw_graph *graph, int32_t *leader, int32_t *reader, int32_t *with) {
    for (int32_t i = 0; i < graph->N; i++) {
        with[i] = i;
        reader[i] = graph->N;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t at = stw_sets_find(leader, i);
        if (graph->kind[i] == STW_NODE_OP) reader[at] = -1;
        for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
            if (graph->reader[k].node < reader[at]) reader[at] = graph->reader[k].node;
        }
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (leader[i] != i || !is_member(graph->kind[i])) continue;
        if (reader[i] >= 0 && reader[i] < graph->N) with[i] = stw_sets_find(leader, reader[i]);
    }
}

typedef struct {
    const stw_graph *graph;
    int32_t *leader;
    int32_t *start, *op; /* (N + 2), (op_count) ops of each set, by leader */
    int32_t *number;     /* (N) by leader: place in the order; -1: not yet; -2: being visited */
    int32_t *stack, *next_op;
    int64_t *next_edge; /* (N) how far the visit of a set has come */
    int32_t count;
} atom_walk;

/* The next set that must come before `at` and has not been visited; -1 when there is none. Data first, then waits. */
static int32_t next_before(atom_walk *w, int32_t at) {
    const stw_graph *graph = w->graph;
    for (; w->next_op[at] < w->start[at + 1]; w->next_op[at]++, w->next_edge[at] = 0) {
        const int32_t op = w->op[w->next_op[at]];
        const int64_t reads = graph->read_start[op + 1] - graph->read_start[op];
        const int64_t waits = graph->wait_start[op + 1] - graph->wait_start[op];
        while (w->next_edge[at] < reads + waits) {
            const int64_t k = w->next_edge[at]++;
            const int32_t node =
                k < reads ? graph->read[graph->read_start[op] + k].node : graph->wait[graph->wait_start[op] + k - reads];
            if (graph->kind[node] != STW_NODE_OP) continue;
            const int32_t before = stw_sets_find(w->leader, node);
            if (w->number[before] == -1) return before;
        }
    }
    return -1;
}

/* Numbers a set after all that must come before it. Where colocation makes a ring of sets, the one that was met first comes
 * last. */
static void visit(atom_walk *w, int32_t set) {
    int32_t depth = 0;
    w->stack[depth++] = set;
    w->number[set] = -2;
    w->next_op[set] = w->start[set];
    while (depth > 0) {
        const int32_t at = w->stack[depth - 1], before = next_before(w, at);
        if (before >= 0) {
            w->stack[depth++] = before;
            w->number[before] = -2;
            w->next_op[before] = w->start[before];
        } else {
            w->number[at] = w->count++;
            depth--;
        }
    }
}

/* number: (N) by leader: place of each set with ops in a topological order. */
static stw_status order_sets(const stw_graph *graph, int32_t *leader, int32_t *number, int32_t *count, stw_arena scratch,
                             stw_error *error) {
    const int32_t N = graph->N;
    atom_walk w = {.graph = graph, .leader = leader, .number = number};
    STW_TRY_NEW(&scratch, w.start, (int64_t)N + 2, error);
    STW_TRY_NEW(&scratch, w.op, graph->op_count, error);
    STW_TRY_NEW(&scratch, w.stack, N, error);
    STW_TRY_NEW(&scratch, w.next_op, N, error);
    STW_TRY_NEW(&scratch, w.next_edge, N, error);
    for (int32_t k = 0; k < graph->op_count; k++) w.start[stw_sets_find(leader, graph->topological[k]) + 2]++;
    for (int32_t i = 0; i < N; i++) w.start[i + 2] += w.start[i + 1];
    for (int32_t k = 0; k < graph->op_count; k++) {
        w.op[w.start[stw_sets_find(leader, graph->topological[k]) + 1]++] = graph->topological[k];
    }
    for (int32_t i = 0; i < N; i++) number[i] = -1;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t set = stw_sets_find(leader, graph->topological[k]);
        if (number[set] == -1) visit(&w, set);
    }
    *count = w.count;
    return STW_OK;
}

/* ---- numbers ---- */

typedef struct {
    const stw_graph *graph;
    int32_t *leader, *with; /* (N) see above */
    int32_t *order;         /* (N) by leader: place among the sets with ops, of which there are `ordered` */
    int32_t ordered;
} sets;

static bool is_set(const sets *s, int32_t i) { return s->leader[i] == i && is_member(s->graph->kind[i]); }
/* The place of the ops that a set has or goes with; `ordered` if there are none. */
static int32_t place_of(const sets *s, int32_t set) {
    const int32_t place = s->order[s->with[set]];
    return place < 0 ? s->ordered : place;
}

/* Each set a unit: parameters and buffers in front of the ops that they go with, what nobody reads at the end. number: (N) by
 * leader; first: (N + 2) scratch, zeroed. Returns how many there are. */
static int32_t number_atoms(const sets *s, int32_t *first, int32_t *number) {
    int32_t count = 0;
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (!is_set(s, i)) continue;
        first[place_of(s, i) + 1]++;
        count++;
    }
    for (int32_t k = 0; k < s->ordered; k++) first[k + 1] += first[k];
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (is_set(s, i) && s->order[i] < 0) number[i] = first[place_of(s, i)]++;
    }
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (is_set(s, i) && s->order[i] >= 0) number[i] = first[s->order[i]]++;
    }
    return count;
}

/* The same with parameters and buffers inside the units that they go with. */
static int32_t number_cells(const sets *s, int32_t *number) {
    int32_t count = s->ordered;
    for (int32_t i = 0; i < s->graph->N; i++) {
        if (is_set(s, i)) number[i] = place_of(s, i) < s->ordered ? place_of(s, i) : count++;
    }
    return count;
}

/* The numbers of sets to their members; -1 for what is in no unit. */
static void spread_numbers(const sets *s, const int32_t *number, int32_t *of) {
    for (int32_t i = 0; i < s->graph->N; i++) {
        const int32_t root = s->graph->root[i];
        of[i] = is_member(s->graph->kind[root]) ? number[stw_sets_find(s->leader, root)] : -1;
    }
}

static stw_status build_sets(const stw_graph *graph, stw_arena *arena, sets *s, stw_error *error) {
    *s = (sets){.graph = graph};
    STW_TRY_NEW(arena, s->leader, graph->N, error);
    STW_TRY_NEW(arena, s->with, graph->N, error);
    STW_TRY_NEW(arena, s->order, graph->N, error);
    TRY(join_atoms(graph, s->leader, *arena, error));
    find_companions(graph, s->leader, s->order, s->with); /* `order` is free for its use until the next line */
    return order_sets(graph, s->leader, s->order, &s->ordered, *arena, error);
}

/* ---- levels ---- */

/* Time of each unit, and a little for every op, so that ops without time count as well. */
static void weigh(stw_contraction *c, const double *us) {
    const stw_graph *graph = c->graph;
    double all = 0.0;
    for (int32_t k = 0; k < graph->op_count; k++) all += us[graph->topological[k]];
    const double little = all > 0.0 ? 0.05 * all / graph->op_count : 1.0;
    c->total = 0.0;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        c->weight[c->of[i]] += us[i] + little;
        c->total += us[i] + little;
    }
}

/* Fills `of` and `count` of all levels; scratch is gone afterwards. */
static stw_status fill_levels(const stw_graph *graph, const double *us, const int32_t *wanted, int32_t wanted_count,
                              stw_arena scratch, stw_unit_levels *out, stw_error *error) {
    sets s = {0};
    stw_contraction c = {.graph = graph};
    int32_t *number, *first;
    TRY(build_sets(graph, &scratch, &s, error));
    STW_TRY_NEW(&scratch, number, graph->N, error);
    STW_TRY_NEW(&scratch, first, (int64_t)graph->N + 2, error);
    out->level[0].count = number_atoms(&s, first, number);
    spread_numbers(&s, number, out->level[0].of);
    out->count = 1;
    STW_TRY_NEW(&scratch, c.of, graph->N, error);
    STW_TRY_NEW(&scratch, c.weight, graph->N, error);
    c.count = number_cells(&s, number);
    spread_numbers(&s, number, c.of);
    weigh(&c, us);
    TRY(stw_contraction_link(&c, &scratch, error));
    for (int32_t k = 0; k < wanted_count && out->count < STW_MAX_UNIT_LEVELS; k++) {
        const int32_t want = wanted[k] < 1 ? 1 : wanted[k];
        stw_units *units = &out->level[out->count];
        if (want >= out->level[out->count - 1].count) continue;
        TRY(stw_contract(&c, want, scratch, error));
        units->count = c.count;
        memcpy(units->of, c.of, (size_t)graph->N * sizeof *c.of);
        out->count++;
    }
    return STW_OK;
}

static stw_status list_members(const stw_graph *graph, stw_units *units, stw_arena *arena, stw_error *error) {
    STW_TRY_NEW(arena, units->start, (int64_t)units->count + 2, error);
    STW_TRY_NEW(arena, units->member, graph->N, error);
    int32_t *next = units->start + 1; /* counted one place ahead, so that filling leaves the starts right */
    for (int32_t i = 0; i < graph->N; i++) {
        if (is_member(graph->kind[i])) next[units->of[i] + 1]++;
    }
    for (int32_t u = 0; u < units->count; u++) next[u + 1] += next[u];
    for (int32_t i = 0; i < graph->N; i++) {
        if (is_member(graph->kind[i])) units->member[next[units->of[i]]++] = i;
    }
    return STW_OK;
}

stw_status stw_units_build(const stw_graph *graph, const double *us, const int32_t *wanted, int32_t wanted_count,
                           stw_arena *arena, stw_unit_levels *out, stw_error *error) {
    *out = (stw_unit_levels){0};
    for (int32_t k = 0; k <= wanted_count && k < STW_MAX_UNIT_LEVELS; k++) {
        STW_TRY_NEW(arena, out->level[k].of, graph->N, error);
    }
    TRY(fill_levels(graph, us, wanted, wanted_count, *arena, out, error));
    for (int32_t k = 0; k < out->count; k++) TRY(list_members(graph, &out->level[k], arena, error));
    for (int32_t k = 0; k + 1 < out->count; k++) {
        stw_units *units = &out->level[k];
        STW_TRY_NEW(arena, units->parent, units->count, error);
        for (int32_t u = 0; u < units->count; u++) units->parent[u] = out->level[k + 1].of[units->member[units->start[u]]];
    }
    return STW_OK;
}

void stw_units_expand(const stw_units *units, const stw_graph *graph, const int32_t *unit_device, int32_t *device) {
    for (int32_t i = 0; i < graph->N; i++) device[i] = units->of[i] < 0 ? 0 : unit_device[units->of[i]];
}
