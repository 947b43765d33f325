#include "method/expert/model_layers.h"

#include "base/index.h"

/* ---- layers by the names of parameters ---- */

/* Layers by the names of parameters: "enc.3.gates.weight" is of layer "enc.3" with number 3, "emb.weight" of layer "emb". */

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

/* The layer of this name, which gets the next number if it is new. */
static stw_status find_layer(stw_layers *l, stw_names *names, stw_str label, int32_t *out, stw_error *error) {
    int32_t number, *layer;
    const stw_str name = layer_name(label, &number);
    TRY(stw_names_enter(names, 0, name, &layer, error));
    if (*layer < 0) {
        *layer = l->count++;
        l->number[*layer] = number;
    }
    *out = *layer;
    return STW_OK;
}

static stw_status name_forward_ops(stw_layers *l, stw_names *names, stw_error *error) {
    const stw_graph *graph = l->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        int32_t own = -1, inherited = -1;
        for (int64_t r = graph->read_start[op]; l->forward[op] && r < graph->read_start[op + 1]; r++) {
            const int32_t value = graph->read[r].node;
            if (stw_node_is_resident(graph->kind[value]) && graph->label[value].length > 0) {
                int32_t layer;
                TRY(find_layer(l, names, graph->label[value], &layer, error));
                if (layer > own) own = layer;
            } else if (l->forward[value] && l->layer[value] > inherited) {
                inherited = l->layer[value];
            }
        }
        l->layer[op] = own >= 0 ? own : inherited;
    }
    return STW_OK;
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

static stw_status name_layers(stw_layers *layers, stw_arena *arena, stw_error *error) {
    const stw_graph *graph = layers->graph;
    int64_t labels = 0;
    stw_names names;
    for (int32_t i = 0; i < graph->N; i++) labels += stw_node_is_resident(graph->kind[i]);
    STW_TRY_NEW(arena, layers->layer, graph->N, error);
    STW_TRY_NEW(arena, layers->number, labels, error);
    stw_arena scratch = *arena;
    TRY(stw_names_create(&scratch, labels, &names, error));
    for (int32_t i = 0; i < graph->N; i++) layers->layer[i] = -1;
    TRY(name_forward_ops(layers, &names, error));
    name_beginnings(layers);
    complete_numbers(layers);
    return STW_OK;
}

/* ---- the graph as a person sees it ---- */

/* ---- forward ops, owners ---- */

static void mark_forward(stw_layers *l) {
    const stw_graph *graph = l->graph;
    l->forward[graph->root[graph->loss]] = true;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k];
        if (!l->forward[op]) continue;
        for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) l->forward[graph->read[r].node] = true;
    }
    for (int32_t i = 0; i < graph->N; i++) l->forward[i] = l->forward[i] && graph->kind[i] == STW_NODE_OP;
}

/* The one parameter that all readers serve, else -1; also -1 for an op that needs another parameter and belongs there. */
static int32_t common_owner(const stw_layers *l, int32_t op) {
    const stw_graph *graph = l->graph;
    int32_t owner = -1;
    if (graph->kept[op]) return -1;
    for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
        const int32_t other = l->owner[graph->reader[r].node];
        if (other < 0 || (owner >= 0 && other != owner)) return -1;
        owner = other;
    }
    for (int64_t r = graph->read_start[op]; owner >= 0 && r < graph->read_start[op + 1]; r++) {
        const int32_t value = graph->read[r].node;
        if (stw_node_is_resident(graph->kind[value]) && value != owner) return -1;
    }
    return owner;
}

static void find_owners(stw_layers *l) {
    const stw_graph *graph = l->graph;
    for (int32_t i = 0; i < graph->N; i++) l->owner[i] = -1;
    for (int32_t k = graph->op_count - 1; k >= 0; k--) {
        const int32_t op = graph->topological[k];
        if (l->forward[op]) continue;
        l->owner[op] = graph->updates[op] >= 0 ? graph->root[graph->updates[op]] : common_owner(l, op);
    }
}

/* ---- partners ---- */

typedef struct {    /* forward readers of each value by their place in topological order */
    int64_t *start; /* (N + 1) */
    int32_t *place;
} forward_readers;

/* Ops are visited in topological order, so each list comes out sorted. */
static stw_status list_forward_readers(const stw_layers *l, stw_arena *arena, forward_readers *out, stw_error *error) {
    const stw_graph *graph = l->graph;
    int64_t *fill;
    STW_TRY_NEW(arena, out->start, (int64_t)graph->N + 1, error);
    STW_TRY_NEW(arena, fill, graph->N, error);
    STW_TRY_NEW(arena, out->place, graph->reader_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) fill[i] = out->start[i] = graph->reader_start[i];
    out->start[graph->N] = graph->reader_start[graph->N];
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        for (int64_t r = graph->read_start[op]; l->forward[op] && r < graph->read_start[op + 1]; r++) {
            const int32_t value = graph->read[r].node;
            const bool again = fill[value] > out->start[value] && out->place[fill[value] - 1] == k;
            if (!again) out->place[fill[value]++] = k;
        }
    }
    /* Lists end where they were filled to; a place that nobody took repeats the last one, or says -1. */
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t last = fill[i] > out->start[i] ? out->place[fill[i] - 1] : -1;
        for (int64_t r = fill[i]; r < out->start[i + 1]; r++) out->place[r] = last;
    }
    return STW_OK;
}

/* Number of entries of a sorted list that are at most `limit`. */
static int64_t count_up_to(const int32_t *place, int64_t count, int32_t limit) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (place[middle] <= limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_saved(const stw_layers *l, int32_t node) { return l->forward[node] || stw_node_is_resident(l->graph->kind[node]); }

static bool has_read(const stw_graph *graph, int32_t op, int32_t value) {
    for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) {
        if (graph->read[r].node == value) return true;
    }
    return false;
}

/* Does forward op `candidate` read or write everything of the forward pass that `gradient` reads? */
static bool touches_all(const stw_layers *l, int32_t candidate, int32_t gradient) {
    const stw_graph *graph = l->graph;
    for (int64_t r = graph->read_start[gradient]; r < graph->read_start[gradient + 1]; r++) {
        const int32_t value = graph->read[r].node;
        if (is_saved(l, value) && value != candidate && !has_read(graph, candidate, value)) return false;
    }
    return true;
}

enum { MOST_TRIES = 16 };

/* Among the writer and the forward readers of `value`, the last one up to `limit` that touches all that the gradient reads;
 * else the last one up to the limit; else the first one behind it; -1 if there is none. */
static int32_t choose_partner(const stw_layers *l, const forward_readers *readers, int32_t value, int32_t gradient,
                              int32_t limit) {
    const int32_t *topological = l->graph->topological;
    const int32_t *place = readers->place + readers->start[value];
    const int64_t count = readers->start[value + 1] - readers->start[value];
    const int64_t below = count_up_to(place, count, limit);
    int32_t last = -1;
    for (int64_t k = below - 1; k >= 0 && k >= below - MOST_TRIES && place[k] >= 0; k--) {
        if (touches_all(l, topological[place[k]], gradient)) return topological[place[k]];
        if (last < 0) last = topological[place[k]];
    }
    if (l->forward[value] && (last < 0 || touches_all(l, value, gradient))) return value;
    if (last >= 0) return last;
    return below < count && place[below] >= 0 ? topological[place[below]] : -1;
}

/* A gradient comes from the gradients of what read its forward op: its own partner is not behind theirs. Of what it reads of
 * the forward pass, the value with fewest readers says most. */
static int32_t partner_of(const stw_layers *l, const forward_readers *readers, int32_t op, int32_t end) {
    const stw_graph *graph = l->graph;
    int32_t limit = -1, rarest = -1;
    int64_t fewest = INT64_MAX;
    for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) {
        const int32_t value = graph->read[r].node;
        const int64_t count = readers->start[value + 1] - readers->start[value];
        if (is_saved(l, value)) {
            if (count < fewest) {
                fewest = count;
                rarest = value;
            }
        } else if (graph->kind[value] == STW_NODE_OP && l->partner[value] >= 0) {
            const int32_t place = l->place[l->partner[value]];
            if (limit < 0 || place < limit) limit = place;
        }
    }
    const int32_t bound = limit < 0 ? l->place[end] : limit;
    const int32_t found = rarest < 0 ? -1 : choose_partner(l, readers, rarest, op, bound);
    return found >= 0 ? found : limit >= 0 ? graph->topological[limit] : end;
}

/* A parameter belongs to the forward op that takes longest of those that read it. */
static int32_t partner_of_resident(const stw_layers *l, int32_t node, int32_t end) {
    const stw_graph *graph = l->graph;
    int32_t longest = -1;
    for (int64_t r = graph->reader_start[node]; r < graph->reader_start[node + 1]; r++) {
        const int32_t reader = graph->reader[r].node;
        if (!l->forward[reader]) continue;
        if (longest < 0 || l->us[reader] > l->us[longest] ||
            (l->us[reader] == l->us[longest] && l->place[reader] < l->place[longest]))
            longest = reader;
    }
    return longest >= 0 ? longest : end;
}

static stw_status find_partners(stw_layers *l, stw_arena scratch, stw_error *error) {
    const stw_graph *graph = l->graph;
    forward_readers readers = {0};
    int32_t end = -1; /* the last forward op */
    TRY(list_forward_readers(l, &scratch, &readers, error));
    for (int32_t k = 0; k < graph->op_count; k++) {
        if (l->forward[graph->topological[k]]) end = graph->topological[k];
    }
    for (int32_t i = 0; i < graph->N; i++) {
        l->partner[i] = l->forward[i] ? i : -1;
        if (stw_node_is_resident(graph->kind[i]) && end >= 0) l->partner[i] = partner_of_resident(l, i, end);
    }
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        if (l->forward[op]) continue;
        l->partner[op] = l->owner[op] >= 0 ? l->partner[l->owner[op]] : partner_of(l, &readers, op, end);
    }
    return STW_OK;
}

/* ---- levels ---- */

static void find_levels(stw_layers *l) {
    const stw_graph *graph = l->graph;
    for (int32_t k = 0; k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        if (!l->forward[op]) continue;
        for (int64_t r = graph->read_start[op]; r < graph->read_start[op + 1]; r++) {
            const int32_t value = graph->read[r].node;
            if (l->forward[value] && l->level[value] + 1 > l->level[op]) l->level[op] = l->level[value] + 1;
        }
    }
}

stw_status stw_layers_build(const stw_graph *graph, const double *us, bool mirrored, stw_arena *arena, stw_layers *out,
                            stw_error *error) {
    *out = (stw_layers){.graph = graph, .us = us};
    STW_TRY_NEW(arena, out->place, graph->N, error);
    STW_TRY_NEW(arena, out->forward, graph->N, error);
    STW_TRY_NEW(arena, out->owner, graph->N, error);
    STW_TRY_NEW(arena, out->partner, graph->N, error);
    STW_TRY_NEW(arena, out->level, graph->N, error);
    for (int32_t k = 0; k < graph->op_count; k++) out->place[graph->topological[k]] = k;
    const bool has_loss = mirrored && graph->loss >= 0 && graph->kind[graph->root[graph->loss]] == STW_NODE_OP;
    if (has_loss) mark_forward(out);
    find_owners(out);
    bool any = has_loss;
    for (int32_t k = 0; !has_loss && k < graph->op_count; k++) {
        const int32_t op = graph->topological[k];
        any |= out->forward[op] = out->owner[op] < 0;
    }
    for (int32_t k = 0; !any && k < graph->op_count; k++) { /* updates alone */
        out->forward[graph->topological[k]] = true;
        out->owner[graph->topological[k]] = -1;
    }
    TRY(find_partners(out, *arena, error));
    find_levels(out);
    return name_layers(out, arena, error);
}
