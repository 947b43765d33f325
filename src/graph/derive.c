/* The derived half of a graph: edges in both directions, what waits for what, a topological order of the ops, the fingerprint. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sort.h"
#include "graph/acyclic.h"
#include "graph/graph.h"

/* ---- edges ---- */

/* Edges between ops and sources: views resolved to their roots, duplicates dropped, both directions. */

static void resolve_roots(stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++) { /* inputs come earlier, so their roots are known */
        const bool view = graph->kind[i] == STW_NODE_VIEW;
        graph->root[i] = view ? graph->root[graph->input[graph->input_start[i]]] : i;
    }
    for (int32_t o = 0; o < graph->output_count; o++) graph->kept[graph->root[graph->output[o]]] = true;
}

static int compare_reads(const void *left, const void *right) {
    const stw_use *a = left, *b = right;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    return a->view < b->view ? -1 : a->view > b->view;
}

/* The distinct (root, view) pairs that op i reads, sorted, into `out`; returns their number. */
static int64_t collect_reads(const stw_graph *graph, int32_t i, stw_use *out) {
    int64_t count = 0;
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
        const int32_t input = graph->input[k];
        const bool view = graph->kind[input] == STW_NODE_VIEW;
        out[count++] = (stw_use){graph->root[input], view ? input : -1};
    }
    if (count > 1) qsort(out, (size_t)count, sizeof *out, compare_reads);
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        if (kept == 0 || compare_reads(&out[kept - 1], &out[k]) != 0) out[kept++] = out[k];
    }
    return kept;
}

static void build_reads(stw_graph *graph) {
    int64_t next = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        graph->read_start[i] = (int32_t)next;
        if (graph->kind[i] == STW_NODE_OP) next += collect_reads(graph, i, graph->read + next);
    }
    graph->read_start[graph->N] = (int32_t)next;
}

/* Readers of each value sorted by view, then reader: a stable counting sort of the reads by producer, after one by view. */
static stw_status build_readers(stw_graph *graph, stw_arena scratch, stw_error *error) {
    const int32_t N = graph->N;
    const int64_t E = graph->read_start[N];
    int64_t *place;
    stw_use *by_view; /* (E) node = reader, view = what it reads */
    int32_t *producer_by_view;
    STW_TRY_NEW(&scratch, place, (int64_t)N + 2, error);
    STW_TRY_NEW(&scratch, by_view, E, error);
    STW_TRY_NEW(&scratch, producer_by_view, E, error);
    for (int64_t e = 0; e < E; e++) place[graph->read[e].view + 2]++; /* view -1 comes first */
    for (int32_t v = 0; v <= N; v++) place[v + 1] += place[v];
    for (int32_t i = 0; i < N; i++) {
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            const int64_t slot = place[graph->read[e].view + 1]++;
            by_view[slot] = (stw_use){i, graph->read[e].view};
            producer_by_view[slot] = graph->read[e].node;
        }
    }
    for (int64_t e = 0; e < E; e++) graph->reader_start[producer_by_view[e] + 1]++;
    for (int32_t i = 0; i < N; i++) graph->reader_start[i + 1] += graph->reader_start[i];
    for (int32_t i = 0; i <= N; i++) place[i] = graph->reader_start[i];
    for (int64_t e = 0; e < E; e++) graph->reader[place[producer_by_view[e]]++] = by_view[e];
    return STW_OK;
}

stw_status stw_graph_build_edges(stw_graph *graph, stw_error *error) {
    stw_arena *arena = &graph->arena;
    const int64_t N = graph->N;
    const int64_t inputs = graph->input_start[N];
    STW_TRY_NEW(arena, graph->root, N, error);
    STW_TRY_NEW(arena, graph->kept, N, error);
    STW_TRY_NEW(arena, graph->read_start, N + 1, error);
    STW_TRY_NEW(arena, graph->read, inputs, error);
    STW_TRY_NEW(arena, graph->reader_start, N + 1, error);
    resolve_roots(graph);
    build_reads(graph);
    STW_TRY_NEW(arena, graph->reader, graph->read_start[N], error);
    return build_readers(graph, *arena, error);
}

/* ---- waits ---- */

/* What an op waits for beside its producers: control edges; the readers of what it writes over, which are an update's wait for
 * the other readers of its parameter, and holds.
 *
 * These are added by the id of the op that waits, then that of the reader; one that would close a cycle is left out. Node ids are
 * a topological order of data and control edges, so waits for earlier ops can never close one, and a graph that has only these
 * needs no check. Otherwise acyclic.h checks each. */

static int64_t sort_distinct(int32_t *ids, int64_t count) {
    stw_sort_ids(ids, count);
    int64_t kept = 0;
    for (int64_t k = 0; k < count; k++) {
        if (kept == 0 || ids[kept - 1] != ids[k]) ids[kept++] = ids[k];
    }
    return kept;
}

static int64_t hold_count(const stw_graph *graph, int32_t op) {
    return graph->hold_start != NULL ? graph->hold_start[op + 1] - graph->hold_start[op] : 0;
}

/* Its holds, and the readers of the parameter that it updates; ascending, the op itself left out. */
static int64_t earlier_readers(const stw_graph *graph, int32_t op, int32_t *out) {
    const int32_t parameter = graph->updates[op];
    int64_t count = 0;
    for (int64_t k = 0; k < hold_count(graph, op); k++) out[count++] = graph->hold[graph->hold_start[op] + k];
    for (int64_t r = parameter >= 0 ? graph->reader_start[parameter] : 0;
         parameter >= 0 && r < graph->reader_start[parameter + 1]; r++) {
        if (graph->reader[r].node != op) out[count++] = graph->reader[r].node;
    }
    return sort_distinct(out, count);
}

static int64_t control_waits(const stw_graph *graph, int32_t op, int32_t *out) {
    int64_t count = 0;
    for (int64_t k = graph->control_start[op]; k < graph->control_start[op + 1]; k++) {
        const int32_t before = graph->root[graph->control[k]];
        if (graph->kind[before] == STW_NODE_OP) out[count++] = before; /* a source is always there */
    }
    return count;
}

/* The largest number of waits that there can be, and whether some reader comes after the op that waits for it. */
static int64_t count_waits(const stw_graph *graph, bool *bends) {
    int64_t count = graph->control_start[graph->N];
    *bends = false;
    for (int32_t i = 0; i < graph->N; i++) {
        const int32_t parameter = graph->updates[i];
        for (int64_t k = 0; k < hold_count(graph, i); k++) *bends |= graph->hold[graph->hold_start[i] + k] > i;
        count += hold_count(graph, i);
        if (parameter < 0) continue;
        for (int64_t r = graph->reader_start[parameter]; r < graph->reader_start[parameter + 1]; r++) {
            *bends |= graph->reader[r].node > i;
            count++;
        }
    }
    return count;
}

/* All data and control edges. */
static stw_status collect_edges(const stw_graph *graph, int64_t waits, stw_arena *scratch, stw_acyclic **out, stw_error *error) {
    TRY(stw_acyclic_create(graph->N, graph->read_start[graph->N] + waits, scratch, out, error));
    int32_t *before;
    STW_TRY_NEW(scratch, before, graph->control_start[graph->N], error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            stw_acyclic_add_unchecked(*out, graph->read[e].node, i); /* ids ascend along these */
        }
        const int64_t count = control_waits(graph, i, before);
        for (int64_t k = 0; k < count; k++) stw_acyclic_add_unchecked(*out, before[k], i);
    }
    return STW_OK;
}

stw_status stw_graph_build_waits(stw_graph *graph, stw_error *error) {
    bool bends;
    const int64_t most = count_waits(graph, &bends);
    STW_TRY_NEW(&graph->arena, graph->wait_start, (int64_t)graph->N + 1, error);
    STW_TRY_NEW(&graph->arena, graph->wait, most, error);
    stw_arena scratch = graph->arena;
    stw_acyclic *edges = NULL;
    if (bends) TRY(collect_edges(graph, most, &scratch, &edges, error));
    int32_t *readers;
    STW_TRY_NEW(&scratch, readers, most, error);
    int64_t next = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        graph->wait_start[i] = (int32_t)next;
        if (graph->kind[i] != STW_NODE_OP) continue;
        int64_t count = control_waits(graph, i, graph->wait + next);
        const int64_t reader_count = earlier_readers(graph, i, readers);
        for (int64_t r = 0; r < reader_count; r++) {
            if (edges == NULL || stw_acyclic_add(edges, readers[r], i)) graph->wait[next + count++] = readers[r];
        }
        next += sort_distinct(graph->wait + next, count);
        TRY(stw_graph_check_links(next, "waits", error));
    }
    graph->wait_start[graph->N] = (int32_t)next;
    return STW_OK;
}

/* ---- order ---- */

/* A stable topological order of the ops: among those that are free to go, the smallest id first. */

/* A binary heap of ids, smallest on top. */
static void heap_push(int32_t *heap, int32_t *count, int32_t id) {
    int32_t k = (*count)++;
    for (; k > 0 && heap[(k - 1) / 2] > id; k = (k - 1) / 2) heap[k] = heap[(k - 1) / 2];
    heap[k] = id;
}

static int32_t heap_pop(int32_t *heap, int32_t *count) {
    const int32_t top = heap[0], last = heap[--(*count)];
    int32_t k = 0;
    for (;;) {
        int32_t child = 2 * k + 1;
        if (child >= *count) break;
        if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[k] = heap[child];
        k = child;
    }
    heap[k] = last;
    return top;
}

/* Ids ascend along every data and control edge. If they do along the update waits too, they are the order. */
static bool ids_are_topological(const stw_graph *graph) {
    for (int32_t i = 0; i < graph->N; i++) {
        const int64_t end = graph->wait_start[i + 1];
        if (end > graph->wait_start[i] && graph->wait[end - 1] > i) return false;
    }
    return true;
}

/* For each op, the ops that wait for it. */
static stw_status build_waiters(const stw_graph *graph, stw_arena *arena, int64_t **start, int32_t **waiter, stw_error *error) {
    const int32_t N = graph->N;
    const int64_t waits = graph->wait_start[N];
    int64_t *place;
    STW_TRY_NEW(arena, *start, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, place, (int64_t)N + 1, error);
    STW_TRY_NEW(arena, *waiter, waits, error);
    for (int64_t w = 0; w < waits; w++) (*start)[graph->wait[w] + 1]++;
    for (int32_t i = 0; i < N; i++) {
        (*start)[i + 1] += (*start)[i];
        place[i + 1] = (*start)[i + 1];
    }
    for (int32_t i = 0; i < N; i++) {
        for (int64_t w = graph->wait_start[i]; w < graph->wait_start[i + 1]; w++) (*waiter)[place[graph->wait[w]]++] = i;
    }
    return STW_OK;
}

static stw_status sort_with_heap(stw_graph *graph, stw_arena scratch, stw_error *error) {
    int64_t *waiter_start;
    int32_t *waiter, *pending, *heap;
    TRY(build_waiters(graph, &scratch, &waiter_start, &waiter, error));
    STW_TRY_NEW(&scratch, pending, graph->N, error);
    STW_TRY_NEW(&scratch, heap, graph->N, error);
    int32_t heap_count = 0, done = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int64_t e = graph->read_start[i]; e < graph->read_start[i + 1]; e++) {
            pending[i] += graph->kind[graph->read[e].node] == STW_NODE_OP;
        }
        pending[i] += (int32_t)(graph->wait_start[i + 1] - graph->wait_start[i]);
        if (pending[i] == 0) heap_push(heap, &heap_count, i);
    }
    while (heap_count > 0) {
        const int32_t op = heap_pop(heap, &heap_count);
        graph->topological[done++] = op;
        for (int64_t r = graph->reader_start[op]; r < graph->reader_start[op + 1]; r++) {
            if (--pending[graph->reader[r].node] == 0) heap_push(heap, &heap_count, graph->reader[r].node);
        }
        for (int64_t w = waiter_start[op]; w < waiter_start[op + 1]; w++) {
            if (--pending[waiter[w]] == 0) heap_push(heap, &heap_count, waiter[w]);
        }
    }
    /* Readers refuse forward edges and the waits leave out what closes a cycle, so this cannot happen. */
    if (done != graph->op_count) return stw_fail(error, STW_ERROR_INPUT, "the graph has a cycle");
    return STW_OK;
}

stw_status stw_graph_build_topological(stw_graph *graph, stw_error *error) {
    STW_TRY_NEW(&graph->arena, graph->topological, graph->op_count, error);
    if (!ids_are_topological(graph)) return sort_with_heap(graph, graph->arena, error);
    int32_t count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] == STW_NODE_OP) graph->topological[count++] = i;
    }
    return STW_OK;
}

/* ---- fingerprint ---- */

/* The fingerprint: tells whether a plan belongs to a graph. It covers operators, inputs, shapes, dtypes, attributes and the
 * structure (views, updates, control, colocation, outputs), not names and times. */

typedef struct {
    uint64_t a, b; /* two lanes with different multipliers */
} hash;

static void add(hash *h, uint64_t value) {
    h->a = (h->a ^ value) * 0x9fb21c651e98df25u;
    h->a ^= h->a >> 32;
    h->b = (h->b + value) * 0xd6e8feb86659fd93u;
    h->b ^= h->b >> 29;
}

static void add_text(hash *h, stw_str text) {
    add(h, (uint64_t)text.length);
    add(h, stw_str_hash(text));
}

/* A number by its value, so that 1, 1.0 and 1e0 are the same; everything else by its text. */
static void add_value(hash *h, stw_json *json) {
    stw_str raw;
    if (stw_json_peek(json) == STW_JSON_ARRAY) {
        add(h, 1);
        if (stw_json_array(json)) {
            while (stw_json_item(json)) add_value(h, json);
        }
        add(h, 2); /* so that [[1],2] is not [[1,2]] */
        return;
    }
    const bool is_number = stw_json_peek(json) == STW_JSON_NUMBER;
    int64_t whole;
    double number;
    if (!stw_json_skip(json, &raw)) return;
    if (is_number && stw_str_to_int64(raw, &whole)) {
        add(h, 3);
        add(h, (uint64_t)whole);
    } else if (is_number && stw_str_to_double(raw, &number) && number == floor(number) && fabs(number) < 9007199254740992.0) {
        add(h, 3);
        add(h, (uint64_t)(int64_t)number);
    } else if (is_number && stw_str_to_double(raw, &number)) {
        char text[32];
        add_text(h, (stw_str){text, stw_format_double(text, number)});
    } else {
        add_text(h, raw);
    }
}

/* The order of attributes plays no part: each is hashed alone and the results are added up. */
static void add_attributes(hash *h, stw_str text, stw_arena scratch) {
    if (text.length == 0) return;
    stw_json json;
    stw_str key;
    stw_error ignored; /* the reader has checked the text */
    uint64_t sum = 0;
    stw_json_init(&json, text, &scratch, &ignored);
    if (stw_json_object(&json)) {
        while (stw_json_key(&json, &key)) {
            hash one = {1, 2};
            add_text(&one, key);
            add_value(&one, &json);
            sum += one.a ^ (one.b << 1);
        }
    }
    add(h, sum);
}

static void add_node(hash *h, const stw_graph *graph, int32_t i) {
    add(h, graph->kind[i]);
    add_text(h, graph->op_name[i]);
    add_text(h, stw_str_of(stw_dtype_name(graph->dtype[i])));
    add(h, (uint64_t)graph->bytes[i]);
    add(h, (uint64_t)(int64_t)graph->updates[i]);
    add(h, (uint64_t)(int64_t)graph->colocate[i]);
    add(h, (uint64_t)(graph->shape_start[i + 1] - graph->shape_start[i]));
    for (int64_t k = graph->shape_start[i]; k < graph->shape_start[i + 1]; k++) add(h, (uint64_t)graph->shape[k]);
    add(h, (uint64_t)(graph->input_start[i + 1] - graph->input_start[i]));
    for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) add(h, (uint64_t)graph->input[k]);
    add(h, (uint64_t)(graph->control_start[i + 1] - graph->control_start[i]));
    for (int64_t k = graph->control_start[i]; k < graph->control_start[i + 1]; k++) add(h, (uint64_t)graph->control[k]);
    add_attributes(h, graph->attributes[i], graph->arena);
}

stw_status stw_graph_build_fingerprint(stw_graph *graph, stw_error *error) {
    (void)error;
    hash h = {0x243f6a8885a308d3u, 0x13198a2e03707344u};
    add(&h, (uint64_t)graph->N);
    for (int32_t i = 0; i < graph->N; i++) add_node(&h, graph, i);
    for (int32_t o = 0; o < graph->output_count; o++) add(&h, (uint64_t)graph->output[o]);
    snprintf(graph->fingerprint, sizeof graph->fingerprint, "%016llx%016llx", (unsigned long long)h.a, (unsigned long long)h.b);
    return STW_OK;
}
