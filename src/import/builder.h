/* What the readers of model files have in common: nodes are added in file order, may name inputs that come later, and become a
 * graph at the end: sorted so that inputs come first (file order otherwise), sizes checked, operators looked up.
 *
 * A value that has parts (several outputs, a tuple) is an op whose bytes are their sum, with a view for each part that is read.
 * Strings are borrowed until stw_builder_finish, which copies them; bytes that are no UTF-8 become '?' there. */
#ifndef STW_IMPORT_BUILDER_H
#define STW_IMPORT_BUILDER_H

#include "graph/graph.h"
#include "import/insides.h"

typedef struct stw_builder stw_builder;

enum { STW_UNKNOWN = -1 };

typedef struct stw_raw_node {
    stw_node_kind kind;
    stw_str name;         /* may be empty: it gets the operator's name and its position */
    stw_str op;           /* as written in the file */
    stw_str label;        /* of parameters: the module path, such as "encoder.0.weight"; else empty */
    stw_str attributes;   /* JSON text of an object, or empty */
    int32_t dtype;        /* stw_dtype_*; STW_UNKNOWN: not known */
    const int64_t *shape; /* copied by stw_builder_add; borrowed when set through stw_builder_node */
    int32_t rank;         /* STW_UNKNOWN: the shape is not known */
    int64_t bytes;        /* of the output; STW_UNKNOWN: of shape and dtype, 0 if they are not known */
    int64_t flops;        /* multiply and add count as two; STW_UNKNOWN: not known */
    int64_t moved;        /* bytes read and written, where that is not inputs + output (a loop); STW_UNKNOWN: as usual */
    int64_t at;           /* offset in the file, for messages; STW_UNKNOWN: none */
    int32_t op_class;     /* stw_op_class of an op that the table need not be asked about (a fusion); STW_UNKNOWN: look it up */
    bool stays;           /* as the graph has it */
    const char *apart;    /* the same */
    stw_carried carried;  /* the same; the graph has it if any node names a device */
    stw_flow flow;        /* the same; the graph has none unless stw_builder_keep_flow is called */
    int32_t result;       /* of a view: 1 + the result of an op with several that it shows; 0: the whole */
    int32_t fused, body;  /* 1 + its place among the insides; 0: it has none */
} stw_raw_node;

/* `vocabulary`: whose operator names these are. `ops`: an index of operators that is there already, for who needs many builders;
 * NULL: it makes its own. All memory is the arena's. */
stw_status stw_builder_create(stw_arena *arena, stw_vocabulary vocabulary, stw_op_index *ops, stw_builder **out,
                              stw_error *error);
/* The file is this text: messages then give lines of it, not bytes. Borrowed until the end. */
void stw_builder_set_text(stw_builder *b, stw_str text);
/* The nodes say how kernels walk their tensors. */
void stw_builder_keep_flow(stw_builder *b);
/* What nodes have inside; borrowed until the end, and where `share` by the graph. */
void stw_builder_keep_insides(stw_builder *b, const stw_insides *insides, bool share);
/* The class of an operator, as a node without op_class gets it. */
stw_op_class stw_builder_class_of(const stw_builder *b, stw_str op);
/* Its index, counted from 0 in the order of adding; *out is only valid after STW_OK. */
stw_status stw_builder_add(stw_builder *b, const stw_raw_node *node, int32_t *out, stw_error *error);
stw_raw_node *stw_builder_node(stw_builder *b, int32_t index); /* to be changed until the end; valid until the next add */
int32_t stw_builder_count(const stw_builder *b);
/* In argument order. `from` may be added later: any number >= 0, checked at the end. A view has its root as first input. */
stw_status stw_builder_input(stw_builder *b, int32_t node, int32_t from, stw_error *error);
/* The op begins after `from`. Sources have no need to wait; a view that must wait becomes an op that takes no time. */
stw_status stw_builder_control(stw_builder *b, int32_t node, int32_t from, stw_error *error);
/* The same, though the file does not say so: the op writes over what `from` reads. It plays no part in the fingerprint, and in
 * the order of nodes; what would close a cycle is left out. Both must be ops. */
stw_status stw_builder_hold(stw_builder *b, int32_t node, int32_t from, stw_error *error);
stw_status stw_builder_output(stw_builder *b, int32_t node, stw_error *error); /* of the graph */
void stw_builder_colocate(stw_builder *b, int32_t node, int32_t with);
/* The op writes the parameter or buffer in place. Of several that write one, the last counts; the others stay on its device. */
void stw_builder_update(stw_builder *b, int32_t op, int32_t parameter);
/* Microseconds on a kind of device ("h200", "cpu8"). */
stw_status stw_builder_measured(stw_builder *b, int32_t node, stw_str device_kind, double us, stw_error *error);

/* The graph; graph->origin[id] is the builder's index of a node. Fails on a cycle (names a node on it), an input that is not
 * there, sizes that overflow. What is reached by no output stays: files may have side effects. */
stw_status stw_builder_finish(stw_builder *b, stw_str name, stw_str family, stw_graph **out, stw_error *error);

#endif
