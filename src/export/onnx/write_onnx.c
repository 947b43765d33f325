/* The planned order of the nodes, and the file: lengths first, then the bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "export/onnx/planned_onnx.h"

/* ---- the order, and what is written at each node ---- */

/* The order of the nodes in the file, and what the plan says of each. */

typedef struct {
    int32_t rank, node;
} ranked;

static int compare_ranked(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1) : a->node - b->node;
}

/* When the node's task begins among all; -1 for what has none: views, stored tensors, what was worked out while reading. */
static int32_t rank_of(const stw_onnx_output *x, int32_t k) {
    const int32_t i = x->id[k];
    return i >= 0 && x->e->graph->kind[i] == STW_NODE_OP ? x->e->rank[i] : -1;
}

enum { UNSEEN, BEGUN, DONE };

typedef struct {
    uint8_t *state;  /* (n) */
    int64_t *cursor; /* (n) into need */
    int32_t *stack;  /* (n) */
    int32_t done;
} walk;

/* The node, and before it whatever it needs that is not there yet. */
static stw_status place(stw_onnx_output *x, walk *w, int32_t first, stw_error *error) {
    int32_t depth = 0;
    if (w->state[first] == UNSEEN) w->stack[depth++] = first;
    while (depth > 0) {
        const int32_t k = w->stack[depth - 1];
        if (w->state[k] == UNSEEN) w->cursor[k] = x->need_start[k];
        w->state[k] = BEGUN;
        if (w->cursor[k] == x->need_start[k + 1]) {
            w->state[k] = DONE;
            x->order[w->done++] = k;
            depth--;
            continue;
        }
        const int32_t need = x->need[w->cursor[k]++];
        if (w->state[need] == BEGUN)
            return stw_fail(error, STW_ERROR_INPUT, "byte %lld: node '%.*s' (%.*s) depends on itself: its inputs close a cycle",
                            (long long)x->graph.node[need].at, STW_STR_SHOW(x->graph.node[need].name),
                            STW_STR_SHOW(x->graph.node[need].op));
        if (w->state[need] == UNSEEN) w->stack[depth++] = need;
    }
    return STW_OK;
}

stw_status stw_onnx_order(stw_onnx_output *x, stw_error *error) {
    const int32_t n = x->graph.node_count;
    stw_arena scratch = x->reader.scratch;
    walk w = {0};
    ranked *tasks;
    int32_t count = 0;
    STW_TRY_NEW(x->e->arena, x->order, n, error);
    STW_TRY_NEW(&scratch, tasks, n, error);
    STW_TRY_NEW(&scratch, w.state, n, error);
    STW_TRY_NEW(&scratch, w.cursor, n, error);
    STW_TRY_NEW(&scratch, w.stack, n, error);
    for (int32_t k = 0; k < n; k++) {
        if (rank_of(x, k) >= 0) tasks[count++] = (ranked){rank_of(x, k), k};
    }
    if (count > 1) qsort(tasks, (size_t)count, sizeof *tasks, compare_ranked);
    for (int32_t t = 0; t < count; t++) TRY(place(x, &w, tasks[t].node, error));
    for (int32_t k = 0; k < n; k++) TRY(place(x, &w, k, error)); /* what no task needs */
    return STW_OK;
}

/* ---- decisions ---- */

/* A view is where its root is; of a stored tensor the plan knows the device; the rest is as `otherwise`: with its first reader.
 */
static void decide_node(const stw_onnx_output *x, int32_t k, stw_onnx_decision otherwise, stw_onnx_decision *out) {
    const stw_graph *graph = x->e->graph;
    const int32_t root = x->id[k] >= 0 ? graph->root[x->id[k]] : -1;
    *out = otherwise;
    if (root < 0) return;
    if (graph->kind[root] == STW_NODE_OP) {
        const int32_t task = x->e->timeline->tasks->task_of[root];
        *out = (stw_onnx_decision){.device = x->e->plan->device[root],
                                   .priority = x->e->plan->priority[root],
                                   .task = task >= 0 ? task : STW_ONNX_RECOMPUTED};
    } else if (stw_node_is_resident(graph->kind[root])) {
        out->device = x->e->plan->device[root];
        out->task = STW_ONNX_ALONE;
    }
}

static stw_status number_groups(stw_onnx_output *x, stw_error *error) {
    stw_arena scratch = x->reader.scratch;
    const int32_t tasks = x->e->timeline->tasks->T;
    int64_t *number, next = 0;
    STW_TRY_NEW(&scratch, number, tasks, error);
    for (int32_t t = 0; t < tasks; t++) number[t] = -1;
    for (int32_t p = 0; p < x->graph.node_count; p++) {
        stw_onnx_decision *d = &x->decision[x->order[p]];
        if (d->task >= 0 && number[d->task] < 0) number[d->task] = next++;
        d->group = d->task == STW_ONNX_RECOMPUTED ? -1 : d->task == STW_ONNX_ALONE ? next++ : number[d->task];
    }
    return STW_OK;
}

stw_status stw_onnx_decide(stw_onnx_output *x, stw_error *error) {
    const int32_t n = x->graph.node_count;
    stw_arena scratch = x->reader.scratch;
    int32_t *first_reader;
    STW_TRY_NEW(x->e->arena, x->decision, n, error);
    STW_TRY_NEW(&scratch, first_reader, n, error);
    for (int32_t k = 0; k < n; k++) first_reader[k] = -1;
    for (int32_t p = n - 1; p >= 0; p--) { /* readers stand behind */
        const int32_t k = x->order[p], reader = first_reader[k];
        const stw_onnx_decision nobody = {.task = STW_ONNX_ALONE};
        decide_node(x, k, reader >= 0 ? x->decision[reader] : nobody, &x->decision[k]);
        for (int64_t u = x->need_start[k]; u < x->need_start[k + 1]; u++) first_reader[x->need[u]] = k;
    }
    return number_groups(x, error);
}

/* ---- the bytes ---- */

/* The bytes of the new model: the old ones with nodes in another order, our fields behind each node's own, and ours in the model.
 * A message begins with its length, so lengths are worked out first; nothing but our own fields is ever copied. */

typedef struct {
    stw_onnx_output *x;
    int64_t *node_length; /* (n) of the new NodeProto */
    FILE *file;           /* NULL: only the length is wanted */
    int64_t length;
} sink;

static void put(sink *s, stw_str bytes) {
    s->length += bytes.length;
    if (s->file != NULL && bytes.length > 0) fwrite(bytes.p, 1, (size_t)bytes.length, s->file);
}

static void put_varint(sink *s, uint64_t value) {
    char text[10];
    int64_t length = 0;
    for (; value >= 0x80; value >>= 7) text[length++] = (char)(0x80 | (value & 0x7f));
    text[length++] = (char)value;
    put(s, (stw_str){text, length});
}

static void put_message_head(sink *s, int64_t number, int64_t length) {
    put_varint(s, (uint64_t)number << 3 | STW_PB_BYTES);
    put_varint(s, (uint64_t)length);
}

/* ---- our own fields ---- */

static void write_entry(stw_pb_writer *w, const char *key, stw_str value) {
    const int64_t begun = stw_pb_begin(w, STW_ONNX_NODE_METADATA);
    stw_pb_write_string(w, 1, stw_str_of(key));
    stw_pb_write_string(w, 2, value);
    stw_pb_end(w, begun);
}

static void write_formatted(stw_pb_writer *w, const char *key, const char *prefix, int64_t number) {
    char text[40];
    const int length = snprintf(text, sizeof text, "%s%lld", prefix, (long long)number);
    write_entry(w, key, (stw_str){text, length});
}

static void write_metadata(stw_pb_writer *w, const stw_onnx_output *x, const stw_onnx_decision *d) {
    char text[32];
    write_formatted(w, "layer_ann", STW_ONNX_TAG, d->device);
    write_entry(w, "stowage.device", x->e->machine->device[d->device].name);
    const int length = stw_format_double(text, d->priority + 0.0); /* not -0 */
    write_entry(w, "stowage.priority", (stw_str){text, length});
    write_formatted(w, "stowage.group", "", d->group);
}

/* Every output lies on the node's device, whole. */
static void write_device(stw_pb_writer *w, const stw_onnx_node *node, int32_t device) {
    const int64_t begun = stw_pb_begin(w, STW_ONNX_NODE_CONFIGURATION), number = device;
    stw_pb_write_string(w, 1, STW_STR(STW_ONNX_CONFIGURATION));
    for (int32_t k = 0; k < node->output_count; k++) {
        if (node->output[k] == NULL) continue;
        const int64_t sharding = stw_pb_begin(w, 2);
        stw_pb_write_string(w, 1, node->output[k]->name);
        stw_pb_write_ints(w, 2, &number, 1);
        stw_pb_end(w, sharding);
    }
    stw_pb_write_int(w, 3, device);
    stw_pb_end(w, begun);
}

static stw_status put_plan(sink *s, int32_t k, stw_arena scratch, stw_error *error) {
    stw_pb_writer w = {.arena = &scratch};
    stw_str bytes;
    const stw_onnx_decision *d = &s->x->decision[k];
    write_metadata(&w, s->x, d);
    if (s->x->ir_written >= STW_ONNX_CONFIGURATION_IR) write_device(&w, &s->x->graph.node[k], d->device);
    TRY(stw_pb_written(&w, &bytes, error));
    put(s, bytes);
    return STW_OK;
}

static stw_status put_devices(sink *s, stw_arena scratch, stw_error *error) {
    const stw_machine *machine = s->x->e->machine;
    stw_pb_writer w = {.arena = &scratch};
    stw_str bytes;
    if (s->x->ir_written < STW_ONNX_CONFIGURATION_IR) return STW_OK;
    const int64_t begun = stw_pb_begin(&w, STW_ONNX_MODEL_CONFIGURATION);
    stw_pb_write_string(&w, 1, STW_STR(STW_ONNX_CONFIGURATION));
    stw_pb_write_int(&w, 2, machine->device_count);
    for (int32_t d = 0; d < machine->device_count; d++) stw_pb_write_string(&w, 3, machine->device[d].name);
    stw_pb_end(&w, begun);
    TRY(stw_pb_written(&w, &bytes, error));
    put(s, bytes);
    return STW_OK;
}

/* ---- fields of an earlier export, which are left out ---- */

/* Field 1 of the message in `f`, where all three kinds of message have their name; empty if there is none. */
static stw_str name_in(stw_pb *m, const stw_pb_field *f) {
    stw_pb inner;
    stw_str text = {0};
    if (!stw_pb_enter(m, f, &inner)) return text;
    for (stw_pb_field g; stw_pb_next(&inner, &g);) {
        if (g.number == 1) stw_pb_string(&inner, &g, &text);
    }
    return text;
}

static bool is_ours_in_node(stw_pb *node, const stw_pb_field *f) {
    static const char *const keys[] = {"layer_ann", "stowage.device", "stowage.priority", "stowage.group"};
    if (f->number == STW_ONNX_NODE_CONFIGURATION) return stw_str_is(name_in(node, f), STW_ONNX_CONFIGURATION);
    if (f->number != STW_ONNX_NODE_METADATA) return false;
    const stw_str key = name_in(node, f);
    for (int k = 0; k < 4; k++) {
        if (stw_str_is(key, keys[k])) return true;
    }
    return false;
}

/* ---- the old bytes ---- */

static stw_str from_to(const char *from, const char *to) { return (stw_str){from, (int64_t)(to - from)}; }

static stw_status put_node(sink *s, int32_t k, stw_error *error) {
    const stw_onnx_node *node = &s->x->graph.node[k];
    stw_pb m = stw_pb_range(&s->x->reader.file, node->bytes, node->depth);
    const char *kept = m.cursor; /* from here on nothing was left out */
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (!is_ours_in_node(&m, &f)) continue;
        put(s, from_to(kept, f.at));
        kept = m.cursor;
    }
    put(s, from_to(kept, m.cursor));
    if (s->x->reader.file.failed) return STW_ERROR_INPUT;
    return put_plan(s, k, s->x->reader.scratch, error);
}

/* Where a node stood, the next one in planned order stands. */
static stw_status put_graph(sink *s, stw_error *error) {
    stw_pb m = stw_pb_range(&s->x->reader.file, s->x->model_graph, 1);
    int32_t at = 0;
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number != STW_ONNX_GRAPH_NODE) {
            put(s, from_to(f.at, m.cursor));
            continue;
        }
        const int32_t k = s->x->order[at++];
        put_message_head(s, STW_ONNX_GRAPH_NODE, s->node_length[k]);
        if (s->file == NULL) {
            s->length += s->node_length[k];
        } else {
            TRY(put_node(s, k, error));
        }
    }
    return STW_OK;
}

static stw_status put_model(sink *s, int64_t graph_length, stw_error *error) {
    stw_pb m = stw_pb_message(&s->x->reader.file);
    for (stw_pb_field f; stw_pb_next(&m, &f);) {
        if (f.number == STW_ONNX_MODEL_IR_VERSION && s->x->ir_written != s->x->ir_version) {
            put_varint(s, STW_ONNX_MODEL_IR_VERSION << 3 | STW_PB_VARINT);
            put_varint(s, (uint64_t)s->x->ir_written);
        } else if (f.number == STW_ONNX_MODEL_GRAPH) {
            put_message_head(s, STW_ONNX_MODEL_GRAPH, graph_length);
            TRY(put_graph(s, error));
        } else if (f.number != STW_ONNX_MODEL_CONFIGURATION || !stw_str_is(name_in(&m, &f), STW_ONNX_CONFIGURATION)) {
            put(s, from_to(f.at, m.cursor));
        }
    }
    if (s->x->reader.file.failed) return STW_ERROR_INPUT;
    return put_devices(s, s->x->reader.scratch, error);
}

stw_status stw_onnx_write(stw_onnx_output *x, stw_error *error) {
    sink measure = {.x = x};
    STW_TRY_NEW(x->e->arena, measure.node_length, x->graph.node_count, error);
    for (int32_t k = 0; k < x->graph.node_count; k++) {
        measure.length = 0;
        TRY(put_node(&measure, k, error));
        measure.node_length[k] = measure.length;
    }
    measure.length = 0;
    TRY(put_graph(&measure, error));
    sink out = {.x = x, .node_length = measure.node_length, .file = x->e->out};
    return put_model(&out, measure.length, error);
}
