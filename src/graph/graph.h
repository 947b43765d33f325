/* The graph: the operators of one step in flat arrays. N nodes in topological order; a node's id is its index.
 *
 * Two levels. What the file says: nodes with their inputs in argument order, views included. What execution needs: ops and
 * sources alone, views resolved to their roots, each (producer, reader, view) once, in both directions. */
#ifndef STW_GRAPH_GRAPH_H
#define STW_GRAPH_GRAPH_H

#include "base/str.h"
#include "graph/ops.h"

typedef enum stw_node_kind {
    STW_NODE_OP,        /* computes */
    STW_NODE_VIEW,      /* a free alias of its first input */
    STW_NODE_PARAMETER, /* sources from here on */
    STW_NODE_BUFFER,
    STW_NODE_INPUT,
    STW_NODE_CONSTANT
} stw_node_kind;

typedef struct stw_use { /* one reader of one value */
    int32_t node;        /* producer, in `reads`; reader, in `readers` */
    int32_t view;        /* the view node that is read, or -1 for the value itself */
} stw_use;

typedef struct stw_flow { /* how an op's kernel walks its tensors */
    int64_t row;          /* it works row by row, on rows of this length; 0: not so */
    bool by_element;      /* an element of its output takes one of each input: of a larger input a part is read, a smaller one
                             again and again. Else each input is read once */
    bool dear;            /* an element takes many instructions */
    bool alone;           /* its kernel takes nothing in */
    bool folds;           /* it makes one element of each row; what follows can be in its kernel only row by row */

    /* What its compiler wants of a kernel that it is in (plan/kernel_rules.h). */
    uint64_t loop;         /* the sizes that its results are computed over, as one number */
    int64_t loop_elements; /* their product */
    bool in_order;         /* it walks them as they lie in memory */
    bool reduces;          /* threads work together on its results, as reductions do */
    bool keeps;            /* one of its results is read by nobody and written all the same */
    bool scatters;         /* it writes here and there over one of its inputs */
    int32_t overwrites;    /* the input, counted from 1, that it may write its result over; 0: none */
} stw_flow;

struct stw_graph {
    stw_arena arena; /* owns everything below */
    stw_str name, family;
    int32_t N;
    int32_t op_count;
    int32_t loss; /* node id or -1 */
    char fingerprint[33];
    stw_machine *machine; /* that came with the file, owned; else NULL */

    /* As read, per node. */
    stw_str *node_name;   /* (N) */
    stw_str *op_name;     /* (N) as written in the file */
    stw_str *label;       /* (N) of parameters, else empty */
    stw_str *attributes;  /* (N) JSON text of an object, else empty */
    uint8_t *kind;        /* (N) stw_node_kind */
    uint8_t *dtype;       /* (N) index for stw_dtype_* */
    uint8_t *op_class;    /* (N) stw_op_class; opaque for sources and unknown operators */
    bool *known;          /* (N) the operator is in the table */
    int64_t *bytes;       /* (N) what the output occupies; a view: product of its shape x size of its dtype */
    int64_t *flops;       /* (N) */
    int64_t *moved;       /* (N) bytes read and written, where that is not inputs + output (a loop), else -1 */
    int32_t *origin;      /* (N) where the reader found it: its position among the builder's nodes, else -1 */
    int64_t *at;          /* (N) the same in bytes: its offset in the model file, unpacked, else -1 */
    int32_t *updates;     /* (N) the parameter or buffer that this op writes, else -1 */
    int32_t *colocate;    /* (N) a node on the same device, else -1 */
    bool *stays;          /* (N) it may take other ops into its kernel, but goes into none of theirs */
    const char **apart;   /* (N) why an op is in no kernel with others ("is a loop"), or NULL; of a view: why no kernel reads
                             through it what it makes itself. Texts that are always there */
    stw_flow *flow;       /* (N), or NULL where the file's compiler is not known to care */
    int64_t *shape_start; /* (N + 1) into shape */
    int64_t *shape;
    int64_t *input_start;   /* (N + 1) into input */
    int32_t *input;         /* ids in argument order, repeats possible */
    int64_t *control_start; /* (N + 1) into control */
    int32_t *control;
    int64_t *hold_start; /* (N + 1) into hold, or NULL: none */
    int32_t *hold;       /* ops that read what this op writes over, and others that stay before it: no part of the fingerprint */
    int32_t output_count;
    int32_t *output;
    int32_t kind_count; /* kinds of devices with measured times in the file */
    stw_str *kind_name; /* (kind_count) */
    double **us;        /* (kind_count)(N) microseconds, NaN where not measured */

    /* Derived. */
    int32_t *root;         /* (N) itself, or the first non-view up the chain of first inputs */
    int32_t *updated_by;   /* (N) the op that updates this parameter or buffer, else -1 */
    bool *kept;            /* (N) it, or a view of it, is a graph output */
    int64_t *read_start;   /* (N + 1) into read; only ops have reads */
    stw_use *read;         /* distinct (producer root, view) pairs of an op, sorted by producer, then view */
    int64_t *reader_start; /* (N + 1) into reader; only ops and sources have readers */
    stw_use *reader;       /* distinct (reader op, view) pairs of a value, sorted by view, then reader */
    int64_t *wait_start;   /* (N + 1) into wait */
    int32_t *wait;         /* ops that must finish before this op begins, beside its producers; ascending, distinct */
    int32_t *topological;  /* (op_count) op ids, smallest id first among those that are free to go */
};

static inline bool stw_node_is_source(uint8_t kind) { return kind >= STW_NODE_PARAMETER; }
/* Parameters and buffers live on one device; inputs and constants are everywhere. */
static inline bool stw_node_is_resident(uint8_t kind) { return kind == STW_NODE_PARAMETER || kind == STW_NODE_BUFFER; }
static inline bool stw_node_is_everywhere(uint8_t kind) { return kind == STW_NODE_INPUT || kind == STW_NODE_CONSTANT; }

/* Elements of a node's output: the product of its shape, as far as doubles go. */
static inline double stw_graph_elements(const stw_graph *graph, int32_t node) {
    double elements = 1.0;
    for (int64_t k = graph->shape_start[node]; k < graph->shape_start[node + 1]; k++) elements *= (double)graph->shape[k];
    return elements;
}

extern const char stw_apart_control[]; /* for `apart`: of class control, or with another class for its price alone */

/* Readers refuse more bytes of tensors than this, so that sums over values and devices never leave 63 bits. */
#define STW_GRAPH_MAX_BYTES ((int64_t)1 << 56)

/* Data types; those without a name here follow in dtype.c. */
enum { STW_DTYPE_NONE, STW_DTYPE_F32, STW_DTYPE_F16, STW_DTYPE_BF16, STW_DTYPE_F64 };
int32_t stw_dtype_find(stw_str name); /* -1 if unknown */
const char *stw_dtype_name(int32_t dtype);
int64_t stw_dtype_bytes(int32_t dtype);
extern const char stw_dtype_list[]; /* for messages */

/* Makes room for the "as read" half of `count` nodes; lists of unknown length (shape, input, control, output, us) come later. */
stw_status stw_graph_allocate(stw_graph *graph, int64_t count, stw_error *error);
/* Fills the derived half and checks what only the whole graph shows. Called by the readers in import/. */
stw_status stw_graph_finish(stw_graph *graph, stw_error *error);

/* Steps of stw_graph_finish, each in a file of its own. */
stw_status stw_graph_build_edges(stw_graph *graph, stw_error *error);       /* edges.c: root, read, reader, kept */
stw_status stw_graph_build_waits(stw_graph *graph, stw_error *error);       /* waits.c: control edges, holds and update waits */
stw_status stw_graph_build_topological(stw_graph *graph, stw_error *error); /* topological.c */
stw_status stw_graph_build_fingerprint(stw_graph *graph, stw_error *error); /* fingerprint.c */

#endif
