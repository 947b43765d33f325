/* base/rng: the draws are part of the results that people compare, so their values are fixed here. */
#include "base/rng.h"

#include <math.h>
#include <string.h>

#include "test.h"

TEST(rng, first_values_are_fixed) { /* xoshiro256** seeded by splitmix64, computed by another program */
    static const struct {
        uint64_t seed, draws[4];
    } cases[] = {
        {0, {0x99ec5f36cb75f2b4u, 0xbf6e1f784956452au, 0x1a5f849d4933e6e0u, 0x6aa594f1262d2d2cu}},
        {42, {0x15780b2e0c2ec716u, 0x6104d9866d113a7eu, 0xae17533239e499a1u, 0xecb8ad4703b360a1u}},
        {UINT64_MAX, {0x8f5520d52a7ead08u, 0xc476a018caa1802du, 0x81de31c0d260469eu, 0xbf658d7e065f3c2fu}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stw_rng rng = stw_rng_create(cases[i].seed);
        for (int j = 0; j < 4; j++) CHECK(stw_rng_next(&rng) == cases[i].draws[j]);
    }
    stw_rng rng = stw_rng_create(42);
    CHECK_NEAR(stw_rng_uniform(&rng), 0.08386297105988216, 0.0);
    CHECK_NEAR(stw_rng_uniform(&rng), 0.3789802506626686, 0.0);
}

TEST(rng, split_values_are_fixed_and_leave_the_parent_alone) {
    stw_rng parent = stw_rng_create(42);
    const stw_rng before = parent;
    stw_rng child = stw_rng_split(&parent, 7);
    CHECK(stw_rng_next(&child) == 0x1b9c0ebdfd78cee0u);
    CHECK(stw_rng_next(&child) == 0xbed00135fa4c4b77u);
    child = stw_rng_split(&parent, 7);
    stw_rng grandchild = stw_rng_split(&child, 7);
    CHECK(stw_rng_next(&grandchild) == 0x9166aea3044049c0u);
    CHECK(memcmp(&before, &parent, sizeof parent) == 0);
}

/* The share of equal bits of two generators; 1/2 if they have nothing to do with each other. */
static double equal_bits(stw_rng a, stw_rng b) {
    int64_t equal = 0;
    for (int i = 0; i < 1000; i++) equal += 64 - __builtin_popcountll(stw_rng_next(&a) ^ stw_rng_next(&b));
    return (double)equal / 64000.0;
}

TEST(rng, splits_are_independent) {
    const stw_rng parent = stw_rng_create(1);
    const double tolerance = 0.012; /* six standard deviations of 64,000 fair coins */
    for (uint64_t key = 0; key < 64; key++) {
        const stw_rng child = stw_rng_split(&parent, key);
        CHECK_NEAR(equal_bits(parent, child), 0.5, tolerance);
        CHECK_NEAR(equal_bits(child, stw_rng_split(&parent, key + 1)), 0.5, tolerance);
        CHECK_NEAR(equal_bits(child, stw_rng_split(&parent, key | (1ULL << 63))), 0.5, tolerance);
        const stw_rng other = stw_rng_create(2);
        CHECK_NEAR(equal_bits(child, stw_rng_split(&other, key)), 0.5, tolerance);
    }
    const stw_rng a = stw_rng_split(&parent, 3), b = stw_rng_split(&parent, 4);
    CHECK_NEAR(equal_bits(stw_rng_split(&a, 4), stw_rng_split(&b, 3)), 0.5, tolerance); /* the order of keys matters */
}

TEST(rng, uniform_stays_below_one) {
    stw_rng rng = stw_rng_create(3);
    double sum = 0.0, least = 1.0, most = 0.0;
    for (int i = 0; i < 100000; i++) {
        const double x = stw_rng_uniform(&rng);
        sum += x;
        least = fmin(least, x);
        most = fmax(most, x);
    }
    CHECK(least >= 0.0 && most < 1.0);
    CHECK_NEAR(sum / 100000.0, 0.5, 0.006);
    CHECK(least < 0.001 && most > 0.999);
}

TEST(rng, below_covers_its_range_evenly) {
    stw_rng rng = stw_rng_create(4);
    int64_t seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        const int64_t draw = stw_rng_below(&rng, 7);
        if (!CHECK(draw >= 0 && draw < 7)) return;
        seen[draw]++;
    }
    for (int i = 0; i < 7; i++) CHECK_NEAR((double)seen[i], 10000.0, 600.0);
    for (int i = 0; i < 1000; i++) CHECK_EQ_INT(stw_rng_below(&rng, 1), 0);
}

TEST(rng, below_is_unbiased_for_huge_ranges) {
    /* Taken modulo 3 * 2^61, the 2^64 draws would favour the first third: 3/8 of them. */
    const int64_t bound = (int64_t)3 << 61;
    stw_rng rng = stw_rng_create(5);
    int64_t low = 0;
    for (int i = 0; i < 30000; i++) {
        const int64_t draw = stw_rng_below(&rng, bound);
        if (!CHECK(draw >= 0 && draw < bound)) return;
        low += draw < bound / 3;
    }
    CHECK_NEAR((double)low / 30000.0, 1.0 / 3.0, 0.017);
    for (int i = 0; i < 100; i++) CHECK(stw_rng_below(&rng, INT64_MAX) >= 0);
}

TEST(rng, normal_has_the_moments_of_a_normal) {
    enum { COUNT = 200000 };
    stw_rng rng = stw_rng_create(6);
    double sum = 0.0, squares = 0.0, cubes = 0.0, fourths = 0.0;
    int64_t beyond_two = 0;
    for (int i = 0; i < COUNT; i++) {
        const double x = stw_rng_normal(&rng);
        if (!CHECK(isfinite(x))) return;
        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourths += x * x * x * x;
        beyond_two += fabs(x) > 2.0;
    }
    CHECK_NEAR(sum / COUNT, 0.0, 0.012);
    CHECK_NEAR(squares / COUNT, 1.0, 0.018);
    CHECK_NEAR(cubes / COUNT, 0.0, 0.05);
    CHECK_NEAR(fourths / COUNT, 3.0, 0.15);
    CHECK_NEAR((double)beyond_two / COUNT, 0.0455, 0.003);
}
