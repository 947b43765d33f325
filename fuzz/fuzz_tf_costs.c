/* Measured costs of TensorFlow: no input crashes the reader, and its rows become times of ops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"
#include "import/profile/tf_costs.h"

static const char graph_text[] =
    "node { name: 'a' op: 'Relu' } node { name: 'product' op: 'MatMul' } node { name: 'c' op: 'Conv2D' }";

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static void find_times(const stw_tf_costs *costs, stw_arena *arena) {
    stw_graph *graph = NULL;
    double *us = NULL;
    int64_t unmatched = 0;
    require(stw_pbtxt_read(STW_STR(graph_text), NULL, &graph, NULL) == STW_OK);
    require(stw_tf_costs_times(costs, graph, arena, &us, &unmatched, NULL) == STW_OK);
    require(unmatched >= 0 && unmatched <= costs->count);
    for (int32_t i = 0; i < graph->N; i++) require(isnan(us[i]) || us[i] >= 0.0);
    stw_graph_destroy(graph);
}

static int read(const uint8_t *data, size_t size) {
    stw_arena arena;
    stw_error error = {0};
    stw_tf_costs costs = {0};
    require(stw_arena_create(&arena, NULL) == STW_OK);
    const stw_status status = stw_tf_costs_read((stw_str){(const char *)data, (int64_t)size}, &arena, &costs, &error);
    if (status == STW_OK) {
        find_times(&costs, &arena);
    } else {
        require(error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    stw_arena_destroy(&arena);
    return status == STW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read(data, size);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return read(data, size); }
