/* ONNX models with the plan in them; see onnx.h. */
#include "export/onnx.h"

#include "import/import.h"

static stw_status run(stw_onnx_output *x, stw_error *error) {
    TRY(stw_onnx_match(x, error));
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
