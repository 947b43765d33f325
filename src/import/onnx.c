/* Reads ONNX models; see onnx.h. */
#include "import/onnx_rules.h"

#include "import/import.h"

enum { IR_VERSION = 1, PRODUCER = 2, GRAPH = 7, OPSET = 8, FUNCTIONS = 25, LARGEST_FIELD = 40, LARGEST_IR = 1000 };

/* A model begins with its IR version and has a graph; neither TensorFlow's nor XLA's files have a number in field 1. */
bool stw_onnx_is(stw_str bytes) {
    if (bytes.length < 2) return false;
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb m = stw_pb_message(&file);
    bool version = false, more = false;
    for (stw_pb_field f; stw_pb_next(&m, &f) || file.failed;) {
        if (f.number == IR_VERSION && (f.type != STW_PB_VARINT || f.value < 1 || f.value > LARGEST_IR)) return false;
        if (f.number > LARGEST_FIELD) return false;
        version |= f.number == IR_VERSION && !file.failed;
        more |= (f.number == GRAPH || f.number == OPSET || f.number == PRODUCER) && f.type == STW_PB_BYTES;
        if (file.failed) break; /* cut off: still a model, if what came before was */
    }
    return version && more;
}

static bool read_function(stw_onnx_reader *r, stw_pb *model, const stw_pb_field *f, stw_onnx_function *out) {
    stw_pb m;
    if (!stw_pb_enter(model, f, &m)) return false;
    *out = (stw_onnx_function){.bytes = f->bytes, .depth = m.depth};
    for (stw_pb_field g; stw_pb_next(&m, &g);) {
        if (g.number == 1) stw_pb_string(&m, &g, &out->name);
        if (g.number == 10) stw_pb_string(&m, &g, &out->domain);
        if (g.number == 13) stw_pb_string(&m, &g, &out->overload);
    }
    return !r->file.failed;
}

/* Functions; *graph is where the main graph lies. Opsets are not asked for: the rules take what every version has. */
static bool read_model(stw_onnx_reader *r, stw_pb *graph) {
    stw_pb counted = stw_pb_message(&r->file), m = counted;
    int64_t functions = 0;
    bool found = false;
    for (stw_pb_field f; stw_pb_next(&counted, &f);) functions += f.number == FUNCTIONS;
    r->function = STW_NEW(r->arena, stw_onnx_function, functions);
    if (r->function == NULL || functions > INT32_MAX) return stw_pb_fail(&r->file, m.cursor, "out of memory");
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == FUNCTIONS) read_function(r, &m, &f, &r->function[r->function_count++]);
        if (f.number != GRAPH) continue;
        if (found) return stw_pb_fail(&r->file, f.at, "the model has a second graph");
        found = stw_pb_enter(&m, &f, graph);
    }
    if (r->file.failed) return false;
    return found || stw_pb_fail(&r->file, r->file.begin, "the model has no graph; is the file cut off?");
}

static bool emit_outputs(stw_onnx_reader *r, const stw_onnx_graph *graph) {
    for (int32_t k = 0; k < graph->output_count; k++) {
        int32_t node = 0;
        if (!stw_onnx_emit_value(r, graph->output[k], &node)) return false;
        if (stw_builder_output(r->builder, node, r->error) != STW_OK) return false;
    }
    return true;
}

static bool read_all(stw_onnx_reader *r, stw_str *name) {
    stw_pb message = {0};
    stw_onnx_scope scope;
    stw_onnx_graph graph;
    stw_onnx_eval eval = {.reader = r, .arena = r->arena, .scope = &scope};
    if (!read_model(r, &message) || !stw_onnx_index_functions(r)) return false;
    if (!stw_onnx_scope_create(r, r->arena, NULL, true, &scope) || !stw_onnx_read_graph(&eval, message, false, &graph))
        return false;
    *name = graph.name;
    return stw_onnx_take_inputs(&eval, &graph) && stw_onnx_walk(&eval, &graph) && emit_outputs(r, &graph);
}

static stw_status read_into(stw_onnx_reader *r, stw_graph **out, stw_error *error) {
    stw_str name = {0};
    TRY(stw_onnx_table_create(r->arena, &r->table, error));
    TRY(stw_builder_create(r->arena, STW_ONNX, &r->builder, error));
    r->insides.arena = r->arena;
    if (!read_all(r, &name)) return STW_ERROR_INPUT;
    stw_builder_keep_insides(r->builder, &r->insides, false);
    TRY(stw_given_check(r->options, error));
    return stw_builder_finish(r->builder, name, STW_STR("onnx"), out, error);
}

stw_status stw_onnx_read_shaped(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    stw_onnx_reader r = {.error = error, .options = options, .default_dim = 1};
    r.budget = STW_ONNX_BODY_BUDGET + 4 * bytes.length / STW_ONNX_BYTES_PER_PART; /* bodies may hold weights, a few deep */
    r.file = stw_pb_open(bytes, error);
    TRY(stw_arena_create_for_file(&arena, error));
    r.arena = &arena;
    stw_status status = stw_arena_create_for_file(&r.scratch, error);
    if (status == STW_OK) status = read_into(&r, out, error);
    stw_arena_destroy(&r.scratch);
    stw_arena_destroy(&arena);
    return status;
}

stw_status stw_onnx_read(stw_str bytes, stw_graph **out, stw_error *error) {
    return stw_onnx_read_shaped(bytes, NULL, out, error);
}
