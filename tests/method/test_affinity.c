/* method: affinity clusters. */
#include "method/anneal/affinity.h"

#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "support/random.h"
#include "test.h"

typedef struct {
    stw_arena arena;
    stw_unit_levels units; /* level 0: atoms */
    stw_unit_levels affinity;
} clustering;

static clustering *build(const stw_simulator *s, const int32_t *wanted, int32_t count) {
    clustering *c = calloc(1, sizeof *c);
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&c->arena, &error), STW_OK);
    CHECK_EQ_INT(stw_units_build(s->graph, s->costs->us[0], wanted, count, &c->arena, &c->units, &error), STW_OK);
    CHECK_EQ_INT(stw_affinity_build(s, &c->units.level[0], wanted, count, &c->arena, &c->affinity, &error), STW_OK);
    CHECK_STR(error.message, "");
    return c;
}

static void discard(clustering *c) {
    stw_arena_destroy(&c->arena);
    free(c);
}

/* ---- what every level must be ---- */

/* Each op, parameter and buffer in one unit, ascending; what is in no atom is in none. */
static void check_partition(const stw_graph *graph, const stw_units *atoms, const stw_units *level) {
    int32_t count = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (!CHECK((atoms->of[i] < 0) == (level->of[i] < 0)) || !CHECK(level->of[i] < level->count)) return;
        count += level->of[i] >= 0 && graph->kind[i] != STW_NODE_VIEW;
    }
    CHECK_EQ_INT(level->start[0], 0);
    if (!CHECK_EQ_INT(level->start[level->count], count)) return;
    for (int32_t u = 0; u < level->count; u++) {
        CHECK(level->start[u] < level->start[u + 1]);
        for (int32_t m = level->start[u]; m < level->start[u + 1]; m++) {
            CHECK_EQ_INT(level->of[level->member[m]], u);
            CHECK(graph->kind[level->member[m]] != STW_NODE_VIEW);
            if (m > level->start[u]) CHECK(level->member[m - 1] < level->member[m]);
        }
    }
}

/* What is together at a level is together at the next, as `parent` says. */
static void check_nested(const stw_graph *graph, const stw_units *fine, const stw_units *coarse) {
    CHECK(coarse->count < fine->count);
    if (!CHECK(fine->parent != NULL)) return;
    for (int32_t i = 0; i < graph->N; i++) {
        if (fine->of[i] >= 0) CHECK_EQ_INT(coarse->of[i], fine->parent[fine->of[i]]);
    }
}

static void check_levels(const stw_graph *graph, const clustering *c) {
    const stw_unit_levels *levels = &c->affinity;
    CHECK(levels->count >= 1 && levels->count <= STW_MAX_UNIT_LEVELS);
    CHECK_EQ_INT(levels->level[0].count, c->units.level[0].count);
    for (int32_t k = 0; k < levels->count; k++) check_partition(graph, &c->units.level[0], &levels->level[k]);
    for (int32_t k = 1; k < levels->count; k++) check_nested(graph, &levels->level[k - 1], &levels->level[k]);
    CHECK(levels->level[levels->count - 1].parent == NULL);
}

/* ---- by hand ---- */

static bool are_together(const small *s, const stw_units *level, const char *a, const char *b) {
    return level->of[small_node(s, a)] == level->of[small_node(s, b)];
}

/* a sends b 9 bytes and c 1; c sends d 9. */
TEST(affinity, heavy_pairs_come_together) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 9, 1) VIEW(1, "v", 0, 1) OP(2, "b", "[0]", 1, 1)
                                           OP(3, "c", "[1]", 9, 1) OP(4, "d", "[3]", 1, 1),
                                       .device_count = 2});
    clustering *c = build(s->simulator, (const int32_t[]){2}, 1);
    const stw_units *level = &c->affinity.level[1];
    check_levels(s->graph, c);
    if (CHECK_EQ_INT(c->affinity.count, 2)) {
        CHECK_EQ_INT(level->count, 2);
        CHECK(are_together(s, level, "a", "b") && are_together(s, level, "c", "d") && !are_together(s, level, "a", "c"));
        CHECK(are_together(s, level, "v", "a"));
    }
    discard(c);
    small_close(s);
}

/* Units must be convex, clusters need not: first and last op of a chain share a large tensor, the one between them does not. */
TEST(affinity, what_is_far_apart_in_time_can_be_together) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 90, 1) VIEW(1, "v", 0, 1) OP(2, "b", "[1]", 1, 1) OP(3, "c", "[0,2]", 1, 1),
                     .device_count = 2});
    clustering *c = build(s->simulator, (const int32_t[]){2}, 1);
    if (CHECK_EQ_INT(c->affinity.count, 2)) {
        CHECK(are_together(s, &c->affinity.level[1], "a", "c"));
        CHECK(!are_together(s, &c->affinity.level[1], "a", "b"));
    }
    discard(c);
    small_close(s);
}

TEST(affinity, among_equal_exchanges_the_smaller_neighbour) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 9, 1) OP(1, "b", "[0]", 1, 8) OP(2, "c", "[0]", 1, 1), .device_count = 2});
    clustering *c = build(s->simulator, (const int32_t[]){2}, 1);
    if (CHECK_EQ_INT(c->affinity.count, 2)) CHECK(are_together(s, &c->affinity.level[1], "a", "c"));
    discard(c);
    small_close(s);
}

TEST(affinity, an_update_its_parameter_and_what_reads_it) {
    small *s =
        small_open((small_text){.nodes = SOURCE(0, "w", "parameter", 50) SOURCE(1, "i", "input", 50) OP(2, "r", "[0,1]", 1, 1)
                                    OP(3, "far", "[2]", 1, 1) OP_WITH(4, "u", "[0,3]", 50, 1, ",'updates':0"),
                                .device_count = 2});
    clustering *c = build(s->simulator, (const int32_t[]){2}, 1);
    check_levels(s->graph, c);
    CHECK_EQ_INT(c->affinity.level[0].count, 3); /* w with u; r; far; the input is in none */
    if (CHECK_EQ_INT(c->affinity.count, 2)) {
        CHECK(are_together(s, &c->affinity.level[1], "w", "u") && are_together(s, &c->affinity.level[1], "w", "r"));
        CHECK(!are_together(s, &c->affinity.level[1], "w", "far"));
    }
    discard(c);
    small_close(s);
}

/* ---- edges of what can be asked ---- */

TEST(affinity, without_edges_everything_stays_alone) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[]", 1, 1) OP(2, "c", "[]", 1, 1), .device_count = 2});
    clustering *c = build(s->simulator, (const int32_t[]){2, 1}, 2);
    CHECK_EQ_INT(c->affinity.count, 1);
    CHECK_EQ_INT(c->affinity.level[0].count, 3);
    check_levels(s->graph, c);
    discard(c);
    small_close(s);
}

TEST(affinity, one_cluster) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1) OP(2, "c", "[1]", 1, 1)
                                           OP(3, "d", "[2]", 1, 0) OP(4, "e", "[0]", 1, 7),
                                       .device_count = 2});
    clustering *c = build(s->simulator, (const int32_t[]){1}, 1);
    check_levels(s->graph, c);
    if (CHECK_EQ_INT(c->affinity.count, 2)) CHECK_EQ_INT(c->affinity.level[1].count, 1);
    discard(c);
    small_close(s);
}

TEST(affinity, no_ops_and_nothing_wanted) {
    small *s = small_open((small_text){.nodes = NULL});
    clustering *c = build(s->simulator, (const int32_t[]){4, 1}, 2);
    CHECK_EQ_INT(c->affinity.count, 1);
    CHECK_EQ_INT(c->affinity.level[0].count, 0);
    discard(c);
    small_close(s);
    s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 1, 1)}); /* one device: no links either */
    c = build(s->simulator, NULL, 0);
    CHECK_EQ_INT(c->affinity.count, 1);
    check_levels(s->graph, c);
    discard(c);
    c = build(s->simulator, (const int32_t[]){9, 2, 1}, 3); /* the first two are no fewer than there are */
    CHECK_EQ_INT(c->affinity.count, 2);
    check_levels(s->graph, c);
    discard(c);
    small_close(s);
}

/* ---- random and real graphs ---- */

TEST(affinity, levels_of_random_graphs) {
    const stw_rng seeds = stw_rng_create(531);
    for (int number = 0; number < 100; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        small *s = random_open(&rng, (random_shape){.nodes = (int32_t)stw_rng_below(&rng, 120),
                                                    .device_count = 1 + number % 4,
                                                    .plain = number % 7 == 0,
                                                    .wide = number % 5 == 0,
                                                    .unlike = number % 2 == 1,
                                                    .model = number % 3 == 0});
        test_context("problem %d", number);
        clustering *c = build(s->simulator, (const int32_t[]){40, 12, 5, 1}, 4);
        check_levels(s->graph, c);
        discard(c);
        small_close(s);
    }
    test_context("%s", "");
}

/* Bytes that pass between nodes of one unit, as a share of all. */
static double share_inside(const stw_graph *graph, const stw_units *level) {
    double inside = 0.0, all = 0.0;
    for (int32_t i = 0; i < graph->N; i++) {
        for (int64_t r = graph->reader_start[i]; r < graph->reader_start[i + 1] && level->of[i] >= 0; r++) {
            all += (double)graph->bytes[i];
            inside += level->of[i] == level->of[graph->reader[r].node] ? (double)graph->bytes[i] : 0.0;
        }
    }
    return inside / all;
}

static double most_work(const stw_simulator *s, const stw_units *level) {
    double most = 0.0;
    for (int32_t u = 0; u < level->count; u++) {
        double work = 0.0;
        for (int32_t m = level->start[u]; m < level->start[u + 1]; m++) work += s->costs->us[0][level->member[m]];
        if (work > most) most = work;
    }
    return most;
}

TEST(affinity, levels_of_a_real_graph) {
    static const int32_t wanted[] = {8192, 2048, 512, 128, 32};
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_simulator *s;
    stw_error error = {0};
    const bool open = stw_graph_open(STW_SOURCE_DIR "/data/graphs/transformer-xl-8.json.gz", NULL, &graph, &error) == STW_OK &&
                      stw_machine_open("h200x4", &machine, &error) == STW_OK &&
                      stw_costs_create(graph, machine, NULL, &costs, &error) == STW_OK &&
                      stw_simulator_create(costs, &s, &error) == STW_OK;
    CHECK_STR(error.message, "");
    if (!CHECK(open)) return;
    clustering *c = build(s, wanted, 5);
    check_levels(graph, c);
    if (CHECK_EQ_INT(c->affinity.count, 6)) {
        double total = 0.0, before = 0.0;
        for (int32_t i = 0; i < graph->N; i++) total += costs->us[0][i];
        for (int k = 0; k < 5; k++) {
            const stw_units *level = &c->affinity.level[k + 1];
            const double share = share_inside(graph, level), mean = total / wanted[k];
            CHECK(level->count >= wanted[k] && level->count <= wanted[k] + wanted[k] / 4);
            CHECK(share > before);
            CHECK(most_work(s, level) <= 4.0 * mean || most_work(s, level) <= most_work(s, &c->affinity.level[k]));
            before = share;
        }
        CHECK(before > 0.5); /* 32 clusters at random: 0.03 */
    }
    discard(c);
    stw_simulator_destroy(s);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}
