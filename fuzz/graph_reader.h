/* The body of a fuzz target for a reader of graphs: no bytes crash it, what it refuses has one line of reason, and what it takes
 * is consistent. The target defines STW_READER_IS and STW_READER_READ first. */
#ifndef STW_FUZZ_GRAPH_READER_H
#define STW_FUZZ_GRAPH_READER_H

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static void check_node(const stw_graph *graph, int32_t i) {
    require(graph->bytes[i] >= 0 && graph->flops[i] >= 0 && stw_graph_moved(graph, i) >= -1);
    require(graph->kind[i] == STW_NODE_VIEW || graph->bytes[i] <= STW_GRAPH_MAX_BYTES); /* views take no memory */
    require(graph->root[i] >= 0 && graph->root[i] <= i && graph->kind[graph->root[i]] != STW_NODE_VIEW);
    require(graph->op_class[i] < STW_CLASS_COUNT && stw_graph_origin(graph, i) >= 0 && stw_graph_origin(graph, i) < graph->N);
    require(strlen(stw_graph_node_name(graph, i)) == (size_t)graph->node_name[i].length);
    for (int64_t k = graph->shape_start[i]; k < graph->shape_start[i + 1]; k++) require(graph->shape[k] >= 0);
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++)
        require(graph->input[k] >= 0 && graph->input[k] < i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const stw_str bytes = {size == 0 ? "" : (const char *)data, (int64_t)size};
    stw_error error = {0};
    stw_graph *graph = NULL;
    int32_t ops = 0;
    (void)STW_READER_IS(bytes);
    if (STW_READER_READ(bytes, &graph, &error) == STW_OK) {
        for (int32_t i = 0; i < graph->N; i++) {
            check_node(graph, i);
            ops += graph->kind[i] == STW_NODE_OP;
        }
        require(ops == stw_graph_op_count(graph));
    } else {
        require(graph == NULL && error.status != STW_OK && error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    stw_graph_destroy(graph);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) {
    const stw_str bytes = {size == 0 ? "" : (const char *)data, (int64_t)size};
    stw_graph *graph = NULL;
    const bool accepted = STW_READER_READ(bytes, &graph, NULL) == STW_OK;
    stw_graph_destroy(graph);
    return accepted;
}

#endif
