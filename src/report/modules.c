/* Modules: what parts of the model are called, by the paths of ops and parameters (graph/paths.h). Files without such paths may
 * have them in the names of their nodes ("model/enc/add"). */
#include "graph/paths.h"
#include "report/report.h"

/* Deeper ones belong to the last: no model is made of so many levels, but a name may be made of anything. */
enum { MOST_LEVELS = 64 };

/* What stands before the last separator; empty if there is none. */
static stw_str outer(stw_str path, char separator) {
    int64_t end = path.length;
    while (end > 0 && path.p[end - 1] != separator) end--;
    return (stw_str){path.p, end > 0 ? end - 1 : 0};
}

/* The module of each node, or 0. */
static stw_status walk_nodes(const stw_graph *graph, stw_path_tree *tree, int32_t *of, stw_error *error) {
    const bool has_paths = stw_graph_has_paths(graph);
    const char separator = has_paths ? '.' : '/';
    stw_str *path = NULL;
    if (has_paths) TRY(stw_graph_paths(graph, tree->arena, &path, error));
    for (int32_t i = 0; i < graph->N; i++) {
        const stw_str at = has_paths ? path[i] : outer(graph->node_name[i], separator);
        TRY(stw_path_tree_walk(tree, at, separator, MOST_LEVELS, true, &of[i], error));
    }
    return STW_OK;
}

stw_status stw_report_modules(const stw_graph *graph, stw_arena *arena, stw_report_tree *out, stw_error *error) {
    stw_path_tree tree;
    STW_TRY_NEW(arena, out->of, graph->N, error);
    TRY(stw_path_tree_create(arena, &tree, error));
    TRY(walk_nodes(graph, &tree, out->of, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->root[i] != i) out->of[i] = out->of[graph->root[i]];
    }
    for (int32_t i = 0; i < graph->N; i++) out->of[i]--; /* the whole model is no module of it */
    out->count = tree.count - 1;
    out->path = tree.path + 1;
    out->parent = tree.parent + 1;
    for (int32_t k = 0; k < out->count; k++) out->parent[k]--;
    return STW_OK;
}
