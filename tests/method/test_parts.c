/* method/metis*, method/expert*: partitions of hand-made graphs, stages against all others, gradients and their forward ops. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "method/expert/stages.h"
#include "method/method.h"
#include "method/metis/part_graph.h"
#include "support/random.h"
#include "test.h"

/* Replaces the problem's plan by the method's and runs it; false if there is none. `evaluations` and `threads` as options. */
static bool run_method(small *s, const char *method, const char *evaluations, const char *threads) {
    stw_plan *plan = NULL;
    stw_error error = {0};
    stw_options *options;
    if (!CHECK_EQ_INT(stw_options_create(&options, &error), STW_OK)) return false;
    CHECK_EQ_INT(stw_options_set(options, "evaluations", evaluations, &error), STW_OK);
    CHECK_EQ_INT(stw_options_set(options, "threads", threads, &error), STW_OK);
    const stw_status status = stw_method_run(method, s->simulator, options, &plan, &error);
    stw_options_destroy(options);
    CHECK_STR(error.message, "");
    if (!CHECK_EQ_INT(status, STW_OK)) return false;
    stw_plan_destroy(s->plan);
    s->plan = plan;
    small_run(s);
    return true;
}

static const char *const both[] = {"metis", "expert"};
static bool can_run(const char *method) { return strcmp(method, "metis") != 0 || stw_metis_is_there(); }

static stw_arena new_arena(void) {
    stw_arena arena = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    return arena;
}

/* ---- METIS itself ---- */

enum { HALF = 12, VERTICES = 2 * HALF };

/* Two halves, each vertex joined to all of its half at `inner` and to its twin in the other half at `outer`; even numbers are
 * one half. All weights 1 times `scale`. */
static stw_part_graph two_halves(double inner, double outer, stw_arena *arena) {
    stw_part_graph graph = {.M = VERTICES};
    graph.start = STW_NEW(arena, int64_t, VERTICES + 1);
    graph.neighbour = STW_NEW(arena, int32_t, VERTICES * HALF);
    graph.cost = STW_NEW(arena, double, VERTICES *HALF);
    int64_t count = 0;
    for (int32_t v = 0; v < VERTICES; v++) {
        graph.start[v] = count;
        for (int32_t w = 0; w < VERTICES; w++) {
            if (w == v || (v % 2 != w % 2 && v / 2 != w / 2)) continue;
            graph.neighbour[count] = w;
            graph.cost[count++] = v % 2 == w % 2 ? inner : outer;
        }
    }
    graph.start[VERTICES] = count;
    return graph;
}

static stw_part_weights equal_weights(double weight, int32_t K, stw_arena *arena) {
    stw_part_weights weights = {.K = K, .weight = STW_NEW(arena, double, VERTICES *K)};
    for (int32_t k = 0; k < VERTICES * K; k++) weights.weight[k] = weight;
    return weights;
}

static const double halves[] = {0.5, 0.5};

static void check_halves_found(const stw_part_graph *graph, const stw_part_weights *weights, stw_arena arena) {
    for (int how = 0; how < 3; how++) {
        int32_t part[VERTICES];
        const stw_part_call call = {.graph = graph,
                                    .weights = weights,
                                    .parts = 2,
                                    .share = halves,
                                    .imbalance = 1.02,
                                    .recursive = how == 1,
                                    .volume = how == 2,
                                    .seed = 7};
        stw_error error = {0};
        if (!CHECK_EQ_INT(stw_metis_partition(&call, part, arena, &error), STW_OK)) return;
        for (int32_t v = 2; v < VERTICES; v++) CHECK_EQ_INT(part[v], part[v % 2]);
        CHECK(part[0] != part[1]);
    }
}

TEST(metis, finds_the_cut_between_two_halves) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    stw_arena arena = new_arena();
    const stw_part_graph graph = two_halves(10.0, 1.0, &arena);
    const stw_part_weights one = equal_weights(1.0, 1, &arena), three = equal_weights(1.0, 3, &arena);
    check_halves_found(&graph, &one, arena);
    check_halves_found(&graph, &three, arena);
    stw_arena_destroy(&arena);
}

TEST(metis, weights_beyond_32_bits) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    stw_arena arena = new_arena();
    static const double scales[] = {2147483647.0, 1e18, 1e300, 1e-300};
    for (size_t k = 0; k < sizeof scales / sizeof scales[0]; k++) {
        const stw_part_graph graph = two_halves(10.0 * scales[k], scales[k], &arena);
        const stw_part_weights weights = equal_weights(scales[k], 1, &arena);
        test_context("scale %g", scales[k]);
        check_halves_found(&graph, &weights, arena);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

/* A device so slow that its share vanishes in single precision. */
TEST(metis, a_share_of_next_to_nothing) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    stw_arena arena = new_arena();
    const stw_part_graph graph = two_halves(10.0, 1.0, &arena);
    const stw_part_weights weights = equal_weights(1.0, 1, &arena);
    for (int how = 0; how < 2; how++) {
        int32_t part[VERTICES];
        const stw_part_call call = {.graph = &graph,
                                    .weights = &weights,
                                    .parts = 2,
                                    .share = (const double[]){1.0, 1e-60},
                                    .imbalance = 1.1,
                                    .recursive = how == 1};
        if (!CHECK_EQ_INT(stw_metis_partition(&call, part, arena, NULL), STW_OK)) break;
        for (int32_t v = 0; v < graph.M; v++) CHECK(part[v] == 0 || part[v] == 1);
    }
    stw_arena_destroy(&arena);
}

TEST(metis, no_edges_no_weights_few_vertices) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    stw_arena arena = new_arena();
    int64_t start[VERTICES + 1] = {0};
    double share[VERTICES];
    for (int32_t k = 0; k < VERTICES; k++) share[k] = 1.0;
    for (int32_t parts = 2; parts <= VERTICES; parts++) {
        for (int how = 0; how < 4; how++) {
            int32_t part[VERTICES], neighbour[1];
            double cost[1], equal[VERTICES];
            const stw_part_graph graph = {.M = VERTICES - 4, .start = start, .neighbour = neighbour, .cost = cost};
            const stw_part_weights weights = equal_weights(how < 2 ? 1.0 : 0.0, 1 + how % 2, &arena);
            for (int32_t p = 0; p < parts; p++) equal[p] = share[p] / parts;
            const stw_part_call call = {.graph = &graph,
                                        .weights = &weights,
                                        .parts = parts,
                                        .share = equal,
                                        .imbalance = 1.1,
                                        .recursive = how % 2 == 1};
            if (!CHECK_EQ_INT(stw_metis_partition(&call, part, arena, NULL), STW_OK)) return;
            for (int32_t v = 0; v < graph.M; v++) CHECK(part[v] >= 0 && part[v] < parts);
        }
    }
    stw_arena_destroy(&arena);
}

TEST(metis, parts_get_their_share) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    enum { RING = 64 };
    stw_arena arena = new_arena();
    int64_t start[RING + 1];
    int32_t neighbour[2 * RING], part[RING], size[2] = {0, 0};
    double cost[2 * RING], weight[RING];
    for (int32_t v = 0; v <= RING; v++) start[v] = 2 * v;
    for (int32_t v = 0; v < RING; v++) {
        neighbour[2 * v] = (v + 1) % RING;
        neighbour[2 * v + 1] = (v + RING - 1) % RING;
        cost[2 * v] = cost[2 * v + 1] = weight[v] = 1.0;
    }
    const stw_part_graph graph = {.M = RING, .start = start, .neighbour = neighbour, .cost = cost};
    const stw_part_weights weights = {.K = 1, .weight = weight};
    const double share[] = {0.75, 0.25};
    const stw_part_call call = {
        .graph = &graph, .weights = &weights, .parts = 2, .share = share, .imbalance = 1.02, .recursive = true, .seed = 1};
    CHECK_EQ_INT(stw_metis_partition(&call, part, arena, NULL), STW_OK);
    for (int32_t v = 0; v < RING; v++) size[part[v]]++;
    CHECK_NEAR(size[0], 48, 1);
    CHECK_NEAR(size[1], 16, 1);
    stw_arena_destroy(&arena);
}

/* ---- copies of METIS ---- */

enum { WIDE = 40, GRID = WIDE * WIDE, CALLS = 96, GRID_PARTS = 5 };

typedef struct {
    stw_part_graph graph;
    stw_part_weights weights;
    double share[GRID_PARTS];
    stw_pool *pool;
    stw_metis_copies *copies;
    int32_t part[CALLS][GRID];
} grid;

/* A torus whose edges cost 1 to 7, so that there is much to choose. */
static void make_grid(grid *g, stw_arena *arena) {
    stw_part_graph *graph = &g->graph;
    *graph = (stw_part_graph){.M = GRID, .start = STW_NEW(arena, int64_t, GRID + 1)};
    graph->neighbour = STW_NEW(arena, int32_t, 4 * GRID);
    graph->cost = STW_NEW(arena, double, 4 * GRID);
    g->weights = (stw_part_weights){.K = 2, .weight = STW_NEW(arena, double, 2 * GRID)};
    for (int32_t v = 0; v < GRID; v++) {
        const int32_t x = v % WIDE, y = v / WIDE;
        const int32_t next[] = {y * WIDE + (x + 1) % WIDE, y * WIDE + (x + WIDE - 1) % WIDE, (y + 1) % WIDE * WIDE + x,
                                (y + WIDE - 1) % WIDE * WIDE + x};
        graph->start[v] = 4 * v;
        for (int k = 0; k < 4; k++) {
            graph->neighbour[4 * v + k] = next[k];
            graph->cost[4 * v + k] = 1.0 + (v * next[k] + v + next[k]) % 7;
        }
        g->weights.weight[2 * v] = 1.0 + v % 3;
        g->weights.weight[2 * v + 1] = 1.0 + v % 5;
    }
    graph->start[GRID] = 4 * GRID;
    for (int k = 0; k < GRID_PARTS; k++) g->share[k] = 1.0 / GRID_PARTS;
}

static stw_status divide_grid(void *context, int64_t index, int32_t worker, stw_error *error) {
    grid *g = context;
    stw_arena arena;
    const stw_part_call call = {.graph = &g->graph,
                                .weights = &g->weights,
                                .parts = GRID_PARTS,
                                .share = g->share,
                                .imbalance = 1.05,
                                .recursive = index % 3 != 0,
                                .volume = index % 3 == 1,
                                .seed = (int32_t)index,
                                .pool = g->pool,
                                .copies = g->copies};
    (void)worker;
    TRY(stw_arena_create_sized(&arena, 1 << 24, error));
    const stw_status status = stw_metis_partition(&call, g->part[index], arena, error);
    stw_arena_destroy(&arena);
    return status;
}

static void on_signal(int number) { (void)number; }

/* Whichever copy it is and whatever the others do, a call finds what METIS alone finds; signals are handled as before. */
TEST(metis, copies_find_the_same) {
    if (!stw_metis_is_there()) SKIP("built without METIS");
    grid *alone = calloc(1, sizeof *alone), *beside = calloc(1, sizeof *beside);
    stw_arena arena = new_arena();
    stw_error error = {0};
    struct sigaction ours, before, after;
    make_grid(alone, &arena);
    make_grid(beside, &arena);
    CHECK_EQ_INT(stw_metis_copies_open(8, &beside->copies, &error), STW_OK);
    const int32_t copies = stw_metis_copies_count(beside->copies);
    CHECK_EQ_INT(stw_pool_create(8, &beside->pool, &error), STW_OK);
    memset(&ours, 0, sizeof ours);
    ours.sa_handler = on_signal;
    CHECK(sigaction(SIGTERM, &ours, &before) == 0);
    for (int64_t k = 0; k < CALLS; k++) CHECK_EQ_INT(divide_grid(alone, k, 0, &error), STW_OK);
    CHECK_EQ_INT(stw_pool_try(beside->pool, CALLS, divide_grid, beside, &error), STW_OK);
    CHECK(memcmp(alone->part, beside->part, sizeof alone->part) == 0);
    CHECK(memcmp(alone->part[0], alone->part[3], sizeof alone->part[0]) != 0); /* seeds matter */
    CHECK(sigaction(SIGTERM, &before, &after) == 0 && after.sa_handler == on_signal);
    stw_pool_destroy(beside->pool);
    stw_metis_copies_close(beside->copies);
    stw_arena_destroy(&arena);
    free(alone);
    free(beside);
    if (copies == 0) SKIP("no copies of METIS can be loaded here; the one that there is took its turns");
}

TEST(metis, one_thread_needs_no_copies) {
    stw_metis_copies *copies = NULL;
    CHECK_EQ_INT(stw_metis_copies_open(1, &copies, NULL), STW_OK);
    CHECK_EQ_INT(stw_metis_copies_count(copies), 0);
    stw_metis_copies_close(copies);
    stw_metis_copies_close(NULL);
}

/* 0 and 1 cost 9, 1 and 2 cost 8, 2 and 3 cost 1; each vertex is a quarter of the work. */
TEST(metis, what_is_too_dear_to_cut_is_glued) {
    stw_arena arena = new_arena();
    int64_t start[] = {0, 1, 3, 5, 6};
    int32_t neighbour[] = {1, 0, 2, 1, 3, 2}, piece[4], pieces = 0;
    double cost[] = {9, 9, 8, 8, 1, 1}, work[] = {0.25, 0.25, 0.25, 0.25};
    const stw_part_graph graph = {.M = 4, .start = start, .neighbour = neighbour, .cost = cost};
    const stw_part_weights weights = {.K = 1, .weight = work};
    CHECK_EQ_INT(stw_part_graph_glue(&graph, work, 5.0, 0.5, &arena, piece, &pieces, NULL), STW_OK);
    CHECK_EQ_INT(pieces, 3); /* 2 would make it three quarters */
    CHECK_EQ_INT(piece[0], piece[1]);
    CHECK(piece[1] != piece[2] && piece[2] != piece[3]);
    CHECK_EQ_INT(stw_part_graph_glue(&graph, work, 5.0, 0.8, &arena, piece, &pieces, NULL), STW_OK);
    CHECK_EQ_INT(pieces, 2);
    stw_part_graph glued;
    stw_part_weights sums;
    if (CHECK_EQ_INT(stw_part_graph_contract(&graph, &weights, piece, pieces, &arena, &glued, &sums, NULL), STW_OK)) {
        CHECK_EQ_INT(glued.start[2], 2); /* one edge, from both sides */
        CHECK_EQ_INT(glued.neighbour[0], 1);
        CHECK_NEAR(glued.cost[0], 1, 0);
        CHECK_NEAR(sums.weight[piece[0]], 0.75, 1e-12);
        CHECK_NEAR(sums.weight[piece[3]], 0.25, 1e-12);
    }
    stw_arena_destroy(&arena);
}

/* a is sent to b and c; b's copy is one view of 3 of its 8 bytes, c's two views of 2 and 7 bytes: not more than the whole. */
TEST(metis, edges_cost_what_is_sent) {
    const char *const nodes = OP(0, "a", "[]", 8, 1) VIEW(1, "v3", 0, 3) VIEW(2, "v2", 0, 2) VIEW(3, "v7", 0, 7)
        OP(4, "b", "[1,1]", 1, 1) OP(5, "c", "[2,3]", 1, 1);
    small *s = small_open((small_text){.nodes = nodes});
    stw_arena arena = new_arena();
    stw_unit_levels levels;
    CHECK_EQ_INT(stw_units_build(s->graph, s->costs->us[0], NULL, 0, &arena, &levels, NULL), STW_OK);
    const int32_t *of = levels.level[0].of;
    static const struct {
        stw_net_shape shape;
        double a_b, a_c, b_c;
    } expected[] = {{STW_NET_STAR, 10 + 3, 10 + 8, 0}, {STW_NET_SHARE, 13 / 2.0, 18 / 2.0, 0}, {STW_NET_PATH, 0, 18, 13}};
    for (int k = 0; k < 3; k++) {
        const stw_link_mean link = {.us_per_byte = 1.0};
        const stw_edge_cost cost = {10.0, &link, 1.0, expected[k].shape};
        stw_part_graph graph;
        double found[3] = {0, 0, 0};
        if (!CHECK_EQ_INT(stw_part_graph_build(s->graph, &levels.level[0], &cost, &arena, &graph, NULL), STW_OK)) break;
        CHECK_EQ_INT(graph.M, 3);
        CHECK_EQ_INT(graph.start[3], 4);
        for (int32_t v = 0; v < 3; v++) {
            for (int64_t e = graph.start[v]; e < graph.start[v + 1]; e++) {
                const int32_t w = graph.neighbour[e];
                const int32_t index = v != of[0] && w != of[0] ? 2 : v == of[4] || w == of[4] ? 0 : 1;
                found[index] += graph.cost[e] / 2; /* each is there twice */
            }
        }
        test_context("shape %d", k);
        if (k == 2) { /* the path begins at a and takes one of the two first */
            CHECK_NEAR(found[2] + found[0] + found[1], 13 + 18, 1e-9);
            CHECK(found[2] > 0.0);
            continue;
        }
        CHECK_NEAR(found[0], expected[k].a_b, 1e-9);
        CHECK_NEAR(found[1], expected[k].a_c, 1e-9);
        CHECK_NEAR(found[2], expected[k].b_c, 1e-9);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
    small_close(s);
}

/* a and b exchange much, c and d do. d0 and d2 are on one host, d1 and d3 on the other. */
TEST(metis, parts_that_talk_go_to_one_host) {
#define FAST(a, b) LINK_WITH(a, b, 1e9, 1, "")
#define SLOW(a, b) LINK_WITH(a, b, 1e6, 5, "")
    const char *const links = FAST("d0", "d2") FAST("d2", "d0") FAST("d1", "d3") FAST("d3", "d1") SLOW("d0", "d1")
        SLOW("d1", "d0") SLOW("d0", "d3") SLOW("d3", "d0") SLOW("d2", "d1") SLOW("d1", "d2") SLOW("d2", "d3") SLOW("d3", "d2");
    const char *const nodes = OP(0, "a", "[]", 800, 1) OP(1, "b", "[0]", 1, 1) OP(2, "c", "[1]", 900, 1) OP(3, "d", "[2]", 1, 1);
    small *s = small_open((small_text){.nodes = nodes, .device_count = 4, .links = links});
    stw_arena arena = new_arena();
    stw_unit_levels levels;
    stw_device_set sets[STW_MAX_DEVICE_SETS];
    int32_t device[STW_MAX_DEVICES], part[4];
    CHECK_EQ_INT(stw_units_build(s->graph, s->costs->us[0], NULL, 0, &arena, &levels, NULL), STW_OK);
    CHECK_EQ_INT(stw_device_sets(s->costs, sets), 1);
    CHECK_EQ_INT(sets[0].count, 4);
    for (int32_t i = 0; i < 4; i++) part[levels.level[0].of[i]] = i;
    CHECK_EQ_INT(stw_metis_map(s->simulator, &levels.level[0], part, &sets[0], device, arena, NULL), STW_OK);
    CHECK_EQ_INT(device[0] % 2, device[1] % 2);
    CHECK_EQ_INT(device[2] % 2, device[3] % 2);
    CHECK_EQ_INT(device[0] + device[1] + device[2] + device[3], 6);
    stw_arena_destroy(&arena);
    small_close(s);
}

/* ---- both methods ---- */

TEST(parts, one_device_and_no_ops) {
    for (int m = 0; m < 2; m++) {
        if (!can_run(both[m])) continue;
        small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 2)});
        if (run_method(s, both[m], "100", "1")) CHECK_STR(s->timeline, "d0: a[0,1) b[1,3)\n");
        small_close(s);
        s = small_open((small_text){.device_count = 3});
        if (run_method(s, both[m], "100", "1")) CHECK_EQ_INT(s->result.step_ps, 0);
        small_close(s);
        s = small_open((small_text){.nodes = SOURCE(0, "x", "input", 5) SOURCE(1, "w", "parameter", 5), .device_count = 3});
        if (run_method(s, both[m], "100", "1")) CHECK_EQ_INT(s->result.reason, STW_VALID);
        small_close(s);
    }
}

TEST(parts, more_devices_than_ops) {
    const char *const nodes = OP(0, "a", "[]", 1, 5) OP(1, "b", "[]", 1, 5) OP(2, "c", "[]", 1, 5);
    for (int m = 0; m < 2; m++) {
        if (!can_run(both[m])) continue;
        small *s = small_open((small_text){.nodes = nodes, .device_count = 8});
        if (run_method(s, both[m], "100", "2")) CHECK_NEAR(s->result.step_s * 1e6, 5, 1e-9);
        small_close(s);
    }
}

/* Twelve ops without edges, 2 us on h200 and 4 on cpu8: 8 and 4 of them take 16 us; an equal share would take 24. */
TEST(parts, unlike_devices_get_shares_by_speed) {
    char nodes[4000] = "";
    for (int i = 0; i < 12; i++) {
        snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes),
                 "{'id':%d,'name':'n%d','op':'relu','inputs':[],'dtype':'u8','shape':[1],'us':{'h200':2,'cpu8':4}},", i, i);
    }
    for (int m = 0; m < 2; m++) {
        if (!can_run(both[m])) continue;
        small *s = small_open(
            (small_text){.nodes = nodes, .devices = DEVICE("d0", "h200", 999) DEVICE("d1", "cpu8", 999), .device_count = 2});
        test_context("%s", both[m]);
        if (run_method(s, both[m], "200", "2")) CHECK_NEAR(s->result.step_s * 1e6, 16, 2.001);
        small_close(s);
    }
    test_context("%s", "");
}

TEST(parts, missing_links_are_not_used) {
    stw_rng rng = stw_rng_create(5);
    const char *const links = LINK("d0", "d2") LINK("d2", "d0"); /* d1 is alone */
    for (int m = 0; m < 2; m++) {
        if (!can_run(both[m])) continue;
        char nodes[6000] = "";
        for (int i = 0; i < 40; i++) {
            snprintf(nodes + strlen(nodes), sizeof nodes - strlen(nodes),
                     "{'id':%d,'name':'n%d','op':'relu','inputs':[%d],'dtype':'u8','shape':[1],'us':{'h200':9}},", i + 1, i,
                     (int)stw_rng_below(&rng, i + 1));
        }
        char all[7000];
        snprintf(all, sizeof all, "%s%s", OP(0, "root", "[]", 1, 1), nodes);
        small *s = small_open((small_text){.nodes = all, .device_count = 3, .links = links});
        test_context("%s", both[m]);
        if (run_method(s, both[m], "500", "2")) {
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            CHECK(s->result.step_s < 361e-6); /* one device takes 361 us */
        }
        small_close(s);
    }
    test_context("%s", "");
}

TEST(parts, devices_that_cannot_talk) {
    const char *const nodes = OP(0, "a", "[]", 1, 5) OP(1, "b", "[0]", 1, 5) OP(2, "c", "[1]", 1, 5);
    for (int m = 0; m < 2; m++) {
        if (!can_run(both[m])) continue;
        small *s = small_open((small_text){.nodes = nodes, .device_count = 2, .links = ""});
        if (run_method(s, both[m], "1000", "2")) CHECK_NEAR(s->result.step_s * 1e6, 15, 1e-9);
        small_close(s);
    }
}

TEST(parts, any_number_of_threads_gives_the_same_plan) {
    static const char *const threads[] = {"1", "2", "8"};
    for (int m = 0; m < 2; m++) {
        if (!can_run(both[m])) continue;
        for (uint64_t seed = 0; seed < 3; seed++) {
            stw_rng rng = stw_rng_create(seed);
            small *s = random_open(&rng, (random_shape){.nodes = 150, .device_count = 4, .unlike = seed == 1, .wide = seed == 2});
            int32_t device[400] = {0};
            double priority[400] = {0};
            CHECK(s->graph->N <= 400);
            for (int t = 0; t < 3; t++) {
                test_context("%s seed %d threads %s", both[m], (int)seed, threads[t]);
                if (!run_method(s, both[m], "60", threads[t])) break;
                const size_t N = (size_t)s->graph->N;
                if (t > 0) {
                    CHECK(memcmp(device, s->plan->device, N * sizeof *device) == 0);
                    CHECK(memcmp(priority, s->plan->priority, N * sizeof *priority) == 0);
                }
                memcpy(device, s->plan->device, N * sizeof *device);
                memcpy(priority, s->plan->priority, N * sizeof *priority);
            }
            small_close(s);
        }
    }
    test_context("%s", "");
}

TEST(parts, random_problems_have_valid_plans) {
    for (uint64_t seed = 100; seed < 120; seed++) {
        stw_rng rng = stw_rng_create(seed);
        small *s = random_open(&rng, (random_shape){.nodes = 5 + (int32_t)stw_rng_below(&rng, 60),
                                                    .device_count = 1 + (int32_t)stw_rng_below(&rng, 6),
                                                    .unlike = seed % 2 == 0,
                                                    .buses = seed % 3 == 0,
                                                    .model = seed % 5 == 0});
        for (int m = 0; m < 2; m++) {
            test_context("%s seed %d", both[m], (int)seed);
            if (can_run(both[m]) && run_method(s, both[m], "30", "2")) {
                CHECK(s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY);
            }
        }
        small_close(s);
    }
    test_context("%s", "");
}

/* A spent budget still gives a plan. */
TEST(parts, one_evaluation) {
    stw_rng rng = stw_rng_create(9);
    small *s = random_open(&rng, (random_shape){.nodes = 40, .device_count = 3});
    for (int m = 0; m < 2; m++) {
        if (can_run(both[m])) CHECK(run_method(s, both[m], "1", "1"));
    }
    small_close(s);
}

/* ---- expert: pairs ---- */

/* Four layers: f0..f3, the loss, and back: g(i) is the gradient of f(i), dw(i) that of w(i), u(i) the update. */
#define LABELLED(id, name, label)    NODE(id, name, "parameter", "[]", 4, label)
#define UPDATE(id, name, inputs, of) OP_WITH(id, name, inputs, 4, 1, ",'updates':" #of)
#define LAYERS(l0, l1, l2, l3)     \
    SOURCE(0, "x", "input", 4)     \
    LABELLED(1, "w0", l0)          \
    LABELLED(2, "w1", l1)          \
    LABELLED(3, "w2", l2)          \
    LABELLED(4, "w3", l3)          \
    OP(5, "f0", "[0,1]", 4, 10)    \
    OP(6, "f1", "[5,2]", 4, 10)    \
    OP(7, "f2", "[6,3]", 4, 10)    \
    OP(8, "f3", "[7,4]", 4, 10)    \
    OP(9, "loss", "[8]", 4, 1)     \
    OP(10, "g3", "[9]", 4, 1)      \
    OP(11, "dw3", "[10,7]", 4, 10) \
    OP(12, "g2", "[10,4]", 4, 10)  \
    OP(13, "dw2", "[12,6]", 4, 10) \
    OP(14, "g1", "[12,3]", 4, 10)  \
    OP(15, "dw1", "[14,5]", 4, 10) \
    OP(16, "g0", "[14,2]", 4, 10)  \
    OP(17, "dw0", "[16,0]", 4, 10) \
    UPDATE(18, "u0", "[1,17]", 1)  \
    UPDATE(19, "u1", "[2,15]", 2)  \
    UPDATE(20, "u2", "[3,13]", 3)  \
    UPDATE(21, "u3", "[4,11]", 4)

static small *open_layers(bool named, int32_t device_count, bool loss) {
    static const char *const with_names =
        LAYERS(",'label':'enc.0.w'", ",'label':'enc.1.w'", ",'label':'dec.0.w'", ",'label':'out.w'");
    static const char *const without = LAYERS("", "", "", "");
    small *s = small_open((small_text){.nodes = named ? with_names : without, .outputs = "[9]", .device_count = device_count});
    if (loss) s->graph->loss = 9;
    return s;
}

TEST(expert, gradients_go_with_their_forward_op) {
    small *s = open_layers(false, 2, true);
    stw_arena arena = new_arena();
    stw_layers layers;
    CHECK_EQ_INT(stw_layers_build(s->graph, s->costs->us[0], true, &arena, &layers, NULL), STW_OK);
    static const char *const pairs[][2] = {{"f2", "f2"},  {"loss", "loss"}, {"g3", "loss"}, {"dw3", "f3"}, {"g2", "f3"},
                                           {"dw2", "f2"}, {"g1", "f2"},     {"dw1", "f1"},  {"g0", "f1"},  {"dw0", "f0"},
                                           {"u0", "f0"},  {"u1", "f1"},     {"u2", "f2"},   {"u3", "f3"},  {"w1", "f1"}};
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        test_context("%s", pairs[k][0]);
        CHECK_EQ_INT(layers.partner[small_node(s, pairs[k][0])], small_node(s, pairs[k][1]));
    }
    test_context("%s", "");
    CHECK_EQ_INT(layers.count, 0);
    CHECK(layers.forward[8] && layers.forward[9] && !layers.forward[10]);
    CHECK_EQ_INT(layers.owner[small_node(s, "dw2")], small_node(s, "w2"));
    CHECK_EQ_INT(layers.owner[small_node(s, "g2")], -1);
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(expert, layers_by_name_in_stages_of_equal_time) {
    small *s = open_layers(true, 2, true);
    stw_arena arena = new_arena();
    stw_layers layers;
    stw_items items;
    stw_device_set sets[STW_MAX_DEVICE_SETS];
    int32_t device[STW_MAX_ITEMS];
    CHECK_EQ_INT(stw_layers_build(s->graph, s->costs->us[0], true, &arena, &layers, NULL), STW_OK);
    CHECK_EQ_INT(stw_device_sets(s->costs, sets), 1);
    CHECK_EQ_INT(layers.count, 4);
    CHECK_EQ_INT(layers.layer[9], 3);  /* the loss follows the last layer */
    CHECK_EQ_INT(layers.number[0], 0); /* enc.0 */
    CHECK_EQ_INT(layers.number[1], 1);
    CHECK_EQ_INT(layers.number[2], 0); /* dec.0 */
    CHECK_EQ_INT(layers.number[3], 0); /* out: as the layer before */
    if (!CHECK_EQ_INT(stw_items_build(&layers, s->costs, &sets[0], STW_ITEMS_LAYER, &arena, &items, NULL), STW_OK)) return;
    static const double times[] = {21, 31, 31, 33};
    CHECK_EQ_INT(items.count, 4);
    for (int k = 0; k < 4; k++) CHECK_NEAR(items.us[0][k], times[k], 1e-9);
    /* Between f1 and f2: f1, read by f2 and dw2, and g1. 4 bytes each, a microsecond per byte. */
    CHECK_NEAR(items.cross_us[2], 8, 1e-9);
    CHECK_NEAR(items.cross_us[0], 0, 0);
    CHECK_NEAR(items.cross_us[4], 0, 0);
    CHECK_EQ_INT(stw_items_cut(&items, s->machine, &sets[0], 1, 0.0, device, arena, NULL), STW_OK);
    static const int32_t equal[] = {0, 0, 1, 1};
    for (int k = 0; k < 4; k++) CHECK_EQ_INT(device[k], equal[k]);
    CHECK_EQ_INT(stw_items_cut(&items, s->machine, &sets[0], 1, 100.0, device, arena, NULL), STW_OK);
    for (int k = 1; k < 4; k++) CHECK_EQ_INT(device[k], device[0]); /* transfers are dear: one stage */
    if (CHECK_EQ_INT(stw_items_build(&layers, s->costs, &sets[0], STW_ITEMS_NUMBER, &arena, &items, NULL), STW_OK)) {
        CHECK_EQ_INT(items.count, 2);
        CHECK_NEAR(items.us[0][0], 21 + 31 + 33, 1e-9);
    }
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(expert, without_names_loss_or_gradients) {
    for (int k = 0; k < 4; k++) {
        small *s = open_layers(k % 2 == 0, 3, k / 2 == 0);
        double single = 0.0;
        if (run_method(s, "single", "1", "1")) single = s->result.step_s;
        if (run_method(s, "expert", "1000", "2")) {
            CHECK_EQ_INT(s->result.reason, STW_VALID);
            CHECK(s->result.step_s <= single);
            for (int32_t w = 1; w <= 4; w++) CHECK_EQ_INT(s->plan->device[w], s->plan->device[17 + w]);
        }
        small_close(s);
    }
    const char *const nodes = OP(0, "a", "[]", 1, 6) OP(1, "b", "[]", 1, 6) OP(2, "c", "[0]", 1, 6) OP(3, "d", "[1]", 1, 6);
    small *s = small_open((small_text){.nodes = nodes, .outputs = "[2,3]", .device_count = 2});
    if (run_method(s, "expert", "1000", "2")) CHECK(s->result.step_s < 24e-6);
    small_close(s);
    s = small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 4) UPDATE(1, "u", "[0]", 0), .device_count = 2});
    if (run_method(s, "expert", "1000", "2")) CHECK_EQ_INT(s->result.step_ps, 1000000);
    small_close(s);
}

/* ---- expert: stages ---- */

/* The longest stage of the best division of items [i, L) among the devices from s on, by trying all. */
static double try_all(const stw_items *items, const stw_machine *machine, int32_t stages, double aversion, int32_t s, int32_t i) {
    if (i == items->count) return 0.0;
    if (s == stages) return INFINITY;
    double best = try_all(items, machine, stages, aversion, s + 1, i), us = aversion * items->cross_us[i];
    for (int32_t j = i + 1; j <= items->count; j++) {
        us += items->us[machine->device[s % machine->device_count].cost_class][j - 1];
        const double rest = try_all(items, machine, stages, aversion, s + 1, j);
        best = fmin(best, fmax(us + aversion * items->cross_us[j], rest));
    }
    return best;
}

static double longest_stage(const stw_items *items, const stw_machine *machine, double aversion, const int32_t *device) {
    double longest = 0.0;
    for (int32_t i = 0; i < items->count;) {
        double us = aversion * items->cross_us[i];
        int32_t j = i;
        for (; j < items->count && device[j] == device[i]; j++) us += items->us[machine->device[device[j]].cost_class][j];
        longest = fmax(longest, us + aversion * items->cross_us[j]);
        i = j;
    }
    return longest;
}

TEST(expert, stages_are_the_best_there_are) {
    small *s = small_open((small_text){.nodes = NODE(0, "a", "relu", "[]", 1, ",'us':{'h200':1,'cpu8':2}"),
                                       .devices = DEVICE("d0", "h200", 99) DEVICE("d1", "cpu8", 99) DEVICE("d2", "h200", 99),
                                       .device_count = 3});
    stw_arena arena = new_arena();
    stw_rng rng = stw_rng_create(3);
    stw_device_set sets[STW_MAX_DEVICE_SETS];
    CHECK_EQ_INT(stw_device_sets(s->costs, sets), 1);
    CHECK_EQ_INT(sets[0].count, 3);
    for (int round = 0; round < 200; round++) {
        double times[2][8], cross[9] = {0};
        double *us[2] = {times[0], times[1]};
        int32_t device[STW_MAX_ITEMS];
        const stw_items items = {.count = 1 + (int32_t)stw_rng_below(&rng, 8), .us = us, .cross_us = cross};
        for (int32_t i = 0; i < items.count; i++) {
            times[0][i] = (double)stw_rng_below(&rng, 20);
            times[1][i] = (double)stw_rng_below(&rng, 40);
            if (i > 0) cross[i] = (double)stw_rng_below(&rng, 10);
        }
        const double aversion = (double)stw_rng_below(&rng, 3) / 2.0;
        test_context("round %d", round);
        CHECK_EQ_INT(stw_items_cut(&items, s->machine, &sets[0], 1, aversion, device, arena, NULL), STW_OK);
        for (int32_t i = 1; i < items.count; i++) CHECK(device[i] >= device[i - 1]);
        CHECK_NEAR(longest_stage(&items, s->machine, aversion, device), try_all(&items, s->machine, 3, aversion, 0, 0), 1e-9);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(expert, packs_by_time) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1), .device_count = 2});
    stw_arena arena = new_arena();
    stw_device_set sets[STW_MAX_DEVICE_SETS];
    double times[] = {5, 1, 3, 3}, *us[] = {times};
    const stw_items items = {.count = 4, .us = us};
    int32_t device[4];
    stw_device_sets(s->costs, sets);
    CHECK_EQ_INT(stw_items_pack(&items, s->machine, &sets[0], device, arena, NULL), STW_OK);
    static const int32_t expected[] = {0, 0, 1, 1}; /* 5 | 3, 3 | then 1 to the device with 5 */
    for (int i = 0; i < 4; i++) CHECK_EQ_INT(device[i], expected[i]);
    stw_items_deal(&items, &sets[0], device);
    for (int i = 0; i < 4; i++) CHECK_EQ_INT(device[i], i % 2);
    stw_arena_destroy(&arena);
    small_close(s);
}
