/* Pre-training: the same bits however it is run, files that can be gone on from, and that it learns. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "pretrain/pretrain.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pretrain/pretrain_state.h"
#include "test.h"

/* A mistake of the test itself. */
static void need(stw_status status, const stw_error *error) {
    if (status == STW_OK) return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

enum { SLOTS = 3, VISITS = 2, UPDATES = 4 };

/* Small graphs, a small network, nothing for validation. */
static stw_pretrain_settings small_settings(void) {
    stw_pretrain_settings s;
    stw_error error = {0};
    need(stw_pretrain_preset("default", 0, &s, &error), &error);
    s.seed = 5;
    s.updates = UPDATES;
    s.slots = SLOTS;
    s.visits = VISITS;
    s.validations = 0;
    s.curriculum = 1e9;     /* stays easy */
    s.reinforce_from = 0.5; /* both ways to learn */
    s.config.width = 16;
    s.config.heads = 2;
    s.config.inner = 32;
    s.config.sage_layers = 1;
    s.config.attention_layers = 1;
    s.config.operator_width = 4;
    s.config.pair_width = 8;
    s.train.samples = 3;
    if (s.train.moves > 4) s.train.moves = 4;
    return s;
}

typedef struct bench {
    stw_corpus *corpus;
    stw_comm *comm;
    stw_pool *pool;
    stw_pretrain *pretrain;
    char folder[32], path[64];
} bench;

static void open_bench(bench *b, const stw_pretrain_settings *settings, int32_t threads) {
    const stw_corpus_wish wish = {.families = "layered,rnnlm"};
    stw_error error = {0};
    snprintf(b->folder, sizeof b->folder, "/tmp/stowage-pretrain-XXXXXX");
    if (mkdtemp(b->folder) == NULL) abort();
    snprintf(b->path, sizeof b->path, "%s/policy.stw", b->folder);
    need(stw_corpus_open(&wish, &b->corpus, &error), &error);
    need(stw_comm_open(&b->comm, &error), &error);
    need(stw_pool_create(threads, &b->pool, &error), &error);
    need(stw_pretrain_create(settings, b->corpus, b->comm, b->pool, &b->pretrain, &error), &error);
}

static void close_bench(bench *b) {
    stw_pretrain_destroy(b->pretrain);
    stw_pool_destroy(b->pool);
    stw_comm_close(b->comm);
    stw_corpus_close(b->corpus);
    (void)unlink(b->path);
    (void)rmdir(b->folder);
}

/* Up to `count` updates; returns how many were made. `last`: of these, or NULL. */
static int64_t train(bench *b, int64_t count, stw_pretrain_row *last) {
    stw_error error = {0};
    stw_pretrain_row row;
    bool over = false;
    int64_t made = 0;
    while (made < count && CHECK_EQ_INT(stw_pretrain_step(b->pretrain, &row, &over, &error), STW_OK) && !over) {
        if (last != NULL) *last = row;
        made++;
    }
    CHECK_STR(error.message, "");
    return made;
}

typedef struct content {
    char *bytes;
    size_t count;
} content;

static content content_of(const char *path) {
    content c = {0};
    FILE *file = fopen(path, "rb");
    if (!CHECK(file != NULL)) return c;
    CHECK(fseek(file, 0, SEEK_END) == 0);
    c.count = (size_t)ftell(file);
    c.bytes = malloc(c.count + 1);
    rewind(file);
    CHECK_EQ_INT(fread(c.bytes, 1, c.count, file), c.count);
    fclose(file);
    return c;
}

static void write_content(const char *path, content c) {
    FILE *file = fopen(path, "wb");
    if (!CHECK(file != NULL)) return;
    CHECK_EQ_INT(fwrite(c.bytes, 1, c.count, file), c.count);
    CHECK(fclose(file) == 0);
}

static bool same(content a, content b) { return a.count == b.count && a.count > 0 && memcmp(a.bytes, b.bytes, a.count) == 0; }

static content saved(bench *b, bool state) {
    stw_error error = {0};
    CHECK_EQ_INT(stw_pretrain_save(b->pretrain, state, b->path, &error), STW_OK);
    CHECK_STR(error.message, "");
    return content_of(b->path);
}

/* ---- the same bits ---- */

static content trained(const stw_pretrain_settings *settings, int32_t threads) {
    bench b = {0};
    open_bench(&b, settings, threads);
    CHECK_EQ_INT(train(&b, 100, NULL), settings->updates);
    CHECK_EQ_INT(stw_pretrain_updates(b.pretrain), settings->updates);
    const content out = saved(&b, true);
    close_bench(&b);
    return out;
}

TEST(pretrain, threads_change_no_bit_and_the_seed_all) {
    stw_pretrain_settings settings = small_settings();
    settings.visits = UPDATES;
    const content one = trained(&settings, 1);
    for (int32_t threads = 2; threads <= 3; threads++) {
        settings.ordered = threads == 2; /* of one process, either sum is in the order of problems */
        const content more = trained(&settings, threads);
        test_context("%d threads", threads);
        CHECK(same(one, more));
        free(more.bytes);
    }
    test_context("%s", "");
    settings.seed++;
    const content other = trained(&settings, 3);
    CHECK(!same(one, other));
    free(other.bytes);
    free(one.bytes);
}

/* Problems of the next generation are drawn ahead, and updates are prepared, by threads that one thread does not have. The
 * problems get harder, so that one drawn for another time would be seen; all ways to learn take part, and validation. */
TEST(pretrain, what_is_made_ahead_is_what_would_be_made_later) {
    stw_pretrain_settings settings = small_settings();
    settings.slots = 4;
    settings.updates = 5; /* the last generation is short */
    settings.curriculum = 0.8;
    settings.validations = 1;
    settings.validate_every = 4;
    const content one = trained(&settings, 1);
    for (int32_t threads = 2; threads <= 8; threads += 6) {
        const content more = trained(&settings, threads);
        test_context("%d threads", threads);
        CHECK(same(one, more));
        free(more.bytes);
    }
    test_context("%s", "");
    free(one.bytes);
}

/* While the next problems are being drawn. */
TEST(pretrain, may_end_at_any_update) {
    stw_pretrain_settings settings = small_settings();
    settings.updates = 100;
    settings.slots = 5;
    for (int64_t made = 0; made <= 3; made++) {
        bench b = {0};
        open_bench(&b, &settings, 3);
        CHECK_EQ_INT(train(&b, made, NULL), made);
        close_bench(&b);
    }
}

/* ---- GO and GDP as published ---- */

/* Their networks, small; learning from samples alone. */
static stw_pretrain_settings published(const char *preset, unsigned tasks) {
    stw_pretrain_settings s;
    const stw_pretrain_settings small = small_settings();
    stw_error error = {0};
    need(stw_pretrain_preset(preset, tasks, &s, &error), &error);
    s.seed = small.seed;
    s.updates = small.updates;
    s.slots = small.slots;
    s.visits = small.visits;
    s.validations = 0;
    s.curriculum = small.curriculum;
    s.config.width = s.config.score_width = 16;
    s.config.heads = 2;
    s.config.inner = 32;
    s.config.sage_layers = s.config.attention_layers = 1;
    s.config.operator_width = 4;
    s.train.samples = 3;
    return s;
}

static const struct {
    const char *preset;
    unsigned tasks, decides;
} published_ways[] = {
    {"paper", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
    {"paper", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE | STW_TASK_FUSION, STW_TASK_PLACEMENT | STW_TASK_SCHEDULE | STW_TASK_FUSION},
    {"paper", STW_TASK_PLACEMENT, STW_TASK_PLACEMENT},
    {"gdp", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE | STW_TASK_FUSION, STW_TASK_PLACEMENT}};
enum { PUBLISHED_WAYS = sizeof published_ways / sizeof published_ways[0] };

TEST(pretrain, published_threads_change_no_bit) {
    for (size_t k = 0; k < PUBLISHED_WAYS; k++) {
        stw_pretrain_settings settings = published(published_ways[k].preset, published_ways[k].tasks);
        CHECK_EQ_INT(settings.tasks, published_ways[k].decides);
        settings.validations = 1;
        settings.validate_every = 2;
        const content one = trained(&settings, 1);
        for (int32_t threads = 2; threads <= 3; threads++) {
            const content more = trained(&settings, threads);
            test_context("%s, tasks %u, %d threads", published_ways[k].preset, published_ways[k].tasks, threads);
            CHECK(same(one, more));
            free(more.bytes);
        }
        settings.train.rate = settings.train.rate_end = 0.0; /* what is learnt is in the file */
        const content nothing = trained(&settings, 1);
        CHECK(!same(one, nothing));
        free(nothing.bytes);
        free(one.bytes);
    }
    test_context("%s", "");
}

/* Neither moves nor constants are anything to such a policy. */
TEST(pretrain, published_is_tested_by_its_own_plans) {
    stw_pretrain_settings settings = published("paper", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE);
    bench b = {0};
    stw_pretrain_row row = {0};
    settings.validations = 2;
    settings.updates = 1;
    open_bench(&b, &settings, 2);
    CHECK_EQ_INT(train(&b, 1, &row), 1);
    CHECK(isfinite(row.validation_greedy) && isfinite(row.validation_best) && row.validation_best <= row.validation_greedy);
    CHECK(isnan(row.validation_constants) && isnan(row.validation_moves));
    CHECK(row.gradient_norm > 0.0);
    close_bench(&b);
}

/* ---- going on ---- */

/* From this file to the end, in a new one. */
static void check_goes_on(const stw_pretrain_settings *settings, content file, int64_t done, content whole) {
    bench b = {0};
    stw_error error = {0};
    open_bench(&b, settings, 1);
    write_content(b.path, file);
    CHECK_EQ_INT(stw_pretrain_resume(b.pretrain, b.path, &error), STW_OK);
    CHECK_STR(error.message, "");
    CHECK_EQ_INT(stw_pretrain_updates(b.pretrain), done);
    const content again = saved(&b, true);
    CHECK(same(file, again));
    CHECK_EQ_INT(train(&b, 100, NULL), UPDATES - done);
    const content end = saved(&b, true);
    CHECK(same(end, whole));
    free(end.bytes);
    free(again.bytes);
    close_bench(&b);
}

static void check_going_on(const stw_pretrain_settings *settings) {
    content file[UPDATES / VISITS];
    bench b = {0};
    open_bench(&b, settings, 2);
    for (int64_t k = 0; k < UPDATES; k++) {
        CHECK(stw_pretrain_may_save(b.pretrain) == (k % VISITS == 0));
        CHECK_EQ_INT(train(&b, 1, NULL), 1);
        if ((k + 1) % VISITS == 0) file[k / VISITS] = saved(&b, true);
    }
    CHECK(stw_pretrain_may_save(b.pretrain));
    for (int64_t k = 0; k < UPDATES / VISITS; k++) {
        test_context("after %d updates", (int)(k + 1) * VISITS);
        check_goes_on(settings, file[k], (k + 1) * VISITS, file[UPDATES / VISITS - 1]);
    }
    test_context("%s", "");
    for (int64_t k = 0; k < UPDATES / VISITS; k++) free(file[k].bytes);
    close_bench(&b);
}

TEST(pretrain, goes_on_bit_for_bit) {
    const stw_pretrain_settings settings = small_settings();
    check_going_on(&settings);
}

TEST(pretrain, published_goes_on_bit_for_bit) {
    for (size_t k = 1; k < PUBLISHED_WAYS; k += 2) {
        const stw_pretrain_settings settings = published(published_ways[k].preset, published_ways[k].tasks);
        check_going_on(&settings);
    }
}

/* Asks for the end once `count` numbers are counted: sometime in the midst of an update. */
typedef struct stopper {
    stw_cancel *cancel;
    atomic_bool begun;
    int64_t count;
} stopper;

static void *stop_later(void *context) {
    stopper *s = context;
    while (!atomic_load(&s->begun)) continue;
    for (volatile int64_t k = 0; k < s->count; k++) continue;
    stw_cancel_request(s->cancel);
    return NULL;
}

/* Trains until it is cancelled, which is asked for before the first update of the second generation or later. */
static void check_cancelled(content whole, content first, int64_t count) {
    stw_pretrain_settings settings = small_settings();
    stopper s = {.count = count};
    stw_error error = {0};
    bench b = {0};
    pthread_t thread;
    need(stw_cancel_create(&s.cancel, &error), &error);
    settings.cancel = s.cancel;
    open_bench(&b, &settings, 2);
    CHECK_EQ_INT(train(&b, VISITS + 1, NULL), VISITS + 1); /* in the midst of the second generation */
    if (pthread_create(&thread, NULL, stop_later, &s) != 0) abort();
    atomic_store(&s.begun, true);
    if (count == 0) pthread_join(thread, NULL);
    stw_pretrain_row row;
    bool over = false;
    stw_status status = STW_OK;
    while (status == STW_OK && !over) status = stw_pretrain_step(b.pretrain, &row, &over, &error);
    if (count > 0) pthread_join(thread, NULL);
    CHECK(status == STW_ERROR_CANCELLED || (count > 0 && status == STW_OK)); /* it may have been done before */
    const content file = saved(&b, true);
    CHECK_EQ_INT(stw_pretrain_updates(b.pretrain), status == STW_OK ? UPDATES : VISITS);
    CHECK(same(file, status == STW_OK ? whole : first));
    free(file.bytes);
    close_bench(&b);
    stw_cancel_destroy(s.cancel);
}

TEST(pretrain, cancelled_at_once_and_then_gone_on_with) {
    const stw_pretrain_settings settings = small_settings();
    static const int64_t counts[] = {0, 10000, 1000000, 10000000};
    bench b = {0};
    open_bench(&b, &settings, 2);
    CHECK_EQ_INT(train(&b, VISITS, NULL), VISITS);
    const content first = saved(&b, true);
    CHECK_EQ_INT(train(&b, UPDATES, NULL), UPDATES - VISITS);
    const content whole = saved(&b, true);
    close_bench(&b);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        test_context("after counting to %lld", (long long)counts[k]);
        check_cancelled(whole, first, counts[k]);
    }
    test_context("%s", "");
    check_goes_on(&settings, first, VISITS, whole); /* which the file after a cancel equals */
    free(first.bytes);
    free(whole.bytes);
}

static double largest_change(const bench *a, const bench *b) {
    const stw_parameters *x = stw_net_parameters(a->pretrain->net), *y = stw_net_parameters(b->pretrain->net);
    double largest = 0.0;
    CHECK_EQ_INT(x->total, y->total);
    for (int64_t k = 0; k < x->total; k++)
        largest = fmax(largest, fabs((double)((const float *)x->value)[k] - (double)((const float *)y->value)[k]));
    return largest;
}

/* Into one that was begun with `settings`; it must stay as it was. */
static void check_refused(const stw_pretrain_settings *settings, content file, const char *says) {
    bench b = {0}, fresh = {0};
    stw_error error = {0};
    open_bench(&b, settings, 1);
    open_bench(&fresh, settings, 1);
    write_content(b.path, file);
    test_context("%s", says);
    CHECK_EQ_INT(stw_pretrain_resume(b.pretrain, b.path, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, says);
    CHECK_CONTAINS(error.message, b.path);
    CHECK_EQ_INT(stw_pretrain_updates(b.pretrain), 0);
    CHECK(largest_change(&b, &fresh) == 0.0);
    close_bench(&fresh);
    close_bench(&b);
    test_context("%s", "");
}

TEST(pretrain, refuses_what_it_cannot_go_on_from) {
    const stw_pretrain_settings settings = small_settings();
    stw_pretrain_settings other;
    bench b = {0};
    stw_error error = {0};
    open_bench(&b, &settings, 2);
    CHECK_EQ_INT(train(&b, VISITS, NULL), VISITS);
    const content file = saved(&b, true);
    content bare = saved(&b, false);
    CHECK(bare.count < file.count / 2);

    other = settings;
    other.updates = 0;
    other.budget_s = 1.0;
    check_refused(&other, file,
                  "cannot be resumed: the number of updates was 4, is 0; resume with the same options, or start again");
    other = settings;
    other.config.width = 8;
    check_refused(&other, file, "width");
    check_refused(&settings, bare, "no state");

    b.pretrain->evaluations = -1; /* such a file is whole, checksum and all, and says what cannot be */
    content absurd = saved(&b, true);
    check_refused(&settings, absurd, "says that -1 evaluations were made; the file is damaged, start again");
    free(absurd.bytes);

    content part = {file.bytes, file.count / 2};
    check_refused(&settings, part, "");
    part.count = file.count - 1;
    check_refused(&settings, part, "");
    part.count = 0;
    check_refused(&settings, part, "");
    file.bytes[file.count / 2] ^= 1;
    check_refused(&settings, file, "checksum");
    CHECK_EQ_INT(stw_pretrain_resume(b.pretrain, "/nowhere/policy.stw", &error), STW_ERROR_INPUT);
    free(bare.bytes);
    free(file.bytes);
    close_bench(&b);
}

/* A file of these settings, for a pre-training in which one of them was changed. */
static void check_setting(bench *b, const char *words) {
    stw_error error = {0};
    char says[80];
    snprintf(says, sizeof says, "cannot be resumed: the %s was ", words);
    test_context("%s", words);
    CHECK_EQ_INT(stw_pretrain_resume(b->pretrain, b->path, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, says);
    CHECK_CONTAINS(error.message, ", is ");
    CHECK_EQ_INT(stw_pretrain_updates(b->pretrain), VISITS);
    test_context("%s", "");
}

/* Each by itself, its own and those of the trainers; but not the trainers' seed and updates, which the problems have. */
TEST(pretrain, goes_on_with_the_same_settings_alone) {
    const stw_pretrain_settings settings = small_settings();
    bench b = {0};
    stw_error error = {0};
    open_bench(&b, &settings, 1); /* with more, the next problems would be drawn by these settings meanwhile */
    stw_pretrain_settings *s = &b.pretrain->settings;
    CHECK_EQ_INT(train(&b, VISITS, NULL), VISITS);
    CHECK_EQ_INT(stw_pretrain_save(b.pretrain, true, b.path, &error), STW_OK);
#define STW_WHOLE(type, member, words)                \
    s->member = (type)(settings.member == 0 ? 1 : 0); \
    check_setting(&b, words);                         \
    *s = settings;
#define STW_REAL(member, words) \
    s->member += 0.25;          \
    check_setting(&b, words);   \
    *s = settings;
#include "pretrain/settings.def"
#define STW_WHOLE(type, member, words)                                                             \
    s->train.member = (type)(settings.train.member == 0 ? 1 : 0);                                  \
    if (strcmp(#member, "seed") != 0 && strcmp(#member, "updates") != 0) check_setting(&b, words); \
    *s = settings;
#define STW_REAL(member, words) \
    s->train.member += 0.25;    \
    check_setting(&b, words);   \
    *s = settings;
#define STW_REALS(declaration, member, words)        \
    ((double *)(void *)&s->train.member)[0] += 0.25; \
    check_setting(&b, words);                        \
    *s = settings;
#include "train/settings.def"
    CHECK_EQ_INT(stw_pretrain_resume(b.pretrain, b.path, &error), STW_OK);
    close_bench(&b);
}

TEST(pretrain, by_time_it_ends_and_cannot_go_on) {
    stw_pretrain_settings settings = small_settings();
    bench b = {0};
    stw_pretrain_row row = {0};
    settings.updates = 0;
    settings.budget_s = 0.3;
    open_bench(&b, &settings, 2);
    const int64_t made = train(&b, 100000, &row);
    CHECK(made > 0 && made % VISITS == 0 && row.seconds > 0.0);
    CHECK_EQ_INT(train(&b, 1, NULL), 0); /* it stays over */
    const content file = saved(&b, true);
    check_refused(&settings, file, "a run with --budget cannot be resumed; use --updates");
    free(file.bytes);
    close_bench(&b);
}

/* ---- problems ---- */

/* The same generator gives the same problem, another one another: never one that it is tested on. */
TEST(pretrain, what_it_is_tested_on_is_not_learnt_from) {
    enum { CHECKS = 1, GENERATIONS = 3 };
    stw_pretrain_settings settings = small_settings();
    bench b = {0};
    char seen[CHECKS][160], learnt[GENERATIONS][160];
    stw_pretrain_row row;
    stw_error error = {0};
    bool over = false;
    int32_t count = 0, validated = 0;
    settings.visits = settings.slots = 1;
    settings.curriculum = 0.0; /* as hard as what it is tested on */
    settings.updates = GENERATIONS;
    settings.validations = CHECKS;
    settings.validate_every = 2;
    open_bench(&b, &settings, 2);
    CHECK_EQ_INT(stw_pretrain_judge(b.pretrain, &row, &error), STW_OK);
    CHECK(isnan(row.validation_greedy)); /* no problems yet */
    for (int32_t k = 0; k < GENERATIONS; k++) {
        CHECK_EQ_INT(stw_pretrain_step(b.pretrain, &row, &over, &error), STW_OK);
        if (!CHECK(b.pretrain->check != NULL)) break;
        const bool due = k % 2 == 0;
        CHECK(isfinite(row.validation_greedy) == due && isfinite(row.validation_best) == due);
        if (due)
            CHECK(row.validation_best <= 1.0 && row.validation_best <= row.validation_greedy && row.validation_constants <= 1.0);
        validated += due;
        for (int32_t c = 0; c < CHECKS; c++) {
            const char *label = stw_instance_label(b.pretrain->check[c].instance);
            if (k > 0) CHECK_STR(seen[c], label); /* they stay */
            snprintf(seen[c], sizeof seen[c], "%s", label);
        }
        snprintf(learnt[count++], sizeof learnt[0], "%s", stw_instance_label(b.pretrain->slot[0].instance));
    }
    CHECK_EQ_INT(validated, 2);
    for (int32_t k = 0; k < count; k++) {
        for (int32_t c = 0; c < CHECKS; c++) CHECK(strcmp(learnt[k], seen[c]) != 0);
        for (int32_t other = 0; other < k; other++) CHECK(strcmp(learnt[k], learnt[other]) != 0);
    }
    settings.validations = 0;
    const content with = saved(&b, true), without = trained(&settings, 1);
    CHECK(same(with, without)); /* nor does testing change what is learnt */
    free(without.bytes);
    free(with.bytes);
    close_bench(&b);
}

TEST(pretrain, one_problem_for_many_threads_will_do) {
    stw_pretrain_settings settings = small_settings();
    bench b = {0};
    settings.slots = 1;
    open_bench(&b, &settings, 3);
    stw_pretrain_row row = {0};
    CHECK_EQ_INT(train(&b, 1, &row), 1);
    CHECK(row.greedy > 0.0 && row.best > 0.0 && row.best <= 1.0 && row.best <= row.greedy && row.evaluations > 0);
    close_bench(&b);
}

/* ---- learning ---- */

TEST(pretrain, without_a_rate_nothing_changes) {
    stw_pretrain_settings settings = small_settings();
    bench trained_one = {0}, fresh = {0}, learning = {0};
    settings.visits = UPDATES;
    settings.train.rate = settings.train.rate_end = 0.0;
    open_bench(&trained_one, &settings, 2);
    open_bench(&fresh, &settings, 2);
    CHECK_EQ_INT(train(&trained_one, 100, NULL), UPDATES);
    CHECK(largest_change(&trained_one, &fresh) == 0.0);
    settings = small_settings();
    settings.visits = UPDATES;
    open_bench(&learning, &settings, 2);
    CHECK_EQ_INT(train(&learning, 100, NULL), UPDATES);
    CHECK(largest_change(&learning, &fresh) > 1e-5);
    close_bench(&learning);
    close_bench(&fresh);
    close_bench(&trained_one);
}

/* The policy's plan for the first problem, over the best of the other methods. */
static double greedy_of(bench *b) {
    stw_slot *slot = &b->pretrain->slot[0];
    stw_error error = {0};
    CHECK_EQ_INT(stw_instance_begin(slot->instance, 0, b->pretrain->progress, &error), STW_OK);
    CHECK_EQ_INT(stw_slot_sample(slot, false, &error), STW_OK);
    return slot->number[STW_SLOT_GREEDY];
}

/* One problem that stays: what is good for it can be learnt by heart. The settings are the test's own, for them to be tuned
 * elsewhere. */
static double learn_one(double rate) {
    enum { LONG = 70 };
    stw_pretrain_settings settings = small_settings();
    bench b = {0};
    settings.seed = 4; /* a graph in layers on two devices behind PCIe: much is gained by sending less */
    settings.slots = 1;
    settings.updates = settings.visits = LONG;
    settings.reinforce_from = 0.0;
    settings.train = (stw_train_settings){.samples = 12,
                                          .epochs = 2,
                                          .clip = 0.2,
                                          .rate = rate,
                                          .rate_end = rate,
                                          .sigma = 0.7,
                                          .sigma_end = 0.35,
                                          .floor = 0.002,
                                          .limit = 2.5,
                                          .gradient_norm = 1.0,
                                          .pull = 1e-4,
                                          .noise = {.graph = 0.3, .group = 0.5, .unit = 0.2, .sparse = 0.25},
                                          .reward = STW_REWARD_LOG,
                                          .loss_weight = 0.5,
                                          .offset = {0.5, 0.0, 3.0, 0.0},
                                          .glue = true};
    open_bench(&b, &settings, 1);
    CHECK_EQ_INT(train(&b, rate > 0.0 ? LONG : 2, NULL), rate > 0.0 ? LONG : 2);
    const double out = greedy_of(&b);
    close_bench(&b);
    return out;
}

TEST(pretrain, learns_what_is_good_for_a_problem_and_not_without_a_rate) {
    const double idle = learn_one(0.0);
    CHECK_NEAR(idle, 0.0, 0.2);
    const double learnt = learn_one(4e-3);
    CHECK(learnt < idle - 0.1); /* a tenth of the step time */
}
