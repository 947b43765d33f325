/* dnn-partitioning inputs: no input crashes the reader, and graph and machine of what it takes are consistent. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"
#include "machine/machine.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static void check_graph(const stw_graph *graph) {
    int64_t bytes = 0;
    int32_t ops = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        ops += graph->kind[i] == STW_NODE_OP;
        bytes += graph->bytes[i];
        require(graph->bytes[i] >= 0 && bytes <= STW_GRAPH_MAX_BYTES);
        require(graph->colocate[i] >= -1 && graph->colocate[i] < graph->N);
        require(stw_graph_node_name(graph, i) != NULL);
        for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
            require(graph->input[k] >= 0 && graph->input[k] < i);
        }
    }
    require(ops == stw_graph_op_count(graph));
}

static void check_machine(const stw_machine *machine) {
    require(machine != NULL && machine->complete && machine->host >= 0 && machine->host < machine->device_count);
    for (int32_t d = 0; d < machine->device_count; d++) {
        require(machine->device[d].memory_bytes >= 0 && machine->device[d].memory_bytes <= STW_GRAPH_MAX_BYTES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stw_error error = {0};
    stw_graph *graph;
    if (stw_dnnpart_read((stw_str){size == 0 ? "" : (const char *)data, (int64_t)size}, &graph, &error) == STW_OK) {
        check_graph(graph);
        check_machine(stw_graph_machine(graph));
    } else {
        require(graph == NULL && error.status != STW_OK && error.message[0] != '\0');
        require(strchr(error.message, '\n') == NULL);
    }
    stw_graph_destroy(graph);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) {
    stw_graph *graph;
    const bool accepted = stw_dnnpart_read((stw_str){size == 0 ? "" : (const char *)data, (int64_t)size}, &graph, NULL) == STW_OK;
    stw_graph_destroy(graph);
    return accepted;
}
