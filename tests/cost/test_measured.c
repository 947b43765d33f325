/* measured: times from a profile of ONNX Runtime and from statistics of TensorFlow, brought to the kinds of a machine. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cost/cost.h"
#include "test.h"

static const char graph_text[] =
    "node { name: 'a' op: 'Relu' } node { name: 'b' op: 'Relu' input: 'a' } node { name: 'c' op: 'Relu' input: 'b' }";

/* Costs of the graph above on a machine, with a file of this content (single quotes stand for double ones in JSON). */
static stw_costs *costs_of(const char *machine_name, const char *content, bool json, stw_graph **graph, stw_machine **machine,
                           stw_error *error) {
    char path[] = "/tmp/stowage-test-XXXXXX", *text = strdup(content);
    stw_costs *costs = NULL;
    for (char *c = text; json && *c != '\0'; c++) *c = *c == '\'' ? '"' : *c;
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0 && write(descriptor, text, strlen(text)) == (ssize_t)strlen(text));
    close(descriptor);
    *error = (stw_error){0};
    CHECK_EQ_INT(stw_graph_parse(graph_text, sizeof graph_text - 1, "g", NULL, graph, error), STW_OK);
    CHECK_EQ_INT(stw_machine_open(machine_name, machine, error), STW_OK);
    stw_options *options;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "costs", path, NULL), STW_OK);
    const stw_status status = stw_costs_create(*graph, *machine, options, &costs, error);
    stw_options_destroy(options);
    CHECK_EQ_INT(status, error->status);
    if (status != STW_OK) CHECK_EQ_INT(strncmp(error->message, path, strlen(path)), 0);
    remove(path);
    free(text);
    return costs;
}

typedef struct {
    const char *machine, *content;
    const char *remark;  /* NULL: none */
    double us[2][3];     /* by device and op; below 0: not measured */
    const char *refusal; /* of a file that is refused */
} expected;

static void check(const expected *e, bool json) {
    stw_graph *graph = NULL;
    stw_machine *machine = NULL;
    stw_error error;
    stw_costs *costs = costs_of(e->machine, e->content, json, &graph, &machine, &error);
    test_context("%.40s on %s", e->content, e->machine);
    if (e->refusal != NULL) {
        CHECK(costs == NULL);
        CHECK_CONTAINS(error.message, e->refusal);
    } else if (CHECK(costs != NULL)) {
        if (CHECK_EQ_INT(costs->remark.length > 0, e->remark != NULL) && e->remark != NULL)
            CHECK_STR(stw_costs_warning(costs, 0), e->remark);
        for (int32_t d = 0; d < 2 && d < machine->device_count; d++) {
            const int32_t c = machine->device[d].cost_class;
            for (int32_t i = 0; i < 3; i++) {
                CHECK_EQ_INT(costs->measured[c][i], e->us[d][i] >= 0.0);
                if (e->us[d][i] >= 0.0) CHECK_NEAR(costs->us[c][i], e->us[d][i], 1e-9);
            }
        }
    }
    test_context("%s", "");
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

#define EVENT(name, dur, provider) \
    "{'cat':'Node','ph':'X','name':'" name "_kernel_time','dur':" dur ",'args':{'provider':'" provider "'}}"
#define PROFILE                                                                                                                  \
    "[" EVENT("a", "7", "CPUExecutionProvider") "," EVENT("b", "3", "CUDAExecutionProvider") "," EVENT(                          \
        "b", "5",                                                                                                                \
        "CUDAExecutionProvider") "," EVENT("b", "4",                                                                             \
                                           "CUDAExecutionProvider") "," EVENT("c", "9",                                          \
                                                                              "QNNExecutionProvider") "," EVENT("zz", "1",       \
                                                                                                                "CPUExecutionPr" \
                                                                                                                "ovider") "]"

TEST(measured, profile_of_onnx_runtime) {
    static const expected cases[] = {
        {"cpu+h200x1",
         PROFILE,
         "of 4 measured times 1 of other devices are passed over: the machine has none of these; 1 of 3 times of the costs name "
         "no op of the graph: views and shape arithmetic are no ops, and ONNX Runtime renames what it fuses, so profile with its "
         "optimizations off",
         {{7, -1, -1}, {-1, 4, -1}},
         NULL},
        {"h200x2",
         PROFILE,
         "of 4 measured times 2 of CPUs, 1 of other devices are passed over: the machine has none of these",
         {{-1, 4, -1}, {-1, 4, -1}},
         NULL},
        {"h200x1",
         "[" EVENT("a", "7", "CPUExecutionProvider") "]",
         "of 1 measured times 1 of CPUs are passed over: the machine has none of these",
         {{-1, -1, -1}, {0}},
         NULL},
        {"cpu+h200x1",
         "[" EVENT("a", "7", "CPUExecutionProvider") "]",
         "no time is of kind h200: its times are those of cpu8 times the ratio of the models",
         {{7, -1, -1}, {-1, -1, -1}},
         NULL},
        {"h200x1", "[" EVENT("zz", "7", "CUDAExecutionProvider") "]", NULL, {{0}}, "none of its 1 times names an op"},
        {"h200x1", "[{'cat':'Session'}]", NULL, {{0}}, "no times of nodes"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) check(&cases[k], true);
}

TEST(measured, statistics_of_tensorflow) {
    static const char stats[] =
        "dev_stats { device: '/job:gpu_worker/replica:0/task:0/device:CPU:0'"
        " node_stats { node_name: 'a' op_end_rel_micros: 6 } node_stats { node_name: '_SOURCE' op_end_rel_micros: 1 } }"
        "dev_stats { device: '/device:GPU:0/stream:all' node_stats { node_name: 'b:Relu' op_end_rel_micros: 2 }"
        " node_stats { node_name: 'b:Relu' op_end_rel_micros: 3 } }"
        "dev_stats { device: '/device:TPU:0' node_stats { node_name: 'c' op_end_rel_micros: 8 } }";
    static const expected cases[] = {
        {"cpu+h200x1",
         stats,
         "of 3 measured times 1 of other devices are passed over: the machine has none of these; 1 of 3 times of the costs name "
         "no op of the graph: views, constants and what TensorFlow adds are no ops; for the rest, profile this graph",
         {{6, -1, -1}, {-1, 5, -1}},
         NULL},
        {"h200x1",
         stats,
         "of 3 measured times 1 of CPUs, 1 of other devices are passed over: the machine has none of these",
         {{-1, 5, -1}, {0}},
         NULL},
        {"h200x1",
         "dev_stats { device: '/gpu:0' node_stats { node_name: 'c' op_end_rel_micros: 8 } }",
         NULL,
         {{-1, -1, 8}, {0}},
         NULL},
        {"h200x1", graph_text, NULL, {{0}}, "this is a graph (GraphDef), which has no times"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) check(&cases[k], false);
}

TEST(measured, csv_as_before) {
    static const expected plain = {"h200x1", "\nname,kind,us\na,h200,3\n", NULL, {{3, -1, -1}, {0}}, NULL};
    static const expected wrong = {"h200x1", "a,h200\n", NULL, {{0}}, "line 1: fewer than three fields"};
    check(&plain, false);
    check(&wrong, false);
}
