/* Graphs in: one reader per format. */
#ifndef STW_IMPORT_IMPORT_H
#define STW_IMPORT_IMPORT_H

#include "graph/graph.h"

stw_status stw_opgraph_read(stw_str text, stw_graph **out, stw_error *error);

/* dnn-partitioning JSON (docs/formats/dnn-partitioning.md); the graph comes with its machine. */
stw_status stw_dnnpart_read(stw_str text, stw_graph **out, stw_error *error);
/* Is this that format? It has no name of its own in the file: known by the key maxFPGAs, in an object without "format". */
bool stw_dnnpart_is(stw_str text, stw_arena scratch);

#endif
