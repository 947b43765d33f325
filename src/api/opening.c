/* Opening a graph: where the options meet the readers. */
#include "api/options.h"
#include "import/import.h"

static stw_status read_graph(const stw_graph_source *source, const stw_options *options, stw_graph **out, stw_error *error) {
    stw_arena arena;
    stw_read_options reading;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_status status = stw_read_options_parse(stw_options_text(options, "shape"), &arena, &reading, error);
    reading.limits = stw_options_file_limits(options);
    if (status == STW_OK) status = stw_graph_read(source, &reading, out, error);
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_graph_open(const char *path, const stw_options *options, stw_graph **out, stw_error *error) {
    STW_NEED(path);
    STW_NEED(out);
    return read_graph(&(stw_graph_source){.path = path}, options, out, error);
}

stw_status stw_graph_parse(const void *bytes, size_t size, const char *label, const stw_options *options, stw_graph **out,
                           stw_error *error) {
    STW_NEED(label);
    STW_NEED(out);
    return read_graph(&(stw_graph_source){.bytes = {bytes, (int64_t)size}, .label = label}, options, out, error);
}
