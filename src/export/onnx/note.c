/* What the user of a planned model should know: the options of ONNX Runtime, and how a model for several GPUs is cut. */
#include "export/onnx/planned_onnx.h"

/* ---- parts, one for each device ---- */

/* The model in parts, one for each device: what goes into each and what comes out, for onnx.utils.extract_model. */

typedef struct {                 /* an output of a node or an input of the model */
    const stw_onnx_value *value; /* NULL: an output that is left out */
    int32_t home;                /* the device that makes it; negative: none, or every one that reads it */
    bool is_output;              /* of the model */
    uint64_t readers;            /* devices, by bits */
} part_value;
_Static_assert(STW_MAX_DEVICES <= 64, "devices are bits");

typedef struct {
    part_value *value; /* (value_count) */
    int64_t value_count;
    int64_t crossing; /* values that another device reads */
    uint64_t used;    /* devices with nodes */
    bool is_forward;  /* the parts can be run one after the other */
    bool has_bodies;  /* If, Loop or Scan */
    int32_t count;    /* of parts in order */
    int32_t order[STW_MAX_DEVICES];
} model_parts;

enum { NO_DEVICE = -1, COPIED = -2 };

typedef struct boundaries {
    const stw_onnx_output *x;
    int64_t *first; /* (n + 1) places: outputs of the nodes, then the inputs of the model */
    part_value *value;
    int64_t count;
    bool *is_copied; /* (n) made of what stands in the file: every part that reads it gets it too */
} boundaries;

static uint64_t bit(int32_t device) { return (uint64_t)1 << device; }

static bool is_input(const stw_onnx_value *v) { return v->producer < 0 && !v->stored; }

/* Nodes that the plan has no task for and that read nothing but their like: constants and what is made of them. */
static bool find_copied(boundaries *b, int32_t k) {
    const stw_onnx_output *x = b->x;
    const stw_onnx_node *node = &x->graph.node[k];
    bool copied = x->id[k] < 0 || stw_node_is_source(x->e->graph->kind[x->id[k]]);
    for (int32_t i = 0; i < node->input_count; i++) copied &= node->input[i] == NULL || !is_input(node->input[i]);
    for (int64_t u = x->need_start[k]; u < x->need_start[k + 1]; u++) copied &= b->is_copied[x->need[u]];
    return copied;
}

static stw_status list_values(boundaries *b, stw_arena *arena, stw_error *error) {
    const stw_onnx_output *x = b->x;
    const int32_t n = x->graph.node_count;
    STW_TRY_NEW(arena, b->first, (int64_t)n + 1, error);
    STW_TRY_NEW(arena, b->is_copied, n, error);
    for (int32_t k = 0; k < n; k++) b->first[k + 1] = b->first[k] + x->graph.node[k].output_count;
    b->count = b->first[n] + x->graph.input_count;
    STW_TRY_NEW(arena, b->value, b->count, error);
    for (int32_t p = 0; p < n; p++) b->is_copied[x->order[p]] = find_copied(b, x->order[p]);
    for (int32_t k = 0; k < n; k++) {
        for (int32_t o = 0; o < x->graph.node[k].output_count; o++) {
            const stw_onnx_value *v = x->graph.node[k].output[o];
            const int32_t home = b->is_copied[k] ? COPIED : x->decision[k].device;
            b->value[b->first[k] + o] = (part_value){.value = v, .home = home};
        }
    }
    for (int32_t i = 0; i < x->graph.input_count; i++) {
        b->value[b->first[n] + i] = (part_value){.value = x->graph.input[i], .home = NO_DEVICE};
    }
    return STW_OK;
}

static part_value *find(const boundaries *b, const stw_onnx_value *v) {
    const int32_t n = b->x->graph.node_count;
    const int64_t begin = b->first[v->producer >= 0 ? v->producer : n],
                  end = v->producer >= 0 ? b->first[v->producer + 1] : b->count;
    for (int64_t k = begin; k < end; k++) {
        if (b->value[k].value == v) return &b->value[k];
    }
    return NULL;
}

static void note_readers(boundaries *b, model_parts *parts) {
    const stw_onnx_output *x = b->x;
    for (int32_t k = 0; k < x->graph.node_count; k++) {
        const stw_onnx_node *node = &x->graph.node[k];
        const int32_t device = x->decision[k].device;
        parts->has_bodies |= stw_str_is(node->op, "If") || stw_str_is(node->op, "Loop") || stw_str_is(node->op, "Scan");
        if (b->is_copied[k]) continue;
        parts->used |= bit(device);
        for (int32_t i = 0; i < node->input_count; i++) {
            const stw_onnx_value *v = node->input[i];
            if (v == NULL || (v->producer < 0 && !is_input(v))) continue;
            part_value *read = find(b, v);
            if (read != NULL && read->home != COPIED) read->readers |= bit(device);
        }
    }
}

/* What nobody computes but the model hands out comes from the part that the plan has it in. */
static void note_outputs(boundaries *b, model_parts *parts) {
    const stw_onnx_graph *graph = &b->x->graph;
    for (int32_t k = 0; k < graph->output_count; k++) {
        part_value *out = graph->output[k]->producer >= 0 ? find(b, graph->output[k]) : NULL;
        if (out == NULL) continue;
        if (out->home == COPIED) out->home = b->x->decision[graph->output[k]->producer].device;
        parts->used |= bit(out->home);
        out->is_output = true;
    }
}

/* Devices in an order in which each comes behind those that it reads from; false: there is none. */
static bool sort_devices(const uint64_t *reads, model_parts *parts) {
    uint64_t done = 0;
    while (done != parts->used) {
        int32_t next = 0;
        while (next < STW_MAX_DEVICES && ((parts->used & ~done & bit(next)) == 0 || (reads[next] & ~done) != 0)) next++;
        if (next == STW_MAX_DEVICES) return false;
        parts->order[parts->count++] = next;
        done |= bit(next);
    }
    return true;
}

static stw_status find_parts(const stw_onnx_output *x, stw_arena *arena, model_parts *out, stw_error *error) {
    boundaries b = {.x = x};
    uint64_t reads[STW_MAX_DEVICES] = {0}; /* devices that each reads from */
    *out = (model_parts){0};
    TRY(list_values(&b, arena, error));
    note_readers(&b, out);
    note_outputs(&b, out);
    for (int64_t k = 0; k < b.count; k++) {
        const int32_t home = b.value[k].home;
        const uint64_t elsewhere = home >= 0 ? b.value[k].readers & ~bit(home) : 0;
        out->crossing += elsewhere != 0;
        for (int32_t d = 0; d < STW_MAX_DEVICES; d++) {
            if ((elsewhere & bit(d)) != 0) reads[d] |= bit(home);
        }
    }
    out->value = b.value;
    out->value_count = b.count;
    out->is_forward = sort_devices(reads, out);
    return STW_OK;
}

/* Made elsewhere and read there. */
static bool part_reads(const part_value *v, int32_t device) { return v->home != device && (v->readers & bit(device)) != 0; }

/* Made there and read elsewhere, or of the model. */
static bool part_writes(const part_value *v, int32_t device) {
    return v->home == device && (v->is_output || (v->readers & ~bit(device)) != 0);
}

/* ---- lines for the user ---- */

/* Lines for the user of a planned model: the options of ONNX Runtime, and how a model for several GPUs is cut. */

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

typedef bool belongs(const part_value *value, int32_t device);

/* "['a', 'b']"; of long lists the first names and how many more there are. The whole note has a limit, so lists are short. */
static void add_names(lines *l, const model_parts *parts, int32_t device, belongs *does, bool *cut) {
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

static void add_cut(lines *l, const model_parts *parts) {
    enum { MOST_PARTS = 8 };
    bool cut = parts->count > MOST_PARTS;
    add(l, STW_STR(
               "A session has one instance of an execution provider, so each device takes a session of its own, with its part of "
               "the model. onnx.utils.extract_model(MODEL, PART, inputs, outputs) cuts them, to be run in this order:\n"));
    for (int32_t p = 0; p < parts->count && p < MOST_PARTS; p++) {
        add(l, stw_str_format(l->arena, "  %s%d: inputs ", STW_ONNX_TAG, parts->order[p]));
        add_names(l, parts, parts->order[p], part_reads, &cut);
        add(l, STW_STR(", outputs "));
        add_names(l, parts, parts->order[p], part_writes, &cut);
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
    model_parts parts;
    TRY(find_parts(x, l->arena, &parts, error));
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
