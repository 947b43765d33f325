/* One ONNX node after the other: its operator's rule, what the file declares where there is none, what is folded away. */
#include <stdarg.h>
#include <stdio.h>

#include "import/onnx_rules.h"

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
        c->row = stw_onnx_table_find(r->table, c->node->op);
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
            if (!stw_onnx_emit_node(&c)) return false;
        } else if (!c.is_view && !stw_onnx_add_kernel(&c)) {
            return false;
        }
    }
    return true;
}
