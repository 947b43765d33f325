/* import/hlo_flow: how XLA's kernels walk their tensors. */
#include <string.h>

#include "import/import.h"
#include "test.h"

static const char module[] =
    "HloModule flows\n"
    "add {\n"
    "  p = f32[] parameter(0)\n"
    "  q = f32[] parameter(1)\n"
    "  ROOT r = f32[] add(p, q)\n"
    "}\n"
    "turned {\n"
    "  p = f32[1024,512]{1,0} parameter(0)\n"
    "  ROOT r = f32[512,1024]{1,0} transpose(p), dimensions={1,0}\n"
    "}\n"
    "rooted {\n"
    "  p = f32[1024,512]{1,0} parameter(0)\n"
    "  s = f32[1024,512]{1,0} sqrt(p)\n"
    "  ROOT r = f32[1024,512]{1,0} add(s, s)\n"
    "}\n"
    "ENTRY main {\n"
    "  x = f32[1024,512]{1,0} parameter(0)\n"
    "  zero = f32[] constant(0)\n"
    "  rows = f32[1024]{0} reduce(x, zero), dimensions={1}, to_apply=add\n"
    "  columns = f32[512]{0} reduce(x, zero), dimensions={0}, to_apply=add\n"
    "  parts = f32[4,128,1024]{2,1,0} parameter(1)\n"
    "  few = f32[128,1024]{1,0} reduce(parts, zero), dimensions={0}, to_apply=add\n"
    "  spread = f32[1024,512]{1,0} broadcast(rows), dimensions={0}\n"
    "  piece = f32[1024,16]{1,0} slice(x), slice={[0:1024], [0:16]}\n"
    "  turn = f32[512,1024]{1,0} fusion(x), kind=kLoop, calls=turned\n"
    "  tiles = f32[512,1024]{1,0} fusion(x), kind=kInput, calls=turned\n"
    "  root = f32[1024,512]{1,0} fusion(spread), kind=kLoop, calls=rooted\n"
    "  both = f32[1024,1024]{1,0} concatenate(x, x), dimensions={1}\n"
    "  ROOT out = (f32[1024,512]{1,0}, f32[512]{0}, f32[128,1024]{1,0}, f32[1024,16]{1,0}, f32[512,1024]{1,0}, "
    "f32[512,1024]{1,0}, "
    "f32[1024,1024]{1,0}) tuple(root, columns, few, piece, turn, tiles, both)\n"
    "}\n";

static int32_t find(const stw_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->N; i++) {
        if (stw_str_is(graph->node_name[i], name)) return i;
    }
    CHECK_STR(name, "a node of the graph");
    return 0;
}

static void check_flow(const stw_graph *graph, const char *name, bool stays, stw_flow expected) {
    const int32_t i = find(graph, name);
    const stw_flow *flow = &graph->flow[i];
    const bool same = flow->row == expected.row && flow->by_element == expected.by_element && flow->folds == expected.folds &&
                      flow->dear == expected.dear && flow->alone == expected.alone && graph->stays[i] == stays;
    CHECK_STR(same ? "" : name, "");
}

TEST(hlo_flow, by_instruction) {
    stw_graph *graph;
    stw_error error = {0};
    CHECK_EQ_INT(stw_graph_parse(module, strlen(module), "module", NULL, &graph, &error), STW_OK);
    CHECK_STR(error.message, "");
    check_flow(graph, "rows", false, (stw_flow){.row = 512, .folds = true});
    check_flow(graph, "columns", true, (stw_flow){0});
    check_flow(graph, "few", false, (stw_flow){0});
    check_flow(graph, "spread", false, (stw_flow){.row = 512, .by_element = true});
    check_flow(graph, "piece", false, (stw_flow){.by_element = true});
    check_flow(graph, "turn", true, (stw_flow){.alone = true});
    check_flow(graph, "tiles", true, (stw_flow){0});
    check_flow(graph, "root", false, (stw_flow){.row = 512, .by_element = true, .dear = true});
    check_flow(graph, "both", true, (stw_flow){0});
    stw_graph_destroy(graph);
}

TEST(hlo_flow, other_files_have_none) {
    static const char text[] =
        "{\"format\":\"opgraph\",\"version\":1,\"name\":\"one\",\"outputs\":[0],\"nodes\":[{\"id\":0,\"name\":\"one\",\"op\":"
        "\"add\","
        "\"inputs\":[],\"dtype\":\"f32\",\"shape\":[1]}]}";
    stw_graph *graph;
    CHECK_EQ_INT(stw_graph_parse(text, strlen(text), "graph", NULL, &graph, NULL), STW_OK);
    CHECK(graph->flow == NULL);
    stw_graph_destroy(graph);
}
