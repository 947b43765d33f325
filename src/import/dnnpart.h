/* Private to the reader of dnn-partitioning inputs: dnnpart.c reads the file, dnnpart_build.c makes graph and machine of it. */
#ifndef STW_IMPORT_DNNPART_H
#define STW_IMPORT_DNNPART_H

#include "base/json.h"
#include "graph/graph.h"

typedef struct {
    const char *at; /* where it stands in the text, for messages */
    stw_str name;   /* in scratch memory or in the text; may be empty */
    int64_t id, colour;
    bool has_colour; /* nodes of one colour are on one device */
    double cpu_ms, accelerator_ms;
    double size;        /* bytes that it holds on its device */
    double transfer_ms; /* of its output, between an accelerator and the CPU's memory; below 0: nobody reads it */
} stw_dnnpart_node;

typedef struct {
    const char *at;
    int64_t source_id, target_id;
    int64_t source, target; /* positions among the nodes */
    double cost_ms;
} stw_dnnpart_edge;

typedef struct {
    stw_json json;
    stw_arena scratch;       /* gone after reading */
    double accelerator_size; /* bytes that an accelerator holds */
    int64_t accelerators, cpus;
    int64_t node_count, edge_count;
    stw_dnnpart_node *node; /* in file order */
    stw_dnnpart_edge *edge;
} stw_dnnpart;

/* Fails at a place in the text; always false. */
bool stw_dnnpart_fail(stw_dnnpart *r, const char *at, const char *format, ...) STW_PRINTF(3, 4);

/* Makes the graph, with its machine, of what was read and checked. */
stw_status stw_dnnpart_build(stw_dnnpart *r, stw_graph *graph, stw_error *error);

#endif
