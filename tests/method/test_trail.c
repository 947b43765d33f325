/* When a method's plan got better: the list itself, and what candidates say of it. */
#include <string.h>

#include "driver/runner.h"
#include "support/random.h"
#include "test.h"

static stw_found found_at(double seconds, double value) {
    return (stw_found){.seconds = seconds, .evaluations = (int64_t)(10.0 * seconds), .value = value};
}

TEST(trail, only_better_values_count) {
    stw_trail trail = {0};
    const double value[] = {5.0, 7.0, 5.0, 4.0, 4.5, 1.0};
    for (int k = 0; k < 6; k++) stw_trail_add(&trail, found_at(k, value[k]));
    if (CHECK_EQ_INT(trail.count, 3)) {
        CHECK_NEAR(trail.found[0].value, 5.0, 0.0);
        CHECK_NEAR(trail.found[1].value, 4.0, 0.0);
        CHECK_NEAR(trail.found[1].seconds, 3.0, 0.0);
        CHECK_EQ_INT(trail.found[2].evaluations, 50);
    }
    stw_trail_free(&trail);
    CHECK_EQ_INT(trail.count, 0);
}

/* The first to reach a value may be thinned out, but then a later one stands for it. */
TEST(trail, is_bounded_and_keeps_the_last) {
    enum { COUNT = 50000 };
    stw_trail trail = {0};
    for (int k = 0; k < COUNT; k++) {
        stw_trail_add(&trail, found_at(k, COUNT - k));
        if (!CHECK(trail.count > 0 && trail.count <= 4096)) break;
        if (!CHECK_NEAR(trail.found[trail.count - 1].seconds, k, 0.0)) break;
    }
    CHECK(trail.count >= 2048);
    for (int32_t k = 1; k < trail.count; k++) {
        CHECK(trail.found[k].seconds > trail.found[k - 1].seconds);
        CHECK(trail.found[k].seconds - trail.found[k - 1].seconds <= 16.0); /* 50,000 / 4,096 as a power of two */
    }
    stw_trail_free(&trail);
}

TEST(trail, of_several_methods) {
    stw_trail first = {0}, second = {0}, all = {0};
    stw_trail_add(&first, found_at(1.0, 9.0));
    stw_trail_add(&first, found_at(2.0, 6.0));
    stw_trail_add(&second, found_at(0.5, 8.0));
    stw_trail_add(&second, found_at(1.5, 3.0));
    stw_trail_append(&all, &first, 0.0, 0);
    stw_trail_append(&all, &second, 4.0, 100);
    if (CHECK_EQ_INT(all.count, 3)) {
        CHECK_NEAR(all.found[2].seconds, 5.5, 0.0);
        CHECK_EQ_INT(all.found[2].evaluations, 115);
        CHECK_NEAR(all.found[2].value, 3.0, 0.0);
    }
    stw_trail_free(&first);
    stw_trail_free(&second);
    stw_trail_free(&all);
}

/* Every valid candidate: values fall, time and evaluations go on, and the last is the plan. */
static void check_found(const stw_candidate *c) {
    test_context("%s", c->method);
    CHECK_EQ_INT(c->found_count > 0, c->valid);
    for (int32_t k = 1; k < c->found_count; k++) {
        CHECK(c->found[k].value < c->found[k - 1].value);
        CHECK(c->found[k].seconds >= c->found[k - 1].seconds);
        CHECK(c->found[k].evaluations >= c->found[k - 1].evaluations);
    }
    if (c->found_count == 0) return;
    const stw_found *last = &c->found[c->found_count - 1];
    CHECK_NEAR(last->value, c->value, 0.0);
    CHECK(c->found[0].seconds >= 0.0 && last->seconds <= c->search_s);
    CHECK(last->evaluations <= c->evaluations);
    test_context("%s", "");
}

TEST(trail, of_candidates) {
    stw_rng rng = stw_rng_create(11);
    small *s = random_open(&rng, (random_shape){.nodes = 120, .device_count = 3, .contention = "queue"});
    stw_options *options;
    stw_result *result = NULL;
    stw_candidate candidate;
    stw_error error = {0};
    int32_t several = 0;
    CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "evaluations", "600", &error), STW_OK);
    CHECK_EQ_INT(stw_compare(s->simulator, "single,random,heft,anneal,optimize", options, NULL, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    for (int32_t k = 0; result != NULL && stw_result_candidate(result, k, &candidate); k++) {
        check_found(&candidate);
        several += candidate.found_count > 1;
        if (strcmp(candidate.method, "single") == 0) CHECK_EQ_INT(candidate.found_count, 1);
    }
    CHECK(several >= 2); /* anneal and optimize */
    stw_result_destroy(result);
    stw_options_destroy(options);
    small_close(s);
}
