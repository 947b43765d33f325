/* Makes a graph, whatever the format: a reader says how many nodes there are, adds them in topological order, ids counting from
 * 0, and finishes. Sizes, classes, updates and edges get their place in the graph here and nowhere else.
 *
 * Messages are about the node and leave it to the reader to say which one it is, and where it stands in its file. */
#ifndef STW_GRAPH_CONSTRUCT_H
#define STW_GRAPH_CONSTRUCT_H

#include "base/vector.h"
#include "graph/graph.h"

enum { STW_UNKNOWN = -1, STW_MAX_TIMED_KINDS = 64 };

typedef struct stw_raw_node { /* what a file says of a node alone */
    stw_node_kind kind;
    stw_str name;         /* may be empty in a stw_builder: it gets the operator's name and its position */
    stw_str op;           /* as written in the file */
    stw_str label;        /* of parameters: the module path, such as "encoder.0.weight"; else empty */
    stw_str module;       /* of ops: the path of their module, or empty */
    stw_str attributes;   /* JSON text of an object, or empty */
    int32_t dtype;        /* stw_dtype_*; STW_UNKNOWN: not known */
    const int64_t *shape; /* copied by stw_builder_add; borrowed when set through stw_builder_node */
    int32_t rank;         /* STW_UNKNOWN: the shape is not known */
    int64_t bytes;        /* of the output; STW_UNKNOWN: of shape and dtype, 0 if they are not known */
    int64_t flops;        /* multiply and add count as two; STW_UNKNOWN: not known */
    int64_t moved;        /* bytes read and written, where that is not inputs + output (a loop); STW_UNKNOWN: as usual */
    int64_t at;           /* offset in the file, for messages; STW_UNKNOWN: none */
    int32_t op_class;     /* stw_op_class; STW_UNKNOWN: of an operator that nobody knows. A stw_builder looks such a one up */
    bool stays;           /* as the graph has it */
    const char *apart;    /* the same */

    /* What only a stw_builder hands on. */
    stw_carried carried; /* as the graph has it, which has it if any node names a device */
    stw_flow flow;       /* as the graph has it, which has none unless stw_builder_keep_flow is called */
    int32_t result;      /* of a view: 1 + the result of an op with several that it shows; 0: the whole */
    int32_t fused, body; /* 1 + its place among the insides; 0: it has none */
} stw_raw_node;

typedef struct stw_raw_links { /* how it hangs together with others, by id */
    const int64_t *input;      /* (input_count) earlier nodes, in argument order; of a view, its root stands behind the first */
    const int64_t *control;    /* (control_count) earlier nodes that an op begins after */
    int64_t input_count, control_count;
    int32_t updates;  /* the earlier parameter or buffer, or a view of it, that an op writes in place; -1: none */
    int32_t colocate; /* any node; -1: none */
} stw_raw_links;

typedef struct stw_constructor {
    stw_graph *graph;
    int32_t count;       /* of nodes so far */
    int64_t total_bytes; /* of their tensors */
    int32_t *root;       /* (N) as the graph has it in the end */
    const char *remedy;  /* what the message about a shape that is too large ends with; a reader may set it */
    stw_vector shape, input, control;
    stw_str kind_name[STW_MAX_TIMED_KINDS];
    double *us[STW_MAX_TIMED_KINDS];
} stw_constructor;

/* An empty graph with an arena of its own, which strings go into. */
stw_status stw_graph_create(stw_graph **out, stw_error *error);
/* Of `count` nodes; `scratch` must last to the end. */
stw_status stw_construct_begin(stw_constructor *c, stw_graph *graph, int64_t count, stw_arena *scratch, stw_error *error);
/* Its strings must be in the graph's arena, or always be there. Sources have no need to wait; a view that must wait becomes an op
 * that takes no time. Of several ops that write one parameter the last counts; the others stay on its device. */
stw_status stw_construct_node(stw_constructor *c, const stw_raw_node *node, const stw_raw_links *links, stw_error *error);
/* The measured times of a kind of device: (N) microseconds, NaN until the reader puts one in. */
stw_status stw_construct_times(stw_constructor *c, stw_str device_kind, double **out, stw_error *error);
/* All nodes are there: the lists, then everything that is derived. `output`: nodes. */
stw_status stw_construct_finish(stw_constructor *c, const int64_t *output, int64_t output_count, stw_error *error);

#endif
