/* Fusion among the tasks: what the methods make of it is legal and never worse than the rules for the same devices; a rule that
 * was asked for is kept; memory, cancelling, progress and noise with groups. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <time.h>

#include "fused_plans.h"

static const stw_method *constructive_at(int32_t index) {
    const stw_method *method;
    int32_t seen = 0;
    for (int32_t k = 0; (method = stw_method_at(k)) != NULL; k++) {
        if (method->kind == STW_METHOD_CONSTRUCTIVE && method != &stw_method_balance && seen++ == index) return method;
    }
    return NULL;
}

/* ---- methods that place ---- */

TEST(fusing, every_method_that_places_does_so_with_groups) {
    const stw_rng seeds = stw_rng_create(801);
    const stw_method *method;
    int fused = 0, plans = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 80);
        for (int32_t k = 0; (method = constructive_at(k)) != NULL; k++) {
            test_context("problem %d, %s", number, method->name);
            stw_plan *plan = run(s, method->name, options_of("tasks", ALL, "evaluations", "60", "threads", "1", NULL), NULL);
            if (plan == NULL) continue;
            const stw_score score = score_of(s, plan);
            CHECK_EQ_INT(score.reason, STW_VALID);
            if (!has_order(plan)) { /* an order is for the groups it has */
                const stw_score none = score_with(s, plan, "none"), rule = score_with(s, plan, "default");
                CHECK(!stw_score_is_better(&none, &score));
                CHECK(!stw_score_is_better(&rule, &score));
            }
            fused += count_merged(plan) > 0;
            plans++;
            stw_plan_destroy(plan);
        }
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d of %d plans have groups\n", fused, plans);
    CHECK(fused > plans / 2);
}

TEST(fusing, a_rule_goes_with_every_placement) {
    static const char *const others[] = {"anneal", "go-one", "go-zero", "go-tune"};
    const stw_rng seeds = stw_rng_create(802);
    const stw_method *method;
    for (int number = 0; number < 9; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 50);
        const char *rule = stw_fusion_name[number % STW_FUSION_COUNT];
        for (int32_t k = 0; k < 4 || constructive_at(k - 4) != NULL; k++) {
            method = k < 4 ? stw_method_find(others[k]) : constructive_at(k - 4);
            test_context("problem %d, %s, %s", number, method->name, rule);
            stw_plan *plan =
                run(s, method->name, options_of("tasks", ALL, "fusion", rule, "evaluations", "60", "threads", "2", NULL), NULL);
            if (plan == NULL) continue;
            CHECK_EQ_INT(score_of(s, plan).reason, STW_VALID);
            stw_plan *expected = copy_of(plan);
            CHECK_EQ_INT(stw_plan_fuse(expected, s->costs, rule, NULL), STW_OK);
            CHECK(have_same(plan, expected, STW_TASK_FUSION));
            stw_plan_destroy(expected);
            stw_plan_destroy(plan);
        }
        stw_result *result = optimize(s, options_of("fusion", rule, "evaluations", "150", "threads", "1", NULL), NULL);
        for (int32_t k = 0; result != NULL && k < result->count; k++) {
            const stw_plan *plan = result->entry[k]->plan;
            test_context("problem %d, optimize, %s, %s", number, result->entry[k]->candidate.method, rule);
            if (plan == NULL) continue;
            stw_plan *expected = copy_of(plan);
            CHECK_EQ_INT(stw_plan_fuse(expected, s->costs, rule, NULL), STW_OK);
            CHECK(have_same(plan, expected, STW_TASK_FUSION));
            stw_plan_destroy(expected);
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(fusing, a_rule_needs_the_task) {
    stw_rng rng = stw_rng_create(803);
    small *s = open_problem(&rng, 1, 60);
    stw_error error = {0};
    stw_plan *plan =
        run(s, "heft", options_of("tasks", "placement,schedule", "fusion", "default", "evaluations", "20", NULL), &error);
    CHECK(plan == NULL);
    CHECK_STR(error.message, "--fusion: fusion is not among the tasks; add it to --tasks or leave out --fusion");
    plan = run(s, "exact", options_of("tasks", "all", "fusion", "default", NULL), &error);
    CHECK(plan == NULL);
    stw_plan_destroy(plan);
    small_close(s);
}

/* ---- bounds ---- */

/* No method is below the bounds that a comparison prints, whatever is decided. */
TEST(fusing, no_plan_is_below_the_bounds) {
    const stw_rng seeds = stw_rng_create(805);
    const char *const objective[] = {"time", "memory"}, *const fusion[] = {NULL, "none", "default", "reverse-post-order"};
    for (int number = 0; number < 24; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 40);
        stw_result *result = NULL;
        stw_candidate c;
        stw_options *options =
            options_of("evaluations", "120", "objective", objective[number % 2], "fusion", fusion[number / 2 % 4], NULL);
        test_context("problem %d", number);
        CHECK_EQ_INT(stw_compare(s->simulator, "single,heft,lean,anneal,optimize", options, NULL, &result, NULL), STW_OK);
        for (int32_t k = 0; result != NULL && stw_result_candidate(result, k, &c); k++) {
            test_context("problem %d, %s", number, c.method);
            if (!c.valid) continue;
            CHECK(c.step_s >= result->bounds.plan_s * (1.0 - 1e-12) && c.step_s >= result->bounds.fusion_s * (1.0 - 1e-12));
            int64_t most = 0;
            for (int32_t d = 0; d < s->machine->device_count; d++) most = c.peak_bytes[d] > most ? c.peak_bytes[d] : most;
            CHECK(most >= result->bounds.peak_bytes);
        }
        stw_result_destroy(result);
        stw_options_destroy(options);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- memory ---- */

/* x and y are large and do not fuse; what a makes of x is small. Unfused, x goes before y comes. If a is fused with b, both must
 * be there at once. */
TEST(fusing_memory, what_fits_only_unfused) {
    const small_text text = {.nodes = NODE(0, "x", "mm", "[]", 100, ",'us':{'h200':5}") OP(1, "a", "[0]", 1, 5)
                                 NODE(2, "y", "mm", "[]", 100, ",'us':{'h200':5}") OP(3, "b", "[1,2]", 1, 5),
                             .priority = "[4,3,2,1]",
                             .outputs = "[3]",
                             .devices = DEVICE("d0", "h200", 130) DEVICE("d1", "h200", 130)};
    static const char *const methods[] = {"single", "lean", "anneal", "go-one", "go-zero", "exact"};
    for (int32_t devices = 1; devices <= 2; devices++) {
        small_text sized = text;
        sized.devices = devices == 1 ? DEVICE("d0", "h200", 130) : text.devices;
        sized.device_count = devices;
        sized.links = devices == 1 ? "" : LINK("d0", "d1") LINK("d1", "d0");
        small *s = small_open(sized);
        CHECK_EQ_INT(s->result.reason, STW_VALID);
        CHECK_EQ_INT(score_with(s, s->plan, "reverse-post-order").reason, STW_INVALID_MEMORY);
        stw_result *result = optimize(s, options_of("evaluations", "200", NULL), NULL);
        if (result != NULL && CHECK(result->best >= 0)) CHECK_EQ_INT(score_of(s, stw_result_plan(result)).reason, STW_VALID);
        stw_result_destroy(result);
        for (int k = 0; k < 6; k++) {
            test_context("%d devices, %s", (int)devices, methods[k]);
            stw_plan *plan = run(s, methods[k], options_of("tasks", ALL, "evaluations", "200", NULL), NULL);
            if (plan != NULL) CHECK_EQ_INT(score_of(s, plan).reason, STW_VALID);
            stw_plan_destroy(plan);
        }
        test_context("%s", "");
        small_close(s);
    }
}

/* Memory for a part of what everything on one device needs: where there is a valid plan without groups, there is one with them.
 */
TEST(fusing_memory, tight_problems) {
    const stw_rng seeds = stw_rng_create(811);
    int valid = 0, lacking = 0;
    for (int number = 0; number < 20; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 40);
        const int64_t peak = s->result.worst_peak_bytes;
        small_set_memory(s, 1 + peak * (7 + number % 3) / 10);
        test_context("problem %d", number);
        stw_result *without = optimize(s, options_of("tasks", "placement,schedule", "evaluations", "200", NULL), NULL);
        stw_result *with = optimize(s, options_of("evaluations", "200", NULL), NULL);
        if (without != NULL && with != NULL && without->best >= 0 && CHECK(with->best >= 0))
            CHECK_EQ_INT(score_of(s, stw_result_plan(with)).reason, STW_VALID);
        if (without != NULL) valid += without->best >= 0;
        for (int32_t k = 0; with != NULL && k < with->count; k++) lacking += with->entry[k]->score.reason == STW_INVALID_MEMORY;
        stw_result_destroy(without);
        stw_result_destroy(with);
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d of 20 have a valid plan; %d plans on the way lacked memory\n", valid, lacking);
    CHECK(valid > 5 && lacking > 10);
}

/* ---- cancelling ---- */

typedef struct {
    stw_cancel *cancel;
    int calls, most; /* of the method that is waited for */
    const char *method;
    clock_t cancelled; /* time of the processor */
} impatient;

static void observe(void *context, const stw_progress *progress) {
    impatient *o = context;
    if (strcmp(progress->method, o->method) == 0 && ++o->calls == o->most) {
        o->cancelled = clock();
        stw_cancel_request(o->cancel);
    }
}

TEST(fusing_cancel, in_the_middle_of_a_method) {
    static const char *const methods[] = {"single", "steer", "go-zero", "go-tune", "anneal"};
    for (int k = 0; k < 9; k++) {
        stw_rng rng = stw_rng_create(812);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 4, .unlike = true, .model = true});
        impatient o = {.most = k < 5 ? 1 : 3, .method = methods[k < 5 ? k : k - 4]};
        test_context("call %d of %s", o.most, o.method);
        CHECK_EQ_INT(stw_cancel_create(&o.cancel, NULL), STW_OK);
        const stw_watch watch = {.progress = observe, .context = &o, .cancel = o.cancel};
        stw_result *result = optimize(s, options_of("evaluations", "600", "threads", "2", NULL), &watch);
        if (o.calls >= o.most) CHECK(clock() - o.cancelled < 3 * CLOCKS_PER_SEC);
        if (result != NULL && CHECK(result->best >= 0)) {
            CHECK_EQ_INT(score_of(s, stw_result_plan(result)).reason, STW_VALID);
            CHECK_EQ_INT(stw_result_is_interrupted(result), o.calls >= o.most);
        }
        stw_result_destroy(result);
        stw_cancel_destroy(o.cancel);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- progress ---- */

typedef struct {
    double best;
} follower;

static void follow(void *context, const stw_progress *progress) {
    follower *f = context;
    if (progress->has_plan) f->best = progress->best_value;
}

/* What is told on the way can be had: the last is the result's. Rules whose priorities tie are where groups and ops might differ.
 */
TEST(fusing_progress, tells_of_plans_that_there_are) {
    const stw_rng seeds = stw_rng_create(813);
    for (int number = 0; number < 15; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 60);
        follower f = {0};
        const stw_watch watch = {.progress = follow, .context = &f};
        test_context("problem %d", number);
        stw_result *result =
            optimize(s, options_of("evaluations", "300", "threads", "1", "rule", number % 3 == 0 ? "fifo" : NULL, NULL), &watch);
        if (result != NULL && CHECK(result->best >= 0)) CHECK_NEAR(f.best, result->entry[result->best]->score.value, 0.0);
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- noise ---- */

/* A plan whose groups make it faster stays ahead of the same without; a group lasts as long as all of it. */
TEST(fusing_noise, groups_last_as_long_as_they_do) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 50) OP(1, "b", "[0]", 1, 50) OP(2, "c", "[1]", 1, 50)
                                           OP(3, "x", "[]", 1, 1) OP(4, "y", "[3]", 1, 100),
                                       .outputs = "[2,4]"});
    stw_settings settings;
    stw_runner *runner;
    stw_result *result = calloc(1, sizeof *result);
    CHECK_EQ_INT(stw_settings_read(NULL, STW_TASK_ALL, &settings, NULL), STW_OK);
    CHECK_EQ_INT(stw_runner_create(s->simulator, &settings, NULL, &runner, NULL), STW_OK);
    stw_plan *fused = copy_of(s->plan);
    CHECK_EQ_INT(stw_plan_fuse(fused, s->costs, "reverse-post-order", NULL), STW_OK);
    const stw_score slow = score_of(s, s->plan), quick = score_of(s, fused);
    CHECK(quick.step_s < slow.step_s * 0.8); /* far ahead */
    CHECK_EQ_INT(stw_runner_try_noise(runner, fused, s->plan, result, NULL), STW_OK);
    CHECK_EQ_INT(result->noise.ahead, 32);
    result->noise = (stw_noise){0};
    CHECK_EQ_INT(stw_runner_try_noise(runner, s->plan, fused, result, NULL), STW_OK);
    CHECK_EQ_INT(result->noise.ahead, 0);
    stw_plan_destroy(fused);
    stw_runner_destroy(runner);
    free(result);
    small_close(s);
}
