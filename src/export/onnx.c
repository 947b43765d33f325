/* ONNX models with the plan in them; see onnx.h. */
#include "export/onnx.h"

#include <string.h>

#include "base/file.h"
#include "import/import.h"

/* ---- weights outside of the file ---- */

/* The file that a tensor's data stands in, as the model names it; empty: none. */
static stw_str find_location(stw_pb tensor) {
    enum { EXTERNAL_DATA = 13, KEY = 1, VALUE = 2 };
    stw_pb_field f, g;
    while (stw_pb_next(&tensor, &f)) {
        stw_pb entry;
        stw_str key = {0}, value = {0};
        if (f.number != EXTERNAL_DATA || !stw_pb_enter(&tensor, &f, &entry)) continue;
        while (stw_pb_next(&entry, &g)) {
            if (g.number == KEY) (void)stw_pb_string(&entry, &g, &key);
            if (g.number == VALUE) (void)stw_pb_string(&entry, &g, &value);
        }
        if (stw_str_is(key, "location")) return value;
    }
    return (stw_str){0};
}

/* The output must not take the place of the model's own weights, which stand beside it. */
static stw_status check_weights(const stw_onnx_output *x, stw_error *error) {
    enum { INITIALIZER = 5 };
    const char *model = x->e->model_path, *slash = model == NULL ? NULL : strrchr(model, '/');
    stw_pb_file file = stw_pb_open(x->model_graph, NULL);
    stw_pb graph = stw_pb_range(&file, x->model_graph, 1), tensor;
    stw_pb_field f;
    while (x->e->path != NULL && model != NULL && stw_pb_next(&graph, &f)) {
        char beside[STW_PATH_BYTES];
        if (f.number != INITIALIZER || !stw_pb_enter(&graph, &f, &tensor)) continue;
        const stw_str location = find_location(tensor);
        if (location.length == 0 || location.length > STW_PATH_BYTES / 2) continue;
        const int folder = slash == NULL ? 0 : (int)(slash + 1 - model);
        if (snprintf(beside, sizeof beside, "%.*s%.*s", folder, model, STW_STR_SHOW(location)) >= (int)sizeof beside) continue;
        if (stw_file_is_same(beside, x->e->path))
            return stw_fail(error, STW_ERROR_INPUT,
                            "'%.200s' holds weights of the model, which it would overwrite; name another file", x->e->path);
    }
    return STW_OK;
}

/* ---- the steps ---- */

static stw_status run(stw_onnx_output *x, stw_error *error) {
    TRY(stw_onnx_match(x, error));
    TRY(check_weights(x, error));
    TRY(stw_onnx_order(x, error));
    TRY(stw_onnx_decide(x, error));
    TRY(stw_onnx_write(x, error));
    return stw_onnx_write_note(x, error);
}

stw_status stw_export_onnx(stw_export *e, stw_error *error) {
    if (!stw_onnx_is(e->model)) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "the graph does not come from an ONNX model (its family is '%.*s'), and format 'onnx' puts the plan into "
                        "one; take the format of the model's own file, or csv",
                        STW_STR_SHOW(e->graph->family));
    }
    stw_onnx_output x = {.e = e, .reader = {.arena = e->arena, .error = error}};
    x.reader.file = stw_pb_open(e->model, error);
    x.reader.budget = STW_ONNX_BODY_BUDGET + 4 * e->model.length / STW_ONNX_BYTES_PER_PART;
    TRY(stw_arena_create(&x.reader.scratch, error));
    const stw_status status = run(&x, error);
    stw_arena_destroy(&x.reader.scratch);
    return status;
}
