/* method: features of moves against plain loops over the whole problem; the scorer against itself in double, and its file. */
#include <stdio.h>
#include <unistd.h>

#include "method/anneal/scorer.h"
#include "method/plain_features.h"
#include "policy/checkpoint.h"
#include "sim/critical.h"
#include "sim/op_times.h"
#include "support/random.h"
#include "test.h"

static const char *const names[STW_MOVE_FEATURES] = {
#define COLUMN(name, scale, what) #name,
#include "method/anneal/move_columns.def"
#undef COLUMN
};

/* ---- features ---- */

typedef struct {
    small *s;
    stw_arena arena;
    stw_sight sight;
    stw_seen seen;
    int32_t *was; /* (N) */
} scene;

static const int64_t *starts_to_sort_by;
static const int32_t *positions;
static int by_start(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    if (starts_to_sort_by[a] != starts_to_sort_by[b]) return starts_to_sort_by[a] < starts_to_sort_by[b] ? -1 : 1;
    return positions[a] - positions[b];
}

/* A run of the plan, and what a chain keeps of it. */
static bool look(scene *x) {
    const stw_simulator *sim = x->s->simulator;
    const int32_t T = sim->unfused.T;
    stw_error error = {0};
    small_run(x->s);
    int64_t peak = 0;
    for (int32_t d = 0; d < sim->machine->device_count; d++) {
        const int64_t one = x->s->workspace->timeline.peak_bytes[d];
        peak = one > peak ? one : peak;
    }
    small_set_memory(x->s, 2 * peak + 1); /* so that filling it up counts */
    if (x->s->result.reason != STW_VALID || !(x->s->result.step_s > 0.0)) return false;
    int64_t *start = STW_NEW(&x->arena, int64_t, T), *end = STW_NEW(&x->arena, int64_t, T);
    int32_t *task = STW_NEW(&x->arena, int32_t, T), *order = STW_NEW(&x->arena, int32_t, T);
    int32_t *critical = STW_NEW(&x->arena, int32_t, T), *position = STW_NEW(&x->arena, int32_t, T);
    stw_arena scratch = x->arena;
    CHECK_EQ_INT(stw_op_times(x->s->workspace, start, end, task, scratch, &error), STW_OK);
    x->seen = (stw_seen){.plan = x->s->plan,
                         .start_ps = start,
                         .end_ps = end,
                         .order = order,
                         .critical = critical,
                         .step_ps = (int64_t)(x->s->result.step_s * 1e12 + 0.5),
                         .peak_bytes = x->s->workspace->timeline.peak_bytes};
    CHECK_EQ_INT(stw_critical_path(x->s->workspace, critical, T, &x->seen.critical_count, scratch, &error), STW_OK);
    for (int32_t i = 0; i < T; i++) {
        order[i] = i;
        position[sim->unfused.task_of[sim->graph->topological[i]]] = i;
    }
    starts_to_sort_by = start;
    positions = position;
    qsort(order, (size_t)T, sizeof *order, by_start);
    stw_sight_take(sim, &x->seen, &x->sight);
    x->was = STW_NEW(&x->arena, int32_t, sim->graph->N);
    memcpy(x->was, x->s->plan->device, (size_t)sim->graph->N * sizeof *x->was);
    return true;
}

/* Some atoms go elsewhere; some of them twice, some of these back. */
static int32_t draw_move(stw_rng *rng, scene *x, int32_t *node, int32_t *old) {
    const stw_simulator *sim = x->s->simulator;
    const int32_t N = sim->graph->N, D = sim->machine->device_count;
    const double share = 0.02 + 0.5 * stw_rng_uniform(rng);
    int32_t count = 0;
    for (int32_t turn = 0; turn < 2; turn++) {
        for (int32_t i = 0; i < N; i++) {
            const int32_t to = (int32_t)stw_rng_below(rng, D);
            if (sim->together[i] != i || stw_rng_uniform(rng) > share / (1 + 3 * turn)) continue;
            for (int32_t m = 0; m < N; m++) {
                if (sim->together[m] != i || x->s->plan->device[m] == to) continue;
                node[count] = m;
                old[count++] = x->s->plan->device[m];
                x->s->plan->device[m] = to;
            }
        }
    }
    return count;
}

static void check_features(scene *x, const stw_proposed *move, bool *varied) {
    float fast[STW_MOVE_FEATURES];
    double slow[STW_MOVE_FEATURES];
    stw_move_features(x->s->simulator, &x->sight, move, fast);
    plain_features(x->s->simulator, &x->seen, x->was, move, slow);
    for (int c = 0; c < STW_MOVE_FEATURES; c++) {
        test_context("%s", names[c]);
        CHECK_NEAR((double)fast[c], slow[c], 2e-3 * (1.0 + fabs(slow[c])));
        varied[c] |= fabs(slow[c]) > 1e-6;
    }
    test_context("%s", "");
}

TEST(move_features, equal_plain_loops) {
    const stw_rng seeds = stw_rng_create(811);
    bool varied[STW_MOVE_FEATURES] = {0};
    for (int number = 0; number < test_cases(120); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        scene x = {.s = random_open(&rng, (random_shape){.nodes = 40,
                                                         .device_count = 2 + number % 4,
                                                         .unlike = number % 2 == 0,
                                                         .buses = number % 3 == 0,
                                                         .charges = number % 5 == 0})};
        stw_error error = {0};
        random_placement(&rng, x.s->simulator, x.s->plan);
        CHECK_EQ_INT(stw_arena_create(&x.arena, &error), STW_OK);
        CHECK_EQ_INT(stw_sight_create(x.s->simulator, &x.arena, &x.sight, &error), STW_OK);
        int32_t *node = STW_NEW(&x.arena, int32_t, 2 * x.s->graph->N), *old = STW_NEW(&x.arena, int32_t, 2 * x.s->graph->N);
        for (int k = 0; k < 4 && look(&x); k++) {
            /* Neighbours by id are said to be groups, whatever ran. */
            for (int32_t i = 0; i < x.s->graph->N; i++) x.s->plan->group[i] = number % 4 == 3 ? i / 3 : i;
            const int32_t count = draw_move(&rng, &x, node, old);
            check_features(&x,
                           &(stw_proposed){.plan = x.s->plan,
                                           .shape = (stw_move_shape)(k % 3),
                                           .count = count,
                                           .node = node,
                                           .old_device = old,
                                           .progress = 0.25 * k,
                                           .heat = 0.001 * k},
                           varied);
            for (int32_t i = 0; i < x.s->graph->N; i++) x.s->plan->group[i] = i;
        }
        stw_arena_destroy(&x.arena);
        small_close(x.s);
    }
    for (int c = 0; c < STW_MOVE_FEATURES; c++) {
        test_context("%s", names[c]);
        CHECK(varied[c]); /* else nothing was compared */
    }
    test_context("%s", "");
}

/* Alone, in an arena of their own, features allocate nothing; a move that changes nothing has the state and no more. */
TEST(move_features, of_no_move_are_those_of_the_state) {
    stw_rng rng = stw_rng_create(812);
    scene x = {.s = random_open(&rng, (random_shape){.nodes = 30, .device_count = 2})};
    stw_error error = {0};
    float feature[STW_MOVE_FEATURES];
    CHECK_EQ_INT(stw_arena_create(&x.arena, &error), STW_OK);
    CHECK_EQ_INT(stw_sight_create(x.s->simulator, &x.arena, &x.sight, &error), STW_OK);
    CHECK(look(&x));
    stw_move_features(x.s->simulator, &x.sight, &(stw_proposed){.plan = x.s->plan}, feature);
    CHECK(feature[STW_MOVE_HAS_size] > 1.0f);
    for (int c = STW_MOVE_HAS_tasks; c <= STW_MOVE_HAS_torn; c++) CHECK_NEAR((double)feature[c], 0.0, 0.0);
    stw_arena_destroy(&x.arena);
    small_close(x.s);
}

/* ---- the scorer ---- */

static void randomise(stw_scorer *s, stw_rng *rng) {
    stw_scorer_begin(s, rng);
    for (int c = 0; c < STW_MOVE_FEATURES; c++) {
        s->mean[c] = (float)stw_rng_normal(rng);
        s->scale[c] = (float)exp(stw_rng_normal(rng));
    }
    for (int k = 0; k < STW_SCORER_WEIGHTS; k++) s->weight[k] = (float)(0.3 * stw_rng_normal(rng));
}

static double plain_score(const stw_scorer *s, const float *feature) {
    double score = (double)s->weight[STW_SCORER_OUT_BIAS];
    for (int k = 0; k < STW_SCORER_HIDDEN; k++) {
        double h = (double)s->weight[STW_SCORER_BIAS + k];
        for (int c = 0; c < STW_MOVE_FEATURES; c++)
            h += fmax(-5.0, fmin(5.0, (double)((feature[c] - s->mean[c]) * s->scale[c]))) *
                 (double)s->weight[c * STW_SCORER_HIDDEN + k];
        score += (h > 0.0 ? h : 0.01 * h) * (double)s->weight[STW_SCORER_OUT + k];
    }
    return score;
}

TEST(scorer, equals_itself_in_double) {
    stw_rng rng = stw_rng_create(813);
    for (int number = 0; number < 200; number++) {
        stw_scorer s;
        float feature[STW_MOVE_FEATURES];
        randomise(&s, &rng);
        for (int c = 0; c < STW_MOVE_FEATURES; c++) feature[c] = (float)(3.0 * stw_rng_normal(&rng));
        CHECK_NEAR((double)stw_scorer_score(&s, feature, NULL), plain_score(&s, feature), 1e-3);
    }
}

TEST(scorer, bends_alike_everywhere) {
    CHECK_NEAR((double)stw_bend(0.0f), 0.0, 0.0);
    CHECK_NEAR((double)stw_bend(1.0f), 1.0, 0.0);
    CHECK_NEAR((double)stw_bend(-7.0f), -3.0, 0.0);
    CHECK_NEAR((double)stw_bend(4.0f), 2.25, 0.0); /* a quarter of the way from 4 to 8 */
}

static void temporary(char path[64]) { snprintf(path, 64, "/tmp/stowage-scorer-%ld.stw", (long)getpid()); }

TEST(scorer, its_file_comes_back_bit_for_bit) {
    stw_rng rng = stw_rng_create(814);
    stw_scorer s, back;
    stw_error error = {0};
    char path[64];
    temporary(path);
    randomise(&s, &rng);
    CHECK_EQ_INT(stw_scorer_write(&s, path, &error), STW_OK);
    CHECK_EQ_INT(stw_scorer_read(path, &back, &error), STW_OK);
    CHECK(memcmp(&s, &back, sizeof s) == 0);
    unlink(path);
}

/* Writes a scorer's file with one dimension or one weight changed, and reads it. */
static void check_refused(const char *dimension, int64_t value, float weight, const char *because) {
    stw_rng rng = stw_rng_create(815);
    stw_scorer s;
    stw_arena arena;
    stw_tensor_file file;
    stw_error error = {0};
    char path[64];
    temporary(path);
    randomise(&s, &rng);
    s.weight[7] = weight;
    CHECK_EQ_INT(stw_scorer_write(&s, path, &error), STW_OK);
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    CHECK_EQ_INT(stw_tensor_file_read(path, &arena, &file, &error), STW_OK);
    for (int32_t k = 0; k < file.dimension_count; k++)
        if (strcmp(file.dimension[k].name, dimension) == 0) file.dimension[k].value = value;
    if (value < 0) file.dimension_count = 0;
    CHECK_EQ_INT(stw_tensor_file_write(&file, path, &error), STW_OK);
    CHECK_EQ_INT(stw_scorer_read(path, &s, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, path);
    CHECK_CONTAINS(error.message, because);
    stw_arena_destroy(&arena);
    unlink(path);
}

TEST(scorer, refuses_what_was_made_for_others) {
    check_refused("move_features_version", STW_MOVE_FEATURES_VERSION + 1, 0.0f,
                  "move_features_version is 2 there and 1 here; train it again");
    check_refused("scorer_hidden", 16, 0.0f, "scorer_hidden is 16 there and 32 here");
    check_refused("", -1, 0.0f, "does not state move_features_version: it has no scorer of moves");
    check_refused("", 0, NAN, "weight has what is no number");
}

TEST(scorer, one_comes_with_the_library) {
    stw_scorer s;
    CHECK(stw_scorer_shipped(&s));
    CHECK(s.scale[STW_MOVE_HAS_sent_change] > 0.0f); /* it has been trained */
}
