/* Private to the ONNX exporter: the model's own bytes go out again, with the plan at each node of the main graph.
 *
 *     planned_onnx.c  the steps; the nodes of the file, what each waits for, and the node of the plan's graph that it is
 *     write_onnx.c  the planned order, what is written at each node, the bytes; weights go from the bytes of the file to the
 * output note.c   lines for the user; what goes into and comes out of the part of each device */
#ifndef STW_EXPORT_ONNX_PLANNED_ONNX_H
#define STW_EXPORT_ONNX_PLANNED_ONNX_H

#include "export/export.h"
#include "import/onnx/onnx.h"

#define STW_ONNX_CONFIGURATION "stowage"  /* the name of our device configuration */
#define STW_ONNX_TAG           "stowage_" /* layer_ann: this and the number of the device */

enum {
    STW_ONNX_MODEL_IR_VERSION = 1,
    STW_ONNX_MODEL_GRAPH = 7,
    STW_ONNX_MODEL_CONFIGURATION = 26,
    STW_ONNX_GRAPH_NODE = 1,
    STW_ONNX_NODE_ATTRIBUTE = 5,
    STW_ONNX_NODE_METADATA = 9,
    STW_ONNX_NODE_CONFIGURATION = 10,
    STW_ONNX_CONFIGURATION_IR = 11 /* the first IR version with device configurations */
};

typedef struct stw_onnx_decision { /* what is written at a node of the file */
    int32_t device;
    double priority;
    int32_t task;  /* that the group stands for, or one of the two below */
    int64_t group; /* groups are counted in the order of the file; -1: recomputed where it is read */
} stw_onnx_decision;
enum { STW_ONNX_RECOMPUTED = -1, STW_ONNX_ALONE = -2 };

typedef struct stw_onnx_output {
    stw_export *e;
    stw_onnx_reader reader;
    stw_onnx_scope scope;
    stw_onnx_graph graph; /* the main graph, n = graph.node_count nodes in the order of the file */
    stw_str model_graph;  /* its bytes */
    int64_t ir_version, ir_written;
    int32_t *id;                 /* (n) node of the plan's graph, or -1: worked out while reading */
    int64_t *need_start;         /* (n + 1) into need */
    int32_t *need;               /* nodes whose outputs the node or its bodies read, in argument order */
    int32_t *order;              /* (n) the node that stands at each place */
    stw_onnx_decision *decision; /* (n) */
} stw_onnx_output;

stw_status stw_onnx_order(stw_onnx_output *x, stw_error *error);
stw_status stw_onnx_decide(stw_onnx_output *x, stw_error *error);
stw_status stw_onnx_write(stw_onnx_output *x, stw_error *error);
stw_status stw_onnx_write_note(stw_onnx_output *x, stw_error *error);

#endif
