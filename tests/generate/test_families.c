/* generate: every family in several sizes reads back as a graph, with one update per parameter and a cost for every op; its own
 * sizes come to the traced graph. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "generate/generate.h"
#include "graph/graph.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_generated made;
    char *text; /* the file */
    size_t size;
    stw_graph *graph;
} sample;

static bool sample_open(sample *s, const stw_family *family, const int64_t *value) {
    *s = (sample){0};
    stw_error error = {0};
    if (!CHECK_EQ_INT(stw_arena_create(&s->arena, &error), STW_OK)) return false;
    if (!CHECK_EQ_INT(stw_generate(family, value, &s->arena, &s->made, &error), STW_OK)) return CHECK_STR(error.message, "");
    FILE *file = open_memstream(&s->text, &s->size);
    CHECK_EQ_INT(stw_step_write(s->made.step, s->made.name, stw_str_of(family->name), file, &error), STW_OK);
    fclose(file);
    return CHECK_EQ_INT(stw_graph_parse(s->text, s->size, family->name, NULL, &s->graph, &error), STW_OK) ||
           CHECK_STR(error.message, "");
}

static void sample_close(sample *s) {
    stw_graph_destroy(s->graph);
    free(s->text);
    stw_arena_destroy(&s->arena);
}

/* Sizes that a test of all families can afford; what a family does not take stays as it is. */
static void shrink(const stw_family *family, int64_t *value, int scale) {
    stw_family_standard(family, value);
    const int64_t small[STW_PARAMETER_COUNT] = {[STW_LAYERS] = 1 + scale, [STW_WIDTH] = 64 * (1 + scale % 2),
                                                [STW_BATCH] = 2,          [STW_SEQUENCE] = 8,
                                                [STW_STEPS] = 2 + scale,  [STW_IMAGE] = 96,
                                                [STW_VOCABULARY] = 50,    [STW_EXPERTS] = 4 * (scale / 2),
                                                [STW_SEED] = scale};
    for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
        if (family->takes[p].meaning == NULL) continue;
        value[p] = small[p] < family->takes[p].least ? family->takes[p].least : small[p];
    }
}

static void check_updates(const stw_graph *graph) {
    int32_t parameters = 0, updates = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        parameters += graph->kind[i] == STW_NODE_PARAMETER;
        updates += graph->updates[i] >= 0;
        if (graph->kind[i] != STW_NODE_PARAMETER) continue;
        test_context("%.*s: %.*s", STW_STR_SHOW(graph->name), STW_STR_SHOW(graph->label[i]));
        const int32_t update = graph->updated_by[i];
        if (!CHECK(update >= 0)) continue;
        /* the parameter itself and its gradient, scaled, which is of its size and comes after the loss */
        const int32_t step = graph->input[graph->input_start[update] + 1];
        CHECK_EQ_INT(graph->input[graph->input_start[update]], i);
        CHECK_EQ_INT(graph->bytes[step], graph->bytes[i]);
        CHECK(graph->input[graph->input_start[step]] > graph->loss);
        CHECK(graph->label[i].length > 0);
    }
    test_context("%.*s", STW_STR_SHOW(graph->name));
    CHECK_EQ_INT(updates, parameters);
    CHECK_EQ_INT(graph->output_count, parameters + 1);
    CHECK_EQ_INT(graph->output[0], graph->loss);
}

/* Every op is in the operator table, so that it has a cost; only aliases are free. */
static void check_costs(const stw_graph *graph) {
    stw_error error = {0};
    stw_machine *machine = NULL;
    stw_costs *costs = NULL;
    CHECK_EQ_INT(stw_machine_open("h200x1", &machine, &error), STW_OK);
    CHECK_EQ_INT(stw_costs_create(graph, machine, NULL, &costs, &error), STW_OK);
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        test_context("%.*s: %.*s", STW_STR_SHOW(graph->name), STW_STR_SHOW(graph->node_name[i]));
        CHECK(graph->known[i]);
        CHECK(graph->op_class[i] == STW_CLASS_ALIAS || stw_costs_op_us(costs, i, 0) > 0.0);
    }
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    test_context("%s", "");
}

TEST(families, read_back_in_several_sizes) {
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        int64_t ops = 0;
        for (int scale = 0; scale < 3; scale++) {
            const stw_family *family = stw_family_at(k);
            int64_t value[STW_PARAMETER_COUNT];
            shrink(family, value, scale);
            sample s;
            test_context("%s, scale %d", family->name, scale);
            if (!sample_open(&s, family, value)) return;
            CHECK(stw_str_is(s.graph->family, family->name));
            CHECK(stw_str_starts(s.graph->name, family->name));
            CHECK_EQ_INT(s.graph->op_count, stw_step_op_count(s.made.step));
            CHECK(s.graph->op_count >= ops); /* larger sizes, larger graphs */
            ops = s.graph->op_count;
            check_updates(s.graph);
            check_costs(s.graph);
            sample_close(&s);
        }
    }
}

TEST(families, node_names_are_unique) {
    int64_t value[STW_PARAMETER_COUNT];
    sample s;
    shrink(stw_family_find("gpt"), value, 1);
    if (!sample_open(&s, stw_family_find("gpt"), value)) return;
    for (int32_t i = 0; i < s.graph->N; i++) {
        for (int32_t j = i + 1; j < s.graph->N; j++) {
            if (stw_str_equal(s.graph->node_name[i], s.graph->node_name[j])) CHECK_EQ_INT(i, j);
        }
    }
    CHECK(s.graph->N > 300);
    sample_close(&s);
}

TEST(families, same_values_same_bytes) {
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        const stw_family *family = stw_family_at(k);
        int64_t value[STW_PARAMETER_COUNT];
        sample a, b;
        shrink(family, value, 1);
        test_context("%s", family->name);
        if (!sample_open(&a, family, value) || !sample_open(&b, family, value)) return;
        CHECK(a.size == b.size && memcmp(a.text, b.text, a.size) == 0);
        sample_close(&b);
        value[STW_BATCH] *= 2; /* and others: another graph */
        if (!sample_open(&b, family, value)) return;
        CHECK(strcmp(stw_graph_fingerprint(a.graph), stw_graph_fingerprint(b.graph)) != 0);
        sample_close(&b);
        sample_close(&a);
    }
}

TEST(families, a_seed_decides_a_random_graph) {
    const stw_family *family = stw_family_find("layered");
    int64_t value[STW_PARAMETER_COUNT];
    sample a, b;
    stw_family_standard(family, value);
    if (!sample_open(&a, family, value)) return;
    value[STW_SEED]++;
    if (!sample_open(&b, family, value)) return;
    CHECK(strcmp(stw_graph_fingerprint(a.graph), stw_graph_fingerprint(b.graph)) != 0);
    sample_close(&b);
    sample_close(&a);
}

/* Views, whatever they are, do not count. */
static double total_flops(const stw_graph *graph) {
    double flops = 0.0;
    for (int32_t i = 0; i < graph->N; i++) flops += graph->kind[i] == STW_NODE_OP ? (double)graph->flops[i] : 0.0;
    return flops;
}

static double parameter_bytes(const stw_graph *graph) {
    double bytes = 0.0;
    for (int32_t i = 0; i < graph->N; i++) bytes += graph->kind[i] == STW_NODE_PARAMETER ? (double)graph->bytes[i] : 0.0;
    return bytes;
}

/* The families' own sizes, and what makes them the larger traced graphs. */
TEST(families, come_to_the_traced_graphs) {
    static const struct {
        const char *family, *traced;
        int64_t layers, steps, batch; /* 0: as it is */
    } rows[] = {
        {"rnnlm", "rnnlm-2", 0, 0, 0},
        {"rnnlm", "rnnlm-4", 4, 0, 0},
        {"gnmt", "gnmt-2", 0, 0, 0},
        {"gnmt", "gnmt-4", 4, 0, 0},
        {"transformer-xl", "transformer-xl-2", 0, 0, 0},
        {"transformer-xl", "transformer-xl-4", 4, 0, 0},
        {"bert", "bert-base", 0, 0, 0},
        {"gpt", "gpt2", 0, 0, 0},
        {"inception", "inception-v3-b32", 0, 0, 0},
        {"inception", "inception-v3-b64", 0, 0, 64},
        {"amoebanet", "amoebanet", 0, 0, 0},
        {"resnet", "resnet50", 0, 0, 0},
        {"unet", "unet", 0, 0, 0},
        {"wavenet", "wavenet-2x9", 0, 0, 0},
        {"wavenet", "wavenet-4x9", 36, 0, 0},
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        const stw_family *family = stw_family_find(rows[k].family);
        int64_t value[STW_PARAMETER_COUNT];
        char path[4200];
        sample s;
        stw_graph *traced = NULL;
        stw_error error = {0};
        test_context("%s", rows[k].traced);
        stw_family_standard(family, value);
        if (rows[k].layers > 0) value[STW_LAYERS] = rows[k].layers;
        if (rows[k].batch > 0) value[STW_BATCH] = rows[k].batch;
        snprintf(path, sizeof path, "%s/data/graphs/%s.json.gz", STW_SOURCE_DIR, rows[k].traced);
        if (!sample_open(&s, family, value) || !CHECK_EQ_INT(stw_graph_open(path, NULL, &traced, &error), STW_OK)) return;
        CHECK(stw_str_equal(s.graph->family, traced->family));
        CHECK_NEAR((double)s.graph->op_count / traced->op_count, 1.0, 0.02);
        CHECK_NEAR((double)s.graph->N / traced->N, 1.0, 0.02);
        CHECK_NEAR(total_flops(s.graph) / total_flops(traced), 1.0, 0.005);
        CHECK_NEAR(parameter_bytes(s.graph) / parameter_bytes(traced), 1.0, 0.01);
        stw_graph_destroy(traced);
        sample_close(&s);
    }
}

static void refuse(const char *name, stw_parameter parameter, int64_t number, const char *part) {
    const stw_family *family = stw_family_find(name);
    int64_t value[STW_PARAMETER_COUNT];
    stw_arena arena;
    stw_generated made = {0};
    stw_error error = {0};
    test_context("%s --%s %lld", name, stw_parameter_name(parameter), (long long)number);
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    stw_family_standard(family, value);
    value[parameter] = number;
    CHECK_EQ_INT(stw_generate(family, value, &arena, &made, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, part);
    stw_arena_destroy(&arena);
    test_context("%s", "");
}

TEST(families, refuse_what_they_cannot_build) {
    refuse("rnnlm", STW_LAYERS, 0, "--layers: 0 is not from 1 to 100000");
    refuse("rnnlm", STW_LAYERS, 100000, "more than 1000000 ops");
    refuse("rnnlm", STW_STEPS, 1000000, "more than 1000000 ops");
    refuse("gnmt", STW_STEPS, 1000000, "more than 1000000 ops");
    refuse("layered", STW_LAYERS, 1000000, "more than 1000000 ops");
    refuse("bert", STW_WIDTH, 100, "not a multiple of 64");
    refuse("bert", STW_EXPERTS, 7, "cannot be shared equally by 7 experts");
    refuse("bert", STW_SEQUENCE, 1 << 24, "too large");
    refuse("unet", STW_IMAGE, 100, "take a multiple of 16");
    refuse("amoebanet", STW_IMAGE, 225, "is 113 behind the stem, which cannot be halved; take a multiple of 4");
    refuse("gnmt", STW_STEPS, 1, "--steps: 1 is not from 2");
    refuse("resnet", STW_BATCH, 1 << 21, "--batch");
    stw_error error = {0};
    CHECK_EQ_INT(stw_family_check(stw_family_find("resnet"), STW_EXPERTS, 4, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "resnet does not take it");
    CHECK(stw_family_find("resnets") == NULL);
}

/* The least and the most of every parameter, one at a time, build or are refused with a line. */
TEST(families, the_ends_of_every_range) {
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        for (int p = 0; p < STW_PARAMETER_COUNT; p++) {
            const stw_family *family = stw_family_at(k);
            if (family->takes[p].meaning == NULL) continue;
            const bool counts_ops = p == STW_LAYERS || p == STW_STEPS || p == STW_EXPERTS; /* a million ops each: see above */
            for (int end = 0; end < (counts_ops ? 1 : 2); end++) {
                int64_t value[STW_PARAMETER_COUNT];
                stw_arena arena;
                stw_generated made = {0};
                stw_error error = {0};
                shrink(family, value, 1);
                value[p] = end == 0 ? family->takes[p].least : family->takes[p].most;
                test_context("%s --%s %lld", family->name, stw_parameter_name((stw_parameter)p), (long long)value[p]);
                if (!CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK)) return;
                const stw_status status = stw_generate(family, value, &arena, &made, &error);
                if (status != STW_OK) {
                    CHECK_EQ_INT(status, STW_ERROR_INPUT);
                    CHECK(strstr(error.message, "internal") == NULL);
                    CHECK(strlen(error.message) > 10);
                    CHECK(end == 1 || p == STW_IMAGE);
                }
                stw_arena_destroy(&arena);
            }
        }
    }
    test_context("%s", "");
}

TEST(families, packed_files_unpack_to_the_same) {
    static const char *const ending[] = {"json", "json.gz", "json.zst"};
    const stw_family *family = stw_family_find("rnnlm");
    int64_t value[STW_PARAMETER_COUNT];
    sample s;
    shrink(family, value, 2);
    if (!sample_open(&s, family, value)) return;
    char folder[] = "/tmp/stw_generate_XXXXXX";
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    for (int k = 0; k < 3; k++) {
        char path[100];
        stw_error error = {0};
        stw_str text = {0};
        snprintf(path, sizeof path, "%s/g.%s", folder, ending[k]);
        CHECK_EQ_INT(stw_generate_write(family, &s.made, path, &error), STW_OK);
        CHECK_EQ_INT(stw_file_read(path, &s.arena, &text, &error), STW_OK);
        CHECK(text.length == (int64_t)s.size && memcmp(text.p, s.text, s.size) == 0);
        const int64_t size = stw_file_state_of(path).size;
        CHECK(k == 0 ? size == (int64_t)s.size : size < (int64_t)s.size / 4);
        remove(path);
    }
    remove(folder);
    sample_close(&s);
}
