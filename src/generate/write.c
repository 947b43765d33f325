/* A step as opgraph JSON (docs/formats/opgraph.md): sources first, as traces have them, then the ops in order. */
#include <string.h>

#include "base/json.h"
#include "generate/step_parts.h"

enum { MAX_OPERATORS = 256 };

typedef struct { /* how often each operator was named so far: "mm", "mm_1", ... */
    const stw_step_op *op[MAX_OPERATORS];
    int32_t number[MAX_OPERATORS]; /* index into used: operators may share a name */
    int64_t used[MAX_OPERATORS];
    int32_t count;
} names;

typedef struct {
    const stw_step *step;
    int32_t *id; /* (count) in the file */
    stw_json_writer json;
    names names;
    int64_t kind_used[STW_NODE_CONSTANT + 1];
} writer;

static int64_t next_number(names *n, const stw_step_op *op) {
    int32_t k = 0;
    while (k < n->count && n->op[k] != op) k++;
    if (k == n->count && k < MAX_OPERATORS) {
        n->op[n->count] = op;
        n->number[n->count++] = k;
        for (int32_t other = 0; other < k && n->number[k] == k; other++) {
            if (strcmp(n->op[other]->name, op->name) == 0) n->number[k] = n->number[other];
        }
    }
    return n->used[n->number[k < MAX_OPERATORS ? k : 0]]++;
}

static stw_str name_of(writer *w, const stw_step_node *node, char *text, size_t size) {
    static const char letter[] = {
        [STW_NODE_PARAMETER] = 'p', [STW_NODE_BUFFER] = 'b', [STW_NODE_INPUT] = 'x', [STW_NODE_CONSTANT] = 'c'};
    if (node->op == NULL) {
        snprintf(text, size, "%c_%lld", letter[node->kind], (long long)++w->kind_used[node->kind]);
    } else {
        const int64_t number = next_number(&w->names, node->op);
        if (number == 0) {
            snprintf(text, size, "%s", node->op->name);
        } else {
            snprintf(text, size, "%s_%lld", node->op->name, (long long)number);
        }
    }
    return stw_str_of(text);
}

static const char *operator_of(const stw_step_node *node) {
    return node->op != NULL ? node->op->name : stw_node_kind_name((uint8_t)node->kind);
}

static void write_node(writer *w, stw_tensor tensor) {
    const stw_step_node *node = stw_step_at(w->step, tensor);
    stw_json_writer *json = &w->json;
    char text[100];
    stw_json_newline(json);
    stw_json_begin_object(json);
    stw_json_field_int64(json, "id", w->id[tensor]);
    stw_json_field_string(json, "name", name_of(w, node, text, sizeof text));
    stw_json_field_string(json, "op", stw_str_of(operator_of(node)));
    if (node->label != NULL) stw_json_field_string(json, "label", stw_str_of(node->label));
    stw_json_write_key(json, "inputs");
    stw_json_begin_array(json);
    for (int32_t k = 0; k < node->input_count; k++) stw_json_write_int64(json, w->id[node->input[k]]);
    stw_json_end_array(json);
    stw_json_field_string(json, "dtype", stw_str_of(stw_dtype_name(node->dtype)));
    stw_json_write_key(json, "shape");
    stw_json_begin_array(json);
    for (int32_t k = 0; k < node->rank; k++) stw_json_write_int64(json, node->shape[k]);
    stw_json_end_array(json);
    stw_json_field_int64(json, "bytes", node->bytes);
    if (node->kind == STW_NODE_OP) stw_json_field_int64(json, "flops", node->flops);
    if (node->kind == STW_NODE_VIEW) {
        stw_json_field_bool(json, "view", true);
    }
    if (node->updates >= 0) stw_json_field_int64(json, "updates", w->id[node->updates]);
    stw_json_end_object(json);
}

/* The order of the file: parameters, buffers, inputs, everything else. */
static int32_t rank_of(const stw_step_node *node) {
    switch (node->kind) {
        case STW_NODE_PARAMETER: return 0;
        case STW_NODE_BUFFER: return 1;
        case STW_NODE_INPUT:
        case STW_NODE_CONSTANT: return 2;
        default: return 3;
    }
}

static void write_outputs(writer *w) {
    stw_json_write_key(&w->json, "outputs");
    stw_json_begin_array(&w->json);
    stw_json_write_int64(&w->json, w->id[w->step->loss]);
    for (stw_tensor i = 0; i < w->step->count; i++) {
        if (stw_step_at(w->step, i)->updates >= 0) stw_json_write_int64(&w->json, w->id[i]);
    }
    stw_json_end_array(&w->json);
}

stw_status stw_step_write(const stw_step *step, stw_str name, stw_str family, FILE *file, stw_error *error) {
    stw_arena scratch = *step->arena;
    writer w = {.step = step};
    STW_TRY_NEW(&scratch, w.id, step->count, error);
    int32_t next = 0;
    for (int32_t rank = 0; rank < 4; rank++) {
        for (stw_tensor i = 0; i < step->count; i++) {
            if (rank_of(stw_step_at(step, i)) == rank) w.id[i] = next++;
        }
    }
    stw_json_writer_init(&w.json, file);
    stw_json_begin_object(&w.json);
    stw_json_field_string(&w.json, "format", STW_STR("opgraph"));
    stw_json_field_int64(&w.json, "version", 1);
    stw_json_field_string(&w.json, "name", name);
    stw_json_field_string(&w.json, "family", family);
    stw_json_field_int64(&w.json, "loss", w.id[step->loss]);
    write_outputs(&w);
    stw_json_write_key(&w.json, "nodes");
    stw_json_begin_array(&w.json);
    for (int32_t rank = 0; rank < 4; rank++) {
        for (stw_tensor i = 0; i < step->count; i++) {
            if (rank_of(stw_step_at(step, i)) == rank) write_node(&w, i);
        }
    }
    stw_json_end_array(&w.json);
    stw_json_end_object(&w.json);
    fputc('\n', file);
    return STW_OK;
}
