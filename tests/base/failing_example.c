/* Tests that must fail, for test_runner.c: a runner that lets one of them pass proves nothing about the rest. */
#include <math.h>

#include "test.h"

TEST(example, holds) { CHECK(1 + 1 == 2); }

TEST(example, condition) { CHECK(1 + 1 == 3); }
TEST(example, integer) { CHECK_EQ_INT(1 + 1, 3); }
TEST(example, near) { CHECK_NEAR(1.0, 1.5, 0.25); }
TEST(example, not_a_number) { CHECK_NEAR((double)NAN, 0.0, 1e9); }
TEST(example, string) { CHECK_STR("left", "right"); }
TEST(example, null_string) { CHECK_STR(NULL, "right"); }
TEST(example, contains) { CHECK_CONTAINS("haystack", "needle"); }

TEST(example, goes_on_after_a_failure) {
    test_context("case %d", 7);
    CHECK_EQ_INT(10, 11);
    CHECK_EQ_INT(20, 21);
    test_context("%s", "");
    CHECK(true);
}

TEST(example, checks_nothing) {}
TEST(example, is_skipped) { SKIP("not today"); }

TEST(example, fails_before_it_is_skipped) {
    CHECK(false);
    SKIP("too late");
}
