#include "graph/grain.h"

#include <string.h>

#include "base/union_find.h"

const char *const stw_grain_name[STW_GRAIN_COUNT] = {
#define STW_ROW(id, name) [STW_GRAIN_##id] = name,
    STW_GRAINS(STW_ROW)
#undef STW_ROW
};

stw_grain stw_grain_find(const char *name) {
    int grain = 0;
    while (grain < STW_GRAIN_COUNT && strcmp(stw_grain_name[grain], name) != 0) grain++;
    return (stw_grain)grain;
}

typedef struct {
    const stw_graph *graph;
    stw_module_tree tree;
    bool *backward;  /* (N) */
    bool *whole;     /* (modules) it is not divided */
    int32_t *unit;   /* (modules) the outermost that is not divided and holds it, else -1 */
    int32_t *leader; /* (N + modules) sets of nodes, and of modules behind them */
    bool *has_home;  /* (N + modules) by leader: there is a parameter or buffer in the set */
    bool *is_read;   /* (N) of parameters: a forward op before this one reads it */
} division;

static bool is_op(const division *d, int32_t i) { return d->graph->kind[i] == STW_NODE_OP; }
static bool is_member(const division *d, int32_t i) { return is_op(d, i) || stw_node_is_resident(d->graph->kind[i]); }
static void join(division *d, int32_t a, int32_t b) { stw_sets_join(d->leader, a, b); }

static bool is_inside(const stw_module_tree *tree, int32_t module, int32_t of) {
    while (module > of) module = tree->parent[module]; /* parents come first */
    return module == of;
}

/* ---- which modules are divided ---- */

enum { FROM_OUTSIDE = 1, FROM_INSIDE = 2 };

/* Of the code of modules that have others inside: where what it computes with comes from. */
static stw_status find_mixed(division *d, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = d->graph;
    const stw_module_tree *tree = &d->tree;
    uint8_t *from;
    STW_TRY_NEW(&scratch, from, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t module = tree->of[i];
        if (!is_op(d, i) || d->backward[i] || module == 0 || d->whole[module]) continue;
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
            const int32_t source = graph->read[k].node;
            if (!is_op(d, source)) continue;
            if (tree->of[source] == module)
                from[i] |= from[source];
            else
                from[i] |= is_inside(tree, tree->of[source], module) ? FROM_INSIDE : FROM_OUTSIDE;
        }
        if (from[i] == (FROM_OUTSIDE | FROM_INSIDE)) d->whole[module] = true;
    }
    return STW_OK;
}

/* The file says which modules ops belong to. Paths that are derived do not show all that goes around modules. */
static bool has_stated(const stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++)
        if (graph->module[i].length > 0) return true;
    return false;
}

/* Elsewhere each that uses a parameter of others has a copy, and goes with what it reads. */
static bool ties_weights(stw_grain grain) { return grain == STW_GRAIN_MODULE || grain == STW_GRAIN_LAYER; }

static stw_status find_units(division *d, stw_grain grain, stw_arena *arena, stw_error *error) {
    const stw_module_tree *tree = &d->tree;
    STW_TRY_NEW(arena, d->whole, tree->count, error);
    STW_TRY_NEW(arena, d->unit, tree->count, error);
    const bool blocks =
        grain == STW_GRAIN_LAYER || grain == STW_GRAIN_STAGE || (grain == STW_GRAIN_MODULE && !has_stated(d->graph));
    for (int32_t m = 1; m < tree->count; m++) {
        const bool uses = !tree->has_modules[m] && !tree->has_parameters[m]; /* those of others alone */
        const bool plain = !tree->has_modules[m] || (tree->has_parameters[m] && !tree->has_deep[m]);
        d->whole[m] = uses ? ties_weights(grain) : plain || (blocks && tree->is_block[m]);
    }
    if (grain != STW_GRAIN_OP) TRY(find_mixed(d, *arena, error));
    d->unit[0] = -1;
    for (int32_t m = 1; m < tree->count; m++) {
        const int32_t around = d->unit[tree->parent[m]];
        d->unit[m] = around >= 0 ? around : d->whole[m] ? m : -1;
    }
    return STW_OK;
}

/* ---- what goes with what ---- */

/* Of what an op reads the op that comes last; -1: none. */
static int32_t last_source(const division *d, int32_t i) {
    int32_t last = -1;
    for (int64_t k = d->graph->read_start[i]; k < d->graph->read_start[i + 1]; k++)
        if (is_op(d, d->graph->read[k].node)) last = d->graph->read[k].node;
    return last;
}

static int32_t first_reader(const division *d, int32_t i) {
    int32_t first = -1;
    for (int64_t k = d->graph->reader_start[i]; k < d->graph->reader_start[i + 1]; k++)
        if (first < 0 || d->graph->reader[k].node < first) first = d->graph->reader[k].node;
    return first;
}

static void join_forward(division *d, int32_t i, stw_grain grain) {
    const stw_graph *graph = d->graph;
    const bool loose = d->unit[d->tree.of[i]] < 0;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
        const int32_t source = graph->read[k].node;
        const bool parameter = stw_node_is_resident(graph->kind[source]);
        const bool first = !d->is_read[source] && (d->unit[d->tree.of[source]] < 0 || loose);
        if (parameter) d->is_read[source] = true;
        if (parameter ? ties_weights(grain) || first : loose && is_op(d, source) && grain != STW_GRAIN_OP) join(d, i, source);
    }
    if (loose && grain == STW_GRAIN_OP && last_source(d, i) >= 0) join(d, i, last_source(d, i));
}

static void join_all(division *d, stw_grain grain) {
    const stw_graph *graph = d->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!is_member(d, i)) continue;
        const int32_t unit = d->unit[d->tree.of[i]];
        if (unit >= 0) join(d, i, graph->N + unit);
        if (graph->updates[i] >= 0) join(d, i, graph->updates[i]);
        if (graph->colocate[i] >= 0 && is_member(d, graph->root[graph->colocate[i]])) join(d, i, graph->root[graph->colocate[i]]);
        if (!is_op(d, i)) continue;
        if (!d->backward[i]) {
            join_forward(d, i, grain);
        } else if (unit < 0 && graph->updates[i] < 0 && last_source(d, i) >= 0) {
            join(d, i, last_source(d, i));
        }
    }
}

static void mark_homes(division *d, int32_t size) {
    memset(d->has_home, 0, (size_t)size * sizeof *d->has_home);
    for (int32_t i = 0; i < d->graph->N; i++)
        if (stw_node_is_resident(d->graph->kind[i])) d->has_home[stw_sets_find(d->leader, i)] = true;
}

/* What neither reads nor is read goes with what stands before it in the program, or else behind it. */
static void join_lonely(division *d, int32_t size) {
    for (int pass = 0; pass < 2; pass++) {
        int32_t last = -1;
        mark_homes(d, size);
        for (int32_t k = 0; k < d->graph->N; k++) {
            const int32_t i = pass == 0 ? k : d->graph->N - 1 - k;
            if (!is_op(d, i)) continue;
            if (!d->has_home[stw_sets_find(d->leader, i)] && last >= 0) {
                join(d, i, last);
                d->has_home[stw_sets_find(d->leader, i)] = true;
            }
            if (d->has_home[stw_sets_find(d->leader, i)]) last = i;
        }
    }
}

/* A target places parameters: what has none goes with what it reads last, or else with what reads it first. */
static void join_homeless(division *d, int32_t size) {
    for (int pass = 0; pass < 2; pass++) {
        mark_homes(d, size);
        for (int32_t k = 0; k < d->graph->N; k++) {
            const int32_t i = pass == 0 ? k : d->graph->N - 1 - k;
            if (!is_op(d, i) || d->has_home[stw_sets_find(d->leader, i)]) continue;
            const int32_t other = pass == 0 ? last_source(d, i) : first_reader(d, i);
            if (other < 0) continue;
            const bool home = d->has_home[stw_sets_find(d->leader, other)];
            join(d, i, other);
            d->has_home[stw_sets_find(d->leader, i)] = home;
        }
    }
    join_lonely(d, size);
}

/* ---- parcels ---- */

static stw_status number_parcels(division *d, stw_arena *arena, stw_parcels *out, stw_error *error) {
    const stw_graph *graph = d->graph;
    const int32_t size = graph->N + d->tree.count;
    int32_t *number;
    *out = (stw_parcels){0};
    STW_TRY_NEW(arena, out->of, graph->N, error);
    STW_TRY_NEW(arena, out->name, size, error);
    STW_TRY_NEW(arena, out->modules, size, error);
    STW_TRY_NEW(arena, out->first, size, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, number, size, error); /* by leader, from 1 */
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t root = graph->root[i];
        out->of[i] = -1;
        if (!is_member(d, root)) continue;
        int32_t *mine = &number[stw_sets_find(d->leader, root)];
        if (*mine == 0) {
            *mine = ++out->count;
            out->first[out->count - 1] = graph->N;
        }
        out->of[i] = *mine - 1;
        if (is_op(d, i) && i < out->first[*mine - 1]) out->first[*mine - 1] = i;
    }
    for (int32_t m = 1; m < d->tree.count; m++) {
        const int32_t mine = number[stw_sets_find(d->leader, graph->N + m)] - 1;
        if (d->unit[m] != m || mine < 0) continue;
        if (out->modules[mine]++ == 0) out->name[mine] = d->tree.name[m];
    }
    for (int32_t i = 0; i < graph->N; i++) { /* parameters that lie beside modules */
        const int32_t mine = out->of[i];
        if (mine >= 0 && out->name[mine].length == 0 && stw_node_is_resident(graph->kind[i])) out->name[mine] = graph->label[i];
    }
    return STW_OK;
}

stw_status stw_grain_parcels(const stw_graph *graph, stw_grain grain, stw_arena *arena, stw_parcels *out, stw_error *error) {
    division d = {.graph = graph};
    stw_str *path;
    if (!stw_graph_has_paths(graph))
        return stw_fail(error, STW_ERROR_INPUT,
                        "--grain %s: the names of the parameters are no paths of PyTorch modules ('encoder.0.weight'); trace the "
                        "module itself "
                        "with stowage.torch.trace in Python, or use --grain op",
                        stw_grain_name[grain]);
    TRY(stw_graph_paths(graph, arena, &path, error));
    TRY(stw_module_tree_build(graph, path, arena, &d.tree, error));
    TRY(stw_graph_backward(graph, arena, &d.backward, error));
    TRY(find_units(&d, grain, arena, error));
    const int32_t size = graph->N + d.tree.count;
    STW_TRY_NEW(arena, d.leader, size, error);
    STW_TRY_NEW(arena, d.has_home, size, error);
    STW_TRY_NEW(arena, d.is_read, graph->N, error);
    stw_sets_begin(d.leader, size);
    join_all(&d, grain);
    join_homeless(&d, size);
    return number_parcels(&d, arena, out, error);
}
