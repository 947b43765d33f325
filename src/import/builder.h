/* What the readers of model files have in common: nodes are added in file order, may name inputs that come later, and become a
 * graph at the end: sorted so that inputs come first (file order otherwise), sizes checked, operators looked up.
 *
 * A value that has parts (several outputs, a tuple) is an op whose bytes are their sum, with a view for each part that is read.
 * Strings are borrowed until stw_builder_finish, which copies them; bytes that are no UTF-8 become '?' there. */
#ifndef STW_IMPORT_BUILDER_H
#define STW_IMPORT_BUILDER_H

#include "graph/construct.h"
#include "import/insides.h"

typedef struct stw_builder stw_builder;

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

/* The graph; graph->origin[id] is the builder's index of a node. Fails on a cycle (names a node on it), an input that is not
 * there, sizes that overflow. What is reached by no output stays: files may have side effects. */
stw_status stw_builder_finish(stw_builder *b, stw_str name, stw_str family, stw_graph **out, stw_error *error);

#endif
