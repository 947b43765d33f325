/* Lines for the user of a planned model: the options of ONNX Runtime, and how a model for several GPUs is cut. */
#include "export/onnx.h"

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

/* ---- parts ---- */

typedef bool belongs(const stw_onnx_part_value *value, int32_t device);

/* "['a', 'b']"; of long lists the first names and how many more there are. The whole note has a limit, so lists are short. */
static void add_names(lines *l, const stw_onnx_parts *parts, int32_t device, belongs *does, bool *cut) {
    enum { MOST_NAMES = 6, MOST_LETTERS = 200 };
    int64_t count = 0, shown = 0, letters = 0;
    add(l, STW_STR("["));
    for (int64_t k = 0; k < parts->value_count; k++) {
        if (!does(&parts->value[k], device)) continue;
        const stw_str name = parts->value[k].value->name;
        const bool fits = count == shown && shown < MOST_NAMES && letters + name.length <= MOST_LETTERS;
        count++;
        if (!fits) continue;
        add(l, stw_str_format(l->arena, "%s'%.*s'", shown > 0 ? ", " : "", (int)name.length, name.p));
        letters += name.length;
        shown++;
    }
    add(l, STW_STR("]"));
    if (count == shown) return;
    *cut = true;
    add(l, stw_str_format(l->arena, " and %lld more", (long long)(count - shown)));
}

static void add_cut(lines *l, const stw_onnx_parts *parts) {
    enum { MOST_PARTS = 8 };
    bool cut = parts->count > MOST_PARTS;
    add(l, STW_STR(
               "A session has one instance of an execution provider, so each device takes a session of its own, with its part of "
               "the model. onnx.utils.extract_model(MODEL, PART, inputs, outputs) cuts them, to be run in this order:\n"));
    for (int32_t p = 0; p < parts->count && p < MOST_PARTS; p++) {
        add(l, stw_str_format(l->arena, "  %s%d: inputs ", STW_ONNX_TAG, parts->order[p]));
        add_names(l, parts, parts->order[p], stw_onnx_part_reads, &cut);
        add(l, STW_STR(", outputs "));
        add_names(l, parts, parts->order[p], stw_onnx_part_writes, &cut);
        add(l, STW_STR("\n"));
    }
    if (parts->count > MOST_PARTS) add(l, stw_str_format(l->arena, "  and %d more parts\n", parts->count - MOST_PARTS));
    if (cut) add(l, STW_STR("Names that are not shown: tensors that a node of another layer_ann reads.\n"));
    if (parts->has_bodies) {
        add(l,
            STW_STR(
                "extract_model leaves out what bodies of If, Loop and Scan read from outside; such parts need work by hand.\n"));
    }
}

static stw_status add_parts(lines *l, const stw_onnx_output *x, stw_error *error) {
    stw_onnx_parts parts;
    TRY(stw_onnx_find_parts(x, l->arena, &parts, error));
    if (parts.is_forward) {
        add_cut(l, &parts);
    } else {
        add(l,
            stw_str_format(l->arena,
                           "A session has one instance of an execution provider, so two GPUs cannot work in one; and this plan "
                           "goes back and forth between them (%lld tensors cross), so the model cannot be cut into a part for "
                           "each. A plan by 'spread' goes one way.\n",
                           (long long)parts.crossing));
    }
    return STW_OK;
}

stw_status stw_onnx_write_note(stw_onnx_output *x, stw_error *error) {
    lines l = {.arena = x->e->arena,
               .text = STW_STR("ONNX Runtime 1.25 and later, session option for the devices:\n"
                               "session.layer_assignment_settings = ")};
    int32_t accelerators = 0;
    add_setting(&l, x, &accelerators);
    add(&l, STW_STR("\n"));
    if (accelerators > 1) TRY(add_parts(&l, x, error));
    add(&l,
        STW_STR("For the order: graph_optimization_level = ORT_DISABLE_ALL, execution_order = ExecutionOrder.PRIORITY_BASED.\n"));
    add_version(&l, x);
    if (l.failed) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    x->e->note = l.text;
    return STW_OK;
}
