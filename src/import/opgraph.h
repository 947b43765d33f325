/* Private to the opgraph reader: opgraph.c reads the head and the list of nodes, opgraph_node.c one node. */
#ifndef STW_IMPORT_OPGRAPH_H
#define STW_IMPORT_OPGRAPH_H

#include "base/json.h"
#include "base/vector.h"
#include "graph/graph.h"

enum { STW_OPGRAPH_MAX_KINDS = 64 };

typedef struct {
    stw_json json;
    stw_graph *graph;
    stw_arena scratch; /* gone after reading */
    stw_op_index *ops;
    stw_vector shape, input, control, output;
    stw_str kind_name[STW_OPGRAPH_MAX_KINDS];
    double *kind_us[STW_OPGRAPH_MAX_KINDS]; /* (N) in the graph's arena */
    int64_t loss;
    int64_t total_bytes; /* of all tensors so far */

} stw_opgraph_reader;

/* Reads node i at the cursor and checks it; false after an error. */
bool stw_opgraph_read_node(stw_opgraph_reader *r, int32_t i);
/* Puts the node in front of an error that stands already; always false. */
bool stw_opgraph_name_node(stw_opgraph_reader *r, int32_t i);

/* Shared by both files. */
bool stw_opgraph_out_of_memory(stw_opgraph_reader *r);
bool stw_opgraph_read_string(stw_opgraph_reader *r, stw_str *out); /* copied into the graph */
bool stw_opgraph_read_ints(stw_opgraph_reader *r, stw_vector *list);

#endif
