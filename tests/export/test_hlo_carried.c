/* The plan that an exported module carries: what was written is read back, from text and from protobufs, and what is amiss is
 * told. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "hlo_problem.h"

/* A parameter with two arrays, another that nobody would take for one once its cast is in a fusion, and three ops. */
static const char weights[] =
    "HloModule weights\n"
    "ENTRY main {\n"
    "  state.weights = (f32[64,64]{1,0}, f32[64]{0}) parameter(0)\n"
    "  w = bf16[64,64]{1,0} parameter(1)\n"
    "  data = f32[64,64]{1,0} parameter(2)\n"
    "  first = f32[64,64]{1,0} get-tuple-element(state.weights), index=0\n"
    "  bias = f32[64]{0} get-tuple-element(state.weights), index=1\n"
    "  biases = f32[64,64]{1,0} broadcast(bias), dimensions={1}\n"
    "  wide = f32[64,64]{1,0} convert(w)\n"
    "  more = f32[64,64]{1,0} add(wide, biases)\n"
    "  product = f32[64,64]{1,0} dot(data, wide), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  with = f32[64,64]{1,0} multiply(more, first)\n"
    "  ROOT end = f32[64,64]{1,0} add(with, product)\n"
    "}\n";

#define MODULE(FIRST, SECOND)                                      \
    "HloModule m\nENTRY main {\n  x = f32[8]{0} parameter(0)\n"    \
    "  a = f32[8]{0} negate(x), frontend_attributes={" FIRST       \
    "}\n"                                                          \
    "  ROOT b = f32[8]{0} negate(a), frontend_attributes={" SECOND \
    "}\n"                                                          \
    "}\n"

static problem read_again(const problem *p, const char *machine) {
    problem back = open_bytes((stw_str){p->io.bytes, (int64_t)p->io.size}, machine);
    stw_plan_destroy(back.plan);
    back.plan = NULL;
    CHECK_EQ_INT(stw_plan_carried(back.graph, back.machine, &back.plan, &back.error), STW_OK);
    CHECK_STR(back.error.message, "");
    return back;
}

/* What one plan says of a node that has the same name in the other; views, inputs and constants have no say. */
static void check_same(const problem *p, const problem *back) {
    for (int32_t i = 0; i < back->graph->N; i++) {
        if (back->graph->kind[i] != STW_NODE_OP && !stw_node_is_resident(back->graph->kind[i])) continue;
        int32_t k = 0;
        while (k < p->graph->N && !stw_str_equal(p->graph->node_name[k], back->graph->node_name[i])) k++;
        if (k == p->graph->N) continue; /* a fusion */
        test_context("%.*s", STW_STR_SHOW(back->graph->node_name[i]));
        CHECK_EQ_INT(back->graph->kind[i], p->graph->kind[k]);
        CHECK_EQ_INT(back->plan->device[i], p->plan->device[k]);
        CHECK(back->plan->priority[i] == p->plan->priority[k]);
    }
    test_context("%s", "");
}

TEST(hlo_carried, parameters_and_fusions) {
    problem p = open_text(weights, "h200x4");
    for (int32_t i = 0; i < p.graph->N; i++) {
        p.plan->device[i] = i * 7 % 4;
        p.plan->priority[i] = i % 3 == 0 ? 0.0 : 1.0 / (i + 1) - 0.1;
    }
    const int32_t group = node_of(&p, "biases"), device = p.plan->device[group];
    set_group(&p, "more", group); /* one kernel: of its priorities the largest counts */
    p.plan->device[node_of(&p, "more")] = device;
    set_priority(&p, "more", 1e-300);
    set_priority(&p, "biases", -3.0);
    export_well(&p, "hlo");
    problem back = read_again(&p, "h200x4");
    check_same(&p, &back);
    const int32_t fusion = node_of(&back, "stowage_fusion.1");
    CHECK_EQ_INT(back.plan->device[fusion], device);
    CHECK(back.plan->priority[fusion] == 1e-300);
    CHECK_EQ_INT(back.graph->kind[node_of(&back, "w")], STW_NODE_PARAMETER);
    CHECK_EQ_INT(back.graph->kind[node_of(&back, "data")], STW_NODE_INPUT);
    for (int32_t d = 0; d < 4; d++) CHECK(back.plan->order[d] == NULL);
    close_problem(&back);
    close_problem(&p);
}

/* Where all arrays of a tuple are alike, once is enough. */
TEST(hlo_carried, short_where_it_can_be) {
    problem p = open_text(weights, "h200x2");
    export_well(&p, "hlo");
    CHECK(has(&p, "parameter(0), frontend_attributes={stowage_device=\"h200:0\"}\n"));
    CHECK(!has(&p, "stowage_priority") && !has(&p, "stowage_order"));
    p.plan->device[node_of(&p, "state.weights.1")] = 1;
    set_priority(&p, "state.weights.1", 0.1);
    export_well(&p, "hlo");
    CHECK(has(&p, "parameter(0), frontend_attributes={stowage_device=\"h200:0,h200:1\",stowage_priority=\"0,0.1\"}\n"));
    close_problem(&p);
}

TEST(hlo_carried, strict_orders) {
    problem p = open_text(weights, "h200x2");
    const int32_t order[] = {node_of(&p, "biases"), node_of(&p, "wide"), node_of(&p, "product"),
                             node_of(&p, "more"),   node_of(&p, "with"), node_of(&p, "end")};
    CHECK_EQ_INT(stw_plan_set_order(p.plan, 0, order, 6, NULL), STW_OK);
    export_well(&p, "hlo");
    CHECK(has(&p, "stowage_device=\"h200:0\",stowage_order=\"2\"}"));
    problem back = read_again(&p, "h200x2");
    if (CHECK_EQ_INT(back.plan->order_count[0], 6)) {
        for (int32_t k = 0; k < 6; k++)
            CHECK(stw_str_equal(back.graph->node_name[back.plan->order[0][k]], p.graph->node_name[order[k]]));
    }
    CHECK(back.plan->order[1] == NULL);

    /* Another plan replaces all of it, on one device too. */
    stw_plan_remove_orders(back.plan);
    export_well(&back, "hlo");
    CHECK(has(&back, "stowage_device") && !has(&back, "stowage_order"));
    problem single = open_bytes((stw_str){p.io.bytes, (int64_t)p.io.size}, "h200x1");
    export_well(&single, "hlo");
    CHECK(!has(&single, "stowage"));
    close_problem(&single);
    close_problem(&back);
    close_problem(&p);
}

TEST(hlo_carried, protobufs) {
    stw_arena arena;
    stw_str bytes;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (CHECK_EQ_INT(stw_file_read(STW_SOURCE_DIR "/tests/import/data/hlo_train.pb", &arena, &bytes, NULL), STW_OK)) {
        problem p = open_bytes(bytes, "h200x2");
        stw_plan_destroy(p.plan);
        CHECK_EQ_INT(stw_method_run("spread", p.simulator, NULL, &p.plan, &p.error), STW_OK);
        for (int32_t i = 0; i < p.graph->N; i++) p.plan->priority[i] = (double)i / 7.0;
        for (int k = 0; k < 2; k++) { /* as bytes, and printed */
            export_well(&p, k == 0 ? "hlo" : "hlo-text");
            problem back = read_again(&p, "h200x2");
            check_same(&p, &back);
            close_problem(&back);
        }
        close_problem(&p);
    }
    stw_arena_destroy(&arena);
}

/* A name with quotes and more in it is escaped in text; commas are no list where there is one array. */
TEST(hlo_carried, names_of_devices) {
    static const char machine[] =
        "{\"format\": \"machine\", \"version\": 1, \"name\": \"odd\", \"devices\": [{\"name\": \"a,\\\"b\\\\c'\", \"kind\": "
        "\"h200\"}, "
        "{\"name\": \"\\u0007 d\\n\", \"kind\": \"h200\"}], \"links\": [{\"from\": \"a,\\\"b\\\\c'\", \"to\": \"\\u0007 d\\n\", "
        "\"bandwidth_bytes_per_s\": 1e11, \"latency_us\": 1}]}";
    char path[] = "/tmp/stowage_odd_XXXXXX";
    const int file = mkstemp(path);
    if (!CHECK(file >= 0)) return;
    CHECK_EQ_INT(write(file, machine, strlen(machine)), (int64_t)strlen(machine));
    close(file);
    problem p = open_text(MODULE("k=\"v\"", "j=\"w\""), path);
    p.plan->device[node_of(&p, "b")] = 1;
    export_well(&p, "hlo");
    problem back = read_again(&p, path);
    check_same(&p, &back);
    close_problem(&back);
    close_problem(&p);
    unlink(path);
}

/* ---- what is amiss ---- */

static void check_no_plan(const char *text, const char *machine, const char *why) {
    problem p = open_text(text, machine);
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_plan_carried(p.graph, p.machine, &plan, &p.error), STW_ERROR_INPUT);
    CHECK(plan == NULL);
    CHECK_CONTAINS(p.error.message, why);
    close_problem(&p);
}

static void check_no_graph(const char *text, const char *why) {
    stw_graph *graph = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "module", NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, why);
    stw_graph_destroy(graph);
}

TEST(hlo_carried, refused) {
    check_no_plan(weights, "h200x2", "the graph carries no plan");
    check_no_plan(MODULE("stowage_device=\"h200:0\"", "k=\"v\""), "h200x2", "'b' has no device in the model");
    check_no_plan(MODULE("stowage_device=\"h200:0\"", "stowage_device=\"h200:3\""), "h200x2",
                  "'b' on device 'h200:3', which machine 'h200x2' does not have");
    check_no_plan(
        "HloModule m\nENTRY main {\n  p = (f32[8]{0}, f32[8]{0}, f32[8]{0}) parameter(0), "
        "frontend_attributes={stowage_device=\"h200:0,h200:1\"}\n"
        "  ROOT a = f32[8]{0} get-tuple-element(p), index=0\n}\n",
        "h200x2", "'p.2' has no device in the model");
    check_no_graph(MODULE("stowage_device=\"h200:0\",stowage_priority=\"high\"", ""),
                   "instruction 'a' (negate): its stowage_priority is not a number");
    check_no_graph(MODULE("stowage_device=\"h200:0\",stowage_order=\"-1\"", ""),
                   "instruction 'a' (negate): its stowage_order is not a number from 0 on");
}
