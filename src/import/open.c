/* Reads a graph of any format that we know, and tells which of its sizes are open. */
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
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

/* ---- which format is it ---- */

/* Formats of models, each known by what its reader finds in the bytes. */
static const struct {
    bool (*is)(stw_str bytes);
    stw_status (*read)(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error);
    stw_status (*read_fixed)(stw_str bytes, stw_graph **out, stw_error *error); /* where the format leaves no shapes open */
} models[] = {
    {stw_saved_model_is, stw_saved_model_refuse, NULL}, {stw_onnx_is, stw_onnx_read, NULL},
    {stw_hlo_text_is, NULL, stw_hlo_text_read},         {stw_hlo_proto_is, NULL, stw_hlo_proto_read},
    {stw_graphdef_is, stw_graphdef_read, NULL},         {stw_pbtxt_is, stw_pbtxt_read, NULL},
};
enum { MODELS = sizeof models / sizeof models[0] };

/* No format but JSON begins with a brace: in protobuf that is a group, which none of the readers takes. (White space tells
 * nothing, since a GraphDef begins with a line feed.) */
static int find_model(stw_str bytes) {
    int k = stw_str_starts(bytes, "{") ? MODELS : 0;
    while (k < MODELS && !models[k].is(bytes)) k++;
    return k;
}

bool stw_dnnpart_is(stw_str text, stw_arena scratch) {
    stw_json json;
    stw_error ignored; /* the reader that gets it reports what is no JSON */
    stw_str key;
    stw_json_init(&json, text, &scratch, &ignored);
    if (stw_json_peek(&json) != STW_JSON_OBJECT || !stw_json_object(&json)) return false;
    while (stw_json_key(&json, &key)) {
        if (stw_str_is(key, "format")) return false;
        if (stw_str_is(key, "maxFPGAs") || stw_str_is(key, "maxSizePerFPGA")) return true;
        if (!stw_json_skip(&json, NULL)) return false;
    }
    return false;
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
    if (k < MODELS && models[k].read != NULL) return models[k].read(text, options, out, error);
    if (k == MODELS) TRY(stw_check_known(text, error));
    if (options->given_count > 0)
        return stw_fail(
            error, STW_ERROR_INPUT,
            "--shape is for ONNX models and TensorFlow graphs; in this format every shape is fixed, so write the file anew");
    if (k < MODELS) return models[k].read_fixed(text, out, error);
    return stw_dnnpart_is(text, scratch) ? stw_dnnpart_read(text, out, error) : stw_opgraph_read(text, out, error);
}

/* ---- files ---- */

static stw_status load(const stw_graph_source *source, const stw_file_limits *limits, stw_arena *arena, stw_str *out,
                       stw_error *error) {
    if (source->path != NULL) return stw_file_read_within(source->path, limits, arena, out, error);
    const stw_status status = stw_unpack_within(source->bytes, limits, arena, out, error);
    if (status != STW_OK) stw_error_prefix(error, source->label);
    return status;
}

static stw_file_state state_of(const stw_graph_source *source) {
    return source->path != NULL ? stw_file_state_of(source->path) : (stw_file_state){0};
}

static stw_status read_source(const stw_graph_source *source, stw_read_options *options, stw_arena *arena, stw_graph **out,
                              stw_error *error) {
    stw_str text;
    const stw_file_state before = state_of(source);
    TRY(load(source, &options->limits, arena, &text, error));
    stw_status status = read_any(text, *arena, options, out, error);
    if (!stw_file_state_equal(before, state_of(source))) { /* then nothing that was read counts, errors included */
        if (status == STW_OK) stw_graph_destroy(*out);
        *out = NULL;
        status = stw_fail(error, STW_ERROR_IO, "changed while it was read; try again when it is written");
    }
    if (status != STW_OK) {
        stw_error_prefix(error, source->path != NULL ? stw_file_label(source->path) : source->label);
        return status;
    }
    (*out)->open_sizes = remark_of(*out, options, &(*out)->arena); /* what the file leaves open stays with the graph */
    return STW_OK;
}

stw_status stw_graph_read(const stw_graph_source *source, stw_read_options *options, stw_graph **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create_for_file(&arena, error));
    const stw_status status = read_source(source, options, &arena, out, error);
    stw_arena_destroy(&arena);
    return status;
}
