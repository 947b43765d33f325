/* import/hlo_proto: modules of XLA in both formats give one graph, and damaged ones are refused. The files in data/ are a
 * convolution with a branch, a training step with a loop, and a module after XLA's own fusion. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/hlo/hlo.h"
#include "import/import.h"
#include "import/wire/pbwire.h"
#include "test.h"

static const char *const names[] = {"hlo_conv", "hlo_train", "hlo_fused"};

static bool load(const char *name, const char *ending, stw_arena *arena, stw_str *out) {
    char path[4096];
    stw_error error = {0};
    snprintf(path, sizeof path, "%s/tests/import/data/%s.%s", STW_SOURCE_DIR, name, ending);
    return CHECK_EQ_INT(stw_file_read(path, arena, out, &error), STW_OK) && CHECK_STR(error.message, "");
}

static void check_same(const stw_graph *a, const stw_graph *b) {
    if (!CHECK(a != NULL && b != NULL) || !CHECK_EQ_INT(a->N, b->N)) return;
    CHECK_STR(a->fingerprint, b->fingerprint);
    CHECK_STR(a->name.p, b->name.p);
    for (int32_t i = 0; i < a->N; i++) {
        CHECK_STR(a->node_name[i].p, b->node_name[i].p);
        CHECK_EQ_INT(a->flops[i], b->flops[i]);
        CHECK_EQ_INT(stw_graph_moved(a, i), stw_graph_moved(b, i));
        CHECK_EQ_INT(a->bytes[i], b->bytes[i]);
        CHECK_EQ_INT(a->op_class[i], b->op_class[i]);
    }
}

TEST(hlo_proto, same_as_text) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        stw_arena arena;
        stw_str text, bytes;
        stw_graph *a = NULL, *b = NULL;
        stw_error error = {0};
        test_context("%s", names[k]);
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        if (load(names[k], "txt", &arena, &text) && load(names[k], "pb", &arena, &bytes)) {
            CHECK(stw_hlo_text_is(text) && !stw_hlo_proto_is(text));
            CHECK(stw_hlo_proto_is(bytes) && !stw_hlo_text_is(bytes));
            CHECK_EQ_INT(stw_hlo_text_read(text, &a, &error), STW_OK);
            CHECK_EQ_INT(stw_hlo_proto_read(bytes, &b, &error), STW_OK);
            CHECK_STR(error.message, "");
            check_same(a, b);
        }
        stw_graph_destroy(a);
        stw_graph_destroy(b);
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
}

/* The assignment of devices says how many partitions the program was cut into. */
TEST(hlo_proto, partitions) {
    static const char assigned[] = "\x7a\x04\x08\x01\x10\x04"; /* field 15: replicas 1, partitions 4 */
    stw_arena arena;
    stw_str bytes;
    stw_graph *graph = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_conv", "pb", &arena, &bytes)) {
        const size_t before = (size_t)bytes.length, more = sizeof assigned - 1;
        char *both = malloc(before + more);
        memcpy(both, bytes.p, before);
        memcpy(both + before, assigned, more);
        CHECK_EQ_INT(stw_hlo_proto_read((stw_str){both, (int64_t)(before + more)}, &graph, NULL), STW_OK);
        if (graph != NULL) CHECK_EQ_INT(graph->partitions, 4);
        free(both);
    }
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

/* HloProto: the module is its field 1, a buffer assignment may follow. */
TEST(hlo_proto, within_hlo_proto) {
    stw_arena arena;
    stw_str bytes, wrapped;
    stw_graph *a = NULL, *b = NULL;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_conv", "pb", &arena, &bytes)) {
        stw_pb_writer w = {.arena = &arena};
        stw_pb_write_string(&w, 1, bytes);
        stw_pb_write_string(&w, 3, STW_STR(""));
        CHECK_EQ_INT(stw_pb_written(&w, &wrapped, NULL), STW_OK);
        CHECK(stw_hlo_proto_is(wrapped));
        CHECK_EQ_INT(stw_hlo_proto_read(bytes, &a, NULL), STW_OK);
        CHECK_EQ_INT(stw_hlo_proto_read(wrapped, &b, NULL), STW_OK);
        check_same(a, b);
    }
    stw_graph_destroy(a);
    stw_graph_destroy(b);
    stw_arena_destroy(&arena);
}

/* The loop of the training step: five products of 8 x 64 x 64, forward and twice back. */
TEST(hlo_proto, loop) {
    stw_arena arena;
    stw_str bytes;
    stw_graph *graph = NULL;
    double flops = 0.0;
    int32_t updated = 0;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_train", "pb", &arena, &bytes) && CHECK_EQ_INT(stw_hlo_proto_read(bytes, &graph, NULL), STW_OK)) {
        for (int32_t i = 0; i < graph->N; i++) {
            flops += graph->op_class[i] == STW_CLASS_MATMUL ? (double)graph->flops[i] : 0.0;
            updated += graph->updates[i] >= 0;
        }
        CHECK_NEAR(flops, 3.0 * (5 * 2.0 * 8 * 64 * 64 + 2.0 * 8 * 64 * 10), 2e4);
        CHECK_EQ_INT(updated, 2);
    }
    stw_graph_destroy(graph);
    stw_arena_destroy(&arena);
}

static void try_bytes(const char *bytes, size_t length, bool must_fail) {
    stw_error error = {0};
    stw_graph *graph = NULL;
    const stw_str text = {bytes, (int64_t)length};
    stw_hlo_proto_is(text);
    const stw_status status = stw_hlo_proto_read(text, &graph, &error);
    if (must_fail) CHECK_EQ_INT(status, STW_ERROR_INPUT);
    if (status != STW_OK) CHECK(graph == NULL && error.message[0] != '\0' && strchr(error.message, '\n') == NULL);
    stw_graph_destroy(graph);
}

TEST(hlo_proto, cut_off) {
    stw_arena arena;
    stw_str bytes;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_conv", "pb", &arena, &bytes)) {
        int64_t entry = 0; /* where the last computation begins: before its end there is no whole one */
        stw_error error = {0};
        stw_pb_file file = stw_pb_open(bytes, &error);
        stw_pb module = stw_pb_message(&file);
        for (stw_pb_field f; stw_pb_next(&module, &f);) {
            if (f.number == 3) entry = stw_pb_offset(&file, f.at);
        }
        for (int64_t length = 0; length < bytes.length; length += length < 600 || length > bytes.length - 300 ? 1 : 5) {
            char *copy = malloc((size_t)length + 1);
            if (copy == NULL) return;
            memcpy(copy, bytes.p, (size_t)length);
            test_context("%lld bytes", (long long)length);
            try_bytes(copy, (size_t)length, length > entry && length < entry + 100);
            free(copy);
        }
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

TEST(hlo_proto, bytes_changed) {
    static const unsigned char changes[] = {0x01, 0x80, 0xff};
    stw_arena arena;
    stw_str bytes;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_conv", "pb", &arena, &bytes)) {
        char *copy = malloc((size_t)bytes.length);
        for (int64_t k = 0; copy != NULL && k < bytes.length; k += 2) {
            memcpy(copy, bytes.p, (size_t)bytes.length);
            copy[k] = (char)(copy[k] ^ changes[k % 3]);
            test_context("byte %lld ^ %d", (long long)k, changes[k % 3]);
            try_bytes(copy, (size_t)bytes.length, false);
        }
        free(copy);
        CHECK(copy != NULL);
    }
    test_context("%s", "");
    stw_arena_destroy(&arena);
}

/* ---- made by hand ---- */

typedef struct {
    stw_arena arena;
    stw_pb_writer w;
    int64_t computation;
} maker;

static void begin(maker *m) {
    CHECK_EQ_INT(stw_arena_create(&m->arena, NULL), STW_OK);
    m->w = (stw_pb_writer){.arena = &m->arena};
    stw_pb_write_string(&m->w, 1, STW_STR("m"));
    m->computation = stw_pb_begin(&m->w, 3);
    stw_pb_write_string(&m->w, 1, STW_STR("e"));
}

/* An instruction of shape f32[2]; operand < 0: none. `depth`: tuples around its shape. */
static void put(maker *m, const char *name, const char *opcode, int64_t id, int64_t operand, int depth) {
    const int64_t dimension = 2, instruction = stw_pb_begin(&m->w, 2);
    int64_t shape[200];
    stw_pb_write_string(&m->w, 1, stw_str_of(name));
    stw_pb_write_string(&m->w, 2, stw_str_of(opcode));
    for (int k = 0; k < depth; k++) {
        shape[k] = stw_pb_begin(&m->w, k == 0 ? 3 : 4);
        stw_pb_write_int(&m->w, 2, 13);
    }
    shape[depth] = stw_pb_begin(&m->w, depth == 0 ? 3 : 4);
    stw_pb_write_int(&m->w, 2, 11);
    stw_pb_write_ints(&m->w, 3, &dimension, 1);
    for (int k = depth; k >= 0; k--) stw_pb_end(&m->w, shape[k]);
    stw_pb_write_int(&m->w, 35, id);
    if (operand >= 0) stw_pb_write_ints(&m->w, 36, &operand, 1);
    stw_pb_end(&m->w, instruction);
}

static stw_str end(maker *m, int64_t root) {
    stw_str bytes = {0};
    stw_pb_write_int(&m->w, 5, 1);
    stw_pb_write_int(&m->w, 6, root);
    stw_pb_end(&m->w, m->computation);
    stw_pb_write_int(&m->w, 6, 1);
    CHECK_EQ_INT(stw_pb_written(&m->w, &bytes, NULL), STW_OK);
    return bytes;
}

static stw_status finish(maker *m, int64_t root, stw_error *error) {
    const stw_str bytes = end(m, root);
    stw_graph *graph = NULL;
    const stw_status status = stw_hlo_proto_read(bytes, &graph, error);
    if (graph != NULL) CHECK_EQ_INT(graph->bytes[0], 8);
    stw_graph_destroy(graph);
    stw_arena_destroy(&m->arena);
    return status;
}

static const struct {
    const char *name, *opcode;
    int64_t id, operand, root;
    int depth;
    const char *why; /* NULL: taken */
} second[] = {
    {"b", "negate", 2, 1, 2, 0, NULL},
    {"b", "frobnicate", 2, 1, 2, 0, NULL},
    {"b", "negate", 2, 2, 2, 0, "instruction 2 is not defined before it"},
    {"b", "negate", 2, 7, 2, 0, "instruction 7 is not defined before it"},
    {"b", "negate", 2, -1, 2, 0, "too few operands"},
    {"b", "negate", 1, 1, 1, 0, "the id 1 stands twice"},
    {"b", "negate", 2, 1, 9, 0, "its root 9 is not in it"},
    {"b", "get-tuple-element", 2, 1, 2, 0, "its operand is not a tuple"},
    {"b", "parameter", 2, -1, 2, 0, "parameter(0) stands twice"},
    {"b", "fusion", 2, 1, 2, 0, "it calls is missing"},
    {"b", "custom-call", 2, 1, 2, 50, NULL},
    {"b", "custom-call", 2, 1, 2, 150, "deep"},
};

TEST(hlo_proto, by_hand) {
    for (size_t k = 0; k < sizeof second / sizeof second[0]; k++) {
        stw_error error = {0};
        maker m;
        test_context("%zu %s", k, second[k].opcode);
        begin(&m);
        put(&m, "a", "parameter", 1, -1, 0);
        put(&m, second[k].name, second[k].opcode, second[k].id, second[k].operand, second[k].depth);
        CHECK_EQ_INT(finish(&m, second[k].root, &error), second[k].why == NULL ? STW_OK : STW_ERROR_INPUT);
        if (second[k].why != NULL) CHECK_CONTAINS(error.message, second[k].why);
        if (second[k].why == NULL) CHECK_STR(error.message, "");
    }
    test_context("%s", "");
}

TEST(hlo_proto, cut_at_every_byte) {
    maker m;
    begin(&m);
    put(&m, "a", "parameter", 1, -1, 0);
    put(&m, "b", "negate", 2, 1, 0);
    const stw_str bytes = end(&m, 2);
    const int64_t tail = 2; /* the entry's id: without it the last computation is the entry */
    for (int64_t length = 0; length < bytes.length; length++) {
        char *copy = malloc((size_t)length + 1); /* to measure, so that a sanitizer sees every step too far */
        if (copy == NULL) break;
        memcpy(copy, bytes.p, (size_t)length);
        test_context("%lld bytes", (long long)length);
        try_bytes(copy, (size_t)length, length != bytes.length - tail);
        free(copy);
    }
    test_context("%s", "");
    stw_arena_destroy(&m.arena);
}

TEST(hlo_proto, other_formats_are_not_it) {
    CHECK(!stw_hlo_proto_is(STW_STR("")));
    CHECK(!stw_hlo_proto_is(STW_STR("{\"format\":\"opgraph\"}")));
    CHECK(
        !stw_hlo_proto_is(STW_STR("\x0a\x0a\x0a\x01x\x12\x05"
                                  "Const")));                      /* a GraphDef of one node */
    CHECK(!stw_hlo_proto_is(STW_STR("\x08\x07\x3a\x02\x0a\x00"))); /* an ONNX model */
}
