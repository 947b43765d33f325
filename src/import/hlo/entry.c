/* Makes a graph of the entry computation of an HLO module.
 *
 * Instructions become ops, except: parameters and constants (sources), tuples and what only renames or takes apart (views, or
 * nothing at all), and the "done" of asynchronous pairs, which stands for its "start". Fusions, loops, branches and calls are
 * one op each, and the graph keeps what is inside: of a fusion its ops, of the others their kernels. For these a graph is made of
 * every computation that they call, in the same way, and its ops become kernels. */
#include "import/hlo/hlo.h"

#include "import/hlo/meaning.h"

typedef enum { ONE_NODE, LEAVES, PACK } value_kind;

typedef struct { /* what an instruction's value is in the graph */
    uint8_t kind;
    int32_t node;  /* of ONE_NODE; of LEAVES the first of a run, one for each array in the tuple */
    int32_t count; /* of LEAVES */
    int32_t owner; /* the op or source behind views */
    int32_t pack;  /* of PACK: the tuple instruction whose operands are the parts */
} value;

typedef enum { NO_LOOP, LOOP_CONDITION, LOOP_BODY } loop_role;

typedef struct { /* of a module, for all its graphs */
    stw_hlo_costs *costs;
    stw_op_index *ops;
    stw_insides insides;
    int32_t *fused_of; /* (computation_count) 1 + its fused kernel; 0: not met yet */
    int32_t *body_of;  /* (computation_count) the same of bodies */
    uint8_t *role;     /* (computation_count) in a loop */
} inside;

typedef struct {
    const stw_hlo_module *m;
    const stw_hlo_computation *entry; /* that the graph is made of */
    inside *inside;
    stw_builder *b;
    stw_arena *arena;
    value *value_of;         /* (entry->count) */
    int32_t *mark;           /* (entry->count) the last reader that has taken a tuple apart */
    uint8_t *source_kind;    /* (entry->count) */
    const char **apart;      /* (entry->count) as stw_hlo_find_apart */
    bool *keeps;             /* the same */
    int32_t *instruction_of; /* (node_room) by builder index */
    int64_t node_room;
    int64_t flattened;
    stw_hlo_note rest; /* of the parameter that is being taken apart: what is said of the arrays that follow */
    stw_error *error;
} build;

static value *value_at(build *b, int64_t instruction) { return &b->value_of[instruction - b->entry->first]; }

static stw_status fail_at(const build *b, const stw_hlo_instruction *i, const char *why) {
    return stw_fail(b->error, STW_ERROR_INPUT, "byte %lld: instruction '%.*s' (%.*s): %s", (long long)i->at,
                    STW_STR_SHOW(i->name), STW_STR_SHOW(i->opcode), why);
}

/* ---- nodes ---- */

static stw_status add_noted(build *b, int32_t instruction, const stw_hlo_note *note, const stw_raw_node *node, int32_t *out) {
    stw_raw_node raw = *node;
    const char *fault = stw_hlo_read_note(note, &raw.carried);
    if (fault != NULL) return fail_at(b, &b->m->instruction[instruction], fault);
    if (!stw_node_is_source((uint8_t)raw.kind))
        TRY(stw_hlo_attributes(b->m, &b->m->instruction[instruction], b->arena, &raw.attributes, b->error));
    TRY(stw_builder_add(b->b, &raw, out, b->error));
    STW_HLO_RESERVE(b->arena, b->instruction_of, *out, b->node_room, b->error);
    b->instruction_of[*out] = instruction;
    return STW_OK;
}

static stw_status add_node(build *b, int32_t instruction, const stw_raw_node *node, int32_t *out) {
    return add_noted(b, instruction, &b->m->instruction[instruction].note, node, out);
}

static stw_raw_node describe(const build *b, const stw_hlo_instruction *i, const stw_hlo_shape *shape, stw_node_kind kind) {
    const stw_hlo_shape *main = stw_hlo_main_part(b->m, shape);
    const bool array = main->kind == STW_HLO_ARRAY;
    return (stw_raw_node){.kind = kind,
                          .name = i->name,
                          .op = i->opcode,
                          .dtype = array && main->dtype >= 0 ? main->dtype : STW_UNKNOWN,
                          .shape = stw_hlo_dimensions(b->m, main),
                          .rank = array ? main->rank : 0,
                          .bytes = shape->bytes,
                          .flops = STW_UNKNOWN,
                          .moved = STW_UNKNOWN,
                          .at = i->at,
                          .op_class = STW_UNKNOWN};
}

/* ---- operands ---- */

typedef stw_status link_nodes(stw_builder *b, int32_t node, int32_t from, stw_error *error);

static stw_status link_output(stw_builder *b, int32_t node, int32_t from, stw_error *error) {
    (void)node;
    return stw_builder_output(b, from, error);
}

/* Links a node with all that a value consists of. A tuple that stands in others several times is taken apart once. The limit
 * keeps memory near the size of the file. */
static stw_status link_value(build *b, link_nodes *link, int32_t node, int64_t instruction, int32_t depth) {
    enum { LEAST = 1 << 20, PER_NUMBER = 8 };
    const int64_t most = LEAST + PER_NUMBER * (int64_t)b->m->number_count;
    const value *v = value_at(b, instruction);
    const stw_hlo_instruction *i = &b->m->instruction[instruction];
    if (v->kind == ONE_NODE) return link(b->b, node, v->node, b->error);
    const int32_t count = v->kind == LEAVES ? v->count : b->m->instruction[v->pack].operand.count;
    if (depth > STW_HLO_MAX_DEPTH) return fail_at(b, i, "tuples nested more than 100 deep");
    b->flattened += count;
    if (b->flattened > most) {
        return stw_fail(
            b->error, STW_ERROR_INPUT,
            "byte %lld: instruction '%.*s' (%.*s): with it, more than %lld elements of tuples are read whole; take what "
            "is needed with get-tuple-element",
            (long long)i->at, STW_STR_SHOW(i->name), STW_STR_SHOW(i->opcode), (long long)most);
    }
    for (int32_t k = 0; v->kind == LEAVES && k < count; k++) TRY(link(b->b, node, v->node + k, b->error));
    if (v->kind == LEAVES) return STW_OK;
    int32_t *mark = &b->mark[v->pack - b->entry->first];
    if (*mark == node + 1) return STW_OK;
    *mark = node + 1;
    const stw_hlo_instruction *pack = &b->m->instruction[v->pack];
    for (int32_t k = 0; k < count; k++) TRY(link_value(b, link, node, b->m->number[pack->operand.first + k], depth + 1));
    return STW_OK;
}

static stw_status link_controls(build *b, const stw_hlo_instruction *i, int32_t node) {
    for (int32_t k = 0; k < i->control.count; k++) {
        TRY(link_value(b, stw_builder_control, node, b->m->number[i->control.first + k], 0));
    }
    return STW_OK;
}

/* ---- sources ---- */

/* "state.params[\'layers\'][0][\'kernel\']" -> "state.params.layers.0.kernel". */
static stw_status make_label(build *b, stw_str path, stw_str *out) {
    char *label;
    int64_t n = 0;
    STW_TRY_NEW(b->arena, label, path.length + 1, b->error);
    for (int64_t k = 0; k < path.length; k++) {
        const char c = path.p[k];
        if (c == '[' || c == '.') {
            if (n > 0 && label[n - 1] != '.') label[n++] = '.';
        } else if (c != ']' && c != '\'' && c != '\\' && c != '"') {
            label[n++] = c;
        }
    }
    *out = (stw_str){label, n};
    return STW_OK;
}

/* A source for each array of a tuple-shaped parameter, in order. */
static stw_status add_leaves(build *b, int32_t index, const stw_raw_node *like, const stw_hlo_shape *shape, int32_t depth) {
    const stw_hlo_instruction *i = &b->m->instruction[index];
    if (shape->kind == STW_HLO_PARTS) {
        if (depth > STW_HLO_MAX_DEPTH) return fail_at(b, i, "tuples nested more than 100 deep");
        for (int32_t k = 0; k < shape->rank; k++) TRY(add_leaves(b, index, like, &b->m->shape[shape->first + k], depth + 1));
        return STW_OK;
    }
    int32_t node = 0;
    const stw_hlo_note note = stw_hlo_next_note(&i->note, &b->rest);
    stw_raw_node raw = describe(b, i, shape, like->kind);
    raw.name = stw_str_format(b->arena, "%.*s.%d", (int)(i->name.length < 1000 ? i->name.length : 1000), i->name.p,
                              stw_builder_count(b->b) - value_at(b, index)->node);
    if (raw.name.p == NULL) return stw_fail(b->error, STW_ERROR_MEMORY, "out of memory");
    raw.label = like->label;
    return add_noted(b, index, &note, &raw, &node);
}

static stw_status add_source(build *b, int32_t index, stw_node_kind kind) {
    const stw_hlo_instruction *i = &b->m->instruction[index];
    const stw_hlo_shape *shape = stw_hlo_shape_of(b->m, i);
    stw_raw_node raw = describe(b, i, shape, kind);
    value *v = value_at(b, index);
    if (kind == STW_NODE_PARAMETER || kind == STW_NODE_BUFFER) {
        TRY(make_label(b, i->op_name.length > 0 ? i->op_name : i->name, &raw.label));
    }
    if (shape->kind == STW_HLO_PARTS) {
        *v = (value){.kind = LEAVES, .node = stw_builder_count(b->b), .count = shape->leaves, .owner = -1};
        b->rest = i->note;
        return add_leaves(b, index, &raw, shape, 0);
    }
    TRY(add_node(b, index, &raw, &v->node));
    v->owner = v->node;
    return STW_OK;
}

/* ---- views ---- */

static stw_status add_view(build *b, int32_t index, const value *whole) {
    const stw_hlo_instruction *i = &b->m->instruction[index];
    const bool waits = i->control.count > 0 || i->rule == STW_HLO_DEPENDENCY; /* then it becomes an op */
    const stw_raw_node *before = stw_builder_node(b->b, whole->node);
    stw_raw_node raw = describe(b, i, stw_hlo_shape_of(b->m, i), STW_NODE_VIEW);
    /* What a start yields has other parts than what is done in the end. */
    if (i->rule == STW_HLO_PART && stw_hlo_operand(b->m, i, 0)->rule != STW_HLO_START) raw.result = (int32_t)i->number + 1;
    value v = {.kind = ONE_NODE, .owner = whole->owner};
    raw.apart = waits ? b->apart[index - b->entry->first] : stw_hlo_view_apart(i);
    if (raw.apart == NULL && before->kind == STW_NODE_VIEW) raw.apart = before->apart;
    TRY(add_node(b, index, &raw, &v.node));
    TRY(stw_builder_input(b->b, v.node, whole->node, b->error));
    *value_at(b, index) = v;
    return link_controls(b, i, v.node);
}

/* What a tuple's element is: an operand of the tuple, leaves of a parameter, or a part of what an op yields. */
static stw_status add_part(build *b, int32_t index) {
    const stw_hlo_module *m = b->m;
    const stw_hlo_instruction *i = &m->instruction[index], *from = stw_hlo_operand(m, i, 0);
    const value whole = *value_at(b, m->number[i->operand.first]);
    if (whole.kind == PACK) {
        const stw_hlo_instruction *pack = &m->instruction[whole.pack];
        if (i->number >= pack->operand.count) return fail_at(b, i, "the tuple has no element of that index");
        *value_at(b, index) = *value_at(b, m->number[pack->operand.first + i->number]);
        return STW_OK;
    }
    if (whole.kind == LEAVES) {
        const stw_hlo_shape *part = &m->shape[stw_hlo_shape_of(m, from)->first + i->number];
        if (part->offset + part->leaves > whole.count) return fail_at(b, i, "the tuple has no element of that index");
        value v = {.kind = LEAVES, .node = whole.node + part->offset, .count = part->leaves, .owner = -1};
        if (part->kind != STW_HLO_PARTS) v = (value){.kind = ONE_NODE, .node = v.node, .owner = v.node};
        *value_at(b, index) = v;
        return STW_OK;
    }
    if (from->rule == STW_HLO_WHILE && stw_hlo_while_passes(m, from, (int32_t)i->number)) {
        const value *state = value_at(b, m->number[from->operand.first]);
        if (state->kind == PACK && i->number < m->instruction[state->pack].operand.count) {
            *value_at(b, index) = *value_at(b, m->number[m->instruction[state->pack].operand.first + i->number]);
            return STW_OK;
        }
    }
    return add_view(b, index, &whole);
}

/* Another name for the first operand, which is an array. */
static stw_status add_alias(build *b, int32_t index) {
    const stw_hlo_instruction *i = &b->m->instruction[index];
    const value *whole = value_at(b, b->m->number[i->operand.first]);
    if (whole->kind != ONE_NODE) { /* a tuple under another name */
        *value_at(b, index) = *whole;
        return STW_OK;
    }
    TRY(add_view(b, index, whole));
    if (i->rule != STW_HLO_DEPENDENCY) return STW_OK;
    return link_value(b, stw_builder_control, value_at(b, index)->node, b->m->number[i->operand.first + 1], 0);
}

/* ---- ops ---- */

static bool has_plain_operands(build *b, const stw_hlo_instruction *i) {
    for (int32_t k = 0; k < i->operand.count; k++) {
        if (value_at(b, b->m->number[i->operand.first + k])->kind != ONE_NODE) return false;
    }
    return true;
}

/* A fusion that reads tuples as a whole is priced by its sums. */
static stw_status look_into_fusion(build *b, const stw_hlo_instruction *i, int32_t *out) {
    inside *in = b->inside;
    if (i->called.count == 0 || !has_plain_operands(b, i)) return STW_OK;
    const int64_t called = b->m->number[i->called.first];
    if (in->fused_of[called] == 0) {
        TRY(stw_hlo_add_fused(b->m, in->costs, b->b, i, *b->arena, &in->insides, b->error));
        in->fused_of[called] = (int32_t)in->insides.fused_count;
    }
    if (in->insides.fused[in->fused_of[called] - 1].result_count > 0) *out = in->fused_of[called];
    return STW_OK;
}

static stw_body_step run_body(const build *b, const stw_hlo_instruction *i, int32_t k, double times) {
    return (stw_body_step){.times = times, .body = b->inside->body_of[b->m->number[i->called.first + k]] - 1};
}

static stw_status look_into_loop(build *b, const stw_hlo_instruction *i, int32_t *out) {
    bool is_known = false;
    const double trips = (double)stw_hlo_trip_count(b->m, i, &is_known);
    const stw_body_step step[] = {run_body(b, i, 0, trips), run_body(b, i, 1, trips)};
    b->inside->insides.open_loops += !is_known;
    return stw_insides_add_body(&b->inside->insides, step, 2, false, out, b->error);
}

static stw_status look_into_branches(build *b, const stw_hlo_instruction *i, int32_t *out) {
    stw_body_step *step;
    stw_arena scratch = *b->arena;
    STW_TRY_NEW(&scratch, step, i->called.count, b->error);
    for (int32_t k = 0; k < i->called.count; k++) step[k] = run_body(b, i, k, 1.0);
    return stw_insides_add_body(&b->inside->insides, step, i->called.count, true, out, b->error);
}

static bool starts(const stw_hlo_instruction *i, const char *opcode) {
    return i->rule == STW_HLO_START && i->called.count > 0 && stw_str_is(i->opcode, opcode);
}

static bool is_call(const stw_hlo_instruction *i) {
    return i->rule == STW_HLO_CALL || starts(i, "async-start") || starts(i, "call-start");
}

static stw_status look_inside(build *b, const stw_hlo_instruction *i, stw_raw_node *raw) {
    int32_t body = -1;
    if (i->rule == STW_HLO_FUSION || starts(i, "fusion-start")) return look_into_fusion(b, i, &raw->fused);
    if (is_call(i)) body = b->inside->body_of[b->m->number[i->called.first]] - 1;
    if (i->rule == STW_HLO_WHILE) TRY(look_into_loop(b, i, &body));
    if (i->rule == STW_HLO_CONDITIONAL) TRY(look_into_branches(b, i, &body));
    raw->body = body + 1;
    return STW_OK;
}

static stw_status add_op(build *b, int32_t index) {
    const stw_hlo_instruction *i = &b->m->instruction[index];
    const stw_hlo_cost cost = stw_hlo_cost_of(b->inside->costs, index);
    stw_raw_node raw = describe(b, i, stw_hlo_shape_of(b->m, i), STW_NODE_OP);
    value v = {.kind = ONE_NODE};
    raw.bytes = cost.bytes;
    raw.flops = cost.flops;
    raw.moved = cost.usual ? STW_UNKNOWN : cost.moved;
    raw.op_class = i->rule == STW_HLO_ORDER ? STW_CLASS_ALIAS : cost.op_class;
    if (i->rule == STW_HLO_CUSTOM && i->target.length > 0) raw.op = i->target;
    raw.flow = stw_hlo_flow_of(b->m, i, &raw.stays);
    TRY(look_inside(b, i, &raw));
    raw.apart = b->apart[index - b->entry->first];
    raw.flow.keeps = b->keeps[index - b->entry->first];
    if (raw.apart == NULL) raw.apart = stw_hlo_describe_kernel(b->m, i, &raw.flow);
    TRY(add_node(b, index, &raw, &v.node));
    v.owner = v.node;
    *value_at(b, index) = v;
    for (int32_t k = 0; k < i->operand.count; k++) {
        TRY(link_value(b, stw_builder_input, v.node, b->m->number[i->operand.first + k], 0));
    }
    return link_controls(b, i, v.node);
}

static stw_status add_instruction(build *b, int32_t index) {
    const stw_hlo_module *m = b->m;
    const stw_hlo_instruction *i = &m->instruction[index];
    switch ((stw_hlo_rule)i->rule) {
        case STW_HLO_PARAMETER: return add_source(b, index, (stw_node_kind)b->source_kind[index - b->entry->first]);
        case STW_HLO_CONSTANT: return add_source(b, index, STW_NODE_CONSTANT);
        case STW_HLO_TUPLE: *value_at(b, index) = (value){.kind = PACK, .pack = index, .owner = -1}; return STW_OK;
        case STW_HLO_PART: return add_part(b, index);
        case STW_HLO_SAME: *value_at(b, index) = *value_at(b, m->number[i->operand.first]); return STW_OK;
        case STW_HLO_BITCAST:
        case STW_HLO_DEPENDENCY: return add_alias(b, index);
        case STW_HLO_RESHAPE: return stw_hlo_reshape_is_free(m, i) ? add_alias(b, index) : add_op(b, index);
        case STW_HLO_TRANSPOSE: return stw_hlo_transpose_is_free(m, i) ? add_alias(b, index) : add_op(b, index);
        default: return stw_hlo_call_is_view(i) ? add_alias(b, index) : add_op(b, index);
    }
}

/* ---- outputs ---- */

/* The value at the end of a path through tuples. */
static const value *follow(build *b, int64_t instruction, stw_hlo_range path) {
    const stw_hlo_module *m = b->m;
    for (int32_t k = 0; k < path.count; k++) {
        const value *v = value_at(b, instruction);
        const int64_t step = m->number[path.first + k];
        if (v->kind != PACK || step < 0 || step >= m->instruction[v->pack].operand.count) return v;
        instruction = m->number[m->instruction[v->pack].operand.first + step];
    }
    return value_at(b, instruction);
}

/* The op behind an aliased output writes the parameter in place. One that writes several: they stand on its device. */
static void add_updates(build *b) {
    const stw_hlo_module *m = b->m;
    for (int32_t k = 0; k < m->alias_count; k++) {
        const stw_hlo_alias *alias = &m->alias[k];
        if (alias->parameter < 0 || alias->parameter >= b->entry->parameter.count) continue;
        const int64_t parameter = m->number[b->entry->parameter.first + alias->parameter];
        if (parameter < 0) continue;
        const value *source = value_at(b, parameter), *result = follow(b, b->entry->root, alias->output);
        if (source->kind != ONE_NODE || result->kind != ONE_NODE || result->owner < 0) continue;
        if (stw_builder_node(b->b, result->owner)->kind != STW_NODE_OP) continue;
        if (b->mark[result->owner] < 0) {
            stw_builder_colocate(b->b, source->node, result->owner);
        } else {
            stw_builder_update(b->b, result->owner, source->node);
            b->mark[result->owner] = -1;
        }
    }
}

/* Who stays before an op that writes over what it reads. */
static stw_status add_holds(build *b) {
    stw_hlo_holds holds = {0};
    bool *is_op; /* (entry->count) */
    STW_TRY_NEW(b->arena, is_op, b->entry->count, b->error);
    for (int32_t k = 0; k < b->entry->count; k++) {
        const value *v = &b->value_of[k];
        const bool own = v->kind == ONE_NODE && b->instruction_of[v->node] == b->entry->first + k;
        is_op[k] = own && v->owner == v->node && stw_builder_node(b->b, v->node)->kind == STW_NODE_OP;
    }
    TRY(stw_hlo_find_holds(b->m, is_op, b->arena, &holds, b->error));
    for (int32_t k = 0; k < holds.count; k++) {
        const int32_t before = value_at(b, holds.pair[k].before)->node, after = value_at(b, holds.pair[k].after)->node;
        TRY(stw_builder_hold(b->b, after, before, b->error));
    }
    return STW_OK;
}

static stw_status add_all(build *b, bool is_body) {
    for (int32_t k = 0; k < b->entry->count; k++) TRY(add_instruction(b, b->entry->first + k));
    if (!is_body) TRY(add_holds(b));
    TRY(link_value(b, link_output, INT32_MAX - 1, b->entry->root, 0));
    STW_TRY_NEW(b->arena, b->mark, stw_builder_count(b->b), b->error);
    if (!is_body) add_updates(b);
    return STW_OK;
}

/* ---- bodies ---- */

/* Whole numbers, one of them: counters, indices and conditions. */
static bool is_single_number(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const stw_hlo_shape *shape = stw_hlo_shape_of(m, i);
    if (shape->kind != STW_HLO_ARRAY || shape->elements != 1 || shape->dtype < 0) return false;
    const char type = stw_dtype_name(shape->dtype)[0];
    return type == 's' || type == 'u' || type == 'p'; /* s32, u8, pred */
}

/* What keeps a loop going is no kernel: the same steps written out have none for it. */
static bool only_counts(const stw_hlo_module *m, const stw_hlo_instruction *i) {
    const bool moves = i->rule == STW_HLO_MOVE && stw_str_is(i->opcode, "copy");
    if (!(i->rule == STW_HLO_ELEMENTWISE || moves) || !is_single_number(m, i)) return false;
    for (int32_t k = 0; k < i->operand.count; k++) {
        if (!is_single_number(m, stw_hlo_operand(m, i, k))) return false;
    }
    return true;
}

/* (graph->N) the ops of a loop's body or condition that only count. */
static stw_status find_counting(const build *b, const stw_graph *graph, stw_arena *arena, bool **out) {
    STW_TRY_NEW(arena, *out, graph->N, b->error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP) (*out)[i] = only_counts(b->m, &b->m->instruction[b->instruction_of[graph->origin[i]]]);
    }
    return STW_OK;
}

static stw_status take_kernels(build *b, const stw_graph *graph, stw_arena scratch, loop_role role, int32_t *body) {
    bool *counts = NULL;
    if (role != NO_LOOP) TRY(find_counting(b, graph, &scratch, &counts));
    return stw_insides_add_graph(&b->inside->insides, graph, counts, role == LOOP_BODY, scratch, body, b->error);
}

static stw_status make_graph(build *b, stw_str name, bool is_body, stw_graph **out) {
    TRY(stw_builder_create(b->arena, STW_HLO, b->inside->ops, &b->b, b->error));
    stw_builder_keep_flow(b->b);
    STW_TRY_NEW(b->arena, b->value_of, b->entry->count, b->error);
    STW_TRY_NEW(b->arena, b->mark, b->entry->count, b->error);
    TRY(stw_hlo_find_apart(b->m, b->entry, b->arena, &b->apart, &b->keeps, b->error));
    TRY(add_all(b, is_body));
    stw_builder_keep_insides(b->b, &b->inside->insides, is_body);
    return stw_builder_finish(b->b, name, STW_STR("hlo"), out, b->error);
}

static stw_status add_body(const stw_hlo_module *m, inside *in, int32_t computation, stw_arena scratch, stw_error *error) {
    build b = {.m = m, .entry = &m->computation[computation], .inside = in, .arena = &scratch, .error = error};
    stw_graph *graph;
    int32_t body = 0;
    STW_TRY_NEW(&scratch, b.source_kind, b.entry->count, error);
    for (int32_t k = 0; k < b.entry->count; k++) b.source_kind[k] = STW_NODE_INPUT;
    TRY(make_graph(&b, b.entry->name, true, &graph));
    const stw_status status = take_kernels(&b, graph, scratch, (loop_role)in->role[computation], &body);
    if (status == STW_OK) in->body_of[computation] = body + 1;
    stw_graph_destroy(graph);
    return status;
}

/* Called computations come before their callers, so that bodies within bodies are there. */
static stw_status add_bodies(const stw_hlo_module *m, inside *in, stw_arena *arena, stw_error *error) {
    bool *is_body;
    STW_TRY_NEW(arena, is_body, m->computation_count, error);
    for (int32_t k = 0; k < m->instruction_count; k++) {
        const stw_hlo_instruction *i = &m->instruction[k];
        const bool loops = i->rule == STW_HLO_WHILE, calls = loops || is_call(i) || i->rule == STW_HLO_CONDITIONAL;
        for (int32_t c = 0; calls && c < i->called.count; c++) {
            const int64_t called = m->number[i->called.first + c];
            is_body[called] = true;
            if (loops && in->role[called] != LOOP_BODY) in->role[called] = c == 0 ? LOOP_BODY : LOOP_CONDITION;
        }
    }
    for (int32_t k = 0; k < m->computation_count; k++) {
        if (is_body[k]) TRY(add_body(m, in, k, *arena, error));
    }
    return STW_OK;
}

static stw_status build_all(build *b, stw_graph **out) {
    const stw_hlo_module *m = b->m;
    inside *in = b->inside;
    TRY(stw_op_index_create(b->arena, &in->ops, b->error));
    TRY(stw_hlo_costs_create(m, b->arena, &in->costs, b->error));
    STW_TRY_NEW(b->arena, in->fused_of, m->computation_count, b->error);
    STW_TRY_NEW(b->arena, in->body_of, m->computation_count, b->error);
    STW_TRY_NEW(b->arena, in->role, m->computation_count, b->error);
    TRY(add_bodies(m, in, b->arena, b->error));
    TRY(stw_hlo_classify_parameters(m, b->arena, &b->source_kind, b->error));
    return make_graph(b, m->name, false, out);
}

stw_status stw_hlo_build(const stw_hlo_module *m, stw_arena *arena, stw_graph **out, int32_t **instruction_of, stw_error *error) {
    stw_arena lists; /* those of the insides grow while scratch memory of the other is in use */
    inside in = {.insides = {.arena = &lists}};
    build b = {.m = m, .entry = &m->computation[m->entry], .inside = &in, .arena = arena, .error = error};
    TRY(stw_arena_create_for_file(&lists, error));
    const stw_status status = build_all(&b, out);
    stw_arena_destroy(&lists);
    if (status != STW_OK) return status;
    if (instruction_of != NULL) *instruction_of = b.instruction_of;
    (*out)->partitions = m->partitions;
    return STW_OK;
}
