/* anneal and exact decide about groups; policies place them. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <math.h>
#include <stdio.h>

#include "fused_plans.h"

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
        out.whole = strncmp(result->entry[0]->outcome.note, "the best", 8) == 0 || result->entry[0]->outcome.proved;
    } else if (result != NULL) {
        CHECK(strlen(result->entry[0]->reason) > 10);
    }
    stw_result_destroy(result);
    stw_options_destroy(options);
    return out;
}

/* A chain has no other groups than merges make: `exact` proves its best plan, and the search ends with it. */
TEST(exact_fusion, chains_are_solved) {
    static const char *const nodes[] = {SOURCE(0, "x", "input", 4000000) NODE(1, "a", "relu", "[0]", 4000000, "")
                                            NODE(2, "b", "relu", "[1]", 4000000, "") NODE(3, "c", "relu", "[2]", 4000000, ""),
                                        SOURCE(0, "x", "input", 4000000) NODE(1, "a", "mm", "[0]", 4000000, ",'flops':1e9")
                                            NODE(2, "b", "relu", "[1]", 4000000, "") NODE(3, "c", "relu", "[2]", 4000000, "")};
    for (int k = 0; k < 4; k++) {
        const bool two_ends = k >= 2; /* b is an output as well: groups of two outputs are not tried */
        small *s = small_open((small_text){.nodes = nodes[k % 2], .outputs = two_ends ? "[2,3]" : "[3]", .device_count = 2});
        test_context("chain %d", k);
        const solved with = solve(s, "exact", ALL, "20000"), other = solve(s, "anneal", ALL, "400");
        stw_options *options = options_of("tasks", ALL, "evaluations", "3000", "threads", "1", NULL);
        stw_result *result = NULL;
        CHECK_EQ_INT(stw_optimize(s->simulator, options, NULL, &result, NULL), STW_OK);
        stw_options_destroy(options);
        if (CHECK(with.made && other.made && result != NULL && result->best >= 0)) {
            CHECK(with.score.value <= other.score.value);
            CHECK(result->entry[result->best]->score.value <= with.score.value);
            CHECK_EQ_INT(stw_result_is_optimal(result), !two_ends);
            if (!two_ends) CHECK_STR(result->entry[result->count - 1]->candidate.method, "exact"); /* and that was all */
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
}

/* Rows that are reduced and gone on with, and a chain of plain ops behind: all ways to cut it, one device after the other. */
static void check_all_cuts(const char *text, const stw_machine *machine) {
    stw_graph *graph = NULL;
    stw_costs *costs = NULL;
    stw_simulator *simulator = NULL;
    stw_workspace *workspace = NULL;
    stw_result *result = NULL;
    stw_plan *plan = NULL;
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "chain", NULL, &graph, NULL), STW_OK);
    CHECK_EQ_INT(stw_costs_create(graph, machine, NULL, &costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(costs, &simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(simulator, &workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(graph, machine, &plan, NULL), STW_OK);
    double least = INFINITY;
    for (int32_t set = 0; set < 1 << (graph->op_count - 1); set++) {
        stw_evaluation evaluation = {0};
        for (int32_t k = graph->op_count - 1, last = -1; k >= 0; k--) {
            if (k == graph->op_count - 1 || !(set >> k & 1)) last = graph->topological[k];
            plan->group[graph->topological[k]] = last;
        }
        CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &evaluation, NULL), STW_OK);
        if (evaluation.reason == STW_VALID && evaluation.step_s < least) least = evaluation.step_s;
    }
    stw_options *options = options_of("tasks", ALL, "evaluations", "3000", "threads", "1", NULL);
    CHECK_EQ_INT(stw_optimize(simulator, options, NULL, &result, NULL), STW_OK);
    if (CHECK(result != NULL && result->best >= 0)) {
        CHECK(stw_result_is_optimal(result));
        CHECK(result->entry[result->best]->score.value <= least);
    }
    stw_options_destroy(options);
    stw_result_destroy(result);
    stw_plan_destroy(plan);
    stw_workspace_destroy(workspace);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_graph_destroy(graph);
}

/* Merges are choosier than what may be one kernel in a module: none of the groups that they leave out is better. */
TEST(exact_fusion, chains_of_modules_are_solved) {
    static const char *const machines[] = {"{\"name\": \"plain\", \"kind\": \"h200\"}",
                                           "{\"name\": \"rows\", \"kind\": \"h200\", \"fuses_epilogue\": [\"reduce\"]}"};
    static const int sizes[][2] = {{128, 1024}, {4096, 64}, {4, 2}, {1024, 16384}};
    for (int k = 0; k < 8; k++) {
        char text[1500], described[300];
        const int rows = sizes[k % 4][0], row = sizes[k % 4][1];
        snprintf(text, sizeof text,
                 "HloModule m\n\nsum {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}\n"
                 "ENTRY main {\n  p = f32[%d,%d]{1,0} parameter(0)\n  z = f32[] constant(0)\n"
                 "  a = f32[%d,%d]{1,0} exponential(p)\n  r = f32[%d]{0} reduce(a, z), dimensions={1}, to_apply=sum\n"
                 "  b = f32[%d,%d]{1,0} broadcast(r), dimensions={0}\n  ROOT n = f32[%d,%d]{1,0} negate(b)\n}\n",
                 rows, row, rows, row, rows, rows, row, rows, row);
        snprintf(described, sizeof described, "{\"format\": \"machine\", \"version\": 1, \"name\": \"m\", \"devices\": [%s]}",
                 machines[k / 4]);
        stw_machine *machine = NULL;
        test_context("%d rows of %d on %s", rows, row, machines[k / 4]);
        CHECK_EQ_INT(stw_machine_parse(described, strlen(described), "machine", &machine, NULL), STW_OK);
        if (machine != NULL) check_all_cuts(text, machine);
        stw_machine_destroy(machine);
    }
    test_context("%s", "");
}

TEST(exact_fusion, nothing_is_better_on_small_graphs) {
    const stw_rng seeds = stw_rng_create(810);
    int tried = 0, better = 0, than_anneal = 0;
    for (int number = 0; number < test_cases(40); number++) {
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
            CHECK(with.score.value <= without.score.value); /* what it says is about the value, not about ties */
            CHECK(with.score.value <= other.score.value);
            better += with.score.value < without.score.value;
            than_anneal += with.score.value < other.score.value;
        }
        small_close(s);
    }
    test_context("%s", "");
    printf("  %d problems; better than without groups on %d, than anneal on %d\n", tried, better, than_anneal);
    CHECK(tried > test_cases(25) && better > test_cases(7));
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

/* They improve plans as plans of other groups; what comes of that may be worse. */
TEST(policies, are_never_worse_than_the_plans_before_them) {
    const stw_rng seeds = stw_rng_create(812);
    int policies = 0;
    for (int number = 0; number < test_cases(12); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 300);
        stw_result *result = optimize(s, options_of("tasks", ALL, "evaluations", "1500", "threads", "1", NULL), NULL);
        const stw_score *best = NULL;
        for (int32_t k = 0; result != NULL && k < result->count; k++) {
            const stw_entry *entry = result->entry[k];
            test_context("problem %d, %s", number, entry->candidate.method);
            if (entry->plan == NULL) continue;
            if (best != NULL && strncmp(entry->candidate.method, "go-", 3) == 0) {
                CHECK(!stw_score_is_better(best, &entry->score));
                policies++;
            }
            if (best == NULL || stw_score_is_better(&entry->score, best)) best = &entry->score;
        }
        stw_result_destroy(result);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(policies >= test_cases(12));
}
