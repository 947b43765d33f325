/* Private to the ONNX reader. A file is a graph of nodes that read and write values by name. It is walked once in the order of
 * its inputs: each node gets its operator's rule (shapes.def), which tells the shapes of its outputs, what it computes and,
 * of small tensors of shape arithmetic, the very numbers. The nodes of the main graph become nodes of the builder; those of
 * bodies and functions become lists of kernels.
 *
 *     onnx.c       the model: functions, the main graph, its inputs with their shapes, stated or given
 *     onnx_graph.c   nodes and values of one graph by name; their order
 *     onnx_tensor.c  types and tensors; arithmetic on numbers that are known
 *     attribute.c  attributes of a node
 *     walk.c       one node after the other: its rule, what the file declares, what is folded; of the main graph: into the
 * builder body.c       If, Loop, Scan and functions: the kernels of their bodies rules_*.c    the rules */
#ifndef STW_IMPORT_ONNX_ONNX_H
#define STW_IMPORT_ONNX_ONNX_H

#include "base/index.h"
#include "import/builder.h"
#include "import/input_shapes.h"
#include "import/wire/pbwire.h"

enum {
    STW_ONNX_MAX_RANK = 32,
    STW_ONNX_MAX_CONTENT = 64,      /* numbers of a tensor that are looked at, when they are integers */
    STW_ONNX_MAX_FLOAT_CONTENT = 8, /* and when they are not */
    STW_ONNX_MAX_DEPTH = 100,       /* of bodies within bodies */
    STW_ONNX_BODY_BUDGET = 4000000, /* parts of bodies that are looked at in all: functions that call functions multiply */
    STW_ONNX_BYTES_PER_PART = 16    /* a part is a field, or that many bytes */
};
#define STW_ONNX_MAX_DIM ((int64_t)1 << 40)

typedef struct stw_onnx_scope stw_onnx_scope;

/* How a value comes into the graph when somebody reads it. */
typedef enum stw_onnx_source { STW_ONNX_COMPUTED, STW_ONNX_PARAMETER, STW_ONNX_CONSTANT } stw_onnx_source;

typedef struct stw_onnx_value {
    stw_str name;
    const stw_onnx_scope *scope;
    stw_str declared;      /* its TypeProto in the file, or empty */
    bool present;          /* an input, an initializer, or some node's output */
    bool stored;           /* its numbers stand in the file */
    bool is_output;        /* of the main graph */
    bool is_read;          /* by some node or as an output of its graph */
    bool is_guess;         /* its shape goes by sizes that nobody says, or by what data decides */
    uint8_t source;        /* stw_onnx_source */
    int32_t producer;      /* node of its graph, or -1 */
    int32_t dtype;         /* STW_UNKNOWN: not known */
    int32_t rank;          /* STW_UNKNOWN: not known */
    const int64_t *shape;  /* (rank) */
    const double *content; /* (elements) in row order, of small tensors whose numbers are known; else NULL */
    int32_t node;          /* of the builder; -1 until somebody reads it */
    int32_t part_of;       /* the builder's node that has it as one of several outputs, or -1 */
    int32_t captured_by;   /* the builder's node whose body read it last, or -1 */
    int64_t at;            /* in the file */
} stw_onnx_value;

/* Values by name. */
struct stw_onnx_scope {
    const stw_onnx_scope *outer; /* of a body: where other names are looked for */
    bool emits;                  /* the main graph */
    stw_arena *arena;
    stw_names names;
    stw_onnx_value **value; /* (value_count) */
    int64_t value_count, value_room;
};

typedef struct stw_onnx_node {
    stw_str bytes; /* its NodeProto */
    int64_t at;
    stw_str name, op, domain, overload;
    int32_t input_count, output_count;
    stw_onnx_value **input, **output; /* NULL where left out */
    int32_t depth;                    /* of its message */
} stw_onnx_node;

typedef struct stw_onnx_graph {
    stw_str name;
    int32_t node_count, input_count, output_count;
    stw_onnx_node *node;
    int32_t *order; /* (node_count) */
    stw_onnx_value **input, **output;
} stw_onnx_graph;

typedef struct stw_onnx_function {
    stw_str bytes, name, domain, overload;
    int32_t depth;
} stw_onnx_function;

typedef struct stw_onnx_row stw_onnx_row; /* of the table of operators */
typedef struct stw_onnx_table stw_onnx_table;

typedef struct stw_onnx_reader {
    stw_arena *arena;  /* the main graph and the builder */
    stw_arena scratch; /* bodies */
    stw_pb_file file;
    stw_error *error;
    stw_builder *builder;
    stw_insides insides; /* the kernels of bodies */
    stw_onnx_table *table;
    stw_read_options *options; /* shapes that are given; may be NULL */
    int64_t default_dim;       /* for dimensions that nobody says */
    int64_t budget;
    int32_t function_count;
    stw_onnx_function *function; /* (function_count) */
    stw_index function_index;    /* by name, domain and overload */
    stw_onnx_value **captured;   /* values of the main graph that a body reads */
    int64_t captured_count, captured_room;
} stw_onnx_reader;

/* What a body costs. */
typedef struct stw_onnx_cost {
    int64_t flops, moved;
} stw_onnx_cost;

/* Where nodes are looked at: a graph, and for functions the call. */
typedef struct stw_onnx_eval {
    stw_onnx_reader *reader;
    stw_arena *arena;
    stw_onnx_scope *scope;
    int32_t depth;                     /* bodies around it */
    const struct stw_onnx_eval *outer; /* of a body or call */
    const stw_onnx_node *holder;       /* the node whose body it is, or that calls the function; NULL: the main graph */
    const stw_onnx_node *call;         /* of a function: the node that calls it */
    const stw_onnx_function *function; /* of a function, else NULL */
    stw_onnx_cost cost;                /* of all nodes so far, unless the scope emits */
    stw_body_step *step;               /* (step_count) the same as kernels */
    int64_t step_count, step_room;
    bool is_looped; /* it is the body of a loop */
} stw_onnx_eval;

/* One node while its rule looks at it. */
typedef struct stw_onnx_call {
    stw_onnx_eval *eval;
    const stw_onnx_node *node;
    const stw_onnx_row *row; /* NULL: the operator has no rule */
    int32_t output_count;
    stw_onnx_value **output; /* (output_count) never NULL */
    int64_t flops;           /* STW_UNKNOWN: not known */
    int64_t moved;           /* STW_UNKNOWN: inputs + outputs */
    int32_t body;            /* 1 + that of its kernels among the insides; 0: it has none */
    bool is_view;
    bool is_function;
} stw_onnx_call;

/* ---- onnx_tensor.c ---- */
int32_t stw_onnx_dtype(int64_t code); /* of TensorProto.DataType */
bool stw_onnx_is_integer(int32_t dtype);
/* Sets dtype and shape from a TypeProto; open dimensions get the default. */
void stw_onnx_read_type(stw_onnx_reader *r, stw_str type, int32_t depth, stw_onnx_value *value, stw_arena *arena);
/* What a TypeProto states of the shape, dimensions with their names; the lists lie in the arena. */
bool stw_onnx_read_stated(stw_onnx_reader *r, stw_str type, stw_model_input *out, stw_arena *arena);
/* Sets dtype, shape and small contents from a TensorProto, and how it comes into the graph; *name if it has one. */
bool stw_onnx_read_tensor(stw_onnx_reader *r, stw_pb tensor, stw_onnx_value *value, stw_str *name, stw_arena *arena);
bool stw_onnx_read_sparse(stw_onnx_reader *r, stw_pb tensor, stw_onnx_value *value, stw_str *name, stw_arena *arena);
/* Marks a value as stored in the file: parameter or constant by dtype and size. */
void stw_onnx_mark_stored(stw_onnx_value *value);
int64_t stw_onnx_elements(const stw_onnx_value *value); /* INT64_MAX when above; -1 when not known */
int64_t stw_onnx_bytes(const stw_onnx_value *value);    /* the same; 0 when not known */
bool stw_onnx_set_shape(stw_onnx_value *value, int32_t dtype, int64_t rank, const int64_t *shape, stw_arena *arena);
int64_t stw_onnx_multiply(int64_t a, int64_t b); /* of numbers >= 0; INT64_MAX when above */
int64_t stw_onnx_add(int64_t a, int64_t b);

/* ---- attribute.c ---- */
typedef struct stw_onnx_attribute {
    bool found;
    stw_str bytes; /* its AttributeProto */
    int32_t depth;
    stw_str name, reference; /* `reference`: of a function's attribute that it stands for */
    int64_t type, i;
    double f;
    stw_str s, tensor, sparse, graph;
} stw_onnx_attribute;

stw_onnx_attribute stw_onnx_find(const stw_onnx_eval *eval, const stw_onnx_node *node, const char *name);
int64_t stw_onnx_int(const stw_onnx_call *c, const char *name, int64_t otherwise);
stw_str stw_onnx_text(const stw_onnx_call *c, const char *name);
/* A list of integers; -1 if there is none, else its length, of which at most `room` are stored. */
int64_t stw_onnx_ints(const stw_onnx_call *c, const char *name, int64_t *out, int64_t room);
int64_t stw_onnx_floats(const stw_onnx_call *c, const char *name, double *out, int64_t room);
/* The attributes as the JSON text of an object, in the arena; empty when there are none. */
stw_str stw_onnx_attributes_json(const stw_onnx_eval *eval, const stw_onnx_node *node, stw_arena *arena);

/* ---- onnx_graph.c ---- */
stw_onnx_value *stw_onnx_lookup(const stw_onnx_scope *scope, stw_str name); /* here only; NULL: none */
bool stw_onnx_scope_create(stw_onnx_reader *r, stw_arena *arena, const stw_onnx_scope *outer, bool emits, stw_onnx_scope *out);
/* Reads a GraphProto, or a FunctionProto when is_function. */
bool stw_onnx_read_graph(stw_onnx_eval *eval, stw_pb message, bool is_function, stw_onnx_graph *out);

/* ---- walk.c ---- */
/* Looks at each node in order; in the main graph it is emitted, else it becomes a kernel of the body. */
bool stw_onnx_walk(stw_onnx_eval *eval, const stw_onnx_graph *graph);
/* Message about a node; always false. */
bool stw_onnx_fail(stw_onnx_reader *r, const stw_onnx_node *node, const char *format, ...) STW_PRINTF(3, 4);

bool stw_onnx_emit_value(stw_onnx_reader *r, stw_onnx_value *value, int32_t *out);
bool stw_onnx_emit_input(stw_onnx_reader *r, stw_onnx_value *value, stw_node_kind kind);
/* The outputs that count, the first and those that somebody reads: their number and bytes; *first is NULL if there is none. */
int32_t stw_onnx_count_named(const stw_onnx_call *c, stw_onnx_value **first, int64_t *bytes);

/* ---- body.c ---- */
bool stw_onnx_index_functions(stw_onnx_reader *r);
const stw_onnx_function *stw_onnx_find_function(const stw_onnx_reader *r, const stw_onnx_node *node);
bool stw_onnx_call_function(stw_onnx_call *c, const stw_onnx_function *function);
/* A node of a body becomes a kernel; false: out of memory. */
bool stw_onnx_add_kernel(stw_onnx_call *c);
/* Bodies, looked at once for each call, come to more than the budget; always false. */
bool stw_onnx_fail_budget(const stw_onnx_eval *eval, const char *at);

#endif
