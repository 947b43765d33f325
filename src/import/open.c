/* Opens a graph file of any format that we read. */
#include "base/file.h"
#include "import/import.h"

/* Formats that are known by their bytes; the rest is JSON. */
static const struct {
    bool (*is)(stw_str bytes);
    stw_status (*read)(stw_str bytes, stw_graph **out, stw_error *error);
} models[] = {
    {stw_onnx_is, stw_onnx_read},         {stw_hlo_text_is, stw_hlo_text_read}, {stw_hlo_proto_is, stw_hlo_proto_read},
    {stw_graphdef_is, stw_graphdef_read}, {stw_pbtxt_is, stw_pbtxt_read},
};
enum { MODELS = sizeof models / sizeof models[0] };

static int find_model(stw_str bytes) {
    int k = 0;
    while (k < MODELS && !models[k].is(bytes)) k++;
    return k;
}

bool stw_model_is(stw_str bytes) { return find_model(bytes) < MODELS; }

stw_status stw_check_known(stw_str bytes, stw_error *error) {
    int64_t at = 0;
    while (at < bytes.length && (bytes.p[at] == ' ' || bytes.p[at] == '\t' || bytes.p[at] == '\n' || bytes.p[at] == '\r')) at++;
    if (at == bytes.length) return stw_fail(error, STW_ERROR_INPUT, "is empty");
    if (bytes.p[at] == '{' || stw_model_is(bytes)) return STW_OK;
    return stw_fail(error, STW_ERROR_INPUT,
                    "not a format that is read; known: opgraph JSON, dnn-partitioning JSON, ONNX, HLO text or protobuf, "
                    "TensorFlow GraphDef (.pb, .pbtxt)");
}

static stw_status read_any(stw_str text, stw_arena scratch, stw_graph **out, stw_error *error) {
    const int k = find_model(text);
    if (k < MODELS) return models[k].read(text, out, error);
    TRY(stw_check_known(text, error));
    return stw_dnnpart_is(text, scratch) ? stw_dnnpart_read(text, out, error) : stw_opgraph_read(text, out, error);
}

stw_status stw_graph_parse(const void *bytes, size_t size, const char *label, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena unpacked;
    stw_str text;
    TRY(stw_arena_create(&unpacked, error));
    stw_status status = stw_unpack((stw_str){bytes, (int64_t)size}, &unpacked, &text, error);
    if (status == STW_OK) status = read_any(text, unpacked, out, error);
    stw_arena_destroy(&unpacked);
    if (status != STW_OK) stw_error_prefix(error, label);
    return status;
}

stw_status stw_graph_open(const char *path, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena file;
    stw_str text;
    TRY(stw_arena_create(&file, error));
    stw_status status = stw_file_read(path, &file, &text, error);
    if (status == STW_OK) {
        status = read_any(text, file, out, error);
        if (status != STW_OK) stw_error_prefix(error, stw_file_label(path));
    }
    stw_arena_destroy(&file);
    return status;
}
