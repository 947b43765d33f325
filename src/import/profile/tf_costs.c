/* Measured costs of TensorFlow, and where they go in a graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "import/profile/tf_costs.h"
#include "import/tensorflow/graphdef.h"
#include "import/wire/pbfields.h"
#include "import/wire/pbwire.h"

/* ---- reading ---- */

enum { /* fields by what they mean here */
       IGNORED,
       COST_NODE,
       STEP_NODE,
       NAME,
       DEVICE,
       STEP_DEVICE,
       STEP_DEVICE_NAME,
       COST_US,
       START_US,
       END_US,
       START_NS,
       END_NS,
       SIZE,
       OPERATOR
};

#define FIELDS(list) (list), (int32_t)(sizeof(list) / sizeof(list)[0])

static const stw_wanted_field output_fields[] = {{1, "size", STW_WANTED_NUMBER, SIZE, NULL, NULL, 0}};
static const stw_wanted output_wanted = {"output_info", FIELDS(output_fields)};

static const stw_wanted_field cost_node_fields[] = {
    {1, "name", STW_WANTED_TEXT, NAME, NULL, NULL, 0},
    {2, "device", STW_WANTED_TEXT, DEVICE, NULL, NULL, 0},
    {5, "output_info", STW_WANTED_MESSAGE, IGNORED, &output_wanted, NULL, 0},
    {6, "temporary_memory_size", STW_WANTED_NUMBER, SIZE, NULL, NULL, 0},
    {9, "compute_cost", STW_WANTED_NUMBER, COST_US, NULL, NULL, 0},
    {0, "op", STW_WANTED_TEXT, OPERATOR, NULL, NULL, 0}, /* in text: of a graph, whose nodes are called the same */
};
static const stw_wanted cost_node_wanted = {"node", FIELDS(cost_node_fields)};

static const stw_wanted_field cost_graph_fields[] = {{1, "node", STW_WANTED_MESSAGE, COST_NODE, &cost_node_wanted, NULL, 0}};
static const stw_wanted cost_graph_wanted = {"cost graph", FIELDS(cost_graph_fields)};

static const stw_wanted_field memory_fields[] = {{2, "total_bytes", STW_WANTED_NUMBER, SIZE, NULL, NULL, 0}};
static const stw_wanted memory_wanted = {"memory", FIELDS(memory_fields)};

static const stw_wanted_field step_node_fields[] = {
    {1, "node_name", STW_WANTED_TEXT, NAME, NULL, NULL, 0},
    {3, "op_start_rel_micros", STW_WANTED_NUMBER, START_US, NULL, NULL, 0},
    {4, "op_end_rel_micros", STW_WANTED_NUMBER, END_US, NULL, NULL, 0},
    {6, "memory", STW_WANTED_MESSAGE, IGNORED, &memory_wanted, NULL, 0},
    {14, "op_start_rel_nanos", STW_WANTED_NUMBER, START_NS, NULL, NULL, 0},
    {15, "op_end_rel_nanos", STW_WANTED_NUMBER, END_NS, NULL, NULL, 0},
};
static const stw_wanted step_node_wanted = {"node_stats", FIELDS(step_node_fields)};

static const stw_wanted_field step_device_fields[] = {
    {1, "device", STW_WANTED_TEXT, STEP_DEVICE_NAME, NULL, NULL, 0},
    {2, "node_stats", STW_WANTED_MESSAGE, STEP_NODE, &step_node_wanted, NULL, 0},
};
static const stw_wanted step_device_wanted = {"dev_stats", FIELDS(step_device_fields)};

static const stw_wanted_field step_fields[] = {{1, "dev_stats", STW_WANTED_MESSAGE, STEP_DEVICE, &step_device_wanted, NULL, 0}};
static const stw_wanted step_wanted = {"step_stats", FIELDS(step_fields)};

static const stw_wanted_field run_fields[] = {
    {1, "step_stats", STW_WANTED_MESSAGE, IGNORED, &step_wanted, NULL, 0},
    {2, "cost_graph", STW_WANTED_MESSAGE, IGNORED, &cost_graph_wanted, NULL, 0},
};
static const stw_wanted run_wanted = {"run metadata", FIELDS(run_fields)};

typedef struct {
    stw_arena *arena;
    stw_tf_cost *row;
    int64_t count, room;
    int64_t device_first; /* the first row of the device that is open */
    stw_str device_name;
    stw_tf_cost open;
    int64_t start_us, end_us, start_ns, end_ns;
    bool *is_step; /* (room) beside row */
    int64_t step_room, step_count;
} collector;

static stw_status begin(void *context, int32_t id, int64_t at, stw_error *error) {
    collector *c = context;
    (void)at, (void)error;
    if (id == STEP_DEVICE) {
        c->device_first = c->count;
        c->device_name = (stw_str){0};
    }
    if (id == STEP_NODE || id == COST_NODE) {
        c->open = (stw_tf_cost){0};
        c->start_us = c->end_us = c->start_ns = c->end_ns = 0;
    }
    return STW_OK;
}

static stw_status keep_row(collector *c, bool is_step, stw_error *error) {
    if (c->open.name.length == 0 || c->open.us < 0.0) return STW_OK;
    TRY(stw_tf_grow(c->arena, &c->row, c->count, &c->room, sizeof *c->row, error));
    TRY(stw_tf_grow(c->arena, &c->is_step, c->count, &c->step_room, sizeof *c->is_step, error));
    c->is_step[c->count] = is_step;
    c->row[c->count++] = c->open;
    c->step_count += is_step;
    return STW_OK;
}

static stw_status end(void *context, int32_t id, stw_error *error) {
    collector *c = context;
    if (id == STEP_DEVICE) {
        for (int64_t i = c->device_first; i < c->count; i++) c->row[i].device = c->device_name;
    }
    if (id == STEP_NODE) {
        const double fine = (double)c->end_ns - (double)c->start_ns;
        c->open.us = fine > 0.0 ? fine / 1e3 : (double)c->end_us - (double)c->start_us;
    }
    return id == STEP_NODE || id == COST_NODE ? keep_row(c, id == STEP_NODE, error) : STW_OK;
}

static stw_status number(void *context, int32_t id, int64_t value, stw_error *error) {
    collector *c = context;
    (void)error;
    switch (id) {
        case COST_US: c->open.us = (double)value; break;
        case START_US: c->start_us = value; break;
        case END_US: c->end_us = value; break;
        case START_NS: c->start_ns = value; break;
        case END_NS: c->end_ns = value; break;
        case SIZE:
            if (value > 0 && __builtin_add_overflow(c->open.bytes, value, &c->open.bytes)) c->open.bytes = INT64_MAX;
            break;
        default: break;
    }
    return STW_OK;
}

static stw_status refuse_graph(stw_error *error) {
    return stw_fail(error, STW_ERROR_INPUT,
                    "this is a graph (GraphDef), which has no times; RunMetadata, StepStats or CostGraphDef has them");
}

/* Names are text; other bytes show that the message is another one. */
static bool is_text(stw_str value) {
    for (int64_t k = 0; k < value.length; k++) {
        if ((unsigned char)value.p[k] < 0x20) return false;
    }
    return true;
}

static stw_status text(void *context, int32_t id, stw_str value, stw_error *error) {
    collector *c = context;
    if (id == OPERATOR) return refuse_graph(error);
    if (!is_text(value)) {
        return stw_fail(error, STW_ERROR_INPUT,
                        "a name is not text; this is not a RunMetadata, StepStats or CostGraphDef of TensorFlow");
    }
    if (id == NAME) c->open.name = value;
    if (id == DEVICE) c->open.device = value;
    if (id == STEP_DEVICE_NAME) c->device_name = value;
    return STW_OK;
}

/* The content of the first field 1; false if the bytes begin otherwise. */
static bool first_field(stw_str bytes, stw_str *out) {
    stw_pb_file file = stw_pb_open(bytes, NULL);
    stw_pb message = stw_pb_message(&file);
    stw_pb_field f = {0};
    const bool found = bytes.length > 0 && stw_pb_next(&message, &f) && f.number == 1 && f.type == STW_PB_BYTES;
    *out = f.bytes;
    return found;
}

/* A name stands 1 field deep in a cost graph's node, a device ("/job...") 1 deep in a device's statistics, which lie in the step,
 * and that in the run. */
static const stw_wanted *guess_bytes(stw_str bytes) {
    stw_str one, two, three;
    if (stw_graphdef_is(bytes)) return NULL;
    if (!first_field(bytes, &one)) return bytes.length > 0 && bytes.p[0] == 0x12 ? &run_wanted : NULL;
    if (!first_field(one, &two)) return NULL;
    if (stw_str_starts(two, "/")) return &step_wanted;
    return first_field(two, &three) && stw_str_starts(three, "/") ? &run_wanted : &cost_graph_wanted;
}

static const stw_wanted *guess_text(stw_str text) {
    static const stw_wanted *const all[] = {&run_wanted, &step_wanted, &cost_graph_wanted};
    const stw_wanted *found = NULL;
    for (int i = 0; i < 3; i++) {
        if (stw_fields_text_begins(text, all[i])) found = all[i];
    }
    return found;
}

/* Text, in the way of a CSV file: a message in bytes has small numbers early on. */
static bool looks_written(stw_str bytes) {
    enum { NEAR = 4096 };
    for (int64_t k = 0; k < bytes.length && k < NEAR; k++) {
        const unsigned char c = (unsigned char)bytes.p[k];
        if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') return false;
    }
    return true;
}

bool stw_tf_costs_is(stw_str bytes) {
    if (guess_text(bytes) != NULL) return true; /* a graph in text is refused when it is read, with words */
    return !looks_written(bytes) && (stw_graphdef_is(bytes) || guess_bytes(bytes) != NULL);
}

stw_status stw_tf_costs_read(stw_str bytes, stw_arena *arena, stw_tf_costs *out, stw_error *error) {
    collector c = {.arena = arena};
    const stw_field_receiver receiver = {&c, begin, end, number, text};
    const stw_wanted *as_text = guess_text(bytes), *as_bytes = as_text == NULL ? guess_bytes(bytes) : NULL;
    if (as_text == NULL && stw_graphdef_is(bytes)) return refuse_graph(error);
    if (as_text == NULL && as_bytes == NULL) {
        return stw_fail(error, STW_ERROR_INPUT, "this is not a RunMetadata, StepStats or CostGraphDef of TensorFlow");
    }
    TRY(as_text != NULL ? stw_fields_of_text(bytes, as_text, &receiver, arena, error)
                        : stw_fields_of_bytes(bytes, as_bytes, &receiver, error));
    *out = (stw_tf_costs){.row = c.row};
    for (int64_t i = 0; i < c.count; i++) {
        if (c.step_count == 0 || c.is_step[i]) c.row[out->count++] = c.row[i];
    }
    return STW_OK;
}

/* ---- into a graph ---- */

/* Measured costs of TensorFlow into a graph, by node name. */

enum { MAX_KINDS = 64 };

typedef struct { /* names of ops to their ids: an open-addressing hash table */
    const stw_graph *graph;
    int32_t *slot; /* id + 1, or 0 */
    uint64_t mask;
} index_of_ops;

static int32_t find_op(const index_of_ops *index, stw_str name) {
    for (uint64_t slot = stw_str_hash(name);; slot++) {
        const int32_t found = index->slot[slot & index->mask];
        if (found == 0) return -1;
        if (stw_str_equal(index->graph->node_name[found - 1], name)) return found - 1;
    }
}

static stw_status make_index(const stw_graph *graph, stw_arena *scratch, index_of_ops *out, stw_error *error) {
    uint64_t capacity = 16;
    while ((int64_t)capacity < 2 * (int64_t)graph->N) capacity *= 2;
    *out = (index_of_ops){.graph = graph, .mask = capacity - 1};
    STW_TRY_NEW(scratch, out->slot, (int64_t)capacity, error);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || find_op(out, graph->node_name[i]) >= 0) continue;
        uint64_t slot = stw_str_hash(graph->node_name[i]);
        while (out->slot[slot & out->mask] != 0) slot++;
        out->slot[slot & out->mask] = i + 1;
    }
    return STW_OK;
}

/* Kernels are called "node:Operator". */
static int32_t op_of_row(const index_of_ops *index, stw_str name) {
    const int32_t op = find_op(index, name);
    if (op >= 0) return op;
    while (name.length > 0 && name.p[name.length - 1] != ':') name.length--;
    if (name.length > 0) name.length--;
    return name.length > 0 ? find_op(index, name) : -1;
}

static bool contains(stw_str whole, stw_str part) {
    for (int64_t i = 0; i + part.length <= whole.length; i++) {
        if (part.length == 0 || memcmp(whole.p + i, part.p, (size_t)part.length) == 0) return true;
    }
    return part.length == 0;
}

static int compare_devices(const void *left, const void *right) {
    const stw_tf_cost *a = *(const stw_tf_cost *const *)left, *b = *(const stw_tf_cost *const *)right;
    const int64_t shorter = a->device.length < b->device.length ? a->device.length : b->device.length;
    const int order = shorter > 0 ? memcmp(a->device.p, b->device.p, (size_t)shorter) : 0;
    if (order != 0) return order;
    if (a->device.length != b->device.length) return a->device.length < b->device.length ? -1 : 1;
    return a < b ? -1 : a > b; /* file order, so that sums do not depend on the sort */
}

/* The graph's column of times for a kind; a new one is all NaN. */
static stw_status find_column(stw_graph *graph, stw_str kind, double **out, stw_error *error) {
    for (int32_t k = 0; k < graph->kind_count; k++) {
        *out = graph->us[k];
        if (stw_str_equal(graph->kind_name[k], kind)) return STW_OK;
    }
    const int32_t count = graph->kind_count;
    if (count >= MAX_KINDS) return stw_fail(error, STW_ERROR_INPUT, "times for more than %d kinds of device", MAX_KINDS);
    stw_str *names;
    double **columns;
    STW_TRY_NEW(&graph->arena, names, (int64_t)count + 1, error);
    STW_TRY_NEW(&graph->arena, columns, (int64_t)count + 1, error);
    STW_TRY_NEW(&graph->arena, columns[count], graph->N, error);
    for (int32_t k = 0; k < count; k++) {
        names[k] = graph->kind_name[k];
        columns[k] = graph->us[k];
    }
    for (int32_t i = 0; i < graph->N; i++) columns[count][i] = NAN;
    names[count] = stw_str_copy(&graph->arena, kind);
    if (names[count].p == NULL) return stw_fail(error, STW_ERROR_MEMORY, "out of memory");
    graph->kind_name = names;
    graph->us = columns;
    graph->kind_count = count + 1;
    *out = columns[count];
    return STW_OK;
}

/* us[op]: the longest of its devices, NaN for ops without a row. `row` is sorted by device. */
static stw_status add_up(const index_of_ops *index, stw_tf_cost *const *row, int64_t count, stw_arena scratch, double *us,
                         int64_t *unmatched, stw_error *error) {
    double *sum;
    int32_t *seen;
    STW_TRY_NEW(&scratch, sum, index->graph->N, error);
    STW_TRY_NEW(&scratch, seen, count, error);
    for (int64_t first = 0, next = 0; first < count; first = next) {
        int64_t seen_count = 0;
        for (; next < count && stw_str_equal(row[next]->device, row[first]->device); next++) {
            const int32_t op = op_of_row(index, row[next]->name);
            *unmatched += op < 0;
            if (op < 0) continue;
            sum[op] += row[next]->us;
            seen[seen_count++] = op;
        }
        for (int64_t k = 0; k < seen_count; k++) us[seen[k]] = fmax(us[seen[k]], sum[seen[k]]); /* NaN gives way */
        for (int64_t k = 0; k < seen_count; k++) sum[seen[k]] = 0.0;
    }
    return STW_OK;
}

stw_status stw_tf_costs_times(const stw_tf_costs *costs, const stw_graph *graph, stw_arena *arena, double **us,
                              int64_t *unmatched, stw_error *error) {
    index_of_ops index;
    stw_tf_cost **row;
    *unmatched = 0;
    STW_TRY_NEW(arena, *us, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) (*us)[i] = NAN;
    stw_arena scratch = *arena;
    TRY(make_index(graph, &scratch, &index, error));
    STW_TRY_NEW(&scratch, row, costs->count, error);
    for (int64_t i = 0; i < costs->count; i++) row[i] = &costs->row[i];
    if (costs->count > 0) qsort(row, (size_t)costs->count, sizeof *row, compare_devices);
    return add_up(&index, row, costs->count, scratch, *us, unmatched, error);
}

stw_status stw_tf_costs_merge(const stw_tf_costs *costs, stw_str device, stw_str kind, stw_graph *graph, int64_t *matched,
                              stw_error *error) {
    double *column = NULL, *us = NULL;
    int64_t unmatched = 0;
    *matched = 0;
    TRY(find_column(graph, kind, &column, error));
    stw_arena scratch = graph->arena;
    stw_tf_costs some = {0};
    STW_TRY_NEW(&scratch, some.row, costs->count, error);
    for (int64_t i = 0; i < costs->count; i++) {
        if (contains(costs->row[i].device, device)) some.row[some.count++] = costs->row[i];
    }
    TRY(stw_tf_costs_times(&some, graph, &scratch, &us, &unmatched, error));
    for (int32_t i = 0; i < graph->N; i++) {
        if (isnan(us[i])) continue;
        column[i] = us[i];
        ++*matched;
    }
    return STW_OK;
}
