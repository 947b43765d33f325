/* cost/kernel_model: features of kernels that are written here, by hand; trees against a plain walk; damaged files; where the
 * model counts. */
#define _POSIX_C_SOURCE 200809L
#include "cost/kernel_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/tensor_file.h"
#include "stowage.h"
#include "test.h"

/* ---- features ---- */

/* Each op is a kernel; then the same within fusions. */
static const char module[] =
    "HloModule kernels\n"
    "sum {\n"
    "  a = f32[] parameter(0)\n"
    "  b = f32[] parameter(1)\n"
    "  ROOT c = f32[] add(a, b)\n"
    "}\n"
    "fused {\n"
    "  p = f32[1024,512]{1,0} parameter(0)\n"
    "  q = f32[512]{0} parameter(1)\n"
    "  qs = f32[1024,512]{1,0} broadcast(q), dimensions={1}\n"
    "  m = f32[1024,512]{1,0} multiply(p, qs)\n"
    "  ROOT e = f32[1024,512]{1,0} exponential(m)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[1024,512]{1,0} parameter(0)\n"
    "  v = f32[512]{0} parameter(1)\n"
    "  h = bf16[256,512]{1,0} parameter(2)\n"
    "  zero = f32[] constant(0)\n"
    "  spread = f32[1024,512]{1,0} broadcast(v), dimensions={1}\n"
    "  product = f32[1024,512]{1,0} multiply(x, spread)\n"
    "  power = f32[1024,512]{1,0} exponential(product)\n"
    "  whole = f32[1024,512]{1,0} fusion(x, v), kind=kLoop, calls=fused\n"
    "  rows = f32[1024]{0} reduce(power, zero), dimensions={1}, to_apply=sum\n"
    "  columns = f32[512]{0} reduce(power, zero), dimensions={0}, to_apply=sum\n"
    "  turned = f32[512,1024]{1,0} transpose(whole), dimensions={1,0}\n"
    "  dot = f32[256,1024]{1,0} dot(h, turned), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  ROOT out = (f32[1024]{0}, f32[512]{0}, f32[256,1024]{1,0}) tuple(rows, columns, dot)\n"
    "}\n";

typedef struct {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_arena arena;
    stw_kernel_room room;
} kernels;

static kernels open_with(const char *machine, const char *kernels_option) {
    kernels k = {0};
    stw_error error = {0};
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "kernels", kernels_option, NULL), STW_OK);
    CHECK_EQ_INT(stw_graph_parse(module, strlen(module), "module", NULL, &k.graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_machine_open(machine, &k.machine, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_costs_create(k.graph, k.machine, options, &k.costs, &error), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&k.arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_kernel_room_create(k.graph, &k.arena, &k.room, NULL), STW_OK);
    stw_options_destroy(options);
    return k;
}

static void close_kernels(kernels *k) {
    stw_arena_destroy(&k->arena);
    stw_costs_destroy(k->costs);
    stw_machine_destroy(k->machine);
    stw_graph_destroy(k->graph);
}

static int32_t node_of(const kernels *k, const char *name) {
    for (int32_t i = 0; i < k->graph->N; i++) {
        if (stw_str_is(k->graph->node_name[i], name)) return i;
    }
    CHECK_STR(name, "a node of the graph");
    return 0;
}

/* Of a group of these ops, of which the last is written. */
static void find_features(const kernels *k, const char *const *names, int32_t count, double us, float *out) {
    enum { MOST = 4 };
    int32_t member[MOST];
    bool written[MOST] = {false};
    stw_kernel_work work;
    for (int32_t m = 0; m < count; m++) member[m] = node_of(k, names[m]);
    written[count - 1] = true;
    stw_kernel_find_work(k->graph, &(stw_members){.member = member, .written = written, .count = count}, &k->room, &work);
    stw_kernel_find_features(&k->machine->device[0], &work, us, out);
}

static const char *const column_name[STW_KERNEL_FEATURES] = {
#define COLUMN(name, what) #name,
#include "cost/kernel_columns.def"
#undef COLUMN
};

static void check_feature(const float *feature, stw_kernel_column column, double expected) {
    test_context("%s", column_name[column]);
    CHECK_NEAR((double)feature[column], expected, 1e-5 * (1.0 + fabs(expected)));
    test_context("%s", "");
}

static double bend(double x) { return log2(1.0 + x); }

TEST(kernel_features, by_hand) {
    enum { ALL = 1024 * 512 };
    kernels k = open_with("h200x1", "formula");
    float feature[STW_KERNEL_FEATURES];
    find_features(&k, (const char *const[]){"whole"}, 1, 2.0, feature);
    check_feature(feature, STW_KERNEL_formula, bend(2000.0));
    check_feature(feature, STW_KERNEL_read, bend(4.0 * ALL + 4.0 * 512));
    check_feature(feature, STW_KERNEL_written, bend(4.0 * ALL));
    check_feature(feature, STW_KERNEL_most_read, bend(4.0 * ALL));
    check_feature(feature, STW_KERNEL_second_read, bend(4.0 * 512));
    check_feature(feature, STW_KERNEL_reused, bend(4.0 * 512));
    check_feature(feature, STW_KERNEL_inputs, 2.0);
    check_feature(feature, STW_KERNEL_big_inputs, 1.0);
    check_feature(feature, STW_KERNEL_outputs, 1.0);
    check_feature(feature, STW_KERNEL_ops, bend(3.0));
    check_feature(feature, STW_KERNEL_elements, bend(ALL));
    check_feature(feature, STW_KERNEL_out_minor, bend(512.0));
    check_feature(feature, STW_KERNEL_work, bend(3.0 * ALL));
    check_feature(feature, STW_KERNEL_dear_work, bend(ALL));
    check_feature(feature, STW_KERNEL_broadcasts, bend(ALL));
    check_feature(feature, STW_KERNEL_singles, 1.0);
    check_feature(feature, STW_KERNEL_halves, 0.0);
    check_feature(feature, STW_KERNEL_rows, 0.0);
    check_feature(feature, STW_KERNEL_element_bytes, 4.0);
    check_feature(feature, STW_KERNEL_shrinks, 0.0);
    check_feature(feature, STW_KERNEL_work_per_result, bend(3.0 * ALL) - bend(ALL));
    check_feature(feature, STW_KERNEL_overhead, bend(2000.0) - bend((8.0 * ALL + 4.0 * 512) / 4.8e12 * 1e9));
    check_feature(feature, STW_KERNEL_read_per_written, bend(4.0 * ALL + 4.0 * 512) - bend(4.0 * ALL));
    check_feature(feature, STW_KERNEL_traffic, bend((8.0 * ALL + 4.0 * 512) / 4.8e12 * 1e9));

    find_features(&k, (const char *const[]){"rows"}, 1, 1.0, feature);
    check_feature(feature, STW_KERNEL_rows, bend(ALL));
    check_feature(feature, STW_KERNEL_row_length, bend(512.0));
    check_feature(feature, STW_KERNEL_row_count, bend(1024.0));
    check_feature(feature, STW_KERNEL_columns, 0.0);
    check_feature(feature, STW_KERNEL_reductions, 1.0);

    find_features(&k, (const char *const[]){"columns"}, 1, 1.0, feature);
    check_feature(feature, STW_KERNEL_columns, bend(ALL));
    check_feature(feature, STW_KERNEL_column_length, bend(1024.0));
    check_feature(feature, STW_KERNEL_column_wide, bend(512.0));
    check_feature(feature, STW_KERNEL_column_count, bend(512.0));
    check_feature(feature, STW_KERNEL_column_blocks, 0.0);
    check_feature(feature, STW_KERNEL_shrinks, 0.0);
    check_feature(feature, STW_KERNEL_rows, 0.0);

    find_features(&k, (const char *const[]){"turned"}, 1, 1.0, feature);
    check_feature(feature, STW_KERNEL_transposed, bend(ALL));
    check_feature(feature, STW_KERNEL_transpose_from, bend(512.0));
    check_feature(feature, STW_KERNEL_transpose_to, bend(1024.0));

    find_features(&k, (const char *const[]){"dot"}, 1, 1.0, feature);
    check_feature(feature, STW_KERNEL_product, bend(2.0 * 256 * 1024 * 512));
    check_feature(feature, STW_KERNEL_product_out, bend(256.0 * 1024));
    check_feature(feature, STW_KERNEL_product_inner, bend(512.0));
    check_feature(feature, STW_KERNEL_product_wide, bend(1024.0));
    check_feature(feature, STW_KERNEL_product_rows, bend(256.0 * 1024) - bend(1024.0));
    check_feature(feature, STW_KERNEL_product_half, 0.0);
    check_feature(feature, STW_KERNEL_product_of_halves, 1.0);
    check_feature(feature, STW_KERNEL_library, 0.0);
    close_kernels(&k);
}

/* A group of ops and a fusion of the same look alike, whatever the order of their ops. */
TEST(kernel_features, groups_and_fusions) {
    kernels k = open_with("h200x1", "formula");
    float group[STW_KERNEL_FEATURES], fusion[STW_KERNEL_FEATURES];
    find_features(&k, (const char *const[]){"spread", "product", "power"}, 3, 2.0, group);
    find_features(&k, (const char *const[]){"whole"}, 1, 2.0, fusion);
    for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++) check_feature(group, (stw_kernel_column)c, (double)fusion[c]);
    close_kernels(&k);
}

/* ---- trees ---- */

/* What each leaf says of the features above it: whoever fulfils all conditions on the way is in it. */
static double by_paths(const stw_kernel_model *model, int32_t at, const float *feature, bool inside) {
    const stw_kernel_node *node = &model->node[at];
    if (node->column < 0) return inside ? (double)node->number : 0.0;
    const bool below = !((double)feature[node->column] > (double)node->number);
    return by_paths(model, at + 1, feature, inside && below) + by_paths(model, node->above, feature, inside && !below);
}

TEST(kernel_model, against_a_plain_walk) {
    stw_arena arena;
    const stw_kernel_model *model = NULL;
    stw_rng rng = stw_rng_create(7);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_kernel_model_shipped(&arena, &model, NULL), STW_OK);
    if (!CHECK(model != NULL)) return;
    int32_t cut = 0;
    for (int k = 0; k < 200; k++) {
        float feature[STW_KERNEL_FEATURES];
        double sum = 0.0;
        for (int32_t c = 0; c < STW_KERNEL_FEATURES; c++)
            feature[c] = model->least[c] + (model->most[c] - model->least[c]) * (float)stw_rng_uniform(&rng);
        for (int32_t t = 0; t < model->tree_count; t++) sum += by_paths(model, model->root[t], feature, true);
        cut += fabs(sum) > 4.0;
        CHECK_NEAR(stw_kernel_model_log_ratio(model, feature), fmin(fmax(sum, -4.0), 4.0), 1e-12);
        CHECK(stw_kernel_model_covers(model, feature));
        feature[STW_KERNEL_read] = model->most[STW_KERNEL_read] + 1.5f;
        CHECK(!stw_kernel_model_covers(model, feature));
        feature[STW_KERNEL_read] = model->most[STW_KERNEL_read] + 0.5f; /* a little beyond all that was seen */
        feature[STW_KERNEL_repeats] = model->most[STW_KERNEL_repeats] + 0.5f;
        CHECK(stw_kernel_model_covers(model, feature));
        feature[STW_KERNEL_dynamic] = 0.5f; /* but no kernel had any */
        CHECK(!stw_kernel_model_covers(model, feature));
    }
    CHECK(model->most[STW_KERNEL_repeats] < 0.0f && model->most[STW_KERNEL_dynamic] == 0.0f);
    CHECK(cut < 200);
    stw_arena_destroy(&arena);
}

/* ---- its file ---- */

enum { NODES = 3 };

typedef struct {
    int64_t version, nodes;
    int32_t root[1], column[NODES], above[NODES];
    float number[NODES], least[STW_KERNEL_FEATURES], most[STW_KERNEL_FEATURES];
} made;

/* One tree: up to 5 operations a kernel takes as long as the formula says, else twice as long. */
static made make(void) {
    return (made){.version = STW_KERNEL_FEATURES_VERSION,
                  .nodes = NODES,
                  .column = {STW_KERNEL_ops, -1, -1},
                  .above = {2, 0, 0},
                  .number = {5.0f, 0.0f, 0.6931472f}};
}

/* Written as a file with a right checksum, and read again. */
static stw_status read_made(const made *m, stw_arena *arena, stw_kernel_model *out, stw_error *error) {
    char path[64];
    stw_str bytes = {0};
    stw_tensor tensor[] = {{.name = "root", .type = STW_TENSOR_I32, .rows = 1, .cols = 1, .data = m->root},
                           {.name = "column", .type = STW_TENSOR_I32, .rows = 1, .cols = NODES, .data = m->column},
                           {.name = "number", .type = STW_TENSOR_F32, .rows = 1, .cols = NODES, .data = m->number},
                           {.name = "above", .type = STW_TENSOR_I32, .rows = 1, .cols = NODES, .data = m->above},
                           {.name = "least", .type = STW_TENSOR_F32, .rows = 1, .cols = STW_KERNEL_FEATURES, .data = m->least},
                           {.name = "most", .type = STW_TENSOR_F32, .rows = 1, .cols = STW_KERNEL_FEATURES, .data = m->most}};
    stw_tensor_file file = {.dimension_count = 4, .count = sizeof tensor / sizeof tensor[0], .tensor = tensor};
    const char *const name[] = {"kernel_features_version", "kernel_features", "trees", "nodes"};
    const int64_t value[] = {m->version, STW_KERNEL_FEATURES, 1, m->nodes};
    for (int k = 0; k < 4; k++) {
        snprintf(file.dimension[k].name, sizeof file.dimension[k].name, "%s", name[k]);
        file.dimension[k].value = value[k];
    }
    snprintf(path, sizeof path, "kernels-%d.stw", (int)getpid());
    CHECK_EQ_INT(stw_tensor_file_write(&file, path, NULL), STW_OK);
    CHECK_EQ_INT(stw_file_read(path, arena, &bytes, NULL), STW_OK);
    unlink(path);
    return stw_kernel_model_parse(bytes, "made.stw", arena, out, error);
}

static void check_refused(const made *m, const char *why) {
    stw_arena arena;
    stw_kernel_model model;
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(read_made(m, &arena, &model, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "made.stw");
    CHECK_CONTAINS(error.message, why);
    stw_arena_destroy(&arena);
}

TEST(kernel_model, comes_back) {
    stw_arena arena;
    stw_kernel_model model;
    stw_error error = {0};
    float feature[STW_KERNEL_FEATURES] = {0};
    const made good = make();
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(read_made(&good, &arena, &model, &error), STW_OK);
    CHECK_STR(error.message, "");
    feature[STW_KERNEL_ops] = 5.0f;
    CHECK_NEAR(stw_kernel_model_log_ratio(&model, feature), 0.0, 0.0);
    feature[STW_KERNEL_ops] = 5.001f;
    CHECK_NEAR(exp(stw_kernel_model_log_ratio(&model, feature)), 2.0, 1e-6);
    stw_arena_destroy(&arena);
}

TEST(kernel_model, wrong_with_a_right_checksum) {
    made m = make();
    m.version++;
    check_refused(&m, "train it again");
    m = make();
    m.nodes = 4;
    check_refused(&m, "tensor column is i32 of 1 x 3; expected is i32 of 1 x 4");
    m = make();
    m.nodes = -1;
    check_refused(&m, "nodes; 1 to 1048576 are read");
    m = make();
    m.root[0] = NODES;
    check_refused(&m, "tree 0 begins at node 3 of 3");
    m = make();
    m.above[0] = 0; /* would never end */
    check_refused(&m, "node 0 of 3 leads to node 0");
    m = make();
    m.above[0] = NODES;
    check_refused(&m, "node 0 of 3 leads to node 3");
    m = make();
    m.column[2] = STW_KERNEL_ops; /* the last one is no leaf */
    m.above[2] = 3;
    check_refused(&m, "node 2 of 3 leads to node 3");
    m = make();
    m.column[0] = STW_KERNEL_FEATURES;
    check_refused(&m, "node 0 asks for column");
    m = make();
    m.number[1] = NAN;
    check_refused(&m, "node 1 has what is no number");
    m = make();
    m.least[3] = NAN;
    check_refused(&m, "least has what is no number");
}

/* ---- where it counts ---- */

static void check_same_times(const kernels *a, const kernels *b, bool same) {
    int32_t differ = 0;
    for (int32_t i = 0; i < a->graph->N; i++) differ += a->costs->us[0][i] != b->costs->us[0][i];
    CHECK(same ? differ == 0 : differ > 0);
}

static void check_machine(const char *machine, bool same) {
    kernels by_formula = open_with(machine, "formula"), learned = open_with(machine, "learned");
    test_context("%.60s", machine);
    check_same_times(&by_formula, &learned, same);
    CHECK(by_formula.costs->kernel_model == NULL);
    CHECK((learned.costs->kernel_model == NULL) == same);
    test_context("%s", "");
    close_kernels(&by_formula);
    close_kernels(&learned);
}

TEST(kernel_model, counts_on_its_kind_alone) {
    check_machine("h200x1", false);
    check_machine("h200x4", false);
    check_machine("h100x1", true);
    check_machine("a100x4", true);
}

/* Each op takes the formula's time, times what the trees say of it. */
TEST(kernel_model, times_of_ops) {
    kernels by_formula = open_with("h200x1", "formula"), learned = open_with("h200x1", "learned");
    const stw_device *device = &learned.machine->device[0];
    int32_t checked = 0;
    for (int32_t i = 0; i < learned.graph->N && learned.costs->kernel_model != NULL; i++) {
        if (learned.graph->kind[i] != STW_NODE_OP || learned.graph->op_class[i] == STW_CLASS_ALIAS) continue;
        stw_kernel_work work;
        float feature[STW_KERNEL_FEATURES];
        const double us = by_formula.costs->us[0][i];
        stw_kernel_find_work(learned.graph, &(stw_members){.member = &i, .count = 1}, &learned.room, &work);
        stw_kernel_find_features(device, &work, us, feature);
        const bool covered = stw_kernel_model_covers(learned.costs->kernel_model, feature);
        const double ratio = covered ? exp(stw_kernel_model_log_ratio(learned.costs->kernel_model, feature)) : 1.0;
        CHECK_NEAR(learned.costs->us[0][i], us * ratio, 1e-12 * us);
        CHECK(learned.costs->compute_us[0][i] <= learned.costs->us[0][i]);
        checked += covered;
    }
    CHECK(checked >= 6);
    close_kernels(&by_formula);
    close_kernels(&learned);
}

/* Another device of that kind, by any of its figures, is not the one that kernels were measured on. */
TEST(kernel_model, figures_of_the_device) {
    stw_device device;
    CHECK(stw_device_of_kind(stw_str_of("h200"), &device));
    CHECK(stw_kernel_model_knows(&device));
    device.fuses_epilogue[STW_CLASS_REDUCE] = true;
    CHECK(stw_kernel_model_knows(&device));
    device.efficiency[STW_CLASS_MATMUL] *= 0.9;
    CHECK(!stw_kernel_model_knows(&device));
    CHECK(stw_device_of_kind(stw_str_of("h200"), &device));
    device.bandwidth *= 2.0;
    CHECK(!stw_kernel_model_knows(&device));
    CHECK(stw_device_of_kind(stw_str_of("h100"), &device));
    CHECK(!stw_kernel_model_knows(&device));
}
