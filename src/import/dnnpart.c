/* Reads the inputs of dnn-partitioning (docs/formats/dnn-partitioning.md): nodes and edges into flat arrays, checked, ids
 * resolved; then graph and machine. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/json.h"
#include "base/sort.h"
#include "graph/construct.h"
#include "import/import.h"
#include "machine/machine.h"

typedef struct {
    const char *at; /* where it stands in the text, for messages */
    stw_str name;   /* in scratch memory or in the text; may be empty */
    int64_t id, colour;
    bool has_colour; /* nodes of one colour are on one device */
    double cpu_ms, accelerator_ms;
    double size;        /* bytes that it holds on its device */
    double transfer_ms; /* of its output, between an accelerator and the CPU's memory; below 0: nobody reads it */
} file_node;

typedef struct {
    const char *at;
    int64_t source_id, target_id;
    int64_t source, target; /* positions among the nodes */
    double cost_ms;
} file_edge;

typedef struct {
    stw_json json;
    stw_arena scratch;       /* gone after reading */
    double accelerator_size; /* bytes that an accelerator holds */
    int64_t accelerators, cpus;
    int64_t node_count, edge_count;
    file_node *node; /* in file order */
    file_edge *edge;
} reader;

/* Fails at a place in the text; always false. */
static bool fail(reader *r, const char *at, const char *format, ...) STW_PRINTF(3, 4);

/* ---- the file ---- */

static bool fail(reader *r, const char *at, const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->json.cursor = at;
    return stw_json_fail(&r->json, "%s", text);
}

/* ---- values ---- */

/* "supportedOnFpga" is true, false, 1 or 0. */
static bool read_flag(reader *r, bool *out) {
    if (stw_json_peek(&r->json) != STW_JSON_NUMBER) return stw_json_bool(&r->json, out);
    int64_t number = 0;
    if (!stw_json_int64(&r->json, &number)) return false;
    *out = number != 0;
    return true;
}

static bool read_amount(reader *r, const char *key, double *out) {
    if (!stw_json_double(&r->json, out)) return false;
    return *out >= 0.0 || stw_json_fail(&r->json, "%s is %g; it must be 0 or more", key, *out);
}

static bool read_time(reader *r, const char *key, double *ms) {
    if (!read_amount(r, key, ms)) return false;
    return *ms * 1e3 <= STW_GRAPH_MAX_US ||
           stw_json_fail(&r->json, "%s is %g ms; at most %g (23 days) are possible; is it in other units?", key, *ms,
                         STW_GRAPH_MAX_US / 1e3);
}

/* The index of a key in a list of them, -1 if it is not there, -2 if it comes again (that is an error). */
static int find_key(reader *r, stw_str key, const char *const *keys, int count, unsigned *seen) {
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

static bool check_keys(reader *r, const char *at, const char *what, const char *const *keys, unsigned needed, unsigned seen) {
    const unsigned missing = needed & ~seen;
    if (missing == 0) return true;
    return fail(r, at, "%s: \"%s\" is missing", what, keys[__builtin_ctz(missing)]);
}

/* ---- nodes ---- */

enum { ID, NAME, SUPPORTED, CPU, ACCELERATOR, COLOUR, SIZE, NODE_KEYS };
static const char *const node_keys[NODE_KEYS] = {"id",         "name", "supportedOnFpga", "cpuLatency", "fpgaLatency",
                                                 "colorClass", "size"};

static bool read_colour(reader *r, file_node *node) {
    if (stw_json_peek(&r->json) == STW_JSON_NULL) return stw_json_null(&r->json);
    node->has_colour = true;
    return stw_json_int64(&r->json, &node->colour);
}

static bool read_name(reader *r, stw_str *out) {
    if (!stw_json_string(&r->json, out)) return false;
    if (out->length == 0 || memchr(out->p, '\0', (size_t)out->length) == NULL) return true;
    return stw_json_fail(&r->json, "a name contains a NUL character");
}

static bool read_node_value(reader *r, int key, file_node *node, bool *supported) {
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

static bool read_node(reader *r, int64_t index, file_node *node) {
    char what[60];
    snprintf(what, sizeof what, "nodes[%lld]", (long long)index);
    bool supported = true;
    unsigned seen = 0;
    stw_str key;
    stw_json_peek(&r->json); /* past white space */
    *node = (file_node){.at = r->json.cursor, .name = STW_STR(""), .transfer_ms = -1.0};
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
    return fail(r, node->at, "%s '%.*s': supportedOnFpga is false; nodes that only a CPU can run are not modelled", what,
                STW_STR_SHOW(node->name));
}

static bool read_nodes(reader *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX / 2) return stw_json_fail(&r->json, "more than 2^30 nodes");
    r->node = STW_NEW(&r->scratch, file_node, count);
    if (r->node == NULL) return stw_json_lacks_memory(&r->json, "nodes");
    if (!stw_json_array(&r->json)) return false;
    while (stw_json_item(&r->json)) {
        file_node beyond; /* where the first pass stopped at an error, this one meets it too */
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

static bool read_edge(reader *r, int64_t index, file_edge *edge) {
    char what[60];
    snprintf(what, sizeof what, "edges[%lld]", (long long)index);
    unsigned seen = 0;
    stw_str key;
    stw_json_peek(&r->json);
    *edge = (file_edge){.at = r->json.cursor};
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

static bool read_edges(reader *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX / 2) return stw_json_fail(&r->json, "more than 2^30 edges");
    r->edge = STW_NEW(&r->scratch, file_edge, count);
    if (r->edge == NULL) return stw_json_lacks_memory(&r->json, "edges");
    if (!stw_json_array(&r->json)) return false;
    while (stw_json_item(&r->json)) {
        file_edge beyond;
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

static bool sort_ids(reader *r, id_entry *entry) {
    for (int64_t i = 0; i < r->node_count; i++) entry[i] = (id_entry){r->node[i].id, i};
    if (r->node_count > 1) qsort(entry, (size_t)r->node_count, sizeof *entry, compare_ids);
    for (int64_t k = 1; k < r->node_count; k++) {
        if (entry[k].id != entry[k - 1].id) continue;
        return fail(r, r->node[entry[k].position].at, "nodes[%lld]: the id %lld is already that of nodes[%lld]",
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
static bool resolve_edges(reader *r, const id_entry *entry) {
    for (int64_t k = 0; k < r->edge_count; k++) {
        file_edge *edge = &r->edge[k];
        edge->source = find_id(entry, r->node_count, edge->source_id);
        edge->target = find_id(entry, r->node_count, edge->target_id);
        if (edge->source < 0 || edge->target < 0) {
            return fail(r, edge->at, "edges[%lld]: there is no node with the id %lld", (long long)k,
                        (long long)(edge->source < 0 ? edge->source_id : edge->target_id));
        }
        double *cost = &r->node[edge->source].transfer_ms;
        if (*cost >= 0.0 && *cost != edge->cost_ms) {
            return fail(r, edge->at, "edges[%lld]: cost %g, but another edge out of node %lld costs %g; one output, one cost",
                        (long long)k, edge->cost_ms, (long long)edge->source_id, *cost);
        }
        *cost = edge->cost_ms;
    }
    return true;
}

/* ---- the whole ---- */

enum { MAX_SIZE, MAX_ACCELERATORS, MAX_CPUS, NODES, EDGES, HEAD_KEYS };
static const char *const head_keys[HEAD_KEYS] = {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"};

static bool read_head_value(reader *r, int key) {
    switch (key) {
        case MAX_SIZE: return read_amount(r, "maxSizePerFPGA", &r->accelerator_size);
        case MAX_ACCELERATORS: return stw_json_int64(&r->json, &r->accelerators);
        case MAX_CPUS: return stw_json_int64(&r->json, &r->cpus);
        case NODES: return read_nodes(r);
        case EDGES: return read_edges(r);
        default: return stw_json_skip(&r->json, NULL);
    }
}

static bool read_head(reader *r) {
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

/* ---- graph and machine ---- */

/* Graph and machine of a dnn-partitioning input. The file speaks of times and sizes, a graph of bytes; how the one becomes the
 * other is described in docs/formats/dnn-partitioning.md. */

static const double BYTES_PER_MS = 1e7; /* of transfer; so the links carry 1e10 bytes/s, and a byte stands for 100 ps */

/* ---- an order in which inputs come first ---- */

typedef struct {
    int64_t *start;  /* (nodes + 1) into source */
    int32_t *source; /* (edges) positions of the nodes that a node reads, in file order */
} sources;

static stw_status list_sources(const reader *r, stw_arena *arena, sources *out, stw_error *error) {
    int64_t *place;
    STW_TRY_NEW(arena, out->start, r->node_count + 1, error);
    STW_TRY_NEW(arena, out->source, r->edge_count, error);
    STW_TRY_NEW(arena, place, r->node_count + 1, error);
    for (int64_t e = 0; e < r->edge_count; e++) out->start[r->edge[e].target + 1]++;
    for (int64_t i = 0; i < r->node_count; i++) place[i + 1] = out->start[i + 1] += out->start[i];
    for (int64_t e = 0; e < r->edge_count; e++) out->source[place[r->edge[e].target]++] = (int32_t)r->edge[e].source;
    return STW_OK;
}

static stw_status order_nodes(reader *r, const sources *s, int32_t **out, stw_error *error) {
    int32_t stuck;
    STW_TRY_NEW(&r->scratch, *out, r->node_count, error);
    TRY(stw_inputs_first((int32_t)r->node_count, s->start, s->source, r->scratch, *out, &stuck, error));
    if (stuck < 0) return STW_OK;
    fail(r, r->node[stuck].at, "nodes[%d] '%.*s' (id %lld) depends on itself: the edges close a cycle; remove one of them", stuck,
         STW_STR_SHOW(r->node[stuck].name), (long long)r->node[stuck].id);
    return STW_ERROR_INPUT;
}

/* ---- bytes ---- */

typedef struct {
    double size_scale;    /* bytes of the graph per byte of the file */
    int64_t output_bytes; /* of all nodes together: what sizes must not be blamed for */
} byte_scale;

static int64_t output_bytes(const file_node *node) {
    return node->transfer_ms > 0.0 ? llround(node->transfer_ms * BYTES_PER_MS) : 0;
}

/* Sizes are blown up, by a million where there is room, so that outputs, whose bytes are only a measure of time, hardly count. */
static bool choose_scale(reader *r, byte_scale *out) {
    const double limit = 0.5 * (double)STW_GRAPH_MAX_BYTES;
    double transfers = 0.0, sizes = 0.0;
    for (int64_t i = 0; i < r->node_count; i++) {
        if (r->node[i].transfer_ms > 0.0) transfers += r->node[i].transfer_ms * BYTES_PER_MS + 1.0;
        sizes += r->node[i].size + 1.0;
    }
    if (transfers > limit)
        return stw_json_fail(&r->json, "the transfers take %g ms in all; that is too long", transfers / BYTES_PER_MS);
    out->size_scale = 1e6;
    while (out->size_scale > 1.0 && sizes * out->size_scale > limit) out->size_scale /= 10.0;
    if (sizes * out->size_scale > limit)
        return stw_json_fail(&r->json, "the sizes are %g bytes in all; at most 2^55 are possible", sizes);
    for (int64_t i = 0; i < r->node_count; i++) out->output_bytes += output_bytes(&r->node[i]);
    return true;
}

static int64_t size_bytes(const file_node *node, const byte_scale *scale) { return llround(node->size * scale->size_scale); }

/* ---- the machine ---- */

static void describe_device(stw_device *device, stw_str name, const char *kind, int64_t memory) {
    *device = (stw_device){.name = name, .kind = stw_str_of(kind), .memory_bytes = memory};
    device->flops_f32 = device->bandwidth = 1e12; /* all times are measured, so these play no part */
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) device->efficiency[c] = 1.0;
}

/* Between CPUs a value stays where it is; between two accelerators it goes through the CPU's memory. */
static double link_bandwidth(bool from_cpu, bool to_cpu) {
    const double hop = BYTES_PER_MS * 1e3;
    return from_cpu && to_cpu ? 1e100 : from_cpu || to_cpu ? hop : hop / 2.0;
}

static stw_status fill_machine(const reader *r, const byte_scale *scale, stw_machine *machine, stw_error *error) {
    const double room = r->accelerator_size * scale->size_scale + (double)scale->output_bytes;
    const int64_t memory = room < (double)STW_GRAPH_MAX_BYTES ? (int64_t)room : STW_GRAPH_MAX_BYTES;
    machine->name = STW_STR("dnn-partitioning");
    machine->host = (int32_t)r->accelerators;
    for (int32_t d = 0; d < machine->device_count; d++) {
        const bool is_cpu = d >= r->accelerators;
        const char *kind = is_cpu ? "cpu" : "accelerator";
        const stw_str name = stw_str_format(&machine->arena, "%s:%d", kind, is_cpu ? d - machine->host : d);
        if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
        describe_device(&machine->device[d], name, kind, is_cpu ? STW_GRAPH_MAX_BYTES : memory);
        for (int32_t to = 0; to < machine->device_count; to++) {
            if (to == d) continue;
            stw_link *link = &machine->link[d * machine->device_count + to];
            link->bandwidth = link_bandwidth(is_cpu, to >= r->accelerators);
        }
    }
    return stw_machine_finish(machine, error);
}

/* ---- the graph ---- */

typedef struct {
    reader *r;
    stw_graph *graph;
    stw_constructor constructor;
    const byte_scale *scale;
    int32_t *op_of; /* (nodes) the op of a node of the file */
    double *accelerator_us, *cpu_us;
    stw_vector input; /* of the op that is being added */
    int32_t dtype;
} builder;

/* Where its time is given, a node is known as well as can be. */
static stw_status add_node(builder *b, stw_node_kind kind, stw_str name, int64_t bytes, stw_raw_links links, stw_error *error) {
    if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    const stw_raw_node node = {.kind = kind,
                               .name = name,
                               .op = kind == STW_NODE_OP ? STW_STR("node") : stw_str_of(stw_node_kind_name((uint8_t)kind)),
                               .dtype = b->dtype,
                               .shape = &bytes,
                               .rank = 1,
                               .bytes = bytes,
                               .moved = STW_UNKNOWN,
                               .at = STW_UNKNOWN,
                               .op_class = STW_CLASS_OPAQUE};
    links.updates = -1;
    return stw_construct_node(&b->constructor, &node, &links, error);
}

static stw_status add_input(builder *b, int32_t node, stw_error *error) {
    return stw_vector_push(&b->input, node) ? STW_OK : stw_fail(error, STW_ERROR_MEMORY, "out of memory");
}

/* A node of the file: an op, and what it holds on its device as a parameter that stays with it. */
static stw_status add_record(builder *b, int32_t position, const sources *s, stw_error *error) {
    const file_node *node = &b->r->node[position];
    const int64_t held = size_bytes(node, b->scale);
    stw_arena *arena = &b->graph->arena;
    const stw_str name =
        node->name.length > 0 ? stw_str_copy(arena, node->name) : stw_str_format(arena, "node %lld", (long long)node->id);
    if (name.p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    b->input.count = 0;
    if (held > 0) {
        const int32_t parameter = b->constructor.count;
        const stw_str title = stw_str_format(arena, "%.*s (size)", (int)(name.length < 4000 ? name.length : 4000), name.p);
        TRY(add_node(b, STW_NODE_PARAMETER, title, held, (stw_raw_links){.colocate = parameter + 1}, error));
        TRY(add_input(b, parameter, error));
    }
    for (int64_t k = s->start[position]; k < s->start[position + 1]; k++) TRY(add_input(b, b->op_of[s->source[k]], error));
    const int32_t op = b->op_of[position] = b->constructor.count;
    const stw_raw_links links = {.input = b->input.data, .input_count = b->input.count, .colocate = -1};
    TRY(add_node(b, STW_NODE_OP, name, output_bytes(node), links, error));
    b->accelerator_us[op] = node->accelerator_ms * 1e3;
    b->cpu_us[op] = node->cpu_ms * 1e3;
    return STW_OK;
}

static int64_t count_held(const builder *b) {
    int64_t held = 0;
    for (int64_t i = 0; i < b->r->node_count; i++) held += size_bytes(&b->r->node[i], b->scale) > 0;
    return held;
}

static stw_status make_room(builder *b, stw_error *error) {
    stw_arena *scratch = &b->r->scratch;
    TRY(stw_construct_begin(&b->constructor, b->graph, b->r->node_count + count_held(b), scratch, error));
    TRY(stw_construct_times(&b->constructor, STW_STR("accelerator"), &b->accelerator_us, error));
    TRY(stw_construct_times(&b->constructor, STW_STR("cpu"), &b->cpu_us, error));
    b->graph->name = STW_STR("dnn-partitioning");
    b->input.arena = scratch;
    STW_TRY_NEW(scratch, b->op_of, b->r->node_count, error);
    return STW_OK;
}

/* Colours: each op is put with the first one of its colour. Positions sorted by colour would do, but order matters little and
 * a table is simpler. */
static stw_status join_colours(const builder *b, const int32_t *order, stw_error *error) {
    const reader *r = b->r;
    stw_arena scratch = r->scratch;
    stw_index index; /* the first node of each colour */
    TRY(stw_index_create(&scratch, r->node_count, &index, error));
    for (int64_t k = 0; k < r->node_count; k++) {
        const file_node *node = &r->node[order[k]];
        if (!node->has_colour) continue;
        const uint64_t hash = (uint64_t)node->colour;
        int32_t first;
        for (uint32_t step = 0; (first = stw_index_next(&index, hash, &step)) >= 0 && r->node[first].colour != node->colour;) {
        }
        if (first < 0) {
            TRY(stw_index_add(&index, hash, (int32_t)order[k], error));
        } else {
            b->graph->colocate[b->op_of[order[k]]] = b->op_of[first];
        }
    }
    return STW_OK;
}

static stw_status build(reader *r, stw_graph *graph, stw_error *error) {
    sources s = {0};
    byte_scale scale = {0};
    int32_t *order;
    TRY(list_sources(r, &r->scratch, &s, error));
    TRY(order_nodes(r, &s, &order, error));
    if (!choose_scale(r, &scale)) return stw_json_status(&r->json);
    builder b = {.r = r, .graph = graph, .scale = &scale, .dtype = stw_dtype_find(STW_STR("u8"))};
    TRY(make_room(&b, error));
    for (int64_t k = 0; k < r->node_count; k++) TRY(add_record(&b, order[k], &s, error));
    TRY(join_colours(&b, order, error));
    TRY(stw_machine_create((int32_t)(r->accelerators + r->cpus), &graph->machine, error));
    TRY(fill_machine(r, &scale, graph->machine, error));
    graph->size_scale = scale.size_scale;
    return stw_construct_finish(&b.constructor, NULL, 0, error);
}

/* ---- both ---- */

static stw_status read_all(reader *r, stw_graph *graph, stw_error *error) {
    if (read_head(r)) {
        id_entry *entry;
        STW_TRY_NEW(&r->scratch, entry, r->node_count, error);
        if (sort_ids(r, entry)) resolve_edges(r, entry);
    }
    if (r->json.failed) return stw_json_status(&r->json);
    TRY(stw_json_finish(&r->json));
    return build(r, graph, error);
}

stw_status stw_dnnpart_read(stw_str text, stw_graph **out, stw_error *error) {
    reader r = {.node_count = 0};
    TRY(stw_graph_create(out, error));
    stw_status status = stw_arena_create_for_file(&r.scratch, error);
    if (status == STW_OK) {
        stw_json_init(&r.json, text, &r.scratch, error);
        status = read_all(&r, *out, error);
        stw_arena_destroy(&r.scratch);
    }
    if (status == STW_OK) return STW_OK;
    stw_graph_destroy(*out);
    *out = NULL;
    return status;
}
