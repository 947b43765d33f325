/* Private to the readers of TensorFlow graphs. graphdef.c fills the model below from bytes or text; infer.c finds the shapes,
 * call.c what nodes that run functions come to, nodes.c makes the graph; read_graphdef.c calls them in turn. */
#ifndef STW_IMPORT_TENSORFLOW_GRAPHDEF_H
#define STW_IMPORT_TENSORFLOW_GRAPHDEF_H

#include "base/array.h"
#include "base/index.h"
#include "graph/graph.h"
#include "import/input_shapes.h"

/* The attributes that are read, by their names; all others are passed over. */
typedef enum stw_tf_key {
    STW_TF_T,
    STW_TF_dtype,
    STW_TF_DstT,
    STW_TF_Tparams,
    STW_TF_Tidx,
    STW_TF_out_type,
    STW_TF_output_type,
    STW_TF_output_types,
    STW_TF_shape,
    STW_TF_output_shapes,
    STW_TF__output_shapes,
    STW_TF__class,
    STW_TF_value,
    STW_TF_strides,
    STW_TF_ksize,
    STW_TF_dilations,
    STW_TF_padding,
    STW_TF_explicit_paddings,
    STW_TF_data_format,
    STW_TF_transpose_a,
    STW_TF_transpose_b,
    STW_TF_adj_x,
    STW_TF_adj_y,
    STW_TF_keep_dims,
    STW_TF_num_split,
    STW_TF_num,
    STW_TF_axis,
    STW_TF_squeeze_dims,
    STW_TF_begin_mask,
    STW_TF_end_mask,
    STW_TF_ellipsis_mask,
    STW_TF_new_axis_mask,
    STW_TF_shrink_axis_mask,
    STW_TF_equation,
    STW_TF_element_dtype,
    STW_TF_num_elements,
    STW_TF_f,
    STW_TF_function,
    STW_TF_cond,
    STW_TF_body,
    STW_TF_then_branch,
    STW_TF_else_branch,
    STW_TF_branches,
    STW_TF_Tout,
    STW_TF_Targuments,
    STW_TF_KEY_COUNT
} stw_tf_key;

/* Small integer tensors say shapes and axes; longer ones are data. */
enum { STW_TF_MAX_VALUES = 64 };

typedef struct stw_tf_range { /* of one of the model's lists */
    int64_t start, count;
} stw_tf_range;

typedef struct stw_tf_shape {
    int64_t start; /* into dim */
    int32_t rank;  /* -1: not known */
} stw_tf_shape;

typedef struct stw_tf_attribute {
    stw_tf_key key;
    int64_t number;       /* i, b, type; of a tensor its type */
    stw_str text;         /* s, or the name of a function */
    stw_tf_shape shape;   /* of a shape or a tensor */
    stw_tf_range numbers; /* of a list, or the first values of an integer tensor */
    stw_tf_range texts, shapes;
    bool is_tensor;
} stw_tf_attribute;

typedef struct stw_tf_node {
    stw_str name, op, device;
    int64_t at;              /* offset in the file */
    stw_tf_range inputs;     /* into input: "node", "node:k", "^node" */
    stw_tf_range attributes; /* into attribute */
} stw_tf_node;

typedef struct stw_tf_argument { /* of a function: what goes in or comes out */
    stw_str name;
    int64_t type;
    bool is_output;
    bool is_list; /* as many tensors as the call says */
} stw_tf_argument;

typedef struct stw_tf_return { /* of a function: which value an output is */
    stw_str output, value;
} stw_tf_return;

typedef struct stw_tf_function {
    stw_str name;
    int64_t at;
    stw_tf_range nodes;     /* into inner */
    stw_tf_range arguments; /* into argument */
    stw_tf_range returns;   /* into returned */
} stw_tf_function;

typedef struct stw_tf_model {
    stw_arena *arena;
    stw_str source; /* of a file in text: for messages */
    int64_t node_count, attribute_count, text_count, input_count, number_count, shape_count, dim_count;
    int64_t node_room, attribute_room, text_room, input_room, number_room, shape_room, dim_room;
    int64_t function_count, inner_count, argument_count, returned_count;
    int64_t function_room, inner_room, argument_room, returned_room;
    stw_tf_node *node;
    stw_tf_function *function; /* the library of the file */
    stw_tf_node *inner;        /* nodes of functions */
    stw_tf_argument *argument;
    stw_tf_return *returned;
    stw_tf_attribute *attribute;
    stw_str *input, *text;
    int64_t *number;
    stw_tf_shape *shape;
    int64_t *dim; /* -1: not known */
} stw_tf_model;

stw_status stw_tf_read_wire(stw_str bytes, stw_tf_model *model, stw_error *error);
stw_status stw_tf_read_text(stw_str text, stw_tf_model *model, stw_error *error);

stw_tf_key stw_tf_key_named(stw_str name); /* STW_TF_KEY_COUNT: none that is read */
const char *stw_tf_key_name(stw_tf_key key);
/* The attribute of that name, or NULL. */
const stw_tf_attribute *stw_tf_find(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key);
int64_t stw_tf_number(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key, int64_t otherwise);
stw_str stw_tf_text(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key);

/* TensorFlow's numbers and names of types ("DT_FLOAT"); a reference to a type counts as the type. */
int32_t stw_tf_dtype(int64_t type); /* stw_dtype_*; STW_DTYPE_NONE for strings and resources; -1 if not known */
bool stw_tf_type_named(stw_str name, int64_t *type);

/* What an op gives out. */
typedef struct stw_tf_value {
    int32_t dtype; /* stw_dtype_*; -1: not known */
    int32_t rank;  /* -1: not known */
    int64_t start; /* into dim; all are known where the rank is */
} stw_tf_value;

typedef struct stw_tf_edge {
    int32_t from;
    int32_t output; /* which of its outputs */
} stw_tf_edge;

typedef struct stw_tf_facts { /* what is found out about a node */
    stw_tf_range inputs;      /* into edge: data, in argument order */
    stw_tf_range control;     /* into before */
    stw_tf_range values;      /* into value: its outputs as far as they are described */
    stw_tf_range ints;        /* into number: the values of a small integer tensor; count -1: not known */
    int64_t outputs;          /* how many; those beyond values.count are like the first if `alike`, else not known */
    bool alike;
    int32_t row;          /* in the operator table, or -1 */
    int32_t readers;      /* of its data */
    int32_t body;         /* of what runs functions: 1 + its place among the insides; else 0 */
    int64_t flops, moved; /* of the same, with all turns */
} stw_tf_facts;

typedef struct stw_tf_fact stw_tf_fact;       /* infer.h */
typedef struct stw_tf_library stw_tf_library; /* function.h */

typedef struct stw_tf_graph { /* of a file, or of a function */
    stw_tf_model *model;
    stw_arena *arena;
    stw_read_options *options; /* shapes that are given; may be NULL */
    stw_tf_library *library;   /* NULL: what nodes run is not looked at */
    stw_op_index *ops;
    const stw_tf_function *function; /* NULL: the file */
    stw_tf_fact *argument;           /* (argument_count) of a function: its first nodes */
    int64_t argument_count;
    const struct stw_tf_graph *caller; /* of a function: who runs it */
    stw_tf_facts *facts;               /* (node_count) */
    stw_tf_edge *edge;
    int32_t *before;
    stw_tf_value *value;
    int64_t value_count, value_room;
    stw_names names; /* of the nodes */
} stw_tf_graph;

/* Nodes by name, edges by position (tf_model.c). Loops of Merge and NextIteration are cut, so that their body counts once.
 */
stw_status stw_tf_link(stw_tf_model *model, stw_tf_graph *out, stw_error *error);
/* The same of a graph with model, arena and index of operators, as those of functions are. */
stw_status stw_tf_link_nodes(stw_tf_graph *graph, stw_error *error);
/* Where a value that is read comes from, by its name; from -1: there is no such node, output -1: no op has such an output. */
stw_tf_edge stw_tf_find_source(const stw_tf_graph *graph, stw_str name);
/* Node indices, inputs first (data edges alone); on a cycle its nodes are left out. */
stw_status stw_tf_order(const stw_tf_graph *graph, int32_t **order, int64_t *count, stw_error *error);
int64_t stw_tf_find_node(const stw_tf_graph *graph, stw_str name); /* -1: none */

stw_status stw_tf_infer(stw_tf_graph *graph, stw_error *error);
/* An output of a node; rank and dtype -1 where nothing is known. */
stw_tf_value stw_tf_value_of(const stw_tf_graph *graph, int32_t node, int64_t output);
/* Input k of a node; likewise, also where there is none. */
stw_tf_value stw_tf_input(const stw_tf_graph *graph, int32_t node, int64_t k);
/* Elements and bytes; -1 where not known or too large. */
int64_t stw_tf_elements(const stw_tf_graph *graph, stw_tf_value value);
int64_t stw_tf_bytes(const stw_tf_graph *graph, stw_tf_value value);

/* The graph; that of a function shares the library's insides, and does not outlive them. */
stw_status stw_tf_build(const stw_tf_graph *graph, stw_graph **out, stw_error *error);

#endif
