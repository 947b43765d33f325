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
    TRY(STW_GROW(c->arena, c->row, c->count + 1, c->room, error));
    TRY(STW_GROW(c->arena, c->is_step, c->count + 1, c->step_room, error));
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

/* The first op of each name. */
static stw_status name_ops(const stw_graph *graph, stw_arena *scratch, stw_names *out, stw_error *error) {
    TRY(stw_names_create(scratch, graph->N, out, error));
    for (int32_t i = 0; i < graph->N; i++) {
        int32_t *op;
        if (graph->kind[i] != STW_NODE_OP) continue;
        TRY(stw_names_enter(out, 0, graph->node_name[i], &op, error));
        if (*op < 0) *op = i;
    }
    return STW_OK;
}

/* Kernels are called "node:Operator". */
static int32_t op_of_row(const stw_names *ops, stw_str name) {
    const int32_t op = stw_names_find(ops, 0, name);
    if (op >= 0) return op;
    while (name.length > 0 && name.p[name.length - 1] != ':') name.length--;
    if (name.length > 0) name.length--;
    return name.length > 0 ? stw_names_find(ops, 0, name) : -1;
}

static int compare_devices(const void *left, const void *right) {
    const stw_tf_cost *a = *(const stw_tf_cost *const *)left, *b = *(const stw_tf_cost *const *)right;
    const int64_t shorter = a->device.length < b->device.length ? a->device.length : b->device.length;
    const int order = shorter > 0 ? memcmp(a->device.p, b->device.p, (size_t)shorter) : 0;
    if (order != 0) return order;
    if (a->device.length != b->device.length) return a->device.length < b->device.length ? -1 : 1;
    return a < b ? -1 : a > b; /* file order, so that sums do not depend on the sort */
}

/* us[op]: the longest of its devices, NaN for ops without a row. `row` is sorted by device. */
static stw_status add_up(const stw_names *ops, int32_t N, stw_tf_cost *const *row, int64_t count, stw_arena scratch, double *us,
                         int64_t *unmatched, stw_error *error) {
    double *sum;
    int32_t *seen;
    STW_TRY_NEW(&scratch, sum, N, error);
    STW_TRY_NEW(&scratch, seen, count, error);
    for (int64_t first = 0, next = 0; first < count; first = next) {
        int64_t seen_count = 0;
        for (; next < count && stw_str_equal(row[next]->device, row[first]->device); next++) {
            const int32_t op = op_of_row(ops, row[next]->name);
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
    stw_names ops;
    stw_tf_cost **row;
    *unmatched = 0;
    STW_TRY_NEW(arena, *us, graph->N, error);
    for (int32_t i = 0; i < graph->N; i++) (*us)[i] = NAN;
    stw_arena scratch = *arena;
    TRY(name_ops(graph, &scratch, &ops, error));
    STW_TRY_NEW(&scratch, row, costs->count, error);
    for (int64_t i = 0; i < costs->count; i++) row[i] = &costs->row[i];
    if (costs->count > 0) qsort(row, (size_t)costs->count, sizeof *row, compare_devices);
    return add_up(&ops, graph->N, row, costs->count, scratch, *us, unmatched, error);
}
