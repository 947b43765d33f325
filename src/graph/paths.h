/* Modules: the path of each op and parameter, and the tree of those that hold parameters. */
#ifndef STW_GRAPH_PATHS_H
#define STW_GRAPH_PATHS_H

#include "base/index.h"
#include "graph/graph.h"

/* (N) the path of the module that a node belongs to: of parameters and buffers by their labels, of ops as the file says. Where it
 * says nothing of any op, what reads a parameter belongs where that lies, so does the way of a gradient to its update, and
 * everything between two of them belongs to the smallest module that holds both. A head that is tied to its embedding "m.wte" is
 * a module of its own, "m.wte_tied", with its part of the gradient. Views have that of their root. */
stw_status stw_graph_paths(const stw_graph *graph, stw_arena *arena, stw_str **out, stw_error *error);

/* Most labels of the graph, of which there is at least one, are paths of PyTorch modules, which have neither '/' nor ':' in their
 * names. */
bool stw_graph_has_paths(const stw_graph *graph);
/* `path` is `module` or lies within; everything lies within "". */
bool stw_path_is_within(stw_str path, stw_str module);

/* (N) the op depends on the loss: it is of the backward pass, or an update. */
stw_status stw_graph_backward(const stw_graph *graph, stw_arena *arena, bool **out, stw_error *error);

typedef struct stw_path_tree { /* paths by their parts; it grows */
    stw_arena *arena;
    stw_names part; /* by the last part of their path; a scope is a parent */
    int32_t count;  /* parents first; 0 is "", in which everything lies */
    int64_t path_room, parent_room;
    stw_str *path;   /* (count) whole paths */
    int32_t *parent; /* (count) -1 for "" */
} stw_path_tree;
stw_status stw_path_tree_create(stw_arena *arena, stw_path_tree *out, stw_error *error);
/* Where a path lies: in the tree as it is, or, if it may `grow`, itself. A separator at the beginning belongs to the first part;
 * parts beyond so many levels are left out. */
stw_status stw_path_tree_walk(stw_path_tree *tree, stw_str path, char separator, int32_t levels, bool grow, int32_t *out,
                              stw_error *error);

typedef struct stw_module_tree {
    int32_t count;        /* modules with parameters inside, and those that use parameters of others; parents first; 0 is the
                             whole model, "" */
    stw_str *name;        /* (count) whole paths */
    int32_t *parent;      /* (count) -1 for the whole */
    bool *has_modules;    /* (count) some with parameters inside are within it */
    bool *has_deep;       /* (count) and within one of these */
    bool *has_parameters; /* (count) of its own */
    bool *is_block;       /* (count) called by a number ("layers.3", "encoder_layer_3"), as a sibling of it is too */
    int32_t *of;          /* (N) the smallest that a node belongs to; 0 for what belongs nowhere */
} stw_module_tree;

/* path: (N) of stw_graph_paths. */
stw_status stw_module_tree_build(const stw_graph *graph, const stw_str *path, stw_arena *arena, stw_module_tree *out,
                                 stw_error *error);

#endif
