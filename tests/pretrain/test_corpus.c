/* The corpus: draws repeat, differ, have the allowed sizes and can be planned; what is held out stays out. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "pretrain/corpus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "generate/generate.h"
#include "sim/sim.h"
#include "test.h"

#define GRAPHS STW_SOURCE_DIR "/data/graphs/"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 3 };
#else
enum { SLOWER = 1 };
#endif

static stw_corpus *open_corpus(const char *families, const char *hold_out) {
    stw_corpus *corpus;
    stw_error error = {0};
    const stw_corpus_wish wish = {.families = families, .hold_out = hold_out};
    if (stw_corpus_open(&wish, &corpus, &error) != STW_OK) CHECK_STR(error.message, "");
    return corpus;
}

static bool draw(const stw_corpus *corpus, uint64_t seed, double difficulty, stw_drawn *out) {
    stw_error error = {0};
    test_context("seed %llu, difficulty %g", (unsigned long long)seed, difficulty);
    return stw_corpus_draw(corpus, stw_rng_create(seed), difficulty, out, &error) == STW_OK || CHECK_STR(error.message, "");
}

static bool equal_times(const stw_graph *a, const stw_graph *b) {
    if (a->kind_count != 1 || b->kind_count != 1 || a->N != b->N) return false;
    for (int32_t i = 0; i < a->N; i++) {
        const double x = a->us[0][i], y = b->us[0][i];
        if (!(x == y || (isnan(x) && isnan(y)))) return false;
    }
    return true;
}

TEST(corpus, same_state_same_problem) {
    stw_corpus *corpus = open_corpus("all," GRAPHS "unet.json.gz," GRAPHS "wavenet-2x9.json.gz", NULL);
    if (!CHECK(corpus != NULL)) return;
    stw_corpus *again = open_corpus("all," GRAPHS "unet.json.gz," GRAPHS "wavenet-2x9.json.gz", NULL);
    for (uint64_t seed = 0; seed < 24; seed++) {
        const double difficulty = (double)(seed % 3) / 2.0;
        stw_drawn a, b, other;
        if (!draw(corpus, seed, difficulty, &a) || !draw(again, seed, difficulty, &b) ||
            !draw(corpus, seed + 100, difficulty, &other))
            break;
        CHECK_STR(a.label, b.label);
        CHECK_STR(a.graph->fingerprint, b.graph->fingerprint);
        CHECK(equal_times(a.graph, b.graph));
        CHECK(stw_machine_equal(a.machine, b.machine));
        CHECK(!equal_times(a.graph, other.graph));
        CHECK(strcmp(a.label, other.label) != 0);
        stw_drawn_destroy(&a);
        stw_drawn_destroy(&b);
        stw_drawn_destroy(&other);
        CHECK(a.graph == NULL && a.machine == NULL);
    }
    stw_corpus_close(again);
    stw_corpus_close(corpus);
}

typedef struct tally {
    int32_t draws, unlike, buses, builtin;
    int32_t tight;       /* memory, of graphs up to 1000 ops */
    int32_t tight_valid; /* of these, by heft */
    bool device_count[STW_MAX_DEVICES + 1];
} tally;

static void count_machine(const stw_machine *machine, tally *t) {
    t->draws++;
    t->unlike += machine->cost_class_count > 1;
    t->buses += machine->bus_count > 0;
    t->builtin += stw_str_starts(machine->name, "0.1/h200x");
    t->device_count[machine->device_count] = true;
    CHECK(machine->complete);
}

/* Is the method's plan valid? */
static bool plans(const stw_simulator *simulator, const char *method) {
    stw_plan *plan;
    stw_workspace *workspace;
    stw_evaluation result = {.reason = STW_INVALID_MEMORY};
    stw_error error = {0};
    CHECK_EQ_INT(stw_method_run(method, simulator, NULL, &plan, &error), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, &error), STW_OK);
    CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &result, &error), STW_OK);
    const stw_reason reason = result.reason;
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    CHECK(reason == STW_VALID || reason == STW_INVALID_MEMORY);
    return reason == STW_VALID;
}

static void check_planned(const stw_drawn *drawn, tally *t) {
    stw_costs *costs;
    stw_simulator *simulator;
    stw_error error = {0};
    const bool tight = strstr(drawn->machine->name.p, "GB each") != NULL;
    if (!CHECK_EQ_INT(stw_costs_create(drawn->graph, drawn->machine, NULL, &costs, &error), STW_OK)) return;
    if (CHECK_EQ_INT(stw_simulator_create(costs, &simulator, &error), STW_OK)) {
        if (!tight) {
            CHECK(plans(simulator, "single"));
        } else if (drawn->graph->op_count <= 1000) { /* fitting a plan into memory takes long on large graphs */
            t->tight++;
            t->tight_valid += plans(simulator, "heft");
        }
        stw_simulator_destroy(simulator);
    }
    stw_costs_destroy(costs);
}

static tally draw_many(double difficulty, int32_t most, int count) {
    tally t = {0};
    stw_corpus *corpus = open_corpus("all", NULL);
    for (int seed = 0; seed < count; seed++) {
        stw_drawn drawn;
        if (!draw(corpus, (uint64_t)seed, difficulty, &drawn)) break;
        CHECK(drawn.graph->op_count >= STW_CORPUS_LEAST_OPS && drawn.graph->op_count <= most);
        CHECK(drawn.label[0] != '\0');
        count_machine(drawn.machine, &t);
        check_planned(&drawn, &t);
        stw_drawn_destroy(&drawn);
    }
    test_context("%s", "");
    stw_corpus_close(corpus);
    return t;
}

TEST(corpus, easy_draws_are_small_and_plain) {
    const tally t = draw_many(0.0, STW_CORPUS_EASY_OPS, 200 / SLOWER);
    CHECK_EQ_INT(t.draws, 200 / SLOWER);
    CHECK_EQ_INT(t.tight + t.unlike + t.buses, 0);
    CHECK(t.builtin > 0);
    for (int d = 0; d <= STW_MAX_DEVICES; d++) CHECK_EQ_INT(t.device_count[d], d == 2 || d == 4);
}

TEST(corpus, hard_draws_have_everything) {
    const tally t = draw_many(1.0, STW_CORPUS_RARE_OPS, 200 / SLOWER);
    CHECK_EQ_INT(t.draws, 200 / SLOWER);
    CHECK(t.unlike > 0 && t.buses > 0 && t.builtin > 0);
    CHECK(t.tight > 0);
    CHECK(5 * t.tight_valid >= 4 * t.tight);
    CHECK(t.device_count[2] && t.device_count[4] && t.device_count[8] && t.device_count[16]);
}

/* Every family of the table, each alone, comes to the sizes that were asked for. */
TEST(corpus, every_family) {
    for (int32_t k = 0; stw_family_at(k) != NULL; k++) {
        stw_corpus *corpus = open_corpus(stw_family_at(k)->name, "");
        if (!CHECK(corpus != NULL)) continue;
        CHECK_EQ_INT(stw_corpus_count(corpus), 1);
        CHECK_STR(stw_corpus_at(corpus, 0).name, stw_family_at(k)->name);
        int32_t least = INT32_MAX, most = 0;
        for (uint64_t seed = 0; seed < 8; seed++) {
            stw_drawn drawn;
            if (!draw(corpus, seed, 0.0, &drawn)) break;
            CHECK(stw_str_is(drawn.graph->family, stw_family_at(k)->name));
            if (drawn.graph->op_count < least) least = drawn.graph->op_count;
            if (drawn.graph->op_count > most) most = drawn.graph->op_count;
            stw_drawn_destroy(&drawn);
        }
        test_context("%s", stw_family_at(k)->name);
        CHECK(least >= STW_CORPUS_LEAST_OPS && most <= STW_CORPUS_EASY_OPS && (most > least || least > 400));
        stw_corpus_close(corpus);
    }
    test_context("%s", "");
}

/* Times: those of the file, times factors that are 1 in the middle. */
TEST(corpus, files_get_times_of_their_own) {
    stw_corpus *corpus = open_corpus(GRAPHS "unet.json.gz", NULL);
    stw_graph *file;
    stw_error error = {0};
    if (!CHECK(corpus != NULL) || !CHECK_EQ_INT(stw_graph_open(GRAPHS "unet.json.gz", NULL, &file, &error), STW_OK)) return;
    CHECK_STR(stw_corpus_at(corpus, 0).family, "unet");
    CHECK_EQ_INT(stw_corpus_at(corpus, 0).op_count, file->op_count);
    int32_t kind = 0;
    while (kind + 1 < file->kind_count && !stw_str_is(file->kind_name[kind], "h200")) kind++;
    double sum = 0.0, square = 0.0;
    int64_t count = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        stw_drawn drawn;
        if (!draw(corpus, seed, 0.0, &drawn)) break;
        CHECK_STR(drawn.graph->fingerprint, file->fingerprint);
        for (int32_t i = 0; i < file->N; i++) {
            if (file->kind[i] != STW_NODE_OP || !(file->us[kind][i] > 0.0)) continue;
            const double factor = log(drawn.graph->us[0][i] / file->us[kind][i]);
            sum += factor;
            square += factor * factor;
            count++;
        }
        stw_drawn_destroy(&drawn);
    }
    test_context("%s", "");
    if (CHECK(count > 1000)) {
        CHECK_NEAR(sum / (double)count, 0.0, 0.1);
        CHECK_NEAR(sqrt(square / (double)count), sqrt(0.3 * 0.3 + 0.1 * 0.1), 0.08);
    }
    stw_graph_destroy(file);
    stw_corpus_close(corpus);
}

/* Files are two families' worth, and too large ones wait. */
TEST(corpus, files_and_families_share) {
    stw_corpus *corpus = open_corpus("wavenet,layered," GRAPHS "unet.json.gz," GRAPHS "rnnlm-2.json.gz", NULL);
    if (!CHECK(corpus != NULL)) return;
    int files = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        stw_drawn drawn;
        if (!draw(corpus, seed, 0.0, &drawn)) break;
        CHECK(!stw_str_is(drawn.graph->family, "rnnlm")); /* 1373 ops */
        files += stw_str_is(drawn.graph->family, "unet");
        stw_drawn_destroy(&drawn);
    }
    test_context("%s", "");
    CHECK(files > 35 && files < 85);
    stw_corpus_close(corpus);
    corpus = open_corpus(GRAPHS "rnnlm-2.json.gz", NULL);
    stw_drawn drawn;
    if (CHECK(corpus != NULL) && draw(corpus, 1, 0.0, &drawn)) {
        CHECK(stw_str_is(drawn.graph->family, "rnnlm")); /* there is nothing else */
        stw_drawn_destroy(&drawn);
    }
    stw_corpus_close(corpus);
}

TEST(corpus, held_out_is_never_drawn) {
    static const char *const out[] = {"gnmt", "inception", "gpt", "amoebanet", "transformer-xl"};
    stw_corpus *corpus = open_corpus("all," GRAPHS "gpt2.json.gz," GRAPHS "llama-8x2048.json.gz," GRAPHS "unet.json.gz," GRAPHS
                                     "wavenet-2x9.json.gz," GRAPHS "vit-b16.json.gz," GRAPHS "amoebanet.json.gz",
                                     "gnmt,inception,gpt,amoebanet,transformer-xl");
    if (!CHECK(corpus != NULL)) return;
    CHECK_EQ_INT(stw_corpus_count(corpus), 6 + 3); /* unet, wavenet, vit */
    for (int32_t k = 0; k < stw_corpus_count(corpus); k++) {
        for (size_t o = 0; o < sizeof out / sizeof out[0]; o++) CHECK(strcmp(stw_corpus_at(corpus, k).family, out[o]) != 0);
    }
    int from_files = 0;
    for (uint64_t seed = 0; seed < 500; seed++) {
        stw_drawn drawn;
        if (!draw(corpus, seed, 0.0, &drawn)) break;
        for (size_t o = 0; o < sizeof out / sizeof out[0]; o++) {
            CHECK(strncmp(drawn.label, out[o], strlen(out[o])) != 0);
            CHECK(!stw_str_is(drawn.graph->family, out[o]));
        }
        CHECK(!stw_str_is(drawn.graph->family, "llama"));
        from_files += strstr(drawn.label, "-layers") == NULL;
        stw_drawn_destroy(&drawn);
    }
    test_context("%s", "");
    CHECK(from_files > 50);
    stw_corpus_close(corpus);
}

/* Draws at difficulty 1, where all of these files may come, by the family that the file names. */
static void count_files(const char *hold_out, int *gpt, int *llama, int *vit) {
    stw_corpus *corpus = open_corpus(GRAPHS "gpt2.json.gz," GRAPHS "llama-8x2048.json.gz," GRAPHS "vit-b16.json.gz", hold_out);
    *gpt = *llama = *vit = 0;
    for (uint64_t seed = 0; corpus != NULL && seed < 100; seed++) {
        stw_drawn drawn;
        if (!draw(corpus, seed, 1.0, &drawn)) break;
        *gpt += stw_str_is(drawn.graph->family, "gpt");
        *llama += stw_str_is(drawn.graph->family, "llama");
        *vit += stw_str_is(drawn.graph->family, "vit");
        stw_drawn_destroy(&drawn);
    }
    test_context("%s", "");
    stw_corpus_close(corpus);
}

TEST(corpus, held_out_files_are_never_drawn) {
    int gpt, llama, vit;
    count_files(NULL, &gpt, &llama, &vit);
    CHECK(gpt > 10 && llama > 10 && vit > 10);
    CHECK_EQ_INT(gpt + llama + vit, 100);
    count_files("gpt", &gpt, &llama, &vit);
    CHECK_EQ_INT(gpt + llama, 0);
    CHECK_EQ_INT(vit, 100);
    count_files("llama,bert", &gpt, &llama, &vit);
    CHECK_EQ_INT(gpt, 100);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    if (!CHECK(file != NULL)) return;
    fputs(text, file);
    fclose(file);
}

#define TINY(head)                                                       \
    "{\"format\":\"opgraph\",\"version\":1," head                        \
    "\"nodes\":[{\"id\":0,\"name\":\"a\",\"op\":\"relu\",\"inputs\":[]," \
    "\"dtype\":\"f32\",\"shape\":[8]}]}"

/* A folder in order of names; families by what the file says, else by names; what is no graph is left alone. */
TEST(corpus, folders_and_names) {
    static const struct {
        const char *name, *text, *family;
    } file[] = {{"gnmt-tiny.json", TINY(""), "gnmt"},
                {"mine.json", TINY("\"name\":\"resnet18\","), "resnet"},
                {"other.json", TINY("\"family\":\"diffusion\","), "diffusion"},
                {"vit-tiny.json", TINY("\"family\":\"vit\","), "bert"},
                {"notes.txt", "not a graph", NULL}};
    enum { FILES = sizeof file / sizeof file[0] };
    char folder[] = "/tmp/stw-corpus-XXXXXX", path[FILES][100];
    if (!CHECK(mkdtemp(folder) != NULL)) return;
    for (int k = FILES - 1; k >= 0; k--) {
        snprintf(path[k], sizeof path[k], "%s/%s", folder, file[k].name);
        write_text(path[k], file[k].text);
    }
    stw_corpus *corpus = open_corpus(folder, NULL);
    if (CHECK(corpus != NULL) && CHECK_EQ_INT(stw_corpus_count(corpus), 4)) {
        for (int32_t k = 0; k < 4; k++) {
            CHECK_STR(stw_corpus_at(corpus, k).name, path[k]);
            CHECK_STR(stw_corpus_at(corpus, k).family, file[k].family);
        }
    }
    stw_corpus_close(corpus);
    corpus = open_corpus(folder, "diffusion,gnmt,vit");
    if (CHECK(corpus != NULL)) CHECK_EQ_INT(stw_corpus_count(corpus), 1);
    stw_corpus_close(corpus);
    for (int k = 0; k < FILES; k++) unlink(path[k]);
    stw_error error = {0};
    CHECK_EQ_INT(stw_corpus_open(&(stw_corpus_wish){.families = folder}, &corpus, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "has no graph files");
    rmdir(folder);
}

static void check_refused(const char *families, const char *hold_out, const char *first, const char *second) {
    stw_corpus *corpus;
    stw_error error = {0};
    CHECK_EQ_INT(stw_corpus_open(&(stw_corpus_wish){.families = families, .hold_out = hold_out}, &corpus, &error),
                 STW_ERROR_INPUT);
    CHECK(corpus == NULL);
    CHECK_CONTAINS(error.message, first);
    CHECK_CONTAINS(error.message, second);
}

TEST(corpus, refusals_list_what_is_known) {
    check_refused("rnnlm,alexnet", NULL, "'alexnet'", "wavenet, layered");
    check_refused("all", "gnmt,alexnet", "'alexnet'", "rnnlm, gnmt");
    check_refused("all," GRAPHS "llama-8x2048.json.gz", "alexnet", "'alexnet'", "layered, llama");
    check_refused("all", "llama", "'llama'", "layered"); /* no such file is here */
    check_refused("gnmt", "gnmt", "nothing is left", "rnnlm");
    check_refused("", NULL, "nothing is left", "rnnlm");
    check_refused(GRAPHS "llama-8x2048.json.gz", "gpt", "nothing is left", "llama");
    check_refused(STW_SOURCE_DIR "/README.md", NULL, "README.md", "opgraph");
}
