/* ONNX models with the plan in them; see onnx.h. */
#include "export/onnx.h"

#include "import/import.h"

/* ---- lines for the user ---- */

typedef struct {
    stw_arena *arena;
    stw_str text;
    bool failed;
} lines;

static void add(lines *l, stw_str more) {
    if (more.p == NULL) l->failed = true;
    if (l->failed) return;
    const stw_str both = stw_str_format(l->arena, "%.*s%.*s", (int)l->text.length, l->text.p, (int)more.length, more.p);
    l->failed = both.p == NULL;
    if (!l->failed) l->text = both;
}

/* "gpu:0(=stowage_0); cpu(=stowage_1)" for the devices that have nodes; *accelerators counts those that are no CPU. */
static void add_setting(lines *l, const stw_onnx_output *x, int32_t *accelerators) {
    const stw_machine *machine = x->e->machine;
    bool used[STW_MAX_DEVICES] = {false}, first = true;
    int32_t index = 0;
    *accelerators = 0;
    for (int32_t k = 0; k < x->graph.node_count; k++) used[x->decision[k].device] = true;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const bool cpu = stw_str_starts(machine->device[d].kind, "cpu");
        const int32_t number = cpu ? 0 : index++;
        if (!used[d]) continue;
        *accelerators += !cpu;
        if (!first) add(l, STW_STR("; "));
        first = false;
        add(l, cpu ? stw_str_format(l->arena, "cpu(=%s%d)", STW_ONNX_TAG, d)
                   : stw_str_format(l->arena, "gpu:%d(=%s%d)", number, STW_ONNX_TAG, d));
    }
}

static void add_version(lines *l, const stw_onnx_output *x) {
    if (x->ir_written < STW_ONNX_CONFIGURATION_IR) {
        add(l, stw_str_format(l->arena,
                              "The model stays at IR version %lld, for a higher one would change what it means: it has no device "
                              "configurations, only metadata_props.\n",
                              (long long)x->ir_version));
    } else if (x->ir_written != x->ir_version) {
        add(l, stw_str_format(l->arena, "IR version raised from %lld to %lld, for the device configurations.\n",
                              (long long)x->ir_version, (long long)x->ir_written));
    }
}

static stw_status write_note(stw_onnx_output *x, stw_error *error) {
    lines l = {.arena = x->e->arena,
               .text = STW_STR("ONNX Runtime 1.25 and later, session option for the devices:\n"
                               "session.layer_assignment_settings = ")};
    int32_t accelerators = 0;
    add_setting(&l, x, &accelerators);
    add(&l, STW_STR("\n"));
    if (accelerators > 1) {
        add(&l, STW_STR("A session has one instance of an execution provider, so two GPUs cannot work in one: take a session for "
                        "each, with the model cut by onnx.utils.extract_model.\n"));
    }
    add(&l,
        STW_STR("For the order: graph_optimization_level = ORT_DISABLE_ALL, execution_order = ExecutionOrder.PRIORITY_BASED.\n"));
    add_version(&l, x);
    if (l.failed) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    x->e->note = l.text;
    return STW_OK;
}

/* ---- the steps ---- */

static stw_status run(stw_onnx_output *x, stw_error *error) {
    TRY(stw_onnx_match(x, error));
    TRY(stw_onnx_order(x, error));
    TRY(stw_onnx_decide(x, error));
    TRY(stw_onnx_write(x, error));
    return write_note(x, error);
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
