/* Functions of a TensorFlow file by name, and each as a graph: arguments are its first nodes. */
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "graph/kernel.h"
#include "import/tensorflow/function.h"

enum {
    BUDGET = 1 << 22,        /* nodes and inputs of functions that are looked at in all, in any file */
    TIMES = 8,               /* and this many times those that it has */
    PER_FUNCTION = 32,       /* what looking at one costs beside */
    ARGUMENTS_PER_PART = 64, /* that are compared by name for what a node costs */
    MAX_DEPTH = 100          /* of functions that run functions */
};

stw_status stw_tf_call_fail(const stw_tf_graph *graph, int32_t node, stw_error *error, const char *format, ...) {
    char what[400], place[STW_POSITION_SIZE];
    const stw_tf_node *n = &graph->model->node[node];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    stw_show_position(graph->model->source, n->at, place);
    return stw_fail(error, STW_ERROR_INPUT, "%s: node '%.*s' (%.*s) %s", place, STW_STR_SHOW(n->name), STW_STR_SHOW(n->op), what);
}

/* ---- by name ---- */

const stw_tf_function *stw_tf_find_function(const stw_tf_library *library, stw_str name) {
    if (library->model->function_count == 0) return NULL;
    const int32_t found = stw_names_find(&library->names, 0, name);
    return found >= 0 ? &library->model->function[found] : NULL;
}

stw_status stw_tf_library_create(stw_tf_model *model, stw_arena scratch, stw_tf_library *out, stw_error *error) {
    *out = (stw_tf_library){.model = model, .scratch = scratch, .insides = {.arena = model->arena}};
    out->budget = BUDGET + TIMES * (model->inner_count + model->input_count + model->argument_count + model->returned_count);
    TRY(stw_names_create(model->arena, model->function_count, &out->names, error));
    STW_TRY_NEW(model->arena, out->last, model->function_count, error);
    for (int64_t k = 0; k < model->function_count; k++) {
        const stw_tf_function *f = &model->function[k];
        char place[STW_POSITION_SIZE];
        int32_t *number;
        if (f->name.length == 0) continue; /* nobody can run it */
        stw_show_position(model->source, f->at, place);
        TRY(stw_names_enter(&out->names, 0, f->name, &number, error));
        if (*number >= 0)
            return stw_fail(error, STW_ERROR_INPUT, "%s: function '%.*s' stands twice in the library; give each its own name",
                            place, STW_STR_SHOW(f->name));
        *number = (int32_t)k;
    }
    return STW_OK;
}

int64_t stw_tf_count_arguments(const stw_tf_model *model, const stw_tf_function *function, bool outputs) {
    int64_t count = 0;
    for (int64_t k = 0; k < function->arguments.count; k++)
        count += model->argument[function->arguments.start + k].is_output == outputs;
    return count;
}

/* Operators that have outputs of several names; of all others they are one list, or there is one. */
static int64_t find_named_output(stw_str op, stw_str name) {
    static const char *const table[][7] = {
        {"FusedBatchNorm", "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"},
        {"FusedBatchNormGrad", "x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3", "reserve_space_4"},
        {"_FusedBatchNormEx", "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"},
        {"SoftmaxCrossEntropyWithLogits", "loss", "backprop"},
        {"SparseSoftmaxCrossEntropyWithLogits", "loss", "backprop"},
        {"TopKV2", "values", "indices"},
        {"TensorListPopBack", "output_handle", "tensor"},
        {"Switch", "output_false", "output_true"},
        {"Merge", "output", "value_index"},
        {"BroadcastGradientArgs", "r0", "r1"},
        {"StatelessRandomGetKeyCounter", "key", "counter"},
    };
    if (stw_str_ends(op, "V2") && stw_str_starts(op, "FusedBatchNorm")) op.length -= 2;
    if (stw_str_ends(op, "V3") && stw_str_starts(op, "FusedBatchNorm")) op.length -= 2;
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        if (!stw_str_is(op, table[k][0])) continue;
        for (int32_t i = 1; i < 7 && table[k][i] != NULL; i++) {
            if (stw_str_is(name, table[k][i])) return i - 1;
        }
    }
    return 0;
}

int64_t stw_tf_first_output(const stw_tf_graph *graph, const stw_tf_node *node, stw_str name) {
    const stw_tf_function *f = graph->library != NULL ? stw_tf_find_function(graph->library, node->op) : NULL;
    int64_t output = 0;
    if (f == NULL) return find_named_output(node->op, name);
    for (int64_t k = 0; k < f->arguments.count && graph->library->budget >= 0; k++) { /* who runs it finds the budget spent */
        const stw_tf_argument *a = &graph->model->argument[f->arguments.start + k];
        if (a->is_output && stw_str_equal(a->name, name)) return output;
        output += a->is_output;
        graph->library->budget -= k % ARGUMENTS_PER_PART == 0;
    }
    return 0;
}

/* ---- as a graph ---- */

static stw_status check_budget(const stw_tf_graph *caller, int32_t node, stw_error *error) {
    if (caller->library->budget >= 0) return STW_OK;
    return stw_tf_call_fail(
        caller, node, error,
        "and the nodes before it come to millions of nodes when every call is written out; functions that run "
        "functions multiply, so run them fewer times");
}

static stw_status check_call(const stw_tf_graph *caller, int32_t node, const stw_tf_function *f, int64_t given,
                             stw_error *error) {
    int depth = 0;
    bool is_open = false; /* it takes as many values as a call says */
    const int64_t wanted = stw_tf_count_arguments(caller->model, f, false);
    for (int64_t k = 0; k < f->arguments.count; k++) is_open |= caller->model->argument[f->arguments.start + k].is_list;
    for (const stw_tf_graph *g = caller; g != NULL; g = g->caller, depth++) {
        if (g->function == f)
            return stw_tf_call_fail(caller, node, error, "runs function '%.*s', which runs itself; write the recursion as a loop",
                                    STW_STR_SHOW(f->name));
    }
    if (depth > MAX_DEPTH)
        return stw_tf_call_fail(caller, node, error, "runs functions nested deeper than %d; write fewer into each other",
                                MAX_DEPTH);
    if (given != wanted && !is_open)
        return stw_tf_call_fail(caller, node, error, "gives function '%.*s' %lld value%s, but it takes %lld; give it as many",
                                STW_STR_SHOW(f->name), (long long)given, given == 1 ? "" : "s", (long long)wanted);
    caller->library->budget -= PER_FUNCTION + f->nodes.count + f->arguments.count + f->returns.count;
    for (int64_t k = 0; k < f->nodes.count; k++) caller->library->budget -= caller->model->inner[f->nodes.start + k].inputs.count;
    return check_budget(caller, node, error);
}

/* The arguments, then the function's own nodes, and of the lists of the file what they need. */
static stw_status copy_nodes(stw_tf_frame *f, const stw_tf_function *function, stw_error *error) {
    stw_tf_model *m = &f->model;
    stw_tf_node *node;
    int64_t count = 0;
    STW_TRY_NEW(&f->arena, node, f->graph.argument_count + function->nodes.count, error);
    for (int64_t k = 0; k < function->arguments.count; k++) {
        const stw_tf_argument *a = &m->argument[function->arguments.start + k];
        if (!a->is_output) node[count++] = (stw_tf_node){.name = a->name, .op = STW_STR("_Arg"), .at = function->at};
    }
    m->input_count = 0;
    for (int64_t k = 0; k < function->nodes.count; k++) {
        const stw_tf_node *n = &m->inner[function->nodes.start + k];
        if (n->name.length == 0 || n->op.length == 0) {
            char place[STW_POSITION_SIZE];
            stw_show_position(m->source, n->at, place);
            return stw_fail(error, STW_ERROR_INPUT, "%s: node '%.*s' (%.*s) of function '%.*s' has no %s; give it one", place,
                            STW_STR_SHOW(n->name), STW_STR_SHOW(n->op), STW_STR_SHOW(function->name),
                            n->name.length == 0 ? "name" : "op");
        }
        node[count++] = *n;
        m->input_count += n->inputs.count;
    }
    m->node = node;
    m->node_count = count;
    return STW_OK;
}

/* A list takes an unknown part of what is given, so nothing is known of it and of what comes behind it. */
static stw_status take_arguments(stw_tf_frame *f, const stw_tf_function *function, const stw_tf_fact *in, int64_t count,
                                 stw_error *error) {
    stw_tf_fact *argument;
    bool is_known = true;
    int64_t at = 0;
    STW_TRY_NEW(&f->arena, argument, f->graph.argument_count, error);
    for (int64_t k = 0; k < function->arguments.count; k++) {
        const stw_tf_argument *a = &f->model.argument[function->arguments.start + k];
        if (a->is_output) continue;
        is_known &= !a->is_list && at < count;
        argument[at] = is_known ? in[at] : (stw_tf_fact){-1, {.rank = -1}, {.count = -1}};
        if (argument[at].dtype < 0 && a->type != 0) argument[at].dtype = stw_tf_dtype(a->type);
        at++;
    }
    f->graph.argument = argument;
    return STW_OK;
}

/* What a function returns, by the names of outputs, which stand in any order. */
static stw_status name_returns(stw_tf_frame *f, stw_arena *scratch, stw_names *out, stw_error *error) {
    const stw_tf_range returns = f->graph.function->returns;
    TRY(stw_names_create(scratch, returns.count, out, error));
    for (int64_t k = 0; k < returns.count; k++) {
        int32_t *number;
        TRY(stw_names_enter(out, 0, f->model.returned[returns.start + k].output, &number, error));
        *number = (int32_t)k; /* the last of a name counts */
    }
    return STW_OK;
}

static stw_status find_return(stw_tf_frame *f, const stw_names *names, stw_str output, stw_tf_edge *out, stw_error *error) {
    const stw_tf_function *function = f->graph.function;
    const int32_t found = stw_names_find(names, 0, output);
    char place[STW_POSITION_SIZE];
    stw_show_position(f->model.source, function->at, place);
    if (found >= 0) {
        const stw_tf_return *r = &f->model.returned[function->returns.start + found];
        *out = stw_tf_find_source(&f->graph, r->value);
        if (out->from >= 0 && out->output >= 0) return STW_OK;
        return stw_fail(error, STW_ERROR_INPUT, "%s: function '%.*s' returns '%.*s', which is not in it; give the whole function",
                        place, STW_STR_SHOW(function->name), STW_STR_SHOW(r->value));
    }
    return stw_fail(error, STW_ERROR_INPUT, "%s: function '%.*s' does not say what its output '%.*s' is; add it to its ret",
                    place, STW_STR_SHOW(function->name), STW_STR_SHOW(output));
}

static stw_status find_returns(stw_tf_frame *f, stw_error *error) {
    const stw_tf_function *function = f->graph.function;
    f->out_count = stw_tf_count_arguments(&f->model, function, true);
    STW_TRY_NEW(&f->arena, f->out, f->out_count, error);
    stw_arena scratch = f->arena;
    stw_names names;
    TRY(name_returns(f, &scratch, &names, error));
    int64_t at = 0;
    for (int64_t k = 0; k < function->arguments.count; k++) {
        const stw_tf_argument *a = &f->model.argument[function->arguments.start + k];
        if (!a->is_output) continue;
        TRY(find_return(f, &names, a->name, &f->out[at], error));
        stw_tf_facts *maker = &f->graph.facts[f->out[at].from];
        if (f->out[at].output >= maker->outputs) maker->outputs = f->out[at].output + 1;
        at++;
    }
    return STW_OK;
}

stw_status stw_tf_open(const stw_tf_graph *caller, int32_t node, const stw_tf_function *function, const stw_tf_fact *in,
                       int64_t count, stw_arena scratch, stw_tf_frame *out, stw_error *error) {
    TRY(check_call(caller, node, function, count, error));
    *out = (stw_tf_frame){.model = *caller->model, .arena = scratch};
    out->graph = (stw_tf_graph){.model = &out->model,
                                .arena = &out->arena,
                                .options = caller->options,
                                .library = caller->library,
                                .ops = caller->ops,
                                .function = function,
                                .argument_count = stw_tf_count_arguments(caller->model, function, false),
                                .caller = caller};
    TRY(copy_nodes(out, function, error));
    TRY(take_arguments(out, function, in, count, error));
    TRY(stw_tf_link_nodes(&out->graph, error));
    TRY(find_returns(out, error));
    return check_budget(caller, node, error);
}

/* ---- what it comes to ---- */

static bool is_single_number(const stw_graph *graph, int32_t i) {
    const char type = stw_dtype_name(graph->dtype[i])[0];
    const bool is_whole = type == 's' || type == 'u' || type == 'p'; /* s32, u8, pred */
    return is_whole && graph->bytes[i] == stw_dtype_bytes(graph->dtype[i]) && stw_graph_elements(graph, i) == 1.0;
}

/* What keeps a loop going is no kernel: the same turns written out have none for it. */
static bool only_counts(const stw_graph *graph, int32_t i) {
    if (graph->kind[i] != STW_NODE_OP || graph->body_of[i] >= 0 || !is_single_number(graph, i)) return false;
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
        if (!is_single_number(graph, graph->input[k])) return false;
    }
    return true;
}

static stw_status take_kernels(stw_tf_frame *f, const stw_graph *graph, stw_tf_role role, stw_error *error) {
    stw_arena scratch = f->arena;
    bool *counts = NULL;
    if (role != STW_TF_CALLED) STW_TRY_NEW(&scratch, counts, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (counts != NULL) counts[i] = only_counts(graph, i);
        if (graph->kind[i] != STW_NODE_OP) continue;
        if (__builtin_add_overflow(f->flops, graph->flops[i], &f->flops)) f->flops = INT64_MAX;
        if (__builtin_add_overflow(f->moved, stw_op_bytes_moved(graph, i), &f->moved)) f->moved = INT64_MAX;
    }
    return stw_insides_add_graph(&f->graph.library->insides, graph, counts, role == STW_TF_TURN, scratch, &f->body, error);
}

stw_status stw_tf_run(stw_tf_frame *f, stw_tf_role role, stw_error *error) {
    stw_tf_model *callers = f->graph.caller->model;
    stw_graph *graph = NULL;
    TRY(stw_tf_infer(&f->graph, error));
    /* Lists that have grown are the caller's too, lest they grow again in the next function. */
    callers->dim = f->model.dim, callers->dim_room = f->model.dim_room;
    callers->number = f->model.number, callers->number_room = f->model.number_room;
    if (f->model.node_count == 0) return stw_insides_add_body(&f->graph.library->insides, NULL, 0, false, &f->body, error);
    TRY(stw_tf_build(&f->graph, &graph, error));
    const stw_status status = take_kernels(f, graph, role, error);
    stw_graph_destroy(graph);
    return status;
}

stw_tf_fact stw_tf_returned_fact(const stw_tf_frame *f, int64_t k) {
    const stw_tf_value value = stw_tf_value_of(&f->graph, f->out[k].from, f->out[k].output);
    return (stw_tf_fact){value.dtype, stw_tf_dims_of(&f->graph, value), {.count = -1}};
}

/* ---- turns of a loop ---- */

/* Loops of TensorFlow: what a turn does to the counter, and how many turns there are. */

enum { CHAIN = 100 }; /* Identities that are followed; longer chains may be cycles */

/* What an Identity hands on. */
static stw_tf_edge look_through(const stw_tf_graph *g, stw_tf_edge edge) {
    for (int steps = 0; steps < CHAIN; steps++) {
        const stw_str op = g->model->node[edge.from].op;
        const stw_tf_range in = g->facts[edge.from].inputs;
        const bool hands_on = stw_str_is(op, "Identity") || stw_str_is(op, "IdentityN") || stw_str_is(op, "StopGradient");
        if (!hands_on || edge.output >= in.count) break;
        edge = g->edge[in.start + edge.output];
    }
    return edge;
}

static bool is_argument(const stw_tf_frame *f, stw_tf_edge edge, int64_t k) {
    edge = look_through(&f->graph, edge);
    return edge.from == k && k < f->graph.argument_count && edge.output == 0;
}

static stw_tf_edge operand(const stw_tf_graph *g, int32_t node, int64_t k) { return g->edge[g->facts[node].inputs.start + k]; }

void stw_tf_find_passing(const stw_tf_frame *body, stw_tf_state *state, int64_t count) {
    for (int64_t k = 0; k < count && k < body->out_count; k++) state[k].passes = is_argument(body, body->out[k], k);
}

/* One that is added or taken away, where the other operand is the state. */
static bool find_step(const stw_tf_frame *body, int64_t k, int64_t *step) {
    const stw_tf_graph *g = &body->graph;
    const int32_t node = look_through(g, body->out[k]).from;
    const stw_str op = g->model->node[node].op;
    const bool takes = stw_str_is(op, "Sub"), adds = stw_str_is(op, "Add") || stw_str_is(op, "AddV2");
    if (!(takes || adds) || g->facts[node].inputs.count != 2) return false;
    for (int by = 0; by < 2; by++) {
        const stw_tf_ints value = stw_tf_ints_of(g, operand(g, node, by));
        if (!is_argument(body, operand(g, node, 1 - by), k) || value.count != 1 || (takes && by == 0)) continue;
        *step = value.value[0];
        return !takes || !__builtin_sub_overflow((int64_t)0, *step, step);
    }
    return false;
}

void stw_tf_find_steps(const stw_tf_frame *body, stw_tf_state *state, int64_t count) {
    for (int64_t k = 0; k < count && k < body->out_count; k++) {
        state[k].has_step = state[k].passes || find_step(body, k, &state[k].step);
    }
}

typedef struct {
    const stw_tf_frame *condition;
    const stw_tf_state *state;
    int64_t count;
} loop;

static stw_tf_state state_at(const loop *l, stw_tf_edge edge) {
    const stw_tf_graph *g = &l->condition->graph;
    edge = look_through(g, edge);
    if (edge.from < g->argument_count) return edge.from < l->count ? l->state[edge.from] : (stw_tf_state){0};
    const stw_tf_ints value = stw_tf_ints_of(g, edge);
    stw_tf_state constant = {.has_first = value.count == 1, .has_step = value.count == 1};
    if (constant.has_first) constant.first = value.value[0];
    return constant;
}

/* low < high, or low <= high. False: it is not known; *turns is then what the limit says, or as it was. */
static bool count_between(stw_tf_state low, stw_tf_state high, bool inclusive, int64_t *turns) {
    int64_t distance = 0, step = 1;
    const bool steps = low.has_step && high.has_step && !__builtin_sub_overflow(low.step, high.step, &step) && step > 0;
    const bool is_known = low.has_first && high.has_first && steps;
    if (!high.has_first) return false;
    if (!low.has_first) low.first = 0;
    if (!steps) step = 1;
    if (__builtin_sub_overflow(high.first, low.first, &distance)) return false;
    if (inclusive && __builtin_add_overflow(distance, (int64_t)1, &distance)) return false;
    *turns = distance <= 0 ? 0 : distance / step + (distance % step > 0);
    return is_known;
}

/* A comparison, or several that must all hold: the one that fails first ends the loop. */
static bool count_at(const loop *l, stw_tf_edge edge, int depth, int64_t *turns) {
    enum { DEEPEST = 8 };
    const stw_tf_graph *g = &l->condition->graph;
    const int32_t node = look_through(g, edge).from;
    const stw_str op = g->model->node[node].op;
    const bool less = stw_str_is(op, "Less"), less_equal = stw_str_is(op, "LessEqual");
    const bool greater = stw_str_is(op, "Greater"), greater_equal = stw_str_is(op, "GreaterEqual");
    if (g->facts[node].inputs.count != 2) return false;
    const stw_tf_edge a = operand(g, node, 0), b = operand(g, node, 1);
    if (less || less_equal) return count_between(state_at(l, a), state_at(l, b), less_equal, turns);
    if (greater || greater_equal) return count_between(state_at(l, b), state_at(l, a), greater_equal, turns);
    if (!stw_str_is(op, "LogicalAnd") || depth == DEEPEST) return false;
    int64_t other = *turns;
    const bool first = count_at(l, a, depth + 1, turns), second = count_at(l, b, depth + 1, &other);
    if (other < *turns) *turns = other;
    return first && second;
}

bool stw_tf_count_turns(const stw_tf_frame *condition, const stw_tf_state *state, int64_t count, int64_t *turns) {
    const loop l = {condition, state, count};
    int64_t found = INT64_MAX;
    const bool is_known = condition->out_count > 0 && count_at(&l, condition->out[0], 0, &found);
    *turns = found == INT64_MAX ? 1 : found;
    return is_known;
}
