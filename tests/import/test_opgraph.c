/* import/opgraph: the refused files of the fuzz corpus with their messages, every truncation, and the measured graphs. */
#define _DEFAULT_SOURCE /* scandir */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/graph.h"
#include "test.h"

#define CORPUS STW_SOURCE_DIR "/fuzz/corpus/opgraph"

/* The bytes of a file in a block of exactly their size. */
static char *load(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    char *data = malloc(1 << 20);
    *size = fread(data, 1, 1 << 20, file);
    fclose(file);
    return realloc(data, *size > 0 ? *size : 1);
}

static char *load_corpus(const char *name, size_t *size) {
    char path[2000];
    snprintf(path, sizeof path, "%s/%s", CORPUS, name);
    return load(path, size);
}

static stw_graph *parse(const char *text) {
    stw_error error = {0};
    stw_graph *graph = NULL;
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "g.json", NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    return graph;
}

/* Of every refused file: one line with label and position; and where it is about a node, that is node 2, "culprit", which
 * stands on line 4. Files about the whole are called so. */
static void check_refusal(const char *name) {
    static const char *const whole[] = {"n_file_", "n_format_", "n_version_", "n_nodes_", "n_outputs_", "n_loss_", "n_head_"};
    size_t size = 0;
    char *data = load_corpus(name, &size);
    if (!CHECK(data != NULL)) return;
    stw_error error = {0};
    stw_graph *graph = (stw_graph *)1;
    CHECK_EQ_INT(stw_graph_parse(data, size, "some/label.json", NULL, &graph, &error), STW_ERROR_INPUT);
    free(data);
    CHECK(graph == NULL);
    CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
    CHECK(strncmp(error.message, "some/label.json: ", 17) == 0);
    CHECK(strchr(error.message, '\n') == NULL);
    CHECK(strlen(error.message) < sizeof error.message - 1);
    bool about_node = true;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) about_node &= strncmp(name, whole[i], strlen(whole[i])) != 0;
    if (about_node) {
        CHECK_CONTAINS(error.message, "line 4, column ");
        test_context("%s: %s", name, error.message);
        CHECK(strstr(error.message, "culprit") != NULL || strstr(error.message, "node 2") != NULL);
    } else if (strstr(error.message, "is empty") == NULL && strstr(error.message, "not a format") == NULL &&
               strstr(name, "truncated.json.gz") == NULL && strstr(name, ".zst") == NULL) {
        CHECK_CONTAINS(error.message, "line ");
        CHECK_CONTAINS(error.message, ", column ");
    }
}

static int is_refused(const struct dirent *entry) { return strncmp(entry->d_name, "n_", 2) == 0; }

TEST(opgraph, refusals_say_where_and_which_node) {
    struct dirent **entries = NULL;
    const int count = scandir(CORPUS, &entries, is_refused, alphasort);
    CHECK(count > 100);
    for (int i = 0; i < count; i++) {
        test_context("%s", entries[i]->d_name);
        check_refusal(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}

TEST(opgraph, refusals_say_what) {
    static const struct {
        const char *file, *says;
    } cases[] = {
        {"n_forward_reference.json", "3"},
        {"n_dangling_id.json", "99"},
        {"n_id_duplicate.json", "id is 1"},
        {"n_id_missing.json", "\"id\""},
        {"n_dtype_missing.json", "\"dtype\""},
        {"n_repeated_key.json", "\"bytes\""},
        {"n_bytes_negative.json", "-1"},
        {"n_bytes_above_int64.json", "9223372036854775808"},
        {"n_us_negative.json", "-0.5"},
        {"n_us_too_large.json", "1e999"},
        {"n_flops_negative.json", "flops"},
        {"n_dtype_unknown.json", "float32"},
        {"n_shape_negative.json", "-1"},
        {"n_update_twice.json", "updates"},
        {"n_update_of_input.json", "parameter"},
        {"n_colocate_dangling.json", "colocate"},
        {"n_control_on_view.json", "control"},
        {"n_view_without_inputs.json", "view"},
        {"n_format_of_a_machine.json", "'machine'"},
        {"n_version_2.json", "version 2"},
        {"n_outputs_dangling.json", "output 1"},
        {"n_loss_dangling.json", "loss 1"},
        {"n_file_truncated.json.gz", "cut off"},
        {"n_file_empty.json", "label: is empty"},
        {"n_file_blank.json", "label: is empty"},
        {"n_file_text.json", "label: not a format that is read; known: opgraph JSON, "},
        {"n_file_list.json", "not a format that is read"},
        {"n_file_damaged.json.zst", "damaged"},
        {"n_file_nesting_bomb_within_nodes.json", ""},
        {"n_attributes_too_deep.json", "deeper than 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t size = 0;
        stw_error error = {0};
        stw_graph *graph = NULL;
        test_context("%s", cases[i].file);
        char *data = load_corpus(cases[i].file, &size);
        if (!CHECK(data != NULL)) continue;
        CHECK_EQ_INT(stw_graph_parse(data, size, "label", NULL, &graph, &error), STW_ERROR_INPUT);
        CHECK_CONTAINS(error.message, cases[i].says);
        CHECK_EQ_INT(stw_graph_parse(data, size, "label", NULL, &graph, NULL), STW_ERROR_INPUT); /* nobody listens */
        free(data);
    }
}

TEST(opgraph, every_truncation_is_refused) {
    static const char *const files[] = {"y_small.json", "y_views.json", "y_escapes.json", "y_attributes.json",
                                        "y_packed.json.gz"};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        size_t size = 0;
        char *data = load_corpus(files[f], &size);
        if (!CHECK(data != NULL)) continue;
        if (data[size - 1] == '\n') size--; /* without the last line break a graph is still whole */
        for (size_t cut = 0; cut < size; cut++) {
            char *exact = malloc(cut > 0 ? cut : 1);
            memcpy(exact, data, cut);
            stw_error error = {0};
            stw_graph *graph = NULL;
            test_context("%s cut at %zu", files[f], cut);
            CHECK_EQ_INT(stw_graph_parse(exact, cut, "label", NULL, &graph, &error), STW_ERROR_INPUT);
            CHECK(graph == NULL && strncmp(error.message, "label: ", 7) == 0);
            stw_graph_destroy(graph);
            free(exact);
        }
        free(data);
    }
}

TEST(opgraph, no_changed_byte_crashes) {
    size_t size = 0;
    char *data = load_corpus("y_updates.json", &size);
    if (!CHECK(data != NULL)) return;
    static const char others[] = "0919-{[\"}],:.exnt\\\x01\x80";
    int refused = 0, total = 0;
    for (size_t i = 0; i < size; i++) {
        const char before = data[i];
        stw_graph *graph = NULL;
        data[i] = others[(i * 7) % (sizeof others - 1)];
        refused += stw_graph_parse(data, size, "label", NULL, &graph, NULL) != STW_OK;
        total++;
        stw_graph_destroy(graph);
        data[i] = before;
    }
    CHECK(refused > total / 4 && refused < total);
    free(data);
}

TEST(opgraph, what_is_read) {
    stw_graph *graph = parse(
        "{\"format\":\"opgraph\",\"version\":1,\"name\":\"tiny\",\"family\":\"f\",\"loss\":4,\"outputs\":[4,3],\"nodes\":["
        "{\"id\":0,\"name\":\"w\",\"op\":\"parameter\",\"label\":\"l.w\",\"inputs\":[],\"dtype\":\"f32\",\"shape\":[4,2],"
        "\"bytes\":32},"
        "{\"id\":1,\"name\":\"x\",\"op\":\"input\",\"inputs\":[],\"dtype\":\"bf16\",\"shape\":[4],\"bytes\":64},"
        "{\"id\":2,\"name\":\"t\",\"op\":\"t\",\"inputs\":[0],\"dtype\":\"f32\",\"shape\":[2,4],\"bytes\":0,\"view\":true},"
        "{\"id\":3,\"name\":\"m\",\"op\":\"mm\",\"inputs\":[1,2,1],\"dtype\":\"f32\",\"shape\":[1,2],\"bytes\":512,\"flops\":16,"
        "\"us\":{\"h200\":1.5,\"cpu8\":0}},"
        "{\"id\":4,\"name\":\"u\",\"op\":\"no_such_op\",\"inputs\":[0,3],\"dtype\":\"f32\",\"shape\":[],\"updates\":0,"
        "\"control\":[1,3],"
        "\"colocate\":3,\"attributes\":{\"k\": [1, 2]},\"us\":{\"cpu8\":7}}]}");
    if (!CHECK(graph != NULL)) return;
    CHECK_STR(stw_graph_name(graph), "tiny");
    CHECK(stw_str_is(graph->family, "f"));
    CHECK_EQ_INT(stw_graph_node_count(graph), 5);
    CHECK_EQ_INT(stw_graph_op_count(graph), 2);
    CHECK_EQ_INT(graph->loss, 4);
    CHECK(graph->kept[graph->root[3]] && graph->kept[graph->root[4]] && !graph->kept[0]);
    CHECK_STR(stw_graph_node_name(graph, 3), "m");
    CHECK(stw_graph_node_name(graph, -1) == NULL && stw_graph_node_name(graph, 5) == NULL);
    CHECK(stw_str_is(graph->label[0], "l.w") && stw_str_is(graph->label[1], ""));
    CHECK(stw_str_is(graph->op_name[4], "no_such_op") && !graph->known[4] && graph->known[3]);
    CHECK_EQ_INT(graph->op_class[3], STW_CLASS_MATMUL);
    CHECK_EQ_INT(graph->op_class[4], STW_CLASS_OPAQUE);
    static const stw_node_kind kinds[] = {STW_NODE_PARAMETER, STW_NODE_INPUT, STW_NODE_VIEW, STW_NODE_OP, STW_NODE_OP};
    for (int i = 0; i < 5; i++) CHECK_EQ_INT(graph->kind[i], kinds[i]);
    CHECK_EQ_INT(graph->bytes[1], 64);  /* as the file says */
    CHECK_EQ_INT(graph->bytes[2], 32);  /* a view: its shape, whatever the file says */
    CHECK_EQ_INT(graph->bytes[3], 512); /* several outputs may be more than the shape */
    CHECK_EQ_INT(graph->bytes[4], 4);   /* not said: the shape */
    CHECK_EQ_INT(graph->flops[3], 16);
    CHECK_EQ_INT(graph->input_start[4] - graph->input_start[3], 3);
    CHECK_EQ_INT(graph->input[graph->input_start[3] + 2], 1);
    CHECK_EQ_INT(graph->updates[4], 0);
    CHECK_EQ_INT(graph->updated_by[0], 4);
    CHECK_EQ_INT(graph->colocate[4], 3);
    CHECK_EQ_INT(graph->colocate[3], -1);
    CHECK_EQ_INT(graph->control_start[5] - graph->control_start[4], 2);
    CHECK(stw_str_is(graph->attributes[4], "{\"k\": [1, 2]}"));
    CHECK_EQ_INT(graph->kind_count, 2);
    CHECK(stw_str_is(graph->kind_name[0], "h200") && stw_str_is(graph->kind_name[1], "cpu8"));
    CHECK_NEAR(graph->us[0][3], 1.5, 0.0);
    CHECK(isnan(graph->us[0][4]) && isnan(graph->us[0][0]));
    CHECK_NEAR(graph->us[1][3], 0.0, 0.0);
    CHECK_NEAR(graph->us[1][4], 7.0, 0.0);
    stw_graph_destroy(graph);
}

TEST(opgraph, the_empty_graph) {
    stw_graph *graph = parse("{\"format\":\"opgraph\",\"version\":1,\"nodes\":[]}");
    if (!CHECK(graph != NULL)) return;
    CHECK_STR(stw_graph_name(graph), "");
    CHECK_EQ_INT(stw_graph_node_count(graph), 0);
    CHECK_EQ_INT(stw_graph_op_count(graph), 0);
    CHECK_EQ_INT(strlen(stw_graph_fingerprint(graph)), 32);
    CHECK(stw_graph_node_name(graph, 0) == NULL);
    stw_graph_destroy(graph);
    stw_graph_destroy(NULL);
}

TEST(opgraph, packed_is_the_same_graph) {
    char first[33] = "";
    static const char *const files[] = {CORPUS "/y_packed.json.gz", CORPUS "/y_packed.json.zst"};
    for (int i = 0; i < 2; i++) {
        stw_graph *graph = NULL;
        stw_error error = {0};
        if (!CHECK_EQ_INT(stw_graph_open(files[i], NULL, &graph, &error), STW_OK)) continue;
        if (i == 0) memcpy(first, stw_graph_fingerprint(graph), sizeof first);
        CHECK_STR(stw_graph_fingerprint(graph), first);
        stw_graph_destroy(graph);
    }
}

TEST(opgraph, opening_names_the_path) {
    stw_graph *graph = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_graph_open(CORPUS "/no_such_file.json", NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "no_such_file.json: cannot be opened");
    CHECK_EQ_INT(stw_graph_open(CORPUS "/n_version_2.json", NULL, &graph, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "/n_version_2.json: line 1, column ");
    CHECK(graph == NULL);
}

TEST(opgraph, the_measured_graphs) {
    static const struct {
        const char *name;
        int32_t nodes, ops;
    } graphs[] = {
        {"rnnlm-2", 2470, 1373},
        {"rnnlm-4", 4598, 2575},
        {"rnnlm-8", 15454, 8699},
        {"gnmt-2", 10766, 5917},
        {"gnmt-4", 17370, 9753},
        {"gnmt-8", 61118, 34855},
        {"transformer-xl-2", 4146, 1562},
        {"transformer-xl-4", 8092, 3016},
        {"transformer-xl-8", 31712, 11716},
        {"inception-v3-b32", 3083, 1414},
        {"inception-v3-b64", 3083, 1414},
        {"amoebanet", 2351, 1123},
        {"wavenet-2x9", 1156, 706},
        {"wavenet-4x9", 2272, 1390},
        {"resnet50", 1693, 785},
        {"vit-b16", 2157, 972},
        {"unet", 660, 307},
        {"bert-base", 2858, 1375},
        {"gpt2", 2491, 1374},
        {"llama-8x2048", 2234, 1268},
    };
    CHECK_EQ_INT(sizeof graphs / sizeof graphs[0], 20);
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        char path[2000];
        stw_graph *graph = NULL;
        stw_error error = {0};
        snprintf(path, sizeof path, "%s/data/graphs/%s.json.gz", STW_SOURCE_DIR, graphs[i].name);
        test_context("%s", graphs[i].name);
        if (!CHECK_EQ_INT(stw_graph_open(path, NULL, &graph, &error), STW_OK)) {
            CHECK_STR(error.message, "");
            continue;
        }
        CHECK_STR(stw_graph_name(graph), graphs[i].name);
        CHECK_EQ_INT(stw_graph_node_count(graph), graphs[i].nodes);
        CHECK_EQ_INT(stw_graph_op_count(graph), graphs[i].ops);
        int32_t unknown = 0;
        for (int32_t k = 0; k < graph->N; k++) unknown += !graph->known[k];
        CHECK_EQ_INT(unknown, 0);
        CHECK(graph->output_count > 0 && graph->output[0] == graph->loss); /* outputs[0] is the loss */
        stw_graph_destroy(graph);
    }
}
