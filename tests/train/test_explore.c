#define _POSIX_C_SOURCE 200809L /* open_memstream */
/* train/explore: the moments of the noise, and that nothing but the generator decides it. */
#include "train/explore.h"

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
