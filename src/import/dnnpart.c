/* Reads the inputs of dnn-partitioning (docs/formats/dnn-partitioning.md): nodes and edges into flat arrays, checked, ids
 * resolved. */
#include "import/dnnpart.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "machine/machine.h"

bool stw_dnnpart_fail(stw_dnnpart *r, const char *at, const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->json.cursor = at;
    return stw_json_fail(&r->json, "%s", text);
}

/* ---- which format is it ---- */

bool stw_dnnpart_is(stw_str text, stw_arena scratch) {
    stw_json json;
    stw_error ignored; /* what is no JSON is told by the reader that gets it */
    stw_str key;
    stw_json_init(&json, text, &scratch, &ignored);
    if (stw_json_peek(&json) != STW_JSON_OBJECT || !stw_json_object(&json)) return false;
    while (stw_json_key(&json, &key)) {
        if (stw_str_is(key, "format")) return false;
        if (stw_str_is(key, "maxFPGAs") || stw_str_is(key, "maxSizePerFPGA")) return true;
        if (!stw_json_skip(&json, NULL)) return false;
    }
    return false;
}

/* ---- values ---- */

/* "supportedOnFpga" is true, false, 1 or 0. */
static bool read_flag(stw_dnnpart *r, bool *out) {
    if (stw_json_peek(&r->json) != STW_JSON_NUMBER) return stw_json_bool(&r->json, out);
    int64_t number = 0;
    if (!stw_json_int64(&r->json, &number)) return false;
    *out = number != 0;
    return true;
}

static bool read_amount(stw_dnnpart *r, const char *key, double *out) {
    if (!stw_json_double(&r->json, out)) return false;
    return *out >= 0.0 || stw_json_fail(&r->json, "%s is %g; it must be 0 or more", key, *out);
}

static bool read_time(stw_dnnpart *r, const char *key, double *ms) {
    if (!read_amount(r, key, ms)) return false;
    return *ms * 1e3 <= STW_GRAPH_MAX_US ||
           stw_json_fail(&r->json, "%s is %g ms; at most %g (23 days) are possible; is it in other units?", key, *ms,
                         STW_GRAPH_MAX_US / 1e3);
}

/* The index of a key in a list of them, -1 if it is not there, -2 if it comes again (that is an error). */
static int find_key(stw_dnnpart *r, stw_str key, const char *const *keys, int count, unsigned *seen) {
    int k = 0;
    while (k < count && !stw_str_is(key, keys[k])) k++;
    if (k == count) return -1;
    if (*seen >> k & 1u) {
        stw_json_fail(&r->json, "\"%s\" stands twice", keys[k]);
        return -2;
    }
    *seen |= 1u << k;
    return k;
}

static bool check_keys(stw_dnnpart *r, const char *at, const char *what, const char *const *keys, unsigned needed,
                       unsigned seen) {
    const unsigned missing = needed & ~seen;
    if (missing == 0) return true;
    return stw_dnnpart_fail(r, at, "%s: \"%s\" is missing", what, keys[__builtin_ctz(missing)]);
}

/* ---- nodes ---- */

enum { ID, NAME, SUPPORTED, CPU, ACCELERATOR, COLOUR, SIZE, NODE_KEYS };
static const char *const node_keys[NODE_KEYS] = {"id",         "name", "supportedOnFpga", "cpuLatency", "fpgaLatency",
                                                 "colorClass", "size"};

static bool read_colour(stw_dnnpart *r, stw_dnnpart_node *node) {
    if (stw_json_peek(&r->json) == STW_JSON_NULL) return stw_json_null(&r->json);
    node->has_colour = true;
    return stw_json_int64(&r->json, &node->colour);
}

static bool read_name(stw_dnnpart *r, stw_str *out) {
    if (!stw_json_string(&r->json, out)) return false;
    if (out->length == 0 || memchr(out->p, '\0', (size_t)out->length) == NULL) return true;
    return stw_json_fail(&r->json, "a name contains a NUL character");
}

static bool read_node_value(stw_dnnpart *r, int key, stw_dnnpart_node *node, bool *supported) {
    switch (key) {
        case ID: return stw_json_int64(&r->json, &node->id);
        case NAME: return read_name(r, &node->name);
        case SUPPORTED: return read_flag(r, supported);
        case CPU: return read_time(r, "cpuLatency", &node->cpu_ms);
        case ACCELERATOR: return read_time(r, "fpgaLatency", &node->accelerator_ms);
        case COLOUR: return read_colour(r, node);
        case SIZE: return read_amount(r, "size", &node->size);
        default: return stw_json_skip(&r->json, NULL);
    }
}

static bool read_node(stw_dnnpart *r, int64_t index, stw_dnnpart_node *node) {
    char what[60];
    snprintf(what, sizeof what, "nodes[%lld]", (long long)index);
    bool supported = true;
    unsigned seen = 0;
    stw_str key;
    stw_json_peek(&r->json); /* past white space */
    *node = (stw_dnnpart_node){.at = r->json.cursor, .name = STW_STR(""), .transfer_ms = -1.0};
    if (stw_json_object(&r->json)) {
        while (stw_json_key(&r->json, &key)) {
            const int k = find_key(r, key, node_keys, NODE_KEYS, &seen);
            if (k == -2 || !read_node_value(r, k, node, &supported)) break;
        }
    }
    if (r->json.failed) {
        stw_error_prefix(r->json.error, what);
        return false;
    }
    const unsigned needed = 1u << ID | 1u << CPU | 1u << ACCELERATOR;
    if (!check_keys(r, node->at, what, node_keys, needed, seen)) return false;
    if (supported) return true;
    return stw_dnnpart_fail(r, node->at, "%s '%.*s': supportedOnFpga is false; nodes that only a CPU can run are not modelled",
                            what, STW_STR_SHOW(node->name));
}

static bool read_nodes(stw_dnnpart *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX / 2) return stw_json_fail(&r->json, "more than 2^30 nodes");
    r->node = STW_NEW(&r->scratch, stw_dnnpart_node, count);
    if (r->node == NULL) return stw_json_fail(&r->json, "out of memory");
    if (!stw_json_array(&r->json)) return false;
    while (stw_json_item(&r->json)) {
        stw_dnnpart_node beyond; /* where the first pass stopped at an error, this one meets it too */
        const bool counted = r->node_count < count;
        if (!read_node(r, r->node_count, counted ? &r->node[r->node_count] : &beyond)) return false;
        if (!counted) return stw_json_fail(&r->json, "node %lld cannot be read", (long long)r->node_count);
        r->node_count++;
    }
    return !r->json.failed;
}

/* ---- edges ---- */

enum { SOURCE, TARGET, COST, EDGE_KEYS };
static const char *const edge_keys[EDGE_KEYS] = {"sourceId", "destId", "cost"};

static bool read_edge(stw_dnnpart *r, int64_t index, stw_dnnpart_edge *edge) {
    char what[60];
    snprintf(what, sizeof what, "edges[%lld]", (long long)index);
    unsigned seen = 0;
    stw_str key;
    stw_json_peek(&r->json);
    *edge = (stw_dnnpart_edge){.at = r->json.cursor};
    if (stw_json_object(&r->json)) {
        while (stw_json_key(&r->json, &key)) {
            const int k = find_key(r, key, edge_keys, EDGE_KEYS, &seen);
            bool read = k != -2;
            if (k == SOURCE) read = stw_json_int64(&r->json, &edge->source_id);
            if (k == TARGET) read = stw_json_int64(&r->json, &edge->target_id);
            if (k == COST) read = read_amount(r, "cost", &edge->cost_ms);
            if (k == -1) read = stw_json_skip(&r->json, NULL);
            if (!read) break;
        }
    }
    if (!r->json.failed) return check_keys(r, edge->at, what, edge_keys, 7u, seen);
    stw_error_prefix(r->json.error, what);
    return false;
}

static bool read_edges(stw_dnnpart *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX / 2) return stw_json_fail(&r->json, "more than 2^30 edges");
    r->edge = STW_NEW(&r->scratch, stw_dnnpart_edge, count);
    if (r->edge == NULL) return stw_json_fail(&r->json, "out of memory");
    if (!stw_json_array(&r->json)) return false;
    while (stw_json_item(&r->json)) {
        stw_dnnpart_edge beyond;
        const bool counted = r->edge_count < count;
        if (!read_edge(r, r->edge_count, counted ? &r->edge[r->edge_count] : &beyond)) return false;
        if (!counted) return stw_json_fail(&r->json, "edge %lld cannot be read", (long long)r->edge_count);
        r->edge_count++;
    }
    return !r->json.failed;
}

/* ---- ids ---- */

typedef struct {
    int64_t id, position;
} id_entry;

static int compare_ids(const void *left, const void *right) {
    const id_entry *a = left, *b = right;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static bool sort_ids(stw_dnnpart *r, id_entry *entry) {
    for (int64_t i = 0; i < r->node_count; i++) entry[i] = (id_entry){r->node[i].id, i};
    if (r->node_count > 1) qsort(entry, (size_t)r->node_count, sizeof *entry, compare_ids);
    for (int64_t k = 1; k < r->node_count; k++) {
        if (entry[k].id != entry[k - 1].id) continue;
        return stw_dnnpart_fail(r, r->node[entry[k].position].at, "nodes[%lld]: the id %lld is already that of nodes[%lld]",
                                (long long)entry[k].position, (long long)entry[k].id, (long long)entry[k - 1].position);
    }
    return true;
}

static int64_t find_id(const id_entry *entry, int64_t count, int64_t id) {
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (entry[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && entry[low].id == id ? entry[low].position : -1;
}

/* Edges by position instead of id; the cost goes to the node, since what is sent is its output, whoever reads it. */
static bool resolve_edges(stw_dnnpart *r, const id_entry *entry) {
    for (int64_t k = 0; k < r->edge_count; k++) {
        stw_dnnpart_edge *edge = &r->edge[k];
        edge->source = find_id(entry, r->node_count, edge->source_id);
        edge->target = find_id(entry, r->node_count, edge->target_id);
        if (edge->source < 0 || edge->target < 0) {
            return stw_dnnpart_fail(r, edge->at, "edges[%lld]: there is no node with the id %lld", (long long)k,
                                    (long long)(edge->source < 0 ? edge->source_id : edge->target_id));
        }
        double *cost = &r->node[edge->source].transfer_ms;
        if (*cost >= 0.0 && *cost != edge->cost_ms) {
            return stw_dnnpart_fail(r, edge->at,
                                    "edges[%lld]: cost %g, but another edge out of node %lld costs %g; one output, one cost",
                                    (long long)k, edge->cost_ms, (long long)edge->source_id, *cost);
        }
        *cost = edge->cost_ms;
    }
    return true;
}

/* ---- the whole ---- */

enum { MAX_SIZE, MAX_ACCELERATORS, MAX_CPUS, NODES, EDGES, HEAD_KEYS };
static const char *const head_keys[HEAD_KEYS] = {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"};

static bool read_head_value(stw_dnnpart *r, int key) {
    switch (key) {
        case MAX_SIZE: return read_amount(r, "maxSizePerFPGA", &r->accelerator_size);
        case MAX_ACCELERATORS: return stw_json_int64(&r->json, &r->accelerators);
        case MAX_CPUS: return stw_json_int64(&r->json, &r->cpus);
        case NODES: return read_nodes(r);
        case EDGES: return read_edges(r);
        default: return stw_json_skip(&r->json, NULL);
    }
}

static bool read_head(stw_dnnpart *r) {
    unsigned seen = 0;
    stw_str key;
    if (!stw_json_object(&r->json)) return false;
    while (stw_json_key(&r->json, &key)) {
        const int k = find_key(r, key, head_keys, HEAD_KEYS, &seen);
        if (k == -2 || !read_head_value(r, k)) return false;
    }
    if (r->json.failed || !check_keys(r, r->json.cursor, "the file", head_keys, 31u, seen)) return false;
    if (r->accelerators < 0 || r->accelerators > STW_MAX_DEVICES || r->cpus < 1 || r->cpus > STW_MAX_DEVICES ||
        r->accelerators + r->cpus > STW_MAX_DEVICES) {
        return stw_json_fail(&r->json, "maxFPGAs %lld and maxCPUs %lld; there must be 1 CPU or more, and at most %d devices",
                             (long long)r->accelerators, (long long)r->cpus, STW_MAX_DEVICES);
    }
    return true;
}

static stw_status read_all(stw_dnnpart *r, stw_graph *graph, stw_error *error) {
    if (read_head(r)) {
        id_entry *entry;
        STW_TRY_NEW(&r->scratch, entry, r->node_count, error);
        if (sort_ids(r, entry)) resolve_edges(r, entry);
    }
    if (r->json.failed) return STW_ERROR_INPUT;
    TRY(stw_json_finish(&r->json));
    return stw_dnnpart_build(r, graph, error);
}

stw_status stw_dnnpart_read(stw_str text, stw_graph **out, stw_error *error) {
    *out = NULL;
    stw_dnnpart r = {.node_count = 0};
    stw_arena arena;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_graph *graph = STW_NEW(&arena, stw_graph, 1);
    graph->arena = arena;
    stw_status status = stw_arena_create_for_file(&r.scratch, error);
    if (status == STW_OK) {
        stw_json_init(&r.json, text, &r.scratch, error);
        status = read_all(&r, graph, error);
        stw_arena_destroy(&r.scratch);
    }
    if (status == STW_OK) {
        *out = graph;
        return STW_OK;
    }
    stw_graph_destroy(graph);
    return status;
}
