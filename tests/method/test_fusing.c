/* Fusion among the tasks: what the methods make of it is legal and never worse than the rules for the same devices; a rule that
 * was asked for is kept; so is, of a plan that was given, what is not among the tasks. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "method/fusing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan.h"
#include "runner.h"
#include "support/random.h"
#include "test.h"

#define ALL "placement,schedule,fusion"

/* ---- helpers ---- */

/* Names and values in turn, up to NULL. */
static stw_options *options_of(const char *name, ...) {
    stw_options *options;
    va_list list;
    CHECK_EQ_INT(stw_options_create(&options, NULL), STW_OK);
    va_start(list, name);
    for (; name != NULL; name = va_arg(list, const char *)) {
        const char *value = va_arg(list, const char *);
        if (value != NULL) CHECK_EQ_INT(stw_options_set(options, name, value, NULL), STW_OK);
    }
    va_end(list);
    return options;
}

/* Takes the options over. NULL: it made no plan, and says why. */
static stw_plan *run(const small *s, const char *method, stw_options *options, stw_error *error) {
    stw_plan *plan = NULL;
    stw_error ours = {0};
    const stw_status status = stw_method_run(method, s->simulator, options, &plan, error == NULL ? &ours : error);
    if (error == NULL) CHECK_STR(ours.message, "");
    CHECK((status == STW_OK) == (plan != NULL));
    stw_options_destroy(options);
    return plan;
}

static stw_result *optimize(const small *s, stw_options *options, const stw_watch *watch) {
    stw_result *result = NULL;
    stw_error error = {0};
    CHECK_EQ_INT(stw_optimize(s->simulator, options, watch, &result, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_options_destroy(options);
    return result;
}

static stw_score score_of(const small *s, const stw_plan *plan) {
    stw_evaluation evaluation;
    CHECK_EQ_INT(stw_simulate(s->simulator, plan, s->workspace, &evaluation, NULL), STW_OK);
    return stw_score_of(STW_OBJECTIVE_TIME, s->workspace, &evaluation);
}

static bool has_order(const stw_plan *plan) {
    bool any = false;
    for (int32_t d = 0; d < plan->machine->device_count; d++) any |= plan->order[d] != NULL;
    return any;
}

static stw_plan *copy_of(const stw_plan *plan) {
    stw_plan *copy;
    CHECK_EQ_INT(stw_plan_create(plan->graph, plan->machine, &copy, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_copy(copy, plan, NULL), STW_OK);
    return copy;
}

/* The same devices and priorities, with the groups of a rule. */
static stw_score score_with(const small *s, const stw_plan *plan, const char *rule) {
    stw_plan *other = copy_of(plan);
    CHECK_EQ_INT(stw_plan_fuse(other, s->costs, rule, NULL), STW_OK);
    const stw_score score = score_of(s, other);
    stw_plan_destroy(other);
    return score;
}

static int32_t count_merged(const stw_plan *plan) {
    int32_t count = 0;
    for (int32_t i = 0; i < plan->graph->N; i++) count += plan->graph->kind[i] == STW_NODE_OP && plan->group[i] != i;
    return count;
}

/* Ops only: what other nodes have there is ignored. Group numbers are free, so they are compared by their smallest op. */
static bool have_same(const stw_plan *a, const stw_plan *b, unsigned what) {
    stw_plan *x = copy_of(a), *y = copy_of(b);
    bool same = true;
    CHECK_EQ_INT(stw_plan_canonical_groups(x, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_canonical_groups(y, NULL), STW_OK);
    for (int32_t i = 0; i < a->graph->N; i++) {
        const uint8_t kind = a->graph->kind[i];
        if (what & STW_TASK_PLACEMENT && (kind == STW_NODE_OP || stw_node_is_resident(kind)))
            same &= x->device[i] == y->device[i];
        if (kind != STW_NODE_OP) continue;
        if (what & STW_TASK_SCHEDULE) same &= x->priority[i] == y->priority[i];
        if (what & STW_TASK_FUSION) same &= x->group[i] == y->group[i];
    }
    stw_plan_destroy(x);
    stw_plan_destroy(y);
    return same;
}

/* Costs by the model, so that fusing is worth something. */
static small *open_problem(stw_rng *rng, int number, int32_t most) {
    return random_open(rng, (random_shape){.nodes = 8 + (int32_t)stw_rng_below(rng, most - 7),
                                           .device_count = 1 + number % 4,
                                           .plain = number % 5 == 0,
                                           .wide = number % 7 == 1,
                                           .unlike = number % 2 == 1,
                                           .buses = number % 3 == 0,
                                           .model = number % 4 != 3,
                                           .contention = number % 6 == 5 ? "none" : "queue"});
}

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
            test_context("problem %d, optimize, %s, %s", number, result->entry[k]->method, rule);
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

/* ---- a plan to begin with ---- */

/* A valid plan with random devices and priorities, and all groups that merging can make, in a file. */
static void write_given(stw_rng *rng, small *s, char path[]) {
    random_placement(rng, s->simulator, s->plan);
    random_priorities(rng, s->plan);
    CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, stw_rng_below(rng, 2) == 0 ? "reverse-post-order" : "default", NULL), STW_OK);
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
}

static const struct {
    const char *text;
    unsigned tasks;
} subsets[] = {{"placement", STW_TASK_PLACEMENT},
               {"schedule", STW_TASK_SCHEDULE},
               {"fusion", STW_TASK_FUSION},
               {"placement,schedule", STW_TASK_PLACEMENT | STW_TASK_SCHEDULE},
               {"placement,fusion", STW_TASK_PLACEMENT | STW_TASK_FUSION},
               {"schedule,fusion", STW_TASK_SCHEDULE | STW_TASK_FUSION},
               {ALL, STW_TASK_ALL}};
enum { SUBSETS = sizeof subsets / sizeof subsets[0] };

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
            test_context("problem %d, %s, %s", number, subsets[number % SUBSETS].text, entry->method);
            if (k == 0) CHECK_STR(entry->method, "given");
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

/* ---- anneal ---- */

TEST(anneal_fusion, the_number_of_threads_changes_nothing) {
    const stw_rng seeds = stw_rng_create(808);
    for (int number = 0; number < 12; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 60);
        const char *tasks = subsets[number % SUBSETS].text;
        test_context("problem %d, %s", number, tasks);
        stw_plan *one = run(s, "anneal", options_of("tasks", tasks, "evaluations", "300", "threads", "1", NULL), NULL),
                 *two = run(s, "anneal", options_of("tasks", tasks, "evaluations", "300", "threads", "2", NULL), NULL);
        if (one != NULL && two != NULL) CHECK(have_same(one, two, STW_TASK_ALL));
        stw_plan_destroy(one);
        stw_plan_destroy(two);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(anneal_fusion, is_never_worse_than_its_start_and_the_rules) {
    const stw_rng seeds = stw_rng_create(809);
    int better = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 60);
        char path[] = "/tmp/stowage-test-XXXXXX";
        write_given(&rng, s, path);
        test_context("problem %d", number);
        const stw_score given = score_of(s, s->plan);
        const stw_score none = score_with(s, s->plan, "none"), rule = score_with(s, s->plan, "default");
        stw_plan *plan = run(s, "anneal", options_of("tasks", "fusion", "from", path, "evaluations", "400", NULL), NULL);
        if (plan != NULL) {
            const stw_score score = score_of(s, plan);
            CHECK_EQ_INT(score.reason, STW_VALID);
            CHECK(!stw_score_is_better(&given, &score));
            CHECK(!stw_score_is_better(&none, &score));
            CHECK(!stw_score_is_better(&rule, &score));
            better +=
                stw_score_is_better(&score, &given) && stw_score_is_better(&score, &none) && stw_score_is_better(&score, &rule);
        }
        stw_plan_destroy(plan);
        unlink(path);
        small_close(s);
    }
    test_context("%s", "");
    printf("  better than its start and both rules on %d of 40\n", better);
    CHECK(better > 0);
}

/* b waits for c, which comes late from the other device; a need not wait, unless it is fused with b. What follows b is better
 * fused. Both rules fuse all of it. */
#define LATE                 \
    OP(0, "c", "[]", 1, 100) \
    OP(1, "a", "[]", 1, 60) OP(2, "b", "[0,1]", 1, 5) OP(3, "d", "[2]", 1, 5) OP(4, "e", "[3]", 1, 5) OP(5, "f", "[4]", 1, 5)

static small *open_late(char path[]) {
    small *s = small_open((small_text){.nodes = LATE, .outputs = "[5]", .device_count = 2, .device = "[1,0,0,0,0,0]"});
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    return s;
}

TEST(anneal_fusion, one_op_is_better_left_alone) {
    char path[] = "/tmp/stowage-test-XXXXXX";
    small *s = open_late(path);
    double least = INFINITY;
    for (int k = 0; k < STW_FUSION_COUNT; k++) least = fmin(least, score_with(s, s->plan, stw_fusion_name[k]).step_s);
    static const char *const methods[] = {"anneal", "exact"};
    for (int k = 0; k < 2; k++) {
        test_context("%s", methods[k]);
        stw_plan *plan = run(s, methods[k], options_of("tasks", "fusion", "from", path, "evaluations", "400", NULL), NULL);
        if (plan == NULL) continue;
        CHECK(score_of(s, plan).step_s < least * (1.0 - 1e-9));
        CHECK_EQ_INT(plan->group[1], 1);                                          /* a alone, */
        for (int i = 2; i < 5; i++) CHECK_EQ_INT(plan->group[i], plan->group[5]); /* the rest of the chain in one */
        stw_plan_destroy(plan);
    }
    test_context("%s", "");
    unlink(path);
    small_close(s);
}

/* ---- exact ---- */

typedef struct {
    stw_score score;
    bool made, whole; /* a plan; out of all groupings */
} solved;

static solved solve(const small *s, const char *method, const char *tasks, const char *evaluations) {
    solved out = {0};
    stw_options *options = options_of("tasks", tasks, "evaluations", evaluations, "threads", "1", NULL);
    stw_result *result = NULL;
    CHECK_EQ_INT(stw_compare(s->simulator, method, options, NULL, &result, NULL), STW_OK);
    if (result != NULL && result->entry[0]->plan != NULL) {
        out.made = true;
        out.score = result->entry[0]->score;
        out.whole = strncmp(result->entry[0]->note, "the best", 8) == 0 || result->entry[0]->proved;
    } else if (result != NULL) {
        CHECK(strlen(result->entry[0]->reason) > 10);
    }
    stw_result_destroy(result);
    stw_options_destroy(options);
    return out;
}

TEST(exact_fusion, nothing_is_better_on_small_graphs) {
    const stw_rng seeds = stw_rng_create(810);
    int tried = 0, better = 0, than_anneal = 0;
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = 4 + number % 5,
                                                    .device_count = 1 + number % 3,
                                                    .plain = number % 7 == 0,
                                                    .unlike = number % 4 == 1,
                                                    .model = number % 2 == 0});
        test_context("problem %d", number);
        const solved with = solve(s, "exact", ALL, "200000"), without = solve(s, "exact", "placement,schedule", "200000");
        const solved other = solve(s, "anneal", ALL, "400");
        if (with.made && with.whole && without.made && CHECK(other.made)) {
            tried++;
            CHECK_EQ_INT(with.score.reason, STW_VALID);
            CHECK(!stw_score_is_better(&without.score, &with.score));
            CHECK(!stw_score_is_better(&other.score, &with.score));
            better += stw_score_is_better(&with.score, &without.score);
            than_anneal += stw_score_is_better(&with.score, &other.score);
        }
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d problems; better than without groups on %d, than anneal on %d\n", tried, better, than_anneal);
    CHECK(tried > 25 && better > 7);
}

TEST(exact_fusion, says_when_there_is_too_much_to_try) {
    char nodes[20 * 120] = "";
    for (int k = 0; k < 14; k++) {
        const size_t used = strlen(nodes);
        char input[20] = "";
        if (k > 0) snprintf(input, sizeof input, "%d", k - 1);
        snprintf(nodes + used, sizeof nodes - used,
                 "{'id':%d,'name':'n%d','op':'relu','inputs':[%s],'dtype':'u8','shape':[1],'us':{'h200':5}},", k, k, input);
    }
    small *s = small_open((small_text){.nodes = nodes, .device_count = 2}); /* 13 merges */
    stw_error error = {0};
    CHECK(run(s, "exact", options_of("tasks", ALL, "evaluations", "1000", NULL), &error) == NULL);
    CHECK_CONTAINS(error.message, "at most 12 ops");
    CHECK_CONTAINS(error.message, "--tasks");
    stw_result *result = optimize(s, options_of("evaluations", "400", NULL), NULL); /* others take its place */
    if (result != NULL && CHECK(result->best >= 0)) CHECK(count_merged(stw_result_plan(result)) > 10);
    stw_result_destroy(result);
    small_close(s);
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
        for (int32_t d = 0; d < s->machine->device_count; d++)
            s->machine->device[d].memory_bytes = 1 + peak * (7 + number % 3) / 10;
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
    double cancelled_s;
} impatient;

static void observe(void *context, const stw_progress *progress) {
    impatient *o = context;
    if (strcmp(progress->method, o->method) == 0 && ++o->calls == o->most) {
        o->cancelled_s = stw_now_s();
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
        if (o.calls >= o.most) CHECK(stw_now_s() - o.cancelled_s < 3.0);
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
    CHECK_EQ_INT(result->ahead, 32);
    result->ahead = result->draws = 0;
    CHECK_EQ_INT(stw_runner_try_noise(runner, s->plan, fused, result, NULL), STW_OK);
    CHECK_EQ_INT(result->ahead, 0);
    stw_plan_destroy(fused);
    stw_runner_destroy(runner);
    free(result);
    small_close(s);
}
