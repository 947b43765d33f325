/* The inputs of an ONNX model's main graph: what the file states of their shapes, what is given instead, and what stays open. */
#include "import/onnx.h"

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

bool stw_onnx_take_inputs(stw_onnx_eval *eval, const stw_onnx_graph *graph) {
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
