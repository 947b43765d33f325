/* import/builder: nodes in any order become a graph; what cannot be one is refused with the node's name. */
#include "import/builder.h"

#include <math.h>
#include <string.h>

#include "cost/cost.h"
#include "machine/machine.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_builder *b;
    stw_error error;
    stw_graph *graph;
} fixture;

static void begin(fixture *f) {
    *f = (fixture){0};
    CHECK_EQ_INT(stw_arena_create(&f->arena, &f->error), STW_OK);
    CHECK_EQ_INT(stw_builder_create(&f->arena, STW_ONNX, NULL, &f->b, &f->error), STW_OK);
}

static void end(fixture *f) {
    stw_graph_destroy(f->graph);
    stw_arena_destroy(&f->arena);
}

static stw_raw_node raw(stw_node_kind kind, const char *name, const char *op) {
    return (stw_raw_node){.kind = kind,
                          .name = stw_str_of(name),
                          .op = stw_str_of(op),
                          .dtype = STW_DTYPE_F32,
                          .rank = STW_UNKNOWN,
                          .bytes = STW_UNKNOWN,
                          .flops = STW_UNKNOWN,
                          .moved = STW_UNKNOWN,
                          .at = STW_UNKNOWN,
                          .op_class = STW_UNKNOWN};
}

static int32_t add_raw(fixture *f, stw_raw_node node) {
    int32_t index = -1;
    CHECK_EQ_INT(stw_builder_add(f->b, &node, &index, &f->error), STW_OK);
    return index;
}

/* A vector of `size` floats. */
static int32_t add(fixture *f, stw_node_kind kind, const char *name, const char *op, int64_t size) {
    stw_raw_node node = raw(kind, name, op);
    node.shape = &size;
    node.rank = 1;
    return add_raw(f, node);
}

static void link_input(fixture *f, int32_t node, int32_t from) {
    CHECK_EQ_INT(stw_builder_input(f->b, node, from, &f->error), STW_OK);
}

static bool finish(fixture *f) {
    const stw_status status = stw_builder_finish(f->b, STW_STR("g"), STW_STR("test"), &f->graph, &f->error);
    CHECK_STR(f->error.message, "");
    return CHECK_EQ_INT(status, STW_OK);
}

static void check_refused(fixture *f, const char *says) {
    CHECK_EQ_INT(stw_builder_finish(f->b, STW_STR("g"), STW_STR(""), &f->graph, &f->error), STW_ERROR_INPUT);
    CHECK(f->graph == NULL);
    CHECK_CONTAINS(f->error.message, says);
}

TEST(builder, readers_may_come_first) {
    fixture f;
    begin(&f);
    const int32_t relu = add(&f, STW_NODE_OP, "relu", "Relu", 4);
    const int32_t add_op = add(&f, STW_NODE_OP, "", "Add", 4);
    const int32_t x = add(&f, STW_NODE_INPUT, "x", "", 4);
    const int32_t w = add(&f, STW_NODE_PARAMETER, "w", "initializer", 4);
    link_input(&f, relu, add_op);
    link_input(&f, add_op, w);
    link_input(&f, add_op, x);
    stw_builder_node(f.b, w)->label = STW_STR("layer.weight");
    stw_builder_node(f.b, relu)->flops = 4;
    CHECK_EQ_INT(stw_builder_output(f.b, relu, &f.error), STW_OK);
    if (finish(&f)) {
        const stw_graph *g = f.graph; /* w, x, Add, relu: a need comes right before its reader, in argument order */
        CHECK_EQ_INT(g->N, 4);
        CHECK_EQ_INT(g->op_count, 2);
        const int32_t origins[] = {w, x, add_op, relu};
        for (int i = 0; i < 4; i++) CHECK_EQ_INT(g->origin[i], origins[i]);
        CHECK_STR(stw_graph_node_name(g, 2), "Add_1");
        CHECK_STR(g->op_name[1].p, "input");
        CHECK_STR(g->op_name[0].p, "initializer");
        CHECK_STR(g->label[0].p, "layer.weight");
        CHECK_EQ_INT(g->input[g->input_start[2]], 0);
        CHECK_EQ_INT(g->input[g->input_start[2] + 1], 1);
        CHECK_EQ_INT(g->bytes[3], 16);
        CHECK_EQ_INT(g->flops[3], 4);
        CHECK_EQ_INT(g->flops[2], 0);
        CHECK_EQ_INT(g->op_class[3], STW_CLASS_ELEMENTWISE);
        CHECK(g->known[3]);
        CHECK(g->kept[3]);
        CHECK_EQ_INT(g->loss, -1);
        CHECK_STR(stw_graph_name(g), "g");
    }
    end(&f);
}

TEST(builder, unknown_shapes_and_operators) {
    fixture f;
    begin(&f);
    stw_raw_node node = raw(STW_NODE_OP, "mystery", "NoSuchOperator");
    node.dtype = STW_UNKNOWN;
    add_raw(&f, node);
    node.op_class = STW_CLASS_MATMUL;
    node.bytes = 123;
    add_raw(&f, node);
    if (finish(&f)) {
        CHECK(!f.graph->known[0]);
        CHECK_EQ_INT(f.graph->op_class[0], STW_CLASS_OPAQUE);
        CHECK_EQ_INT(f.graph->bytes[0], 0);
        CHECK_EQ_INT(f.graph->dtype[0], STW_DTYPE_NONE);
        CHECK(f.graph->known[1]);
        CHECK_EQ_INT(f.graph->op_class[1], STW_CLASS_MATMUL);
        CHECK_EQ_INT(f.graph->bytes[1], 123);
    }
    end(&f);
}

TEST(builder, bytes_moved_reach_the_costs) {
    fixture f;
    begin(&f);
    const int32_t x = add(&f, STW_NODE_INPUT, "x", "", 100);
    const int32_t plain = add(&f, STW_NODE_OP, "plain", "Relu", 100);
    const int32_t loop = add(&f, STW_NODE_OP, "loop", "Loop", 100);
    link_input(&f, plain, x);
    link_input(&f, loop, x);
    stw_builder_node(f.b, loop)->moved = 1234567;
    if (finish(&f)) {
        stw_machine *machine = NULL;
        stw_costs *costs = NULL;
        CHECK_EQ_INT(stw_machine_build(STW_STR("h200x2"), &machine, &f.error), STW_OK);
        CHECK_EQ_INT(stw_costs_create(f.graph, machine, NULL, &costs, &f.error), STW_OK);
        if (costs != NULL) {
            CHECK_EQ_INT(costs->moved[1], 800);
            CHECK_EQ_INT(costs->moved[2], 1234567);
        }
        stw_costs_destroy(costs);
        stw_machine_destroy(machine);
    }
    end(&f);
}

TEST(builder, cycles_through_waits) {
    fixture f;
    begin(&f);
    const int32_t a = add(&f, STW_NODE_OP, "a", "Relu", 8), view = add(&f, STW_NODE_VIEW, "v", "Reshape", 8);
    link_input(&f, view, a);
    CHECK_EQ_INT(stw_builder_control(f.b, a, view, &f.error), STW_OK);
    check_refused(&f, "cycle");
    end(&f);
}

TEST(builder, a_view_that_waits_is_an_op) {
    fixture f;
    begin(&f);
    add(&f, STW_NODE_INPUT, "x", "", 8);
    add(&f, STW_NODE_OP, "a", "Relu", 8);
    add(&f, STW_NODE_VIEW, "vw", "Reshape", 8);
    add(&f, STW_NODE_OP, "late", "Relu", 8);
    add(&f, STW_NODE_CONSTANT, "c", "", 8);
    link_input(&f, 1, 0);
    link_input(&f, 2, 1);
    link_input(&f, 3, 0);
    CHECK_EQ_INT(stw_builder_control(f.b, 2, 3, &f.error), STW_OK);
    CHECK_EQ_INT(stw_builder_control(f.b, 4, 3, &f.error), STW_OK);
    if (finish(&f)) { /* x a late vw c */
        CHECK_EQ_INT(f.graph->origin[3], 2);
        CHECK_EQ_INT(f.graph->kind[3], STW_NODE_OP);
        CHECK_EQ_INT(f.graph->op_class[3], STW_CLASS_ALIAS);
        CHECK_EQ_INT(f.graph->wait_start[4] - f.graph->wait_start[3], 1);
        CHECK_EQ_INT(f.graph->wait[f.graph->wait_start[3]], 2);
        CHECK_EQ_INT(f.graph->control_start[5], 1);
    }
    end(&f);
}

TEST(builder, updates_and_places) {
    fixture f;
    begin(&f);
    const int32_t first = add(&f, STW_NODE_OP, "first", "Add", 8);
    const int32_t second = add(&f, STW_NODE_OP, "second", "Add", 8);
    const int32_t w = add(&f, STW_NODE_PARAMETER, "w", "", 8);
    const int32_t v = add(&f, STW_NODE_VIEW, "v", "Reshape", 8);
    link_input(&f, v, w);
    stw_builder_update(f.b, first, w);
    stw_builder_update(f.b, second, v);
    stw_builder_colocate(f.b, w, second);
    if (finish(&f)) { /* w first v second */
        CHECK_EQ_INT(f.graph->updated_by[0], 3);
        CHECK_EQ_INT(f.graph->updates[3], 0);
        CHECK_EQ_INT(f.graph->updates[1], -1);
        CHECK_EQ_INT(f.graph->colocate[1], 0);
        CHECK_EQ_INT(f.graph->colocate[0], 3);
    }
    end(&f);
}

TEST(builder, bytes_that_are_no_text) {
    fixture f;
    begin(&f);
    stw_raw_node node = raw(STW_NODE_OP, "", "Relu");
    node.name = (stw_str){"a\0b\xff", 4};
    add_raw(&f, node);
    if (finish(&f)) CHECK_STR(stw_graph_node_name(f.graph, 0), "a?b?");
    end(&f);
}

TEST(builder, nothing_is_a_graph) {
    fixture f;
    begin(&f);
    if (finish(&f)) CHECK_EQ_INT(f.graph->N, 0);
    end(&f);
}

TEST(builder, refusals) {
    fixture f;
    begin(&f);
    const int32_t a = add(&f, STW_NODE_OP, "culprit", "Relu", 8);
    link_input(&f, a, 7);
    stw_builder_node(f.b, a)->at = 55;
    check_refused(&f, "byte 55: node 0 'culprit' (Relu): its input 7 is not there");
    end(&f);

    begin(&f); /* of a text the line */
    const int32_t b = add(&f, STW_NODE_OP, "culprit", "Relu", 8);
    link_input(&f, b, 7);
    stw_builder_node(f.b, b)->at = 3;
    stw_builder_set_text(f.b, STW_STR("a\nb\nc\n"));
    check_refused(&f, "line 2: node 0 'culprit' (Relu): its input 7 is not there");
    end(&f);

    begin(&f); /* a parameter is not a node of a file */
    add(&f, STW_NODE_PARAMETER, "culprit", "", -8);
    stw_builder_node(f.b, 0)->at = 3;
    check_refused(&f, "byte 3: parameter 'culprit': dimension 0 of its shape is -8");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_VIEW, "culprit", "Reshape", 8);
    check_refused(&f, "a view needs an input");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_OP, "culprit", "Relu", -8);
    check_refused(&f, "dimension 0 of its shape is -8");
    end(&f);

    begin(&f);
    stw_raw_node node = raw(STW_NODE_OP, "culprit", "Relu");
    node.shape = (const int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40};
    node.rank = 2;
    add_raw(&f, node);
    check_refused(&f, "more than 2^63 bytes");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_OP, "large", "Relu", (int64_t)1 << 53);
    add(&f, STW_NODE_OP, "culprit", "Relu", (int64_t)1 << 53);
    stw_builder_node(f.b, 0)->bytes = (int64_t)1 << 56;
    check_refused(&f, "'culprit' (Relu): with its");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_OP, "a", "Relu", 8);
    CHECK_EQ_INT(stw_builder_output(f.b, 3, &f.error), STW_OK);
    check_refused(&f, "output 0 of the graph");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_OP, "a", "Relu", 8);
    stw_builder_update(f.b, 0, 9);
    check_refused(&f, "updates node 9");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_INPUT, "x", "", 8);
    add(&f, STW_NODE_OP, "a", "Relu", 8);
    stw_builder_update(f.b, 1, 0);
    check_refused(&f, "only an op can write in place");
    end(&f);

    begin(&f);
    add(&f, STW_NODE_INPUT, "x", "", 8);
    add(&f, STW_NODE_INPUT, "y", "", 8);
    link_input(&f, 0, 1);
    check_refused(&f, "has no inputs");
    end(&f);
}
