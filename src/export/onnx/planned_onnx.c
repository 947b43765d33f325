/* ONNX models with the plan in them; see onnx.h. */
#include <string.h>

#include "base/file.h"
#include "export/onnx/planned_onnx.h"
#include "import/import.h"

/* ---- the file, and which of its nodes is which ---- */

/* The model file again, and which of its nodes is which node of the plan's graph. */

/* ---- the file ---- */

static bool read_model(stw_onnx_output *x, stw_pb *graph) {
    stw_pb model = stw_pb_message(&x->reader.file);
    bool found = false;
    for (stw_pb_field f; stw_pb_next(&model, &f);) {
        if (f.number == STW_ONNX_MODEL_IR_VERSION) stw_pb_int(&model, &f, &x->ir_version);
        if (f.number != STW_ONNX_MODEL_GRAPH) continue;
        if (found) return stw_pb_fail(&x->reader.file, f.at, "the model has a second graph");
        found = stw_pb_enter(&model, &f, graph);
        x->model_graph = f.bytes;
    }
    if (x->reader.file.failed) return false;
    return found || stw_pb_fail(&x->reader.file, x->reader.file.begin, "the model has no graph");
}

/* From version 4 on, an initializer that is listed as an input may be replaced by the caller, so that it is no constant any more:
 * such models stay below. Below 3 there are no opsets. */
static int64_t version_to_write(const stw_onnx_output *x) {
    if (x->ir_version >= STW_ONNX_CONFIGURATION_IR || x->ir_version < 3) return x->ir_version;
    for (int32_t k = 0; k < x->graph.input_count; k++) {
        if (x->ir_version == 3 && x->graph.input[k]->stored) return x->ir_version;
    }
    return STW_ONNX_CONFIGURATION_IR;
}

/* ---- what a node waits for ---- */

static bool read_bodies(const stw_onnx_eval *eval, const stw_onnx_node *node, stw_arena scratch);

/* Names in a body that are not its own are noted by the reader (captured) where they belong to the main graph. */
static bool read_body(const stw_onnx_eval *outer, stw_pb message, stw_arena scratch) {
    stw_onnx_scope scope;
    stw_onnx_graph graph;
    stw_onnx_eval eval = {.reader = outer->reader, .arena = &scratch, .scope = &scope, .depth = outer->depth + 1, .outer = outer};
    if (!stw_onnx_scope_create(outer->reader, &scratch, outer->scope, false, &scope)) return false;
    if (!stw_onnx_read_graph(&eval, message, false, &graph)) return false;
    for (int32_t i = 0; i < graph.node_count; i++) {
        if (!read_bodies(&eval, &graph.node[i], scratch)) return false;
    }
    return true;
}

static bool read_bodies(const stw_onnx_eval *eval, const stw_onnx_node *node, stw_arena scratch) {
    enum { BODY = 6, BODIES = 11 };
    stw_pb m = stw_pb_range(&eval->reader->file, node->bytes, node->depth), attribute, body;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number != STW_ONNX_NODE_ATTRIBUTE || !stw_pb_enter(&m, &f, &attribute)) continue;
        for (stw_pb_field g; stw_pb_next(&attribute, &g);) {
            if (g.number != BODY && g.number != BODIES) continue;
            if (!stw_pb_enter(&attribute, &g, &body) || !read_body(eval, body, scratch)) return false;
        }
    }
    return !eval->reader->file.failed;
}

static bool add_need(stw_vector *needs, const stw_onnx_value *value, const stw_onnx_scope *scope) {
    if (value == NULL || value->scope != scope || value->producer < 0) return true;
    return stw_vector_push(needs, value->producer);
}

static bool collect_needs(stw_onnx_output *x, const stw_onnx_eval *eval) {
    stw_onnx_reader *r = &x->reader;
    stw_vector needs = {.arena = &r->scratch};
    for (int32_t i = 0; i < x->graph.node_count; i++) {
        const stw_onnx_node *node = &x->graph.node[i];
        bool kept = true;
        r->captured_count = 0;
        if (!read_bodies(eval, node, r->scratch)) return false;
        for (int32_t k = 0; k < node->input_count; k++) kept &= add_need(&needs, node->input[k], &x->scope);
        for (int64_t k = 0; k < r->captured_count; k++) kept &= add_need(&needs, r->captured[k], &x->scope);
        if (!kept) return stw_pb_fail(&r->file, node->bytes.p, "out of memory");
        x->need_start[i + 1] = needs.count;
    }
    x->need = STW_NEW(r->arena, int32_t, needs.count);
    if (x->need == NULL) return stw_pb_fail(&r->file, r->file.begin, "out of memory");
    for (int64_t k = 0; k < needs.count; k++) x->need[k] = (int32_t)needs.data[k];
    return true;
}

static bool read_again(stw_onnx_output *x) {
    stw_onnx_reader *r = &x->reader;
    const stw_onnx_eval eval = {.reader = r, .arena = r->arena, .scope = &x->scope};
    stw_onnx_eval main_graph = eval;
    stw_pb message = {0};
    if (!read_model(x, &message) || !stw_onnx_scope_create(r, r->arena, NULL, true, &x->scope)) return false;
    if (!stw_onnx_read_graph(&main_graph, message, false, &x->graph)) return false;
    x->ir_written = version_to_write(x);
    x->need_start = STW_NEW(r->arena, int64_t, (int64_t)x->graph.node_count + 1);
    if (x->need_start == NULL) return stw_pb_fail(&r->file, r->file.begin, "out of memory");
    return collect_needs(x, &eval);
}

/* ---- which node is which ---- */

static int32_t node_at(const stw_onnx_output *x, int64_t at) { /* nodes ascend by offset */
    int32_t low = 0, high = x->graph.node_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (x->graph.node[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < x->graph.node_count && x->graph.node[low].at == at ? low : -1;
}

/* The graph has '?' for what is not text. */
static bool same_text(stw_str in_graph, stw_str in_file) {
    if (in_graph.length != in_file.length) return false;
    for (int64_t k = 0; k < in_graph.length; k++) {
        if (in_graph.p[k] != in_file.p[k] && in_graph.p[k] != '?') return false;
    }
    return true;
}

static bool same_node(const stw_graph *graph, int32_t i, const stw_onnx_node *node) {
    if (!same_text(graph->op_name[i], node->op)) return false;
    return node->name.length == 0 || same_text(graph->node_name[i], node->name);
}

static stw_status differs(const stw_graph *graph, int32_t i, stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT,
                    "byte %lld: node '%.*s' (%.*s) of the graph is not there; the model file is not the one that the graph was "
                    "read from, or it has changed since: read it again and plan again",
                    (long long)stw_graph_at(graph, i), STW_STR_SHOW(graph->node_name[i]), STW_STR_SHOW(graph->op_name[i]));
}

/* Of the ops and views that came of one node, the first is the node; the others are parts of its output. A stored tensor that
 * came of a node (Constant) is known by its name. */
static stw_status match_nodes(stw_onnx_output *x, stw_error *error) {
    const stw_graph *graph = x->e->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t k = -1;
        if (!stw_node_is_source(graph->kind[i])) {
            k = node_at(x, stw_graph_at(graph, i));
            if (k < 0) return differs(graph, i, error);
        } else {
            const stw_onnx_value *value = stw_onnx_lookup(&x->scope, graph->node_name[i]);
            if (value != NULL) k = value->producer;
        }
        if (k >= 0 && (x->id[k] < 0 || stw_graph_origin(graph, i) < stw_graph_origin(graph, x->id[k]))) x->id[k] = i;
    }
    for (int32_t k = 0; k < x->graph.node_count; k++) {
        const int32_t i = x->id[k];
        if (i >= 0 && !stw_node_is_source(graph->kind[i]) && !same_node(graph, i, &x->graph.node[k]))
            return differs(graph, i, error);
    }
    return STW_OK;
}

static stw_status match(stw_onnx_output *x, stw_error *error) {
    if (!read_again(x)) return STW_ERROR_INPUT;
    STW_TRY_NEW(x->e->arena, x->id, x->graph.node_count, error);
    for (int32_t k = 0; k < x->graph.node_count; k++) x->id[k] = -1;
    return match_nodes(x, error);
}

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

/* ONNX models with the plan in them; see onnx.h. */

static stw_status run(stw_onnx_output *x, stw_error *error) {
    TRY(match(x, error));
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
