/* cost: which time holds for an op, and the formulas for ops, groups and transfers, computed by hand. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/small.h"
#include "test.h"

/* Two kinds with round numbers. x: 2 us launch, 1e12 flop/s, 1000 bytes per us. y: 4 us, 2e12 flop/s, 4000 bytes per us. Both
 * reach half of that with element-wise ops, a quarter with reductions, all of it with matrix products. */
#define SHARES "'efficiency':{'elementwise':0.5,'reduce':0.25,'matmul':1,'gather':1,'shape':1}"
#define KIND_X                                                                                                         \
    "{'name':'d0','kind':'x','memory_bytes':100000,'launch_us':2,'flops_per_s':{'f32':1e12,'tf32':8e12,'bf16':16e12}," \
    "'bandwidth_bytes_per_s':1e9," SHARES ",'fuses_epilogue':['matmul']}"
#define KIND_Y                                                                                                                   \
    "{'name':'d1','kind':'y','memory_bytes':100000,'launch_us':4,'flops_per_s':{'f32':2e12},'bandwidth_bytes_per_s':4e9," SHARES \
    "}"
#define TWO_KINDS KIND_X "," KIND_Y

static void check_us(const small *s, const char *name, double on_x, double on_y) {
    test_context("%s", name);
    CHECK_NEAR(stw_costs_op_us(s->costs, small_node(s, name), 0), on_x, 1e-12 * on_x);
    if (s->machine->device_count > 1) CHECK_NEAR(stw_costs_op_us(s->costs, small_node(s, name), 1), on_y, 1e-12 * on_y);
    test_context("%s", "");
}

/* ---- times that the clock cannot hold ---- */

/* A graph of relu ops with these measured times on x, and a device of kind x with these figures. */
static void check_times(const double *us, int count, const char *figures, const char *says) {
    char text[2000], machine[1000];
    int length = snprintf(text, sizeof text, "{\"format\":\"opgraph\",\"version\":1,\"name\":\"long\",\"nodes\":[");
    for (int i = 0; i < count; i++) {
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "%s{\"id\":%d,\"name\":\"op%d\",\"op\":\"relu\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[1000],"
                           "\"flops\":1000%s%.17g%s}",
                           i > 0 ? "," : "", i, i, us[i] < 0.0 ? ",\"ignored\":{\"x\":" : ",\"us\":{\"x\":", us[i], "}");
    }
    snprintf(text + length, sizeof text - (size_t)length, "]}");
    snprintf(machine, sizeof machine,
             "{\"format\":\"machine\",\"version\":1,\"devices\":[{\"name\":\"d\",\"kind\":\"x\",\"memory_bytes\":1000,"
             "\"launch_us\":1,\"efficiency\":{},%s}]}",
             figures);
    stw_graph *graph = NULL;
    stw_machine *drawn = NULL;
    stw_costs *costs = NULL;
    stw_error error = {0};
    stw_status status = stw_graph_parse(text, strlen(text), "graph", NULL, &graph, &error);
    if (status == STW_OK) status = stw_machine_parse(machine, strlen(machine), "machine", &drawn, &error);
    if (status == STW_OK) status = stw_costs_create(graph, drawn, NULL, &costs, &error);
    CHECK_EQ_INT(status, says == NULL ? STW_OK : STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, says == NULL ? "" : says);
    stw_costs_destroy(costs);
    stw_machine_destroy(drawn);
    stw_graph_destroy(graph);
}

TEST(cost, times_that_the_clock_cannot_hold_are_refused) {
    static const char figures[] = "\"flops_per_s\":{\"f32\":1e12},\"bandwidth_bytes_per_s\":1e12";
    const double most = STW_GRAPH_MAX_US, half = 1e12, modelled = -1.0;
    check_times(&most, 1, figures, NULL);
    check_times((const double[]){most * 1.001}, 1, figures, "a time of 2.002e+12 us; at most 2e+12 (23 days)");
    check_times((const double[]){1e16}, 1, figures, "graph: node 0 'op0'");
    check_times((const double[]){half, half}, 2, figures, NULL);
    check_times((const double[]){half, half, 1e3}, 3, figures, "graph 'long' take 2e+12 us in all");
    check_times(&modelled, 1, figures, NULL);
    check_times(&modelled, 1, "\"flops_per_s\":{\"f32\":1e-5},\"bandwidth_bytes_per_s\":1e12", "op 0 'op0' would take 1");
    check_times(&modelled, 1, "\"flops_per_s\":{\"f32\":1e12},\"bandwidth_bytes_per_s\":1e-100",
                "us on 'd' (1000 FLOP, 4000 bytes)");
}

/* ---- ops ---- */

TEST(cost, measured_then_by_another_kind_then_modelled) {
    /* Each op reads 1000 bytes and writes 1000. The model: x 2 + 2000 / 500 = 6 us, y 4 + 2000 / 2000 = 5 us. */
#define RELU(id, name, us) NODE(id, name, "relu", "[0]", 1000, us)
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "in", "input", 1000) RELU(1, "both", ",'us':{'x':12,'y':1}") RELU(2, "only_x", ",'us':{'x':12}")
            RELU(3, "only_y", ",'us':{'y':10}") RELU(4, "none", "") RELU(5, "unknown", ",'us':{'nosuch':77}")
                RELU(6, "known", ",'us':{'h200':77}") RELU(7, "zero", ",'us':{'x':0}") VIEW(8, "view", 1, 4),
        .devices = TWO_KINDS,
        .device_count = 2});
    check_us(s, "both", 12, 1);
    check_us(s, "only_x", 12, 10); /* 12 x 5 / 6 */
    check_us(s, "only_y", 12, 10); /* 10 x 6 / 5 */
    check_us(s, "none", 6, 5);
    check_us(s, "unknown", 6, 5); /* of a kind nobody knows nothing follows */
    check_us(s, "zero", 0, 0);
    check_us(s, "view", 0, 0);
    check_us(s, "in", 0, 0);
    stw_device h200;
    CHECK(stw_device_of_kind(STW_STR("h200"), &h200)); /* built in, though not in the machine */
    const double there = stw_cost_model_us(&h200, STW_CLASS_ELEMENTWISE, stw_dtype_find(STW_STR("u8")), 0.0, 2000.0);
    check_us(s, "known", 77 * (6 / there), 77 * (5 / there));
    CHECK_NEAR(stw_costs_op_us(s->costs, -1, 0), 0.0, 0.0); /* no such node, no such device */
    CHECK_NEAR(stw_costs_op_us(s->costs, 1, 2), 0.0, 0.0);
    /* On d0: 12 and 12 of 12 + 12 + 12 + 6 + 6 + 77 x .. + 0 were measured on x. */
    const double all = 12 + 12 + 12 + 6 + 6 + 77 * (6 / there);
    CHECK_NEAR(stw_measured_share(s->simulator, s->plan), 24 / all, 1e-12);
    small_close(s);
}

TEST(cost, the_nearest_kind_that_was_measured_is_taken) {
    /* Both times of a could be used for z, which takes 5 + 4 = 9 us by the model; x takes 6, y takes 5. */
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "in", "input", 1000) NODE(1, "first", "relu", "[0]", 1000, ",'us':{'y':10}")
                                    NODE(2, "a", "relu", "[0]", 1000, ",'us':{'x':600,'y':10}"),
                                .devices = KIND_X "," KIND_Y ",{'name':'d2','kind':'z','memory_bytes':1,'launch_us':5,"
                                                  "'flops_per_s':{'f32':1e12},'bandwidth_bytes_per_s':1e9," SHARES "}"});
    CHECK_NEAR(stw_costs_op_us(s->costs, 2, 2), 600.0 * 9 / 6, 1e-9);
    small_close(s);
}

TEST(cost, the_model_goes_by_class_and_dtype) {
#define MODEL(id, name, op, dtype, count, flops) \
    "{'id':" #id ",'name':'" name "','op':'" op "','inputs':[],'dtype':'" dtype "','shape':[" #count "],'flops':" #flops "},"
    small *s = small_open(
        (small_text){.nodes = MODEL(0, "relu32", "relu", "f32", 1, 10000000) MODEL(1, "relu64", "relu", "f64", 1, 10000000)
                         MODEL(2, "relu16", "relu", "bf16", 1, 10000000) MODEL(3, "mm32", "mm", "f32", 1, 160000000)
                             MODEL(4, "mm16", "mm", "f16", 1, 160000000) MODEL(5, "mm64", "mm", "f64", 1, 160000000)
                                 MODEL(6, "traffic", "relu", "f32", 250, 10) MODEL(7, "sum", "sum", "f32", 250, 10)
                                     MODEL(8, "alias", "detach", "f32", 250, 10) MODEL(9, "empty", "relu", "f32", 0, 0),
                     .devices = TWO_KINDS});
    check_us(s, "relu32", 2 + 20, 4 + 10);  /* 1e7 flop at half of 1e12; of 2e12 */
    check_us(s, "relu64", 2 + 40, 4 + 20);  /* half the rate of f32 */
    check_us(s, "relu16", 2 + 20, 4 + 10);  /* the 16-bit peak is for matrix products */
    check_us(s, "mm32", 2 + 20, 4 + 80);    /* tf32 where there is one */
    check_us(s, "mm16", 2 + 10, 4 + 80);    /* 16-bit likewise */
    check_us(s, "mm64", 2 + 320, 4 + 160);  /* half of f32 */
    check_us(s, "traffic", 2 + 2, 4 + 0.5); /* 1000 bytes out */
    check_us(s, "sum", 2 + 4, 4 + 1);       /* at a quarter of the bandwidth */
    check_us(s, "alias", 0, 0);             /* nothing is launched */
    check_us(s, "empty", 2, 4);
    small_close(s);
}

TEST(cost, bytes_that_an_op_moves) {
    small *s = small_open(
        (small_text){.nodes = SOURCE(0, "in", "parameter", 1000) VIEW(1, "v", 0, 300) VIEW(2, "w", 0, 200) VIEW(3, "e", 0, 5000)
                         NODE(4, "whole", "relu", "[0,0,1]", 100, "") NODE(5, "view", "relu", "[1,1]", 100, "")
                             NODE(6, "views", "relu", "[1,2]", 100, "") NODE(7, "expand", "relu", "[3]", 100, "")
                                 NODE(8, "two", "add", "[0,4]", 100, "") NODE(9, "gather", "embedding", "[0]", 150, "")
                                     NODE(10, "update", "add", "[0]", 1000, ",'updates':0"),
                     .devices = KIND_X});
    static const int64_t moved[] = {0, 0, 0, 0, 1100, 400, 600, 1100, 1200, 300, 2000};
    CHECK_EQ_INT(s->graph->op_class[9], STW_CLASS_GATHER); /* which reads only what it hands on */
    for (int32_t i = 0; i < 11; i++) {
        test_context("%s", s->graph->node_name[i].p);
        CHECK_EQ_INT(s->costs->moved[i], moved[i]);
    }
    test_context("%s", "");
    check_us(s, "views", 2 + 600 / 500.0, 0);
    small_close(s);
}

TEST(cost, read_bytes_with_views) {
    small *s = small_open(
        (small_text){.nodes = SOURCE(0, "p", "parameter", 10) VIEW(1, "a", 0, 4) VIEW(2, "b", 0, 5) VIEW(3, "c", 0, 70)});
    static const stw_use whole[] = {{9, -1}, {9, 1}}, one[] = {{8, 1}, {9, 1}}, two[] = {{9, 1}, {9, 2}},
                         three[] = {{9, 1}, {9, 2}, {9, 3}}, more[] = {{9, 3}};
    CHECK_EQ_INT(stw_read_bytes(s->graph, 0, whole, 2), 10);
    CHECK_EQ_INT(stw_read_bytes(s->graph, 0, one, 2), 4); /* the same view twice */
    CHECK_EQ_INT(stw_read_bytes(s->graph, 0, two, 2), 9);
    CHECK_EQ_INT(stw_read_bytes(s->graph, 0, three, 3), 10);
    CHECK_EQ_INT(stw_read_bytes(s->graph, 0, more, 1), 10);
    small_close(s);
}

/* ---- costs from a file ---- */

/* Costs with these rows; NULL and a message if they are refused. */
static stw_costs *costs_with(const small *s, const char *rows, stw_error *error) {
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0 && write(descriptor, rows, strlen(rows)) == (ssize_t)strlen(rows));
    close(descriptor);
    stw_costs *costs = NULL;
    *error = (stw_error){0};
    stw_options *options;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "costs", path, NULL), STW_OK);
    const stw_status status = stw_costs_create(s->graph, s->machine, options, &costs, error);
    stw_options_destroy(options);
    CHECK_EQ_INT(status, error->status);
    if (status != STW_OK) CHECK_EQ_INT(strncmp(error->message, path, strlen(path)), 0);
    remove(path);
    return costs;
}

TEST(cost, rows_of_a_file_override_the_graph) {
    stw_error error;
    small *s = small_open((small_text){.nodes = SOURCE(0, "in", "input", 1000) RELU(1, "a", ",'us':{'x':12,'y':1}")
                                           RELU(2, "b", "") RELU(3, "a", "") RELU(4, "c", ",'us':{'x':12}"),
                                       .devices = TWO_KINDS,
                                       .device_count = 2});
    stw_costs *costs = costs_with(s, "name,kind,us\na,x,3\nb,y,2.5\nnosuch,x,9\n", &error);
    if (CHECK(costs != NULL)) {
        CHECK_NEAR(stw_costs_op_us(costs, 1, 0), 3.0, 0.0);
        CHECK_NEAR(stw_costs_op_us(costs, 1, 1), 1.0, 0.0); /* the graph's own stays */
        CHECK_NEAR(stw_costs_op_us(costs, 3, 0), 3.0, 0.0); /* every node of that name */
        CHECK_NEAR(stw_costs_op_us(costs, 3, 1), 2.5, 1e-12);
        CHECK_NEAR(stw_costs_op_us(costs, 2, 0), 3.0, 1e-12); /* 2.5 x 6 / 5 */
        CHECK_NEAR(stw_costs_op_us(costs, 2, 1), 2.5, 0.0);
        CHECK_NEAR(stw_costs_op_us(costs, 4, 0), 12.0, 0.0);
        CHECK_STR(stw_costs_warning(costs, 0),
                  "1 of 3 rows of the costs name no op of the graph: 'stowage export --to csv' lists the names of ops");
    }
    stw_costs_destroy(costs);
    costs = costs_with(s, "a,x,3\na,x,4\nc,newkind,5\n", &error); /* the last one holds */
    if (CHECK(costs != NULL)) {
        CHECK_NEAR(stw_costs_op_us(costs, 1, 0), 4.0, 0.0);
        CHECK_STR(stw_costs_warning(costs, 0), "1 of 3 rows of the costs are for kinds of device that are not known ('newkind')");
    }
    stw_costs_destroy(costs);
    CHECK(costs_with(s, "nosuch,x,3\nneither,y,4\n", &error) == NULL);
    CHECK_CONTAINS(error.message, "none of its 2 rows names an op of graph 'small'; is it for another graph?");
    CHECK(costs_with(s, "a,x,3\nb,y\n", &error) == NULL);
    CHECK_CONTAINS(error.message, "line 2: ");
    costs = costs_with(s, "", &error); /* no rows */
    if (CHECK(costs != NULL)) {
        CHECK_NEAR(stw_costs_op_us(costs, 1, 0), 12.0, 0.0);
        CHECK_STR(stw_costs_warning(costs, 0), "the file of costs has no rows");
    }
    stw_costs_destroy(costs);
    small_close(s);
}

/* Both times are of x; y has none of its own, and gets them times 5 / 6. */
TEST(cost, times_of_another_kind_alone_are_told) {
    stw_error error;
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "in", "input", 1000) RELU(1, "a", "") RELU(2, "b", ""), .devices = TWO_KINDS, .device_count = 2});
    stw_costs *costs = costs_with(s, "a,x,12\nnosuch,x,3\n", &error);
    if (CHECK(costs != NULL)) {
        CHECK_NEAR(stw_costs_op_us(costs, 1, 1), 10.0, 1e-12);
        CHECK_NEAR(stw_costs_op_us(costs, 2, 1), 5.0, 1e-12);
        CHECK_STR(
            stw_costs_warning(costs, 0),
            "1 of 2 rows of the costs name no op of the graph: 'stowage export --to csv' lists the names of ops; no time is of "
            "kind y: its times are those of x times the ratio of the models");
    }
    stw_costs_destroy(costs);
    costs = costs_with(s, "a,x,12\nb,y,3\n", &error);
    if (CHECK(costs != NULL)) CHECK(costs->remark.length == 0);
    stw_costs_destroy(costs);
    small_close(s);
    s = small_open((small_text){.nodes = SOURCE(0, "in", "input", 1000) RELU(1, "a", ",'us':{'x':12}"),
                                .devices = TWO_KINDS,
                                .device_count = 2}); /* of the graph's own times nothing is said */
    CHECK(s->costs->remark.length == 0);
    small_close(s);
}

TEST(cost, many_kinds_in_a_file) {
    /* 128 kinds are allowed, those of the graph included. */
    stw_error error;
    char rows[5000];
    small *s = small_open((small_text){.nodes = NODE(0, "a", "relu", "[]", 1, "")});
    for (int count = 128; count <= 129; count++) {
        int length = 0;
        for (int k = 0; k < count; k++) length += snprintf(rows + length, sizeof rows - (size_t)length, "a,kind%d,%d\n", k, k);
        stw_costs *costs = costs_with(s, rows, &error);
        CHECK_EQ_INT(costs != NULL, count == 128);
        if (costs == NULL) CHECK_CONTAINS(error.message, "line 129: more than 128 kinds of device");
        stw_costs_destroy(costs);
    }
    small_close(s);
}

/* ---- groups ---- */

static double task_us(const small *s, const char *name) { return small_end_us(s, name) - small_start_us(s, name); }

TEST(group, formula) {
    /* a reads 1000 and writes 1000 bytes: alone 2 + 2000 / 500 = 6 us. b reads a and 500 more and writes 1000: 2 + 2500 / 500
     * = 7. Together: one launch, in (1000) + more (500) + b (1000): 2 + 2500 / 500 = 7 us by the model. Measured, the two took 26
     * us where the model says 13: twice as long, and so will the group: 14 us. */
#define A_AND_B(a, b)              \
    SOURCE(0, "in", "input", 1000) \
    SOURCE(1, "more", "input", 500) NODE(2, "a", "relu", "[0]", 1000, a) NODE(3, "b", "add", "[2,1]", 1000, b)
    small_text text = {
        .nodes = A_AND_B(",'us':{'x':10}", ",'us':{'x':16}"), .outputs = "[3]", .devices = KIND_X, .group = "[-1,-1,2,2]"};
    small *s = small_open(text);
    CHECK_NEAR(task_us(s, "a"), 14.0, 1e-6);
    small_close(s);
    text.nodes = A_AND_B("", "");
    s = small_open(text);
    CHECK_NEAR(task_us(s, "a"), 7.0, 1e-6);
    small_close(s);
    text.outputs = "[2,3]"; /* a is written, too: 2 + 3500 / 500 */
    s = small_open(text);
    CHECK_NEAR(task_us(s, "a"), 9.0, 1e-6);
    small_close(s);
    text.outputs = "[]"; /* nothing is: 2 + 1500 / 500 */
    s = small_open(text);
    CHECK_NEAR(task_us(s, "a"), 5.0, 1e-6);
    small_close(s);
    text.nodes = A_AND_B(",'flops':3000000", ",'flops':1000000"); /* arithmetic: 6 + 2 us, more than the traffic */
    s = small_open(text);
    CHECK_NEAR(task_us(s, "a"), 10.0, 1e-6);
    small_close(s);
}

/* What each kernel of a class takes beside the launch: in an op, and in a group that goes by that class. */
TEST(group, latency_by_class) {
    static const char device[] =
        "{'name':'d0','kind':'x','memory_bytes':100000,'launch_us':2,'flops_per_s':{'f32':1e12},'bandwidth_bytes_per_s':1e9,"
        "'efficiency':{'elementwise':0.5,'reduce':0.25},'latency_us':{'reduce':3}}";
#define CHAIN(written) \
    SOURCE(0, "in", "input", 1000) NODE(1, "r", "relu", "[0]", 1000, "") NODE(2, "s", "sum", "[1]", written, "")
    small_text text = {.nodes = CHAIN(1000), .outputs = "[2]", .devices = device};
    small *s = small_open(text);
    check_us(s, "r", 2 + 2000 / 500.0, 0);
    check_us(s, "s", 2 + 3 + 2000 / 250.0, 0);
    small_close(s);
    text.group = "[-1,1,1]";
    s = small_open(text);
    CHECK_NEAR(task_us(s, "r"), 2 + 2000 / 500.0, 1e-6); /* as much of either: element-wise, which comes first */
    small_close(s);
    text.nodes = CHAIN(1001);
    s = small_open(text);
    CHECK_NEAR(task_us(s, "r"), 2 + 3 + 2001 / 250.0, 1e-6);
    small_close(s);
}

TEST(group, traffic_goes_by_the_class_that_moves_most) {
    /* r, element-wise, reads in (1000); s, a reduction, reads r and big and writes 8 bytes. */
#define R_AND_S(big)               \
    SOURCE(0, "in", "input", 1000) \
    SOURCE(1, "big", "input", big) NODE(2, "r", "relu", "[0]", 1000, "") NODE(3, "s", "sum", "[2,1]", 8, "")
    small_text text = {.nodes = R_AND_S(100), .outputs = "[3]", .devices = KIND_X, .group = "[-1,-1,2,2]"};
    small *s = small_open(text);
    CHECK_NEAR(task_us(s, "r"), 2 + 1108 / 500.0, 1e-6); /* 1000 element-wise, 108 reduction */
    small_close(s);
    text.nodes = R_AND_S(3000);
    s = small_open(text);
    CHECK_NEAR(task_us(s, "r"), 2 + 4008 / 250.0, 1e-6); /* 1000 element-wise, 3008 reduction */
    small_close(s);
    /* What two members read counts once, for the first: all 1000 for r, 8 for s. */
    text.nodes = SOURCE(0, "in", "input", 1000) NODE(1, "r", "relu", "[0]", 1000, "") NODE(2, "s", "sum", "[1,0]", 8, "");
    text.outputs = "[2]";
    text.group = "[-1,1,1]";
    s = small_open(text);
    CHECK_NEAR(task_us(s, "r"), 2 + 1008 / 500.0, 1e-6);
    small_close(s);
    /* Through views: the distinct ones, at most the whole. */
    text.nodes = SOURCE(0, "in", "input", 1000) VIEW(1, "v", 0, 300) VIEW(2, "w", 0, 400) NODE(3, "r", "relu", "[1]", 100, "")
        NODE(4, "s", "relu", "[3,2,1]", 100, "");
    text.outputs = "[4]";
    text.group = "[-1,-1,-1,3,3]";
    s = small_open(text);
    CHECK_NEAR(task_us(s, "r"), 2 + 800 / 500.0, 1e-6);
    small_close(s);
}

TEST(group, recomputed_members_are_paid_in_each) {
    /* r (1000 in, 1000 out: 6 us alone) is recomputed for a and for b, which each write 500: alone 2 + 1500 / 500 = 5 us.
     * {a, r}: in 1000, out 500, 2 + 1500 / 500 = 5 us by the model. r took 12 us when measured, a its 5: 17 / 11 as long. */
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "in", "input", 1000) NODE(1, "r", "relu", "[0]", 1000, ",'us':{'x':12}") NODE(
                                    2, "a", "neg", "[1]", 500, ",'us':{'x':5}") NODE(3, "b", "neg", "[1]", 500, ",'us':{'x':5}"),
                                .outputs = "[2,3]",
                                .devices = KIND_X,
                                .group = "[-1,-1,2,3]"});
    CHECK_NEAR(task_us(s, "a"), 5.0 * 17 / 11, 1e-6);
    CHECK_NEAR(task_us(s, "b"), 5.0 * 17 / 11, 1e-6);
    small_close(s);
}

TEST(group, of_one_is_its_op) {
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "in", "input", 1000) NODE(1, "a", "relu", "[0]", 1000, ",'us':{'x':3.25}")
                                    NODE(2, "b", "relu", "[1]", 1000, "") NODE(3, "c", "relu", "[2]", 1000, ""),
                                .outputs = "[3]",
                                .devices = KIND_X,
                                .group = "[-1,1,2,2]"});
    CHECK_NEAR(task_us(s, "a"), 3.25, 0.0);
    CHECK_NEAR(task_us(s, "b"), 6.0, 1e-6); /* {b, c}: 2 + 2000 / 500; each alone the same */
    small_close(s);
}

TEST(group, update_writes_in_any_case) {
    /* {g, u}: reads p (1000) and in (500), writes p: 2 + 2500 / 500. Nobody reads u, and it is no output. */
    small *s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 1000) SOURCE(1, "in", "input", 500)
                                           NODE(2, "g", "neg", "[1]", 500, "") NODE(3, "u", "add", "[0,2]", 1000, ",'updates':0"),
                                       .devices = KIND_X,
                                       .group = "[-1,-1,2,2]"});
    CHECK_NEAR(task_us(s, "g"), 7.0, 1e-6);
    small_close(s);
}

TEST(group, of_aliases_only) {
    /* They take no time, and a group that consists of them has no launch either. */
    small *s = small_open((small_text){
        .nodes = SOURCE(0, "in", "input", 1000) NODE(1, "a", "detach", "[0]", 1000, "") NODE(2, "b", "detach", "[1]", 1000, ""),
        .devices = KIND_X,
        .group = "[-1,1,1]"});
    CHECK_NEAR(task_us(s, "a"), 0.0, 0.0);
    small_close(s);
}

/* ---- picoseconds ---- */

TEST(cost, halves_are_rounded_away_from_zero) {
    CHECK_EQ_INT(stw_cost_us_to_ps(0.0), 0);
    CHECK_EQ_INT(stw_cost_us_to_ps(0.5e-6), 1);
    CHECK_EQ_INT(stw_cost_us_to_ps(1.5e-6), 2);
    CHECK_EQ_INT(stw_cost_us_to_ps(2.5e-6), 3);
    CHECK_EQ_INT(stw_cost_us_to_ps(2.4e-6), 2);
    CHECK_EQ_INT(stw_cost_us_to_ps(1.0), 1000000);
    CHECK_EQ_INT(stw_cost_us_to_ps(5000000000.000001), 5000000000000001); /* odd, above 2^52: adding a half would spoil it */
    CHECK_EQ_INT(stw_cost_us_to_ps(4611686018427.387904), (int64_t)1 << 62);
    CHECK_EQ_INT(stw_cost_us_to_ps(4611686018427.389), INT64_MAX);
    CHECK_EQ_INT(stw_cost_us_to_ps(1e300), INT64_MAX);
    CHECK_EQ_INT(stw_cost_us_to_ps((double)INFINITY), INT64_MAX);
}

TEST(cost, transfer_time) {
    stw_link link = {.bandwidth = 2e12, .latency_us = 2.5e-6};
    CHECK_EQ_INT(stw_cost_transfer_ps(&link, 0), 3); /* 2.5: the latency alone */
    CHECK_EQ_INT(stw_cost_transfer_ps(&link, 4), 5); /* 2.5 + 2, rounded once */
    CHECK_EQ_INT(stw_cost_transfer_ps(&link, 5), 5);
    link = (stw_link){.bandwidth = 450e9, .latency_us = 3};
    CHECK_EQ_INT(stw_cost_transfer_ps(&link, 450000000), 1003000000);
    link = (stw_link){.bandwidth = 1e-6, .latency_us = 0};
    CHECK_EQ_INT(stw_cost_transfer_ps(&link, 1000), INT64_MAX); /* 1e21 ps */
    CHECK_EQ_INT(stw_cost_transfer_ps(&link, 0), 0);
}
