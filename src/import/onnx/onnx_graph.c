/* One graph of an ONNX file: its values by name, its nodes, and an order in which inputs come first. */
#include "import/onnx/onnx.h"

/* ---- names ---- */

bool stw_onnx_scope_create(stw_onnx_reader *r, stw_arena *arena, const stw_onnx_scope *outer, bool emits, stw_onnx_scope *out) {
    enum { FIRST = 32 };
    *out = (stw_onnx_scope){.outer = outer, .emits = emits, .arena = arena};
    return stw_names_create(arena, FIRST, &out->names, NULL) == STW_OK || stw_pb_fail(&r->file, r->file.begin, "out of memory");
}

stw_onnx_value *stw_onnx_lookup(const stw_onnx_scope *scope, stw_str name) {
    const int32_t number = stw_names_find(&scope->names, 0, name);
    return number >= 0 ? scope->value[number] : NULL;
}

/* Adds a value of this name, unless there is one. */
static stw_status enter(stw_onnx_scope *scope, stw_str name, stw_onnx_value **out, bool *fresh) {
    int32_t *number;
    TRY(stw_names_enter(&scope->names, 0, name, &number, NULL));
    *fresh = *number < 0;
    if (*fresh) {
        stw_onnx_value *value;
        STW_TRY_NEW(scope->arena, value, 1, NULL);
        STW_PUSH(scope->arena, scope, value, value, NULL);
        *number = (int32_t)(scope->value_count - 1);
    }
    *out = scope->value[*number];
    return STW_OK;
}

static bool declare(stw_onnx_reader *r, stw_onnx_scope *scope, stw_str name, int64_t at, stw_onnx_value **out) {
    bool fresh = false;
    if (enter(scope, name, out, &fresh) != STW_OK) return stw_pb_fail(&r->file, r->file.begin + at, "out of memory");
    if (!fresh) return true;
    **out = (stw_onnx_value){.name = name,
                             .scope = scope,
                             .producer = -1,
                             .dtype = STW_UNKNOWN,
                             .rank = STW_UNKNOWN,
                             .node = -1,
                             .part_of = -1,
                             .captured_by = -1,
                             .at = at};
    return true;
}

/* A body that reads a value of the main graph makes its node depend on that value. */
static bool note_capture(stw_onnx_reader *r, stw_onnx_value *value) {
    if (STW_GROW(r->arena, r->captured, r->captured_count + 1, r->captured_room, NULL) != STW_OK)
        return stw_pb_fail(&r->file, r->file.begin, "out of memory");
    r->captured[r->captured_count++] = value;
    return true;
}

/* The value of a name here or further out. */
static bool resolve(stw_onnx_eval *eval, stw_str name, stw_onnx_value **out) {
    stw_onnx_reader *r = eval->reader;
    for (const stw_onnx_scope *scope = eval->scope; scope != NULL; scope = scope->outer) {
        *out = stw_onnx_lookup(scope, name);
        if (*out == NULL || !(*out)->present) continue;
        (*out)->is_read = true;
        return scope == eval->scope || !scope->emits || note_capture(r, *out);
    }
    *out = NULL;
    return true;
}

/* ---- what stands in the graph beside its nodes ---- */

static bool read_initializer(stw_onnx_eval *eval, stw_pb *m, const stw_pb_field *f, bool sparse) {
    stw_onnx_reader *r = eval->reader;
    stw_onnx_value read = {.dtype = STW_UNKNOWN, .rank = STW_UNKNOWN}, *value = NULL;
    stw_str name = {0};
    stw_pb tensor;
    if (!stw_pb_enter(m, f, &tensor)) return false;
    if (!(sparse ? stw_onnx_read_sparse : stw_onnx_read_tensor)(r, tensor, &read, &name, eval->arena)) return false;
    if (name.length == 0) return stw_pb_fail(&r->file, f->at, "an initializer without a name; give it one");
    if (!declare(r, eval->scope, name, stw_pb_offset(&r->file, f->at), &value)) return false;
    if (value->stored)
        return stw_pb_fail(&r->file, f->at, "initializer '%.*s' stands twice; give each its own name", STW_STR_SHOW(name));
    value->dtype = read.dtype;
    value->rank = read.rank;
    value->shape = read.shape;
    value->content = read.content;
    value->source = read.source;
    value->stored = value->present = true;
    return true;
}

/* Name and type of an input, an output or a value in between. */
static bool read_value_info(stw_onnx_eval *eval, stw_pb *m, const stw_pb_field *f, stw_onnx_value **out) {
    stw_onnx_reader *r = eval->reader;
    stw_str name = {0}, type = {0};
    stw_pb info;
    *out = NULL;
    if (stw_pb_enter(m, f, &info)) {
        for (stw_pb_field g; stw_pb_next(&info, &g);) {
            if (g.number == 1) stw_pb_string(&info, &g, &name);
            if (g.number == 2) stw_pb_string(&info, &g, &type);
        }
    }
    if (r->file.failed || !declare(r, eval->scope, name, stw_pb_offset(&r->file, f->at), out)) return false;
    if (type.length > 0) (*out)->declared = type;
    return true;
}

/* ---- nodes ---- */

static bool count_names(stw_onnx_reader *r, stw_onnx_node *node) {
    stw_pb m = stw_pb_range(&r->file, node->bytes, node->depth);
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        switch (f.number) {
            case 1: node->input_count++; break;
            case 2: node->output_count++; break;
            case 3: stw_pb_string(&m, &f, &node->name); break;
            case 4: stw_pb_string(&m, &f, &node->op); break;
            case 7: stw_pb_string(&m, &f, &node->domain); break;
            case 8: stw_pb_string(&m, &f, &node->overload); break;
            default: break;
        }
    }
    return !r->file.failed;
}

static bool add_output(stw_onnx_eval *eval, stw_onnx_node *node, int32_t index, int32_t k, stw_str name) {
    stw_onnx_reader *r = eval->reader;
    if (name.length == 0) return true; /* an optional output that is left out */
    stw_onnx_value *value = NULL;
    if (!declare(r, eval->scope, name, node->at, &value)) return false;
    if (value->present)
        return stw_onnx_fail(r, node, "its output '%.*s' exists already; every value is written once", STW_STR_SHOW(name));
    value->present = true;
    value->producer = index;
    node->output[k] = value;
    return true;
}

/* Names the node and declares its outputs; its inputs are looked up once all are declared. */
static bool read_node(stw_onnx_eval *eval, stw_pb *graph, const stw_pb_field *f, int32_t index, stw_onnx_node *node) {
    stw_onnx_reader *r = eval->reader;
    stw_pb m;
    if (!stw_pb_enter(graph, f, &m)) return false;
    *node = (stw_onnx_node){.bytes = f->bytes, .at = stw_pb_offset(&r->file, f->at), .depth = m.depth};
    if (!count_names(r, node)) return false;
    if (node->op.length == 0) return stw_onnx_fail(r, node, "it has no operator (op_type)");
    node->input = STW_NEW(eval->arena, stw_onnx_value *, node->input_count);
    node->output = STW_NEW(eval->arena, stw_onnx_value *, node->output_count);
    if (node->input == NULL || node->output == NULL) return stw_pb_fail(&r->file, f->at, "out of memory");
    int32_t k = 0;
    for (stw_pb_field g; stw_pb_next(&m, &g);) {
        stw_str name = {0};
        if (g.number == 2 && stw_pb_string(&m, &g, &name) && !add_output(eval, node, index, k++, name)) return false;
    }
    return !r->file.failed;
}

static bool link_inputs(stw_onnx_eval *eval, stw_onnx_node *node) {
    stw_onnx_reader *r = eval->reader;
    stw_pb m = stw_pb_range(&r->file, node->bytes, node->depth);
    int32_t k = 0;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        stw_str name = {0};
        if (f.number != 1 || !stw_pb_string(&m, &f, &name)) continue;
        stw_onnx_value **input = &node->input[k++];
        if (name.length == 0) continue;
        if (!resolve(eval, name, input)) return false;
        if (*input == NULL)
            return stw_onnx_fail(
                r, node,
                "its input '%.*s' is written by no node and is no input or initializer; give the whole model, or add "
                "it to the inputs",
                STW_STR_SHOW(name));
    }
    return !r->file.failed;
}

/* ---- the order ---- */

/* The node of this graph that writes input k of node i, or -1. */
static int32_t producer(const stw_onnx_eval *eval, const stw_onnx_node *node, int32_t k) {
    const stw_onnx_value *value = node->input[k];
    return value != NULL && value->scope == eval->scope ? value->producer : -1;
}

static bool is_sorted(const stw_onnx_eval *eval, const stw_onnx_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        for (int32_t k = 0; k < graph->node[i].input_count; k++) {
            if (producer(eval, &graph->node[i], k) >= i) return false;
        }
    }
    return true;
}

enum { UNSEEN, BEGUN, DONE };

static bool sort_nodes(stw_onnx_eval *eval, stw_onnx_graph *graph) {
    stw_onnx_reader *r = eval->reader;
    const int32_t N = graph->node_count;
    graph->order = STW_NEW(eval->arena, int32_t, N);
    if (graph->order == NULL) return stw_pb_fail(&r->file, r->file.begin, "out of memory");
    for (int32_t i = 0; i < N; i++) graph->order[i] = i;
    if (is_sorted(eval, graph)) return true;
    uint8_t *state = STW_NEW(eval->arena, uint8_t, N);
    int32_t *stack = STW_NEW(eval->arena, int32_t, N), *cursor = STW_NEW(eval->arena, int32_t, N), done = 0;
    if (state == NULL || stack == NULL || cursor == NULL) return stw_pb_fail(&r->file, r->file.begin, "out of memory");
    for (int32_t first = 0; first < N; first++) {
        int32_t depth = 0;
        if (state[first] == UNSEEN) stack[depth++] = first;
        while (depth > 0) {
            const int32_t i = stack[depth - 1];
            const stw_onnx_node *node = &graph->node[i];
            state[i] = BEGUN;
            if (cursor[i] == node->input_count) {
                state[i] = DONE;
                graph->order[done++] = i;
                depth--;
                continue;
            }
            const int32_t from = producer(eval, node, cursor[i]++);
            if (from < 0 || state[from] == DONE) continue;
            if (state[from] == BEGUN)
                return stw_onnx_fail(r, &graph->node[from],
                                     "it depends on itself: its inputs close a cycle; a loop must be a Loop or Scan with a body");
            stack[depth++] = from;
        }
    }
    return true;
}

/* ---- the whole ---- */

typedef struct { /* field numbers, which graphs and functions have different ones of */
    int64_t node, name, initializer, sparse, input, output, value_info;
} fields;

static bool count_fields(stw_onnx_eval *eval, stw_pb m, const fields *n, stw_onnx_graph *out) {
    stw_onnx_reader *r = eval->reader;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        out->node_count += f.number == n->node;
        out->input_count += f.number == n->input;
        out->output_count += f.number == n->output;
        if (!eval->scope->emits && --r->budget < 0) return stw_onnx_fail_budget(eval, f.at);
        if (out->node_count == INT32_MAX || out->input_count == INT32_MAX || out->output_count == INT32_MAX)
            return stw_pb_fail(&r->file, f.at, "more than 2^31 - 2 nodes");
    }
    out->node = STW_NEW(eval->arena, stw_onnx_node, out->node_count);
    out->input = STW_NEW(eval->arena, stw_onnx_value *, out->input_count);
    out->output = STW_NEW(eval->arena, stw_onnx_value *, out->output_count);
    if (out->node == NULL || out->input == NULL || out->output == NULL) stw_pb_fail(&r->file, r->file.begin, "out of memory");
    return !r->file.failed;
}

/* Inputs and outputs of a function are names; those of a graph have a type. */
static bool read_border(stw_onnx_eval *eval, stw_pb *m, const stw_pb_field *f, bool is_function, stw_onnx_value **out) {
    stw_str name = {0};
    if (!is_function) return read_value_info(eval, m, f, out);
    if (!stw_pb_string(m, f, &name)) return false;
    return declare(eval->reader, eval->scope, name, stw_pb_offset(m->file, f->at), out);
}

static bool read_fields(stw_onnx_eval *eval, stw_pb m, const fields *n, bool is_function, stw_onnx_graph *out) {
    int32_t node = 0, input = 0;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        stw_onnx_value *value = NULL;
        bool read = true;
        if (f.number == n->node) {
            read = read_node(eval, &m, &f, node, &out->node[node]);
            node++;
        } else if (f.number == n->input) {
            read = read_border(eval, &m, &f, is_function, &value);
            if (!read) return false;
            if (value->producer >= 0)
                return stw_pb_fail(m.file, f.at, "input '%.*s' is written by a node; remove it from the inputs",
                                   STW_STR_SHOW(value->name));
            value->present = true;
            out->input[input++] = value;
        } else if (f.number == n->initializer || f.number == n->sparse) {
            read = read_initializer(eval, &m, &f, f.number == n->sparse);
        } else if (f.number == n->value_info || (f.number == n->output && !is_function)) {
            read = read_value_info(eval, &m, &f, &value);
        } else if (f.number == n->name) {
            read = stw_pb_string(&m, &f, &out->name);
        }
        if (!read) return false;
    }
    return !m.file->failed;
}

/* Outputs come last: in a body they may be values from further out. */
static bool read_outputs(stw_onnx_eval *eval, stw_pb m, const fields *n, bool is_function, stw_onnx_graph *out) {
    int32_t k = 0;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        stw_onnx_value *named = NULL;
        if (f.number != n->output) continue;
        if (!read_border(eval, &m, &f, is_function, &named) || !resolve(eval, named->name, &out->output[k])) return false;
        if (out->output[k++] == NULL)
            return stw_pb_fail(
                m.file, f.at,
                "output '%.*s' of the graph is written by no node; give the whole model, or remove it from the outputs",
                STW_STR_SHOW(named->name));
    }
    return !m.file->failed;
}

bool stw_onnx_read_graph(stw_onnx_eval *eval, stw_pb message, bool is_function, stw_onnx_graph *out) {
    static const fields of_graph = {1, 2, 5, 15, 11, 12, 13}, of_function = {7, 1, -1, -1, 4, 5, 12};
    const fields *n = is_function ? &of_function : &of_graph;
    *out = (stw_onnx_graph){0};
    if (!count_fields(eval, message, n, out) || !read_fields(eval, message, n, is_function, out)) return false;
    for (int32_t i = 0; i < out->node_count; i++) {
        if (!link_inputs(eval, &out->node[i])) return false;
        if (!eval->scope->emits) eval->reader->budget -= (int64_t)out->node[i].input_count + out->node[i].output_count;
    }
    return read_outputs(eval, message, n, is_function, out) && sort_nodes(eval, out);
}
