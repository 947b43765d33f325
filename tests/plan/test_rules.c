/* plan: what each scheduling rule gives, by hand on small graphs and by its promises on random ones. */
#include "plan/rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "search/search.h"
#include "support/random.h"
#include "test.h"

static void apply(small *s, stw_rule rule) {
    stw_arena arena;
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, &error), STW_OK);
    for (int32_t i = 0; i < s->graph->N; i++) s->plan->priority[i] = 1e9; /* what is left as it was shows */
    CHECK_EQ_INT(stw_rule_apply(rule, s->costs, &s->simulator->unfused, s->plan, arena, &error), STW_OK);
    CHECK_STR(error.message, "");
    stw_arena_destroy(&arena);
}

static double priority_of(const small *s, const char *name) { return s->plan->priority[small_node(s, name)]; }

TEST(rules, have_names) {
    stw_rule rule = STW_RULE_FIFO;
    for (int k = 0; k < STW_RULE_COUNT; k++) {
        CHECK(stw_rule_find(stw_str_of(stw_rule_name[k]), &rule));
        CHECK_EQ_INT(rule, k);
    }
    CHECK(!stw_rule_find(stw_str_of("upward"), &rule));
    CHECK(!stw_rule_find(stw_str_of(""), &rule));
    CHECK(!stw_rule_find(stw_str_of("fifo "), &rule));
}

/* ---- by hand ---- */

/* p -> a(2 us, 4 bytes) -> b(3 us, 1 byte) ----------> d(1 us)
 *               \- v(2 bytes of a) -> c(5 us, 1 byte) -/          c is on d1, all others on d0; a microsecond per byte. */
#define DIAMOND                    \
    SOURCE(0, "p", "parameter", 3) \
    OP(1, "a", "[0]", 4, 2) OP(2, "b", "[1]", 1, 3) VIEW(3, "v", 1, 2) OP(4, "c", "[3]", 1, 5) OP(5, "d", "[2,4]", 1, 1)

static small *open_diamond(void) {
    return small_open((small_text){.nodes = DIAMOND, .device_count = 2, .device = "[0,0,0,0,1,0]"});
}

TEST(rules, fifo) {
    small *s = open_diamond();
    apply(s, STW_RULE_FIFO);
    CHECK(priority_of(s, "a") == 0.0 && priority_of(s, "b") == 0.0 && priority_of(s, "c") == 0.0 && priority_of(s, "d") == 0.0);
    CHECK(priority_of(s, "p") == 0.0);
    small_close(s);
}

TEST(rules, topological) {
    small *s = open_diamond();
    apply(s, STW_RULE_TOPOLOGICAL);
    CHECK_NEAR(priority_of(s, "a"), 0.0, 0.0);
    CHECK_NEAR(priority_of(s, "b"), -1.0, 0.0);
    CHECK_NEAR(priority_of(s, "c"), -2.0, 0.0);
    CHECK_NEAR(priority_of(s, "d"), -3.0, 0.0);
    CHECK_NEAR(priority_of(s, "p"), 0.0, 0.0);
    small_close(s);
    /* The update u waits for the reader r, which has the larger id. */
    s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 2) OP_WITH(1, "u", "[]", 2, 1, ",'updates':0")
                                    OP(2, "r", "[0]", 1, 4)});
    apply(s, STW_RULE_TOPOLOGICAL);
    CHECK_NEAR(priority_of(s, "r"), 0.0, 0.0);
    CHECK_NEAR(priority_of(s, "u"), -1.0, 0.0);
    small_close(s);
}

TEST(rules, upward_rank_counts_transfers_of_the_placement) {
    small *s = open_diamond();
    apply(s, STW_RULE_UPWARD_RANK);
    CHECK_NEAR(priority_of(s, "d"), 1.0, 1e-12);
    CHECK_NEAR(priority_of(s, "b"), 3.0 + 1.0, 1e-12);
    CHECK_NEAR(priority_of(s, "c"), 5.0 + 1.0 + 1.0, 1e-12); /* its byte is sent back */
    CHECK_NEAR(priority_of(s, "a"), 2.0 + 2.0 + 7.0, 1e-12); /* two bytes through the view */
    CHECK_NEAR(priority_of(s, "p"), 11.0, 1e-12);
    s->plan->device[4] = 0;
    apply(s, STW_RULE_UPWARD_RANK);
    CHECK_NEAR(priority_of(s, "a"), 2.0 + 5.0 + 1.0, 1e-12); /* nothing is sent */
    small_close(s);
}

TEST(rules, upward_rank_before_anything_is_placed) {
    small *s = open_diamond();
    double rank[4]; /* a b c d; half of the pairs of devices are one device, so a byte is half a microsecond */
    stw_rule_upward_ranks(s->costs, &s->simulator->unfused, NULL, rank);
    CHECK_NEAR(rank[3], 1.0, 1e-12);
    CHECK_NEAR(rank[1], 3.0 + 0.5 + 1.0, 1e-12);
    CHECK_NEAR(rank[2], 5.0 + 0.5 + 1.0, 1e-12);
    CHECK_NEAR(rank[0], 2.0 + 1.0 + 6.5, 1e-12); /* the way through b: 2 + 2 + 4.5 */
    small_close(s);
}

TEST(rules, upward_rank_takes_means_over_unlike_devices_and_the_links_there_are) {
    small *s = small_open((small_text){.nodes = NODE(0, "a", "relu", "[]", 6, ",'us':{'h200':1,'cpu8':4}")
                                           NODE(1, "b", "relu", "[0]", 1, ",'us':{'h200':2,'cpu8':8}"),
                                       .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "h200", 99) DEVICE("d2", "cpu8", 99),
                                       .device_count = 3,
                                       .links = LINK_WITH("d0", "d1", 2e6, 1, "") LINK_WITH("d2", "d1", 1e6, 4, "")});
    double rank[2];
    stw_rule_upward_ranks(s->costs, &s->simulator->unfused, NULL, rank);
    CHECK_NEAR(rank[1], (2.0 + 2.0 + 8.0) / 3.0, 1e-12);
    /* The two links: latency 2.5 us, 0.75 us per byte; two of three pairs are on different devices. */
    CHECK_NEAR(rank[0], 2.0 + 2.0 / 3.0 * (2.5 + 6.0 * 0.75) + 4.0, 1e-12);
    s->plan->device[1] = 2; /* no link from d0: nothing can be said of the transfer */
    apply(s, STW_RULE_UPWARD_RANK);
    CHECK_NEAR(priority_of(s, "a"), 1.0 + 8.0, 1e-12);
    small_close(s);
}

TEST(rules, upward_rank_counts_waits) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 2) OP(1, "r", "[0]", 1, 4)
                                           OP_WITH(2, "u", "[]", 2, 3, ",'updates':0")});
    apply(s, STW_RULE_UPWARD_RANK);
    CHECK_NEAR(priority_of(s, "u"), 3.0, 1e-12);
    CHECK_NEAR(priority_of(s, "r"), 7.0, 1e-12);
    small_close(s);
}

TEST(rules, critical_path) {
    small *s = open_diamond();
    apply(s, STW_RULE_CRITICAL_PATH);
    CHECK_NEAR(priority_of(s, "a"), 11.0, 1e-4); /* a, its view, c, its byte, d */
    CHECK_NEAR(priority_of(s, "c"), 11.0, 1e-4);
    CHECK_NEAR(priority_of(s, "d"), 11.0, 1e-4);
    CHECK_NEAR(priority_of(s, "b"), 6.0, 1e-4);
    CHECK(priority_of(s, "a") > priority_of(s, "c") && priority_of(s, "c") > priority_of(s, "d"));
    CHECK(priority_of(s, "p") == priority_of(s, "a"));
    small_close(s);
}

TEST(rules, parameters_go_by_their_first_reader) {
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 3) SOURCE(1, "q", "buffer", 3) SOURCE(2, "i", "input", 3) OP(
                                    3, "a", "[0]", 1, 2) OP(4, "b", "[0,2]", 1, 5) VIEW(5, "v", 0, 1) OP(6, "c", "[5]", 1, 7)});
    apply(s, STW_RULE_UPWARD_RANK);
    CHECK_NEAR(priority_of(s, "p"), 7.0, 1e-12); /* c, through the view */
    CHECK_NEAR(priority_of(s, "q"), 0.0, 0.0);   /* nobody reads it */
    CHECK_NEAR(priority_of(s, "i"), 5.0, 1e-12);
    apply(s, STW_RULE_TOPOLOGICAL);
    CHECK_NEAR(priority_of(s, "p"), 0.0, 0.0);
    CHECK_NEAR(priority_of(s, "i"), -1.0, 0.0);
    small_close(s);
}

/* ---- depth-first, by hand ---- */

static int64_t peak_with(small *s, stw_rule rule) {
    apply(s, rule);
    small_run(s);
    return s->result.worst_peak_bytes;
}

/* Two branches with a large tensor each. Width first holds both: x 1 + 100 + 100. Depth first holds one:
 * x 1 + the small end of the other branch, or what is under way, 1 + 100. */
TEST(depth_first, lowers_the_peak) {
    small *s =
        small_open((small_text){.nodes = OP(0, "x", "[]", 1, 1) OP(1, "big1", "[0]", 100, 1) OP(2, "big2", "[0]", 100, 1)
                                    OP(3, "small1", "[1]", 1, 1) OP(4, "small2", "[2]", 1, 1) OP(5, "end", "[3,4]", 1, 1)});
    CHECK_EQ_INT(peak_with(s, STW_RULE_TOPOLOGICAL), 201);
    CHECK_EQ_INT(peak_with(s, STW_RULE_DEPTH_FIRST), 102);
    CHECK_STR(s->timeline, "d0: x[0,1) big1[1,2) small1[2,3) big2[3,4) small2[4,5) end[5,6)\n");
    CHECK_NEAR(priority_of(s, "x"), 0.0, 0.0);
    CHECK_NEAR(priority_of(s, "big2"), -3.0, 0.0);
    CHECK_NEAR(priority_of(s, "end"), -5.0, 0.0);
    small_close(s);
}

/* When v is there, a (10 bytes) and b (5 bytes) can run. Does a free v? Then it goes first, else b does. */
static bool a_goes_first(const char *nodes, const char *outputs) {
    small *s = small_open((small_text){.nodes = nodes, .outputs = outputs});
    apply(s, STW_RULE_DEPTH_FIRST);
    const bool first = priority_of(s, "a") > priority_of(s, "b");
    small_close(s);
    return first;
}
#define B(id) OP_WITH(id, "b", "[]", 5, 1, ",'control':[0]")

TEST(depth_first, the_only_reader_frees) {
    CHECK(a_goes_first(OP(0, "v", "[]", 100, 1) OP(1, "a", "[0]", 10, 1) B(2), NULL));
    CHECK(!a_goes_first(OP(0, "v", "[]", 4, 1) OP(1, "a", "[0]", 10, 1) B(2), NULL)); /* 4 - 10 < -5 */
}

TEST(depth_first, a_reader_through_several_views_frees_once) {
    CHECK(a_goes_first(OP(0, "v", "[]", 100, 1) VIEW(1, "v1", 0, 50) VIEW(2, "v2", 0, 50) OP(3, "a", "[1,2]", 10, 1) B(4), NULL));
    CHECK(a_goes_first(OP(0, "v", "[]", 100, 1) VIEW(1, "v1", 0, 50) OP(2, "a", "[0,1]", 10, 1) B(3), NULL));
    /* It frees 4 bytes, not 4 for each of its three ways to read them. */
    CHECK(!a_goes_first(OP(0, "v", "[]", 4, 1) VIEW(1, "v1", 0, 2) VIEW(2, "v2", 0, 2) OP(3, "a", "[0,1,2]", 10, 1) B(4), NULL));
}

TEST(depth_first, one_of_two_readers_frees_nothing) {
    /* c needs v as well, and 200 bytes: it comes last. */
    CHECK(!a_goes_first(OP(0, "v", "[]", 100, 1) OP(1, "a", "[0]", 10, 1) B(2) OP(3, "c", "[0]", 200, 1), NULL));
}

TEST(depth_first, the_last_of_several_readers_frees) {
    /* c takes 2 bytes and goes first; then a, which reads v in three ways, is the last that needs v. */
    CHECK(a_goes_first(OP(0, "v", "[]", 100, 1) VIEW(1, "v1", 0, 50) VIEW(2, "v2", 0, 50) OP(3, "a", "[0,1,2]", 10, 1) B(4)
                           OP(5, "c", "[1]", 2, 1),
                       NULL));
}

TEST(depth_first, a_reader_through_several_views_leaves_once) {
    /* r reads v in two ways and goes first; a and d still need v, so a frees nothing. */
    CHECK(!a_goes_first(OP(0, "v", "[]", 100, 1) VIEW(1, "v1", 0, 50) VIEW(2, "v2", 0, 50) OP(3, "r", "[1,2]", 1, 1)
                            OP(4, "a", "[0]", 10, 1) B(5) OP(6, "d", "[0]", 200, 1),
                        NULL));
}

TEST(depth_first, what_is_kept_is_not_freed) {
    CHECK(!a_goes_first(OP(0, "v", "[]", 100, 1) OP(1, "a", "[0]", 10, 1) B(2), "[0]"));
    CHECK(!a_goes_first(OP(0, "v", "[]", 100, 1) VIEW(1, "v1", 0, 50) OP(2, "a", "[0]", 10, 1) B(3), "[1]")); /* a view of it */
}

TEST(depth_first, updates_take_and_free_nothing) {
    /* a writes the parameter w in place, so it takes nothing, and frees v: 1 > -5, though w has 100 bytes. */
    CHECK(a_goes_first(
        OP(0, "v", "[]", 1, 1) SOURCE(1, "w", "parameter", 100) OP_WITH(2, "a", "[0]", 100, 1, ",'updates':1") B(3), NULL));
    /* v is an update: to read it last frees nothing. */
    CHECK(!a_goes_first(SOURCE(0, "w", "parameter", 100) OP_WITH(1, "v", "[0]", 100, 1, ",'updates':0") OP(2, "a", "[1]", 10, 1)
                            OP_WITH(3, "b", "[]", 5, 1, ",'control':[1]"),
                        NULL));
}

TEST(depth_first, parameters_are_not_freed) {
    CHECK(!a_goes_first(OP(0, "v", "[]", 1, 1) SOURCE(1, "w", "parameter", 100) OP(2, "a", "[0,1]", 10, 1) B(3), NULL));
}

/* Terms of a sum that all could be there at once, large ones: in the order in which they are added, only two are. */
TEST(depth_first, terms_of_a_sum_come_when_they_are_added) {
    small *s = small_open((small_text){.nodes = OP(0, "x", "[]", 1, 1) OP(1, "t1", "[0]", 50, 1) OP(2, "t2", "[0]", 50, 1)
                                           OP(3, "t3", "[0]", 50, 1) OP(4, "t4", "[0]", 50, 1) OP(5, "s2", "[1,2]", 50, 1)
                                               OP(6, "s3", "[5,3]", 50, 1) OP(7, "s4", "[6,4]", 50, 1)});
    CHECK_EQ_INT(peak_with(s, STW_RULE_TOPOLOGICAL), 250); /* four terms and a sum; x is gone */
    CHECK_EQ_INT(peak_with(s, STW_RULE_DEPTH_FIRST), 151); /* two terms, a sum, x */
    CHECK_STR(s->timeline, "d0: x[0,1) t1[1,2) t2[2,3) s2[3,4) t3[4,5) s3[5,6) t4[6,7) s4[7,8)\n");
    small_close(s);
}

/* ---- on random problems ---- */

static small *open_problem(stw_rng *rng, int number) {
    small *s = random_open(rng, (random_shape){.nodes = (int32_t)stw_rng_below(rng, 60),
                                               .device_count = 1 + number % 4,
                                               .plain = number % 7 == 0,
                                               .unlike = number % 2 == 1,
                                               .buses = number % 3 == 0,
                                               .model = number % 5 == 0});
    random_placement(rng, s->simulator, s->plan);
    return s;
}

/* Data and waits: what comes after has no more, or (`strictly`) less. */
static void check_edges(const small *s, bool strictly) {
    const stw_graph *graph = s->graph;
    for (int32_t op = 0; op < graph->N; op++) {
        if (graph->kind[op] != STW_NODE_OP) continue;
        for (int64_t e = graph->read_start[op]; e < graph->read_start[op + 1]; e++) {
            const int32_t before = graph->read[e].node;
            CHECK(s->plan->priority[before] >= s->plan->priority[op]); /* sources as well */
            if (strictly && graph->kind[before] == STW_NODE_OP) CHECK(s->plan->priority[before] > s->plan->priority[op]);
        }
        for (int64_t w = graph->wait_start[op]; w < graph->wait_start[op + 1]; w++) {
            CHECK(s->plan->priority[graph->wait[w]] >= s->plan->priority[op] + (strictly ? 1.0 : 0.0));
        }
    }
}

static void check_sources(const small *s) {
    const stw_graph *graph = s->graph;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!stw_node_is_resident(graph->kind[i])) continue;
        double most = -INFINITY;
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1]; r++) {
            most = fmax(most, s->plan->priority[graph->reader[r].node]);
        }
        CHECK_NEAR(s->plan->priority[i], isinf(most) ? 0.0 : most, 0.0);
    }
}

/* Each of 0, -1, ..., -(T - 1) once. */
static void check_permutation(const small *s) {
    const int32_t T = s->simulator->unfused.T;
    bool *seen = calloc((size_t)T + 1, sizeof *seen);
    for (int32_t t = 0; t < T; t++) {
        const double place = -s->plan->priority[s->simulator->unfused.task_node[t]];
        if (!CHECK(place >= 0.0 && place < T && place == floor(place)) || !CHECK(!seen[(int32_t)place])) break;
        seen[(int32_t)place] = true;
    }
    free(seen);
}

TEST(rules, promises_on_random_problems) {
    const stw_rng seeds = stw_rng_create(501);
    for (int number = 0; number < 150; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        for (int rule = 0; rule < STW_RULE_COUNT; rule++) {
            test_context("problem %d, %s", number, stw_rule_name[rule]);
            apply(s, (stw_rule)rule);
            for (int32_t k = 0; k < s->graph->op_count; k++) CHECK(fabs(s->plan->priority[s->graph->topological[k]]) < 1e9);
            check_sources(s);
            if (rule == STW_RULE_UPWARD_RANK) check_edges(s, false);
            if (rule == STW_RULE_TOPOLOGICAL || rule == STW_RULE_DEPTH_FIRST) {
                check_edges(s, true);
                check_permutation(s);
            }
            small_run(s);
            CHECK_EQ_INT(s->result.reason, STW_VALID);
        }
        small_close(s);
    }
    test_context("%s", "");
}

TEST(rules, ranks_without_devices_on_random_problems) {
    const stw_rng seeds = stw_rng_create(502);
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = open_problem(&rng, number);
        const stw_tasks *tasks = &s->simulator->unfused;
        double *rank = calloc((size_t)tasks->T + 1, sizeof *rank);
        test_context("problem %d", number);
        stw_rule_upward_ranks(s->costs, tasks, NULL, rank);
        for (int32_t i = 0; i < s->graph->N; i++) s->plan->priority[i] = INFINITY;
        for (int32_t t = 0; t < tasks->T; t++) s->plan->priority[tasks->task_node[t]] = rank[t];
        check_edges(s, false);
        free(rank);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- a real graph ---- */

TEST(depth_first, lowers_the_peak_of_a_language_model) {
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *simulator;
    stw_plan *plan;
    stw_workspace *workspace;
    stw_error error = {0};
    int64_t peak[STW_RULE_COUNT] = {0};
    const bool open = stw_graph_open(STW_SOURCE_DIR "/data/graphs/rnnlm-8.json.gz", NULL, &graph, &error) == STW_OK &&
                      stw_machine_open("h200x1", &machine, &error) == STW_OK &&
                      stw_costs_create(graph, machine, NULL, &costs, &error) == STW_OK &&
                      stw_simulator_create(costs, &simulator, &error) == STW_OK &&
                      stw_plan_create(graph, machine, &plan, &error) == STW_OK &&
                      stw_workspace_create(simulator, &workspace, &error) == STW_OK;
    CHECK_STR(error.message, "");
    if (!CHECK(open)) return;
    for (int rule = 0; rule < STW_RULE_COUNT; rule++) {
        stw_evaluation result;
        CHECK_EQ_INT(stw_rule_apply((stw_rule)rule, costs, &simulator->unfused, plan, simulator->arena, &error), STW_OK);
        CHECK_EQ_INT(stw_simulate(simulator, plan, workspace, &result, &error), STW_OK);
        CHECK_EQ_INT(result.reason, STW_VALID);
        peak[rule] = result.worst_peak_bytes;
    }
    CHECK(peak[STW_RULE_DEPTH_FIRST] < peak[STW_RULE_TOPOLOGICAL]);
    CHECK(peak[STW_RULE_DEPTH_FIRST] < peak[STW_RULE_FIFO]);
    stw_workspace_destroy(workspace);
    stw_plan_destroy(plan);
    stw_simulator_destroy(simulator);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}
