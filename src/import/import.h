/* Graphs in: one reader per format. */
#ifndef STW_IMPORT_IMPORT_H
#define STW_IMPORT_IMPORT_H

#include "graph/graph.h"

stw_status stw_opgraph_read(stw_str text, stw_graph **out, stw_error *error);

#endif
