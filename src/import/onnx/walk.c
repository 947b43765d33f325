/* The nodes of a graph, one after the other: its operator's rule, what the file declares where there is none, what is folded
 * away; nodes of the main graph go into the builder. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "import/onnx/onnx_rules.h"

/* ---- the table of operators ---- */

/* The table of ONNX operators, looked up by name, and what rules are made of. */

static const stw_onnx_row rows[] = {
#define STW_ROW(names, rule, flops, basis) {names, stw_onnx_rule_##rule, flops, basis},
#include "import/onnx/shapes.def"
#undef STW_ROW
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

struct stw_onnx_table {
    stw_names row;
};

stw_status stw_onnx_table_create(stw_arena *arena, stw_onnx_table **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, 1, error);
    TRY(stw_names_create(arena, (int64_t)2 * ROW_COUNT, &(*out)->row, error));
    for (int32_t row = 0; row < ROW_COUNT; row++) {
        for (const char *c = rows[row].names; *c != '\0';) {
            const char *start = c;
            while (*c != ' ' && *c != '\0') c++;
            const stw_str name = {start, (int64_t)(c - start)};
            int32_t *known;
            TRY(stw_names_enter(&(*out)->row, 0, name, &known, error));
            *known = row;
            while (*c == ' ') c++;
        }
    }
    return STW_OK;
}

static const stw_onnx_row *table_find(const stw_onnx_table *table, stw_str op) {
    const int32_t row = stw_names_find(&table->row, 0, op);
    return row >= 0 ? &rows[row] : NULL;
}

int32_t stw_onnx_dtype_named(const char *name) { return stw_dtype_find(stw_str_of(name)); }

bool stw_onnx_put(stw_onnx_call *c, int32_t k, int32_t dtype, int64_t rank, const int64_t *shape) {
    return k >= c->output_count || stw_onnx_set_shape(c->output[k], dtype, rank, shape, c->eval->arena);
}

bool stw_onnx_put_like(stw_onnx_call *c, int32_t k, const stw_onnx_value *value) {
    return stw_onnx_known(value) && stw_onnx_put(c, k, value->dtype, value->rank, value->shape);
}

bool stw_onnx_put_like_as(stw_onnx_call *c, int32_t k, const stw_onnx_value *value, const char *dtype) {
    return stw_onnx_known(value) && stw_onnx_put(c, k, stw_onnx_dtype_named(dtype), value->rank, value->shape);
}

void stw_onnx_put_content(stw_onnx_call *c, int32_t k, const double *content, int64_t count) {
    if (k >= c->output_count || c->output[k]->dtype < 0 || stw_onnx_elements(c->output[k]) != count) return;
    const bool integer = stw_onnx_is_integer(c->output[k]->dtype);
    if (count > (integer ? STW_ONNX_MAX_CONTENT : STW_ONNX_MAX_FLOAT_CONTENT)) return;
    double *copy = STW_NEW(c->eval->arena, double, count);
    if (copy == NULL) return;
    for (int64_t i = 0; i < count; i++) copy[i] = integer ? trunc(content[i]) : content[i];
    c->output[k]->content = copy;
}

bool stw_onnx_axis(int64_t axis, int64_t rank, int64_t *out) {
    if (axis < -rank || axis >= rank) return false;
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

int64_t stw_onnx_round(double value) {
    if (!(value > -9.2e18)) return value != value ? 0 : INT64_MIN;
    return value < 9.2e18 ? (int64_t)value : INT64_MAX;
}

int64_t stw_onnx_numbers(const stw_onnx_call *c, int32_t k, int64_t *out, int64_t room) {
    const stw_onnx_value *value = stw_onnx_in(c, k);
    if (value == NULL || value->content == NULL) return -1;
    const int64_t count = stw_onnx_elements(value);
    for (int64_t i = 0; i < count && i < room; i++) out[i] = stw_onnx_round(value->content[i]);
    return count;
}

int64_t stw_onnx_list(const stw_onnx_call *c, const char *attribute, int32_t k, int64_t *out, int64_t room) {
    const int64_t count = stw_onnx_ints(c, attribute, out, room);
    return count >= 0 ? count : stw_onnx_numbers(c, k, out, room);
}

bool stw_onnx_broadcast(const stw_onnx_call *c, int32_t first, int32_t count, int64_t *shape, int64_t *rank) {
    *rank = 0;
    for (int32_t i = first; i < first + count; i++) {
        const stw_onnx_value *value = stw_onnx_shaped(c, i);
        if (value == NULL) return false;
        if (value->rank > *rank) *rank = value->rank;
    }
    for (int64_t d = 0; d < *rank; d++) shape[d] = 1;
    for (int32_t i = first; i < first + count; i++) {
        const stw_onnx_value *value = c->node->input[i];
        for (int32_t d = 0; d < value->rank; d++) {
            int64_t *to = &shape[*rank - value->rank + d];
            if (*to == 1)
                *to = value->shape[d];
            else if (value->shape[d] != 1 && value->shape[d] != *to)
                return false;
        }
    }
    return true;
}

/* ---- into the builder ---- */

/* Nodes of the main graph of an ONNX file, into the builder. */

static bool out_of_memory(stw_onnx_reader *r, stw_status status) {
    if (status == STW_OK) return true;
    r->file.failed = true; /* the message stands already */
    return false;
}

static stw_raw_node raw_of(const stw_onnx_value *value, stw_node_kind kind) {
    return (stw_raw_node){.kind = kind,
                          .name = value->name,
                          .dtype = value->dtype,
                          .shape = value->shape,
                          .rank = value->rank,
                          .bytes = STW_UNKNOWN,
                          .flops = STW_UNKNOWN,
                          .moved = STW_UNKNOWN,
                          .at = value->at,
                          .op_class = STW_UNKNOWN};
}

static bool add(stw_onnx_reader *r, const stw_raw_node *raw, int32_t *out) {
    return out_of_memory(r, stw_builder_add(r->builder, raw, out, r->error));
}

static bool add_input(stw_onnx_reader *r, int32_t node, int32_t from) {
    return out_of_memory(r, stw_builder_input(r->builder, node, from, r->error));
}

bool stw_onnx_emit_input(stw_onnx_reader *r, stw_onnx_value *value, stw_node_kind kind) {
    stw_raw_node raw = raw_of(value, kind);
    if (kind == STW_NODE_PARAMETER) raw.label = value->name;
    return add(r, &raw, &value->node);
}

/* Stored tensors and parts of values come into the graph when somebody reads them. */
bool stw_onnx_emit_value(stw_onnx_reader *r, stw_onnx_value *value, int32_t *out) {
    if (value->node < 0 && value->part_of >= 0) {
        stw_raw_node raw = raw_of(value, STW_NODE_VIEW);
        raw.op = STW_STR("output");
        if (!add(r, &raw, &value->node) || !add_input(r, value->node, value->part_of)) return false;
    } else if (value->node < 0) {
        const bool parameter = value->source == STW_ONNX_PARAMETER;
        if (!stw_onnx_emit_input(r, value, parameter ? STW_NODE_PARAMETER : STW_NODE_CONSTANT)) return false;
    }
    *out = value->node;
    return true;
}

static bool is_unwritten(const stw_onnx_value *value) {
    return value->node < 0 && value->part_of < 0 && value->producer >= 0 && value->source == STW_ONNX_COMPUTED;
}

/* Inputs in argument order; of a view only what it is a view of. */
static bool link_inputs(stw_onnx_call *c, int32_t node) {
    stw_onnx_reader *r = c->eval->reader;
    const int32_t count = c->is_view ? 1 : c->node->input_count;
    for (int32_t k = 0; k < count; k++) {
        int32_t from = 0;
        if (c->node->input[k] == NULL) continue;
        if (!stw_onnx_emit_value(r, c->node->input[k], &from) || !add_input(r, node, from)) return false;
    }
    for (int64_t k = 0; k < r->captured_count; k++) {
        int32_t from = 0;
        if (r->captured[k]->captured_by == node) continue;
        r->captured[k]->captured_by = node;
        if (is_unwritten(r->captured[k]))
            return stw_onnx_fail(r, c->node, "its body reads '%.*s', which is written only later; sort the nodes",
                                 STW_STR_SHOW(r->captured[k]->name));
        if (!stw_onnx_emit_value(r, r->captured[k], &from) || !add_input(r, node, from)) return false;
    }
    return true;
}

int32_t stw_onnx_count_named(const stw_onnx_call *c, stw_onnx_value **first, int64_t *bytes) {
    int32_t named = 0;
    *first = NULL;
    *bytes = 0;
    for (int32_t k = 0; k < c->node->output_count; k++) {
        if (c->node->output[k] == NULL || (*first != NULL && !c->node->output[k]->is_read)) continue;
        if (*first == NULL) *first = c->node->output[k];
        *bytes = stw_onnx_add(*bytes, stw_onnx_bytes(c->node->output[k]));
        named++;
    }
    return named;
}

/* Its work is in a graph of its own, which is no part of any kernel outside. */
static bool has_body(const stw_onnx_call *c) {
    const stw_str op = c->node->op;
    return c->is_function || stw_str_is(op, "If") || stw_str_is(op, "Loop") || stw_str_is(op, "Scan");
}

static bool emit_node(stw_onnx_call *c) {
    stw_onnx_reader *r = c->eval->reader;
    stw_onnx_value *first = NULL;
    stw_onnx_value nothing = {.dtype = STW_UNKNOWN, .rank = STW_UNKNOWN};
    int64_t bytes = 0;
    const int32_t named = stw_onnx_count_named(c, &first, &bytes);
    c->is_view = c->is_view && named == 1 && c->node->input_count > 0 && c->node->input[0] != NULL;
    stw_raw_node raw = raw_of(first != NULL ? first : &nothing, c->is_view ? STW_NODE_VIEW : STW_NODE_OP);
    raw.op = c->node->op;
    if (c->node->name.length > 0) raw.name = c->node->name;
    raw.attributes = stw_onnx_attributes_json(c->eval, c->node, r->arena);
    raw.flops = c->flops;
    raw.moved = c->moved;
    raw.body = c->body;
    raw.at = c->node->at;
    if (c->is_function) raw.op_class = STW_CLASS_OPAQUE;
    if (has_body(c)) raw.apart = stw_apart_control;
    if (named > 1) raw.bytes = bytes;
    int32_t node = 0;
    if (!add(r, &raw, &node) || !link_inputs(c, node)) return false;
    for (int32_t k = 0; k < c->node->output_count; k++) {
        stw_onnx_value *value = c->node->output[k];
        if (value == NULL) continue;
        if (named == 1)
            value->node = node;
        else
            value->part_of = node;
    }
    return true;
}

/* ---- one node after the other ---- */

/* One ONNX node after the other: its operator's rule, what the file declares where there is none, what is folded away. */

bool stw_onnx_fail(stw_onnx_reader *r, const stw_onnx_node *node, const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const stw_str first =
        node->output_count > 0 && node->output != NULL && node->output[0] != NULL ? node->output[0]->name : (stw_str){0};
    const stw_str name = node->name.length > 0 ? node->name : first;
    return stw_pb_fail(&r->file, r->file.begin + node->at, "node '%.*s' (%.*s): %s", STW_STR_SHOW(name), STW_STR_SHOW(node->op),
                       text);
}

/* Gives every output a place, those that are left out too, so that rules need not ask. */
static bool prepare(stw_onnx_call *c) {
    stw_onnx_reader *r = c->eval->reader;
    c->output_count = c->node->output_count;
    c->output = STW_NEW(c->eval->arena, stw_onnx_value *, c->output_count);
    if (c->output == NULL) return stw_onnx_fail(r, c->node, "out of memory");
    for (int32_t k = 0; k < c->output_count; k++) {
        c->output[k] = c->node->output[k];
        if (c->output[k] != NULL) continue;
        c->output[k] = STW_NEW(c->eval->arena, stw_onnx_value, 1);
        if (c->output[k] == NULL) return stw_onnx_fail(r, c->node, "out of memory");
        *c->output[k] = (stw_onnx_value){.dtype = STW_UNKNOWN, .rank = STW_UNKNOWN, .producer = -1, .node = -1, .part_of = -1};
    }
    return true;
}

static void set_flops(stw_onnx_call *c) {
    const stw_onnx_row *row = c->row;
    if (row == NULL || row->basis == STW_BY_RULE || c->flops >= 0 || c->output_count == 0) return;
    const stw_onnx_value *basis = row->basis == STW_PER_INPUT ? stw_onnx_in(c, 0) : c->output[0];
    if (basis != NULL && basis->rank >= 0) c->flops = stw_onnx_multiply(row->flops, stw_onnx_elements(basis));
}

/* Operators of the standard tell their outputs' shapes by those of their inputs, but for a few. */
static bool is_guess(const stw_onnx_call *c) {
    static const char *const by_data[] = {"NonZero", "Compress", "If", "Loop", "Scan"};
    const stw_onnx_node *node = c->node;
    for (int32_t k = 0; k < node->input_count; k++) {
        if (node->input[k] != NULL && node->input[k]->is_guess) return true;
    }
    for (size_t k = 0; k < sizeof by_data / sizeof by_data[0]; k++) {
        if (stw_str_is(node->op, by_data[k])) return true;
    }
    return c->is_function || !stw_onnx_is_standard(node);
}

static bool infer(stw_onnx_call *c) {
    stw_onnx_eval *eval = c->eval;
    stw_onnx_reader *r = eval->reader;
    const stw_onnx_function *function = stw_onnx_find_function(r, c->node);
    c->flops = c->moved = STW_UNKNOWN;
    if (!prepare(c)) return false;
    if (function != NULL) {
        c->is_function = true;
        if (!stw_onnx_call_function(c, function)) return false;
    } else if (c->output_count > 0) { /* rules may look at their first output */
        c->row = table_find(r->table, c->node->op);
        if (c->row != NULL && c->row->rule(c)) stw_onnx_fold(c);
    }
    if (r->file.failed) return false;
    const bool guess = is_guess(c);
    for (int32_t k = 0; k < c->output_count; k++) {
        stw_onnx_value *value = c->output[k];
        if (value->rank < 0 && value->declared.length > 0) {
            stw_onnx_read_type(r, value->declared, 0, value, eval->arena);
            value->is_guess |= r->options != NULL && r->options->given_count > 0; /* what is declared may be of other sizes */
        }
        value->is_guess |= guess;
    }
    set_flops(c);
    return !r->file.failed;
}

/* Nothing is left to do when every output is a stored tensor or known numbers. */
static bool is_folded(const stw_onnx_call *c) {
    for (int32_t k = 0; k < c->output_count; k++) {
        if (c->output[k]->content == NULL && c->output[k]->source == STW_ONNX_COMPUTED) return false;
    }
    return c->output_count > 0;
}

bool stw_onnx_walk(stw_onnx_eval *eval, const stw_onnx_graph *graph) {
    for (int32_t i = 0; i < graph->node_count; i++) {
        stw_onnx_call c = {.eval = eval, .node = &graph->node[graph->order[i]]};
        if (eval->scope->emits) eval->reader->captured_count = 0;
        if (!infer(&c)) return false;
        if (is_folded(&c)) {
            for (int32_t k = 0; k < c.output_count; k++) {
                if (c.output[k]->source == STW_ONNX_COMPUTED) c.output[k]->source = STW_ONNX_CONSTANT;
            }
        } else if (eval->scope->emits) {
            if (!emit_node(&c)) return false;
        } else if (!c.is_view && !stw_onnx_add_kernel(&c)) {
            return false;
        }
    }
    return true;
}
