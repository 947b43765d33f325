/* export/hlo: plans in HLO modules as protobufs: they read back, keep what is not known, and print as text. */
#include <stdio.h>

#include "base/file.h"
#include "hlo_problem.h"
#include "import/wire/pbwire.h"

static const char *const names[] = {"hlo_conv", "hlo_train", "hlo_fused"};

static bool load(const char *name, stw_arena *arena, stw_str *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/import/data/%s.pb", STW_SOURCE_DIR, name);
    return CHECK_EQ_INT(stw_file_read(path, arena, out, NULL), STW_OK);
}

/* Every node of a is in b, by name. */
static void check_same_nodes(const stw_graph *a, const stw_graph *b) {
    if (!CHECK(a != NULL && b != NULL) || !CHECK_EQ_INT(a->N, b->N)) return;
    for (int32_t i = 0; i < a->N; i++) {
        int32_t k = 0;
        while (k < b->N && !stw_str_equal(a->node_name[i], b->node_name[k])) k++;
        test_context("%.*s", STW_STR_SHOW(a->node_name[i]));
        if (!CHECK(k < b->N)) continue;
        CHECK_EQ_INT(a->bytes[i], b->bytes[k]);
        CHECK_EQ_INT(a->flops[i], b->flops[k]);
        CHECK_EQ_INT(a->kind[i], b->kind[k]);
        CHECK_EQ_INT(a->input_start[i + 1] - a->input_start[i], b->input_start[k + 1] - b->input_start[k]);
    }
    test_context("%s", "");
}

/* As a protobuf and as text it is the same graph: that of the protobuf. */
static stw_graph *export_both(problem *p) {
    export_well(p, "hlo");
    CHECK(stw_hlo_proto_is((stw_str){p->io.bytes, (int64_t)p->io.size}));
    stw_graph *graph = read_back(p);
    export_well(p, "hlo-text");
    CHECK(stw_hlo_text_is((stw_str){p->io.bytes, (int64_t)p->io.size}));
    stw_graph *text = read_back(p);
    if (CHECK(graph != NULL && text != NULL)) CHECK_STR(graph->fingerprint, text->fingerprint);
    stw_graph_destroy(text);
    return graph;
}

TEST(hlo_proto_export, reads_back) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        stw_arena arena;
        stw_str bytes;
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        if (load(names[k], &arena, &bytes)) {
            problem p = open_bytes(bytes, "h200x2");
            stw_graph *graph = export_both(&p);
            check_same_nodes(p.graph, graph);
            stw_graph_destroy(graph);
            close_problem(&p);
        }
        stw_arena_destroy(&arena);
    }
}

/* Fields that nobody knows, in the module, the entry and an instruction, survive; HloProto stays HloProto. */
static stw_str with_unknown(stw_str bytes, stw_arena *arena) {
    stw_error error = {0};
    stw_pb_file file = stw_pb_open(bytes, &error);
    stw_pb module = stw_pb_message(&file);
    stw_pb_writer w = {.arena = arena};
    stw_str out = {0};
    const int64_t outer = stw_pb_begin(&w, 1);
    for (stw_pb_field f; stw_pb_next(&module, &f);) {
        if (f.number != 3) {
            stw_pb_write_raw(&w, (stw_str){f.at, (int64_t)(module.cursor - f.at)});
            continue;
        }
        const int64_t computation = stw_pb_begin(&w, 3);
        stw_pb fields = stw_pb_range(&file, f.bytes, 1);
        for (stw_pb_field g; stw_pb_next(&fields, &g);) {
            if (g.number != 2) {
                stw_pb_write_raw(&w, (stw_str){g.at, (int64_t)(fields.cursor - g.at)});
                continue;
            }
            const int64_t instruction = stw_pb_begin(&w, 2);
            stw_pb_write_raw(&w, g.bytes);
            stw_pb_write_string(&w, 900, STW_STR("of an instruction"));
            stw_pb_end(&w, instruction);
        }
        stw_pb_write_string(&w, 901, STW_STR("of a computation"));
        stw_pb_end(&w, computation);
    }
    stw_pb_write_string(&w, 902, STW_STR("of the module"));
    stw_pb_end(&w, outer);
    stw_pb_write_string(&w, 903, STW_STR("of the file"));
    CHECK_EQ_INT(stw_pb_written(&w, &out, NULL), STW_OK);
    return out;
}

static int32_t count_parts(const char *bytes, size_t size, const char *part) {
    int32_t count = 0;
    const size_t length = strlen(part);
    for (size_t k = 0; k + length <= size; k++) count += memcmp(bytes + k, part, length) == 0;
    return count;
}

TEST(hlo_proto_export, unknown_fields_survive) {
    static const char *const marks[] = {"of an instruction", "of a computation", "of the module", "of the file"};
    stw_arena arena;
    stw_str bytes;
    if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
    if (load("hlo_train", &arena, &bytes)) {
        const stw_str model = with_unknown(bytes, &arena);
        problem p = open_bytes(model, "h200x2");
        export_well(&p, "hlo");
        for (int k = 0; k < 4; k++) {
            CHECK_EQ_INT(count_parts(p.io.bytes, p.io.size, marks[k]), count_parts(model.p, (size_t)model.length, marks[k]));
        }
        CHECK_EQ_INT(p.io.bytes[0], 0x0a); /* field 1 */
        close_problem(&p);
    }
    stw_arena_destroy(&arena);
}

#define FUSION_OPCODE \
    "\x12\x06"        \
    "fusion" /* field 2, 6 bytes */

static bool can_fuse(stw_str op) { return !stw_str_is(op, "call") && !stw_str_is(op, "conditional") && !stw_str_is(op, "while"); }

/* Fuses each op that can be with its only reader, where the reader can be too, in pairs. */
static int32_t fuse_pairs(problem *p) {
    const stw_graph *graph = p->graph;
    int32_t pairs = 0;
    int32_t *group = p->plan->group;
    for (int32_t i = 0; i < graph->N; i++) {
        if (graph->kind[i] != STW_NODE_OP || graph->op_class[i] != STW_CLASS_ELEMENTWISE || group[i] != i || graph->kept[i])
            continue;
        if (graph->reader_start[i + 1] - graph->reader_start[i] != 1) continue;
        const int32_t reader = graph->reader[graph->reader_start[i]].node;
        if (graph->op_class[reader] != STW_CLASS_ELEMENTWISE || group[reader] != reader) continue;
        if (!can_fuse(graph->op_name[i]) || !can_fuse(graph->op_name[reader])) continue;
        group[i] = group[reader] = 100000 + pairs++;
    }
    return pairs;
}

TEST(hlo_proto_export, fusions) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        stw_arena arena;
        stw_str bytes;
        test_context("%s", names[k]);
        if (!CHECK_EQ_INT(stw_arena_create(&arena, NULL), STW_OK)) return;
        if (load(names[k], &arena, &bytes)) {
            problem p = open_bytes(bytes, "h200x1");
            const int32_t pairs = fuse_pairs(&p);
            export_well(&p, "hlo");
            const int32_t before = count_parts(bytes.p, (size_t)bytes.length, FUSION_OPCODE);
            CHECK_EQ_INT(count_parts(p.io.bytes, p.io.size, FUSION_OPCODE) - before, pairs);
            for (int32_t i = 0; i < p.graph->N; i++) { /* every instruction is still there */
                char name[200];
                snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(p.graph->node_name[i]));
                if (p.graph->kind[i] == STW_NODE_OP) CHECK(count_parts(p.io.bytes, p.io.size, name) > 0);
            }
            stw_graph *graph = export_both(&p);
            if (CHECK(graph != NULL)) CHECK_EQ_INT(graph->op_count, p.graph->op_count - pairs);
            stw_graph_destroy(graph);
            close_problem(&p);
        }
        stw_arena_destroy(&arena);
    }
    test_context("%s", "");
}
