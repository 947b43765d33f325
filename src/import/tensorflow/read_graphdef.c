/* Files of TensorFlow: is it one, and the whole way from bytes or text to the graph. */
#include "import/import.h"
#include "import/tensorflow/function.h"
#include "import/wire/pbwire.h"

/* ---- SavedModel ---- */

/* A SavedModel of TensorFlow is known, so that it is not taken for something else; it is not read: what it computes mostly stands
 * in functions that its graph merely calls. */

enum { SCHEMA_VERSION = 1, META_GRAPH = 2, GRAPH = 2, LARGEST_META_FIELD = 7 };

/* A MetaGraphDef: messages only, and its graph among them. */
static bool is_meta_graph(stw_str bytes) {
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb m = stw_pb_message(&file);
    bool has_graph = false;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.type != STW_PB_BYTES || f.number > LARGEST_META_FIELD) return false;
        has_graph |= f.number == GRAPH;
    }
    return has_graph && !file.failed;
}

/* In bytes a version and MetaGraphDefs, where an ONNX model has the producer's name. */
bool stw_saved_model_is(stw_str bytes) {
    if (stw_str_starts(bytes, "saved_model_schema_version:")) return true;
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb m = stw_pb_message(&file);
    bool has_graph = false;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        const bool version = f.number == SCHEMA_VERSION && f.type == STW_PB_VARINT;
        const bool graph = f.number == META_GRAPH && f.type == STW_PB_BYTES && is_meta_graph(f.bytes);
        if (!version && !graph) return false;
        has_graph |= graph;
    }
    return has_graph && !file.failed;
}

stw_status stw_saved_model_refuse(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error) {
    (void)bytes, (void)options;
    *out = NULL;
    return stw_fail(
        error, STW_ERROR_INPUT,
        "this is a SavedModel, of which only the graph can be planned: freeze it (convert_variables_to_constants_v2 of "
        "TensorFlow) and save frozen.graph.as_graph_def(), or convert it with tf2onnx");
}

/* ---- GraphDef ---- */

typedef stw_status read_model(stw_str, stw_tf_model *, stw_error *);

static stw_status read_model_in(read_model *read, stw_str bytes, stw_read_options *options, stw_arena *arena, stw_arena scratch,
                                stw_graph **out, stw_error *error) {
    stw_tf_model model = {.arena = arena};
    stw_tf_graph graph;
    stw_tf_library library;
    TRY(read(bytes, &model, error));
    if (model.node_count == 0) return stw_fail(error, STW_ERROR_INPUT, "the graph has no nodes; is this a GraphDef?");
    TRY(stw_tf_library_create(&model, scratch, &library, error));
    TRY(stw_tf_link(&model, &graph, error));
    graph.options = options;
    graph.library = &library;
    TRY(stw_tf_infer(&graph, error));
    TRY(stw_given_check(options, error));
    return stw_tf_build(&graph, out, error);
}

static stw_status read_in_arena(read_model *read, stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error) {
    stw_arena arena, scratch; /* functions are looked at in memory of their own, while lists of the file grow */
    *out = NULL;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_status status = stw_arena_create_for_file(&scratch, error);
    if (status == STW_OK) {
        status = read_model_in(read, bytes, options, &arena, scratch, out, error);
        stw_arena_destroy(&scratch);
    }
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_graphdef_read(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error) {
    return read_in_arena(stw_tf_read_wire, bytes, options, out, error);
}

stw_status stw_pbtxt_read(stw_str text, stw_read_options *options, stw_graph **out, stw_error *error) {
    return read_in_arena(stw_tf_read_text, text, options, out, error);
}

static bool is_identifier(stw_str s) {
    for (int64_t i = 0; i < s.length; i++) {
        const char c = s.p[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        const bool later = (c >= '0' && c <= '9') || c == '>' || c == '.' || c == '-' || c == '/';
        if (!letter && !(later && i > 0)) return false;
    }
    return s.length > 0;
}

/* The first field is a node: strings for name, operator, inputs and device; other formats have numbers or messages there. */
bool stw_graphdef_is(stw_str bytes) {
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb graph = stw_pb_message(&file), node;
    stw_pb_field f = {0};
    bool named = false, has_op = false;
    if (bytes.length == 0 || bytes.p[0] != '\n' || !stw_pb_next(&graph, &f) || !stw_pb_enter(&graph, &f, &node)) return false;
    while (stw_pb_next(&node, &f)) {
        if (f.type != STW_PB_BYTES || f.number > 7) return false;
        if (f.number == 2 && !is_identifier(f.bytes)) return false;
        for (int64_t i = 0; f.number <= 4 && i < f.bytes.length; i++) {
            if ((unsigned char)f.bytes.p[i] < 0x20) return false;
        }
        named |= f.number == 1 && f.bytes.length > 0;
        has_op |= f.number == 2;
    }
    return named && has_op && !file.failed;
}
