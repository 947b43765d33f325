/* Reads opgraph JSON, the project's own graph format (docs/formats/opgraph.md): one node after the other into flat arrays. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/json.h"
#include "base/vector.h"
#include "graph/graph.h"
#include "import/import.h"

enum { MAX_KINDS = 64 };

typedef struct {
    stw_json json;
    stw_graph *graph;
    stw_arena scratch; /* gone after reading */
    stw_op_index *ops;
    stw_vector shape, input, control, output;
    stw_str kind_name[MAX_KINDS];
    double *kind_us[MAX_KINDS]; /* (N) in the graph's arena */
    int64_t loss;
    int64_t total_bytes; /* of all tensors so far */
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
    KEY_ATTRIBUTES = 16384
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
};
enum { NODE_KEY_COUNT = sizeof node_keys / sizeof node_keys[0] };

static int node_key_bit(stw_str key) {
    for (int k = 0; k < NODE_KEY_COUNT; k++) {
        if (stw_str_is(key, node_keys[k].name)) return node_keys[k].bit;
    }
    return 0;
}

static bool out_of_memory(reader *r) { return stw_json_fail(&r->json, "out of memory"); }

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

/* The column of times for one kind of device; a new one is all NaN. */
static double *kind_column(reader *r, stw_str kind) {
    stw_graph *graph = r->graph;
    int32_t k = 0;
    while (k < graph->kind_count && !stw_str_equal(r->kind_name[k], kind)) k++;
    if (k < graph->kind_count) return r->kind_us[k];
    if (k == MAX_KINDS) {
        stw_json_fail(&r->json, "times for more than %d kinds of device", MAX_KINDS);
        return NULL;
    }
    r->kind_name[k] = stw_str_copy(&graph->arena, kind);
    r->kind_us[k] = STW_NEW(&graph->arena, double, graph->N);
    if (r->kind_us[k] == NULL || r->kind_name[k].p == NULL) {
        out_of_memory(r);
        return NULL;
    }
    for (int32_t i = 0; i < graph->N; i++) r->kind_us[k][i] = NAN;
    graph->kind_count++;
    return r->kind_us[k];
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
        double *column = kind_column(r, kind);
        if (column == NULL) return false;
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

static bool read_dtype(reader *r, uint8_t *out) {
    stw_str name;
    if (!stw_json_string(&r->json, &name)) return false;
    const int32_t dtype = stw_dtype_find(name);
    if (dtype < 0) return stw_json_fail(&r->json, "unknown dtype '%.*s'; known: %s", STW_STR_SHOW(name), stw_dtype_list);
    *out = (uint8_t)dtype;
    return true;
}

typedef struct { /* what is checked once the whole node is known */
    int64_t id, bytes, updates, colocate;
    bool view;
} node_values;

static bool read_node_value(reader *r, int32_t i, int bit, node_values *v) {
    stw_graph *graph = r->graph;
    switch (bit) {
        case KEY_ID: return stw_json_int64(&r->json, &v->id);
        case KEY_NAME: return read_string(r, &graph->node_name[i]);
        case KEY_OP: return read_string(r, &graph->op_name[i]);
        case KEY_LABEL: return read_string(r, &graph->label[i]);
        case KEY_INPUTS: return read_ints(r, &r->input);
        case KEY_CONTROL: return read_ints(r, &r->control);
        case KEY_SHAPE: return read_ints(r, &r->shape);
        case KEY_DTYPE: return read_dtype(r, &graph->dtype[i]);
        case KEY_BYTES: return read_non_negative(r, "bytes", &v->bytes);
        case KEY_FLOPS: return read_non_negative(r, "flops", &graph->flops[i]);
        case KEY_US: return read_times(r, i);
        case KEY_VIEW: return stw_json_bool(&r->json, &v->view);
        case KEY_UPDATES: return read_non_negative(r, "updates", &v->updates);
        case KEY_COLOCATE: return read_non_negative(r, "colocate", &v->colocate);
        case KEY_ATTRIBUTES: return read_attributes(r, &graph->attributes[i]);
        default: return stw_json_skip(&r->json, NULL);
    }
}

/* Fails at the beginning of the node, naming it. */
static bool node_fail(reader *r, const char *start, int32_t i, const char *format, ...) STW_PRINTF(4, 5);
static bool node_fail(reader *r, const char *start, int32_t i, const char *format, ...) {
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->json.cursor = start;
    return stw_json_fail(&r->json, "node %d '%.*s': %s", i, STW_STR_SHOW(r->graph->node_name[i]), text);
}

/* Puts the node in front of an error in one of its values, which says only where it is. Always returns false. */
/* Puts the node in front of an error that stands already; always false. */
static bool name_node(reader *r, int32_t i) {
    char prefix[120];
    const stw_str name = i < r->graph->N ? r->graph->node_name[i] : STW_STR("");
    snprintf(prefix, sizeof prefix, name.length > 0 ? "node %d '%.*s'" : "node %d", i, STW_STR_SHOW(name));
    if (r->json.failed) stw_error_prefix(r->json.error, prefix);
    return false;
}

static uint8_t node_kind(stw_str op, bool view) {
    if (stw_str_is(op, "parameter")) return STW_NODE_PARAMETER;
    if (stw_str_is(op, "buffer")) return STW_NODE_BUFFER;
    if (stw_str_is(op, "input")) return STW_NODE_INPUT;
    if (stw_str_is(op, "constant")) return STW_NODE_CONSTANT;
    return view ? STW_NODE_VIEW : STW_NODE_OP;
}

/* Bytes = product of the shape x size of the dtype. */
static bool shape_bytes(const reader *r, int32_t i, int64_t *out) {
    const stw_graph *graph = r->graph;
    int64_t bytes = stw_dtype_bytes(graph->dtype[i]);
    bool empty = bytes == 0, overflow = false;
    for (int64_t k = graph->shape_start[i]; k < r->shape.count; k++) {
        empty |= r->shape.data[k] == 0;
        overflow |= __builtin_mul_overflow(bytes, r->shape.data[k], &bytes);
    }
    *out = empty ? 0 : bytes;
    return empty || !overflow;
}

static bool check_shape(reader *r, const char *start, int32_t i, bool has_bytes, int64_t bytes) {
    stw_graph *graph = r->graph;
    for (int64_t k = graph->shape_start[i]; k < r->shape.count; k++) {
        if (r->shape.data[k] < 0) {
            return node_fail(r, start, i, "dimension %lld of its shape is %lld; dynamic shapes must be fixed first",
                             (long long)(k - graph->shape_start[i]), (long long)r->shape.data[k]);
        }
    }
    int64_t computed;
    const bool fits = shape_bytes(r, i, &computed);
    const bool stated = has_bytes && graph->kind[i] != STW_NODE_VIEW; /* files say 0 for views */
    if (!stated && !fits) return node_fail(r, start, i, "its shape holds more than 2^63 bytes");
    graph->bytes[i] = stated ? bytes : computed;
    if (graph->kind[i] == STW_NODE_VIEW) return true;
    if (graph->bytes[i] > STW_GRAPH_MAX_BYTES - r->total_bytes) {
        return node_fail(r, start, i, "with its %lld bytes the tensors exceed 2^56 bytes in all; check its size",
                         (long long)graph->bytes[i]);
    }
    r->total_bytes += graph->bytes[i];
    return true;
}

static bool check_ids(reader *r, const char *start, int32_t i, const char *what, const stw_vector *list, int64_t from) {
    for (int64_t k = from; k < list->count; k++) {
        const int64_t id = list->data[k];
        if (id < 0 || id >= r->graph->N) {
            return node_fail(r, start, i, "%s %lld does not exist; ids run from 0 to %d", what, (long long)id, r->graph->N - 1);
        }
        if (id >= i) {
            return node_fail(r, start, i,
                             "%s %lld does not come before it (a cycle, or nodes out of order); sort the nodes "
                             "topologically",
                             what, (long long)id);
        }
    }
    return true;
}

static bool check_update(reader *r, const char *start, int32_t i, int64_t parameter) {
    stw_graph *graph = r->graph;
    if (parameter < 0) return true;
    if (graph->kind[i] != STW_NODE_OP) return node_fail(r, start, i, "only an op can update a parameter");
    if (parameter >= i || !stw_node_is_resident(graph->kind[parameter])) {
        return node_fail(r, start, i, "updates %lld, which is not an earlier parameter or buffer", (long long)parameter);
    }
    if (graph->updated_by[parameter] >= 0) {
        return node_fail(r, start, i, "updates %lld, which op %d updates already; one update each is allowed",
                         (long long)parameter, graph->updated_by[parameter]);
    }
    graph->updated_by[parameter] = i;
    graph->updates[i] = (int32_t)parameter;
    return true;
}

static bool check_node(reader *r, const char *start, int32_t i, int keys, const node_values *v) {
    stw_graph *graph = r->graph;
    for (int k = 0; k < NODE_KEY_COUNT; k++) {
        if (node_keys[k].required && !(keys & node_keys[k].bit))
            return node_fail(r, start, i, "\"%s\" is missing", node_keys[k].name);
    }
    if (v->id != i) {
        return node_fail(r, start, i, "its id is %lld, but it is at position %d; ids count from 0 in file order",
                         (long long)v->id, i);
    }
    graph->kind[i] = node_kind(graph->op_name[i], v->view);
    const bool source = stw_node_is_source(graph->kind[i]);
    const int64_t inputs = r->input.count - graph->input_start[i], controls = r->control.count - graph->control_start[i];
    if (source && v->view) return node_fail(r, start, i, "a %.*s cannot be a view", STW_STR_SHOW(graph->op_name[i]));
    if (source && inputs > 0) return node_fail(r, start, i, "a %.*s has no inputs", STW_STR_SHOW(graph->op_name[i]));
    if (v->view && inputs == 0) return node_fail(r, start, i, "a view needs an input to be a view of");
    if (controls > 0 && graph->kind[i] != STW_NODE_OP) {
        return node_fail(r, start, i, "only an op can have control edges; put them on the ops that read it");
    }
    if (v->colocate >= graph->N) return node_fail(r, start, i, "colocate %lld does not exist", (long long)v->colocate);
    graph->colocate[i] = (int32_t)v->colocate;
    const int32_t row = source ? -1 : stw_op_find_any(r->ops, graph->op_name[i]);
    graph->known[i] = source || row >= 0;
    graph->op_class[i] = (uint8_t)(row >= 0 ? stw_op_table[row].op_class : STW_CLASS_OPAQUE);
    if (graph->op_class[i] == STW_CLASS_CONTROL) graph->apart[i] = stw_apart_control;
    graph->op_count += graph->kind[i] == STW_NODE_OP;
    return check_shape(r, start, i, (keys & KEY_BYTES) != 0, v->bytes) &&
           check_ids(r, start, i, "input", &r->input, graph->input_start[i]) &&
           check_ids(r, start, i, "control", &r->control, graph->control_start[i]) && check_update(r, start, i, v->updates);
}

/* Reads node i at the cursor and checks it; false after an error. */
static bool read_node(reader *r, int32_t i) {
    stw_graph *graph = r->graph;
    const char *start = r->json.cursor;
    node_values values = {.updates = -1, .colocate = -1};
    stw_str key;
    int keys = 0;
    graph->shape_start[i] = r->shape.count;
    graph->input_start[i] = r->input.count;
    graph->control_start[i] = r->control.count;
    if (!stw_json_object(&r->json)) return name_node(r, i);
    while (stw_json_key(&r->json, &key)) {
        const int bit = node_key_bit(key);
        if (keys & bit) return node_fail(r, start, i, "\"%.*s\" stands twice", STW_STR_SHOW(key));
        keys |= bit;
        if (!read_node_value(r, i, bit, &values)) return name_node(r, i);
    }
    if (r->json.failed) return name_node(r, i);
    return check_node(r, start, i, keys, &values);
}

/* ---- the file ---- */

static bool read_nodes(reader *r) {
    const int64_t count = stw_json_count_items(&r->json, r->scratch);
    if (count >= INT32_MAX) return stw_json_fail(&r->json, "more than 2^31 - 2 nodes");
    if (stw_graph_allocate(r->graph, count, NULL) != STW_OK) return out_of_memory(r);
    if (!stw_json_array(&r->json)) return false;
    int32_t i = 0;
    while (stw_json_item(&r->json)) {
        if (i == count) { /* the first pass failed within this node; so does this one, with a message */
            stw_json_skip(&r->json, NULL);
            return name_node(r, i) || stw_json_fail(&r->json, "node %d cannot be read", i);
        }
        if (!read_node(r, i++)) return false;
    }
    r->graph->shape_start[count] = r->shape.count;
    r->graph->input_start[count] = r->input.count;
    r->graph->control_start[count] = r->control.count;
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

static stw_status copy_int32(stw_arena *arena, const stw_vector *from, int32_t **out, stw_error *error) {
    STW_TRY_NEW(arena, *out, from->count, error);
    for (int64_t k = 0; k < from->count; k++) (*out)[k] = (int32_t)from->data[k];
    return STW_OK;
}

/* Moves what was collected aside into the graph. */
static stw_status keep_lists(reader *r, stw_error *error) {
    stw_graph *graph = r->graph;
    stw_arena *arena = &graph->arena;
    TRY(copy_int32(arena, &r->input, &graph->input, error));
    TRY(copy_int32(arena, &r->control, &graph->control, error));
    TRY(copy_int32(arena, &r->output, &graph->output, error));
    graph->output_count = (int32_t)r->output.count;
    STW_TRY_NEW(arena, graph->shape, r->shape.count, error);
    if (r->shape.count > 0) memcpy(graph->shape, r->shape.data, (size_t)r->shape.count * sizeof *graph->shape);
    STW_TRY_NEW(arena, graph->kind_name, graph->kind_count, error);
    STW_TRY_NEW(arena, graph->us, graph->kind_count, error);
    for (int32_t k = 0; k < graph->kind_count; k++) {
        graph->kind_name[k] = r->kind_name[k];
        graph->us[k] = r->kind_us[k];
    }
    if (graph->name.p == NULL) graph->name = STW_STR("");
    if (graph->family.p == NULL) graph->family = STW_STR("");
    return STW_OK;
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
    TRY(keep_lists(r, error));
    return stw_graph_finish(r->graph, error);
}

stw_status stw_opgraph_read(stw_str text, stw_graph **out, stw_error *error) {
    *out = NULL;
    reader r = {.loss = -1};
    stw_arena arena;
    TRY(stw_arena_create_for_file(&arena, error));
    stw_status status = stw_arena_create_for_file(&r.scratch, error);
    r.graph = STW_NEW(&arena, stw_graph, 1);
    if (status == STW_OK) {
        r.graph->arena = arena;
        stw_json_init(&r.json, text, &r.scratch, error);
        status = read_graph(&r, error);
        arena = r.graph->arena;
    }
    stw_arena_destroy(&r.scratch);
    if (status == STW_OK) {
        *out = r.graph;
    } else {
        stw_arena_destroy(&arena);
    }
    return status;
}
