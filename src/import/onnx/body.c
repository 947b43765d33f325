/* Graphs within nodes (If, Loop, Scan) and functions: each is one op that costs what the kernels of its body cost. Bodies are
 * looked at in scratch memory, which is gone afterwards; their kernels are kept (insides.h). */
#include "import/onnx/onnx_rules.h"

/* ---- functions by name ---- */

static uint64_t hash_function(stw_str name, stw_str domain, stw_str overload) {
    enum { FACTOR = 31 }; /* so that order counts */
    return (stw_str_hash(name) * FACTOR + stw_str_hash(domain)) * FACTOR + stw_str_hash(overload);
}

static bool is_function(const stw_onnx_function *f, stw_str name, stw_str domain, stw_str overload) {
    return stw_str_equal(f->name, name) && stw_str_equal(f->domain, domain) && stw_str_equal(f->overload, overload);
}

static const stw_onnx_function *find_function(const stw_onnx_reader *r, stw_str name, stw_str domain, stw_str overload) {
    const uint64_t hash = hash_function(name, domain, overload);
    int32_t k;
    for (uint32_t step = 0; (k = stw_index_next(&r->function_index, hash, &step)) >= 0;) {
        if (is_function(&r->function[k], name, domain, overload)) return &r->function[k];
    }
    return NULL;
}

bool stw_onnx_index_functions(stw_onnx_reader *r) {
    bool fits = stw_index_create(r->arena, r->function_count, &r->function_index, NULL) == STW_OK;
    for (int32_t k = 0; k < r->function_count && fits; k++) {
        const stw_onnx_function *f = &r->function[k];
        if (find_function(r, f->name, f->domain, f->overload) != NULL)
            return stw_pb_fail(&r->file, f->bytes.p, "function '%.*s' of domain '%.*s' stands twice; give each its own name",
                               STW_STR_SHOW(f->name), STW_STR_SHOW(f->domain));
        fits = stw_index_add(&r->function_index, hash_function(f->name, f->domain, f->overload), k, NULL) == STW_OK;
    }
    return fits || stw_pb_fail(&r->file, r->file.begin, "out of memory");
}

const stw_onnx_function *stw_onnx_find_function(const stw_onnx_reader *r, const stw_onnx_node *node) {
    return r->function_count == 0 ? NULL : find_function(r, node->op, node->domain, node->overload);
}

/* ---- kernels ---- */

static bool keep(stw_onnx_call *c, stw_status status) {
    if (status != STW_OK) c->eval->reader->file.failed = true; /* the message stands already */
    return status == STW_OK;
}

static bool add_step(stw_onnx_call *c, stw_body_step step) {
    stw_onnx_eval *eval = c->eval;
    if (STW_GROW(eval->arena, eval->step, eval->step_count + 1, eval->step_room, NULL) != STW_OK)
        return stw_onnx_fail(eval->reader, c->node, "out of memory");
    eval->step[eval->step_count++] = step;
    return true;
}

/* What an op of the graph moves (stw_op_bytes_moved), of a node that is none. */
static int64_t bytes_moved(const stw_onnx_call *c, stw_op_class op_class, int64_t written) {
    enum { FEW = 16 };
    int64_t sum = written;
    if (c->moved >= 0) return c->moved;
    for (int32_t k = 0; k < c->node->input_count; k++) {
        const stw_onnx_value *input = c->node->input[k];
        bool again = input == NULL;
        for (int32_t j = 0; j < k && j < FEW; j++) again |= c->node->input[j] == input;
        const int64_t bytes = again ? 0 : stw_onnx_bytes(input);
        sum = stw_onnx_add(sum, op_class == STW_CLASS_GATHER && bytes > written ? written : bytes);
    }
    return sum;
}

static bool is_single_number(const stw_onnx_value *value) {
    return value == NULL || (value->rank >= 0 && stw_onnx_elements(value) == 1 &&
                             (stw_onnx_is_integer(value->dtype) || value->dtype == stw_onnx_dtype_named("pred")));
}

/* Counters, indices and conditions of a loop: the same turns written out have no kernels for them. */
static bool only_counts(const stw_onnx_call *c) {
    for (int32_t k = 0; k < c->node->input_count; k++) {
        if (!is_single_number(c->node->input[k])) return false;
    }
    for (int32_t k = 0; k < c->output_count; k++) {
        if (!is_single_number(c->output[k])) return false;
    }
    return c->eval->is_looped && c->body == 0;
}

bool stw_onnx_add_kernel(stw_onnx_call *c) {
    stw_onnx_reader *r = c->eval->reader;
    stw_onnx_cost *cost = &c->eval->cost;
    stw_onnx_value *first = NULL;
    int64_t written = 0;
    stw_onnx_count_named(c, &first, &written);
    const stw_op_class op_class = c->is_function ? STW_CLASS_OPAQUE : stw_builder_class_of(r->builder, c->node->op);
    const int64_t flops = c->flops > 0 ? c->flops : 0, moved = bytes_moved(c, op_class, written);
    cost->flops = stw_onnx_add(cost->flops, flops);
    cost->moved = stw_onnx_add(cost->moved, moved);
    if (c->body > 0) return add_step(c, (stw_body_step){.times = 1.0, .body = c->body - 1});
    if (op_class == STW_CLASS_ALIAS || only_counts(c)) return true;
    const int32_t dtype = first != NULL && first->dtype >= 0 ? first->dtype : STW_DTYPE_NONE;
    const stw_work_row row = {
        .op_class = (uint8_t)op_class, .dtype = (uint8_t)dtype, .flops = (double)flops, .bytes = (double)moved};
    stw_body_step step;
    return keep(c, stw_insides_make_op_step(&r->insides, &row, &step, r->error)) && add_step(c, step);
}

/* What stands for a node: one of these bodies, or several. */
static bool set_body(stw_onnx_call *c, const stw_body_step *step, int64_t count, bool dearest) {
    int32_t body = 0;
    if (!keep(c, stw_insides_add_body(&c->eval->reader->insides, step, count, dearest, &body, c->eval->reader->error)))
        return false;
    c->body = body + 1;
    return true;
}

/* ---- evaluation ---- */

typedef struct { /* what is known of a value, apart from any arena */
    int32_t dtype, rank;
    int64_t shape[STW_ONNX_MAX_RANK];
    const double *content;
} fact;

typedef struct { /* what goes into a body and what comes out */
    fact *in, *out;
    int32_t in_count, out_count;
    bool is_looped;
    stw_onnx_cost cost;
    int32_t body; /* its kernels, among the insides */
} exchange;

static fact fact_of(const stw_onnx_value *value) {
    fact f = {.dtype = STW_UNKNOWN, .rank = STW_UNKNOWN};
    if (value == NULL) return f;
    f.dtype = value->dtype;
    f.rank = value->rank;
    f.content = value->content;
    for (int32_t k = 0; k < value->rank; k++) f.shape[k] = value->shape[k];
    return f;
}

static bool exchange_create(stw_onnx_call *c, int64_t in_count, int64_t out_count, exchange *x) {
    *x = (exchange){.in_count = (int32_t)in_count, .out_count = (int32_t)out_count};
    x->in = STW_NEW(c->eval->arena, fact, in_count);
    x->out = STW_NEW(c->eval->arena, fact, out_count);
    if (x->in == NULL || x->out == NULL) return stw_onnx_fail(c->eval->reader, c->node, "out of memory");
    for (int64_t k = 0; k < in_count; k++) x->in[k] = fact_of(NULL);
    for (int64_t k = 0; k < out_count; k++) x->out[k] = fact_of(NULL);
    return true;
}

static bool bind_inputs(stw_onnx_eval *eval, const stw_onnx_graph *graph, const exchange *x) {
    stw_onnx_reader *r = eval->reader;
    for (int32_t k = 0; k < graph->input_count; k++) {
        stw_onnx_value *input = graph->input[k];
        if (input->stored) continue;
        if (input->declared.length > 0) stw_onnx_read_type(r, input->declared, 0, input, eval->arena);
        if (k >= x->in_count || x->in[k].rank < 0) continue;
        stw_onnx_set_shape(input, x->in[k].dtype, x->in[k].rank, x->in[k].shape, eval->arena);
        input->content = x->in[k].content;
    }
    return !r->file.failed;
}

/* Its memory is what the graph around it has left, so that bodies side by side use the same. */
static bool evaluate(stw_onnx_call *c, stw_pb message, const stw_onnx_function *function, exchange *x) {
    stw_onnx_reader *r = c->eval->reader;
    stw_arena scratch = c->eval->scope->emits ? r->scratch : *c->eval->arena;
    stw_onnx_eval inner = {
        .reader = r, .arena = &scratch, .depth = c->eval->depth + 1, .outer = c->eval, .holder = c->node, .function = function};
    stw_onnx_scope scope;
    stw_onnx_graph graph;
    if (function != NULL) inner.call = c->node;
    inner.is_looped = x->is_looped;
    if (inner.depth > STW_ONNX_MAX_DEPTH)
        return stw_onnx_fail(r, c->node, "bodies or functions are nested deeper than %d; does a function call itself?",
                             STW_ONNX_MAX_DEPTH);
    r->budget -= 1 + (message.end - message.cursor) / STW_ONNX_BYTES_PER_PART;
    if (!stw_onnx_scope_create(r, &scratch, function != NULL ? NULL : c->eval->scope, false, &scope)) return false;
    inner.scope = &scope;
    if (!stw_onnx_read_graph(&inner, message, function != NULL, &graph)) return false;
    if (!bind_inputs(&inner, &graph, x) || !stw_onnx_walk(&inner, &graph)) return false;
    for (int32_t k = 0; k < x->out_count && k < graph.output_count; k++) {
        x->out[k] = fact_of(graph.output[k]);
        x->out[k].content = NULL; /* it lies in the scratch memory */
    }
    if (x->is_looped && inner.step_count == 0) { /* it does nothing else but count: then that is what it costs */
        x->is_looped = false;
        return evaluate(c, message, function, x);
    }
    x->cost = inner.cost;
    return keep(c, stw_insides_add_body(&r->insides, inner.step, inner.step_count, false, &x->body, r->error));
}

static bool evaluate_body(stw_onnx_call *c, const char *attribute, exchange *x) {
    enum { WITHIN = 6 }; /* levels of messages from a body to the least of what stands in it: a dimension of a type */
    const stw_onnx_attribute a = stw_onnx_find(c->eval, c->node, attribute);
    if (!a.found || a.graph.length == 0) return false;
    if (a.depth + 1 + WITHIN > STW_PB_MAX_DEPTH)
        return stw_onnx_fail(c->eval->reader, c->node,
                             "its body is nested too deep: %d bodies stand around it; write fewer into each other",
                             c->eval->depth);
    return evaluate(c, stw_pb_range(&c->eval->reader->file, a.graph, a.depth + 1), NULL, x);
}

bool stw_onnx_fail_budget(const stw_onnx_eval *eval, const char *at) {
    stw_onnx_reader *r = eval->reader;
    const stw_onnx_eval *outermost = eval;
    while (outermost->outer != NULL && outermost->outer->outer != NULL) outermost = outermost->outer;
    if (outermost->holder == NULL) return stw_pb_fail(&r->file, at, "bodies are too large");
    return stw_onnx_fail(
        r, outermost->holder,
        "what it runs, and the nodes before it, come to millions of nodes when every call is written out; functions "
        "that call functions multiply, so call them fewer times");
}

bool stw_onnx_call_function(stw_onnx_call *c, const stw_onnx_function *function) {
    exchange x;
    if (!exchange_create(c, c->node->input_count, c->output_count, &x)) return false;
    for (int32_t k = 0; k < x.in_count; k++) x.in[k] = fact_of(c->node->input[k]);
    const stw_pb message = stw_pb_range(&c->eval->reader->file, function->bytes, function->depth);
    if (!evaluate(c, message, function, &x)) return false;
    for (int32_t k = 0; k < x.out_count; k++) stw_onnx_put(c, k, x.out[k].dtype, x.out[k].rank, x.out[k].shape);
    c->flops = x.cost.flops;
    c->moved = x.cost.moved;
    c->body = x.body + 1;
    return true;
}

/* ---- operators with bodies ---- */

static bool run_if(stw_onnx_call *c) {
    static const char *const branches[] = {"then_branch", "else_branch"};
    stw_body_step step[2];
    c->flops = c->moved = 0;
    for (int b = 0; b < 2; b++) {
        exchange x;
        if (!exchange_create(c, 0, c->output_count, &x) || !evaluate_body(c, branches[b], &x)) return false;
        for (int32_t k = 0; k < x.out_count; k++) {
            if (c->output[k]->rank < 0) stw_onnx_put(c, k, x.out[k].dtype, x.out[k].rank, x.out[k].shape);
        }
        if (x.cost.flops > c->flops) c->flops = x.cost.flops; /* of the two the dearer */
        if (x.cost.moved > c->moved) c->moved = x.cost.moved;
        step[b] = (stw_body_step){.times = 1.0, .body = x.body};
    }
    return set_body(c, step, 2, true);
}

/* A state keeps its shape; a scan output has one row for each turn. */
static bool put_turns(stw_onnx_call *c, const exchange *x, int32_t first, int32_t states, int64_t turns) {
    for (int32_t k = 0; k < c->output_count && first + k < x->out_count; k++) {
        const fact *out = &x->out[first + k];
        int64_t shape[STW_ONNX_MAX_RANK + 1];
        if (out->rank < 0 || out->rank >= STW_ONNX_MAX_RANK) continue;
        shape[0] = turns;
        for (int32_t d = 0; d < out->rank; d++) shape[d + 1] = out->shape[d];
        if (k < states)
            stw_onnx_put(c, k, out->dtype, out->rank, out->shape);
        else
            stw_onnx_put(c, k, out->dtype, out->rank + 1, shape);
    }
    c->flops = stw_onnx_multiply(x->cost.flops, turns);
    c->moved = stw_onnx_multiply(x->cost.moved, turns);
    return set_body(c, &(stw_body_step){.times = (double)turns, .body = x->body}, 1, false);
}

/* Inputs: number of turns, condition, states. The body gets turn, condition, states and gives condition, states, scan outputs. */
static bool run_loop(stw_onnx_call *c) {
    const int32_t states = c->node->input_count > 2 ? c->node->input_count - 2 : 0;
    int64_t turns = 1;
    exchange x;
    const bool is_open = stw_onnx_numbers(c, 0, &turns, 1) < 1 || turns < 0 || turns > STW_ONNX_MAX_DIM;
    if (is_open) turns = 1;
    if (!exchange_create(c, 2 + (int64_t)states, 1 + (int64_t)c->output_count, &x)) return false;
    x.is_looped = true;
    x.in[0] = (fact){.dtype = stw_onnx_dtype_named("s64")};
    x.in[1] = (fact){.dtype = stw_onnx_dtype_named("pred")};
    for (int32_t k = 0; k < states; k++) {
        x.in[2 + k] = fact_of(c->node->input[2 + k]);
        x.in[2 + k].content = NULL; /* it changes from turn to turn */
    }
    if (!evaluate_body(c, "body", &x)) return false;
    c->eval->reader->insides.open_loops += is_open;
    return put_turns(c, &x, 1, states, turns);
}

/* The last num_scan_inputs inputs are cut into rows; the others are states. */
static bool run_scan(stw_onnx_call *c) {
    const int32_t count = c->node->input_count;
    const int64_t scanned = stw_onnx_int(c, "num_scan_inputs", 1);
    int64_t turns = 1;
    bool is_open = true;
    exchange x;
    if (scanned < 1 || scanned > count || !exchange_create(c, count, c->output_count, &x)) return false;
    const int32_t states = count - (int32_t)scanned;
    x.is_looped = true;
    for (int32_t k = 0; k < count; k++) {
        x.in[k] = fact_of(c->node->input[k]);
        x.in[k].content = NULL;
        if (k < states || x.in[k].rank < 1) continue;
        turns = x.in[k].shape[0];
        is_open = false;
        for (int32_t d = 0; d + 1 < x.in[k].rank; d++) x.in[k].shape[d] = x.in[k].shape[d + 1];
        x.in[k].rank--;
    }
    if (!evaluate_body(c, "body", &x)) return false;
    c->eval->reader->insides.open_loops += is_open;
    return put_turns(c, &x, 0, states, turns);
}

bool stw_onnx_rule_bodies(stw_onnx_call *c) {
    if (stw_str_is(c->node->op, "If")) return run_if(c);
    return stw_str_is(c->node->op, "Loop") ? run_loop(c) : run_scan(c);
}
