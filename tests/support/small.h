/* Small problems for tests: graph, machine and plan from JSON texts, evaluated at once.
 *
 * The texts are written with ' in place of ". The unit of time is the microsecond: an op takes what its text says on a device
 * of kind h200, and unless links are given, every ordered pair of devices has one that takes a microsecond per byte. */
#ifndef STW_TEST_SMALL_H
#define STW_TEST_SMALL_H

#include "sim/sim.h"

/* Nodes: texts that are put one after the other. `more` are further keys, each with a comma in front. */
#define NODE(id, name, op, inputs, bytes, more) \
    "{'id':" #id ",'name':'" name "','op':'" op "','inputs':" inputs ",'dtype':'u8','shape':[" #bytes "]" more "},"
#define OP(id, name, inputs, bytes, us)            NODE(id, name, "relu", inputs, bytes, ",'us':{'h200':" #us "}")
#define OP_WITH(id, name, inputs, bytes, us, more) NODE(id, name, "relu", inputs, bytes, ",'us':{'h200':" #us "}" more)
#define VIEW(id, name, of, bytes)                  NODE(id, name, "slice", "[" #of "]", bytes, ",'view':true")
#define SOURCE(id, name, kind, bytes)              NODE(id, name, kind, "[]", bytes, "")

/* Devices and links. */
#define DEVICE(name, kind, memory) "{'name':'" name "','kind':'" kind "','memory_bytes':" #memory "},"
#define LINK(from, to)             "{'from':'" from "','to':'" to "','bandwidth_bytes_per_s':1e6,'latency_us':0},"
#define LINK_WITH(from, to, bandwidth, latency_us, more) \
    "{'from':'" from "','to':'" to "','bandwidth_bytes_per_s':" #bandwidth ",'latency_us':" #latency_us more "},"

typedef struct small_text {
    const char *nodes;      /* see above; NULL: none */
    const char *outputs;    /* "[0,2]"; NULL: none */
    const char *devices;    /* see above; NULL: `device_count` of kind h200, called d0, d1, ... */
    int32_t device_count;   /* 0 stands for 1; the links between all pairs go by it as well */
    const char *links;      /* see above; NULL: between all pairs, a microsecond per byte */
    const char *contention; /* NULL: queue */
    const char *device;     /* the lists of the plan; NULL: all on device 0, */
    const char *priority;   /* all equal, */
    const char *group;      /* nothing fused, */
    const char *order;      /* no order */
} small_text;

typedef struct small {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_workspace *workspace;
    const int64_t *duration_ps; /* by node, in place of the costs; NULL unless a test sets it */
    stw_evaluation result;      /* of the last run */
    char *timeline;             /* see small_run */
} small;

/* Builds and runs. A text that cannot be read ends the program with a message: the test itself is wrong then. */
small *small_open(small_text text);
void small_close(small *s);

/* Evaluates the plan again, after it was changed, and writes the timeline: a line per device and per pair of devices that has
 * something on it, "d0: a[0,2) b[2,5)" and "d0>d1: a[2,6)", by start, then id, times in microseconds. */
void small_run(small *s);

/* Every device has so much memory from now on. */
void small_set_memory(small *s, int64_t bytes);

/* Index of the node of this name; ends the program if there is none. */
int32_t small_node(const small *s, const char *name);
/* When the task that writes this op begins and ends, in microseconds; -1 if no task writes it. */
double small_start_us(const small *s, const char *name);
double small_end_us(const small *s, const char *name);
/* Bytes of the copy of a value on a device; -1 if it is not sent there. */
int64_t small_copy_bytes(const small *s, const char *name, int32_t device);

/* Bytes held on a device at this moment, by the recorded changes. */
int64_t small_held(const small *s, int32_t device, double us);

/* The text with every ' turned into "; the caller frees it. */
char *small_quote(const char *text);
/* A graph, a machine and a plan file from their parts; the caller frees them. The plan has a fingerprint if `fingerprint` is
 * not NULL. */
char *small_graph_text(small_text text);
char *small_machine_text(small_text text);
char *small_plan_text(small_text text, int32_t node_count, const char *fingerprint);

#endif
