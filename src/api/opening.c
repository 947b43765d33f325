/* Opening a graph with options: where the options meet the readers. */
#include "import/import.h"

typedef struct {
    const char *path; /* or, if NULL: */
    const void *bytes;
    size_t size;
    const char *label;
} source;

static stw_status read_with(const source *from, const stw_options *options, stw_graph **out, stw_error *error) {
    const char *shape = options != NULL ? stw_options_get(options, "shape") : NULL;
    stw_arena arena;
    stw_read_options reading;
    *out = NULL;
    TRY(stw_arena_create(&arena, error));
    stw_status status = stw_read_options_parse(shape, &arena, &reading, error);
    reading.limits = stw_file_limits_of(options != NULL ? stw_options_get(options, "file-limit") : NULL);
    if (status == STW_OK) {
        status = from->path != NULL ? stw_graph_open_reading(from->path, &reading, out, error)
                                    : stw_graph_parse_reading(from->bytes, from->size, from->label, &reading, out, error);
    }
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_graph_open_with(const char *path, const stw_options *options, stw_graph **out, stw_error *error) {
    STW_NEED(path);
    STW_NEED(out);
    return read_with(&(source){.path = path}, options, out, error);
}

stw_status stw_graph_parse_with(const void *bytes, size_t size, const char *label, const stw_options *options, stw_graph **out,
                                stw_error *error) {
    STW_NEED(label);
    STW_NEED(out);
    return read_with(&(source){.bytes = bytes, .size = size, .label = label}, options, out, error);
}
