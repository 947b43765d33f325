/* Modules: what parts of the model are called. Parameters are labelled with the path of theirs ("enc.0.gates.weight"); an op is
 * in the module of a parameter that it reads or updates, else in that of an op that it reads: before the loss the latest, after
 * it the earliest, which is what the op is the derivative of. Files without such labels may have the path in the names of their
 * nodes
 * ("model/enc/add"). */
#include "base/index.h"
#include "report/report.h"

typedef struct grower {
    const stw_graph *graph;
    stw_arena *arena;
    stw_names names;
    int64_t count, path_room, parent_room;
    stw_str *path;
    int32_t *parent;
} grower;

/* The module of this path, and those that it lies in. */
static stw_status enter(grower *g, stw_str path, char separator, int32_t *out, stw_error *error) {
    int32_t parent = -1;
    for (int64_t end = 1; end <= path.length; end++) {
        if (end < path.length && path.p[end] != separator) continue;
        const stw_str part = {path.p, end};
        int32_t *number;
        TRY(stw_names_enter(&g->names, 0, part, &number, error));
        if (*number < 0) {
            *number = (int32_t)g->count;
            TRY(STW_GROW(g->arena, g->path, g->count + 1, g->path_room, error));
            TRY(STW_GROW(g->arena, g->parent, g->count + 1, g->parent_room, error));
            g->path[g->count] = part;
            g->parent[g->count++] = parent;
        }
        parent = *number;
    }
    *out = parent;
    return STW_OK;
}

/* What stands before the last separator; empty if there is none. */
static stw_str outer(stw_str path, char separator) {
    int64_t end = path.length;
    while (end > 0 && path.p[end - 1] != separator) end--;
    return (stw_str){path.p, end > 0 ? end - 1 : 0};
}

static bool has_label(const stw_graph *graph, int32_t i) {
    return stw_node_is_resident(graph->kind[i]) && outer(graph->label[i], '.').length > 0;
}

static int32_t of_reads(const stw_graph *graph, const int32_t *of, int32_t i) {
    int32_t found = -1;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
        const int32_t producer = graph->read[k].node;
        if (stw_node_is_source(graph->kind[producer]) && of[producer] >= 0) return of[producer];
        if (of[producer] < 0) continue;
        if (found < 0 || graph->loss < 0 || i <= graph->loss) found = of[producer]; /* reads ascend: the last is the latest */
    }
    return found;
}

static stw_status by_labels(grower *g, int32_t *of, stw_error *error) {
    const stw_graph *graph = g->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        of[i] = -1;
        if (has_label(graph, i)) TRY(enter(g, outer(graph->label[i], '.'), '.', &of[i], error));
    }
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t i = graph->topological[k];
        of[i] = graph->updates[i] >= 0 && of[graph->updates[i]] >= 0 ? of[graph->updates[i]] : of_reads(graph, of, i);
    }
    return STW_OK;
}

static stw_status by_names(grower *g, int32_t *of, stw_error *error) {
    for (int32_t i = 0; i < g->graph->N; i++) {
        const stw_str path = outer(g->graph->node_name[i], '/');
        of[i] = -1;
        if (path.length > 0) TRY(enter(g, path, '/', &of[i], error));
    }
    return STW_OK;
}

stw_status stw_report_modules(const stw_graph *graph, stw_arena *arena, stw_module_tree *out, stw_error *error) {
    grower g = {.graph = graph, .arena = arena};
    bool labelled = false;
    for (int32_t i = 0; i < graph->N && !labelled; i++) labelled = has_label(graph, i);
    STW_TRY_NEW(arena, out->of, graph->N, error);
    TRY(stw_names_create(arena, 256, &g.names, error));
    TRY(labelled ? by_labels(&g, out->of, error) : by_names(&g, out->of, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->root[i] != i) out->of[i] = out->of[graph->root[i]];
    }
    out->count = (int32_t)g.count;
    out->path = g.path;
    out->parent = g.parent;
    return STW_OK;
}
