/* import/tf_costs: what TensorFlow 2.21 measured of a small graph, and statistics by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/import.h"
#include "import/profile/tf_costs.h"
#include "test.h"

#define DATA STW_SOURCE_DIR "/tests/import/data/"

static stw_tf_costs read_file(const char *path, stw_arena *arena) {
    stw_str bytes = {0};
    stw_error error = {0};
    stw_tf_costs costs = {0};
    CHECK_EQ_INT(stw_file_read(path, arena, &bytes, &error), STW_OK);
    CHECK_EQ_INT(stw_tf_costs_read(bytes, arena, &costs, &error), STW_OK);
    CHECK_STR(error.message, "");
    return costs;
}

static const stw_tf_cost *find(const stw_tf_costs *costs, const char *name) {
    for (int64_t i = 0; i < costs->count; i++) {
        if (stw_str_is(costs->row[i].name, name)) return &costs->row[i];
    }
    return NULL;
}

TEST(tf_costs, the_three_messages) {
    static const char *const paths[] = {DATA "tf_run_metadata.pb", DATA "tf_step_stats.pb", DATA "tf_cost_graph.pb"};
    static const double product_us[] = {51.287, 51.287, 38080.0};
    static const int64_t rows[] = {9, 9, 10};
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    for (int i = 0; i < 3; i++) {
        const stw_tf_costs costs = read_file(paths[i], &arena);
        const stw_tf_cost *product = find(&costs, "product");
        test_context("%s", paths[i]);
        CHECK_EQ_INT(costs.count, rows[i]);
        if (!CHECK(product != NULL)) continue;
        CHECK_NEAR(product->us, product_us[i], 1e-9);
        CHECK(stw_str_is(product->device, "/job:localhost/replica:0/task:0/device:CPU:0"));
        CHECK(product->bytes >= 64 * 256 * 4);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

static int32_t node(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (strcmp(graph->node_name[i].p, name) == 0) return i;
    }
    return -1;
}

TEST(tf_costs, times_by_name) {
    stw_arena arena;
    stw_str bytes = {0};
    stw_graph *graph = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_file_read(DATA "tf_traced.pb", &arena, &bytes, NULL), STW_OK);
    if (CHECK_EQ_INT(stw_graphdef_read(bytes, NULL, &graph, NULL), STW_OK)) {
        const stw_tf_costs costs = read_file(DATA "tf_run_metadata.pb", &arena);
        double *us = NULL;
        int64_t unmatched = 0, matched = 0;
        CHECK_EQ_INT(stw_tf_costs_times(&costs, graph, &arena, &us, &unmatched, NULL), STW_OK);
        for (int32_t i = 0; i < graph->N; i++) matched += !isnan(us[i]);
        CHECK_EQ_INT(matched, 3); /* product, relu, sum: variables, constants and views take no time */
        CHECK_NEAR(us[node(graph, "relu")], 2.654, 1e-9);
        CHECK_NEAR(us[node(graph, "sum")], 5.538, 1e-9);
        CHECK(isnan(us[node(graph, "w")]));
    }
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

/* Two kernels of one op on a stream add up; the launch on the device itself is another list, and the longer one counts. */
TEST(tf_costs, kernels_of_streams) {
    static const char stats[] =
        "step_stats { dev_stats { node_stats { node_name: 'c:Conv2D' op_start_rel_micros: 5 op_end_rel_micros: 25 }"
        " node_stats { node_name: 'c:Conv2D' op_start_rel_nanos: 1000 op_end_rel_nanos: 2500 memory { total_bytes: 7 } memory { "
        "total_bytes: 8 } }"
        " node_stats { node_name: 'd:Relu' op_end_rel_micros: 1 op_start_rel_micros: 2 }" /* ends before it begins: damaged */
        " device: '/device:GPU:0/stream:all' }"
        " dev_stats { device: '/device:GPU:0' node_stats { node_name: 'c' op_end_rel_micros: 9 } }"
        " dev_stats { device: '/device:CPU:0' node_stats { node_name: 'c' op_end_rel_micros: 99 } } }"
        " cost_graph { node { name: 'c' compute_cost: 1000 } }";
    stw_arena arena;
    stw_tf_costs costs = {0};
    stw_error error = {0};
    stw_graph *graph = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_tf_costs_read(STW_STR(stats), &arena, &costs, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(costs.count, 4);
    CHECK_EQ_INT(costs.row[1].bytes, 15);
    CHECK(stw_str_is(costs.row[1].device, "/device:GPU:0/stream:all"));
    CHECK_EQ_INT(stw_pbtxt_read(STW_STR("node { name: 'c' op: 'Conv2D' } node { name: 'd' op: 'Relu' }"), NULL, &graph, &error),
                 STW_OK);
    if (CHECK(graph != NULL)) {
        double *us = NULL;
        int64_t unmatched = 0;
        const stw_tf_costs of_gpu = {.row = costs.row, .count = 3}; /* without what the CPU says, which comes last */
        CHECK_EQ_INT(stw_tf_costs_times(&of_gpu, graph, &arena, &us, &unmatched, &error), STW_OK);
        CHECK_NEAR(us[node(graph, "c")], 21.5, 1e-9);
        CHECK(isnan(us[node(graph, "d")]));
    }
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

TEST(tf_costs, a_graph_is_refused) {
    static const char *const files[] = {DATA "tf_traced.pb", DATA "tf_mlp.pb", DATA "tf_loop.pbtxt"};
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    for (int i = 0; i < 3; i++) {
        stw_str bytes = {0};
        stw_tf_costs costs = {0};
        stw_error error = {0};
        test_context("%s", files[i]);
        CHECK_EQ_INT(stw_file_read(files[i], &arena, &bytes, NULL), STW_OK);
        CHECK_EQ_INT(stw_tf_costs_read(bytes, &arena, &costs, &error), STW_ERROR_INPUT);
        CHECK_CONTAINS(error.message, "this is a graph (GraphDef), which has no times");
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

TEST(tf_costs, known_by_their_bytes) {
    static const char *const files[] = {DATA "tf_run_metadata.pb", DATA "tf_step_stats.pb", DATA "tf_cost_graph.pb"};
    stw_arena arena;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    for (int i = 0; i < 3; i++) {
        stw_str bytes = {0};
        CHECK_EQ_INT(stw_file_read(files[i], &arena, &bytes, NULL), STW_OK);
        CHECK(stw_tf_costs_is(bytes));
    }
    CHECK(stw_tf_costs_is(STW_STR("dev_stats { device: '/gpu:0' }")));
    CHECK(!stw_tf_costs_is(STW_STR("name,kind,us\nmm,h200,3\n")));
    CHECK(!stw_tf_costs_is(STW_STR("\n\nmm,h200,3\n"))); /* line ends are tags of field 1 */
    CHECK(!stw_tf_costs_is(STW_STR("")));
    stw_arena_destroy(&arena);
}

TEST(tf_costs, other_bytes_and_every_prefix) {
    stw_arena arena;
    stw_str bytes = {0};
    stw_tf_costs costs = {0};
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    CHECK_EQ_INT(stw_tf_costs_read(STW_STR("hello"), &arena, &costs, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "not a RunMetadata, StepStats or CostGraphDef");
    CHECK_EQ_INT(stw_tf_costs_read(STW_STR(""), &arena, &costs, NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_file_read(DATA "tf_run_metadata.pb", &arena, &bytes, NULL), STW_OK);
    int refused = 0;
    for (int64_t length = 0; length < bytes.length; length++) {
        stw_arena scratch = arena;
        char *copy = malloc((size_t)length + 1);
        memcpy(copy, bytes.p, (size_t)length);
        refused += stw_tf_costs_read((stw_str){copy, length}, &scratch, &costs, NULL) != STW_OK;
        free(copy);
    }
    CHECK(refused > (int)bytes.length - 10);
    stw_arena_destroy(&arena);
}
