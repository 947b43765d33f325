/* A SavedModel of TensorFlow is known, so that it is not taken for something else; it is not read: what it computes mostly stands
 * in functions that its graph merely calls. */
#include "import/import.h"
#include "import/pbwire.h"

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
