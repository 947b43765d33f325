/* Shapes given for the inputs of a model: the first line is the option, the rest the file. Neither crashes a reader, and what is
 * taken has the sizes that were given. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "import/import.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

/* An input has the shape that is given for it. */
static void check_given(const stw_graph *graph, const stw_given_shape *given) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_str_equal(graph->node_name[i], given->name) || graph->kind[i] != STW_NODE_INPUT) continue;
        require(graph->shape_start[i + 1] - graph->shape_start[i] == given->rank);
        for (int32_t d = 0; d < given->rank; d++) require(graph->shape[graph->shape_start[i] + d] == given->dim[d]);
    }
}

static int read(const uint8_t *data, size_t size) {
    enum { MAX_OPTION = 200 };
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    const size_t length = line == NULL ? size : (size_t)(line - data);
    char option[MAX_OPTION] = "";
    if (length >= MAX_OPTION || line == NULL) return 0;
    memcpy(option, data, length);
    stw_arena arena;
    stw_read_options options;
    stw_error error = {0};
    stw_graph *graph = NULL;
    require(stw_arena_create(&arena, NULL) == STW_OK);
    stw_status status = stw_read_options_parse(option, &arena, &options, &error);
    if (status == STW_OK) {
        const stw_graph_source source = {.bytes = {(const char *)line + 1, (int64_t)(size - length - 1)}, .label = "fuzz"};
        status = stw_graph_read(&source, &options, &graph, &error);
    }
    if (status == STW_OK) {
        for (int64_t k = 0; k < options.given_count; k++) {
            require(options.given[k].used);
            if (options.given[k].is_input) check_given(graph, &options.given[k]);
        }
        for (int64_t k = 0; k < options.input_count; k++) require(stw_input_text(&options.input[k], &arena).p != NULL);
    } else {
        require(graph == NULL && error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    }
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
    return status == STW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read(data, size);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) { return read(data, size); }
