/* Reads ONNX models; see onnx.h. */
#include "import/onnx/onnx.h"
#include "import/import.h"
#include "import/onnx/onnx_rules.h"

/* ---- inputs ---- */

/* The inputs of an ONNX model's main graph: what the file states of their shapes, what is given instead, and what stays open. */

/* In a graph that computes gradients, an input with a gradient among the outputs is a weight. */
static bool has_gradient(const stw_onnx_reader *r, const stw_onnx_scope *scope, const stw_onnx_value *input) {
    static const stw_str suffix = {"_grad", 5};
    stw_arena scratch = r->scratch;
    char *text = STW_NEW_DIRTY(&scratch, char, input->name.length + suffix.length);
    if (text == NULL) return false;
    if (input->name.length > 0) memcpy(text, input->name.p, (size_t)input->name.length);
    memcpy(text + input->name.length, suffix.p, (size_t)suffix.length);
    const stw_onnx_value *gradient = stw_onnx_lookup(scope, (stw_str){text, input->name.length + suffix.length});
    return gradient != NULL && gradient->is_output;
}

/* An initializer may be listed as an input too. */
static bool is_input(const stw_onnx_value *value) { return !value->stored && value->node < 0; }

static bool failed(stw_onnx_reader *r, stw_status status) {
    if (status == STW_OK) return false;
    r->file.failed = true; /* the message stands already */
    return true;
}

/* First the shapes that are given, since they settle dimensions that other inputs have too. */
static bool settle_given(stw_onnx_eval *eval, const stw_onnx_graph *graph) {
    stw_onnx_reader *r = eval->reader;
    for (int32_t k = 0; k < graph->input_count; k++) { /* before any dimension is asked for by name */
        if (is_input(graph->input[k])) stw_given_find(r->options, graph->input[k]->name);
    }
    for (int32_t k = 0; k < graph->input_count; k++) {
        const stw_onnx_value *input = graph->input[k];
        const stw_given_shape *given = is_input(input) ? stw_given_find(r->options, input->name) : NULL;
        stw_arena scratch = r->scratch;
        stw_model_input stated = {.name = input->name, .rank = -1};
        if (given == NULL) continue;
        if (!stw_onnx_read_stated(r, input->declared, &stated, &scratch)) return false;
        if (failed(r, stw_given_settle(r->options, &stated, given, r->error))) return false;
    }
    return true;
}

static bool take_shape(stw_onnx_eval *eval, stw_onnx_value *input) {
    stw_onnx_reader *r = eval->reader;
    const stw_given_shape *given = stw_given_find(r->options, input->name);
    if (input->declared.length > 0) stw_onnx_read_type(r, input->declared, 0, input, eval->arena);
    if (r->file.failed) return false;
    if (given != NULL && !stw_onnx_set_shape(input, input->dtype, given->rank, given->dim, eval->arena))
        return stw_pb_fail(&r->file, r->file.begin + input->at, "out of memory");
    if (r->options == NULL) return true;
    stw_arena scratch = r->scratch;
    stw_model_input stated = {.name = input->name, .rank = -1};
    if (!stw_onnx_read_stated(r, input->declared, &stated, &scratch)) return false;
    return !failed(r, stw_note_input(r->options, &stated, r->error));
}

static bool take_inputs(stw_onnx_eval *eval, const stw_onnx_graph *graph) {
    stw_onnx_reader *r = eval->reader;
    for (int32_t k = 0; k < graph->output_count; k++) graph->output[k]->is_output = true;
    if (r->options != NULL && !settle_given(eval, graph)) return false;
    for (int32_t k = 0; k < graph->input_count; k++) {
        stw_onnx_value *input = graph->input[k];
        if (!is_input(input)) continue;
        const bool weight = has_gradient(r, eval->scope, input);
        if (!take_shape(eval, input)) return false;
        if (!stw_onnx_emit_input(r, input, weight ? STW_NODE_PARAMETER : STW_NODE_INPUT)) return false;
    }
    return true;
}

/* ---- the model ---- */

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
    return take_inputs(&eval, &graph) && stw_onnx_walk(&eval, &graph) && emit_outputs(r, &graph);
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

stw_status stw_onnx_read(stw_str bytes, stw_read_options *options, stw_graph **out, stw_error *error) {
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
