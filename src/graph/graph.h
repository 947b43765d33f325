/* The graph: the operators of one step in flat arrays. N nodes in topological order; a node's id is its index.
 *
 * Two levels. What the file says: nodes with their inputs in argument order, views included. What execution needs: ops and
 * sources alone, views resolved to their roots, each (producer, reader, view) once, in both directions. */
#ifndef STW_GRAPH_GRAPH_H
#define STW_GRAPH_GRAPH_H

#include "base/str.h"
#include "graph/ops.h"

/* Kinds of nodes, with the names that they have for users. An op computes; a view is a free alias of its first input; the others
 * are sources, and in an opgraph file their kind is their operator. */
#define STW_NODE_KINDS(X)     \
    X(OP, "op")               \
    X(VIEW, "view")           \
    X(PARAMETER, "parameter") \
    X(BUFFER, "buffer")       \
    X(INPUT, "input")         \
    X(CONSTANT, "constant")

typedef enum stw_node_kind {
#define STW_ROW(id, name) STW_NODE_##id,
    STW_NODE_KINDS(STW_ROW)
#undef STW_ROW
        STW_NODE_KIND_COUNT
} stw_node_kind;

typedef struct stw_use { /* one reader of one value */
    int32_t node;        /* producer, in `reads`; reader, in `readers` */
    int32_t view;        /* the view node that is read, or -1 for the value itself */
} stw_use;

/* What an op does with the elements that it moves, as far as the time of its kernel goes by it (cost/kernel_features.h). */
#define STW_FORMS(X)                                        \
    X(PLAIN) /* element by element */                       \
    X(BROADCAST)                                            \
    X(IOTA)                                                 \
    X(FEW)     /* folds so few values that a loop does */   \
    X(ROWS)    /* folds what lies side by side in memory */ \
    X(COLUMNS) /* folds what does not */                    \
    X(TRANSPOSE)                                            \
    X(SLICE)                                                \
    X(DYNAMIC_SLICE)                                        \
    X(UPDATE)                                               \
    X(PAD)                                                  \
    X(CONCATENATE)                                          \
    X(GATHER)                                               \
    X(SCATTER)                                              \
    X(PRODUCT)                                              \
    X(CONVOLUTION)                                          \
    X(INPUT_GRADIENT)  /* of a convolution */               \
    X(KERNEL_GRADIENT) /* likewise */                       \
    X(OTHER)

typedef enum stw_form_sort {
#define STW_ROW(id) STW_FORM_##id,
    STW_FORMS(STW_ROW)
#undef STW_ROW
        STW_FORM_COUNT
} stw_form_sort;

typedef struct stw_form {
    float minor;      /* elements of the fastest dimension of its output */
    float from_minor; /* the same of its first input */
    float folded;     /* values that make one of its output: of a reduction, a product, a convolution; else 1 */
    float wide;       /* of a product its columns, of a convolution its output features, of a reduction over COLUMNS the elements
                         that lie side by side; else 1 */
    uint8_t sort;     /* stw_form_sort */
    uint8_t from;     /* stw_dtype_* of its first input */
    bool call;        /* it is a call of a library */
} stw_form;

typedef struct stw_flow { /* how an op's kernel walks its tensors */
    stw_form form;        /* of an op that is no fusion */
    int64_t row;          /* it works row by row, on rows of this length; 0: not so */
    bool by_element;      /* an element of its output takes one of each input: of a larger input a part is read, a smaller one
                             again and again. Else each input is read once */
    bool dear;            /* an element takes many instructions */
    bool alone;           /* its kernel takes nothing in */
    bool folds;           /* it makes one element of each row; what follows can be in its kernel only row by row */
    bool slices;          /* of its first input it reads at most as much as it hands on */
    bool in_place;        /* it writes its second input over a part of the first, and touches no more than that */

    /* What its compiler wants of a kernel that it is in (plan/kernel_rules.h). */
    uint64_t loop;         /* the sizes that its results are computed over, as one number */
    int64_t loop_elements; /* their product */
    bool in_order;         /* it walks them as they lie in memory */
    bool reduces;          /* threads work together on its results, as reductions do */
    bool keeps;            /* one of its results is read by nobody and written all the same */
    bool scatters;         /* it writes here and there over one of its inputs */
    int32_t overwrites;    /* the input, counted from 1, that it may write its result over; 0: none */
} stw_flow;

/* A node that is a fused kernel in its file: the ops inside. A group of such nodes is one kernel of all their parts, and costs
 * the same as the fusion that an exporter makes of it. */
/* What an op needs of an input, to compute itself once. */
typedef enum stw_take {
    STW_TAKE_ALL,
    STW_TAKE_EACH,  /* an element for each of its own, some again and again */
    STW_TAKE_SLICE, /* the same, but none twice */
    STW_TAKE_NONE   /* it is written over; all of it where that is not so, as it was made within the kernel */
} stw_take;
typedef struct stw_part_read {
    int32_t from; /* an earlier part; else -1 - its place among the node's inputs */
    uint8_t take; /* stw_take */
} stw_part_read;
typedef struct stw_part {
    double elements; /* of its output */
    int64_t flops;
    int64_t bytes;    /* that it writes where its output leaves the kernel */
    int64_t in_place; /* the same where it writes over an input of the kernel; -1: it does not */
    int64_t read_first, read_count;
    uint8_t op_class, dtype;
    bool dear, folds; /* as in stw_flow */
    stw_form form;
} stw_part;
typedef struct stw_part_result { /* of a kernel */
    int32_t part;                /* that makes it; else -1 - the place of the input that is handed on; INT32_MIN: a constant is */
    int64_t bytes;
} stw_part_result;
typedef struct stw_kept_result { /* of a node with several results one that is written in any case: an output of the graph, or */
    int32_t node, result;        /* taken out of it, and read by nobody */
    int64_t bytes;
} stw_kept_result;
typedef struct stw_fused_kernel {
    int64_t part_first, part_count, result_first, result_count;
} stw_fused_kernel;

/* A node that is several kernels: a loop, a branch, a call. */
typedef struct stw_work_row { /* of one kernel, by class and dtype of the ops in it */
    uint8_t op_class, dtype;
    double flops, again; /* again: repeated, which adds to the kernel's time */
    double bytes;        /* from and to memory */
} stw_work_row;
typedef struct stw_body_step { /* of a body */
    double times;
    int32_t body; /* an earlier one; -1: a kernel */
    bool is_op;   /* a kernel of one op, which is not fused: one row */
    int64_t work_first, work_count;
} stw_body_step;
typedef struct stw_body {
    int64_t first, count; /* steps */
    bool dearest;         /* one of its steps is taken, the dearest; else all */
} stw_body;

typedef struct stw_carried { /* what an exported model says of an op, a parameter or a buffer */
    stw_str device;          /* its name; empty: nothing is said */
    double priority;
    int64_t place; /* in its device's strict order, counted from 1; 0: in none */
} stw_carried;

struct stw_graph {
    stw_arena arena; /* owns everything below */
    stw_str name, family;
    int32_t N;
    int32_t op_count;
    int32_t loss; /* node id or -1 */
    char fingerprint[33];
    stw_machine *machine; /* that came with the file, owned; else NULL */
    double size_scale;  /* sizes and memories are this many times those in the file, whose unit outputs do not have; 0: not so */
    stw_str open_sizes; /* which sizes the file leaves open, so that they count as 1, and how to give them; else empty */
    int64_t partitions; /* that a compiler has cut the program into, this being one; 0: not said */

    /* As read, per node. */
    stw_str *node_name;   /* (N) */
    stw_str *op_name;     /* (N) as written in the file */
    stw_str *label;       /* (N) of parameters, else empty */
    stw_str *module;      /* (N) of ops: the path of their module ("encoder.0.fc"), else empty; no part of the fingerprint */
    stw_str *attributes;  /* (N) JSON text of an object, else empty */
    uint8_t *kind;        /* (N) stw_node_kind */
    uint8_t *dtype;       /* (N) index for stw_dtype_* */
    uint8_t *op_class;    /* (N) stw_op_class; opaque for sources and unknown operators */
    bool *known;          /* (N) the operator is in the table */
    int64_t *bytes;       /* (N) what the output occupies; a view: product of its shape x size of its dtype */
    int64_t *flops;       /* (N) */
    int64_t *moved;       /* (N) bytes read and written, where that is not inputs + output (a loop), else -1; NULL: all are -1 */
    int32_t *origin;      /* (N) where the reader found it: its position among the builder's nodes; NULL: none of a builder */
    int64_t *at;          /* (N) the same in bytes: its offset in the model file, unpacked, else -1; NULL: all are -1 */
    int32_t *updates;     /* (N) the parameter or buffer that this op writes, else -1 */
    int32_t *colocate;    /* (N) a node on the same device, else -1 */
    uint64_t *allowed;    /* (N) a bit for each device that a node may be on, the same for all that must be together; NULL: any */
    int32_t *kept_apart;  /* (N) no kernel has ops of which this differs; NULL: it is the same for all */
    bool *stays;          /* (N) it may take other ops into its kernel, but goes into none of theirs */
    const char **apart;   /* (N) why an op is in no kernel with others ("is a loop"), or NULL; of a view: why no kernel reads
                             through it what it makes itself. Texts that are always there */
    stw_carried *carried; /* (N) the plan that is in the file, or NULL: none is. No part of the fingerprint */
    stw_flow *flow;       /* (N), or NULL where the file's compiler is not known to care */
    int32_t *shape_start; /* (N + 1) into shape */
    int64_t *shape;
    int32_t *input_start;   /* (N + 1) into input */
    int32_t *input;         /* ids in argument order, repeats possible */
    int32_t *control_start; /* (N + 1) into control */
    int32_t *control;
    int32_t *hold_start; /* (N + 1) into hold, or NULL: none */
    int32_t *hold;       /* ops that read what this op writes over, and others that stay before it: no part of the fingerprint */
    int32_t output_count;
    int32_t *output;
    int32_t kind_count; /* kinds of devices with measured times in the file */
    stw_str *kind_name; /* (kind_count) */
    double **us;        /* (kind_count)(N) microseconds, NaN where not measured */

    /* What is inside of nodes, and what it takes to see that as kernels (kernel.h). */
    double *elements;        /* (N), or NULL without flow: of its output */
    int32_t *result_of;      /* (N), or NULL without flow: of a view the result of its root that it shows; -1: the whole */
    int32_t *first_view;     /* (N), likewise: of a view the first one behind its root */
    int32_t *fused_of;       /* (N), likewise: into fused; -1: the node is a single op */
    stw_fused_kernel *fused; /* nodes that call the same computation share it */
    stw_part *part;
    stw_part_read *part_read;
    stw_part_result *result;
    int32_t kept_count;                 /* without flow 0 */
    stw_kept_result *kept_result;       /* (kept_count) sorted */
    int64_t kernel_units, kernel_reads; /* the most that a group of ops can have */
    int32_t *body_of;                   /* (N), or NULL where no node has one: a body, or -1 */
    int32_t body_count;
    stw_body *body;
    stw_body_step *step;
    stw_work_row *work;
    int32_t open_loops; /* loops in the file that do not say how often they run */

    /* Derived. */
    int32_t *root;         /* (N) itself, or the first non-view up the chain of first inputs */
    int32_t *updated_by;   /* (N) the op that updates this parameter or buffer, else -1 */
    bool *kept;            /* (N) it, or a view of it, is a graph output */
    int32_t *read_start;   /* (N + 1) into read; only ops have reads */
    stw_use *read;         /* distinct (producer root, view) pairs of an op, sorted by producer, then view */
    int32_t *reader_start; /* (N + 1) into reader; only ops and sources have readers */
    stw_use *reader;       /* distinct (reader op, view) pairs of a value, sorted by view, then reader */
    int32_t *wait_start;   /* (N + 1) into wait */
    int32_t *wait;         /* ops that must finish before this op begins, beside its producers; ascending, distinct */
    int32_t *topological;  /* (op_count) op ids, smallest id first among those that are free to go */
};

static inline bool stw_node_is_source(uint8_t kind) { return kind >= STW_NODE_PARAMETER; }
/* Parameters and buffers live on one device; inputs and constants are everywhere. */
static inline bool stw_node_is_resident(uint8_t kind) { return kind == STW_NODE_PARAMETER || kind == STW_NODE_BUFFER; }
static inline bool stw_node_is_everywhere(uint8_t kind) { return kind == STW_NODE_INPUT || kind == STW_NODE_CONSTANT; }
static inline int64_t stw_graph_moved(const stw_graph *graph, int32_t node) {
    return graph->moved != NULL ? graph->moved[node] : -1;
}
static inline int64_t stw_graph_at(const stw_graph *graph, int32_t node) { return graph->at != NULL ? graph->at[node] : -1; }
static inline int32_t stw_graph_origin(const stw_graph *graph, int32_t node) {
    return graph->origin != NULL ? graph->origin[node] : -1;
}
const char *stw_node_kind_name(uint8_t kind);
stw_node_kind stw_node_source_find(stw_str name); /* STW_NODE_OP: no source is called so */

/* Elements of a node's output: the product of its shape, as far as doubles go. */
static inline double stw_graph_elements(const stw_graph *graph, int32_t node) {
    double elements = 1.0;
    for (int64_t k = graph->shape_start[node]; k < graph->shape_start[node + 1]; k++) elements *= (double)graph->shape[k];
    return elements;
}

/* Bytes of memory as the file counts them, for people. */
static inline int64_t stw_graph_size(const stw_graph *graph, int64_t bytes) {
    return graph->size_scale > 0.0 ? (int64_t)((double)bytes / graph->size_scale) : bytes;
}
extern const char stw_apart_control[]; /* for `apart`: of class control, or with another class for its price alone */

/* Readers refuse more bytes of tensors than this, so that sums over values and devices never leave 63 bits. */
#define STW_GRAPH_MAX_BYTES ((int64_t)1 << 56)

/* Microseconds (23 days): the longest time of one op that is taken, and the most that all ops of a graph may take together, each
 * where it is slowest. The simulator's clock (2^62 ps, 53 days) holds it, and sums of times stay far below what list schedulers
 * take for "never" (STW_FAR_US and the like). */
#define STW_GRAPH_MAX_US 2e12

/* Data types; those without a name here follow in graph.c. */
enum { STW_DTYPE_NONE, STW_DTYPE_F32, STW_DTYPE_F16, STW_DTYPE_BF16, STW_DTYPE_F64 };
int32_t stw_dtype_find(stw_str name); /* -1 if unknown */
const char *stw_dtype_name(int32_t dtype);
int64_t stw_dtype_bytes(int32_t dtype);
extern const char stw_dtype_list[]; /* for messages */

/* Makes room for the "as read" half of `count` nodes; lists of unknown length (shape, input, control, output, us) come later. */
stw_status stw_graph_allocate(stw_graph *graph, int64_t count, stw_error *error);

/* The most entries of one list of a graph (inputs, readers, dimensions ...), so that where a node's begin, and sums of several
 * such places, are 32-bit numbers: memory ends long before. */
#define STW_GRAPH_MAX_LINKS ((int64_t)1 << 29)
/* Fails if there are more; `what` they are, for the message. */
stw_status stw_graph_check_links(int64_t count, const char *what, stw_error *error);

/* The derived half (derive.c), step by step; construct.h takes them all. */
stw_status stw_graph_build_edges(stw_graph *graph, stw_error *error); /* root, read, reader, kept */
stw_status stw_graph_build_waits(stw_graph *graph, stw_error *error); /* control edges, holds and update waits */
stw_status stw_graph_build_topological(stw_graph *graph, stw_error *error);
stw_status stw_graph_build_fingerprint(stw_graph *graph, stw_error *error);

#endif
