/* Collects the nodes of a model file; see builder.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "import/builder_state.h"
#include "import/place.h"

stw_status stw_builder_create(stw_arena *arena, stw_vocabulary vocabulary, stw_builder **out, stw_error *error) {
    stw_op_index *ops;
    TRY(stw_op_index_create(arena, &ops, error));
    return stw_builder_create_with(arena, vocabulary, ops, out, error);
}

stw_status stw_builder_create_with(stw_arena *arena, stw_vocabulary vocabulary, stw_op_index *ops, stw_builder **out,
                                   stw_error *error) {
    stw_builder *b;
    STW_TRY_NEW(arena, b, 1, error);
    b->arena = arena;
    b->vocabulary = vocabulary;
    stw_vector *vectors[] = {&b->input.node, &b->input.from, &b->control.node, &b->control.from,
                             &b->hold.node,  &b->hold.from,  &b->output};
    for (int k = 0; k < (int)(sizeof vectors / sizeof vectors[0]); k++) vectors[k]->arena = arena;
    b->ops = ops;
    *out = b;
    return STW_OK;
}

stw_status stw_builder_fail(const stw_builder *b, int32_t node, stw_error *error, const char *format, ...) {
    static const char *const kinds[] = {"node", "view", "parameter", "buffer", "input", "constant"};
    char text[300], place[STW_PLACE_SIZE] = "", op[100] = "";
    const stw_raw_node *raw = &b->node[node];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (raw->at >= 0) stw_place(b->text, raw->at, place);
    /* What has no operator stands in no list of nodes: a parameter, an input. */
    if (raw->op.length == 0 && stw_node_is_source((uint8_t)raw->kind))
        return stw_fail(error, STW_ERROR_INPUT, "%s%s%s '%.*s': %s", place, place[0] != '\0' ? ": " : "", kinds[raw->kind],
                        STW_STR_SHOW(raw->name), text);
    snprintf(op, sizeof op, " (%.*s)", STW_STR_SHOW(raw->op));
    return stw_fail(error, STW_ERROR_INPUT, "%s%snode %d '%.*s'%s: %s", place, place[0] != '\0' ? ": " : "", node,
                    STW_STR_SHOW(raw->name), raw->op.length > 0 ? op : "", text);
}

static stw_status grow(stw_builder *b, stw_error *error) {
    if (b->count < b->capacity) return STW_OK;
    if (b->count >= INT32_MAX - 1) return stw_fail(error, STW_ERROR_INPUT, "more than 2^31 - 2 nodes");
    const int64_t capacity = 2 * b->capacity + 64;
    stw_raw_node *node;
    int32_t *colocate, *updates;
    STW_TRY_NEW(b->arena, node, capacity, error);
    STW_TRY_NEW(b->arena, colocate, capacity, error);
    STW_TRY_NEW(b->arena, updates, capacity, error);
    if (b->count > 0) {
        memcpy(node, b->node, (size_t)b->count * sizeof *node);
        memcpy(colocate, b->colocate, (size_t)b->count * sizeof *colocate);
        memcpy(updates, b->updates, (size_t)b->count * sizeof *updates);
    }
    b->node = node;
    b->colocate = colocate;
    b->updates = updates;
    b->capacity = capacity;
    return STW_OK;
}

stw_status stw_builder_add(stw_builder *b, const stw_raw_node *node, int32_t *out, stw_error *error) {
    TRY(grow(b, error));
    stw_raw_node copy = *node;
    if (node->rank > 0) {
        int64_t *shape;
        STW_TRY_NEW(b->arena, shape, node->rank, error);
        memcpy(shape, node->shape, (size_t)node->rank * sizeof *shape);
        copy.shape = shape;
    }
    b->node[b->count] = copy;
    b->colocate[b->count] = b->updates[b->count] = -1;
    *out = (int32_t)b->count++;
    return STW_OK;
}

void stw_builder_set_text(stw_builder *b, stw_str text) { b->text = text; }
void stw_builder_keep_flow(stw_builder *b) { b->keeps_flow = true; }
void stw_builder_keep_insides(stw_builder *b, const stw_insides *insides, bool share) {
    b->insides = insides;
    b->shares_insides = share;
}

stw_op_class stw_builder_class_of(const stw_builder *b, stw_str op) {
    const int32_t row = stw_op_find(b->ops, b->vocabulary, op);
    return row >= 0 ? stw_op_table[row].op_class : STW_CLASS_OPAQUE;
}

stw_raw_node *stw_builder_node(stw_builder *b, int32_t index) { return &b->node[index]; }
int32_t stw_builder_count(const stw_builder *b) { return (int32_t)b->count; }

static stw_status add_link(stw_link_list *list, int32_t node, int32_t from, stw_error *error) {
    const bool kept = stw_vector_push(&list->node, node) && stw_vector_push(&list->from, from);
    return kept ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

stw_status stw_builder_input(stw_builder *b, int32_t node, int32_t from, stw_error *error) {
    return add_link(&b->input, node, from, error);
}

stw_status stw_builder_control(stw_builder *b, int32_t node, int32_t from, stw_error *error) {
    return add_link(&b->control, node, from, error);
}

stw_status stw_builder_hold(stw_builder *b, int32_t node, int32_t from, stw_error *error) {
    return add_link(&b->hold, node, from, error);
}

stw_status stw_builder_output(stw_builder *b, int32_t node, stw_error *error) {
    return stw_vector_push(&b->output, node) ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

void stw_builder_colocate(stw_builder *b, int32_t node, int32_t with) { b->colocate[node] = with; }
void stw_builder_update(stw_builder *b, int32_t op, int32_t parameter) { b->updates[op] = parameter; }

static stw_status find_kind(stw_builder *b, stw_str name, int32_t *out, stw_error *error) {
    int32_t k = 0;
    while (k < b->kind_count && !stw_str_equal(b->kind_name[k], name)) k++;
    if (k == STW_BUILDER_MAX_KINDS)
        return stw_fail(error, STW_ERROR_INPUT, "times for more than %d kinds of device", STW_BUILDER_MAX_KINDS);
    if (k == b->kind_count) b->kind_name[b->kind_count++] = name;
    *out = k;
    return STW_OK;
}

stw_status stw_builder_measured(stw_builder *b, int32_t node, stw_str device_kind, double us, stw_error *error) {
    int32_t kind = 0;
    if (!(us >= 0.0 && isfinite(us))) return stw_builder_fail(b, node, error, "a time of %g us; times must be 0 or more", us);
    TRY(find_kind(b, device_kind, &kind, error));
    if (b->measured_count == b->measured_capacity) {
        const int64_t capacity = 2 * b->measured_capacity + 64;
        stw_measurement *measured;
        STW_TRY_NEW(b->arena, measured, capacity, error);
        if (b->measured_count > 0) memcpy(measured, b->measured, (size_t)b->measured_count * sizeof *measured);
        b->measured = measured;
        b->measured_capacity = capacity;
    }
    b->measured[b->measured_count++] = (stw_measurement){node, kind, us};
    return STW_OK;
}
