/* method/windows: from a plan to a valid one that is no worse, within its budget, and better where there is something to gain;
 * groups stay; the same from any number of threads; with charges and without; and what it is not for. */
#define _POSIX_C_SOURCE 200809L /* mkstemp, open_memstream */
#include <stdio.h>

#include "fused_plans.h"
#include "generate/generate.h"
#include "graph/graph.h"

static void add_charges(stw_machine *machine) {
    for (int32_t k = 0; k < machine->device_count * machine->device_count; k++) {
        machine->link[k].send_us = (double)(k % 3);
        machine->link[k].receive_us = (double)(k % 4);
    }
    machine->charges = true;
}

static stw_graph *generate_layered(void) {
    const stw_family *family = stw_family_find("layered");
    int64_t value[STW_PARAMETER_COUNT];
    stw_arena arena;
    stw_generated made = {0};
    stw_graph *graph = NULL;
    char *text = NULL;
    size_t size = 0;
    stw_family_standard(family, value);
    value[STW_LAYERS] = value[STW_STEPS] = 16;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_generate(family, value, &arena, &made, NULL), STW_OK);
    FILE *file = open_memstream(&text, &size);
    CHECK_EQ_INT(stw_step_write(made.step, made.name, stw_str_of(family->name), file, NULL), STW_OK);
    fclose(file);
    CHECK_EQ_INT(stw_graph_parse(text, size, family->name, NULL, &graph, NULL), STW_OK);
    free(text);
    stw_arena_destroy(&arena);
    return graph;
}

/* A few thousand ops: several windows. Everything is on device 0. */
static small *open_layered(bool charges) {
    small *s = calloc(1, sizeof *s);
    if (s == NULL) exit(2);
    s->graph = generate_layered();
    CHECK_EQ_INT(stw_machine_open("0.1/h200x4", &s->machine, NULL), STW_OK);
    if (charges) add_charges(s->machine);
    CHECK_EQ_INT(stw_costs_create(s->graph, s->machine, NULL, &s->costs, NULL), STW_OK);
    CHECK_EQ_INT(stw_simulator_create(s->costs, &s->simulator, NULL), STW_OK);
    CHECK_EQ_INT(stw_workspace_create(s->simulator, &s->workspace, NULL), STW_OK);
    CHECK_EQ_INT(stw_plan_create(s->graph, s->machine, &s->plan, NULL), STW_OK);
    return s;
}

static void check_equal(const stw_plan *a, const stw_plan *b) {
    const size_t N = (size_t)a->graph->N;
    CHECK(memcmp(a->device, b->device, N * sizeof *a->device) == 0);
    CHECK(memcmp(a->priority, b->priority, N * sizeof *a->priority) == 0);
    CHECK(memcmp(a->group, b->group, N * sizeof *a->group) == 0);
    for (int32_t d = 0; d < a->machine->device_count; d++) {
        if (!CHECK((a->order[d] == NULL) == (b->order[d] == NULL)) || a->order[d] == NULL) continue;
        if (!CHECK_EQ_INT(a->order_count[d], b->order_count[d]) || a->order_count[d] == 0) continue;
        CHECK(memcmp(a->order[d], b->order[d], (size_t)a->order_count[d] * sizeof *a->order[d]) == 0);
    }
}

typedef struct {
    const char *tasks, *fusion; /* NULL: no rule */
    int64_t evaluations;
} setting;

static stw_result *run_windows(const small *s, const char *from, const char *threads, setting how) {
    char evaluations[24];
    stw_result *result = NULL;
    snprintf(evaluations, sizeof evaluations, "%lld", (long long)how.evaluations);
    stw_options *options = options_of("tasks", how.tasks, "fusion", how.fusion, "from", from, "evaluations", evaluations,
                                      "threads", threads, "seed", "5", NULL);
    CHECK_EQ_INT(stw_compare(s->simulator, "windows", options, NULL, &result, NULL), STW_OK);
    stw_options_destroy(options);
    return result;
}

/* From the problem's own plan, in one thread and in three; by a rule the groups may become others. Returns whether the plan
 * became better. */
static bool refine(const small *s, setting how) {
    char path[] = "/tmp/stowage-test-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    CHECK_EQ_INT(stw_plan_write(s->simulator, s->plan, path, NULL), STW_OK);
    stw_result *one = run_windows(s, path, "1", how), *three = run_windows(s, path, "3", how);
    unlink(path);
    const stw_score before = score_of(s, s->plan);
    bool better = false;
    CHECK_EQ_INT(before.reason, STW_VALID);
    if (CHECK(one->entry[0]->plan != NULL) && CHECK(three->entry[0]->plan != NULL)) {
        const stw_plan *plan = one->entry[0]->plan;
        const stw_score after = score_of(s, plan);
        CHECK_EQ_INT(after.reason, STW_VALID);
        if (how.fusion == NULL) CHECK(after.value <= before.value && have_same(plan, s->plan, STW_TASK_FUSION));
        CHECK(one->entry[0]->candidate.evaluations <= how.evaluations);
        check_equal(plan, three->entry[0]->plan);
        better = after.value < before.value;
    }
    stw_result_destroy(one);
    stw_result_destroy(three);
    return better;
}

TEST(windows, improves_plans_of_thousands_of_ops) {
    for (int charges = 0; charges < 2; charges++) {
        small *s = open_layered(charges == 1);
        CHECK(s->graph->op_count > 2048 && s->graph->op_count < 8192);
        for (int fused = 0; fused < 2; fused++) {
            const char *tasks = fused == 1 ? ALL : "placement,schedule";
            test_context("%s, %s charges", tasks, charges == 1 ? "with" : "without");
            stw_plan *start = run(s, "etf", options_of("tasks", tasks, "evaluations", "10", NULL), NULL);
            CHECK_EQ_INT(stw_plan_assign(s->plan, start, NULL), STW_OK);
            CHECK((count_merged(start) > 0) == (fused == 1));
            stw_plan_destroy(start);
            CHECK(refine(s, (setting){tasks, NULL, 400}));
        }
        small_close(s);
    }
    test_context("%s", "");
}

TEST(windows, is_never_worse_on_small_graphs) {
    const stw_rng seeds = stw_rng_create(811);
    int better = 0;
    for (int number = 0; number < test_cases(40); number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number, 120);
        const char *rule = number % 3 == 0 ? "none" : number % 3 == 1 ? "default" : "reverse-post-order";
        const bool fixed = number % 4 == 2; /* the rule is asked for */
        test_context("problem %d", number);
        if (number % 2 == 0) add_charges(s->machine);
        random_placement(&rng, s->simulator, s->plan);
        random_priorities(&rng, s->plan);
        CHECK_EQ_INT(stw_plan_fuse(s->plan, s->costs, rule, NULL), STW_OK);
        better += refine(s, (setting){number % 4 == 3 ? "placement,schedule" : ALL, fixed ? rule : NULL, 20 + 20 * (number % 8)});
        small_close(s);
    }
    test_context("%s", "");
    CHECK(better > test_cases(20));
}

TEST(windows, says_what_it_is_not_for) {
    static const char *const settings[][2] = {
        {"objective", "memory"}, {"objective", "throughput"}, {"tasks", "schedule"}, {"rule", "fifo"}};
    stw_rng rng = stw_rng_create(812);
    small *s = random_open(&rng, (random_shape){.nodes = 20, .device_count = 2, .plain = true});
    for (int k = 0; k < 4; k++) {
        stw_error error = {0};
        CHECK(run(s, "windows", options_of("evaluations", "20", settings[k][0], settings[k][1], NULL), &error) == NULL);
        CHECK(strstr(error.message, "placement and order together, for the step time") != NULL);
    }
    small_close(s);
    s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 3) OP(1, "b", "[]", 1, 3), .device_count = 2, .links = LINK("d0", "d1")});
    stw_error error = {0};
    CHECK(run(s, "windows", options_of("evaluations", "20", NULL), &error) == NULL);
    CHECK(strstr(error.message, "links between all devices") != NULL);
    small_close(s);
}

/* Nothing to run, and a single task. */
TEST(windows, empty_and_tiny_graphs) {
    static const char *const nodes[] = {SOURCE(0, "x", "input", 4), OP(0, "a", "[]", 1, 3)};
    for (int k = 0; k < 2; k++) {
        small *s = small_open((small_text){.nodes = nodes[k], .device_count = 2});
        stw_plan *plan = run(s, "windows", options_of("evaluations", "100", NULL), NULL);
        if (CHECK(plan != NULL)) CHECK_EQ_INT(score_of(s, plan).reason, STW_VALID);
        stw_plan_destroy(plan);
        small_close(s);
    }
}
