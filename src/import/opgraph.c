/* Reads opgraph JSON, the project's own graph format (docs/formats/opgraph.md), one node after the other. It is stricter than
 * what makes the graph (graph/construct.h): what a model file may leave to us, a file of this format must have right. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "graph/construct.h"
#include "import/import.h"

typedef struct {
    stw_json json;
    stw_graph *graph;
    stw_constructor constructor;
    stw_arena scratch; /* gone after reading */
    stw_op_index *ops;
    stw_vector output;
    stw_vector shape, input, control; /* of the node that is being read */
    int64_t loss;
} reader;

/* ---- one node ---- */

/* One node of an opgraph file: its values are read as they come and checked once it is complete, so that a message can name line
 * and node. */

/* The keys of a node; a bit each, to refuse repeats and to know what is missing. */
enum {
    KEY_ID = 1,
    KEY_NAME = 2,
    KEY_OP = 4,
    KEY_INPUTS = 8,
    KEY_DTYPE = 16,
    KEY_SHAPE = 32,
    KEY_BYTES = 64,
    KEY_FLOPS = 128,
    KEY_US = 256,
    KEY_VIEW = 512,
    KEY_LABEL = 1024,
    KEY_UPDATES = 2048,
    KEY_CONTROL = 4096,
    KEY_COLOCATE = 8192,
    KEY_ATTRIBUTES = 16384,
    KEY_MODULE = 32768
};
static const struct {
    const char *name;
    int bit;
    bool required;
} node_keys[] = {
    {"id", KEY_ID, true},
    {"name", KEY_NAME, true},
    {"op", KEY_OP, true},
    {"inputs", KEY_INPUTS, true},
    {"dtype", KEY_DTYPE, true},
    {"shape", KEY_SHAPE, true},
    {"bytes", KEY_BYTES, false},
    {"flops", KEY_FLOPS, false},
    {"us", KEY_US, false},
    {"view", KEY_VIEW, false},
    {"label", KEY_LABEL, false},
    {"updates", KEY_UPDATES, false},
    {"control", KEY_CONTROL, false},
    {"colocate", KEY_COLOCATE, false},
    {"attributes", KEY_ATTRIBUTES, false},
    {"module", KEY_MODULE, false},
};
enum { NODE_KEY_COUNT = sizeof node_keys / sizeof node_keys[0] };

/* Of most nodes the keys come in the order of the table, some left out: the search goes on behind the last one. */
static int node_key_bit(stw_str key, int *last) {
    for (int step = 1; step <= NODE_KEY_COUNT; step++) {
        const int k = (*last + step) % NODE_KEY_COUNT;
        if (key.length == 0 || key.p[0] != node_keys[k].name[0] || !stw_str_is(key, node_keys[k].name)) continue;
        *last = k;
        return node_keys[k].bit;
    }
    return 0;
}

static bool out_of_memory(reader *r) { return stw_json_lacks_memory(&r->json, "the graph"); }

static bool read_string(reader *r, stw_str *out) {
    stw_str text;
    if (!stw_json_string(&r->json, &text)) return false;
    if (text.length > 0 && memchr(text.p, '\0', (size_t)text.length) != NULL) {
        return stw_json_fail(&r->json, "a string contains a NUL character");
    }
    *out = stw_str_copy(&r->graph->arena, text);
    return out->p != NULL || out_of_memory(r);
}

static bool read_ints(reader *r, stw_vector *list) {
    int64_t value;
    list->count = 0;
    if (!stw_json_array(&r->json)) return false;
    while (stw_json_item(&r->json)) {
        if (stw_json_int64(&r->json, &value) && !stw_vector_push(list, value)) return out_of_memory(r);
    }
    return !r->json.failed;
}

static bool read_non_negative(reader *r, const char *key, int64_t *out) {
    if (!stw_json_int64(&r->json, out)) return false;
    return *out >= 0 || stw_json_fail(&r->json, "%s is %lld; it must be 0 or more", key, (long long)*out);
}

static bool read_times(reader *r, int32_t i) {
    stw_str kind;
    double us;
    if (!stw_json_object(&r->json)) return false;
    while (stw_json_key(&r->json, &kind)) {
        if (!stw_json_double(&r->json, &us)) return false;
        if (us < 0.0) return stw_json_fail(&r->json, "a time of %g us; times must be 0 or more", us);
        if (us > STW_GRAPH_MAX_US)
            return stw_json_fail(&r->json, "a time of %g us; at most %g (23 days) are possible; is it in other units?", us,
                                 STW_GRAPH_MAX_US);
        double *column;
        stw_error why;
        if (stw_construct_times(&r->constructor, kind, &column, &why) != STW_OK)
            return why.status == STW_ERROR_MEMORY ? out_of_memory(r) : stw_json_fail(&r->json, "%s", why.message);
        column[i] = us;
    }
    return !r->json.failed;
}

static bool read_attributes(reader *r, stw_str *out) {
    if (stw_json_peek(&r->json) != STW_JSON_OBJECT) return stw_json_fail(&r->json, "attributes must be an object");
    stw_str raw;
    if (!stw_json_skip(&r->json, &raw)) return false;
    *out = stw_str_copy(&r->graph->arena, raw);
    return out->p != NULL || out_of_memory(r);
}

static bool read_dtype(reader *r, int32_t *out) {
    stw_str name;
    if (!stw_json_string(&r->json, &name)) return false;
    *out = stw_dtype_find(name);
    if (*out < 0) return stw_json_fail(&r->json, "unknown dtype '%.*s'; known: %s", STW_STR_SHOW(name), stw_dtype_list);
    return true;
}

typedef struct { /* what is checked once the whole node is known */
    stw_raw_node raw;
    int64_t id, updates, colocate;
    bool view;
} node_values;

static bool read_node_value(reader *r, int32_t i, int bit, node_values *v) {
    switch (bit) {
        case KEY_ID: return stw_json_int64(&r->json, &v->id);
        case KEY_NAME: return read_string(r, &v->raw.name);
        case KEY_OP: return read_string(r, &v->raw.op);
        case KEY_MODULE: return read_string(r, &v->raw.module);
        case KEY_LABEL: return read_string(r, &v->raw.label);
        case KEY_INPUTS: return read_ints(r, &r->input);
        case KEY_CONTROL: return read_ints(r, &r->control);
        case KEY_SHAPE: return read_ints(r, &r->shape);
        case KEY_DTYPE: return read_dtype(r, &v->raw.dtype);
        case KEY_BYTES: return read_non_negative(r, "bytes", &v->raw.bytes);
        case KEY_FLOPS: return read_non_negative(r, "flops", &v->raw.flops);
        case KEY_US: return read_times(r, i);
        case KEY_VIEW: return stw_json_bool(&r->json, &v->view);
        case KEY_UPDATES: return read_non_negative(r, "updates", &v->updates);
        case KEY_COLOCATE: return read_non_negative(r, "colocate", &v->colocate);
        case KEY_ATTRIBUTES: return read_attributes(r, &v->raw.attributes);
        default: return stw_json_skip(&r->json, NULL);
    }
}

/* Fails at the beginning of the node, naming it. */
static bool node_fail(reader *r, const char *start, stw_str name, const char *format, ...) STW_PRINTF(4, 5);
static bool node_fail(reader *r, const char *start, stw_str name, const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->json.cursor = start;
    return stw_json_fail(&r->json, "node %d '%.*s': %s", r->constructor.count, STW_STR_SHOW(name), text);
}

/* Puts the node in front of an error that stands already; always false. */
static bool name_node(reader *r, int32_t i, stw_str name) {
    char prefix[120];
    snprintf(prefix, sizeof prefix, name.length > 0 ? "node %d '%.*s'" : "node %d", i, STW_STR_SHOW(name));
    if (r->json.failed) stw_error_prefix(r->json.error, prefix);
    return false;
}

static bool check_ids(reader *r, const char *start, stw_str name, const char *what, const stw_vector *list) {
    const int32_t i = r->constructor.count;
    for (int64_t k = 0; k < list->count; k++) {
        const int64_t id = list->data[k];
        if (id < 0 || id >= r->graph->N) {
            return node_fail(r, start, name, "%s %lld does not exist; ids run from 0 to %d", what, (long long)id,
                             r->graph->N - 1);
        }
        if (id >= i) {
            return node_fail(r, start, name,
                             "%s %lld does not come before it (a cycle, or nodes out of order); sort the nodes "
                             "topologically",
                             what, (long long)id);
        }
    }
    return true;
}

static bool check_update(reader *r, const char *start, const node_values *v) {
    const stw_graph *graph = r->graph;
    const int64_t parameter = v->updates;
    if (parameter < 0) return true;
    if (v->raw.kind != STW_NODE_OP) return node_fail(r, start, v->raw.name, "only an op can update a parameter");
    if (parameter >= r->constructor.count || !stw_node_is_resident(graph->kind[parameter])) {
        return node_fail(r, start, v->raw.name, "updates %lld, which is not an earlier parameter or buffer",
                         (long long)parameter);
    }
    if (graph->updated_by[parameter] >= 0) {
        return node_fail(r, start, v->raw.name, "updates %lld, which op %d updates already; one update each is allowed",
                         (long long)parameter, graph->updated_by[parameter]);
    }
    return true;
}

/* What only this format asks for. */
static bool check_node(reader *r, const char *start, int keys, const node_values *v) {
    const stw_str name = v->raw.name, op = v->raw.op;
    for (int k = 0; k < NODE_KEY_COUNT; k++) {
        if (node_keys[k].required && !(keys & node_keys[k].bit))
            return node_fail(r, start, name, "\"%s\" is missing", node_keys[k].name);
    }
    if (v->id != r->constructor.count) {
        return node_fail(r, start, name, "its id is %lld, but it is at position %d; ids count from 0 in file order",
                         (long long)v->id, r->constructor.count);
    }
    if (v->view && stw_node_is_source((uint8_t)v->raw.kind))
        return node_fail(r, start, name, "a %.*s cannot be a view", STW_STR_SHOW(op));
    if (r->control.count > 0 && v->raw.kind != STW_NODE_OP)
        return node_fail(r, start, name, "only an op can have control edges; put them on the ops that read it");
    if (v->colocate >= r->graph->N) return node_fail(r, start, name, "colocate %lld does not exist", (long long)v->colocate);
    return check_ids(r, start, name, "input", &r->input) && check_ids(r, start, name, "control", &r->control) &&
           check_update(r, start, v);
}

static bool put_node(reader *r, const char *start, const node_values *v) {
    const stw_raw_links links = {.input = r->input.data,
                                 .control = r->control.data,
                                 .input_count = r->input.count,
                                 .control_count = r->control.count,
                                 .updates = (int32_t)v->updates,
                                 .colocate = (int32_t)v->colocate};
    stw_error why;
    if (stw_construct_node(&r->constructor, &v->raw, &links, &why) == STW_OK) return true;
    return why.status == STW_ERROR_MEMORY ? out_of_memory(r) : node_fail(r, start, v->raw.name, "%s", why.message);
}

/* Reads node i at the cursor, checks it and puts it into the graph; false after an error. */
static bool read_node(reader *r, int32_t i) {
    const char *start = r->json.cursor;
    node_values v = {.raw = {.dtype = STW_UNKNOWN, .bytes = STW_UNKNOWN, .moved = STW_UNKNOWN, .at = STW_UNKNOWN},
                     .updates = -1,
                     .colocate = -1};
    stw_str key;
    int keys = 0, last = -1;
    r->shape.count = r->input.count = r->control.count = 0;
    if (!stw_json_object(&r->json)) return name_node(r, i, v.raw.name);
    while (stw_json_key(&r->json, &key)) {
        const int bit = node_key_bit(key, &last);
        if (keys & bit) return node_fail(r, start, v.raw.name, "\"%.*s\" stands twice", STW_STR_SHOW(key));
        keys |= bit;
        if (!read_node_value(r, i, bit, &v)) return name_node(r, i, v.raw.name);
    }
    if (r->json.failed) return name_node(r, i, v.raw.name);
    v.raw.kind = stw_node_source_find(v.raw.op);
    if (v.raw.kind == STW_NODE_OP && v.view) v.raw.kind = STW_NODE_VIEW;
    if (v.raw.kind == STW_NODE_VIEW) v.raw.bytes = STW_UNKNOWN; /* files say 0 */
    const int32_t row = stw_op_find_any(r->ops, v.raw.op);
    v.raw.op_class = row >= 0 ? (int32_t)stw_op_table[row].op_class : STW_UNKNOWN;
    v.raw.shape = r->shape.data;
    v.raw.rank = (int32_t)r->shape.count;
    return check_node(r, start, keys, &v) && put_node(r, start, &v);
}

/* ---- the file ---- */

static bool read_nodes(reader *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX) return stw_json_fail(&r->json, "more than 2^31 - 2 nodes");
    if (stw_construct_begin(&r->constructor, r->graph, count, &r->scratch, NULL) != STW_OK) return out_of_memory(r);
    if (!stw_json_array(&r->json)) return false;
    int32_t i = 0;
    while (stw_json_item(&r->json)) {
        if (i == count) { /* the first pass failed within this node; so does this one, with a message */
            stw_json_skip(&r->json, NULL);
            return name_node(r, i, STW_STR("")) || stw_json_fail(&r->json, "node %d cannot be read", i);
        }
        if (!read_node(r, i++)) return false;
    }
    return !r->json.failed;
}

static bool read_format(reader *r) {
    stw_str format;
    if (!stw_json_string(&r->json, &format)) return false;
    return stw_str_is(format, "opgraph") ||
           stw_json_fail(&r->json, "format '%.*s' is not a graph; \"opgraph\" is expected", STW_STR_SHOW(format));
}

static bool read_version(reader *r) {
    int64_t version;
    if (!stw_json_int64(&r->json, &version)) return false;
    return version == 1 || stw_json_fail(&r->json, "opgraph version %lld; this program reads version 1", (long long)version);
}

static bool read_head_value(reader *r, stw_str key, int *seen) {
    static const char *const keys[] = {"format", "version", "name", "family", "loss", "outputs", "nodes"};
    int which = 0;
    while (which < 7 && !stw_str_is(key, keys[which])) which++;
    if (which == 7) return stw_json_skip(&r->json, NULL);
    if (*seen & (1 << which)) return stw_json_fail(&r->json, "\"%s\" stands twice", keys[which]);
    *seen |= 1 << which;
    switch (which) {
        case 0: return read_format(r);
        case 1: return read_version(r);
        case 2: return read_string(r, &r->graph->name);
        case 3: return read_string(r, &r->graph->family);
        case 4: return stw_json_peek(&r->json) == STW_JSON_NULL ? stw_json_null(&r->json) : stw_json_int64(&r->json, &r->loss);
        case 5: return read_ints(r, &r->output);
        default: return read_nodes(r);
    }
}

static bool check_head(reader *r, int seen) {
    stw_graph *graph = r->graph;
    if (!(seen & 1)) return stw_json_fail(&r->json, "\"format\":\"opgraph\" is missing; is this a graph file?");
    if (!(seen & 2)) return stw_json_fail(&r->json, "\"version\" is missing; write \"version\":1");
    if (!(seen & 64)) return stw_json_fail(&r->json, "\"nodes\" is missing");
    if (r->loss < -1 || r->loss >= graph->N)
        return stw_json_fail(&r->json, "loss %lld is not a node; ids run from 0 to %d", (long long)r->loss, graph->N - 1);
    graph->loss = (int32_t)r->loss;
    if (r->output.count > INT32_MAX) return stw_json_fail(&r->json, "more than 2^31 - 1 outputs");
    for (int64_t k = 0; k < r->output.count; k++) {
        const int64_t id = r->output.data[k];
        if (id < 0 || id >= graph->N)
            return stw_json_fail(&r->json, "output %lld is not a node; ids run from 0 to %d", (long long)id, graph->N - 1);
    }
    return true;
}

static stw_status read_graph(reader *r, stw_error *error) {
    stw_str key;
    int seen = 0;
    TRY(stw_op_index_create(&r->scratch, &r->ops, error));
    /* The vectors and decoded strings grow in scratch memory of their own. */
    stw_vector *vectors[] = {&r->shape, &r->input, &r->control, &r->output};
    for (int k = 0; k < 4; k++) vectors[k]->arena = &r->scratch;
    if (stw_json_object(&r->json)) {
        while (stw_json_key(&r->json, &key)) {
            if (!read_head_value(r, key, &seen)) break;
        }
    }
    if (!r->json.failed) check_head(r, seen);
    TRY(stw_json_finish(&r->json));
    return stw_construct_finish(&r->constructor, r->output.data, r->output.count, error);
}

stw_status stw_opgraph_read(stw_str text, stw_graph **out, stw_error *error) {
    reader r = {.loss = -1};
    TRY(stw_graph_create(out, error));
    r.graph = *out;
    stw_status status = stw_arena_create_for_file(&r.scratch, error);
    if (status == STW_OK) {
        stw_json_init(&r.json, text, &r.scratch, error);
        status = read_graph(&r, error);
        stw_arena_destroy(&r.scratch);
    }
    if (status == STW_OK) return STW_OK;
    stw_graph_destroy(*out);
    *out = NULL;
    return status;
}
