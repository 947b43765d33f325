/* HLO text: no input crashes the reader, and graphs of what it takes are consistent. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static void check_graph(const stw_graph *graph) {
    int32_t ops = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        ops += graph->kind[i] == STW_NODE_OP;
        require(graph->bytes[i] >= 0 && graph->bytes[i] <= STW_GRAPH_MAX_BYTES && graph->flops[i] >= 0 && graph->moved[i] >= -1);
        require(graph->op_class[i] < STW_CLASS_COUNT && stw_graph_node_name(graph, i) != NULL);
        for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
            require(graph->input[k] >= 0 && graph->input[k] < i);
        }
    }
    require(ops == stw_graph_op_count(graph));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stw_error error = {0};
    stw_graph *graph;
    const stw_str text = {size == 0 ? "" : (const char *)data, (int64_t)size};
    stw_hlo_text_is(text);
    if (stw_hlo_text_read(text, &graph, &error) == STW_OK) {
        check_graph(graph);
    } else {
        require(graph == NULL && error.status != STW_OK && error.message[0] != '\0');
        require(strchr(error.message, '\n') == NULL);
    }
    stw_graph_destroy(graph);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) {
    stw_graph *graph;
    const bool accepted =
        stw_hlo_text_read((stw_str){size == 0 ? "" : (const char *)data, (int64_t)size}, &graph, NULL) == STW_OK;
    stw_graph_destroy(graph);
    return accepted;
}
