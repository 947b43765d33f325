/* Graph files: no input crashes the reader, and what it takes is consistent. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "graph/graph.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static void check_graph(const stw_graph *graph) {
    int32_t ops = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        ops += graph->kind[i] == STW_NODE_OP;
        require(graph->bytes[i] >= 0 && graph->flops[i] >= 0);
        require(graph->root[i] >= 0 && graph->root[i] <= i && graph->kind[graph->root[i]] != STW_NODE_VIEW);
        require(stw_graph_node_name(graph, i) != NULL);
        for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
            require(graph->input[k] >= 0 && graph->input[k] < i);
        }
    }
    require(ops == stw_graph_op_count(graph));
    require(strlen(stw_graph_fingerprint(graph)) == 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stw_error error = {0};
    stw_graph *graph;
    if (stw_graph_parse(data, size, "fuzz", NULL, &graph, &error) == STW_OK) {
        check_graph(graph);
    } else {
        require(graph == NULL && error.status != STW_OK && strncmp(error.message, "fuzz: ", 6) == 0);
        require(strchr(error.message, '\n') == NULL);
    }
    stw_graph_destroy(graph);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) {
    stw_graph *graph;
    const bool accepted = stw_graph_parse(data, size, "fuzz", NULL, &graph, NULL) == STW_OK;
    stw_graph_destroy(graph);
    return accepted;
}
