/* Opens a graph file of any format that we read, and tells which of its sizes are open. */
#include <stdio.h>

#include "base/file.h"
#include "import/import.h"

/* ---- open sizes ---- */

/* What open sizes do to a graph: they count as 1, so that times and memory are too small, and a slice of one, such as [:-1], is
 * empty. */

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

/* Which sizes are open, how many ops are empty for that reason, and how to give sizes; empty where none is open. */
static stw_str remark_of(const stw_graph *graph, const stw_read_options *options, stw_arena *arena) {
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

/* ---- files ---- */

/* Opens a graph file of any format that we read. */

/* Formats that are known by their bytes; the rest is JSON. Shapes are open in some. */
static const struct {
    bool (*is)(stw_str bytes);
    stw_status (*read)(stw_str bytes, stw_graph **out, stw_error *error);
    stw_status (*read_shaped)(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error);
} models[] = {
    {stw_saved_model_is, NULL, stw_saved_model_refuse}, {stw_onnx_is, NULL, stw_onnx_read},
    {stw_hlo_text_is, stw_hlo_text_read, NULL},         {stw_hlo_proto_is, stw_hlo_proto_read, NULL},
    {stw_graphdef_is, NULL, stw_graphdef_read},         {stw_pbtxt_is, NULL, stw_pbtxt_read},
};
enum { MODELS = sizeof models / sizeof models[0] };

static int find_model(stw_str bytes) {
    int k = 0;
    while (k < MODELS && !models[k].is(bytes)) k++;
    return k;
}

bool stw_model_is(stw_str bytes) { return find_model(bytes) < MODELS; }

/* StableHLO and other dialects of MLIR, as text or bytecode. */
static bool is_mlir(stw_str bytes) {
    return stw_str_starts(bytes, "module @") || stw_str_starts(bytes, "module {") || stw_str_starts(bytes, "module attributes") ||
           stw_str_starts(bytes, "builtin.module") || stw_str_starts(bytes, "#loc") || stw_str_starts(bytes, "ML\xefR");
}

stw_status stw_check_known(stw_str bytes, stw_error *error) {
    int64_t at = 0;
    while (at < bytes.length && (bytes.p[at] == ' ' || bytes.p[at] == '\t' || bytes.p[at] == '\n' || bytes.p[at] == '\r')) at++;
    if (at == bytes.length) return stw_fail(error, STW_ERROR_INPUT, "is empty");
    if (bytes.p[at] == '{' || stw_model_is(bytes)) return STW_OK;
    if (is_mlir((stw_str){bytes.p + at, bytes.length - at})) {
        return stw_fail(error, STW_ERROR_INPUT, "is StableHLO, which is not read; print HLO: lowered.as_text('hlo') in JAX");
    }
    return stw_fail(error, STW_ERROR_INPUT,
                    "not a format that is read; known: opgraph JSON, dnn-partitioning JSON, ONNX, HLO text or protobuf, "
                    "TensorFlow GraphDef (.pb, .pbtxt)");
}

static stw_status read_any(stw_str text, stw_arena scratch, stw_read_options *options, stw_graph **out, stw_error *error) {
    const int k = find_model(text);
    if (k < MODELS && models[k].read_shaped != NULL) return models[k].read_shaped(text, options, out, error);
    if (k == MODELS) TRY(stw_check_known(text, error));
    if (options != NULL && options->given_count > 0)
        return stw_fail(
            error, STW_ERROR_INPUT,
            "--shape is for ONNX models and TensorFlow graphs; in this format every shape is fixed, so write the file anew");
    if (k < MODELS) return models[k].read(text, out, error);
    return stw_dnnpart_is(text, scratch) ? stw_dnnpart_read(text, out, error) : stw_opgraph_read(text, out, error);
}

/* What the file leaves open stays with the graph. */
static stw_status read_noting(stw_str text, stw_arena scratch, stw_read_options *options, stw_graph **out, stw_error *error) {
    stw_read_options none = {.arena = &scratch};
    if (options == NULL) options = &none;
    TRY(read_any(text, scratch, options, out, error));
    (*out)->open_sizes = remark_of(*out, options, &(*out)->arena);
    return STW_OK;
}

stw_status stw_graph_parse_reading(const void *bytes, size_t size, const char *label, stw_read_options *options, stw_graph **out,
                                   stw_error *error) {
    *out = NULL;
    stw_arena unpacked;
    stw_str text;
    TRY(stw_arena_create_for_file(&unpacked, error));
    const stw_file_limits *limits = options != NULL ? &options->limits : NULL;
    stw_status status = stw_unpack_within((stw_str){bytes, (int64_t)size}, limits, &unpacked, &text, error);
    if (status == STW_OK) status = read_noting(text, unpacked, options, out, error);
    stw_arena_destroy(&unpacked);
    if (status != STW_OK) stw_error_prefix(error, label);
    return status;
}

stw_status stw_graph_open_reading(const char *path, stw_read_options *options, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena file;
    stw_str text;
    TRY(stw_arena_create_for_file(&file, error));
    const stw_file_state before = stw_file_state_of(path);
    stw_status status = stw_file_read_within(path, options != NULL ? &options->limits : NULL, &file, &text, error);
    if (status == STW_OK) {
        status = read_noting(text, file, options, out, error);
        if (!stw_file_state_equal(before, stw_file_state_of(path))) { /* then nothing that was read counts, errors included */
            if (status == STW_OK) stw_graph_destroy(*out);
            *out = NULL;
            status = stw_fail(error, STW_ERROR_IO, "changed while it was read; try again when it is written");
        }
        if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    }
    stw_arena_destroy(&file);
    return status;
}

stw_status stw_graph_parse(const void *bytes, size_t size, const char *label, stw_graph **out, stw_error *error) {
    STW_NEED(label);
    STW_NEED(out);
    return stw_graph_parse_reading(bytes, size, label, NULL, out, error);
}

stw_status stw_graph_open(const char *path, stw_graph **out, stw_error *error) {
    STW_NEED(path);
    STW_NEED(out);
    return stw_graph_open_reading(path, NULL, out, error);
}
