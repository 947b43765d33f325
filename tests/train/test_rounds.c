/* train/round and train/proposal: what a round is relative to, and what it proposes. */
#define _POSIX_C_SOURCE 200809L /* open_memstream, mkdtemp */
#include <unistd.h>

#include "train/bench.h"
#include "train/moves.h"

static bench *random_bench(uint64_t seed, int32_t devices) {
    stw_rng rng = stw_rng_create(seed);
    return bench_open(random_open(&rng, (random_shape){.nodes = 120, .device_count = devices}), 0, BENCH_THREADS);
}

/* ---- proposals ---- */

static void propose(bench *b, const stw_plan *plan, uint64_t seed, int32_t *device) {
    stw_error error = {0};
    int32_t grouping = -1;
    CHECK_EQ_INT(stw_propose(&b->problem, plan, stw_rng_create(seed), device, &grouping, b->scratch[0], &error), STW_OK);
    CHECK_STR(error.message, "");
}

TEST(proposal, moves_whole_groups_to_devices_that_may_be_used) {
    bench *b = random_bench(3, 4);
    const int32_t N = b->s->graph->N;
    int32_t *device = STW_NEW(&b->arena, int32_t, N), *again = STW_NEW(&b->arena, int32_t, N);
    stw_rng rng = stw_rng_create(4);
    int32_t moved = 0, still = 0, alike[STW_GROUPINGS] = {0};
    random_placement(&rng, b->s->simulator, b->s->plan);
    b->list.linked = 7; /* not the last device */
    for (uint64_t seed = 1; seed <= 100; seed++) {
        propose(b, b->s->plan, seed, device);
        propose(b, b->s->plan, seed, again);
        CHECK(memcmp(device, again, (size_t)N * sizeof *device) == 0);
        for (int32_t i = 0; i < N; i++) {
            CHECK(device[i] == b->s->plan->device[i] || (device[i] >= 0 && device[i] < 3));
            moved += device[i] != b->s->plan->device[i];
            still += device[i] == b->s->plan->device[i];
        }
        for (int32_t g = 0; g < STW_GROUPINGS;
             g++) { /* of the grouping that was drawn, what moves in a group goes to one device */
            bool one = true;
            int32_t *to = calloc((size_t)b->problem.group_count[g], sizeof *to);
            for (int32_t i = 0; i < N; i++) {
                const int32_t unit = b->problem.units.of[i];
                if (unit < 0 || device[i] == b->s->plan->device[i]) continue;
                int32_t *of_group = &to[b->problem.grouping[g][unit]];
                one = one && (*of_group == 0 || *of_group == device[i] + 1);
                *of_group = device[i] + 1;
            }
            alike[g] += one;
            free(to);
        }
    }
    CHECK(moved > 1000 && still > 1000);
    for (int32_t g = 1; g < STW_GROUPINGS; g++) CHECK(alike[g] > 10 && alike[g] < 100); /* each is drawn at times */
    CHECK_EQ_INT(alike[0], 100);                                                        /* each unit by itself: always so */
    bench_close(b);
}

TEST(proposal, neighbours_are_found_across_borders_only) {
    bench *b = random_bench(5, 3);
    int32_t *device = STW_NEW(&b->arena, int32_t, b->s->graph->N);
    int32_t quiet = 0;
    memset(b->s->plan->device, 0,
           (size_t)b->s->graph->N * sizeof *device); /* no borders: half of the draws have nothing to say */
    for (uint64_t seed = 1; seed <= 100; seed++) {
        bool same = true;
        propose(b, b->s->plan, seed, device);
        for (int32_t i = 0; i < b->s->graph->N; i++) same = same && device[i] == 0;
        quiet += same;
    }
    CHECK(quiet > 30 && quiet < 70);
    bench_close(b);
}

/* ---- rounds ---- */

static stw_trainer *open_trainer(bench *b, const stw_plan *start, int64_t updates, double wander, double rate) {
    stw_policy_config config = config_of("default");
    stw_train_settings settings = settings_of("default", 9, updates);
    config.identities = b->problem.M;
    settings.patience = 2;
    settings.wander = wander;
    settings.rate_end *= rate / settings.rate;
    settings.rate = rate;
    return trainer_of(b, &config, &settings, start);
}

static void step(stw_trainer *t, int32_t times) {
    stw_error error = {0};
    for (int32_t k = 0; k < times; k++) {
        bool over = false;
        CHECK_EQ_INT(stw_trainer_step(t, &over, &error), STW_OK);
        CHECK(!over);
    }
    CHECK_STR(error.message, "");
}

static bool same_devices(const stw_plan *a, const stw_plan *b) {
    return memcmp(a->device, b->device, (size_t)a->graph->N * sizeof *a->device) == 0;
}

/* Rounds that begin beside the best plan, of those that follow one that found nothing. */
static int32_t count_rounds_beside(double wander) {
    enum { UPDATES = 60 };
    bench *b = random_bench(6, 3);
    stw_rng rng = stw_rng_create(7);
    int32_t beside = 0, rounds = -1;
    random_placement(&rng, b->s->simulator, b->s->plan);
    stw_plan *start = plan_with(b, NULL);
    stw_trainer *t = open_trainer(b, start, UPDATES, wander, 0.0);
    for (int32_t k = 0; k < UPDATES; k++) {
        stw_plan *best = plan_with(b, NULL);
        stw_error error = {0};
        need(stw_plan_assign(best, t->best, &error), &error);
        const double before = t->best_score.value, least = t->least;
        step(t, 1);
        if (t->round_index > rounds) {
            rounds = t->round_index;
            const bool wandered = !same_devices(t->origin, best);
            if (wandered) {
                CHECK(rounds > 0 && before >= least);
                CHECK(t->reference >= before && t->reference < before * (1.0 + wander));
            } else {
                CHECK(t->reference == before);
            }
            beside += wandered;
        }
        CHECK(t->best_score.value <= before); /* whatever happens, the best plan stays */
        stw_plan_destroy(best);
    }
    CHECK(rounds > 5);
    stw_trainer_destroy(t);
    stw_plan_destroy(start);
    bench_close(b);
    return beside;
}

TEST(round, one_that_found_nothing_is_followed_by_one_beside_it) {
    CHECK_EQ_INT(count_rounds_beside(0.0), 0);
    CHECK(count_rounds_beside(0.5) > 2);
}

/* The state between any two updates, rounds that wandered included, is all in the file. */
TEST(round, training_goes_on_from_any_update) {
    enum { UPDATES = 24 };
    char folder[] = "/tmp/stowage-rounds-XXXXXX", path[64];
    stw_error error = {0};
    bench *b = random_bench(8, 3);
    stw_rng rng = stw_rng_create(9);
    int32_t beside = 0;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/policy", folder);
    random_placement(&rng, b->s->simulator, b->s->plan);
    stw_plan *start = plan_with(b, NULL);
    stw_trainer *whole = open_trainer(b, start, UPDATES, 0.5, 4e-3);
    step(whole, UPDATES);
    for (int32_t stop = 1; stop < UPDATES; stop += 2) {
        test_context("stopped after %d", stop);
        stw_trainer *first = open_trainer(b, start, UPDATES, 0.5, 4e-3), *second = open_trainer(b, start, UPDATES, 0.5, 4e-3);
        step(first, stop);
        CHECK_EQ_INT(stw_trainer_save(first, path, &error), STW_OK);
        CHECK_EQ_INT(stw_trainer_resume(second, path, &error), STW_OK);
        CHECK_STR(error.message, "");
        beside += first->has_beside;
        step(second, UPDATES - stop);
        const stw_parameters *p = stw_net_parameters(whole->net), *q = stw_net_parameters(second->net);
        CHECK(memcmp(p->value, q->value, (size_t)p->total * sizeof(float)) == 0);
        CHECK(second->best_score.value == whole->best_score.value && second->round_index == whole->round_index);
        CHECK(same_devices(whole->best, second->best) && same_devices(whole->origin, second->origin));
        stw_trainer_destroy(first);
        stw_trainer_destroy(second);
    }
    CHECK(beside > 0);
    test_context("%s", "");
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    stw_trainer_destroy(whole);
    stw_plan_destroy(start);
    bench_close(b);
}

/* ---- what a training that goes on must have in common with itself ---- */

static void check_refused(stw_trainer *t, const char *path, const char *words) {
    stw_error error = {0};
    char says[80];
    snprintf(says, sizeof says, "cannot be resumed: the %s was ", words);
    test_context("%s", words);
    CHECK_EQ_INT(stw_trainer_resume(t, path, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, says);
    CHECK_CONTAINS(error.message, ", is ");
    CHECK_CONTAINS(error.message, path);
    CHECK_EQ_INT(t->update, 0);
    test_context("%s", "");
}

/* Each setting of the table changed by itself, and each number of those that have several. */
static void check_settings(stw_trainer *t, const char *path) {
    stw_train_settings *s = &t->settings;
    const stw_train_settings kept = *s;
#define STW_WHOLE(type, member, words)            \
    s->member = (type)(kept.member == 0 ? 1 : 0); \
    check_refused(t, path, words);                \
    *s = kept;
#define STW_REAL(member, words)    \
    s->member += 0.25;             \
    check_refused(t, path, words); \
    *s = kept;
#define STW_REALS(declaration, member, words)                        \
    for (size_t k = 0; k < sizeof s->member / sizeof(double); k++) { \
        ((double *)(void *)&s->member)[k] += 0.25;                   \
        check_refused(t, path, words);                               \
        *s = kept;                                                   \
    }
#include "train/settings.def"
}

static void check_problem(bench *b, stw_trainer *t, const char *path) {
    const stw_problem kept = b->problem;
    b->problem.M++;
    check_refused(t, path, "number of units");
    b->problem.M = kept.M;
    b->problem.rule++;
    check_refused(t, path, "scheduling rule");
    b->problem.rule = kept.rule;
    b->problem.places = !kept.places;
    check_refused(t, path, "task placement");
    b->problem.places = kept.places;
    b->problem.schedules = !kept.schedules;
    check_refused(t, path, "task schedule");
    b->problem.schedules = kept.schedules;
    b->problem.fuses = !kept.fuses;
    check_refused(t, path, "task fusion");
    b->problem.fuses = kept.fuses;
    b->problem.objective = STW_OBJECTIVE_MEMORY;
    check_refused(t, path, "objective");
    b->problem = kept;
}

/* As a file of a version that kept less. */
static void forget_settings(const char *path) {
    stw_arena arena;
    stw_tensor_file file;
    stw_error error = {0};
    need(stw_arena_create(&arena, &error), &error);
    need(stw_tensor_file_read(path, &arena, &file, &error), &error);
    for (int32_t k = 0; k < file.count; k++) {
        if (strcmp(file.tensor[k].name, "setting/hedge") == 0) memcpy(file.tensor[k].name, "forgotten", sizeof "forgotten");
    }
    need(stw_tensor_file_write(&file, path, &error), &error);
    stw_arena_destroy(&arena);
}

TEST(round, training_goes_on_with_the_same_settings_alone) {
    char folder[] = "/tmp/stowage-rounds-XXXXXX", path[64];
    stw_error error = {0};
    bench *b = random_bench(8, 3);
    stw_rng rng = stw_rng_create(9);
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/policy", folder);
    random_placement(&rng, b->s->simulator, b->s->plan);
    stw_plan *start = plan_with(b, NULL);
    stw_trainer *first = open_trainer(b, start, 4, 0.5, 4e-3), *second = open_trainer(b, start, 4, 0.5, 4e-3);
    step(first, 2);
    CHECK_EQ_INT(stw_trainer_save(first, path, &error), STW_OK);
    check_settings(second, path);
    check_problem(b, second, path);
    CHECK_EQ_INT(stw_trainer_resume(second, path, &error), STW_OK); /* all is as it was */
    CHECK_EQ_INT(second->update, 2);
    forget_settings(path);
    CHECK_EQ_INT(stw_trainer_resume(second, path, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "it does not say its hedge, so another version of stowage wrote it; start again");
    CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    stw_trainer_destroy(first);
    stw_trainer_destroy(second);
    stw_plan_destroy(start);
    bench_close(b);
}
