/* Graphs in: one reader per format. */
#ifndef STW_IMPORT_IMPORT_H
#define STW_IMPORT_IMPORT_H

#include "graph/graph.h"
#include "import/input_shapes.h"

typedef struct stw_graph_source { /* a file, or bytes in memory */
    const char *path;             /* "-": standard input; NULL: */
    stw_str bytes;                /* plain, gzip or zstd */
    const char *label;            /* stands for the path in messages */
} stw_graph_source;

/* Any of the formats below, with shapes for the inputs of models whose files leave them open. What the file says of its inputs
 * comes back in `options`. */
stw_status stw_graph_read(const stw_graph_source *source, stw_read_options *options, stw_graph **out, stw_error *error);

/* Ops that give out nothing (a dimension is 0): they cost nothing. */
int32_t stw_count_empty_ops(const stw_graph *graph);

stw_status stw_opgraph_read(stw_str text, stw_graph **out, stw_error *error);

/* dnn-partitioning JSON (docs/formats/dnn-partitioning.md); the graph comes with its machine. */
stw_status stw_dnnpart_read(stw_str text, stw_graph **out, stw_error *error);
/* Is this that format? It has no name of its own in the file: known by the key maxFPGAs, in an object without "format". */
bool stw_dnnpart_is(stw_str text, stw_arena scratch);

/* Is this a model of a framework, whose format its bytes show? The readers below; JSON is not among them. */
bool stw_model_is(stw_str bytes);
/* Refuses what is neither such a model nor begins as a JSON object. */
stw_status stw_check_known(stw_str bytes, stw_error *error);

/* ONNX models. Dimensions that neither the file nor `options` (which may be NULL) says count as 1; weights are not looked at. */
bool stw_onnx_is(stw_str bytes);
stw_status stw_onnx_read(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error);

/* TensorFlow GraphDef, in bytes and in text. Dimensions that neither the file nor `options` says count as 1; loops count once.
 * graph->origin is the position among the nodes of the file; beyond them come views of single outputs. */
bool stw_graphdef_is(stw_str bytes);
stw_status stw_graphdef_read(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error);
bool stw_pbtxt_is(stw_str text);
stw_status stw_pbtxt_read(stw_str text, stw_read_options *options, stw_graph **out, stw_error *error);

/* TensorFlow's SavedModel, which is always refused, with what to do instead. */
bool stw_saved_model_is(stw_str bytes);
stw_status stw_saved_model_refuse(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error);

/* HLO, as XLA prints it and as HloModuleProto (or HloProto): the entry computation. */
bool stw_hlo_text_is(stw_str bytes);
stw_status stw_hlo_text_read(stw_str bytes, stw_graph **out, stw_error *error);
bool stw_hlo_proto_is(stw_str bytes);
stw_status stw_hlo_proto_read(stw_str bytes, stw_graph **out, stw_error *error);

#endif
