/* Collects the nodes of a model file, sorts them and makes the graph; see builder.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/str.h"
#include "base/vector.h"
#include "import/builder.h"

typedef struct link_list { /* (node, from) pairs as they were added */
    stw_vector node, from;
} link_list;

typedef struct links { /* the same by node, in the order of adding */
    int64_t *start;    /* (count + 1) into from */
    int32_t *from;
} links;

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
    char text[300], place[STW_POSITION_SIZE] = "", op[100] = "";
    const stw_raw_node *raw = &b->node[node];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (raw->at >= 0) stw_show_position(b->text, raw->at, place);
    /* What has no operator stands in no list of nodes: a parameter, an input. */
    if (raw->op.length == 0 && stw_node_is_source((uint8_t)raw->kind))
        return stw_fail(error, STW_ERROR_INPUT, "%s%s%s '%.*s': %s", place, place[0] != '\0' ? ": " : "",
                        stw_node_kind_name((uint8_t)raw->kind), STW_STR_SHOW(raw->name), text);
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

/* ---- order ---- */

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

/* What each node needs: inputs, then what it waits for, then what it updates. */
static stw_status list_needs(const stw_builder *b, const links *input, const links *control, links *out, stw_error *error) {
    STW_TRY_NEW(b->arena, out->start, b->count + 1, error);
    STW_TRY_NEW(b->arena, out->from, input->start[b->count] + control->start[b->count] + b->count, error);
    int64_t next = 0;
    for (int64_t i = 0; i < b->count; i++) {
        for (int64_t k = input->start[i]; k < input->start[i + 1]; k++) out->from[next++] = input->from[k];
        for (int64_t k = control->start[i]; k < control->start[i + 1]; k++) out->from[next++] = control->from[k];
        if (b->updates[i] >= 0) out->from[next++] = b->updates[i];
        out->start[i + 1] = next;
    }
    return STW_OK;
}

static stw_status find_order(const stw_builder *b, const links *input, const links *control, int32_t **out, stw_error *error) {
    links need;
    int32_t stuck;
    STW_TRY_NEW(b->arena, *out, b->count, error);
    TRY(list_needs(b, input, control, &need, error));
    TRY(stw_inputs_first((int32_t)b->count, need.start, need.from, *b->arena, *out, &stuck, error));
    if (stuck < 0) return STW_OK;
    return fail(b, stuck, error, "depends on itself: its inputs close a cycle; remove one of them%s",
                b->vocabulary == STW_TENSORFLOW ? ", or close the loop with NextIteration into Merge" : "");
}

/* ---- the graph ---- */

/* Makes the graph of what the builder has collected. */

typedef struct {
    const stw_builder *b;
    stw_graph *graph;
    stw_constructor constructor;
    links input, control, hold;
    int32_t *order; /* (N) node of the builder, by id */
    int32_t *id;    /* (N) the other way round */
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

/* Strings as the graph keeps them: none without an operator or a name. */
static stw_status copy_strings(finish *f, int32_t at, stw_raw_node *raw) {
    if (raw->op.length == 0) {
        const bool source = stw_node_is_source((uint8_t)raw->kind);
        raw->op = stw_str_of(stw_node_kind_name((uint8_t)(source ? raw->kind : STW_NODE_OP)));
    }
    TRY(copy_clean(f, raw->op, &raw->op));
    TRY(copy_clean(f, raw->label, &raw->label));
    TRY(copy_clean(f, raw->attributes, &raw->attributes));
    if (raw->name.length > 0) return copy_clean(f, raw->name, &raw->name);
    raw->name = stw_str_format(&f->graph->arena, "%.*s_%d", (int)(raw->op.length < 4000 ? raw->op.length : 4000), raw->op.p, at);
    return raw->name.p != NULL ? STW_OK : stw_fail(f->error, STW_ERROR_MEMORY, "out of memory");
}

static stw_status list_ids(const finish *f, const links *from, int32_t at, stw_vector *out) {
    out->count = 0;
    for (int64_t k = from->start[at]; k < from->start[at + 1]; k++) {
        if (!stw_vector_push(out, f->id[from->from[k]])) return stw_fail(f->error, STW_ERROR_MEMORY, "out of memory");
    }
    return STW_OK;
}

static stw_status put_node(finish *f, int32_t i, stw_vector *input, stw_vector *control) {
    const stw_builder *b = f->b;
    const int32_t at = f->order[i], with = b->colocate[at];
    stw_raw_node raw = b->node[at];
    if (raw.op_class < 0) {
        const int32_t row = stw_op_find(b->ops, b->vocabulary, raw.op);
        raw.op_class = row >= 0 ? (int32_t)stw_op_table[row].op_class : STW_UNKNOWN;
    }
    TRY(copy_strings(f, at, &raw));
    TRY(list_ids(f, &f->input, at, input));
    TRY(list_ids(f, &f->control, at, control));
    if (raw.kind != STW_NODE_OP && (raw.kind != STW_NODE_VIEW || control->count == 0)) raw.flops = raw.moved = STW_UNKNOWN;
    const stw_raw_links hung = {.input = input->data,
                                .control = control->data,
                                .input_count = input->count,
                                .control_count = control->count,
                                .updates = b->updates[at] >= 0 ? f->id[b->updates[at]] : -1,
                                .colocate = with >= 0 && with < b->count ? f->id[with] : -1};
    stw_error why;
    const stw_status status = stw_construct_node(&f->constructor, &raw, &hung, &why);
    if (status == STW_ERROR_INPUT) return fail(b, at, f->error, "%s", why.message);
    if (status != STW_OK) return stw_fail(f->error, status, "%s", why.message);
    f->graph->origin[i] = at;
    if (f->graph->flow != NULL) f->graph->flow[i] = raw.flow;
    return STW_OK;
}

static stw_status put_nodes(finish *f) {
    stw_vector input = {.arena = f->b->arena}, control = input;
    for (int32_t i = 0; i < f->graph->N; i++) TRY(put_node(f, i, &input, &control));
    return STW_OK;
}

/* Between ops alone. */
static stw_status keep_holds(finish *f) {
    stw_graph *graph = f->graph;
    const int64_t most = f->b->hold.node.count;
    if (most == 0) return STW_OK;
    TRY(stw_graph_check_links(most, "reads of what is written over", f->error));
    STW_TRY_NEW(&graph->arena, graph->hold_start, (int64_t)graph->N + 1, f->error);
    STW_TRY_NEW(&graph->arena, graph->hold, most, f->error);
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t at = f->order[i];
        int32_t next = graph->hold_start[i];
        for (int64_t k = f->hold.start[at]; k < f->hold.start[at + 1]; k++) {
            const int32_t before = f->id[f->hold.from[k]];
            const bool are_ops = graph->kind[i] == STW_NODE_OP && graph->kind[before] == STW_NODE_OP;
            if (are_ops && before != i) graph->hold[next++] = before;
        }
        graph->hold_start[i + 1] = next;
    }
    return STW_OK;
}

static stw_status list_outputs(const finish *f, stw_vector *out) {
    const stw_vector *output = &f->b->output;
    for (int64_t k = 0; k < output->count; k++) {
        if (output->data[k] < 0 || output->data[k] >= f->b->count)
            return stw_fail(f->error, STW_ERROR_INPUT, "output %lld of the graph is not there", (long long)k);
        if (!stw_vector_push(out, f->id[output->data[k]])) return stw_fail(f->error, STW_ERROR_MEMORY, "out of memory");
    }
    return STW_OK;
}

/* ---- insides ---- */

static int compare_kept(const void *left, const void *right) {
    const stw_kept_result *a = left, *b = right;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->result < b->result ? -1 : a->result > b->result;
}

/* Results of ops with several that are outputs, or that nobody reads. */
static stw_status keep_results(finish *f) {
    stw_graph *graph = f->graph;
    bool *is_read;
    STW_TRY_NEW(f->b->arena, is_read, graph->N, f->error);
    STW_TRY_NEW(&graph->arena, graph->kept_result, graph->N, f->error);
    for (int64_t k = 0; k < graph->input_start[graph->N]; k++) is_read[graph->input[k]] = true;
    for (int32_t o = 0; o < graph->output_count; o++) is_read[graph->output[o]] = false;
    for (int32_t i = 0; i < graph->N; i++) {
        if (is_read[i] || graph->result_of[i] < 0) continue;
        graph->kept_result[graph->kept_count++] =
            (stw_kept_result){graph->root[i], graph->result_of[i], graph->bytes[graph->first_view[i]]};
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
    if (f->b->insides != NULL) {
        TRY(stw_insides_give(f->b->insides, graph, f->b->shares_insides, f->error));
        STW_TRY_NEW(&graph->arena, graph->body_of, graph->N, f->error);
        for (int32_t i = 0; i < graph->N; i++) graph->body_of[i] = f->b->node[f->order[i]].body - 1;
    }
    if (graph->flow == NULL) return STW_OK;
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
    return keep_results(f);
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

static stw_status fill(finish *f, stw_str name, stw_str family) {
    const stw_builder *b = f->b;
    stw_graph *graph = f->graph;
    TRY(sort_links(b, &b->input, b->arena, &f->input, f->error));
    TRY(sort_links(b, &b->control, b->arena, &f->control, f->error));
    TRY(sort_links(b, &b->hold, b->arena, &f->hold, f->error));
    for (int64_t i = 0; i < b->count; i++) {
        if (b->updates[i] >= b->count) return fail(b, (int32_t)i, f->error, "updates node %d, which is not there", b->updates[i]);
    }
    TRY(find_order(b, &f->input, &f->control, &f->order, f->error));
    STW_TRY_NEW(b->arena, f->id, b->count, f->error);
    for (int32_t i = 0; i < (int32_t)b->count; i++) f->id[f->order[i]] = i;
    TRY(stw_construct_begin(&f->constructor, graph, b->count, b->arena, f->error));
    f->constructor.remedy = "; check its dimensions";
    STW_TRY_NEW(&graph->arena, graph->origin, b->count, f->error);
    if (b->keeps_flow) STW_TRY_NEW(&graph->arena, graph->flow, b->count, f->error);
    TRY(copy_clean(f, name, &graph->name));
    TRY(copy_clean(f, family, &graph->family));
    TRY(put_nodes(f));
    TRY(keep_holds(f));
    TRY(keep_carried(f));
    stw_vector output = {.arena = b->arena};
    TRY(list_outputs(f, &output));
    TRY(stw_construct_finish(&f->constructor, output.data, output.count, f->error));
    return keep_insides(f);
}

stw_status stw_builder_finish(stw_builder *b, stw_str name, stw_str family, stw_graph **out, stw_error *error) {
    TRY(stw_graph_create(out, error));
    finish f = {.b = b, .graph = *out, .error = error};
    const stw_status status = fill(&f, name, family);
    if (status == STW_OK) return STW_OK;
    stw_graph_destroy(*out);
    *out = NULL;
    return status;
}
