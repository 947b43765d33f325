/* Reads measured costs of TensorFlow; tf_costs_merge.c puts them into a graph. */
#include "import/tf_costs.h"

#include "import/graphdef.h"
#include "import/import.h"
#include "import/pbfields.h"
#include "import/pbwire.h"

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
                        "a name is no text; this is no RunMetadata, StepStats or CostGraphDef of TensorFlow");
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
        return stw_fail(error, STW_ERROR_INPUT, "this is no RunMetadata, StepStats or CostGraphDef of TensorFlow");
    }
    TRY(as_text != NULL ? stw_fields_of_text(bytes, as_text, &receiver, arena, error)
                        : stw_fields_of_bytes(bytes, as_bytes, &receiver, error));
    *out = (stw_tf_costs){.row = c.row};
    for (int64_t i = 0; i < c.count; i++) {
        if (c.step_count == 0 || c.is_step[i]) c.row[out->count++] = c.row[i];
    }
    return STW_OK;
}
