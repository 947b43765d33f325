/* export: the plans to paste and to look at: device-map, split-points, dot, csv. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "export/modules/pipeline_cut.h"
#include "plan/of_modules.h"
#include "support/small.h"
#include "test.h"

#define PARAMETER(id, label, bytes) NODE(id, "p" #id, "parameter", "[]", bytes, ",'label':'" label "'")

static stw_export_io io; /* of the last export */
static stw_error error;

/* The text of an export; "" if it fails. The caller frees it. `strip` may be NULL. */
static char *export_stripped(const small *s, const char *format, const char *strip) {
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    if (strip != NULL) CHECK_EQ_INT(stw_options_set(options, "strip", strip, NULL), STW_OK);
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    close(descriptor);
    stw_arena arena;
    stw_str text = {"", 0};
    error = (stw_error){0};
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    io = (stw_export_io){.path = path};
    if (stw_plan_export(s->simulator, s->plan, format, options, &io, &error) == STW_OK) {
        CHECK_EQ_INT(stw_file_read(path, &arena, &text, NULL), STW_OK);
    }
    stw_options_destroy(options);
    char *copy = calloc(1, (size_t)text.length + 1);
    if (text.length > 0) memcpy(copy, text.p, (size_t)text.length);
    stw_arena_destroy(&arena);
    unlink(path);
    return copy;
}

static char *export_to(const small *s, const char *format) { return export_stripped(s, format, NULL); }

static void check_export(small_text text, const char *format, const char *expected, const char *words) {
    small *s = small_open(text);
    char *out = export_to(s, format);
    CHECK_STR(error.message, "");
    CHECK_STR(out, expected);
    CHECK_CONTAINS(io.note, words);
    free(out);
    small_close(s);
}

/* ---- device-map ---- */

/* Two layers in a list, a head, a token of the model itself. */
#define MODEL                               \
    PARAMETER(0, "token", 4)                \
    PARAMETER(1, "layers.0.fc.weight", 40)  \
    PARAMETER(2, "layers.0.fc.bias", 4)     \
    PARAMETER(3, "layers.0.norm.weight", 4) \
    PARAMETER(4, "layers.1.fc.weight", 40)  \
    PARAMETER(5, "layers.1.fc.bias", 4)     \
    PARAMETER(6, "layers.1.norm.weight", 4) \
    PARAMETER(7, "head.weight", 8)          \
    SOURCE(8, "x", "input", 4)              \
    OP(9, "a", "[8,0]", 4, 1)               \
    OP(10, "b", "[9,3]", 4, 1)              \
    OP(11, "c", "[10,1,2]", 4, 1) OP(12, "d", "[11,6]", 4, 1) OP(13, "e", "[12,4,5]", 4, 1) OP(14, "f", "[13,7]", 4, 1)

TEST(device_map, one_device_is_one_entry) {
    check_export((small_text){.nodes = MODEL, .device_count = 2}, "device-map", "{\n  \"\": 0\n}\n", "AutoModel.from_pretrained");
}

TEST(device_map, modules_that_agree_are_one_entry) {
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[0,0,0,0,1,1,1,1,0,0,0,0,1,1,1]"}, "device-map",
                 "{\n  \"token\": 0,\n  \"layers.0\": 0,\n  \"layers.1\": 1,\n  \"head\": 1\n}\n", "use it as");
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[1,0,0,0,0,0,0,1,0,1,0,0,0,0,1]"}, "device-map",
                 "{\n  \"token\": 1,\n  \"layers\": 0,\n  \"head\": 1\n}\n", "use it as");
}

TEST(device_map, a_divided_module_goes_where_most_of_it_is) {
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[0,0,1,1,1,0,0,1,0,0,1,0,0,1,1]"}, "device-map",
                 "{\n  \"token\": 0,\n  \"layers.0\": 0,\n  \"layers.1\": 1,\n  \"head\": 1\n}\n",
                 "the plan divides 2 of 4 blocks and layers; each goes to where most of it is: 4 of 8 parameters and buffers, 16 "
                 "bytes of 108, leave their device");
    check_export((small_text){.nodes = PARAMETER(0, "fc.weight", 40) PARAMETER(1, "fc.bias", 4) PARAMETER(2, "out.weight", 4),
                              .device_count = 2,
                              .device = "[0,1,1]"},
                 "device-map", "{\n  \"fc\": 0,\n  \"out\": 1\n}\n", "1 of 2 blocks and layers");
}

/* Residual connections go around the modules of a block. */
TEST(device_map, blocks_are_whole_up_to_the_outermost) {
    check_export(
        (small_text){.nodes = PARAMETER(0, "a.layer_0.attn.fc.weight", 8) PARAMETER(1, "a.layer_0.experts.0.fc.weight", 4)
                         PARAMETER(2, "a.layer_0.experts.1.fc.weight", 4) PARAMETER(3, "a.layer_1.fc.weight", 4),
                     .device_count = 2,
                     .device = "[0,1,0,1]"},
        "device-map", "{\n  \"a.layer_0\": 0,\n  \"a.layer_1\": 1\n}\n", "1 of 2 blocks and layers");
}

TEST(device_map, a_number_alone_is_no_block) {
    check_export((small_text){.nodes = PARAMETER(0, "net.0.fc.weight", 8) PARAMETER(1, "net.0.out.weight", 4)
                                  PARAMETER(2, "b.weight", 4) PARAMETER(3, "net.1", 4),
                              .device_count = 2,
                              .device = "[0,1,0,0]"},
                 "device-map", "{\n  \"net.0.fc\": 0,\n  \"net.0.out\": 1,\n  \"b\": 0,\n  \"net.1\": 0\n}\n", "use it as");
}

TEST(device_map, of_equals_the_one_with_more_time) {
    check_export(
        (small_text){.nodes = PARAMETER(0, "h.0.a.weight", 4) PARAMETER(1, "h.0.b.weight", 4) PARAMETER(2, "h.1.a.weight", 4)
                         OP(3, "x", "[0]", 4, 1) OP(4, "y", "[1]", 4, 2) OP(5, "z", "[2,3,4]", 4, 1),
                     .device_count = 2,
                     .device = "[0,1,0,0,1,0]"},
        "device-map", "{\n  \"h.0\": 1,\n  \"h.1\": 0\n}\n", "1 of 2 blocks and layers");
}

TEST(device_map, tells_of_what_it_cannot_tell) {
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[0,0,0,0,0,0,0,0,0,0,0,0,1,1,1]"}, "device-map",
                 "{\n  \"\": 0\n}\n", "the plan uses 2 devices, but nothing of that is left");
    CHECK(strstr(io.note, "tied") == NULL);
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[1,0,0,0,0,0,0,1,0,1,0,0,0,0,1]"}, "device-map",
                 "{\n  \"token\": 1,\n  \"layers\": 0,\n  \"head\": 1\n}\n",
                 "such as a head tied to its embedding, has no name here");
    CHECK(strstr(io.note, "nothing of that is left") == NULL);
}

/* A derivative takes a power of what the first stage made: no gradient, so that it may go along with the forward pass. */
TEST(split_points, what_reads_the_forward_pass_alone_is_no_way_back) {
    small *s = small_open((small_text){.nodes = PARAMETER(0, "a.weight", 4) PARAMETER(1, "b.weight", 4) OP(2, "x", "[0]", 4, 1)
                                           OP(3, "y", "[1,2]", 4, 1) OP(4, "loss", "[3]", 4, 1) OP(5, "power", "[2]", 4, 1)
                                               OP(6, "gb", "[4,5]", 4, 1) OP(7, "ga", "[6,2]", 4, 1),
                                       .device_count = 2,
                                       .device = "[0,1,0,1,1,0,1,0]"});
    s->graph->loss = 4;
    free(export_to(s, "split-points"));
    CHECK_CONTAINS(io.note, "the plan is such a pipeline");
    s->plan->device[5] = 1;
    free(export_to(s, "split-points"));
    CHECK_CONTAINS(io.note, "the plan is such a pipeline");
    s->plan->device[6] = 0; /* a gradient, which the second stage waits for */
    s->plan->device[7] = 1;
    free(export_to(s, "split-points"));
    CHECK_CONTAINS(io.note, "ops that read against the direction of the stages: 1");
    small_close(s);
}

/* ---- wrappers ---- */

#define WRAPPED PARAMETER(0, "m.n.a.weight", 4) PARAMETER(1, "m.n.b.weight", 4) OP(2, "x", "[0]", 4, 1) OP(3, "y", "[1,2]", 4, 1)

static void check_stripped(const small *s, const char *strip, const char *map, const char *split_point) {
    char *out = export_stripped(s, "device-map", strip);
    CHECK_STR(error.message, "");
    CHECK_STR(out, map);
    CHECK(strstr(io.note, "--strip") == NULL);
    free(out);
    out = export_stripped(s, "split-points", strip);
    CHECK_CONTAINS(out, split_point);
    free(out);
}

static void check_no_strip(const small *s, const char *format, const char *strip, const char *words) {
    char *out = export_stripped(s, format, strip);
    CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, words);
    CHECK_STR(out, "");
    free(out);
}

TEST(strip, names_begin_behind_the_wrapper) {
    small *s = small_open((small_text){.nodes = WRAPPED, .device_count = 2, .device = "[0,1,0,1]"});
    check_stripped(s, "m", "{\n  \"n.a\": 0,\n  \"n.b\": 1\n}\n", "[\"n.b\"]");
    check_stripped(s, "m.", "{\n  \"n.a\": 0,\n  \"n.b\": 1\n}\n", "[\"n.b\"]");
    check_stripped(s, "m.n", "{\n  \"a\": 0,\n  \"b\": 1\n}\n", "[\"b\"]");
    check_no_strip(s, "device-map", "n", "no parameter lies in 'n'; the first is 'm.n.a.weight'");
    check_no_strip(s, "split-points", "m.n.a.weight", "no parameter lies in 'm.n.a.weight'");
    check_no_strip(s, "csv", "m", "--strip goes with device-map and split-points");
    free(export_to(s, "device-map"));
    CHECK_CONTAINS(io.note, "all names begin with 'm.'; if that is a wrapper around the model, --strip m takes it off");
    small_close(s);
}

TEST(strip, what_lies_outside_is_left_out) {
    small *s = small_open((small_text){
        .nodes = PARAMETER(0, "m.a.weight", 4) PARAMETER(1, "mm.b.weight", 4) PARAMETER(2, "m", 4) PARAMETER(3, "m.c.weight", 4),
        .device_count = 2,
        .device = "[0,1,1,1]"});
    check_stripped(s, "m", "{\n  \"a\": 0,\n  \"c\": 1\n}\n", "\"split_points\":[]");
    CHECK_CONTAINS(io.note, "2 parameters and buffers lie outside of 'm', and are left out");
    small_close(s);
}

/* The step of a file as the program reads it again. */
static double step_of_map(const small *s, const char *text) {
    stw_plan *plan;
    stw_evaluation result;
    CHECK_EQ_INT(stw_map_read(stw_str_of(text), s->graph, s->machine, &plan, &error), STW_OK);
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &result, NULL), STW_OK);
    stw_plan_destroy(plan);
    return result.step_s;
}

/* The head is planned on the second device, but the stripped file has no word of it. */
TEST(strip, the_price_is_that_of_the_stripped_file) {
    small *s = small_open((small_text){.nodes = PARAMETER(0, "m.a.weight", 4) PARAMETER(1, "m.b.weight", 4)
                                           PARAMETER(2, "head.weight", 4) OP(3, "x", "[0]", 4, 10) OP(4, "y", "[1]", 4, 10)
                                               OP(5, "z", "[2]", 4, 30),
                                       .device_count = 2,
                                       .device = "[0,0,1,0,0,1]"});
    free(export_to(s, "device-map"));
    CHECK_NEAR(io.exported_s, 30e-6, 1e-12);
    free(export_stripped(s, "device-map", "m"));
    CHECK_NEAR(io.exported_s, 50e-6, 1e-12);
    CHECK_NEAR(io.exported_s, step_of_map(s, "{\"m\": 0}"), 0.0);
    free(export_stripped(s, "split-points", "m"));
    CHECK_NEAR(io.exported_s, 50e-6, 1e-12);
    small_close(s);
}

TEST(device_map, processors_are_called_cpu) {
    check_export((small_text){.nodes = MODEL,
                              .devices = DEVICE("d0", "h200", 1000) DEVICE("d1", "cpu8", 1000) DEVICE("d2", "h200", 1000),
                              .device_count = 3,
                              .device = "[0,1,1,1,2,2,2,2,0,0,1,1,2,2,2]"},
                 "device-map", "{\n  \"token\": 0,\n  \"layers.0\": \"cpu\",\n  \"layers.1\": 1,\n  \"head\": 1\n}\n",
                 "use it as");
}

TEST(device_map, names_of_any_kind) {
    check_export((small_text){.nodes = PARAMETER(0, "a\\\"b..c", 4) PARAMETER(1, ".x", 4) PARAMETER(2, "a", 4)
                                  PARAMETER(3, "q.w", 4) PARAMETER(4, "q.w", 4) SOURCE(5, "plain", "parameter", 4),
                              .device_count = 2,
                              .device = "[0,1,0,1,1,0]"},
                 "device-map", "{\n  \"a\\\"b\": 0,\n  \"\": 1,\n  \"a\": 0,\n  \"q\": 1\n}\n",
                 "1 parameters and buffers have no label that is a path of modules, and are left out");
}

TEST(device_map, no_labels_no_map) {
    static const char *const formats[] = {"device-map", "split-points"};
    small *s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 4) OP(1, "a", "[0]", 4, 1)});
    for (int k = 0; k < 2; k++) {
        char *out = export_to(s, formats[k]);
        CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
        CHECK_CONTAINS(error.message, "no parameter with a label");
        CHECK_STR(out, "");
        free(out);
    }
    small_close(s);
}

TEST(device_map, names_that_are_no_modules) {
    static const char *const formats[] = {"device-map", "split-points"};
    small *s = small_open((small_text){.nodes = PARAMETER(0, "onnx::Conv_1", 4) PARAMETER(1, "a/b", 4) PARAMETER(2, "a.b", 4)});
    for (int k = 0; k < 2; k++) {
        char *out = export_to(s, formats[k]);
        CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
        CHECK_CONTAINS(error.message, "('onnx::Conv_1') are no paths of PyTorch modules");
        CHECK_STR(out, "");
        free(out);
    }
    small_close(s);
    check_export((small_text){.nodes = PARAMETER(0, "a/b", 4) PARAMETER(1, "b.c.weight", 4) PARAMETER(2, "a.b", 4)}, "device-map",
                 "{\n  \"\": 0\n}\n", "1 parameters and buffers have no label that is a path of modules, and are left out");
}

/* ---- split-points ---- */

TEST(split_points, a_pipeline_is_told_as_it_is) {
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[1,1,1,1,0,0,0,0,0,1,1,1,0,0,0]"}, "split-points",
                 "{\"split_points\":[\"layers.1\"],\n\"stages\":[\n{\"device\":1,\"modules\":[\"token\",\"layers.0\"]},\n"
                 "{\"device\":0,\"modules\":[\"layers.1\",\"head\"]}]}\n",
                 "every module stays on its device");
    CHECK_CONTAINS(io.note, "for name in json.load(open(FILE))[\"split_points\"]})");
}

/* Parameters in order are not enough: ops count as well. */
TEST(split_points, ops_elsewhere_are_no_pipeline) {
    check_export(
        (small_text){.nodes = MODEL, .device_count = 2, .device = "[0,0,0,0,0,0,0,0,0,0,0,0,1,1,1]"}, "split-points",
        "{\"split_points\":[],\n\"stages\":[\n{\"device\":0,\"modules\":[\"\"]}]}\n",
        "no pipeline; the nearest one moves 0.0 % of the parameters' bytes, and 50.0 % of the time of the ops that read them; "
        "devices without a stage: 1; ops that read against the direction of the stages: 0");
    check_export(
        (small_text){.nodes = MODEL, .device_count = 2, .device = "[1,1,1,1,0,0,0,0,0,1,0,1,0,0,0]"}, "split-points",
        "{\"split_points\":[\"layers.1\"],\n\"stages\":[\n{\"device\":1,\"modules\":[\"token\",\"layers.0\"]},\n"
        "{\"device\":0,\"modules\":[\"layers.1\",\"head\"]}]}\n",
        "moves 0.0 % of the parameters' bytes, and 12.5 % of the time of the ops that read them; devices without a stage: 0; "
        "ops that read against the direction of the stages: 1");
}

#define TWO_STAGES              \
    PARAMETER(0, "a.weight", 4) \
    PARAMETER(1, "b.weight", 4) \
    SOURCE(2, "x", "input", 4)  \
    OP(3, "a", "[2,0]", 4, 1) OP(4, "act", "[3]", 4, 1) OP(5, "again", "[4,0]", 4, 1) OP(6, "b", "[5,1]", 4, 1)

/* An op without parameters that is sent ahead and back; on the later side of the cut, it is part of a pipeline. */
TEST(split_points, nothing_goes_back) {
    static const char file[] =
        "{\"split_points\":[\"b\"],\n\"stages\":[\n{\"device\":0,\"modules\":[\"a\"]},\n{\"device\":1,"
        "\"modules\":[\"b\"]}]}\n";
    check_export((small_text){.nodes = TWO_STAGES, .device_count = 2, .device = "[0,1,0,0,0,0,1]"}, "split-points", file,
                 "is such a pipeline");
    check_export((small_text){.nodes = TWO_STAGES, .device_count = 2, .device = "[0,1,0,0,1,0,1]"}, "split-points", file,
                 "ops that read against the direction of the stages: 1");
}

TEST(split_points, the_nearest_pipeline_otherwise) {
    check_export((small_text){.nodes = MODEL, .device_count = 2, .device = "[0,1,1,0,1,1,1,0,0,0,0,1,1,1,0]"}, "split-points",
                 "{\"split_points\":[\"layers.0.fc\"],\n\"stages\":[\n{\"device\":0,\"modules\":[\"token\",\"layers.0.norm\"]},\n"
                 "{\"device\":1,\"modules\":[\"layers.0.fc\",\"layers.1\",\"head\"]}]}\n",
                 "moves 7.4 % of the parameters' bytes, and 12.5 % of the time");
}

TEST(split_points, one_device_is_one_stage) {
    check_export((small_text){.nodes = MODEL}, "split-points",
                 "{\"split_points\":[],\n\"stages\":[\n{\"device\":0,\"modules\":[\"\"]}]}\n", "SplitPoint.BEGINNING");
}

/* Attention reads its projection without calling it: a stage begins before the whole, or behind it. */
TEST(split_points, never_within_a_module_of_one_piece) {
    check_export((small_text){.nodes = PARAMETER(0, "fc.weight", 4) PARAMETER(1, "attention.weight", 4)
                                  PARAMETER(2, "attention.out.weight", 8) SOURCE(3, "x", "input", 4) OP(4, "a", "[3,0]", 4, 1)
                                      OP(5, "b", "[4,1]", 4, 1) OP(6, "c", "[5,2]", 4, 1),
                              .device_count = 2,
                              .device = "[0,0,1,0,0,0,1]"},
                 "split-points",
                 "{\"split_points\":[\"attention\"],\n\"stages\":[\n{\"device\":0,\"modules\":[\"fc\"]},\n{\"device\":1,"
                 "\"modules\":[\"attention\"]}]}\n",
                 "moves 25.0 %");
}

/* The most weight that can stay, by trying everything. */
static int64_t best_by_hand(const int64_t *weight, const bool *can_begin, int32_t count, int32_t D, int32_t place, int32_t last,
                            uint32_t taken) {
    if (place == count) return 0;
    int64_t best = -1;
    for (int32_t d = 0; d < D; d++) {
        const bool goes_on = d == last;
        if (!goes_on && ((taken >> d & 1) != 0 || !(place == 0 || can_begin[place]))) continue;
        const int64_t rest = best_by_hand(weight, can_begin, count, D, place + 1, d, taken | 1u << d);
        if (rest >= 0 && rest + weight[place * D + d] > best) best = rest + weight[place * D + d];
    }
    return best;
}

TEST(split_points, the_cut_is_the_best_one) {
    stw_rng rng = stw_rng_create(5);
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    for (int round = 0; round < 300; round++) {
        enum { MOST = 7, D = 3 };
        const int32_t count = 1 + (int32_t)stw_rng_below(&rng, MOST);
        stw_arena scratch = arena;
        int64_t *weight = STW_NEW(&scratch, int64_t, MOST * D), kept = 0;
        int32_t *sequence = STW_NEW(&scratch, int32_t, MOST);
        bool *can_begin = STW_NEW(&scratch, bool, MOST);
        for (int32_t k = 0; k < count; k++) {
            sequence[k] = k;
            can_begin[k] = k == 0 || stw_rng_below(&rng, 3) > 0;
            weight[k * D + (int32_t)stw_rng_below(&rng, D)] += 1 + (int64_t)stw_rng_below(&rng, 9);
        }
        stw_pipeline cut;
        CHECK_EQ_INT(stw_pipeline_cut(sequence, can_begin, count, weight, D, scratch, &cut, NULL), STW_OK);
        int32_t next = 0;
        for (int32_t k = 0; k < cut.count; k++) {
            CHECK(cut.stage[k].begin == next && cut.stage[k].end > next && can_begin[next]);
            for (; next < cut.stage[k].end; next++) kept += weight[next * D + cut.stage[k].device];
            for (int32_t j = 0; j < k; j++) CHECK(cut.stage[j].device != cut.stage[k].device);
        }
        CHECK_EQ_INT(next, count);
        CHECK_EQ_INT(kept, best_by_hand(weight, can_begin, count, D, 0, -1, 0));
    }
    stw_arena_destroy(&arena);
}

/* With many devices one order is taken; a plan that is a pipeline is still found. */
TEST(split_points, many_devices) {
    enum { D = 40, COUNT = 80 };
    static int64_t weight[COUNT * D];
    int32_t sequence[COUNT];
    bool can_begin[COUNT];
    stw_pipeline cut;
    stw_arena arena;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    for (int32_t k = 0; k < COUNT; k++) {
        sequence[k] = k;
        can_begin[k] = true;
        weight[k * D + (D - 1 - k / 2)] = 5;
    }
    CHECK_EQ_INT(stw_pipeline_cut(sequence, can_begin, COUNT, weight, D, arena, &cut, NULL), STW_OK);
    CHECK_EQ_INT(cut.count, D);
    CHECK(!cut.exact);
    for (int32_t k = 0; k < cut.count; k++) CHECK(cut.stage[k].device == D - 1 - k && cut.stage[k].begin == 2 * k);
    stw_arena_destroy(&arena);
}

/* ---- csv and dot ---- */

static const small_text drawn = {.nodes =
                                     NODE(0, "w,1", "parameter", "[]", 8, ",'label':'a.\\\"w\\\\'") SOURCE(1, "x", "input", 4)
                                         OP(2, "a", "[0,1]", 4, 2) VIEW(3, "v", 2, 4) OP(4, "b \\\"q\\\"", "[3]", 4, 3)
                                             OP_WITH(5, "c", "[4]", 4, 4, ",'control':[2]") OP(6, "d", "[5]", 4, 1),
                                 .outputs = "[6]",
                                 .device_count = 2,
                                 .device = "[0,0,0,0,1,1,1]",
                                 .priority = "[0,0,2.5,0,-1,0,0]",
                                 .group = "[-1,-1,2,-1,4,4,6]"};

TEST(csv, one_row_per_node) {
    small *s = small_open(drawn);
    char *out = export_to(s, "csv");
    CHECK_STR(error.message, "");
    CHECK_CONTAINS(out,
                   "node,name,op,kind,device,priority,group,start_us,end_us,bytes,flops\n"
                   "0,\"w,1\",parameter,parameter,d0,,,,,8,0\n"
                   "1,x,input,input,,,,,,4,0\n"
                   "2,a,relu,op,d0,2.5,2,0.000000,2.000000,4,0\n"
                   "3,v,slice,view,d0,,,,,4,0\n"
                   "4,\"b \"\"q\"\"\",relu,op,d1,-1,4,6.000000,");
    CHECK_CONTAINS(out, "\n6,d,relu,op,d1,0,6,");
    free(out);
    small_close(s);
}

TEST(dot, devices_groups_and_transfers) {
    small *s = small_open(drawn);
    char *out = export_to(s, "dot");
    CHECK_STR(error.message, "");
    CHECK_CONTAINS(out, "label=\"a.\\\"w\\\\\\nparameter\"");
    CHECK_CONTAINS(out, "subgraph cluster_4 {\n    label=\"group 4\";\n    n4 [label=\"b \\\"q\\\"\\nrelu\",fillcolor=");
    CHECK_CONTAINS(out, "  n3 -> n4 [style=dashed,color=red];\n");
    CHECK_CONTAINS(out, "  n2 -> n3;\n");
    CHECK_CONTAINS(out, "  n2 -> n5 [style=dotted,");
    CHECK(strstr(out, "cluster_2") == NULL && strstr(out, "cluster_6") == NULL);
    CHECK_CONTAINS(io.note, "dot -Tsvg");
    free(out);
    small_close(s);
}

TEST(dot, recomputed_ops_are_dotted) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "x", "input", 4) OP(1, "a", "[0]", 4, 2) OP(2, "b", "[1]", 4, 3),
                                       .outputs = "[2]",
                                       .device_count = 2,
                                       .device = "[0,1,1]",
                                       .group = "[-1,-1,2]"});
    char *out = export_to(s, "dot");
    CHECK_STR(error.message, "");
    CHECK_CONTAINS(out, "n1 [label=\"a\\nrelu\",fillcolor=\"0.198 0.35 1.0\",style=\"filled,dotted\"];");
    CHECK_CONTAINS(out, "  n1 -> n2;\n");
    free(out);
    out = export_to(s, "csv");
    CHECK_CONTAINS(out, "\n1,a,relu,op,d1,,-1,,,4,0\n");
    free(out);
    small_close(s);
}
