/* Opening a graph with options: where the options meet the readers. */
#include "opening.h"

#include <stdio.h>

#include "import/import.h"

typedef struct {
    const char *path; /* or, if NULL: */
    const void *bytes;
    size_t size;
    const char *label;
} source;

/* `remark` may be NULL. */
static stw_status read_with(const source *from, const stw_options *options, char *remark, stw_graph **out, stw_error *error) {
    const char *shape = options != NULL ? stw_options_get(options, "shape") : NULL;
    stw_arena arena;
    stw_read_options reading;
    *out = NULL;
    TRY(stw_arena_create_sized(&arena, (int64_t)1 << 30, error));
    stw_status status = stw_read_options_parse(shape, &arena, &reading, error);
    reading.limits = stw_file_limits_of(options != NULL ? stw_options_get(options, "file-limit") : NULL);
    if (status == STW_OK) {
        status = from->path != NULL ? stw_graph_open_reading(from->path, &reading, out, error)
                                    : stw_graph_parse_reading(from->bytes, from->size, from->label, &reading, out, error);
    }
    if (status == STW_OK && remark != NULL) {
        const stw_str empty = stw_empty_remark(*out, &reading, &arena);
        snprintf(remark, STW_OPENING_REMARK, "%.*s", (int)empty.length, empty.p != NULL ? empty.p : "");
    }
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_graph_open_with(const char *path, const stw_options *options, stw_graph **out, stw_error *error) {
    return read_with(&(source){.path = path}, options, NULL, out, error);
}

stw_status stw_graph_open_telling(const char *path, const stw_options *options, char remark[STW_OPENING_REMARK], stw_graph **out,
                                  stw_error *error) {
    remark[0] = '\0';
    return read_with(&(source){.path = path}, options, remark, out, error);
}

stw_status stw_graph_parse_with(const void *bytes, size_t size, const char *label, const stw_options *options, stw_graph **out,
                                stw_error *error) {
    return read_with(&(source){.bytes = bytes, .size = size, .label = label}, options, NULL, out, error);
}
