/* TensorFlow graphs in text, for tests of their reader. */
#ifndef STW_TEST_GRAPHDEF_TEXT_H
#define STW_TEST_GRAPHDEF_TEXT_H

#include <string.h>

#include "import/import.h"
#include "test.h"

static inline stw_graph *read_text(const char *text, stw_error *error) {
    stw_graph *graph = NULL;
    CHECK(stw_pbtxt_is(stw_str_of(text)));
    const stw_status status = stw_pbtxt_read(stw_str_of(text), NULL, &graph, error);
    CHECK((status == STW_OK) == (graph != NULL));
    return graph;
}

/* A graph that must be taken. */
static inline stw_graph *take_text(const char *text) {
    stw_error error = {0};
    stw_graph *graph = read_text(text, &error);
    CHECK_STR(error.message, "");
    return graph;
}

/* A graph that must be refused, with these words. */
static inline void refuse_text(const char *text, const char *words) {
    stw_error error = {0};
    stw_graph *graph = read_text(text, &error);
    CHECK(graph == NULL);
    CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, words);
    CHECK(strchr(error.message, '\n') == NULL);
    stw_graph_destroy(graph);
}

#endif
