/* Nodes that run functions (While, If, Case, PartitionedCall, ops that are functions): each is one op that costs what the kernels
 * of those functions cost. */
#include "import/tensorflow/function.h"

typedef enum { CALL, BRANCH, LOOP, COUNTED_LOOP, MAP } kind;

typedef struct {
    const char *op;
    kind kind;
    stw_tf_key function, other; /* attributes that say what is run */
    uint8_t before, behind;     /* inputs that are not for the function: a condition, a device */
} operator_row;

static const operator_row operators[] = {
    {"PartitionedCall", CALL, STW_TF_f, STW_TF_KEY_COUNT, 0, 0},
    {"StatefulPartitionedCall", CALL, STW_TF_f, STW_TF_KEY_COUNT, 0, 0},
    {"TPUPartitionedCall", CALL, STW_TF_f, STW_TF_KEY_COUNT, 0, 1},
    {"RemoteCall", CALL, STW_TF_f, STW_TF_KEY_COUNT, 1, 0},
    {"BatchFunction", CALL, STW_TF_f, STW_TF_KEY_COUNT, 0, 0},
    {"XlaLaunch", CALL, STW_TF_function, STW_TF_KEY_COUNT, 0, 0},
    {"While", LOOP, STW_TF_body, STW_TF_cond, 0, 0},
    {"StatelessWhile", LOOP, STW_TF_body, STW_TF_cond, 0, 0},
    {"_While", LOOP, STW_TF_body, STW_TF_cond, 0, 0},
    {"XlaWhile", LOOP, STW_TF_body, STW_TF_cond, 0, 0},
    {"For", COUNTED_LOOP, STW_TF_body, STW_TF_KEY_COUNT, 3, 0},
    {"If", BRANCH, STW_TF_then_branch, STW_TF_else_branch, 1, 0},
    {"StatelessIf", BRANCH, STW_TF_then_branch, STW_TF_else_branch, 1, 0},
    {"_If", BRANCH, STW_TF_then_branch, STW_TF_else_branch, 1, 0},
    {"XlaIf", BRANCH, STW_TF_then_branch, STW_TF_else_branch, 1, 0},
    {"Case", BRANCH, STW_TF_branches, STW_TF_KEY_COUNT, 1, 0},
    {"StatelessCase", BRANCH, STW_TF_branches, STW_TF_KEY_COUNT, 1, 0},
    {"MapDefun", MAP, STW_TF_f, STW_TF_KEY_COUNT, 0, 0},
};

typedef struct { /* a node that runs functions */
    const stw_tf_graph *graph;
    int32_t node;
    const operator_row *row;         /* NULL: the op is a function */
    const stw_tf_function *function; /* the first that it runs */
    stw_arena scratch;
    stw_tf_fact *in; /* (in_count) for the function */
    int64_t in_count;
    stw_tf_outcome *out;
    stw_error *error;
} call;

static const operator_row *find_row(const stw_tf_graph *graph, int32_t node) {
    const int32_t row = graph->facts[node].row;
    if (row < 0 || stw_op_table[row].op_class != STW_CLASS_CONTROL) return NULL;
    for (size_t k = 0; k < sizeof operators / sizeof operators[0]; k++) {
        if (stw_str_is(graph->model->node[node].op, operators[k].op)) return &operators[k];
    }
    return NULL;
}

bool stw_tf_runs_functions(const stw_tf_graph *graph, int32_t node) {
    if (graph->library == NULL) return false;
    if (graph->facts[node].row >= 0) return find_row(graph, node) != NULL;
    return stw_tf_find_function(graph->library, graph->model->node[node].op) != NULL;
}

/* ---- which functions ---- */

static stw_status find_named(const call *c, stw_tf_key key, stw_str name, const stw_tf_function **out) {
    if (name.length == 0)
        return stw_tf_call_fail(c->graph, c->node, c->error, "has no function in its attribute '%s'; name one there",
                                stw_tf_key_name(key));
    *out = stw_tf_find_function(c->graph->library, name);
    if (*out != NULL) return STW_OK;
    return stw_tf_call_fail(c->graph, c->node, c->error,
                            "runs function '%.*s', which is not in the file's library; give the whole graph", STW_STR_SHOW(name));
}

static stw_status find_function(const call *c, stw_tf_key key, const stw_tf_function **out) {
    const stw_tf_model *m = c->graph->model;
    const stw_tf_attribute *a = stw_tf_find(m, &m->node[c->node], key);
    stw_str name = a != NULL ? a->text : (stw_str){0};
    if (a != NULL && key == STW_TF_branches && a->texts.count > 0) name = m->text[a->texts.start];
    return find_named(c, key, name, out);
}

/* ---- what they come to ---- */

static int64_t multiply(int64_t a, int64_t b) { return __builtin_mul_overflow(a, b, &a) ? INT64_MAX : a; }
static int64_t add(int64_t a, int64_t b) { return __builtin_add_overflow(a, b, &a) ? INT64_MAX : a; }

static void take_returned(const stw_tf_frame *f, stw_tf_outcome *out) {
    out->body = f->body;
    out->flops = f->flops;
    out->moved = f->moved;
    for (int64_t k = 0; k < out->count && k < f->out_count; k++) out->out[k] = stw_tf_returned_fact(f, k);
}

static bool are_same(const stw_tf_fact *a, const stw_tf_fact *b, int64_t count) {
    for (int64_t k = 0; k < count; k++, a++, b++) {
        if (a->dtype != b->dtype || a->dims.rank != b->dims.rank || a->ints.count != b->ints.count) return false;
        for (int32_t d = 0; d < a->dims.rank; d++) {
            if (a->dims.dim[d] != b->dims.dim[d]) return false;
        }
        for (int64_t i = 0; i < a->ints.count; i++) {
            if (a->ints.value[i] != b->ints.value[i]) return false;
        }
    }
    return true;
}

/* For the next call; its memory is there from the first one on. */
static stw_status remember(const call *c, stw_tf_last_run *last, const stw_tf_outcome *outcome) {
    stw_arena *arena = c->graph->library->model->arena;
    if (last->in == NULL) {
        STW_TRY_NEW(arena, last->in, c->in_count, c->error);
        STW_TRY_NEW(arena, last->outcome.out, outcome->count, c->error);
    }
    stw_tf_fact *out = last->outcome.out;
    for (int64_t k = 0; k < c->in_count; k++) last->in[k] = c->in[k];
    for (int64_t k = 0; k < outcome->count; k++) out[k] = outcome->out[k];
    last->outcome = *outcome;
    last->outcome.out = out;
    last->is_there = true;
    return STW_OK;
}

/* A function once. One that takes as many values as a call says is looked at each time. */
static stw_status run_once(const call *c, const stw_tf_function *function, stw_tf_outcome *out) {
    const stw_tf_model *m = c->graph->library->model;
    stw_tf_last_run *last = &c->graph->library->last[function - m->function];
    const bool fits =
        c->in_count == stw_tf_count_arguments(m, function, false) && out->count == stw_tf_count_arguments(m, function, true);
    if (fits && last->is_there && are_same(last->in, c->in, c->in_count)) {
        stw_tf_fact *facts = out->out;
        for (int64_t k = 0; k < out->count; k++) facts[k] = last->outcome.out[k];
        *out = last->outcome;
        out->out = facts;
        return STW_OK;
    }
    stw_tf_frame frame;
    TRY(stw_tf_open(c->graph, c->node, function, c->in, c->in_count, c->scratch, &frame, c->error));
    TRY(stw_tf_run(&frame, STW_TF_CALLED, c->error));
    take_returned(&frame, out);
    return fits ? remember(c, last, out) : STW_OK;
}

/* ---- operators ---- */

/* Of several branches the dearest, and shapes of the first that knows them. */
static stw_status run_branch(call *c, const stw_tf_function *function, stw_body_step *step) {
    stw_tf_outcome one = {.count = c->out->count};
    stw_arena before = c->scratch;
    STW_TRY_NEW(&c->scratch, one.out, one.count, c->error);
    for (int64_t k = 0; k < one.count; k++) one.out[k] = (stw_tf_fact){-1, {.rank = -1}, {.count = -1}};
    TRY(run_once(c, function, &one));
    for (int64_t k = 0; k < one.count; k++) {
        if (c->out->out[k].dims.rank < 0) c->out->out[k] = one.out[k];
    }
    if (one.flops > c->out->flops) c->out->flops = one.flops;
    if (one.moved > c->out->moved) c->out->moved = one.moved;
    *step = (stw_body_step){.times = 1.0, .body = one.body};
    c->scratch = before;
    return STW_OK;
}

static stw_status run_branches(call *c) {
    const stw_tf_model *m = c->graph->model;
    const stw_tf_attribute *list = stw_tf_find(m, &m->node[c->node], c->row->function);
    const bool is_case = c->row->function == STW_TF_branches;
    const int64_t count = is_case ? list->texts.count : 2;
    const stw_tf_function *function = c->function;
    stw_body_step *step;
    STW_TRY_NEW(&c->scratch, step, count, c->error);
    for (int64_t k = 0; k < count; k++) {
        if (is_case) TRY(find_named(c, c->row->function, m->text[list->texts.start + k], &function));
        if (!is_case && k > 0) TRY(find_function(c, c->row->other, &function));
        TRY(run_branch(c, function, &step[k]));
    }
    return stw_insides_add_body(&c->graph->library->insides, step, count, true, &c->out->body, c->error);
}

/* The body, and the condition if there is one, `turns` times. */
static stw_status take_turns(call *c, int64_t turns, const stw_tf_frame *condition) {
    stw_tf_outcome *out = c->out;
    if (turns < 1) turns = 1;
    const stw_body_step step[] = {{.times = (double)turns, .body = out->body},
                                  {.times = (double)turns, .body = condition != NULL ? condition->body : -1}};
    if (condition != NULL) {
        out->flops = add(out->flops, condition->flops);
        out->moved = add(out->moved, condition->moved);
    }
    out->flops = multiply(out->flops, turns);
    out->moved = multiply(out->moved, turns);
    return stw_insides_add_body(&c->graph->library->insides, step, condition != NULL ? 2 : 1, false, &out->body, c->error);
}

/* A value that changes from turn to turn is not the one that it begins with. */
static stw_status open_body(call *c, stw_tf_frame *frame, stw_tf_state *state) {
    for (int64_t k = 0; k < c->in_count; k++) {
        const stw_tf_ints *first = &c->in[k].ints;
        state[k].has_first = first->count == 1;
        if (state[k].has_first) state[k].first = first->value[0];
    }
    TRY(stw_tf_open(c->graph, c->node, c->function, c->in, c->in_count, c->scratch, frame, c->error));
    stw_tf_find_passing(frame, state, c->in_count);
    for (int64_t k = 0; k < c->in_count; k++) {
        if (state[k].passes) continue;
        c->in[k].ints.count = -1;
        if (k < frame->graph.argument_count) frame->graph.argument[k].ints.count = -1;
    }
    return STW_OK;
}

/* What a counter ends with: the loop of the derivatives has it as its limit. */
static void put_last(const stw_tf_state *state, int64_t turns, stw_tf_fact *out) {
    int64_t added = 0, last = 0;
    if (!state->has_first || !state->has_step || __builtin_mul_overflow(state->step, turns, &added)) return;
    if (__builtin_add_overflow(state->first, added, &last)) return;
    out->ints = (stw_tf_ints){.count = 1, .value = {last}};
}

static stw_status run_loop(call *c) {
    const stw_tf_function *goes_on;
    stw_tf_frame frame;
    stw_tf_state *state;
    int64_t turns = 1;
    TRY(find_function(c, c->row->other, &goes_on));
    STW_TRY_NEW(&c->scratch, state, c->in_count, c->error);
    TRY(open_body(c, &frame, state));
    TRY(stw_tf_run(&frame, STW_TF_TURN, c->error));
    stw_tf_find_steps(&frame, state, c->in_count);
    take_returned(&frame, c->out);
    TRY(stw_tf_open(c->graph, c->node, goes_on, c->in, c->in_count, c->scratch, &frame, c->error));
    TRY(stw_tf_run(&frame, STW_TF_CONDITION, c->error));
    const bool is_known = stw_tf_count_turns(&frame, state, c->in_count, &turns);
    c->graph->library->insides.open_loops += !is_known;
    if (is_known && c->out->count > 0 && c->in_count > 0) put_last(&state[0], turns, &c->out->out[0]);
    return take_turns(c, turns, &frame);
}

/* For: from start to limit by delta; the body gets the number first. */
static stw_status run_counted_loop(call *c) {
    const stw_tf_ints start = stw_tf_input_ints(c->graph, c->node, 0), limit = stw_tf_input_ints(c->graph, c->node, 1);
    const stw_tf_ints delta = stw_tf_input_ints(c->graph, c->node, 2);
    const bool is_known = start.count == 1 && limit.count == 1 && delta.count == 1 && delta.value[0] > 0;
    stw_tf_fact *in;
    stw_tf_frame frame;
    int64_t distance = 0, turns = 1;
    STW_TRY_NEW(&c->scratch, in, c->in_count + 1, c->error);
    in[0] = (stw_tf_fact){stw_dtype_find(STW_STR("s32")), {.rank = 0}, {.count = -1}};
    for (int64_t k = 0; k < c->in_count; k++) {
        in[k + 1] = c->in[k];
        in[k + 1].ints.count = -1;
    }
    TRY(stw_tf_open(c->graph, c->node, c->function, in, c->in_count + 1, c->scratch, &frame, c->error));
    TRY(stw_tf_run(&frame, STW_TF_TURN, c->error));
    take_returned(&frame, c->out);
    if (is_known && !__builtin_sub_overflow(limit.value[0], start.value[0], &distance) && distance > 0)
        turns = distance / delta.value[0] + (distance % delta.value[0] > 0);
    c->graph->library->insides.open_loops += !is_known;
    return take_turns(c, turns, NULL);
}

/* MapDefun: the function once for each row of its arguments; what it captures is there as a whole. */
static stw_status run_map(call *c) {
    const stw_tf_model *m = c->graph->model;
    const stw_tf_attribute *types = stw_tf_find(m, &m->node[c->node], STW_TF_Targuments);
    const int64_t rows_of = types != NULL ? types->numbers.count : c->in_count;
    int64_t turns = -1;
    stw_tf_frame frame;
    for (int64_t k = 0; k < c->in_count && k < rows_of; k++) {
        c->in[k].ints.count = -1;
        if (c->in[k].dims.rank < 1) continue;
        turns = c->in[k].dims.dim[0];
        c->in[k].dims = stw_tf_without(c->in[k].dims, 0);
    }
    c->graph->library->insides.open_loops += turns < 0;
    if (turns < 0) turns = 1;
    TRY(stw_tf_open(c->graph, c->node, c->function, c->in, c->in_count, c->scratch, &frame, c->error));
    TRY(stw_tf_run(&frame, STW_TF_TURN, c->error));
    take_returned(&frame, c->out);
    for (int64_t k = 0; k < c->out->count; k++) c->out->out[k].dims = stw_tf_insert(c->out->out[k].dims, 0, turns);
    return take_turns(c, turns, NULL);
}

/* Outputs lie where they stay until the graph around has taken them: of a function its memory is the scratch memory of what it
 * runs. */
static stw_status prepare(call *c, stw_tf_outcome *out) {
    const stw_tf_graph *g = c->graph;
    const int64_t before = c->row != NULL ? c->row->before : 0, behind = c->row != NULL ? c->row->behind : 0;
    const int64_t inputs = g->facts[c->node].inputs.count;
    *out = (stw_tf_outcome){.count = stw_tf_count_arguments(g->model, c->function, true)};
    c->scratch = g->library->scratch;
    STW_TRY_NEW(g->function != NULL ? g->arena : &c->scratch, out->out, out->count, c->error);
    if (g->function != NULL) c->scratch = *g->arena;
    for (int64_t k = 0; k < out->count; k++) out->out[k] = (stw_tf_fact){-1, {.rank = -1}, {.count = -1}};
    if (inputs < before + behind)
        return stw_tf_call_fail(g, c->node, c->error,
                                "has %lld inputs, but it needs %lld beside what its function takes; give "
                                "them",
                                (long long)inputs, (long long)before + (long long)behind);
    c->in_count = inputs - before - behind;
    c->out = out;
    STW_TRY_NEW(&c->scratch, c->in, c->in_count, c->error);
    for (int64_t k = 0; k < c->in_count; k++) c->in[k] = stw_tf_input_fact(g, c->node, before + k);
    return STW_OK;
}

stw_status stw_tf_run_functions(const stw_tf_graph *graph, int32_t node, stw_tf_outcome *out, stw_error *error) {
    call c = {.graph = graph, .node = node, .row = find_row(graph, node), .error = error};
    if (c.row != NULL) TRY(find_function(&c, c.row->function, &c.function));
    if (c.row == NULL) c.function = stw_tf_find_function(graph->library, graph->model->node[node].op);
    TRY(prepare(&c, out));
    switch (c.row != NULL ? c.row->kind : CALL) {
        case BRANCH: return run_branches(&c);
        case LOOP: return run_loop(&c);
        case COUNTED_LOOP: return run_counted_loop(&c);
        case MAP: return run_map(&c);
        default: return run_once(&c, c.function, out);
    }
}
