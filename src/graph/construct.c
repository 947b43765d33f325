#include "graph/construct.h"

#include <math.h>
#include <string.h>

stw_status stw_graph_create(stw_graph **out, stw_error *error) {
    stw_arena arena;
    *out = NULL;
    TRY(stw_arena_create_for_file(&arena, error));
    *out = STW_NEW(&arena, stw_graph, 1);
    if (*out == NULL) {
        stw_arena_destroy(&arena);
        return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    **out = (stw_graph){.arena = arena, .name = STW_STR(""), .family = STW_STR(""), .loss = -1};
    return STW_OK;
}

stw_status stw_construct_begin(stw_constructor *c, stw_graph *graph, int64_t count, stw_arena *scratch, stw_error *error) {
    *c =
        (stw_constructor){.graph = graph, .remedy = "", .shape.arena = scratch, .input.arena = scratch, .control.arena = scratch};
    STW_TRY_NEW(scratch, c->root, count, error);
    return stw_graph_allocate(graph, count, error);
}

/* ---- a node ---- */

/* Bytes = product of the shape x size of the dtype; false when above 2^63. */
static bool shape_bytes(const stw_raw_node *node, int64_t *out) {
    int64_t bytes = node->dtype >= 0 ? stw_dtype_bytes(node->dtype) : 0;
    bool empty = bytes == 0 || node->rank < 0, overflow = false;
    for (int32_t k = 0; k < node->rank; k++) {
        empty |= node->shape[k] == 0;
        overflow |= __builtin_mul_overflow(bytes, node->shape[k], &bytes);
    }
    *out = empty ? 0 : bytes;
    return empty || !overflow;
}

/* Of lists that are -1 in most graphs: they are there from the first node on that has another value. */
static stw_status put_rare(stw_graph *graph, int32_t i, int64_t value, int64_t **list, stw_error *error) {
    if (value < 0) return STW_OK;
    if (*list == NULL) {
        STW_TRY_NEW(&graph->arena, *list, graph->N, error);
        for (int32_t k = 0; k < graph->N; k++) (*list)[k] = -1;
    }
    (*list)[i] = value;
    return STW_OK;
}

static stw_status put_sizes(stw_constructor *c, const stw_raw_node *node, stw_error *error) {
    stw_graph *graph = c->graph;
    const int32_t i = c->count;
    for (int32_t k = 0; k < node->rank; k++) {
        if (node->shape[k] >= 0) continue;
        return stw_fail(error, STW_ERROR_INPUT, "dimension %d of its shape is %lld; dynamic shapes must be fixed first", k,
                        (long long)node->shape[k]);
    }
    int64_t computed = 0;
    const bool stated = node->bytes >= 0;
    if (!shape_bytes(node, &computed) && !stated)
        return stw_fail(error, STW_ERROR_INPUT, "its shape holds more than 2^63 bytes%s", c->remedy);
    graph->bytes[i] = stated ? node->bytes : computed;
    graph->flops[i] = node->flops > 0 ? node->flops : 0;
    TRY(put_rare(graph, i, node->moved, &graph->moved, error));
    if (graph->kind[i] == STW_NODE_VIEW) return STW_OK;
    if (graph->bytes[i] > STW_GRAPH_MAX_BYTES - c->total_bytes)
        return stw_fail(error, STW_ERROR_INPUT, "with its %lld bytes the tensors exceed 2^56 bytes in all; check its size",
                        (long long)graph->bytes[i]);
    c->total_bytes += graph->bytes[i];
    return STW_OK;
}

static stw_status put_kind(stw_constructor *c, const stw_raw_node *node, const stw_raw_links *links, stw_error *error) {
    stw_graph *graph = c->graph;
    const int32_t i = c->count;
    const bool source = stw_node_is_source((uint8_t)node->kind), view = node->kind == STW_NODE_VIEW;
    const bool waits = view && links->control_count > 0;
    if (source && links->input_count > 0)
        return stw_fail(error, STW_ERROR_INPUT, "a %s has no inputs", stw_node_kind_name((uint8_t)node->kind));
    if (view && links->input_count == 0) return stw_fail(error, STW_ERROR_INPUT, "a view needs an input to be a view of");
    const bool known = !source && node->op_class >= 0;
    const int32_t op_class = known ? node->op_class : STW_CLASS_OPAQUE;
    graph->kind[i] = (uint8_t)(waits ? STW_NODE_OP : node->kind);
    graph->op_class[i] = (uint8_t)(waits ? STW_CLASS_ALIAS : op_class);
    graph->known[i] = source || known;
    graph->dtype[i] = (uint8_t)(node->dtype >= 0 ? node->dtype : STW_DTYPE_NONE);
    graph->stays[i] = node->stays;
    graph->apart[i] = op_class == STW_CLASS_CONTROL && node->apart == NULL ? stw_apart_control : node->apart;
    TRY(put_rare(graph, i, node->at, &graph->at, error));
    graph->op_count += graph->kind[i] == STW_NODE_OP;
    return STW_OK;
}

static stw_status put_update(stw_constructor *c, int32_t target, stw_error *error) {
    stw_graph *graph = c->graph;
    const int32_t i = c->count, parameter = target >= 0 ? c->root[target] : -1;
    if (parameter < 0) return STW_OK;
    if (graph->kind[i] != STW_NODE_OP || !stw_node_is_resident(graph->kind[parameter]))
        return stw_fail(error, STW_ERROR_INPUT, "only an op can write in place, and only a parameter or buffer");
    const int32_t earlier = graph->updated_by[parameter];
    if (earlier >= 0) {
        graph->updates[earlier] = -1;
        if (graph->colocate[earlier] < 0) graph->colocate[earlier] = parameter;
    }
    graph->updated_by[parameter] = i;
    graph->updates[i] = parameter;
    return STW_OK;
}

static stw_status put_list(stw_vector *list, const int64_t *from, int64_t count, const char *what, stw_error *error) {
    TRY(stw_graph_check_links(list->count + count, what, error));
    for (int64_t k = 0; k < count; k++) {
        if (!stw_vector_push(list, from[k])) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    }
    return STW_OK;
}

stw_status stw_construct_node(stw_constructor *c, const stw_raw_node *node, const stw_raw_links *links, stw_error *error) {
    stw_graph *graph = c->graph;
    const int32_t i = c->count;
    graph->node_name[i] = node->name;
    graph->op_name[i] = node->op;
    /* What few nodes have is written only there: memory that nobody touches is none. */
    if (node->label.p != NULL) graph->label[i] = node->label;
    if (node->module.p != NULL) graph->module[i] = node->module;
    if (node->attributes.p != NULL) graph->attributes[i] = node->attributes;
    TRY(put_kind(c, node, links, error));
    TRY(put_sizes(c, node, error));
    const bool is_op = graph->kind[i] == STW_NODE_OP;
    TRY(put_list(&c->shape, node->shape, node->rank, "dimensions", error));
    TRY(put_list(&c->input, links->input, links->input_count, "inputs", error));
    TRY(put_list(&c->control, links->control, is_op ? links->control_count : 0, "control edges", error));
    graph->shape_start[i + 1] = (int32_t)c->shape.count;
    graph->input_start[i + 1] = (int32_t)c->input.count;
    graph->control_start[i + 1] = (int32_t)c->control.count;
    c->root[i] = graph->kind[i] == STW_NODE_VIEW ? c->root[links->input[0]] : i;
    graph->colocate[i] = links->colocate;
    TRY(put_update(c, links->updates, error));
    c->count++;
    return STW_OK;
}

/* ---- the graph ---- */

stw_status stw_construct_times(stw_constructor *c, stw_str device_kind, double **out, stw_error *error) {
    stw_graph *graph = c->graph;
    int32_t k = 0;
    while (k < graph->kind_count && !stw_str_equal(c->kind_name[k], device_kind)) k++;
    if (k == STW_MAX_TIMED_KINDS)
        return stw_fail(error, STW_ERROR_INPUT, "times for more than %d kinds of device", STW_MAX_TIMED_KINDS);
    if (k == graph->kind_count) {
        c->kind_name[k] = stw_str_copy(&graph->arena, device_kind);
        if (c->kind_name[k].p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
        STW_TRY_NEW(&graph->arena, c->us[k], graph->N, error);
        for (int32_t i = 0; i < graph->N; i++) c->us[k][i] = NAN;
        graph->kind_count++;
    }
    *out = c->us[k];
    return STW_OK;
}

static stw_status copy_ids(stw_arena *arena, const int64_t *from, int64_t count, int32_t **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, count, error);
    for (int64_t k = 0; k < count; k++) (*out)[k] = (int32_t)from[k];
    return STW_OK;
}

static stw_status put_lists(stw_constructor *c, const int64_t *output, int64_t output_count, stw_error *error) {
    stw_graph *graph = c->graph;
    stw_arena *arena = &graph->arena;
    if (output_count > INT32_MAX) return stw_fail(error, STW_ERROR_INPUT, "more than 2^31 - 1 outputs");
    TRY(copy_ids(arena, c->input.data, c->input.count, &graph->input, error));
    TRY(copy_ids(arena, c->control.data, c->control.count, &graph->control, error));
    TRY(copy_ids(arena, output, output_count, &graph->output, error));
    graph->output_count = (int32_t)output_count;
    STW_TRY_NEW(arena, graph->shape, c->shape.count, error);
    if (c->shape.count > 0) memcpy(graph->shape, c->shape.data, (size_t)c->shape.count * sizeof *graph->shape);
    STW_TRY_NEW(arena, graph->kind_name, graph->kind_count, error);
    STW_TRY_NEW(arena, graph->us, graph->kind_count, error);
    for (int32_t k = 0; k < graph->kind_count; k++) {
        graph->kind_name[k] = c->kind_name[k];
        graph->us[k] = c->us[k];
    }
    return STW_OK;
}

stw_status stw_construct_finish(stw_constructor *c, const int64_t *output, int64_t output_count, stw_error *error) {
    TRY(put_lists(c, output, output_count, error));
    TRY(stw_graph_build_edges(c->graph, error));
    TRY(stw_graph_build_waits(c->graph, error));
    TRY(stw_graph_build_topological(c->graph, error));
    return stw_graph_build_fingerprint(c->graph, error);
}
