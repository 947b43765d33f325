#define _POSIX_C_SOURCE 200809L /* open_memstream */
/* train/explore: the moments of the noise, and that nothing but the generator decides it; train/shuffle. */
#include "train/explore.h"

#include "feature/columns.h"
#include "train/bench.h"

enum { UNITS = 12, GROUPS = 4, DIMS = 2, DRAWS = 20000 };

/* Units without a graph: all that the noise goes by. Grouping g puts unit u into group[g][u]. */
static stw_problem make_units(int32_t group[STW_GROUPINGS][UNITS]) {
    stw_problem p = {.M = UNITS};
    for (int32_t g = 0; g < STW_GROUPINGS; g++) {
        p.grouping[g] = group[g];
        for (int32_t u = 0; u < UNITS; u++)
            p.group_count[g] = group[g][u] + 1 > p.group_count[g] ? group[g][u] + 1 : p.group_count[g];
    }
    return p;
}

typedef struct moments {
    double mean[UNITS * DIMS];
    double product[UNITS * DIMS][UNITS * DIMS]; /* mean of */
} moments;

static moments *measure(const stw_problem *p, stw_noise_shares shares, uint64_t seed) {
    moments *m = calloc(1, sizeof *m);
    const stw_rng seeds = stw_rng_create(seed);
    double noise[UNITS * DIMS];
    stw_arena arena;
    stw_error error = {0};
    need(stw_arena_create(&arena, &error), &error);
    for (int32_t n = 0; n < DRAWS; n++) {
        CHECK_EQ_INT(stw_explore(p, &shares, stw_rng_split(&seeds, (uint64_t)n), DIMS, NULL, noise, arena, &error), STW_OK);
        for (int32_t i = 0; i < UNITS * DIMS; i++) {
            m->mean[i] += noise[i] / DRAWS;
            for (int32_t j = 0; j < UNITS * DIMS; j++) m->product[i][j] += noise[i] * noise[j] / DRAWS;
        }
    }
    stw_arena_destroy(&arena);
    return m;
}

static const stw_noise_shares cases[] = {{.graph = 0.05, .group = 0.8, .unit = 0.15},
                                         {.graph = 0.4, .group = 0.4, .unit = 0.2},
                                         {.unit = 1.0},
                                         {.graph = 1.0},
                                         {.group = 1.0},
                                         {.group = 0.8, .unit = 0.2}};
enum { CASES = sizeof cases / sizeof cases[0] };

/* 20,000 draws: a mean of products is off by 0.01 once in three times, and by 0.05 never. */
static const double TOLERANCE = 0.05;

/* Pairs of units share the noise of the graph always, that of a group in the groupings that have them together (a grouping is
 * drawn, each as likely), and their own never. */
static void check_moments(int32_t group[STW_GROUPINGS][UNITS], uint64_t seed) {
    const stw_problem p = make_units(group);
    for (int c = 0; c < CASES; c++) {
        moments *m = measure(&p, cases[c], seed + (uint64_t)c);
        for (int32_t i = 0; i < UNITS * DIMS; i++) {
            for (int32_t j = 0; j < UNITS * DIMS; j++) {
                const int32_t u = i / DIMS, v = j / DIMS;
                double together = 0.0;
                for (int32_t g = 0; g < STW_GROUPINGS; g++) together += (group[g][u] == group[g][v]) / (double)STW_GROUPINGS;
                double expected = cases[c].graph + together * cases[c].group + (u == v ? cases[c].unit : 0.0);
                if (i % DIMS != j % DIMS) expected = 0.0; /* the numbers of a decision are independent */
                test_context("shares %d, units %d and %d", c, u, v);
                CHECK_NEAR(m->product[i][j], expected, TOLERANCE);
            }
            CHECK_NEAR(m->mean[i], 0.0, TOLERANCE);
        }
        free(m);
    }
    test_context("%s", "");
}

TEST(explore, variance_is_1_and_groups_share_what_the_shares_say) {
    int32_t group[STW_GROUPINGS][UNITS];
    for (int32_t g = 0; g < STW_GROUPINGS; g++)
        for (int32_t u = 0; u < UNITS; u++) group[g][u] = u % GROUPS;
    check_moments(group, 10);
}

TEST(explore, every_grouping_is_drawn_alike) {
    int32_t group[STW_GROUPINGS][UNITS];
    for (int32_t g = 0; g < STW_GROUPINGS; g++)
        for (int32_t u = 0; u < UNITS; u++) group[g][u] = u / (g + 1); /* alone, in twos, threes, fours, fives */
    check_moments(group, 20);
}

/* Whole groups are silent, never all of them, and those that are not have the variance that they have otherwise. */
TEST(explore, sparse_samples_explore_in_some_groups) {
    int32_t group[STW_GROUPINGS][UNITS];
    for (int32_t g = 0; g < STW_GROUPINGS; g++)
        for (int32_t u = 0; u < UNITS; u++) group[g][u] = u % GROUPS;
    const stw_problem p = make_units(group);
    const stw_noise_shares shares = {.graph = 0.05, .group = 0.8, .unit = 0.15, .sparse = 0.5};
    const stw_rng seeds = stw_rng_create(30);
    stw_arena arena;
    stw_error error = {0};
    need(stw_arena_create(&arena, &error), &error);
    double noise[UNITS * DIMS], square = 0.0;
    int32_t dense = 0, heard = 0, by_count[GROUPS + 1] = {0};
    for (int32_t n = 0; n < DRAWS; n++) {
        CHECK_EQ_INT(stw_explore(&p, &shares, stw_rng_split(&seeds, (uint64_t)n), DIMS, NULL, noise, arena, &error), STW_OK);
        int32_t groups = 0;
        for (int32_t u = 0; u < UNITS; u++) {
            const bool on = noise[u * DIMS] != 0.0;
            CHECK(on == (noise[u % GROUPS * DIMS] != 0.0) && on == (noise[u * DIMS + 1] != 0.0));
            groups += on && u < GROUPS;
            heard += on;
            square += noise[u * DIMS] * noise[u * DIMS];
        }
        by_count[groups]++;
        dense += groups == GROUPS;
    }
    CHECK_EQ_INT(by_count[0], 0);
    CHECK_NEAR(square / heard, 1.0, TOLERANCE);
    for (int32_t k = 1; k < GROUPS; k++) CHECK(by_count[k] > DRAWS / 50);
    CHECK(by_count[1] > by_count[2] && by_count[2] > by_count[3]); /* few are as likely as many, on a scale of ratios */
    CHECK(dense > DRAWS / 2 && dense < 7 * DRAWS / 10);
    stw_arena_destroy(&arena);
}

/* ---- on a real problem ---- */

TEST(explore, groups_of_a_problem_are_in_range_and_nested_in_the_order) {
    stw_rng rng = stw_rng_create(5);
    bench *b = bench_open(random_open(&rng, (random_shape){.nodes = 400, .device_count = 2}), 0, 1);
    const stw_problem *p = &b->problem;
    CHECK(p->M > 128);
    for (int32_t g = 0; g < STW_GROUPINGS; g++) {
        int32_t *size = STW_NEW(&b->arena, int32_t, p->group_count[g]), used = 0, largest = 0;
        test_context("grouping %d", g);
        for (int32_t u = 0; u < p->M; u++) {
            if (CHECK(p->grouping[g][u] >= 0 && p->grouping[g][u] < p->group_count[g])) size[p->grouping[g][u]]++;
        }
        for (int32_t k = 0; k < p->group_count[g]; k++) {
            used += size[k] > 0;
            largest = size[k] > largest ? size[k] : largest;
        }
        CHECK_EQ_INT(used, p->group_count[g]);             /* no group is empty */
        CHECK(g == 0 ? largest == 1 : largest > 1);        /* the first has each unit alone, the others do not */
        CHECK(g < 3 || used <= 32);                        /* coarse units and bands are regions of the graph */
        if (g == 4) CHECK(p->grouping[g][p->M - 1] == 23); /* bands follow the order */
        for (int32_t u = 1; g == 4 && u < p->M; u++) CHECK(p->grouping[g][u] >= p->grouping[g][u - 1]);
    }
    test_context("%s", "");
    bench_close(b);
}

typedef struct {
    const bench *b;
    stw_rng seeds;
    double *noise; /* (draws, M, dims) */
} draws;

static void draw(void *context, int64_t k, int32_t worker) {
    const draws *d = context;
    const stw_noise_shares shares = {.graph = 0.05, .group = 0.8, .unit = 0.15};
    stw_error error = {0};
    need(stw_explore(&d->b->problem, &shares, stw_rng_split(&d->seeds, (uint64_t)k), 3, NULL, &d->noise[k * d->b->problem.M * 3],
                     d->b->scratch[worker], &error),
         &error);
}

TEST(explore, the_generator_alone_decides) {
    enum { COUNT = 64 };
    stw_rng rng = stw_rng_create(6);
    bench *b = bench_open(random_open(&rng, (random_shape){.nodes = 150, .device_count = 2}), 0, BENCH_THREADS);
    const size_t each = (size_t)b->problem.M * 3;
    draws one = {b, stw_rng_create(1), calloc(COUNT * each, sizeof(double))};
    draws two = {b, stw_rng_create(1), calloc(COUNT * each, sizeof(double))};
    draws other = {b, stw_rng_create(2), calloc(COUNT * each, sizeof(double))};
    for (int64_t k = COUNT - 1; k >= 0; k--) draw(&one, k, 0); /* in another order, on one thread */
    stw_pool_run(b->pool, COUNT, draw, &two);
    stw_pool_run(b->pool, COUNT, draw, &other);
    CHECK(memcmp(one.noise, two.noise, COUNT * each * sizeof(double)) == 0);
    for (size_t k = 0; k < COUNT; k++) CHECK(memcmp(&one.noise[k * each], &other.noise[k * each], each * sizeof(double)) != 0);
    for (size_t k = 1; k < COUNT; k++) CHECK(memcmp(one.noise, &one.noise[k * each], each * sizeof(double)) != 0);
    free(one.noise);
    free(two.noise);
    free(other.noise);
    bench_close(b);
}

/* ---- by features ---- */

enum { LIKES = 60 }; /* units u and u + LIKES / 2 have equal features */

static stw_problem make_likes(double *unit, double *feedback, uint64_t seed) {
    stw_rng rng = stw_rng_create(seed);
    for (int32_t u = 0; u < LIKES; u++) {
        const bool twin = u >= LIKES / 2;
        for (int32_t c = 0; c < STW_UNIT_COLUMNS; c++)
            unit[u * STW_UNIT_COLUMNS + c] = twin ? unit[(u - LIKES / 2) * STW_UNIT_COLUMNS + c] : stw_rng_normal(&rng);
        for (int32_t c = 0; c < STW_FEEDBACK_COLUMNS; c++)
            feedback[u * STW_FEEDBACK_COLUMNS + c] =
                twin ? feedback[(u - LIKES / 2) * STW_FEEDBACK_COLUMNS + c] : stw_rng_normal(&rng);
        unit[u * STW_UNIT_COLUMNS] = 1.0; /* says nothing */
    }
    return (stw_problem){.M = LIKES, .features = {.M = LIKES, .unit = unit}};
}

typedef struct {
    double mean, square, twins; /* over units, dimensions and draws; of the difference between twins: its square */
    double least, largest;      /* variance over the units of a draw */
    double farthest;
} likes;

static likes measure_likes(stw_noise_shares shares, bool with_feedback) {
    enum { TIMES = 2000 };
    static const double scale = 1.0 / (TIMES * LIKES * DIMS);
    double *unit = calloc((size_t)LIKES * STW_UNIT_COLUMNS, sizeof *unit), noise[LIKES * DIMS];
    double *feedback = calloc((size_t)LIKES * STW_FEEDBACK_COLUMNS, sizeof *feedback);
    const stw_problem p = make_likes(unit, feedback, 3);
    const stw_rng seeds = stw_rng_create(4);
    likes out = {.least = INFINITY};
    stw_arena arena;
    stw_error error = {0};
    need(stw_arena_create(&arena, &error), &error);
    for (uint64_t n = 0; n < TIMES; n++) {
        CHECK_EQ_INT(
            stw_explore(&p, &shares, stw_rng_split(&seeds, n), DIMS, with_feedback ? feedback : NULL, noise, arena, &error),
            STW_OK);
        for (int32_t k = 0; k < DIMS; k++) {
            double mean = 0.0, square = 0.0;
            for (int32_t u = 0; u < LIKES; u++) {
                const double x = noise[u * DIMS + k], twin = noise[(u + LIKES / 2) % LIKES * DIMS + k];
                mean += x / LIKES;
                square += x * x / LIKES;
                out.twins += scale * (x - twin) * (x - twin);
                out.farthest = fmax(out.farthest, fabs(x));
            }
            out.mean += mean * LIKES * scale;
            out.square += square * LIKES * scale;
            out.least = fmin(out.least, square - mean * mean);
            out.largest = fmax(out.largest, square - mean * mean);
        }
    }
    stw_arena_destroy(&arena);
    free(feedback);
    free(unit);
    return out;
}

TEST(explore, units_that_look_alike_explore_alike) {
    for (int32_t feedback = 0; feedback < 2; feedback++) {
        test_context("feedback: %d", feedback);
        const likes pure = measure_likes((stw_noise_shares){.group = 1.0, .alike = 1.0}, feedback == 1);
        CHECK(pure.twins == 0.0);
        CHECK_NEAR(pure.mean, 0.0, 0.02);
        CHECK_NEAR(pure.square, 1.0, 0.05);
        CHECK(pure.farthest <= 2.5);
        CHECK(pure.least > 0.5 && pure.largest < 1.0 + 1e-9); /* in every draw; outliers are cut */

        const likes mixed =
            measure_likes((stw_noise_shares){.graph = 0.3, .group = 0.5, .unit = 0.2, .alike = 1.0}, feedback == 1);
        CHECK_NEAR(mixed.twins, 2.0 * 0.2, 0.01); /* their own parts */
        CHECK_NEAR(mixed.mean, 0.0, 0.05);
        CHECK_NEAR(mixed.square, 1.0, 0.05);
    }
    test_context("%s", "");
}

/* Where nothing tells units apart there is no direction; their own noise stays. */
TEST(explore, alike_without_differences) {
    double *unit = calloc((size_t)LIKES * STW_UNIT_COLUMNS, sizeof *unit), noise[LIKES * DIMS];
    const stw_problem p = {.M = LIKES, .features = {.M = LIKES, .unit = unit}};
    const stw_noise_shares shares = {.group = 1.0, .alike = 1.0};
    stw_arena arena;
    stw_error error = {0};
    need(stw_arena_create(&arena, &error), &error);
    for (int32_t k = 0; k < LIKES * DIMS; k++) noise[k] = 7.0;
    CHECK_EQ_INT(stw_explore(&p, &shares, stw_rng_create(1), DIMS, NULL, noise, arena, &error), STW_OK);
    for (int32_t k = 0; k < LIKES * DIMS; k++) CHECK(noise[k] == 0.0);
    stw_arena_destroy(&arena);
    free(unit);
}

/* ---- features dealt out anew ---- */

/* Each number of a row says whose row it was. */
static double *rows_of(stw_arena *arena, int32_t M, int32_t columns) {
    double *out = STW_NEW(arena, double, (int64_t)M *columns + 1);
    for (int64_t k = 0; k < (int64_t)M * columns; k++) out[k] = (double)(k / columns);
    return out;
}

static void check_dealt(const double *row, int32_t M, int32_t columns, const double *first, int32_t first_columns) {
    for (int32_t u = 0; u < M; u++)
        for (int32_t k = 0; k < columns; k++) CHECK(row[(int64_t)u * columns + k] == first[(int64_t)u * first_columns]);
}

TEST(shuffle, rows_are_a_permutation_the_same_for_all_that_is_seen) {
    stw_rng rng = stw_rng_create(6);
    bench *b = bench_open(random_open(&rng, (random_shape){.nodes = 150, .device_count = 3}), 0, 1);
    stw_policy_config c = config_of("default");
    c.proposal_columns = stw_features_proposal_columns();
    const stw_train_settings settings = settings_of("transfer", 9, 1);
    stw_trainer *t = trainer_of(b, &c, &settings, b->s->plan);
    const stw_features *f = &b->problem.features;
    const int32_t M = b->problem.M;
    int32_t *operator_ = STW_NEW(&b->arena, int32_t, M), still = 0;
    bool *seen = STW_NEW(&b->arena, bool, M);
    stw_error error = {0};
    for (int32_t u = 0; u < M; u++) operator_[u] = u;
    const stw_net_input given = {.M = M,
                                 .D = f->D,
                                 .unit = rows_of(&b->arena, M, c.unit_columns),
                                 .feedback = rows_of(&b->arena, M, c.feedback_columns),
                                 .pair = rows_of(&b->arena, M, f->D * c.pair_columns),
                                 .proposal = rows_of(&b->arena, M, c.proposal_columns),
                                 .device = f->device,
                                 .operator_ = operator_,
                                 .producer_start = f->producer_start,
                                 .producer = f->producer,
                                 .reader_start = f->reader_start,
                                 .reader = f->reader};
    stw_net_input dealt = given, again = given, less = {.M = M, .D = f->D, .unit = given.unit, .operator_ = operator_};
    CHECK_EQ_INT(stw_trainer_shuffle(t, &dealt, &b->arena, &error), STW_OK);
    CHECK_EQ_INT(stw_trainer_shuffle(t, &again, &b->arena, &error), STW_OK);
    CHECK_EQ_INT(stw_trainer_shuffle(t, &less, &b->arena, &error), STW_OK);
    for (int32_t u = 0; u < M; u++) {
        const int32_t of = dealt.operator_[u];
        if (!CHECK(of >= 0 && of < M && !seen[of])) break;
        seen[of] = true;
        still += of == u;
        CHECK(dealt.unit[(int64_t)u * c.unit_columns] == of && again.operator_[u] == of && less.operator_[u] == of);
    }
    CHECK(still < M / 10);
    check_dealt(dealt.unit, M, c.unit_columns, dealt.unit, c.unit_columns);
    check_dealt(dealt.feedback, M, c.feedback_columns, dealt.unit, c.unit_columns);
    check_dealt(dealt.pair, M, f->D * c.pair_columns, dealt.unit, c.unit_columns);
    check_dealt(dealt.proposal, M, c.proposal_columns, dealt.unit, c.unit_columns);
    CHECK(dealt.device == given.device && dealt.producer == given.producer && dealt.reader == given.reader);
    CHECK(less.feedback == NULL && less.pair == NULL && less.proposal == NULL);
    CHECK(given.unit[0] == 0.0 && given.operator_[1] == 1); /* copies: what was given is as it was */
    stw_trainer_destroy(t);
    bench_close(b);
}
