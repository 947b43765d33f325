/* What open sizes do to a graph: they count as 1, so that times and memory are too small, and a slice of one, such as [:-1], is
 * empty. */
#include <stdio.h>

#include "import/import.h"

int32_t stw_count_empty_ops(const stw_graph *graph) {
    int32_t count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->bytes[i] != 0 || graph->flops[i] != 0) continue;
        bool empty = false;
        for (int64_t d = graph->shape_start[i]; d < graph->shape_start[i + 1]; d++) empty |= graph->shape[d] == 0;
        count += empty;
    }
    return count;
}

static const stw_model_input *find_open(const stw_read_options *options) {
    for (int64_t k = 0; k < options->input_count; k++) {
        if (options->input[k].is_open) return &options->input[k];
    }
    return NULL;
}

/* "batch=N;length=N;..." of the first few open dimensions; of an input where none has a name. */
static void write_example(const stw_read_options *options, const stw_model_input *input, char *text, size_t size) {
    enum { SHOWN = 3 };
    stw_str name, seen[SHOWN];
    int shown = 0;
    size_t length = 0;
    int64_t at = 0;
    for (int32_t d = 0; stw_next_open_name(options, &at, &d, &name);) {
        int k = 0;
        while (k < shown && !stw_str_equal(seen[k], name)) k++;
        if (k < shown) continue;
        if (shown == SHOWN) {
            snprintf(text + length, size - length, ";...");
            return;
        }
        seen[shown++] = name;
        length += (size_t)snprintf(text + length, size - length, "%s%.*s=N", shown > 1 ? ";" : "", STW_STR_SHOW(name));
    }
    if (shown == 0) snprintf(text, size, "%.*s=N,...", STW_STR_SHOW(input->name));
}

stw_str stw_open_remark(const stw_graph *graph, const stw_read_options *options, stw_arena *arena) {
    char example[300] = "", empty[100] = "";
    const stw_model_input *input = find_open(options);
    if (input == NULL) return (stw_str){0};
    int64_t count = 0;
    for (int64_t k = 0; k < options->input_count; k++) count += options->input[k].is_open;
    const int32_t ops = stw_count_empty_ops(graph);
    if (ops > 0) snprintf(empty, sizeof empty, "%d of %d ops work on empty tensors, since ", ops, graph->op_count);
    write_example(options, input, example, sizeof example);
    return stw_str_format(arena, "%sopen sizes count as 1 (of %lld input%s); give sizes with --shape '%s'", empty,
                          (long long)count, count == 1 ? "" : "s", example);
}
