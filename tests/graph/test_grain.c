/* graph: which modules ops belong to, and what goes to one device at each grain, on small models that are written down here. */
#include <stdio.h>
#include <string.h>

#include "graph/grain.h"
#include "support/small.h"
#include "test.h"

/* A stem, two residual blocks of two layers each, and a head whose weight is that of the stem; then a loss and one gradient. */
#define PARAMETER(id, label) NODE(id, label, "parameter", "[]", 4, ",'label':'" label "'")
#define MODEL(key)                                       \
    PARAMETER(0, "stem.w")                               \
    PARAMETER(1, "blocks.0.a.w")                         \
    PARAMETER(2, "blocks.0.b.w")                         \
    PARAMETER(3, "blocks.1.a.w")                         \
    PARAMETER(4, "blocks.1.b.w")                         \
    PARAMETER(5, "place")                                \
    NODE(6, "s", "mm", "[0]", 4, key("stem"))            \
    NODE(7, "x", "add", "[6,5]", 4, "")                  \
    NODE(8, "a0", "mm", "[7,1]", 4, key("blocks.0.a"))   \
    NODE(9, "b0", "mm", "[8,2]", 4, key("blocks.0.b"))   \
    NODE(10, "r0", "add", "[7,9]", 4, key("blocks.0"))   \
    NODE(11, "a1", "mm", "[10,3]", 4, key("blocks.1.a")) \
    NODE(12, "b1", "mm", "[11,4]", 4, key("blocks.1.b")) \
    NODE(13, "loss", "sum", "[12]", 4, "")               \
    NODE(14, "g", "mm", "[13,8]", 4, key("blocks.0.b"))  \
    NODE(15, "u", "sub", "[2,14]", 4, ",'updates':2")
#define STATED(path)  ",'module':'" path "'"
#define NOTHING(path) ""

static void open_parcels(const stw_graph *graph, stw_grain grain, stw_arena *arena, stw_parcels *out) {
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(arena, &error), STW_OK);
    CHECK_EQ_INT(stw_grain_parcels(graph, grain, arena, out, &error), STW_OK);
    CHECK_STR(error.message, "");
}

static bool together(const stw_parcels *p, int32_t a, int32_t b) { return p->of[a] == p->of[b]; }

static small *open_model(bool stated) {
    small *s = small_open((small_text){.nodes = stated ? MODEL(STATED) : MODEL(NOTHING)});
    s->graph->loss = 13;
    return s;
}

TEST(grain, blocks_with_residuals_are_whole_and_others_are_not) {
    small *s = open_model(true);
    stw_arena arena;
    stw_parcels p;
    open_parcels(s->graph, STW_GRAIN_MODULE, &arena, &p);
    CHECK(together(&p, 8, 9) && together(&p, 9, 10) && together(&p, 1, 8) && together(&p, 2, 9)); /* r0 goes around a and b */
    CHECK(!together(&p, 11, 12));                                          /* nothing goes around those of block 1 */
    CHECK(together(&p, 6, 7) && together(&p, 5, 7) && together(&p, 0, 6)); /* the code around reads what is there */
    CHECK(!together(&p, 7, 8) && !together(&p, 10, 11));
    CHECK(together(&p, 13, 12)); /* the loss is where its value is */
    CHECK(together(&p, 14, 9) && together(&p, 15, 2));
    stw_arena_destroy(&arena);
    open_parcels(s->graph, STW_GRAIN_LAYER, &arena, &p);
    CHECK(together(&p, 11, 12) && together(&p, 8, 9) && !together(&p, 9, 11));
    CHECK_EQ_INT(p.count, 3);
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(grain, paths_are_derived_from_labels) {
    small *s = open_model(false);
    stw_arena arena;
    stw_str *path;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_graph_paths(s->graph, &arena, &path, NULL), STW_OK);
    CHECK(stw_str_is(path[8], "blocks.0.a") && stw_str_is(path[14], "blocks.0.b") && stw_str_is(path[15], "blocks.0.b"));
    CHECK(stw_str_is(path[10], "blocks")); /* between blocks.0.b and blocks.1.a */
    CHECK(stw_str_is(path[13], "blocks")); /* behind blocks.1.b, before the gradient of blocks.0.b */
    stw_arena_destroy(&arena);
    stw_parcels p;
    open_parcels(s->graph, STW_GRAIN_LAYER, &arena, &p);
    CHECK(together(&p, 8, 9) && together(&p, 11, 12) && together(&p, 14, 9));
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(grain, stages_are_ranges_of_even_time) {
    small *s = open_model(true);
    stw_arena arena;
    stw_parcels p;
    double us[16];
    for (int32_t i = 0; i < 16; i++) us[i] = 1.0;
    for (int32_t most = 1; most <= 4; most++) {
        open_parcels(s->graph, STW_GRAIN_STAGE, &arena, &p);
        CHECK_EQ_INT(stw_grain_stages(s->graph, us, NULL, most, &arena, &p, NULL), STW_OK);
        CHECK(p.count <= most && p.count == (most < 3 ? most : 3));
        for (int32_t i = 7; i < 13; i++) CHECK(p.of[i] >= p.of[i - 1]); /* the order of the program */
        CHECK_EQ_INT(p.of[14], p.of[9]);
        stw_arena_destroy(&arena);
    }
    small_close(s);
}

/* Of three parcels of equal time, s to x, a0 to r0, a1 to the end, two stages have the first two and the last; not where limits
 * say that the first and the second cannot be on one device. */
TEST(grain, stages_are_cut_where_limits_want_it) {
    small *s = open_model(true);
    stw_arena arena;
    stw_parcels p;
    double us[16] = {[6] = 2.0, [7] = 1.0, [8] = 1.0, [9] = 1.0, [10] = 1.0, [11] = 1.0, [12] = 2.0};
    uint64_t allowed[16];
    for (int32_t i = 0; i < 16; i++) allowed[i] = 3;
    for (int pinned = 0; pinned < 3; pinned++) {
        allowed[0] = pinned > 0 ? 1 : 3; /* the stem's weight */
        allowed[8] = pinned > 0 ? 2 : 3; /* an op of block 0 */
        allowed[12] = pinned > 1 ? 4 : 3;
        open_parcels(s->graph, STW_GRAIN_STAGE, &arena, &p);
        us[10] = pinned > 0 ? 1.0 : 0.0;
        CHECK_EQ_INT(stw_grain_stages(s->graph, us, allowed, 2, &arena, &p, NULL), STW_OK);
        CHECK_EQ_INT(p.count, 2);
        if (pinned == 1) CHECK(p.of[6] != p.of[8] && p.of[8] == p.of[12]);
        stw_arena_destroy(&arena);
    } /* the third cannot be kept to with two stages: they are as even as can be */
    open_parcels(s->graph, STW_GRAIN_STAGE, &arena, &p);
    CHECK_EQ_INT(stw_grain_stages(s->graph, us, allowed, 3, &arena, &p, NULL), STW_OK);
    CHECK(p.count == 3 && p.of[6] != p.of[8] && p.of[8] != p.of[12]);
    stw_arena_destroy(&arena);
    small_close(s);
}

/* An embedding, two layers and a norm, and a head with the embedding's weight; then the loss, what the backward pass makes of the
 * head, the norm and the embedding, and the weight's update with the sum of both parts of its gradient. */
#define TIED(key, code)                                                 \
    PARAMETER(0, "m.e.w")                                               \
    PARAMETER(1, "m.b.0.w")                                             \
    PARAMETER(2, "m.b.1.w")                                             \
    PARAMETER(3, "m.norm.w")                                            \
    NODE(4, "e", "embedding", "[0]", 4, key("m.e"))                     \
    NODE(5, "b0", "mm", "[4,1]", 4, key("m.b.0"))                       \
    NODE(6, "b1", "mm", "[5,2]", 4, key("m.b.1"))                       \
    NODE(7, "n", "layer_norm", "[6,3]", 4, key("m.norm"))               \
    NODE(8, "head", "mm", "[7,0]", 4, code)                             \
    NODE(9, "loss", "sum", "[8]", 4, code)                              \
    NODE(10, "of_logits", "relu", "[9,8]", 4, code)                     \
    NODE(11, "to_norm", "mm", "[10,0]", 4, code)                        \
    NODE(12, "of_head", "mm", "[10,7]", 4, code)                        \
    NODE(13, "to_b1", "layer_norm", "[11,6,3]", 4, key("m.norm"))       \
    NODE(14, "to_b0", "mm", "[13,2]", 4, key("m.b.1"))                  \
    NODE(15, "to_e", "mm", "[14,1]", 4, key("m.b.0"))                   \
    NODE(16, "of_e", "embedding_dense_backward", "[15]", 4, key("m.e")) \
    NODE(17, "sum", "add", "[12,16]", 4, key("m.e"))                    \
    NODE(18, "u", "sub", "[0,17]", 4, ",'updates':0")

enum { DERIVED, A_MODULE, IN_CODE };

static small *open_tied(int how) {
    small *s = small_open((small_text){.nodes = how == DERIVED    ? TIED(NOTHING, "")
                                                : how == A_MODULE ? TIED(STATED, STATED("m.head"))
                                                                  : TIED(STATED, "")});
    s->graph->loss = 9;
    return s;
}

TEST(grain, a_tied_head_is_a_module_of_its_own) {
    small *s = open_tied(DERIVED);
    stw_arena arena;
    stw_str *path;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_graph_paths(s->graph, &arena, &path, NULL), STW_OK);
    for (int32_t i = 8; i <= 12; i++) CHECK(stw_str_is(path[i], "m.e_tied"));
    CHECK(stw_str_is(path[4], "m.e") && stw_str_is(path[16], "m.e") && stw_str_is(path[17], "m.e") &&
          stw_str_is(path[18], "m.e"));
    CHECK(stw_str_is(path[7], "m.norm") && stw_str_is(path[13], "m.norm"));
    stw_arena_destroy(&arena);
    small_close(s);
}

/* Modules with the same weight are together; stages have copies of it, and the head is where what it reads is made. */
TEST(grain, stages_have_copies_of_tied_weights) {
    double us[19];
    for (int32_t i = 0; i < 19; i++) us[i] = 1.0;
    for (int how = DERIVED; how <= IN_CODE; how++) {
        small *s = open_tied(how);
        stw_arena arena;
        stw_parcels p;
        test_context("%d", how);
        open_parcels(s->graph, STW_GRAIN_MODULE, &arena, &p);
        for (int32_t i = 8; i <= 12; i++) CHECK(together(&p, i, 0));
        CHECK(together(&p, 4, 0) && together(&p, 18, 0) && !together(&p, 5, 6));
        CHECK(together(&p, 7, 8) == (how == IN_CODE)); /* code around modules is where all is that it reads */
        stw_arena_destroy(&arena);
        for (int32_t most = 1; most <= 4; most++) {
            open_parcels(s->graph, STW_GRAIN_STAGE, &arena, &p);
            CHECK_EQ_INT(p.count, 4);
            CHECK_EQ_INT(stw_grain_stages(s->graph, us, NULL, most, &arena, &p, NULL), STW_OK);
            CHECK_EQ_INT(p.count, most);
            for (int32_t i = 8; i <= 13; i++) CHECK(together(&p, i, 7));
            CHECK(together(&p, 4, 0) && together(&p, 16, 0) && together(&p, 18, 0));
            CHECK(most < 4 || !together(&p, 8, 6));
            stw_arena_destroy(&arena);
        }
        open_parcels(s->graph, STW_GRAIN_OP, &arena, &p);
        CHECK(together(&p, 8, 7) && !together(&p, 8, 0));
        stw_arena_destroy(&arena);
        small_close(s);
    }
    test_context("%s", "");
}

/* A layer that is called again, behind another one, is no head; a parameter beside modules ties nobody but its first reader. */
TEST(grain, what_is_called_again_stays_where_it_is) {
    small *s = small_open((small_text){.nodes = PARAMETER(0, "cell.w") PARAMETER(1, "out.w") PARAMETER(2, "scale")
                                           NODE(3, "a", "mm", "[0]", 4, "") NODE(4, "b", "mm", "[3,1]", 4, "")
                                               NODE(5, "c", "mm", "[4,0]", 4, "")});
    stw_arena arena;
    stw_str *path;
    stw_parcels p;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_graph_paths(s->graph, &arena, &path, NULL), STW_OK);
    CHECK(stw_str_is(path[3], "cell") && stw_str_is(path[5], "cell"));
    stw_arena_destroy(&arena);
    small_close(s);
    s = small_open((small_text){.nodes = PARAMETER(0, "a.w") PARAMETER(1, "b.w") PARAMETER(2, "scale")
                                    NODE(3, "x", "mm", "[0,2]", 4, ",'module':'a'")
                                        NODE(4, "y", "mm", "[3,1,2]", 4, ",'module':'b'")});
    open_parcels(s->graph, STW_GRAIN_MODULE, &arena, &p);
    CHECK(together(&p, 3, 2) && together(&p, 4, 2));
    stw_arena_destroy(&arena);
    open_parcels(s->graph, STW_GRAIN_STAGE, &arena, &p);
    CHECK(together(&p, 3, 2) && !together(&p, 4, 2));
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(grain, every_op_is_with_a_parameter) {
    small *s = small_open((small_text){.nodes = PARAMETER(0, "a.w") PARAMETER(1, "b.w") OP(2, "early", "[]", 4, 1)
                                           NODE(3, "x", "mm", "[0]", 4, ",'module':'a'")
                                               NODE(4, "y", "mm", "[1,3]", 4, ",'module':'b'") OP(5, "late", "[]", 4, 1)});
    stw_arena arena;
    stw_parcels p;
    open_parcels(s->graph, STW_GRAIN_MODULE, &arena, &p);
    CHECK_EQ_INT(p.count, 2);
    CHECK(together(&p, 2, 3) && together(&p, 5, 4));
    CHECK(stw_str_is(p.name[p.of[3]], "a") && stw_str_is(p.name[p.of[4]], "b"));
    stw_arena_destroy(&arena);
    small_close(s);
}

TEST(grain, names_that_are_no_modules_are_refused) {
    small *s = small_open((small_text){.nodes = PARAMETER(0, "a/w") OP(1, "x", "[0]", 4, 1)});
    stw_arena arena;
    stw_parcels p;
    stw_error error = {0};
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    CHECK_EQ_INT(stw_grain_parcels(s->graph, STW_GRAIN_MODULE, &arena, &p, &error), STW_ERROR_INPUT);
    CHECK_CONTAINS(error.message, "stowage.torch.trace");
    stw_arena_destroy(&arena);
    small_close(s);
}
