#include "graph/paths.h"

#include <string.h>

#include "base/index.h"

/* ---- paths as text ---- */

static bool is_path(stw_str label) {
    return label.length > 0 && memchr(label.p, '/', (size_t)label.length) == NULL &&
           memchr(label.p, ':', (size_t)label.length) == NULL;
}

bool stw_path_is_within(stw_str path, stw_str module) {
    if (module.length == 0) return true;
    if (path.length < module.length || memcmp(path.p, module.p, (size_t)module.length) != 0) return false;
    return path.length == module.length || path.p[module.length] == '.';
}

/* Without its last part. */
static stw_str parent_of(stw_str path) {
    int64_t length = path.length;
    while (length > 0 && path.p[length - 1] != '.') length--;
    return (stw_str){path.p, length > 0 ? length - 1 : 0};
}

/* The smallest module that holds both. */
static stw_str common_path(stw_str a, stw_str b) {
    while (!stw_path_is_within(b, a)) a = parent_of(a);
    return a;
}

bool stw_graph_has_paths(const stw_graph *graph) {
    int32_t labelled = 0, paths = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i]) || graph->label[i].length == 0) continue;
        labelled++;
        paths += is_path(graph->label[i]);
    }
    const bool strange = stw_str_is(graph->family, "hlo") || stw_str_is(graph->family, "tensorflow");
    return labelled > 0 && !strange && 2 * paths > labelled;
}

/* ---- paths from labels ---- */

static stw_str path_of_resident(const stw_graph *graph, int32_t i) {
    return is_path(graph->label[i]) ? parent_of(graph->label[i]) : STW_STR("");
}

typedef struct {
    const stw_graph *graph;
    stw_str *path;  /* (N) */
    bool *known;    /* (N) it is sure where the op belongs */
    bool *backward; /* (N) */
    int32_t *from;  /* (N) the op that is known and was met last on the way to this one; -1: none */
    int32_t *to;    /* (N) the one that is met next on the way from it; -1: none */
} derivation;

/* What reads a parameter, and updates. */
static void find_readers(derivation *d) {
    const stw_graph *graph = d->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        int32_t source = graph->updates[i];
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1] && source < 0; k++) {
            const int32_t node = graph->read[k].node;
            if (stw_node_is_resident(graph->kind[node]) && is_path(graph->label[node])) source = node;
        }
        if (source < 0) continue;
        d->known[i] = true;
        d->path[i] = d->path[source];
    }
}

/* What is read by nothing but one parameter's way to its update. */
static void find_gradients(derivation *d) {
    const stw_graph *graph = d->graph;
    for (int32_t i = graph->N - 1; i >= 0; i--) {
        if (graph->kind[i] != STW_NODE_OP || d->known[i] || (graph->loss >= 0 && !d->backward[i])) continue;
        const int64_t first = graph->reader_start[i], end = graph->reader_start[i + 1];
        bool alike = first < end;
        for (int64_t k = first; k < end && alike; k++) {
            const int32_t reader = graph->reader[k].node;
            alike = d->to[reader] >= 0 && stw_str_equal(d->path[reader], d->path[graph->reader[first].node]);
        }
        if (!alike) continue;
        d->known[i] = true;
        d->path[i] = d->path[graph->reader[first].node];
        d->to[i] = i;
    }
}

/* The rest lies between what is known. */
static void find_between(derivation *d) {
    const stw_graph *graph = d->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t last = -1;
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
            if (graph->kind[graph->read[k].node] == STW_NODE_OP) last = graph->read[k].node; /* ascending */
        }
        d->from[i] = d->known[i] ? i : last < 0 ? -1 : d->from[last];
    }
    for (int32_t i = graph->N - 1; i >= 0; i--) {
        int32_t next = -1;
        for (int64_t k = graph->reader_start[i]; k < graph->reader_start[i + 1]; k++) {
            if (next < 0 || graph->reader[k].node < next) next = graph->reader[k].node;
        }
        d->to[i] = d->known[i] ? i : next < 0 || graph->kind[i] != STW_NODE_OP ? -1 : d->to[next];
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || d->known[i]) continue;
        const int32_t from = d->from[i], to = d->to[i];
        if (from >= 0 && to >= 0) d->path[i] = common_path(d->path[from], d->path[to]);
        if ((from < 0) != (to < 0)) d->path[i] = parent_of(d->path[from < 0 ? to : from]);
    }
}

static stw_status derive(const stw_graph *graph, stw_str *path, stw_arena scratch, stw_error *error) {
    derivation d = {.graph = graph, .path = path};
    TRY(stw_graph_backward(graph, &scratch, &d.backward, error));
    STW_TRY_NEW(&scratch, d.known, graph->N, error);
    STW_TRY_NEW(&scratch, d.from, graph->N, error);
    STW_TRY_NEW(&scratch, d.to, graph->N, error);
    find_readers(&d);
    for (int32_t i = 0; i < graph->N; i++) d.to[i] = graph->updates[i] >= 0 ? i : -1;
    find_gradients(&d);
    find_between(&d);
    return STW_OK;
}

stw_status stw_graph_paths(const stw_graph *graph, stw_arena *arena, stw_str **out, stw_error *error) {
    stw_str *path;
    bool stated = false;
    STW_TRY_NEW(arena, path, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const bool resident = stw_node_is_resident(graph->kind[i]);
        path[i] = resident ? path_of_resident(graph, i) : graph->module[i];
        stated |= !resident && graph->module[i].length > 0;
    }
    if (!stated) TRY(derive(graph, path, *arena, error));
    for (int32_t i = 0; i < graph->N; i++) path[i] = path[graph->root[i]];
    *out = path;
    return STW_OK;
}

stw_status stw_graph_backward(const stw_graph *graph, stw_arena *arena, bool **out, stw_error *error) {
    bool *backward;
    STW_TRY_NEW(arena, backward, graph->N, error);
    const int32_t loss = graph->loss >= 0 ? graph->root[graph->loss] : -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        backward[i] = graph->updates[i] >= 0;
        for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1] && !backward[i]; k++)
            backward[i] = graph->read[k].node == loss || backward[graph->read[k].node];
        if (loss >= 0 && i > loss && !backward[i]) backward[i] = true; /* the way of a gradient begins with a one */
    }
    *out = backward;
    return STW_OK;
}

/* ---- the tree ---- */

/* "3" or "layer_3". */
static bool is_numbered(stw_str part) {
    int64_t rest = part.length;
    while (rest > 0 && part.p[rest - 1] >= '0' && part.p[rest - 1] <= '9') rest--;
    return rest < part.length && (rest == 0 || part.p[rest - 1] == '_');
}

typedef struct {
    stw_module_tree *tree;
    stw_names part; /* modules by the last part of their path; a scope is a parent */
} grower;

/* The module of a path; if it may not `grow`, the smallest that is there. */
static stw_status walk(grower *g, stw_str path, bool grow, int32_t *out, stw_error *error) {
    stw_module_tree *tree = g->tree;
    int32_t at = 0;
    for (int64_t begin = 0; begin < path.length;) {
        const char *dot = memchr(path.p + begin, '.', (size_t)(path.length - begin));
        const int64_t end = dot != NULL ? dot - path.p : path.length;
        const stw_str part = {path.p + begin, end - begin};
        int32_t next = stw_names_find(&g->part, at, part);
        if (next < 0 && !grow) break;
        if (next < 0) {
            int32_t *number;
            TRY(stw_names_enter(&g->part, at, part, &number, error));
            next = *number = tree->count++;
            tree->parent[next] = at;
            tree->name[next] = (stw_str){path.p, end};
        }
        at = next;
        begin = end + 1;
    }
    *out = at;
    return STW_OK;
}

static void find_blocks(stw_module_tree *tree, int32_t *numbered) {
    for (int32_t k = 1; k < tree->count; k++) {
        const int64_t skip = tree->parent[k] > 0 ? tree->name[tree->parent[k]].length + 1 : 0;
        tree->is_block[k] = is_numbered((stw_str){tree->name[k].p + skip, tree->name[k].length - skip});
        numbered[tree->parent[k]] += tree->is_block[k];
        tree->has_modules[tree->parent[k]] = true;
    }
    for (int32_t k = 1; k < tree->count; k++) {
        tree->is_block[k] = tree->is_block[k] && numbered[tree->parent[k]] > 1;
        tree->has_deep[tree->parent[k]] |= tree->has_modules[k];
    }
}

stw_status stw_module_tree_build(const stw_graph *graph, const stw_str *path, stw_arena *arena, stw_module_tree *out,
                                 stw_error *error) {
    int64_t most = 1;
    grower g = {.tree = out};
    int32_t *numbered;
    *out = (stw_module_tree){.count = 1};
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i]) || path[i].length == 0) continue;
        most++;
        for (int64_t k = 0; k < path[i].length; k++) most += path[i].p[k] == '.';
    }
    if (most > INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "the labels of the parameters have more than 2^31 parts");
    STW_TRY_NEW(arena, out->name, most, error);
    STW_TRY_NEW(arena, out->parent, most, error);
    STW_TRY_NEW(arena, out->has_modules, most, error);
    STW_TRY_NEW(arena, out->has_deep, most, error);
    STW_TRY_NEW(arena, out->has_parameters, most, error);
    STW_TRY_NEW(arena, out->is_block, most, error);
    STW_TRY_NEW(arena, out->of, graph->N, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, numbered, most, error);
    TRY(stw_names_create(&scratch, most, &g.part, error));
    out->name[0] = STW_STR("");
    out->parent[0] = -1;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) continue;
        TRY(walk(&g, path[i], true, &out->of[i], error));
        out->has_parameters[out->of[i]] = true;
    }
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) TRY(walk(&g, path[i], false, &out->of[i], error));
    }
    find_blocks(out, numbered);
    return STW_OK;
}
