/* graph: what is derived from a file (roots, edges, waits, orders, the fingerprint), and the operator table. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/acyclic.h"
#include "graph/construct.h"
#include "support/small.h"
#include "test.h"

static stw_graph *parse(small_text text) {
    stw_error error = {0};
    stw_graph *graph = NULL;
    char *file = small_graph_text(text);
    CHECK_EQ_INT(stw_graph_parse(file, strlen(file), "g.json", NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    free(file);
    if (graph == NULL) exit(1);
    return graph;
}

/* "4/2 5" for the reads (4, through view 2) and (5, whole). */
static const char *uses_text(const stw_use *use, int64_t count) {
    static char text[500];
    int length = 0;
    text[0] = '\0';
    for (int64_t k = 0; k < count; k++) {
        length += snprintf(text + length, sizeof text - (size_t)length, k > 0 ? " %d" : "%d", use[k].node);
        if (use[k].view >= 0) length += snprintf(text + length, sizeof text - (size_t)length, "/%d", use[k].view);
    }
    return text;
}

static const char *reads(const stw_graph *g, int32_t i) {
    return uses_text(g->read + g->read_start[i], g->read_start[i + 1] - g->read_start[i]);
}

static const char *readers(const stw_graph *g, int32_t i) {
    return uses_text(g->reader + g->reader_start[i], g->reader_start[i + 1] - g->reader_start[i]);
}

static const char *ids_text(const int32_t *id, int64_t count) {
    static char text[500];
    int length = 0;
    text[0] = '\0';
    for (int64_t k = 0; k < count; k++)
        length += snprintf(text + length, sizeof text - (size_t)length, k > 0 ? " %d" : "%d", id[k]);
    return text;
}

static const char *waits(const stw_graph *g, int32_t i) {
    return ids_text(g->wait + g->wait_start[i], g->wait_start[i + 1] - g->wait_start[i]);
}

/* ---- edges ---- */

TEST(graph, roots_and_outputs) {
    stw_graph *g =
        parse((small_text){.nodes = OP(0, "a", "[]", 8, 1) VIEW(1, "v", 0, 8) NODE(2, "w", "slice", "[1,0]", 4, ",'view':true")
                               SOURCE(3, "p", "parameter", 4) VIEW(4, "pv", 3, 4) OP(5, "b", "[2,4]", 4, 1) OP(6, "c", "[]", 4, 1)
                                   NODE(7, "i", "getitem", "[5,6]", 4, ",'view':true"),
                           .outputs = "[2,6,4]"});
    static const int32_t root[] = {0, 0, 0, 3, 3, 5, 6, 5};
    static const bool kept[] = {true, false, false, true, false, false, true, false}; /* a and p through views of theirs */
    for (int32_t i = 0; i < 8; i++) {
        test_context("node %d", i);
        CHECK_EQ_INT(g->root[i], root[i]); /* a view's second input does not count */
        CHECK_EQ_INT(g->kept[i], kept[i]);
    }
    test_context("%s", "");
    CHECK_EQ_INT(g->op_count, 3);
    stw_graph_destroy(g);
}

TEST(graph, reads_and_readers) {
    stw_graph *g =
        parse((small_text){.nodes = SOURCE(0, "p", "parameter", 8) OP(1, "a", "[0,0]", 8, 1) VIEW(2, "v", 1, 4) VIEW(3, "w", 2, 2)
                               OP(4, "b", "[3,1,2,1,3,0]", 8, 1) OP(5, "c", "[2,4]", 8, 1) OP(6, "d", "[1]", 8, 1)});
    CHECK_STR(reads(g, 0), "");
    CHECK_STR(reads(g, 1), "0");           /* once */
    CHECK_STR(reads(g, 2), "");            /* a view reads nothing itself */
    CHECK_STR(reads(g, 4), "0 1 1/2 1/3"); /* by producer, the whole before its views */
    CHECK_STR(reads(g, 5), "1/2 4");
    CHECK_STR(readers(g, 0), "1 4");
    CHECK_STR(readers(g, 1), "4 6 4/2 5/2 4/3"); /* by view, then reader */
    CHECK_STR(readers(g, 2), "");
    CHECK_STR(readers(g, 4), "5");
    CHECK_STR(readers(g, 6), "");
    stw_graph_destroy(g);
}

/* ---- waits and orders ---- */

TEST(graph, waits_of_control_edges) {
    stw_graph *g = parse((small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[]", 1, 1) VIEW(2, "v", 1, 1)
                                          OP(3, "b", "[]", 1, 1) OP_WITH(4, "c", "[1]", 1, 1, ",'control':[3,2,0,3]")});
    CHECK_STR(waits(g, 3), "");
    CHECK_STR(waits(g, 4), "1 3"); /* a view means its root, a source nothing, and each once; that c reads a changes nothing */
    stw_graph_destroy(g);
}

TEST(graph, waits_of_updates) {
    /* u (4) writes p. It waits for a, which reads a view of p, for b, and for the late reader d; not for e and f, which come
     * after it by data and by control, nor for itself. */
    stw_graph *g = parse((small_text){.nodes = SOURCE(0, "p", "parameter", 4) VIEW(1, "v", 0, 2) OP(2, "a", "[1]", 1, 1)
                                          OP(3, "b", "[0]", 1, 1) OP_WITH(4, "u", "[0,2]", 4, 1, ",'updates':0,'control':[3]")
                                              OP(5, "d", "[0]", 1, 1) OP(6, "e", "[4,1]", 1, 1)
                                                  OP_WITH(7, "f", "[0]", 1, 1, ",'control':[4]")});
    CHECK_STR(waits(g, 4), "2 3 5");
    CHECK_STR(waits(g, 7), "4");
    CHECK_EQ_INT(g->updated_by[0], 4);
    CHECK_EQ_INT(g->updates[4], 0);
    CHECK_STR(ids_text(g->topological, g->op_count), "2 3 5 4 6 7");
    stw_graph_destroy(g);
    /* The same where nothing comes late: ids are the order. */
    g = parse(
        (small_text){.nodes = SOURCE(0, "p", "buffer", 4) OP(1, "a", "[0]", 1, 1) OP_WITH(2, "u", "[]", 4, 1, ",'updates':0")});
    CHECK_STR(waits(g, 2), "1");
    CHECK_STR(ids_text(g->topological, g->op_count), "1 2");
    stw_graph_destroy(g);
}

TEST(graph, waits_that_would_close_a_cycle) {
    /* u (2) writes p, w (3) writes q; a (4) reads p and w, b (5) reads q and u. u -> wait for a -> w -> wait for b -> u: the wait
     * that comes later by update id, that of w for b, is left out. */
    stw_graph *g = parse((small_text){.nodes = SOURCE(0, "p", "parameter", 1) SOURCE(1, "q", "parameter", 1)
                                          OP_WITH(2, "u", "[]", 1, 1, ",'updates':0") OP_WITH(3, "w", "[]", 1, 1, ",'updates':1")
                                              OP(4, "a", "[0,3]", 1, 1) OP(5, "b", "[1,2]", 1, 1)});
    CHECK_STR(waits(g, 2), "4");
    CHECK_STR(waits(g, 3), "");
    CHECK_STR(ids_text(g->topological, g->op_count), "3 4 2 5"); /* u has the smallest id but must wait */
    stw_graph_destroy(g);
    /* Turned around: now the update of q has the smaller id. */
    g = parse((small_text){.nodes = SOURCE(0, "p", "parameter", 1) SOURCE(1, "q", "parameter", 1)
                               OP_WITH(2, "w", "[]", 1, 1, ",'updates':1") OP_WITH(3, "u", "[]", 1, 1, ",'updates':0")
                                   OP(4, "a", "[0,2]", 1, 1) OP(5, "b", "[1,3]", 1, 1)});
    CHECK_STR(waits(g, 2), "5");
    CHECK_STR(waits(g, 3), "");
    CHECK_STR(ids_text(g->topological, g->op_count), "3 5 2 4");
    stw_graph_destroy(g);
}

TEST(graph, topological_order_is_stable) {
    /* Where ids ascend along all edges they are the order, whatever else would be possible. */
    stw_graph *g = parse((small_text){.nodes = OP(0, "a", "[]", 1, 1) SOURCE(1, "p", "input", 1) OP(2, "b", "[0]", 1, 1)
                                          OP(3, "c", "[1]", 1, 1) VIEW(4, "v", 3, 1) OP(5, "d", "[0]", 1, 1)});
    CHECK_STR(ids_text(g->topological, g->op_count), "0 2 3 5");
    stw_graph_destroy(g);
    /* Two late readers, x (5) and y (4): the rest goes by id as soon as it may. */
    g = parse((small_text){.nodes = SOURCE(0, "p", "parameter", 1) OP(1, "a", "[]", 1, 1)
                               OP_WITH(2, "u", "[]", 1, 1, ",'updates':0") OP(3, "b", "[2]", 1, 1) OP(4, "y", "[0]", 1, 1)
                                   OP(5, "x", "[0]", 1, 1) OP(6, "c", "[1]", 1, 1)});
    CHECK_STR(ids_text(g->topological, g->op_count), "1 4 5 2 3 6");
    stw_graph_destroy(g);
}

/* ---- edges without cycles, random ones, against reachability by brute force ---- */

enum { NODES = 12 };

static bool reaches(bool edge[NODES][NODES], int32_t from, int32_t to, bool seen[NODES]) {
    if (from == to) return true;
    seen[from] = true;
    for (int32_t i = 0; i < NODES; i++) {
        if (edge[from][i] && !seen[i] && reaches(edge, i, to, seen)) return true;
    }
    return false;
}

TEST(acyclic, refuses_exactly_what_closes_a_cycle) {
    const stw_rng seeds = stw_rng_create(71);
    int refused = 0, added = 0;
    for (int round = 0; round < 300; round++) {
        stw_rng rng = stw_rng_split(&seeds, (uint64_t)round);
        bool edge[NODES][NODES] = {{false}};
        stw_arena arena;
        stw_acyclic *edges;
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        CHECK_EQ_INT(stw_acyclic_create(NODES, 80, &arena, &edges, NULL), STW_OK);
        for (int k = 0; k < 80; k++) {
            const int32_t from = (int32_t)stw_rng_below(&rng, NODES), to = (int32_t)stw_rng_below(&rng, NODES);
            bool seen[NODES] = {false};
            const bool cycle = reaches(edge, to, from, seen);
            test_context("round %d, edge %d: %d -> %d", round, k, from, to);
            CHECK_EQ_INT(stw_acyclic_add(edges, from, to), !cycle);
            edge[from][to] |= !cycle;
            refused += cycle;
            added += !cycle;
        }
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
    CHECK(refused > 1000 && added > 1000);
}

/* ---- the fingerprint ---- */

#define FIRST  "{'id':0,'name':'x','op':'input','inputs':[],'dtype':'f32','shape':[2,3]},"
#define SECOND "{'id':1,'name':'y','op':'parameter','label':'w','inputs':[],'dtype':'f32','shape':[2,3]},"
#define THIRD                                                                                                                 \
    "{'id':2,'name':'z','op':'add','inputs':[0,1],'dtype':'f32','shape':[2,3],'us':{'h200':1},'attributes':{'dim':1,'keep':[" \
    "true,0.5]}},"
#define FOURTH "{'id':3,'name':'v','op':'view','view':true,'inputs':[2],'dtype':'f32','shape':[6]}"

static void check_fingerprint(const char *nodes, const char *outputs, bool same) {
    stw_graph *one = parse((small_text){.nodes = FIRST SECOND THIRD FOURTH, .outputs = "[2]"});
    stw_graph *other = parse((small_text){.nodes = nodes, .outputs = outputs});
    test_context("%.190s", nodes);
    CHECK_EQ_INT(strlen(stw_graph_fingerprint(one)), 32);
    CHECK_EQ_INT(strcmp(stw_graph_fingerprint(one), stw_graph_fingerprint(other)) == 0, same);
    test_context("%s", "");
    stw_graph_destroy(one);
    stw_graph_destroy(other);
}

TEST(fingerprint, ignores_names_times_and_the_order_of_attributes) {
#define WITH(third) FIRST SECOND "{'id':2,'name':'z','op':'add'" third "}," FOURTH
    check_fingerprint(FIRST SECOND THIRD FOURTH, "[2]", true);
    check_fingerprint("{'id':0,'name':'other','op':'input','inputs':[],'dtype':'f32','shape':[2,3]}," SECOND THIRD FOURTH, "[2]",
                      true);
    check_fingerprint(FIRST "{'id':1,'name':'y','op':'parameter','inputs':[],'dtype':'f32','shape':[2,3]}," THIRD FOURTH, "[2]",
                      true);
    check_fingerprint(
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'us':{'cpu8':7},'attributes':{'dim':1,'keep':[true,0.5]}"), "[2]",
        true);
    check_fingerprint(WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'keep':[ true , 0.5],'dim':1}"), "[2]",
                      true);
    check_fingerprint(WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1.0,'keep':[true,5e-1]}"), "[2]",
                      true);
    check_fingerprint(WITH(",'attributes':{'dim':1,'keep':[true,0.5]},'bytes':24,'shape':[2,3],'dtype':'f32','inputs':[0,1]"),
                      "[2]", true);
}

/* The fingerprint of one op with these attributes. */
static void fingerprint_of(const char *attributes, char out[33]) {
    char text[400];
    stw_graph *graph;
    out[0] = '\0';
    const int length =
        snprintf(text, sizeof text,
                 "{\"format\":\"opgraph\",\"version\":1,\"nodes\":[{\"id\":0,\"name\":\"a\",\"op\":\"relu\",\"inputs\":[],"
                 "\"dtype\":\"f32\",\"shape\":[1],\"attributes\":%s}]}",
                 attributes);
    if (!CHECK_EQ_INT(stw_graph_parse(text, (size_t)length, "a", NULL, &graph, NULL), STW_OK)) return;
    strcpy(out, stw_graph_fingerprint(graph));
    stw_graph_destroy(graph);
}

TEST(fingerprint, tells_nested_lists_and_large_numbers_apart) {
    static const char *const different[][2] = {{"{\"a\":[[1],2]}", "{\"a\":[[1,2]]}"},
                                               {"{\"a\":1e999,\"b\":1}", "{\"a\":1e999,\"b\":2}"},
                                               {"{\"a\":9007199254740993}", "{\"a\":9007199254740992}"}};
    char one[33], other[33];
    for (size_t k = 0; k < sizeof different / sizeof different[0]; k++) {
        fingerprint_of(different[k][0], one);
        fingerprint_of(different[k][1], other);
        CHECK(strcmp(one, other) != 0);
    }
    fingerprint_of("{\"a\":3}", one);
    fingerprint_of("{\"a\":3.0}", other);
    CHECK_STR(one, other);
}

TEST(fingerprint, covers_the_rest) {
    static const char *const others[] = {
        /* shape, dtype, size */
        FIRST SECOND THIRD "{'id':3,'name':'v','op':'view','view':true,'inputs':[2],'dtype':'f32','shape':[3,2]}",
        FIRST SECOND THIRD "{'id':3,'name':'v','op':'view','view':true,'inputs':[2],'dtype':'s32','shape':[6]}",
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'bytes':25,'attributes':{'dim':1,'keep':[true,0.5]}"),
        /* inputs: other ones, another order, one more */
        WITH(",'inputs':[0,0],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}"),
        WITH(",'inputs':[1,0],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}"),
        WITH(",'inputs':[0,1,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}"),
        /* attributes: another value, another place in a list, another name, one less, none */
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':2,'keep':[true,0.5]}"),
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[0.5,true]}"),
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dims':1,'keep':[true,0.5]}"),
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1}"),
        WITH(",'inputs':[0,1],'dtype':'f32','shape':[2,3]"),
        /* operator, kind, structure */
        FIRST SECOND
        "{'id':2,'name':'z','op':'sub','inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}}"
        "," FOURTH,
        "{'id':0,'name':'x','op':'constant','inputs':[],'dtype':'f32','shape':[2,3]}," SECOND THIRD FOURTH,
        FIRST SECOND THIRD "{'id':3,'name':'v','op':'view','inputs':[2],'dtype':'f32','shape':[6]}",
        WITH(",'updates':1,'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}"),
        WITH(",'control':[0],'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}"),
        WITH(",'colocate':0,'inputs':[0,1],'dtype':'f32','shape':[2,3],'attributes':{'dim':1,'keep':[true,0.5]}"),
        FIRST SECOND THIRD,
    };
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) check_fingerprint(others[k], "[2]", false);
    check_fingerprint(FIRST SECOND THIRD FOURTH, "[3]", false); /* outputs */
    check_fingerprint(FIRST SECOND THIRD FOURTH, "[]", false);
    check_fingerprint(FIRST SECOND THIRD FOURTH, "[2,3]", false);
}

/* ---- nodes, as others see them ---- */

TEST(graph, nodes_are_shown_as_they_were_read) {
    stw_graph *g = parse((small_text){.nodes = SOURCE(0, "w", "parameter", 8) VIEW(1, "v", 0, 4)
                                          NODE(2, "a", "add", "[1,0,1]", 6, ",'flops':7,'updates':0")});
    stw_node n;
    CHECK(stw_graph_node(g, 2, &n));
    CHECK_STR(n.name, "a");
    CHECK_STR(n.op, "add");
    CHECK_STR(n.kind, "op");
    CHECK_STR(n.label, "");
    CHECK_STR(n.dtype, "u8");
    CHECK_EQ_INT(n.bytes, 6);
    CHECK_EQ_INT(n.flops, 7);
    CHECK_EQ_INT(n.rank, 1);
    CHECK_EQ_INT(n.shape[0], 6);
    CHECK_STR(ids_text(n.input, n.input_count), "1 0 1");
    CHECK_EQ_INT(n.root, 2);
    CHECK_EQ_INT(n.updates, 0);
    CHECK(stw_graph_node(g, 1, &n));
    CHECK_STR(n.kind, "view");
    CHECK_EQ_INT(n.root, 0);
    CHECK_EQ_INT(n.updates, -1);
    CHECK(stw_graph_node(g, 0, &n));
    CHECK_STR(n.kind, "parameter");
    CHECK_EQ_INT(n.input_count, 0);
    CHECK(!stw_graph_node(g, 3, &n));
    CHECK(!stw_graph_node(g, -1, &n));
    stw_graph_destroy(g);
}

/* ---- operators ---- */

TEST(ops, names_of_the_four_vocabularies) {
    static const struct {
        stw_vocabulary vocabulary;
        const char *name, *row;
        stw_op_class op_class;
    } known[] = {
        {STW_ATEN, "mm", "matmul", STW_CLASS_MATMUL},
        {STW_ATEN, "add", "add", STW_CLASS_ELEMENTWISE},
        {STW_ATEN, "add.Tensor", "add", STW_CLASS_ELEMENTWISE},
        {STW_ATEN, "convolution.out", "convolution", STW_CLASS_CONVOLUTION},
        {STW_HLO, "dot", "matmul", STW_CLASS_MATMUL},
        {STW_HLO, "add", "add", STW_CLASS_ELEMENTWISE},
        {STW_ONNX, "MatMul", "matmul", STW_CLASS_MATMUL},
        {STW_ONNX, "Gemm", "addmm", STW_CLASS_MATMUL},
        {STW_ONNX, "Conv", "convolution", STW_CLASS_CONVOLUTION},
        {STW_TENSORFLOW, "BatchMatMulV2", "batch_matmul", STW_CLASS_MATMUL},
        {STW_TENSORFLOW, "Conv2D", "convolution", STW_CLASS_CONVOLUTION},
    };
    stw_arena arena;
    stw_op_index *index;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (!CHECK_EQ_INT(stw_op_index_create(&arena, &index, NULL), STW_OK)) return;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        test_context("%s", known[k].name);
        const int32_t row = stw_op_find(index, known[k].vocabulary, stw_str_of(known[k].name));
        if (!CHECK(row >= 0)) continue;
        CHECK_STR(stw_op_table[row].name, known[k].row);
        CHECK_EQ_INT(stw_op_table[row].op_class, known[k].op_class);
        CHECK(stw_op_find_any(index, stw_str_of(known[k].name)) >= 0);
    }
    test_context("%s", "");
    CHECK_EQ_INT(stw_op_find(index, STW_ONNX, STW_STR("mm")), -1); /* each vocabulary by itself */
    CHECK_EQ_INT(stw_op_find(index, STW_ATEN, STW_STR("MatMul")), -1);
    CHECK_EQ_INT(stw_op_find(index, STW_ONNX, STW_STR("MatMul.out")), -1); /* only aten has overloads */
    CHECK_EQ_INT(stw_op_find_any(index, STW_STR("mystery")), -1);
    CHECK_EQ_INT(stw_op_find_any(index, STW_STR("")), -1);
    CHECK_EQ_INT(stw_op_find_any(index, STW_STR(".Tensor")), -1);
    CHECK_EQ_INT(stw_op_find_any(index, STW_STR("add mul")), -1);
    stw_arena_destroy(&arena);
}

TEST(ops, every_name_is_found_in_its_row) {
    stw_arena arena;
    stw_op_index *index;
    CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK);
    if (!CHECK_EQ_INT(stw_op_index_create(&arena, &index, NULL), STW_OK)) return;
    int names = 0;
    for (int32_t row = 0; row < stw_op_count; row++) {
        for (int v = 0; v < STW_VOCABULARY_COUNT; v++) {
            for (const char *c = stw_op_table[row].names[v]; *c != '\0'; names++) {
                const size_t length = strcspn(c, " ");
                test_context("%.*s", (int)length, c);
                CHECK_EQ_INT(stw_op_find(index, (stw_vocabulary)v, (stw_str){c, (int64_t)length}), row);
                c += length + (c[length] == ' ');
            }
        }
    }
    test_context("%s", "");
    CHECK(names > 2000);
    stw_arena_destroy(&arena);
}

/* Where lists begin are 32-bit numbers: a graph that has more is refused before anything of it is kept. */
TEST(graph, lists_have_a_limit) {
    stw_arena scratch;
    stw_error error = {0};
    stw_graph *g = NULL;
    stw_constructor c;
    const int64_t shape[] = {2}, input[] = {0};
    const stw_raw_node node = {
        .name = STW_STR("a"), .op = STW_STR("relu"), .shape = shape, .rank = 1, .bytes = 8, .moved = -1, .at = -1};
    const stw_raw_links none = {.updates = -1, .colocate = -1},
                        one = {.input = input, .input_count = 1, .updates = -1, .colocate = -1};
    CHECK_EQ_INT(stw_arena_create(&scratch, &error), STW_OK);
    CHECK_EQ_INT(stw_graph_create(&g, &error), STW_OK);
    CHECK_EQ_INT(stw_construct_begin(&c, g, 2, &scratch, &error), STW_OK);
    CHECK_EQ_INT(stw_construct_node(&c, &node, &none, &error), STW_OK);
    c.input.count = STW_GRAPH_MAX_LINKS;
    CHECK_EQ_INT(stw_construct_node(&c, &node, &one, &error), STW_ERROR_INPUT);
    CHECK_STR(error.message, "with 536870913 inputs the graph is too large; at most 2^29 are possible, so give a part of it");
    c.input.count = 0;
    c.shape.count = STW_GRAPH_MAX_LINKS;
    CHECK_EQ_INT(stw_construct_node(&c, &node, &one, &error), STW_ERROR_INPUT);
    CHECK(strstr(error.message, "536870913 dimensions") != NULL);
    stw_graph_destroy(g);
    stw_arena_destroy(&scratch);
}

/* What is -1 of every node is no list; it is there from the first node on that has another value. */
TEST(graph, rare_lists) {
    stw_arena scratch;
    stw_error error = {0};
    stw_graph *g = NULL;
    stw_constructor c;
    stw_raw_node node = {.name = STW_STR("a"), .op = STW_STR("relu"), .bytes = 8, .moved = -1, .at = -1};
    const stw_raw_links none = {.updates = -1, .colocate = -1};
    CHECK_EQ_INT(stw_arena_create(&scratch, &error), STW_OK);
    CHECK_EQ_INT(stw_graph_create(&g, &error), STW_OK);
    CHECK_EQ_INT(stw_construct_begin(&c, g, 3, &scratch, &error), STW_OK);
    CHECK_EQ_INT(stw_construct_node(&c, &node, &none, &error), STW_OK);
    CHECK(g->moved == NULL && g->at == NULL && g->origin == NULL);
    node.moved = 77;
    CHECK_EQ_INT(stw_construct_node(&c, &node, &none, &error), STW_OK);
    node.moved = -1;
    node.at = 5;
    CHECK_EQ_INT(stw_construct_node(&c, &node, &none, &error), STW_OK);
    for (int32_t i = 0; i < 3; i++) {
        CHECK_EQ_INT(stw_graph_moved(g, i), i == 1 ? 77 : -1);
        CHECK_EQ_INT(stw_graph_at(g, i), i == 2 ? 5 : -1);
        CHECK_EQ_INT(stw_graph_origin(g, i), -1);
    }
    stw_graph_destroy(g);
    stw_arena_destroy(&scratch);
}

TEST(ops, classes) {
    stw_op_class op_class;
    for (int c = 0; c < STW_CLASS_COUNT; c++) {
        CHECK(stw_op_class_find(stw_str_of(stw_op_class_name((stw_op_class)c)), &op_class));
        CHECK_EQ_INT(op_class, c);
    }
    CHECK(!stw_op_class_find(STW_STR("mystery"), &op_class));
    CHECK(stw_op_class_fuses(STW_CLASS_ELEMENTWISE) && stw_op_class_fuses(STW_CLASS_BROADCAST));
    CHECK(stw_op_class_fuses(STW_CLASS_REDUCE) && stw_op_class_fuses(STW_CLASS_SHAPE));
    CHECK(!stw_op_class_fuses(STW_CLASS_MATMUL) && !stw_op_class_fuses(STW_CLASS_OPAQUE) &&
          !stw_op_class_fuses(STW_CLASS_GATHER));
    stw_graph *g = parse(
        (small_text){.nodes = NODE(0, "a", "mystery", "[]", 1, "") NODE(1, "b", "mm", "[]", 1, "") SOURCE(2, "p", "input", 1)});
    CHECK(!g->known[0] && g->known[1] && g->known[2]);
    CHECK_EQ_INT(g->op_class[0], STW_CLASS_OPAQUE); /* what is unknown is opaque */
    CHECK_EQ_INT(g->op_class[1], STW_CLASS_MATMUL);
    stw_graph_destroy(g);
}
