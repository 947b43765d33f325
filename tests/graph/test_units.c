/* graph: units are a partition that respects colocation and has an order, at every level. */
#define _DEFAULT_SOURCE /* scandir */
#include "graph/units.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"
#include "test.h"

/* ---- checks that know nothing of how units are made ---- */

static bool is_member(uint8_t kind) { return kind == STW_NODE_OP || kind == STW_NODE_PARAMETER || kind == STW_NODE_BUFFER; }

/* Every op, parameter and buffer is in one unit and listed there once, ascending; views go with their roots. */
static void check_partition(const stw_graph *graph, const stw_units *units) {
    int32_t members = 0, wrong = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        const bool inside = is_member(graph->kind[graph->root[i]]);
        members += is_member(graph->kind[i]);
        wrong += inside ? units->of[i] < 0 || units->of[i] >= units->count || units->of[i] != units->of[graph->root[i]]
                        : units->of[i] != -1;
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(units->start[0], 0);
    CHECK_EQ_INT(units->start[units->count], members);
    for (int32_t u = 0; u < units->count; u++) {
        wrong += units->start[u] >= units->start[u + 1]; /* no unit is empty */
        for (int32_t k = units->start[u]; k < units->start[u + 1]; k++) {
            wrong += units->of[units->member[k]] != u || !is_member(graph->kind[units->member[k]]);
            wrong += k > units->start[u] && units->member[k - 1] >= units->member[k];
        }
    }
    CHECK_EQ_INT(wrong, 0);
}

static void check_colocation(const stw_graph *graph, const stw_units *units) {
    int32_t wrong = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->updates[i] >= 0) wrong += units->of[i] != units->of[graph->updates[i]];
        if (graph->colocate[i] < 0) continue;
        const int32_t a = units->of[i], b = units->of[graph->colocate[i]];
        wrong += a >= 0 && b >= 0 && a != b;
    }
    CHECK_EQ_INT(wrong, 0);
}

/* Edges between units that do not go from a smaller number to a larger one: none of them, and the units have no cycle. By the
 * inputs as read, with views followed by hand. */
static int32_t count_backward_edges(const stw_graph *graph, const stw_units *units) {
    int32_t backward = 0;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP) continue;
        for (int64_t k = graph->input_start[i]; k < graph->input_start[i + 1]; k++) {
            int32_t producer = graph->input[k];
            while (graph->kind[producer] == STW_NODE_VIEW) producer = graph->input[graph->input_start[producer]];
            if (graph->kind[producer] == STW_NODE_OP) backward += units->of[producer] > units->of[i];
        }
        for (int64_t k = graph->wait_start[i]; k < graph->wait_start[i + 1]; k++) {
            backward += units->of[graph->wait[k]] > units->of[i];
        }
    }
    return backward;
}

/* Whether the atoms have an order at all: colocation alone can make rings. By taking away what nothing is before. */
static bool has_order(const stw_graph *graph, const stw_units *atoms) {
    const size_t M = (size_t)atoms->count;
    bool *gone = calloc(M + 1, sizeof *gone), *blocked = calloc(M + 1, sizeof *blocked);
    int32_t left = atoms->count;
    if (gone == NULL || blocked == NULL) abort();
    for (int32_t before = -1; before != left;) {
        before = left;
        memset(blocked, 0, M * sizeof *blocked);
        for (int32_t i = 0; i < graph->N; i++) {
            if (graph->kind[i] != STW_NODE_OP) continue;
            const int32_t u = atoms->of[i];
            for (int64_t k = graph->read_start[i]; k < graph->read_start[i + 1]; k++) {
                const int32_t p = graph->read[k].node;
                blocked[u] |= graph->kind[p] == STW_NODE_OP && atoms->of[p] != u && !gone[atoms->of[p]];
            }
            for (int64_t k = graph->wait_start[i]; k < graph->wait_start[i + 1]; k++) {
                blocked[u] |= atoms->of[graph->wait[k]] != u && !gone[atoms->of[graph->wait[k]]];
            }
        }
        for (int32_t u = 0; u < atoms->count; u++) {
            if (gone[u] || blocked[u]) continue;
            gone[u] = true;
            left--;
        }
    }
    free(gone);
    free(blocked);
    return left == 0;
}

static void check_parents(const stw_unit_levels *levels) {
    for (int32_t l = 0; l < levels->count; l++) {
        const stw_units *fine = &levels->level[l], *coarse = fine + 1;
        if (l + 1 == levels->count) {
            CHECK(fine->parent == NULL);
            continue;
        }
        CHECK(coarse->count < fine->count);
        int32_t wrong = 0;
        for (int32_t u = 0; u < fine->count; u++) {
            for (int32_t k = fine->start[u]; k < fine->start[u + 1]; k++) wrong += coarse->of[fine->member[k]] != fine->parent[u];
        }
        CHECK_EQ_INT(wrong, 0);
    }
}

typedef struct {
    stw_arena arena;
    stw_unit_levels levels;
} built;

static built build(const stw_graph *graph, const double *us, const int32_t *wanted, int32_t count) {
    built b = {0};
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&b.arena, &error), STW_OK);
    CHECK_EQ_INT(stw_units_build(graph, us, wanted, count, &b.arena, &b.levels, &error), STW_OK);
    CHECK_STR(error.message, "");
    return b;
}

static void check_all(const stw_graph *graph, const stw_unit_levels *levels, bool ordered) {
    for (int32_t l = 0; l < levels->count; l++) {
        check_partition(graph, &levels->level[l]);
        check_colocation(graph, &levels->level[l]);
        if (ordered) CHECK_EQ_INT(count_backward_edges(graph, &levels->level[l]), 0);
    }
    check_parents(levels);
}

/* ---- hand-made ---- */

#define LEVELS(...) ((const int32_t[]){__VA_ARGS__}), (int32_t)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* x   p     q r        the parameter p is free, q is updated by u, nobody reads r
 *  \  |    / \
 *   a-+-v-b   u        v: a view of a; x: an input with a view w */
TEST(units, atoms) {
    small *s = small_open((small_text){.nodes = SOURCE(0, "x", "input", 1) VIEW(1, "w", 0, 1) SOURCE(2, "p", "parameter", 1)
                                           SOURCE(3, "q", "parameter", 1) SOURCE(4, "r", "buffer", 1) OP(5, "a", "[1,2]", 1, 1)
                                               VIEW(6, "v", 5, 1) OP(7, "b", "[6,3]", 1, 1)
                                                   OP_WITH(8, "u", "[3,7]", 1, 1, ",'updates':3")});
    built b = build(s->graph, s->costs->us[0], LEVELS(5, 4, 1));
    /* p before its reader; q is with u, which comes after b; what nobody reads comes last. */
    static const int32_t atom[] = {-1, -1, 0, 3, 4, 1, 1, 2, 3}, cell[] = {-1, -1, 0, 2, 3, 0, 0, 1, 2};
    CHECK_EQ_INT(b.levels.count, 3); /* 5 is not below the atoms */
    CHECK_EQ_INT(b.levels.level[0].count, 5);
    CHECK_EQ_INT(b.levels.level[1].count, 4);
    CHECK_EQ_INT(b.levels.level[2].count, 1);
    for (int32_t i = 0; i < 9; i++) {
        CHECK_EQ_INT(b.levels.level[0].of[i], atom[i]);
        CHECK_EQ_INT(b.levels.level[1].of[i], cell[i]);
        CHECK_EQ_INT(b.levels.level[2].of[i], atom[i] < 0 ? -1 : 0);
    }
    check_all(s->graph, &b.levels, true);
    stw_arena_destroy(&b.arena);
    small_close(s);
}

/* The heaviest tensor for the work stays within a unit. */
TEST(units, heavy_edges_first) {
    small *s = small_open((small_text){.nodes = OP(0, "a", "[]", 1, 1) OP(1, "b", "[0]", 99, 1) OP(2, "c", "[1]", 1, 1)
                                           OP(3, "d", "[2]", 50, 1) OP(4, "e", "[3]", 1, 1)});
    built b = build(s->graph, s->costs->us[0], LEVELS(4, 3));
    static const int32_t of[2][5] = {{0, 1, 1, 2, 3}, {0, 1, 1, 2, 2}};
    for (int32_t l = 0; l < 2; l++) {
        for (int32_t i = 0; i < 5; i++) CHECK_EQ_INT(b.levels.level[l + 1].of[i], of[l][i]);
    }
    stw_arena_destroy(&b.arena);
    small_close(s);
}

/*   a ------> c     a and c share the heaviest tensor, but b is between them: the two must not be one unit without b. */
TEST(units, no_path_leaves_and_comes_back) {
    small *s = small_open(
        (small_text){.nodes = OP(0, "a", "[]", 99, 1) VIEW(1, "v", 0, 1) OP(2, "b", "[1]", 1, 1) OP(3, "c", "[0,2]", 1, 1)});
    built b = build(s->graph, s->costs->us[0], LEVELS(2));
    const int32_t *of = b.levels.level[1].of;
    CHECK_EQ_INT(b.levels.level[1].count, 2);
    CHECK(of[0] != of[3]);
    check_all(s->graph, &b.levels, true);
    stw_arena_destroy(&b.arena);
    small_close(s);
}

enum { MAX_OPS = 64, NODE_TEXT = 160 };

/* `count` ops of so many microseconds, one after the other or on their own. */
static small *open_ops(int count, int us, bool chain) {
    char nodes[MAX_OPS * NODE_TEXT] = "";
    for (int k = 0; k < count; k++) {
        char input[20] = "", text[NODE_TEXT];
        if (chain && k > 0) snprintf(input, sizeof input, "%d", k - 1);
        snprintf(text, sizeof text, "{'id':%d,'name':'n%d','op':'relu','inputs':[%s],'dtype':'u8','shape':[8],'us':{'h200':%d}},",
                 k, k, input, us);
        strcat(nodes, text);
    }
    return small_open((small_text){.nodes = nodes});
}

TEST(units, no_unit_grows_far_beyond_the_mean) {
    for (int chain = 0; chain < 2; chain++) {
        small *s = open_ops(64, 5, chain == 1);
        built b = build(s->graph, s->costs->us[0], LEVELS(8));
        CHECK_EQ_INT(b.levels.level[1].count, 8);
        for (int32_t u = 0; u < 8; u++) CHECK(b.levels.level[1].start[u + 1] - b.levels.level[1].start[u] <= 3 * 64 / 8);
        stw_arena_destroy(&b.arena);
        small_close(s);
    }
}

TEST(units, more_levels_than_there_is_room_for) {
    small *s = open_ops(30, 0, false); /* and no time to go by */
    int32_t wanted[29];
    for (int32_t k = 0; k < 29; k++) wanted[k] = 29 - k;
    built b = build(s->graph, s->costs->us[0], wanted, 29);
    CHECK_EQ_INT(b.levels.count, STW_MAX_UNIT_LEVELS);
    check_all(s->graph, &b.levels, true);
    stw_arena_destroy(&b.arena);
    small_close(s);
}

TEST(units, edges) {
    small *s = small_open((small_text){.nodes = NULL}); /* nothing */
    built b = build(s->graph, s->costs->us[0], LEVELS(8, 1));
    CHECK_EQ_INT(b.levels.count, 1);
    CHECK_EQ_INT(b.levels.level[0].count, 0);
    CHECK_EQ_INT(b.levels.level[0].start[0], 0);
    stw_arena_destroy(&b.arena);
    small_close(s);
    /* No op; wanted numbers that make no sense. */
    s = small_open((small_text){.nodes = SOURCE(0, "p", "parameter", 7) SOURCE(1, "x", "input", 7) SOURCE(2, "q", "buffer", 7)});
    b = build(s->graph, s->costs->us[0], LEVELS(2, 0, -5));
    CHECK_EQ_INT(b.levels.count, 2);
    CHECK_EQ_INT(b.levels.level[0].count, 2);
    CHECK_EQ_INT(b.levels.level[1].count, 1);
    check_all(s->graph, &b.levels, true);
    int32_t device[3] = {9, 9, 9};
    stw_units_expand(&b.levels.level[0], s->graph, (const int32_t[]){3, 2}, device);
    CHECK_EQ_INT(device[0], 3);
    CHECK_EQ_INT(device[1], 0); /* on every device: no matter */
    CHECK_EQ_INT(device[2], 2);
    stw_arena_destroy(&b.arena);
    small_close(s);
}

/* ---- random ---- */

TEST(units, on_random_graphs) {
    const stw_rng seeds = stw_rng_create(71);
    int32_t ordered = 0;
    for (int number = 0; number < 150; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("graph %d", number);
        small *s = random_open(&rng, (random_shape){.nodes = 10 + number * 2,
                                                    .device_count = 1,
                                                    .plain = number % 3 == 0,
                                                    .wide = number % 5 == 0,
                                                    .model = number % 2 == 0});
        built b = build(s->graph, s->costs->us[0], LEVELS(128, 60, 20, 7, 2, 1));
        const bool has = has_order(s->graph, &b.levels.level[0]);
        ordered += has;
        check_all(s->graph, &b.levels, has);
        static const int32_t wanted[] = {128, 60, 20, 7, 2, 1};
        for (int32_t l = 1, k = 0; l < b.levels.count; l++, k++) { /* every wanted number below the atoms is reached */
            while (wanted[k] >= b.levels.level[l - 1].count) k++;
            CHECK(b.levels.level[l].count <= wanted[k]);
        }
        CHECK(b.levels.level[b.levels.count - 1].count <= 1);
        stw_arena_destroy(&b.arena);
        small_close(s);
    }
    test_context("%s", "");
    CHECK(ordered > 60);
}

TEST(units, expand_keeps_together_what_must_be) {
    const stw_rng seeds = stw_rng_create(72);
    for (int number = 0; number < 40; number++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)number);
        test_context("graph %d", number);
        small *s = random_open(&rng, (random_shape){.nodes = 60, .device_count = 4});
        built b = build(s->graph, s->costs->us[0], LEVELS(12));
        for (int32_t l = 0; l < b.levels.count; l++) {
            int32_t unit_device[400];
            for (int32_t u = 0; u < b.levels.level[l].count; u++) unit_device[u] = (int32_t)stw_rng_below(&rng, 4);
            stw_units_expand(&b.levels.level[l], s->graph, unit_device, s->plan->device);
            small_run(s);
            CHECK(s->result.reason == STW_VALID || s->result.reason == STW_INVALID_MEMORY);
            for (int32_t i = 0; i < s->graph->N; i++) {
                const int32_t u = b.levels.level[l].of[i];
                CHECK_EQ_INT(s->plan->device[i], u < 0 ? 0 : unit_device[u]);
            }
        }
        stw_arena_destroy(&b.arena);
        small_close(s);
    }
    test_context("%s", "");
}

/* ---- the graphs that come with the program ---- */

static int is_graph(const struct dirent *entry) { return strstr(entry->d_name, ".json") != NULL; }

static void check_graph(const char *name) {
    char path[1000];
    stw_graph *graph;
    stw_machine *machine;
    stw_costs *costs;
    stw_error error = {0};
    snprintf(path, sizeof path, "%s/data/graphs/%s", STW_SOURCE_DIR, name);
    const bool ok = stw_graph_open(path, NULL, &graph, &error) == STW_OK &&
                    stw_machine_open("h200x1", &machine, &error) == STW_OK &&
                    stw_costs_create(graph, machine, NULL, &costs, &error) == STW_OK;
    CHECK_STR(error.message, "");
    if (!CHECK(ok)) return;
    built b = build(graph, costs->us[0], LEVELS(8192, 2048, 512, 128, 32));
    check_all(graph, &b.levels, true);
    for (int32_t l = 1, wanted = 32; l < b.levels.count; l++, wanted *= 4) {
        const stw_units *units = &b.levels.level[b.levels.count - l];
        CHECK_EQ_INT(units->count, wanted);
        if (wanted > 128) continue; /* there, single ops may be far above the mean */
        double all = 0.0, most = 0.0;
        for (int32_t u = 0; u < units->count; u++) {
            double us = 0.0;
            for (int32_t k = units->start[u]; k < units->start[u + 1]; k++) us += costs->us[0][units->member[k]];
            all += us;
            most = us > most ? us : most;
        }
        CHECK(wanted > 32 || most <= 4.0 * all / wanted);
    }
    stw_arena_destroy(&b.arena);
    stw_costs_destroy(costs);
    stw_machine_destroy(machine);
    stw_graph_destroy(graph);
}

TEST(units, every_graph_that_comes_along) {
    struct dirent **entries = NULL;
    const int count = scandir(STW_SOURCE_DIR "/data/graphs", &entries, is_graph, alphasort);
    CHECK(count >= 20);
    for (int k = 0; k < count; k++) {
        test_context("%s", entries[k]->d_name);
        check_graph(entries[k]->d_name);
        free(entries[k]);
    }
    test_context("%s", "");
    free(entries);
}
