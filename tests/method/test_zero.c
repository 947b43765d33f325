/* `go-zero` and `go-tune`: a policy that was trained elsewhere, used as it is and fine-tuned. */
#define _XOPEN_SOURCE 700 /* mkstemp, truncate */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "feature/feature.h"
#include "method/go/go.h"
#include "plan/plan.h"
#include "policy/example.h"
#include "support/random.h"
#include "test.h"

/* ---- options ---- */

typedef struct setting {
    const char *name, *value;
} setting;

/* Two threads and no fusion, unless told otherwise; ends with a name of NULL. */
static stw_options *options_of(const setting *more) {
    stw_options *options = NULL;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", "2", NULL), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "tasks", "placement,schedule", NULL), STW_OK);
    for (; more->name != NULL; more++) CHECK_EQ_INT(stw_options_set(options, more->name, more->value, NULL), STW_OK);
    return options;
}
#define OPTIONS(...) options_of((const setting[]){__VA_ARGS__, {NULL, NULL}})

/* Runs one method; the result, or NULL with the error. */
static stw_result *run(const stw_simulator *simulator, const char *method, stw_options *options, stw_error *error) {
    stw_result *result = NULL;
    const stw_status status = stw_compare(simulator, method, options, NULL, &result, error);
    CHECK_EQ_INT(status == STW_OK, result != NULL);
    stw_options_destroy(options);
    return result;
}

static stw_candidate candidate_of(const stw_result *result) {
    stw_candidate candidate = {0};
    CHECK(result != NULL && stw_result_candidate(result, 0, &candidate));
    return candidate;
}

/* ---- a problem ---- */

static small *open_problem(void) {
    stw_rng rng = stw_rng_create(900);
    return random_open(&rng, (random_shape){.nodes = 150, .device_count = 3, .wide = true});
}

/* ---- policy files ---- */

/* What is done to the shipped policy before it is written. */
typedef void change(stw_tensor_file *file);

static void leave(stw_tensor_file *file) { (void)file; }

/* Every tensor's numbers, mixed within the tensor. */
static void shuffle(stw_tensor_file *file) {
    stw_rng rng = stw_rng_create(5);
    for (int32_t k = 0; k < file->count; k++) {
        float *value = (float *)(uintptr_t)file->tensor[k].data; /* ours: it was read into an arena */
        for (int64_t i = file->tensor[k].rows * file->tensor[k].cols - 1; i > 0; i--) {
            const int64_t other = stw_rng_below(&rng, i + 1);
            const float kept = value[i];
            value[i] = value[other];
            value[other] = kept;
        }
    }
}

static void set_dimension(stw_tensor_file *file, const char *name, int64_t value) {
    int32_t k = 0;
    while (k < file->dimension_count && strcmp(file->dimension[k].name, name) != 0) k++;
    if (k == file->dimension_count) snprintf(file->dimension[file->dimension_count++].name, 64, "%s", name);
    file->dimension[k].value = value;
}

static void age(stw_tensor_file *file) { set_dimension(file, "feature_version", 1000); }
static void place_only(stw_tensor_file *file) { set_dimension(file, "pretrain.schedules", 0); }

static void write_policy(char *path, change *how) {
    stw_arena arena = {0};
    stw_tensor_file file;
    const int handle = mkstemp(path);
    CHECK(handle >= 0);
    close(handle);
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_tensor_file_parse(stw_shipped_policy(), "shipped", &arena, &file, NULL), STW_OK);
    how(&file);
    CHECK_EQ_INT(stw_tensor_file_write(&file, path, NULL), STW_OK);
    stw_arena_destroy(&arena);
}

/* ---- go-zero ---- */

/* "the policy made 60 plans; ..." */
static int decodes_of(const stw_candidate *candidate) {
    const char *made = strstr(candidate->note, "made ");
    return made != NULL ? atoi(made + strlen("made ")) : 0;
}

TEST(zero, is_never_worse_than_its_start) {
    const stw_rng seeds = stw_rng_create(901);
    int better = 0;
    for (int number = 0; number < 12; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 50, .device_count = 2 + number % 3, .unlike = number % 2 == 1});
        char path[] = "/tmp/stowage-test-XXXXXX";
        const int handle = mkstemp(path);
        CHECK(handle >= 0);
        close(handle);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        small_run(s);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
        test_context("problem %d", number);
        stw_result *result = run(s->simulator, "go-zero", OPTIONS({"from", path}, {"evaluations", "400"}), NULL);
        const stw_candidate found = candidate_of(result);
        CHECK(found.valid && found.step_s <= s->result.step_s);
        /* A last round of one would not do: it tries moves and then all that helped. */
        const int decodes = decodes_of(&found);
        const double bound_s = stw_result_bounds(result).plan_s; /* where it is met, there is nothing left to try */
        CHECK(decodes == 59 || decodes == 60 || found.value <= bound_s * (1.0 + 1e-9));
        better += found.step_s < s->result.step_s;
        stw_result_destroy(result);
        unlink(path);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(better >= 10); /* random plans are easily bettered */
}

TEST(zero, same_plan_from_one_thread_and_two) {
    small *s = open_problem();
    stw_result *one = run(s->simulator, "go-zero", OPTIONS({"evaluations", "400"}, {"threads", "1"}), NULL),
               *two = run(s->simulator, "go-zero", OPTIONS({"evaluations", "400"}, {"threads", "2"}), NULL);
    if (CHECK(one != NULL && two != NULL)) {
        const stw_plan *a = stw_result_plan(one), *b = stw_result_plan(two);
        CHECK_EQ_INT(memcmp(a->device, b->device, (size_t)s->graph->N * sizeof *a->device), 0);
        CHECK_EQ_INT(memcmp(a->priority, b->priority, (size_t)s->graph->N * sizeof *a->priority), 0);
        CHECK_STR(candidate_of(one).note, candidate_of(two).note);
    }
    stw_result_destroy(one);
    stw_result_destroy(two);
    small_close(s);
}

/* The start is evaluated for its value and for what the network sees of it; then there is one plan. */
TEST(zero, one_decode_is_one) {
    small *s = open_problem();
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int handle = mkstemp(path);
    CHECK(handle >= 0);
    close(handle);
    stw_plan *start = NULL;
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &start, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_write(s->simulator, start, path, NULL), STW_OK);
    stw_result *result = run(s->simulator, "go-zero", OPTIONS({"from", path}, {"decodes", "1"}, {"evaluations", "1000"}), NULL);
    const stw_candidate one = candidate_of(result);
    CHECK(one.evaluations >= 3 && one.evaluations <= 3 + 2 * 6); /* priorities: of the start, and of a better plan */
    CHECK_CONTAINS(one.note, "made 1 plan;");
    stw_result_destroy(result);
    result = run(s->simulator, "go-zero", OPTIONS({"from", path}, {"decodes", "30"}, {"evaluations", "1000"}), NULL);
    const stw_candidate many = candidate_of(result);
    CHECK(decodes_of(&many) == 29 || decodes_of(&many) == 30);
    stw_result_destroy(result);
    unlink(path);
    stw_plan_destroy(start);
    small_close(s);
}

/* A budget that ends sooner makes it smaller, not useless. */
TEST(zero, keeps_to_its_budget) {
    small *s = open_problem();
    for (int evaluations = 1; evaluations < 60; evaluations += 7) {
        char text[16];
        snprintf(text, sizeof text, "%d", evaluations);
        stw_result *result = run(s->simulator, "go-zero", OPTIONS({"evaluations", text}), NULL);
        const stw_candidate found = candidate_of(result);
        test_context("%d evaluations", evaluations);
        CHECK(found.valid);
        CHECK(found.evaluations <= evaluations + 4); /* what must be done to have a plan at all */
        stw_result_destroy(result);
    }
    test_context("%s", "");
    small_close(s);
}

/* ---- files ---- */

/* Whether another policy finds other plans, for some seed: it tries one move away from one device, the most promising in its
 * eyes. */
static bool decides_otherwise(const small *s, const char *policy) {
    const stw_simulator *simulator = s->simulator;
    char from[] = "/tmp/stowage-test-XXXXXX";
    stw_plan *single = NULL;
    const int handle = mkstemp(from);
    CHECK(handle >= 0);
    close(handle);
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &single, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_write(simulator, single, from, NULL), STW_OK);
    bool differs = false;
    for (int seed = 1; seed <= 8 && !differs; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        stw_result *shipped =
            run(simulator, "go-zero", OPTIONS({"from", from}, {"decodes", "1"}, {"evaluations", "60"}, {"seed", text}), NULL);
        stw_result *other =
            run(simulator, "go-zero",
                OPTIONS({"from", from}, {"decodes", "1"}, {"evaluations", "60"}, {"seed", text}, {"policy", policy}), NULL);
        differs = candidate_of(shipped).value != candidate_of(other).value;
        stw_result_destroy(shipped);
        stw_result_destroy(other);
    }
    stw_plan_destroy(single);
    unlink(from);
    return differs;
}

TEST(policy, a_file_serves_like_the_shipped_one_and_its_weights_matter) {
    small *s = open_problem();
    char same[] = "/tmp/stowage-test-XXXXXX", mixed[] = "/tmp/stowage-test-XXXXXX", places[] = "/tmp/stowage-test-XXXXXX";
    write_policy(same, leave);
    write_policy(mixed, shuffle);
    write_policy(places, place_only);
    stw_result *shipped = run(s->simulator, "go-zero", OPTIONS({"evaluations", "400"}), NULL),
               *file = run(s->simulator, "go-zero", OPTIONS({"evaluations", "400"}, {"policy", same}), NULL),
               *placing = run(s->simulator, "go-zero", OPTIONS({"evaluations", "400"}, {"policy", places}), NULL);
    CHECK_STR(candidate_of(file).note, candidate_of(shipped).note);
    CHECK_NEAR(candidate_of(file).step_s, candidate_of(shipped).step_s, 0.0);
    CHECK(decides_otherwise(s, mixed));
    CHECK(!decides_otherwise(s, same));
    CHECK(candidate_of(placing).valid);
    CHECK_CONTAINS(candidate_of(placing).note, "the policy made ");
    stw_result_destroy(shipped);
    stw_result_destroy(file);
    stw_result_destroy(placing);
    unlink(same);
    unlink(mixed);
    unlink(places);
    small_close(s);
}

static void check_refused(const small *s, const char *path, const char *says) {
    static const char *const methods[] = {"go-zero", "go-tune"};
    for (int k = 0; k < 2; k++) {
        stw_error error = {0};
        test_context("%s: %s", methods[k], says);
        stw_result *result = run(s->simulator, methods[k], OPTIONS({"evaluations", "100"}, {"policy", path}), &error);
        CHECK(result == NULL);
        CHECK_EQ_INT(error.status, STW_ERROR_INPUT);
        CHECK_CONTAINS(error.message, says);
        stw_result_destroy(result);
    }
    test_context("%s", "");
}

TEST(policy, refuses_what_does_not_fit) {
    small *s = open_problem();
    char path[] = "/tmp/stowage-test-XXXXXX", old[] = "/tmp/stowage-test-XXXXXX";
    write_policy(path, leave);
    CHECK_EQ_INT(truncate(path, 1000), 0);
    check_refused(s, path, "the file is damaged");
    write_policy(old, age);
    check_refused(s, old, "feature_version is 1000 there");
    check_refused(s, "/nowhere/policy.stw", "/nowhere/policy.stw");
    check_refused(s, "none", "needs a policy");
    stw_result *result = NULL; /* a policy of one graph */
    stw_options *options = OPTIONS({"updates", "1"}, {"output", path});
    CHECK_EQ_INT(stw_train(s->simulator, options, NULL, &result, NULL), STW_OK);
    stw_result_destroy(result);
    stw_options_destroy(options);
    check_refused(s, path, "this policy is for one graph; go-");
    unlink(path);
    unlink(old);
    small_close(s);
}

/* ---- go-tune ---- */

TEST(tune, keeps_to_its_updates_and_is_no_worse_than_go_zero) {
    small *s = open_problem();
    stw_result *zero = run(s->simulator, "go-zero", OPTIONS({"evaluations", "2000"}), NULL),
               *none =
                   run(s->simulator, "go-tune", OPTIONS({"evaluations", "2000"}, {"updates", "3"}, {"learning-rate", "0"}), NULL),
               *tuned = run(s->simulator, "go-tune", OPTIONS({"evaluations", "2000"}, {"updates", "3"}), NULL);
    CHECK(candidate_of(tuned).step_s <= candidate_of(zero).step_s);
    CHECK(candidate_of(none).step_s <= candidate_of(zero).step_s);
    CHECK_CONTAINS(candidate_of(tuned).note, "3 updates");
    CHECK(candidate_of(tuned).evaluations < candidate_of(zero).evaluations + 60 + 3 * 17 + 60); /* constants, samples, polish */
    stw_result_destroy(zero);
    stw_result_destroy(none);
    stw_result_destroy(tuned);
    small_close(s);
}

static double percent_of(const stw_result *result) {
    const char *note = candidate_of(result).note, *end = strstr(note, " % better");
    while (end != NULL && end > note && end[-1] != ' ') end--;
    return end != NULL ? strtod(end, NULL) : -1.0;
}

/* The shipped policy has learnt from moves alone: what goes on learning is the scorer of anneal's moves. */
TEST(tune, goes_on_with_what_was_learnt) {
    small *s = open_problem();
    stw_result *zero = run(s->simulator, "go-zero", OPTIONS({"evaluations", "1500"}), NULL),
               *tuned = run(s->simulator, "go-tune", OPTIONS({"evaluations", "1500"}), NULL),
               *fixed = run(s->simulator, "go-tune", OPTIONS({"evaluations", "1500"}, {"scorer-rate", "0"}), NULL),
               *again = run(s->simulator, "go-tune", OPTIONS({"evaluations", "1500"}, {"threads", "1"}), NULL),
               *steers = run(s->simulator, "go-tune", OPTIONS({"evaluations", "1500"}, {"proposals", "none"}), NULL);
    CHECK(candidate_of(tuned).step_s <= candidate_of(zero).step_s);
    CHECK_CONTAINS(candidate_of(tuned).note, "% better than the initial plan");
    CHECK(strstr(candidate_of(tuned).note, "update") == NULL);
    CHECK(candidate_of(fixed).step_s <= candidate_of(zero).step_s);
    CHECK_NEAR(candidate_of(tuned).step_s, candidate_of(again).step_s, 0.0);
    CHECK(candidate_of(tuned).evaluations > 1300 && candidate_of(tuned).evaluations <= 1500);
    const stw_plan *learnt = stw_result_plan(tuned), *kept = stw_result_plan(fixed); /* learning makes a difference */
    CHECK(memcmp(learnt->priority, kept->priority, (size_t)s->graph->N * sizeof *kept->priority) != 0);
    CHECK(percent_of(tuned) >= percent_of(zero)); /* both relative to the initial plan */
    CHECK_CONTAINS(candidate_of(steers).note, "update");
    stw_result_destroy(zero);
    stw_result_destroy(tuned);
    stw_result_destroy(fixed);
    stw_result_destroy(again);
    stw_result_destroy(steers);
    small_close(s);
}

/* Groups are chosen after the search, by evaluations that it leaves. */
TEST(tune, keeps_to_its_evaluations_with_fusion) {
    static const char *const evaluations[] = {"60", "100", "150", "333"};
    small *s = open_problem();
    for (int k = 0; k < 4; k++) {
        stw_result *tuned =
            run(s->simulator, "go-tune", OPTIONS({"evaluations", evaluations[k]}, {"tasks", "placement,schedule,fusion"}), NULL);
        if (CHECK(tuned != NULL)) CHECK(candidate_of(tuned).evaluations <= atoi(evaluations[k]));
        stw_result_destroy(tuned);
    }
    small_close(s);
}

TEST(tune, same_plan_from_one_thread_and_two) {
    small *s = open_problem();
    stw_result *one = run(s->simulator, "go-tune", OPTIONS({"evaluations", "800"}, {"updates", "2"}, {"threads", "1"}), NULL),
               *two = run(s->simulator, "go-tune", OPTIONS({"evaluations", "800"}, {"updates", "2"}, {"threads", "2"}), NULL);
    if (CHECK(one != NULL && two != NULL)) {
        const stw_plan *a = stw_result_plan(one), *b = stw_result_plan(two);
        CHECK_EQ_INT(memcmp(a->device, b->device, (size_t)s->graph->N * sizeof *a->device), 0);
        CHECK_EQ_INT(memcmp(a->priority, b->priority, (size_t)s->graph->N * sizeof *a->priority), 0);
    }
    stw_result_destroy(one);
    stw_result_destroy(two);
    small_close(s);
}

/* Before the first update a network with vectors for its rows says what the one without says. */
TEST(tune, vectors_of_rows_begin_as_zero) {
    enum { M = 11, OUT = M * STW_STEER_KNOBS };
    stw_policy_config any = example_config(false, 4), one = any;
    stw_arena arena = {0};
    stw_backend *backend = NULL;
    stw_net *from = NULL, *to = NULL;
    stw_pass *pass[2] = {NULL, NULL};
    double out[2][OUT] = {{0}};
    one.identities = M;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_backend_cpu(NULL, &backend, NULL), STW_OK);
    CHECK_EQ_INT(stw_net_create(&any, backend, 1, &from, NULL), STW_OK);
    CHECK_EQ_INT(stw_net_create(&one, backend, 2, &to, NULL), STW_OK);
    example_shake(from, 3, arena);
    stw_tensor_file file = {0};
    file.tensor = calloc(STW_MAX_PARAMETERS, sizeof *file.tensor);
    CHECK_EQ_INT(stw_net_save(from, false, &arena, &file, NULL), STW_OK);
    CHECK_EQ_INT(stw_net_load(to, &file, arena, NULL), STW_ERROR_INPUT);
    CHECK_EQ_INT(stw_net_load_shared(to, &file, arena, NULL), STW_OK);
    example e = example_make(&any, M, 3, 1, 7);
    for (int k = 0; k < 2; k++) {
        CHECK_EQ_INT(stw_pass_create(k == 0 ? from : to, &pass[k], NULL), STW_OK);
        CHECK_EQ_INT(stw_pass_set_input(pass[k], &e.input, NULL), STW_OK);
        CHECK_EQ_INT(stw_pass_placement(pass[k], out[k], NULL), STW_OK);
        stw_pass_destroy(pass[k]);
    }
    CHECK(out[0][0] != 0.0);
    CHECK_EQ_INT(memcmp(out[0], out[1], sizeof out[0]), 0);
    any.width *= 2; /* another network is refused */
    stw_net *wide = NULL;
    CHECK_EQ_INT(stw_net_create(&any, backend, 1, &wide, NULL), STW_OK);
    CHECK_EQ_INT(stw_net_load_shared(wide, &file, arena, NULL), STW_ERROR_INPUT);
    example_free(&e);
    free(file.tensor);
    stw_net_destroy(wide);
    stw_net_destroy(from);
    stw_net_destroy(to);
    stw_backend_destroy(backend);
    stw_arena_destroy(&arena);
}
