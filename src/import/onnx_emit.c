/* Nodes of the main graph of an ONNX file, into the builder. */
#include "import/onnx_rules.h"

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

bool stw_onnx_emit_node(stw_onnx_call *c) {
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
