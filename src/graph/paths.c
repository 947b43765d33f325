#include "graph/paths.h"

#include <string.h>

#include "base/array.h"

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
    stw_arena *arena; /* of paths that no label has */
    stw_str *path;    /* (N) */
    bool *known;      /* (N) it is sure where the op belongs */
    bool *backward;   /* (N) */
    int32_t *from;    /* (N) the op that is known and was met last on the way to this one; -1: none */
    int32_t *to;      /* (N) the one that is met next on the way from it; -1: none */
    int32_t *first;   /* (N) of parameters: the op that reads it first; -1: none */
    int32_t *again;   /* (N) of parameters: the first op far behind that, which uses it for something else; -1: none */
    int32_t *used;    /* (N) of ops: the parameter that is used again, together with what they make; -1: none */
    int32_t *updated; /* (N) of ops on the way of a gradient: the parameter whose update it leads to; -1: none */
} derivation;

/* Of what an op reads the op that comes last; -1: none. */
static int32_t last_source(const stw_graph *graph, int32_t i) {
    int32_t last = -1;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++)
        if (graph->kind[graph->read[k].node] == STW_NODE_OP) last = graph->read[k].node; /* ascending */
    return last;
}

static int32_t met_last(const derivation *d, int32_t i) {
    const int32_t last = last_source(d->graph, i);
    return last < 0 ? -1 : d->from[last];
}

/* A head whose weight is that of its embedding: another class of op than the first that reads the weight, on what a module of
 * other parameters made behind that one. Where the class is the same a module is called several times. Of the backward pass what
 * does the same. */
static bool is_tied(const derivation *d, int32_t i, int32_t parameter) {
    const uint8_t *op_class = d->graph->op_class;
    const int32_t first = d->first[parameter], again = d->again[parameter], last = d->from[i];
    if (d->backward[i]) return again >= 0 && op_class[i] == op_class[again];
    return first >= 0 && last > first && op_class[i] != op_class[first] && !stw_path_is_within(d->path[last], d->path[parameter]);
}

/* Such an op is a module of its own, "wte_tied", in the smallest that holds the parameter and what it reads. */
static stw_status name_tied(derivation *d, int32_t i, int32_t parameter, stw_error *error) {
    const stw_str path = d->path[parameter], around = common_path(d->path[d->from[i]], path);
    const int64_t skip = parent_of(path).length + (parent_of(path).length > 0);
    d->path[i] = stw_str_format(d->arena, "%.*s%s%.*s_tied", (int)around.length, around.p, around.length > 0 ? "." : "",
                                (int)(path.length - skip), path.p + skip);
    return d->path[i].p != NULL ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

/* The first parameter that an op reads, else -1; in `tied` one that it uses again. */
static int32_t find_parameter(derivation *d, int32_t i, int32_t *tied) {
    const stw_graph *graph = d->graph;
    int32_t found = -1;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
        const int32_t node = graph->read[k].node;
        if (!stw_node_is_resident(graph->kind[node]) || !is_path(graph->label[node])) continue;
        if (is_tied(d, i, node)) *tied = node;
        if (d->first[node] < 0) d->first[node] = i;
        if (found < 0) found = node;
    }
    return found;
}

static stw_status take_tied(derivation *d, int32_t i, int32_t parameter, stw_error *error) {
    const stw_graph *graph = d->graph;
    TRY(name_tied(d, i, parameter, error));
    if (d->again[parameter] < 0) d->again[parameter] = i;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++)
        if (graph->kind[graph->read[k].node] == STW_NODE_OP) d->used[graph->read[k].node] = parameter;
    return STW_OK;
}

/* What reads a parameter, and updates. */
static stw_status find_readers(derivation *d, stw_error *error) {
    const stw_graph *graph = d->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        int32_t tied = -1;
        d->from[i] = met_last(d, i);
        const int32_t source = graph->updates[i] >= 0 ? graph->updates[i] : find_parameter(d, i, &tied);
        if (tied >= 0 && !d->backward[i])
            TRY(take_tied(d, i, tied, error));
        else if (source >= 0)
            d->path[i] = d->path[tied >= 0 ? d->again[tied] : source];
        d->known[i] = source >= 0;
        if (d->known[i]) d->from[i] = i;
    }
    return STW_OK;
}

/* Of the gradient of a parameter that is used again the part that comes from there: it takes what that use reads, too. */
static bool is_of_tied(const derivation *d, int32_t i, int32_t parameter) {
    const stw_graph *graph = d->graph;
    bool found = false;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) found |= d->used[graph->read[k].node] == parameter;
    return found;
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
        d->updated[i] = d->updated[graph->reader[first].node];
        const bool tied = d->updated[i] >= 0 && is_of_tied(d, i, d->updated[i]);
        d->path[i] = d->path[tied ? d->again[d->updated[i]] : graph->reader[first].node];
        d->to[i] = i;
    }
}

/* The rest lies between what is known. */
static void find_between(derivation *d) {
    const stw_graph *graph = d->graph;
    for (int32_t i = 0; i < graph->N; i++) d->from[i] = d->known[i] ? i : met_last(d, i);
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

static stw_status derive_in(derivation *d, stw_arena *scratch, stw_error *error) {
    const stw_graph *graph = d->graph;
    TRY(stw_graph_backward(graph, scratch, &d->backward, error));
    STW_TRY_NEW(scratch, d->known, graph->N, error);
    STW_TRY_NEW(scratch, d->from, graph->N, error);
    STW_TRY_NEW(scratch, d->to, graph->N, error);
    STW_TRY_NEW(scratch, d->first, graph->N, error);
    STW_TRY_NEW(scratch, d->again, graph->N, error);
    STW_TRY_NEW(scratch, d->used, graph->N, error);
    STW_TRY_NEW(scratch, d->updated, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        d->from[i] = d->first[i] = d->again[i] = d->used[i] = -1;
        d->to[i] = graph->updates[i] >= 0 ? i : -1;
        d->updated[i] = graph->updates[i];
    }
    TRY(find_readers(d, error));
    find_gradients(d);
    find_between(d);
    return STW_OK;
}

/* New paths are in `arena`. */
static stw_status derive(const stw_graph *graph, stw_str *path, stw_arena *arena, stw_error *error) {
    derivation d = {.graph = graph, .path = path, .arena = arena};
    stw_arena scratch;
    TRY(stw_arena_create(&scratch, error));
    const stw_status status = derive_in(&d, &scratch, error);
    stw_arena_destroy(&scratch);
    return status;
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
    if (!stated) TRY(derive(graph, path, arena, error));
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

/* ---- trees of paths ---- */

stw_status stw_path_tree_create(stw_arena *arena, stw_path_tree *out, stw_error *error) {
    *out = (stw_path_tree){.arena = arena, .count = 1};
    TRY(stw_names_create(arena, 256, &out->part, error));
    TRY(STW_GROW(arena, out->path, 1, out->path_room, error));
    TRY(STW_GROW(arena, out->parent, 1, out->parent_room, error));
    out->path[0] = STW_STR("");
    out->parent[0] = -1;
    return STW_OK;
}

static stw_status add_part(stw_path_tree *tree, int32_t parent, stw_str part, stw_str path, int32_t *out, stw_error *error) {
    int32_t *number;
    if (tree->count == INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "the names of modules have more than 2^31 parts");
    TRY(stw_names_enter(&tree->part, parent, part, &number, error));
    TRY(STW_GROW(tree->arena, tree->path, (int64_t)tree->count + 1, tree->path_room, error));
    TRY(STW_GROW(tree->arena, tree->parent, (int64_t)tree->count + 1, tree->parent_room, error));
    *out = *number = tree->count++;
    tree->parent[*out] = parent;
    tree->path[*out] = path;
    return STW_OK;
}

stw_status stw_path_tree_walk(stw_path_tree *tree, stw_str path, char separator, int32_t levels, bool grow, int32_t *out,
                              stw_error *error) {
    int32_t at = 0;
    for (int64_t begin = 0; begin < path.length && levels > 0; levels--) {
        const int64_t from = begin == 0 ? 1 : begin; /* no part is empty at the beginning */
        const char *next = memchr(path.p + from, separator, (size_t)(path.length - from));
        const int64_t end = next != NULL ? next - path.p : path.length;
        const stw_str part = {path.p + begin, end - begin};
        int32_t inner = stw_names_find(&tree->part, at, part);
        if (inner < 0 && !grow) break;
        if (inner < 0) TRY(add_part(tree, at, part, (stw_str){path.p, end}, &inner, error));
        at = inner;
        begin = end + 1;
    }
    *out = at;
    return STW_OK;
}

/* ---- modules that hold parameters ---- */

/* "3" or "layer_3". */
static bool is_numbered(stw_str part) {
    int64_t rest = part.length;
    while (rest > 0 && part.p[rest - 1] >= '0' && part.p[rest - 1] <= '9') rest--;
    return rest < part.length && (rest == 0 || part.p[rest - 1] == '_');
}

/* holds: (count) parameters lie in it. Those that use parameters of others alone do not count. */
static void find_blocks(stw_module_tree *tree, const bool *holds, int32_t *numbered) {
    for (int32_t k = 1; k < tree->count; k++) {
        const int64_t skip = tree->parent[k] > 0 ? tree->name[tree->parent[k]].length + 1 : 0;
        tree->is_block[k] = holds[k] && is_numbered((stw_str){tree->name[k].p + skip, tree->name[k].length - skip});
        numbered[tree->parent[k]] += tree->is_block[k];
        tree->has_modules[tree->parent[k]] |= holds[k];
    }
    for (int32_t k = 1; k < tree->count; k++) {
        tree->is_block[k] = tree->is_block[k] && numbered[tree->parent[k]] > 1;
        tree->has_deep[tree->parent[k]] |= tree->has_modules[k];
    }
}

/* It reads a parameter of another module. */
static bool reads_elsewhere(const stw_graph *graph, const stw_str *path, int32_t i) {
    bool found = false;
    for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
        const int32_t node = graph->read[k].node;
        found |= stw_node_is_resident(graph->kind[node]) && !stw_path_is_within(path[node], path[i]);
    }
    return found;
}

stw_status stw_module_tree_build(const stw_graph *graph, const stw_str *path, stw_arena *arena, stw_module_tree *out,
                                 stw_error *error) {
    stw_path_tree tree;
    int32_t *numbered;
    bool *holds;
    *out = (stw_module_tree){0};
    TRY(stw_path_tree_create(arena, &tree, error));
    STW_TRY_NEW(arena, out->of, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        const bool grows = stw_node_is_resident(graph->kind[i]);
        if (grows) TRY(stw_path_tree_walk(&tree, path[i], '.', INT32_MAX, true, &out->of[i], error));
    }
    for (int32_t i = 0; i < graph->N; i++) {
        const bool grows = graph->kind[i] == STW_NODE_OP && reads_elsewhere(graph, path, i);
        if (grows) TRY(stw_path_tree_walk(&tree, path[i], '.', INT32_MAX, true, &out->of[i], error));
    }
    out->count = tree.count;
    out->name = tree.path;
    out->parent = tree.parent;
    STW_TRY_NEW(arena, out->has_modules, out->count, error);
    STW_TRY_NEW(arena, out->has_deep, out->count, error);
    STW_TRY_NEW(arena, out->has_parameters, out->count, error);
    STW_TRY_NEW(arena, out->is_block, out->count, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_node_is_resident(graph->kind[i])) {
            out->has_parameters[out->of[i]] = true;
        } else {
            TRY(stw_path_tree_walk(&tree, path[i], '.', INT32_MAX, false, &out->of[i], error));
        }
    }
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, numbered, out->count, error);
    STW_TRY_NEW(&scratch, holds, out->count, error);
    for (int32_t k = out->count - 1; k > 0; k--) {
        holds[k] |= out->has_parameters[k];
        holds[out->parent[k]] |= holds[k];
    }
    find_blocks(out, holds, numbered);
    return STW_OK;
}
