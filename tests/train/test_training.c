/* stw_train: the training repeats, goes on bit for bit after an interrupt, and refuses files that are not its own. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, nanosleep */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "policy/checkpoint.h"
#include "support/random.h"
#include "test.h"

enum { UPDATES = 7, STOP_AFTER = 3 };

/* ---- what is trained on ---- */

typedef struct bench {
    small *problem;
    const stw_simulator *simulator;
    char folder[64];
} bench;

static bench *make_bench(small *problem) {
    bench *b = calloc(1, sizeof *b);
    b->problem = problem;
    b->simulator = b->problem->simulator;
    snprintf(b->folder, sizeof b->folder, "/tmp/stowage-training-XXXXXX");
    CHECK(mkdtemp(b->folder) != NULL);
    return b;
}

/* The seed decides about the graph. */
static bench *open_bench(uint64_t seed) {
    stw_rng rng = stw_rng_create(seed);
    return make_bench(random_open(&rng, (random_shape){.nodes = 70, .device_count = 3}));
}

static bench *open_real_bench(void) {
    small *s = calloc(1, sizeof *s);
    stw_error error = {0};
    CHECK_EQ_INT(stw_graph_open(STW_SOURCE_DIR "/data/graphs/wavenet-2x9.json.gz", NULL, &s->graph, &error), STW_OK);
    CHECK_EQ_INT(stw_machine_open("h200x2", &s->machine, &error), STW_OK);
    CHECK_EQ_INT(stw_costs_create(s->graph, s->machine, NULL, &s->costs, &error), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(s->costs, &s->simulator, &error), STW_OK);
    CHECK_STR(error.message, "");
    return make_bench(s);
}

static const char *path_in(const bench *b, const char *name, char out[200]) {
    snprintf(out, 200, "%s/%s", b->folder, name);
    return out;
}

static void close_bench(bench *b) {
    static const char *const names[] = {"whole", "parts", "other", "damaged"};
    char path[200];
    for (int k = 0; k < 4; k++) unlink(path_in(b, names[k], path));
    CHECK_EQ_INT(rmdir(b->folder), 0); /* nothing else was left there */
    small_close(b->problem);
    free(b);
}

/* Few units and updates; names and values in turn, up to NULL, come on top. */
static stw_options *options_of(const char *file, const char *name, ...) {
    static const char *const usual[][2] = {
        {"updates", "7"}, {"units", "24"}, {"seed", "3"}, {"threads", "2"}, {"initial-plans", "no"}};
    stw_options *options;
    stw_error error = {0};
    va_list list;
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    for (int k = 0; k < 5; k++) CHECK_EQ_INT(stw_options_set(options, usual[k][0], usual[k][1], &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "output", file, &error), STW_OK);
    va_start(list, name);
    for (; name != NULL; name = va_arg(list, const char *))
        CHECK_EQ_INT(stw_options_set(options, name, va_arg(list, const char *), &error), STW_OK);
    va_end(list);
    CHECK_STR(error.message, "");
    return options;
}

/* ---- a run, watched ---- */

typedef struct watcher {
    stw_cancel *cancel;
    int64_t stop_after; /* updates; -1: never */
    int64_t first, count;
    double best;
    stw_candidate outcome; /* strings and arrays are gone */
    bool interrupted;
} watcher;

static void on_update(void *context, const stw_curve_row *row) {
    watcher *w = context;
    if (w->count == 0) w->first = row->update;
    CHECK_EQ_INT(row->update, w->first + w->count);
    CHECK(w->count == 0 || row->best <= w->best);
    CHECK(row->valid >= 0.0 && row->valid <= 1.0 && row->rate > 0.0 && row->sigma > 0.0 && isfinite(row->loss));
    w->count++;
    w->best = row->best;
    if (w->stop_after >= 0 && row->update + 1 == w->stop_after) stw_cancel_request(w->cancel);
}

/* Takes the options over. */
static watcher train(const bench *b, stw_options *options, int64_t stop_after) {
    watcher w = {.stop_after = stop_after};
    stw_error error = {0};
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_cancel_create(&w.cancel, &error), STW_OK);
    const stw_watch watch = {.context = &w, .curve = on_update, .cancel = w.cancel};
    CHECK_EQ_INT(stw_train(b->simulator, options, &watch, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    if (result != NULL) {
        CHECK(stw_result_candidate(result, 0, &w.outcome));
        w.interrupted = stw_result_is_interrupted(result);
    }
    stw_result_destroy(result);
    stw_cancel_destroy(w.cancel);
    stw_options_destroy(options);
    return w;
}

/* Takes the options over; the message has these words. */
static void check_refused(const bench *b, stw_options *options, const char *words) {
    stw_error error = {0};
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_train(b->simulator, options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, words);
    CHECK(result == NULL);
    stw_options_destroy(options);
}

/* ---- files ---- */

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

static bytes read_bytes(const char *path) {
    bytes b = {0};
    FILE *file = fopen(path, "rb");
    if (!CHECK(file != NULL)) return b;
    fseek(file, 0, SEEK_END);
    b.size = (size_t)ftell(file);
    rewind(file);
    b.data = malloc(b.size + 1);
    CHECK_EQ_INT(fread(b.data, 1, b.size, file), b.size);
    fclose(file);
    return b;
}

static void write_bytes(const char *path, bytes b) {
    FILE *file = fopen(path, "wb");
    if (!CHECK(file != NULL)) return;
    CHECK_EQ_INT(fwrite(b.data, 1, b.size, file), b.size);
    CHECK_EQ_INT(fclose(file), 0);
}

static bool files_are_equal(const char *path_a, const char *path_b) {
    const bytes a = read_bytes(path_a), b = read_bytes(path_b);
    const bool equal = a.size == b.size && a.size > 1000 && memcmp(a.data, b.data, a.size) == 0;
    free(a.data);
    free(b.data);
    return equal;
}

/* ---- tests ---- */

TEST(training, repeats_on_any_number_of_threads_and_follows_the_seed) {
    bench *b = open_bench(1);
    char whole[200], other[200];
    path_in(b, "whole", whole);
    path_in(b, "other", other);
    static const char *const tasks[] = {"placement,schedule", "fusion", "placement,schedule,fusion"};
    for (int k = 0; k < 3; k++) {
        test_context("%s", tasks[k]);
        const watcher two = train(b, options_of(whole, "initial-plans", "yes", "tasks", tasks[k], NULL), -1);
        const watcher one = train(b, options_of(other, "initial-plans", "yes", "tasks", tasks[k], "threads", "1", NULL), -1);
        CHECK_EQ_INT(two.count, UPDATES);
        CHECK(two.outcome.valid && !two.interrupted);
        CHECK_NEAR(two.outcome.value, two.best, 0.0);
        CHECK_NEAR(two.outcome.value, one.outcome.value, 0.0);
        CHECK(files_are_equal(whole, other));
    }
    test_context("%s", "");
    train(b, options_of(other, "seed", "4", NULL), -1);
    CHECK(!files_are_equal(whole, other));
    close_bench(b);
}

/* The file after an interrupt and another run is that of a run in one piece. Takes the bench over. */
static void check_resume(bench *b, const char *name, const char *value) {
    char whole[200], parts[200];
    path_in(b, "whole", whole);
    path_in(b, "parts", parts);
    const watcher all = train(b, options_of(whole, name, value, NULL), -1);
    const watcher before = train(b, options_of(parts, name, value, NULL), STOP_AFTER);
    CHECK_EQ_INT(before.count, STOP_AFTER);
    CHECK(before.interrupted);
    CHECK(!files_are_equal(whole, parts));
    const watcher after = train(b, options_of(parts, name, value, "resume", "yes", NULL), -1);
    CHECK_EQ_INT(after.first, STOP_AFTER);
    CHECK_EQ_INT(after.count, UPDATES - STOP_AFTER);
    CHECK_NEAR(after.outcome.value, all.outcome.value, 0.0);
    CHECK(files_are_equal(whole, parts));
    /* One that is complete has nothing left to do, and keeps its best plan. */
    const watcher again = train(b, options_of(parts, name, value, "resume", "yes", NULL), -1);
    CHECK_EQ_INT(again.count, 0);
    CHECK_NEAR(again.outcome.value, all.outcome.value, 0.0);
    CHECK(files_are_equal(whole, parts));
    close_bench(b);
}

TEST(training, goes_on_bit_for_bit) { check_resume(open_bench(1), "initial-plans", "yes"); }
TEST(training, goes_on_bit_for_bit_with_preset_paper) { check_resume(open_bench(1), "preset", "paper"); }
TEST(training, goes_on_bit_for_bit_with_fusion) { check_resume(open_bench(1), "tasks", "fusion"); }
TEST(training, goes_on_bit_for_bit_with_all_tasks) { check_resume(open_bench(1), "tasks", "placement,schedule,fusion"); }
TEST(training, goes_on_bit_for_bit_on_a_real_graph) { check_resume(open_real_bench(), "initial-plans", "yes"); }

/* ---- interrupts from another thread ---- */

typedef struct bell {
    stw_cancel *cancel;
    pthread_t thread;
    int32_t rows;   /* of updates in this part */
    long wait_ns;   /* from the first update of this part on */
    bool is_joined; /* it has rung, for certain */
} bell;

static void *ring(void *context) {
    const bell *b = context;
    nanosleep(&(struct timespec){.tv_nsec = b->wait_ns}, NULL);
    stw_cancel_request(b->cancel);
    return NULL;
}

/* It rings during the second update of a part if the machine is quick enough, and before the third in any case. */
static void wind_up(void *context, const stw_curve_row *row) {
    bell *b = context;
    (void)row;
    b->rows++;
    if (b->rows == 1) CHECK_EQ_INT(pthread_create(&b->thread, NULL, ring, b), 0);
    if (b->rows == 2) b->is_joined = pthread_join(b->thread, NULL) == 0;
}

/* One part of a training; wait_ns -1: it is interrupted before it begins. False when it is complete. */
static bool train_a_while(const bench *b, const char *file, long wait_ns) {
    stw_options *options = options_of(file, "resume", access(file, F_OK) == 0 ? "yes" : "no", NULL);
    stw_error error = {0};
    stw_result *result = NULL;
    bell alarm = {.wait_ns = wait_ns};
    CHECK_EQ_INT(stw_cancel_create(&alarm.cancel, &error), STW_OK);
    if (wait_ns < 0) stw_cancel_request(alarm.cancel);
    const stw_watch watch = {.cancel = alarm.cancel, .curve = wind_up, .context = &alarm};
    CHECK_EQ_INT(stw_train(b->simulator, options, &watch, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    if (alarm.rows > 0 && !alarm.is_joined) pthread_join(alarm.thread, NULL);
    const bool more = result != NULL && stw_result_is_interrupted(result);
    stw_result_destroy(result);
    stw_cancel_destroy(alarm.cancel);
    stw_options_destroy(options);
    return more;
}

/* Before the first update there is nothing to keep; an interrupt within an update lets it come to its end. */
TEST(training, goes_on_bit_for_bit_wherever_it_was_interrupted) {
    bench *b = open_bench(1);
    char whole[200], parts[200];
    path_in(b, "whole", whole);
    path_in(b, "parts", parts);
    train(b, options_of(whole, NULL), -1);
    CHECK(train_a_while(b, parts, -1));
    CHECK(access(parts, F_OK) != 0);
    int32_t count = 1;
    while (train_a_while(b, parts, count * 2000000) && count < 2 * UPDATES) count++;
    CHECK(count > 1 && count <= UPDATES);
    train(b, options_of(parts, "resume", "yes", NULL), -1); /* the last part may have been cut short */
    CHECK(files_are_equal(whole, parts));
    close_bench(b);
}

TEST(training, refuses_what_is_not_its_own) {
    bench *b = open_bench(1), *other_graph = open_bench(2);
    bench *other_machine = open_bench(1);
    char whole[200], other[200], damaged[200];
    path_in(b, "whole", whole);
    path_in(b, "other", other);
    path_in(b, "damaged", damaged);
    CHECK_EQ_INT(stw_machine_set_memory(other_machine->problem->machine, (int64_t)1 << 50, NULL), STW_OK);
    train(b, options_of(whole, NULL), 2);
    check_refused(b, options_of(other, "resume", "yes", NULL), other); /* there is none */
    check_refused(b, options_of(whole, "resume", "yes", "seed", "4", NULL), "seed");
    check_refused(b, options_of(whole, "resume", "yes", "updates", "9", NULL), "updates");
    check_refused(b, options_of(whole, "resume", "yes", "learning-rate", "0.5", NULL), "the learning rate was 0.004, is 0.5");
    check_refused(b, options_of(whole, "resume", "yes", "units", "20", NULL), "the number of units was 24, is 20");
    check_refused(b, options_of(whole, "resume", "yes", "preset", "paper", NULL), whole);
    check_refused(b, options_of("-", NULL), "standard output");
    check_refused(other_graph, options_of(whole, "resume", "yes", NULL), "graph");
    check_refused(other_machine, options_of(whole, "resume", "yes", NULL), "machine");
    bytes content = read_bytes(whole);
    content.data[content.size / 2] ^= 1;
    write_bytes(damaged, content);
    check_refused(b, options_of(damaged, "resume", "yes", NULL), "checksum");
    content.size /= 2;
    write_bytes(damaged, content);
    check_refused(b, options_of(damaged, "resume", "yes", NULL), damaged);
    free(content.data);
    close_bench(b);
    close_bench(other_graph);
    close_bench(other_machine);
}

/* Without a number of updates the budget ends it; a budget's course cannot be taken up again. */
TEST(training, ends_with_its_budget) {
    bench *b = open_bench(1);
    stw_options *options, *resume;
    stw_error error = {0};
    char whole[200];
    path_in(b, "whole", whole);
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_create(&resume, &error), STW_OK);
    static const char *const value[][2] = {{"units", "24"}, {"evaluations", "400"}};
    for (int k = 0; k < 2; k++) CHECK_EQ_INT(stw_options_set(options, value[k][0], value[k][1], &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "output", whole, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(resume, "output", whole, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(resume, "resume", "yes", &error), STW_OK);
    const watcher w = train(b, options, -1);
    CHECK(w.count > 0 && w.outcome.valid && !w.interrupted);
    CHECK(w.outcome.evaluations <= 400);
    check_refused(b, resume, "number of updates");
    close_bench(b);
}

/* Every choice of tasks with every way to begin. */
TEST(training, any_tasks_with_any_preset_and_start) {
    static const char *const tasks[] = {"placement",        "schedule",        "placement,schedule",       "fusion",
                                        "placement,fusion", "schedule,fusion", "placement,schedule,fusion"},
                             *const preset[] = {"default", "paper"}, *const yes_no[] = {"yes", "no"};
    enum { TASKS = sizeof tasks / sizeof tasks[0] };
    bench *b = open_bench(1);
    for (int k = 0; k < TASKS * 2 * 2 * 2; k++) {
        if (k >= 4 * TASKS && k % TASKS >= 3) continue; /* fusion is nothing that a warm start knows of */
        const char *const value[][2] = {{"tasks", tasks[k % TASKS]},
                                        {"preset", preset[k / TASKS % 2]},
                                        {"initial-plans", yes_no[k / (2 * TASKS) % 2]},
                                        {"warm-start", yes_no[k / (4 * TASKS)]},
                                        {"units", "24"},
                                        {"updates", "2"}};
        stw_options *options;
        stw_error error = {0};
        char path[200];
        path_in(b, "whole", path);
        test_context("%s, %s, initial plans %s, warm start %s", value[0][1], value[1][1], value[2][1], value[3][1]);
        CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
        for (size_t o = 0; o < sizeof value / sizeof value[0]; o++)
            CHECK_EQ_INT(stw_options_set(options, value[o][0], value[o][1], &error), STW_OK);
        CHECK_EQ_INT(stw_options_set(options, "output", path, &error), STW_OK);
        const watcher w = train(b, options, -1);
        CHECK_EQ_INT(w.count, 2);
        CHECK(w.outcome.valid);
    }
    test_context("%s", "");
    close_bench(b);
}
