/* An initial plan (--from): what is not among the tasks is kept, and nothing that is found is worse. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>

#include "fused_plans.h"

TEST(from, methods_leave_alone_what_is_no_task) {
    static const char *const methods[] = {"single", "heft", "steer", "metis", "lean", "anneal", "go-one", "go-zero", "go-tune"};
    const stw_rng seeds = stw_rng_create(804);
    int changed[3] = {0};
    for (int number = 0; number < 5; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 40);
        char path[] = "/tmp/stowage-test-XXXXXX";
        write_given(&rng, s, path);
        for (int k = 0; k < SUBSETS * 9; k++) {
            const unsigned tasks = subsets[k % SUBSETS].tasks;
            test_context("problem %d, %s, %s", number, methods[k / SUBSETS], subsets[k % SUBSETS].text);
            stw_plan *plan = run(s, methods[k / SUBSETS],
                                 options_of("tasks", subsets[k % SUBSETS].text, "from", path, "evaluations", "60", "threads",
                                            number % 2 == 0 ? "1" : "2", NULL),
                                 NULL);
            if (plan == NULL) continue;
            CHECK_EQ_INT(score_of(s, plan).reason, STW_VALID);
            for (int task = 0; task < 3; task++) {
                const bool same = have_same(plan, s->plan, 1u << task);
                if (!(tasks & 1u << task)) CHECK(same);
                changed[task] += !same;
            }
            stw_plan_destroy(plan);
        }
        unlink(path);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(changed[0] > 15 && changed[1] > 15 && changed[2] > 15); /* what may be decided was */
}

TEST(from, optimize_is_never_worse_than_what_was_given) {
    const stw_rng seeds = stw_rng_create(805);
    int better = 0;
    for (int number = 0; number < 14; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 40);
        char path[] = "/tmp/stowage-test-XXXXXX";
        write_given(&rng, s, path);
        const stw_score given = score_of(s, s->plan);
        const unsigned tasks = subsets[number % SUBSETS].tasks;
        stw_result *result =
            optimize(s, options_of("tasks", subsets[number % SUBSETS].text, "from", path, "evaluations", "200", NULL), NULL);
        for (int32_t k = 0; result != NULL && k < result->count; k++) {
            const stw_entry *entry = result->entry[k];
            test_context("problem %d, %s, %s", number, subsets[number % SUBSETS].text, entry->candidate.method);
            if (k == 0) CHECK_STR(entry->candidate.method, "given");
            if (k == 0) CHECK_NEAR(entry->score.step_s, given.step_s, 0.0);
            if (entry->plan != NULL) CHECK(have_same(entry->plan, s->plan, STW_TASK_ALL & ~tasks));
        }
        if (result != NULL && CHECK(result->best >= 0)) {
            CHECK(!stw_score_is_better(&given, &result->entry[result->best]->score));
            better += stw_score_is_better(&result->entry[result->best]->score, &given);
        }
        stw_result_destroy(result);
        unlink(path);
        small_close(s);
    }
    test_context("%s", "");
    printf("  better than what was given on %d of 14\n", better);
    CHECK(better > 5);
}

TEST(from, a_fusion_rule_goes_with_what_was_given_too) {
    stw_rng rng = stw_rng_create(806);
    small *s = open_problem(&rng, 2, 60);
    char path[] = "/tmp/stowage-test-XXXXXX";
    write_given(&rng, s, path);
    for (int k = 0; k < STW_FUSION_COUNT; k++) {
        test_context("%s", stw_fusion_name[k]);
        stw_result *result = optimize(
            s, options_of("tasks", "fusion", "fusion", stw_fusion_name[k], "from", path, "evaluations", "50", NULL), NULL);
        CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, stw_fusion_name[k], NULL), STW_OK);
        if (result != NULL && CHECK(stw_result_plan(result) != NULL))
            CHECK(have_same(stw_result_plan(result), s->plan, STW_TASK_ALL));
        stw_result_destroy(result);
    }
    test_context("%s", "");
    unlink(path);
    small_close(s);
}

/* Groups with several outputs are nobody's to make, but a plan that was given may have them. */
TEST(from, groups_with_several_outputs) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 4, 5) OP(1, "b", "[0]", 4, 5) OP(2, "c", "[0,1]", 4, 5) OP(3, "d", "[]", 4, 50),
                     .group = "[0,0,2,3]",
                     .device_count = 2});
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    for (int k = 0; k < SUBSETS; k++) {
        test_context("%s", subsets[k].text);
        stw_result *result = optimize(s, options_of("tasks", subsets[k].text, "from", path, "evaluations", "300", NULL), NULL);
        if (result != NULL && CHECK(result->best >= 0)) {
            CHECK_EQ_INT(result->entry[0]->score.reason, STW_VALID);
            CHECK(!stw_score_is_better(&result->entry[0]->score, &result->entry[result->best]->score));
            CHECK(have_same(stw_result_plan(result), s->plan, STW_TASK_ALL & ~subsets[k].tasks));
            const int32_t *device = stw_result_plan(result)->device;
            if (subsets[k].tasks & STW_TASK_PLACEMENT) CHECK(device[3] != device[0]); /* d takes long: the others go elsewhere */
        }
        stw_result_destroy(result);
    }
    test_context("%s", "");
    unlink(path);
    small_close(s);
}

static void check_refused(const small *s, const char *path, const char *says) {
    stw_options *options = options_of("from", path, "evaluations", "20", NULL);
    stw_result *result = (stw_result *)1;
    stw_plan *plan = (stw_plan *)1;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_CONTAINS(error.message, says);
    CHECK_EQ_INT(stw_compare(s->simulator, "heft,single", options, NULL, &result, &error), STW_ERROR_INPUT);
    CHECK(result == NULL);
    CHECK_EQ_INT(stw_method_run("anneal", s->simulator, options, &plan, &error), STW_ERROR_INPUT);
    CHECK(plan == NULL);
    stw_options_destroy(options);
}

TEST(from, files_that_do_not_fit_end_a_search_before_it_begins) {
    stw_rng rng = stw_rng_create(807);
    small *s = open_problem(&rng, 2, 30), *other = open_problem(&rng, 2, 30), *fewer = open_problem(&rng, 0, 30);
    char path[] = "/tmp/stowage-test-XXXXXX";
    check_refused(s, "no-such-file.json", "no-such-file.json");
    check_refused(s, STW_SOURCE_DIR "/README.md", "README.md");
    write_given(&rng, other, path);
    check_refused(s, path, path);
    check_refused(fewer, path, path);
    unlink(path);
    small_close(s);
    small_close(other);
    small_close(fewer);
}
