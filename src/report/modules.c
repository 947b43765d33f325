/* Modules: what parts of the model are called, by the paths of ops and parameters (graph/paths.h). Files without such paths may
 * have them in the names of their nodes ("model/enc/add"). */
#include "base/index.h"
#include "graph/paths.h"
#include "report/report.h"

/* Deeper ones belong to the last: no model is made of so many levels, but a name may be made of anything. */
enum { MOST_LEVELS = 64 };

typedef struct grower {
    const stw_graph *graph;
    stw_arena *arena;
    stw_names names; /* of parts of paths; a scope is the module that they lie in, plus 1 */
    int64_t count, path_room, parent_room;
    stw_str *path;
    int32_t *parent;
} grower;

/* The module of this path, and those that it lies in. */
static stw_status enter(grower *g, stw_str path, char separator, int32_t *out, stw_error *error) {
    int32_t parent = -1, level = 0;
    int64_t begin = 0;
    for (int64_t end = 1; end <= path.length && level < MOST_LEVELS; end++) {
        if (end < path.length && path.p[end] != separator) continue;
        int32_t *number;
        TRY(stw_names_enter(&g->names, parent + 1, (stw_str){path.p + begin, end - begin}, &number, error));
        if (*number < 0) {
            *number = (int32_t)g->count;
            TRY(STW_GROW(g->arena, g->path, g->count + 1, g->path_room, error));
            TRY(STW_GROW(g->arena, g->parent, g->count + 1, g->parent_room, error));
            g->path[g->count] = (stw_str){path.p, end};
            g->parent[g->count++] = parent;
        }
        parent = *number;
        begin = end;
        level++;
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

static stw_status by_paths(grower *g, int32_t *of, stw_error *error) {
    stw_str *path;
    TRY(stw_graph_paths(g->graph, g->arena, &path, error));
    for (int32_t i = 0; i < g->graph->N; i++) {
        of[i] = -1;
        if (path[i].length > 0) TRY(enter(g, path[i], '.', &of[i], error));
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

stw_status stw_report_modules(const stw_graph *graph, stw_arena *arena, stw_report_tree *out, stw_error *error) {
    grower g = {.graph = graph, .arena = arena};
    STW_TRY_NEW(arena, out->of, graph->N, error);
    TRY(stw_names_create(arena, 256, &g.names, error));
    TRY(stw_graph_has_paths(graph) ? by_paths(&g, out->of, error) : by_names(&g, out->of, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->root[i] != i) out->of[i] = out->of[graph->root[i]];
    }
    out->count = (int32_t)g.count;
    out->path = g.path;
    out->parent = g.parent;
    return STW_OK;
}
