/* Collects the nodes of a model file, sorts them and makes the graph; see builder.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vector.h"
#include "import/builder.h"
#include "import/place.h"

enum { MAX_KINDS = 64 };

typedef struct link_list { /* (node, from) pairs as they were added */
    stw_vector node, from;
} link_list;

typedef struct links { /* the same by node, in the order of adding */
    int64_t *start;    /* (count + 1) into from */
    int32_t *from;
} links;

typedef struct measurement {
    int32_t node, kind;
    double us;
} measurement;

struct stw_builder {
    stw_arena *arena;
    stw_op_index *ops;
    stw_vocabulary vocabulary;
    stw_str text; /* of a file in text: for messages */
    bool keeps_flow, shares_insides;
    const stw_insides *insides; /* or NULL */
    int64_t count, capacity;
    stw_raw_node *node;          /* (count) */
    int32_t *colocate, *updates; /* (count) a node, or -1 */
    link_list input, control, hold;
    stw_vector output;
    int32_t kind_count;
    stw_str kind_name[MAX_KINDS];
    int64_t measured_count, measured_room;
    measurement *measured; /* (measured_count) */
};

stw_status stw_builder_create(stw_arena *arena, stw_vocabulary vocabulary, stw_op_index *ops, stw_builder **out,
                              stw_error *error) {
    if (ops == NULL) TRY(stw_op_index_create(arena, &ops, error));
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

/* Fails about a node: its position in the file and its name stand in front. */
static stw_status fail(const stw_builder *b, int32_t node, stw_error *error, const char *format, ...) STW_PRINTF(4, 5);
static stw_status fail(const stw_builder *b, int32_t node, stw_error *error, const char *format, ...) {
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
    int64_t colocate_room = b->capacity, updates_room = b->capacity;
    TRY(STW_GROW(b->arena, b->colocate, b->count + 1, colocate_room, error));
    TRY(STW_GROW(b->arena, b->updates, b->count + 1, updates_room, error));
    return STW_GROW(b->arena, b->node, b->count + 1, b->capacity, error);
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

static stw_status add_link(link_list *list, int32_t node, int32_t from, stw_error *error) {
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
    if (k == MAX_KINDS) return stw_fail(error, STW_ERROR_INPUT, "times for more than %d kinds of device", MAX_KINDS);
    if (k == b->kind_count) b->kind_name[b->kind_count++] = name;
    *out = k;
    return STW_OK;
}

stw_status stw_builder_measured(stw_builder *b, int32_t node, stw_str device_kind, double us, stw_error *error) {
    int32_t kind = 0;
    if (!(us >= 0.0 && isfinite(us))) return fail(b, node, error, "a time of %g us; times must be 0 or more", us);
    TRY(find_kind(b, device_kind, &kind, error));
    STW_PUSH(b->arena, b, measured, ((measurement){node, kind, us}), error);
    return STW_OK;
}

/* ---- order ---- */

/* The order of a graph's nodes: file order, but for what a node needs, which comes before it. */

static stw_status sort_links(const stw_builder *b, const link_list *list, stw_arena *arena, links *out, stw_error *error) {
    int64_t *place;
    STW_TRY_NEW(arena, out->start, b->count + 1, error);
    STW_TRY_NEW(arena, place, b->count + 1, error);
    STW_TRY_NEW(arena, out->from, list->node.count, error);
    for (int64_t e = 0; e < list->node.count; e++) {
        const int64_t from = list->from.data[e];
        if (from < 0 || from >= b->count)
            return fail(b, (int32_t)list->node.data[e], error, "its input %lld is not there", (long long)from);
        out->start[list->node.data[e] + 1]++;
    }
    for (int64_t i = 0; i < b->count; i++) place[i + 1] = out->start[i + 1] += out->start[i];
    for (int64_t e = 0; e < list->node.count; e++) out->from[place[list->node.data[e]]++] = (int32_t)list->from.data[e];
    return STW_OK;
}

/* What node i needs, one after the other: inputs, then what it waits for, then what it updates; -1 at the end. */
typedef struct {
    const stw_builder *b;
    const links *input, *control;
    uint8_t *state;  /* (count) */
    int64_t *cursor; /* (count) how many needs were looked at */
} walk;

static int32_t next_need(const walk *w, int32_t i) {
    int64_t k = w->cursor[i]++;
    const int64_t inputs = w->input->start[i + 1] - w->input->start[i];
    const int64_t controls = w->control->start[i + 1] - w->control->start[i];
    if (k < inputs) return w->input->from[w->input->start[i] + k];
    k -= inputs;
    if (k < controls) return w->control->from[w->control->start[i] + k];
    return k == controls ? w->b->updates[i] : -1;
}

enum { UNSEEN, BEGUN, DONE };

/* A depth-first walk with a stack of its own; *stuck is on a cycle when it returns false. */
static bool sort_nodes(const walk *w, int32_t *stack, int32_t *order, int32_t *stuck) {
    int32_t done = 0;
    for (int32_t first = 0; first < (int32_t)w->b->count; first++) {
        int64_t depth = 0;
        if (w->state[first] == UNSEEN) stack[depth++] = first;
        while (depth > 0) {
            const int32_t i = stack[depth - 1];
            w->state[i] = BEGUN;
            const int32_t need = next_need(w, i);
            if (need < 0) {
                w->state[i] = DONE;
                order[done++] = i;
                depth--;
                continue;
            }
            *stuck = need;
            if (w->state[need] == BEGUN) return false;
            if (w->state[need] == UNSEEN) stack[depth++] = need;
        }
    }
    return true;
}

static stw_status find_order(const stw_builder *b, const links *input, const links *control, stw_arena *arena, int32_t **out,
                             stw_error *error) {
    walk w = {.b = b, .input = input, .control = control};
    int32_t *stack, stuck = 0;
    STW_TRY_NEW(arena, *out, b->count, error);
    STW_TRY_NEW(arena, stack, b->count, error);
    STW_TRY_NEW(arena, w.state, b->count, error);
    STW_TRY_NEW(arena, w.cursor, b->count, error);
    if (sort_nodes(&w, stack, *out, &stuck)) return STW_OK;
    return fail(b, stuck, error, "depends on itself: its inputs close a cycle; remove one of them%s",
                b->vocabulary == STW_TENSORFLOW ? ", or close the loop with NextIteration into Merge" : "");
}

/* ---- the graph ---- */

/* Makes the graph of what the builder has collected. */

typedef struct {
    const stw_builder *b;
    stw_graph *graph;
    links input, control, hold;
    int32_t *order; /* (N) node of the builder, by id */
    int32_t *id;    /* (N) the other way round */
    int64_t total_bytes;
    stw_error *error;
} finish;

/* A copy that JSON can carry and C can end: what is no UTF-8, and NUL, become '?'. */
static stw_status copy_clean(finish *f, stw_str from, stw_str *out) {
    char *copy = STW_NEW(&f->graph->arena, char, from.length + 1);
    if (copy == NULL) return stw_fail(f->error, STW_ERROR_MEMORY, "out of memory");
    if (from.length > 0) memcpy(copy, from.p, (size_t)from.length);
    for (char *c = copy; c < copy + from.length;) {
        const int length = *c == '\0' ? 0 : stw_utf8_length(c, copy + from.length);
        if (length == 0) *c = '?';
        c += length == 0 ? 1 : length;
    }
    *out = (stw_str){copy, from.length};
    return STW_OK;
}

static stw_str default_op(stw_node_kind kind) {
    switch (kind) {
        case STW_NODE_PARAMETER: return STW_STR("parameter");
        case STW_NODE_BUFFER: return STW_STR("buffer");
        case STW_NODE_INPUT: return STW_STR("input");
        case STW_NODE_CONSTANT: return STW_STR("constant");
        default: return STW_STR("op");
    }
}

static stw_status keep_strings(finish *f, int32_t i) {
    stw_graph *graph = f->graph;
    const stw_raw_node *raw = &f->b->node[f->order[i]];
    TRY(copy_clean(f, raw->op.length > 0 ? raw->op : default_op(raw->kind), &graph->op_name[i]));
    TRY(copy_clean(f, raw->label, &graph->label[i]));
    TRY(copy_clean(f, raw->attributes, &graph->attributes[i]));
    if (raw->name.length > 0) return copy_clean(f, raw->name, &graph->node_name[i]);
    const stw_str op = graph->op_name[i];
    graph->node_name[i] = stw_str_format(&graph->arena, "%.*s_%d", (int)(op.length < 4000 ? op.length : 4000), op.p, f->order[i]);
    return graph->node_name[i].p != NULL ? STW_OK : stw_fail(f->error, STW_ERROR_MEMORY, "out of memory");
}

/* Bytes = product of the shape x size of the dtype; false when above 2^63. */
static bool shape_bytes(const stw_raw_node *raw, int64_t *out) {
    int64_t bytes = raw->dtype >= 0 ? stw_dtype_bytes(raw->dtype) : 0;
    bool empty = bytes == 0 || raw->rank < 0, overflow = false;
    for (int32_t k = 0; k < raw->rank; k++) {
        empty |= raw->shape[k] == 0;
        overflow |= __builtin_mul_overflow(bytes, raw->shape[k], &bytes);
    }
    *out = empty ? 0 : bytes;
    return empty || !overflow;
}

static stw_status keep_sizes(finish *f, int32_t i) {
    stw_graph *graph = f->graph;
    const int32_t at = f->order[i];
    const stw_raw_node *raw = &f->b->node[at];
    for (int32_t k = 0; k < raw->rank; k++) {
        if (raw->shape[k] >= 0) continue;
        return fail(f->b, at, f->error, "dimension %d of its shape is %lld; dynamic shapes must be fixed first", k,
                    (long long)raw->shape[k]);
    }
    int64_t computed = 0;
    const bool stated = raw->bytes >= 0;
    if (!shape_bytes(raw, &computed) && !stated)
        return fail(f->b, at, f->error, "its shape holds more than 2^63 bytes; check its dimensions");
    graph->bytes[i] = stated ? raw->bytes : computed;
    graph->flops[i] = graph->kind[i] == STW_NODE_OP && raw->flops > 0 ? raw->flops : 0;
    graph->moved[i] = graph->kind[i] == STW_NODE_OP && raw->moved >= 0 ? raw->moved : -1;
    if (graph->kind[i] == STW_NODE_VIEW) return STW_OK;
    if (graph->bytes[i] > STW_GRAPH_MAX_BYTES - f->total_bytes)
        return fail(f->b, at, f->error, "with its %lld bytes the tensors exceed 2^56 bytes in all; check its size",
                    (long long)graph->bytes[i]);
    f->total_bytes += graph->bytes[i];
    return STW_OK;
}

static stw_status keep_kind(finish *f, int32_t i) {
    stw_graph *graph = f->graph;
    const int32_t at = f->order[i];
    const stw_raw_node *raw = &f->b->node[at];
    const int64_t inputs = f->input.start[at + 1] - f->input.start[at];
    const bool source = stw_node_is_source((uint8_t)raw->kind), view = raw->kind == STW_NODE_VIEW;
    const bool waits = f->control.start[at + 1] > f->control.start[at];
    if (source && inputs > 0) return fail(f->b, at, f->error, "a source of data has no inputs");
    if (view && inputs == 0) return fail(f->b, at, f->error, "a view needs an input to be a view of");
    graph->kind[i] = (uint8_t)(view && waits ? STW_NODE_OP : raw->kind);
    const int32_t row = source || raw->op_class >= 0 ? -1 : stw_op_find(f->b->ops, f->b->vocabulary, raw->op);
    int32_t op_class = row >= 0 ? (int32_t)stw_op_table[row].op_class : STW_CLASS_OPAQUE;
    if (!source && raw->op_class >= 0) op_class = raw->op_class;
    graph->op_class[i] = (uint8_t)(view && waits ? STW_CLASS_ALIAS : op_class);
    graph->known[i] = source || row >= 0 || raw->op_class >= 0;
    graph->dtype[i] = (uint8_t)(raw->dtype >= 0 ? raw->dtype : STW_DTYPE_NONE);
    graph->stays[i] = raw->stays;
    graph->apart[i] = op_class == STW_CLASS_CONTROL && raw->apart == NULL ? stw_apart_control : raw->apart;
    if (graph->flow != NULL) graph->flow[i] = raw->flow;
    graph->origin[i] = at;
    graph->at[i] = raw->at;
    graph->op_count += graph->kind[i] == STW_NODE_OP;
    return STW_OK;
}

static stw_status keep_lists(finish *f) {
    stw_graph *graph = f->graph;
    stw_arena *arena = &graph->arena;
    const stw_builder *b = f->b;
    int64_t shape = 0, input = 0, control = 0;
    for (int64_t i = 0; i < b->count; i++) shape += b->node[i].rank > 0 ? b->node[i].rank : 0;
    STW_TRY_NEW(arena, graph->shape, shape, f->error);
    STW_TRY_NEW(arena, graph->input, b->input.node.count, f->error);
    STW_TRY_NEW(arena, graph->control, b->control.node.count, f->error);
    shape = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t at = f->order[i];
        for (int32_t k = 0; k < b->node[at].rank; k++) graph->shape[shape++] = b->node[at].shape[k];
        for (int64_t k = f->input.start[at]; k < f->input.start[at + 1]; k++) graph->input[input++] = f->id[f->input.from[k]];
        const bool waits = graph->kind[i] == STW_NODE_OP;
        for (int64_t k = f->control.start[at]; waits && k < f->control.start[at + 1]; k++)
            graph->control[control++] = f->id[f->control.from[k]];
        graph->shape_start[i + 1] = shape;
        graph->input_start[i + 1] = input;
        graph->control_start[i + 1] = control;
    }
    return STW_OK;
}

/* Between ops alone. */
static stw_status keep_holds(finish *f) {
    stw_graph *graph = f->graph;
    const int64_t most = f->b->hold.node.count;
    if (most == 0) return STW_OK;
    STW_TRY_NEW(&graph->arena, graph->hold_start, (int64_t)graph->N + 1, f->error);
    STW_TRY_NEW(&graph->arena, graph->hold, most, f->error);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t at = f->order[i];
        int64_t next = graph->hold_start[i];
        for (int64_t k = f->hold.start[at]; k < f->hold.start[at + 1]; k++) {
            const int32_t before = f->id[f->hold.from[k]];
            const bool are_ops = graph->kind[i] == STW_NODE_OP && graph->kind[before] == STW_NODE_OP;
            if (are_ops && before != i) graph->hold[next++] = before;
        }
        graph->hold_start[i + 1] = next;
    }
    return STW_OK;
}

/* What stands behind views; inputs come earlier, so their roots are known. */
static stw_status find_roots(finish *f, int32_t **out) {
    const stw_graph *graph = f->graph;
    STW_TRY_NEW(f->b->arena, *out, graph->N, f->error);
    for (int32_t i = 0; i < graph->N; i++) {
        const bool view = graph->kind[i] == STW_NODE_VIEW;
        (*out)[i] = view ? (*out)[graph->input[graph->input_start[i]]] : i;
    }
    return STW_OK;
}

static stw_status keep_places(finish *f) {
    stw_graph *graph = f->graph;
    const stw_builder *b = f->b;
    int32_t *root;
    TRY(find_roots(f, &root));
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t at = f->order[i];
        if (b->colocate[at] >= 0 && b->colocate[at] < b->count) graph->colocate[i] = f->id[b->colocate[at]];
        if (b->updates[at] < 0) continue;
        const int32_t parameter = root[f->id[b->updates[at]]];
        if (graph->kind[i] != STW_NODE_OP || !stw_node_is_resident(graph->kind[parameter]))
            return fail(b, at, f->error, "only an op can write in place, and only a parameter or buffer");
        const int32_t earlier = graph->updated_by[parameter];
        if (earlier >= 0) {
            graph->updates[earlier] = -1;
            if (graph->colocate[earlier] < 0) graph->colocate[earlier] = parameter;
        }
        graph->updated_by[parameter] = i;
        graph->updates[i] = parameter;
    }
    return STW_OK;
}

static stw_status keep_outputs(finish *f) {
    stw_graph *graph = f->graph;
    const stw_vector *output = &f->b->output;
    if (output->count > INT32_MAX) return stw_fail(f->error, STW_ERROR_INPUT, "more than 2^31 - 1 outputs");
    STW_TRY_NEW(&graph->arena, graph->output, output->count, f->error);
    for (int64_t k = 0; k < output->count; k++) {
        if (output->data[k] < 0 || output->data[k] >= f->b->count)
            return stw_fail(f->error, STW_ERROR_INPUT, "output %lld of the graph is not there", (long long)k);
        graph->output[k] = f->id[output->data[k]];
    }
    graph->output_count = (int32_t)output->count;
    return STW_OK;
}

/* ---- insides ---- */

static int compare_kept(const void *left, const void *right) {
    const stw_kept_result *a = left, *b = right;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->result < b->result ? -1 : a->result > b->result;
}

/* Results of ops with several that are outputs, or that nobody reads. */
static stw_status keep_results(finish *f, const int32_t *root) {
    stw_graph *graph = f->graph;
    bool *is_read;
    STW_TRY_NEW(f->b->arena, is_read, graph->N, f->error);
    STW_TRY_NEW(&graph->arena, graph->kept_result, graph->N, f->error);
    for (int64_t k = 0; k < graph->input_start[graph->N]; k++) is_read[graph->input[k]] = true;
    for (int32_t o = 0; o < graph->output_count; o++) is_read[graph->output[o]] = false;
    for (int32_t i = 0; i < graph->N; i++) {
        if (is_read[i] || graph->result_of[i] < 0) continue;
        graph->kept_result[graph->kept_count++] =
            (stw_kept_result){root[i], graph->result_of[i], graph->bytes[graph->first_view[i]]};
    }
    if (graph->kept_count > 1) qsort(graph->kept_result, (size_t)graph->kept_count, sizeof *graph->kept_result, compare_kept);
    return STW_OK;
}

/* The most that 128 ops have, as far as it is known without looking for them. */
static void bound_kernels(stw_graph *graph) {
    enum { MOST_MEMBERS = 128 };
    int64_t units = 0, reads = 0, most_units = 1, most_reads = 1;
    for (int32_t i = 0; i < graph->N; i++) {
        int64_t own = 1, own_reads = graph->input_start[i + 1] - graph->input_start[i];
        if (graph->kind[i] != STW_NODE_OP) continue;
        if (graph->fused_of[i] >= 0) {
            const stw_fused_kernel *fused = &graph->fused[graph->fused_of[i]];
            own = fused->part_count;
            for (int64_t p = 0; p < own; p++) own_reads += graph->part[fused->part_first + p].read_count;
        }
        units += own, reads += own_reads;
        most_units = own > most_units ? own : most_units;
        most_reads = own_reads > most_reads ? own_reads : most_reads;
    }
    graph->kernel_units = units < MOST_MEMBERS * most_units ? units : MOST_MEMBERS * most_units;
    graph->kernel_reads = reads < MOST_MEMBERS * most_reads ? reads : MOST_MEMBERS * most_reads;
}

static stw_status keep_insides(finish *f) {
    stw_graph *graph = f->graph;
    int32_t *root;
    if (f->b->insides != NULL) {
        TRY(stw_insides_give(f->b->insides, graph, f->b->shares_insides, f->error));
        STW_TRY_NEW(&graph->arena, graph->body_of, graph->N, f->error);
        for (int32_t i = 0; i < graph->N; i++) graph->body_of[i] = f->b->node[f->order[i]].body - 1;
    }
    if (graph->flow == NULL) return STW_OK;
    TRY(find_roots(f, &root));
    STW_TRY_NEW(&graph->arena, graph->elements, graph->N, f->error);
    STW_TRY_NEW(&graph->arena, graph->result_of, graph->N, f->error);
    STW_TRY_NEW(&graph->arena, graph->first_view, graph->N, f->error);
    STW_TRY_NEW(&graph->arena, graph->fused_of, graph->N, f->error);
    for (int32_t i = 0; i < graph->N; i++) {
        const stw_raw_node *raw = &f->b->node[f->order[i]];
        const int32_t from = graph->kind[i] == STW_NODE_VIEW ? graph->input[graph->input_start[i]] : i;
        const bool first = from == i || graph->kind[from] != STW_NODE_VIEW;
        graph->first_view[i] = first ? i : graph->first_view[from];
        graph->result_of[i] = first ? raw->result - 1 : graph->result_of[from];
        graph->fused_of[i] = raw->fused - 1;
        graph->elements[i] = stw_graph_elements(graph, i);
    }
    bound_kernels(graph);
    return keep_results(f, root);
}

static stw_status keep_carried(finish *f) {
    stw_graph *graph = f->graph;
    bool carries = false;
    for (int64_t i = 0; i < f->b->count; i++) carries |= f->b->node[i].carried.device.length > 0;
    if (!carries) return STW_OK;
    STW_TRY_NEW(&graph->arena, graph->carried, graph->N, f->error);
    for (int32_t i = 0; i < graph->N; i++) {
        graph->carried[i] = f->b->node[f->order[i]].carried;
        TRY(copy_clean(f, graph->carried[i].device, &graph->carried[i].device));
    }
    return STW_OK;
}

static stw_status keep_times(finish *f) {
    stw_graph *graph = f->graph;
    const stw_builder *b = f->b;
    graph->kind_count = b->kind_count;
    STW_TRY_NEW(&graph->arena, graph->kind_name, b->kind_count, f->error);
    STW_TRY_NEW(&graph->arena, graph->us, b->kind_count, f->error);
    for (int32_t k = 0; k < b->kind_count; k++) {
        TRY(copy_clean(f, b->kind_name[k], &graph->kind_name[k]));
        STW_TRY_NEW(&graph->arena, graph->us[k], graph->N, f->error);
        for (int32_t i = 0; i < graph->N; i++) graph->us[k][i] = NAN;
    }
    for (int64_t m = 0; m < b->measured_count; m++) {
        const measurement *one = &b->measured[m];
        graph->us[one->kind][f->id[one->node]] = one->us;
    }
    return STW_OK;
}

static stw_status fill(finish *f, stw_str name, stw_str family) {
    const stw_builder *b = f->b;
    stw_graph *graph = f->graph;
    TRY(sort_links(b, &b->input, b->arena, &f->input, f->error));
    TRY(sort_links(b, &b->control, b->arena, &f->control, f->error));
    TRY(sort_links(b, &b->hold, b->arena, &f->hold, f->error));
    for (int64_t i = 0; i < b->count; i++) {
        if (b->updates[i] >= b->count) return fail(b, (int32_t)i, f->error, "updates node %d, which is not there", b->updates[i]);
    }
    TRY(find_order(b, &f->input, &f->control, b->arena, &f->order, f->error));
    STW_TRY_NEW(b->arena, f->id, b->count, f->error);
    for (int32_t i = 0; i < (int32_t)b->count; i++) f->id[f->order[i]] = i;
    TRY(stw_graph_allocate(graph, b->count, f->error));
    if (b->keeps_flow) STW_TRY_NEW(&graph->arena, graph->flow, b->count, f->error);
    graph->loss = -1;
    TRY(copy_clean(f, name, &graph->name));
    TRY(copy_clean(f, family, &graph->family));
    for (int32_t i = 0; i < graph->N; i++) {
        TRY(keep_strings(f, i));
        TRY(keep_kind(f, i));
        TRY(keep_sizes(f, i));
    }
    TRY(keep_lists(f));
    TRY(keep_holds(f));
    TRY(keep_places(f));
    TRY(keep_carried(f));
    TRY(keep_outputs(f));
    TRY(keep_insides(f));
    TRY(keep_times(f));
    return stw_graph_finish(graph, f->error);
}

stw_status stw_builder_finish(stw_builder *b, stw_str name, stw_str family, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_arena arena;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_graph *graph = STW_NEW(&arena, stw_graph, 1);
    graph->arena = arena;
    finish f = {.b = b, .graph = graph, .error = error};
    const stw_status status = fill(&f, name, family);
    if (status == STW_OK) {
        *out = graph;
    } else {
        stw_graph_destroy(graph);
    }
    return status;
}
