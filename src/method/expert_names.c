/* Layers by the names of parameters: "enc.3.gates.weight" is of layer "enc.3" with number 3, "emb.weight" of layer "emb". */
#include "method/expert_layers.h"

/* The next component of a dotted name from `at` on. */
static stw_str component(stw_str name, int64_t at) {
    int64_t end = at;
    while (end < name.length && name.p[end] != '.') end++;
    return (stw_str){name.p + at, end - at};
}

static bool to_number(stw_str word, int32_t *out) {
    int64_t value = 0;
    for (int64_t k = 0; k < word.length; k++) {
        if (word.p[k] < '0' || word.p[k] > '9') return false;
        value = 10 * value + (word.p[k] - '0');
        if (value > INT32_MAX) return false;
    }
    *out = (int32_t)value;
    return word.length > 0;
}

/* Up to the first component that is a number, that included; else the first component. */
static stw_str layer_name(stw_str label, int32_t *number) {
    *number = -1;
    for (int64_t at = 0; at < label.length;) {
        const stw_str word = component(label, at);
        if (to_number(word, number)) return (stw_str){label.p, at + word.length};
        at += word.length + 1;
    }
    return component(label, 0);
}

typedef struct { /* names seen so far: a hash table with open addressing */
    int64_t mask;
    int32_t *layer; /* (mask + 1) layer + 1, or 0: free */
    stw_str *name;  /* (mask + 1) */
} name_table;

/* The layer of this name, which gets the next number if it is new. */
static int32_t find_layer(stw_layers *l, name_table *table, stw_str label) {
    int32_t number;
    const stw_str name = layer_name(label, &number);
    int64_t k = (int64_t)(stw_str_hash(name) & (uint64_t)table->mask);
    for (; table->layer[k] != 0; k = (k + 1) & table->mask) {
        if (stw_str_equal(table->name[k], name)) return table->layer[k] - 1;
    }
    table->name[k] = name;
    l->number[l->count] = number;
    table->layer[k] = ++l->count;
    return l->count - 1;
}

static void name_forward_ops(stw_layers *l, name_table *table) {
    const stw_graph *graph = l->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        int32_t own = -1, inherited = -1;
        for (int64_t r = graph->read_start[op]; l->forward[op] && r < graph->read_start[op + 1]; r++) {
            const int32_t value = graph->read[r].node;
            if (stw_node_is_resident(graph->kind[value]) && graph->label[value].length > 0) {
                const int32_t layer = find_layer(l, table, graph->label[value]);
                if (layer > own) own = layer;
            } else if (l->forward[value] && l->layer[value] > inherited) {
                inherited = l->layer[value];
            }
        }
        l->layer[op] = own >= 0 ? own : inherited;
    }
}

/* What depends on no layer goes with the first one that needs it. */
static void name_beginnings(stw_layers *l) {
    const stw_graph *graph = l->graph;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k];
        if (!l->forward[op] || l->layer[op] >= 0) continue;
        for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
            const int32_t layer = l->layer[graph->reader[r].node];
            if (layer >= 0 && (l->layer[op] < 0 || layer < l->layer[op])) l->layer[op] = layer;
        }
        if (l->layer[op] < 0) l->layer[op] = 0;
    }
}

static void complete_numbers(stw_layers *l) {
    int32_t before = -1;
    for (int32_t k = 0; k < l->count && before < 0; k++) before = l->number[k];
    if (before < 0) before = 0;
    for (int32_t k = 0; k < l->count; k++) before = l->number[k] = l->number[k] < 0 ? before : l->number[k];
}

stw_status stw_layers_name(stw_layers *layers, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = layers->graph;
    int64_t labels = 0;
    name_table table = {.mask = 63};
    for (int32_t i = 0; i < graph->N; i++) labels += stw_node_is_resident(graph->kind[i]);
    while (table.mask < 2 * labels) table.mask = 2 * table.mask + 1;
    STW_TRY_NEW(arena, layers->layer, graph->N, error);
    STW_TRY_NEW(arena, layers->number, labels, error);
    stw_arena scratch = *arena;
    STW_TRY_NEW(&scratch, table.layer, table.mask + 1, error);
    STW_TRY_NEW(&scratch, table.name, table.mask + 1, error);
    for (int32_t i = 0; i < graph->N; i++) layers->layer[i] = -1;
    name_forward_ops(layers, &table);
    name_beginnings(layers);
    complete_numbers(layers);
    return STW_OK;
}
