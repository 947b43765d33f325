/* Inputs of a TensorFlow graph (placeholders): what the file states of their shapes, and what is given instead. */
#include <string.h>

#include "import/graphdef_infer.h"

bool stw_tf_is_placeholder(stw_str op) {
    static const char *const names[] = {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg", "_DeviceArg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (stw_str_is(op, names[i])) return true;
    }
    return false;
}

/* By the name of the node or of its output: "x", "x:0". */
static const stw_given_shape *find_given(stw_read_options *options, stw_str name) {
    const stw_given_shape *exact = stw_given_find(options, name);
    for (int64_t k = 0; exact == NULL && k < options->given_count; k++) {
        const stw_str other = options->given[k].name;
        const bool same = other.length == name.length + 2 && stw_str_ends(other, ":0") && name.length > 0 &&
                          memcmp(other.p, name.p, (size_t)name.length) == 0;
        if (same) return stw_given_find(options, other);
    }
    return exact;
}

stw_status stw_tf_note_input(const stw_tf_graph *graph, int32_t node, stw_tf_shape stated, const stw_given_shape **given,
                             stw_error *error) {
    enum { RESOURCE = 20 };
    const stw_tf_node *n = &graph->model->node[node];
    stw_model_input input = {.name = n->name, .rank = stated.rank};
    *given = NULL;
    if (graph->options == NULL || graph->function != NULL || !stw_tf_is_placeholder(n->op)) return STW_OK;
    if (stated.rank > 0) input.dim = graph->model->dim + stated.start;
    *given = find_given(graph->options, n->name);
    if (*given != NULL) {
        TRY(stw_given_settle(graph->options, &input, *given, error));
        if ((*given)->rank > STW_TF_MAX_RANK)
            return stw_fail(error, STW_ERROR_INPUT, "--shape: '%.*s' has more than %d dimensions", STW_STR_SHOW(n->name),
                            STW_TF_MAX_RANK);
        input.name = (*given)->name;
    }
    /* A resource is somebody else's variable, not data. */
    if (*given == NULL && stw_tf_number(graph->model, n, STW_TF_T, 0) == RESOURCE) return STW_OK;
    return stw_note_input(graph->options, &input, error);
}
